/* Struct info of the structural nodes: constants, shapes, tuples, branches, functions and calls.
 *
 * A call binds the callee's symbolic vars by matching its parameters' bare dims with the arguments,
 * substitutes them in the result, and forgets dims whose vars no argument fixes. */
#include "ir/explain.h"
#include "ir/ops/util.h"

const SInfo *infer_keep(InferCtx *ic, Node *n) {
  (void)ic;
  return n->annot ? n->annot : n->sinfo;
}

const SInfo *infer_CONST(InferCtx *ic, Node *n) {
  if (n->annot) return n->annot; /* distributed */
  const ConstData *d = n->data;
  const Expr **dims = ARENA_ARRAY(ic->arena, const Expr *, d->ndim + 1);
  for (int32_t i = 0; i < d->ndim; i++) dims[i] = expr_i64(ic->c, d->dims[i]);
  return sinfo_tensor(ic->c, dims, (uint32_t)d->ndim, d->dtype);
}

const SInfo *infer_SHAPE_EXPR(InferCtx *ic, Node *n) {
  return sinfo_shape(ic->c, n->shape.at, n->shape.n);
}

const SInfo *infer_PRIM_VALUE(InferCtx *ic, Node *n) {
  return sinfo_prim_value(ic->c, n->expr);
}

const SInfo *infer_STR(InferCtx *ic, Node *n) {
  (void)n;
  return sinfo_string(ic->c);
}

const SInfo *infer_DTYPE(InferCtx *ic, Node *n) {
  (void)n;
  return sinfo_object(ic->c);
}

const SInfo *infer_TUPLE(InferCtx *ic, Node *n) {
  const SInfo **f = ARENA_ARRAY(ic->arena, const SInfo *, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) f[i] = node_in(n, i)->sinfo;
  const SInfo *s = sinfo_tuple(ic->c, f, n->nin);
  if (s->depth <= SINFO_MAX_DEPTH && s->size <= SINFO_MAX_SIZE) return s;
  if (s->depth > SINFO_MAX_DEPTH)
    diag_error(ic->c->diags, n->span, "tuples are nested too deeply: more than %d levels",
               SINFO_MAX_DEPTH);
  else
    diag_error(ic->c->diags, n->span, "the type of this tuple is too large: more than %d parts",
               SINFO_MAX_SIZE);
  return sinfo_bad(ic->c);
}

const SInfo *infer_TUPLE_GET(InferCtx *ic, Node *n) {
  const SInfo *t = node_in(n, 0)->sinfo;
  if (t->kind != SINFO_TUPLE)
    return infer_error(ic, n, C_tuple, 0, "only a tuple has items, but this is %s",
                       infer_type_text(ic, t));
  int64_t i = n->index;
  if (i < 0 || i >= t->n)
    return infer_error(ic, n, C_item, -1, "item %lld of a tuple with %u field%s", (long long)i,
                       t->n, t->n == 1 ? "" : "s");
  return t->fields[i];
}

const SInfo *infer_ALIAS(InferCtx *ic, Node *n) {
  (void)ic;
  return node_in(n, 0)->sinfo;
}

const SInfo *infer_MATCH_CAST(InferCtx *ic, Node *n) {
  const SInfo *have = node_in(n, 0)->sinfo, *want = n->annot;
  if (!want) bug("match_cast without its type");
  SInfoWhy why = {0};
  if (sinfo_check(ic->c, ic->facts, have, want, &why) == SINFO_FAIL) {
    const SInfo *bad = infer_error(ic, n, C_possible, -1,
                                   "match_cast can't succeed: the value is %s but %s is "
                                   "expected",
                                   infer_type_text(ic, have), infer_type_text(ic, want));
    if (why.words.n) infer_note(ic, n, -1, "%s", text_cstr(&why.words));
    explain_vars(ic->c, n->func, why.have, why.want);
    text_free(&why.words);
    return bad;
  }
  text_free(&why.words);
  return want;
}

const SInfo *infer_IF(InferCtx *ic, Node *n) {
  const SInfo *c = node_in(n, 0)->sinfo;
  bool ok = c->kind == SINFO_OBJECT || (c->kind == SINFO_PRIM && dtype_is_bool(c->dtype)) ||
            (c->kind == SINFO_TENSOR && (c->ndim == 0 || c->ndim == -1) &&
             (!dtype_known(c->dtype) || dtype_is_bool(c->dtype)));
  if (!ok)
    return infer_error(ic, n, C_bool, 0, "the condition must be a bool scalar but is %s",
                       infer_type_text(ic, c));
  const SInfo *a = seq_result(&n->if_.then_)->sinfo, *b = seq_result(&n->if_.else_)->sinfo;
  if (a->kind == SINFO_BAD || b->kind == SINFO_BAD) return sinfo_bad(ic->c);
  return sinfo_lub(ic->c, a, b);
}

