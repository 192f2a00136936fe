/* Square tiles turned in registers.
 *
 *   y[u, v] = f(x[v, u], ...):  for a tile of T x T, T vectors along u are loaded and computed,
 * then log2(T) rounds of two-vector shuffles turn them into T vectors along v, which are stored.
 *
 * Round d exchanges, for each pair of rows (i, i + d), the lanes whose bit d differs from the
 * row's. What is left at the edges is gathered.
 */
#include "passes/loop/emit.h"

void transpose_rows(Emit *em, Span span, const Expr **rows, uint32_t n, StmtVec *out) {
  Context *c = em->c;
  int64_t low[64], high[64];
  if (n > 64 || (n & (n - 1))) bug("a tile of %u rows", n);
  for (uint32_t d = 1; d < n; d *= 2) {
    for (uint32_t l = 0; l < n; l++) {
      low[l] = l & d ? n + l - d : l;
      high[l] = l & d ? n + l : l + d;
    }
    for (uint32_t i = 0; i < n; i++) {
      if (i & d) continue;
      const Expr *pair[] = {rows[i], rows[i + d]};
      const Expr *turned[] = {expr_shuffle(c, pair, 2, low, n), expr_shuffle(c, pair, 2, high, n)};
      for (uint32_t k = 0; k < 2; k++) {
        Var *r = var_create(c, "row", turned[k]->dtype);
        vec_push(em->tmp, out, stmt_let(em->a, span, r, turned[k]));
        rows[i + k * d] = r->expr;
      }
    }
  }
}

typedef struct {
  Emit *em;
  const Stage *st;
  const Var *u;
  bool ok;
} Check;
static void check_load(const Expr *load, void *ctx) {
  Check *k = ctx;
  const Dim *d = flat_offset(k->em->lc, load->buf, load->arg);
  const Dim *s = stride_of(k->em->lc, k->st, d, k->u);
  int64_t v;
  if (!s || !dim_is_const(s, &v) || (v != 0 && v != 1)) k->ok = false;
}

static bool is_lazy(const Expr *e, void *ctx) {
  bool *lazy = ctx;
  if (e->kind == EXPR_CALL && e->intrin == INTRIN_if_then_else) *lazy = true;
  return !*lazy;
}

/* All bodies of one (v, u) position or vector of them. */
static void element(Emit *em, const Stage *st, const Lanes *ln, StmtVec *out) {
  emit_result(em, st, ln, emit_value(em, ln, emit_prepare(em, st->value)), out);
}

static Stmt *loop_over(Emit *em, Span sp, Var *v, const Expr *extent, const StmtVec *body) {
  return body->n ? loop_of(em->lc, sp, v, extent, FOR_SERIAL, seq_of(em->a, body)) : NULL;
}

static void tiles(Emit *em, const Stage *st, const Axis *v, const Axis *u, uint32_t n,
                  const Expr *nv, const Expr *nu, StmtVec *out) {
  Context *c = em->c;
  Span sp = st->span;
  Var *vb = loop_var(c, v->var->name), *ub = loop_var(c, u->var->name);
  const Expr *rows[64], *size = i64(c, n);
  const Expr *v0 = expr_mul(c, vb->expr, size), *u0 = expr_mul(c, ub->expr, size);
  StmtVec body = {0};
  emit_bind(em, u->var, u->var->expr);
  Lanes along = {u->var, u0, n, NULL};
  for (uint32_t r = 0; r < n; r++) {
    emit_bind(em, v->var, expr_simplify(c, expr_add(c, v0, i64(c, r))));
    const Expr *value = emit_value(em, &along, emit_prepare(em, st->value));
    Var *x = var_create(c, "row", value->dtype);
    vec_push(em->tmp, &body, stmt_let(em->a, sp, x, value));
    rows[r] = x->expr;
  }
  transpose_rows(em, sp, rows, n, &body);
  emit_bind(em, v->var, v->var->expr);
  Lanes across = {v->var, v0, n, NULL};
  for (uint32_t r = 0; r < n; r++) {
    emit_bind(em, u->var, expr_simplify(c, expr_add(c, u0, i64(c, r))));
    emit_result(em, st, &across, rows[r], &body);
  }
  Stmt *loop = loop_over(em, sp, vb, nv, &body);
  StmtVec one = {0};
  if (loop) vec_push(em->tmp, &one, loop);
  loop = loop_over(em, sp, ub, nu, &one);
  if (loop) vec_push(em->tmp, out, loop);
}

