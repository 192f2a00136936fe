/* Hash maps: a dense array of entries in order of insertion beside a table of indices.
 *
 * The table is open-addressed with linear probing and at most half full; it holds index + 1 and the
 * hash, so that growing reads no keys, zeroed memory is an empty table, and iteration never sees
 * addresses or hash values. Hashes are built from multiplications and shifts of 64-bit words read
 * in little-endian order, hence equal on every host.
 *
 * Keys come in runs: ids that count up, addresses of one array, lv1, lv2, lv3. So only the cache
 * line of a key's slot is drawn by the hash; the low bits of the key choose the slot within it, and
 * the slots of neighbours share lines. A table of a million keys is then filled and asked in order
 * at a tenth of the cache misses.
 */
#include "ir/base/map.h"
#include <string.h>

enum { SLOTS_MIN = 16 };

uint64_t hash_mix(uint64_t h, uint64_t x) {
  h = ((h + 1) * UINT64_C(0x9e3779b97f4a7c15)) ^ x;
  h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
  h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
  return h ^ (h >> 32);
}

static uint64_t word_at(const unsigned char *p, size_t n) {
  uint64_t w = 0;
  for (size_t i = 0; i < n; i++) w |= (uint64_t)p[i] << (8 * i);
  return w;
}

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed) {
  const unsigned char *s = p;
  uint64_t h = hash_mix(seed, n);
  for (; n >= 8; s += 8, n -= 8) h = hash_mix(h, word_at(s, 8));
  return n ? hash_mix(h, word_at(s, n)) : h;
}

uint32_t hash_name(const char *s, size_t n) {
  if (n == 0) return 0;
  return (uint32_t)hash_bytes(s, n - 1, 0) << 4 | ((unsigned char)s[n - 1] & 15);
}

/* The slot of `key`, or the empty slot where it belongs. The hash beside the index spares most
 * looks at entries of other keys. */
static uint32_t map_slot(const Map *m, uint64_t key, uint32_t hash) {
  uint32_t mask = m->nslots - 1, i = hash & mask;
  for (uint64_t s; (s = m->slots[i]); i = (i + 1) & mask)
    if (s >> 32 == hash && m->entries[(uint32_t)s - 1].key == key) break;
  return i;
}

static uint32_t strmap_slot(const StrMap *m, const char *key, uint32_t hash) {
  uint32_t mask = m->nslots - 1, i = hash & mask;
  for (uint64_t s; (s = m->slots[i]); i = (i + 1) & mask)
    if (s >> 32 == hash && strcmp(m->entries[(uint32_t)s - 1].key, key) == 0) break;
  return i;
}

/* Eight slots to a line; the low bits of an address are those above its alignment. */
static uint32_t hash_word(uint64_t key) {
  return (uint32_t)hash_mix(0, key >> 3) << 3 | ((uint32_t)(key ^ key >> 4) & 7);
}

/* Room for one more entry; true when the slots moved, so that a slot found before is void. */
static bool grow(Arena *a, void **entries, uint32_t n, uint32_t *cap, size_t size, uint64_t **slots,
                 uint32_t *nslots) {
  if (n == *cap) {
    if (*cap > UINT32_MAX / 4) fatal("out of memory (a map of more than %u entries)", *cap);
    uint32_t wanted = *cap ? *cap * 2 : SLOTS_MIN / 2;
    void *p = arena_calloc(a, wanted, size);
    if (n) memcpy(p, *entries, n * size);
    *entries = p;
    *cap = wanted;
  }
  if (*nslots / 2 > n) return false;
  uint32_t old = *nslots, mask;
  const uint64_t *from = *slots;
  *nslots = old ? old * 2 : SLOTS_MIN;
  mask = *nslots - 1;
  uint64_t *to = *slots = ARENA_ARRAY(a, uint64_t, *nslots);
  for (uint32_t k = 0; k < old; k++) {
    if (!from[k]) continue;
    uint32_t i = (uint32_t)(from[k] >> 32) & mask;
    while (to[i]) i = (i + 1) & mask;
    to[i] = from[k];
  }
  return true;
}

void map_init(Map *m, Arena *a) {
  *m = (Map){.arena = a};
}

void *map_get(const Map *m, uint64_t key) {
  if (m->n == 0) return NULL;
  uint64_t s = m->slots[map_slot(m, key, hash_word(key))];
  return s ? m->entries[(uint32_t)s - 1].value : NULL;
}

bool map_has(const Map *m, uint64_t key) {
  return m->n && m->slots[map_slot(m, key, hash_word(key))];
}

void **map_at(Map *m, uint64_t key) {
  uint32_t hash = hash_word(key), at = 0;
  if (m->n) {
    at = map_slot(m, key, hash);
    if (m->slots[at]) return &m->entries[(uint32_t)m->slots[at] - 1].value;
  }
  void *entries = m->entries;
  bool moved = grow(m->arena, &entries, m->n, &m->cap, sizeof *m->entries, &m->slots, &m->nslots);
  m->entries = entries;
  if (moved) at = map_slot(m, key, hash);
  m->entries[m->n].key = key;
  m->slots[at] = (uint64_t)hash << 32 | (m->n + 1);
  return &m->entries[m->n++].value;
}

void map_set(Map *m, uint64_t key, void *value) {
  *map_at(m, key) = value;
}

void strmap_init(StrMap *m, Arena *a) {
  *m = (StrMap){.arena = a};
}

void *strmap_get(const StrMap *m, const char *key) {
  if (m->n == 0) return NULL;
  uint64_t s = m->slots[strmap_slot(m, key, hash_name(key, strlen(key)))];
  return s ? m->entries[(uint32_t)s - 1].value : NULL;
}

bool strmap_has(const StrMap *m, const char *key) {
  return m->n && m->slots[strmap_slot(m, key, hash_name(key, strlen(key)))];
}

void **strmap_at(StrMap *m, const char *key) {
  uint32_t hash = hash_name(key, strlen(key)), at = 0;
  if (m->n) {
    at = strmap_slot(m, key, hash);
    if (m->slots[at]) return &m->entries[(uint32_t)m->slots[at] - 1].value;
  }
  void *entries = m->entries;
  bool moved = grow(m->arena, &entries, m->n, &m->cap, sizeof *m->entries, &m->slots, &m->nslots);
  m->entries = entries;
  if (moved) at = strmap_slot(m, key, hash);
  m->entries[m->n].key = key;
  m->slots[at] = (uint64_t)hash << 32 | (m->n + 1);
  return &m->entries[m->n++].value;
}

void strmap_set(StrMap *m, const char *key, void *value) {
  *strmap_at(m, key) = value;
}
