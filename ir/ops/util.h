/* What the operator groups share beside ir/op.h and ir/te.h: struct info of common forms, reading
 * of shape and prim operands, words for messages. Defined in ir/infer.c and ir/te_util.c. */
#ifndef RELAXC_IR_OPS_UTIL_H
#define RELAXC_IR_OPS_UTIL_H

#include "ir/ops/hooks.h"

/* ---- inference ---- */
/* Proved equal / proved different for every value, with the facts in scope. */
bool infer_eq(InferCtx *ic, const Expr *a, const Expr *b);
bool infer_ne(InferCtx *ic, const Expr *a, const Expr *b);
/* Operand i's name in quotes-free form ("x1"). */
const char *infer_arg_name(InferCtx *ic, const Node *n, uint32_t i);
/* "(n, 784)", "a tensor of rank 2", "a tensor" for messages; and whole types. */
const char *infer_shape_text(InferCtx *ic, const SInfo *s);
const char *infer_type_text(InferCtx *ic, const SInfo *s);
const char *infer_expr_text(InferCtx *ic, const Expr *e);
/* A tensor of the same shape (known, held by a variable, or of a rank) and device, other dtype. */
const SInfo *infer_like(InferCtx *ic, const SInfo *s, DType d);
/* dims NULL: only the rank (-1 unknown). */
const SInfo *infer_tensor(InferCtx *ic, const Expr *const *dims, int32_t ndim, DType d);
/* Tensor whose shape is operand i, an R.Shape. NULL after an error. */
const SInfo *infer_of_shape(InferCtx *ic, const Node *n, uint32_t i, DType d);
/* Tuple operand of tensors: checks every field. NULL after an error. */
const SInfo *infer_tensors_arg(InferCtx *ic, const Node *n, uint32_t i);
/* Values of a tuple of prims, a Shape or a single prim as expressions; false after an error.
 * *out NULL when they aren't known. */
bool infer_prims_arg(InferCtx *ic, const Node *n, uint32_t i, const Expr *const **out,
                     uint32_t *count);
/* A prim operand (scalar); its value or NULL; false after an error. */
bool infer_prim_arg(InferCtx *ic, const Node *n, uint32_t i, const Expr **out);
/* Has operand i been given? (Absent ones are missing at the end, or an empty tuple.) */
bool node_has_in(const Node *n, uint32_t i);
/* Gives operand i, the first that is missing or one in between, this value unless it has been
 * given. */
void infer_default(InferCtx *ic, Node *n, uint32_t i, const Expr *value);
/* Refuses a dtype that is known and no float. */
bool infer_need_float(InferCtx *ic, const Node *n, uint32_t i, const SInfo *s);
bool infer_need_int(InferCtx *ic, const Node *n, uint32_t i, const SInfo *s);
/* e as a literal when it is constant, else as it is: what TVM leaves as it was built. */
const Expr *infer_literal(InferCtx *ic, const Expr *e);
/* dim // by + more, in the form that TVM gives it: what by divides stands outside, the rest keeps
 * its constant ("(h - 3) // 2 + 1", where the canonical form would be "(h + 1) // 2 - 1"). */
const Expr *infer_quotient(InferCtx *ic, const Expr *dim, int64_t by, int64_t more);
/* dims as a new array that a hook may change. */
const Expr **infer_dims_copy(InferCtx *ic, const Expr *const *dims, uint32_t n, uint32_t extra);

/* ---- lowering ---- */
/* Expressions of the node's function inside the prim_func: symbolic vars become those of the new
 * function (an extra scalar parameter where no input has the var as a bare dim). */
