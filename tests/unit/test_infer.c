/* Struct-info inference: for every row of infer_table.def the type TVM 0.27 infers (read off it by
 * probing), and the words of some errors. */
#include "tests/unit/unit.h"
#include "frontend/script/script.h"
#include "ir/op.h"

#include <string.h>

typedef struct {
  const char *group, *params, *expr, *type;
} Probe;

static const Probe probes[] = {
#define PROBE(group, params, expr, type) {#group, params, expr, type},
#include "tests/unit/infer_table.def"
#undef PROBE
};

/* The type of `expr` as text, or "error" with the messages in *words. */
static void infer_text(const char *params, const char *expr, Text *type, Text *words) {
  Context *c = context_create();
  diags_set_text(c->diags, words);
  Text t = {0};
  text_printf(&t, "@R.function\ndef main(%s):\n    gv = %s\n    return gv\n", params, expr);
  Module *m = script_parse(c, sources_add(c->sources, "probe.rx", text_cstr(&t), t.n));
  if (!m || diags_errors(c->diags))
    text_puts(type, "error");
  else
    sinfo_print(type, func_result(module_func(m, "main"))->sinfo);
  text_free(&t);
  context_free(c);
}

static void check_group(void **state) {
  const char *group = *state;
  int wrong = 0, ran = 0;
  for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
    const Probe *p = &probes[i];
    if (strcmp(p->group, group)) continue;
    Text type = {0}, words = {0};
    infer_text(p->params, p->expr, &type, &words);
    ran++;
    if (strcmp(text_cstr(&type), p->type)) {
      wrong++;
      print_error("%s with %s: expected %s but got %s\n%s", p->expr, p->params, p->type,
                  text_cstr(&type), text_cstr(&words));
    }
    text_free(&type);
    text_free(&words);
  }
  assert_true(ran > 0);
  assert_int_equal(wrong, 0);
}

static void check_words(const char *params, const char *expr, const char *message) {
  Text type = {0}, words = {0};
  infer_text(params, expr, &type, &words);
  if (strcmp(text_cstr(&type), "error") || !strstr(text_cstr(&words), message)) {
    print_error("%s: expected \"%s\" but got %s\n%s", expr, message, text_cstr(&type),
                text_cstr(&words));
    fail();
  }
  text_free(&type);
  text_free(&words);
}

static void words_name_both_shapes(void **state) {
  (void)state;
  const char *xy = "x: R.Tensor((\"n\", 784), \"float32\"), y: R.Tensor((256,), \"float32\")";
  check_words(xy, "R.add(x, y)", "error: R.add: operands can't be broadcast: (n, 784) and (256,)");
  check_words(xy, "R.add(x, y)", "note: dim 1 of 'x1' is 784 but dim 0 of 'x2' is 256");
  check_words(xy, "R.matmul(x, y)", "error: R.matmul: operands don't fit: (n, 784) and (256,)");
  check_words(xy, "R.matmul(x, y)", "note: dim 1 of 'x1' is 784 but dim 0 of 'x2' is 256");
  check_words(xy, "R.reshape(y, (3, 5))",
              "error: R.reshape: (256,) has 256 elements but (3, 5) has 15");
  check_words(xy, "R.sum(x, axis=2)",
              "error: R.sum: axis 2 is out of range for a tensor of rank 2: expected -2 to 1");
  check_words(xy, "R.concat((x, y))",
              "error: R.concat: tensors must have the same rank but have 2 "
              "and 1");
  check_words(xy, "R.exp(R.astype(x, \"int32\"))", "error: R.exp: expected a float tensor for 'x'");
}

/* Calls bind the callee's symbolic vars; lengths that no argument fixes are forgotten. */
static void calls_substitute(void **state) {
  (void)state;
  static const char text[] = "@I.ir_module\n"
                             "class Module:\n"
                             "    @R.function\n"
                             "    def f(x: R.Tensor((\"a\", \"b\"), \"float32\")):\n"
                             "        return R.permute_dims(x)\n"
                             "    @R.function\n"
                             "    def main(x: R.Tensor((\"n\", 4), \"float32\")) -> "
                             "R.Tensor((4, \"n\"), \"float32\"):\n"
                             "        return Module.f(x)\n";
  Context *c = context_create();
  Text words = {0}, type = {0};
  diags_set_text(c->diags, &words);
  Module *m = script_parse(c, sources_add(c->sources, "calls.rx", text, sizeof text - 1));
  assert_non_null(m);
  assert_string_equal(text_cstr(&words), "");
  sinfo_print(&type, func_result(module_func(m, "main"))->sinfo);
  assert_string_equal(text_cstr(&type), "R.Tensor((4, n), dtype=\"float32\")");
  text_free(&words);
  text_free(&type);
  context_free(c);
}

int main(void) {
#define GROUP(g)                                                                                   \
  {                                                                                                \
    "infer " #g, check_group, NULL, NULL, #g                                                       \
  }
  const struct CMUnitTest tests[] = {
      GROUP(unary),
      GROUP(binary),
      GROUP(binary_sugar),
      GROUP(create),
      GROUP(manip),
      GROUP(matmul),
      GROUP(linalg),
      GROUP(conv),
      GROUP(norm),
      GROUP(attn),
      GROUP(einsum),
      GROUP(loss),
      GROUP(calls),
      cmocka_unit_test(words_name_both_shapes),
      cmocka_unit_test(calls_substitute),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
