/* Partitions: the code around kernels stays in the first LLVM module, kernels go, in order, into
 * LLVM modules of their own, which threads compile independently (own context, own target machine).
 * elf_join.c makes one object of them.
 *
 * The code around kernels checks, allocates and calls; time passes in the kernels. Where it is
 * long, it is compiled the quick way, which is linear in the length of a function; else with care,
 * which makes a call of a small function 40 % shorter (70 -> 44 ns) for 15 ms of compiling. How a
 * module is cut depends on the number of its kernels only, never on the number of threads, so that
 * the bytes are the same for any -j. Building LLVM's modules stays in one thread: it is a tenth of
 * the work, and it interns expressions. Kernels that cross from one module to another get hidden
 * symbols.
 */
#include "codegen/llvm/partition.h"

#include "codegen/elf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { KERNELS_PER_PART = 20, MAX_PARTS = 32, MAX_HOST_CODE = 800 };

typedef struct {
  Cg *cg;
  Cg own; /* of all but the first */
  LLVMTargetMachineRef machine;
  LLVMMemoryBufferRef object;
  char *error;
} Part;

typedef struct {
  Part *parts;
  uint32_t n;
  atomic_uint next;
} Work;

/* LLVM's instructions in a module. */
static uint32_t code_size(LLVMModuleRef m) {
  uint32_t n = 0;
  for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
      for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) n++;
  return n;
}

/* LLVM's level for the code around kernels. */
static LLVMCodeGenOptLevel host_level(const Cg *cg) {
  bool quick = cg->opt->opt_level < 3 && code_size(cg->mod) > MAX_HOST_CODE;
  return quick || cg->opt->opt_level == 0 ? LLVMCodeGenLevelNone : LLVMCodeGenLevelLess;
}

uint32_t partition_count(Cg *cg) {
  if (cg->opt->kind != CODE_OBJECT || !cg_is_elf(cg)) return 0;
  uint32_t defs = 0;
  for (uint32_t i = 0; i < cg->todo.n; i++)
    for (uint32_t v = 0; v < cg->todo.at[i]->n; v++)
      defs += v == 0 || cg->todo.at[i]->fns[v] != cg->todo.at[i]->fns[v - 1];
  if (!defs || (cg->opt->opt_level == 0 && defs <= 2 * KERNELS_PER_PART)) return 0;
  uint32_t n = (defs + KERNELS_PER_PART - 1) / KERNELS_PER_PART;
  n = n < MAX_PARTS ? n : MAX_PARTS;
  return n < cg->todo.n ? n : cg->todo.n;
}

/* ---- compiling ---- */

static void compile_part(Part *p) {
  char *error = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(p->machine, p->cg->mod, LLVMObjectFile, &error,
                                          &p->object))
    p->error = error;
}

static void *worker(void *arg) {
  Work *w = arg;
  for (;;) {
    uint32_t i = atomic_fetch_add(&w->next, 1);
    if (i >= w->n) return NULL;
    compile_part(&w->parts[i]);
  }
}

static void compile_all(Part *parts, uint32_t n, int jobs) {
  Work w = {.parts = parts, .n = n};
  pthread_t threads[64];
  int started = 0;
  atomic_init(&w.next, 0);
  /* A thread that can't be had is no loss: this one works too. */
  for (int i = 1; i < jobs && i < (int)n && started < 64; i++)
    if (pthread_create(&threads[started], NULL, worker, &w) == 0) started++;
  (void)worker(&w);
  for (int i = 0; i < started; i++) (void)pthread_join(threads[i], NULL);
}

static void join(Cg *cg, const Part *parts, uint32_t n, Arena *a, CodePiece *out) {
  ElfBytes *objects = ARENA_ARRAY(cg->arena, ElfBytes, n);
  for (uint32_t i = 0; i < n; i++)
    objects[i] =
        (ElfBytes){LLVMGetBufferStart(parts[i].object), LLVMGetBufferSize(parts[i].object)};
  char *bytes;
  if (!elf_join(a, objects, n, &bytes, &out->n)) bug("LLVM's objects can't be joined");
  out->bytes = bytes;
}

bool partition_emit(Cg *cg, uint32_t n, Arena *a, CodePiece *out) {
  Part *parts = ARENA_ARRAY(cg->arena, Part, n + 1);
  parts[0].cg = cg;
  parts[0].machine = cg_machine(cg->target, cg->opt, host_level(cg), cg->jit);
  uint32_t total = cg->todo.n;
  for (uint32_t p = 1; p <= n && !cg->failed; p++) {
    Part *part = &parts[p];
    part->cg = &part->own;
    cg_init(part->cg, cg->m, cg->target, cg->opt, cg->jit);
    part->machine = cg_machine(cg->target, cg->opt, cg_level(cg->opt), cg->jit);
    cg_set_target(part->cg, part->machine);
    debug_begin(part->cg);
    uint32_t end = (uint32_t)((uint64_t)total * p / n);
    for (uint32_t i = (uint32_t)((uint64_t)total * (p - 1) / n); i < end; i++)
      kernel_move(cg, part->cg, cg->todo.at[i]);
    kernel_define_all(part->cg);
    debug_end(part->cg);
    cg->failed |= part->cg->failed || !cg_verify(part->cg);
  }
  bool ok = !cg->failed && cg_verify(cg);
  if (ok) compile_all(parts, n + 1, cg->opt->jobs);
  for (uint32_t p = 0; p <= n; p++)
    if (parts[p].error) {
      cg_error(cg, SPAN_NONE, "code generation failed: %s", parts[p].error);
      LLVMDisposeMessage(parts[p].error);
      ok = false;
    }
  if (ok) join(cg, parts, n + 1, a, out);
  for (uint32_t p = 0; p <= n; p++) {
    if (parts[p].object) LLVMDisposeMemoryBuffer(parts[p].object);
    if (!parts[p].machine) continue;
    if (p) cg_dispose(parts[p].cg);
    LLVMDisposeTargetMachine(parts[p].machine);
  }
  cg->todo.n = 0;
  return ok;
}
