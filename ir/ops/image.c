/* Resizing of images: each axis has taps (positions and weights), the value is the sum over their
 * products. Positions are computed in float32 as in TVM and cut to the data.
 *
 * What depends on one axis alone is tabulated: a row of positions and one of weights for each tap.
 * The axes are resized one after the other, the last one first, as long as that isn't more work
 * than all taps of each result. */
#include "ir/ops/window.h"

#include <string.h>

_Static_assert(sizeof(image_resize2d_attrs) == sizeof(image_resize3d_attrs),
               "read through image_resize2d_attrs");

static uint32_t axes_of(OpId op) {
  return op == OP_image_resize2d ? 2 : 3;
}

static bool one_of(InferCtx *ic, const Node *n, const char *attr, const char *s,
                   const char *const *names) {
  for (uint32_t i = 0; s && names[i]; i++)
    if (!strcmp(s, names[i])) return true;
  infer_error(ic, n, C_choice, -1, "%s '%s' is not known; see --help-op=%s", attr, s ? s : "None",
              node_op(n)->name);
  return false;
}

/* One extent given for all axes of a size becomes the shape of them. */
static const SInfo *square(InferCtx *ic, Node *n, uint32_t nd) {
  const Expr *dims[WINDOW_MAX];
  for (uint32_t i = 0; i < nd; i++) dims[i] = te_cast(ic->c, DT_I64, node_in(n, 1)->sinfo->value);
  Node *shape = node_shape(n->func, dims, nd, n->in[1].span);
  node_infer(ic->m, ic->facts, shape);
  node_set_in(n, 1, shape);
  return shape->sinfo;
}

