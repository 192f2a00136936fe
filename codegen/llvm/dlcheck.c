/* Checks of one DLTensor, written once per module as internal functions in IR, so that each entry
 * only calls them. Messages name function, argument, expected and got.
 */
#include "codegen/llvm/dlcheck.h"

uint32_t dl_dtype_word(DType d) {
  return dtype_known(d) ? d.code | (uint32_t)d.bits << 8 | 1u << 16 : 0;
}

LLVMValueRef dl_field(Cg *cg, LLVMBuilderRef b, LLVMValueRef t, int64_t off) {
  LLVMValueRef at = cg_i64(cg, off);
  return off ? LLVMBuildInBoundsGEP2(b, cg->i8, t, &at, 1, "") : t;
}

LLVMValueRef dl_load(Cg *cg, LLVMBuilderRef b, LLVMValueRef t, int64_t off, LLVMTypeRef type) {
  LLVMValueRef v = LLVMBuildLoad2(b, type, dl_field(cg, b, t, off), "");
  LLVMSetAlignment(v, 4);
  return v;
}

LLVMValueRef dl_data(Cg *cg, LLVMBuilderRef b, LLVMValueRef t) {
  LLVMValueRef off = dl_load(cg, b, t, DL_OFFSET, cg->i64);
  LLVMValueRef p = dl_load(cg, b, t, DL_DATA, cg->ptr);
  return LLVMBuildGEP2(b, cg->i8, p, &off, 1, "");
}

/* ---- a small function in IR ---- */

typedef struct {
  Cg *cg;
  LLVMValueRef fn;
  LLVMBuilderRef b;
  LLVMTypeRef type;
} Helper;

static bool helper_begin(Helper *h, Cg *cg, const char *name, LLVMTypeRef ret,
                         LLVMTypeRef const *types, unsigned n) {
  h->cg = cg;
  h->type = cg_fn_type(ret, types, n, false);
  h->fn = LLVMGetNamedFunction(cg->mod, name);
  if (h->fn) return false;
  h->fn = LLVMAddFunction(cg->mod, name, h->type);
  LLVMSetLinkage(h->fn, LLVMInternalLinkage);
  cg_fn_attrs(cg, h->fn, &cg->target->variants[0]);
  cg_attr(cg, h->fn, LLVMAttributeFunctionIndex, "noinline", 0);
  cg_attr(cg, h->fn, LLVMAttributeFunctionIndex, "cold", 0);
  h->b = LLVMCreateBuilderInContext(cg->lc);
  LLVMPositionBuilderAtEnd(h->b, LLVMAppendBasicBlockInContext(cg->lc, h->fn, ""));
  return true;
}

static LLVMBasicBlockRef helper_block(Helper *h) {
  return LLVMAppendBasicBlockInContext(h->cg->lc, h->fn, "");
}

/* if (cond) { message; return code; } */
static void fail_if(Helper *h, LLVMValueRef cond, int code, const char *fmt,
                    LLVMValueRef const *args, uint32_t n) {
  LLVMBasicBlockRef bad = helper_block(h), good = helper_block(h);
  LLVMBuildCondBr(h->b, cond, bad, good);
  LLVMPositionBuilderAtEnd(h->b, bad);
  cg_message(h->cg, h->b, fmt, args, n);
  LLVMBuildRet(h->b, cg_i32(h->cg, code));
  LLVMPositionBuilderAtEnd(h->b, good);
}

static LLVMValueRef icmp(Helper *h, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildICmp(h->b, p, x, y, "");
}

static LLVMValueRef at64(Helper *h, LLVMValueRef p, LLVMValueRef i) {
  return LLVMBuildLoad2(h->b, h->cg->i64, LLVMBuildInBoundsGEP2(h->b, h->cg->i64, p, &i, 1, ""),
                        "");
}

/* A loop i = 0..n (i32 n): opens it and gives i (i64); accumulators are allocas. */
typedef struct {
  LLVMBasicBlockRef head, body, end, from;
  LLVMValueRef i;
} HelperLoop;

