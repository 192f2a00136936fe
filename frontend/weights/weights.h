/* Weight files: named tensors of a .safetensors or .npz file.
 *
 * Nothing in the file is trusted: every length, offset, dtype and shape is checked against the
 * bytes there are before anything is allocated or read by it. Errors are words that name file and
 * tensor.
 */
#ifndef RELAXC_FRONTEND_WEIGHTS_H
#define RELAXC_FRONTEND_WEIGHTS_H

#include "frontend/npy.h"
#include "ir/base/map.h"

typedef struct {
  const char *path;
  TensorData *tensors; /* in the file's order (safetensors: that of the header) */
  uint32_t n;
  StrMap index;       /* name -> TensorData* */
  const void *mapped; /* the file, when it is mapped */
  uint64_t mapped_size;
} Weights;

/* Reads a file; its kind is told by its contents. Tensors of a .safetensors file point into the
 * mapped file where their alignment allows. */
bool weights_read(Arena *a, const char *path, Weights *out, const char **error);
/* The readers over bytes in memory, which must stay as long as the tensors; `path` is for messages.
 */
bool safetensors_parse(Arena *a, const char *path, const void *bytes, uint64_t size, Weights *out,
                       const char **error);
bool npz_parse(Arena *a, const char *path, const void *bytes, uint64_t size, Weights *out,
               const char **error);
/* Does the tensor's data lie in the mapped file? */
bool weights_is_mapped(const Weights *w, const TensorData *t);

#endif
