/* Joining and cutting along an axis.
 *
 * A join is one stage that chooses its operand lazily by position (if_then_else reads only the
 * chosen side); a cut is one stage per part. */
#include "ir/ops/scalar.h"

/* Dtypes, ranks and, apart from `axis` (-1: none), dims of the fields must agree. *unproved is set
 * where dims may differ. False after an error. */
static bool check_fields(InferCtx *ic, const Node *n, const SInfo *t, int32_t axis, DType *d,
                         bool *unproved) {
  const SInfo *a = t->fields[0];
  *d = a->dtype;
  for (uint32_t k = 1; k < t->n; k++) {
    const SInfo *b = t->fields[k];
    if (!dtype_known(b->dtype) || !dtype_known(*d))
      *d = DT_UNKNOWN;
    else if (!dtype_eq(*d, b->dtype)) {
      infer_error(ic, n, C_same_dtype, 0,
                  "tensors must have the same dtype: tensor 0 is %s, tensor %u is %s",
                  infer_type_text(ic, a), k, infer_type_text(ic, b));
      return false;
    }
    for (int32_t i = 0; a->dims && b->dims && i < a->ndim; i++) {
      if (i == axis) continue;
      if (infer_ne(ic, a->dims[i], b->dims[i])) {
        infer_error(ic, n, C_same_dims, 0, "tensors must agree in all dims%s: %s and %s",
                    axis >= 0 ? " but the axis" : "", infer_shape_text(ic, a),
                    infer_shape_text(ic, b));
        infer_note(ic, n, 0, "dim %d of tensor 0 is %s but of tensor %u it is %s", i,
                   infer_expr_text(ic, a->dims[i]), k, infer_expr_text(ic, b->dims[i]));
        return false;
      }
      if (!infer_eq(ic, a->dims[i], b->dims[i])) *unproved = true;
    }
  }
  return true;
}

/* The common rank of the fields, -1 unknown; false after an error. */
static bool common_rank(InferCtx *ic, const Node *n, const SInfo *t, int32_t *ndim, bool *known) {
  *ndim = -1;
  *known = true;
  if (!t->n) {
    infer_error(ic, n, C_some, 0, "expected at least one tensor");
    return false;
  }
  for (uint32_t k = 0; k < t->n; k++) {
    int32_t r = t->fields[k]->ndim;
    *known = *known && t->fields[k]->dims;
    if (r >= 0 && *ndim >= 0 && r != *ndim) {
      infer_error(ic, n, C_same_rank, 0, "tensors must have the same rank but have %d and %d",
                  *ndim, r);
      return false;
    }
    if (r >= 0) *ndim = r;
  }
  return true;
}

const SInfo *infer_concat(InferCtx *ic, Node *n) {
  const SInfo *t = infer_tensors_arg(ic, n, 0);
  OptInt at = node_attrs(n, concat)->axis;
  int32_t ndim, axis = -1;
  bool known, unproved = false;
  DType d;
  if (!t || !common_rank(ic, n, t, &ndim, &known)) return NULL;
  if (!at.has && ndim >= 0 && ndim != 1)
    return infer_error(ic, n, C_rank, -1,
                       "without an axis the tensors must have rank 1 but have %d", ndim);
  if (ndim >= 0 && !infer_axis(ic, n, at.has ? at.v : 0, ndim, &axis)) return NULL;
  if (!check_fields(ic, n, t, axis, &d, &unproved)) return NULL;
  if (t->n == 1) return t->fields[0];
  if (!known || unproved || ndim < 0) return sinfo_tensor_ndim(ic->c, ndim, d);
  const Expr **dims = infer_dims_copy(ic, t->fields[0]->dims, (uint32_t)ndim, 0);
  bool same = true;
  for (uint32_t k = 1; k < t->n; k++) {
    same = same && t->fields[k]->dims[axis] == t->fields[0]->dims[axis];
    dims[axis] = expr_add(ic->c, dims[axis], t->fields[k]->dims[axis]);
  }
  dims[axis] = same ? expr_simplify(ic->c, dims[axis]) : infer_literal(ic, dims[axis]);
  return sinfo_tensor(ic->c, dims, (uint32_t)ndim, d);
}

bool lower_concat(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  uint32_t count;
  Buffer *const *b = te_args(lc, 0, &count);
  OptInt a = node_attrs(n, concat)->axis;
  uint32_t ndim = b[0]->ndim;
  uint32_t axis = (uint32_t)(!a.has ? 0 : a.v < 0 ? a.v + ndim : a.v);
  te_result_begin(lc, 0, "T_concat");
  const Expr **begin = ARENA_ARRAY(lc->arena, const Expr *, count + 1);
  begin[0] = te_i64(lc, 0);
  for (uint32_t k = 0; k < count; k++)
    begin[k + 1] = expr_simplify(c, ADD(begin[k], b[k]->shape[axis]));
  const Expr *r = NULL;
  for (uint32_t k = count; k-- > 0;) {
    const Expr *idx[TE_MAX_RANK];
    for (uint32_t i = 0; i < ndim; i++) idx[i] = i == axis ? SUB(lc->ax[i], begin[k]) : lc->ax[i];
    const Expr *v = te_load(lc, b[k], idx);
    r = r ? expr_if_then_else(c, LT(lc->ax[axis], begin[k + 1]), v, r) : v;
  }
  te_out(lc, te_spatial_end(lc, r));
  return true;
}