const SInfo *infer_GLOBAL(InferCtx *ic, Node *n) {
  if (!module_find(ic->m, n->str))
    return infer_error(ic, n, C_callee, -1, "the module has no function '%s'", n->str);
  return global_sinfo(ic->m, n->str);
}

const SInfo *infer_EXTERN(InferCtx *ic, Node *n) {
  if (n->annot) return n->annot;
  return sinfo_callable_opaque(ic->c, sinfo_object(ic->c), false);
}

const SInfo *infer_FUNC(InferCtx *ic, Node *n) {
  (void)ic;
  return func_sinfo(n->local);
}

/* The vars of the parameters that the arguments fix, as Var* -> Expr*; the vars that the bound
 * expressions mention are added to *scope. */
static Map bind_params(InferCtx *ic, const Node *n, const SInfo *f, Map *scope) {
  VarVec vars = {0};
  Map found, bound;
  map_init(&found, ic->arena);
  map_init(&bound, ic->arena);
  for (uint32_t i = 0; i < f->n; i++) sinfo_vars(ic->arena, f->fields[i], &vars);
  for (uint32_t i = 0; i < vars.n; i++) map_setp(&found, vars.at[i], NULL);
  for (uint32_t i = 0; i < f->n; i++)
    sinfo_unify(ic->c, &found, f->fields[i], node_in(n, i + 1)->sinfo);
  for (uint32_t i = 0; i < vars.n; i++) {
    void *e = map_getp(&found, vars.at[i]);
    if (!e) continue;
    map_setp(&bound, vars.at[i], e);
    VarVec used = {0};
    expr_vars(ic->arena, e, &used);
    for (uint32_t k = 0; k < used.n; k++) map_setp(scope, used.at[k], used.at[k]);
  }
  return bound;
}

/* Notes which argument gave the callee's variables in parameter i the values they have. */
static void explain_bindings(InferCtx *ic, const Node *n, const SInfo *f, uint32_t i,
                             const Map *bound) {
  VarVec vars = {0};
  sinfo_vars(ic->arena, f->fields[i], &vars);
  for (uint32_t k = 0; k < vars.n; k++) {
    const Expr *value = map_getp(bound, vars.at[k]);
    for (uint32_t a = 0; value && a < f->n; a++) {
      const SInfo *p = f->fields[a];
      for (int32_t d = 0; p->dims && d < p->ndim; d++) {
        if (p->dims[d]->kind != EXPR_VAR || p->dims[d]->var != vars.at[k]) continue;
        infer_note(ic, n, (int)a + 1, "the callee's '%s' is %s in this call: dim %d of argument %u",
                   vars.at[k]->name, infer_expr_text(ic, value), d, a + 1);
        value = NULL;
        break;
      }
    }
  }
}

const SInfo *infer_CALL(InferCtx *ic, Node *n) {
  const SInfo *f = node_in(n, 0)->sinfo;
  if (f->kind != SINFO_CALLABLE)
    return infer_error(ic, n, C_function, 0, "only a function can be called, but this is %s",
                       infer_type_text(ic, f));
  if (f->opaque) return f->ret ? f->ret : sinfo_object(ic->c);
  const char *name = node_in(n, 0)->op == OP_GLOBAL ? node_in(n, 0)->str : node_in(n, 0)->name;
  if (!name) name = "the function";
  if (n->nin - 1 != f->n)
    return infer_error(ic, n, C_count, -1, "'%s' expects %u argument%s but got %u", name, f->n,
                       f->n == 1 ? "" : "s", n->nin - 1);
  Map scope;
  map_init(&scope, ic->arena);
  Map bound = bind_params(ic, n, f, &scope);
  for (uint32_t i = 0; i < f->n; i++) {
    const SInfo *want = sinfo_subst(ic->c, &bound, f->fields[i]);
    const SInfo *have = node_in(n, i + 1)->sinfo;
    SInfoWhy why = {0};
    SInfoCheck ok = sinfo_check(ic->c, ic->facts, have, want, &why);
    if (ok == SINFO_FAIL) {
      const SInfo *bad =
          infer_error(ic, n, C_argument, (int)i + 1, "argument %u of '%s' is %s but %s is expected",
                      i + 1, name, infer_type_text(ic, have), infer_type_text(ic, f->fields[i]));
      if (why.words.n) infer_note(ic, n, (int)i + 1, "%s", text_cstr(&why.words));
      if (why.want) explain_bindings(ic, n, f, i, &bound);
      explain_vars(ic->c, n->func, why.have, why.want);
      text_free(&why.words);
      return bad;
    }
    text_free(&why.words);
  }
  if (!f->ret) return sinfo_object(ic->c);
  return sinfo_erase(ic->c, &scope, sinfo_subst(ic->c, &bound, f->ret));
}
