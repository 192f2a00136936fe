/* Pooling: a border where windows reach over the data, one reduction over the window, and for means
 * a division by the number of elements that count. Adaptive windows differ in extent by one, so
 * their reduction runs over the greatest and leaves out what lies beyond. */
#include "ir/ops/script.h"
#include "ir/ops/window.h"

#include <math.h>

_Static_assert(sizeof(nn_max_pool1d_attrs) == sizeof(nn_avg_pool3d_attrs),
               "read through nn_max_pool2d_attrs");
_Static_assert(sizeof(nn_adaptive_avg_pool1d_attrs) == sizeof(nn_adaptive_avg_pool3d_attrs),
               "read through nn_adaptive_avg_pool2d_attrs");

typedef struct {
  uint32_t nd;
  bool max, ceil, count_border;
  Layout data, out;
  Window w;
  int64_t k[WINDOW_MAX];
} Pool;

static uint32_t pool_axes(OpId op) {
  switch (op) {
  case OP_nn_max_pool1d:
  case OP_nn_avg_pool1d:
  case OP_nn_adaptive_avg_pool1d: return 1;
  case OP_nn_max_pool2d:
  case OP_nn_avg_pool2d:
  case OP_grad_max_pool2d_backward:
  case OP_grad_avg_pool2d_backward:
  case OP_nn_adaptive_avg_pool2d: return 2;
  default: return 3;
  }
}

static bool read_pool(InferCtx *ic, const Node *n, Pool *p) {
  const nn_max_pool2d_attrs *a = n->attrs;
  *p = (Pool){.nd = pool_axes(n->op), .ceil = a->ceil_mode, .count_border = a->count_include_pad};
  p->max = n->op == OP_nn_max_pool1d || n->op == OP_nn_max_pool2d || n->op == OP_nn_max_pool3d ||
           n->op == OP_grad_max_pool2d_backward;
  if (!layout_read(ic, n, "layout", a->layout, p->nd, false, &p->data) ||
      !layout_read(ic, n, "out_layout", a->out_layout ? a->out_layout : a->layout, p->nd, false,
                   &p->out) ||
      !window_read(ic, n, p->nd, a->strides, a->padding, a->dilation, &p->w))
    return false;
  if (a->pool_size.n != 1 && a->pool_size.n != (int32_t)p->nd) {
    infer_error(ic, n, C_count, -1, "expected 1 or %u values for pool_size but got %d", p->nd,
                a->pool_size.n);
    return false;
  }
  for (uint32_t i = 0; i < p->nd; i++) {
    p->k[i] = a->pool_size.at[a->pool_size.n == 1 ? 0 : i];
    if (p->k[i] < 1 || p->k[i] > INT32_MAX) {
      infer_error(ic, n, C_least, -1, "pool_size must be positive but is %lld", (long long)p->k[i]);
      return false;
    }
  }
  return true;
}

static const SInfo *data_arg(InferCtx *ic, const Node *n, uint32_t ndim) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (x && x->ndim >= 0 && x->ndim != (int32_t)ndim) {
    infer_error(ic, n, C_rank, 0, "expected rank %u but got %s", ndim, infer_shape_text(ic, x));
    return NULL;
  }
  return x;
}

/* In ceil mode the numerator is rounded up, but no window begins beyond the data and the border
 * before it. */
static const Expr *pooled_extent(InferCtx *ic, const Pool *p, uint32_t i, const Expr *dim) {
  Context *c = ic->c;
  const Expr *k = expr_i64(c, p->k[i]);
  if (!p->ceil) return window_extent(ic, &p->w, i, dim, k);
  Window w = p->w;
  w.after[i] += w.stride[i] - 1;
  const Expr *e = window_extent(ic, &w, i, dim, k);
  const Expr *last = ADD(dim, expr_i64(c, w.before[i] - 1));
  const Expr *most = ADD(expr_floordiv(c, last, expr_i64(c, w.stride[i])), expr_i64(c, 1));
  most = expr_simplify(c, most);
  if (prove_le(c, ic->facts, expr_dim(c, e), expr_dim(c, most)) == PROOF_YES || !p->w.after[i])
    return e;
  return expr_simplify(c, expr_min(c, e, most));
}

/* Dims of the result from those of the data, in the plain layouts. */
static void pooled_dims(InferCtx *ic, const Pool *p, const Expr *const *xd, const Expr **dims) {
  dims[p->out.n] = xd[p->data.n];
  dims[p->out.c] = xd[p->data.c];
  for (uint32_t i = 0; i < p->nd; i++)
    dims[p->out.at[i]] = pooled_extent(ic, p, i, xd[p->data.at[i]]);
}

