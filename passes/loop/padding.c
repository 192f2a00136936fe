/* Padding that a contraction reads without.
 *
 *   before: P[c, y, x] = if_then_else(1 <= y and y < 8 and 1 <= x and x < 8, X[c, y - 1, x - 1], 0)
 *           C[n, y, x] += P[c, y + i, x + j] * B[c, i, j, n]
 *   after:  C[n, y, x] += X[c, y + i - 1, x + j - 1] * B[c, i, j, n],
 *           only where 1 <= y + i < 8 and 1 <= x + j < 8
 *
 * The copy goes, and so do the products with zeros: of a 3 x 3 window on 7 x 7 elements they are
 * 18 %. Each bound ties one row axis to one axis of k. Where the row axis is the one in tiles, a
 * tile at the border has its own code, whose steps of k leave out the rows that have no such term;
 * a row axis that is a loop around bounds the loop over k. Of as many rows as only the run tells,
 * those at both ends share a tile with what full tiles leave of the others. Zero times infinity is
 * no zero: B has to be constant and finite, or of integers.
 *
 * Where the padded operand is the one in lanes (a depthwise convolution), its rows are shorter than
 * a vector, and the bare image is contiguous over several of them, so are the results: lanes run
 * over all of it, and a constant mask for each vector and step of k gives zeros at the edges.
 */
#include <math.h>

#include "passes/loop/contraction.h"

#define MAX_ENDS 6    /* rows at the ends of as many as only the run tells */
#define MAX_STATIC 16 /* steps of an axis of k that are emitted one by one */
#define MAX_TAPS 32   /* steps of k with a mask of their own */
#define MAX_VECTORS 8 /* of columns, all in one tile */
#define NO_BOUND (INT64_MAX / 4)

static int64_t floor_div(int64_t a, int64_t k) {
  return a / k - (a % k < 0);
}

/* ---- what the border is ---- */

/* f * axis + rest < 0 narrows the axis's range; false when it is unknown which bound is closer. */
static bool narrow(Context *c, Inside *r, int64_t f, const Dim *rest) {
  const Dim **bound = f > 0 ? &r->hi : &r->lo, *at;
  int64_t v, old;
  if (f == 1)
    at = dim_scale(c, rest, -1);
  else if (f == -1)
    at = dim_add(c, rest, dim_const(c, 1));
  else if (dim_is_const(rest, &v)) /* axis < ceil(-rest / f), or floor(rest / -f) < axis */
    at = dim_const(c, f > 0 ? -floor_div(v, f) : floor_div(v, -f) + 1);
  else
    return false;
  if (*bound && *bound != at) {
    if (!dim_is_const(*bound, &old) || !dim_is_const(at, &v)) return false;
    if (f > 0 ? old < v : old > v) at = *bound;
  }
  *bound = at;
  return true;
}

/* An operand of a comparison; an axis that is counted in a narrower type is the axis. */
static const Dim *operand(Context *c, const Expr *e) {
  if (e->kind == EXPR_CAST && e->arg[0]->kind == EXPR_VAR && e->dtype.bits >= 32) e = e->arg[0];
  return expr_dim(c, e);
}

/* Collects what the comparisons say about single axes; false when there is anything else. */
static bool find_ranges(Context *c, const Stage *p, const Expr *cond, Inside *ranges) {
  if (cond->kind == EXPR_AND)
    return find_ranges(c, p, cond->arg[0], ranges) && find_ranges(c, p, cond->arg[1], ranges);
  bool less = cond->kind == EXPR_LT || cond->kind == EXPR_LE,
       more = cond->kind == EXPR_GT || cond->kind == EXPR_GE;
  if ((!less && !more) || !dtype_is_int(cond->arg[0]->dtype)) return false;
  const Dim *d = dim_sub(c, operand(c, cond->arg[0]), operand(c, cond->arg[1])), *coef, *rest;
  if (more) d = dim_scale(c, d, -1);
  if (cond->kind == EXPR_LE || cond->kind == EXPR_GE) d = dim_sub(c, d, dim_const(c, 1));
  bool narrow_type = cond->arg[0]->dtype.bits < 64 || cond->arg[1]->dtype.bits < 64;
  for (uint32_t i = 0; i < p->naxes; i++) {
    int64_t f, extent;
    if (!dim_uses_var(d, p->axes[i].var)) continue;
    if (!dim_linear(c, d, p->axes[i].var, &coef, &rest) || !dim_is_const(coef, &f)) return false;
    if (narrow_type && (!expr_const_int(c, p->axes[i].extent, &extent) || extent > INT32_MAX ||
                        !dim_is_const(rest, NULL)))
      return false; /* it might wrap */
    for (uint32_t k = 0; k < p->naxes; k++)
      if (dim_uses_var(rest, p->axes[k].var)) return false;
    return narrow(c, &ranges[i], f, rest);
  }
  return false;
}

