/* FuseOps: call_tirs that one kernel can compute are moved into functions marked Primitive.
 *
 *   before: lv = R.call_tir(cls.add, (x, b), ...); y = R.call_tir(cls.relu, (lv,), ...)
 *   after:  y = cls.fused_add_relu(x, b), with both call_tirs in that function
 *
 * Method: TVM's (src/relax/transform/fuse_ops.cc): a node may join its immediate post-dominator in
 * the graph of uses when everything on the paths between allows it. With the kinds of
 * passes/graph/pattern.h:
 *   - a reduction or contraction takes the elementwise chain after it (phase 0);
 *   - elementwise and broadcast nodes join elementwise, injective and reducing consumers, but no
 *     contraction's operands (packing reads those as they are);
 *   - injective nodes join injective ones (phase 1, so that contractions get their epilogue first);
 *   - an exchange of axes, or a slice, joins the contraction that alone reads it: packing reads any
 *     strides.
 *   - reductions over the trailing axes join what reads their rows, further reductions over the
 * same rows included (phase 2): a normalisation written out is one kernel that keeps a row in
 * cache;
 *   - a contraction, the rows' group that alone reads its result, and the contraction whose rows
 * that group makes are one chain (attention): its scores need never exist as a whole. Otherwise a
 * group holds one reduction or contraction only. A reshape that keeps the order of elements stays
 * only between two members: at the border it costs nothing as a view. Only what the
 * post-dominator's user sees leaves a group, so that each has one result.
 */
#include "passes/graph/fuse.h"
#include <string.h>

enum { MAX_GROUP = 128, MAX_ROW_GROUP = 32, MAX_ROW_REDUCTIONS = 4, FEW_ROWS = 4 };

typedef struct {
  Node *n;
  PrimFunc *prim; /* NULL: not fusible */
  TirPattern pat;
  uint32_t up;    /* union-find */
  uint32_t ipdom; /* index, or the number of nodes for "outside" */
  uint32_t depth;
  uint8_t edge; /* worst way in which something on the way to ipdom reads */
  bool operand; /* a copy that belongs to the contraction which reads it */
  uint32_t mark, root_mark;
  uint32_t next; /* ring of the members of a group */
  /* of a root: */
  uint8_t kind;
  uint32_t size;
} Item;

typedef struct {
  PassCtx *pc;
  Arena *a;
  Func *f;
  Seq *seq;
  Item *at;
  uint32_t n;
  Map index; /* Node -> its position + 1 */
  uint32_t stamp;
} Fuse;

static uint32_t find(Fuse *x, uint32_t i) {
  while (x->at[i].up != i) i = x->at[i].up = x->at[x->at[i].up].up;
  return i;
}

static uint8_t worse(uint8_t a, uint8_t b) {
  return a > b ? a : b;
}

/* Joins the group of root `from` to that of root `into`. */
static void unite(Fuse *x, uint32_t into, uint32_t from) {
  if (into == from) return;
  Item *a = &x->at[into], *b = &x->at[from];
  uint32_t next = a->next;
  a->next = b->next;
  b->next = next;
  b->up = into;
  a->kind = worse(a->kind, b->kind);
  a->size += b->size;
}

/* ---- the graph ---- */

/* Calls fn for every user of n inside the sequence; users outside count as index x->n. */
typedef void (*EdgeFn)(Fuse *x, uint32_t user, uint8_t kind, void *ctx);

static uint8_t edge_kind(const Item *user, const Node *def) {
  uint8_t kind = PATTERN_ELEMWISE;
  if (!user->prim) return PATTERN_OPAQUE;
  for (uint32_t i = 1; i < user->n->nin; i++)
    if (node_in(user->n, i) == def && i - 1 < user->prim->nparams)
      kind = worse(kind, user->pat.reads[i - 1]);
  return kind;
}

static void each_user(Fuse *x, Node *n, bool direct, EdgeFn fn, void *ctx) {
  for (const Use *u = n->uses; u; u = u->next) {
    Node *user = u->user, *here = user->block ? node_in_seq(user, x->seq) : NULL;
    if (here) {
      uint32_t j = (uint32_t)(uintptr_t)map_getp(&x->index, here) - 1;
      bool plain = direct && here == user;
      fn(x, j, plain ? edge_kind(&x->at[j], n) : PATTERN_OPAQUE, ctx);
    } else if (!user->block && user->op != OP_YIELD) {
      each_user(x, user, false, fn, ctx); /* a tuple in place */
    } else {
      fn(x, x->n, PATTERN_OPAQUE, ctx);
    }
  }
}

