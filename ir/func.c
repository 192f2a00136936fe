/* Functions of the graph level: parameters, blocks, names, and the walk over bound nodes. */
#include "ir/module.h"
#include "ir/op.h"

Func *func_create(Module *m, const char *name, Span s) {
  Func *f = ARENA_NEW(m->arena, Func);
  f->name = strpool_intern(m->ctx->strings, name, strlen(name));
  f->id = m->next_func++;
  f->span = f->name_span = s;
  f->pure = f->check_well_formed = true;
  f->module = m;
  strmap_init(&f->names, m->arena);
  return f;
}

Node *func_add_param(Func *f, const char *name, const SInfo *si, Span s) {
  Arena *a = func_arena(f);
  Node *p = node_create(f, OP_PARAM, NULL, 0, s);
  p->sinfo = p->annot = si;
  p->index = f->nparams;
  p->name = func_unique_name(f, name);
  if ((f->nparams & (f->nparams - 1)) == 0) { /* the array is full: double it */
    Node **params = ARENA_ARRAY(a, Node *, f->nparams ? 2 * f->nparams : 1);
    if (f->nparams) memcpy(params, f->params, f->nparams * sizeof *params);
    f->params = params;
  }
  f->params[f->nparams++] = p;
  return p;
}

void func_remove_param(Func *f, uint32_t i) {
  if (i >= f->nparams) bug("function '%s' has no parameter %u", f->name, i);
  if (node_has_uses(f->params[i])) bug("parameter %u of '%s' is used", i, f->name);
  for (uint32_t k = i + 1; k < f->nparams; k++) {
    f->params[k - 1] = f->params[k];
    f->params[k - 1]->index = k - 1;
  }
  f->nparams--;
}

/* Symbolic variables of tensor shapes and R.Shape values, and integer parameters that are dims. */
static void collect_dims(Arena *a, const SInfo *s, VarVec *out) {
  if (s->kind == SINFO_TUPLE) {
    for (uint32_t i = 0; i < s->n; i++) collect_dims(a, s->fields[i], out);
    return;
  }
  bool named =
      s->kind == SINFO_PRIM && s->value && s->value->kind == EXPR_VAR && s->value->var->is_dim;
  if (s->dims || named) sinfo_vars(a, s, out);
}

typedef struct {
  Arena *arena;
  VarVec used;
} ShapeVars;

/* The variables of shapes, but not of mere values. */
static void collect_shape_vars(ShapeVars *v, const SInfo *s) {
  if (s->kind == SINFO_TUPLE)
    for (uint32_t i = 0; i < s->n; i++) collect_shape_vars(v, s->fields[i]);
  if (s->dims) sinfo_vars(v->arena, s, &v->used);
}

static void collect_node(Node *n, void *ctx) {
  if (n->sinfo) collect_shape_vars(ctx, n->sinfo);
}

/* An integer parameter that any shape of the function mentions is a dim. */
static void mark_dim_params(Func *f) {
  ShapeVars v = {.arena = func_arena(f)};
  bool scalars = false;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const SInfo *s = f->params[i]->sinfo;
    collect_shape_vars(&v, s);
    scalars |= s->kind == SINFO_PRIM && s->value && s->value->kind == EXPR_VAR;
  }
  if (!scalars) return;
  if (f->ret) collect_shape_vars(&v, f->ret);
  func_each_node(f, collect_node, &v);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const SInfo *s = f->params[i]->sinfo;
    if (s->kind != SINFO_PRIM || !s->value || s->value->kind != EXPR_VAR) continue;
    for (uint32_t k = 0; k < v.used.n; k++)
      if (v.used.at[k] == s->value->var) s->value->var->is_dim = true;
  }
}

void func_collect_dims(Func *f) {
  Arena *a = func_arena(f);
  VarVec v = {0};
  mark_dim_params(f);
  for (uint32_t i = 0; i < f->nparams; i++) collect_dims(a, f->params[i]->sinfo, &v);
  f->dims = v.at;
  f->ndims = v.n;
}

BindingBlock *block_append(Func *f, Seq *s, Node *owner, bool dataflow, Span span) {
  BindingBlock *b = ARENA_NEW(func_arena(f), BindingBlock);
  b->dataflow = dataflow;
  b->seq = s;
  b->owner = owner;
  b->func = f;
  b->span = span;
  b->prev = s->last;
  if (s->last)
    s->last->next = b;
  else
    s->first = b;
  s->last = b;
  return b;
}

/* The removed block keeps its own links, so that a walk standing on it can go on. */
void block_remove(BindingBlock *b) {
  if (b->n) bug("removing a block that holds %u nodes", b->n);
  if (b->prev)
    b->prev->next = b->next;
  else
    b->seq->first = b->next;
  if (b->next)
    b->next->prev = b->prev;
  else
    b->seq->last = b->prev;
}

/* ---- names ---- */

static StrMap *func_names(Func *f) {
  while (f->outer) f = f->outer;
  return &f->names;
}

/* The map's value is the last number tried for the name as a hint, plus one. */
const char *func_unique_name(Func *f, const char *hint) {
  StrPool *strings = func_ctx(f)->strings;
  StrMap *names = func_names(f);
  hint = strpool_intern(strings, hint, strlen(hint));
  void **at = strmap_at(names, hint);
  uintptr_t i = (uintptr_t)*at;
  *at = (void *)(i + 1);
  if (!i) return hint;
  /* gv, gv1, lv, lv1: the fresh names; x, x_1: names made from the user's. */
  bool fresh = strcmp(hint, "gv") == 0 || strcmp(hint, "lv") == 0;
  Text t = {0};
  do {
    text_clear(&t);
    text_printf(&t, fresh ? "%s%zu" : "%s_%zu", hint, (size_t)i++);
  } while (strmap_has(names, text_cstr(&t)));
  strmap_set(names, hint, (void *)i);
  const char *name = strpool_intern(strings, t.s, t.n);
  strmap_set(names, name, (void *)(uintptr_t)1);
  text_free(&t);
  return name;
}

void func_take_name(Func *f, const char *name) {
  void **at = strmap_at(func_names(f), strpool_intern(func_ctx(f)->strings, name, strlen(name)));
  if (!*at) *at = (void *)(uintptr_t)1;
}

/* ---- traversal ---- */

static void seq_each_node(const Seq *s, void (*fn)(Node *n, void *ctx), void *ctx) {
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first, *next; n; n = next) {
      next = n->next;
      if (n->op == OP_IF) {
        seq_each_node(&n->if_.then_, fn, ctx);
        seq_each_node(&n->if_.else_, fn, ctx);
        next = n->next;
      }
      fn(n, ctx);
    }
}

void func_each_node(Func *f, void (*fn)(Node *n, void *ctx), void *ctx) {
  seq_each_node(&f->body, fn, ctx);
}
