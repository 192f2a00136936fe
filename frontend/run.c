/* `relaxc run` and `relaxc eval`: call a function of the script from the command line.
 *
 * run compiles in memory (LLVM's ORC) and calls the DLPack entry, so that all of its checks are at
 * work; eval asks the reference interpreter. Inputs and outputs are the same code (run_io.c): where
 * the two disagree, one of the two is wrong.
 */
#define _GNU_SOURCE
#include "frontend/driver.h"

#include "codegen/abi.h"
#include "codegen/codegen.h"
#include "frontend/run_io.h"
#include "frontend/run_profile.h"
#include "ir/eval.h"
#include "runtime/relaxrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Libraries whose functions the program may call: found from now on by their names alone. */
static bool load_libraries(Context *c, const Options *o) {
  for (uint32_t i = 0; i < o->libraries.n; i++) {
    const char *name = o->libraries.at[i];
    /* Without a slash it would be searched for where libraries are installed. */
    const char *path = strchr(name, '/') ? name : arena_printf(c->arena, "./%s", name);
    if (dlopen(path, RTLD_NOW | RTLD_GLOBAL)) continue;
    diag_error(c->diags, SPAN_NONE, "library '%s' can't be loaded: %s", name, dlerror());
    return false;
  }
  return true;
}

/* ---- run ---- */

typedef int (*DlEntry)(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts);

enum { OUT_DIMS = 16 }; /* room in the shape of an output of unknown rank */

static void as_dl(const TensorData *t, DLTensor *out) {
  memset(out, 0, sizeof *out);
  out->data = (void *)(uintptr_t)t->data;
  out->device.device_type = kDLCPU;
  out->ndim = t->ndim;
  out->dtype = (DLDataType){t->dtype.code, t->dtype.bits, t->dtype.lanes};
  out->shape = (int64_t *)(uintptr_t)t->dims;
}

