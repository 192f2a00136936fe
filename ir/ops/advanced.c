/* Indexing by several tensors, sums down to a shape, layouts given by an index map. */
#include "ir/ops/script.h"

#include <string.h>

/* ---- index_tensor, index_put ---- */
/* Struct info of the index tensors broadcast together; NULL after an error. *ndim -1: unknown. */
static const SInfo *index_shape(InferCtx *ic, Node *n, const SInfo *x) {
  const SInfo *t = infer_tensors_arg(ic, n, 1);
  if (!t) return NULL;
  if (!t->n) {
    infer_error(ic, n, C_some, 1, "expected at least one index tensor");
    return NULL;
  }
  if (x->ndim >= 0 && (int32_t)t->n > x->ndim) {
    infer_error(ic, n, C_rank, 1, "%u index tensors are too many for data %s", t->n,
                infer_shape_text(ic, x));
    return NULL;
  }
  const SInfo *all = NULL;
  for (uint32_t k = 0; k < t->n; k++) {
    const SInfo *f = t->fields[k];
    if (dtype_known(f->dtype) && (!dtype_is_int(f->dtype) || dtype_is_bool(f->dtype))) {
      infer_error(ic, n, C_int, 1, "index tensors must be integers but one is %s",
                  infer_type_text(ic, f));
      return NULL;
    }
    const Expr *const *dims;
    int32_t ndim;
    if (all && !infer_broadcast(ic, n, all, f, &dims, &ndim)) return NULL;
    all = all ? infer_tensor(ic, dims, ndim, DT_I64) : f;
  }
  return all;
}

const SInfo *infer_index_tensor(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *b = x ? index_shape(ic, n, x) : NULL;
  if (!b) return NULL;
  int32_t k = (int32_t)node_in(n, 1)->sinfo->n;
  if (b->ndim < 0 || x->ndim < 0) return sinfo_tensor_ndim(ic->c, -1, x->dtype);
  int32_t ndim = b->ndim + x->ndim - k;
  if (ndim > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, -1, "rank %d is above %d", ndim, TE_MAX_RANK);
  if (!b->dims || !x->dims) return sinfo_tensor_ndim(ic->c, ndim, x->dtype);
  const Expr **d = infer_dims_copy(ic, b->dims, (uint32_t)b->ndim, (uint32_t)(x->ndim - k));
  for (int32_t i = k; i < x->ndim; i++) d[b->ndim + i - k] = x->dims[i];
  return sinfo_tensor(ic->c, d, (uint32_t)ndim, x->dtype);
}

/* An indexed axis must have elements where there are indices at all. */
static void need_elements(LowerCtx *lc, const Expr *dim, const Expr *count) {
  Context *c = lc->c;
  if (prove_le(c, NULL, expr_dim(c, I64(1)), expr_dim(c, dim)) == PROOF_YES) return;
  te_assert(lc, OR(GE(dim, I64(1)), EQ(count, I64(0))), "an indexed axis is empty");
}

bool lower_index_tensor(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *x = te_arg(lc, 0);
  uint32_t k, ndim;
  Buffer *const *ind = te_args(lc, 1, &k);
  const Expr *const *shape = te_result_shape(lc, 0, &ndim);
  uint32_t nb = ndim - (x->ndim - k);
  for (uint32_t i = 0; i < k; i++) need_elements(lc, x->shape[i], expr_product(c, shape, nb));
  te_result_begin(lc, 0, "T_index");
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < k; i++)
    idx[i] = te_index_inside(c, te_load_bcast(lc, ind[i], lc->ax, nb), x->shape[i]);
  for (uint32_t i = k; i < x->ndim; i++) idx[i] = lc->ax[nb + i - k];
  te_out(lc, te_spatial_end(lc, te_load(lc, x, idx)));
  return true;
}

const SInfo *infer_index_put(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *b = x ? index_shape(ic, n, x) : NULL;
  const SInfo *v = b ? infer_tensor_arg(ic, n, 2) : NULL;
  if (!v) return NULL;
  if (dtype_known(x->dtype) && dtype_known(v->dtype) && !dtype_eq(x->dtype, v->dtype))
    return infer_error(ic, n, C_same_dtype, 2,
                       "'values' must have the dtype of the data: %s and %s",
                       infer_type_text(ic, v), infer_type_text(ic, x));
  const SInfo *t = infer_index_tensor(ic, n);
  const Expr *const *dims;
  int32_t ndim;
  if (!t || !infer_broadcast(ic, n, t, v, &dims, &ndim)) return NULL;
  if (t->ndim >= 0 && v->ndim > t->ndim)
    return infer_error(ic, n, C_rank, 2, "'values' %s has a higher rank than what is indexed %s",
                       infer_shape_text(ic, v), infer_shape_text(ic, t));
  return x;
}

