/* Register-tiled kernels of contractions.
 *
 *   acc[i, j] = 0
 *   for k: b[j] = B[k, column + j]; a = A[row + i, k] in all lanes; acc[i, j] += a * b[j]
 *   epilogue on acc[i, j], stored once
 *
 * A tile is `height` rows of `nv` vectors; its accumulators are registers (a local buffer whose
 * indices are constant once the loops over i and j are unrolled). The loop over k takes four steps
 * at a time. The last columns are stored under a mask; rows that don't exist read the last row that
 * does and store nothing. Order: blocks of rows, panels, a panel's tiles: the block of
 * A stays in L2, a panel of B in L1.
 */
#include "passes/loop/contraction.h"

#define BLOCK_ROWS 96
#define MANY_TASKS 64              /* so many share work evenly among a few threads */
#define TASK_WORK (1 << 18)        /* multiply-adds; with fewer a thread doesn't pay */
#define PREFETCH_BYTES (8 * 1024)  /* a panel smaller than this isn't prefetched */
#define IN_PLACE_BYTES (64 * 1024) /* a smaller B that is read in place isn't either */
#define PREFETCH_LINES 8           /* of a panel in one step, at most */
#define UNROLL_K 4
#define UNROLL_ALL 12 /* steps of inner k axes that are unrolled whole */

typedef struct {
  Kernel *kn;
  const Expr *row; /* first row */
  const Expr *col; /* first column */
  uint32_t height, nv;
  uint32_t vector;     /* the first one of windows, of their row */
  uint32_t align;      /* col is a multiple of it */
  uint32_t from, to;   /* rows that have a term in the steps of k being emitted */
  int64_t k[MAX_AXES]; /* steps of the axes of k, where columns have edges */
  int64_t first;       /* the first row's number, of a tile at the border; else -1 */
  const Expr *k_first[MAX_BOUNDS], *k_count[MAX_BOUNDS]; /* steps where a row around bounds them */
  bool guard;
  bool masked;        /* columns at or after n's extent are off */
  uint32_t full;      /* vectors below this index are whole even if masked */
  const Expr *number; /* of the tile among those of its panel, or NULL: just one */
  const Expr *tiles;  /* of a panel, about */
  Buffer *acc, *va, *vb;
  Buffer *sums; /* what the epilogue reads: acc, or its copy in memory */
  bool rolled;  /* loops over rows and vectors stay loops */
} Tile;

static const Expr *simp_add(Context *c, const Expr *a, const Expr *b) {
  return expr_simplify(c, expr_add(c, a, b));
}

static Buffer *local_vectors(Emit *em, const char *name, DType d, uint32_t n0, uint32_t n1,
                             StmtVec *out) {
  const Expr **shape = ARENA_ARRAY(em->c->arena, const Expr *, 2);
  shape[0] = i64(em->c, n0);
  shape[1] = i64(em->c, n1);
  Buffer *b = buffer_create(em->c, name, d, shape, n1 ? 2 : 1, "local");
  vec_push(em->tmp, out, stmt_alloc(em->a, em->g->stages[0]->span, b));
  return b;
}

/* The lanes of vector j (an expression) of the tile. */
static Lanes tile_lanes(const Tile *t, const Expr *j, bool whole) {
  const Contraction *con = t->kn->con;
  Context *c = t->kn->em->c;
  Lanes ln = {con->n.var, NULL, con->lanes, NULL};
  ln.base = simp_add(c, t->col, expr_mul(c, j, i64(c, con->lanes)));
  if (t->masked && !whole) ln.mask = lane_mask(c, ln.base, con->n.extent, con->lanes);
  return ln;
}