static HelperLoop loop_open(Helper *h, LLVMValueRef n) {
  Cg *cg = h->cg;
  HelperLoop l = {helper_block(h), helper_block(h), helper_block(h), LLVMGetInsertBlock(h->b),
                  NULL};
  LLVMValueRef end = LLVMBuildSExt(h->b, n, cg->i64, ""), zero = cg_i64(cg, 0);
  LLVMBuildBr(h->b, l.head);
  LLVMPositionBuilderAtEnd(h->b, l.head);
  l.i = LLVMBuildPhi(h->b, cg->i64, "");
  LLVMAddIncoming(l.i, &zero, &l.from, 1);
  LLVMBuildCondBr(h->b, icmp(h, LLVMIntSLT, l.i, end), l.body, l.end);
  LLVMPositionBuilderAtEnd(h->b, l.body);
  return l;
}

static void loop_close(Helper *h, HelperLoop *l) {
  LLVMValueRef next = LLVMBuildAdd(h->b, l->i, cg_i64(h->cg, 1), "");
  LLVMBasicBlockRef here = LLVMGetInsertBlock(h->b);
  LLVMAddIncoming(l->i, &next, &here, 1);
  LLVMBuildBr(h->b, l->head);
  LLVMPositionBuilderAtEnd(h->b, l->end);
}

/* ---- the helpers ---- */

static LLVMValueRef dtype_names(Cg *cg) {
  LLVMValueRef g = LLVMGetNamedGlobal(cg->mod, "rx.dtypes");
  if (g) return g;
  static const char *const names[16] = {
      "int", "uint", "float",         "handle", "bfloat",      "complex", "bool", "?",
      "?",   "?",    "float8_e4m3fn", "?",      "float8_e5m2", "?",       "?",    "?"};
  LLVMValueRef at[16];
  for (int i = 0; i < 16; i++) at[i] = cg_string(cg, names[i]);
  LLVMValueRef init = LLVMConstArray2(cg->ptr, at, 16);
  g = LLVMAddGlobal(cg->mod, LLVMTypeOf(init), "rx.dtypes");
  LLVMSetInitializer(g, init);
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMInternalLinkage);
  return g;
}

