/* Intrinsics of the tensor level, and calls of prim_funcs and C functions from one.
 *
 * Float math goes to math.c; half types compute in float32 and round once.
 */
#include "codegen/llvm/cg.h"

#include <math.h>
#include <stdio.h>

static bool is_half(DType d) {
  return dtype_is_float(d) && d.bits <= 16;
}

static LLVMValueRef undef_of(Fn *fn, const Expr *e) {
  LLVMTypeRef t = cg_reg_type(fn->cg, e->dtype);
  return LLVMConstNull(t == fn->cg->void_t ? fn->cg->i32 : t);
}

static LLVMValueRef float_math(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  LLVMValueRef args[4];
  uint32_t n = e->n > 4 ? 4 : e->n, lanes = 1;
  DType d = e->dtype;
  for (uint32_t i = 0; i < n; i++) {
    args[i] = fn_expr(fn, e->arg[i]);
    if (cg_lanes(args[i]) > lanes) lanes = cg_lanes(args[i]);
  }
  for (uint32_t i = 0; i < n; i++) {
    if (is_half(e->arg[i]->dtype))
      args[i] = half_to_f32(cg, fn->b, fn->v, e->arg[i]->dtype, args[i]);
    if (cg_lanes(args[i]) == 1) args[i] = cg_splat(cg, fn->b, args[i], lanes);
  }
  LLVMValueRef r = NULL;
  if (dtype_is_float(d) && (is_half(d) || d.bits >= 32))
    r = math_call(cg, fn->b, fn->v, (IntrinId)e->intrin, args, n);
  if (!r) {
    cg_error(cg, fn->span, "T.%s on type %s can't be compiled", intrin_table[e->intrin].name,
             dtype_name(d));
    return undef_of(fn, e);
  }
  return is_half(d) ? half_from_f32(cg, fn->b, fn->v, d, r) : r;
}

/* x^n for integers, as a small function with a loop: n < 0 gives 0 but for x = 1 and -1. */
static LLVMValueRef int_pow_fn(Cg *cg, LLVMTypeRef t, LLVMTypeRef *type) {
  char name[32];
  snprintf(name, sizeof name, "rx.ipow.i%u", LLVMGetIntTypeWidth(t));
  LLVMTypeRef args[2] = {t, t};
  *type = cg_fn_type(t, args, 2, false);
  LLVMValueRef f = LLVMGetNamedFunction(cg->mod, name);
  if (f) return f;
  f = LLVMAddFunction(cg->mod, name, *type);
  LLVMSetLinkage(f, LLVMInternalLinkage);
  cg_fn_attrs(cg, f, &cg->target->variants[0]);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(cg->lc);
  LLVMValueRef x = LLVMGetParam(f, 0), n = LLVMGetParam(f, 1);
  LLVMValueRef zero = LLVMConstNull(t), one = LLVMConstInt(t, 1, false);
  LLVMBasicBlockRef in = LLVMAppendBasicBlockInContext(cg->lc, f, "");
  LLVMBasicBlockRef head = LLVMAppendBasicBlockInContext(cg->lc, f, "");
  LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(cg->lc, f, "");
  LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(cg->lc, f, "");
  LLVMPositionBuilderAtEnd(b, in);
  LLVMValueRef neg = LLVMBuildICmp(b, LLVMIntSLT, n, zero, "");
  LLVMValueRef odd = LLVMBuildAnd(b, n, one, "");
  LLVMValueRef unit = LLVMBuildICmp(b, LLVMIntEQ, x, one, "");
  unit = LLVMBuildOr(b, unit, LLVMBuildICmp(b, LLVMIntEQ, x, LLVMConstAllOnes(t), ""), "");
  /* For x = +-1 only the parity of n counts. */
  LLVMValueRef n0 = LLVMBuildSelect(b, unit, odd, n, "");
  LLVMValueRef r0 =
      LLVMBuildSelect(b, LLVMBuildAnd(b, neg, LLVMBuildNot(b, unit, ""), ""), zero, one, "");
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, head);
  LLVMValueRef pn = LLVMBuildPhi(b, t, ""), px = LLVMBuildPhi(b, t, ""),
               pr = LLVMBuildPhi(b, t, "");
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSGT, pn, zero, ""), body, end);
  LLVMPositionBuilderAtEnd(b, body);
  LLVMValueRef bit = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, pn, one, ""), zero, "");
  LLVMValueRef r1 = LLVMBuildSelect(b, bit, LLVMBuildMul(b, pr, px, ""), pr, "");
  LLVMValueRef x1 = LLVMBuildMul(b, px, px, ""), n1 = LLVMBuildLShr(b, pn, one, "");
  LLVMBuildBr(b, head);
  LLVMBasicBlockRef from[2] = {in, body};
  LLVMValueRef vn[2] = {n0, n1}, vx[2] = {x, x1}, vr[2] = {r0, r1};
  LLVMAddIncoming(pn, vn, from, 2);
  LLVMAddIncoming(px, vx, from, 2);
  LLVMAddIncoming(pr, vr, from, 2);
  LLVMPositionBuilderAtEnd(b, end);
  LLVMBuildRet(b, pr);
  LLVMDisposeBuilder(b);
  return f;
}

