/* The session: arenas, sources, diagnostics, strings and the three pools, made in the order in
 * which they need each other. */
#include "ir/context.h"
#include "ir/dim.h"
#include "ir/expr.h"
#include "ir/sinfo.h"

Context *context_create(void) {
  Arena *a = arena_create();
  Context *c = ARENA_NEW(a, Context);
  c->arena = a;
  c->sources = sources_create(a);
  c->diags = diags_create(a, c->sources);
  c->strings = strpool_create(a);
  c->exprs = expr_pool_create(c);
  c->dims = dim_pool_create(c);
  c->sinfos = sinfo_pool_create(c);
  return c;
}

void context_free(Context *c) {
  if (c) arena_free(c->arena);
}
