/* What prim_funcs for GPUs and NPUs say beyond loops and buffers: thread variables, coordinates of
 * threads and groups, tile primitives. They are checked for their names and arguments, printed, and
 * refused when a CPU is to run them. The names are rows of ir/device.def. Source: TVM's tirx
 * language, builder and printer.
 */
#include "frontend/script/loop.h"

static const char *const ids[] = {
#define DEVICE_ID(name) name,
#include "ir/device.def"
};
static const char *const scopes[] = {
#define DEVICE_SCOPE(name) name,
#include "ir/device.def"
};
static const char *const tiles[] = {
#define DEVICE_TILE(name) name,
#include "ir/device.def"
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool is_one_of(const char *name, size_t len, const char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strncmp(names[i], name, len) == 0 && names[i][len] == '\0') return true;
  return false;
}

/* "wg.copy": the primitive's name; NULL when `name` is in no such namespace. */
static const char *tile_name(const char *name) {
  const char *dot = strchr(name, '.');
  return dot && is_one_of(name, (size_t)(dot - name), scopes, COUNT(scopes)) ? dot + 1 : NULL;
}

bool loop_is_device(const char *name) {
  return tile_name(name) || is_one_of(name, strlen(name), ids, COUNT(ids)) ||
         strcmp(name, "env_thread") == 0;
}

/* Sorts the arguments of a call into a list and a dict of what has a name; false after an error. */
static bool read_arguments(Sema *s, const Tree *call, const Attr **args, const Attr **options) {
  Attr *list = ARENA_NEW(s->m->arena, Attr);
  const Attr **items = ARENA_ARRAY(s->m->arena, const Attr *, call->n ? call->n : 1);
  bool ok = true;
  list->kind = ATTR_LIST;
  list->items = items;
  *args = list;
  *options = NULL;
  for (uint32_t i = 0; i < call->n; i++) {
    const Tree *x = call->at[i];
    bool named = x->kind == TREE_KEYWORD;
    const Attr *a = sema_attr(s, named ? x->b : x);
    if (!a) {
      ok = false;
    } else if (!named) {
      items[list->n++] = a;
    } else {
      const char *key = strpool_intern(s->ctx->strings, x->name, strlen(x->name));
      *options = attr_with(s->m->arena, *options, key, a);
    }
  }
  return ok;
}

static Stmt *device_stmt(Sema *s, const Tree *t, const char *name, const Attr *args,
                         const Attr *options) {
  Stmt *x = ARENA_NEW(s->m->arena, Stmt);
  x->kind = STMT_DEVICE;
  x->span = tree_span(s, t);
  x->device.name = strpool_intern(s->ctx->strings, name, strlen(name));
  x->device.args = args;
  x->device.options = options;
  return x;
}

/* Binds the names of `target`, one or a tuple of them, to new variables. */
static bool bind_targets(Sema *s, Stmt *x, const Tree *target, DType d) {
  bool tuple = target->kind == TREE_TUPLE || target->kind == TREE_LIST;
  uint32_t n = tuple ? target->n : 1;
  x->device.vars = ARENA_ARRAY(s->m->arena, Var *, n ? n : 1);
  x->device.nvars = n;
  for (uint32_t i = 0; i < n; i++) {
    const Tree *name = tuple ? target->at[i] : target;
    if (name->kind != TREE_NAME) {
      sema_error(s, name, "expected a name but got %s", tree_describe(name));
      return false;
    }
    Var *v = x->device.vars[i] = var_create(s->ctx, name->name, d);
    v->span = tree_span(s, name);
    scope_bind(&s->scope, name->name, BIND_VAR, v->span)->var = v;
  }
  return true;
}

/* tx, ty = T.thread_id([32, 4], dtype="uint32"); a preferred size or none at all may be given. */
static Stmt *read_id(Sema *s, const Tree *t, const Tree *target, const Tree *call,
                     const char *name) {
  const Attr *args = NULL, *options = NULL;
  DType d = DT_I32;
  if (!read_arguments(s, call, &args, &options)) return NULL;
  const Attr *extents = args->n ? args->items[0] : NULL, *type = attr_get(options, "dtype");
  bool tuple = target->kind == TREE_TUPLE || target->kind == TREE_LIST;
  if (args->n > 1 ||
      (extents && (extents->kind != ATTR_LIST || extents->n != (tuple ? target->n : 1)))) {
    sema_error(s, call, "T.%s takes a list with an extent for each variable", name);
    return NULL;
  }
  if (type && (type->kind != ATTR_STR || !dtype_parse(type->s, &d) || !dtype_is_int(d))) {
    sema_error(s, call, "the dtype of T.%s is an integer type such as \"int32\"", name);
    return NULL;
  }
  Stmt *x = device_stmt(s, t, name, args, options);
  return bind_targets(s, x, target, d) ? x : NULL;
}

