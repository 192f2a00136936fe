/* Normalisation: mean and variance in two passes (reduce.c), then one elementwise stage with scale
 * and shift. float16 and bfloat16 run in float32. */
#include "ir/ops/scalar.h"

/* Parameter i has rank `rank` and data's dtype, and its dim k agrees with axis at[k] of the data.
 * False after an error. */
static bool check_param(InferCtx *ic, const Node *n, uint32_t i, const SInfo *x, const int32_t *at,
                        int32_t rank) {
  const SInfo *p = infer_tensor_arg(ic, n, i);
  if (!p) return false;
  if (dtype_known(p->dtype) && dtype_known(x->dtype) && !dtype_eq(p->dtype, x->dtype)) {
    infer_error(ic, n, C_same_dtype, (int)i, "'%s' must have the dtype of the data: %s and %s",
                infer_arg_name(ic, n, i), infer_type_text(ic, p), infer_type_text(ic, x));
    return false;
  }
  if (p->ndim != rank) {
    infer_error(ic, n, C_rank, (int)i, "expected rank %d for '%s' but got %s", rank,
                infer_arg_name(ic, n, i), infer_shape_text(ic, p));
    return false;
  }
  for (int32_t k = 0; x->dims && p->dims && k < rank; k++)
    if (infer_ne(ic, x->dims[at[k]], p->dims[k])) {
      infer_error(ic, n, C_same_dims, (int)i, "'%s' %s doesn't fit the data %s",
                  infer_arg_name(ic, n, i), infer_shape_text(ic, p), infer_shape_text(ic, x));
      infer_note(ic, n, (int)i, "dim %d is %s but axis %d of the data is %s", k,
                 infer_expr_text(ic, p->dims[k]), at[k], infer_expr_text(ic, x->dims[at[k]]));
      return false;
    }
  return true;
}

/* Data as float tensor with its axes; at is only filled when the rank is known. */
static const SInfo *data_arg(InferCtx *ic, const Node *n, IntList axes, int32_t *at) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x || !infer_need_float(ic, n, 0, x)) return NULL;
  if (axes.n < 0 || axes.n > TE_MAX_RANK) {
    infer_error(ic, n, C_given, -1, "axes is missing");
    return NULL;
  }
  return x->ndim < 0 || infer_axes(ic, n, axes, x->ndim, at) ? x : NULL;
}

const SInfo *infer_layer_norm(InferCtx *ic, Node *n) {
  IntList axes = node_attrs(n, nn_layer_norm)->axes;
  int32_t at[TE_MAX_RANK];
  const SInfo *x = data_arg(ic, n, axes, at);
  return x && check_param(ic, n, 1, x, at, axes.n) && check_param(ic, n, 2, x, at, axes.n) ? x
                                                                                           : NULL;
}

const SInfo *infer_rms_norm(InferCtx *ic, Node *n) {
  IntList axes = node_attrs(n, nn_rms_norm)->axes;
  int32_t at[TE_MAX_RANK];
  const SInfo *x = data_arg(ic, n, axes, at);
  return x && check_param(ic, n, 1, x, at, axes.n) ? x : NULL;
}

/* Shared by instance and group norm: the channel axis is none of the axes. */
static const SInfo *by_channel(InferCtx *ic, Node *n, int64_t channel, IntList axes,
                               int32_t *channel_at) {
  int32_t at[TE_MAX_RANK];
  const SInfo *x = data_arg(ic, n, axes, at);
  if (!x) return NULL;
  if (x->ndim >= 0) {
    if (!infer_axis(ic, n, channel, x->ndim, channel_at)) return NULL;
    for (int32_t i = 0; i < axes.n; i++)
      if (at[i] == *channel_at) {
        infer_error(ic, n, C_axis_twice, -1, "the channel axis %d must not be one of axes",
                    *channel_at);
        return NULL;
      }
  }
  return check_param(ic, n, 1, x, channel_at, 1) && check_param(ic, n, 2, x, channel_at, 1) ? x
                                                                                            : NULL;
}

const SInfo *infer_instance_norm(InferCtx *ic, Node *n) {
  const nn_instance_norm_attrs *a = n->attrs;
  int32_t channel;
  return by_channel(ic, n, a->channel_axis, a->axes, &channel);
}

