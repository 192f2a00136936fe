/* New tensors: constants, ranges, diagonals, triangles. */
#include "ir/ops/scalar.h"

#include <math.h>

_Static_assert(offsetof(full_attrs, dtype) == 0 && offsetof(arange_attrs, dtype) == 0 &&
                   offsetof(eye_attrs, dtype) == 0 && offsetof(ones_attrs, dtype) == 0,
               "read by dtype_or");

static DType dtype_or(const Node *n, DType d) {
  const DType *a = n->attrs;
  return dtype_known(*a) ? *a : d;
}

static const SInfo *scalar_arg(InferCtx *ic, const Node *n, uint32_t i) {
  const SInfo *v = infer_tensor_arg(ic, n, i);
  if (v && v->ndim != 0) {
    infer_error(ic, n, C_rank, (int)i, "expected a tensor of rank 0 for '%s' but got %s",
                infer_arg_name(ic, n, i), infer_shape_text(ic, v));
    return NULL;
  }
  return v;
}

const SInfo *infer_full(InferCtx *ic, Node *n) {
  const SInfo *v = scalar_arg(ic, n, 1);
  return v ? infer_of_shape(ic, n, 0, dtype_or(n, v->dtype)) : NULL;
}

const SInfo *infer_full_like(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *v = x ? scalar_arg(ic, n, 1) : NULL;
  return v ? infer_like(ic, x, dtype_or(n, x->dtype)) : NULL;
}

bool lower_full(LowerCtx *lc, Node *n) {
  (void)n;
  te_need_natural(lc, 0);
  te_result_begin(lc, 0, "T_full");
  te_out_value(lc, te_operand(lc, 1, lc->ax, lc->nspatial));
  return true;
}

const SInfo *infer_filled(InferCtx *ic, Node *n) {
  DType d = dtype_or(n, DT_UNKNOWN);
  if (!dtype_known(d)) return infer_error(ic, n, C_given, -1, "a dtype must be given");
  return infer_of_shape(ic, n, 0, d);
}

const SInfo *infer_filled_like(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  return x ? infer_like(ic, x, dtype_or(n, x->dtype)) : NULL;
}

static bool filled(LowerCtx *lc, double v) {
  te_need_natural(lc, 0);
  te_result_begin(lc, 0, "T_full");
  te_out(lc, te_spatial_end(lc, expr_lit(lc->c, lc->stage_dtype, v)));
  return true;
}

bool lower_ones(LowerCtx *lc, Node *n) {
  (void)n;
  return filled(lc, 1);
}

bool lower_zeros(LowerCtx *lc, Node *n) {
  (void)n;
  return filled(lc, 0);
}

/* ---- ranges ---- */
static const SInfo *range_of(InferCtx *ic, const Node *n, const Expr *start, const Expr *end,
                             const Expr *step) {
  Context *c = ic->c;
  bool real =
      dtype_is_float(start->dtype) || dtype_is_float(end->dtype) || dtype_is_float(step->dtype);
  DType d = dtype_or(n, real ? DT_F32 : DT_I64);
  const Expr *len;
  if (real) {
    const Expr *e[3] = {start, end, step};
    double v[3];
    for (int i = 0; i < 3; i++) {
      if (e[i]->kind != EXPR_INT && e[i]->kind != EXPR_FLOAT) return sinfo_tensor_ndim(c, 1, d);
      v[i] = e[i]->kind == EXPR_INT ? (double)e[i]->i : e[i]->f;
    }
    double count = v[2] != 0 ? ceil((v[1] - v[0]) / v[2]) : (double)NAN;
    if (!(count < 9e15))
      return infer_error(ic, n, C_least, -1, "the range from %g to %g by %g has no end", v[0], v[1],
                         v[2]);
    len = expr_i64(c, count > 0 ? (int64_t)count : 0);
  } else {
    int64_t by;
    start = te_cast(c, DT_I64, start);
    end = te_cast(c, DT_I64, end);
    step = te_cast(c, DT_I64, step);
    if (!expr_const_int(c, step, &by)) return sinfo_tensor_ndim(c, 1, d);
    if (by == 0 || by == INT64_MIN)
      return infer_error(ic, n, C_least, -1, "the step must not be %lld", (long long)by);
    const Expr *span = by > 0 ? SUB(end, start) : SUB(start, end);
    int64_t size = by > 0 ? by : -by;
    len = infer_quotient(ic, ADD(span, expr_i64(c, size - 1)), size, 0);
    if (prove_le(c, ic->facts, dim_const(c, 0), expr_dim(c, len)) != PROOF_YES)
      len = expr_simplify(c, expr_max(c, len, expr_i64(c, 0)));
  }
  return sinfo_tensor(c, &len, 1, d);
}

