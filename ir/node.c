/* Nodes: creation, binding into blocks, and the edges between them.
 *
 * Operands are an array of Use in the user; each is also a link of the list that its definition
 * heads. Every change of an edge goes through use_set, so that both ends agree.
 */
#include "ir/module.h"
#include "ir/op.h"

/* ---- edges ---- */

static void use_unlink(Use *u) {
  if (!u->def) return;
  if (u->prev)
    u->prev->next = u->next;
  else
    u->def->uses = u->next;
  if (u->next) u->next->prev = u->prev;
  u->def = NULL;
  u->prev = u->next = NULL;
}

static void use_set(Use *u, Node *user, Node *def) {
  if (u->def == def) return;
  use_unlink(u);
  u->user = user;
  u->def = def;
  if (!def) return;
  u->next = def->uses;
  if (def->uses) def->uses->prev = u;
  def->uses = u;
}

void node_set_in(Node *n, uint32_t i, Node *def) {
  if (i >= n->nin) bug("operand %u of %u", i, n->nin);
  use_set(&n->in[i], n, def);
}

void node_set_ins(Node *n, Node *const *in, uint32_t count) {
  Arena *a = func_arena(n->func);
  Use *old = n->in;
  uint32_t nold = n->nin;
  Use *uses = count ? ARENA_ARRAY(a, Use, count) : NULL;
  for (uint32_t i = 0; i < count; i++) {
    uses[i].span = i < nold ? old[i].span : in[i]->span;
    use_set(&uses[i], n, in[i]);
  }
  for (uint32_t i = 0; i < nold; i++) use_unlink(&old[i]);
  n->in = uses;
  n->nin = count;
}

void node_add_in(Node *n, Node *def, Span s) {
  Use *uses = ARENA_ARRAY(func_arena(n->func), Use, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *d = n->in[i].def;
    uses[i].span = n->in[i].span;
    use_unlink(&n->in[i]);
    use_set(&uses[i], n, d);
  }
  uses[n->nin].span = s;
  use_set(&uses[n->nin], n, def);
  n->in = uses;
  n->nin++;
}

void node_replace_uses(Node *from, Node *to) {
  if (from == to) return;
  for (Use *u = from->uses, *next; u; u = next) {
    next = u->next;
    if (u->user != to) use_set(u, u->user, to);
  }
}

uint32_t node_count_uses(const Node *n) {
  uint32_t k = 0;
  for (const Use *u = n->uses; u; u = u->next) k++;
  return k;
}

/* ---- creation ---- */

Node *node_create(Func *f, OpId op, Node *const *in, uint32_t n, Span s) {
  Node *x = ARENA_NEW(func_arena(f), Node);
  x->op = op;
  x->id = f->module->next_node++;
  x->span = x->name_span = s;
  x->func = f;
  if (n) node_set_ins(x, in, n);
  return x;
}

bool node_is_atom(const Node *n) {
  switch (n->op) {
  case OP_PARAM:
  case OP_CONST:
  case OP_SHAPE_EXPR:
  case OP_PRIM_VALUE:
  case OP_STR:
  case OP_DTYPE:
  case OP_TUPLE:
  case OP_GLOBAL:
  case OP_EXTERN: return true;
  default: return node_is_bound(n);
  }
}

Node *node_const(Func *f, ConstData *d, Span s) {
  Context *c = func_ctx(f);
  Node *x = node_create(f, OP_CONST, NULL, 0, s);
  x->data = d;
  const Expr **dims = ARENA_ARRAY(func_arena(f), const Expr *, d->ndim);
  for (int32_t i = 0; i < d->ndim; i++) dims[i] = expr_i64(c, d->dims[i]);
  x->sinfo = sinfo_tensor(c, dims, (uint32_t)d->ndim, d->dtype);
  return x;
}

Node *node_shape(Func *f, const Expr *const *at, uint32_t n, Span s) {
  Node *x = node_create(f, OP_SHAPE_EXPR, NULL, 0, s);
  x->shape.at = n ? arena_dup(func_arena(f), at, n * sizeof *at) : NULL;
  x->shape.n = n;
  x->sinfo = sinfo_shape(func_ctx(f), x->shape.at, n);
  return x;
}

Node *node_prim(Func *f, const Expr *e, Span s) {
  Node *x = node_create(f, OP_PRIM_VALUE, NULL, 0, s);
  x->expr = e;
  x->sinfo = sinfo_prim_value(func_ctx(f), e);
  return x;
}

