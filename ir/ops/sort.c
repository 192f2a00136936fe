/* Sorting and what is read off a sorted row: sort, argsort, topk, median, samples of distributions.
 *
 * One stage makes the permutation that sorts each row: a merge sort from the bottom up over
 * positions, so that it is stable in both directions and takes n log n steps whatever the data. NaN
 * counts as greater than every number (NumPy's order). Where only the first places are asked for,
 * one pass over the row keeps a few of them in order instead; for more, the key of the last of them
 * is found by halving and what stands before it is sorted. Rows are sorted in parallel, each in
 * memory of its own. The results then are plain stages that read through the permutation. A row
 * runs over the reduced axes of a TeAxes, in row-major order. */
#include "ir/ops/script.h"

#include <string.h>

/* Element `at` of the row `row` of t->x. */
static const Expr *row_load(LowerCtx *lc, const TeAxes *t, const Expr *const *row, const Expr *at) {
  Context *c = lc->c;
  const Expr *idx[TE_MAX_RANK];
  uint32_t left = t->nred;
  for (uint32_t i = t->x->ndim, r = t->x->ndim - t->nred; i-- > 0;) {
    if (!t->reduced[i]) {
      idx[i] = row[--r];
      continue;
    }
    idx[i] = --left ? te_axis_div(c, EXPR_FLOORMOD, at, t->x->shape[i]) : at;
    if (left) at = te_axis_div(c, EXPR_FLOORDIV, at, t->x->shape[i]);
  }
  return te_load(lc, t->x, idx);
}

#define MAX_PASSES 62 /* of a merge sort over a number of elements that isn't known */

static DType key_dtype(DType d) {
  bool wide = (dtype_is_uint(d) && d.bits == 32) || d.bits == 64;
  return wide ? DT_I64 : DT_I32;
}

/* A whole number that stands before that of another element where this element comes first:
 * compared in one step, and without a care for NaN. The bits of a float are that already, but for
 * the order of negative ones; both zeros are 0. */
static const Expr *sort_key(Context *c, const Expr *x, bool descending) {
  x = te_widen(c, x);
  DType d = key_dtype(x->dtype);
  const Expr *key, *top = expr_int(c, d, d.bits == 64 ? INT64_MAX : INT32_MAX);
  if (dtype_is_float(x->dtype)) {
    const Expr *y = SEL(EQ(x, K(0)), K(0), x);
    key = expr_call(c, INTRIN_reinterpret, d, &y, 1);
    const Expr *sign = expr_binary(c, EXPR_SHR, key, expr_int(c, d, d.bits - 1));
    key = expr_binary(c, EXPR_BITXOR, key, expr_binary(c, EXPR_BITAND, sign, top));
    key = SEL(F1(isnan, x), top, key);
  } else if (dtype_is_uint(x->dtype) && x->dtype.bits == 64) {
    key = expr_binary(c, EXPR_BITXOR, te_cast(c, d, x), expr_int(c, d, INT64_MIN));
  } else {
    key = te_cast(c, d, x);
  }
  return descending ? expr_unary(c, EXPR_BITNOT, key) : key;
}

/* What sorts n elements: keys and positions, twice, and where a merge stands. */
typedef struct {
  const Expr *n;
  Buffer *keys, *perm; /* [2, n]; a merge reads one half and writes the other */
  Buffer *state;       /* see te_merge_sort */
} RowSort;

int te_merge_passes(Context *c, const Expr *n) {
  int64_t len;
  int passes = 0;
  if (!expr_const_int(c, n, &len)) return MAX_PASSES;
  while (passes < MAX_PASSES && (INT64_C(1) << passes) < len) passes++;
  return passes;
}

