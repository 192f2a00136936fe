/* Stages, groups and what emits them: the structured half of the scheduler. */
#ifndef RELAXC_PASSES_LOOP_SCHEDULE_H
#define RELAXC_PASSES_LOOP_SCHEDULE_H

#include "ir/facts.h"
#include "passes/loop/loop.h"

#define MAX_AXES 32
#define FAR_BYTES (4 << 20) /* more comes from memory, not from a cache */
#define MAX_REGIONS 16      /* copies of one group's loops (regions.c, unswitch.c) */

typedef struct {
  Var *var; /* int64, of this stage only */
  const Expr *extent;
} Axis;

typedef enum { RED_NONE, RED_ADD, RED_MUL, RED_MAX, RED_MIN, RED_AND, RED_OR, RED_OTHER } RedKind;

/* for axes: out[oidx] = value, or for a reduction out[oidx] = init, then out[oidx] op= value. */
typedef struct Stage {
  const char *name;
  Span span;
  Axis axes[MAX_AXES]; /* spatial first, then reduction */
  uint32_t naxes, nspatial;
  Buffer *out;
  const Expr **oidx; /* each: a constant, or linear in one spatial axis */
  int32_t *oaxis;    /* per dim of out: the axis when the index is just it, else -1 */
  const Expr *value; /* loads with the buffers' own indices */
  RedKind red;
  const Expr *init;
  Var *acc;    /* RED_OTHER: the accumulator in value */
  bool covers; /* writes every element of out */
  bool alone;  /* shares no loops: threads take its results */
  bool dead;
} Stage;

/* A stage, or a nest that stays as written. */
typedef struct {
  Stage *stage;
  Stmt *opaque;
} Item;
typedef VEC(Item) ItemVec;

/* Stages that share outer loops. */
typedef struct {
  Stage **stages;
  uint32_t n;
  Axis outer[MAX_AXES]; /* loops common to all */
  uint32_t nouter;
  bool contraction; /* stages[0] is one, or a window; the others are its epilogue */
  uint32_t budget;  /* regions that it may still be split into; 0: not split yet */
} Group;

typedef struct Sched {
  LoopCtx *lc;
  Context *c;
  Arena *a, *tmp;
  const Variant *v;
  SBlock *root;
  ItemVec items;
  bool nested; /* what is emitted stands inside a parallel loop */
  /* inside a block of rows (chain.c): what is the same for all blocks goes here; else NULL */
  StmtVec *prologue;
  Map *common;      /* load of a contraction's operand -> Buffer: its panels, packed there */
  const Expr *rows; /* of all blocks */
  const Var *block; /* the block's number */
  Map seen;         /* axis -> Expr: so much of its extent is needed in this block */
  bool simple;      /* every buffer is written once, before it is read: stages may move */
  Map local;        /* root allocations: Buffer -> itself */
  Map outside;      /* Buffer -> non-NULL: must exist in memory after its group */
} Sched;

/* ---- stage.c ---- */
/* Splits the root block's body; fills s->items and s->simple. */
void stages_extract(Sched *s);
/* Simplifies indices in e, knowing that the axes run from 0 to their extents. */
const Expr *stage_simplify(Sched *s, const Stage *st, const Expr *e);
/* Calls fn for each load in e (operands first). */
typedef void (*LoadFn)(const Expr *load, void *ctx);
void expr_loads(const Expr *e, LoadFn fn, void *ctx);
bool stage_reads(const Stage *st, const Buffer *b);

/* ---- inline.c ---- */
void stages_inline(Sched *s);

/* ---- split.c ---- */
/* Cuts long sums with few results into parts. */
void stages_split(Sched *s);

/* ---- access.c ---- */
/* The one-dimensional view of b (declared at the top of the function). */
Buffer *flat_view(LoopCtx *lc, Buffer *b);
/* Calls fn with the data variable of each access in s, to elements or by address. */
typedef void (*DataFn)(const Var *data, void *ctx);
void stmt_each_data(const Stmt *s, DataFn fn, void *ctx);
/* Linear offset of a load's index list, canonical. */
const Dim *flat_offset(LoopCtx *lc, const Buffer *b, const Expr *const *idx);
/* Coefficient of v in d (0 when absent); NULL when d isn't linear in v or the coefficient holds one
 * of the stage's axes. */
const Dim *stride_of(LoopCtx *lc, const Stage *st, const Dim *d, const Var *v);

/* ---- group.c ---- */
/* Forms the group that starts at item i; returns the number of items taken (>= 1). */
uint32_t group_form(Sched *s, uint32_t i, Group *g);
/* Adds st to stages that shall share loops though each is a nest of its own (chain.c): false when
 * they have none in common. */
bool group_link(Sched *s, Group *g, Stage *st);
/* Whether e uses an axis of one of g's stages. */
bool group_varies(const Group *g, const Expr *e);

