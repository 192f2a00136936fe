/* Expressions to LLVM values; loads and stores.
 *
 * Within one statement each distinct expression is computed once (fused bodies are DAGs). Loads of
 * the same address are shared until something is written. Lazy operands (if_then_else, `and`/`or`
 * whose right side reads memory) become branches; pure ones selects.
 */
#include "codegen/llvm/cg.h"

#include "ir/base/text.h"

/* ---- memo ---- */

void fn_memo_push(Fn *fn) {
  Map *m = ARENA_NEW(fn->arena, Map);
  map_init(m, fn->arena);
  vec_push(fn->arena, &fn->memo, m);
}

void fn_memo_pop(Fn *fn) {
  (void)vec_pop(&fn->memo);
}

static LLVMValueRef memo_get(Fn *fn, const Expr *e) {
  for (uint32_t i = fn->memo.n; i-- > 0;) {
    LLVMValueRef v = map_getp(fn->memo.at[i], e);
    if (v) return v;
  }
  return NULL;
}

void fn_wrote_memory(Fn *fn) {
  fn->loads = NULL;
}

/* ---- memory ---- */

typedef struct {
  const Dim *base;   /* elements of the buffer's dtype, resolved */
  const Dim *stride; /* between lanes; NULL for one lane */
  LLVMValueRef vec;  /* i64 lanes to be added to base, or NULL */
  uint32_t lanes;
} Offset;

static const Dim *stride_dim(Fn *fn, const Buffer *b, uint32_t i) {
  if (b->strides) return expr_dim(fn->c, b->strides[i]);
  const Dim *s = dim_const(fn->c, 1);
  for (uint32_t k = i + 1; k < b->ndim; k++) s = dim_mul(fn->c, s, expr_dim(fn->c, b->shape[k]));
  return s;
}

/* An integer vector or scalar as i64 lanes. */
static LLVMValueRef to_i64(Fn *fn, const Expr *e, LLVMValueRef v) {
  LLVMTypeRef t = cg_vec(fn->cg->i64, e->dtype.lanes);
  if (LLVMTypeOf(v) == t) return v;
  return dtype_is_sint(e->dtype) ? LLVMBuildSExt(fn->b, v, t, "") : LLVMBuildZExt(fn->b, v, t, "");
}

static Offset offset_of(Fn *fn, const Buffer *b, const Expr *const *idx) {
  Context *c = fn->c;
  Offset o = {.base = dim_const(c, 0), .lanes = 1};
  if (b->elem_offset) o.base = expr_dim(c, b->elem_offset);
  const Dim *stride = dim_const(c, 0);
  for (uint32_t i = 0; i < b->ndim; i++) {
    const Expr *e = idx[i];
    const Dim *s = stride_dim(fn, b, i);
    if (e->dtype.lanes > 1) o.lanes = e->dtype.lanes;
    while (e->kind == EXPR_BROADCAST) e = e->arg[0];
    if (e->dtype.lanes <= 1) {
      o.base = dim_add(c, o.base, dim_mul(c, expr_dim(c, e), s));
    } else if (e->kind == EXPR_RAMP && e->arg[0]->dtype.lanes <= 1) {
      o.base = dim_add(c, o.base, dim_mul(c, expr_dim(c, e->arg[0]), s));
      stride = dim_add(c, stride, dim_mul(c, expr_dim(c, e->arg[1]), s));
    } else {
      LLVMValueRef v = to_i64(fn, e, fn_expr(fn, e));
      LLVMValueRef sv = dim_value(fn, s);
      if (!LLVMIsAConstantInt(sv) || LLVMConstIntGetSExtValue(sv) != 1)
        v = LLVMBuildMul(fn->b, v, cg_splat(fn->cg, fn->b, sv, o.lanes), "");
      o.vec = o.vec ? LLVMBuildAdd(fn->b, o.vec, v, "") : v;
    }
  }
  o.base = dim_resolve(fn, o.base);
  o.stride = dim_resolve(fn, stride);
  return o;
}

