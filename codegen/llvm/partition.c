/* Partitions: kernels of a large module go, in order, into LLVM modules of their own, which threads
 * compile independently (own context, own target machine). `ld -r` joins the objects.
 *
 * How a module is cut depends on the number of its kernels only, never on the number of threads, so
 * that the bytes are the same for any -j. Building LLVM's modules stays in one thread: it is a
 * tenth of the work, and it interns expressions. Kernels that cross from one module to another get
 * hidden symbols that begin with the module's prefix.
 */
#define _GNU_SOURCE
#include "codegen/llvm/partition.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNELS_IN_ONE = 40, KERNELS_PER_PART = 20, MAX_PARTS = 32 };

extern char **environ;

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

/* ---- joining ---- */

static bool in_path(const char *tool) {
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t n = strcspn(path, ":");
    char file[4096];
    if (snprintf(file, sizeof file, "%.*s/%s", (int)n, path, tool) < (int)sizeof file &&
        access(file, X_OK) == 0)
      return true;
    path += n + (path[n] == ':');
  }
  return false;
}

/* lld joins objects of every ELF target; the system's ld its own. NULL: there is none. */
static const char *joiner(const Cg *cg) {
  static const char *const tools[] = {"ld.lld-22", "ld.lld"};
  if (!strstr(cg->target->triple, "linux")) return NULL;
  for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
    if (in_path(tools[i])) return tools[i];
  if (access("/usr/lib/llvm-22/bin/ld.lld", X_OK) == 0) return "/usr/lib/llvm-22/bin/ld.lld";
#ifdef __x86_64__
  if (strncmp(cg->target->triple, "x86_64", 6) == 0 && in_path("ld")) return "ld";
#endif
  return NULL;
}

uint32_t partition_count(Cg *cg) {
  if (cg->opt->kind != CODE_OBJECT || cg->jit) return 0;
  uint32_t defs = 0;
  for (uint32_t i = 0; i < cg->todo.n; i++)
    for (uint32_t v = 0; v < cg->todo.at[i]->n; v++)
      defs += v == 0 || cg->todo.at[i]->fns[v] != cg->todo.at[i]->fns[v - 1];
  if (defs <= KERNELS_IN_ONE || !joiner(cg)) return 0;
  uint32_t n = (defs + KERNELS_PER_PART - 1) / KERNELS_PER_PART;
  n = n < MAX_PARTS ? n : MAX_PARTS;
  return n < cg->todo.n ? n : cg->todo.n;
}

static bool write_file(const char *path, const char *p, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  while (n) {
    ssize_t k = write(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) {
      (void)close(fd);
      return false;
    }
    p += k;
    n -= (size_t)k;
  }
  return close(fd) == 0;
}

static char *read_file(const char *path, size_t *size) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  if (fstat(fd, &st) != 0) {
    (void)close(fd);
    return NULL;
  }
  char *s = xmalloc((size_t)st.st_size + 1);
  size_t got = 0;
  while (got < (size_t)st.st_size) {
    ssize_t k = read(fd, s + got, (size_t)st.st_size - got);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) break;
    got += (size_t)k;
  }
  (void)close(fd);
  if (got < (size_t)st.st_size) {
    free(s);
    return NULL;
  }
  s[got] = 0;
  *size = got;
  return s;
}

static int run(char *const *argv) {
  pid_t pid;
  int status, code = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
  if (code) {
    errno = code;
    return -1;
  }
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static bool join(Cg *cg, Part *parts, uint32_t n, char **out, size_t *size) {
  const char *base = getenv("TMPDIR");
  Arena *a = cg->arena;
  char *dir = arena_printf(a, "%s/relaxc-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(dir)) {
    cg_error(cg, SPAN_NONE, "can't make a temporary folder '%s': %s", dir, strerror(errno));
    return false;
  }
  char **argv = ARENA_ARRAY(a, char *, n + 5);
  uint32_t k = 0;
  char *result = arena_printf(a, "%s/joined.o", dir);
  argv[k++] = arena_printf(a, "%s", joiner(cg));
  argv[k++] = arena_printf(a, "-r");
  argv[k++] = arena_printf(a, "-o");
  argv[k++] = result;
  bool ok = true;
  uint32_t first = k;
  for (uint32_t i = 0; i < n && ok; i++) {
    argv[k] = arena_printf(a, "%s/%u.o", dir, i);
    LLVMMemoryBufferRef b = parts[i].object;
    ok = write_file(argv[k++], LLVMGetBufferStart(b), LLVMGetBufferSize(b));
    if (!ok) cg_error(cg, SPAN_NONE, "can't write '%s': %s", argv[k - 1], strerror(errno));
  }
  if (ok) {
    int status = run(argv);
    if (status) {
      cg_error(cg, SPAN_NONE, "'%s' failed to join objects (exit code %d)", argv[0], status);
      ok = false;
    } else if (!(*out = read_file(result, size))) {
      cg_error(cg, SPAN_NONE, "can't read '%s': %s", result, strerror(errno));
      ok = false;
    }
  }
  for (uint32_t i = first; i < k; i++) (void)unlink(argv[i]);
  (void)unlink(result);
  (void)rmdir(dir);
  return ok;
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

bool partition_emit(Cg *cg, LLVMTargetMachineRef machine, uint32_t n, char **out, size_t *size) {
  Part *parts = ARENA_ARRAY(cg->arena, Part, n + 1);
  parts[0].cg = cg;
  parts[0].machine = machine;
  uint32_t total = cg->todo.n;
  for (uint32_t p = 1; p <= n && !cg->failed; p++) {
    Part *part = &parts[p];
    part->cg = &part->own;
    cg_init(part->cg, cg->m, cg->target, cg->opt, false);
    part->machine = cg_machine(cg->target, cg->opt, false);
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
  if (ok) ok = join(cg, parts, n + 1, out, size);
  for (uint32_t p = 0; p <= n; p++) {
    if (parts[p].object) LLVMDisposeMemoryBuffer(parts[p].object);
    if (p == 0 || !parts[p].machine) continue;
    cg_dispose(parts[p].cg);
    LLVMDisposeTargetMachine(parts[p].machine);
  }
  cg->todo.n = 0;
  return ok;
}
