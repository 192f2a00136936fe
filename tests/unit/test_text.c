/* The growing string: literals, floats, distances. */
#include "tests/unit/unit.h"
#include "ir/base/text.h"
#include <math.h>
#include <string.h>

#define CHECK(expected, ...)                                                                       \
  do {                                                                                             \
    Text t = {0};                                                                                  \
    __VA_ARGS__;                                                                                   \
    assert_string_equal(text_cstr(&t), expected);                                                  \
    text_free(&t);                                                                                 \
  } while (0)

static void text_appends(void **state) {
  (void)state;
  CHECK("", (void)0);
  CHECK("ab  cd1", text_putc(&t, 'a'); text_puts(&t, "b"); text_indent(&t, 2);
        text_putn(&t, "cdef", 2); text_printf(&t, "%d", 1); text_indent(&t, -3));
  CHECK("x", text_puts(&t, "hello"); text_clear(&t); text_puts(&t, "x"));
  Text t = {0};
  for (int i = 0; i < 10000; i++) text_printf(&t, "%03d", i % 1000);
  assert_int_equal(t.n, 30000);
  assert_memory_equal(t.s + 29997, "999", 4);
  text_free(&t);
  CHECK("0000", text_printf(&t, "%0*d", 4, 0));
}

static void text_quotes(void **state) {
  (void)state;
  CHECK("\"a\\\"\\\\\\t\\r\\n\\x00\\x7f\\xff'\"",
        text_put_quoted(&t, "a\"\\\t\r\n\0\x7f\xff'", 10));
  CHECK("\"\"", text_put_quoted(&t, "", 0));
}

static void text_doubles(void **state) {
  (void)state;
  CHECK("0.0", text_put_double(&t, 0));
  CHECK("-0.0", text_put_double(&t, -0.0));
  CHECK("1.0", text_put_double(&t, 1));
  CHECK("100000000000000000000.0", text_put_double(&t, 1e20));
  CHECK("0.10000000000000001", text_put_double(&t, 0.1));
  CHECK("1.0000000000000001e-05", text_put_double(&t, 1e-5));
  CHECK("\"inf\"", text_put_double(&t, INFINITY));
  CHECK("\"-inf\"", text_put_double(&t, -INFINITY));
  CHECK("\"nan\"", text_put_double(&t, NAN));
}

static void text_distances(void **state) {
  (void)state;
  assert_int_equal(text_distance("", "", 0), 0);
  assert_int_equal(text_distance("kitten", "sitting", 5), 3);
  assert_int_equal(text_distance("kitten", "sitting", 2), 3);
  assert_int_equal(text_distance("abc", "", 5), 3);
  assert_int_equal(text_distance("relu", "rleu", 3), 2);
  assert_int_equal(text_distance("same", "same", 0), 0);
  assert_int_equal(text_distance("abcdefgh", "x", 3), 4);
}

static void text_nearest_name(void **state) {
  (void)state;
  const char *const names[] = {"add", "matmul", "maximum", "minimum", "relu", "gelu"};
  assert_string_equal(text_nearest("matmull", names, 6), "matmul");
  assert_string_equal(text_nearest("maximun", names, 6), "maximum");
  assert_string_equal(text_nearest("selu", names, 6), "relu"); /* the first of equals */
  assert_null(text_nearest("convolution", names, 6));
  assert_null(text_nearest("", names, 6));
  assert_null(text_nearest("x", names, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_appends),      cmocka_unit_test(text_quotes),
      cmocka_unit_test(text_doubles),      cmocka_unit_test(text_distances),
      cmocka_unit_test(text_nearest_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
