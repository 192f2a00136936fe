/* The printer's frame: names and scopes, attribute values, a whole module.
 *
 * Bodies are printed first and the head (metadata, header comments, TypeVar lines) is put in front
 * of them, since only the bodies tell what the head must hold. Names are kept as they are where
 * they are unique in scope, and get _1, _2, ... otherwise.
 */
#include "ir/print_impl.h"
#include <stdlib.h>

bool dialect_parse(const char *s, Dialect *out) {
  if (strcmp(s, "tirx") == 0 || strcmp(s, "today") == 0)
    *out = DIALECT_TODAY;
  else if (strcmp(s, "tir") == 0 || strcmp(s, "earlier") == 0)
    *out = DIALECT_EARLIER;
  else
    return false;
  return true;
}

void printer_init(Printer *p, Text *t, Dialect d, Arena *a) {
  *p = (Printer){.t = t, .d = d, .arena = a};
  map_init(&p->names, a);
  map_init(&p->node_names, a);
  map_init(&p->declared, a);
  map_init(&p->prim_params, a);
  map_init(&p->late, a);
  map_init(&p->data_names, a);
  map_init(&p->loops, a);
  map_init(&p->consts.index, a);
  map_init(&p->tensors.index, a);
  map_init(&p->shared, a);
  strmap_init(&p->used, a);
  strmap_init(&p->typevar_names, a);
  strmap_init(&p->local_dims, a);
}

/* Forgets the names of the last function; those that every function must avoid stay taken. */
static void printer_begin_func(Printer *p) {
  static const char *const reserved[] = {"I", "T", "R", "cls", "tvm", "metadata", "TypeVar"};
  map_init(&p->names, p->arena);
  map_init(&p->node_names, p->arena);
  map_init(&p->declared, p->arena);
  map_init(&p->prim_params, p->arena);
  map_init(&p->data_names, p->arena);
  map_init(&p->loops, p->arena);
  strmap_init(&p->used, p->arena);
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
    strmap_set(&p->used, reserved[i], (void *)(uintptr_t)1);
  p->scope.n = 0;
  p->pending.n = 0;
  p->need_cls = p->cls_done = false;
}

/* ---- names ---- */

/* Text that Python takes as an identifier; other characters become '_'. */
static const char *identifier(Printer *p, const char *s) {
  bool ok = *s && !(*s >= '0' && *s <= '9');
  for (const char *c = s; *c; c++)
    ok &= *c == '_' || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
          (*c >= '0' && *c <= '9') || (unsigned char)*c >= 0x80;
  if (ok) return s;
  char *r = arena_printf(p->arena, "%s%s", *s >= '0' && *s <= '9' ? "_" : "", *s ? s : "v");
  for (char *c = r; *c; c++) {
    bool word = *c == '_' || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                (*c >= '0' && *c <= '9') || (unsigned char)*c >= 0x80;
    if (!word) *c = '_';
  }
  return r;
}

/* A name like `hint` that nothing in scope has. */
static const char *take_name(Printer *p, const char *hint) {
  const char *name = identifier(p, hint ? hint : "v");
  void **used = strmap_at(&p->used, name);
  uintptr_t next = (uintptr_t)*used;
  *used = (void *)(next + 1);
  if (next) {
    const char *base = name;
    do name = arena_printf(p->arena, "%s_%zu", base, (size_t)next++);
    while (strmap_get(&p->used, name));
    strmap_set(&p->used, base, (void *)next);
    strmap_set(&p->used, name, (void *)(uintptr_t)1);
  }
  vec_push(p->arena, &p->scope, name);
  return name;
}

static const char *name_at(Printer *p, void **at, const char *hint) {
  if (!*at) *at = (void *)(uintptr_t)take_name(p, hint);
  return *at;
}

const char *print_define(Printer *p, const void *key, const char *hint) {
  if (!p->arena) return hint ? hint : "v";
  const char *name = take_name(p, hint);
  map_setp(&p->names, key, (void *)(uintptr_t)name);
  return name;
}

static const char *define_dim(Printer *p, const Var *v, StrMap *into, const StrMap *avoid) {
  const char *name;
  do name = print_define(p, v, v->name);
  while (strmap_has(avoid, name));
  strmap_set(into, name, (void *)(uintptr_t)name);
  return name;
}

const char *print_define_typevar(Printer *p, const Var *v) {
  return define_dim(p, v, &p->typevar_names, &p->local_dims);
}

const char *print_define_local(Printer *p, const Var *v) {
  return define_dim(p, v, &p->local_dims, &p->typevar_names);
}

const char *print_name(Printer *p, const void *key, const char *hint) {
  return p->arena ? name_at(p, map_atp(&p->names, key), hint) : hint ? hint : "v";
}

const char *print_define_node(Printer *p, const Node *n, const char *hint) {
  if (!p->arena) return hint ? hint : "v";
  const char *name = take_name(p, hint);
  map_set(&p->node_names, n->id, (void *)(uintptr_t)name);
  return name;
}

