/* Parallel loops.
 *
 * A range is cut into pieces by n and grain only, never by the number of threads, so that results
 * don't depend on it. They are of one length, and threads take them as they come. Failures: of
 * several pieces the first by index wins, whatever the timing. A piece is skipped only when an
 * earlier one has failed already.
 *
 * pthreadpool does the work by default. It is made at the first parallel call; a call that finds it
 * busy (another host thread) or comes from within a piece runs serially, which gives the same
 * results. Workers take over the caller's floating-point environment (rounding, flush to zero) with
 * each loop, so that results depend on the caller only. After fork() the child makes a new pool.
 *
 * A pool's join waits until each worker has come by, even when no piece is left for it. On a loaded
 * machine a worker gets its turn only milliseconds later, and workers that spin in between make
 * that worse. So the time between the end of the last piece and the end of the join is watched:
 * when it is long, loops run in the caller for a while (longer each time it happens again), and
 * workers sleep at once between loops until joins have become quick again.
 */
#define _GNU_SOURCE
#include "runtime/relaxrt.h"

#include <fenv.h>
#include <pthread.h>
#include <pthreadpool.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds: a join that lasts longer is a stall; the longest time without threads, which is long
 * beside a stall of some milliseconds, and short enough to notice soon that the load has gone. */
enum { STALL = 200000, MAX_PENALTY = 50000000 };

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER; /* held while the pool works */
static pthreadpool_t pool;
/* Pieces [next, end) of the loop that runs, of which the thread takes the next that has none. */
typedef struct {
  _Alignas(64) _Atomic int64_t next;
  int64_t end;
} Share;
static Share *shares; /* one for each thread of the pool */
static int nthreads, nshares;
static atomic_bool pool_tried; /* made, or found impossible */
static int64_t penalty;        /* of the last stall, halved by each quick join */
static int64_t serial_until;   /* no threads before this time */
static uint64_t loops;         /* number of the loop that runs */

static atomic_int threads;                 /* 0: not yet known */
static _Thread_local bool inside;          /* this thread runs a piece */
static _Thread_local uint64_t environment; /* the loop whose environment this thread has */

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
  if (atomic_load(&pool_tried)) return rx_fail(RX_ERR_ARGUMENT, "the threads are running already");
  atomic_store_explicit(&threads, n, memory_order_relaxed);
  return 0;
}

/* ---- the pool ---- */

static int64_t now(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* At exit, or when the library that holds this code is unloaded: no thread may stay in it. */
static void stop_pool(void) {
  if (pthread_mutex_trylock(&pool_lock) != 0) return; /* a loop runs: the process ends anyway */
  pthreadpool_destroy(pool);
  pool = NULL; /* loops that come later run serially */
  free(shares);
  shares = NULL;
  pthread_mutex_unlock(&pool_lock);
}

static void fork_child(void) {
  pthread_mutex_init(&pool_lock, NULL);
  pool = NULL; /* its threads stayed in the parent; its memory is given up */
  atomic_store(&pool_tried, false);
}

static void *trial_main(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

/* How many of `want` threads the system grants. pthreadpool_create never returns when it can't
 * start one of its own. */
static int grant_threads(int want) {
  int n = 0;
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_t *t = malloc((size_t)want * sizeof *t);
  if (!t) return 0;
  pthread_mutex_lock(&gate);
  while (n < want && pthread_create(&t[n], NULL, trial_main, &gate) == 0) n++;
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < n; i++) (void)pthread_join(t[i], NULL);
  pthread_mutex_destroy(&gate);
  free(t);
  return n;
}

/* Makes the pool, under pool_lock; it stays NULL when there are no threads to be had. */
static void make_pool(void) {
  static bool hooked;
  sigset_t all, old;
  atomic_store(&pool_tried, true);
  if (!hooked) hooked = pthread_atfork(NULL, NULL, fork_child) == 0 && atexit(stop_pool) == 0;
  /* The host's signals are for the host's threads. */
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &old) != 0) return;
  nthreads = 1 + grant_threads(rx_num_threads() - 1);
  free(shares); /* of the parent, in a child */
  shares = nthreads > 1 ? aligned_alloc(64, (size_t)nthreads * sizeof *shares) : NULL;
  if (shares) pool = pthreadpool_create((size_t)nthreads);
  (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- loops ---- */

/* One parallel loop. The first fields are what each thread reads: few lines of cache to wait for.
 */
typedef struct {
  _Alignas(64) RxRangeFn fn;
  void *ctx;
  int64_t each, longer;   /* iterations of a piece, one more in the first `longer` */
  uint64_t number;        /* with the built-in pool */
  _Atomic int64_t failed; /* the lowest piece that failed so far, or INT64_MAX */
  fenv_t env;
  _Atomic int64_t left;     /* shares that are not done */
  _Atomic int64_t finished; /* when the last one was */
  int status;               /* of piece `failed` */
  char message[RX_ERROR_SIZE];
} Loop;

static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER; /* for any loop's last two */

static int run_piece(const Loop *l, int64_t piece) {
  int64_t begin = piece * l->each + (piece < l->longer ? piece : l->longer);
  return l->fn(l->ctx, begin, begin + l->each + (piece < l->longer));
}

static void run_task(void *arg, int64_t piece) {
  Loop *l = arg;
  if (piece > atomic_load_explicit(&l->failed, memory_order_relaxed)) return;
  bool outer = inside;
  inside = true;
  int status = run_piece(l, piece);
  inside = outer;
  if (status == 0) return;
  pthread_mutex_lock(&failure_lock);
  if (piece < atomic_load_explicit(&l->failed, memory_order_relaxed)) {
    atomic_store_explicit(&l->failed, piece, memory_order_relaxed);
    l->status = status;
    memcpy(l->message, rx_error_buffer(), sizeof l->message);
  }
  pthread_mutex_unlock(&failure_lock);
}

/* A thread's share of the pieces first, then what is left of the others'. */
static void run_share(void *arg, size_t at) {
  Loop *l = arg;
  if (environment != l->number) {
    (void)fesetenv(&l->env);
    environment = l->number;
  }
  for (int i = 0; i < nshares; i++) {
    Share *s = &shares[((int)at + i) % nshares];
    while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
      int64_t piece = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
      if (piece < s->end) run_task(l, piece);
    }
  }
  if (atomic_fetch_sub(&l->left, 1) == 1) atomic_store(&l->finished, now());
}

