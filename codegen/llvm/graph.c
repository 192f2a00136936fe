/* Relax functions as host code: memory, tuples, branches, results.
 *
 * A function's scratch is one block; where each of its tensors lies in it is a sum of aligned sizes
 * (Dims of the function's symbolic dims), so the caller can be told its size beforehand. A tensor
 * that is the result is computed in the caller's buffer at once: `dests` is found by walking back
 * from the result. What can't be (an argument, a constant, a value returned twice) is copied.
 */
#include "codegen/llvm/graph.h"

/* ---- types of the interface ---- */

uint32_t sinfo_leaves(const SInfo *si) {
  if (si->kind != SINFO_TUPLE) return 1;
  uint32_t n = 0;
  for (uint32_t i = 0; i < si->n; i++) n += sinfo_leaves(si->fields[i]);
  return n;
}

static bool is_dim_of(const Func *f, const Var *v) {
  for (uint32_t i = 0; i < f->ndims; i++)
    if (f->dims[i] == v) return true;
  return false;
}

/* Do all dims of si consist of f's symbolic dims? */
static bool dims_known(Cg *cg, const Func *f, const SInfo *si) {
  VarVec vars = {0};
  if (si->kind == SINFO_TENSOR && !si->dims) return false;
  sinfo_vars(cg->arena, si, &vars);
  for (uint32_t i = 0; i < vars.n; i++)
    if (!is_dim_of(f, vars.at[i])) return false;
  return true;
}

static bool flatten_type(Cg *cg, const Func *f, const SInfo *si, uint32_t param, bool out,
                         HostLeaf *leaves, uint32_t *n) {
  if (si->kind == SINFO_TUPLE) {
    bool ok = true;
    for (uint32_t i = 0; i < si->n; i++)
      ok = flatten_type(cg, f, si->fields[i], param, out, leaves, n) && ok;
    return ok;
  }
  HostLeaf *l = &leaves[(*n)++];
  *l = (HostLeaf){.si = si, .param = param};
  bool ok = true;
  if (si->kind == SINFO_TENSOR) {
    l->dynamic = !si->dims || (out && !dims_known(cg, f, si));
    ok = si->ndim >= 0 && dtype_known(si->dtype);
  } else {
    ok = (si->kind == SINFO_PRIM && dtype_known(si->dtype)) ||
         (si->kind == SINFO_SHAPE && si->ndim >= 0);
  }
  if (!ok) {
    Text t = {0};
    sinfo_print(&t, si);
    cg_error(cg, f->span, "a value of type %s in the interface of '%s' can't be compiled",
             text_cstr(&t), f->name);
    text_free(&t);
  }
  return ok;
}

Host *host_get(Cg *cg, const Func *f) {
  Host *h = map_getp(&cg->hosts, f);
  if (h) return h;
  h = ARENA_NEW(cg->arena, Host);
  h->f = f;
  uint32_t na = 0, max = 0;
  for (uint32_t i = 0; i < f->nparams; i++) na += sinfo_leaves(f->params[i]->sinfo);
  h->args = ARENA_ARRAY(cg->arena, HostLeaf, na);
  h->outs = ARENA_ARRAY(cg->arena, HostLeaf, sinfo_leaves(f->ret));
  bool ok = true;
  for (uint32_t i = 0; i < f->nparams; i++)
    ok = flatten_type(cg, f, f->params[i]->sinfo, i, false, h->args, &h->nargs) && ok;
  ok = flatten_type(cg, f, f->ret, 0, true, h->outs, &h->nouts) && ok;
  map_setp(&cg->hosts, f, h);
  if (!ok) return h;
  for (uint32_t i = 0; i < h->nargs; i++)
    max += 1 + (h->args[i].dynamic ? (uint32_t)h->args[i].si->ndim : 0);
  LLVMTypeRef *types = ARENA_ARRAY(cg->arena, LLVMTypeRef, max + h->nouts + f->ndims + 2);
  uint32_t n = 0;
  for (uint32_t i = 0; i < h->nargs; i++) {
    const SInfo *si = h->args[i].si;
    types[n++] = si->kind == SINFO_PRIM ? cg_reg_type(cg, si->dtype) : cg->ptr;
    for (int32_t k = 0; h->args[i].dynamic && k < si->ndim; k++) types[n++] = cg->i64;
  }
  for (uint32_t i = 0; i < h->nouts; i++) types[n++] = cg->ptr;
  LLVMTypeRef *dims = types + n;
  for (uint32_t i = 0; i < f->ndims; i++) types[n++] = cg->i64;
  types[n++] = cg->ptr;
  h->endless = strmap_has(&cg->endless, f->name);
  if (h->endless) types[n++] = cg->i64;
  h->type = cg_fn_type(cg->i32, types, n, false);
  h->ws_type = cg_fn_type(cg->i64, dims, f->ndims, false);
  h->fn = LLVMAddFunction(cg->mod, arena_printf(cg->arena, "%s.graph", f->name), h->type);
  h->ws = LLVMAddFunction(cg->mod, arena_printf(cg->arena, "%s.bytes", f->name), h->ws_type);
  LLVMSetLinkage(h->fn, LLVMInternalLinkage);
  LLVMSetLinkage(h->ws, LLVMInternalLinkage);
  cg_fn_attrs(cg, h->fn, &cg->target->variants[0]);
  cg_fn_attrs(cg, h->ws, &cg->target->variants[0]);
  return h;
}

