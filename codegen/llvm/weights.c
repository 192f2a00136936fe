/* Constants: where their bytes lie, and how code finds them.
 *
 * Large ones are no business of LLVM's, whose copies would multiply hundreds of megabytes. They get
 * places, multiples of 64, in one run of bytes (the pool), and code reads them at its start plus
 * the place. The start is
 *   - in an object: a hidden symbol, defined by the section that elf.c adds behind LLVM's object;
 *   - with --weights-mode=external: what the runtime maps the file to. Each function asks for it
 *     once, at its start; path, size and hash are filled in when all functions are emitted.
 * In this process code reads a constant where it lies in memory. Small constants, and all in text
 * forms and formats other than ELF, are constants of LLVM's. Equal constants are stored once.
 */
#include "codegen/llvm/graph.h"

extern void rx_weights_hash_add(uint64_t lanes[4], const void *data, uint64_t size);
extern uint64_t rx_weights_hash_end(uint64_t lanes[4], uint64_t size);

enum { SMALLEST = 64 }; /* bytes; smaller constants stay with the code */

/* ---- equal constants ---- */

/* Of the size and a few bytes: equal ones differ surely; the others are compared. */
static uint64_t sample(const ConstData *d) {
  enum { SAMPLE = 64 };
  if (d->size <= SAMPLE) return hash_bytes(d->bytes, d->size, d->size);
  const char *p = d->bytes;
  uint64_t h = hash_bytes(p, SAMPLE, d->size);
  h = hash_bytes(p + d->size / 2 - SAMPLE / 2, SAMPLE, h);
  return hash_bytes(p + d->size - SAMPLE, SAMPLE, h);
}

typedef struct Same {
  const ConstData *d;
  struct Same *next;
} Same;

/* The first constant with these bytes. */
static const ConstData *first_equal(Cg *cg, const ConstData *d) {
  void **known = map_atp(&cg->canonical, d);
  if (*known) return *known;
  *known = (void *)(uintptr_t)d;
  void **at = map_at(&cg->samples, sample(d));
  for (const Same *s = *at; s; s = s->next)
    if (s->d->size == d->size && memcmp(s->d->bytes, d->bytes, d->size) == 0) {
      map_setp(&cg->canonical, d, (void *)(uintptr_t)s->d);
      return s->d;
    }
  Same *new = ARENA_NEW(cg->arena, Same);
  *new = (Same){d, *at};
  *at = new;
  return d;
}

/* ---- the pool ---- */

bool cg_is_elf(const Cg *cg) {
  return strstr(cg->target->triple, "linux") != NULL;
}

static bool in_pool(const Cg *cg, const ConstData *d) {
  bool object = cg->opt->kind == CODE_OBJECT && cg_is_elf(cg) && !cg->jit;
  return d->size > SMALLEST && (cg->opt->external || object);
}

/* Where d stands in the pool. */
static uint64_t pool_place(Cg *cg, const ConstData *d) {
  void **at = map_atp(&cg->places, d);
  if (!*at) {
    *at = (void *)(uintptr_t)(cg->pool_size + 1);
    vec_push(cg->arena, &cg->pool, d);
    cg->pool_size = (cg->pool_size + d->size + 63) / 64 * 64;
  }
  return (uint64_t)(uintptr_t)*at - 1;
}

const char *weights_symbol(Cg *cg) {
  return arena_printf(cg->arena, "%s.weights", cg->opt->prefix);
}

static LLVMValueRef pool_start(Graph *g) {
  Cg *cg = g->cg;
  if (cg->opt->external) return g->weights;
  if (!cg->pool_start) {
    cg->pool_start = LLVMAddGlobal(cg->mod, cg->i8, weights_symbol(cg));
    LLVMSetGlobalConstant(cg->pool_start, true);
    LLVMSetVisibility(cg->pool_start, LLVMHiddenVisibility);
    LLVMSetAlignment(cg->pool_start, 64);
  }
  return cg->pool_start;
}

void weights_pieces(const Cg *cg, Arena *a, CodePieces *out) {
  static const char zeros[64];
  for (uint32_t i = 0; i < cg->pool.n; i++) {
    const ConstData *d = cg->pool.at[i];
    vec_push(a, out, ((CodePiece){d->bytes, d->size}));
    if (d->size % 64) vec_push(a, out, ((CodePiece){zeros, 64 - d->size % 64}));
  }
}

/* ---- a file of their own ---- */

