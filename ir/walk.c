/* Traversal, rewriting and copying of statements. */
#include "ir/tir.h"
#include <string.h>

void stmt_walk(const Stmt *s, StmtVisit fn, void *ctx) {
  if (!s || !fn(s, ctx)) return;
  switch (s->kind) {
  case STMT_SEQ:
    for (uint32_t i = 0; i < s->seq.n; i++) stmt_walk(s->seq.at[i], fn, ctx);
    break;
  case STMT_FOR: stmt_walk(s->loop.body, fn, ctx); break;
  case STMT_BLOCK:
    stmt_walk(s->block->init, fn, ctx);
    stmt_walk(s->block->body, fn, ctx);
    break;
  case STMT_IF:
    stmt_walk(s->if_.then_, fn, ctx);
    stmt_walk(s->if_.else_, fn, ctx);
    break;
  case STMT_WHILE: stmt_walk(s->while_.body, fn, ctx); break;
  case STMT_ATTR: stmt_walk(s->attr.body, fn, ctx); break;
  case STMT_STORE:
  case STMT_LET:
  case STMT_ASSERT:
  case STMT_EVAL:
  case STMT_ALLOC:
  case STMT_DECL:
  case STMT_RETURN:
  case STMT_DEVICE:
  case STMT_BREAK:
  case STMT_CONTINUE: break;
  }
}

static void buffer_exprs(const Buffer *b, void (*fn)(const Expr *, void *), void *ctx) {
  for (uint32_t i = 0; i < b->ndim; i++) fn(b->shape[i], ctx);
  for (uint32_t i = 0; b->strides && i < b->ndim; i++) fn(b->strides[i], ctx);
  if (b->elem_offset) fn(b->elem_offset, ctx);
}

static void region_exprs(const Region *r, void (*fn)(const Expr *, void *), void *ctx) {
  for (uint32_t i = 0; i < r->buf->ndim; i++) {
    fn(r->ranges[i].min, ctx);
    fn(r->ranges[i].extent, ctx);
  }
}

static void attr_exprs(const Attr *a, void (*fn)(const Expr *, void *), void *ctx) {
  if (!a) return;
  switch (a->kind) {
  case ATTR_EXPR: fn(a->expr, ctx); return;
  case ATTR_REGION: region_exprs(a->region, fn, ctx); return;
  case ATTR_LIST:
  case ATTR_DICT:
  case ATTR_CALL:
    for (uint32_t i = 0; i < a->n; i++) attr_exprs(a->items[i], fn, ctx);
    return;
  default: return; /* a lambda's expressions are its own */
  }
}

static void block_exprs(const SBlock *b, void (*fn)(const Expr *, void *), void *ctx) {
  for (uint32_t i = 0; i < b->niters; i++) {
    fn(b->iters[i].dom.min, ctx);
    fn(b->iters[i].dom.extent, ctx);
    fn(b->iters[i].value, ctx);
  }
  if (b->predicate) fn(b->predicate, ctx);
  for (uint32_t i = 0; i < b->nreads; i++) region_exprs(&b->reads[i], fn, ctx);
  for (uint32_t i = 0; i < b->nwrites; i++) region_exprs(&b->writes[i], fn, ctx);
  for (uint32_t i = 0; i < b->nallocs; i++) buffer_exprs(b->allocs[i], fn, ctx);
  for (uint32_t i = 0; i < b->nmatches; i++) region_exprs(&b->matches[i].source, fn, ctx);
}