/* ---- recursion ---- */

/* What calls that may go on without end can take of the stack: half of what systems usually give.
 */
enum { ENDLESS_BYTES = 4 << 20 };

static LLVMValueRef stack_address(Fn *fn) {
  Cg *cg = fn->cg;
  LLVMValueRef level = cg_i32(cg, 0);
  LLVMValueRef p = cg_intrinsic(cg, fn->b, "llvm.frameaddress", &cg->ptr, 1, &level, 1);
  return LLVMBuildPtrToInt(fn->b, p, cg->i64, "");
}

LLVMValueRef host_call(Fn *fn, const Host *h, LLVMValueRef *args, uint32_t n, LLVMValueRef stack) {
  if (h->endless) args[n++] = stack ? stack : stack_address(fn);
  return LLVMBuildCall2(fn->b, h->type, h->fn, args, n, "");
}

/* A stack that grows downwards, as on all of our targets. */
static void check_depth(Graph *g) {
  Fn *fn = g->fn;
  Cg *cg = g->cg;
  LLVMValueRef used = LLVMBuildSub(fn->b, g->stack, stack_address(fn), "");
  LLVMValueRef deep = LLVMBuildICmp(fn->b, LLVMIntSGT, used, cg_i64(cg, ENDLESS_BYTES), "");
  LLVMValueRef name = cg_string(cg, g->host->f->name);
  fn_fail_if(fn, deep, ST_MEMORY, "%s: calls are nested too deeply", &name, 1);
}

/* ---- small helpers ---- */

void host_fn_begin(Fn *fn, Cg *cg, LLVMValueRef llfn) {
  *fn = (Fn){
      .cg = cg, .c = cg->c, .arena = arena_create(), .v = &cg->target->variants[0], .fn = llfn};
  fn->b = LLVMCreateBuilderInContext(cg->lc);
  map_init(&fn->vars, fn->arena);
  map_init(&fn->promoted, fn->arena);
  fn->entry = fn_block(fn, "entry");
  LLVMBasicBlockRef start = fn_block(fn, "");
  LLVMPositionBuilderAtEnd(fn->b, fn->entry);
  fn->entry_end = LLVMBuildBr(fn->b, start);
  LLVMPositionBuilderAtEnd(fn->b, start);
  fn_scope_push(fn, NULL);
}

void host_fn_end(Fn *fn) {
  LLVMDisposeBuilder(fn->b);
  arena_free(fn->arena);
}

void cg_memcpy(Cg *cg, LLVMBuilderRef b, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes) {
  LLVMTypeRef types[3] = {cg->ptr, cg->ptr, cg->i64};
  LLVMTypeRef t = cg_fn_type(cg->ptr, types, 3, false);
  LLVMValueRef args[3] = {to, from, bytes};
  LLVMBuildCall2(b, t, cg_extern(cg, "memcpy", t), args, 3, "");
}

void fn_check_memory(Fn *fn, LLVMValueRef p) {
  Cg *cg = fn->cg;
  LLVMValueRef null = LLVMBuildICmp(fn->b, LLVMIntEQ, p, LLVMConstNull(cg->ptr), "");
  LLVMBasicBlockRef bad = fn_block(fn, "nomem"), good = fn_block(fn, "");
  LLVMBuildCondBr(fn->b, null, bad, good);
  LLVMPositionBuilderAtEnd(fn->b, bad);
  if (!cg_has_runtime(cg)) cg_message(cg, fn->b, "out of memory", NULL, 0);
  fn_return(fn, cg_i32(cg, ST_MEMORY));
  LLVMPositionBuilderAtEnd(fn->b, good);
}

/* ---- values ---- */

static GVal *gval(Graph *g, const SInfo *si) {
  GVal *v = ARENA_NEW(g->arena, GVal);
  v->si = si;
  return v;
}

void gval_flatten(Graph *g, GVal *v, GVals *out) {
  if (v->si->kind != SINFO_TUPLE) {
    vec_push(g->arena, out, v);
    return;
  }
  for (uint32_t i = 0; i < v->n; i++) gval_flatten(g, v->fields[i], out);
}

