/* Data types: names, and elements in memory.
 *
 * The small floating types share one encoder and decoder, driven by their exponent and mantissa
 * widths: the value is scaled so that the last kept bit is a unit, rounded to nearest even, and the
 * carry of the rounding runs into the exponent by itself. float8_e4m3fn has no infinity: overflow
 * gives NaN, as in ml_dtypes. Memory is little endian on every host.
 */
#include "ir/dtype.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int ebits, mbits;
  bool finite; /* no infinities, one NaN pattern */
} SmallFloat;

static SmallFloat small_float(DType d) {
  if (d.code == DTYPE_FLOAT) return (SmallFloat){5, 10, false};
  if (d.code == DTYPE_BFLOAT) return (SmallFloat){8, 7, false};
  if (d.code == DTYPE_E4M3FN) return (SmallFloat){4, 3, true};
  return (SmallFloat){5, 2, false}; /* DTYPE_E5M2 */
}

static uint32_t small_encode(SmallFloat s, double v) {
  uint32_t sign = signbit(v) ? 1u << (s.ebits + s.mbits) : 0;
  uint32_t inf = ((1u << s.ebits) - 1) << s.mbits;
  uint32_t nan = s.finite ? inf | ((1u << s.mbits) - 1) : inf | 1u << (s.mbits - 1);
  double a = fabs(v);
  if (isnan(v)) return sign | nan;
  if (isinf(v)) return sign | (s.finite ? nan : inf);
  if (a == 0) return sign;
  int emin = 2 - (1 << (s.ebits - 1)), e = ilogb(a);
  if (e < emin) e = emin;
  if (e > 2 - emin) return sign | (s.finite ? nan : inf);
  double q = nearbyint(ldexp(a, s.mbits - e)); /* round to nearest even */
  uint32_t bits = ((uint32_t)(e - emin) << s.mbits) + (uint32_t)q;
  if (s.finite ? bits >= nan : bits >= inf) return sign | (s.finite ? nan : inf);
  return sign | bits;
}

static double small_decode(SmallFloat s, uint32_t bits) {
  uint32_t m = bits & ((1u << s.mbits) - 1), e = (bits >> s.mbits) & ((1u << s.ebits) - 1);
  uint32_t top = (1u << s.ebits) - 1;
  int emin = 2 - (1 << (s.ebits - 1));
  double v;
  if (e == top && !s.finite)
    v = m ? (double)NAN : (double)INFINITY;
  else if (e == top && m == (1u << s.mbits) - 1)
    v = (double)NAN;
  else if (e == 0)
    v = ldexp(m, emin - s.mbits);
  else
    v = ldexp(m | 1u << s.mbits, (int)e - 1 + emin - s.mbits);
  return bits >> (s.ebits + s.mbits) & 1 ? -v : v;
}

static uint64_t bytes_load(const void *p, size_t n) {
  const uint8_t *b = p;
  uint64_t v = 0;
  for (size_t i = 0; i < n; i++) v |= (uint64_t)b[i] << (8 * i);
  return v;
}

static void bytes_store(void *p, size_t n, uint64_t v) {
  uint8_t *b = p;
  for (size_t i = 0; i < n; i++) b[i] = (uint8_t)(v >> (8 * i));
}

static size_t element_bytes(DType d) {
  size_t n = ((size_t)d.bits + 7) / 8;
  return n > 8 ? 8 : n;
}

int64_t dtype_wrap(DType d, int64_t v) {
  if (dtype_is_bool(d)) return v != 0;
  if (d.bits >= 64 || d.bits == 0) return v;
  uint64_t mask = (UINT64_C(1) << d.bits) - 1, u = (uint64_t)v & mask;
  if (d.code == DTYPE_INT && u >> (d.bits - 1)) u |= ~mask;
  int64_t r;
  memcpy(&r, &u, sizeof r);
  return r;
}

double dtype_round(DType d, double v) {
  if (!dtype_is_float(d) || d.bits >= 64) return v;
  if (d.bits == 32) return (double)(float)v;
  SmallFloat s = small_float(d);
  return small_decode(s, small_encode(s, v));
}

int64_t dtype_load_int(DType d, const void *p) {
  if (dtype_is_float(d)) {
    double v = dtype_load_double(d, p);
    if (isnan(v)) return 0;
    if (v >= 9223372036854775808.0) return INT64_MAX;
    if (v < -9223372036854775808.0) return INT64_MIN;
    return (int64_t)v;
  }
  uint64_t u = bytes_load(p, element_bytes(d));
  int64_t v;
  memcpy(&v, &u, sizeof v);
  return dtype_wrap(d, v);
}

double dtype_load_double(DType d, const void *p) {
  uint64_t u = bytes_load(p, element_bytes(d));
  if (!dtype_is_float(d)) {
    int64_t v = dtype_load_int(d, p);
    return d.code == DTYPE_UINT ? (double)(uint64_t)v : (double)v;
  }
  if (d.bits == 64) {
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
  }
  if (d.bits == 32) {
    uint32_t w = (uint32_t)u;
    float v;
    memcpy(&v, &w, sizeof v);
    return (double)v;
  }
  return small_decode(small_float(d), (uint32_t)u);
}

