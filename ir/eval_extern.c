/* What the interpreter calls outside of the module: C functions, found by their names among the
 * libraries of the process as compiled code's are.
 *
 * R.call_packed and its like pass values in DLPack's form, R.print and R.assert_op too.
 * T.call_extern passes numbers and pointers by value: libffi knows how a call of a given signature
 * is made.
 */
#define _GNU_SOURCE
#include "ir/eval_graph.h"
#include "ir/ops/attrs.h"

#include <dlfcn.h>
#include <ffi.h>
#include <string.h>

/* The header is not this layer's to include (relaxrt.h has their contracts); a value in the form
 * they take is DLPack's. */
extern int rx_print(const char *format, void *const *values, int32_t n);
extern int rx_assert_failed(const char *format, void *const *values, int32_t n);
extern const char *rx_error(void);
extern void rx_free(void *data);

typedef struct {
  void *data;
  int32_t device[2], ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DlpackTensor;

static DlpackTensor *dlpack_value(Arena *a, const Value *v) {
  DlpackTensor *t = ARENA_NEW(a, DlpackTensor);
  *t = (DlpackTensor){v->data, {1, 0}, v->ndim, v->dtype.code, v->dtype.bits, 1, v->dims, NULL, 0};
  if (v->kind == VALUE_SHAPE) {
    int64_t *n = ARENA_NEW(a, int64_t);
    *n = v->ndim;
    *t = (DlpackTensor){v->dims, {1, 0}, 1, DTYPE_INT, 64, 1, n, NULL, 0};
  } else if (v->kind == VALUE_PRIM) {
    t->data = arena_alloc(a, sizeof(int64_t));
    if (dtype_is_float(v->dtype))
      dtype_store_double(v->dtype, t->data, v->f);
    else
      dtype_store_int(v->dtype, t->data, v->i);
  }
  return t;
}

Value *eval_message(Frame *f, const Node *n) {
  Interp *in = f->in;
  Value **values;
  uint32_t count, first = n->op == OP_assert_op;
  if (!eval_args(f, n, 0, &values, &count)) return NULL;
  const char *format = node_attrs(n, print)->format,
             *fault = op_format_fault(format, count - first);
  bool holds = false;
  void **at = ARENA_ARRAY(in->arena, void *, count + 1);
  for (uint32_t i = first; !fault && i < count; i++) {
    if (values[i]->kind != VALUE_TENSOR && values[i]->kind != VALUE_SHAPE &&
        values[i]->kind != VALUE_PRIM)
      fault = "only tensors, shapes and prim values can be printed";
    at[i - first] = dlpack_value(in->arena, values[i]);
  }
  if (fault) {
    interp_fail(in, n->span, "R.%s: %s", node_op(n)->name, fault);
    return NULL;
  }
  if (!first)
    rx_print(format, at, (int32_t)count);
  else if (!frame_truth(f, n, values[0], &holds))
    return NULL;
  else if (!holds) {
    rx_assert_failed(format, at, (int32_t)(count - 1));
    interp_fail(in, n->span, "%s", rx_error());
    return NULL;
  }
  return value_tuple(in->arena, NULL, 0);
}

/* ---- C functions in DLPack form ---- */

typedef int (*PackedFn)(void *const *args, int32_t nargs, void *const *outs, int32_t nouts);
typedef VEC(Value *) Values;

enum { RESULT_ROOM = 16 }; /* dims that a callee may give its result */

/* The leaves of tuples, one after the other. */
static bool flatten(Frame *f, const Node *n, Value *v, Values *out) {
  Arena *a = f->in->arena;
  switch (v->kind) {
  case VALUE_TUPLE:
    for (uint32_t i = 0; i < v->n; i++)
      if (!flatten(f, n, v->fields[i], out)) return false;
    return true;
  case VALUE_TENSOR:
  case VALUE_SHAPE:
  case VALUE_PRIM: vec_push(a, out, v); return true;
  case VALUE_STR:
  case VALUE_FUNC:
  case VALUE_NONE: break;
  }
  interp_fail(f->in, n->span, "%s can't be passed to an external function", value_words(v));
  return false;
}

static void **dlpack_values(Arena *a, Value *const *v, uint32_t n) {
  void **at = ARENA_ARRAY(a, void *, n + 1);
  for (uint32_t i = 0; i < n; i++) at[i] = dlpack_value(a, v[i]);
  return at;
}

static bool call_dl(Frame *f, const Node *n, const char *symbol, void *const *args, uint32_t nargs,
                    void *const *outs, uint32_t nouts) {
  PackedFn fn;
  void *address = dlsym(RTLD_DEFAULT, symbol);
  if (!address) {
    interp_fail(f->in, n->span, "C function '%s' is in no library of this process: --load its own",
                symbol);
    return false;
  }
  memcpy(&fn, &address, sizeof fn);
  int status = fn(args, (int32_t)nargs, outs, (int32_t)nouts);
  if (status)
    interp_fail(f->in, n->span, "external function '%s' failed with code %d", symbol, status);
  return status == 0;
}

static Value *result_tensor(Frame *f, const Node *n, const SInfo *s) {
  if (s->kind != SINFO_TENSOR || !s->dims || !dtype_known(s->dtype)) {
    interp_fail(f->in, n->span, "the result of an external function must have a known shape");
    return NULL;
  }
  int64_t *dims = ARENA_ARRAY(f->in->arena, int64_t, s->ndim + 1);
  if (!frame_dims(f, s->dims, (uint32_t)s->ndim, n->span, dims)) return NULL;
  return frame_tensor(f, n->span, s->dtype, dims, s->ndim);
}

/* Results of given types. One that stands for an argument, by `inplace`, is a copy of it, which is
 * passed in its place. */
static Value *call_with_results(Frame *f, const Node *n, const char *symbol, Values *args,
                                const SInfoList *types, const IntList *inplace) {
  Arena *a = f->in->arena;
  Values results = {0}, fresh = {0};
  for (int32_t i = 0; i < types->n; i++) {
    int64_t k = inplace && i < inplace->n ? inplace->at[i] : -1;
    Value *v;
    if (k < 0) {
      if (!(v = result_tensor(f, n, types->at[i]))) return NULL;
      vec_push(a, &fresh, v);
    } else if (k < (int64_t)args->n && args->at[k]->kind == VALUE_TENSOR) {
      const Value *old = args->at[k];
      v = args->at[k] = value_tensor(a, old->dtype, old->dims, old->ndim, old->data);
    } else {
      interp_fail(f->in, n->span, "inplace index %lld is no tensor argument", (long long)k);
      return NULL;
    }
    vec_push(a, &results, v);
  }
  bool ok = call_dl(f, n, symbol, dlpack_values(a, args->at, args->n), args->n,
                    dlpack_values(a, fresh.at, fresh.n), fresh.n);
  if (!ok) return NULL;
  return results.n == 1 && n->sinfo->kind != SINFO_TUPLE ? results.at[0]
                                                         : value_tuple(a, results.at, results.n);
}

/* The callee allocates its one result and says its shape. */
static Value *call_allocating(Frame *f, const Node *n, const char *symbol, const Values *args) {
  Arena *a = f->in->arena;
  const SInfo *s = n->sinfo;
  if (s->kind != SINFO_TENSOR || s->ndim < 0 || s->ndim > RESULT_ROOM || !dtype_known(s->dtype)) {
    interp_fail(f->in, n->span,
                "a call of an external function must give one tensor of known rank");
    return NULL;
  }
  int64_t dims[RESULT_ROOM] = {0};
  Value v = {.kind = VALUE_TENSOR, .dtype = s->dtype, .ndim = s->ndim, .dims = dims};
  DlpackTensor *t = dlpack_value(a, &v);
  void *outs[1] = {t};
  if (!call_dl(f, n, symbol, dlpack_values(a, args->at, args->n), args->n, outs, 1)) return NULL;
  Value *r = value_tensor(a, s->dtype, dims, s->ndim, t->data);
  rx_free(t->data);
  if (!r) {
    interp_fail(f->in, n->span, "external function '%s' gave a shape that can't be", symbol);
    return NULL;
  }
  char *what = arena_printf(a, "the result of external function '%s'", symbol);
  return frame_check(f, s, r, n->span, what) ? r : NULL;
}

Value *eval_packed(Frame *f, const Node *n, const char *symbol) {
  Arena *a = f->in->arena;
  Value **operands;
  uint32_t count;
  Values args = {0};
  if (!eval_args(f, n, 1, &operands, &count)) return NULL;
  for (uint32_t i = 0; i < count; i++)
    if (!flatten(f, n, operands[i], &args)) return NULL;
  if (n->op == OP_call_dps_packed)
    return call_with_results(f, n, symbol, &args, &node_attrs(n, call_dps_packed)->out_ty, NULL);
  if (n->op == OP_call_inplace_packed)
    return call_with_results(f, n, symbol, &args, &node_attrs(n, call_inplace_packed)->ty_args,
                             &node_attrs(n, call_inplace_packed)->inplace_indices);
  bool none = sinfo_is_void(n->sinfo) || n->sinfo->kind == SINFO_OBJECT;
  if (!none) return call_allocating(f, n, symbol, &args);
  uint32_t fresh = args.n == count ? call_fresh_outputs(n) : 0, nin = args.n - fresh;
  void **at = dlpack_values(a, args.at, args.n);
  return call_dl(f, n, symbol, at, nin, at + nin, fresh) ? value_new(a, VALUE_NONE) : NULL;
}

/* ---- C functions by value ---- */

typedef struct {
  ffi_cif cif;
  void (*fn)(void);
  uint32_t n;
  const Code **args; /* NULL: a string */
  const char **strings;
  const char *name;
} ByValue;

static ffi_type *c_type(DType d) {
  if (d.lanes != 1) return NULL;
  switch (d.code) {
  case DTYPE_BOOL: return &ffi_type_uint8;
  case DTYPE_HANDLE: return &ffi_type_pointer;
  case DTYPE_FLOAT: return d.bits == 32 ? &ffi_type_float : d.bits == 64 ? &ffi_type_double : NULL;
  case DTYPE_INT:
    return d.bits == 8    ? &ffi_type_sint8
           : d.bits == 16 ? &ffi_type_sint16
           : d.bits == 32 ? &ffi_type_sint32
           : d.bits == 64 ? &ffi_type_sint64
                          : NULL;
  case DTYPE_UINT:
    return d.bits == 8    ? &ffi_type_uint8
           : d.bits == 16 ? &ffi_type_uint16
           : d.bits == 32 ? &ffi_type_uint32
           : d.bits == 64 ? &ffi_type_uint64
                          : NULL;
  default: return NULL;
  }
}

typedef union {
  int64_t i; /* what libffi returns of an integer is at least as wide as a register */
  float f;
  double d;
  const void *p;
} Word;

static Word call_by_value(Machine *m, const Code *c) {
  const ByValue *x = c->p;
  Word *words = arena_alloc(m->in->arena, (x->n + 1) * sizeof *words), r = {0};
  void **at = arena_alloc(m->in->arena, (x->n + 1) * sizeof *at);
  for (uint32_t i = 0; i < x->n && !m->failed; i++) {
    const Code *a = x->args[i];
    at[i] = &words[i];
    if (!a)
      words[i].p = x->strings[i];
    else if (a->i && !dtype_is_float(a->d))
      words[i].i = EVAL_I(a);
    else if (a->d.bits == 32)
      words[i].f = (float)EVAL_F(a);
    else
      words[i].d = EVAL_F(a);
  }
  if (!m->failed) ffi_call((ffi_cif *)(uintptr_t)&x->cif, x->fn, &r, at);
  return r;
}

static int64_t by_value_i(Machine *m, const Code *c) {
  Word r = call_by_value(m, c);
  return dtype_is_bool(c->d) ? (r.i & 0xff) != 0 : dtype_is_int(c->d) ? dtype_wrap(c->d, r.i) : r.i;
}
static double by_value_f(Machine *m, const Code *c) {
  Word r = call_by_value(m, c);
  return c->d.bits == 32 ? (double)r.f : r.d;
}

bool compile_extern(Compiler *k, const Expr *e, Code *c) {
  if (!e->n || e->arg[0]->kind != EXPR_STR) {
    compile_fail(k, "T.call_extern needs the function's name as its first argument");
    return false;
  }
  ByValue *x = ARENA_NEW(k->arena, ByValue);
  x->name = e->arg[0]->s;
  x->n = e->n - 1;
  x->args = ARENA_ARRAY(k->arena, const Code *, x->n + 1);
  x->strings = ARENA_ARRAY(k->arena, const char *, x->n + 1);
  ffi_type **types = ARENA_ARRAY(k->arena, ffi_type *, x->n + 1);
  bool gives = dtype_known(e->dtype);
  ffi_type *result = gives ? c_type(e->dtype) : &ffi_type_void;
  for (uint32_t i = 0; i < x->n; i++) {
    const Expr *a = e->arg[i + 1];
    if (a->kind == EXPR_STR) {
      x->strings[i] = a->s;
      types[i] = &ffi_type_pointer;
      continue;
    }
    if (!(x->args[i] = compile_expr(k, a))) return false;
    if ((types[i] = c_type(a->dtype))) continue;
    compile_fail(k, "the interpreter can't pass %s to C function '%s'", dtype_name(a->dtype),
                 x->name);
    return false;
  }
  if (!result) {
    compile_fail(k, "the interpreter can't take %s from C function '%s'", dtype_name(e->dtype),
                 x->name);
    return false;
  }
  void *address = dlsym(RTLD_DEFAULT, x->name);
  if (!address) {
    compile_fail(k, "C function '%s' is in no library of this process: --load its own", x->name);
    return false;
  }
  memcpy(&x->fn, &address, sizeof x->fn);
  if (ffi_prep_cif(&x->cif, FFI_DEFAULT_ABI, x->n, result, types) != FFI_OK)
    bug("a call of '%s' that libffi can't make", x->name);
  c->p = x;
  c->i = by_value_i;
  c->f = by_value_f;
  return true;
}
