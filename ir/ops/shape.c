/* Operators that only move elements: each result position reads one element of the operand.
 *
 * A reshape maps positions group-wise: dims of operand and result are paired from the left where
 * their products are equal, so that only the groups that really change need division. */
#include "ir/ops/scalar.h"

/* ---- reshape ---- */
static bool has_marks(InferCtx *ic, const SInfo *s) {
  for (int32_t i = 0; i < s->ndim; i++) {
    int64_t v;
    if (expr_const_int(ic->c, s->dims[i], &v) && v <= 0) return true;
  }
  return false;
}

/* Replaces -1 and 0 in the target, an R.shape, by what they stand for. A 0 stays one if x has no
 * elements. False after an error. */
static bool resolve_marks(InferCtx *ic, Node *n, const SInfo *x) {
  Context *c = ic->c;
  const SInfo *s = node_in(n, 1)->sinfo;
  if (!x->dims) {
    infer_error(ic, n, C_marks, 0, "a shape with -1 or 0 needs an operand of known shape, not %s",
                infer_shape_text(ic, x));
    return false;
  }
  const Expr *total = expr_product(c, x->dims, (uint32_t)x->ndim);
  const Expr **d = infer_dims_copy(ic, s->dims, (uint32_t)s->ndim, 0);
  int32_t rest = -1;
  int64_t v;
  bool empty = expr_const_int(c, total, &v) && v == 0;
  for (int32_t i = 0; i < s->ndim; i++) {
    if (!expr_const_int(c, d[i], &v) || v > 0) continue;
    if (v < -1) {
      infer_error(ic, n, C_marks, 1, "dim %d of the shape is %lld", i, (long long)v);
      return false;
    }
    if (v == -1 && rest >= 0) {
      infer_error(ic, n, C_marks, 1, "only one dim of a shape can be -1");
      return false;
    }
    if (v == -1)
      rest = i;
    else if (i < x->ndim && !empty)
      d[i] = x->dims[i];
    else if (!empty) {
      infer_error(ic, n, C_marks, 1, "dim %d is 0, which keeps a dim, but the operand has rank %d",
                  i, x->ndim);
      return false;
    }
  }
  if (rest >= 0) {
    d[rest] = expr_i64(c, 1);
    const Expr *others = expr_product(c, d, (uint32_t)s->ndim);
    if (expr_const_int(c, others, &v) && v == 0) {
      infer_error(ic, n, C_marks, 1, "-1 can't be resolved beside a dim of 0");
      return false;
    }
    d[rest] = expr_simplify(c, expr_floordiv(c, total, others));
  }
  Node *shape = node_shape(n->func, d, (uint32_t)s->ndim, n->in[1].span);
  node_infer(ic->m, ic->facts, shape);
  node_set_in(n, 1, shape);
  return true;
}

const SInfo *infer_reshape(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const SInfo *s = node_in(n, 1)->sinfo;
  if (x && node_in(n, 1)->op == OP_SHAPE_EXPR && has_marks(ic, s) && !resolve_marks(ic, n, x))
    return NULL;
  const SInfo *r = x ? infer_of_shape(ic, n, 1, x->dtype) : NULL;
  if (r && r->dims && x->dims) {
    const Expr *a = expr_product(ic->c, x->dims, (uint32_t)x->ndim);
    const Expr *b = expr_product(ic->c, r->dims, (uint32_t)r->ndim);
    if (infer_ne(ic, a, b))
      return infer_error(ic, n, C_elements, 1, "%s has %s elements but %s has %s",
                         infer_shape_text(ic, x), infer_expr_text(ic, a), infer_shape_text(ic, r),
                         infer_expr_text(ic, b));
  }
  return r;
}

const SInfo *infer_flatten(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  if (!x->dims) return sinfo_tensor_ndim(ic->c, 1, x->dtype);
  const Expr *d = expr_product(ic->c, x->dims, (uint32_t)x->ndim);
  return sinfo_tensor(ic->c, &d, 1, x->dtype);
}

