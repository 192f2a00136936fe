/* The public entries of each function, design section 4: m_f, m_f_ws, m_f_workspace, m_f_dl,
 * m_f_info.
 *
 * All of them check, bind the symbolic dims, get scratch and call the internal function. The DLPack
 * entry checks each tensor by itself (dlcheck.c), binds dims from the first place where they stand
 * alone, then checks every dim against the annotation.
 */
#include "codegen/llvm/dlcheck.h"
#include "ir/print.h"

enum { MAX_RANK = 64 };

typedef struct {
  Cg *cg;
  Fn *fn;
  const AbiFunc *f;
  Host *h;
  const char *name;
  LLVMValueRef extents; /* stack array for expected dims */
  DlValues args, outs;  /* of the DLPack entry */
} Entry;

static LLVMTypeRef c_value_type(Cg *cg, DType d) {
  return cg_mem_type(cg, d);
}

static LLVMValueRef to_register(Entry *e, DType d, LLVMValueRef v) {
  if (!dtype_is_bool(d)) return v;
  return LLVMBuildICmp(e->fn->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

static LLVMValueRef str(Entry *e, const char *s) {
  return cg_string(e->cg, s);
}

/* Fails for negative values of the function's dims. */
static void check_negative(Entry *e) {
  Fn *fn = e->fn;
  const Func *f = e->f->func;
  for (uint32_t i = 0; i < f->ndims; i++) {
    LLVMValueRef v = dim_value(fn, dim_var(fn->c, f->dims[i]));
    LLVMValueRef args[3] = {str(e, e->name), str(e, f->dims[i]->name), v};
    LLVMValueRef bad = LLVMBuildICmp(fn->b, LLVMIntSLT, v, cg_i64(e->cg, 0), "");
    fn_fail_if(fn, bad, ST_SHAPE, "%s: dim '%s' is negative: %lld", args, 3);
  }
}

/* Bytes of scratch; fails when sizes overflow or a dim is negative. */
static LLVMValueRef workspace_bytes(Entry *e) {
  Fn *fn = e->fn;
  const Func *f = e->f->func;
  LLVMValueRef *dims = ARENA_ARRAY(fn->arena, LLVMValueRef, f->ndims + 1);
  for (uint32_t i = 0; i < f->ndims; i++) dims[i] = dim_value(fn, dim_var(fn->c, f->dims[i]));
  LLVMValueRef n = LLVMBuildCall2(fn->b, e->h->ws_type, e->h->ws, dims, f->ndims, "");
  LLVMValueRef name = str(e, e->name);
  host_check_bytes(fn, n, name);
  return n;
}

static void bind_prim_dim(Entry *e, const AbiValue *a, LLVMValueRef v) {
  Fn *fn = e->fn;
  const Expr *x = a->sinfo->value;
  if (!x || x->kind != EXPR_VAR || map_hasp(&fn->vars, x->var)) return;
  LLVMValueRef i = cg_convert(e->cg, fn->b, fn->v, a->dtype, DT_I64, v);
  fn_bind(fn, x->var, (Binding){.idx = i, .level = 0});
}

static void dim_args(Entry *e, LLVMValueRef *args, uint32_t *k) {
  const Func *f = e->f->func;
  for (uint32_t i = 0; i < f->ndims; i++)
    args[(*k)++] = dim_value(e->fn, dim_var(e->cg->c, f->dims[i]));
}

static LLVMValueRef constant(Cg *cg, LLVMValueRef init, const char *name) {
  LLVMValueRef g = LLVMAddGlobal(cg->mod, LLVMTypeOf(init), name);
  LLVMSetInitializer(g, init);
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMInternalLinkage);
  return g;
}

/* ---- plain ---- */

static void null_check(Entry *e, const AbiValue *v, const char *role, LLVMValueRef p) {
  Fn *fn = e->fn;
  LLVMValueRef bad = LLVMBuildICmp(fn->b, LLVMIntEQ, p, LLVMConstNull(e->cg->ptr), "");
  if (v->kind == ABI_TENSOR) {
    LLVMValueRef n = dim_value(fn, sinfo_bytes(fn->c, v->sinfo));
    LLVMValueRef some = LLVMBuildICmp(fn->b, LLVMIntNE, n, cg_i64(e->cg, 0), "");
    bool known;
    if (cg_known_bool(some, &known) && !known) return;
    if (!cg_known_bool(some, &known)) bad = LLVMBuildAnd(fn->b, bad, some, "");
  } else if (v->kind == ABI_SHAPE && v->sinfo->ndim == 0) {
    return;
  }
  LLVMValueRef args[3] = {str(e, e->name), str(e, role), str(e, v->name)};
  fn_fail_if(fn, bad, ST_ARGUMENT, "%s: %s '%s' is NULL", args, 3);
}

/* Values of a Shape argument against the annotation. */
static void check_shape_values(Entry *e, const AbiValue *v, LLVMValueRef p, bool bind) {
  Fn *fn = e->fn;
  const SInfo *si = v->sinfo;
  for (int32_t i = 0; si->dims && i < si->ndim; i++) {
    LLVMValueRef at = cg_i64(e->cg, i);
    const Expr *x = si->dims[i];
    bool unbound = x->kind == EXPR_VAR && !map_hasp(&fn->vars, x->var);
    if (bind != unbound) continue;
    LLVMValueRef got = LLVMBuildLoad2(fn->b, e->cg->i64,
                                      LLVMBuildInBoundsGEP2(fn->b, e->cg->i64, p, &at, 1, ""), "");
    if (bind) {
      fn_bind(fn, x->var, (Binding){.idx = got, .level = 0});
      continue;
    }
    LLVMValueRef want = fn_index(fn, x);
    LLVMValueRef args[5] = {str(e, e->name), str(e, v->name), cg_i32(e->cg, i), want, got};
    fn_fail_if(fn, LLVMBuildICmp(fn->b, LLVMIntNE, got, want, ""), ST_SHAPE,
               "%s: argument '%s': value %d: expected %lld but got %lld", args, 5);
  }
}

static void plain_entry(Cg *cg, const AbiFunc *f, Host *h, bool with_ws) {
  Fn fn;
  Entry e = {.cg = cg, .fn = &fn, .f = f, .h = h, .name = f->func->name};
  uint32_t n = 0, k = 0;
  LLVMTypeRef *types = ARENA_ARRAY(cg->arena, LLVMTypeRef, f->nparams + f->ndims + 1);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const AbiParam *p = &f->params[i];
    bool value = p->out == ABI_ABSENT && f->args[p->arg].kind == ABI_PRIM;
    types[n++] = value ? c_value_type(cg, f->args[p->arg].dtype) : cg->ptr;
  }
  for (uint32_t i = 0; i < f->ndims; i++) types[n++] = cg->i64;
  if (with_ws) types[n++] = cg->ptr;
  const char *name = arena_printf(cg->arena, "%s%s", f->symbol, with_ws ? "_ws" : "");
  LLVMValueRef ll = LLVMAddFunction(cg->mod, name, cg_fn_type(cg->i32, types, n, false));
  cg_fn_attrs(cg, ll, &cg->target->variants[0]);
  host_fn_begin(&fn, cg, ll);
  for (uint32_t i = 0; i < f->ndims; i++)
    fn_bind(&fn, f->dims[i], (Binding){.idx = LLVMGetParam(ll, f->nparams + i), .level = 0});
  LLVMValueRef *args =
      ARENA_ARRAY(fn.arena, LLVMValueRef, f->nargs + f->nouts + f->func->ndims + 2);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const AbiParam *at = &f->params[i];
    LLVMValueRef p = LLVMGetParam(ll, i);
    if (at->out != ABI_ABSENT) args[f->nargs + at->out] = p;
    if (at->arg == ABI_ABSENT) continue;
    const AbiValue *a = &f->args[at->arg];
    if (a->kind == ABI_PRIM) {
      p = to_register(&e, a->dtype, p);
      bind_prim_dim(&e, a, p);
    }
    args[at->arg] = p;
  }
  k = f->nargs + f->nouts;
  check_negative(&e);
  for (uint32_t i = 0; i < f->nargs; i++)
    if (f->args[i].kind != ABI_PRIM) {
      null_check(&e, &f->args[i], "argument", args[i]);
      if (f->args[i].kind == ABI_SHAPE) check_shape_values(&e, &f->args[i], args[i], false);
    }
  for (uint32_t i = 0; i < f->nouts; i++) null_check(&e, &f->outs[i], "output", args[f->nargs + i]);
  LLVMValueRef bytes = workspace_bytes(&e), ws;
  if (with_ws) {
    ws = LLVMGetParam(ll, n - 1);
    LLVMValueRef null = LLVMBuildICmp(fn.b, LLVMIntEQ, ws, LLVMConstNull(cg->ptr), "");
    LLVMValueRef some = LLVMBuildICmp(fn.b, LLVMIntNE, bytes, cg_i64(cg, 0), "");
    LLVMValueRef m = str(&e, e.name);
    fn_fail_if(&fn, LLVMBuildAnd(fn.b, null, some, ""), ST_ARGUMENT, "%s: the workspace is NULL",
               &m, 1);
  } else {
    ws = cg_scratch_push(cg, fn.b, bytes);
    fn_check_memory(&fn, ws);
  }
  dim_args(&e, args, &k);
  args[k++] = ws;
  LLVMValueRef status = host_call(&fn, h, args, k, NULL);
  if (!with_ws) cg_scratch_pop(cg, fn.b, ws);
  fn_return(&fn, status);
  host_fn_end(&fn);
}