/* (t, function, role, name, dtype word, dtype text, ndim, elem_bytes) */
static void tensor_helper(Helper *h) {
  Cg *cg = h->cg;
  LLVMTypeRef types[8] = {cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->i32, cg->ptr, cg->i32, cg->i64};
  if (!helper_begin(h, cg, "rx.check_tensor", cg->i32, types, 8)) return;
  LLVMBuilderRef b = h->b;
  LLVMValueRef p[8], null = LLVMConstNull(cg->ptr), zero = cg_i64(cg, 0);
  for (unsigned i = 0; i < 8; i++) p[i] = LLVMGetParam(h->fn, i);
  LLVMValueRef t = p[0], m[8] = {p[1], p[2], p[3]};
  LLVMValueRef size = LLVMBuildAlloca(b, cg->i64, ""), stride = LLVMBuildAlloca(b, cg->i64, "");
  LLVMValueRef over = LLVMBuildAlloca(b, cg->i1, "");
  fail_if(h, icmp(h, LLVMIntEQ, t, null), ST_ARGUMENT, "%s: %s '%s' is NULL", m, 3);
  m[3] = dl_load(cg, b, t, DL_DEVICE, cg->i32);
  fail_if(h, icmp(h, LLVMIntNE, m[3], cg_i32(cg, 1)), ST_LAYOUT,
          "%s: %s '%s' is not in the CPU's memory (device type %d)", m, 4);
  /* dtype */
  LLVMValueRef word = dl_load(cg, b, t, DL_DTYPE, cg->i32);
  LLVMValueRef code = LLVMBuildAnd(b, word, cg_i32(cg, 15), "");
  LLVMValueRef at[2] = {zero, LLVMBuildZExt(b, code, cg->i64, "")};
  LLVMTypeRef table = LLVMArrayType2(cg->ptr, 16);
  m[3] = p[5];
  m[4] =
      LLVMBuildLoad2(b, cg->ptr, LLVMBuildInBoundsGEP2(b, table, dtype_names(cg), at, 2, ""), "");
  m[5] = LLVMBuildAnd(b, LLVMBuildLShr(b, word, cg_i32(cg, 8), ""), cg_i32(cg, 255), "");
  m[6] = LLVMBuildLShr(b, word, cg_i32(cg, 16), "");
  LLVMValueRef wrong = icmp(h, LLVMIntNE, word, p[4]);
  wrong = LLVMBuildAnd(b, wrong, icmp(h, LLVMIntNE, p[4], cg_i32(cg, 0)), "");
  fail_if(h, wrong, ST_DTYPE, "%s: %s '%s': expected dtype %s but got %s, %d bits, %d lanes", m, 7);
  /* rank */
  LLVMValueRef nd = dl_load(cg, b, t, DL_NDIM, cg->i32);
  m[3] = p[6];
  m[4] = nd;
  wrong = icmp(h, LLVMIntNE, nd, p[6]);
  wrong = LLVMBuildAnd(b, wrong, icmp(h, LLVMIntSGE, p[6], cg_i32(cg, 0)), "");
  fail_if(h, wrong, ST_RANK, "%s: %s '%s': expected %d dims but got %d", m, 5);
  LLVMValueRef shape = dl_load(cg, b, t, DL_SHAPE, cg->ptr);
  wrong = icmp(h, LLVMIntEQ, shape, null);
  wrong = LLVMBuildAnd(b, wrong, icmp(h, LLVMIntSGT, nd, cg_i32(cg, 0)), "");
  fail_if(h, wrong, ST_ARGUMENT, "%s: %s '%s': its shape is NULL", m, 3);
  /* dims and size */
  LLVMBuildStore(b, p[7], size);
  LLVMBuildStore(b, LLVMConstNull(cg->i1), over);
  HelperLoop l = loop_open(h, nd);
  LLVMValueRef d = at64(h, shape, l.i);
  m[3] = LLVMBuildTrunc(b, l.i, cg->i32, "");
  m[4] = d;
  fail_if(h, icmp(h, LLVMIntSLT, d, zero), ST_SHAPE, "%s: %s '%s': dim %d is negative: %lld", m, 5);
  LLVMValueRef args[2] = {LLVMBuildLoad2(b, cg->i64, size, ""), d};
  LLVMValueRef r = cg_intrinsic(cg, b, "llvm.smul.with.overflow", &cg->i64, 1, args, 2);
  LLVMBuildStore(b, LLVMBuildExtractValue(b, r, 0, ""), size);
  LLVMValueRef before = LLVMBuildLoad2(b, cg->i1, over, "");
  LLVMBuildStore(b, LLVMBuildOr(b, before, LLVMBuildExtractValue(b, r, 1, ""), ""), over);
  loop_close(h, &l);
  fail_if(h, LLVMBuildLoad2(b, cg->i1, over, ""), ST_OVERFLOW,
          "%s: %s '%s': its size is beyond 64 bits", m, 3);
  LLVMValueRef bytes = LLVMBuildLoad2(b, cg->i64, size, "");
  LLVMValueRef some = icmp(h, LLVMIntNE, bytes, zero);
  /* compact: strides of dims <= 1 don't matter, nor any of an empty tensor's */
  LLVMValueRef strides = dl_load(cg, b, t, DL_STRIDES, cg->ptr);
  LLVMValueRef has = LLVMBuildAnd(b, icmp(h, LLVMIntNE, strides, null), some, "");
  LLVMValueRef walk = LLVMBuildSelect(b, has, nd, cg_i32(cg, 0), "");
  LLVMBuildStore(b, cg_i64(cg, 1), stride);
  l = loop_open(h, walk);
  LLVMValueRef last = LLVMBuildSub(b, LLVMBuildSExt(b, nd, cg->i64, ""), cg_i64(cg, 1), "");
  LLVMValueRef k = LLVMBuildSub(b, last, l.i, "");
  d = at64(h, shape, k);
  LLVMValueRef got = at64(h, strides, k), want = LLVMBuildLoad2(b, cg->i64, stride, "");
  m[3] = LLVMBuildTrunc(b, k, cg->i32, "");
  m[4] = want;
  m[5] = got;
  wrong = icmp(h, LLVMIntSGT, d, cg_i64(cg, 1));
  wrong = LLVMBuildAnd(b, wrong, icmp(h, LLVMIntNE, got, want), "");
  fail_if(h, wrong, ST_LAYOUT,
          "%s: %s '%s' is not compact: stride of dim %d: expected %lld but got %lld", m, 6);
  LLVMBuildStore(b, LLVMBuildMul(b, want, d, ""), stride);
  loop_close(h, &l);
  /* data */
  LLVMValueRef data = dl_load(cg, b, t, DL_DATA, cg->ptr);
  fail_if(h, LLVMBuildAnd(b, some, icmp(h, LLVMIntEQ, data, null), ""), ST_ARGUMENT,
          "%s: %s '%s': its data is NULL", m, 3);
  LLVMValueRef addr = LLVMBuildPtrToInt(b, dl_data(cg, b, t), cg->i64, "");
  LLVMValueRef mask = LLVMBuildSub(b, p[7], cg_i64(cg, 1), "");
  m[3] = LLVMBuildTrunc(b, p[7], cg->i32, "");
  wrong = icmp(h, LLVMIntNE, LLVMBuildAnd(b, addr, mask, ""), zero);
  fail_if(h, LLVMBuildAnd(b, some, wrong, ""), ST_LAYOUT,
          "%s: %s '%s': its data is not aligned to %d bytes", m, 4);
  LLVMBuildRet(b, cg_i32(cg, 0));
  LLVMDisposeBuilder(b);
}