const SInfo *infer_batch_flatten(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  if (x->ndim >= 0 && x->ndim < 2)
    return infer_error(ic, n, C_rank, 0, "expected rank 2 or more but got %s",
                       infer_shape_text(ic, x));
  if (!x->dims) return sinfo_tensor_ndim(ic->c, 2, x->dtype);
  const Expr *d[2] = {x->dims[0], expr_product(ic->c, x->dims + 1, (uint32_t)x->ndim - 1)};
  return sinfo_tensor(ic->c, d, 2, x->dtype);
}

/* Indices of dims [i, i + a) of x from the axes [j, j + b) of the result. */
static void map_group(LowerCtx *lc, Buffer *x, const Expr **idx, uint32_t i, uint32_t a, uint32_t j,
                      uint32_t b) {
  Context *c = lc->c;
  if (a == 1 && b == 1) {
    idx[i] = lc->ax[j];
    return;
  }
  const Expr *at = te_i64(lc, 0);
  for (uint32_t k = 0; k < b; k++) {
    bool one = expr_is_int(lc->extents[j + k], 1);
    if (!one) at = ADD(MUL(at, lc->extents[j + k]), lc->ax[j + k]);
  }
  for (uint32_t k = a; k-- > 0;) {
    const Expr *d = x->shape[i + k];
    if (expr_is_int(d, 1)) {
      idx[i + k] = te_i64(lc, 0);
      continue;
    }
    bool last = true; /* no dim before it is left to hold a rest */
    for (uint32_t m = 0; m < k; m++) last = last && expr_is_int(x->shape[i + m], 1);
    idx[i + k] = last ? at : expr_simplify(c, te_axis_div(c, EXPR_FLOORMOD, at, d));
    if (!last) at = expr_simplify(c, te_axis_div(c, EXPR_FLOORDIV, at, d));
  }
}

static bool is_one(LowerCtx *lc, const Expr *const *d, uint32_t n) {
  return expr_is_int(expr_product(lc->c, d, n), 1);
}