static LLVMValueRef int_pow(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  LLVMTypeRef type;
  LLVMValueRef f = int_pow_fn(cg, cg_reg_type(cg, dtype_scalar(e->dtype)), &type);
  LLVMValueRef x = fn_expr(fn, e->arg[0]), y = fn_expr(fn, e->arg[1]);
  uint32_t n = e->dtype.lanes;
  if (n == 1) {
    LLVMValueRef args[2] = {x, y};
    return LLVMBuildCall2(fn->b, type, f, args, 2, "");
  }
  x = cg_lanes(x) == 1 ? cg_splat(cg, fn->b, x, n) : x;
  y = cg_lanes(y) == 1 ? cg_splat(cg, fn->b, y, n) : y;
  LLVMValueRef r = LLVMGetPoison(LLVMTypeOf(x));
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef at = LLVMConstInt(cg->i64, i, false);
    LLVMValueRef args[2] = {LLVMBuildExtractElement(fn->b, x, at, ""),
                            LLVMBuildExtractElement(fn->b, y, at, "")};
    r = LLVMBuildInsertElement(fn->b, r, LLVMBuildCall2(fn->b, type, f, args, 2, ""), at, "");
  }
  return r;
}

/* Lanes combined by halving: lane i with lane i + L/2, and so on. */
static LLVMValueRef reduce(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  LLVMBuilderRef b = fn->b;
  DType d = dtype_scalar(e->arg[0]->dtype);
  LLVMValueRef v = fn_expr(fn, e->arg[0]);
  if (dtype_is_bool(d)) {
    LLVMTypeRef t = LLVMTypeOf(v);
    const char *name =
        e->intrin == INTRIN_vector_reduce_min ? "llvm.vector.reduce.and" : "llvm.vector.reduce.or";
    return cg_intrinsic(cg, b, name, &t, 1, &v, 1);
  }
  if (is_half(d)) v = half_to_f32(cg, b, fn->v, d, v);
  bool fl = dtype_is_float(d), sgn = dtype_is_sint(d);
  for (uint32_t n = cg_lanes(v); n > 1; n /= 2) {
    if (n & 1) {
      cg_error(cg, fn->span, "T.%s needs a power of two of lanes", intrin_table[e->intrin].name);
      return undef_of(fn, e);
    }
    uint32_t h = n / 2;
    LLVMValueRef part[2];
    for (uint32_t k = 0; k < 2; k++) {
      if (h == 1) {
        part[k] = LLVMBuildExtractElement(b, v, LLVMConstInt(cg->i64, k, false), "");
        continue;
      }
      LLVMValueRef *at = ARENA_ARRAY(fn->arena, LLVMValueRef, h);
      for (uint32_t i = 0; i < h; i++) at[i] = cg_i32(cg, (int32_t)(i + k * h));
      part[k] =
          LLVMBuildShuffleVector(b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(at, h), "");
    }
    LLVMValueRef x = part[0], y = part[1];
    if (e->intrin == INTRIN_vector_reduce_add) {
      v = fl ? LLVMBuildFAdd(b, x, y, "") : LLVMBuildAdd(b, x, y, "");
      continue;
    }
    if (e->intrin == INTRIN_vector_reduce_mul) {
      v = fl ? LLVMBuildFMul(b, x, y, "") : LLVMBuildMul(b, x, y, "");
      continue;
    }
    bool nan = e->intrin == INTRIN_vector_reduce_max || e->intrin == INTRIN_vector_reduce_min;
    bool max = e->intrin == INTRIN_vector_reduce_max || e->intrin == INTRIN_vector_reduce_maxnum;
    if (!fl) {
      LLVMIntPredicate p = max ? (sgn ? LLVMIntSGT : LLVMIntUGT) : (sgn ? LLVMIntSLT : LLVMIntULT);
      v = LLVMBuildSelect(b, LLVMBuildICmp(b, p, x, y, ""), x, y, "");
      continue;
    }
    LLVMValueRef c = LLVMBuildFCmp(b, max ? LLVMRealOGT : LLVMRealOLT, y, x, "");
    LLVMValueRef r = LLVMBuildSelect(b, c, y, x, "");
    v = nan ? LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealUNO, y, y, ""), y, r, "") : r;
  }
  return is_half(d) ? half_from_f32(cg, b, fn->v, d, v) : v;
}

