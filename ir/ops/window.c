/* Windows over spatial axes: see window.h. */
#include "ir/ops/window.h"

#include <string.h>

/* One value for all axes, or one each; at least `least`. */
static bool read_list(InferCtx *ic, const Node *n, const char *name, IntList l, uint32_t nd,
                      int64_t least, int64_t *out) {
  if (l.n != 1 && l.n != (int32_t)nd) {
    infer_error(ic, n, C_count, -1, "expected 1 or %u values for %s but got %d", nd, name,
                l.n < 0 ? 0 : l.n);
    return false;
  }
  for (uint32_t i = 0; i < nd; i++) {
    out[i] = l.at[l.n == 1 ? 0 : i];
    if (out[i] < least || out[i] > INT32_MAX) {
      infer_error(ic, n, C_least, -1, "%s must be at least %lld but is %lld", name,
                  (long long)least, (long long)out[i]);
      return false;
    }
  }
  return true;
}

bool window_read(InferCtx *ic, const Node *n, uint32_t nd, IntList strides, IntList padding,
                 IntList dilation, Window *out) {
  out->nd = nd;
  if (!read_list(ic, n, "strides", strides, nd, 1, out->stride) ||
      !read_list(ic, n, "dilation", dilation, nd, 1, out->dilation))
    return false;
  if (padding.n == (int32_t)(2 * nd) && nd > 0) {
    IntList before = {(int32_t)nd, padding.at}, after = {(int32_t)nd, padding.at + nd};
    return read_list(ic, n, "padding", before, nd, 0, out->before) &&
           read_list(ic, n, "padding", after, nd, 0, out->after);
  }
  if (padding.n != 1 && padding.n != (int32_t)nd) {
    infer_error(ic, n, C_count, -1, "expected 1, %u or %u values for padding but got %d", nd,
                2 * nd, padding.n < 0 ? 0 : padding.n);
    return false;
  }
  if (!read_list(ic, n, "padding", padding, nd, 0, out->before)) return false;
  memcpy(out->after, out->before, sizeof out->after);
  return true;
}

const Expr *window_extent(InferCtx *ic, const Window *w, uint32_t i, const Expr *dim,
                          const Expr *k) {
  Context *c = ic->c;
  const Expr *one = expr_i64(c, 1);
  const Expr *room = ADD(dim, expr_i64(c, w->before[i] + w->after[i]));
  room = SUB(SUB(room, MUL(expr_i64(c, w->dilation[i]), SUB(k, one))), one);
  return infer_quotient(ic, room, w->stride[i], 1);
}

Buffer *window_pad(LowerCtx *lc, Buffer *b, const Layout *l, const Window *w,
                   const Expr *const *extents, const Expr *value) {
  Context *c = lc->c;
  const Expr *shape[TE_MAX_RANK];
  bool any = false;
  for (uint32_t i = 0; i < b->ndim; i++) shape[i] = b->shape[i];
  for (uint32_t i = 0; i < w->nd; i++) {
    uint32_t at = l->major[l->at[i]];
    const Expr *own = ADD(b->shape[at], te_i64(lc, w->before[i] + w->after[i]));
    shape[at] = expr_simplify(c, extents ? extents[i] : own);
    any = any || w->before[i] || !expr_proved_eq(c, shape[at], b->shape[at]);
  }
  if (!any) return b;
  te_spatial_begin(lc, "pad_temp", shape, b->ndim, b->dtype);
  const Expr *idx[TE_MAX_RANK], *inside = NULL;
  for (uint32_t i = 0; i < b->ndim; i++) idx[i] = lc->ax[i];
  for (uint32_t i = 0; i < w->nd; i++) {
    uint32_t at = l->major[l->at[i]];
    const Expr *lo = te_i64(lc, w->before[i]), *hi = expr_simplify(c, ADD(b->shape[at], lo));
    if (w->before[i]) idx[at] = SUB(lc->ax[at], lo);
    const Expr *in = w->before[i] ? GE(lc->ax[at], lo) : NULL;
    if (!expr_proved_eq(c, shape[at], hi))
      in = in ? AND(in, LT(lc->ax[at], hi)) : LT(lc->ax[at], hi);
    if (in) inside = inside ? AND(inside, in) : in;
  }
  const Expr *v = te_load(lc, b, idx);
  return te_spatial_end(lc, inside ? expr_if_then_else(c, inside, v, value) : v);
}