bool is_zero(const Expr *e) {
  return e->kind == EXPR_FLOAT ? e->f == 0 && !signbit(e->f) : expr_is_int(e, 0);
}

static bool is_literal(const Expr *e) {
  return e->kind == EXPR_FLOAT || e->kind == EXPR_INT;
}

typedef struct {
  Sched *s;
  const Stage *p;     /* what pads */
  const Expr *copied; /* what it copies, at its axes */
  const Expr *load;   /* found: the load of its result */
} Replace;
static const Expr *replace_load(Context *c, const Expr *e, void *ctx) {
  Replace *r = ctx;
  if (e->kind != EXPR_LOAD || e->buf != r->p->out) return e;
  r->load = e;
  Map m;
  map_init(&m, r->s->tmp);
  for (uint32_t j = 0; j < r->p->naxes; j++) map_setp(&m, r->p->axes[j].var, (void *)i64(c, 0));
  for (uint32_t d = 0; d < e->n; d++)
    if (r->p->oaxis[d] >= 0) map_setp(&m, r->p->axes[r->p->oaxis[d]].var, (void *)e->arg[d]);
  return subst_vars(c, &m, r->copied);
}

bool padding_open(Sched *s, const Group *g, const Stage *before, Padding *p) {
  Context *c = s->c;
  const Stage *st = g->stages[0];
  const Expr *v = before->value;
  Inside ranges[MAX_AXES];
  bool product = st->value->kind == EXPR_MUL;
  if (v->kind != EXPR_CALL || v->intrin != INTRIN_if_then_else || v->arg[1]->kind != EXPR_LOAD ||
      v->arg[1]->has_pred || !(product ? is_zero(v->arg[2]) : is_literal(v->arg[2])))
    return false;
  for (uint32_t i = 0; i < before->naxes; i++) ranges[i] = (Inside){0};
  if (!find_ranges(c, before, v->arg[0], ranges)) return false;
  Replace r = {s, before, v->arg[1], NULL};
  const Expr *value = expr_rewrite(c, st->value, replace_load, &r);
  if (!r.load) return false;
  *p = (Padding){.group = *g, .nouter = g->nouter, .value = v->arg[2]};
  memcpy(p->outer, g->outer, sizeof p->outer);
  for (uint32_t d = 0; d < r.load->n; d++) {
    int32_t ax = before->oaxis[d];
    if (ax < 0) continue;
    ranges[ax].at = expr_dim(c, r.load->arg[d]);
    p->inside[p->n++] = ranges[ax];
  }
  p->group.stages = ARENA_ARRAY(s->tmp, Stage *, g->n);
  for (uint32_t i = 0; i < g->n; i++)
    p->group.stages[i] = arena_dup(s->tmp, g->stages[i], sizeof *g->stages[i]);
  p->group.stages[0]->value = stage_simplify(s, st, value);
  return true;
}

bool inside_is_all(const Inside *in) {
  return !in->lo && !in->hi;
}

/* The range of `in`, whose index is some axes' sum and `rest`; false when it isn't constant. */
static bool find_range(const Inside *in, int64_t rest, int64_t *lo, int64_t *hi) {
  *lo = -NO_BOUND;
  *hi = NO_BOUND;
  if ((in->lo && !dim_is_const(in->lo, lo)) || (in->hi && !dim_is_const(in->hi, hi))) return false;
  *lo -= rest;
  *hi -= rest;
  return true;
}

