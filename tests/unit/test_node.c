/* Nodes and functions: use lists after every kind of change, names, deletion, order of the walk,
 * and the text of a small function in both dialects. Expected values by hand; the texts as TVM 0.27
 * (and, for the earlier dialect, 0.20) prints them. */
#include "tests/unit/unit.h"
#include "ir/op.h"
#include "ir/print.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  Context *c;
  Module *m;
  Func *f;
  Node *x, *y;
  BindingBlock *b;
} Fixture;

static int setup(void **state) {
  Fixture *s = xmalloc(sizeof *s);
  memset(s, 0, sizeof *s);
  s->c = context_create();
  s->m = module_create(s->c);
  s->f = func_create(s->m, "main", SPAN_NONE);
  Var *n = var_create_dim(s->c, "n");
  const SInfo *t = sinfo_tensor(s->c, (const Expr *[]){n->expr, expr_i64(s->c, 4)}, 2, DT_F32);
  s->x = func_add_param(s->f, "x", t, SPAN_NONE);
  s->y = func_add_param(s->f, "y", t, SPAN_NONE);
  s->b = block_append(s->f, &s->f->body, NULL, true, SPAN_NONE);
  module_add_func(s->m, s->f);
  *state = s;
  return 0;
}

static int teardown(void **state) {
  Fixture *s = *state;
  context_free(s->c);
  free(s);
  return 0;
}

static Node *make(Fixture *s, OpId op, Node *a, Node *b) {
  Node *n = node_create(s->f, op, (Node *[]){a, b}, b ? 2 : 1, SPAN_NONE);
  n->sinfo = a->sinfo;
  return n;
}

/* Checks that every use stands in its definition's list and nowhere else. */
static void check_uses(Node *def, uint32_t want) {
  assert_int_equal(node_count_uses(def), want);
  for (Use *u = def->uses; u; u = u->next) {
    assert_ptr_equal(u->def, def);
    assert_true(u >= u->user->in && u < u->user->in + u->user->nin);
    if (u->next) assert_ptr_equal(u->next->prev, u);
  }
}

static void edges_stay_right(void **state) {
  Fixture *s = *state;
  Node *a = make(s, OP_TUPLE, s->x, s->y);
  check_uses(s->x, 1);
  node_add_in(a, s->x, SPAN_NONE);
  check_uses(s->x, 2);
  node_set_in(a, 0, s->y);
  check_uses(s->x, 1);
  check_uses(s->y, 2);
  node_set_ins(a, (Node *[]){s->x}, 1);
  check_uses(s->x, 1);
  check_uses(s->y, 0);
  Node *b = make(s, OP_ALIAS, a, NULL), *c = make(s, OP_ALIAS, a, NULL);
  node_replace_uses(a, c); /* c itself goes on using a */
  check_uses(a, 1);
  check_uses(c, 1);
  assert_ptr_equal(node_in(b, 0), c);
}

static void names_are_unique(void **state) {
  Fixture *s = *state;
  Node *a = make(s, OP_ALIAS, s->x, NULL), *b = make(s, OP_ALIAS, s->x, NULL),
       *c = make(s, OP_ALIAS, s->x, NULL), *d = make(s, OP_ALIAS, s->x, NULL);
  node_bind_last(s->b, a, NULL);
  node_bind_last(s->b, b, "x");
  node_bind_before(a, c, NULL);
  node_bind_after(a, d, "x");
  assert_string_equal(a->name, "lv");
  assert_string_equal(b->name, "x_1");
  assert_string_equal(c->name, "lv1");
  assert_string_equal(d->name, "x_2");
  assert_ptr_equal(s->b->first, c);
  assert_ptr_equal(a->next, d);
  assert_ptr_equal(d->next, b);
  assert_int_equal(s->b->n, 4);
  node_unbind(a);
  node_bind_last(s->b, a, NULL);
  assert_string_equal(a->name, "lv");
  assert_ptr_equal(s->b->last, a);
  assert_string_equal(module_unique_name(s->m, "main"), "main1");
  assert_string_equal(module_unique_name(s->m, "main"), "main2");
  assert_string_equal(module_unique_name(s->m, "other"), "other");
}

static void deletion_takes_floating_operands(void **state) {
  Fixture *s = *state;
  ConstData *k = const_scalar(s->m, DT_F32, 2, 0);
  Node *one = node_const(s->f, k, SPAN_NONE);
  Node *t = node_tuple(s->f, (Node *[]){one, s->x, s->x}, 3, SPAN_NONE);
  Node *a = make(s, OP_ALIAS, t, NULL);
  node_bind_last(s->b, a, NULL);
  check_uses(s->x, 2);
  node_delete(a);
  check_uses(s->x, 0);
  check_uses(t, 0);
  check_uses(one, 0);
  assert_int_equal(s->b->n, 0);
  assert_null(s->b->first);
}

