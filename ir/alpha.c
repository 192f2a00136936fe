/* Structural equality and hash of prim_funcs up to names.
 *
 * Both sides are walked together; a variable or buffer is paired with its counterpart where the two
 * first meet (for buffers after their types and shapes agree) and must meet the same one ever
 * after. The hash numbers them in order of first appearance, hence agrees with that equality.
 */
#include "ir/base/map.h"
#include "ir/tir.h"
#include <string.h>

typedef struct {
  Map to, from; /* vars, buffers and expressions of a -> of b, and back */
} Pairs;

static bool pair(Pairs *p, const void *a, const void *b, bool *known) {
  const void *x = map_getp(&p->to, a);
  *known = x != NULL;
  if (x) return x == b;
  if (map_hasp(&p->from, b)) return false;
  map_setp(&p->to, a, (void *)(uintptr_t)b);
  map_setp(&p->from, b, (void *)(uintptr_t)a);
  return true;
}

static bool same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_expr(Pairs *p, const Expr *a, const Expr *b);

static bool same_exprs(Pairs *p, const Expr *const *a, const Expr *const *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!same_expr(p, a[i], b[i])) return false;
  return true;
}

static bool same_var(Pairs *p, const Var *a, const Var *b) {
  bool known;
  return dtype_eq(a->dtype, b->dtype) && a->is_dim == b->is_dim && pair(p, a, b, &known);
}

static bool same_buffer(Pairs *p, const Buffer *a, const Buffer *b) {
  bool known;
  if (!pair(p, a, b, &known)) return false;
  if (known) return true;
  if (!dtype_eq(a->dtype, b->dtype) || a->ndim != b->ndim || a->align != b->align ||
      strcmp(a->scope, b->scope) != 0 || !a->strides != !b->strides ||
      !a->elem_offset != !b->elem_offset || !a->data != !b->data ||
      !a->offset_var != !b->offset_var || a->offset_factor != b->offset_factor ||
      !same_text(a->layout, b->layout) || !same_text(a->extra, b->extra))
    return false;
  return same_exprs(p, a->shape, b->shape, a->ndim) &&
         (!a->strides || same_exprs(p, a->strides, b->strides, a->ndim)) &&
         (!a->elem_offset || same_expr(p, a->elem_offset, b->elem_offset)) &&
         (!a->offset_var || same_var(p, a->offset_var, b->offset_var)) &&
         (!a->data || same_var(p, a->data, b->data));
}

static bool same_expr(Pairs *p, const Expr *a, const Expr *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind || a->n != b->n || !dtype_eq(a->dtype, b->dtype) ||
      a->intrin != b->intrin || a->has_pred != b->has_pred)
    return false;
  switch ((ExprKind)a->kind) {
  case EXPR_INT:
  case EXPR_FLOAT: return a == b;
  case EXPR_STR: return strcmp(a->s, b->s) == 0;
  case EXPR_VAR: return same_var(p, a->var, b->var);
  case EXPR_BUF_DATA: return same_buffer(p, a->buf, b->buf);
  case EXPR_CALL_FUNC:
    if (strcmp(a->s, b->s) != 0) return false;
    break;
  case EXPR_CALL:
    if (!same_text(a->s, b->s)) return false;
    break;
  default: break;
  }
  if (map_getp(&p->to, a) == b) return true; /* compared before */
  if (a->kind == EXPR_LOAD && !same_buffer(p, a->buf, b->buf)) return false;
  if (!same_exprs(p, a->arg, b->arg, a->n)) return false;
  map_setp(&p->to, a, (void *)(uintptr_t)b);
  return true;
}

static bool same_range(Pairs *p, Range a, Range b) {
  return same_expr(p, a.min, b.min) && same_expr(p, a.extent, b.extent);
}

static bool same_regions(Pairs *p, const Region *a, const Region *b, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    if (!same_buffer(p, a[k].buf, b[k].buf)) return false;
    for (uint32_t i = 0; i < a[k].buf->ndim; i++)
      if (!same_range(p, a[k].ranges[i], b[k].ranges[i])) return false;
  }
  return true;
}

static bool same_stmt(Pairs *p, const Stmt *a, const Stmt *b);

static bool same_block(Pairs *p, const SBlock *a, const SBlock *b) {
  if (a->niters != b->niters || a->nreads != b->nreads || a->nwrites != b->nwrites ||
      a->nallocs != b->nallocs || a->nmatches != b->nmatches || a->has_reads != b->has_reads ||
      a->has_writes != b->has_writes || !attr_equal(a->annotations, b->annotations))
    return false;
  for (uint32_t i = 0; i < a->niters; i++)
    if (a->iters[i].kind != b->iters[i].kind || !same_range(p, a->iters[i].dom, b->iters[i].dom) ||
        !same_expr(p, a->iters[i].value, b->iters[i].value) ||
        !same_var(p, a->iters[i].var, b->iters[i].var))
      return false;
  if (!same_expr(p, a->predicate, b->predicate)) return false;
  for (uint32_t i = 0; i < a->nallocs; i++)
    if (!same_buffer(p, a->allocs[i], b->allocs[i])) return false;
  for (uint32_t i = 0; i < a->nmatches; i++)
    if (!same_regions(p, &a->matches[i].source, &b->matches[i].source, 1) ||
        !same_buffer(p, a->matches[i].target, b->matches[i].target))
      return false;
  return same_regions(p, a->reads, b->reads, a->nreads) &&
         same_regions(p, a->writes, b->writes, a->nwrites) && same_stmt(p, a->init, b->init) &&
         same_stmt(p, a->body, b->body);
}

