/* What the graph passes share: questions about nodes, walks, replacement. */
#ifndef RELAXC_PASSES_GRAPH_H
#define RELAXC_PASSES_GRAPH_H

#include "ir/op.h"
#include "ir/ops/attrs.h"
#include "passes/pass.h"

typedef VEC(Node *) NodeVec;
typedef VEC(Seq *) SeqVec;

/* An operator that LegalizeOps must replace: neither structural, nor a call, nor a memory form. */
static inline bool node_is_operator(const Node *n) {
  return !(node_op(n)->traits & (OPT_STRUCTURAL | OPT_CALL | OPT_MEMORY));
}
/* call_tir, call_tir_inplace, call_tir_with_grad, call_dps_packed. */
static inline bool node_is_call_tir(const Node *n) {
  return n->op == OP_call_tir || n->op == OP_call_tir_inplace || n->op == OP_call_tir_with_grad ||
         n->op == OP_call_dps_packed;
}
/* Whether n's value may be (part of) the memory of its operands: views, tuples, what passes on. */
bool node_may_alias(const Node *n);
/* The prim_func that a plain call_tir calls, or NULL. */
PrimFunc *node_callee_prim(const Node *n);
/* Same operator, payload, attributes, struct info and operands (floating ones by the same rule). */
bool node_same(const Node *a, const Node *b);
uint64_t node_hash(const Node *n);

/* All sequences of f: its body, branches, bodies of local functions; outer before inner. */
void func_seqs(Arena *a, Func *f, SeqVec *out);
/* The node of sequence s in which n stands (n itself, or the OP_IF or OP_FUNC around it); NULL when
 * n is outside of s. For a floating node: of its position nothing is known, NULL. */
Node *node_in_seq(Node *n, const Seq *s);

/* Uses of `from` become uses of `to`, which gets visible outside of its dataflow block if needed.
 */
void graph_replace(Node *from, Node *to);
/* Puts floating `n` in the place of bound `old`: position, name, uses, visibility; deletes old. */
void graph_take_place(Node *old, Node *n);
/* Binds the floating operands of n that are no leaves, before `at` (operands first). */
void graph_bind_operands(Node *at, Node *n);
/* What lowering a composite operator made takes the place of n. */
void graph_take_composite(Node *n, Node *made);
/* What came before may know more of its shape now than it did when the text was read: a result
 * whose shape depends on data got dims of its own. Infers n again if its own shape is not known. */
bool graph_learn_shape(Module *m, Node *n);
/* Recomputes which dataflow variables are visible outside of their block. */
void func_mark_outputs(Func *f);

/* call_tir of prim_func `prim` with result type out (a tuple for several), floating. */
Node *graph_call_tir(Func *f, const char *prim, Node *const *args, uint32_t n, const SInfo *out,
                     Span s);
/* Adds the variables that a value of type s defines, those that stand alone in it (Var* -> Var*).
 */
void graph_shown_vars(Map *shown, const SInfo *s);
/* Replaces symbolic variables (Var* -> const Expr*) everywhere in f, its signature included. */
void func_subst(Func *f, const Map *vars);
/* Infers all struct info of f again. False after an error. */
bool func_infer(Func *f);

/* Prim_funcs of the module by structure: the equal one that was added before, or NULL. */
typedef struct {
  Arena *a;
  Map by_hash;
} PrimIndex;
void prim_index_init(PrimIndex *x, Arena *a);
PrimFunc *prim_index_find(PrimIndex *x, PrimFunc *f);
void prim_index_add(PrimIndex *x, PrimFunc *f);

#endif
