/* The runtime library: workspace stack, parallel loops, error messages, mapped weights. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/relaxrt.h"

static void test_error(void **state) {
  (void)state;
  assert_int_equal(rx_fail(RX_ERR_SHAPE, "dim %d of '%s'", 3, "x"), RX_ERR_SHAPE);
  assert_string_equal(rx_error(), "dim 3 of 'x'");
  char big[3000];
  memset(big, 'a', sizeof big - 1);
  big[sizeof big - 1] = 0;
  (void)rx_fail(-1, "%s", big);
  assert_int_equal(strlen(rx_error()), RX_ERROR_SIZE - 1);
  assert_null(rx_alloc(-1));
  assert_non_null(strstr(rx_error(), "out of range"));
  void *p = rx_alloc(0);
  assert_non_null(p);
  assert_int_equal((uintptr_t)p % 64, 0);
  rx_free(p);
  rx_free(NULL);
}

static void test_workspace(void **state) {
  (void)state;
  void *first = NULL;
  for (int round = 0; round < 3; round++) {
    char *a = rx_workspace_push(1000);
    assert_non_null(a);
    assert_int_equal((uintptr_t)a % 64, 0);
    memset(a, 1, 1000);
    char *b = rx_workspace_push(5 << 20);
    assert_non_null(b);
    memset(b, 2, 5 << 20);
    rx_release(); /* in use: nothing happens */
    char *c = rx_workspace_push(0);
    assert_non_null(c);
    for (int i = 0; i < 1000; i++) assert_int_equal(a[i], 1);
    rx_workspace_pop(c);
    rx_workspace_pop(b);
    b = rx_workspace_push(100);
    memset(b, 3, 100);
    rx_workspace_pop(b);
    assert_int_equal(a[999], 1);
    rx_workspace_pop(a);
    /* From the second round on everything lies in one block that stays. */
    if (round == 1) first = a;
    if (round == 2) assert_ptr_equal(a, first);
  }
  assert_null(rx_workspace_push(-5));
  assert_null(rx_workspace_push(INT64_MAX));
  assert_non_null(strstr(rx_error(), "out of memory"));
  rx_release();
  rx_workspace_pop(rx_workspace_push(64));
  rx_release();
}

static void *thread_main(void *arg) {
  void *p = rx_workspace_push(12345);
  memset(p, 0, 12345);
  rx_workspace_pop(p);
  (void)rx_fail(-1, "other thread");
  return arg; /* its workspace goes with it: the leak checker sees */
}

static void test_threads(void **state) {
  (void)state;
  pthread_t t;
  (void)rx_fail(-1, "mine");
  assert_int_equal(pthread_create(&t, NULL, thread_main, NULL), 0);
  assert_int_equal(pthread_join(t, NULL), 0);
  assert_string_equal(rx_error(), "mine");
}

typedef struct {
  int64_t n, grain;
  int64_t fail_from; /* pieces that begin at or after this fail */
  unsigned char *seen;
} Range;

static int visit(void *ctx, int64_t begin, int64_t end) {
  Range *r = ctx;
  if (begin < 0 || end > r->n || end <= begin || end - begin > r->grain) return RX_ERR_INTERNAL;
  for (int64_t i = begin; i < end; i++) r->seen[i]++;
  if (begin >= r->fail_from)
    return rx_fail(-100 - (int)(begin / r->grain), "piece %d", (int)(begin / r->grain));
  return 0;
}

static int visit_nested(void *ctx, int64_t begin, int64_t end) {
  Range *outer = ctx;
  for (int64_t i = begin; i < end; i++) {
    Range r = {10, 3, INT64_MAX, outer->seen + 10 * i};
    int status = rx_parallel_for(visit, &r, r.n, r.grain);
    if (status) return status;
  }
  return 0;
}

static void check_loops(void) {
  unsigned char seen[1000];
  for (int64_t n = 0; n <= 1000; n += 37)
    for (int64_t grain = 1; grain < 300; grain = grain * 3 + 1) {
      memset(seen, 0, sizeof seen);
      Range r = {n, grain, INT64_MAX, seen};
      assert_int_equal(rx_parallel_for(visit, &r, n, grain), 0);
      for (int64_t i = 0; i < 1000; i++) assert_int_equal(seen[i], i < n);
    }
  for (int i = 0; i < 50; i++) {
    Range r = {1000, 10, 10 * i, seen};
    char want[32];
    (void)snprintf(want, sizeof want, "piece %d", i);
    assert_int_equal(rx_parallel_for(visit, &r, 1000, 10), -100 - i);
    assert_string_equal(rx_error(), want);
  }
  memset(seen, 0, sizeof seen);
  Range r = {100, 1, INT64_MAX, seen};
  assert_int_equal(rx_parallel_for(visit_nested, &r, 100, 1), 0);
  for (int i = 0; i < 1000; i++) assert_int_equal(seen[i], 1);
}

