/* TVM's virtual machine through the C interface of tvm-ffi: libtvm_ffi.so libtvm_runtime.so
 * MODEL.so, where the model is what tvm_build.py exports.
 */
#include "runner.h"
#include <string.h>

/* The value that functions take and give, and what precedes the contents of an object, as declared
 * in tvm/ffi/c_api.h. */
typedef struct {
  int32_t type;
  uint32_t padding;
  union {
    int64_t integer;
    const char *text;
    void *pointer;
  } value;
} Any;
enum {
  TYPE_INT = 1,
  TYPE_BOOL = 2,
  TYPE_TENSOR_POINTER = 7,
  TYPE_TEXT = 8,
  TYPE_TENSOR = 70,
  TYPE_MODULE = 73
};
enum { OBJECT_HEADER_BYTES = 24, CPU = 1, POOLED_ALLOCATOR = 2 };
typedef struct {
  const char *data;
  size_t size;
} Bytes;

typedef struct {
  int (*get_global)(const Bytes *name, void **function);
  int (*call)(void *function, Any *args, int32_t nargs, Any *result);
  int (*release)(void *object);
  void *main, *array_item;
  int nargs, nouts;
  Any args[MAX_TENSORS], result;
  DLTensor tensors[MAX_TENSORS];
  Tensor *outputs;
} Tvm;

static Any integer(int type, int64_t value) {
  return (Any){.type = type, .value.integer = value};
}
static Any text(const char *value) {
  return (Any){.type = TYPE_TEXT, .value.text = value};
}

static void *global(Tvm *t, const char *name) {
  void *function = NULL;
  Bytes bytes = {name, strlen(name)};
  return t->get_global(&bytes, &function) == 0 ? function : NULL;
}

/* Calls a function that gives an object; NULL when it fails. */
static void *call(Tvm *t, void *function, int nargs, Any *args) {
  Any result = {0};
  if (!function || t->call(function, args, nargs, &result) != 0) return NULL;
  return result.value.pointer;
}

static const char *tvm_open(void **state, int threads, char **args) {
  (void)threads; /* TVM_NUM_THREADS says it */
  const char *why;
  Tvm *t = allocate(sizeof *t);
  *state = t;
  void *library = load_library(args[0], &why);
  if (!library || !load_library(args[1], &why)) return why;
  if (!(t->get_global = find_symbol(library, "TVMFFIFunctionGetGlobal", &why))) return why;
  if (!(t->call = find_symbol(library, "TVMFFIFunctionCall", &why))) return why;
  if (!(t->release = find_symbol(library, "TVMFFIObjectDecRef", &why))) return why;
  void *load = global(t, "ffi.ModuleLoadFromFile"), *get = global(t, "ffi.ModuleGetFunction");
  t->array_item = global(t, "ffi.ArrayGetItem");
  void *module = call(t, load, 1, (Any[]){text(args[2])});
  if (!module) return "can't load the module";
  Any holder = {.type = TYPE_MODULE, .value.pointer = module};
  void *start = call(t, get, 3, (Any[]){holder, text("vm_load_executable"), integer(TYPE_BOOL, 1)});
  holder.value.pointer = call(t, start, 0, NULL);
  void *initialize =
      holder.value.pointer
          ? call(t, get, 3, (Any[]){holder, text("vm_initialization"), integer(TYPE_BOOL, 0)})
          : NULL;
  Any ignored = {0}, device[] = {integer(TYPE_INT, CPU), integer(TYPE_INT, 0),
                                 integer(TYPE_INT, POOLED_ALLOCATOR)};
  if (!initialize || t->call(initialize, device, 3, &ignored) != 0)
    return "can't start the machine";
  t->main = call(t, get, 3, (Any[]){holder, text("main"), integer(TYPE_BOOL, 0)});
  return t->main ? NULL : "no function main";
}

static const char *tvm_bind(void *state, Case *c, Tensor *outputs) {
  Tvm *t = state;
  t->nargs = c->ninputs;
  t->nouts = c->noutputs;
  t->outputs = outputs;
  for (int i = 0; i < t->nargs; i++) {
    t->tensors[i] = dlpack(&c->inputs[i]);
    t->args[i] = (Any){.type = TYPE_TENSOR_POINTER, .value.pointer = &t->tensors[i]};
  }
  return NULL;
}

/* Each call allocates its results; the last ones go here. */
static int tvm_call(void *state) {
  Tvm *t = state;
  if (t->result.value.pointer) t->release(t->result.value.pointer);
  t->result = (Any){0};
  return t->call(t->main, t->args, t->nargs, &t->result);
}

static const char *tvm_fetch(void *state) {
  Tvm *t = state;
  for (int i = 0; i < t->nouts; i++) {
    Any item = {0};
    if (t->result.type == TYPE_TENSOR)
      item = t->result;
    else if (t->call(t->array_item, (Any[]){t->result, integer(TYPE_INT, i)}, 2, &item) != 0)
      return failure("no output %d", i);
    const DLTensor *tensor =
        (const DLTensor *)(const void *)((const char *)item.value.pointer + OBJECT_HEADER_BYTES);
    memcpy(t->outputs[i].data, tensor->data, t->outputs[i].bytes);
  }
  return NULL;
}

const PeerKind peer_tvm = {"tvm", tvm_open, tvm_bind, tvm_call, tvm_fetch};