bool lower_reshape(LowerCtx *lc, Node *n) {
  (void)n;
  Buffer *x = te_arg(lc, 0);
  te_result_begin(lc, 0, "T_reshape");
  const Expr *idx[TE_MAX_RANK];
  uint32_t i = 0, j = 0, nx = x->ndim, nr = lc->nspatial;
  if (!te_need_equal(lc, expr_product(lc->c, x->shape, nx), expr_product(lc->c, lc->extents, nr),
                     "the numbers of elements"))
    return false;
  while (i < nx && j < nr) {
    uint32_t a = 0, b = 0;
    for (uint32_t sum = 2; !a && sum <= nx - i + nr - j; sum++)
      for (uint32_t p = 1; p < sum && !a; p++)
        if (p <= nx - i && sum - p <= nr - j &&
            expr_proved_eq(lc->c, expr_product(lc->c, x->shape + i, p),
                           expr_product(lc->c, lc->extents + j, sum - p))) {
          a = p;
          b = sum - p;
        }
    if (!a) break;
    map_group(lc, x, idx, i, a, j, b);
    i += a;
    j += b;
  }
  if (is_one(lc, x->shape + i, nx - i) && is_one(lc, lc->extents + j, nr - j))
    for (; i < nx; i++) idx[i] = te_i64(lc, 0);
  else /* no pairing (dims of 0, or products equal only as a whole): one group of all */
    map_group(lc, x, idx, 0, nx, 0, nr);
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

/* ---- permutation ---- */
const SInfo *infer_permute_dims(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  IntList axes = node_attrs(n, permute_dims)->axes;
  int32_t at[TE_MAX_RANK];
  if (!x) return NULL;
  if (x->ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, 0, "rank %d is above %d", x->ndim, TE_MAX_RANK);
  if (axes.n >= 0 && x->ndim < 0)
    return infer_error(ic, n, C_rank_known, 0, "axes need an operand of known rank");
  if (axes.n >= 0 && axes.n != x->ndim)
    return infer_error(ic, n, C_count, -1, "%d axes are given for a tensor of rank %d", axes.n,
                       x->ndim);
  if (axes.n >= 0 && !infer_axes(ic, n, axes, x->ndim, at)) return NULL;
  if (!x->dims) return infer_tensor(ic, NULL, x->ndim, x->dtype);
  const Expr *d[TE_MAX_RANK];
  for (int32_t i = 0; i < x->ndim; i++) d[i] = x->dims[axes.n < 0 ? x->ndim - 1 - i : at[i]];
  return sinfo_tensor(ic->c, d, (uint32_t)x->ndim, x->dtype);
}

bool lower_permute_dims(LowerCtx *lc, Node *n) {
  Buffer *x = te_arg(lc, 0);
  IntList axes = node_attrs(n, permute_dims)->axes;
  te_result_begin(lc, 0, "T_transpose");
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++) {
    int64_t a = axes.n < 0 ? x->ndim - 1 - i : axes.at[i];
    idx[a < 0 ? a + x->ndim : a] = lc->ax[i];
  }
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

/* ---- axes of extent 1 ---- */
const SInfo *infer_expand_dims(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  IntList axes = node_attrs(n, expand_dims)->axis;
  int32_t at[TE_MAX_RANK];
  if (!x) return NULL;
  if (axes.n < 0) return infer_error(ic, n, C_given, -1, "the axis is missing");
  if (axes.n == 0 || x->ndim < 0) return axes.n == 0 ? x : sinfo_tensor_ndim(ic->c, -1, x->dtype);
  int32_t ndim = x->ndim + axes.n;
  if (ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, -1, "rank %d is above %d", ndim, TE_MAX_RANK);
  if (!infer_axes(ic, n, axes, ndim, at)) return NULL;
  if (!x->dims) return sinfo_tensor_ndim(ic->c, ndim, x->dtype);
  const Expr *d[TE_MAX_RANK] = {NULL};
  for (int32_t i = 0; i < axes.n; i++) d[at[i]] = expr_i64(ic->c, 1);
  for (int32_t i = 0, k = 0; i < ndim; i++)
    if (!d[i]) d[i] = x->dims[k++];
  return sinfo_tensor(ic->c, d, (uint32_t)ndim, x->dtype);
}

/* Which axes go: 1, -1 where only the extent at run time could say (axis None). */
static int dropped(InferCtx *ic, const SInfo *x, IntList axes, const int32_t *at, int32_t i) {
  int64_t v;
  bool known = expr_const_int(ic->c, x->dims[i], &v);
  if (axes.n < 0) return known ? v == 1 : -1;
  for (int32_t k = 0; k < axes.n; k++)
    if (at[k] == i) return !known || v == 1;
  return 0;
}

const SInfo *infer_squeeze(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  IntList axes = node_attrs(n, squeeze)->axis;
  int32_t at[TE_MAX_RANK];
  if (!x) return NULL;
  if (x->ndim < 0) return sinfo_tensor_ndim(ic->c, -1, x->dtype);
  if (axes.n > TE_MAX_RANK || x->ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, -1, "rank above %d", TE_MAX_RANK);
  if (axes.n >= 0 && !infer_axes(ic, n, axes, x->ndim, at)) return NULL;
  if (!x->dims) return sinfo_tensor_ndim(ic->c, axes.n < 0 ? -1 : x->ndim - axes.n, x->dtype);
  const Expr *d[TE_MAX_RANK];
  uint32_t left = 0;
  for (int32_t i = 0; i < x->ndim; i++) {
    int drop = dropped(ic, x, axes, at, i);
    if (drop < 0) return sinfo_tensor_ndim(ic->c, -1, x->dtype);
    if (!drop) d[left++] = x->dims[i];
  }
  return sinfo_tensor(ic->c, d, left, x->dtype);
}

bool lower_squeeze(LowerCtx *lc, Node *n) {
  InferCtx ic = {.c = lc->c, .m = lc->m, .arena = lc->arena};
  const SInfo *s = node_in(n, 0)->sinfo;
  IntList axes = node_attrs(n, squeeze)->axis;
  int32_t at[TE_MAX_RANK];
  if (axes.n >= 0 && !infer_axes(&ic, n, axes, s->ndim, at)) return false;
  te_result_begin(lc, 0, "T_squeeze");
  const Expr *idx[TE_MAX_RANK];
  uint32_t k = 0;
  for (int32_t i = 0; i < s->ndim; i++) {
    bool drop = dropped(&ic, s, axes, at, i);
    const Expr *dim = te_arg(lc, 0)->shape[i];
    if (drop && !te_need_equal(lc, dim, te_i64(lc, 1), "the extent of a squeezed axis and 1"))
      return false;
    idx[i] = drop ? te_i64(lc, 0) : lc->ax[k++];
  }
  te_out(lc, te_spatial_end(lc, te_load(lc, te_arg(lc, 0), idx)));
  return true;
}

/* ---- repetition ---- */
const SInfo *infer_broadcast_to(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const SInfo *r = x ? infer_of_shape(ic, n, 1, x->dtype) : NULL;
  if (!r || x->ndim < 0 || r->ndim < 0) return r;
  if (x->ndim > r->ndim)
    return infer_error(ic, n, C_broadcast, 1, "%s can't be broadcast to rank %d",
                       infer_shape_text(ic, x), r->ndim);
  for (int32_t i = 0; x->dims && r->dims && i < x->ndim; i++) {
    const Expr *a = x->dims[i], *b = r->dims[r->ndim - x->ndim + i];
    int64_t v;
    if (!(expr_const_int(ic->c, a, &v) && v == 1) && infer_ne(ic, a, b) &&
        expr_const_int(ic->c, a, &v)) {
      infer_error(ic, n, C_broadcast, 1, "%s can't be broadcast to %s", infer_shape_text(ic, x),
                  infer_shape_text(ic, r));
      infer_note(ic, n, 0, "dim %d is %s but %s is asked for", i, infer_expr_text(ic, a),
                 infer_expr_text(ic, b));
      return NULL;
    }
  }
  return r;
}

/* A dim that is neither 1 nor proved equal must turn out so at run time. */
bool lower_broadcast_to(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0);
  (void)n;
  te_need_natural(lc, 1);
  te_result_begin(lc, 0, "T_broadcast_to");
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++) {
    uint32_t k = lc->nspatial - x->ndim + i;
    const Expr *d = x->shape[i];
    if (expr_is_int(d, 1))
      idx[i] = te_i64(lc, 0);
    else if (expr_proved_eq(c, d, lc->extents[k]))
      idx[i] = lc->ax[k];
    else {
      InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
      te_assert(lc, OR(EQ(d, te_i64(lc, 1)), EQ(d, lc->extents[k])),
                "the shapes do not broadcast: dim %u is %s, neither 1 nor %s", i,
                infer_expr_text(&ic, d), infer_expr_text(&ic, lc->extents[k]));
      idx[i] = SEL(EQ(d, te_i64(lc, 1)), te_i64(lc, 0), lc->ax[k]);
    }
  }
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

