/* Calls from Relax functions: prim_funcs, other Relax functions, C functions in DLPack form, the
 * runtime's for R.print and R.assert_op. */
#include "codegen/llvm/graph.h"

#include "ir/ops/attrs.h"

bool graph_calls(const Node *n) {
  return n->op == OP_CALL || n->op == OP_call_tir || n->op == OP_call_tir_inplace ||
         n->op == OP_call_tir_with_grad || n->op == OP_call_dps_packed || n->op == OP_call_packed ||
         n->op == OP_call_pure_packed || n->op == OP_call_inplace_packed;
}

static GVal *gval(Graph *g, const SInfo *si) {
  GVal *v = ARENA_NEW(g->arena, GVal);
  v->si = si;
  return v;
}

static GVal *void_value(Graph *g, Node *n) {
  return gval(g, n->sinfo);
}

/* The results of a call as the value of its node: one leaf is itself. */
static GVal *rebuild(Graph *g, const SInfo *si, GVals *leaves, uint32_t *next) {
  if (si->kind != SINFO_TUPLE) return leaves->at[(*next)++];
  GVal *v = gval(g, si);
  v->n = si->n;
  v->fields = ARENA_ARRAY(g->arena, GVal *, si->n);
  for (uint32_t i = 0; i < si->n; i++) v->fields[i] = rebuild(g, si->fields[i], leaves, next);
  return v;
}

static void flatten_args(Graph *g, Node *n, uint32_t from, GVals *out) {
  for (uint32_t i = from; i < n->nin; i++) gval_flatten(g, graph_value(g, node_in(n, i)), out);
}

/* ---- prim_funcs ---- */

typedef struct {
  GVals tensors;
  VEC(LLVMValueRef) scalars;
  VEC(DType) types;
} Split;

/* Tensors on one side, scalars (prims and the values of shapes) on the other. */
static void split_args(Graph *g, GVals *flat, Split *s) {
  for (uint32_t i = 0; i < flat->n; i++) {
    GVal *v = flat->at[i];
    if (v->si->kind == SINFO_PRIM) {
      vec_push(g->arena, &s->scalars, v->prim);
      vec_push(g->arena, &s->types, v->si->dtype);
    } else if (v->si->kind == SINFO_SHAPE) {
      for (int32_t k = 0; k < v->si->ndim; k++) {
        vec_push(g->arena, &s->scalars, gval_dim(g, v, (uint32_t)k));
        vec_push(g->arena, &s->types, DT_I64);
      }
    } else {
      vec_push(g->arena, &s->tensors, v);
    }
  }
}

static LLVMValueRef find_dim(Graph *g, Node *n, const PrimFunc *f, GVal **bufs, const Var *dim) {
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    if (!b || !bufs[i]) continue;
    for (uint32_t k = 0; k < b->ndim && (int32_t)k < bufs[i]->si->ndim; k++)
      if (b->shape[k]->kind == EXPR_VAR && b->shape[k]->var == dim) return gval_dim(g, bufs[i], k);
  }
  cg_error(g->cg, n->span, "dim '%s' of prim_func '%s' can't be found from its arguments",
           dim->name, f->name);
  return cg_i64(g->cg, 0);
}

static void call_kernel(Graph *g, Node *n, const PrimFunc *f, Split *s) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  if (dtype_known(f->ret)) {
    cg_error(cg, n->span, "prim_func '%s' returns a value: it can't be called with tensors",
             f->name);
    return;
  }
  Kernel *k = kernel_get(cg, f);
  uint32_t total = f->nparams + f->ndims, it = 0, is = 0;
  LLVMValueRef *args = ARENA_ARRAY(g->arena, LLVMValueRef, total ? total : 1);
  GVal **bufs = ARENA_ARRAY(g->arena, GVal *, f->nparams ? f->nparams : 1);
  for (uint32_t i = 0; i < f->nparams; i++) {
    if (f->param_bufs[i]) {
      if (it >= s->tensors.n || !s->tensors.at[it]->ptr) break;
      bufs[i] = s->tensors.at[it++];
      args[i] = bufs[i]->ptr;
    } else if (is < s->scalars.n) {
      args[i] =
          cg_convert(cg, fn->b, fn->v, s->types.at[is], f->params[i]->dtype, s->scalars.at[is]);
      is++;
    }
    if (!args[i]) break;
  }
  for (uint32_t i = 0; i < f->nparams; i++)
    if (!args[i]) {
      if (!cg->failed)
        cg_error(cg, n->span, "call of prim_func '%s' passes too few arguments", f->name);
      return;
    }
  for (uint32_t i = 0; i < f->ndims; i++)
    args[f->nparams + i] = find_dim(g, n, f, bufs, f->dims[i]);
  if (cg->failed) return;
  LLVMValueRef status = kernel_call_host(cg, fn->b, g->host->f->name, k, args, total);
  if (k->can_fail) fn_check_status(fn, status);
}