LLVMValueRef dl_check_tensor(Cg *cg, LLVMBuilderRef b, LLVMValueRef t, const char *function,
                             const char *role, const char *name, uint32_t dtype_word,
                             const char *dtype_text, int32_t ndim, int64_t elem_bytes) {
  Helper h = {.cg = cg};
  tensor_helper(&h);
  LLVMValueRef args[8] = {t,
                          cg_string(cg, function),
                          cg_string(cg, role),
                          cg_string(cg, name),
                          cg_i32(cg, (int32_t)dtype_word),
                          cg_string(cg, dtype_text),
                          cg_i32(cg, ndim),
                          cg_i64(cg, elem_bytes)};
  return LLVMBuildCall2(b, h.type, h.fn, args, 8, "");
}

/* (t, want, texts, function, role, name) */
static void dims_helper(Helper *h) {
  Cg *cg = h->cg;
  LLVMTypeRef types[6] = {cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->ptr};
  if (!helper_begin(h, cg, "rx.check_dims", cg->i32, types, 6)) return;
  LLVMBuilderRef b = h->b;
  LLVMValueRef t = LLVMGetParam(h->fn, 0), want = LLVMGetParam(h->fn, 1);
  LLVMValueRef texts = LLVMGetParam(h->fn, 2), null = LLVMConstNull(cg->ptr), m[7];
  for (unsigned i = 0; i < 3; i++) m[i] = LLVMGetParam(h->fn, i + 3);
  LLVMValueRef shape = dl_load(cg, b, t, DL_SHAPE, cg->ptr);
  HelperLoop l = loop_open(h, dl_load(cg, b, t, DL_NDIM, cg->i32));
  LLVMValueRef got = at64(h, shape, l.i), need = at64(h, want, l.i);
  LLVMBasicBlockRef bad = helper_block(h), good = helper_block(h), look = helper_block(h);
  LLVMBasicBlockRef plain = helper_block(h), named = helper_block(h);
  LLVMBuildCondBr(b, icmp(h, LLVMIntNE, got, need), bad, good);
  LLVMPositionBuilderAtEnd(b, bad);
  m[3] = LLVMBuildTrunc(b, l.i, cg->i32, "");
  LLVMBuildCondBr(b, icmp(h, LLVMIntEQ, texts, null), plain, look);
  LLVMPositionBuilderAtEnd(b, look);
  LLVMValueRef text =
      LLVMBuildLoad2(b, cg->ptr, LLVMBuildInBoundsGEP2(b, cg->ptr, texts, &l.i, 1, ""), "");
  LLVMBuildCondBr(b, icmp(h, LLVMIntEQ, text, null), plain, named);
  LLVMPositionBuilderAtEnd(b, plain);
  m[4] = need;
  m[5] = got;
  cg_message(cg, b, "%s: %s '%s': dim %d: expected %lld but got %lld", m, 6);
  LLVMBuildRet(b, cg_i32(cg, ST_SHAPE));
  LLVMPositionBuilderAtEnd(b, named);
  m[4] = text;
  m[5] = need;
  m[6] = got;
  cg_message(cg, b, "%s: %s '%s': dim %d: expected %s = %lld but got %lld", m, 7);
  LLVMBuildRet(b, cg_i32(cg, ST_SHAPE));
  LLVMPositionBuilderAtEnd(b, good);
  loop_close(h, &l);
  LLVMBuildRet(b, cg_i32(cg, 0));
  LLVMDisposeBuilder(b);
}