const SInfo *infer_group_norm(InferCtx *ic, Node *n) {
  const nn_group_norm_attrs *a = n->attrs;
  int32_t channel;
  const SInfo *x = by_channel(ic, n, a->channel_axis, a->axes, &channel);
  if (x && a->num_groups <= 0)
    return infer_error(ic, n, C_least, -1, "num_groups must be positive but is %lld",
                       (long long)a->num_groups);
  if (x && x->dims) {
    const Expr *groups = expr_i64(ic->c, a->num_groups);
    const Expr *rest = expr_floormod(ic->c, x->dims[channel], groups);
    if (infer_ne(ic, rest, expr_i64(ic->c, 0)))
      return infer_error(ic, n, C_divisible, -1, "%s channels can't be divided into %lld groups",
                         infer_expr_text(ic, x->dims[channel]), (long long)a->num_groups);
  }
  return x;
}

const SInfo *infer_batch_norm(InferCtx *ic, Node *n) {
  const nn_batch_norm_attrs *a = n->attrs;
  int32_t at = 0;
  const SInfo *x = data_arg(ic, n, (IntList){1, &a->axis}, &at);
  if (!x) return NULL;
  for (uint32_t i = 1; i < 5; i++)
    if (!check_param(ic, n, i, x, &at, 1)) return NULL;
  const SInfo *f[3] = {x, node_in(n, 3)->sinfo, node_in(n, 4)->sinfo};
  return sinfo_tuple(ic->c, f, 3);
}

/* ---- lowering ---- */
static uint32_t axis_of(const Buffer *x, int64_t axis) {
  return (uint32_t)(axis < 0 ? axis + x->ndim : axis);
}

/* Parameter i must fit axes of the data for its index to stay inside. */
static bool params_fit(LowerCtx *lc, uint32_t first, uint32_t last, IntList axes) {
  Buffer *x = te_arg(lc, 0);
  for (uint32_t i = first; i <= last; i++)
    for (int32_t k = 0; k < axes.n; k++)
      if (!te_need_equal(lc, x->shape[axis_of(x, axes.at[k])], te_arg(lc, i)->shape[k],
                         "data and parameters"))
        return false;
  return true;
}

/* Parameter i at the position lc->ax of the data. */
static const Expr *param(LowerCtx *lc, uint32_t i, IntList axes, DType acc) {
  Buffer *x = te_arg(lc, 0);
  const Expr *idx[TE_MAX_RANK];
  for (int32_t k = 0; k < axes.n; k++) idx[k] = lc->ax[axis_of(x, axes.at[k])];
  return te_cast(lc->c, acc, te_load(lc, te_arg(lc, i), idx));
}

static const Expr *affine(LowerCtx *lc, const Expr *x, bool scale, bool center, IntList axes) {
  Context *c = lc->c;
  if (scale) x = MUL(x, param(lc, 1, axes, x->dtype));
  return center ? ADD(x, param(lc, 2, axes, x->dtype)) : x;
}

/* (data - mean) / sqrt(var + epsilon) at lc->ax. */
static const Expr *normal(LowerCtx *lc, const Expr *mean, const Expr *var, double epsilon) {
  Context *c = lc->c;
  const Expr *x = te_widen(c, te_load(lc, te_arg(lc, 0), lc->ax));
  return MUL(SUB(x, mean), F1(rsqrt, ADD(var, K(epsilon))));
}

static bool over_axes(LowerCtx *lc, IntList axes, IntList params, double epsilon, bool scale,
                      bool center) {
  if (!params_fit(lc, 1, 2, params)) return false;
  TeAxes t;
  te_axes_init(lc, &t, te_arg(lc, 0), axes, false);
  Buffer *mean = te_axes_mean(lc, &t, "mean");
  Buffer *var = te_axes_variance(lc, &t, mean, "variance");
  te_result_begin(lc, 0, NULL);
  const Expr *m = te_axes_result(lc, &t, mean, lc->ax), *v = te_axes_result(lc, &t, var, lc->ax);
  te_out_value(lc, affine(lc, normal(lc, m, v, epsilon), scale, center, params));
  return true;
}

bool lower_layer_norm(LowerCtx *lc, Node *n) {
  const nn_layer_norm_attrs *a = n->attrs;
  return over_axes(lc, a->axes, a->axes, a->epsilon, a->scale, a->center);
}