static void find_const(Node *n, void *ctx) {
  Graph *g = ctx;
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *x = node_in(n, i);
    if (x->op == OP_CONST && in_pool(g->cg, x->data)) g->wants_weights = true;
    if (x->op == OP_TUPLE && !node_is_bound(x)) find_const(x, ctx);
  }
  if (n->op != OP_IF) return;
  Node *results[2] = {n->if_.then_.yield, n->if_.else_.yield};
  for (int i = 0; i < 2; i++) find_const(results[i], ctx);
}

void weights_open(Graph *g) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  Func *f = (Func *)(uintptr_t)g->host->f;
  if (!cg->opt->external) return;
  func_each_node(f, find_const, g);
  find_const(f->body.yield, g);
  if (!g->wants_weights) return;
  LLVMTypeRef fields[3] = {cg->ptr, cg->i64, cg->i64};
  if (!cg->weights_file) {
    LLVMTypeRef t = LLVMStructTypeInContext(cg->lc, fields, 3, false);
    cg->weights_file = LLVMAddGlobal(cg->mod, t, "weights.file");
    LLVMSetLinkage(cg->weights_file, LLVMInternalLinkage);
    LLVMSetGlobalConstant(cg->weights_file, true);
    cg->weights_slot = LLVMAddGlobal(cg->mod, cg->ptr, "weights.slot");
    LLVMSetLinkage(cg->weights_slot, LLVMInternalLinkage);
    LLVMSetInitializer(cg->weights_slot, LLVMConstNull(cg->ptr));
    LLVMSetInitializer(cg->weights_file, LLVMConstNull(t));
  }
  LLVMTypeRef types[3] = {cg->ptr, cg->ptr, cg->ptr}, t = cg_fn_type(cg->i32, types, 3, false);
  LLVMValueRef at = fn_alloca(fn, cg->ptr, 1, 8);
  LLVMValueRef args[3] = {cg->weights_file, cg->weights_slot, at};
  fn_check_status(fn, LLVMBuildCall2(fn->b, t, cg_extern(cg, "rx_weights_map", t), args, 3, ""));
  g->weights = LLVMBuildLoad2(fn->b, cg->ptr, at, "");
}

void weights_close(Cg *cg) {
  if (!cg->weights_file) return;
  uint64_t lanes[4] = {1, 2, 3, 4};
  for (uint32_t i = 0; i < cg->pool.n; i++) {
    const ConstData *d = cg->pool.at[i];
    char tail[64] = {0};
    size_t whole = d->size / 64 * 64;
    rx_weights_hash_add(lanes, d->bytes, whole);
    if (whole == d->size) continue;
    memcpy(tail, (const char *)d->bytes + whole, d->size - whole);
    rx_weights_hash_add(lanes, tail, 64);
  }
  LLVMValueRef f[3] = {cg_string(cg, cg->opt->external), cg_i64(cg, (int64_t)cg->pool_size),
                       cg_i64(cg, (int64_t)rx_weights_hash_end(lanes, cg->pool_size))};
  LLVMSetInitializer(cg->weights_file, LLVMConstStructInContext(cg->lc, f, 3, false));
}

/* ---- addresses ---- */

static LLVMValueRef llvm_const(Cg *cg, const ConstData *d) {
  void **at = map_atp(&cg->consts, d);
  if (*at) return *at;
  LLVMValueRef init = d->size ? LLVMConstDataArray(cg->i8, d->bytes, d->size)
                              : LLVMConstNull(LLVMArrayType2(cg->i8, 1));
  LLVMValueRef g =
      LLVMAddGlobal(cg->mod, LLVMTypeOf(init), arena_printf(cg->arena, "const.%u", d->id));
  LLVMSetInitializer(g, init);
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMInternalLinkage);
  LLVMSetAlignment(g, 64);
  *at = g;
  return g;
}

LLVMValueRef const_address(Graph *g, const ConstData *d) {
  Cg *cg = g->cg;
  d = first_equal(cg, d);
  if (in_pool(cg, d)) {
    LLVMValueRef off = cg_i64(cg, (int64_t)pool_place(cg, d));
    return LLVMBuildInBoundsGEP2(g->fn->b, cg->i8, pool_start(g), &off, 1, "");
  }
  /* This process: the module outlives its code. What isn't aligned as kernels like it is copied. */
  if (cg->jit && d->size > SMALLEST && (uintptr_t)d->bytes % 64 == 0)
    return LLVMConstIntToPtr(cg_i64(cg, (int64_t)(intptr_t)d->bytes), cg->ptr);
  return llvm_const(cg, d);
}