static const Expr *tile_row(const Tile *t, const Expr *i) {
  Context *c = t->kn->em->c;
  const Expr *row = simp_add(c, t->row, i);
  if (!t->guard) return row;
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

/* A statement per vector of the tile: a loop where all are alike, else one by one. */
typedef Stmt *(*VectorFn)(Tile *t, const Expr *j, bool whole, void *ctx);
static Stmt *each_vector(Tile *t, VectorFn fn, void *ctx) {
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

/* B at the k that is bound, vector j. */
static const Expr *b_vector(Tile *t, const Expr *j, bool whole) {
  Kernel *kn = t->kn;
  const Contraction *con = kn->con;
  Emit *em = kn->em;
  Context *c = em->c;
  DType wide = dtype_lanes(con->d, con->lanes);
  if (!kn->src.panels) {
    Lanes ln = tile_lanes(t, j, whole);
    return emit_value(em, &ln, emit_prepare(em, con->b));
  }
  const Expr *k = i64(c, 0);
  for (uint32_t i = 0; i < con->nk; i++)
    k = expr_add(c, expr_mul(c, k, con->k[i].extent), con->k[i].var->expr);
  k = subst_vars(c, &em->fixed, k);
  uint32_t w = kn->src.width, tile = t->nv * con->lanes;
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
  if (!on) return expr_broadcast(c, expr_lit(c, con->d, 0), lanes);
  Lanes ln = {con->n.var, i64(c, (int64_t)j * lanes), lanes, NULL};
  const Expr *both[] = {expr_broadcast(c, expr_bool(c, true), lanes),
                        expr_broadcast(c, expr_bool(c, false), lanes)};
  if (on < lanes) ln.mask = expr_shuffle(c, both, 2, pick, lanes);
  return emit_value(em, &ln, emit_prepare(em, con->b));
}

static Stmt *load_b(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)ctx;
  return stmt_store(t->kn->em->a, t->kn->con->st->span, t->vb, &j, b_vector(t, j, whole));
}

/* Fewer rows than vectors: A's elements stay in registers during a step of k, B's vectors go by. */
static bool wide_tile(const Tile *t) {
  return !t->kn->con->b_rows && t->height > 1 && t->height < t->nv;
}

typedef struct {
  const Expr *i; /* row */
  const Expr *a; /* its place in va */
} RowCtx;

static Stmt *multiply(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  const RowCtx *r = ctx;
  Context *c = t->kn->em->c;
  const Expr *at[] = {r->i, j};
  const Expr *acc = expr_load(c, t->acc, at, 2);
  const Expr *args[] = {expr_load(c, t->va, &r->a, 1), expr_load(c, t->vb, &j, 1), acc};
  DType d = acc->dtype;
  const Expr *v = dtype_is_float(d) ? expr_call(c, INTRIN_fma, d, args, 3)
                                    : expr_add(c, acc, expr_mul(c, args[0], args[1]));
  return stmt_store(t->kn->em->a, t->kn->con->st->span, t->acc, at, v);
}

/* Row i of those of the tile that have a term in this step. */
static const Expr *row_with_term(const Tile *t, const Var *i) {
  return simp_add(t->kn->em->c, i->expr, i64(t->kn->em->c, t->from));
}

/* A's element of row i in all lanes of va[at]. */
static Stmt *load_a(Tile *t, const Expr *i, const Expr *at) {
  Emit *em = t->kn->em;
  const Contraction *con = t->kn->con;
  if (con->m.var) emit_bind(em, con->m.var, tile_row(t, i));
  const Expr *a = emit_prepare(em, con->a);
  return stmt_store(em->a, con->st->span, t->va, &at, expr_broadcast(em->c, a, con->lanes));
}

/* Vector j of B against all rows of A, which are in registers. */
static Stmt *multiply_column(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)ctx;
  Emit *em = t->kn->em;
  Var *i = loop_var(em->c, "i");
  StmtVec out = {0};
  RowCtx rc = {row_with_term(t, i), i->expr};
  vec_push(em->tmp, &out, load_b(t, j, whole, NULL));
  vec_push(em->tmp, &out, unrolled(em, i, t->to - t->from, multiply(t, j, whole, &rc)));
  return seq_of(em->a, &out);
}

/* One step of k (all k axes are bound). The shorter side of the tile stays in registers. */
static Stmt *k_step(Tile *t) {
  Kernel *kn = t->kn;
  Emit *em = kn->em;
  Context *c = em->c;
  const Contraction *con = kn->con;
  StmtVec out = {0}, row = {0};
  /* Neighbouring windows share elements: kept from one step to the next they would all be spilled,
   * a load from the first level of cache costs nothing. */
  if (con->nk > 1 && !con->b_rows && !con->edges)
    vec_push(em->tmp, &out,
             stmt_eval(em->a, con->st->span, expr_call(c, INTRIN_fence, DT_UNKNOWN, NULL, 0)));
  Var *i = loop_var(c, "i");
  if (wide_tile(t)) {
    Stmt *load = load_a(t, row_with_term(t, i), i->expr);
    vec_push(em->tmp, &out, unrolled(em, i, t->to - t->from, load));
    vec_push(em->tmp, &out, each_vector(t, multiply_column, NULL));
    return seq_of(em->a, &out);
  }
  RowCtx rc = {row_with_term(t, i), i64(c, 0)};
  for (uint32_t j = 0; con->edges && j < t->nv; j++) {
    const Expr *at = i64(c, j);
    vec_push(em->tmp, &out, stmt_store(em->a, con->st->span, t->vb, &at, b_within(t, j)));
  }
  if (!con->b_rows && !con->edges) vec_push(em->tmp, &out, each_vector(t, load_b, NULL));
  vec_push(em->tmp, con->b_rows ? &out : &row, load_a(t, rc.i, rc.a));
  if (con->b_rows) vec_push(em->tmp, &row, each_vector(t, load_b, NULL));
  vec_push(em->tmp, &row, each_vector(t, multiply, &rc));
  vec_push(em->tmp, &out, unrolled(em, i, t->to - t->from, seq_of(em->a, &row)));
  return seq_of(em->a, &out);
}

/* How many of `lines` each step of a tile's k loop brings in, so that all tiles of these columns
 * together bring in all of them. */
static const Expr *prefetch_share(const Tile *t, int64_t lines, const Expr *steps) {
  Context *c = t->kn->em->c;
  const Expr *done = expr_max(c, expr_mul(c, steps, t->tiles), i64(c, 1));
  const Expr *each = expr_floordiv(c, expr_add(c, done, i64(c, lines - 1)), done);
  const Expr *most = i64(c, PREFETCH_LINES); /* none for a single tile, which reads them but once */
  most = expr_min(c, most, expr_mul(c, most, expr_sub(c, t->tiles, i64(c, 1))));
  return expr_simplify(c, expr_min(c, each, most));
}