/* Argument `at` of n as an index into its tensors; -1: a scalar. */
static int64_t tensor_index(const Node *n, int64_t at) {
  int64_t k = 0;
  if (at < 0 || at + 1 >= n->nin || node_in(n, (uint32_t)at + 1)->sinfo->kind != SINFO_TENSOR)
    return -1;
  for (uint32_t i = 1; i <= at; i++) k += node_in(n, i)->sinfo->kind == SINFO_TENSOR;
  return k;
}

/* A copy of what call_tir_inplace overwrites is overwritten: CallTIRRewrite finds out where the
 * argument itself may be, here every one may be a parameter or used again. */
static GVal *call_tir(Graph *g, Node *n, const PrimFunc *f) {
  const SInfoList *out = &node_attrs(n, call_tir)->out_ty;
  const IntList *inplace =
      n->op == OP_call_tir_inplace ? &node_attrs(n, call_tir_inplace)->inplace_indices : NULL;
  GVals flat = {0}, outs = {0};
  flatten_args(g, n, 1, &flat);
  Split s = {0};
  split_args(g, &flat, &s);
  for (int32_t i = 0; i < out->n; i++) {
    int64_t at = inplace && i < inplace->n ? tensor_index(n, inplace->at[i]) : -1;
    GVal *v = graph_alloc(g, n, (uint32_t)i, out->at[i]);
    vec_push(g->arena, &outs, v);
    if (at >= 0) {
      gval_copy(g, s.tensors.at[at], v->ptr);
      s.tensors.at[at] = v;
    } else {
      vec_push(g->arena, &s.tensors, v);
    }
  }
  if (!g->cg->failed) call_kernel(g, n, f, &s);
  uint32_t next = 0;
  return rebuild(g, n->sinfo, &outs, &next);
}

/* ---- Relax functions ---- */

/* The value of the callee's dim: from an argument's extents or a prim. */
static LLVMValueRef callee_dim(Graph *g, Node *n, Host *h, GVals *flat, const Var *dim) {
  Fn *fn = g->fn;
  for (uint32_t i = 0; i < h->nargs && i < flat->n; i++) {
    const SInfo *si = h->args[i].si;
    if (si->kind == SINFO_PRIM && si->value && si->value->kind == EXPR_VAR && si->value->var == dim)
      return cg_convert(g->cg, fn->b, fn->v, si->dtype, DT_I64, flat->at[i]->prim);
    for (int32_t k = 0; si->kind != SINFO_PRIM && si->dims && k < si->ndim; k++)
      if (si->dims[k]->kind == EXPR_VAR && si->dims[k]->var == dim)
        return gval_dim(g, flat->at[i], (uint32_t)k);
  }
  cg_error(g->cg, n->span, "dim '%s' of '%s' can't be found from this call", dim->name, h->f->name);
  return cg_i64(g->cg, 0);
}

/* An int64 array on the stack holding the values of a shape. */
static LLVMValueRef shape_array(Graph *g, GVal *v, int32_t n) {
  Fn *fn = g->fn;
  LLVMValueRef p = fn_alloca(fn, g->cg->i64, n > 0 ? (uint64_t)n : 1, 8);
  for (int32_t i = 0; i < n; i++) {
    LLVMValueRef at = cg_i64(g->cg, i);
    LLVMValueRef dim = gval_dim(g, v, (uint32_t)i);
    LLVMBuildStore(fn->b, dim, LLVMBuildInBoundsGEP2(fn->b, g->cg->i64, p, &at, 1, ""));
  }
  return p;
}

static LLVMValueRef array_at(Graph *g, LLVMValueRef p, int64_t i) {
  LLVMValueRef at = cg_i64(g->cg, i);
  return LLVMBuildInBoundsGEP2(g->fn->b, g->cg->i64, p, &at, 1, "");
}

