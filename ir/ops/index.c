/* Selecting elements: take, slices, where.
 *
 * No index is trusted: take cuts or wraps each one into the axis whatever the mode ("fast", which
 * TVM leaves undefined out of range, counts negative ones from the end as ONNX's Gather does),
 * slices clamp their bounds as Python does, so that nothing outside the operand is ever read. */
#include "ir/ops/scalar.h"

#include <math.h>
#include <string.h>

/* ---- take ---- */
const SInfo *infer_take(InferCtx *ic, Node *n) {
  const take_attrs *a = n->attrs;
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  const SInfo *i = node_in(n, 1)->sinfo;
  if (i->kind != SINFO_TENSOR && i->kind != SINFO_PRIM)
    return infer_error(ic, n, C_operand, 1,
                       "expected a tensor or a prim value for 'indices' but got %s",
                       infer_type_text(ic, i));
  if (!infer_need_int(ic, n, 1, i)) return NULL;
  if (a->mode && strcmp(a->mode, "fast") && strcmp(a->mode, "clip") && strcmp(a->mode, "wrap") &&
      strcmp(a->mode, "nan"))
    return infer_error(ic, n, C_choice, -1, "mode '%s' is none of fast, clip, wrap, nan", a->mode);
  int32_t ni = i->kind == SINFO_PRIM ? 0 : i->ndim, axis = 0;
  if (!a->axis.has && x->ndim != 1)
    return infer_error(ic, n, C_rank, -1, "without an axis x must have rank 1 but is %s",
                       infer_shape_text(ic, x));
  if (a->axis.has && x->ndim >= 0 && !infer_axis(ic, n, a->axis.v, x->ndim, &axis)) return NULL;
  if (x->ndim < 0 || ni < 0) return sinfo_tensor_ndim(ic->c, -1, x->dtype);
  int32_t ndim = x->ndim - 1 + ni;
  if (ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, -1, "rank %d is above %d", ndim, TE_MAX_RANK);
  if (!x->dims || (ni && !i->dims)) return sinfo_tensor_ndim(ic->c, ndim, x->dtype);
  const Expr *d[TE_MAX_RANK + 1];
  int32_t k = 0;
  for (int32_t j = 0; j < axis; j++) d[k++] = x->dims[j];
  for (int32_t j = 0; j < ni; j++) d[k++] = i->dims[j];
  for (int32_t j = axis + 1; j < x->ndim; j++) d[k++] = x->dims[j];
  return sinfo_tensor(ic->c, d, (uint32_t)k, x->dtype);
}

static bool surely_positive(Context *c, const Expr *e) {
  int64_t lo, hi;
  dim_bounds(c, NULL, expr_dim(c, e), &lo, &hi);
  return lo > 0;
}

/* An index modulo the dim. One of uint64 may be beyond int64: it is divided as it is. */
static const Expr *wrap_index(Context *c, const Expr *i, const Expr *dim) {
  if (!dtype_eq(i->dtype, DT_U64)) return te_int_div(c, EXPR_FLOORMOD, te_index_value(c, i), dim);
  return te_cast(c, DT_I64, te_int_div(c, EXPR_FLOORMOD, i, te_cast(c, DT_U64, dim)));
}

bool lower_take(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const take_attrs *a = n->attrs;
  const char *mode = a->mode ? a->mode : "fast";
  Buffer *x = te_arg(lc, 0);
  uint32_t axis = (uint32_t)(!a->axis.has ? 0 : a->axis.v < 0 ? a->axis.v + x->ndim : a->axis.v);
  bool prim = node_in(n, 1)->sinfo->kind == SINFO_PRIM;
  uint32_t ni = prim ? 0 : te_arg(lc, 1)->ndim;
  te_result_begin(lc, 0, "T_take");
  const Expr *raw = prim ? te_prim(lc, 1) : te_load(lc, te_arg(lc, 1), lc->ax + axis);
  const Expr *i = te_index_value(c, raw), *dim = x->shape[axis], *zero = te_i64(lc, 0);
  const Expr *last = SUB(dim, te_i64(lc, 1));
  const Expr *in = !strcmp(mode, "wrap")   ? wrap_index(c, raw, dim)
                   : !strcmp(mode, "fast") ? te_index_inside(c, raw, dim)
                                           : expr_max(c, expr_min(c, i, last), zero);
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t k = 0; k < x->ndim; k++)
    idx[k] = k < axis ? lc->ax[k] : k == axis ? in : lc->ax[k - 1 + ni];
  const Expr *v = te_load(lc, x, idx);
  if (!strcmp(mode, "nan") && dtype_is_float(x->dtype))
    v = SEL(AND(GE(i, zero), LT(i, dim)), v, expr_float(c, x->dtype, (double)NAN));
  if (!surely_positive(c, dim)) /* nothing to take: 0 */
    v = expr_if_then_else(c, GT(dim, zero), v, expr_lit(c, x->dtype, 0));
  te_out(lc, te_spatial_end(lc, v));
  return true;
}

