/* Source files: reading whole files, line tables, positions. */
#include "ir/base/source.h"
#include "ir/base/vec.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_LIMIT = 1 << 30 };

struct SourceMap {
  Arena *arena;
  VEC(SourceFile *) files;
};

SourceMap *sources_create(Arena *a) {
  SourceMap *m = ARENA_NEW(a, SourceMap);
  m->arena = a;
  return m;
}

/* Registers text that already lies in the arena. */
static uint32_t sources_adopt(SourceMap *m, const char *name, const char *text, uint32_t size) {
  SourceFile *f = ARENA_NEW(m->arena, SourceFile);
  f->name = arena_strndup(m->arena, name, strlen(name));
  f->text = text;
  f->size = size;
  f->nlines = 1;
  const char *end = text + size;
  for (const char *p = text; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) f->nlines++;
  f->lines = ARENA_ARRAY(m->arena, uint32_t, f->nlines);
  uint32_t i = 1;
  for (const char *p = text; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++)
    f->lines[i++] = (uint32_t)(p + 1 - text);
  vec_push(m->arena, &m->files, f);
  return m->files.n;
}

uint32_t sources_add(SourceMap *m, const char *name, const char *text, size_t size) {
  if (size > FILE_LIMIT) fatal("'%s' is larger than 1 GiB", name);
  return sources_adopt(m, name, arena_strndup(m->arena, text, size), (uint32_t)size);
}

/* A file of known size, straight into the arena; NULL with errno set on failure. */
static char *read_file(Arena *a, int fd, size_t size, size_t *n) {
  char *text = arena_alloc(a, size + 1);
  *n = 0;
  while (*n < size) {
    ssize_t got = read(fd, text + *n, size - *n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return NULL;
    if (got == 0) break;
    *n += (size_t)got;
  }
  return text;
}

/* Everything a pipe gives, up to one byte more than the limit; NULL with errno set on failure. */
static char *read_stream(Arena *a, int fd, size_t *size) {
  size_t cap = 8192, n = 0;
  char *buf = xmalloc(cap);
  for (;;) {
    if (n == cap) {
      if (n > FILE_LIMIT) break;
      cap *= 2;
      buf = xrealloc(buf, cap);
    }
    ssize_t got = read(fd, buf + n, cap - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      int e = errno;
      free(buf);
      errno = e;
      return NULL;
    }
    if (got == 0) break;
    n += (size_t)got;
  }
  char *text = arena_strndup(a, buf, n);
  free(buf);
  *size = n;
  return text;
}

uint32_t sources_read(SourceMap *m, const char *path, const char **error) {
  bool is_stdin = strcmp(path, "-") == 0;
  int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  char *text = NULL;
  size_t n = 0;
  bool large = false;
  if (fd >= 0 && fstat(fd, &st) == 0) {
    bool sized = S_ISREG(st.st_mode) && st.st_size > 0 && !is_stdin;
    large = sized && st.st_size > FILE_LIMIT;
    if (S_ISDIR(st.st_mode))
      errno = EISDIR;
    else if (sized && !large)
      text = read_file(m->arena, fd, (size_t)st.st_size, &n);
    else if (!large)
      text = read_stream(m->arena, fd, &n);
  }
  int e = errno;
  if (fd >= 0 && !is_stdin) close(fd); /* only read from: nothing can be lost */
  if (large || n > FILE_LIMIT) {
    *error = "file too large";
    return 0;
  }
  if (!text) {
    const char *why = strerror(e);
    *error = arena_strndup(m->arena, why, strlen(why));
    return 0;
  }
  return sources_adopt(m, is_stdin ? "<stdin>" : path, text, (uint32_t)n);
}

const SourceFile *sources_file(const SourceMap *m, uint32_t id) {
  return id && id <= m->files.n ? m->files.at[id - 1] : NULL;
}

void sources_position(const SourceFile *f, uint32_t offset, uint32_t *line, uint32_t *col) {
  uint32_t lo = 0, hi = f->nlines;
  if (offset > f->size) offset = f->size;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (f->lines[mid] <= offset)
      lo = mid;
    else
      hi = mid;
  }
  *line = lo + 1;
  *col = offset - f->lines[lo] + 1;
}

Span span_join(Span a, Span b) {
  if (a.file == 0) return b;
  if (b.file != a.file) return a;
  return (Span){a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}
