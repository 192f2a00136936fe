/* InstrumentBoundCheckers (-fsanitize=bounds): indices that can't be proved to be in range are
 * checked where they are used.
 *
 *   before: Y[vi] = X[vi + 1]
 *   after:  assert vi + 1 < n, ("IndexError", "m.rx:7: index vi + 1 of dim 0 of buffer 'X' ...")
 *           Y[vi] = X[vi + 1]
 *
 * What loops and axes say proves most checks away. Operands that are evaluated only under a
 * condition (T.if_then_else, and, or) are checked under it. Masked vector accesses and gathers of
 * vectors are left as they are.
 */
#include "ir/facts.h"
#include "ir/print.h"
#include "passes/pass.h"

#include <string.h>

typedef struct {
  PassCtx *pc;
  Context *c;
  Arena *a;
  const PrimFunc *f;
  Facts *facts;
  Span span; /* of the statement */
  VEC(Stmt *) checks;
} Instrument;

static const char *expr_text(Instrument *x, const Expr *e) {
  Text t = {0};
  expr_print(&t, e);
  const char *s = arena_strndup(x->a, text_cstr(&t), t.n);
  text_free(&t);
  return s;
}

/* Does the condition say so already? Expressions are interned. */
static bool implied(const Expr *guard, const Expr *e) {
  if (!guard) return false;
  if (guard == e) return true;
  return guard->kind == EXPR_AND && (implied(guard->arg[0], e) || implied(guard->arg[1], e));
}

static void add_check(Instrument *x, const Expr *guard, const Buffer *b, uint32_t dim,
                      const Expr *i) {
  Context *c = x->c;
  const Expr *n = b->shape[dim];
  const Dim *at = expr_dim(c, i), *end = expr_dim(c, n);
  const Expr *above = expr_binary(c, EXPR_GE, i, expr_int(c, i->dtype, 0));
  const Expr *below = expr_binary(c, EXPR_LT, i, n);
  bool low = implied(guard, above) || prove_le(c, x->facts, dim_const(c, 0), at) == PROOF_YES;
  bool high = implied(guard, below) || prove_lt(c, x->facts, at, end) == PROOF_YES;
  if (low && high) return;
  const Expr *cond = low ? below : high ? above : expr_binary(c, EXPR_AND, above, below);
  if (guard) cond = expr_binary(c, EXPR_OR, expr_unary(c, EXPR_NOT, guard), cond);
  Span s = x->span.file ? x->span : x->f->span;
  const SourceFile *file = s.file ? sources_file(c->sources, s.file) : NULL;
  const char *place = "";
  if (file) {
    uint32_t line, col;
    sources_position(file, s.begin, &line, &col);
    place = arena_printf(x->a, "%s:%u: ", file->name, line);
  }
  const char *message =
      arena_printf(x->a, "%sindex %s of dim %u of buffer '%s' is out of range (its extent is %s)",
                   place, expr_text(x, i), dim, b->name, expr_text(x, n));
  vec_push(x->a, &x->checks, stmt_assert(x->a, s, cond, "IndexError", message));
}

static void check_indices(Instrument *x, const Expr *guard, const Buffer *b,
                          const Expr *const *idx) {
  for (uint32_t k = 0; k < b->ndim; k++) {
    const Expr *i = idx[k];
    if (i->dtype.lanes == 1) {
      add_check(x, guard, b, k, i);
    } else if (i->kind == EXPR_RAMP) {
      const Expr *far = expr_int(x->c, i->arg[1]->dtype, i->dtype.lanes - 1);
      add_check(x, guard, b, k, i->arg[0]);
      add_check(x, guard, b, k, expr_add(x->c, i->arg[0], expr_mul(x->c, i->arg[1], far)));
    }
  }
}

static void scan(Instrument *x, Map *seen, const Expr *guard, const Expr *e);

/* The operands that are evaluated only where `cond` holds. */
static void scan_under(Instrument *x, const Expr *guard, const Expr *cond, const Expr *e) {
  Map seen;
  if (cond->dtype.lanes != 1) return;
  map_init(&seen, x->pc->scratch);
  scan(x, &seen, guard ? expr_binary(x->c, EXPR_AND, guard, cond) : cond, e);
}

static void scan(Instrument *x, Map *seen, const Expr *guard, const Expr *e) {
  Context *c = x->c;
  if (map_hasp(seen, e)) return;
  map_setp(seen, e, x);
  if (e->kind == EXPR_AND || e->kind == EXPR_OR) {
    const Expr *first = e->arg[0];
    scan(x, seen, guard, first);
    scan_under(x, guard, e->kind == EXPR_AND ? first : expr_unary(c, EXPR_NOT, first), e->arg[1]);
    return;
  }
  if (e->kind == EXPR_CALL && (intrin_table[e->intrin].flags & INTRIN_LAZY) && e->n == 3) {
    scan(x, seen, guard, e->arg[0]);
    scan_under(x, guard, e->arg[0], e->arg[1]);
    if (e->arg[0]->dtype.lanes == 1)
      scan_under(x, guard, expr_unary(c, EXPR_NOT, e->arg[0]), e->arg[2]);
    return;
  }
  if (e->kind == EXPR_LET) {
    Map one;
    map_init(&one, x->pc->scratch);
    map_setp(&one, e->arg[0]->var, (void *)(uintptr_t)e->arg[1]);
    Subst s = {c, &one, NULL};
    scan(x, seen, guard, e->arg[1]);
    scan(x, seen, guard, expr_subst(&s, e->arg[2]));
    return;
  }
  for (uint32_t i = 0; i < e->n; i++) scan(x, seen, guard, e->arg[i]);
  if (e->kind == EXPR_LOAD && !e->has_pred) check_indices(x, guard, e->buf, e->arg);
}

