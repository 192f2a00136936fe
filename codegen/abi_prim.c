/* The C interface of public prim_funcs.
 *
 * A prim_func is described as a Relax function of the same name would be: buffers that need their
 * contents and scalars are its parameters, buffers that it writes its results. A buffer that is
 * both stands among the arguments and the outputs; in the plain entry it is one pointer, as there
 * the parameters keep the prim_func's own order. Those that can't be told in C (values returned,
 * strides, dims that no parameter shows) have no entry.
 */
#include "codegen/abi.h"
#include "ir/op.h"
#include "ir/print.h"

#include <string.h>

/* Why parameter i can't be told in C, in words; NULL if it can. */
static const char *param_fault(const PrimFunc *p, uint32_t i) {
  const Buffer *b = p->param_bufs[i];
  DType d = b ? b->dtype : p->params[i]->dtype;
  if (d.lanes != 1) return "has vectors as elements";
  if (!abi_c_type(d)) return "has a dtype without a type in C";
  if (!b) return NULL;
  if (b->strides) return "has strides";
  if (b->elem_offset && !expr_is_int(b->elem_offset, 0)) return "has an offset";
  return strcmp(b->scope, "global") == 0 ? NULL : "is not in global memory";
}

static const SInfo *buffer_type(Arena *a, Context *c, const Buffer *b) {
  const Expr **dims = ARENA_ARRAY(a, const Expr *, b->ndim + 1);
  for (uint32_t i = 0; i < b->ndim; i++)
    dims[i] = b->shape[i]->kind == EXPR_INT ? expr_i64(c, b->shape[i]->i) : b->shape[i];
  return sinfo_tensor(c, dims, b->ndim, b->dtype);
}

static Node *make_param(Arena *a, const char *name, const SInfo *si, Span s, int64_t index) {
  Node *n = ARENA_NEW(a, Node);
  n->op = OP_PARAM;
  n->name = name;
  n->sinfo = si;
  n->span = n->name_span = s;
  n->index = index;
  return n;
}

static bool has_var(const VarVec *v, const Var *x) {
  for (uint32_t i = 0; i < v->n; i++)
    if (v->at[i] == x) return true;
  return false;
}

bool abi_is_workspace(const PrimFunc *p, uint32_t i) {
  return attr_get_bool(p->attrs, "relaxc.workspace", false) && i + 1 == p->nparams;
}

