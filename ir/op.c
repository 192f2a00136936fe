/* The operator table, made by the preprocessor from the rows of ir/ops/<group>.def, and what is
 * read off it: lookup by name, defaults, equality and hash of attributes (help: op_help.c).
 *
 * Names are found through a hash built once per process; the defaults, text in the rows, are parsed
 * once into one image per operator, which op_attrs_init copies. */
#include "ir/op.h"

#include "ir/base/map.h"
#include "ir/ops/attrs.h"
#include "ir/ops/hooks.h"
#include "ir/ops/numerics.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Absent hooks are null pointers; the word stays as text. */
enum {
  NO_LOWER = 0,
  TODO_LOWER = 0,
  NO_GRAD = 0,
  TODO_GRAD = 0,
  NO_LAYOUT = 0,
  TODO_LAYOUT = 0,
};

#define FIELD(S, kind, field, old, def, doc)                                                       \
  {#field, old, kind, offsetof(S##_attrs, field), def, doc},
#define OP(id, name, args, attrs, ...)                                                             \
  static const AttrField id##_fields[] = {attrs(FIELD, id){NULL, NULL, AK_INT, 0, NULL, NULL}};
#include "ir/ops/all.def"
#undef OP

/* The leading NULL makes an empty list valid C; the fixed size leaves a NULL at the end. */
enum { MAX_ARGS = 12 };
#define NAMES(...) ((const char *const[MAX_ARGS + 2]){NULL, __VA_ARGS__})
#define NNAMES(...) (int8_t)(sizeof(const char *[]){NULL, __VA_ARGS__} / sizeof(const char *) - 1)
#define ARGS(...)                                                                                  \
  .args = NAMES(__VA_ARGS__) + 1, .min_args = NNAMES(__VA_ARGS__), .max_args = NNAMES(__VA_ARGS__)
#define ARGS_OPT(k, ...)                                                                           \
  .args = NAMES(__VA_ARGS__) + 1, .min_args = NNAMES(__VA_ARGS__) - (k),                           \
  .max_args = NNAMES(__VA_ARGS__)
#define ARGS_REST(...)                                                                             \
  .args = NAMES(__VA_ARGS__) + 1, .min_args = NNAMES(__VA_ARGS__) - 1, .max_args = -1
#define OP(id_, name_, args_, attrs_, traits_, infer_, lower_, grad_, layout_, rule_, summary_,    \
           types_, numerics_)                                                                      \
  [OP_##id_] = {.id = OP_##id_,                                                                    \
                .name = name_,                                                                     \
                .group = OP_GROUP,                                                                 \
                args_,                                                                             \
                .attrs = id_##_fields,                                                             \
                .nattrs = sizeof id_##_fields / sizeof id_##_fields[0] - 1,                        \
                .attrs_size = sizeof(id_##_attrs),                                                 \
                .traits = traits_,                                                                 \
                .infer = infer_,                                                                   \
                .lower = (LowerFn)lower_,                                                          \
                .grad = (GradFn)grad_,                                                             \
                .layout = (LayoutFn)layout_,                                                       \
                .lower_why = #lower_,                                                              \
                .shape_rule = rule_,                                                               \
                .summary = summary_,                                                               \
                .types = types_,                                                                   \
                .numerics = numerics_},
const OpInfo op_table[OP_COUNT] = {
#include "ir/ops/all.def"
};
#undef OP

/* ---- built once per process ---- */
enum { NSLOTS = 2048 };
_Static_assert(OP_COUNT * 2 < NSLOTS, "grow the name hash");
static struct {
  Arena *arena;
  uint16_t slots[NSLOTS]; /* id + 1; 0: empty */
  void *defaults[OP_COUNT];
} tables;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* The text of a default is one of: None, True, False, a number, "string", [1, 2]. */
static void parse_default(Arena *a, const OpInfo *op, const AttrField *f, void *attrs) {
  void *p = (char *)attrs + f->offset;
  const char *s = f->defval;
  bool none = !s || !strcmp(s, "None");
  switch (f->kind) {
  case AK_INT: *(int64_t *)p = none ? 0 : strtoll(s, NULL, 10); return;
  case AK_OPT_INT: *(OptInt *)p = none ? (OptInt){0} : (OptInt){true, strtoll(s, NULL, 10)}; return;
  case AK_FLOAT: *(double *)p = none ? 0 : strtod(s, NULL); return;
  case AK_OPT_FLOAT:
    *(OptFloat *)p = none ? (OptFloat){0} : (OptFloat){true, strtod(s, NULL)};
    return;
  case AK_BOOL: *(bool *)p = !none && !strcmp(s, "True"); return;
  case AK_STR:
  case AK_TEXT: *(const char **)p = none ? NULL : arena_strndup(a, s + 1, strlen(s) - 2); return;
  case AK_DTYPE: {
    DType d = DT_UNKNOWN;
    if (!none && !dtype_parse(arena_strndup(a, s + 1, strlen(s) - 2), &d))
      bug("default of %s.%s is no dtype", op->name, f->name);
    *(DType *)p = d;
    return;
  }
  case AK_INTS: {
    IntList l = {none ? -1 : 0, NULL};
    if (!none) {
      int64_t *at = ARENA_ARRAY(a, int64_t, strlen(s));
      for (const char *q = s + 1; *q && *q != ']';) {
        char *end;
        at[l.n++] = strtoll(q, &end, 10);
        if (end == q) bug("default of %s.%s is no list", op->name, f->name);
        for (q = end; *q == ',' || *q == ' ';) q++;
      }
      l.at = at;
    }
    *(IntList *)p = l;
    return;
  }
  case AK_EXPRS: *(ExprList *)p = (ExprList){-1, NULL}; return;
  case AK_SINFOS: *(SInfoList *)p = (SInfoList){0}; return;
  case AK_DICT:
  case AK_INDEX_MAP:
  case AK_ANY: *(const Attr **)p = NULL; return;
  }
  bug("attribute kind of %s.%s", op->name, f->name);
}

static void tables_build(void) {
  tables.arena = arena_create();
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = &op_table[i];
    uint64_t h = hash_bytes(op->name, strlen(op->name), 0) % NSLOTS;
    while (tables.slots[h]) h = (h + 1) % NSLOTS;
    tables.slots[h] = (uint16_t)(i + 1);
    tables.defaults[i] = arena_alloc(tables.arena, op->attrs_size);
    for (uint32_t k = 0; k < op->nattrs; k++)
      parse_default(tables.arena, op, &op->attrs[k], tables.defaults[i]);
  }
}