const SInfo *infer_tile(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  IntList r = node_attrs(n, tile)->repeats;
  if (!x || r.n < 0) return x ? infer_error(ic, n, C_given, -1, "repeats is missing") : NULL;
  if (x->ndim < 0) return sinfo_tensor_ndim(ic->c, -1, x->dtype);
  int32_t ndim = r.n > x->ndim ? r.n : x->ndim;
  if (ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, -1, "rank %d is above %d", ndim, TE_MAX_RANK);
  for (int32_t i = 0; i < r.n; i++)
    if (r.at[i] < 0)
      return infer_error(ic, n, C_least, -1, "repeats must not be negative but one is %lld",
                         (long long)r.at[i]);
  if (!x->dims) return sinfo_tensor_ndim(ic->c, ndim, x->dtype);
  const Expr *d[TE_MAX_RANK];
  for (int32_t k = 1; k <= ndim; k++) {
    const Expr *dim = k <= x->ndim ? x->dims[x->ndim - k] : expr_i64(ic->c, 1);
    const Expr *times = expr_i64(ic->c, k <= r.n ? r.at[r.n - k] : 1);
    d[ndim - k] = expr_simplify(ic->c, expr_mul(ic->c, dim, times));
  }
  return sinfo_tensor(ic->c, d, (uint32_t)ndim, x->dtype);
}