static int run_serially(const Loop *l, int64_t pieces) {
  for (int64_t i = 0; i < pieces; i++) {
    int status = run_piece(l, i);
    if (status) return status;
  }
  return 0;
}

/* At most `grain` iterations each, and as many pieces as a few threads share evenly. */
static int64_t count_pieces(int64_t n, int64_t grain) {
  int64_t pieces = n / grain + (n % grain != 0);
  if (pieces > 1) pieces = pieces < 8 ? (pieces + 1) / 2 * 2 : (pieces + 3) / 4 * 4;
  return pieces < n ? pieces : n;
}

/* Runs the loop in the pool; false when nothing was run: it is busy, missing or stalled lately. */
static bool run_in_pool(Loop *l, int64_t pieces) {
  if (pthread_mutex_trylock(&pool_lock) != 0) return false;
  if (!atomic_load(&pool_tried)) make_pool();
  bool runs = pool && (penalty == 0 || now() >= serial_until);
  if (runs) {
    nshares = pieces < nthreads ? (int)pieces : nthreads;
    int64_t each = pieces / nshares, more = pieces % nshares, next = 0;
    for (int i = 0; i < nshares; i++) {
      atomic_init(&shares[i].next, next);
      next += each + (i < more);
      shares[i].end = next;
    }
    l->number = environment = ++loops;
    (void)fegetenv(&l->env);
    atomic_init(&l->left, nshares);
    atomic_init(&l->finished, 0);
    pthreadpool_parallelize_1d(pool, run_share, l, (size_t)nshares,
                               penalty ? PTHREADPOOL_FLAG_YIELD_WORKERS : 0);
    int64_t end = now(), wait = end - atomic_load(&l->finished);
    if (wait > STALL) {
      penalty = 2 * penalty > 2 * wait ? 2 * penalty : 2 * wait;
      if (penalty > MAX_PENALTY) penalty = MAX_PENALTY;
      serial_until = end + penalty;
    } else {
      penalty = penalty > STALL ? penalty / 2 : 0;
    }
  }
  pthread_mutex_unlock(&pool_lock);
  return runs;
}

static int run_pieces(RxRangeFn fn, void *ctx, int64_t n, int64_t grain) {
  if (grain < 1) grain = 1;
  int64_t pieces = count_pieces(n, grain);
  Loop l; /* the message is set when it is needed */
  l.fn = fn;
  l.ctx = ctx;
  l.each = n / pieces;
  l.longer = n % pieces;
  if (pieces == 1 || inside || (!host_run && rx_num_threads() == 1))
    return run_serially(&l, pieces);
  l.number = 0;
  l.status = 0;
  atomic_init(&l.failed, INT64_MAX);
  if (host_run)
    host_run(host_user, run_task, &l, pieces);
  else if (!run_in_pool(&l, pieces))
    return run_serially(&l, pieces);
  if (l.status) memcpy(rx_error_buffer(), l.message, sizeof l.message);
  return l.status;
}

int rx_parallel_for(RxRangeFn fn, void *ctx, int64_t n, int64_t grain) {
  if (n <= 0) return 0;
  if (n <= grain) return fn(ctx, 0, n); /* most loops of small calls: nothing to prepare */
  return run_pieces(fn, ctx, n, grain);
}
