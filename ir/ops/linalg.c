/* Matrix products. matmul is one block, C = C + A * B with the sum's axis last, from whose index
 * maps the scheduler recognises the contraction. float16 and bfloat16 sum in float32. */
#include "ir/ops/scalar.h"

/* dims[0..n) as a tensor for infer_broadcast: the batch part of an operand. */
static const SInfo *batch_of(InferCtx *ic, const SInfo *s, int32_t own) {
  int32_t n = s->ndim > own ? s->ndim - own : 0;
  return sinfo_tensor(ic->c, s->dims, (uint32_t)n, s->dtype);
}

static const SInfo *product(InferCtx *ic, Node *n, const SInfo *a, const SInfo *b, DType d) {
  for (uint32_t i = 0; i < 2; i++)
    if ((i ? b : a)->ndim == 0)
      return infer_error(ic, n, C_rank, (int)i, "operand '%s' must not be a scalar",
                         infer_arg_name(ic, n, i));
  if (a->ndim < 0 || b->ndim < 0) return sinfo_tensor_ndim(ic->c, -1, d);
  int32_t own_a = a->ndim > 1 ? 2 : 1, own_b = b->ndim > 1 ? 2 : 1;
  int32_t lead = a->ndim - own_a > b->ndim - own_b ? a->ndim - own_a : b->ndim - own_b;
  int32_t ndim = lead + (own_a - 1) + (own_b - 1);
  if (ndim >= TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, -1, "rank %d is above %d", ndim, TE_MAX_RANK - 1);
  if (!a->dims || !b->dims) return sinfo_tensor_ndim(ic->c, ndim, d);
  const Expr *ka = a->dims[a->ndim - 1], *kb = b->dims[b->ndim - own_b];
  if (infer_ne(ic, ka, kb)) {
    infer_error(ic, n, C_inner, 1, "operands don't fit: %s and %s", infer_shape_text(ic, a),
                infer_shape_text(ic, b));
    infer_note(ic, n, 0, "dim %d of '%s' is %s but dim %d of '%s' is %s", a->ndim - 1,
               infer_arg_name(ic, n, 0), infer_expr_text(ic, ka), b->ndim - own_b,
               infer_arg_name(ic, n, 1), infer_expr_text(ic, kb));
    return NULL;
  }
  const Expr *const *batch;
  int32_t nbatch;
  if (!infer_broadcast(ic, n, batch_of(ic, a, own_a), batch_of(ic, b, own_b), &batch, &nbatch))
    return NULL;
  if (!batch) return sinfo_tensor_ndim(ic->c, ndim, d);
  const Expr **dims = infer_dims_copy(ic, batch, (uint32_t)nbatch, 2);
  int32_t k = nbatch;
  if (own_a == 2) dims[k++] = a->dims[a->ndim - 2];
  if (own_b == 2) dims[k++] = b->dims[b->ndim - 1];
  return sinfo_tensor(ic->c, dims, (uint32_t)k, d);
}

const SInfo *infer_matmul(InferCtx *ic, Node *n) {
  const SInfo *a = infer_tensor_arg(ic, n, 0), *b = a ? infer_tensor_arg(ic, n, 1) : NULL;
  DType d = node_attrs(n, matmul)->out_dtype;
  if (!b || (!dtype_known(d) && !infer_binary_dtype(ic, n, a, b, &d))) return NULL;
  return product(ic, n, a, b, d);
}

/* Index of batch axis i of an operand: 0 where its extent is 1. */
static const Expr *batch_index(LowerCtx *lc, const Buffer *b, uint32_t own, uint32_t i,
                               uint32_t nbatch) {
  uint32_t n = b->ndim > own ? b->ndim - own : 0;
  return expr_is_int(b->shape[i], 1) ? te_i64(lc, 0) : lc->ax[nbatch - n + i];
}

bool lower_matmul(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *a = te_arg(lc, 0), *b = te_arg(lc, 1);
  uint32_t own_a = a->ndim > 1 ? 2 : 1, own_b = b->ndim > 1 ? 2 : 1, ndim;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim);
  uint32_t nbatch = ndim - (own_a - 1) - (own_b - 1);
  const Expr *k = a->shape[a->ndim - 1];
  if (!te_need_equal(lc, k, b->shape[b->ndim - own_b], "the dims to sum over")) return false;
  DType acc = te_acc_dtype(te_result_dtype(lc, 0));
  te_reduce_begin(lc, "matmul", shape, ndim, acc, &k, 1);
  const Expr *ia[TE_MAX_RANK], *ib[TE_MAX_RANK], *vk = lc->ax[ndim];
  for (uint32_t i = 0; i + own_a < a->ndim; i++) ia[i] = batch_index(lc, a, own_a, i, nbatch);
  for (uint32_t i = 0; i + own_b < b->ndim; i++) ib[i] = batch_index(lc, b, own_b, i, nbatch);
  if (own_a == 2) ia[a->ndim - 2] = lc->ax[nbatch];
  ia[a->ndim - 1] = vk;
  ib[b->ndim - own_b] = vk;
  if (own_b == 2) ib[b->ndim - 1] = lc->ax[ndim - 1];
  const Expr *va = te_cast(c, acc, te_load(lc, a, ia)), *vb = te_cast(c, acc, te_load(lc, b, ib));
  Buffer *r = dtype_is_bool(acc) ? te_reduce_end(lc, TE_ANY, AND(va, vb))
                                 : te_reduce_end(lc, TE_SUM, MUL(va, vb));
  if (dtype_eq(acc, te_result_dtype(lc, 0))) {
    te_out(lc, r);
    return true;
  }
  te_result_begin(lc, 0, "compute");
  te_out_value(lc, te_load(lc, r, lc->ax));
  return true;
}

