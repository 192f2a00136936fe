/* Attribute values: literals, lists and dicts of the text to attributes of functions and blocks,
 * and to the typed fields of an operator's attribute struct. */
#include "frontend/script/loop.h"
#include <math.h>

bool tree_is_none(const Tree *t) {
  return t->kind == TREE_CONST && t->op == TREE_NONE;
}

static bool is_bool(const Tree *t) {
  return t->kind == TREE_CONST && (t->op == TREE_TRUE || t->op == TREE_FALSE);
}

/* The argument of T.int64(3) and its like, t itself otherwise. */
static const Tree *untyped(const Tree *t) {
  if (t->kind != TREE_CALL || t->n != 1 || t->a->kind != TREE_ATTR) return t;
  if (t->a->b->kind != TREE_NAME) return t;
  const char *ns = t->a->b->name;
  DType d = DT_UNKNOWN;
  if (ns[0] == 'T' && !ns[1] && dtype_parse(t->a->name, &d) && dtype_known(d)) return t->at[0];
  if (ns[0] == 'R' && !ns[1] && strcmp(t->a->name, "prim_value") == 0) return t->at[0];
  return t;
}

bool tree_const_int(const Tree *t, int64_t *out) {
  t = untyped(t);
  if (is_bool(t)) {
    *out = t->op == TREE_TRUE;
    return true;
  }
  bool negative = t->kind == TREE_UNARY && t->op == TREE_NEG;
  if (negative) t = t->b;
  if (t->kind != TREE_INT || t->flags & TREE_BIG) return false;
  if (t->ival > (uint64_t)INT64_MAX + negative) return false;
  *out = (int64_t)(negative ? 0 - t->ival : t->ival);
  return true;
}

/* 5.0 / 3.0 */
static bool const_arithmetic(const Tree *t, double *out) {
  double a = 0, b = 0;
  if (!tree_const_float(t->a, &a) || !tree_const_float(t->b, &b)) return false;
  switch ((TreeOp)t->op) {
  case TREE_ADD: *out = a + b; return true;
  case TREE_SUB: *out = a - b; return true;
  case TREE_MUL: *out = a * b; return true;
  case TREE_DIV: *out = a / b; return b != 0;
  case TREE_POW: *out = pow(a, b); return true;
  default: return false;
  }
}

bool tree_const_float(const Tree *t, double *out) {
  t = untyped(t);
  if (t->kind == TREE_BINARY) return const_arithmetic(t, out);
  if (t->kind == TREE_CALL && t->n == 1 && t->a->kind == TREE_NAME &&
      strcmp(t->a->name, "float") == 0) /* float("inf") */
    return tree_const_float(t->at[0], out);
  if (t->kind == TREE_STR) {
    if (strcmp(t->str, "inf") == 0)
      *out = INFINITY;
    else if (strcmp(t->str, "-inf") == 0)
      *out = -INFINITY;
    else if (strcmp(t->str, "nan") == 0)
      *out = NAN;
    else
      return false;
    return true;
  }
  if (is_bool(t)) {
    *out = t->op == TREE_TRUE;
    return true;
  }
  bool negative = t->kind == TREE_UNARY && t->op == TREE_NEG;
  if (negative) t = t->b;
  if (t->kind == TREE_INT && !(t->flags & TREE_BIG))
    *out = (double)t->ival;
  else if (t->kind == TREE_FLOAT)
    *out = t->fval;
  else
    return false;
  if (negative) *out = -*out;
  return true;
}

void sema_check_literal(Sema *s, const Tree *t, DType d, double v) {
  const Tree *number = t->kind == TREE_UNARY ? t->b : t;
  double r = dtype_round(d, v);
  bool whole = number->kind == TREE_INT, lost = whole && r != v;
  if (number->kind == TREE_STR || isinf(v) || isnan(v)) return; /* "inf" is meant */
  if (!lost && !isinf(r) && !(r == 0 && v != 0)) return;
  diag_warn(s->ctx->diags, WARN_CONSTANT_CONVERSION, tree_span(s, t), "%.9g becomes %.9g as %s", v,
            r, dtype_name(d));
}

