/* Statements of prim_funcs.
 *
 * Stores, bindings, control flow and attributes; loops, blocks and buffers have files of their own.
 * Statements that only make sense on a GPU are refused by name. Source: TVM's tirx language and
 * parser.
 */
#include "frontend/script/loop.h"

/* ---- statements ---- */

typedef VEC(Stmt *) StmtVec;

static Stmt *nothing(Sema *s) {
  return stmt_seq(s->m->arena, NULL, 0);
}

void loop_bind_bad(Sema *s, const Tree *target) {
  if (target->kind == TREE_TUPLE || target->kind == TREE_LIST)
    for (uint32_t i = 0; i < target->n; i++) loop_bind_bad(s, target->at[i]);
  if (target->kind == TREE_NAME)
    scope_bind(&s->scope, target->name, BIND_BAD, tree_span(s, target));
}

bool loop_name_is_free(Sema *s, const Tree *target) {
  Binding *old = scope_find_here(&s->scope, target->name);
  if (!old || old->kind == BIND_BAD || old->kind == BIND_MODULE || old->undefined) return true;
  sema_error(s, target, "'%s' is defined already in this scope", target->name);
  diag_note(s->ctx->diags, old->span, "'%s' is defined here", target->name);
  return false;
}

static Stmt *make_store(Sema *s, const Tree *t, Buffer *b, const Expr **idx, const Expr *value) {
  uint16_t lanes = b->dtype.lanes ? b->dtype.lanes : 1;
  if (b->ndim) lanes = (uint16_t)(lanes * idx[b->ndim - 1]->dtype.lanes);
  DType d = dtype_lanes(b->dtype, lanes);
  if (value->dtype.lanes != lanes && value->dtype.lanes != 1) {
    sema_error(s, t, "a value of %d lanes cannot be stored to %d", value->dtype.lanes, lanes);
    return NULL;
  }
  if (!dtype_known(value->dtype) ||
      (value->dtype.code == DTYPE_HANDLE) != (d.code == DTYPE_HANDLE)) {
    sema_error(s, t, "a value of type %s cannot be stored to buffer '%s'", dtype_name(value->dtype),
               b->name);
    return NULL;
  }
  if (value->kind == EXPR_INT && lanes == 1 && dtype_is_int(d)) {
    if (dtype_wrap(d, value->i) != value->i) {
      sema_error(s, t, "%lld does not fit %s", (long long)value->i, dtype_name(d));
      return NULL;
    }
    value = expr_int(s->ctx, d, value->i);
  } else if (value->kind == EXPR_INT && lanes == 1 && dtype_is_float(d) &&
             !dtype_is_bool(value->dtype))
    value = expr_float(s->ctx, d, (double)value->i);
  else if (value->kind == EXPR_FLOAT && lanes == 1 && dtype_is_float(d))
    value = expr_float(s->ctx, d, value->f);
  else
    value = sema_convert(s, value, d);
  return stmt_store(s->m->arena, tree_span(s, t), b, idx, value);
}

static Stmt *read_store(Sema *s, const Tree *t, const Tree *target, const Tree *value) {
  if (target->a->kind != TREE_NAME) {
    sema_error(s, target, "only elements of a buffer can be assigned");
    return NULL;
  }
  Binding *b = sema_lookup(s, target->a);
  if (!b) return NULL;
  if (b->kind != BIND_BUFFER) {
    sema_error(s, target->a, "'%s' is not a buffer", target->a->name);
    diag_note(s->ctx->diags, b->span, "'%s' is bound here", target->a->name);
    return NULL;
  }
  const Expr **idx = sema_indices(s, target, b->buffer);
  const Expr *v = sema_expr(s, value);
  return idx && v ? make_store(s, t, b->buffer, idx, v) : NULL;
}

