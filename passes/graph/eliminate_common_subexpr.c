/* EliminateCommonSubexpr: repeated pure expressions become the first variable bound to them.
 *
 *   before: a = R.exp(x); b = R.exp(x); c = R.add(a, b)
 *   after:  a = R.exp(x); c = R.add(a, a)
 *
 * One table of what is available per scope; a branch sees the tables around it. Plain copies
 * (b = a) are forwarded. Hash-consing along one walk: linear in the size of the module.
 */
#include "passes/graph/graph.h"

typedef struct Scope {
  Map table; /* hash -> list of Known */
  struct Scope *outer;
} Scope;

typedef struct Known {
  Node *n;
  struct Known *next;
} Known;

typedef struct {
  PassCtx *pc;
  bool call_only;
} Cse;

static bool is_candidate(const Cse *x, const Node *n) {
  switch (n->op) {
  case OP_IF:
  case OP_FUNC:
  case OP_MATCH_CAST: /* binds variables */
  case OP_PARAM:
  case OP_YIELD: return false;
  case OP_CONST:
  case OP_TUPLE:
  case OP_TUPLE_GET:
  case OP_SHAPE_EXPR:
  case OP_PRIM_VALUE: return !x->call_only;
  default: return op_is_pure(n) && !(node_op(n)->traits & OPT_MEMORY);
  }
}

static void run_seq(Cse *x, Seq *s, Scope *outer) {
  Scope scope = {.outer = outer};
  map_init(&scope.table, x->pc->scratch);
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first, *next; n; n = next) {
      next = n->next;
      if (n->op == OP_IF) {
        run_seq(x, &n->if_.then_, &scope);
        run_seq(x, &n->if_.else_, &scope);
      } else if (n->op == OP_FUNC && n->local) {
        run_seq(x, &n->local->body, NULL);
      } else if (n->op == OP_ALIAS && !x->call_only && n->sinfo == node_in(n, 0)->sinfo) {
        graph_replace(n, node_in(n, 0));
        node_delete(n);
        continue;
      }
      if (!is_candidate(x, n)) continue;
      uint64_t h = node_hash(n);
      Node *first = NULL;
      for (Scope *k = &scope; k && !first; k = k->outer)
        for (Known *e = map_get(&k->table, h); e && !first; e = e->next)
          if (node_same(e->n, n)) first = e->n;
      if (first) {
        graph_replace(n, first);
        node_delete(n);
        continue;
      }
      Known *e = ARENA_NEW(x->pc->scratch, Known);
      e->n = n;
      e->next = map_get(&scope.table, h);
      map_set(&scope.table, h, e);
    }
}

bool pass_eliminate_common_subexpr(PassCtx *pc) {
  Cse x = {.pc = pc, .call_only = attr_get_bool(pc->options, "call_only", false)};
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    run_seq(&x, &g->func->body, NULL);
    func_mark_outputs(g->func);
  }
  return true;
}