/* Memory that someone allocated with rx_alloc becomes scratch of this function. */
static LLVMValueRef adopt(Graph *g, LLVMValueRef data, LLVMValueRef bytes) {
  Fn *fn = g->fn;
  Cg *cg = g->cg;
  LLVMValueRef p = cg_scratch_push(cg, fn->b, bytes);
  fn_check_memory(fn, p);
  graph_keep(g, p);
  cg_memcpy(cg, fn->b, p, data, bytes);
  LLVMTypeRef t = cg_fn_type(cg->void_t, &cg->ptr, 1, false);
  LLVMBuildCall2(fn->b, t, cg_extern(cg, cg_has_runtime(cg) ? "rx_free" : "free", t), &data, 1, "");
  return p;
}

static GVal *call_func(Graph *g, Node *n, const Func *f) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  Host *h = host_get(cg, f);
  if (cg->failed) return void_value(g, n);
  GVals flat = {0}, outs = {0};
  flatten_args(g, n, 1, &flat);
  if (flat.n != h->nargs) {
    cg_error(cg, n->span, "call of '%s' passes %u values but %u are expected", f->name, flat.n,
             h->nargs);
    return void_value(g, n);
  }
  LLVMValueRef *args = ARENA_ARRAY(g->arena, LLVMValueRef, LLVMCountParamTypes(h->type) + 1);
  LLVMValueRef *dims = ARENA_ARRAY(g->arena, LLVMValueRef, f->ndims + 1);
  uint32_t k = 0;
  for (uint32_t i = 0; i < h->nargs; i++) {
    GVal *v = flat.at[i];
    const SInfo *si = h->args[i].si;
    if (si->kind == SINFO_PRIM)
      args[k++] = cg_convert(cg, fn->b, fn->v, v->si->dtype, si->dtype, v->prim);
    else if (si->kind == SINFO_SHAPE)
      args[k++] = shape_array(g, v, si->ndim);
    else
      args[k++] = v->ptr;
    for (int32_t d = 0; h->args[i].dynamic && d < si->ndim; d++)
      args[k++] = gval_dim(g, v, (uint32_t)d);
  }
  /* The result's type in the caller's terms says what to allocate. */
  VEC(const SInfo *) types = {0};
  VEC(const SInfo *) stack = {0};
  vec_push(g->arena, &stack, n->sinfo);
  while (stack.n) {
    const SInfo *si = vec_pop(&stack);
    if (si->kind == SINFO_TUPLE)
      for (uint32_t i = si->n; i-- > 0;) vec_push(g->arena, &stack, si->fields[i]);
    else
      vec_push(g->arena, &types, si);
  }
  for (uint32_t i = 0; i < h->nouts && i < types.n; i++) {
    const SInfo *si = types.at[i];
    GVal *v;
    if (h->outs[i].dynamic) {
      v = gval(g, si);
      v->ptr = fn_alloca(fn, cg->i64, 1 + (uint64_t)h->outs[i].si->ndim, 8);
    } else if (si->kind == SINFO_TENSOR) {
      v = graph_alloc(g, n, i, si);
    } else {
      v = gval(g, si);
      v->ptr = fn_alloca(fn, cg->i64, si->kind == SINFO_SHAPE && si->ndim > 0 ? si->ndim : 1, 8);
    }
    args[k++] = v->ptr;
    vec_push(g->arena, &outs, v);
  }
  for (uint32_t i = 0; i < f->ndims; i++) {
    dims[i] = callee_dim(g, n, h, &flat, f->dims[i]);
    args[k++] = dims[i];
  }
  if (cg->failed) return void_value(g, n);
  LLVMValueRef bytes = LLVMBuildCall2(fn->b, h->ws_type, h->ws, dims, f->ndims, "");
  host_check_bytes(fn, bytes, cg_string(cg, f->name));
  LLVMValueRef ws = cg_scratch_push(cg, fn->b, bytes);
  fn_check_memory(fn, ws);
  args[k++] = ws;
  LLVMValueRef status = host_call(fn, h, args, k, g->stack);
  cg_scratch_pop(cg, fn->b, ws);
  fn_check_status(fn, status);
  for (uint32_t i = 0; i < outs.n; i++) {
    GVal *v = outs.at[i];
    if (h->outs[i].dynamic) {
      LLVMValueRef slot = v->ptr;
      int32_t nd = h->outs[i].si->ndim;
      LLVMValueRef size = cg_i64(cg, (int64_t)dtype_bytes(v->si->dtype));
      v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, nd > 0 ? nd : 1);
      for (int32_t d = 0; d < nd; d++) {
        v->dims[d] = LLVMBuildLoad2(fn->b, cg->i64, array_at(g, slot, d + 1), "");
        size = cg_mul(fn->b, size, v->dims[d]);
      }
      v->ptr = adopt(g, LLVMBuildLoad2(fn->b, cg->ptr, slot, ""), size);
    } else if (v->si->kind == SINFO_PRIM) {
      LLVMTypeRef t = cg_mem_type(cg, v->si->dtype);
      v->prim = LLVMBuildLoad2(fn->b, t, v->ptr, "");
      if (dtype_is_bool(v->si->dtype))
        v->prim = LLVMBuildICmp(fn->b, LLVMIntNE, v->prim, LLVMConstNull(t), "");
    } else if (v->si->kind == SINFO_SHAPE) {
      v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, v->si->ndim > 0 ? v->si->ndim : 1);
      for (int32_t d = 0; d < v->si->ndim; d++)
        v->dims[d] = LLVMBuildLoad2(fn->b, cg->i64, array_at(g, v->ptr, d), "");
    }
  }
  uint32_t next = 0;
  return rebuild(g, n->sinfo, &outs, &next);
}