/* A.vstore(indices, value, predicate=p) */
static Stmt *read_vstore(Sema *s, const Tree *t) {
  Binding *b = sema_lookup(s, t->a->b);
  if (!b) return NULL;
  if (b->kind != BIND_BUFFER || t->n < 2 || t->n > 3) {
    sema_error(s, t, "expected A.vstore(indices, value, predicate=...) of a buffer");
    return NULL;
  }
  Tree list = *t->at[0];
  if (list.kind == TREE_LIST) list.kind = TREE_TUPLE;
  Tree index = {.kind = TREE_SUBSCRIPT, .begin = t->begin, .end = t->end, .b = &list};
  const Expr **idx = sema_indices(s, &index, b->buffer);
  const Expr *v = sema_expr(s, t->at[1]);
  if (!idx || !v) return NULL;
  Stmt *store = make_store(s, t, b->buffer, idx, v);
  if (!store || t->n == 2) return store;
  const Tree *p = t->at[2]->kind == TREE_KEYWORD ? t->at[2]->b : t->at[2];
  store->store.pred = sema_condition(s, p);
  return store->store.pred ? store : NULL;
}

static Stmt *make_let(Sema *s, const Tree *t, const Tree *target, const Expr *value) {
  loop_name_is_free(s, target);
  Var *v = var_create(s->ctx, target->name, value->dtype);
  v->span = tree_span(s, target);
  scope_bind(&s->scope, target->name, BIND_VAR, v->span)->var = v;
  return stmt_let(s->m->arena, tree_span(s, t), v, value);
}

/* x: T.int32, memory of one element. */
static Stmt *declare_scalar(Sema *s, const Tree *target, DType d) {
  loop_name_is_free(s, target);
  Buffer *b = buffer_create(s->ctx, target->name, d, NULL, 0, "local");
  b->scalar = true;
  b->span = tree_span(s, target);
  scope_bind(&s->scope, target->name, BIND_BUFFER, b->span)->buffer = b;
  return stmt_alloc(s->m->arena, b->span, b);
}

/* x = value or x: T.int32 = value. A name that is assigned again is a variable: memory of one
 * element, set by each assignment that can see it. */
static Stmt *make_scalar(Sema *s, const Tree *t, const Tree *target, const Expr *value,
                         bool declares) {
  Arena *a = s->m->arena;
  Binding *old = scope_find(&s->scope, target->name);
  const Buffer *held = old && !old->hidden && old->kind == BIND_BUFFER ? old->buffer : NULL;
  const Expr **none = ARENA_ARRAY(a, const Expr *, 1);
  if (held && held->ndim == 0 && !declares) return make_store(s, t, old->buffer, none, value);
  if (held && held->ndim == 1 && expr_is_int(held->shape[0], 1)) { /* its only element is meant */
    none[0] = expr_lit(s->ctx, held->shape[0]->dtype, 0);
    return make_store(s, t, old->buffer, none, value);
  }
  bool plain = dtype_known(value->dtype) && value->dtype.code != DTYPE_HANDLE;
  if (!plain || (uintptr_t)map_getp(&s->loop->assigned, target->name) < 2) {
    Stmt *x = make_let(s, t, target, value);
    x->let.variable = plain;
    return x;
  }
  Stmt *both[2] = {declare_scalar(s, target, value->dtype), NULL};
  both[1] = make_store(s, t, both[0]->alloc.buf, none, value);
  return stmt_seq(a, both, 2);
}

/* n = T.int64(): a symbolic variable that a later T.match_buffer defines. */
static bool declare_var(Sema *s, const Tree *target, const Tree *value) {
  if (value->kind != TREE_CALL || target->kind != TREE_NAME) return false;
  const char *m = sema_member(s, value->a, 'T');
  DType d = DT_UNKNOWN;
  if (!m) return false;
  if (value->n == 0) {
    if (!sema_prim_type(m, &d)) return false;
  } else if (strcmp(m, "var") != 0 || value->n != 1 || !sema_dtype(s, value->at[0], &d)) {
    return false;
  }
  Binding *old = scope_find(&s->scope, target->name);
  if (old && old->kind == BIND_VAR && !old->hidden) return true;
  Binding *b = scope_bind(&s->scope, target->name, BIND_VAR, tree_span(s, target));
  b->var = var_create(s->ctx, target->name, d);
  b->var->is_dim = dtype_is_int(d);
  b->var->span = b->span;
  b->undefined = true;
  return true;
}

static bool refused(Sema *s, const Tree *call, const char *name) {
  static const char *const names[] = {"allocate_const", "realize"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) {
      sema_error(s, call, "T.%s is not supported", name);
      return true;
    }
  return false;
}

/* p = T.allocate([n], "float32", "global"), the earlier dialect's memory: a flat buffer whose
 * pointer is p. */
