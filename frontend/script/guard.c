/* Guards: what a text promises about shapes but nothing proves is checked when the program runs.
 *
 * An annotation, a return type, a callee's parameters or an out_ty may state dims that the value
 * might not have. A contradiction that can be proved is an error; what can be neither proved nor
 * refuted becomes an R.match_cast in front of the use, so that later levels may rely on every
 * stated shape. Dims of a callee bind to those of the arguments; a dim that no argument has gets a
 * fresh symbolic variable, which the match_cast defines.
 */
#include "frontend/script/guard.h"
#include "frontend/script/graph.h"
#include "ir/ops/attrs.h"

static bool maybe(Sema *s, const SInfo *have, const SInfo *want) {
  if (have->kind == SINFO_BAD || want->kind == SINFO_BAD) return false;
  return sinfo_check(s->ctx, s->facts, have, want, NULL) == SINFO_MAYBE;
}

/* ---- what match_casts have established ---- */

void guard_learn(Sema *s, const Tree *at, const SInfo *have, const SInfo *want) {
  if (!s->learnt || have->kind != want->kind) return;
  for (uint32_t i = 0; have->kind == SINFO_TUPLE && have->n == want->n && i < have->n; i++)
    guard_learn(s, at, have->fields[i], want->fields[i]);
  if (!have->dims || !want->dims || have->ndim != want->ndim) return;
  for (int32_t i = 0; i < have->ndim; i++) {
    const Expr *a = have->dims[i], *b = want->dims[i];
    if (a == b || expr_proved_eq(s->ctx, a, b)) continue;
    facts_equal(s->learnt, expr_dim(s->ctx, a), expr_dim(s->ctx, b));
    vec_push(s->arena, &s->learnt_dims, ((LearntDim){a, b, tree_span(s, at)}));
  }
}

typedef struct {
  const Expr *in;
  bool found;
} VarSearch;

static bool is_var_of(const Expr *e, void *ctx) {
  const Var *v = ctx;
  return e->kind != EXPR_VAR || e->var != v;
}

/* Does e have a variable that the other expression has too? */
static bool shares_var(const Expr *e, void *ctx) {
  VarSearch *x = ctx;
  if (e->kind == EXPR_VAR && !expr_walk(x->in, is_var_of, e->var)) x->found = true;
  return !x->found;
}

static bool mentions(const Expr *a, const Expr *b) {
  VarSearch x = {.in = b};
  expr_walk(a, shares_var, &x);
  return x.found;
}

static void print_dims_equal(Text *t, const LearntDim *d) {
  shape_dim_print(t, d->dim);
  text_puts(t, " == ");
  shape_dim_print(t, d->value);
}

/* Reports what no run can satisfy after the match_casts above; false when it can be checked. */
static bool refute(Sema *s, const Tree *at, const SInfo *have, const SInfo *want) {
  SInfoWhy why = {0};
  bool fails = s->learnt_dims.n && sinfo_check(s->ctx, s->learnt, have, want, &why) == SINFO_FAIL;
  if (fails) {
    sema_error(s, at, "this is %s but %s is expected: %s", sema_type_text(s, have),
               sema_type_text(s, want), text_cstr(&why.words));
    for (uint32_t i = 0; why.have && i < s->learnt_dims.n; i++) {
      const LearntDim *d = &s->learnt_dims.at[i];
      if (!mentions(d->dim, why.have) && !mentions(d->dim, why.want) &&
          !mentions(d->value, why.have) && !mentions(d->value, why.want))
        continue;
      Text t = {0};
      print_dims_equal(&t, d);
      diag_note(s->ctx->diags, d->span, "%s since this R.match_cast", text_cstr(&t));
      text_free(&t);
    }
    explain_vars(s->ctx, s->f, why.have, why.want);
  }
  text_free(&why.words);
  return fails;
}

/* ---- casts ---- */

Node *guard_cast(Sema *s, const Tree *at, Node *v, const SInfo *want) {
  if (refute(s, at, v->sinfo, want)) return graph_bad(s, at);
  if (!node_is_atom(v)) node_bind_last(graph_block(s, at), v, NULL);
  diag_warn(s->ctx->diags, WARN_RUNTIME_CHECK, tree_span(s, at),
            "this is checked when the program runs: %s is not known to be %s",
            sema_type_text(s, v->sinfo), sema_type_text(s, want));
  Node *n = node_create(s->f, OP_MATCH_CAST, &v, 1, tree_span(s, at));
  n->annot = want;
  node_infer(s->m, s->facts, n);
  n->cast = CAST_NAMED;
  return n;
}

