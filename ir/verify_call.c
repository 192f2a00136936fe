/* Calls against the signature of their callee (rules R8, R9, R11).
 *
 * Dims of the callee that are bare variables bind to the dims of the first argument that has them;
 * the others are then compared with those bindings put in. Only what is provably different fails.
 */
#include "ir/explain.h"
#include "ir/ops/attrs.h"
#include "ir/verify_impl.h"

static Span arg_span(const Node *n, uint32_t i) {
  return n->in[i].span.file ? n->in[i].span : n->span;
}

/* One value that meets a parameter of a prim_func. */
typedef struct {
  const SInfo *s;
  Span span;
  const char *what; /* "argument 1", "result 0" */
} Actual;

static void bind_dims(Map *bind, const Buffer *b, const SInfo *s) {
  if (!s->dims || s->ndim != (int32_t)b->ndim) return;
  for (uint32_t i = 0; i < b->ndim; i++) {
    const Expr *e = b->shape[i];
    if (e->kind == EXPR_VAR && !map_getp(bind, e->var))
      map_setp(bind, e->var, (void *)(uintptr_t)s->dims[i]);
  }
}

static bool is_bound(const Expr *e, void *ctx) {
  return e->kind != EXPR_VAR || map_getp(ctx, e->var);
}

static void check_buffer(Verifier *v, const Func *caller, const PrimFunc *f, uint32_t at,
                         const Actual *a, Map *bind) {
  const Buffer *b = f->param_bufs[at];
  const SInfo *s = a->s;
  if (s->kind != SINFO_TENSOR) {
    if (s->kind != SINFO_OBJECT && s->kind != SINFO_BAD)
      verify_fail(v, a->span, "R8", "%s of '%s' must be a tensor: parameter '%s' is a buffer",
                  a->what, f->name, b->name);
    return;
  }
  if (dtype_known(s->dtype) && !dtype_eq(s->dtype, b->dtype)) {
    char *have = arena_printf(v->arena, "%s", dtype_name(s->dtype));
    verify_fail(v, a->span, "R8", "%s of '%s' has dtype %s but parameter '%s' has %s", a->what,
                f->name, have, b->name, dtype_name(b->dtype));
    return;
  }
  if (s->ndim >= 0 && s->ndim != (int32_t)b->ndim) {
    verify_fail(v, a->span, "R8", "%s of '%s' has %d dims but parameter '%s' has %u", a->what,
                f->name, s->ndim, b->name, b->ndim);
    return;
  }
  for (int32_t i = 0; s->dims && i < s->ndim; i++) {
    const Expr *want = b->shape[i];
    if (!expr_walk(want, is_bound, bind)) continue;
    want = expr_subst(&(Subst){.c = v->c, .vars = bind}, want);
    if (!expr_proved_ne(v->c, s->dims[i], want)) continue;
    Text t = {0};
    verify_print_dim(&t, s->dims[i]);
    text_puts(&t, " but ");
    verify_print_dim(&t, want);
    verify_fail(v, a->span, "R8", "dim %d of %s of '%s' is %s is expected by parameter '%s'", i,
                a->what, f->name, text_cstr(&t), b->name);
    explain_vars(v->c, caller, s->dims[i], want);
    text_free(&t);
  }
}

static void check_scalar(Verifier *v, const PrimFunc *f, uint32_t at, const Actual *a) {
  const Var *p = f->params[at];
  if (a->s->kind == SINFO_OBJECT || a->s->kind == SINFO_BAD) return;
  if (dtype_eq(p->dtype, DT_HANDLE)) return; /* an address of anything */
  if (a->s->kind != SINFO_PRIM)
    verify_fail(v, a->span, "R8", "%s of '%s' must be a prim value: parameter '%s' is a scalar",
                a->what, f->name, p->name);
  else if (dtype_known(a->s->dtype) && !dtype_eq(a->s->dtype, p->dtype) &&
           !(dtype_is_int(a->s->dtype) && dtype_is_int(p->dtype)))
    verify_fail(v, a->span, "R8", "%s of '%s' has another dtype than parameter '%s'", a->what,
                f->name, p->name);
}