Node *node_str(Func *f, const char *str, Span s) {
  Node *x = node_create(f, OP_STR, NULL, 0, s);
  x->str = strpool_intern(func_ctx(f)->strings, str, strlen(str));
  x->sinfo = sinfo_string(func_ctx(f));
  return x;
}

Node *node_dtype(Func *f, DType d, Span s) {
  Node *x = node_create(f, OP_DTYPE, NULL, 0, s);
  x->dtype = d;
  x->sinfo = sinfo_object(func_ctx(f));
  return x;
}

Node *node_tuple(Func *f, Node *const *in, uint32_t n, Span s) {
  Node *x = node_create(f, OP_TUPLE, in, n, s);
  const SInfo **fields = ARENA_ARRAY(func_arena(f), const SInfo *, n);
  for (uint32_t i = 0; i < n; i++) {
    if (!in[i]->sinfo) return x; /* left to node_infer */
    fields[i] = in[i]->sinfo;
  }
  x->sinfo = sinfo_tuple(func_ctx(f), fields, n);
  return x;
}

Node *node_tuple_get(Func *f, Node *tuple, int64_t index, Span s) {
  Node *x = node_create(f, OP_TUPLE_GET, &tuple, 1, s);
  x->index = index;
  const SInfo *t = tuple->sinfo;
  if (t && t->kind == SINFO_TUPLE && index >= 0 && index < (int64_t)t->n)
    x->sinfo = t->fields[index];
  return x;
}

const SInfo *func_sinfo(const Func *f) {
  Context *c = func_ctx(f);
  const SInfo **ps = ARENA_ARRAY(func_arena(f), const SInfo *, f->nparams + 1);
  for (uint32_t i = 0; i < f->nparams; i++) ps[i] = f->params[i]->sinfo;
  const SInfo *ret = f->ret ? f->ret : f->ret_annot ? f->ret_annot : sinfo_object(c);
  return sinfo_callable(c, ps, f->nparams, ret, f->pure);
}

static const SInfo *prim_param_sinfo(Context *c, const PrimFunc *f, uint32_t i) {
  const Buffer *b = f->param_bufs[i];
  if (b) return sinfo_tensor(c, b->shape, b->ndim, b->dtype);
  if (f->params[i]->dtype.code == DTYPE_HANDLE) return sinfo_object(c); /* an address of anything */
  return sinfo_prim_value(c, f->params[i]->expr);
}

/* In destination-passing form: buffers are tensors, scalars prims; it returns () or a scalar. */
static const SInfo *prim_sinfo(const PrimFunc *f) {
  Context *c = f->module->ctx;
  const SInfo **ps = ARENA_ARRAY(f->module->arena, const SInfo *, f->nparams + 1);
  for (uint32_t i = 0; i < f->nparams; i++) ps[i] = prim_param_sinfo(c, f, i);
  const SInfo *ret = dtype_known(f->ret) ? sinfo_prim(c, f->ret) : sinfo_tuple(c, NULL, 0);
  return sinfo_callable(c, ps, f->nparams, ret, false);
}

const SInfo *global_sinfo(const Module *m, const char *name) {
  const Global *g = module_find(m, name);
  if (g && g->kind == GLOBAL_FUNC) return func_sinfo(g->func);
  if (g && g->kind == GLOBAL_PRIM) return prim_sinfo(g->prim);
  if (g && g->ext.sinfo) return g->ext.sinfo;
  return sinfo_callable_opaque(m->ctx, sinfo_object(m->ctx), false);
}

Node *node_global(Func *f, const char *name, Span s) {
  Node *x = node_create(f, OP_GLOBAL, NULL, 0, s);
  x->str = strpool_intern(func_ctx(f)->strings, name, strlen(name));
  x->sinfo = global_sinfo(f->module, name);
  return x;
}

ConstData *const_create(Module *m, DType d, const int64_t *dims, int32_t ndim, const void *bytes) {
  ConstData *k = ARENA_NEW(m->arena, ConstData);
  k->dtype = d;
  k->ndim = ndim;
  k->dims = arena_dup(m->arena, dims, (size_t)ndim * sizeof *dims);
  k->bytes = bytes;
  k->size = dtype_bytes(d);
  for (int32_t i = 0; i < ndim; i++) k->size *= (size_t)dims[i];
  k->id = m->next_const++;
  return k;
}

void *const_alloc(Module *m, size_t n) {
  enum { ALIGN = 64 };
  uintptr_t p = (uintptr_t)arena_alloc(m->arena, n + ALIGN);
  return (void *)((p + ALIGN - 1) / ALIGN * ALIGN);
}