/* Merges runs of `width` elements into runs of twice that. */
static Stmt *merge_pass(LowerCtx *lc, const Expr *n, const Expr *width, Buffer *state,
                        TeMergeStep *step, void *ctx) {
  Context *c = lc->c;
  Var *run = VAR("run"), *pos = VAR("pos"), *mid = VAR("mid"), *end = VAR("end"), *i = VAR("i"),
      *j = VAR("j"), *from = VAR("source"), *base = VAR("base");
  const Expr *one = I64(1), *two = ADD(width, width), *left = I64(MERGE_LEFT),
             *right = I64(MERGE_RIGHT), *half = I64(MERGE_HALF);
  TeMerge m = {.i = i->expr, .j = j->expr, .mid = mid->expr, .end = end->expr};
  m.from = from->expr;
  m.to = SUB(one, from->expr);
  m.at = ADD(base->expr, pos->expr);
  Stmt *take = SEQ(LET(i, LOADN(state, left)), LET(j, LOADN(state, right)), step(lc, &m, ctx));
  Stmt *merge = SEQ(LET(base, MUL(run->expr, two)), LET(from, LOADN(state, half)),
                    LET(mid, expr_min(c, ADD(base->expr, width), n)),
                    LET(end, expr_min(c, ADD(base->expr, two), n)), STOREN(state, base->expr, left),
                    STOREN(state, mid->expr, right), FOR(pos, SUB(end->expr, base->expr), take));
  return SEQ(FOR(run, expr_floordiv(c, ADD(n, SUB(two, one)), two), merge),
             STOREN(state, SUB(one, LOADN(state, half)), half));
}

Stmt *te_merge_sort(LowerCtx *lc, const Expr *n, Buffer *state, TeMergeStep *step, void *ctx) {
  Context *c = lc->c;
  Var *p = VAR("p");
  int64_t len;
  const Expr *width = expr_binary(c, EXPR_SHL, I64(1), p->expr);
  Stmt *pass = merge_pass(lc, n, width, state, step, ctx);
  if (!expr_const_int(c, n, &len)) pass = IF(LT(width, n), pass, NULL);
  return SEQ(STOREN(state, I64(0), I64(MERGE_HALF)), FOR(p, I64(te_merge_passes(c, n)), pass));
}

/* A step picks without branches, which no processor could foresee: behind the end of a run it
 * reads something that isn't taken. */
static Stmt *merge_keys(LowerCtx *lc, const TeMerge *m, void *ctx) {
  Context *c = lc->c;
  const RowSort *s = ctx;
  Var *left = var_create(c, "left", DT_BOOL);
  const Expr *one = I64(1), *last = SUB(s->n, one);
  const Expr *vi = LOADN(s->keys, m->from, expr_min(c, m->i, last));
  const Expr *vj = LOADN(s->keys, m->from, expr_min(c, m->j, last));
  const Expr *no = expr_bool(c, false), *yes = expr_bool(c, true);
  const Expr *in_order = SEL(LT(vj, vi), GE(m->j, m->end), yes);
  const Expr *taken = SEL(left->expr, one, I64(0)), *which = SEL(left->expr, m->i, m->j);
  return SEQ(LET(left, SEL(LT(m->i, m->mid), in_order, no)),
             STOREN(s->keys, SEL(left->expr, vi, vj), m->to, m->at),
             STOREN(s->perm, LOADN(s->perm, m->from, which), m->to, m->at),
             STOREN(s->state, ADD(m->i, taken), I64(MERGE_LEFT)),
             STOREN(s->state, ADD(m->j, SUB(one, taken)), I64(MERGE_RIGHT)));
}

/* Sorts the row whose keys are in the first half. */
static Stmt *sort_row(LowerCtx *lc, RowSort *s) {
  Var *k = VAR("k");
  return SEQ(FOR(k, s->n, STOREN(s->perm, k->expr, I64(0), k->expr)),
             te_merge_sort(lc, s->n, s->state, merge_keys, s));
}

#define MAX_INSERTED 32 /* first places that are kept in order by insertion */

/* The first places of a row. */
typedef struct {
  RowSort s;   /* of them */
  Buffer *row; /* the keys of n elements; behind them up to whole COUNTERS the greatest key */
  const Expr *n;
} Selection;

/* Puts element `at` into its place among the chosen ones, of which the last falls out; those behind
 * the first `at` are empty yet. */
static Stmt *insert(LowerCtx *lc, const RowSort *s, const Var *at, const Var *key) {
  Context *c = lc->c;
  Var *back = VAR("back"), *to = VAR("to");
  const Expr *last = SUB(s->n, I64(1)), *left = SUB(to->expr, I64(1)), *zero = I64(0);
  const Expr *behind = LOADN(s->keys, zero, left);
  Stmt *move = SEQ(STOREN(s->keys, behind, zero, to->expr), STOREN(s->keys, key->expr, zero, left),
                   STOREN(s->perm, LOADN(s->perm, zero, left), zero, to->expr),
                   STOREN(s->perm, at->expr, zero, left));
  Stmt *step = IF(OR(GE(left, at->expr), LT(key->expr, behind)), move, NULL);
  return SEQ(STOREN(s->keys, key->expr, zero, last), STOREN(s->perm, at->expr, zero, last),
             FOR(back, last, SEQ(LET(to, SUB(last, back->expr)), step)));
}

