/* The session: what lives as long as the process's one compilation. */
#ifndef RELAXC_CONTEXT_H
#define RELAXC_CONTEXT_H

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/intern.h"
#include "ir/base/source.h"

typedef struct Context {
  Arena *arena; /* session lifetime */
  SourceMap *sources;
  Diags *diags;
  StrPool *strings;
  struct ExprPool *exprs;   /* made by expr_pool_create (ir/expr.h) */
  struct DimPool *dims;     /* made by dim_pool_create (ir/dim.h) */
  struct SInfoPool *sinfos; /* made by sinfo_pool_create (ir/sinfo.h) */
  uint32_t next_var;        /* ids of Vars and Buffers */
} Context;

/* Creates and frees a session with its arenas, pools and diagnostics (ir/context.c). */
Context *context_create(void);
void context_free(Context *c);

#endif
