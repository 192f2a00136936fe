/* Elementwise operators of two operands: broadcasting, dtypes, and arithmetic that is defined for
 * every value (division by zero, shifts out of range, negative powers of integers). The scalar
 * functions come from the rows in binary.def. */
#include "ir/ops/scalar.h"

/* A tensor or prim operand; NULL after an error. */
static const SInfo *operand(InferCtx *ic, const Node *n, uint32_t i) {
  const SInfo *s = node_in(n, i)->sinfo;
  if (s->kind == SINFO_TENSOR || s->kind == SINFO_PRIM) return s;
  infer_error(ic, n, C_operand, (int)i, "expected a tensor or a prim value for '%s' but got %s",
              infer_arg_name(ic, n, i), infer_type_text(ic, s));
  return NULL;
}

static const SInfo *of_both(InferCtx *ic, const Node *n, const SInfo *a, const SInfo *b, DType d) {
  if (a->kind == SINFO_PRIM && b->kind == SINFO_PRIM) return sinfo_prim(ic->c, d);
  if (a->kind == SINFO_TENSOR && a->shape_var && a->shape_var == b->shape_var)
    return sinfo_tensor_var(ic->c, a->shape_var, a->ndim, d);
  if (a->vdevice && b->vdevice && strcmp(a->vdevice, b->vdevice) != 0)
    return infer_error(ic, n, C_device, 1,
                       "operands must live on one device but '%s' is on '%s' and '%s' on '%s'",
                       infer_arg_name(ic, n, 0), a->vdevice, infer_arg_name(ic, n, 1), b->vdevice);
  const Expr *const *dims;
  int32_t ndim;
  if (!infer_broadcast(ic, n, a, b, &dims, &ndim)) return NULL;
  return infer_tensor(ic, dims, ndim, d);
}

const SInfo *infer_binary(InferCtx *ic, Node *n) {
  const SInfo *a = operand(ic, n, 0), *b = a ? operand(ic, n, 1) : NULL;
  DType d;
  return b && infer_binary_dtype(ic, n, a, b, &d) ? of_both(ic, n, a, b, d) : NULL;
}

const SInfo *infer_compare(InferCtx *ic, Node *n) {
  const SInfo *a = operand(ic, n, 0), *b = a ? operand(ic, n, 1) : NULL;
  return b ? of_both(ic, n, a, b, DT_BOOL) : NULL;
}

/* ---- scalar functions ---- */
/* On bools + and maximum are OR, * and minimum AND, - XOR. */
static const Expr *arith(Context *c, ExprKind k, const Expr *x, const Expr *y) {
  if (dtype_is_bool(x->dtype))
    k = k == EXPR_ADD || k == EXPR_MAX ? EXPR_OR : k == EXPR_SUB ? EXPR_NE : EXPR_AND;
  return expr_binary(c, k, x, y);
}

static const Expr *divide(Context *c, ExprKind k, const Expr *x, const Expr *y) {
  bool rest = k == EXPR_MOD || k == EXPR_FLOORMOD;
  if (dtype_is_bool(x->dtype)) return rest ? expr_bool(c, false) : AND(x, y);
  if (dtype_is_int(x->dtype)) return te_int_div(c, k, x, y);
  switch (k) {
  case EXPR_DIV: return DIV(x, y);
  case EXPR_FLOORDIV: return F1(floor, DIV(x, y));
  case EXPR_MOD: return F2(fmod, x, y);
  default: break;
  }
  const Expr *m = F2(fmod, x, y), *zero = K(0);
  const Expr *wrong = AND(NE(m, zero), NE(LT(m, zero), LT(y, zero)));
  return SEL(wrong, ADD(m, y), m);
}

/* Integers: a negative power is 0 but for 1 and -1, as if rounded towards zero. */
static const Expr *power(Context *c, const Expr *x, const Expr *y) {
  if (dtype_is_bool(x->dtype)) return OR(x, NOT(y));
  if (!dtype_is_int(x->dtype)) return F2(pow, x, y);
  if (dtype_is_uint(x->dtype)) return F2(pow, x, y);
  const Expr *zero = K(0), *one = K(1), *minus = K(-1);
  const Expr *even = EQ(expr_binary(c, EXPR_BITAND, y, one), zero);
  const Expr *neg = SEL(EQ(x, one), one, SEL(EQ(x, minus), SEL(even, one, minus), zero));
  return SEL(LT(y, zero), neg, F2(pow, x, expr_max(c, y, zero)));
}

