/* What the files of codegen/llvm share.
 *
 * A Cg fills one LLVM module. A Fn emits one prim_func (or one outlined parallel loop). No LLVM
 * pass runs afterwards, so the emitter itself folds constants, drops dead branches, keeps small
 * buffers in SSA values and hoists address arithmetic:
 *
 * - A scope is opened by each loop and each branch; its number is its level. A value whose
 *   variables all belong to levels <= k is computed once, just before the instruction that opened
 *   scope k+1 (its anchor), and remembered in scope k. But where scope k+1 is a branch with loops,
 *   it is computed there: the other branches don't pay for it.
 * - A binding says what a variable is: a constant or Dim of other variables (unrolled loops,
 *   index lets), else an LLVM value.
 *
 * In registers bool is i1, float16 and bfloat16 are their bits in an i16, other types LLVM's own.
 */
#ifndef RELAXC_CODEGEN_LLVM_CG_H
#define RELAXC_CODEGEN_LLVM_CG_H

#include "codegen/abi.h"
#include "codegen/codegen.h"
#include "ir/base/map.h"
#include "ir/dim.h"
#include "ir/module.h"

#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/TargetMachine.h>

/* Codes of relaxrt.h that generated code returns; the compiler doesn't include the runtime. */
enum {
  ST_ARGUMENT = -1,
  ST_DTYPE = -2,
  ST_RANK = -3,
  ST_SHAPE = -4,
  ST_LAYOUT = -5,
  ST_OVERLAP = -6,
  ST_OVERFLOW = -7,
  ST_MEMORY = -8,
  ST_INDEX = -9,
  ST_MATCH = -10,
  ST_EXTERN = -12,
  ST_INTERNAL = -13,
};
enum { ERROR_SIZE = 1024, MAX_STACK_BYTES = 64 << 10, MAX_CELLS = 512 };
/* A kernel of more buffers gets them as an array of pointers: as many arguments, alive from the
 * entry on, would take the register allocator time that grows with their square. */
enum { MAX_BUFFER_ARGS = 48 };

/* A prim_func as callable code: one LLVM function per variant that differs. */
typedef struct Kernel {
  const PrimFunc *f;
  uint64_t hash; /* of f, up to names */
  LLVMTypeRef type;
  uint32_t n; /* entries of fns; 1, or the target's number of variants */
  LLVMValueRef fns[TARGET_MAX_VARIANTS];
  LLVMValueRef table; /* constant array of fns when n > 1 */
  bool can_fail;      /* false: always returns 0 */
  bool listed;        /* the first argument is the list of the buffers' addresses */
} Kernel;

typedef struct Cg {
  Context *c;
  Module *m;
  Arena *arena;
  const Target *target;
  const CodegenOptions *opt;
  bool jit;    /* code runs in this process: the runtime is always there */
  bool failed; /* an error was reported */
  AbiModule abi;
  LLVMContextRef lc;
  LLVMModuleRef mod;
  LLVMTypeRef void_t, i1, i8, i16, i32, i64, f16, f32, f64, ptr;
  Map kernels;                 /* PrimFunc* -> Kernel* */
  VEC(Kernel *) by_order;      /* distinct kernels, for de-duplication */
  VEC(Kernel *) todo;          /* declared, not yet defined */
  StrMap strings;              /* text -> global */
  Map consts;                  /* ConstData* -> global */
  Map canonical, samples;      /* weights.c: equal constants */
  Map places;                  /* ConstData* -> place in the pool + 1 */
  VEC(const ConstData *) pool; /* large constants, in order */
  uint64_t pool_size;
  LLVMValueRef pool_start;                 /* the pool's symbol, when it is used */
  Map hosts;                               /* Func* -> Host* (graph.c) */
  StrMap endless;                          /* Relax functions that may recurse without end */
  LLVMValueRef variant_slot, variant_pick; /* module.c: lazy choice of the variant */
  LLVMValueRef weights_file, weights_slot;
  LLVMDIBuilderRef di;
  LLVMMetadataRef di_file, di_unit;
} Cg;

typedef struct {
  LLVMValueRef val; /* typed value, or NULL */
  LLVMValueRef idx; /* integers: as i64, or NULL */
  uint32_t level;
  const Dim *def;  /* in terms of other bound variables, or NULL */
  uint32_t listed; /* n + 1: val is entry n of the function's list, once it is needed; or 0 */
} Binding;

/* coef * loop variable, or a pointer that moves by as much, kept by addition. */
typedef struct {
  const Dim *coef; /* NULL: a pointer */
  LLVMValueRef phi, step;
} DerivedIv;

