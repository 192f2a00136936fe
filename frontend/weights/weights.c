/* Opens a weight file of either kind.
 *
 * A zip archive (.npz) begins with "PK"; a .safetensors file begins with a length, which would have
 * to be beyond 18 million to look so, and is limited below that.
 */
#include "frontend/weights/weights.h"

#include <string.h>

bool weights_read(Arena *a, const char *path, Weights *out, const char **error) {
  const void *bytes;
  uint64_t size;
  bool mapped;
  if (!file_load(a, path, &bytes, &size, &mapped, error)) return false;
  const unsigned char *p = bytes;
  bool ok;
  /* "PK\3\4", or "PK\5\6" for an archive of no files. */
  bool zip = size >= 4 && p[0] == 'P' && p[1] == 'K' && p[2] < 8 && p[3] < 8;
  size_t n = strlen(path);
  if (!zip && n >= 4 && strcmp(path + n - 4, ".npz") == 0) {
    *error = arena_printf(a, "'%s': not a .npz file", path);
    return false;
  }
  if (zip)
    ok = npz_parse(a, path, bytes, size, out, error);
  else
    ok = safetensors_parse(a, path, bytes, size, out, error);
  if (mapped) {
    out->mapped = bytes;
    out->mapped_size = size;
    if (zip) pages_forget(bytes, size); /* its tensors are copies */
  }
  return ok;
}

bool weights_is_mapped(const Weights *w, const TensorData *t) {
  uintptr_t at = (uintptr_t)t->data, begin = (uintptr_t)w->mapped;
  return w->mapped && at >= begin && at - begin < w->mapped_size;
}