static LLVMValueRef abs_value(Fn *fn, const Expr *e) {
  LLVMValueRef x = fn_expr(fn, e->arg[0]);
  LLVMTypeRef t = LLVMTypeOf(x);
  if (is_half(e->dtype))
    return LLVMBuildAnd(
        fn->b, x, cg_splat(fn->cg, fn->b, LLVMConstInt(fn->cg->i16, 0x7fff, 0), e->dtype.lanes),
        "");
  if (dtype_is_float(e->dtype)) return cg_intrinsic(fn->cg, fn->b, "llvm.fabs", &t, 1, &x, 1);
  if (!dtype_is_sint(e->dtype)) return x;
  LLVMValueRef neg = LLVMBuildSub(fn->b, LLVMConstNull(t), x, "");
  return LLVMBuildSelect(fn->b, LLVMBuildICmp(fn->b, LLVMIntSLT, x, LLVMConstNull(t), ""), neg, x,
                         "");
}

/* isnan, isinf, isfinite. Integers are always finite. */
static LLVMValueRef classify(Fn *fn, const Expr *e) {
  LLVMValueRef x = fn_expr(fn, e->arg[0]);
  DType d = e->arg[0]->dtype;
  LLVMBuilderRef b = fn->b;
  if (!dtype_is_float(d)) {
    LLVMTypeRef t = cg_vec(fn->cg->i1, cg_lanes(x));
    return e->intrin == INTRIN_isfinite ? LLVMConstAllOnes(t) : LLVMConstNull(t);
  }
  if (is_half(d)) x = half_to_f32(fn->cg, b, fn->v, d, x);
  if (e->intrin == INTRIN_isnan) return LLVMBuildFCmp(b, LLVMRealUNO, x, x, "");
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef a = cg_intrinsic(fn->cg, b, "llvm.fabs", &t, 1, &x, 1);
  LLVMTypeRef el = cg_lanes(x) > 1 ? LLVMGetElementType(t) : t;
  LLVMValueRef inf = cg_splat(fn->cg, b, LLVMConstReal(el, INFINITY), cg_lanes(x));
  return LLVMBuildFCmp(b, e->intrin == INTRIN_isinf ? LLVMRealOEQ : LLVMRealOLT, a, inf, "");
}

static LLVMValueRef limit_value(Fn *fn, const Expr *e) {
  DType d = dtype_scalar(e->dtype);
  Cg *cg = fn->cg;
  LLVMTypeRef t = cg_reg_type(cg, d);
  LLVMValueRef v;
  bool min = e->intrin == INTRIN_min_value;
  if (dtype_is_float(d)) {
    double x = d.code == DTYPE_BFLOAT ? 3.38953138925153547590e38
               : d.bits == 16         ? 65504.0
               : d.bits == 32         ? 3.40282346638528859812e38
                                      : 1.79769313486231570815e308;
    if (e->intrin == INTRIN_infinity) x = INFINITY;
    if (min) x = -x;
    if (d.bits == 16) {
      uint16_t bits;
      dtype_store_double(d, &bits, x);
      v = LLVMConstInt(t, bits, false);
    } else {
      v = LLVMConstReal(t, x);
    }
  } else if (dtype_is_bool(d)) {
    v = LLVMConstInt(t, !min, false);
  } else {
    uint64_t top =
        dtype_is_sint(d) ? (UINT64_MAX >> 1) >> (64 - d.bits) : UINT64_MAX >> (64 - d.bits);
    v = LLVMConstInt(t, min ? (dtype_is_sint(d) ? ~top : 0) : top, false);
  }
  return cg_splat(cg, fn->b, v, e->dtype.lanes);
}

