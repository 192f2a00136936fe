/* Prim_funcs: signatures and statements of the tensor level.
 *
 * Both dialects are read alike: T.block and T.sblock, T.alloc_buffer in blocks, parameters as
 * buffers or as handles with T.match_buffer, dims as TypeVars or as `n = T.int64()`. A function is
 * schedulable (s_tir) when its decorator says so or when it holds a block. Statements that only
 * make sense on a GPU are refused by name. Source: TVM's tirx language and parser.
 */
#include "frontend/script/loop.h"

/* ---- signatures ---- */

static bool holds_block(const Tree *t) {
  switch ((TreeKind)t->kind) {
  case TREE_WITH:
    for (uint32_t i = 0; i + 1 < t->n; i++)
      if (t->at[i]->kind == TREE_WITH_ITEM &&
          (graph_is_call(t->at[i]->a, "T", "block") || graph_is_call(t->at[i]->a, "T", "sblock")))
        return true;
    return holds_block(t->at[t->n - 1]);
  case TREE_BLOCK:
    for (uint32_t i = 0; i < t->n; i++)
      if (holds_block(t->at[i])) return true;
    return false;
  case TREE_FOR: return holds_block(t->at[2]);
  case TREE_WHILE: return holds_block(t->at[1]);
  case TREE_IF: return holds_block(t->at[1]) || (t->at[2] && holds_block(t->at[2]));
  default: return false;
  }
}

/* Counts assignments to plain names. A scalar that is assigned once is a let; more often, a
 * variable in memory. */
static void count_assigned(Map *m, const Tree *t) {
  const Tree *name = NULL;
  switch ((TreeKind)t->kind) {
  case TREE_WITH: count_assigned(m, t->at[t->n - 1]); return;
  case TREE_BLOCK:
    for (uint32_t i = 0; i < t->n; i++) count_assigned(m, t->at[i]);
    return;
  case TREE_FOR: count_assigned(m, t->at[2]); return;
  case TREE_WHILE: count_assigned(m, t->at[1]); return;
  case TREE_IF:
    count_assigned(m, t->at[1]);
    if (t->at[2]) count_assigned(m, t->at[2]);
    return;
  case TREE_ASSIGN:
  case TREE_ANNOT: name = t->at[0]; break;
  default: return;
  }
  if (name->kind != TREE_NAME) return;
  uintptr_t n = (uintptr_t)map_getp(m, name->name);
  map_setp(m, name->name, (void *)(n + 1));
}

static bool handle_annotation(Sema *s, const Tree *t) {
  const char *m = sema_member(s, t->kind == TREE_CALL ? t->a : t, 'T');
  return m && strcmp(m, "handle") == 0;
}

static bool scalar_annotation(Sema *s, const Tree *t, DType *d) {
  if (t->kind == TREE_CALL && t->n == 0) t = t->a;
  const char *m = sema_member(s, t, 'T');
  return m && sema_prim_type(m, d) && d->code != DTYPE_HANDLE;
}

static void scalar_param(Sema *s, PrimFunc *f, uint32_t i, const Tree *p, DType d) {
  Var *v = var_create(s->ctx, p->name, d);
  v->span = tree_span(s, p);
  f->params[i] = v;
  scope_bind(&s->scope, p->name, BIND_VAR, v->span)->var = v;
}

static void read_param(Sema *s, PrimFunc *f, uint32_t i, const Tree *p) {
  if (p->kind != TREE_PARAM) return;
  Span span = tree_span(s, p);
  span.end = span.begin + (p->name ? (uint32_t)strlen(p->name) : 1);
  const Tree *t = p->at[0];
  bool bad = p->op || !t || p->at[1];
  if (p->op)
    sema_error(s, p, "'*', '**' and '/' are not supported in parameter lists");
  else if (p->at[1])
    sema_error(s, p->at[1], "parameters cannot have default values");
  else if (!t)
    sema_error(s, p, "parameter '%s' needs an annotation such as T.Buffer((n,), \"float32\")",
               p->name);
  const char *name = p->name ? p->name : "_";
  if (!bad && graph_is_call(t, "T", "Buffer")) {
    Buffer *b = loop_buffer(s, name, t, 0, p);
    if (b) {
      b->span = span;
      f->params[i] = var_create(s->ctx, name, DT_HANDLE);
      f->params[i]->span = span;
      f->param_bufs[i] = b;
      scope_bind(&s->scope, name, BIND_BUFFER, span)->buffer = b;
      return;
    }
    bad = true;
  }
  f->params[i] = var_create(s->ctx, name, DT_HANDLE);
  f->params[i]->span = span;
  if (!bad && !handle_annotation(s, t) && t->kind != TREE_BAD)
    sema_error(s, t,
               "a parameter of a prim_func is a T.Buffer(...), a scalar such as T.int64, or "
               "a T.handle");
  bool handle = !bad && handle_annotation(s, t);
  Binding *b = scope_bind(&s->scope, name, handle ? BIND_VAR : BIND_BAD, span);
  b->var = f->params[i];
}

