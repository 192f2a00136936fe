/* Two objects in one program: they share rx_error and rx_free. */
#include <stdio.h>
#include <string.h>

#include "a.h"
#include "b.h"

int main(void) {
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[4] = {1, 1, 1, 2}, y[8], z[8];
  if (a_scale(x, w, y, 2) != 0 || b_scale(x, w, z, 2) != 0) return 1;
  if (memcmp(y, z, sizeof y) != 0 || y[7] != 16) return 1;
  if (a_scale(x, w, y, -3) != RX_ERR_SHAPE || !strstr(rx_error(), "-3")) return 1;
  if (b_scale(x, w, y, -4) != RX_ERR_SHAPE || !strstr(rx_error(), "-4")) return 1;
  printf("both\n");
  return 0;
}