static double now(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool call_entry(Context *c, Jit *jit, const AbiFunc *f, const Options *o,
                       const TensorData *args, TensorData *outs) {
  /* outs: shapes of a prim_func's, which may hold dims that no argument has; else empty. */
  Arena *a = c->arena;
  DLTensor *in = ARENA_ARRAY(a, DLTensor, f->nargs), *res = ARENA_ARRAY(a, DLTensor, f->nouts);
  DLTensor **inp = ARENA_ARRAY(a, DLTensor *, f->nargs),
           **resp = ARENA_ARRAY(a, DLTensor *, f->nouts);
  const char *symbol = arena_printf(a, "%s_dl", f->symbol);
  void *address = jit_symbol(jit, symbol), *error_address = jit_symbol(jit, "rx_error");
  if (!address && diags_errors(c->diags)) {
    if (!o->libraries.n)
      diag_note(c->diags, SPAN_NONE, "--load=LIBRARY adds the functions of a shared library");
    return false;
  }
  if (!address) bug("the compiled module has no symbol '%s'", symbol);
  DlEntry entry;
  const char *(*message)(void) = rx_error;
  memcpy(&entry, &address, sizeof entry);
  /* An object without threads has a message buffer of its own. */
  if (error_address) memcpy(&message, &error_address, sizeof message);
  for (uint32_t i = 0; i < f->nargs; i++) as_dl(&args[i], inp[i] = &in[i]);
  for (uint32_t i = 0; i < f->nouts; i++) {
    resp[i] = &res[i];
    int32_t rank = f->outs[i].ndim > outs[i].ndim ? f->outs[i].ndim : outs[i].ndim;
    res[i].shape = ARENA_ARRAY(a, int64_t, rank > OUT_DIMS ? rank : OUT_DIMS);
    for (int32_t k = 0; k < outs[i].ndim; k++) res[i].shape[k] = outs[i].dims[k];
    res[i].device.device_type = kDLCPU;
  }
  int64_t n = o->repeat ? o->repeat : 1;
  double *times = ARENA_ARRAY(a, double, n);
  for (int64_t i = 0; i < n; i++) {
    double begin = now();
    int status = entry(inp, (int32_t)f->nargs, resp, (int32_t)f->nouts);
    times[i] = now() - begin;
    if (status) {
      diag_error(c->diags, SPAN_NONE, "'%s' failed with status %d: %s", f->func->name, status,
                 message());
      return false;
    }
    /* After the first call the outputs are the caller's: later calls write into them. */
  }
  for (uint32_t i = 0; i < f->nouts; i++) {
    uint64_t elements;
    DType d = {res[i].dtype.code, res[i].dtype.bits, res[i].dtype.lanes};
    outs[i] = (TensorData){f->outs[i].name, d, res[i].ndim, res[i].shape, res[i].data, 0};
    if (!tensor_size(d, res[i].shape, res[i].ndim, &elements, &outs[i].bytes))
      bug("output %u of '%s' has no valid shape", i, f->func->name);
    outs[i].data = arena_dup(a, res[i].data, outs[i].bytes);
    rx_free(res[i].data);
  }
  if (o->repeat) {
    qsort(times, (size_t)n, sizeof *times, compare_doubles);
    fprintf(stderr, "%lld calls: min %.3f us, median %.3f us\n", (long long)n, 1e6 * times[0],
            1e6 * times[n / 2]);
  }
  return true;
}

/* Only what the entry reaches is compiled: other functions are nobody's entries here. */
static void keep_entry(Module *m, const AbiFunc *f) {
  module_each(m, g) {
    if (g->kind == GLOBAL_FUNC && g->func != f->func) g->func->is_private = true;
    if (g->kind == GLOBAL_PRIM && g->prim != f->prim) g->prim->is_private = true;
  }
}

static void run(Context *c, const Options *o) {
  Target target;
  AbiFunc f;
  TensorData *args;
  Map dims;
  uint32_t state;
  if (!load_libraries(c, o)) return;
  if (!driver_target(c, o, "native", &target)) return;
  Module *m = driver_read(c, o, o->inputs.at[0]);
  if (!m) return;
  if (!io_entry(c, m, o, &f)) return;
  if (!o->passes) keep_entry(m, &f);
  if (!driver_passes(c, m, o, &target, o->passes, NULL, &state) || !driver_ready(m, o, state))
    return;
  if (!io_entry(c, m, o, &f)) return; /* passes may have made a new one */
  if (io_gather(c, o, &f, &args, &dims) != IO_OK) return;
  CodegenOptions co = {.kind = CODE_OBJECT,
                       .prefix = "m",
                       .opt_level = o->level,
                       .debug = o->debug,
                       .fast_math = o->fast_math,
                       .profile = o->profile,
                       .jobs = o->jobs};
  Jit *jit = codegen_jit(m, &target, &co);
  if (!jit) return;
  TensorData *outs = ARENA_ARRAY(c->arena, TensorData, f.nouts + 1);
  if (f.prim && !io_prim_outputs(c, &f, &dims, outs)) {
    jit_free(jit);
    return;
  }
  Profile profile = {.arena = c->arena};
  if (o->profile) rx_set_profile(profile_event, &profile);
  bool ok = call_entry(c, jit, &f, o, args, outs);
  rx_set_profile(NULL, NULL);
  if (ok && o->profile) ok = profile_report(c, &profile, o->profile_file);
  if (ok) (void)io_write(c, o, outs, f.nouts);
  jit_free(jit);
}

int driver_run(const Options *o) {
  Context *c = driver_begin(o);
  run(c, o);
  return driver_end(c, o);
}

/* ---- eval ---- */

/* The value of a (possibly nested) parameter from the flat tensors, which *next walks over. */
static Value *build_value(Arena *a, const SInfo *s, const AbiFunc *f, const TensorData *args,
                          uint32_t *next) {
  if (s->kind == SINFO_TUPLE) {
    Value *v = ARENA_NEW(a, Value);
    v->kind = VALUE_TUPLE;
    v->n = s->n;
    v->fields = ARENA_ARRAY(a, Value *, s->n);
    for (uint32_t i = 0; i < s->n; i++) v->fields[i] = build_value(a, s->fields[i], f, args, next);
    return v;
  }
  const TensorData *t = &args[*next];
  Value *v = value_tensor(a, t->dtype, t->dims, t->ndim, t->data);
  switch (f->args[(*next)++].kind) {
  case ABI_TENSOR: break;
  case ABI_PRIM:
    if (t->ndim != 0) break; /* the interpreter refuses it */
    v->kind = VALUE_PRIM;
    if (dtype_is_float(t->dtype))
      v->f = dtype_load_double(t->dtype, t->data);
    else
      v->i = dtype_load_int(t->dtype, t->data);
    break;
  case ABI_SHAPE:
    if (t->ndim != 1 || !dtype_eq(t->dtype, DT_I64)) break;
    v->kind = VALUE_SHAPE;
    v->ndim = (int32_t)t->dims[0];
    v->dims = v->data;
    break;
  }
  return v;
}

typedef VEC(TensorData) TensorVec;

static void flatten_result(Context *c, const Value *v, TensorVec *out) {
  Arena *a = c->arena;
  TensorData t = {arena_printf(a, "out%u", out->n), v->dtype, v->ndim, v->dims, v->data, 0};
  uint64_t elements;
  switch (v->kind) {
  case VALUE_TUPLE:
    for (uint32_t i = 0; i < v->n; i++) flatten_result(c, v->fields[i], out);
    return;
  case VALUE_TENSOR: break;
  case VALUE_PRIM: {
    void *p = arena_alloc(a, 16);
    if (dtype_is_float(v->dtype))
      dtype_store_double(v->dtype, p, v->f);
    else
      dtype_store_int(v->dtype, p, v->i);
    t.ndim = 0;
    t.data = p;
    break;
  }
  case VALUE_SHAPE: {
    int64_t *length = arena_alloc(a, sizeof *length);
    *length = v->ndim;
    t = (TensorData){t.name, DT_I64, 1, length, v->dims, 0};
    break;
  }
  case VALUE_STR:
  case VALUE_FUNC:
    diag_error(c->diags, SPAN_NONE, "a result is a %s: it can't be written",
               v->kind == VALUE_STR ? "string" : "function");
    return;
  case VALUE_NONE: return;
  }
  if (!tensor_size(t.dtype, t.dims, t.ndim, &elements, &t.bytes))
    bug("a result of the interpreter has no valid shape");
  vec_push(a, out, t);
}

/* A prim_func on copies of the tensors given and zeroed outputs. */
static void eval_prim(Context *c, Module *m, const Options *o, const AbiFunc *f,
                      const TensorData *args, const Map *dims) {
  Arena *a = c->arena;
  const PrimFunc *p = f->prim;
  TensorData *outs = ARENA_ARRAY(a, TensorData, f->nouts + 1);
  Value **params = ARENA_ARRAY(a, Value *, p->nparams + 1);
  if (!io_prim_outputs(c, f, dims, outs)) return;
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const AbiParam *at = &f->params[i];
    if (at->arg != ABI_ABSENT) {
      uint32_t next = at->arg;
      params[n] = build_value(a, f->args[at->arg].sinfo, f, args, &next);
    } else {
      const TensorData *t = &outs[at->out];
      params[n] = value_tensor(a, t->dtype, t->dims, t->ndim, NULL);
    }
    if (!params[n]) bug("parameter %u of '%s' has no valid shape", n, p->name);
    if (at->out != ABI_ABSENT) outs[at->out].data = params[n]->data;
    n++;
  }
  if (n < p->nparams) { /* the scratch of a scheduled one */
    Subst s = {c, dims, NULL};
    int64_t *size = ARENA_ARRAY(a, int64_t, 1);
    if (!expr_const_int(c, expr_subst(&s, p->param_bufs[n]->shape[0]), size) || *size < 0) {
      diag_error(c->diags, p->span, "the size of the scratch of '%s' can't be computed", p->name);
      return;
    }
    params[n++] = value_tensor(a, DT_U8, size, 1, NULL);
  }
  if (primfunc_eval(m, a, p, params, n) && !diags_errors(c->diags))
    (void)io_write(c, o, outs, f->nouts);
}