static void check_duplicates(Sema *s, const TreeDef *def) {
  for (uint32_t i = 0; i < def->n_params; i++)
    for (uint32_t k = 0; k < i; k++) {
      const Tree *x = def->params[i], *y = def->params[k];
      if (x->kind != TREE_PARAM || y->kind != TREE_PARAM || !x->name || x->name != y->name)
        continue;
      sema_error(s, x, "duplicate parameter '%s'", x->name);
      sema_note(s, y, "'%s' is first declared here", y->name);
      break;
    }
}

void loop_declare(Sema *s, Decl *d) {
  PrimFunc *f = d->prim;
  const TreeDef *def = d->tree->def;
  LoopState l = {.f = f};
  map_init(&l.loops, s->arena);
  s->prim = f;
  s->loop = &l;
  s->tir = true;
  f->s_tir |= holds_block(def->body);
  scope_init(&s->scope, s->arena);
  scope_push(&s->scope);
  if (def->n_params < 4096) check_duplicates(s, def);
  for (uint32_t i = 0; i < def->n_type_params; i++) {
    const Tree *p = def->type_params[i];
    if (p->kind != TREE_PARAM) continue;
    Binding *b = scope_bind(&s->scope, p->name, BIND_VAR, tree_span(s, p));
    b->var = var_create_dim(s->ctx, p->name);
    b->var->span = b->span;
    b->undefined = true;
  }
  f->nparams = def->n_params;
  f->params = ARENA_ARRAY(s->m->arena, Var *, f->nparams + 1);
  f->param_bufs = ARENA_ARRAY(s->m->arena, Buffer *, f->nparams + 1);
  for (uint32_t i = 0; i < def->n_params; i++) { /* scalars may be dims of earlier buffers */
    const Tree *p = def->params[i];
    DType t = DT_UNKNOWN;
    if (p->kind == TREE_PARAM && !p->op && p->at[0] && !p->at[1] &&
        scalar_annotation(s, p->at[0], &t))
      scalar_param(s, f, i, p, t);
  }
  s->signature = s->params = true;
  for (uint32_t i = 0; i < def->n_params; i++)
    if (!f->params[i]) read_param(s, f, i, def->params[i]);
  for (uint32_t i = 0; i < def->n_params; i++)
    if (!f->params[i]) f->params[i] = var_create(s->ctx, "_", DT_HANDLE);
  s->signature = s->params = false;
  for (uint32_t i = 0; i < s->scope.stack.n; i++) {
    Binding *b = s->scope.stack.at[i];
    if (b->kind != BIND_VAR || !b->undefined) continue;
    diag_error(s->ctx->diags, b->span,
               "symbolic variable '%s' is not defined: it must stand alone as a dim of a parameter",
               b->name);
    b->undefined = false;
  }
  if (def->returns && !tree_is_none(def->returns)) {
    DType t = DT_UNKNOWN;
    if (scalar_annotation(s, def->returns, &t))
      f->ret = t;
    else
      sema_error(s, def->returns, "a prim_func returns a scalar such as T.int32, or nothing");
  }
  primfunc_collect_dims(s->ctx, s->m->arena, f);
  d->n_bindings = s->scope.stack.n;
  d->bindings = s->scope.stack.at;
}

/* ---- statements ---- */

typedef VEC(Stmt *) StmtVec;

static Stmt *nothing(Sema *s) {
  return stmt_seq(s->m->arena, NULL, 0);
}

