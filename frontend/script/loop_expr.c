/* Scalar expressions: shapes, loop bounds, indices and values.
 *
 * Python's operators and the functions of T. become interned expressions. Bare numbers have no type
 * of their own: they take the other operand's, or int64 (Relax) / int32 (prim_funcs) and float32
 * where there is none. Names after "T." are looked up in three tables: data types, operators
 * spelled as functions, and intrinsics (ir/intrins.def).
 */
#include "frontend/script/sema.h"
#include "frontend/script/parse.h"
#include <float.h>
#include <math.h>

/* ---- types ---- */

const Expr *sema_convert(Sema *s, const Expr *e, DType d) {
  if (dtype_eq(e->dtype, d)) return e;
  if (d.lanes > 1 && e->dtype.lanes == 1)
    return expr_broadcast(s->ctx, sema_convert(s, e, dtype_scalar(d)), d.lanes);
  return expr_cast(s->ctx, d, e);
}

static bool is_literal(const Expr *e) {
  return e->kind == EXPR_INT || e->kind == EXPR_FLOAT;
}

/* A literal of another type with the same value, or NULL when that is not exact. */
static const Expr *retype_literal(Context *c, const Expr *e, DType d) {
  if (d.lanes != 1 || e->dtype.lanes != 1) return NULL;
  if (e->kind == EXPR_INT && dtype_is_float(d)) return expr_float(c, d, (double)e->i);
  if (e->kind == EXPR_INT && (dtype_is_int(d) || dtype_is_bool(d)))
    return dtype_is_bool(e->dtype) || dtype_wrap(d, e->i) == e->i ? expr_int(c, d, e->i) : NULL;
  if (e->kind == EXPR_FLOAT && dtype_is_float(d)) return expr_float(c, d, e->f);
  return NULL;
}

bool sema_match_types(Sema *s, const Tree *t, const Expr **a, const Expr **b) {
  Context *c = s->ctx;
  DType x = (*a)->dtype, y = (*b)->dtype;
  if (dtype_eq(x, y)) return true;
  if (x.lanes != y.lanes && x.lanes != 1 && y.lanes != 1) {
    sema_error(s, t, "operands have %d and %d lanes", x.lanes, y.lanes);
    return false;
  }
  uint16_t lanes = x.lanes > y.lanes ? x.lanes : y.lanes;
  DType sx = dtype_scalar(x), sy = dtype_scalar(y), to = sx;
  if (x.code == DTYPE_HANDLE || y.code == DTYPE_HANDLE || !dtype_known(x) || !dtype_known(y)) {
    sema_error(s, t, "'%s' cannot be applied to these operands",
               t->kind == TREE_BINARY ? tree_op_text(t->op) : "this operation");
    return false;
  }
  if (!dtype_eq(sx, sy)) {
    const Expr *r = NULL;
    /* a literal takes the other's type */
    if (is_literal(*b) && (r = retype_literal(c, *b, sx)))
      *b = r, sy = sx;
    else if (is_literal(*a) && (r = retype_literal(c, *a, sy)))
      *a = r, sx = sy, to = sy;
  }
  if (!dtype_eq(sx, sy)) {
    if (dtype_is_float(sx) != dtype_is_float(sy))
      to = dtype_is_float(sx) ? sx : sy;
    else if (dtype_is_bool(sx) != dtype_is_bool(sy))
      to = dtype_is_bool(sx) ? sy : sx;
    else if (sx.bits != sy.bits)
      to = sx.bits > sy.bits ? sx : sy;
    else if (dtype_is_uint(sx) != dtype_is_uint(sy))
      to = dtype_is_uint(sx) ? sx : sy;
  }
  *a = sema_convert(s, *a, dtype_lanes(to, lanes));
  *b = sema_convert(s, *b, dtype_lanes(to, lanes));
  return true;
}

/* A float literal as written: 1e-05 stays that in print, though float32 cannot hold it. */
static const Expr *written_float(Sema *s, DType d, double v) {
  const Expr *e = expr_float(s->ctx, d, v);
  if (e->f != v && v == v && !e->written)
    ((Expr *)(uintptr_t)e)->written = arena_dup(s->ctx->arena, &v, sizeof v);
  return e;
}

/* ---- operators ---- */

static const struct {
  const char *name;
  ExprKind kind;
} binary_functions[] = {
    {"min", EXPR_MIN},
    {"max", EXPR_MAX},
    {"Min", EXPR_MIN},
    {"Max", EXPR_MAX},
    {"Add", EXPR_ADD},
    {"Sub", EXPR_SUB},
    {"Mul", EXPR_MUL},
    {"Div", EXPR_DIV},
    {"Mod", EXPR_MOD},
    {"truncdiv", EXPR_DIV},
    {"truncmod", EXPR_MOD},
    {"floordiv", EXPR_FLOORDIV},
    {"FloorDiv", EXPR_FLOORDIV},
    {"floormod", EXPR_FLOORMOD},
    {"FloorMod", EXPR_FLOORMOD},
    {"EQ", EXPR_EQ},
    {"NE", EXPR_NE},
    {"LT", EXPR_LT},
    {"LE", EXPR_LE},
    {"GT", EXPR_GT},
    {"GE", EXPR_GE},
    {"And", EXPR_AND},
    {"Or", EXPR_OR},
    {"bitwise_and", EXPR_BITAND},
    {"BitwiseAnd", EXPR_BITAND},
    {"bitwise_or", EXPR_BITOR},
    {"BitwiseOr", EXPR_BITOR},
    {"bitwise_xor", EXPR_BITXOR},
    {"BitwiseXor", EXPR_BITXOR},
    {"shift_left", EXPR_SHL},
    {"LShift", EXPR_SHL},
    {"shift_right", EXPR_SHR},
    {"RShift", EXPR_SHR},
};