static void host_backwards(void *user, RxTask task, void *arg, int64_t n) {
  ++*(int *)user;
  for (int64_t i = n - 1; i >= 0; i--) task(arg, i);
}

static void test_parallel(void **state) {
  (void)state;
  assert_int_equal(rx_set_num_threads(0), RX_ERR_ARGUMENT);
  assert_int_equal(rx_set_num_threads(3), 0);
  check_loops();
  assert_int_equal(rx_set_num_threads(2), RX_ERR_ARGUMENT); /* runs already */
  int calls = 0;
  rx_set_parallel_for(host_backwards, &calls);
  check_loops();
  assert_true(calls > 100);
  rx_set_parallel_for(NULL, NULL);
  check_loops();
}

/* Several host threads at once: one gets the pool, the others run by themselves. */
static void *host_main(void *arg) {
  check_loops();
  return arg;
}

static void test_hosts(void **state) {
  (void)state;
  pthread_t t[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, host_main, NULL), 0);
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
}

static void test_fork(void **state) {
  (void)state;
  check_loops();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    unsigned char seen[1000] = {0};
    Range r = {1000, 7, INT64_MAX, seen};
    int bad = rx_parallel_for(visit, &r, 1000, 7) != 0;
    for (int i = 0; i < 1000; i++) bad |= seen[i] != 1;
    _exit(bad);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Results must depend on the caller's rounding, not on that of the thread which did the piece. */
static int check_rounding(void *ctx, int64_t begin, int64_t end) {
  struct timespec pause = {0, 200000};
  (void)end;
  (void)nanosleep(&pause, NULL); /* so that others take pieces, too */
  return fegetround() == *(int *)ctx ? 0 : rx_fail(-1, "piece %d", (int)begin);
}

static void test_rounding(void **state) {
  (void)state;
  static int modes[] = {FE_UPWARD, FE_TONEAREST, FE_DOWNWARD, FE_TONEAREST};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(fesetround(modes[i]), 0);
    int status = rx_parallel_for(check_rounding, &modes[i], 40, 1);
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_int_equal(status, 0);
  }
}

static void test_weights(void **state) {
  (void)state;
  char path[] = "/tmp/relaxrt-test-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  char bytes[100];
  for (int i = 0; i < 100; i++) bytes[i] = (char)i;
  assert_int_equal(write(fd, bytes, 100), 100);
  close(fd);
  RxWeightsFile f = {path, 100, rx_weights_hash(bytes, 100)};
  void *slot = NULL;
  const void *data = NULL;
  assert_int_equal(rx_weights_map(&f, &slot, &data), 0);
  assert_memory_equal(data, bytes, 100);
  const void *again = NULL;
  assert_int_equal(rx_weights_map(&f, &slot, &again), 0);
  assert_ptr_equal(again, data);

  void *other = NULL;
  f.size = 99;
  assert_int_equal(rx_weights_map(&f, &other, &data), RX_ERR_WEIGHTS);
  assert_non_null(strstr(rx_error(), "expected 99 bytes but got 100"));
  f.size = 100;
  f.hash++;
  assert_int_equal(rx_weights_map(&f, &other, &data), RX_ERR_WEIGHTS);
  assert_non_null(strstr(rx_error(), "differ"));
  unlink(path);
  assert_int_equal(rx_weights_map(&f, &other, &data), RX_ERR_WEIGHTS);
  assert_non_null(strstr(rx_error(), path));
  bytes[63] ^= 1;
  assert_true(rx_weights_hash(bytes, 100) != f.hash - 1);
}

static int hook_calls;
static void hook(void *user, const char *function, const char *kernel, int64_t begin, int64_t end) {
  assert_null(user);
  assert_string_equal(function, "main");
  assert_string_equal(kernel, "fused_add");
  assert_true(end >= begin);
  hook_calls++;
}

static void test_profile(void **state) {
  (void)state;
  assert_int_equal(rx_profile_begin(), -1);
  rx_profile_end("main", "fused_add", -1);
  rx_set_profile(hook, NULL);
  rx_profile_end("main", "fused_add", rx_profile_begin());
  rx_set_profile(NULL, NULL);
  rx_profile_end("main", "fused_add", rx_profile_begin());
  assert_int_equal(hook_calls, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_error),    cmocka_unit_test(test_workspace),
      cmocka_unit_test(test_threads),  cmocka_unit_test(test_parallel),
      cmocka_unit_test(test_hosts),    cmocka_unit_test(test_fork),
      cmocka_unit_test(test_rounding), cmocka_unit_test(test_weights),
      cmocka_unit_test(test_profile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