/* The same for a row axis that is a loop, whose end may be symbolic. */
static bool find_loop_range(Context *c, const Inside *in, int64_t rest, Bound *b) {
  Inside begin = {.at = in->at, .lo = in->lo};
  if (find_range(in, rest, &b->lo, &b->hi)) return true;
  if (b->tiled || !in->hi || !find_range(&begin, rest, &b->lo, &b->hi)) return false;
  b->end = dim_sub(c, in->hi, dim_const(c, rest));
  return true;
}

/* The same for tiles of rows, as many as only the run tells: its end counts from theirs. */
static bool find_end_range(Context *c, const Inside *in, int64_t rest, const Expr *rows, Bound *b) {
  Inside begin = {.at = in->at, .lo = in->lo};
  int64_t end = NO_BOUND;
  if (!find_range(&begin, rest, &b->lo, &b->hi)) return false;
  if (in->hi) {
    const Dim *all = dim_scale(c, expr_dim(c, rows), b->row_step);
    if (!dim_is_const(dim_sub(c, in->hi, all), &end)) return false;
    end -= rest;
  }
  b->hi = end;
  b->at_end = true;
  return true;
}

/* What the padding's value is as a factor, or as what a window takes. */
void padding_take_value(Context *c, const Padding *p, Contraction *con) {
  con->pad = con->b->kind == EXPR_CAST ? expr_cast(c, con->b->dtype, p->value) : p->value;
}

/* ---- what it means for the loops ---- */

/* Takes the one axis of axes[0..n) out of *d. *step 0: none of them is there. */
static bool take_axis(Context *c, const Axis *axes, uint32_t n, const Dim **d, uint32_t *index,
                      int64_t *step) {
  *step = 0;
  for (uint32_t i = 0; i < n; i++) {
    const Dim *coef, *rest;
    int64_t v;
    if (!dim_uses_var(*d, axes[i].var)) continue;
    if (*step || !dim_linear(c, *d, axes[i].var, &coef, &rest) || !dim_is_const(coef, &v) || v <= 0)
      return false;
    *d = rest;
    *index = i;
    *step = v;
  }
  return true;
}

/* Whether the bound holds for all rows and all k anyway. */
static bool is_always(Context *c, const Bound *b, const Axis *row, const Axis *k) {
  int64_t rows, steps;
  return !b->end && expr_const_int(c, row->extent, &rows) && expr_const_int(c, k->extent, &steps) &&
         b->lo <= 0 && (rows - 1) * b->row_step + (steps - 1) * b->k_step < b->hi;
}

/* The first row, or step of k, at which a step of the other kind is `at` or more. */
static int64_t first_row(const Bound *b, int64_t at, int64_t k) {
  return -floor_div(b->k_step * k - at, b->row_step);
}

/* How many rows at either end lack a term of that axis. */
static void count_ends(const Bound *b, int64_t steps, int64_t *head, int64_t *tail) {
  *head = first_row(b, b->lo, 0);
  *tail = -first_row(b, b->hi, steps - 1);
  if (*head < 0) *head = 0;
  if (*tail < 0) *tail = 0;
}

/* Whether tiles can do without a term where the bound, of rows in tiles, says so; *always: no row
 * lacks any. */
static bool suits_tiles(Context *c, const Bound *b, const Axis *rows, const Axis *k, bool *always) {
  int64_t size, steps, head, tail;
  bool counted = expr_const_int(c, rows->extent, &size);
  *always = false;
  if (!expr_const_int(c, k->extent, &steps) || steps > MAX_STATIC) return false;
  if (counted) return size > 0;
  if (steps <= 0) return false;
  count_ends(b, steps, &head, &tail);
  *always = head + tail == 0;
  return head + tail <= MAX_ENDS;
}

