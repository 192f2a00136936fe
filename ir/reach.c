/* Reachability: a list of functions whose bodies are still to be read. */
#include "ir/reach.h"
#include "ir/op.h"
#include "ir/tir.h"

static void reach(Reach *r, const char *name) {
  Global *g = module_find(r->m, name);
  if (!g || reach_has(r, name)) return;
  strmap_set(&r->reached, name, g);
  vec_push(r->arena, &r->todo, g);
}

static void reach_node(Reach *r, const Node *n) {
  if (n->op == OP_GLOBAL) reach(r, n->str);
  for (uint32_t i = 0; i < n->nin; i++)
    if (!node_in(n, i)->block && node_in(n, i)->op != OP_PARAM) reach_node(r, node_in(n, i));
}

static bool reach_call(const Expr *e, void *ctx) {
  if (e->kind == EXPR_CALL_FUNC) reach(ctx, e->s);
  return true;
}

static void reach_expr(const Expr *e, void *ctx) {
  expr_walk(e, reach_call, ctx);
}

static bool reach_stmt(const Stmt *s, void *ctx) {
  stmt_exprs(s, reach_expr, ctx);
  return true;
}

static void reach_seq(Reach *r, const Seq *s) {
  for (const BindingBlock *b = s->first; b; b = b->next)
    for (const Node *n = b->first; n; n = n->next) {
      reach_node(r, n);
      if (n->op == OP_FUNC) reach_seq(r, &n->local->body);
      if (n->op != OP_IF) continue;
      reach_seq(r, &n->if_.then_);
      reach_seq(r, &n->if_.else_);
    }
  if (s->yield) reach_node(r, s->yield);
}

void reach_init(Reach *r, Module *m, Arena *a) {
  *r = (Reach){.m = m, .arena = a};
  strmap_init(&r->reached, a);
}

static void reach_rest(Reach *r) {
  while (r->todo.n) {
    Global *g = vec_pop(&r->todo);
    if (g->kind == GLOBAL_FUNC) reach_seq(r, &g->func->body);
    if (g->kind == GLOBAL_PRIM) stmt_walk(g->prim->body, reach_stmt, r);
  }
}

void reach_add(Reach *r, const char *name) {
  reach(r, name);
  reach_rest(r);
}

/* A function all of whose callees end does so itself; what is left in the end does not, or may not.
 */
void module_endless(Module *m, StrMap *out) {
  Arena *a = arena_create();
  typedef VEC(Global *) Callers;
  Map callers; /* Global -> Callers */
  Map open;    /* Global -> number of callees that are left */
  VEC(Global *) done = {0};
  map_init(&callers, a);
  map_init(&open, a);
  module_each(m, g) {
    if (g->kind != GLOBAL_FUNC) continue;
    Reach direct;
    reach_init(&direct, m, a);
    reach_seq(&direct, &g->func->body);
    uintptr_t count = 0;
    for (uint32_t i = 0; i < direct.reached.n; i++) {
      Global *callee = direct.reached.entries[i].value;
      if (callee->kind != GLOBAL_FUNC) continue;
      void **list = map_atp(&callers, callee);
      if (!*list) *list = ARENA_NEW(a, Callers);
      vec_push(a, (Callers *)*list, g);
      count++;
    }
    map_setp(&open, g, (void *)count);
    if (!count) vec_push(a, &done, g);
  }
  while (done.n) {
    const Callers *list = map_getp(&callers, vec_pop(&done));
    for (uint32_t i = 0; list && i < list->n; i++) {
      void **left = map_atp(&open, list->at[i]);
      *left = (void *)((uintptr_t)*left - 1);
      if (!*left) vec_push(a, &done, list->at[i]);
    }
  }
  module_each(m, g) if (g->kind == GLOBAL_FUNC && map_getp(&open, g)) strmap_set(out, g->name, g);
  arena_free(a);
}

bool func_is_recursive(Module *m, Arena *a, const Func *f) {
  Reach r;
  reach_init(&r, m, a);
  reach_seq(&r, &f->body);
  reach_rest(&r);
  return reach_has(&r, f->name);
}

bool global_is_entry(const Global *g) {
  switch (g->kind) {
  case GLOBAL_FUNC: return !g->func->is_private;
  case GLOBAL_PRIM: return !g->prim->is_private;
  case GLOBAL_EXTERN: return true;
  }
  return true;
}