/* ---- C functions in DLPack form ---- */

enum { DL_BYTES = 48, DL_ROOM = 16 };

static void put(Graph *g, LLVMValueRef base, int64_t off, LLVMValueRef v) {
  LLVMValueRef at = cg_i64(g->cg, off);
  LLVMSetAlignment(
      LLVMBuildStore(g->fn->b, v, LLVMBuildInBoundsGEP2(g->fn->b, g->cg->i8, base, &at, 1, "")), 4);
}

/* A DLTensor on the stack; data NULL and no known shape: to be filled by the callee. */
static LLVMValueRef dl_tensor(Graph *g, LLVMValueRef data, DType d, int32_t ndim,
                              LLVMValueRef shape) {
  Cg *cg = g->cg;
  LLVMValueRef t = fn_alloca(g->fn, cg->i64, DL_BYTES / 8, 8), null = LLVMConstNull(cg->ptr);
  put(g, t, 0, data);
  put(g, t, 8, cg_i32(cg, 1)); /* kDLCPU */
  put(g, t, 12, cg_i32(cg, 0));
  put(g, t, 16, cg_i32(cg, ndim));
  uint32_t code = d.code | (uint32_t)d.bits << 8 | 1u << 16;
  put(g, t, 20, cg_i32(cg, (int32_t)code));
  put(g, t, 24, shape);
  put(g, t, 32, null);
  put(g, t, 40, cg_i64(cg, 0));
  return t;
}

static LLVMValueRef dl_of(Graph *g, Node *n, GVal *v) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  switch (v->si->kind) {
  case SINFO_TENSOR:
    return dl_tensor(g, v->ptr, v->si->dtype, v->si->ndim, shape_array(g, v, v->si->ndim));
  case SINFO_SHAPE: {
    LLVMValueRef len = fn_alloca(fn, cg->i64, 1, 8);
    LLVMBuildStore(fn->b, cg_i64(cg, v->si->ndim), len);
    return dl_tensor(g, shape_array(g, v, v->si->ndim), DT_I64, 1, len);
  }
  case SINFO_PRIM: {
    LLVMValueRef x = v->prim, p = fn_alloca(fn, cg->i64, 1, 8);
    if (dtype_is_bool(v->si->dtype)) x = LLVMBuildZExt(fn->b, x, cg->i8, "");
    LLVMBuildStore(fn->b, x, p);
    return dl_tensor(g, p, v->si->dtype, 0, LLVMConstNull(cg->ptr));
  }
  default: break;
  }
  Text t = {0};
  sinfo_print(&t, v->si);
  cg_error(cg, n->span, "a value of type %s can't be passed to an external function",
           text_cstr(&t));
  text_free(&t);
  return LLVMConstNull(cg->ptr);
}

static LLVMValueRef pointer_array(Graph *g, LLVMValueRef *at, uint32_t n) {
  LLVMValueRef p = fn_alloca(g->fn, g->cg->ptr, n ? n : 1, 8);
  for (uint32_t i = 0; i < n; i++) LLVMBuildStore(g->fn->b, at[i], array_at(g, p, i));
  return p;
}

