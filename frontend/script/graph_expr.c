/* Relax expressions: operator calls, calls of functions, tuples, constants.
 *
 * Names after "R." are either one of the special forms below (which make a node kind of their own)
 * or rows of the operator table: positional arguments fill the row's operands, then its attributes
 * in order; keywords name either. Nested computations are bound to fresh names on the way (A-normal
 * form). Python's operators stand for operators of the table.
 */
#include "frontend/script/guard.h"

bool graph_is_atom(const Node *n) {
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
  default: return n->block != NULL;
  }
}

Node *graph_operand(Sema *s, const Tree *t) {
  Node *n = graph_expr(s, t);
  if (graph_is_atom(n)) return n;
  if (n->sinfo->kind == SINFO_BAD && n->op == OP_TUPLE) return n;
  node_bind_last(graph_block(s, t), n, NULL);
  return n;
}

bool graph_is_call(const Tree *t, const char *ns, const char *name) {
  if (t->kind != TREE_CALL || t->a->kind != TREE_ATTR) return false;
  const Tree *f = t->a;
  return f->b->kind == TREE_NAME && strcmp(f->b->name, ns) == 0 && strcmp(f->name, name) == 0;
}

/* Sets the operand spans to what was written and infers. */
static Node *finish(Sema *s, Node *n, const Tree *const *args) {
  for (uint32_t i = 0; i < n->nin; i++)
    if (args && args[i]) n->in[i].span = tree_span(s, args[i]);
  node_infer(s->m, s->facts, n);
  return n;
}

/* ---- arguments ---- */

static bool all_prim(Sema *s, const Tree *t) {
  for (uint32_t i = 0; i < t->n; i++)
    if (!sema_is_prim(s, t->at[i])) return false;
  return true;
}

static Node *read_shape_list(Sema *s, const Tree *t) {
  const Expr **at = ARENA_ARRAY(s->arena, const Expr *, t->n ? t->n : 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(at[i] = sema_dim(s, t->at[i]))) return graph_bad(s, t);
  return node_shape(s->f, at, t->n, tree_span(s, t));
}

static Node *read_tuple(Sema *s, const Tree *t) {
  Node **in = ARENA_ARRAY(s->arena, Node *, t->n ? t->n : 1);
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->at[i]->kind == TREE_STAR || t->at[i]->kind == TREE_DOUBLESTAR) {
      sema_error(s, t->at[i], "a starred argument is not supported");
      return graph_bad(s, t);
    }
    in[i] = graph_operand(s, t->at[i]);
  }
  Node *n = node_tuple(s->f, in, t->n, tree_span(s, t));
  return finish(s, n, (const Tree *const *)t->at);
}

/* `arg` is the operand's name in the table: shapes may be written as tuples of numbers. */
static Node *read_argument(Sema *s, const Tree *t, const char *arg) {
  if ((t->kind == TREE_TUPLE || t->kind == TREE_LIST) && arg &&
      (strncmp(arg, "shape", 5) == 0 || strncmp(arg, "size", 4) == 0) && all_prim(s, t))
    return read_shape_list(s, t);
  return graph_operand(s, t);
}

static bool refuse_star(Sema *s, const Tree *t) {
  if (t->kind != TREE_STAR && t->kind != TREE_DOUBLESTAR) return false;
  sema_error(s, t, "a starred argument is not supported");
  return true;
}

/* ---- operator calls ---- */

static bool name_is(const char *table, const char *name) {
  size_t n = strlen(name);
  return strncmp(table, name, n) == 0 && (!table[n] || table[n] == '?' || table[n] == '*');
}

static const AttrField *find_attr(const OpInfo *op, const char *name) {
  for (uint32_t i = 0; i < op->nattrs; i++) {
    const AttrField *f = &op->attrs[i];
    if (strcmp(f->name, name) == 0 || (f->old_name && strcmp(f->old_name, name) == 0)) return f;
  }
  return NULL;
}

/* Names in the operator's row: with a variable number of operands, one stands for the rest. */
static uint32_t count_args(const OpInfo *op) {
  return (uint32_t)(op->max_args < 0 ? op->min_args + 1 : op->max_args);
}