/* ---- split_axis.c ---- */
/* Gives a copy of g whose outer loop o is two, of which the inner one has `size` iterations; size
 * divides the loop's extent. false: a stage has no room for one more axis. */
bool group_split_axis(Sched *s, const Group *g, uint32_t o, const Expr *size, Group *out);

/* ---- jam.c ---- */
#define MAX_JAM 4
/* `body`, of one row, for rows first .. first + n (n <= MAX_JAM), which don't depend on each other:
 * statement by statement, in common loops. */
Stmt *rows_jam(LoopCtx *lc, const Var *row, const Expr *first, uint32_t n, Stmt *body);

/* ---- emit.c ---- */
/* Loops for a group that is no contraction. */
void group_emit(Sched *s, Group *g, StmtVec *out);
/* The same for a stage on its own, all of whose axes are outer loops. */
void stage_emit(Sched *s, Stage *st, StmtVec *out);

/* ---- regions.c ---- */
/* Splits an outer loop of g where conditions on its variable turn, and emits the parts. false:
 * there is nothing to split, nothing was emitted. */
bool regions_emit(Sched *s, const Group *g, StmtVec *out);

/* ---- unswitch.c ---- */
/* Puts a condition that decides about the innermost loop's accesses, and is the same in all
 * iterations, in front of the loops of g, and emits them for both its values. false: there is none,
 * nothing was emitted. */
bool unswitch_emit(Sched *s, const Group *g, StmtVec *out);

/* ---- stretches.c ---- */
/* Splits the innermost loop of g where it goes through stretches of one length, and emits that.
 * false: it doesn't, nothing was emitted. */
bool stretches_emit(Sched *s, const Group *g, StmtVec *out);

/* ---- contraction_find.c ---- */
bool stage_is_contraction(Sched *s, const Stage *st);
/* Tiles of one, about: what threads can share. */
int64_t contraction_tasks(Sched *s, const Stage *st);
/* The same without a factor: sums or extremes of windows that overlap (a pooling). */
bool stage_is_window(Sched *s, const Stage *st);

/* ---- contraction.c ---- */
/* Loops for the contraction that is g's first stage, with the other stages as its epilogue.
 * before: the plain stage before g, to be computed inside g's loops; or NULL. false: no tiled form,
 * nothing was emitted. */
bool contraction_emit(Sched *s, Group *g, const Stage *before, StmtVec *out);

/* ---- unmerge.c ---- */
/* Gives a copy of g with an axis of its first stage, a contraction, as two: one of which a factor
 * has the quotient only, such as v // 32. false: there is none. */
bool unmerge_axes(Sched *s, const Group *g, Group *out);

/* ---- chain.c ---- */
/* When item *i starts a chain of contractions with work on rows between them: all of it in blocks
 * of rows, and *i moves on. */
bool chain_emit(Sched *s, uint32_t *i, StmtVec *out);

/* ---- dots.c ---- */
/* A contraction of few rows with a transposed operand, or both forms behind a test of the number of
 * rows. false: no such contraction, nothing was emitted. */
bool dots_emit(Sched *s, Group *g, StmtVec *out);

/* ---- pack_const.c ---- */
/* Packs the constants that f's callers pass for its contractions, and notes it in f's attributes;
 * once per function, before its variants. */
void pack_constants(LoopCtx *lc);
/* Fills lc->packed from the attributes / gives f the packed parameters after scheduling. */
void packed_open(LoopCtx *lc);
void packed_close(LoopCtx *lc, const Stmt *body);

/* ---- unit_dims.c ---- */
/* The dims for which there is to be a version of the loops where the dim is 1. */
void unit_dims(Sched *s, VarVec *out);

/* ---- schedule.c ---- */
/* Extracts and inlines the stages of lc->f; false when its form is another. */
bool schedule_open(LoopCtx *lc, Sched *s);
/* Loops for all items of s, in order. */
void items_emit(Sched *s, StmtVec *out);
/* The whole body of lc->f as lowered loops. */
Stmt *schedule_body(LoopCtx *lc);
/* e with variables replaced (Var -> Expr). */
const Expr *subst_vars(Context *c, const Map *vars, const Expr *e);
/* A loop over [0, extent); nothing for a constant extent of 0, just the body (var := 0) for 1. */
Stmt *loop_of(LoopCtx *lc, Span sp, Var *v, const Expr *extent, ForKind k, Stmt *body);
/* Marks a loop parallel with at least `grain` iterations per piece. */
void loop_set_parallel(LoopCtx *lc, Stmt *loop, int64_t grain);
/* Neutral element of a reduction, or NULL when `init` has to serve (idempotent ones). */
const Expr *red_identity(Context *c, RedKind k, DType d);
/* Whether the terms may be taken in any order, so that each lane, or each part, has some of them.
 */
bool red_any_order(RedKind k);
const Expr *red_combine(Context *c, const Stage *st, const Expr *acc, const Expr *value);

#endif
