/* Register-tiled kernels of contractions.
 *
 *   acc[i, j] = 0
 *   for k: b[j] = B[k, column + j]; a = A[row + i, k] in all lanes; acc[i, j] += a * b[j]
 *   epilogue on acc[i, j], stored once
 *
 * A tile is `height` rows of `nv` vectors; its accumulators are registers (a local buffer whose
 * indices are constant once the loops over i and j are unrolled). The loop over k takes four steps
 * at a time. The last columns are stored under a mask; rows that don't exist read the last row that
 * does and store nothing.
 */
#include "passes/loop/tile.h"

#define UNROLL_K 4
#define UNROLL_ALL 12 /* steps of inner k axes that are unrolled whole */
#define SHORT_K 32    /* so few steps gain nothing from several sets of sums */

Buffer *local_vectors(Emit *em, const char *name, DType d, uint32_t n0, uint32_t n1, StmtVec *out) {
  const Expr **shape = ARENA_ARRAY(em->c->arena, const Expr *, 2);
  shape[0] = i64(em->c, n0);
  shape[1] = i64(em->c, n1);
  Buffer *b = buffer_create(em->c, name, d, shape, n1 ? 2 : 1, "local");
  vec_push(em->tmp, out, stmt_alloc(em->a, em->g->stages[0]->span, b));
  return b;
}

Lanes tile_lanes(const Tile *t, const Expr *j, bool whole) {
  const Contraction *con = t->kn->con;
  Context *c = t->kn->em->c;
  Lanes ln = {con->n.var, NULL, con->lanes, NULL};
  ln.base = simp_add(c, t->col, expr_mul(c, j, i64(c, con->lanes)));
  if (con->lines.var) { /* its line, from the first column on */
    const Expr *line = expr_floordiv(c, ln.base, i64(c, con->lanes));
    emit_bind(t->kn->em, con->lines.var, expr_simplify(c, line));
    ln.base = i64(c, 0);
    int64_t n;
    if (expr_const_int(c, con->n.extent, &n) && n < con->lanes)
      ln.mask = lane_mask(c, ln.base, con->n.extent, con->lanes);
    return ln;
  }
  if (t->masked && !whole) ln.mask = lane_mask(c, ln.base, con->n.extent, con->lanes);
  return ln;
}

/* Row i, or the last one that is there. */
static const Expr *tile_row(const Tile *t, const Expr *i, bool exists) {
  Context *c = t->kn->em->c;
  const Expr *row = simp_add(c, t->row, i);
  if (exists) return row;
  return expr_min(c, row, expr_simplify(c, expr_sub(c, t->kn->con->m.extent, i64(c, 1))));
}

static Stmt *unrolled(Emit *em, Var *v, uint32_t n, Stmt *body) {
  return loop_of(em->lc, em->g->stages[0]->span, v, i64(em->c, n), FOR_UNROLL, body);
}

/* A loop over rows or vectors of the tile. */
static Stmt *tile_loop(const Tile *t, Var *v, uint32_t n, Stmt *body) {
  Emit *em = t->kn->em;
  return loop_of(em->lc, em->g->stages[0]->span, v, i64(em->c, n),
                 t->rolled ? FOR_SERIAL : FOR_UNROLL, body);
}

Stmt *each_vector(Tile *t, VectorFn fn, void *ctx) {
  Emit *em = t->kn->em;
  StmtVec out = {0};
  uint32_t whole = t->masked ? t->full : t->nv;
  if (whole > t->nv) whole = t->nv;
  uint32_t from[3] = {0, whole, t->nv};
  for (int p = 0; p < 2; p++) {
    uint32_t n = from[p + 1] - from[p];
    if (!n) continue;
    Var *j = loop_var(em->c, "j");
    const Expr *je = simp_add(em->c, j->expr, i64(em->c, from[p]));
    vec_push(em->tmp, &out, tile_loop(t, j, n, fn(t, je, p == 0, ctx)));
  }
  return seq_of(em->a, &out);
}

/* A statement for row i (an expression) of the tile; exists: in any case. */
typedef Stmt *(*RowFn)(Tile *t, const Expr *i, bool exists, void *ctx);