static void unknown_keyword(Sema *s, const OpInfo *op, const Tree *t) {
  const char *names[64] = {0};
  size_t n = 0;
  Text list = {0};
  for (uint32_t i = 0; i < op->nattrs && n < 64; i++) {
    names[n++] = op->attrs[i].name;
    text_printf(&list, "%s'%s'", i ? ", " : "", op->attrs[i].name);
  }
  const char *near = text_nearest(t->name, names, n);
  Span sp = tree_span(s, t);
  sp.end = sp.begin + (uint32_t)strlen(t->name);
  if (near)
    diag_error(s->ctx->diags, sp, "R.%s has no attribute '%s'; did you mean '%s'? (it has %s)",
               op->name, t->name, near, text_cstr(&list));
  else if (n)
    diag_error(s->ctx->diags, sp, "R.%s has no attribute '%s' (it has %s)", op->name, t->name,
               text_cstr(&list));
  else
    diag_error(s->ctx->diags, sp, "R.%s has no attribute '%s': it takes none", op->name, t->name);
  text_free(&list);
}

/* What an operator call is made of before the node exists. */
typedef struct {
  const OpInfo *op;
  Node **in;
  const Tree **trees;
  uint32_t n, cap;
  const Tree *attr_trees[32];
  const Tree *type; /* ty_args= of an operator that has no such attribute: the result's type */
  bool bad;
} OpCall;

static void add_operand(OpCall *c, Node *n, const Tree *t) {
  c->in[c->n] = n;
  c->trees[c->n++] = t;
}

static void set_attr(Sema *s, OpCall *c, const AttrField *f, const Tree *value, const Tree *at) {
  uint32_t i = (uint32_t)(f - c->op->attrs);
  if (i >= 32) bug("operator %s has more than 32 attributes", c->op->name);
  if (c->attr_trees[i]) {
    sema_error(s, at, "attribute '%s' of R.%s is given twice", f->name, c->op->name);
    c->bad = true;
    return;
  }
  c->attr_trees[i] = value;
}

/* The type that a lowered call states for its result, where it does not contradict. */
static void apply_type(Sema *s, Node *n, const Tree *t) {
  SInfoList l = {0};
  if (!sema_types(s, t, &l) || l.n != 1 || n->sinfo->kind == SINFO_BAD) return;
  Text why = {0};
  if (sinfo_check(s->ctx, s->facts, n->sinfo, l.at[0], &why) == SINFO_FAIL)
    sema_error(s, t, "the type given for R.%s is %s but its result is %s%s%s", node_op(n)->name,
               sema_type_text(s, l.at[0]), sema_type_text(s, n->sinfo), why.n ? ": " : "",
               text_cstr(&why));
  else
    n->sinfo = l.at[0];
  text_free(&why);
}

static Node *make_call(Sema *s, const Tree *t, OpCall *c) {
  const OpInfo *op = c->op;
  Node *n = node_create(s->f, op->id, c->in, c->n, tree_span(s, t));
  if (op->nattrs) {
    n->attrs = node_new_attrs(s->f, op->id);
    for (uint32_t i = 0; i < op->nattrs; i++) {
      const AttrField *f = &op->attrs[i];
      if (c->attr_trees[i]) {
        if (!sema_op_attr(s, op, f, c->attr_trees[i], n->attrs)) c->bad = true;
      } else if (!f->defval) {
        sema_error(s, t, "R.%s needs the attribute '%s'", op->name, f->name);
        c->bad = true;
      }
    }
  }
  if (c->bad) {
    n->sinfo = sinfo_bad(s->ctx);
    for (uint32_t i = 0; i < n->nin; i++)
      if (c->trees[i]) n->in[i].span = tree_span(s, c->trees[i]);
    return n;
  }
  finish(s, n, c->trees);
  if (c->type) apply_type(s, n, c->type);
  return n;
}

static void wrong_count(Sema *s, const Tree *t, const OpInfo *op, uint32_t got) {
  if (op->max_args < 0)
    sema_error(s, t, "R.%s takes at least %d operand%s but got %u", op->name, op->min_args,
               op->min_args == 1 ? "" : "s", got);
  else if (op->min_args == op->max_args)
    sema_error(s, t, "R.%s takes %d operand%s but got %u", op->name, op->min_args,
               op->min_args == 1 ? "" : "s", got);
  else
    sema_error(s, t, "R.%s takes %d to %d operands but got %u", op->name, op->min_args,
               op->max_args, got);
}