LLVMValueRef gval_dim(Graph *g, GVal *v, uint32_t i) {
  if (v->dims) return v->dims[i];
  if (v->si->dims) return fn_index(g->fn, v->si->dims[i]);
  if (!g->cg->failed) cg_error(g->cg, g->fn->span, "the shape of a value is not known here");
  return cg_i64(g->cg, 0);
}

static GVal *tuple_of_leaves(Graph *g, const SInfo *si, GVal *const *leaves, uint32_t *next) {
  if (si->kind != SINFO_TUPLE) return leaves[(*next)++];
  GVal *v = gval(g, si);
  v->n = si->n;
  v->fields = ARENA_ARRAY(g->arena, GVal *, si->n);
  for (uint32_t i = 0; i < si->n; i++)
    v->fields[i] = tuple_of_leaves(g, si->fields[i], leaves, next);
  return v;
}

/* ---- where results go ---- */

static bool allocates(const Node *n) {
  return n->op == OP_builtin_alloc_tensor || graph_calls(n);
}

static const SInfo *leaf_type(const SInfo *si, uint32_t leaf) {
  while (si->kind == SINFO_TUPLE) {
    uint32_t i = 0;
    for (; i + 1 < si->n && leaf >= sinfo_leaves(si->fields[i]); i++)
      leaf -= sinfo_leaves(si->fields[i]);
    si = si->fields[i];
  }
  return si;
}

static void set_dest(Graph *g, Node *n, uint32_t leaf, int32_t out, const Node *branch_of) {
  switch (n->op) {
  case OP_ALIAS:
  case OP_MATCH_CAST:
  case OP_YIELD: set_dest(g, node_in(n, 0), leaf, out, branch_of); return;
  case OP_TUPLE:
    for (uint32_t i = 0; i < n->nin; i++) {
      uint32_t k = sinfo_leaves(node_in(n, i)->sinfo);
      if (leaf < k) {
        set_dest(g, node_in(n, i), leaf, out, branch_of);
        return;
      }
      leaf -= k;
    }
    return;
  case OP_TUPLE_GET: {
    Node *t = node_in(n, 0);
    if (t->sinfo->kind != SINFO_TUPLE) return;
    for (int64_t i = 0; i < n->index; i++) leaf += sinfo_leaves(t->sinfo->fields[i]);
    set_dest(g, t, leaf, out, branch_of);
    return;
  }
  default: break;
  }
  if (!allocates(n) && n->op != OP_IF) return;
  if (!n->block || n->block->owner != branch_of) return;
  const SInfo *si = leaf_type(n->sinfo, leaf);
  if (si->kind != SINFO_TENSOR || !si->dims) return;
  int32_t *d = map_getp(&g->dests, n);
  if (!d) {
    uint32_t k = sinfo_leaves(n->sinfo);
    d = ARENA_ARRAY(g->arena, int32_t, k);
    for (uint32_t i = 0; i < k; i++) d[i] = -1;
    map_setp(&g->dests, n, d);
  }
  if (d[leaf] >= 0) return;
  d[leaf] = out;
  if (n->op == OP_IF) {
    set_dest(g, seq_result(&n->if_.then_), leaf, out, n);
    set_dest(g, seq_result(&n->if_.else_), leaf, out, n);
  }
}

/* ---- memory ---- */

bool graph_known_early(Graph *g, const Dim *d) {
  VarVec vars = {0};
  expr_vars(g->arena, dim_expr(g->cg->c, d, DT_I64), &vars);
  for (uint32_t i = 0; i < vars.n; i++)
    if (!is_dim_of(g->host->f, vars.at[i])) return false;
  return true;
}

/* Takes `bytes` of the function's workspace; NULL when its size isn't known beforehand. */
static const Dim *reserve(Graph *g, const Dim *bytes) {
  Context *c = g->cg->c;
  if (!graph_known_early(g, bytes)) return NULL;
  /* in a branch that isn't taken, a dim may be negative */
  if (!dim_surely_natural(c, bytes)) bytes = dim_max(c, bytes, dim_const(c, 0));
  const Dim *at = g->total, *unit = dim_const(c, 64);
  const Dim *up = dim_floordiv(c, dim_add(c, bytes, dim_const(c, 63)), unit);
  g->total = dim_add(c, g->total, dim_mul(c, up, unit));
  return at;
}

void graph_keep(Graph *g, LLVMValueRef p) {
  if (g->branches)
    fn_keep_maybe(g->fn, p);
  else
    vec_push(g->fn->arena, &g->fn->heap, p);
}

static LLVMValueRef workspace_at(Graph *g, const Dim *at, const Dim *bytes) {
  Fn *fn = g->fn;
  if (at) {
    LLVMValueRef off = dim_value(fn, at);
    return LLVMBuildInBoundsGEP2(fn->b, g->cg->i8, g->ws, &off, 1, "");
  }
  LLVMValueRef p = cg_scratch_push(g->cg, fn->b, dim_value(fn, bytes));
  fn_check_memory(fn, p);
  graph_keep(g, p);
  return p;
}

