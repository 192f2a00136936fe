/* Rows of a contraction in tiles, and their blocks of K.
 *
 * Rows are in balanced tiles (static) or full tiles and one of the heights that are left
 * (symbolic); a tile has as many vectors of columns as registers hold and chains of additions want.
 * A long sum is taken in blocks of K with the partial sums in C, which they are added to at the
 * end.
 */
#include "passes/loop/contraction.h"

#define SHORT_BLOCK 8 /* of a sum, where what is between two of its terms goes inside */
#define EXACT_ROWS 8  /* as many left at run time have tiles of just that height */
#define B_ROWS 7      /* rows of a tile that are B's: more share no more loads */

/* Registers for accumulators, B and A: without a fused multiply-add, products and copies need some
 * too. */
static uint32_t tile_regs(const Variant *v) {
  return v->has_fma ? v->vector_regs : v->vector_regs - 4;
}

/* Registers of a tile: accumulators, what one step keeps of the shorter side, and one of the other
 * (tile.c). With one row the vectors of B are operands in memory. */
static uint32_t regs_of_tile(const Contraction *con, const Variant *v, uint32_t rows, uint32_t nv) {
  uint32_t kept = con->b_rows || con->a_columns || nv < rows ? nv : rows;
  /* rows of B wait for the step that they serve next */
  if (con->b_rows && con->nk > 1 && !v->has_mem_operands) kept = rows * nv;
  /* steps of several axes are unrolled, and the loads of one overlap the end of another */
  uint32_t early = con->nk > 1 && nv > 2;
  return rows * nv + kept + 1 + early;
}

/* Rows of the tallest tile with nv vectors. */
static uint32_t tile_rows(const Contraction *con, const Variant *v, uint32_t nv) {
  uint32_t rows = 1, most = con->b_rows ? B_ROWS : 12;
  while (rows < most && regs_of_tile(con, v, rows + 1, nv) <= tile_regs(v)) rows++;
  return nv == 2 && rows > 1 ? rows & ~1u : rows;
}

/* Vectors of a tall tile: as wide as a panel, where enough rows fit. */
static uint32_t tall_vectors(const Kernel *kn) {
  const Contraction *con = kn->con;
  const Variant *v = kn->em->s->v;
  uint32_t nv = kn->src.width / con->lanes;
  while (nv > 2 && tile_rows(con, v, nv) < 6) nv /= 2;
  return nv < 2 ? 2 : nv;
}

/* Multiply-adds that go by, in vectors, while tiles of `rows` rows and nv vectors do one step for
 * all `count` vectors of columns: a tile can't be quicker than the chain of its additions. */
static int64_t step_cost(int64_t chains, uint32_t rows, uint32_t nv, int64_t count) {
  int64_t tile = rows * nv, rest = rows * (count % nv);
  int64_t cost = count / nv * (tile < chains ? chains : tile);
  return cost + (rest == 0 ? 0 : rest < chains ? chains : rest);
}

/* Independent chains of additions that keep the tiles busy: one row that takes B from memory waits
 * for that anyway, and few streams of panels come faster than many. */
static int64_t chains_needed(const Kernel *kn, uint32_t rows) {
  const Contraction *con = kn->con;
  int64_t n, k, chains = kn->em->s->v->fma_chains;
  bool far = expr_const_int(kn->em->c, contraction_columns(kn->em->c, con), &n) &&
             expr_const_int(kn->em->c, con->ktotal, &k) &&
             n > FAR_BYTES / (int64_t)dtype_bytes(con->d) / (k > 0 ? k : 1);
  return rows == 1 && far ? chains / 2 : chains;
}

/* Vectors per tile for n segments (symbolic rows: as if one tile): enough independent chains, no
 * spills. Another number than a tall tile's has to gain something. *least: the cost then. */
