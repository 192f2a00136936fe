/* What the lowering hooks share: broadcasting loads, conversions, defined integer arithmetic, the
 * stage of an elementwise operator.
 *
 * Nothing here leaves a case to the target: conversions saturate, division by zero gives 0, so that
 * interpreter, folder and every backend agree. */
#include "ir/ops/scalar.h"

#include <math.h>

const Expr *te_i64(LowerCtx *lc, int64_t v) {
  return expr_i64(lc->c, v);
}

const Expr *te_load_bcast(LowerCtx *lc, Buffer *b, const Expr *const *idx, uint32_t n) {
  const Expr *at[TE_MAX_RANK];
  for (uint32_t i = 0; i < b->ndim; i++) {
    uint32_t k = n - b->ndim + i;
    at[i] = expr_is_int(b->shape[i], 1) ? expr_i64(lc->c, 0) : idx[k];
  }
  return expr_load(lc->c, b, at, b->ndim);
}

const Expr *te_literal(Context *c, const Node *n) {
  const ConstData *d = n->op == OP_CONST ? n->data : NULL;
  if (!d || d->ndim != 0 || d->dtype.bits > 64 || d->dtype.lanes != 1) return NULL;
  if (dtype_is_float(d->dtype))
    return expr_float(c, d->dtype, dtype_load_double(d->dtype, d->bytes));
  return expr_int(c, d->dtype, dtype_load_int(d->dtype, d->bytes));
}

const Expr *te_operand(LowerCtx *lc, uint32_t i, const Expr *const *idx, uint32_t n) {
  if (node_in(lc->node, i)->sinfo->kind == SINFO_PRIM) return te_prim(lc, i);
  const Expr *literal = te_literal(lc->c, node_in(lc->node, i));
  if (literal) return literal;
  return te_load_bcast(lc, te_arg(lc, i), idx, n);
}

void te_result_begin(LowerCtx *lc, uint32_t k, const char *name) {
  uint32_t ndim;
  const Expr *const *shape = te_result_shape(lc, k, &ndim);
  te_spatial_begin(lc, name ? name : arena_printf(lc->arena, "T_%s", lc->name), shape, ndim,
                   te_result_dtype(lc, k));
}

void te_out_value(LowerCtx *lc, const Expr *value) {
  te_out(lc, te_spatial_end(lc, te_cast(lc->c, lc->stage_dtype, value)));
}

void te_assert(LowerCtx *lc, const Expr *cond, const char *fmt, ...) {
  if (cond->kind == EXPR_INT && cond->i) return;
  Text t = {0};
  va_list ap;
  text_printf(&t, "R.%s: ", node_op(lc->node)->name);
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  const char *words = arena_strndup(lc->arena, text_cstr(&t), t.n);
  text_free(&t);
  Stmt *s = stmt_assert(lc->arena, lc->node->span, cond, "RuntimeError", words);
  vec_push(lc->arena, &lc->stages, s);
}

void te_need_natural(LowerCtx *lc, uint32_t operand) {
  if (node_in(lc->node, operand)->sinfo->kind != SINFO_SHAPE) return;
  InferCtx ic = {.c = lc->c, .m = lc->m, .arena = lc->arena};
  uint32_t ndim;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim), *zero = te_i64(lc, 0);
  for (uint32_t i = 0; i < ndim; i++) {
    int64_t lo, hi;
    dim_bounds(lc->c, NULL, expr_dim(lc->c, shape[i]), &lo, &hi);
    if (lo < 0)
      te_assert(lc, expr_binary(lc->c, EXPR_GE, shape[i], zero), "dim %u, %s, is negative", i,
                infer_expr_text(&ic, shape[i]));
  }
}

bool te_need_equal(LowerCtx *lc, const Expr *a, const Expr *b, const char *what) {
  InferCtx ic = {.c = lc->c, .m = lc->m, .arena = lc->arena};
  if (infer_eq(&ic, a, b)) return true;
  const char *x = infer_expr_text(&ic, a), *y = infer_expr_text(&ic, b);
  if (infer_ne(&ic, a, b)) return te_error(lc, "%s differ: %s and %s", what, x, y);
  te_assert(lc, expr_binary(lc->c, EXPR_EQ, a, b), "%s differ: %s and %s", what, x, y);
  return true;
}

DType te_acc_dtype(DType d) {
  return dtype_is_float(d) && d.bits < 32 ? DT_F32 : d;
}

DType te_mean_dtype(DType d) {
  return dtype_is_int(d) && d.bits < 64 ? DT_I64 : te_acc_dtype(d);
}

const Expr *te_widen(Context *c, const Expr *e) {
  return expr_cast(c, te_acc_dtype(e->dtype), e);
}

const Expr *te_select(Context *c, const Expr *cond, const Expr *a, const Expr *b) {
  if (cond->kind == EXPR_INT) return cond->i ? a : b;
  return a == b ? a : expr_select(c, cond, a, b);
}

/* ---- conversions ---- */
/* T.Cast saturates at 32 and 64 bits and keeps the low bits of that where fewer are asked for, or
 * 32 without a sign: those are cut between integers, as instructions that narrow vectors do at
 * once. */
static const Expr *float_to_int(Context *c, DType d, const Expr *e) {
  bool uns = dtype_is_uint(d);
  if (d.bits == 64 || (d.bits == 32 && !uns)) return expr_cast(c, d, e);
  DType wide = d.bits == 32 ? DT_I64 : DT_I32;
  int64_t min = uns ? 0 : -(INT64_C(1) << (d.bits - 1)), max = uns ? dtype_wrap(d, -1) : -(min + 1);
  const Expr *r = expr_min(c, expr_cast(c, wide, e), expr_int(c, wide, max));
  return expr_cast(c, d, expr_max(c, r, expr_int(c, wide, min)));
}

