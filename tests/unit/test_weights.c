/* Readers and writers of .npy, .npz and .safetensors: good files, truncated ones, hostile ones.
 *
 * Expected bytes are written down by hand after numpy.lib.format's and the safetensors project's
 * descriptions; the last test mutates good files and demands only that nothing crashes (it is meant
 * for the sanitizer build).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/weights/weights.h"

static Arena *arena;

static int setup(void **state) {
  (void)state;
  arena = arena_create();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  arena_free(arena);
  return 0;
}

/* ---- .npy ---- */

/* Version 1 or 2 file of a header text and data. */
static uint64_t make_npy(char *out, int version, const char *header, const void *data, size_t n) {
  size_t h = strlen(header), at = version == 1 ? 10 : 12;
  memcpy(out, "\x93NUMPY", 6);
  out[6] = (char)version;
  out[7] = 0;
  out[8] = (char)(h & 255);
  out[9] = (char)(h >> 8);
  if (version > 1) out[10] = out[11] = 0;
  memcpy(out + at, header, h);
  if (n) memcpy(out + at + h, data, n);
  return at + h + n;
}

static void expect_npy_error(const char *header, size_t data, const char *words) {
  char file[1024], zeros[256] = {0};
  TensorData t;
  const char *error = NULL;
  uint64_t n = make_npy(file, 1, header, zeros, data);
  if (npy_parse(arena, file, n, &t, &error)) fail_msg("accepted: %s", header);
  if (!strstr(error, words)) fail_msg("%s: got '%s', expected '%s'", header, error, words);
}

static void test_npy_good(void **state) {
  (void)state;
  char file[1024];
  TensorData t;
  const char *error = NULL;
  const float x[6] = {0, 1, 2, 3, 4, 5};
  uint64_t n = make_npy(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", x,
                        sizeof x);
  assert_true(npy_parse(arena, file, n, &t, &error));
  assert_true(dtype_eq(t.dtype, DT_F32));
  assert_int_equal(t.ndim, 2);
  assert_int_equal(t.dims[0], 2);
  assert_int_equal(t.dims[1], 3);
  assert_memory_equal(t.data, x, sizeof x);

  /* The same bytes column by column: element [i][j] is at j * 2 + i. */
  n = make_npy(file, 2, "{'shape': (2, 3), 'fortran_order': True, 'descr': '<f4'}", x, sizeof x);
  assert_true(npy_parse(arena, file, n, &t, &error));
  const float want[6] = {0, 2, 4, 1, 3, 5};
  assert_memory_equal(t.data, want, sizeof want);

  n = make_npy(file, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\0\1\7", 3);
  assert_true(npy_parse(arena, file, n, &t, &error));
  assert_memory_equal(t.data, "\0\1\1", 3);

  n = make_npy(file, 1, "{\"descr\": \"<i8\", \"fortran_order\": False, \"shape\": ()}",
               "\7\0\0\0\0\0\0\0", 8);
  assert_true(npy_parse(arena, file, n, &t, &error));
  assert_int_equal(t.ndim, 0);
  assert_int_equal((uintptr_t)t.data % 8, 0);
  assert_int_equal(*(const int64_t *)t.data, 7);

  n = make_npy(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 999999999999), }", x,
               0);
  assert_true(npy_parse(arena, file, n, &t, &error));
  assert_int_equal(t.bytes, 0);
}

static void test_npy_bad(void **state) {
  (void)state;
#define HEAD(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape "}"
  expect_npy_error(HEAD("<f4", "(2, 3)"), 20, "truncated: expected 24 bytes of data but got 20");
  expect_npy_error(HEAD("<f4", "(2, 3)"), 28, "too long");
  expect_npy_error(HEAD(">f4", "(2,)"), 8, "big-endian");
  expect_npy_error(HEAD("|O", "(2,)"), 16, "dtype '|O' is not supported");
  expect_npy_error(HEAD("<c8", "(2,)"), 16, "not supported");
  expect_npy_error(HEAD("<f4", "(4611686018427387904, 4)"), 0, "out of range");
  expect_npy_error(HEAD("<f4", "(99999999999999999999,)"), 0, "out of range");
  expect_npy_error(HEAD("<f4", "(1000000, 1000000)"), 100, "truncated");
  expect_npy_error(HEAD("<f4", "(-1,)"), 4, "tuple of dims");
  expect_npy_error(
      HEAD("<f4", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), 4,
      "more than 32 dims");
  expect_npy_error(HEAD("<f4", "(2 2)"), 16, "tuple of dims");
  expect_npy_error("{'descr': '<f4', 'shape': (1,)}", 4, "lacks");
  expect_npy_error("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", 4, "unexpected key");
  expect_npy_error(HEAD("<f4", "(1,)") " x", 4, "text after");
  expect_npy_error("{'descr", 4, "unclosed string");
  expect_npy_error("", 0, "not a dict");
  expect_npy_error("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", 4, "True or False");

  char file[256];
  TensorData t;
  const char *error = NULL;
  uint64_t n = make_npy(file, 1, HEAD("<f4", "(1,)"), "abcd", 4);
  for (uint64_t k = 0; k < n; k++) assert_false(npy_parse(arena, file, k, &t, &error));
  file[6] = 9;
  assert_false(npy_parse(arena, file, n, &t, &error));
  assert_non_null(strstr(error, "version 9.0"));
}

