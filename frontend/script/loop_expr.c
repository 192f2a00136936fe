/* Scalar expressions: shapes, loop bounds, indices and values.
 *
 * Python's operators and the functions of T. become interned expressions. Bare numbers have no type
 * of their own: they take the other operand's, or int64 (Relax) / int32 (prim_funcs) and float32
 * where there is none. Names after "T." are looked up in three tables: data types, operators
 * spelled as functions, and intrinsics (ir/intrins.def).
 */
#include "frontend/script/loop.h"

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
const Expr *expr_written_float(Sema *s, DType d, double v) {
  const Expr *e = expr_float(s->ctx, d, v);
  if (e->f != v && v == v && !e->written)
    ((Expr *)(uintptr_t)e)->written = arena_dup(s->ctx->arena, &v, sizeof v);
  return e;
}

/* ---- operators ---- */

bool is_bitop(ExprKind k) {
  return k == EXPR_BITAND || k == EXPR_BITOR || k == EXPR_BITXOR || k == EXPR_SHL || k == EXPR_SHR;
}

const Expr *expr_make_binary(Sema *s, const Tree *t, ExprKind k, bool call, const Expr *a,
                             const Expr *b) {
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
  if (a->dtype.lanes != 1) return expr_binary_raw(s->ctx, k, a, b); /* as TVM leaves vectors */
  return call ? expr_binary_call(s->ctx, k, a, b) : expr_binary(s->ctx, k, a, b);
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
  return expr_make_binary(s, t, kinds[t->op], false, a, b);
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

static bool is_vscale(const Expr *e) {
  return e->kind == EXPR_CALL && e->intrin == INTRIN_vscale;
}

uint32_t expr_lanes(Sema *s, const Expr *e) {
  int64_t n = 0;
  if (expr_const_int(s->ctx, e, &n)) return n >= 1 && n <= DTYPE_MAX_LANES ? (uint32_t)n : 0;
  if (is_vscale(e)) return 65535;
  if (e->kind != EXPR_MUL) return 0;
  bool first = is_vscale(e->arg[0]);
  const Expr *factor = e->arg[first];
  bool ok = (first || is_vscale(e->arg[1])) && expr_const_int(s->ctx, factor, &n);
  return ok && n >= 1 && n <= DTYPE_MAX_LANES ? 65536 - (uint32_t)n : 0;
}

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
  int64_t n = 0, stride = 1;
  bool integer = dtype_is_int(lo->dtype) && lo->dtype.lanes == 1;
  const Expr *extent = integer ? expr_simplify(c, expr_sub(c, hi, lo)) : NULL;
  bool fixed = extent && expr_const_int(c, extent, &n);
  uint32_t lanes = extent && !fixed && !step ? expr_lanes(s, extent) : 0;
  if ((!fixed && !lanes) || (step && (!expr_const_int(c, step, &stride) || stride == 0))) {
    sema_error(s, t, "the extent of a slice must be a constant here");
    return NULL;
  }
  n = (n + stride - 1) / stride;
  if (fixed && (n < 1 || n > DTYPE_MAX_LANES)) {
    sema_error(s, t, "a slice of %lld elements cannot be a vector", (long long)n);
    return NULL;
  }
  if (n == 1) return lo;
  return expr_ramp(c, lo, expr_int(c, lo->dtype, stride), fixed ? (uint32_t)n : lanes);
}

static void check_bounds(Sema *s, const Tree *t, const Buffer *b, uint32_t i, const Expr *e) {
  const Expr *dim = b->shape[i];
  if (e->kind != EXPR_INT || dim->kind != EXPR_INT || (e->i >= 0 && e->i < dim->i)) return;
  diag_warn(s->ctx->diags, WARN_INDEX_BOUNDS, tree_span(s, t),
            "index %lld is outside of dim %u of '%s', which is %lld", (long long)e->i, i, b->name,
            (long long)dim->i);
  diag_note(s->ctx->diags, b->span, "'%s' is declared here", b->name);
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
  for (uint32_t i = 0; i < n; i++) check_bounds(s, at[i], b, i, idx[i]);
  return idx;
}

static const Expr *read_subscript(Sema *s, const Tree *t) {
  const Expr *field = NULL;
  if (loop_read_field(s, t, &field)) return field;
  if (metadata_is_reference(s, t)) {
    const char *text = metadata_string(s, t);
    return text ? expr_str(s->ctx, text) : NULL;
  }
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
  case TREE_FLOAT: return expr_written_float(s, DT_F32, t->fval);
  case TREE_CONST:
    if (t->op == TREE_TRUE || t->op == TREE_FALSE) return expr_bool(c, t->op == TREE_TRUE);
    break;
  case TREE_STR:
    if (s->tir) return expr_str(c, strpool_intern(c->strings, t->str, t->n));
    break;
  case TREE_UNARY: return read_unary(s, t);
  case TREE_BINARY: return read_binary(s, t);
  case TREE_IFEXP: return expr_read_choice(s, t, t->at[0], t->at[1], t->at[2], true);
  case TREE_SUBSCRIPT: return read_subscript(s, t);
  case TREE_CALL: return expr_read_call(s, t);
  case TREE_ATTR: {
    const Expr *field = NULL;
    if (loop_read_field(s, t, &field)) return field;
    if (t->b->kind == TREE_NAME && !sema_lookup(s, t->b)) return NULL;
    break;
  }
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
  if (s->tir) return e;
  if (e->kind == EXPR_INT) return expr_i64(s->ctx, e->i);
  if (dtype_eq(e->dtype, DT_I64)) return e;
  sema_error(s, t, "a dim is an int64 but this is %s; write T.Cast(\"int64\", ...)",
             dtype_name(e->dtype));
  return NULL;
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
