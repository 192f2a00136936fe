/* Loops over an axis that runs over lanes.
 *
 * The main loop takes several vectors at a time; the rest is done under a lane mask, or in single
 * vectors and scalars where masks are slow.
 */
#include "passes/loop/emit.h"

static const Expr *mul_add(Context *c, const Expr *a, int64_t k, const Expr *b) {
  const Expr *m = expr_mul(c, a, i64(c, k));
  return expr_simplify(c, b ? expr_add(c, m, b) : m);
}

/* fn for all of ax: full * unroll lanes at a time, then the rest. unroll 0: only chunks of `full`
 * lanes or scalars. */
void emit_chunks(Emit *em, const Axis *ax, uint32_t full, uint32_t unroll, int64_t grain, Span span,
                 ChunkFn fn, void *ctx, StmtVec *out) {
  Context *c = em->c;
  int64_t n = -1;
  bool known = expr_const_int(c, ax->extent, &n);
  bool fixed = unroll == 0;
  uint32_t wide = full * (fixed ? 1 : unroll);
  emit_bind(em, ax->var, ax->var->expr);
  if (known)
    while (wide > full && (int64_t)wide > n) wide /= 2;
  if (known && !em->use_mask)
    while (wide > 1 && (int64_t)wide > n) wide /= 2;
  const Expr *count =
      known ? i64(c, n / wide) : expr_simplify(c, expr_floordiv(c, ax->extent, i64(c, wide)));
  const Expr *start = mul_add(c, count, wide, NULL);
  if (!known || n >= wide) {
    Var *v = loop_var(c, ax->var->name);
    StmtVec body = {0};
    Lanes ln = {ax->var, mul_add(c, v->expr, wide, NULL), wide, NULL};
    if (wide == 1) {
      ln = (Lanes){NULL, NULL, 1, NULL};
      emit_bind(em, ax->var, v->expr);
    }
    fn(em, &ln, &body, ctx);
    Stmt *loop = loop_of(em->lc, span, v, count, FOR_SERIAL, seq_of(em->a, &body));
    if (grain && loop && loop->kind == STMT_FOR)
      loop_set_parallel(em->lc, loop, grain / wide > 0 ? grain / wide : 1);
    if (loop) vec_push(em->tmp, out, loop);
  }
  if (known && n % wide == 0) return;
  if (wide > full && (known ? n % wide >= full : !em->use_mask)) { /* single vectors */
    Var *v = loop_var(c, ax->var->name);
    const Expr *rest = expr_sub(c, ax->extent, start);
    const Expr *some = expr_simplify(c, expr_floordiv(c, rest, i64(c, full)));
    StmtVec body = {0};
    emit_bind(em, ax->var, ax->var->expr);
    Lanes ln = {ax->var, mul_add(c, v->expr, full, start), full, NULL};
    fn(em, &ln, &body, ctx);
    Stmt *loop = loop_of(em->lc, span, v, some, FOR_SERIAL, seq_of(em->a, &body));
    if (loop) vec_push(em->tmp, out, loop);
    start = mul_add(c, some, full, start);
  }
  if (known && full > 1 && n % full == 0) return;
  if (em->use_mask) {
    uint32_t lanes = full;
    int64_t rest = known ? n % full : full;
    while (!fixed && lanes > 2 && lanes / 2 >= rest) lanes /= 2;
    emit_bind(em, ax->var, ax->var->expr);
    const Expr *tail = expr_ceildiv(c, expr_sub(c, ax->extent, start), lanes);
    Var *v = loop_var(c, ax->var->name);
    const Expr *base = mul_add(c, v->expr, lanes, start);
    StmtVec body = {0};
    int64_t one;
    if (expr_const_int(c, tail, &one) && one == 1) base = start;
    Lanes ln = {ax->var, base, lanes, lane_mask(c, base, ax->extent, lanes)};
    fn(em, &ln, &body, ctx);
    Stmt *loop = loop_of(em->lc, span, v, tail, FOR_SERIAL, seq_of(em->a, &body));
    if (loop) vec_push(em->tmp, out, loop);
    return;
  }
  Var *v = loop_var(c, ax->var->name);
  emit_bind(em, ax->var, expr_simplify(c, expr_add(c, start, v->expr)));
  StmtVec body = {0};
  Lanes none = {NULL, NULL, 1, NULL};
  fn(em, &none, &body, ctx);
  Stmt *loop = loop_of(em->lc, span, v, expr_simplify(c, expr_sub(c, ax->extent, start)),
                       FOR_SERIAL, seq_of(em->a, &body));
  if (loop) vec_push(em->tmp, out, loop);
}

/* Loops over axes[0..n) around `body` (variables bound already in em->fixed). */
Stmt *emit_loops_around(Emit *em, const Stage *st, const Axis *axes, Var *const *vars, uint32_t n,
                        Stmt *body, bool unroll) {
  for (uint32_t i = n; body && i-- > 0;) {
    int64_t e;
    ForKind k =
        unroll && expr_const_int(em->c, axes[i].extent, &e) && e <= 8 ? FOR_UNROLL : FOR_SERIAL;
    body = loop_of(em->lc, st->span, vars[i], axes[i].extent, k, body);
  }
  return body;
}

void emit_bind_fresh(Emit *em, const Axis *axes, Var **vars, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    vars[i] = loop_var(em->c, axes[i].var->name);
    emit_bind(em, axes[i].var, vars[i]->expr);
  }
}