static bool same_attr(Pairs *p, const Attr *a, const Attr *b);

static bool same_lambda(Pairs *p, const IndexMap *a, const IndexMap *b) {
  if (a->nin != b->nin || a->nout != b->nout) return false;
  for (uint32_t i = 0; i < a->nin; i++)
    if (!same_var(p, a->in[i], b->in[i])) return false;
  return same_exprs(p, a->out, b->out, a->nout);
}

static bool same_items(Pairs *p, const Attr *a, const Attr *b) {
  if (a->n != b->n || !a->keys != !b->keys) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if ((a->keys && !same_text(a->keys[i], b->keys[i])) || !same_attr(p, a->items[i], b->items[i]))
      return false;
  return true;
}

/* Attributes that may hold expressions and regions of the function. */
static bool same_attr(Pairs *p, const Attr *a, const Attr *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case ATTR_EXPR: return same_expr(p, a->expr, b->expr);
  case ATTR_REGION: return same_regions(p, a->region, b->region, 1);
  case ATTR_LAMBDA: return same_lambda(p, a->map, b->map);
  case ATTR_CALL: return strcmp(a->s, b->s) == 0 && same_items(p, a, b);
  case ATTR_LIST:
  case ATTR_DICT: return same_items(p, a, b);
  default: return attr_equal(a, b);
  }
}

static bool same_device(Pairs *p, const Stmt *a, const Stmt *b) {
  if (strcmp(a->device.name, b->device.name) != 0 || a->device.nvars != b->device.nvars ||
      !same_attr(p, a->device.args, b->device.args) ||
      !same_attr(p, a->device.options, b->device.options))
    return false;
  for (uint32_t i = 0; i < a->device.nvars; i++)
    if (!same_var(p, a->device.vars[i], b->device.vars[i])) return false;
  return true;
}

static bool same_stmt(Pairs *p, const Stmt *a, const Stmt *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case STMT_SEQ:
    if (a->seq.n != b->seq.n) return false;
    for (uint32_t i = 0; i < a->seq.n; i++)
      if (!same_stmt(p, a->seq.at[i], b->seq.at[i])) return false;
    return true;
  case STMT_FOR:
    return a->loop.kind == b->loop.kind && same_text(a->loop.thread, b->loop.thread) &&
           attr_equal(a->loop.annotations, b->loop.annotations) &&
           same_expr(p, a->loop.min, b->loop.min) && same_expr(p, a->loop.extent, b->loop.extent) &&
           same_expr(p, a->loop.step, b->loop.step) && same_var(p, a->loop.var, b->loop.var) &&
           same_stmt(p, a->loop.body, b->loop.body);
  case STMT_BLOCK: return same_block(p, a->block, b->block);
  case STMT_STORE:
    return same_buffer(p, a->store.buf, b->store.buf) &&
           same_exprs(p, a->store.idx, b->store.idx, a->store.buf->ndim) &&
           same_expr(p, a->store.value, b->store.value) &&
           same_expr(p, a->store.pred, b->store.pred);
  case STMT_LET:
    return same_expr(p, a->let.value, b->let.value) && same_var(p, a->let.var, b->let.var);
  case STMT_IF:
    return same_expr(p, a->if_.cond, b->if_.cond) && same_stmt(p, a->if_.then_, b->if_.then_) &&
           same_stmt(p, a->if_.else_, b->if_.else_);
  case STMT_WHILE:
    return same_expr(p, a->while_.cond, b->while_.cond) &&
           same_stmt(p, a->while_.body, b->while_.body);
  case STMT_ATTR:
    return same_text(a->attr.key, b->attr.key) && same_attr(p, a->attr.node, b->attr.node) &&
           same_expr(p, a->attr.value, b->attr.value) && same_stmt(p, a->attr.body, b->attr.body);
  case STMT_ASSERT:
    return same_expr(p, a->assert_.cond, b->assert_.cond) &&
           same_text(a->assert_.kind, b->assert_.kind) &&
           same_text(a->assert_.message, b->assert_.message) &&
           a->assert_.nparts == b->assert_.nparts;
  case STMT_EVAL: return same_expr(p, a->eval, b->eval);
  case STMT_ALLOC:
  case STMT_DECL:
    return same_expr(p, a->alloc.data, b->alloc.data) &&
           same_buffer(p, a->alloc.buf, b->alloc.buf) && same_text(a->alloc.view, b->alloc.view) &&
           same_text(a->alloc.args, b->alloc.args) &&
           attr_equal(a->alloc.annotations, b->alloc.annotations);
  case STMT_RETURN: return same_expr(p, a->ret, b->ret);
  case STMT_DEVICE: return same_device(p, a, b);
  case STMT_BREAK:
  case STMT_CONTINUE: return true;
  }
  return false;
}

