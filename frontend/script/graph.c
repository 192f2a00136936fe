/* Relax functions: signatures, statements, control flow.
 *
 * A signature is read before any body, so that functions may call later ones. Every computation of
 * a body becomes a node bound in a block: dataflow blocks for `with R.dataflow()`, plain ones
 * between them; neighbouring dataflow blocks merge. A statement that fails still binds its name, to
 * a Bad value, so that one mistake gives one message. Source: TVM's Relax language and parser.
 */
#include "frontend/script/guard.h"

/* ---- signatures ---- */

/* Marks symbolic variables that stand alone as a dim: matching an argument defines them. */
static void define_bare(Sema *s, const SInfo *si) {
  if (si->kind == SINFO_TUPLE || si->kind == SINFO_CALLABLE) /* a function's are its own */
    for (uint32_t i = 0; i < si->n; i++) define_bare(s, si->fields[i]);
  if (si->kind == SINFO_PRIM && si->value && si->value->kind == EXPR_VAR) { /* R.Prim(value="n") */
    Binding *b = scope_find(&s->scope, si->value->var->name);
    if (b && b->var == si->value->var) b->undefined = false;
  }
  if ((si->kind != SINFO_TENSOR && si->kind != SINFO_SHAPE) || !si->dims) return;
  for (int32_t i = 0; i < si->ndim; i++) {
    if (si->dims[i]->kind != EXPR_VAR) continue;
    Var *v = si->dims[i]->var;
    if (s->signature) v->is_dim = true;
    Binding *b = scope_find(&s->scope, v->name);
    if (b && b->var == v) b->undefined = false;
  }
}

static const SInfo *scalar_param(Sema *s, const Tree *p, DType d) {
  Var *v = var_create(s->ctx, p->name, d);
  v->span = tree_span(s, p);
  scope_bind(&s->scope, p->name, BIND_VAR, v->span)->var = v;
  return sinfo_prim_value(s->ctx, v->expr);
}

/* T.int64 or R.Prim("int64") as an annotation; such parameters are usable as dims by all others. */
static bool is_scalar_annotation(Sema *s, const Tree *t, DType *d) {
  if (t && graph_is_call(t, "R", "Prim") && t->n == 1 && t->at[0]->kind == TREE_STR)
    return sema_prim_type(t->at[0]->str, d);
  if (t && t->kind == TREE_CALL && t->n == 0) t = t->a;
  const char *m = t ? sema_member(s, t, 'T') : NULL;
  return m && sema_prim_type(m, d);
}

static bool check_param(Sema *s, const Tree *p) {
  if (p->op) {
    sema_error(s, p, "'*', '**' and '/' are not supported in parameter lists");
  } else if (p->at[1]) {
    sema_error(s, p->at[1], "parameters cannot have default values");
  } else if (!p->at[0]) {
    sema_error(s, p, "parameter '%s' needs an annotation such as R.Tensor((n,), \"float32\")",
               p->name);
  } else {
    return true;
  }
  return false;
}

static void check_duplicates(Sema *s, const TreeDef *def) {
  Map seen;
  map_init(&seen, s->arena);
  for (uint32_t i = 0; i < def->n_params; i++) {
    Tree *p = def->params[i];
    if (p->kind != TREE_PARAM || !p->name) continue;
    const Tree *first = map_getp(&seen, p->name);
    if (first) {
      Span x = tree_span(s, p), y = tree_span(s, first);
      x.end = x.begin + (uint32_t)strlen(p->name);
      y.end = y.begin + (uint32_t)strlen(p->name);
      diag_error(s->ctx->diags, x, "duplicate parameter '%s'", p->name);
      diag_note(s->ctx->diags, y, "'%s' is first declared here", p->name);
    } else {
      map_setp(&seen, p->name, p);
    }
  }
}

/* Type parameters (def f[n, m]) and what the annotations mention. */
static void declare_type_params(Sema *s, const TreeDef *def) {
  for (uint32_t i = 0; i < def->n_type_params; i++) {
    const Tree *p = def->type_params[i];
    if (p->kind != TREE_PARAM) continue;
    const char *bound = p->at[0] ? tree_dotted(s->ctx, p->at[0]) : NULL;
    if (p->at[1] || (p->at[0] && (!bound || strcmp(bound, "int") != 0))) {
      sema_error(s, p, "a type parameter is a plain name");
      continue;
    }
    Binding *b = scope_bind(&s->scope, p->name, BIND_VAR, tree_span(s, p));
    b->var = var_create_dim(s->ctx, p->name);
    b->var->span = b->span;
    b->undefined = true;
  }
}

