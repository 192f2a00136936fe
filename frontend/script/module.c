/* The file and the module: finds the functions, declares them all, then reads their bodies.
 *
 * Three rounds, so that functions may be used before they stand in the text: names, signatures
 * (prim_funcs whole, as they call no Relax function), bodies. A Relax function without a return
 * annotation is read when its first caller needs the result's type.
 */
#include "frontend/script/script.h"
#include "frontend/script/sema.h"

/* ---- names ---- */

const char *sema_member(Sema *s, const Tree *t, char ns) {
  if (t->kind != TREE_ATTR) return NULL;
  const Tree *root = t->b;
  while (root->kind == TREE_ATTR) root = root->b;
  if (root->kind != TREE_NAME) return NULL;
  bool whole = ns == 'R' && strcmp(root->name, "relax") == 0; /* R by its full name */
  if (!whole && (root->name[0] != ns || root->name[1])) return NULL;
  if (root == t->b) return t->name;
  const char *dotted = tree_dotted(s->ctx, t);
  return dotted ? strchr(dotted, '.') + 1 : NULL;
}

static Binding *new_symbol(Sema *s, const Tree *t) {
  Binding *b = scope_bind(&s->scope, t->name, BIND_VAR, tree_span(s, t));
  b->var = var_create_dim(s->ctx, t->name);
  /* A name in quotes that nothing declares is int32 in a prim_func. */
  if (s->tir && !strmap_has(&s->type_vars, t->name)) b->var = var_create(s->ctx, t->name, DT_I32);
  b->var->is_dim = true;
  b->var->span = b->span;
  b->undefined = !s->callable;
  return b;
}

static void undefined_name(Sema *s, const Tree *t) {
  if (s->signature) {
    if (s->params)
      sema_error(s, t,
                 "undefined symbolic variable '%s'; declare it before the module, %s = "
                 "TypeVar(\"%s\"), or write the dim as a string",
                 t->name, t->name, t->name);
    else
      sema_error(
          s, t,
          "symbolic variable '%s' is not defined: it must stand alone as a dim of a parameter",
          t->name);
  } else {
    const char *near = scope_nearest(&s->scope, t->name);
    if (near)
      sema_error(s, t, "undefined variable '%s'; did you mean '%s'?", t->name, near);
    else if (s->class_name && strmap_has(&s->decls, t->name))
      sema_error(s, t, "undefined variable '%s'; write 'cls.%s' for the function of the module",
                 t->name, t->name);
    else
      sema_error(s, t, "undefined variable '%s'", t->name);
  }
}

Binding *sema_lookup(Sema *s, const Tree *t) {
  Binding *b = scope_find(&s->scope, t->name);
  if (b && b->hidden) {
    if (s->signature || s->scope.poisoned) return NULL;
    sema_error(s, t, "'%s' is not visible here: it is bound in %s", t->name, b->where);
    diag_note(s->ctx->diags, b->span, "'%s' is bound here", t->name);
    scope_bind(&s->scope, t->name, BIND_BAD, tree_span(s, t));
    return NULL;
  }
  if (!b) {
    bool symbol = strmap_has(&s->type_vars, t->name);
    bool defines = s->params || s->callable;
    if (s->signature ? defines && (symbol || s->in_string) : symbol) {
      b = new_symbol(s, t);
    } else {
      if (!s->scope.poisoned) undefined_name(s, t);
      scope_bind(&s->scope, t->name, BIND_BAD, tree_span(s, t));
      return NULL;
    }
  }
  if (b->kind == BIND_BAD) return NULL;
  if (b->undefined && !s->signature && !s->allow_undefined) {
    sema_error(s, t,
               s->tir ? "variable '%s' is declared but nothing defines it"
                      : "symbolic variable '%s' is used before an R.match_cast defines it",
               t->name);
    b->undefined = false;
  }
  return b;
}

const char *sema_global(Sema *s, const Tree *t, bool *known) {
  const char *name = NULL;
  if (t->kind == TREE_ATTR && t->b->kind == TREE_NAME) {
    const char *base = t->b->name;
    Binding *b = scope_find(&s->scope, base);
    bool module = b ? b->kind == BIND_MODULE : s->class_name && strcmp(base, s->class_name) == 0;
    if (!module && !(!b && strcmp(base, "cls") == 0)) return NULL;
    name = t->name;
  } else if (t->kind == TREE_NAME && !s->class_name) {
    if (!strmap_has(&s->decls, t->name)) return NULL;
    name = t->name;
  }
  if (!name) return NULL;
  *known = module_find(s->m, name) != NULL;
  if (*known || s->broken) return name;
  const char **names = ARENA_ARRAY(s->arena, const char *, s->m->globals.n + 1);
  size_t n = 0;
  module_each(s->m, g) names[n++] = g->name;
  const char *near = text_nearest(name, names, n);
  if (near)
    sema_error(s, t, "the module has no function '%s'; did you mean '%s'?", name, near);
  else
    sema_error(s, t, "the module has no function '%s'", name);
  return name;
}

