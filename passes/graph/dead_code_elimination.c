/* DeadCodeElimination: drops unused pure bindings, empty blocks, and functions that no entry
 * reaches.
 *
 *   before: a = R.exp(x); b = R.add(x, x); return b
 *   after:  b = R.add(x, x); return b
 *
 * Entries are the public functions and those of option entry_functions. Bindings are visited from
 * the last to the first, so that one walk removes whole chains.
 */
#include "passes/graph/graph.h"
#include <string.h>

static bool is_removable(const Node *n) {
  if (n->uses) return false;
  switch (n->op) {
  case OP_IF:
  case OP_MATCH_CAST: return false; /* checked at run time; branches may have effects */
  case OP_FUNC: return true;
  default: return op_is_pure(n);
  }
}

/* Whether everything in a branch is gone but its result. */
static bool is_empty(const Seq *s) {
  for (const BindingBlock *b = s->first; b; b = b->next)
    if (b->n) return false;
  return true;
}

static void run_seq(Seq *s) {
  for (BindingBlock *b = s->last, *before; b; b = before) {
    before = b->prev;
    for (Node *n = b->last, *prev; n; n = prev) {
      prev = n->prev;
      if (n->op == OP_IF && n->uses == NULL) {
        run_seq(&n->if_.then_);
        run_seq(&n->if_.else_);
        if (is_empty(&n->if_.then_) && is_empty(&n->if_.else_)) node_delete(n);
        continue;
      }
      if (is_removable(n)) {
        node_delete(n);
        continue;
      }
      if (n->op == OP_IF) {
        run_seq(&n->if_.then_);
        run_seq(&n->if_.else_);
      } else if (n->op == OP_FUNC && n->local) {
        run_seq(&n->local->body);
      }
    }
    if (b->n == 0) block_remove(b);
  }
}

/* ---- functions ---- */

typedef struct {
  Module *m;
  Arena *a;
  StrMap reached;
  VEC(Global *) todo;
} Reach;

static void reach(Reach *r, const char *name) {
  Global *g = module_find(r->m, name);
  if (!g || strmap_has(&r->reached, name)) return;
  strmap_set(&r->reached, name, g);
  vec_push(r->a, &r->todo, g);
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

static void reach_func(Reach *r, Func *f) {
  SeqVec seqs = {0};
  func_seqs(r->a, f, &seqs);
  for (uint32_t i = 0; i < seqs.n; i++) {
    for (BindingBlock *b = seqs.at[i]->first; b; b = b->next)
      for (Node *n = b->first; n; n = n->next) reach_node(r, n);
    if (seqs.at[i]->yield) reach_node(r, seqs.at[i]->yield);
  }
}

static void reach_all(Reach *r) {
  while (r->todo.n) {
    Global *g = vec_pop(&r->todo);
    if (g->kind == GLOBAL_FUNC) reach_func(r, g->func);
    if (g->kind == GLOBAL_PRIM) stmt_walk(g->prim->body, reach_stmt, r);
  }
}

/* The other instruction sets' versions of what is reached. */
static void reach_variants(Reach *r) {
  module_each(r->m, v) {
    const char *of =
        v->kind == GLOBAL_PRIM ? attr_get_str(v->prim->attrs, "relaxc.variant_of", NULL) : NULL;
    if (of && strmap_has(&r->reached, of)) reach(r, v->name);
  }
  reach_all(r);
}

static bool is_entry(const Global *g) {
  switch (g->kind) {
  case GLOBAL_FUNC: return !g->func->is_private;
  case GLOBAL_PRIM: return !g->prim->is_private;
  case GLOBAL_EXTERN: return true;
  }
  return true;
}

static bool remove_functions(PassCtx *pc) {
  Reach r = {.m = pc->m, .a = pc->scratch};
  const Attr *entries = attr_get(pc->options, "entry_functions");
  bool any = false;
  strmap_init(&r.reached, pc->scratch);
  for (uint32_t i = 0; entries && i < entries->n; i++) {
    const Attr *e = entries->items[i];
    if (e->kind != ATTR_STR || !module_find(pc->m, e->s)) {
      diag_error(pc->c->diags, SPAN_NONE, "entry_functions names '%s', which the module has not",
                 e->kind == ATTR_STR ? e->s : "?");
      return false;
    }
    reach(&r, e->s);
    any = true;
  }
  module_each(pc->m, g) if (is_entry(g)) {
    any = true;
    reach(&r, g->name);
  }
  if (!any) return true; /* nothing is visible outside: a library of private functions */
  reach_all(&r);
  reach_variants(&r);
  module_each(pc->m, g) if (!strmap_has(&r.reached, g->name) && pass_wants(pc, g->name))
      g->removed = true;
  return true;
}

bool pass_dead_code_elimination(PassCtx *pc) {
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    run_seq(&g->func->body);
    func_mark_outputs(g->func);
  }
  return remove_functions(pc);
}