const Expr *te_expr(LowerCtx *lc, const Expr *e);
/* The buffer of operand i, which is a single tensor. */
Buffer *te_arg(LowerCtx *lc, uint32_t i);
/* Buffers of a tuple operand. */
Buffer *const *te_args(LowerCtx *lc, uint32_t i, uint32_t *n);
bool te_has_arg(const LowerCtx *lc, uint32_t i);
/* A prim operand as scalar: its value, or a parameter. */
const Expr *te_prim(LowerCtx *lc, uint32_t i);
/* The value of a constant of rank 0 as a literal, else NULL. */
const Expr *te_literal(Context *c, const Node *n);
/* Operand i at result position idx: a broadcast load, or the scalar itself (of a prim operand or a
 * constant of rank 0). */
const Expr *te_operand(LowerCtx *lc, uint32_t i, const Expr *const *idx, uint32_t n);
/* Struct info, dtype and mapped shape of result k (0 for a single tensor). */
const SInfo *te_result(LowerCtx *lc, uint32_t k);
DType te_result_dtype(LowerCtx *lc, uint32_t k);
const Expr *const *te_result_shape(LowerCtx *lc, uint32_t k, uint32_t *ndim);
/* Begins the stage that computes result k as a whole. */
void te_result_begin(LowerCtx *lc, uint32_t k, const char *name);
/* The dtype that sums and the like run in: float16 and bfloat16 in float32. */
DType te_acc_dtype(DType d);
/* The dtype that means run in: sums of integers must not wrap, nor their number. */
DType te_mean_dtype(DType d);
/* Value conversions of R.astype: floats to integers saturate and NaN gives 0, to bool compares. */
const Expr *te_cast(Context *c, DType d, const Expr *e);
const Expr *te_i64(LowerCtx *lc, int64_t v);
/* A condition that is checked when the prim_func runs, before its stages; such a function is not
 * fused. Nothing is emitted for a condition that is literally true. */