bool lower_index_put(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Buffer *x = te_arg(lc, 0), *v = te_arg(lc, 2);
  uint32_t k;
  Buffer *const *ind = te_args(lc, 1, &k);
  const SInfo *t = infer_index_tensor(&ic, n);
  if (!t || !t->dims) return te_error(lc, "the shape of the index tensors is not known");
  uint32_t ndim = (uint32_t)t->ndim, nb = ndim - (x->ndim - k);
  const Expr *shape[TE_MAX_RANK], *idx[TE_MAX_RANK], *at[TE_MAX_RANK];
  Var *vars[TE_MAX_RANK];
  for (uint32_t i = 0; i < ndim; i++) {
    shape[i] = te_expr(lc, t->dims[i]);
    vars[i] = var_create(c, arena_printf(lc->arena, "i%u", i), DT_I64);
    idx[i] = vars[i]->expr;
  }
  for (uint32_t i = 0; i < v->ndim; i++)
    if (!expr_is_int(v->shape[i], 1) &&
        !te_need_equal(lc, v->shape[i], shape[ndim - v->ndim + i], "the dims of the values"))
      return false;
  te_result_begin(lc, 0, "T_copy");
  Buffer *out = te_spatial_end(lc, te_load(lc, x, lc->ax));
  Stmt **body = ARENA_ARRAY(lc->arena, Stmt *, k + 1);
  for (uint32_t i = 0; i < k; i++) {
    at[i] = te_index_from_start(c, te_load_bcast(lc, ind[i], idx, nb), x->shape[i]);
    body[i] = te_index_check(lc, at[i], x->shape[i]);
  }
  for (uint32_t i = k; i < x->ndim; i++) at[i] = idx[nb + i - k];
  const Expr *value = te_load_bcast(lc, v, idx, ndim);
  if (node_attrs(n, index_put)->accumulate) {
    const Expr *old = te_widen(c, te_load(lc, out, at)), *more = te_widen(c, value);
    value = te_cast(c, out->dtype, dtype_is_bool(old->dtype) ? OR(old, more) : ADD(old, more));
  }
  body[k] = stmt_store(lc->arena, n->span, out, at, value);
  te_block(lc, "index_put", te_loops(lc, vars, shape, ndim, stmt_seq(lc->arena, body, k + 1)));
  te_out(lc, out);
  return true;
}

/* ---- collapse_sum ---- */
/* The axes of x that a sum down to `to` runs over: those in front, and those that `to` has as 1. */
static const SInfo *collapse(InferCtx *ic, Node *n, const SInfo *x, const Expr *const *to,
                             int32_t ndim) {
  if (x->ndim >= 0 && ndim > x->ndim)
    return infer_error(ic, n, C_rank, 1, "the target has rank %d, above that of the data %s", ndim,
                       infer_shape_text(ic, x));
  for (int32_t i = 0; x->dims && to && i < ndim; i++) {
    const Expr *d = x->dims[x->ndim - ndim + i];
    if (!expr_is_int(to[i], 1) && !infer_eq(ic, d, to[i]))
      return infer_error(ic, n, C_broadcast, 1,
                         "dim %d of the data is %s, which does not collapse to %s",
                         x->ndim - ndim + i, infer_expr_text(ic, d), infer_expr_text(ic, to[i]));
  }
  return infer_tensor(ic, to, ndim, x->dtype);
}

const SInfo *infer_collapse_sum_to(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const SInfo *t = x ? infer_of_shape(ic, n, 1, x->dtype) : NULL;
  if (!t || t->ndim < 0 || !t->dims) return t;
  return collapse(ic, n, x, t->dims, t->ndim);
}

const SInfo *infer_collapse_sum_like(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *t = x ? infer_tensor_arg(ic, n, 1) : NULL;
  if (!t) return NULL;
  if (t->ndim < 0 || !t->dims) return sinfo_tensor_ndim(ic->c, t->ndim, x->dtype);
  return collapse(ic, n, x, t->dims, t->ndim);
}