/* for l in range(each): prefetch(load), where load reads l; NULL: none. */
static Stmt *prefetch_lines(const Tile *t, Var *l, const Expr *each, const Expr *load) {
  Emit *em = t->kn->em;
  Span sp = t->kn->con->st->span;
  const Expr *address = expr_call(em->c, INTRIN_address_of, DT_HANDLE, &load, 1);
  const Expr *fetch = expr_call(em->c, INTRIN_prefetch, DT_UNKNOWN, &address, 1);
  ForKind kind = each->kind == EXPR_INT ? FOR_UNROLL : FOR_SERIAL;
  return loop_of(em->lc, sp, l, each, kind, stmt_eval(em->a, sp, fetch));
}

/* The panels of the next columns. */
static void prefetch_panels(Tile *t, const Expr *step, const Expr *steps, StmtVec *out) {
  Kernel *kn = t->kn;
  Context *c = kn->em->c;
  const Contraction *con = kn->con;
  int64_t k, w = kn->src.width, elem = (int64_t)dtype_bytes(con->d), line = 64 / elem;
  int64_t tile = (int64_t)t->nv * con->lanes, panels = tile > w ? tile / w : 1;
  const Expr *each = i64(c, 1);
  if (expr_const_int(c, kn->kb ? kn->k_block : con->ktotal, &k)) {
    if (k * w * elem < PREFETCH_BYTES) return;
    each = prefetch_share(t, k * w * elem / 64, steps);
  }
  Var *p = loop_var(c, "next"), *l = loop_var(c, "line");
  const Expr *panel = expr_floordiv(c, expr_add(c, t->col, i64(c, panels * w)), i64(c, w));
  const Expr *row = expr_mul(c, expr_add(c, panel, p->expr), con->ktotal);
  if (kn->kb) row = expr_add(c, row, kn->k_begin);
  const Expr *at = expr_add(c, expr_mul(c, t->number, steps), step);
  at = expr_mul(c, expr_add(c, expr_mul(c, at, each), l->expr), i64(c, line));
  at = expr_simplify(c, expr_add(c, expr_mul(c, row, i64(c, w)), at));
  Stmt *s = prefetch_lines(t, l, each, expr_load(c, kn->src.panels, &at, 1));
  if (!s) return;
  vec_push(kn->em->tmp, out, loop_of(kn->em->lc, con->st->span, p, i64(c, panels), FOR_UNROLL, s));
}

/* The rows of B in the next columns, where B is read in place: pieces of lines far from each other,
 * which hardware doesn't foresee. */
static void prefetch_rows(Tile *t, const Expr *step, const Expr *steps, StmtVec *out) {
  Kernel *kn = t->kn;
  Emit *em = kn->em;
  Context *c = em->c;
  const Contraction *con = kn->con;
  int64_t k, n, elem = (int64_t)dtype_bytes(con->d), line = 64 / elem;
  int64_t tile = (int64_t)t->nv * con->lanes, pieces = (tile + line - 1) / line;
  if (con->nk != 1 || !con->b_unit || con->b_rows || tile % line) return;
  if (!expr_const_int(c, con->ktotal, &k)) return;
  if (expr_const_int(c, con->n.extent, &n) && n * k * elem < IN_PLACE_BYTES) return;
  if (kn->kb && !expr_const_int(c, kn->k_block, &k)) return;
  const Expr *each = prefetch_share(t, k * pieces, steps);
  Var *l = loop_var(c, "line");
  const Expr *at = expr_add(c, expr_mul(c, t->number, steps), step);
  at = expr_add(c, expr_mul(c, at, each), l->expr);
  const Expr *row = expr_min(c, expr_floordiv(c, at, i64(c, pieces)), i64(c, k - 1));
  if (kn->kb) row = expr_add(c, row, kn->k_begin);
  const Expr *piece = expr_mul(c, expr_floormod(c, at, i64(c, pieces)), i64(c, line));
  emit_bind(em, con->k[0].var, expr_simplify(c, row));
  emit_bind(em, con->n.var, simp_add(c, expr_add(c, t->col, i64(c, tile)), piece));
  const Expr *load = emit_prepare(em, factor_load(con->b));
  emit_bind(em, con->n.var, con->n.var->expr);
  Stmt *s = prefetch_lines(t, l, each, load);
  if (s) vec_push(em->tmp, out, s);
}

/* What the tiles of the next columns will read, in each of `steps` steps of this one's k loop.
 * Nothing where that isn't worth it. */
static void prefetch_next(Tile *t, const Expr *step, const Expr *steps, StmtVec *out) {
  if (!t->number) return;
  if (t->kn->src.panels)
    prefetch_panels(t, step, steps, out);
  else
    prefetch_rows(t, step, steps, out);
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
    int64_t lo = t->first + from, hi = t->first + to;
    bound_rows(b, v, &lo, &hi);
    if (lo >= hi) continue;
    t->from = (uint32_t)(lo - t->first);
    t->to = (uint32_t)(hi - t->first);
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
    if (b->tiled) continue;
    const Expr *row = subst_vars(em->c, &em->fixed, b->row->expr), *first, *count;
    bound_steps(em->c, b, row, con->k[b->k].extent, &first, &count);
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
  if (b && b->tiled && t->first >= 0) return k_by_rows(t, x, b);
  if (b && !b->tiled) return k_within(t, x, b);
  const Axis *k = &con->k[x];
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
    if (x == 0) prefetch_next(t, v->expr, k->extent, &body);
    emit_bind(em, k->var, v->expr);
    Stmt *inner = k_loops(t, x + 1);
    if (inner) vec_push(em->tmp, &body, inner);
    return body.n ? loop_of(em->lc, sp, v, k->extent, FOR_SERIAL, seq_of(em->a, &body)) : NULL;
  }
  const Expr *begin = kn->kb ? kn->k_begin : i64(c, 0);
  const Expr *length = kn->kb ? expr_sub(c, kn->k_end, kn->k_begin) : k->extent;
  const Expr *four = i64(c, UNROLL_K);
  const Expr *count = expr_simplify(c, expr_floordiv(c, length, four));
  StmtVec out = {0};
  Var *u = loop_var(c, "ku");
  const Expr *at = expr_add(c, expr_add(c, begin, expr_mul(c, v->expr, four)), u->expr);
  emit_bind(em, k->var, expr_simplify(c, at));
  Stmt *body = k_step(t);
  body = loop_of(em->lc, sp, u, four, FOR_UNROLL, body);
  StmtVec both = {0};
  const Expr *all = expr_simplify(c, expr_floordiv(c, kn->kb ? kn->k_block : con->ktotal, four));
  prefetch_next(t, v->expr, all, &both);
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