static void read_params(Sema *s, Func *f, const TreeDef *def) {
  const SInfo **types = ARENA_ARRAY(s->arena, const SInfo *, def->n_params + 1);
  uint32_t own = s->scope.stack.n; /* below: names of the function around */
  check_duplicates(s, def);
  declare_type_params(s, def);
  for (uint32_t i = 0; i < def->n_params; i++) {
    const Tree *p = def->params[i];
    DType d = DT_UNKNOWN;
    if (p->kind == TREE_PARAM && !p->op && is_scalar_annotation(s, p->at[0], &d))
      types[i] = scalar_param(s, p, d);
  }
  s->signature = s->params = true;
  for (uint32_t i = 0; i < def->n_params; i++) {
    const Tree *p = def->params[i];
    if (types[i]) continue;
    types[i] = sinfo_bad(s->ctx);
    if (p->kind == TREE_PARAM && check_param(s, p)) types[i] = sema_type(s, p->at[0]);
    define_bare(s, types[i]);
  }
  for (uint32_t i = own; i < s->scope.stack.n; i++) {
    Binding *b = s->scope.stack.at[i];
    if (b->kind != BIND_VAR || !b->undefined) continue;
    diag_error(s->ctx->diags, b->span,
               "symbolic variable '%s' is not defined: it must stand alone as a dim of a parameter",
               b->name);
    b->undefined = false;
  }
  s->params = false;
  if (def->returns) {
    f->ret = f->ret_annot = sema_type(s, def->returns);
    f->ret_span = tree_span(s, def->returns);
  }
  s->signature = false;
  for (uint32_t i = 0; i < def->n_params; i++) {
    const Tree *p = def->params[i];
    const char *name = p->kind == TREE_PARAM && p->name ? p->name : "_";
    Span span = tree_span(s, p);
    if (p->kind == TREE_PARAM) span.end = span.begin + (uint32_t)strlen(name);
    Node *n = func_add_param(f, name, types[i], span);
    Binding *old = scope_find(&s->scope, name);
    bool scalar = types[i]->kind == SINFO_PRIM && types[i]->value;
    if (old && old->kind == BIND_VAR && !scalar)
      diag_error(s->ctx->diags, span, "parameter '%s' has the name of a symbolic variable", name);
    Binding *b = scope_bind(&s->scope, name, BIND_NODE, span);
    b->node = n;
    if (scalar) b->var = types[i]->value->var;
  }
  func_collect_dims(f);
}

void graph_declare(Sema *s, Decl *d) {
  const TreeDef *def = d->tree->def;
  s->f = d->func;
  s->tir = false;
  scope_init(&s->scope, s->arena);
  scope_push(&s->scope);
  read_params(s, d->func, def);
  d->n_bindings = s->scope.stack.n;
  d->bindings = s->scope.stack.at;
}

/* ---- blocks ---- */

BindingBlock *graph_block(Sema *s, const Tree *t) {
  if (s->block) return s->block;
  BindingBlock *last = s->seq->last;
  if (s->in_dataflow && last && last->dataflow)
    s->block = last;
  else
    s->block = block_append(s->f, s->seq, s->owner, s->in_dataflow, tree_span(s, t));
  return s->block;
}

Node *graph_bad(Sema *s, const Tree *t) {
  Node *n = node_tuple(s->f, NULL, 0, tree_span(s, t));
  n->sinfo = sinfo_bad(s->ctx);
  return n;
}

static bool is_place(const Node *n) {
  return n->block || n->op == OP_PARAM;
}

/* Checks `value` against what is written after the colon and returns the type to use. *unproved is
 * set when only a check at run time can tell. */
static const SInfo *check_annotation(Sema *s, const Tree *at, const char *name, const Node *value,
                                     const SInfo *annot, bool *unproved) {
  *unproved = false;
  if (annot->kind == SINFO_BAD || value->sinfo->kind == SINFO_BAD) return annot;
  SInfoWhy why = {0};
  SInfoCheck check = sinfo_check(s->ctx, s->facts, value->sinfo, annot, &why);
  *unproved = check == SINFO_MAYBE;
  if (check == SINFO_FAIL) {
    sema_error(s, at, "'%s' is annotated as %s but its value is %s%s%s", name,
               sema_type_text(s, annot), sema_type_text(s, value->sinfo), why.words.n ? ": " : "",
               text_cstr(&why.words));
    explain_vars(s->ctx, s->f, why.have, why.want);
    annot = sinfo_bad(s->ctx);
  }
  text_free(&why.words);
  return annot;
}

/* Binds a value to a name: a computation under it, anything that has a place already by an alias.
 */