bool lower_collapse_sum(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *x = te_arg(lc, 0);
  uint32_t ndim, nred = 0;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim), *red[TE_MAX_RANK], *idx[TE_MAX_RANK];
  bool reduced[TE_MAX_RANK];
  for (uint32_t i = 0, lead = x->ndim - ndim; i < x->ndim; i++) {
    reduced[i] = i < lead || (expr_is_int(shape[i - lead], 1) && !expr_is_int(x->shape[i], 1));
    if (reduced[i]) red[nred++] = x->shape[i];
  }
  DType d = x->dtype, acc = te_acc_dtype(d);
  if (nred)
    te_reduce_begin(lc, "T_collapse_sum", shape, ndim, acc, red, nred);
  else
    te_spatial_begin(lc, "T_copy", shape, ndim, acc);
  for (uint32_t i = 0, r = 0; i < x->ndim; i++)
    idx[i] = reduced[i] ? lc->ax[ndim + r++] : lc->ax[i - (x->ndim - ndim)];
  const Expr *v = te_cast(c, acc, te_load(lc, x, idx));
  Buffer *sum =
      nred ? te_reduce_end(lc, dtype_is_bool(acc) ? TE_ANY : TE_SUM, v) : te_spatial_end(lc, v);
  if (dtype_eq(acc, d)) {
    te_out(lc, sum);
    return true;
  }
  te_result_begin(lc, 0, "compute");
  te_out_value(lc, te_load(lc, sum, lc->ax));
  return true;
}

/* ---- layout_transform ---- */
/* Least and greatest value of an index expression whose variables lie in [0, dim); NULL where that
 * isn't known. */
typedef struct {
  Context *c;
  const IndexMap *m;
  const Expr *const *dims;
} Ranges;

static const Expr *bound_of(const Ranges *r, const Expr *e, bool high) {
  Context *c = r->c;
  int64_t k;
  if (expr_const_int(c, e, &k)) return expr_i64(c, k);
  const Expr *a, *b;
  switch (e->kind) {
  case EXPR_VAR:
    for (uint32_t i = 0; i < r->m->nin; i++)
      if (r->m->in[i] == e->var) return high ? SUB(r->dims[i], expr_i64(c, 1)) : expr_i64(c, 0);
    return NULL;
  case EXPR_CAST: return bound_of(r, e->arg[0], high);
  case EXPR_ADD:
    a = bound_of(r, e->arg[0], high);
    b = bound_of(r, e->arg[1], high);
    return a && b ? ADD(a, b) : NULL;
  case EXPR_SUB:
    a = bound_of(r, e->arg[0], high);
    b = bound_of(r, e->arg[1], !high);
    return a && b ? SUB(a, b) : NULL;
  case EXPR_MUL:
    if (!expr_const_int(c, e->arg[1], &k)) return NULL;
    a = bound_of(r, e->arg[0], k >= 0 ? high : !high);
    return a ? MUL(a, expr_i64(c, k)) : NULL;
  case EXPR_DIV:
  case EXPR_FLOORDIV:
    if (!expr_const_int(c, e->arg[1], &k) || k <= 0) return NULL;
    a = bound_of(r, e->arg[0], high);
    return a ? expr_floordiv(c, a, expr_i64(c, k)) : NULL;
  case EXPR_MOD:
  case EXPR_FLOORMOD: {
    if (!expr_const_int(c, e->arg[1], &k) || k <= 0) return NULL;
    if (!high) return expr_i64(c, 0);
    int64_t top;
    a = bound_of(r, e->arg[0], true);
    if (a && expr_const_int(c, a, &top) && top >= 0 && top < k) return a;
    return expr_i64(c, k - 1);
  }
  default: return NULL;
  }
}

static const IndexMap *map_of(const Node *n) {
  const Attr *a = node_attrs(n, layout_transform)->index_map;
  return a && a->kind == ATTR_INDEX_MAP ? a->map : NULL;
}

const SInfo *infer_layout_transform(InferCtx *ic, Node *n) {
  const IndexMap *m = map_of(n);
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  if (!m) return infer_error(ic, n, C_given, -1, "expected an index map");
  if (x->ndim >= 0 && x->ndim != (int32_t)m->nin)
    return infer_error(ic, n, C_rank, -1, "the index map takes %u indices but the data is %s",
                       m->nin, infer_shape_text(ic, x));
  if (m->nout > TE_MAX_RANK)
    return infer_error(ic, n, C_rank_limit, -1, "rank %u is too high", m->nout);
  if (!x->dims) return sinfo_tensor_ndim(ic->c, (int32_t)m->nout, x->dtype);
  Ranges r = {ic->c, m, x->dims};
  const Expr *dims[TE_MAX_RANK];
  for (uint32_t i = 0; i < m->nout; i++) {
    const Expr *top = bound_of(&r, m->out[i], true);
    if (!top)
      return infer_error(ic, n, C_index_map, -1,
                         "the extent of axis %u of the index map is not known", i);
    dims[i] = expr_simplify(ic->c, expr_add(ic->c, top, expr_i64(ic->c, 1)));
  }
  return sinfo_tensor(ic->c, dims, m->nout, x->dtype);
}

