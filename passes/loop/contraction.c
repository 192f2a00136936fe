/* Contractions: recognised from index maps, never from names.
 *
 * A sum of products of two loads, whose offsets are linear in all axes: an axis that both operands
 * and the result have is a batch axis, one of A and C a row axis (m), one of B and C a column axis
 * (n), one of A and B a reduction axis (k). Matrix products of any layout and broadcast, einsums,
 * convolutions and users' own loops all come out the same. Where the axis along which C is
 * contiguous is a batch axis, the channels of a depthwise convolution, it is the column axis all
 * the same: A then gives a vector for each row instead of an element.
 *
 * The plan: B packed into panels when there are enough rows to pay for it, or read in place; rows
 * in balanced tiles (static) or full tiles and one guarded rest (symbolic); blocks of K with the
 * partial sums in C, which they are added to at the end.
 */
#include "passes/loop/contraction.h"

#define FAR_BYTES (4 << 20) /* a larger B comes from memory each time */
#define PACK_BYTES (128 * 1024)
#define PACK_ROWS 48       /* fewer rows don't pay for packing */
#define PACK_ROWS_NEAR 128 /* nor these, when all of B fits into L2 */
#define NEAR_BYTES (1 << 20)
#define COMMON_ROWS 4    /* rows that share a vector of columns which the other operand has, too, */
#define COMMON_COLUMNS 8 /* and columns that are worth it */
#define LINE_ROWS 6      /* a tile of fewer isn't short of loads */
#define FEW_ROWS 576     /* more pay for packing in any case */
#define FILL_ROWS 24     /* of two tiles: the second gains from what the first copies */
#define COLLIDE_BYTES 2048 /* rows that are multiples of it apart have one place in a cache */
#define EXACT_ROWS 8       /* as many left at run time have tiles of just that height */
#define PARALLEL_WORK (1 << 19)
#define TASK_ROWS 12 /* of a tile */
#define TASK_COLUMNS 32
#define B_ROWS 7                /* rows of a tile that are B's: more share no more loads */
#define STAY_BYTES (256 * 1024) /* a B of this size stays in cache from one row to the next */

const Expr *factor_load(const Expr *e) {
  if (e->kind == EXPR_CAST) e = e->arg[0];
  return e->kind == EXPR_LOAD && !e->has_pred ? e : NULL;
}

static bool type_fits(const Variant *v, DType d) {
  if (d.code == DTYPE_FLOAT) return d.bits >= 32 && variant_lanes(v, d) > 1;
  return dtype_is_int(d) && d.bits >= 32 && variant_lanes(v, d) > 1;
}

enum { IN_A = 1, IN_B = 2, IN_C = 4, IN_ALL = IN_A | IN_B | IN_C };

static bool is_indirect(const Expr *load) {
  for (uint32_t i = 0; i < load->n; i++)
    if (expr_has_load(load->arg[i])) return true;
  return false;
}

/* Which of A, B, C each axis is in; false when an offset isn't linear in it. A batch axis may be
 * used in any way, such as h // 4 where heads share an operand: loops around bind it. */
static bool classify(Sched *s, const Stage *st, const Expr *la, const Expr *lb, uint8_t *in,
                     bool *unit_c) {
  LoopCtx *lc = s->lc;
  const Dim *off[3] = {la ? flat_offset(lc, la->buf, la->arg) : dim_const(lc->c, 0),
                       flat_offset(lc, lb->buf, lb->arg), flat_offset(lc, st->out, st->oidx)};
  for (uint32_t i = 0; i < st->naxes; i++) {
    in[i] = 0;
    unit_c[i] = false;
    if (expr_is_int(st->axes[i].extent, 1)) continue;
    bool linear = true;
    for (int o = 0; o < 3; o++) {
      const Dim *k = stride_of(lc, st, off[o], st->axes[i].var);
      int64_t v;
      linear &= k != NULL;
      if (!k || !dim_is_const(k, &v)) v = 2;
      if (v) in[i] |= (uint8_t)(1 << o);
      if (o == 2 && v == 1) unit_c[i] = true;
    }
    if (!linear && (!la || in[i] != IN_ALL || is_indirect(la) || is_indirect(lb))) return false;
  }
  return true;
}

/* Of two operands that both have axis i: the one that is contiguous along it and has at least
 * COMMON_ROWS rows of its own, as IN_A or IN_B; 0 when there is none. The same for all variants. */
