/* Growth of the arena vectors; the element type is known to the macros only. */
#include "ir/base/vec.h"

void *vec_grow(Arena *a, void *at, uint32_t n, uint32_t *cap, size_t size) {
  if (*cap > UINT32_MAX / 2) fatal("out of memory (a list of more than %u elements)", *cap);
  uint32_t wanted = *cap ? *cap * 2 : 4;
  void *p = arena_calloc(a, wanted, size);
  if (n) memcpy(p, at, n * size);
  *cap = wanted;
  return p;
}
