/* Detection: regions pooled from images, boxes decoded from anchors, boxes chosen by suppression.
 *
 * Arithmetic runs in float32 (float64 for such data). Numbers of images, counts and positions that
 * are data are cut to what exists. Suppression goes greedily through boxes in descending order of
 * score (equal scores in their order); a box is suppressed by a chosen one when the intersection is
 * at least iou_threshold of the union. */
#include "ir/ops/script.h"

#include <math.h>
#include <string.h>

static bool rank_is(InferCtx *ic, const Node *n, uint32_t i, const SInfo *s, int32_t ndim) {
  if (s->ndim < 0 || s->ndim == ndim) return true;
  infer_error(ic, n, C_rank, (int)i, "expected rank %d for '%s' but got %s", ndim,
              infer_arg_name(ic, n, i), infer_shape_text(ic, s));
  return false;
}

static bool dim_is(InferCtx *ic, const Node *n, uint32_t i, const SInfo *s, int32_t k,
                   const Expr *want) {
  if (!s->dims || !infer_ne(ic, s->dims[k], want)) return true;
  infer_error(ic, n, C_same_dims, (int)i, "dim %d of '%s' is %s but %s is expected", k,
              infer_arg_name(ic, n, i), infer_expr_text(ic, s->dims[k]), infer_expr_text(ic, want));
  return false;
}

static const SInfo *float_arg(InferCtx *ic, const Node *n, uint32_t i, int32_t ndim) {
  const SInfo *s = infer_tensor_arg(ic, n, i);
  return s && infer_need_float(ic, n, i, s) && rank_is(ic, n, i, s, ndim) ? s : NULL;
}

static const Expr *flt(LowerCtx *lc, DType d, double v) {
  return expr_float(lc->c, d, v);
}

/* ---- roi_align, roi_pool ---- */
typedef struct {
  LowerCtx *lc;
  Buffer *x, *rois, *out;
  bool nhwc;
  DType d;
  int64_t size[2];
  double scale;
  Var *r, *ch, *p[2]; /* region, channel, place in the result */
  const Expr *image, *dim[2];
} Roi;

_Static_assert(offsetof(vision_roi_pool_attrs, pooled_size) == 0 &&
                   offsetof(vision_roi_align_attrs, pooled_size) == 0,
               "common fields");

static const SInfo *infer_roi(InferCtx *ic, Node *n, IntList size, const char *layout, bool nhwc) {
  const SInfo *x = float_arg(ic, n, 0, 4), *r = x ? float_arg(ic, n, 1, 2) : NULL;
  if (!r || !dim_is(ic, n, 1, r, 1, expr_i64(ic->c, 5))) return NULL;
  bool last = layout && !strcmp(layout, "NHWC");
  if (!layout || (strcmp(layout, "NCHW") && !(nhwc && last)))
    return infer_error(ic, n, C_layout, -1, "layout '%s' can't be used here",
                       layout ? layout : "None");
  if ((size.n != 1 && size.n != 2) || size.at[0] < 1 || size.at[size.n - 1] < 1)
    return infer_error(ic, n, C_least, -1, "pooled_size must be one or two positive numbers");
  if (!x->dims || !r->dims) return sinfo_tensor_ndim(ic->c, 4, x->dtype);
  const Expr *h = expr_i64(ic->c, size.at[0]), *w = expr_i64(ic->c, size.at[size.n - 1]);
  const Expr *first[4] = {r->dims[0], x->dims[1], h, w}, *second[4] = {r->dims[0], h, w, NULL};
  second[3] = x->dims[3];
  return sinfo_tensor(ic->c, last ? second : first, 4, x->dtype);
}

const SInfo *infer_roi_align(InferCtx *ic, Node *n) {
  const vision_roi_align_attrs *a = n->attrs;
  if (!a->mode || (strcmp(a->mode, "avg") && strcmp(a->mode, "max")))
    return infer_error(ic, n, C_choice, -1, "mode '%s' is neither avg nor max",
                       a->mode ? a->mode : "None");
  return infer_roi(ic, n, a->pooled_size, a->layout, true);
}

const SInfo *infer_roi_pool(InferCtx *ic, Node *n) {
  const vision_roi_pool_attrs *a = n->attrs;
  return infer_roi(ic, n, a->pooled_size, a->layout, false);
}

static bool roi_begin(LowerCtx *lc, Roi *s, IntList size, double scale, const char *layout) {
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0), *r = te_arg(lc, 1);
  *s = (Roi){.lc = lc, .x = x, .rois = r, .nhwc = !strcmp(layout, "NHWC"), .scale = scale};
  s->d = dtype_eq(x->dtype, DT_F64) || dtype_eq(r->dtype, DT_F64) ? DT_F64 : DT_F32;
  s->size[0] = size.at[0];
  s->size[1] = size.at[size.n - 1];
  if (!te_need_equal(lc, r->shape[1], I64(5), "the length of a region")) return false;
  te_assert(lc, OR(GE(x->shape[0], I64(1)), EQ(r->shape[0], I64(0))), "there is no image");
  for (int i = 0; i < 2; i++) s->dim[i] = x->shape[(s->nhwc ? 1 : 2) + i];
  uint32_t ndim;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim);
  s->out = te_alloc(lc, lc->name, shape, 4, s->d);
  s->r = VAR("r");
  s->ch = VAR("c");
  s->p[0] = VAR("ph");
  s->p[1] = VAR("pw");
  const Expr *last = SUB(x->shape[0], I64(1));
  const Expr *b = te_cast(c, DT_I64, te_cast(c, s->d, LOADN(r, s->r->expr, I64(0))));
  s->image = expr_max(c, expr_min(c, b, last), I64(0));
  return true;
}

static const Expr *roi_value(const Roi *s, int64_t k) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  return MUL(te_cast(c, s->d, LOADN(s->rois, s->r->expr, I64(k))), flt(lc, s->d, s->scale));
}

