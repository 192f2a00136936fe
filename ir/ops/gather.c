/* Elements at positions that are data. What is read is cut to the operand; what is written must lie
 * inside it, which is checked as it runs. Scatters are sequential: of two updates of one element
 * the later in row-major order of the indices counts. */
#include "ir/ops/scalar.h"

#include <string.h>

/* Data, indices (integers) and, for scatters, updates of data's dtype; false after an error. */
static bool operands(InferCtx *ic, const Node *n, const SInfo **s, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (!(s[i] = infer_tensor_arg(ic, n, i))) return false;
  if (!infer_need_int(ic, n, 1, s[1])) return false;
  if (count == 3 && dtype_known(s[0]->dtype) && dtype_known(s[2]->dtype) &&
      !dtype_eq(s[0]->dtype, s[2]->dtype)) {
    infer_error(ic, n, C_same_dtype, 2, "'updates' must have the dtype of the data: %s and %s",
                infer_type_text(ic, s[2]), infer_type_text(ic, s[0]));
    return false;
  }
  return true;
}

static bool same_rank(InferCtx *ic, const Node *n, const SInfo *a, const SInfo *b, uint32_t i) {
  if (a->ndim < 0 || b->ndim < 0 || a->ndim == b->ndim) return true;
  infer_error(ic, n, C_same_rank, (int)i, "'%s' must have the rank of the data: %s and %s",
              infer_arg_name(ic, n, i), infer_shape_text(ic, b), infer_shape_text(ic, a));
  return false;
}

static bool same_dim(InferCtx *ic, const Node *n, uint32_t i, const Expr *have, const Expr *want,
                     int32_t k) {
  if (!infer_ne(ic, have, want)) return true;
  infer_error(ic, n, C_same_dims, (int)i, "dim %d of '%s' is %s but %s is expected", k,
              infer_arg_name(ic, n, i), infer_expr_text(ic, have), infer_expr_text(ic, want));
  return false;
}

static bool known_reduction(InferCtx *ic, const Node *n, const char *s) {
  static const char *const names[] = {"update", "add", "mul", "mean", "max", "min"};
  for (size_t i = 0; s && i < sizeof names / sizeof names[0]; i++)
    if (!strcmp(s, names[i])) return true;
  infer_error(ic, n, C_choice, -1, "reduction '%s' is none of update, add, mul, mean, max, min",
              s ? s : "None");
  return false;
}

const Expr *te_index_value(Context *c, const Expr *index) {
  DType d = index->dtype;
  if (dtype_is_uint(d) && d.bits == 64) index = expr_min(c, index, expr_int(c, d, INT64_MAX));
  return te_cast(c, DT_I64, index);
}

const Expr *te_index_from_start(Context *c, const Expr *index, const Expr *dim) {
  const Expr *i = te_index_value(c, index), *zero = expr_i64(c, 0);
  return dtype_is_uint(index->dtype) ? i : SEL(LT(i, zero), ADD(i, dim), i);
}

const Expr *te_index_inside(Context *c, const Expr *index, const Expr *dim) {
  const Expr *last = SUB(dim, expr_i64(c, 1));
  return expr_max(c, expr_min(c, te_index_from_start(c, index, dim), last), expr_i64(c, 0));
}

/* `inner` does not exceed `outer`: proved, or checked at run time. */
static void need_within(LowerCtx *lc, const Expr *inner, const Expr *outer, uint32_t axis) {
  Context *c = lc->c;
  if (prove_le(c, NULL, expr_dim(c, inner), expr_dim(c, outer)) == PROOF_YES) return;
  te_assert(lc, LE(inner, outer), "the indices reach over axis %u of the data", axis);
}

/* An axis that is indexed must have elements when there are indices. */
static void need_elements(LowerCtx *lc, const Expr *dim, const Expr *count) {
  Context *c = lc->c;
  const Expr *one = te_i64(lc, 1), *zero = te_i64(lc, 0);
  if (prove_le(c, NULL, expr_dim(c, one), expr_dim(c, dim)) == PROOF_YES) return;
  te_assert(lc, OR(GE(dim, one), EQ(count, zero)), "the indexed axis is empty");
}