static Node *read_op(Sema *s, const Tree *t, const OpInfo *op, const Tree *self) {
  uint32_t nargs = count_args(op), max = op->max_args < 0 ? t->n + 1 : (uint32_t)op->max_args;
  uint32_t room = max + nargs + t->n + 1;
  OpCall c = {.op = op};
  c.in = ARENA_ARRAY(s->arena, Node *, room);
  c.trees = ARENA_ARRAY(s->arena, const Tree *, room);
  const Tree **slot = ARENA_ARRAY(s->arena, const Tree *, room);
  uint32_t given = 0, attr = 0;
  if (self) slot[given++] = self;
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *a = t->at[i];
    if (a->kind == TREE_BAD || refuse_star(s, a)) {
      c.bad = true;
    } else if (a->kind != TREE_KEYWORD) {
      if (given < max) {
        slot[given++] = a;
      } else if (attr < op->nattrs) {
        set_attr(s, &c, &op->attrs[attr++], a, a);
      } else {
        given++;
        if (given == max + 1 && !op->nattrs)
          c.bad = true;
        else if (op->nattrs)
          sema_error(s, a, "too many arguments to R.%s", op->name), c.bad = true;
      }
    } else {
      const AttrField *f = find_attr(op, a->name);
      uint32_t k = 0;
      while (k < nargs && !name_is(op->args[k], a->name)) k++;
      if (f) {
        set_attr(s, &c, f, a->b, a);
      } else if (k < nargs && op->max_args >= 0) {
        if (slot[k]) {
          sema_error(s, a, "operand '%s' of R.%s is given twice", a->name, op->name);
          c.bad = true;
        } else if (!tree_is_none(a->b)) {
          slot[k] = a->b;
          if (k >= given) given = k + 1;
        }
      } else if (strcmp(a->name, "ty_args") == 0 || strcmp(a->name, "sinfo_args") == 0) {
        c.type = a->b;
      } else {
        unknown_keyword(s, op, a);
        c.bad = true;
      }
    }
  }
  while (given && slot[given - 1] && tree_is_none(slot[given - 1])) given--;
  if (given > max || given < (uint32_t)op->min_args) {
    if (!c.bad || given > max) wrong_count(s, t, op, given);
    c.bad = true;
    if (given > max) given = max;
  }
  for (uint32_t i = 0; i < given; i++) {
    if ((!slot[i] || tree_is_none(slot[i])) && i >= (uint32_t)op->min_args && op->max_args >= 0) {
      Node *none = node_tuple(s->f, NULL, 0, tree_span(s, t)); /* left out before another one */
      add_operand(&c, finish(s, none, NULL), slot[i]);
      continue;
    }
    if (!slot[i] || tree_is_none(slot[i])) {
      if (!c.bad)
        sema_error(s, t, "operand '%s' of R.%s is missing", i < nargs ? op->args[i] : "?",
                   op->name);
      c.bad = true;
      continue;
    }
    const char *name = i < nargs ? op->args[i] : nargs ? op->args[nargs - 1] : NULL;
    add_operand(&c, read_argument(s, slot[i], name), slot[i]);
  }
  return make_call(s, t, &c);
}

/* ---- calls across levels: R.call_tir(cls.f, (a, b), out_ty=...) ---- */

static Node *read_callee(Sema *s, const Tree *t) {
  bool known = false;
  const char *global = sema_global(s, t, &known);
  if (global) {
    if (!known) return graph_bad(s, t);
    return node_global(s->f, global, tree_span(s, t));
  }
  if (t->kind == TREE_STR) {
    Node *n = node_create(s->f, OP_EXTERN, NULL, 0, tree_span(s, t));
    n->str = strpool_intern(s->ctx->strings, t->str, t->n);
    node_infer(s->m, s->facts, n);
    return n;
  }
  return graph_operand(s, t);
}

static uint32_t count_results(const SInfoList *l) {
  uint32_t n = 0;
  for (int32_t i = 0; i < l->n; i++) n += l->at[i]->kind == SINFO_TUPLE ? l->at[i]->n : 1;
  return n;
}