void stmt_exprs(const Stmt *s, void (*fn)(const Expr *e, void *ctx), void *ctx) {
  switch (s->kind) {
  case STMT_SEQ:
  case STMT_BREAK:
  case STMT_CONTINUE: break;
  case STMT_FOR:
    fn(s->loop.min, ctx);
    fn(s->loop.extent, ctx);
    if (s->loop.step) fn(s->loop.step, ctx);
    break;
  case STMT_BLOCK: block_exprs(s->block, fn, ctx); break;
  case STMT_STORE:
    for (uint32_t i = 0; i < s->store.buf->ndim; i++) fn(s->store.idx[i], ctx);
    fn(s->store.value, ctx);
    if (s->store.pred) fn(s->store.pred, ctx);
    break;
  case STMT_LET: fn(s->let.value, ctx); break;
  case STMT_IF: fn(s->if_.cond, ctx); break;
  case STMT_WHILE: fn(s->while_.cond, ctx); break;
  case STMT_ATTR:
    if (s->attr.value) fn(s->attr.value, ctx);
    break;
  case STMT_DEVICE:
    attr_exprs(s->device.args, fn, ctx);
    attr_exprs(s->device.options, fn, ctx);
    break;
  case STMT_ASSERT: fn(s->assert_.cond, ctx); break;
  case STMT_EVAL: fn(s->eval, ctx); break;
  case STMT_ALLOC:
  case STMT_DECL:
    buffer_exprs(s->alloc.buf, fn, ctx);
    if (s->alloc.data) fn(s->alloc.data, ctx);
    break;
  case STMT_RETURN:
    if (s->ret) fn(s->ret, ctx);
    break;
  }
}

/* ---- rewriting ---- */

/* One engine serves rewriting and substitution: hooks map expressions, uses of buffers, and what
 * binds variables and buffers; unchanged statements come back as they are. */
typedef struct Rewriter {
  Context *c;
  Arena *a;
  StmtExprFn fn_expr;
  StmtFn fn_stmt;
  void *ctx;
  Var *(*bind_var)(struct Rewriter *r, Var *v);          /* NULL: keep */
  Buffer *(*bind_buffer)(struct Rewriter *r, Buffer *b); /* NULL: keep */
  Buffer *(*use_buffer)(struct Rewriter *r, Buffer *b);  /* NULL: keep */
} Rewriter;

static const Expr *map_expr(Rewriter *r, const Expr *e) {
  return e && r->fn_expr ? r->fn_expr(r->c, e, r->ctx) : e;
}
static Var *bind_var(Rewriter *r, Var *v) {
  return r->bind_var ? r->bind_var(r, v) : v;
}
static Buffer *bind_buffer(Rewriter *r, Buffer *b) {
  return r->bind_buffer ? r->bind_buffer(r, b) : b;
}
static Buffer *use_buffer(Rewriter *r, Buffer *b) {
  return r->use_buffer ? r->use_buffer(r, b) : b;
}

static Stmt *rewrite(Rewriter *r, Stmt *s);

static Range map_range(Rewriter *r, Range g, bool *changed) {
  Range out = {map_expr(r, g.min), map_expr(r, g.extent)};
  *changed |= out.min != g.min || out.extent != g.extent;
  return out;
}

static Region *map_regions(Rewriter *r, const Region *at, uint32_t n, bool *changed) {
  Region *out = ARENA_ARRAY(r->a, Region, n);
  for (uint32_t k = 0; k < n; k++) {
    out[k].buf = use_buffer(r, at[k].buf);
    *changed |= out[k].buf != at[k].buf;
    out[k].ranges = ARENA_ARRAY(r->a, Range, at[k].buf->ndim);
    for (uint32_t i = 0; i < at[k].buf->ndim; i++)
      out[k].ranges[i] = map_range(r, at[k].ranges[i], changed);
  }
  return out;
}

/* A copy of *s in the arena, for a changed statement. */
static Stmt *changed_to(Rewriter *r, const Stmt *s, Stmt n) {
  return memcmp(s, &n, sizeof n) == 0 ? (Stmt *)(uintptr_t)s : arena_dup(r->a, &n, sizeof n);
}

static const Attr *map_attr(Rewriter *r, const Attr *a);

static const Attr *map_items(Rewriter *r, const Attr *a) {
  const Attr **items = ARENA_ARRAY(r->a, const Attr *, a->n);
  bool changed = false;
  for (uint32_t i = 0; i < a->n; i++) {
    items[i] = map_attr(r, a->items[i]);
    changed |= items[i] != a->items[i];
  }
  if (!changed) return a;
  Attr *n = arena_dup(r->a, a, sizeof *a);
  n->items = items;
  return n;
}