Node *guard_operand(Sema *s, const Tree *at, Node *v, const SInfo *want) {
  /* a scalar is not cast: what depends on it is (see guard_call) */
  if (want->kind == SINFO_PRIM || !maybe(s, v->sinfo, want)) return v;
  if (v->op == OP_TUPLE && !v->block && want->kind == SINFO_TUPLE && want->n == v->nin) {
    Node **in = ARENA_ARRAY(s->arena, Node *, v->nin + 1);
    for (uint32_t i = 0; i < v->nin; i++)
      in[i] = guard_operand(s, at, node_in(v, i), want->fields[i]);
    Node *t = node_tuple(s->f, in, v->nin, v->span);
    node_infer(s->m, s->facts, t);
    return t;
  }
  Node *n = guard_cast(s, at, v, want);
  n->cast = CAST_USED;
  node_bind_last(graph_block(s, at), n,
                 v->name ? arena_printf(s->arena, "%s_checked", v->name) : NULL);
  return n;
}

/* ---- calls ---- */

static void set_fresh(Sema *s, Map *bind, Var *v) {
  Var *f = var_create_dim(s->ctx, func_unique_name(s->f, v->name));
  f->span = v->span;
  map_setp(bind, v, (void *)(uintptr_t)f->expr);
}

void guard_call(Sema *s, const Tree *t, Node *n) {
  const SInfo *f = node_in(n, 0)->sinfo;
  if (f->kind != SINFO_CALLABLE || f->opaque || n->nin - 1 != f->n) return;
  bool needed = false;
  Map bind;
  map_init(&bind, s->arena);
  VarVec vars = {0};
  for (uint32_t i = 0; i < f->n; i++) sinfo_vars(s->arena, f->fields[i], &vars);
  for (uint32_t i = 0; i < vars.n; i++) map_setp(&bind, vars.at[i], NULL);
  for (int scalars = 1; scalars >= 0; scalars--) /* they decide over tensors */
    for (uint32_t i = 0; i < f->n; i++)
      if ((f->fields[i]->kind == SINFO_PRIM) == scalars)
        sinfo_unify(s->ctx, &bind, f->fields[i], node_in(n, i + 1)->sinfo);
  Map known;
  map_init(&known, s->arena);
  for (uint32_t i = 0; i < bind.n; i++)
    if (bind.entries[i].value) map_set(&known, bind.entries[i].key, bind.entries[i].value);
  for (uint32_t i = 0; i < f->n; i++)
    needed |= maybe(s, node_in(n, i + 1)->sinfo, sinfo_subst(s->ctx, &known, f->fields[i]));
  if (!needed) return;
  for (uint32_t i = 0; i < vars.n; i++)
    if (!map_getp(&known, vars.at[i])) set_fresh(s, &known, vars.at[i]);
  for (uint32_t i = 0; i < f->n; i++) {
    const SInfo *want = sinfo_subst(s->ctx, &known, f->fields[i]);
    Node *v = guard_operand(s, t->at[i], node_in(n, i + 1), want);
    if (v != node_in(n, i + 1)) node_set_in(n, i + 1, v);
  }
  node_infer(s->m, s->facts, n);
}

/* ---- call_tir ---- */

static bool is_bound(const Expr *e, void *ctx) {
  return e->kind != EXPR_VAR || map_getp(ctx, e->var);
}

static void bind_dims(Map *bind, const Buffer *b, const SInfo *si) {
  if (si->kind != SINFO_TENSOR || !si->dims || si->ndim != (int32_t)b->ndim) return;
  for (uint32_t i = 0; i < b->ndim; i++) {
    const Expr *e = b->shape[i];
    if (e->kind == EXPR_VAR && !map_getp(bind, e->var))
      map_setp(bind, e->var, (void *)(uintptr_t)si->dims[i]);
  }
}

/* What buffer b demands of a tensor in terms of the caller; dims that nothing binds are taken from
 * `si`, or get a fresh variable where that has none. */
