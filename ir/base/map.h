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
#define map_getp(m, p) map_get((m), (uint64_t)(uintptr_t)(p))
#define map_hasp(m, p) map_has((m), (uint64_t)(uintptr_t)(p))
#define map_setp(m, p, v) map_set((m), (uint64_t)(uintptr_t)(p), (v))

typedef struct {
  const char *key; /* NUL-terminated, copied into the arena */
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

/* 64-bit hashes, equal on every host and in every run. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
uint64_t hash_mix(uint64_t h, uint64_t x);

#endif
