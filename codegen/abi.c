/* C interfaces of public functions: flattening, names, collisions. The rules are design section
 * 4's, told in abi.h.
 */
#include "codegen/abi.h"

#include <string.h>

const char *abi_c_type(DType d) {
  if (d.lanes != 1) return NULL;
  switch (d.code) {
  case DTYPE_BOOL: return "uint8_t";
  case DTYPE_BFLOAT: return d.bits == 16 ? "uint16_t" : NULL;
  case DTYPE_E4M3FN:
  case DTYPE_E5M2: return "uint8_t";
  case DTYPE_FLOAT:
    return d.bits == 16 ? "uint16_t" : d.bits == 32 ? "float" : d.bits == 64 ? "double" : NULL;
  case DTYPE_INT:
    return d.bits == 8    ? "int8_t"
           : d.bits == 16 ? "int16_t"
           : d.bits == 32 ? "int32_t"
           : d.bits == 64 ? "int64_t"
                          : NULL;
  case DTYPE_UINT:
    return d.bits == 8    ? "uint8_t"
           : d.bits == 16 ? "uint16_t"
           : d.bits == 32 ? "uint32_t"
           : d.bits == 64 ? "uint64_t"
                          : NULL;
  }
  return NULL;
}

bool abi_is_keyword(const char *name) {
  static const char *const words[] = {
      /* C */
      "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
      "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register",
      "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
      "union", "unsigned", "void", "volatile", "while", "alignas", "alignof", "bool", "constexpr",
      "false", "nullptr", "static_assert", "thread_local", "true", "typeof", "typeof_unqual", "asm",
      /* C++ */
      "and", "and_eq", "bitand", "bitor", "catch", "char8_t", "char16_t", "char32_t", "class",
      "compl", "concept", "consteval", "constinit", "const_cast", "co_await", "co_return",
      "co_yield", "decltype", "delete", "dynamic_cast", "explicit", "export", "friend", "mutable",
      "namespace", "new", "noexcept", "not", "not_eq", "operator", "or", "or_eq", "private",
      "protected", "public", "reinterpret_cast", "requires", "static_cast", "template", "this",
      "throw", "try", "typeid", "typename", "using", "virtual", "wchar_t", "xor", "xor_eq"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strcmp(words[i], name) == 0) return true;
  return false;
}

const char *abi_c_identifier(Arena *a, const char *name) {
  Text t = {0};
  if (*name >= '0' && *name <= '9') text_putc(&t, '_');
  for (const char *p = name; *p; p++) {
    unsigned char c = (unsigned char)*p;
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || c == '_')
      text_putc(&t, *p);
    else
      text_printf(&t, "_x%02x", c);
  }
  if (!t.n) text_putc(&t, '_');
  const char *s = arena_strndup(a, t.s, t.n);
  text_free(&t);
  return s;
}

const char *abi_default_prefix(Arena *a, const char *path) {
  if (strcmp(path, "-") == 0) return "stdin";
  const char *stem = strrchr(path, '/');
  stem = stem ? stem + 1 : path;
  const char *dot = strrchr(stem, '.');
  size_t n = dot && dot != stem ? (size_t)(dot - stem) : strlen(stem);
  char *s = arena_strndup(a, stem, n);
  /* "my-model" reads better as my_model than as my_x2dmodel. */
  for (char *p = s; *p; p++)
    if (*p == '-' || *p == '.' || *p == ' ' || *p == '+') *p = '_';
  return abi_c_identifier(a, s);
}

/* ---- one function ---- */

typedef struct {
  Arena *arena;
  const Module *m;
  AbiFunc *f;
  StrMap names; /* C names taken in the prototype */
  VEC(AbiValue) values;
  VEC(uint32_t) path;
  uint32_t param;
  bool out;                     /* results, else arguments */
  const char *const *out_names; /* or NULL */
  Span span;
} Flatten;

/* A parameter name in C that is no keyword and not taken. */
static const char *take_c_name(Flatten *x, const char *name) {
  char *dotted = arena_strndup(x->arena, name, strlen(name));
  for (char *p = dotted; *p; p++)
    if (*p == '.') *p = '_'; /* field 1 of t: t_1 */
  const char *base = abi_c_identifier(x->arena, dotted), *s = base;
  for (int i = 1; strmap_has(&x->names, s) || abi_is_keyword(s); i++)
    s = i == 1 ? arena_printf(x->arena, "%s_", base) : arena_printf(x->arena, "%s_%d", base, i);
  strmap_set(&x->names, s, x);
  return s;
}

static void lose_plain(Flatten *x, const char *why) {
  if (!x->f->plain) return;
  x->f->plain = false;
  x->f->not_plain = why;
}