bool sema_dtype(Sema *s, const Tree *t, DType *out) {
  if (t->kind == TREE_CALL && t->n == 1 && sema_member(s, t->a, 'R') &&
      strcmp(sema_member(s, t->a, 'R'), "dtype") == 0)
    t = t->at[0];
  if (t->kind == TREE_STR && t->n && dtype_parse(t->str, out)) return true;
  if (t->kind == TREE_STR) {
    static const char *const names[] = {"float32", "float64", "float16", "bfloat16", "int8",
                                        "int16",   "int32",   "int64",   "uint8",    "uint16",
                                        "uint32",  "uint64",  "bool"};
    const char *near = text_nearest(t->str, names, sizeof names / sizeof *names);
    if (near)
      sema_error(s, t, "unknown data type '%s'; did you mean '%s'?", t->str, near);
    else
      sema_error(s, t, "unknown data type '%s'", t->str);
  } else if (t->kind != TREE_BAD) {
    sema_error(s, t, "expected a data type such as \"float32\" but got %s", tree_describe(t));
  }
  return false;
}

/* ---- free attribute values ---- */

static Attr *make_attr(Sema *s, AttrKind k) {
  Attr *a = ARENA_NEW(s->m->arena, Attr);
  a->kind = k;
  return a;
}

static const Attr *read_list(Sema *s, const Tree *t, AttrKind kind) {
  const Attr **items = ARENA_ARRAY(s->m->arena, const Attr *, t->n ? t->n : 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(items[i] = sema_attr(s, t->at[i]))) return NULL;
  Attr *a = make_attr(s, kind);
  a->n = t->n;
  a->items = items;
  return a;
}

/* `types`: of the parameters, the last for all that follow. */
static Attr *read_lambda(Sema *s, const Tree *f, const DType *types, uint32_t ntypes);

/* T.index_map(lambda i, j: (j, i)) */
static const Attr *read_index_map(Sema *s, const Tree *t) {
  const Tree *f = t->n ? t->at[0] : NULL;
  DType d = DT_I64;
  for (uint32_t i = 1; i < t->n; i++) {
    const Tree *a = t->at[i];
    bool dtype = a->kind == TREE_KEYWORD && strcmp(a->name, "index_dtype") == 0;
    bool none =
        a->kind == TREE_KEYWORD && strcmp(a->name, "inverse_index_map") == 0 && tree_is_none(a->b);
    if (dtype && !sema_dtype(s, a->b, &d)) return NULL;
    if (!dtype && !none) {
      sema_error(s, a, "T.index_map takes a lambda and index_dtype only");
      return NULL;
    }
  }
  if (!f || f->kind != TREE_LAMBDA) {
    sema_error(s, t, "expected T.index_map(lambda i, j: (j, i))");
    return NULL;
  }
  return read_lambda(s, f, &d, 1);
}

static Attr *read_lambda(Sema *s, const Tree *f, const DType *types, uint32_t ntypes) {
  IndexMap *map = ARENA_NEW(s->m->arena, IndexMap);
  map->ctx = s->ctx;
  map->nin = f->n - 1;
  map->in = ARENA_ARRAY(s->m->arena, Var *, f->n);
  scope_push(&s->scope);
  bool ok = true;
  for (uint32_t i = 0; i < map->nin; i++) {
    const Tree *p = f->at[i];
    if (p->kind != TREE_PARAM || p->op || p->at[1]) {
      sema_error(s, p, "the parameters of an index map are plain names");
      ok = false;
      continue;
    }
    Var *v = map->in[i] = var_create(s->ctx, p->name, types[i < ntypes ? i : ntypes - 1]);
    v->span = tree_span(s, p);
    scope_bind(&s->scope, p->name, BIND_VAR, v->span)->var = v;
  }
  const Tree *body = f->at[f->n - 1];
  bool list = body->kind == TREE_TUPLE || body->kind == TREE_LIST;
  map->nout = list ? body->n : 1;
  const Expr **out = ARENA_ARRAY(s->m->arena, const Expr *, map->nout + 1);
  for (uint32_t i = 0; i < map->nout && ok; i++)
    ok = (out[i] = sema_expr(s, list ? body->at[i] : body)) != NULL;
  scope_pop(&s->scope, NULL);
  if (!ok) return NULL;
  map->out = out;
  Attr *a = make_attr(s, ATTR_INDEX_MAP);
  a->map = map;
  return a;
}

