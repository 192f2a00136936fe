/* Translation of prim_funcs: statements become trees of steps, buffers numbered views.
 *
 * A block axis that is bound to a loop variable shares the loop's slot. Views are set up in the
 * order of the statements; a variable that stands alone in a shape gets its value from the memory.
 */
#include "ir/eval_impl.h"

/* ---- translation: views ---- */

static const Code **compile_codes(Compiler *k, const Expr *const *e, uint32_t n) {
  const Code **c = ARENA_ARRAY(k->arena, const Code *, n);
  for (uint32_t i = 0; i < n; i++) c[i] = compile_root(k, e[i]);
  return c;
}

static uint32_t new_view(Compiler *k, const Buffer *b) {
  ViewCode v = {.buf = b};
  v.shape = compile_codes(k, b->shape, b->ndim);
  if (b->strides) v.stride = compile_codes(k, b->strides, b->ndim);
  if (b->elem_offset) v.offset = compile_root(k, b->elem_offset);
  uint32_t at = k->code->bufs.n;
  vec_push(k->arena, &k->code->bufs, v);
  map_setp(&k->code->views, b, (void *)(uintptr_t)(at + 1));
  if (b->data && !map_hasp(&k->code->owners, b->data))
    map_setp(&k->code->owners, b->data, (void *)(uintptr_t)(at + 1));
  return at;
}

/* ---- translation: statements ---- */

static Step *compile_stmt(Compiler *k, const Stmt *s);

static Step *new_step(Compiler *k, const Stmt *s) {
  Step *p = ARENA_NEW(k->arena, Step);
  p->kind = s->kind;
  p->span = s->span;
  if (s->span.file) k->span = s->span;
  return p;
}

typedef struct {
  const Var *var;
  bool feeds;
} FeedSearch;

static bool find_feed(const Stmt *s, void *ctx) {
  FeedSearch *f = ctx;
  if (s->kind != STMT_BLOCK || !s->block->init) return true;
  bool reduce = false, other = false;
  for (uint32_t i = 0; i < s->block->niters; i++) {
    const BlockIter *it = &s->block->iters[i];
    if (!expr_uses_var(it->value, f->var)) continue;
    if (it->kind == ITER_REDUCE)
      reduce = true;
    else
      other = true;
  }
  f->feeds |= reduce && !other;
  return true;
}

static void compile_loop(Compiler *k, const Stmt *s, Step *p) {
  p->x = compile_root(k, s->loop.min);
  p->y = compile_root(k, s->loop.extent);
  if (s->loop.step) p->z = compile_root(k, s->loop.step);
  p->slot = compile_slot(k, s->loop.var);
  p->d = s->loop.var->dtype;
  FeedSearch f = {.var = s->loop.var};
  if (k->code->f->s_tir) stmt_walk(s->loop.body, find_feed, &f);
  p->feeds_init = f.feeds;
  p->body = compile_stmt(k, s->loop.body);
}

