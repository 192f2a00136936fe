/* Convolutions of one to three axes, any order of axes, groups.
 *
 * A convolution is a padding stage, where needed, and one block out = out + data * weight whose sum
 * runs over input channel and window; from its index maps the scheduler recognises the contraction.
 * The transposed one is an ordinary one for each residue of the position by the stride; with groups
 * or dilation it first spreads the data (zeros between the elements), and then is an ordinary
 * convolution with the kernel reversed. float16 and bfloat16 sum in float32. */
#include "ir/ops/window.h"

/* All ranks have the same attributes in the same order. */
_Static_assert(sizeof(nn_conv1d_attrs) == sizeof(nn_conv3d_attrs), "read through nn_conv2d_attrs");
_Static_assert(sizeof(nn_conv1d_transpose_attrs) == sizeof(nn_conv3d_transpose_attrs),
               "read through nn_conv2d_transpose_attrs");

static uint32_t spatial_axes(OpId op) {
  return op == OP_nn_conv1d || op == OP_nn_conv1d_transpose   ? 1
         : op == OP_nn_conv2d || op == OP_nn_conv2d_transpose ? 2
                                                              : 3;
}

typedef struct {
  uint32_t nd;
  Layout data, kernel, out;
  Window w;
  int64_t groups;
  int64_t extra[WINDOW_MAX]; /* output_padding */
} Conv;

static bool read_layouts(InferCtx *ic, const Node *n, Conv *v, const char *data, const char *kernel,
                         const char *out) {
  return layout_read(ic, n, "data_layout", data, v->nd, false, &v->data) &&
         layout_read(ic, n, "kernel_layout", kernel, v->nd, true, &v->kernel) &&
         layout_read(ic, n, "out_layout", out ? out : data, v->nd, false, &v->out);
}

static bool read_conv(InferCtx *ic, const Node *n, Conv *v) {
  *v = (Conv){.nd = spatial_axes(n->op)};
  if (n->op == OP_nn_conv1d || n->op == OP_nn_conv2d || n->op == OP_nn_conv3d) {
    const nn_conv2d_attrs *a = n->attrs;
    v->groups = a->groups;
    return read_layouts(ic, n, v, a->data_layout, a->kernel_layout, a->out_layout) &&
           window_read(ic, n, v->nd, a->strides, a->padding, a->dilation, &v->w);
  }
  const nn_conv2d_transpose_attrs *a = n->attrs;
  Window extra;
  IntList one = {1, (const int64_t[]){1}};
  v->groups = a->groups;
  if (!read_layouts(ic, n, v, a->data_layout, a->kernel_layout, a->out_layout) ||
      !window_read(ic, n, v->nd, a->strides, a->padding, a->dilation, &v->w) ||
      !window_read(ic, n, v->nd, one, a->output_padding, one, &extra))
    return false;
  for (uint32_t i = 0; i < v->nd; i++) {
    v->extra[i] = extra.before[i];
    if (v->extra[i] >= v->w.stride[i]) {
      infer_error(ic, n, C_least, -1, "output_padding %lld must be less than the stride %lld",
                  (long long)v->extra[i], (long long)v->w.stride[i]);
      return false;
    }
  }
  return true;
}

/* Operands, ranks, dtype; false after an error. */
static bool check_operands(InferCtx *ic, const Node *n, const Conv *v, DType out_dtype,
                           const SInfo **x, const SInfo **w, DType *d) {
  *x = infer_tensor_arg(ic, n, 0);
  *w = *x ? infer_tensor_arg(ic, n, 1) : NULL;
  *d = out_dtype;
  if (!*w || (!dtype_known(*d) && !infer_binary_dtype(ic, n, *x, *w, d))) return false;
  for (uint32_t i = 0; i < 2; i++) {
    const SInfo *s = i ? *w : *x;
    uint32_t rank = i ? v->kernel.rank : v->data.rank;
    if (s->ndim >= 0 && s->ndim != (int32_t)rank) {
      infer_error(ic, n, C_rank, (int)i, "expected rank %u for '%s' but got %s", rank,
                  infer_arg_name(ic, n, i), infer_shape_text(ic, s));
      return false;
    }
  }
  if (v->groups <= 0) {
    infer_error(ic, n, C_least, -1, "groups must be positive but is %lld", (long long)v->groups);
    return false;
  }
  return true;
}