/* T.comm_reducer(lambda x, y: x + y, [identity]): how partial results combine. */
static const Attr *read_reducer(Sema *s, const Tree *t) {
  const Tree *f = t->n == 2 ? t->at[0] : NULL;
  const Attr *list = f && t->at[1]->kind == TREE_LIST ? sema_attr(s, t->at[1]) : NULL;
  if (!list || f->kind != TREE_LAMBDA || f->n != 2 * list->n + 1) {
    sema_error(s, t, "expected T.comm_reducer(lambda x, y: x + y, [identity])");
    return NULL;
  }
  DType *types = ARENA_ARRAY(s->arena, DType, f->n);
  for (uint32_t i = 0; i + 1 < f->n; i++) {
    const Attr *x = list->items[i % list->n];
    types[i] = x->kind == ATTR_EXPR ? x->expr->dtype : x->kind == ATTR_FLOAT ? DT_F32 : DT_I32;
  }
  Attr *a = make_attr(s, ATTR_CALL);
  const Attr **items = ARENA_ARRAY(s->m->arena, const Attr *, 2);
  Attr *lambda = read_lambda(s, f, types, f->n - 1);
  if (!lambda) return NULL;
  lambda->kind = ATTR_LAMBDA;
  items[0] = lambda;
  items[1] = list;
  a->s = "T.comm_reducer";
  a->n = 2;
  a->items = items;
  return a;
}

/* A[0:4, i] of a buffer A; `done` says whether t is that. */
static const Attr *read_region(Sema *s, const Tree *t, bool *done) {
  const Tree *index = t->b;
  Binding *b = t->a->kind == TREE_NAME ? scope_find(&s->scope, t->a->name) : NULL;
  bool slices = index->kind == TREE_SLICE;
  for (uint32_t i = 0; index->kind == TREE_TUPLE && i < index->n; i++)
    slices |= index->at[i]->kind == TREE_SLICE;
  *done = slices && b && b->kind == BIND_BUFFER && !b->hidden;
  if (!*done) return NULL;
  Region r;
  if (!loop_read_region(s, t, &r)) return NULL;
  Attr *a = make_attr(s, ATTR_REGION);
  a->region = arena_dup(s->m->arena, &r, sizeof r);
  return a;
}

const Attr *sema_attr_dict(Sema *s, const Tree *t) {
  if (t->kind != TREE_DICT) {
    if (t->kind != TREE_BAD)
      sema_error(s, t, "expected a dict {\"key\": value} but got %s", tree_describe(t));
    return NULL;
  }
  const Attr *d = make_attr(s, ATTR_DICT);
  for (uint32_t i = 0; i < t->n; i += 2) {
    const Tree *k = t->at[i];
    if (!k || k->kind != TREE_STR) {
      sema_error(s, k ? k : t->at[i + 1], "the key of an attribute must be a string");
      return NULL;
    }
    const char *key = strpool_intern(s->ctx->strings, k->str, k->n);
    if (attr_get(d, key)) {
      sema_error(s, k, "key '%s' stands twice in this dict", key);
      return NULL;
    }
    const Attr *v = sema_attr(s, t->at[i + 1]);
    if (!v) return NULL;
    d = attr_with(s->m->arena, d, key, v);
  }
  return d;
}

/* Where the entry of a key stands among those of a dict that was read without error. */
static uint32_t key_position(const Tree *dict, const char *key) {
  uint32_t i = 0;
  while (strcmp(dict->at[2 * i]->str, key) != 0) i++;
  return i;
}

void sema_func_attr(Sema *s, const Tree *dict, const char *function, const Attr **attrs) {
  const Attr *a = sema_attr_dict(s, dict);
  if (!a) return;
  for (uint32_t i = 0; i < a->n; i++) {
    const Attr *old = attr_get(*attrs, a->keys[i]);
    if (old && !attr_equal(old, a->items[i]))
      sema_error(s, dict->at[2 * key_position(dict, a->keys[i])],
                 "attribute '%s' of function '%s' is set already, to another value", a->keys[i],
                 function);
    else
      *attrs = attr_with(s->m->arena, *attrs, a->keys[i], a->items[i]);
  }
  if (!*attrs) *attrs = a;
}

