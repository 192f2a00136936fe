/* Arrays as NumPy's .npy and .npz files hold them (numpy.lib.format, versions 1 to 3). */
#ifndef RELAXC_FRONTEND_NPY_H
#define RELAXC_FRONTEND_NPY_H

#include "ir/base/arena.h"
#include "ir/base/text.h"
#include "ir/dtype.h"

enum { TENSOR_MAX_DIMS = 32 };

/* A tensor in memory: compact, row-major, host byte order, aligned to its element. */
typedef struct {
  const char *name; /* "" where there is none */
  DType dtype;
  int32_t ndim;
  const int64_t *dims;
  const void *data;
  uint64_t bytes;
} TensorData;

/* Elements and bytes of a shape; false on a negative dim or beyond 2^62 bytes. */
bool tensor_size(DType d, const int64_t *dims, int32_t ndim, uint64_t *elements, uint64_t *bytes);
/* Bool bytes other than 0 and 1 become 1, and misaligned data is copied (into the arena). */
void tensor_normalise(Arena *a, TensorData *t);
/* "float32 (3, 4)" */
void tensor_print_type(Text *t, const TensorData *x);

/* Reads .npy bytes. The data points into `bytes` when order and alignment allow, else into the
 * arena. False with words in *error. bfloat16 is what ml_dtypes saves: two bytes of void. */
bool npy_parse(Arena *a, const void *bytes, uint64_t size, TensorData *out, const char **error);
/* Size of the .npy header that `bytes` begins with, and the data bytes it announces. */
bool npy_parse_header(Arena *a, const void *bytes, uint64_t size, TensorData *out, bool *fortran,
                      uint64_t *header, const char **error);
bool npy_read(Arena *a, const char *path, TensorData *out, const char **error);
/* The header (version 1) for a tensor; the data follows it. bfloat16 as '|V2', float8 as '|u1'. */
void npy_format_header(Text *t, const TensorData *x);
/* Writes one array, or (npz) several under their names. A temporary file, renamed when complete;
 * "-" is stdout (npy only). */
bool npy_write(Arena *a, const char *path, const TensorData *x, const char **error);
bool npz_write(Arena *a, const char *path, const TensorData *x, uint32_t n, const char **error);

/* A whole file's bytes: mapped where it is a regular file (and kept until the process ends), else
 * read. `mapped`, which may be NULL, says which. */
bool file_load(Arena *a, const char *path, const void **bytes, uint64_t *size, bool *mapped,
               const char **error);

#endif
