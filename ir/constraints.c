/* Constraints of operators: their words, and their numbers by operator. The rows are those of
 * ir/ops/constraints.def; operators that share an inference hook share its constraints. */
#include "ir/op.h"
#include "ir/ops/hooks.h"

enum { MAX_CHECKS = 12 };

static const struct {
  InferFn rule;
  uint8_t n, at[MAX_CHECKS];
} checks[] = {
#define CONSTRAINT(id, words)
#define CHECKS(rule, ...) {infer_##rule, sizeof((const uint8_t[]){__VA_ARGS__}), {__VA_ARGS__}},
#include "ir/ops/constraints.def"
#undef CONSTRAINT
#undef CHECKS
};

static const char *const words[] = {
#define CONSTRAINT(id, words) words,
#define CHECKS(rule, ...)
#include "ir/ops/constraints.def"
#undef CONSTRAINT
#undef CHECKS
};

const uint8_t *op_constraints(OpId op, uint32_t *n) {
  for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
    if (checks[i].rule == op_table[op].infer) {
      *n = checks[i].n;
      return checks[i].at;
    }
  *n = 0;
  return NULL;
}

const char *constraint_words(ConstraintId id) {
  return words[id];
}

uint32_t constraint_number(OpId op, ConstraintId id) {
  uint32_t n;
  const uint8_t *at = op_constraints(op, &n);
  if (id == C_operands) return 0;
  for (uint32_t i = 0; i < n; i++)
    if (at[i] == id) return i + 1;
  bug("R.%s reports '%s', which ir/ops/constraints.def doesn't list for it", op_table[op].name,
      words[id]);
}