static void bind_bad(Sema *s, const Tree *target) {
  if (target->kind == TREE_TUPLE || target->kind == TREE_LIST)
    for (uint32_t i = 0; i < target->n; i++) bind_bad(s, target->at[i]);
  if (target->kind == TREE_NAME)
    scope_bind(&s->scope, target->name, BIND_BAD, tree_span(s, target));
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
  if (value->kind == EXPR_INT && value->dtype.lanes == 1 && lanes == 1 && dtype_is_int(d))
    value = expr_int(s->ctx, d, dtype_wrap(d, value->i));
  else if (value->kind == EXPR_INT && lanes == 1 && dtype_is_float(d) &&
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
  Var *v = var_create(s->ctx, target->name, value->dtype);
  v->span = tree_span(s, target);
  scope_bind(&s->scope, target->name, BIND_VAR, v->span)->var = v;
  return stmt_let(s->m->arena, tree_span(s, t), v, value);
}

/* x = value or x: T.int32 = value. A name that is assigned again is a variable: memory of one
 * element, set by each assignment that can see it. */
static Stmt *make_scalar(Sema *s, const Tree *t, const Tree *target, const Expr *value,
                         bool declares) {
  Arena *a = s->m->arena;
  Binding *old = scope_find(&s->scope, target->name);
  bool visible = old && !old->hidden && old->kind == BIND_BUFFER && old->buffer->ndim == 0;
  const Expr **none = ARENA_ARRAY(a, const Expr *, 1);
  if (visible && !declares) return make_store(s, t, old->buffer, none, value);
  bool plain = dtype_known(value->dtype) && value->dtype.code != DTYPE_HANDLE;
  if (!plain || (uintptr_t)map_getp(&s->loop->assigned, target->name) < 2)
    return make_let(s, t, target, value);
  Buffer *b = buffer_create(s->ctx, target->name, value->dtype, NULL, 0, "local");
  b->span = tree_span(s, target);
  scope_bind(&s->scope, target->name, BIND_BUFFER, b->span)->buffer = b;
  Stmt *both[2] = {stmt_alloc(a, b->span, b), make_store(s, t, b, none, value)};
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
  static const char *const names[] = {"allocate_const", "env_thread",   "launch_thread",
                                      "alloc_local",    "alloc_shared", "realize",
                                      "comm_reducer"};
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
    bind_bad(s, target);
    return NULL;
  }
  const Expr *n = expr_int(s->ctx, DT_I32, 1);
  for (uint32_t i = 0; i < l->n && n; i++) {
    const Expr *e = sema_dim(s, l->at[i]);
    n = e && sema_match_types(s, l, &n, &e) ? expr_mul(s->ctx, n, e) : NULL;
  }
  if (!n || !sema_dtype(s, slot[1], &d)) {
    bind_bad(s, target);
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
    bind_bad(s, target);
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
  if (target->kind != TREE_NAME) {
    sema_error(s, target, "cannot assign to %s here", tree_describe(target));
    bind_bad(s, target);
    return NULL;
  }
  if (m && loop_is_buffer(m)) return loop_read_buffer(s, target, value, m);
  if (m && strcmp(m, "allocate") == 0) return read_allocate(s, target, value);
  if (m && refused(s, value, m)) {
    bind_bad(s, target);
    return NULL;
  }
  if (declare_var(s, target, value)) return NULL;
  if (value->kind == TREE_NAME && s->class_name && strcmp(value->name, s->class_name) == 0) {
    scope_bind(&s->scope, target->name, BIND_MODULE, tree_span(s, target));
    return NULL;
  }
  const Expr *e = sema_expr(s, value);
  if (!e) {
    bind_bad(s, target);
    return NULL;
  }
  return make_scalar(s, t, target, e, false);
}

static Stmt *read_annotated(Sema *s, const Tree *t) {
  const Tree *target = t->at[0], *type = t->at[1], *value = t->at[2];
  if (target->kind != TREE_NAME || !value) {
    sema_error(s, t, "expected name: type = value");
    bind_bad(s, target);
    return NULL;
  }
  const Expr *e = sema_expr(s, value);
  DType d = DT_UNKNOWN;
  const Tree *head = type->kind == TREE_CALL || type->kind == TREE_SUBSCRIPT ? type->a : type;
  const char *m = sema_member(s, head, 'T');
  bool let = m && (strcmp(m, "let") == 0 || strcmp(m, "handle") == 0 || strcmp(m, "Ptr") == 0);
  if (let && type->kind == TREE_SUBSCRIPT && scalar_annotation(s, type->b, &d) && e)
    e = sema_convert(s, e, d);
  if (!let && !scalar_annotation(s, type, &d)) {
    sema_error(s, type, "expected a scalar type such as T.float32");
    e = NULL;
  }
  if (!e) {
    bind_bad(s, target);
    return NULL;
  }
  if (!let && (e->dtype.code == DTYPE_HANDLE || !dtype_known(e->dtype))) {
    sema_error(s, value, "'%s' is annotated as %s but its value is %s", target->name,
               arena_printf(s->arena, "%s", dtype_name(d)), dtype_name(e->dtype));
    bind_bad(s, target);
    return NULL;
  }
  if (!let && e->kind == EXPR_INT && dtype_is_int(d))
    e = expr_int(s->ctx, d, dtype_wrap(d, e->i));
  else if (!let)
    e = sema_convert(s, e, d);
  return let ? make_let(s, t, target, e) : make_scalar(s, t, target, e, true);
}

/* ---- loops ---- */

static const Tree *keyword(const Tree *call, const char *name) {
  for (uint32_t i = 0; i < call->n; i++)
    if (call->at[i]->kind == TREE_KEYWORD && strcmp(call->at[i]->name, name) == 0)
      return call->at[i]->b;
  return NULL;
}

typedef struct {
  ForKind kind;
  Range range;
  const Expr *step;
  const char *thread;
  const Attr *annotations;
  Var *var;
} LoopHead;

static bool read_loop_head(Sema *s, const Tree *call, const char *name, LoopHead *h) {
  static const struct {
    const char *name;
    ForKind kind;
  } kinds[] = {{"range", FOR_SERIAL},      {"serial", FOR_SERIAL},
               {"parallel", FOR_PARALLEL}, {"vectorized", FOR_VECTORIZED},
               {"unroll", FOR_UNROLL},     {"thread_binding", FOR_THREAD}};
  bool found = false;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(name, kinds[i].name) == 0) {
      h->kind = kinds[i].kind;
      found = true;
    }
  if (!found) {
    sema_error(s, call,
               "a loop runs over range, T.serial, T.parallel, T.vectorized, T.unroll, "
               "T.thread_binding or T.grid");
    return false;
  }
  const Tree *args[3] = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < call->n; i++) {
    const Tree *a = call->at[i];
    if (a->kind == TREE_KEYWORD) {
      if (strcmp(a->name, "thread") && strcmp(a->name, "annotations") && strcmp(a->name, "step")) {
        sema_error(s, a, "a loop has no property '%s'", a->name);
        return false;
      }
    } else if (n < 3) {
      args[n++] = a;
    } else {
      n++;
    }
  }
  if (n < 1 || n > 3) {
    sema_error(s, call, "a loop takes an extent, or begin and end");
    return false;
  }
  const Tree *step = n == 3 ? args[2] : keyword(call, "step");
  if (n == 1) {
    if (!loop_read_range(s, args[0], &h->range)) return false;
  } else {
    Tree pair = {.kind = TREE_TUPLE, .begin = args[0]->begin, .end = args[1]->end, .n = 2};
    pair.at = (Tree *[]){(Tree *)(uintptr_t)args[0], (Tree *)(uintptr_t)args[1]};
    if (!loop_read_range(s, &pair, &h->range)) return false;
  }
  if (step) {
    h->step = sema_expr(s, step);
    if (!h->step) return false;
    int64_t v = 0;
    if (!dtype_is_int(h->step->dtype) || (expr_const_int(s->ctx, h->step, &v) && v < 1)) {
      sema_error(s, step, "the step of a loop must be a positive integer");
      return false;
    }
    if (v == 1)
      h->step = NULL;
    else if (h->step->kind == EXPR_INT)
      h->step = expr_int(s->ctx, h->range.extent->dtype, h->step->i);
    else
      h->step = sema_convert(s, h->step, h->range.extent->dtype);
  }
  const Tree *thread = keyword(call, "thread");
  if (h->kind == FOR_THREAD) {
    if (!thread || thread->kind != TREE_STR) {
      sema_error(s, call, "T.thread_binding needs thread=\"threadIdx.x\" or its like");
      return false;
    }
    h->thread = strpool_intern(s->ctx->strings, thread->str, thread->n);
  }
  const Tree *annotations = keyword(call, "annotations");
  if (annotations && !tree_is_none(annotations)) {
    h->annotations = sema_attr_dict(s, annotations);
    if (!h->annotations) return false;
  }
  return true;
}

