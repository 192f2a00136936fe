/* DeadCodeElimination: drops unused pure bindings, empty blocks, and functions that no entry
 * reaches.
 *
 *   before: a = R.exp(x); b = R.add(x, x); return b
 *   after:  b = R.add(x, x); return b
 *
 * Entries are the public functions and those of option entry_functions. Bindings are visited from
 * the last to the first, so that one walk removes whole chains.
 */
#include "ir/reach.h"
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

/* The other instruction sets' versions of what is reached. */
static void reach_variants(Reach *r) {
  module_each(r->m, v) {
    const char *of =
        v->kind == GLOBAL_PRIM ? attr_get_str(v->prim->attrs, "relaxc.variant_of", NULL) : NULL;
    if (of && reach_has(r, of)) reach_add(r, v->name);
  }
}

static bool remove_functions(PassCtx *pc) {
  Reach r;
  const Attr *entries = attr_get(pc->options, "entry_functions");
  bool any = false;
  reach_init(&r, pc->m, pc->scratch);
  for (uint32_t i = 0; entries && i < entries->n; i++) {
    const Attr *e = entries->items[i];
    if (e->kind != ATTR_STR || !module_find(pc->m, e->s)) {
      diag_error(pc->c->diags, SPAN_NONE, "entry_functions names '%s', which the module has not",
                 e->kind == ATTR_STR ? e->s : "?");
      return false;
    }
    reach_add(&r, e->s);
    any = true;
  }
  module_each(pc->m, g) if (global_is_entry(g)) {
    any = true;
    reach_add(&r, g->name);
  }
  if (!any) return true; /* nothing is visible outside: a library of private functions */
  reach_variants(&r);
  module_each(pc->m, g) if (!reach_has(&r, g->name) && pass_wants(pc, g->name)) g->removed = true;
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
