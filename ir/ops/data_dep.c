/* Operators whose result has a shape that depends on the data: unique, nonzero, slices with bounds
 * in tensors, tensors read as shapes.
 *
 * Each is a composite in two steps: a first operator computes everything that fits a known shape,
 * and the dims of the result as a tensor; R.tensor_to_shape and R.match_cast turn those into
 * variables of the function, and a second operator makes the result, whose shape now is known in
 * them and which is allocated when the function gets there. The two inner operators (R.relaxc.*)
 * are ordinary ones. */
#include "ir/ops/script.h"

#include <string.h>

/* ---- building blocks of composites ---- */
static Node *item(LowerCtx *lc, Node *tuple, int64_t i) {
  return te_bind(lc, node_tuple_get(lc->node->func, tuple, i, lc->node->span));
}

/* New dims with the values of a vector of n numbers, as an R.shape. */
static Node *shape_from(LowerCtx *lc, Node *counts, uint32_t n, const char *const *names) {
  Func *f = lc->node->func;
  Node *s = te_bind(lc, te_make(lc, OP_tensor_to_shape, &counts, 1));
  if (!s) return NULL;
  const Expr **dims = ARENA_ARRAY(lc->arena, const Expr *, n + 1);
  for (uint32_t i = 0; i < n; i++)
    dims[i] = var_create_dim(lc->c, func_unique_name(f, names[i]))->expr;
  Node *m = node_create(f, OP_MATCH_CAST, &s, 1, lc->node->span);
  m->annot = sinfo_shape(lc->c, dims, n);
  if (!te_bind(lc, m)) return NULL;
  Node *shape = node_shape(f, dims, n, lc->node->span);
  return node_infer(lc->m, NULL, shape) ? shape : NULL;
}

/* The first entries along axis 0, as many as `shape` says. */
static Node *head(LowerCtx *lc, Node *x, Node *shape) {
  Node *in[2] = {x, shape};
  return te_bind(lc, te_make(lc, OP_relaxc_head, in, 2));
}

/* ---- relaxc.head ---- */
const SInfo *infer_head(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *s = node_in(n, 1)->sinfo;
  if (!x) return NULL;
  if (s->kind != SINFO_SHAPE || (s->ndim >= 0 && s->ndim != 1))
    return infer_error(ic, n, C_shape, 1, "expected a shape of one value but got %s",
                       infer_type_text(ic, s));
  if (x->ndim == 0) return infer_error(ic, n, C_rank, 0, "a scalar has no axis");
  if (!x->dims || !s->dims) return sinfo_tensor_ndim(ic->c, x->ndim, x->dtype);
  const Expr **d = infer_dims_copy(ic, x->dims, (uint32_t)x->ndim, 0);
  d[0] = s->dims[0];
  return sinfo_tensor(ic->c, d, (uint32_t)x->ndim, x->dtype);
}

bool lower_head(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *x = te_arg(lc, 0);
  uint32_t ndim;
  const Expr *m = te_result_shape(lc, 0, &ndim)[0];
  te_assert(lc, AND(GE(m, I64(0)), LE(m, x->shape[0])), "more entries than there are");
  te_result_begin(lc, 0, "T_head");
  te_out(lc, te_spatial_end(lc, te_load(lc, x, lc->ax)));
  return true;
}

/* ---- nonzero ---- */
const SInfo *infer_nonzero(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  return x ? sinfo_tensor_ndim(ic->c, 2, DT_I64) : NULL;
}

bool lower_nonzero(LowerCtx *lc, Node *n) {
  Node *x = node_in(n, 0), *t = te_bind(lc, te_make(lc, OP_relaxc_nonzero_positions, &x, 1));
  Node *pos = t ? item(lc, t, 0) : NULL, *count = pos ? item(lc, t, 1) : NULL;
  static const char *const name = "nonzero";
  Node *shape = count ? shape_from(lc, count, 1, &name) : NULL;
  if (!shape) return false;
  Node *in[3] = {x, pos, shape};
  Node *r = te_bind(lc, te_make(lc, OP_relaxc_nonzero_coordinates, in, 3));
  if (r) te_composite(lc, r);
  return r != NULL;
}