const SInfo *infer_pool(InferCtx *ic, Node *n) {
  Pool p;
  if (!read_pool(ic, n, &p)) return NULL;
  const SInfo *x = data_arg(ic, n, p.data.rank);
  if (!x || !x->dims) return x ? sinfo_tensor_ndim(ic->c, (int32_t)p.out.rank, x->dtype) : NULL;
  const Expr *dims[LAYOUT_AXES];
  pooled_dims(ic, &p, layout_plain_dims(ic, &p.data, x->dims), dims);
  for (uint32_t i = 0; i < p.nd; i++) {
    int64_t v;
    if (expr_const_int(ic->c, dims[p.out.at[i]], &v) && v < 0)
      return infer_error(ic, n, C_window, -1, "a window of %lld doesn't fit into axis %u of %s",
                         (long long)p.k[i], p.data.at[i], infer_shape_text(ic, x));
  }
  return layout_tensor(ic, n, &p.out, dims, x->dtype);
}

static const Expr *least(Context *c, DType d) {
  if (dtype_is_float(d))
    return expr_float(c, d, d.code == DTYPE_E4M3FN ? -448.0 : -(double)INFINITY);
  if (dtype_is_bool(d) || dtype_is_uint(d)) return expr_lit(c, d, 0);
  return expr_int(c, d, d.bits >= 64 ? INT64_MIN : -(INT64_C(1) << (d.bits - 1)));
}

/* Elements of the window at output position `at` of axis i that lie in [lo, hi). */
static const Expr *counted(LowerCtx *lc, const Pool *p, uint32_t i, const Expr *at,
                           const Expr *dim) {
  Context *c = lc->c;
  const Window *w = &p->w;
  int64_t border = p->count_border ? w->before[i] : 0, more = p->count_border ? w->after[i] : 0;
  const Expr *zero = te_i64(lc, 0), *step = te_i64(lc, w->dilation[i]);
  const Expr *start = SUB(MUL(at, te_i64(lc, w->stride[i])), te_i64(lc, w->before[i]));
  const Expr *lo = te_i64(lc, -border), *hi = ADD(dim, te_i64(lc, more));
  const Expr *first = ADD(SUB(lo, start), te_i64(lc, w->dilation[i] - 1));
  first = expr_max(c, expr_floordiv(c, first, step), zero);
  const Expr *last = expr_floordiv(c, SUB(SUB(hi, te_i64(lc, 1)), start), step);
  last = expr_min(c, last, te_i64(lc, p->k[i] - 1));
  return expr_simplify(c, ADD(SUB(last, first), te_i64(lc, 1)));
}

static bool give_mean(LowerCtx *lc, const Expr *total, const Expr *by, const LayoutResult *r) {
  Context *c = lc->c;
  const Expr *mean = dtype_is_int(by->dtype) ? te_int_div(c, EXPR_DIV, total, by) : DIV(total, by);
  return layout_result_end(lc, te_spatial_end(lc, te_cast(c, lc->stage_dtype, mean)), r);
}

/* Where spatial axis i, which isn't in blocks, stands in the tensor. */
static uint32_t space(const Layout *l, uint32_t i) {
  return l->major[l->at[i]];
}

/* The data's index at the result's image and channel, which idx says, and these spatial positions.
 */
static void data_index(Context *c, const Pool *p, const Expr *const *idx, const Expr *const *at,
                       const Expr **data) {
  LayoutPos from[LAYOUT_AXES], to[LAYOUT_AXES];
  layout_positions(c, &p->out, idx, from);
  to[p->data.n] = from[p->out.n];
  to[p->data.c] = from[p->out.c];
  for (uint32_t i = 0; i < p->nd; i++) to[p->data.at[i]] = (LayoutPos){.whole = at[i]};
  layout_index(c, &p->data, to, data);
}