/* fn for rows [from, to): a loop over those that exist in any case, one over the others; or one
 * over the first of all, one over the last. */
static Stmt *rows_loop(Tile *t, uint32_t from, uint32_t to, RowFn fn, void *ctx) {
  Emit *em = t->kn->em;
  StmtVec out = {0};
  bool apart = !t->rolled || !is_guarded(t); /* else it is one loop, not to have its code twice */
  uint32_t cut = t->ends ? t->head : t->least;
  uint32_t mid = !apart || cut < from ? from : cut < to ? cut : to;
  const Expr *first = t->row;
  uint32_t at[3] = {from, mid, to};
  for (int p = 0; p < 2; p++) {
    uint32_t n = at[p + 1] - at[p];
    if (!n) continue;
    Var *i = loop_var(em->c, "i");
    const Expr *row = simp_add(em->c, i->expr, i64(em->c, at[p]));
    if (t->ends && p == 0) t->row = i64(em->c, 0);
    vec_push(em->tmp, &out, tile_loop(t, i, n, fn(t, row, t->ends || p == 0, ctx)));
    t->row = first;
  }
  return seq_of(em->a, &out);
}

/* What is done for all vectors of a row. */
typedef struct {
  VectorFn fn;
  bool skip; /* unless the row doesn't exist */
} EachRow;

static Stmt *row_vectors(Tile *t, const Expr *i, bool exists, void *ctx) {
  const EachRow *each = ctx;
  Emit *em = t->kn->em;
  Context *c = em->c;
  const Contraction *con = t->kn->con;
  bool skip = each->skip && !exists && con->m.var;
  const Expr *row = tile_row(t, i, exists || skip);
  if (con->m.var) emit_bind(em, con->m.var, row);
  RowCtx rc = {i, NULL};
  Stmt *body = each_vector(t, each->fn, &rc);
  if (!skip) return body;
  return stmt_if(em->a, con->st->span, expr_binary(c, EXPR_LT, row, con->m.extent), body, NULL);
}

Stmt *each_row(Tile *t, VectorFn fn, bool skip) {
  EachRow each = {fn, skip};
  return rows_loop(t, 0, t->height, row_vectors, &each);
}

/* The k that is bound, as one number. */
static const Expr *step_number(const Tile *t) {
  const Contraction *con = t->kn->con;
  Context *c = t->kn->em->c;
  const Expr *k = i64(c, 0);
  for (uint32_t i = 0; i < con->nk; i++)
    k = expr_add(c, expr_mul(c, k, con->k[i].extent), con->k[i].var->expr);
  return subst_vars(c, &t->kn->em->fixed, k);
}

/* Where the task's own panel has vector j of step k. */
static const Expr *own_panel(const Tile *t, const Expr *k, const Expr *j) {
  Context *c = t->kn->em->c;
  if (t->kn->kb) k = expr_sub(c, k, t->kn->k_begin);
  uint32_t lanes = t->kn->con->lanes;
  const Expr *at = expr_add(c, expr_mul(c, k, i64(c, t->nv)), j);
  return expr_ramp(c, expr_simplify(c, expr_mul(c, at, i64(c, lanes))), i64(c, 1), lanes);
}