/* max + log1p(exp(min - max)); equal infinities have no difference. */
static const Expr *log_add_exp(Context *c, const Expr *x, const Expr *y) {
  const Expr *hi = expr_max(c, x, y), *lo = expr_min(c, x, y);
  const Expr *tail = F1(log1p, F1(exp, SUB(lo, hi)));
  return SEL(EQ(x, y), ADD(x, K(0.69314718055994530942)), ADD(hi, tail));
}

static const Expr *bits(Context *c, ExprKind k, ExprKind on_bool, const Expr *x, const Expr *y) {
  return expr_binary(c, dtype_is_bool(x->dtype) ? on_bool : k, x, y);
}

static const Expr *shift(Context *c, ExprKind k, const Expr *x, const Expr *y) {
  const Expr *most = K(x->dtype.bits - 1);
  const Expr *inside = LE(y, most);
  if (dtype_is_sint(x->dtype)) inside = AND(GE(y, K(0)), inside);
  if (k == EXPR_SHR && dtype_is_sint(x->dtype)) return expr_binary(c, k, x, SEL(inside, y, most));
  return SEL(inside, expr_binary(c, k, x, SEL(inside, y, K(0))), K(0));
}

#undef BINARY
#undef COMPARE
#undef LOGICAL
#define SCALAR(id, prepare, scalar)                                                                \
  static const Expr *scalar_##id(LowerCtx *lc, const Expr *x, const Expr *y) {                     \
    Context *c = lc->c;                                                                            \
    (void)c;                                                                                       \
    prepare;                                                                                       \
    return scalar;                                                                                 \
  }                                                                                                \
  bool lower_##id(LowerCtx *lc, Node *n) {                                                         \
    return te_binary(lc, n, scalar_##id);                                                          \
  }
#define BINARY(id, name, traits, scalar, ...) SCALAR(id, y = te_cast(c, x->dtype, y), scalar)
#define COMPARE(id, name, traits, scalar, ...) SCALAR(id, te_common(c, &x, &y), scalar)
#define LOGICAL(id, name, traits, scalar, ...) SCALAR(id, (x = TRUTH(x), y = TRUTH(y)), scalar)
#define OP(...)
#include "ir/ops/binary.def"
#undef OP

/* ---- fused multiply and add: no broadcasting, all dims must be proved equal ---- */
const SInfo *infer_ewise_fma(InferCtx *ic, Node *n) {
  const SInfo *s[3];
  for (uint32_t i = 0; i < 3; i++)
    if (!(s[i] = infer_tensor_arg(ic, n, i))) return NULL;
  DType d = s[0]->dtype;
  for (uint32_t i = 1; i < 3; i++) {
    if (!dtype_known(s[i]->dtype) || !dtype_known(d))
      d = DT_UNKNOWN;
    else if (!dtype_eq(d, s[i]->dtype))
      return infer_error(ic, n, C_same_dtype, (int)i,
                         "operands must have the same dtype: %s and %s", infer_type_text(ic, s[0]),
                         infer_type_text(ic, s[i]));
    if (s[0]->ndim >= 0 && s[i]->ndim >= 0 && s[0]->ndim != s[i]->ndim)
      return infer_error(ic, n, C_same_dims, (int)i, "operands must have the same shape: %s and %s",
                         infer_shape_text(ic, s[0]), infer_shape_text(ic, s[i]));
    if (!s[0]->dims || !s[i]->dims) continue;
    for (int32_t k = 0; k < s[0]->ndim; k++)
      if (!infer_eq(ic, s[0]->dims[k], s[i]->dims[k]))
        return infer_error(ic, n, C_same_dims, (int)i,
                           "operands must have the same shape: %s and %s",
                           infer_shape_text(ic, s[0]), infer_shape_text(ic, s[i]));
  }
  bool known = s[0]->dims && s[1]->dims && s[2]->dims;
  return known ? infer_like(ic, s[0], d) : sinfo_tensor_ndim(ic->c, s[0]->ndim, d);
}

bool lower_ewise_fma(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  te_result_begin(lc, 0, NULL);
  const Expr *e[3];
  for (uint32_t i = 0; i < 3; i++) e[i] = te_widen(c, te_operand(lc, i, lc->ax, lc->nspatial));
  const Expr *r =
      dtype_is_bool(e[0]->dtype) ? OR(AND(e[0], e[1]), e[2]) : ADD(MUL(e[0], e[1]), e[2]);
  te_out(lc, te_spatial_end(lc, te_cast(c, lc->stage_dtype, r)));
  return true;
}