static const SInfo *demand(Sema *s, Map *bind, const Buffer *b, const SInfo *si) {
  const Expr **dims = ARENA_ARRAY(s->arena, const Expr *, b->ndim + 1);
  Subst subst = {.c = s->ctx, .vars = bind};
  for (uint32_t i = 0; i < b->ndim; i++) {
    const Expr *e = b->shape[i];
    if (!si->dims && e->kind == EXPR_VAR && !map_getp(bind, e->var)) set_fresh(s, bind, e->var);
    if (expr_walk(e, is_bound, bind)) {
      const Expr *x = e->kind == EXPR_VAR ? map_getp(bind, e->var) : expr_subst(&subst, e);
      dims[i] = x->kind == EXPR_INT          ? expr_i64(s->ctx, x->i)
                : dtype_eq(x->dtype, DT_I64) ? x
                                             : dim_expr(s->ctx, expr_dim(s->ctx, x), DT_I64);
    } else if (si->dims) {
      dims[i] = si->dims[i];
    } else {
      return si;
    }
  }
  return sinfo_tensor(s->ctx, dims, b->ndim, b->dtype);
}

static bool fits(const Buffer *b, const SInfo *si) {
  return si->kind == SINFO_TENSOR && (si->ndim < 0 || si->ndim == (int32_t)b->ndim) && !si->vdevice;
}

/* Where argument i of R.call_tir(f, (a, b), ...) is written. */
static const Tree *tir_argument(const Tree *t, uint32_t i) {
  const Tree *args = t->n > 1 ? t->at[1] : t;
  bool list = args->kind == TREE_TUPLE || args->kind == TREE_LIST;
  return list && i < args->n ? args->at[i] : args;
}

Node *guard_call_tir(Sema *s, const Tree *t, Node *n, const PrimFunc *f, SInfoList *out,
                     const IntList *inplace) {
  Map bind;
  map_init(&bind, s->arena);
  uint32_t nargs = n->nin - 1, p = 0;
  for (uint32_t i = 0; i < nargs; i++) {
    const SInfo *si = node_in(n, i + 1)->sinfo;
    if (si->kind == SINFO_SHAPE || p >= f->nparams) return n; /* dims passed as scalars */
    if (!f->param_bufs[p] && si->kind == SINFO_PRIM && si->value &&
        dtype_eq(si->value->dtype, f->params[p]->dtype))
      map_setp(&bind, f->params[p], (void *)(uintptr_t)si->value);
    p++;
  }
  for (uint32_t i = 0; i < nargs; i++)
    if (f->param_bufs[i]) bind_dims(&bind, f->param_bufs[i], node_in(n, i + 1)->sinfo);
  for (uint32_t i = 0; i < nargs; i++) {
    const Buffer *b = f->param_bufs[i];
    Node *v = node_in(n, i + 1);
    if (!b || !fits(b, v->sinfo)) continue;
    const SInfo *want = demand(s, &bind, b, v->sinfo);
    Node *g = guard_operand(s, tir_argument(t, i), v, want);
    if (g == v) continue;
    node_set_in(n, i + 1, g);
    bind_dims(&bind, b, g->sinfo);
  }
  /* results: the function writes what its own dims say */
  uint32_t q = nargs;
  for (int32_t i = 0; i < out->n; i++) {
    if (inplace && i < inplace->n && inplace->at[i] >= 0) continue;
    if (q < f->nparams && f->param_bufs[q]) bind_dims(&bind, f->param_bufs[q], out->at[i]);
    q++;
  }
  const SInfo **made = ARENA_ARRAY(s->m->arena, const SInfo *, (size_t)out->n + 1);
  bool changed = false;
  q = nargs;
  for (int32_t i = 0; i < out->n; i++) {
    made[i] = out->at[i];
    const Buffer *b = NULL;
    if (inplace && i < inplace->n && inplace->at[i] >= 0) {
      made[i] = node_in(n, (uint32_t)inplace->at[i] + 1)->sinfo;
      if (!maybe(s, made[i], out->at[i])) made[i] = out->at[i];
    } else {
      b = q < f->nparams ? f->param_bufs[q] : NULL;
      q++;
    }
    if (b && fits(b, made[i])) {
      const SInfo *want = demand(s, &bind, b, made[i]);
      if (maybe(s, want, made[i])) made[i] = want;
    }
    changed |= made[i] != out->at[i];
  }
  if (!changed) return n;
  const SInfo *stated = n->sinfo;
  out->at = made;
  node_infer(s->m, s->facts, n);
  Node *cast = guard_cast(s, t, n, stated);
  cast->cast = CAST_OUT;
  return cast;
}