static uint8_t row_operand(Sched *s, const Stage *st, const Expr *la, const Expr *lb,
                           const uint8_t *in, uint32_t i) {
  const Expr *loads[] = {la, lb};
  uint8_t best = 0;
  int64_t most = COMMON_ROWS - 1, size;
  if (expr_const_int(s->c, st->axes[i].extent, &size) && size < COMMON_COLUMNS) return 0;
  for (uint8_t o = IN_A; o <= IN_B; o++) {
    const Expr *load = loads[o - IN_A];
    const Dim *k = stride_of(s->lc, st, flat_offset(s->lc, load->buf, load->arg), st->axes[i].var);
    int64_t stride, rows = 1, e;
    if (!k || !dim_is_const(k, &stride)) return 0;
    for (uint32_t a = 0; a < st->nspatial; a++)
      if (in[a] == (o | IN_C)) rows *= expr_const_int(s->c, st->axes[a].extent, &e) ? e : 64;
    if (stride != 1 || rows <= most) continue;
    most = rows;
    best = o;
  }
  return best;
}

/* The column axis: C is contiguous along it, and just one operand has it or, where channels of a
 * depthwise convolution are the last axis, both have. */
static int32_t column_axis(Sched *s, const Stage *st, const Expr *la, const Expr *lb,
                           const uint8_t *in, const bool *unit_c) {
  for (uint32_t i = 0; i < st->nspatial; i++) {
    if (!unit_c[i]) continue;
    bool found = in[i] == IN_ALL ? row_operand(s, st, la, lb, in, i) != 0
                                 : in[i] == (IN_A | IN_C) || in[i] == (IN_B | IN_C);
    return found ? (int32_t)i : -1;
  }
  return -1;
}

bool stage_is_contraction(Sched *s, const Stage *st) {
  if (st->red != RED_ADD || st->value->kind != EXPR_MUL || !type_fits(s->v, st->out->dtype))
    return false;
  const Expr *la = factor_load(st->value->arg[0]), *lb = factor_load(st->value->arg[1]);
  if (!la || !lb || la->buf == st->out || lb->buf == st->out) return false;
  uint8_t in[MAX_AXES];
  bool unit_c[MAX_AXES];
  if (!classify(s, st, la, lb, in, unit_c)) return false;
  int32_t n = column_axis(s, st, la, lb, in, unit_c);
  if (n < 0) return false;
  bool any_k = false;
  for (uint32_t i = 0; i < st->naxes; i++) {
    if (!in[i]) continue;
    if (i >= st->nspatial) {
      if (in[i] != (IN_A | IN_B)) return false;
      any_k = true;
    } else if (!(in[i] & IN_C) || in[i] == IN_C) {
      return false;
    }
  }
  if (!any_k) return false;
  if (in[n] == IN_ALL) return true;
  /* one row against a B that isn't contiguous along n: dot products do better */
  uint8_t b_bit = in[n] & (IN_A | IN_B);
  const Expr *lv = b_bit == IN_A ? la : lb;
  const Dim *stride = stride_of(s->lc, st, flat_offset(s->lc, lv->buf, lv->arg), st->axes[n].var);
  int64_t step = 0, rows = 1, b_rows = 1, e;
  if (dim_is_const(stride, &step) && step == 1) return true;
  for (uint32_t i = 0; i < st->nspatial; i++) {
    if (!expr_const_int(s->c, st->axes[i].extent, &e)) e = 64;
    if (in[i] == (IN_ALL & ~b_bit)) rows *= e;
    if ((int32_t)i != n && in[i] == (b_bit | IN_C)) b_rows *= e;
  }
  return rows >= 4 || (step > 0 && step <= NEAR_STRIDE && b_rows >= 4);
}

int64_t contraction_tasks(Sched *s, const Stage *st) {
  uint8_t in[MAX_AXES];
  bool unit_c[MAX_AXES];
  int64_t rows = 1, columns = 1, others = 1, e;
  const Expr *la = factor_load(st->value->arg[0]), *lb = factor_load(st->value->arg[1]);
  if (!classify(s, st, la, lb, in, unit_c)) return 1;
  uint8_t b = in[column_axis(s, st, la, lb, in, unit_c)];
  for (uint32_t i = 0; i < st->nspatial; i++) {
    if (!expr_const_int(s->c, st->axes[i].extent, &e)) continue;
    if (in[i] == b)
      columns *= e;
    else if (in[i] == IN_ALL)
      others *= e;
    else
      rows *= e;
  }
  return (rows + TASK_ROWS - 1) / TASK_ROWS * ((columns + TASK_COLUMNS - 1) / TASK_COLUMNS) *
         others;
}

