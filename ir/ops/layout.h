/* Layouts: strings such as "NCHW", "OIHW" and "NCHW16c" that say where the axes of images and
 * kernels stand, and what follows from them for shapes and index expressions. A lower-case letter
 * with a number is the inner part of an axis: NCHW16c is (N, C / 16, H, W, 16). */
#ifndef RELAXC_IR_OPS_LAYOUT_H
#define RELAXC_IR_OPS_LAYOUT_H

#include "ir/ops/scalar.h"

#define WINDOW_MAX 3                 /* spatial axes */
#define LAYOUT_AXES (WINDOW_MAX + 2) /* of a plain layout */
#define LAYOUT_BLOCKS 4
#define LAYOUT_RANK (LAYOUT_AXES + LAYOUT_BLOCKS)

/* Reads an axis off the front of a layout string: its letter, in upper case, and of an inner part
 * the size, else 0. False when there is none. */
bool layout_next(const char **s, char *axis, int32_t *size);

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
/* A tensor of layout l with these dims in the plain one, n's result. NULL after an error: a block
 * doesn't divide its axis. */
const SInfo *layout_tensor(InferCtx *ic, const Node *n, const Layout *l, const Expr *const *plain,
                           DType d);

/* ---- index expressions ---- */
/* A position along an axis of the plain layout: outer * size + inner, or `whole` where size is 0.
 * Operands in blocks of one size exchange parts, so that no division stays in an index. */
typedef struct {
  const Expr *whole, *outer, *inner;
  int64_t size;
} LayoutPos;

/* Whether a spatial axis is in blocks: windows over it are not linear in the tensor's axes. */
bool layout_splits_space(const Layout *l);
/* The block of this plain axis when it has just one, else 0. */
int64_t layout_block_size(const Layout *l, uint32_t axis);
/* The position as one expression. */
const Expr *layout_whole(Context *c, const LayoutPos *p);
/* From indices of a tensor of layout l to positions along its plain axes. */
void layout_positions(Context *c, const Layout *l, const Expr *const *idx, LayoutPos *plain);
/* The other way. */
void layout_index(Context *c, const Layout *l, const LayoutPos *plain, const Expr **idx);

/* ---- tensors in lowering ---- */
/* b, of layout *l, as a lowering takes it: through a copy in the plain layout, which *l becomes,
 * where a spatial axis is in blocks, or any when `all`. Else b itself; blocks of channels stay. */
Buffer *layout_operand(LowerCtx *lc, Buffer *b, Layout *l, bool all);
/* Result 0 in the operator's own layout, with the dims it has there, and its shape in the layout
 * that a lowering makes it in. */
typedef struct {
  Layout own;
  uint32_t nblocks; /* of the layout it is made in */
  const Expr *const *dims, *const *shape;
} LayoutResult;
/* *l: the operator's own layout, then the one to make the result in; chosen as by layout_operand.
 */
LayoutResult layout_result_begin(LowerCtx *lc, Layout *l, bool all);
/* The result has these dims in the plain layout: what inference could not see, that blocks divide
 * their axes. False after an error. */
bool layout_need_blocks(LowerCtx *lc, const LayoutResult *r, const Expr *const *plain);
/* b, in the layout it was to be made in, becomes the result. Always true. */
bool layout_result_end(LowerCtx *lc, Buffer *b, const LayoutResult *r);

#endif