GVal *graph_alloc(Graph *g, Node *n, uint32_t leaf, const SInfo *si) {
  GVal *v = gval(g, si);
  int32_t *d = map_getp(&g->dests, n);
  if (si->kind != SINFO_TENSOR || !si->dims || !dtype_known(si->dtype)) {
    Text t = {0};
    sinfo_print(&t, si);
    cg_error(g->cg, n->span, "a result of type %s can't be allocated before the call",
             text_cstr(&t));
    text_free(&t);
    v->ptr = LLVMGetUndef(g->cg->ptr);
    return v;
  }
  if (d && d[leaf] >= 0 && !g->host->outs[d[leaf]].dynamic) {
    v->ptr = g->outs[d[leaf]];
    return v;
  }
  const Dim *bytes = sinfo_bytes(g->cg->c, si);
  v->ptr = workspace_at(g, reserve(g, bytes), bytes);
  return v;
}

static int64_t const_prim(Graph *g, Node *n, bool *ok) {
  int64_t k = 0;
  *ok = n->op == OP_PRIM_VALUE && expr_const_int(g->cg->c, n->expr, &k);
  return k;
}

/* The elements of a vector as dims: read here, so that the tensor need not live on. */
static GVal *shape_value(Graph *g, Node *n, GVal *v) {
  Fn *fn = g->fn;
  Cg *cg = g->cg;
  GVal *x = graph_value(g, node_in(n, 0));
  if (v->si->ndim < 0 || !dtype_is_int(x->si->dtype)) {
    cg_error(cg, n->span, "R.tensor_to_shape needs a vector of integers of known length");
    return v;
  }
  LLVMTypeRef t = cg_mem_type(cg, x->si->dtype);
  v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, v->si->ndim ? v->si->ndim : 1);
  for (int32_t i = 0; i < v->si->ndim; i++) {
    LLVMValueRef at = cg_i64(cg, i);
    LLVMValueRef e =
        LLVMBuildLoad2(fn->b, t, LLVMBuildInBoundsGEP2(fn->b, t, x->ptr, &at, 1, ""), "");
    LLVMSetAlignment(e, (unsigned)dtype_bytes(x->si->dtype));
    v->dims[i] = cg_convert(cg, fn->b, fn->v, x->si->dtype, DT_I64, e);
    LLVMValueRef args[3] = {cg_string(cg, g->host->f->name), cg_i32(cg, i), v->dims[i]};
    LLVMValueRef bad = LLVMBuildICmp(fn->b, LLVMIntSLT, v->dims[i], cg_i64(cg, 0), "");
    fn_fail_if(fn, bad, ST_MATCH, "%s: R.tensor_to_shape: dim %d is %lld", args, 3);
  }
  return v;
}

void gval_copy(Graph *g, GVal *v, LLVMValueRef to) {
  Fn *fn = g->fn;
  LLVMValueRef bytes = cg_i64(g->cg, (int64_t)dtype_bytes(v->si->dtype));
  for (int32_t i = 0; i < v->si->ndim; i++)
    bytes = cg_mul(fn->b, bytes, gval_dim(g, v, (uint32_t)i));
  cg_memcpy(g->cg, fn->b, to, v->ptr, bytes);
}

