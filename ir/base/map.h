/* Hash maps in an arena: keys are 64-bit words (pointers, ids) or strings.
 *
 * Open addressing. Iteration runs in order of insertion, so that nothing ever depends on
 * addresses; there is no removal (map a key to NULL instead).
 */
#ifndef RELAXC_BASE_MAP_H
#define RELAXC_BASE_MAP_H

#include "ir/base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint64_t key;
  void *value;
} MapEntry;

typedef struct {
  Arena *arena;
  MapEntry *entries; /* in order of insertion */
  uint32_t n, cap;
  uint64_t *slots; /* hash << 32 | index + 1 into entries, 0 = empty */
  uint32_t nslots;
} Map;

void map_init(Map *m, Arena *a);
void *map_get(const Map *m, uint64_t key); /* NULL when absent */
bool map_has(const Map *m, uint64_t key);
void map_set(Map *m, uint64_t key, void *value);
/* The value of a key, made NULL when it is new; valid until the next key is added. */
void **map_at(Map *m, uint64_t key);
#define map_getp(m, p) map_get((m), (uint64_t)(uintptr_t)(p))
#define map_hasp(m, p) map_has((m), (uint64_t)(uintptr_t)(p))
#define map_setp(m, p, v) map_set((m), (uint64_t)(uintptr_t)(p), (v))
#define map_atp(m, p) map_at((m), (uint64_t)(uintptr_t)(p))

typedef struct {
  const char *key; /* NUL-terminated; kept, not copied: it must live as long as the map */
  void *value;
} StrMapEntry;

typedef struct {
  Arena *arena;
  StrMapEntry *entries;
  uint32_t n, cap;
  uint64_t *slots;
  uint32_t nslots;
} StrMap;

void strmap_init(StrMap *m, Arena *a);
void *strmap_get(const StrMap *m, const char *key);
bool strmap_has(const StrMap *m, const char *key);
void strmap_set(StrMap *m, const char *key, void *value);
void **strmap_at(StrMap *m, const char *key); /* as map_at */

/* 64-bit hashes, equal on every host and in every run. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
uint64_t hash_mix(uint64_t h, uint64_t x);
/* A hash that places names which differ in their last character (lv1, lv2) side by side. */
uint32_t hash_name(const char *s, size_t n);

#endif