const SInfo *infer_arange(InferCtx *ic, Node *n) {
  const Expr *v[3];
  bool no_end = n->nin == 3 && !node_has_in(n, 1); /* R.arange(end, step=2) */
  if (n->nin == 1 || no_end) {                     /* R.arange(end) */
    if (!infer_prim_arg(ic, n, 0, &v[0])) return NULL;
    Node *end = node_in(n, 0);
    Node *zero = node_prim(n->func, expr_lit(ic->c, end->sinfo->dtype, 0), n->span);
    node_infer(ic->m, ic->facts, zero);
    node_set_in(n, 0, zero);
    if (no_end)
      node_set_in(n, 1, end);
    else
      node_add_in(n, end, n->span);
  }
  infer_default(ic, n, 2, expr_lit(ic->c, node_in(n, 0)->sinfo->dtype, 1));
  for (uint32_t i = 0; i < 3; i++)
    if (!infer_prim_arg(ic, n, i, &v[i])) return NULL;
  if (!v[0] || !v[1] || !v[2])
    return sinfo_tensor_ndim(ic->c, 1, dtype_or(n, node_in(n, 0)->sinfo->dtype));
  return range_of(ic, n, v[0], v[1], v[2]);
}

bool lower_arange(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  te_result_begin(lc, 0, "T_arange");
  DType d = te_acc_dtype(lc->stage_dtype);
  const Expr *start = te_prim(lc, 0), *step = te_prim(lc, 2);
  if (dtype_is_float(start->dtype) || dtype_is_float(step->dtype))
    d = dtype_is_float(d) ? d : DT_F64;
  const Expr *i = te_cast(c, d, lc->ax[0]);
  te_out_value(lc, ADD(te_cast(c, d, start), MUL(i, te_cast(c, d, step))));
  return true;
}

/* ---- diagonals ---- */
const SInfo *infer_eye(InferCtx *ic, Node *n) {
  const Expr *rows, *cols, *k;
  if (!infer_prim_arg(ic, n, 0, &rows)) return NULL;
  if (n->nin == 1) node_add_in(n, node_in(n, 0), n->in[0].span);
  infer_default(ic, n, 2, expr_i64(ic->c, 0));
  if (sinfo_is_void(node_in(n, 1)->sinfo)) node_set_in(n, 1, node_in(n, 0));
  if (!infer_prim_arg(ic, n, 1, &cols) || !infer_prim_arg(ic, n, 2, &k)) return NULL;
  DType d = dtype_or(n, DT_F32);
  if (!rows || !cols) return sinfo_tensor_ndim(ic->c, 2, d);
  const Expr *dims[2] = {te_cast(ic->c, DT_I64, rows), te_cast(ic->c, DT_I64, cols)};
  for (uint32_t i = 0; i < 2; i++) {
    int64_t v;
    if (expr_const_int(ic->c, dims[i], &v) && v < 0)
      return infer_error(ic, n, C_extent, (int)i, "the extent is %lld", (long long)v);
  }
  return sinfo_tensor(ic->c, dims, 2, d);
}

const SInfo *infer_eye_like(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const Expr *k;
  if (!x) return NULL;
  if (x->ndim >= 0 && x->ndim != 2)
    return infer_error(ic, n, C_rank, 0, "expected rank 2 but got %s", infer_shape_text(ic, x));
  infer_default(ic, n, 1, expr_i64(ic->c, 0));
  return infer_prim_arg(ic, n, 1, &k) ? infer_like(ic, x, dtype_or(n, x->dtype)) : NULL;
}

