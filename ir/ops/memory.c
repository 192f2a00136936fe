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
  infer_error(ic, n, C_dtype_value, (int)i, "expected R.dtype(...) for '%s'",
              infer_arg_name(ic, n, i));
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
  if (!node_has_in(n, i) || node_in(n, i)->op == OP_null_value) return false;
  return node_in(n, i)->op == OP_DTYPE || node_in(n, i)->sinfo->kind != SINFO_OBJECT;
}

static bool exceeds(InferCtx *ic, const Expr *end, const Expr *size) {
  return prove_lt(ic->c, ic->facts, expr_dim(ic->c, size), expr_dim(ic->c, end)) == PROOF_YES;
}

static bool view_error(InferCtx *ic, const Node *n, const char *unit, const Expr *end,
                       const Expr *size) {
  infer_error(ic, n, C_bytes, -1, "the view ends at %s %s but the tensor at %s", unit,
              infer_expr_text(ic, expr_simplify(ic->c, end)),
              infer_expr_text(ic, expr_simplify(ic->c, size)));
  return false;
}

/* A view must not provably reach beyond the tensor x. Where the size of the elements is not known
 * but stays, they are counted; where the shape is not known but stays, only they may shrink. */
static bool check_view(InferCtx *ic, const Node *n, const SInfo *x, const SInfo *r,
                       const Expr *offset) {
  const Expr *have = bytes_of(ic, x), *want = bytes_of(ic, r);
  bool reshaped = given(n, 1), retyped = given(n, 2);
  if (have && want) {
    const Expr *end = offset ? expr_add(ic->c, want, offset) : want;
    return !exceeds(ic, end, have) || view_error(ic, n, "byte", end, have);
  }
  if (reshaped && !retyped && x->dims && r->dims) {
    have = expr_product(ic->c, x->dims, (uint32_t)x->ndim);
    want = expr_product(ic->c, r->dims, (uint32_t)r->ndim);
    return !exceeds(ic, want, have) || view_error(ic, n, "element", want, have);
  }
  if (reshaped) return true;
  if (dtype_known(x->dtype) && dtype_known(r->dtype) &&
      dtype_bytes(r->dtype) > dtype_bytes(x->dtype)) {
    infer_error(ic, n, C_bytes, 2,
                "elements of %zu bytes don't fit those of the tensor, which have %zu",
                dtype_bytes(r->dtype), dtype_bytes(x->dtype));
    return false;
  }
  if (!retyped && offset && exceeds(ic, offset, expr_i64(ic->c, 0))) {
    infer_error(ic, n, C_bytes, 3, "a view that begins later needs a smaller shape or dtype");
    return false;
  }
  return true;
}

const SInfo *infer_memory_view(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  DType d = x->dtype;
  bool retyped = given(n, 2);
  if (retyped && !dtype_arg(ic, n, 2, &d)) return NULL;
  if (retyped && !dtype_known(d))
    return infer_error(ic, n, C_dtype_value, 2,
                       "a view has a dtype; leave it out with R.null_value()");
  const SInfo *r = given(n, 1) ? infer_of_shape(ic, n, 1, d) : infer_like(ic, x, d);
  const Expr *offset = expr_i64(ic->c, 0);
  if (!r || (given(n, 3) && !infer_prim_arg(ic, n, 3, &offset))) return NULL;
  if (!check_view(ic, n, x, r, offset)) return NULL;
  if (retyped && !given(n, 1) && bytes_of(ic, x) && dtype_bytes(d) != dtype_bytes(x->dtype))
    return infer_error(ic, n, C_bytes, -1, "a view of other element size needs a shape");
  return r;
}

const SInfo *infer_to_vdevice(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  return x ? sinfo_with_vdevice(ic->c, x, node_attrs(n, to_vdevice)->dst_vdevice) : NULL;
}