/* Whether neighbours along `row` read some of the same elements, at other steps of k. */
static bool windows_overlap(Sched *s, const Stage *st, const Dim *off, const Axis *row,
                            const Axis *k, uint32_t nk) {
  const Dim *step = stride_of(s->lc, st, off, row->var);
  for (uint32_t i = 0; step && i < nk; i++) {
    const Dim *along = stride_of(s->lc, st, off, k[i].var);
    int64_t n;
    if (!along || !expr_const_int(s->c, k[i].extent, &n)) continue;
    for (int64_t r = 1; r < n && r <= NEAR_STRIDE; r++)
      if (dim_scale(s->c, along, r) == step) return true;
  }
  return false;
}

/* Whether the windows of load `e` overlap along any axis of the result. */
static bool overlaps_at_all(Sched *s, const Stage *st, const Expr *e) {
  bool moves = false; /* else all indices are axes */
  for (uint32_t d = 0; d < e->n; d++) moves |= e->arg[d]->kind == EXPR_ADD;
  if (!moves) return false;
  const Dim *off = flat_offset(s->lc, e->buf, e->arg);
  for (uint32_t i = 0; i < st->nspatial; i++)
    if (windows_overlap(s, st, off, &st->axes[i], &st->axes[st->nspatial],
                        st->naxes - st->nspatial))
      return true;
  return false;
}

bool stage_is_window(Sched *s, const Stage *st) {
  if ((st->red != RED_ADD && st->red != RED_MAX && st->red != RED_MIN) ||
      !type_fits(s->v, st->out->dtype))
    return false;
  const Expr *load = factor_load(st->value);
  uint8_t in[MAX_AXES];
  bool unit_c[MAX_AXES];
  if (!load || load->buf == st->out || !overlaps_at_all(s, st, load) ||
      !classify(s, st, NULL, load, in, unit_c))
    return false;
  int32_t n = column_axis(s, st, NULL, load, in, unit_c);
  if (n < 0) return false;
  for (uint32_t i = 0; i < st->naxes; i++)
    if (in[i] && in[i] != (i < st->nspatial ? IN_B | IN_C : IN_B)) return false;
  int64_t step;
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  return dim_is_const(stride_of(s->lc, st, off, st->axes[n].var), &step) && step > 0 &&
         step <= NEAR_STRIDE;
}

/* The axis to tile: the last of the longest; a symbolic one counts as long. */
static int32_t pick_rows(Context *c, const Axis *at, uint32_t n) {
  int32_t best = -1;
  int64_t size = -1;
  for (uint32_t i = 0; i < n; i++) {
    int64_t e;
    if (!expr_const_int(c, at[i].extent, &e)) e = 4096;
    if (e >= size) {
      size = e;
      best = (int32_t)i;
    }
  }
  return best;
}

/* The longest axis that only the operand without axis n has; -1 when there is none. */
static int32_t other_columns(Context *c, const Stage *st, const uint8_t *in, int32_t n) {
  Axis at[MAX_AXES];
  int32_t index[MAX_AXES];
  uint32_t count = 0;
  if (in[n] == IN_ALL) return -1;
  uint8_t want = in[n] == (IN_A | IN_C) ? IN_B | IN_C : IN_A | IN_C;
  for (uint32_t i = 0; i < st->nspatial; i++) {
    if (in[i] != want) continue;
    index[count] = (int32_t)i;
    at[count++] = st->axes[i];
  }
  int32_t pick = pick_rows(c, at, count);
  return pick < 0 ? -1 : index[pick];
}

/* The k axis that moves along B as the rows do goes innermost: row i at one step is row i - 1 at
 * the next, and stays in its register. */
static void share_rows(Sched *s, const Stage *st, Contraction *con) {
  const Expr *load = factor_load(con->b);
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  const Dim *row = stride_of(s->lc, st, off, con->m.var);
  for (uint32_t i = 0; row && i + 1 < con->nk; i++) {
    if (stride_of(s->lc, st, off, con->k[i].var) != row) continue;
    Axis along = con->k[i];
    memmove(&con->k[i], &con->k[i + 1], (con->nk - i - 1) * sizeof con->k[0]);
    con->k[con->nk - 1] = along;
    return;
  }
}

/* Neighbours in A follow each other: the axes of k from its largest stride to its smallest. Lines
 * that are far apart, or of one set of the cache, would be gone before their next element is read.
 */
static void order_steps(Sched *s, const Stage *st, Contraction *con) {
  const Expr *load = factor_load(con->a);
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  int64_t stride[MAX_AXES];
  for (uint32_t i = 0; i < con->nk; i++) {
    const Dim *d = stride_of(s->lc, st, off, con->k[i].var);
    Axis axis = con->k[i];
    int64_t step;
    if (!d || !dim_is_const(d, &step)) step = INT64_MAX;
    uint32_t at = i;
    for (; at > 0 && stride[at - 1] < step; at--) {
      stride[at] = stride[at - 1];
      con->k[at] = con->k[at - 1];
    }
    stride[at] = step;
    con->k[at] = axis;
  }
}