bool lower_pool(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Pool p;
  if (!read_pool(&ic, n, &p)) return false;
  Buffer *x = layout_operand(lc, te_arg(lc, 0), &p.data, false), *raw = x;
  LayoutResult result = layout_result_begin(lc, &p.out, false);
  const Expr *dims[LAYOUT_AXES];
  pooled_dims(&ic, &p, layout_plain_dims(&ic, &p.data, x->shape), dims);
  if (!layout_need_blocks(lc, &result, dims)) return false;
  DType d = x->dtype, acc = p.max ? d : te_mean_dtype(d);
  uint32_t ndim = p.out.rank;
  const Expr *const *shape = result.shape;
  const Expr *extents[WINDOW_MAX], *red[WINDOW_MAX];
  bool border = p.ceil;
  for (uint32_t i = 0; i < p.nd; i++) {
    const Expr *last = SUB(shape[space(&p.out, i)], te_i64(lc, 1));
    last = MUL(last, te_i64(lc, p.w.stride[i]));
    extents[i] = ADD(last, te_i64(lc, p.w.dilation[i] * (p.k[i] - 1) + 1));
    red[i] = te_i64(lc, p.k[i]);
    border = border || p.w.before[i] || p.w.after[i];
  }
  if (border)
    x = window_pad(lc, x, &p.data, &p.w, extents, p.max ? least(c, d) : expr_lit(c, d, 0));
  te_reduce_begin(lc, p.max ? "pool_max" : "pool_sum", shape, ndim, acc, red, p.nd);
  const Expr *ix[LAYOUT_RANK], *in[WINDOW_MAX];
  for (uint32_t i = 0; i < p.nd; i++)
    in[i] = ADD(MUL(lc->ax[space(&p.out, i)], te_i64(lc, p.w.stride[i])),
                MUL(lc->ax[ndim + i], te_i64(lc, p.w.dilation[i])));
  data_index(c, &p, lc->ax, in, ix);
  const Expr *v = te_cast(c, acc, te_load(lc, x, ix));
  if (p.max)
    return layout_result_end(lc, te_reduce_end(lc, dtype_is_bool(d) ? TE_ANY : TE_MAX, v), &result);
  Buffer *sum = te_reduce_end(lc, TE_SUM, v);
  te_spatial_begin(lc, "pool_avg", shape, ndim, te_result_dtype(lc, 0));
  const Expr *count = te_i64(lc, 1);
  for (uint32_t i = 0; i < p.nd; i++)
    count = MUL(count,
                border ? counted(lc, &p, i, lc->ax[space(&p.out, i)], raw->shape[space(&p.data, i)])
                       : te_i64(lc, p.k[i]));
  if (border) count = expr_max(c, count, te_i64(lc, 1));
  const Expr *total = te_load(lc, sum, lc->ax), *by = te_cast(c, acc, count);
  return give_mean(lc, total, by, &result);
}

/* ---- gradients ---- */
/* Runs over the results: of a maximum the first greatest element (or the first NaN) gets the
 * gradient, of a mean every element its share. */