int op_find(const char *name) {
  pthread_once(&tables_once, tables_build);
  uint64_t h = hash_bytes(name, strlen(name), 0) % NSLOTS;
  for (; tables.slots[h]; h = (h + 1) % NSLOTS)
    if (!strcmp(op_table[tables.slots[h] - 1].name, name)) return tables.slots[h] - 1;
  return -1;
}

const char *op_nearest(const char *name) {
  const char *names[OP_COUNT];
  size_t n = 0;
  for (int i = 0; i < OP_COUNT; i++)
    if (!(op_table[i].traits & OPT_STRUCTURAL)) names[n++] = op_table[i].name;
  /* A forgotten or superfluous namespace is the commonest slip: R.relu, R.nn.matmul. */
  const char *base = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
  for (size_t i = 0; i < n; i++) {
    const char *dot = strrchr(names[i], '.');
    if (strcmp(names[i], name) && !strcmp(dot ? dot + 1 : names[i], base)) return names[i];
  }
  return text_nearest(name, names, n);
}

bool op_arg_is_shape(const char *arg) {
  return !strncmp(arg, "shape", 5) || !strncmp(arg, "size", 4);
}

/* ---- attributes ---- */
void op_attrs_init(Context *c, OpId op, void *attrs) {
  (void)c;
  pthread_once(&tables_once, tables_build);
  memcpy(attrs, tables.defaults[op], op_table[op].attrs_size);
}

static bool same_str(const char *a, const char *b) {
  return a == b || (a && b && !strcmp(a, b));
}
static bool same_double(double a, double b) {
  return !memcmp(&a, &b, sizeof a);
}
static bool same_attr(const Attr *a, const Attr *b) {
  return a == b || (a && b && attr_equal(a, b));
}

static bool field_equal(AttrFieldKind kind, const void *p, const void *q) {
  switch (kind) {
  case AK_INT: return *(const int64_t *)p == *(const int64_t *)q;
  case AK_OPT_INT: {
    const OptInt *a = p, *b = q;
    return a->has == b->has && (!a->has || a->v == b->v);
  }
  case AK_FLOAT: return same_double(*(const double *)p, *(const double *)q);
  case AK_OPT_FLOAT: {
    const OptFloat *a = p, *b = q;
    return a->has == b->has && (!a->has || same_double(a->v, b->v));
  }
  case AK_BOOL: return *(const bool *)p == *(const bool *)q;
  case AK_STR:
  case AK_TEXT: return same_str(*(const char *const *)p, *(const char *const *)q);
  case AK_DTYPE: return dtype_eq(*(const DType *)p, *(const DType *)q);
  case AK_INTS: {
    const IntList *a = p, *b = q;
    if (a->n != b->n) return false;
    for (int32_t i = 0; i < a->n; i++)
      if (a->at[i] != b->at[i]) return false;
    return true;
  }
  case AK_EXPRS: { /* interned: equal text is one pointer */
    const ExprList *a = p, *b = q;
    if (a->n != b->n) return false;
    for (int32_t i = 0; i < a->n; i++)
      if (a->at[i] != b->at[i]) return false;
    return true;
  }
  case AK_SINFOS: {
    const SInfoList *a = p, *b = q;
    if (a->n != b->n || a->single != b->single) return false;
    for (int32_t i = 0; i < a->n; i++)
      if (a->at[i] != b->at[i]) return false;
    return true;
  }
  case AK_DICT:
  case AK_INDEX_MAP:
  case AK_ANY: return same_attr(*(const Attr *const *)p, *(const Attr *const *)q);
  }
  bug("attribute kind");
}

