/* Square tiles turned in registers.
 *
 *   y[u, v] = f(x[v, u], ...):  for a tile of T x T, T vectors along u are loaded and computed,
 * then log2(T) rounds of two-vector shuffles turn them into T vectors along v, which are stored.
 *
 * Round d exchanges, for each pair of rows (i, i + d), the lanes whose bit d differs from the
 * row's. Columns that whole tiles leave are those of another tile, of which only they are stored;
 * a few of them, and rows, are gathered. Where only the run tells the extents, the last tiles end
 * with the axes and overlap those before them, and of tiles wider than u only those columns are
 * loaded and stored that exist.
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

/* Where tile number `block` of the axis begins. */
static const Expr *tile_begin(Emit *em, const Stage *st, const Axis *ax, const Var *block,
                              uint32_t n, bool overlap, StmtVec *out) {
  Context *c = em->c;
  const Expr *begin = expr_mul(c, block->expr, i64(c, n));
  if (!overlap) return begin;
  Var *at = loop_var(c, ax->var->name);
  const Expr *last = expr_simplify(c, expr_sub(c, ax->extent, i64(c, n)));
  vec_push(em->tmp, out, stmt_let(em->a, st->span, at, expr_min(c, begin, last)));
  return at->expr;
}

/* What tiles have of u. */
typedef enum {
  COLUMNS_ALL,   /* n each */
  COLUMNS_SHORT, /* u is shorter than a tile, of which only its columns are stored */
  COLUMNS_LAST,  /* those that whole tiles leave, of the last n */
} Columns;

/* nv x nu tiles of n x n; overlap: they reach the ends of the axes, the last ones beginning early.
 */
static void tiles(Emit *em, const Stage *st, const Axis *v, const Axis *u, uint32_t n,
                  const Expr *nv, const Expr *nu, bool overlap, Columns columns, StmtVec *out) {
  Context *c = em->c;
  Span sp = st->span;
  Var *vb = loop_var(c, v->var->name), *ub = loop_var(c, u->var->name);
  const Expr *rows[64];
  StmtVec body = {0}, one = {0};
  bool narrow = columns == COLUMNS_SHORT;
  int64_t width = 0;
  if (columns == COLUMNS_LAST && !expr_const_int(c, u->extent, &width)) bug("columns not counted");
  const Expr *u0 = columns == COLUMNS_ALL ? tile_begin(em, st, u, ub, n, overlap, &one)
                                          : i64(c, narrow ? 0 : width - n);
  const Expr *v0 = tile_begin(em, st, v, vb, n, overlap, &body);
  emit_bind(em, u->var, u->var->expr);
  Lanes along = {u->var, u0, n, narrow ? lane_mask(c, u0, u->extent, n) : NULL};
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
  for (uint32_t r = width % n ? n - width % n : 0; r + narrow < n; r++) {
    emit_bind(em, u->var, expr_simplify(c, expr_add(c, u0, i64(c, r))));
    StmtVec row = {0};
    emit_result(em, st, &across, rows[r], narrow ? &row : &body);
    if (!narrow) continue;
    const Expr *exists = expr_binary(c, EXPR_LT, i64(c, r), u->extent);
    vec_push(em->tmp, &body, stmt_if(em->a, sp, exists, seq_of(em->a, &row), NULL));
  }
  Stmt *loop = loop_over(em, sp, vb, nv, &body);
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
  if (em->g->n != 1 || st->red != RED_NONE || n < 4 || st->out->dtype.bits < 8) return false;
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
  StmtVec edges = {0}, *all = out;
  int64_t vn, un;
  bool known = expr_const_int(c, v->extent, &vn) && expr_const_int(c, u->extent, &un);
  bool overlap = !known && emit_repeats(em, &st, 1), masked = overlap && em->use_mask;
  if (overlap) /* the edges below are for axes shorter than a tile */
    out = &edges;
  else
    tiles(em, st, v, u, n, nv, nu, false, COLUMNS_ALL, out);
  /* the last columns: vectors along v, but from tiles where those are many, or masked */
  const Expr *urest = expr_simplify(c, expr_sub(c, u->extent, udone));
  if (known && un % n > n / 8) {
    tiles(em, st, v, u, n, nv, i64(c, 1), false, COLUMNS_LAST, out);
  } else if (!masked && !expr_is_int(urest, 0)) {
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
  if (overlap) {
    StmtVec whole = {0}, few = {0};
    const Expr *vtiles = expr_ceildiv(c, v->extent, n), *utiles = expr_ceildiv(c, u->extent, n);
    const Expr *vfits = expr_simplify(c, expr_binary(c, EXPR_GE, v->extent, size));
    const Expr *ufits = expr_simplify(c, expr_binary(c, EXPR_GE, u->extent, size));
    Stmt *rest = seq_of(em->a, &edges);
    if (masked && !expr_is_int(ufits, 1)) {
      tiles(em, st, v, u, n, vtiles, i64(c, 1), true, COLUMNS_SHORT, &few);
      rest = stmt_if(em->a, sp, vfits, seq_of(em->a, &few), rest);
    }
    tiles(em, st, v, u, n, vtiles, utiles, true, COLUMNS_ALL, &whole);
    const Expr *fit = expr_simplify(c, expr_binary(c, EXPR_AND, vfits, ufits));
    vec_push(em->tmp, all, stmt_if(em->a, sp, fit, seq_of(em->a, &whole), rest));
  }
  return true;
}
