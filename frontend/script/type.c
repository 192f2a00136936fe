/* Annotations: R.Tensor((n, 4), dtype="float32"), R.Tuple(...), T.int64 ... to struct info. */
#include "frontend/script/sema.h"
#include <stdlib.h>

const char *sema_type_text(Sema *s, const SInfo *si) {
  Text t = {0};
  sinfo_print(&t, si);
  const char *copy = arena_strndup(s->arena, text_cstr(&t), t.n);
  text_free(&t);
  return copy;
}

bool sema_prim_type(const char *member, DType *out) {
  return dtype_parse(member, out) && dtype_known(*out);
}

static bool collect(Sema *s, const Tree *t, const char *what, const char *const *names, uint32_t n,
                    const Tree **slots);

bool sema_is_pointer(Sema *s, const Tree *t) {
  const char *m = sema_member(s, t->kind == TREE_CALL ? t->a : t, 'T');
  static const char *const names[] = {"handle", "TensorMap", "Ptr", "ptr"};
  for (size_t i = 0; m && i < sizeof names / sizeof *names; i++)
    if (strcmp(m, names[i]) == 0) return true;
  return false;
}

bool sema_pointer(Sema *s, const Tree *t, DType *elem, const char **scope) {
  static const char *const names[] = {"dtype", "storage_scope"};
  const Tree *slots[2] = {0};
  *elem = DT_UNKNOWN;
  *scope = "global";
  if (strcmp(sema_member(s, t->kind == TREE_CALL ? t->a : t, 'T'), "TensorMap") == 0) {
    *scope = POINTER_TENSOR_MAP;
    return true;
  }
  if (t->kind != TREE_CALL) return true;
  if (!collect(s, t, "T.handle", names, 2, slots)) return false;
  if (slots[0] && !tree_is_none(slots[0]) && !sema_dtype(s, slots[0], elem)) return false;
  if (slots[1] && slots[1]->kind != TREE_STR) {
    sema_error(s, slots[1], "the scope of a pointer is a string such as \"global\"");
    return false;
  }
  if (slots[1]) *scope = strpool_intern(s->ctx->strings, slots[1]->str, slots[1]->n);
  return true;
}

bool sema_result_type(Sema *s, const Tree *t, DType *d, const char **pointer) {
  *pointer = NULL;
  bool ty = t->kind == TREE_ATTR && strcmp(t->name, "ty") == 0;
  if (!ty || !sema_is_pointer(s, t->b)) return sema_dtype(s, t, d);
  DType elem = DT_UNKNOWN;
  const char *scope = NULL;
  if (!sema_pointer(s, t->b, &elem, &scope)) return false;
  *d = DT_HANDLE;
  *pointer = pointer_name(s->ctx, elem, scope);
  return true;
}

/* Positional and keyword arguments of an annotation's call, sorted into slots by name. */
static bool collect(Sema *s, const Tree *t, const char *what, const char *const *names, uint32_t n,
                    const Tree **slots) {
  bool ok = true;
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *a = t->at[i];
    if (a->kind == TREE_BAD) return false;
    if (a->kind == TREE_STAR || a->kind == TREE_DOUBLESTAR) {
      sema_error(s, a, "a starred argument is not supported");
      return false;
    }
    if (a->kind != TREE_KEYWORD) {
      if (i >= n) {
        sema_error(s, a, "%s takes at most %u arguments but got %u", what, n, t->n);
        return false;
      }
      slots[i] = a;
      continue;
    }
    uint32_t k = 0;
    while (k < n && strcmp(names[k], a->name) != 0) k++;
    if (k == n) {
      const char *near = text_nearest(a->name, names, n);
      if (near)
        sema_error(s, a, "%s has no argument '%s'; did you mean '%s'?", what, a->name, near);
      else
        sema_error(s, a, "%s has no argument '%s'", what, a->name);
      ok = false;
    } else if (slots[k]) {
      sema_error(s, a, "argument '%s' is given twice", a->name);
      ok = false;
    } else {
      slots[k] = a->b;
    }
  }
  return ok;
}

