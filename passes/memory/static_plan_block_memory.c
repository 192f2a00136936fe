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
#include "passes/memory/plan.h"

enum { MOST_IN_PLACES = 4096 /* tensors; more would take long */ };

/* ---- in place ---- */

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
  const Attr **items = ARENA_ARRAY(p->a, const Attr *, n + 2);
  for (uint32_t i = 0; i < n; i++) items[i] = old->items[i];
  items[n] = attr_int(a, x);
  items[n + 1] = attr_int(a, y);
  f->attrs = attr_with(a, f->attrs, "relaxc.in_place", attr_list(a, items, n + 2));
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
  for (const Use *u = v->uses; u; u = u->next)
    if (position_of(p, u->user) < (int64_t)at) return false;
  return true;
}

/* Writes result y of call n over operand x, both numbers of f's parameters, if nothing forbids it:
 * then true. */
static bool try_in_place(Plan *p, Map *by_node, Node *n, PrimFunc *f, uint32_t x, uint32_t y) {
  uint32_t at = (uint32_t)position_of(p, n);
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

/* Finds the results that are written over operands. */
static void share_memory(Plan *p) {
  Map by_node;
  map_init(&by_node, p->a);
  for (uint32_t i = 0; i < p->lives.n; i++) map_setp(&by_node, p->lives.at[i]->n, p->lives.at[i]);
  for (BindingBlock *b = p->seq->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) {
      PrimFunc *f = called_prim(p, n);
      for (uint32_t y = 0; f && y < f->nparams; y++)
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
      known = likely_bytes(p, l->bytes, k, &at.likely[k]);
      symbolic |= at.likely[k] != at.likely[0];
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

static void plan_seq(PassCtx *pc, Func *f, Seq *s, Map *joined) {
  Plan p = {.pc = pc, .a = pc->scratch, .f = f, .seq = s, .joined = joined};
  map_init(&p.known, p.a);
  map_init(&p.scans, p.a);
  map_init(&p.accesses, p.a);
  static const int64_t likely[LIKELY] = {64, 16, 1024}; /* of every dim */
  for (uint32_t i = 0; i < f->ndims; i++) map_setp(&p.known, f->dims[i], f);
  for (uint32_t k = 0; k < LIKELY; k++) {
    const Expr *value = expr_i64(pc->c, likely[k]);
    map_init(&p.likely[k], p.a);
    for (uint32_t i = 0; i < f->ndims; i++)
      map_setp(&p.likely[k], f->dims[i], (void *)(uintptr_t)value);
  }
  collect_lives(&p);
  join_parts(&p);
  share_memory(&p);
  plan_places(&p);
  plan_turns(&p);
  for (uint32_t i = 0; i < p.overwriting.n; i++) {
    const Life *over = p.overwriting.at[i]->over;
    use_storage(&p, over->storage, over->offset, p.overwriting.at[i]);
  }
}

bool pass_static_plan_block_memory(PassCtx *pc) {
  Map joined;
  map_init(&joined, pc->scratch);
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    SeqVec seqs = {0};
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t k = 0; k < seqs.n; k++) plan_seq(pc, g->func, seqs.at[k], &joined);
  }
  if (joined.n) remove_joined(pc, &joined);
  return true;
}