static void workspace_entry(Cg *cg, const AbiFunc *f, Host *h) {
  Fn fn;
  Entry e = {.cg = cg, .fn = &fn, .f = f, .h = h, .name = f->func->name};
  const char *name = arena_printf(cg->arena, "%s_workspace", f->symbol);
  LLVMValueRef ll = LLVMAddFunction(cg->mod, name, h->ws_type);
  cg_fn_attrs(cg, ll, &cg->target->variants[0]);
  host_fn_begin(&fn, cg, ll);
  LLVMValueRef *dims = ARENA_ARRAY(fn.arena, LLVMValueRef, f->func->ndims + 1);
  LLVMValueRef bad = NULL;
  for (uint32_t i = 0; i < f->func->ndims; i++) {
    dims[i] = LLVMGetParam(ll, i);
    LLVMValueRef neg = LLVMBuildICmp(fn.b, LLVMIntSLT, dims[i], cg_i64(cg, 0), "");
    bad = bad ? LLVMBuildOr(fn.b, bad, neg, "") : neg;
  }
  LLVMValueRef n = LLVMBuildCall2(fn.b, h->ws_type, h->ws, dims, f->func->ndims, "");
  LLVMValueRef over = LLVMBuildICmp(fn.b, LLVMIntSLT, n, cg_i64(cg, 0), "");
  LLVMValueRef m = str(&e, e.name);
  for (int i = 0; i < 2; i++) {
    LLVMValueRef c = i ? over : bad;
    if (!c) continue;
    LLVMBasicBlockRef no = fn_block(&fn, "failed"), yes = fn_block(&fn, "");
    LLVMBuildCondBr(fn.b, c, no, yes);
    LLVMPositionBuilderAtEnd(fn.b, no);
    cg_message(cg, fn.b, i ? "%s: a size is beyond 64 bits" : "%s: a dim is negative", &m, 1);
    LLVMBuildRet(fn.b, cg_i64(cg, i ? ST_OVERFLOW : ST_SHAPE));
    LLVMPositionBuilderAtEnd(fn.b, yes);
  }
  LLVMBuildRet(fn.b, n);
  host_fn_end(&fn);
}