static GVal *memory_node(Graph *g, Node *n) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  GVal *v = gval(g, n->sinfo);
  switch (n->op) {
  case OP_builtin_alloc_tensor: return graph_alloc(g, n, 0, n->sinfo);
  case OP_memory_alloc_storage: {
    Node *size = node_in(n, 0);
    if (size->op != OP_SHAPE_EXPR || size->shape.n != 1) {
      cg_error(cg, n->span, "size of a storage must be written as R.shape([bytes])");
      return v;
    }
    const Dim *bytes = expr_dim(cg->c, size->shape.at[0]);
    v->ptr = workspace_at(g, reserve(g, bytes), bytes);
    return v;
  }
  case OP_memory_alloc_tensor: {
    GVal *s = graph_value(g, node_in(n, 0));
    bool ok;
    int64_t k = const_prim(g, node_in(n, 1), &ok);
    LLVMValueRef off = ok ? cg_i64(cg, k) : NULL;
    if (!ok && node_in(n, 1)->op == OP_PRIM_VALUE) off = fn_index(fn, node_in(n, 1)->expr);
    if (!s || !s->ptr || !off) {
      cg_error(cg, n->span, "R.memory.alloc_tensor needs a storage and an offset");
      return v;
    }
    v->ptr = ok && !k ? s->ptr : LLVMBuildInBoundsGEP2(fn->b, cg->i8, s->ptr, &off, 1, "");
    return v;
  }
  case OP_memory_view: {
    GVal *x = graph_value(g, node_in(n, 0));
    v->ptr = x->ptr;
    Node *o = n->nin > 3 ? node_in(n, 3) : NULL;
    if (o && o->op == OP_PRIM_VALUE) {
      LLVMValueRef off = fn_index(fn, o->expr);
      v->ptr = LLVMBuildInBoundsGEP2(fn->b, cg->i8, x->ptr, &off, 1, "");
    }
    if (!v->si->dims && n->nin > 1) {
      GVal *s = graph_value(g, node_in(n, 1));
      v->dims = s->dims;
      if (!v->dims && s->si->kind == SINFO_SHAPE && s->si->dims) {
        v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, s->si->ndim);
        for (int32_t i = 0; i < s->si->ndim; i++) v->dims[i] = gval_dim(g, s, (uint32_t)i);
      }
    }
    return v;
  }
  case OP_memory_ensure_zero_offset: return graph_value(g, node_in(n, 0));
  case OP_relaxc_copy: {
    GVal *from = graph_value(g, node_in(n, 0));
    gval_copy(g, from, graph_value(g, node_in(n, 1))->ptr);
    return v;
  }
  case OP_tensor_to_shape: return shape_value(g, n, v);
  default: return v; /* kill_tensor, kill_storage */
  }
}

/* ---- match_cast ---- */

static bool is_bound(Fn *fn, const Var *v) {
  return map_hasp(&fn->vars, v);
}

static void match_dims(Graph *g, Node *n, GVal *v, const SInfo *want) {
  Fn *fn = g->fn;
  Cg *cg = g->cg;
  for (int32_t i = 0; i < want->ndim; i++) {
    const Expr *e = want->dims[i];
    if (e->kind == EXPR_VAR && !is_bound(fn, e->var))
      fn_bind(fn, e->var, (Binding){.idx = gval_dim(g, v, (uint32_t)i), .level = fn->level});
  }
  for (int32_t i = 0; i < want->ndim; i++) {
    LLVMValueRef have = gval_dim(g, v, (uint32_t)i), need = fn_index(fn, want->dims[i]);
    if (have == need) continue;
    LLVMValueRef bad = LLVMBuildICmp(fn->b, LLVMIntNE, have, need, "");
    const char *name = n->name ? n->name : "value";
    LLVMValueRef args[5] = {cg_string(cg, g->host->f->name), cg_string(cg, name), cg_i32(cg, i),
                            need, have};
    fn_fail_if(fn, bad, ST_MATCH, "%s: match_cast of '%s': dim %d: expected %lld but got %lld",
               args, 5);
  }
}

static void match_cast(Graph *g, Node *n, GVal *v, const SInfo *want, GVal *out) {
  Fn *fn = g->fn;
  out->si = want;
  if (want->kind == SINFO_TUPLE) {
    out->n = want->n;
    out->fields = ARENA_ARRAY(g->arena, GVal *, want->n);
    for (uint32_t i = 0; i < want->n && i < v->n; i++) {
      out->fields[i] = gval(g, want->fields[i]);
      match_cast(g, n, v->fields[i], want->fields[i], out->fields[i]);
    }
    return;
  }
  *out = *v;
  out->si = want->kind == v->si->kind ? want : v->si;
  if (want->kind == SINFO_TENSOR && want->ndim >= 0 && want->ndim != v->si->ndim) {
    cg_error(g->cg, n->span, "match_cast: rank %d can't be checked against %d", v->si->ndim,
             want->ndim);
    return;
  }
  if ((want->kind == SINFO_TENSOR || want->kind == SINFO_SHAPE) && want->dims) {
    match_dims(g, n, v, want);
    out->dims = v->dims;
  } else if (want->kind == SINFO_TENSOR && v->si->dims) {
    out->si = v->si;
  } else if (want->kind == SINFO_PRIM && want->value && want->value->kind == EXPR_VAR &&
             !is_bound(fn, want->value->var)) {
    LLVMValueRef x = cg_convert(g->cg, fn->b, fn->v, want->dtype, DT_I64, v->prim);
    fn_bind(fn, want->value->var, (Binding){.idx = x, .level = fn->level});
  }
}

/* ---- branches ---- */

static void emit_seq(Graph *g, const Seq *s);

