/* StaticPlanBlockMemory: tensors whose lives don't overlap share memory; sizes may be symbolic.
 *
 *   before: a = R.builtin.alloc_tensor(...); b = R.builtin.alloc_tensor(...)
 *   after:  s = R.memory.alloc_storage(R.shape([size]), 0, R.str("global"), R.dtype("uint8"))
 *           a = R.memory.alloc_tensor(s, 0, shape, dtype); b the same once a is dead
 *
 * A tensor lives from its allocation to the last use of any value that may share its memory (views,
 * tuples, results of branches). All tensors of a sequence whose sizes are known where it begins are
 * parts of one storage (layout.c). The others, and all where there are very many, take turns with
 * whole storages, by linear scan: one of equal size that is free, else the smallest that is
 * provably large enough, else the provably closest enlarged. A result is written over an operand
 * whose life ends with the call, where the callee's loops load each element before it is stored
 * (loop/in_place.c) and the sizes are equal: the two live as one. Sizes are byte counts as Dims, so
 * that n * 4 fits where n * 4 + 64 did. What leaves the sequence stays R.builtin.alloc_tensor: a
 * function's result is written straight into the caller's buffer.
 */
#include "ir/print.h"
#include "passes/graph/graph.h"
#include "passes/loop/loop.h"
#include "passes/memory/layout.h"

static const int64_t MOST_LIKELY = (int64_t)1 << 50; /* bytes; sums of so many fit */
enum {
  ALIGN = 64,
  MOST_IN_PLACES = 4096 /* tensors; more would take long */
};

typedef struct Life {
  Node *n;
  uint32_t begin, end; /* positions; end: last use */
  bool escapes;
  const Dim *bytes;
  struct Life *over; /* whose memory it is written in, and whose life holds this one's; or NULL */
  bool overwritten;  /* by a result: nothing else may be written here */
  Node *storage;     /* once it has its place */
  const Dim *offset;
} Life;

typedef struct Storage {
  const Dim *bytes;
  uint32_t free_from; /* position after which it is unused */
  VEC(Life *) tensors;
} Storage;

typedef struct {
  PassCtx *pc;
  Arena *a;
  Func *f;
  Seq *seq;
  Map position;                   /* Node of the sequence -> position + 1 */
  Map known;                      /* Var* that exist at the top of the sequence */
  Map likely[LIKELY];             /* Var* of a dim -> a value */
  Map scans;                      /* PrimFunc* -> what in_place_proved knows */
  VEC(Life *) lives, overwriting; /* the latter: in another's memory */
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
      l->bytes = dim_add(c, l->bytes, dim_const(c, ALIGN - 1));
      l->bytes = dim_scale(c, dim_floordiv(c, l->bytes, dim_const(c, ALIGN)), ALIGN);
      follow(p, l, n, &seen);
      if (!l->escapes) vec_push(p->a, &p->lives, l);
    }
}

/* ---- in place ---- */

/* The tensor whose memory v begins with. */
static const Node *memory_of(const Node *v) {
  while (v->op == OP_ALIAS || v->op == OP_MATCH_CAST || (v->op == OP_memory_view && v->nin < 4))
    v = node_in(v, 0);
  return v;
}

/* Whether v may share memory with alloc. */
static bool may_touch(const Node *v, const Node *alloc) {
  if (v == alloc) return true;
  if (!node_may_alias(v) && v->op != OP_IF) return false;
  if (v->op == OP_IF) return true; /* a branch's result */
  for (uint32_t i = 0; i < v->nin; i++)
    if (may_touch(node_in(v, i), alloc)) return true;
  return false;
}

static bool is_listed(const Attr *l, uint32_t x, uint32_t y) {
  for (uint32_t i = 0; l && i + 1 < l->n; i += 2)
    if (l->items[i]->i == (int64_t)x && l->items[i + 1]->i == (int64_t)y) return true;
  return false;
}

/* relaxc.in_place: [x, y, ...], result y lies in the memory of operand x in some call. */
static void list_pair(Plan *p, PrimFunc *f, uint32_t x, uint32_t y) {
  Arena *a = p->pc->m->arena;
  const Attr *old = attr_get(f->attrs, "relaxc.in_place");
  if (old && old->kind != ATTR_LIST) old = NULL;
  if (is_listed(old, x, y)) return;
  uint32_t n = old ? old->n : 0;
  Attr *l = ARENA_NEW(a, Attr);
  l->kind = ATTR_LIST;
  l->n = n + 2;
  const Attr **items = ARENA_ARRAY(a, const Attr *, n + 2);
  for (uint32_t i = 0; i < n; i++) items[i] = old->items[i];
  items[n] = attr_int(a, x);
  items[n + 1] = attr_int(a, y);
  l->items = items;
  f->attrs = attr_with(a, f->attrs, "relaxc.in_place", l);
}