static Node *bind_value(Sema *s, const Tree *target, Node *value, const SInfo *annot,
                        const Tree *annot_tree) {
  Node *n = value;
  bool unproved = false;
  if (annot) annot = check_annotation(s, annot_tree, target->name, value, annot, &unproved);
  if (unproved) {
    if (!node_is_atom(value))
      node_bind_last(graph_block(s, target), value,
                     arena_printf(s->arena, "%s_unchecked", target->name));
    n = guard_cast(s, annot_tree, value, annot);
  } else if (is_place(value)) {
    n = node_create(s->f, OP_ALIAS, &value, 1, value->span);
    n->sinfo = value->sinfo;
  }
  if (annot && n->op != OP_MATCH_CAST) n->annot = n->sinfo = annot;
  n->name_span = tree_span(s, target);
  node_bind_last(graph_block(s, target), n, target->name);
  Binding *b = scope_bind(&s->scope, target->name, BIND_NODE, n->name_span);
  b->node = n;
  return n;
}

static void bind_bad(Sema *s, const Tree *target) {
  if (target->kind == TREE_TUPLE || target->kind == TREE_LIST)
    for (uint32_t i = 0; i < target->n; i++) bind_bad(s, target->at[i]);
  if (target->kind == TREE_NAME)
    scope_bind(&s->scope, target->name, BIND_BAD, tree_span(s, target));
}

/* ---- assignments ---- */

/* n = T.int64(): names a symbolic variable. True when t is such a call. */
static bool is_var_declaration(Sema *s, const Tree *t, DType *d) {
  if (t->kind != TREE_CALL || t->n) return false;
  const char *m = sema_member(s, t->a, 'T');
  return m && sema_prim_type(m, d);
}

static void declare_var(Sema *s, const Tree *target, const Tree *value, DType d) {
  Binding *b = scope_find(&s->scope, target->name);
  if (b && !b->hidden && b->var) {
    if (!dtype_eq(b->var->dtype, d))
      sema_error(s, value, "'%s' is a symbolic variable of type %s", target->name,
                 dtype_name(b->var->dtype));
    return;
  }
  if (strmap_has(&s->type_vars, target->name)) {
    sema_error(s, target, "'%s' is a TypeVar of the file; give the variable another name",
               target->name);
    bind_bad(s, target);
    return;
  }
  b = scope_bind(&s->scope, target->name, BIND_VAR, tree_span(s, target));
  b->var = dtype_eq(d, DT_I64) ? var_create_dim(s->ctx, target->name)
                               : var_create(s->ctx, target->name, d);
  b->var->span = b->span;
  b->undefined = true;
}

/* I.meta_var(x) names a value without binding it. */
static const Tree *meta_var(const Tree *t) {
  bool meta = graph_is_call(t, "I", "meta_var") || graph_is_call(t, "T", "meta_var");
  return meta && t->n == 1 && t->at[0]->kind != TREE_KEYWORD ? t->at[0] : NULL;
}

static void name_value(Sema *s, const Tree *target, const Tree *value) {
  Node *v = graph_operand(s, value);
  if (v->sinfo->kind == SINFO_BAD) {
    bind_bad(s, target);
    return;
  }
  scope_bind(&s->scope, target->name, BIND_NODE, tree_span(s, target))->node = v;
}

/* a, b = x, y: every value is read before a name is bound. */
static void assign_each(Sema *s, const Tree *target, const Tree *value) {
  DType d = DT_UNKNOWN;
  Node **at = ARENA_ARRAY(s->arena, Node *, target->n);
  for (uint32_t i = 0; i < target->n; i++)
    if (!is_var_declaration(s, value->at[i], &d) && !meta_var(value->at[i]))
      at[i] = graph_expr(s, value->at[i]);
  for (uint32_t i = 0; i < target->n; i++) {
    const Tree *x = target->at[i], *v = value->at[i];
    if (x->kind != TREE_NAME)
      sema_error(s, x, "expected a name but got %s", tree_describe(x));
    else if (is_var_declaration(s, v, &d))
      declare_var(s, x, v, d);
    else if (meta_var(v))
      name_value(s, x, meta_var(v));
    else if (at[i]->sinfo->kind == SINFO_BAD)
      bind_bad(s, x);
    else
      bind_value(s, x, at[i], NULL, NULL);
  }
}