const Expr *te_cast(Context *c, DType d, const Expr *e) {
  if (dtype_eq(d, e->dtype)) return e;
  if (dtype_is_bool(d)) return NE(e, expr_lit(c, e->dtype, 0));
  if (dtype_is_float(e->dtype) && dtype_is_int(d)) return float_to_int(c, d, e);
  if (dtype_is_bool(e->dtype)) return SEL(e, expr_lit(c, d, 1), expr_lit(c, d, 0));
  /* Between two narrow float types, and from wide integers to them, by way of float32. */
  if (dtype_is_float(d) && d.bits < 32 && !dtype_eq(e->dtype, DT_F32) &&
      !dtype_eq(e->dtype, DT_F64))
    return expr_cast(c, d, expr_cast(c, DT_F32, e));
  return expr_cast(c, d, e);
}

static DType common_dtype(DType a, DType b) {
  if (dtype_eq(a, b) || dtype_is_bool(b)) return a;
  if (dtype_is_bool(a)) return b;
  if (dtype_is_float(a) && dtype_is_float(b))
    return a.bits != b.bits ? (a.bits > b.bits ? a : b) : DT_F32;
  if (dtype_is_float(a) || dtype_is_float(b)) {
    DType f = dtype_is_float(a) ? a : b, i = dtype_is_float(a) ? b : a;
    return f.bits >= 64 || i.bits >= 32 ? DT_F64 : f.bits == 32 || i.bits > 8 ? DT_F32 : f;
  }
  if (dtype_is_uint(a) == dtype_is_uint(b)) return a.bits > b.bits ? a : b;
  return DT_I64;
}

void te_common(Context *c, const Expr **a, const Expr **b) {
  DType d = common_dtype((*a)->dtype, (*b)->dtype);
  *a = te_cast(c, d, *a);
  *b = te_cast(c, d, *b);
}

/* ---- integers ---- */
const Expr *te_int_div(Context *c, ExprKind kind, const Expr *a, const Expr *b) {
  DType d = a->dtype;
  const Expr *zero = expr_int(c, d, 0), *one = expr_int(c, d, 1);
  const Expr *by0 = EQ(b, zero);
  bool rest = kind == EXPR_MOD || kind == EXPR_FLOORMOD;
  if (dtype_is_uint(d)) return SEL(by0, zero, expr_binary(c, kind, a, SEL(by0, one, b)));
  const Expr *neg = EQ(b, expr_int(c, d, -1));
  const Expr *r = expr_binary(c, kind, a, SEL(OR(by0, neg), one, b));
  return SEL(by0, zero, SEL(neg, rest ? zero : SUB(zero, a), r));
}

const Expr *te_axis_div(Context *c, ExprKind kind, const Expr *at, const Expr *extent) {
  if (expr_is_int(extent, 0)) return extent;
  return expr_binary(c, kind, at, extent);
}

/* ---- composites ---- */
Node *te_bind(LowerCtx *lc, Node *x) {
  if (!x || !node_infer(lc->m, NULL, x)) return NULL;
  node_bind_before(lc->node, x, NULL);
  return x;
}

Node *te_make(LowerCtx *lc, OpId op, Node *const *in, uint32_t n) {
  Node *r = node_create(lc->node->func, op, in, n, lc->node->span);
  r->attrs = node_new_attrs(lc->node->func, op);
  return r;
}

/* ---- elementwise stages ---- */
static const Expr *prim_value(LowerCtx *lc, uint32_t i) {
  const Expr *e = node_in(lc->node, i)->sinfo->value;
  if (!e) te_error(lc, "arithmetic on prim values needs their expressions");
  return e;
}

static bool prim_result(LowerCtx *lc, const Expr *e) {
  if (!dtype_eq(e->dtype, lc->node->sinfo->dtype)) e = te_cast(lc->c, lc->node->sinfo->dtype, e);
  Node *p = node_prim(lc->node->func, expr_simplify(lc->c, e), lc->node->span);
  node_infer(lc->m, NULL, p);
  te_composite(lc, p);
  return true;
}

static bool finish(LowerCtx *lc, const Expr *value) {
  if (!value) return false;
  te_out(lc, te_spatial_end(lc, te_cast(lc->c, lc->stage_dtype, value)));
  return true;
}

bool te_unary(LowerCtx *lc, Node *n, TeUnary fn) {
  if (n->sinfo->kind == SINFO_PRIM) {
    const Expr *x = prim_value(lc, 0), *v = x ? fn(lc, x) : NULL;
    return v && prim_result(lc, v);
  }
  te_result_begin(lc, 0, NULL);
  return finish(lc, fn(lc, te_widen(lc->c, te_operand(lc, 0, lc->ax, lc->nspatial))));
}

bool te_binary(LowerCtx *lc, Node *n, TeBinary fn) {
  if (n->sinfo->kind == SINFO_PRIM) {
    const Expr *a = prim_value(lc, 0), *b = a ? prim_value(lc, 1) : NULL;
    const Expr *v = b ? fn(lc, a, b) : NULL;
    return v && prim_result(lc, v);
  }
  te_result_begin(lc, 0, NULL);
  const Expr *a = te_widen(lc->c, te_operand(lc, 0, lc->ax, lc->nspatial));
  const Expr *b = te_widen(lc->c, te_operand(lc, 1, lc->ax, lc->nspatial));
  return finish(lc, fn(lc, a, b));
}