/* R.device(device_type=1, index=0) and its like: kept as written. */
static const Attr *read_object(Sema *s, const Tree *t, const char *name) {
  const Attr **items = ARENA_ARRAY(s->m->arena, const Attr *, t->n ? t->n : 1);
  const char **keys = ARENA_ARRAY(s->m->arena, const char *, t->n ? t->n : 1);
  bool keyed = false;
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *x = t->at[i];
    if (x->kind == TREE_KEYWORD) {
      keys[i] = strpool_intern(s->ctx->strings, x->name, strlen(x->name));
      keyed = true;
      x = x->b;
    }
    if (!(items[i] = sema_attr(s, x))) return NULL;
  }
  Attr *a = make_attr(s, ATTR_CALL);
  a->n = t->n;
  a->items = items;
  a->keys = keyed ? keys : NULL;
  a->s = name;
  return a;
}

const Attr *sema_attr(Sema *s, const Tree *t) {
  int64_t i = 0;
  Attr *a = NULL;
  switch ((TreeKind)t->kind) {
  case TREE_CONST:
    if (t->op == TREE_NONE) return make_attr(s, ATTR_NONE);
    if (t->op == TREE_ELLIPSIS) break;
    return attr_bool(s->m->arena, t->op == TREE_TRUE);
  case TREE_INT:
  case TREE_UNARY:
    if (tree_const_int(t, &i)) return attr_int(s->m->arena, i);
    double f = 0;
    if (tree_const_float(t, &f)) return attr_float(s->m->arena, f);
    break;
  case TREE_FLOAT: return attr_float(s->m->arena, t->fval);
  case TREE_STR: return attr_str(s->m->arena, strpool_intern(s->ctx->strings, t->str, t->n));
  case TREE_LIST:
  case TREE_TUPLE: return read_list(s, t, ATTR_LIST);
  case TREE_DICT: return sema_attr_dict(s, t);
  case TREE_LAMBDA: { /* an index map without its name at graph level */
    DType d = s->tir ? DT_I32 : DT_I64;
    a = read_lambda(s, t, &d, 1);
    if (a && s->tir) a->kind = ATTR_LAMBDA;
    return a;
  }
  case TREE_SUBSCRIPT: {
    if (metadata_is_string(s, t)) {
      const char *text = metadata_string(s, t);
      return text ? attr_str(s->m->arena, text) : NULL;
    }
    if (metadata_is_reference(s, t)) {
      const ConstData *d = metadata_const(s, t);
      if (!d) return NULL;
      a = make_attr(s, ATTR_TENSOR);
      a->tensor = d;
      return a;
    }
    bool done = false;
    const Attr *region = read_region(s, t, &done);
    if (done) return region;
    break;
  }
  case TREE_BAD: return NULL;
  case TREE_CALL: {
    const char *name = tree_dotted(s->ctx, t->a);
    if (!name) break;
    if (strcmp(name, "T.index_map") == 0) return read_index_map(s, t);
    if (strcmp(name, "T.comm_reducer") == 0) return read_reducer(s, t);
    static const char *const objects[] = {
        "T.hint", "T.target", "T.iter_var", "T.Range", "R.device_mesh", "R.device", "R.cpu",
        "R.cuda", "R.rocm",   "R.vulkan",   "R.metal", "R.opencl",      "R.webgpu", "R.hexagon"};
    bool object = strncmp(name, "I.", 2) == 0;
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
      object = object || strcmp(name, objects[i]) == 0;
    if (!object) break;
    return read_object(s, t, name);
  }
  case TREE_NAME: { /* a buffer itself: "layout_free_placeholders": [A] */
    Binding *b = scope_find(&s->scope, t->name);
    if (!b || b->kind != BIND_BUFFER || b->hidden) break;
    a = make_attr(s, ATTR_EXPR);
    a->expr = expr_buf_itself(s->ctx, b->buffer);
    return a;
  }
  default: break;
  }
  const Expr *e = sema_expr(s, t);
  if (!e) return NULL;
  a = make_attr(s, ATTR_EXPR);
  a->expr = e;
  return a;
}

/* ---- typed attribute fields ---- */

static bool wrong(Sema *s, const OpInfo *op, const AttrField *f, const Tree *t, const char *want) {
  if (t->kind != TREE_BAD)
    sema_error(s, t, "attribute '%s' of R.%s must be %s but got %s", f->name, op->name, want,
               tree_describe(t));
  return false;
}

/* An integer constant, possibly through arithmetic: 2 * 3. */
static bool read_int(Sema *s, const Tree *t, int64_t *out) {
  if (tree_const_int(t, out)) return true;
  if (t->kind != TREE_BINARY && t->kind != TREE_UNARY && t->kind != TREE_NAME) return false;
  if (!sema_is_prim(s, t)) return false;
  const Expr *e = sema_expr(s, t);
  return e && expr_const_int(s->ctx, e, out);
}