static Stmt *read_allocate(Sema *s, const Tree *target, const Tree *call) {
  static const char *const names[] = {"extents", "dtype", "scope"};
  const Tree *slot[3] = {0};
  for (uint32_t i = 0; i < call->n; i++) {
    const Tree *a = call->at[i];
    uint32_t k = i;
    if (a->kind == TREE_KEYWORD) {
      for (k = 0; k < 3 && strcmp(names[k], a->name) != 0;) k++;
      a = a->b;
    }
    if (k < 3) slot[k] = a;
  }
  DType d = DT_UNKNOWN;
  const Tree *l = slot[0];
  if (target->kind != TREE_NAME || !l || !slot[1] || call->n > 3 ||
      (l->kind != TREE_LIST && l->kind != TREE_TUPLE)) {
    sema_error(s, call, "expected p = T.allocate([extent], \"float32\", \"global\")");
    loop_bind_bad(s, target);
    return NULL;
  }
  const Expr *n = expr_int(s->ctx, DT_I32, 1);
  for (uint32_t i = 0; i < l->n && n; i++) {
    const Expr *e = sema_dim(s, l->at[i]);
    n = e && sema_match_types(s, l, &n, &e) ? expr_mul(s->ctx, n, e) : NULL;
  }
  if (!n || !sema_dtype(s, slot[1], &d)) {
    loop_bind_bad(s, target);
    return NULL;
  }
  const char *scope = "global";
  if (slot[2] && slot[2]->kind == TREE_STR)
    scope = strpool_intern(s->ctx->strings, slot[2]->str, slot[2]->n);
  Buffer *b = buffer_create(s->ctx, target->name, d, &n, 1, scope);
  b->span = tree_span(s, target);
  scope_bind(&s->scope, target->name, BIND_VAR, b->span)->var = b->data;
  return stmt_alloc(s->m->arena, b->span, b);
}

static Stmt *read_assign(Sema *s, const Tree *t, const Tree *target, const Tree *value) {
  if (value->kind == TREE_BAD || target->kind == TREE_BAD) {
    loop_bind_bad(s, target);
    return NULL;
  }
  if (target->kind == TREE_SUBSCRIPT) return read_store(s, t, target, value);
  const char *m = value->kind == TREE_CALL ? sema_member(s, value->a, 'T') : NULL;
  if (m && strncmp(m, "axis.", 5) == 0) {
    loop_read_axis(s, target, value, m);
    return NULL;
  }
  if (target->kind == TREE_TUPLE && value->kind == TREE_TUPLE && target->n == value->n) {
    bool declares = true;
    for (uint32_t i = 0; i < target->n; i++)
      declares = declares && declare_var(s, target->at[i], value->at[i]);
    if (declares) return NULL;
  }
  if (m && loop_is_device(m)) return loop_read_device(s, t, target, value, m);
  if (target->kind != TREE_NAME) {
    sema_error(s, target, "cannot assign to %s here", tree_describe(target));
    loop_bind_bad(s, target);
    return NULL;
  }
  if (m && loop_is_buffer(m)) return loop_read_buffer(s, target, value, m);
  if (loop_is_view(s, value)) return loop_read_view(s, target, value);
  if (m && strcmp(m, "allocate") == 0) return read_allocate(s, target, value);
  if (m && strcmp(m, "launch_thread") == 0) return loop_read_launch(s, t, target, value);
  if (m && refused(s, value, m)) {
    loop_bind_bad(s, target);
    return NULL;
  }
  if (declare_var(s, target, value)) return NULL;
  if (value->kind == TREE_NAME && s->class_name && strcmp(value->name, s->class_name) == 0) {
    scope_bind(&s->scope, target->name, BIND_MODULE, tree_span(s, target));
    return NULL;
  }
  bool lets = m && value->n == 1 && (strcmp(m, "bind") == 0 || strcmp(m, "Bind") == 0);
  const Expr *e = sema_expr(s, lets ? value->at[0] : value);
  if (!e) {
    loop_bind_bad(s, target);
    return NULL;
  }
  return lets ? make_let(s, t, target, e) : make_scalar(s, t, target, e, false);
}

