/* R.print and R.assert_op: values as text.
 *
 * A format has {} or {2} where a value goes, {{ and }} for braces; an empty one shows all values
 * with spaces between. Tensors are printed as nested lists, an axis of more than six entries cut in
 * the middle when the tensor has more than a thousand; floats in the shortest form that reads back
 * as the same number. The interpreter prints through these functions too.
 */
#define _GNU_SOURCE
#include "runtime/relaxrt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 1000, SHOWN = 3 };

static int64_t elements(const DLTensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

/* A float of `exponent` and `mantissa` bits; without infinity all ones are NaN. */
static double small_float(uint32_t bits, int exponent, int mantissa, int infinity) {
  uint32_t m = bits & ((1u << mantissa) - 1), top = (1u << exponent) - 1;
  uint32_t e = bits >> mantissa & top;
  int bias = (int)(top >> 1);
  double v =
      e ? ldexp(m + (1u << mantissa), (int)e - bias - mantissa) : ldexp(m, 1 - bias - mantissa);
  if (e == top && infinity) v = m ? NAN : INFINITY;
  if (e == top && !infinity && m == (1u << mantissa) - 1) v = NAN;
  return bits >> (exponent + mantissa) & 1 ? -v : v;
}

static void write_float(FILE *f, double v, int is_double) {
  char s[40];
  if (isnan(v)) {
    fputs("nan", f);
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(s, sizeof s, "%.*g", digits, v);
    if (is_double ? strtod(s, NULL) == v : strtof(s, NULL) == (float)v) break;
  }
  fprintf(f, "%s%s", s, strpbrk(s, ".ein") ? "" : ".0");
}

/* The bits of an element, zero-extended. */
static uint64_t load_bits(DLDataType d, const char *p) {
  uint8_t b;
  uint16_t h;
  uint32_t w;
  uint64_t l;
  switch (d.bits) {
  case 8: return memcpy(&b, p, sizeof b), b;
  case 16: return memcpy(&h, p, sizeof h), h;
  case 32: return memcpy(&w, p, sizeof w), w;
  default: return memcpy(&l, p, sizeof l), l;
  }
}

static void write_element(FILE *f, DLDataType d, const char *p) {
  uint64_t bits = load_bits(d, p), sign = UINT64_C(1) << (d.bits - 1);
  float s;
  double v;
  switch (d.code) {
  case RX_DL_BOOL: fputs(bits ? "True" : "False", f); return;
  case RX_DL_INT: fprintf(f, "%lld", (long long)((bits ^ sign) - sign)); return;
  case RX_DL_UINT: fprintf(f, "%llu", (unsigned long long)bits); return;
  case RX_DL_FLOAT:
    if (d.bits == 64)
      memcpy(&v, p, sizeof v);
    else if (d.bits == 32)
      v = (memcpy(&s, p, sizeof s), s);
    else
      v = small_float((uint32_t)bits, 5, 10, 1);
    write_float(f, v, d.bits == 64);
    return;
  case RX_DL_BFLOAT: write_float(f, small_float((uint32_t)bits, 8, 7, 1), 0); return;
  case RX_DL_FLOAT8_E4M3FN: write_float(f, small_float((uint32_t)bits, 4, 3, 0), 0); return;
  case RX_DL_FLOAT8_E5M2: write_float(f, small_float((uint32_t)bits, 5, 2, 1), 0); return;
  default: fputc('?', f);
  }
}

/* Axis `axis` of a compact tensor from p on, whose entries are `stride` bytes each in all. */
static void write_axis(FILE *f, const DLTensor *t, int32_t axis, const char *p, int64_t bytes,
                       int cut) {
  if (axis == t->ndim) {
    write_element(f, t->dtype, p);
    return;
  }
  int64_t n = t->shape[axis], each = n ? bytes / n : 0;
  fputc('[', f);
  for (int64_t i = 0; i < n; i++) {
    if (i) fputs(", ", f);
    if (cut && n > 2 * SHOWN && i == SHOWN) {
      fputs("..., ", f);
      i = n - SHOWN;
    }
    write_axis(f, t, axis + 1, p + i * each, each, cut);
  }
  fputc(']', f);
}

static void write_value(FILE *f, const DLTensor *t) {
  int64_t n = elements(t);
  const char *p = (const char *)t->data + t->byte_offset;
  write_axis(f, t, 0, p, n * (t->dtype.bits / 8), n > MANY);
}

/* The compiler has checked the format against the number of values. */
static void write_text(FILE *f, const char *format, DLTensor *const *values, int32_t n) {
  int32_t next = 0;
  if (!*format)
    for (int32_t i = 0; i < n; i++) {
      if (i) fputc(' ', f);
      write_value(f, values[i]);
    }
  for (const char *s = format; *s; s++) {
    if ((*s == '{' || *s == '}') && s[1] == *s) {
      fputc(*s++, f);
      continue;
    }
    if (*s != '{') {
      fputc(*s, f);
      continue;
    }
    char *end;
    long at = strtol(s + 1, &end, 10);
    if (end == s + 1) at = next++;
    if (at >= 0 && at < n) write_value(f, values[at]);
    s = end;
  }
}

int rx_print(const char *format, DLTensor *const *values, int32_t n) {
  flockfile(stdout);
  write_text(stdout, format, values, n);
  fputc('\n', stdout);
  fflush(stdout);
  funlockfile(stdout);
  return 0;
}

int rx_assert_failed(const char *format, DLTensor *const *values, int32_t n) {
  char *text = rx_error_buffer();
  FILE *f = fmemopen(text, RX_ERROR_SIZE, "w");
  if (!f) return rx_fail(RX_ERR_MATCH, "assertion failed");
  fputs("assertion failed", f);
  if (*format || n) {
    fputs(": ", f);
    write_text(f, format, values, n);
  }
  fclose(f);
  text[RX_ERROR_SIZE - 1] = 0;
  return RX_ERR_MATCH;
}
