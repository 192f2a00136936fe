/* Reader and writer of NumPy's array files.
 *
 * A .npy file is a magic number, a version, the length of a header and the header: a Python dict
 * literal with the keys descr, fortran_order and shape. The parser takes just that grammar and
 * checks every number against the bytes there are; nothing is allocated by a number from the file
 * before it was compared with the file's size. Format: numpy.lib.format's documentation.
 */
#define _GNU_SOURCE
#include "frontend/npy.h"

#include "frontend/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

bool tensor_size(DType d, const int64_t *dims, int32_t ndim, uint64_t *elements, uint64_t *bytes) {
  const uint64_t limit = (uint64_t)1 << 62;
  uint64_t n = dtype_bytes(d);
  bool empty = false;
  for (int32_t i = 0; i < ndim; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0) empty = true;
  }
  for (int32_t i = 0; i < ndim && !empty; i++) {
    if ((uint64_t)dims[i] > limit / n) return false;
    n *= (uint64_t)dims[i];
  }
  *bytes = empty ? 0 : n;
  *elements = *bytes / dtype_bytes(d);
  return true;
}

void tensor_normalise(Arena *a, TensorData *t) {
  size_t align = dtype_bytes(t->dtype);
  if (align > 8) align = 8;
  if (t->bytes == 0) {
    t->data = arena_alloc(a, 0);
  } else if ((uintptr_t)t->data % align != 0) {
    t->data = arena_dup(a, t->data, t->bytes);
  }
  if (!dtype_is_bool(t->dtype)) return;
  const unsigned char *p = t->data;
  bool odd = false;
  for (uint64_t i = 0; i < t->bytes; i++) odd |= p[i] > 1;
  if (!odd) return;
  unsigned char *q = arena_alloc(a, t->bytes);
  for (uint64_t i = 0; i < t->bytes; i++) q[i] = p[i] != 0;
  t->data = q;
}

void tensor_print_type(Text *t, const TensorData *x) {
  text_printf(t, "%s (", dtype_name(x->dtype));
  for (int32_t i = 0; i < x->ndim; i++)
    text_printf(t, "%s%lld", i ? ", " : "", (long long)x->dims[i]);
  text_puts(t, x->ndim == 1 ? ",)" : ")");
}

/* ---- the header's dict ---- */

typedef struct {
  Arena *arena;
  const char *at, *end;
  const char *error;
} Header;

static bool header_fail(Header *h, const char *why) {
  if (!h->error) h->error = why;
  return false;
}

static void skip_space(Header *h) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\t' || *h->at == '\n' || *h->at == '\r'))
    h->at++;
}

static bool accept(Header *h, char c) {
  skip_space(h);
  if (h->at == h->end || *h->at != c) return false;
  h->at++;
  return true;
}

static bool accept_word(Header *h, const char *word) {
  size_t n = strlen(word);
  skip_space(h);
  if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0) return false;
  h->at += n;
  return true;
}

/* A quoted string without escapes (NumPy writes none here). */
static bool parse_string(Header *h, const char **out) {
  skip_space(h);
  char quote = accept(h, '\'') ? '\'' : accept(h, '"') ? '"' : 0;
  if (!quote) return header_fail(h, "expected a string in the header");
  const char *close = memchr(h->at, quote, (size_t)(h->end - h->at));
  if (!close) return header_fail(h, "unclosed string in the header");
  *out = arena_strndup(h->arena, h->at, (size_t)(close - h->at));
  h->at = close + 1;
  return true;
}

static bool parse_dim(Header *h, int64_t *out) {
  skip_space(h);
  int64_t v = 0;
  const char *start = h->at;
  for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *h->at - '0', &v))
      return header_fail(h, "a dim is out of range");
  if (h->at == start) return header_fail(h, "expected a tuple of dims in the header");
  if (h->at < h->end && *h->at == 'L') h->at++; /* Python 2 wrote them so */
  *out = v;
  return true;
}

static bool parse_shape(Header *h, TensorData *out) {
  int64_t dims[TENSOR_MAX_DIMS];
  int32_t n = 0;
  if (!accept(h, '(')) return header_fail(h, "expected a tuple of dims in the header");
  while (!accept(h, ')')) {
    if (n == TENSOR_MAX_DIMS) return header_fail(h, "more than 32 dims");
    if (!parse_dim(h, &dims[n++])) return false;
    if (accept(h, ',')) continue;
    if (!accept(h, ')')) return header_fail(h, "expected a tuple of dims in the header");
    break;
  }
  out->ndim = n;
  out->dims = arena_dup(h->arena, dims, (size_t)n * sizeof dims[0]);
  return true;
}