static bool divisible(InferCtx *ic, const Node *n, const Expr *channels, int64_t groups,
                      const char *what) {
  int64_t v;
  if (!expr_const_int(ic->c, channels, &v) || v % groups == 0) return true;
  infer_error(ic, n, C_divisible, -1, "the %lld %s channels can't be divided into %lld groups",
              (long long)v, what, (long long)groups);
  return false;
}

static bool same_channels(InferCtx *ic, const Node *n, const SInfo *x, const SInfo *w,
                          const Expr *have, const Expr *want) {
  if (!infer_ne(ic, have, want)) return true;
  infer_error(ic, n, C_channels, 1, "data %s and weight %s don't fit", infer_shape_text(ic, x),
              infer_shape_text(ic, w));
  infer_note(ic, n, 0, "the data has %s channels but the weight takes %s",
             infer_expr_text(ic, have), infer_expr_text(ic, want));
  return false;
}

static bool not_negative(InferCtx *ic, const Node *n, const Expr *extent, const SInfo *x,
                         const SInfo *w) {
  int64_t v;
  if (!expr_const_int(ic->c, extent, &v) || v >= 0) return true;
  infer_error(ic, n, C_window, 1, "the window of %s doesn't fit into %s", infer_shape_text(ic, w),
              infer_shape_text(ic, x));
  return false;
}

/* Dims of the result from those of data and kernel, all in the plain layouts. */
static void result_dims(InferCtx *ic, const Conv *v, const Expr *const *xd, const Expr *const *kd,
                        const Expr **dims) {
  dims[v->out.n] = xd[v->data.n];
  dims[v->out.c] = kd[v->kernel.n];
  for (uint32_t i = 0; i < v->nd; i++)
    dims[v->out.at[i]] = window_extent(ic, &v->w, i, xd[v->data.at[i]], kd[v->kernel.at[i]]);
}

const SInfo *infer_conv(InferCtx *ic, Node *n) {
  Context *c = ic->c;
  Conv v;
  const SInfo *x, *w;
  DType d;
  if (!read_conv(ic, n, &v) ||
      !check_operands(ic, n, &v, ((nn_conv2d_attrs *)n->attrs)->out_dtype, &x, &w, &d))
    return NULL;
  const Expr *groups = expr_i64(c, v.groups);
  const Expr *const *kd = w->dims ? layout_plain_dims(ic, &v.kernel, w->dims) : NULL;
  if (kd && !divisible(ic, n, kd[v.kernel.n], v.groups, "output")) return NULL;
  if (!x->dims || !kd) return sinfo_tensor_ndim(c, (int32_t)v.out.rank, d);
  const Expr *const *xd = layout_plain_dims(ic, &v.data, x->dims);
  const Expr *want = expr_simplify(c, MUL(kd[v.kernel.c], groups));
  if (!same_channels(ic, n, x, w, xd[v.data.c], want)) return NULL;
  const Expr *dims[LAYOUT_AXES];
  result_dims(ic, &v, xd, kd, dims);
  for (uint32_t i = 0; i < v.nd; i++)
    if (!not_negative(ic, n, dims[v.out.at[i]], x, w)) return NULL;
  return layout_tensor(ic, n, &v.out, dims, d);
}

/* Data, weight and result as the loops have them. */
typedef struct {
  Buffer *x, *w;
  LayoutResult result;
} Operands;

static Operands take_operands(LowerCtx *lc, Conv *v, bool all) {
  Operands o;
  o.x = layout_operand(lc, te_arg(lc, 0), &v->data, all);
  o.w = layout_operand(lc, te_arg(lc, 1), &v->kernel, all);
  o.result = layout_result_begin(lc, &v->out, all);
  return o;
}

/* ---- channels ---- */
/* Output channel o belongs to group o // size, whose input channels begin at that times `each`; k
 * counts within the group. */
static const Expr *in_group(Context *c, const Expr *o, const Expr *size, const Expr *each,
                            int64_t groups, const Expr *k) {
  if (groups == 1) return k;
  return expr_simplify(c, ADD(MUL(expr_floordiv(c, o, size), each), k));
}