static void test_npy_write(void **state) {
  (void)state;
  char path[] = "/tmp/relaxc-test-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  const int64_t dims[3] = {1, 2, 3};
  const int16_t x[6] = {1, -2, 3, -4, 5, -6};
  TensorData t = {"x", DT_I16, 3, dims, x, sizeof x}, back;
  const char *error = NULL;
  assert_true(npy_write(arena, path, &t, &error));
  assert_true(npy_read(arena, path, &back, &error));
  assert_true(dtype_eq(back.dtype, DT_I16));
  assert_int_equal(back.ndim, 3);
  assert_memory_equal(back.dims, dims, sizeof dims);
  assert_memory_equal(back.data, x, sizeof x);
  const void *bytes;
  uint64_t size;
  assert_true(file_load(arena, path, &bytes, &size, NULL, &error));
  /* numpy.save writes these bytes: data at 128, the header padded with blanks. */
  assert_int_equal(size, 128 + sizeof x);
  assert_memory_equal(
      bytes, "\x93NUMPY\x01\0v\0{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2, 3), }",
      10 + 62);

  TensorData two[2] = {t, {"y", DT_BF16, 1, dims + 1, x, 4}};
  assert_true(npz_write(arena, path, two, 2, &error));
  Weights w;
  assert_true(weights_read(arena, path, &w, &error));
  assert_int_equal(w.n, 2);
  assert_string_equal(w.tensors[0].name, "x");
  assert_memory_equal(((const TensorData *)strmap_get(&w.index, "x"))->data, x, sizeof x);
  assert_true(dtype_eq(((const TensorData *)strmap_get(&w.index, "y"))->dtype, DT_BF16));
  assert_null(strmap_get(&w.index, "z"));
  assert_true(npz_write(arena, path, two, 0, &error));
  assert_true(weights_read(arena, path, &w, &error));
  assert_int_equal(w.n, 0);
  unlink(path);
  assert_false(npy_read(arena, path, &back, &error));
  assert_non_null(strstr(error, path));
  assert_false(npy_write(arena, "/nonexistent/x.npy", &t, &error));
  assert_non_null(strstr(error, "/nonexistent/x.npy"));
}

/* ---- .safetensors ---- */

static uint64_t make_safetensors(char *out, const char *json, const void *data, size_t n) {
  uint64_t h = strlen(json);
  for (int i = 0; i < 8; i++) out[i] = (char)(h >> 8 * i);
  memcpy(out + 8, json, h);
  if (n) memcpy(out + 8 + h, data, n);
  return 8 + h + n;
}

static void expect_error(const char *json, size_t data, const char *words) {
  char file[2048], zeros[256] = {0};
  Weights w;
  const char *error = NULL;
  uint64_t n = make_safetensors(file, json, zeros, data);
  if (safetensors_parse(arena, "f.st", file, n, &w, &error)) fail_msg("accepted: %s", json);
  if (!strstr(error, words)) fail_msg("%s: got \"%s\", expected \"%s\"", json, error, words);
  assert_non_null(strstr(error, "f.st"));
}

#define GOOD                                                                                       \
  "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" \
  "[6,14]},\"a\":{\"dtype\":\"I16\",\"shape\":[1,3],\"data_offsets\":[0,6]},"                      \
  "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[14,14]}}  "

