/* The string pool: an open-addressed table of indices into a list of strings, with their hashes
 * beside the indices, so that growing never reads the strings again and most foreign strings are
 * never looked at. Slots of names that differ in the last character lie side by side. */
#include "ir/base/intern.h"
#include "ir/base/map.h"
#include "ir/base/vec.h"
#include <string.h>

typedef struct {
  const char *s;
  size_t n;
} Str;

struct StrPool {
  Arena *arena;
  VEC(Str) strings;
  uint64_t *slots; /* hash << 32 | index + 1, 0 = empty */
  uint32_t nslots;
};

StrPool *strpool_create(Arena *a) {
  StrPool *p = ARENA_NEW(a, StrPool);
  p->arena = a;
  p->nslots = 256;
  p->slots = ARENA_ARRAY(a, uint64_t, p->nslots);
  return p;
}

static void strpool_grow(StrPool *p) {
  const uint64_t *old = p->slots;
  uint32_t nold = p->nslots;
  if (nold > UINT32_MAX / 2) fatal("out of memory (more than %u names)", nold / 2);
  p->nslots *= 2;
  p->slots = ARENA_ARRAY(p->arena, uint64_t, p->nslots);
  for (uint32_t i = 0; i < nold; i++) {
    if (!old[i]) continue;
    uint32_t at = (uint32_t)(old[i] >> 32) & (p->nslots - 1);
    while (p->slots[at]) at = (at + 1) & (p->nslots - 1);
    p->slots[at] = old[i];
  }
}

const char *strpool_intern(StrPool *p, const char *s, size_t n) {
  uint32_t hash = hash_name(s, n), at = hash & (p->nslots - 1);
  for (uint64_t k; (k = p->slots[at]); at = (at + 1) & (p->nslots - 1)) {
    if (k >> 32 != hash) continue;
    const Str *q = &p->strings.at[(uint32_t)k - 1];
    if (q->n == n && (n == 0 || memcmp(q->s, s, n) == 0)) return q->s;
  }
  const char *copy = arena_strndup(p->arena, s, n);
  vec_push(p->arena, &p->strings, ((Str){copy, n}));
  p->slots[at] = (uint64_t)hash << 32 | p->strings.n;
  if (p->strings.n > p->nslots / 2) strpool_grow(p);
  return copy;
}