/* ---- gather_elements ---- */
const SInfo *infer_gather_elements(InferCtx *ic, Node *n) {
  const SInfo *s[2];
  int32_t axis;
  if (!operands(ic, n, s, 2) || !same_rank(ic, n, s[0], s[1], 1)) return NULL;
  if (s[0]->ndim >= 0 &&
      !infer_axis(ic, n, node_attrs(n, gather_elements)->axis, s[0]->ndim, &axis))
    return NULL;
  return infer_like(ic, s[1], s[0]->dtype);
}

bool lower_gather_elements(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0), *ind = te_arg(lc, 1);
  int64_t a = node_attrs(n, gather_elements)->axis;
  uint32_t axis = (uint32_t)(a < 0 ? a + x->ndim : a);
  for (uint32_t i = 0; i < x->ndim; i++)
    if (i != axis) need_within(lc, ind->shape[i], x->shape[i], i);
  need_elements(lc, x->shape[axis], expr_product(c, ind->shape, ind->ndim));
  te_result_begin(lc, 0, "T_gather");
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++) idx[i] = lc->ax[i];
  idx[axis] = te_index_inside(c, te_load(lc, ind, lc->ax), x->shape[axis]);
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

/* ---- gather_nd ---- */
const SInfo *infer_gather_nd(InferCtx *ic, Node *n) {
  const SInfo *s[2];
  int64_t batch = node_attrs(n, gather_nd)->batch_dims, k;
  if (!operands(ic, n, s, 2)) return NULL;
  if (batch < 0) return infer_error(ic, n, C_least, -1, "batch_dims must not be negative");
  if (s[1]->ndim == 0) return infer_error(ic, n, C_rank, 1, "indices must not be a scalar");
  if ((s[1]->ndim >= 0 && batch >= s[1]->ndim) || (s[0]->ndim >= 0 && batch > s[0]->ndim))
    return infer_error(ic, n, C_axis, -1, "batch_dims %lld is beyond the operands' ranks",
                       (long long)batch);
  if (!s[1]->dims || s[0]->ndim < 0) {
    return sinfo_tensor_ndim(ic->c, -1, s[0]->dtype);
  }
  if (!expr_const_int(ic->c, s[1]->dims[s[1]->ndim - 1], &k))
    return sinfo_tensor_ndim(ic->c, -1, s[0]->dtype);
  if (k < 0 || batch + k > s[0]->ndim)
    return infer_error(ic, n, C_rank, 1, "rows of %lld indices are too long for data %s",
                       (long long)k, infer_shape_text(ic, s[0]));
  int32_t lead = s[1]->ndim - 1, ndim = lead + s[0]->ndim - (int32_t)(batch + k);
  if (ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, -1, "rank %d is above %d", ndim, TE_MAX_RANK);
  if (!s[0]->dims) return sinfo_tensor_ndim(ic->c, ndim, s[0]->dtype);
  for (int32_t i = 0; i < batch; i++)
    if (!same_dim(ic, n, 1, s[1]->dims[i], s[0]->dims[i], i)) return NULL;
  const Expr **d = infer_dims_copy(ic, s[1]->dims, (uint32_t)lead, TE_MAX_RANK);
  for (int32_t i = (int32_t)(batch + k), at = lead; i < s[0]->ndim; i++) d[at++] = s[0]->dims[i];
  return sinfo_tensor(ic->c, d, (uint32_t)ndim, s[0]->dtype);
}

bool lower_gather_nd(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0), *ind = te_arg(lc, 1);
  uint32_t batch = (uint32_t)node_attrs(n, gather_nd)->batch_dims, lead = ind->ndim - 1;
  int64_t k;
  if (!expr_const_int(c, ind->shape[lead], &k)) bug("gather_nd of unknown row length");
  for (uint32_t i = 0; i < batch; i++)
    if (!te_need_equal(lc, ind->shape[i], x->shape[i], "the batch axes")) return false;
  for (uint32_t i = batch; i < batch + k; i++)
    need_elements(lc, x->shape[i], expr_product(c, ind->shape, lead));
  te_result_begin(lc, 0, "T_gather_nd");
  const Expr *idx[TE_MAX_RANK], *at[TE_MAX_RANK];
  for (uint32_t i = 0; i < lead; i++) at[i] = lc->ax[i];
  for (uint32_t i = 0; i < batch; i++) idx[i] = lc->ax[i];
  for (uint32_t i = 0; i < k; i++) {
    at[lead] = te_i64(lc, i);
    idx[batch + i] = te_index_inside(c, te_load(lc, ind, at), x->shape[batch + i]);
  }
  for (uint32_t i = batch + (uint32_t)k; i < x->ndim; i++)
    idx[i] = lc->ax[lead + i - batch - (uint32_t)k];
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