const SInfo *infer_nonzero_positions(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  const Expr *one = expr_i64(ic->c, 1), *len = NULL;
  if (x->dims) len = expr_product(ic->c, x->dims, (uint32_t)x->ndim);
  const SInfo *f[2] = {infer_tensor(ic, x->dims ? &len : NULL, 1, DT_I64),
                       sinfo_tensor(ic->c, &one, 1, DT_I64)};
  return sinfo_tuple(ic->c, f, 2);
}

bool lower_nonzero_positions(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *x = te_arg(lc, 0);
  const Expr *len = expr_product(c, x->shape, x->ndim), *one = I64(1), *zero = I64(0);
  Buffer *pos = te_alloc(lc, "positions", &len, 1, DT_I64);
  Buffer *count = te_alloc(lc, "count", &one, 1, DT_I64);
  Var *vars[TE_MAX_RANK], *k = VAR("k"), *rest = VAR("k");
  const Expr *idx[TE_MAX_RANK], *flat = zero;
  for (uint32_t i = 0; i < x->ndim; i++) {
    vars[i] = var_create(c, arena_printf(lc->arena, "i%u", i), DT_I64);
    idx[i] = vars[i]->expr;
    flat = ADD(MUL(flat, x->shape[i]), idx[i]);
  }
  Stmt *keep = SEQ(LET(k, LOADN(count, zero)), STOREN(pos, flat, k->expr),
                   STOREN(count, ADD(k->expr, one), zero));
  Stmt *body = IF(te_cast(c, DT_BOOL, te_load(lc, x, idx)), keep, NULL);
  te_block(lc, "positions",
           SEQ(STOREN(count, zero, zero), FOR(rest, len, STOREN(pos, zero, rest->expr)),
               te_loops(lc, vars, x->shape, x->ndim, body)));
  te_out(lc, pos);
  te_out(lc, count);
  return true;
}

const SInfo *infer_nonzero_coordinates(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *p = x ? infer_tensor_arg(ic, n, 1) : NULL;
  const SInfo *s = node_in(n, 2)->sinfo;
  if (!p) return NULL;
  if (s->kind != SINFO_SHAPE || s->ndim != 1 || !s->dims || x->ndim < 0)
    return sinfo_tensor_ndim(ic->c, 2, DT_I64);
  const Expr *d[2] = {expr_i64(ic->c, x->ndim > 0 ? x->ndim : 1), s->dims[0]};
  if (x->ndim == 0) d[0] = expr_i64(ic->c, 0);
  return sinfo_tensor(ic->c, d, 2, DT_I64);
}

bool lower_nonzero_coordinates(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *x = te_arg(lc, 0), *pos = te_arg(lc, 1);
  uint32_t ndim;
  const Expr *m = te_result_shape(lc, 0, &ndim)[1];
  te_assert(lc, AND(GE(m, I64(0)), LE(m, pos->shape[0])), "more positions than there are");
  te_result_begin(lc, 0, "T_coordinates");
  const Expr *at = te_load(lc, pos, &lc->ax[1]), *v = I64(0);
  for (uint32_t i = x->ndim; i-- > 0;) {
    const Expr *k = i ? te_int_div(c, EXPR_FLOORMOD, at, x->shape[i]) : at;
    v = SEL(EQ(lc->ax[0], I64(i)), k, v);
    if (i) at = te_int_div(c, EXPR_FLOORDIV, at, x->shape[i]);
  }
  te_out(lc, te_spatial_end(lc, v));
  return true;
}

/* ---- unique ---- */
typedef struct {
  bool sorted, index, inverse, counts, has_axis;
  int32_t axis;
} Unique;

static bool flag(InferCtx *ic, Node *n, uint32_t i, int64_t absent, int64_t *out) {
  *out = absent;
  if (!node_has_in(n, i)) return true;
  Node *d = node_in(n, i);
  const Expr *e = d->sinfo->kind == SINFO_PRIM ? d->sinfo->value : te_literal(ic->c, d);
  if (e && e->kind == EXPR_INT) {
    *out = e->i;
    return true;
  }
  infer_error(ic, n, C_constant, (int)i, "'%s' must be a constant", infer_arg_name(ic, n, i));
  return false;
}

