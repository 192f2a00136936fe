/* Accesses that are out of range for certain: a warning, as TVM takes such programs; code is not
 * made of them.
 *
 * Known is what surely runs: loops of constant extents, without a condition around. There an index
 * c0 + c1 * i1 + c2 * i2 + ... takes its least and greatest value, each variable standing in one
 * term; an extent that one of them misses is missed in some round. All else is left to
 * -fsanitize=bounds.
 */
#include "ir/lint.h"
#include "ir/op.h"
#include "ir/print.h"

typedef struct {
  int64_t lo, hi;
} Interval;

typedef struct {
  Context *c;
  Module *m;
  Arena *a;
  Map ranges; /* loop Var* -> Interval* */
  Map axes;   /* axis Var* -> its value */
  Map seen;   /* expressions that were looked at or reported */
  bool sure;  /* what is looked at runs */
  Span span;
} Bounds;

/* The least and greatest value of d; false: not known, or perhaps not taken. */
static bool extremes(Bounds *x, const Dim *d, Interval *r) {
  *r = (Interval){d->konst, d->konst};
  for (uint32_t i = 0; i < d->n; i++) {
    const DimTerm *t = &d->terms[i];
    const Interval *v =
        t->n == 1 && t->atoms[0]->kind == ATOM_VAR ? map_getp(&x->ranges, t->atoms[0]->var) : NULL;
    int64_t a, b;
    if (!v || __builtin_mul_overflow(t->coef, v->lo, &a) ||
        __builtin_mul_overflow(t->coef, v->hi, &b) ||
        __builtin_add_overflow(r->lo, a < b ? a : b, &r->lo) ||
        __builtin_add_overflow(r->hi, a < b ? b : a, &r->hi))
      return false;
  }
  return true;
}

static void check(Bounds *x, const Buffer *b, const Expr *const *idx) {
  Subst axes = {.c = x->c, .vars = &x->axes};
  for (uint32_t k = 0; x->sure && k < b->ndim; k++) {
    int64_t n;
    Interval r;
    if (idx[k]->dtype.lanes != 1 || !expr_const_int(x->c, b->shape[k], &n)) continue;
    if (!extremes(x, expr_dim(x->c, expr_subst(&axes, idx[k])), &r)) continue;
    if (r.lo >= 0 && r.hi < n) continue;
    x->m->out_of_bounds = true;
    if (idx[k]->kind == EXPR_INT) continue; /* the reader has said so */
    Text t = {0};
    expr_print(&t, idx[k]);
    const char *verb = r.lo == r.hi ? "is" : "reaches";
    diag_warn(x->c->diags, WARN_INDEX_BOUNDS, x->span,
              "index %s of dim %u of buffer '%s' %s %lld but its extent is %lld", text_cstr(&t), k,
              b->name, verb, (long long)(r.lo < 0 ? r.lo : r.hi), (long long)n);
    text_free(&t);
  }
}

static void scan(Bounds *x, const Expr *e) {
  if (!x->sure || map_hasp(&x->seen, e)) return;
  map_setp(&x->seen, e, x);
  bool lazy = e->kind == EXPR_AND || e->kind == EXPR_OR || e->kind == EXPR_SELECT ||
              (e->kind == EXPR_CALL && (intrin_table[e->intrin].flags & INTRIN_LAZY));
  bool sure = x->sure;
  for (uint32_t i = 0; i < e->n; i++) {
    x->sure = sure && !(lazy && i > 0);
    scan(x, e->arg[i]);
  }
  x->sure = sure;
  if (e->kind == EXPR_LOAD && !e->has_pred) check(x, e->buf, e->arg);
}

static void scan_expr(const Expr *e, void *ctx) {
  scan(ctx, e);
}

static bool is_jump(const Stmt *s, void *ctx) {
  *(bool *)ctx |= s->kind == STMT_BREAK || s->kind == STMT_CONTINUE || s->kind == STMT_RETURN;
  return true;
}

static void walk(Bounds *x, Stmt *s);

static void walk_under(Bounds *x, Stmt *s, bool sure) {
  bool before = x->sure;
  x->sure = before && sure;
  if (s && x->sure) walk(x, s);
  x->sure = before;
}

static void walk_loop(Bounds *x, Stmt *s) {
  int64_t lo, n;
  bool jumps = false;
  stmt_walk(s->loop.body, is_jump, &jumps);
  bool known = expr_const_int(x->c, s->loop.min, &lo) && expr_const_int(x->c, s->loop.extent, &n);
  if (!known || n <= 0 || jumps) return;
  Interval *r = ARENA_NEW(x->a, Interval);
  *r = (Interval){lo, lo + n - 1};
  map_setp(&x->ranges, s->loop.var, r);
  walk_under(x, s->loop.body, true);
}

static void walk_block(Bounds *x, const SBlock *b) {
  Subst axes = {.c = x->c, .vars = &x->axes};
  for (uint32_t i = 0; i < b->niters; i++)
    map_setp(&x->axes, b->iters[i].var, (void *)(uintptr_t)expr_subst(&axes, b->iters[i].value));
  walk_under(x, b->init, !b->predicate);
  walk_under(x, b->body, !b->predicate && !b->nmatches);
}

static void walk(Bounds *x, Stmt *s) {
  if (s->kind == STMT_SEQ) {
    bool before = x->sure;
    for (uint32_t i = 0; i < s->seq.n && x->sure; i++) {
      walk(x, s->seq.at[i]);
      if (s->seq.at[i]->kind == STMT_ASSERT) x->sure = false;
    }
    x->sure = before;
    return;
  }
  x->span = s->span;
  if (s->kind != STMT_BLOCK) stmt_exprs(s, scan_expr, x);
  switch (s->kind) {
  case STMT_FOR: walk_loop(x, s); break;
  case STMT_BLOCK: walk_block(x, s->block); break;
  case STMT_STORE:
    if (!s->store.pred) check(x, s->store.buf, (const Expr *const *)s->store.idx);
    break;
  case STMT_ATTR: walk_under(x, s->attr.body, true); break;
  default: break; /* branches and while loops: perhaps */
  }
}

void lint_bounds(Module *m) {
  Arena *a = arena_create();
  module_each(m, g) {
    if (g->kind != GLOBAL_PRIM || !g->prim->body) continue;
    if (attr_get_bool(g->prim->attrs, "relaxc.scheduled", false)) continue;
    Bounds x = {.c = m->ctx, .m = m, .a = a, .sure = true};
    map_init(&x.ranges, a);
    map_init(&x.axes, a);
    map_init(&x.seen, a);
    walk_under(&x, g->prim->body, true);
  }
  arena_free(a);
}
