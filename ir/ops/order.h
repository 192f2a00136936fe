/* Orders of axes, and what an operator's layout hook says of them.
 *
 * A hook is asked when an operand has come in another order than the program gives it, or when a
 * layout is desired for the operator: in which order does it want each operand, in which order does
 * its result come, and how do its attributes read then? An axis may be in blocks, NCHW16c being
 * (N, C / 16, H, W, 16): a hook for which that is too much says no. Struct info of nodes is that of
 * the program as long as hooks are asked; only the orders tell what has changed.
 */
#ifndef RELAXC_IR_OPS_ORDER_H
#define RELAXC_IR_OPS_ORDER_H

#include "ir/op.h"

enum { ORDER_MAX = 8 }; /* rank; tensors of more axes stay as they are */

typedef struct {
  uint32_t n;               /* rank of the tensor; 0: the axes stand as in the program */
  uint8_t at[ORDER_MAX];    /* at[i]: which of the program's axes stands at i, as R.permute_dims */
                            /* has it; twice where an axis is in blocks */
  int32_t inner[ORDER_MAX]; /* 0: the axis, or its outer part; else its inner part, of this size */
} AxisOrder;

typedef struct LayoutCtx {
  Arena *arena;               /* for attributes */
  const char *const *desired; /* layouts asked of this operator, in the order of its operands, */
  uint32_t ndesired;          /* then that of the result */
  const AxisOrder **in;       /* of each operand: its order; of a tuple: that of each field */
  AxisOrder **want;           /* the same, at first all as in the program. One of more axes than */
                              /* the operand has asks for dims of 1 in front, then the order */
  Node **instead;             /* operands that name axes may be replaced; NULL: they stay */
  AxisOrder *out;             /* of the result or of each of its fields */
  uint32_t nout;
  void *attrs; /* a copy, to be changed; NULL when the operator has none */
  bool final;  /* the answer will be taken: functions may be made for it */
} LayoutCtx;

bool order_is_plain(const AxisOrder *o);
bool order_equal(const AxisOrder *a, const AxisOrder *b);
/* Where the program's axis, or its outer part, stands. */
uint32_t order_place(const AxisOrder *o, uint32_t axis);
/* How many axes the program has; the size of this one's blocks, 0: it is whole; any blocks. */
uint32_t order_rank(const AxisOrder *o);
int64_t order_block(const AxisOrder *o, uint32_t axis);
bool order_has_blocks(const AxisOrder *o);
/* Without the blocks that aren't known to divide their axis of s, which is as in the program. */
void order_fit_blocks(Context *c, AxisOrder *o, const SInfo *s);
/* From layout "NCHW" to layout "NHWC" or "NCHW16c"; false when they don't have the same letters,
 * once each, and the inner parts once at most. */
bool order_of_letters(const char *from, const char *to, AxisOrder *out);
/* The other way: what layout `from` is then. NULL when it has another rank. */
char *order_letters(Arena *a, const char *from, const AxisOrder *o);

#endif
