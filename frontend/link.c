/* Runs `ar` and the linker on a temporary object.
 *
 * The linker is cc's, or lld's if there is no cc; both get the same words. A version script hides
 * everything but the module's entries and the runtime's. No rpath: the library depends on libc,
 * libm and, with threads, libpthreadpool by name.
 */
#define _GNU_SOURCE
#include "frontend/link.h"

#include "frontend/output.h"
#include "ir/base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A file in a folder of its own that goes away with it. */
typedef struct {
  Arena *arena;
  char *dir;
} TempDir;

static bool tempdir_make(Arena *a, TempDir *t, const char **error) {
  const char *base = getenv("TMPDIR");
  t->arena = a;
  t->dir = arena_printf(a, "%s/relaxc-XXXXXX", base && *base ? base : "/tmp");
  if (mkdtemp(t->dir)) return true;
  *error = arena_printf(a, "can't make a temporary folder '%s': %s", t->dir, strerror(errno));
  t->dir = NULL;
  return false;
}

static const char *tempdir_put(TempDir *t, const char *name, const CodePieces *pieces,
                               const char **error) {
  const char *path = arena_printf(t->arena, "%s/%s", t->dir, name);
  Output *o = output_open(t->arena, path, error);
  bool ok = o != NULL;
  for (uint32_t i = 0; ok && i < pieces->n; i++)
    ok = output_write(o, pieces->at[i].bytes, pieces->at[i].n, error);
  if (ok && output_commit(o, error)) return path;
  if (o) output_abandon(o);
  return NULL;
}

static const char *tempdir_write(TempDir *t, const char *name, const void *bytes, size_t n,
                                 const char **error) {
  CodePiece piece = {bytes, n};
  return tempdir_put(t, name, &(CodePieces){&piece, 1, 1}, error);
}

static void tempdir_remove(TempDir *t, const char *const *names, size_t n) {
  if (!t->dir) return;
  for (size_t i = 0; i < n; i++) (void)unlink(arena_printf(t->arena, "%s/%s", t->dir, names[i]));
  (void)rmdir(t->dir);
}

/* Runs a program found in PATH. -1: it isn't there; else its exit status. */
static int run_tool(const char *const *argv) {
  pid_t pid;
  int status;
  int code = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);
  if (code == ENOENT) return -1;
  if (code) fatal("can't run '%s': %s", argv[0], strerror(code));
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) fatal("can't wait for '%s': %s", argv[0], strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Copies what `fd` gives in pieces: a library may be as large as its weights. */
static bool copy_file(Arena *a, int fd, const char *from, Output *o, const char **error) {
  enum { PIECE = 1 << 20 };
  char *buffer = arena_alloc(a, PIECE);
  for (;;) {
    ssize_t got = read(fd, buffer, PIECE);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return true;
    if (got < 0) {
      *error = arena_printf(a, "can't read '%s': %s", from, strerror(errno));
      return false;
    }
    if (!output_write(o, buffer, (uint64_t)got, error)) return false;
  }
}

/* The contents of a file that a tool wrote become the output. */
static bool move_file(Arena *a, const char *from, const char *output, const char **error) {
  int fd = open(from, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    *error = arena_printf(a, "can't read '%s': %s", from, strerror(errno));
    return false;
  }
  Output *o = output_open(a, output, error);
  bool ok = o && copy_file(a, fd, from, o, error) && output_commit(o, error);
  (void)close(fd);
  if (o && !ok) output_abandon(o);
  return ok;
}

bool draw_svg(Context *c, const char *text, size_t size, const char *output) {
  Arena *a = c->arena;
  TempDir dir = {0};
  const char *error = NULL;
  bool ok = false;
  const char *file =
      tempdir_make(a, &dir, &error) ? tempdir_write(&dir, "graph.dot", text, size, &error) : NULL;
  if (file) {
    const char *picture = arena_printf(a, "%s/graph.svg", dir.dir);
    const char *argv[] = {"dot", "-Tsvg", "-o", picture, file, NULL};
    int status = run_tool(argv);
    if (status < 0)
      error = "can't draw: there is no 'dot' (Graphviz); --emit=dot writes its input";
    else if (status > 0)
      error = arena_printf(a, "'dot' failed with exit code %d", status);
    else
      ok = move_file(a, picture, output, &error);
  }
  tempdir_remove(&dir, (const char *const[]){"graph.dot", "graph.svg"}, 2);
  if (!ok) diag_error(c->diags, SPAN_NONE, "%s", error);
  return ok;
}

bool link_archive(Context *c, const CodePieces *object, const char *prefix, const char *output) {
  Arena *a = c->arena;
  TempDir dir = {0};
  const char *error = NULL, *member = arena_printf(a, "%s.o", prefix);
  bool ok = false;
  const char *file =
      tempdir_make(a, &dir, &error) ? tempdir_put(&dir, member, object, &error) : NULL;
  if (file) {
    const char *archive = arena_printf(a, "%s/out.a", dir.dir);
    const char *argv[] = {"ar", "rcsD", archive, file, NULL};
    int status = run_tool(argv);
    if (status < 0)
      error = "can't make a static library: there is no 'ar'";
    else if (status > 0)
      error = arena_printf(a, "'ar' failed with exit code %d", status);
    else
      ok = move_file(a, archive, output, &error);
  }
  tempdir_remove(&dir, (const char *const[]){member, "out.a"}, 2);
  if (!ok) diag_error(c->diags, SPAN_NONE, "%s", error);
  return ok;
}

/* librelaxrt.a beside the compiler, or in ../lib. */
static const char *find_runtime(Arena *a) {
  static const char *const places[] = {"", "../lib/", "../lib64/"};
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return NULL;
  while (n > 0 && self[n - 1] != '/') n--;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *path = arena_printf(a, "%.*s%slibrelaxrt.a", (int)n, self, places[i]);
    if (access(path, R_OK) == 0) return path;
  }
  return NULL;
}

