/* Blocks to plain loops, as written: the form that is right for everything.
 *
 * Axes are replaced by what the loops bind them to, the predicate becomes a condition, allocations
 * of the block stand before its body. An init runs before the outermost loop that reduces, over
 * copies of the other loops inside it; so an empty reduction still leaves the initial value. Where
 * loops mix spatial and reduction axes (after a fusion of loops) it runs in the first step instead.
 * An innermost loop whose iterations are independent (dependence.c) goes over to vectorize.c.
 */
#include "passes/loop/loop.h"

#define MAX_CHAIN 64

typedef struct {
  LoopCtx *lc;
  Map done; /* SBlock whose init stands elsewhere already */
} Lower;

Stmt *seq_of(Arena *a, const StmtVec *v) {
  return stmt_seq(a, v->at, v->n);
}
const Expr *i64(Context *c, int64_t v) {
  return expr_i64(c, v);
}
Var *loop_var(Context *c, const char *name) {
  return var_create(c, name, DT_I64);
}

const Expr *expr_ceildiv(Context *c, const Expr *a, int64_t b) {
  const Expr *sum = expr_add(c, a, expr_int(c, a->dtype, b - 1));
  return expr_simplify(c, expr_floordiv(c, sum, expr_int(c, a->dtype, b)));
}

static bool uses_any(const Expr *e, Var *const *vars, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (expr_uses_var(e, vars[i])) return true;
  return false;
}

static const Expr *and_of(Context *c, const Expr *a, const Expr *b) {
  if (!a) return b;
  if (!b) return a;
  return expr_binary(c, EXPR_AND, a, b);
}

static const Expr *binding_value(Context *c, const BlockIter *it) {
  return dtype_eq(it->value->dtype, it->var->dtype) ? it->value
                                                    : expr_cast(c, it->var->dtype, it->value);
}

static void bind_axes(LoopCtx *lc, const SBlock *b, Map *vars) {
  map_init(vars, lc->tmp);
  for (uint32_t i = 0; i < b->niters; i++)
    map_setp(vars, b->iters[i].var, (void *)binding_value(lc->c, &b->iters[i]));
}

/* The conjuncts of a predicate that use none of `vars`; *mixed when one uses some and others too.
 */
static const Expr *predicate_without(Context *c, const Expr *p, Var *const *red, uint32_t nred,
                                     Var *const *rest, uint32_t nrest, bool *mixed) {
  if (!p) return NULL;
  if (p->kind == EXPR_AND)
    return and_of(c, predicate_without(c, p->arg[0], red, nred, rest, nrest, mixed),
                  predicate_without(c, p->arg[1], red, nred, rest, nrest, mixed));
  if (!uses_any(p, red, nred)) return p;
  if (uses_any(p, rest, nrest)) *mixed = true;
  return NULL;
}

/* Init nest for the chain of loops that starts at `s`, or NULL when it must run in the first step.
 */
static Stmt *split_init(Lower *l, Stmt *s) {
  LoopCtx *lc = l->lc;
  Context *c = lc->c;
  Stmt *chain[MAX_CHAIN];
  uint32_t n = 0;
  Stmt *p = s;
  while (p->kind == STMT_FOR && n < MAX_CHAIN) {
    chain[n++] = p;
    p = p->loop.body;
  }
  if (p->kind != STMT_BLOCK || !p->block->init || map_hasp(&l->done, p->block)) return NULL;
  SBlock *b = p->block;
  Var *red[MAX_CHAIN], *rest[MAX_CHAIN];
  Stmt *kept[MAX_CHAIN];
  uint32_t nred = 0, nrest = 0;
  for (uint32_t i = 0; i < n; i++) {
    bool in_reduce = false, in_spatial = false;
    for (uint32_t j = 0; j < b->niters; j++) {
      if (!expr_uses_var(b->iters[j].value, chain[i]->loop.var)) continue;
      if (b->iters[j].kind == ITER_SPATIAL)
        in_spatial = true;
      else if (b->iters[j].kind == ITER_REDUCE)
        in_reduce = true;
      else
        return NULL;
    }
    if (in_reduce && in_spatial) return NULL;
    if (i == 0 && !in_reduce) return NULL; /* not the outermost reduction loop */
    if (chain[i]->loop.kind == FOR_THREAD) return NULL;
    if (in_reduce)
      red[nred++] = chain[i]->loop.var;
    else {
      if (uses_any(chain[i]->loop.min, red, nred) || uses_any(chain[i]->loop.extent, red, nred))
        return NULL;
      kept[nrest] = chain[i];
      rest[nrest++] = chain[i]->loop.var;
    }
  }
  bool mixed = false;
  const Expr *pred = predicate_without(c, b->predicate, red, nred, rest, nrest, &mixed);
  if (mixed || b->nmatches) return NULL;
  Map vars;
  bind_axes(lc, b, &vars);
  Stmt *init = stmt_subst(c, lc->a, b->init, &vars, NULL, true);
  if (pred) {
    Subst sub = {c, &vars, NULL};
    init = stmt_if(lc->a, p->span, expr_subst(&sub, pred), init, NULL);
  }
  for (uint32_t i = nrest; i-- > 0;) {
    const Stmt *f = kept[i];
    Stmt *copy =
        stmt_for(lc->a, f->span, f->loop.var, f->loop.min, f->loop.extent, f->loop.kind, init);
    copy->loop.step = f->loop.step;
    init = copy;
  }
  map_setp(&l->done, b, b);
  Map none;
  map_init(&none, lc->tmp);
  return stmt_subst(c, lc->a, init, &none, NULL, true); /* renews the loop variables */
}