static void test_safetensors_good(void **state) {
  (void)state;
  char file[1024], data[14];
  const float b[2] = {1.5f, -2.0f};
  const int16_t a[3] = {1, 2, -3};
  memcpy(data, a, 6);
  memcpy(data + 6, b, 8);
  uint64_t n = make_safetensors(file, GOOD, data, sizeof data);
  Weights w;
  const char *error = NULL;
  assert_true(safetensors_parse(arena, "f.st", file, n, &w, &error));
  assert_int_equal(w.n, 3);
  const TensorData *t = strmap_get(&w.index, "b");
  assert_true(dtype_eq(t->dtype, DT_F32));
  assert_int_equal((uintptr_t)t->data % 4, 0);
  assert_memory_equal(t->data, b, sizeof b);
  t = strmap_get(&w.index, "a");
  assert_int_equal(t->ndim, 2);
  assert_memory_equal(t->data, a, sizeof a);
  assert_int_equal(((const TensorData *)strmap_get(&w.index, "e"))->bytes, 0);
  assert_null(strmap_get(&w.index, "__metadata__"));
  for (uint64_t k = 0; k < n; k++) assert_false(safetensors_parse(arena, "f", file, k, &w, &error));
  n = make_safetensors(file, "{}", NULL, 0); /* no tensors is fine */
  assert_true(safetensors_parse(arena, "f.st", file, n, &w, &error));
}