static bool read_dims(Sema *s, const Tree *t, const Expr ***out) {
  const Expr **dims = ARENA_ARRAY(s->arena, const Expr *, t->n ? t->n : 1);
  bool ok = true;
  for (uint32_t i = 0; i < t->n; i++) {
    dims[i] = sema_dim(s, t->at[i]);
    if (!dims[i]) {
      ok = false;
    } else if (dims[i]->kind == EXPR_INT && dims[i]->i < 0) {
      sema_error(s, t->at[i], "a dim cannot be negative: %lld", (long long)dims[i]->i);
      ok = false;
    }
  }
  *out = dims;
  return ok;
}

static bool read_ndim(Sema *s, const Tree *t, int32_t *out) {
  int64_t v = 0;
  if (!tree_const_int(t, &v) || v < -1 || v > INT32_MAX) {
    sema_error(s, t, "ndim must be a number of dims, or -1 when it is not known");
    return false;
  }
  *out = (int32_t)v;
  return true;
}

/* The kind of target that an entry of the global infos names, as in "llvm:0"; NULL when it can't be
 * told from the text. */
static const char *vdevice_kind(const Attr *a) {
  const Attr *target = a->kind == ATTR_CALL && a->n ? a->items[0] : NULL;
  if (target && target->kind == ATTR_DICT) return attr_get_str(target, "kind", NULL);
  return target && target->kind == ATTR_STR ? target->s : NULL;
}

/* "kind:number:scope" of entry i of the list, numbered among those of its kind. */
static const char *vdevice_name(Sema *s, const Attr *l, uint32_t i) {
  const char *kind = vdevice_kind(l->items[i]), *scope = "global";
  int n = (int)strcspn(kind, " ");
  uint32_t number = 0;
  for (uint32_t k = 0; k < i; k++) {
    const char *other = vdevice_kind(l->items[k]);
    number += other && strncmp(other, kind, (size_t)n) == 0 && (!other[n] || other[n] == ' ');
  }
  const Attr *a = l->items[i];
  if (a->n > 2 && a->items[2]->kind == ATTR_STR) scope = a->items[2]->s;
  return arena_printf(s->arena, "%.*s:%u:%s", n, kind, number, scope);
}

/* The name "kind:number:scope" of the device that `name` gives: "llvm:0:global", "llvm:0", "llvm",
 * or "vdevice:2" for number 2 of all. NULL after an error. */
static const char *find_vdevice(Sema *s, const Tree *t, const char *name) {
  const Attr *l = attr_get(s->m->global_infos, "vdevice");
  if (!l || l->kind != ATTR_LIST || !l->n) {
    sema_error(s, t,
               "the module declares no vdevice; write I.module_global_infos({\"vdevice\": "
               "[I.vdevice(\"llvm\")]}) at its top");
    return NULL;
  }
  size_t n = strcspn(name, ":");
  long index = name[n] ? strtol(name + n + 1, NULL, 10) : 0;
  bool any = n == strlen("vdevice") && strncmp(name, "vdevice", n) == 0;
  long count = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    const char *kind = vdevice_kind(l->items[i]);
    if (kind && !any && (strncmp(kind, name, n) != 0 || (kind[n] && kind[n] != ' '))) continue;
    if (count++ != index) continue;
    return kind ? vdevice_name(s, l, i) : name;
  }
  sema_error(s, t, "the module has no vdevice '%s': it declares %ld of this kind", name, count);
  return NULL;
}