/* ---- slices ---- */
typedef struct {
  const Expr *begin, *len; /* NULL: the axis is whole */
  int64_t stride;
} Slice;

/* A bound counted from the start and clamped to [lo, hi]; in range already when `inbound`. */
static const Expr *canonical(InferCtx *ic, const Expr *at, const Expr *dim, int64_t stride,
                             bool inbound) {
  Context *c = ic->c;
  const Expr *zero = expr_i64(c, 0), *hi = stride < 0 ? SUB(dim, expr_i64(c, 1)) : dim;
  const Expr *lo = expr_i64(c, stride < 0 ? -1 : 0), *wrapped = expr_simplify(c, ADD(at, dim));
  at = te_cast(c, DT_I64, at);
  if (prove_lt(c, ic->facts, expr_dim(c, at), expr_dim(c, zero)) == PROOF_YES)
    at = wrapped;
  else if (prove_le(c, ic->facts, expr_dim(c, zero), expr_dim(c, at)) != PROOF_YES)
    at = expr_select(c, LT(at, zero), wrapped, at);
  if (!inbound) at = expr_min(c, expr_max(c, at, lo), hi);
  return infer_literal(ic, at);
}

static bool same_count(InferCtx *ic, const Node *n, uint32_t i, uint32_t have, uint32_t want) {
  if (have == want) return true;
  infer_error(ic, n, C_count, (int)i, "'%s' has %u values for %u axes", infer_arg_name(ic, n, i),
              have, want);
  return false;
}

/* The slices by axis of x; *known is false where values are not known. False after an error. */
static bool plan(InferCtx *ic, const Node *n, const SInfo *x, Slice *s, bool *known) {
  Context *c = ic->c;
  const Expr *const *v[4];
  uint32_t count[4] = {0};
  bool inbound = node_attrs(n, strided_slice)->assume_inbound, has_strides = node_has_in(n, 4);
  *known = x->dims;
  for (uint32_t i = 0; i < (has_strides ? 4 : 3); i++) {
    if (!infer_prims_arg(ic, n, i + 1, &v[i], &count[i])) return false;
    if (i && !same_count(ic, n, i + 1, count[i], count[0])) return false;
    *known = *known && (v[i] || !count[i]);
  }
  bool seen[TE_MAX_RANK] = {false};
  for (uint32_t k = 0; k < count[0] && v[0]; k++) {
    int64_t axis, stride = 1;
    int32_t at;
    if (!expr_const_int(c, v[0][k], &axis)) {
      infer_error(ic, n, C_constant, 1, "axes must be integers known at compile time");
      return false;
    }
    if (x->ndim < 0) continue;
    if (!infer_axis(ic, n, axis, x->ndim, &at)) return false;
    if (seen[at]) {
      infer_error(ic, n, C_axis_twice, 1, "axis %d is given twice", at);
      return false;
    }
    seen[at] = true;
    if (!*known) continue;
    if (has_strides && (!expr_const_int(c, v[3][k], &stride) || !stride)) {
      infer_error(ic, n, C_constant, 4,
                  "strides must be integers other than 0, known at compile time");
      return false;
    }
    /* A longer stride than any axis picks one element, as this one does, and can be added to. */
    const int64_t longest = INT64_C(1) << 62;
    stride = stride > longest ? longest : stride < -longest ? -longest : stride;
    const Expr *begin = canonical(ic, v[1][k], x->dims[at], stride, inbound);
    const Expr *end = canonical(ic, v[2][k], x->dims[at], stride, inbound);
    const Expr *span = stride > 0 ? SUB(end, begin) : SUB(begin, end);
    const Expr *step = expr_i64(c, stride > 0 ? stride : -stride);
    const Expr *len = expr_floordiv(c, ADD(span, SUB(step, expr_i64(c, 1))), step);
    len = infer_literal(ic, len);
    if (prove_le(c, ic->facts, expr_dim(c, expr_i64(c, 0)), expr_dim(c, len)) != PROOF_YES)
      len = expr_simplify(c, expr_max(c, len, expr_i64(c, 0)));
    s[at] = (Slice){begin, len, stride};
  }
  return true;
}