static const Expr *roi_pixel(const Roi *s, const Expr *h, const Expr *w) {
  Context *c = s->lc->c;
  const Expr *v =
      s->nhwc ? LOADN(s->x, s->image, h, w, s->ch->expr) : LOADN(s->x, s->image, s->ch->expr, h, w);
  return te_cast(c, s->d, v);
}

static const Expr *roi_load(const Roi *s) {
  Context *c = s->lc->c;
  return s->nhwc ? LOADN(s->out, s->r->expr, s->p[0]->expr, s->p[1]->expr, s->ch->expr)
                 : LOADN(s->out, s->r->expr, s->ch->expr, s->p[0]->expr, s->p[1]->expr);
}

static Stmt *roi_store(const Roi *s, const Expr *v) {
  LowerCtx *lc = s->lc;
  return s->nhwc ? STOREN(s->out, v, s->r->expr, s->p[0]->expr, s->p[1]->expr, s->ch->expr)
                 : STOREN(s->out, v, s->r->expr, s->ch->expr, s->p[0]->expr, s->p[1]->expr);
}

static bool roi_end(const Roi *s, Stmt *body) {
  LowerCtx *lc = s->lc;
  Var *vars[4] = {s->r, s->ch, s->p[0], s->p[1]};
  const Expr *ext[4] = {s->rois->shape[0], s->x->shape[s->nhwc ? 3 : 1], I64(s->size[0]),
                        I64(s->size[1])};
  te_block(lc, lc->name, te_loops(lc, vars, ext, 4, body));
  if (dtype_eq(s->d, te_result_dtype(lc, 0))) {
    te_out(lc, s->out);
    return true;
  }
  te_result_begin(lc, 0, "compute");
  te_out_value(lc, te_load(lc, s->out, lc->ax));
  return true;
}

bool lower_roi_align(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const vision_roi_align_attrs *a = n->attrs;
  Roi s;
  if (!roi_begin(lc, &s, a->pooled_size, a->spatial_scale, a->layout)) return false;
  bool avg = !strcmp(a->mode, "avg");
  const Expr *begin[2], *bin[2], *grid[2], *at[2], *lo[2], *hi[2], *part[2], *out = NULL;
  const Expr *one = flt(lc, s.d, 1), *zero = flt(lc, s.d, 0);
  Var *k[2] = {VAR("kh"), VAR("kw")}, *g[2] = {VAR("grid_h"), VAR("grid_w")};
  Var *pos[2] = {var_create(c, "y", s.d), var_create(c, "x", s.d)};
  for (int i = 0; i < 2; i++) {
    begin[i] = roi_value(&s, 2 - i);
    const Expr *len = SUB(roi_value(&s, 4 - i), begin[i]);
    if (!a->aligned) len = expr_max(c, len, one);
    bin[i] = DIV(len, flt(lc, s.d, (double)s.size[i]));
    /* A bound on the samples: no region is sampled more than 32768 times along an axis, one without
     * an end once. */
    const Expr *endless = EQ(F1(fabs, bin[i]), flt(lc, s.d, INFINITY));
    const Expr *many = expr_min(c, te_cast(c, DT_I64, F1(ceil, bin[i])), I64(32768));
    many = SEL(endless, I64(1), many);
    grid[i] = a->sample_ratio > 0 ? I64(a->sample_ratio) : expr_max(c, many, I64(0));
    const Expr *step = ADD(te_cast(c, s.d, k[i]->expr), flt(lc, s.d, 0.5));
    step = DIV(MUL(step, bin[i]), te_cast(c, s.d, g[i]->expr));
    at[i] = ADD(ADD(begin[i], MUL(te_cast(c, s.d, s.p[i]->expr), bin[i])), step);
    const Expr *v = pos[i]->expr, *size = te_cast(c, s.d, s.dim[i]);
    const Expr *off = OR(LT(v, flt(lc, s.d, -1)), OR(GT(v, size), F1(isnan, v)));
    out = out ? OR(out, off) : off;
    const Expr *cut = expr_min(c, expr_max(c, v, zero), SUB(size, one)), *low = F1(floor, cut);
    const Expr *last = SUB(s.dim[i], I64(1));
    lo[i] = expr_max(c, expr_min(c, te_cast(c, DT_I64, low), last), I64(0));
    hi[i] = expr_min(c, ADD(lo[i], I64(1)), last);
    part[i] = SUB(cut, low);
  }
  out = OR(out, OR(LT(s.dim[0], I64(1)), LT(s.dim[1], I64(1))));
  const Expr *top = ADD(MUL(roi_pixel(&s, lo[0], lo[1]), SUB(one, part[1])),
                        MUL(roi_pixel(&s, lo[0], hi[1]), part[1]));
  const Expr *low = ADD(MUL(roi_pixel(&s, hi[0], lo[1]), SUB(one, part[1])),
                        MUL(roi_pixel(&s, hi[0], hi[1]), part[1]));
  const Expr *v = ADD(MUL(top, SUB(one, part[0])), MUL(low, part[0]));
  v = expr_if_then_else(c, out, zero, v);
  const Expr *count = te_cast(c, s.d, MUL(g[0]->expr, g[1]->expr)), *old = roi_load(&s);
  Stmt *add = roi_store(&s, avg ? ADD(old, DIV(v, count)) : expr_max(c, old, v));
  Stmt *taps = FOR(k[0], g[0]->expr,
                   FOR(k[1], g[1]->expr, SEQ(LET(pos[0], at[0]), LET(pos[1], at[1]), add)));
  Stmt *first = roi_store(&s, avg ? zero : flt(lc, s.d, -(double)INFINITY));
  return roi_end(&s, SEQ(LET(g[0], grid[0]), LET(g[1], grid[1]), first, taps));
}