static bool read_unique(InferCtx *ic, Node *n, const SInfo *x, Unique *u) {
  int64_t v[5];
  for (uint32_t i = 0; i < 5; i++)
    if (!flag(ic, n, i + 1, i == 0, &v[i])) return false;
  *u = (Unique){v[0] != 0, v[1] != 0, v[2] != 0, v[3] != 0, node_has_in(n, 5), 0};
  return !u->has_axis || x->ndim < 0 || infer_axis(ic, n, v[4], x->ndim, &u->axis);
}

const SInfo *infer_unique(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *f[4];
  Unique u;
  for (uint32_t i = 1; i < 5; i++) infer_default(ic, n, i, expr_lit(ic->c, DT_BOOL, i == 1));
  if (!x || !read_unique(ic, n, x, &u)) return NULL;
  uint32_t k = 0;
  const Expr *one = expr_i64(ic->c, 1);
  const SInfo *ints = sinfo_tensor_ndim(ic->c, 1, DT_I64);
  f[k++] = x->ndim == 0 ? sinfo_tensor(ic->c, &one, 1, x->dtype)
                        : sinfo_tensor_ndim(ic->c, u.has_axis ? x->ndim : 1, x->dtype);
  if (u.index) f[k++] = ints;
  if (u.inverse) f[k++] = ints;
  if (u.counts) f[k++] = ints;
  return k == 1 ? f[0] : sinfo_tuple(ic->c, f, k);
}

static Node *groups_of(LowerCtx *lc, Node *x, const Unique *u) {
  Node *g = te_make(lc, OP_relaxc_unique_groups, &x, 1);
  node_attrs(g, relaxc_unique_groups)->sorted = u->sorted;
  node_attrs(g, relaxc_unique_groups)->axis = u->has_axis ? u->axis : 0;
  return te_bind(lc, g);
}

bool lower_unique(LowerCtx *lc, Node *n) {
  InferCtx ic = {.c = lc->c, .m = lc->m, .arena = lc->arena};
  Node *x = node_in(n, 0), *out[4];
  Unique u;
  if (x->sinfo->kind != SINFO_TENSOR || !x->sinfo->dims)
    return te_error(lc, "can't be compiled as the shape of the operand is not known");
  if (!read_unique(&ic, n, x->sinfo, &u)) return false;
  if (x->sinfo->ndim != 1 && !u.has_axis) {
    x = te_bind(lc, te_make(lc, OP_flatten, &x, 1));
    if (!x) return false;
  }
  Node *g = groups_of(lc, x, &u), *part[4];
  if (!g) return false;
  for (int i = 0; i < 4; i++)
    if (!(part[i] = item(lc, g, i))) return false;
  static const char *const name = "unique";
  Node *shape = shape_from(lc, part[3], 1, &name);
  Node *first = shape ? head(lc, part[0], shape) : NULL;
  if (!first) return false;
  Node *in[2] = {x, first}, *values = te_make(lc, OP_take, in, 2);
  node_attrs(values, take)->axis = (OptInt){true, u.has_axis ? u.axis : 0};
  if (!te_bind(lc, values)) return false;
  uint32_t k = 0;
  out[k++] = values;
  if (u.index) out[k++] = first;
  if (u.inverse) out[k++] = part[1];
  if (u.counts && !(out[k++] = head(lc, part[2], shape))) return false;
  if (k == 1) {
    te_composite(lc, values);
    return true;
  }
  Node *t = te_bind(lc, node_tuple(n->func, out, k, n->span));
  if (t) te_composite(lc, t);
  return t != NULL;
}

/* relaxc.unique_groups: entries of an axis that are equal form a group. Results of the axis's
 * length: per group its first position and how many it has, per position its group; and how many
 * groups. */
const SInfo *infer_unique_groups(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  int32_t axis = 0;
  if (!x) return NULL;
  if (x->ndim >= 0 && !infer_axis(ic, n, node_attrs(n, relaxc_unique_groups)->axis, x->ndim, &axis))
    return NULL;
  const Expr *one = expr_i64(ic->c, 1);
  const SInfo *v = infer_tensor(ic, x->dims ? &x->dims[axis] : NULL, 1, DT_I64);
  const SInfo *f[4] = {v, v, v, sinfo_tensor(ic->c, &one, 1, DT_I64)};
  return sinfo_tuple(ic->c, f, 4);
}

typedef struct {
  LowerCtx *lc;
  Buffer *x, *perm, *state; /* perm: [2, number of entries], positions of entries */
  uint32_t axis;
} Entries;

