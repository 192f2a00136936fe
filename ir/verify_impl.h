/* What the parts of the verifier share (ir/verify*.c). */
#ifndef RELAXC_IR_VERIFY_IMPL_H
#define RELAXC_IR_VERIFY_IMPL_H

#include "ir/op.h"
#include "ir/verify.h"

typedef struct {
  Module *m;
  Context *c;
  Arena *arena; /* scratch */
  const char *after;
  bool ok;
  /* what is in scope, with a value that is not NULL: nodes by id; Var * and Buffer * */
  Map nodes, visible;
  VEC(uint32_t) defined_nodes; /* in order, for leaving scopes */
  VEC(const void *) defined;
  uint32_t scope, next_scope; /* number of the current scope */
  Map checked;                /* (expression or node id, scope) checked already */
  /* blocks with axes around, and for each loop variable how many stood around its loop */
  uint32_t blocks;
  Map loop_blocks; /* Var * -> number + 1 */
} Verifier;

/* Reports a violation of rule `rule` ("R3", "T5"). */
void verify_fail(Verifier *v, Span s, const char *rule, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct {
  uint32_t nodes, others, scope;
} VerifyScope;
VerifyScope verify_enter(Verifier *v);
void verify_leave(Verifier *v, VerifyScope s);
void verify_define(Verifier *v, const void *key);
static inline bool verify_sees(const Verifier *v, const void *key) {
  return map_getp(&v->visible, key) != NULL;
}
/* True the first time for (kind, id) in the current scope. */
bool verify_once(Verifier *v, uint64_t kind, uint32_t id);

/* A dim for a message: literals of every type are bare. */
void verify_print_dim(Text *t, const Expr *e);

/* verify_call.c: R8, R9, R11 for node n whose callee is in[0]. */
void verify_call(Verifier *v, const Node *n);
/* verify_tir.c */
void verify_primfunc(Verifier *v, const PrimFunc *f);
/* Checks an expression's variables and operand types with the rules of the tensor level (`tir`) or
 * of the graph level. */
void verify_expr(Verifier *v, Span s, const Expr *e, bool tir);

#endif
