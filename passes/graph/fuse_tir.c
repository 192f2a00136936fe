/* FuseTIR: each Primitive function of call_tirs becomes one prim_func, its calls call_tirs of that.
 *
 *   before: y = cls.fused_add_relu(x, b)   (a Primitive function holding two call_tirs)
 *   after:  y = R.call_tir(cls.fused_add_relu, (x, b), out_ty=...)
 *
 * The blocks of the members follow each other under one root; intermediate results become root
 * allocations, symbolic variables and buffers are unified from the call's arguments; what members
 * assert of dims is asserted before any of them runs. Equal results are made once. What the
 * scheduler makes of it (inlining, epilogues) is its own decision.
 */
#include "passes/graph/graph.h"
#include "passes/graph/pattern.h"
#include <string.h>

typedef struct {
  PassCtx *pc;
  Arena *a; /* scratch */
  Func *from;
  PrimFunc *to;
  Map vars;    /* Var* of the Primitive function -> const Expr* of the prim_func */
  Map buffers; /* tensor Node -> Buffer */
  Map scalars; /* prim Node -> const Expr* */
  StrMap names;
  VEC(Var *) params;
  VEC(Buffer *) param_bufs;
  VEC(Buffer *) allocs;
  VEC(Stmt *) checks; /* of dims: they go first */
  VEC(Stmt *) body;
} Merge;

static const char *unique(Merge *x, StrMap *names, const char *hint) {
  const char *s = hint;
  for (int i = 1; strmap_has(names, s); i++) s = arena_printf(x->pc->c->arena, "%s_%d", hint, i);
  strmap_set(names, s, x);
  return s;
}

static const Expr *in_prim(Merge *x, const Expr *e) {
  VarVec used = {0};
  Subst s = {.c = x->pc->c, .vars = &x->vars};
  expr_vars(x->a, e, &used);
  for (uint32_t i = 0; i < used.n; i++)
    if (!map_hasp(&x->vars, used.at[i])) {
      Var *v = var_create(x->pc->c, used.at[i]->name, used.at[i]->dtype);
      v->is_dim = used.at[i]->is_dim;
      map_setp(&x->vars, used.at[i], (void *)(uintptr_t)v->expr);
    }
  return expr_subst(&s, e);
}

static Buffer *make_buffer(Merge *x, const Node *n, const SInfo *s) {
  const Expr **shape = ARENA_ARRAY(x->a, const Expr *, s->ndim);
  for (int32_t i = 0; i < s->ndim; i++) shape[i] = in_prim(x, s->dims[i]);
  const char *name = unique(x, &x->names, n->name ? n->name : "param");
  Buffer *b = buffer_create(x->pc->c, name, s->dtype, shape, (uint32_t)s->ndim, "global");
  b->span = n->span;
  return b;
}

static void add_buffer_param(Merge *x, Buffer *b) {
  Context *c = x->pc->c;
  vec_push(x->a, &x->params, var_create(c, arena_printf(x->a, "p_%s", b->name), DT_HANDLE));
  vec_push(x->a, &x->param_bufs, b);
}

/* Scalars first bind their variables, so that shapes refer to them. */
static void make_params(Merge *x) {
  Context *c = x->pc->c;
  for (uint32_t i = 0; i < x->from->nparams; i++) {
    Node *p = x->from->params[i];
    if (p->sinfo->kind != SINFO_PRIM) continue;
    Var *v = var_create(c, unique(x, &x->names, p->name), p->sinfo->dtype);
    const Expr *value = p->sinfo->value;
    if (value && value->kind == EXPR_VAR) {
      v->is_dim = value->var->is_dim;
      map_setp(&x->vars, value->var, (void *)(uintptr_t)v->expr);
    }
    map_setp(&x->scalars, p, (void *)(uintptr_t)v->expr);
  }
  for (uint32_t i = 0; i < x->from->nparams; i++) {
    Node *p = x->from->params[i];
    const Expr *scalar = map_getp(&x->scalars, p);
    if (scalar) {
      vec_push(x->a, &x->params, scalar->var);
      vec_push(x->a, &x->param_bufs, NULL);
    } else {
      Buffer *b = make_buffer(x, p, p->sinfo);
      map_setp(&x->buffers, p, b);
      add_buffer_param(x, b);
    }
  }
}

static const Expr *scalar_arg(Merge *x, const Node *d) {
  const Expr *e = map_getp(&x->scalars, d);
  return e ? e : in_prim(x, d->expr);
}

