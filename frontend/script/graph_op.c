/* Calls of operators: arguments to operands and attributes by the operator table, and the calls
 * that cross into prim_funcs and extern functions, whose arguments stand in a tuple. */
#include "frontend/script/guard.h"
#include "frontend/script/graph.h"

/* ---- arguments ---- */

static bool all_prim(Sema *s, const Tree *t) {
  for (uint32_t i = 0; i < t->n; i++)
    if (!sema_is_prim(s, t->at[i])) return false;
  return true;
}

Node *graph_shape_list(Sema *s, const Tree *t) {
  const Expr **at = ARENA_ARRAY(s->arena, const Expr *, t->n ? t->n : 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(at[i] = sema_dim(s, t->at[i]))) return graph_bad(s, t);
  return node_shape(s->f, at, t->n, tree_span(s, t));
}

Node *graph_read_tuple(Sema *s, const Tree *t) {
  Node **in = ARENA_ARRAY(s->arena, Node *, t->n ? t->n : 1);
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->at[i]->kind == TREE_STAR || t->at[i]->kind == TREE_DOUBLESTAR) {
      sema_error(s, t->at[i], "a starred argument is not supported");
      return graph_bad(s, t);
    }
    in[i] = graph_operand(s, t->at[i]);
  }
  Node *n = node_tuple(s->f, in, t->n, tree_span(s, t));
  return graph_finish(s, n, (const Tree *const *)t->at);
}

static bool name_is(const char *table, const char *name) {
  size_t n = strlen(name);
  return strncmp(table, name, n) == 0 && (!table[n] || table[n] == '?' || table[n] == '*');
}

/* `arg` is the operand's name in the table: shapes may be written as tuples of numbers. */
static Node *read_argument(Sema *s, const Tree *t, const char *arg) {
  if ((t->kind == TREE_TUPLE || t->kind == TREE_LIST) && arg && op_arg_is_shape(arg) &&
      all_prim(s, t))
    return graph_shape_list(s, t);
  DType d = DT_UNKNOWN;
  if (t->kind == TREE_STR && arg && name_is(arg, "dtype")) /* dtype="float32" */
    return sema_dtype(s, t, &d) ? node_dtype(s->f, d, tree_span(s, t)) : graph_bad(s, t);
  return graph_operand(s, t);
}

bool graph_refuse_star(Sema *s, const Tree *t) {
  if (t->kind != TREE_STAR && t->kind != TREE_DOUBLESTAR) return false;
  sema_error(s, t, "a starred argument is not supported");
  return true;
}

/* ---- operator calls ---- */

static const AttrField *find_attr(const OpInfo *op, const char *name) {
  for (uint32_t i = 0; i < op->nattrs; i++) {
    const AttrField *f = &op->attrs[i];
    if (strcmp(f->name, name) == 0 || (f->old_name && strcmp(f->old_name, name) == 0)) return f;
  }
  return NULL;
}

/* Names in the operator's row: with a variable number of operands, one stands for the rest. */
uint32_t graph_count_args(const OpInfo *op) {
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
    diag_error(s->ctx->diags, sp,
               "R.%s has no attribute '%s'; did you mean '%s'? (it has %s) [%s.0]", op->name,
               t->name, near, text_cstr(&list), op->name);
  else if (n)
    diag_error(s->ctx->diags, sp, "R.%s has no attribute '%s' (it has %s) [%s.0]", op->name,
               t->name, text_cstr(&list), op->name);
  else
    diag_error(s->ctx->diags, sp, "R.%s has no attribute '%s': it takes none [%s.0]", op->name,
               t->name, op->name);
  text_free(&list);
}

/* What an operator call is made of before the node exists. */
typedef struct {
  const OpInfo *op;
  Node **in;
  const Tree **trees;
  uint32_t n, cap;
  const Tree *attr_trees[32];
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
    sema_error(s, at, "attribute '%s' of R.%s is given twice [%s.0]", f->name, c->op->name,
               c->op->name);
    c->bad = true;
    return;
  }
  c->attr_trees[i] = value;
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
        sema_error(s, t, "R.%s needs the attribute '%s' [%s.0]", op->name, f->name, op->name);
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
  Span spans[32] = {{0, 0, 0}};
  for (uint32_t i = 0; i < op->nattrs; i++)
    if (c->attr_trees[i]) spans[i] = tree_span(s, c->attr_trees[i]);
  s->m->attr_spans = spans;
  graph_finish(s, n, c->trees);
  s->m->attr_spans = NULL;
  return n;
}

/* Constraint 0 of every operator. */
static void wrong_count(Sema *s, const Tree *t, const OpInfo *op, uint32_t got) {
  if (op->max_args < 0)
    sema_error(s, t, "R.%s takes at least %d operand%s but got %u [%s.0]", op->name, op->min_args,
               op->min_args == 1 ? "" : "s", got, op->name);
  else if (op->min_args == op->max_args)
    sema_error(s, t, "R.%s takes %d operand%s but got %u [%s.0]", op->name, op->min_args,
               op->min_args == 1 ? "" : "s", got, op->name);
  else
    sema_error(s, t, "R.%s takes %d to %d operands but got %u [%s.0]", op->name, op->min_args,
               op->max_args, got, op->name);
}

