/* Maps and interned strings: insertion order, replacement, many keys, keys that collide. */
#include "tests/unit/unit.h"
#include "ir/base/intern.h"
#include "ir/base/map.h"
#include <stdio.h>
#include <string.h>

static void *value(uint64_t i) {
  return (void *)(uintptr_t)(i + 1);
}

static void map_empty(void **state) {
  (void)state;
  Arena *a = arena_create();
  Map m;
  map_init(&m, a);
  assert_null(map_get(&m, 0));
  assert_false(map_has(&m, 7));
  StrMap s;
  strmap_init(&s, a);
  assert_null(strmap_get(&s, ""));
  assert_false(strmap_has(&s, "x"));
  arena_free(a);
}

static void map_many_keys_in_order(void **state) {
  (void)state;
  Arena *a = arena_create();
  Map m;
  map_init(&m, a);
  /* Multiples of 2^32 agree in all the low bits. */
  for (uint64_t i = 0; i < 5000; i++) map_set(&m, i << 32, value(i));
  for (uint64_t i = 0; i < 5000; i++) map_set(&m, i, value(i + 10000));
  assert_int_equal(m.n, 9999); /* 0 stands twice */
  assert_ptr_equal(map_get(&m, 0), value(10000));
  for (uint64_t i = 1; i < 5000; i++) {
    assert_ptr_equal(map_get(&m, i << 32), value(i));
    assert_ptr_equal(map_get(&m, i), value(i + 10000));
    assert_int_equal(m.entries[i].key, i << 32);
  }
  assert_false(map_has(&m, 5000));
  arena_free(a);
}

static void map_null_value_is_present(void **state) {
  (void)state;
  Arena *a = arena_create();
  Map m;
  map_init(&m, a);
  map_set(&m, 3, NULL);
  assert_true(map_has(&m, 3));
  assert_null(map_get(&m, 3));
  int x;
  map_setp(&m, &x, &x);
  assert_true(map_hasp(&m, &x));
  assert_ptr_equal(map_getp(&m, &x), &x);
  arena_free(a);
}

static void strmap_keeps_many_keys(void **state) {
  (void)state;
  Arena *a = arena_create();
  StrMap m;
  strmap_init(&m, a);
  for (int i = 0; i < 3000; i++) {
    const char *key = arena_printf(a, "k%d", i);
    strmap_set(&m, key, value((uint64_t)i));
  }
  strmap_set(&m, "k7", value(70));
  assert_int_equal(m.n, 3000);
  assert_string_equal(m.entries[2999].key, "k2999");
  assert_ptr_equal(strmap_get(&m, "k7"), value(70));
  assert_ptr_equal(strmap_get(&m, "k2998"), value(2998));
  assert_false(strmap_has(&m, "k3000"));
  arena_free(a);
}

static void interned_strings_are_one_pointer(void **state) {
  (void)state;
  Arena *a = arena_create();
  StrPool *p = strpool_create(a);
  const char *x = strpool_intern(p, "hello world", 5), *empty = strpool_intern(p, "", 0);
  char key[16];
  for (int i = 0; i < 3000; i++) {
    int n = snprintf(key, sizeof key, "k%d", i);
    strpool_intern(p, key, (size_t)n);
  }
  assert_string_equal(x, "hello");
  assert_ptr_equal(x, strpool_intern(p, "hello", 5));
  assert_ptr_equal(empty, strpool_intern(p, "x", 0));
  assert_ptr_not_equal(x, strpool_intern(p, "hello\0", 6)); /* NUL counts */
  arena_free(a);
}

static void hashes_are_fixed(void **state) {
  (void)state;
  assert_true(hash_bytes("abc", 3, 0) == hash_bytes("abcd", 3, 0));
  assert_true(hash_bytes("abc", 3, 0) != hash_bytes("abc", 3, 1));
  assert_true(hash_bytes("abc\0", 4, 0) != hash_bytes("abc", 3, 0));
  assert_true(hash_mix(1, 2) != hash_mix(2, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(map_empty),
      cmocka_unit_test(map_many_keys_in_order),
      cmocka_unit_test(map_null_value_is_present),
      cmocka_unit_test(strmap_keeps_many_keys),
      cmocka_unit_test(interned_strings_are_one_pointer),
      cmocka_unit_test(hashes_are_fixed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