Stmt *loop_read_device(Sema *s, const Tree *t, const Tree *target, const Tree *call,
                       const char *name) {
  const char *tile = tile_name(name);
  const Attr *args = NULL, *options = NULL;
  Stmt *x = NULL;
  if (tile && !is_one_of(tile, strlen(tile), tiles, COUNT(tiles))) {
    const char *near = text_nearest(tile, tiles, COUNT(tiles));
    if (near)
      sema_error(s, call->a, "unknown tile primitive 'T.%s'; did you mean '%s'?", name, near);
    else
      sema_error(s, call->a, "unknown tile primitive 'T.%s'", name);
  } else if (tile && target) {
    sema_error(s, call, "T.%s gives no value", name);
  } else if (tile) {
    if (read_arguments(s, call, &args, &options)) x = device_stmt(s, t, name, args, options);
  } else if (!target) {
    sema_error(s, call, "T.%s defines a variable: expected v = T.%s(...)", name, name);
  } else if (strcmp(name, "env_thread") == 0) {
    if (!read_arguments(s, call, &args, &options)) {
    } else if (args->n != 1 || args->items[0]->kind != ATTR_STR) {
      sema_error(s, call, "expected tx = T.env_thread(\"threadIdx.x\")");
    } else {
      x = device_stmt(s, t, name, args, options);
      if (!bind_targets(s, x, target, DT_I32))
        x = NULL;
      else
        map_setp(&s->loop->threads, x->device.vars[0], (void *)(uintptr_t)args->items[0]->s);
    }
  } else {
    x = read_id(s, t, target, call, name);
  }
  if (!x && target) loop_bind_bad(s, target);
  return x;
}

/* The variable of T.launch_thread: T.launch_thread(tx, extent) launches along a variable made
 * before by T.env_thread, T.launch_thread("threadIdx.x", extent) makes one. */
static Var *launch_var(Sema *s, const Tree *name, const Tree *call, DType d, const char **thread) {
  const Tree *what = call->at[0];
  if (what->kind == TREE_STR) {
    Var *v = var_create(s->ctx, name->name, d);
    v->span = tree_span(s, name);
    scope_bind(&s->scope, name->name, BIND_VAR, v->span)->var = v;
    *thread = strpool_intern(s->ctx->strings, what->str, what->n);
    return v;
  }
  Binding *b = sema_lookup(s, what);
  if (!b) return NULL;
  if (b->kind != BIND_VAR || !(*thread = map_getp(&s->loop->threads, b->var))) {
    sema_error(s, what, "'%s' is not made by T.env_thread", what->name);
    return NULL;
  }
  return b->var;
}

Stmt *loop_read_launch(Sema *s, const Tree *t, const Tree *name, const Tree *call) {
  const Tree *what = call->n == 2 ? call->at[0] : NULL;
  bool made = what && what->kind == TREE_NAME;
  if (!what || (made ? name != NULL : what->kind != TREE_STR || !name || name->kind != TREE_NAME)) {
    sema_error(s, call, "expected tx = T.launch_thread(\"threadIdx.x\", extent)");
    if (name) loop_bind_bad(s, name);
    return NULL;
  }
  const Expr *n = sema_expr(s, call->at[1]);
  if (!n || !dtype_is_int(n->dtype) || n->dtype.lanes != 1) {
    if (n)
      sema_error(s, call->at[1], "an extent must be an integer but got %s", dtype_name(n->dtype));
    if (name) loop_bind_bad(s, name);
    return NULL;
  }
  const char *thread = NULL;
  Var *v = launch_var(s, name, call, n->dtype, &thread);
  if (!v) return NULL;
  Stmt *x = ARENA_NEW(s->m->arena, Stmt);
  x->kind = STMT_FOR;
  x->span = tree_span(s, t);
  x->loop.kind = FOR_THREAD;
  x->loop.launch = true;
  x->loop.thread = thread;
  x->loop.var = v;
  x->loop.min = expr_lit(s->ctx, n->dtype, 0);
  x->loop.extent = n;
  map_setp(&s->loop->loops, v, arena_dup(s->arena, &(Range){x->loop.min, n}, sizeof(Range)));
  return x;
}