/* An axis that only B and C have gives the rows: a tile shares A's element. Best is one along which
 * windows overlap, so that it shares B's too; else the longest. */
static void take_b_rows(Sched *s, const Stage *st, const uint8_t *in, Contraction *con) {
  Context *c = s->c;
  const Expr *load = factor_load(con->b);
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  Axis at[MAX_AXES];
  uint32_t n = 0;
  bool overlap = false;
  for (uint32_t i = 0; i < st->nspatial; i++) {
    const Axis *ax = &st->axes[i];
    if (in[i] != (IN_B | IN_C) || ax->var == con->n.var) continue;
    bool shares = windows_overlap(s, st, off, ax, con->k, con->nk);
    if (shares < overlap) continue;
    if (shares > overlap) n = 0;
    overlap = shares;
    at[n++] = *ax;
  }
  int32_t pick = pick_rows(c, at, n);
  if (pick < 0) return;
  con->m = at[pick];
  con->b_rows = true;
  share_rows(s, st, con);
  for (uint32_t i = 0; i < con->nouter; i++) {
    if (con->outer[i].var != con->m.var) continue;
    memmove(&con->outer[i], &con->outer[i + 1], (con->nouter - i - 1) * sizeof con->outer[0]);
    con->nouter--;
    return;
  }
}

bool contraction_find(Sched *s, const Group *g, bool swap, Contraction *con) {
  const Stage *st = g->stages[0];
  Context *c = s->c;
  bool product = st->value->kind == EXPR_MUL; /* else a window: B alone */
  const Expr *fa = product ? st->value->arg[0] : NULL,
             *fb = product ? st->value->arg[1] : st->value;
  const Expr *la = product ? factor_load(fa) : NULL, *lb = factor_load(fb);
  uint8_t in[MAX_AXES];
  bool unit_c[MAX_AXES];
  if (!classify(s, st, la, lb, in, unit_c)) return false;
  int32_t n = column_axis(s, st, la, lb, in, unit_c);
  if (n >= 0 && swap) n = other_columns(c, st, in, n);
  if (n < 0) return false;
  *con = (Contraction){.st = st, .a = fa, .b = fb, .d = st->out->dtype};
  con->a_columns = in[n] == IN_ALL;
  if (con->a_columns ? row_operand(s, st, la, lb, in, (uint32_t)n) == IN_B : in[n] & IN_A) {
    /* the column operand is called B, the one with rows A */
    con->a = fb;
    con->b = fa;
    for (uint32_t i = 0; i < st->naxes; i++)
      in[i] = (uint8_t)((in[i] & IN_C) | ((in[i] & IN_A) ? IN_B : 0) | ((in[i] & IN_B) ? IN_A : 0));
  }
  con->lanes = variant_lanes(s->v, con->d);
  con->n = st->axes[n];
  const Dim *kt = dim_const(c, 1);
  for (uint32_t i = 0; i < st->naxes; i++) {
    if (!in[i] || (int32_t)i == n) continue;
    if (i >= st->nspatial) {
      con->k[con->nk++] = st->axes[i];
      kt = dim_mul(c, kt, expr_dim(c, st->axes[i].extent));
    } else if (in[i] == (IN_A | IN_C)) {
      con->rows[con->nrows++] = st->axes[i];
    } else {
      con->outer[con->nouter++] = st->axes[i];
      con->b_outer = true;
    }
  }
  con->ktotal = dim_expr(c, kt, DT_I64);
  con->n_seen = map_getp(&s->seen, con->n.var);
  con->k_seen = con->nk == 1 ? map_getp(&s->seen, con->k[0].var) : NULL;
  if (con->a) order_steps(s, st, con);
  int32_t m = pick_rows(c, con->rows, con->nrows);
  if (m >= 0) {
    con->m = con->rows[m];
    for (uint32_t i = (uint32_t)m; i + 1 < con->nrows; i++) con->rows[i] = con->rows[i + 1];
    con->nrows--;
  }
  const Expr *load = factor_load(con->b);
  con->b_stride = stride_of(s->lc, st, flat_offset(s->lc, load->buf, load->arg), con->n.var);
  int64_t stride = 0;
  con->b_unit = dim_is_const(con->b_stride, &stride) && stride == 1;
  if (m < 0 && stride > 0 && stride <= NEAR_STRIDE) take_b_rows(s, st, in, con);
  return true;
}

