/* One LLVM module from a Module: types, target machine, and the choice of the variant.
 *
 * The choice is one lazy store: `rx.variant` (0: not yet known) holds the index + 1; several
 * threads may compute it at once and store the same. No constructor, no ifunc: works in any object
 * format and in static libraries.
 */
#include "codegen/llvm/cg.h"
#include "ir/reach.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>

static void init_llvm(const Target *t) {
  static bool options;
  if (!options) {
    options = true;
    /* Loop strength reduction is where spills come from; the emitter does its work itself. So is
     * the machine scheduler where loads are instructions of their own: it brings them forward,
     * which gains nothing on processors that do so themselves. */
    const Variant *v = &t->variants[0];
    bool as_emitted = !v->has_mem_operands && !v->in_order;
    const char *argv[] = {"relaxc", "-disable-lsr", "-enable-misched=0"};
    LLVMParseCommandLineOptions(as_emitted ? 3 : 2, argv, NULL);
  }
  /* Only the target that is needed: the others cost start-up time. */
  if (strncmp(t->triple, "aarch64", 7) == 0 || strncmp(t->triple, "arm64", 5) == 0) {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  } else {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); /* inline assembly of the processor check */
  }
}

LLVMCodeGenOptLevel cg_level(const CodegenOptions *o) {
  return o->opt_level == 0   ? LLVMCodeGenLevelNone
         : o->opt_level == 3 ? LLVMCodeGenLevelDefault
                             : LLVMCodeGenLevelLess;
}

LLVMTargetMachineRef cg_machine(const Target *t, const CodegenOptions *o, LLVMCodeGenOptLevel level,
                                bool jit) {
  init_llvm(t);
  LLVMTargetRef target;
  char *error = NULL;
  if (LLVMGetTargetFromTriple(t->triple, &target, &error))
    fatal("target '%s': %s", t->triple, error);
  LLVMTargetMachineRef m =
      LLVMCreateTargetMachine(target, t->triple, t->variants[0].cpu, t->variants[0].features, level,
                              o->pic && !jit ? LLVMRelocPIC
                              : jit          ? LLVMRelocPIC
                                             : LLVMRelocStatic,
                              LLVMCodeModelDefault);
  if (!m) fatal("target '%s' can't be set up", t->triple);
  return m;
}

void cg_init(Cg *cg, Module *m, const Target *t, const CodegenOptions *o, bool jit) {
  *cg = (Cg){.c = m->ctx, .m = m, .arena = arena_create(), .target = t, .opt = o, .jit = jit};
  cg->lc = LLVMContextCreate();
  cg->mod = LLVMModuleCreateWithNameInContext(o->prefix, cg->lc);
  cg->void_t = LLVMVoidTypeInContext(cg->lc);
  cg->i1 = LLVMInt1TypeInContext(cg->lc);
  cg->i8 = LLVMInt8TypeInContext(cg->lc);
  cg->i16 = LLVMInt16TypeInContext(cg->lc);
  cg->i32 = LLVMInt32TypeInContext(cg->lc);
  cg->i64 = LLVMInt64TypeInContext(cg->lc);
  cg->f16 = LLVMHalfTypeInContext(cg->lc);
  cg->f32 = LLVMFloatTypeInContext(cg->lc);
  cg->f64 = LLVMDoubleTypeInContext(cg->lc);
  cg->ptr = LLVMPointerTypeInContext(cg->lc, 0);
  map_init(&cg->kernels, cg->arena);
  map_init(&cg->consts, cg->arena);
  map_init(&cg->canonical, cg->arena);
  map_init(&cg->samples, cg->arena);
  map_init(&cg->places, cg->arena);
  map_init(&cg->hosts, cg->arena);
  strmap_init(&cg->strings, cg->arena);
  strmap_init(&cg->endless, cg->arena);
  module_endless(m, &cg->endless);
}

void cg_dispose(Cg *cg) {
  if (cg->mod) LLVMDisposeModule(cg->mod);
  if (cg->lc) LLVMContextDispose(cg->lc);
  arena_free(cg->arena);
}

/* ---- variant ---- */

typedef struct {
  LLVMValueRef eax, ebx, ecx, edx;
} Cpuid;