/* int name(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts) */
static void call_dl(Graph *g, const char *name, LLVMValueRef *args, uint32_t na, LLVMValueRef *outs,
                    uint32_t no) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  LLVMTypeRef types[4] = {cg->ptr, cg->i32, cg->ptr, cg->i32};
  LLVMTypeRef t = cg_fn_type(cg->i32, types, 4, false);
  LLVMValueRef a[4] = {pointer_array(g, args, na), cg_i32(cg, (int32_t)na),
                       pointer_array(g, outs, no), cg_i32(cg, (int32_t)no)};
  LLVMValueRef status = LLVMBuildCall2(fn->b, t, cg_extern(cg, name, t), a, 4, "");
  LLVMValueRef bad = LLVMBuildICmp(fn->b, LLVMIntNE, status, cg_i32(cg, 0), "");
  LLVMValueRef m[2] = {cg_string(cg, name), status};
  fn_fail_if(fn, bad, ST_EXTERN, "external function '%s' failed with code %d", m, 2);
}

/* R.call_inplace_packed: copies of the arguments that are overwritten are passed and are the
 * results; results of their own are given memory, as in destination-passing form. */
static GVal *call_inplace(Graph *g, Node *n, const char *name) {
  Cg *cg = g->cg;
  const SInfoList *types = &node_attrs(n, call_inplace_packed)->ty_args;
  const IntList *at = &node_attrs(n, call_inplace_packed)->inplace_indices;
  GVals flat = {0}, outs = {0};
  flatten_args(g, n, 1, &flat);
  LLVMValueRef *out = ARENA_ARRAY(g->arena, LLVMValueRef, (uint32_t)types->n + 1);
  uint32_t nout = 0;
  for (int32_t i = 0; i < types->n && !cg->failed; i++) {
    int64_t k = i < at->n ? at->at[i] : -1;
    if (k >= 0 &&
        (flat.n + 1 != n->nin || k >= (int64_t)flat.n || flat.at[k]->si->kind != SINFO_TENSOR)) {
      cg_error(cg, n->span, "inplace index %lld is no tensor argument", (long long)k);
      break;
    }
    GVal *v = graph_alloc(g, n, (uint32_t)i, k >= 0 ? flat.at[k]->si : types->at[i]);
    if (cg->failed) break;
    vec_push(g->arena, &outs, v);
    if (k >= 0) {
      gval_copy(g, flat.at[k], v->ptr);
      flat.at[k] = v;
    } else {
      out[nout++] = dl_of(g, n, v);
    }
  }
  if (cg->failed) return void_value(g, n);
  LLVMValueRef *in = ARENA_ARRAY(g->arena, LLVMValueRef, flat.n + 1);
  for (uint32_t i = 0; i < flat.n; i++) in[i] = dl_of(g, n, flat.at[i]);
  if (!cg->failed) call_dl(g, name, in, flat.n, out, nout);
  uint32_t next = 0;
  return rebuild(g, n->sinfo, &outs, &next);
}

static GVal *call_packed(Graph *g, Node *n, const char *name) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  GVals flat = {0}, outs = {0};
  flatten_args(g, n, 1, &flat);
  LLVMValueRef *in = ARENA_ARRAY(g->arena, LLVMValueRef, flat.n + 1);
  for (uint32_t i = 0; i < flat.n; i++) in[i] = dl_of(g, n, flat.at[i]);
  if (cg->failed) return void_value(g, n);
  uint32_t no = sinfo_leaves(n->sinfo), fresh = 0;
  bool none = sinfo_is_void(n->sinfo) || n->sinfo->kind == SINFO_OBJECT;
  if (none) no = 0;
  if (none && flat.n + 1 == n->nin) fresh = call_fresh_outputs(n);
  if (fresh) {
    call_dl(g, name, in, flat.n - fresh, in + flat.n - fresh, fresh);
    return void_value(g, n);
  }
  LLVMValueRef *out = ARENA_ARRAY(g->arena, LLVMValueRef, no + 1);
  if (n->op == OP_call_dps_packed) {
    const SInfoList *types = &node_attrs(n, call_dps_packed)->out_ty;
    for (int32_t i = 0; i < types->n; i++) {
      GVal *v = graph_alloc(g, n, (uint32_t)i, types->at[i]);
      vec_push(g->arena, &outs, v);
      if (cg->failed) return void_value(g, n);
      out[i] = dl_of(g, n, v);
    }
    call_dl(g, name, in, flat.n, out, outs.n);
    uint32_t next = 0;
    return rebuild(g, n->sinfo, &outs, &next);
  }
  /* The callee allocates its result and says its shape. */
  if (no > 1 || (no == 1 && (n->sinfo->kind != SINFO_TENSOR || n->sinfo->ndim < 0))) {
    cg_error(cg, n->span, "a call of an external function must give one tensor of known rank");
    return void_value(g, n);
  }
  GVal *v = void_value(g, n);
  LLVMValueRef shape = NULL;
  if (no) {
    shape = fn_alloca(fn, cg->i64, n->sinfo->ndim > DL_ROOM ? n->sinfo->ndim : DL_ROOM, 8);
    out[0] = dl_tensor(g, LLVMConstNull(cg->ptr), n->sinfo->dtype, n->sinfo->ndim, shape);
  }
  call_dl(g, name, in, flat.n, out, no);
  if (!no) return v;
  LLVMValueRef bytes = cg_i64(cg, (int64_t)dtype_bytes(n->sinfo->dtype));
  v->dims = ARENA_ARRAY(g->arena, LLVMValueRef, n->sinfo->ndim > 0 ? n->sinfo->ndim : 1);
  for (int32_t d = 0; d < n->sinfo->ndim; d++) {
    v->dims[d] = LLVMBuildLoad2(fn->b, cg->i64, array_at(g, shape, d), "");
    bytes = cg_mul(fn->b, bytes, v->dims[d]);
  }
  v->ptr = adopt(g, LLVMBuildLoad2(fn->b, cg->ptr, out[0], ""), bytes);
  return v;
}