/* Where partial sums are kept between K blocks: the last stage's result when it is as wide, so that
 * no other memory is needed. */
static const Stage *partial_stage(const Tile *t) {
  const Group *g = t->kn->em->g;
  const Stage *last = g->stages[g->n - 1];
  const Temp *tmp = map_getp(&t->kn->em->temps, last->out);
  if (g->n > 1 && tmp->in_memory && dtype_eq(last->out->dtype, t->kn->con->d) &&
      !stage_reads(last, last->out))
    return last;
  return g->stages[0];
}

static const Expr *partial_offset(Tile *t, const Stage *st) {
  Emit *em = t->kn->em;
  return dim_expr(em->c, flat_offset(em->lc, st->out, st->oidx), DT_I64);
}

static Stmt *init_acc(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  const RowCtx *r = ctx;
  Kernel *kn = t->kn;
  Context *c = kn->em->c;
  const Contraction *con = kn->con;
  const Expr *v = con->st->init, *at[] = {r->i, j};
  const Expr *zero =
      dtype_is_float(v->dtype) ? expr_float(c, v->dtype, 0) : expr_int(c, v->dtype, 0);
  if (kn->kb && v != zero)
    v = expr_if_then_else(c, expr_binary(c, EXPR_EQ, kn->kb->expr, i64(c, 0)), v, zero);
  return stmt_store(kn->em->a, con->st->span, t->acc, at, expr_broadcast(c, v, con->lanes));
}

/* Vector j of the partial sums of earlier K blocks. */
static const Expr *partial_sums(Tile *t, const Expr *j, bool whole) {
  Emit *em = t->kn->em;
  Context *c = em->c;
  const Stage *st = partial_stage(t);
  const Expr *off = expr_simplify(c, subst_vars(c, &em->fixed, partial_offset(t, st)));
  Lanes ln = tile_lanes(t, j, whole);
  Vec vec;
  vec_init(&vec, c, em->tmp, ln.var, ln.base, ln.lanes, ln.mask);
  return vec_full(&vec, expr_load(c, flat_view(em->lc, st->out), &off, 1));
}

/* They are asked for when the tile begins and added when its own sums are complete. */
static Stmt *prefetch_partial(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  (void)ctx;
  Emit *em = t->kn->em;
  Context *c = em->c;
  const Stage *st = partial_stage(t);
  const Contraction *con = t->kn->con;
  emit_bind(em, con->n.var, simp_add(c, t->col, expr_mul(c, j, i64(c, con->lanes))));
  const Expr *at = expr_simplify(c, subst_vars(c, &em->fixed, partial_offset(t, st)));
  emit_bind(em, con->n.var, con->n.var->expr);
  const Expr *load = expr_load(c, flat_view(em->lc, st->out), &at, 1);
  const Expr *address = expr_call(c, INTRIN_address_of, DT_HANDLE, &load, 1);
  return stmt_eval(em->a, con->st->span, expr_call(c, INTRIN_prefetch, DT_UNKNOWN, &address, 1));
}

static Stmt *add_partial(Tile *t, const Expr *j, bool whole, void *ctx) {
  const RowCtx *r = ctx;
  Emit *em = t->kn->em;
  const Expr *at[] = {r->i, j};
  const Expr *sum = expr_add(em->c, partial_sums(t, j, whole), expr_load(em->c, t->acc, at, 2));
  return stmt_store(em->a, t->kn->con->st->span, t->acc, at, sum);
}

static Stmt *store_partial(Tile *t, const Expr *j, bool whole, void *ctx) {
  const RowCtx *r = ctx;
  Emit *em = t->kn->em;
  const Stage *st = partial_stage(t);
  const Expr *at[] = {r->i, j};
  Lanes ln = tile_lanes(t, j, whole);
  StmtVec out = {0};
  emit_store(em, st, &ln, flat_view(em->lc, st->out), partial_offset(t, st),
             expr_load(em->c, t->acc, at, 2), &out);
  return seq_of(em->a, &out);
}

static Stmt *epilogue(Tile *t, const Expr *j, bool whole, void *ctx) {
  const RowCtx *r = ctx;
  Emit *em = t->kn->em;
  Group *g = em->g;
  const Expr *at[] = {r->i, j};
  Lanes ln = tile_lanes(t, j, whole);
  StmtVec out = {0};
  for (uint32_t i = 0; i < em->temps.n; i++) ((Temp *)em->temps.entries[i].value)->value = NULL;
  emit_result(em, g->stages[0], &ln, expr_load(em->c, t->sums, at, 2), &out);
  for (uint32_t i = 1; i < g->n; i++)
    emit_result(em, g->stages[i], &ln, emit_value(em, &ln, emit_prepare(em, g->stages[i]->value)),
                &out);
  return seq_of(em->a, &out);
}

