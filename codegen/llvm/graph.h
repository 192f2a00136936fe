/* Values of the graph level at run time: what graph.c and graph_call.c share. */
#ifndef RELAXC_CODEGEN_LLVM_GRAPH_H
#define RELAXC_CODEGEN_LLVM_GRAPH_H

#include "codegen/llvm/cg.h"
#include "ir/op.h"

typedef struct GVal {
  const SInfo *si;
  LLVMValueRef ptr;   /* tensor: data; storage: start */
  LLVMValueRef prim;  /* register value */
  LLVMValueRef *dims; /* tensor: NULL when si->dims says it; shape: its values */
  uint32_t n;         /* tuple */
  struct GVal **fields;
} GVal;
typedef VEC(GVal *) GVals;

typedef struct Graph {
  Fn *fn;
  Cg *cg;
  Arena *arena;
  Host *host;
  Map vals;               /* Node* -> GVal* */
  Map dests;              /* Node* -> int32_t[leaves]: the output it is computed into, or -1 */
  Map offsets;            /* Node* -> const Dim*[leaves]: place in the workspace */
  const Dim *total;       /* bytes of workspace so far */
  Map signs;              /* Dim*: known not to be negative, or checked */
  VEC(const Dim *) early; /* dims to check together with the sizes */
  LLVMValueRef *outs;     /* output pointers */
  LLVMValueRef ws;
  LLVMValueRef stack;   /* where the calls of an endless function began */
  bool wants_weights;   /* a constant of the function lies in the weights file */
  LLVMValueRef weights; /* its address, then */
  uint32_t branches;    /* depth of branches */
} Graph;

GVal *graph_value(Graph *g, Node *n);
/* Leaves of a value in order. */
void gval_flatten(Graph *g, GVal *v, GVals *out);
uint32_t sinfo_leaves(const SInfo *si);
/* Run-time extent of dim i of a tensor value, or value i of a shape. */
LLVMValueRef gval_dim(Graph *g, GVal *v, uint32_t i);
/* Memory pushed here is popped where the function returns, also if this is in a branch. */
void graph_keep(Graph *g, LLVMValueRef p);
/* Memory for leaf `leaf` of node n, of tensor type si: an output buffer or workspace. */
GVal *graph_alloc(Graph *g, Node *n, uint32_t leaf, const SInfo *si);
/* Copies tensor v's elements to memory `to`. */
void gval_copy(Graph *g, GVal *v, LLVMValueRef to);
/* Does d consist of the function's own symbolic dims? */
bool graph_known_early(Graph *g, const Dim *d);
/* sizes.c: the dims of a tensor, or of those in a tuple, must not be negative. */
void graph_check_dims(Graph *g, const SInfo *si);
bool dim_surely_natural(Context *c, const Dim *d);
/* graph_call.c: OP_CALL, call_tir, packed functions. */
GVal *graph_call(Graph *g, Node *n);
bool graph_calls(const Node *n);
GVal *graph_message(Graph *g, Node *n); /* R.print, R.assert_op */
/* weights.c */
void weights_open(Graph *g); /* at a function's start */
LLVMValueRef const_address(Graph *g, const ConstData *d);

#endif
