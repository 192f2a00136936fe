/* Large results in memory that begins with a line and in memory that doesn't; nothing beside them
 * is touched. Small whole numbers: sums are exact. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "streaming.h"

enum { ROWS = 4195, COLS = 1024, N = ROWS * COLS, PAD = 64 };
static float *x, *y, *z;
static int checks, failures;

static void check(const char *what, const float *got, int shift, long n, int kind) {
  long wrong = 0;
  for (long i = 0; i < n; i++) {
    float v = x[i];
    if (kind == 1) v += y[i];
    if (kind == 2) v += y[i % COLS];
    if (kind == 3) v += y[i % (COLS - 1)];
    wrong += got[i] != v;
  }
  for (int i = 1; i <= 16; i++) wrong += got[-i] != -7 || got[n + i - 1] != -7;
  checks++;
  if (!wrong) return;
  failures++;
  printf("%s, shifted by %d: %ld elements differ\n", what, shift, wrong);
}

static float *cleared(int shift, long n) {
  for (long i = 0; i < n + 2 * PAD; i++) z[i] = -7;
  return z + PAD + shift;
}

int main(void) {
  x = aligned_alloc(64, sizeof(float) * N);
  y = aligned_alloc(64, sizeof(float) * N);
  z = aligned_alloc(64, sizeof(float) * (N + 4 * PAD));
  if (!x || !y || !z) return 1;
  for (long i = 0; i < N; i++) x[i] = (float)(i % 1009), y[i] = (float)(i % 127 - 60);
  for (int shift = 0; shift <= 16; shift += shift ? 15 : 1) {
    float *out = cleared(shift, N);
    if (m_fixed(x, y, out)) return 1;
    check("fixed", out, shift, N, 1);
    const int rows[] = {1, 7, 4096, ROWS};
    for (int i = 0; i < 4; i++) {
      out = cleared(shift, (long)rows[i] * COLS);
      if (m_sized(x, y, out, rows[i])) return 1;
      check("sized", out, shift, (long)rows[i] * COLS, 2);
    }
    out = cleared(shift, (long)ROWS * (COLS - 1));
    if (m_odd(x, y, out)) return 1;
    check("odd", out, shift, (long)ROWS * (COLS - 1), 3);
  }
  for (int i = 0; i < 2; i++) {
    float *out = cleared(0, N);
    if (i ? m_again(x, out, ROWS, COLS) : m_rows(x, out)) return 1;
    double worst = 0;
    for (long r = 0; r < ROWS; r++) {
      double sum = 0;
      for (long c = 0; c < COLS; c++) sum += out[r * COLS + c];
      worst = fmax(worst, fabs(sum - 1));
    }
    checks++;
    failures += !(worst < 1e-5);
  }
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
