/* prim_funcs as LLVM functions: signatures, definition, calls, and the few calls into the runtime.
 *
 * i32 name(parameters..., i64 dims..., [ptr result]): buffers are noalias pointers, or a list of
 * them in memory when there are many; scalars are passed in registers. Names get a dot, so that no
 * C symbol can meet them.
 */
#include "codegen/llvm/cg.h"

#include <stdio.h>

static bool is_listed(const PrimFunc *f) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->nparams; i++) n += f->param_bufs[i] != NULL;
  return n > MAX_BUFFER_ARGS;
}

static LLVMTypeRef kernel_type(Cg *cg, const PrimFunc *f) {
  uint32_t n = 0;
  bool listed = is_listed(f);
  LLVMTypeRef *types = ARENA_ARRAY(cg->arena, LLVMTypeRef, f->nparams + f->ndims + 2);
  if (listed) types[n++] = cg->ptr;
  for (uint32_t i = 0; i < f->nparams; i++) {
    if (f->param_bufs[i] && listed) continue;
    types[n++] = f->param_bufs[i] ? cg->ptr : cg_reg_type(cg, f->params[i]->dtype);
  }
  for (uint32_t i = 0; i < f->ndims; i++) types[n++] = cg->i64;
  if (dtype_known(f->ret)) types[n++] = cg->ptr;
  return cg_fn_type(cg->i32, types, n, false);
}

bool is_in_place(const PrimFunc *f, uint32_t param) {
  const Attr *l = attr_get(f->attrs, "relaxc.in_place");
  for (uint32_t i = 0; l && l->kind == ATTR_LIST && i < l->n; i++)
    if (l->items[i]->kind == ATTR_INT && l->items[i]->i == (int64_t)param) return true;
  return false;
}

static LLVMValueRef declare(Cg *cg, const PrimFunc *f, const char *base, const Variant *v,
                            LLVMTypeRef type) {
  const char *name = arena_printf(cg->arena, "%s.%s", base, v->name);
  LLVMValueRef fn = LLVMAddFunction(cg->mod, name, type);
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  cg_fn_attrs(cg, fn, v);
  cg_attr(cg, fn, LLVMAttributeFunctionIndex, "noinline", 0);
  for (uint32_t i = 0; i < f->nparams && !is_listed(f); i++)
    if (f->param_bufs[i] && !is_in_place(f, i)) cg_attr(cg, fn, i + 1, "noalias", 0);
  return fn;
}

typedef struct {
  Cg *cg;
  bool fails;
} FailScan;

static bool expr_fails(const Expr *e, void *ctx) {
  FailScan *s = ctx;
  if (e->kind == EXPR_CALL_FUNC) s->fails = true;
  return !s->fails;
}
static void scan_expr(const Expr *e, void *ctx) {
  expr_walk(e, expr_fails, ctx);
}

static bool is_small(Cg *cg, const Buffer *b) {
  int64_t n = (int64_t)dtype_bytes(b->dtype), k;
  if (b->strides || b->elem_offset) return false;
  for (uint32_t i = 0; i < b->ndim; i++) {
    if (!expr_const_int(cg->c, b->shape[i], &k) || k > MAX_STACK_BYTES) return false;
    n *= k;
    if (n > MAX_STACK_BYTES) return false;
  }
  return true;
}

static bool stmt_fails(const Stmt *s, void *ctx) {
  FailScan *x = ctx;
  if (s->kind == STMT_ASSERT) x->fails = true;
  if (s->kind == STMT_FOR && s->loop.kind == FOR_PARALLEL) x->fails = true;
  if ((s->kind == STMT_ALLOC || s->kind == STMT_DECL) && !is_small(x->cg, s->alloc.buf))
    x->fails = true;
  stmt_exprs(s, scan_expr, x);
  return !x->fails;
}

static bool can_fail(Cg *cg, const PrimFunc *f) {
  FailScan s = {cg, false};
  stmt_walk(f->body, stmt_fails, &s);
  return s.fails;
}

/* The prim_func that computes f on variant i, or NULL. */
static const PrimFunc *variant_of(Cg *cg, const PrimFunc *f, uint32_t i) {
  module_each(cg->m, g) {
    if (g->kind != GLOBAL_PRIM) continue;
    const char *of = attr_get_str(g->prim->attrs, "relaxc.variant_of", NULL);
    const char *name = attr_get_str(g->prim->attrs, "relaxc.variant", NULL);
    if (of && name && strcmp(of, f->name) == 0 && strcmp(name, cg->target->variants[i].name) == 0)
      return g->prim;
  }
  return NULL;
}

static void define(Cg *cg, const PrimFunc *f, const Variant *v, LLVMValueRef fn);