bool lower_roi_pool(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const vision_roi_pool_attrs *a = n->attrs;
  Roi s;
  if (!roi_begin(lc, &s, a->pooled_size, a->spatial_scale, a->layout)) return false;
  Var *first[2] = {VAR("h0"), VAR("w0")}, *end[2] = {VAR("h1"), VAR("w1")},
      *k[2] = {VAR("kh"), VAR("kw")};
  Stmt *lets[4];
  const Expr *half = flt(lc, s.d, 0.5), *at[2];
  for (int i = 0; i < 2; i++) {
    /* Corners are rounded half up, as ONNX has it, and cut so that nothing below can overflow. */
    const Expr *edge[2], *far = flt(lc, s.d, 1e9);
    for (int e = 0; e < 2; e++) {
      const Expr *v = F1(floor, ADD(roi_value(&s, (e ? 4 : 2) - i), half));
      edge[e] = te_cast(c, DT_I64, expr_max(c, expr_min(c, v, far), flt(lc, s.d, -1e9)));
    }
    const Expr *len = expr_max(c, ADD(SUB(edge[1], edge[0]), I64(1)), I64(1));
    const Expr *bin = DIV(te_cast(c, s.d, len), flt(lc, s.d, (double)s.size[i]));
    const Expr *p = te_cast(c, s.d, s.p[i]->expr), *next = ADD(p, flt(lc, s.d, 1));
    const Expr *lo = ADD(te_cast(c, DT_I64, F1(floor, MUL(p, bin))), edge[0]);
    const Expr *hi = ADD(te_cast(c, DT_I64, F1(ceil, MUL(next, bin))), edge[0]);
    lets[2 * i] = LET(first[i], expr_min(c, expr_max(c, lo, I64(0)), s.dim[i]));
    lets[2 * i + 1] = LET(end[i], expr_min(c, expr_max(c, hi, I64(0)), s.dim[i]));
    at[i] = ADD(first[i]->expr, k[i]->expr);
  }
  const Expr *empty = OR(LE(end[0]->expr, first[0]->expr), LE(end[1]->expr, first[1]->expr));
  Stmt *taps = roi_store(&s, expr_max(c, roi_load(&s), roi_pixel(&s, at[0], at[1])));
  for (int i = 2; i-- > 0;)
    taps = FOR(k[i], expr_max(c, SUB(end[i]->expr, first[i]->expr), I64(0)), taps);
  const Expr *start = SEL(empty, flt(lc, s.d, 0), flt(lc, s.d, -(double)INFINITY));
  return roi_end(&s, SEQ(lets[0], lets[1], lets[2], lets[3], roi_store(&s, start), taps));
}

/* ---- multibox_transform_loc ---- */
/* Variances that were left out are written down, so that they print as TVM has them. */
static const Attr *four_ones(Arena *arena) {
  const Attr **items = ARENA_ARRAY(arena, const Attr *, 4);
  for (int i = 0; i < 4; i++) items[i] = attr_float(arena, 1);
  Attr *a = ARENA_NEW(arena, Attr);
  a->kind = ATTR_LIST;
  a->n = 4;
  a->items = items;
  return a;
}

/* The rank of these results is known in any case. */
static const SInfo *of_rank_3(InferCtx *ic, const SInfo *x) {
  return x->ndim < 0 ? sinfo_tensor_ndim(ic->c, 3, x->dtype) : x;
}

const SInfo *infer_multibox(InferCtx *ic, Node *n) {
  vision_multibox_transform_loc_attrs *given = node_attrs(n, vision_multibox_transform_loc);
  if (!given->variances || given->variances->kind == ATTR_NONE)
    given->variances = four_ones(ic->arena);
  const SInfo *p = float_arg(ic, n, 0, 3), *l = p ? float_arg(ic, n, 1, 2) : NULL;
  const SInfo *a = l ? float_arg(ic, n, 2, 3) : NULL;
  if (!a || !dim_is(ic, n, 2, a, 2, expr_i64(ic->c, 4)) ||
      !dim_is(ic, n, 2, a, 0, expr_i64(ic->c, 1)))
    return NULL;
  if (p->dims && (!dim_is(ic, n, 1, l, 0, p->dims[0]) || !dim_is(ic, n, 2, a, 1, p->dims[2])))
    return NULL;
  const Expr *b[3];
  if (p->dims) {
    b[0] = p->dims[0];
    b[1] = p->dims[2];
    b[2] = expr_i64(ic->c, 4);
    if (!dim_is(ic, n, 1, l, 1, expr_simplify(ic->c, expr_mul(ic->c, b[1], b[2])))) return NULL;
  }
  const SInfo *f[2] = {infer_tensor(ic, p->dims ? b : NULL, 3, p->dtype), of_rank_3(ic, p)};
  return sinfo_tuple(ic->c, f, 2);
}

static double number_at(const Attr *a, uint32_t i, double fallback) {
  if (!a || a->kind != ATTR_LIST || i >= a->n) return fallback;
  const Attr *v = a->items[i];
  if (v->kind == ATTR_EXPR)
    return v->expr->kind == EXPR_FLOAT ? v->expr->f
           : v->expr->kind == EXPR_INT ? (double)v->expr->i
                                       : fallback;
  return v->kind == ATTR_FLOAT ? v->f : v->kind == ATTR_INT ? (double)v->i : fallback;
}