/* Input channel k of o's group. Where groups are whole blocks, or of one channel each way, its
 * parts follow from o's and k's: no index is divided then. */
static LayoutPos input_channel(Context *c, const LayoutPos *o, const Expr *size, const Expr *each,
                               int64_t groups, const LayoutPos *k) {
  int64_t s, e;
  if (groups == 1) return *k;
  if (expr_is_int(size, 1) && expr_is_int(each, 1)) return *o;
  if (k->size && o->size && expr_const_int(c, size, &s) && expr_const_int(c, each, &e) &&
      s % o->size == 0 && e % k->size == 0)
    return (LayoutPos){
        NULL,
        in_group(c, o->outer, expr_i64(c, s / o->size), expr_i64(c, e / k->size), groups, k->outer),
        k->inner, k->size};
  return (LayoutPos){.whole =
                         in_group(c, layout_whole(c, o), size, each, groups, layout_whole(c, k))};
}

bool lower_conv(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Conv v;
  if (!read_conv(&ic, n, &v)) return false;
  Operands op = take_operands(lc, &v, false);
  Buffer *x = op.x, *w = op.w;
  const Expr *const *xd = layout_plain_dims(&ic, &v.data, x->shape);
  const Expr *const *wd = layout_plain_dims(&ic, &v.kernel, w->shape);
  const Expr *each = wd[v.kernel.c], *groups = te_i64(lc, v.groups);
  const Expr *size = expr_simplify(c, expr_floordiv(c, wd[v.kernel.n], groups));
  if (!te_need_equal(lc, xd[v.data.c], expr_simplify(c, MUL(each, groups)),
                     "the channels of data and weight") ||
      !te_need_equal(lc, wd[v.kernel.n], expr_simplify(c, MUL(size, groups)),
                     "output channels and groups"))
    return false;
  const Expr *dims[LAYOUT_AXES];
  result_dims(&ic, &v, xd, wd, dims);
  if (!layout_need_blocks(lc, &op.result, dims)) return false;
  x = window_pad(lc, x, &v.data, &v.w, NULL, expr_lit(c, x->dtype, 0));
  /* in blocks when both operands are, of one size: block, window, channel in the block */
  int64_t block = layout_block_size(&v.data, v.data.c);
  if (layout_block_size(&v.kernel, v.kernel.c) != block) block = 0;
  const Expr *red[WINDOW_MAX + 2] = {block ? w->shape[v.kernel.major[v.kernel.c]] : each};
  for (uint32_t i = 0; i < v.nd; i++) red[i + 1] = wd[v.kernel.at[i]];
  red[v.nd + 1] = te_i64(lc, block);
  DType acc = te_acc_dtype(te_result_dtype(lc, 0));
  te_reduce_begin(lc, arena_printf(lc->arena, "%s_%s", lc->name, v.data.c == 1 ? "nchw" : "nhwc"),
                  op.result.shape, v.out.rank, acc, red, v.nd + (block ? 2 : 1));
  const Expr *const *k = lc->ax + v.out.rank;
  LayoutPos at[LAYOUT_AXES], in[LAYOUT_AXES], kernel[LAYOUT_AXES];
  layout_positions(c, &v.out, lc->ax, at);
  const LayoutPos *o = &at[v.out.c];
  LayoutPos channel =
      block ? (LayoutPos){NULL, k[0], k[v.nd + 1], block} : (LayoutPos){.whole = k[0]};
  in[v.data.n] = at[v.out.n];
  in[v.data.c] = input_channel(c, o, size, each, v.groups, &channel);
  kernel[v.kernel.n] = *o;
  kernel[v.kernel.c] = channel;
  for (uint32_t i = 0; i < v.nd; i++) {
    const Expr *to = MUL(layout_whole(c, &at[v.out.at[i]]), te_i64(lc, v.w.stride[i]));
    to = ADD(to, MUL(k[i + 1], te_i64(lc, v.w.dilation[i])));
    in[v.data.at[i]] = (LayoutPos){.whole = to};
    kernel[v.kernel.at[i]] = (LayoutPos){.whole = k[i + 1]};
  }
  const Expr *ix[LAYOUT_RANK], *iw[LAYOUT_RANK];
  layout_index(c, &v.data, in, ix);
  layout_index(c, &v.kernel, kernel, iw);
  const Expr *a = te_cast(c, acc, te_load(lc, x, ix)), *b = te_cast(c, acc, te_load(lc, w, iw));
  return layout_result_end(lc, te_reduce_end(lc, TE_SUM, MUL(a, b)), &op.result);
}

