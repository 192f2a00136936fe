/* The scheduler against the interpreter: a prim_func computes the same before and after.
 *
 * Expected values come from interpreting the original blocks (ir/eval.h), which shares nothing with
 * the scheduler. Shapes include 0, 1 and odd sizes; every variant of x86-64 is scheduled.
 */
#include "tests/unit/unit.h"
#include "codegen/target.h"
#include "ir/context.h"
#include "ir/eval.h"
#include "ir/module.h"
#include "ir/print.h"
#include "passes/pass.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool pass_schedule_tir(PassCtx *pc);

/* ---- building prim_funcs ---- */

#define RANK 6
typedef struct {
  Context *c;
  Module *m;
  Arena *a;
  PrimFunc *f;
  VEC(Var *) params;
  VEC(Buffer *) bufs;
  VEC(Buffer *) temps;
  VEC(Stmt *) stages;
  /* the stage being built */
  const Expr *ax[RANK * 2];
  Var *loops[RANK * 2], *axes[RANK * 2];
  const Expr *extents[RANK * 2];
  uint32_t ns, nr;
} B;

static void begin(B *b) {
  *b = (B){.c = context_create()};
  b->m = module_create(b->c);
  b->a = b->m->arena;
  b->f = primfunc_create(b->m, "f", SPAN_NONE);
}

static const Expr *I(B *b, int64_t v) {
  return expr_i64(b->c, v);
}

static Buffer *buffer(B *b, const char *name, DType d, uint32_t n, const Expr *const *shape) {
  const Expr **s = arena_alloc(b->c->arena, (n + 1) * sizeof *s);
  for (uint32_t i = 0; i < n; i++) s[i] = shape[i];
  return buffer_create(b->c, name, d, s, n, "global");
}
static Buffer *param(B *b, const char *name, DType d, uint32_t n, const Expr *const *shape) {
  Buffer *x = buffer(b, name, d, n, shape);
  vec_push(b->a, &b->params, var_create(b->c, name, DT_HANDLE));
  vec_push(b->a, &b->bufs, x);
  return x;
}
static Buffer *temp(B *b, const char *name, DType d, uint32_t n, const Expr *const *shape) {
  Buffer *x = buffer(b, name, d, n, shape);
  vec_push(b->a, &b->temps, x);
  return x;
}

static void stage(B *b, uint32_t ns, uint32_t nr, const Expr *const *extents) {
  b->ns = ns;
  b->nr = nr;
  for (uint32_t i = 0; i < ns + nr; i++) {
    b->loops[i] = var_create(b->c, "i", DT_I64);
    b->axes[i] = var_create(b->c, "v", DT_I64);
    b->ax[i] = b->axes[i]->expr;
    b->extents[i] = extents[i];
  }
}

/* out[spatial axes] = value, or init then out = update(out) */
static void stage_end(B *b, Buffer *out, const Expr *init, const Expr *value) {
  SBlock *k = ARENA_NEW(b->a, SBlock);
  k->name = out->name;
  k->niters = b->ns + b->nr;
  k->iters = ARENA_ARRAY(b->a, BlockIter, k->niters);
  for (uint32_t i = 0; i < k->niters; i++)
    k->iters[i] = (BlockIter){.var = b->axes[i],
                              .kind = i < b->ns ? ITER_SPATIAL : ITER_REDUCE,
                              .dom = {expr_i64(b->c, 0), b->extents[i]},
                              .value = b->loops[i]->expr};
  k->body = stmt_store(b->a, SPAN_NONE, out, b->ax, value);
  if (init) k->init = stmt_store(b->a, SPAN_NONE, out, b->ax, init);
  Stmt *s = stmt_block(b->a, SPAN_NONE, k);
  for (uint32_t i = k->niters; i-- > 0;)
    s = stmt_for(b->a, SPAN_NONE, b->loops[i], expr_i64(b->c, 0), b->extents[i], FOR_SERIAL, s);
  vec_push(b->a, &b->stages, s);
}