static uint32_t tile_vectors(const Kernel *kn, const RowSegment *segs, uint32_t n, int64_t *least) {
  static const uint8_t order[] = {0, 4, 8, 2, 1, 3, 6, 5}; /* 0: a tall tile's */
  const Contraction *con = kn->con;
  Context *c = kn->em->c;
  const Variant *v = kn->em->s->v;
  int64_t columns, count = 240; /* unknown: many, no rest */
  uint32_t best = 1;
  if (expr_const_int(c, contraction_columns(c, con), &columns))
    count = (columns + con->lanes - 1) / con->lanes;
  *least = INT64_MAX;
  for (uint32_t i = 0; i < sizeof order; i++) {
    uint32_t nv = order[i] ? order[i] : tall_vectors(kn);
    int64_t cost = 0, tiles;
    bool fits = true;
    for (uint32_t k = 0; k < n; k++) {
      if (!expr_const_int(c, segs[k].count, &tiles)) tiles = 1;
      fits &= regs_of_tile(con, v, segs[k].height, nv) <= tile_regs(v);
      cost += tiles * step_cost(chains_needed(kn, segs[k].height), segs[k].height, nv, count);
    }
    if (!fits || cost >= *least) continue;
    best = nv;
    *least = cost;
  }
  return best;
}

/* Rows [*lo, *hi) have every term. */
static void whole_rows(Context *c, const Contraction *con, int64_t m, int64_t *lo, int64_t *hi) {
  *lo = 0;
  *hi = m;
  for (uint32_t i = 0; i < con->nbounds; i++) {
    const Bound *b = &con->bounds[i];
    int64_t steps = 1;
    if (!b->tiled) continue;
    expr_const_int(c, con->k[b->k].extent, &steps);
    bound_rows(b, 0, lo, hi);
    bound_rows(b, steps - 1, lo, hi);
  }
}

/* Tiles all of whose rows exist; border: see there. */
static RowSegment tiles_from(const Expr *start, const Expr *count, uint32_t height, bool border) {
  return (RowSegment){
      .start = start, .count = count, .height = height, .least = height, .border = border};
}

/* `count` tiles from row `start`: those that reach the border one by one. */
static uint32_t split_rows(Kernel *kn, int64_t m, int64_t start, int64_t count, uint32_t height,
                           RowSegment *out) {
  Context *c = kn->em->c;
  int64_t lo, hi, head = 0, tail = 0;
  uint32_t n = 0;
  whole_rows(c, kn->con, m, &lo, &hi);
  while (head < count && start + head * height < lo) head++;
  while (tail < count - head && start + (count - tail) * height > hi) tail++;
  for (int64_t t = 0; t < head; t++)
    out[n++] = tiles_from(i64(c, start + t * height), i64(c, 1), height, true);
  int64_t inside = count - head - tail;
  if (inside) out[n++] = tiles_from(i64(c, start + head * height), i64(c, inside), height, false);
  for (int64_t t = count - tail; t < count; t++)
    out[n++] = tiles_from(i64(c, start + t * height), i64(c, 1), height, true);
  return n;
}

/* Tiles of n segments, the smaller ones with the last block of the largest. */
static void emit_segments(Kernel *kn, const RowSegment *segs, uint32_t n, uint32_t nv,
                          bool parallel, StmtVec *out) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < n; i++)
    if (segs[i].count->i > segs[most].count->i) most = i;
  RowPlan plan = {.main = segs[most]};
  for (uint32_t i = 0; i < n; i++) {
    if (i == most) continue;
    if (plan.nrest == MAX_REST) {
      gemm_rows(kn, &plan, nv, parallel, out);
      plan = (RowPlan){.main = segs[i]};
    } else {
      plan.rest[plan.nrest++] = segs[i];
    }
  }
  gemm_rows(kn, &plan, nv, parallel, out);
}

/* All columns in one tile of one row. */
static void whole_columns(Kernel *kn, bool parallel, StmtVec *out) {
  Context *c = kn->em->c;
  int64_t n = 0, lanes = kn->con->lanes;
  expr_const_int(c, kn->con->n.extent, &n);
  RowPlan plan = {.main = tiles_from(i64(c, 0), i64(c, 1), 1, false)};
  gemm_rows(kn, &plan, (uint32_t)((n + lanes - 1) / lanes), parallel, out);
}