/* B at the k that is bound, vector j. */
static const Expr *b_vector(Tile *t, const Expr *j, bool whole) {
  Kernel *kn = t->kn;
  const Contraction *con = kn->con;
  Emit *em = kn->em;
  Context *c = em->c;
  DType wide = dtype_lanes(con->d, con->lanes);
  if (!kn->src.panels || t->fills) {
    Lanes ln = tile_lanes(t, j, whole);
    return emit_value(em, &ln, emit_prepare(em, con->b));
  }
  const Expr *k = step_number(t);
  uint32_t w = kn->src.width, tile = t->nv * con->lanes;
  if (kn->src.by_task) {
    const Expr *at = own_panel(t, k, j);
    return expr_load(c, kn->src.panels, &at, 1);
  }
  const Expr *panel, *lane;
  const Expr *jl = expr_mul(c, j, i64(c, con->lanes));
  if (t->align % w == 0 ? tile <= w : w % t->align == 0 && tile <= t->align) { /* within a panel */
    panel = expr_floordiv(c, t->col, i64(c, w));
    lane = expr_add(c, expr_floormod(c, t->col, i64(c, w)), jl);
  } else {
    if (t->align % w == 0) { /* it covers several: constant after unrolling */
      panel = expr_add(c, expr_floordiv(c, t->col, i64(c, w)), expr_floordiv(c, jl, i64(c, w)));
      lane = expr_floormod(c, jl, i64(c, w));
    } else { /* it begins anywhere in one */
      const Expr *col = expr_add(c, t->col, jl);
      panel = expr_floordiv(c, col, i64(c, w));
      lane = expr_floormod(c, col, i64(c, w));
    }
    /* Vectors beyond the last panel are masked off at the end; their loads stay inside. */
    int64_t n;
    if (!whole && !expr_const_int(c, con->n.extent, &n)) {
      const Expr *last = expr_sub(c, expr_ceildiv(c, con->n.extent, w), i64(c, 1));
      panel = expr_min(c, panel, expr_simplify(c, last));
    }
  }
  const Expr *row = expr_add(c, expr_mul(c, panel, con->ktotal), k);
  const Expr *off = expr_simplify(c, expr_add(c, expr_mul(c, row, i64(c, w)), lane));
  off = expr_ramp(c, off, i64(c, 1), con->lanes);
  const Expr *v = expr_load(c, kn->src.panels, &off, 1);
  return dtype_eq(v->dtype, wide) ? v : expr_cast(c, wide, v);
}

/* Vector j of columns with edges, at the steps t->k. */
static const Expr *b_within(Tile *t, uint32_t j) {
  const Contraction *con = t->kn->con;
  Emit *em = t->kn->em;
  Context *c = em->c;
  uint32_t lanes = con->lanes, on = 0;
  int64_t pick[64];
  for (uint32_t l = 0; l < lanes; l++) {
    bool inside = edges_hold(con->edges, (int64_t)j * lanes + l, t->k, con->nk);
    pick[l] = inside ? 0 : lanes;
    on += inside;
  }
  const Expr *pad = expr_broadcast(c, con->pad, lanes);
  if (!on) return pad;
  Lanes ln = {con->n.var, i64(c, (int64_t)j * lanes), lanes, NULL};
  const Expr *both[] = {expr_broadcast(c, expr_bool(c, true), lanes),
                        expr_broadcast(c, expr_bool(c, false), lanes)};
  if (on == lanes) return emit_value(em, &ln, emit_prepare(em, con->b));
  ln.mask = expr_shuffle(c, both, 2, pick, lanes);
  const Expr *inside = emit_value(em, &ln, emit_prepare(em, con->b));
  return is_zero(con->pad) ? inside : expr_select(c, ln.mask, inside, pad);
}

static Stmt *load_b(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)ctx;
  Emit *em = t->kn->em;
  Span sp = t->kn->con->st->span;
  Stmt *load = stmt_store(em->a, sp, t->vb, &j, b_vector(t, j, whole));
  if (!t->fills) return load;
  const Expr *at = own_panel(t, step_number(t), j);
  StmtVec out = {0};
  vec_push(em->tmp, &out, load);
  vec_push(em->tmp, &out,
           stmt_store(em->a, sp, t->kn->src.panels, &at, expr_load(em->c, t->vb, &j, 1)));
  return seq_of(em->a, &out);
}

/* Fewer rows than vectors: A's elements stay in registers during a step of k, B's vectors go by. */
static bool wide_tile(const Tile *t) {
  const Contraction *con = t->kn->con;
  return !con->b_rows && !con->a_columns && t->height > 1 && t->height < t->nv;
}

/* Vector j of the row of A that m is bound to. */
static const Expr *a_vector(Tile *t, const Expr *j, bool whole) {
  Emit *em = t->kn->em;
  Lanes ln = tile_lanes(t, j, whole);
  return emit_value(em, &ln, emit_prepare(em, t->kn->con->a));
}

