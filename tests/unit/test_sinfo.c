/* Struct info: interning, checks with their words, least upper bounds, unification, printing. The
 * expected texts follow TVM 0.27's printed annotations; the rest is worked out by hand. */
#include "tests/unit/unit.h"
#include "ir/module.h"
#include "ir/print.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  Context *c;
  Var *n, *m;
  Text t;
} Fixture;

static int setup(void **state) {
  Fixture *f = xmalloc(sizeof *f);
  memset(f, 0, sizeof *f);
  f->c = context_create();
  f->n = var_create_dim(f->c, "n");
  f->m = var_create_dim(f->c, "m");
  *state = f;
  return 0;
}

static int teardown(void **state) {
  Fixture *f = *state;
  text_free(&f->t);
  context_free(f->c);
  free(f);
  return 0;
}

static const SInfo *tensor2(Fixture *f, const Expr *a, const Expr *b, DType d) {
  return sinfo_tensor(f->c, (const Expr *[]){a, b}, 2, d);
}

static void expect_text(Fixture *f, const SInfo *s, const char *want) {
  text_clear(&f->t);
  sinfo_print(&f->t, s);
  assert_string_equal(text_cstr(&f->t), want);
}

static void equal_is_one_pointer(void **state) {
  Fixture *f = *state;
  Context *c = f->c;
  const Expr *n = f->n->expr;
  const SInfo *a = tensor2(f, n, expr_i64(c, 4), DT_F32);
  assert_ptr_equal(a, tensor2(f, n, expr_i64(c, 4), DT_F32));
  assert_ptr_not_equal(a, tensor2(f, n, expr_i64(c, 4), DT_F64));
  assert_ptr_not_equal(a, tensor2(f, n, expr_i64(c, 5), DT_F32));
  assert_ptr_equal(sinfo_tensor_ndim(c, 0, DT_F32), sinfo_tensor(c, NULL, 0, DT_F32));
  assert_non_null(sinfo_tensor(c, NULL, 0, DT_F32)->dims);
  assert_ptr_equal(sinfo_tuple(c, &a, 1), sinfo_tuple(c, &a, 1));
  assert_ptr_not_equal(sinfo_tuple(c, &a, 1), sinfo_tuple(c, NULL, 0));
  assert_ptr_equal(sinfo_with_vdevice(c, a, "llvm:0"), sinfo_with_vdevice(c, a, "llvm:0"));
  assert_ptr_not_equal(sinfo_with_vdevice(c, a, "llvm:0"), a);
}

static void prints_as_annotations(void **state) {
  Fixture *f = *state;
  Context *c = f->c;
  const Expr *n = f->n->expr, *n2 = expr_mul(c, n, expr_i64(c, 2));
  expect_text(f, tensor2(f, n, n2, DT_F32), "R.Tensor((n, n * 2), dtype=\"float32\")");
  expect_text(f, sinfo_tensor(c, &n, 1, DT_UNKNOWN), "R.Tensor((n,))");
  expect_text(f, sinfo_tensor(c, NULL, 0, DT_I64), "R.Tensor((), dtype=\"int64\")");
  expect_text(f, sinfo_tensor_ndim(c, 2, DT_F32), "R.Tensor(dtype=\"float32\", ndim=2)");
  expect_text(f, sinfo_tensor_ndim(c, 2, DT_UNKNOWN), "R.Tensor(ndim=2)");
  expect_text(f, sinfo_tensor_ndim(c, -1, DT_UNKNOWN), "R.Tensor");
  expect_text(f, sinfo_shape(c, &n2, 1), "R.Shape([n * 2])");
  expect_text(f, sinfo_shape_ndim(c, -1), "R.Shape(ndim=-1)");
  expect_text(f, sinfo_prim(c, DT_I64), "T.int64");
  expect_text(f, sinfo_tuple(c, NULL, 0), "R.Tuple");
  const SInfo *two[] = {sinfo_prim(c, DT_BOOL), sinfo_object(c)};
  expect_text(f, sinfo_tuple(c, two, 2), "R.Tuple(T.bool, R.Any)");
  expect_text(f, sinfo_callable(c, two, 1, two[1], true), "R.Callable((T.bool,), R.Any, True)");
  expect_text(f, sinfo_callable_opaque(c, sinfo_object(c), false), "R.Callable");
  expect_text(f, sinfo_callable_opaque(c, two[0], true), "R.Callable(ret=T.bool, purity=True)");
}

static void check_says(Fixture *f, const SInfo *have, const SInfo *want, SInfoCheck r,
                       const char *why) {
  SInfoWhy got = {0};
  assert_int_equal(sinfo_check(f->c, NULL, have, want, &got), r);
  assert_string_equal(text_cstr(&got.words), why);
  text_free(&got.words);
}

