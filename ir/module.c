/* Modules: the list of global functions and their names. */
#include "ir/module.h"
#include "ir/op.h"

Module *module_create(Context *c) {
  Module *m = ARENA_NEW(c->arena, Module);
  m->ctx = c;
  m->arena = c->arena; /* one module per process: its lifetime is the session's */
  m->name = "Module";
  strmap_init(&m->by_name, m->arena);
  strmap_init(&m->suffixes, m->arena);
  return m;
}

Global *module_find(const Module *m, const char *name) {
  Global *g = strmap_get(&m->by_name, name);
  return g && !g->removed ? g : NULL;
}

Func *module_func(const Module *m, const char *name) {
  Global *g = module_find(m, name);
  return g && g->kind == GLOBAL_FUNC ? g->func : NULL;
}

const char *module_call_symbol(const Module *m, const Node *call) {
  if (!call->nin || !(node_op(call)->traits & OPT_CALL)) return NULL;
  const Node *callee = node_in(call, 0);
  if (callee->op == OP_EXTERN) return callee->str;
  const Global *g = callee->op == OP_GLOBAL ? module_find(m, callee->str) : NULL;
  return g && g->kind == GLOBAL_EXTERN ? g->ext.symbol : NULL;
}

PrimFunc *module_prim(const Module *m, const char *name) {
  Global *g = module_find(m, name);
  return g && g->kind == GLOBAL_PRIM ? g->prim : NULL;
}

static Global *module_add(Module *m, GlobalKind kind, const char *name) {
  if (module_find(m, name)) bug("two global functions named '%s'", name);
  Global *g = ARENA_NEW(m->arena, Global);
  g->kind = kind;
  g->name = strpool_intern(m->ctx->strings, name, strlen(name));
  vec_push(m->arena, &m->globals, g);
  strmap_set(&m->by_name, g->name, g);
  return g;
}

void module_add_func(Module *m, Func *f) {
  Global *g = module_add(m, GLOBAL_FUNC, f->name);
  g->func = f;
  f->name = g->name;
}

void module_add_prim(Module *m, PrimFunc *f) {
  Global *g = module_add(m, GLOBAL_PRIM, f->name);
  g->prim = f;
  f->name = g->name;
  f->module = m;
}

Global *module_add_extern(Module *m, const char *name, const char *symbol, const SInfo *si) {
  Global *g = module_add(m, GLOBAL_EXTERN, name);
  g->ext.symbol = strpool_intern(m->ctx->strings, symbol, strlen(symbol));
  g->ext.sinfo = si;
  return g;
}

const char *module_unique_name(Module *m, const char *hint) {
  if (!module_find(m, hint)) return strpool_intern(m->ctx->strings, hint, strlen(hint));
  hint = strpool_intern(m->ctx->strings, hint, strlen(hint));
  uintptr_t i = (uintptr_t)strmap_get(&m->suffixes, hint);
  const char *name;
  do name = arena_printf(m->arena, "%s%zu", hint, (size_t)++i);
  while (module_find(m, name));
  strmap_set(&m->suffixes, hint, (void *)i);
  return strpool_intern(m->ctx->strings, name, strlen(name));
}

PrimFunc *primfunc_create(Module *m, const char *name, Span s) {
  PrimFunc *f = ARENA_NEW(m->arena, PrimFunc);
  f->name = strpool_intern(m->ctx->strings, name, strlen(name));
  f->id = m->next_func++;
  f->span = s;
  f->module = m;
  f->check_well_formed = true;
  return f;
}