/* The root block's body of member `f` with its parameters replaced by the call's. */
static void add_call(Merge *x, Node *call, PrimFunc *f, Buffer *out) {
  Context *c = x->pc->c;
  Map vars, bufs;
  map_init(&vars, x->a);
  map_init(&bufs, x->a);
  for (uint32_t i = 0; i < f->nparams; i++) {
    if (f->param_bufs[i]) continue;
    map_setp(&vars, f->params[i], (void *)(uintptr_t)scalar_arg(x, node_in(call, i + 1)));
  }
  for (uint32_t i = 0; i < f->nparams; i++) {
    Buffer *b = f->param_bufs[i];
    if (!b) continue;
    Buffer *to = i + 1 < call->nin ? map_getp(&x->buffers, node_in(call, i + 1)) : out;
    if (!to || to->ndim != b->ndim) bug("FuseTIR: parameter %u of '%s' has no buffer", i, f->name);
    map_setp(&bufs, b, to);
    for (uint32_t d = 0; d < b->ndim; d++)
      if (b->shape[d]->kind == EXPR_VAR && !map_hasp(&vars, b->shape[d]->var))
        map_setp(&vars, b->shape[d]->var, (void *)(uintptr_t)to->shape[d]);
  }
  const SBlock *root = primfunc_root(f);
  Subst s = {.c = c, .vars = &vars};
  for (uint32_t i = 0; i < root->nallocs; i++) {
    Buffer *b = root->allocs[i];
    const Expr **shape = ARENA_ARRAY(x->a, const Expr *, b->ndim);
    for (uint32_t d = 0; d < b->ndim; d++) shape[d] = expr_subst(&s, b->shape[d]);
    const char *name = unique(x, &x->names, b->name);
    Buffer *to = buffer_create(c, name, b->dtype, shape, b->ndim, b->scope);
    to->align = b->align;
    to->span = b->span;
    map_setp(&bufs, b, to);
    vec_push(x->a, &x->allocs, to);
  }
  Stmt *body = stmt_subst(c, x->pc->m->arena, root->body, &vars, &bufs, true);
  bool several = body->kind == STMT_SEQ;
  for (uint32_t i = 0, n = several ? body->seq.n : 1; i < n; i++) {
    Stmt *s = several ? body->seq.at[i] : body;
    if (is_dim_check(s))
      vec_push(x->a, &x->checks, s);
    else
      vec_push(x->a, &x->body, s);
  }
}

/* Blocks get names of their own. */
static Stmt *rename_block(Context *c, Arena *a, Stmt *s, void *ctx) {
  Merge *x = ctx;
  (void)c;
  if (s->kind != STMT_BLOCK) return s;
  SBlock *b = arena_dup(a, s->block, sizeof *b);
  b->name = unique(x, &x->names, b->name);
  return stmt_block(a, s->span, b);
}

static void finish(Merge *x) {
  Arena *a = x->pc->m->arena;
  PrimFunc *f = x->to;
  f->nparams = x->params.n;
  f->params = arena_dup(a, x->params.at, x->params.n * sizeof *x->params.at);
  f->param_bufs = arena_dup(a, x->param_bufs.at, x->param_bufs.n * sizeof *x->param_bufs.at);
  f->is_private = f->s_tir = true;
  f->attrs = attr_with(a, NULL, "tirx.noalias", attr_bool(a, true));
  SBlock *root = ARENA_NEW(a, SBlock);
  root->name = "root";
  root->nallocs = x->allocs.n;
  root->allocs = arena_dup(a, x->allocs.at, x->allocs.n * sizeof *x->allocs.at);
  root->has_reads = root->has_writes = true;
  strmap_init(&x->names, x->a); /* blocks are no buffers: names of another kind */
  for (uint32_t i = 0; i < x->body.n; i++) vec_push(x->a, &x->checks, x->body.at[i]);
  Stmt *body = stmt_seq(a, x->checks.at, x->checks.n);
  root->body = stmt_rewrite(x->pc->c, a, body, NULL, rename_block, x);
  f->body = stmt_block(a, f->span, root);
  primfunc_collect_dims(x->pc->c, a, f);
  TirPattern p = tir_pattern(x->pc->c, x->a, f);
  f->attrs = attr_with(a, f->attrs, "op_pattern", attr_int(a, p.kind));
}