/* fn for all rows and vectors; rows that don't exist are skipped when `skip`. */
static Stmt *each_row(Tile *t, VectorFn fn, bool skip) {
  Emit *em = t->kn->em;
  Context *c = em->c;
  const Contraction *con = t->kn->con;
  Var *i = loop_var(c, "i");
  const Expr *row = NULL;
  if (con->m.var) {
    row = tile_row(t, i->expr);
    if (skip && t->guard) row = simp_add(c, t->row, i->expr);
    emit_bind(em, con->m.var, row);
  }
  RowCtx rc = {i->expr, NULL};
  Stmt *body = each_vector(t, fn, &rc);
  if (skip && t->guard && row)
    body = stmt_if(em->a, con->st->span, expr_binary(c, EXPR_LT, row, con->m.extent), body, NULL);
  return tile_loop(t, i, t->height, body);
}

static bool calls_math(const Expr *e, void *ctx) {
  bool *heavy = ctx;
  if (e->kind == EXPR_CALL && (intrin_table[e->intrin].flags & INTRIN_FLOAT) &&
      e->intrin != INTRIN_fma && e->intrin != INTRIN_fabs && e->intrin != INTRIN_sqrt)
    *heavy = true;
  return !*heavy;
}

/* Epilogues with much code (exp, erf) run as a loop over a copy of the tile in memory: the copy
 * costs little beside them, and the code would be as large as the number of vectors. */
static bool heavy_epilogue(const Tile *t) {
  const Group *g = t->kn->em->g;
  bool heavy = false;
  for (uint32_t i = 1; i < g->n; i++) expr_walk(g->stages[i]->value, calls_math, &heavy);
  return heavy && t->height * t->nv > 2;
}

static Stmt *copy_sums(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  const RowCtx *r = ctx;
  const Expr *at[] = {r->i, j};
  return stmt_store(t->kn->em->a, t->kn->con->st->span, t->sums, at,
                    expr_load(t->kn->em->c, t->acc, at, 2));
}

/* The lanes of rows [group * lanes, ...) of the tile. */
static Lanes row_lanes(const Tile *t, uint32_t group) {
  const Contraction *con = t->kn->con;
  Context *c = t->kn->em->c;
  uint32_t first = group * con->lanes, left = t->height - first;
  Lanes ln = {con->m.var, simp_add(c, t->row, i64(c, first)), con->lanes, NULL};
  if (t->guard) {
    const Expr *end = expr_min(c, simp_add(c, t->row, i64(c, t->height)), con->m.extent);
    ln.mask = lane_mask(c, ln.base, end, con->lanes);
  } else if (left < con->lanes) {
    ln.mask = lane_mask(c, i64(c, 0), i64(c, left), con->lanes);
  }
  return ln;
}

/* Results that are contiguous along the rows: the tile is turned in registers, then a loop over its
 * columns runs the epilogue with rows in lanes. */
static Stmt *turned_epilogue(Tile *t) {
  Emit *em = t->kn->em;
  Context *c = em->c;
  Group *g = em->g;
  const Contraction *con = t->kn->con;
  Span sp = con->st->span;
  uint32_t lanes = con->lanes, groups = (t->height + lanes - 1) / lanes;
  StmtVec out = {0}, body = {0};
  Buffer *turned = local_vectors(em, "turned", t->acc->dtype, t->nv * lanes, groups, &out);
  for (uint32_t j = 0; j < t->nv; j++)
    for (uint32_t k = 0; k < groups; k++) {
      const Expr *rows[64];
      for (uint32_t r = 0; r < lanes; r++) {
        uint32_t i = k * lanes + r < t->height ? k * lanes + r : t->height - 1;
        const Expr *at[] = {i64(c, i), i64(c, j)};
        rows[r] = expr_load(c, t->acc, at, 2);
      }
      transpose_rows(em, sp, rows, lanes, &out);
      for (uint32_t r = 0; r < lanes; r++) {
        const Expr *at[] = {i64(c, j * lanes + r), i64(c, k)};
        vec_push(em->tmp, &out, stmt_store(em->a, sp, turned, at, rows[r]));
      }
    }
  Var *col = loop_var(c, "column");
  const Expr *count = i64(c, t->nv * lanes);
  if (t->masked) count = expr_simplify(c, expr_min(c, count, expr_sub(c, con->n.extent, t->col)));
  emit_bind(em, con->n.var, simp_add(c, t->col, col->expr));
  emit_bind(em, con->m.var, con->m.var->expr);
  for (uint32_t k = 0; k < groups; k++) {
    Lanes ln = row_lanes(t, k);
    const Expr *at[] = {col->expr, i64(c, k)};
    for (uint32_t i = 0; i < em->temps.n; i++) ((Temp *)em->temps.entries[i].value)->value = NULL;
    emit_result(em, g->stages[0], &ln, expr_load(c, turned, at, 2), &body);
    for (uint32_t i = 1; i < g->n; i++)
      emit_result(em, g->stages[i], &ln, emit_value(em, &ln, emit_prepare(em, g->stages[i]->value)),
                  &body);
  }
  Stmt *loop = loop_of(em->lc, sp, col, count, FOR_SERIAL, seq_of(em->a, &body));
  if (loop) vec_push(em->tmp, &out, loop);
  emit_bind(em, con->n.var, con->n.var->expr);
  return seq_of(em->a, &out);
}