/* Row i of the set of sums that the step adds to. */
static const Expr *sums_row(const Tile *t, const Expr *i) {
  Context *c = t->kn->em->c;
  return t->phase ? simp_add(c, expr_mul(c, t->phase, i64(c, t->height)), i) : i;
}

static Stmt *multiply(Tile *t, const Expr *j, bool whole, void *ctx) {
  const RowCtx *r = ctx;
  Context *c = t->kn->em->c;
  const Expr *at[] = {sums_row(t, r->i), j};
  const Expr *acc = expr_load(c, t->acc, at, 2);
  if (!t->kn->con->a) {
    const Expr *next = red_combine(c, t->kn->con->st, acc, expr_load(c, t->vb, &j, 1));
    return stmt_store(t->kn->em->a, t->kn->con->st->span, t->acc, at, next);
  }
  const Expr *a = r->a ? expr_load(c, t->va, &r->a, 1) : a_vector(t, j, whole);
  const Expr *args[] = {a, expr_load(c, t->vb, &j, 1), acc};
  DType d = acc->dtype;
  const Expr *v = dtype_is_float(d) ? expr_call(c, INTRIN_fma, d, args, 3)
                                    : expr_add(c, acc, expr_mul(c, args[0], args[1]));
  return stmt_store(t->kn->em->a, t->kn->con->st->span, t->acc, at, v);
}

static void bind_row(const Tile *t, const Expr *i, bool exists) {
  const Contraction *con = t->kn->con;
  if (con->m.var) emit_bind(t->kn->em, con->m.var, tile_row(t, i, exists));
}

/* A's element of the row that m is bound to in all lanes of va[at]. */
static Stmt *load_a(Tile *t, const Expr *at) {
  Emit *em = t->kn->em;
  const Contraction *con = t->kn->con;
  const Expr *a = emit_prepare(em, con->a);
  return stmt_store(em->a, con->st->span, t->va, &at, expr_broadcast(em->c, a, con->lanes));
}

/* Vector j of B against all rows of A, which are in registers. */
static Stmt *multiply_column(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)ctx;
  Emit *em = t->kn->em;
  Var *i = loop_var(em->c, "i");
  StmtVec out = {0};
  RowCtx rc = {simp_add(em->c, i->expr, i64(em->c, t->from)), i->expr};
  vec_push(em->tmp, &out, load_b(t, j, whole, NULL));
  vec_push(em->tmp, &out, unrolled(em, i, t->to - t->from, multiply(t, j, whole, &rc)));
  return seq_of(em->a, &out);
}

/* Its element of A stays in a register. */
static Stmt *keep_a(Tile *t, const Expr *i, bool exists, void *ctx) {
  (void)ctx;
  Context *c = t->kn->em->c;
  bind_row(t, i, exists);
  return load_a(t, simp_sub(c, i, i64(c, t->from)));
}

/* Row i of A against B's vectors, which are in registers unless they are the row's own. */
static Stmt *multiply_row(Tile *t, const Expr *i, bool exists, void *ctx) {
  (void)ctx;
  Emit *em = t->kn->em;
  const Contraction *con = t->kn->con;
  StmtVec out = {0};
  RowCtx rc = {i, con->a_columns ? NULL : i64(em->c, 0)};
  bind_row(t, i, exists);
  if (con->a && !con->a_columns && !con->b_rows) vec_push(em->tmp, &out, load_a(t, rc.a));
  if (con->b_rows) vec_push(em->tmp, &out, each_vector(t, load_b, NULL));
  vec_push(em->tmp, &out, each_vector(t, multiply, &rc));
  return seq_of(em->a, &out);
}