/* ---- the plan ---- */

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
    out[n++] = (RowSegment){i64(c, start + t * height), i64(c, 1), height, false, true};
  int64_t inside = count - head - tail;
  if (inside)
    out[n++] = (RowSegment){i64(c, start + head * height), i64(c, inside), height, false, false};
  for (int64_t t = count - tail; t < count; t++)
    out[n++] = (RowSegment){i64(c, start + t * height), i64(c, 1), height, false, true};
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
  RowPlan plan = {.main = {i64(c, 0), i64(c, 1), 1, false, false}};
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

static const Expr *compare(Context *c, ExprKind k, const Expr *e, int64_t v) {
  return expr_binary(c, k, e, i64(c, v));
}

static void symbolic_rows(Kernel *kn, bool few, bool parallel, StmtVec *out) {
  Context *c = kn->em->c;
  const Expr *m = kn->con->m.extent;
  Span sp = kn->con->st->span;
  const Windows *w = kn->con->windows;
  uint32_t max = w ? w->height : tile_rows(kn->con, kn->em->s->v, tall_vectors(kn));
  int64_t cost, n;
  StmtVec many = {0};
  uint32_t low_rows = max > 8 ? 4 : 2;
  if (few && max > EXACT_ROWS) max = EXACT_ROWS;
  if (few && !expr_const_int(c, kn->con->n.extent, &n)) {
    /* every tile guarded: less code, and rarely more than one */
    StmtVec low = {0}, high = {0};
    RowPlan small = {
        .main = {i64(c, 0), expr_min(c, m, i64(c, 1)), low_rows, true, false}}; /* m: 0? */
    RowPlan tall = {.main = {i64(c, 0), expr_ceildiv(c, m, max), max, true, false}};
    gemm_rows(kn, &small, tile_vectors(kn, &small.main, 1, &cost), parallel, &low);
    gemm_rows(kn, &tall, tile_vectors(kn, &tall.main, 1, &cost), parallel, &high);
    vec_push(kn->em->tmp, &many,
             stmt_if(kn->em->a, sp, compare(c, EXPR_LE, m, low_rows), seq_of(kn->em->a, &low),
                     seq_of(kn->em->a, &high)));
  } else {
    const Expr *full = expr_simplify(c, expr_floordiv(c, m, i64(c, max)));
    const Expr *done = expr_simplify(c, expr_mul(c, full, i64(c, max)));
    RowPlan plan = {.main = {i64(c, 0), full, max, false, false}};
    plan.left = expr_simplify(c, expr_sub(c, m, done));
    for (uint32_t h = max - 1, lower; h > 0; h = lower) {
      lower = h <= 2 ? 0 : w || h > EXACT_ROWS + 1 ? h - 2 : h - 1;
      if (plan.nrest == MAX_REST) bug("more heights of tiles than a plan holds");
      plan.rest[plan.nrest++] = (RowSegment){done, i64(c, 1), h, lower + 1 < h, false};
    }
    uint32_t nv = w ? w->nv : tile_vectors(kn, &plan.main, 1, &cost);
    gemm_rows(kn, &plan, nv, parallel, &many);
  }
  if (kn->many_rows || w) {
    for (uint32_t i = 0; i < many.n; i++) vec_push(kn->em->tmp, out, many.at[i]);
    return;
  }
  /* one row: more columns at a time */
  StmtVec one = {0};
  RowPlan row = {.main = {i64(c, 0), i64(c, 1), 1, false, false}};
  gemm_rows(kn, &row, tile_vectors(kn, &row.main, 1, &cost), parallel, &one);
  Stmt *rows = stmt_if(kn->em->a, sp, compare(c, EXPR_EQ, m, 1), seq_of(kn->em->a, &one),
                       seq_of(kn->em->a, &many));
  vec_push(kn->em->tmp, out, rows);
}

static void plan_rows(Kernel *kn, bool few, bool parallel, StmtVec *out) {
  const Contraction *con = kn->con;
  int64_t m = 1;
  if (con->m.var && !expr_const_int(kn->em->c, con->m.extent, &m)) {
    symbolic_rows(kn, few, parallel, out);
    return;
  }
  if (con->edges)
    whole_columns(kn, parallel, out);
  else if (m > 0)
    static_rows(kn, m, parallel, out);
}