/* ---- scatter ---- */
static const Expr *combine(Context *c, const char *how, const Expr *old, const Expr *v) {
  bool truth = dtype_is_bool(old->dtype);
  if (!strcmp(how, "add")) return truth ? OR(old, v) : ADD(old, v);
  if (!strcmp(how, "mul")) return truth ? AND(old, v) : MUL(old, v);
  if (!strcmp(how, "max")) return truth ? OR(old, v) : expr_max(c, old, v);
  if (!strcmp(how, "min")) return truth ? AND(old, v) : expr_min(c, old, v);
  if (!strcmp(how, "mean") && !truth) {
    const Expr *two = expr_lit(c, old->dtype, 2), *sum = ADD(old, v);
    return dtype_is_int(old->dtype) ? te_int_div(c, EXPR_DIV, sum, two) : DIV(sum, two);
  }
  return v;
}

/* Stage 1: a copy of the data. */
static Buffer *copy_data(LowerCtx *lc) {
  te_result_begin(lc, 0, "T_copy");
  return te_spatial_end(lc, te_load(lc, te_arg(lc, 0), lc->ax));
}

static void loop_vars(LowerCtx *lc, const Buffer *b, Var **vars, const Expr **idx) {
  for (uint32_t i = 0; i < b->ndim; i++) {
    vars[i] = var_create(lc->c, arena_printf(lc->arena, "i%u", i), DT_I64);
    idx[i] = vars[i]->expr;
  }
}

Stmt *te_index_check(LowerCtx *lc, const Expr *at, const Expr *dim) {
  Context *c = lc->c;
  const char *words =
      arena_printf(lc->arena, "R.%s: an index is out of range", node_op(lc->node)->name);
  return stmt_assert(lc->arena, lc->node->span, AND(GE(at, te_i64(lc, 0)), LT(at, dim)),
                     "RuntimeError", words);
}

static Stmt *update(LowerCtx *lc, Buffer *out, const Expr *const *at, const char *how,
                    const Expr *value) {
  Context *c = lc->c;
  const Expr *old = te_widen(c, te_load(lc, out, at));
  const Expr *v = combine(c, how, old, te_widen(c, value));
  return stmt_store(lc->arena, lc->node->span, out, at, te_cast(c, out->dtype, v));
}

const SInfo *infer_scatter_elements(InferCtx *ic, Node *n) {
  const scatter_elements_attrs *a = n->attrs;
  const SInfo *s[3];
  int32_t axis;
  if (!operands(ic, n, s, 3) || !same_rank(ic, n, s[0], s[1], 1) ||
      !same_rank(ic, n, s[0], s[2], 2) || !known_reduction(ic, n, a->reduction))
    return NULL;
  if (s[0]->ndim >= 0 && !infer_axis(ic, n, a->axis, s[0]->ndim, &axis)) return NULL;
  for (int32_t i = 0; s[1]->dims && s[2]->dims && i < s[1]->ndim; i++)
    if (!same_dim(ic, n, 2, s[2]->dims[i], s[1]->dims[i], i)) return NULL;
  return s[0];
}