LLVMValueRef dl_check_dims(Cg *cg, LLVMBuilderRef b, LLVMValueRef t, LLVMValueRef want,
                           LLVMValueRef texts, const char *function, const char *role,
                           const char *name) {
  Helper h = {.cg = cg};
  dims_helper(&h);
  LLVMValueRef args[6] = {
      t, want, texts, cg_string(cg, function), cg_string(cg, role), cg_string(cg, name)};
  return LLVMBuildCall2(b, h.type, h.fn, args, 6, "");
}

static void bytes_helper(Helper *h) {
  Cg *cg = h->cg;
  if (!helper_begin(h, cg, "rx.tensor_bytes", cg->i64, &cg->ptr, 1)) return;
  LLVMBuilderRef b = h->b;
  LLVMValueRef t = LLVMGetParam(h->fn, 0), n = LLVMBuildAlloca(b, cg->i64, "");
  LLVMValueRef word = dl_load(cg, b, t, DL_DTYPE, cg->i32);
  LLVMValueRef bits =
      LLVMBuildAnd(b, LLVMBuildLShr(b, word, cg_i32(cg, 8), ""), cg_i32(cg, 255), "");
  LLVMValueRef bytes =
      LLVMBuildLShr(b, LLVMBuildAdd(b, bits, cg_i32(cg, 7), ""), cg_i32(cg, 3), "");
  LLVMBuildStore(b, LLVMBuildZExt(b, bytes, cg->i64, ""), n);
  LLVMValueRef shape = dl_load(cg, b, t, DL_SHAPE, cg->ptr);
  HelperLoop l = loop_open(h, dl_load(cg, b, t, DL_NDIM, cg->i32));
  LLVMValueRef product = LLVMBuildLoad2(b, cg->i64, n, "");
  LLVMBuildStore(b, LLVMBuildMul(b, product, at64(h, shape, l.i), ""), n);
  loop_close(h, &l);
  LLVMBuildRet(b, LLVMBuildLoad2(b, cg->i64, n, ""));
  LLVMDisposeBuilder(b);
}

LLVMValueRef dl_bytes(Cg *cg, LLVMBuilderRef b, LLVMValueRef t) {
  Helper h = {.cg = cg};
  bytes_helper(&h);
  return LLVMBuildCall2(b, h.type, h.fn, &t, 1, "");
}