bool lower_pool_backward(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Pool p;
  if (!read_pool(&ic, n, &p)) return false;
  Buffer *g = te_arg(lc, 0), *x = te_arg(lc, 1);
  Layout made = p.data;
  LayoutResult result = layout_result_begin(lc, &made, true);
  if (g->ndim != p.out.rank || x->ndim != p.data.rank)
    return te_error(lc, "expected ranks %u and %u", p.out.rank, p.data.rank);
  g = layout_operand(lc, g, &p.out, true);
  x = layout_operand(lc, x, &p.data, true);
  if (!te_need_equal(lc, g->shape[p.out.n], x->shape[p.data.n], "the batches") ||
      !te_need_equal(lc, g->shape[p.out.c], x->shape[p.data.c], "the channels"))
    return false;
  DType acc = te_acc_dtype(x->dtype);
  te_spatial_begin(lc, "zeros", x->shape, x->ndim, acc);
  Buffer *out = te_spatial_end(lc, expr_lit(c, acc, 0));
  const Expr *three = I64(3), *one = I64(1), *zero = I64(0);
  Buffer *best = te_alloc(lc, "best", &one, 1, acc),
         *where = te_alloc(lc, "where", &three, 1, DT_I64);
  Var *vars[WINDOW_MAX + 2], *tap[2] = {VAR("kh"), VAR("kw")}, *at[2] = {VAR("h"), VAR("w")};
  const Expr *idx[WINDOW_MAX + 2], *ix[WINDOW_MAX + 2], *taps[2], *in = NULL, *count = one;
  for (uint32_t i = 0; i < g->ndim; i++) {
    vars[i] = var_create(c, arena_printf(lc->arena, "i%u", i), DT_I64);
    idx[i] = vars[i]->expr;
  }
  Stmt *lets[2];
  ix[p.data.n] = idx[p.out.n];
  ix[p.data.c] = idx[p.out.c];
  for (uint32_t i = 0; i < 2; i++) {
    const Expr *o = idx[p.out.at[i]], *dim = x->shape[p.data.at[i]];
    const Expr *first = SUB(MUL(o, I64(p.w.stride[i])), I64(p.w.before[i]));
    lets[i] = LET(at[i], ADD(first, MUL(tap[i]->expr, I64(p.w.dilation[i]))));
    ix[p.data.at[i]] = at[i]->expr;
    taps[i] = I64(p.k[i]);
    const Expr *ok = AND(GE(at[i]->expr, zero), LT(at[i]->expr, dim));
    in = in ? AND(in, ok) : ok;
    count = MUL(count, expr_max(c, counted(lc, &p, i, o, dim), one));
  }
  const Expr *grad = te_cast(c, acc, te_load(lc, g, idx)), *v = te_cast(c, acc, te_load(lc, x, ix));
  Stmt *s;
  if (p.max) {
    const Expr *old = LOADN(best, zero), *none = EQ(LOADN(where, I64(2)), zero);
    const Expr *more = OR(OR(none, GT(v, old)), AND(F1(isnan, v), NOT(F1(isnan, old))));
    Stmt *keep = SEQ(STOREN(best, v, zero), STOREN(where, at[0]->expr, zero),
                     STOREN(where, at[1]->expr, one), STOREN(where, one, I64(2)));
    s = te_loops(lc, tap, taps, 2, SEQ(lets[0], lets[1], IF(in, IF(more, keep, NULL), NULL)));
    for (uint32_t i = 0; i < 2; i++) ix[p.data.at[i]] = LOADN(where, I64(i));
    Stmt *add = stmt_store(lc->arena, n->span, out, ix, ADD(te_load(lc, out, ix), grad));
    s = SEQ(STOREN(where, zero, I64(2)), s, IF(NE(LOADN(where, I64(2)), zero), add, NULL));
  } else {
    const Expr *part = DIV(grad, te_cast(c, acc, count));
    Stmt *add = stmt_store(lc->arena, n->span, out, ix, ADD(te_load(lc, out, ix), part));
    s = te_loops(lc, tap, taps, 2, SEQ(lets[0], lets[1], IF(in, add, NULL)));
  }
  te_block(lc, "pool_backward", te_loops(lc, vars, g->shape, g->ndim, s));
  return layout_result_end(lc, out, &result);
}

/* ---- adaptive ---- */
static bool read_adaptive(InferCtx *ic, const Node *n, Pool *p, const Expr **size) {
  const nn_adaptive_avg_pool2d_attrs *a = n->attrs;
  *p = (Pool){.nd = pool_axes(n->op)};
  if (!layout_read(ic, n, "layout", a->layout, p->nd, false, &p->data) ||
      !layout_read(ic, n, "out_layout", a->out_layout ? a->out_layout : a->layout, p->nd, false,
                   &p->out))
    return false;
  if (a->output_size.n >= 0 && a->output_size.n != 1 && a->output_size.n != (int32_t)p->nd) {
    infer_error(ic, n, C_count, -1, "expected 1 or %u values for output_size but got %d", p->nd,
                a->output_size.n);
    return false;
  }
  for (uint32_t i = 0; i < p->nd; i++) {
    size[i] = NULL;
    if (a->output_size.n < 0) continue;
    int64_t v = a->output_size.at[a->output_size.n == 1 ? 0 : i];
    if (v < 1) {
      infer_error(ic, n, C_least, -1, "output_size must be positive but is %lld", (long long)v);
      return false;
    }
    size[i] = expr_i64(ic->c, v);
  }
  return true;
}

static void adapted_dims(const Pool *p, const Expr *const *size, const Expr *const *xd,
                         const Expr **dims) {
  dims[p->out.n] = xd[p->data.n];
  dims[p->out.c] = xd[p->data.c];
  for (uint32_t i = 0; i < p->nd; i++) dims[p->out.at[i]] = size[i] ? size[i] : xd[p->data.at[i]];
}