static void static_rows(Kernel *kn, int64_t m, bool parallel, StmtVec *out) {
  const Windows *w = kn->con->windows;
  uint32_t max = w ? w->height : tile_rows(kn->con, kn->em->s->v, tall_vectors(kn));
  int64_t tiles = (m + max - 1) / max, low = m / tiles, high_count = m % tiles, all, some, others;
  RowSegment *segs = ARENA_ARRAY(kn->em->tmp, RowSegment, tiles);
  uint32_t n = split_rows(kn, m, 0, high_count, (uint32_t)low + 1, segs), rest;
  RowSegment *flat = segs + n;
  rest = split_rows(kn, m, high_count * (low + 1), tiles - high_count, (uint32_t)low, flat);
  uint32_t nv = tile_vectors(kn, segs, n + rest, &all), nv_tall = tile_vectors(kn, segs, n, &some);
  uint32_t nv_flat = tile_vectors(kn, flat, rest, &others);
  if (w) {
    emit_segments(kn, segs, n + rest, w->nv, parallel, out);
  } else if (n && some + others <= all - all / 10) { /* each with what suits it; B is read twice */
    emit_segments(kn, segs, n, nv_tall, parallel, out);
    emit_segments(kn, flat, rest, nv_flat, parallel, out);
  } else {
    emit_segments(kn, segs, n + rest, nv, parallel, out);
  }
}

/* How many heights of tiles for what is left are one: where rows are many, few of them are left. */
static uint32_t next_height(const Kernel *kn, uint32_t h) {
  if (h <= 2) return 0;
  if (kn->many_rows) return h > 5 ? h - 3 : h - 2;
  return kn->con->windows || h > EXACT_ROWS + 1 ? h - 2 : h - 1;
}

/* Rows at the ends lack terms: full tiles of others, then one tile of those and of what is left; or
 * all rows one by one, if there are fewer than lack terms. */
static void bordered_rows(Kernel *kn, uint32_t head, uint32_t tail, bool parallel, StmtVec *out) {
  Emit *em = kn->em;
  Context *c = em->c;
  const Expr *m = kn->con->m.extent;
  uint32_t max = tile_rows(kn->con, em->s->v, tall_vectors(kn)), ends = head + tail;
  int64_t cost;
  StmtVec tiles = {0}, rows = {0};
  const Expr *inside = expr_simplify(c, expr_sub(c, m, i64(c, ends)));
  const Expr *full = expr_simplify(c, expr_floordiv(c, inside, i64(c, max)));
  const Expr *left = expr_sub(c, m, expr_mul(c, full, i64(c, max)));
  RowPlan plan = {.main = tiles_from(i64(c, head), full, max, false),
                  .left = expr_simplify(c, left)};
  if (max > MAX_REST) bug("more heights of tiles than a plan holds");
  for (uint32_t h = ends + max - 1; h >= ends; h--) {
    const Expr *start = expr_simplify(c, expr_sub(c, m, i64(c, h)));
    plan.rest[plan.nrest] = tiles_from(start, i64(c, 1), h, true);
    plan.rest[plan.nrest++].head = head;
  }
  gemm_rows(kn, &plan, tile_vectors(kn, &plan.main, 1, &cost), parallel, &tiles);
  RowPlan each = {.main = tiles_from(i64(c, 0), m, 1, false)};
  kn->by_row = true;
  gemm_rows(kn, &each, tile_vectors(kn, &each.main, 1, &cost), parallel, &rows);
  kn->by_row = false;
  vec_push(em->tmp, out,
           stmt_if(em->a, kn->con->st->span, compare_to(c, EXPR_GE, m, ends), seq_of(em->a, &tiles),
                   seq_of(em->a, &rows)));
}