/* ---- DLPack ---- */

/* Expected extents as an array: constant, or filled on the stack. */
static LLVMValueRef extent_array(Entry *e, LLVMValueRef *want, uint32_t n) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  bool fixed = true;
  for (uint32_t i = 0; i < n; i++) fixed &= LLVMIsAConstantInt(want[i]) != NULL;
  if (fixed) return constant(cg, LLVMConstArray2(cg->i64, want, n), "dims");
  if (!e->extents) e->extents = fn_alloca(fn, cg->i64, MAX_RANK, 8);
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef at = cg_i64(cg, i);
    LLVMBuildStore(fn->b, want[i], LLVMBuildInBoundsGEP2(fn->b, cg->i64, e->extents, &at, 1, ""));
  }
  return e->extents;
}

static void bind_tensor_dims(Entry *e, const AbiValue *v, LLVMValueRef t) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  LLVMValueRef shape = NULL;
  for (int32_t i = 0; i < v->sinfo->ndim; i++) {
    const Expr *x = v->sinfo->dims[i];
    if (x->kind != EXPR_VAR || map_hasp(&fn->vars, x->var)) continue;
    if (!shape) shape = dl_load(cg, fn->b, t, DL_SHAPE, cg->ptr);
    LLVMValueRef at = cg_i64(cg, i);
    LLVMValueRef got = LLVMBuildLoad2(fn->b, cg->i64,
                                      LLVMBuildInBoundsGEP2(fn->b, cg->i64, shape, &at, 1, ""), "");
    fn_bind(fn, x->var, (Binding){.idx = got, .level = 0});
  }
}

static void check_dims(Entry *e, const AbiValue *v, const char *role, LLVMValueRef t) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  const SInfo *si = v->sinfo;
  uint32_t n = v->kind == ABI_SHAPE ? 1 : (uint32_t)si->ndim;
  if (!n) return;
  if (n > MAX_RANK) {
    cg_error(cg, e->f->func->span, "%s '%s' has too many dims", role, v->name);
    return;
  }
  LLVMValueRef want[MAX_RANK], text[MAX_RANK];
  bool named = false;
  for (uint32_t i = 0; i < n; i++) {
    const Expr *x = v->kind == ABI_SHAPE ? expr_i64(fn->c, si->ndim) : si->dims[i];
    want[i] = fn_index(fn, x);
    text[i] = LLVMConstNull(cg->ptr);
    if (x->kind == EXPR_INT) continue;
    Text words = {0};
    shape_dim_print(&words, x);
    text[i] = str(e, text_cstr(&words));
    text_free(&words);
    named = true;
  }
  LLVMValueRef texts =
      named ? constant(cg, LLVMConstArray2(cg->ptr, text, n), "names") : LLVMConstNull(cg->ptr);
  fn_check_status(
      fn, dl_check_dims(cg, fn->b, t, extent_array(e, want, n), texts, e->name, role, v->name));
}

static void check_tensor(Entry *e, const AbiValue *v, const char *role, LLVMValueRef t) {
  uint32_t word = dl_dtype_word(v->dtype);
  int64_t bytes = word ? (int64_t)dtype_bytes(v->dtype) : 1;
  fn_check_status(e->fn, dl_check_tensor(e->cg, e->fn->b, t, e->name, role, v->name, word,
                                         word ? dtype_name(v->dtype) : "", v->ndim, bytes));
}

static LLVMValueRef element(Entry *e, LLVMValueRef array, uint32_t i) {
  LLVMValueRef at = cg_i64(e->cg, i);
  return LLVMBuildLoad2(e->fn->b, e->cg->ptr,
                        LLVMBuildInBoundsGEP2(e->fn->b, e->cg->ptr, array, &at, 1, ""), "");
}