/* The arity of a call_tir against the prim_func's parameters. */
static void check_arity(Sema *s, const Tree *t, Node *n, const SInfoList *out) {
  if (n->nin == 0 || node_in(n, 0)->op != OP_GLOBAL) return;
  const char *name = node_in(n, 0)->str;
  Decl *d = strmap_get(&s->decls, name);
  if (!d) return;
  if (!d->prim) {
    diag_error(s->ctx->diags, n->in[0].span, "R.%s calls '%s', which is not a prim_func",
               node_op(n)->name, name);
    diag_note(s->ctx->diags, decl_span(s, d), "'%s' is defined here", name);
    n->sinfo = sinfo_bad(s->ctx);
    return;
  }
  uint32_t args = n->nin - 1, results = count_results(out);
  const AttrField *indices = find_attr(node_op(n), "inplace_indices");
  if (indices) { /* a result that overwrites an argument has no parameter of its own */
    const IntList *l = (const IntList *)((char *)n->attrs + indices->offset);
    if (l->n != (int32_t)results) {
      sema_error(s, t, "R.%s has %u results but %d inplace_indices", node_op(n)->name, results,
                 l->n);
      n->sinfo = sinfo_bad(s->ctx);
      return;
    }
    results = 0;
    for (int32_t i = 0; i < l->n; i++) {
      results += l->at[i] == -1;
      if (l->at[i] < -1 || l->at[i] >= (int64_t)args) {
        sema_error(s, t, "inplace index %lld is no argument of R.%s", (long long)l->at[i],
                   node_op(n)->name);
        n->sinfo = sinfo_bad(s->ctx);
        return;
      }
    }
  }
  for (uint32_t i = 1; i < n->nin; i++) { /* a shape operand passes its dims as scalars */
    const SInfo *si = node_in(n, i)->sinfo;
    if (si->kind == SINFO_SHAPE && si->ndim >= 0) args += (uint32_t)si->ndim - 1;
  }
  /* a scheduled function's workspace is no argument */
  uint32_t hidden = attr_get_bool(d->prim->attrs, "relaxc.workspace", false);
  if (d->state == DECL_NEW || args + results + hidden == d->prim->nparams) return;
  sema_error(s, t, "R.%s passes %u argument%s and %u result%s to '%s', which has %u parameter%s",
             node_op(n)->name, args, args == 1 ? "" : "s", results, results == 1 ? "" : "s", name,
             d->prim->nparams, d->prim->nparams == 1 ? "" : "s");
  diag_note(s->ctx->diags, decl_span(s, d), "'%s' is defined here", name);
  n->sinfo = sinfo_bad(s->ctx);
}

static Node *read_cross_call(Sema *s, const Tree *t, const OpInfo *op) {
  bool tuple = op->nattrs && strcmp(op->attrs[0].name, "out_ty") == 0;
  OpCall c = {.op = op};
  uint32_t room = t->n + 1, attr = 0, seen = 0;
  for (uint32_t i = 0; i < t->n; i++) room += t->at[i]->kind == TREE_TUPLE ? t->at[i]->n : 1;
  c.in = ARENA_ARRAY(s->arena, Node *, room);
  c.trees = ARENA_ARRAY(s->arena, const Tree *, room);
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *a = t->at[i];
    if (a->kind == TREE_BAD || refuse_star(s, a)) {
      c.bad = true;
      continue;
    }
    if (a->kind == TREE_KEYWORD) {
      const AttrField *f = find_attr(op, a->name);
      if (f) {
        set_attr(s, &c, f, a->b, a);
        continue;
      }
      if (strcmp(a->name, "args") != 0 && strcmp(a->name, "func") != 0) {
        unknown_keyword(s, op, a);
        c.bad = true;
        continue;
      }
      a = a->b;
    }
    if (seen == 0) {
      add_operand(&c, read_callee(s, a), a);
    } else if (!tuple) {
      add_operand(&c, graph_operand(s, a), a);
    } else if (seen == 1) {
      bool empty = graph_is_call(a, "R", "tuple");
      if (a->kind == TREE_TUPLE || a->kind == TREE_LIST || empty)
        for (uint32_t k = 0; k < a->n; k++) add_operand(&c, graph_operand(s, a->at[k]), a->at[k]);
      else
        add_operand(&c, graph_operand(s, a), a);
    } else if (attr < op->nattrs) {
      set_attr(s, &c, &op->attrs[attr++], a, a);
    } else {
      sema_error(s, a, "too many arguments to R.%s", op->name);
      c.bad = true;
    }
    seen++;
  }
  if (seen == 0 || (tuple && seen == 1)) {
    sema_error(s, t, "R.%s needs a function%s", op->name, seen ? " and a tuple of arguments" : "");
    c.bad = true;
  }
  /* a tuple-typed variable stands for its fields */
  if (tuple && c.n == 2 && c.in[1]->sinfo->kind == SINFO_TUPLE && c.in[1]->op != OP_TUPLE) {
    Node *v = c.in[1];
    const Tree *at = c.trees[1];
    uint32_t k = v->sinfo->n;
    Node **in = ARENA_ARRAY(s->arena, Node *, k + 1);
    const Tree **trees = ARENA_ARRAY(s->arena, const Tree *, k + 1);
    in[0] = c.in[0];
    trees[0] = c.trees[0];
    for (uint32_t i = 0; i < k; i++) {
      in[i + 1] = node_tuple_get(s->f, v, i, tree_span(s, at));
      node_bind_last(graph_block(s, at), in[i + 1], NULL);
      trees[i + 1] = at;
    }
    c.in = in;
    c.trees = trees;
    c.n = k + 1;
  }
  Node *n = make_call(s, t, &c);
  if (tuple && n->sinfo->kind != SINFO_BAD) {
    SInfoList *out = (SInfoList *)((char *)n->attrs + op->attrs[0].offset);
    check_arity(s, t, n, out);
    Decl *d = node_in(n, 0)->op == OP_GLOBAL ? strmap_get(&s->decls, node_in(n, 0)->str) : NULL;
    const AttrField *indices = find_attr(op, "inplace_indices");
    if (d && d->prim && d->prim->param_bufs && n->sinfo->kind != SINFO_BAD)
      n = guard_call_tir(s, t, n, d->prim, out,
                         indices ? (const IntList *)((char *)n->attrs + indices->offset) : NULL);
  }
  return n;
}