/* A kernel that does the same, in all variants; networks repeat their layers. */
static Kernel *find_equal(Cg *cg, const PrimFunc *f, uint64_t hash) {
  for (uint32_t i = 0; i < cg->by_order.n; i++) {
    Kernel *k = cg->by_order.at[i];
    if (k->hash != hash || !primfunc_equal(k->f, f)) continue;
    bool same = true;
    for (uint32_t v = 1; v < cg->target->nvariants && same; v++) {
      const PrimFunc *a = variant_of(cg, k->f, v), *b = variant_of(cg, f, v);
      same = a && b ? primfunc_equal(a, b) : a == b;
    }
    if (same) return k;
  }
  return NULL;
}

Kernel *kernel_get(Cg *cg, const PrimFunc *f) {
  Kernel *k = map_getp(&cg->kernels, f);
  if (k) return k;
  uint64_t hash = primfunc_hash(f);
  k = find_equal(cg, f, hash);
  if (k) {
    map_setp(&cg->kernels, f, k);
    return k;
  }
  k = ARENA_NEW(cg->arena, Kernel);
  k->f = f;
  k->hash = hash;
  vec_push(cg->arena, &cg->by_order, k);
  k->type = kernel_type(cg, f);
  k->can_fail = can_fail(cg, f);
  k->listed = is_listed(f);
  k->n = 1;
  map_setp(&cg->kernels, f, k);
  k->fns[0] = declare(cg, f, f->name, &cg->target->variants[0], k->type);
  for (uint32_t i = 1; i < cg->target->nvariants; i++) {
    const PrimFunc *p = variant_of(cg, f, i);
    k->fns[i] = p ? declare(cg, p, f->name, &cg->target->variants[i], k->type) : k->fns[i - 1];
    if (p) {
      k->n = cg->target->nvariants;
      k->can_fail |= can_fail(cg, p);
    }
  }
  if (k->n > 1) {
    LLVMValueRef init = LLVMConstArray2(cg->ptr, k->fns, k->n);
    k->table =
        LLVMAddGlobal(cg->mod, LLVMTypeOf(init), arena_printf(cg->arena, "%s.variants", f->name));
    LLVMSetInitializer(k->table, init);
    LLVMSetGlobalConstant(k->table, true);
    LLVMSetLinkage(k->table, LLVMInternalLinkage);
  }
  vec_push(cg->arena, &cg->todo, k);
  return k;
}

void kernel_move(Cg *from, Cg *to, Kernel *k) {
  for (uint32_t v = 0; v < k->n; v++) {
    LLVMValueRef fn = k->fns[v];
    if (v && fn == k->fns[v - 1]) continue;
    size_t n;
    const char *name = LLVMGetValueName2(fn, &n);
    name = arena_printf(from->arena, "%s.%.*s", from->opt->prefix, (int)n, name);
    LLVMSetValueName2(fn, name, strlen(name));
    const PrimFunc *f = v ? variant_of(from, k->f, v) : k->f;
    LLVMValueRef copy = declare(to, f, name, &from->target->variants[v], kernel_type(to, f));
    LLVMSetValueName2(copy, name, strlen(name));
    LLVMValueRef both[2] = {fn, copy};
    for (int i = 0; i < 2; i++) {
      LLVMSetLinkage(both[i], LLVMExternalLinkage);
      LLVMSetVisibility(both[i], LLVMHiddenVisibility);
    }
    define(to, f, &from->target->variants[v], copy);
  }
}

void kernel_define_all(Cg *cg) {
  for (uint32_t i = 0; i < cg->todo.n && !cg->failed; i++) {
    Kernel *k = cg->todo.at[i];
    define(cg, k->f, &cg->target->variants[0], k->fns[0]);
    for (uint32_t v = 1; v < k->n; v++)
      if (k->fns[v] != k->fns[v - 1])
        define(cg, variant_of(cg, k->f, v), &cg->target->variants[v], k->fns[v]);
  }
  cg->todo.n = 0;
}

/* Types that code can compute with. */
static bool computable(DType d) {
  switch (d.code) {
  case DTYPE_INT:
  case DTYPE_UINT:
    return d.bits == 0 || d.bits == 8 || d.bits == 16 || d.bits == 32 || d.bits == 64;
  case DTYPE_FLOAT: return d.bits == 16 || d.bits == 32 || d.bits == 64;
  case DTYPE_BFLOAT: return d.bits == 16;
  case DTYPE_BOOL:
  case DTYPE_HANDLE: return true;
  case DTYPE_E4M3FN:
  case DTYPE_E5M2: return d.bits == 8;
  default: return false;
  }
}

typedef struct {
  Cg *cg;
  Span span;
} TypeScan;