/* perm[0] = the first positions of a row in order, keys[0] theirs. An element that comes before the
 * last of them is inserted behind those that it doesn't precede. */
static Stmt *select_few(LowerCtx *lc, const Selection *x) {
  Context *c = lc->c;
  const RowSort *s = &x->s;
  Var *at[2] = {VAR("at"), VAR("at")}, *key[2], *k = VAR("k");
  const Expr *zero = I64(0);
  Stmt *look[2], *put[2];
  for (int i = 0; i < 2; i++) {
    key[i] = var_create(c, "key", s->keys->dtype);
    look[i] = LET(key[i], LOADN(x->row, at[i]->expr));
    put[i] = insert(lc, s, at[i], key[i]);
  }
  Stmt *clear = SEQ(STOREN(s->keys, expr_int(c, s->keys->dtype, 0), zero, k->expr),
                    STOREN(s->perm, zero, zero, k->expr));
  const Expr *enters = LT(key[1]->expr, LOADN(s->keys, zero, SUB(s->n, I64(1))));
  Stmt *rest = stmt_for(lc->arena, lc->node->span, at[1], s->n, SUB(x->n, s->n), FOR_SERIAL,
                        SEQ(look[1], IF(enters, put[1], NULL)));
  return SEQ(FOR(k, s->n, clear), FOR(at[0], s->n, SEQ(look[0], put[0])), rest);
}

#define COUNTERS 64 /* keys that are counted in one step, each by a counter of its own: lanes */

/* total[to] = how many keys of the row are less than `limit`. */
static Stmt *count_before(LowerCtx *lc, const Selection *x, const Var *limit, Buffer *total,
                          const Expr *to) {
  Context *c = lc->c;
  const Expr *lanes = I64(COUNTERS), *none = expr_int(c, limit->dtype, 0),
             *one = expr_int(c, limit->dtype, 1);
  Buffer *counts = buffer_create(c, "counts", limit->dtype, &lanes, 1, "local");
  Var *clear = VAR("k"), *block = VAR("block"), *k = VAR("k"), *each = VAR("k");
  const Expr *key = LOADN(x->row, ADD(MUL(block->expr, lanes), k->expr));
  const Expr *more = ADD(LOADN(counts, k->expr), SEL(LT(key, limit->expr), one, none));
  const Expr *sum = ADD(LOADN(total, to), te_cast(c, DT_I64, LOADN(counts, each->expr)));
  return SEQ(stmt_alloc(lc->arena, lc->node->span, counts),
             FOR(clear, lanes, STOREN(counts, none, clear->expr)),
             FOR(block, expr_floordiv(c, x->row->shape[0], lanes),
                 FOR(k, lanes, STOREN(counts, more, k->expr))),
             STOREN(total, I64(0), to), FOR(each, lanes, STOREN(total, sum, to)));
}

/* The same by steps whose number depends on the keys' size alone: fewer than the wanted places
 * stand before the key ends[0], before[0] of them, and the last wanted one isn't behind ends[1].
 * Halving ends where both meet, or at a key that just the wanted ones stand before. Those, or as
 * many of its equals as are missing, are copied and sorted. */