static void assign_tuple(Sema *s, const Tree *t, const Tree *target, const Tree *value) {
  if (value->kind == TREE_TUPLE && value->n == target->n) {
    assign_each(s, target, value);
    return;
  }
  Node *v = graph_operand(s, value);
  if (v->op == OP_TUPLE && !v->block) node_bind_last(graph_block(s, t), v, NULL);
  if (v->sinfo->kind == SINFO_BAD) {
    bind_bad(s, target);
    return;
  }
  if (v->sinfo->kind != SINFO_TUPLE || v->sinfo->n != target->n) {
    sema_error(s, value, "cannot unpack %s into %u names", sema_type_text(s, v->sinfo), target->n);
    bind_bad(s, target);
    return;
  }
  for (uint32_t i = 0; i < target->n; i++) {
    const Tree *x = target->at[i];
    if (x->kind != TREE_NAME) {
      sema_error(s, x, "expected a name but got %s", tree_describe(x));
      continue;
    }
    Node *get = node_tuple_get(s->f, v, i, tree_span(s, t));
    bind_value(s, x, get, NULL, NULL);
  }
}

/* A bare number bound to a name is a constant tensor in TVM. */
static bool is_number(const Tree *t) {
  if (t->kind == TREE_UNARY && t->op == TREE_NEG) t = t->b;
  return t->kind == TREE_INT || t->kind == TREE_FLOAT;
}

static Node *constant_of_number(Sema *s, const Tree *t) {
  const Tree *x = t->kind == TREE_UNARY && t->op == TREE_NEG ? t->b : t;
  int64_t i = 0;
  double f = 0;
  if (x->kind == TREE_INT && tree_const_int(t, &i))
    return node_const(s->f, const_scalar(s->m, DT_I32, (double)i, i), tree_span(s, t));
  if (x->kind == TREE_FLOAT && tree_const_float(t, &f))
    return node_const(s->f, const_scalar(s->m, DT_F32, f, 0), tree_span(s, t));
  return NULL;
}

static bool is_module_name(Sema *s, const Tree *t) {
  if (t->kind != TREE_NAME) return false;
  if (s->class_name && strcmp(t->name, s->class_name) == 0) return true;
  Binding *b = scope_find(&s->scope, t->name);
  return b && b->kind == BIND_MODULE && !b->hidden;
}

static void assign(Sema *s, const Tree *t, const Tree *target, const Tree *annot,
                   const Tree *value) {
  DType d = DT_UNKNOWN;
  if (target->kind == TREE_BAD || value->kind == TREE_BAD) {
    bind_bad(s, target);
    return;
  }
  if (target->kind == TREE_TUPLE || target->kind == TREE_LIST) {
    assign_tuple(s, t, target, value);
    return;
  }
  if (target->kind != TREE_NAME) {
    if (target->kind == TREE_SUBSCRIPT ||
        target->kind == TREE_ATTR) /* others were refused before */
      sema_error(s, target, "a Relax value cannot be changed in place: only names can be assigned");
    return;
  }
  if (is_var_declaration(s, value, &d)) {
    declare_var(s, target, value, d);
    return;
  }
  if (meta_var(value) && !annot) {
    name_value(s, target, meta_var(value));
    return;
  }
  if (is_module_name(s, value)) {
    scope_bind(&s->scope, target->name, BIND_MODULE, tree_span(s, target));
    return;
  }
  bool cast = graph_is_call(value, "R", "match_cast");
  bool prim_annot = annot && is_scalar_annotation(s, annot, &d);
  Node *n = prim_annot ? NULL : constant_of_number(s, value);
  if (prim_annot && is_number(value)) { /* a scalar of the type that is written */
    const Expr *e = sema_expr(s, value);
    n = e ? node_prim(s->f, sema_convert(s, e, d), tree_span(s, value)) : graph_bad(s, value);
  }
  if (!n) n = graph_expr(s, value);
  const SInfo *type = NULL;
  if (annot) {
    s->allow_undefined = cast;
    type = sema_type(s, annot);
    s->allow_undefined = false;
    if (cast && n->op == OP_MATCH_CAST && type->kind != SINFO_BAD && n->annot != type) {
      sema_error(s, annot, "'%s' is annotated as %s but R.match_cast makes it %s", target->name,
                 sema_type_text(s, type), sema_type_text(s, n->annot));
      type = NULL;
    }
  }
  if (n->sinfo->kind == SINFO_BAD && type && type->kind != SINFO_BAD) {
    /* the value failed: what is written is the best guess, but later errors stay silent */
    bind_bad(s, target);
    return;
  }
  if (cast && n->op == OP_MATCH_CAST && type && type != n->annot) {
    sema_error(s, annot, "'%s' is annotated as %s but its R.match_cast is to %s", target->name,
               sema_type_text(s, type), sema_type_text(s, n->annot));
    bind_bad(s, target);
    return;
  }
  n = bind_value(s, target, n, type, annot);
  if (cast && n->op == OP_MATCH_CAST) define_bare(s, n->sinfo);
}

