/* Timing: batches of calls, the peers in turns, each batch between two probes of the clock.
 *
 * Machines are shared, and a busy neighbour or a lower clock would spoil a comparison. A probe is a
 * burst of multiply-adds of a third of a millisecond; a batch counts as clean when the bursts
 * before and after it ran at nearly the best speed seen and the process was not interrupted. The
 * result is the minimum over the clean batches.
 */
#define _GNU_SOURCE
#include "runner.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void pin(void) {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (int i = CPU_SETSIZE - 1; i >= 0; i--) {
    if (!CPU_ISSET(i, &all)) continue;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one); /* unpinned numbers are still numbers */
    return;
  }
}

/* --- multiply-adds per second --- */

/* As wide as the instructions that this file is compiled for (-march=native). */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));
#if defined(__x86_64__)
#define KEEP_IN_REGISTER(v) __asm__ volatile("" : "+v"(v))
#else
#define KEEP_IN_REGISTER(v) __asm__ volatile("" : "+w"(v))
#endif

/* Multiply-adds per second. Twelve independent chains fill up to three pipes of latency four; they
 * are variables, since an array would stay in memory. */
#define CHAINS(DO) DO(a) DO(b) DO(c) DO(d) DO(e) DO(f) DO(g) DO(h) DO(i) DO(j) DO(k) DO(l)
static double burst(long rounds) {
  Vector factor, term;
  for (size_t lane = 0; lane < VECTOR_BYTES / 4; lane++) factor[lane] = 0.999f, term[lane] = 0.001f;
  KEEP_IN_REGISTER(factor);
  KEEP_IN_REGISTER(term);
#define BEGIN(v) Vector v = term;
  CHAINS(BEGIN)
  double start = now();
  for (long r = 0; r < rounds; r++) {
#define STEP(v)                                                                                    \
  v = v * factor + term;                                                                           \
  KEEP_IN_REGISTER(v);
    CHAINS(STEP)
  }
  return 12.0 * (VECTOR_BYTES / 4) * (double)rounds / (now() - start);
}

/* A burst of about 0.3 ms; the best one so far is the core's speed. */
static double full_speed;

static double probe(void) {
  static long rounds = 1000;
  double start = now(), speed = burst(rounds);
  if (now() - start < 2e-4) rounds *= 2;
  if (speed > full_speed) full_speed = speed;
  return speed;
}

static void warm_up(void) {
  for (double end = now() + 0.02; now() < end;) probe();
}

/* --- batches --- */

enum { CLEAN_BATCHES = 6 };
static const double BATCH_SECONDS = 0.02, SAMPLE_SECONDS = 2e-5, CLEAN_SPEED = 0.95;

/* The least time per call over a batch; samples of several calls where one is too short to time. */
static double run_batch(Peer *p, long calls) {
  double best = 1e9, start = now(), end = start;
  do {
    double begin = end;
    for (long i = 0; i < calls; i++)
      if (p->kind->call(p->state) != 0) p->failure = "a later call failed";
    end = now();
    if ((end - begin) / (double)calls < best) best = (end - begin) / (double)calls;
  } while (end - start < BATCH_SECONDS && !p->failure);
  return best;
}

static long calls_per_sample(Peer *p) {
  for (long calls = 1;; calls *= 2) {
    double start = now();
    for (long i = 0; i < calls; i++)
      if (p->kind->call(p->state) != 0) p->failure = "a later call failed";
    if (now() - start > SAMPLE_SECONDS || p->failure) return calls;
  }
}

static void time_batch(Peer *p, long calls, int threads, int *clean) {
  struct rusage before, after;
  if (threads > 1) { /* let the workers of the peer before stop spinning, and wake this one's */
    usleep(20000);
    p->kind->call(p->state);
  }
  getrusage(RUSAGE_THREAD, &before);
  double speed = probe(), t = run_batch(p, calls), speed_after = probe();
  getrusage(RUSAGE_THREAD, &after);
  if (speed_after < speed) speed = speed_after;
  if (p->best_any == 0 || t < p->best_any) p->best_any = t;
  /* With several threads, others' work shows in no count of ours: all batches stand. */
  int undisturbed = after.ru_nivcsw == before.ru_nivcsw && speed > CLEAN_SPEED * full_speed;
  if (threads == 1 && !undisturbed) return;
  ++*clean;
  if (p->best == 0 || t < p->best) p->best = t;
}

void time_case(Job *job) {
  long calls[MAX_PEERS];
  int clean[MAX_PEERS] = {0};
  warm_up();
  for (int i = 0; i < job->npeers; i++) {
    Peer *p = &job->peers[i];
    p->best = p->best_any = 0;
    if (!p->failure) calls[i] = calls_per_sample(p);
  }
  double end = now() + job->seconds * job->npeers;
  for (int round = 0, missing = 1; missing && (round == 0 || now() < end); round++) {
    missing = 0;
    for (int i = 0; i < job->npeers; i++) {
      Peer *p = &job->peers[i];
      if (p->failure) continue;
      time_batch(p, calls[i], job->threads, &clean[i]);
      missing |= clean[i] < CLEAN_BATCHES;
    }
  }
}

/* --- limits --- */

/* In eight streams at once or in one: which is faster depends on the processor and the size. */
static double read_speed(const float *data, size_t bytes, int streams) {
  const Vector *v = (const Vector *)data;
  size_t n = bytes / sizeof(Vector) / 8, step = streams > 1 ? 1 : 8, gap = streams > 1 ? n : 1;
  long repeats = 1 + (long)(2e8 / (double)bytes);
  double best = 0;
  for (int round = 0; round < 10; round++) {
    Vector even = {0}, odd = {0};
    double start = now();
    for (long r = 0; r < repeats; r++)
      for (size_t i = 0; i < n; i++) {
        const Vector *p = v + i * step;
        even += (p[0] + p[gap]) + (p[2 * gap] + p[3 * gap]);
        odd += (p[4 * gap] + p[5 * gap]) + (p[6 * gap] + p[7 * gap]);
        KEEP_IN_REGISTER(even);
        KEEP_IN_REGISTER(odd);
      }
    double speed = (double)(n * 8 * sizeof(Vector)) * (double)repeats / (now() - start);
    if (speed > best) best = speed;
  }
  return best;
}

static double copy_speed(float *data, size_t bytes) {
  size_t half = bytes / 2;
  long repeats = 1 + (long)(2e8 / (double)bytes);
  double best = 0;
  for (int round = 0; round < 10; round++) {
    double start = now();
    for (long r = 0; r < repeats; r++) {
      memcpy((char *)data + half, data, half);
      __asm__ volatile("" : : "r"(data) : "memory");
    }
    double speed = 2.0 * (double)half * (double)repeats / (now() - start);
    if (speed > best) best = speed;
  }
  return best;
}

int print_limits(void) {
  enum { LARGEST = 1 << 28 };
  pin();
  for (double end = now() + 0.2; now() < end;) probe();
  printf("peak\t%.4g\n", full_speed * 1e-9); /* 10^9 multiply-adds per second */
  float *data = allocate(LARGEST);
  madvise(data, LARGEST, MADV_HUGEPAGE);
  for (size_t bytes = 1 << 14; bytes <= LARGEST; bytes *= 4) {
    double best = copy_speed(data, bytes);
    for (int streams = 1; streams <= 8; streams += 7) {
      double speed = read_speed(data, bytes, streams);
      if (speed > best) best = speed;
    }
    printf("bandwidth\t%zu\t%.4g\n", bytes, best * 1e-9);
  }
  free(data);
  return 0;
}