static bool check_node(const Expr *e, void *ctx) {
  TypeScan *s = ctx;
  if (computable(e->dtype)) return true;
  cg_error(s->cg, s->span, "values of type %s can't be computed with in compiled code",
           dtype_name(dtype_scalar(e->dtype)));
  return false;
}
static void check_expr(const Expr *e, void *ctx) {
  TypeScan *s = ctx;
  if (!s->cg->failed) expr_walk(e, check_node, ctx);
}
static bool check_stmt(const Stmt *st, void *ctx) {
  TypeScan *s = ctx;
  if (st->span.file) s->span = st->span;
  stmt_exprs(st, check_expr, ctx);
  return !s->cg->failed;
}

/* Data variables of the parameters that f only reads. */
static Map *find_only_read(Arena *a, const PrimFunc *f) {
  const uint8_t *access = primfunc_access(a, f);
  Map *r = ARENA_NEW(a, Map);
  map_init(r, a);
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->param_bufs[i] && access[i] == ACCESS_READ)
      map_setp(r, f->param_bufs[i]->data, f->param_bufs[i]);
  return r;
}

static void define(Cg *cg, const PrimFunc *f, const Variant *v, LLVMValueRef llfn) {
  TypeScan types = {cg, f->span};
  stmt_walk(f->body, check_stmt, &types);
  if (cg->failed) return;

  Fn in = {.cg = cg, .c = cg->c, .arena = arena_create(), .f = f, .v = v, .fn = llfn};
  Fn *fn = &in;
  fn->span = f->span;
  fn->b = LLVMCreateBuilderInContext(cg->lc);
  map_init(&fn->vars, fn->arena);
  map_init(&fn->promoted, fn->arena);
  fn->only_read = find_only_read(fn->arena, f);
  fn->entry = fn_block(fn, "entry");
  LLVMBasicBlockRef start = fn_block(fn, "");
  debug_function(fn, f->name, f->span);
  LLVMPositionBuilderAtEnd(fn->b, fn->entry);
  fn->entry_end = LLVMBuildBr(fn->b, start);
  LLVMPositionBuilderAtEnd(fn->b, start);
  fn_scope_push(fn, NULL);
  uint32_t n = 0, listed = 0;
  if (is_listed(f)) fn->list = LLVMGetParam(llfn, n++);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Var *var = f->params[i];
    if (fn->list && f->param_bufs[i]) {
      Binding in_list = {.level = 0, .listed = ++listed};
      fn_bind(fn, f->param_bufs[i]->data, in_list);
      if (var != f->param_bufs[i]->data) fn_bind(fn, var, in_list);
      continue;
    }
    LLVMValueRef p = LLVMGetParam(llfn, n++);
    Binding b = {.val = p, .level = 0};
    LLVMSetValueName2(p, var->name, strlen(var->name));
    if (f->param_bufs[i]) {
      fn_bind(fn, f->param_bufs[i]->data, b);
      if (var != f->param_bufs[i]->data) fn_bind(fn, var, b);
      continue;
    }
    DType d = var->dtype;
    if (dtype_is_sint(d))
      b.idx = d.bits == 64 ? p : LLVMBuildSExt(fn->b, p, cg->i64, "");
    else if (dtype_is_uint(d) || dtype_is_bool(d))
      b.idx = d.bits == 64 ? p : LLVMBuildZExt(fn->b, p, cg->i64, "");
    fn_bind(fn, var, b);
  }
  for (uint32_t i = 0; i < f->ndims; i++) {
    LLVMValueRef p = LLVMGetParam(llfn, n++);
    LLVMSetValueName2(p, f->dims[i]->name, strlen(f->dims[i]->name));
    fn_bind(fn, f->dims[i], (Binding){.idx = p, .level = 0});
  }
  if (dtype_known(f->ret)) fn->ret = LLVMGetParam(llfn, n);
  fn_analyse(fn, f->body);
  streaming_body(fn);
  if (!fn->dead) fn_return(fn, LLVMConstNull(cg->i32));
  LLVMDisposeBuilder(fn->b);
  arena_free(fn->arena);
}

/* Stores the buffers among args in a list on the stack of b's function; gives what k takes. */
static LLVMValueRef *list_args(Cg *cg, LLVMBuilderRef b, const Kernel *k, LLVMValueRef *args,
                               unsigned *n) {
  const PrimFunc *f = k->f;
  LLVMValueRef *out = ARENA_ARRAY(cg->arena, LLVMValueRef, *n + 1);
  unsigned to = 1, at = 0;
  LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(LLVMGetInsertBlock(b)));
  LLVMBuilderRef first = LLVMCreateBuilderInContext(cg->lc);
  LLVMValueRef start = LLVMGetFirstInstruction(entry);
  if (start)
    LLVMPositionBuilderBefore(first, start);
  else
    LLVMPositionBuilderAtEnd(first, entry);
  out[0] = LLVMBuildArrayAlloca(first, cg->ptr, cg_i64(cg, f->nparams), "");
  LLVMDisposeBuilder(first);
  for (unsigned i = 0; i < *n; i++) {
    if (i >= f->nparams || !f->param_bufs[i]) {
      out[to++] = args[i];
      continue;
    }
    LLVMValueRef off = cg_i64(cg, at++);
    LLVMBuildStore(b, args[i], LLVMBuildInBoundsGEP2(b, cg->ptr, out[0], &off, 1, ""));
  }
  *n = to;
  return out;
}