bool lower_tile(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0);
  IntList r = node_attrs(n, tile)->repeats;
  te_result_begin(lc, 0, "T_tile");
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++) {
    int32_t from_end = (int32_t)(x->ndim - i);
    const Expr *at = lc->ax[lc->nspatial - (uint32_t)from_end];
    bool once = from_end > r.n || r.at[r.n - from_end] == 1;
    idx[i] = once                          ? at
             : expr_is_int(x->shape[i], 1) ? te_i64(lc, 0)
                                           : te_axis_div(c, EXPR_FLOORMOD, at, x->shape[i]);
  }
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

const SInfo *infer_repeat(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const repeat_attrs *a = n->attrs;
  int32_t axis = 0;
  if (!x) return NULL;
  if (a->repeats < 0)
    return infer_error(ic, n, C_least, -1, "repeats must not be negative but is %lld",
                       (long long)a->repeats);
  if (a->axis.has && x->ndim >= 0 && !infer_axis(ic, n, a->axis.v, x->ndim, &axis)) return NULL;
  if (!x->dims) return sinfo_tensor_ndim(ic->c, a->axis.has ? x->ndim : 1, x->dtype);
  const Expr *times = expr_i64(ic->c, a->repeats);
  if (!a->axis.has) {
    const Expr *d = expr_product(ic->c, x->dims, (uint32_t)x->ndim);
    d = expr_simplify(ic->c, expr_mul(ic->c, d, times));
    return sinfo_tensor(ic->c, &d, 1, x->dtype);
  }
  const Expr **d = infer_dims_copy(ic, x->dims, (uint32_t)x->ndim, 0);
  d[axis] = expr_simplify(ic->c, expr_mul(ic->c, d[axis], times));
  return sinfo_tensor(ic->c, d, (uint32_t)x->ndim, x->dtype);
}

bool lower_repeat(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0);
  const repeat_attrs *a = n->attrs;
  te_result_begin(lc, 0, "T_repeat");
  const Expr *idx[TE_MAX_RANK], *times = te_i64(lc, a->repeats ? a->repeats : 1);
  if (a->axis.has) {
    int64_t axis = a->axis.v < 0 ? a->axis.v + x->ndim : a->axis.v;
    for (uint32_t i = 0; i < x->ndim; i++)
      idx[i] = i == axis ? expr_floordiv(c, lc->ax[i], times) : lc->ax[i];
  } else {
    const Expr *at = expr_floordiv(c, lc->ax[0], times);
    for (uint32_t i = x->ndim; i-- > 0;) {
      idx[i] = i ? expr_simplify(c, te_axis_div(c, EXPR_FLOORMOD, at, x->shape[i])) : at;
      at = expr_simplify(c, te_axis_div(c, EXPR_FLOORDIV, at, x->shape[i]));
    }
  }
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

const SInfo *infer_flip(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  int32_t axis;
  if (x && x->ndim >= 0 && !infer_axis(ic, n, node_attrs(n, flip)->axis, x->ndim, &axis))
    return NULL;
  return x;
}

bool lower_flip(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0);
  int64_t axis = node_attrs(n, flip)->axis;
  axis = axis < 0 ? axis + x->ndim : axis;
  te_result_begin(lc, 0, "T_flip");
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++)
    idx[i] = i == axis ? SUB(SUB(x->shape[i], te_i64(lc, 1)), lc->ax[i]) : lc->ax[i];
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}