static const SInfo *read_tensor(Sema *s, const Tree *t) {
  static const char *const names[] = {"shape", "dtype", "vdevice", "ndim"};
  const Tree *slot[4] = {0};
  const SInfo *bad = sinfo_bad(s->ctx);
  if (!collect(s, t, "R.Tensor", names, 4, slot)) return bad;
  const Tree *shape = slot[0];
  if (shape && tree_is_none(shape)) shape = NULL;
  DType d = DT_UNKNOWN;
  if (shape && shape->kind == TREE_STR && !slot[1]) { /* R.Tensor("float32") */
    slot[1] = shape;
    shape = NULL;
  }
  bool ok = true;
  if (slot[1] && !tree_is_none(slot[1])) ok = sema_dtype(s, slot[1], &d);
  int32_t ndim = -1;
  if (slot[3]) ok &= read_ndim(s, slot[3], &ndim);
  const SInfo *si = NULL;
  if (shape && (shape->kind == TREE_TUPLE || shape->kind == TREE_LIST)) {
    const Expr **dims = NULL;
    if (!read_dims(s, shape, &dims) || !ok) return bad;
    if (slot[3] && ndim >= 0 && (uint32_t)ndim != shape->n) {
      sema_error(s, slot[3], "ndim is %d but the shape has %u dims", ndim, shape->n);
      return bad;
    }
    si = sinfo_tensor(s->ctx, dims, shape->n, d);
  } else if (shape && shape->kind == TREE_NAME) {
    Binding *b = sema_lookup(s, shape);
    if (!b || !ok) return bad;
    if (b->kind != BIND_NODE || b->node->sinfo->kind != SINFO_SHAPE) {
      sema_error(s, shape, "'%s' is no shape; write (%s,) for one dim", shape->name, shape->name);
      return bad;
    }
    si = sinfo_tensor_var(s->ctx, b->node, b->node->sinfo->ndim, d);
  } else if (shape) {
    if (shape->kind != TREE_BAD)
      sema_error(s, shape, "a shape is a tuple of dims, such as (n, 4) or (n,), but got %s",
                 tree_describe(shape));
    return bad;
  } else if (ok) {
    si = sinfo_tensor_ndim(s->ctx, ndim, d);
  }
  if (!ok || !si) return bad;
  if (slot[2] && !tree_is_none(slot[2])) {
    if (slot[2]->kind != TREE_STR) {
      sema_error(s, slot[2], "vdevice must be a string such as \"llvm:0:global\"");
      return bad;
    }
    const char *name = find_vdevice(s, slot[2], slot[2]->str);
    if (!name) return bad;
    si = sinfo_with_vdevice(s->ctx, si, strpool_intern(s->ctx->strings, name, strlen(name)));
  }
  return si;
}

/* R.DTensor((128, 128), "float32", "mesh[0]", "S[1]") */
static const SInfo *read_dtensor(Sema *s, const Tree *t) {
  static const char *const names[] = {"shape", "dtype", "device_mesh", "placement", "ndim"};
  const Tree *slot[5] = {0};
  const SInfo *bad = sinfo_bad(s->ctx);
  if (!collect(s, t, "R.DTensor", names, 5, slot)) return bad;
  DType d = DT_UNKNOWN;
  if (slot[1] && !tree_is_none(slot[1]) && !sema_dtype(s, slot[1], &d)) return bad;
  for (int i = 2; i < 4; i++)
    if (!slot[i] || slot[i]->kind != TREE_STR) {
      sema_error(s, slot[i] ? slot[i] : t, "R.DTensor needs '%s', a string such as \"%s\"",
                 names[i], i == 2 ? "mesh[0]" : "S[0], R");
      return bad;
    }
  const SInfo *si = NULL;
  int32_t ndim = -1;
  if (slot[4] && !read_ndim(s, slot[4], &ndim)) return bad;
  if (slot[0] && (slot[0]->kind == TREE_TUPLE || slot[0]->kind == TREE_LIST)) {
    const Expr **dims = NULL;
    if (!read_dims(s, slot[0], &dims)) return bad;
    si = sinfo_tensor(s->ctx, dims, slot[0]->n, d);
  } else if (!slot[0] || tree_is_none(slot[0])) {
    si = sinfo_tensor_ndim(s->ctx, ndim, d);
  } else {
    sema_error(s, slot[0], "a shape is a tuple of dims but got %s", tree_describe(slot[0]));
    return bad;
  }
  return sinfo_with_mesh(s->ctx, si, strpool_intern(s->ctx->strings, slot[2]->str, slot[2]->n),
                         strpool_intern(s->ctx->strings, slot[3]->str, slot[3]->n));
}

