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
  if (!file_load(a, path, &bytes, &size, error)) return false;
  const unsigned char *p = bytes;
  /* "PK\3\4", or "PK\5\6" for an archive of no files. */
  if (size >= 4 && p[0] == 'P' && p[1] == 'K' && p[2] < 8 && p[3] < 8)
    return npz_parse(a, path, bytes, size, out, error);
  size_t n = strlen(path);
  if (n >= 4 && strcmp(path + n - 4, ".npz") == 0) {
    *error = arena_printf(a, "'%s': not a .npz file", path);
    return false;
  }
  return safetensors_parse(a, path, bytes, size, out, error);
}

const TensorData *weights_find(const Weights *w, const char *name) {
  return strmap_get(&w->index, name);
}
