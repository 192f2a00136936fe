/* Tensor expressions: how an operator states its tensor-level meaning.
 *
 * A lower hook gets a LowerCtx with one buffer per flattened tensor operand, builds stages with the
 * calls below, and names the results. The driver of LegalizeOps turns that into one schedulable
 * prim_func (loops + blocks, the same form TVM's legalisation has) and a call_tir.
 *
 *   bool lower_softmax(LowerCtx *lc, Node *n) {
 *     Buffer *x = te_in(lc, 0);
 *     ...
 *     te_reduce_begin(lc, "T_softmax_maxelem", outer, nouter, dtype, &axis_extent, 1);
 *     Buffer *m = te_reduce_end(lc, TE_MAX, te_load(lc, x, idx));
 *     te_spatial_begin(lc, "T_softmax_exp", shape, ndim, dtype);
 *     Buffer *e = te_spatial_end(lc, te_call1(exp, ...));
 *     ...
 *     te_out(lc, result);
 *     return true;
 *   }
 */
#ifndef RELAXC_IR_TE_H
#define RELAXC_IR_TE_H

#include "ir/op.h"

#define TE_MAX_RANK 32
#define TE_MAX_AXES (2 * TE_MAX_RANK) /* of one stage: result axes and summed ones */

typedef enum { TE_SUM, TE_PROD, TE_MAX, TE_MIN, TE_ALL, TE_ANY } TeReduce;

typedef struct LowerCtx {
  Context *c;
  Module *m;
  Arena *arena;
  Node *node;
  PrimFunc *func;
  const char *name;  /* base name for the prim_func */
  VEC(Buffer *) ins; /* flattened tensor operands, parameters of the prim_func */
  VEC(Buffer *) outs;
  VEC(Buffer *) temps; /* root allocations */
  VEC(Stmt *) stages;
  VEC(Var *) scalars; /* scalar parameters (prim operands) */
  /* the stage being built: */
  Var *axes[TE_MAX_AXES];      /* block axes, spatial first then reduction */
  const Expr *ax[TE_MAX_AXES]; /* the same as expressions: what hooks index with */
  uint32_t nspatial, nreduce;
  const Expr *extents[TE_MAX_AXES];
  const char *stage_name;
  DType stage_dtype;
  Node *composite; /* OPT_COMPOSITE: the node built in place of lc->node */
  /* how the prim_func is called: */
  VEC(Node *) in_nodes;     /* for each of ins, the tensor passed */
  VEC(Node *) scalar_nodes; /* for each of scalars, the prim value passed */
  bool *in_used;            /* for each of ins: a hook asked for the buffer */
  uint32_t *first_in;       /* per operand of the node: its first buffer in ins */
  uint32_t *count_in;       /* and how many it has */
  Map vars;                 /* Var* of the node's function -> Expr* in the prim_func */
  Map names;                /* hash of a name -> taken */
} LowerCtx;

/* Operand buffer i (flattened); refused before with a diagnostic if its shape is unknown. */
Buffer *te_in(LowerCtx *lc, uint32_t i);
/* Begins a stage whose result has this shape; lc->ax[0..ndim) are its index expressions. */
void te_spatial_begin(LowerCtx *lc, const char *name, const Expr *const *shape, uint32_t ndim,
                      DType d);
/* out[ax] = value; returns the new buffer. */
Buffer *te_spatial_end(LowerCtx *lc, const Expr *value);
/* Reduction: lc->ax[0..nspatial) result axes, lc->ax[nspatial..+nreduce) reduction axes. */
void te_reduce_begin(LowerCtx *lc, const char *name, const Expr *const *shape, uint32_t nspatial,
                     DType d, const Expr *const *reduce, uint32_t nreduce);
/* init = identity of r (or `init` when not NULL); out = out r value. */
Buffer *te_reduce_end(LowerCtx *lc, TeReduce r, const Expr *value);
Buffer *te_reduce_end_custom(LowerCtx *lc, const Expr *init,
                             const Expr *(*combine)(Context *, const Expr *acc, const Expr *v),
                             const Expr *value);
/* A stage of free form, for what no single store per element expresses (scatter, scans): a buffer
 * that starts undefined, and a statement of loops, stores and assertions as one block. Such a
 * function is neither fused nor scheduled. */
Buffer *te_alloc(LowerCtx *lc, const char *name, const Expr *const *shape, uint32_t ndim, DType d);
void te_block(LowerCtx *lc, const char *name, Stmt *body);
/* Serial loops around body, vars[0] outermost. */
Stmt *te_loops(LowerCtx *lc, Var *const *vars, const Expr *const *extents, uint32_t n, Stmt *body);
/* Runs a loop of a free-form stage on several threads, its iterations being independent; `steps` is
 * about what one of them takes (0: not known), so that a thread takes enough of them. */
void te_parallel(LowerCtx *lc, Stmt *loop, int64_t steps);
/* Names a result (several for a tuple result, in order). It must be a stage's buffer. */
void te_out(LowerCtx *lc, Buffer *b);
/* A composite operator: the hook built `n` (floating or bound before lc->node) from other
 * operators. Any hook may do so instead of building stages; OPT_COMPOSITE says that it always does.
 */
void te_composite(LowerCtx *lc, Node *n);
/* Load with NumPy broadcasting of b against result axes idx[0..n) (right-aligned; dims of 1 read
 * 0). */
const Expr *te_load_bcast(LowerCtx *lc, Buffer *b, const Expr *const *idx, uint32_t n);
static inline const Expr *te_load(LowerCtx *lc, Buffer *b, const Expr *const *idx) {
  return expr_load(lc->c, b, idx, b->ndim);
}
/* Reports that this node can't be lowered and returns false. */
bool te_error(LowerCtx *lc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Runs the hook of node n: on success *out is a prim_func (added to no module yet) and the node
 * list in *args the call_tir arguments in order; or *composite is set.
 */
typedef struct {
  PrimFunc *func;
  Node **args;
  uint32_t nargs;
  Node *composite;
} Lowered;
bool te_lower_node(Module *m, Node *n, Lowered *out);
/* Is the node built from other operators? Then te_lower_node makes those. */
bool te_is_composite(const Node *n);

#endif
