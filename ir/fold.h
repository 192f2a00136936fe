/* Constant folding at construction (used by ir/expr.c). */
#ifndef RELAXC_IR_FOLD_H
#define RELAXC_IR_FOLD_H

#include "ir/expr.h"

/* The literal that e is, seen through a broadcast; NULL when it is none. */
static inline const Expr *expr_literal(const Expr *e) {
  if (e->kind == EXPR_BROADCAST) e = e->arg[0];
  return e->kind == EXPR_INT || e->kind == EXPR_FLOAT ? e : NULL;
}

/* The folded value, or NULL where nothing folds. Operands agree in type. */
const Expr *fold_binary(Context *c, ExprKind k, const Expr *a, const Expr *b);
const Expr *fold_unary(Context *c, ExprKind k, const Expr *a);
const Expr *fold_cast(Context *c, DType d, const Expr *a);

#endif
