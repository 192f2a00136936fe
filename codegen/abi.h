/* The C interface of a module's public functions: one computation that code generation, header and
 * driver share.
 *
 * Values are flattened: tuples give one value per leaf. For prefix m and function f the symbols are
 *
 *   int m_f(args..., outs..., dims...);                the plain entry, if `plain`
 *   int m_f_ws(args..., outs..., dims..., void *ws);   with the caller's scratch, if `plain`
 *   int64_t m_f_workspace(workspace_dims...);          bytes of scratch or < 0, if `plain`
 *   int m_f_dl(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts);
 *   const RxInfo *m_f_info(void);                      (RxInfo: runtime/relaxrt.h)
 *
 * A public prim_func has the same entries; its plain ones take its parameters in their own order:
 * a pointer per buffer (const unless it is written), scalars by value, then dims.
 *
 * In these an argument is `const T *` (tensor), `T` by value (Prim) or `const int64_t *` (Shape),
 * an output `T *` (tensor, Prim) or `int64_t *` (Shape). A void function has no outputs.
 *
 * What generated code calls of the runtime (all declared in runtime/relaxrt.h): rx_error_buffer and
 * snprintf, or rx_fail, for messages; rx_alloc for outs[i]->data; rx_workspace_push/pop around a
 * call that wasn't given scratch; rx_parallel_for. With -fno-threads the object itself defines,
 * weak, rx_error, rx_error_buffer and rx_free, takes memory from aligned_alloc/free, and runs loops
 * serially.
 */
#ifndef RELAXC_CODEGEN_ABI_H
#define RELAXC_CODEGEN_ABI_H

#include "ir/module.h"

/* Same values as RX_TENSOR, RX_PRIM, RX_SHAPE in relaxrt.h. */
typedef enum { ABI_TENSOR = 0, ABI_PRIM = 1, ABI_SHAPE = 2 } AbiKind;

typedef struct {
  AbiKind kind;
  const char *name;     /* for messages and _info: "x", "x.0" (tuple field), "out0" */
  const char *c_name;   /* parameter name in C, unique in the prototype */
  uint32_t param;       /* args: position of the Relax parameter it is (part of) */
  const uint32_t *path; /* tuple indices from the parameter / result down to this leaf */
  uint32_t npath;
  const SInfo *sinfo; /* SINFO_TENSOR, SINFO_PRIM or SINFO_SHAPE */
  DType dtype;        /* TENSOR, PRIM: element; SHAPE: int64 */
  int32_t ndim;       /* DLPack rank: TENSOR's (-1 unknown), PRIM 0, SHAPE 1 */
} AbiValue;

/* A parameter of the plain entry: an argument, an output, or both (a buffer that a prim_func
 * changes in place). */
enum { ABI_ABSENT = 0xffffffffu };
typedef struct {
  uint32_t arg, out; /* positions, or ABI_ABSENT */
} AbiParam;

typedef struct {
  const Func *func;     /* of a prim_func: made up, not in the module */
  const PrimFunc *prim; /* NULL for a Relax function */
  const char *symbol;   /* "m_f"; the others append _dl, _ws, _workspace, _info */
  AbiValue *args, *outs;
  uint32_t nargs, nouts;
  AbiParam *params; /* of the plain entry before the dims: arguments then outputs, but a
                       prim_func's in its own order */
  uint32_t nparams;
  Var **dims; /* int64 parameters after the outputs: the function's symbolic dims in order
                 of first appearance, but those that a Prim argument carries */
  const char **dim_c_names; /* of dims */
  uint32_t ndims;
  bool plain;            /* the plain entries exist */
  const char *not_plain; /* else why not, in words */
} AbiFunc;

typedef struct {
  AbiFunc **funcs; /* public functions in order of appearance */
  uint32_t n;
} AbiModule;

/* Computes the interface of all public functions. False after reporting what can't cross a C
 * interface (objects, closures, strings, unknown rank of an argument) and names that collide:
 * `f_dl` beside `f`, two names alike after escaping, C keywords, the runtime's rx_. */
bool abi_module(Arena *a, const Module *m, const char *prefix, AbiModule *out);
/* The interface of one function, without the checks against others. */
bool abi_function(Arena *a, const Module *m, const char *prefix, const Func *f, AbiFunc *out);
/* The interface of a public prim_func (abi_prim.c); false when it has none: it is private, or
 * out->not_plain says what can't be told in C. */
bool abi_prim(Arena *a, const Module *m, const char *prefix, const PrimFunc *p, AbiFunc *out);
/* Warns of the public prim_funcs that have no interface, and refuses those with a dtype that has
 * no type in C, as abi_module does for Relax functions. */
bool abi_check_prims(Arena *a, const Module *m);
/* abi_function with given names of the results (NULL: out0, out1, ...). */
bool abi_function_named(Arena *a, const Module *m, const char *prefix, const Func *f,
                        const char *const *out_names, AbiFunc *out);
/* Is parameter i the scratch that scheduling added? */
bool abi_is_workspace(const PrimFunc *p, uint32_t i);

/* The dims that m_f_workspace takes: all of func->dims (also those in Prim arguments). */
static inline uint32_t abi_workspace_ndims(const AbiFunc *f) {
  return f->func->ndims;
}
/* C names of func->dims, for the workspace function. */
const char *const *abi_workspace_c_names(Arena *a, const AbiFunc *f);

/* The argument that carries dim v by value (a Prim parameter), or NULL. */
const AbiValue *abi_dim_arg(const AbiFunc *f, const Var *v);

/* "float", "int64_t", "uint16_t" (half types), "uint8_t" (bool); NULL for one without a C type. */
const char *abi_c_type(DType d);
/* Letters, digits and _ stay, other bytes become _xHH; a digit at the start gets a _ before it. */
const char *abi_c_identifier(Arena *a, const char *name);
/* A keyword of C or C++, up to C23 and C++23. */
bool abi_is_keyword(const char *name);
/* The symbol prefix of an input file: its stem as a C identifier; "-" gives "stdin". */
const char *abi_default_prefix(Arena *a, const char *path);
/* "R.function main(x: R.Tensor((n, 784), ...), ...) -> R.Tensor(...)" in one line: for _info and
 * the header. */
const char *abi_signature(Arena *a, const AbiFunc *f);
const char *abi_prim_signature(Arena *a, const AbiFunc *f);

#endif
