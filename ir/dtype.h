/* Data types: DLPack's codes, bits and lanes. A zeroed DType is the unknown (void) type. */
#ifndef RELAXC_IR_DTYPE_H
#define RELAXC_IR_DTYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

enum {
  DTYPE_INT = 0,
  DTYPE_UINT = 1,
  DTYPE_FLOAT = 2,
  DTYPE_HANDLE = 3,
  DTYPE_BFLOAT = 4,
  DTYPE_BOOL = 6,
  DTYPE_E4M3FN = 10,
  DTYPE_E5M2 = 12,
};

typedef struct {
  uint8_t code, bits;
  uint16_t lanes; /* 1 for scalars; 0 together with bits == 0 when unknown */
} DType;

#define DT(c, b) ((DType){(c), (b), 1})
#define DT_UNKNOWN ((DType){0, 0, 0})
#define DT_BOOL DT(DTYPE_BOOL, 8)
#define DT_I8 DT(DTYPE_INT, 8)
#define DT_I16 DT(DTYPE_INT, 16)
#define DT_I32 DT(DTYPE_INT, 32)
#define DT_I64 DT(DTYPE_INT, 64)
#define DT_U8 DT(DTYPE_UINT, 8)
#define DT_U32 DT(DTYPE_UINT, 32)
#define DT_U64 DT(DTYPE_UINT, 64)
#define DT_F16 DT(DTYPE_FLOAT, 16)
#define DT_F32 DT(DTYPE_FLOAT, 32)
#define DT_F64 DT(DTYPE_FLOAT, 64)
#define DT_BF16 DT(DTYPE_BFLOAT, 16)
#define DT_HANDLE DT(DTYPE_HANDLE, 64)

/* Lanes above DTYPE_MAX_LANES stand for n * T.vscale() of them, a number only the processor knows:
 * n = 65536 - lanes. (As DLPack's negative lanes.) */
enum { DTYPE_MAX_LANES = 32767 };
static inline unsigned dtype_vscale(DType d) {
  return d.lanes > DTYPE_MAX_LANES ? 65536u - d.lanes : 0;
}

static inline bool dtype_known(DType d) {
  return d.bits != 0;
}
static inline bool dtype_eq(DType a, DType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
static inline bool dtype_is_float(DType d) {
  return d.bits && (d.code == DTYPE_FLOAT || d.code == DTYPE_BFLOAT || d.code >= 7);
}
static inline bool dtype_is_bool(DType d) {
  return d.code == DTYPE_BOOL;
}
static inline bool dtype_is_sint(DType d) {
  return d.bits && d.code == DTYPE_INT;
}
static inline bool dtype_is_uint(DType d) {
  return d.code == DTYPE_UINT;
}
static inline bool dtype_is_int(DType d) {
  return dtype_is_sint(d) || dtype_is_uint(d);
}
static inline DType dtype_lanes(DType d, unsigned lanes) {
  d.lanes = (uint16_t)lanes;
  return d;
}
static inline DType dtype_scalar(DType d) {
  return dtype_lanes(d, 1);
}
/* Bytes of one element in memory (bool is one byte); sub-byte types round up. */
static inline size_t dtype_bytes(DType d) {
  return ((size_t)d.bits + 7) / 8 * (d.lanes ? d.lanes : 1);
}

/* "float32", "bool", "int32x4", "void" for the unknown one; a static or thread-local string. */
const char *dtype_name(DType d);
/* Parses a name as in TVMScript; false when it is none. "void" gives the unknown type. */
bool dtype_parse(const char *s, DType *out);

/* Reads/writes one scalar element in memory; integers exact, float16/bfloat16/float8 rounded to
 * nearest even. (Interpreter, constant folding, literals.) */
double dtype_load_double(DType d, const void *p);
int64_t dtype_load_int(DType d, const void *p); /* uint64 as its bit pattern */
void dtype_store_double(DType d, void *p, double v);
void dtype_store_int(DType d, void *p, int64_t v); /* wraps */
/* `v` rounded to the precision of float type d. */
double dtype_round(DType d, double v);
/* `v` wrapped to the width of integer type d (sign- or zero-extended). */
int64_t dtype_wrap(DType d, int64_t v);

#endif