/* ---- transposed ---- */
static const Expr *transposed_extent(Context *c, const Conv *v, uint32_t i, const Expr *dim,
                                     const Expr *k) {
  const Expr *one = expr_i64(c, 1);
  const Expr *e = MUL(SUB(dim, one), expr_i64(c, v->w.stride[i]));
  e = ADD(e, MUL(SUB(k, one), expr_i64(c, v->w.dilation[i])));
  return expr_simplify(c, ADD(e, expr_i64(c, v->extra[i] + 1 - v->w.before[i] - v->w.after[i])));
}

static void transposed_dims(Context *c, const Conv *v, const Expr *const *xd, const Expr *const *kd,
                            const Expr **dims) {
  dims[v->out.n] = xd[v->data.n];
  dims[v->out.c] = expr_simplify(c, MUL(kd[v->kernel.n], expr_i64(c, v->groups)));
  for (uint32_t i = 0; i < v->nd; i++)
    dims[v->out.at[i]] = transposed_extent(c, v, i, xd[v->data.at[i]], kd[v->kernel.at[i]]);
}

const SInfo *infer_conv_transpose(InferCtx *ic, Node *n) {
  Context *c = ic->c;
  Conv v;
  const SInfo *x, *w;
  DType d;
  if (!read_conv(ic, n, &v) ||
      !check_operands(ic, n, &v, ((nn_conv2d_transpose_attrs *)n->attrs)->out_dtype, &x, &w, &d))
    return NULL;
  const Expr *const *kd = w->dims ? layout_plain_dims(ic, &v.kernel, w->dims) : NULL;
  if (kd && !divisible(ic, n, kd[v.kernel.c], v.groups, "input")) return NULL;
  if (!x->dims || !kd) return sinfo_tensor_ndim(c, (int32_t)v.out.rank, d);
  const Expr *const *xd = layout_plain_dims(ic, &v.data, x->dims);
  if (!same_channels(ic, n, x, w, xd[v.data.c], kd[v.kernel.c])) return NULL;
  const Expr *dims[LAYOUT_AXES];
  transposed_dims(c, &v, xd, kd, dims);
  for (uint32_t i = 0; i < v.nd; i++)
    if (!not_negative(ic, n, dims[v.out.at[i]], x, w)) return NULL;
  return layout_tensor(ic, n, &v.out, dims, d);
}

/* Data with stride - 1 zeros between its elements and a border of dilation * (kernel - 1) -
 * padding. */