/* ---- statements ---- */

typedef struct {
  bool returned;
  const Tree *after; /* first statement behind a return */
} BodyState;

static void read_statements(Sema *s, const Tree *block, uint32_t n, BodyState *state);

static void read_output(Sema *s, const Tree *call) {
  if (s->seq->last) s->seq->last->output = tree_span(s, call);
  for (uint32_t i = 0; i < call->n; i++) {
    const Tree *a = call->at[i];
    if (a->kind != TREE_NAME) {
      sema_error(s, a, "R.output takes names but got %s", tree_describe(a));
      continue;
    }
    Binding *b = sema_lookup(s, a);
    if (!b) continue;
    if (b->kind != BIND_NODE || !b->node->block || !b->node->block->dataflow ||
        b->node->block->seq != s->seq) {
      sema_error(s, a, "'%s' is not bound in this dataflow block", a->name);
      diag_note(s->ctx->diags, b->span, "'%s' is bound here", a->name);
      continue;
    }
    b->node->is_output = true;
  }
}

static void read_dataflow(Sema *s, const Tree *t, BodyState *state) {
  if (t->n != 2 || t->at[0]->b || !graph_is_call(t->at[0]->a, "R", "dataflow")) {
    if (t->at[0]->a->kind != TREE_BAD) sema_error(s, t->at[0], "expected 'with R.dataflow():'");
    s->scope.poisoned = true;
    return;
  }
  if (s->in_dataflow) {
    sema_error(s, t->at[0], "dataflow blocks cannot be nested");
    return;
  }
  const Tree *body = t->at[1];
  s->in_dataflow = true;
  s->block = NULL;
  graph_block(s, t);
  scope_push(&s->scope);
  uint32_t level = s->scope.stack.n;
  const Tree *last = body->n ? body->at[body->n - 1] : NULL;
  for (uint32_t i = 0; i + 1 < body->n; i++)
    if (body->at[i]->kind == TREE_EXPR && graph_is_call(body->at[i]->b, "R", "output"))
      sema_error(s, body->at[i], "R.output must be the last statement of its dataflow block");
  bool output = last && last->kind == TREE_EXPR && graph_is_call(last->b, "R", "output");
  read_statements(s, body, body->n - (output ? 1 : 0), state);
  if (output) read_output(s, last->b);
  /* what is output lives on, symbolic variables too; the rest goes out of sight */
  VEC(Binding *) keep = {0};
  for (uint32_t i = level; i < s->scope.stack.n; i++) {
    Binding *b = s->scope.stack.at[i];
    bool visible = b->kind != BIND_NODE || b->node->is_output;
    if (visible && scope_find(&s->scope, b->name) == b) vec_push(s->arena, &keep, b);
  }
  scope_pop(&s->scope, "a dataflow block that does not output it");
  for (uint32_t i = 0; i < keep.n; i++) {
    Binding *b = keep.at[i], *n = scope_bind(&s->scope, b->name, b->kind, b->span);
    n->node = b->node;
    n->var = b->var;
    n->undefined = b->undefined;
  }
  s->in_dataflow = false;
  s->block = NULL;
}

/* The name that the last statement of a branch binds, or NULL. */
static const Tree *branch_target(const Tree *block) {
  const Tree *last = block->n ? block->at[block->n - 1] : NULL;
  if (!last) return NULL;
  if (last->kind == TREE_IF) return branch_target(last->at[1]);
  if (last->kind != TREE_ANNOT && last->kind != TREE_ASSIGN) return NULL;
  return last->at[0]->kind == TREE_NAME ? last->at[0] : NULL;
}

/* Reads a branch into `seq`. Its last statement gives the result: a computation is bound under
 * <name>_then or <name>_else, as TVM prints it, anything else is the result itself. */
