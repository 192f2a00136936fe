/* The tensor level: constructors, and the regions that a block reads and writes. */
#include "ir/tir.h"
#include "ir/facts.h"
#include <string.h>

Buffer *buffer_create(Context *c, const char *name, DType dtype, const Expr *const *shape,
                      uint32_t ndim, const char *scope) {
  Buffer *b = ARENA_NEW(c->arena, Buffer);
  b->name = strpool_intern(c->strings, name, strlen(name));
  b->id = c->next_var++;
  b->dtype = dtype;
  b->ndim = ndim;
  b->shape = arena_dup(c->arena, shape, ndim * sizeof *shape);
  if (!scope) scope = "global";
  b->scope = strpool_intern(c->strings, scope, strlen(scope));
  b->data = var_create(c, name, DT_HANDLE);
  b->data->ptr_scope = b->scope;
  b->data->ptr_elem = dtype;
  return b;
}

const Expr *buffer_offset(Context *c, const Buffer *b, const Expr *const *idx) {
  const Expr *e = NULL;
  for (uint32_t i = 0; i < b->ndim; i++) {
    if (b->strides) {
      const Expr *t = expr_mul(c, idx[i], b->strides[i]);
      e = e ? expr_add(c, e, t) : t;
    } else {
      e = e ? expr_add(c, expr_mul(c, e, b->shape[i]), idx[i]) : idx[i];
    }
  }
  if (!e) e = expr_i64(c, 0);
  return b->elem_offset ? expr_add(c, e, b->elem_offset) : e;
}

/* ---- statements ---- */

static Stmt *stmt_new(Arena *a, StmtKind k, Span s) {
  Stmt *r = ARENA_NEW(a, Stmt);
  r->kind = k;
  r->span = s;
  return r;
}

static uint32_t seq_count(Stmt *const *at, uint32_t n) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < n; i++)
    if (at[i]) total += at[i]->kind == STMT_SEQ ? seq_count(at[i]->seq.at, at[i]->seq.n) : 1;
  return total;
}

static Stmt **seq_flatten(Stmt *const *at, uint32_t n, Stmt **out) {
  for (uint32_t i = 0; i < n; i++) {
    if (!at[i]) continue;
    if (at[i]->kind == STMT_SEQ)
      out = seq_flatten(at[i]->seq.at, at[i]->seq.n, out);
    else
      *out++ = at[i];
  }
  return out;
}

Stmt *stmt_seq(Arena *a, Stmt *const *at, uint32_t n) {
  uint32_t total = seq_count(at, n);
  Stmt **flat = ARENA_ARRAY(a, Stmt *, total);
  seq_flatten(at, n, flat);
  if (total == 1) return flat[0];
  Stmt *r = stmt_new(a, STMT_SEQ, total ? flat[0]->span : SPAN_NONE);
  if (total) r->span = span_join(flat[0]->span, flat[total - 1]->span);
  r->seq.at = flat;
  r->seq.n = total;
  return r;
}

Stmt *stmt_for(Arena *a, Span s, Var *v, const Expr *min, const Expr *extent, ForKind k,
               Stmt *body) {
  Stmt *r = stmt_new(a, STMT_FOR, s);
  r->loop.var = v;
  r->loop.min = min;
  r->loop.extent = extent;
  r->loop.kind = k;
  r->loop.body = body;
  return r;
}

Stmt *stmt_store(Arena *a, Span s, Buffer *b, const Expr *const *idx, const Expr *value) {
  Stmt *r = stmt_new(a, STMT_STORE, s);
  r->store.buf = b;
  r->store.idx = arena_dup(a, idx, b->ndim * sizeof *idx);
  r->store.value = value;
  return r;
}

Stmt *stmt_if(Arena *a, Span s, const Expr *cond, Stmt *then_, Stmt *else_) {
  Stmt *r = stmt_new(a, STMT_IF, s);
  r->if_.cond = cond;
  r->if_.then_ = then_;
  r->if_.else_ = else_;
  return r;
}

