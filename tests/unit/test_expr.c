/* Expressions, types, attributes, tensor-level statements. Expected values by hand; bit patterns of
 * small floats from their formats' definitions. */
#include "tests/unit/unit.h"
#include "ir/dim.h"
#include "ir/tir.h"
#include <math.h>
#include <string.h>

static Context *c;

static int setup(void **state) {
  (void)state;
  c = context_create();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  context_free(c);
  return 0;
}

static void interning(void **state) {
  (void)state;
  const Expr *x = var_create(c, "x", DT_F32)->expr, *y = var_create(c, "x", DT_F32)->expr;
  assert_ptr_not_equal(x, y);
  assert_ptr_equal(expr_add(c, x, y), expr_add(c, x, y));
  assert_ptr_not_equal(expr_add(c, x, y), expr_add(c, y, x));
  assert_ptr_equal(expr_float(c, DT_F32, 0.1), expr_float(c, DT_F32, (double)0.1f));
  assert_ptr_not_equal(expr_float(c, DT_F32, 0.0), expr_float(c, DT_F32, -0.0));
  assert_ptr_equal(expr_float(c, DT_F32, NAN), expr_float(c, DT_F32, -NAN));
  assert_ptr_equal(expr_str(c, "a"), expr_str(c, "a"));
  for (int i = 0; i < 5000; i++) expr_i64(c, i * 7);
  assert_ptr_equal(expr_i64(c, 700), expr_i64(c, 700));
}

static void folding(void **state) {
  (void)state;
  const Expr *i = var_create(c, "i", DT_I64)->expr, *x = var_create(c, "x", DT_F32)->expr;
  const Expr *zero = expr_i64(c, 0), *one = expr_i64(c, 1);
  assert_ptr_equal(expr_add(c, i, zero), i);
  assert_ptr_equal(expr_mul(c, i, one), i);
  assert_ptr_equal(expr_mul(c, i, zero), zero);
  assert_ptr_equal(expr_floordiv(c, i, one), i);
  assert_ptr_equal(expr_floormod(c, i, one), zero);
  assert_true(expr_is_int(expr_floordiv(c, expr_i64(c, -7), expr_i64(c, 2)), -4));
  assert_true(expr_is_int(expr_floormod(c, expr_i64(c, -7), expr_i64(c, 2)), 1));
  assert_true(expr_is_int(expr_div(c, expr_i64(c, -7), expr_i64(c, 2)), -3));
  assert_int_equal(expr_floordiv(c, one, zero)->kind, EXPR_FLOORDIV);
  assert_true(expr_is_int(expr_add(c, expr_int(c, DT_I8, 100), expr_int(c, DT_I8, 100)), -56));
  assert_true(expr_is_int(expr_add(c, expr_int(c, DT_U8, 200), expr_int(c, DT_U8, 100)), 44));
  /* what isn't exact for -0 or NaN stays */
  assert_int_equal(expr_add(c, x, expr_float(c, DT_F32, 0))->kind, EXPR_ADD);
  assert_int_equal(expr_mul(c, x, expr_float(c, DT_F32, 0))->kind, EXPR_MUL);
  assert_ptr_equal(expr_mul(c, x, expr_float(c, DT_F32, 1)), x);
  assert_true(isnan(expr_max(c, expr_float(c, DT_F32, NAN), expr_float(c, DT_F32, 1))->f));
  /* literals take the other operand's type, scalars its lanes */
  const Expr *e = expr_add(c, x, expr_int(c, DT_I32, 2));
  assert_int_equal(e->arg[1]->kind, EXPR_FLOAT);
  e = expr_mul(c, expr_broadcast(c, x, 8), expr_int(c, DT_I32, 2));
  assert_int_equal(e->dtype.lanes, 8);
  assert_int_equal(e->arg[1]->kind, EXPR_BROADCAST);
  e = expr_binary(c, EXPR_LT, i, expr_int(c, DT_I32, 2));
  assert_true(dtype_eq(e->dtype, DT_BOOL));
  assert_ptr_equal(expr_if_then_else(c, expr_bool(c, true), i, zero), i);
}

