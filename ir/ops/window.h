/* Windows over the spatial axes of a tensor, shared by convolution and pooling: layouts, strides,
 * padding, dilation for one to three axes. */
#ifndef RELAXC_IR_OPS_WINDOW_H
#define RELAXC_IR_OPS_WINDOW_H

#include "ir/ops/scalar.h"

#define WINDOW_MAX 3
#define LAYOUT_BLOCKS 4

/* Where each axis stands in a layout: "NCHW" has n = 0, c = 1, at = {2, 3}. For kernels n is O and
 * c is I. A blocked layout, "NCHW16c", has axes that are the inner part of another: the positions
 * are those of the plain layout "NCHW", and the tensor's own follow from them. */
typedef struct {
  uint32_t ndim, n, c, at[WINDOW_MAX];
  uint32_t rank;                  /* of the tensor: ndim and the blocks */
  uint32_t major[WINDOW_MAX + 2]; /* where each axis of the plain layout stands in the tensor */
  uint32_t nblocks;
  struct {
    uint32_t at, of; /* position in the tensor; the plain axis that it is part of */
    int64_t size;
  } block[LAYOUT_BLOCKS];
} Layout;
/* Reads a layout of nd spatial axes; letters are 'N', 'C' (kernel: 'O', 'I') and the last nd of
 * "DHW", each once, and blocks such as "16c". False after an error that names attribute `attr`. */
bool layout_read(InferCtx *ic, const Node *n, const char *attr, const char *s, uint32_t nd,
                 bool kernel, Layout *out);
/* The dims of a tensor of layout l in the plain layout. */
const Expr *const *layout_plain_dims(InferCtx *ic, const Layout *l, const Expr *const *dims);
/* A tensor of layout l with these dims in the plain one. */
const SInfo *layout_tensor(InferCtx *ic, const Layout *l, const Expr *const *plain, DType d);

#define LAYOUT_NOT_COMPILED "a blocked layout can't be compiled; use a plain one such as NCHW"

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
