/* Two labels for things that cost something alone and in pairs: the cheapest of all assignments. */
#ifndef RELAXC_PASSES_GRAPH_CUT_H
#define RELAXC_PASSES_GRAPH_CUT_H

#include "ir/base/arena.h"
#include "ir/base/vec.h"

#include <stdbool.h>
#include <stdint.h>

#define CUT_NEVER (INT64_MAX / 4) /* a cost that no assignment has */

typedef struct {
  uint32_t to, next; /* the next arc from the same end; 0: none */
  int64_t left;
} CutArc;

typedef struct {
  Arena *a;
  VEC(CutArc) arcs; /* an arc and its reverse are neighbours */
  VEC(uint32_t) first;
  int32_t *level;
} Cut;

void cut_init(Cut *c, Arena *a);
/* A new thing's number. */
uint32_t cut_add(Cut *c);
/* What it costs that x has this label. */
void cut_label(Cut *c, uint32_t x, bool label, int64_t cost);
/* What it costs that x has label 0 and y label 1. */
void cut_pair(Cut *c, uint32_t x, uint32_t y, int64_t cost);
void cut_solve(Cut *c);
/* x's label. */
bool cut_is_set(const Cut *c, uint32_t x);

#endif