/* ---- linear: a composite ---- */
const SInfo *infer_linear(InferCtx *ic, Node *n) {
  const SInfo *a = infer_tensor_arg(ic, n, 0), *w = a ? infer_tensor_arg(ic, n, 1) : NULL;
  DType d = node_attrs(n, linear)->out_dtype;
  if (!w || (!dtype_known(d) && !infer_binary_dtype(ic, n, a, w, &d))) return NULL;
  if (w->ndim > 2)
    return infer_error(ic, n, C_rank, 1, "expected a weight of rank 1 or 2 but got %s",
                       infer_shape_text(ic, w));
  const SInfo *t = w;
  if (w->dims && w->ndim == 2) {
    const Expr *dims[2] = {w->dims[1], w->dims[0]};
    t = sinfo_tensor(ic->c, dims, 2, w->dtype);
  }
  const SInfo *r = product(ic, n, a, t, d);
  if (!r || r->kind != SINFO_TENSOR || !node_has_in(n, 2)) return r;
  const SInfo *b = infer_tensor_arg(ic, n, 2);
  const Expr *const *dims;
  int32_t ndim;
  if (!b || !infer_binary_dtype(ic, n, r, b, &d) || !infer_broadcast(ic, n, r, b, &dims, &ndim))
    return NULL;
  return infer_tensor(ic, dims, ndim, d);
}

static Node *build(LowerCtx *lc, OpId op, Node *a, Node *b) {
  Node *in[2] = {a, b};
  Node *r = node_create(lc->node->func, op, in, b ? 2 : 1, lc->node->span);
  r->attrs = node_new_attrs(lc->node->func, op);
  return r;
}

bool lower_linear(LowerCtx *lc, Node *n) {
  Node *w = node_in(n, 1);
  if (w->sinfo->ndim != 1) { /* a vector is its own transpose */
    w = build(lc, OP_permute_dims, w, NULL);
    if (!node_infer(lc->m, NULL, w)) return false;
    node_bind_before(n, w, NULL);
  }
  Node *r = build(lc, OP_matmul, node_in(n, 0), w);
  node_attrs(r, matmul)->out_dtype = node_attrs(n, linear)->out_dtype;
  if (!node_infer(lc->m, NULL, r)) return false;
  if (node_has_in(n, 2)) {
    node_bind_before(n, r, NULL);
    r = build(lc, OP_add, r, node_in(n, 2));
    if (!node_infer(lc->m, NULL, r)) return false;
  }
  te_composite(lc, r);
  return true;
}

/* ---- outer product ---- */
const SInfo *infer_outer(InferCtx *ic, Node *n) {
  const SInfo *a = infer_tensor_arg(ic, n, 0), *b = a ? infer_tensor_arg(ic, n, 1) : NULL;
  DType d;
  if (!b || !infer_binary_dtype(ic, n, a, b, &d)) return NULL;
  for (uint32_t i = 0; i < 2; i++) {
    const SInfo *s = i ? b : a;
    if (s->ndim != 1)
      return infer_error(ic, n, C_rank, (int)i, "expected rank 1 for '%s' but got %s",
                         infer_arg_name(ic, n, i), infer_shape_text(ic, s));
  }
  if (!a->dims || !b->dims) return sinfo_tensor_ndim(ic->c, 2, d);
  const Expr *dims[2] = {a->dims[0], b->dims[0]};
  return sinfo_tensor(ic->c, dims, 2, d);
}

bool lower_outer(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  te_result_begin(lc, 0, "T_outer");
  const Expr *a = te_widen(c, te_load(lc, te_arg(lc, 0), &lc->ax[0]));
  const Expr *b = te_widen(c, te_load(lc, te_arg(lc, 1), &lc->ax[1]));
  te_out_value(lc, dtype_is_bool(a->dtype) ? AND(a, b) : MUL(a, te_cast(c, a->dtype, b)));
  return true;
}