static LLVMValueRef condition(Graph *g, Node *n) {
  GVal *c = graph_value(g, n);
  Fn *fn = g->fn;
  DType d = c->si->dtype;
  if (c->si->kind == SINFO_PRIM) return cg_convert(g->cg, fn->b, fn->v, d, DT_BOOL, c->prim);
  if (c->si->kind != SINFO_TENSOR || c->si->ndim != 0) {
    cg_error(g->cg, n->span, "condition must be a scalar");
    return LLVMConstNull(g->cg->i1);
  }
  LLVMTypeRef t = cg_mem_type(g->cg, d);
  LLVMValueRef x = LLVMBuildLoad2(fn->b, t, c->ptr, "");
  LLVMSetAlignment(x, (unsigned)dtype_bytes(d));
  return dtype_is_float(d) ? cg_convert(g->cg, fn->b, fn->v, d, DT_BOOL, x)
                           : LLVMBuildICmp(fn->b, LLVMIntNE, x, LLVMConstNull(t), "");
}

static GVal *if_node(Graph *g, Node *n) {
  Fn *fn = g->fn;
  Cg *cg = g->cg;
  LLVMValueRef c = condition(g, node_in(n, 0));
  LLVMBasicBlockRef blocks[2] = {fn_block(fn, "then"), fn_block(fn, "else")}, from[2];
  LLVMBasicBlockRef end = fn_block(fn, "end");
  LLVMValueRef br = LLVMBuildCondBr(fn->b, c, blocks[0], blocks[1]);
  int32_t *dest = map_getp(&g->dests, n);
  GVals leaves[2] = {{0}};
  uint32_t count = sinfo_leaves(n->sinfo);
  LLVMValueRef **dims[2];
  for (int i = 0; i < 2; i++) {
    const Seq *s = i ? &n->if_.else_ : &n->if_.then_;
    LLVMPositionBuilderAtEnd(fn->b, blocks[i]);
    fn_scope_push(fn, br);
    g->branches++;
    emit_seq(g, s);
    GVal *r = graph_value(g, seq_result(s));
    gval_flatten(g, r, &leaves[i]);
    dims[i] = ARENA_ARRAY(g->arena, LLVMValueRef *, count);
    for (uint32_t k = 0; k < count && k < leaves[i].n && !cg->failed; k++) {
      GVal *v = leaves[i].at[k];
      if (dest && dest[k] >= 0 && v->ptr != g->outs[dest[k]]) gval_copy(g, v, g->outs[dest[k]]);
      const SInfo *si = leaf_type(n->sinfo, k);
      if ((si->kind != SINFO_TENSOR || si->dims) && si->kind != SINFO_SHAPE) continue;
      dims[i][k] = ARENA_ARRAY(g->arena, LLVMValueRef, si->ndim > 0 ? si->ndim : 1);
      for (int32_t j = 0; j < si->ndim; j++) dims[i][k][j] = gval_dim(g, v, (uint32_t)j);
    }
    g->branches--;
    fn_scope_pop(fn);
    from[i] = LLVMGetInsertBlock(fn->b);
    LLVMBuildBr(fn->b, end);
  }
  LLVMPositionBuilderAtEnd(fn->b, end);
  if (cg->failed) return gval(g, n->sinfo);
  GVal **merged = ARENA_ARRAY(g->arena, GVal *, count);
  for (uint32_t k = 0; k < count; k++) {
    GVal *a = leaves[0].at[k], *b = leaves[1].at[k], *v = gval(g, leaf_type(n->sinfo, k));
    merged[k] = v;
    if (dest && dest[k] >= 0) {
      v->ptr = g->outs[dest[k]];
      continue;
    }
    LLVMValueRef in[2] = {v->si->kind == SINFO_PRIM ? a->prim : a->ptr,
                          v->si->kind == SINFO_PRIM ? b->prim : b->ptr};
    if (v->si->kind != SINFO_SHAPE && in[0] && in[1]) {
      LLVMValueRef phi = LLVMBuildPhi(fn->b, LLVMTypeOf(in[0]), "");
      LLVMAddIncoming(phi, in, from, 2);
      if (v->si->kind == SINFO_PRIM)
        v->prim = phi;
      else
        v->ptr = phi;
    }
  }
  for (uint32_t k = 0; k < count; k++) {
    GVal *v = merged[k];
    if (!dims[0][k]) continue;
    v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, v->si->ndim > 0 ? v->si->ndim : 1);
    for (int32_t j = 0; j < v->si->ndim; j++) {
      LLVMValueRef in[2] = {dims[0][k][j], dims[1][k][j]};
      v->dims[j] = LLVMBuildPhi(fn->b, cg->i64, "");
      LLVMAddIncoming(v->dims[j], in, from, 2);
    }
  }
  uint32_t next = 0;
  return tuple_of_leaves(g, n->sinfo, merged, &next);
}

/* ---- nodes ---- */