/* Whether result y of f may be written over operand x, in all of its variants; says so in their
 * attributes. */
static bool may_overwrite(Plan *p, PrimFunc *f, uint32_t x, uint32_t y) {
  VEC(PrimFunc *) all = {0};
  vec_push(p->a, &all, f);
  module_each(p->pc->m, g) {
    if (g->kind != GLOBAL_PRIM) continue;
    const char *of = attr_get_str(g->prim->attrs, "relaxc.variant_of", NULL);
    if (of && strcmp(of, f->name) == 0) vec_push(p->a, &all, g->prim);
  }
  for (uint32_t i = 0; i < all.n; i++)
    if (!in_place_proved(p->pc, &p->scans, all.at[i], x, y)) return false;
  for (uint32_t i = 0; i < all.n; i++) list_pair(p, all.at[i], x, y);
  return true;
}

/* Whether nothing uses v before the call at position `at`. */
static bool first_used_at(Plan *p, const Node *v, uint32_t at) {
  for (const Use *u = v->uses; u; u = u->next) {
    Node *here = u->user->block ? node_in_seq(u->user, p->seq) : NULL;
    if (!here || (uintptr_t)map_getp(&p->position, here) < (uintptr_t)at + 1) return false;
  }
  return true;
}

/* Writes result y of call n over operand x, both numbers of f's parameters, if nothing forbids it:
 * then true. */
static bool try_in_place(Plan *p, Map *by_node, const Node *n, PrimFunc *f, uint32_t x,
                         uint32_t y) {
  uint32_t at = (uint32_t)(uintptr_t)map_getp(&p->position, n) - 1;
  const Node *result = node_in(n, y + 1), *operand = memory_of(node_in(n, x + 1));
  Life *over = map_getp(by_node, operand), *l = map_getp(by_node, result);
  if (!over || !l || l == over || l->over || over->overwritten || over->end != at ||
      over->bytes != l->bytes || l->begin < (over->over ? over->over : over)->begin ||
      !first_used_at(p, result, at))
    return false;
  for (uint32_t i = 0; i + 1 < n->nin; i++) {
    const Node *arg = node_in(n, i + 1);
    if (i == y) continue;
    if (may_touch(arg, result)) return false;
    if (may_touch(arg, over->n) && !(memory_of(arg) == over->n && may_overwrite(p, f, i, y)))
      return false;
  }
  over->overwritten = true;
  l->over = over->over ? over->over : over;
  if (l->over->end < l->end) l->over->end = l->end;
  return true;
}

/* Whether n's arguments are f's parameters, one by one. */
static bool args_match(const Node *n, const PrimFunc *f) {
  for (uint32_t i = 0; i < f->nparams && i + 1 < n->nin; i++)
    if ((f->param_bufs[i] != NULL) != (node_in(n, i + 1)->sinfo->kind == SINFO_TENSOR))
      return false;
  return n->nin == f->nparams + 1;
}