/* All of it from one source of B: the K blocks around the rows. */
static void emit_blocks(Kernel *kn, bool few, bool parallel, StmtVec *out) {
  const Contraction *con = kn->con;
  Context *c = kn->em->c;
  int64_t k;
  bool known = expr_const_int(c, con->ktotal, &k);
  kn->kb = NULL;
  if (con->nk != 1 || !con->a || (known && k <= K_BLOCK) || few || kn->turned || con->nbounds) {
    plan_rows(kn, few, parallel, out);
    return;
  }
  int64_t block = K_BLOCK;
  const Expr *count;
  if (known) {
    int64_t n = (k + K_BLOCK - 1) / K_BLOCK;
    block = ((k + n - 1) / n + 3) / 4 * 4;
    count = i64(c, (k + block - 1) / block);
    if (con->k_seen) count = expr_ceildiv(c, con->k_seen, block);
  } else { /* an empty K still has one block: it writes zeros */
    count = expr_ceildiv(c, con->k_seen ? con->k_seen : con->ktotal, K_BLOCK);
    count = expr_max(c, count, i64(c, 1));
  }
  kn->kb = loop_var(c, "kb");
  kn->k_block = i64(c, block);
  kn->k_begin = expr_simplify(c, expr_mul(c, kn->kb->expr, i64(c, block)));
  kn->k_end =
      expr_min(c, expr_add(c, kn->k_begin, i64(c, block)), con->k_seen ? con->k_seen : con->ktotal);
  kn->last_kb = expr_binary(c, EXPR_EQ, kn->kb->expr, expr_sub(c, count, i64(c, 1)));
  StmtVec body = {0};
  plan_rows(kn, few, parallel, &body);
  Stmt *loop = stmt_for(kn->em->a, con->st->span, kn->kb, i64(c, 0), count, FOR_SERIAL,
                        seq_of(kn->em->a, &body));
  vec_push(kn->em->tmp, out, loop);
}

/* Loops over axes around a statement; the outermost parallel when asked. */
static Stmt *wrap_outer(Sched *s, const Contraction *con, const Axis *axes, Var *const *vars,
                        uint32_t n, int64_t grain, Stmt *st) {
  for (uint32_t i = n; st && i-- > 0;) {
    st = loop_of(s->lc, con->st->span, vars[i], axes[i].extent, FOR_SERIAL, st);
    if (i == 0 && grain && st && st->kind == STMT_FOR) loop_set_parallel(s->lc, st, grain);
  }
  return st;
}

/* The columns that were decided on when constants were packed, else the contiguous ones. */
static Buffer *find_form(Sched *s, const Group *g, Contraction *con) {
  for (int swap = 1; swap >= 0; swap--) {
    if (!contraction_find(s, g, swap, con)) continue;
    Buffer *ready = map_getp(&s->lc->packed, factor_load(con->b)->buf);
    if (ready) return ready;
  }
  return NULL;
}

/* Whether what the group stores is contiguous along m and strided along n. */
static bool results_turned(Sched *s, const Emit *em, const Contraction *con) {
  int64_t m = 0, n = 1;
  if (!con->m.var) return false;
  for (uint32_t i = 0; i < em->g->n; i++) {
    const Stage *st = em->g->stages[i];
    const Temp *t = map_getp(&em->temps, st->out);
    if (!t->in_memory) continue;
    const Dim *off = flat_offset(s->lc, st->out, st->oidx);
    const Dim *dm = stride_of(s->lc, st, off, con->m.var);
    const Dim *dn = stride_of(s->lc, st, off, con->n.var);
    if (!dm || !dn || !dim_is_const(dm, &m) || m != 1 || (dim_is_const(dn, &n) && n == 1))
      return false;
  }
  return m == 1;
}

/* Whether the columns of B at one step of k are far from those at the next, of which n are wanted:
 * other pages, few lines of each. */
static bool lies_apart(Sched *s, const Contraction *con, int64_t n) {
  const Expr *load = factor_load(con->b);
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  const Dim *step = con->nk ? stride_of(s->lc, con->st, off, con->k[con->nk - 1].var) : NULL;
  int64_t k;
  return !step || !dim_is_const(step, &k) || k > 2 * n;
}

/* Whether B is the same in all blocks of rows that the group stands in. */
static bool is_common(const Sched *s, const Contraction *con) {
  const Expr *load = factor_load(con->b);
  if (!s->prologue || con->b_outer || map_hasp(&s->local, load->buf)) return false;
  for (uint32_t i = 0; i < load->n; i++)
    if (expr_uses_var(load->arg[i], s->block)) return false;
  return true;
}

/* B's panels, packed before the blocks of rows; once, though several kernels may use them. */
static Buffer *common_panels(const Kernel *kn) {
  Sched *s = kn->em->s;
  const Expr *load = factor_load(kn->con->b);
  Buffer *panels = map_getp(s->common, load);
  if (!panels) panels = pack_panels(kn->em, kn->con, kn->src.width, s->prologue);
  map_setp(s->common, load, panels);
  return panels;
}

/* Rows of C that are short of a vector: several of them, along another axis that A hasn't, make a
 * tile as wide as others (images of 14 x 14 and 7 x 7 elements). Only where each step of k reads
 * other columns: else n and that axis would be one. */
