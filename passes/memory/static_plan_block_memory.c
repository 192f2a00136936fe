/* StaticPlanBlockMemory: tensors whose lives don't overlap share storage; sizes may be symbolic.
 *
 *   before: a = R.builtin.alloc_tensor(...); b = R.builtin.alloc_tensor(...)
 *   after:  s = R.memory.alloc_storage(R.shape([size]), 0, R.str("global"), R.dtype("uint8"))
 *           a = R.memory.alloc_tensor(s, 0, shape, dtype); b the same once a is dead
 *
 * Linear scan per sequence: a tensor lives from its allocation to the last use of any value that
 * may share its memory (views, tuples, results of branches). Of the storages that are free the
 * planner takes one of equal size, else the smallest that is provably large enough, else it
 * enlarges the one that is provably closest, else makes the size the maximum of both. Sizes are
 * byte counts as Dims, so that n * 4 fits where n * 4 + 64 did. What leaves the sequence stays
 * R.builtin.alloc_tensor: a function's result is written straight into the caller's buffer.
 */
#include "passes/graph/graph.h"

enum { ALIGN = 64 };

typedef struct Storage {
  const Dim *bytes;
  uint32_t free_from; /* position after which it is unused */
  VEC(Node *) tensors;
} Storage;

typedef struct {
  Node *n;
  uint32_t begin, end; /* positions; end: last use */
  bool escapes;
  const Dim *bytes;
} Life;

typedef struct {
  PassCtx *pc;
  Arena *a;
  Func *f;
  Seq *seq;
  Map position; /* Node of the sequence -> position + 1 */
  Map known;    /* Var* that exist at the top of the sequence */
  VEC(Life *) lives;
  VEC(Storage *) storages;
} Plan;

/* The OP_IF whose branch ends in this yield; NULL for a function's. */
static Node *branch_owner(Plan *p, const Node *yield) {
  SeqVec seqs = {0};
  func_seqs(p->a, p->f, &seqs);
  for (uint32_t k = 0; k < seqs.n; k++)
    if (seqs.at[k]->yield == yield) return seqs.at[k]->first ? seqs.at[k]->first->owner : NULL;
  return NULL;
}

/* Extends the life of alloc `l` over the uses of value v, which shares its memory. */
static void follow(Plan *p, Life *l, const Node *v, Map *seen) {
  if (map_hasp(seen, v)) return;
  map_setp(seen, v, l);
  for (const Use *u = v->uses; u; u = u->next) {
    Node *user = u->user, *here = user->block ? node_in_seq(user, p->seq) : NULL;
    uintptr_t at = here ? (uintptr_t)map_getp(&p->position, here) : 0;
    if (at && at - 1 > l->end) l->end = (uint32_t)(at - 1);
    if (user->op == OP_YIELD) {
      /* A branch's result is the OP_IF's value; that of this sequence or a function leaves. */
      Node *owner = user == p->seq->yield ? NULL : branch_owner(p, user);
      if (owner)
        follow(p, l, owner, seen);
      else
        l->escapes = true;
    } else if (!user->block && !node_may_alias(user)) {
      l->escapes = true; /* not understood */
    } else if (!here && user->block) {
      l->escapes = true; /* used outside of this sequence, or in a local function */
    }
    if (node_may_alias(user) && user->op != OP_YIELD) follow(p, l, user, seen);
  }
}

static void collect(Plan *p) {
  Context *c = p->pc->c;
  uint32_t at = 0;
  for (BindingBlock *b = p->seq->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) map_setp(&p->position, n, (void *)(uintptr_t)++at);
  at = 0;
  for (BindingBlock *b = p->seq->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next, at++) {
      if (n->op != OP_builtin_alloc_tensor || n->sinfo->kind != SINFO_TENSOR || !n->sinfo->dims)
        continue;
      Life *l = ARENA_NEW(p->a, Life);
      Map seen;
      map_init(&seen, p->a);
      l->n = n;
      l->begin = l->end = at;
      const Expr *elems = expr_product(c, n->sinfo->dims, (uint32_t)n->sinfo->ndim);
      l->bytes = dim_scale(c, expr_dim(c, elems), (int64_t)dtype_bytes(n->sinfo->dtype));
      follow(p, l, n, &seen);
      if (!l->escapes) vec_push(p->a, &p->lives, l);
    }
}

/* ---- choosing storage ---- */

