/* The built-in threads: a crew that helps the caller.
 *
 * The caller publishes a job and works on it itself; threads that are awake take pieces, too. What
 * counts is that every piece is done, not that every thread has come by: on a loaded machine, where
 * a sleeping thread may get its turn only milliseconds later, the caller then simply does all of
 * the work. (Pools whose fork and join wait for each worker lose a factor of ten there.)
 *
 * One 64-bit ticket says what is left: the job's number above, the count of pieces not yet taken
 * below. Taking a piece is one compare-and-swap of the ticket; a job's fields are read only by who
 * holds a piece of it, and stay as they are until that piece is counted as done. Threads without
 * work spin for some microseconds, as the next kernel is near, then sleep.
 *
 * Workers take over the caller's floating-point environment (rounding, flush to zero) with each
 * job, so that results depend on the caller only. After fork() the child starts a crew of its own.
 */
#define _GNU_SOURCE
#include "runtime/crew.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS = 4000, MAX_THREADS = 256 };

static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER; /* held by the caller whose job runs */

/* The job, valid while the ticket's pieces are not all done. */
static struct {
  RxTask task;
  void *arg;
  uint32_t n;
  fenv_t env;
} job;
static _Atomic uint64_t ticket; /* number << 32 | pieces left */
static _Atomic uint32_t done;   /* pieces of this job that are finished */
static atomic_bool waiting;     /* the caller sleeps until done == n */
static atomic_int sleepers;     /* workers asleep */
static atomic_bool stop;
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER;
static pthread_cond_t all_done = PTHREAD_COND_INITIALIZER;

static pthread_t workers[MAX_THREADS];
static int nworkers;
static atomic_bool started;

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static inline uint32_t pieces_left(uint64_t t) {
  return (uint32_t)t;
}

/* Takes a piece; false when none is left. *number gets the job's number. */
static bool take(uint32_t *piece, uint32_t *number) {
  uint64_t t = atomic_load_explicit(&ticket, memory_order_acquire);
  while (pieces_left(t)) {
    /* Success acquires the job's fields; a stale ticket fails, as its number is gone. */
    if (atomic_compare_exchange_weak_explicit(&ticket, &t, t - 1, memory_order_acq_rel,
                                              memory_order_acquire)) {
      *piece = job.n - pieces_left(t);
      *number = (uint32_t)(t >> 32);
      return true;
    }
  }
  return false;
}

/* Runs a piece that was taken. */
static void run(uint32_t piece) {
  uint32_t n = job.n;
  job.task(job.arg, (int64_t)piece);
  /* From here on the job may be gone. */
  if (atomic_fetch_add(&done, 1) + 1 == n && atomic_load(&waiting)) {
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_signal(&all_done);
    pthread_mutex_unlock(&sleep_lock);
  }
}

static void wait_for_work(void) {
  for (int i = 0; i < SPINS; i++) {
    if (pieces_left(atomic_load_explicit(&ticket, memory_order_relaxed)) || atomic_load(&stop))
      return;
    relax();
  }
  pthread_mutex_lock(&sleep_lock);
  atomic_fetch_add(&sleepers, 1);
  while (!pieces_left(atomic_load(&ticket)) && !atomic_load(&stop))
    pthread_cond_wait(&work_there, &sleep_lock);
  atomic_fetch_sub(&sleepers, 1);
  pthread_mutex_unlock(&sleep_lock);
}

static void *worker_main(void *unused) {
  uint32_t piece, number, last = 0;
  bool first = true;
  (void)unused;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    if (!take(&piece, &number)) {
      wait_for_work();
      continue;
    }
    if (first || number != last) (void)fesetenv(&job.env);
    first = false;
    last = number;
    run(piece);
  }
  return NULL;
}

/* At exit, or when the library that holds this code is unloaded: no thread may stay in it. */
static void stop_crew(void) {
  if (pthread_mutex_trylock(&owner) != 0) return; /* a job runs: the process ends anyway */
  pthread_mutex_lock(&sleep_lock);
  atomic_store(&stop, true);
  pthread_cond_broadcast(&work_there);
  pthread_mutex_unlock(&sleep_lock);
  for (int i = 0; i < nworkers; i++) (void)pthread_join(workers[i], NULL);
  nworkers = 0;
  pthread_mutex_unlock(&owner);
}

static void fork_child(void) {
  /* The threads stayed in the parent, and so did whoever held the locks. */
  pthread_mutex_init(&owner, NULL);
  pthread_mutex_init(&sleep_lock, NULL);
  pthread_cond_init(&work_there, NULL);
  pthread_cond_init(&all_done, NULL);
  atomic_store(&ticket, 0);
  atomic_store(&sleepers, 0);
  atomic_store(&waiting, false);
  atomic_store(&started, false);
  nworkers = 0;
}

static void start_crew(int threads) {
  static bool hooked;
  sigset_t all, old;
  atomic_store(&started, true);
  if (!hooked) hooked = pthread_atfork(NULL, NULL, fork_child) == 0 && atexit(stop_crew) == 0;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  /* The host's signals are for the host's threads. */
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &old) != 0) return;
  while (nworkers < threads - 1 && pthread_create(&workers[nworkers], NULL, worker_main, NULL) == 0)
    nworkers++;
  (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

bool relaxrt_crew_started(void) {
  return atomic_load(&started);
}

static void wait_for_others(void) {
  for (int i = 0; i < SPINS; i++) {
    if (atomic_load_explicit(&done, memory_order_acquire) == job.n) return;
    relax();
  }
  pthread_mutex_lock(&sleep_lock);
  atomic_store(&waiting, true);
  while (atomic_load(&done) != job.n) pthread_cond_wait(&all_done, &sleep_lock);
  atomic_store(&waiting, false);
  pthread_mutex_unlock(&sleep_lock);
}

bool relaxrt_crew_run(int threads, RxTask task, void *arg, int64_t n) {
  uint32_t piece, number;
  if (n > INT32_MAX || pthread_mutex_trylock(&owner) != 0) return false;
  if (!atomic_load(&started)) start_crew(threads);
  if (nworkers == 0 || atomic_load(&stop)) {
    pthread_mutex_unlock(&owner);
    return false;
  }
  job.task = task;
  job.arg = arg;
  job.n = (uint32_t)n;
  (void)fegetenv(&job.env);
  atomic_store(&done, 0);
  number = (uint32_t)(atomic_load(&ticket) >> 32) + 1;
  atomic_store(&ticket, (uint64_t)number << 32 | (uint32_t)n);
  if (atomic_load(&sleepers)) {
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&work_there);
    pthread_mutex_unlock(&sleep_lock);
  }
  while (take(&piece, &number)) run(piece);
  wait_for_others();
  pthread_mutex_unlock(&owner);
  return true;
}
