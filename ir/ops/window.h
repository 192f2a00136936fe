/* Windows over the spatial axes of a tensor, shared by convolution and pooling: layouts, strides,
 * padding, dilation for one to three axes. */
#ifndef RELAXC_IR_OPS_WINDOW_H
#define RELAXC_IR_OPS_WINDOW_H

#include "ir/ops/scalar.h"

#define WINDOW_MAX 3

/* Where each axis stands in a layout: "NCHW" has n = 0, c = 1, at = {2, 3}. For kernels n is O and
 * c is I. */
typedef struct {
  uint32_t ndim, n, c, at[WINDOW_MAX];
} Layout;
/* Reads a layout of nd spatial axes; letters are 'N', 'C' (kernel: 'O', 'I') and the last nd of
 * "DHW", each once. False after an error that names attribute `attr`. */
bool layout_read(InferCtx *ic, const Node *n, const char *attr, const char *s, uint32_t nd,
                 bool kernel, Layout *out);

typedef struct {
  uint32_t nd;
  int64_t stride[WINDOW_MAX], dilation[WINDOW_MAX], before[WINDOW_MAX], after[WINDOW_MAX];
} Window;
/* One value stands for all axes; padding of nd values is symmetric, of 2 * nd values first all
 * before, then all after. False after an error. */
bool window_read(InferCtx *ic, const Node *n, uint32_t nd, IntList strides, IntList padding,
                 IntList dilation, Window *out);
/* Extent of the result along axis i for a kernel of extent k. */
const Expr *window_extent(InferCtx *ic, const Window *w, uint32_t i, const Expr *dim,
                          const Expr *k);

/* A copy of b with a border along the spatial axes, or b itself when there is none. after[i] may be
 * an expression beyond the window's own (NULL: w->after). */
Buffer *window_pad(LowerCtx *lc, Buffer *b, const Layout *l, const Window *w,
                   const Expr *const *extents, const Expr *value);

#endif