static void overlap_helper(Helper *h) {
  Cg *cg = h->cg;
  LLVMTypeRef types[6] = {cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->ptr};
  if (!helper_begin(h, cg, "rx.check_overlap", cg->i32, types, 6)) return;
  LLVMBuilderRef b = h->b;
  LLVMValueRef x = LLVMGetParam(h->fn, 0), y = LLVMGetParam(h->fn, 1), lo[2], hi[2];
  LLVMValueRef m[4], t[2] = {x, y};
  for (unsigned i = 0; i < 4; i++) m[i] = LLVMGetParam(h->fn, i + 2);
  for (int i = 0; i < 2; i++) {
    lo[i] = LLVMBuildPtrToInt(b, dl_data(cg, b, t[i]), cg->i64, "");
    LLVMValueRef n = dl_bytes(cg, b, t[i]);
    hi[i] = LLVMBuildAdd(b, lo[i], n, "");
    LLVMBasicBlockRef empty = helper_block(h), some = helper_block(h);
    LLVMBuildCondBr(b, icmp(h, LLVMIntEQ, n, cg_i64(cg, 0)), empty, some);
    LLVMPositionBuilderAtEnd(b, empty);
    LLVMBuildRet(b, cg_i32(cg, 0));
    LLVMPositionBuilderAtEnd(b, some);
  }
  LLVMValueRef bad = icmp(h, LLVMIntULT, lo[0], hi[1]);
  bad = LLVMBuildAnd(b, bad, icmp(h, LLVMIntULT, lo[1], hi[0]), "");
  fail_if(h, bad, ST_OVERLAP, "%s: output '%s' overlaps %s '%s'", m, 4);
  LLVMBuildRet(b, cg_i32(cg, 0));
  LLVMDisposeBuilder(b);
}

/* The name in entry i of an array of value descriptions (entry.c). */
static LLVMValueRef name_at(Helper *h, LLVMValueRef infos, LLVMValueRef i) {
  LLVMValueRef at = LLVMBuildInBoundsGEP2(h->b, dl_info_type(h->cg), infos, &i, 1, "");
  return LLVMBuildLoad2(h->b, h->cg->ptr, at, "");
}

static LLVMValueRef pointer_at(Helper *h, LLVMValueRef array, LLVMValueRef i) {
  LLVMValueRef at = LLVMBuildInBoundsGEP2(h->b, h->cg->ptr, array, &i, 1, "");
  return LLVMBuildLoad2(h->b, h->cg->ptr, at, "");
}

/* Goes on in a new block if cond holds, else in `otherwise`. */
static void only_if(Helper *h, LLVMValueRef cond, LLVMBasicBlockRef otherwise) {
  LLVMBasicBlockRef yes = helper_block(h);
  LLVMBuildCondBr(h->b, cond, yes, otherwise);
  LLVMPositionBuilderAtEnd(h->b, yes);
}

/* Returns the status of the pair when it is one, goes on in `next`. */
static void check_pair(Helper *h, LLVMValueRef const *args, LLVMBasicBlockRef next) {
  Helper pair = {.cg = h->cg};
  overlap_helper(&pair);
  LLVMValueRef status =
      LLVMBuildCall2(h->b, pair.type, pair.fn, (LLVMValueRef *)(uintptr_t)args, 6, "");
  only_if(h, icmp(h, LLVMIntNE, status, cg_i32(h->cg, 0)), next);
  LLVMBuildRet(h->b, status);
  LLVMPositionBuilderAtEnd(h->b, next);
}