/* The range of an index as a bound of one row axis and one axis of k. */
static bool add_bound(Sched *s, const Inside *in, Contraction *con) {
  Context *c = s->c;
  const Dim *d = in->at;
  Bound b = {0};
  uint32_t row = 0;
  int64_t rest, size;
  Map zero; /* axes of a single step */
  map_init(&zero, s->tmp);
  for (uint32_t i = 0; i < con->st->naxes; i++)
    if (axis_is_unit(&con->st->axes[i])) map_setp(&zero, con->st->axes[i].var, (void *)i64(c, 0));
  d = dim_subst(c, d, &zero);
  b.tiled = con->m.var && dim_uses_var(d, con->m.var);
  const Axis *rows = b.tiled ? &con->m : con->rows;
  if (!take_axis(c, rows, b.tiled ? 1 : con->nrows, &d, &row, &b.row_step) || !b.row_step ||
      !take_axis(c, con->k, con->nk, &d, &b.k, &b.k_step) || !b.k_step || !dim_is_const(d, &rest))
    return false;
  const Axis *k = &con->k[b.k];
  b.row = rows[row].var;
  bool counted = !b.tiled || expr_const_int(c, con->m.extent, &size), always;
  if (con->nbounds == MAX_BOUNDS || !(counted ? find_loop_range(c, in, rest, &b)
                                              : find_end_range(c, in, rest, con->m.extent, &b)))
    return false;
  if (is_always(c, &b, &rows[row], k)) return true;
  if (b.tiled && !suits_tiles(c, &b, &con->m, k, &always)) return false;
  if (b.tiled && always) return true;
  for (uint32_t i = 0; i < con->nbounds; i++)
    if (con->bounds[i].k == b.k) return false;
  con->bounds[con->nbounds++] = b;
  return true;
}

bool factor_is_finite(const LoopCtx *lc, const Contraction *con, const Expr *factor) {
  return dtype_is_int(con->d) || map_hasp(&lc->finite, factor_load(factor)->buf);
}

bool padding_of_rows(Sched *s, const Padding *p, Contraction *con) {
  if (!con->a || !factor_is_finite(s->lc, con, con->b) || con->b_rows) return false;
  for (uint32_t i = 0; i < p->n; i++)
    if (!inside_is_all(&p->inside[i]) && !add_bound(s, &p->inside[i], con)) return false;
  return true;
}

const Bound *bound_of(const Contraction *con, uint32_t k) {
  for (uint32_t i = 0; i < con->nbounds; i++)
    if (con->bounds[i].k == k) return &con->bounds[i];
  return NULL;
}

void bound_rows(const Bound *b, int64_t k, int64_t *from, int64_t *to) {
  int64_t lo = first_row(b, b->lo, k), hi = first_row(b, b->hi, k);
  if (lo > *from) *from = lo;
  if (hi < *to) *to = hi;
}

void bound_ends(const Bound *b, int64_t k, uint32_t head, uint32_t rows, int64_t *from,
                int64_t *to) {
  int64_t lo = first_row(b, b->lo, k), hi = (int64_t)rows + first_row(b, b->hi, k);
  if (lo > head) lo = head;
  if (hi < head) hi = head;
  if (lo > *from) *from = lo;
  if (hi < *to) *to = hi;
}

void border_ends(Context *c, const Contraction *con, uint32_t *head, uint32_t *tail) {
  *head = *tail = 0;
  for (uint32_t i = 0; i < con->nbounds; i++) {
    const Bound *b = &con->bounds[i];
    int64_t steps = 1, first, last;
    if (!b->at_end) continue;
    expr_const_int(c, con->k[b->k].extent, &steps);
    count_ends(b, steps, &first, &last);
    if (first > *head) *head = (uint32_t)first;
    if (last > *tail) *tail = (uint32_t)last;
  }
}

void bound_steps(Context *c, const Bound *b, const Expr *row, const Expr *rows, const Expr *extent,
                 const Expr **first, const Expr **count) {
  const Expr *at[2];
  const Expr *end = b->end ? dim_expr(c, b->end, DT_I64) : i64(c, b->hi);
  if (b->at_end) end = expr_add(c, end, expr_mul(c, rows, i64(c, b->row_step)));
  const Expr *limit[] = {i64(c, b->lo), end};
  for (int i = 0; i < 2; i++) {
    const Expr *left = expr_sub(c, limit[i], expr_mul(c, row, i64(c, b->row_step)));
    at[i] = b->k_step == 1 ? left : expr_ceildiv(c, left, b->k_step);
  }
  *first = expr_simplify(c, expr_max(c, at[0], i64(c, 0)));
  *count = expr_sub(c, expr_min(c, at[1], extent), *first);
  *count = expr_simplify(c, expr_max(c, *count, i64(c, 0)));
}