bool lower_scatter_elements(LowerCtx *lc, Node *n) {
  const scatter_elements_attrs *a = n->attrs;
  Buffer *x = te_arg(lc, 0), *ind = te_arg(lc, 1), *upd = te_arg(lc, 2);
  uint32_t axis = (uint32_t)(a->axis < 0 ? a->axis + x->ndim : a->axis);
  for (uint32_t i = 0; i < x->ndim; i++) {
    if (!te_need_equal(lc, ind->shape[i], upd->shape[i], "the dims of indices and updates"))
      return false;
    if (i != axis) need_within(lc, ind->shape[i], x->shape[i], i);
  }
  Buffer *out = copy_data(lc);
  Var *vars[TE_MAX_RANK];
  const Expr *idx[TE_MAX_RANK], *at[TE_MAX_RANK];
  loop_vars(lc, ind, vars, idx);
  for (uint32_t i = 0; i < x->ndim; i++) at[i] = idx[i];
  at[axis] = te_index_from_start(lc->c, te_load(lc, ind, idx), x->shape[axis]);
  Stmt *body[2] = {te_index_check(lc, at[axis], x->shape[axis]),
                   update(lc, out, at, a->reduction, te_load(lc, upd, idx))};
  Stmt *s = stmt_seq(lc->arena, body, 2);
  te_block(lc, "scatter_elements", te_loops(lc, vars, ind->shape, ind->ndim, s));
  te_out(lc, out);
  return true;
}

const SInfo *infer_scatter_nd(InferCtx *ic, Node *n) {
  const SInfo *s[3];
  int64_t k;
  if (!operands(ic, n, s, 3) || !known_reduction(ic, n, node_attrs(n, scatter_nd)->reduction))
    return NULL;
  for (uint32_t i = 0; i < 3; i += 2)
    if (!dtype_known(s[i]->dtype))
      return infer_error(ic, n, C_dtype_known, (int)i, "the dtype of '%s' must be known",
                         infer_arg_name(ic, n, i));
  if (s[1]->ndim == 0) return infer_error(ic, n, C_rank, 1, "indices must not be a scalar");
  if (!s[0]->dims || !s[1]->dims || !s[2]->dims) return s[0];
  if (!expr_const_int(ic->c, s[1]->dims[s[1]->ndim - 1], &k) || k < 0 || k > s[0]->ndim)
    return infer_error(ic, n, C_index_rows, 1,
                       "the last dim of indices must be a known number up to %d", s[0]->ndim);
  int32_t lead = s[1]->ndim - 1, ndim = lead + s[0]->ndim - (int32_t)k;
  if (s[2]->ndim != ndim)
    return infer_error(ic, n, C_rank, 2, "expected rank %d for 'updates' but got %s", ndim,
                       infer_shape_text(ic, s[2]));
  for (int32_t i = 0; i < ndim; i++) {
    const Expr *want = i < lead ? s[1]->dims[i] : s[0]->dims[i - lead + k];
    if (!same_dim(ic, n, 2, s[2]->dims[i], want, i)) return NULL;
  }
  return s[0];
}

bool lower_scatter_nd(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0), *ind = te_arg(lc, 1), *upd = te_arg(lc, 2);
  uint32_t lead = ind->ndim - 1;
  int64_t k;
  if (!expr_const_int(c, ind->shape[lead], &k)) return te_error(lc, "unknown length of index rows");
  for (uint32_t i = 0; i < upd->ndim; i++)
    if (!te_need_equal(lc, upd->shape[i], i < lead ? ind->shape[i] : x->shape[i - lead + k],
                       "the dims of updates"))
      return false;
  Buffer *out = copy_data(lc);
  Var *vars[TE_MAX_RANK];
  const Expr *idx[TE_MAX_RANK], *row[TE_MAX_RANK], *at[TE_MAX_RANK];
  loop_vars(lc, upd, vars, idx);
  Stmt **body = ARENA_ARRAY(lc->arena, Stmt *, k + 1);
  for (uint32_t i = 0; i < lead; i++) row[i] = idx[i];
  for (uint32_t i = 0; i < k; i++) {
    row[lead] = te_i64(lc, i);
    at[i] = te_index_from_start(c, te_load(lc, ind, row), x->shape[i]);
    body[i] = te_index_check(lc, at[i], x->shape[i]);
  }
  for (uint32_t i = (uint32_t)k; i < x->ndim; i++) at[i] = idx[lead + i - (uint32_t)k];
  body[k] = update(lc, out, at, node_attrs(n, scatter_nd)->reduction, te_load(lc, upd, idx));
  Stmt *s = stmt_seq(lc->arena, body, (uint32_t)k + 1);
  te_block(lc, "scatter_nd", te_loops(lc, vars, upd->shape, upd->ndim, s));
  te_out(lc, out);
  return true;
}