static LLVMValueRef from_mem(Fn *fn, DType d, LLVMValueRef v) {
  if (!dtype_is_bool(d)) return v;
  return LLVMBuildICmp(fn->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

static LLVMValueRef to_mem(Fn *fn, DType d, LLVMValueRef v) {
  if (!dtype_is_bool(d)) return v;
  return LLVMBuildZExt(fn->b, v, cg_vec(fn->cg->i8, cg_lanes(v)), "");
}

static uint32_t elem_bytes(DType d) {
  return (uint32_t)dtype_bytes(dtype_scalar(d));
}

static LLVMValueRef masked_call(Fn *fn, const char *name, LLVMTypeRef const *types,
                                LLVMValueRef const *args, unsigned n, unsigned ptr_arg,
                                uint32_t align) {
  LLVMValueRef call = cg_intrinsic(fn->cg, fn->b, name, types, 2, args, n);
  unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddCallSiteAttribute(call, ptr_arg + 1, LLVMCreateEnumAttribute(fn->cg->lc, kind, align));
  return call;
}

/* Pointers of all lanes. */
static LLVMValueRef lane_pointers(Fn *fn, const Buffer *b, const Offset *o, uint32_t bytes) {
  Cg *cg = fn->cg;
  LLVMValueRef p = fn_address(fn, b->data, o->base, bytes), off = o->vec;
  const Dim *zero = dim_const(fn->c, 0);
  if (o->stride != zero) {
    LLVMValueRef s = cg_splat(cg, fn->b, dim_value(fn, o->stride), o->lanes);
    s = LLVMBuildMul(fn->b, s, cg_iota(cg, cg->i64, o->lanes), "");
    off = off ? LLVMBuildAdd(fn->b, off, s, "") : s;
  }
  if (!off) return cg_splat(cg, fn->b, p, o->lanes);
  off = LLVMBuildMul(fn->b, off, cg_splat(cg, fn->b, cg_i64(cg, bytes), o->lanes), "");
  return LLVMBuildGEP2(fn->b, cg->i8, p, &off, 1, "");
}

static Cells *cells_of(Fn *fn, const Buffer *b) {
  return map_getp(&fn->promoted, b);
}

static LLVMValueRef *cell(Fn *fn, Cells *k, const Buffer *b, const Expr *const *idx) {
  Offset o = offset_of(fn, b, idx);
  LLVMValueRef i = dim_value(fn, o.base);
  if (o.lanes != 1 || !LLVMIsAConstantInt(i)) bug("index of '%s' is not constant", b->name);
  int64_t at = LLVMConstIntGetSExtValue(i);
  if (at < 0 || at >= (int64_t)k->n || !k->v) {
    if (!fn->cg->failed)
      cg_error(fn->cg, fn->span, "index %lld of buffer '%s' is out of range [0, %u)", (long long)at,
               b->name, k->n);
    return NULL;
  }
  return &k->v[at];
}

static LLVMValueRef load_cached(Fn *fn, const Buffer *b, const Offset *o, LLVMTypeRef t,
                                uint32_t bytes, bool volatile_) {
  uint64_t key = 0;
  uint32_t lanes = cg_lanes(LLVMConstNull(t));
  bool cache = !volatile_ && b->data->id < 1u << 22 && o->base->id < 1u << 30 && lanes < 1u << 12;
  Map **known = map_hasp(fn->only_read, b->data) ? &fn->kept : &fn->loads;
  if (cache) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(fn->b);
    if (!*known || map_get(*known, UINT64_MAX) != here) {
      *known = ARENA_NEW(fn->arena, Map);
      map_init(*known, fn->arena);
      map_set(*known, UINT64_MAX, here);
    }
    key = (uint64_t)b->data->id << 42 | (uint64_t)o->base->id << 12 | lanes;
    LLVMValueRef v = map_get(*known, key);
    if (v && LLVMTypeOf(v) == t) return v;
  }
  LLVMValueRef p = fn_address(fn, b->data, o->base, bytes);
  LLVMValueRef v = LLVMBuildLoad2(fn->b, t, p, "");
  LLVMSetAlignment(v, elem_bytes(b->dtype));
  if (cache) map_set(*known, key, v);
  return v;
}

LLVMValueRef fn_load(Fn *fn, const Buffer *b, const Expr *const *idx, DType d, LLVMValueRef pred) {
  Cg *cg = fn->cg;
  Cells *k = cells_of(fn, b);
  LLVMTypeRef reg = cg_reg_type(cg, d);
  if (k) {
    LLVMValueRef *v = cell(fn, k, b, idx);
    return v ? *v : LLVMConstNull(reg);
  }
  Offset o = offset_of(fn, b, idx);
  uint32_t bytes = elem_bytes(b->dtype), total = d.lanes;
  LLVMTypeRef mem = cg_mem_type(cg, d), one = cg_mem_type(cg, dtype_scalar(d));
  if (b->dtype.lanes > 1 && o.lanes > 1) {
    cg_error(cg, fn->span, "vector index into buffer '%s' of vector type is not supported",
             b->name);
    return LLVMConstNull(reg);
  }
  if (b->dtype.lanes > 1) { /* a vector element is a run of scalars */
    o.base = dim_scale(fn->c, o.base, b->dtype.lanes);
    o.lanes = b->dtype.lanes;
    o.stride = dim_const(fn->c, 1);
  }
  if (fn->mask && cg_lanes(fn->mask) == total)
    pred = pred ? LLVMBuildAnd(fn->b, pred, fn->mask, "") : fn->mask;
  bool known;
  if (pred && cg_known_bool(pred, &known)) {
    if (!known) return LLVMConstNull(reg);
    pred = NULL;
  }
  if (o.lanes != total && total > 1) bug("lanes of a load of '%s' disagree", b->name);
  bool opaque = dim_has_opaque(o.base);
  if (total <= 1) {
    if (!pred) return from_mem(fn, d, load_cached(fn, b, &o, one, bytes, opaque));
    LLVMBasicBlockRef from = LLVMGetInsertBlock(fn->b);
    LLVMBasicBlockRef yes = fn_block(fn, "load"), end = fn_block(fn, "loaded");
    LLVMValueRef br = LLVMBuildCondBr(fn->b, pred, yes, end);
    LLVMPositionBuilderAtEnd(fn->b, yes);
    fn_scope_push(fn, br);
    LLVMValueRef v = load_cached(fn, b, &o, one, bytes, true);
    LLVMBasicBlockRef last = LLVMGetInsertBlock(fn->b);
    LLVMBuildBr(fn->b, end);
    fn_scope_pop(fn);
    LLVMPositionBuilderAtEnd(fn->b, end);
    LLVMValueRef phi = LLVMBuildPhi(fn->b, one, ""), in[2] = {LLVMConstNull(one), v};
    LLVMBasicBlockRef blocks[2] = {from, last};
    LLVMAddIncoming(phi, in, blocks, 2);
    return from_mem(fn, d, phi);
  }
  int64_t stride = -1;
  bool flat = !o.vec && dim_is_const(o.stride, &stride);
  if (flat && stride == 0 && !pred)
    return cg_splat(cg, fn->b, from_mem(fn, d, load_cached(fn, b, &o, one, bytes, opaque)), total);
  if (flat && stride == 1) {
    if (!pred) return from_mem(fn, d, load_cached(fn, b, &o, mem, bytes, opaque));
    LLVMTypeRef types[2] = {mem, cg->ptr};
    LLVMValueRef args[3] = {fn_address(fn, b->data, o.base, bytes), pred, LLVMConstNull(mem)};
    return from_mem(fn, d, masked_call(fn, "llvm.masked.load", types, args, 3, 0, bytes));
  }
  if (!o.vec && !pred && flat) { /* constant stride: scalar loads */
    LLVMValueRef v = LLVMGetPoison(mem);
    for (uint32_t i = 0; i < total; i++) {
      const Dim *at = dim_add(fn->c, o.base, dim_scale(fn->c, o.stride, i));
      Offset oi = {.base = at, .lanes = 1};
      LLVMValueRef x = load_cached(fn, b, &oi, one, bytes, opaque);
      v = LLVMBuildInsertElement(fn->b, v, x, LLVMConstInt(cg->i64, i, false), "");
    }
    return from_mem(fn, d, v);
  }
  LLVMValueRef ptrs = lane_pointers(fn, b, &o, bytes);
  if (!pred) pred = LLVMConstAllOnes(cg_vec(cg->i1, total));
  LLVMTypeRef types[2] = {mem, LLVMTypeOf(ptrs)};
  LLVMValueRef args[3] = {ptrs, pred, LLVMConstNull(mem)};
  return from_mem(fn, d, masked_call(fn, "llvm.masked.gather", types, args, 3, 0, bytes));
}

/* Number of lanes that a constant mask turns on when they are its first ones; else -1. */
static int64_t mask_prefix(LLVMValueRef mask, uint32_t lanes) {
  if (!LLVMIsConstant(mask)) return -1;
  int64_t n = 0;
  for (uint32_t i = 0; i < lanes; i++) {
    LLVMValueRef e = LLVMGetAggregateElement(mask, i);
    if (!e || !LLVMIsAConstantInt(e)) return -1;
    bool on = LLVMConstIntGetZExtValue(e) != 0;
    if (on && n < i) return -1;
    n += on;
  }
  return n;
}

void fn_store(Fn *fn, const Buffer *b, const Expr *const *idx, LLVMValueRef value,
              LLVMValueRef pred) {
  Cg *cg = fn->cg;
  Cells *k = cells_of(fn, b);
  bool known;
  if (pred && cg_known_bool(pred, &known)) {
    if (!known) return;
    pred = NULL;
  }
  if (k) {
    LLVMValueRef *v = cell(fn, k, b, idx);
    if (v) *v = pred ? cg_select(fn->b, pred, value, *v) : value;
    return;
  }
  Offset o = offset_of(fn, b, idx);
  uint32_t bytes = elem_bytes(b->dtype), total = cg_lanes(value);
  if (b->dtype.lanes > 1 && o.lanes > 1) {
    cg_error(cg, fn->span, "vector index into buffer '%s' of vector type is not supported",
             b->name);
    return;
  }
  if (b->dtype.lanes > 1) {
    o.base = dim_scale(fn->c, o.base, b->dtype.lanes);
    o.lanes = b->dtype.lanes;
    o.stride = dim_const(fn->c, 1);
  }
  value = to_mem(fn, b->dtype, value);
  if (total == 1 && o.lanes > 1) {
    value = cg_splat(cg, fn->b, value, o.lanes);
    total = o.lanes;
  }
  if (o.lanes != total) bug("lanes of a store to '%s' disagree", b->name);
  int64_t stride = -1;
  bool flat = !o.vec && dim_is_const(o.stride, &stride);
  /* A constant mask of the first lanes is a shorter store. (LLVM 22 would store too many bytes of a
   * truncated value whose mask is one lane.) */
  int64_t first = pred && total > 1 && flat && stride == 1 ? mask_prefix(pred, total) : -1;
  if (first >= 0 && first < total) {
    if (first == 0) return;
    LLVMValueRef lanes = cg_iota(cg, LLVMInt32TypeInContext(cg->lc), (uint32_t)first);
    value = first == 1
                ? LLVMBuildExtractElement(fn->b, value, LLVMConstInt(cg->i64, 0, false), "")
                : LLVMBuildShuffleVector(fn->b, value, LLVMGetPoison(LLVMTypeOf(value)), lanes, "");
    total = (uint32_t)first;
    pred = NULL;
  }
  LLVMTypeRef mem = LLVMTypeOf(value);
  if (total == 1 || (flat && stride == 1 && !pred)) {
    LLVMBasicBlockRef end = NULL;
    if (pred) {
      LLVMBasicBlockRef yes = fn_block(fn, "store");
      end = fn_block(fn, "stored");
      LLVMValueRef br = LLVMBuildCondBr(fn->b, pred, yes, end);
      LLVMPositionBuilderAtEnd(fn->b, yes);
      fn_scope_push(fn, br);
    }
    LLVMValueRef p = fn_address(fn, b->data, o.base, bytes);
    LLVMValueRef s = LLVMBuildStore(fn->b, value, p);
    LLVMSetAlignment(s, bytes);
    if (total > 1 && !pred) stream_store(fn, s, b, o.base, bytes * total);
    if (end) {
      LLVMBuildBr(fn->b, end);
      fn_scope_pop(fn);
      LLVMPositionBuilderAtEnd(fn->b, end);
    }
  } else if (flat && stride == 1) {
    LLVMTypeRef types[2] = {mem, cg->ptr};
    LLVMValueRef args[3] = {value, fn_address(fn, b->data, o.base, bytes), pred};
    masked_call(fn, "llvm.masked.store", types, args, 3, 1, bytes);
  } else if (flat && !pred) {
    for (uint32_t i = 0; i < total; i++) {
      const Dim *at = dim_add(fn->c, o.base, dim_scale(fn->c, o.stride, i));
      LLVMValueRef x = LLVMBuildExtractElement(fn->b, value, LLVMConstInt(cg->i64, i, false), "");
      LLVMSetAlignment(LLVMBuildStore(fn->b, x, fn_address(fn, b->data, at, bytes)), bytes);
    }
  } else {
    LLVMValueRef ptrs = lane_pointers(fn, b, &o, bytes);
    if (!pred) pred = LLVMConstAllOnes(cg_vec(cg->i1, total));
    LLVMTypeRef types[2] = {mem, LLVMTypeOf(ptrs)};
    LLVMValueRef args[3] = {value, ptrs, pred};
    masked_call(fn, "llvm.masked.scatter", types, args, 3, 1, bytes);
  }
  fn_wrote_memory(fn);
}

/* ---- operators ---- */

static bool is_half(DType d) {
  return dtype_is_float(d) && d.bits <= 16;
}

static LLVMValueRef fast(Fn *fn, LLVMValueRef v) {
  if (fn->cg->opt->fast_math && LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v))
    LLVMSetFastMathFlags(v, LLVMFastMathAllowReassoc | LLVMFastMathNoSignedZeros |
                                LLVMFastMathAllowReciprocal | LLVMFastMathAllowContract |
                                LLVMFastMathApproxFunc);
  return v;
}

