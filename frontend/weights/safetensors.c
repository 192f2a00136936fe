/* Reader of .safetensors files.
 *
 * Eight bytes of length (little endian), that many bytes of JSON, then the data. The JSON maps each
 * tensor's name to dtype, shape and data_offsets [begin, end) within the data; "__metadata__" maps
 * strings to strings. As the format demands, the tensors cover the data without holes and overlaps.
 * Source: the format's description in the safetensors project's README.
 */
#include "frontend/weights/weights.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* Far more than 100,000 tensors need; bounds the parsed JSON's memory, too. */
#define MAX_HEADER ((uint64_t)16 << 20)

typedef struct {
  Arena *arena;
  const char *path;
  const char **error;
} Reader;

#define fail(r, ...) ((void)(*(r)->error = arena_printf((r)->arena, __VA_ARGS__)), false)
#define fail_tensor(r, name, why) fail(r, "'%s': tensor '%.200s': %s", (r)->path, (name), (why))

static const struct {
  const char *name;
  uint8_t code, bits;
} dtypes[] = {
    {"BOOL", DTYPE_BOOL, 8},    {"U8", DTYPE_UINT, 8},        {"I8", DTYPE_INT, 8},
    {"F8_E5M2", DTYPE_E5M2, 8}, {"F8_E4M3", DTYPE_E4M3FN, 8}, {"I16", DTYPE_INT, 16},
    {"U16", DTYPE_UINT, 16},    {"F16", DTYPE_FLOAT, 16},     {"BF16", DTYPE_BFLOAT, 16},
    {"I32", DTYPE_INT, 32},     {"U32", DTYPE_UINT, 32},      {"F32", DTYPE_FLOAT, 32},
    {"F64", DTYPE_FLOAT, 64},   {"I64", DTYPE_INT, 64},       {"U64", DTYPE_UINT, 64},
};

/* A JSON number that is an integer in [0, 2^53]. */
static bool get_integer(const cJSON *j, uint64_t *out) {
  if (!cJSON_IsNumber(j) || !(j->valuedouble >= 0) || j->valuedouble > 9007199254740992.0)
    return false;
  *out = (uint64_t)j->valuedouble;
  return (double)*out == j->valuedouble;
}

static bool read_shape(Reader *r, const cJSON *shape, TensorData *t) {
  int64_t dims[TENSOR_MAX_DIMS];
  const cJSON *d;
  t->ndim = 0;
  cJSON_ArrayForEach(d, shape) {
    uint64_t v;
    if (t->ndim == TENSOR_MAX_DIMS) return fail_tensor(r, t->name, "more than 32 dims");
    if (!get_integer(d, &v)) return fail_tensor(r, t->name, "a dim is not a valid integer");
    dims[t->ndim++] = (int64_t)v;
  }
  t->dims = arena_dup(r->arena, dims, (size_t)t->ndim * sizeof dims[0]);
  return true;
}

static bool read_dtype(Reader *r, const cJSON *dtype, TensorData *t) {
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
    if (strcmp(dtypes[i].name, dtype->valuestring) == 0) {
      t->dtype = DT(dtypes[i].code, dtypes[i].bits);
      return true;
    }
  return fail(r, "'%s': tensor '%.200s': dtype '%.40s' is not supported", r->path, t->name,
              dtype->valuestring);
}

/* One entry of the header; *begin gets its place in the data. */
static bool read_tensor(Reader *r, const cJSON *entry, const unsigned char *data, uint64_t size,
                        TensorData *t, uint64_t *begin) {
  const cJSON *dtype = NULL, *shape = NULL, *offsets = NULL, *field;
  t->name = arena_strndup(r->arena, entry->string, strlen(entry->string));
  if (!cJSON_IsObject(entry)) return fail_tensor(r, t->name, "its entry is not an object");
  cJSON_ArrayForEach(field, entry) {
    const cJSON **slot = !strcmp(field->string, "dtype")          ? &dtype
                         : !strcmp(field->string, "shape")        ? &shape
                         : !strcmp(field->string, "data_offsets") ? &offsets
                                                                  : NULL;
    if (!slot || *slot) return fail_tensor(r, t->name, "unexpected key in its entry");
    *slot = field;
  }
  if (!cJSON_IsString(dtype) || !cJSON_IsArray(shape) || !cJSON_IsArray(offsets))
    return fail_tensor(r, t->name, "its entry lacks dtype, shape or data_offsets");
  if (!read_dtype(r, dtype, t) || !read_shape(r, shape, t)) return false;

  const cJSON *first = offsets->child, *second = first ? first->next : NULL;
  uint64_t end, elements;
  if (!second || second->next || !get_integer(first, begin) || !get_integer(second, &end))
    return fail_tensor(r, t->name, "data_offsets is not a pair of integers");
  if (*begin > end) return fail_tensor(r, t->name, "data_offsets runs backwards");
  if (end > size)
    return fail(r, "'%s': tensor '%.200s': truncated: its data ends at %llu of %llu bytes", r->path,
                t->name, (unsigned long long)end, (unsigned long long)size);
  if (!tensor_size(t->dtype, t->dims, t->ndim, &elements, &t->bytes))
    return fail_tensor(r, t->name, "its size is out of range");
  if (t->bytes != end - *begin)
    return fail(r, "'%s': tensor '%.200s': its shape needs %llu bytes but data_offsets gives %llu",
                r->path, t->name, (unsigned long long)t->bytes, (unsigned long long)(end - *begin));
  t->data = data + *begin;
  return true;
}

