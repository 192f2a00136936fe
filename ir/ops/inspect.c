/* Shapes as values: known dims become expressions, so that none of these reads memory. */
#include "ir/ops/scalar.h"

const SInfo *infer_shape_of(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  return x->dims ? sinfo_shape(ic->c, x->dims, (uint32_t)x->ndim)
                 : sinfo_shape_ndim(ic->c, x->ndim);
}

bool lower_shape_of(LowerCtx *lc, Node *n) {
  const SInfo *s = n->sinfo;
  if (!s->dims) return te_error(lc, "can't be compiled as the shape of the operand is not known");
  Node *shape = node_shape(n->func, s->dims, (uint32_t)s->ndim, n->span);
  node_infer(lc->m, NULL, shape);
  te_composite(lc, shape);
  return true;
}

const SInfo *infer_size(InferCtx *ic, Node *n) {
  return infer_tensor_arg(ic, n, 0) ? sinfo_tensor(ic->c, NULL, 0, DT_I64) : NULL;
}

bool lower_size(LowerCtx *lc, Node *n) {
  (void)n;
  Buffer *x = te_arg(lc, 0);
  te_result_begin(lc, 0, "T_size");
  te_out(lc, te_spatial_end(lc, expr_product(lc->c, x->shape, x->ndim)));
  return true;
}

const SInfo *infer_shape_to_tensor(InferCtx *ic, Node *n) {
  const SInfo *s = node_in(n, 0)->sinfo;
  if (s->kind != SINFO_SHAPE)
    return infer_error(ic, n, C_shape, 0, "expected a shape but got %s", infer_type_text(ic, s));
  if (s->ndim < 0) return sinfo_tensor_ndim(ic->c, 1, DT_I64);
  const Expr *len = expr_i64(ic->c, s->ndim);
  return sinfo_tensor(ic->c, &len, 1, DT_I64);
}

bool lower_shape_to_tensor(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const SInfo *s = node_in(n, 0)->sinfo;
  if (!s->dims) return te_error(lc, "can't be compiled as the shape is not known");
  te_result_begin(lc, 0, "T_shape");
  const Expr *v = te_i64(lc, 0);
  for (int32_t i = s->ndim; i-- > 0;)
    v = SEL(EQ(lc->ax[0], te_i64(lc, i)), te_expr(lc, s->dims[i]), v);
  te_out(lc, te_spatial_end(lc, v));
  return true;
}

const SInfo *infer_tensor_to_shape(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  int64_t len;
  if (!x || !infer_need_int(ic, n, 0, x)) return NULL;
  if (x->ndim != 1)
    return infer_error(ic, n, C_rank, 0, "expected rank 1 but got %s", infer_shape_text(ic, x));
  bool known = x->dims && expr_const_int(ic->c, x->dims[0], &len) && len <= TE_MAX_RANK;
  return sinfo_shape_ndim(ic->c, known ? (int32_t)len : -1);
}

/* What a tensor's header holds, as prim values. */
static const SInfo *header_field(InferCtx *ic, Node *n, const char *dtype) {
  DType d = DT_UNKNOWN;
  if (!dtype_parse(dtype, &d)) bug("dtype %s", dtype);
  return infer_tensor_arg(ic, n, 0) ? sinfo_prim(ic->c, d) : NULL;
}

const SInfo *infer_tensor_ndim(InferCtx *ic, Node *n) {
  return header_field(ic, n, "int32");
}
const SInfo *infer_tensor_dtype_code(InferCtx *ic, Node *n) {
  return header_field(ic, n, "uint8");
}
const SInfo *infer_tensor_dtype_bits(InferCtx *ic, Node *n) {
  return header_field(ic, n, "uint8");
}
const SInfo *infer_tensor_dtype_lanes(InferCtx *ic, Node *n) {
  return header_field(ic, n, "uint16");
}
const SInfo *infer_tensor_byte_offset(InferCtx *ic, Node *n) {
  return header_field(ic, n, "uint64");
}
const SInfo *infer_tensor_elem_offset(InferCtx *ic, Node *n) {
  return header_field(ic, n, "uint64");
}

const SInfo *infer_inspect_axis(InferCtx *ic, Node *n) {
  const Expr *axis;
  if (!infer_prim_arg(ic, n, 1, &axis)) return NULL;
  return header_field(ic, n, "int64");
}

/* A tensor is compact and begins where its pointer points, so that all of these are known. */
bool lower_inspect(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const SInfo *x = node_in(n, 0)->sinfo;
  DType d = x->dtype;
  const Expr *v, *axis = n->nin > 1 ? node_in(n, 1)->sinfo->value : NULL;
  int64_t at = 0;
  if (n->nin > 1 && (!axis || !expr_const_int(c, axis, &at)))
    return te_error(lc, "the axis must be a constant");
  if (n->nin > 1 && (at < 0 || at >= x->ndim))
    return te_error(lc, "axis %lld is out of range for rank %d", (long long)at, x->ndim);
  switch (n->op) {
  case OP_inspect_tensor_ndim: v = expr_i64(c, x->ndim); break;
  case OP_inspect_tensor_dtype_code: v = expr_i64(c, d.code); break;
  case OP_inspect_tensor_dtype_bits: v = expr_i64(c, d.bits); break;
  case OP_inspect_tensor_dtype_lanes: v = expr_i64(c, d.lanes); break;
  case OP_inspect_tensor_shape_i: v = x->dims[at]; break;
  case OP_inspect_tensor_stride_i:
    v = expr_product(c, x->dims + at + 1, (uint32_t)(x->ndim - at - 1));
    break;
  default: v = expr_i64(c, 0); break; /* offsets */
  }
  if (!dtype_eq(v->dtype, n->sinfo->dtype)) v = expr_cast(c, n->sinfo->dtype, v);
  Node *p = node_prim(n->func, expr_simplify(c, v), n->span);
  if (!node_infer(lc->m, NULL, p)) return false;
  te_composite(lc, p);
  return true;
}
