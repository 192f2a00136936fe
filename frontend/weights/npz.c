/* Reader of .npz files: zip archives of .npy files, through libzip.
 *
 * An entry's size is believed only as far as its packed bytes could unpack to (deflate packs at
 * most 1032 times); then the .npy header in its first bytes must announce just that many. libzip
 * checks the CRC at the entry's end.
 */
#include "frontend/weights/weights.h"

#include <string.h>
#include <zip.h>

#define fail(...) ((void)(*error = arena_printf(a, __VA_ARGS__)), false)

static bool read_entry(Arena *a, const char *path, zip_t *z, zip_uint64_t i, TensorData *t,
                       const char **error) {
  zip_stat_t st;
  if (zip_stat_index(z, i, 0, &st) != 0 || !(st.valid & ZIP_STAT_NAME))
    return fail("'%s': %s", path, zip_strerror(z));
  size_t n = strlen(st.name);
  if (n > 4 && strcmp(st.name + n - 4, ".npy") == 0) n -= 4;
  const char *name = arena_strndup(a, st.name, n), *why = NULL;
  if (!(st.valid & ZIP_STAT_SIZE) || !(st.valid & ZIP_STAT_COMP_SIZE))
    return fail("'%s': tensor '%.200s': its size is unknown", path, name);
  if (st.size / 1100 > st.comp_size)
    return fail("'%s': tensor '%.200s': claims %llu bytes but holds %llu", path, name,
                (unsigned long long)st.size, (unsigned long long)st.comp_size);
  zip_file_t *f = zip_fopen_index(z, i, 0);
  if (!f) return fail("'%s': tensor '%.200s': %s", path, name, zip_strerror(z));
  char *bytes = arena_alloc(a, st.size);
  zip_uint64_t got = 0;
  zip_int64_t k = 0;
  while (got < st.size && (k = zip_fread(f, bytes + got, st.size - got)) > 0)
    got += (zip_uint64_t)k;
  char extra;
  if (k >= 0 && got == st.size) k = zip_fread(f, &extra, 1); /* reaches the CRC check */
  if (k < 0)
    why = arena_printf(a, "%s", zip_file_strerror(f));
  else if (k > 0)
    why = "longer than announced";
  else if (got < st.size)
    why = "truncated";
  int code = zip_fclose(f);
  if (!why && code != 0) why = "read error";
  if (!why) (void)npy_parse(a, bytes, st.size, t, &why);
  if (why) return fail("'%s': tensor '%.200s': %s", path, name, why);
  t->name = name;
  return true;
}

bool npz_parse(Arena *a, const char *path, const void *bytes, uint64_t size, Weights *out,
               const char **error) {
  zip_error_t e;
  *out = (Weights){.path = path};
  strmap_init(&out->index, a);
  if (size < 22) return fail("'%s': truncated", path); /* libzip takes no bytes as no files */
  zip_error_init(&e);
  zip_source_t *s = zip_source_buffer_create(bytes, size, 0, &e);
  zip_t *z = s ? zip_open_from_source(s, ZIP_RDONLY, &e) : NULL;
  if (!z) {
    if (s) zip_source_free(s);
    (void)fail("'%s': %s", path, zip_error_strerror(&e));
    zip_error_fini(&e);
    return false;
  }
  zip_error_fini(&e);
  zip_int64_t n = zip_get_num_entries(z, 0);
  bool ok = true;
  if (n < 0 || (uint64_t)n > size / 46) /* a directory entry has 46 bytes at least */
    ok = fail("'%s': the archive's directory is damaged", path);
  if (ok) out->tensors = ARENA_ARRAY(a, TensorData, n);
  for (zip_int64_t i = 0; i < n && ok; i++) {
    TensorData *t = &out->tensors[out->n];
    ok = read_entry(a, path, z, (zip_uint64_t)i, t, error);
    if (ok && strmap_has(&out->index, t->name))
      ok = fail("'%s': tensor '%.200s': it stands there twice", path, t->name);
    if (!ok) break;
    strmap_set(&out->index, t->name, t);
    out->n++;
  }
  zip_discard(z);
  return ok;
}