static Stmt *read_annotated(Sema *s, const Tree *t) {
  const Tree *target = t->at[0], *type = t->at[1], *value = t->at[2];
  DType d = DT_UNKNOWN;
  if (target->kind == TREE_NAME && !value && loop_scalar_type(s, type, &d))
    return declare_scalar(s, target, d);
  if (target->kind != TREE_NAME || !value) {
    sema_error(s, t, "expected name: type = value");
    loop_bind_bad(s, target);
    return NULL;
  }
  const Expr *e = sema_expr(s, value);
  const Tree *head = type->kind == TREE_CALL || type->kind == TREE_SUBSCRIPT ? type->a : type;
  const char *m = sema_member(s, head, 'T');
  const Tree *inner = type->kind == TREE_SUBSCRIPT ? type->b : type;
  bool pointer = sema_is_pointer(s, inner), let = m && (strcmp(m, "let") == 0 || pointer);
  DType elem = DT_UNKNOWN;
  const char *scope = NULL;
  if (pointer && !sema_pointer(s, inner, &elem, &scope)) e = NULL;
  if (let && type->kind == TREE_SUBSCRIPT && loop_scalar_type(s, type->b, &d) && e)
    e = sema_convert(s, e, d);
  if (!let && !loop_scalar_type(s, type, &d)) {
    sema_error(s, type, "expected a scalar type such as T.float32");
    e = NULL;
  }
  if (!e) {
    loop_bind_bad(s, target);
    return NULL;
  }
  if (!let && (e->dtype.code == DTYPE_HANDLE || !dtype_known(e->dtype))) {
    sema_error(s, value, "'%s' is annotated as %s but its value is %s", target->name,
               arena_printf(s->arena, "%s", dtype_name(d)), dtype_name(e->dtype));
    loop_bind_bad(s, target);
    return NULL;
  }
  if (!let && e->kind == EXPR_INT && dtype_is_int(d))
    e = expr_int(s->ctx, d, dtype_wrap(d, e->i));
  else if (!let)
    e = sema_convert(s, e, d);
  if (!let) return make_scalar(s, t, target, e, true);
  Stmt *x = make_let(s, t, target, e);
  x->let.var->ptr_elem = elem;
  x->let.var->ptr_scope = scope;
  return x;
}
/* ---- with ---- */

static Stmt *make_attr(Sema *s, const Tree *t, const Attr *node, const Tree *key, const Expr *v,
                       Stmt *body) {
  Stmt *x = ARENA_NEW(s->m->arena, Stmt);
  x->kind = STMT_ATTR;
  x->span = tree_span(s, t);
  x->attr.node = node;
  x->attr.key = strpool_intern(s->ctx->strings, key->str, key->n);
  x->attr.value = v;
  x->attr.body = body;
  return x;
}

/* T.attr(node, key, value) and T.attr({key: value}), around `body`; NULL leaves it open. */
static Stmt *read_attr(Sema *s, const Tree *t, const Tree *call, Stmt *body) {
  Arena *a = s->m->arena;
  if (graph_is_call(call, "T", "hint")) { /* T.hint("in words", key=value) */
    const Attr *hint = sema_attr(s, call);
    Tree key = {.kind = TREE_STR, .str = "tirx_hint", .n = strlen("tirx_hint")};
    return hint ? make_attr(s, t, hint, &key, expr_int(s->ctx, DT_I32, 1), body) : NULL;
  }
  if (call->n == 1 && call->at[0]->kind == TREE_DICT) {
    const Tree *d = call->at[0];
    for (uint32_t i = d->n; i > 0; i -= 2) {
      const Tree *k = d->at[i - 2];
      const Expr *v = k && k->kind == TREE_STR ? sema_expr(s, d->at[i - 1]) : NULL;
      if (!k || k->kind != TREE_STR) sema_error(s, call, "the key of an attribute is a string");
      if (!v) return NULL;
      body = make_attr(s, t, attr_int(a, 0), k, v, body);
    }
    return body;
  }
  if (call->n != 3 || call->at[1]->kind != TREE_STR) {
    sema_error(s, call, "expected T.attr(node, \"key\", value)");
    return NULL;
  }
  const Attr *node = sema_attr(s, call->at[0]);
  const Expr *v = sema_expr(s, call->at[2]);
  return node && v ? make_attr(s, t, node, call->at[1], v, body) : NULL;
}