/* (function, outs, their number, their infos, args, their number, their infos, in_place) */
static void overlaps_helper(Helper *h) {
  Cg *cg = h->cg;
  LLVMTypeRef types[8] = {cg->ptr, cg->ptr, cg->i32, cg->ptr, cg->ptr, cg->i32, cg->ptr, cg->ptr};
  if (!helper_begin(h, cg, "rx.check_overlaps", cg->i32, types, 8)) return;
  LLVMBuilderRef b = h->b;
  LLVMValueRef p[8], null = LLVMConstNull(cg->ptr);
  for (unsigned i = 0; i < 8; i++) p[i] = LLVMGetParam(h->fn, i);
  HelperLoop each = loop_open(h, p[2]);
  LLVMBasicBlockRef next_out = helper_block(h), next_arg = helper_block(h);
  LLVMBasicBlockRef next_before = helper_block(h);
  LLVMValueRef out = pointer_at(h, p[1], each.i);
  only_if(h, icmp(h, LLVMIntNE, dl_load(cg, b, out, DL_DATA, cg->ptr), null), next_out);
  LLVMValueRef name = name_at(h, p[3], each.i);
  LLVMValueRef at = LLVMBuildInBoundsGEP2(b, cg->i32, p[7], &each.i, 1, "");
  LLVMValueRef own = LLVMBuildSExt(b, LLVMBuildLoad2(b, cg->i32, at, ""), cg->i64, "");
  HelperLoop in = loop_open(h, p[5]);
  LLVMValueRef arg = pointer_at(h, p[4], in.i);
  LLVMValueRef to = dl_data(cg, b, out), from = dl_data(cg, b, arg);
  LLVMValueRef elsewhere = icmp(h, LLVMIntNE, to, from), not_own = icmp(h, LLVMIntNE, in.i, own);
  LLVMValueRef other = LLVMBuildOr(b, not_own, elsewhere, "");
  only_if(h, other, next_arg);
  LLVMValueRef pair[6] = {out, arg, p[0], name, cg_string(cg, "argument"), name_at(h, p[6], in.i)};
  check_pair(h, pair, next_arg);
  loop_close(h, &in);
  in = loop_open(h, LLVMBuildTrunc(b, each.i, cg->i32, ""));
  LLVMValueRef before = pointer_at(h, p[1], in.i);
  only_if(h, icmp(h, LLVMIntNE, dl_load(cg, b, before, DL_DATA, cg->ptr), null), next_before);
  pair[1] = before;
  pair[4] = cg_string(cg, "output");
  pair[5] = name_at(h, p[3], in.i);
  check_pair(h, pair, next_before);
  loop_close(h, &in);
  LLVMBuildBr(b, next_out);
  LLVMPositionBuilderAtEnd(b, next_out);
  loop_close(h, &each);
  LLVMBuildRet(b, cg_i32(cg, 0));
  LLVMDisposeBuilder(b);
}

LLVMValueRef dl_check_overlaps(Cg *cg, LLVMBuilderRef b, const char *function, DlValues outs,
                               DlValues args, LLVMValueRef in_place) {
  Helper h = {.cg = cg};
  overlaps_helper(&h);
  LLVMValueRef a[8] = {cg_string(cg, function),
                       outs.tensors,
                       cg_i32(cg, (int32_t)outs.n),
                       outs.infos,
                       args.tensors,
                       cg_i32(cg, (int32_t)args.n),
                       args.infos,
                       in_place};
  return LLVMBuildCall2(b, h.type, h.fn, a, 8, "");
}