LLVMValueRef kernel_call(Cg *cg, LLVMBuilderRef b, Kernel *k, int variant, LLVMValueRef *args,
                         unsigned n) {
  if (k->listed) args = list_args(cg, b, k, args, &n);
  if (k->n == 1) return LLVMBuildCall2(b, k->type, k->fns[0], args, n, "");
  if (variant >= 0) return LLVMBuildCall2(b, k->type, k->fns[variant], args, n, "");
  LLVMValueRef at = variant_index(cg, b);
  LLVMValueRef p = LLVMBuildInBoundsGEP2(b, cg->ptr, k->table, &at, 1, "");
  LLVMValueRef f = LLVMBuildLoad2(b, cg->ptr, p, "");
  return LLVMBuildCall2(b, k->type, f, args, n, "");
}

LLVMValueRef kernel_call_host(Cg *cg, LLVMBuilderRef b, const char *function, Kernel *k,
                              LLVMValueRef *args, unsigned n) {
  if (!cg->opt->profile || !cg_has_runtime(cg)) return kernel_call(cg, b, k, -1, args, n);
  LLVMTypeRef begin = cg_fn_type(cg->i64, NULL, 0, false);
  LLVMTypeRef types[3] = {cg->ptr, cg->ptr, cg->i64};
  LLVMTypeRef end = cg_fn_type(cg->void_t, types, 3, false);
  LLVMValueRef told[3] = {
      cg_string(cg, function), cg_string(cg, k->f->name),
      LLVMBuildCall2(b, begin, cg_extern(cg, "rx_profile_begin", begin), NULL, 0, "")};
  LLVMValueRef status = kernel_call(cg, b, k, -1, args, n);
  LLVMBuildCall2(b, end, cg_extern(cg, "rx_profile_end", end), told, 3, "");
  return status;
}

void cg_message(Cg *cg, LLVMBuilderRef b, const char *fmt, LLVMValueRef const *args, uint32_t n) {
  LLVMTypeRef bt = cg_fn_type(cg->ptr, NULL, 0, false);
  LLVMTypeRef st[3] = {cg->ptr, cg->i64, cg->ptr};
  LLVMTypeRef sn = cg_fn_type(cg->i32, st, 3, true);
  LLVMValueRef all[16];
  if (n > 13) bug("a message with %u values", n);
  all[0] = LLVMBuildCall2(b, bt, cg_extern(cg, "rx_error_buffer", bt), NULL, 0, "");
  all[1] = cg_i64(cg, ERROR_SIZE);
  all[2] = cg_string(cg, fmt);
  for (uint32_t i = 0; i < n; i++) all[3 + i] = args[i];
  LLVMBuildCall2(b, sn, cg_extern(cg, "snprintf", sn), all, n + 3, "");
}

LLVMValueRef cg_scratch_push(Cg *cg, LLVMBuilderRef b, LLVMValueRef bytes) {
  if (cg_has_runtime(cg)) {
    LLVMTypeRef t = cg_fn_type(cg->ptr, &cg->i64, 1, false);
    return LLVMBuildCall2(b, t, cg_extern(cg, "rx_workspace_push", t), &bytes, 1, "");
  }
  /* aligned_alloc wants a multiple of the alignment; never 0, so that NULL means no memory. */
  LLVMTypeRef types[2] = {cg->i64, cg->i64}, t = cg_fn_type(cg->ptr, types, 2, false);
  LLVMValueRef up = LLVMBuildAdd(b, bytes, cg_i64(cg, 64), "");
  up = LLVMBuildAnd(b, up, cg_i64(cg, -64), "");
  LLVMValueRef args[2] = {cg_i64(cg, 64), up};
  return LLVMBuildCall2(b, t, cg_extern(cg, "aligned_alloc", t), args, 2, "");
}

void cg_scratch_pop(Cg *cg, LLVMBuilderRef b, LLVMValueRef p) {
  LLVMTypeRef t = cg_fn_type(cg->void_t, &cg->ptr, 1, false);
  const char *name = cg_has_runtime(cg) ? "rx_workspace_pop" : "free";
  LLVMBuildCall2(b, t, cg_extern(cg, name, t), &p, 1, "");
}