/* One step of k (all k axes are bound). The shorter side of the tile stays in registers. */
static Stmt *k_step(Tile *t) {
  Kernel *kn = t->kn;
  Emit *em = kn->em;
  Context *c = em->c;
  const Contraction *con = kn->con;
  StmtVec out = {0};
  /* Neighbouring windows share elements: kept from one step to the next they would all be spilled,
   * a load from the first level of cache costs nothing. */
  if (con->nk > 1 && !con->b_rows && !con->edges)
    vec_push(em->tmp, &out,
             stmt_eval(em->a, con->st->span, expr_call(c, INTRIN_fence, DT_UNKNOWN, NULL, 0)));
  if (wide_tile(t)) {
    vec_push(em->tmp, &out, rows_loop(t, t->from, t->to, keep_a, NULL));
    vec_push(em->tmp, &out, each_vector(t, multiply_column, NULL));
    return seq_of(em->a, &out);
  }
  for (uint32_t j = 0; con->edges && j < t->nv; j++) {
    const Expr *at = i64(c, j);
    vec_push(em->tmp, &out, stmt_store(em->a, con->st->span, t->vb, &at, b_within(t, j)));
  }
  if (!con->b_rows && !con->edges) vec_push(em->tmp, &out, each_vector(t, load_b, NULL));
  if (con->a && con->b_rows && !con->a_columns) vec_push(em->tmp, &out, load_a(t, i64(c, 0)));
  vec_push(em->tmp, &out, rows_loop(t, t->from, t->to, multiply_row, NULL));
  return seq_of(em->a, &out);
}

static Stmt *k_loops(Tile *t, uint32_t x);

/* Steps of k axis x one by one, each with the rows that have a term there. */
static Stmt *k_by_rows(Tile *t, uint32_t x, const Bound *b) {
  Emit *em = t->kn->em;
  const Axis *k = &t->kn->con->k[x];
  uint32_t from = t->from, to = t->to;
  int64_t n = 0;
  StmtVec out = {0};
  expr_const_int(em->c, k->extent, &n);
  for (int64_t v = 0; v < n; v++) {
    int64_t first = t->ends ? 0 : t->first, lo = first + from, hi = first + to;
    if (t->ends)
      bound_ends(b, v, t->head, t->height, &lo, &hi);
    else
      bound_rows(b, v, &lo, &hi);
    if (lo >= hi) continue;
    t->from = (uint32_t)(lo - first);
    t->to = (uint32_t)(hi - first);
    emit_bind(em, k->var, i64(em->c, v));
    Stmt *step = k_loops(t, x + 1);
    if (step) vec_push(em->tmp, &out, step);
    t->from = from;
    t->to = to;
  }
  return out.n ? seq_of(em->a, &out) : NULL;
}

/* The steps of k axis x that the row around has. */
static Stmt *k_within(Tile *t, uint32_t x, const Bound *b) {
  Emit *em = t->kn->em;
  const Contraction *con = t->kn->con;
  uint32_t i = (uint32_t)(b - con->bounds);
  Var *v = loop_var(em->c, "k");
  emit_bind(em, con->k[x].var, simp_add(em->c, t->k_first[i], v->expr));
  Stmt *body = k_loops(t, x + 1);
  return body ? loop_of(em->lc, con->st->span, v, t->k_count[i], FOR_SERIAL, body) : NULL;
}

/* Steps of k axis x one by one. */
static Stmt *k_each(Tile *t, uint32_t x) {
  Emit *em = t->kn->em;
  const Axis *k = &t->kn->con->k[x];
  int64_t n = 0;
  StmtVec out = {0};
  expr_const_int(em->c, k->extent, &n);
  for (t->k[x] = 0; t->k[x] < n; t->k[x]++) {
    emit_bind(em, k->var, i64(em->c, t->k[x]));
    vec_push(em->tmp, &out, k_loops(t, x + 1));
  }
  return out.n ? seq_of(em->a, &out) : NULL;
}

/* Names for the bounds of those loops. */
static void bind_bounds(Tile *t, StmtVec *out) {
  Emit *em = t->kn->em;
  const Contraction *con = t->kn->con;
  for (uint32_t i = 0; i < con->nbounds; i++) {
    const Bound *b = &con->bounds[i];
    if (b->tiled && !t->kn->by_row) continue;
    const Expr *row = subst_vars(em->c, &em->fixed, b->row->expr), *first, *count;
    bound_steps(em->c, b, row, con->m.extent, con->k[b->k].extent, &first, &count);
    Var *f = loop_var(em->c, "first"), *n = loop_var(em->c, "count");
    vec_push(em->tmp, out, stmt_let(em->a, con->st->span, f, first));
    vec_push(em->tmp, out, stmt_let(em->a, con->st->span, n, count));
    t->k_first[i] = f->expr;
    t->k_count[i] = n->expr;
  }
}

