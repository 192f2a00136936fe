/* Emission of a group's stages under a vector state (emit.c, shared with contraction kernels). */
#ifndef RELAXC_PASSES_LOOP_EMIT_H
#define RELAXC_PASSES_LOOP_EMIT_H

#include "passes/loop/schedule.h"

#define INNER_UNROLL 4 /* vectors at a time along an inner axis */

/* Which axis runs over lanes; var NULL: none, everything is scalar. */
typedef struct {
  Var *var;
  const Expr *base;
  uint32_t lanes;
  const Expr *mask; /* lanes that exist, or NULL: all */
} Lanes;

typedef struct {
  Buffer *buf;
  Var *place;        /* stands for its value in prepared expressions */
  const Expr *value; /* current register: scalar or vector variable, or NULL */
  bool in_memory;    /* stored at its full index */
  bool inner;        /* the writer has inner spatial axes: readers load it */
  Buffer *row;       /* inner, but only a row of it exists at a time */
  Buffer *alias;     /* the result whose memory it borrows until that is written */
  const Stage *writer;
} Temp;

typedef struct Emit {
  Sched *s;
  LoopCtx *lc;
  Context *c;
  Arena *a, *tmp;
  Group *g;
  Map temps;          /* Buffer -> Temp */
  Map fixed;          /* Var -> Expr: collapsed axes, axes bound by loops */
  Lanes now;          /* lanes of the outer vector axis */
  uint32_t row_lanes; /* lanes per element of row buffers (1: scalar rows) */
  uint32_t rows;      /* iterations of the outer loops that will be done at once (jam.c) */
  bool inner_vec;     /* stages may vectorise an inner axis of their own */
  bool use_mask;
} Emit;

static inline bool axis_is_unit(const Axis *a) {
  return expr_is_int(a->extent, 1);
}

void emit_init(Emit *em, Sched *s, Group *g);
/* Whether v is one of the group's outer loops. */
bool group_is_outer(const Group *g, const Var *v);
/* Whether anything after the group reads b (or it is a result of the function). */
bool group_is_read_after(Sched *s, const Group *g, const Buffer *b);
/* Axes of st inside the outer loops: spatial first; returns their number, *nspatial spatial. */
uint32_t stage_inner_axes(const Group *g, const Stage *st, Axis *out, uint32_t *nspatial);
/* Lanes of a vector of the widest type that st touches. */
uint32_t stage_lanes(Emit *em, const Stage *st);
/* Decides which temporaries live in the memory of a result. */
void emit_borrow(Emit *em);
/* Gives temporaries that only the group reads a buffer of one row. */
void emit_rows(Emit *em, uint32_t lanes, StmtVec *out);
/* e with loads through flat views, temporaries as their placeholders, bound axes replaced, indices
 * simplified. */
const Expr *emit_prepare(Emit *em, const Expr *e);
/* A prepared expression under lanes. */
const Expr *emit_value(Emit *em, const Lanes *ln, const Expr *e);
/* Makes `value` the register of stage st's result, and stores it where it must exist in memory. */
void emit_result(Emit *em, const Stage *st, const Lanes *ln, const Expr *value, StmtVec *out);
/* buf[off] = value under lanes; `off` scalar, in terms of the axes. */
void emit_store(Emit *em, const Stage *st, const Lanes *ln, Buffer *buf, const Expr *off,
                const Expr *value, StmtVec *out);
/* Merges neighbouring outer loops that are contiguous in every access. */
void emit_collapse(Emit *em);
/* Binds an axis to a value for what is emitted next. */
void emit_bind(Emit *em, Var *axis, const Expr *value);
bool emit_can_mask(const Variant *v, DType d);
/* Whether elements of these stages, which are computed together in this order, may be computed
 * twice: what they read is no memory that they write, unless one of them has written it anew. */
bool emit_repeats(Emit *em, const Stage *const *stages, uint32_t n);
/* ---- axes.c ---- */
/* Merges neighbouring reduction axes of st that are contiguous in every load; returns the number of
 * inner axes left. */