static bool is_bitop(ExprKind k) {
  return k == EXPR_BITAND || k == EXPR_BITOR || k == EXPR_BITXOR || k == EXPR_SHL || k == EXPR_SHR;
}

static const Expr *make_binary(Sema *s, const Tree *t, ExprKind k, const Expr *a, const Expr *b) {
  if (!a || !b) return NULL;
  if (k == EXPR_AND || k == EXPR_OR) {
    if (!dtype_is_bool(a->dtype) || !dtype_is_bool(b->dtype)) {
      sema_error(s, t, "'%s' needs bool operands but got %s and %s", k == EXPR_AND ? "and" : "or",
                 arena_printf(s->arena, "%s", dtype_name(a->dtype)), dtype_name(b->dtype));
      return NULL;
    }
  }
  if (!sema_match_types(s, t, &a, &b)) return NULL;
  if (dtype_is_float(a->dtype)) { /* integer division of floats, by what it means */
    if (k == EXPR_MOD) return expr_call2(s->ctx, INTRIN_fmod, a, b);
    if (k == EXPR_FLOORDIV || k == EXPR_FLOORMOD) {
      const Expr *q = expr_call1(s->ctx, INTRIN_floor, expr_div(s->ctx, a, b));
      return k == EXPR_FLOORDIV ? q : expr_sub(s->ctx, a, expr_mul(s->ctx, q, b));
    }
  }
  if (is_bitop(k) && dtype_is_float(a->dtype)) {
    sema_error(s, t, "this operation needs integers but got %s", dtype_name(a->dtype));
    return NULL;
  }
  if (k != EXPR_EQ && k != EXPR_NE && k != EXPR_AND && k != EXPR_OR && k != EXPR_BITAND &&
      k != EXPR_BITOR && k != EXPR_BITXOR && dtype_is_bool(a->dtype)) {
    DType d = dtype_lanes(DT_I32, a->dtype.lanes);
    a = sema_convert(s, a, d);
    b = sema_convert(s, b, d);
  }
  bool divides = k == EXPR_DIV || k == EXPR_MOD || k == EXPR_FLOORDIV || k == EXPR_FLOORMOD;
  if (divides && expr_is_int(b, 0)) {
    sema_error(s, t, "division by zero");
    return NULL;
  }
  return expr_binary(s->ctx, k, a, b);
}

static const Expr *read_binary(Sema *s, const Tree *t) {
  static const ExprKind kinds[] = {
      [TREE_ADD] = EXPR_ADD,
      [TREE_SUB] = EXPR_SUB,
      [TREE_MUL] = EXPR_MUL,
      [TREE_DIV] = EXPR_DIV,
      [TREE_FLOORDIV] = EXPR_FLOORDIV,
      [TREE_MOD] = EXPR_FLOORMOD,
      [TREE_BITOR] = EXPR_BITOR,
      [TREE_BITXOR] = EXPR_BITXOR,
      [TREE_BITAND] = EXPR_BITAND,
      [TREE_SHL] = EXPR_SHL,
      [TREE_SHR] = EXPR_SHR,
      [TREE_LT] = EXPR_LT,
      [TREE_LE] = EXPR_LE,
      [TREE_GT] = EXPR_GT,
      [TREE_GE] = EXPR_GE,
      [TREE_EQ] = EXPR_EQ,
      [TREE_NE] = EXPR_NE,
      [TREE_AND] = EXPR_AND,
      [TREE_OR] = EXPR_OR,
  };
  if (t->op >= TREE_LT && t->op <= TREE_IS_NOT && t->a->kind == TREE_BINARY &&
      t->a->op >= TREE_LT && t->a->op <= TREE_IS_NOT && !(t->a->flags & TREE_PAREN)) {
    sema_error(s, t, "chained comparisons are not supported; join them with 'and'");
    return NULL;
  }
  if (t->op == TREE_MATMUL || (t->op >= TREE_IN && t->op <= TREE_IS_NOT)) {
    sema_error(s, t, "operator '%s' is not supported here", tree_op_text(t->op));
    return NULL;
  }
  const Expr *a = sema_expr(s, t->a), *b = sema_expr(s, t->b);
  if (!a || !b) return NULL;
  if (t->op == TREE_POW) {
    if (!sema_match_types(s, t, &a, &b)) return NULL;
    return expr_call2(s->ctx, INTRIN_pow, a, b);
  }
  if (t->op == TREE_DIV && !dtype_is_float(a->dtype) && !dtype_is_float(b->dtype)) {
    sema_error(s, t, "'/' of integers is ambiguous; write // (floor) or T.Div (truncating)");
    return NULL;
  }
  if (t->op == TREE_FLOORDIV && (dtype_is_float(a->dtype) || dtype_is_float(b->dtype))) {
    sema_error(s, t, "'//' needs integers; write T.floor(a / b)");
    return NULL;
  }
  if (t->op == TREE_MOD && (dtype_is_float(a->dtype) || dtype_is_float(b->dtype))) {
    sema_error(s, t, "'%%' needs integers; write T.fmod(a, b)");
    return NULL;
  }
  return make_binary(s, t, kinds[t->op], a, b);
}

