/* Whether the iterations of a loop could run at the same time.
 *
 *   for i: Y[k, i] = Y[k - 1, i] + X[k, i]     yes: iteration i touches only column i of Y
 *   for i: Y[at[j], i] = X[j, i]               yes, whatever at[j] is
 *   for i: Y[i + 1] = Y[i]                     no: one reads what another one stores
 *
 * Two accesses to one buffer, at least one of them a store, meet only within one iteration when
 * some index of both is the same multiple of the loop's variable plus the same thing that stays as
 * it is while the loop runs (the classic test of a single index variable, one dimension at a time).
 */
#include "passes/loop/loop.h"

#define MAX_ACCESSES 64

typedef struct {
  const Buffer *buf;
  const Expr *const *idx;
  bool store;
} Access;

typedef struct {
  Context *c;
  Arena *a;
  const Var *var;
  VarVec bound; /* by the loop's body: other values in other iterations */
  Access at[MAX_ACCESSES];
  uint32_t n;
  bool loops; /* in the body */
  bool clash;
  DType widest;
} Dependence;

static void add_access(Dependence *d, const Buffer *b, const Expr *const *idx, bool store) {
  if (d->n == MAX_ACCESSES) {
    d->clash = true;
    return;
  }
  d->at[d->n++] = (Access){b, idx, store};
  if (b->dtype.bits > d->widest.bits) d->widest = b->dtype;
}

static bool add_load(const Expr *e, void *ctx) {
  Dependence *d = ctx;
  if (e->kind == EXPR_LOAD) add_access(d, e->buf, e->arg, false);
  /* memory that is reached in another way than by loads and stores */
  if (e->kind == EXPR_BUF_DATA || e->kind == EXPR_CALL_FUNC) d->clash = true;
  if (e->kind == EXPR_LET) vec_push(d->a, &d->bound, e->arg[0]->var);
  return true;
}
static void add_loads(const Expr *e, void *ctx) {
  expr_walk(e, add_load, ctx);
}

static bool add_statement(const Stmt *s, void *ctx) {
  Dependence *d = ctx;
  stmt_exprs(s, add_loads, ctx);
  switch (s->kind) {
  case STMT_STORE: add_access(d, s->store.buf, s->store.idx, true); break;
  case STMT_LET: vec_push(d->a, &d->bound, s->let.var); break;
  case STMT_FOR:
    vec_push(d->a, &d->bound, s->loop.var);
    d->loops = true;
    break;
  case STMT_SEQ:
  case STMT_IF:
  case STMT_ASSERT: break;
  default: d->clash = true;
  }
  return true;
}

static bool changes(const Dependence *d, const Dim *x) {
  if (dim_uses_var(x, d->var)) return true;
  for (uint32_t i = 0; i < d->bound.n; i++)
    if (dim_uses_var(x, d->bound.at[i])) return true;
  return false;
}

/* Whether iterations i and j of the loop can touch one element by a and b only if i is j. */
static bool apart(const Dependence *d, const Access *a, const Access *b) {
  Context *c = d->c;
  if (a->buf != b->buf) return false;
  for (uint32_t i = 0; i < a->buf->ndim; i++) {
    const Dim *step[2], *rest[2];
    int64_t k;
    if (dim_linear(c, expr_dim(c, a->idx[i]), d->var, &step[0], &rest[0]) &&
        dim_linear(c, expr_dim(c, b->idx[i]), d->var, &step[1], &rest[1]) && step[0] == step[1] &&
        rest[0] == rest[1] && dim_is_const(step[0], &k) && k != 0 && !changes(d, rest[0]))
      return true;
  }
  return false;
}

/* Whether no iteration meets another one's elements. Stores of one statement that no other access
 * meets may fall on each other: lanes store in their order. */
static bool independent(const Dependence *d) {
  for (uint32_t i = 0; i < d->n; i++) {
    const Access *st = &d->at[i];
    bool alone = true;
    for (uint32_t j = 0; st->store && j < d->n; j++) {
      if (j == i || d->at[j].buf->data != st->buf->data) continue;
      alone = false;
      if (!apart(d, st, &d->at[j])) return false;
    }
    if (st->store && !apart(d, st, st) && (!alone || d->loops)) return false;
  }
  return true;
}

/* Whether every access goes through memory element by element, or stays where it is. */
static bool contiguous(const Dependence *d) {
  for (uint32_t i = 0; i < d->n; i++) {
    const Access *x = &d->at[i];
    for (uint32_t k = 0; k < x->buf->ndim; k++) {
      const Dim *step, *rest;
      int64_t by;
      const Dim *at = expr_dim(d->c, x->idx[k]);
      if (!dim_linear(d->c, at, d->var, &step, &rest) || !dim_is_const(step, &by) ||
          by != (k + 1 == x->buf->ndim && by == 1))
        return false;
    }
  }
  return true;
}

LoopAccesses loop_accesses(Context *c, Arena *tmp, const Stmt *loop) {
  Dependence d = {.c = c, .a = tmp, .var = loop->loop.var, .widest = DT_U8};
  stmt_walk(loop->loop.body, add_statement, &d);
  return (LoopAccesses){.independent = !d.clash && independent(&d),
                        .contiguous = !d.clash && contiguous(&d),
                        .innermost = !d.loops,
                        .widest = d.widest};
}
