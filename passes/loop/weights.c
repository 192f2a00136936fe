/* Rows of weights between two contractions (a softmax, found from its loops).
 *
 *   top[r] = max_j x[r, j];  e[r, j] = exp(x[r, j] - top[r]);  sum[r] = sum_j e[r, j]
 *   w[r, j] = e[r, j] / sum[r];  y[r, c] = sum_j w[r, j] * v[j, c]
 *
 * Every e lies between 0 and 1 and one of each row is 1, or the row holds NaN, and so do its w and
 * y. Two things follow:
 *
 *   y[r, c] = (sum_j e[r, j] * v[j, c]) / sum[r]     far fewer divisions, and no w
 *   j runs only to the last column that a row of a block sees, where x is select(j <= r + d, ..,
 * -inf)
 *
 * As attention kernels do (Dao et al.: FlashAttention, 2022), the second takes what a mask hides
 * for finite: zero times v is zero, and -inf plus a score -inf.
 */
#include "passes/loop/weights.h"

#include <math.h>

static Stage *writer(const Item *items, uint32_t n, const Buffer *b) {
  for (uint32_t k = 0; k < n; k++)
    if (items[k].stage->out == b) return items[k].stage;
  return NULL;
}

static bool is_load(const Expr *e) {
  return e->kind == EXPR_LOAD && !e->has_pred;
}

/* Whether index lists agree in all dimensions but d. */
static bool same_but(const Expr *const *a, const Expr *const *b, uint32_t n, int32_t d) {
  for (uint32_t i = 0; i < n; i++)
    if ((int32_t)i != d && a[i] != b[i]) return false;
  return true;
}

/* The only dimension of idx that is `v`, or -1. */
static int32_t dim_of(const Expr *const *idx, uint32_t n, const Var *v) {
  int32_t at = -1;
  for (uint32_t i = 0; i < n; i++) {
    if (!expr_uses_var(idx[i], v)) continue;
    if (at >= 0 || idx[i] != v->expr) return -1;
    at = (int32_t)i;
  }
  return at;
}

/* Whether st is a reduction of this kind, over one axis, of plain elements of b. */
static bool reduces(const Stage *st, RedKind kind, const Buffer *b) {
  return st && st->red == kind && st->naxes == st->nspatial + 1 && is_load(st->value) &&
         st->value->buf == b;
}

static Var *reduced_axis(const Stage *st) {
  return st->axes[st->nspatial].var;
}

/* e / sum or e * (1 / sum): the loads of both. */
static bool split_division(const Expr *value, const Expr **e, const Expr **sum) {
  if (value->kind == EXPR_DIV) {
    *e = value->arg[0];
    *sum = value->arg[1];
    return is_load(*e) && is_load(*sum);
  }
  if (value->kind != EXPR_MUL) return false;
  const Expr *part = value->arg[value->arg[0]->kind == EXPR_LOAD];
  *e = value->arg[value->arg[0]->kind != EXPR_LOAD];
  if (part->kind != EXPR_DIV || part->arg[0]->kind != EXPR_FLOAT || part->arg[0]->f != 1)
    return false;
  *sum = part->arg[1];
  return is_load(*e) && is_load(*sum);
}

/* Whether no stage but a and b reads what st writes. */
static bool only_read_by(const Item *items, uint32_t n, const Stage *st, const Stage *a,
                         const Stage *b) {
  for (uint32_t k = 0; k < n; k++)
    if (items[k].stage != a && items[k].stage != b && stage_reads(items[k].stage, st->out))
      return false;
  return true;
}

/* The stages by what reads what. */
static bool find_stages(const Item *items, uint32_t n, Stage *end, Weights *w) {
  const Expr *e = NULL, *sum = NULL;
  *w = (Weights){.end = end};
  if (end->naxes != end->nspatial + 1) return false;
  for (uint32_t i = 0; i < 2 && !w->norm; i++) {
    const Expr *f = end->value->arg[i];
    Stage *from = is_load(f) ? writer(items, n, f->buf) : NULL;
    if (!from || from->red != RED_NONE || !split_division(from->value, &e, &sum)) continue;
    w->norm = from;
    w->factor = i;
  }
  if (!w->norm) return false;
  w->exp = writer(items, n, e->buf);
  w->sum = writer(items, n, sum->buf);
  if (!w->exp || w->exp->red != RED_NONE || !reduces(w->sum, RED_ADD, e->buf)) return false;
  const Expr *call = w->exp->value, *less = call->n == 1 ? call->arg[0] : NULL;
  if (call->kind != EXPR_CALL || call->intrin != INTRIN_exp || less->kind != EXPR_SUB) return false;
  if (!is_load(less->arg[0]) || !is_load(less->arg[1])) return false;
  w->x = writer(items, n, less->arg[0]->buf);
  w->top = writer(items, n, less->arg[1]->buf);
  return w->x && reduces(w->top, RED_MAX, less->arg[0]->buf) && w->top->init->kind == EXPR_FLOAT &&
         w->top->init->f == -INFINITY;
}