static void check_fails_only_provably(void **state) {
  Fixture *f = *state;
  Context *c = f->c;
  const Expr *n = f->n->expr, *m = f->m->expr, *one = expr_i64(c, 1), *k10 = expr_i64(c, 10);
  const SInfo *a = tensor2(f, n, expr_i64(c, 784), DT_F32);
  check_says(f, a, a, SINFO_SUB, "");
  check_says(f, a, sinfo_object(c), SINFO_SUB, "");
  check_says(f, sinfo_object(c), a, SINFO_MAYBE, "");
  check_says(f, a, sinfo_bad(c), SINFO_SUB, "");
  check_says(f, a, sinfo_tensor_ndim(c, 2, DT_UNKNOWN), SINFO_SUB, "");
  check_says(f, sinfo_tensor_ndim(c, 2, DT_F32), a, SINFO_MAYBE, "");
  check_says(f, a, tensor2(f, m, expr_i64(c, 784), DT_F32), SINFO_MAYBE, "");
  check_says(f, a, tensor2(f, n, k10, DT_F32), SINFO_FAIL, "dim 1 is 784 but 10 is expected");
  check_says(f, tensor2(f, expr_add(c, n, one), k10, DT_F32), tensor2(f, n, k10, DT_F32),
             SINFO_FAIL, "dim 0 is n + 1 but n is expected");
  check_says(f, tensor2(f, expr_add(c, n, n), k10, DT_F32),
             tensor2(f, expr_mul(c, n, expr_i64(c, 2)), k10, DT_F32), SINFO_SUB, "");
  check_says(f, a, tensor2(f, n, expr_i64(c, 784), DT_F64), SINFO_FAIL,
             "its dtype is float32 but float64 is expected");
  check_says(f, a, sinfo_tensor_ndim(c, 3, DT_F32), SINFO_FAIL, "it has 2 dims but 3 are expected");
  check_says(f, a, sinfo_shape_ndim(c, 2), SINFO_FAIL, "it is a tensor but a shape is expected");
  const SInfo *b = sinfo_prim(c, DT_I64);
  check_says(f, sinfo_tuple(c, (const SInfo *[]){a, b}, 2),
             sinfo_tuple(c, (const SInfo *[]){a, a}, 2), SINFO_FAIL,
             "of field 1: it is a prim value but a tensor is expected");
  check_says(f, sinfo_tuple(c, &a, 1), sinfo_tuple(c, NULL, 0), SINFO_FAIL,
             "it has 1 fields but 0 are expected");
}

static void lub_keeps_what_agrees(void **state) {
  Fixture *f = *state;
  Context *c = f->c;
  const Expr *n = f->n->expr, *m = f->m->expr;
  const SInfo *a = tensor2(f, n, m, DT_F32);
  assert_ptr_equal(sinfo_lub(c, a, a), a);
  assert_ptr_equal(sinfo_lub(c, a, tensor2(f, m, n, DT_F32)), sinfo_tensor_ndim(c, 2, DT_F32));
  assert_ptr_equal(sinfo_lub(c, a, tensor2(f, n, m, DT_F64)), tensor2(f, n, m, DT_UNKNOWN));
  assert_ptr_equal(sinfo_lub(c, a, sinfo_tensor(c, &n, 1, DT_F32)),
                   sinfo_tensor_ndim(c, -1, DT_F32));
  assert_ptr_equal(sinfo_lub(c, a, sinfo_prim(c, DT_I64)), sinfo_object(c));
}

static void unify_then_substitute(void **state) {
  Fixture *f = *state;
  Context *c = f->c;
  const Expr *n = f->n->expr, *k4 = expr_i64(c, 4);
  const SInfo *param = tensor2(f, n, k4, DT_F32);
  const SInfo *arg = tensor2(f, expr_add(c, f->m->expr, expr_i64(c, 1)), k4, DT_F32);
  Map b;
  map_init(&b, c->arena);
  map_setp(&b, f->n, NULL);
  sinfo_unify(c, &b, param, arg);
  assert_ptr_equal(map_getp(&b, f->n), arg->dims[0]);
  const SInfo *ret = tensor2(f, expr_mul(c, n, expr_i64(c, 2)), k4, DT_F32);
  expect_text(f, sinfo_subst(c, &b, ret), "R.Tensor((m * 2 + 2, 4), dtype=\"float32\")");
  assert_ptr_equal(sinfo_subst(c, &b, arg), arg);
  /* m is not in scope outside: the shape is lost, the rank stays. */
  Map scope;
  map_init(&scope, c->arena);
  map_setp(&scope, f->n, f->n);
  assert_ptr_equal(sinfo_erase(c, &scope, arg), sinfo_tensor_ndim(c, 2, DT_F32));
  assert_ptr_equal(sinfo_erase(c, &scope, param), param);
  VarVec vars = {0};
  sinfo_vars(c->arena, sinfo_tuple(c, (const SInfo *[]){arg, param, ret}, 3), &vars);
  assert_int_equal(vars.n, 2);
  assert_ptr_equal(vars.at[0], f->m);
  assert_ptr_equal(vars.at[1], f->n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(equal_is_one_pointer, setup, teardown),
      cmocka_unit_test_setup_teardown(prints_as_annotations, setup, teardown),
      cmocka_unit_test_setup_teardown(check_fails_only_provably, setup, teardown),
      cmocka_unit_test_setup_teardown(lub_keeps_what_agrees, setup, teardown),
      cmocka_unit_test_setup_teardown(unify_then_substitute, setup, teardown),
  };
  return cmocka_run_group_tests_name("sinfo", tests, NULL, NULL);
}