static const SInfo *read_shape(Sema *s, const Tree *t) {
  static const char *const names[] = {"values", "ndim"};
  const Tree *slot[2] = {0};
  const SInfo *bad = sinfo_bad(s->ctx);
  if (!collect(s, t, "R.Shape", names, 2, slot)) return bad;
  int32_t ndim = -1;
  if (slot[1] && !read_ndim(s, slot[1], &ndim)) return bad;
  const Tree *v = slot[0];
  if (!v || tree_is_none(v)) return sinfo_shape_ndim(s->ctx, ndim);
  if (v->kind != TREE_LIST && v->kind != TREE_TUPLE) {
    sema_error(s, v, "R.Shape takes a list of dims but got %s", tree_describe(v));
    return bad;
  }
  const Expr **dims = NULL;
  return read_dims(s, v, &dims) ? sinfo_shape(s->ctx, dims, v->n) : bad;
}

static const SInfo *read_tuple(Sema *s, const Tree *t) {
  Tree *const *at = t->at;
  uint32_t n = t->n;
  if (n == 1 && (at[0]->kind == TREE_LIST || at[0]->kind == TREE_TUPLE))
    n = at[0]->n, at = at[0]->at;
  const SInfo **fields = ARENA_ARRAY(s->arena, const SInfo *, n ? n : 1);
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    fields[i] = sema_type(s, at[i]);
    ok &= fields[i]->kind != SINFO_BAD;
  }
  return ok ? sinfo_tuple(s->ctx, fields, n) : sinfo_bad(s->ctx);
}

static const SInfo *read_callable_parts(Sema *s, const Tree *t) {
  static const char *const names[] = {"params", "ret", "purity", "derive_func"};
  const Tree *slot[4] = {0};
  const SInfo *bad = sinfo_bad(s->ctx);
  if (!collect(s, t, "R.Callable", names, 4, slot)) return bad;
  bool pure = true;
  if (slot[2]) {
    int64_t v = 0;
    if (!tree_const_int(slot[2], &v)) {
      sema_error(s, slot[2], "purity must be True or False");
      return bad;
    }
    pure = v != 0;
  }
  const SInfo *ret = slot[1] ? sema_type(s, slot[1]) : sinfo_object(s->ctx);
  if (ret->kind == SINFO_BAD) return bad;
  const Tree *params = slot[0];
  if (!params || tree_is_none(params))
    return sinfo_callable_opaque(s->ctx, ret, slot[2] ? pure : false);
  if (params->kind != TREE_TUPLE && params->kind != TREE_LIST) {
    sema_error(s, params, "the parameters of R.Callable are a tuple of types but got %s",
               tree_describe(params));
    return bad;
  }
  const SInfo **fields = ARENA_ARRAY(s->arena, const SInfo *, params->n ? params->n : 1);
  bool ok = true;
  for (uint32_t i = 0; i < params->n; i++) {
    fields[i] = sema_type(s, params->at[i]);
    ok &= fields[i]->kind != SINFO_BAD;
  }
  return ok ? sinfo_callable(s->ctx, fields, params->n, ret, pure) : bad;
}

static const SInfo *read_callable(Sema *s, const Tree *t) {
  bool outer = s->callable;
  s->callable = true;
  const SInfo *si = read_callable_parts(s, t);
  s->callable = outer;
  return si;
}

static const SInfo *read_prim(Sema *s, const Tree *t) {
  static const char *const names[] = {"dtype", "value"};
  const Tree *slot[2] = {0};
  DType d = DT_UNKNOWN;
  if (!collect(s, t, "R.Prim", names, 2, slot)) return sinfo_bad(s->ctx);
  if (slot[1]) {
    const Expr *e = slot[1]->kind == TREE_STR ? sema_dim(s, slot[1]) : sema_expr(s, slot[1]);
    return e ? sinfo_prim_value(s->ctx, e) : sinfo_bad(s->ctx);
  }
  if (!slot[0]) {
    sema_error(s, t, "R.Prim needs a dtype");
    return sinfo_bad(s->ctx);
  }
  return sema_dtype(s, slot[0], &d) ? sinfo_prim(s->ctx, d) : sinfo_bad(s->ctx);
}

