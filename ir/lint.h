/* Warnings about what is well-formed but hardly meant. */
#ifndef RELAXC_IR_LINT_H
#define RELAXC_IR_LINT_H

#include "ir/module.h"

/* A module as read and verified: values that nothing uses, functions that nothing reaches. */
void module_lint(Module *m);
/* Accesses of prim_funcs that are out of range for certain (-Windex-bounds); part of module_lint.
 */
void lint_bounds(Module *m);

#endif