static Span def_span(const Sema *s, const Tree *t) {
  Span sp = {s->file, t->def->name_begin, t->def->name_end};
  return sp;
}

/* ---- bodies ---- */

/* A step for one function; an error marks it broken. */
static void run(Sema *s, Decl *d, void (*step)(Sema *s, Decl *d)) {
  uint32_t errors = diags_errors(s->ctx->diags);
  Sema inner = *s;
  step(&inner, d);
  if (diags_errors(s->ctx->diags) != errors) module_find(s->m, d->name)->broken = true;
}

static void run_body(Sema *s, Decl *d) {
  if (d->state != DECL_NEW) return;
  d->state = DECL_RUNNING;
  run(s, d, d->prim ? loop_body : graph_body);
  d->state = DECL_DONE;
}

enum { MAX_WAITING = 200 };

void sema_require_body(Sema *s, const char *name) {
  Decl *d = strmap_get(&s->decls, name);
  if (!d || !d->func || d->func->ret_annot) return;
  if (d->state == DECL_NEW && s->waiting == MAX_WAITING) {
    diag_error(s->ctx->diags, decl_span(s, d),
               "function '%s' needs a return annotation: it ends a chain of %d functions without, "
               "each of which calls the next",
               name, MAX_WAITING);
    d->func->ret = sinfo_bad(s->ctx);
    d->state = DECL_DONE;
    module_find(s->m, name)->broken = true;
  } else if (d->state == DECL_NEW) {
    s->waiting++;
    run_body(s, d);
    s->waiting--;
  } else if (d->state == DECL_RUNNING && !d->func->ret) {
    d->func->ret = sinfo_object(s->ctx); /* a recursive call before the result is known */
  }
}

/* ---- definitions ---- */

/* A flag of a decorator: private=True. */
static bool read_flag(Sema *s, const Tree *t, bool *out) {
  int64_t v = 0;
  if (t->b->kind != TREE_CONST || !tree_const_int(t->b, &v)) {
    sema_error(s, t->b, "'%s' must be True or False", t->name);
    return false;
  }
  *out = v != 0;
  return true;
}

static void read_flags(Sema *s, const Tree *call, Decoration *d) {
  static const char *const relax_names[] = {"private", "pure", "check_well_formed"};
  static const char *const prim_names[] = {"private", "s_tir", "persistent", "check_well_formed"};
  for (uint32_t i = 0; i < call->n; i++) {
    const Tree *a = call->at[i];
    if (a->kind == TREE_BAD) continue;
    if (a->kind != TREE_KEYWORD) {
      sema_error(s, a, "the decorator takes keyword arguments only");
      continue;
    }
    if (strcmp(a->name, "private") == 0)
      read_flag(s, a, &d->is_private);
    else if (strcmp(a->name, "check_well_formed") == 0)
      read_flag(s, a, &d->check);
    else if (d->relax && strcmp(a->name, "pure") == 0)
      read_flag(s, a, &d->pure);
    else if (d->prim && strcmp(a->name, "s_tir") == 0)
      read_flag(s, a, &d->s_tir);
    else if (d->prim && strcmp(a->name, "persistent") == 0)
      read_flag(s, a, &d->persistent);
    else {
      const char *near =
          text_nearest(a->name, d->relax ? relax_names : prim_names, d->relax ? 3 : 4);
      if (near)
        sema_error(s, a, "the decorator has no argument '%s'; did you mean '%s'?", a->name, near);
      else
        sema_error(s, a, "the decorator has no argument '%s'", a->name);
    }
  }
}

bool sema_decoration(Sema *s, const Tree *t, Decoration *d) {
  static const char *const known[] = {"R.function", "T.prim_func", "I.ir_module"};
  const TreeDef *def = t->def;
  Span name = {s->file, def->name_begin, def->name_end};
  *d = (Decoration){.pure = true, .check = true};
  if (!def->n_decorators) {
    diag_error(s->ctx->diags, name, "function '%s' needs a decorator, @R.function or @T.prim_func",
               def->name);
    return false;
  }
  for (uint32_t i = 0; i < def->n_decorators; i++) {
    const Tree *x = def->decorators[i];
    if (x->kind == TREE_BAD) return false;
    const char *dotted = tree_dotted(s->ctx, x->kind == TREE_CALL ? x->a : x);
    bool relax = dotted && strcmp(dotted, "R.function") == 0;
    bool prim = dotted && strcmp(dotted, "T.prim_func") == 0;
    if (!relax && !prim) {
      const char *near = dotted ? text_nearest(dotted, known, 3) : NULL;
      if (near)
        sema_error(s, x, "unknown decorator '%s'; did you mean '%s'?", dotted, near);
      else
        sema_error(s, x, "unknown decorator; expected @R.function or @T.prim_func");
      return false;
    }
    if (d->relax || d->prim) {
      sema_error(s, x, "a function has one decorator");
      return false;
    }
    d->relax = relax;
    d->prim = prim;
    if (x->kind == TREE_CALL) read_flags(s, x, d);
  }
  return true;
}

