/* Reductions over axes.
 *
 * float16 and bfloat16 accumulate in float32. Variance takes two passes: the mean, then the squared
 * distances; E[x^2] - E[x]^2 would cancel. argmax finds the extreme first and then the least
 * position that holds it, two plain reductions that vectorise, in place of one over pairs. */
#include "ir/ops/scalar.h"

static const SInfo *reduced(InferCtx *ic, Node *n, IntList axes, bool keepdims, DType d) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  if (!dtype_known(d)) d = x->dtype;
  int32_t at[TE_MAX_RANK];
  if (axes.n > TE_MAX_RANK) return infer_error(ic, n, C_rank_limit, -1, "too many axes");
  if (axes.n >= 0 && x->ndim >= 0 && !infer_axes(ic, n, axes, x->ndim, at)) return NULL;
  if (axes.n < 0 && !keepdims) return sinfo_tensor(ic->c, NULL, 0, d);
  if (x->ndim < 0) return sinfo_tensor_ndim(ic->c, -1, d);
  bool gone[TE_MAX_RANK] = {false};
  if (x->ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, 0, "rank %d is above %d", x->ndim, TE_MAX_RANK);
  int32_t left = 0;
  for (int32_t i = 0; i < x->ndim; i++) gone[i] = axes.n < 0;
  for (int32_t i = 0; i < axes.n; i++) gone[at[i]] = true;
  const Expr *dims[TE_MAX_RANK];
  bool known = x->dims || (axes.n < 0 && keepdims);
  for (int32_t i = 0; i < x->ndim; i++)
    if (!gone[i] || keepdims) {
      dims[left++] = gone[i] ? expr_i64(ic->c, 1) : x->dims ? x->dims[i] : NULL;
    }
  return infer_tensor(ic, known ? dims : NULL, left, d);
}

_Static_assert(offsetof(sum_attrs, axis) == offsetof(std_attrs, axis), "one attribute struct");

const SInfo *infer_reduce(InferCtx *ic, Node *n) {
  const sum_attrs *a = n->attrs;
  return reduced(ic, n, a->axis, a->keepdims, DT_UNKNOWN);
}

const SInfo *infer_arg_reduce(InferCtx *ic, Node *n) {
  const argmax_attrs *a = n->attrs;
  IntList one = {a->axis.has ? 1 : -1, &a->axis.v};
  return reduced(ic, n, one, a->keepdims, DT_I64);
}

/* ---- axes of a lowering ---- */
void te_axes_init(LowerCtx *lc, TeAxes *t, Buffer *x, IntList axes, bool keepdims) {
  *t = (TeAxes){.x = x, .keepdims = keepdims};
  for (uint32_t i = 0; i < x->ndim; i++) t->reduced[i] = axes.n < 0;
  for (int32_t i = 0; i < axes.n; i++)
    t->reduced[axes.at[i] < 0 ? axes.at[i] + x->ndim : axes.at[i]] = true;
  for (uint32_t i = 0; i < x->ndim; i++) {
    if (t->reduced[i]) t->red[t->nred++] = x->shape[i];
    if (!t->reduced[i] || keepdims) t->out[t->nout++] = t->reduced[i] ? te_i64(lc, 1) : x->shape[i];
  }
}

/* With no axis to reduce (a scalar) one of extent 1 stands in, so that the block is a reduction. */
void te_axes_begin(LowerCtx *lc, const TeAxes *t, const char *name, DType d) {
  const Expr *one = te_i64(lc, 1);
  te_reduce_begin(lc, name, t->out, t->nout, d, t->nred ? t->red : &one, t->nred ? t->nred : 1);
}

const Expr *te_axes_load(LowerCtx *lc, const TeAxes *t, Buffer *x) {
  const Expr *idx[TE_MAX_RANK];
  uint32_t out = 0, red = lc->nspatial;
  for (uint32_t i = 0; i < x->ndim; i++) {
    if (t->reduced[i]) {
      idx[i] = lc->ax[red++];
      out += t->keepdims;
    } else
      idx[i] = lc->ax[out++];
  }
  return te_widen(lc->c, te_load(lc, x, idx));
}