const SInfo *infer_resize(InferCtx *ic, Node *n) {
  static const char *const methods[] = {"nearest_neighbor", "linear", "cubic", NULL};
  static const char *const modes[] = {
      "half_pixel",           "align_corners",      "asymmetric", "pytorch_half_pixel",
      "tf_half_pixel_for_nn", "tf_crop_and_resize", NULL};
  static const char *const roundings[] = {
      "", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil", NULL};
  const image_resize2d_attrs *a = n->attrs;
  uint32_t nd = axes_of(n->op);
  Layout l;
  if (!layout_read(ic, n, "layout", a->layout, nd, false, &l) ||
      !one_of(ic, n, "method", a->method, methods) ||
      !one_of(ic, n, "coordinate_transformation_mode", a->coordinate_transformation_mode, modes) ||
      !one_of(ic, n, "rounding_method", a->rounding_method, roundings))
    return NULL;
  const SInfo *x = infer_tensor_arg(ic, n, 0), *s = node_in(n, 1)->sinfo;
  if (!x) return NULL;
  if (x->ndim >= 0 && x->ndim != (int32_t)l.rank)
    return infer_error(ic, n, C_rank, 0, "expected rank %u but got %s", l.rank,
                       infer_shape_text(ic, x));
  if (s->kind == SINFO_PRIM && s->value) s = square(ic, n, nd);
  if (s->kind != SINFO_SHAPE || s->ndim != (int32_t)nd)
    return infer_error(ic, n, C_shape, 1, "expected a shape of %u values but got %s", nd,
                       infer_type_text(ic, s));
  DType d = dtype_known(a->out_dtype) ? a->out_dtype : x->dtype;
  if (!x->dims || !s->dims) return sinfo_tensor_ndim(ic->c, (int32_t)l.rank, d);
  const Expr **dims = infer_dims_copy(ic, layout_plain_dims(ic, &l, x->dims), l.ndim, 0);
  for (uint32_t i = 0; i < nd; i++) dims[l.at[i]] = s->dims[i];
  return layout_tensor(ic, n, &l, dims, d);
}

/* ---- lowering ---- */
#define MAX_TAPS 4

typedef struct {
  LowerCtx *lc;
  const image_resize2d_attrs *a;
  Buffer *x;
  Layout l;
  uint32_t nd;
  const Expr *in[WINDOW_MAX], *out[WINDOW_MAX];
  uint32_t ntaps;
  bool weighs; /* else the one tap is the value */
  Buffer *taps[WINDOW_MAX][MAX_TAPS], *weights[WINDOW_MAX][MAX_TAPS]; /* int64, float32 */
} Resize;

/* The taps of one position of the result. */
typedef struct {
  const Expr *tap[MAX_TAPS];    /* int64, cut to the data */
  const Expr *weight[MAX_TAPS]; /* float32 */
} Taps;

static const Expr *flt(Context *c, double v) {
  return expr_float(c, DT_F32, v);
}

/* roi: [begin of each axis, end of each axis]. */
static double roi_value(const Resize *r, uint32_t i) {
  const Attr *a = r->a->roi;
  if (!a || a->kind != ATTR_LIST || i >= a->n) return i < r->nd ? 0 : 1;
  const Attr *v = a->items[i];
  return v->kind == ATTR_FLOAT                                 ? v->f
         : v->kind == ATTR_INT                                 ? (double)v->i
         : v->kind == ATTR_EXPR && v->expr->kind == EXPR_FLOAT ? v->expr->f
                                                               : 0;
}

/* Position in the data of position o of the result, float32. */
static const Expr *position(const Resize *r, uint32_t i, const Expr *o) {
  Context *c = r->lc->c;
  const char *mode = r->a->coordinate_transformation_mode;
  const Expr *in = r->in[i], *out = r->out[i];
  const Expr *x = te_cast(c, DT_F32, o), *fin = te_cast(c, DT_F32, in);
  const Expr *fout = te_cast(c, DT_F32, out), *one = flt(c, 1), *half = flt(c, 0.5);
  const Expr *scale = DIV(fin, fout), *last = SUB(fin, one);
  const Expr *many = GT(out, expr_i64(c, 1));
  if (!strcmp(mode, "half_pixel")) return SUB(MUL(ADD(x, half), scale), half);
  if (!strcmp(mode, "align_corners")) /* one pixel: the first */
    return SEL(many, MUL(DIV(last, expr_max(c, SUB(fout, one), one)), x), flt(c, 0));
  if (!strcmp(mode, "asymmetric")) return MUL(scale, x);
  if (!strcmp(mode, "pytorch_half_pixel"))
    return SEL(many, SUB(MUL(ADD(x, half), scale), half), flt(c, 0));
  if (!strcmp(mode, "tf_half_pixel_for_nn")) return MUL(ADD(x, half), scale);
  double b = roi_value(r, i), e = roi_value(r, r->nd + i);
  const Expr *wide = DIV(MUL(MUL(x, flt(c, e - b)), last), expr_max(c, SUB(fout, one), one));
  return SEL(many, ADD(MUL(flt(c, b), last), wide), MUL(flt(c, 0.5 * (b + e)), last));
}

static const Expr *nearest(const Resize *r, const Expr *x) {
  Context *c = r->lc->c;
  const char *m = r->a->rounding_method;
  if (!*m) m = strcmp(r->a->coordinate_transformation_mode, "align_corners") ? "floor" : "round";
  const Expr *half = flt(c, 0.5), *eps = flt(c, 1e-5);
  if (!strcmp(m, "round")) return F1(round, x);
  if (!strcmp(m, "round_prefer_floor")) return F1(ceil, SUB(x, half));
  if (!strcmp(m, "round_prefer_ceil")) return F1(floor, ADD(x, half));
  return strcmp(m, "floor") ? F1(ceil, SUB(x, eps)) : F1(floor, ADD(x, eps));
}

static const Expr *cut(Context *c, const Expr *i, const Expr *dim) {
  return expr_max(c, expr_min(c, i, SUB(dim, expr_i64(c, 1))), expr_i64(c, 0));
}

static void cubic_weights(Context *c, double alpha, const Expr *t, const Expr **w) {
  const Expr *t2 = MUL(t, t), *t3 = MUL(t2, t), *a = flt(c, alpha);
  w[0] = MUL(a, ADD(SUB(t3, MUL(flt(c, 2), t2)), t));
  w[1] = ADD(SUB(MUL(flt(c, alpha + 2), t3), MUL(flt(c, alpha + 3), t2)), flt(c, 1));
  w[2] = SUB(ADD(MUL(flt(c, -alpha - 2), t3), MUL(flt(c, 3 + 2 * alpha), t2)), MUL(a, t));
  w[3] = ADD(MUL(flt(c, -alpha), t3), MUL(a, t2));
}

/* Whether positions are exact: o * in // out lies below `in` by itself. */
static bool is_exact(const Resize *r) {
  const char *rounding = r->a->rounding_method;
  return !r->weighs && !strcmp(r->a->coordinate_transformation_mode, "asymmetric") &&
         (!*rounding || !strcmp(rounding, "floor"));
}

static void taps_at(const Resize *r, uint32_t i, const Expr *o, Taps *t) {
  Context *c = r->lc->c;
  const Expr *at = position(r, i, o), *in = r->in[i];
  if (!r->weighs) {
    t->tap[0] = is_exact(r) ? expr_floordiv(c, MUL(o, in), r->out[i])
                            : cut(c, te_cast(c, DT_I64, nearest(r, at)), in);
    return;
  }
  const Expr *whole = F1(floor, at), *part = SUB(at, whole), *k = te_cast(c, DT_I64, whole);
  bool cubic = r->ntaps == 4;
  if (cubic)
    cubic_weights(c, r->a->cubic_alpha, part, t->weight);
  else {
    t->weight[0] = SUB(flt(c, 1), part);
    t->weight[1] = part;
  }
  const Expr *sum = NULL;
  for (uint32_t j = 0; j < r->ntaps; j++) {
    const Expr *p = ADD(k, expr_i64(c, (int64_t)j - cubic));
    t->tap[j] = cut(c, p, in);
    if (!cubic || !r->a->cubic_exclude) continue;
    const Expr *outside = OR(LT(p, expr_i64(c, 0)), GE(p, in));
    t->weight[j] = SEL(outside, flt(c, 0), t->weight[j]);
    sum = sum ? ADD(sum, t->weight[j]) : t->weight[j];
  }
  for (uint32_t j = 0; sum && j < r->ntaps; j++) t->weight[j] = DIV(t->weight[j], sum);
}

static void tabulate(Resize *r, uint32_t i) {
  LowerCtx *lc = r->lc;
  for (uint32_t j = 0; j < r->ntaps; j++) {
    Taps t;
    te_spatial_begin(lc, "position", &r->out[i], 1, DT_I64);
    taps_at(r, i, lc->ax[0], &t);
    r->taps[i][j] = te_spatial_end(lc, t.tap[j]);
    if (!r->weighs) continue;
    te_spatial_begin(lc, "weight", &r->out[i], 1, DT_F32);
    taps_at(r, i, lc->ax[0], &t);
    r->weights[i][j] = te_spatial_end(lc, t.weight[j]);
  }
}

/* Interpolated over axes i up to `end`; idx holds positions in x, for those axes in the result. */
static const Expr *interpolate(const Resize *r, Buffer *x, uint32_t i, uint32_t end,
                               const Expr *const *idx) {
  Context *c = r->lc->c;
  if (i == end) return te_cast(c, DT_F32, te_load(r->lc, x, idx));
  const Expr *sum = NULL, *at[WINDOW_MAX + 2], *o = idx[r->l.at[i]];
  memcpy(at, idx, x->ndim * sizeof *at);
  for (uint32_t j = 0; j < r->ntaps; j++) {
    at[r->l.at[i]] = expr_load(c, r->taps[i][j], &o, 1);
    const Expr *v = MUL(interpolate(r, x, i + 1, end, at), expr_load(c, r->weights[i][j], &o, 1));
    sum = sum ? ADD(sum, v) : v;
  }
  return sum;
}

/* Whether to resize axis i of all the data before the axes in front of it. */
static bool goes_first(const Resize *r, uint32_t i) {
  for (uint32_t k = 0; k < i; k++) {
    int64_t in, out;
    if (expr_const_int(r->lc->c, r->in[k], &in) && expr_const_int(r->lc->c, r->out[k], &out) &&
        in > out * r->ntaps)
      return false;
  }
  return true;
}

static const Expr *nearest_value(const Resize *r) {
  LowerCtx *lc = r->lc;
  const Expr *at[WINDOW_MAX + 2];
  memcpy(at, lc->ax, r->x->ndim * sizeof *at);
  for (uint32_t i = 0; i < r->nd; i++) {
    const Expr *o = lc->ax[r->l.at[i]];
    Taps t;
    if (is_exact(r)) taps_at(r, i, o, &t);
    at[r->l.at[i]] = is_exact(r) ? t.tap[0] : expr_load(lc->c, r->taps[i][0], &o, 1);
  }
  return te_load(lc, r->x, at);
}

bool lower_resize(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Resize r = {.lc = lc, .a = n->attrs, .x = te_arg(lc, 0), .nd = axes_of(n->op)};
  if (!layout_read(&ic, n, "layout", r.a->layout, r.nd, false, &r.l)) return false;
  Layout own = r.l, made = own;
  LayoutResult result = layout_result_begin(lc, &made, true);
  const Expr *const *shape = result.shape, *zero = te_i64(lc, 0);
  for (uint32_t i = 0; i < own.nblocks; i++)
    if (shape[own.block[i].of]->kind != EXPR_INT && layout_splits_space(&own))
      return te_error(lc, "the extent of an axis in blocks must be known");
  r.x = layout_operand(lc, r.x, &r.l, true);
  for (uint32_t i = 0; i < r.nd; i++) {
    const Expr *in = r.in[i] = r.x->shape[r.l.at[i]];
    r.out[i] = shape[r.l.at[i]];
    if (prove_lt(c, NULL, expr_dim(c, zero), expr_dim(c, in)) != PROOF_YES)
      te_assert(lc, GT(in, zero), "axis %u of the data is empty", r.l.at[i]);
  }
  r.weighs = strcmp(r.a->method, "nearest_neighbor");
  r.ntaps = !r.weighs ? 1 : strcmp(r.a->method, "cubic") ? 2 : 4;
  for (uint32_t i = 0; i < r.nd; i++)
    if (!is_exact(&r)) tabulate(&r, i);
  bool crops = !strcmp(r.a->coordinate_transformation_mode, "tf_crop_and_resize");
  Buffer *x = r.x;
  uint32_t left = r.nd; /* axes that are still to be resized */
  const Expr *dims[WINDOW_MAX + 2];
  memcpy(dims, x->shape, x->ndim * sizeof *dims);
  for (; r.weighs && left > 1 && goes_first(&r, left - 1); left--) {
    dims[r.l.at[left - 1]] = r.out[left - 1];
    te_spatial_begin(lc, "resize_axis", dims, x->ndim, DT_F32);
    x = te_spatial_end(lc, interpolate(&r, x, left - 1, left, lc->ax));
  }
  te_spatial_begin(lc, "resize", shape, r.l.rank, te_result_dtype(lc, 0));
  const Expr *v = r.weighs ? interpolate(&r, x, 0, left, lc->ax) : nearest_value(&r);
  if (crops || !dtype_eq(v->dtype, lc->stage_dtype)) v = te_cast(c, DT_F32, v);
  for (uint32_t i = 0; crops && i < r.nd; i++) {
    const Expr *at = position(&r, i, lc->ax[r.l.at[i]]);
    const Expr *last = SUB(te_cast(c, DT_F32, r.in[i]), flt(c, 1));
    const Expr *outside = OR(LT(at, flt(c, 0)), GT(at, last));
    v = SEL(outside, flt(c, r.a->extrapolation_value), v);
  }
  return layout_result_end(lc, te_spatial_end(lc, te_cast(c, lc->stage_dtype, v)), &result);
}