static const Expr *read_unary(Sema *s, const Tree *t) {
  Context *c = s->ctx;
  /* -9223372036854775808 and -0.0 are literals */
  if (t->op == TREE_NEG && t->b->kind == TREE_INT && !(t->b->flags & TREE_BIG) &&
      t->b->ival <= (uint64_t)1 << 63) {
    int64_t v = (int64_t)(0 - t->b->ival);
    bool wide = !s->tir || v < INT32_MIN;
    return expr_int(c, wide ? DT_I64 : DT_I32, v);
  }
  if (t->op == TREE_NEG && t->b->kind == TREE_FLOAT) return expr_float(c, DT_F32, -t->b->fval);
  const Expr *a = sema_expr(s, t->b);
  if (!a) return NULL;
  switch ((TreeOp)t->op) {
  case TREE_POS: return a;
  case TREE_NEG:
    if (a->kind == EXPR_FLOAT) return expr_float(c, a->dtype, -a->f);
    if (dtype_is_bool(a->dtype) || a->dtype.code == DTYPE_HANDLE) break;
    if (!s->tir || dtype_is_int(a->dtype)) {
      if (a->kind == EXPR_INT)
        return expr_int(c, a->dtype, dtype_wrap(a->dtype, (int64_t)(0 - (uint64_t)a->i)));
      return expr_mul(c, a, expr_lit(c, a->dtype, -1));
    }
    return expr_mul(c, a, expr_lit(c, a->dtype, -1));
  case TREE_INVERT:
    if (!dtype_is_int(a->dtype) && !dtype_is_bool(a->dtype)) break;
    return expr_unary(c, EXPR_BITNOT, a);
  case TREE_NOT:
    if (!dtype_is_bool(a->dtype)) break;
    return expr_unary(c, EXPR_NOT, a);
  default: break;
  }
  sema_error(s, t, "operator '%s' cannot be applied to %s", tree_op_text(t->op),
             dtype_name(a->dtype));
  return NULL;
}

/* ---- subscripts ---- */

/* One index: a scalar, or base:end(:step) with a constant number of lanes. */
static const Expr *read_index(Sema *s, const Tree *t, DType hint) {
  Context *c = s->ctx;
  if (t->kind != TREE_SLICE) {
    const Expr *e = sema_expr(s, t);
    if (!e) return NULL;
    if (!dtype_is_int(e->dtype) && !dtype_is_bool(e->dtype)) {
      sema_error(s, t, "an index must be an integer but got %s", dtype_name(e->dtype));
      return NULL;
    }
    if (e->kind == EXPR_INT && dtype_known(hint) && e->dtype.lanes == 1) {
      const Expr *r = retype_literal(c, e, hint);
      if (r) e = r;
    }
    return e;
  }
  if (!t->at[0] || !t->at[1]) {
    sema_error(s, t, "a slice needs both ends here");
    return NULL;
  }
  const Expr *lo = sema_expr(s, t->at[0]), *hi = sema_expr(s, t->at[1]);
  const Expr *step = t->at[2] ? sema_expr(s, t->at[2]) : NULL;
  if (!lo || !hi || (t->at[2] && !step)) return NULL;
  if (!sema_match_types(s, t, &lo, &hi)) return NULL;
  int64_t lanes = 0, stride = 1;
  if (!dtype_is_int(lo->dtype) || lo->dtype.lanes != 1 ||
      !expr_const_int(c, expr_simplify(c, expr_sub(c, hi, lo)), &lanes) ||
      (step && (!expr_const_int(c, step, &stride) || stride == 0))) {
    sema_error(s, t, "the extent of a slice must be a constant here");
    return NULL;
  }
  lanes = (lanes + stride - 1) / stride;
  if (lanes < 1 || lanes > 65535) {
    sema_error(s, t, "a slice of %lld elements cannot be a vector", (long long)lanes);
    return NULL;
  }
  if (lanes == 1) return lo;
  return expr_ramp(c, lo, expr_int(c, lo->dtype, stride), (uint32_t)lanes);
}

const Expr **sema_indices(Sema *s, const Tree *t, const Buffer *b) {
  const Tree *index = t->b;
  Tree *const *at = &t->b;
  uint32_t n = 1;
  if (index->kind == TREE_TUPLE) at = index->at, n = index->n;
  /* A[()] and A[0] read a rank-0 buffer */
  if (b->ndim == 0 && n == 1 && at[0]->kind == TREE_INT && at[0]->ival == 0) n = 0;
  if (n != b->ndim) {
    sema_error(s, t, "buffer '%s' has %u dims but got %u indices", b->name, b->ndim, n);
    diag_note(s->ctx->diags, b->span, "'%s' is declared here", b->name);
    return NULL;
  }
  const Expr **idx = ARENA_ARRAY(s->m->arena, const Expr *, n ? n : 1);
  for (uint32_t i = 0; i < n; i++)
    if (!(idx[i] = read_index(s, at[i], DT_UNKNOWN))) return NULL;
  for (uint32_t i = 0; i + 1 < n; i++)
    if (idx[i]->dtype.lanes > 1) {
      sema_error(s, at[i], "only the last index can be a vector");
      return NULL;
    }
  return idx;
}