static void check_count(Entry *e, LLVMValueRef array, LLVMValueRef n, uint32_t want,
                        const char *what) {
  Fn *fn = e->fn;
  LLVMValueRef args[4] = {str(e, e->name), cg_i32(e->cg, (int32_t)want), str(e, what), n};
  fn_fail_if(fn, LLVMBuildICmp(fn->b, LLVMIntNE, n, cg_i32(e->cg, (int32_t)want), ""), ST_ARGUMENT,
             "%s: expected %d %s but got %d", args, 4);
  if (!want) return;
  LLVMValueRef m[2] = {args[0], args[2]};
  fn_fail_if(fn, LLVMBuildICmp(fn->b, LLVMIntEQ, array, LLVMConstNull(e->cg->ptr), ""), ST_ARGUMENT,
             "%s: the array of %s is NULL", m, 2);
}

/* Opens `if (cond)`; branch_close ends it. */
typedef struct {
  LLVMBasicBlockRef end;
} Branch;

static Branch branch_open(Fn *fn, LLVMValueRef cond) {
  Branch b = {fn_block(fn, "")};
  LLVMBasicBlockRef yes = fn_block(fn, "");
  LLVMValueRef br = LLVMBuildCondBr(fn->b, cond, yes, b.end);
  LLVMPositionBuilderAtEnd(fn->b, yes);
  fn_scope_push(fn, br);
  return b;
}

static void branch_close(Fn *fn, Branch b) {
  fn_scope_pop(fn);
  LLVMBuildBr(fn->b, b.end);
  LLVMPositionBuilderAtEnd(fn->b, b.end);
}

static void store_field(Entry *e, LLVMValueRef t, int64_t off, LLVMValueRef v) {
  LLVMSetAlignment(LLVMBuildStore(e->fn->b, v, dl_field(e->cg, e->fn->b, t, off)), 4);
}

/* Writes rank, dtype and shape of an output that the callee allocates. */
static void describe(Entry *e, LLVMValueRef t, LLVMValueRef const *dims, int32_t ndim, DType d) {
  Cg *cg = e->cg;
  Fn *fn = e->fn;
  store_field(e, t, DL_DEVICE, cg_i32(cg, 1));
  store_field(e, t, DL_DEVICE + 4, cg_i32(cg, 0));
  store_field(e, t, DL_NDIM, cg_i32(cg, ndim));
  store_field(e, t, DL_DTYPE, cg_i32(cg, (int32_t)dl_dtype_word(d)));
  store_field(e, t, DL_STRIDES, LLVMConstNull(cg->ptr));
  store_field(e, t, DL_OFFSET, cg_i64(cg, 0));
  if (!ndim) return;
  LLVMValueRef shape = dl_load(cg, fn->b, t, DL_SHAPE, cg->ptr);
  for (int32_t i = 0; i < ndim; i++) {
    LLVMValueRef at = cg_i64(cg, i);
    LLVMBuildStore(fn->b, dims[i], LLVMBuildInBoundsGEP2(fn->b, cg->i64, shape, &at, 1, ""));
  }
}

static LLVMValueRef allocate(Entry *e, LLVMValueRef bytes) {
  Cg *cg = e->cg;
  if (!cg_has_runtime(cg)) return cg_scratch_push(cg, e->fn->b, bytes);
  LLVMTypeRef t = cg_fn_type(cg->ptr, &cg->i64, 1, false);
  return LLVMBuildCall2(e->fn->b, t, cg_extern(cg, "rx_alloc", t), &bytes, 1, "");
}

static void release(Entry *e, LLVMValueRef p) {
  Cg *cg = e->cg;
  LLVMTypeRef t = cg_fn_type(cg->void_t, &cg->ptr, 1, false);
  LLVMBuildCall2(e->fn->b, t, cg_extern(cg, "rx_free", t), &p, 1, "");
}

static uint32_t out_dims(Entry *e, const AbiValue *v, LLVMValueRef *dims) {
  if (v->kind == ABI_PRIM) return 0;
  if (v->kind == ABI_SHAPE) {
    dims[0] = cg_i64(e->cg, v->sinfo->ndim);
    return 1;
  }
  for (int32_t i = 0; i < v->sinfo->ndim; i++) dims[i] = fn_index(e->fn, v->sinfo->dims[i]);
  return (uint32_t)v->sinfo->ndim;
}

/* Checks an output; one without data is only prepared, which `fresh` tells. */
static void prepare_output(Entry *e, uint32_t i, LLVMValueRef t, LLVMValueRef fresh) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  const AbiValue *v = &e->f->outs[i];
  bool dynamic = e->h->outs[i].dynamic;
  LLVMValueRef m[3] = {str(e, e->name), str(e, v->name), NULL};
  fn_fail_if(fn, LLVMBuildICmp(fn->b, LLVMIntEQ, t, LLVMConstNull(cg->ptr), ""), ST_ARGUMENT,
             "%s: output '%s' is NULL", m, 2);
  LLVMValueRef data = dl_load(cg, fn->b, t, DL_DATA, cg->ptr);
  LLVMValueRef empty = LLVMBuildICmp(fn->b, LLVMIntEQ, data, LLVMConstNull(cg->ptr), "");
  LLVMBuildStore(fn->b, empty, fresh);
  Branch b = branch_open(fn, LLVMBuildNot(fn->b, empty, ""));
  check_tensor(e, v, "output", t);
  if (!dynamic && v->kind != ABI_PRIM) check_dims(e, v, "output", t);
  branch_close(fn, b);
  if (v->ndim != 0) {
    LLVMValueRef shape = dl_load(cg, fn->b, t, DL_SHAPE, cg->ptr);
    LLVMValueRef bad = LLVMBuildICmp(fn->b, LLVMIntEQ, shape, LLVMConstNull(cg->ptr), "");
    fn_fail_if(fn, LLVMBuildAnd(fn->b, bad, empty, ""), ST_ARGUMENT,
               "%s: output '%s': its shape is NULL", m, 2);
  }
}

