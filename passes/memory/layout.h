/* Places of tensors in one storage. */
#ifndef RELAXC_PASSES_MEMORY_LAYOUT_H
#define RELAXC_PASSES_MEMORY_LAYOUT_H

#include "ir/dim.h"

#define LIKELY 3 /* likely cases of the variables' values */

/* One tensor: alive from position begin to end, both included. */
typedef struct {
  uint32_t begin, end;
  const Dim *bytes;       /* a multiple of the alignment for all values of its variables */
  int64_t likely[LIKELY]; /* bytes in likely cases: what the order of places is chosen by */
  const Dim *offset;      /* set by layout_places */
} Place;

/* Sets the offsets so that tensors alive at the same time don't overlap, whatever the values of the
 * variables. Returns the bytes that are needed. `cases`: how many of `likely` are set; *least: the
 * most that are alive at once in the first. */
const Dim *layout_places(Context *c, Arena *a, Place *at, uint32_t n, uint32_t cases,
                         int64_t *least);

#endif