static void record(Node *n, void *ctx) {
  Text *t = ctx;
  text_printf(t, "%s ", n->name);
}

/* if y: then t, else e; the branches come before the `if`. */
static Node *make_if(Fixture *s, BindingBlock *b) {
  Node *n = node_create(s->f, OP_IF, &s->y, 1, SPAN_NONE);
  Seq *seqs[] = {&n->if_.then_, &n->if_.else_};
  for (int i = 0; i < 2; i++) {
    BindingBlock *in = block_append(s->f, seqs[i], n, false, SPAN_NONE);
    Node *v = make(s, OP_ALIAS, s->x, NULL);
    node_bind_last(in, v, i ? "e" : "t");
    seqs[i]->yield = make(s, OP_YIELD, v, NULL);
  }
  n->sinfo = s->x->sinfo;
  node_bind_last(b, n, "r");
  return n;
}

static void walk_enters_branches_first(void **state) {
  Fixture *s = *state;
  Node *a = make(s, OP_ALIAS, s->x, NULL);
  node_bind_last(s->b, a, "a");
  BindingBlock *b = block_append(s->f, &s->f->body, NULL, false, SPAN_NONE);
  Node *n = make_if(s, b);
  Text t = {0};
  func_each_node(s->f, record, &t);
  assert_string_equal(text_cstr(&t), "a t e r ");
  text_free(&t);
  check_uses(s->x, 3);
  node_delete(n); /* with its branches */
  check_uses(s->x, 1);
  check_uses(s->y, 0);
  node_delete(a);
  block_remove(s->b);
  assert_ptr_equal(s->f->body.first, b);
  assert_ptr_equal(s->f->body.last, b);
}

static void params_and_dims(void **state) {
  Fixture *s = *state;
  func_collect_dims(s->f);
  assert_int_equal(s->f->ndims, 1);
  assert_string_equal(s->f->dims[0]->name, "n");
  func_remove_param(s->f, 0);
  assert_int_equal(s->f->nparams, 1);
  assert_ptr_equal(s->f->params[0], s->y);
  assert_int_equal(s->y->index, 0);
}

static const char today[] =
    "# from typing import TypeVar\n"
    "# from tvm.script import ir as I\n"
    "# from tvm.script import tirx as T\n"
    "# from tvm.script import relax as R\n"
    "\n"
    "n = TypeVar(\"n\")\n"
    "@I.ir_module\n"
    "class Module:\n"
    "    @R.function\n"
    "    def main(x: R.Tensor((n, 4), dtype=\"float32\"), y: R.Tensor((n, 4), "
    "dtype=\"float32\")) -> R.Tensor((n, 4), dtype=\"float32\"):\n"
    "        with R.dataflow():\n"
    "            lv: R.Tensor((n, 4), dtype=\"float32\") = x\n"
    "            R.output(lv)\n"
    "        return lv\n";

static const char earlier[] = "# from tvm.script import ir as I\n"
                              "# from tvm.script import tir as T\n"
                              "# from tvm.script import relax as R\n"
                              "\n"
                              "@I.ir_module\n"
                              "class Module:\n"
                              "    @R.function\n"
                              "    def main(x: R.Tensor((\"n\", 4), dtype=\"float32\"), y: "
                              "R.Tensor((\"n\", 4), dtype=\"float32\")) -> R.Tensor((\"n\", 4), "
                              "dtype=\"float32\"):\n"
                              "        n = T.int64()\n"
                              "        with R.dataflow():\n"
                              "            lv: R.Tensor((n, 4), dtype=\"float32\") = x\n"
                              "            R.output(lv)\n"
                              "        return lv\n";

static void prints_both_dialects(void **state) {
  Fixture *s = *state;
  Node *a = make(s, OP_ALIAS, s->x, NULL);
  node_bind_last(s->b, a, NULL);
  a->is_output = true;
  s->f->body.yield = make(s, OP_YIELD, a, NULL);
  s->f->ret = a->sinfo;
  Text t = {0};
  module_print(&t, s->m, DIALECT_TODAY);
  assert_string_equal(text_cstr(&t), today);
  text_clear(&t);
  module_print(&t, s->m, DIALECT_EARLIER);
  assert_string_equal(text_cstr(&t), earlier);
  text_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(edges_stay_right, setup, teardown),
      cmocka_unit_test_setup_teardown(names_are_unique, setup, teardown),
      cmocka_unit_test_setup_teardown(deletion_takes_floating_operands, setup, teardown),
      cmocka_unit_test_setup_teardown(walk_enters_branches_first, setup, teardown),
      cmocka_unit_test_setup_teardown(params_and_dims, setup, teardown),
      cmocka_unit_test_setup_teardown(prints_both_dialects, setup, teardown),
  };
  return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