static bool parse_descr(Header *h, DType *out) {
  const char *s;
  if (!parse_string(h, &s)) return false;
  static const struct {
    const char *name;
    uint8_t code, bits;
  } kinds[] = {
      {"b1", DTYPE_BOOL, 8},    {"i1", DTYPE_INT, 8},    {"i2", DTYPE_INT, 16},
      {"i4", DTYPE_INT, 32},    {"i8", DTYPE_INT, 64},   {"u1", DTYPE_UINT, 8},
      {"u2", DTYPE_UINT, 16},   {"u4", DTYPE_UINT, 32},  {"u8", DTYPE_UINT, 64},
      {"f2", DTYPE_FLOAT, 16},  {"f4", DTYPE_FLOAT, 32}, {"f8", DTYPE_FLOAT, 64},
      {"V2", DTYPE_BFLOAT, 16},
  };
  const char *kind = s + (*s == '<' || *s == '|' || *s == '=' || *s == '>');
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(kind, kinds[i].name) != 0) continue;
    if (*s == '>' && kinds[i].bits > 8) {
      h->error = arena_printf(h->arena, "big-endian dtype '%.40s' is not supported", s);
      return false;
    }
    *out = DT(kinds[i].code, kinds[i].bits);
    return true;
  }
  h->error = arena_printf(h->arena, "dtype '%.40s' is not supported", s);
  return false;
}

static bool parse_dict(Header *h, TensorData *out, bool *fortran) {
  bool descr = false, order = false, shape = false;
  if (!accept(h, '{')) return header_fail(h, "the header is not a dict");
  while (!accept(h, '}')) {
    const char *key;
    if (!parse_string(h, &key)) return false;
    if (!accept(h, ':')) return header_fail(h, "expected ':' in the header");
    bool *seen = !strcmp(key, "descr")           ? &descr
                 : !strcmp(key, "fortran_order") ? &order
                 : !strcmp(key, "shape")         ? &shape
                                                 : NULL;
    if (!seen || *seen) return header_fail(h, "unexpected key in the header");
    *seen = true;
    if (seen == &descr) {
      if (!parse_descr(h, &out->dtype)) return false;
    } else if (seen == &shape) {
      if (!parse_shape(h, out)) return false;
    } else if (accept_word(h, "True")) {
      *fortran = true;
    } else if (accept_word(h, "False")) {
      *fortran = false;
    } else {
      return header_fail(h, "expected True or False in the header");
    }
    if (accept(h, ',')) continue;
    if (!accept(h, '}')) return header_fail(h, "expected ',' or '}' in the header");
    break;
  }
  skip_space(h);
  if (h->at != h->end) return header_fail(h, "text after the header's dict");
  if (!descr || !order || !shape)
    return header_fail(h, "the header lacks descr, fortran_order or shape");
  return true;
}

bool npy_parse_header(Arena *a, const void *bytes, uint64_t size, TensorData *out, bool *fortran,
                      uint64_t *header, const char **error) {
  const unsigned char *p = bytes;
  *out = (TensorData){.name = ""};
  *error = "not a .npy file";
  if (size < 10) {
    if (size >= 6 && memcmp(p, "\x93NUMPY", 6) == 0) *error = "truncated: no header";
    return false;
  }
  if (memcmp(p, "\x93NUMPY", 6) != 0) return false;
  if (p[6] < 1 || p[6] > 3 || p[7] != 0) {
    *error = arena_printf(a, "version %d.%d of the .npy format is not supported", p[6], p[7]);
    return false;
  }
  uint64_t start = p[6] == 1 ? 10 : 12, n = (uint64_t)p[8] | (uint64_t)p[9] << 8;
  if (p[6] > 1 && size >= 12) n |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
  if (size < start || n > size - start) {
    *error = "truncated: the header ends beyond the file";
    return false;
  }
  Header h = {a, (const char *)p + start, (const char *)p + start + n, NULL};
  uint64_t elements;
  if (parse_dict(&h, out, fortran) &&
      !tensor_size(out->dtype, out->dims, out->ndim, &elements, &out->bytes))
    h.error = "the size is out of range";
  *header = start + n;
  *error = h.error;
  return !h.error;
}