const Expr *te_axes_result(LowerCtx *lc, const TeAxes *t, Buffer *r, const Expr *const *idx) {
  const Expr *at[TE_MAX_RANK];
  uint32_t out = 0;
  for (uint32_t i = 0; i < t->x->ndim; i++)
    if (!t->reduced[i] || t->keepdims) at[out++] = t->reduced[i] ? te_i64(lc, 0) : idx[i];
  return te_load(lc, r, at);
}

const Expr *te_axes_result_here(LowerCtx *lc, const TeAxes *t, Buffer *r) {
  (void)t;
  return te_load(lc, r, lc->ax);
}

const Expr *te_axes_count(LowerCtx *lc, const TeAxes *t, DType d) {
  return te_cast(lc->c, d, expr_product(lc->c, t->red, t->nred));
}

/* sum / count in a stage of its own. */
static Buffer *divide_by_count(LowerCtx *lc, const TeAxes *t, Buffer *sum, const char *name) {
  Context *c = lc->c;
  DType d = sum->dtype;
  te_spatial_begin(lc, name, t->out, t->nout, d);
  const Expr *total = te_load(lc, sum, lc->ax), *n = te_axes_count(lc, t, d);
  return te_spatial_end(lc, dtype_is_int(d) ? te_int_div(c, EXPR_DIV, total, n) : DIV(total, n));
}

Buffer *te_axes_mean(LowerCtx *lc, const TeAxes *t, const char *name) {
  DType d = te_mean_dtype(t->x->dtype);
  te_axes_begin(lc, t, arena_printf(lc->arena, "%s_red", name), d);
  Buffer *sum = te_reduce_end(lc, TE_SUM, te_cast(lc->c, d, te_axes_load(lc, t, t->x)));
  return divide_by_count(lc, t, sum, name);
}

Buffer *te_axes_variance(LowerCtx *lc, const TeAxes *t, Buffer *mean, const char *name) {
  Context *c = lc->c;
  te_axes_begin(lc, t, arena_printf(lc->arena, "%s_red", name), mean->dtype);
  const Expr *x = te_cast(c, mean->dtype, te_axes_load(lc, t, t->x));
  const Expr *d = SUB(x, te_axes_result_here(lc, t, mean));
  Buffer *sum = te_reduce_end(lc, TE_SUM, MUL(d, d));
  return divide_by_count(lc, t, sum, name);
}

/* r as result 0: itself when the dtype is right, else converted in a last stage. */
static bool finish(LowerCtx *lc, Buffer *r) {
  if (dtype_eq(r->dtype, te_result_dtype(lc, 0))) {
    te_out(lc, r);
    return true;
  }
  te_result_begin(lc, 0, "compute");
  te_out_value(lc, te_load(lc, r, lc->ax));
  return true;
}

static bool plain(LowerCtx *lc, Node *n, TeReduce r, TeReduce on_bool) {
  const sum_attrs *a = n->attrs;
  TeAxes t;
  te_axes_init(lc, &t, te_arg(lc, 0), a->axis, a->keepdims);
  DType d = t.x->dtype;
  bool wide = r == TE_SUM || r == TE_PROD;
  te_axes_begin(lc, &t, arena_printf(lc->arena, "%s_red", lc->name), wide ? te_acc_dtype(d) : d);
  const Expr *x = te_cast(lc->c, lc->stage_dtype, te_axes_load(lc, &t, t.x));
  return finish(lc, te_reduce_end(lc, dtype_is_bool(d) ? on_bool : r, x));
}

bool lower_sum(LowerCtx *lc, Node *n) {
  return plain(lc, n, TE_SUM, TE_ANY);
}
bool lower_prod(LowerCtx *lc, Node *n) {
  return plain(lc, n, TE_PROD, TE_ALL);
}
bool lower_max(LowerCtx *lc, Node *n) {
  return plain(lc, n, TE_MAX, TE_ANY);
}
bool lower_min(LowerCtx *lc, Node *n) {
  return plain(lc, n, TE_MIN, TE_ALL);
}

