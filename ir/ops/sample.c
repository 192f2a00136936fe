/* Sampling of images at positions that are data: grid_sample and the grids of affine maps.
 *
 * Positions run in float32 (float64 for such grids). Whatever they are, a pixel is only read inside
 * the data: outside it counts as 0, and positions are cut before they become integers. Reflection,
 * the cubic weights (a = -0.75) and the half-way rounding to even are those of PyTorch and ONNX. */
#include "ir/ops/window.h"

#include <string.h>

typedef struct {
  LowerCtx *lc;
  Buffer *x, *grid;
  Buffer *low[WINDOW_MAX], *part[WINDOW_MAX]; /* of each point of the grid (tabulate) */
  uint32_t nd;
  bool align, border, reflect;
  DType d; /* of positions and weights */
} Sample;

static const Expr *num(const Sample *s, double v) {
  return expr_float(s->lc->c, s->d, v);
}

static const Expr *extent(const Sample *s, uint32_t axis) {
  return te_cast(s->lc->c, s->d, s->x->shape[2 + axis]);
}

static bool one_of(const char *s, const char *const *names) {
  for (uint32_t i = 0; s && names[i]; i++)
    if (!strcmp(s, names[i])) return true;
  return false;
}

const SInfo *infer_grid_sample(InferCtx *ic, Node *n) {
  static const char *const methods[] = {"nearest", "bilinear", "bicubic", NULL};
  static const char *const modes[] = {"zeros", "border", "reflection", NULL};
  const image_grid_sample_attrs *a = n->attrs;
  const SInfo *x = infer_tensor_arg(ic, n, 0), *g = x ? infer_tensor_arg(ic, n, 1) : NULL;
  if (!g) return NULL;
  bool two = a->layout && !strcmp(a->layout, "NCHW"),
       three = a->layout && !strcmp(a->layout, "NCDHW");
  if (!two && !three)
    return infer_error(ic, n, C_layout, -1, "layout '%s' is neither NCHW nor NCDHW",
                       a->layout ? a->layout : "None");
  int32_t nd = two ? 2 : 3;
  if (!one_of(a->method, methods) || (three && !strcmp(a->method, "bicubic")))
    return infer_error(ic, n, C_choice, -1, "method '%s' is not possible here",
                       a->method ? a->method : "None");
  if (!one_of(a->padding_mode, modes))
    return infer_error(ic, n, C_choice, -1,
                       "padding_mode '%s' is none of zeros, border, reflection",
                       a->padding_mode ? a->padding_mode : "None");
  for (uint32_t i = 0; i < 2; i++) {
    const SInfo *s = i ? g : x;
    if (s->ndim >= 0 && s->ndim != nd + 2)
      return infer_error(ic, n, C_rank, (int)i, "expected rank %d for '%s' but got %s", nd + 2,
                         infer_arg_name(ic, n, i), infer_shape_text(ic, s));
    if (!infer_need_float(ic, n, i, s)) return NULL;
  }
  if (x->dims && g->dims && infer_ne(ic, x->dims[0], g->dims[0]))
    return infer_error(ic, n, C_same_dims, 1, "the batch of the grid %s is not that of the data %s",
                       infer_shape_text(ic, g), infer_shape_text(ic, x));
  if (g->dims && infer_ne(ic, g->dims[1], expr_i64(ic->c, nd)))
    return infer_error(ic, n, C_same_dims, 1, "dim 1 of the grid must be %d but the grid is %s", nd,
                       infer_shape_text(ic, g));
  if (!x->dims || !g->dims) return sinfo_tensor_ndim(ic->c, nd + 2, x->dtype);
  const Expr **d = infer_dims_copy(ic, g->dims, (uint32_t)nd + 2, 0);
  d[0] = x->dims[0];
  d[1] = x->dims[1];
  return sinfo_tensor(ic->c, d, (uint32_t)nd + 2, x->dtype);
}

static const Expr *clamp(Context *c, const Expr *v, const Expr *lo, const Expr *hi) {
  return expr_max(c, expr_min(c, v, hi), lo);
}

/* A position mirrored at the edges until it lies inside. */
static const Expr *mirror(const Sample *s, const Expr *v, uint32_t axis) {
  Context *c = s->lc->c;
  const Expr *lo = num(s, s->align ? 0 : -0.5), *size = extent(s, axis);
  const Expr *span = s->align ? SUB(size, num(s, 1)) : size;
  const Expr *none = LE(span, num(s, 0)), *by = SEL(none, num(s, 1), span);
  const Expr *far = F1(fabs, SUB(v, lo)), *extra = F2(fmod, far, by);
  const Expr *turns = F2(fmod, F1(floor, DIV(far, by)), num(s, 2));
  const Expr *r = ADD(SEL(EQ(turns, num(s, 0)), extra, SUB(by, extra)), lo);
  return SEL(none, num(s, 0), r);
}