static bool name_is_free(Sema *s, const char *name, Span span) {
  if (!module_find(s->m, name)) return true;
  diag_error(s->ctx->diags, span, "duplicate function '%s'", name);
  Decl *first = strmap_get(&s->decls, name);
  if (first) diag_note(s->ctx->diags, decl_span(s, first), "'%s' is first defined here", name);
  return false;
}

static void declare_function(Sema *s, const Tree *t) {
  const TreeDef *def = t->def;
  Decoration d;
  Span name = {s->file, def->name_begin, def->name_end};
  if (!sema_decoration(s, t, &d)) {
    s->broken = true;
    return;
  }
  if (!name_is_free(s, def->name, name)) return;
  Decl *decl = ARENA_NEW(s->arena, Decl);
  decl->name = def->name;
  decl->tree = t;
  Span span = tree_span(s, t);
  span.end = def->head_end;
  if (d.relax) {
    Func *f = decl->func = func_create(s->m, def->name, span);
    f->name_span = name;
    f->is_private = d.is_private;
    f->pure = d.pure;
    f->check_well_formed = d.check;
    module_add_func(s->m, f);
  } else {
    PrimFunc *f = decl->prim = primfunc_create(s->m, def->name, span);
    f->is_private = d.is_private;
    f->s_tir = d.s_tir;
    f->persistent = d.persistent;
    f->check_well_formed = d.check;
    module_add_prim(s->m, f);
  }
  strmap_set(&s->decls, def->name, decl);
}

/* name = R.ExternFunc("symbol") in the class body */
static void read_extern(Sema *s, const Tree *t) {
  const Tree *call = t->at[1];
  if (call->n < 1 || call->n > 2 || call->at[0]->kind != TREE_STR) {
    sema_error(s, call, "expected R.ExternFunc(\"symbol\")");
    return;
  }
  const SInfo *si = sinfo_callable_opaque(s->ctx, sinfo_object(s->ctx), false);
  if (call->n == 2) si = sema_type(s, call->at[1]);
  if (name_is_free(s, t->at[0]->name, tree_span(s, t->at[0])))
    module_add_extern(s->m, t->at[0]->name, call->at[0]->str, si);
}

/* I.module_attrs({...}), I.module_global_infos({...}): each once. */
static void read_module_dict(Sema *s, const Tree *call, const Attr **out) {
  if (*out && (*out)->n) sema_error(s, call, "a module has one I.%s", call->a->name);
  const Attr *a = sema_attr_dict(s, call->at[0]);
  if (!*out || !(*out)->n) *out = a;
}

static void read_class_statement(Sema *s, const Tree *t, bool first) {
  switch ((TreeKind)t->kind) {
  case TREE_BAD: s->broken = true; return;
  case TREE_PASS:
  case TREE_IMPORT: return;
  case TREE_DEF: declare_function(s, t); return;
  case TREE_BLOCK:
    for (uint32_t i = 0; i < t->n; i++) read_class_statement(s, t->at[i], false);
    return;
  case TREE_EXPR:
    if (first && t->b->kind == TREE_STR) return;
    if (graph_is_call(t->b, "I", "module_attrs") && t->b->n == 1) {
      read_module_dict(s, t->b, &s->m->attrs);
      return;
    }
    if (graph_is_call(t->b, "I", "module_global_infos") && t->b->n == 1) {
      read_module_dict(s, t->b, &s->m->global_infos);
      return;
    }
    break;
  case TREE_ASSIGN:
    if (t->n == 2 && t->at[0]->kind == TREE_NAME && graph_is_call(t->at[1], "R", "ExternFunc")) {
      read_extern(s, t);
      return;
    }
    break;
  default: break;
  }
  sema_error(s, t, "%s is not allowed in a module", tree_describe(t));
}