/* ---- calls of functions ---- */

static Node *read_function_call(Sema *s, const Tree *t, Node *callee) {
  Node **in = ARENA_ARRAY(s->arena, Node *, t->n + 1);
  const Tree **trees = ARENA_ARRAY(s->arena, const Tree *, t->n + 1);
  bool bad = callee->sinfo->kind == SINFO_BAD;
  in[0] = callee;
  trees[0] = t->a;
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *a = t->at[i];
    if (a->kind == TREE_KEYWORD) {
      sema_error(s, a, "calls of functions take no keyword arguments");
      bad = true;
      a = a->b;
    }
    if (refuse_star(s, a)) {
      bad = true;
      a = a->b;
    }
    in[i + 1] = graph_operand(s, a);
    trees[i + 1] = a;
  }
  Node *n = node_create(s->f, OP_CALL, in, t->n + 1, tree_span(s, t));
  if (bad) {
    n->sinfo = sinfo_bad(s->ctx);
    return n;
  }
  if (finish(s, n, trees)->sinfo->kind != SINFO_BAD) guard_call(s, t, n);
  return n;
}

/* ---- special forms ---- */

static bool want(Sema *s, const Tree *t, uint32_t lo, uint32_t hi, const char *usage) {
  bool ok = t->n >= lo && t->n <= hi;
  for (uint32_t i = 0; i < t->n && ok; i++)
    if (t->at[i]->kind == TREE_STAR || t->at[i]->kind == TREE_DOUBLESTAR) ok = false;
  if (!ok) sema_error(s, t, "expected %s", usage);
  return ok;
}

static const Tree *plain(const Tree *t) {
  return t->kind == TREE_KEYWORD ? t->b : t;
}

/* Collects a nested list of numbers; the shape comes from the first element of each level. */
typedef struct {
  Sema *s;
  DType dtype;
  int64_t dims[16];
  int32_t ndim;
  char *bytes;
  size_t filled;
} ConstList;

static bool fill_list(ConstList *l, const Tree *t, int32_t level) {
  Sema *s = l->s;
  if (level == l->ndim) {
    int64_t i = 0;
    double f = 0;
    char *at = l->bytes + l->filled * dtype_bytes(l->dtype);
    l->filled++;
    if (!dtype_is_float(l->dtype) && tree_const_int(t, &i)) {
      dtype_store_int(l->dtype, at, i);
      return true;
    }
    if (dtype_is_float(l->dtype) && tree_const_float(t, &f)) {
      dtype_store_double(l->dtype, at, f);
      return true;
    }
    sema_error(s, t, "expected a number of type %s but got %s", dtype_name(l->dtype),
               tree_describe(t));
    return false;
  }
  if ((t->kind != TREE_LIST && t->kind != TREE_TUPLE) || t->n != (uint64_t)l->dims[level]) {
    sema_error(s, t, "the rows of a constant must have one length: %lld",
               (long long)l->dims[level]);
    return false;
  }
  for (uint32_t i = 0; i < t->n; i++)
    if (!fill_list(l, t->at[i], level + 1)) return false;
  return true;
}