static void take_lines(Sched *s, const Emit *em, Contraction *con) {
  Context *c = s->c;
  int64_t n, m, size, best = 1;
  if (con->b_rows || con->a_columns || con->nk < 2 || !con->b_unit || !con->m.var ||
      !em->use_mask || !expr_const_int(c, con->n.extent, &n) || n > con->lanes ||
      n * 4 < con->lanes || (expr_const_int(c, con->m.extent, &m) && m < LINE_ROWS))
    return;
  const Expr *load = factor_load(con->a);
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  uint32_t at = con->nouter;
  for (uint32_t i = 0; i < con->nouter; i++) {
    if (dim_uses_var(off, con->outer[i].var) || !expr_const_int(c, con->outer[i].extent, &size) ||
        size <= best)
      continue;
    best = size;
    at = i;
  }
  if (at == con->nouter) return;
  con->lines = con->outer[at];
  con->nouter--;
  memmove(&con->outer[at], &con->outer[at + 1], (con->nouter - at) * sizeof con->outer[0]);
}

/* p->group: g reading what `before` pads without the padding, with em and con for it. False when
 * that has to stay. */
static bool without_padding(Sched *s, const Group *g, const Stage *before, Padding *p, Emit *em,
                            Contraction *con) {
  if (!sink_is_private(s, before, g->stages[0]) || !padding_open(s, g, before, p)) return false;
  emit_init(em, s, &p->group);
  if (find_form(s, &p->group, con)) return padding_of_rows(s, p, con);
  if (!con->st || (con->m.var && !con->b_rows)) return false; /* it stays A's */
  if (padding_of_windows(em, p, con)) return true;
  emit_collapse(em);
  *con = (Contraction){0};
  return !find_form(s, &p->group, con) && con->st && padding_of_columns(em, p, con);
}

/* How a B with contiguous columns is best read by few rows. */
typedef enum {
  READ_PACKED, /* from panels, copied before: it isn't known how far its rows are apart, say */
  READ_PLACE,  /* where it is */
  READ_FILL,   /* the first tile of a panel copies it while it works, for those that follow: rows so
                  far apart that they push each other out of the first level of cache */
} Reading;

static Reading best_reading(const Kernel *kn, int64_t m) {
  const Contraction *con = kn->con;
  Sched *s = kn->em->s;
  const Expr *load = factor_load(con->b);
  int64_t step = 0, n = 0;
  if (!con->b_unit || con->nk != 1 || con->b_rows || con->edges || con->windows || con->nrows ||
      con->nbounds || m > FEW_ROWS || s->prologue ||
      !dim_is_const(
          stride_of(s->lc, con->st, flat_offset(s->lc, load->buf, load->arg), con->k[0].var),
          &step))
    return READ_PACKED;
  if (step * (int64_t)dtype_bytes(load->dtype) % COLLIDE_BYTES) return READ_PLACE;
  expr_const_int(s->c, con->n.extent, &n);
  return m >= FILL_ROWS && n >= kn->src.width && dtype_eq(load->dtype, con->d) ? READ_FILL
                                                                               : READ_PACKED;
}