Stmt *stmt_let(Arena *a, Span s, Var *v, const Expr *value) {
  Stmt *r = stmt_new(a, STMT_LET, s);
  r->let.var = v;
  r->let.value = value;
  return r;
}

Stmt *stmt_alloc(Arena *a, Span s, Buffer *b) {
  Stmt *r = stmt_new(a, STMT_ALLOC, s);
  r->alloc.buf = b;
  return r;
}

Stmt *stmt_decl(Arena *a, Span s, Buffer *b) {
  Stmt *r = stmt_new(a, STMT_DECL, s);
  r->alloc.buf = b;
  return r;
}

Var *stmt_decl_data(const Stmt *s) {
  const Expr *e = s->alloc.data;
  if (!e) return s->alloc.buf->data;
  return e->kind == EXPR_BUF_DATA ? e->buf->data : e->kind == EXPR_VAR ? e->var : NULL;
}

Stmt *stmt_eval(Arena *a, Span s, const Expr *e) {
  Stmt *r = stmt_new(a, STMT_EVAL, s);
  r->eval = e;
  return r;
}

Stmt *stmt_block(Arena *a, Span s, SBlock *b) {
  Stmt *r = stmt_new(a, STMT_BLOCK, s);
  r->block = b;
  return r;
}

Stmt *stmt_assert(Arena *a, Span s, const Expr *cond, const char *kind, const char *message) {
  Stmt *r = stmt_new(a, STMT_ASSERT, s);
  r->assert_.cond = cond;
  r->assert_.kind = kind;
  r->assert_.message = message;
  return r;
}

SBlock *primfunc_root(const PrimFunc *f) {
  return f->body && f->body->kind == STMT_BLOCK ? f->body->block : NULL;
}

void primfunc_collect_dims(Context *c, Arena *a, PrimFunc *f) {
  (void)c;
  VEC(Var *) dims = {0};
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    for (uint32_t d = 0; b && d < b->ndim; d++) {
      if (b->shape[d]->kind != EXPR_VAR) continue;
      Var *v = b->shape[d]->var;
      bool known = false;
      for (uint32_t k = 0; k < f->nparams && !known; k++) known = f->params[k] == v;
      for (uint32_t k = 0; k < dims.n && !known; k++) known = dims.at[k] == v;
      if (!known) vec_push(a, &dims, v);
    }
  }
  f->dims = dims.at;
  f->ndims = dims.n;
}

/* ---- regions ---- */

typedef struct {
  Buffer *buf;
  const Dim **lo, **hi; /* inclusive */
} Access;
typedef VEC(Access) AccessVec;

typedef struct {
  Context *c;
  Arena *a;
  AccessVec reads, writes;
  VEC(const Stmt *) loops; /* between the block and the statement at hand */
  VEC(const Var *) lets;
  VEC(const Buffer *) own; /* allocated inside */
} Regions;

/* Widens [*lo, *hi] over the loops inside the block; false when nothing better than the whole dim
 * is known. */
static bool relax(Regions *r, const Dim **lo, const Dim **hi) {
  Context *c = r->c;
  for (uint32_t i = r->loops.n; i-- > 0;) {
    const Stmt *l = r->loops.at[i];
    const Dim *coef, *rest, **end[2] = {lo, hi};
    const Dim *first = expr_dim(c, l->loop.min);
    const Dim *last = dim_sub(c, dim_add(c, first, expr_dim(c, l->loop.extent)), dim_const(c, 1));
    for (int k = 0; k < 2; k++) {
      int64_t low, high;
      if (!dim_uses_var(*end[k], l->loop.var)) continue;
      if (!dim_linear(c, *end[k], l->loop.var, &coef, &rest)) return false;
      dim_bounds(c, NULL, coef, &low, &high);
      if (low < 0 && high > 0) return false;
      bool rising = low >= 0, top = k == 1;
      *end[k] = dim_add(c, rest, dim_mul(c, coef, rising == top ? last : first));
    }
  }
  for (uint32_t i = 0; i < r->lets.n; i++)
    if (dim_uses_var(*lo, r->lets.at[i]) || dim_uses_var(*hi, r->lets.at[i])) return false;
  return true;
}