/* Whether that pays, and has a form: rows that aren't whole vectors need masks. */
static bool is_turned(const Tile *t) {
  const Kernel *kn = t->kn;
  uint32_t lanes = kn->con->lanes;
  if (!kn->turned || kn->kb || lanes > 16 || (lanes & (lanes - 1)) || t->height * 4 < lanes)
    return false;
  return kn->em->use_mask || (!t->guard && t->height % lanes == 0);
}

static Stmt *emit_epilogue(Tile *t) {
  Emit *em = t->kn->em;
  if (is_turned(t)) return turned_epilogue(t);
  t->sums = t->acc;
  if (!heavy_epilogue(t)) return each_row(t, epilogue, true);
  StmtVec out = {0};
  t->sums = local_vectors(em, "sums", t->acc->dtype, t->height, t->nv, &out);
  vec_push(em->tmp, &out, each_row(t, copy_sums, false));
  t->rolled = true;
  vec_push(em->tmp, &out, each_row(t, epilogue, true));
  t->rolled = false;
  return seq_of(em->a, &out);
}

static Stmt *emit_tile(Tile *t) {
  Kernel *kn = t->kn;
  Emit *em = kn->em;
  const Contraction *con = kn->con;
  StmtVec out = {0};
  DType wide = dtype_lanes(con->d, con->lanes);
  emit_bind(em, con->n.var, con->n.var->expr);
  t->acc = local_vectors(em, "acc", wide, t->height, t->nv, &out);
  t->va = local_vectors(em, "va", wide, wide_tile(t) ? t->height : 1, 0, &out);
  t->vb = local_vectors(em, "vb", wide, t->nv, 0, &out);
  if (kn->kb) {
    Temp *tmp = map_getp(&em->temps, partial_stage(t)->out);
    tmp->in_memory = true;
  }
  vec_push(em->tmp, &out, each_row(t, init_acc, false));
  t->from = 0;
  t->to = t->height;
  bind_bounds(t, &out);
  const Expr *later = kn->kb ? expr_binary(em->c, EXPR_GT, kn->kb->expr, i64(em->c, 0)) : NULL;
  if (later)
    vec_push(em->tmp, &out,
             stmt_if(em->a, con->st->span, later, each_row(t, prefetch_partial, false), NULL));
  WindowTile part = {t->row, t->first, t->height, t->nv, t->vector};
  Stmt *loops = con->windows ? windows_steps(em, con, t->acc, &part) : k_loops(t, 0);
  if (loops) vec_push(em->tmp, &out, loops);
  if (later)
    vec_push(em->tmp, &out,
             stmt_if(em->a, con->st->span, later, each_row(t, add_partial, false), NULL));
  Stmt *finish = emit_epilogue(t);
  if (kn->kb && em->g->n > 1)
    finish = stmt_if(em->a, con->st->span, kn->last_kb, finish, each_row(t, store_partial, true));
  vec_push(em->tmp, &out, finish);
  return seq_of(em->a, &out);
}

/* ---- loops around tiles ---- */

typedef struct {
  Kernel *kn;
  const RowPlan *plan;
  bool parallel;
  Tile tile;         /* what all tiles of the columns share */
  const Expr *first; /* number of the first tile of the row (of con->rows) at hand, or NULL */
} Sweep;

/* Rows of a block of A: half of L2. */
static uint32_t block_rows(const Kernel *kn) {
  int64_t k = 512, rows;
  expr_const_int(kn->em->c, kn->con->ktotal, &k);
  if (kn->kb && k > K_BLOCK) k = K_BLOCK;
  rows = kn->em->s->v->l2_bytes / 2 / ((k > 0 ? k : 1) * (int64_t)dtype_bytes(kn->con->d));
  return rows < BLOCK_ROWS ? BLOCK_ROWS : rows > 2 * BLOCK_ROWS ? 2 * BLOCK_ROWS : (uint32_t)rows;
}

/* The segment's tiles [tile0, tile0 + count), after `before` others. */
static Stmt *sweep_tiles(const Sweep *sw, const RowSegment *seg, const Expr *tile0,
                         const Expr *count, const Expr *before) {
  Kernel *kn = sw->kn;
  Context *c = kn->em->c;
  Var *v = loop_var(c, "tile");
  Tile t = sw->tile;
  const Expr *row = expr_mul(c, expr_add(c, tile0, v->expr), i64(c, seg->height));
  t.row = expr_simplify(c, expr_add(c, seg->start, row));
  t.height = seg->height;
  t.guard = seg->guard;
  t.first = -1;
  if (seg->border) expr_const_int(c, seg->start, &t.first);
  if (sw->first) t.number = simp_add(c, expr_add(c, sw->first, before), v->expr);
  return loop_of(kn->em->lc, kn->con->st->span, v, count, FOR_SERIAL, emit_tile(&t));
}

