/* Source files: line tables, positions, reading, spans. */
#include "tests/unit/unit.h"
#include "ir/base/source.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void at(const SourceFile *f, uint32_t offset, uint32_t line, uint32_t col) {
  uint32_t l, c;
  sources_position(f, offset, &l, &c);
  assert_int_equal(l, line);
  assert_int_equal(c, col);
}

static void positions(void **state) {
  (void)state;
  Arena *a = arena_create();
  SourceMap *m = sources_create(a);
  uint32_t id = sources_add(m, "x.rx", "ab\n\ncd\0e\n", 9);
  assert_int_equal(id, 1);
  const SourceFile *f = sources_file(m, id);
  assert_string_equal(f->name, "x.rx");
  assert_int_equal(f->size, 9);
  assert_int_equal(f->nlines, 4);
  at(f, 0, 1, 1);
  at(f, 2, 1, 3); /* the newline belongs to its line */
  at(f, 3, 2, 1);
  at(f, 4, 3, 1);
  at(f, 7, 3, 4); /* behind the NUL byte */
  at(f, 9, 4, 1); /* the end */
  at(f, 1000, 4, 1);
  assert_null(sources_file(m, 0));
  assert_null(sources_file(m, 2));
  const SourceFile *empty = sources_file(m, sources_add(m, "e", "", 0));
  assert_int_equal(empty->nlines, 1);
  at(empty, 0, 1, 1);
  arena_free(a);
}

static void reading(void **state) {
  (void)state;
  Arena *a = arena_create();
  SourceMap *m = sources_create(a);
  const char *error = NULL;
  assert_int_equal(sources_read(m, "/nonexistent/x.rx", &error), 0);
  assert_string_equal(error, "No such file or directory");
  assert_int_equal(sources_read(m, "/", &error), 0);
  assert_string_equal(error, "Is a directory");
  char path[] = "/tmp/relaxc-unit-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  char *big = malloc(100001);
  memset(big, 'x', 100001);
  big[50000] = '\n';
  assert_int_equal(write(fd, big, 100001), 100001);
  close(fd);
  uint32_t id = sources_read(m, path, &error);
  assert_int_equal(id, 1);
  const SourceFile *f = sources_file(m, id);
  assert_int_equal(f->size, 100001);
  assert_int_equal(f->nlines, 2);
  assert_memory_equal(f->text, big, 100001);
  assert_int_equal(f->text[100001], 0);
  free(big);
  unlink(path);
  assert_true(sources_read(m, "/dev/null", &error) == 2); /* empty, and no regular file */
  arena_free(a);
}

static void joining(void **state) {
  (void)state;
  Span s = span_join((Span){1, 5, 8}, (Span){1, 2, 6});
  assert_true(s.file == 1 && s.begin == 2 && s.end == 8);
  s = span_join((Span){1, 5, 8}, (Span){2, 2, 6});
  assert_true(s.file == 1 && s.begin == 5 && s.end == 8);
  s = span_join(SPAN_NONE, (Span){2, 2, 6});
  assert_true(s.file == 2 && s.begin == 2 && s.end == 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(positions),
      cmocka_unit_test(reading),
      cmocka_unit_test(joining),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