/* The position of n among the results of the function, or -1. */
static int result_index(const Func *f, const Node *n) {
  const Node *r = func_result(f);
  if (r == n) return 0;
  for (uint32_t i = 0; r->op == OP_TUPLE && i < r->nin; i++)
    if (node_in(r, i) == n) return (int)i;
  return -1;
}

static PrimFunc *merge_function(PassCtx *pc, Func *f) {
  Merge x = {.pc = pc, .a = pc->scratch, .from = f};
  x.to = primfunc_create(pc->m, f->name, f->span);
  map_init(&x.vars, x.a);
  map_init(&x.buffers, x.a);
  map_init(&x.scalars, x.a);
  strmap_init(&x.names, x.a);
  make_params(&x);
  const Node *r = func_result(f);
  uint32_t nout = r->op == OP_TUPLE ? r->nin : 1;
  Buffer **outs = ARENA_ARRAY(x.a, Buffer *, nout);
  for (BindingBlock *b = f->body.first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) {
      if (n == r && n->op == OP_TUPLE) continue;
      PrimFunc *p = node_callee_prim(n);
      bool fine = p && primfunc_root(p) && n->sinfo->kind == SINFO_TENSOR && n->sinfo->dims &&
                  p->nparams == n->nin;
      if (!fine) {
        diag_error(pc->c->diags, n->span,
                   "Primitive function '%s' can't be fused: it may hold call_tirs of prim_funcs "
                   "with blocks and one result only",
                   f->name);
        return NULL;
      }
      Buffer *out = make_buffer(&x, n, n->sinfo);
      int at = result_index(f, n);
      if (at >= 0)
        outs[at] = out;
      else
        vec_push(x.a, &x.allocs, out);
      map_setp(&x.buffers, n, out);
      add_call(&x, n, p, out);
    }
  for (uint32_t i = 0; i < nout; i++) {
    if (!outs[i]) {
      diag_error(pc->c->diags, f->span,
                 "Primitive function '%s' can't be fused: a result is no call_tir", f->name);
      return NULL;
    }
    add_buffer_param(&x, outs[i]);
  }
  finish(&x);
  return x.to;
}

typedef struct {
  const char *name; /* of the prim_func that stands for it */
} Fused;

static void replace_calls(PassCtx *pc, Func *f, const StrMap *fused) {
  SeqVec seqs = {0};
  func_seqs(pc->scratch, f, &seqs);
  for (uint32_t k = 0; k < seqs.n; k++)
    for (BindingBlock *b = seqs.at[k]->first; b; b = b->next)
      for (Node *n = b->first, *next; n; n = next) {
        next = n->next;
        if (n->op != OP_CALL || node_in(n, 0)->op != OP_GLOBAL) continue;
        const Fused *to = strmap_get(fused, node_in(n, 0)->str);
        if (!to) continue;
        Node **args = ARENA_ARRAY(pc->scratch, Node *, n->nin);
        for (uint32_t i = 1; i < n->nin; i++) args[i - 1] = node_in(n, i);
        graph_take_place(n, graph_call_tir(f, to->name, args, n->nin - 1, n->sinfo, n->span));
      }
}

bool pass_fuse_tir(PassCtx *pc) {
  StrMap fused;
  PrimIndex made;
  bool ok = true;
  strmap_init(&fused, pc->scratch);
  prim_index_init(&made, pc->scratch);
  module_each(pc->m, p) if (p->kind == GLOBAL_PRIM && p->prim->is_private)
      prim_index_add(&made, p->prim);
  uint32_t n = pc->m->globals.n;
  for (uint32_t i = 0; i < n; i++) {
    Global *g = pc->m->globals.at[i];
    if (g->removed || g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    if (!attr_get_bool(g->func->attrs, "Primitive", false)) continue;
    PrimFunc *f = merge_function(pc, g->func);
    if (!f) {
      ok = false;
      continue;
    }
    Fused *to = ARENA_NEW(pc->scratch, Fused);
    PrimFunc *same = prim_index_find(&made, f);
    g->removed = true;
    if (same) {
      to->name = same->name;
    } else {
      module_add_prim(pc->m, f);
      prim_index_add(&made, f);
      to->name = f->name;
    }
    strmap_set(&fused, g->name, to);
  }
  if (!ok) return false;
  module_each(pc->m, g) if (g->kind == GLOBAL_FUNC) replace_calls(pc, g->func, &fused);
  return true;
}
