/* Calls in scalar expressions: data types as functions, operators spelled as functions, intrinsics
 * of the table, and other prim_funcs. */
#include "frontend/script/loop.h"
#include <ctype.h>
#include <float.h>
#include <math.h>

/* Capitals name the node itself, which nothing folds; the others do what operators do. */
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
      sema_check_literal(s, a, scalar, v);
      const Expr *e = expr_written_float(s, scalar, v);
      return d.lanes > 1 ? expr_broadcast(c, e, d.lanes) : e;
    }
  }
  if (a->kind == TREE_STR) {
    sema_error(s, a, "expected a number for %s but got a string", dtype_name(d));
    return NULL;
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
  const Tree *l = t->at[ramp ? 2 : 1];
  const Expr *count = sema_expr(s, l);
  uint32_t lanes = count ? expr_lanes(s, count) : 0;
  if (!lanes) {
    if (count)
      sema_error(s, l, "the number of lanes must be a constant from 1 to %d, or n * T.vscale()",
                 DTYPE_MAX_LANES);
    return NULL;
  }
  const Expr *a = sema_expr(s, t->at[0]);
  if (!a) return NULL;
  if (a->dtype.lanes != 1) {
    sema_error(s, t->at[0], "expected a scalar but got %s", dtype_name(a->dtype));
    return NULL;
  }
  if (!ramp) return lanes == 1 ? a : expr_broadcast(s->ctx, a, lanes);
  const Expr *b = sema_expr(s, t->at[1]);
  if (!b || !sema_match_types(s, t, &a, &b)) return NULL;
  return lanes == 1 ? a : expr_ramp(s->ctx, a, b, lanes);
}