/* (outs, their number, flags) */
static void free_helper(Helper *h) {
  Cg *cg = h->cg;
  LLVMTypeRef types[3] = {cg->ptr, cg->i32, cg->ptr};
  if (!helper_begin(h, cg, "rx.free_outputs", cg->void_t, types, 3)) return;
  LLVMBuilderRef b = h->b;
  HelperLoop l = loop_open(h, LLVMGetParam(h->fn, 1));
  LLVMBasicBlockRef next = helper_block(h);
  LLVMValueRef out = pointer_at(h, LLVMGetParam(h->fn, 0), l.i);
  LLVMValueRef at = LLVMBuildInBoundsGEP2(b, cg->i8, LLVMGetParam(h->fn, 2), &l.i, 1, "");
  LLVMValueRef flag = LLVMBuildLoad2(b, cg->i8, at, "");
  only_if(h, icmp(h, LLVMIntNE, flag, LLVMConstNull(cg->i8)), next);
  LLVMValueRef data = dl_load(cg, b, out, DL_DATA, cg->ptr);
  LLVMTypeRef t = cg_fn_type(cg->void_t, &cg->ptr, 1, false);
  LLVMBuildCall2(b, t, cg_extern(cg, "rx_free", t), &data, 1, "");
  LLVMSetAlignment(LLVMBuildStore(b, LLVMConstNull(cg->ptr), dl_field(cg, b, out, DL_DATA)), 4);
  LLVMBuildBr(b, next);
  LLVMPositionBuilderAtEnd(b, next);
  loop_close(h, &l);
  LLVMBuildRetVoid(b);
  LLVMDisposeBuilder(b);
}

void dl_free_outputs(Cg *cg, LLVMBuilderRef b, DlValues outs, LLVMValueRef flags) {
  Helper h = {.cg = cg};
  free_helper(&h);
  LLVMValueRef a[3] = {outs.tensors, cg_i32(cg, (int32_t)outs.n), flags};
  LLVMBuildCall2(b, h.type, h.fn, a, 3, "");
}

LLVMTypeRef dl_info_type(Cg *cg) {
  LLVMTypeRef f[5] = {cg->ptr, cg->i32, cg->i32, cg->i32, cg->ptr};
  return LLVMStructTypeInContext(cg->lc, f, 5, false);
}

/* ---- without the runtime library ---- */

static LLVMBuilderRef weak_function(Cg *cg, const char *name, LLVMTypeRef type) {
  LLVMValueRef f = LLVMGetNamedFunction(cg->mod, name);
  if (!f) f = LLVMAddFunction(cg->mod, name, type);
  LLVMSetLinkage(f, LLVMWeakAnyLinkage);
  cg_fn_attrs(cg, f, &cg->target->variants[0]);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(cg->lc);
  LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(cg->lc, f, ""));
  return b;
}

void dl_define_runtime(Cg *cg) {
  LLVMTypeRef text = LLVMArrayType2(cg->i8, ERROR_SIZE);
  LLVMValueRef g = LLVMAddGlobal(cg->mod, text, "rx.message");
  LLVMSetInitializer(g, LLVMConstNull(text));
  LLVMSetLinkage(g, LLVMInternalLinkage);
  /* Any number of such objects may be loaded into a running program; a linked one relaxes this. */
  LLVMSetThreadLocalMode(g, LLVMGeneralDynamicTLSModel);
  LLVMTypeRef get = cg_fn_type(cg->ptr, NULL, 0, false);
  static const char *const names[2] = {"rx_error_buffer", "rx_error"};
  for (int i = 0; i < 2; i++) {
    LLVMBuilderRef b = weak_function(cg, names[i], get);
    /* rx_error asks rx_error_buffer, so that of several objects both come from one. */
    LLVMValueRef p = g;
    if (i)
      p = LLVMBuildCall2(b, get, LLVMGetNamedFunction(cg->mod, names[0]), NULL, 0, "");
    else
      p = cg_intrinsic(cg, b, "llvm.threadlocal.address", &cg->ptr, 1, &g, 1);
    LLVMBuildRet(b, p);
    LLVMDisposeBuilder(b);
  }
  LLVMTypeRef ft = cg_fn_type(cg->void_t, &cg->ptr, 1, false);
  LLVMBuilderRef b = weak_function(cg, "rx_free", ft);
  LLVMValueRef arg = LLVMGetParam(LLVMGetNamedFunction(cg->mod, "rx_free"), 0);
  LLVMBuildCall2(b, ft, cg_extern(cg, "free", ft), &arg, 1, "");
  LLVMBuildRetVoid(b);
  LLVMDisposeBuilder(b);
}