static void read_class(Sema *s, const Tree *t) {
  const TreeDef *def = t->def;
  for (uint32_t i = 0; i < def->n_decorators; i++) { /* a class is a module without one too */
    const Tree *x = def->decorators[i];
    const char *name = tree_dotted(s->ctx, x->kind == TREE_CALL ? x->a : x);
    bool module =
        name && (strcmp(name, "I.ir_module") == 0 || strcmp(name, "tvm.script.ir_module") == 0);
    if (!module && x->kind != TREE_BAD)
      sema_error(s, x, "unknown decorator; a module is @I.ir_module");
  }
  s->class_name = def->name;
  s->m->name = def->name;
  s->m->span = def_span(s, t);
  for (uint32_t i = 0; i < def->body->n; i++) read_class_statement(s, def->body->at[i], i == 0);
}

/* ---- the file ---- */

/* n = TypeVar("n") */
static bool read_type_var(Sema *s, const Tree *t) {
  const Tree *v = t->at[1];
  if (t->n != 2 || t->at[0]->kind != TREE_NAME || v->kind != TREE_CALL) return false;
  const char *name = tree_dotted(s->ctx, v->a);
  if (!name || (strcmp(name, "TypeVar") != 0 && strcmp(name, "typing.TypeVar") != 0)) return false;
  if (v->n != 1 || v->at[0]->kind != TREE_STR)
    sema_error(s, v, "expected TypeVar(\"%s\")", t->at[0]->name);
  strmap_set(&s->type_vars, t->at[0]->name, (void *)(uintptr_t)t);
  return true;
}

/* metadata = tvm.ir.load_json("...") */
static bool read_metadata(Sema *s, const Tree *t) {
  const Tree *v = t->at[1];
  if (t->n != 2 || t->at[0]->kind != TREE_NAME || v->kind != TREE_CALL) return false;
  const char *name = tree_dotted(s->ctx, v->a);
  if (!name || (strcmp(name, "tvm.ir.load_json") != 0 && strcmp(name, "ir.load_json") != 0))
    return false;
  if (s->metadata)
    sema_error(s, t, "a file has one metadata section");
  else if (v->n != 1 || v->at[0]->kind != TREE_STR)
    sema_error(s, v, "expected tvm.ir.load_json(\"\"\"...\"\"\")");
  else
    s->metadata = metadata_read(s, v->at[0]);
  return true;
}

static void read_file(Sema *s, const Tree *root) {
  const Tree *definition = NULL;
  Span start = {s->file, 0, 0};
  for (uint32_t i = 0; i < root->n; i++) {
    const Tree *t = root->at[i];
    switch ((TreeKind)t->kind) {
    case TREE_BAD: s->broken = true; continue;
    case TREE_IMPORT:
    case TREE_PASS: continue;
    case TREE_EXPR:
      if (t->b->kind == TREE_STR) continue;
      break;
    case TREE_ASSIGN:
      if (read_type_var(s, t) || read_metadata(s, t)) continue;
      break;
    case TREE_CLASS:
    case TREE_DEF:
      if (definition) {
        diag_error(s->ctx->diags, def_span(s, t),
                   "a file holds one module, or one function without a module");
        diag_note(s->ctx->diags, def_span(s, definition), "the first one is here");
        continue;
      }
      definition = t;
      if (t->kind == TREE_CLASS) {
        read_class(s, t);
      } else {
        s->m->lone = true;
        declare_function(s, t);
      }
      continue;
    default: break;
    }
    sema_error(s, t, "%s is not allowed outside a module", tree_describe(t));
  }
  if (!definition && !s->broken)
    diag_error(s->ctx->diags, start,
               "the file holds no module (@I.ir_module) and no function (@R.function)");
}

static void declare(Sema *s, Decl *d) {
  run(s, d, d->prim ? loop_declare : graph_declare);
}

static void each_decl(Sema *s, bool prims, void (*fn)(Sema *s, Decl *d)) {
  module_each(s->m, g) {
    Decl *d = strmap_get(&s->decls, g->name);
    if (d && (d->prim != NULL) == prims && !diags_full(s->ctx->diags)) fn(s, d);
  }
}

Module *script_parse(Context *c, uint32_t file) {
  Arena *scratch = arena_create();
  const Tree *root = tree_parse(c, scratch, file);
  if (!root) {
    arena_free(scratch);
    return NULL;
  }
  Map layouts;
  map_init(&layouts, scratch);
  Sema s = {.ctx = c, .arena = scratch, .file = file, .layouts = &layouts};
  s.m = module_create(c);
  s.m->file = file;
  strmap_init(&s.type_vars, scratch);
  strmap_init(&s.decls, scratch);
  scope_init(&s.scope, scratch);
  read_file(&s, root);
  each_decl(&s, true, declare);
  each_decl(&s, true, run_body);
  each_decl(&s, false, declare);
  each_decl(&s, false, run_body);
  if (s.broken || diags_full(c->diags)) module_each(s.m, g) g->broken = true;
  metadata_release(&s);
  arena_free(scratch);
  s.m->as_read = true;
  return s.m;
}
