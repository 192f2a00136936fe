/* Between fuse_ops.c (which groups) and fuse_group.c (which makes the Primitive functions). */
#ifndef RELAXC_PASSES_FUSE_H
#define RELAXC_PASSES_FUSE_H

#include "passes/graph/graph.h"
#include "passes/graph/pattern.h"

/* The prim_func of a call_tir that may be fused, and its pattern; NULL for anything else. */
PrimFunc *fuse_candidate(PassCtx *pc, Arena *a, Node *n, TirPattern *pat);
/* Moves the nodes (call_tirs of one sequence in order, only the last used outside) into a new
 * Primitive function, whose call takes the place of the last. False when nothing was changed. */
bool fuse_group(PassCtx *pc, Arena *a, const NodeVec *group);

#endif