/* Whether a size can be computed where the sequence begins. */
static bool is_known(Plan *p, const Dim *d) {
  VarVec used = {0};
  expr_vars(p->a, dim_expr(p->pc->c, d, DT_I64), &used);
  for (uint32_t i = 0; i < used.n; i++)
    if (!map_hasp(&p->known, used.at[i])) return false;
  return true;
}

static bool fits(Plan *p, const Dim *need, const Dim *have) {
  return prove_le(p->pc->c, NULL, need, have) == PROOF_YES;
}

static Storage *choose(Plan *p, const Life *l) {
  Context *c = p->pc->c;
  Storage *best = NULL, *grow = NULL, *any = NULL;
  bool known = is_known(p, l->bytes);
  for (uint32_t i = 0; i < p->storages.n; i++) {
    Storage *s = p->storages.at[i];
    if (s->free_from > l->begin) continue;
    if (s->bytes == l->bytes) return s;
    if (fits(p, l->bytes, s->bytes)) {
      if (!best || fits(p, s->bytes, best->bytes)) best = s;
    } else if (known && fits(p, s->bytes, l->bytes)) {
      if (!grow || fits(p, grow->bytes, s->bytes)) grow = s;
    } else if (known && !any && is_known(p, s->bytes)) {
      any = s;
    }
  }
  if (best) return best;
  if (grow) {
    grow->bytes = l->bytes;
    return grow;
  }
  if (any) {
    any->bytes = dim_max(c, any->bytes, l->bytes);
    return any;
  }
  Storage *s = ARENA_NEW(p->a, Storage);
  s->bytes = l->bytes;
  vec_push(p->a, &p->storages, s);
  return s;
}

/* ---- rewriting ---- */

static Node *make_storage(Plan *p, const Storage *s) {
  Context *c = p->pc->c;
  Node *at = s->tensors.at[0];
  Span span = at->span;
  const Dim *up = dim_add(c, s->bytes, dim_const(c, ALIGN - 1));
  up = dim_scale(c, dim_floordiv(c, up, dim_const(c, ALIGN)), ALIGN);
  const Expr *size = dim_expr(c, up, DT_I64);
  Node *in[] = {node_shape(p->f, &size, 1, span), node_prim(p->f, expr_i64(c, 0), span),
                node_str(p->f, "global", span), node_dtype(p->f, DT_U8, span)};
  Node *n = node_create(p->f, OP_memory_alloc_storage, in, 4, span);
  n->attrs = node_new_attrs(p->f, OP_memory_alloc_storage);
  n->sinfo = sinfo_object(c);
  node_bind_before(at, n, "storage");
  return n;
}

static void use_storage(Plan *p, Node *storage, Node *old) {
  Context *c = p->pc->c;
  Span span = old->span;
  Node *in[] = {storage, node_prim(p->f, expr_i64(c, 0), span),
                node_shape(p->f, old->sinfo->dims, (uint32_t)old->sinfo->ndim, span),
                node_dtype(p->f, old->sinfo->dtype, span)};
  Node *n = node_create(p->f, OP_memory_alloc_tensor, in, 4, span);
  n->attrs = node_new_attrs(p->f, OP_memory_alloc_tensor);
  n->sinfo = old->sinfo;
  graph_take_place(old, n);
}

static void plan_seq(PassCtx *pc, Func *f, Seq *s) {
  Plan p = {.pc = pc, .a = pc->scratch, .f = f, .seq = s};
  map_init(&p.position, p.a);
  map_init(&p.known, p.a);
  for (uint32_t i = 0; i < f->ndims; i++) map_setp(&p.known, f->dims[i], f);
  collect(&p);
  for (uint32_t i = 0; i < p.lives.n; i++) {
    Life *l = p.lives.at[i];
    Storage *st = choose(&p, l);
    st->free_from = l->end + 1; /* its last reader still needs it */
    vec_push(p.a, &st->tensors, l->n);
  }
  for (uint32_t i = 0; i < p.storages.n; i++) {
    Storage *st = p.storages.at[i];
    Node *storage = make_storage(&p, st);
    for (uint32_t k = 0; k < st->tensors.n; k++) use_storage(&p, storage, st->tensors.at[k]);
  }
  if (pc->remarks && p.lives.n)
    diag(pc->c->diags, DIAG_REMARK, f->span, "%u tensors of '%s' share %u storages", p.lives.n,
         f->name, p.storages.n);
}

bool pass_static_plan_block_memory(PassCtx *pc) {
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    SeqVec seqs = {0};
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t k = 0; k < seqs.n; k++) plan_seq(pc, g->func, seqs.at[k]);
  }
  return true;
}
