/* Minimum cuts against all assignments tried one by one. */
#include "tests/unit/unit.h"
#include "passes/graph/cut.h"

#define THINGS 9

static uint64_t next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static void test_cheapest(void **state) {
  (void)state;
  uint64_t rng = 7;
  for (int round = 0; round < 300; round++) {
    Arena *a = arena_create();
    Cut c;
    cut_init(&c, a);
    int64_t label[THINGS][2] = {0}, pair[THINGS][THINGS] = {0}, least = INT64_MAX, found = 0;
    uint32_t id[THINGS];
    for (int x = 0; x < THINGS; x++) id[x] = cut_add(&c);
    for (int x = 0; x < THINGS; x++) {
      for (int l = 0; l < 2; l++) {
        label[x][l] = (int64_t)(next(&rng) % 20);
        cut_label(&c, id[x], l, label[x][l]);
      }
      for (int y = 0; y < THINGS; y++) {
        if (x == y || next(&rng) % 3) continue;
        pair[x][y] = (int64_t)(next(&rng) % 12);
        cut_pair(&c, id[x], id[y], pair[x][y]);
      }
    }
    cut_solve(&c);
    for (uint32_t set = 0; set < (2u << THINGS); set++) { /* the last round: what was found */
      bool last = set == (2u << THINGS) - 1;
      int64_t cost = 0;
      int in[THINGS];
      for (int x = 0; x < THINGS; x++) in[x] = last ? cut_is_set(&c, id[x]) : (int)(set >> x & 1);
      for (int x = 0; x < THINGS; x++) {
        cost += label[x][in[x]];
        for (int y = 0; y < THINGS; y++)
          if (!in[x] && in[y]) cost += pair[x][y];
      }
      if (last) found = cost;
      if (cost < least) least = cost;
    }
    assert_int_equal(found, least);
    arena_free(a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cheapest)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
