/* The syntax tree: operator precedence, literals, layout and spans. Expected trees are what
 * Python's own `ast` module gives for the same text. */
#include "frontend/script/tree.h"
#include "tests/unit/unit.h"
#include <string.h>

static void put(Text *t, const Tree *x);

static void put_all(Text *t, const char *name, Tree *const *at, uint32_t n) {
  text_printf(t, "(%s", name);
  for (uint32_t i = 0; i < n; i++) {
    text_putc(t, ' ');
    put(t, at[i]);
  }
  text_putc(t, ')');
}

/* Prefix form: (+ a (* b c)). */
static void put(Text *t, const Tree *x) {
  if (!x) {
    text_putc(t, '_');
    return;
  }
  Tree *two[2] = {x->a, x->b};
  switch ((TreeKind)x->kind) {
  case TREE_NAME: text_puts(t, x->name); return;
  case TREE_INT: text_printf(t, "%llu", (unsigned long long)x->ival); return;
  case TREE_FLOAT: text_printf(t, "%g", x->fval); return;
  case TREE_STR: text_put_quoted(t, x->str, x->n); return;
  case TREE_CONST: text_puts(t, tree_describe(x)); return;
  case TREE_UNARY: put_all(t, tree_op_text(x->op), &two[1], 1); return;
  case TREE_BINARY: put_all(t, tree_op_text(x->op), two, 2); return;
  case TREE_ATTR:
    put(t, x->b);
    text_printf(t, ".%s", x->name);
    return;
  case TREE_KEYWORD:
    text_printf(t, "%s=", x->name);
    put(t, x->b);
    return;
  case TREE_CALL:
    put(t, x->a);
    put_all(t, "", x->at, x->n);
    return;
  case TREE_SUBSCRIPT: put_all(t, "[]", two, 2); return;
  case TREE_SLICE: put_all(t, ":", x->at, 3); return;
  case TREE_IFEXP: put_all(t, "if", x->at, 3); return;
  case TREE_LAMBDA: put_all(t, "lambda", x->at, x->n); return;
  case TREE_PARAM: text_puts(t, x->name); return;
  case TREE_TUPLE: put_all(t, "tuple", x->at, x->n); return;
  case TREE_LIST: put_all(t, "list", x->at, x->n); return;
  case TREE_SET: put_all(t, "set", x->at, x->n); return;
  case TREE_DICT: put_all(t, "dict", x->at, x->n); return;
  case TREE_STAR: put_all(t, "star", &two[1], 1); return;
  case TREE_DOUBLESTAR: put_all(t, "starstar", &two[1], 1); return;
  case TREE_EXPR: put(t, x->b); return;
  case TREE_ASSIGN: put_all(t, "=", x->at, x->n); return;
  case TREE_ANNOT: put_all(t, ":=", x->at, 3); return;
  case TREE_AUGMENT: put_all(t, "op=", two, 2); return;
  case TREE_RETURN: put_all(t, "return", &two[1], 1); return;
  case TREE_ASSERT: put_all(t, "assert", two, 2); return;
  case TREE_IF: put_all(t, "if", x->at, 3); return;
  case TREE_WHILE: put_all(t, "while", x->at, 2); return;
  case TREE_FOR: put_all(t, "for", x->at, 3); return;
  case TREE_WITH: put_all(t, "with", x->at, x->n); return;
  case TREE_WITH_ITEM: put_all(t, "item", two, 2); return;
  case TREE_BLOCK: put_all(t, "do", x->at, x->n); return;
  case TREE_DEF:
  case TREE_CLASS:
    text_printf(t, "(%s", x->def->name);
    put_all(t, "", x->def->params, x->def->n_params);
    put(t, x->def->body);
    text_putc(t, ')');
    return;
  default: text_puts(t, tree_describe(x)); return;
  }
}

static void expect(const char *source, const char *want) {
  Context *c = context_create();
  Arena *a = arena_create();
  uint32_t file = sources_add(c->sources, "test.rx", source, strlen(source));
  const Tree *root = tree_parse(c, a, file);
  assert_non_null(root);
  assert_int_equal(diags_errors(c->diags), 0);
  Text t = {0};
  for (uint32_t i = 0; i < root->n; i++) {
    if (i) text_putc(&t, ' ');
    put(&t, root->at[i]);
  }
  assert_string_equal(text_cstr(&t), want);
  text_free(&t);
  arena_free(a);
  context_free(c);
}

