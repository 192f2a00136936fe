/* What the parts of the interpreter's graph level share (eval.c, eval_value.c, eval_op.c,
 * eval_extern.c): frames, in which the nodes of one call of a function have their values.
 */
#ifndef RELAXC_IR_EVAL_GRAPH_H
#define RELAXC_IR_EVAL_GRAPH_H

#include "ir/eval_impl.h"

typedef struct Frame {
  Interp *in;
  const Func *func;
  struct Frame *outer; /* of the function around a local one */
  Map values;          /* Node * -> Value * */
  Map dims;            /* Var * -> Value *: symbolic variables */
} Frame;

/* ---- values (eval_value.c) ---- */
Value *value_new(Arena *a, ValueKind kind);
Value *value_prim(Arena *a, DType d, int64_t i, double x);
Value *value_tuple(Arena *a, Value *const *fields, uint32_t n);
size_t value_bytes(const Value *v); /* of a tensor */
/* "a tensor", "a shape", ... for messages. */
const char *value_words(const Value *v);

/* ---- frames (eval_value.c) ---- */
void frame_init(Frame *f, Interp *in, const Func *func, Frame *outer);
/* A frame that knows the dims of p which its first n arguments fix. */
void frame_init_prim(Frame *f, Interp *in, const PrimFunc *p, Value *const *args, uint32_t n);
/* A new tensor of zeros; NULL after an error. */
Value *frame_tensor(Frame *f, Span s, DType d, const int64_t *dims, int32_t ndim);
/* Dims with the frame's variables. */
bool frame_dims(Frame *f, const Expr *const *e, uint32_t n, Span s, int64_t *out);
/* Gives variables that stand alone in struct info the value's dims. */
void frame_bind(Frame *f, const SInfo *s, const Value *v);
/* Is v what s says? `what` begins the message if not. */
bool frame_check(Frame *f, const SInfo *s, const Value *v, Span span, const char *what);
/* The condition of node n, which must be one value. */
bool frame_truth(Frame *f, const Node *n, const Value *v, bool *out);

/* ---- nodes; NULL after an error ---- */
/* The value of a node, which is known when it is bound. */
Value *eval_use(Frame *f, const Node *n);
Value *eval_node(Frame *f, const Node *n);
/* The operands of n from `from` on. */
bool eval_args(Frame *f, const Node *n, uint32_t from, Value ***out, uint32_t *count);
/* An operator, and a memory form (eval_op.c). */
Value *eval_op(Frame *f, const Node *n);
Value *eval_memory(Frame *f, const Node *n);
/* R.print and R.assert_op; R.call_packed and its like of C function `symbol` (eval_extern.c). */
Value *eval_message(Frame *f, const Node *n);
Value *eval_packed(Frame *f, const Node *n, const char *symbol);

#endif