static const Expr *read_subscript(Sema *s, const Tree *t) {
  if (t->a->kind == TREE_NAME) {
    Binding *b = sema_lookup(s, t->a);
    if (!b) return NULL;
    if (b->kind == BIND_BUFFER) {
      const Expr **idx = sema_indices(s, t, b->buffer);
      if (!idx) return NULL;
      return expr_load(s->ctx, b->buffer, idx, b->buffer->ndim);
    }
  }
  sema_error(s, t, "only a buffer can be indexed here");
  return NULL;
}

/* ---- names ---- */

static const Expr *read_name(Sema *s, const Tree *t) {
  Binding *b = sema_lookup(s, t);
  if (!b) return NULL;
  if (b->var) return b->var->expr;
  if (b->kind == BIND_NODE) {
    const SInfo *si = b->node->sinfo;
    if (si->kind == SINFO_BAD) return NULL;
    if (si->kind == SINFO_PRIM && si->value) return si->value;
    sema_error(s, t, "'%s' is %s, not a scalar expression", t->name, sema_type_text(s, si));
    diag_note(s->ctx->diags, b->span, "'%s' is bound here", t->name);
    return NULL;
  }
  if (b->kind == BIND_BUFFER) {
    if (b->buffer->ndim == 0) return expr_load(s->ctx, b->buffer, NULL, 0);
    sema_error(s, t, "buffer '%s' needs indices here", t->name);
    return NULL;
  }
  sema_error(s, t, "'%s' is not a scalar expression", t->name);
  return NULL;
}

/* ---- calls of T. ---- */

static bool want_args(Sema *s, const Tree *t, uint32_t lo, uint32_t hi) {
  for (uint32_t i = 0; i < t->n; i++)
    if (t->at[i]->kind == TREE_STAR || t->at[i]->kind == TREE_DOUBLESTAR) {
      sema_error(s, t->at[i], "a starred argument is not supported");
      return false;
    }
  if (t->n >= lo && t->n <= hi) return true;
  const char *name = tree_dotted(s->ctx, t->a);
  if (lo == hi)
    sema_error(s, t, "%s takes %u argument%s but got %u", name ? name : "this call", lo,
               lo == 1 ? "" : "s", t->n);
  else
    sema_error(s, t, "%s takes %u to %u arguments but got %u", name ? name : "this call", lo, hi,
               t->n);
  return false;
}

/* T.float32(x), T.int64(3), T.float32("inf"), T.bool(True) */
static const Expr *read_typed(Sema *s, const Tree *t, DType d) {
  Context *c = s->ctx;
  if (!want_args(s, t, 1, 1)) return NULL;
  const Tree *a = t->at[0];
  DType scalar = dtype_scalar(d);
  if (dtype_is_int(scalar) || dtype_is_bool(scalar)) {
    int64_t v = 0;
    uint64_t big = a->kind == TREE_INT ? a->ival : 0;
    bool unsigned64 =
        dtype_is_uint(scalar) && scalar.bits == 64 && a->kind == TREE_INT && !(a->flags & TREE_BIG);
    if (unsigned64 || tree_const_int(a, &v)) {
      if (unsigned64) v = (int64_t)big;
      if (dtype_is_bool(scalar) ? v != 0 && v != 1 : !unsigned64 && dtype_wrap(scalar, v) != v) {
        sema_error(s, a, "%lld does not fit %s", (long long)v, dtype_name(scalar));
        return NULL;
      }
      const Expr *e = expr_int(c, scalar, v);
      return d.lanes > 1 ? expr_broadcast(c, e, d.lanes) : e;
    }
  } else if (dtype_is_float(scalar)) {
    double v = 0;
    if (tree_const_float(a, &v)) {
      const Expr *e = written_float(s, scalar, v);
      return d.lanes > 1 ? expr_broadcast(c, e, d.lanes) : e;
    }
  }
  const Expr *e = sema_expr(s, a);
  if (!e) return NULL;
  return sema_convert(s, e, d);
}

static const Expr *read_limit(Sema *s, const Tree *t, IntrinId f) {
  DType d = DT_UNKNOWN;
  if (!want_args(s, t, 1, 1) || !sema_dtype(s, t->at[0], &d)) return NULL;
  Context *c = s->ctx;
  if (dtype_is_float(d)) {
    double big = d.bits == 64             ? DBL_MAX
                 : d.code == DTYPE_BFLOAT ? 0x1.fep127
                 : d.bits == 16           ? 65504.0
                 : d.code == DTYPE_E4M3FN ? 448.0
                 : d.code == DTYPE_E5M2   ? 57344.0
                                          : (double)FLT_MAX;
    if (f == INTRIN_infinity) big = INFINITY;
    return expr_float(c, d, f == INTRIN_min_value ? -big : big);
  }
  if (f == INTRIN_infinity || !dtype_is_int(d)) {
    sema_error(s, t, "%s has no such value", dtype_name(d));
    return NULL;
  }
  bool is_signed = dtype_is_sint(d);
  unsigned bits = d.bits - (is_signed ? 1 : 0);
  uint64_t top = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  if (f == INTRIN_max_value) return expr_int(c, d, (int64_t)top);
  return expr_int(c, d, is_signed ? -(int64_t)top - 1 : 0);
}

