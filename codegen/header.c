/* Prints the generated header from the computed interface (codegen/abi.h).
 *
 * Each function is told by a comment with its Relax signature and by prototypes whose parameters
 * carry the script's names; each pointer's shape stands beside its name, so that the header alone
 * suffices to write a call. Text from the script is kept from ending a comment.
 */
#include "codegen/header.h"

#include <string.h>

/* Script text for a comment: one line, no comment marks, no trigraphs. */
static void put_clean(Text *t, const char *s) {
  for (const char *p = s; *p; p++) {
    unsigned char c = (unsigned char)*p;
    if (c < 0x20 || c == 0x7f)
      text_printf(t, "\\x%02X", c);
    else
      text_putc(t, *p);
    if ((p[0] == '/' && p[1] == '*') || (p[0] == '*' && p[1] == '/') || (*p == '?' && p[1] == '?'))
      text_putc(t, ' ');
  }
}

/* The signature as lines of a comment that has been opened, broken between parameters and before
 * the arrow. */
static void put_signature(Text *t, const char *signature) {
  Text clean = {0};
  put_clean(&clean, signature);
  const char *line = text_cstr(&clean);
  size_t room = 95;
  int start = 0; /* depth of brackets at the line's start */
  bool result = false;
  while (strlen(line) > room) {
    const char *cut = NULL;
    int depth = start, cut_depth = 0;
    for (const char *p = line; *p && (!cut || (size_t)(p - line) < room); p++) {
      if (*p == '(' || *p == '[') depth++;
      if (*p == ')' || *p == ']') depth--;
      bool arrow = depth == 0 && strncmp(p, " -> ", 4) == 0;
      if (arrow) result = true;
      if (p > line && (arrow || (*p == ' ' && p[-1] == ',' && depth == 1 && !result))) {
        cut = p;
        cut_depth = depth;
      }
    }
    if (!cut) break;
    text_putn(t, line, (size_t)(cut - line));
    text_puts(t, "\n *     ");
    line = cut + 1;
    room = 91;
    start = cut_depth;
  }
  text_puts(t, line);
  text_putc(t, '\n');
  text_free(&clean);
}

static void put_value(Text *t, const AbiValue *v, const char *role) {
  Text type = {0};
  const SInfo *s = v->sinfo;
  switch (v->kind) {
  case ABI_TENSOR:
    text_printf(&type, "%s ", dtype_known(v->dtype) ? dtype_name(v->dtype) : "any dtype");
    if (s->dims)
      shape_print(&type, s->dims, (uint32_t)s->ndim);
    else if (s->ndim >= 0)
      text_printf(&type, "of rank %d", s->ndim);
    else
      text_puts(&type, "of any rank");
    break;
  case ABI_PRIM: text_printf(&type, "%s scalar", dtype_name(v->dtype)); break;
  case ABI_SHAPE:
    text_puts(&type, "shape ");
    if (s->dims)
      shape_print(&type, s->dims, (uint32_t)s->ndim);
    else if (s->ndim >= 0)
      text_printf(&type, "of %d values", s->ndim);
    else
      text_puts(&type, "of any length");
    break;
  }
  text_printf(t, " *   %s %s: ", role, v->c_name);
  put_clean(t, text_cstr(&type));
  text_putc(t, '\n');
  text_free(&type);
}

static const char *pointee(const AbiValue *v) {
  return v->kind == ABI_SHAPE ? "int64_t" : abi_c_type(v->dtype);
}

static void put_separator(Text *t, bool *first) {
  if (!*first) text_puts(t, ", ");
  *first = false;
}

/* The parameters of the plain entry and, with `ws`, of m_f_ws. */
static void put_parameters(Text *t, const AbiFunc *f, bool ws) {
  bool first = true;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const AbiParam *p = &f->params[i];
    const AbiValue *v = p->arg != ABI_ABSENT ? &f->args[p->arg] : &f->outs[p->out];
    put_separator(t, &first);
    if (v->kind == ABI_PRIM && p->out == ABI_ABSENT)
      text_printf(t, "%s %s", pointee(v), v->c_name);
    else
      text_printf(t, "%s%s *%s", p->out == ABI_ABSENT ? "const " : "", pointee(v), v->c_name);
  }
  for (uint32_t i = 0; i < f->ndims; i++) {
    put_separator(t, &first);
    text_printf(t, "int64_t %s", f->dim_c_names[i]);
  }
  if (ws) {
    put_separator(t, &first);
    text_puts(t, "void *ws");
  }
  if (first) text_puts(t, "void");
}