/* The flags say which outputs have memory of ours, for the case of a failure. */
static void allocate_output(Entry *e, uint32_t i, LLVMValueRef *t, LLVMValueRef *fresh,
                            LLVMValueRef flags) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  const AbiValue *v = &e->f->outs[i];
  LLVMValueRef dims[MAX_RANK];
  uint32_t n = out_dims(e, v, dims);
  LLVMValueRef bytes = cg_i64(cg, (int64_t)dtype_bytes(v->dtype));
  LLVMValueRef negative = LLVMConstNull(cg->i1);
  for (uint32_t k = 0; k < n; k++) {
    bytes = cg_mul(fn->b, bytes, dims[k]);
    LLVMValueRef below = LLVMBuildICmp(fn->b, LLVMIntSLT, dims[k], cg_i64(cg, 0), "");
    negative = LLVMBuildOr(fn->b, negative, below, "");
  }
  /* Two negative dims, or one beside a 0, still have a product that looks like a size. */
  bytes = LLVMBuildSelect(fn->b, negative, cg_i64(cg, -1), bytes, "");
  Branch b = branch_open(fn, LLVMBuildLoad2(fn->b, cg->i1, fresh[i], ""));
  LLVMValueRef p = allocate(e, bytes);
  LLVMBasicBlockRef bad = fn_block(fn, "nomem"), good = fn_block(fn, "");
  LLVMBuildCondBr(fn->b, LLVMBuildICmp(fn->b, LLVMIntEQ, p, LLVMConstNull(cg->ptr), ""), bad, good);
  LLVMPositionBuilderAtEnd(fn->b, bad);
  if (!cg_has_runtime(cg)) cg_message(cg, fn->b, "out of memory", NULL, 0);
  dl_free_outputs(cg, fn->b, e->outs, flags);
  fn_return(fn, cg_i32(cg, ST_MEMORY));
  LLVMPositionBuilderAtEnd(fn->b, good);
  describe(e, t[i], dims, (int32_t)n, v->dtype);
  store_field(e, t[i], DL_DATA, p);
  LLVMValueRef at = cg_i64(cg, i), own = LLVMConstInt(cg->i8, 1, false);
  LLVMBuildStore(fn->b, own, LLVMBuildInBoundsGEP2(fn->b, cg->i8, flags, &at, 1, ""));
  branch_close(fn, b);
}

/* A result whose shape only the run knows: to the caller's buffer, or handed over. */
static void finish_dynamic(Entry *e, uint32_t i, LLVMValueRef t, LLVMValueRef fresh,
                           LLVMValueRef slot) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  const AbiValue *v = &e->f->outs[i];
  int32_t n = v->sinfo->ndim;
  LLVMValueRef dims[MAX_RANK], p = LLVMBuildLoad2(fn->b, cg->ptr, slot, "");
  LLVMValueRef bytes = cg_i64(cg, (int64_t)dtype_bytes(v->dtype));
  for (int32_t k = 0; k < n; k++) {
    LLVMValueRef at = cg_i64(cg, k + 1);
    dims[k] =
        LLVMBuildLoad2(fn->b, cg->i64, LLVMBuildInBoundsGEP2(fn->b, cg->i64, slot, &at, 1, ""), "");
    bytes = cg_mul(fn->b, bytes, dims[k]);
  }
  LLVMValueRef is_fresh = LLVMBuildLoad2(fn->b, cg->i1, fresh, "");
  Branch b = branch_open(fn, is_fresh);
  describe(e, t, dims, n, v->dtype);
  store_field(e, t, DL_DATA, p);
  branch_close(fn, b);
  b = branch_open(fn, LLVMBuildNot(fn->b, is_fresh, ""));
  LLVMValueRef shape = dl_load(cg, fn->b, t, DL_SHAPE, cg->ptr);
  for (int32_t k = 0; k < n; k++) {
    LLVMValueRef at = cg_i64(cg, k);
    LLVMValueRef got = LLVMBuildLoad2(fn->b, cg->i64,
                                      LLVMBuildInBoundsGEP2(fn->b, cg->i64, shape, &at, 1, ""), "");
    LLVMBasicBlockRef bad = fn_block(fn, "failed"), good = fn_block(fn, "");
    LLVMBuildCondBr(fn->b, LLVMBuildICmp(fn->b, LLVMIntNE, got, dims[k], ""), bad, good);
    LLVMPositionBuilderAtEnd(fn->b, bad);
    LLVMValueRef args[5] = {str(e, e->name), str(e, v->name), cg_i32(cg, k), dims[k], got};
    cg_message(cg, fn->b, "%s: output '%s': dim %d: expected %lld but got %lld", args, 5);
    release(e, p);
    fn_return(fn, cg_i32(cg, ST_SHAPE));
    LLVMPositionBuilderAtEnd(fn->b, good);
  }
  cg_memcpy(cg, fn->b, dl_data(cg, fn->b, t), p, bytes);
  release(e, p);
  branch_close(fn, b);
}