bool transpose_emit(Emit *em, const Axis *v, const Axis *u, StmtVec *out) {
  Context *c = em->c;
  const Stage *st = em->g->stages[0];
  Span sp = st->span;
  uint32_t n = variant_lanes(em->s->v, st->out->dtype);
  if (n > 16) n = 16;
  if (em->g->n != 1 || st->red != RED_NONE || n < 4 || st->out->dtype.bits < 8)
    return false;
  Check k = {em, st, u->var, true};
  expr_loads(st->value, check_load, &k);
  bool lazy = false;
  expr_walk(st->value, is_lazy, &lazy);
  if (!k.ok || lazy) return false;
  int64_t e;
  if ((expr_const_int(c, v->extent, &e) && e < n) || (expr_const_int(c, u->extent, &e) && e < n))
    return false;
  const Expr *size = i64(c, n);
  const Expr *nv = expr_simplify(c, expr_floordiv(c, v->extent, size));
  const Expr *nu = expr_simplify(c, expr_floordiv(c, u->extent, size));
  const Expr *vdone = expr_simplify(c, expr_mul(c, nv, size));
  const Expr *udone = expr_simplify(c, expr_mul(c, nu, size));
  tiles(em, st, v, u, n, nv, nu, out);
  /* the last columns: vectors along v */
  const Expr *urest = expr_simplify(c, expr_sub(c, u->extent, udone));
  if (!expr_is_int(urest, 0)) {
    Var *vb = loop_var(c, v->var->name), *ur = loop_var(c, u->var->name);
    StmtVec body = {0}, row = {0};
    emit_bind(em, u->var, expr_simplify(c, expr_add(c, udone, ur->expr)));
    emit_bind(em, v->var, v->var->expr);
    Lanes ln = {v->var, expr_mul(c, vb->expr, size), n, NULL};
    element(em, st, &ln, &body);
    Stmt *loop = loop_over(em, sp, vb, nv, &body);
    if (loop) vec_push(em->tmp, &row, loop);
    loop = loop_over(em, sp, ur, urest, &row);
    if (loop) vec_push(em->tmp, out, loop);
  }
  /* the last rows: a masked vector along v, or one by one */
  const Expr *vrest = expr_simplify(c, expr_sub(c, v->extent, vdone));
  if (!expr_is_int(vrest, 0)) {
    Var *vr = loop_var(c, v->var->name), *uu = loop_var(c, u->var->name);
    StmtVec body = {0}, row = {0};
    emit_bind(em, u->var, uu->expr);
    Lanes ln = {NULL, NULL, 1, NULL};
    if (em->use_mask) {
      emit_bind(em, v->var, v->var->expr);
      ln = (Lanes){v->var, vdone, n, lane_mask(c, vdone, v->extent, n)};
      vrest = expr_min(c, vrest, i64(c, 1));
    } else {
      emit_bind(em, v->var, expr_simplify(c, expr_add(c, vdone, vr->expr)));
    }
    element(em, st, &ln, &body);
    Stmt *loop = loop_over(em, sp, uu, u->extent, &body);
    if (loop) vec_push(em->tmp, &row, loop);
    loop = loop_over(em, sp, vr, vrest, &row);
    if (loop) vec_push(em->tmp, out, loop);
  }
  return true;
}
