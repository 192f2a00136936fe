/* --list-ops and --help-op, read off the operator table. */
#include "ir/op.h"
#include "ir/ops/numerics.h"

#include <string.h>

static const char *kind_name(AttrFieldKind k) {
  switch (k) {
  case AK_INT: return "int";
  case AK_OPT_INT: return "int or None";
  case AK_FLOAT: return "float";
  case AK_OPT_FLOAT: return "float or None";
  case AK_BOOL: return "bool";
  case AK_STR:
  case AK_TEXT: return "str";
  case AK_DTYPE: return "dtype";
  case AK_INTS: return "int or list of int";
  case AK_EXPRS: return "list of prim values";
  case AK_SINFOS: return "type or list of types";
  case AK_DICT: return "dict";
  case AK_INDEX_MAP: return "index map";
  case AK_ANY: return "value";
  }
  bug("attribute kind");
}

static void print_signature(const OpInfo *op, Text *out) {
  text_printf(out, "R.%s(", op->name);
  uint32_t n = (uint32_t)(op->max_args < 0 ? op->min_args + 1 : op->max_args);
  const char *sep = "";
  for (uint32_t i = 0; i < n; i++, sep = ", ") {
    const char *s = op->args[i];
    size_t len = strlen(s);
    char last = s[len - 1];
    text_puts(out, sep);
    if (last == '*') text_putc(out, '*');
    text_putn(out, s, len - (last == '*' || last == '?'));
    if (last == '?') text_puts(out, "=None");
  }
  for (uint32_t i = 0; i < op->nattrs; i++, sep = ", ") {
    text_printf(out, "%s%s", sep, op->attrs[i].name);
    if (op->attrs[i].defval) text_printf(out, "=%s", op->attrs[i].defval);
  }
  text_putc(out, ')');
}

/* "floats", "integers, bool", "float32, float16". */
static const char *types_text(uint32_t types) {
  static const struct {
    uint32_t bits;
    const char *words;
  } sets[] = {
      {TY_NONE, "-"},
      {TY_ALL, "all"},
      {TY_NUMBER, "numbers"},
      {TY_FLOAT, "floats"},
      {TY_INT, "integers"},
      {TY_BITS, "integers, bool"},
      {TY_BOOL, "bool"},
      {TY_F32 | TY_F16, "float32, float16"},
      {TY_INT | TY_F32 | TY_F16 | TY_FLOAT8, "integers, float32, float16, float8"},
  };
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
    if (sets[i].bits == types) return sets[i].words;
  bug("no words for a set of dtypes");
}

void op_print_list(Text *out) {
  const char *group = "";
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = &op_table[i];
    if (op->traits & OPT_STRUCTURAL) continue;
    if (strcmp(group, op->group)) {
      text_printf(out, "%s%s:\n", *group ? "\n" : "", op->group);
      group = op->group;
    }
    text_printf(out, "  %-24s %-14s  %s%s\n", op->name, types_text(op->types), op->summary,
                op->traits & OPT_REFUSED              ? " (not for a CPU)"
                : !strncmp(op->lower_why, "TODO_", 5) ? " (not compiled yet)"
                                                      : "");
  }
}

/* "[matmul.2] operands have one dtype", as messages cite them. */
static void print_constraints(const OpInfo *op, Text *out) {
  uint32_t n;
  const uint8_t *at = op_constraints(op->id, &n);
  text_printf(out, "\nconstraints:\n  [%s.0] %s\n", op->name, constraint_words(C_operands));
  for (uint32_t i = 0; i < n; i++)
    text_printf(out, "  [%s.%u] %s\n", op->name, i + 1, constraint_words(at[i]));
}

bool op_print_help(const char *name, Text *out) {
  if (!strncmp(name, "R.", 2))
    name += 2;
  else if (!strncmp(name, "relax.", 6))
    name += 6;
  int id = op_find(name);
  if (id < 0 || (op_table[id].traits & OPT_STRUCTURAL)) return false;
  const OpInfo *op = &op_table[id];
  print_signature(op, out);
  text_printf(out, "\n\n%s\n\nresult: %s\n", op->summary, op->shape_rule);
  if (op->types) text_printf(out, "dtypes: %s\n", types_text(op->types));
  if (op->numerics) text_printf(out, "numerics: %s\n", op->numerics);
  for (uint32_t i = 0; i < op->nattrs; i++) {
    const AttrField *f = &op->attrs[i];
    text_printf(out, "%s  %-16s %s%s%s; %s", i ? "" : "\nattributes:\n", f->name,
                kind_name(f->kind), f->defval ? ", default " : ", must be given",
                f->defval ? f->defval : "", f->doc);
    if (f->old_name) text_printf(out, " (earlier: %s)", f->old_name);
    text_putc(out, '\n');
  }
  print_constraints(op, out);
  static const struct {
    uint32_t bit;
    const char *word;
  } words[] = {
      {OPT_ELEMWISE, "elementwise"},
      {OPT_COMMUTATIVE, "commutative"},
      {OPT_COMPOSITE, "built from other operators"},
      {OPT_IMPURE, "has side effects"},
      {OPT_DATA_DEP, "shape depends on data"},
      {OPT_REFUSED, "not for a CPU"},
  };
  const char *sep = "\ntraits: ";
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (op->traits & words[i].bit) {
      text_printf(out, "%s%s", sep, words[i].word);
      sep = ", ";
    }
  if (*sep == ',') text_putc(out, '\n');
  if (!strncmp(op->lower_why, "TODO_", 5))
    text_puts(out, "\nnot compiled yet: type inference only\n");
  return true;
}
