/* The prover on questions that the passes ask. Expected answers by hand. (Random ones: test_dim.c)
 */
#include "tests/unit/unit.h"
#include "ir/facts.h"

static Context *c;
static Arena *a;
static const Dim *n, *m;
static Var *vn, *vi, *vj, *vq;

static int setup(void **state) {
  (void)state;
  c = context_create();
  a = arena_create();
  vn = var_create_dim(c, "n");
  vq = var_create_dim(c, "q");
  n = dim_var(c, vn);
  m = dim_var(c, var_create_dim(c, "m"));
  vi = var_create(c, "i", DT_I64);
  vj = var_create(c, "j", DT_I64);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  arena_free(a);
  context_free(c);
  return 0;
}

static const Dim *k(int64_t v) {
  return dim_const(c, v);
}

static void without_facts(void **state) {
  (void)state;
  assert_int_equal(prove_eq(c, NULL, n, n), PROOF_YES);
  assert_int_equal(prove_eq(c, NULL, n, m), PROOF_UNKNOWN);
  assert_int_equal(prove_eq(c, NULL, n, dim_add(c, n, k(1))), PROOF_NO);
  assert_int_equal(prove_eq(c, NULL, k(784), k(10)), PROOF_NO);
  assert_int_equal(prove_eq(c, NULL, dim_scale(c, n, 2), dim_add(c, dim_scale(c, m, 2), k(1))),
                   PROOF_NO);
  assert_int_equal(prove_le(c, NULL, k(0), n), PROOF_YES);
  assert_int_equal(prove_lt(c, NULL, n, k(0)), PROOF_NO);
  assert_int_equal(prove_le(c, NULL, dim_min(c, n, m), n), PROOF_YES);
  assert_int_equal(prove_le(c, NULL, n, dim_max(c, n, m)), PROOF_YES);
  const Dim *up = dim_scale(c, dim_floordiv(c, dim_add(c, n, k(15)), k(16)), 16);
  assert_int_equal(prove_le(c, NULL, n, up), PROOF_YES);
  assert_int_equal(prove_le(c, NULL, dim_mul(c, n, m), dim_mul(c, n, dim_add(c, m, k(3)))),
                   PROOF_YES);
  int64_t lo, hi;
  dim_bounds(c, NULL, dim_floormod(c, n, k(8)), &lo, &hi);
  assert_int_equal(lo, 0);
  assert_int_equal(hi, 7);
}

static void loops(void **state) {
  (void)state;
  Facts *f = facts_create(c, a);
  const Dim *i = dim_var(c, vi), *j = dim_var(c, vj);
  assert_int_equal(prove_lt(c, f, i, n), PROOF_UNKNOWN);
  facts_push(f);
  facts_below(f, vi, k(0), n);
  facts_below(f, vj, k(0), k(16));
  assert_int_equal(prove_lt(c, f, i, n), PROOF_YES);
  assert_int_equal(prove_le(c, f, n, i), PROOF_NO);
  const Dim *flat = dim_add(c, dim_scale(c, i, 16), j);
  assert_int_equal(prove_lt(c, f, flat, dim_scale(c, n, 16)), PROOF_YES);
  assert_ptr_equal(dim_simplify(c, f, dim_floordiv(c, flat, k(16))), i);
  assert_ptr_equal(dim_simplify(c, f, dim_floormod(c, flat, k(16))), j);
  const Dim *wide = dim_add(c, dim_mul(c, j, n), i);
  assert_ptr_equal(dim_simplify(c, f, dim_floordiv(c, wide, n)), j);
  assert_ptr_equal(dim_simplify(c, f, dim_floormod(c, wide, n)), i);
  facts_pop(f);
  assert_int_equal(prove_lt(c, f, i, n), PROOF_UNKNOWN);
}

static void equalities(void **state) {
  (void)state;
  Facts *f = facts_create(c, a);
  facts_equal(f, m, dim_add(c, dim_scale(c, n, 2), k(1)));
  assert_int_equal(prove_eq(c, f, dim_sub(c, m, n), dim_add(c, n, k(1))), PROOF_YES);
  assert_int_equal(prove_eq(c, f, m, n), PROOF_NO);
  assert_int_equal(prove_lt(c, f, n, m), PROOF_YES);
  facts_below(f, vn, k(1), k(129));
  int64_t lo, hi;
  dim_bounds(c, f, n, &lo, &hi);
  assert_int_equal(lo, 1);
  assert_int_equal(hi, 128);
  facts_equal(f, n, dim_scale(c, dim_var(c, vq), 8));
  assert_int_equal(prove_eq(c, f, dim_scale(c, n, 2), dim_scale(c, dim_var(c, vq), 16)), PROOF_YES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(without_facts, setup, teardown),
      cmocka_unit_test_setup_teardown(loops, setup, teardown),
      cmocka_unit_test_setup_teardown(equalities, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