static Stmt *select_many(LowerCtx *lc, const Selection *x) {
  Context *c = lc->c;
  const RowSort *s = &x->s;
  DType d = s->keys->dtype;
  const Expr *zero = I64(0), *one = I64(1), *two = I64(2), *unit = expr_int(c, d, 1);
  const Expr *top = expr_int(c, d, d.bits == 64 ? INT64_MAX : INT32_MAX);
  Buffer *ends = buffer_create(c, "ends", d, &two, 1, "local"),
         *before = buffer_create(c, "before", DT_I64, &two, 1, "local");
  Var *k = VAR("k"), *p = VAR("p"), *at = VAR("at"), *done = VAR("done"),
      *limit = var_create(c, "limit", d), *key = var_create(c, "key", d),
      *last = var_create(c, "last", d);
  const Expr *lo = LOADN(ends, zero), *hi = LOADN(ends, one), *found = LOADN(before, one);
  const Expr *half = expr_binary(c, EXPR_SHR, expr_binary(c, EXPR_BITXOR, lo, hi), unit);
  Stmt *up = SEQ(STOREN(ends, limit->expr, zero), STOREN(before, found, zero));
  Stmt *down = STOREN(ends, SUB(limit->expr, unit), one);
  Stmt *halve = SEQ(LET(limit, SUB(expr_binary(c, EXPR_BITOR, lo, hi), half)),
                    count_before(lc, x, limit, before, one), IF(LE(found, s->n), up, NULL),
                    IF(GE(found, s->n), down, NULL));
  const Expr *equal = EQ(key->expr, last->expr), *missing = LOADN(before, one);
  Stmt *take =
      SEQ(LET(done, LOADN(before, zero)), STOREN(s->keys, key->expr, zero, done->expr),
          STOREN(s->perm, at->expr, zero, done->expr), STOREN(before, ADD(done->expr, one), zero),
          STOREN(before, SUB(missing, SEL(equal, one, zero)), one));
  const Expr *wanted = OR(LT(key->expr, last->expr), AND(equal, GT(missing, zero)));
  const Expr *pad = SUB(x->row->shape[0], x->n);
  return SEQ(
      stmt_alloc(lc->arena, lc->node->span, ends), stmt_alloc(lc->arena, lc->node->span, before),
      FOR(k, pad, STOREN(x->row, top, ADD(x->n, k->expr))),
      STOREN(ends, expr_unary(c, EXPR_BITNOT, top), zero), STOREN(ends, top, one),
      STOREN(before, zero, zero), FOR(p, I64(d.bits), IF(LT(lo, hi), halve, NULL)), LET(last, lo),
      STOREN(before, SUB(s->n, LOADN(before, zero)), one), STOREN(before, zero, zero),
      FOR(at, x->n, SEQ(LET(key, LOADN(x->row, at->expr)), IF(wanted, take, NULL))),
      te_merge_sort(lc, s->n, s->state, merge_keys, (void *)s));
}

/* Sorts one row of t->x, or the first `places` of it unless that is 0: perm[half] has the
 * positions. `steps`: see te_parallel. */
static Stmt *sort_or_select(LowerCtx *lc, const TeAxes *t, const Expr *const *row, bool descending,
                            int64_t places, RowSort *s, const Expr **half, int64_t *steps) {
  Context *c = lc->c;
  const Expr *n = expr_product(c, t->red, t->nred), *states = I64(MERGE_STATE);
  int64_t len;
  bool known = expr_const_int(c, n, &len), few = places > 0 && places <= MAX_INSERTED,
       many = places > 0 && !few && !(known && places >= len);
  s->n = few || many ? I64(places) : n;
  const Expr *shape[2] = {I64(2), s->n}, *lanes = I64(COUNTERS);
  DType d = key_dtype(te_acc_dtype(t->x->dtype));
  s->keys = buffer_create(c, "keys", d, shape, 2, "global");
  s->perm = buffer_create(c, "perm", DT_I64, shape, 2, "global");
  s->state = buffer_create(c, "state", DT_I64, &states, 1, "local");
  *half = few ? I64(0) : LOADN(s->state, I64(MERGE_HALF));
  *steps = !known ? 0 : len * (few ? 2 : many ? d.bits / 8 : te_merge_passes(c, n) + 1);
  Var *k = VAR("k");
  const Expr *key = sort_key(c, row_load(lc, t, row, k->expr), descending);
  Stmt *allocs = SEQ(stmt_alloc(lc->arena, lc->node->span, s->keys),
                     stmt_alloc(lc->arena, lc->node->span, s->perm),
                     stmt_alloc(lc->arena, lc->node->span, s->state));
  if (!few && !many)
    return SEQ(allocs, FOR(k, n, STOREN(s->keys, key, I64(0), k->expr)), sort_row(lc, s));
  const Expr *whole = MUL(te_axis_div(c, EXPR_FLOORDIV, ADD(n, I64(COUNTERS - 1)), lanes), lanes);
  Selection x = {*s, buffer_create(c, "row", d, &whole, 1, "global"), n};
  return SEQ(allocs, stmt_alloc(lc->arena, lc->node->span, x.row),
             FOR(k, n, STOREN(x.row, key, k->expr)),
             few ? select_few(lc, &x) : select_many(lc, &x));
}

