/* Several rows at once.
 *
 *   before: for i in 128: s = sum(x[i, :]); for j in n: y[i, j] = x[i, j] / s
 *   after:  for q in 32: s = sum(x[4 q, :]); ... s_3 = sum(x[4 q + 3, :])
 *                        for j in n: y[4 q, j] = x[4 q, j] / s; ... y[4 q + 3, j] = ...
 *
 * A short row is a chain of steps that wait for each other, the sum of a vector's lanes, a root, a
 * division, among loops of few iterations. Several of them side by side share the loops and
 * whatever is the same for all rows, and one goes on while the other waits. Known as unroll and
 * jam.
 */
#include "passes/loop/schedule.h"

typedef struct {
  LoopCtx *lc;
  uint32_t n;
  Map vars[MAX_JAM], buffers[MAX_JAM]; /* of each row: what stands for a name of the body */
} Jam;

typedef struct {
  const Jam *j;
  bool any;
} Differs;

static bool use_differs(const Expr *e, void *ctx) {
  Differs *u = ctx;
  if (e->kind == EXPR_VAR) u->any |= map_hasp(&u->j->vars[0], e->var);
  if (e->kind == EXPR_LOAD) u->any |= map_hasp(&u->j->buffers[0], e->buf);
  return !u->any;
}

static bool differs(const Jam *j, const Expr *e) {
  Differs u = {j, false};
  if (e) expr_walk(e, use_differs, &u);
  return u.any;
}

static const Expr *index_simplify(Context *c, const Expr *e, void *ctx) {
  (void)ctx;
  if (e->kind != EXPR_LOAD || e->n != 1) return e;
  const Expr *at = expr_simplify(c, e->arg[0]);
  return at == e->arg[0] ? e : expr_load(c, e->buf, &at, 1);
}

/* e in row r. */
static const Expr *in_row(const Jam *j, uint32_t r, const Expr *e) {
  Context *c = j->lc->c;
  if (!e || !differs(j, e)) return e;
  Subst s = {c, &j->vars[r], &j->buffers[r]};
  return expr_rewrite(c, expr_subst(&s, e), index_simplify, NULL);
}

/* Whether a loop's body evaluates functions on several vectors: it has enough chains of steps of
 * its own, and those of several rows don't fit into the registers. */
typedef struct {
  const Variant *v;
  bool any;
} Crowd;
static bool find_wide_math(const Expr *e, void *ctx) {
  Crowd *w = ctx;
  w->any |= e->kind == EXPR_CALL && (intrin_table[e->intrin].flags & INTRIN_FLOAT) &&
            e->dtype.lanes > variant_lanes(w->v, e->dtype);
  return !w->any;
}
static void crowd_in(const Expr *e, void *ctx) {
  expr_walk(e, find_wide_math, ctx);
}
static bool crowd_of(const Stmt *s, void *ctx) {
  stmt_exprs(s, crowd_in, ctx);
  return true;
}
static bool is_crowded(const Jam *j, const Stmt *body) {
  Crowd w = {j->lc->v, false};
  stmt_walk(body, crowd_of, &w);
  return w.any;
}

static void jam(Jam *j, Stmt *s, StmtVec *out);

static Stmt *jammed(Jam *j, Stmt *s) {
  StmtVec out = {0};
  if (s) jam(j, s, &out);
  return out.n ? seq_of(j->lc->a, &out) : NULL;
}

static void jam_store(Jam *j, const Stmt *s, uint32_t r, StmtVec *out) {
  Arena *a = j->lc->a;
  uint32_t n = s->store.buf->ndim;
  const Expr **at = ARENA_ARRAY(a, const Expr *, n);
  Buffer *b = map_getp(&j->buffers[r], s->store.buf);
  for (uint32_t i = 0; i < n; i++) at[i] = expr_simplify(j->lc->c, in_row(j, r, s->store.idx[i]));
  Stmt *one = stmt_store(a, s->span, b ? b : s->store.buf, at, in_row(j, r, s->store.value));
  one->store.pred = in_row(j, r, s->store.pred);
  vec_push(j->lc->tmp, out, one);
}

static void jam_let(Jam *j, Stmt *s, StmtVec *out) {
  Context *c = j->lc->c;
  if (!differs(j, s->let.value)) {
    vec_push(j->lc->tmp, out, s);
    return;
  }
  for (uint32_t r = 0; r < j->n; r++) {
    Var *v = var_create(c, s->let.var->name, s->let.var->dtype);
    Stmt *one = stmt_let(j->lc->a, s->span, v, in_row(j, r, s->let.value));
    vec_push(j->lc->tmp, out, one);
    map_setp(&j->vars[r], s->let.var, (void *)v->expr);
  }
}

static void jam_alloc(Jam *j, const Stmt *s, StmtVec *out) {
  Context *c = j->lc->c;
  const Buffer *b = s->alloc.buf;
  for (uint32_t r = 0; r < j->n; r++) {
    Buffer *own = buffer_create(c, b->name, b->dtype, b->shape, b->ndim, b->scope);
    own->align = b->align;
    vec_push(j->lc->tmp, out, stmt_alloc(j->lc->a, s->span, own));
    map_setp(&j->buffers[r], b, own);
  }
}

/* Appends s for all rows, statement by statement. */
static void jam(Jam *j, Stmt *s, StmtVec *out) {
  LoopCtx *lc = j->lc;
  switch (s->kind) {
  case STMT_SEQ:
    for (uint32_t i = 0; i < s->seq.n; i++) jam(j, s->seq.at[i], out);
    return;
  case STMT_FOR: {
    if (differs(j, s->loop.extent) || is_crowded(j, s->loop.body)) break;
    Stmt *loop = arena_dup(lc->a, s, sizeof *s);
    loop->loop.body = jammed(j, s->loop.body);
    vec_push(lc->tmp, out, loop);
    return;
  }
  case STMT_IF: {
    if (differs(j, s->if_.cond)) break;
    Stmt *then_ = jammed(j, s->if_.then_), *else_ = jammed(j, s->if_.else_);
    vec_push(lc->tmp, out, stmt_if(lc->a, s->span, s->if_.cond, then_, else_));
    return;
  }
  case STMT_STORE:
    for (uint32_t r = 0; r < j->n; r++) jam_store(j, s, r, out);
    return;
  case STMT_LET: jam_let(j, s, out); return;
  case STMT_ALLOC: jam_alloc(j, s, out); return;
  default: break;
  }
  for (uint32_t r = 0; r < j->n; r++)
    vec_push(lc->tmp, out, stmt_subst(lc->c, lc->a, s, &j->vars[r], &j->buffers[r], true));
}

Stmt *rows_jam(LoopCtx *lc, const Var *row, const Expr *first, uint32_t n, Stmt *body) {
  Jam *j = ARENA_NEW(lc->tmp, Jam);
  j->lc = lc;
  j->n = n;
  for (uint32_t r = 0; r < n; r++) {
    const Expr *at = expr_simplify(lc->c, expr_add(lc->c, first, i64(lc->c, r)));
    map_init(&j->vars[r], lc->tmp);
    map_init(&j->buffers[r], lc->tmp);
    map_setp(&j->vars[r], row, (void *)at);
  }
  return jammed(j, body);
}