static const SInfo *read_branch(Sema *s, Node *owner, Seq *seq, const Tree *block,
                                const char *suffix, BodyState *state) {
  Seq *outer_seq = s->seq;
  Node *outer_owner = s->owner;
  BindingBlock *outer_block = s->block;
  s->seq = seq;
  s->owner = owner;
  s->block = NULL;
  scope_push(&s->scope);
  uint32_t learnt = s->learnt_dims.n;
  facts_push(s->learnt);
  const Tree *last = block->at[block->n - 1];
  read_statements(s, block, block->n - 1, state);
  Node *result = NULL;
  if (last->kind == TREE_IF) {
    read_statements(s, &(Tree){.kind = TREE_BLOCK, .at = (Tree *[]){(Tree *)(uintptr_t)last}}, 1,
                    state);
    const Tree *name = branch_target(block);
    Binding *b = name ? scope_find(&s->scope, name->name) : NULL;
    result = b && b->kind == BIND_NODE && !b->hidden ? b->node : graph_bad(s, last);
  } else {
    const Tree *target = last->at[0];
    const Tree *annot = last->kind == TREE_ANNOT ? last->at[1] : NULL;
    const Tree *value = last->kind == TREE_ANNOT ? last->at[2] : last->at[last->n - 1];
    result = value ? graph_expr(s, value) : graph_bad(s, last);
    if (!value) sema_error(s, last, "an annotation without a value");
    if (annot) {
      bool unproved = false;
      const SInfo *type =
          check_annotation(s, annot, target->name, result, sema_type(s, annot), &unproved);
      if (unproved)
        result = guard_cast(s, annot, result, type);
      else if (!is_place(result) && result->op != OP_MATCH_CAST)
        result->annot = result->sinfo = type;
    }
    bool atom = result->op == OP_CONST || result->op == OP_TUPLE || result->op == OP_PRIM_VALUE ||
                result->op == OP_SHAPE_EXPR;
    if (!is_place(result) && !atom) {
      result->name_span = tree_span(s, target);
      node_bind_last(graph_block(s, last), result,
                     arena_printf(s->arena, "%s%s", target->name, suffix));
    }
  }
  Span span = last->kind == TREE_IF ? SPAN_NONE : tree_span(s, last);
  seq->yield = node_create(s->f, OP_YIELD, &result, 1, span);
  seq->yield->sinfo = result->sinfo;
  scope_pop(&s->scope, "a branch of an 'if'");
  facts_pop(s->learnt);
  s->learnt_dims.n = learnt;
  s->seq = outer_seq;
  s->owner = outer_owner;
  s->block = outer_block;
  return result->sinfo;
}

static void read_if(Sema *s, const Tree *t, BodyState *state) {
  const Tree *then = t->at[1], *other = t->at[2];
  if (s->in_dataflow) {
    sema_error(s, t->at[0], "'if' is not allowed in a dataflow block");
    s->scope.poisoned = true;
    return;
  }
  if (!other) {
    Span sp = tree_span(s, t);
    sp.end = sp.begin + 2;
    diag_error(s->ctx->diags, sp, "'if' in a Relax function needs an 'else' with the same result");
    s->scope.poisoned = true;
    return;
  }
  const Tree *a = branch_target(then), *b = branch_target(other);
  if (!a || !b || strcmp(a->name, b->name) != 0) {
    const Tree *x = !a ? then->at[then->n - 1] : other->at[other->n - 1];
    if (x->kind != TREE_BAD)
      sema_error(s, x, "the last statement of both branches must bind the same name");
    if (a && b) sema_note(s, a, "the other branch binds '%s'", a->name);
    s->scope.poisoned = true;
    return;
  }
  Node *cond = graph_operand(s, t->at[0]);
  const SInfo *ci = cond->sinfo;
  bool fits = ci->kind == SINFO_BAD || ci->kind == SINFO_PRIM || ci->kind == SINFO_OBJECT ||
              (ci->kind == SINFO_TENSOR &&
               (!dtype_known(ci->dtype) || !dtype_is_float(ci->dtype)) && ci->ndim <= 1);
  if (!fits)
    sema_error(s, t->at[0], "a condition must be a bool scalar but got %s", sema_type_text(s, ci));
  Node *n = node_create(s->f, OP_IF, &cond, 1, tree_span(s, t));
  n->in[0].span = tree_span(s, t->at[0]);
  const SInfo *x = read_branch(s, n, &n->if_.then_, then, "_then", state);
  const SInfo *y = read_branch(s, n, &n->if_.else_, other, "_else", state);
  if (!fits || x->kind == SINFO_BAD || y->kind == SINFO_BAD)
    n->sinfo = sinfo_bad(s->ctx);
  else
    node_infer(s->m, s->facts, n);
  n->name_span = tree_span(s, a);
  node_bind_last(graph_block(s, t), n, a->name);
  scope_bind(&s->scope, a->name, BIND_NODE, n->name_span)->node = n;
}

static void finish_body(Sema *s, const Tree *def, BodyState *state);