/* Loops over k axes [x, nk). */
static Stmt *k_loops(Tile *t, uint32_t x) {
  Kernel *kn = t->kn;
  Emit *em = kn->em;
  Context *c = em->c;
  const Contraction *con = kn->con;
  Span sp = con->st->span;
  if (x == con->nk) return k_step(t);
  if (con->edges) return k_each(t, x);
  const Bound *b = bound_of(con, x);
  if (b && (!b->tiled || kn->by_row)) return k_within(t, x, b);
  if (b && (t->first >= 0 || t->ends)) return k_by_rows(t, x, b);
  const Axis *k = &con->k[x];
  const Expr *extent = con->k_seen ? con->k_seen : k->extent;
  int64_t steps = 1, e;
  for (uint32_t i = x; i < con->nk; i++)
    steps =
        expr_const_int(c, con->k[i].extent, &e) && steps <= UNROLL_ALL ? steps * e : UNROLL_ALL + 1;
  Var *v = loop_var(c, "k");
  if (steps <= UNROLL_ALL) {
    emit_bind(em, k->var, v->expr);
    Stmt *body = k_loops(t, x + 1);
    return loop_of(em->lc, sp, v, k->extent, FOR_UNROLL, body);
  }
  if (x + 1 < con->nk) {
    StmtVec body = {0};
    int64_t last;
    bool unrolled = expr_const_int(c, con->k[con->nk - 1].extent, &last) && last <= UNROLL_ALL;
    if (x == 0 && unrolled) prefetch_next(t, v->expr, k->extent, &body);
    emit_bind(em, k->var, v->expr);
    Stmt *inner = k_loops(t, x + 1);
    if (inner) vec_push(em->tmp, &body, inner);
    return body.n ? loop_of(em->lc, sp, v, k->extent, FOR_SERIAL, seq_of(em->a, &body)) : NULL;
  }
  const Expr *begin = kn->kb ? kn->k_begin : i64(c, 0);
  const Expr *length = kn->kb ? expr_sub(c, kn->k_end, kn->k_begin) : extent;
  const Expr *four = i64(c, UNROLL_K);
  const Expr *count = expr_simplify(c, expr_floordiv(c, length, four));
  StmtVec out = {0};
  Var *u = loop_var(c, "ku");
  const Expr *at = expr_add(c, expr_add(c, begin, expr_mul(c, v->expr, four)), u->expr);
  emit_bind(em, k->var, expr_simplify(c, at));
  if (t->phases > 1) t->phase = expr_simplify(c, expr_floormod(c, u->expr, i64(c, t->phases)));
  Stmt *body = k_step(t);
  t->phase = NULL;
  body = loop_of(em->lc, sp, u, four, FOR_UNROLL, body);
  StmtVec both = {0};
  const Expr *all = expr_floordiv(c, kn->kb ? kn->k_block : k->extent, four), *step = v->expr;
  if (x) { /* counted over the loops around, too */
    const Expr *around = i64(c, 0), *times = i64(c, 1);
    for (uint32_t i = 0; i < x; i++) {
      around = expr_add(c, expr_mul(c, around, con->k[i].extent), con->k[i].var->expr);
      times = expr_mul(c, times, con->k[i].extent);
    }
    step = simp_add(c, expr_mul(c, subst_vars(c, &em->fixed, around), count), step);
    all = expr_mul(c, times, all);
  }
  prefetch_next(t, step, expr_simplify(c, all), &both);
  if (body) vec_push(em->tmp, &both, body);
  Stmt *main = loop_of(em->lc, sp, v, count, FOR_SERIAL, seq_of(em->a, &both));
  if (main) vec_push(em->tmp, &out, main);
  const Expr *rest = expr_simplify(c, expr_sub(c, length, expr_mul(c, count, four)));
  if (!expr_is_int(rest, 0)) {
    Var *r = loop_var(c, "kr");
    at = expr_add(c, expr_add(c, begin, expr_mul(c, count, four)), r->expr);
    emit_bind(em, k->var, expr_simplify(c, at));
    Stmt *tail = loop_of(em->lc, sp, r, rest, FOR_SERIAL, k_step(t));
    if (tail) vec_push(em->tmp, &out, tail);
  }
  return out.n ? seq_of(em->a, &out) : NULL;
}