/* T.Shuffle([vectors], [lanes]) */
static const Expr *read_shuffle(Sema *s, const Tree *t) {
  if (!want_args(s, t, 2, 2)) return NULL;
  const Tree *v = t->at[0], *l = t->at[1];
  if (v->kind != TREE_LIST || l->kind != TREE_LIST || v->n == 0 || l->n == 0 ||
      l->n > DTYPE_MAX_LANES) {
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
const Expr *sema_condition(Sema *s, const Tree *t) {
  const Expr *e = sema_expr(s, t);
  if (!e) return NULL;
  if (dtype_is_bool(e->dtype)) return e;
  if (dtype_is_int(e->dtype) && e->dtype.lanes == 1) return expr_test(s->ctx, e);
  sema_error(s, t, "a condition must be bool but got %s", dtype_name(e->dtype));
  return NULL;
}

const Expr *sema_bool(Sema *s, const Tree *t) {
  const Expr *e = sema_expr(s, t);
  if (!e || dtype_is_bool(e->dtype)) return e;
  sema_error(s, t, "a condition must be bool but got %s", dtype_name(e->dtype));
  return NULL;
}

/* T.Select, T.Add and their like convert nothing: both operands have one dtype. */
static bool want_one_dtype(Sema *s, const Tree *t, const Expr *a, const Expr *b) {
  if (dtype_eq(dtype_scalar(a->dtype), dtype_scalar(b->dtype))) return true;
  sema_error(s, t, "%s needs two values of one dtype but got %s and %s", tree_dotted(s->ctx, t->a),
             arena_printf(s->arena, "%s", dtype_name(a->dtype)), dtype_name(b->dtype));
  return false;
}

const Expr *expr_read_choice(Sema *s, const Tree *t, const Tree *cond, const Tree *x, const Tree *y,
                             bool lazy) {
  const Expr *c = sema_bool(s, cond), *a = sema_expr(s, x), *b = sema_expr(s, y);
  if (!c || !a || !b) return NULL;
  if (!lazy && !want_one_dtype(s, t, a, b)) return NULL;
  if (lazy && (a->dtype.code == DTYPE_HANDLE || b->dtype.code == DTYPE_HANDLE)) {
    sema_error(s, t, "T.if_then_else chooses between scalars, not pointers");
    return NULL;
  }
  if (!sema_match_types(s, t, &a, &b)) return NULL;
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

/* An argument of an intrinsic: an expression, a string, a buffer itself; lists and named ones where
 * the call is only carried along. */
static const Expr *read_argument(Sema *s, const Tree *t, const IntrinInfo *info) {
  Context *c = s->ctx;
  bool opaque = info->flags & INTRIN_OPAQUE;
  if (t->kind == TREE_STR) return expr_str(c, strpool_intern(c->strings, t->str, t->n));
  if (t->kind == TREE_NAME) {
    Binding *b = scope_find(&s->scope, t->name);
    bool itself = !(info->flags & INTRIN_SCALARS);
    if (itself && b && b->kind == BIND_BUFFER && !b->hidden && b->buffer->ndim)
      return expr_buf_itself(c, b->buffer);
  }
  if (t->kind == TREE_LIST && opaque) {
    const Expr **items = ARENA_ARRAY(s->arena, const Expr *, t->n ? t->n : 1);
    for (uint32_t i = 0; i < t->n; i++)
      if (!(items[i] = read_argument(s, t->at[i], info))) return NULL;
    return expr_call(c, INTRIN_list, DT_HANDLE, items, t->n);
  }
  if (t->kind == TREE_KEYWORD && opaque) {
    const Expr *value = read_argument(s, t->b, info);
    const Expr *pair[2] = {expr_str(c, t->name), value};
    return value ? expr_call(c, INTRIN_keyword, DT_HANDLE, pair, 2) : NULL;
  }
  if (t->kind == TREE_KEYWORD || t->kind == TREE_STAR || t->kind == TREE_DOUBLESTAR) {
    sema_error(s, t, "T.%s takes plain arguments only", info->name);
    return NULL;
  }
  return sema_expr(s, t);
}

/* The type that a string among the arguments names; void where there is none. */
static DType named_result(const Expr *const *args, uint32_t n, IntrinResult rule) {
  DType d = DT_UNKNOWN;
  int64_t bits = 0;
  if (rule == IRES_BITS) {
    if (n && args[0]->kind == EXPR_INT) bits = args[0]->i;
    return bits == 32 || bits == 64 ? DT(DTYPE_INT, (uint8_t)bits) : DT_UNKNOWN;
  }
  for (uint32_t i = 0; i < n; i++) {
    const Expr *e = args[i];
    if (rule == IRES_NAMED) {
      if (i != 1) continue;
    } else {
      if (e->kind != EXPR_CALL || e->intrin != INTRIN_keyword) continue;
      if (strcmp(e->arg[0]->s, "return_type") != 0 && strcmp(e->arg[0]->s, "ret_ty") != 0) continue;
      e = e->arg[1];
    }
    if (e->kind == EXPR_STR && dtype_parse(e->s, &d)) return d;
  }
  return DT_UNKNOWN;
}

/* An intrinsic of the table. Its string arguments stay strings; a leading dtype is its result. */
static const Expr *read_intrin(Sema *s, const Tree *t, IntrinId f) {
  const IntrinInfo *info = &intrin_table[f];
  uint32_t first = info->result == IRES_GIVEN, n = t->n;
  DType d = DT_UNKNOWN;
  const char *pointer = NULL;
  if (info->result == IRES_GIVEN || info->result == IRES_LAST) {
    if (t->n == 0) {
      sema_error(s, t, "T.%s needs a data type as its %s argument", info->name,
                 first ? "first" : "last");
      return NULL;
    }
    if (!sema_result_type(s, t->at[first ? 0 : t->n - 1], &d, &pointer)) return NULL;
    n--;
  }
  if (info->nargs >= 0 && n != (uint32_t)info->nargs) {
    sema_error(s, t, "T.%s takes %d argument%s but got %u", info->name, info->nargs,
               info->nargs == 1 ? "" : "s", n);
    return NULL;
  }
  const Expr **args = ARENA_ARRAY(s->arena, const Expr *, n ? n : 1);
  for (uint32_t i = 0; i < n; i++)
    if (!(args[i] = read_argument(s, t->at[first + i], info))) return NULL;
  if ((info->flags & INTRIN_FLOAT) && n) {
    if (n == 2 && f != INTRIN_ldexp && !sema_match_types(s, t, &args[0], &args[1])) return NULL;
    if (!dtype_is_float(args[0]->dtype) && !(f == INTRIN_pow && dtype_is_int(args[0]->dtype))) {
      /* rounding an integer does nothing; other functions of one are kept, for nobody to run */
      bool integer = dtype_is_int(args[0]->dtype);
      if ((f == INTRIN_floor || f == INTRIN_ceil || f == INTRIN_round || f == INTRIN_trunc ||
           f == INTRIN_nearbyint) &&
          integer)
        return args[0];
      if (!integer) {
        sema_error(s, t, "T.%s needs a float but got %s", info->name, dtype_name(args[0]->dtype));
        return NULL;
      }
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
  if (f == INTRIN_address_of && args[0]->kind != EXPR_LOAD && args[0]->kind != EXPR_BUF_DATA &&
      args[0]->kind != EXPR_VAR) {
    sema_error(s, t, "T.address_of needs an element of a buffer");
    return NULL;
  }
  switch ((IntrinResult)info->result) {
  case IRES_SAME:
    d = n ? args[0]->dtype : DT_I32;
    if (intrin_reduces(f)) d = dtype_scalar(d);
    break;
  case IRES_BOOL: d = dtype_lanes(DT_BOOL, n ? args[0]->dtype.lanes : 1); break;
  case IRES_GIVEN:
  case IRES_LAST: break;
  case IRES_SECOND: d = n > 1 ? args[1]->dtype : DT_UNKNOWN; break;
  case IRES_VOID: d = DT_UNKNOWN; break;
  case IRES_HANDLE: d = DT_HANDLE; break;
  case IRES_I32:
    d = n && f == INTRIN_clz ? dtype_lanes(DT_I32, args[0]->dtype.lanes) : DT_I32;
    break;
  case IRES_I64: d = DT_I64; break;
  case IRES_U32: d = DT_U32; break;
  case IRES_U64: d = DT_U64; break;
  case IRES_F32: d = DT_F32; break;
  case IRES_NAMED:
  case IRES_RETURN:
  case IRES_BITS: d = named_result(args, n, (IntrinResult)info->result); break;
  }
  if (pointer) return expr_call_pointer(s->ctx, f, pointer, args, n);
  return expr_call(s->ctx, f, d, args, n);
}

static void unknown_function(Sema *s, const Tree *t, const char *name) {
  const char *names[INTRIN_COUNT + sizeof binary_functions / sizeof *binary_functions];
  size_t n = 0;
  for (int i = 0; i < INTRIN_COUNT; i++) names[n++] = intrin_table[i].name;
  for (size_t i = 0; i < sizeof binary_functions / sizeof *binary_functions; i++)
    names[n++] = binary_functions[i].name;
  const char *near = text_nearest(name, names, n);
  if (strncmp(name, "atomic_", 7) == 0)
    sema_error(s, t->a, "unknown atomic operation 'T.%s': only T.atomic_add is read, none compiled",
               name);
  else if (near)
    sema_error(s, t->a, "unknown function 'T.%s'; did you mean 'T.%s'?", name, near);
  else
    sema_error(s, t->a, "unknown function 'T.%s'", name);
}

/* T.call_intrin(dtype, "tirx.name", ...): an intrinsic by its operator's name. */
static const Expr *read_call_intrin(Sema *s, const Tree *t) {
  DType d = DT_UNKNOWN;
  if (t->n < 2 || t->at[1]->kind != TREE_STR) {
    sema_error(s, t, "expected T.call_intrin(dtype, \"tirx.name\", ...)");
    return NULL;
  }
  const char *name = strpool_intern(s->ctx->strings, t->at[1]->str, t->at[1]->n);
  name = strncmp(name, "tirx.", 5) == 0  ? name + 5
         : strncmp(name, "tir.", 4) == 0 ? name + 4
                                         : name;
  int f = intrin_find(name);
  if (f < 0) {
    sema_error(s, t->at[1], "unknown intrinsic '%s'", name);
    return NULL;
  }
  IntrinResult rule = intrin_table[f].result;
  bool typed = rule == IRES_GIVEN || rule == IRES_LAST;
  if (!typed && !sema_dtype(s, t->at[0], &d)) return NULL;
  Tree call = *t, **args = ARENA_ARRAY(s->arena, Tree *, t->n);
  uint32_t n = 0;
  if (rule == IRES_GIVEN) args[n++] = t->at[0];
  for (uint32_t i = 2; i < t->n; i++) args[n++] = t->at[i];
  if (rule == IRES_LAST) args[n++] = t->at[0];
  call.at = args;
  call.n = n;
  const Expr *e = read_intrin(s, &call, (IntrinId)f);
  if (!e || typed || dtype_eq(e->dtype, d)) return e;
  sema_error(s, t->at[0], "T.%s gives %s here, not %s", name,
             arena_printf(s->arena, "%s", dtype_name(e->dtype)), dtype_name(d));
  return NULL;
}

static const Expr *read_t_call(Sema *s, const Tree *t, const char *name) {
  Context *c = s->ctx;
  DType d = DT_UNKNOWN;
  if (dtype_parse(name, &d) && dtype_known(d)) return read_typed(s, t, d);
  for (size_t i = 0; i < sizeof binary_functions / sizeof *binary_functions; i++) {
    if (strcmp(name, binary_functions[i].name) != 0) continue;
    if (!want_args(s, t, 2, 2)) return NULL;
    const Expr *a = sema_expr(s, t->at[0]), *b = sema_expr(s, t->at[1]);
    bool written = isupper((unsigned char)*name); /* as a node: nothing is folded or converted */
    if (a && b && written && !want_one_dtype(s, t, a, b)) return NULL;
    return expr_make_binary(s, t, binary_functions[i].kind, written, a, b);
  }
  if (strcmp(name, "Cast") == 0 || strcmp(name, "cast") == 0) {
    if (!want_args(s, t, 2, 2)) return NULL;
    bool dtype_first = t->at[0]->kind == TREE_STR;
    const Expr *e = sema_expr(s, t->at[dtype_first ? 1 : 0]);
    if (!e || !sema_dtype(s, t->at[dtype_first ? 0 : 1], &d)) return NULL;
    if (*name == 'C') return expr_cast_call(c, d, e);
    if (d.lanes == 1 && e->dtype.lanes > 1) d = dtype_lanes(d, e->dtype.lanes);
    return sema_convert(s, e, d);
  }
  if (strcmp(name, "Select") == 0 || strcmp(name, "if_then_else") == 0) {
    if (!want_args(s, t, 3, 3)) return NULL;
    return expr_read_choice(s, t, t->at[0], t->at[1], t->at[2], *name == 'i');
  }
  if (strcmp(name, "ceildiv") == 0) {
    if (!want_args(s, t, 2, 2)) return NULL;
    const Expr *a = sema_expr(s, t->at[0]), *b = sema_expr(s, t->at[1]);
    if (!a || !b || !sema_match_types(s, t, &a, &b)) return NULL;
    const Expr *sum = expr_sub(c, expr_add(c, a, b), expr_lit(c, a->dtype, 1));
    return expr_make_binary(s, t, EXPR_FLOORDIV, false, sum, b);
  }
  if (strcmp(name, "Not") == 0 || strcmp(name, "bitwise_not") == 0 ||
      strcmp(name, "BitwiseNot") == 0) {
    if (!want_args(s, t, 1, 1)) return NULL;
    const Expr *e = *name == 'N' ? sema_condition(s, t->at[0]) : sema_expr(s, t->at[0]);
    if (!e) return NULL;
    return *name == 'N' ? expr_not_call(c, e) : expr_unary(c, EXPR_BITNOT, e);
  }
  if (strcmp(name, "Ramp") == 0 || strcmp(name, "ramp") == 0) return read_vector(s, t, true);
  if (strcmp(name, "Broadcast") == 0 || strcmp(name, "broadcast") == 0)
    return read_vector(s, t, false);
  if (strcmp(name, "Shuffle") == 0) return read_shuffle(s, t);
  if (strcmp(name, "Let") == 0) return read_let(s, t);
  if (strcmp(name, "call_intrin") == 0) return read_call_intrin(s, t);
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
  const Expr *pred = sema_condition(s, p);
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

const Expr *expr_read_call(Sema *s, const Tree *t) {
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
    return expr_make_binary(s, t, name[1] == 'i' ? EXPR_MIN : EXPR_MAX, false, a, b);
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