/* The number that fills what the map does not reach. */
static const Expr *pad_of(LowerCtx *lc, const Attr *a, DType d) {
  Context *c = lc->c;
  if (!a || a->kind == ATTR_NONE) return expr_lit(c, d, 0);
  if (a->kind == ATTR_INT) return expr_lit(c, d, (double)a->i);
  if (a->kind == ATTR_FLOAT) return expr_lit(c, d, a->f);
  if (a->kind == ATTR_BOOL) return expr_lit(c, d, a->b);
  if (a->kind == ATTR_EXPR) return te_cast(c, d, a->expr);
  return NULL;
}

/* Index v of the data as an expression of the result's indices: it stands in the map as `v`, or as
 * v // k and v % k. */
static const Expr *inverse_of(LowerCtx *lc, const IndexMap *m, const Var *v,
                              const Expr *const *out) {
  Context *c = lc->c;
  const Expr *div = NULL, *mod = NULL;
  int64_t kd = 0, km = 0, k;
  for (uint32_t i = 0; i < m->nout; i++) {
    const Expr *e = m->out[i];
    if (e == v->expr) return out[i];
    if ((e->kind != EXPR_FLOORDIV && e->kind != EXPR_FLOORMOD) || e->arg[0] != v->expr ||
        !expr_const_int(c, e->arg[1], &k) || k <= 0)
      continue;
    if (e->kind == EXPR_FLOORDIV) {
      div = out[i];
      kd = k;
    } else {
      mod = out[i];
      km = k;
    }
  }
  return div && mod && kd == km ? ADD(MUL(div, I64(kd)), mod) : NULL;
}

bool lower_layout_transform(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const IndexMap *m = map_of(n);
  Buffer *x = te_arg(lc, 0);
  const Expr *pad = pad_of(lc, node_attrs(n, layout_transform)->pad_value, x->dtype);
  if (!pad) return te_error(lc, "this pad_value can't be used");
  uint32_t ndim, used = 0;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim), *idx[TE_MAX_RANK], *in = NULL;
  te_result_begin(lc, 0, "T_layout_transform");
  bool simple = true;
  for (uint32_t i = 0; i < m->nin && simple; i++) {
    idx[i] = inverse_of(lc, m, m->in[i], lc->ax);
    simple = idx[i] != NULL;
    used += !simple ? 0 : idx[i]->kind == EXPR_VAR ? 1 : 2;
    if (!simple || idx[i]->kind == EXPR_VAR) continue;
    int64_t k, len;
    const Expr *e = idx[i];
    bool whole = expr_const_int(c, x->shape[i], &len) && e->arg[0]->kind == EXPR_MUL &&
                 expr_const_int(c, e->arg[0]->arg[1], &k) && len % k == 0;
    if (!whole) in = in ? AND(in, LT(e, x->shape[i])) : LT(e, x->shape[i]);
  }
  if (simple && used == m->nout) {
    const Expr *v = te_load(lc, x, idx);
    te_out(lc, te_spatial_end(lc, in ? expr_if_then_else(c, in, v, pad) : v));
    return true;
  }
  /* Any other map: every element is stored where it says. */
  Map vars;
  map_init(&vars, lc->arena);
  Var *loops[TE_MAX_RANK];
  const Expr *from[TE_MAX_RANK], *to[TE_MAX_RANK];
  for (uint32_t i = 0; i < m->nin; i++) {
    loops[i] = var_create(c, arena_printf(lc->arena, "i%u", i), DT_I64);
    from[i] = loops[i]->expr;
    map_setp(&vars, m->in[i], (void *)(uintptr_t)from[i]);
  }
  Stmt *body[TE_MAX_RANK + 1];
  uint32_t nb = 0;
  Ranges r = {c, m, x->shape};
  Buffer *out = te_spatial_end(lc, pad);
  for (uint32_t i = 0; i < m->nout; i++) {
    to[i] = te_cast(c, DT_I64, expr_subst(&(Subst){.c = c, .vars = &vars}, m->out[i]));
    const Expr *low = bound_of(&r, m->out[i], false);
    bool fine = low && prove_le(c, NULL, expr_dim(c, I64(0)), expr_dim(c, low)) == PROOF_YES;
    if (!fine) body[nb++] = te_index_check(lc, to[i], shape[i]);
  }
  body[nb++] = stmt_store(lc->arena, n->span, out, to, te_load(lc, x, from));
  te_block(lc, "layout_transform",
           te_loops(lc, loops, x->shape, m->nin, stmt_seq(lc->arena, body, nb)));
  te_out(lc, out);
  return true;
}
