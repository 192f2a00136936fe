/* Diagnostics: form, caret, tabs, long lines, hostile bytes, limits, -Werror, JSON and SARIF. */
#include "tests/unit/unit.h"
#include "ir/base/diag.h"
#include <string.h>

typedef struct {
  Arena *a;
  SourceMap *m;
  Diags *d;
  Text out;
} Fixture;

static int setup(void **state) {
  static Fixture f;
  f = (Fixture){.a = arena_create()};
  f.m = sources_create(f.a);
  f.d = diags_create(f.a, f.m);
  diags_set_text(f.d, &f.out);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  Fixture *f = *state;
  text_free(&f->out);
  arena_free(f->a);
  return 0;
}

static uint32_t add(Fixture *f, const char *text) {
  return sources_add(f->m, "a.rx", text, strlen(text));
}

static void caret(void **state) {
  Fixture *f = *state;
  uint32_t id = add(f, "x = 1\ny = foo(x)\n");
  diag_error(f->d, ((Span){id, 10, 13}), "unknown '%s'", "foo");
  diag_note(f->d, ((Span){id, 0, 1}), "here");
  diag_error(f->d, ((Span){id, 5, 5}), "at the end");
  diag_error(f->d, SPAN_NONE, "no place");
  diags_finish(f->d);
  assert_string_equal(text_cstr(&f->out), "a.rx:2:5: error: unknown 'foo'\n"
                                          "    2 | y = foo(x)\n"
                                          "      |     ^~~\n"
                                          "a.rx:1:1: note: here\n"
                                          "    1 | x = 1\n"
                                          "      | ^\n"
                                          "a.rx:1:6: error: at the end\n"
                                          "    1 | x = 1\n"
                                          "      |      ^\n"
                                          "relaxc: error: no place\n"
                                          "3 errors generated.\n");
  assert_int_equal(diags_errors(f->d), 3);
}

static void tabs_and_several_lines(void **state) {
  Fixture *f = *state;
  uint32_t id = add(f, "\tab\tcd\r\nnext");
  diag_error(f->d, ((Span){id, 4, 12}), "m");
  assert_string_equal(text_cstr(&f->out), "a.rx:1:5: error: m\n"
                                          "    1 |         ab      cd\n"
                                          "      |                 ^~\n");
}

static void hostile_bytes(void **state) {
  Fixture *f = *state;
  uint32_t id = add(f, "\xc3\xa9\x80\x1b[31m \xe6\xbc\xa2 \xe2\x80\xae x");
  diag_error(f->d, ((Span){id, 17, 18}), "bad \xff\n name \xc3\xa9");
  assert_string_equal(text_cstr(&f->out), "a.rx:1:18: error: bad \\xff\\x0a name \xc3\xa9\n"
                                          "    1 | \xc3\xa9\\x80\\x1b[31m \xe6\xbc\xa2 <U+202E> x\n"
                                          "      |                           ^\n");
}

static void long_line(void **state) {
  Fixture *f = *state;
  static char text[3001];
  memset(text, 'x', 3000);
  uint32_t id = add(f, text);
  diag_error(f->d, ((Span){id, 1500, 1600}), "m");
  const char *line = strstr(text_cstr(&f->out), "    1 | "), *end = strchr(line, '\n');
  assert_int_equal(end - line, 8 + 160);
  assert_memory_equal(line + 8, "...xxx", 6);
  assert_memory_equal(end - 6, "xxx...", 6);
  const char *mark = strchr(end, '^');
  assert_int_equal(mark - end - 1, 8 + 3 + 60);
}