static Node *read_const(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 2, "R.const(value, dtype)")) return graph_bad(s, t);
  const Tree *v = plain(t->at[0]);
  DType d = DT_UNKNOWN;
  if (t->n == 2 && !tree_is_none(plain(t->at[1])) && !sema_dtype(s, plain(t->at[1]), &d))
    return graph_bad(s, t);
  if (v->kind == TREE_LIST || v->kind == TREE_TUPLE) {
    ConstList l = {.s = s, .dtype = dtype_known(d) ? d : DT_F32};
    size_t count = 1;
    for (const Tree *x = v; x->kind == TREE_LIST || x->kind == TREE_TUPLE; x = x->at[0]) {
      if (l.ndim == 16) {
        sema_error(s, v, "a constant has at most 16 dims");
        return graph_bad(s, t);
      }
      l.dims[l.ndim++] = x->n;
      if (x->n && count > SIZE_MAX / 64 / x->n) return graph_bad(s, t);
      count *= x->n;
      if (!x->n) break;
    }
    if (count > v->end - v->begin) { /* each element takes a byte of text */
      sema_error(s, v, "the rows of a constant must have one length");
      return graph_bad(s, t);
    }
    l.bytes = arena_calloc(s->m->arena, count ? count : 1, dtype_bytes(l.dtype));
    if (count && !fill_list(&l, v, 0)) return graph_bad(s, t);
    return node_const(s->f, const_create(s->m, l.dtype, l.dims, l.ndim, l.bytes), tree_span(s, t));
  }
  int64_t i = 0;
  double f = 0;
  bool number = tree_const_float(v, &f), whole = tree_const_int(v, &i);
  if (!dtype_known(d)) d = v->kind == TREE_CONST ? DT_BOOL : whole ? DT_I32 : DT_F32;
  if (dtype_is_float(d) ? !number : !whole) {
    if (number && v->kind != TREE_STR)
      sema_error(s, v, "this number does not fit %s", dtype_name(d));
    else if (v->kind != TREE_BAD)
      sema_error(s, v, "expected a number of type %s but got %s", dtype_name(d), tree_describe(v));
    return graph_bad(s, t);
  }
  if (dtype_is_bool(d) ? i != 0 && i != 1 : dtype_is_int(d) && dtype_wrap(d, i) != i) {
    sema_error(s, v, "%lld does not fit %s", (long long)i, dtype_name(d));
    return graph_bad(s, t);
  }
  return node_const(s->f, const_scalar(s->m, d, f, i), tree_span(s, t));
}

static Node *read_shape_form(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 1, "R.shape([n, 4])")) return graph_bad(s, t);
  const Tree *v = plain(t->at[0]);
  if (v->kind != TREE_LIST && v->kind != TREE_TUPLE) {
    sema_error(s, v, "R.shape takes a list of dims but got %s", tree_describe(v));
    return graph_bad(s, t);
  }
  Node *n = read_shape_list(s, v);
  n->span = tree_span(s, t);
  return n;
}

static Node *read_match_cast(Sema *s, const Tree *t) {
  if (!want(s, t, 2, 2, "R.match_cast(value, type)")) return graph_bad(s, t);
  const Tree *vt = plain(t->at[0]), *tt = plain(t->at[1]);
  Node *v = graph_operand(s, vt);
  s->allow_undefined = true;
  const SInfo *want_type = sema_type(s, tt);
  s->allow_undefined = false;
  if (want_type->kind == SINFO_BAD || v->sinfo->kind == SINFO_BAD) return graph_bad(s, t);
  Text why = {0};
  if (sinfo_check(s->ctx, s->facts, v->sinfo, want_type, &why) == SINFO_FAIL) {
    sema_error(s, t, "R.match_cast can never succeed: the value is %s, not %s%s%s",
               sema_type_text(s, v->sinfo), sema_type_text(s, want_type), why.n ? ": " : "",
               text_cstr(&why));
    text_free(&why);
    return graph_bad(s, t);
  }
  text_free(&why);
  Node *n = node_create(s->f, OP_MATCH_CAST, &v, 1, tree_span(s, t));
  n->annot = want_type;
  return finish(s, n, &vt);
}

static Node *read_prim_value(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 1, "R.prim_value(value)")) return graph_bad(s, t);
  const Tree *v = plain(t->at[0]);
  if (!sema_is_prim(s, v)) {
    sema_error(s, v, "R.prim_value takes a scalar expression but got %s", tree_describe(v));
    return graph_bad(s, t);
  }
  return graph_operand(s, v);
}

static Node *read_string(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 1, "R.str(\"text\")")) return graph_bad(s, t);
  const Tree *v = plain(t->at[0]);
  if (v->kind != TREE_STR) {
    sema_error(s, v, "expected a string but got %s", tree_describe(v));
    return graph_bad(s, t);
  }
  return node_str(s->f, strpool_intern(s->ctx->strings, v->str, v->n), tree_span(s, t));
}

static Node *read_dtype(Sema *s, const Tree *t) {
  DType d = DT_UNKNOWN;
  if (!want(s, t, 1, 1, "R.dtype(\"float32\")") || !sema_dtype(s, plain(t->at[0]), &d))
    return graph_bad(s, t);
  return node_dtype(s->f, d, tree_span(s, t));
}