/* T.Let(body, where={x: value}) */
static const Expr *read_let(Sema *s, const Tree *t) {
  if (t->n != 2 || t->at[1]->kind != TREE_KEYWORD || strcmp(t->at[1]->name, "where") != 0 ||
      t->at[1]->b->kind != TREE_DICT || t->at[1]->b->n != 2 || !t->at[1]->b->at[0] ||
      t->at[1]->b->at[0]->kind != TREE_NAME) {
    sema_error(s, t, "expected T.Let(body, where={name: value})");
    return NULL;
  }
  const Tree *name = t->at[1]->b->at[0];
  const Expr *value = sema_expr(s, t->at[1]->b->at[1]);
  if (!value) return NULL;
  Var *v = var_create(s->ctx, name->name, value->dtype);
  v->span = tree_span(s, name);
  scope_push(&s->scope);
  scope_bind(&s->scope, name->name, BIND_VAR, v->span)->var = v;
  const Expr *body = sema_expr(s, t->at[0]);
  scope_pop(&s->scope, "T.Let");
  return body ? expr_let(s->ctx, v, value, body) : NULL;
}

/* T.Ramp(base, stride, lanes), T.Broadcast(value, lanes) */
static const Expr *read_vector(Sema *s, const Tree *t, bool ramp) {
  if (!want_args(s, t, ramp ? 3 : 2, ramp ? 3 : 2)) return NULL;
  int64_t lanes = 0;
  const Tree *l = t->at[ramp ? 2 : 1];
  if (!tree_const_int(l, &lanes) || lanes < 1 || lanes > 65535) {
    sema_error(s, l, "the number of lanes must be a constant from 1 to 65535");
    return NULL;
  }
  const Expr *a = sema_expr(s, t->at[0]);
  if (!a) return NULL;
  if (a->dtype.lanes != 1) {
    sema_error(s, t->at[0], "expected a scalar but got %s", dtype_name(a->dtype));
    return NULL;
  }
  if (!ramp) return lanes == 1 ? a : expr_broadcast(s->ctx, a, (uint32_t)lanes);
  const Expr *b = sema_expr(s, t->at[1]);
  if (!b || !sema_match_types(s, t, &a, &b)) return NULL;
  return lanes == 1 ? a : expr_ramp(s->ctx, a, b, (uint32_t)lanes);
}

/* T.Shuffle([vectors], [lanes]) */
static const Expr *read_shuffle(Sema *s, const Tree *t) {
  if (!want_args(s, t, 2, 2)) return NULL;
  const Tree *v = t->at[0], *l = t->at[1];
  if (v->kind != TREE_LIST || l->kind != TREE_LIST || v->n == 0 || l->n == 0 || l->n > 65535) {
    sema_error(s, t, "expected T.Shuffle([vectors], [lanes])");
    return NULL;
  }
  Arena *a = s->ctx->arena;
  const Expr **vecs = ARENA_ARRAY(a, const Expr *, v->n);
  int64_t *lanes = ARENA_ARRAY(a, int64_t, l->n), total = 0;
  for (uint32_t i = 0; i < v->n; i++) {
    vecs[i] = sema_expr(s, v->at[i]);
    if (!vecs[i]) return NULL;
    if (!dtype_eq(dtype_scalar(vecs[i]->dtype), dtype_scalar(vecs[0]->dtype))) {
      sema_error(s, v->at[i], "the vectors of a shuffle must have one element type");
      return NULL;
    }
    total += vecs[i]->dtype.lanes;
  }
  for (uint32_t i = 0; i < l->n; i++)
    if (!tree_const_int(l->at[i], &lanes[i]) || lanes[i] < 0 || lanes[i] >= total) {
      sema_error(s, l->at[i], "a lane of a shuffle must be a constant below %lld",
                 (long long)total);
      return NULL;
    }
  return expr_shuffle(s->ctx, vecs, v->n, lanes, l->n);
}

/* The value as a condition. */
static const Expr *read_bool(Sema *s, const Tree *t) {
  const Expr *e = sema_expr(s, t);
  if (!e) return NULL;
  if (dtype_is_bool(e->dtype)) return e;
  if (dtype_is_int(e->dtype))
    return expr_binary(s->ctx, EXPR_NE, e, expr_lit(s->ctx, dtype_scalar(e->dtype), 0));
  sema_error(s, t, "a condition must be bool but got %s", dtype_name(e->dtype));
  return NULL;
}

const Expr *sema_condition(Sema *s, const Tree *t) {
  return read_bool(s, t);
}

static const Expr *read_choice(Sema *s, const Tree *t, const Tree *cond, const Tree *x,
                               const Tree *y, bool lazy) {
  const Expr *c = read_bool(s, cond), *a = sema_expr(s, x), *b = sema_expr(s, y);
  if (!c || !a || !b || !sema_match_types(s, t, &a, &b)) return NULL;
  if (lazy && c->dtype.lanes != 1) {
    sema_error(s, cond, "the condition of T.if_then_else must be a scalar");
    return NULL;
  }
  if (!lazy && c->dtype.lanes != 1 && c->dtype.lanes != a->dtype.lanes) {
    DType d = dtype_lanes(a->dtype, c->dtype.lanes);
    if (a->dtype.lanes != 1) {
      sema_error(s, t, "condition and values have different lanes");
      return NULL;
    }
    a = sema_convert(s, a, d);
    b = sema_convert(s, b, d);
  }
  return lazy ? expr_if_then_else(s->ctx, c, a, b) : expr_select(s->ctx, c, a, b);
}