static Stmt *read_with(Sema *s, const Tree *t) {
  const Tree *item = t->at[0], *call = item->kind == TREE_WITH_ITEM ? item->a : item;
  const char *m = call->kind == TREE_CALL ? sema_member(s, call->a, 'T') : NULL;
  Stmt *body = NULL;
  if (t->n == 2 && m && (strcmp(m, "sblock") == 0 || strcmp(m, "block") == 0))
    return loop_read_block(s, t, call);
  if (t->n == 2 && m && strcmp(m, "init") == 0) {
    BlockState *b = s->loop->block;
    scope_push(&s->scope);
    body = loop_statements(s, t->at[1]);
    scope_pop(&s->scope, "T.init");
    if (!b || b->is_root)
      sema_error(s, call, "T.init stands in a block");
    else if (b->block->init)
      sema_error(s, call, "a block has one T.init");
    else
      b->block->init = body;
    return NULL;
  }
  if (t->n == 2 && m && (strcmp(m, "attr") == 0 || strcmp(m, "hint") == 0)) {
    scope_push(&s->scope);
    body = loop_statements(s, t->at[1]);
    scope_pop(&s->scope, "T.attr");
    return read_attr(s, item, call, body);
  }
  if (t->n == 2 && m && strcmp(m, "launch_thread") == 0) {
    scope_push(&s->scope);
    Stmt *x = loop_read_launch(s, item, item->b, call);
    body = loop_statements(s, t->at[1]);
    scope_pop(&s->scope, "T.launch_thread");
    if (x) x->loop.body = body;
    return x;
  }
  bool allocates = m && strcmp(m, "allocate") == 0;
  bool lets = m && (strcmp(m, "LetStmt") == 0 || strcmp(m, "let") == 0) && call->n >= 1;
  if (t->n == 2 && m && (loop_is_buffer(m) || allocates || lets) && item->b) {
    scope_push(&s->scope);
    const Expr *value = lets ? sema_expr(s, call->at[0]) : NULL;
    Stmt *first = allocates                             ? read_allocate(s, item->b, call)
                  : !lets                               ? loop_read_buffer(s, item->b, call, m)
                  : value && item->b->kind == TREE_NAME ? make_let(s, item, item->b, value)
                                                        : NULL;
    if (lets && !first) loop_bind_bad(s, item->b);
    body = loop_statements(s, t->at[1]);
    scope_pop(&s->scope, "a 'with' statement");
    Stmt *both[2] = {first, body};
    return first ? stmt_seq(s->m->arena, both, 2) : body;
  }
  if (m && refused(s, call, m)) {
  } else if (t->n != 2) {
    sema_error(s, t->at[1], "a 'with' statement takes one item here");
  } else if (call->kind != TREE_BAD) {
    sema_error(s, call, "expected T.sblock(\"name\"), T.init() or T.attr(...) after 'with'");
  }
  scope_push(&s->scope);
  if (item->kind == TREE_WITH_ITEM && item->b) loop_bind_bad(s, item->b);
  loop_statements(s, t->at[t->n - 1]);
  scope_pop(&s->scope, NULL);
  return NULL;
}

/* ---- the rest ---- */

/* A part of a message: a string, here or in the metadata. */
static const char *message_part(Sema *s, const Tree *t) {
  if (t->kind == TREE_STR) return strpool_intern(s->ctx->strings, t->str, t->n);
  if (t->kind == TREE_SUBSCRIPT && metadata_is_string(s, t)) return metadata_string(s, t);
  sema_error(s, t, "the message of an assert is a string");
  return NULL;
}

/* assert cond, "message" or assert cond, ("Kind", ["part", "part"]) */
static Stmt *read_assert(Sema *s, const Tree *t) {
  const Expr *cond = sema_bool(s, t->a);
  if (!cond) return NULL;
  const char *kind = "RuntimeError";
  const Tree *m = t->b;
  if (m && m->kind == TREE_TUPLE && m->n == 2 && m->at[0]->kind == TREE_STR) {
    kind = strpool_intern(s->ctx->strings, m->at[0]->str, m->at[0]->n);
    m = m->at[1];
  }
  bool list = m && (m->kind == TREE_LIST || m->kind == TREE_TUPLE);
  uint32_t n = list ? m->n : m != NULL;
  const char **parts = ARENA_ARRAY(s->m->arena, const char *, n + 1);
  Text text = {0};
  bool ok = true;
  for (uint32_t i = 0; i < n && ok; i++) {
    ok = (parts[i] = message_part(s, list ? m->at[i] : m)) != NULL;
    if (ok) text_puts(&text, parts[i]);
  }
  const char *message = strpool_intern(s->ctx->strings, text_cstr(&text), text.n);
  text_free(&text);
  if (!ok) return NULL;
  Stmt *x = stmt_assert(s->m->arena, tree_span(s, t), cond, kind, message);
  if (list) x->assert_.parts = parts, x->assert_.nparts = n;
  return x;
}