static const struct {
  const char *name;
  Node *(*read)(Sema *s, const Tree *t);
} special_forms[] = {
    {"const", read_const},           {"shape", read_shape_form}, {"match_cast", read_match_cast},
    {"prim_value", read_prim_value}, {"str", read_string},       {"dtype", read_dtype},
    {"tuple", read_tuple},
};

static Node *unknown_op(Sema *s, const Tree *t, const char *name) {
  const char *near = op_nearest(name);
  const char *special[sizeof special_forms / sizeof *special_forms];
  size_t n = 0;
  for (size_t i = 0; i < sizeof special_forms / sizeof *special_forms; i++)
    special[n++] = special_forms[i].name;
  if (!near) near = text_nearest(name, special, n);
  if (near)
    sema_error(s, t->a, "unknown operator 'R.%s'; did you mean 'R.%s'?", name, near);
  else
    sema_error(s, t->a, "unknown operator 'R.%s'", name);
  /* the arguments may hold mistakes of their own */
  for (uint32_t i = 0; i < t->n; i++)
    if (t->at[i]->kind == TREE_NAME) sema_lookup(s, t->at[i]);
  return graph_bad(s, t);
}

static Node *read_call(Sema *s, const Tree *t) {
  const char *name = sema_member(s, t->a, 'R');
  if (name) {
    for (size_t i = 0; i < sizeof special_forms / sizeof *special_forms; i++)
      if (strcmp(name, special_forms[i].name) == 0) return special_forms[i].read(s, t);
    int id = op_find(name);
    if (id < 0 || (op_table[id].traits & OPT_STRUCTURAL)) return unknown_op(s, t, name);
    const OpInfo *op = &op_table[id];
    bool cross = (op->traits & OPT_CALL) && count_args(op) && strcmp(op->args[0], "func") == 0;
    return cross ? read_cross_call(s, t, op) : read_op(s, t, op, NULL);
  }
  bool known = false;
  const char *global = sema_global(s, t->a, &known);
  if (global) {
    if (!known) {
      for (uint32_t i = 0; i < t->n; i++)
        if (t->at[i]->kind == TREE_NAME) sema_lookup(s, t->at[i]);
      return graph_bad(s, t);
    }
    sema_require_body(s, global);
    return read_function_call(s, t, node_global(s->f, global, tree_span(s, t->a)));
  }
  if (t->a->kind == TREE_NAME) return read_function_call(s, t, graph_expr(s, t->a));
  if (t->a->kind == TREE_ATTR) {
    /* x.astype("int8") */
    int id = strcmp(t->a->name, "astype") == 0 ? op_find("astype") : -1;
    if (id >= 0) return read_op(s, t, &op_table[id], t->a->b);
    sema_error(s, t->a, "a Relax value has no method '%s'", t->a->name);
    return graph_bad(s, t);
  }
  return read_function_call(s, t, graph_operand(s, t->a));
}

/* ---- operators ---- */

static Node *read_operator(Sema *s, const Tree *t) {
  const char *name = NULL;
  if (t->kind == TREE_UNARY) {
    name = t->op == TREE_NEG ? "negative" : NULL;
  } else {
    switch ((TreeOp)t->op) {
    case TREE_ADD: name = "add"; break;
    case TREE_SUB: name = "subtract"; break;
    case TREE_MUL: name = "multiply"; break;
    case TREE_DIV: name = "divide"; break;
    case TREE_FLOORDIV: name = "floor_divide"; break;
    case TREE_MOD: name = "mod"; break;
    case TREE_POW: name = "power"; break;
    case TREE_LT: name = "less"; break;
    case TREE_LE: name = "less_equal"; break;
    case TREE_GT: name = "greater"; break;
    case TREE_GE: name = "greater_equal"; break;
    default: break;
    }
  }
  int id = name ? op_find(name) : -1;
  if (id < 0) {
    sema_error(s, t, "operator '%s' is not defined on Relax values", tree_op_text(t->op));
    return graph_bad(s, t);
  }
  const Tree *args[2] = {t->kind == TREE_UNARY ? t->b : t->a, t->b};
  uint32_t n = t->kind == TREE_UNARY ? 1 : 2;
  for (uint32_t i = 0; i < n; i++)
    if (args[i]->kind == TREE_INT || args[i]->kind == TREE_FLOAT) {
      sema_error(s, args[i], "a number is no Relax value; write R.const(..., dtype)");
      return graph_bad(s, t);
    }
  Node *in[2] = {graph_operand(s, args[0]), NULL};
  if (n == 2) in[1] = graph_operand(s, args[1]);
  Node *x = node_create(s->f, (OpId)id, in, n, tree_span(s, t));
  if (op_table[id].nattrs) x->attrs = node_new_attrs(s->f, (OpId)id);
  return finish(s, x, args);
}