static bool read_ints(Sema *s, const OpInfo *op, const AttrField *f, const Tree *t, IntList *out) {
  if (tree_is_none(t)) {
    out->n = -1;
    out->at = NULL;
    return true;
  }
  bool list = t->kind == TREE_LIST || t->kind == TREE_TUPLE;
  uint32_t n = list ? t->n : 1;
  int64_t *at = ARENA_ARRAY(s->m->arena, int64_t, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) {
    const Tree *x = list ? t->at[i] : t;
    if (!read_int(s, x, &at[i]))
      return wrong(s, op, f, x, list ? "a list of integers" : "an integer or a list of integers");
  }
  out->n = (int32_t)n;
  out->at = at;
  return true;
}

static bool read_exprs(Sema *s, const OpInfo *op, const AttrField *f, const Tree *t,
                       ExprList *out) {
  if (tree_is_none(t)) {
    out->n = -1;
    out->at = NULL;
    return true;
  }
  bool list = t->kind == TREE_LIST || t->kind == TREE_TUPLE;
  uint32_t n = list ? t->n : 1;
  const Expr **at = ARENA_ARRAY(s->m->arena, const Expr *, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) {
    const Tree *x = list ? t->at[i] : t;
    if (!sema_is_prim(s, x)) return wrong(s, op, f, x, "a list of integer expressions");
    if (!(at[i] = sema_dim(s, x))) return false;
  }
  out->n = (int32_t)n;
  out->at = at;
  return true;
}

bool sema_op_attr(Sema *s, const OpInfo *op, const AttrField *field, const Tree *t, void *attrs) {
  void *p = (char *)attrs + field->offset;
  double f = 0;
  switch (field->kind) {
  case AK_INT:
    if (is_bool(t) || !read_int(s, t, (int64_t *)p)) return wrong(s, op, field, t, "an integer");
    return true;
  case AK_OPT_INT: {
    OptInt *o = p;
    o->has = !tree_is_none(t);
    if (o->has && !read_int(s, t, &o->v)) return wrong(s, op, field, t, "an integer or None");
    return true;
  }
  case AK_FLOAT:
    if (!tree_const_float(t, &f)) return wrong(s, op, field, t, "a number");
    *(double *)p = f;
    return true;
  case AK_OPT_FLOAT: {
    OptFloat *o = p;
    o->has = !tree_is_none(t);
    if (o->has && !tree_const_float(t, &o->v)) return wrong(s, op, field, t, "a number or None");
    return true;
  }
  case AK_BOOL: {
    int64_t v = 0;
    if (!tree_const_int(t, &v) || (v != 0 && v != 1))
      return wrong(s, op, field, t, "True or False");
    *(bool *)p = v != 0;
    return true;
  }
  case AK_STR:
    if (t->kind != TREE_STR && !tree_is_none(t)) return wrong(s, op, field, t, "a string");
    *(const char **)p = t->kind == TREE_STR ? strpool_intern(s->ctx->strings, t->str, t->n) : NULL;
    return true;
  case AK_TEXT:
    if (graph_is_call(t, "R", "str") && t->n == 1) t = t->at[0];
    if (t->kind != TREE_STR) return wrong(s, op, field, t, "a string");
    *(const char **)p = strpool_intern(s->ctx->strings, t->str, t->n);
    return true;
  case AK_DTYPE:
    if (tree_is_none(t) || (t->kind == TREE_STR && t->n == 0)) {
      *(DType *)p = DT_UNKNOWN;
      return true;
    }
    return sema_dtype(s, t, (DType *)p);
  case AK_INTS: return read_ints(s, op, field, t, p);
  case AK_EXPRS: return read_exprs(s, op, field, t, p);
  case AK_SINFOS:
    if (tree_is_none(t)) return true;
    return sema_types(s, t, p);
  case AK_DICT: {
    const Attr *a = tree_is_none(t) ? NULL : sema_attr_dict(s, t);
    *(const Attr **)p = a;
    return a || tree_is_none(t);
  }
  case AK_INDEX_MAP:
  case AK_ANY: {
    const Attr *a = tree_is_none(t) ? NULL : sema_attr(s, t);
    *(const Attr **)p = a;
    return a || tree_is_none(t);
  }
  }
  bug("attribute kind %d", (int)field->kind);
}