static GVal *emit_node(Graph *g, Node *n) {
  Fn *fn = g->fn;
  Cg *cg = g->cg;
  GVal *v = gval(g, n->sinfo);
  fn->span = n->span;
  if (n->span.file) debug_at(fn, n->span);
  if (graph_calls(n)) return graph_call(g, n);
  if (node_op(n)->traits & OPT_MEMORY) return memory_node(g, n);
  switch (n->op) {
  case OP_CONST: v->ptr = const_address(g, n->data); return v;
  case OP_SHAPE_EXPR:
    v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, n->shape.n ? n->shape.n : 1);
    for (uint32_t i = 0; i < n->shape.n; i++) v->dims[i] = fn_index(fn, n->shape.at[i]);
    return v;
  case OP_PRIM_VALUE:
    fn_memo_push(fn);
    v->prim = fn_expr(fn, n->expr);
    fn_memo_pop(fn);
    return v;
  case OP_STR:
  case OP_DTYPE:
  case OP_GLOBAL:
  case OP_EXTERN: return v;
  case OP_TUPLE:
    v->n = n->nin;
    v->fields = ARENA_ARRAY(g->arena, GVal *, n->nin);
    for (uint32_t i = 0; i < n->nin; i++) v->fields[i] = graph_value(g, node_in(n, i));
    return v;
  case OP_TUPLE_GET: {
    GVal *t = graph_value(g, node_in(n, 0));
    if (n->index >= 0 && n->index < (int64_t)t->n) return t->fields[n->index];
    cg_error(cg, n->span, "field %lld of a value that is no tuple here", (long long)n->index);
    return v;
  }
  case OP_ALIAS:
  case OP_YIELD: return graph_value(g, node_in(n, 0));
  case OP_MATCH_CAST:
    match_cast(g, n, graph_value(g, node_in(n, 0)), n->annot ? n->annot : n->sinfo, v);
    return v;
  case OP_IF: return if_node(g, n);
  case OP_print:
  case OP_assert_op: return graph_message(g, n);
  case OP_FUNC:
    cg_error(cg, n->span, "a local function that isn't lifted can't be compiled");
    return v;
  default:
    cg_error(cg, n->span, "'R.%s' can't be compiled: no tensor-level code was made for it",
             node_op(n)->name);
    return v;
  }
}

GVal *graph_value(Graph *g, Node *n) {
  GVal *v = map_getp(&g->vals, n);
  if (v) return v;
  /* before memory depends on them; those of a match_cast are what it compares */
  if (n->op != OP_MATCH_CAST) graph_check_dims(g, n->sinfo);
  v = emit_node(g, n);
  /* A node in place is evaluated where it stands: its code needn't reach other places. */
  if (n->block || n->op == OP_CONST) map_setp(&g->vals, n, v);
  return v;
}

static void emit_seq(Graph *g, const Seq *s) {
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first; n && !g->cg->failed; n = n->next) (void)graph_value(g, n);
}

/* ---- a whole function ---- */

static void bind_arguments(Graph *g, GVals *leaves) {
  Fn *fn = g->fn;
  Host *h = g->host;
  const Func *f = h->f;
  uint32_t p = 0;
  for (uint32_t i = 0; i < h->nargs; i++) {
    GVal *v = gval(g, h->args[i].si);
    LLVMValueRef x = LLVMGetParam(h->fn, p++);
    if (v->si->kind == SINFO_PRIM)
      v->prim = x;
    else
      v->ptr = x;
    const Expr *value = v->si->kind == SINFO_PRIM ? v->si->value : NULL;
    if (value && value->kind == EXPR_VAR && !is_dim_of(f, value->var)) {
      Binding b = {.val = x, .level = 0}; /* a scalar that is no dim */
      DType d = value->dtype;
      if (dtype_is_sint(d))
        b.idx = d.bits == 64 ? x : LLVMBuildSExt(fn->b, x, g->cg->i64, "");
      else if (dtype_is_uint(d) || dtype_is_bool(d))
        b.idx = d.bits == 64 ? x : LLVMBuildZExt(fn->b, x, g->cg->i64, "");
      fn_bind(fn, value->var, b);
    }
    if (h->args[i].dynamic) {
      v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, v->si->ndim ? v->si->ndim : 1);
      for (int32_t k = 0; k < v->si->ndim; k++) v->dims[k] = LLVMGetParam(h->fn, p++);
    } else if (v->si->kind == SINFO_SHAPE) {
      v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, v->si->ndim ? v->si->ndim : 1);
      for (int32_t k = 0; k < v->si->ndim; k++) {
        LLVMValueRef at = cg_i64(g->cg, k);
        LLVMValueRef q = LLVMBuildInBoundsGEP2(fn->b, g->cg->i64, x, &at, 1, "");
        v->dims[k] = LLVMBuildLoad2(fn->b, g->cg->i64, q, "");
      }
    }
    vec_push(g->arena, leaves, v);
  }
  g->outs = ARENA_ARRAY(g->arena, LLVMValueRef, h->nouts ? h->nouts : 1);
  for (uint32_t i = 0; i < h->nouts; i++) g->outs[i] = LLVMGetParam(h->fn, p++);
  for (uint32_t i = 0; i < f->ndims; i++) {
    LLVMValueRef d = LLVMGetParam(h->fn, p++);
    LLVMSetValueName2(d, f->dims[i]->name, strlen(f->dims[i]->name));
    fn_bind(fn, f->dims[i], (Binding){.idx = d, .level = 0});
  }
  g->ws = LLVMGetParam(h->fn, p++);
  if (h->endless) g->stack = LLVMGetParam(h->fn, p);
  uint32_t next = 0;
  for (uint32_t i = 0; i < f->nparams; i++)
    map_setp(&g->vals, f->params[i], tuple_of_leaves(g, f->params[i]->sinfo, leaves->at, &next));
}