bool primfunc_equal(const PrimFunc *a, const PrimFunc *b) {
  if (a == b) return true;
  if (a->nparams != b->nparams || a->ndims != b->ndims || !dtype_eq(a->ret, b->ret) ||
      a->is_private != b->is_private || a->s_tir != b->s_tir || a->persistent != b->persistent ||
      !attr_equal(a->attrs, b->attrs))
    return false;
  Arena *arena = arena_create();
  Pairs p;
  map_init(&p.to, arena);
  map_init(&p.from, arena);
  bool same = true;
  for (uint32_t i = 0; same && i < a->nparams; i++) {
    same = !a->param_bufs[i] == !b->param_bufs[i] && same_var(&p, a->params[i], b->params[i]);
    if (same && a->param_bufs[i]) same = same_buffer(&p, a->param_bufs[i], b->param_bufs[i]);
  }
  for (uint32_t i = 0; same && i < a->ndims; i++) same = same_var(&p, a->dims[i], b->dims[i]);
  same = same && same_stmt(&p, a->body, b->body);
  arena_free(arena);
  return same;
}

/* ---- hash ---- */

typedef struct {
  Map number; /* var or buffer -> position; expression -> its hash */
  uint64_t next, h;
} Hasher;

static void mix(Hasher *x, uint64_t v) {
  x->h = hash_mix(x->h, v);
}

static uint64_t number(Hasher *x, const void *p) {
  uint64_t v = (uint64_t)(uintptr_t)map_getp(&x->number, p);
  if (v) return v;
  map_setp(&x->number, p, (void *)(uintptr_t)++x->next);
  return x->next;
}

static uint64_t dtype_word(DType d) {
  return (uint64_t)d.code << 24 | (uint64_t)d.bits << 16 | d.lanes;
}

static uint64_t hash_expr(Hasher *x, const Expr *e) {
  if (e->kind == EXPR_VAR) return hash_mix(dtype_word(e->dtype), number(x, e->var));
  if (e->kind == EXPR_INT || e->kind == EXPR_FLOAT) {
    uint64_t word;
    memcpy(&word, &e->i, sizeof word);
    return hash_mix(dtype_word(e->dtype), word);
  }
  uint64_t *known = map_getp(&x->number, e);
  if (known) return *known;
  uint64_t h = hash_mix(e->kind, dtype_word(e->dtype));
  h = hash_mix(h, (uint64_t)e->intrin << 32 | e->n);
  if (e->kind == EXPR_STR || e->kind == EXPR_CALL_FUNC) h = hash_bytes(e->s, strlen(e->s), h);
  if (e->kind == EXPR_LOAD || e->kind == EXPR_BUF_DATA) h = hash_mix(h, number(x, e->buf));
  for (uint32_t i = 0; i < e->n; i++) h = hash_mix(h, hash_expr(x, e->arg[i]));
  known = arena_dup(x->number.arena, &h, sizeof h);
  map_setp(&x->number, e, known);
  return h;
}

static void mix_expr(const Expr *e, void *ctx) {
  Hasher *x = ctx;
  mix(x, hash_expr(x, e));
}

static void mix_buffer(Hasher *x, const Buffer *b) {
  mix(x, number(x, b));
  mix(x, dtype_word(b->dtype));
  for (uint32_t i = 0; i < b->ndim; i++) mix_expr(b->shape[i], x);
}

static bool mix_stmt(const Stmt *s, void *ctx) {
  Hasher *x = ctx;
  mix(x, s->kind);
  if (s->kind == STMT_FOR) {
    mix(x, s->loop.kind);
    mix(x, number(x, s->loop.var));
  } else if (s->kind == STMT_LET) {
    mix(x, number(x, s->let.var));
  } else if (s->kind == STMT_DEVICE) {
    for (uint32_t i = 0; i < s->device.nvars; i++) mix(x, number(x, s->device.vars[i]));
  } else if (s->kind == STMT_STORE) {
    mix(x, number(x, s->store.buf));
  } else if (s->kind == STMT_BLOCK) {
    for (uint32_t i = 0; i < s->block->niters; i++) {
      mix(x, s->block->iters[i].kind);
      mix(x, number(x, s->block->iters[i].var));
    }
    for (uint32_t i = 0; i < s->block->nallocs; i++) mix_buffer(x, s->block->allocs[i]);
  }
  stmt_exprs(s, mix_expr, x);
  return true;
}

uint64_t primfunc_hash(const PrimFunc *f) {
  Arena *arena = arena_create();
  Hasher x = {.h = f->nparams};
  map_init(&x.number, arena);
  mix(&x, f->s_tir);
  mix(&x, attr_hash(f->attrs));
  for (uint32_t i = 0; i < f->nparams; i++) {
    mix(&x, number(&x, f->params[i]));
    if (f->param_bufs[i]) mix_buffer(&x, f->param_bufs[i]);
  }
  if (f->body) stmt_walk(f->body, mix_stmt, &x);
  arena_free(arena);
  return x.h;
}
