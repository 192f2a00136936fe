/* Copying nodes into another place or function, with operands and symbolic variables replaced.
 */
#ifndef RELAXC_PASSES_CLONE_H
#define RELAXC_PASSES_CLONE_H

#include "passes/graph/graph.h"

typedef struct {
  PassCtx *pc;
  Func *to;
  Map nodes; /* Node * -> Node *: parameters and bound nodes, and what stands for them */
  Map vars;  /* Var * -> const Expr * */
  void (*copied)(void *ctx, const Node *from, const Node *to); /* of each bound node, or NULL */
  void *ctx;
} Clone;

void clone_init(Clone *k, PassCtx *pc, Func *to);
const SInfo *clone_sinfo(Clone *k, const SInfo *s);
/* Variables of s that have no replacement get a fresh variable of the same name. */
void clone_vars(Clone *k, const SInfo *s);
/* A floating copy of n; operands that are bound were copied before, or stay. */
Node *clone_node(Clone *k, Node *n);
/* The same of a node in a block, which may bind variables. */
Node *clone_binding(Clone *k, Node *n);
/* Copies of the nodes from `first` of block b on (NULL: from the next block on), to the end of
 * `to`. */
void clone_tail(Clone *k, const BindingBlock *b, Node *first, BindingBlock *to);
/* A whole sequence, with its result, as that of `owner` (NULL: a function's body). */
void clone_seq(Clone *k, const Seq *s, Seq *to, Node *owner, Span span);
/* Replaces the variables that stand alone in parameter type `want` by the dims of the argument's.
 */
void clone_bind_dims(Clone *k, const SInfo *want, const SInfo *have);

#endif