bool abi_prim(Arena *a, const Module *m, const char *prefix, const PrimFunc *p, AbiFunc *out) {
  Context *c = m->ctx;
  *out = (AbiFunc){0};
  if (p->is_private || attr_get(p->attrs, "relaxc.variant_of")) return false;
  if (dtype_known(p->ret)) {
    out->not_plain = "it returns a value";
    return false;
  }
  uint8_t *access = primfunc_access(a, p);
  VarVec used = {0}; /* dims of buffers and of the scratch's size */
  const Attr *bytes = attr_get(p->attrs, "relaxc.workspace_bytes");
  if (bytes && bytes->kind == ATTR_EXPR) expr_vars(a, bytes->expr, &used);
  for (uint32_t i = 0; i < p->nparams; i++) {
    const Buffer *b = p->param_bufs[i];
    if (abi_is_workspace(p, i)) continue;
    const char *fault = param_fault(p, i);
    if (fault) {
      out->not_plain =
          arena_printf(a, "parameter '%s' %s", b ? b->name : p->params[i]->name, fault);
      return false;
    }
    for (uint32_t k = 0; b && k < b->ndim; k++) expr_vars(a, b->shape[k], &used);
  }
  Func *f = ARENA_NEW(a, Func);
  f->name = p->name;
  f->span = f->name_span = p->span;
  f->module = (Module *)(uintptr_t)m;
  f->params = ARENA_ARRAY(a, Node *, p->nparams + 1);
  f->dims = ARENA_ARRAY(a, Var *, p->ndims + p->nparams + 1);
  const SInfo **outs = ARENA_ARRAY(a, const SInfo *, p->nparams + 1);
  const char **names = ARENA_ARRAY(a, const char *, p->nparams + 1);
  AbiParam *order = ARENA_ARRAY(a, AbiParam, p->nparams + 1);
  uint32_t nouts = 0, n = 0;
  for (uint32_t i = 0; i < p->nparams; i++) {
    const Buffer *b = p->param_bufs[i];
    Var *v = p->params[i];
    AbiParam at = {ABI_ABSENT, ABI_ABSENT};
    if (abi_is_workspace(p, i)) continue;
    if (!b || !(access[i] & ACCESS_WRITE) || (access[i] & ACCESS_READ)) {
      bool dim = !b && dtype_is_int(v->dtype) && has_var(&used, v);
      const SInfo *si = b     ? buffer_type(a, c, b)
                        : dim ? sinfo_prim_value(c, v->expr)
                              : sinfo_prim(c, v->dtype);
      at.arg = f->nparams;
      f->params[f->nparams] = make_param(a, b ? b->name : v->name, si, v->span, f->nparams);
      f->nparams++;
      if (dim) f->dims[f->ndims++] = v;
    }
    if (b && (access[i] & ACCESS_WRITE)) {
      at.out = nouts;
      names[nouts] = b->name;
      outs[nouts++] = buffer_type(a, c, b);
    }
    order[n++] = at;
  }
  for (uint32_t i = 0; i < p->ndims; i++) f->dims[f->ndims++] = p->dims[i];
  for (uint32_t i = 0; i < used.n; i++) {
    bool known = false;
    for (uint32_t k = 0; k < f->ndims && !known; k++) known = f->dims[k] == used.at[i];
    if (known) continue;
    out->not_plain = arena_printf(a, "no parameter shows dim '%s'", used.at[i]->name);
    return false;
  }
  f->ret = nouts == 1 ? outs[0] : sinfo_tuple(c, outs, nouts);
  if (!abi_function_named(a, m, prefix, f, names, out)) return false;
  out->prim = p;
  out->params = order;
  out->nparams = n;
  return true;
}

bool abi_check_prims(Arena *a, const Module *m) {
  AbiFunc f;
  bool ok = true;
  module_each(m, g) {
    if (g->kind != GLOBAL_PRIM || abi_prim(a, m, "m", g->prim, &f) || !f.not_plain) continue;
    const PrimFunc *p = g->prim;
    bool runs = true; /* when something else calls it */
    for (uint32_t i = 0; i < p->nparams; i++) {
      DType d = p->param_bufs[i] ? p->param_bufs[i]->dtype : p->params[i]->dtype;
      if (!abi_c_type(dtype_scalar(d))) runs = false;
    }
    ok = ok && runs;
    if (runs)
      diag_warn(m->ctx->diags, WARN_MISSING_ENTRY, p->span, "prim_func '%s' has no C interface: %s",
                p->name, f.not_plain);
    else
      diag_error(m->ctx->diags, p->span, "prim_func '%s' can't be compiled: %s", p->name,
                 f.not_plain);
  }
  return ok;
}

const char *abi_prim_signature(Arena *a, const AbiFunc *f) {
  Text t = {0};
  text_printf(&t, "%s(", f->func->name);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const AbiParam *p = &f->params[i];
    const AbiValue *v = p->out != ABI_ABSENT ? &f->outs[p->out] : &f->args[p->arg];
    text_printf(&t, "%s%s: T.", i ? ", " : "", v->name);
    if (v->kind == ABI_PRIM) {
      text_puts(&t, dtype_name(v->dtype));
      continue;
    }
    text_puts(&t, "Buffer(");
    shape_print(&t, v->sinfo->dims, (uint32_t)v->sinfo->ndim);
    text_printf(&t, ", \"%s\")", dtype_name(v->dtype));
  }
  text_putc(&t, ')');
  const char *s = arena_strndup(a, t.s, t.n);
  text_free(&t);
  return s;
}
