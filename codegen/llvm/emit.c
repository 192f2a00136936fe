/* Objects, assembly, LLVM text and bitcode in memory; compilation in this process through ORC. */
#include "codegen/elf.h"
#include "codegen/llvm/partition.h"

#include <llvm-c/BitWriter.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/LLJITUtils.h>
#include <llvm-c/Orc.h>
#include <stdlib.h>

/* Code reaches its constants by offsets of 32 bits; the rest is for the program around it. */
#define MAX_POOL ((uint64_t)3 << 29)

/* The runtime's functions that generated code calls, linked into this process; the header is not
 * this layer's to include (relaxrt.h has their contracts). */
extern const char *rx_error(void);
extern char *rx_error_buffer(void);
extern void rx_free(void *data);
extern void *rx_alloc(int64_t bytes);
extern void *rx_workspace_push(int64_t bytes);
extern void rx_workspace_pop(void *p);
extern int rx_parallel_for(int (*fn)(void *, int64_t, int64_t), void *ctx, int64_t n,
                           int64_t grain);

extern int rx_print(const char *format, void *const *values, int32_t n);
extern int rx_assert_failed(const char *format, void *const *values, int32_t n);
extern int64_t rx_profile_begin(void);
extern void rx_profile_end(const char *function, const char *kernel, int64_t begin);

static void take_buffer(Arena *a, LLVMMemoryBufferRef buf, CodePiece *out) {
  size_t n = LLVMGetBufferSize(buf);
  *out = (CodePiece){arena_dup(a, LLVMGetBufferStart(buf), n), n};
  LLVMDisposeMemoryBuffer(buf);
}

static bool emit_machine(Cg *cg, LLVMTargetMachineRef machine, LLVMCodeGenFileType type, Arena *a,
                         CodePiece *out) {
  LLVMMemoryBufferRef buf = NULL;
  char *error = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, cg->mod, type, &error, &buf)) {
    cg_error(cg, SPAN_NONE, "code generation failed: %s", error);
    LLVMDisposeMessage(error);
    return false;
  }
  take_buffer(a, buf, out);
  return true;
}

/* After cg_build_hosts: the kernels, then the bytes of the kind that is wanted. */
static bool emit_code(Cg *cg, LLVMTargetMachineRef machine, Arena *a, CodePiece *out) {
  uint32_t parts = partition_count(cg);
  if (parts) {
    debug_end(cg);
    return partition_emit(cg, parts, a, out);
  }
  if (!cg_build_kernels(cg)) return false;
  switch (cg->opt->kind) {
  case CODE_OBJECT: return emit_machine(cg, machine, LLVMObjectFile, a, out);
  case CODE_ASM: return emit_machine(cg, machine, LLVMAssemblyFile, a, out);
  case CODE_BITCODE: take_buffer(a, LLVMWriteBitcodeToMemoryBuffer(cg->mod), out); return true;
  case CODE_LLVM: break;
  }
  char *text = LLVMPrintModuleToString(cg->mod);
  *out = (CodePiece){arena_dup(a, text, strlen(text)), strlen(text)};
  LLVMDisposeMessage(text);
  return true;
}

/* The object with the pool of constants behind it. */
static bool add_pool(Cg *cg, Arena *a, CodePieces *out) {
  if (!cg->pool_start) return true;
  if (cg->pool_size > MAX_POOL) {
    cg_error(cg, SPAN_NONE,
             "%llu bytes of constants are too many for one object; --weights-mode=external puts "
             "them into a file",
             (unsigned long long)cg->pool_size);
    return false;
  }
  const char *head;
  size_t n;
  if (!elf_add_data(a, out->at[0].bytes, out->at[0].n, weights_symbol(cg), ".rodata.weights",
                    cg->pool_size, &head, &n))
    bug("LLVM's object takes no section for the constants");
  out->at[0] = (CodePiece){head, n};
  weights_pieces(cg, a, out);
  return true;
}