static Stmt *lower(Lower *l, Stmt *s);

/* A stride of a window: a variable that it binds. */
static bool is_bound_stride(const Expr *e) {
  return e->kind == EXPR_VAR && e->var->of_buffer;
}

/* A view of the window `m` as a declared buffer. `vars` gets what the window binds: its strides and
 * its offset. */
static Stmt *declare_window(LoopCtx *lc, const MatchRegion *m, Map *vars, Map *buffers, Span span) {
  Context *c = lc->c;
  const Buffer *t = m->target;
  Buffer *src = m->source.buf;
  uint32_t skip = src->ndim - t->ndim;
  const Expr *mins[MAX_CHAIN], *strides[MAX_CHAIN];
  if (src->ndim > MAX_CHAIN || t->ndim > src->ndim) {
    diag_error(c->diags, span, "match_buffer of '%s' has more dimensions than its source", t->name);
    lc->failed = true;
    return NULL;
  }
  bool bound = !t->elem_offset;
  for (uint32_t i = 0; t->strides && i < t->ndim; i++) bound &= is_bound_stride(t->strides[i]);
  if (!bound) {
    diag_error(c->diags, span,
               "match_buffer of '%s' with strides or elem_offset is not supported here", t->name);
    lc->failed = true;
    return NULL;
  }
  const Expr *run = i64(c, 1);
  for (uint32_t i = src->ndim; i-- > 0;) {
    mins[i] = m->source.ranges[i].min;
    strides[i] = src->strides ? src->strides[i] : run;
    run = expr_mul(c, expr_cast(c, DT_I64, src->shape[i]), run);
  }
  Buffer *w = buffer_create(c, t->name, t->dtype, t->shape, t->ndim, src->scope);
  w->data = src->data;
  w->strides = arena_dup(c->arena, strides + skip, t->ndim * sizeof strides[0]);
  w->elem_offset = expr_simplify(c, buffer_offset(c, src, mins));
  for (uint32_t i = 0; t->strides && i < t->ndim; i++) {
    const Var *v = t->strides[i]->var;
    map_setp(vars, v, (void *)(uintptr_t)expr_cast(c, v->dtype, w->strides[i]));
  }
  if (t->offset_var)
    map_setp(vars, t->offset_var,
             (void *)(uintptr_t)expr_cast(c, t->offset_var->dtype, w->elem_offset));
  map_setp(buffers, t, w);
  return stmt_decl(lc->a, span, w);
}