/* A local function: a closure bound to its name, visible in its own body. */
static void read_local_function(Sema *s, const Tree *t) {
  const TreeDef *def = t->def;
  Decoration deco;
  bool ok = sema_decoration(s, t, &deco);
  if (ok && deco.prim) sema_error(s, t, "a prim_func stands in a module, not in a function");
  if (!ok || deco.prim) {
    scope_bind(&s->scope, def->name, BIND_BAD, tree_span(s, t));
    return;
  }
  Sema inner = *s;
  Func *f = func_create(s->m, def->name, tree_span(s, t));
  f->name_span = (Span){s->file, def->name_begin, def->name_end};
  f->outer = s->f;
  f->is_private = true;
  f->pure = deco.pure;
  f->check_well_formed = deco.check;
  Node *n = node_create(s->f, OP_FUNC, NULL, 0, tree_span(s, t));
  n->local = f;
  n->name_span = f->name_span;
  inner.f = f;
  inner.seq = &f->body;
  inner.owner = NULL;
  inner.block = NULL;
  inner.in_dataflow = false;
  scope_push(&inner.scope);
  read_params(&inner, f, def);
  const SInfo **params = ARENA_ARRAY(s->arena, const SInfo *, f->nparams + 1);
  for (uint32_t i = 0; i < f->nparams; i++) params[i] = f->params[i]->sinfo;
  if (f->ret_annot) n->sinfo = sinfo_callable(s->ctx, params, f->nparams, f->ret, f->pure);
  Binding *self = scope_bind(&inner.scope, def->name, BIND_NODE, f->name_span);
  self->node = n;
  if (!f->ret_annot) self->kind = BIND_BAD;
  BodyState state = {0};
  facts_push(s->learnt);
  read_statements(&inner, def->body, def->body->n, &state);
  finish_body(&inner, t, &state);
  facts_pop(s->learnt);
  scope_pop(&inner.scope, NULL);
  s->scope = inner.scope;
  if (f->ret->kind == SINFO_BAD)
    n->sinfo = sinfo_bad(s->ctx);
  else
    n->sinfo = sinfo_callable(s->ctx, params, f->nparams, f->ret, f->pure);
  node_bind_last(graph_block(s, t), n, def->name);
  scope_bind(&s->scope, def->name, BIND_NODE, f->name_span)->node = n;
}

static void read_expression(Sema *s, const Tree *t, bool first) {
  const Tree *e = t->b;
  if (e->kind == TREE_STR && first) return; /* a docstring */
  if (graph_is_call(e, "R", "func_attr")) {
    if (e->n != 1) {
      sema_error(s, e, "R.func_attr takes one dict");
      return;
    }
    sema_func_attr(s, e->at[0], s->f->name, &s->f->attrs);
    return;
  }
  if (graph_is_call(e, "R", "output")) {
    if (!s->in_dataflow) sema_error(s, e, "R.output stands outside a dataflow block");
    return;
  }
  Node *n = graph_expr(s, e);
  if (n->sinfo->kind == SINFO_BAD) return;
  if (is_place(n) || !sinfo_is_void(n->sinfo)) {
    if (n->sinfo->kind != SINFO_OBJECT || is_place(n)) {
      sema_error(s, e, "the value of this expression, %s, is not used; bind it to a name",
                 sema_type_text(s, n->sinfo));
      return;
    }
  }
  node_bind_last(graph_block(s, t), n, "_");
}

static void read_return(Sema *s, const Tree *t, BodyState *state) {
  if (s->owner || s->in_dataflow) {
    sema_error(s, t, "'return' must be the last statement of the function");
    state->returned = true;
    return;
  }
  state->returned = true;
  Node *v = NULL;
  if (t->b) {
    v = graph_operand(s, t->b);
  } else {
    sema_error(s, t, "'return' needs a value; an empty result is R.tuple()");
    v = graph_bad(s, t);
  }
  if (s->f->ret_annot) v = guard_operand(s, t->b ? t->b : t, v, s->f->ret_annot);
  Node *y = node_create(s->f, OP_YIELD, &v, 1, tree_span(s, t));
  y->in[0].span = tree_span(s, t->b ? t->b : t);
  y->sinfo = v->sinfo;
  s->seq->yield = y;
}