/* A prototype, broken to lines of at most 100 columns. */
static void put_prototype(Text *t, const char *result, const char *name, const char *parameters) {
  Text line = {0};
  text_printf(&line, "%s %s(%s);", result, name, parameters);
  const char *p = text_cstr(&line);
  size_t room = 100;
  while (strlen(p) > room) {
    const char *cut = NULL;
    for (const char *q = p; *q && (!cut || (size_t)(q - p) < room); q++)
      if (q[0] == ',') cut = q + 1;
    if (!cut) break;
    text_putn(t, p, (size_t)(cut - p));
    text_puts(t, "\n    ");
    p = cut + 1;
    room = 96;
  }
  text_puts(t, p);
  text_putc(t, '\n');
  text_free(&line);
}

static void put_function(Text *t, const AbiFunc *f) {
  Arena *a = arena_create();
  Text parameters = {0};
  text_puts(t, "/* ");
  put_signature(t, abi_signature(a, f));
  text_puts(t, " *\n");
  for (uint32_t i = 0; i < f->nparams; i++) {
    const AbiParam *p = &f->params[i];
    const AbiValue *v = p->arg != ABI_ABSENT ? &f->args[p->arg] : &f->outs[p->out];
    put_value(t, v, p->out == ABI_ABSENT ? "in " : p->arg == ABI_ABSENT ? "out" : "in/out");
  }
  if (f->plain) {
    text_puts(t, " */\n");
    put_parameters(&parameters, f, false);
    put_prototype(t, "int", f->symbol, text_cstr(&parameters));
    text_clear(&parameters);
    put_parameters(&parameters, f, true);
    put_prototype(t, "int", arena_printf(a, "%s_ws", f->symbol), text_cstr(&parameters));
    text_clear(&parameters);
    const char *const *dims = abi_workspace_c_names(a, f);
    for (uint32_t i = 0; i < abi_workspace_ndims(f); i++)
      text_printf(&parameters, "%sint64_t %s", i ? ", " : "", dims[i]);
    if (!abi_workspace_ndims(f)) text_puts(&parameters, "void");
    put_prototype(t, "int64_t", arena_printf(a, "%s_workspace", f->symbol), text_cstr(&parameters));
  } else {
    text_printf(t, " * There is no plain entry: %s.\n */\n", f->not_plain);
  }
  put_prototype(t, "int", arena_printf(a, "%s_dl", f->symbol),
                "DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts");
  put_prototype(t, "const RxInfo", arena_printf(a, "*%s_info", f->symbol), "void");
  text_putc(t, '\n');
  text_free(&parameters);
  arena_free(a);
}

void header_print(Text *t, const AbiModule *abi, const char *prefix, const char *source) {
  text_puts(t, "/* Made by relaxc from '");
  put_clean(t, source);
  text_puts(
      t,
      "'.\n"
      " *\n"
      " * Tensors are compact, row-major and aligned to their element; outputs must not overlap\n"
      " * inputs. Entries return 0 or a negative RX_ERR_ code; rx_error() then says what was "
      "wrong.\n"
      " * All are reentrant and thread-safe. NAME_ws takes scratch memory of at least\n"
      " * NAME_workspace() bytes, aligned to 64. NAME_dl takes DLPack tensors and checks them; an\n"
      " * output whose data is NULL is allocated, to be released by rx_free.\n"
      " */\n");
  text_printf(t, "#ifndef RELAXC_HEADER_%s_H\n#define RELAXC_HEADER_%s_H\n\n", prefix, prefix);
  text_puts(t, "#include <stdint.h>\n#include \"relaxrt.h\"\n\n"
               "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  for (uint32_t i = 0; i < abi->n; i++) put_function(t, abi->funcs[i]);
  text_puts(t, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}