const char *print_node_name(Printer *p, const Node *n) {
  return p->arena ? name_at(p, map_at(&p->node_names, n->id), n->name) : n->name ? n->name : "v";
}

uint32_t print_scope_enter(Printer *p) {
  return p->scope.n;
}

void print_scope_leave(Printer *p, uint32_t mark) {
  if (mark) /* leaving a whole function, nobody asks any more */
    while (p->scope.n > mark) strmap_set(&p->used, vec_pop(&p->scope), NULL);
  p->scope.n = mark;
}

/* ---- marks ---- */

void print_mark(Printer *p, Span s) {
  if (!p->marks || p->t != p->marked || !s.file) return;
  vec_push(p->marks->arena, p->marks, ((PrintMark){s.begin, p->t->n}));
}

void print_moved(Printer *p, size_t start, size_t n) {
  if (!p->marks || p->t != p->marked) return;
  for (uint32_t i = p->marks->n; i > 0 && p->marks->at[i - 1].out >= start; i--)
    p->marks->at[i - 1].out += n;
}

/* ---- attribute values ---- */

static void print_attr_items(Printer *p, const Attr *a) {
  for (uint32_t i = 0; i < a->n; i++) {
    if (i) text_puts(p->t, ", ");
    if (a->kind == ATTR_DICT) {
      text_put_quoted(p->t, a->keys[i], strlen(a->keys[i]));
      text_puts(p->t, ": ");
    } else if (a->keys && a->keys[i]) {
      text_printf(p->t, "%s=", a->keys[i]);
    }
    print_attr(p, a->items[i]);
  }
}

void print_attr(Printer *p, const Attr *a) {
  Text *t = p->t;
  if (!a) {
    text_puts(t, "None");
    return;
  }
  switch (a->kind) {
  case ATTR_NONE: text_puts(t, "None"); return;
  case ATTR_BOOL: text_puts(t, a->b ? "True" : "False"); return;
  case ATTR_INT: text_printf(t, "%lld", (long long)a->i); return;
  case ATTR_FLOAT: text_put_double(t, a->f); return;
  case ATTR_STR: text_put_quoted(t, a->s, strlen(a->s)); return;
  case ATTR_DTYPE: text_printf(t, "\"%s\"", dtype_name(a->dtype)); return;
  case ATTR_EXPR: print_expr(p, a->expr); return;
  case ATTR_LAMBDA: print_lambda(p, a->map); return;
  case ATTR_REGION: print_region(p, a->region); return;
  case ATTR_LIST:
    text_putc(t, '[');
    print_attr_items(p, a);
    text_putc(t, ']');
    return;
  case ATTR_DICT:
    text_putc(t, '{');
    print_attr_items(p, a);
    text_putc(t, '}');
    return;
  case ATTR_INDEX_MAP: print_index_map(p, a->map); return;
  case ATTR_TENSOR: print_meta_ref(p, &p->tensors, META_TENSOR, a->tensor); return;
  case ATTR_CALL:
    if (a->s[0] == 'T') p->uses_T = true;
    if (a->s[0] == 'R') p->uses_R = true;
    text_printf(t, "%s(", a->s);
    print_attr_items(p, a);
    text_putc(t, ')');
    return;
  }
  bug("attribute kind %d", (int)a->kind);
}

void print_attr_args(Printer *p, const Attr *args, const Attr *options) {
  print_attr_items(p, args);
  for (uint32_t i = 0; options && i < options->n; i++) {
    text_printf(p->t, "%s%s=", i || args->n ? ", " : "", options->keys[i]);
    print_attr(p, options->items[i]);
  }
}

/* "tir.noalias" is today's "tirx.noalias". */
static const char *dialect_key(Printer *p, const char *key) {
  if (p->d == DIALECT_TODAY && strncmp(key, "tir.", 4) == 0)
    return arena_printf(p->arena, "tirx.%s", key + 4);
  if (p->d == DIALECT_EARLIER && strncmp(key, "tirx.", 5) == 0)
    return arena_printf(p->arena, "tir.%s", key + 5);
  return key;
}

void print_func_attrs(Printer *p, const Attr *attrs, const char *name, const char *head,
                      int indent) {
  if (!attrs) return;
  bool first = true;
  for (uint32_t i = 0; i < attrs->n; i++) {
    const char *key = attrs->keys[i];
    const Attr *v = attrs->items[i];
    if (strcmp(key, "global_symbol") == 0 && v->kind == ATTR_STR && strcmp(v->s, name) == 0)
      continue;
    if (first) {
      text_indent(p->t, indent);
      text_printf(p->t, "%s({", head);
    } else {
      text_puts(p->t, ", ");
    }
    first = false;
    key = dialect_key(p, key);
    text_put_quoted(p->t, key, strlen(key));
    text_puts(p->t, ": ");
    print_attr(p, v);
  }
  if (!first) text_puts(p->t, "})\n");
}

/* ---- the module ---- */

