/* Calls the function of mlp.rx, whose parameters are C arguments, and checks it against plain
 * loops. The inputs are small multiples of 1/8, so that float sums are exact in any order. */
#include "mlp.h"
#include <stdio.h>

enum { IN = 784, OUT = 256 };

static float x[IN], weight[IN * OUT], bias[OUT], y[OUT];

int main(void) {
  for (int i = 0; i < IN; i++) x[i] = (float)(i % 7 - 3) / 8;
  for (int i = 0; i < IN * OUT; i++) weight[i] = (float)(i % 11 - 5) / 8;
  for (int i = 0; i < OUT; i++) bias[i] = (float)(i % 5 - 2);

  if (mlp_main(x, weight, bias, y) != 0) {
    fprintf(stderr, "mlp_main: %s\n", rx_error());
    return 1;
  }

  int wrong = 0, positive = 0;
  for (int j = 0; j < OUT; j++) {
    float sum = bias[j];
    for (int i = 0; i < IN; i++) sum += x[i] * weight[i * OUT + j];
    wrong += y[j] != (sum > 0 ? sum : 0);
    positive += y[j] > 0;
  }
  printf("%d of %d outputs differ, %d are positive\n", wrong, OUT, positive);
  return wrong != 0;
}
