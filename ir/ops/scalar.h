/* Short forms for the scalar expressions in the rows: they take the context from a variable `c`,
 * and K(v) takes its dtype from `x`. */
#ifndef RELAXC_IR_OPS_SCALAR_H
#define RELAXC_IR_OPS_SCALAR_H

#include "ir/ops/util.h"

#define F1(f, a) expr_call1(c, INTRIN_##f, (a))
#define F2(f, a, b) expr_call2(c, INTRIN_##f, (a), (b))
#define K(v) expr_lit(c, x->dtype, (v))
#define ADD(a, b) expr_binary(c, EXPR_ADD, (a), (b))
#define SUB(a, b) expr_binary(c, EXPR_SUB, (a), (b))
#define MUL(a, b) expr_binary(c, EXPR_MUL, (a), (b))
#define DIV(a, b) expr_binary(c, EXPR_DIV, (a), (b))
#define EQ(a, b) expr_binary(c, EXPR_EQ, (a), (b))
#define NE(a, b) expr_binary(c, EXPR_NE, (a), (b))
#define LT(a, b) expr_binary(c, EXPR_LT, (a), (b))
#define LE(a, b) expr_binary(c, EXPR_LE, (a), (b))
#define GT(a, b) expr_binary(c, EXPR_GT, (a), (b))
#define GE(a, b) expr_binary(c, EXPR_GE, (a), (b))
#define AND(a, b) expr_binary(c, EXPR_AND, (a), (b))
#define OR(a, b) expr_binary(c, EXPR_OR, (a), (b))
#define NOT(a) expr_unary(c, EXPR_NOT, (a))
#define SEL(p, a, b) te_select(c, (p), (a), (b))
#define TRUTH(a) te_cast(c, DT_BOOL, (a))

#endif