static void finish(B *b) {
  SBlock *root = ARENA_NEW(b->a, SBlock);
  root->name = "root";
  root->allocs = b->temps.at;
  root->nallocs = b->temps.n;
  root->body = stmt_seq(b->a, b->stages.at, b->stages.n);
  b->f->params = b->params.at;
  b->f->param_bufs = b->bufs.at;
  b->f->nparams = b->params.n;
  b->f->s_tir = true;
  b->f->body = stmt_block(b->a, SPAN_NONE, root);
  primfunc_collect_dims(b->c, b->a, b->f);
  module_add_prim(b->m, b->f);
}

/* ---- running ---- */

static void print(B *b) {
  if (!getenv("SHOW")) return;
  Text t = {0};
  module_print(&t, b->m, DIALECT_TODAY);
  puts(text_cstr(&t));
}

static const Target *target_for(const char *march) {
  static Target t;
  const char *error = NULL;
  assert_true(target_init(&t, "x86_64-unknown-linux-gnu", march, NULL, &error));
  return &t;
}

static void schedule(B *b, const Target *t) {
  Arena *scratch = arena_create();
  PassCtx pc = {.c = b->c, .m = b->m, .scratch = scratch, .target = t, .opt_level = 2};
  assert_true(pass_schedule_tir(&pc));
  arena_free(scratch);
}

/* The variant scheduled for, as its own prim_func (one target variant at a time keeps its name). */
static const char *const archs[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

/* Random contents; the same for both runs. */
static void fill(Value *v, uint64_t seed) {
  int64_t n = 1;
  for (int32_t i = 0; i < v->ndim; i++) n *= v->dims[i];
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    int r = (int)((seed >> 40) % 17) - 8;
    char *p = (char *)v->data + (size_t)i * dtype_bytes(v->dtype);
    if (dtype_is_float(v->dtype))
      dtype_store_double(v->dtype, p, r / 8.0);
    else
      dtype_store_int(v->dtype, p, r);
  }
}

typedef void (*Build)(B *b, const int64_t *sizes);

/* Every element of every parameter buffer agrees between the blocks and each variant's loops. The
 * values are multiples of 1/8 and small: sums are exact in any order, so that equality is exact
 * unless `tolerance` allows for functions of them. */
static void compare(Build build, const int64_t *sizes, const char *const *dim_names,
                    const int64_t *dim_values, double tolerance) {
  for (int arch = -1; arch < 3; arch++) {
    static double *expected[16];
    static size_t counts[16];
    B b;
    begin(&b);
    build(&b, sizes);
    finish(&b);
    if (arch >= 0) schedule(&b, target_for(archs[arch]));
    print(&b);
    Value *args[16];
    assert_true(b.f->nparams <= 16);
    for (uint32_t i = 0; i < b.f->nparams; i++) {
      const Buffer *p = b.f->param_bufs[i];
      int64_t dims[RANK];
      Map vars;
      map_init(&vars, b.a);
      for (int k = 0; dim_names && dim_names[k]; k++)
        for (uint32_t d = 0; d < b.f->ndims; d++)
          if (!strcmp(b.f->dims[d]->name, dim_names[k]))
            map_setp(&vars, b.f->dims[d], (void *)expr_i64(b.c, dim_values[k]));
      Subst s = {b.c, &vars, NULL};
      for (uint32_t d = 0; d < p->ndim; d++)
        assert_true(expr_const_int(b.c, expr_simplify(b.c, expr_subst(&s, p->shape[d])), &dims[d]));
      args[i] = value_tensor(b.a, p->dtype, dims, (int32_t)p->ndim, NULL);
      if (!attr_get_bool(b.f->attrs, "relaxc.workspace", false) || i + 1 < b.f->nparams)
        fill(args[i], i + 1);
    }
    bool ok = primfunc_eval(b.m, b.a, b.f, args, b.f->nparams);
    assert_true(ok);
    for (uint32_t i = 0; i < b.params.n && i < 16; i++) {
      size_t n = 1;
      for (int32_t d = 0; d < args[i]->ndim; d++) n *= (size_t)args[i]->dims[d];
      if (arch < 0) {
        expected[i] = realloc(expected[i], (n + 1) * sizeof(double));
        counts[i] = n;
      }
      assert_int_equal(counts[i], n);
      for (size_t k = 0; k < n; k++) {
        const char *p = (char *)args[i]->data + k * dtype_bytes(args[i]->dtype);
        double v = dtype_is_float(args[i]->dtype) ? dtype_load_double(args[i]->dtype, p)
                                                  : (double)dtype_load_int(args[i]->dtype, p);
        if (arch < 0)
          expected[i][k] = v;
        else if (!(fabs(v - expected[i][k]) <= tolerance * (1 + fabs(expected[i][k]))))
          fail_msg("%s: parameter %u, element %zu: expected %g, got %g", archs[arch], (unsigned)i,
                   k, expected[i][k], v);
      }
    }
    context_free(b.c);
  }
}

