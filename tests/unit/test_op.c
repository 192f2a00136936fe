/* The operator table: every row is complete and consistent, names are found, defaults are read from
 * their text, attributes compare by value, help shows the row. Expected defaults are those of TVM
 * 0.27's operators. */
#include "tests/unit/unit.h"
#include "ir/ops/attrs.h"

#include <string.h>

static void rows_are_complete(void **state) {
  (void)state;
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = &op_table[i];
    assert_int_equal(op->id, i);
    assert_non_null(op->name);
    assert_non_null(op->group);
    assert_non_null(op->infer);
    assert_true(op->summary && *op->summary && op->shape_rule && *op->shape_rule);
    assert_true(op->lower || !strncmp(op->lower_why, "NO_", 3) ||
                !strncmp(op->lower_why, "TODO_", 5));
    int n = op->max_args < 0 ? op->min_args + 1 : op->max_args;
    for (int k = 0; k < n; k++) {
      const char *s = op->args[k];
      char last = s[strlen(s) - 1];
      char want = op->max_args < 0 && k == n - 1 ? '*' : k >= op->min_args ? '?' : 0;
      assert_true(want ? last == want : last != '*' && last != '?');
    }
    assert_null(op->args[n]);
    for (uint32_t k = 0; k < op->nattrs; k++)
      assert_true(op->attrs[k].offset < op->attrs_size && *op->attrs[k].doc);
  }
}

static void names_are_found(void **state) {
  (void)state;
  for (int i = 0; i < OP_COUNT; i++)
    assert_int_equal(op_find(op_table[i].name), i); /* so no name stands twice */
  assert_int_equal(op_find("nn.relu"), OP_nn_relu);
  assert_int_equal(op_find("relu"), -1);
  assert_int_equal(op_find(""), -1);
  assert_string_equal(op_nearest("matmull"), "matmul");
  assert_string_equal(op_nearest("relu"), "nn.relu");
  assert_string_equal(op_nearest("nn.matmul"), "matmul");
  assert_string_equal(op_nearest("permute_dim"), "permute_dims");
  assert_null(op_nearest("zzzzzzzzzzzz"));
}

static void defaults_are_read(void **state) {
  (void)state;
  Context *c = context_create();
  nn_conv2d_attrs conv;
  op_attrs_init(c, OP_nn_conv2d, &conv);
  assert_int_equal(conv.strides.n, 2);
  assert_int_equal(conv.strides.at[1], 1);
  assert_int_equal(conv.padding.n, 4);
  assert_int_equal(conv.groups, 1);
  assert_string_equal(conv.data_layout, "NCHW");
  assert_string_equal(conv.kernel_layout, "OIHW");
  assert_null(conv.out_layout);
  assert_false(dtype_known(conv.out_dtype));
  nn_batch_norm_attrs norm;
  op_attrs_init(c, OP_nn_batch_norm, &norm);
  assert_true(norm.center && norm.scale && norm.training);
  assert_true(norm.epsilon == 1e-5 && norm.momentum == 0.1);
  sum_attrs sum;
  op_attrs_init(c, OP_sum, &sum);
  assert_int_equal(sum.axis.n, -1);
  assert_false(sum.keepdims);
  concat_attrs concat;
  op_attrs_init(c, OP_concat, &concat);
  assert_true(concat.axis.has && concat.axis.v == 0);
  take_attrs take;
  op_attrs_init(c, OP_take, &take);
  assert_false(take.axis.has);
  assert_string_equal(take.mode, "fast");
  nn_max_pool2d_attrs pool;
  op_attrs_init(c, OP_nn_max_pool2d, &pool);
  assert_int_equal(pool.strides.at[0], 1); /* not the pool size */
  context_free(c);
}

static void attributes_compare_by_value(void **state) {
  (void)state;
  Context *c = context_create();
  nn_conv2d_attrs a, b;
  op_attrs_init(c, OP_nn_conv2d, &a);
  op_attrs_init(c, OP_nn_conv2d, &b);
  int64_t ones[2] = {1, 1}, other[2] = {1, 2};
  b.strides.at = ones;
  assert_true(op_attrs_equal(OP_nn_conv2d, &a, &b));
  assert_true(op_attrs_hash(OP_nn_conv2d, &a) == op_attrs_hash(OP_nn_conv2d, &b));
  b.strides.at = other;
  assert_false(op_attrs_equal(OP_nn_conv2d, &a, &b));
  b = a;
  char layout[] = "NCHW";
  b.data_layout = layout;
  assert_true(op_attrs_equal(OP_nn_conv2d, &a, &b));
  b.out_dtype = DT_F32;
  assert_false(op_attrs_equal(OP_nn_conv2d, &a, &b));
  context_free(c);
}

static void help_shows_the_row(void **state) {
  (void)state;
  Text t = {0};
  assert_true(op_print_help("nn.softmax", &t));
  assert_non_null(strstr(text_cstr(&t), "R.nn.softmax(data, axis=-1)"));
  text_clear(&t);
  assert_true(op_print_help("R.matmul", &t));
  assert_non_null(strstr(text_cstr(&t), "result: (..., m, k) x (..., k, n) = (..., m, n)"));
  text_clear(&t);
  assert_true(op_print_help("linear", &t));
  assert_non_null(strstr(text_cstr(&t), "R.linear(data, weight, bias=None, out_dtype=None)"));
  assert_false(op_print_help("no_such", &t));
  text_clear(&t);
  op_print_list(&t);
  assert_non_null(strstr(text_cstr(&t), "nn.relu"));
  assert_null(strstr(text_cstr(&t), "tuple_get"));
  text_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_complete),  cmocka_unit_test(names_are_found),
      cmocka_unit_test(defaults_are_read),  cmocka_unit_test(attributes_compare_by_value),
      cmocka_unit_test(help_shows_the_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
