/* Contractions: recognised from index maps, never from names.
 *
 * A sum of products of two loads, whose offsets are linear in all axes: an axis that both operands
 * and the result have is a batch axis, one of A and C a row axis (m), one of B and C a column axis
 * (n), one of A and B a reduction axis (k). Matrix products of any layout and broadcast, einsums,
 * convolutions and users' own loops all come out the same. Where the axis along which C is
 * contiguous is a batch axis, the channels of a depthwise convolution, it is the column axis all
 * the same: A then gives a vector for each row instead of an element.
 */
#include "passes/loop/contraction.h"

#define KNOWN_ROWS 6     /* rows whose number is known that do for a tile */
#define COMMON_ROWS 4    /* rows that share a vector of columns which the other operand has, too, */
#define COMMON_COLUMNS 8 /* and columns that are worth it */
#define TASK_ROWS 12     /* of a tile */
#define TASK_COLUMNS 32

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
  if (!red_any_order(st->red) || st->red == RED_MUL || !type_fits(s->v, st->out->dtype))
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

/* Rows along a symbolic axis may be few: an axis of known length is better whose neighbours in A
 * are nearer (pixels of an image, where the number of images is symbolic). */
static int32_t nearer_rows(Sched *s, const Contraction *con, int32_t m) {
  const Expr *load = factor_load(con->a);
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  int64_t size, best = KNOWN_ROWS - 1, far, near;
  const Dim *d = stride_of(s->lc, con->st, off, con->rows[m].var);
  if (expr_const_int(s->c, con->rows[m].extent, &size) || !d || !dim_is_const(d, &far)) return m;
  for (uint32_t i = 0; i < con->nrows; i++) {
    d = stride_of(s->lc, con->st, off, con->rows[i].var);
    if (!expr_const_int(s->c, con->rows[i].extent, &size) || size < best || !d ||
        !dim_is_const(d, &near) || near >= far)
      continue;
    best = size;
    m = (int32_t)i;
  }
  return m;
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
  if (m >= 0) m = nearer_rows(s, con, m);
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
