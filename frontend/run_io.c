/* Command-line values to tensors and back.
 *
 * A value is a number, a list of numbers or the name of a .npy file. Symbolic dims are learnt from
 * the tensors given and from `--input n=16`; random tensors get their shapes from them. Whether a
 * tensor fits its parameter is left to the entry that is called: its messages are the ones a user's
 * program would get.
 */
#include "frontend/run_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  Context *c;
  const Options *o;
  const AbiFunc *f;
  TensorData *args;
  bool *given;
  Map dims;        /* Var* -> const Expr*: known symbolic dims */
  uint64_t random; /* state */
  bool ok;
} Gather;

static void wrong(Gather *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void wrong(Gather *g, const char *fmt, ...) {
  Text t = {0};
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  diag_error(g->c->diags, SPAN_NONE, "%s", text_cstr(&t));
  text_free(&t);
  g->ok = false;
}

bool io_entry(Context *c, const Module *m, const Options *o, AbiFunc *f) {
  const Global *only = NULL, *only_prim = NULL;
  uint32_t n = 0, nprims = 0;
  VEC(const char *) names = {0};
  AbiFunc prim;
  module_each(m, g) {
    if (g->kind == GLOBAL_PRIM && abi_prim(c->arena, m, "m", g->prim, &prim)) {
      only_prim = g;
      nprims++;
    } else if (g->kind == GLOBAL_FUNC && !g->func->is_private) {
      only = g;
      n++;
    } else {
      continue;
    }
    vec_push(c->arena, &names, g->name);
  }
  const char *want = o->entry ? o->entry : "main";
  const Global *g = NULL;
  for (uint32_t i = 0; i < names.n; i++)
    if (strcmp(names.at[i], want) == 0) g = module_find(m, want);
  if (!g && !o->entry) g = n == 1 ? only : n == 0 && nprims == 1 ? only_prim : NULL;
  if (g)
    return g->kind == GLOBAL_PRIM ? abi_prim(c->arena, m, "m", g->prim, f)
                                  : abi_function(c->arena, m, "m", g->func, f);
  g = module_find(m, want);
  if (g && g->kind == GLOBAL_PRIM && !abi_prim(c->arena, m, "m", g->prim, f) && f->not_plain) {
    diag_error(c->diags, g->prim->span, "prim_func '%s' can't be called from outside: %s", want,
               f->not_plain);
  } else if (!names.n) {
    diag_error(c->diags, SPAN_NONE, "there is no public function to call");
  } else if (!o->entry) {
    diag_error(c->diags, SPAN_NONE,
               "there are several functions and none is 'main': choose with "
               "--entry");
  } else {
    const char *near = text_nearest(want, names.at, names.n);
    if (near)
      diag_error(c->diags, SPAN_NONE, "there is no public function '%s'; did you mean '%s'?", want,
                 near);
    else
      diag_error(c->diags, SPAN_NONE, "there is no public function '%s'", want);
  }
  return false;
}

/* ---- symbolic dims ---- */

static void learn_dim(Gather *g, Var *v, int64_t value, const char *source) {
  const Expr *known = map_getp(&g->dims, v);
  if (!known)
    map_setp(&g->dims, v, (void *)(uintptr_t)expr_i64(g->c, value));
  else if (known->i != value && source)
    wrong(g, "dim '%s' is %lld, but input '%s' makes it %lld", v->name, (long long)known->i, source,
          (long long)value);
}

/* Bare variables among an argument's dims (values of a shape) take its sizes. */
static void learn_from(Gather *g, const AbiValue *v, const TensorData *t) {
  const SInfo *s = v->sinfo;
  if (v->kind == ABI_PRIM && s->value && s->value->kind == EXPR_VAR && t->ndim == 0 &&
      dtype_is_int(t->dtype)) {
    learn_dim(g, s->value->var, dtype_load_int(t->dtype, t->data), v->name);
    return;
  }
  if (!s->dims || v->kind == ABI_PRIM) return;
  for (int32_t i = 0; i < s->ndim; i++) {
    if (s->dims[i]->kind != EXPR_VAR) continue;
    if (v->kind == ABI_TENSOR && t->ndim == s->ndim)
      learn_dim(g, s->dims[i]->var, t->dims[i], NULL);
    if (v->kind == ABI_SHAPE && t->ndim == 1 && t->dims[0] == s->ndim && dtype_eq(t->dtype, DT_I64))
      learn_dim(g, s->dims[i]->var, ((const int64_t *)t->data)[i], v->name);
  }
}

static bool dim_value(Gather *g, const Expr *e, const char *what, const char *name, int64_t *out) {
  Subst s = {g->c, &g->dims, NULL};
  if (expr_const_int(g->c, expr_subst(&s, e), out)) return true;
  VarVec vars = {0};
  expr_vars(g->c->arena, e, &vars);
  for (uint32_t i = 0; i < vars.n; i++)
    if (!map_hasp(&g->dims, vars.at[i])) {
      wrong(g, "%s '%s' depends on dim '%s': give --input %s=N", what, name, vars.at[i]->name,
            vars.at[i]->name);
      return false;
    }
  wrong(g, "a dim of %s '%s' can't be computed", what, name);
  return false;
}

/* ---- values from the command line ---- */

/* A rank-0 tensor of a number's text; false if it is no number at all. */
static bool parse_number(Gather *g, const AbiValue *v, const char *text, TensorData *out) {
  char *end;
  DType d = v->dtype;
  void *p = arena_alloc(g->c->arena, 16);
  *out = (TensorData){v->name, d, 0, arena_alloc(g->c->arena, 0), p, dtype_bytes(d)};
  if (dtype_is_bool(d) && (strcmp(text, "True") == 0 || strcmp(text, "False") == 0)) {
    dtype_store_int(d, p, text[0] == 'T');
    return true;
  }
  double f = strtod(text, &end);
  if (end == text || *end) return false;
  if (dtype_is_float(d)) {
    dtype_store_double(d, p, f);
    return true;
  }
  long long i = strtoll(text, &end, 10);
  int64_t back = 0;
  if (!*end) {
    dtype_store_int(d, p, i);
    back = dtype_load_int(d, p);
  }
  char again[32];
  (void)snprintf(again, sizeof again, "%lld", i);
  if (*end || back != i || (dtype_is_bool(d) && i != 0 && i != 1) || strcmp(again, text) != 0)
    wrong(g, "input '%s': expected a number of type %s but got '%s'", v->name, dtype_name(d), text);
  return true;
}

/* "2,3", "[2, 3]", "(2, 3)", "": a shape; false if it is no list of integers. */
static bool parse_shape(Gather *g, const AbiValue *v, const char *text, TensorData *out) {
  VEC(int64_t) at = {0};
  char close = text[0] == '[' ? ']' : text[0] == '(' ? ')' : 0;
  const char *p = text + (close != 0);
  for (;;) {
    char *end;
    p += strspn(p, " ");
    if (*p == close) break;
    long long i = strtoll(p, &end, 10);
    if (end == p) return false;
    vec_push(g->c->arena, &at, (int64_t)i);
    p = end + strspn(end, " ");
    if (*p == ',')
      p++;
    else if (*p != close)
      return false;
  }
  if (close && p[1]) return false;
  int64_t *dims = arena_alloc(g->c->arena, sizeof *dims);
  dims[0] = at.n;
  *out = (TensorData){
      v->name, DT_I64, 1, dims, at.n ? at.at : arena_alloc(g->c->arena, 0), at.n * sizeof(int64_t)};
  return true;
}

static void take_value(Gather *g, uint32_t i, const char *text) {
  const AbiValue *v = &g->f->args[i];
  const char *error;
  g->given[i] = true;
  if (v->kind == ABI_SHAPE && parse_shape(g, v, text, &g->args[i])) return;
  if (v->ndim == 0 && parse_number(g, v, text, &g->args[i])) return;
  if (!npy_read(g->c->arena, text, &g->args[i], &error)) {
    wrong(g, "input '%s': %s", v->name, error);
    return;
  }
  g->args[i].name = v->name;
  /* ml_dtypes' float8 comes as bytes. */
  if (dtype_eq(g->args[i].dtype, DT_U8) &&
      (v->dtype.code == DTYPE_E4M3FN || v->dtype.code == DTYPE_E5M2))
    g->args[i].dtype = v->dtype;
}

static void take_input(Gather *g, const InputOption *in) {
  const AbiFunc *f = g->f;
  VEC(const char *) names = {0};
  for (uint32_t i = 0; i < f->nargs; i++) {
    if (strcmp(f->args[i].name, in->name) == 0) {
      take_value(g, i, in->value);
      return;
    }
    vec_push(g->c->arena, &names, f->args[i].name);
  }
  for (uint32_t i = 0; i < f->func->ndims; i++) {
    Var *v = f->func->dims[i];
    if (strcmp(v->name, in->name) != 0) {
      vec_push(g->c->arena, &names, v->name);
      continue;
    }
    char *end;
    long long value = strtoll(in->value, &end, 10);
    if (end == in->value || *end || value < 0)
      wrong(g, "dim '%s': expected a number but got '%s'", v->name, in->value);
    else
      learn_dim(g, v, value, v->name);
    return;
  }
  const char *near = text_nearest(in->name, names.at, names.n);
  if (near)
    wrong(g, "function '%s' has no parameter or dim '%s'; did you mean '%s'?", f->func->name,
          in->name, near);
  else
    wrong(g, "function '%s' has no parameter or dim '%s'", f->func->name, in->name);
}

/* ---- random values ---- */

static uint64_t next_random(Gather *g) { /* splitmix64 */
  uint64_t z = g->random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Floats in [-1, 1), integers 0 to 9, bools. */
static void fill_random(Gather *g, uint32_t i) {
  const AbiValue *v = &g->f->args[i];
  const SInfo *s = v->sinfo;
  Arena *a = g->c->arena;
  TensorData *t = &g->args[i];
  uint64_t n;
  if (v->kind == ABI_PRIM) {
    int64_t value;
    *t = (TensorData){v->name, v->dtype, 0, arena_alloc(a, 0), NULL, dtype_bytes(v->dtype)};
    if (s->value && dtype_is_int(v->dtype)) { /* a dim */
      if (!dim_value(g, s->value, "input", v->name, &value)) return;
      void *p = arena_alloc(a, 16);
      dtype_store_int(v->dtype, p, value);
      t->data = p;
      return;
    }
  } else if (!s->dims) {
    wrong(g, "input '%s' has no known shape: give it", v->name);
    return;
  } else {
    int64_t *dims = ARENA_ARRAY(a, int64_t, s->ndim);
    for (int32_t k = 0; k < s->ndim; k++) {
      if (!dim_value(g, s->dims[k], "input", v->name, &dims[k])) return;
      if (dims[k] < 0) {
        wrong(g, "dim %d of input '%s' is negative: %lld", k, v->name, (long long)dims[k]);
        return;
      }
    }
    *t = (TensorData){v->name, v->dtype, s->ndim, dims, NULL, 0};
    if (v->kind == ABI_SHAPE) {
      int64_t *length = arena_alloc(a, sizeof *length);
      *length = s->ndim;
      *t = (TensorData){v->name, DT_I64, 1, length, dims, (uint64_t)s->ndim * sizeof *dims};
      return;
    }
  }
  if (!tensor_size(t->dtype, t->dims, t->ndim, &n, &t->bytes) || t->bytes > (uint64_t)1 << 40) {
    wrong(g, "input '%s' would be too large", v->name);
    return;
  }
  char *p = arena_alloc(a, t->bytes + 64);
  p += -(uintptr_t)p & 63; /* aligned as the runtime's own tensors are */
  size_t e = dtype_bytes(t->dtype);
  for (uint64_t k = 0; k < n; k++) {
    uint64_t r = next_random(g);
    if (dtype_is_float(t->dtype))
      dtype_store_double(t->dtype, p + k * e, (double)(r >> 40) / 8388608.0 - 1.0);
    else
      dtype_store_int(t->dtype, p + k * e, (int64_t)(r >> 32) % (dtype_is_bool(t->dtype) ? 2 : 10));
  }
  t->data = p;
}

/* ---- all together ---- */

static void put_need(Text *t, const AbiValue *v) {
  size_t before = t->n;
  text_printf(t, "  --input %s=%s", v->name,
              v->kind == ABI_SHAPE ? "N,..."
              : v->ndim == 0       ? "NUMBER"
                                   : "FILE.npy");
  for (size_t n = t->n - before; n < 32; n++) text_putc(t, ' ');
  text_putc(t, ' ');
  sinfo_print(t, v->sinfo);
  text_putc(t, '\n');
}

static void print_needs(const AbiFunc *f) {
  Text t = {0};
  Arena *a = arena_create();
  text_printf(&t, "%s\nneeds:\n", abi_signature(a, f));
  for (uint32_t i = 0; i < f->nargs; i++) put_need(&t, &f->args[i]);
  text_puts(&t, "or --random");
  for (uint32_t i = 0; i < f->func->ndims; i++)
    text_printf(&t, " --input %s=N", f->func->dims[i]->name);
  text_putc(&t, '\n');
  fputs(text_cstr(&t), stdout);
  text_free(&t);
  arena_free(a);
}

bool io_prim_outputs(Context *c, const AbiFunc *f, const Map *dims, TensorData *outs) {
  Gather g = {.c = c, .f = f, .dims = *dims, .ok = true};
  for (uint32_t i = 0; i < f->nouts; i++) {
    const AbiValue *v = &f->outs[i];
    int64_t *d = ARENA_ARRAY(c->arena, int64_t, v->sinfo->ndim + 1);
    uint64_t n;
    for (int32_t k = 0; k < v->sinfo->ndim; k++)
      if (!dim_value(&g, v->sinfo->dims[k], "output", v->name, &d[k])) return false;
    outs[i] = (TensorData){v->name, v->dtype, v->sinfo->ndim, d, NULL, 0};
    if (!tensor_size(v->dtype, d, v->sinfo->ndim, &n, &outs[i].bytes) ||
        outs[i].bytes > (uint64_t)1 << 40) {
      wrong(&g, "output '%s' would be too large", v->name);
      return false;
    }
  }
  return true;
}

IoStatus io_gather(Context *c, const Options *o, const AbiFunc *f, TensorData **args, Map *dims) {
  if (f->nargs && !o->run_inputs.n && !o->random) {
    print_needs(f);
    return IO_ASKED;
  }
  Gather g = {.c = c, .o = o, .f = f, .random = o->seed, .ok = true};
  g.args = ARENA_ARRAY(c->arena, TensorData, f->nargs);
  g.given = ARENA_ARRAY(c->arena, bool, f->nargs);
  map_init(&g.dims, c->arena);
  for (uint32_t i = 0; i < o->run_inputs.n; i++) take_input(&g, &o->run_inputs.at[i]);
  for (uint32_t i = 0; i < f->nargs && g.ok; i++)
    if (g.given[i]) learn_from(&g, &f->args[i], &g.args[i]);
  for (uint32_t i = 0; i < f->nargs && g.ok; i++) {
    if (g.given[i]) continue;
    if (o->random)
      fill_random(&g, i);
    else
      wrong(&g, "input '%s' is missing: give --input %s=..., or --random", f->args[i].name,
            f->args[i].name);
  }
  *args = g.args;
  *dims = g.dims;
  return g.ok ? IO_OK : IO_WRONG;
}

/* ---- results ---- */

static void put_element(Text *t, DType d, const char *p) {
  if (dtype_is_bool(d))
    text_puts(t, *p ? "True" : "False");
  else if (dtype_is_float(d))
    text_printf(t, "%.*g", d.bits == 64 ? 17 : d.bits == 32 ? 9 : 5, dtype_load_double(d, p));
  else if (dtype_is_uint(d))
    text_printf(t, "%llu", (unsigned long long)dtype_load_int(d, p));
  else
    text_printf(t, "%lld", (long long)dtype_load_int(d, p));
}

enum { SHOWN = 64 };

/* The elements as nested lists, from *at on; stops after SHOWN. */
static void put_nested(Text *t, const TensorData *x, int32_t axis, uint64_t *at) {
  if (axis == x->ndim) {
    put_element(t, x->dtype, (const char *)x->data + *at * dtype_bytes(x->dtype));
    ++*at;
    return;
  }
  text_putc(t, '[');
  for (int64_t i = 0; i < x->dims[axis]; i++) {
    if (i) text_puts(t, ", ");
    if (*at >= SHOWN) {
      text_puts(t, "...");
      break;
    }
    put_nested(t, x, axis + 1, at);
  }
  text_putc(t, ']');
}

static void print_results(const TensorData *outs, uint32_t n) {
  Text t = {0};
  for (uint32_t i = 0; i < n; i++) {
    uint64_t at = 0;
    text_printf(&t, "%s: ", outs[i].name);
    tensor_print_type(&t, &outs[i]);
    text_puts(&t, " = ");
    /* Without elements the lists would only repeat the shape. */
    if (outs[i].bytes)
      put_nested(&t, &outs[i], 0, &at);
    else
      text_puts(&t, "[]");
    text_putc(&t, '\n');
  }
  fputs(text_cstr(&t), stdout);
  text_free(&t);
}

static bool ends_with(const char *s, const char *suffix) {
  size_t n = strlen(s), k = strlen(suffix);
  return n >= k && strcmp(s + n - k, suffix) == 0;
}

bool io_write(Context *c, const Options *o, const TensorData *outs, uint32_t n) {
  const char *path = o->run_output ? o->run_output : o->output, *error = NULL;
  if (!path) {
    print_results(outs, n);
    return true;
  }
  bool ok = true;
  if (ends_with(path, ".npz")) {
    ok = npz_write(c->arena, path, outs, n, &error);
  } else if (n == 1) {
    ok = npy_write(c->arena, path, &outs[0], &error);
  } else if (strcmp(path, "-") == 0) {
    error = "several results can't go to standard output";
    ok = false;
  } else {
    /* out.npy becomes out0.npy, out1.npy, ... */
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    int stem = dot ? (int)(dot - path) : (int)strlen(path);
    for (uint32_t i = 0; i < n && ok; i++)
      ok = npy_write(c->arena, arena_printf(c->arena, "%.*s%u%s", stem, path, i, dot ? dot : ""),
                     &outs[i], &error);
  }
  if (!ok) diag_error(c->diags, SPAN_NONE, "%s", error);
  return ok;
}
