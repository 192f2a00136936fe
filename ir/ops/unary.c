/* Elementwise operators of one operand: the scalar functions come from the rows in unary.def. */
#include "ir/ops/scalar.h"

static const SInfo *unary(InferCtx *ic, Node *n, DType d) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  return x ? infer_like(ic, x, dtype_known(d) ? d : x->dtype) : NULL;
}

const SInfo *infer_unary(InferCtx *ic, Node *n) {
  return unary(ic, n, DT_UNKNOWN);
}

const SInfo *infer_unary_bool(InferCtx *ic, Node *n) {
  return unary(ic, n, DT_BOOL);
}

const SInfo *infer_unary_float(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  return x && infer_need_float(ic, n, 0, x) ? infer_like(ic, x, x->dtype) : NULL;
}

/* Integers and bools are whole already. */
static const Expr *whole(Context *c, IntrinId f, const Expr *x) {
  return dtype_is_float(x->dtype) ? expr_call1(c, f, x) : x;
}

static const Expr *bits_not(Context *c, const Expr *x) {
  return expr_unary(c, dtype_is_bool(x->dtype) ? EXPR_NOT : EXPR_BITNOT, x);
}

static const Expr *sign_of(Context *c, const Expr *x) {
  if (dtype_is_bool(x->dtype)) return x;
  const Expr *zero_or_nan = dtype_is_float(x->dtype) ? SEL(EQ(x, K(0)), K(0), x) : K(0);
  if (dtype_is_uint(x->dtype)) return SEL(GT(x, K(0)), K(1), K(0));
  return SEL(GT(x, K(0)), K(1), SEL(LT(x, K(0)), K(-1), zero_or_nan));
}

#undef UNARY
#define UNARY(id, name, infer, scalar, ...)                                                        \
  static const Expr *scalar_##id(LowerCtx *lc, const Expr *x) {                                    \
    Context *c = lc->c;                                                                            \
    (void)c;                                                                                       \
    return scalar;                                                                                 \
  }                                                                                                \
  bool lower_##id(LowerCtx *lc, Node *n) {                                                         \
    return te_unary(lc, n, scalar_##id);                                                           \
  }
#define OP(...)
#include "ir/ops/unary.def"
#undef OP

/* ---- clip ---- */
const SInfo *infer_clip(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const Expr *lo, *hi;
  return x && infer_prim_arg(ic, n, 1, &lo) && infer_prim_arg(ic, n, 2, &hi) ? x : NULL;
}

/* A bound in the operand's dtype, at its nearest value. */
static const Expr *bound(Context *c, DType d, const Expr *e) {
  if (dtype_is_int(d) && dtype_is_int(e->dtype) && (d.bits < 64 || dtype_is_uint(d))) {
    int64_t min = dtype_is_uint(d) ? 0 : -(INT64_C(1) << (d.bits - 1));
    int64_t max = d.bits >= 64       ? INT64_MAX
                  : dtype_is_uint(d) ? (INT64_C(1) << d.bits) - 1
                                     : -(min + 1);
    e = expr_cast(c, DT_I64, e);
    e = expr_min(c, expr_max(c, e, expr_i64(c, min)), expr_i64(c, max));
  }
  return te_cast(c, d, e);
}

bool lower_clip(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  te_result_begin(lc, 0, NULL);
  DType d = lc->stage_dtype;
  const Expr *x = te_widen(c, te_operand(lc, 0, lc->ax, lc->nspatial));
  const Expr *lo = bound(c, x->dtype, te_prim(lc, 1)), *hi = bound(c, x->dtype, te_prim(lc, 2));
  te_out(lc, te_spatial_end(lc, te_cast(c, d, expr_min(c, expr_max(c, x, lo), hi))));
  return true;
}

/* ---- conversion ---- */
const SInfo *infer_astype(InferCtx *ic, Node *n) {
  DType d = node_attrs(n, astype)->dtype;
  if (!dtype_known(d)) return infer_error(ic, n, C_given, -1, "a dtype must be given");
  return unary(ic, n, d);
}

static const Expr *itself(LowerCtx *lc, const Expr *x) {
  (void)lc;
  return x;
}

bool lower_astype(LowerCtx *lc, Node *n) {
  return te_unary(lc, n, itself);
}

const SInfo *infer_wrap_param(InferCtx *ic, Node *n) {
  return unary(ic, n, node_attrs(n, wrap_param)->dtype);
}

bool lower_wrap_param(LowerCtx *lc, Node *n) {
  return te_unary(lc, n, itself);
}
