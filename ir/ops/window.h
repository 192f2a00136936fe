/* Windows over the spatial axes of a tensor, shared by convolution and pooling: strides, padding,
 * dilation for one to three axes. */
#ifndef RELAXC_IR_OPS_WINDOW_H
#define RELAXC_IR_OPS_WINDOW_H

#include "ir/ops/layout.h"

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
 * an expression beyond the window's own (NULL: w->after). No spatial axis is in blocks. */
Buffer *window_pad(LowerCtx *lc, Buffer *b, const Layout *l, const Window *w,
                   const Expr *const *extents, const Expr *value);

#endif