static Cpuid cpuid(Cg *cg, LLVMBuilderRef b, uint32_t leaf) {
  LLVMTypeRef out[4] = {cg->i32, cg->i32, cg->i32, cg->i32}, in[2] = {cg->i32, cg->i32};
  LLVMTypeRef ret = LLVMStructTypeInContext(cg->lc, out, 4, false);
  LLVMTypeRef t = cg_fn_type(ret, in, 2, false);
  static const char text[] = "cpuid";
  static const char cons[] = "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}";
  LLVMValueRef f = LLVMGetInlineAsm(t, text, sizeof text - 1, cons, sizeof cons - 1, true, false,
                                    LLVMInlineAsmDialectATT, false);
  LLVMValueRef args[2] = {cg_i32(cg, (int32_t)leaf), cg_i32(cg, 0)};
  LLVMValueRef r = LLVMBuildCall2(b, t, f, args, 2, "");
  return (Cpuid){LLVMBuildExtractValue(b, r, 0, ""), LLVMBuildExtractValue(b, r, 1, ""),
                 LLVMBuildExtractValue(b, r, 2, ""), LLVMBuildExtractValue(b, r, 3, "")};
}

static LLVMValueRef xgetbv(Cg *cg, LLVMBuilderRef b) {
  LLVMTypeRef out[2] = {cg->i32, cg->i32};
  LLVMTypeRef ret = LLVMStructTypeInContext(cg->lc, out, 2, false);
  LLVMTypeRef t = cg_fn_type(ret, &cg->i32, 1, false);
  static const char text[] = ".byte 0x0f, 0x01, 0xd0"; /* xgetbv, known to every assembler */
  static const char cons[] = "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}";
  LLVMValueRef f = LLVMGetInlineAsm(t, text, sizeof text - 1, cons, sizeof cons - 1, true, false,
                                    LLVMInlineAsmDialectATT, false);
  LLVMValueRef zero = cg_i32(cg, 0);
  LLVMValueRef r = LLVMBuildCall2(b, t, f, &zero, 1, "");
  return LLVMBuildExtractValue(b, r, 0, "");
}

static LLVMValueRef has_bits(Cg *cg, LLVMBuilderRef b, LLVMValueRef v, uint32_t mask) {
  LLVMValueRef m = cg_i32(cg, (int32_t)mask);
  return LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, v, m, ""), m, "");
}

/* Index + 1 of the best variant that this x86-64 processor and system can run. */
static LLVMValueRef best_x86(Cg *cg, LLVMBuilderRef b, LLVMValueRef fn) {
  LLVMBasicBlockRef start = LLVMGetInsertBlock(b);
  LLVMBasicBlockRef wide = LLVMAppendBasicBlockInContext(cg->lc, fn, "");
  LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(cg->lc, fn, "");
  Cpuid c0 = cpuid(cg, b, 0), c1 = cpuid(cg, b, 1);
  LLVMValueRef ok = has_bits(cg, b, c1.ecx, 1u << 27); /* OSXSAVE */
  LLVMValueRef leaf7 = LLVMBuildICmp(b, LLVMIntUGE, c0.eax, cg_i32(cg, 7), "");
  LLVMBuildCondBr(b, LLVMBuildAnd(b, ok, leaf7, ""), wide, end);
  LLVMPositionBuilderAtEnd(b, wide);
  Cpuid c7 = cpuid(cg, b, 7), ext = cpuid(cg, b, 0x80000001u);
  LLVMValueRef xcr0 = xgetbv(cg, b);
  /* x86-64-v3: FMA, MOVBE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT; state of XMM and YMM */
  LLVMValueRef v3 = has_bits(cg, b, c1.ecx, 1u << 12 | 1u << 22 | 1u << 28 | 1u << 29);
  v3 = LLVMBuildAnd(b, v3, has_bits(cg, b, c7.ebx, 1u << 3 | 1u << 5 | 1u << 8), "");
  v3 = LLVMBuildAnd(b, v3, has_bits(cg, b, ext.ecx, 1u << 5), "");
  v3 = LLVMBuildAnd(b, v3, has_bits(cg, b, xcr0, 6), "");
  /* x86-64-v4: AVX512 F, DQ, CD, BW, VL; state of ZMM and masks */
  LLVMValueRef v4 = has_bits(cg, b, c7.ebx, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31);
  v4 = LLVMBuildAnd(b, v3, v4, "");
  v4 = LLVMBuildAnd(b, v4, has_bits(cg, b, xcr0, 0xe6), "");
  LLVMValueRef best = cg_i32(cg, 1);
  for (uint32_t i = 1; i < cg->target->nvariants; i++) {
    const Variant *v = &cg->target->variants[i];
    LLVMValueRef can = v->vector_bits == 512 ? v4 : v3;
    best = LLVMBuildSelect(b, can, cg_i32(cg, (int32_t)i + 1), best, "");
  }
  LLVMBuildBr(b, end);
  LLVMPositionBuilderAtEnd(b, end);
  LLVMValueRef phi = LLVMBuildPhi(b, cg->i32, ""), in[2] = {cg_i32(cg, 1), best};
  LLVMBasicBlockRef from[2] = {start, wide};
  LLVMAddIncoming(phi, in, from, 2);
  return phi;
}

