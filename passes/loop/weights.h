/* Rows of weights between two contractions. */
#ifndef RELAXC_PASSES_LOOP_WEIGHTS_H
#define RELAXC_PASSES_LOOP_WEIGHTS_H

#include "passes/loop/schedule.h"

typedef struct {
  Stage *x, *top, *exp, *sum, *norm, *end;
  uint32_t factor; /* of end, that is a weight */
  int32_t column;  /* the dimension of exp's result */
  Var *columns[6]; /* the axis in each of the stages; [0]: NULL where x has no plain one */
} Weights;

/* The stages items[0, n), whose last contraction is `end`, by their part. Shared loops have the
 * same variables in all of them. */
bool weights_find(const Item *items, uint32_t n, Stage *end, Weights *w);
/* Divides after end's sum: w->norm becomes the inverse of the sum of a row, and the result a stage
 * to follow `end`, which writes what `end` wrote. NULL: narrow types, nothing was changed. */
Stage *weights_divide_last(Sched *s, Weights *w);
/* The last column that a row sees; NULL: all, or that isn't known. */
const Dim *weights_seen(Sched *s, const Item *items, uint32_t n, const Weights *w);

#endif
