/* Notes that say where the parts of a message come from. */
#ifndef RELAXC_IR_EXPLAIN_H
#define RELAXC_IR_EXPLAIN_H

#include "ir/node.h"

/* Notes where the symbolic variables of a and b (either may be NULL) are introduced, each once:
 * "'n' is dim 0 of 'x', declared here". They belong to function f or those around it. */
void explain_vars(Context *c, const Func *f, const Expr *a, const Expr *b);

#endif
