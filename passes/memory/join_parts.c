/* What is joined is made where it will lie.
 *
 *   before: b = alloc(...)               after: d = alloc(...)
 *           f(x, b)                             b = R.memory.view(d, ..., 0)
 *           c = alloc(...)                      f(x, b)
 *           g(x, c)                             c = R.memory.view(d, ..., bytes of b)
 *           d = alloc(...)                      g(x, c)
 *           concat(b, c, d)
 *
 * Of calls whose result is the arguments one behind the other in memory (ScheduleTIR notes them in
 * relaxc.joins). An argument that can't be made there is copied: a parameter, one that has its
 * place in another result already, or that stands there twice. This is done where half of the bytes
 * needn't be copied and no more memory is needed: from the first part on, the whole result is
 * there.
 */
#include "ir/reach.h"
#include "passes/memory/plan.h"

#define MOST_JOINS 256 /* in one sequence: the lives are found anew after each */

typedef struct {
  uint32_t arg;         /* its place among the call's operands */
  Life *life;           /* of the allocation that moves; NULL: it is copied */
  const Dim *at, *size; /* bytes from the start of the result */
  int64_t likely;       /* bytes */
} Part;

typedef struct {
  Plan *p;
  Node *call, *whole;
  uint32_t position; /* of the call */
  Part *parts;
  uint32_t nparts;
  int64_t *alive; /* per position: bytes */
} Join;

/* ---- who writes ---- */

static bool writes_to(Plan *p, Node *call, const Node *v) {
  PrimFunc *f = called_prim(p, call);
  uint8_t *access = f ? map_getp(&p->accesses, f) : NULL;
  if (f && !access) map_setp(&p->accesses, f, access = primfunc_access(p->a, f));
  for (uint32_t i = 0; f && i < f->nparams; i++)
    if (node_in(call, i + 1) == v && access[i] & ACCESS_WRITE) return true;
  return !f;
}

/* Whether all that writes to memory v stands before position `limit`; what isn't understood
 * writes. */
static bool written_before(Plan *p, const Node *v, int64_t limit) {
  for (const Use *u = v->uses; u; u = u->next) {
    Node *user = u->user;
    if (user->op == OP_YIELD) continue;
    if (node_may_alias(user)) {
      if (!written_before(p, user, limit)) return false;
    } else if (user->op == OP_call_packed) {
      return false; /* external functions get memory of their own */
    } else if ((user->op == OP_CALL && writes_to(p, user, v)) || user->op == OP_relaxc_copy) {
      int64_t at = position_of(p, user);
      if (at < 0 || at >= limit) return false;
    }
  }
  return true;
}

/* ---- which ---- */

/* The life of the allocation that argument v is, and may as well be a part of another. */
static Life *life_of_part(Plan *p, const Node *v, uint32_t limit) {
  const Node *alloc = memory_of(v);
  for (uint32_t i = 0; i < p->lives.n; i++) {
    Life *l = p->lives.at[i];
    if (l->n != alloc) continue;
    bool whole = tensor_bytes(p, alloc->sinfo) == tensor_bytes(p, v->sinfo);
    return whole && l->begin < limit && written_before(p, alloc, limit) ? l : NULL;
  }
  return NULL;
}

static bool is_taken(const Join *j, uint32_t n, const Life *l) {
  for (uint32_t i = 0; i < n; i++)
    if (j->parts[i].life == l) return true;
  return false;
}

/* Fills j->parts from what the attribute says. */
static bool find_parts(Join *j, const PrimFunc *f, const Attr *order) {
  Plan *p = j->p;
  Context *c = p->pc->c;
  const Dim *at = dim_const(c, 0);
  if (order->kind != ATTR_LIST || order->n < 2) return false;
  j->nparts = order->n - 1;
  j->parts = ARENA_ARRAY(p->a, Part, j->nparts);
  for (uint32_t i = 0; i < order->n; i++) {
    const Attr *param = order->items[i];
    if (param->kind != ATTR_INT || param->i < 0 || param->i >= (int64_t)f->nparams) return false;
    Node *v = node_in(j->call, (uint32_t)param->i + 1);
    if (v->sinfo->kind != SINFO_TENSOR || !v->sinfo->dims || !dtype_known(v->sinfo->dtype))
      return false;
    if (i == j->nparts) {
      j->whole = v;
      break;
    }
    Part *part = &j->parts[i];
    part->arg = (uint32_t)param->i + 1;
    part->at = at;
    part->size = tensor_bytes(p, v->sinfo);
    if (!is_known(p, part->size) || !likely_bytes(p, part->size, 0, &part->likely)) return false;
    at = dim_add(c, at, part->size);
    Life *l = life_of_part(p, v, j->position);
    if (l && !is_taken(j, i, l)) part->life = l;
  }
  const Node *whole = j->whole;
  const Dim *bytes = tensor_bytes(p, whole->sinfo);
  if (whole->op != OP_builtin_alloc_tensor || position_of(p, j->whole) < 0 || !is_known(p, bytes) ||
      prove_eq(c, NULL, at, bytes) != PROOF_YES)
    return false;
  /* The call is the first to use it and alone writes it. */
  for (const Use *u = whole->uses; u; u = u->next)
    if (u->user->block && u->user != j->call && position_of(p, u->user) <= (int64_t)j->position)
      return false;
  return written_before(p, whole, (int64_t)j->position + 1);
}

/* ---- whether ---- */

static Life *life_of(Plan *p, const Node *alloc) {
  for (uint32_t i = 0; i < p->lives.n; i++)
    if (p->lives.at[i]->n == alloc) return p->lives.at[i];
  return NULL;
}

static int64_t life_bytes(Plan *p, const Life *l) {
  int64_t bytes;
  return likely_bytes(p, l->bytes, 0, &bytes) ? bytes : 0;
}