bool lower_instance_norm(LowerCtx *lc, Node *n) {
  const nn_instance_norm_attrs *a = n->attrs;
  return over_axes(lc, a->axes, (IntList){1, &a->channel_axis}, a->epsilon, a->scale, a->center);
}

bool lower_rms_norm(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const nn_rms_norm_attrs *a = n->attrs;
  if (!params_fit(lc, 1, 1, a->axes)) return false;
  TeAxes t;
  te_axes_init(lc, &t, te_arg(lc, 0), a->axes, false);
  DType acc = te_acc_dtype(t.x->dtype);
  te_axes_begin(lc, &t, "square_red", acc);
  const Expr *x = te_axes_load(lc, &t, t.x);
  Buffer *sum = te_reduce_end(lc, TE_SUM, MUL(x, x));
  te_spatial_begin(lc, "rsqrt", t.out, t.nout, acc);
  x = DIV(te_load(lc, sum, lc->ax), te_axes_count(lc, &t, acc));
  Buffer *r = te_spatial_end(lc, F1(rsqrt, ADD(x, K(a->epsilon))));
  te_result_begin(lc, 0, NULL);
  x = te_widen(c, te_load(lc, t.x, lc->ax));
  const Expr *w = param(lc, 1, a->axes, acc);
  te_out_value(lc, MUL(MUL(x, te_axes_result(lc, &t, r, lc->ax)), w));
  return true;
}

/* Group g of channels [g * size, (g + 1) * size): statistics indexed by data's axes without `axes`,
 * the group standing for the channel. */
bool lower_group_norm(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const nn_group_norm_attrs *a = n->attrs;
  Buffer *b = te_arg(lc, 0);
  uint32_t channel = axis_of(b, a->channel_axis);
  IntList params = {1, &a->channel_axis};
  const Expr *groups = te_i64(lc, a->num_groups);
  const Expr *size = expr_simplify(c, expr_floordiv(c, b->shape[channel], groups));
  if (!params_fit(lc, 1, 2, params) ||
      !te_need_equal(lc, b->shape[channel], expr_simplify(c, MUL(size, groups)),
                     "channels and groups times their size"))
    return false;
  DType acc = te_acc_dtype(b->dtype);
  bool gone[TE_MAX_RANK] = {false};
  for (int32_t i = 0; i < a->axes.n; i++) gone[axis_of(b, a->axes.at[i])] = true;
  const Expr *out[TE_MAX_RANK], *red[TE_MAX_RANK];
  uint32_t nout = 0, nred = 0;
  for (uint32_t i = 0; i < b->ndim; i++) {
    if (gone[i])
      red[nred++] = b->shape[i];
    else
      out[nout++] = i == channel ? groups : b->shape[i];
  }
  red[nred++] = size;
  const Expr *count = te_cast(c, acc, expr_product(c, red, nred));
  Buffer *stat[2] = {NULL, NULL}; /* mean, variance */
  for (int pass = 0; pass < 2; pass++) {
    te_reduce_begin(lc, pass ? "variance_red" : "mean_red", out, nout, acc, red, nred);
    const Expr *idx[TE_MAX_RANK];
    for (uint32_t i = 0, o = 0, r = nout; i < b->ndim; i++) {
      idx[i] = gone[i] ? lc->ax[r++] : lc->ax[o++];
      if (i == channel) idx[i] = ADD(MUL(idx[i], size), lc->ax[nout + nred - 1]);
    }
    const Expr *x = te_widen(c, te_load(lc, b, idx));
    if (pass) {
      x = SUB(x, te_load(lc, stat[0], lc->ax));
      x = MUL(x, x);
    }
    Buffer *sum = te_reduce_end(lc, TE_SUM, x);
    te_spatial_begin(lc, pass ? "variance" : "mean", out, nout, acc);
    stat[pass] = te_spatial_end(lc, DIV(te_load(lc, sum, lc->ax), count));
  }
  te_result_begin(lc, 0, NULL);
  const Expr *at[TE_MAX_RANK];
  for (uint32_t i = 0, o = 0; i < b->ndim; i++)
    if (!gone[i])
      at[o++] = i == channel ? te_axis_div(c, EXPR_FLOORDIV, lc->ax[i], size) : lc->ax[i];
  const Expr *x = normal(lc, te_load(lc, stat[0], at), te_load(lc, stat[1], at), a->epsilon);
  te_out_value(lc, affine(lc, x, a->scale, a->center, params));
  return true;
}

