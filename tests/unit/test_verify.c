/* The verifier on modules that a wrong pass could have made: each rule is broken once, and the
 * message must end with its number. Which rule is broken follows from ir/verify.c's list. */
#include "tests/unit/unit.h"
#include "ir/op.h"
#include "ir/verify.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  Context *c;
  Module *m;
  Func *f;
  Node *x;
  BindingBlock *b;
  Text said;
} Fixture;

static Node *make(Fixture *s, OpId op, Node *a) {
  Node *n = node_create(s->f, op, &a, 1, SPAN_NONE);
  n->sinfo = a->sinfo;
  return n;
}

/* def main(x): with dataflow: lv = x; output(lv); return lv */
static int setup(void **state) {
  Fixture *s = xmalloc(sizeof *s);
  memset(s, 0, sizeof *s);
  s->c = context_create();
  diags_set_text(s->c->diags, &s->said);
  s->m = module_create(s->c);
  s->f = func_create(s->m, "main", SPAN_NONE);
  Var *n = var_create_dim(s->c, "n");
  const SInfo *t = sinfo_tensor(s->c, (const Expr *[]){n->expr, expr_i64(s->c, 4)}, 2, DT_F32);
  s->x = func_add_param(s->f, "x", t, SPAN_NONE);
  s->b = block_append(s->f, &s->f->body, NULL, true, SPAN_NONE);
  Node *lv = make(s, OP_ALIAS, s->x);
  node_bind_last(s->b, lv, NULL);
  lv->is_output = true;
  s->f->body.yield = make(s, OP_YIELD, lv);
  s->f->ret = t;
  module_add_func(s->m, s->f);
  *state = s;
  return 0;
}

static int teardown(void **state) {
  Fixture *s = *state;
  text_free(&s->said);
  context_free(s->c);
  free(s);
  return 0;
}

static void expect(Fixture *s, const char *rule) {
  bool ok = module_verify(s->m, "ThePass");
  if (!rule) {
    assert_string_equal(text_cstr(&s->said), "");
    assert_true(ok);
    return;
  }
  assert_false(ok);
  if (!strstr(text_cstr(&s->said), rule)) fail_msg("no %s in: %s", rule, text_cstr(&s->said));
  assert_non_null(strstr(text_cstr(&s->said), "after ThePass: "));
}

static void a_good_module_passes(void **state) {
  expect(*state, NULL);
}

static void r1_one_name_twice(void **state) {
  Fixture *s = *state;
  s->b->first->name = "x";
  expect(s, "[R1]");
}

static void r2_use_before_definition(void **state) {
  Fixture *s = *state;
  Node *a = make(s, OP_ALIAS, s->b->first);
  node_bind_before(s->b->first, a, NULL);
  expect(s, "[R2]");
}

static void r3_dataflow_variable_escapes(void **state) {
  Fixture *s = *state;
  s->b->first->is_output = false;
  expect(s, "[R3]");
}

static void r4_no_struct_info(void **state) {
  Fixture *s = *state;
  s->b->first->sinfo = NULL;
  expect(s, "[R4]");
}

static void r7_unknown_variable(void **state) {
  Fixture *s = *state;
  Var *m = var_create_dim(s->c, "m");
  s->b->first->sinfo = sinfo_tensor(s->c, &m->expr, 1, DT_F32);
  s->f->ret = NULL;
  expect(s, "[R7]");
}

static void r10_operator_left(void **state) {
  Fixture *s = *state;
  Node *a = make(s, OP_abs, s->x);
  node_bind_last(s->b, a, NULL);
  expect(s, NULL);
  s->m->legalized = true;
  expect(s, "[R10]");
}

static void r11_no_such_function(void **state) {
  Fixture *s = *state;
  Node *g = node_global(s->f, "gone", SPAN_NONE);
  Node *a = node_create(s->f, OP_CALL, (Node *[]){g, s->x}, 2, SPAN_NONE);
  a->sinfo = s->x->sinfo;
  node_bind_last(s->b, a, NULL);
  expect(s, "[R11]");
}

static void r12_no_result(void **state) {
  Fixture *s = *state;
  s->f->body.yield = NULL;
  expect(s, "[R12]");
}

/* A prim_func of one float32 buffer A of shape (4,) with the given body. */
static PrimFunc *add_prim(Fixture *s, Buffer **a) {
  PrimFunc *p = primfunc_create(s->m, "k", SPAN_NONE);
  const Expr *four = expr_i64(s->c, 4);
  *a = buffer_create(s->c, "A", DT_F32, &four, 1, "global");
  p->nparams = 1;
  p->params = ARENA_ARRAY(s->m->arena, Var *, 1);
  p->param_bufs = ARENA_ARRAY(s->m->arena, Buffer *, 1);
  p->params[0] = var_create(s->c, "A", DT_HANDLE);
  p->param_bufs[0] = *a;
  module_add_prim(s->m, p);
  return p;
}

static void tensor_level_rules(void **state) {
  Fixture *s = *state;
  Context *c = s->c;
  Arena *ar = s->m->arena;
  Buffer *a;
  PrimFunc *p = add_prim(s, &a);
  Var *i = var_create(c, "i", DT_I64);
  const Expr *zero = expr_i64(c, 0), *one = expr_lit(c, DT_F32, 1);
  p->body = stmt_for(ar, SPAN_NONE, i, zero, expr_i64(c, 4), FOR_SERIAL,
                     stmt_store(ar, SPAN_NONE, a, &i->expr, one));
  expect(s, NULL);
  p->body = stmt_store(ar, SPAN_NONE, a, &i->expr, one);
  expect(s, "[T1]");
  text_clear(&s->said);
  Buffer *b = buffer_create(c, "B", DT_F32, a->shape, 1, "global");
  p->body = stmt_store(ar, SPAN_NONE, b, &zero, one);
  expect(s, "[T2]");
  text_clear(&s->said);
  p->body = stmt_store(ar, SPAN_NONE, a, &one, one);
  expect(s, "[T3]");
  text_clear(&s->said);
  p->body = stmt_store(ar, SPAN_NONE, a, &zero, expr_lit(c, DT_F64, 1));
  expect(s, "[T4]");
  text_clear(&s->said);
  SBlock *k = ARENA_NEW(ar, SBlock);
  k->name = "root";
  k->body = stmt_store(ar, SPAN_NONE, a, &zero, one);
  p->body = stmt_block(ar, SPAN_NONE, k);
  expect(s, "[T5]");
  text_clear(&s->said);
  p->s_tir = true;
  expect(s, NULL);
  p->body = stmt_if(ar, SPAN_NONE, zero, k->body, NULL);
  expect(s, "[T7]");
  text_clear(&s->said);
  p->body = stmt_for(ar, SPAN_NONE, i, expr_int(c, DT_I32, 0), expr_i64(c, 4), FOR_SERIAL, k->body);
  expect(s, "[T9]");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(a_good_module_passes),
      TEST(r1_one_name_twice),
      TEST(r2_use_before_definition),
      TEST(r3_dataflow_variable_escapes),
      TEST(r4_no_struct_info),
      TEST(r7_unknown_variable),
      TEST(r10_operator_left),
      TEST(r11_no_such_function),
      TEST(r12_no_result),
      TEST(tensor_level_rules),
  };
  return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