typedef struct {
  uint64_t begin, end;
  const char *name;
} Piece;

static int compare_pieces(const void *a, const void *b) {
  const Piece *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return strcmp(x->name, y->name);
}

static bool check_cover(Reader *r, Piece *pieces, uint32_t n, uint64_t size) {
  uint64_t at = 0;
  if (n) qsort(pieces, n, sizeof pieces[0], compare_pieces);
  for (uint32_t i = 0; i < n; i++) {
    if (pieces[i].begin < at)
      return fail_tensor(r, pieces[i].name, "its data overlaps another tensor's");
    if (pieces[i].begin > at)
      return fail_tensor(r, pieces[i].name, "there is a hole before its data");
    at = pieces[i].end;
  }
  if (at != size)
    return fail(r, "'%s': %llu bytes after the last tensor", r->path,
                (unsigned long long)(size - at));
  return true;
}

static bool read_header(Reader *r, const cJSON *root, const unsigned char *data, uint64_t size,
                        Weights *out) {
  const cJSON *entry;
  uint32_t n = 0;
  if (!cJSON_IsObject(root)) return fail(r, "'%s': the header is not a JSON object", r->path);
  cJSON_ArrayForEach(entry, root) n++;
  out->tensors = ARENA_ARRAY(r->arena, TensorData, n);
  Piece *pieces = ARENA_ARRAY(r->arena, Piece, n);
  cJSON_ArrayForEach(entry, root) {
    if (strcmp(entry->string, "__metadata__") == 0) continue;
    TensorData *t = &out->tensors[out->n];
    uint64_t begin;
    if (!read_tensor(r, entry, data, size, t, &begin)) return false;
    if (strmap_has(&out->index, t->name)) return fail_tensor(r, t->name, "it stands there twice");
    strmap_set(&out->index, t->name, t);
    pieces[out->n++] = (Piece){begin, begin + t->bytes, t->name};
  }
  return check_cover(r, pieces, out->n, size);
}

/* Is there a \u0000 that cJSON would turn into the end of a string? (One too many is no harm.) */
static bool has_nul_escape(const char *text, uint64_t n) {
  for (uint64_t i = 0; i + 6 <= n; i++)
    if (text[i] == '\\' && memcmp(text + i, "\\u0000", 6) == 0) return true;
  return false;
}

bool safetensors_parse(Arena *a, const char *path, const void *bytes, uint64_t size, Weights *out,
                       const char **error) {
  Reader r = {a, path, error};
  const unsigned char *p = bytes;
  *out = (Weights){.path = path};
  strmap_init(&out->index, a);
  if (size < 8) return fail(&r, "'%s': not a .safetensors file (only %d bytes)", path, (int)size);
  uint64_t n = 0;
  for (int i = 7; i >= 0; i--) n = n << 8 | p[i];
  if (n > MAX_HEADER)
    return fail(&r, "'%s': not a .safetensors file (a header of %llu bytes)", path,
                (unsigned long long)n);
  if (n > size - 8)
    return fail(&r, "'%s': truncated: the header has %llu bytes, the file %llu", path,
                (unsigned long long)n, (unsigned long long)size);
  if (n == 0 || p[8] != '{') return fail(&r, "'%s': not a .safetensors file", path);
  const char *text = (const char *)p + 8, *end = NULL;
  /* A NUL would end a name early and let two names look alike. */
  if (memchr(text, 0, n) || has_nul_escape(text, n))
    return fail(&r, "'%s': NUL in the header", path);
  cJSON *root = cJSON_ParseWithLengthOpts(text, n, &end, 0);
  if (!root)
    return fail(&r, "'%s': the header is not valid JSON (near byte %lld)", path,
                end ? (long long)(end - text) : 0);
  bool ok = true;
  for (; end < text + n && ok; end++)
    if (*end != ' ' && *end != '\n' && *end != '\t' && *end != '\r')
      ok = fail(&r, "'%s': text after the header's JSON", path);
  ok = ok && read_header(&r, root, p + 8 + n, size - 8 - n, out);
  cJSON_Delete(root);
  for (uint32_t i = 0; ok && i < out->n; i++) tensor_normalise(a, &out->tensors[i]);
  return ok;
}
