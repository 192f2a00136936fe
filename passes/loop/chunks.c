/* Loops over an axis that runs over lanes.
 *
 * The main loop takes several vectors at a time. What is left of a known extent is done in single
 * vectors and a narrower one, under a mask or in scalars. Where only the run tells the extent, the
 * last vector ends with the axis and overlaps the one before it, if computing elements twice does
 * no harm: a loop without masks, whose stores the processor joins with their neighbours. An axis
 * shorter than a vector is one masked vector, or scalars where masks are slow.
 */
#include "passes/loop/emit.h"

static const Expr *mul_add(Context *c, const Expr *a, int64_t k, const Expr *b) {
  const Expr *m = expr_mul(c, a, i64(c, k));
  return expr_simplify(c, b ? expr_add(c, m, b) : m);
}

/* fn for ln.lanes elements from ln.base; for one there without lanes. */
static void emit_chunk(Emit *em, const Chunks *ch, Lanes ln, StmtVec *out) {
  ln.var = ln.lanes > 1 ? ch->ax->var : NULL;
  emit_bind(em, ch->ax->var, ln.var ? ln.var->expr : ln.base);
  ch->fn(em, &ln, out, ch->ctx);
}

const Expr *emit_whole_chunks(Emit *em, const Chunks *ch, uint32_t lanes, const Expr *start,
                              StmtVec *out) {
  Context *c = em->c;
  Var *v = loop_var(c, ch->ax->var->name);
  StmtVec body = {0};
  const Expr *left = expr_simplify(c, expr_sub(c, ch->ax->extent, start));
  const Expr *count = expr_simplify(c, expr_floordiv(c, left, i64(c, lanes)));
  if (expr_is_int(count, 0)) return start;
  emit_chunk(em, ch, (Lanes){NULL, mul_add(c, v->expr, lanes, start), lanes, NULL}, &body);
  Stmt *loop = loop_of(em->lc, ch->span, v, count, FOR_SERIAL, seq_of(em->a, &body));
  if (ch->grain && expr_is_int(start, 0) && loop && loop->kind == STMT_FOR)
    loop_set_parallel(em->lc, loop, ch->grain / lanes > 0 ? ch->grain / lanes : 1);
  if (loop) vec_push(em->tmp, out, loop);
  return mul_add(c, count, lanes, start);
}

/* The elements from start on, fewer than `lanes`: under a mask, or one by one. */
static void emit_part(Emit *em, const Chunks *ch, const Expr *start, uint32_t lanes, StmtVec *out) {
  const Expr *mask = lane_mask(em->c, start, ch->ax->extent, lanes);
  if (em->use_mask && lanes > 1)
    emit_chunk(em, ch, (Lanes){NULL, start, lanes, mask}, out);
  else
    emit_whole_chunks(em, ch, 1, start, out);
}

/* Vectors from start on, of which the last ends with the axis. */
static void emit_overlapping(Emit *em, const Chunks *ch, const Expr *start, StmtVec *out) {
  Context *c = em->c;
  Var *v = loop_var(c, ch->ax->var->name), *at = loop_var(c, ch->ax->var->name);
  const Expr *count = expr_ceildiv(c, expr_sub(c, ch->ax->extent, start), ch->full);
  const Expr *last = expr_simplify(c, expr_sub(c, ch->ax->extent, i64(c, ch->full)));
  const Expr *base = expr_min(c, mul_add(c, v->expr, ch->full, start), last);
  StmtVec body = {0};
  vec_push(em->tmp, &body, stmt_let(em->a, ch->span, at, base));
  emit_chunk(em, ch, (Lanes){NULL, at->expr, ch->full, NULL}, &body);
  Stmt *loop = loop_of(em->lc, ch->span, v, count, FOR_SERIAL, seq_of(em->a, &body));
  if (loop) vec_push(em->tmp, out, loop);
}

void emit_left(Emit *em, const Chunks *ch, const Expr *start, StmtVec *out) {
  Context *c = em->c;
  const Expr *extent = ch->ax->extent, *full = i64(c, ch->full);
  const Expr *part = expr_simplify(c, expr_floormod(c, extent, full));
  if (ch->repeats && !expr_is_int(part, 0)) {
    emit_overlapping(em, ch, start, out);
    return;
  }
  start = emit_whole_chunks(em, ch, ch->full, start, out);
  if (expr_is_int(part, 0)) return;
  StmtVec rest = {0};
  emit_part(em, ch, start, ch->full, &rest);
  const Expr *some = expr_binary(c, EXPR_LT, start, extent);
  if (rest.n) vec_push(em->tmp, out, stmt_if(em->a, ch->span, some, seq_of(em->a, &rest), NULL));
}

void emit_or_part(Emit *em, const Chunks *ch, const StmtVec *whole, StmtVec *out) {
  Context *c = em->c;
  const Expr *full = i64(c, ch->full), *part = expr_floormod(c, ch->ax->extent, full);
  StmtVec few = {0};
  if (!ch->repeats || expr_is_int(expr_simplify(c, part), 0)) {
    for (uint32_t i = 0; i < whole->n; i++) vec_push(em->tmp, out, whole->at[i]);
    return;
  }
  emit_part(em, ch, i64(c, 0), ch->full, &few);
  const Expr *test = expr_binary(c, EXPR_GE, ch->ax->extent, full);
  vec_push(em->tmp, out, stmt_if(em->a, ch->span, test, seq_of(em->a, whole), seq_of(em->a, &few)));
}

/* An extent that only the run tells: ever fewer vectors at a time. */
static void emit_symbolic(Emit *em, const Chunks *ch, StmtVec *out) {
  StmtVec whole = {0};
  const Expr *start = i64(em->c, 0);
  for (uint32_t n = ch->unroll; n > 1; n = n > 4 ? 4 : 1)
    start = emit_whole_chunks(em, ch, n * ch->full, start, &whole);
  emit_left(em, ch, start, &whole);
  emit_or_part(em, ch, &whole, out);
}

static void emit_static(Emit *em, const Chunks *ch, int64_t n, StmtVec *out) {
  Context *c = em->c;
  uint32_t full = ch->full, wide = full * ch->unroll;
  while (wide > full && (int64_t)wide > n) wide /= 2;
  if (!em->use_mask)
    while (wide > 1 && (int64_t)wide > n) wide /= 2;
  const Expr *start = emit_whole_chunks(em, ch, wide, i64(c, 0), out);
  if (n % wide == 0) return;
  if (wide > full) start = emit_whole_chunks(em, ch, full, start, out);
  if (n % full == 0) return;
  uint32_t lanes = full;
  while (ch->narrows && lanes > 2 && (int64_t)lanes / 2 >= n % full) lanes /= 2;
  emit_part(em, ch, start, lanes, out);
}

void emit_chunks(Emit *em, const Chunks *ch, StmtVec *out) {
  int64_t n;
  emit_bind(em, ch->ax->var, ch->ax->var->expr);
  if (expr_const_int(em->c, ch->ax->extent, &n))
    emit_static(em, ch, n, out);
  else
    emit_symbolic(em, ch, out);
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