static bool refuse(Flatten *x, const char *name, const SInfo *si, const char *why) {
  Text t = {0};
  sinfo_print(&t, si);
  diag_error(x->m->ctx->diags, x->span, "%s '%s' of public function '%s' has type %s: %s",
             x->out ? "result" : "parameter", name, x->f->func->name, text_cstr(&t), why);
  text_free(&t);
  return false;
}

/* Are all variables of the dims among the function's own? */
static bool dims_known(Flatten *x, const SInfo *si) {
  VarVec vars = {0};
  sinfo_vars(x->arena, si, &vars);
  const Func *f = x->f->func;
  for (uint32_t i = 0; i < vars.n; i++) {
    bool found = false;
    for (uint32_t k = 0; k < f->ndims && !found; k++) found = f->dims[k] == vars.at[i];
    if (!found) return false;
  }
  return true;
}

static bool flatten(Flatten *x, const char *name, const SInfo *si) {
  if (si->kind == SINFO_TUPLE) {
    bool ok = true;
    for (uint32_t i = 0; i < si->n; i++) {
      /* Results are numbered through: out0, out1, ... */
      const char *field = x->out ? name : arena_printf(x->arena, "%s.%u", name, i);
      vec_push(x->arena, &x->path, i);
      ok = flatten(x, field, si->fields[i]) && ok;
      (void)vec_pop(&x->path);
    }
    return ok;
  }
  if (x->out)
    name = x->out_names ? x->out_names[x->values.n] : arena_printf(x->arena, "out%u", x->values.n);
  AbiValue v = {.name = name, .param = x->param, .sinfo = si, .dtype = si->dtype};
  switch (si->kind) {
  case SINFO_TENSOR:
    v.kind = ABI_TENSOR;
    v.ndim = si->ndim;
    if (si->ndim < 0 && !x->out) return refuse(x, name, si, "its rank must be known");
    if (!dtype_known(si->dtype) && !x->out) return refuse(x, name, si, "its dtype must be known");
    if (dtype_known(si->dtype) && !abi_c_type(si->dtype))
      return refuse(x, name, si, "its dtype has no type in C");
    if (si->ndim < 0)
      lose_plain(x, "the rank of a result is not known");
    else if (!dtype_known(si->dtype))
      lose_plain(x, "the dtype of a result is not known");
    else if (!si->dims)
      lose_plain(x, x->out ? "the shape of a result is not known"
                           : "the shape of a parameter is not known");
    break;
  case SINFO_PRIM:
    v.kind = ABI_PRIM;
    v.ndim = 0;
    if (!dtype_known(si->dtype) || !abi_c_type(si->dtype))
      return refuse(x, name, si, "its dtype has no type in C");
    break;
  case SINFO_SHAPE:
    v.kind = ABI_SHAPE;
    v.ndim = 1;
    v.dtype = DT_I64;
    if (si->ndim < 0 && !x->out) return refuse(x, name, si, "its length must be known");
    if (si->ndim < 0) lose_plain(x, "the length of a result is not known");
    break;
  case SINFO_BAD: return false; /* reported */
  case SINFO_OBJECT:
  case SINFO_TUPLE:
  case SINFO_CALLABLE:
  case SINFO_STRING: return refuse(x, name, si, "it can't cross a C interface");
  }
  if (x->out && !dims_known(x, si)) lose_plain(x, "the shape of a result depends on data");
  v.c_name = take_c_name(x, name);
  v.npath = x->path.n;
  v.path = arena_dup(x->arena, x->path.at, x->path.n * sizeof x->path.at[0]);
  vec_push(x->arena, &x->values, v);
  return true;
}

const AbiValue *abi_dim_arg(const AbiFunc *f, const Var *v) {
  for (uint32_t i = 0; i < f->nargs; i++) {
    const AbiValue *a = &f->args[i];
    if (a->kind == ABI_PRIM && a->sinfo->value && a->sinfo->value->kind == EXPR_VAR &&
        a->sinfo->value->var == v)
      return a;
  }
  return NULL;
}

const char *const *abi_workspace_c_names(Arena *a, const AbiFunc *f) {
  const char **names = ARENA_ARRAY(a, const char *, f->func->ndims);
  for (uint32_t i = 0, k = 0; i < f->func->ndims; i++) {
    const AbiValue *arg = abi_dim_arg(f, f->func->dims[i]);
    names[i] = arg ? arg->c_name : f->dim_c_names[k++];
  }
  return names;
}

bool abi_function(Arena *a, const Module *m, const char *prefix, const Func *func, AbiFunc *f) {
  return abi_function_named(a, m, prefix, func, NULL, f);
}