/* Finds the results that are written over operands. */
static void share_memory(Plan *p) {
  Map by_node;
  map_init(&by_node, p->a);
  for (uint32_t i = 0; i < p->lives.n; i++) map_setp(&by_node, p->lives.at[i]->n, p->lives.at[i]);
  for (BindingBlock *b = p->seq->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) {
      if (n->op != OP_CALL || node_in(n, 0)->op != OP_GLOBAL) continue;
      PrimFunc *f = module_prim(p->pc->m, node_in(n, 0)->str);
      if (!f || !args_match(n, f)) continue;
      for (uint32_t y = 0; y < f->nparams; y++)
        for (uint32_t x = 0; x < f->nparams && !try_in_place(p, &by_node, n, f, x, y);) x++;
    }
  uint32_t alone = 0;
  for (uint32_t i = 0; i < p->lives.n; i++) {
    Life *l = p->lives.at[i];
    if (l->over)
      vec_push(p->a, &p->overwriting, l);
    else
      p->lives.at[alone++] = l;
  }
  p->lives.n = alone;
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

/* A storage of so many bytes before `at`. */
static Node *make_storage(Plan *p, const Dim *bytes, Node *at) {
  Context *c = p->pc->c;
  Span span = at->span;
  const Expr *size = dim_expr(c, bytes, DT_I64);
  Node *in[] = {node_shape(p->f, &size, 1, span), node_prim(p->f, expr_i64(c, 0), span),
                node_str(p->f, "global", span), node_dtype(p->f, DT_U8, span)};
  Node *n = node_create(p->f, OP_memory_alloc_storage, in, 4, span);
  n->attrs = node_new_attrs(p->f, OP_memory_alloc_storage);
  n->sinfo = sinfo_object(c);
  node_bind_before(at, n, "storage");
  return n;
}

static void use_storage(Plan *p, Node *storage, const Dim *offset, Life *l) {
  Context *c = p->pc->c;
  Node *old = l->n;
  Span span = old->span;
  l->storage = storage;
  l->offset = offset;
  Node *in[] = {storage, node_prim(p->f, dim_expr(c, offset, DT_I64), span),
                node_shape(p->f, old->sinfo->dims, (uint32_t)old->sinfo->ndim, span),
                node_dtype(p->f, old->sinfo->dtype, span)};
  Node *n = node_create(p->f, OP_memory_alloc_tensor, in, 4, span);
  n->attrs = node_new_attrs(p->f, OP_memory_alloc_tensor);
  n->sinfo = old->sinfo;
  graph_take_place(old, n);
}

/* ---- a sequence ---- */

/* Gives the lives whose sizes are known from the start places in one storage, and leaves the others
 * in p->lives. */
static void plan_places(Plan *p) {
  Context *c = p->pc->c;
  uint32_t n = 0, others = 0;
  Place *places = ARENA_ARRAY(p->a, Place, p->lives.n);
  Life **lives = ARENA_ARRAY(p->a, Life *, p->lives.n);
  if (p->lives.n > MOST_IN_PLACES) return;
  bool symbolic = false;
  for (uint32_t i = 0; i < p->lives.n; i++) {
    Life *l = p->lives.at[i];
    Place at = {.begin = l->begin, .end = l->end, .bytes = l->bytes};
    bool known = is_known(p, l->bytes);
    for (uint32_t k = 0; known && k < LIKELY; k++) {
      known = dim_is_const(dim_subst(c, l->bytes, &p->likely[k]), &at.likely[k]);
      symbolic |= at.likely[k] != at.likely[0];
      if (at.likely[k] < 0) at.likely[k] = 0;
      if (at.likely[k] > MOST_LIKELY) at.likely[k] = MOST_LIKELY;
    }
    if (!known) {
      p->lives.at[others++] = l;
      continue;
    }
    places[n] = at;
    lives[n++] = l;
  }
  p->lives.n = others;
  if (!n) return;
  int64_t least;
  const Dim *total = layout_places(c, p->a, places, n, symbolic ? LIKELY : 1, &least);
  Node *storage = make_storage(p, total, lives[0]->n);
  for (uint32_t i = 0; i < n; i++) use_storage(p, storage, places[i].offset, lives[i]);
  if (!p->pc->remarks) return;
  Text bytes = {0};
  expr_print(&bytes, dim_expr(c, total, DT_I64));
  if (symbolic)
    diag(c->diags, DIAG_REMARK, p->f->span, "%u tensors of '%s' in %s bytes", n, p->f->name,
         text_cstr(&bytes));
  else
    diag(c->diags, DIAG_REMARK, p->f->span,
         "%u tensors of '%s' in %s bytes; the most alive at once: %lld", n, p->f->name,
         text_cstr(&bytes), (long long)least);
  text_free(&bytes);
}

/* The others take turns. */
static void plan_turns(Plan *p) {
  const Dim *none = dim_const(p->pc->c, 0);
  for (uint32_t i = 0; i < p->lives.n; i++) {
    Life *l = p->lives.at[i];
    Storage *st = choose(p, l);
    st->free_from = l->end + 1; /* its last reader still needs it */
    vec_push(p->a, &st->tensors, l);
  }
  for (uint32_t i = 0; i < p->storages.n; i++) {
    Storage *st = p->storages.at[i];
    Node *storage = make_storage(p, st->bytes, st->tensors.at[0]->n);
    for (uint32_t k = 0; k < st->tensors.n; k++) use_storage(p, storage, none, st->tensors.at[k]);
  }
  if (p->pc->remarks && p->lives.n)
    diag(p->pc->c->diags, DIAG_REMARK, p->f->span, "%u tensors of '%s' share %u storages",
         p->lives.n, p->f->name, p->storages.n);
}

static void plan_seq(PassCtx *pc, Func *f, Seq *s) {
  Plan p = {.pc = pc, .a = pc->scratch, .f = f, .seq = s};
  map_init(&p.position, p.a);
  map_init(&p.known, p.a);
  map_init(&p.scans, p.a);
  static const int64_t likely[LIKELY] = {64, 16, 1024}; /* of every dim */
  for (uint32_t i = 0; i < f->ndims; i++) map_setp(&p.known, f->dims[i], f);
  for (uint32_t k = 0; k < LIKELY; k++) {
    const Expr *value = expr_i64(pc->c, likely[k]);
    map_init(&p.likely[k], p.a);
    for (uint32_t i = 0; i < f->ndims; i++)
      map_setp(&p.likely[k], f->dims[i], (void *)(uintptr_t)value);
  }
  collect(&p);
  share_memory(&p);
  plan_places(&p);
  plan_turns(&p);
  for (uint32_t i = 0; i < p.overwriting.n; i++) {
    const Life *over = p.overwriting.at[i]->over;
    use_storage(&p, over->storage, over->offset, p.overwriting.at[i]);
  }
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
