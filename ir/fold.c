/* Constant folding at construction: two literals, and the neutral elements of integers.
 *
 * The rules are those of TVM's operators on integers, so that text means the same there. On floats
 * only what is exact for every operand folds (x * 1, x / 1, x - 0): x + 0 loses the sign of -0 and
 * x * 0 hides a NaN. Operands are never exchanged. Integer arithmetic wraps to its type.
 */
#include "ir/fold.h"
#include <math.h>

static bool int_is(const Expr *l, int64_t v) {
  return l && l->kind == EXPR_INT && l->i == v;
}

static bool float_is(const Expr *l, double v) {
  return l && l->kind == EXPR_FLOAT && l->f == v && !signbit(l->f);
}

static int64_t as_signed(uint64_t u) {
  return u <= INT64_MAX ? (int64_t)u : -(int64_t)(~u) - 1;
}

/* 1: folded to *out, 0: not. Division by zero and shifts out of range stay as they are. */
static bool fold_ints(ExprKind k, DType d, int64_t a, int64_t b, int64_t *out) {
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
  bool uns = dtype_is_uint(d);
  switch (k) {
  case EXPR_ADD: *out = as_signed(ua + ub); break;
  case EXPR_SUB: *out = as_signed(ua - ub); break;
  case EXPR_MUL: *out = as_signed(ua * ub); break;
  case EXPR_DIV:
  case EXPR_FLOORDIV:
    if (b == 0) return false;
    if (uns)
      *out = as_signed(ua / ub);
    else if (b == -1)
      *out = as_signed(0 - ua);
    else
      *out = a / b - (k == EXPR_FLOORDIV && a % b != 0 && (a < 0) != (b < 0));
    break;
  case EXPR_MOD:
  case EXPR_FLOORMOD:
    if (b == 0) return false;
    if (uns)
      *out = as_signed(ua % ub);
    else if (b == -1)
      *out = 0;
    else
      *out = a % b + (k == EXPR_FLOORMOD && a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    break;
  case EXPR_MIN: *out = (uns ? ua < ub : a < b) ? a : b; break;
  case EXPR_MAX: *out = (uns ? ua < ub : a < b) ? b : a; break;
  case EXPR_EQ: *out = a == b; break;
  case EXPR_NE: *out = a != b; break;
  case EXPR_LT: *out = uns ? ua < ub : a < b; break;
  case EXPR_LE: *out = uns ? ua <= ub : a <= b; break;
  case EXPR_GT: *out = uns ? ua > ub : a > b; break;
  case EXPR_GE: *out = uns ? ua >= ub : a >= b; break;
  case EXPR_AND: *out = a && b; break;
  case EXPR_OR: *out = a || b; break;
  case EXPR_BITAND: *out = as_signed(ua & ub); break;
  case EXPR_BITOR: *out = as_signed(ua | ub); break;
  case EXPR_BITXOR: *out = as_signed(ua ^ ub); break;
  case EXPR_SHL:
    if (ub >= d.bits) return false;
    *out = as_signed(ua << ub);
    break;
  case EXPR_SHR:
    if (ub >= d.bits) return false;
    *out = uns ? as_signed(ua >> ub) : as_signed(a < 0 ? ~(~ua >> ub) : ua >> ub);
    break;
  default: return false;
  }
  return true;
}

/* Comparisons give an int in *i (and *is_int), arithmetic a float. */
static bool fold_floats(ExprKind k, double a, double b, double *f, int64_t *i, bool *is_int) {
  *is_int = true;
  switch (k) {
  case EXPR_EQ: *i = a == b; return true;
  case EXPR_NE: *i = a != b; return true;
  case EXPR_LT: *i = a < b; return true;
  case EXPR_LE: *i = a <= b; return true;
  case EXPR_GT: *i = a > b; return true;
  case EXPR_GE: *i = a >= b; return true;
  default: break;
  }
  *is_int = false;
  switch (k) {
  case EXPR_ADD: *f = a + b; return true;
  case EXPR_SUB: *f = a - b; return true;
  case EXPR_MUL: *f = a * b; return true;
  case EXPR_DIV:
    if (b == 0) return false;
    *f = a / b;
    return true;
  case EXPR_MIN: *f = isnan(a) ? a : isnan(b) ? b : a < b ? a : b; return true;
  case EXPR_MAX: *f = isnan(a) ? a : isnan(b) ? b : a < b ? b : a; return true;
  default: return false;
  }
}

/* Both operands are literals of one type. */
static const Expr *fold_literals(Context *c, ExprKind k, const Expr *la, const Expr *lb, DType d) {
  DType s = dtype_scalar(d), r = k >= EXPR_EQ && k <= EXPR_OR ? DT_BOOL : s;
  int64_t i = 0;
  double f = 0;
  bool is_int = true;
  if (la->kind == EXPR_INT && lb->kind == EXPR_INT) {
    if (!fold_ints(k, s, la->i, lb->i, &i)) return NULL;
  } else if (la->kind == EXPR_FLOAT && lb->kind == EXPR_FLOAT) {
    /* Sums and products of float32 are exact or once rounded in double: rounding again to float32
     * gives what float32 arithmetic gives (double has more than twice its digits). */
    if (!fold_floats(k, la->f, lb->f, &f, &i, &is_int)) return NULL;
  } else {
    return NULL;
  }
  r = dtype_lanes(r, d.lanes);
  return is_int ? expr_int(c, r, i) : expr_float(c, r, f);
}

const Expr *fold_binary(Context *c, ExprKind k, const Expr *a, const Expr *b) {
  const Expr *la = expr_literal(a), *lb = expr_literal(b);
  if (la && lb && dtype_eq(a->dtype, b->dtype)) {
    const Expr *r = fold_literals(c, k, la, lb, a->dtype);
    if (r) return r;
  }
  switch (k) {
  case EXPR_ADD: return int_is(la, 0) ? b : int_is(lb, 0) ? a : NULL;
  case EXPR_SUB: return int_is(lb, 0) || float_is(lb, 0) ? a : NULL;
  case EXPR_MUL:
    if (int_is(la, 1) || float_is(la, 1) || int_is(lb, 0)) return b;
    if (int_is(lb, 1) || float_is(lb, 1) || int_is(la, 0)) return a;
    return NULL;
  case EXPR_DIV:
  case EXPR_FLOORDIV:
    if (int_is(lb, 1) || (k == EXPR_DIV && float_is(lb, 1))) return a;
    return int_is(la, 0) && !int_is(lb, 0) ? a : NULL;
  case EXPR_MOD:
  case EXPR_FLOORMOD:
    if (int_is(lb, 1)) return expr_int(c, a->dtype, 0);
    return int_is(la, 0) && !int_is(lb, 0) ? a : NULL;
  case EXPR_MIN:
  case EXPR_MAX: return a == b ? a : NULL;
  case EXPR_AND:
    if (int_is(la, 1) || int_is(lb, 0)) return b;
    return int_is(lb, 1) || int_is(la, 0) ? a : NULL;
  case EXPR_OR:
    if (int_is(la, 0) || int_is(lb, 1)) return b;
    return int_is(lb, 0) || int_is(la, 1) ? a : NULL;
  default: return NULL;
  }
}

const Expr *fold_unary(Context *c, ExprKind k, const Expr *a) {
  const Expr *l = expr_literal(a);
  if (!l || l->kind != EXPR_INT) return NULL;
  DType d = k == EXPR_NOT ? dtype_lanes(DT_BOOL, a->dtype.lanes) : a->dtype;
  return expr_int(c, d, k == EXPR_NOT || dtype_is_bool(d) ? !l->i : ~l->i);
}

const Expr *fold_cast(Context *c, DType d, const Expr *a) {
  const Expr *l = expr_literal(a);
  if (!l || d.code == DTYPE_HANDLE) return NULL;
  if (l->kind == EXPR_INT) {
    if (dtype_is_float(d) && dtype_is_uint(l->dtype))
      return expr_float(c, d, (double)(uint64_t)l->i);
    /* A 64-bit integer through double to float32 would round twice. */
    if (dtype_is_float(d) && d.bits < 64 &&
        (l->i > (INT64_C(1) << 53) || l->i < -(INT64_C(1) << 53)))
      return NULL;
    return expr_int(c, d, l->i);
  }
  if (dtype_is_float(d)) return expr_float(c, d, l->f);
  if (dtype_is_bool(d)) return expr_int(c, d, l->f != 0);
  if (!(l->f > -9.0e18 && l->f < 9.0e18)) return NULL; /* also NaN */
  int64_t v = (int64_t)l->f;
  return dtype_wrap(d, v) == v ? expr_int(c, d, v) : NULL;
}