bool codegen_emit(Module *m, const Target *t, const CodegenOptions *o, Arena *a, CodePieces *out,
                  CodePieces *weights) {
  Cg cg;
  LLVMTargetMachineRef machine = cg_machine(t, o, cg_level(o), false);
  cg_init(&cg, m, t, o, false);
  cg_set_target(&cg, machine);
  CodePiece code;
  bool ok = cg_build_hosts(&cg) && emit_code(&cg, machine, a, &code);
  if (ok) vec_push(a, out, code);
  ok = ok && !cg.failed && add_pool(&cg, a, out);
  if (cg.weights_file) weights_pieces(&cg, a, weights);
  cg_dispose(&cg);
  LLVMDisposeTargetMachine(machine);
  return ok;
}

/* ---- in this process ---- */

struct Jit {
  LLVMOrcLLJITRef jit;
  Diags *diags;
};

/* C functions that no library of this process has, mostly. */
static void jit_report(void *ctx, LLVMErrorRef e) {
  Jit *j = ctx;
  char *m = LLVMGetErrorMessage(e);
  diag_error(j->diags, SPAN_NONE, "in memory, the code can't be linked: %s", m);
  LLVMDisposeErrorMessage(m);
}

static void jit_fatal(LLVMErrorRef e) {
  char *m = LLVMGetErrorMessage(e);
  fatal("just-in-time compilation: %s", m);
}

Jit *codegen_jit(Module *m, const Target *t, const CodegenOptions *o) {
  Cg cg;
  LLVMTargetMachineRef machine = cg_machine(t, o, cg_level(o), true);
  cg_init(&cg, m, t, o, true);
  cg_set_target(&cg, machine);
  Arena *a = arena_create();
  CodePiece code;
  LLVMMemoryBufferRef buf = NULL;
  if (cg_build_hosts(&cg) && emit_code(&cg, machine, a, &code))
    buf = LLVMCreateMemoryBufferWithMemoryRangeCopy(code.bytes, code.n, o->prefix);
  arena_free(a);
  cg_dispose(&cg);
  LLVMDisposeTargetMachine(machine);
  if (!buf) return NULL;

  Jit *j = xmalloc(sizeof *j);
  LLVMErrorRef e = LLVMOrcCreateLLJIT(&j->jit, NULL);
  if (e) jit_fatal(e);
  j->diags = m->ctx->diags;
  LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(j->jit), jit_report, j);
  LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(j->jit);
  static const struct {
    const char *name;
    uintptr_t at;
  } runtime[] = {
#define RX(f) {#f, (uintptr_t)(f)}
      RX(rx_error),          RX(rx_error_buffer),  RX(rx_free),          RX(rx_alloc),
      RX(rx_workspace_push), RX(rx_workspace_pop), RX(rx_parallel_for),  RX(rx_profile_begin),
      RX(rx_profile_end),    RX(rx_print),         RX(rx_assert_failed),
#undef RX
  };
  enum { N = sizeof runtime / sizeof runtime[0] };
  LLVMOrcCSymbolMapPair pairs[N];
  for (int i = 0; i < N; i++) {
    LLVMJITSymbolFlags flags = {
        LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
    pairs[i] = (LLVMOrcCSymbolMapPair){LLVMOrcLLJITMangleAndIntern(j->jit, runtime[i].name),
                                       {runtime[i].at, flags}};
  }
  e = LLVMOrcJITDylibDefine(lib, LLVMOrcAbsoluteSymbols(pairs, N));
  if (e) jit_fatal(e);
  LLVMOrcDefinitionGeneratorRef process;
  e = LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
      &process, LLVMOrcLLJITGetGlobalPrefix(j->jit), NULL, NULL);
  if (e) jit_fatal(e);
  LLVMOrcJITDylibAddGenerator(lib, process);
  e = LLVMOrcLLJITAddObjectFile(j->jit, lib, buf);
  if (e) jit_fatal(e);
  return j;
}

void *jit_symbol(Jit *j, const char *name) {
  LLVMOrcExecutorAddress at = 0;
  LLVMErrorRef e = LLVMOrcLLJITLookup(j->jit, &at, name);
  if (e) {
    LLVMConsumeError(e);
    return NULL;
  }
  return (void *)(uintptr_t)at;
}

void jit_free(Jit *j) {
  if (!j) return;
  LLVMErrorRef e = LLVMOrcDisposeLLJIT(j->jit);
  if (e) LLVMConsumeError(e);
  free(j);
}
