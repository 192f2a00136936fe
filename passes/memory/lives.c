/* Lives of tensors: from the allocation to the last use of any value that may share the memory
 * (views, tuples, results of branches).
 */
#include "passes/memory/plan.h"

static const int64_t MOST_LIKELY = (int64_t)1 << 50; /* bytes */
enum { ALIGN = 64 };

/* The OP_IF whose branch ends in this yield; NULL for a function's. */
static Node *branch_owner(Plan *p, const Node *yield) {
  SeqVec seqs = {0};
  func_seqs(p->a, p->f, &seqs);
  for (uint32_t k = 0; k < seqs.n; k++)
    if (seqs.at[k]->yield == yield) return seqs.at[k]->first ? seqs.at[k]->first->owner : NULL;
  return NULL;
}

int64_t position_of(Plan *p, Node *n) {
  Node *here = n->block ? node_in_seq(n, p->seq) : NULL;
  return here ? (int64_t)(uintptr_t)map_getp(&p->position, here) - 1 : -1;
}

/* Extends the life of alloc `l` over the uses of value v, which shares its memory. */
static void follow(Plan *p, Life *l, const Node *v, Map *seen) {
  if (map_hasp(seen, v)) return;
  map_setp(seen, v, l);
  for (const Use *u = v->uses; u; u = u->next) {
    Node *user = u->user;
    int64_t at = position_of(p, user);
    if (at > l->end) l->end = (uint32_t)at;
    if (user->op == OP_YIELD) {
      /* A branch's result is the OP_IF's value; that of this sequence or a function leaves. */
      Node *owner = user == p->seq->yield ? NULL : branch_owner(p, user);
      if (owner)
        follow(p, l, owner, seen);
      else
        l->escapes = true;
    } else if (!user->block && !node_may_alias(user)) {
      l->escapes = true; /* not understood */
    } else if (at < 0 && user->block) {
      l->escapes = true; /* used outside of this sequence, or in a local function */
    }
    if (node_may_alias(user) && user->op != OP_YIELD) follow(p, l, user, seen);
  }
}

const Dim *tensor_bytes(Plan *p, const SInfo *s) {
  Context *c = p->pc->c;
  const Dim *elems = expr_dim(c, expr_product(c, s->dims, (uint32_t)s->ndim));
  return dim_scale(c, elems, (int64_t)dtype_bytes(s->dtype));
}

static Life *new_life(Plan *p, Node *n, uint32_t at) {
  Context *c = p->pc->c;
  Life *l = ARENA_NEW(p->a, Life);
  Map seen;
  map_init(&seen, p->a);
  l->n = n;
  l->begin = l->end = at;
  l->bytes = dim_add(c, tensor_bytes(p, n->sinfo), dim_const(c, ALIGN - 1));
  l->bytes = dim_scale(c, dim_floordiv(c, l->bytes, dim_const(c, ALIGN)), ALIGN);
  follow(p, l, n, &seen);
  return l;
}

void collect_lives(Plan *p) {
  p->lives.n = 0;
  p->npositions = 0;
  map_init(&p->position, p->a);
  for (BindingBlock *b = p->seq->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next)
      map_setp(&p->position, n, (void *)(uintptr_t)++p->npositions);
  uint32_t at = 0;
  for (BindingBlock *b = p->seq->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next, at++) {
      if (n->op != OP_builtin_alloc_tensor || n->sinfo->kind != SINFO_TENSOR || !n->sinfo->dims)
        continue;
      Life *l = new_life(p, n, at);
      if (!l->escapes) vec_push(p->a, &p->lives, l);
    }
}

const Node *memory_of(const Node *v) {
  while (v->op == OP_ALIAS || v->op == OP_MATCH_CAST || (v->op == OP_memory_view && v->nin < 4))
    v = node_in(v, 0);
  return v;
}

PrimFunc *called_prim(Plan *p, const Node *n) {
  bool global = n->op == OP_CALL && node_in(n, 0)->op == OP_GLOBAL;
  PrimFunc *f = global ? module_prim(p->pc->m, node_in(n, 0)->str) : NULL;
  if (!f || n->nin != f->nparams + 1) return NULL;
  for (uint32_t i = 0; i < f->nparams; i++)
    if ((f->param_bufs[i] != NULL) != (node_in(n, i + 1)->sinfo->kind == SINFO_TENSOR)) return NULL;
  return f;
}

bool is_known(Plan *p, const Dim *d) {
  VarVec used = {0};
  expr_vars(p->a, dim_expr(p->pc->c, d, DT_I64), &used);
  for (uint32_t i = 0; i < used.n; i++)
    if (!map_hasp(&p->known, used.at[i])) return false;
  return true;
}

bool likely_bytes(Plan *p, const Dim *bytes, uint32_t k, int64_t *out) {
  if (!dim_is_const(dim_subst(p->pc->c, bytes, &p->likely[k]), out)) return false;
  if (*out < 0) *out = 0;
  if (*out > MOST_LIKELY) *out = MOST_LIKELY;
  return true;
}