/* An intrinsic of the table. Its string arguments stay strings; a leading dtype is its result. */
static const Expr *read_intrin(Sema *s, const Tree *t, IntrinId f) {
  const IntrinInfo *info = &intrin_table[f];
  uint32_t first = 0;
  DType d = DT_UNKNOWN;
  if (info->result == IRES_GIVEN) {
    if (t->n == 0) {
      sema_error(s, t, "T.%s needs a data type as its first argument", info->name);
      return NULL;
    }
    if (!sema_dtype(s, t->at[0], &d)) return NULL;
    first = 1;
  }
  uint32_t n = t->n - first;
  if (info->nargs >= 0 && n != (uint32_t)info->nargs) {
    sema_error(s, t, "T.%s takes %d argument%s but got %u", info->name, info->nargs,
               info->nargs == 1 ? "" : "s", n);
    return NULL;
  }
  const Expr **args = ARENA_ARRAY(s->arena, const Expr *, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) {
    const Tree *a = t->at[first + i];
    if (a->kind == TREE_KEYWORD || a->kind == TREE_STAR || a->kind == TREE_DOUBLESTAR) {
      sema_error(s, a, "T.%s takes plain arguments only", info->name);
      return NULL;
    }
    args[i] = a->kind == TREE_STR ? expr_str(s->ctx, strpool_intern(s->ctx->strings, a->str, a->n))
                                  : sema_expr(s, a);
    if (!args[i]) return NULL;
  }
  if ((info->flags & INTRIN_FLOAT) && n) {
    if (n == 2 && f != INTRIN_ldexp && !sema_match_types(s, t, &args[0], &args[1])) return NULL;
    if (!dtype_is_float(args[0]->dtype) && !(f == INTRIN_pow && dtype_is_int(args[0]->dtype))) {
      /* rounding an integer does nothing; other functions need a float */
      if ((f == INTRIN_floor || f == INTRIN_ceil || f == INTRIN_round || f == INTRIN_trunc ||
           f == INTRIN_nearbyint) &&
          dtype_is_int(args[0]->dtype))
        return args[0];
      sema_error(s, t, "T.%s needs a float but got %s", info->name, dtype_name(args[0]->dtype));
      return NULL;
    }
  }
  if (f == INTRIN_reinterpret &&
      (size_t)d.bits * d.lanes != (size_t)args[0]->dtype.bits * args[0]->dtype.lanes) {
    sema_error(s, t, "T.reinterpret cannot turn %s into %s: their sizes differ",
               arena_printf(s->arena, "%s", dtype_name(args[0]->dtype)), dtype_name(d));
    return NULL;
  }
  if (f == INTRIN_likely && n == 1 && !dtype_is_bool(args[0]->dtype)) {
    sema_error(s, t, "T.likely needs a bool but got %s", dtype_name(args[0]->dtype));
    return NULL;
  }
  if (f == INTRIN_address_of && args[0]->kind != EXPR_LOAD) {
    sema_error(s, t, "T.address_of needs an element of a buffer");
    return NULL;
  }
  switch ((IntrinResult)info->result) {
  case IRES_SAME:
    d = n ? args[0]->dtype : DT_I32;
    if (f == INTRIN_vector_reduce_add || f == INTRIN_vector_reduce_max ||
        f == INTRIN_vector_reduce_min)
      d = dtype_scalar(d);
    break;
  case IRES_BOOL: d = dtype_lanes(DT_BOOL, n ? args[0]->dtype.lanes : 1); break;
  case IRES_GIVEN: break;
  case IRES_SECOND: d = n > 1 ? args[1]->dtype : DT_UNKNOWN; break;
  case IRES_VOID: d = DT_UNKNOWN; break;
  case IRES_HANDLE: d = DT_HANDLE; break;
  case IRES_I32:
    d = n && f == INTRIN_clz ? dtype_lanes(DT_I32, args[0]->dtype.lanes) : DT_I32;
    break;
  case IRES_I64: d = DT_I64; break;
  }
  return expr_call(s->ctx, f, d, args, n);
}

static void unknown_function(Sema *s, const Tree *t, const char *name) {
  const char *names[INTRIN_COUNT + sizeof binary_functions / sizeof *binary_functions];
  size_t n = 0;
  for (int i = 0; i < INTRIN_COUNT; i++) names[n++] = intrin_table[i].name;
  for (size_t i = 0; i < sizeof binary_functions / sizeof *binary_functions; i++)
    names[n++] = binary_functions[i].name;
  const char *near = text_nearest(name, names, n);
  if (near)
    sema_error(s, t->a, "unknown function 'T.%s'; did you mean 'T.%s'?", name, near);
  else
    sema_error(s, t->a, "unknown function 'T.%s'", name);
}