Node *graph_read_op(Sema *s, const Tree *t, const OpInfo *op, const Tree *self) {
  uint32_t nargs = graph_count_args(op), max = op->max_args < 0 ? t->n + 1 : (uint32_t)op->max_args;
  uint32_t room = max + nargs + t->n + 1;
  OpCall c = {.op = op};
  /* most operators have few operands: a text of a million lines needs no memory for them */
  enum { FEW = 8 };
  Node *few_in[FEW];
  const Tree *few_trees[FEW], *few_slots[FEW] = {0};
  bool few = room <= FEW;
  c.in = few ? few_in : ARENA_ARRAY(s->arena, Node *, room);
  c.trees = few ? few_trees : ARENA_ARRAY(s->arena, const Tree *, room);
  const Tree **slot = few ? few_slots : ARENA_ARRAY(s->arena, const Tree *, room);
  uint32_t given = 0, attr = 0;
  if (self) slot[given++] = self;
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *a = t->at[i];
    if (a->kind == TREE_BAD || graph_refuse_star(s, a)) {
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
          sema_error(s, a, "operand '%s' of R.%s is given twice [%s.0]", a->name, op->name,
                     op->name);
          c.bad = true;
        } else if (!tree_is_none(a->b)) {
          slot[k] = a->b;
          if (k >= given) given = k + 1;
        }
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
      add_operand(&c, graph_finish(s, none, NULL), slot[i]);
      continue;
    }
    if (!slot[i] || tree_is_none(slot[i])) {
      if (!c.bad)
        sema_error(s, t, "operand '%s' of R.%s is missing [%s.0]", i < nargs ? op->args[i] : "?",
                   op->name, op->name);
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
  bool known = false, local = t->kind == TREE_NAME && scope_find(&s->scope, t->name);
  const char *global = local ? NULL : sema_global(s, t, &known);
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
      bool twice = false;
      for (int32_t k = 0; k < i; k++) twice |= l->at[i] >= 0 && l->at[k] == l->at[i];
      if (!twice && l->at[i] >= -1 && l->at[i] < (int64_t)args) continue;
      if (twice)
        sema_error(s, t, "two results of R.%s overwrite argument %lld", node_op(n)->name,
                   (long long)l->at[i]);
      else
        sema_error(s, t, "inplace index %lld is no argument of R.%s", (long long)l->at[i],
                   node_op(n)->name);
      n->sinfo = sinfo_bad(s->ctx);
      return;
    }
    if (results == (uint32_t)l->n) {
      sema_error(s, t, "R.%s overwrites no argument; use R.call_tir", node_op(n)->name);
      n->sinfo = sinfo_bad(s->ctx);
      return;
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

Node *graph_read_cross_call(Sema *s, const Tree *t, const OpInfo *op) {
  bool tuple = op->traits & OPT_ARGS_TUPLE;
  OpCall c = {.op = op};
  uint32_t room = t->n + 1, attr = 0, seen = 0;
  bool whole = false; /* the arguments are one value, not written as a tuple */
  for (uint32_t i = 0; i < t->n; i++) room += t->at[i]->kind == TREE_TUPLE ? t->at[i]->n : 1;
  c.in = ARENA_ARRAY(s->arena, Node *, room);
  c.trees = ARENA_ARRAY(s->arena, const Tree *, room);
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *a = t->at[i];
    if (a->kind == TREE_BAD || graph_refuse_star(s, a)) {
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
    } else if (!tuple && a->kind == TREE_CONST && (a->op == TREE_TRUE || a->op == TREE_FALSE)) {
      add_operand(&c, node_prim(s->f, expr_i64(s->ctx, a->op == TREE_TRUE), tree_span(s, a)), a);
    } else if (!tuple) {
      add_operand(&c, graph_operand(s, a), a);
    } else if (seen == 1) {
      bool empty = graph_is_call(a, "R", "tuple");
      if (a->kind == TREE_TUPLE || a->kind == TREE_LIST || empty)
        for (uint32_t k = 0; k < a->n; k++) add_operand(&c, graph_operand(s, a->at[k]), a->at[k]);
      else
        add_operand(&c, graph_operand(s, a), a), whole = true;
    } else if (attr < op->nattrs) {
      /* by position, inplace_indices stands before out_ty */
      uint32_t at = attr < 2 && op->id == OP_call_tir_inplace ? 1 - attr : attr;
      set_attr(s, &c, &op->attrs[at], a, a);
      attr++;
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
  if (whole && c.n == 2 && c.in[1]->sinfo->kind == SINFO_TUPLE) {
    Node *v = c.in[1];
    const Tree *at = c.trees[1];
    bool made = v->op == OP_TUPLE;
    uint32_t k = v->sinfo->n;
    Node **in = ARENA_ARRAY(s->arena, Node *, k + 1);
    const Tree **trees = ARENA_ARRAY(s->arena, const Tree *, k + 1);
    in[0] = c.in[0];
    trees[0] = c.trees[0];
    for (uint32_t i = 0; i < k; i++) {
      in[i + 1] = made ? node_in(v, i) : node_tuple_get(s->f, v, i, tree_span(s, at));
      if (!made) node_bind_last(graph_block(s, at), in[i + 1], NULL);
      trees[i + 1] = at;
    }
    c.in = in;
    c.trees = trees;
    c.n = k + 1;
  }
  Node *n = make_call(s, t, &c);
  if (tuple && n->sinfo->kind != SINFO_BAD && op->nattrs && op->id != OP_call_py_func &&
      strcmp(op->attrs[0].name, "out_ty") == 0 && !(op->traits & OPT_REFUSED)) {
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