const SInfo *infer_strided_slice(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  Slice s[TE_MAX_RANK] = {{0}};
  bool known;
  if (!x) return NULL;
  if (x->ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, 0, "rank %d is above %d", x->ndim, TE_MAX_RANK);
  if (!plan(ic, n, x, s, &known)) return NULL;
  if (!known) return sinfo_tensor_ndim(ic->c, x->ndim, x->dtype);
  const Expr *d[TE_MAX_RANK];
  for (int32_t i = 0; i < x->ndim; i++) d[i] = s[i].len ? s[i].len : x->dims[i];
  return sinfo_tensor(ic->c, d, (uint32_t)x->ndim, x->dtype);
}

bool lower_strided_slice(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Slice s[TE_MAX_RANK] = {{0}};
  bool known, inbound = node_attrs(n, strided_slice)->assume_inbound;
  Buffer *x = te_arg(lc, 0);
  if (!plan(&ic, n, node_in(n, 0)->sinfo, s, &known)) return false;
  te_result_begin(lc, 0, "T_strided_slice");
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++) {
    idx[i] = lc->ax[i];
    if (!s[i].len) continue;
    idx[i] = ADD(MUL(lc->ax[i], te_i64(lc, s[i].stride)), te_expr(lc, s[i].begin));
    if (inbound) { /* promised, not believed */
      const Expr *last = SUB(x->shape[i], te_i64(lc, 1));
      idx[i] = expr_max(c, expr_min(c, idx[i], last), te_i64(lc, 0));
    }
    idx[i] = expr_simplify(c, idx[i]);
  }
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

/* ---- where ---- */
const SInfo *infer_where(InferCtx *ic, Node *n) {
  const SInfo *s[3];
  for (uint32_t i = 0; i < 3; i++)
    if (!(s[i] = infer_tensor_arg(ic, n, i))) return NULL;
  if (dtype_known(s[0]->dtype) && !dtype_is_bool(s[0]->dtype))
    return infer_error(ic, n, C_bool, 0, "expected a bool tensor for 'condition' but got %s",
                       infer_type_text(ic, s[0]));
  DType d;
  const Expr *const *dims;
  int32_t ndim;
  if (!infer_binary_dtype(ic, n, s[1], s[2], &d)) return NULL;
  if (s[0]->shape_var && s[0]->shape_var == s[1]->shape_var && s[0]->shape_var == s[2]->shape_var)
    return sinfo_tensor_var(ic->c, s[0]->shape_var, s[0]->ndim, d);
  if (!infer_broadcast(ic, n, s[1], s[2], &dims, &ndim)) return NULL;
  const SInfo *both = infer_tensor(ic, dims, ndim, d);
  if (!infer_broadcast(ic, n, s[0], both, &dims, &ndim)) return NULL;
  return infer_tensor(ic, dims, ndim, d);
}

bool lower_where(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  te_result_begin(lc, 0, "T_where");
  const Expr *p = te_operand(lc, 0, lc->ax, lc->nspatial);
  const Expr *a = te_cast(c, lc->stage_dtype, te_operand(lc, 1, lc->ax, lc->nspatial));
  const Expr *b = te_cast(c, lc->stage_dtype, te_operand(lc, 2, lc->ax, lc->nspatial));
  te_out(lc, te_spatial_end(lc, SEL(p, a, b)));
  return true;
}