typedef struct {
  uint32_t pdom;
  uint8_t edge;
  bool any;
} Join;

static uint32_t depth_of(const Fuse *x, uint32_t i) {
  return i == x->n ? 0 : x->at[i].depth;
}

static void join_user(Fuse *x, uint32_t user, uint8_t kind, void *ctx) {
  Join *j = ctx;
  j->edge = worse(j->edge, kind);
  if (!j->any) {
    j->any = true;
    j->pdom = user;
    return;
  }
  uint32_t p = j->pdom, q = user;
  while (p != q) {
    uint32_t *deep = depth_of(x, p) >= depth_of(x, q) ? &p : &q;
    if (*deep == x->n) break;
    j->edge = worse(j->edge, x->at[*deep].edge);
    *deep = x->at[*deep].ipdom;
  }
  j->pdom = p == q ? p : x->n;
}

static void post_dominators(Fuse *x) {
  for (uint32_t i = x->n; i-- > 0;) {
    Join j = {.pdom = x->n, .edge = PATTERN_ELEMWISE};
    each_user(x, x->at[i].n, true, join_user, &j);
    x->at[i].ipdom = j.pdom;
    x->at[i].edge = j.pdom == x->n ? PATTERN_OPAQUE : j.edge;
    x->at[i].depth = depth_of(x, j.pdom) + 1;
  }
}

/* ---- paths ---- */

typedef struct {
  uint32_t sink, into;
  uint8_t limit; /* kinds allowed before the sink */
  bool ok, commit;
  uint32_t size, anchors;
} Path;

static void path_step(Fuse *x, uint32_t i, uint8_t kind, void *ctx) {
  (void)kind;
  Path *p = ctx;
  if (!p->ok || i == x->n) {
    p->ok = false;
    return;
  }
  Item *it = &x->at[i];
  if (it->mark == x->stamp) return;
  it->mark = x->stamp;
  uint32_t root = find(x, i);
  if (p->commit) {
    unite(x, p->into, root);
  } else if (!it->prim || (i != p->sink && x->at[root].kind > p->limit)) {
    p->ok = false;
    return;
  } else if (x->at[root].root_mark != x->stamp) {
    x->at[root].root_mark = x->stamp;
    p->size += x->at[root].size;
    p->anchors += x->at[root].kind >= PATTERN_REDUCE;
    if (p->size > MAX_GROUP) { /* in vain: don't walk on */
      p->ok = false;
      return;
    }
  }
  if (i != p->sink) each_user(x, it->n, true, path_step, p);
}

/* Merges i, everything between, and its post-dominator when all of that stays below the limit. */
static void try_fuse(Fuse *x, uint32_t i, uint8_t limit, uint8_t sink_limit) {
  uint32_t sink = x->at[i].ipdom, root = find(x, i), sink_root = find(x, sink);
  if (!x->at[sink].prim || x->at[sink_root].kind > sink_limit) return;
  if (x->at[root].kind >= PATTERN_REDUCE && x->at[sink_root].kind >= PATTERN_REDUCE) return;
  Path p = {.sink = sink, .limit = limit, .ok = true};
  x->stamp++;
  each_user(x, x->at[i].n, true, path_step, &p);
  if (!p.ok || p.size + x->at[root].size > MAX_GROUP) return;
  if (p.anchors + (x->at[root].kind >= PATTERN_REDUCE) > 1) return;
  p.commit = true;
  p.into = root;
  x->stamp++;
  each_user(x, x->at[i].n, true, path_step, &p);
}

/* Joins copies to the one contraction that reads what they make: exchanges of axes, slices, and
 * reshapes in front of or behind these. */
static void join_operands(Fuse *x) {
  for (uint32_t i = x->n; i-- > 0;) {
    Item *it = &x->at[i];
    if (!it->prim || !it->pat.copy || it->ipdom == x->n || x->at[find(x, i)].size > 1) continue;
    const Item *reader = &x->at[it->ipdom];
    if (!reader->prim || (!reader->pat.contraction && !reader->operand)) continue;
    try_fuse(x, i, PATTERN_ELEMWISE, PATTERN_ANCHOR);
    it->operand = find(x, i) == find(x, it->ipdom);
  }
}