static const SInfo *unknown_type(Sema *s, const Tree *t) {
  const char *name = tree_dotted(s->ctx, t);
  static const char *const names[] = {"R.Tensor", "R.Shape",   "R.Tuple",    "R.Prim",
                                      "R.Any",    "R.Object",  "R.Callable", "T.int64",
                                      "T.int32",  "T.float32", "T.bool"};
  const char *near = name ? text_nearest(name, names, sizeof names / sizeof *names) : NULL;
  if (near)
    sema_error(s, t, "unknown type '%s'; did you mean '%s'?", name, near);
  else if (name)
    sema_error(s, t, "unknown type '%s'", name);
  else
    sema_error(s, t, "expected a type, such as R.Tensor((n,), \"float32\"), but got %s",
               tree_describe(t));
  return sinfo_bad(s->ctx);
}

/* x.ty, which the earlier language calls x.struct_info; NULL when t is no such thing. */
static const SInfo *type_of_value(Sema *s, const Tree *t) {
  if (t->kind != TREE_ATTR || t->b->kind != TREE_NAME || s->signature) return NULL;
  if (strcmp(t->name, "ty") != 0 && strcmp(t->name, "struct_info") != 0) return NULL;
  const Binding *b = scope_find(&s->scope, t->b->name);
  return b && b->kind == BIND_NODE && !b->hidden ? b->node->sinfo : NULL;
}

const SInfo *sema_type(Sema *s, const Tree *t) {
  Context *c = s->ctx;
  if (t->kind == TREE_BAD) return sinfo_bad(c);
  if (tree_is_none(t)) return sinfo_tuple(c, NULL, 0);
  const SInfo *same = type_of_value(s, t);
  if (same) return same;
  const Tree *head = t->kind == TREE_CALL ? t->a : t;
  bool call = t->kind == TREE_CALL;
  const char *member = sema_member(s, head, 'R');
  DType d = DT_UNKNOWN;
  if (!member) {
    member = sema_member(s, head, 'T');
    if (member && sema_prim_type(member, &d) && (!call || t->n == 0)) return sinfo_prim(c, d);
    return unknown_type(s, head);
  }
  if (strcmp(member, "Tensor") == 0)
    return call ? read_tensor(s, t) : sinfo_tensor_ndim(c, -1, DT_UNKNOWN);
  if (strcmp(member, "Tuple") == 0) return call ? read_tuple(s, t) : sinfo_tuple(c, NULL, 0);
  if (strcmp(member, "Shape") == 0) return call ? read_shape(s, t) : sinfo_shape_ndim(c, -1);
  if (strcmp(member, "Prim") == 0 && call) return read_prim(s, t);
  if (strcmp(member, "Any") == 0 || strcmp(member, "Object") == 0) return sinfo_object(c);
  if (strcmp(member, "Str") == 0) return sinfo_string(c);
  if (strcmp(member, "Callable") == 0)
    return call ? read_callable(s, t) : sinfo_callable_opaque(c, sinfo_object(c), false);
  if (strcmp(member, "DTensor") == 0 || strcmp(member, "dist.DTensor") == 0) {
    if (call) return read_dtensor(s, t);
  }
  return unknown_type(s, head);
}

bool sema_types(Sema *s, const Tree *t, SInfoList *out) {
  out->single = t->kind != TREE_LIST && t->kind != TREE_TUPLE;
  Tree *const one[1] = {(Tree *)(uintptr_t)t};
  Tree *const *at = out->single ? one : t->at;
  uint32_t n = out->single ? 1 : t->n;
  const SInfo **list = ARENA_ARRAY(s->m->arena, const SInfo *, n ? n : 1);
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    list[i] = sema_type(s, at[i]);
    ok &= list[i]->kind != SINFO_BAD;
  }
  out->n = (int32_t)n;
  out->at = list;
  return ok;
}
