/* The string pool: an open-addressed table of pointers to strings, with their hashes beside them so
 * that growing never reads the strings again. */
#include "ir/base/intern.h"
#include "ir/base/map.h"
#include <string.h>

typedef struct {
  const char *s; /* NULL: empty */
  uint64_t hash;
  size_t n;
} Slot;

struct StrPool {
  Arena *arena;
  Slot *slots;
  size_t n, nslots;
};

StrPool *strpool_create(Arena *a) {
  StrPool *p = ARENA_NEW(a, StrPool);
  p->arena = a;
  p->nslots = 256;
  p->slots = ARENA_ARRAY(a, Slot, p->nslots);
  return p;
}

static void strpool_grow(StrPool *p) {
  Slot *old = p->slots;
  size_t nold = p->nslots;
  p->nslots *= 2;
  p->slots = ARENA_ARRAY(p->arena, Slot, p->nslots);
  for (size_t i = 0; i < nold; i++) {
    if (!old[i].s) continue;
    size_t at = old[i].hash & (p->nslots - 1);
    while (p->slots[at].s) at = (at + 1) & (p->nslots - 1);
    p->slots[at] = old[i];
  }
}

const char *strpool_intern(StrPool *p, const char *s, size_t n) {
  uint64_t hash = hash_bytes(s, n, 0);
  size_t at = hash & (p->nslots - 1);
  for (; p->slots[at].s; at = (at + 1) & (p->nslots - 1)) {
    const Slot *q = &p->slots[at];
    if (q->hash == hash && q->n == n && (n == 0 || memcmp(q->s, s, n) == 0)) return q->s;
  }
  const char *copy = arena_strndup(p->arena, s, n);
  p->slots[at] = (Slot){copy, hash, n};
  if (++p->n * 2 > p->nslots) strpool_grow(p);
  return copy;
}
