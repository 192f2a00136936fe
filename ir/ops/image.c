/* Resizing of images: each axis has taps (positions and weights), the value is the sum over their
 * products. Positions are computed in float32 as in TVM and cut to the data. */
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
  return layout_tensor(ic, &l, dims, d);
}

/* ---- lowering ---- */
typedef struct {
  LowerCtx *lc;
  const image_resize2d_attrs *a;
  Buffer *x;
  Layout l;
  uint32_t nd;
  const Expr *at[WINDOW_MAX];        /* position in the data, float32 */
  const Expr *tap[WINDOW_MAX][4];    /* int64, cut to the data */
  const Expr *weight[WINDOW_MAX][4]; /* NULL: 1 */
  uint32_t ntaps;
} Resize;

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

static const Expr *position(const Resize *r, uint32_t i, const Expr *o, const Expr *in,
                            const Expr *out) {
  Context *c = r->lc->c;
  const char *mode = r->a->coordinate_transformation_mode;
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

static void taps(Resize *r, uint32_t i, const Expr *o, const Expr *in, const Expr *out) {
  Context *c = r->lc->c;
  const char *method = r->a->method, *m = r->a->rounding_method;
  r->at[i] = position(r, i, o, in, out);
  if (!strcmp(method, "nearest_neighbor")) {
    bool floors = !*m || !strcmp(m, "floor");
    r->ntaps = 1;
    if (floors && !strcmp(r->a->coordinate_transformation_mode, "asymmetric"))
      r->tap[i][0] = expr_floordiv(c, MUL(o, in), out); /* exact, below in by itself */
    else
      r->tap[i][0] = cut(c, te_cast(c, DT_I64, nearest(r, r->at[i])), in);
    return;
  }
  const Expr *whole = F1(floor, r->at[i]), *t = SUB(r->at[i], whole),
             *k = te_cast(c, DT_I64, whole);
  bool cubic = !strcmp(method, "cubic");
  r->ntaps = cubic ? 4 : 2;
  if (cubic)
    cubic_weights(c, r->a->cubic_alpha, t, r->weight[i]);
  else {
    r->weight[i][0] = SUB(flt(c, 1), t);
    r->weight[i][1] = t;
  }
  const Expr *sum = NULL;
  for (uint32_t j = 0; j < r->ntaps; j++) {
    const Expr *p = ADD(k, expr_i64(c, (int64_t)j - cubic));
    r->tap[i][j] = cut(c, p, in);
    if (!cubic || !r->a->cubic_exclude) continue;
    const Expr *outside = OR(LT(p, expr_i64(c, 0)), GE(p, in));
    r->weight[i][j] = SEL(outside, flt(c, 0), r->weight[i][j]);
    sum = sum ? ADD(sum, r->weight[i][j]) : r->weight[i][j];
  }
  for (uint32_t j = 0; sum && j < r->ntaps; j++) r->weight[i][j] = DIV(r->weight[i][j], sum);
}

/* Interpolated over axes i and later; idx holds the others. */
static const Expr *interpolate(Resize *r, uint32_t i, const Expr **idx) {
  Context *c = r->lc->c;
  if (i == r->nd) return te_cast(c, DT_F32, te_load(r->lc, r->x, idx));
  const Expr *sum = NULL;
  for (uint32_t j = 0; j < r->ntaps; j++) {
    idx[r->l.at[i]] = r->tap[i][j];
    const Expr *v = interpolate(r, i + 1, idx);
    if (r->weight[i][j]) v = MUL(v, r->weight[i][j]);
    sum = sum ? ADD(sum, v) : v;
  }
  return sum;
}

bool lower_resize(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  Resize r = {.lc = lc, .a = n->attrs, .x = te_arg(lc, 0), .nd = axes_of(n->op)};
  if (!layout_read(&ic, n, "layout", r.a->layout, r.nd, false, &r.l)) return false;
  if (r.l.nblocks) return te_error(lc, LAYOUT_NOT_COMPILED);
  uint32_t ndim;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim), *zero = te_i64(lc, 0);
  for (uint32_t i = 0; i < r.nd; i++) {
    const Expr *in = r.x->shape[r.l.at[i]];
    if (prove_lt(c, NULL, expr_dim(c, zero), expr_dim(c, in)) != PROOF_YES)
      te_assert(lc, GT(in, zero), "axis %u of the data is empty", r.l.at[i]);
  }
  te_result_begin(lc, 0, "resize");
  const Expr *idx[WINDOW_MAX + 2];
  idx[r.l.n] = lc->ax[r.l.n];
  idx[r.l.c] = lc->ax[r.l.c];
  for (uint32_t i = 0; i < r.nd; i++)
    taps(&r, i, lc->ax[r.l.at[i]], r.x->shape[r.l.at[i]], shape[r.l.at[i]]);
  if (r.ntaps == 1 && dtype_eq(r.x->dtype, lc->stage_dtype) &&
      strcmp(r.a->coordinate_transformation_mode, "tf_crop_and_resize")) {
    for (uint32_t i = 0; i < r.nd; i++) idx[r.l.at[i]] = r.tap[i][0];
    te_out(lc, te_spatial_end(lc, te_load(lc, r.x, idx)));
    return true;
  }
  const Expr *v = interpolate(&r, 0, idx);
  if (!strcmp(r.a->coordinate_transformation_mode, "tf_crop_and_resize"))
    for (uint32_t i = 0; i < r.nd; i++) {
      const Expr *last = SUB(te_cast(c, DT_F32, r.x->shape[r.l.at[i]]), flt(c, 1));
      const Expr *outside = OR(LT(r.at[i], flt(c, 0)), GT(r.at[i], last));
      v = SEL(outside, flt(c, r.a->extrapolation_value), v);
    }
  te_out_value(lc, v);
  return true;
}