static void compile_block(Compiler *k, const Stmt *s, Step *p) {
  const SBlock *b = s->block;
  BlockStep *q = ARENA_NEW(k->arena, BlockStep);
  p->block = q;
  q->slots = ARENA_ARRAY(k->arena, uint32_t, b->niters);
  q->value = ARENA_ARRAY(k->arena, const Code *, b->niters);
  q->fixed = ARENA_ARRAY(k->arena, const Code *, b->niters);
  q->check_slots = ARENA_ARRAY(k->arena, uint32_t, b->niters);
  q->check_min = ARENA_ARRAY(k->arena, const Code *, b->niters);
  if (b->predicate) q->predicate = compile_root(k, b->predicate);
  for (uint32_t i = 0; i < b->niters; i++) {
    const BlockIter *it = &b->iters[i];
    const Code *min = compile_root(k, it->dom.min);
    uintptr_t loop = it->value->kind == EXPR_VAR && dtype_eq(it->value->dtype, it->var->dtype)
                         ? (uintptr_t)map_getp(&k->code->slots, it->value->var)
                         : 0;
    if (loop) {
      map_setp(&k->code->slots, it->var, (void *)loop);
    } else {
      q->value[q->niters] = compile_root(k, it->value);
      q->fixed[q->niters] = it->kind == ITER_REDUCE ? min : NULL;
      q->slots[q->niters++] = compile_slot(k, it->var);
    }
    if (it->kind != ITER_REDUCE || !b->init) continue;
    q->check_min[q->nchecks] = min;
    q->check_slots[q->nchecks++] = compile_slot(k, it->var);
  }
  q->nallocs = b->nallocs;
  q->allocs = ARENA_ARRAY(k->arena, uint32_t, b->nallocs);
  for (uint32_t i = 0; i < b->nallocs; i++) q->allocs[i] = new_view(k, b->allocs[i]);
  q->nmatches = b->nmatches;
  q->matches = ARENA_ARRAY(k->arena, MatchStep, b->nmatches);
  for (uint32_t i = 0; i < b->nmatches; i++) {
    const Region *r = &b->matches[i].source;
    MatchStep *ms = &q->matches[i];
    ms->source = compile_view(k, r->buf);
    ms->min = ARENA_ARRAY(k->arena, const Code *, r->buf->ndim);
    for (uint32_t d = 0; d < r->buf->ndim; d++) ms->min[d] = compile_root(k, r->ranges[d].min);
    const Buffer *t = b->matches[i].target;
    for (uint32_t d = 0; t->strides && d < t->ndim; d++)
      if (t->strides[d]->kind == EXPR_VAR) (void)compile_slot(k, t->strides[d]->var);
    if (t->elem_offset && t->elem_offset->kind == EXPR_VAR)
      (void)compile_slot(k, t->elem_offset->var);
    if (t->offset_var) (void)compile_slot(k, t->offset_var);
    ms->view = new_view(k, t);
    k->code->bufs.at[ms->view].is_window = true;
  }
  if (b->init) q->init = compile_stmt(k, b->init);
  q->body = compile_stmt(k, b->body);
}

static void compile_store(Compiler *k, const Stmt *s, Step *p) {
  const Buffer *b = s->store.buf;
  const Expr **roots = ARENA_ARRAY(k->arena, const Expr *, b->ndim + 2);
  unsigned lanes = b->dtype.lanes ? b->dtype.lanes : 1;
  for (uint32_t i = 0; i < b->ndim; i++) {
    roots[i] = s->store.idx[i];
    if (roots[i]->dtype.lanes > 1) lanes = roots[i]->dtype.lanes * b->dtype.lanes;
  }
  roots[b->ndim] = s->store.value;
  roots[b->ndim + 1] = s->store.pred;
  compile_begin(k, roots, b->ndim + 2);
  p->access = compile_access(k, b, s->store.idx, b->ndim, s->store.pred, lanes);
  p->x = compile_expr(k, s->store.value);
  p->lanes = lanes;
  p->d = dtype_scalar(b->dtype);
  DType v = s->store.value->dtype;
  if (v.lanes != lanes || dtype_is_float(v) != dtype_is_float(b->dtype))
    compile_fail(k, "a value of type %s doesn't fit buffer '%s'", dtype_name(v), b->name);
}

const CallStep *compile_call(Compiler *k, const Expr *e) {
  CallStep *q = ARENA_NEW(k->arena, CallStep);
  q->callee = k->in->m ? module_prim(k->in->m, e->s) : NULL;
  if (!q->callee) {
    compile_fail(k, "the module has no prim_func '%s'", e->s);
    return NULL;
  }
  q->n = e->n;
  q->scalars = ARENA_ARRAY(k->arena, const Code *, e->n);
  q->views = ARENA_ARRAY(k->arena, uint32_t, e->n);
  for (uint32_t i = 0; i < e->n; i++) {
    if (e->arg[i]->kind == EXPR_BUF_DATA)
      q->views[i] = compile_view(k, e->arg[i]->buf);
    else
      q->scalars[i] = compile_expr(k, e->arg[i]);
  }
  return q;
}

static void compile_decl(Compiler *k, const Stmt *s, Step *p) {
  const Buffer *b = s->alloc.buf;
  const Var *data = stmt_decl_data(s);
  uintptr_t owner = data ? (uintptr_t)map_getp(&k->code->owners, data) : 0;
  if (!owner) {
    compile_fail(k, "the interpreter doesn't know the memory of buffer '%s'", b->name);
    return;
  }
  p->source = (uint32_t)owner - 1;
  p->slot = new_view(k, b);
}