bool lower_multibox(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const vision_multibox_transform_loc_attrs *a = n->attrs;
  Buffer *p = te_arg(lc, 0), *l = te_arg(lc, 1), *anchor = te_arg(lc, 2);
  DType d = te_acc_dtype(p->dtype);
  const Expr *boxes = p->shape[2], *four = I64(4), *zero = flt(lc, d, 0), *one = flt(lc, d, 1);
  if (!te_need_equal(lc, l->shape[0], p->shape[0], "the batches") ||
      !te_need_equal(lc, l->shape[1], MUL(boxes, four), "4 * anchors and the box offsets") ||
      !te_need_equal(lc, anchor->shape[0], I64(1), "the batch of the anchors") ||
      !te_need_equal(lc, anchor->shape[1], boxes, "the number of anchors") ||
      !te_need_equal(lc, anchor->shape[2], four, "the numbers of an anchor"))
    return false;
  double var[4];
  for (uint32_t i = 0; i < 4; i++) var[i] = number_at(a->variances, i, 1);
  te_result_begin(lc, 0, "multibox_boxes");
  const Expr *v[4], *side[4], *half = flt(lc, d, 0.5), *at = lc->ax[1];
  for (uint32_t i = 0; i < 4; i++) {
    const Expr *k = ADD(MUL(at, four), I64(i));
    v[i] = MUL(te_cast(c, d, LOADN(l, lc->ax[0], k)), flt(lc, d, var[i]));
    side[i] = te_cast(c, d, LOADN(anchor, I64(0), at, I64(i))); /* left, top, right, bottom */
  }
  const Expr *edge[4]; /* ymin, xmin, ymax, xmax */
  for (uint32_t i = 0; i < 2; i++) {
    const Expr *lo = side[1 - i], *hi = side[3 - i], *len = SUB(hi, lo);
    const Expr *mid = ADD(MUL(v[1 - i], len), MUL(ADD(lo, hi), half));
    const Expr *reach = MUL(MUL(half, F1(exp, v[3 - i])), len);
    edge[i] = SUB(mid, reach);
    edge[2 + i] = ADD(mid, reach);
  }
  const Expr *r = edge[3];
  for (uint32_t i = 3; i-- > 0;) r = SEL(EQ(lc->ax[2], I64(i)), edge[i], r);
  if (a->clip) r = expr_max(c, zero, expr_min(c, one, r));
  te_out_value(lc, r);
  /* Scores. */
  Buffer *e = NULL, *sum = NULL, *most = NULL;
  const Expr *outer[2] = {p->shape[0], boxes};
  if (a->apply_softmax) {
    te_reduce_begin(lc, "T_softmax_maxelem", outer, 2, d, &p->shape[1], 1);
    most = te_reduce_end(lc, TE_MAX, te_cast(c, d, LOADN(p, lc->ax[0], lc->ax[2], lc->ax[1])));
    te_spatial_begin(lc, "T_softmax_exp", p->shape, 3, d);
    e = te_spatial_end(
        lc, F1(exp, SUB(te_cast(c, d, te_load(lc, p, lc->ax)), LOADN(most, lc->ax[0], lc->ax[2]))));
    te_reduce_begin(lc, "T_softmax_expsum", outer, 2, d, &p->shape[1], 1);
    sum = te_reduce_end(lc, TE_SUM, LOADN(e, lc->ax[0], lc->ax[2], lc->ax[1]));
  }
  te_result_begin(lc, 1, "multibox_scores");
  const Expr *s = te_cast(c, d, te_load(lc, p, lc->ax));
  if (a->apply_softmax) s = DIV(te_load(lc, e, lc->ax), LOADN(sum, lc->ax[0], lc->ax[2]));
  s = SEL(GE(s, flt(lc, d, a->threshold)), s, zero);
  if (!a->keep_background) s = SEL(EQ(lc->ax[1], I64(0)), zero, s);
  te_out_value(lc, s);
  return true;
}

/* ---- get_valid_counts ---- */
const SInfo *infer_get_valid_counts(InferCtx *ic, Node *n) {
  const SInfo *x = float_arg(ic, n, 0, 3);
  if (!x) return NULL;
  const SInfo *f[3] = {infer_tensor(ic, x->dims, 1, DT_I32), of_rank_3(ic, x),
                       infer_tensor(ic, x->dims, 2, DT_I32)};
  return sinfo_tuple(ic->c, f, 3);
}

/* An attribute that names one of a box's numbers: it must be one; -1 where that means none. */
static bool check_column(LowerCtx *lc, const Buffer *x, int64_t i, int64_t least, int64_t more,
                         const char *name) {
  Context *c = lc->c;
  if (i < least) return te_error(lc, "%s must not be %lld", name, (long long)i);
  if (i >= 0) te_assert(lc, LT(I64(i + more), x->shape[2]), "%s is beyond a box's numbers", name);
  return true;
}

bool lower_get_valid_counts(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const vision_get_valid_counts_attrs *a = n->attrs;
  Buffer *x = te_arg(lc, 0);
  if (!check_column(lc, x, a->score_index, 0, 0, "score_index") ||
      !check_column(lc, x, a->id_index, -1, 0, "id_index"))
    return false;
  Buffer *count = te_alloc(lc, "valid_count", x->shape, 1, DT_I32);
  Buffer *out = te_alloc(lc, "out", x->shape, 3, x->dtype);
  Buffer *ind = te_alloc(lc, "out_indices", x->shape, 2, DT_I32);
  Var *b = VAR("b"), *j = VAR("j"), *k = VAR("k"), *j2 = VAR("j"), *k2 = VAR("k"), *to = VAR("to");
  const Expr *vb = b->expr, *zero = te_widen(c, expr_lit(c, x->dtype, 0));
  DType d = zero->dtype;
  const Expr *ok =
      GT(te_widen(c, LOADN(x, vb, j->expr, I64(a->score_index))), flt(lc, d, a->score_threshold));
  if (a->id_index >= 0)
    ok = AND(ok, GE(te_widen(c, LOADN(x, vb, j->expr, I64(a->id_index))), zero));
  const Expr *have = LOADN(count, vb);
  Stmt *keep =
      SEQ(LET(to, te_cast(c, DT_I64, have)),
          FOR(k, x->shape[2], STOREN(out, LOADN(x, vb, j->expr, k->expr), vb, to->expr, k->expr)),
          STOREN(ind, te_cast(c, DT_I32, j->expr), vb, to->expr),
          STOREN(count, te_cast(c, DT_I32, ADD(to->expr, I64(1))), vb));
  Stmt *clear =
      SEQ(FOR(k2, x->shape[2], STOREN(out, expr_lit(c, x->dtype, -1), vb, j2->expr, k2->expr)),
          STOREN(ind, expr_int(c, DT_I32, -1), vb, j2->expr));
  Stmt *body = SEQ(STOREN(count, expr_int(c, DT_I32, 0), vb), FOR(j2, x->shape[1], clear),
                   FOR(j, x->shape[1], IF(ok, keep, NULL)));
  te_block(lc, "get_valid_counts", FOR(b, x->shape[0], body));
  te_out(lc, count);
  te_out(lc, out);
  te_out(lc, ind);
  return true;
}