static void eval(Context *c, const Options *o) {
  Target target;
  AbiFunc f;
  TensorData *args;
  Map dims;
  uint32_t state, next = 0;
  if (!load_libraries(c, o)) return;
  if (!driver_target(c, o, "native", &target)) return;
  Module *m = driver_read(c, o, o->inputs.at[0]);
  if (!m || !io_entry(c, m, o, &f)) return;
  /* The program as it stands, but for what the options bind. */
  const char *passes = o->passes;
  if (!passes && (o->binds.n || o->weights)) passes = "Normalize, BindSymbolicVars, BindParams";
  if (passes && !driver_passes(c, m, o, &target, passes, NULL, &state)) return;
  if (!io_entry(c, m, o, &f)) return;
  if (io_gather(c, o, &f, &args, &dims) != IO_OK) return;
  if (f.prim) {
    eval_prim(c, m, o, &f, args, &dims);
    return;
  }
  const Func *func = f.func;
  Value **values = ARENA_ARRAY(c->arena, Value *, func->nparams);
  for (uint32_t i = 0; i < func->nparams; i++)
    values[i] = build_value(c->arena, func->params[i]->sinfo, &f, args, &next);
  Value *result = module_eval(m, c->arena, func->name, values, func->nparams);
  if (!result || diags_errors(c->diags)) return;
  TensorVec outs = {0};
  flatten_result(c, result, &outs);
  if (!diags_errors(c->diags)) (void)io_write(c, o, outs.at, outs.n);
}

int driver_eval(const Options *o) {
  Context *c = driver_begin(o);
  eval(c, o);
  return driver_end(c, o);
}