/* The position along an axis that grid value v in [-1, 1] means. */
static const Expr *position(const Sample *s, const Expr *v, uint32_t axis, bool pad) {
  Context *c = s->lc->c;
  const Expr *size = extent(s, axis), *one = num(s, 1), *half = num(s, 0.5);
  const Expr *p = ADD(v, one);
  p = s->align ? MUL(MUL(p, SUB(size, one)), half) : SUB(MUL(MUL(p, size), half), half);
  if (pad && s->reflect) p = mirror(s, p, axis);
  if (pad && (s->reflect || s->border)) p = clamp(c, p, num(s, 0), SUB(size, one));
  /* Far outside one place is as good as another, and fits an integer. */
  return clamp(c, p, num(s, -4), ADD(size, num(s, 4)));
}

/* The pixel at integer positions, 0 outside. */
static const Expr *pixel(const Sample *s, const Expr *const *at) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  const Expr *idx[WINDOW_MAX + 2] = {lc->ax[0], lc->ax[1]}, *in = NULL;
  for (uint32_t i = 0; i < s->nd; i++) {
    idx[2 + i] = at[i];
    const Expr *ok = AND(GE(at[i], te_i64(lc, 0)), LT(at[i], s->x->shape[2 + i]));
    in = in ? AND(in, ok) : ok;
  }
  const Expr *zero = expr_lit(c, s->d, 0);
  return expr_if_then_else(c, in, te_cast(c, s->d, te_load(lc, s->x, idx)), zero);
}

/* The position of a point of the grid along data axis i; the current stage has the grid's axes but
 * for the coordinates, or with the channels in the place of those. */
static const Expr *grid_position(const Sample *s, uint32_t i, bool channels, bool pad) {
  LowerCtx *lc = s->lc;
  const Expr *at[WINDOW_MAX + 2];
  at[0] = lc->ax[0];
  at[1] = te_i64(lc, s->nd - 1 - i);
  for (uint32_t k = 0; k < s->nd; k++) at[2 + k] = lc->ax[1 + channels + k];
  return position(s, te_cast(lc->c, s->d, te_load(lc, s->grid, at)), i, pad);
}

/* A stage over the points of the grid: the integer position along axis i, or how far behind it the
 * point lies. All channels share it. */
static Buffer *tabulate(const Sample *s, uint32_t i, bool nearest, bool rest) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  const Expr *shape[WINDOW_MAX + 1] = {s->grid->shape[0]};
  for (uint32_t k = 0; k < s->nd; k++) shape[1 + k] = s->grid->shape[2 + k];
  te_spatial_begin(lc, rest ? "part" : "low", shape, s->nd + 1, rest ? s->d : DT_I64);
  const Expr *p = grid_position(s, i, false, true), *low = nearest ? F1(round, p) : F1(floor, p);
  return te_spatial_end(lc, rest ? SUB(p, low) : te_cast(c, DT_I64, low));
}

/* The table's value for the point of the current result. */
static const Expr *look_up(const Sample *s, Buffer *table) {
  const Expr *at[WINDOW_MAX + 1] = {s->lc->ax[0]};
  for (uint32_t k = 0; k < s->nd; k++) at[1 + k] = s->lc->ax[2 + k];
  return te_load(s->lc, table, at);
}

static const Expr *linear(const Sample *s) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  const Expr *sum = NULL;
  for (uint32_t corner = 0; corner < 1u << s->nd; corner++) {
    const Expr *at[WINDOW_MAX], *v = NULL;
    for (uint32_t i = 0; i < s->nd; i++) {
      const Expr *low = look_up(s, s->low[i]), *part = look_up(s, s->part[i]);
      bool next = corner >> (s->nd - 1 - i) & 1;
      at[i] = next ? ADD(low, te_i64(lc, 1)) : low;
      const Expr *w = next ? part : SUB(num(s, 1), part);
      v = v ? MUL(v, w) : w;
    }
    v = MUL(pixel(s, at), v);
    sum = sum ? ADD(sum, v) : v;
  }
  return sum;
}

