/* A module: functions of both levels under unique names, module attributes, global infos. */
#ifndef RELAXC_IR_MODULE_H
#define RELAXC_IR_MODULE_H

#include "ir/node.h"
#include "ir/tir.h"

typedef enum { GLOBAL_FUNC, GLOBAL_PRIM, GLOBAL_EXTERN } GlobalKind;

typedef struct {
  GlobalKind kind;
  const char *name;
  bool removed;
  bool broken; /* its text has errors: what is there of it isn't checked */
  union {
    Func *func;
    PrimFunc *prim;
    struct {
      const char *symbol;
      const SInfo *sinfo;
    } ext; /* R.ExternFunc */
  };
} Global;

typedef struct Module {
  Context *ctx;
  Arena *arena;       /* module lifetime */
  const char *name;   /* class name as read; printed as Module */
  bool as_read;       /* no pass has run: guards print as the text they stand for */
  bool lone;          /* a bare function without a class: printed without one */
  bool out_of_bounds; /* an access that surely runs is out of range (lint_bounds) */
  bool legalized;     /* set by LegalizeOps: "no operator left" is a verifier rule from then on */
  const Attr *attrs;  /* I.module_attrs */
  const Attr *global_infos; /* I.module_global_infos */
  VEC(Global *) globals;    /* in order of appearance; skip removed ones */
  StrMap by_name;           /* name -> Global * */
  StrMap suffixes;          /* next number that module_unique_name tries for a hint */
  uint32_t next_node, next_func, next_const;
  uint32_t file;          /* source file, 0 if none */
  Span span;              /* where the class is named in it */
  const Span *attr_spans; /* while the reader infers a node: where its attributes stand, in the
                             order of the operator's row; without a file for what isn't written */
} Module;

Module *module_create(Context *c);
Global *module_find(const Module *m, const char *name); /* NULL when absent or removed */
Func *module_func(const Module *m, const char *name);
PrimFunc *module_prim(const Module *m, const char *name);
/* The C function that a node calls, R.ExternFunc or by its name; NULL for any other node. */
const char *module_call_symbol(const Module *m, const Node *call);
/* The callable behind a name; nothing is known of one that the module doesn't have. */
const SInfo *global_sinfo(const Module *m, const char *name);
void module_add_func(Module *m, Func *f); /* name must be free */
void module_add_prim(Module *m, PrimFunc *f);
Global *module_add_extern(Module *m, const char *name, const char *symbol, const SInfo *si);
const char *module_unique_name(Module *m, const char *hint);
/* New, empty prim_func in the module arena, not yet added. */
PrimFunc *primfunc_create(Module *m, const char *name, Span s);
static inline Arena *func_arena(const Func *f) {
  return f->module->arena;
}
static inline Context *func_ctx(const Func *f) {
  return f->module->ctx;
}

#define module_each(m, g)                                                                          \
  for (uint32_t g##_i = 0; g##_i < (m)->globals.n; g##_i++)                                        \
    for (Global *g = (m)->globals.at[g##_i]; g && !g->removed; g = NULL)

#endif