/* Intersection over union of two boxes given by two opposite corners (4 numbers each); 0 for an
 * empty union. */
static const Expr *overlap(LowerCtx *lc, const Expr *const *a, const Expr *const *b) {
  Context *c = lc->c;
  const Expr *zero = expr_lit(c, a[0]->dtype, 0), *cut = NULL, *area[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    const Expr *lo = expr_min(c, a[i], a[i + 2]), *hi = expr_max(c, a[i], a[i + 2]);
    const Expr *lo2 = expr_min(c, b[i], b[i + 2]), *hi2 = expr_max(c, b[i], b[i + 2]);
    const Expr *len = expr_max(c, zero, SUB(expr_min(c, hi, hi2), expr_max(c, lo, lo2)));
    cut = cut ? MUL(cut, len) : len;
    area[0] = area[0] ? MUL(area[0], SUB(hi, lo)) : SUB(hi, lo);
    area[1] = area[1] ? MUL(area[1], SUB(hi2, lo2)) : SUB(hi2, lo2);
  }
  const Expr *all = SUB(ADD(area[0], area[1]), cut), *none = LE(all, zero);
  return SEL(none, zero, DIV(cut, SEL(none, expr_lit(c, zero->dtype, 1), all)));
}

/* ---- non_max_suppression ---- */
const SInfo *infer_nms(InferCtx *ic, Node *n) {
  const vision_non_max_suppression_attrs *a = n->attrs;
  const SInfo *x = float_arg(ic, n, 0, 3), *v = x ? infer_tensor_arg(ic, n, 1) : NULL;
  const SInfo *i = v ? infer_tensor_arg(ic, n, 2) : NULL;
  if (!i || !infer_need_int(ic, n, 1, v) || !infer_need_int(ic, n, 2, i) ||
      !rank_is(ic, n, 1, v, 1) || !rank_is(ic, n, 2, i, 2))
    return NULL;
  if (x->dims && (!dim_is(ic, n, 1, v, 0, x->dims[0]) || !dim_is(ic, n, 2, i, 0, x->dims[0]) ||
                  !dim_is(ic, n, 2, i, 1, x->dims[1])))
    return NULL;
  if (!a->return_indices) return of_rank_3(ic, x);
  const Expr *d[2] = {x->dims ? x->dims[0] : NULL, expr_i64(ic->c, 1)};
  const SInfo *f[3] = {of_rank_3(ic, x), infer_tensor(ic, x->dims, 2, DT_I32),
                       infer_tensor(ic, x->dims ? d : NULL, 2, DT_I32)};
  return a->soft_nms_sigma > 0 ? sinfo_tuple(ic->c, f, 3) : sinfo_tuple(ic->c, f + 1, 2);
}

typedef struct {
  LowerCtx *lc;
  const vision_non_max_suppression_attrs *a;
  Buffer *x, *out, *ind, *state; /* state: how many chosen, best, kept */
  DType d;
  Var *b;
} Nms;

enum { N_CHOSEN, N_BEST, N_KEEP, N_COUNT };

static const Expr *nms_at(const Nms *s, const Expr *j, int64_t k) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  return LOADN(s->out, s->b->expr, j, I64(k));
}

static const Expr *nms_state(const Nms *s, int k) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  return LOADN(s->state, I64(k));
}

/* Box j becomes nothing: -1 everywhere. */
static Stmt *nms_clear(const Nms *s, const Expr *j) {
  LowerCtx *lc = s->lc;
  Var *k = VAR("k");
  return SEQ(FOR(k, s->x->shape[2], STOREN(s->out, flt(lc, s->d, -1), s->b->expr, j, k->expr)),
             STOREN(s->ind, I64(-1), s->b->expr, j));
}

static const Expr *nms_related(const Nms *s, const Expr *i, const Expr *j) {
  Context *c = s->lc->c;
  if (s->a->force_suppress || s->a->id_index < 0) return expr_bool(c, true);
  return EQ(nms_at(s, i, s->a->id_index), nms_at(s, j, s->a->id_index));
}

static const Expr *nms_iou(const Nms *s, const Expr *i, const Expr *j) {
  const Expr *a[4], *b[4];
  for (int k = 0; k < 4; k++) {
    a[k] = nms_at(s, i, s->a->coord_start + k);
    b[k] = nms_at(s, j, s->a->coord_start + k);
  }
  return overlap(s->lc, a, b);
}

static const Expr *nms_room(const Nms *s) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  if (s->a->max_output_size <= 0) return expr_bool(c, true);
  return LT(nms_state(s, N_CHOSEN), I64(s->a->max_output_size));
}

static Stmt *nms_hard(const Nms *s) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  Var *j = VAR("j"), *k = VAR("k");
  const Expr *zero = flt(lc, s->d, 0), *keep = nms_state(s, N_KEEP), *vj = j->expr;
  const Expr *vk = ADD(ADD(vj, I64(1)), k->expr);
  const Expr *hit = GE(nms_iou(s, vj, vk), flt(lc, s->d, s->a->iou_threshold));
  const Expr *alive = AND(GT(nms_at(s, vk, s->a->score_index), zero), nms_related(s, vj, vk));
  Stmt *drop = SEQ(STOREN(s->out, flt(lc, s->d, -1), s->b->expr, vk, I64(s->a->score_index)),
                   STOREN(s->ind, I64(-1), s->b->expr, vk));
  Stmt *rest = FOR(k, SUB(SUB(keep, vj), I64(1)), IF(alive, IF(hit, drop, NULL), NULL));
  Stmt *choose = SEQ(STOREN(s->state, ADD(nms_state(s, N_CHOSEN), I64(1)), I64(N_CHOSEN)), rest);
  const Expr *good = AND(GT(nms_at(s, vj, s->a->score_index), zero), nms_room(s));
  return FOR(j, keep, IF(good, choose, nms_clear(s, vj)));
}