bool lower_eye(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  te_result_begin(lc, 0, "T_eye");
  const Expr *k = te_cast(c, DT_I64, te_prim(lc, n->op == OP_eye ? 2 : 1));
  const Expr *hit = EQ(SUB(lc->ax[1], lc->ax[0]), k);
  DType d = lc->stage_dtype;
  te_out(lc, te_spatial_end(lc, te_cast(c, d, hit)));
  return true;
}

/* ---- triangles ---- */
const SInfo *infer_triangle(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const Expr *k;
  if (!x) return NULL;
  if (x->ndim >= 0 && x->ndim < 2)
    return infer_error(ic, n, C_rank, 0, "expected rank 2 or more but got %s",
                       infer_shape_text(ic, x));
  infer_default(ic, n, 1, expr_i64(ic->c, 0));
  return infer_prim_arg(ic, n, 1, &k) ? x : NULL;
}

static bool triangle(LowerCtx *lc, bool upper) {
  Context *c = lc->c;
  Buffer *b = te_arg(lc, 0);
  te_result_begin(lc, 0, upper ? "T_triu" : "T_tril");
  const Expr *k = te_cast(c, DT_I64, te_prim(lc, 1));
  const Expr *off = SUB(lc->ax[b->ndim - 1], lc->ax[b->ndim - 2]);
  const Expr *v = te_load(lc, b, lc->ax), *keep = upper ? GE(off, k) : LE(off, k);
  te_out(lc, te_spatial_end(lc, SEL(keep, v, expr_lit(c, b->dtype, 0))));
  return true;
}

bool lower_tril(LowerCtx *lc, Node *n) {
  (void)n;
  return triangle(lc, false);
}

bool lower_triu(LowerCtx *lc, Node *n) {
  (void)n;
  return triangle(lc, true);
}

/* ---- one_hot ---- */
const SInfo *infer_one_hot(InferCtx *ic, Node *n) {
  const one_hot_attrs *a = n->attrs;
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const Expr *on, *off;
  if (!x || !infer_need_int(ic, n, 0, x) || !infer_prim_arg(ic, n, 1, &on) ||
      !infer_prim_arg(ic, n, 2, &off))
    return NULL;
  DType d = node_in(n, 1)->sinfo->dtype;
  if (!dtype_eq(d, node_in(n, 2)->sinfo->dtype))
    return infer_error(ic, n, C_same_dtype, 2, "on_value and off_value must have the same dtype");
  if (a->depth <= 0)
    return infer_error(ic, n, C_least, -1, "the depth must be positive but is %lld",
                       (long long)a->depth);
  if (x->ndim < 0) return sinfo_tensor_ndim(ic->c, -1, d);
  int32_t axis, ndim = x->ndim + 1;
  if (!infer_axis(ic, n, a->axis, ndim, &axis)) return NULL;
  if (!x->dims) return sinfo_tensor_ndim(ic->c, ndim, d);
  const Expr **dims = ARENA_ARRAY(ic->arena, const Expr *, ndim);
  for (int32_t i = 0, k = 0; i < ndim; i++)
    dims[i] = i == axis ? expr_i64(ic->c, a->depth) : x->dims[k++];
  return sinfo_tensor(ic->c, dims, (uint32_t)ndim, d);
}

bool lower_one_hot(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  int64_t a = node_attrs(n, one_hot)->axis;
  te_result_begin(lc, 0, "T_one_hot");
  uint32_t axis = (uint32_t)(a < 0 ? a + lc->nspatial : a);
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0, k = 0; i < lc->nspatial; i++)
    if (i != axis) idx[k++] = lc->ax[i];
  const Expr *at = te_index_value(c, te_load(lc, te_arg(lc, 0), idx));
  te_out(lc, te_spatial_end(lc, SEL(EQ(at, lc->ax[axis]), te_prim(lc, 1), te_prim(lc, 2))));
  return true;
}