static void define_pick(Cg *cg) {
  cg->variant_slot = LLVMAddGlobal(cg->mod, cg->i32, "rx.variant");
  LLVMSetInitializer(cg->variant_slot, cg_i32(cg, 0));
  LLVMSetLinkage(cg->variant_slot, LLVMInternalLinkage);
  LLVMTypeRef t = cg_fn_type(cg->i32, NULL, 0, false);
  cg->variant_pick = LLVMAddFunction(cg->mod, "rx.variant_index", t);
  LLVMSetLinkage(cg->variant_pick, LLVMInternalLinkage);
  cg_fn_attrs(cg, cg->variant_pick, &cg->target->variants[0]);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(cg->lc);
  LLVMBasicBlockRef in = LLVMAppendBasicBlockInContext(cg->lc, cg->variant_pick, "");
  LLVMBasicBlockRef known = LLVMAppendBasicBlockInContext(cg->lc, cg->variant_pick, "");
  LLVMBasicBlockRef ask = LLVMAppendBasicBlockInContext(cg->lc, cg->variant_pick, "");
  LLVMPositionBuilderAtEnd(b, in);
  LLVMValueRef v = LLVMBuildLoad2(b, cg->i32, cg->variant_slot, "");
  LLVMSetOrdering(v, LLVMAtomicOrderingMonotonic);
  LLVMSetAlignment(v, 4);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntNE, v, cg_i32(cg, 0), ""), known, ask);
  LLVMPositionBuilderAtEnd(b, known);
  LLVMBuildRet(b, LLVMBuildSub(b, v, cg_i32(cg, 1), ""));
  LLVMPositionBuilderAtEnd(b, ask);
  bool x86 = strncmp(cg->target->triple, "x86_64", 6) == 0;
  LLVMValueRef best = x86 ? best_x86(cg, b, cg->variant_pick) : cg_i32(cg, 1);
  LLVMValueRef st = LLVMBuildStore(b, best, cg->variant_slot);
  LLVMSetOrdering(st, LLVMAtomicOrderingMonotonic);
  LLVMSetAlignment(st, 4);
  LLVMBuildRet(b, LLVMBuildSub(b, best, cg_i32(cg, 1), ""));
  LLVMDisposeBuilder(b);
}

LLVMValueRef variant_index(Cg *cg, LLVMBuilderRef b) {
  if (!cg->variant_pick) define_pick(cg);
  LLVMTypeRef t = cg_fn_type(cg->i32, NULL, 0, false);
  LLVMValueRef i = LLVMBuildCall2(b, t, cg->variant_pick, NULL, 0, "");
  return LLVMBuildZExt(b, i, cg->i64, "");
}

/* ---- all of it ---- */

bool cg_build_hosts(Cg *cg) {
  if (!abi_module(cg->arena, cg->m, cg->opt->prefix, &cg->abi)) {
    cg->failed = true;
    return false;
  }
  debug_begin(cg);
  entry_emit_all(cg);
  host_define_all(cg);
  weights_close(cg);
  return !cg->failed;
}

bool cg_build_kernels(Cg *cg) {
  kernel_define_all(cg);
  debug_end(cg);
  return !cg->failed && cg_verify(cg);
}

bool cg_verify(Cg *cg) {
  char *why = NULL;
  if (LLVMVerifyModule(cg->mod, LLVMReturnStatusAction, &why))
    bug("generated LLVM code is not well-formed: %s", why);
  LLVMDisposeMessage(why);
  return true;
}

void cg_set_target(Cg *cg, LLVMTargetMachineRef machine) {
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(cg->mod, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(cg->mod, cg->target->triple);
}