static void read_statement(Sema *s, const Tree *t, bool first, BodyState *state) {
  switch ((TreeKind)t->kind) {
  case TREE_BAD: s->scope.poisoned = true; return;
  case TREE_PASS:
  case TREE_IMPORT: return;
  case TREE_EXPR: read_expression(s, t, first); return;
  case TREE_ASSIGN:
    if (t->n != 2) {
      sema_error(s, t, "chained assignment is not supported");
      for (uint32_t i = 0; i + 1 < t->n; i++) bind_bad(s, t->at[i]);
      return;
    }
    assign(s, t, t->at[0], NULL, t->at[1]);
    return;
  case TREE_ANNOT:
    if (!t->at[2]) {
      sema_error(s, t, "an annotation without a value");
      bind_bad(s, t->at[0]);
      return;
    }
    assign(s, t, t->at[0], t->at[1], t->at[2]);
    return;
  case TREE_AUGMENT:
    sema_error(s, t, "augmented assignment is not supported; write %s = %s %s ...",
               t->a->kind == TREE_NAME ? t->a->name : "x",
               t->a->kind == TREE_NAME ? t->a->name : "x", tree_op_text(t->op));
    return;
  case TREE_RETURN: read_return(s, t, state); return;
  case TREE_IF: read_if(s, t, state); return;
  case TREE_WITH: read_dataflow(s, t, state); return;
  case TREE_DEF: read_local_function(s, t); return;
  case TREE_BLOCK: read_statements(s, t, t->n, state); return;
  case TREE_FOR:
  case TREE_WHILE:
    sema_error(s, t, "loops are not part of Relax functions; write a T.prim_func or recursion");
    s->scope.poisoned = true;
    return;
  default: sema_error(s, t, "%s is not allowed in a Relax function", tree_describe(t)); return;
  }
}

static void read_statements(Sema *s, const Tree *block, uint32_t n, BodyState *state) {
  for (uint32_t i = 0; i < n && !diags_full(s->ctx->diags); i++) {
    if (state->returned && !state->after) {
      state->after = block->at[i];
      sema_error(s, block->at[i], "a statement after 'return'");
    }
    read_statement(s, block->at[i], i == 0, state);
  }
}

/* ---- bodies ---- */

static void erase_result(Sema *s, Func *f) {
  Map known;
  map_init(&known, s->arena);
  for (uint32_t i = 0; i < f->ndims; i++) map_setp(&known, f->dims[i], f->dims[i]);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const SInfo *si = f->params[i]->sinfo;
    if (si->kind == SINFO_PRIM && si->value && si->value->kind == EXPR_VAR)
      map_setp(&known, si->value->var, si->value->var);
  }
  f->ret = sinfo_erase(s->ctx, &known, f->ret);
}

static void finish_body(Sema *s, const Tree *t, BodyState *state) {
  Func *f = s->f;
  if (!state->returned && !s->scope.poisoned)
    diag_error(s->ctx->diags, f->name_span, "function '%s' has no 'return'", f->name);
  if (!f->body.yield) {
    Node *bad = graph_bad(s, t);
    f->body.yield = node_create(f, OP_YIELD, &bad, 1, bad->span);
    f->body.yield->sinfo = bad->sinfo;
    if (!f->ret) f->ret = bad->sinfo;
    return;
  }
  const SInfo *have = f->body.yield->sinfo;
  if (!f->ret_annot) {
    if (f->ret) return; /* it calls itself, and its result was taken for R.Any there */
    f->ret = have;
    erase_result(s, f);
    return;
  }
  if (have->kind == SINFO_BAD || f->ret->kind == SINFO_BAD) return;
  SInfoWhy why = {0};
  if (sinfo_check(s->ctx, s->facts, have, f->ret_annot, &why) == SINFO_FAIL) {
    diag_error(s->ctx->diags, f->body.yield->in[0].span,
               "'%s' returns %s but is declared to return %s%s%s", f->name, sema_type_text(s, have),
               sema_type_text(s, f->ret_annot), why.words.n ? ": " : "", text_cstr(&why.words));
    diag_note(s->ctx->diags, f->ret_span, "the result is declared here");
    explain_vars(s->ctx, f, why.have, why.want);
  }
  text_free(&why.words);
}

void graph_body(Sema *s, Decl *d) {
  Func *f = d->func;
  const TreeDef *def = d->tree->def;
  s->f = f;
  s->tir = false;
  s->seq = &f->body;
  s->owner = NULL;
  s->block = NULL;
  s->in_dataflow = false;
  s->facts = NULL;
  s->learnt = facts_create(s->ctx, s->arena);
  s->learnt_dims.n = 0;
  scope_init(&s->scope, s->arena);
  scope_push(&s->scope);
  for (uint32_t i = 0; i < d->n_bindings; i++) {
    const Binding *old = d->bindings[i];
    Binding *b = scope_bind(&s->scope, old->name, old->kind, old->span);
    b->node = old->node;
    b->var = old->var;
  }
  BodyState state = {0};
  read_statements(s, def->body, def->body->n, &state);
  finish_body(s, d->tree, &state);
  func_collect_dims(f); /* an integer parameter may be a dim only in the body */
}
