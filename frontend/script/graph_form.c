/* Special forms after "R.": constants, shapes, casts and other values with a node kind of their
 * own.
 */
#include "frontend/script/graph.h"
#include "frontend/script/guard.h"

/* ---- special forms ---- */

static bool want(Sema *s, const Tree *t, uint32_t lo, uint32_t hi, const char *usage) {
  bool ok = t->n >= lo && t->n <= hi;
  for (uint32_t i = 0; i < t->n && ok; i++)
    if (t->at[i]->kind == TREE_STAR || t->at[i]->kind == TREE_DOUBLESTAR) ok = false;
  if (!ok) sema_error(s, t, "expected %s", usage);
  return ok;
}

static const Tree *plain(const Tree *t) {
  return t->kind == TREE_KEYWORD ? t->b : t;
}

/* Collects a nested list of numbers; the shape comes from the first element of each level. */
typedef struct {
  Sema *s;
  DType dtype;
  int64_t dims[16];
  int32_t ndim;
  char *bytes;
  size_t filled;
} ConstList;

/* An integer of dtype d as its 64 bits: uint64 has literals beyond int64. */
static bool const_bits(const Tree *t, DType d, int64_t *i) {
  bool big = dtype_eq(d, DT_U64) && t->kind == TREE_INT && !(t->flags & TREE_BIG);
  if (big) *i = (int64_t)t->ival;
  return big || tree_const_int(t, i);
}

static bool fill_list(ConstList *l, const Tree *t, int32_t level) {
  Sema *s = l->s;
  if (level == l->ndim) {
    int64_t i = 0;
    double f = 0;
    char *at = l->bytes + l->filled * dtype_bytes(l->dtype);
    l->filled++;
    if (!dtype_is_float(l->dtype) && const_bits(t, l->dtype, &i)) {
      if (dtype_is_int(l->dtype) && dtype_wrap(l->dtype, i) != i) {
        sema_error(s, t, "%lld does not fit %s", (long long)i, dtype_name(l->dtype));
        return false;
      }
      dtype_store_int(l->dtype, at, i);
      return true;
    }
    if (dtype_is_float(l->dtype) && tree_const_float(t, &f)) {
      sema_check_literal(s, t, l->dtype, f);
      dtype_store_double(l->dtype, at, f);
      return true;
    }
    sema_error(s, t, "expected a number of type %s but got %s", dtype_name(l->dtype),
               tree_describe(t));
    return false;
  }
  if ((t->kind != TREE_LIST && t->kind != TREE_TUPLE) || t->n != (uint64_t)l->dims[level]) {
    sema_error(s, t, "the rows of a constant must have one length: %lld",
               (long long)l->dims[level]);
    return false;
  }
  for (uint32_t i = 0; i < t->n; i++)
    if (!fill_list(l, t->at[i], level + 1)) return false;
  return true;
}

/* The constant that t writes with the value v, of type d if that is known. */
static Node *read_value(Sema *s, const Tree *t, const Tree *v, DType d) {
  if (v->kind == TREE_LIST || v->kind == TREE_TUPLE) {
    ConstList l = {.s = s, .dtype = dtype_known(d) ? d : DT_F32};
    size_t count = 1;
    for (const Tree *x = v; x->kind == TREE_LIST || x->kind == TREE_TUPLE; x = x->at[0]) {
      if (l.ndim == 16) {
        sema_error(s, v, "a constant has at most 16 dims");
        return graph_bad(s, t);
      }
      l.dims[l.ndim++] = x->n;
      if (x->n && count > SIZE_MAX / 64 / x->n) return graph_bad(s, t);
      count *= x->n;
      if (!x->n) break;
    }
    if (count > v->end - v->begin) { /* each element takes a byte of text */
      sema_error(s, v, "the rows of a constant must have one length");
      return graph_bad(s, t);
    }
    l.bytes = arena_calloc(s->m->arena, count ? count : 1, dtype_bytes(l.dtype));
    if (count && !fill_list(&l, v, 0)) return graph_bad(s, t);
    return node_const(s->f, const_create(s->m, l.dtype, l.dims, l.ndim, l.bytes), tree_span(s, t));
  }
  int64_t i = 0;
  double f = 0;
  bool number = tree_const_float(v, &f), whole = const_bits(v, d, &i);
  if (!dtype_known(d)) d = v->kind == TREE_CONST ? DT_BOOL : whole ? DT_I32 : DT_F32;
  if (dtype_is_float(d) ? !number : !whole) {
    if (number && v->kind != TREE_STR)
      sema_error(s, v, "this number does not fit %s", dtype_name(d));
    else if (v->kind != TREE_BAD)
      sema_error(s, v, "expected a number of type %s but got %s", dtype_name(d), tree_describe(v));
    return graph_bad(s, t);
  }
  if (dtype_is_bool(d) ? i != 0 && i != 1 : dtype_is_int(d) && dtype_wrap(d, i) != i) {
    sema_error(s, v, "%lld does not fit %s", (long long)i, dtype_name(d));
    return graph_bad(s, t);
  }
  if (dtype_is_float(d)) sema_check_literal(s, v, d, f);
  return node_const(s->f, const_scalar(s->m, d, f, i), tree_span(s, t));
}

