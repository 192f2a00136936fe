/* IREE: LIBRARY MODULE.vmfb PARAMETERS.irpa. Its wheel has a Python interface only, with the C
 * functions hidden in it. So the runner is a library in a Python process then (iree_host.py starts
 * it), finds the interpreter's functions among the process's own, and calls a Python function of no
 * arguments per call of the network: about a microsecond beside IREE's own work.
 */
#define _GNU_SOURCE
#include "runner.h"
#include <dlfcn.h>
#include <stdio.h>

typedef void *Object;

/* Result, name and parameters of each function of the interpreter that is used. */
#define FUNCTIONS(F)                                                                               \
  F(Object, PyImport_ImportModule, (const char *))                                                 \
  F(Object, PyObject_CallMethod, (Object, const char *, const char *, ...))                        \
  F(Object, PyObject_CallNoArgs, (Object))                                                         \
  F(Object, PyObject_GetAttrString, (Object, const char *))                                        \
  F(const char *, PyUnicode_AsUTF8, (Object))                                                      \
  F(void, PyErr_Print, (void))                                                                     \
  F(void, Py_DecRef, (Object))

typedef struct {
#define MEMBER(result, name, parameters) result(*name) parameters;
  FUNCTIONS(MEMBER)
#undef MEMBER
  Object network, step;
} Iree;

/* What a method of the host says: an empty text when all is well. */
static const char *check(Iree *s, Object said) {
  const char *text = said ? s->PyUnicode_AsUTF8(said) : NULL;
  if (text) return *text ? failure("%s", text) : NULL;
  s->PyErr_Print();
  return "an exception in Python";
}

static const char *iree_open(void **state, int threads, char **args) {
  const char *why;
  Iree *s = allocate(sizeof *s);
  *state = s;
#define FIND(result, name, parameters)                                                             \
  if (!(s->name = (result(*) parameters)find_symbol(RTLD_DEFAULT, #name, &why))) return why;
  FUNCTIONS(FIND)
#undef FIND
  Object host = s->PyImport_ImportModule("iree_host");
  if (host) s->network = s->PyObject_CallMethod(host, "Network", NULL);
  if (!s->network) return check(s, NULL);
  return check(s, s->PyObject_CallMethod(s->network, "open", "ssi", args[1], args[2], threads));
}

/* Tells the host about a tensor, as an address, a dtype and "DIMxDIM". */
static const char *tell(Iree *s, const char *method, const Tensor *t) {
  char dims[MAX_DIMS * 21 + 1] = "";
  for (int i = 0, n = 0; i < t->rank; i++)
    n += snprintf(dims + n, sizeof dims - (size_t)n, i ? "x%lld" : "%lld", (long long)t->dims[i]);
  return check(s, s->PyObject_CallMethod(s->network, method, "Kss",
                                         (unsigned long long)(uintptr_t)t->data,
                                         dtype_name(t->dtype), dims));
}

static const char *iree_bind(void *state, Case *c, Tensor *outputs) {
  Iree *s = state;
  const char *why = check(s, s->PyObject_CallMethod(s->network, "begin", NULL));
  for (int i = 0; i < c->ninputs && !why; i++) why = tell(s, "input", &c->inputs[i]);
  for (int i = 0; i < c->noutputs && !why; i++) why = tell(s, "output", &outputs[i]);
  if (!why) why = check(s, s->PyObject_CallMethod(s->network, "bind", NULL));
  if (!why) s->step = s->PyObject_GetAttrString(s->network, "step");
  return why;
}

static int iree_call(void *state) {
  Iree *s = state;
  Object result = s->PyObject_CallNoArgs(s->step);
  if (!result)
    s->PyErr_Print();
  else
    s->Py_DecRef(result);
  return !result;
}

static const char *iree_fetch(void *state) {
  Iree *s = state;
  return check(s, s->PyObject_CallMethod(s->network, "fetch", NULL));
}

const PeerKind peer_iree = {"iree", iree_open, iree_bind, iree_call, iree_fetch};