static void symbolic_rows(Kernel *kn, bool parallel, StmtVec *out) {
  Context *c = kn->em->c;
  const Expr *m = kn->con->m.extent;
  Span sp = kn->con->st->span;
  const Windows *w = kn->con->windows;
  uint32_t max = w ? w->height : tile_rows(kn->con, kn->em->s->v, tall_vectors(kn)), head, tail;
  int64_t cost;
  StmtVec many = {0};
  border_ends(c, kn->con, &head, &tail);
  if (head + tail) {
    bordered_rows(kn, head, tail, parallel, out);
    return;
  }
  const Expr *full = expr_simplify(c, expr_floordiv(c, m, i64(c, max)));
  const Expr *done = expr_simplify(c, expr_mul(c, full, i64(c, max)));
  RowPlan plan = {.main = tiles_from(i64(c, 0), full, max, false)};
  plan.left = expr_simplify(c, expr_sub(c, m, done));
  for (uint32_t h = max - 1, lower; h > 0; h = lower) {
    lower = next_height(kn, h);
    if (plan.nrest == MAX_REST) bug("more heights of tiles than a plan holds");
    plan.rest[plan.nrest] = tiles_from(done, i64(c, 1), h, false);
    plan.rest[plan.nrest++].least = lower + 1;
  }
  gemm_rows(kn, &plan, w ? w->nv : tile_vectors(kn, &plan.main, 1, &cost), parallel, &many);
  if (kn->many_rows || w) {
    for (uint32_t i = 0; i < many.n; i++) vec_push(kn->em->tmp, out, many.at[i]);
    return;
  }
  /* one row: more columns at a time */
  StmtVec one = {0};
  RowPlan row = {.main = tiles_from(i64(c, 0), i64(c, 1), 1, false)};
  gemm_rows(kn, &row, tile_vectors(kn, &row.main, 1, &cost), parallel, &one);
  Stmt *rows = stmt_if(kn->em->a, sp, compare_to(c, EXPR_EQ, m, 1), seq_of(kn->em->a, &one),
                       seq_of(kn->em->a, &many));
  vec_push(kn->em->tmp, out, rows);
}

static void plan_rows(Kernel *kn, bool parallel, StmtVec *out) {
  const Contraction *con = kn->con;
  int64_t m = 1;
  if (con->m.var && !expr_const_int(kn->em->c, con->m.extent, &m)) {
    symbolic_rows(kn, parallel, out);
    return;
  }
  if (con->edges)
    whole_columns(kn, parallel, out);
  else if (m > 0)
    static_rows(kn, m, parallel, out);
}

/* The rows, in the loop that runs inside of the one over blocks of K, if there is one. */
static void plan_beside(Kernel *kn, bool parallel, StmtVec *out) {
  const Axis *in = &kn->beside;
  StmtVec body = {0};
  if (!in->var) {
    plan_rows(kn, parallel, out);
    return;
  }
  plan_rows(kn, parallel, &body);
  if (!body.n) return;
  Stmt *rows = seq_of(kn->em->a, &body);
  rows = loop_of(kn->em->lc, kn->con->st->span, in->var, in->extent, FOR_SERIAL, rows);
  if (rows) vec_push(kn->em->tmp, out, rows);
}

void contraction_blocks(Kernel *kn, bool whole, bool parallel, StmtVec *out) {
  const Contraction *con = kn->con;
  Context *c = kn->em->c;
  int64_t k;
  bool known = expr_const_int(c, con->ktotal, &k);
  kn->kb = NULL;
  int64_t block = kn->beside.var ? SHORT_BLOCK : K_BLOCK;
  if (con->nk != 1 || !con->a || (known && k <= block) || whole || kn->turned || con->nbounds) {
    plan_beside(kn, parallel, out);
    return;
  }
  const Expr *count;
  if (known) {
    int64_t n = (k + block - 1) / block;
    block = ((k + n - 1) / n + 3) / 4 * 4;
    count = i64(c, (k + block - 1) / block);
    if (con->k_seen) count = expr_ceildiv(c, con->k_seen, block);
  } else { /* an empty K still has one block: it writes zeros */
    count = expr_ceildiv(c, con->k_seen ? con->k_seen : con->ktotal, block);
    count = expr_max(c, count, i64(c, 1));
  }
  kn->kb = loop_var(c, "kb");
  kn->k_block = i64(c, block);
  kn->k_begin = expr_simplify(c, expr_mul(c, kn->kb->expr, i64(c, block)));
  kn->k_end = expr_simplify(c, expr_add(c, kn->k_begin, i64(c, block)));
  if (con->k_seen || !known || k % block)
    kn->k_end = expr_min(c, kn->k_end, con->k_seen ? con->k_seen : con->ktotal);
  kn->last_kb = expr_binary(c, EXPR_EQ, kn->kb->expr, expr_sub(c, count, i64(c, 1)));
  StmtVec body = {0};
  plan_beside(kn, parallel, &body);
  Stmt *loop = stmt_for(kn->em->a, con->st->span, kn->kb, i64(c, 0), count, FOR_SERIAL,
                        seq_of(kn->em->a, &body));
  vec_push(kn->em->tmp, out, loop);
}