/* ---- the padded operand in lanes ---- */

static uint32_t axis_of(const Axis *axes, uint32_t n, const Var *v) {
  uint32_t i = 0;
  while (i < n && axes[i].var != v) i++;
  return i;
}

/* The axes that became con's columns, the innermost first; false unless they are several. */
static bool find_merged(Context *c, const Padding *p, const Contraction *con, Edges *e,
                        const Axis **axes) {
  int64_t left, extent;
  uint32_t i = axis_of(p->outer, p->nouter, con->n.var);
  if (i == p->nouter || !expr_const_int(c, con->n.extent, &left)) return false;
  for (;; i--) {
    if (!expr_const_int(c, p->outer[i].extent, &extent) || extent < 1 || left % extent)
      return false;
    axes[e->naxes] = &p->outer[i];
    e->extent[e->naxes++] = extent;
    left /= extent;
    if (left == 1) return e->naxes > 1;
    if (!i) return false;
  }
}

static bool add_edge(Context *c, const Inside *in, const Contraction *con, const Axis *const *axes,
                     Edges *e) {
  const Dim *d = in->at, *coef;
  int64_t rest;
  if (e->n == MAX_BOUNDS) return false;
  uint32_t at = e->n++;
  for (uint32_t i = 0; i < e->naxes; i++)
    if (!dim_linear(c, d, axes[i]->var, &coef, &d) || !dim_is_const(coef, &e->in[at].axis[i]))
      return false;
  for (uint32_t i = 0; i < con->nk; i++)
    if (!dim_linear(c, d, con->k[i].var, &coef, &d) || !dim_is_const(coef, &e->in[at].k[i]))
      return false;
  for (uint32_t i = 0; i < con->st->naxes; i++) /* of a single step, or merged ones */
    if (axis_is_unit(&con->st->axes[i]) && !dim_linear(c, d, con->st->axes[i].var, &coef, &d))
      return false;
  return dim_is_const(d, &rest) && find_range(in, rest, &e->in[at].lo, &e->in[at].hi);
}

bool columns_fit(const Variant *v, int64_t lanes, int64_t rows, int64_t columns) {
  int64_t merged = (rows * columns + lanes - 1) / lanes;
  int64_t by_row = rows * ((columns + lanes - 1) / lanes);
  return merged < by_row && merged <= MAX_VECTORS && merged * 2 + 2 <= (int64_t)v->vector_regs;
}

bool padding_of_columns(Emit *em, const Padding *p, Contraction *con) {
  Context *c = em->c;
  const Axis *axes[MAX_AXES];
  int64_t n, k;
  Edges *e = ARENA_NEW(em->tmp, Edges);
  if (con->b_rows) { /* images one after the other */
    con->outer[con->nouter++] = con->m;
    con->m.var = NULL;
    con->b_rows = false;
  }
  if (!em->use_mask || con->m.var || con->nrows || !con->b_unit ||
      !expr_const_int(c, con->n.extent, &n) || !expr_const_int(c, con->ktotal, &k) ||
      k > MAX_TAPS || !find_merged(c, p, con, e, axes))
    return false;
  if (!columns_fit(em->s->v, con->lanes, n / e->extent[0], e->extent[0])) return false;
  for (uint32_t i = 0; i < p->n; i++)
    if (!inside_is_all(&p->inside[i]) && !add_edge(c, &p->inside[i], con, axes, e)) return false;
  con->edges = e;
  padding_take_value(c, p, con);
  return true;
}

bool edges_hold(const Edges *e, int64_t column, const int64_t *k, uint32_t nk) {
  int64_t at[MAX_AXES];
  for (uint32_t i = 0; i < e->naxes; i++) {
    at[i] = column % e->extent[i];
    column /= e->extent[i];
  }
  if (column) return false;
  for (uint32_t x = 0; x < e->n; x++) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < e->naxes; i++) sum += at[i] * e->in[x].axis[i];
    for (uint32_t i = 0; i < nk; i++) sum += k[i] * e->in[x].k[i];
    if (sum < e->in[x].lo || sum >= e->in[x].hi) return false;
  }
  return true;
}