static const Expr *read_t_call(Sema *s, const Tree *t, const char *name) {
  Context *c = s->ctx;
  DType d = DT_UNKNOWN;
  if (dtype_parse(name, &d) && dtype_known(d)) return read_typed(s, t, d);
  for (size_t i = 0; i < sizeof binary_functions / sizeof *binary_functions; i++) {
    if (strcmp(name, binary_functions[i].name) != 0) continue;
    if (!want_args(s, t, 2, 2)) return NULL;
    const Expr *a = sema_expr(s, t->at[0]), *b = sema_expr(s, t->at[1]);
    return make_binary(s, t, binary_functions[i].kind, a, b);
  }
  if (strcmp(name, "Cast") == 0 || strcmp(name, "cast") == 0) {
    if (!want_args(s, t, 2, 2)) return NULL;
    bool dtype_first = t->at[0]->kind == TREE_STR;
    const Expr *e = sema_expr(s, t->at[dtype_first ? 1 : 0]);
    if (!e || !sema_dtype(s, t->at[dtype_first ? 0 : 1], &d)) return NULL;
    if (d.lanes == 1 && e->dtype.lanes > 1) d = dtype_lanes(d, e->dtype.lanes);
    return sema_convert(s, e, d);
  }
  if (strcmp(name, "Select") == 0 || strcmp(name, "if_then_else") == 0) {
    if (!want_args(s, t, 3, 3)) return NULL;
    return read_choice(s, t, t->at[0], t->at[1], t->at[2], *name == 'i');
  }
  if (strcmp(name, "ceildiv") == 0) {
    if (!want_args(s, t, 2, 2)) return NULL;
    const Expr *a = sema_expr(s, t->at[0]), *b = sema_expr(s, t->at[1]);
    if (!a || !b || !sema_match_types(s, t, &a, &b)) return NULL;
    const Expr *sum = expr_sub(c, expr_add(c, a, b), expr_lit(c, a->dtype, 1));
    return make_binary(s, t, EXPR_FLOORDIV, sum, b);
  }
  if (strcmp(name, "Not") == 0 || strcmp(name, "bitwise_not") == 0 ||
      strcmp(name, "BitwiseNot") == 0) {
    if (!want_args(s, t, 1, 1)) return NULL;
    const Expr *e = *name == 'N' ? read_bool(s, t->at[0]) : sema_expr(s, t->at[0]);
    return e ? expr_unary(c, *name == 'N' ? EXPR_NOT : EXPR_BITNOT, e) : NULL;
  }
  if (strcmp(name, "Ramp") == 0 || strcmp(name, "ramp") == 0) return read_vector(s, t, true);
  if (strcmp(name, "Broadcast") == 0 || strcmp(name, "broadcast") == 0)
    return read_vector(s, t, false);
  if (strcmp(name, "Shuffle") == 0) return read_shuffle(s, t);
  if (strcmp(name, "Let") == 0) return read_let(s, t);
  int f = intrin_find(name);
  if (f < 0) {
    unknown_function(s, t, name);
    return NULL;
  }
  if (f == INTRIN_min_value || f == INTRIN_max_value || f == INTRIN_infinity)
    return read_limit(s, t, (IntrinId)f);
  return read_intrin(s, t, (IntrinId)f);
}

/* A.vload([...], predicate=p) */
static const Expr *read_vload(Sema *s, const Tree *t) {
  Binding *b = sema_lookup(s, t->a->b);
  if (!b) return NULL;
  if (b->kind != BIND_BUFFER || t->n < 1 || t->n > 2) {
    sema_error(s, t, "expected A.vload(indices, predicate=...) of a buffer");
    return NULL;
  }
  Tree index = {.kind = TREE_SUBSCRIPT, .begin = t->begin, .end = t->end};
  Tree list = *t->at[0];
  if (list.kind == TREE_LIST) list.kind = TREE_TUPLE;
  index.b = &list;
  const Expr **idx = sema_indices(s, &index, b->buffer);
  if (!idx) return NULL;
  if (t->n == 1) return expr_load(s->ctx, b->buffer, idx, b->buffer->ndim);
  const Tree *p = t->at[1]->kind == TREE_KEYWORD ? t->at[1]->b : t->at[1];
  const Expr *pred = read_bool(s, p);
  return pred ? expr_load_pred(s->ctx, b->buffer, idx, b->buffer->ndim, pred) : NULL;
}

/* cls.f(...) inside a prim_func */
static const Expr *read_global_call(Sema *s, const Tree *t, const char *name, bool known) {
  if (!known) return NULL;
  Decl *d = strmap_get(&s->decls, name);
  if (!d || !d->prim) {
    sema_error(s, t->a, "'%s' is not a prim_func: a prim_func cannot call it", name);
    return NULL;
  }
  const Expr **args = ARENA_ARRAY(s->arena, const Expr *, t->n ? t->n : 1);
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *a = t->at[i];
    Binding *b = a->kind == TREE_NAME ? scope_find(&s->scope, a->name) : NULL;
    if (b && b->kind == BIND_BUFFER && !b->hidden)
      args[i] = expr_buf_data(s->ctx, b->buffer);
    else
      args[i] = sema_expr(s, a);
    if (!args[i]) return NULL;
  }
  DType ret = dtype_known(d->prim->ret) ? d->prim->ret : DT_UNKNOWN;
  return expr_call_func(s->ctx, name, ret, args, t->n);
}