/* Reads the body with the loop variables in scope and wraps the loops around it. */
static Stmt *make_loops(Sema *s, const Tree *t, LoopHead *heads, uint32_t n,
                        const Tree *const *names) {
  LoopState *l = s->loop;
  scope_push(&s->scope);
  for (uint32_t i = 0; i < n; i++) {
    Var *v = heads[i].var = var_create(s->ctx, names[i]->name, heads[i].range.extent->dtype);
    v->span = tree_span(s, names[i]);
    scope_bind(&s->scope, v->name, BIND_VAR, v->span)->var = v;
    map_setp(&l->loops, v, arena_dup(s->arena, &heads[i].range, sizeof heads[i].range));
  }
  l->depth++;
  Stmt *body = loop_statements(s, t->at[2]);
  l->depth--;
  scope_pop(&s->scope, "a loop");
  Span span = tree_span(s, t);
  span.end = t->at[1]->end;
  for (uint32_t i = n; i > 0; i--) {
    LoopHead *h = &heads[i - 1];
    body = stmt_for(s->m->arena, span, h->var, h->range.min, h->range.extent, h->kind, body);
    body->loop.step = h->step;
    body->loop.thread = h->thread;
    body->loop.annotations = h->annotations;
  }
  return body;
}

static Stmt *read_for(Sema *s, const Tree *t) {
  const Tree *target = t->at[0], *call = t->at[1];
  const Tree *one[1] = {target};
  bool tuple = target->kind == TREE_TUPLE || target->kind == TREE_LIST;
  const Tree *const *names = tuple ? (const Tree *const *)target->at : one;
  uint32_t n = tuple ? target->n : 1;
  const char *name = NULL;
  if (call->kind == TREE_CALL) {
    name = sema_member(s, call->a, 'T');
    if (!name && call->a->kind == TREE_NAME && strcmp(call->a->name, "range") == 0) name = "range";
  }
  bool ok = true;
  for (uint32_t i = 0; i < n && ok; i++)
    if (names[i]->kind != TREE_NAME) {
      sema_error(s, names[i], "a loop variable is a name but got %s", tree_describe(names[i]));
      ok = false;
    }
  LoopHead *heads = ARENA_ARRAY(s->arena, LoopHead, n ? n : 1);
  if (ok && !name) {
    if (call->kind != TREE_BAD)
      sema_error(s, call,
                 "a loop runs over range, T.serial, T.parallel, T.vectorized, T.unroll, "
                 "T.thread_binding or T.grid");
    ok = false;
  } else if (ok && strcmp(name, "grid") == 0) {
    if (call->n != n) {
      sema_error(s, call, "T.grid has %u extents for %u loop variables", call->n, n);
      ok = false;
    }
    for (uint32_t i = 0; i < n && ok; i++) ok = loop_read_range(s, call->at[i], &heads[i].range);
  } else if (ok && n != 1) {
    sema_error(s, target, "only T.grid has several loop variables");
    ok = false;
  } else if (ok) {
    ok = read_loop_head(s, call, name, &heads[0]);
  }
  if (ok) return make_loops(s, t, heads, n, names);
  scope_push(&s->scope);
  bind_bad(s, target);
  s->loop->depth++;
  loop_statements(s, t->at[2]);
  s->loop->depth--;
  scope_pop(&s->scope, NULL);
  return NULL;
}

