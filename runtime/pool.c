/* Parallel loops.
 *
 * A range is cut into pieces by n and grain only, never by the number of threads, so that results
 * don't depend on it; threads take pieces as they come. Failures: of several pieces the first by
 * index wins, whatever the timing. A piece is skipped only when an earlier one has failed already.
 *
 * The built-in crew (crew.c) does the work by default. A call that finds it busy (another host
 * thread) or comes from within a piece runs serially, which gives the same results.
 */
#define _GNU_SOURCE
#include "runtime/crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int threads;        /* 0: not yet known */
static _Thread_local bool inside; /* this thread runs a piece */

static RxParallelFor host_run;
static void *host_user;

void rx_set_parallel_for(RxParallelFor run, void *user) {
  host_run = run;
  host_user = user;
}

static int detect_threads(void) {
  const char *s = getenv("RELAXRT_NUM_THREADS");
  if (s && *s) {
    char *end;
    long n = strtol(s, &end, 10);
    if (!*end && n >= 1 && n <= 4096) return (int)n;
  }
#ifdef CPU_COUNT
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    int n = CPU_COUNT(&set);
    if (n >= 1) return n;
  }
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n >= 1 && n <= 4096 ? (int)n : 1;
}

int rx_num_threads(void) {
  int n = atomic_load_explicit(&threads, memory_order_relaxed);
  if (n == 0) {
    n = detect_threads();
    atomic_store_explicit(&threads, n, memory_order_relaxed);
  }
  return n;
}

int rx_set_num_threads(int n) {
  if (n < 1 || n > 4096) return rx_fail(RX_ERR_ARGUMENT, "number of threads out of range: %d", n);
  if (relaxrt_crew_started()) return rx_fail(RX_ERR_ARGUMENT, "the threads are running already");
  atomic_store_explicit(&threads, n, memory_order_relaxed);
  return 0;
}

/* One parallel loop. */
typedef struct {
  RxRangeFn fn;
  void *ctx;
  int64_t n, grain;
  _Atomic int64_t failed; /* the lowest piece that failed so far, or INT64_MAX */
  pthread_mutex_t lock;   /* for the two below */
  int status;
  char message[RX_ERROR_SIZE];
} Loop;

static int run_piece(const Loop *l, int64_t piece) {
  int64_t begin = piece * l->grain;
  int64_t end = l->n - begin < l->grain ? l->n : begin + l->grain;
  return l->fn(l->ctx, begin, end);
}

static void run_task(void *arg, int64_t piece) {
  Loop *l = arg;
  if (piece > atomic_load_explicit(&l->failed, memory_order_relaxed)) return;
  bool outer = inside;
  inside = true;
  int status = run_piece(l, piece);
  inside = outer;
  if (status == 0) return;
  pthread_mutex_lock(&l->lock);
  if (piece < atomic_load_explicit(&l->failed, memory_order_relaxed)) {
    atomic_store_explicit(&l->failed, piece, memory_order_relaxed);
    l->status = status;
    memcpy(l->message, rx_error_buffer(), sizeof l->message);
  }
  pthread_mutex_unlock(&l->lock);
}

static int run_serially(const Loop *l, int64_t pieces) {
  for (int64_t i = 0; i < pieces; i++) {
    int status = run_piece(l, i);
    if (status) return status;
  }
  return 0;
}

int rx_parallel_for(RxRangeFn fn, void *ctx, int64_t n, int64_t grain) {
  if (n <= 0) return 0;
  if (grain < 1) grain = 1;
  int64_t pieces = n / grain + (n % grain != 0);
  Loop l = {.fn = fn, .ctx = ctx, .n = n, .grain = grain, .status = 0};
  if (pieces == 1 || inside) return run_serially(&l, pieces);
  if (!host_run && rx_num_threads() == 1) return run_serially(&l, pieces);
  atomic_init(&l.failed, INT64_MAX);
  pthread_mutex_init(&l.lock, NULL);
  bool ran = true;
  if (host_run)
    host_run(host_user, run_task, &l, pieces);
  else
    ran = relaxrt_crew_run(rx_num_threads(), run_task, &l, pieces);
  pthread_mutex_destroy(&l.lock);
  if (!ran) return run_serially(&l, pieces);
  if (l.status) memcpy(rx_error_buffer(), l.message, sizeof l.message);
  return l.status;
}