/* ---- kernels ---- */

#define L(b, buf, ...) expr_load((b)->c, (buf), (const Expr *[]){__VA_ARGS__}, (buf)->ndim)
#define SHAPE(...) ((const Expr *[]){__VA_ARGS__})

static const Expr *dim(B *b, const char *name, int64_t size) {
  return size < 0 ? var_create_dim(b->c, name)->expr : I(b, size);
}

/* relu(x @ w + bias); sizes m, n, k, negative: symbolic; sizes[3]: element type, sizes[4]: w is
 * transposed, sizes[5]: no epilogue */
static void build_matmul(B *b, const int64_t *z) {
  DType d = z[3] == 0 ? DT_F32 : z[3] == 1 ? DT_F64 : DT_I32;
  const Expr *m = dim(b, "m", z[0]), *n = dim(b, "n", z[1]), *k = dim(b, "k", z[2]);
  Buffer *x = param(b, "x", d, 2, SHAPE(m, k));
  Buffer *w = param(b, "w", d, 2, z[4] ? SHAPE(n, k) : SHAPE(k, n));
  Buffer *bias = param(b, "bias", d, 1, SHAPE(n));
  Buffer *y = param(b, "y", d, 2, SHAPE(m, n));
  Buffer *t = z[5] ? y : temp(b, "t", d, 2, SHAPE(m, n));
  stage(b, 2, 1, SHAPE(m, n, k));
  const Expr *i = b->ax[0], *j = b->ax[1], *kk = b->ax[2];
  const Expr *p = expr_mul(b->c, L(b, x, i, kk), z[4] ? L(b, w, j, kk) : L(b, w, kk, j));
  stage_end(b, t, expr_lit(b->c, d, 0), expr_add(b->c, L(b, t, i, j), p));
  if (z[5]) return;
  Buffer *u = temp(b, "u", d, 2, SHAPE(m, n));
  stage(b, 2, 0, SHAPE(m, n));
  stage_end(b, u, NULL, expr_add(b->c, L(b, t, b->ax[0], b->ax[1]), L(b, bias, b->ax[1])));
  stage(b, 2, 0, SHAPE(m, n));
  stage_end(b, y, NULL, expr_max(b->c, L(b, u, b->ax[0], b->ax[1]), expr_lit(b->c, d, 0)));
}