void te_assert(LowerCtx *lc, const Expr *cond, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* If this operand is a shape, the result's: its dims must not be negative, checked where that isn't
 * known. */
void te_need_natural(LowerCtx *lc, uint32_t operand);
/* Two dims that must be equal for the operator to be right: refused where they provably differ,
 * checked at run time where that isn't known. */
bool te_need_equal(LowerCtx *lc, const Expr *a, const Expr *b, const char *what);
/* cond ? a : b, folded where cond is a literal. */
const Expr *te_select(Context *c, const Expr *cond, const Expr *a, const Expr *b);
/* Integer quotient or remainder (DIV, MOD, FLOORDIV, FLOORMOD) defined for every operand: 0 for a
 * divisor of 0, and the lowest value divided by -1 wraps. */
const Expr *te_int_div(Context *c, ExprKind kind, const Expr *a, const Expr *b);
/* FLOORDIV or FLOORMOD of an index by the extent of an axis; an extent that is 0, whose axis is
 * never indexed, gives 0. */
const Expr *te_axis_div(Context *c, ExprKind kind, const Expr *at, const Expr *extent);
/* Brings two operands to a dtype that holds both (comparisons of mixed dtypes). */
void te_common(Context *c, const Expr **a, const Expr **b);
/* Elementwise operators: the stage of a scalar function of operand 0, or of 0 and 1. float16,
 * bfloat16 and float8 are computed in float32 and rounded once; the value is converted to the
 * result's dtype. On prim operands the node becomes the expression itself. */
typedef const Expr *(*TeUnary)(LowerCtx *lc, const Expr *x);
typedef const Expr *(*TeBinary)(LowerCtx *lc, const Expr *a, const Expr *b);
bool te_unary(LowerCtx *lc, Node *n, TeUnary fn);
bool te_binary(LowerCtx *lc, Node *n, TeBinary fn);
/* Float operands of few bits widened to float32; others as they are. */
const Expr *te_widen(Context *c, const Expr *e);

/* An index that is data, as int64; what a uint64 holds beyond that is the greatest one. */
const Expr *te_index_value(Context *c, const Expr *index);
/* An index that is data, as int64 counted from the start (negative ones count from the end); the
 * same cut to the axis; and a statement that fails where it lies outside (ir/ops/gather.c). */
const Expr *te_index_from_start(Context *c, const Expr *index, const Expr *dim);
const Expr *te_index_inside(Context *c, const Expr *index, const Expr *dim);
Stmt *te_index_check(LowerCtx *lc, const Expr *at, const Expr *dim);

/* A stage with the stable order of x along an axis: [other axes..., place] -> position, int64
 * (ir/ops/sort.c). */
Buffer *te_sort_order(LowerCtx *lc, Buffer *x, uint32_t axis, bool descending);

/* One step of a merge: the next elements of two runs, which end in front of mid and end, in half
 * `from` of buffers [2, n], and the place `at` in half `to` where the one that comes first goes. */
typedef struct {
  const Expr *i, *j, *mid, *end, *from, *to, *at;
} TeMerge;
enum { MERGE_LEFT, MERGE_RIGHT, MERGE_HALF, MERGE_STATE }; /* i, j, the half that is in use */
typedef Stmt *TeMergeStep(LowerCtx *lc, const TeMerge *m, void *ctx);
/* Loops that sort n elements by merging from the bottom up. `step` moves an element and stores
 * i + 1 to state[MERGE_LEFT] or j + 1 to state[MERGE_RIGHT]; state holds MERGE_STATE numbers or
 * more, and at the end the sorted half in state[MERGE_HALF]. */
Stmt *te_merge_sort(LowerCtx *lc, const Expr *n, Buffer *state, TeMergeStep *step, void *ctx);
/* The times that te_merge_sort goes through n elements; for symbolic n, the most. */
int te_merge_passes(Context *c, const Expr *n);

/* Building blocks of composites: a new operator without attributes given; a node bound before the
 * one that is lowered, typed, or NULL after an error. */
Node *te_make(LowerCtx *lc, OpId op, Node *const *in, uint32_t n);
Node *te_bind(LowerCtx *lc, Node *x);
/* An elementwise operator whose operands' shapes are known, but not how they broadcast; and its
 * composite, which finds out when it runs (ir/ops/broadcast.c). */
bool te_joins_at_run_time(const Node *n);
bool te_join_operands(LowerCtx *lc, Node *n);

/* Which axes of a buffer a reduction runs over, and what remains. */
typedef struct {
  Buffer *x;
  bool reduced[TE_MAX_RANK];
  bool keepdims; /* reduced axes stay in the results with extent 1 */
  uint32_t nout, nred;
  const Expr *out[TE_MAX_RANK], *red[TE_MAX_RANK];
} TeAxes;
/* axes.n < 0: all. Axes were checked by inference. */
void te_axes_init(LowerCtx *lc, TeAxes *t, Buffer *x, IntList axes, bool keepdims);
/* Begins a reduction with result shape t->out over t->red; te_axes_load then reads a buffer of x's
 * shape at the stage's axes, widened to the dtype sums run in. */
void te_axes_begin(LowerCtx *lc, const TeAxes *t, const char *name, DType d);
const Expr *te_axes_load(LowerCtx *lc, const TeAxes *t, Buffer *x);
/* A reduction's result read from inside a stage: over x's full shape (idx of x), or during a
 * reduction with the same axes. */
const Expr *te_axes_result(LowerCtx *lc, const TeAxes *t, Buffer *r, const Expr *const *idx);
const Expr *te_axes_result_here(LowerCtx *lc, const TeAxes *t, Buffer *r);
/* Number of elements reduced into one, in dtype d. */
const Expr *te_axes_count(LowerCtx *lc, const TeAxes *t, DType d);
/* Mean, and mean squared distance from it (two passes, so that large offsets do not cancel), in the
 * dtype sums run in; indexed by t->out. */
Buffer *te_axes_mean(LowerCtx *lc, const TeAxes *t, const char *name);
Buffer *te_axes_variance(LowerCtx *lc, const TeAxes *t, Buffer *mean, const char *name);
/* Ends the stage begun with te_result_begin: the value, converted to its dtype, is a result. */
void te_out_value(LowerCtx *lc, const Expr *value);

#endif