static int global_rank(const Global *g) {
  switch (g->kind) {
  case GLOBAL_PRIM: return 0;
  case GLOBAL_EXTERN: return 1;
  case GLOBAL_FUNC: return strcmp(g->name, "main") == 0 ? 3 : 2;
  }
  return 4;
}

static int global_order(const void *x, const void *y) {
  const Global *a = *(const Global *const *)x, *b = *(const Global *const *)y;
  int d = global_rank(a) - global_rank(b);
  return d ? d : strcmp(a->name, b->name);
}

static void print_global(Printer *p, const Global *g, int indent) {
  printer_begin_func(p);
  switch (g->kind) {
  case GLOBAL_FUNC: print_func(p, g->func, g->name, indent, false); return;
  case GLOBAL_PRIM: print_primfunc(p, g->prim, indent); return;
  case GLOBAL_EXTERN:
    p->uses_R = true;
    text_indent(p->t, indent);
    text_printf(p->t, "%s = R.ExternFunc(", g->name);
    text_put_quoted(p->t, g->ext.symbol, strlen(g->ext.symbol));
    bool plain = g->ext.sinfo && g->ext.sinfo->kind == SINFO_CALLABLE && g->ext.sinfo->opaque &&
                 !g->ext.sinfo->pure &&
                 (!g->ext.sinfo->ret || g->ext.sinfo->ret->kind == SINFO_OBJECT);
    if (g->ext.sinfo && !plain) {
      text_puts(p->t, ", ");
      print_sinfo(p, g->ext.sinfo);
    }
    text_puts(p->t, ")\n");
    return;
  }
}

/* What stands above the class or the lone function. */
static void print_head(Printer *p, Text *out) {
  if (p->consts.at.n || p->tensors.at.n) print_metadata(out, p);
  bool today = p->d == DIALECT_TODAY;
  if (p->typevar_names.n) text_puts(out, "# from typing import TypeVar\n");
  if (p->uses_I) text_puts(out, "# from tvm.script import ir as I\n");
  if (p->uses_T || p->typevar_names.n)
    text_printf(out, "# from tvm.script import %s as T\n", today ? "tirx" : "tir");
  if (p->uses_R) text_puts(out, "# from tvm.script import relax as R\n");
  text_putc(out, '\n');
  for (uint32_t i = 0; i < p->typevar_names.n; i++)
    text_printf(out, "%s = TypeVar(\"%s\")\n", p->typevar_names.entries[i].key,
                p->typevar_names.entries[i].key);
}

static void print_all(Text *t, const Module *m, Dialect d, PrintMarks *marks, const Global **gs,
                      uint32_t n, bool lone) {
  Arena *a = arena_create();
  Text head = {0};
  size_t start = t->n;
  Printer p;
  printer_init(&p, t, d, a);
  p.as_read = m->as_read;
  p.marks = marks;
  p.marked = t;
  int indent = lone ? 0 : 4;
  if (!lone) {
    p.uses_I = true;
    print_mark(&p, m->span);
    text_puts(t, "@I.ir_module\n");
    print_mark(&p, m->span);
    text_puts(t, "class Module:\n");
    bool any = n > 0;
    const Attr *const heads[] = {m->attrs, m->global_infos};
    const char *const names[] = {"I.module_attrs", "I.module_global_infos"};
    for (int i = 0; i < 2; i++) {
      if (!heads[i] || !heads[i]->n) continue;
      any = true;
      text_printf(t, "    %s(", names[i]);
      print_attr(&p, heads[i]);
      text_puts(t, ")\n");
    }
    if (!any) text_puts(t, "    pass\n");
  }
  for (uint32_t i = 0; i < n; i++) {
    if (i) text_putc(t, '\n');
    print_global(&p, gs[i], indent);
  }
  print_head(&p, &head);
  text_insert(t, start, head.s, head.n);
  print_moved(&p, start, head.n);
  text_free(&head);
  arena_free(a);
}

void module_print(Text *t, const Module *m, Dialect d) {
  module_print_marked(t, m, d, NULL);
}

void module_print_marked(Text *t, const Module *m, Dialect d, PrintMarks *marks) {
  const Global **gs = xmalloc((m->globals.n + 1) * sizeof *gs);
  uint32_t n = 0;
  module_each(m, g) gs[n++] = g;
  qsort(gs, n, sizeof *gs, global_order);
  print_all(t, m, d, marks, gs, n, m->lone && n == 1 && gs[0]->kind != GLOBAL_EXTERN);
  free(gs);
}

/* One function as it stands inside a module's text; constants refer to a metadata section that only
 * module_print writes. */
static void print_one(Text *t, const Global *g, Dialect d, int indent) {
  Arena *a = arena_create();
  Printer p;
  printer_init(&p, t, d, a);
  print_global(&p, g, indent);
  arena_free(a);
}

void primfunc_print(Text *t, const PrimFunc *f, Dialect d, int indent) {
  Global g = {.kind = GLOBAL_PRIM, .name = f->name, .prim = (PrimFunc *)(uintptr_t)f};
  print_one(t, &g, d, indent);
}