/* An address that others may be reached from: they are small multiples of a pitch away. */
typedef struct {
  const Var *data;
  const Dim *off;   /* bytes from data, without a constant */
  const Dim *coef;  /* it is a sum of what is further out and this times the loop's variable; or
                       NULL: it moves in another way, or not at all, or is a pointer of its own */
  const Dim *pitch; /* NULL: none so far */
  LLVMValueRef at;
} Near;

/* What a scope remembers, by keys of their own. */
typedef enum {
  KNOWN_DIM,     /* the Dim's id */
  KNOWN_ADDRESS, /* data variable id << 32 | id of the Dim in bytes */
  KNOWN_MASK,    /* lanes << 32 | id of the count */
  KNOWN_SPLAT,   /* the variable's id: a register of which all lanes have its value */
  KNOWN_ANCHOR,  /* an Anchor (index.c): as KNOWN_ADDRESS, by what of the Dim loops change */
  KNOWN_KINDS,
} Known;

typedef struct {
  LLVMValueRef anchor; /* what opened the scope; NULL for the function itself */
  bool keeps;          /* a branch with loops: what these need is computed inside */
  Map known[KNOWN_KINDS];
  VEC(Near) near;
  /* loops: */
  const Var *var;
  const Dim *min;
  int64_t step;
  LLVMBasicBlockRef header, preheader;
  VEC(DerivedIv) derived;
} Scope;

/* A small buffer kept in SSA values. */
typedef struct {
  const Buffer *buf;
  uint32_t n;
  LLVMValueRef *v;
} Cells;

/* A jump to a merge point, with the cells' values there. */
typedef struct {
  LLVMBasicBlockRef from;
  LLVMValueRef *cells; /* of the first `ncells` values of all live Cells, in order */
} Edge;
typedef VEC(Edge) EdgeVec;
typedef struct LoopCtx {
  LLVMBasicBlockRef break_to, continue_to;
  EdgeVec breaks, continues;
  uint32_t nlive; /* live Cells when the loop began */
  uint32_t nheap; /* allocations open when it began */
} LoopCtx;

/* A value that an outlined loop gets through its context, and where it starts there. */
typedef struct {
  LLVMValueRef value;
  uint32_t slot;
} Captured;

typedef struct Fn {
  Cg *cg;
  Context *c;
  Arena *arena;
  const PrimFunc *f;
  const Variant *v;
  LLVMValueRef fn;
  LLVMBuilderRef b;
  LLVMBasicBlockRef entry; /* holds allocas; ends in a jump */
  LLVMValueRef entry_end;
  struct Fn *parent;      /* of an outlined loop */
  LLVMValueRef ctx;       /* its context argument */
  LLVMValueRef list;      /* of buffers' addresses, or NULL */
  VEC(Captured) captured; /* values of the parent that the context holds */
  uint32_t nslots;        /* of 8 bytes each, that the context has */
  VEC(Scope *) scopes;
  uint32_t level;          /* where code goes now: scopes.n - 1, or lower while hoisting */
  LLVMBasicBlockRef block; /* insertion block of the innermost scope while hoisting */
  Map vars;                /* Var* -> Binding* */
  Map promoted; /* Buffer* -> Cells* (those decided by the analysis; v NULL before ALLOC) */
  VEC(Cells *) live;
  VEC(LLVMValueRef) heap; /* open allocations */
  VEC(LoopCtx *) loops;
  VEC(Map *) memo; /* Expr* -> value, within one statement */
  Map *loads;      /* data var, Dim, lanes -> value loaded; dropped at each write to memory */
  Map *kept;       /* the same of parameters that are only read: no write changes them */
  Map *only_read;  /* data vars of those */
  uint32_t loads_level;
  Map *streamed;     /* data vars of buffers that are stored past the caches just now, or NULL */
  LLVMValueRef mask; /* lanes that count (vector if_then_else), or NULL */
  LLVMValueRef ret;  /* where a value-returning function puts its result */
  LLVMBasicBlockRef leave; /* common return block, made on demand, and the status that arrives */
  LLVMValueRef leave_status;
  bool dead;                     /* the current block is finished */
  Span span;                     /* of the statement being emitted */
  LLVMMetadataRef di_sub, di_at; /* -g: the function, the position being emitted for */
} Fn;