/* Loads the values that the internal function wants for one argument. */
static void pass_argument(Entry *e, uint32_t i, LLVMValueRef t, LLVMValueRef *args, uint32_t *k) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  const AbiValue *a = &e->f->args[i];
  LLVMValueRef p = dl_data(cg, fn->b, t);
  if (a->kind == ABI_PRIM) {
    LLVMValueRef v = LLVMBuildLoad2(fn->b, c_value_type(cg, a->dtype), p, "");
    LLVMSetAlignment(v, (unsigned)dtype_bytes(a->dtype));
    args[(*k)++] = to_register(e, a->dtype, v);
    return;
  }
  args[(*k)++] = p;
  if (!e->h->args[i].dynamic) return;
  LLVMValueRef shape = dl_load(cg, fn->b, t, DL_SHAPE, cg->ptr);
  for (int32_t d = 0; d < a->sinfo->ndim; d++) {
    LLVMValueRef at = cg_i64(cg, d);
    args[(*k)++] = LLVMBuildLoad2(fn->b, cg->i64,
                                  LLVMBuildInBoundsGEP2(fn->b, cg->i64, shape, &at, 1, ""), "");
  }
}

static void bind_dims(Entry *e, LLVMValueRef *ta) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  const AbiFunc *f = e->f;
  for (uint32_t i = 0; i < f->nargs; i++) {
    const AbiValue *a = &f->args[i];
    if (a->kind == ABI_TENSOR && a->sinfo->dims) bind_tensor_dims(e, a, ta[i]);
    if (a->kind == ABI_PRIM) {
      const Expr *x = a->sinfo->value;
      if (!x || x->kind != EXPR_VAR || map_hasp(&fn->vars, x->var)) continue;
      LLVMValueRef v =
          LLVMBuildLoad2(fn->b, c_value_type(cg, a->dtype), dl_data(cg, fn->b, ta[i]), "");
      LLVMSetAlignment(v, (unsigned)dtype_bytes(a->dtype));
      bind_prim_dim(e, a, to_register(e, a->dtype, v));
    }
    if (a->kind == ABI_SHAPE) {
      check_dims(e, a, "argument", ta[i]);
      check_shape_values(e, a, dl_data(cg, fn->b, ta[i]), true);
    }
  }
}

static bool shows_unbound_dim(Entry *e, const AbiValue *v) {
  for (int32_t i = 0; i < v->sinfo->ndim; i++) {
    const Expr *x = v->sinfo->dims[i];
    if (x->kind == EXPR_VAR && !map_hasp(&e->fn->vars, x->var)) return true;
  }
  return false;
}

/* Dims that only outputs show, as a prim_func may have: the caller gives them in the output's
 * shape, also when the data is to be allocated. */
static void bind_output_dims(Entry *e, LLVMValueRef *to) {
  Fn *fn = e->fn;
  Cg *cg = e->cg;
  for (uint32_t i = 0; i < e->f->nouts; i++) {
    const AbiValue *v = &e->f->outs[i];
    if (!shows_unbound_dim(e, v)) continue;
    LLVMValueRef m[2] = {str(e, e->name), str(e, v->name)};
    fn_fail_if(fn, LLVMBuildICmp(fn->b, LLVMIntEQ, to[i], LLVMConstNull(cg->ptr), ""), ST_ARGUMENT,
               "%s: output '%s' is NULL", m, 2);
    LLVMValueRef data = dl_load(cg, fn->b, to[i], DL_DATA, cg->ptr);
    LLVMValueRef given = LLVMBuildICmp(fn->b, LLVMIntNE, data, LLVMConstNull(cg->ptr), "");
    Branch b = branch_open(fn, given);
    check_tensor(e, v, "output", to[i]);
    branch_close(fn, b);
    LLVMValueRef shape = dl_load(cg, fn->b, to[i], DL_SHAPE, cg->ptr);
    fn_fail_if(fn, LLVMBuildICmp(fn->b, LLVMIntEQ, shape, LLVMConstNull(cg->ptr), ""), ST_ARGUMENT,
               "%s: output '%s': its shape is NULL", m, 2);
    bind_tensor_dims(e, v, to[i]);
  }
}

/* Per output the argument whose buffer it is, changed in place; -1: none. */
static LLVMValueRef in_place(Cg *cg, const AbiFunc *f) {
  LLVMValueRef *at = ARENA_ARRAY(cg->arena, LLVMValueRef, f->nouts + 1);
  for (uint32_t k = 0; k < f->nouts; k++) at[k] = cg_i32(cg, -1);
  for (uint32_t p = 0; p < f->nparams; p++)
    if (f->params[p].arg != ABI_ABSENT && f->params[p].out != ABI_ABSENT)
      at[f->params[p].out] = cg_i32(cg, (int32_t)f->params[p].arg);
  return constant(cg, LLVMConstArray2(cg->i32, at, f->nouts), "in_place");
}