/* A stage with the sorting permutation of every row: [row..., place] -> position in the row; just
 * the first `places` of it unless that is 0. */
static Buffer *permutation(LowerCtx *lc, const TeAxes *t, bool descending, int64_t places) {
  Context *c = lc->c;
  const Expr *shape[TE_MAX_RANK + 1], *row[TE_MAX_RANK], *idx[TE_MAX_RANK + 1];
  uint32_t nrow = 0;
  for (uint32_t i = 0; i < t->x->ndim; i++)
    if (!t->reduced[i]) shape[nrow++] = t->x->shape[i];
  Var *r = VAR("r"), *k = VAR("k");
  const Expr *rest = r->expr, *half;
  for (uint32_t i = nrow; i-- > 0;) {
    idx[i] = row[i] = i ? te_axis_div(c, EXPR_FLOORMOD, rest, shape[i]) : rest;
    if (i) rest = te_axis_div(c, EXPR_FLOORDIV, rest, shape[i]);
  }
  RowSort s;
  int64_t steps;
  Stmt *sort = sort_or_select(lc, t, row, descending, places, &s, &half, &steps);
  shape[nrow] = s.n;
  idx[nrow] = k->expr;
  Buffer *out = te_alloc(lc, "order", shape, nrow + 1, DT_I64);
  Stmt *body =
      SEQ(sort, FOR(k, s.n,
                    stmt_store(lc->arena, lc->node->span, out, idx, LOADN(s.perm, half, k->expr))));
  if (nrow) {
    body = FOR(r, expr_product(c, shape, nrow), body);
    te_parallel(lc, body, steps);
  }
  te_block(lc, "sort", body);
  return out;
}

Buffer *te_sort_order(LowerCtx *lc, Buffer *x, uint32_t axis, bool descending) {
  TeAxes t;
  int64_t at = axis;
  te_axes_init(lc, &t, x, (IntList){1, &at}, false);
  return permutation(lc, &t, descending, 0);
}

static void along(LowerCtx *lc, TeAxes *t, int64_t axis) {
  te_axes_init(lc, t, te_arg(lc, 0), (IntList){1, &axis}, false);
}

/* The permutation's entry for element idx of a tensor whose axis `axis` counts places. */
static const Expr *place(LowerCtx *lc, Buffer *order, const Expr *const *idx, uint32_t ndim,
                         uint32_t axis, const Expr **row) {
  const Expr *at[TE_MAX_RANK];
  uint32_t k = 0;
  for (uint32_t i = 0; i < ndim; i++)
    if (i != axis) row[k] = at[k] = idx[i], k++;
  at[k] = idx[axis];
  return te_load(lc, order, at);
}

static uint32_t axis_of(int64_t a, uint32_t ndim) {
  return (uint32_t)(a < 0 ? a + ndim : a);
}

/* ---- sort, argsort ---- */
static const SInfo *sortable(InferCtx *ic, Node *n, int64_t axis) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  int32_t at;
  if (!x) return NULL;
  if (x->ndim >= 0 && !infer_axis(ic, n, axis, x->ndim, &at)) return NULL;
  return x;
}

const SInfo *infer_sort(InferCtx *ic, Node *n) {
  return sortable(ic, n, node_attrs(n, sort)->axis);
}

static DType index_dtype(DType d) {
  return dtype_known(d) ? d : DT_I32;
}

const SInfo *infer_argsort(InferCtx *ic, Node *n) {
  const SInfo *x = sortable(ic, n, node_attrs(n, argsort)->axis);
  return x ? infer_like(ic, x, index_dtype(node_attrs(n, argsort)->dtype)) : NULL;
}

/* Results `values` and `indices` (either may be absent: -1) of the first places of every row, of
 * all of them if `places` is 0. */
static void read_sorted(LowerCtx *lc, const TeAxes *t, uint32_t axis, bool descending,
                        int64_t places, int values, int indices) {
  Buffer *order = permutation(lc, t, descending, places);
  const Expr *row[TE_MAX_RANK];
  for (int k = 0; k < 2; k++) {
    if (k == values) {
      te_result_begin(lc, (uint32_t)k, "T_sorted");
      const Expr *at = place(lc, order, lc->ax, lc->nspatial, axis, row);
      te_out(lc, te_spatial_end(lc, row_load(lc, t, row, at)));
    } else if (k == indices) {
      te_result_begin(lc, (uint32_t)k, "T_indices");
      te_out_value(lc, place(lc, order, lc->ax, lc->nspatial, axis, row));
    }
  }
}