/* ---- slice_scatter ---- */
typedef struct {
  uint32_t axis;
  const Expr *start, *len;
  int64_t step;
} SlicePlan;

/* start and end are counted and cut as in Python; the step is positive. */
static bool plan_slice(InferCtx *ic, const Node *n, const SInfo *x, SlicePlan *p) {
  Context *c = ic->c;
  const Expr *v[3];
  int32_t axis;
  for (uint32_t i = 0; i < 3; i++)
    if (!infer_prim_arg(ic, n, i + 2, &v[i])) return false;
  p->start = NULL;
  if (!x->dims || !v[0] || !v[1] || !v[2]) return true;
  if (!infer_axis(ic, n, node_attrs(n, slice_scatter)->axis, x->ndim, &axis)) return false;
  if (!expr_const_int(c, v[2], &p->step) || p->step < 1) {
    infer_error(ic, n, C_least, 4, "the step must be a known positive integer");
    return false;
  }
  const Expr *dim = x->dims[axis], *zero = expr_i64(c, 0), *end[2];
  for (int i = 0; i < 2; i++) {
    const Expr *e = te_cast(c, DT_I64, v[i]);
    if (prove_le(c, ic->facts, expr_dim(c, zero), expr_dim(c, e)) != PROOF_YES)
      e = SEL(LT(e, zero), ADD(e, dim), e);
    end[i] = expr_simplify(c, expr_min(c, expr_max(c, e, zero), dim));
  }
  const Expr *more = expr_i64(c, p->step - 1), *by = expr_i64(c, p->step);
  p->axis = (uint32_t)axis;
  p->start = end[0];
  p->len = expr_simplify(c, expr_floordiv(c, ADD(SUB(end[1], end[0]), more), by));
  if (prove_le(c, ic->facts, expr_dim(c, zero), expr_dim(c, p->len)) != PROOF_YES)
    p->len = expr_simplify(c, expr_max(c, p->len, zero));
  return true;
}

const SInfo *infer_slice_scatter(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *src = x ? infer_tensor_arg(ic, n, 1) : NULL;
  SlicePlan p;
  if (!src || !same_rank(ic, n, x, src, 1) || !plan_slice(ic, n, x, &p)) return NULL;
  if (dtype_known(x->dtype) && dtype_known(src->dtype) && !dtype_eq(x->dtype, src->dtype))
    return infer_error(ic, n, C_same_dtype, 1, "'src' must have the dtype of the input");
  for (int32_t i = 0; p.start && src->dims && i < x->ndim; i++)
    if (!same_dim(ic, n, 1, src->dims[i], (uint32_t)i == p.axis ? p.len : x->dims[i], i))
      return NULL;
  return x;
}

bool lower_slice_scatter(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  SlicePlan p;
  Buffer *x = te_arg(lc, 0), *src = te_arg(lc, 1);
  if (!plan_slice(&ic, n, node_in(n, 0)->sinfo, &p)) return false;
  if (!p.start) return te_error(lc, "the bounds must be expressions");
  const Expr *start = te_expr(lc, p.start), *len = te_expr(lc, p.len), *step = te_i64(lc, p.step);
  for (uint32_t i = 0; i < x->ndim; i++)
    if (!te_need_equal(lc, src->shape[i], i == p.axis ? len : x->shape[i], "slice and src"))
      return false;
  te_result_begin(lc, 0, "T_slice_scatter");
  const Expr *idx[TE_MAX_RANK], *off = SUB(lc->ax[p.axis], start);
  for (uint32_t i = 0; i < x->ndim; i++) idx[i] = lc->ax[i];
  idx[p.axis] = expr_simplify(c, expr_floordiv(c, off, step));
  const Expr *in = AND(GE(off, te_i64(lc, 0)), LT(idx[p.axis], len));
  if (p.step > 1) in = AND(in, EQ(expr_floormod(c, off, step), te_i64(lc, 0)));
  const Expr *v = expr_if_then_else(c, in, te_load(lc, src, idx), te_load(lc, x, lc->ax));
  te_out(lc, te_spatial_end(lc, v));
  return true;
}