ConstData *const_scalar(Module *m, DType d, double v, int64_t i) {
  void *bytes = arena_alloc(m->arena, dtype_bytes(d));
  if (dtype_is_float(d))
    dtype_store_double(d, bytes, v);
  else
    dtype_store_int(d, bytes, i);
  return const_create(m, d, NULL, 0, bytes);
}

void *node_new_attrs(Func *f, OpId op) {
  if (!op_table[op].nattrs) return NULL;
  void *attrs = arena_alloc(func_arena(f), op_table[op].attrs_size);
  op_attrs_init(func_ctx(f), op, attrs);
  return attrs;
}

/* ---- placing ---- */

static void node_place(BindingBlock *b, Node *prev, Node *n, Node *next, const char *hint) {
  if (n->block) bug("node '%s' is bound twice", n->name ? n->name : "?");
  n->block = b;
  n->func = b->func;
  n->prev = prev;
  n->next = next;
  if (prev)
    prev->next = n;
  else
    b->first = n;
  if (next)
    next->prev = n;
  else
    b->last = n;
  b->n++;
  if (n->name && (!hint || strcmp(hint, n->name) == 0)) return;
  n->name = func_unique_name(b->func, hint ? hint : b->dataflow ? "lv" : "gv");
}

void node_bind_last(BindingBlock *b, Node *n, const char *hint) {
  node_place(b, b->last, n, NULL, hint);
}

void node_bind_before(Node *at, Node *n, const char *hint) {
  node_place(at->block, at->prev, n, at, hint);
}

void node_bind_after(Node *at, Node *n, const char *hint) {
  node_place(at->block, at, n, at->next, hint);
}

void node_unbind(Node *n) {
  BindingBlock *b = n->block;
  if (!b) bug("unbinding a floating node");
  if (n->prev)
    n->prev->next = n->next;
  else
    b->first = n->next;
  if (n->next)
    n->next->prev = n->prev;
  else
    b->last = n->prev;
  b->n--;
  n->block = NULL;
  n->prev = n->next = NULL;
}

/* ---- deletion ---- */

/* Drops n's operands; floating ones without another use go onto the list `todo`, linked by their
 * `next`, which a floating node doesn't use otherwise. */
static void drop_ins(Node *n, Node **todo) {
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *d = n->in[i].def;
    use_unlink(&n->in[i]);
    if (!d || d->uses || d->block || d->op == OP_PARAM || d->op == OP_YIELD) continue;
    d->next = *todo;
    *todo = d;
  }
  n->nin = 0;
}

static void seq_drop(Seq *s, Node **todo) {
  if (s->yield) drop_ins(s->yield, todo);
  for (BindingBlock *b = s->last; b; b = b->prev)
    while (b->last) {
      Node *n = b->last;
      if (n->op == OP_IF) {
        seq_drop(&n->if_.then_, todo);
        seq_drop(&n->if_.else_, todo);
      } else if (n->op == OP_FUNC && n->local) {
        seq_drop(&n->local->body, todo);
      }
      node_unbind(n);
      drop_ins(n, todo);
    }
}

void node_delete(Node *n) {
  if (n->uses) bug("deleting '%s', which is used", n->name ? n->name : "?");
  if (n->block) node_unbind(n);
  Node *todo = n;
  n->next = NULL;
  while (todo) {
    Node *x = todo;
    todo = x->next;
    x->next = NULL;
    if (x->op == OP_IF) {
      seq_drop(&x->if_.then_, &todo);
      seq_drop(&x->if_.else_, &todo);
    } else if (x->op == OP_FUNC && x->local) {
      seq_drop(&x->local->body, &todo);
    }
    drop_ins(x, &todo);
  }
}

static bool uses_node(const Node *n, const Node *def) {
  for (uint32_t i = 0; i < n->nin; i++)
    if (node_in(n, i) == def) return true;
  return false;
}

static bool is_fresh_output(const Node *call, const Node *a) {
  if ((a->op != OP_builtin_alloc_tensor && a->op != OP_memory_alloc_tensor) || !a->block)
    return false;
  const BindingBlock *b = a->block;
  for (const Node *n = a->next;; n = n->next) {
    while (!n) {
      b = b->next;
      if (!b) return false;
      n = b->first;
    }
    if (n == call) return true;
    if (uses_node(n, a)) return false;
  }
}

uint32_t call_fresh_outputs(const Node *call) {
  uint32_t n = 0;
  while (n + 1 < call->nin && is_fresh_output(call, node_in(call, call->nin - 1 - n))) n++;
  return n;
}