bool lower_sort(LowerCtx *lc, Node *n) {
  const sort_attrs *a = n->attrs;
  TeAxes t;
  along(lc, &t, a->axis);
  read_sorted(lc, &t, axis_of(a->axis, t.x->ndim), a->descending, 0, 0, -1);
  return true;
}

bool lower_argsort(LowerCtx *lc, Node *n) {
  const argsort_attrs *a = n->attrs;
  TeAxes t;
  along(lc, &t, a->axis);
  read_sorted(lc, &t, axis_of(a->axis, t.x->ndim), a->descending, 0, -1, 0);
  return true;
}

/* ---- topk ---- */
static int topk_results(const char *s) {
  return !s || !strcmp(s, "both") ? 3 : !strcmp(s, "values") ? 1 : !strcmp(s, "indices") ? 2 : 0;
}

const SInfo *infer_topk(InferCtx *ic, Node *n) {
  const topk_attrs *a = n->attrs;
  const SInfo *x = sortable(ic, n, a->axis);
  if (!x) return NULL;
  int which = topk_results(a->ret_type);
  if (!which)
    return infer_error(ic, n, C_choice, -1, "ret_type '%s' is none of both, values, indices",
                       a->ret_type);
  const SInfo *v = x;
  if (x->dims) {
    uint32_t axis = axis_of(a->axis, (uint32_t)x->ndim);
    int64_t len;
    const Expr **d = infer_dims_copy(ic, x->dims, (uint32_t)x->ndim, 0);
    if (a->k > 0 && (!expr_const_int(ic->c, d[axis], &len) || a->k < len))
      d[axis] = expr_i64(ic->c, a->k);
    v = sinfo_tensor(ic->c, d, (uint32_t)x->ndim, x->dtype);
  }
  const SInfo *i = infer_like(ic, v, index_dtype(a->dtype)), *both[2] = {v, i};
  return which == 3 ? sinfo_tuple(ic->c, both, 2) : which == 1 ? v : i;
}

bool lower_topk(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const topk_attrs *a = n->attrs;
  TeAxes t;
  int which = topk_results(a->ret_type);
  along(lc, &t, a->axis);
  uint32_t axis = axis_of(a->axis, t.x->ndim), ndim;
  const Expr *k = te_result_shape(lc, 0, &ndim)[axis], *len = t.x->shape[axis];
  if (prove_le(c, NULL, expr_dim(c, k), expr_dim(c, len)) != PROOF_YES)
    te_assert(lc, LE(k, len), "k is %lld, more than the axis has", (long long)a->k);
  int64_t places;
  if (!expr_const_int(c, k, &places)) places = 0;
  read_sorted(lc, &t, axis, a->largest, places, which & 1 ? 0 : -1,
              which == 3   ? 1
              : which == 2 ? 0
                           : -1);
  return true;
}

/* ---- median ---- */
const SInfo *infer_median(InferCtx *ic, Node *n) {
  const SInfo *r = infer_reduce(ic, n);
  if (!r || r->kind != SINFO_TENSOR || node_attrs(n, median)->axis.n != 1) return r;
  const SInfo *both[2] = {r, infer_like(ic, r, DT_I64)};
  return sinfo_tuple(ic->c, both, 2);
}

bool lower_median(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const median_attrs *a = n->attrs;
  TeAxes t;
  te_axes_init(lc, &t, te_arg(lc, 0), a->axis, a->keepdims);
  const Expr *len = expr_product(c, t.red, t.nred), *one = I64(1);
  if (prove_le(c, NULL, expr_dim(c, one), expr_dim(c, len)) != PROOF_YES)
    te_assert(lc, GE(len, one), "the median of no elements");
  Buffer *order = permutation(lc, &t, false, 0);
  for (uint32_t k = 0; k < (a->axis.n == 1 ? 2u : 1u); k++) {
    te_result_begin(lc, k, k ? "T_indices" : "T_median");
    const Expr *row[TE_MAX_RANK + 1];
    uint32_t nrow = 0;
    for (uint32_t i = 0, o = 0; i < t.x->ndim; i++) {
      if (!t.reduced[i]) row[nrow++] = lc->ax[o];
      if (!t.reduced[i] || a->keepdims) o++;
    }
    row[nrow] = expr_floordiv(c, SUB(len, one), I64(2));
    const Expr *at = te_load(lc, order, row);
    te_out_value(lc, k ? at : row_load(lc, &t, row, at));
  }
  return true;
}

