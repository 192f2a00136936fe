/* Struct info of the operators of gradients: that of what the gradient is for, their second
 * operand. */
#include "ir/ops/util.h"

const SInfo *infer_as_second(InferCtx *ic, Node *n) {
  if (!infer_tensor_arg(ic, n, 0)) return NULL;
  return infer_tensor_arg(ic, n, 1);
}