void dtype_store_int(DType d, void *p, int64_t v) {
  if (dtype_is_float(d))
    dtype_store_double(d, p, (double)v);
  else
    bytes_store(p, element_bytes(d), (uint64_t)dtype_wrap(d, v));
}

void dtype_store_double(DType d, void *p, double v) {
  if (dtype_is_bool(d)) {
    bytes_store(p, 1, v != 0);
  } else if (!dtype_is_float(d)) {
    uint64_t u;
    if (isnan(v))
      u = 0;
    else if (d.code == DTYPE_UINT && v >= 9223372036854775808.0)
      u = v >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)v;
    else if (v >= 9223372036854775808.0)
      u = INT64_MAX;
    else if (v < -9223372036854775808.0)
      u = UINT64_C(1) << 63;
    else
      u = (uint64_t)(int64_t)v;
    bytes_store(p, element_bytes(d), u);
  } else if (d.bits == 64) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    bytes_store(p, 8, u);
  } else if (d.bits == 32) {
    float f = (float)v;
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    bytes_store(p, 4, w);
  } else {
    bytes_store(p, element_bytes(d), small_encode(small_float(d), v));
  }
}

const char *dtype_name(DType d) {
  static _Thread_local char ring[8][48];
  static _Thread_local unsigned at;
  char base[20];
  if (!dtype_known(d) && d.code != DTYPE_BOOL) return "void";
  switch (d.code) {
  case DTYPE_INT: snprintf(base, sizeof base, "int%d", d.bits); break;
  case DTYPE_UINT: snprintf(base, sizeof base, "uint%d", d.bits); break;
  case DTYPE_FLOAT: snprintf(base, sizeof base, "float%d", d.bits); break;
  case DTYPE_BFLOAT: snprintf(base, sizeof base, "bfloat%d", d.bits); break;
  case DTYPE_BOOL: snprintf(base, sizeof base, "bool"); break;
  case DTYPE_HANDLE: snprintf(base, sizeof base, "handle"); break;
  case DTYPE_E4M3FN: snprintf(base, sizeof base, "float8_e4m3fn"); break;
  case DTYPE_E5M2: snprintf(base, sizeof base, "float8_e5m2"); break;
  default: snprintf(base, sizeof base, "custom%d_%d", d.code, d.bits); break;
  }
  char *s = ring[at++ % 8];
  if (dtype_vscale(d))
    snprintf(s, sizeof ring[0], "%sxvscalex%u", base, dtype_vscale(d));
  else if (d.lanes > 1)
    snprintf(s, sizeof ring[0], "%sx%u", base, d.lanes);
  else
    snprintf(s, sizeof ring[0], "%s", base);
  return s;
}

/* Reads a decimal number without sign or leading zero; NULL when there is none in [1, limit]. */
static const char *number_parse(const char *s, unsigned limit, unsigned *out) {
  unsigned v = 0;
  if (*s < '1' || *s > '9') return NULL;
  for (; *s >= '0' && *s <= '9'; s++)
    if ((v = v * 10 + (unsigned)(*s - '0')) > limit) return NULL;
  *out = v;
  return s;
}

bool dtype_parse(const char *s, DType *out) {
  static const struct {
    const char *name;
    DType d;
  } whole[] = {{"bool", {DTYPE_BOOL, 8, 1}},
               {"handle", {DTYPE_HANDLE, 64, 1}},
               {"bfloat16", {DTYPE_BFLOAT, 16, 1}},
               {"float16", {DTYPE_FLOAT, 16, 1}},
               {"float32", {DTYPE_FLOAT, 32, 1}},
               {"float64", {DTYPE_FLOAT, 64, 1}},
               {"float8_e4m3fn", {DTYPE_E4M3FN, 8, 1}},
               {"float8_e5m2", {DTYPE_E5M2, 8, 1}}};
  DType d = DT_UNKNOWN;
  const char *rest = NULL;
  if (strcmp(s, "void") == 0) {
    *out = d;
    return true;
  }
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    size_t n = strlen(whole[i].name);
    if (strncmp(s, whole[i].name, n) == 0 && (s[n] == '\0' || s[n] == 'x')) {
      d = whole[i].d;
      rest = s + n;
    }
  }
  if (!rest) {
    unsigned bits;
    if (strncmp(s, "int", 3) == 0)
      d = DT(DTYPE_INT, 0), rest = number_parse(s + 3, 64, &bits);
    else if (strncmp(s, "uint", 4) == 0)
      d = DT(DTYPE_UINT, 0), rest = number_parse(s + 4, 64, &bits);
    if (!rest) return false;
    d.bits = (uint8_t)bits;
  }
  if (*rest == 'x') {
    unsigned lanes;
    bool scalable = strncmp(rest, "xvscalex", 8) == 0;
    rest = number_parse(rest + (scalable ? 8 : 1), DTYPE_MAX_LANES, &lanes);
    if (!rest || d.code == DTYPE_HANDLE) return false;
    d.lanes = (uint16_t)(scalable ? 65536 - lanes : lanes);
  }
  if (*rest) return false;
  *out = d;
  return true;
}