bool contraction_emit(Sched *s, Group *g, const Stage *before, StmtVec *out) {
  Context *c = s->c;
  Emit em;
  Contraction con = {0};
  Padding padding;
  Group parts;
  for (uint32_t i = 0; i < g->n; i++)
    if (!vec_possible(g->stages[i]->value)) return false;
  if (unmerge_axes(s, g, &parts)) g = &parts;
  bool bare = before && without_padding(s, g, before, &padding, &em, &con);
  if (bare) {
    g = &padding.group;
  } else {
    con = (Contraction){0};
    bool packed = find_form(s, g, &con) != NULL;
    if (before && (packed || !con.st || !sink_fits(s, before, &con))) return false;
    if (con.st && !before && !con.a_columns) rows_compact(s, g, &con, out);
    emit_init(&em, s, g);
    if (!before) {
      emit_collapse(&em);
      con = (Contraction){0};
      if (!find_form(s, g, &con) && con.st && !results_turned(s, &em, &con))
        take_lines(s, &em, &con);
    }
  }
  if (!con.st) return false;
  Buffer *ready = map_getp(&s->lc->packed, factor_load(con.b)->buf);
  int64_t m = 1, n = -1, k = -1;
  bool m_known = !con.m.var || expr_const_int(c, con.m.extent, &m);
  bool n_known = expr_const_int(c, contraction_columns(c, &con), &n),
       k_known = expr_const_int(c, con.ktotal, &k);
  int64_t elem = (int64_t)dtype_bytes(con.d);
  Kernel kn = {.em = &em, .con = &con};
  kn.src.width = s->lc->pc->target->panel_lanes * 32 / con.d.bits;
  bool sizes_known = n_known && k_known;
  int64_t stride;
  bool near = dim_is_const(con.b_stride, &stride) && stride > 0 && stride <= NEAR_STRIDE;
  bool must = !con.b_unit && !near; /* in place would gather from far */
  bool small_b = sizes_known && n * k * elem <= PACK_BYTES;
  int64_t few = sizes_known && n * k * elem <= NEAR_BYTES ? PACK_ROWS_NEAR : PACK_ROWS;
  bool common = is_common(s, &con);
  if (common) m_known = expr_const_int(c, s->rows, &m);
  bool pack = must || (!small_b && !(m_known && m < few) && !con.b_outer);
  if (common && !must) pack &= m_known && lies_apart(s, &con, n);
  if (pack && con.b_outer && con.nk > 1) pack = must = false; /* windows overlap: no copy of each */
  if (ready) {
    pack = must = false;
    kn.src.panels = flat_view(s->lc, ready);
  }
  if (!ready && !must && !small_b && m_known && sizes_known) {
    Reading reading = best_reading(&kn, m);
    kn.src.by_task = reading == READ_FILL;
    pack = pack && reading == READ_PACKED;
  }
  kn.turned = results_turned(s, &em, &con);
  kn.rows_inside = con.nrows && (con.a_columns || !(sizes_known && n * k * elem <= STAY_BYTES));
  Axis outer[MAX_AXES] = {0};
  Var *vars[MAX_AXES] = {0};
  uint32_t no = 0;
  for (uint32_t i = 0; i < con.nouter; i++) outer[no++] = con.outer[i];
  for (uint32_t i = 0; !kn.rows_inside && i < con.nrows; i++) outer[no++] = con.rows[i];
  for (uint32_t i = 0; i < no; i++) {
    vars[i] = loop_var(c, outer[i].var->name);
    emit_bind(&em, outer[i].var, vars[i]->expr);
  }
  int64_t work = 1;
  int64_t sizes[] = {m_known ? m : 64, n_known ? n : 64, k_known ? k : 64};
  for (int i = 0; i < 3; i++)
    if (work < (1 << 30)) work *= sizes[i];
  bool parallel = work >= PARALLEL_WORK || !m_known || !n_known || kn.rows_inside;
  bool outer_parallel = no && !pack && !s->nested;
  if (outer_parallel || s->nested) parallel = false;
  StmtVec body = {0};
  if (before && !bare) sink_emit(&em, before, &con, &body);
  if (con.windows) windows_open(&em, &con, &body);
  if (pack) {
    StmtVec packed = {0}, place = {0};
    kn.src.panels = common ? common_panels(&kn) : pack_panels(&em, &con, kn.src.width, &packed);
    kn.many_rows = !m_known && !must;
    emit_blocks(&kn, false, parallel, &packed);
    if (kn.many_rows) {
      kn.many_rows = false;
      kn.src.panels = NULL;
      emit_blocks(&kn, true, parallel, &place);
      const Expr *in_place = compare(c, EXPR_LT, con.m.extent, PACK_ROWS);
      if (!sizes_known) { /* the same question about B, at run time */
        const Expr *size = expr_simplify(c, expr_mul(c, con.ktotal, con.n.extent));
        in_place = expr_binary(c, EXPR_OR, in_place, compare(c, EXPR_LE, size, PACK_BYTES / elem));
      }
      vec_push(s->tmp, &body,
               stmt_if(s->a, con.st->span, in_place, seq_of(s->a, &place), seq_of(s->a, &packed)));
    } else {
      for (uint32_t i = 0; i < packed.n; i++) vec_push(s->tmp, &body, packed.at[i]);
    }
  } else {
    emit_blocks(&kn, false, parallel, &body);
  }
  if (!body.n) return true;
  loop_remark(s->lc, con.st->span, "contraction in register tiles, %u lanes, %s%s%s", con.lanes,
              ready            ? "operand packed at compile time"
              : pack           ? "operand packed at run time"
              : kn.src.by_task ? "operand packed by the first tiles"
                               : "operand read in place",
              !bare                      ? ""
              : con.edges || con.windows ? ", padding masked"
                                         : ", padding left out",
              g->n > 1 ? ", epilogue in registers" : "");
  int64_t grain = outer_parallel ? PARALLEL_WORK / (work > 0 ? work : 1) + 1 : 0;
  Stmt *st = wrap_outer(s, &con, outer, vars, no, grain, seq_of(s->a, &body));
  if (st) vec_push(s->tmp, out, st);
  return true;
}
