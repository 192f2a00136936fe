/* Prim_funcs: signatures and bodies of the tensor level.
 *
 * Both dialects are read alike: T.block and T.sblock, T.alloc_buffer in blocks, parameters as
 * buffers or as handles with T.match_buffer, dims as TypeVars or as `n = T.int64()`. A function is
 * schedulable (s_tir) when its decorator says so or when it holds a block. Source: TVM's tirx
 * language and parser.
 */
#include "frontend/script/loop.h"

/* ---- signatures ---- */

/* Does a body hold `with T.<name>(...):`? */
static bool holds_block(const Tree *t, const char *name) {
  switch ((TreeKind)t->kind) {
  case TREE_WITH:
    for (uint32_t i = 0; i + 1 < t->n; i++)
      if (t->at[i]->kind == TREE_WITH_ITEM && graph_is_call(t->at[i]->a, "T", name)) return true;
    return holds_block(t->at[t->n - 1], name);
  case TREE_BLOCK:
    for (uint32_t i = 0; i < t->n; i++)
      if (holds_block(t->at[i], name)) return true;
    return false;
  case TREE_FOR: return holds_block(t->at[2], name);
  case TREE_WHILE: return holds_block(t->at[1], name);
  case TREE_IF: return holds_block(t->at[1], name) || (t->at[2] && holds_block(t->at[2], name));
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

bool loop_scalar_type(Sema *s, const Tree *t, DType *d) {
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
  Var *v = f->params[i] = var_create(s->ctx, name, DT_HANDLE);
  v->span = span;
  bool pointer = !bad && sema_is_pointer(s, t);
  bool handle = pointer && sema_pointer(s, t, &v->ptr_elem, &v->ptr_scope);
  if (!bad && !pointer && t->kind != TREE_BAD)
    sema_error(s, t,
               "a parameter of a prim_func is a T.Buffer(...), a scalar such as T.int64, or "
               "a T.handle");
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

/* `n = T.int32()` and `m, n = T.int32(), T.int32()` at the top of a body give the dims of the
 * signature their type. */
static void declare_dim(Sema *s, const Tree *name, const Tree *value) {
  DType d = DT_UNKNOWN;
  if (name->kind != TREE_NAME || value->kind != TREE_CALL || value->n) return;
  const char *m = sema_member(s, value->a, 'T');
  if (!m || !sema_prim_type(m, &d) || !dtype_is_int(d) || scope_find(&s->scope, name->name)) return;
  Binding *b = scope_bind(&s->scope, name->name, BIND_VAR, tree_span(s, name));
  b->var = var_create(s->ctx, name->name, d);
  b->var->is_dim = true;
  b->var->span = b->span;
  b->undefined = true;
  map_setp(&s->loop->assigned, b->var, b->var);
}

static void declare_dims(Sema *s, const Tree *body) {
  for (uint32_t i = 0; i < body->n; i++) {
    const Tree *t = body->at[i];
    if (t->kind != TREE_ASSIGN || t->n != 2) continue;
    const Tree *x = t->at[0], *v = t->at[1];
    if (x->kind != TREE_TUPLE || v->kind != TREE_TUPLE || x->n != v->n)
      declare_dim(s, x, v);
    else
      for (uint32_t k = 0; k < x->n; k++) declare_dim(s, x->at[k], v->at[k]);
  }
}

void loop_declare(Sema *s, Decl *d) {
  PrimFunc *f = d->prim;
  const TreeDef *def = d->tree->def;
  LoopState l = {.f = f};
  map_init(&l.loops, s->arena);
  map_init(&l.threads, s->arena);
  map_init(&l.assigned, s->arena);
  s->prim = f;
  s->loop = &l;
  s->tir = true;
  f->s_tir |= holds_block(def->body, "block"); /* the earlier dialect does not say it */
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
        loop_scalar_type(s, p->at[0], &t))
      scalar_param(s, f, i, p, t);
  }
  declare_dims(s, def->body);
  s->signature = s->params = true;
  for (uint32_t i = 0; i < def->n_params; i++)
    if (!f->params[i]) read_param(s, f, i, def->params[i]);
  for (uint32_t i = 0; i < def->n_params; i++)
    if (!f->params[i]) f->params[i] = var_create(s->ctx, "_", DT_HANDLE);
  s->signature = s->params = false;
  for (uint32_t i = 0; i < s->scope.stack.n; i++) {
    Binding *b = s->scope.stack.at[i];
    if (b->kind != BIND_VAR || !b->undefined) continue;
    if (map_getp(&l.assigned, b->var)) { /* a match_buffer in the body defines it */
      b->hidden = true;
      continue;
    }
    diag_error(s->ctx->diags, b->span,
               "symbolic variable '%s' is not defined: it must stand alone as a dim of a parameter",
               b->name);
    b->undefined = false;
  }
  if (def->returns && !tree_is_none(def->returns)) {
    DType t = DT_UNKNOWN;
    DType elem = DT_UNKNOWN;
    const char *scope = NULL;
    if (loop_scalar_type(s, def->returns, &t)) {
      f->ret = t;
    } else if (sema_is_pointer(s, def->returns)) {
      f->ret = DT_HANDLE;
      if (sema_pointer(s, def->returns, &elem, &scope))
        f->ret_pointer = pointer_name(s->ctx, elem, scope);
    } else
      sema_error(s, def->returns, "a prim_func returns a scalar such as T.int32, or nothing");
  }
  primfunc_collect_dims(s->ctx, s->m->arena, f);
  d->n_bindings = s->scope.stack.n;
  d->bindings = s->scope.stack.at;
}
/* ---- bodies ---- */

/* `with T.sblock("root"):` written out, with nothing around it, is the root itself. */
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
  LoopState l = {.f = f, .has_blocks = holds_block(body, "block") || holds_block(body, "sblock")};
  map_init(&l.loops, s->arena);
  map_init(&l.threads, s->arena);
  map_init(&l.assigned, s->arena);
  count_assigned(&l.assigned, body);
  s->prim = f;
  s->loop = &l;
  s->tir = true;
  scope_init(&s->scope, s->arena);
  scope_push(&s->scope);
  for (uint32_t i = 0; i < d->n_bindings; i++) {
    const Binding *old = d->bindings[i];
    if (old->hidden) continue;
    Binding *b = scope_bind(&s->scope, old->name, old->kind, old->span);
    b->buffer = old->buffer;
    b->var = old->var;
  }
  BlockState root = {.is_root = true, .is_implied = true};
  root.block = ARENA_NEW(s->m->arena, SBlock);
  root.block->name = "root";
  if (f->s_tir) l.block = &root;
  const Tree *call = NULL, *written = written_root(body, &call);
  Stmt *stmt = NULL;
  if (written) { /* attributes and match_buffers may stand before it */
    Tree head = *body;
    head.n--;
    Stmt *parts[2] = {loop_statements(s, &head), NULL};
    root.block->written = parts[0]->kind == STMT_SEQ && !parts[0]->seq.n && !root.allocs.n;
    root.is_implied = !root.block->written;
    if (root.block->written && written->at[0]->b)
      sema_error(s, written->at[0]->b, "a block is no value: it can't be named by 'as'");
    parts[1] = root.block->written ? loop_statements(s, written->at[1])
                                   : loop_read_block(s, written, call);
    stmt = stmt_seq(s->m->arena, parts, 2);
  } else {
    stmt = loop_statements(s, body);
  }
  if (f->s_tir) {
    loop_close_block(s, &root, stmt);
    stmt = stmt_block(s->m->arena, f->span, root.block);
  }
  f->body = stmt;
}