/* ---- rows ---- */

typedef struct {
  uint32_t sink, roots[MAX_ROW_GROUP], n, steps;
  bool ok;
} RowPath;

static void add_root(Fuse *x, RowPath *p, uint32_t i) {
  uint32_t root = find(x, i);
  for (uint32_t k = 0; k < p->n; k++)
    if (p->roots[k] == root) return;
  if (p->n == MAX_ROW_GROUP)
    p->ok = false;
  else
    p->roots[p->n++] = root;
}

static void row_step(Fuse *x, uint32_t i, uint8_t kind, void *ctx) {
  (void)kind;
  RowPath *p = ctx;
  if (i == x->n || !x->at[i].prim || x->at[i].pat.contraction || ++p->steps > 4 * MAX_ROW_GROUP)
    p->ok = false;
  if (!p->ok || x->at[i].mark == x->stamp) return;
  x->at[i].mark = x->stamp;
  add_root(x, p, i);
  if (i != p->sink) each_user(x, x->at[i].n, true, row_step, p);
}

/* Whether everything in these groups works on the same rows: the leading dims of all results, over
 * which no reduction runs. With few rows separate kernels have more to do in parallel. */
static bool same_rows(Fuse *x, const RowPath *p) {
  Context *c = x->pc->c;
  const Node *first = NULL;
  int32_t rows = -1;
  uint32_t size = 0, reductions = 0;
  int64_t count = 1, v;
  for (uint32_t k = 0; k < p->n; k++) {
    uint32_t i = p->roots[k];
    do {
      const Item *it = &x->at[i];
      bool reduces = it->pat.kind >= PATTERN_REDUCE;
      if (it->pat.contraction || it->pat.kind == PATTERN_INJECTIVE) return false;
      if (reduces && (it->pat.rows < 1 || (rows >= 0 && it->pat.rows != rows))) return false;
      if (reduces) rows = it->pat.rows;
      reductions += reduces;
      if (!first) first = it->n;
      i = it->next;
      size++;
    } while (i != p->roots[k] && size <= MAX_ROW_GROUP);
  }
  if (size > MAX_ROW_GROUP || !reductions || reductions > MAX_ROW_REDUCTIONS) return false;
  for (int32_t d = 0; d < rows; d++)
    if (d < first->sinfo->ndim && count >= 0)
      count = expr_const_int(c, first->sinfo->dims[d], &v) ? count * v : -1;
  if (count >= 0 && count < FEW_ROWS) return false;
  for (uint32_t k = 0; k < p->n; k++) {
    uint32_t i = p->roots[k];
    do {
      const SInfo *s = x->at[i].n->sinfo, *t = first->sinfo;
      if (s->ndim < rows || t->ndim < rows) return false;
      for (int32_t d = 0; d < rows; d++)
        if (!expr_proved_eq(c, s->dims[d], t->dims[d])) return false;
      i = x->at[i].next;
    } while (i != p->roots[k]);
  }
  return true;
}

static void try_rows(Fuse *x, uint32_t i) {
  RowPath p = {.sink = x->at[i].ipdom, .ok = true};
  if (x->at[i].edge > PATTERN_ANCHOR) return;
  add_root(x, &p, i);
  x->stamp++;
  each_user(x, x->at[i].n, true, row_step, &p);
  if (!p.ok || p.n < 2 || !same_rows(x, &p)) return;
  for (uint32_t k = 1; k < p.n; k++) unite(x, p.roots[0], p.roots[k]);
}

/* ---- chains ---- */

/* The last member of i's group: what others see of it. */
static uint32_t last_member(const Fuse *x, uint32_t i) {
  uint32_t last = i;
  for (uint32_t k = x->at[i].next; k != i; k = x->at[k].next)
    if (k > last) last = k;
  return last;
}

typedef struct {
  uint32_t root; /* the group of all users; x->n: there are several, or some outside */
  uint32_t user; /* one of them */
  uint32_t n;
} Readers;

static void note_reader(Fuse *x, uint32_t user, uint8_t kind, void *ctx) {
  Readers *r = ctx;
  uint32_t root = user < x->n && x->at[user].prim && kind < PATTERN_OPAQUE ? find(x, user) : x->n;
  r->root = r->n++ && r->root != root ? x->n : root;
  r->user = user;
}

