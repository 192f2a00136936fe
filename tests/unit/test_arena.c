/* Arenas and vectors: zeroed memory, alignment, growth, sizes around the block size. */
#include "tests/unit/unit.h"
#include "ir/base/arena.h"
#include "ir/base/vec.h"
#include <string.h>

static void arena_memory_is_zero_and_aligned(void **state) {
  (void)state;
  Arena *a = arena_create();
  for (size_t size = 0; size < 5000; size += 37) {
    unsigned char *p = arena_alloc(a, size);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (size_t i = 0; i < size; i++) assert_int_equal(p[i], 0);
    memset(p, 0xff, size);
  }
  arena_free(a);
}

static void arena_objects_do_not_overlap(void **state) {
  (void)state;
  Arena *a = arena_create();
  enum { N = 2000 };
  unsigned char *p[N];
  size_t size[N];
  for (int i = 0; i < N; i++) {
    size[i] = i % 100 == 99 ? 100000 : (size_t)(i % 57);
    p[i] = arena_alloc(a, size[i]);
    memset(p[i], i & 0xff, size[i]);
  }
  for (int i = 0; i < N; i++)
    for (size_t j = 0; j < size[i]; j++) assert_int_equal(p[i][j], i & 0xff);
  assert_ptr_not_equal(p[0], p[57]); /* two of size 0 */
  arena_free(a);
}

static void arena_large_objects(void **state) {
  (void)state;
  Arena *a = arena_create();
  char *small = arena_alloc(a, 10), *large = arena_alloc(a, 30 << 20), *next = arena_alloc(a, 10);
  large[0] = large[(30 << 20) - 1] = 1;
  small[9] = next[9] = 1;
  assert_true(arena_used(a) >= (30 << 20) + 20);
  arena_free(a);
  arena_free(NULL);
}

static void arena_text(void **state) {
  (void)state;
  Arena *a = arena_create();
  assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
  assert_string_equal(arena_strndup(a, "", 0), "");
  assert_string_equal(arena_printf(a, "%d-%s", 42, "x"), "42-x");
  char *s = arena_printf(a, "%0700d", 7); /* longer than the buffer on the stack */
  assert_int_equal(strlen(s), 700);
  assert_int_equal(s[699], '7');
  int v[3] = {1, 2, 3};
  assert_memory_equal(arena_dup(a, v, sizeof v), v, sizeof v);
  arena_free(a);
}

static void vec_grows(void **state) {
  (void)state;
  Arena *a = arena_create();
  VEC(int) v = {0};
  for (int i = 0; i < 10000; i++) vec_push(a, &v, i * 3);
  assert_int_equal(v.n, 10000);
  for (int i = 0; i < 10000; i++) assert_int_equal(v.at[i], i * 3);
  assert_int_equal(vec_last(&v), 9999 * 3);
  assert_int_equal(vec_pop(&v), 9999 * 3);
  assert_int_equal(v.n, 9999);
  int sum = 0, n = 0;
  vec_each(int, p, &v) {
    sum += *p;
    n++;
  }
  assert_int_equal(n, 9999);
  assert_int_equal(sum, 3 * (9998 * 9999 / 2));
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_memory_is_zero_and_aligned),
      cmocka_unit_test(arena_objects_do_not_overlap),
      cmocka_unit_test(arena_large_objects),
      cmocka_unit_test(arena_text),
      cmocka_unit_test(vec_grows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
