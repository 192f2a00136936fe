/* The per-thread workspace: a stack in chunks.
 *
 * A call pushes its scratch at entry and pops it at exit; nested and recursive calls push on top.
 * A push that doesn't fit the newest chunk opens another (old ones can't move, they are in use).
 * When the stack runs empty, several chunks become one of their total size, so that the next call
 * of the same kind finds one block and allocates nothing. Big chunks ask for huge pages, which is
 * worth 2-3 % to large matrix products. A thread's chunks go with it (pthread key destructor).
 */
#define _GNU_SOURCE
#include "runtime/relaxrt.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGN = 64, MIN_CHUNK = 64 << 10, HUGE_PAGE = 2 << 20 };
#define MAX_CHUNK (SIZE_MAX / 4)

/* Stands at the start of its block; the stack begins ALIGN bytes later. */
typedef struct Chunk {
  struct Chunk *below;
  size_t cap, used;
} Chunk;

static _Thread_local Chunk *top;
static _Thread_local size_t live, peak; /* bytes in use, and the most there ever were */
static _Thread_local bool registered;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

/* Takes the newest chunk, which holds nothing, off the stack. */
static void close_chunk(void) {
  Chunk *c = top;
  top = c->below;
  free(c);
}

static void free_chunks(void) {
  while (top) close_chunk();
}

static void thread_exit(void *unused) {
  (void)unused;
  registered = false;
  live = peak = 0;
  free_chunks();
}

static void make_key(void) {
  key_made = pthread_key_create(&key, thread_exit) == 0;
}

/* A chunk with room for `cap` bytes, on top of the others; NULL without memory. */
static Chunk *open_chunk(size_t cap) {
  _Static_assert(sizeof(Chunk) <= ALIGN, "the head fits before the first aligned byte");
  size_t align = ALIGN, size;
  if (cap > MAX_CHUNK) return NULL;
  if (cap < MIN_CHUNK) cap = MIN_CHUNK;
  size = cap + ALIGN;
  if (size >= 2 * (size_t)HUGE_PAGE) align = HUGE_PAGE;
  size = (size + align - 1) & ~(align - 1);
  Chunk *c = aligned_alloc(align, size);
  if (!c) return NULL;
#ifdef MADV_HUGEPAGE
  if (align == HUGE_PAGE) (void)madvise(c, size, MADV_HUGEPAGE); /* a wish, not a need */
#endif
  *c = (Chunk){top, size - ALIGN, 0};
  top = c;
  if (!registered) {
    pthread_once(&key_once, make_key);
    /* Without a key the memory stays until rx_release: no reason to fail. */
    if (key_made && pthread_setspecific(key, &key) == 0) registered = true;
  }
  return c;
}

void *rx_workspace_push(int64_t bytes) {
  if (bytes < 0) {
    (void)rx_fail(RX_ERR_OVERFLOW, "size of the workspace is out of range");
    return NULL;
  }
  /* At least one unit, so that each push has an address of its own. */
  size_t size = SIZE_MAX; /* open_chunk refuses it */
  if ((uint64_t)bytes <= MAX_CHUNK)
    size = ((size_t)bytes + !bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (top && top->used == 0 && top->cap < size) close_chunk();
  if ((!top || top->cap - top->used < size) && !open_chunk(size)) {
    (void)rx_fail(RX_ERR_MEMORY, "out of memory: a workspace of %lld bytes", (long long)bytes);
    return NULL;
  }
  void *p = (char *)top + ALIGN + top->used;
  top->used += size;
  live += size;
  if (live > peak) peak = live;
  return p;
}

void rx_workspace_pop(void *p) {
  if (!p || !top) return;
  /* An empty chunk on top was kept for the next nested call; p lies below it. */
  while (top->used == 0 && top->below) close_chunk();
  size_t rest = (size_t)((char *)p - (char *)top) - ALIGN;
  live -= top->used - rest;
  top->used = rest;
  if (live == 0 && top->below == NULL && top->cap < peak) {
    close_chunk();
    (void)open_chunk(peak); /* without memory the next push tries again */
  }
}

void rx_release(void) {
  if (live) return;
  free_chunks();
  peak = 0;
}