static void matmul_static(void **state) {
  (void)state;
  const int64_t cases[][6] = {{1, 37, 19, 0, 0, 0}, {5, 16, 8, 0, 0, 0},  {13, 33, 7, 0, 0, 0},
                              {30, 50, 3, 1, 0, 0}, {7, 9, 11, 2, 0, 0},  {6, 20, 9, 0, 1, 0},
                              {1, 20, 33, 0, 1, 0}, {4, 5, 0, 0, 0, 1},   {0, 5, 6, 0, 0, 0},
                              {3, 0, 6, 0, 0, 1},   {17, 1, 40, 0, 0, 0}, {2, 70, 1030, 0, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    compare(build_matmul, cases[i], NULL, NULL, 0);
}

static void matmul_symbolic(void **state) {
  (void)state;
  const int64_t sizes[] = {-1, 21, 10, 0, 0, 0}, all[] = {-1, -1, -1, 0, 0, 0};
  static const char *const m[] = {"m", NULL}, *const mnk[] = {"m", "n", "k", NULL};
  for (int64_t v = 0; v < 30; v++) compare(build_matmul, sizes, m, &v, 0);
  const int64_t v[][3] = {{0, 3, 4}, {1, 33, 5}, {3, 0, 5}, {4, 5, 0}, {20, 40, 6}, {15, 17, 3}};
  for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) compare(build_matmul, all, mnk, v[i], 0);
}

/* softmax over the last axis; sizes rows, columns */
static void build_softmax(B *b, const int64_t *z) {
  const Expr *n = dim(b, "n", z[0]), *k = dim(b, "k", z[1]);
  Context *c = b->c;
  Buffer *x = param(b, "x", DT_F32, 2, SHAPE(n, k)), *y = param(b, "y", DT_F32, 2, SHAPE(n, k));
  Buffer *mx = temp(b, "mx", DT_F32, 1, SHAPE(n)), *sum = temp(b, "sum", DT_F32, 1, SHAPE(n));
  Buffer *ex = temp(b, "ex", DT_F32, 2, SHAPE(n, k));
  stage(b, 1, 1, SHAPE(n, k));
  stage_end(b, mx, expr_float(c, DT_F32, -3.0e38),
            expr_max(c, L(b, mx, b->ax[0]), L(b, x, b->ax[0], b->ax[1])));
  stage(b, 2, 0, SHAPE(n, k));
  stage_end(
      b, ex, NULL,
      expr_call1(c, INTRIN_exp, expr_sub(c, L(b, x, b->ax[0], b->ax[1]), L(b, mx, b->ax[0]))));
  stage(b, 1, 1, SHAPE(n, k));
  stage_end(b, sum, expr_lit(c, DT_F32, 0),
            expr_add(c, L(b, sum, b->ax[0]), L(b, ex, b->ax[0], b->ax[1])));
  stage(b, 2, 0, SHAPE(n, k));
  stage_end(b, y, NULL, expr_div(c, L(b, ex, b->ax[0], b->ax[1]), L(b, sum, b->ax[0])));
}

static void softmax_rows(void **state) {
  (void)state;
  const int64_t cases[][2] = {{3, 10}, {1, 100}, {2, 1}, {0, 5}, {5, 64}, {2, 131}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    compare(build_softmax, cases[i], NULL, NULL, 1e-5);
  const int64_t symbolic[] = {-1, -1}, v[][2] = {{2, 7}, {3, 70}, {0, 4}, {1, 1}};
  static const char *const names[] = {"n", "k", NULL};
  for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
    compare(build_softmax, symbolic, names, v[i], 1e-5);
}

/* softmax over the first of (channels, rows, columns): lanes are columns */
static void build_softmax_first(B *b, const int64_t *z) {
  const Expr *k = I(b, z[0]), *h = I(b, z[1]), *w = dim(b, "w", z[2]);
  Context *c = b->c;
  Buffer *x = param(b, "x", DT_F32, 3, SHAPE(k, h, w)),
         *y = param(b, "y", DT_F32, 3, SHAPE(k, h, w));
  Buffer *mx = temp(b, "mx", DT_F32, 2, SHAPE(h, w)), *sum = temp(b, "sum", DT_F32, 2, SHAPE(h, w));
  Buffer *ex = temp(b, "ex", DT_F32, 3, SHAPE(k, h, w));
  stage(b, 2, 1, SHAPE(h, w, k));
  stage_end(b, mx, expr_float(c, DT_F32, -3.0e38),
            expr_max(c, L(b, mx, b->ax[0], b->ax[1]), L(b, x, b->ax[2], b->ax[0], b->ax[1])));
  stage(b, 3, 0, SHAPE(k, h, w));
  stage_end(
      b, ex, NULL,
      expr_call1(c, INTRIN_exp,
                 expr_sub(c, L(b, x, b->ax[0], b->ax[1], b->ax[2]), L(b, mx, b->ax[1], b->ax[2]))));
  stage(b, 2, 1, SHAPE(h, w, k));
  stage_end(b, sum, expr_lit(c, DT_F32, 0),
            expr_add(c, L(b, sum, b->ax[0], b->ax[1]), L(b, ex, b->ax[2], b->ax[0], b->ax[1])));
  stage(b, 3, 0, SHAPE(k, h, w));
  stage_end(b, y, NULL,
            expr_div(c, L(b, ex, b->ax[0], b->ax[1], b->ax[2]), L(b, sum, b->ax[1], b->ax[2])));
}

static void softmax_columns(void **state) {
  (void)state;
  const int64_t cases[][3] = {{3, 5, 20}, {10, 1, 9}, {300, 2, 40}, {4, 7, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    compare(build_softmax_first, cases[i], NULL, NULL, 1e-5);
  const int64_t symbolic[] = {3, 2, -1};
  static const char *const names[] = {"w", NULL};
  for (int64_t v = 0; v < 40; v += 13) compare(build_softmax_first, symbolic, names, &v, 1e-5);
}

/* layer_norm over the last axis with scale and offset, of x + r; sizes rows, columns */
static void build_layer_norm(B *b, const int64_t *z) {
  const Expr *n = dim(b, "n", z[0]), *k = I(b, z[1]);
  Context *c = b->c;
  DType d = DT_F32;
  Buffer *x = param(b, "x", d, 2, SHAPE(n, k)), *r = param(b, "r", d, 2, SHAPE(n, k));
  Buffer *g = param(b, "g", d, 1, SHAPE(k)), *o = param(b, "o", d, 1, SHAPE(k));
  Buffer *y = param(b, "y", d, 2, SHAPE(n, k)), *res = param(b, "res", d, 2, SHAPE(n, k));
  Buffer *sum = temp(b, "sum", d, 1, SHAPE(n)), *mean = temp(b, "mean", d, 1, SHAPE(n));
  Buffer *var = temp(b, "var", d, 1, SHAPE(n));
  stage(b, 2, 0, SHAPE(n, k));
  stage_end(b, res, NULL, expr_add(c, L(b, x, b->ax[0], b->ax[1]), L(b, r, b->ax[0], b->ax[1])));
  stage(b, 1, 1, SHAPE(n, k));
  stage_end(b, sum, expr_lit(c, d, 0),
            expr_add(c, L(b, sum, b->ax[0]), L(b, res, b->ax[0], b->ax[1])));
  stage(b, 1, 0, SHAPE(n));
  stage_end(b, mean, NULL, expr_div(c, L(b, sum, b->ax[0]), expr_lit(c, d, (double)z[1])));
  stage(b, 1, 1, SHAPE(n, k));
  const Expr *e = expr_sub(c, L(b, res, b->ax[0], b->ax[1]), L(b, mean, b->ax[0]));
  stage_end(b, var, expr_lit(c, d, 0), expr_add(c, L(b, var, b->ax[0]), expr_mul(c, e, e)));
  stage(b, 2, 0, SHAPE(n, k));
  e = expr_sub(c, L(b, res, b->ax[0], b->ax[1]), L(b, mean, b->ax[0]));
  const Expr *v = expr_div(c, L(b, var, b->ax[0]), expr_lit(c, d, (double)z[1]));
  const Expr *s = expr_call1(c, INTRIN_rsqrt, expr_add(c, v, expr_float(c, d, 1e-5)));
  stage_end(b, y, NULL,
            expr_add(c, expr_mul(c, expr_mul(c, e, s), L(b, g, b->ax[1])), L(b, o, b->ax[1])));
}

static void layer_norm(void **state) {
  (void)state;
  const int64_t cases[][2] = {{4, 20}, {1, 256}, {3, 7}, {2, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    compare(build_layer_norm, cases[i], NULL, NULL, 1e-5);
  const int64_t symbolic[] = {-1, 33};
  static const char *const names[] = {"n", NULL};
  for (int64_t v = 0; v < 4; v++) compare(build_layer_norm, symbolic, names, &v, 1e-5);
}

/* y[j, i] = x[i, j] * 2; sizes[2] > 0: then also sums over i of y */
static void build_transpose(B *b, const int64_t *z) {
  const Expr *m = dim(b, "m", z[0]), *n = dim(b, "n", z[1]);
  Buffer *x = param(b, "x", DT_F32, 2, SHAPE(m, n)), *y = param(b, "y", DT_F32, 2, SHAPE(n, m));
  stage(b, 2, 0, SHAPE(n, m));
  stage_end(b, y, NULL, expr_mul(b->c, L(b, x, b->ax[1], b->ax[0]), expr_lit(b->c, DT_F32, 2)));
  if (!z[2]) return;
  Buffer *s = param(b, "s", DT_F32, 1, SHAPE(m));
  stage(b, 1, 1, SHAPE(m, n));
  stage_end(b, s, expr_lit(b->c, DT_F32, 0),
            expr_add(b->c, L(b, s, b->ax[0]), L(b, x, b->ax[0], b->ax[1])));
}

static void transposes(void **state) {
  (void)state;
  const int64_t cases[][3] = {{5, 7, 0}, {17, 40, 1}, {1, 9, 0}, {9, 1, 1}, {0, 4, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    compare(build_transpose, cases[i], NULL, NULL, 1e-6);
  const int64_t symbolic[] = {-1, -1, 1}, v[][2] = {{2, 7}, {33, 18}, {0, 4}, {1, 1}};
  static const char *const names[] = {"m", "n", NULL};
  for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
    compare(build_transpose, symbolic, names, v[i], 1e-6);
}

/* column sums and row maxima of (a, m, n), over axis z[3] */
static void build_reduce(B *b, const int64_t *z) {
  const Expr *e[3] = {I(b, z[0]), dim(b, "m", z[1]), dim(b, "n", z[2])};
  DType d = z[4] ? DT_I64 : DT_F32;
  uint32_t r = (uint32_t)z[3], o = 0;
  Buffer *x = param(b, "x", d, 3, e);
  const Expr *kept[2], *idx[3], *ext[3];
  for (uint32_t i = 0; i < 3; i++)
    if (i != r) kept[o++] = e[i];
  Buffer *s = param(b, "s", d, 2, kept), *m = param(b, "m", d, 2, kept);
  for (int pass = 0; pass < 2; pass++) {
    ext[0] = kept[0], ext[1] = kept[1], ext[2] = e[r];
    stage(b, 2, 1, ext);
    o = 0;
    for (uint32_t i = 0; i < 3; i++) idx[i] = i == r ? b->ax[2] : b->ax[o++];
    Buffer *out = pass ? m : s;
    const Expr *old = L(b, out, b->ax[0], b->ax[1]), *v = expr_load(b->c, x, idx, 3);
    if (pass)
      stage_end(b, out, expr_lit(b->c, d, -100), expr_max(b->c, old, v));
    else
      stage_end(b, out, expr_lit(b->c, d, 0), expr_add(b->c, old, v));
  }
}

static void reductions(void **state) {
  (void)state;
  for (int64_t axis = 0; axis < 3; axis++)
    for (int64_t type = 0; type < 2; type++) {
      const int64_t cases[][5] = {{3, 4, 5, axis, type},   {2, 1, 33, axis, type},
                                  {1, 70, 2, axis, type},  {4, 0, 3, axis, type},
                                  {2, 3, 130, axis, type}, {130, 1, 1, axis, type}};
      for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        compare(build_reduce, cases[i], NULL, NULL, 0);
      const int64_t symbolic[] = {2, -1, -1, axis, type},
                    v[][2] = {{2, 7}, {33, 18}, {0, 4}, {1, 67}};
      static const char *const names[] = {"m", "n", NULL};
      for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
        compare(build_reduce, symbolic, names, v[i], 0);
    }
}

/* padded 3x3 convolution (stride z[4]) with bias, then 2x2 maximum; sizes channels, height, width,
 * output channels */
static void build_conv(B *b, const int64_t *z) {
  Context *c = b->c;
  DType d = DT_F32;
  int64_t st = z[4], oh = (z[1] - 1) / st + 1, ow = (z[2] - 1) / st + 1;
  const Expr *ci = I(b, z[0]), *h = I(b, z[1]), *w = I(b, z[2]), *co = I(b, z[3]), *one = I(b, 1);
  const Expr *ho = I(b, oh), *wo = I(b, ow), *three = I(b, 3);
  Buffer *x = param(b, "x", d, 4, SHAPE(one, ci, h, w));
  Buffer *wt = param(b, "wt", d, 4, SHAPE(co, ci, three, three)),
         *bias = param(b, "bias", d, 1, SHAPE(co));
  Buffer *y = param(b, "y", d, 4, SHAPE(one, co, ho, wo));
  const Expr *ph = I(b, oh / 2), *pw = I(b, ow / 2);
  Buffer *q = param(b, "q", d, 4, SHAPE(one, co, ph, pw));
  const Expr *hp = I(b, z[1] + 2), *wp = I(b, z[2] + 2);
  Buffer *pad = temp(b, "pad", d, 4, SHAPE(one, ci, hp, wp));
  Buffer *t = temp(b, "t", d, 4, SHAPE(one, co, ho, wo));
  stage(b, 4, 0, SHAPE(one, ci, hp, wp));
  const Expr *i = b->ax[2], *j = b->ax[3];
  const Expr *in = expr_binary(c, EXPR_AND,
                               expr_binary(c, EXPR_AND, expr_binary(c, EXPR_LE, one, i),
                                           expr_binary(c, EXPR_LT, i, I(b, z[1] + 1))),
                               expr_binary(c, EXPR_AND, expr_binary(c, EXPR_LE, one, j),
                                           expr_binary(c, EXPR_LT, j, I(b, z[2] + 1))));
  stage_end(b, pad, NULL,
            expr_if_then_else(c, in,
                              L(b, x, b->ax[0], b->ax[1], expr_sub(c, i, one), expr_sub(c, j, one)),
                              expr_lit(c, d, 0)));
  stage(b, 4, 3, SHAPE(one, co, ho, wo, ci, three, three));
  const Expr *yy = expr_add(c, expr_mul(c, b->ax[2], I(b, st)), b->ax[5]);
  const Expr *xx = expr_add(c, expr_mul(c, b->ax[3], I(b, st)), b->ax[6]);
  const Expr *p = expr_mul(c, L(b, pad, b->ax[0], b->ax[4], yy, xx),
                           L(b, wt, b->ax[1], b->ax[4], b->ax[5], b->ax[6]));
  stage_end(b, t, expr_lit(c, d, 0),
            expr_add(c, L(b, t, b->ax[0], b->ax[1], b->ax[2], b->ax[3]), p));
  stage(b, 4, 0, SHAPE(one, co, ho, wo));
  stage_end(b, y, NULL,
            expr_add(c, L(b, t, b->ax[0], b->ax[1], b->ax[2], b->ax[3]), L(b, bias, b->ax[1])));
  const Expr *two = I(b, 2);
  stage(b, 4, 2, SHAPE(one, co, ph, pw, two, two));
  yy = expr_add(c, expr_mul(c, b->ax[2], two), b->ax[4]);
  xx = expr_add(c, expr_mul(c, b->ax[3], two), b->ax[5]);
  stage_end(b, q, expr_lit(c, d, -1000),
            expr_max(c, L(b, q, b->ax[0], b->ax[1], b->ax[2], b->ax[3]),
                     L(b, y, b->ax[0], b->ax[1], yy, xx)));
}

static void convolution(void **state) {
  (void)state;
  const int64_t cases[][5] = {
      {3, 6, 9, 5, 1}, {1, 5, 5, 13, 2}, {4, 4, 18, 2, 1}, {2, 3, 35, 1, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    compare(build_conv, cases[i], NULL, NULL, 0);
}

/* batched product with a broadcast operand and swapped result: y[b, j, i] = sum x[b, i, k] w[k, j]
 */
static void build_batched(B *b, const int64_t *z) {
  const Expr *n = dim(b, "b", z[0]), *i = I(b, z[1]), *j = I(b, z[2]), *k = I(b, z[3]);
  Buffer *x = param(b, "x", DT_F32, 3, SHAPE(n, i, k));
  Buffer *w = z[4] == 1   ? param(b, "w", DT_F32, 3, SHAPE(n, k, j))
              : z[4] == 2 ? param(b, "w", DT_F32, 3, SHAPE(n, j, k))
                          : param(b, "w", DT_F32, 2, SHAPE(k, j));
  Buffer *y = param(b, "y", DT_F32, 3, z[5] ? SHAPE(n, j, i) : SHAPE(n, i, j));
  stage(b, 3, 1, z[5] ? SHAPE(n, j, i, k) : SHAPE(n, i, j, k));
  const Expr *ai = b->ax[z[5] ? 2 : 1], *aj = b->ax[z[5] ? 1 : 2], *ak = b->ax[3], *an = b->ax[0];
  const Expr *q = z[4] == 1   ? L(b, w, an, ak, aj)
                  : z[4] == 2 ? L(b, w, an, aj, ak)
                              : L(b, w, ak, aj);
  stage_end(
      b, y, expr_lit(b->c, DT_F32, 0),
      expr_add(b->c, L(b, y, an, b->ax[1], b->ax[2]), expr_mul(b->c, L(b, x, an, ai, ak), q)));
}

static void batched_matmul(void **state) {
  (void)state;
  static const char *const names[] = {"b", NULL};
  for (int64_t kind = 0; kind < 3; kind++)
    for (int64_t swap = 0; swap < 2; swap++) {
      const int64_t cases[][6] = {{2, 5, 18, 7, kind, swap},
                                  {3, 17, 4, 9, kind, swap},
                                  {1, 1, 40, 20, kind, swap},
                                  {2, 20, 1, 20, kind, swap}};
      for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        compare(build_batched, cases[i], NULL, NULL, 0);
      const int64_t symbolic[] = {-1, 3, 19, 5, kind, swap};
      for (int64_t v = 0; v < 9; v += 4) compare(build_batched, symbolic, names, &v, 0);
    }
}

/* reshape (a, b) -> (b, a) of exp(x) as legalised, then a slice of the columns and a gather */
static void build_moves(B *b, const int64_t *z) {
  Context *c = b->c;
  const Expr *m = I(b, z[0]), *n = I(b, z[1]), *total = I(b, z[0] * z[1]);
  Buffer *x = param(b, "x", DT_F32, 2, SHAPE(m, n)), *y = param(b, "y", DT_F32, 2, SHAPE(n, m));
  Buffer *cut = param(b, "cut", DT_F32, 2, SHAPE(n, I(b, z[0] - 1)));
  Buffer *e = temp(b, "e", DT_F32, 2, SHAPE(m, n));
  stage(b, 2, 0, SHAPE(m, n));
  stage_end(b, e, NULL, expr_call1(c, INTRIN_exp, L(b, x, b->ax[0], b->ax[1])));
  stage(b, 2, 0, SHAPE(n, m));
  const Expr *lin = expr_add(c, expr_mul(c, b->ax[0], m), b->ax[1]);
  const Expr *mod = expr_floormod(c, lin, total);
  stage_end(b, y, NULL, L(b, e, expr_floordiv(c, mod, n), expr_floormod(c, lin, n)));
  stage(b, 2, 0, SHAPE(n, I(b, z[0] - 1)));
  stage_end(
      b, cut, NULL,
      L(b, y, expr_floormod(c, expr_mul(c, b->ax[0], I(b, 3)), n), expr_add(c, b->ax[1], I(b, 1))));
}

static void data_movement(void **state) {
  (void)state;
  const int64_t cases[][2] = {{4, 5}, {2, 37}, {33, 3}, {5, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    compare(build_moves, cases[i], NULL, NULL, 1e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matmul_static),   cmocka_unit_test(matmul_symbolic),
      cmocka_unit_test(batched_matmul),  cmocka_unit_test(softmax_rows),
      cmocka_unit_test(softmax_columns), cmocka_unit_test(layer_norm),
      cmocka_unit_test(transposes),      cmocka_unit_test(reductions),
      cmocka_unit_test(convolution),     cmocka_unit_test(data_movement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