/* actuals[0..n): what meets the parameters in order. */
static bool check_actuals(Verifier *v, const Node *n, const PrimFunc *f, const Actual *actuals,
                          uint32_t count) {
  uint32_t want = f->nparams;
  uint32_t errors = diags_errors(v->c->diags);
  bool workspace = attr_get_bool(f->attrs, "relaxc.workspace", false);
  if (count != want && !(workspace && count + 1 == want)) {
    verify_fail(v, n->span, "R8", "'%s' takes %u arguments, outputs included, but the call has %u",
                f->name, want - (workspace ? 1 : 0), count);
    return false;
  }
  Map bind;
  map_init(&bind, v->arena);
  for (uint32_t i = 0; i < count; i++) {
    const SInfo *s = actuals[i].s;
    if (f->param_bufs[i] && s->kind == SINFO_TENSOR)
      bind_dims(&bind, f->param_bufs[i], s);
    else if (!f->param_bufs[i] && s->kind == SINFO_PRIM && s->value &&
             dtype_eq(s->value->dtype, f->params[i]->dtype))
      map_setp(&bind, f->params[i], (void *)(uintptr_t)s->value);
  }
  for (uint32_t i = 0; i < count; i++) {
    if (!actuals[i].s) continue;
    if (f->param_bufs[i])
      check_buffer(v, n->func, f, i, &actuals[i], &bind);
    else
      check_scalar(v, f, i, &actuals[i]);
  }
  return diags_errors(v->c->diags) == errors;
}

typedef VEC(Actual) ActualVec;

/* The arguments of n; a shape passes its dims as scalars. */
static void arg_actuals(Verifier *v, const Node *n, ActualVec *out) {
  for (uint32_t i = 1; i < n->nin; i++) {
    const SInfo *s = node_in(n, i)->sinfo;
    Actual a = {s ? s : sinfo_object(v->c), arg_span(n, i),
                arena_printf(v->arena, "argument %u", i - 1)};
    if (a.s->kind != SINFO_SHAPE || a.s->ndim < 0) {
      vec_push(v->arena, out, a);
      continue;
    }
    for (int32_t k = 0; k < s->ndim; k++) {
      a.s = s->dims ? sinfo_prim_value(v->c, s->dims[k]) : sinfo_prim(v->c, DT_I64);
      vec_push(v->arena, out, a);
    }
  }
}

/* A result that is written into operand i is of the operand's type. */
static void check_overwritten(Verifier *v, const Node *n, uint32_t i, const SInfo *result) {
  const SInfo *have = node_in(n, i)->sinfo;
  SInfoWhy why = {0};
  if (have && sinfo_check(v->c, NULL, have, result, &why) == SINFO_FAIL)
    verify_fail(v, arg_span(n, i), "R8", "argument %u can't hold the result that overwrites it: %s",
                i - 1, text_cstr(&why.words));
  text_free(&why.words);
}

static void check_call_tir(Verifier *v, const Node *n, const PrimFunc *f) {
  const SInfoList *out = n->attrs;
  const IntList *inplace =
      n->op == OP_call_tir_inplace ? &node_attrs(n, call_tir_inplace)->inplace_indices : NULL;
  ActualVec a = {0};
  arg_actuals(v, n, &a);
  for (int32_t i = 0; i < out->n; i++) {
    if (inplace && i < inplace->n && inplace->at[i] >= 0) {
      if (inplace->at[i] >= (int64_t)n->nin - 1)
        verify_fail(v, n->span, "R8", "inplace_indices names argument %lld of %u",
                    (long long)inplace->at[i], n->nin - 1);
      continue; /* written into an argument */
    }
    Actual o = {out->at[i], n->span, arena_printf(v->arena, "result %d", i)};
    vec_push(v->arena, &a, o);
  }
  if (!check_actuals(v, n, f, a.at, a.n) || !inplace) return;
  for (int32_t i = 0; i < out->n && i < inplace->n; i++)
    if (inplace->at[i] >= 0 && inplace->at[i] < (int64_t)n->nin - 1)
      check_overwritten(v, n, (uint32_t)inplace->at[i] + 1, out->at[i]);
}