static LLVMValueRef lane_mask(Fn *fn, const Expr *e) {
  const Dim *base = expr_dim(fn->c, e->arg[0]), *end = expr_dim(fn->c, e->arg[1]);
  return fn_lane_mask(fn, dim_sub(fn->c, end, base), e->dtype.lanes);
}

/* A C function: integers below 32 bits are extended as the C ABI wants it. */
static LLVMValueRef call_extern(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  if (!e->n || e->arg[0]->kind != EXPR_STR) {
    cg_error(cg, fn->span, "T.call_extern needs the function's name as its first argument");
    return undef_of(fn, e);
  }
  uint32_t n = e->n - 1;
  LLVMTypeRef *types = ARENA_ARRAY(fn->arena, LLVMTypeRef, n);
  LLVMValueRef *args = ARENA_ARRAY(fn->arena, LLVMValueRef, n);
  for (uint32_t i = 0; i < n; i++) {
    const Expr *a = e->arg[i + 1];
    if (a->dtype.lanes > 1) {
      cg_error(cg, fn->span, "a vector can't be passed to C function '%s'", e->arg[0]->s);
      return undef_of(fn, e);
    }
    args[i] = fn_expr(fn, a);
    if (dtype_is_bool(a->dtype)) args[i] = LLVMBuildZExt(fn->b, args[i], cg->i8, "");
    types[i] = LLVMTypeOf(args[i]);
  }
  LLVMTypeRef ret = dtype_is_bool(e->dtype) ? cg->i8 : cg_reg_type(cg, e->dtype);
  LLVMTypeRef type = cg_fn_type(ret, types, n, false);
  LLVMValueRef f = cg_extern(cg, e->arg[0]->s, type);
  LLVMValueRef call = LLVMBuildCall2(fn->b, type, f, args, n, "");
  for (uint32_t i = 0; i < n; i++) {
    DType d = e->arg[i + 1]->dtype;
    if ((dtype_is_int(d) || dtype_is_bool(d)) && d.bits < 32) {
      const char *ext = dtype_is_sint(d) ? "signext" : "zeroext";
      unsigned kind = LLVMGetEnumAttributeKindForName(ext, 7);
      LLVMAddCallSiteAttribute(call, i + 1, LLVMCreateEnumAttribute(cg->lc, kind, 0));
    }
  }
  if (e->intrin != INTRIN_call_pure_extern) fn_wrote_memory(fn);
  if (ret == cg->void_t) return LLVMConstNull(cg->i32);
  if (!dtype_is_bool(e->dtype)) return call;
  return LLVMBuildICmp(fn->b, LLVMIntNE, call, LLVMConstNull(cg->i8), "");
}

/* Binds the callee's symbolic dims from the buffers that are passed. */
static LLVMValueRef dim_argument(Fn *fn, const PrimFunc *f, const Expr *e, const Var *dim) {
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *p = f->param_bufs[i];
    if (!p || e->arg[i]->kind != EXPR_BUF_DATA) continue;
    const Buffer *a = e->arg[i]->buf;
    for (uint32_t k = 0; k < p->ndim && k < a->ndim; k++)
      if (p->shape[k]->kind == EXPR_VAR && p->shape[k]->var == dim)
        return fn_index(fn, a->shape[k]);
  }
  cg_error(fn->cg, fn->span, "dim '%s' of '%s' can't be found from this call", dim->name, f->name);
  return cg_i64(fn->cg, 0);
}

static LLVMValueRef call_func(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  const PrimFunc *f = module_prim(cg->m, e->s);
  if (!f || f->nparams != e->n) {
    cg_error(cg, fn->span,
             f ? "call of '%s' with a wrong number of arguments"
               : "no prim_func '%s' in this module",
             e->s);
    return undef_of(fn, e);
  }
  Kernel *k = kernel_get(cg, f);
  bool value = dtype_known(f->ret);
  uint32_t n = f->nparams + f->ndims + value;
  LLVMValueRef *args = ARENA_ARRAY(fn->arena, LLVMValueRef, n), slot = NULL;
  for (uint32_t i = 0; i < f->nparams; i++) {
    LLVMValueRef x = fn_expr(fn, e->arg[i]);
    if (!f->param_bufs[i])
      x = cg_convert(cg, fn->b, fn->v, e->arg[i]->dtype, f->params[i]->dtype, x);
    args[i] = x;
  }
  for (uint32_t i = 0; i < f->ndims; i++) args[f->nparams + i] = dim_argument(fn, f, e, f->dims[i]);
  LLVMTypeRef rt = value ? cg_reg_type(cg, f->ret) : NULL;
  if (value) args[n - 1] = slot = fn_alloca(fn, rt, 1, 8);
  int variant = -1;
  for (uint32_t i = 0; i < cg->target->nvariants; i++)
    if (fn->v == &cg->target->variants[i]) variant = (int)i;
  LLVMValueRef status = kernel_call(cg, fn->b, k, variant, args, n);
  if (k->can_fail) fn_check_status(fn, status);
  fn_wrote_memory(fn);
  return value ? LLVMBuildLoad2(fn->b, rt, slot, "") : LLVMConstNull(cg->i32);
}

