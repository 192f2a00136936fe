/* Temporary files that become outputs by rename.
 *
 * The pending ones stand in a fixed table that a signal handler may read: slots hold malloc'd names
 * that are never freed while they are listed.
 */
#define _GNU_SOURCE
#include "frontend/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct Output {
  Arena *arena;
  const char *path;      /* as the user wrote it, for messages */
  const char *target;    /* symbolic links resolved */
  const char *temporary; /* NULL: written directly */
  int fd, slot;
};

enum { MAX_PENDING = 64 };
static _Atomic(const char *) pending[MAX_PENDING];

static void remove_pending(void) {
  for (int i = 0; i < MAX_PENDING; i++) {
    const char *name = atomic_exchange(&pending[i], NULL);
    if (name) (void)unlink(name);
  }
}

static void on_signal(int number) {
  remove_pending();
  /* SA_RESETHAND: the default action ends the process with the right status. */
  (void)raise(number);
}

void output_install_cleanup(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU, SIGXFSZ};
  struct sigaction sa = {0}, old;
  sa.sa_handler = on_signal;
  sa.sa_flags = (int)SA_RESETHAND;
  sigemptyset(&sa.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
      (void)sigaction(signals[i], &sa, NULL);
  fatal_set_cleanup(remove_pending);
}

static int list_pending(const char *name) {
  for (int i = 0; i < MAX_PENDING; i++) {
    const char *empty = NULL;
    if (atomic_compare_exchange_strong(&pending[i], &empty, name)) return i;
  }
  return -1;
}

static bool fail(const Output *o, const char **error) {
  *error = arena_printf(o->arena, "can't write '%s': %s", o->path, strerror(errno));
  return false;
}

Output *output_open(Arena *a, const char *path, const char **error) {
  Output *o = ARENA_NEW(a, Output);
  struct stat st;
  *o = (Output){.arena = a, .path = path, .target = path, .fd = -1, .slot = -1};
  if (strcmp(path, "-") == 0) {
    o->fd = STDOUT_FILENO;
    return o;
  }
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
    o->fd = open(path, O_WRONLY | O_CLOEXEC);
    if (o->fd < 0) {
      fail(o, error);
      return NULL;
    }
    return o;
  }
  char *real = realpath(path, NULL);
  if (real) {
    o->target = arena_strndup(a, real, strlen(real));
    free(real);
  }
  char *name = arena_printf(a, "%s.tmpXXXXXX", o->target);
  o->fd = mkstemp(name);
  if (o->fd < 0) {
    fail(o, error);
    return NULL;
  }
  o->temporary = name;
  o->slot = list_pending(strdup(name));
  mode_t mask = umask(0);
  (void)umask(mask);
  if (fchmod(o->fd, 0666 & ~mask) != 0) {
    fail(o, error);
    output_abandon(o);
    return NULL;
  }
  return o;
}

bool output_write(Output *o, const void *bytes, uint64_t n, const char **error) {
  const char *p = bytes;
  while (n) {
    ssize_t k = write(o->fd, p, n < 1u << 30 ? (size_t)n : 1u << 30);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return fail(o, error);
    p += k;
    n -= (uint64_t)k;
  }
  return true;
}

const char *output_temporary(const Output *o) {
  return o->temporary;
}

/* Takes the temporary's name off the list. */
static void unlist(Output *o) {
  if (o->slot >= 0) free((void *)(uintptr_t)atomic_exchange(&pending[o->slot], NULL));
  o->slot = -1;
}

bool output_commit(Output *o, const char **error) {
  int fd = o->fd;
  if (fd == STDOUT_FILENO) return true;
  o->fd = -1;
  if (close(fd) != 0) return fail(o, error);
  if (o->temporary && rename(o->temporary, o->target) != 0) return fail(o, error);
  unlist(o);
  o->temporary = NULL;
  return true;
}

void output_abandon(Output *o) {
  if (o->fd >= 0 && o->fd != STDOUT_FILENO) (void)close(o->fd);
  o->fd = -1;
  if (o->temporary) (void)unlink(o->temporary);
  unlist(o);
  o->temporary = NULL;
}