static void dl_entry(Cg *cg, const AbiFunc *f, Host *h, LLVMValueRef arg_infos,
                     LLVMValueRef out_infos) {
  Fn fn;
  Entry e = {.cg = cg, .fn = &fn, .f = f, .h = h, .name = f->func->name};
  LLVMTypeRef types[4] = {cg->ptr, cg->i32, cg->ptr, cg->i32};
  const char *name = arena_printf(cg->arena, "%s_dl", f->symbol);
  LLVMValueRef ll = LLVMAddFunction(cg->mod, name, cg_fn_type(cg->i32, types, 4, false));
  cg_fn_attrs(cg, ll, &cg->target->variants[0]);
  host_fn_begin(&fn, cg, ll);
  LLVMValueRef args_p = LLVMGetParam(ll, 0), outs_p = LLVMGetParam(ll, 2);
  e.args = (DlValues){args_p, arg_infos, f->nargs};
  e.outs = (DlValues){outs_p, out_infos, f->nouts};
  check_count(&e, args_p, LLVMGetParam(ll, 1), f->nargs, "arguments");
  check_count(&e, outs_p, LLVMGetParam(ll, 3), f->nouts, "outputs");
  LLVMValueRef *ta = ARENA_ARRAY(fn.arena, LLVMValueRef, f->nargs + 1);
  LLVMValueRef *to = ARENA_ARRAY(fn.arena, LLVMValueRef, f->nouts + 1);
  LLVMValueRef *fresh = ARENA_ARRAY(fn.arena, LLVMValueRef, f->nouts + 1);
  for (uint32_t i = 0; i < f->nargs; i++) {
    ta[i] = element(&e, args_p, i);
    check_tensor(&e, &f->args[i], "argument", ta[i]);
  }
  for (uint32_t i = 0; i < f->nouts; i++) to[i] = element(&e, outs_p, i);
  bind_dims(&e, ta);
  if (f->prim) bind_output_dims(&e, to);
  for (uint32_t i = 0; i < f->func->ndims; i++)
    if (!map_hasp(&fn.vars, f->func->dims[i])) {
      cg_error(cg, f->func->span, "dim '%s' of '%s' is in no argument by itself",
               f->func->dims[i]->name, e.name);
      fn_bind(&fn, f->func->dims[i], (Binding){.def = dim_const(cg->c, 0)});
    }
  check_negative(&e);
  for (uint32_t i = 0; i < f->nargs; i++) {
    const AbiValue *a = &f->args[i];
    if (a->kind == ABI_TENSOR && a->sinfo->dims) check_dims(&e, a, "argument", ta[i]);
    if (a->kind == ABI_SHAPE) check_shape_values(&e, a, dl_data(cg, fn.b, ta[i]), false);
  }
  LLVMValueRef bytes = workspace_bytes(&e);
  for (uint32_t i = 0; i < f->nouts; i++) {
    fresh[i] = fn_alloca(&fn, cg->i1, 1, 1);
    prepare_output(&e, i, to[i], fresh[i]);
  }
  LLVMValueRef flags = NULL;
  if (f->nouts) {
    fn_check_status(&fn, dl_check_overlaps(cg, fn.b, e.name, e.outs, e.args, in_place(cg, f)));
    flags = fn_alloca(&fn, cg->i8, f->nouts, 1);
    LLVMBuildMemSet(fn.b, flags, LLVMConstNull(cg->i8), cg_i64(cg, f->nouts), 1);
  }
  uint32_t k = 0;
  LLVMValueRef *args = ARENA_ARRAY(fn.arena, LLVMValueRef, LLVMCountParamTypes(h->type) + 1);
  LLVMValueRef *slots = ARENA_ARRAY(fn.arena, LLVMValueRef, f->nouts + 1);
  for (uint32_t i = 0; i < f->nargs; i++) pass_argument(&e, i, ta[i], args, &k);
  for (uint32_t i = 0; i < f->nouts; i++) {
    if (h->outs[i].dynamic) {
      args[k++] = slots[i] = fn_alloca(&fn, cg->i64, 1 + (uint64_t)f->outs[i].sinfo->ndim, 8);
      continue;
    }
    allocate_output(&e, i, to, fresh, flags);
    args[k++] = dl_data(cg, fn.b, to[i]);
  }
  LLVMValueRef ws = cg_scratch_push(cg, fn.b, bytes);
  LLVMBasicBlockRef bad = fn_block(&fn, "nomem"), good = fn_block(&fn, "");
  LLVMBuildCondBr(fn.b, LLVMBuildICmp(fn.b, LLVMIntEQ, ws, LLVMConstNull(cg->ptr), ""), bad, good);
  LLVMPositionBuilderAtEnd(fn.b, bad);
  if (!cg_has_runtime(cg)) cg_message(cg, fn.b, "out of memory", NULL, 0);
  if (flags) dl_free_outputs(cg, fn.b, e.outs, flags);
  fn_return(&fn, cg_i32(cg, ST_MEMORY));
  LLVMPositionBuilderAtEnd(fn.b, good);
  dim_args(&e, args, &k);
  args[k++] = ws;
  LLVMValueRef status = host_call(&fn, h, args, k, NULL);
  cg_scratch_pop(cg, fn.b, ws);
  bad = fn_block(&fn, "failed");
  good = fn_block(&fn, "");
  LLVMBuildCondBr(fn.b, LLVMBuildICmp(fn.b, LLVMIntNE, status, cg_i32(cg, 0), ""), bad, good);
  LLVMPositionBuilderAtEnd(fn.b, bad);
  if (flags) dl_free_outputs(cg, fn.b, e.outs, flags);
  fn_return(&fn, status);
  LLVMPositionBuilderAtEnd(fn.b, good);
  for (uint32_t i = 0; i < f->nouts; i++)
    if (h->outs[i].dynamic) finish_dynamic(&e, i, to[i], fresh[i], slots[i]);
  fn_return(&fn, cg_i32(cg, 0));
  host_fn_end(&fn);
}