static void precedence(void **state) {
  (void)state;
  expect("a + b * c", "(+ a (* b c))");
  expect("a - b - c", "(- (- a b) c)");
  expect("-a ** b", "(- (** a b))");
  expect("a ** -b ** c", "(** a (- (** b c)))");
  expect("a ** b ** c", "(** a (** b c))");
  expect("~a // b @ c % d", "(% (@ (// (~ a) b) c) d)");
  expect("a << b + c & d ^ e | f", "(| (^ (& (<< a (+ b c)) d) e) f)");
  expect("a < b | c", "(< a (| b c))");
  expect("not a == b and c or d", "(or (and (not (== a b)) c) d)");
  expect("not a not in b", "(not (not in a b))");
  expect("a is not b", "(is not a b)");
  expect("a if b else c if d else e", "(if b a (if d c e))");
  expect("lambda x, y: x if y else z", "(lambda x y (if y x z))");
  expect("(a, b)[c](d).e", "([] (tuple a b) c)( d).e");
}

static void literals(void **state) {
  (void)state;
  expect("1_000 + 0x_fF + 0b101 + 0o17", "(+ (+ (+ 1000 255) 5) 15)");
  expect("1.5 + .5 + 2. + 1e3 + 1_0.2_5E-1", "(+ (+ (+ (+ 1.5 0.5) 2) 1000) 1.025)");
  expect("'a\\n\\x41\\101\\'' \"b\" r'\\n'", "\"a\\nAA'b\\\\n\"");
  expect("'''a\n\"b''' u'\\u00e9'", "\"a\\n\\\"b\\xc3\\xa9\"");
  expect("18446744073709551615", "18446744073709551615");
  expect("None, True, ...", "(tuple None True ...)");
  expect("[], (), {}, {1}, {1: 2, **a}, (1,)",
         "(tuple (list) (tuple) (dict) (set 1) (dict 1 2 _ a) (tuple 1))");
  expect("f(a, *b, c=d, **e)", "f( a (star b) c=d (starstar e))");
  expect("a[:, b:, :c:d, ...]", "([] a (tuple (: _ _ _) (: b _ _) (: _ c d) ...))");
}

static void statements(void **state) {
  (void)state;
  expect("a = b = c\nd: e = f, g\nh += i", "(= a b c) (:= d e (tuple f g)) (op= h i)");
  expect("x; y\n\n  # comment\nz", "x y z");
  expect("if a:\n  b\nelif c:\n\td\nelse: e; f\ng", "(if a (do b) (do (if c (do d) (do e f)))) g");
  expect("for i, j in f(k):\n  while l: pass\n",
         "(for (tuple i j) f( k) (do (while l (do a 'pass' statement))))");
  expect("with a as b, c:\n    d\n", "(with (item a b) (item c _) (do d))");
  expect("@a\ndef f[n](x: y, z=1) -> w:\n  return x\n", "(f( x z)(do (return x)))");
  expect("class A(B):\n  x\n  def f(): y\n", "(A( B)(do x (f()(do y))))");
  expect("f(\n a,\n# c\n  b)\nc = \\\n d\n", "f( a b) (= c d)");
  expect("x.in.if = f(in=1)", "(= x.in.if f( in=1))");
  expect("def f(in: a): return in\n", "(f( in)(do (return in)))");
  expect("assert a, b", "(assert a b)");
}

static void spans(void **state) {
  (void)state;
  const char *source = "ab = f(cd +\n  e)  # x\n";
  Context *c = context_create();
  Arena *a = arena_create();
  uint32_t file = sources_add(c->sources, "test.rx", source, strlen(source));
  const Tree *s = tree_parse(c, a, file)->at[0], *call = s->at[1], *sum = call->at[0];
  assert_int_equal(s->begin, 0);
  assert_int_equal(s->end, 16);
  assert_int_equal(call->begin, 5);
  assert_int_equal(call->end, 16);
  assert_int_equal(sum->begin, 7);
  assert_int_equal(sum->end, 15);
  assert_int_equal(sum->b->begin, 14);
  arena_free(a);
  context_free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(precedence),
      cmocka_unit_test(literals),
      cmocka_unit_test(statements),
      cmocka_unit_test(spans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