/* What is left after `before` tiles. */
static Stmt *sweep_rest(const Sweep *sw, const Expr *before) {
  const RowPlan *plan = sw->plan;
  Kernel *kn = sw->kn;
  Context *c = kn->em->c;
  Span sp = kn->con->st->span;
  const Expr *none = i64(c, 0);
  Stmt *chain = NULL;
  StmtVec all = {0};
  for (uint32_t i = 0; i < plan->nrest; i++) {
    const RowSegment *seg = &plan->rest[i];
    Stmt *s = sweep_tiles(sw, seg, none, seg->count, before);
    if (!plan->left) {
      if (s) vec_push(kn->em->tmp, &all, s);
      before = simp_add(c, before, seg->count);
      continue;
    }
    const Expr *holds = expr_binary(c, EXPR_LE, plan->left, i64(c, seg->height));
    chain = chain ? stmt_if(kn->em->a, sp, holds, s, chain) : s;
  }
  if (!plan->left) return seq_of(kn->em->a, &all);
  return stmt_if(kn->em->a, sp, expr_binary(c, EXPR_GT, plan->left, none), chain, NULL);
}

/* Tiles, and rows, of what is left after the main part; where only the run tells, of one tile. */
static int64_t rest_size(Context *c, const RowPlan *plan, bool rows) {
  int64_t sum = 0, n;
  if (plan->left) return 1;
  for (uint32_t i = 0; i < plan->nrest; i++)
    if (expr_const_int(c, plan->rest[i].count, &n)) sum += rows ? n * plan->rest[i].height : n;
  return sum;
}

/* The block of rows and the panel of a task: blocks of rows within large groups of panels; or where
 * A is small, which its blocks are for threads' sake only, within a panel. Threads take tasks that
 * follow each other, so that each packs and reads panels of its own. */
static void task_place(Context *c, const Expr *task, const Expr *nblocks, const Expr *count,
                       bool small, const Expr **block, const Expr **panel) {
  int64_t np = 0;
  *block = i64(c, 0);
  *panel = task;
  if (expr_is_int(nblocks, 1)) return;
  if (small) {
    *block = expr_simplify(c, expr_floormod(c, task, nblocks));
    *panel = expr_simplify(c, expr_floordiv(c, task, nblocks));
    return;
  }
  expr_const_int(c, count, &np);
  int64_t groups = np % 4 == 0 && np >= 32 ? 4 : np % 2 == 0 && np >= 8 ? 2 : 1;
  const Expr *width = groups > 1 ? i64(c, np / groups) : count, *group = i64(c, 0);
  if (groups > 1) {
    const Expr *size = expr_mul(c, nblocks, width);
    group = expr_floordiv(c, task, size);
    task = expr_floormod(c, task, size);
  }
  *block = expr_simplify(c, expr_floordiv(c, task, width));
  *panel = expr_simplify(c, expr_add(c, expr_mul(c, group, width), expr_floormod(c, task, width)));
}