static const Expr *read_call(Sema *s, const Tree *t) {
  const char *member = sema_member(s, t->a, 'T');
  if (member) return read_t_call(s, t, member);
  bool known = false;
  const char *global = sema_global(s, t->a, &known);
  if (global) return read_global_call(s, t, global, known);
  if (t->a->kind == TREE_ATTR) {
    const Tree *on = t->a->b;
    if (strcmp(t->a->name, "vload") == 0 && on->kind == TREE_NAME) return read_vload(s, t);
    if (strcmp(t->a->name, "astype") == 0 && t->n == 1) {
      DType d = DT_UNKNOWN;
      const Expr *e = sema_expr(s, on);
      return e && sema_dtype(s, t->at[0], &d) ? sema_convert(s, e, d) : NULL;
    }
  }
  const char *name = tree_dotted(s->ctx, t->a);
  if (name && (strcmp(name, "min") == 0 || strcmp(name, "max") == 0) && t->n == 2) {
    const Expr *a = sema_expr(s, t->at[0]), *b = sema_expr(s, t->at[1]);
    return make_binary(s, t, *name == 'm' && name[1] == 'i' ? EXPR_MIN : EXPR_MAX, a, b);
  }
  if (sema_member(s, t->a, 'R')) {
    if (strcmp(name, "R.prim_value") == 0 && t->n == 1) return sema_expr(s, t->at[0]);
    sema_error(s, t, "%s is not a scalar expression", name);
    return NULL;
  }
  if (name)
    sema_error(s, t->a, "unknown function '%s'", name);
  else
    sema_error(s, t->a, "this cannot be called");
  return NULL;
}

/* ---- entry points ---- */

const Expr *sema_expr(Sema *s, const Tree *t) {
  Context *c = s->ctx;
  switch ((TreeKind)t->kind) {
  case TREE_NAME: return read_name(s, t);
  case TREE_INT: {
    if (t->flags & TREE_BIG || t->ival > INT64_MAX) {
      sema_error(s, t, "integer literal does not fit 64 bits");
      return NULL;
    }
    bool wide = !s->tir || t->ival > INT32_MAX;
    return expr_int(c, wide ? DT_I64 : DT_I32, (int64_t)t->ival);
  }
  case TREE_FLOAT: return written_float(s, DT_F32, t->fval);
  case TREE_CONST:
    if (t->op == TREE_TRUE || t->op == TREE_FALSE) return expr_bool(c, t->op == TREE_TRUE);
    break;
  case TREE_STR:
    if (s->tir) return expr_str(c, strpool_intern(c->strings, t->str, t->n));
    break;
  case TREE_UNARY: return read_unary(s, t);
  case TREE_BINARY: return read_binary(s, t);
  case TREE_IFEXP: return read_choice(s, t, t->at[0], t->at[1], t->at[2], true);
  case TREE_SUBSCRIPT: return read_subscript(s, t);
  case TREE_CALL: return read_call(s, t);
  case TREE_ATTR:
    if (strcmp(t->name, "data") == 0 && t->b->kind == TREE_NAME) {
      Binding *b = sema_lookup(s, t->b);
      if (!b) return NULL;
      if (b->kind == BIND_BUFFER) return expr_buf_data(c, b->buffer);
    }
    break;
  case TREE_BAD: return NULL;
  default: break;
  }
  sema_error(s, t, "expected a scalar expression but got %s", tree_describe(t));
  return NULL;
}

const Tree *sema_parse_string(Sema *s, const Tree *t) {
  return tree_parse_string(s->ctx, s->arena, s->file, t);
}

const Expr *sema_dim(Sema *s, const Tree *t) {
  bool string = t->kind == TREE_STR;
  if (string) {
    t = sema_parse_string(s, t);
    if (!t) return NULL;
  }
  s->in_string = string;
  const Expr *e = sema_expr(s, t);
  s->in_string = false;
  if (!e) return NULL;
  if (!dtype_is_int(e->dtype) || e->dtype.lanes != 1) {
    sema_error(s, t, "a dim must be an integer but got %s", dtype_name(e->dtype));
    return NULL;
  }
  if (!s->tir) e = e->kind == EXPR_INT ? expr_i64(s->ctx, e->i) : sema_convert(s, e, DT_I64);
  return e;
}

bool sema_is_prim(Sema *s, const Tree *t) {
  switch ((TreeKind)t->kind) {
  case TREE_INT:
  case TREE_FLOAT: return true;
  case TREE_CONST: return t->op == TREE_TRUE || t->op == TREE_FALSE;
  case TREE_NAME: {
    Binding *b = scope_find(&s->scope, t->name);
    if (!b) return strmap_has(&s->type_vars, t->name);
    if (b->kind == BIND_VAR) return true;
    return b->kind == BIND_NODE && b->node->sinfo->kind == SINFO_PRIM && b->node->sinfo->value;
  }
  case TREE_UNARY: return sema_is_prim(s, t->b);
  case TREE_BINARY: return sema_is_prim(s, t->a) && sema_is_prim(s, t->b);
  case TREE_IFEXP:
    return sema_is_prim(s, t->at[0]) && sema_is_prim(s, t->at[1]) && sema_is_prim(s, t->at[2]);
  case TREE_CALL: return sema_member(s, t->a, 'T') != NULL;
  default: return false;
  }
}