/* The tensors are put together before the branch: what is computed in it is lost after it. */
GVal *graph_message(Graph *g, Node *n) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  bool check = n->op == OP_assert_op;
  const char *format = node_attrs(n, print)->format;
  GVal *cond = check ? graph_value(g, node_in(n, 0)) : NULL;
  GVals flat = {0};
  flatten_args(g, n, check, &flat);
  const char *fault = op_format_fault(format, flat.n);
  if (fault) cg_error(cg, n->span, "R.%s: %s", node_op(n)->name, fault);
  LLVMValueRef *in = ARENA_ARRAY(g->arena, LLVMValueRef, flat.n + 1);
  for (uint32_t i = 0; i < flat.n; i++) in[i] = dl_of(g, n, flat.at[i]);
  if (cg->failed) return void_value(g, n);
  LLVMTypeRef types[3] = {cg->ptr, cg->ptr, cg->i32}, t = cg_fn_type(cg->i32, types, 3, false);
  LLVMValueRef args[3] = {cg_string(cg, format), pointer_array(g, in, flat.n),
                          cg_i32(cg, (int32_t)flat.n)};
  LLVMBasicBlockRef good = NULL;
  if (check) {
    LLVMValueRef v = cond->prim ? cond->prim : LLVMBuildLoad2(fn->b, cg->i8, cond->ptr, "");
    v = LLVMBuildICmp(fn->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    LLVMBasicBlockRef bad = fn_block(fn, "failed");
    good = fn_block(fn, "");
    LLVMBuildCondBr(fn->b, v, good, bad);
    LLVMPositionBuilderAtEnd(fn->b, bad);
  }
  const char *name = check ? "rx_assert_failed" : "rx_print";
  LLVMValueRef status = LLVMBuildCall2(fn->b, t, cg_extern(cg, name, t), args, 3, "");
  if (check) {
    fn_return(fn, status);
    LLVMPositionBuilderAtEnd(fn->b, good);
  }
  return void_value(g, n);
}

GVal *graph_call(Graph *g, Node *n) {
  Cg *cg = g->cg;
  Node *callee = node_in(n, 0);
  const char *sym = module_call_symbol(cg->m, n);
  if (sym && n->op == OP_call_inplace_packed) return call_inplace(g, n, sym);
  if (sym) return call_packed(g, n, sym);
  Global *x = callee->op == OP_GLOBAL ? module_find(cg->m, callee->str) : NULL;
  if (!x) {
    cg_error(cg, n->span, "the callee must be a function of the module");
    return void_value(g, n);
  }
  if (x->kind == GLOBAL_PRIM) {
    if (n->op != OP_CALL) return call_tir(g, n, x->prim);
    GVals flat = {0};
    flatten_args(g, n, 1, &flat);
    Split s = {0};
    split_args(g, &flat, &s);
    if (!cg->failed) call_kernel(g, n, x->prim, &s);
    return void_value(g, n);
  }
  if (x->kind == GLOBAL_FUNC && n->op == OP_CALL) return call_func(g, n, x->func);
  cg_error(cg, n->span, "'%s' can't be called like this", callee->str);
  return void_value(g, n);
}