/* break and continue, also written T.break_loop() and T.continue_loop(). */
static Stmt *read_jump(Sema *s, const Tree *t, bool breaks) {
  if (!s->loop->depth) {
    sema_error(s, t, "'%s' outside a loop", breaks ? "break" : "continue");
    return NULL;
  }
  Stmt *x = ARENA_NEW(s->m->arena, Stmt);
  x->kind = breaks ? STMT_BREAK : STMT_CONTINUE;
  x->span = tree_span(s, t);
  return x;
}

static Stmt *read_expression(Sema *s, const Tree *t, bool first) {
  const Tree *e = t->b;
  if (e->kind == TREE_STR && first) return NULL; /* a docstring */
  const char *m = e->kind == TREE_CALL ? sema_member(s, e->a, 'T') : NULL;
  Arena *a = s->m->arena;
  Span span = tree_span(s, t);
  if (m) {
    if (loop_block_call(s, e, m)) return NULL;
    if (strcmp(m, "func_attr") == 0) {
      if (e->n != 1)
        sema_error(s, e, "T.func_attr takes one dict");
      else
        sema_func_attr(s, e->at[0], s->prim->name, &s->prim->attrs);
      return NULL;
    }
    if (strcmp(m, "evaluate") == 0 && e->n == 1) {
      const Expr *x = sema_expr(s, e->at[0]);
      return x ? stmt_eval(a, span, x) : NULL;
    }
    if (strcmp(m, "attr") == 0 || strcmp(m, "hint") == 0) return read_attr(s, t, e, NULL);
    if ((strcmp(m, "ret") == 0 || strcmp(m, "Return") == 0) && e->n == 1) {
      const Expr *x = sema_expr(s, e->at[0]);
      if (!x) return NULL;
      Stmt *r = ARENA_NEW(a, Stmt);
      r->kind = STMT_RETURN;
      r->span = span;
      r->ret = x;
      if (!dtype_known(s->prim->ret)) s->prim->ret = x->dtype, s->prim->ret_inferred = true;
      return r;
    }
    if (strcmp(m, "buffer_store") == 0 && e->n == 3 && e->at[0]->kind == TREE_NAME) {
      Tree list = *e->at[2];
      if (list.kind == TREE_LIST) list.kind = TREE_TUPLE;
      Tree target = {.kind = TREE_SUBSCRIPT, .begin = e->begin, .end = e->end};
      target.a = e->at[0];
      target.b = &list;
      return read_store(s, e, &target, e->at[1]);
    }
    if (strcmp(m, "launch_thread") == 0) return loop_read_launch(s, t, NULL, e);
    if (strcmp(m, "break_loop") == 0 || strcmp(m, "continue_loop") == 0)
      return read_jump(s, t, *m == 'b');
    if (loop_is_device(m)) return loop_read_device(s, t, NULL, e, m);
    if (refused(s, e, m)) return NULL;
  }
  if (e->kind == TREE_CALL && e->a->kind == TREE_ATTR && strcmp(e->a->name, "vstore") == 0 &&
      e->a->b->kind == TREE_NAME)
    return read_vstore(s, e);
  if (e->kind != TREE_CALL) {
    if (e->kind != TREE_BAD)
      sema_error(s, e, "%s is no statement; write T.evaluate(...) to compute it for nothing",
                 tree_describe(e));
    return NULL;
  }
  const Expr *x = sema_expr(s, e);
  return x ? stmt_eval(a, span, x) : NULL;
}

static Stmt *read_scoped(Sema *s, const Tree *block) {
  scope_push(&s->scope);
  Stmt *b = loop_statements(s, block);
  scope_pop(&s->scope, "an inner block");
  return b;
}

