/* External weights: files mapped at first use.
 *
 * The object holds path, size and hash of the file it was compiled with; a file that differs is
 * refused with words, for the packed layout depends on its bytes. The mapping stays until the
 * process ends: kernels keep pointers into it.
 */
#define _GNU_SOURCE
#include "runtime/relaxrt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A file of no bytes maps to this, as NULL means "not yet". */
static const char nothing[1];

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static uint64_t load64(const unsigned char *p) {
  uint64_t x = 0;
  for (int i = 7; i >= 0; i--) x = x << 8 | p[i]; /* little endian on every host */
  return x;
}

/* Four independent lanes of 8 bytes, so that the multiplications overlap; the same value on every
 * host. Finds damage and mix-ups, no defence against an attacker. */
void rx_weights_hash_add(uint64_t lanes[4], const void *data, uint64_t size) {
  const unsigned char *p = data;
  for (uint64_t n = size; n >= 32; n -= 32, p += 32)
    for (int i = 0; i < 4; i++) lanes[i] = mix(lanes[i], load64(p + 8 * i));
}

/* The rest of fewer than 32 bytes, which zeros fill up, ends it. */
static uint64_t hash_end(uint64_t lanes[4], const void *rest, uint64_t size) {
  unsigned char tail[32] = {0};
  if (size % 32) memcpy(tail, rest, (size_t)(size % 32));
  rx_weights_hash_add(lanes, tail, 32);
  return mix(mix(mix(mix(size, lanes[0]), lanes[1]), lanes[2]), lanes[3]);
}

uint64_t rx_weights_hash_end(uint64_t lanes[4], uint64_t size) {
  return hash_end(lanes, NULL, size);
}

uint64_t rx_weights_hash(const void *data, uint64_t size) {
  uint64_t lanes[4] = {1, 2, 3, 4};
  rx_weights_hash_add(lanes, data, size);
  return hash_end(lanes, (const char *)data + size / 32 * 32, size);
}

static int open_file(const char *path, char *used, size_t room) {
  (void)snprintf(used, room, "%s", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  const char *dir = getenv("RELAXRT_WEIGHTS");
  if (fd >= 0 || errno != ENOENT || path[0] == '/' || !dir || !*dir) return fd;
  int n = snprintf(used, room, "%s/%s", dir, path);
  if (n < 0 || (size_t)n >= room) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return open(used, O_RDONLY | O_CLOEXEC);
}

static int map_file(const RxWeightsFile *f, _Atomic(void *) *slot) {
  char path[PATH_MAX];
  int fd = open_file(f->path, path, sizeof path);
  if (fd < 0) return rx_fail(RX_ERR_WEIGHTS, "weights file '%s': %s", path, strerror(errno));
  struct stat st;
  int status = 0;
  if (fstat(fd, &st) != 0) {
    status = rx_fail(RX_ERR_WEIGHTS, "weights file '%s': %s", path, strerror(errno));
  } else if (!S_ISREG(st.st_mode)) {
    status = rx_fail(RX_ERR_WEIGHTS, "weights file '%s': not a regular file", path);
  } else if ((uint64_t)st.st_size != f->size || f->size > SIZE_MAX) {
    status = rx_fail(RX_ERR_WEIGHTS, "weights file '%s': expected %llu bytes but got %lld", path,
                     (unsigned long long)f->size, (long long)st.st_size);
  } else if (f->size == 0) {
    atomic_store(slot, (void *)(uintptr_t)nothing);
  } else {
    void *p = mmap(NULL, (size_t)f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      status = rx_fail(RX_ERR_WEIGHTS, "weights file '%s': %s", path, strerror(errno));
    } else if (rx_weights_hash(p, f->size) != f->hash) {
      status =
          rx_fail(RX_ERR_WEIGHTS,
                  "weights file '%s': its contents differ from those it was compiled with", path);
      (void)munmap(p, (size_t)f->size);
    } else {
      atomic_store(slot, p);
    }
  }
  (void)close(fd);
  return status;
}

int rx_weights_map(const RxWeightsFile *file, void **place, const void **data) {
  _Atomic(void *) *slot = (_Atomic(void *) *)place;
  void *p = atomic_load_explicit(slot, memory_order_acquire);
  int status = 0;
  if (!p) {
    pthread_mutex_lock(&lock);
    if (!atomic_load(slot)) status = map_file(file, slot);
    p = atomic_load(slot);
    pthread_mutex_unlock(&lock);
  }
  *data = p;
  return status;
}