enum { S_ORDER = MERGE_STATE, S_GROUPS, S_COUNT };

static const Expr *entry_at(const Entries *e, const Expr *pos, const Expr *const *inner) {
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0, k = 0; i < e->x->ndim; i++) idx[i] = i == e->axis ? pos : inner[k++];
  return te_load(e->lc, e->x, idx);
}

/* Sets state[S_ORDER] to -1, 0 or 1: entry a before, equal to, after entry b, compared element by
 * element. NaN is equal to NaN and after every number. */
static Stmt *compare(const Entries *e, const Expr *a, const Expr *b) {
  LowerCtx *lc = e->lc;
  Context *c = lc->c;
  Var *vars[TE_MAX_RANK];
  const Expr *inner[TE_MAX_RANK], *extents[TE_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t i = 0; i < e->x->ndim; i++) {
    if (i == e->axis) continue;
    vars[n] = var_create(c, arena_printf(lc->arena, "e%u", i), DT_I64);
    inner[n] = vars[n]->expr;
    extents[n++] = e->x->shape[i];
  }
  const Expr *x = te_widen(c, entry_at(e, a, inner)), *y = te_widen(c, entry_at(e, b, inner));
  if (dtype_is_bool(x->dtype)) {
    x = te_cast(c, DT_I8, x);
    y = te_cast(c, DT_I8, y);
  }
  const Expr *less = LT(x, y), *more = LT(y, x), *at = I64(S_ORDER);
  if (dtype_is_float(x->dtype)) {
    less = OR(less, AND(F1(isnan, y), NOT(F1(isnan, x))));
    more = OR(more, AND(F1(isnan, x), NOT(F1(isnan, y))));
  }
  Stmt *step = STOREN(e->state, SEL(less, I64(-1), SEL(more, I64(1), I64(0))), at);
  if (n) step = IF(EQ(LOADN(e->state, at), I64(0)), step, NULL);
  return SEQ(STOREN(e->state, I64(0), at), te_loops(lc, vars, extents, n, step));
}

/* A step of the merge of the positions that e->perm holds. */
static Stmt *merge_entries(LowerCtx *lc, const TeMerge *m, void *ctx) {
  Context *c = lc->c;
  const Entries *e = ctx;
  const Expr *one = I64(1), *order = I64(S_ORDER);
  const Expr *vi = LOADN(e->perm, m->from, m->i), *vj = LOADN(e->perm, m->from, m->j);
  Stmt *choose = IF(GE(m->i, m->mid), STOREN(e->state, one, order),
                    IF(GE(m->j, m->end), STOREN(e->state, I64(0), order), compare(e, vi, vj)));
  Stmt *left =
      SEQ(STOREN(e->perm, vi, m->to, m->at), STOREN(e->state, ADD(m->i, one), I64(MERGE_LEFT)));
  Stmt *right =
      SEQ(STOREN(e->perm, vj, m->to, m->at), STOREN(e->state, ADD(m->j, one), I64(MERGE_RIGHT)));
  return SEQ(choose, IF(LE(LOADN(e->state, order), I64(0)), left, right));
}