/* The same row everywhere, and the columns are one dimension of each. */
static bool find_columns(Weights *w) {
  const Expr *less = w->exp->value->arg[0], *x = less->arg[0], *top = less->arg[1], *e, *sum;
  const Expr *weight = w->end->value->arg[w->factor];
  int32_t xd = dim_of(w->top->value->arg, x->n, reduced_axis(w->top));
  int32_t nd = dim_of(weight->arg, weight->n, reduced_axis(w->end));
  split_division(w->norm->value, &e, &sum);
  int32_t ed = dim_of(w->sum->value->arg, e->n, reduced_axis(w->sum));
  if (xd < 0 || ed < 0 || nd < 0) return false;
  const Expr *in_exp = x->arg[xd], *in_norm = e->arg[ed];
  if (in_exp->kind != EXPR_VAR || in_norm->kind != EXPR_VAR) return false;
  w->column = ed;
  w->columns[0] = w->x->oidx[xd]->kind == EXPR_VAR ? w->x->oidx[xd]->var : NULL;
  w->columns[1] = reduced_axis(w->top);
  w->columns[2] = in_exp->var;
  w->columns[3] = reduced_axis(w->sum);
  w->columns[4] = in_norm->var;
  w->columns[5] = reduced_axis(w->end);
  return w->exp->oidx[ed] == in_exp && w->norm->oidx[nd] == in_norm &&
         same_but(w->top->value->arg, x->arg, x->n, xd) && same_but(w->x->oidx, x->arg, x->n, xd) &&
         same_but(top->arg, w->top->oidx, top->n, -1) &&
         same_but(w->sum->value->arg, w->exp->oidx, e->n, ed) &&
         same_but(e->arg, w->exp->oidx, e->n, ed) && same_but(sum->arg, w->sum->oidx, sum->n, -1) &&
         same_but(weight->arg, w->norm->oidx, weight->n, nd);
}

bool weights_find(const Item *items, uint32_t n, Stage *end, Weights *w) {
  return find_stages(items, n, end, w) && find_columns(w) &&
         only_read_by(items, n, w->x, w->top, w->exp) &&
         only_read_by(items, n, w->exp, w->sum, w->norm) &&
         only_read_by(items, n, w->norm, w->end, NULL);
}

/* ---- the division after the sum ---- */

static Stage *plain_stage(Sched *s, const Stage *like, Buffer *out, const Expr *value) {
  Stage *st = ARENA_NEW(s->tmp, Stage);
  *st = *like;
  st->naxes = like->nspatial;
  st->out = out;
  st->value = value;
  st->red = RED_NONE;
  st->init = NULL;
  st->acc = NULL;
  return st;
}

static Buffer *buffer_like(Sched *s, const Buffer *b) {
  Buffer *r = buffer_create(s->c, b->name, b->dtype, b->shape, b->ndim, "global");
  r->span = b->span;
  map_setp(&s->local, r, r);
  return r;
}

Stage *weights_divide_last(Sched *s, Weights *w) {
  Context *c = s->c;
  Stage *end = w->end, *exp = w->exp, *sum = w->sum;
  DType d = end->out->dtype;
  int64_t columns;
  if (!dtype_eq(exp->out->dtype, d) || !dtype_eq(sum->out->dtype, d) || d.bits < 32) return NULL;
  /* norm: the inverse of the sum, which is at least 1 unless there are no columns */
  const Expr *total = expr_load(c, sum->out, sum->oidx, sum->out->ndim), *one = expr_lit(c, d, 1);
  if (!expr_const_int(c, end->axes[end->nspatial].extent, &columns) || columns < 1)
    total = expr_max(c, total, one);
  const Expr *inverse = expr_binary(c, EXPR_DIV, one, total);
  *w->norm = *plain_stage(s, sum, buffer_like(s, sum->out), inverse);
  /* end: of what isn't divided */
  const Expr *idx[MAX_AXES], *factors[2] = {end->value->arg[0], end->value->arg[1]};
  memcpy(idx, exp->oidx, exp->out->ndim * sizeof *idx);
  idx[w->column] = w->columns[5]->expr;
  factors[w->factor] = expr_load(c, exp->out, idx, exp->out->ndim);
  end->value = expr_with_args(c, end->value, factors);
  Buffer *sums = buffer_like(s, end->out), *out = end->out;
  end->out = sums;
  const Expr *raw = expr_load(c, sums, end->oidx, sums->ndim);
  const Expr *scale = expr_load(c, w->norm->out, sum->oidx, sum->out->ndim);
  return plain_stage(s, end, out, expr_mul(c, raw, scale));
}