static Step *compile_stmt(Compiler *k, const Stmt *s) {
  Step *p = new_step(k, s);
  switch (s->kind) {
  case STMT_SEQ:
    p->n = s->seq.n;
    p->at = ARENA_ARRAY(k->arena, Step *, p->n);
    for (uint32_t i = 0; i < p->n; i++) p->at[i] = compile_stmt(k, s->seq.at[i]);
    return p;
  case STMT_FOR: compile_loop(k, s, p); return p;
  case STMT_BLOCK: compile_block(k, s, p); return p;
  case STMT_STORE: compile_store(k, s, p); return p;
  case STMT_LET:
    p->x = compile_root(k, s->let.value);
    p->slot = compile_slot(k, s->let.var);
    p->lanes = s->let.var->dtype.lanes;
    if (s->let.var->dtype.code == DTYPE_HANDLE && s->let.value->kind == EXPR_BUF_DATA)
      map_setp(&k->code->owners, s->let.var,
               (void *)(uintptr_t)(compile_view(k, s->let.value->buf) + 1));
    return p;
  case STMT_IF:
    p->x = compile_root(k, s->if_.cond);
    p->body = compile_stmt(k, s->if_.then_);
    if (s->if_.else_) p->other = compile_stmt(k, s->if_.else_);
    return p;
  case STMT_WHILE:
    p->x = compile_root(k, s->while_.cond);
    p->body = compile_stmt(k, s->while_.body);
    return p;
  case STMT_BREAK:
  case STMT_CONTINUE: return p;
  case STMT_ATTR:
    if (s->attr.body) p->body = compile_stmt(k, s->attr.body);
    return p;
  case STMT_ASSERT:
    p->x = compile_root(k, s->assert_.cond);
    p->message = s->assert_.message;
    return p;
  case STMT_EVAL:
    if (s->eval->kind == EXPR_CALL_FUNC)
      p->call = compile_call(k, s->eval);
    else if (s->eval->kind != EXPR_STR)
      p->x = compile_root(k, s->eval);
    p->lanes = s->eval->dtype.lanes ? s->eval->dtype.lanes : 1;
    return p;
  case STMT_ALLOC: p->slot = new_view(k, s->alloc.buf); return p;
  case STMT_DECL: compile_decl(k, s, p); return p;
  case STMT_RETURN:
    if (s->ret) p->x = compile_root(k, s->ret);
    return p;
  case STMT_DEVICE: compile_fail(k, "the interpreter can't run T.%s", s->device.name); return p;
  }
  bug("statement kind %d", (int)s->kind);
}

PrimCode *prim_compile(Interp *in, const PrimFunc *f) {
  PrimCode *code = map_getp(&in->codes, f);
  if (code) return code;
  code = ARENA_NEW(in->arena, PrimCode);
  code->f = f;
  Compiler k = {.in = in, .arena = in->arena, .code = code, .span = f->span};
  map_init(&code->slots, in->arena);
  map_init(&code->views, in->arena);
  map_init(&code->owners, in->arena);
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->params[i]) (void)compile_slot(&k, f->params[i]);
  /* Variables that stand alone in a parameter's shape have a value before anything is computed. */
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    if (!b) continue;
    for (uint32_t d = 0; d < b->ndim; d++) {
      if (b->shape[d]->kind == EXPR_VAR) (void)compile_slot(&k, b->shape[d]->var);
      if (b->strides && b->strides[d]->kind == EXPR_VAR) (void)compile_slot(&k, b->strides[d]->var);
    }
    if (b->elem_offset && b->elem_offset->kind == EXPR_VAR)
      (void)compile_slot(&k, b->elem_offset->var);
    if (b->offset_var) (void)compile_slot(&k, b->offset_var);
  }
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->param_bufs[i]) (void)new_view(&k, f->param_bufs[i]);
  if (f->body) code->body = compile_stmt(&k, f->body);
  if (k.failed) return NULL;
  map_setp(&in->codes, f, code);
  return code;
}
