/* What kind of computation a prim_func is, derived from its loops and index maps. */
#ifndef RELAXC_PASSES_PATTERN_H
#define RELAXC_PASSES_PATTERN_H

#include "ir/module.h"

/* TVM's op_pattern values. */
enum {
  PATTERN_ELEMWISE = 0,  /* out[i] from in[i] */
  PATTERN_BROADCAST = 1, /* out[i] from in[some of i, in order] */
  PATTERN_INJECTIVE = 2, /* out[i] from in[f(i)] */
  PATTERN_REDUCE = 3,    /* one reduction, last */
  PATTERN_ANCHOR = 4,    /* out-elementwise-fusible: contractions, reductions that go on */
  PATTERN_OPAQUE = 8,
};

typedef struct {
  uint8_t kind;
  bool contraction; /* holds a sum of products of different accesses (matmul, convolution) */
  bool reshape;     /* one input, one output, same order of elements */
  bool copy;        /* of some elements, with axes exchanged, split or cut */
  int32_t rows;     /* reductions: they run over all axes but the first `rows`; -1: not so */
  uint32_t ninputs; /* buffers that are read and not written, scalars included, in order */
  uint32_t noutputs;
  const uint8_t *reads; /* per parameter: how the result reads it (a PATTERN_*) */
  /* per parameter: a reduction reads it with the leading so many indices of what it stores and
   * reduces over all others; -1: not so */
  const int32_t *row_reads;
} TirPattern;

/* An assertion about dims alone: the order in which it is made doesn't matter. */
bool is_dim_check(const Stmt *s);
/* Allocates in a. Never fails: what is not understood is opaque. */
TirPattern tir_pattern(Context *c, Arena *a, const PrimFunc *f);

/* Of how many parameters the result is made, one behind the other in memory, and nothing else: 0
 * when it is not so. *order, in a: their numbers in that order, then the result's. */
uint32_t tir_joins(Context *c, Arena *a, const PrimFunc *f, const uint32_t **order);

#endif