static const Attr *map_lambda(Rewriter *r, const Attr *a) {
  IndexMap *m = arena_dup(r->a, a->map, sizeof *a->map);
  const Expr **out = ARENA_ARRAY(r->a, const Expr *, m->nout);
  bool changed = false;
  for (uint32_t i = 0; i < m->nout; i++) {
    out[i] = map_expr(r, m->out[i]);
    changed |= out[i] != m->out[i];
  }
  if (!changed) return a;
  Attr *n = arena_dup(r->a, a, sizeof *a);
  m->out = out;
  n->map = m;
  return n;
}

static const Attr *map_attr(Rewriter *r, const Attr *a) {
  if (!a) return NULL;
  switch (a->kind) {
  case ATTR_EXPR: {
    const Expr *e = map_expr(r, a->expr);
    if (e == a->expr) return a;
    Attr *n = arena_dup(r->a, a, sizeof *a);
    n->expr = e;
    return n;
  }
  case ATTR_REGION: {
    bool changed = false;
    const Region *g = map_regions(r, a->region, 1, &changed);
    if (!changed) return a;
    Attr *n = arena_dup(r->a, a, sizeof *a);
    n->region = g;
    return n;
  }
  case ATTR_LAMBDA: return map_lambda(r, a);
  case ATTR_LIST:
  case ATTR_DICT:
  case ATTR_CALL: return map_items(r, a);
  default: return a;
  }
}

static Stmt *rewrite_device(Rewriter *r, Stmt *s) {
  Stmt n;
  memcpy(&n, s, sizeof n);
  n.device.args = map_attr(r, s->device.args);
  n.device.options = map_attr(r, s->device.options);
  Var **vars = ARENA_ARRAY(r->a, Var *, s->device.nvars);
  bool changed = false;
  for (uint32_t i = 0; i < s->device.nvars; i++) {
    vars[i] = bind_var(r, s->device.vars[i]);
    changed |= vars[i] != s->device.vars[i];
  }
  if (changed) n.device.vars = vars;
  return changed_to(r, s, n);
}

static Stmt *empty_seq(Arena *a) {
  return stmt_seq(a, NULL, 0);
}

static Stmt *rewrite_block(Rewriter *r, Stmt *s) {
  const SBlock *b = s->block;
  SBlock *n = arena_dup(r->a, b, sizeof *b);
  bool changed = false;
  n->iters = ARENA_ARRAY(r->a, BlockIter, b->niters);
  for (uint32_t i = 0; i < b->niters; i++) {
    BlockIter *it = &n->iters[i];
    *it = b->iters[i];
    it->dom = map_range(r, it->dom, &changed);
    it->value = map_expr(r, it->value); /* in the scope outside */
    changed |= it->value != b->iters[i].value;
  }
  for (uint32_t i = 0; i < b->niters; i++) {
    n->iters[i].var = bind_var(r, b->iters[i].var);
    changed |= n->iters[i].var != b->iters[i].var;
  }
  n->predicate = map_expr(r, b->predicate);
  changed |= n->predicate != b->predicate;
  n->allocs = ARENA_ARRAY(r->a, Buffer *, b->nallocs);
  for (uint32_t i = 0; i < b->nallocs; i++) {
    n->allocs[i] = bind_buffer(r, b->allocs[i]);
    changed |= n->allocs[i] != b->allocs[i];
  }
  n->matches = ARENA_ARRAY(r->a, MatchRegion, b->nmatches);
  for (uint32_t i = 0; i < b->nmatches; i++) {
    n->matches[i].source = *map_regions(r, &b->matches[i].source, 1, &changed);
    const Buffer *t = b->matches[i].target;
    for (uint32_t d = 0; t->strides && d < t->ndim; d++)
      if (t->strides[d]->kind == EXPR_VAR && t->strides[d]->var->of_buffer)
        (void)bind_var(r, t->strides[d]->var);
    n->matches[i].target = bind_buffer(r, b->matches[i].target);
    changed |= n->matches[i].target != b->matches[i].target;
  }
  n->reads = map_regions(r, b->reads, b->nreads, &changed);
  n->writes = map_regions(r, b->writes, b->nwrites, &changed);
  n->init = b->init ? rewrite(r, b->init) : NULL;
  n->body = b->body ? rewrite(r, b->body) : NULL;
  if (!n->body) n->body = empty_seq(r->a);
  changed |= n->init != b->init || n->body != b->body;
  return changed ? stmt_block(r->a, s->span, n) : s;
}