/* Each round the best of what is left moves to the front and weakens what it overlaps. */
static Stmt *nms_soft(const Nms *s) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  Var *round = VAR("round"), *j = VAR("j"), *k = VAR("k"), *e = VAR("e"), *iv = VAR("other");
  Var *at = VAR("at"), *best = VAR("best"), *tv = var_create(c, "value", s->d),
      *iou = var_create(c, "iou", s->d);
  int64_t col = s->a->score_index;
  const Expr *thresh = flt(lc, s->d, s->a->score_threshold), *vb = s->b->expr, *vj = j->expr,
             *keep = nms_state(s, N_KEEP), *now = nms_state(s, N_BEST), *none = LT(now, I64(0));
  const Expr *least = expr_if_then_else(c, none, thresh, nms_at(s, expr_max(c, now, I64(0)), col));
  const Expr *more = AND(AND(GE(vj, nms_state(s, N_CHOSEN)), GE(LOADN(s->ind, vb, vj), I64(0))),
                         GT(nms_at(s, vj, col), least));
  Stmt *find = SEQ(STOREN(s->state, I64(-1), I64(N_BEST)),
                   FOR(j, keep, IF(more, STOREN(s->state, vj, I64(N_BEST)), NULL)));
  const Expr *va = at->expr, *ve = best->expr;
  Stmt *swap = SEQ(LET(iv, LOADN(s->ind, vb, va)), STOREN(s->ind, LOADN(s->ind, vb, ve), vb, va),
                   STOREN(s->ind, iv->expr, vb, ve),
                   FOR(e, s->x->shape[2],
                       SEQ(LET(tv, LOADN(s->out, vb, va, e->expr)),
                           STOREN(s->out, LOADN(s->out, vb, ve, e->expr), vb, va, e->expr),
                           STOREN(s->out, tv->expr, vb, ve, e->expr))));
  const Expr *vk = k->expr, *score = nms_at(s, vk, col);
  const Expr *open = AND(AND(GT(vk, va), GE(LOADN(s->ind, vb, vk), I64(0))), GT(score, thresh));
  const Expr *factor =
      F1(exp, MUL(flt(lc, s->d, -0.5 / s->a->soft_nms_sigma), MUL(iou->expr, iou->expr)));
  Stmt *gone = STOREN(s->ind, I64(-1), vb, vk);
  Stmt *weaken =
      SEQ(STOREN(s->out, MUL(score, factor), vb, vk, I64(col)), IF(LE(score, thresh), gone, NULL));
  Stmt *touch = SEQ(LET(iou, nms_iou(s, va, vk)),
                    IF(GE(iou->expr, flt(lc, s->d, s->a->iou_threshold)), gone, weaken));
  Stmt *take = SEQ(LET(at, nms_state(s, N_CHOSEN)), LET(best, now), swap,
                   FOR(k, keep, IF(AND(open, nms_related(s, va, vk)), touch, NULL)),
                   STOREN(s->state, ADD(va, I64(1)), I64(N_CHOSEN)));
  return FOR(round, keep, IF(nms_room(s), SEQ(find, IF(GE(now, I64(0)), take, NULL)), NULL));
}