/* Column-major `src` to row-major. */
static void *from_fortran(Arena *a, const TensorData *t, const unsigned char *src) {
  size_t e = dtype_bytes(t->dtype);
  unsigned char *dst = arena_alloc(a, t->bytes);
  uint64_t stride[TENSOR_MAX_DIMS], n = t->bytes / e, s = e, at = 0;
  int64_t index[TENSOR_MAX_DIMS] = {0};
  for (int32_t i = 0; i < t->ndim; i++) {
    stride[i] = s;
    s *= (uint64_t)t->dims[i];
  }
  for (uint64_t k = 0; k < n; k++) {
    memcpy(dst + k * e, src + at, e);
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
      at += stride[i];
      if (++index[i] < t->dims[i]) break;
      at -= stride[i] * (uint64_t)t->dims[i];
      index[i] = 0;
    }
  }
  return dst;
}

bool npy_parse(Arena *a, const void *bytes, uint64_t size, TensorData *out, const char **error) {
  bool fortran = false;
  uint64_t header = 0;
  if (!npy_parse_header(a, bytes, size, out, &fortran, &header, error)) return false;
  if (out->bytes != size - header) {
    *error = arena_printf(a, "%s: expected %llu bytes of data but got %llu",
                          out->bytes > size - header ? "truncated" : "too long",
                          (unsigned long long)out->bytes, (unsigned long long)(size - header));
    return false;
  }
  const unsigned char *data = (const unsigned char *)bytes + header;
  out->data = fortran && out->ndim > 1 && out->bytes ? from_fortran(a, out, data) : data;
  tensor_normalise(a, out);
  return true;
}

bool npy_read(Arena *a, const char *path, TensorData *out, const char **error) {
  const void *bytes;
  uint64_t size;
  if (!file_load(a, path, &bytes, &size, NULL, error)) return false;
  if (npy_parse(a, bytes, size, out, error)) return true;
  *error = arena_printf(a, "'%s': %s", path, *error);
  return false;
}

/* ---- writing ---- */

void npy_format_header(Text *t, const TensorData *x) {
  char descr[8];
  static const struct {
    uint8_t code;
    char letter;
  } kinds[] = {{DTYPE_BOOL, 'b'}, {DTYPE_INT, 'i'}, {DTYPE_UINT, 'u'}, {DTYPE_FLOAT, 'f'}};
  size_t e = dtype_bytes(x->dtype);
  char letter = x->dtype.code == DTYPE_BFLOAT ? 'V' : 'u';
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (kinds[i].code == x->dtype.code) letter = kinds[i].letter;
  descr[0] = e == 1 || letter == 'V' ? '|' : '<';
  descr[1] = letter;
  descr[2] = (char)('0' + e);
  descr[3] = 0;
  Text dict = {0};
  text_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (int32_t i = 0; i < x->ndim; i++)
    text_printf(&dict, "%s%lld", i ? ", " : "", (long long)x->dims[i]);
  text_puts(&dict, x->ndim == 1 ? ",), }" : "), }");
  /* Data starts at a multiple of 64; the header ends with a newline. At most 32 dims of 20 digits
   * stay far below version 1's 64 KiB. */
  while ((10 + dict.n + 1) % 64 != 0) text_putc(&dict, ' ');
  text_putc(&dict, '\n');
  text_putn(t, "\x93NUMPY\x01\x00", 8);
  text_putc(t, (char)(dict.n & 255));
  text_putc(t, (char)(dict.n >> 8));
  text_putn(t, dict.s, dict.n);
  text_free(&dict);
}

bool npy_write(Arena *a, const char *path, const TensorData *x, const char **error) {
  Text header = {0};
  npy_format_header(&header, x);
  Output *o = output_open(a, path, error);
  bool ok = o && output_write(o, header.s, header.n, error) &&
            output_write(o, x->data, x->bytes, error) && output_commit(o, error);
  if (o && !ok) output_abandon(o);
  text_free(&header);
  return ok;
}