static void check_call_func(Verifier *v, const Node *n, const SInfo *f, const char *name) {
  if (f->opaque) return;
  if (n->nin - 1 != f->n) {
    verify_fail(v, n->span, "R9", "'%s' takes %u arguments but the call has %u", name, f->n,
                n->nin - 1);
    return;
  }
  Map bind;
  map_init(&bind, v->arena);
  VarVec vars = {0};
  for (uint32_t i = 0; i < f->n; i++) sinfo_vars(v->arena, f->fields[i], &vars);
  for (uint32_t i = 0; i < vars.n; i++) map_setp(&bind, vars.at[i], NULL);
  for (uint32_t i = 0; i < f->n; i++)
    if (node_in(n, i + 1)->sinfo) sinfo_unify(v->c, &bind, f->fields[i], node_in(n, i + 1)->sinfo);
  Map known; /* without the variables that no argument binds */
  map_init(&known, v->arena);
  for (uint32_t i = 0; i < bind.n; i++)
    if (bind.entries[i].value) map_set(&known, bind.entries[i].key, bind.entries[i].value);
  for (uint32_t i = 0; i < f->n; i++) {
    const SInfo *have = node_in(n, i + 1)->sinfo;
    if (!have) continue;
    SInfoWhy why = {0};
    if (sinfo_check(v->c, NULL, have, sinfo_subst(v->c, &known, f->fields[i]), &why) == SINFO_FAIL)
      verify_fail(v, arg_span(n, i + 1), "R9", "argument %u of '%s' doesn't fit: %s", i, name,
                  text_cstr(&why.words));
    text_free(&why.words);
  }
}

static bool is_call_tir(const Node *n) {
  return n->op == OP_call_tir || n->op == OP_call_tir_inplace || n->op == OP_call_tir_with_grad;
}

void verify_call(Verifier *v, const Node *n) {
  const Node *callee = n->nin ? node_in(n, 0) : NULL;
  if (!callee) return;
  if (callee->op != OP_GLOBAL) {
    if (is_call_tir(n))
      verify_fail(v, n->span, "R11", "the callee of R.%s must be a prim_func of the module",
                  node_op(n)->name);
    else if (n->op == OP_CALL && callee->sinfo && callee->sinfo->kind == SINFO_CALLABLE)
      check_call_func(v, n, callee->sinfo, callee->name ? callee->name : "the function");
    else if (n->op == OP_CALL && callee->sinfo && callee->sinfo->kind != SINFO_OBJECT &&
             callee->sinfo->kind != SINFO_BAD)
      verify_fail(v, arg_span(n, 0), "R9", "this value is no function and can't be called");
    return;
  }
  const Global *g = module_find(v->m, callee->str);
  if (!g || g->broken) return; /* R11 was reported at the operand */
  if (is_call_tir(n)) {
    if (g->kind == GLOBAL_PRIM)
      check_call_tir(v, n, g->prim);
    else if (g->kind == GLOBAL_FUNC)
      verify_fail(v, arg_span(n, 0), "R11", "'%s' is no prim_func", callee->str);
    return;
  }
  if (n->op != OP_CALL) return;
  if (g->kind == GLOBAL_PRIM) { /* destination passing: outputs come last */
    ActualVec a = {0};
    arg_actuals(v, n, &a);
    check_actuals(v, n, g->prim, a.at, a.n);
  } else if (g->kind == GLOBAL_FUNC) {
    const Func *f = g->func;
    const SInfo **ps = ARENA_ARRAY(v->arena, const SInfo *, f->nparams);
    for (uint32_t i = 0; i < f->nparams; i++) ps[i] = f->params[i]->sinfo;
    SInfo sig = {.kind = SINFO_CALLABLE, .n = f->nparams, .fields = ps};
    check_call_func(v, n, &sig, f->name);
  }
}