static Readers readers_of(Fuse *x, uint32_t i) {
  Readers r = {.root = x->n};
  each_user(x, x->at[i].n, true, note_reader, &r);
  return r;
}

/* Whether the group of `root` works on rows along the last dim, reducing some of them. */
static bool is_row_work(const Fuse *x, uint32_t root, int32_t ndim) {
  uint32_t i = root;
  bool reduces = false;
  do {
    const TirPattern *p = &x->at[i].pat;
    if (p->contraction || p->kind == PATTERN_INJECTIVE) return false;
    if (p->kind >= PATTERN_REDUCE && p->rows != ndim - 1) return false;
    reduces |= p->kind >= PATTERN_REDUCE;
    i = x->at[i].next;
  } while (i != root);
  return reduces;
}

/* Joins contraction i, work on the rows of its result, and the contraction that multiplies those
 * rows: what is between the two need never be whole. */
static void try_chain(Fuse *x, uint32_t i) {
  const Node *first = x->at[last_member(x, i)].n;
  Readers r = readers_of(x, last_member(x, i));
  uint32_t start = find(x, i), rows = r.root;
  if (rows == x->n || rows == start || !is_row_work(x, rows, first->sinfo->ndim)) return;
  uint32_t end = last_member(x, rows);
  const Node *last = x->at[end].n;
  r = readers_of(x, end);
  if (r.n != 1 || r.root == x->n || r.root == start || r.root == rows) return;
  const Item *sink = &x->at[r.user];
  if (!sink->pat.contraction || last->sinfo->ndim != first->sinfo->ndim) return;
  for (uint32_t k = 1; k < sink->n->nin; k++)
    if (node_in(sink->n, k) == last && sink->pat.row_reads[k - 1] != last->sinfo->ndim - 1) return;
  if (x->at[start].size + x->at[rows].size + x->at[r.root].size > MAX_GROUP) return;
  unite(x, start, rows);
  unite(x, start, r.root);
}

/* Whether i's group holds a chain already. */
static bool in_chain(const Fuse *x, uint32_t i) {
  uint32_t contractions = x->at[i].pat.contraction;
  for (uint32_t k = x->at[i].next; k != i; k = x->at[k].next)
    contractions += x->at[k].pat.contraction;
  return contractions > 1;
}

static void group_items(Fuse *x) {
  for (int phase = 0; phase < 2; phase++) {
    if (phase == 1) join_operands(x);
    for (uint32_t i = 0; i < x->n; i++) {
      Item *it = &x->at[i];
      if (!it->prim || it->ipdom == x->n) continue;
      if (find(x, i) == find(x, it->ipdom)) continue;
      uint8_t kind = it->pat.kind;
      if (kind == PATTERN_REDUCE || kind == PATTERN_ANCHOR) {
        if (phase == 0 && it->edge == PATTERN_ELEMWISE)
          try_fuse(x, i, PATTERN_BROADCAST, PATTERN_BROADCAST);
      } else if (kind <= PATTERN_BROADCAST) {
        /* behind a reduction only the elementwise chain goes on: it runs on the finished tile */
        bool behind = x->at[find(x, i)].kind >= PATTERN_REDUCE;
        if (behind && it->edge == PATTERN_ELEMWISE)
          try_fuse(x, i, PATTERN_BROADCAST, PATTERN_BROADCAST);
        else if (!behind && it->edge <= PATTERN_REDUCE && !x->at[it->ipdom].operand)
          try_fuse(x, i, PATTERN_INJECTIVE, PATTERN_ANCHOR);
      } else if (kind == PATTERN_INJECTIVE && phase == 1 && it->edge <= PATTERN_INJECTIVE) {
        if (!it->pat.reshape || !x->at[it->ipdom].operand)
          try_fuse(x, i, PATTERN_INJECTIVE, PATTERN_INJECTIVE);
      }
    }
  }
  for (uint32_t i = 0; i < x->n; i++)
    if (x->at[i].prim && x->at[i].ipdom != x->n && find(x, i) != find(x, x->at[i].ipdom))
      try_rows(x, i);
  for (uint32_t i = 0; i < x->n; i++)
    if (x->at[i].prim && x->at[i].pat.contraction && !in_chain(x, i)) try_chain(x, i);
}

/* ---- reshapes at the border ---- */

static void leaves_group(Fuse *x, uint32_t user, uint8_t kind, void *ctx) {
  (void)kind;
  uint32_t *root = ctx;
  if (user == x->n || find(x, user) != *root) *root = UINT32_MAX;
}