static const Expr *cubic_weight(const Sample *s, const Expr *t, uint32_t tap) {
  Context *c = s->lc->c;
  const double a = -0.75;
  bool inner = tap == 1 || tap == 2;
  const Expr *x = tap == 0   ? ADD(t, num(s, 1))
                  : tap == 1 ? t
                  : tap == 2 ? SUB(num(s, 1), t)
                             : SUB(num(s, 2), t);
  if (inner) {
    const Expr *r = SUB(MUL(num(s, a + 2), x), num(s, a + 3));
    return ADD(MUL(MUL(r, x), x), num(s, 1));
  }
  const Expr *r = SUB(MUL(num(s, a), x), num(s, 5 * a));
  return SUB(MUL(ADD(MUL(r, x), num(s, 8 * a)), x), num(s, 4 * a));
}

static const Expr *cubic(const Sample *s, const Expr *const *p) {
  LowerCtx *lc = s->lc;
  Context *c = lc->c;
  const Expr *tap[2][4], *weight[2][4];
  for (uint32_t i = 0; i < 2; i++) {
    const Expr *low = F1(floor, p[i]), *part = SUB(p[i], low);
    for (uint32_t k = 0; k < 4; k++) {
      const Expr *at = ADD(low, num(s, (double)k - 1)), *last = SUB(extent(s, i), num(s, 1));
      if (s->reflect) at = mirror(s, at, i);
      if (s->reflect || s->border) at = clamp(c, at, num(s, 0), last);
      tap[i][k] = te_cast(c, DT_I64, at);
      weight[i][k] = cubic_weight(s, part, k);
    }
  }
  const Expr *sum = NULL;
  for (uint32_t y = 0; y < 4; y++) {
    const Expr *row = NULL;
    for (uint32_t x = 0; x < 4; x++) {
      const Expr *at[2] = {tap[0][y], tap[1][x]}, *v = MUL(pixel(s, at), weight[1][x]);
      row = row ? ADD(row, v) : v;
    }
    row = MUL(row, weight[0][y]);
    sum = sum ? ADD(sum, row) : row;
  }
  return sum;
}

bool lower_grid_sample(LowerCtx *lc, Node *n) {
  const image_grid_sample_attrs *a = n->attrs;
  Buffer *x = te_arg(lc, 0), *g = te_arg(lc, 1);
  uint32_t nd = x->ndim - 2;
  if (!te_need_equal(lc, x->shape[0], g->shape[0], "the batches of data and grid") ||
      !te_need_equal(lc, g->shape[1], te_i64(lc, nd), "the number of coordinates"))
    return false;
  bool wide = dtype_eq(x->dtype, DT_F64) || dtype_eq(g->dtype, DT_F64);
  Sample s = {.lc = lc,
              .x = x,
              .grid = g,
              .nd = nd,
              .align = a->align_corners,
              .border = !strcmp(a->padding_mode, "border"),
              .reflect = !strcmp(a->padding_mode, "reflection"),
              .d = wide ? DT_F64 : DT_F32};
  bool is_cubic = !strcmp(a->method, "bicubic"), is_nearest = !strcmp(a->method, "nearest");
  for (uint32_t i = 0; !is_cubic && i < nd; i++) {
    s.low[i] = tabulate(&s, i, is_nearest, false);
    if (!is_nearest) s.part[i] = tabulate(&s, i, false, true);
  }
  te_result_begin(lc, 0, "T_grid_sample");
  const Expr *p[WINDOW_MAX];
  for (uint32_t i = 0; i < nd; i++)
    p[i] = is_cubic ? grid_position(&s, i, true, false) : look_up(&s, s.low[i]);
  te_out_value(lc, is_cubic ? cubic(&s, p) : is_nearest ? pixel(&s, p) : linear(&s));
  return true;
}