bool lower_nms(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const vision_non_max_suppression_attrs *a = n->attrs;
  Buffer *x = te_arg(lc, 0), *valid = te_arg(lc, 1), *names = te_arg(lc, 2);
  bool soft = a->soft_nms_sigma > 0;
  if (!te_need_equal(lc, valid->shape[0], x->shape[0], "the batches") ||
      !te_need_equal(lc, names->shape[0], x->shape[0], "the batches") ||
      !te_need_equal(lc, names->shape[1], x->shape[1], "the numbers of boxes") ||
      !check_column(lc, x, a->score_index, 0, 0, "score_index") ||
      !check_column(lc, x, a->id_index, -1, 0, "id_index") ||
      !check_column(lc, x, a->coord_start, 0, 3, "coord_start"))
    return false;
  DType d = te_acc_dtype(x->dtype);
  const Expr *boxes = x->shape[1], *states = I64(N_COUNT), *zero = I64(0);
  te_spatial_begin(lc, "scores", x->shape, 2, d);
  const Expr *there = LT(lc->ax[1], te_cast(c, DT_I64, LOADN(valid, lc->ax[0])));
  const Expr *score = te_cast(c, d, LOADN(x, lc->ax[0], lc->ax[1], I64(a->score_index)));
  Buffer *scores = te_spatial_end(lc, SEL(there, score, flt(lc, d, -(double)INFINITY)));
  Buffer *order = te_sort_order(lc, scores, 1, true);
  Buffer *out = te_alloc(lc, "out_data", x->shape, 3, d);
  Buffer *ind = te_alloc(lc, "chosen", x->shape, 2, DT_I64);
  Buffer *state = te_alloc(lc, "state", &states, 1, DT_I64);
  const Expr *col[2] = {x->shape[0], I64(1)};
  Buffer *box = a->return_indices ? te_alloc(lc, "box_indices", x->shape, 2, DT_I32) : NULL;
  Buffer *count = a->return_indices ? te_alloc(lc, "valid_box_count", col, 2, DT_I32) : NULL;
  Nms s = {lc, a, x, out, ind, state, d, VAR("b")};
  const Expr *vb = s.b->expr, *keep = te_cast(c, DT_I64, LOADN(valid, vb));
  keep = expr_max(c, expr_min(c, keep, boxes), zero);
  if (a->top_k > 0) keep = expr_min(c, keep, I64(a->top_k));
  Var *j = VAR("j"), *e = VAR("e"), *from = VAR("place"), *q = VAR("q"), *r = VAR("r");
  const Expr *vj = j->expr;
  Stmt *copy =
      SEQ(LET(from, LOADN(order, vb, vj)),
          FOR(e, x->shape[2],
              STOREN(out, te_cast(c, d, LOADN(x, vb, from->expr, e->expr)), vb, vj, e->expr)),
          STOREN(ind, from->expr, vb, vj));
  Stmt *start = SEQ(STOREN(state, zero, I64(N_CHOSEN)), STOREN(state, keep, I64(N_KEEP)),
                    FOR(j, boxes, IF(LT(vj, LOADN(state, I64(N_KEEP))), copy, nms_clear(&s, vj))));
  Stmt *body = SEQ(start, soft ? nms_soft(&s) : nms_hard(&s));
  if (soft) { /* what was not chosen */
    Stmt *tail = IF(GE(q->expr, nms_state(&s, N_CHOSEN)), nms_clear(&s, q->expr), NULL);
    body = SEQ(body, FOR(q, boxes, tail));
  }
  if (a->return_indices) {
    Var *z = VAR("z"), *to = VAR("to");
    const Expr *name = LOADN(names, vb, LOADN(ind, vb, r->expr));
    Stmt *put =
        SEQ(LET(to, nms_state(&s, N_BEST)), STOREN(box, te_cast(c, DT_I32, name), vb, to->expr),
            STOREN(state, ADD(to->expr, I64(1)), I64(N_BEST)));
    body = SEQ(body, STOREN(state, zero, I64(N_BEST)),
               FOR(z, boxes, STOREN(box, expr_int(c, DT_I32, -1), vb, z->expr)),
               FOR(r, boxes, IF(GE(LOADN(ind, vb, r->expr), zero), put, NULL)),
               STOREN(count, te_cast(c, DT_I32, nms_state(&s, N_BEST)), vb, zero));
  } else if (a->invalid_to_bottom && !soft) {
    Var *to = VAR("to"), *w = VAR("w"), *k = VAR("k");
    const Expr *good = GE(nms_at(&s, r->expr, a->score_index), flt(lc, d, 0));
    Stmt *move = SEQ(
        LET(to, nms_state(&s, N_BEST)),
        FOR(k, x->shape[2], STOREN(out, LOADN(out, vb, r->expr, k->expr), vb, to->expr, k->expr)),
        STOREN(state, ADD(to->expr, I64(1)), I64(N_BEST)));
    Stmt *tail = IF(GE(w->expr, nms_state(&s, N_BEST)), nms_clear(&s, w->expr), NULL);
    body = SEQ(body, STOREN(state, zero, I64(N_BEST)), FOR(r, boxes, IF(good, move, NULL)),
               FOR(w, boxes, tail));
  }
  te_block(lc, "non_max_suppression", FOR(s.b, x->shape[0], body));
  if (soft || !a->return_indices) {
    if (dtype_eq(d, x->dtype)) {
      te_out(lc, out);
    } else {
      te_result_begin(lc, 0, "compute");
      te_out_value(lc, te_load(lc, out, lc->ax));
    }
  }
  if (a->return_indices) {
    te_out(lc, box);
    te_out(lc, count);
  }
  return true;
}

/* ---- all_class_non_max_suppression ---- */
const SInfo *infer_all_class_nms(InferCtx *ic, Node *n) {
  const char *format = node_attrs(n, vision_all_class_non_max_suppression)->output_format;
  const SInfo *b = float_arg(ic, n, 0, 3), *s = b ? float_arg(ic, n, 1, 3) : NULL;
  if (!s) return NULL;
  for (uint32_t i = 0; i < 2; i++)
    if ((i ? s : b)->ndim < 0)
      return infer_error(ic, n, C_rank_known, (int)i, "the rank of '%s' must be known",
                         infer_arg_name(ic, n, i));
  if (!dim_is(ic, n, 0, b, 2, expr_i64(ic->c, 4))) return NULL;
  if (b->dims && s->dims &&
      (!dim_is(ic, n, 1, s, 0, b->dims[0]) || !dim_is(ic, n, 1, s, 2, b->dims[1])))
    return NULL;
  for (uint32_t i = 2; i < 5; i++) {
    const SInfo *t = infer_tensor_arg(ic, n, i);
    if (!t) return NULL;
    if (t->ndim > 1 || (t->ndim == 1 && !dim_is(ic, n, i, t, 0, expr_i64(ic->c, 1))))
      return infer_error(ic, n, C_rank, (int)i, "'%s' must be one number",
                         infer_arg_name(ic, n, i));
  }
  if (!infer_need_int(ic, n, 2, node_in(n, 2)->sinfo)) return NULL;
  bool onnx = format && !strcmp(format, "onnx"), tf = format && !strcmp(format, "tensorflow");
  if (!onnx && !tf)
    return infer_error(ic, n, C_choice, -1, "output_format '%s' is neither onnx nor tensorflow",
                       format ? format : "None");
  const Expr *one = expr_i64(ic->c, 1), *d[3];
  const SInfo *f[3];
  if (onnx) {
    if (s->dims) d[0] = expr_product(ic->c, s->dims, 3);
    d[1] = expr_i64(ic->c, 3);
    f[0] = infer_tensor(ic, s->dims ? d : NULL, 2, DT_I64);
    f[1] = sinfo_tensor(ic->c, &one, 1, DT_I64);
    return sinfo_tuple(ic->c, f, 2);
  }
  if (s->dims) {
    d[0] = s->dims[0];
    d[1] = expr_product(ic->c, s->dims + 1, 2);
  }
  d[2] = expr_i64(ic->c, 2);
  f[0] = infer_tensor(ic, s->dims ? d : NULL, 3, DT_I64);
  f[1] = infer_tensor(ic, s->dims ? d : NULL, 2, DT_F32);
  f[2] = infer_tensor(ic, s->dims ? d : NULL, 1, DT_I64);
  return sinfo_tuple(ic->c, f, 3);
}

