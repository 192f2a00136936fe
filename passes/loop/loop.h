/* The scheduler's own structures: from blocks to lowered loops, for one variant of the target.
 *
 * A prim_func becomes a list of items in program order: stages (one store over a box of axes,
 * perhaps with a reduction) and nests that are kept as written. Stages are inlined into each other
 * (inline.c), long sums cut into parts (split.c); stages are merged into groups that share outer
 * loops (group.c). A group's loops are split where conditions turn, repeat or are the same for all
 * (regions.c, stretches.c, unswitch.c) and emitted with vector expressions (row.c, emit.c) or as
 * register-tiled contractions (contraction*.c, gemm.c, tile.c). What is no stage goes through
 * lower_block.c, which is right for everything; its innermost loops get lanes where their
 * iterations are independent (dependence.c).
 *
 * Two things may be there twice, chosen when the code runs: loops for a symbolic last axis of one
 * element (unit_dims.c), and stores past the caches for large results (streaming.c).
 */
#ifndef RELAXC_PASSES_LOOP_H
#define RELAXC_PASSES_LOOP_H

#include "ir/dim.h"
#include "ir/tir.h"
#include "passes/pass.h"

typedef VEC(Stmt *) StmtVec;

typedef struct LoopCtx {
  PassCtx *pc;
  Context *c;
  Arena *a;         /* module arena: what stays */
  Arena *tmp;       /* pass scratch */
  const Variant *v; /* what is scheduled for */
  PrimFunc *f;
  Map flat;      /* Buffer -> its flat view (Buffer) */
  StmtVec decls; /* DECLs of the flat views, for the top of the body */
  Map packed;    /* Buffer (parameter) -> Buffer: packed at compile time (pack_const.c) */
  Map packings;  /* Buffer (parameter) -> Attr: in which order (pack_const.c) */
  Map finite;    /* constant parameters known to hold no infinity and no NaN -> non-NULL */
  bool bound;    /* this is the version of a function's body for a dim that is 1 */
  bool failed;
} LoopCtx;

/* ---- lower_block.c: blocks to plain loops, as written ---- */
/* No block is left in the result. Reports what can't be lowered and sets lc->failed. */
Stmt *lower_blocks(LoopCtx *lc, Stmt *s);

/* ---- dependence.c ---- */
typedef struct {
  bool independent; /* the iterations may run at the same time, as lanes */
  bool contiguous;  /* each access moves on by one element per iteration, or doesn't move */
  bool innermost;   /* no loop in the body */
  DType widest;     /* of the elements that are accessed */
} LoopAccesses;
/* How the FOR `loop` accesses memory. A body that does more than load, store and branch counts as
 * dependent. */
LoopAccesses loop_accesses(Context *c, Arena *tmp, const Stmt *loop);

/* ---- vectorize.c ---- */
/* Turns expressions in `var` into vector expressions over var = base .. base + lanes. */
typedef struct Vec {
  Context *c;
  Arena *a;
  Var *var;
  const Expr *base;
  uint32_t lanes;
  const Expr *mask; /* lanes that exist, or NULL: all */
  bool lazy;        /* inside a branch that only some lanes take */
  Map memo;
  Map lets; /* scalar Var -> Expr of its vector */
  bool failed;
} Vec;
void vec_init(Vec *v, Context *c, Arena *a, Var *var, const Expr *base, uint32_t lanes,
              const Expr *mask);
/* The vector (or, where e doesn't depend on var, scalar) form of e. Sets v->failed when there is
 * none. */
const Expr *vec_expr(Vec *v, const Expr *e);
/* The same, broadcast to all lanes if scalar. */
const Expr *vec_full(Vec *v, const Expr *e);
/* The lane form of an index of an access: a RAMP where it is linear in var. */
const Expr *vec_position(Vec *v, const Expr *index);
/* Whether a scalar expression has a vector form at all. */
bool vec_possible(const Expr *e);
/* Stores, lets, conditions and uniform loops; NULL when s has no vector form. */
Stmt *vec_stmt(Vec *v, Stmt *s);
/* Replaces every FOR_VECTORIZED by vector code, or by a serial loop. */
Stmt *vectorize_loops(LoopCtx *lc, Stmt *s);
/* Lanes of a full vector of elements of this type; 1 when the variant has none. */
uint32_t variant_lanes(const Variant *v, DType d);
/* ---- access.c ---- */
/* The atom alone as a Dim. */
const Dim *atom_dim(Context *c, const DimAtom *a);
/* d = rest + by_quotient * (u // s) + by_residue * (u % s), where u is a variable plus `shift`,
 * which doesn't hold it, and s a constant. */
typedef struct {
  int64_t s;
  const Dim *shift, *rest, *by_quotient, *by_residue;
} Split;
bool find_split(Context *c, const Dim *d, const Var *v, Split *sp);

/* mask of lanes base + i < end */
const Expr *lane_mask(Context *c, const Expr *base, const Expr *end, uint32_t lanes);

/* ---- in_place.c ---- */
/* Whether f, which is scheduled, gives the same when parameter `result`, which it stores, lies in
 * the memory of parameter `operand`. scans: a map of the caller's, what is known of each function.
 */
bool in_place_proved(PassCtx *pc, Map *scans, const PrimFunc *f, uint32_t operand, uint32_t result);

/* ---- streaming.c ---- */
/* Notes in lc->f's attributes which results of its final loops are stored past the caches where
 * they are large: {"relaxc.streaming": [parameters]}. */
void mark_streaming(LoopCtx *lc, const Stmt *body);

/* ---- lift_workspace.c ---- */
/* Moves large ALLOCs into the workspace. Returns the body; *bytes is the size needed (NULL: none).
 * `ws` is the workspace buffer to use. */
Stmt *lift_workspace(LoopCtx *lc, Stmt *s, Buffer *ws, const Expr **bytes);

/* ---- schedule.c ---- */
/* -Rpass: what was done with lc->f, said once for all variants. */
void loop_remark(LoopCtx *lc, Span s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- small helpers (lower_block.c) ---- */
Stmt *seq_of(Arena *a, const StmtVec *v);
Var *loop_var(Context *c, const char *name);
const Expr *i64(Context *c, int64_t v);
static inline const Expr *compare_to(Context *c, ExprKind k, const Expr *e, int64_t v) {
  return expr_binary(c, k, e, i64(c, v));
}
/* ceil(a / b) of int64 expressions, simplified. */
const Expr *expr_ceildiv(Context *c, const Expr *a, int64_t b);

#endif