static void rewriting(void **state) {
  (void)state;
  Var *i = var_create(c, "i", DT_I64), *j = var_create(c, "j", DT_I64);
  const Expr *n = expr_i64(c, 8);
  Buffer *a = buffer_create(c, "A", DT_F32, &n, 1, "global");
  Buffer *b = buffer_create(c, "B", DT_F32, &n, 1, "global");
  const Expr *at = expr_add(c, i->expr, expr_i64(c, 1));
  const Expr *e = expr_load(c, a, &at, 1);
  for (int k = 0; k < 200; k++) e = expr_add(c, e, e); /* 2^200 as a tree */
  assert_true(expr_uses_var(e, i));
  assert_false(expr_uses_var(e, j));
  assert_true(expr_has_load(e));
  Map vars, bufs;
  map_init(&vars, c->arena);
  map_init(&bufs, c->arena);
  map_setp(&vars, i, (void *)(uintptr_t)expr_i64(c, 2));
  map_setp(&bufs, a, b);
  const Expr *s = expr_subst(&(Subst){.c = c, .vars = &vars, .buffers = &bufs}, e);
  while (s->kind == EXPR_ADD) s = s->arg[0];
  assert_ptr_equal(s->buf, b);
  assert_true(expr_is_int(s->arg[0], 3));
  VarVec v = {0};
  expr_vars(c->arena, expr_mul(c, expr_add(c, j->expr, i->expr), j->expr), &v);
  assert_int_equal(v.n, 2);
  assert_ptr_equal(v.at[0], j);
}

static void types(void **state) {
  (void)state;
  DType d;
  assert_true(dtype_parse("float32x4", &d));
  assert_string_equal(dtype_name(d), "float32x4");
  assert_true(dtype_parse("int4", &d) && d.bits == 4);
  assert_true(dtype_parse("bool", &d) && dtype_eq(d, DT_BOOL));
  assert_false(dtype_parse("float33", &d));
  assert_false(dtype_parse("int0", &d));
  assert_false(dtype_parse("int32x", &d));
  assert_false(dtype_parse("", &d));
  static const struct {
    const char *type;
    double v;
    uint32_t bits;
  } cases[] = {{"float16", 1.0, 0x3c00},         {"float16", 65504, 0x7bff},
               {"float16", 65520, 0x7c00},       {"float16", 5.9604644775390625e-08, 1},
               {"float16", 2.98e-08, 0},         {"float16", -0.0, 0x8000},
               {"bfloat16", 1.00390625, 0x3f80}, {"bfloat16", 1.01171875, 0x3f82},
               {"float8_e4m3fn", 448, 0x7e},     {"float8_e4m3fn", 500, 0x7f},
               {"float8_e5m2", 57344, 0x7b},     {"float8_e5m2", 1e9, 0x7c},
               {"float32", 1.0, 0x3f800000}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t word[8] = {0};
    uint32_t bits;
    assert_true(dtype_parse(cases[i].type, &d));
    dtype_store_double(d, word, cases[i].v);
    memcpy(&bits, word, 4);
    assert_int_equal(bits, cases[i].bits);
    double back = dtype_load_double(d, word), rounded = dtype_round(d, cases[i].v);
    assert_true(isnan(back) ? isnan(rounded) : back == rounded);
  }
  uint8_t b[8];
  dtype_store_double(DT_I8, b, 300.7);
  assert_int_equal(dtype_load_int(DT_I8, b), 44);
  assert_int_equal(dtype_wrap(DT_I8, 200), -56);
}

static void attributes(void **state) {
  (void)state;
  const Attr *d = attr_with(c->arena, NULL, "b", attr_int(c->arena, 2));
  d = attr_with(c->arena, d, "a", attr_str(c->arena, "x"));
  d = attr_with(c->arena, d, "c", attr_bool(c->arena, true));
  assert_int_equal(d->n, 3);
  assert_string_equal(d->keys[0], "a");
  assert_int_equal(attr_get_int(d, "b", 0), 2);
  assert_string_equal(attr_get_str(d, "a", ""), "x");
  const Attr *e = attr_with(c->arena, attr_without(c->arena, d, "b"), "b", attr_int(c->arena, 2));
  assert_true(attr_equal(d, e));
  assert_true(attr_hash(d) == attr_hash(e));
  assert_false(attr_equal(d, attr_with(c->arena, d, "b", attr_int(c->arena, 3))));
  assert_null(attr_get(d, "z"));
}