static Stmt *rewrite_seq(Rewriter *r, Stmt *s) {
  Stmt **at = ARENA_ARRAY(r->a, Stmt *, s->seq.n);
  bool changed = false;
  for (uint32_t i = 0; i < s->seq.n; i++) {
    at[i] = rewrite(r, s->seq.at[i]);
    changed |= at[i] != s->seq.at[i];
  }
  return changed ? stmt_seq(r->a, at, s->seq.n) : s;
}

static Stmt *rewrite_store(Rewriter *r, Stmt *s) {
  Stmt n = *s;
  uint32_t ndim = s->store.buf->ndim;
  bool changed = false;
  const Expr **idx = ARENA_ARRAY(r->a, const Expr *, ndim);
  for (uint32_t i = 0; i < ndim; i++) {
    idx[i] = map_expr(r, s->store.idx[i]);
    changed |= idx[i] != s->store.idx[i];
  }
  if (changed) n.store.idx = idx;
  n.store.buf = use_buffer(r, s->store.buf);
  n.store.value = map_expr(r, s->store.value);
  n.store.pred = map_expr(r, s->store.pred);
  return changed_to(r, s, n);
}

static Stmt *children(Rewriter *r, Stmt *s) {
  Stmt n;
  memcpy(&n, s, sizeof n); /* with its padding: compared as bytes */
  switch (s->kind) {
  case STMT_SEQ: return rewrite_seq(r, s);
  case STMT_BLOCK: return rewrite_block(r, s);
  case STMT_STORE: return rewrite_store(r, s);
  case STMT_DEVICE: return rewrite_device(r, s);
  case STMT_BREAK:
  case STMT_CONTINUE: return s;
  case STMT_FOR:
    n.loop.min = map_expr(r, s->loop.min);
    n.loop.extent = map_expr(r, s->loop.extent);
    n.loop.step = map_expr(r, s->loop.step);
    n.loop.var = bind_var(r, s->loop.var);
    n.loop.body = rewrite(r, s->loop.body);
    if (!n.loop.body) return NULL;
    break;
  case STMT_LET:
    n.let.value = map_expr(r, s->let.value);
    n.let.var = bind_var(r, s->let.var);
    break;
  case STMT_IF:
    n.if_.cond = map_expr(r, s->if_.cond);
    n.if_.then_ = rewrite(r, s->if_.then_);
    n.if_.else_ = s->if_.else_ ? rewrite(r, s->if_.else_) : NULL;
    if (!n.if_.then_ && !n.if_.else_) return NULL;
    if (!n.if_.then_) n.if_.then_ = empty_seq(r->a);
    break;
  case STMT_WHILE:
    n.while_.cond = map_expr(r, s->while_.cond);
    n.while_.body = rewrite(r, s->while_.body);
    if (!n.while_.body) n.while_.body = empty_seq(r->a);
    break;
  case STMT_ATTR:
    n.attr.node = map_attr(r, s->attr.node);
    n.attr.value = map_expr(r, s->attr.value);
    n.attr.body = s->attr.body ? rewrite(r, s->attr.body) : NULL;
    break;
  case STMT_ASSERT: n.assert_.cond = map_expr(r, s->assert_.cond); break;
  case STMT_EVAL: n.eval = map_expr(r, s->eval); break;
  case STMT_ALLOC:
  case STMT_DECL:
    n.alloc.data = map_expr(r, s->alloc.data);
    n.alloc.buf = bind_buffer(r, s->alloc.buf);
    if (n.alloc.buf != s->alloc.buf && stmt_decl_data(&n)) n.alloc.buf->data = stmt_decl_data(&n);
    break;
  case STMT_RETURN: n.ret = map_expr(r, s->ret); break;
  }
  return changed_to(r, s, n);
}