static void test_safetensors_bad(void **state) {
  (void)state;
#define ONE(dtype, shape, offsets)                                                                 \
  "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
  expect_error(ONE("\"F32\"", "[2]", "[0,8]"), 7, "tensor 't': truncated");
  expect_error(ONE("\"F32\"", "[2]", "[0,8]"), 9, "1 bytes after the last tensor");
  expect_error(ONE("\"F32\"", "[3]", "[0,8]"), 8, "needs 12 bytes but data_offsets gives 8");
  expect_error(ONE("\"F32\"", "[2]", "[8,0]"), 8, "runs backwards");
  expect_error(ONE("\"F32\"", "[2]", "[-8,0]"), 8, "not a pair of integers");
  expect_error(ONE("\"F32\"", "[2]", "[0.5,8.5]"), 8, "not a pair of integers");
  expect_error(ONE("\"F32\"", "[2]", "[0,8,9]"), 8, "not a pair of integers");
  expect_error(ONE("\"F32\"", "[2]", "[0,1e300]"), 8, "not a pair of integers");
  expect_error(ONE("\"F32\"", "[4503599627370496,4503599627370496]", "[0,8]"), 8, "out of range");
  expect_error(ONE("\"F32\"", "[-2]", "[0,8]"), 8, "a dim is not a valid integer");
  expect_error(ONE("\"F32\"", "[\"2\"]", "[0,8]"), 8, "a dim is not a valid integer");
  expect_error(ONE("\"C64\"", "[1]", "[0,8]"), 8, "dtype 'C64' is not supported");
  expect_error(ONE("3", "[1]", "[0,8]"), 8, "lacks dtype");
  expect_error("{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "lacks dtype");
  expect_error("{\"t\":7}", 0, "tensor 't': its entry is not an object");
  expect_error("{\"t\":{\"x\":1}}", 0, "unexpected key");
  expect_error("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
               "\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
               2, "it stands there twice");
  expect_error("{\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
               "\"u\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
               3, "tensor 'u': its data overlaps");
  expect_error("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
               "\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
               3, "tensor 'u': there is a hole");
  expect_error("{\"t\":", 0, "not valid JSON");
  expect_error("[1]", 0, "not a .safetensors file");
  expect_error("{} x", 0, "text after");
  expect_error("{\"a\\u0000b\":{}}", 0, "NUL");

  Weights w;
  const char *error = NULL;
  assert_false(safetensors_parse(arena, "f", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &w, &error));
  assert_false(safetensors_parse(arena, "f", "\x00\x00\x10\x00\x00\x00\x00\x00{}", 10, &w, &error));
  assert_non_null(strstr(error, "truncated"));
  /* Nesting must not eat the stack. */
  char *deep = malloc(200008);
  assert_non_null(deep);
  memcpy(deep, "\x40\x0d\x03\0\0\0\0\0{", 9);
  memset(deep + 9, '[', 199999);
  assert_false(safetensors_parse(arena, "f", deep, 200008, &w, &error));
  free(deep);
}

/* ---- .npz ---- */

static void read_file(const char *path, char **bytes, uint64_t *size) {
  const void *p;
  const char *error;
  assert_true(file_load(arena, path, &p, size, NULL, &error));
  *bytes = malloc(*size);
  assert_non_null(*bytes);
  memcpy(*bytes, p, *size);
}

static void make_npz(char **bytes, uint64_t *size) {
  char path[] = "/tmp/relaxc-test-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  const int64_t dims[1] = {3};
  const float x[3] = {1, 2, 3};
  TensorData t[2] = {{"x", DT_F32, 1, dims, x, 12}, {"bias", DT_F32, 1, dims, x, 12}};
  const char *error = NULL;
  assert_true(npz_write(arena, path, t, 2, &error));
  read_file(path, bytes, size);
  unlink(path);
}

static void test_npz(void **state) {
  (void)state;
  char *bytes;
  uint64_t size;
  Weights w;
  const char *error = NULL;
  make_npz(&bytes, &size);
  assert_true(npz_parse(arena, "f.npz", bytes, size, &w, &error));
  assert_int_equal(w.n, 2);
  for (uint64_t k = 0; k < size; k += 7) {
    char *copy = malloc(k ? k : 1); /* exact size, for the sanitizer */
    assert_non_null(copy);
    memcpy(copy, bytes, k);
    assert_false(npz_parse(arena, "f.npz", copy, k, &w, &error));
    free(copy);
  }
  /* One byte of the data of "bias" changed: the CRC tells. */
  char *data = NULL;
  for (uint64_t i = 0; i + 12 < size; i++)
    if (memcmp(bytes + i, "\0\0\x80?\0\0\0@\0\0@@", 12) == 0) data = bytes + i;
  assert_non_null(data);
  data[5] ^= 1;
  assert_false(npz_parse(arena, "f.npz", bytes, size, &w, &error));
  assert_non_null(strstr(error, "f.npz"));
  assert_non_null(strstr(error, "tensor 'bias'"));
  free(bytes);
}

/* ---- mutations ---- */

static uint32_t rng = 12345;
static uint32_t next_random(void) {
  return rng = rng * 1664525u + 1013904223u;
}

typedef bool (*ParseFn)(Arena *a, const char *path, const void *bytes, uint64_t size, Weights *out,
                        const char **error);

static bool parse_npy_alone(Arena *a, const char *path, const void *bytes, uint64_t size,
                            Weights *out, const char **error) {
  (void)path;
  (void)out;
  TensorData t;
  return npy_parse(a, bytes, size, &t, error);
}

/* Parses `rounds` damaged copies; each must be refused with words or give tensors that can be read.
 */
static void mutate(ParseFn parse, const char *bytes, uint64_t size, int rounds) {
  for (int r = 0; r < rounds; r++) {
    Arena *a = arena_create();
    uint64_t n = next_random() % 8 ? size : next_random() % (size + 1);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    for (uint32_t k = next_random() % 4; n && k-- > 0;) {
      uint64_t at = (next_random() >> 8) % n;
      /* Digits often, as sizes and offsets are what matters. */
      copy[at] = next_random() % 2 ? (char)('0' + (next_random() >> 16) % 10)
                                   : (char)(next_random() >> 16);
    }
    Weights w = {0};
    const char *error = NULL;
    if (parse(a, "f", copy, n, &w, &error)) {
      volatile unsigned sum = 0;
      for (uint32_t i = 0; i < w.n; i++)
        for (uint64_t b = 0; b < w.tensors[i].bytes; b++)
          sum += ((const unsigned char *)w.tensors[i].data)[b];
    } else {
      assert_non_null(error);
    }
    free(copy);
    arena_free(a);
  }
}

static void test_mutations(void **state) {
  (void)state;
  char file[1024], zeros[64] = {0}, *npz;
  uint64_t n = make_safetensors(file, GOOD, zeros, 14);
  mutate(safetensors_parse, file, n, 20000);
  n = make_npy(file, 1, HEAD("<f4", "(2, 3)"), zeros, 24);
  mutate(parse_npy_alone, file, n, 20000);
  make_npz(&npz, &n);
  mutate(npz_parse, npz, n, 5000);
  free(npz);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_npy_good),        cmocka_unit_test(test_npy_bad),
      cmocka_unit_test(test_npy_write),       cmocka_unit_test(test_safetensors_good),
      cmocka_unit_test(test_safetensors_bad), cmocka_unit_test(test_npz),
      cmocka_unit_test(test_mutations),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