/* A parameter per channel with axes of extent 1 for the `after` axes that follow the channel. */
static Node *per_channel(LowerCtx *lc, Node *p, uint32_t after) {
  if (!after || !p) return p;
  Node *r = te_make(lc, OP_expand_dims, &p, 1);
  int64_t *at = ARENA_ARRAY(lc->m->arena, int64_t, after);
  for (uint32_t i = 0; i < after; i++) at[i] = i + 1;
  node_attrs(r, expand_dims)->axis = (IntList){(int32_t)after, at};
  return te_bind(lc, r);
}

static Node *pair(LowerCtx *lc, OpId op, Node *x, Node *y) {
  Node *in[] = {x, y};
  return x && y ? te_bind(lc, te_make(lc, op, in, 2)) : NULL;
}

/* With given statistics: elementwise operators, which fuse with what computes the data, and whose
 * square root is known where the variance is. The same operations in the same order as `normal` and
 * `affine` do them. */
static bool batch_norm_inference(LowerCtx *lc, Node *n, uint32_t channel) {
  const nn_batch_norm_attrs *a = n->attrs;
  Node *x = node_in(n, 0), *mean = node_in(n, 3), *var = node_in(n, 4);
  uint32_t after = (uint32_t)x->sinfo->ndim - 1 - channel;
  DType d = x->sinfo->dtype;
  Node *r =
      pair(lc, OP_add, var, node_const(n->func, const_scalar(lc->m, d, a->epsilon, 0), n->span));
  r = r ? te_bind(lc, te_make(lc, OP_rsqrt, &r, 1)) : NULL;
  Node *y = pair(lc, OP_subtract, x, per_channel(lc, mean, after));
  y = pair(lc, OP_multiply, y, per_channel(lc, r, after));
  if (a->scale) y = pair(lc, OP_multiply, y, per_channel(lc, node_in(n, 1), after));
  if (a->center) y = pair(lc, OP_add, y, per_channel(lc, node_in(n, 2), after));
  if (!y) return false;
  Node *out[] = {y, mean, var};
  Node *t = node_tuple(n->func, out, 3, n->span);
  if (!node_infer(lc->m, NULL, t)) return false;
  te_composite(lc, t);
  return true;
}

bool lower_batch_norm(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const nn_batch_norm_attrs *a = n->attrs;
  Buffer *b = te_arg(lc, 0);
  uint32_t channel = axis_of(b, a->axis);
  IntList params = {1, &a->axis};
  if (!params_fit(lc, 1, 4, params)) return false;
  DType acc = te_acc_dtype(b->dtype);
  if (!a->training && dtype_eq(acc, b->dtype)) return batch_norm_inference(lc, n, channel);
  Buffer *stat[2] = {te_arg(lc, 3), te_arg(lc, 4)}; /* mean, variance */
  if (a->training) {
    int64_t others[TE_MAX_RANK];
    IntList axes = {0, others};
    for (uint32_t i = 0; i < b->ndim; i++)
      if (i != channel) others[axes.n++] = i;
    TeAxes t;
    te_axes_init(lc, &t, b, axes, false);
    stat[0] = te_axes_mean(lc, &t, "mean");
    stat[1] = te_axes_variance(lc, &t, stat[0], "variance");
  }
  te_result_begin(lc, 0, NULL);
  const Expr *m = te_widen(c, te_load(lc, stat[0], &lc->ax[channel]));
  const Expr *v = te_widen(c, te_load(lc, stat[1], &lc->ax[channel]));
  te_out_value(lc, affine(lc, normal(lc, m, v, a->epsilon), a->scale, a->center, params));
  for (uint32_t k = 0; k < 2; k++) {
    te_result_begin(lc, k + 1, k ? "moving_var_new" : "moving_mean_new");
    const Expr *x = te_widen(c, te_load(lc, te_arg(lc, 3 + k), lc->ax));
    if (a->training) {
      const Expr *now = te_load(lc, stat[k], lc->ax);
      x = ADD(MUL(expr_float(c, acc, 1 - a->momentum), x),
              MUL(expr_float(c, acc, a->momentum), now));
    }
    te_out_value(lc, x);
  }
  return true;
}