/* ---- multinomial_from_uniform ---- */
const SInfo *infer_multinomial_from_uniform(InferCtx *ic, Node *n) {
  const SInfo *s[3];
  for (uint32_t i = 0; i < 3; i++) {
    if (!(s[i] = infer_tensor_arg(ic, n, i))) return NULL;
    if (s[i]->ndim >= 0 && s[i]->ndim != 2)
      return infer_error(ic, n, C_rank, (int)i, "expected rank 2 for '%s' but got %s",
                         infer_arg_name(ic, n, i), infer_shape_text(ic, s[i]));
    if (i < 2 && !infer_need_float(ic, n, i, s[i])) return NULL;
  }
  if (!infer_need_int(ic, n, 2, s[2])) return NULL;
  const Expr *one = expr_i64(ic->c, 1);
  for (uint32_t i = 1; i < 3; i++)
    if (s[i]->dims && infer_ne(ic, s[i]->dims[1], one))
      return infer_error(ic, n, C_same_dims, (int)i, "expected one column for '%s' but got %s",
                         infer_arg_name(ic, n, i), infer_shape_text(ic, s[i]));
  if (s[1]->dims && s[2]->dims && infer_ne(ic, s[1]->dims[0], s[2]->dims[0]))
    return infer_error(ic, n, C_same_dims, 2, "the samples %s and their rows %s differ in number",
                       infer_shape_text(ic, s[1]), infer_shape_text(ic, s[2]));
  DType d = node_attrs(n, multinomial_from_uniform)->dtype;
  if (!dtype_known(d)) d = DT_I64;
  if (!s[1]->dims) return sinfo_tensor_ndim(ic->c, 2, d);
  const Expr *dims[2] = {s[1]->dims[0], one};
  return sinfo_tensor(ic->c, dims, 2, d);
}

/* The first class whose cumulated probability exceeds the sample, or the last one: how many of the
 * cumulated sums but the last are not above it. */
bool lower_multinomial_from_uniform(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *p = te_arg(lc, 0), *u = te_arg(lc, 1), *rows = te_arg(lc, 2);
  if (!te_need_equal(lc, u->shape[0], rows->shape[0], "the numbers of samples and rows") ||
      !te_need_equal(lc, u->shape[1], I64(1), "the columns of the samples") ||
      !te_need_equal(lc, rows->shape[1], I64(1), "the columns of the rows"))
    return false;
  const Expr *shape[2] = {u->shape[0], I64(1)}, *two = I64(2), *zero = I64(0);
  DType acc = te_acc_dtype(p->dtype), d = te_result_dtype(lc, 0);
  Buffer *out = te_alloc(lc, lc->name, shape, 2, d);
  Buffer *sum = te_alloc(lc, "cumulated", &two, 1, acc),
         *hit = te_alloc(lc, "hit", &two, 1, DT_I64);
  Var *i = VAR("i"), *k = VAR("k"), *row = VAR("row");
  const Expr *last = SUB(p->shape[1], I64(1)), *s = LOADN(sum, zero), *h = LOADN(hit, zero);
  const Expr *next = ADD(s, te_cast(c, acc, LOADN(p, row->expr, k->expr)));
  const Expr *want = te_cast(c, acc, LOADN(u, i->expr, zero));
  Stmt *scan = SEQ(STOREN(sum, next, zero),
                   IF(GE(want, LOADN(sum, zero)), STOREN(hit, ADD(h, I64(1)), zero), NULL));
  Stmt *body =
      SEQ(LET(row, te_cast(c, DT_I64, LOADN(rows, i->expr, zero))),
          ASSERT(AND(AND(GE(row->expr, zero), LT(row->expr, p->shape[0])), GE(last, zero)),
                 "R.multinomial_from_uniform: a row number is out of range, or there is no class"),
          STOREN(sum, expr_lit(c, acc, 0), zero), STOREN(hit, zero, zero), FOR(k, last, scan),
          STOREN(out, te_cast(c, d, h), i->expr, zero));
  te_block(lc, lc->name, FOR(i, u->shape[0], body));
  te_out(lc, out);
  return true;
}
