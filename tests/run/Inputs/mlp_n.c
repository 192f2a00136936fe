/* Links the symbolic-batch MLP and compares it, at every n given on the command line, with the sum
 * of products in double precision. The error bound is the classical one for a sum of K products in
 * float32: K * eps * sum |x w|, with room to spare. */
#include "mlp.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 784, N = 256 };

static uint32_t state = 1;
static float uniform(void) {
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static float *fill(size_t n) {
  float *p = malloc(n * sizeof *p + 1);
  for (size_t i = 0; i < n; i++) p[i] = uniform();
  return p;
}

int main(int argc, char **argv) {
  float *w = fill(K * N), *b = fill(N);
  for (int a = 1; a < argc; a++) {
    int64_t n = atoll(argv[a]);
    float *x = fill((size_t)n * K), *y = malloc((size_t)n * N * sizeof *y + sizeof *y);
    y[n * N] = 1234.5f; /* a guard: nothing is written past the end */
    int rc = mlp_main(x, w, b, y, n);
    if (rc) {
      printf("n=%lld: error %d: %s\n", (long long)n, rc, rx_error());
      return 1;
    }
    for (int64_t i = 0; i < n; i++)
      for (int j = 0; j < N; j++) {
        double sum = b[j], mag = fabs(sum);
        for (int k = 0; k < K; k++) {
          double p = (double)x[i * K + k] * w[k * N + j];
          sum += p;
          mag += fabs(p);
        }
        double want = sum > 0 ? sum : 0;
        if (!(fabs(y[i * N + j] - want) <= mag * 784 * 6e-8)) {
          printf("n=%lld: out[%lld][%d] is %.9g but %.9g is right\n", (long long)n, (long long)i, j,
                 y[i * N + j], want);
          return 1;
        }
      }
    if (y[n * N] != 1234.5f) {
      printf("n=%lld: written past the end\n", (long long)n);
      return 1;
    }
    printf("n=%lld ok\n", (long long)n);
    free(x);
    free(y);
  }
  free(w);
  free(b);
  return 0;
}
