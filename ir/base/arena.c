/* Bump allocation by lifetime, and the two ways the compiler ends early.
 *
 * An arena is a list of blocks from calloc, whose large blocks the system hands out zeroed page by
 * page, so that an untouched block costs nothing. Objects start at multiples of 16. Under
 * AddressSanitizer the unused part of a block is poisoned and each object gets a red zone, so that
 * an overrun inside an arena is found as one outside would be.
 */
#define _GNU_SOURCE
#include "ir/base/arena.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE 16u
#else
#define RED_ZONE 0u
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 16, BLOCK_MIN = 64 << 10, BLOCK_MAX = 4 << 20 };

typedef struct Block {
  struct Block *next;
  size_t size;
} Block;

struct Arena {
  Block *blocks;
  char *at, *end;
  size_t used, block_size;
};

static void (*fatal_cleanup)(void);

void fatal_set_cleanup(void (*cleanup)(void)) {
  fatal_cleanup = cleanup;
}

void fatal(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fputs("relaxc: fatal error: ", stderr);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
  void (*cleanup)(void) = fatal_cleanup;
  fatal_cleanup = NULL; /* a cleanup that fails itself must not come back here for ever */
  if (cleanup) cleanup();
  exit(1);
}

void bug_at(const char *file, int line, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fflush(stdout);
  fprintf(stderr, "relaxc: internal error at %s:%d: ", file, line);
  vfprintf(stderr, fmt, ap);
  fputs("\nplease report this with the input that caused it\n", stderr);
  va_end(ap);
  void (*cleanup)(void) = fatal_cleanup;
  fatal_cleanup = NULL;
  if (cleanup) cleanup();
  abort();
}

void *xmalloc(size_t n) {
  void *p = malloc(n ? n : 1);
  if (!p) fatal("out of memory (%zu bytes)", n);
  return p;
}

void *xrealloc(void *p, size_t n) {
  void *q = realloc(p, n ? n : 1);
  if (!q) fatal("out of memory (%zu bytes)", n);
  return q;
}

Arena *arena_create(void) {
  Arena *a = xmalloc(sizeof *a);
  *a = (Arena){.block_size = BLOCK_MIN};
  return a;
}

void arena_free(Arena *a) {
  if (!a) return;
  for (Block *b = a->blocks, *next; b; b = next) {
    next = b->next;
    ASAN_UNPOISON_MEMORY_REGION(b, b->size);
    free(b);
  }
  free(a);
}

static Block *block_create(size_t size) {
  Block *b = calloc(1, size);
  if (!b) fatal("out of memory (%zu bytes)", size);
  b->size = size;
  return b;
}

/* An object that doesn't fit: a block of its own when it is large, a new current block otherwise.
 */
static void *arena_alloc_slow(Arena *a, size_t n) {
  const size_t head = (sizeof(Block) + ALIGN - 1) / ALIGN * ALIGN;
  if (n > a->block_size / 4) {
    Block *b = block_create(head + n);
    if (a->blocks) { /* behind the current block, which stays in use */
      b->next = a->blocks->next;
      a->blocks->next = b;
    } else {
      a->blocks = b;
    }
    ASAN_POISON_MEMORY_REGION((char *)b + head + n - RED_ZONE, RED_ZONE);
    return (char *)b + head;
  }
  Block *b = block_create(a->block_size);
  b->next = a->blocks;
  a->blocks = b;
  a->at = (char *)b + head;
  a->end = (char *)b + a->block_size;
  if (a->block_size < BLOCK_MAX) a->block_size *= 2;
  ASAN_POISON_MEMORY_REGION(a->at, (size_t)(a->end - a->at));
  void *p = a->at;
  a->at += n;
  ASAN_UNPOISON_MEMORY_REGION(p, n - RED_ZONE);
  return p;
}

void *arena_alloc(Arena *a, size_t size) {
  if (size > SIZE_MAX / 2) fatal("out of memory (%zu bytes)", size);
  if (size == 0) size = 1;
  size_t n = (size + ALIGN - 1) / ALIGN * ALIGN + RED_ZONE;
  a->used += size;
  if (n > (size_t)(a->end - a->at)) return arena_alloc_slow(a, n);
  void *p = a->at;
  a->at += n;
  ASAN_UNPOISON_MEMORY_REGION(p, size);
  return p;
}

void *arena_calloc(Arena *a, size_t n, size_t size) {
  if (size && n > SIZE_MAX / size) fatal("out of memory (%zu times %zu bytes)", n, size);
  return arena_alloc(a, n * size);
}

void *arena_dup(Arena *a, const void *p, size_t size) {
  void *q = arena_alloc(a, size);
  if (size) memcpy(q, p, size);
  return q;
}

char *arena_strndup(Arena *a, const char *s, size_t n) {
  char *q = arena_alloc(a, n + 1);
  if (n) memcpy(q, s, n);
  return q;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
  char small[256];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(small, sizeof small, fmt, ap);
  va_end(ap);
  if (n < 0) bug("bad format '%s'", fmt);
  if ((size_t)n < sizeof small) return arena_strndup(a, small, (size_t)n);
  char *s = arena_alloc(a, (size_t)n + 1);
  va_start(ap, fmt);
  vsnprintf(s, (size_t)n + 1, fmt, ap);
  va_end(ap);
  return s;
}

void pages_forget(const void *p, size_t n) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)p + page - 1) / page * page, end = ((uintptr_t)p + n) / page * page;
  if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

size_t arena_used(const Arena *a) {
  return a->used;
}