/* Tiles of columns [first, first + count) of nv vectors each; the first is a multiple of align. */
static void sweep_columns(Sweep *sw, const Expr *first_col, const Expr *count, uint32_t nv,
                          uint32_t align, bool masked, uint32_t full, StmtVec *out) {
  Kernel *kn = sw->kn;
  Emit *em = kn->em;
  Context *c = em->c;
  LoopCtx *lc = em->lc;
  Span sp = kn->con->st->span;
  const RowPlan *plan = sw->plan;
  const RowSegment *seg = &plan->main;
  uint32_t tb = block_rows(kn) / seg->height;
  if (!tb) tb = 1;
  int64_t nt, np, rest = rest_size(c, plan, false);
  bool nt_known = expr_const_int(c, seg->count, &nt), np_known = expr_const_int(c, count, &np);
  if ((nt_known && nt == 0 && !plan->nrest) || (np_known && np == 0)) return;
  if (nt_known && nt + rest <= (int64_t)tb * 3 / 2) tb = nt ? (uint32_t)nt : 1;
  int64_t k = 256;
  expr_const_int(c, kn->con->ktotal, &k);
  int64_t work = (int64_t)seg->height * nv * kn->con->lanes * (k > 0 ? k : 1); /* of a tile */
  bool small = nt_known && (int64_t)tb >= nt;                                  /* A is one block */
  if (sw->parallel && nt_known && np_known) /* lower blocks where threads would have few tasks */
    while ((nt + tb - 1) / tb * np < MANY_TASKS && tb / 2 * work >= 2 * TASK_WORK)
      tb = (tb + 1) / 2;
  const Expr *nblocks = expr_ceildiv(c, seg->count, tb);
  if (plan->nrest) nblocks = expr_simplify(c, expr_max(c, nblocks, i64(c, 1)));
  Var *task = loop_var(c, "task");
  const Expr *block, *panel;
  task_place(c, task->expr, nblocks, count, small, &block, &panel);
  /* names for what the tiles' addresses start from */
  Var *bv = NULL, *pv = NULL;
  const Expr *be = block, *pe = panel;
  if (block->kind != EXPR_VAR && block->kind != EXPR_INT) be = (bv = loop_var(c, "block"))->expr;
  if (panel->kind != EXPR_VAR && panel->kind != EXPR_INT) pe = (pv = loop_var(c, "panel"))->expr;
  const Expr *tile0 = expr_mul(c, be, i64(c, tb)), *tiles = i64(c, tb);
  if (!nt_known || nt % tb) tiles = expr_min(c, tiles, expr_sub(c, seg->count, tile0));
  const Expr *col = expr_mul(c, pe, i64(c, (int64_t)nv * kn->con->lanes));
  const Contraction *con = kn->con;
  const Expr *in_block = nt_known ? i64(c, nt < (int64_t)tb ? nt : tb) : tiles;
  if (expr_is_int(nblocks, 1) || !nt_known) in_block = expr_add(c, in_block, i64(c, rest));
  if (small) in_block = i64(c, nt + rest); /* all tiles of a panel follow each other */
  sw->tile = (Tile){.kn = kn,
                    .col = simp_add(c, first_col, col),
                    .nv = nv,
                    .align = align,
                    .masked = masked,
                    .full = full,
                    .tiles = in_block};
  int64_t column;
  if (con->windows && expr_const_int(c, first_col, &column))
    sw->tile.vector = (uint32_t)(column / con->lanes);
  sw->first = small ? tile0 : i64(c, 0);
  if (expr_is_int(in_block, 1) && !plan->nrest) sw->first = NULL;
  Var *rows[MAX_AXES] = {0};
  if (kn->rows_inside) {
    const Expr *row_number = i64(c, 0);
    for (uint32_t i = 0; i < con->nrows; i++) {
      const Expr *extent = con->rows[i].extent;
      rows[i] = loop_var(c, con->rows[i].var->name);
      emit_bind(em, con->rows[i].var, rows[i]->expr);
      row_number = expr_add(c, expr_mul(c, row_number, extent), rows[i]->expr);
      sw->tile.tiles = expr_mul(c, sw->tile.tiles, extent);
    }
    const Expr *each = expr_add(c, small ? i64(c, nt) : tiles, i64(c, rest));
    row_number = expr_mul(c, row_number, each);
    sw->first = expr_simplify(c, small ? expr_add(c, row_number, tile0) : row_number);
  }
  StmtVec body = {0};
  Stmt *s = sweep_tiles(sw, seg, tile0, tiles, i64(c, 0));
  if (s) vec_push(em->tmp, &body, s);
  if (plan->nrest) {
    s = sweep_rest(sw, tiles);
    if (!expr_is_int(nblocks, 1)) {
      const Expr *last = expr_simplify(c, expr_sub(c, nblocks, i64(c, 1)));
      s = stmt_if(em->a, sp, expr_binary(c, EXPR_EQ, be, last), s, NULL);
    }
    vec_push(em->tmp, &body, s);
  }
  s = seq_of(em->a, &body);
  for (uint32_t i = kn->rows_inside ? con->nrows : 0; s && i-- > 0;)
    s = loop_of(lc, sp, rows[i], con->rows[i].extent, FOR_SERIAL, s);
  if (!s) return;
  StmtVec bound = {0};
  if (bv) vec_push(em->tmp, &bound, stmt_let(em->a, sp, bv, block));
  if (pv) vec_push(em->tmp, &bound, stmt_let(em->a, sp, pv, panel));
  vec_push(em->tmp, &bound, s);
  s = seq_of(em->a, &bound);
  const Expr *tasks = expr_simplify(c, expr_mul(c, nblocks, count));
  s = loop_of(lc, sp, task, tasks, FOR_SERIAL, s);
  if (s && sw->parallel && s->kind == STMT_FOR) {
    int64_t grain = TASK_WORK / (tb * work) + 1, n;
    if (!expr_const_int(c, tasks, &n) || n > grain) loop_set_parallel(lc, s, grain);
  }
  if (s) vec_push(em->tmp, out, s);
}

void gemm_rows(Kernel *kn, const RowPlan *plan, uint32_t nv, bool parallel, StmtVec *out) {
  const Contraction *con = kn->con;
  Context *c = kn->em->c;
  uint32_t width = nv * con->lanes;
  int64_t n;
  if (plan->nrest && rest_size(c, plan, true) > (int64_t)block_rows(kn)) {
    RowPlan one = {.main = plan->main}; /* as much as a block: on its own */
    gemm_rows(kn, &one, nv, parallel, out);
    for (uint32_t i = 0; i < plan->nrest; i++) {
      one.main = plan->rest[i];
      gemm_rows(kn, &one, nv, parallel, out);
    }
    return;
  }
  Sweep sw = {.kn = kn, .plan = plan, .parallel = parallel};
  if (expr_const_int(c, con->n.extent, &n)) {
    int64_t whole = n / width, left = n % width;
    if (con->windows) { /* each knows its place in the row */
      for (int64_t i = 0; i < whole; i++)
        sweep_columns(&sw, i64(c, i * width), i64(c, 1), nv, width, false, 0, out);
    } else {
      sweep_columns(&sw, i64(c, 0), i64(c, whole), nv, width, false, 0, out);
    }
    if (!left) return;
    uint32_t vectors = (uint32_t)((left + con->lanes - 1) / con->lanes);
    sweep_columns(&sw, i64(c, whole * width), i64(c, 1), vectors, width, left % con->lanes != 0,
                  (uint32_t)(left / con->lanes), out);
    return;
  }
  if (kn->em->s->v->has_mask) { /* one kernel for all columns: masks are free */
    sweep_columns(&sw, i64(c, 0), expr_ceildiv(c, con->n.extent, width), nv, width, true, 0, out);
    return;
  }
  const Expr *whole = expr_simplify(c, expr_floordiv(c, con->n.extent, i64(c, width)));
  const Expr *done = expr_simplify(c, expr_mul(c, whole, i64(c, width)));
  sweep_columns(&sw, i64(c, 0), whole, nv, width, false, 0, out);
  const Expr *left = expr_ceildiv(c, expr_sub(c, con->n.extent, done), con->lanes);
  sweep_columns(&sw, done, left, 1, con->lanes, true, 0, out);
}