static Stmt *read_statement(Sema *s, const Tree *t, bool first) {
  Arena *a = s->m->arena;
  switch ((TreeKind)t->kind) {
  case TREE_BAD: s->scope.poisoned = true; return NULL;
  case TREE_PASS:
  case TREE_IMPORT: return NULL;
  case TREE_EXPR: return read_expression(s, t, first);
  case TREE_ASSIGN:
    if (t->n != 2) {
      sema_error(s, t, "chained assignment is not supported");
      for (uint32_t i = 0; i + 1 < t->n; i++) loop_bind_bad(s, t->at[i]);
      return NULL;
    }
    return read_assign(s, t, t->at[0], t->at[1]);
  case TREE_ANNOT: return read_annotated(s, t);
  case TREE_FOR: return loop_read_for(s, t);
  case TREE_WITH: return read_with(s, t);
  case TREE_IF: {
    const Expr *c = sema_condition(s, t->at[0]);
    Stmt *x = read_scoped(s, t->at[1]), *y = t->at[2] ? read_scoped(s, t->at[2]) : NULL;
    Span span = tree_span(s, t);
    span.end = t->at[0]->end;
    return c ? stmt_if(a, span, c, x, y) : NULL;
  }
  case TREE_WHILE: {
    const Expr *c = sema_condition(s, t->at[0]);
    s->loop->depth++;
    Stmt *body = read_scoped(s, t->at[1]);
    s->loop->depth--;
    if (!c) return NULL;
    Stmt *x = ARENA_NEW(a, Stmt);
    x->kind = STMT_WHILE;
    x->span = tree_span(s, t);
    x->span.end = t->at[0]->end;
    x->while_.cond = c;
    x->while_.body = body;
    return x;
  }
  case TREE_ASSERT: return read_assert(s, t);
  case TREE_BREAK:
  case TREE_CONTINUE: return read_jump(s, t, t->kind == TREE_BREAK);
  case TREE_RETURN: {
    Stmt *x = ARENA_NEW(a, Stmt);
    x->kind = STMT_RETURN;
    x->span = tree_span(s, t);
    if (!t->b) sema_error(s, t, "'return' needs a value");
    if (!t->b || tree_is_none(t->b)) return x;
    x->ret = sema_expr(s, t->b);
    if (!x->ret) return NULL;
    if (dtype_known(s->prim->ret))
      x->ret = x->ret->kind == EXPR_INT && dtype_is_int(s->prim->ret)
                   ? expr_int(s->ctx, s->prim->ret, x->ret->i)
                   : sema_convert(s, x->ret, s->prim->ret);
    else
      s->prim->ret = x->ret->dtype, s->prim->ret_inferred = true;
    return x;
  }
  case TREE_BLOCK: return loop_statements(s, t);
  case TREE_AUGMENT: { /* A[i] += x is A[i] = A[i] + x */
    Tree value = {.kind = TREE_BINARY, .op = t->op, .begin = t->begin, .end = t->end};
    value.a = t->a;
    value.b = t->b;
    return read_assign(s, t, t->a, &value);
  }
  default: sema_error(s, t, "%s is not allowed in a prim_func", tree_describe(t)); return NULL;
  }
}

/* T.launch_thread and T.attr as statements of their own hold all that follows in the block: where
 * that goes, or NULL. */
static Stmt **open_body(Stmt *x) {
  while (x->kind == STMT_ATTR && x->attr.body) x = x->attr.body;
  if (x->kind == STMT_ATTR) return &x->attr.body;
  return x->kind == STMT_FOR && x->loop.launch && !x->loop.body ? &x->loop.body : NULL;
}

Stmt *loop_statements(Sema *s, const Tree *block) {
  StmtVec v = {0};
  for (uint32_t i = 0; i < block->n && !diags_full(s->ctx->diags); i++) {
    Stmt *x = read_statement(s, block->at[i], i == 0);
    if (x) vec_push(s->arena, &v, x);
    Stmt **body = x ? open_body(x) : NULL;
    if (!body) continue;
    Tree rest = *block;
    rest.at += i + 1;
    rest.n -= i + 1;
    *body = loop_statements(s, &rest);
    break;
  }
  return v.n ? stmt_seq(s->m->arena, v.at, v.n) : nothing(s);
}