static Stmt *rewrite(Rewriter *r, Stmt *s) {
  Stmt *n = children(r, s);
  return n && r->fn_stmt ? r->fn_stmt(r->c, r->a, n, r->ctx) : n;
}

Stmt *stmt_rewrite(Context *c, Arena *a, Stmt *s, StmtExprFn fn_expr, StmtFn fn_stmt, void *ctx) {
  Rewriter r = {.c = c, .a = a, .fn_expr = fn_expr, .fn_stmt = fn_stmt, .ctx = ctx};
  return rewrite(&r, s);
}

/* ---- substitution ---- */

typedef struct {
  Map vars, buffers; /* grow with the bound ones that are renewed */
} SubstMaps;

static const Expr *subst_expr(Context *c, const Expr *e, void *ctx) {
  SubstMaps *m = ctx;
  Subst s = {.c = c, .vars = &m->vars, .buffers = &m->buffers};
  return expr_subst(&s, e);
}

static Buffer *subst_use_buffer(Rewriter *r, Buffer *b) {
  SubstMaps *m = r->ctx;
  Buffer *to = map_getp(&m->buffers, b);
  return to ? to : b;
}

static Var *subst_mapped_var(Rewriter *r, Var *v) {
  SubstMaps *m = r->ctx;
  const Expr *to = map_getp(&m->vars, v);
  return to && to->kind == EXPR_VAR ? to->var : v;
}

static Var *var_renew(Context *c, const Var *v) {
  Var *n = var_create(c, v->name, v->dtype);
  n->is_dim = v->is_dim;
  n->of_buffer = v->of_buffer;
  n->span = v->span;
  n->ptr_scope = v->ptr_scope;
  n->ptr_elem = v->ptr_elem;
  return n;
}

static Var *subst_bind_var(Rewriter *r, Var *v) {
  SubstMaps *m = r->ctx;
  Var *n = var_renew(r->c, v);
  map_setp(&m->vars, v, (void *)(uintptr_t)n->expr);
  return n;
}

static Buffer *buffer_renew(Context *c, SubstMaps *m, Buffer *b) {
  Buffer *n = ARENA_NEW(c->arena, Buffer);
  *n = *b;
  n->id = c->next_var++;
  n->aux = NULL;
  Subst s = {.c = c, .vars = &m->vars, .buffers = &m->buffers};
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, b->ndim);
  for (uint32_t i = 0; i < b->ndim; i++) shape[i] = expr_subst(&s, b->shape[i]);
  n->shape = shape;
  if (b->offset_var) {
    n->offset_var = var_renew(c, b->offset_var);
    map_setp(&m->vars, b->offset_var, (void *)(uintptr_t)n->offset_var->expr);
  }
  if (b->strides) {
    const Expr **strides = ARENA_ARRAY(c->arena, const Expr *, b->ndim);
    for (uint32_t i = 0; i < b->ndim; i++) strides[i] = expr_subst(&s, b->strides[i]);
    n->strides = strides;
  }
  if (b->elem_offset) n->elem_offset = expr_subst(&s, b->elem_offset);
  if (b->data) {
    const Expr *data = map_getp(&m->vars, b->data); /* shared by buffers that alias */
    if (data && data->kind == EXPR_VAR) {
      n->data = data->var;
    } else {
      n->data = var_renew(c, b->data);
      map_setp(&m->vars, b->data, (void *)(uintptr_t)n->data->expr);
    }
  }
  map_setp(&m->buffers, b, n);
  return n;
}

static Buffer *subst_bind_buffer(Rewriter *r, Buffer *b) {
  return buffer_renew(r->c, r->ctx, b);
}