bool lower_unique_groups(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const relaxc_unique_groups_attrs *a = n->attrs;
  Buffer *x = te_arg(lc, 0);
  uint32_t axis = (uint32_t)(a->axis < 0 ? a->axis + x->ndim : a->axis);
  const Expr *len = x->shape[axis], *one = I64(1), *zero = I64(0), *two[2] = {I64(2), len};
  const Expr *states = I64(S_COUNT), *groups = I64(S_GROUPS), *half = I64(MERGE_HALF);
  Buffer *first = te_alloc(lc, "first", &len, 1, DT_I64);
  Buffer *inverse = te_alloc(lc, "inverse", &len, 1, DT_I64);
  Buffer *counts = te_alloc(lc, "counts", &len, 1, DT_I64);
  Buffer *count = te_alloc(lc, "count", &one, 1, DT_I64);
  Buffer *perm = te_alloc(lc, "perm", two, 2, DT_I64);
  Buffer *renamed = a->sorted ? NULL : te_alloc(lc, "renamed", &len, 1, DT_I64);
  Buffer *state = te_alloc(lc, "state", &states, 1, DT_I64);
  Entries e = {lc, x, perm, state, axis};
  Var *k = VAR("k"), *q = VAR("q"), *g = VAR("g"), *here = VAR("here");
  Stmt *start = SEQ(STOREN(perm, k->expr, zero, k->expr), STOREN(first, zero, k->expr),
                    STOREN(counts, zero, k->expr));
  /* Groups in sorted order; a stable sort has a group's first position in front. */
  const Expr *src = LOADN(state, half), *prev = LOADN(perm, src, SUB(q->expr, one));
  Stmt *differs =
      IF(EQ(q->expr, zero), STOREN(state, one, I64(S_ORDER)), compare(&e, prev, here->expr));
  Stmt *opens = SEQ(STOREN(first, here->expr, LOADN(state, groups)),
                    STOREN(state, ADD(LOADN(state, groups), one), groups));
  Stmt *group = SEQ(LET(here, LOADN(perm, src, q->expr)), differs,
                    IF(NE(LOADN(state, I64(S_ORDER)), zero), opens, NULL),
                    LET(g, SUB(LOADN(state, groups), one)),
                    STOREN(counts, ADD(LOADN(counts, g->expr), one), g->expr),
                    STOREN(inverse, g->expr, here->expr));
  Stmt *body = SEQ(FOR(k, len, start), te_merge_sort(lc, len, state, merge_entries, &e),
                   STOREN(state, zero, groups), FOR(q, len, group));
  if (!a->sorted) {
    /* Groups renamed in the order of their first positions: positions in order, each the first
     * time. */
    Var *i = VAR("i"), *old = VAR("old"), *fill = VAR("fill"), *w = VAR("w");
    const Expr *fresh = EQ(LOADN(renamed, old->expr), I64(-1)), *now = LOADN(state, groups);
    Stmt *name =
        SEQ(STOREN(renamed, now, old->expr), STOREN(perm, i->expr, zero, now),
            STOREN(perm, LOADN(counts, old->expr), one, now), STOREN(state, ADD(now, one), groups));
    Stmt *visit = SEQ(LET(old, LOADN(inverse, i->expr)), IF(fresh, name, NULL),
                      STOREN(inverse, LOADN(renamed, old->expr), i->expr));
    Stmt *copy = SEQ(STOREN(first, LOADN(perm, zero, w->expr), w->expr),
                     STOREN(counts, LOADN(perm, one, w->expr), w->expr));
    body = SEQ(body, FOR(fill, len, STOREN(renamed, I64(-1), fill->expr)),
               STOREN(state, zero, groups), FOR(i, len, visit), FOR(w, LOADN(state, groups), copy));
  }
  te_block(lc, "unique", SEQ(body, STOREN(count, LOADN(state, groups), zero)));
  te_out(lc, first);
  te_out(lc, inverse);
  te_out(lc, counts);
  te_out(lc, count);
  return true;
}

/* ---- dynamic_strided_slice ---- */
const SInfo *infer_dynamic_strided_slice(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  for (uint32_t i = 1; i < 4; i++) {
    const SInfo *s = infer_tensor_arg(ic, n, i);
    if (!s) return NULL;
    if (dtype_known(s->dtype) && !dtype_eq(s->dtype, DT_I64))
      return infer_error(ic, n, C_int64, (int)i, "'%s' must be int64 but is %s",
                         infer_arg_name(ic, n, i), infer_type_text(ic, s));
    if (!s->dims && x->ndim >= 0)
      return infer_error(ic, n, C_shape_known, (int)i, "the shape of '%s' must be known",
                         infer_arg_name(ic, n, i));
    int64_t len;
    bool known = s->dims && s->ndim == 1 && expr_const_int(ic->c, s->dims[0], &len);
    if (s->ndim >= 0 && (s->ndim != 1 || (known && x->ndim >= 0 && len != x->ndim)))
      return infer_error(
          ic, n, C_count_dim, (int)i, "'%s' must have one number per axis of %s but is %s",
          infer_arg_name(ic, n, i), infer_shape_text(ic, x), infer_shape_text(ic, s));
  }
  return sinfo_tensor_ndim(ic->c, x->ndim, x->dtype);
}