static void access_add(Regions *r, bool write, Buffer *b, const Expr *const *lo,
                       const Expr *const *extent) {
  Context *c = r->c;
  for (uint32_t i = 0; i < r->own.n; i++)
    if (r->own.at[i] == b) return;
  Access x = {b, ARENA_ARRAY(r->a, const Dim *, b->ndim), ARENA_ARRAY(r->a, const Dim *, b->ndim)};
  for (uint32_t i = 0; i < b->ndim; i++) {
    const Expr *e = lo[i];
    bool known = true;
    const Dim *last = NULL;
    if (e->kind == EXPR_RAMP) { /* a vector access covers base .. base + (lanes - 1) * stride */
      known = expr_is_int(e->arg[1], 1);
      last = dim_const(c, e->dtype.lanes - 1);
      e = e->arg[0];
    } else if (e->dtype.lanes > 1) {
      known = false;
    }
    if (known) {
      x.lo[i] = x.hi[i] = expr_dim(c, e);
      if (last) x.hi[i] = dim_add(c, x.hi[i], last);
      if (extent) {
        x.hi[i] = dim_add(c, x.hi[i], expr_dim(c, extent[i]));
        x.hi[i] = dim_sub(c, x.hi[i], dim_const(c, 1));
      }
      known = relax(r, &x.lo[i], &x.hi[i]);
    }
    if (!known) {
      x.lo[i] = dim_const(c, 0);
      x.hi[i] = dim_sub(c, expr_dim(c, b->shape[i]), dim_const(c, 1));
    }
  }
  AccessVec *list = write ? &r->writes : &r->reads;
  for (uint32_t k = 0; k < list->n; k++) {
    Access *old = &list->at[k];
    if (old->buf != b) continue;
    for (uint32_t i = 0; i < b->ndim; i++) {
      old->lo[i] = dim_min(c, old->lo[i], x.lo[i]);
      old->hi[i] = dim_max(c, old->hi[i], x.hi[i]);
    }
    return;
  }
  vec_push(r->a, list, x);
}

static bool collect_load(const Expr *e, void *ctx) {
  Regions *r = ctx;
  if (e->kind == EXPR_LOAD) access_add(r, false, e->buf, e->arg, NULL);
  return true;
}

static void collect_expr(const Expr *e, void *ctx) {
  expr_walk(e, collect_load, ctx);
}

static void collect(Regions *r, const Stmt *s);

/* A nested block counts by its own regions, its axes bound to their values. */
static void collect_block(Regions *r, SBlock *b) {
  Map vars;
  sblock_derive_regions(r->c, r->a, b);
  map_init(&vars, r->a);
  for (uint32_t i = 0; i < b->niters; i++) {
    map_setp(&vars, b->iters[i].var, (void *)(uintptr_t)b->iters[i].value);
    collect_expr(b->iters[i].value, r);
  }
  Subst s = {.c = r->c, .vars = &vars};
  for (uint32_t k = 0; k < b->nreads + b->nwrites; k++) {
    const Region *g = k < b->nreads ? &b->reads[k] : &b->writes[k - b->nreads];
    const Expr **lo = ARENA_ARRAY(r->a, const Expr *, g->buf->ndim);
    const Expr **extent = ARENA_ARRAY(r->a, const Expr *, g->buf->ndim);
    for (uint32_t i = 0; i < g->buf->ndim; i++) {
      lo[i] = expr_subst(&s, g->ranges[i].min);
      extent[i] = expr_subst(&s, g->ranges[i].extent);
    }
    access_add(r, k >= b->nreads, g->buf, lo, extent);
  }
}