/* B[i] = A[i] + 1 over n */
static PrimFunc *add_one(const char *name, double by) {
  Arena *a = c->arena;
  Var *n = var_create_dim(c, "n"), *i = var_create(c, "i", DT_I64),
      *vi = var_create(c, "vi", DT_I64);
  PrimFunc *f = ARENA_NEW(a, PrimFunc);
  f->name = name;
  f->nparams = 2;
  f->params = ARENA_ARRAY(a, Var *, 2);
  f->param_bufs = ARENA_ARRAY(a, Buffer *, 2);
  for (int k = 0; k < 2; k++) {
    f->params[k] = var_create(c, k ? "b" : "a", DT_HANDLE);
    f->param_bufs[k] =
        buffer_create(c, k ? "B" : "A", DT_F32, (const Expr *[]){n->expr}, 1, "global");
  }
  primfunc_collect_dims(c, a, f);
  const Expr *at = vi->expr;
  const Expr *v = expr_add(c, expr_load(c, f->param_bufs[0], &at, 1), expr_float(c, DT_F32, by));
  SBlock *b = ARENA_NEW(a, SBlock);
  b->name = "add";
  b->niters = 1;
  b->iters = ARENA_NEW(a, BlockIter);
  *b->iters = (BlockIter){
      .var = vi, .kind = ITER_SPATIAL, .dom = {expr_i64(c, 0), n->expr}, .value = i->expr};
  b->body = stmt_store(a, SPAN_NONE, f->param_bufs[1], &at, v);
  sblock_derive_regions(c, a, b);
  SBlock *root = ARENA_NEW(a, SBlock);
  root->name = "root";
  root->body =
      stmt_for(a, SPAN_NONE, i, expr_i64(c, 0), n->expr, FOR_SERIAL, stmt_block(a, SPAN_NONE, b));
  f->body = stmt_block(a, SPAN_NONE, root);
  f->s_tir = true;
  return f;
}

static void functions(void **state) {
  (void)state;
  PrimFunc *f = add_one("f", 1), *g = add_one("g", 1), *h = add_one("h", 2);
  assert_int_equal(f->ndims, 1);
  assert_true(primfunc_equal(f, g));
  assert_true(primfunc_hash(f) == primfunc_hash(g));
  assert_false(primfunc_equal(f, h));
  PrimFunc *k = primfunc_copy(c, c->arena, f, "k");
  assert_true(primfunc_equal(f, k));
  assert_ptr_not_equal(f->dims[0], k->dims[0]);
  assert_ptr_not_equal(f->param_bufs[0], k->param_bufs[0]);
  assert_ptr_equal(k->param_bufs[0]->shape[0], k->dims[0]->expr);
  const SBlock *b = primfunc_root(k)->body->loop.body->block;
  assert_int_equal(b->nreads, 1);
  assert_ptr_equal(b->reads[0].buf, k->param_bufs[0]);
  assert_ptr_equal(b->writes[0].ranges[0].min, b->iters[0].var->expr);
  /* identity rewriting shares everything */
  assert_ptr_equal(stmt_rewrite(c, c->arena, f->body, NULL, NULL, NULL), f->body);
}

/* Regions of a block that loops over a window: B[i] = sum of A[i * 2 + k], k < 3. */
static void regions(void **state) {
  (void)state;
  Arena *a = c->arena;
  Var *i = var_create(c, "i", DT_I64), *k = var_create(c, "k", DT_I64);
  const Expr *n = expr_i64(c, 20);
  Buffer *x = buffer_create(c, "A", DT_F32, &n, 1, "global");
  Buffer *y = buffer_create(c, "B", DT_F32, &n, 1, "global");
  const Expr *at = expr_add(c, expr_mul(c, i->expr, expr_i64(c, 2)), k->expr), *out = i->expr;
  const Expr *sum = expr_add(c, expr_load(c, y, &out, 1), expr_load(c, x, &at, 1));
  SBlock b = {.name = "sum"};
  b.init = stmt_store(a, SPAN_NONE, y, &out, expr_float(c, DT_F32, 0));
  b.body = stmt_for(a, SPAN_NONE, k, expr_i64(c, 0), expr_i64(c, 3), FOR_SERIAL,
                    stmt_store(a, SPAN_NONE, y, &out, sum));
  sblock_derive_regions(c, a, &b);
  assert_int_equal(b.nreads, 1);
  assert_int_equal(b.nwrites, 1);
  assert_ptr_equal(b.reads[0].buf, x);
  assert_ptr_equal(b.reads[0].ranges[0].min, expr_mul(c, i->expr, expr_i64(c, 2)));
  assert_true(expr_is_int(b.reads[0].ranges[0].extent, 3));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(interning, setup, teardown),
      cmocka_unit_test_setup_teardown(folding, setup, teardown),
      cmocka_unit_test_setup_teardown(rewriting, setup, teardown),
      cmocka_unit_test_setup_teardown(types, setup, teardown),
      cmocka_unit_test_setup_teardown(attributes, setup, teardown),
      cmocka_unit_test_setup_teardown(functions, setup, teardown),
      cmocka_unit_test_setup_teardown(regions, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