static void begin_moment(LowerCtx *lc, Node *n, TeAxes *t) {
  const sum_attrs *a = n->attrs;
  te_axes_init(lc, t, te_arg(lc, 0), a->axis, a->keepdims);
}

bool lower_mean(LowerCtx *lc, Node *n) {
  TeAxes t;
  begin_moment(lc, n, &t);
  return finish(lc, te_axes_mean(lc, &t, "mean"));
}

static Buffer *variance(LowerCtx *lc, const TeAxes *t) {
  return te_axes_variance(lc, t, te_axes_mean(lc, t, "mean"), "variance");
}

bool lower_variance(LowerCtx *lc, Node *n) {
  TeAxes t;
  begin_moment(lc, n, &t);
  return finish(lc, variance(lc, &t));
}

bool lower_std(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  TeAxes t;
  begin_moment(lc, n, &t);
  Buffer *v = variance(lc, &t);
  te_result_begin(lc, 0, "std");
  const Expr *e = te_load(lc, v, lc->ax);
  te_out_value(lc, F1(sqrt, dtype_is_int(e->dtype) ? te_cast(c, DT_F64, e) : e));
  return true;
}

/* ---- positions ---- */
/* Position along the reduced axes, row-major. */
static const Expr *position(LowerCtx *lc, const TeAxes *t) {
  Context *c = lc->c;
  const Expr *p = te_i64(lc, 0);
  for (uint32_t i = 0; i < t->nred; i++)
    p = i ? ADD(MUL(p, t->red[i]), lc->ax[lc->nspatial + i]) : lc->ax[lc->nspatial];
  return p;
}

/* Of no elements none is the greatest, and the result has no value: refused, when compiling if that
 * is known, unless the result is empty too. */
static bool need_elements(LowerCtx *lc, const TeAxes *t) {
  Context *c = lc->c;
  uint32_t ndim;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim), *zero = te_i64(lc, 0);
  const Expr *total = expr_product(c, t->red, t->nred), *results = expr_product(c, shape, ndim);
  const Expr *holds = expr_simplify(c, OR(GT(total, zero), EQ(results, zero)));
  if (expr_is_int(holds, 0)) return te_error(lc, "no elements to choose one from");
  te_assert(lc, holds, "no elements to choose one from");
  return true;
}

static bool arg_extreme(LowerCtx *lc, Node *n, TeReduce r, TeReduce on_bool) {
  Context *c = lc->c;
  const argmax_attrs *a = n->attrs;
  TeAxes t;
  IntList one = {a->axis.has ? 1 : -1, &a->axis.v};
  te_axes_init(lc, &t, te_arg(lc, 0), one, a->keepdims);
  if (!need_elements(lc, &t)) return false;
  DType d = te_acc_dtype(t.x->dtype);
  te_axes_begin(lc, &t, arena_printf(lc->arena, "%s_value", lc->name), d);
  Buffer *m = te_reduce_end(lc, dtype_is_bool(d) ? on_bool : r, te_axes_load(lc, &t, t.x));
  te_axes_begin(lc, &t, arena_printf(lc->arena, "%s_red", lc->name), DT_I64);
  const Expr *x = te_axes_load(lc, &t, t.x), *best = te_axes_result_here(lc, &t, m);
  const Expr *hit = EQ(x, best);
  if (dtype_is_float(d))
    hit = OR(hit, F1(isnan, x)); /* then best is a NaN too, which equals nothing */
  te_out(lc, te_reduce_end(lc, TE_MIN, SEL(hit, position(lc, &t), te_i64(lc, INT64_MAX))));
  return true;
}

bool lower_argmax(LowerCtx *lc, Node *n) {
  return arg_extreme(lc, n, TE_MAX, TE_ANY);
}
bool lower_argmin(LowerCtx *lc, Node *n) {
  return arg_extreme(lc, n, TE_MIN, TE_ALL);
}