static void collect(Regions *r, const Stmt *s) {
  if (!s) return;
  uint32_t lets = r->lets.n;
  switch (s->kind) {
  case STMT_SEQ:
    for (uint32_t i = 0; i < s->seq.n; i++) collect(r, s->seq.at[i]);
    r->lets.n = lets;
    return;
  case STMT_FOR:
    vec_push(r->a, &r->loops, s);
    collect(r, s->loop.body);
    r->loops.n--;
    break;
  case STMT_BLOCK: collect_block(r, s->block); return;
  case STMT_STORE:
    stmt_exprs(s, collect_expr, r);
    access_add(r, true, s->store.buf, s->store.idx, NULL);
    return;
  case STMT_LET: vec_push(r->a, &r->lets, s->let.var); break;
  case STMT_IF:
    collect_expr(s->if_.cond, r);
    collect(r, s->if_.then_);
    collect(r, s->if_.else_);
    return;
  case STMT_WHILE: collect(r, s->while_.body); break;
  case STMT_ATTR: collect(r, s->attr.body); break;
  case STMT_ALLOC:
  case STMT_DECL: vec_push(r->a, &r->own, s->alloc.buf); break;
  case STMT_ASSERT:
  case STMT_EVAL:
  case STMT_RETURN:
  case STMT_DEVICE:
  case STMT_BREAK:
  case STMT_CONTINUE: break;
  }
  stmt_exprs(s, collect_expr, r);
}

static Region *regions_make(Regions *r, const Access *at, uint32_t n) {
  Region *out = ARENA_ARRAY(r->a, Region, n);
  Context *c = r->c;
  for (uint32_t k = 0; k < n; k++) {
    out[k].buf = at[k].buf;
    out[k].ranges = ARENA_ARRAY(r->a, Range, at[k].buf->ndim);
    for (uint32_t i = 0; i < at[k].buf->ndim; i++) {
      DType d = at[k].buf->shape[i]->dtype;
      const Dim *n1 = dim_add(c, dim_sub(c, at[k].hi[i], at[k].lo[i]), dim_const(c, 1));
      out[k].ranges[i] = (Range){dim_expr(c, at[k].lo[i], d), dim_expr(c, n1, d)};
    }
  }
  return out;
}

void sblock_derive_regions(Context *c, Arena *a, SBlock *b) {
  if (b->has_reads && b->has_writes) return;
  Regions r = {.c = c, .a = a};
  for (uint32_t i = 0; i < b->nallocs; i++) vec_push(a, &r.own, b->allocs[i]);
  for (uint32_t i = 0; i < b->nmatches; i++) {
    const Region *g = &b->matches[i].source;
    const Expr **lo = ARENA_ARRAY(a, const Expr *, g->buf->ndim);
    const Expr **extent = ARENA_ARRAY(a, const Expr *, g->buf->ndim);
    for (uint32_t k = 0; k < g->buf->ndim; k++)
      lo[k] = g->ranges[k].min, extent[k] = g->ranges[k].extent;
    access_add(&r, false, g->buf, lo, extent);
    access_add(&r, true, g->buf, lo, extent);
    vec_push(a, &r.own, b->matches[i].target);
  }
  collect(&r, b->init);
  collect(&r, b->body);
  if (b->init) { /* what the reduction reads of its own result is no input */
    uint32_t n = 0;
    for (uint32_t i = 0; i < r.reads.n; i++) {
      bool own = false;
      for (uint32_t k = 0; k < r.writes.n; k++) own |= r.writes.at[k].buf == r.reads.at[i].buf;
      if (!own) r.reads.at[n++] = r.reads.at[i];
    }
    r.reads.n = n;
  }
  if (!b->has_reads) {
    b->reads = regions_make(&r, r.reads.at, r.reads.n);
    b->nreads = r.reads.n;
    b->has_reads = true;
  }
  if (!b->has_writes) {
    b->writes = regions_make(&r, r.writes.at, r.writes.n);
    b->nwrites = r.writes.n;
    b->has_writes = true;
  }
}