bool lower_dynamic_strided_slice(LowerCtx *lc, Node *n) {
  Node *in[5] = {node_in(n, 0), node_in(n, 1), node_in(n, 2), node_in(n, 3), NULL};
  if (in[0]->sinfo->ndim < 0 || in[0]->sinfo->ndim > TE_MAX_RANK)
    return te_error(lc, "can't be compiled as the rank of the operand is not known");
  uint32_t ndim = (uint32_t)in[0]->sinfo->ndim;
  Node *len = te_bind(lc, te_make(lc, OP_relaxc_slice_lengths, in, 4));
  const char *names[TE_MAX_RANK];
  for (uint32_t i = 0; i < ndim; i++) names[i] = arena_printf(lc->arena, "slice_%u", i);
  in[4] = len ? shape_from(lc, len, ndim, names) : NULL;
  Node *r = in[4] ? te_bind(lc, te_make(lc, OP_relaxc_slice, in, 5)) : NULL;
  if (r) te_composite(lc, r);
  return r != NULL;
}

/* begin or end of an axis, counted and cut as in Python. */
static const Expr *slice_bound(LowerCtx *lc, const Expr *v, const Expr *dim, const Expr *step) {
  Context *c = lc->c;
  const Expr *back = LT(step, I64(0)), *zero = I64(0), *one = I64(1);
  v = SEL(LT(v, zero), ADD(v, dim), v);
  const Expr *lo = SEL(back, I64(-1), zero), *hi = SEL(back, SUB(dim, one), dim);
  return expr_min(c, expr_max(c, v, lo), hi);
}

const SInfo *infer_slice_lengths(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  if (x->ndim < 0) return sinfo_tensor_ndim(ic->c, 1, DT_I64);
  const Expr *len = expr_i64(ic->c, x->ndim);
  return sinfo_tensor(ic->c, &len, 1, DT_I64);
}

bool lower_slice_lengths(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *x = te_arg(lc, 0), *b[3];
  const Expr *ndim = I64(x->ndim), *zero = I64(0), *one = I64(1);
  for (uint32_t i = 0; i < 3; i++) {
    b[i] = te_arg(lc, i + 1);
    if (!te_need_equal(lc, b[i]->shape[0], ndim, "the rank and the number of bounds")) return false;
  }
  Buffer *out = te_alloc(lc, "lengths", &ndim, 1, DT_I64);
  Stmt **body = ARENA_ARRAY(lc->arena, Stmt *, 2 * x->ndim + 1);
  for (uint32_t i = 0; i < x->ndim; i++) {
    const Expr *at = I64(i), *step = LOADN(b[2], at);
    const Expr *lo = slice_bound(lc, LOADN(b[0], at), x->shape[i], step);
    const Expr *hi = slice_bound(lc, LOADN(b[1], at), x->shape[i], step);
    /* Any int64 is a stride: nothing is added to it, and the least one has no positive twin. */
    const Expr *down = SUB(zero, expr_max(c, step, I64(-INT64_MAX)));
    const Expr *back = LT(step, zero), *by = SEL(back, down, step);
    const Expr *span = SEL(back, SUB(lo, hi), SUB(hi, lo));
    const Expr *len = ADD(te_int_div(c, EXPR_FLOORDIV, SUB(span, one), by), one);
    body[2 * i] = ASSERT(NE(step, zero), "R.dynamic_strided_slice: a stride is 0");
    body[2 * i + 1] = STOREN(out, SEL(LE(span, zero), zero, len), at);
  }
  te_block(lc, "slice_lengths", stmt_seq(lc->arena, body, 2 * x->ndim));
  te_out(lc, out);
  return true;
}

const SInfo *infer_slice(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *s = node_in(n, 4)->sinfo;
  if (!x) return NULL;
  if (s->kind != SINFO_SHAPE) return infer_error(ic, n, C_shape, 4, "expected a shape");
  return infer_tensor(ic, s->dims, s->ndim, x->dtype);
}

bool lower_slice(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *x = te_arg(lc, 0), *b = te_arg(lc, 1), *s = te_arg(lc, 3);
  te_result_begin(lc, 0, "T_dynamic_strided_slice");
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++) {
    const Expr *at = I64(i), *step = LOADN(s, at);
    const Expr *lo = slice_bound(lc, LOADN(b, at), x->shape[i], step);
    const Expr *k = ADD(lo, MUL(lc->ax[i], step));
    idx[i] = expr_max(c, expr_min(c, k, SUB(x->shape[i], I64(1))), I64(0));
  }
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}
