/* Profile hooks: one pointer, read at each kernel of code compiled with profiling. */
#define _GNU_SOURCE
#include "runtime/relaxrt.h"

#include <time.h>

static RxProfileHook hook;
static void *hook_user;

void rx_set_profile(RxProfileHook h, void *user) {
  hook = h;
  hook_user = user;
}

static int64_t now(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t rx_profile_begin(void) {
  return hook ? now() : -1;
}

void rx_profile_end(const char *function, const char *kernel, int64_t begin) {
  if (hook && begin >= 0) hook(hook_user, function, kernel, begin, now());
}