/* ---- with ---- */

/* T.attr(node, key, value) and T.attr({key: value}): nested attribute statements. */
static Stmt *read_attr(Sema *s, const Tree *t, const Tree *call, Stmt *body) {
  Arena *a = s->m->arena;
  if (call->n == 1 && call->at[0]->kind == TREE_DICT) {
    const Tree *d = call->at[0];
    for (uint32_t i = d->n; i > 0; i -= 2) {
      const Tree *k = d->at[i - 2];
      const Expr *v = k && k->kind == TREE_STR ? sema_expr(s, d->at[i - 1]) : NULL;
      if (!k || k->kind != TREE_STR) sema_error(s, call, "the key of an attribute is a string");
      if (!v) return NULL;
      Stmt *x = ARENA_NEW(a, Stmt);
      x->kind = STMT_ATTR;
      x->span = tree_span(s, t);
      x->attr.node = attr_int(a, 0);
      x->attr.key = strpool_intern(s->ctx->strings, k->str, k->n);
      x->attr.value = v;
      x->attr.body = body;
      body = x;
    }
    return body;
  }
  if (call->n != 3 || call->at[1]->kind != TREE_STR) {
    sema_error(s, call, "expected T.attr(node, \"key\", value)");
    return NULL;
  }
  const Attr *node = sema_attr(s, call->at[0]);
  const Expr *v = sema_expr(s, call->at[2]);
  if (!node || !v) return NULL;
  Stmt *x = ARENA_NEW(a, Stmt);
  x->kind = STMT_ATTR;
  x->span = tree_span(s, t);
  x->attr.node = node;
  x->attr.key = strpool_intern(s->ctx->strings, call->at[1]->str, call->at[1]->n);
  x->attr.value = v;
  x->attr.body = body;
  return x;
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
  if (t->n == 2 && m && (strcmp(m, "attr") == 0)) {
    scope_push(&s->scope);
    body = loop_statements(s, t->at[1]);
    scope_pop(&s->scope, "T.attr");
    return read_attr(s, item, call, body);
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
    if (lets && !first) bind_bad(s, item->b);
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
  if (item->kind == TREE_WITH_ITEM && item->b) bind_bad(s, item->b);
  loop_statements(s, t->at[t->n - 1]);
  scope_pop(&s->scope, NULL);
  return NULL;
}

/* ---- the rest ---- */

static Stmt *read_assert(Sema *s, const Tree *t) {
  const Expr *cond = sema_condition(s, t->a);
  if (!cond) return NULL;
  const char *kind = "RuntimeError";
  const Tree *m = t->b;
  Text text = {0};
  bool ok = true;
  if (m && m->kind == TREE_TUPLE && m->n == 2 && m->at[0]->kind == TREE_STR) {
    kind = strpool_intern(s->ctx->strings, m->at[0]->str, m->at[0]->n);
    m = m->at[1];
  }
  if (m && (m->kind == TREE_LIST || m->kind == TREE_TUPLE)) {
    for (uint32_t i = 0; i < m->n; i++) {
      ok &= m->at[i]->kind == TREE_STR;
      if (ok) text_putn(&text, m->at[i]->str, m->at[i]->n);
    }
  } else if (m && m->kind == TREE_STR) {
    text_putn(&text, m->str, m->n);
  } else {
    ok = !m;
  }
  if (!ok) sema_error(s, m, "the message of an assert is a string");
  const char *message = strpool_intern(s->ctx->strings, text_cstr(&text), text.n);
  text_free(&text);
  return ok ? stmt_assert(s->m->arena, tree_span(s, t), cond, kind, message) : NULL;
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
      const Attr *d = e->n == 1 ? sema_attr_dict(s, e->at[0]) : NULL;
      if (e->n != 1) sema_error(s, e, "T.func_attr takes one dict");
      if (d) s->prim->attrs = d;
      return NULL;
    }
    if (strcmp(m, "evaluate") == 0 && e->n == 1) {
      const Expr *x = sema_expr(s, e->at[0]);
      return x ? stmt_eval(a, span, x) : NULL;
    }
    if (strcmp(m, "attr") == 0) return read_attr(s, t, e, NULL);
    if (strcmp(m, "ret") == 0 && e->n == 1) {
      const Expr *x = sema_expr(s, e->at[0]);
      if (!x) return NULL;
      Stmt *r = ARENA_NEW(a, Stmt);
      r->kind = STMT_RETURN;
      r->span = span;
      r->ret = x;
      if (!dtype_known(s->prim->ret)) s->prim->ret = x->dtype;
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

static Stmt *read_jump(Sema *s, const Tree *t) {
  if (!s->loop->depth) {
    sema_error(s, t, "'%s' outside a loop", t->kind == TREE_BREAK ? "break" : "continue");
    return NULL;
  }
  Stmt *x = ARENA_NEW(s->m->arena, Stmt);
  x->kind = t->kind == TREE_BREAK ? STMT_BREAK : STMT_CONTINUE;
  x->span = tree_span(s, t);
  return x;
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
      for (uint32_t i = 0; i + 1 < t->n; i++) bind_bad(s, t->at[i]);
      return NULL;
    }
    return read_assign(s, t, t->at[0], t->at[1]);
  case TREE_ANNOT: return read_annotated(s, t);
  case TREE_FOR: return read_for(s, t);
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
  case TREE_CONTINUE: return read_jump(s, t);
  case TREE_RETURN: {
    Stmt *x = ARENA_NEW(a, Stmt);
    x->kind = STMT_RETURN;
    x->span = tree_span(s, t);
    if (!t->b || tree_is_none(t->b)) return x;
    x->ret = sema_expr(s, t->b);
    if (!x->ret) return NULL;
    if (dtype_known(s->prim->ret))
      x->ret = x->ret->kind == EXPR_INT && dtype_is_int(s->prim->ret)
                   ? expr_int(s->ctx, s->prim->ret, x->ret->i)
                   : sema_convert(s, x->ret, s->prim->ret);
    else
      s->prim->ret = x->ret->dtype;
    return x;
  }
  case TREE_BLOCK: return loop_statements(s, t);
  case TREE_AUGMENT:
    sema_error(s, t, "augmented assignment is not supported; write A[i] = A[i] %s ...",
               tree_op_text(t->op));
    return NULL;
  default: sema_error(s, t, "%s is not allowed in a prim_func", tree_describe(t)); return NULL;
  }
}