static Stmt *lower_block(Lower *l, Stmt *s) {
  LoopCtx *lc = l->lc;
  Context *c = lc->c;
  SBlock *b = s->block;
  Map vars, buffers;
  bind_axes(lc, b, &vars);
  map_init(&buffers, lc->tmp);
  Subst sub = {c, &vars, NULL};
  StmtVec out = {0};
  /* windows first: their sources may be windows of an outer block, replaced already */
  for (uint32_t i = 0; i < b->nmatches; i++) {
    MatchRegion m = b->matches[i];
    Range *r = ARENA_ARRAY(lc->tmp, Range, m.source.buf->ndim);
    for (uint32_t j = 0; j < m.source.buf->ndim; j++)
      r[j] = (Range){expr_subst(&sub, m.source.ranges[j].min),
                     expr_subst(&sub, m.source.ranges[j].extent)};
    m.source.ranges = r;
    Stmt *d = declare_window(lc, &m, &vars, &buffers, s->span);
    if (!d) return s;
    vec_push(lc->tmp, &out, d);
  }
  for (uint32_t i = 0; i < b->nallocs; i++)
    vec_push(lc->tmp, &out, stmt_alloc(lc->a, s->span, b->allocs[i]));
  if (b->init && !map_hasp(&l->done, b)) {
    const Expr *first = NULL;
    for (uint32_t i = 0; i < b->niters; i++)
      if (b->iters[i].kind == ITER_REDUCE)
        first = and_of(
            c, first, expr_binary(c, EXPR_EQ, binding_value(c, &b->iters[i]), b->iters[i].dom.min));
    Stmt *init = stmt_subst(c, lc->a, b->init, &vars, &buffers, true);
    vec_push(lc->tmp, &out, first ? stmt_if(lc->a, s->span, first, init, NULL) : init);
  }
  Stmt *body = stmt_subst(c, lc->a, b->body, &vars, &buffers, false);
  vec_push(lc->tmp, &out, lower(l, body));
  Stmt *r = seq_of(lc->a, &out);
  if (b->predicate && !(b->predicate->kind == EXPR_INT && b->predicate->i))
    r = stmt_if(lc->a, s->span, expr_subst(&sub, b->predicate), r, NULL);
  return r;
}

/* Whether a loop that the program wrote as serial may run in vector lanes, and gains by it. */
static bool runs_in_lanes(LoopCtx *lc, const Stmt *loop) {
  int64_t n;
  if (loop->loop.kind != FOR_SERIAL || loop->loop.step || loop->loop.annotations ||
      (expr_const_int(lc->c, loop->loop.extent, &n) && n < 4))
    return false;
  LoopAccesses x = loop_accesses(lc->c, lc->tmp, loop);
  return x.innermost && x.independent && x.contiguous;
}

static Stmt *lower(Lower *l, Stmt *s) {
  LoopCtx *lc = l->lc;
  Arena *a = lc->a;
  switch (s->kind) {
  case STMT_SEQ: {
    StmtVec v = {0};
    for (uint32_t i = 0; i < s->seq.n; i++) vec_push(lc->tmp, &v, lower(l, s->seq.at[i]));
    return seq_of(a, &v);
  }
  case STMT_FOR: {
    if (s->loop.kind == FOR_THREAD) {
      diag_error(lc->c->diags, s->span,
                 "a loop bound to '%s' can't be compiled for a processor without such threads",
                 s->loop.thread ? s->loop.thread : "a thread");
      lc->failed = true;
      return s;
    }
    Stmt *init = split_init(l, s);
    Stmt *loop = arena_dup(a, s, sizeof *s);
    loop->loop.body = lower(l, s->loop.body);
    if (runs_in_lanes(lc, loop)) loop->loop.kind = FOR_VECTORIZED;
    if (!init) return loop;
    Stmt *both[] = {lower(l, init), loop};
    return stmt_seq(a, both, 2);
  }
  case STMT_BLOCK: return lower_block(l, s);
  case STMT_IF: {
    Stmt *r = arena_dup(a, s, sizeof *s);
    r->if_.then_ = lower(l, s->if_.then_);
    if (s->if_.else_) r->if_.else_ = lower(l, s->if_.else_);
    return r;
  }
  case STMT_WHILE: {
    Stmt *r = arena_dup(a, s, sizeof *s);
    r->while_.body = lower(l, s->while_.body);
    return r;
  }
  case STMT_ATTR: {
    if (!s->attr.body) return s;
    Stmt *r = arena_dup(a, s, sizeof *s);
    r->attr.body = lower(l, s->attr.body);
    return r;
  }
  case STMT_STORE:
  case STMT_LET:
  case STMT_BREAK:
  case STMT_CONTINUE:
  case STMT_ASSERT:
  case STMT_EVAL:
  case STMT_ALLOC:
  case STMT_DECL:
  case STMT_DEVICE:
  case STMT_RETURN: return s;
  }
  bug("statement kind %d", (int)s->kind);
}

Stmt *lower_blocks(LoopCtx *lc, Stmt *s) {
  Lower l = {.lc = lc};
  map_init(&l.done, lc->tmp);
  return lower(&l, s);
}
