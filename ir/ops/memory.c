/* Struct info of the memory forms that late passes make: allocation, end of life, views. */
#include "ir/ops/util.h"

const SInfo *infer_object(InferCtx *ic, Node *n) {
  (void)n;
  return sinfo_object(ic->c);
}

const SInfo *infer_void(InferCtx *ic, Node *n) {
  (void)n;
  return sinfo_tuple(ic->c, NULL, 0);
}

/* A dtype operand; false after an error. */
static bool dtype_arg(InferCtx *ic, const Node *n, uint32_t i, DType *out) {
  const Node *d = node_in(n, i);
  if (d->op == OP_DTYPE) {
    *out = d->dtype;
    return true;
  }
  if (d->op == OP_STR && dtype_parse(d->str, out)) return true; /* dtype="float32" */
  infer_error(ic, n, (int)i, "expected R.dtype(...) for '%s'", infer_arg_name(ic, n, i));
  return false;
}

const SInfo *infer_alloc_tensor(InferCtx *ic, Node *n) {
  DType d;
  return dtype_arg(ic, n, 1, &d) ? infer_of_shape(ic, n, 0, d) : NULL;
}

const SInfo *infer_memory_alloc_tensor(InferCtx *ic, Node *n) {
  DType d;
  return dtype_arg(ic, n, 3, &d) ? infer_of_shape(ic, n, 2, d) : NULL;
}

/* Bytes of a tensor as expression; NULL when shape or dtype is unknown. */
static const Expr *bytes_of(InferCtx *ic, const SInfo *s) {
  if (!s->dims || !dtype_known(s->dtype)) return NULL;
  return expr_mul(ic->c, expr_product(ic->c, s->dims, (uint32_t)s->ndim),
                  expr_i64(ic->c, (int64_t)dtype_bytes(s->dtype)));
}

/* Operands are left out as well by R.null_value(). */
static bool given(const Node *n, uint32_t i) {
  return node_has_in(n, i) && node_in(n, i)->op != OP_null_value &&
         node_in(n, i)->sinfo->kind != SINFO_OBJECT;
}

const SInfo *infer_memory_view(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  DType d = x->dtype;
  bool retyped = given(n, 2);
  if (retyped && !dtype_arg(ic, n, 2, &d)) return NULL;
  const SInfo *r = given(n, 1) ? infer_of_shape(ic, n, 1, d) : infer_like(ic, x, d);
  const Expr *offset = expr_i64(ic->c, 0);
  if (!r || (given(n, 3) && !infer_prim_arg(ic, n, 3, &offset))) return NULL;
  const Expr *have = bytes_of(ic, x), *want = bytes_of(ic, r);
  if (have && want && offset) {
    const Expr *end = expr_add(ic->c, want, offset);
    if (prove_lt(ic->c, ic->facts, expr_dim(ic->c, have), expr_dim(ic->c, end)) == PROOF_YES)
      return infer_error(ic, n, -1, "the view ends at byte %s but the tensor has %s bytes",
                         infer_expr_text(ic, expr_simplify(ic->c, end)),
                         infer_expr_text(ic, expr_simplify(ic->c, have)));
    if (retyped && !given(n, 1) && dtype_bytes(d) != dtype_bytes(x->dtype))
      return infer_error(ic, n, -1, "a view of other element size needs a shape");
  }
  return r;
}

const SInfo *infer_to_vdevice(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  return x ? sinfo_with_vdevice(ic->c, x, node_attrs(n, to_vdevice)->dst_vdevice) : NULL;
}
