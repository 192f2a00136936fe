/* Prototypes of all hooks, made from the rows, and of the helpers that the groups share. A hook
 * that several rows name is declared several times alike, which C allows. */
#ifndef RELAXC_IR_OPS_HOOKS_H
#define RELAXC_IR_OPS_HOOKS_H

#include "ir/ops/attrs.h"
#include "ir/te.h"

/* The words for absent hooks stand for a name that is never defined or used. */
#define NO_LOWER hook_absent_lower
#define TODO_LOWER hook_absent_lower
#define NO_LAYOUT hook_absent_layout
#define TODO_LAYOUT hook_absent_layout
#define OP(id, name, args, attrs, traits, infer, lower, grad, layout, ...)                         \
  const SInfo *infer(InferCtx *ic, Node *n);                                                       \
  bool lower(LowerCtx *lc, Node *n);                                                               \
  bool layout(struct LayoutCtx *lc, const Node *n);
#include "ir/ops/all.def"
#undef OP
#undef NO_LOWER
#undef TODO_LOWER
#undef NO_LAYOUT
#undef TODO_LAYOUT

#endif