static void scan_expr(const Expr *e, void *ctx) {
  Instrument *x = ctx;
  Map seen;
  map_init(&seen, x->pc->scratch);
  scan(x, &seen, NULL, e);
}

static Stmt *instrument(Instrument *x, Stmt *s);

/* Axes stay in their domains when loops say so. */
static void axis_facts(Instrument *x, const SBlock *b) {
  Context *c = x->c;
  for (uint32_t i = 0; i < b->niters; i++) {
    const BlockIter *it = &b->iters[i];
    const Dim *v = expr_dim(c, it->value), *lo = expr_dim(c, it->dom.min);
    const Dim *end = dim_add(c, lo, expr_dim(c, it->dom.extent));
    if (prove_le(c, x->facts, lo, v) == PROOF_YES && prove_lt(c, x->facts, v, end) == PROOF_YES)
      facts_below(x->facts, it->var, lo, end);
  }
}

static Stmt *instrument_block(Instrument *x, Stmt *s) {
  SBlock *b = arena_dup(x->a, s->block, sizeof *b);
  Stmt *r = arena_dup(x->a, s, sizeof *s);
  facts_push(x->facts);
  axis_facts(x, b);
  if (b->init) b->init = instrument(x, b->init);
  b->body = instrument(x, b->body);
  facts_pop(x->facts);
  r->block = b;
  return r;
}

static Stmt *instrument_loop(Instrument *x, Stmt *s) {
  Context *c = x->c;
  Stmt *r = arena_dup(x->a, s, sizeof *s);
  const Dim *lo = expr_dim(c, s->loop.min);
  facts_push(x->facts);
  facts_below(x->facts, s->loop.var, lo, dim_add(c, lo, expr_dim(c, s->loop.extent)));
  r->loop.body = instrument(x, s->loop.body);
  facts_pop(x->facts);
  return r;
}

/* Children first: what a child needs is checked inside it. */
static Stmt *instrument_children(Instrument *x, Stmt *s) {
  Stmt *r;
  switch (s->kind) {
  case STMT_FOR: return instrument_loop(x, s);
  case STMT_IF:
    r = arena_dup(x->a, s, sizeof *s);
    r->if_.then_ = instrument(x, s->if_.then_);
    if (s->if_.else_) r->if_.else_ = instrument(x, s->if_.else_);
    return r;
  case STMT_WHILE:
    r = arena_dup(x->a, s, sizeof *s);
    r->while_.body = instrument(x, s->while_.body);
    return r;
  case STMT_ATTR:
    if (!s->attr.body) return s;
    r = arena_dup(x->a, s, sizeof *s);
    r->attr.body = instrument(x, s->attr.body);
    return r;
  default: return s;
  }
}

static Stmt *instrument(Instrument *x, Stmt *s) {
  if (s->kind == STMT_BLOCK) return instrument_block(x, s);
  if (s->kind == STMT_SEQ) {
    Stmt **at = ARENA_ARRAY(x->a, Stmt *, s->seq.n + 1);
    for (uint32_t i = 0; i < s->seq.n; i++) at[i] = instrument(x, s->seq.at[i]);
    return stmt_seq(x->a, at, s->seq.n);
  }
  Stmt *r = instrument_children(x, s);
  memset(&x->checks, 0, sizeof x->checks);
  x->span = s->span;
  stmt_exprs(s, scan_expr, x);
  if (s->kind == STMT_STORE && !s->store.pred)
    check_indices(x, NULL, s->store.buf, (const Expr *const *)s->store.idx);
  if (!x->checks.n) return r;
  if (s->kind == STMT_WHILE) { /* its condition is evaluated again after each round */
    Stmt *again[2] = {r->while_.body, stmt_seq(x->a, x->checks.at, x->checks.n)};
    r->while_.body = stmt_seq(x->a, again, 2);
  }
  vec_push(x->a, &x->checks, r);
  return stmt_seq(x->a, x->checks.at, x->checks.n);
}

bool pass_instrument_bound_checkers(PassCtx *pc) {
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_PRIM || !pass_wants(pc, g->name)) continue;
    if (attr_get_bool(g->prim->attrs, "relaxc.scheduled", false)) continue;
    Instrument x = {.pc = pc, .c = pc->c, .a = pc->m->arena, .f = g->prim};
    x.facts = facts_create(pc->c, pc->scratch);
    facts_push(x.facts);
    g->prim->body = instrument(&x, g->prim->body);
    facts_pop(x.facts);
  }
  return true;
}
