/* The reference interpreter: runs a module at any level, slow and obvious, independent of LLVM and
 * of the scheduler. Graph operators run by lowering the operator on the fly (ir/te.h) and
 * interpreting the prim_func. The oracle of operator, pass and kernel tests.
 */
#ifndef RELAXC_IR_EVAL_H
#define RELAXC_IR_EVAL_H

#include "ir/module.h"

typedef enum {
  VALUE_TENSOR,
  VALUE_TUPLE,
  VALUE_SHAPE,
  VALUE_PRIM,
  VALUE_STR,
  VALUE_FUNC, /* a function, a local one with the values around it; fields: last arguments */
  VALUE_NONE,
} ValueKind;

typedef struct Value {
  ValueKind kind;
  DType dtype;   /* TENSOR, PRIM */
  int32_t ndim;  /* TENSOR; SHAPE: number of values */
  int64_t *dims; /* TENSOR; SHAPE: values */
  void *data;    /* TENSOR: compact row-major, arena-owned */
  int64_t i;     /* PRIM of integer type */
  double f;      /* PRIM of float type */
  uint32_t n;    /* TUPLE, FUNC */
  struct Value **fields;
  const char *str;  /* STR */
  const Func *func; /* FUNC */
  void *frame;
} Value;

Value *value_tensor(Arena *a, DType d, const int64_t *dims, int32_t ndim, const void *bytes);
/* Calls function `entry`, which may be a prim_func: buffers that args don't hold are then allocated
 * and are the result. Errors (shape mismatch, index out of range, ...) go to the context's
 * diagnostics; NULL then. */
Value *module_eval(Module *m, Arena *a, const char *entry, Value *const *args, uint32_t nargs);
/* Runs one prim_func on buffers: params hold tensors (inputs and outputs, modified in place) and
 * prims. Used by FoldConstant. */
bool primfunc_eval(Module *m, Arena *a, const PrimFunc *f, Value *const *params, uint32_t n);

#endif