Stmt *loop_statements(Sema *s, const Tree *block) {
  StmtVec v = {0};
  for (uint32_t i = 0; i < block->n && !diags_full(s->ctx->diags); i++) {
    Stmt *x = read_statement(s, block->at[i], i == 0);
    if (x) vec_push(s->arena, &v, x);
  }
  return v.n ? stmt_seq(s->m->arena, v.at, v.n) : nothing(s);
}

/* ---- bodies ---- */

/* `with T.sblock("root"):` written out is the root itself. */
static const Tree *written_root(const Tree *body, const Tree **call) {
  const Tree *root = NULL;
  for (uint32_t i = 0; i < body->n; i++) {
    const Tree *t = body->at[i];
    if (t->kind != TREE_WITH) continue;
    const Tree *c = t->n == 2 && t->at[0]->kind == TREE_WITH_ITEM ? t->at[0]->a : NULL;
    bool block = c && (graph_is_call(c, "T", "sblock") || graph_is_call(c, "T", "block"));
    if (!block || c->n != 1 || c->at[0]->kind != TREE_STR || strcmp(c->at[0]->str, "root") != 0)
      return NULL;
    if (root || i + 1 != body->n) return NULL;
    root = t;
    *call = c;
  }
  return root;
}

void loop_body(Sema *s, Decl *d) {
  PrimFunc *f = d->prim;
  const Tree *body = d->tree->def->body;
  LoopState l = {.f = f, .has_blocks = holds_block(body)};
  map_init(&l.loops, s->arena);
  map_init(&l.assigned, s->arena);
  count_assigned(&l.assigned, body);
  s->prim = f;
  s->loop = &l;
  s->tir = true;
  scope_init(&s->scope, s->arena);
  scope_push(&s->scope);
  for (uint32_t i = 0; i < d->n_bindings; i++) {
    const Binding *old = d->bindings[i];
    Binding *b = scope_bind(&s->scope, old->name, old->kind, old->span);
    b->buffer = old->buffer;
    b->var = old->var;
  }
  BlockState root = {.is_root = true};
  root.block = ARENA_NEW(s->m->arena, SBlock);
  root.block->name = "root";
  if (f->s_tir) l.block = &root;
  const Tree *call = NULL, *written = written_root(body, &call);
  Stmt *stmt = NULL;
  if (written) { /* attributes and match_buffers may stand before it */
    Tree head = *body;
    head.n--;
    Stmt *parts[2] = {loop_statements(s, &head), NULL};
    parts[1] = loop_statements(s, written->at[1]);
    stmt = stmt_seq(s->m->arena, parts, 2);
  } else {
    stmt = loop_statements(s, body);
  }
  if (f->s_tir) {
    loop_close_block(s, &root, stmt);
    stmt = stmt_block(s->m->arena, f->span, root.block);
  }
  f->body = stmt;
  for (uint32_t i = 0; i < f->nparams; i++)
    if (!f->param_bufs[i] && f->params[i]->dtype.code == DTYPE_HANDLE &&
        !diags_errors(s->ctx->diags))
      diag_error(s->ctx->diags, f->params[i]->span,
                 "handle '%s' has no T.match_buffer: its shape is not known", f->params[i]->name);
}
