#include "relaxrt.h"

#include <stdbool.h>
#include <string.h>

/* Numbers and pointers by value: more of each kind than there are registers for them. */
int64_t mixed(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g, uint64_t h, bool i) {
  return a + b * 2 + c * 3 + d * 5 + e * 7 + (int64_t)f * 11 + g * 13 + (int64_t)h * 17 + i * 19;
}
float floats(float a, double b, float c, double d, float e, double f, float g, double h, float i, double j) {
  return a + 2 * c + 3 * e + 4 * g + 5 * i + (float)(b + 2 * d + 3 * f + 4 * h + 5 * j);
}
double halve(double x) {
  return x / 2;
}
int8_t negate(int8_t x) {
  return (int8_t)-x;
}
uint16_t flip(uint16_t x) {
  return (uint16_t)~x;
}
bool is_odd(int32_t x) {
  return x & 1;
}
int32_t length(const char *s) {
  return (int32_t)strlen(s);
}
void add_to(float *p, float v) {
  *p += v;
}

/* DLPack form. */
int scale(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts) {
  if (nargs != 2 || nouts != 1) return 1;
  int64_t k = *(const int64_t *)args[1]->data;
  if (k == 13) return 7;
  for (int64_t i = 0; i < args[0]->shape[0]; i++)
    ((float *)outs[0]->data)[i] = ((const float *)args[0]->data)[i] * (float)k;
  return 0;
}
int positive(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts) {
  if (nargs != 1 || nouts != 1) return 1;
  const float *x = args[0]->data;
  int32_t n = 0, *out = rx_alloc(args[0]->shape[0] * 4);
  for (int32_t i = 0; i < args[0]->shape[0]; i++)
    if (x[i] > 0) out[n++] = i;
  outs[0]->data = out;
  outs[0]->shape[0] = n;
  return 0;
}
/* The elements of args[0] and the dims of args[1], a shape, in place. */
int count_up(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts) {
  if (nargs != 2 || nouts != 1 || args[1]->ndim != 1) return 1;
  float *x = args[0]->data, k = (float)*(const int64_t *)args[1]->data;
  for (int64_t i = 0; i < args[0]->shape[0]; i++) x[i] += k;
  *(float *)outs[0]->data = k * (float)args[0]->shape[0];
  return 0;
}