/* Whether the reshape's input comes from outside of its group, or its result leaves it. */
static bool at_border(Fuse *x, uint32_t i) {
  uint32_t root = find(x, i), seen = root;
  Node *in = node_in(x->at[i].n, 1);
  uint32_t j = (uint32_t)(uintptr_t)map_getp(&x->index, in);
  if (!j || find(x, j - 1) != root) return true;
  each_user(x, x->at[i].n, true, leaves_group, &seen);
  return seen != root;
}

/* ---- building ---- */

static const char *member_names(const Fuse *x, const NodeVec *g) {
  const char *s = node_in(g->at[0], 0)->str;
  for (uint32_t i = 1; i < g->n; i++)
    s = arena_printf(x->a, "%s, %s", s, node_in(g->at[i], 0)->str);
  return s;
}

/* Members of each group, in order; reshapes at the border taken out until none is left. */
static void groups_build(Fuse *x) {
  NodeVec *members = ARENA_ARRAY(x->a, NodeVec, x->n);
  bool *out = ARENA_ARRAY(x->a, bool, x->n);
  /* A group is rooted at its lowest member after this, which keeps the order stable. */
  uint32_t *label = ARENA_ARRAY(x->a, uint32_t, x->n);
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < x->n; i++) {
      Item *it = &x->at[i];
      if (out[i] || !it->prim || !it->pat.reshape || !at_border(x, i)) continue;
      uint32_t root = find(x, i), heir = UINT32_MAX;
      if (x->at[root].size == 1) continue;
      for (uint32_t k = 0; k < x->n; k++) label[k] = find(x, k);
      for (uint32_t k = 0; k < x->n && heir == UINT32_MAX; k++)
        if (k != i && label[k] == root) heir = k;
      for (uint32_t k = 0; k < x->n; k++)
        if (label[k] == root && k != i) x->at[k].up = heir;
      x->at[heir].size = x->at[root].size - 1;
      x->at[heir].kind = x->at[root].kind;
      it->up = i;
      it->size = 1;
      out[i] = again = true;
    }
  }
  for (uint32_t i = 0; i < x->n; i++)
    if (x->at[i].prim) vec_push(x->a, &members[find(x, i)], x->at[i].n);
  for (uint32_t i = 0; i < x->n; i++) {
    NodeVec *g = NULL; /* the group whose last member this is */
    if (!x->at[i].prim) continue;
    g = &members[find(x, i)];
    if (g->n < 2 || vec_last(g) != x->at[i].n) continue;
    Span span = vec_last(g)->span;
    const char *names = x->pc->remarks ? member_names(x, g) : NULL;
    if (fuse_group(x->pc, x->a, g) && names)
      diag(x->pc->c->diags, DIAG_REMARK, span, "fused into one kernel: %s", names);
  }
}

static void fuse_seq(PassCtx *pc, Func *f, Seq *s) {
  Fuse x = {.pc = pc, .a = pc->scratch, .f = f, .seq = s};
  for (BindingBlock *b = s->first; b; b = b->next) x.n += b->n;
  x.at = ARENA_ARRAY(x.a, Item, x.n);
  map_init(&x.index, x.a);
  uint32_t i = 0;
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next, i++) {
      Item *it = &x.at[i];
      map_setp(&x.index, n, (void *)(uintptr_t)(i + 1));
      it->n = n;
      it->up = it->next = i;
      it->size = 1;
      it->kind = PATTERN_OPAQUE;
      it->prim = fuse_candidate(pc, x.a, n, &it->pat);
      if (it->prim) it->kind = it->pat.kind;
    }
  post_dominators(&x);
  group_items(&x);
  groups_build(&x);
}

bool pass_fuse_ops(PassCtx *pc) {
  if (attr_get_int(pc->options, "fuse_opt_level", -1) == 0) return true;
  uint32_t n = pc->m->globals.n; /* those added on the way are Primitive */
  for (uint32_t i = 0; i < n; i++) {
    Global *g = pc->m->globals.at[i];
    if (g->removed || g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    if (attr_get_bool(g->func->attrs, "Primitive", false)) continue;
    SeqVec seqs = {0};
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t k = 0; k < seqs.n; k++) fuse_seq(pc, g->func, seqs.at[k]);
    func_mark_outputs(g->func);
  }
  return true;
}