static LLVMValueRef prefetch(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  LLVMTypeRef t = cg->ptr;
  LLVMValueRef args[4] = {fn_expr(fn, e->arg[0]), cg_i32(cg, 0), cg_i32(cg, 3), cg_i32(cg, 1)};
  cg_intrinsic(cg, fn->b, "llvm.prefetch", &t, 1, args, 4);
  return LLVMConstNull(cg->i32);
}

static LLVMValueRef address_of(Fn *fn, const Expr *e) {
  const Expr *l = e->arg[0];
  if (l->kind != EXPR_LOAD) {
    cg_error(fn->cg, fn->span, "T.address_of needs an element of a buffer");
    return LLVMConstNull(fn->cg->ptr);
  }
  const Buffer *buf = l->buf;
  const Dim *off = buf->elem_offset ? expr_dim(fn->c, buf->elem_offset) : dim_const(fn->c, 0);
  const Dim *stride = dim_const(fn->c, 1);
  for (uint32_t i = buf->ndim; i-- > 0;) {
    const Expr *x = l->arg[i];
    while (x->kind == EXPR_BROADCAST || x->kind == EXPR_RAMP) x = x->arg[0];
    if (buf->strides) stride = expr_dim(fn->c, buf->strides[i]);
    off = dim_add(fn->c, off, dim_mul(fn->c, expr_dim(fn->c, x), stride));
    if (!buf->strides) stride = dim_mul(fn->c, stride, expr_dim(fn->c, buf->shape[i]));
  }
  return fn_address(fn, buf->data, dim_resolve(fn, off), (uint32_t)dtype_bytes(buf->dtype));
}

/* round(x * y * 2^-(q + s)) through 64 bits. */
static LLVMValueRef q_multiply_shift(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  LLVMBuilderRef b = fn->b;
  LLVMValueRef a[4];
  for (int i = 0; i < 4; i++) {
    a[i] = fn_expr(fn, e->arg[i]);
    if (cg_lanes(a[i]) < e->dtype.lanes) a[i] = cg_splat(cg, b, a[i], e->dtype.lanes);
    a[i] = LLVMBuildSExt(b, a[i], cg_vec(cg->i64, e->dtype.lanes), "");
  }
  LLVMValueRef one = cg_splat(cg, b, cg_i64(cg, 1), e->dtype.lanes);
  LLVMValueRef total = LLVMBuildAdd(b, a[2], a[3], "");
  LLVMValueRef half = LLVMBuildShl(b, one, LLVMBuildSub(b, total, one, ""), "");
  LLVMValueRef r = LLVMBuildAdd(b, LLVMBuildMul(b, a[0], a[1], ""), half, "");
  return LLVMBuildTrunc(b, LLVMBuildAShr(b, r, total, ""), cg_reg_type(cg, e->dtype), "");
}