/* ---- reverse_sequence ---- */
const SInfo *infer_reverse_sequence(InferCtx *ic, Node *n) {
  const reverse_sequence_attrs *a = n->attrs;
  const SInfo *s[2];
  int32_t seq, batch;
  if (!operands(ic, n, s, 2)) return NULL;
  if (s[1]->ndim >= 0 && s[1]->ndim != 1)
    return infer_error(ic, n, C_rank, 1, "expected rank 1 for 'seq_lengths' but got %s",
                       infer_shape_text(ic, s[1]));
  if (s[0]->ndim >= 0) {
    if (!infer_axis(ic, n, a->seq_axis, s[0]->ndim, &seq) ||
        !infer_axis(ic, n, a->batch_axis, s[0]->ndim, &batch))
      return NULL;
    if (s[0]->dims && s[1]->dims && !same_dim(ic, n, 1, s[1]->dims[0], s[0]->dims[batch], 0))
      return NULL;
  }
  return s[0];
}

bool lower_reverse_sequence(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const reverse_sequence_attrs *a = n->attrs;
  Buffer *x = te_arg(lc, 0), *len = te_arg(lc, 1);
  uint32_t seq = (uint32_t)(a->seq_axis < 0 ? a->seq_axis + x->ndim : a->seq_axis);
  uint32_t batch = (uint32_t)(a->batch_axis < 0 ? a->batch_axis + x->ndim : a->batch_axis);
  if (!te_need_equal(lc, x->shape[batch], len->shape[0], "batch and seq_lengths")) return false;
  te_result_begin(lc, 0, "T_reverse_sequence");
  const Expr *l = te_index_value(c, te_load(lc, len, &lc->ax[batch]));
  l = expr_min(c, l, x->shape[seq]);
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++) idx[i] = lc->ax[i];
  const Expr *back = SUB(SUB(l, te_i64(lc, 1)), lc->ax[seq]);
  idx[seq] = SEL(LT(lc->ax[seq], l), back, lc->ax[seq]);
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

/* ---- meshgrid ---- */
const SInfo *infer_meshgrid(InferCtx *ic, Node *n) {
  const SInfo *t = infer_tensors_arg(ic, n, 0);
  const char *order = node_attrs(n, meshgrid)->indexing;
  if (!t) return NULL;
  if (!t->n || t->n > TE_MAX_RANK)
    return infer_error(ic, n, C_some, 0, "expected 1 to %d tensors", TE_MAX_RANK);
  if (order && strcmp(order, "ij") && strcmp(order, "xy"))
    return infer_error(ic, n, C_choice, -1, "indexing '%s' is neither ij nor xy", order);
  bool swap = order && !strcmp(order, "xy") && t->n > 1, known = true;
  const Expr *dims[TE_MAX_RANK];
  const SInfo *f[TE_MAX_RANK];
  for (uint32_t i = 0; i < t->n; i++) {
    const SInfo *s = t->fields[i];
    if (s->ndim != 1)
      return infer_error(ic, n, C_rank, 0, "expected tensors of rank 1 but one is %s",
                         infer_shape_text(ic, s));
    known = known && s->dims;
    if (s->dims) dims[swap && i < 2 ? 1 - i : i] = s->dims[0];
  }
  for (uint32_t i = 0; i < t->n; i++)
    f[i] = infer_tensor(ic, known ? dims : NULL, (int32_t)t->n, t->fields[i]->dtype);
  return sinfo_tuple(ic->c, f, t->n);
}

bool lower_meshgrid(LowerCtx *lc, Node *n) {
  const char *order = node_attrs(n, meshgrid)->indexing;
  uint32_t count;
  Buffer *const *b = te_args(lc, 0, &count);
  bool swap = order && !strcmp(order, "xy") && count > 1;
  for (uint32_t i = 0; i < count; i++) {
    te_result_begin(lc, i, "T_meshgrid");
    te_out(lc, te_spatial_end(lc, te_load(lc, b[i], &lc->ax[swap && i < 2 ? 1 - i : i])));
  }
  return true;
}