bool abi_function_named(Arena *a, const Module *m, const char *prefix, const Func *func,
                        const char *const *out_names, AbiFunc *f) {
  *f = (AbiFunc){.func = func, .plain = true};
  f->symbol = arena_printf(a, "%s_%s", prefix, abi_c_identifier(a, func->name));
  Flatten x = {.arena = a, .m = m, .f = f, .out_names = out_names};
  bool ok = true;
  strmap_init(&x.names, a);
  strmap_set(&x.names, "ws", &x); /* the scratch pointer of m_f_ws */
  for (uint32_t i = 0; i < func->nparams; i++) {
    x.param = i;
    x.span = func->params[i]->name_span;
    ok = flatten(&x, func->params[i]->name, func->params[i]->sinfo) && ok;
  }
  f->args = x.values.at;
  f->nargs = x.values.n;
  memset(&x.values, 0, sizeof x.values);
  x.out = true;
  x.param = 0;
  x.span = func->ret_span.file ? func->ret_span : func->name_span;
  ok = flatten(&x, "out", func->ret) && ok;
  f->outs = x.values.at;
  f->nouts = x.values.n;
  f->nparams = f->nargs + f->nouts;
  f->params = ARENA_ARRAY(a, AbiParam, f->nparams + 1);
  for (uint32_t i = 0; i < f->nparams; i++)
    f->params[i] = i < f->nargs ? (AbiParam){i, ABI_ABSENT} : (AbiParam){ABI_ABSENT, i - f->nargs};
  f->dims = ARENA_ARRAY(a, Var *, func->ndims);
  f->dim_c_names = ARENA_ARRAY(a, const char *, func->ndims);
  for (uint32_t i = 0; i < func->ndims; i++) {
    if (abi_dim_arg(f, func->dims[i])) continue;
    f->dim_c_names[f->ndims] = take_c_name(&x, func->dims[i]->name);
    f->dims[f->ndims++] = func->dims[i];
  }
  return ok;
}

/* ---- the module ---- */

static bool check_symbols(Arena *a, const Module *m, const char *prefix, const AbiModule *abi) {
  static const char *const suffixes[] = {"", "_dl", "_ws", "_workspace", "_info"};
  Diags *d = m->ctx->diags;
  StrMap taken;
  bool ok = true;
  strmap_init(&taken, a);
  if (strcmp(prefix, "rx") == 0 || strncmp(prefix, "rx_", 3) == 0) {
    diag_error(d, SPAN_NONE, "symbol prefix '%s' is the runtime library's", prefix);
    return false;
  }
  for (uint32_t i = 0; i < abi->n; i++) {
    AbiFunc *f = abi->funcs[i];
    for (size_t k = 0; k < sizeof suffixes / sizeof suffixes[0]; k++) {
      const char *s = arena_printf(a, "%s%s", f->symbol, suffixes[k]);
      const AbiFunc *other = strmap_get(&taken, s);
      if (abi_is_keyword(s)) {
        diag_error(d, f->func->name_span, "the C name of function '%s' would be the keyword '%s'",
                   f->func->name, s);
        ok = false;
      } else if (other && other != f) {
        diag_error(d, f->func->name_span, "the C name '%s' of function '%s' is taken by '%s'", s,
                   f->func->name, other->func->name);
        diag_note(d, other->func->name_span, "'%s' is here", other->func->name);
        ok = false;
        break;
      } else {
        strmap_set(&taken, s, f);
      }
    }
  }
  return ok;
}

bool abi_module(Arena *a, const Module *m, const char *prefix, AbiModule *out) {
  VEC(AbiFunc *) funcs = {0};
  bool ok = true;
  module_each(m, g) {
    AbiFunc *f = ARENA_NEW(a, AbiFunc);
    if (g->kind == GLOBAL_PRIM) {
      if (!abi_prim(a, m, prefix, g->prim, f)) continue;
    } else {
      if (g->kind != GLOBAL_FUNC || g->func->is_private) continue;
      ok = abi_function(a, m, prefix, g->func, f) && ok;
    }
    vec_push(a, &funcs, f);
  }
  out->funcs = funcs.at;
  out->n = funcs.n;
  return check_symbols(a, m, prefix, out) && ok;
}

const char *abi_signature(Arena *a, const AbiFunc *abi) {
  const Func *f = abi->func;
  if (abi->prim) return abi_prim_signature(a, abi);
  Text t = {0};
  text_printf(&t, "%s(", f->name);
  for (uint32_t i = 0; i < f->nparams; i++) {
    text_printf(&t, "%s%s: ", i ? ", " : "", f->params[i]->name);
    sinfo_print(&t, f->params[i]->sinfo);
  }
  text_puts(&t, ") -> ");
  sinfo_print(&t, f->ret);
  const char *s = arena_strndup(a, t.s, t.n);
  text_free(&t);
  return s;
}