static void maps_init(SubstMaps *m, Arena *a, const Map *vars, const Map *buffers) {
  map_init(&m->vars, a);
  map_init(&m->buffers, a);
  for (uint32_t i = 0; vars && i < vars->n; i++)
    map_set(&m->vars, vars->entries[i].key, vars->entries[i].value);
  for (uint32_t i = 0; buffers && i < buffers->n; i++)
    map_set(&m->buffers, buffers->entries[i].key, buffers->entries[i].value);
}

static Stmt *subst_with(Context *c, Arena *a, Stmt *s, SubstMaps *m, bool fresh) {
  Rewriter r = {.c = c,
                .a = a,
                .fn_expr = subst_expr,
                .ctx = m,
                .bind_var = fresh ? subst_bind_var : subst_mapped_var,
                .bind_buffer = fresh ? subst_bind_buffer : subst_use_buffer,
                .use_buffer = subst_use_buffer};
  return rewrite(&r, s);
}

Stmt *stmt_subst(Context *c, Arena *a, Stmt *s, const Map *vars, const Map *buffers, bool fresh) {
  SubstMaps m;
  maps_init(&m, a, vars, buffers);
  return subst_with(c, a, s, &m, fresh);
}

PrimFunc *primfunc_copy(Context *c, Arena *a, const PrimFunc *f, const char *name) {
  PrimFunc *n = ARENA_NEW(a, PrimFunc);
  SubstMaps m;
  *n = *f;
  n->name = strpool_intern(c->strings, name, strlen(name));
  maps_init(&m, a, NULL, NULL);
  n->params = ARENA_ARRAY(a, Var *, f->nparams);
  n->param_bufs = ARENA_ARRAY(a, Buffer *, f->nparams);
  n->dims = ARENA_ARRAY(a, Var *, f->ndims);
  for (uint32_t i = 0; i < f->ndims; i++) {
    n->dims[i] = var_renew(c, f->dims[i]);
    map_setp(&m.vars, f->dims[i], (void *)(uintptr_t)n->dims[i]->expr);
  }
  for (uint32_t i = 0; i < f->nparams; i++) {
    n->params[i] = var_renew(c, f->params[i]);
    map_setp(&m.vars, f->params[i], (void *)(uintptr_t)n->params[i]->expr);
  }
  for (uint32_t i = 0; i < f->nparams; i++) {
    Buffer *b = f->param_bufs[i];
    for (uint32_t d = 0; b && b->strides && d < b->ndim; d++)
      if (b->strides[d]->kind == EXPR_VAR && b->strides[d]->var->of_buffer)
        map_setp(&m.vars, b->strides[d]->var,
                 (void *)(uintptr_t)var_renew(c, b->strides[d]->var)->expr);
    if (b) n->param_bufs[i] = buffer_renew(c, &m, b);
  }
  if (f->body) n->body = subst_with(c, a, f->body, &m, true);
  return n;
}

static bool shape_changes(const Map *vars, const Buffer *b) {
  for (uint32_t i = 0; i < vars->n; i++)
    for (uint32_t d = 0; d < b->ndim; d++)
      if (expr_uses_var(b->shape[d], (const Var *)(uintptr_t)vars->entries[i].key)) return true;
  return false;
}

PrimFunc *primfunc_bind(Context *c, Arena *a, const PrimFunc *f, const Map *vars) {
  PrimFunc *n = ARENA_NEW(a, PrimFunc);
  SubstMaps m;
  *n = *f;
  maps_init(&m, a, vars, NULL);
  n->param_bufs = ARENA_ARRAY(a, Buffer *, f->nparams);
  for (uint32_t i = 0; i < f->nparams; i++) {
    Buffer *b = n->param_bufs[i] = f->param_bufs[i];
    if (!b || !shape_changes(vars, b)) continue;
    map_setp(&m.vars, b->data, (void *)(uintptr_t)b->data->expr);
    n->param_bufs[i] = buffer_renew(c, &m, b);
  }
  n->body = subst_with(c, a, f->body, &m, true);
  return n;
}