/* ---- info ---- */

static LLVMValueRef dim_texts(Cg *cg, const AbiValue *v) {
  LLVMValueRef null = LLVMConstNull(cg->ptr);
  if (v->kind == ABI_SHAPE) {
    LLVMValueRef s = cg_string(cg, arena_printf(cg->arena, "%d", v->sinfo->ndim));
    return v->sinfo->ndim < 0 ? null : constant(cg, LLVMConstArray2(cg->ptr, &s, 1), "info.dims");
  }
  if (v->kind != ABI_TENSOR || !v->sinfo->dims || v->ndim <= 0) return null;
  LLVMValueRef at[MAX_RANK];
  for (int32_t i = 0; i < v->ndim && i < MAX_RANK; i++) {
    Text t = {0};
    shape_dim_print(&t, v->sinfo->dims[i]);
    at[i] = cg_string(cg, text_cstr(&t));
    text_free(&t);
  }
  return constant(cg, LLVMConstArray2(cg->ptr, at, (uint64_t)v->ndim), "info.dims");
}

static LLVMValueRef value_infos(Cg *cg, const AbiValue *v, uint32_t n) {
  if (!n) return LLVMConstNull(cg->ptr);
  LLVMValueRef *at = ARENA_ARRAY(cg->arena, LLVMValueRef, n);
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef f[5] = {cg_string(cg, v[i].name), cg_i32(cg, (int32_t)v[i].kind),
                         cg_i32(cg, v[i].ndim), cg_i32(cg, (int32_t)dl_dtype_word(v[i].dtype)),
                         dim_texts(cg, &v[i])};
    at[i] = LLVMConstStructInContext(cg->lc, f, 5, false);
  }
  return constant(cg, LLVMConstArray2(LLVMTypeOf(at[0]), at, n), "info.values");
}

static void info_entry(Cg *cg, const AbiFunc *f, LLVMValueRef args, LLVMValueRef outs) {
  LLVMValueRef dims = LLVMConstNull(cg->ptr);
  if (f->ndims) {
    LLVMValueRef *at = ARENA_ARRAY(cg->arena, LLVMValueRef, f->ndims);
    for (uint32_t i = 0; i < f->ndims; i++) at[i] = cg_string(cg, f->dims[i]->name);
    dims = constant(cg, LLVMConstArray2(cg->ptr, at, f->ndims), "info.names");
  }
  LLVMValueRef v[9] = {cg_string(cg, f->func->name),
                       cg_string(cg, abi_signature(cg->arena, f)),
                       cg_i32(cg, (int32_t)f->nargs),
                       cg_i32(cg, (int32_t)f->nouts),
                       args,
                       outs,
                       cg_i32(cg, (int32_t)f->ndims),
                       dims,
                       cg_i32(cg, f->plain)};
  LLVMValueRef info = constant(cg, LLVMConstStructInContext(cg->lc, v, 9, false), "info");
  const char *name = arena_printf(cg->arena, "%s_info", f->symbol);
  LLVMValueRef ll = LLVMAddFunction(cg->mod, name, cg_fn_type(cg->ptr, NULL, 0, false));
  cg_fn_attrs(cg, ll, &cg->target->variants[0]);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(cg->lc);
  LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(cg->lc, ll, ""));
  LLVMBuildRet(b, info);
  LLVMDisposeBuilder(b);
}

void entry_emit_all(Cg *cg) {
  for (uint32_t i = 0; i < cg->abi.n && !cg->failed; i++) {
    const AbiFunc *f = cg->abi.funcs[i];
    Host *h = host_get(cg, f->func);
    h->abi = f->prim ? f : NULL;
    if (cg->failed) return;
    for (uint32_t k = 0; k < f->nouts; k++)
      if (f->outs[k].sinfo->ndim > MAX_RANK) {
        cg_error(cg, f->func->span, "a result of '%s' has too many dims", f->func->name);
        return;
      }
    if (f->plain) {
      plain_entry(cg, f, h, false);
      plain_entry(cg, f, h, true);
      workspace_entry(cg, f, h);
    }
    LLVMValueRef args = value_infos(cg, f->args, f->nargs);
    LLVMValueRef outs = value_infos(cg, f->outs, f->nouts);
    dl_entry(cg, f, h, args, outs);
    info_entry(cg, f, args, outs);
  }
  if (!cg_has_runtime(cg) && !cg->failed) dl_define_runtime(cg);
}
