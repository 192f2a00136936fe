/* Short forms for statements of free-form stages (te_block): they take the lowering context from a
 * variable `lc`, and the expression context, as in scalar.h, from `c`. */
#ifndef RELAXC_IR_OPS_SCRIPT_H
#define RELAXC_IR_OPS_SCRIPT_H

#include "ir/ops/scalar.h"

#define I64(v) te_i64(lc, (v))
#define LOADN(b, ...)                                                                              \
  expr_load(c, (b), (const Expr *[]){__VA_ARGS__},                                                 \
            sizeof((const Expr *[]){__VA_ARGS__}) / sizeof(const Expr *))
#define STOREN(b, value, ...)                                                                      \
  stmt_store(lc->arena, lc->node->span, (b), (const Expr *[]){__VA_ARGS__}, (value))
#define SEQ(...)                                                                                   \
  stmt_seq(lc->arena, (Stmt *[]){__VA_ARGS__}, sizeof((Stmt *[]){__VA_ARGS__}) / sizeof(Stmt *))
#define IF(cond, then_, else_) stmt_if(lc->arena, lc->node->span, (cond), (then_), (else_))
#define FOR(var, extent, body)                                                                     \
  stmt_for(lc->arena, lc->node->span, (var), te_i64(lc, 0), (extent), FOR_SERIAL, (body))
#define LET(var, value) stmt_let(lc->arena, lc->node->span, (var), (value))
#define ASSERT(cond, words) stmt_assert(lc->arena, lc->node->span, (cond), "RuntimeError", (words))
#define VAR(name) var_create(lc->c, (name), DT_I64)

#endif