const SInfo *infer_adaptive_pool(InferCtx *ic, Node *n) {
  Pool p;
  const Expr *size[WINDOW_MAX];
  if (!read_adaptive(ic, n, &p, size)) return NULL;
  nn_adaptive_avg_pool2d_attrs *a = n->attrs;
  if (a->output_size.n == 1 && p.nd > 1) { /* TVM reads a list of one as two */
    int64_t *all = ARENA_ARRAY(ic->arena, int64_t, p.nd);
    for (uint32_t i = 0; i < p.nd; i++) all[i] = a->output_size.at[0];
    a->output_size = (IntList){(int32_t)p.nd, all};
  }
  const SInfo *x = data_arg(ic, n, p.data.rank);
  if (!x || !x->dims) return x ? sinfo_tensor_ndim(ic->c, (int32_t)p.out.rank, x->dtype) : NULL;
  const Expr *dims[LAYOUT_AXES];
  adapted_dims(&p, size, layout_plain_dims(ic, &p.data, x->dims), dims);
  return layout_tensor(ic, n, &p.out, dims, x->dtype);
}

/* Part o of an axis is [o * dim // size, ceil((o + 1) * dim / size)). */
static const Expr *part_begin(Context *c, const Expr *o, const Expr *dim, const Expr *size) {
  return expr_floordiv(c, MUL(o, dim), size);
}

static const Expr *part_end(Context *c, const Expr *o, const Expr *dim, const Expr *size) {
  const Expr *one = expr_i64(c, 1);
  return expr_floordiv(c, SUB(ADD(MUL(ADD(o, one), dim), size), one), size);
}

bool lower_adaptive_pool(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Pool p;
  const Expr *size[WINDOW_MAX], *red[WINDOW_MAX], *one = te_i64(lc, 1);
  bool even[WINDOW_MAX];
  if (!read_adaptive(&ic, n, &p, size)) return false;
  Buffer *x = layout_operand(lc, te_arg(lc, 0), &p.data, false);
  LayoutResult result = layout_result_begin(lc, &p.out, false);
  const Expr *dims[LAYOUT_AXES];
  adapted_dims(&p, size, layout_plain_dims(&ic, &p.data, x->shape), dims);
  if (!layout_need_blocks(lc, &result, dims)) return false;
  DType acc = te_mean_dtype(x->dtype);
  uint32_t ndim = p.out.rank;
  const Expr *const *shape = result.shape;
  for (uint32_t i = 0; i < p.nd; i++) {
    const Expr *dim = x->shape[space(&p.data, i)];
    size[i] = shape[space(&p.out, i)];
    const Expr *part = expr_simplify(c, expr_floordiv(c, dim, size[i]));
    even[i] = expr_proved_eq(c, dim, size[i]) ||
              expr_proved_eq(c, dim, expr_simplify(c, MUL(part, size[i])));
    red[i] = expr_proved_eq(c, dim, size[i]) ? one
             : even[i]                       ? part
                                             : expr_simplify(c, ADD(part, te_i64(lc, 2)));
  }
  te_reduce_begin(lc, "adaptive_pool_sum", shape, ndim, acc, red, p.nd);
  const Expr *ix[LAYOUT_RANK], *at[WINDOW_MAX] = {NULL}, *inside = NULL;
  for (uint32_t i = 0; i < p.nd; i++) {
    const Expr *o = lc->ax[space(&p.out, i)], *k = lc->ax[ndim + i],
               *dim = x->shape[space(&p.data, i)];
    if (even[i]) {
      at[i] = expr_simplify(c, ADD(MUL(o, red[i]), k));
      continue;
    }
    at[i] = ADD(part_begin(c, o, dim, size[i]), k);
    const Expr *in = LT(at[i], part_end(c, o, dim, size[i]));
    inside = inside ? AND(inside, in) : in;
  }
  data_index(c, &p, lc->ax, at, ix);
  const Expr *v = te_cast(c, acc, te_load(lc, x, ix));
  if (inside) v = expr_if_then_else(c, inside, v, expr_lit(c, acc, 0));
  Buffer *sum = te_reduce_end(lc, TE_SUM, v);
  te_spatial_begin(lc, "adaptive_pool_avg", shape, ndim, te_result_dtype(lc, 0));
  const Expr *count = one;
  for (uint32_t i = 0; i < p.nd; i++) {
    const Expr *o = lc->ax[space(&p.out, i)], *dim = x->shape[space(&p.data, i)];
    const Expr *len = SUB(part_end(c, o, dim, size[i]), part_begin(c, o, dim, size[i]));
    count = MUL(count, even[i] ? red[i] : len);
  }
  const Expr *total = te_load(lc, sum, lc->ax), *by = te_cast(c, acc, count);
  return give_mean(lc, total, by, &result);
}