static const Expr *one_number(LowerCtx *lc, uint32_t i, DType d) {
  Context *c = lc->c;
  const Expr *literal = te_literal(c, node_in(lc->node, i)), *zero = I64(0);
  if (literal) return te_cast(c, d, literal);
  return te_cast(c, d, te_load(lc, te_arg(lc, i), &zero));
}

bool lower_all_class_nms(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  bool tf =
      !strcmp(node_attrs(n, vision_all_class_non_max_suppression)->output_format, "tensorflow");
  Buffer *boxes = te_arg(lc, 0), *scores = te_arg(lc, 1);
  if (!te_need_equal(lc, boxes->shape[0], scores->shape[0], "the batches") ||
      !te_need_equal(lc, boxes->shape[1], scores->shape[2], "the numbers of boxes") ||
      !te_need_equal(lc, boxes->shape[2], I64(4), "the numbers of a box"))
    return false;
  for (uint32_t i = 2; i < 5; i++)
    if (!te_literal(c, node_in(n, i)) && te_arg(lc, i)->ndim &&
        !te_need_equal(lc, te_arg(lc, i)->shape[0], I64(1), "one number and a dim"))
      return false;
  DType d = dtype_eq(boxes->dtype, DT_F64) ? DT_F64 : DT_F32;
  Buffer *order = te_sort_order(lc, scores, 2, true);
  const Expr *len = scores->shape[2], *zero = I64(0), *one = I64(1), *two = I64(2);
  Buffer *gone = te_alloc(lc, "gone", &len, 1, DT_BOOL);
  Buffer *state = te_alloc(lc, "state", &two, 1, DT_I64); /* rows written, chosen in this class */
  uint32_t ndim;
  const Expr *const *s0 = te_result_shape(lc, 0, &ndim);
  Buffer *out = te_alloc(lc, "selected", s0, ndim, DT_I64);
  Buffer *sel = tf ? te_alloc(lc, "selected_scores", s0, 2, DT_F32) : NULL;
  Buffer *total = te_alloc(lc, "num_detections", tf ? s0 : &one, 1, DT_I64);
  Var *b = VAR("b"), *k = VAR("cls"), *j = VAR("j"), *m = VAR("m"), *z = VAR("z"), *y = VAR("y"),
      *at = VAR("at"), *other = VAR("other"), *row = VAR("row");
  const Expr *vb = b->expr, *vk = k->expr, *row_now = LOADN(state, zero),
             *chosen = LOADN(state, one);
  const Expr *limit = one_number(lc, 2, DT_I64), *iou = one_number(lc, 3, d),
             *least = one_number(lc, 4, d);
  const Expr *mine[4], *its[4];
  for (int i = 0; i < 4; i++) {
    mine[i] = te_cast(c, d, LOADN(boxes, vb, at->expr, I64(i)));
    its[i] = te_cast(c, d, LOADN(boxes, vb, other->expr, I64(i)));
  }
  const Expr *share = overlap(lc, mine, its);
  Stmt *suppress = IF(AND(GE(share, iou), GT(share, expr_lit(c, d, 0))),
                      STOREN(gone, expr_bool(c, true), other->expr), NULL);
  Stmt *against = SEQ(LET(other, LOADN(order, vb, vk, ADD(ADD(j->expr, one), m->expr))), suppress);
  Stmt *put =
      tf ? SEQ(STOREN(out, vk, vb, row->expr, zero), STOREN(out, at->expr, vb, row->expr, one),
               STOREN(sel, te_cast(c, DT_F32, LOADN(scores, vb, vk, at->expr)), vb, row->expr))
         : SEQ(STOREN(out, vb, row->expr, zero), STOREN(out, vk, row->expr, one),
               STOREN(out, at->expr, row->expr, two));
  Stmt *take =
      SEQ(LET(row, row_now), put, STOREN(state, ADD(row->expr, one), zero),
          STOREN(state, ADD(chosen, one), one), FOR(m, SUB(SUB(len, j->expr), one), against));
  const Expr *score = te_cast(c, d, LOADN(scores, vb, vk, at->expr));
  const Expr *good = AND(AND(NOT(LOADN(gone, at->expr)), GT(score, least)), LT(chosen, limit));
  Stmt *visit = SEQ(LET(at, LOADN(order, vb, vk, j->expr)), IF(good, take, NULL));
  Stmt *cls = SEQ(FOR(z, len, STOREN(gone, expr_bool(c, false), z->expr)), STOREN(state, zero, one),
                  FOR(j, len, visit));
  Stmt *image = FOR(k, scores->shape[1], cls);
  Stmt *clear, *body;
  if (tf) {
    clear = FOR(y, s0[1],
                SEQ(STOREN(out, zero, vb, y->expr, zero), STOREN(out, zero, vb, y->expr, one),
                    STOREN(sel, expr_lit(c, DT_F32, 0), vb, y->expr)));
    body = FOR(b, scores->shape[0],
               SEQ(clear, STOREN(state, zero, zero), image, STOREN(total, row_now, vb)));
  } else {
    clear = FOR(y, s0[0],
                SEQ(STOREN(out, zero, y->expr, zero), STOREN(out, zero, y->expr, one),
                    STOREN(out, zero, y->expr, two)));
    body = SEQ(clear, STOREN(state, zero, zero), FOR(b, scores->shape[0], image),
               STOREN(total, row_now, zero));
  }
  te_block(lc, "all_class_nms", body);
  te_out(lc, out);
  if (tf) te_out(lc, sel);
  te_out(lc, total);
  return true;
}