/* Adds array number i to the archive. */
static bool npz_add(Arena *a, zip_t *z, const TensorData *x) {
  Text header = {0};
  npy_format_header(&header, x);
  char *all = arena_alloc(a, header.n + x->bytes);
  memcpy(all, header.s, header.n);
  if (x->bytes) memcpy(all + header.n, x->data, x->bytes);
  zip_source_t *s = zip_source_buffer(z, all, header.n + x->bytes, 0);
  text_free(&header);
  if (!s) return false;
  zip_int64_t at = zip_file_add(z, arena_printf(a, "%s.npy", x->name), s, ZIP_FL_ENC_UTF_8);
  if (at < 0) {
    zip_source_free(s);
    return false;
  }
  /* Stored, with a fixed time (1980): the same arrays give the same bytes. */
  return zip_set_file_compression(z, (zip_uint64_t)at, ZIP_CM_STORE, 0) == 0 &&
         zip_file_set_dostime(z, (zip_uint64_t)at, 0, 0x21, 0) == 0;
}

/* The archive in memory, as libzip would otherwise write a temporary file of its own. */
static bool npz_format(Arena *a, const TensorData *x, uint32_t n, Text *out, const char **error) {
  zip_error_t e;
  if (n == 0) { /* libzip writes nothing for no files; this is an archive's end record */
    text_putn(out, "PK\5\6", 4);
    for (int i = 0; i < 18; i++) text_putc(out, 0);
    return true;
  }
  zip_error_init(&e);
  zip_source_t *memory = zip_source_buffer_create(NULL, 0, 0, &e);
  zip_t *z = memory ? zip_open_from_source(memory, ZIP_CREATE | ZIP_TRUNCATE, &e) : NULL;
  if (!z) {
    *error = arena_printf(a, "%s", zip_error_strerror(&e));
    zip_error_fini(&e);
    if (memory) zip_source_free(memory);
    return false;
  }
  zip_error_fini(&e);
  bool ok = true;
  for (uint32_t i = 0; i < n && ok; i++) ok = npz_add(a, z, &x[i]);
  zip_source_keep(memory);
  if (!ok || zip_close(z) != 0) {
    *error = arena_printf(a, "%s", zip_strerror(z));
    zip_discard(z);
    zip_source_free(memory);
    return false;
  }
  char block[1 << 16];
  zip_int64_t got = 0;
  ok = zip_source_open(memory) == 0;
  while (ok && (got = zip_source_read(memory, block, sizeof block)) > 0)
    text_putn(out, block, (size_t)got);
  if (!ok || got < 0) *error = arena_printf(a, "%s", zip_error_strerror(zip_source_error(memory)));
  if (ok) (void)zip_source_close(memory);
  zip_source_free(memory);
  return ok && got == 0;
}

bool npz_write(Arena *a, const char *path, const TensorData *x, uint32_t n, const char **error) {
  Text bytes = {0};
  bool ok = npz_format(a, x, n, &bytes, error);
  if (!ok) *error = arena_printf(a, "'%s': %s", path, *error);
  Output *o = ok ? output_open(a, path, error) : NULL;
  ok = o && output_write(o, bytes.s, bytes.n, error) && output_commit(o, error);
  if (o && !ok) output_abandon(o);
  text_free(&bytes);
  return ok;
}

/* ---- files ---- */

static bool read_all(Arena *a, int fd, const void **bytes, uint64_t *size) {
  Text t = {0};
  char block[1 << 16];
  ssize_t n;
  while ((n = read(fd, block, sizeof block)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      text_free(&t);
      return false;
    }
    text_putn(&t, block, (size_t)n);
  }
  *size = t.n;
  *bytes = arena_dup(a, text_cstr(&t), t.n);
  text_free(&t);
  return true;
}

bool file_load(Arena *a, const char *path, const void **bytes, uint64_t *size, bool *mapped,
               const char **error) {
  if (mapped) *mapped = false;
  bool standard = strcmp(path, "-") == 0, ok = false;
  int fd = standard ? 0 : open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  *bytes = NULL;
  if (fd >= 0 && fstat(fd, &st) == 0) {
    if (S_ISREG(st.st_mode) && st.st_size > 0 && !standard) {
      void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
      ok = p != MAP_FAILED;
      if (mapped) *mapped = ok;
      *bytes = p;
      *size = (uint64_t)st.st_size;
    } else {
      ok = read_all(a, fd, bytes, size);
    }
  }
  if (!ok) *error = arena_printf(a, "'%s': %s", path, strerror(errno));
  if (fd > 0 && close(fd) != 0 && ok) {
    *error = arena_printf(a, "'%s': %s", path, strerror(errno));
    ok = false;
  }
  return ok;
}