const SInfo *infer_stack(InferCtx *ic, Node *n) {
  const SInfo *t = infer_tensors_arg(ic, n, 0);
  OptInt at = node_attrs(n, stack)->axis;
  int32_t ndim, axis;
  bool known, unproved = false;
  DType d;
  if (!t || !common_rank(ic, n, t, &ndim, &known)) return NULL;
  if (ndim < 0) return infer_error(ic, n, C_rank_known, 0, "the rank of the tensors must be known");
  if (!infer_axis(ic, n, at.has ? at.v : 0, ndim + 1, &axis) ||
      !check_fields(ic, n, t, -1, &d, &unproved))
    return NULL;
  if (!known || unproved) return sinfo_tensor_ndim(ic->c, ndim + 1, d);
  const Expr **dims = ARENA_ARRAY(ic->arena, const Expr *, ndim + 1);
  for (int32_t i = 0, k = 0; i <= ndim; i++)
    dims[i] = i == axis ? expr_i64(ic->c, t->n) : t->fields[0]->dims[k++];
  return sinfo_tensor(ic->c, dims, (uint32_t)ndim + 1, d);
}

bool lower_stack(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  uint32_t count;
  Buffer *const *b = te_args(lc, 0, &count);
  OptInt a = node_attrs(n, stack)->axis;
  uint32_t ndim = b[0]->ndim;
  uint32_t axis = (uint32_t)(!a.has ? 0 : a.v < 0 ? a.v + ndim + 1 : a.v);
  te_result_begin(lc, 0, "T_stack");
  const Expr *idx[TE_MAX_RANK], *r = NULL;
  for (uint32_t i = 0, k = 0; i <= ndim; i++)
    if (i != axis) idx[k++] = lc->ax[i];
  for (uint32_t k = count; k-- > 0;) {
    const Expr *v = te_load(lc, b[k], idx);
    r = r ? expr_if_then_else(c, EQ(lc->ax[axis], te_i64(lc, k)), v, r) : v;
  }
  te_out(lc, te_spatial_end(lc, r));
  return true;
}

/* ---- split ---- */
/* The number of parts, or the list of cuts as expressions; false after an error. */
static bool read_cuts(InferCtx *ic, const Node *n, int64_t *parts, const Expr ***cuts,
                      uint32_t *ncuts) {
  const Attr *a = node_attrs(n, split)->indices_or_sections;
  *parts = 0;
  *cuts = NULL;
  int64_t v;
  if (a && a->kind == ATTR_INT)
    *parts = a->i;
  else if (a && a->kind == ATTR_EXPR && expr_const_int(ic->c, a->expr, &v))
    *parts = v;
  else if (a && a->kind == ATTR_LIST) {
    *ncuts = a->n;
    *cuts = ARENA_ARRAY(ic->arena, const Expr *, a->n + 1);
    for (uint32_t k = 0; k < a->n; k++) {
      const Attr *e = a->items[k];
      if (e->kind != ATTR_INT && e->kind != ATTR_EXPR) {
        infer_error(ic, n, C_sections, -1, "indices must be integers");
        return false;
      }
      (*cuts)[k] = e->kind == ATTR_INT ? expr_i64(ic->c, e->i) : e->expr;
    }
    return true;
  } else {
    infer_error(ic, n, C_sections, -1,
                "indices_or_sections must be an integer or a list of integers");
    return false;
  }
  if (*parts <= 0) {
    infer_error(ic, n, C_sections, -1, "the number of sections must be positive but is %lld",
                (long long)*parts);
    return false;
  }
  return true;
}

/* Where part k begins, cut to [0, dim]. */
static const Expr *cut_at(Context *c, const Expr *const *cuts, uint32_t ncuts, uint32_t k,
                          const Expr *dim) {
  const Expr *zero = expr_i64(c, 0);
  if (k == 0) return zero;
  return k > ncuts ? dim : expr_min(c, expr_max(c, cuts[k - 1], zero), dim);
}