/* A NaN in either operand gives NaN; on x86 that is one instruction with a constant operand. */
static LLVMValueRef float_minmax(Fn *fn, bool max, LLVMValueRef x, LLVMValueRef y) {
  LLVMBuilderRef b = fn->b;
  if (fn->v->has_nan_minmax) {
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMValueRef args[2] = {x, y};
    return cg_intrinsic(fn->cg, b, max ? "llvm.maximum" : "llvm.minimum", &t, 1, args, 2);
  }
  LLVMRealPredicate p = max ? LLVMRealOGT : LLVMRealOLT;
  if (LLVMIsConstant(x)) {
    LLVMValueRef t = x;
    x = y;
    y = t;
  }
  /* maxps(y, x): x where either is NaN. */
  LLVMValueRef r = LLVMBuildSelect(b, LLVMBuildFCmp(b, p, y, x, ""), y, x, "");
  if (LLVMIsConstant(y)) return r; /* literals are no NaNs, but for one written as such */
  LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, y, y, "");
  return LLVMBuildSelect(b, nan, y, r, "");
}

static bool is_nan_literal(const Expr *e) {
  while (e->kind == EXPR_BROADCAST) e = e->arg[0];
  return e->kind == EXPR_FLOAT && e->f != e->f;
}

static LLVMValueRef float_binary(Fn *fn, const Expr *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMBuilderRef b = fn->b;
  Cg *cg = fn->cg;
  static const LLVMRealPredicate preds[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                            LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  switch ((ExprKind)e->kind) {
  case EXPR_ADD: return fast(fn, LLVMBuildFAdd(b, x, y, ""));
  case EXPR_SUB: return fast(fn, LLVMBuildFSub(b, x, y, ""));
  case EXPR_MUL: return fast(fn, LLVMBuildFMul(b, x, y, ""));
  case EXPR_DIV: return fast(fn, LLVMBuildFDiv(b, x, y, ""));
  case EXPR_MIN:
  case EXPR_MAX:
    if (is_nan_literal(e->arg[0]) || is_nan_literal(e->arg[1])) return LLVMBuildFAdd(b, x, y, "");
    return float_minmax(fn, e->kind == EXPR_MAX, x, y);
  case EXPR_EQ:
  case EXPR_NE:
  case EXPR_LT:
  case EXPR_LE:
  case EXPR_GT:
  case EXPR_GE: return LLVMBuildFCmp(b, preds[e->kind - EXPR_EQ], x, y, "");
  case EXPR_MOD: {
    LLVMValueRef args[2] = {x, y};
    return math_call(cg, b, fn->v, INTRIN_fmod, args, 2);
  }
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD: {
    /* As Python's on floats: floor of the quotient; remainder with the divisor's sign. */
    LLVMValueRef args[2] = {x, y};
    if (e->kind == EXPR_FLOORDIV) {
      LLVMValueRef q = LLVMBuildFDiv(b, x, y, "");
      return math_call(cg, b, fn->v, INTRIN_floor, &q, 1);
    }
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMValueRef zero = LLVMConstNull(t), r = math_call(cg, b, fn->v, INTRIN_fmod, args, 2);
    LLVMValueRef rneg = LLVMBuildFCmp(b, LLVMRealOLT, r, zero, "");
    LLVMValueRef yneg = LLVMBuildFCmp(b, LLVMRealOLT, y, zero, "");
    LLVMValueRef off = LLVMBuildXor(b, rneg, yneg, "");
    off = LLVMBuildAnd(b, off, LLVMBuildFCmp(b, LLVMRealONE, r, zero, ""), "");
    return LLVMBuildSelect(b, off, LLVMBuildFAdd(b, r, y, ""), r, "");
  }
  default: break;
  }
  cg_error(cg, fn->span, "operator on type %s is not defined", dtype_name(e->arg[0]->dtype));
  return LLVMGetUndef(LLVMTypeOf(x));
}

/* Shift amounts of the width or more: 0, or the sign. */
static LLVMValueRef shift(Fn *fn, const Expr *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMBuilderRef b = fn->b;
  LLVMTypeRef t = LLVMTypeOf(x);
  unsigned width = e->dtype.bits;
  LLVMValueRef limit =
      cg_splat(fn->cg, b, LLVMConstInt(cg_reg_type(fn->cg, dtype_scalar(e->dtype)), width, false),
               e->dtype.lanes);
  LLVMValueRef ok = LLVMBuildICmp(b, LLVMIntULT, y, limit, "");
  LLVMValueRef safe = cg_select(b, ok, y, LLVMConstNull(t));
  if (e->kind == EXPR_SHL) return cg_select(b, ok, LLVMBuildShl(b, x, safe, ""), LLVMConstNull(t));
  if (!dtype_is_sint(e->dtype))
    return cg_select(b, ok, LLVMBuildLShr(b, x, safe, ""), LLVMConstNull(t));
  LLVMTypeRef one = cg_reg_type(fn->cg, dtype_scalar(e->dtype));
  LLVMValueRef top = cg_splat(fn->cg, b, LLVMConstInt(one, width - 1, false), e->dtype.lanes);
  return LLVMBuildAShr(b, x, cg_select(b, ok, y, top), "");
}

static LLVMValueRef int_binary(Fn *fn, const Expr *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMBuilderRef b = fn->b;
  DType d = e->arg[0]->dtype;
  bool sgn = dtype_is_sint(d);
  static const LLVMIntPredicate sp[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT,
                                        LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
  static const LLVMIntPredicate up[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntULT,
                                        LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
  switch ((ExprKind)e->kind) {
  case EXPR_ADD: return dtype_is_bool(d) ? LLVMBuildOr(b, x, y, "") : cg_add(b, x, y);
  case EXPR_SUB: return dtype_is_bool(d) ? LLVMBuildXor(b, x, y, "") : LLVMBuildSub(b, x, y, "");
  case EXPR_MUL: return dtype_is_bool(d) ? LLVMBuildAnd(b, x, y, "") : cg_mul(b, x, y);
  case EXPR_DIV: return cg_div(b, x, y, sgn, false, false);
  case EXPR_MOD: return cg_div(b, x, y, sgn, false, true);
  case EXPR_FLOORDIV: return cg_div(b, x, y, sgn, true, false);
  case EXPR_FLOORMOD: return cg_div(b, x, y, sgn, true, true);
  case EXPR_MIN:
    return cg_select(b, LLVMBuildICmp(b, sgn ? LLVMIntSLT : LLVMIntULT, x, y, ""), x, y);
  case EXPR_MAX:
    return cg_select(b, LLVMBuildICmp(b, sgn ? LLVMIntSGT : LLVMIntUGT, x, y, ""), x, y);
  case EXPR_EQ:
  case EXPR_NE:
  case EXPR_LT:
  case EXPR_LE:
  case EXPR_GT:
  case EXPR_GE:
    return LLVMBuildICmp(b, sgn ? sp[e->kind - EXPR_EQ] : up[e->kind - EXPR_EQ], x, y, "");
  case EXPR_AND:
  case EXPR_BITAND: return LLVMBuildAnd(b, x, y, "");
  case EXPR_OR:
  case EXPR_BITOR: return LLVMBuildOr(b, x, y, "");
  case EXPR_BITXOR: return LLVMBuildXor(b, x, y, "");
  case EXPR_SHL:
  case EXPR_SHR: return shift(fn, e, x, y);
  default: bug("binary expression of kind %d", e->kind);
  }
}

/* Operands of unequal lanes: the scalar one is broadcast. */
static void match_lanes(Fn *fn, LLVMValueRef *x, LLVMValueRef *y) {
  uint32_t nx = cg_lanes(*x), ny = cg_lanes(*y);
  if (nx == 1 && ny > 1) *x = cg_splat(fn->cg, fn->b, *x, ny);
  if (ny == 1 && nx > 1) *y = cg_splat(fn->cg, fn->b, *y, nx);
}

static LLVMValueRef binary(Fn *fn, const Expr *e) {
  LLVMValueRef x = fn_expr(fn, e->arg[0]), y = fn_expr(fn, e->arg[1]);
  match_lanes(fn, &x, &y);
  DType d = e->arg[0]->dtype;
  if (d.code == DTYPE_HANDLE) {
    x = LLVMBuildPtrToInt(fn->b, x, fn->cg->i64, "");
    if (LLVMTypeOf(y) == fn->cg->ptr) y = LLVMBuildPtrToInt(fn->b, y, fn->cg->i64, "");
    return LLVMBuildICmp(fn->b, e->kind == EXPR_NE ? LLVMIntNE : LLVMIntEQ, x, y, "");
  }
  if (!dtype_is_float(d)) return int_binary(fn, e, x, y);
  if (!is_half(d)) return float_binary(fn, e, x, y);
  x = half_to_f32(fn->cg, fn->b, fn->v, d, x);
  y = half_to_f32(fn->cg, fn->b, fn->v, d, y);
  LLVMValueRef r = float_binary(fn, e, x, y);
  return dtype_is_bool(e->dtype) ? r : half_from_f32(fn->cg, fn->b, fn->v, e->dtype, r);
}

/* Value of `cond ? a : b` by branches; for `and`/`or` one side is a constant. */
static LLVMValueRef lazy(Fn *fn, LLVMValueRef cond, const Expr *a, const Expr *b, LLVMTypeRef t) {
  bool known;
  LLVMValueRef falses = LLVMConstNull(fn->cg->i1), trues = LLVMConstAllOnes(fn->cg->i1);
  if (cg_known_bool(cond, &known)) {
    const Expr *e = known ? a : b;
    return e ? fn_expr(fn, e) : known ? trues : falses;
  }
  LLVMBasicBlockRef yes = fn_block(fn, "then"), no = fn_block(fn, "else");
  LLVMBasicBlockRef end = fn_block(fn, "end"), from[2];
  LLVMValueRef br = LLVMBuildCondBr(fn->b, cond, yes, no), in[2];
  for (int i = 0; i < 2; i++) {
    const Expr *e = i ? b : a;
    LLVMPositionBuilderAtEnd(fn->b, i ? no : yes);
    fn_scope_push(fn, br);
    fn_memo_push(fn);
    in[i] = e ? fn_expr(fn, e) : i ? falses : trues;
    from[i] = LLVMGetInsertBlock(fn->b);
    fn_memo_pop(fn);
    fn_scope_pop(fn);
    LLVMBuildBr(fn->b, end);
  }
  LLVMPositionBuilderAtEnd(fn->b, end);
  LLVMValueRef phi = LLVMBuildPhi(fn->b, t, "");
  LLVMAddIncoming(phi, in, from, 2);
  return phi;
}

static bool count_cost(const Expr *e, void *ctx) {
  int *n = ctx;
  if (e->kind == EXPR_LOAD || e->kind == EXPR_CALL || e->kind == EXPR_CALL_FUNC) *n += 100;
  if (e->kind == EXPR_DIV || e->kind == EXPR_LET) *n += 8;
  (*n)++;
  return true;
}

static bool is_cheap(const Expr *e) {
  int n = 0;
  expr_walk(e, count_cost, &n);
  return n <= 12;
}

static LLVMValueRef if_then_else(Fn *fn, const Expr *e) {
  const Expr *ce = e->arg[0], *a = e->arg[1], *b = e->arg[2];
  LLVMValueRef cond = fn_expr(fn, ce);
  bool known;
  if (cg_known_bool(cond, &known)) {
    LLVMValueRef v = fn_expr(fn, known ? a : b);
    return e->dtype.lanes > cg_lanes(v) ? cg_splat(fn->cg, fn->b, v, e->dtype.lanes) : v;
  }
  if (cg_lanes(cond) == 1) {
    if (a->dtype.lanes == b->dtype.lanes && !(is_cheap(a) && is_cheap(b)))
      return lazy(fn, cond, a, b, cg_reg_type(fn->cg, e->dtype));
    LLVMValueRef x = fn_expr(fn, a), y = fn_expr(fn, b);
    match_lanes(fn, &x, &y);
    return cg_select(fn->b, cond, x, y);
  }
  /* Lanes that are off read nothing. */
  LLVMValueRef outer = fn->mask, v[2];
  for (int i = 0; i < 2; i++) {
    LLVMValueRef m = i ? LLVMBuildNot(fn->b, cond, "") : cond;
    bool same = outer && cg_lanes(outer) == cg_lanes(m);
    fn->mask = same ? LLVMBuildAnd(fn->b, outer, m, "") : m;
    fn_memo_push(fn);
    v[i] = fn_expr(fn, e->arg[1 + i]);
    fn_memo_pop(fn);
    fn->mask = outer;
    if (cg_lanes(v[i]) == 1) v[i] = cg_splat(fn->cg, fn->b, v[i], cg_lanes(cond));
  }
  return cg_select(fn->b, cond, v[0], v[1]);
}

/* v is `x is NaN`. */
static bool is_self_unordered(LLVMValueRef v, LLVMValueRef *x) {
  if (!LLVMIsAFCmpInst(v) || LLVMGetFCmpPredicate(v) != LLVMRealUNO) return false;
  *x = LLVMGetOperand(v, 0);
  return *x == LLVMGetOperand(v, 1);
}

static LLVMValueRef logical(Fn *fn, const Expr *e) {
  bool is_and = e->kind == EXPR_AND, known;
  LLVMValueRef x = fn_expr(fn, e->arg[0]);
  if (cg_known_bool(x, &known) && known != is_and && e->arg[1]->dtype.lanes == cg_lanes(x))
    return x;
  if (cg_lanes(x) == 1 && e->arg[1]->dtype.lanes == 1 && !is_cheap(e->arg[1]))
    return is_and ? lazy(fn, x, e->arg[1], NULL, fn->cg->i1)
                  : lazy(fn, x, NULL, e->arg[1], fn->cg->i1);
  LLVMValueRef y = fn_expr(fn, e->arg[1]);
  match_lanes(fn, &x, &y);
  if (cg_known_bool(x, &known)) return known == is_and ? y : x;
  if (cg_known_bool(y, &known)) return known == is_and ? x : y;
  LLVMValueRef p, q;
  if (!is_and && is_self_unordered(x, &p) && is_self_unordered(y, &q) &&
      LLVMTypeOf(p) == LLVMTypeOf(q))
    return LLVMBuildFCmp(fn->b, LLVMRealUNO, p, q, "");
  return is_and ? LLVMBuildAnd(fn->b, x, y, "") : LLVMBuildOr(fn->b, x, y, "");
}

static LLVMValueRef shuffle(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  const Expr *pick = e->arg[e->n - 1];
  /* one or two vectors of one width, as they come from loads: one instruction */
  uint32_t nvec = e->n - 1, width = e->arg[0]->dtype.lanes;
  if (nvec <= 2 && width > 1 && pick->n > 1 && (nvec == 1 || e->arg[1]->dtype.lanes == width)) {
    LLVMValueRef lanes[64];
    uint32_t n = 0;
    for (int64_t k; n < pick->n && n < 64 && expr_const_int(fn->c, pick->arg[n], &k) && k >= 0 &&
                    k < (int64_t)(nvec * width);
         n++)
      lanes[n] = LLVMConstInt(LLVMInt32TypeInContext(LLVMGetTypeContext(cg->i64)),
                              (unsigned long long)k, false);
    if (n == pick->n) {
      LLVMValueRef x = fn_expr(fn, e->arg[0]);
      LLVMValueRef y = nvec == 2 ? fn_expr(fn, e->arg[1]) : LLVMGetPoison(LLVMTypeOf(x));
      return LLVMBuildShuffleVector(fn->b, x, y, LLVMConstVector(lanes, n), "");
    }
  }
  LLVMValueRef r = LLVMGetPoison(cg_reg_type(cg, e->dtype));
  for (uint32_t i = 0; i < pick->n; i++) {
    int64_t k;
    if (!expr_const_int(fn->c, pick->arg[i], &k)) {
      cg_error(cg, fn->span, "indices of a shuffle must be constants");
      return LLVMConstNull(cg_reg_type(cg, e->dtype));
    }
    LLVMValueRef x = NULL;
    for (uint32_t a = 0; a + 1 < e->n; a++) {
      uint32_t lanes = e->arg[a]->dtype.lanes;
      if (k < (int64_t)lanes) {
        x = fn_expr(fn, e->arg[a]);
        if (lanes > 1) x = LLVMBuildExtractElement(fn->b, x, cg_i64(cg, k), "");
        break;
      }
      k -= lanes;
    }
    if (!x) {
      cg_error(cg, fn->span, "index of a shuffle is out of range");
      return LLVMConstNull(cg_reg_type(cg, e->dtype));
    }
    if (pick->n == 1) return x;
    r = LLVMBuildInsertElement(fn->b, r, x, LLVMConstInt(cg->i64, i, false), "");
  }
  return r;
}

static LLVMValueRef literal(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  DType d = dtype_scalar(e->dtype);
  LLVMTypeRef t = cg_reg_type(cg, d);
  LLVMValueRef v;
  if (e->kind == EXPR_INT) {
    v = d.code == DTYPE_HANDLE ? LLVMConstNull(t) : LLVMConstInt(t, (uint64_t)e->i, true);
    if (dtype_is_bool(d)) v = LLVMConstInt(t, e->i != 0, false);
  } else if (is_half(d)) {
    uint16_t bits = 0; /* float8 fills the lower byte */
    dtype_store_double(d, &bits, e->f);
    v = LLVMConstInt(t, bits, false);
  } else {
    v = LLVMConstReal(t, e->f);
  }
  return cg_splat(cg, fn->b, v, e->dtype.lanes);
}

static LLVMValueRef var_value(Fn *fn, const Expr *e) {
  Binding *v = fn_lookup(fn, e->var);
  LLVMTypeRef t = cg_reg_type(fn->cg, e->dtype);
  if (!v) return LLVMConstNull(t);
  if (v->val) return v->val;
  LLVMValueRef x = v->def ? dim_value(fn, v->def) : v->idx;
  return LLVMTypeOf(x) == t ? x : LLVMBuildTrunc(fn->b, x, t, "");
}

static LLVMValueRef unary_not(Fn *fn, const Expr *e) {
  LLVMValueRef x = fn_expr(fn, e->arg[0]);
  return LLVMBuildNot(fn->b, x, "");
}

/* Is e's Dim something simpler than "opaque e"? */
static bool dim_helps(Fn *fn, const Expr *e) {
  const Dim *d = expr_dim(fn->c, e);
  return !dim_has_opaque(d);
}

static LLVMValueRef emit(Fn *fn, const Expr *e) {
  Cg *cg = fn->cg;
  LLVMBuilderRef b = fn->b;
  LLVMTypeRef t = cg_reg_type(cg, e->dtype);
  switch ((ExprKind)e->kind) {
  case EXPR_INT:
  case EXPR_FLOAT: return literal(fn, e);
  case EXPR_STR: return cg_string(cg, e->s);
  case EXPR_VAR: return var_value(fn, e);
  case EXPR_CAST: {
    LLVMValueRef x = fn_expr(fn, e->arg[0]);
    x = cg_convert(cg, b, fn->v, e->arg[0]->dtype, e->dtype, x);
    return e->dtype.lanes > cg_lanes(x) ? cg_splat(cg, b, x, e->dtype.lanes) : x;
  }
  case EXPR_ADD:
  case EXPR_SUB:
  case EXPR_MUL:
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_MIN:
  case EXPR_MAX:
    if (fn_is_index(fn, e) && dim_helps(fn, e)) {
      LLVMValueRef x = fn_index(fn, e);
      return LLVMTypeOf(x) == t ? x : LLVMBuildTrunc(b, x, t, "");
    }
    return binary(fn, e);
  case EXPR_DIV:
  case EXPR_MOD:
  case EXPR_EQ:
  case EXPR_NE:
  case EXPR_LT:
  case EXPR_LE:
  case EXPR_GT:
  case EXPR_GE:
  case EXPR_BITAND:
  case EXPR_BITOR:
  case EXPR_BITXOR:
  case EXPR_SHL:
  case EXPR_SHR: return binary(fn, e);
  case EXPR_AND:
  case EXPR_OR: return logical(fn, e);
  case EXPR_NOT:
  case EXPR_BITNOT: return unary_not(fn, e);
  case EXPR_SELECT: {
    LLVMValueRef c = fn_expr(fn, e->arg[0]), x = fn_expr(fn, e->arg[1]), y = fn_expr(fn, e->arg[2]);
    match_lanes(fn, &x, &y);
    if (cg_lanes(c) > 1 && cg_lanes(x) == 1) {
      x = cg_splat(cg, b, x, cg_lanes(c));
      y = cg_splat(cg, b, y, cg_lanes(c));
    }
    return cg_select(b, c, x, y);
  }
  case EXPR_LOAD: {
    LLVMValueRef pred = e->has_pred ? fn_expr(fn, e->arg[e->n - 1]) : NULL;
    return fn_load(fn, e->buf, e->arg, e->dtype, pred);
  }
  case EXPR_RAMP: {
    uint32_t n = e->dtype.lanes;
    LLVMValueRef base = cg_splat(cg, b, fn_expr(fn, e->arg[0]), n);
    LLVMValueRef step = cg_splat(cg, b, fn_expr(fn, e->arg[1]), n);
    LLVMValueRef iota = cg_iota(cg, cg_reg_type(cg, dtype_scalar(e->dtype)), n);
    return LLVMBuildAdd(b, base, LLVMBuildMul(b, step, iota, ""), "");
  }
  case EXPR_BROADCAST:
    return e->arg[0]->kind == EXPR_VAR ? fn_broadcast(fn, e->arg[0]->var, e->dtype.lanes)
                                       : cg_splat(cg, b, fn_expr(fn, e->arg[0]), e->dtype.lanes);
  case EXPR_SHUFFLE: return shuffle(fn, e);
  case EXPR_LET: {
    LLVMValueRef v = fn_expr(fn, e->arg[1]);
    const Var *var = e->arg[0]->var;
    Binding bind = {.val = v, .level = fn->level};
    if (dtype_is_sint(var->dtype) && var->dtype.lanes == 1)
      bind.idx = LLVMTypeOf(v) == cg->i64 ? v : LLVMBuildSExt(b, v, cg->i64, "");
    fn_bind(fn, var, bind);
    return fn_expr(fn, e->arg[2]);
  }
  case EXPR_CALL:
    if (e->intrin == INTRIN_if_then_else) return if_then_else(fn, e);
    return fn_call_expr(fn, e);
  case EXPR_CALL_FUNC: return fn_call_expr(fn, e);
  case EXPR_BUF_DATA: {
    const Dim *off =
        e->buf->elem_offset ? expr_dim(fn->c, e->buf->elem_offset) : dim_const(fn->c, 0);
    return fn_address(fn, e->buf->data, dim_resolve(fn, off), elem_bytes(e->buf->dtype));
  }
  case EXPR_KIND_COUNT: break;
  }
  bug("expression of kind %d", e->kind);
}

LLVMValueRef fn_expr(Fn *fn, const Expr *e) {
  if (e->kind == EXPR_INT || e->kind == EXPR_FLOAT || e->kind == EXPR_VAR) return emit(fn, e);
  LLVMValueRef v = fn->memo.n ? memo_get(fn, e) : NULL;
  if (v) return v;
  if (dtype_vscale(e->dtype)) {
    cg_error(fn->cg, fn->span, "a vector of T.vscale() * %u lanes can't be compiled",
             dtype_vscale(e->dtype));
    return LLVMGetUndef(cg_reg_type(fn->cg, dtype_scalar(e->dtype)));
  }
  v = emit(fn, e);
  if (fn->memo.n && e->kind != EXPR_CALL_FUNC &&
      (e->kind != EXPR_CALL || intrin_table[e->intrin].flags & INTRIN_PURE))
    map_setp(vec_last(&fn->memo), e, v);
  return v;
}