/* A small tile has fewer chains of additions than keep the multiply-adds busy: several sets of sums
 * take turns. */
static uint32_t count_phases(const Tile *t) {
  const Contraction *con = t->kn->con;
  const Variant *v = t->kn->em->s->v;
  uint32_t sums = t->height * t->nv, n = 1;
  int64_t k;
  if (con->nk != 1 || !con->a || con->b_rows || con->edges || con->windows || con->nbounds ||
      (expr_const_int(t->kn->em->c, con->ktotal, &k) && k < SHORT_K))
    return 1;
  while (n < UNROLL_K && sums * n < v->fma_chains && sums * (2 * n + 1) + 2 <= v->vector_regs)
    n *= 2;
  return n;
}

/* The sets of sums after the first begin at zero. */
static Stmt *clear_set(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  const RowCtx *r = ctx;
  Context *c = t->kn->em->c;
  const Contraction *con = t->kn->con;
  const Expr *at[] = {simp_add(c, r->i, i64(c, t->height)), j};
  const Expr *zero = expr_broadcast(c, expr_lit(c, con->d, 0), con->lanes);
  return stmt_store(t->kn->em->a, con->st->span, t->acc, at, zero);
}

/* What ctx's `a` rows further on has come to is added. */
static Stmt *add_set(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  const RowCtx *r = ctx;
  Context *c = t->kn->em->c;
  const Expr *to[] = {r->i, j}, *from[] = {simp_add(c, r->i, r->a), j};
  const Expr *sum = expr_add(c, expr_load(c, t->acc, to, 2), expr_load(c, t->acc, from, 2));
  return stmt_store(t->kn->em->a, t->kn->con->st->span, t->acc, to, sum);
}

/* fn for n rows of sums, which may be of several sets. */
static void each_sum(Tile *t, VectorFn fn, uint32_t n, uint32_t distance, StmtVec *out) {
  Emit *em = t->kn->em;
  Var *i = loop_var(em->c, "i");
  RowCtx rc = {i->expr, i64(em->c, distance)};
  Stmt *loop = n ? unrolled(em, i, n, each_vector(t, fn, &rc)) : NULL;
  if (loop) vec_push(em->tmp, out, loop);
}

Stmt *emit_tile(Tile *t) {
  Emit *em = t->kn->em;
  const Contraction *con = t->kn->con;
  StmtVec out = {0};
  DType wide = dtype_lanes(con->d, con->lanes);
  emit_bind(em, con->n.var, con->n.var->expr);
  t->phases = count_phases(t);
  t->acc = local_vectors(em, "acc", wide, t->height * t->phases, t->nv, &out);
  if (con->a && !con->a_columns)
    t->va = local_vectors(em, "va", wide, wide_tile(t) ? t->height : 1, 0, &out);
  t->vb = local_vectors(em, "vb", wide, t->nv, 0, &out);
  vec_push(em->tmp, &out, sums_begin(t));
  each_sum(t, clear_set, t->height * (t->phases - 1), 0, &out);
  t->from = 0;
  t->to = t->height;
  if (t->kn->by_row) bind_row(t, i64(em->c, 0), true);
  bind_bounds(t, &out);
  WindowTile part = {t->row,    t->col,         t->first,          t->height,    t->nv,
                     t->vector, t->rows_inside, t->columns_inside, is_guarded(t)};
  Stmt *loops = !con->windows            ? k_loops(t, 0)
                : con->windows->is_sized ? windows_steps(em, con, t->acc, &part)
                                         : borders_steps(em, con, t->acc, &part);
  if (loops) vec_push(em->tmp, &out, loops);
  for (uint32_t n = t->phases / 2; n; n /= 2)
    each_sum(t, add_set, t->height * n, t->height * n, &out);
  vec_push(em->tmp, &out, sums_end(t));
  return seq_of(em->a, &out);
}