const SInfo *infer_split(InferCtx *ic, Node *n) {
  Context *c = ic->c;
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  int64_t parts;
  const Expr **cuts;
  uint32_t ncuts = 0;
  int32_t axis = 0;
  if (!x || !read_cuts(ic, n, &parts, &cuts, &ncuts)) return NULL;
  if (x->ndim >= 0 && !infer_axis(ic, n, node_attrs(n, split)->axis, x->ndim, &axis)) return NULL;
  if (parts == 1 || (cuts && !ncuts)) return x;
  if (parts > 65536)
    return infer_error(ic, n, C_sections, -1, "%lld sections are too many", (long long)parts);
  uint32_t count = cuts ? ncuts + 1 : (uint32_t)parts;
  const SInfo **f = ARENA_ARRAY(ic->arena, const SInfo *, count);
  const Expr *dim = x->dims ? x->dims[axis] : NULL, *k = expr_i64(c, parts);
  const Expr *each =
      dim && !cuts ? expr_simplify(c, expr_floordiv(c, ADD(dim, expr_i64(c, parts - 1)), k)) : NULL;
  for (uint32_t i = 0; i < count; i++) {
    if (!dim) {
      f[i] = sinfo_tensor_ndim(c, x->ndim, x->dtype);
      continue;
    }
    const Expr **d = infer_dims_copy(ic, x->dims, (uint32_t)x->ndim, 0);
    if (cuts) {
      const Expr *begin = cut_at(c, cuts, ncuts, i, dim), *zero = expr_i64(c, 0);
      const Expr *len = cut_at(c, cuts, ncuts, i + 1, dim);
      if (i == ncuts) begin = expr_max(c, cuts[i - 1], zero); /* begins beyond the end: 0 */
      if (i) len = expr_max(c, SUB(len, begin), zero);
      d[axis] = infer_literal(ic, len);
    } else if (i + 1 < count)
      d[axis] = each;
    else
      d[axis] = expr_simplify(c, SUB(dim, MUL(each, expr_i64(c, parts - 1))));
    f[i] = sinfo_tensor(c, d, (uint32_t)x->ndim, x->dtype);
  }
  return sinfo_tuple(c, f, count);
}

/* A slice for each part where all are known, so that each can go into what reads it: *done. False
 * after an error. */
static bool split_in_slices(LowerCtx *lc, Node *n, const Expr *const *cuts, uint32_t ncuts,
                            uint32_t axis, bool *done) {
  Context *c = lc->c;
  const SInfo *x = node_in(n, 0)->sinfo, *t = n->sinfo;
  int64_t known;
  if (t->kind != SINFO_TUPLE || !x->dims || !expr_const_int(c, x->dims[axis], &known)) return true;
  for (uint32_t k = 0; k < ncuts; k++)
    if (!expr_const_int(c, cuts[k], &known)) return true;
  Node **parts = ARENA_ARRAY(lc->arena, Node *, t->n);
  const Expr *at = te_i64(lc, axis), *one = te_i64(lc, 1);
  for (uint32_t k = 0; k < t->n; k++) {
    const Expr *begin = cuts ? cut_at(c, cuts, ncuts, k, x->dims[axis])
                             : MUL(t->fields[0]->dims[axis], te_i64(lc, k));
    const Expr *end = expr_simplify(c, ADD(begin, t->fields[k]->dims[axis]));
    begin = expr_simplify(c, begin);
    Node *in[] = {node_in(n, 0), node_shape(n->func, &at, 1, n->span),
                  node_shape(n->func, &begin, 1, n->span), node_shape(n->func, &end, 1, n->span),
                  node_shape(n->func, &one, 1, n->span)};
    if (!(parts[k] = te_bind(lc, te_make(lc, OP_strided_slice, in, 5)))) return false;
  }
  Node *all = node_tuple(n->func, parts, t->n, n->span);
  if (!node_infer(lc->m, NULL, all)) return false;
  te_composite(lc, all);
  *done = true;
  return true;
}

bool lower_split(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Buffer *x = te_arg(lc, 0);
  int64_t parts, a = node_attrs(n, split)->axis;
  const Expr **cuts;
  uint32_t ncuts = 0, axis = (uint32_t)(a < 0 ? a + x->ndim : a);
  bool done = false;
  if (!read_cuts(&ic, n, &parts, &cuts, &ncuts)) return false;
  if (!split_in_slices(lc, n, cuts, ncuts, axis, &done)) return false;
  if (done) return true;
  uint32_t count = n->sinfo->kind == SINFO_TUPLE ? n->sinfo->n : 1;
  for (uint32_t k = 0; cuts && k < ncuts; k++) cuts[k] = te_expr(lc, cuts[k]);
  const Expr *each = NULL;
  for (uint32_t k = 0; k < count; k++) {
    te_result_begin(lc, k, "T_split_sections");
    if (!k) each = lc->extents[axis];
    const Expr *begin = count == 1 ? te_i64(lc, 0)
                        : cuts     ? cut_at(c, cuts, ncuts, k, x->shape[axis])
                                   : MUL(each, te_i64(lc, k));
    const Expr *idx[TE_MAX_RANK];
    for (uint32_t i = 0; i < x->ndim; i++)
      idx[i] = i == axis ? expr_simplify(c, ADD(lc->ax[i], begin)) : lc->ax[i];
    te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  }
  return true;
}