static void store_result(Graph *g, GVal *v, uint32_t i) {
  Fn *fn = g->fn;
  Cg *cg = g->cg;
  HostLeaf *l = &g->host->outs[i];
  LLVMValueRef to = g->outs[i];
  if (l->si->kind == SINFO_PRIM) {
    LLVMValueRef x = v->prim;
    if (!x) return;
    if (dtype_is_bool(l->si->dtype)) x = LLVMBuildZExt(fn->b, x, cg->i8, "");
    LLVMBuildStore(fn->b, x, to);
    return;
  }
  if (l->si->kind == SINFO_SHAPE) {
    for (int32_t k = 0; k < l->si->ndim; k++) {
      LLVMValueRef at = cg_i64(cg, k);
      LLVMValueRef dim = gval_dim(g, v, (uint32_t)k);
      LLVMBuildStore(fn->b, dim, LLVMBuildInBoundsGEP2(fn->b, cg->i64, to, &at, 1, ""));
    }
    return;
  }
  if (!l->dynamic) {
    if (v->ptr != to) gval_copy(g, v, to);
    return;
  }
  LLVMValueRef bytes = cg_i64(cg, (int64_t)dtype_bytes(v->si->dtype));
  for (int32_t k = 0; k < v->si->ndim; k++)
    bytes = cg_mul(fn->b, bytes, gval_dim(g, v, (uint32_t)k));
  LLVMTypeRef t = cg_fn_type(cg->ptr, &cg->i64, 1, false);
  LLVMValueRef p;
  if (cg_has_runtime(cg))
    p = LLVMBuildCall2(fn->b, t, cg_extern(cg, "rx_alloc", t), &bytes, 1, "");
  else
    p = cg_scratch_push(cg, fn->b, bytes);
  fn_check_memory(fn, p);
  cg_memcpy(cg, fn->b, p, v->ptr, bytes);
  LLVMBuildStore(fn->b, p, to);
  for (int32_t k = 0; k < v->si->ndim; k++) {
    LLVMValueRef at = cg_i64(cg, k + 1);
    LLVMValueRef dim = gval_dim(g, v, (uint32_t)k);
    LLVMBuildStore(fn->b, dim, LLVMBuildInBoundsGEP2(fn->b, cg->i64, to, &at, 1, ""));
  }
}

static void host_define(Cg *cg, Host *h) {
  Fn fn;
  if (!h->fn) return;
  host_fn_begin(&fn, cg, h->fn);
  debug_function(&fn, h->f->name, h->f->span);
  Graph g = {.fn = &fn, .cg = cg, .arena = fn.arena, .host = h};
  map_init(&g.vals, g.arena);
  map_init(&g.dests, g.arena);
  map_init(&g.offsets, g.arena);
  map_init(&g.signs, g.arena);
  g.total = dim_const(cg->c, 0);
  GVals args = {0}, results = {0};
  bind_arguments(&g, &args);
  if (h->endless) check_depth(&g);
  weights_open(&g);
  for (uint32_t i = 0; i < h->nouts; i++)
    if (!h->outs[i].dynamic) set_dest(&g, func_result(h->f), i, (int32_t)i, NULL);
  emit_seq(&g, &h->f->body);
  if (!cg->failed) {
    gval_flatten(&g, graph_value(&g, func_result(h->f)), &results);
    for (uint32_t i = 0; i < h->nouts && i < results.n; i++) store_result(&g, results.at[i], i);
  }
  fn_return(&fn, LLVMConstNull(cg->i32));
  if (!cg->failed) host_define_bytes(cg, h, g.total, g.early.at, g.early.n);
  host_fn_end(&fn);
}

void host_define_all(Cg *cg) {
  for (uint32_t i = 0; i < cg->hosts.n && !cg->failed; i++) {
    Host *h = cg->hosts.entries[i].value;
    if (h->defined) continue;
    h->defined = true;
    if (h->abi)
      prim_host_define(cg, h);
    else
      host_define(cg, h);
  }
}
