/* What `make bench` measures, on one pinned core and with the rivals interleaved, so that a change
 * of the clock meets both: matmul 512x512x512 against OpenBLAS, the MLP with a symbolic batch
 * against the static one, for n = 1, 32, 512. Each number is the best of many rounds.
 */
#define _GNU_SOURCE
#include "matmul.h"
#include "mlp.h"
#include "mlp1.h"
#include "mlp32.h"
#include "mlp512.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* From OpenBLAS, so that no header of it is needed. */
void cblas_sgemm(int order, int transa, int transb, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, NO_TRANS = 111 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *random_floats(size_t n) {
  void *p;
  if (posix_memalign(&p, 64, n * sizeof(float)) != 0) exit(1);
  float *f = p;
  static uint32_t state = 1;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    f[i] = (float)(state >> 8) / 8388608.0f - 1;
  }
  return f;
}

static void pin(void) {
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

/* Seconds per call: `calls` of `statement` in one go, the minimum kept in `best`. */
#define TIME(best, calls, statement)                                                               \
  do {                                                                                             \
    double start = seconds();                                                                      \
    for (int call = 0; call < (calls); call++) statement;                                          \
    double t = (seconds() - start) / (calls);                                                      \
    if (t < (best)) (best) = t;                                                                    \
  } while (0)

static void bench_matmul(void) {
  enum { N = 512 };
  float *a = random_floats(N * N), *b = random_floats(N * N), *c = random_floats(N * N),
        *d = random_floats(N * N);
  double ours = 1e9, blas = 1e9, worst = 0;
  for (int round = 0; round < 60; round++) {
    TIME(ours, 3, matmul_main(a, b, c));
    TIME(blas, 3, cblas_sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, N, N, N, 1, a, N, b, N, 0, d, N));
  }
  for (int i = 0; i < N * N; i++) worst = fmax(worst, fabs((double)c[i] - (double)d[i]));
  double flops = 2.0 * N * N * N;
  printf("matmul 512: relaxc %.1f GFLOP/s, OpenBLAS %.1f GFLOP/s, ratio %.3f (largest difference "
         "%.1e)\n",
         flops / ours * 1e-9, flops / blas * 1e-9, blas / ours, worst);
  free(a);
  free(b);
  free(c);
  free(d);
}

static int call_static(int n, const float *x, const float *w, const float *b, float *y) {
  return n == 1    ? mlp1_main(x, w, b, y)
         : n == 32 ? mlp32_main(x, w, b, y)
                   : mlp512_main(x, w, b, y);
}

static void bench_mlp(int n) {
  float *x = random_floats((size_t)n * 784), *w = random_floats(784 * 256), *b = random_floats(256),
        *y = random_floats((size_t)n * 256);
  double symbolic = 1e9, fixed = 1e9;
  int calls = n == 1 ? 200 : n == 32 ? 20 : 2;
  for (int round = 0; round < 60; round++) {
    TIME(symbolic, calls, mlp_main(x, w, b, y, n));
    TIME(fixed, calls, call_static(n, x, w, b, y));
  }
  printf("mlp n=%d: symbolic %.2f us, static %.2f us, ratio %.3f\n", n, symbolic * 1e6, fixed * 1e6,
         symbolic / fixed);
  free(x);
  free(w);
  free(b);
  free(y);
}

int main(void) {
  pin();
  bench_matmul();
  bench_mlp(1);
  bench_mlp(32);
  bench_mlp(512);
  return 0;
}
