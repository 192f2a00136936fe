/* What the memory planner knows of a sequence's tensors. */
#ifndef RELAXC_PASSES_MEMORY_PLAN_H
#define RELAXC_PASSES_MEMORY_PLAN_H

#include "passes/graph/graph.h"
#include "passes/memory/layout.h"

typedef struct Life {
  Node *n;             /* R.builtin.alloc_tensor */
  uint32_t begin, end; /* positions; end: last use */
  bool escapes;
  const Dim *bytes;  /* of whole lines */
  struct Life *over; /* whose memory it is written in, and whose life holds this one's; or NULL */
  bool overwritten;  /* by a result: nothing else may be written here */
  Node *storage;     /* once it has its place */
  const Dim *offset;
} Life;

typedef struct Storage {
  const Dim *bytes;
  uint32_t free_from; /* position after which it is unused */
  VEC(Life *) tensors;
} Storage;

typedef struct {
  PassCtx *pc;
  Arena *a;
  Func *f;
  Seq *seq;
  Map position; /* Node of the sequence -> position + 1 */
  uint32_t npositions;
  Map known;                      /* Var* that exist at the top of the sequence */
  Map likely[LIKELY];             /* Var* of a dim -> a value */
  Map scans;                      /* PrimFunc* -> what in_place_proved knows */
  Map accesses;                   /* PrimFunc* -> primfunc_access of it */
  VEC(Life *) lives, overwriting; /* those that don't leave; the latter: in another's memory */
  VEC(Storage *) storages;
  Map *joined; /* PrimFunc* of calls that are copies and views now -> non-NULL */
} Plan;

/* ---- lives.c ---- */
/* Finds p->lives and all positions anew. */
void collect_lives(Plan *p);
/* A tensor's exact size. */
const Dim *tensor_bytes(Plan *p, const SInfo *s);
/* Position of a node of the sequence, or of the OP_IF around it; -1: it stands elsewhere. */
int64_t position_of(Plan *p, Node *n);
/* Whether a size can be computed where the sequence begins. */
bool is_known(Plan *p, const Dim *d);
/* Bytes in likely case k, no more than so many that sums of them fit. False: not known. */
bool likely_bytes(Plan *p, const Dim *bytes, uint32_t k, int64_t *out);
/* The tensor whose memory v begins with. */
const Node *memory_of(const Node *v);
/* The prim_func that call n calls with its parameters one by one, or NULL. */
PrimFunc *called_prim(Plan *p, const Node *n);

/* ---- join_parts.c ---- */
/* Makes what is joined where it will lie, and finds the lives anew. */
void join_parts(Plan *p);
/* Removes those of `joined` that nothing calls any more, and their variants. */
void remove_joined(PassCtx *pc, Map *joined);

#endif