uint32_t axes_collapse_reduction(Emit *em, const Stage *st, Axis *inner, uint32_t nsp, uint32_t n);
/* How well st vectorises over ax: contiguous accesses count for, strided ones against. */
int32_t axes_score(Emit *em, const Stage *st, const Axis *ax);
/* The inner axis that st vectorises over, or -1. */
int32_t axes_best_inner(Emit *em, const Stage *st, const Axis *inner, uint32_t n, uint32_t nsp,
                        int32_t *score);
/* An outer loop, other than v, along which a load that strides over v is contiguous; -1: none. */
int32_t axes_transposed(Emit *em, uint32_t v);

/* Orders loops around sums whose operand comes from memory: as the operand lies there, the farthest
 * steps outside. So it is one stream, as hardware expects it, and not a piece here and there. */
void axes_as_they_lie(Emit *em, Axis *loops, uint32_t n);

/* ---- chunks.c ---- */
/* What is done for some lanes of the axis (ln->var NULL: for one element). */
typedef void (*ChunkFn)(Emit *em, const Lanes *ln, StmtVec *out, void *ctx);
typedef struct {
  const Axis *ax;
  uint32_t full, unroll; /* lanes of a vector, vectors at a time */
  int64_t grain;         /* iterations of ax below which threads don't pay, 0: no threads */
  bool repeats;          /* elements may be computed twice (emit_repeats) */
  bool narrows;          /* what is left may take fewer lanes than a vector has */
  Span span;
  ChunkFn fn;
  void *ctx;
} Chunks;
/* fn for all of the axis. */
void emit_chunks(Emit *em, const Chunks *ch, StmtVec *out);
/* Its parts, for one who adds something between them: a loop over chunks of `lanes` from start on,
 * as many as there are whole ones; returns where that ends. */
const Expr *emit_whole_chunks(Emit *em, const Chunks *ch, uint32_t lanes, const Expr *start,
                              StmtVec *out);
/* The elements from start on, in single vectors; if ch->repeats, where there is a whole one. */
void emit_left(Emit *em, const Chunks *ch, const Expr *start, StmtVec *out);
/* `whole`, which is all; if ch->repeats, where there is a whole vector, else what there is. */
void emit_or_part(Emit *em, const Chunks *ch, const StmtVec *whole, StmtVec *out);
/* A new loop variable for each axis, bound to it. */
void emit_bind_fresh(Emit *em, const Axis *axes, Var **vars, uint32_t n);
/* Loops over axes[0..n) with those variables around `body`; short ones unrolled when asked. */
Stmt *emit_loops_around(Emit *em, const Stage *st, const Axis *axes, Var *const *vars, uint32_t n,
                        Stmt *body, bool unroll);

/* ---- reduce.c ---- */
/* The result of st where all spatial axes are bound (or are the lanes): over red[0..nred) first. */
void emit_point(Emit *em, const Stage *st, const Lanes *ln, const Axis *red, uint32_t nred,
                StmtVec *out);
/* Reduction over lanes of its own axis red[x]; `before`, unless NULL, is computed in the same loop,
 * `row` its axis there. */
void emit_horizontal(Emit *em, const Stage *st, const Axis *red, uint32_t nred, uint32_t x,
                     const Stage *before, const Axis *row, StmtVec *out);
/* Whether `st`, a reduction over lanes, can take in the loop of `before`, the stage before it: what
 * it reads of that is the element just computed (the sum of a softmax's exponentials). Gives the
 * inner axis of `before`. */
bool emit_takes_in(Emit *em, const Stage *before, const Stage *st, const Lanes *ln, Axis *row);

/* ---- transpose.c ---- */
/* rows[0..n), n vectors of n lanes, become the columns (as variables that `out` binds). */
void transpose_rows(Emit *em, Span span, const Expr **rows, uint32_t n, StmtVec *out);
/* The group's single stage, stored contiguously along v from loads contiguous along u, by tiles
 * turned in registers. False: no such form, nothing was emitted. */
bool transpose_emit(Emit *em, const Axis *v, const Axis *u, StmtVec *out);
/* Widest and narrowest element among the buffers that the group touches. */
void group_types(Sched *s, const Group *g, DType *widest, DType *narrowest);

#endif