/* ---- what a mask hides ---- */

/* The last column that cond lets a row see, if cond is `column <= that`; else NULL. */
static const Dim *bound_of_column(Context *c, const Expr *cond, bool holds, const Var *column) {
  ExprKind k = (ExprKind)cond->kind;
  if (k == EXPR_NOT) return bound_of_column(c, cond->arg[0], !holds, column);
  if (k == (holds ? EXPR_AND : EXPR_OR)) {
    const Dim *d = bound_of_column(c, cond->arg[0], holds, column);
    return d ? d : bound_of_column(c, cond->arg[1], holds, column);
  }
  if (k != EXPR_LE && k != EXPR_LT && k != EXPR_GE && k != EXPR_GT) return NULL;
  if (!dtype_is_int(cond->arg[0]->dtype)) return NULL;
  bool swap = (k == EXPR_GE || k == EXPR_GT) == holds,
       strict = (k == EXPR_LT || k == EXPR_GT) == holds;
  const Dim *low = expr_dim(c, cond->arg[swap]), *high = expr_dim(c, cond->arg[!swap]);
  /* low - high + strict <= 0 */
  const Dim *d = dim_add(c, dim_sub(c, low, high), dim_const(c, strict)), *step, *rest;
  int64_t one;
  if (!dim_linear(c, d, column, &step, &rest) || !dim_is_const(step, &one) || one != 1) return NULL;
  return dim_sub(c, dim_const(c, 0), rest);
}

/* The last column where `e` isn't -inf; NULL: not known. What is added to -inf counts as finite. */
static const Dim *bound_of_value(Context *c, const Expr *e, const Var *column) {
  bool choice =
      e->kind == EXPR_SELECT || (e->kind == EXPR_CALL && e->intrin == INTRIN_if_then_else);
  for (uint32_t i = 1; choice && i < 3; i++)
    if (e->arg[i]->kind == EXPR_FLOAT && e->arg[i]->f == -INFINITY)
      return bound_of_column(c, e->arg[0], i == 2, column);
  if (e->kind != EXPR_ADD) return NULL;
  const Dim *d = bound_of_value(c, e->arg[0], column);
  return d ? d : bound_of_value(c, e->arg[1], column);
}

typedef struct {
  const Stage *st; /* reads */
  const Buffer *b;
  bool elementwise;
} Elements;
static void check_element(const Expr *load, void *ctx) {
  Elements *el = ctx;
  if (load->buf == el->b && !same_but(load->arg, el->st->oidx, load->n, -1))
    el->elementwise = false;
}

/* Whether the stages up to x work, each alone, element for element on what the one before it has.
 */
static bool leads_to_x(const Item *items, uint32_t n, const Weights *w) {
  for (uint32_t k = 0; items[k].stage != w->x; k++) {
    const Stage *st = items[k].stage, *next = items[k + 1].stage;
    Elements el = {next, st->out, true};
    if (next->red != RED_NONE || st->out->ndim != next->out->ndim) return false;
    if (!same_but(st->oidx, next->oidx, st->out->ndim, -1)) return false;
    expr_loads(next->value, check_element, &el);
    if (!el.elementwise || !only_read_by(items, n, st, next, NULL)) return false;
  }
  return true;
}

const Dim *weights_seen(Sched *s, const Item *items, uint32_t n, const Weights *w) {
  if (!w->columns[0] || !leads_to_x(items, n, w)) return NULL;
  const Dim *d = bound_of_value(s->c, w->x->value, w->columns[0]);
  return d && !expr_has_load(dim_expr(s->c, d, DT_I64)) ? d : NULL;
}