LLVMValueRef fn_call_expr(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  LLVMBuilderRef b = fn->b;
  if (e->kind == EXPR_CALL_FUNC) return call_func(fn, e);
  const IntrinInfo *info = &intrin_table[e->intrin];
  const char *atomic = intrin_atomic(e);
  if (atomic) {
    cg_error(cg, fn->span,
             "atomic operation '%s' can't be compiled: iterations of a parallel loop must write "
             "elements of their own",
             atomic);
    return undef_of(fn, e);
  }
  if (info->flags & INTRIN_OPAQUE) {
    cg_error(cg, fn->span, "T.%s can't be compiled for a CPU", info->name);
    return undef_of(fn, e);
  }
  switch ((IntrinId)e->intrin) {
  case INTRIN_abs:
  case INTRIN_fabs: return abs_value(fn, e);
  case INTRIN_isnan:
  case INTRIN_isinf:
  case INTRIN_isfinite: return classify(fn, e);
  case INTRIN_isnullptr: {
    LLVMValueRef p = fn_expr(fn, e->arg[0]);
    return LLVMBuildICmp(b, LLVMIntEQ, p, LLVMConstNull(LLVMTypeOf(p)), "");
  }
  case INTRIN_popcount: {
    LLVMValueRef x = fn_expr(fn, e->arg[0]);
    LLVMTypeRef t = LLVMTypeOf(x);
    return cg_intrinsic(cg, b, "llvm.ctpop", &t, 1, &x, 1);
  }
  case INTRIN_clz: {
    LLVMValueRef x[2] = {fn_expr(fn, e->arg[0]), LLVMConstNull(cg->i1)};
    LLVMTypeRef t = LLVMTypeOf(x[0]);
    LLVMValueRef r = cg_intrinsic(cg, b, "llvm.ctlz", &t, 1, x, 2);
    return cg_convert(cg, b, fn->v, DT(DTYPE_UINT, e->arg[0]->dtype.bits), DT_I32, r);
  }
  case INTRIN_reinterpret: {
    LLVMValueRef x = fn_expr(fn, e->arg[0]);
    LLVMTypeRef t = cg_reg_type(cg, e->dtype);
    if (dtype_is_bool(e->arg[0]->dtype)) x = LLVMBuildZExt(b, x, cg_vec(cg->i8, cg_lanes(x)), "");
    if (dtype_is_bool(e->dtype))
      return LLVMBuildICmp(b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    if (e->arg[0]->kind == EXPR_LOAD && LLVMIsALoadInst(x) && cg_lanes(x) > 1) {
      /* a load of that type: instruction selection would take a cast for no reason to use what the
       * machine has for that type only */
      LLVMValueRef bits = LLVMBuildLoad2(b, t, LLVMGetOperand(x, 0), "");
      LLVMSetAlignment(bits, LLVMGetAlignment(x));
      return bits;
    }
    return LLVMBuildBitCast(b, x, t, "");
  }
  case INTRIN_likely: return fn_expr(fn, e->arg[0]);
  case INTRIN_assume: return LLVMConstNull(cg->i32);
  case INTRIN_min_value:
  case INTRIN_max_value:
  case INTRIN_infinity: return limit_value(fn, e);
  case INTRIN_get_active_lane_mask: return lane_mask(fn, e);
  case INTRIN_vector_reduce_add:
  case INTRIN_vector_reduce_mul:
  case INTRIN_vector_reduce_max:
  case INTRIN_vector_reduce_min:
  case INTRIN_vector_reduce_maxnum:
  case INTRIN_vector_reduce_minnum: return reduce(fn, e);
  case INTRIN_prefetch: return prefetch(fn, e);
  case INTRIN_fence: /* its point: what follows loads again instead of spilling */
    fn_wrote_memory(fn);
    fn->kept = NULL;
    return LLVMBuildFence(fn->b, LLVMAtomicOrderingSequentiallyConsistent, true, "");
  case INTRIN_address_of: return address_of(fn, e);
  case INTRIN_call_extern:
  case INTRIN_call_pure_extern: return call_extern(fn, e);
  case INTRIN_q_multiply_shift: return q_multiply_shift(fn, e);
  case INTRIN_pow:
    if (dtype_is_int(e->dtype)) return int_pow(fn, e);
    break;
  case INTRIN_floor:
  case INTRIN_ceil:
  case INTRIN_trunc:
  case INTRIN_round:
  case INTRIN_nearbyint:
    if (!dtype_is_float(e->dtype)) return fn_expr(fn, e->arg[0]);
    break;
  default: break;
  }
  if (info->flags & INTRIN_FLOAT && dtype_is_float(e->arg[0]->dtype)) return float_math(fn, e);
  if (info->flags & INTRIN_FLOAT) {
    cg_error(cg, fn->span, "T.%s of %s can't be compiled: cast the operand to a float", info->name,
             dtype_name(e->arg[0]->dtype));
    return undef_of(fn, e);
  }
  cg_error(cg, fn->span, "T.%s can't be compiled inside a prim_func", info->name);
  return undef_of(fn, e);
}