static Buffer *spread(LowerCtx *lc, Buffer *x, Buffer *w, const Conv *v, const Expr *const *out) {
  Context *c = lc->c;
  const Expr *shape[WINDOW_MAX + 2], *reach[WINDOW_MAX];
  for (uint32_t i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
  for (uint32_t i = 0; i < v->nd; i++) {
    const Expr *k = SUB(w->shape[v->kernel.at[i]], te_i64(lc, 1));
    reach[i] = expr_simplify(c, MUL(k, te_i64(lc, v->w.dilation[i])));
    shape[v->data.at[i]] = expr_simplify(c, ADD(out[v->out.at[i]], reach[i]));
  }
  te_spatial_begin(lc, "data_spread", shape, x->ndim, x->dtype);
  const Expr *idx[WINDOW_MAX + 2], *inside = NULL;
  for (uint32_t i = 0; i < x->ndim; i++) idx[i] = lc->ax[i];
  for (uint32_t i = 0; i < v->nd; i++) {
    uint32_t at = v->data.at[i];
    const Expr *stride = te_i64(lc, v->w.stride[i]), *zero = te_i64(lc, 0);
    const Expr *p = SUB(reach[i], te_i64(lc, v->w.before[i]));
    const Expr *q = expr_simplify(c, SUB(lc->ax[at], p));
    idx[at] = expr_simplify(c, expr_floordiv(c, q, stride));
    const Expr *in = AND(GE(q, zero), LT(idx[at], x->shape[at]));
    if (v->w.stride[i] > 1) in = AND(in, EQ(expr_floormod(c, q, stride), zero));
    inside = inside ? AND(inside, in) : in;
  }
  const Expr *value = te_load(lc, x, idx);
  return te_spatial_end(lc, expr_if_then_else(c, inside, value, expr_lit(c, x->dtype, 0)));
}

/* A stride without dilation: results o with one residue r of o + before are an ordinary convolution
 * of the data, by every stride-th element of the kernel, k = r + stride * j. */
typedef struct {
  int64_t taps[WINDOW_MAX];      /* j runs up to this */
  const Expr *first[WINDOW_MAX]; /* of the quotients (o + before) / stride */
  const Expr *count[WINDOW_MAX];
} Residues;

static bool find_residues(LowerCtx *lc, const Conv *v, const Operands *op, Residues *r) {
  Context *c = lc->c;
  const Buffer *w = op->w;
  const Expr *const *out = op->result.shape;
  bool strided = false;
  for (uint32_t i = 0; i < v->nd; i++) {
    int64_t k, s = v->w.stride[i];
    if (v->groups != 1 || v->w.dilation[i] != 1 || v->w.before[i] < 0 ||
        !expr_const_int(c, w->shape[v->kernel.at[i]], &k) || k <= 0)
      return false;
    strided |= s > 1;
    r->taps[i] = (k + s - 1) / s;
    r->first[i] = te_i64(lc, v->w.before[i] / s);
    const Expr *last = SUB(ADD(out[v->out.at[i]], te_i64(lc, v->w.before[i])), te_i64(lc, 1));
    last = expr_floordiv(c, last, te_i64(lc, s));
    r->count[i] = expr_simplify(c, ADD(SUB(last, r->first[i]), te_i64(lc, 1)));
  }
  return strided;
}

/* The data from element first - (taps - 1) on, and the kernel so that stride divides its size;
 * zeros where there is nothing. */
static void pad_for_residues(LowerCtx *lc, const Conv *v, const Residues *r, Buffer **x,
                             Buffer **w) {
  Context *c = lc->c;
  Window front = {.nd = v->nd}, none = {.nd = v->nd};
  const Expr *data[WINDOW_MAX], *kernel[WINDOW_MAX];
  for (uint32_t i = 0; i < v->nd; i++) {
    front.before[i] = r->taps[i] - 1 - v->w.before[i] / v->w.stride[i];
    data[i] = ADD(r->count[i], te_i64(lc, r->taps[i] - 1));
    kernel[i] = te_i64(lc, r->taps[i] * v->w.stride[i]);
  }
  *x = window_pad(lc, *x, &v->data, &front, data, expr_lit(c, (*x)->dtype, 0));
  *w = window_pad(lc, *w, &v->kernel, &none, kernel, expr_lit(c, (*w)->dtype, 0));
}

static bool lower_by_residues(LowerCtx *lc, const Conv *v, const Operands *op, const Residues *r) {
  Context *c = lc->c;
  Buffer *x = op->x, *w = op->w;
  pad_for_residues(lc, v, r, &x, &w);
  uint32_t nd = v->nd, ndim = v->out.rank;
  const Expr *const *out = op->result.shape;
  DType acc = te_acc_dtype(te_result_dtype(lc, 0));
  const Expr *shape[2 * WINDOW_MAX + 2], *red[WINDOW_MAX + 1] = {w->shape[v->kernel.c]};
  for (uint32_t i = 0; i < ndim; i++) shape[nd + i] = out[i];
  for (uint32_t i = 0; i < nd; i++) {
    shape[i] = te_i64(lc, v->w.stride[i]);
    shape[nd + v->out.at[i]] = r->count[i];
    red[i + 1] = te_i64(lc, r->taps[i]);
  }
  te_reduce_begin(lc, lc->name, shape, nd + ndim, acc, red, nd + 1);
  const Expr *ix[WINDOW_MAX + 2], *iw[WINDOW_MAX + 2];
  const Expr *const *residue = lc->ax, *const *q = lc->ax + nd, *const *k = q + ndim;
  ix[v->data.n] = q[v->out.n];
  ix[v->data.c] = iw[v->kernel.c] = k[0];
  iw[v->kernel.n] = q[v->out.c];
  for (uint32_t i = 0; i < nd; i++) {
    const Expr *last = te_i64(lc, r->taps[i] - 1);
    ix[v->data.at[i]] = SUB(ADD(q[v->out.at[i]], last), k[i + 1]);
    iw[v->kernel.at[i]] = ADD(residue[i], MUL(k[i + 1], te_i64(lc, v->w.stride[i])));
  }
  const Expr *a = te_cast(c, acc, te_load(lc, x, ix)), *b = te_cast(c, acc, te_load(lc, w, iw));
  Buffer *parts = te_reduce_end(lc, TE_SUM, MUL(a, b));
  te_spatial_begin(lc, "interleave", out, ndim, te_result_dtype(lc, 0));
  const Expr *at[2 * WINDOW_MAX + 2];
  for (uint32_t i = 0; i < ndim; i++) at[nd + i] = lc->ax[i];
  for (uint32_t i = 0; i < nd; i++) {
    const Expr *s = te_i64(lc, v->w.stride[i]);
    const Expr *o = ADD(lc->ax[v->out.at[i]], te_i64(lc, v->w.before[i]));
    at[i] = expr_simplify(c, expr_floormod(c, o, s));
    at[nd + v->out.at[i]] = expr_simplify(c, SUB(expr_floordiv(c, o, s), r->first[i]));
  }
  const Expr *value = te_cast(c, lc->stage_dtype, te_load(lc, parts, at));
  return layout_result_end(lc, te_spatial_end(lc, value), &op->result);
}

bool lower_conv_transpose(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Conv v;
  if (!read_conv(&ic, n, &v)) return false;
  Operands op = take_operands(lc, &v, true);
  Buffer *x = op.x, *w = op.w;
  const Expr *size = w->shape[v.kernel.n], *groups = te_i64(lc, v.groups);
  const Expr *each = expr_simplify(c, expr_floordiv(c, w->shape[v.kernel.c], groups));
  if (!te_need_equal(lc, x->shape[v.data.c], w->shape[v.kernel.c],
                     "the channels of data and weight") ||
      !te_need_equal(lc, x->shape[v.data.c], expr_simplify(c, MUL(each, groups)),
                     "input channels and groups"))
    return false;
  const Expr *dims[LAYOUT_AXES];
  transposed_dims(c, &v, x->shape, w->shape, dims);
  if (!layout_need_blocks(lc, &op.result, dims)) return false;
  Residues residues;
  if (find_residues(lc, &v, &op, &residues)) return lower_by_residues(lc, &v, &op, &residues);
  x = spread(lc, x, w, &v, op.result.shape);
  const Expr *red[WINDOW_MAX + 1] = {each};
  for (uint32_t i = 0; i < v.nd; i++) red[i + 1] = w->shape[v.kernel.at[i]];
  uint32_t ndim = v.out.rank;
  DType acc = te_acc_dtype(te_result_dtype(lc, 0));
  te_reduce_begin(lc, lc->name, op.result.shape, ndim, acc, red, v.nd + 1);
  const Expr *ix[WINDOW_MAX + 2], *iw[WINDOW_MAX + 2], *const *k = lc->ax + ndim;
  const Expr *o = lc->ax[v.out.c], *ch = in_group(c, o, size, each, v.groups, k[0]);
  ix[v.data.n] = lc->ax[v.out.n];
  ix[v.data.c] = iw[v.kernel.c] = ch;
  iw[v.kernel.n] = v.groups == 1 ? o : expr_floormod(c, o, size);
  for (uint32_t i = 0; i < v.nd; i++) {
    const Expr *last = SUB(w->shape[v.kernel.at[i]], te_i64(lc, 1));
    ix[v.data.at[i]] = ADD(lc->ax[v.out.at[i]], MUL(k[i + 1], te_i64(lc, v.w.dilation[i])));
    iw[v.kernel.at[i]] = SUB(last, k[i + 1]);
  }
  const Expr *a = te_cast(c, acc, te_load(lc, x, ix)), *b = te_cast(c, acc, te_load(lc, w, iw));
  return layout_result_end(lc, te_reduce_end(lc, TE_SUM, MUL(a, b)), &op.result);
}