/* ---- types.c ---- */
LLVMTypeRef cg_reg_type(Cg *cg, DType d);
LLVMTypeRef cg_mem_type(Cg *cg, DType d);
LLVMTypeRef cg_vec(LLVMTypeRef t, uint32_t lanes); /* t itself for one lane */
static inline LLVMValueRef cg_i64(Cg *cg, int64_t v) {
  return LLVMConstInt(cg->i64, (unsigned long long)v, true);
}
static inline LLVMValueRef cg_i32(Cg *cg, int32_t v) {
  return LLVMConstInt(cg->i32, (unsigned long long)(long long)v, true);
}
void cg_error(Cg *cg, Span s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Pointer to a NUL-terminated constant. */
LLVMValueRef cg_string(Cg *cg, const char *s);
/* Declares (once) an external function. */
LLVMValueRef cg_extern(Cg *cg, const char *name, LLVMTypeRef type);
LLVMTypeRef cg_fn_type(LLVMTypeRef ret, LLVMTypeRef const *args, unsigned n, bool variadic);
LLVMValueRef cg_intrinsic(Cg *cg, LLVMBuilderRef b, const char *name, LLVMTypeRef const *types,
                          unsigned ntypes, LLVMValueRef const *args, unsigned n);
void cg_attr(Cg *cg, LLVMValueRef fn, unsigned where, const char *name, uint64_t v);
void cg_attr_str(Cg *cg, LLVMValueRef fn, const char *key, const char *value);
/* target-cpu and friends of a variant; nounwind. */
void cg_fn_attrs(Cg *cg, LLVMValueRef fn, const Variant *v);
LLVMValueRef cg_splat(Cg *cg, LLVMBuilderRef b, LLVMValueRef v, uint32_t lanes);
/* <0, 1, ...> of an integer type. */
LLVMValueRef cg_iota(Cg *cg, LLVMTypeRef t, uint32_t lanes);
/* Select that folds a constant condition. */
LLVMValueRef cg_select(LLVMBuilderRef b, LLVMValueRef c, LLVMValueRef t, LLVMValueRef f);
bool cg_known_bool(LLVMValueRef c, bool *v);
uint32_t cg_lanes(LLVMValueRef v);
/* Adds, multiplies: drop neutral constants. */
LLVMValueRef cg_add(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef cg_mul(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y);
/* Division that is defined for all operands: x/0 = 0, x%0 = 0, INT_MIN/-1 wraps. */
LLVMValueRef cg_div(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y, bool sgn, bool floor,
                    bool mod);

/* ---- convert.c: half types ---- */
/* i16 bits -> f32 and back (lanes kept); d is float16 or bfloat16. */
LLVMValueRef half_to_f32(Cg *cg, LLVMBuilderRef b, const Variant *v, DType d, LLVMValueRef x);
LLVMValueRef half_from_f32(Cg *cg, LLVMBuilderRef b, const Variant *v, DType d, LLVMValueRef x);
LLVMValueRef half_from_f64(Cg *cg, LLVMBuilderRef b, const Variant *v, DType d, LLVMValueRef x);
/* Any register value of type `from` as type `to` (lanes as x has). */
LLVMValueRef cg_convert(Cg *cg, LLVMBuilderRef b, const Variant *v, DType from, DType to,
                        LLVMValueRef x);

/* ---- math.c ---- */
/* An INTRIN_FLOAT intrinsic on f32 or f64 values (scalar or vector); NULL when unknown. */
LLVMValueRef math_call(Cg *cg, LLVMBuilderRef b, const Variant *v, IntrinId id,
                       LLVMValueRef const *args, uint32_t n);

/* ---- index.c ---- */
void fn_bind(Fn *fn, const Var *v, Binding b);
/* NULL, after an error, when the variable has no value here. */
Binding *fn_lookup(Fn *fn, const Var *v);
Scope *fn_scope_push(Fn *fn, LLVMValueRef anchor);
void fn_scope_pop(Fn *fn);
/* Replaces variables that have a definition. */
const Dim *dim_resolve(Fn *fn, const Dim *d);
/* i64. */
LLVMValueRef dim_value(Fn *fn, const Dim *d);
LLVMValueRef fn_index(Fn *fn, const Expr *e);
/* Has it a part that is no sum of products (and may read memory)? Such a value is computed where it
 * is needed, never moved or remembered. */
bool dim_has_opaque(const Dim *d);
/* Is e an integer expression of index variables and constants only? */
bool fn_is_index(Fn *fn, const Expr *e);
/* The mask of the first `count` of `lanes` lanes. */
LLVMValueRef fn_lane_mask(Fn *fn, const Dim *count, uint32_t lanes);
/* The value of scalar variable v in all lanes, made where it got that value. */
LLVMValueRef fn_broadcast(Fn *fn, const Var *v, uint32_t lanes);
/* Pointer to element `off` (resolved) of memory at `data`, elements of `bytes`. */
LLVMValueRef fn_address(Fn *fn, const Var *data, const Dim *off, uint32_t bytes);

/* ---- expr.c ---- */
LLVMValueRef fn_expr(Fn *fn, const Expr *e);
void fn_store(Fn *fn, const Buffer *b, const Expr *const *idx, LLVMValueRef value,
              LLVMValueRef pred);
LLVMValueRef fn_load(Fn *fn, const Buffer *b, const Expr *const *idx, DType d, LLVMValueRef pred);
void fn_memo_push(Fn *fn);
void fn_memo_pop(Fn *fn);
void fn_wrote_memory(Fn *fn);
LLVMValueRef fn_call_expr(Fn *fn, const Expr *e); /* intrin.c: EXPR_CALL, EXPR_CALL_FUNC */

/* ---- streaming.c ---- */
/* The body of fn's function, twice where it has results that may be stored past the caches. */
void streaming_body(Fn *fn);
/* Orders what was stored past the caches before all that follows. */
void streaming_end(Fn *fn);
/* Lets `store` of so many bytes at element `at` of b go past the caches, if it may. */
void stream_store(Fn *fn, LLVMValueRef store, const Buffer *b, const Dim *at, uint32_t bytes);

/* ---- stmt.c ---- */
void fn_stmt(Fn *fn, const Stmt *s);
/* Will the emitter unroll it (constant extent, no break or continue of its own)? */
bool stmt_unrolls(Context *c, const Stmt *s, int64_t *min, int64_t *extent);
LLVMBasicBlockRef fn_block(Fn *fn, const char *name);
void fn_jump(Fn *fn, LLVMBasicBlockRef to);
/* Leaves the function with a status (pops what is open). */
void fn_return(Fn *fn, LLVMValueRef status);
/* Goes on only if the i32 status is 0, else returns it. */
void fn_check_status(Fn *fn, LLVMValueRef status);
/* Memory that was pushed on one branch only is popped where the function returns, if it was. */
void fn_keep_maybe(Fn *fn, LLVMValueRef p);
/* Formats a message and returns code when cond (i1) holds. fmt is printf's. */
void fn_fail_if(Fn *fn, LLVMValueRef cond, int code, const char *fmt, LLVMValueRef const *args,
                uint32_t n);
LLVMValueRef fn_alloca(Fn *fn, LLVMTypeRef t, uint64_t count, uint32_t align);
LLVMValueRef *fn_cells_save(Fn *fn, uint32_t nlive);
void fn_cells_restore(Fn *fn, LLVMValueRef *saved, uint32_t nlive);
/* The builder goes to `at`, where all edges arrive: phis for the cells that differ. */
void fn_merge(Fn *fn, LLVMBasicBlockRef at, const Edge *edges, uint32_t n, uint32_t nlive);

/* ---- debug.c: nothing without -g ---- */
void debug_begin(Cg *cg);
void debug_end(Cg *cg);
/* Subprogram of fn, whose text stands at s; every later instruction has a position. */
void debug_function(Fn *fn, const char *name, Span s);
void debug_at(Fn *fn, Span s);
/* Moving the builder in front of an instruction takes that one's position: sets it back. */
void debug_again(Fn *fn);

/* ---- promote.c ---- */
/* Decides which allocated buffers live in SSA values: fills fn->promoted. */
void fn_analyse(Fn *fn, const Stmt *body);

/* ---- func.c ---- */
/* Whether a call may pass another parameter in the same memory (passes/memory). */
bool is_in_place(const PrimFunc *f, uint32_t param);
Kernel *kernel_get(Cg *cg, const PrimFunc *f);
void kernel_define_all(Cg *cg);
/* Defines kernel k of `from` in the LLVM module of `to`; `from` keeps declarations. */
void kernel_move(Cg *from, Cg *to, Kernel *k);
/* Calls kernel k in host code or a kernel: gives the i32 status. `variant` is the index of the
 * variant of calling code, -1: chosen at run time. */
LLVMValueRef kernel_call(Cg *cg, LLVMBuilderRef b, Kernel *k, int variant, LLVMValueRef *args,
                         unsigned n);
/* The same in the code of function `function`, told to the profile hook where that is wanted. */
LLVMValueRef kernel_call_host(Cg *cg, LLVMBuilderRef b, const char *function, Kernel *k,
                              LLVMValueRef *args, unsigned n);
/* snprintf(rx_error_buffer(), ERROR_SIZE, fmt, ...). */
void cg_message(Cg *cg, LLVMBuilderRef b, const char *fmt, LLVMValueRef const *args, uint32_t n);
/* Scratch memory in generated code: the runtime's per-thread stack, or malloc without threads. */
LLVMValueRef cg_scratch_push(Cg *cg, LLVMBuilderRef b, LLVMValueRef bytes);
void cg_scratch_pop(Cg *cg, LLVMBuilderRef b, LLVMValueRef p);
/* Does the object have the runtime library (or the host process) to call? */
static inline bool cg_has_runtime(const Cg *cg) {
  return cg->jit || cg->target->threads;
}

/* Are the target's objects ELF files? */
bool cg_is_elf(const Cg *cg);

/* ---- graph.c, entry.c, module.c ---- */
/* One flattened value of a Relax function's interface. */
typedef struct {
  const SInfo *si; /* tensor, prim or shape */
  uint32_t param;
  bool dynamic; /* a tensor whose shape only the run knows. Argument: ndim i64 values follow its
                   pointer. Result: it gets a pointer to {ptr data, i64 dims[ndim]}; the callee
                   allocates data (freed with rx_free) */
} HostLeaf;
/* A Relax function as internal code:
 * i32 fn(args..., outs..., i64 dims..., ptr workspace): tensors and shapes as pointers, prims by
 * value; a result is always a pointer. i64 ws(i64 dims...): bytes of workspace, or -1 when that or
 * a tensor's size is beyond 64 bits. */
typedef struct Host {
  const Func *f;
  const AbiFunc *abi; /* of a public prim_func: the code calls its kernel; else NULL */
  HostLeaf *args, *outs;
  uint32_t nargs, nouts;
  LLVMValueRef fn, ws;
  LLVMTypeRef type, ws_type;
  bool endless; /* takes, last, the address of the stack where such calls began */
  bool defined;
} Host;
/* prim_entry.c */
void prim_host_define(Cg *cg, Host *h);
/* sizes.c: h->ws for `total` bytes of workspace, and dims that must not be negative. */
void host_define_bytes(Cg *cg, Host *h, const Dim *total, const Dim *const *early, uint32_t nearly);
/* Fails, in the calling function, when what h->ws gave is no size. */
void host_check_bytes(Fn *fn, LLVMValueRef bytes, LLVMValueRef name);
Host *host_get(Cg *cg, const Func *f);
void host_define_all(Cg *cg);
/* Calls h->fn with n arguments in a list that has room for one more; `stack`: NULL, or what the
 * calling function itself was given for that. */
LLVMValueRef host_call(Fn *fn, const Host *h, LLVMValueRef *args, uint32_t n, LLVMValueRef stack);
/* The value of d with overflow checks: ors i1 flags into *bad. Variables as fn binds them. */
LLVMValueRef dim_checked(Fn *fn, const Dim *d, LLVMValueRef *bad);
/* Elements times bytes of a tensor type with known dims, as a Dim. */
const Dim *sinfo_bytes(Context *c, const SInfo *si);
/* An Fn for host code at the baseline: entry block open, builder placed, scope pushed. */
void host_fn_begin(Fn *fn, Cg *cg, LLVMValueRef llfn);
void host_fn_end(Fn *fn);
/* memcpy of the C library. */
void cg_memcpy(Cg *cg, LLVMBuilderRef b, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes);
/* Fails with ST_MEMORY when p is NULL (the runtime has set the message). */
void fn_check_memory(Fn *fn, LLVMValueRef p);
void entry_emit_all(Cg *cg);
/* weights.c: describes the weights file; all functions are emitted. */
void weights_close(Cg *cg);
/* The bytes of the pool, in order. */
void weights_pieces(const Cg *cg, Arena *a, CodePieces *out);
/* The symbol at the pool's start in an object. */
const char *weights_symbol(Cg *cg);
/* The index (i32) of the variant of this processor. */
LLVMValueRef variant_index(Cg *cg, LLVMBuilderRef b);
/* Fills the LLVM module with entries and functions; kernels are declared only. False after errors.
 */
bool cg_build_hosts(Cg *cg);
/* Defines the kernels too, and checks. */
bool cg_build_kernels(Cg *cg);
/* LLVM's verifier; a violation is our bug. */
bool cg_verify(Cg *cg);
void cg_set_target(Cg *cg, LLVMTargetMachineRef machine);
void cg_init(Cg *cg, Module *m, const Target *t, const CodegenOptions *o, bool jit);
/* LLVM's level for kernels. */
LLVMCodeGenOptLevel cg_level(const CodegenOptions *o);
LLVMTargetMachineRef cg_machine(const Target *t, const CodegenOptions *o, LLVMCodeGenOptLevel level,
                                bool jit);
void cg_dispose(Cg *cg);

#endif
