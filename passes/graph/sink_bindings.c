/* SinkBindings: what only one branch of an `if` needs is computed in that branch.
 *
 *   before: a = R.exp(x)              after:  if c:
 *           if c:                                 a = R.exp(x)
 *               y = R.add(a, x)                   y = R.add(a, x)
 *           else:                             else:
 *               y = x                             y = x
 *
 * For pure bindings, past pure bindings: nobody can tell but by the time it takes. Networks for
 * several kinds of input come as whole towers before one `if`. Bindings are visited from the last
 * to the first, so that one walk sinks whole chains; what lands in a branch may sink further there.
 */
#include "passes/graph/graph.h"

typedef struct {
  Map owner;      /* Seq of a branch -> its OP_IF */
  Map yield;      /* OP_YIELD -> the Seq that it ends */
  Map in_reach;   /* OP_IF -> stretch that it ends */
  size_t stretch; /* number of the run of pure bindings that is walked, counted from the end */
} Places;

/* The Seq that `user` stands in; NULL: it isn't bound. */
static Seq *seq_of_user(const Places *p, const Node *user) {
  if (user->block) return user->block->seq;
  return user->op == OP_YIELD ? map_getp(&p->yield, user) : NULL;
}

/* The branch of an `if` in s that holds all users of n, *at being it; false: there are others. */
static bool find_branch(const Places *p, const Seq *s, const Node *n, Seq **at) {
  for (const Use *u = n->uses; u; u = u->next) {
    Seq *q = seq_of_user(p, u->user);
    if (!q) { /* a tuple or a shape written in place */
      if (u->user->op == OP_YIELD || !find_branch(p, s, u->user, at)) return false;
      continue;
    }
    for (;;) {
      if (q == s) return false;
      const Node *owner = map_getp(&p->owner, q);
      if (!owner) return false;
      if (owner->block->seq == s) break;
      q = owner->block->seq;
    }
    if (*at && *at != q) return false;
    *at = q;
  }
  return true;
}

static bool may_move(const Node *n) {
  switch (n->op) {
  case OP_IF:
  case OP_FUNC:
  case OP_MATCH_CAST:
  case OP_call_tir_inplace:
  case OP_call_inplace_packed: return false;
  default: return op_is_pure(n);
  }
}

static void move_to(Places *p, Node *n, Seq *branch) {
  Node *owner = map_getp(&p->owner, branch);
  node_unbind(n);
  if (branch->first && branch->first->first)
    node_bind_before(branch->first->first, n, NULL);
  else
    node_bind_last(block_append(n->func, branch, owner, false, n->span), n, NULL);
}

static void note_branches(Places *p, Seq *s) {
  map_setp(&p->yield, s->yield, s);
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) {
      if (n->op != OP_IF) continue;
      map_setp(&p->owner, &n->if_.then_, n);
      map_setp(&p->owner, &n->if_.else_, n);
      note_branches(p, &n->if_.then_);
      note_branches(p, &n->if_.else_);
    }
}

static bool has_effect(const Node *n) {
  return n->op == OP_IF || n->op == OP_MATCH_CAST ? !op_is_pure(n) : !may_move(n);
}

static void run_seq(Places *p, Seq *s) {
  bool seen = false; /* an OP_IF */
  p->stretch++;
  for (BindingBlock *b = s->last, *before; b; b = before) {
    before = b->prev;
    for (Node *n = b->last, *prev; n; n = prev) {
      prev = n->prev;
      if (has_effect(n)) p->stretch++;
      if (n->op == OP_IF) {
        map_setp(&p->in_reach, n, (void *)p->stretch);
        seen = true;
      }
      Seq *branch = NULL;
      if (seen && n->uses && may_move(n) && find_branch(p, s, n, &branch) && branch &&
          (size_t)map_getp(&p->in_reach, map_getp(&p->owner, branch)) == p->stretch)
        move_to(p, n, branch);
    }
    if (b->n == 0) block_remove(b);
  }
  for (BindingBlock *b = s->first; seen && b; b = b->next)
    for (Node *n = b->first; n; n = n->next) {
      if (n->op != OP_IF) continue;
      run_seq(p, &n->if_.then_);
      run_seq(p, &n->if_.else_);
    }
}

bool pass_sink_bindings(PassCtx *pc) {
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    Places p;
    map_init(&p.owner, pc->scratch);
    map_init(&p.yield, pc->scratch);
    map_init(&p.in_reach, pc->scratch);
    p.stretch = 1;
    note_branches(&p, &g->func->body);
    run_seq(&p, &g->func->body);
    func_mark_outputs(g->func);
  }
  return true;
}