/* ---- affine_grid ---- */
const SInfo *infer_affine_grid(InferCtx *ic, Node *n) {
  const SInfo *t = infer_tensor_arg(ic, n, 0), *s = node_in(n, 1)->sinfo;
  if (!t || !infer_need_float(ic, n, 0, t)) return NULL;
  if (s->kind != SINFO_SHAPE || (s->ndim >= 0 && s->ndim != 2 && s->ndim != 3))
    return infer_error(ic, n, C_shape, 1, "expected a shape of 2 or 3 values but got %s",
                       infer_type_text(ic, s));
  if (t->ndim >= 0 && t->ndim != 3)
    return infer_error(ic, n, C_rank, 0, "expected rank 3 for 'data' but got %s",
                       infer_shape_text(ic, t));
  if (s->ndim < 0) return sinfo_tensor_ndim(ic->c, -1, t->dtype);
  for (int32_t i = 1; t->dims && i < 3; i++)
    if (infer_ne(ic, t->dims[i], expr_i64(ic->c, s->ndim + i - 1)))
      return infer_error(ic, n, C_same_dims, 0, "expected (batch, %d, %d) for 'data' but got %s",
                         s->ndim, s->ndim + 1, infer_shape_text(ic, t));
  if (!t->dims || !s->dims) return sinfo_tensor_ndim(ic->c, s->ndim + 2, t->dtype);
  const Expr *d[WINDOW_MAX + 2] = {t->dims[0], expr_i64(ic->c, s->ndim)};
  for (int32_t i = 0; i < s->ndim; i++) d[2 + i] = s->dims[i];
  return sinfo_tensor(ic->c, d, (uint32_t)s->ndim + 2, t->dtype);
}

bool lower_affine_grid(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *t = te_arg(lc, 0);
  DType d = te_acc_dtype(t->dtype);
  uint32_t ndim;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim);
  uint32_t nd = ndim - 2;
  for (uint32_t i = 1; i < 3; i++)
    if (!te_need_equal(lc, t->shape[i], te_i64(lc, nd + i - 1), "the dims of the affine maps"))
      return false;
  te_result_begin(lc, 0, "T_affine_grid");
  const Expr *at[3] = {lc->ax[0], lc->ax[1], te_i64(lc, nd)};
  const Expr *v = te_cast(c, d, te_load(lc, t, at)), *one = expr_lit(c, d, 1);
  for (uint32_t i = 0; i < nd; i++) {
    const Expr *k = te_cast(c, d, lc->ax[2 + i]), *size = te_cast(c, d, shape[2 + i]), *pos;
    const Expr *two = expr_lit(c, d, 2);
    if (node_attrs(n, image_affine_grid)->align_corners) {
      const Expr *alone = LE(shape[2 + i], te_i64(lc, 1));
      pos = SUB(DIV(MUL(two, k), SEL(alone, one, SUB(size, one))), one);
      pos = SEL(alone, expr_lit(c, d, 0), pos);
    } else {
      pos = SUB(DIV(ADD(MUL(two, k), one), size), one);
    }
    at[2] = te_i64(lc, nd - 1 - i);
    v = ADD(v, MUL(te_cast(c, d, te_load(lc, t, at)), pos));
  }
  te_out_value(lc, v);
  return true;
}

/* ---- hamming_window ---- */
const SInfo *infer_hamming_window(InferCtx *ic, Node *n) {
  const Expr *v[4];
  DType d = node_attrs(n, hamming_window)->dtype;
  for (uint32_t i = 0; i < 4; i++)
    if (!infer_prim_arg(ic, n, i, &v[i])) return NULL;
  if (!dtype_known(d)) d = DT_F32;
  if (!dtype_is_float(d)) return infer_error(ic, n, C_float, -1, "the dtype must be a float");
  const SInfo *size = node_in(n, 0)->sinfo;
  if (!dtype_is_int(size->dtype))
    return infer_error(ic, n, C_int, 0, "the size must be an integer");
  if (!v[0]) return sinfo_tensor_ndim(ic->c, 1, d);
  const Expr *len = te_cast(ic->c, DT_I64, v[0]);
  int64_t known;
  if (expr_const_int(ic->c, len, &known) && known < 1)
    return infer_error(ic, n, C_least, 0, "the size must be positive but is %lld",
                       (long long)known);
  return sinfo_tensor(ic->c, &len, 1, d);
}

bool lower_hamming_window(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  te_result_begin(lc, 0, "T_hamming_window");
  const Expr *alpha = te_cast(c, DT_F64, te_prim(lc, 2)),
             *beta = te_cast(c, DT_F64, te_prim(lc, 3));
  const Expr *size = lc->extents[0], *whole = te_cast(c, DT_BOOL, te_prim(lc, 1));
  const Expr *steps = SEL(whole, size, expr_max(c, SUB(size, te_i64(lc, 1)), te_i64(lc, 1)));
  const Expr *turn = expr_float(c, DT_F64, 6.283185307179586477);
  const Expr *x = DIV(MUL(turn, te_cast(c, DT_F64, lc->ax[0])), te_cast(c, DT_F64, steps));
  const Expr *v = SUB(alpha, MUL(beta, F1(cos, x)));
  te_out_value(lc, SEL(EQ(size, te_i64(lc, 1)), expr_float(c, DT_F64, 1), v));
  return true;
}
