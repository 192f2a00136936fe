/* Reads the held-out digits, runs the compiled network on them, prints accuracy and time per image.
 *
 *   digits [digits_test.bin]
 *
 * A record of the file is 64 pixels (0..16, row by row) and the right digit. The network is one C
 * function out of digits.rx; its batch size is an argument.
 */
#include "digits.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PIXELS = 64, CLASSES = 10, MOST = 100000 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best of several runs over n images in batches, in seconds per image; negative on failure. */
static double measure(const float *x, float *out, int64_t n, int64_t batch) {
  double best = 1e9;
  for (int round = 0; round < 20; round++) {
    double start = seconds();
    for (int64_t i = 0; i + batch <= n; i += batch)
      if (digits_main(x + i * PIXELS, out + i * CLASSES, batch) != 0) return -1;
    double t = (seconds() - start) / (double)(n / batch * batch);
    if (t < best) best = t;
  }
  return best;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "digits_test.bin";
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    return 1;
  }
  float *x = malloc(sizeof *x * MOST * PIXELS);
  float *out = malloc(sizeof *out * MOST * CLASSES);
  unsigned char *label = malloc(MOST);
  if (!x || !out || !label) {
    fputs("out of memory\n", stderr);
    return 1;
  }
  int64_t n = 0;
  unsigned char record[PIXELS + 1];
  while (n < MOST && fread(record, sizeof record, 1, f) == 1) {
    for (int i = 0; i < PIXELS; i++) x[n * PIXELS + i] = (float)record[i] / 16.0f;
    label[n++] = record[PIXELS];
  }
  fclose(f);
  if (n == 0) {
    fprintf(stderr, "%s: no digits\n", path);
    return 1;
  }

  if (digits_main(x, out, n) != 0) {
    fprintf(stderr, "digits_main: %s\n", rx_error());
    return 1;
  }
  int64_t right = 0;
  for (int64_t i = 0; i < n; i++) {
    int best = 0;
    for (int c = 1; c < CLASSES; c++)
      if (out[i * CLASSES + c] > out[i * CLASSES + best]) best = c;
    right += best == label[i];
  }
  printf("accuracy: %.2f %% (%lld of %lld held-out digits)\n", 100.0 * (double)right / (double)n,
         (long long)right, (long long)n);
  double one = measure(x, out, n, 1), many = measure(x, out, n, n);
  if (one < 0 || many < 0) {
    fprintf(stderr, "digits_main: %s\n", rx_error());
    return 1;
  }
  printf("time per image: %.3f us one by one, %.3f us in one batch of %lld\n", one * 1e6,
         many * 1e6, (long long)n);
  free(x);
  free(out);
  free(label);
  return right * 100 >= n * 96 ? 0 : 1;
}
