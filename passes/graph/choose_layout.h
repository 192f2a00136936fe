/* What "auto" in ConvertLayout's desired_layouts stands for. */
#ifndef RELAXC_PASSES_GRAPH_CHOOSE_LAYOUT_H
#define RELAXC_PASSES_GRAPH_CHOOSE_LAYOUT_H

#include "ir/ops/order.h"
#include "passes/pass.h"

/* Layouts of a convolution's data, weights and result. */
typedef struct {
  const char *at[3];
} ChosenLayouts;

typedef enum { WORKS_PLAIN = 1, WORKS_LAST } WorksIn;

typedef struct {
  Map convolutions; /* Node * -> ChosenLayouts * */
  Map others;       /* Node * -> WorksIn of operators that don't take their operands as they come */
} LayoutChoice;

/* The orders of a value when its images have their channels last. */
AxisOrder *orders_last(Arena *a, const SInfo *s);
/* Chooses for all of f. */
void layouts_choose(PassCtx *pc, Func *f, LayoutChoice *choice);

#endif