static void add_alive(Join *j, uint32_t begin, uint32_t end, int64_t bytes) {
  for (uint32_t t = begin; t <= end; t++) j->alive[t] += bytes;
}

static int64_t most_alive(const Join *j) {
  int64_t most = 0;
  for (uint32_t t = 0; t < j->p->npositions; t++)
    if (j->alive[t] > most) most = j->alive[t];
  return most;
}

/* Whether the result may exist from its first part on, which needs no more memory than before. */
static bool fits(Join *j) {
  Plan *p = j->p;
  Life *whole = life_of(p, j->whole);
  uint32_t begin = j->position, end = whole ? whole->end : j->position;
  memset(j->alive, 0, p->npositions * sizeof *j->alive);
  for (uint32_t i = 0; i < p->lives.n; i++)
    add_alive(j, p->lives.at[i]->begin, p->lives.at[i]->end, life_bytes(p, p->lives.at[i]));
  int64_t before = most_alive(j);
  for (uint32_t i = 0; i < j->nparts; i++) {
    const Life *l = j->parts[i].life;
    if (!l) continue;
    add_alive(j, l->begin, l->end, -life_bytes(p, l));
    if (l->begin < begin) begin = l->begin;
    if (l->end > end) end = l->end;
  }
  if (whole) { /* else it is the caller's */
    add_alive(j, whole->begin, whole->end, -life_bytes(p, whole));
    add_alive(j, begin, end, life_bytes(p, whole));
  }
  return most_alive(j) <= before;
}

/* Leaves the parts in the result that may be made there; false: too few. */
static bool choose_parts(Join *j) {
  for (;;) {
    int64_t all = 0, placed = 0;
    Part *first = NULL;
    for (uint32_t i = 0; i < j->nparts; i++) {
      Part *part = &j->parts[i];
      all += part->likely;
      if (!part->life) continue;
      placed += part->likely;
      if (!first || part->life->begin < first->life->begin) first = part;
    }
    if (!first || placed < all - placed) return false;
    if (fits(j)) return true;
    first->life = NULL;
  }
}

/* ---- rewriting ---- */

static Node *make_view(Join *j, Node *whole, const Part *part, const SInfo *s, Span span) {
  Plan *p = j->p;
  Context *c = p->pc->c;
  Node *in[] = {whole, node_shape(p->f, s->dims, (uint32_t)s->ndim, span),
                node_dtype(p->f, s->dtype, span),
                node_prim(p->f, dim_expr(c, part->at, DT_I64), span)};
  Node *n = node_create(p->f, OP_memory_view, in, 4, span);
  n->attrs = node_new_attrs(p->f, OP_memory_view);
  n->sinfo = s;
  return n;
}

static void make_copy(Join *j, const Part *part) {
  Func *f = j->p->f;
  Node *v = node_in(j->call, part->arg);
  Node *to = make_view(j, j->whole, part, v->sinfo, j->call->span);
  node_bind_before(j->call, to, v->name ? v->name : "part");
  Node *in[] = {v, to};
  Node *copy = node_create(f, OP_relaxc_copy, in, 2, j->call->span);
  copy->attrs = node_new_attrs(f, OP_relaxc_copy);
  copy->sinfo = sinfo_tuple(j->p->pc->c, NULL, 0);
  node_bind_before(j->call, copy, "_");
}

static void rewrite(Join *j) {
  Life *first = NULL;
  for (uint32_t i = 0; i < j->nparts; i++) {
    Life *l = j->parts[i].life;
    if (l && (!first || l->begin < first->begin)) first = l;
  }
  node_unbind(j->whole);
  node_bind_before(first->n, j->whole, NULL);
  for (uint32_t i = 0; i < j->nparts; i++) {
    Part *part = &j->parts[i];
    if (!part->life) continue;
    Node *alloc = part->life->n;
    graph_take_place(alloc, make_view(j, j->whole, part, alloc->sinfo, alloc->span));
  }
  for (uint32_t i = 0; i < j->nparts; i++)
    if (!j->parts[i].life) make_copy(j, &j->parts[i]);
  map_setp(j->p->joined, called_prim(j->p, j->call), j);
  node_delete(j->call);
}

static bool try_join(Plan *p, Node *n) {
  PrimFunc *f = called_prim(p, n);
  const Attr *order = f ? attr_get(f->attrs, "relaxc.joins") : NULL;
  if (!order) return false;
  Join j = {.p = p, .call = n, .position = (uint32_t)position_of(p, n)};
  j.alive = ARENA_ARRAY(p->a, int64_t, p->npositions);
  if (!find_parts(&j, f, order) || !choose_parts(&j)) return false;
  rewrite(&j);
  return true;
}

void join_parts(Plan *p) {
  uint32_t done = 0;
  for (BindingBlock *b = p->seq->first; b; b = b->next)
    for (Node *n = b->first, *next; n; n = next) {
      next = n->next;
      if (done == MOST_JOINS || !try_join(p, n)) continue;
      collect_lives(p);
      done++;
    }
}

void remove_joined(PassCtx *pc, Map *joined) {
  Reach r;
  VEC(Global *) gone = {0};
  reach_init(&r, pc->m, pc->scratch);
  module_each(pc->m, g) if (global_is_entry(g)) reach_add(&r, g->name);
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_PRIM) continue;
    const char *of = attr_get_str(g->prim->attrs, "relaxc.variant_of", g->name);
    PrimFunc *f = module_prim(pc->m, of);
    if (f && map_hasp(joined, f) && !reach_has(&r, of)) vec_push(pc->scratch, &gone, g);
  }
  for (uint32_t i = 0; i < gone.n; i++) gone.at[i]->removed = true;
}