/* ---- everything ---- */

static Node *read_subscript(Sema *s, const Tree *t) {
  const Tree *root = t;
  while (root->kind == TREE_SUBSCRIPT) root = root->a;
  if (root->kind == TREE_NAME && strcmp(root->name, "metadata") == 0 && s->metadata &&
      !scope_find(&s->scope, root->name)) {
    ConstData *d = metadata_const(s, t);
    return d ? node_const(s->f, d, tree_span(s, t)) : graph_bad(s, t);
  }
  Node *v = graph_operand(s, t->a);
  int64_t i = 0;
  if (v->sinfo->kind == SINFO_BAD) return graph_bad(s, t);
  if (v->sinfo->kind != SINFO_TUPLE) {
    sema_error(s, t, "only tuples have items, but this is %s", sema_type_text(s, v->sinfo));
    return graph_bad(s, t);
  }
  if (!tree_const_int(t->b, &i)) {
    sema_error(s, t->b, "the index of a tuple must be a constant");
    return graph_bad(s, t);
  }
  int64_t n = v->sinfo->n;
  if (i < -n || i >= n) {
    sema_error(s, t->b, "index %lld is out of range for a tuple of %lld", (long long)i,
               (long long)n);
    return graph_bad(s, t);
  }
  Node *x = node_tuple_get(s->f, v, i < 0 ? i + n : i, tree_span(s, t));
  const Tree *args[1] = {t->a};
  return finish(s, x, args);
}

Node *graph_expr(Sema *s, const Tree *t) {
  switch ((TreeKind)t->kind) {
  case TREE_BAD: return graph_bad(s, t);
  case TREE_NAME: {
    bool known = false;
    const char *global = scope_find(&s->scope, t->name) ? NULL : sema_global(s, t, &known);
    if (global) {
      sema_require_body(s, global);
      return node_global(s->f, global, tree_span(s, t));
    }
    Binding *b = sema_lookup(s, t);
    if (!b) return graph_bad(s, t);
    if (b->kind == BIND_NODE) return b->node;
    if (b->kind == BIND_VAR) return node_prim(s->f, b->var->expr, tree_span(s, t));
    sema_error(s, t, "'%s' is not a value", t->name);
    return graph_bad(s, t);
  }
  case TREE_FLOAT: return node_prim(s->f, expr_float(s->ctx, DT_F64, t->fval), tree_span(s, t));
  case TREE_INT:
  case TREE_IFEXP: {
    const Expr *e = sema_expr(s, t);
    return e ? node_prim(s->f, e, tree_span(s, t)) : graph_bad(s, t);
  }
  case TREE_CONST: {
    if (t->op == TREE_NONE || t->op == TREE_ELLIPSIS) break;
    return node_prim(s->f, expr_bool(s->ctx, t->op == TREE_TRUE), tree_span(s, t));
  }
  case TREE_STR:
    return node_str(s->f, strpool_intern(s->ctx->strings, t->str, t->n), tree_span(s, t));
  case TREE_TUPLE:
  case TREE_LIST: return read_tuple(s, t);
  case TREE_ATTR: {
    bool known = false;
    const char *global = sema_global(s, t, &known);
    if (global) {
      if (known) sema_require_body(s, global);
      return known ? node_global(s->f, global, tree_span(s, t)) : graph_bad(s, t);
    }
    const char *name = sema_member(s, t, 'R');
    if (name)
      sema_error(s, t, "'R.%s' is not a value; it must be called", name);
    else
      sema_error(s, t, "a Relax value has no attribute '%s'", t->name);
    return graph_bad(s, t);
  }
  case TREE_UNARY:
  case TREE_BINARY:
    if (sema_is_prim(s, t)) {
      double f = 0;
      const Expr *e = t->kind == TREE_UNARY && t->b->kind == TREE_FLOAT && tree_const_float(t, &f)
                          ? expr_float(s->ctx, DT_F64, f)
                          : sema_expr(s, t);
      return e ? node_prim(s->f, e, tree_span(s, t)) : graph_bad(s, t);
    }
    return read_operator(s, t);
  case TREE_SUBSCRIPT: return read_subscript(s, t);
  case TREE_CALL:
    if (sema_member(s, t->a, 'T')) {
      const Expr *e = sema_expr(s, t);
      return e ? node_prim(s->f, e, tree_span(s, t)) : graph_bad(s, t);
    }
    return read_call(s, t);
  default: break;
  }
  sema_error(s, t, "expected a Relax value but got %s", tree_describe(t));
  return graph_bad(s, t);
}
