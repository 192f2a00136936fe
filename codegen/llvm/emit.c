/* Objects, assembly, LLVM text and bitcode in memory; compilation in this process through ORC. */
#include "codegen/llvm/partition.h"

#include <llvm-c/BitWriter.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/LLJITUtils.h>
#include <llvm-c/Orc.h>
#include <stdlib.h>

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

static char *copy_out(const char *p, size_t n) {
  char *s = xmalloc(n + 1);
  memcpy(s, p, n);
  s[n] = 0;
  return s;
}

static LLVMMemoryBufferRef emit_machine(Cg *cg, LLVMTargetMachineRef machine,
                                        LLVMCodeGenFileType type) {
  LLVMMemoryBufferRef buf = NULL;
  char *error = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, cg->mod, type, &error, &buf)) {
    cg_error(cg, SPAN_NONE, "code generation failed: %s", error);
    LLVMDisposeMessage(error);
    return NULL;
  }
  return buf;
}

bool codegen_emit(Module *m, const Target *t, const CodegenOptions *o, char **out, size_t *size,
                  char **weights, size_t *weights_size) {
  Cg cg;
  LLVMTargetMachineRef machine = cg_machine(t, o, false);
  cg_init(&cg, m, t, o, false);
  cg_set_target(&cg, machine);
  bool ok = cg_build_hosts(&cg);
  uint32_t parts = ok ? partition_count(&cg) : 0;
  LLVMMemoryBufferRef buf = NULL;
  if (parts) {
    debug_end(&cg);
    ok = partition_emit(&cg, machine, parts, out, size);
  } else if (ok && (ok = cg_build_kernels(&cg))) {
    switch (o->kind) {
    case CODE_OBJECT: buf = emit_machine(&cg, machine, LLVMObjectFile); break;
    case CODE_ASM: buf = emit_machine(&cg, machine, LLVMAssemblyFile); break;
    case CODE_LLVM: {
      char *text = LLVMPrintModuleToString(cg.mod);
      *size = strlen(text);
      *out = copy_out(text, *size);
      LLVMDisposeMessage(text);
      break;
    }
    case CODE_BITCODE: buf = LLVMWriteBitcodeToMemoryBuffer(cg.mod); break;
    }
  }
  ok = ok && !cg.failed;
  *weights_size = cg.weights.n;
  *weights = cg.weights.n ? cg.weights.s : NULL;
  if (*weights) cg.weights = (Text){0};
  cg_dispose(&cg); /* before the copy: constants may be large */
  LLVMDisposeTargetMachine(machine);
  if (buf) {
    *size = LLVMGetBufferSize(buf);
    *out = copy_out(LLVMGetBufferStart(buf), *size);
    LLVMDisposeMemoryBuffer(buf);
  }
  return ok;
}

/* ---- in this process ---- */

struct Jit {
  LLVMOrcLLJITRef jit;
};

static void jit_fatal(LLVMErrorRef e) {
  char *m = LLVMGetErrorMessage(e);
  fatal("just-in-time compilation: %s", m);
}

Jit *codegen_jit(Module *m, const Target *t, const CodegenOptions *o) {
  Cg cg;
  LLVMTargetMachineRef machine = cg_machine(t, o, true);
  cg_init(&cg, m, t, o, true);
  cg_set_target(&cg, machine);
  LLVMMemoryBufferRef buf = cg_build_hosts(&cg) && cg_build_kernels(&cg)
                                ? emit_machine(&cg, machine, LLVMObjectFile)
                                : NULL;
  cg_dispose(&cg);
  LLVMDisposeTargetMachine(machine);
  if (!buf) return NULL;

  Jit *j = xmalloc(sizeof *j);
  LLVMErrorRef e = LLVMOrcCreateLLJIT(&j->jit, NULL);
  if (e) jit_fatal(e);
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