bool op_attrs_equal(OpId op, const void *a, const void *b) {
  const OpInfo *o = &op_table[op];
  if (a == b) return true;
  if (!a || !b) return o->nattrs == 0;
  for (uint32_t i = 0; i < o->nattrs; i++) {
    uint32_t off = o->attrs[i].offset;
    if (!field_equal(o->attrs[i].kind, (const char *)a + off, (const char *)b + off)) return false;
  }
  return true;
}

static uint64_t hash_double(double v) {
  uint64_t u;
  memcpy(&u, &v, sizeof u);
  return u;
}
static uint64_t hash_str(const char *s) {
  return s ? hash_bytes(s, strlen(s), 1) : 0;
}

uint64_t op_attrs_hash(OpId op, const void *attrs) {
  const OpInfo *o = &op_table[op];
  uint64_t h = op;
  for (uint32_t i = 0; attrs && i < o->nattrs; i++) {
    const void *p = (const char *)attrs + o->attrs[i].offset;
    switch (o->attrs[i].kind) {
    case AK_INT: h = hash_mix(h, (uint64_t)*(const int64_t *)p); break;
    case AK_OPT_INT: {
      const OptInt *v = p;
      h = hash_mix(h, v->has ? (uint64_t)v->v + 1 : 0);
      break;
    }
    case AK_FLOAT: h = hash_mix(h, hash_double(*(const double *)p)); break;
    case AK_OPT_FLOAT: {
      const OptFloat *v = p;
      h = hash_mix(h, v->has ? hash_double(v->v) + 1 : 0);
      break;
    }
    case AK_BOOL: h = hash_mix(h, *(const bool *)p); break;
    case AK_STR:
    case AK_TEXT: h = hash_mix(h, hash_str(*(const char *const *)p)); break;
    case AK_DTYPE: {
      const DType *d = p;
      h = hash_mix(h, d->code | (uint64_t)d->bits << 8 | (uint64_t)d->lanes << 16);
      break;
    }
    case AK_INTS: {
      const IntList *l = p;
      h = hash_mix(h, (uint64_t)(int64_t)l->n);
      for (int32_t k = 0; k < l->n; k++) h = hash_mix(h, (uint64_t)l->at[k]);
      break;
    }
    case AK_EXPRS: {
      const ExprList *l = p;
      h = hash_mix(h, (uint64_t)(int64_t)l->n);
      for (int32_t k = 0; k < l->n; k++) h = hash_mix(h, l->at[k]->id);
      break;
    }
    case AK_SINFOS: {
      const SInfoList *l = p;
      h = hash_mix(h, (uint64_t)(int64_t)l->n);
      for (int32_t k = 0; k < l->n; k++) h = hash_mix(h, l->at[k]->id);
      break;
    }
    case AK_DICT:
    case AK_INDEX_MAP:
    case AK_ANY: {
      const Attr *v = *(const Attr *const *)p;
      h = hash_mix(h, v ? attr_hash(v) : 0);
      break;
    }
    }
  }
  return h;
}

/* ---- dtypes ---- */
static uint32_t type_bit(DType d) {
  if (dtype_is_bool(d)) return TY_BOOL;
  if (dtype_is_uint(d)) return TY_UINT;
  if (dtype_is_sint(d)) return TY_SINT;
  if (dtype_is_float(d) && d.bits == 8) return TY_FLOAT8;
  if (dtype_eq(d, DT_BF16)) return TY_BF16;
  return dtype_eq(d, DT_F16) ? TY_F16 : dtype_eq(d, DT_F32) ? TY_F32 : TY_F64;
}

bool op_takes(const OpInfo *op, DType d) {
  return op->types & type_bit(d);
}

/* ---- purity ---- */
static bool seq_is_pure(const Seq *s) {
  for (const BindingBlock *b = s->first; b; b = b->next)
    for (const Node *n = b->first; n; n = n->next)
      if (!op_is_pure(n)) return false;
  return true;
}

bool op_is_pure(const Node *n) {
  if (n->op == OP_IF) return seq_is_pure(&n->if_.then_) && seq_is_pure(&n->if_.else_);
  if (n->op == OP_CALL) {
    const SInfo *f = node_in(n, 0)->sinfo;
    return !f || f->kind != SINFO_CALLABLE || f->pure;
  }
  return !(node_op(n)->traits & OPT_IMPURE);
}
