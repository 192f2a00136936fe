/* Lowering: the text of the prim_funcs that operators become, the arguments of their call, what is
 * refused. The form is that of TVM's legalisation (loops and blocks), written out by hand. */
#include "tests/unit/unit.h"
#include "frontend/script/script.h"
#include "ir/print.h"
#include "ir/te.h"

#include <string.h>

typedef struct {
  Context *c;
  Module *m;
  Text words;
  Lowered low;
  bool ok;
} Case;

/* Lowers the operator that is the result of a function with these parameters. */
static void lower(Case *k, const char *params, const char *expr) {
  memset(k, 0, sizeof *k);
  k->c = context_create();
  diags_set_text(k->c->diags, &k->words);
  Text t = {0};
  text_printf(&t, "@R.function\ndef main(%s):\n    gv = %s\n    return gv\n", params, expr);
  k->m = script_parse(k->c, sources_add(k->c->sources, "te.rx", text_cstr(&t), t.n));
  text_free(&t);
  assert_non_null(k->m);
  assert_int_equal(diags_errors(k->c->diags), 0);
  k->ok = te_lower_node(k->m, func_result(module_func(k->m, "main")), &k->low);
}

static void done(Case *k) {
  text_free(&k->words);
  context_free(k->c);
}

static void check_text(const char *params, const char *expr, const char *want) {
  Case k;
  lower(&k, params, expr);
  assert_true(k.ok);
  assert_non_null(k.low.func);
  Text t = {0};
  primfunc_print(&t, k.low.func, DIALECT_TODAY, 0);
  if (!strstr(text_cstr(&t), want)) {
    print_error("%s gave\n%s\nwhich lacks\n%s\n", expr, text_cstr(&t), want);
    fail();
  }
  text_free(&t);
  done(&k);
}

#define N784 "x: R.Tensor((\"n\", 784), \"float32\"), w: R.Tensor((784, 256), \"float32\")"

static void contraction_is_canonical(void **state) {
  (void)state;
  check_text(N784, "R.matmul(x, w)",
             "    for ax0, ax1, k0 in T.grid(n, T.int64(256), T.int64(784)):\n"
             "        with T.sblock(\"matmul\"):\n"
             "            v_ax0, v_ax1, v_k0 = T.axis.remap(\"SSR\", [ax0, ax1, k0])\n"
             "            T.reads(x1[v_ax0, v_k0], x2[v_k0, v_ax1])\n"
             "            T.writes(matmul[v_ax0, v_ax1])\n"
             "            with T.init():\n"
             "                matmul[v_ax0, v_ax1] = T.float32(0.0)\n"
             "            matmul[v_ax0, v_ax1] = matmul[v_ax0, v_ax1] + x1[v_ax0, v_k0] * x2[v_k0, "
             "v_ax1]\n");
  check_text(
      "x: R.Tensor((1, 3, 8, 8), \"float32\"), w: R.Tensor((4, 3, 3, 3), \"float32\")",
      "R.nn.conv2d(x, w, padding=1)",
      "+ pad_temp[v_ax0, v_k0, v_ax2 + v_k1, v_ax3 + v_k2] * weight[v_ax1, v_k0, v_k1, v_k2]\n");
}

static void half_sums_in_float(void **state) {
  (void)state;
  check_text("x: R.Tensor((4, 8), \"float16\"), w: R.Tensor((8, 2), \"float16\")", "R.matmul(x, w)",
             "matmul[v_ax0, v_ax1] = matmul[v_ax0, v_ax1] + T.Cast(\"float32\", x1[v_ax0, v_k0]) * "
             "T.Cast(\"float32\", x2[v_k0, v_ax1])\n");
}

static void scalars_follow_tensors(void **state) {
  (void)state;
  Case k; /* n stands bare in no operand, so the function takes it as a number */
  lower(&k, "x: R.Tensor((\"n\",), \"float32\"), s: R.Shape([\"n\"])",
        "R.zeros(R.shape([n, 2]), \"int32\")");
  assert_true(k.ok);
  assert_int_equal(k.low.nargs, 1);
  assert_int_equal(k.low.args[0]->op, OP_PRIM_VALUE);
  assert_int_equal(k.low.func->nparams, 2);
  assert_null(k.low.func->param_bufs[0]);
  assert_non_null(k.low.func->param_bufs[1]);
  assert_int_equal(k.low.func->ndims, 0);
  done(&k);
  lower(&k, "x: R.Tensor((\"n\", 4), \"float32\")", "R.add(x, x)");
  assert_true(k.ok);
  assert_int_equal(k.low.nargs, 2);
  assert_int_equal(k.low.func->nparams, 3);
  assert_int_equal(k.low.func->ndims, 1);
  done(&k);
}

static void constants_become_literals(void **state) {
  (void)state;
  check_text(
      "x: R.Tensor((4,), \"float32\")", "R.multiply(x, R.const(0.5, \"float32\"))",
      "def multiply(x1: T.Buffer((T.int64(4),), \"float32\"), T_multiply: T.Buffer((T.int64(4),), "
      "\"float32\"))");
  check_text("x: R.Tensor((4,), \"int32\")", "R.floor_divide(x, R.const(10, \"int32\"))",
             "T_floor_divide[v_ax0] = x1[v_ax0] // 10\n");
}

static void composites_build_nodes(void **state) {
  (void)state;
  Case k;
  lower(&k, N784, "R.linear(x, R.permute_dims(w))");
  assert_true(k.ok);
  assert_null(k.low.func);
  assert_int_equal(k.low.composite->op, OP_matmul);
  done(&k);
  lower(&k, N784, "R.add(R.prim_value(n), R.prim_value(1))");
  assert_true(k.ok);
  assert_int_equal(k.low.composite->op, OP_PRIM_VALUE);
  done(&k);
  lower(&k, "x: R.Tensor((\"n\",), \"float32\"), y: R.Tensor((\"m\",), \"float32\")",
        "R.add(x, y)"); /* broadcast when it runs */
  assert_true(k.ok);
  assert_int_equal(k.low.composite->op, OP_add);
  assert_int_equal(node_in(k.low.composite, 0)->op, OP_broadcast_to);
  done(&k);
}

static void check_refused(const char *params, const char *expr, const char *message) {
  Case k;
  lower(&k, params, expr);
  assert_false(k.ok);
  if (!strstr(text_cstr(&k.words), message)) {
    print_error("%s: expected \"%s\" but got\n%s", expr, message, text_cstr(&k.words));
    fail();
  }
  done(&k);
}

static void unknown_shapes_are_refused(void **state) {
  (void)state;
  check_refused("x: R.Tensor(ndim=2, dtype=\"float32\")", "R.exp(x)",
                "error: R.exp: can't be compiled as the shape of operand 'x' is not known");
  check_refused("x: R.Tensor((4,), \"float32\")", "R.bitwise_and(x, x)", "not defined for float32");
}

/* Dims that can't be proved equal are checked at run time. */
static void unproved_dims_are_asserted(void **state) {
  (void)state;
  check_text(
      "x: R.Tensor((\"n\", \"k\"), \"float32\"), y: R.Tensor((\"j\", 3), \"float32\")",
      "R.matmul(x, y)",
      "assert k == j, (\"RuntimeError\", [\"R.matmul: the dims to sum over differ: k and j\"])");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contraction_is_canonical),   cmocka_unit_test(half_sums_in_float),
      cmocka_unit_test(scalars_follow_tensors),     cmocka_unit_test(constants_become_literals),
      cmocka_unit_test(composites_build_nodes),     cmocka_unit_test(unknown_shapes_are_refused),
      cmocka_unit_test(unproved_dims_are_asserted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