static void repeated_and_limited(void **state) {
  Fixture *f = *state;
  uint32_t id = add(f, "abc\n");
  diags_set_options(f->d, (DiagOptions){.error_limit = 2});
  for (int i = 0; i < 3; i++) {
    diag_error(f->d, ((Span){id, 0, 1}), "same");
    diag_note(f->d, ((Span){id, 1, 2}), "why");
  }
  assert_int_equal(diags_errors(f->d), 1);
  assert_false(diags_full(f->d));
  diag_error(f->d, ((Span){id, 1, 2}), "same");
  assert_true(diags_full(f->d));
  diag_error(f->d, ((Span){id, 2, 3}), "too many");
  diag_note(f->d, ((Span){id, 2, 3}), "nor this");
  diags_finish(f->d);
  const char *s = text_cstr(&f->out);
  assert_null(strstr(s, "too many\n"));
  assert_null(strstr(s, "nor this"));
  assert_ptr_equal(strstr(s, "why"), strstr(strstr(s, "why"), "why"));
  assert_null(strstr(strstr(s, "why") + 1, "why"));
  assert_non_null(
      strstr(s, "too many errors emitted, stopping now [-ferror-limit=]\n2 errors generated.\n"));
}

static void warnings(void **state) {
  Fixture *f = *state;
  diags_enable(f->d, WARN_UNUSED_FUNCTION, false);
  diag_warn(f->d, WARN_UNUSED_FUNCTION, SPAN_NONE, "not shown");
  diag_note(f->d, SPAN_NONE, "nor this");
  diag_warn(f->d, WARN_UNUSED_BINDING, SPAN_NONE, "w");
  diags_set_options(f->d, (DiagOptions){.werror = true});
  diag_warn(f->d, WARN_UNUSED_BINDING, SPAN_NONE, "v");
  diags_finish(f->d);
  assert_string_equal(text_cstr(&f->out), "relaxc: warning: w [-Wunused-binding]\n"
                                          "relaxc: error: v [-Werror,-Wunused-binding]\n"
                                          "1 warning and 1 error generated.\n");
}

static void json(void **state) {
  Fixture *f = *state;
  uint32_t id = add(f, "\xc3\xa9 abc\n");
  diags_set_options(f->d, (DiagOptions){.format = DIAG_JSON});
  diag_error(f->d, ((Span){id, 3, 6}), "bad \"x\"");
  diag_note(f->d, SPAN_NONE, "why");
  diags_finish(f->d);
  assert_string_equal(
      text_cstr(&f->out),
      "[{\"kind\": \"error\", \"message\": \"bad \\\"x\\\"\", \"locations\": [{\"caret\": "
      "{\"file\": "
      "\"a.rx\", \"line\": 1, \"column\": 4, \"display-column\": 3}, \"finish\": {\"file\": "
      "\"a.rx\", \"line\": 1, \"column\": 6, \"display-column\": 5}}], \"children\": [{\"kind\": "
      "\"note\", \"message\": \"why\", \"locations\": [], \"children\": []}]}]\n");
}

static void sarif(void **state) {
  Fixture *f = *state;
  uint32_t id = add(f, "abc\n");
  diags_set_options(f->d, (DiagOptions){.format = DIAG_SARIF});
  diag_warn(f->d, WARN_UNUSED_BINDING, (Span){id, 0, 3}, "unused '%s'", "abc");
  diags_finish(f->d);
  const char *s = text_cstr(&f->out);
  assert_non_null(strstr(s, "\"version\": \"2.1.0\""));
  assert_non_null(strstr(s,
                         "{\"ruleId\": \"-Wunused-binding\", \"level\": \"warning\", \"message\": "
                         "{\"text\": \"unused 'abc'\"}, \"locations\": [{\"physicalLocation\": "
                         "{\"artifactLocation\": {\"uri\": \"a.rx\"}, \"region\": {\"startLine\": "
                         "1, \"startColumn\": 1, \"endLine\": 1, \"endColumn\": 4}}}]"));
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(caret),
      T(tabs_and_several_lines),
      T(hostile_bytes),
      T(long_line),
      T(repeated_and_limited),
      T(warnings),
      T(json),
      T(sarif),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