Node *graph_read_const(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 2, "R.const(value, dtype)")) return graph_bad(s, t);
  DType d = DT_UNKNOWN;
  if (t->n == 2 && !tree_is_none(plain(t->at[1])) && !sema_dtype(s, plain(t->at[1]), &d))
    return graph_bad(s, t);
  return read_value(s, t, plain(t->at[0]), d);
}

/* A constant that each device of a mesh holds. */
Node *graph_read_dist_const(Sema *s, const Tree *t) {
  if (!want(s, t, 2, 2, "R.dist.const(value, R.DTensor(...))")) return graph_bad(s, t);
  const SInfo *type = sema_type(s, plain(t->at[1]));
  if (type->kind == SINFO_BAD) return graph_bad(s, t);
  if (type->kind != SINFO_TENSOR || !type->mesh) {
    sema_error(s, t->at[1], "expected R.DTensor(...) but got %s", sema_type_text(s, type));
    return graph_bad(s, t);
  }
  Node *n = read_value(s, t, plain(t->at[0]), type->dtype);
  if (n->op == OP_CONST) n->annot = n->sinfo = type;
  return n;
}

Node *graph_read_shape(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 1, "R.shape([n, 4])")) return graph_bad(s, t);
  const Tree *v = plain(t->at[0]);
  if (v->kind != TREE_LIST && v->kind != TREE_TUPLE) {
    sema_error(s, v, "R.shape takes a list of dims but got %s", tree_describe(v));
    return graph_bad(s, t);
  }
  Node *n = graph_shape_list(s, v);
  n->span = tree_span(s, t);
  return n;
}

Node *graph_read_match_cast(Sema *s, const Tree *t) {
  if (!want(s, t, 2, 2, "R.match_cast(value, type)")) return graph_bad(s, t);
  const Tree *vt = plain(t->at[0]), *tt = plain(t->at[1]);
  Node *v = graph_expr(s, vt);
  bool over = !node_is_atom(v) && v->sinfo->kind != SINFO_BAD;
  if (over) node_bind_last(graph_block(s, vt), v, "unchecked");
  s->allow_undefined = true;
  const SInfo *want_type = sema_type(s, tt);
  s->allow_undefined = false;
  if (want_type->kind == SINFO_BAD || v->sinfo->kind == SINFO_BAD) return graph_bad(s, t);
  SInfoWhy why = {0};
  if (sinfo_check(s->ctx, s->facts, v->sinfo, want_type, &why) == SINFO_FAIL) {
    sema_error(s, t, "R.match_cast can never succeed: the value is %s, not %s%s%s",
               sema_type_text(s, v->sinfo), sema_type_text(s, want_type), why.words.n ? ": " : "",
               text_cstr(&why.words));
    explain_vars(s->ctx, s->f, why.have, why.want);
    text_free(&why.words);
    return graph_bad(s, t);
  }
  text_free(&why.words);
  Node *n = node_create(s->f, OP_MATCH_CAST, &v, 1, tree_span(s, t));
  n->annot = want_type;
  n->cast = over ? CAST_OVER : CAST_WRITTEN;
  guard_learn(s, t, v->sinfo, want_type);
  return graph_finish(s, n, &vt);
}

Node *graph_read_prim_value(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 1, "R.prim_value(value)")) return graph_bad(s, t);
  const Tree *v = plain(t->at[0]);
  if (!sema_is_prim(s, v)) {
    sema_error(s, v, "R.prim_value takes a scalar expression but got %s", tree_describe(v));
    return graph_bad(s, t);
  }
  return graph_operand(s, v);
}

Node *graph_read_str(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 1, "R.str(\"text\")")) return graph_bad(s, t);
  const Tree *v = plain(t->at[0]);
  if (v->kind != TREE_STR) {
    sema_error(s, v, "expected a string but got %s", tree_describe(v));
    return graph_bad(s, t);
  }
  return node_str(s->f, strpool_intern(s->ctx->strings, v->str, v->n), tree_span(s, t));
}

Node *graph_read_dtype(Sema *s, const Tree *t) {
  DType d = DT_UNKNOWN;
  if (!want(s, t, 1, 1, "R.dtype(\"float32\")") || !sema_dtype(s, plain(t->at[0]), &d))
    return graph_bad(s, t);
  return node_dtype(s->f, d, tree_span(s, t));
}

/* A function of C by its symbol. */
Node *graph_read_extern(Sema *s, const Tree *t) {
  if (!want(s, t, 1, 2, "R.ExternFunc(\"symbol\")")) return graph_bad(s, t);
  const Tree *v = plain(t->at[0]);
  if (v->kind != TREE_STR) {
    sema_error(s, v, "expected a string but got %s", tree_describe(v));
    return graph_bad(s, t);
  }
  Node *n = node_create(s->f, OP_EXTERN, NULL, 0, tree_span(s, t));
  n->str = strpool_intern(s->ctx->strings, v->str, v->n);
  if (t->n == 2) n->annot = sema_type(s, plain(t->at[1]));
  return graph_finish(s, n, NULL);
}