/* The command line of a linker; `driver`: it is a compiler that passes -Wl words on. */
static const char *const *linker_words(Arena *a, const char *linker, bool driver,
                                       const char *target, const char *object, const char *map,
                                       const char *runtime) {
  const char *wl = driver ? "-Wl," : "";
  VEC(const char *) words = {0};
#define ADD(...) vec_push(a, &words, arena_printf(a, __VA_ARGS__))
  ADD("%s", linker);
  ADD("-shared");
  ADD("-o");
  ADD("%s", target);
  ADD("%s", object);
  if (runtime) {
    /* All of it: the host may call rx_set_parallel_for and its kin through the library. */
    ADD("%s--whole-archive", wl);
    ADD("%s", runtime);
    ADD("%s--no-whole-archive", wl);
  }
  ADD("%s--version-script=%s", wl, map);
  ADD("%s--gc-sections", wl);
  ADD("%s--build-id=none", wl);
  if (runtime) ADD("-lpthreadpool");
  if (runtime) ADD("-lpthread");
  ADD("-lm");
  ADD("-lc");
#undef ADD
  vec_push(a, &words, NULL);
  return words.at;
}

bool link_shared(Context *c, const CodePieces *object, const char *prefix, bool threads,
                 const char *output) {
  Arena *a = c->arena;
  TempDir dir = {0};
  const char *error = NULL, *map = NULL, *file = NULL;
  bool ok = false;
  const char *runtime = threads ? find_runtime(a) : NULL;
  char *script =
      arena_printf(a, "{\n  global: %s_*; rx_*; __tvm_ffi_*;\n  local: *;\n};\n", prefix);
  if (threads && !runtime) {
    error = "the runtime library librelaxrt.a is not beside the compiler";
  } else if (tempdir_make(a, &dir, &error)) {
    file = tempdir_put(&dir, "model.o", object, &error);
    if (file) map = tempdir_write(&dir, "exports.map", script, strlen(script), &error);
  }
  Output *o = map ? output_open(a, output, &error) : NULL;
  const char *target = o ? output_temporary(o) : NULL;
  if (o && !target) error = arena_printf(a, "a shared library can't go to '%s'", output);
  if (target) {
    static const char *const linkers[] = {"cc", "ld.lld", "ld.lld-22", "ld"};
    int status = -1;
    for (size_t i = 0; i < sizeof linkers / sizeof *linkers && status < 0; i++)
      status = run_tool(linker_words(a, linkers[i], i == 0, target, file, map, runtime));
    if (status < 0)
      error = "can't link a shared library: there is neither 'cc' nor 'ld.lld'";
    else if (status > 0)
      error = arena_printf(a, "the linker failed with exit code %d", status);
    else
      ok = output_commit(o, &error);
  }
  if (o && !ok) output_abandon(o);
  tempdir_remove(&dir, (const char *const[]){"model.o", "exports.map"}, 2);
  if (!ok) diag_error(c->diags, SPAN_NONE, "%s", error);
  return ok;
}
