/* Struct-info inference: the engine and what the operators' hooks share.
 *
 * Rules are TVM's: only what is provably wrong is an error; a dim that can't be proved equal makes
 * the shape unknown (only the rank stays), unknown dtype and rank propagate. Each operator's rule
 * stands beside its row in ir/ops/<group>.c; the structural nodes' in ir/ops/core.c. */
#include "ir/ops/util.h"

#include "ir/dim_rules.h"
#include "ir/explain.h"
#include "ir/print.h"

#include <ctype.h>
#include <string.h>

static Span use_span(const Node *n, int i) {
  if (i >= 0 && (uint32_t)i < n->nin && n->in[i].span.file) return n->in[i].span;
  return n->span;
}

static bool names_word(const char *message, const char *word) {
  size_t n = strlen(word);
  for (const char *p = strstr(message, word); p; p = strstr(p + 1, word)) {
    bool begins = p == message || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
    if (begins && !(isalnum((unsigned char)p[n]) || p[n] == '_')) return true;
  }
  return false;
}

/* Where the attribute stands that a message is about: the one that it names, or that of an axis. */
static Span attr_span(const InferCtx *ic, const Node *n, ConstraintId id, const char *message) {
  const OpInfo *op = node_op(n);
  const Span *at = ic->m->attr_spans;
  bool axis = id == C_axis || id == C_axis_twice;
  for (uint32_t i = 0; at && i < op->nattrs; i++) {
    const char *name = op->attrs[i].name;
    bool meant = names_word(message, name) ||
                 (axis && (strncmp(name, "axis", 4) == 0 || strncmp(name, "axes", 4) == 0));
    if (meant && at[i].file) return at[i];
  }
  return n->span;
}

const SInfo *infer_error(InferCtx *ic, const Node *n, ConstraintId id, int i, const char *fmt,
                         ...) {
  Text t = {0};
  const OpInfo *op = node_op(n);
  if (!(op->traits & OPT_STRUCTURAL)) text_printf(&t, "R.%s: ", op->name);
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  Span s = i >= 0 ? use_span(n, i) : attr_span(ic, n, id, text_cstr(&t));
  diag_error(ic->c->diags, s, "%s [%s.%u]", text_cstr(&t), op->name, constraint_number(op->id, id));
  text_free(&t);
  if (id >= C_extent) explain_vars(ic->c, n->func, ic->differ[0], ic->differ[1]);
  return sinfo_bad(ic->c);
}

void infer_note(InferCtx *ic, const Node *n, int i, const char *fmt, ...) {
  Text t = {0};
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  diag_note(ic->c->diags, use_span(n, i), "%s", text_cstr(&t));
  text_free(&t);
}

/* ---- devices ---- */
/* The device that all tensors of s with one agree on goes to *dev; false once two differ. */
static bool common_device(const SInfo *s, const char **dev) {
  if (s->kind == SINFO_TUPLE) {
    for (uint32_t i = 0; i < s->n; i++)
      if (!common_device(s->fields[i], dev)) return false;
    return true;
  }
  if (s->kind != SINFO_TENSOR || !s->vdevice) return true;
  bool same = !*dev || !strcmp(*dev, s->vdevice);
  *dev = s->vdevice;
  return same;
}

static const SInfo *put_device(InferCtx *ic, const SInfo *s, const char *dev) {
  if (s->kind == SINFO_TENSOR) return s->vdevice ? s : sinfo_with_vdevice(ic->c, s, dev);
  if (s->kind != SINFO_TUPLE) return s;
  const SInfo **f = ARENA_ARRAY(ic->arena, const SInfo *, s->n);
  for (uint32_t i = 0; i < s->n; i++) f[i] = put_device(ic, s->fields[i], dev);
  return sinfo_tuple(ic->c, f, s->n);
}

/* Results live where the operands do; operands on several devices leave that open. */
static const SInfo *carry_device(InferCtx *ic, const Node *n, const SInfo *s) {
  const char *dev = NULL;
  for (uint32_t i = 0; i < n->nin; i++)
    if (!common_device(node_in(n, i)->sinfo, &dev)) return s;
  return dev ? put_device(ic, s, dev) : s;
}

/* Counts the parts of e as text, down from *left; false when they are more. */
static bool count_parts(const Expr *e, uint32_t *left) {
  if (*left == 0) return false;
  --*left;
  for (uint32_t i = 0; i < e->n; i++)
    if (!count_parts(e->arg[i], left)) return false;
  return true;
}

enum { DIM_MAX_PARTS = 1000 };

/* A dim that doubles from step to step is small as a graph but endless for who reads it. */
static bool dims_are_readable(const SInfo *s) {
  for (int32_t i = 0; i < s->ndim; i++) {
    uint32_t left = DIM_MAX_PARTS;
    if (!count_parts(s->dims[i], &left)) return false;
  }
  return true;
}

bool node_infer(Module *m, Facts *facts, Node *n) {
  InferCtx ic = {.c = m->ctx, .m = m, .facts = facts, .arena = m->arena};
  const OpInfo *op = node_op(n);
  uint32_t errors = diags_errors(m->ctx->diags);
  n->sinfo = sinfo_bad(m->ctx);
  uint32_t min = (uint32_t)op->min_args, max = (uint32_t)op->max_args;
  if (n->nin < min || (op->max_args >= 0 && n->nin > max)) {
    const char *least = op->max_args < 0 || (n->nin < min && min != max) ? "at least " : "";
    const char *most = n->nin > max && min != max && !*least ? "at most " : "";
    uint32_t want = n->nin < min ? min : max;
    infer_error(&ic, n, C_operands, -1, "expected %s%s%u operand%s but got %u", least, most, want,
                want == 1 ? "" : "s", n->nin);
    return false;
  }
  for (uint32_t i = 0; i < n->nin; i++)
    if (node_in(n, i)->sinfo && node_in(n, i)->sinfo->kind == SINFO_BAD)
      return true; /* what is wrong was said already */
  const SInfo *s = op->infer(&ic, n);
  if (s && !(op->traits & (OPT_STRUCTURAL | OPT_CALL | OPT_NO_DEVICE))) s = carry_device(&ic, n, s);
  if (s && s->dims && !dims_are_readable(s)) {
    diag_error(m->ctx->diags, n->span,
               "R.%s: a dim of the result is an expression of more than %d parts", op->name,
               DIM_MAX_PARTS);
    s = NULL;
  }
  n->sinfo = s ? s : sinfo_bad(m->ctx);
  return diags_errors(m->ctx->diags) == errors;
}

/* ---- words ---- */
static const char *keep_text(InferCtx *ic, Text *t) {
  const char *s = arena_strndup(ic->arena, text_cstr(t), t->n);
  text_free(t);
  return s;
}

const char *infer_arg_name(InferCtx *ic, const Node *n, uint32_t i) {
  const OpInfo *op = node_op(n);
  uint32_t last = (uint32_t)(op->max_args < 0 ? op->min_args : op->max_args - 1);
  const char *s = op->args[i < last ? i : last];
  size_t len = strlen(s);
  bool mark = s[len - 1] == '?' || s[len - 1] == '*';
  return mark ? arena_strndup(ic->arena, s, len - 1) : s;
}

const char *infer_shape_text(InferCtx *ic, const SInfo *s) {
  Text t = {0};
  if (s->kind == SINFO_PRIM)
    text_puts(&t, "a scalar");
  else if (s->dims)
    shape_print(&t, s->dims, (uint32_t)s->ndim);
  else if (s->ndim >= 0)
    text_printf(&t, "a tensor of rank %d", s->ndim);
  else
    text_puts(&t, "a tensor of unknown rank");
  return keep_text(ic, &t);
}

const char *infer_type_text(InferCtx *ic, const SInfo *s) {
  Text t = {0};
  sinfo_print(&t, s);
  return keep_text(ic, &t);
}

const char *infer_expr_text(InferCtx *ic, const Expr *e) {
  Text t = {0};
  shape_print(&t, &e, 1); /* "(n + 1,)" */
  const char *s = text_cstr(&t);
  const char *r = t.n > 3 ? arena_strndup(ic->arena, s + 1, t.n - 3) : "?";
  text_free(&t);
  return r;
}

/* ---- proofs and shapes ---- */
bool infer_eq(InferCtx *ic, const Expr *a, const Expr *b) {
  return a == b || prove_eq(ic->c, ic->facts, expr_dim(ic->c, a), expr_dim(ic->c, b)) == PROOF_YES;
}

bool infer_ne(InferCtx *ic, const Expr *a, const Expr *b) {
  if (a == b || prove_eq(ic->c, ic->facts, expr_dim(ic->c, a), expr_dim(ic->c, b)) != PROOF_NO)
    return false;
  ic->differ[0] = a;
  ic->differ[1] = b;
  return true;
}

const Expr *infer_literal(InferCtx *ic, const Expr *e) {
  int64_t v;
  return expr_const_int(ic->c, e, &v) ? expr_i64(ic->c, v) : e;
}

const Expr *infer_quotient(InferCtx *ic, const Expr *dim, int64_t by, int64_t more) {
  Context *c = ic->c;
  const Dim *d = expr_dim(c, dim), *in = dim_const(c, 0), *out = dim_const(c, more);
  for (uint32_t i = 0; i < d->n; i++) {
    const DimTerm *t = &d->terms[i];
    bool whole = t->coef % by == 0;
    const Dim **to = whole ? &out : &in;
    *to = dim_add(c, *to, dim_monomial(c, whole ? t->coef / by : t->coef, t->atoms, t->n));
  }
  bool whole = d->konst % by == 0;
  const Dim **to = whole ? &out : &in;
  *to = dim_add(c, *to, dim_const(c, whole ? d->konst / by : d->konst));
  const Expr *q = expr_floordiv(c, dim_expr(c, in, DT_I64), expr_i64(c, by));
  if (in->n == 0) return dim_expr(c, dim_add(c, out, expr_dim(c, q)), DT_I64);
  return out->n || out->konst ? expr_add(c, q, dim_expr(c, out, DT_I64)) : q;
}

const SInfo *infer_like(InferCtx *ic, const SInfo *s, DType d) {
  const SInfo *r = s->dims        ? sinfo_tensor(ic->c, s->dims, (uint32_t)s->ndim, d)
                   : s->shape_var ? sinfo_tensor_var(ic->c, s->shape_var, s->ndim, d)
                                  : sinfo_tensor_ndim(ic->c, s->ndim, d);
  return s->vdevice ? sinfo_with_vdevice(ic->c, r, s->vdevice) : r;
}

const SInfo *infer_tensor(InferCtx *ic, const Expr *const *dims, int32_t ndim, DType d) {
  return dims ? sinfo_tensor(ic->c, dims, (uint32_t)ndim, d) : sinfo_tensor_ndim(ic->c, ndim, d);
}

const Expr **infer_dims_copy(InferCtx *ic, const Expr *const *dims, uint32_t n, uint32_t extra) {
  const Expr **r = ARENA_ARRAY(ic->arena, const Expr *, n + extra);
  for (uint32_t i = 0; i < n; i++) r[i] = dims[i];
  return r;
}

/* ---- operands ---- */
bool node_has_in(const Node *n, uint32_t i) {
  return i < n->nin && node_in(n, i)->sinfo && !sinfo_is_void(node_in(n, i)->sinfo);
}

void infer_default(InferCtx *ic, Node *n, uint32_t i, const Expr *value) {
  if (node_has_in(n, i)) return;
  Node *p = node_prim(n->func, value, n->span);
  node_infer(ic->m, ic->facts, p);
  if (i < n->nin)
    node_set_in(n, i, p);
  else
    node_add_in(n, p, n->span);
}

const SInfo *infer_tensor_arg(InferCtx *ic, const Node *n, uint32_t i) {
  const SInfo *s = node_in(n, i)->sinfo;
  if (s->kind == SINFO_TENSOR) return s;
  infer_error(ic, n, C_tensor, (int)i, "expected a tensor for '%s' but got %s",
              infer_arg_name(ic, n, i), infer_type_text(ic, s));
  return NULL;
}

const SInfo *infer_tensors_arg(InferCtx *ic, const Node *n, uint32_t i) {
  const SInfo *s = node_in(n, i)->sinfo;
  bool ok = s->kind == SINFO_TUPLE;
  for (uint32_t k = 0; ok && k < s->n; k++) ok = s->fields[k]->kind == SINFO_TENSOR;
  if (ok) return s;
  infer_error(ic, n, C_tensors, (int)i, "expected a tuple of tensors for '%s' but got %s",
              infer_arg_name(ic, n, i), infer_type_text(ic, s));
  return NULL;
}

const SInfo *infer_of_shape(InferCtx *ic, const Node *n, uint32_t i, DType d) {
  Node *def = node_in(n, i);
  const SInfo *s = def->sinfo;
  if (s->kind != SINFO_SHAPE) {
    infer_error(ic, n, C_shape, (int)i, "expected a shape for '%s' but got %s",
                infer_arg_name(ic, n, i), infer_type_text(ic, s));
    return NULL;
  }
  for (int32_t k = 0; s->dims && k < s->ndim; k++) {
    int64_t v;
    if (expr_const_int(ic->c, s->dims[k], &v) && v < 0) {
      infer_error(ic, n, C_extent, (int)i, "dim %d of '%s' is %lld", k, infer_arg_name(ic, n, i),
                  (long long)v);
      return NULL;
    }
  }
  if (s->dims) return sinfo_tensor(ic->c, s->dims, (uint32_t)s->ndim, d);
  return sinfo_tensor_var(ic->c, def, s->ndim, d);
}

bool infer_prim_arg(InferCtx *ic, const Node *n, uint32_t i, const Expr **out) {
  const SInfo *s = node_in(n, i)->sinfo;
  *out = NULL;
  if (s->kind == SINFO_PRIM) {
    *out = s->value;
    return true;
  }
  infer_error(ic, n, C_prim, (int)i, "expected a prim value for '%s' but got %s",
              infer_arg_name(ic, n, i), infer_type_text(ic, s));
  return false;
}

bool infer_prims_arg(InferCtx *ic, const Node *n, uint32_t i, const Expr *const **out,
                     uint32_t *count) {
  const SInfo *s = node_in(n, i)->sinfo;
  *out = NULL;
  *count = 0;
  if (s->kind == SINFO_PRIM) {
    *count = 1;
    if (s->value) *out = infer_dims_copy(ic, &s->value, 1, 0);
    return true;
  }
  if (s->kind == SINFO_SHAPE && s->ndim >= 0) {
    *count = (uint32_t)s->ndim;
    *out = s->dims;
    return true;
  }
  bool ok = s->kind == SINFO_TUPLE, known = true;
  for (uint32_t k = 0; ok && k < s->n; k++) {
    ok = s->fields[k]->kind == SINFO_PRIM;
    known = known && s->fields[k]->value;
  }
  if (!ok) {
    infer_error(ic, n, C_prims, (int)i, "expected a tuple of prim values for '%s' but got %s",
                infer_arg_name(ic, n, i), infer_type_text(ic, s));
    return false;
  }
  *count = s->n;
  if (known) {
    const Expr **at = ARENA_ARRAY(ic->arena, const Expr *, s->n + 1);
    for (uint32_t k = 0; k < s->n; k++) at[k] = s->fields[k]->value;
    *out = at;
  }
  return true;
}

bool infer_need_float(InferCtx *ic, const Node *n, uint32_t i, const SInfo *s) {
  if (!dtype_known(s->dtype) || dtype_is_float(s->dtype)) return true;
  infer_error(ic, n, C_float, (int)i, "expected a float tensor for '%s' but got %s",
              infer_arg_name(ic, n, i), infer_type_text(ic, s));
  return false;
}

bool infer_need_int(InferCtx *ic, const Node *n, uint32_t i, const SInfo *s) {
  if (!dtype_known(s->dtype) || dtype_is_int(s->dtype)) return true;
  infer_error(ic, n, C_int, (int)i, "expected integers for '%s' but got %s",
              infer_arg_name(ic, n, i), infer_type_text(ic, s));
  return false;
}

/* ---- broadcasting and dtypes of two operands ---- */
/* The last operand with this struct info, which errors about two point at. */
static int operand_of(const Node *n, const SInfo *s) {
  for (uint32_t i = n->nin; i-- > 0;)
    if (node_in(n, i)->sinfo == s) return (int)i;
  return -1;
}

bool infer_broadcast(InferCtx *ic, const Node *n, const SInfo *a, const SInfo *b,
                     const Expr *const **out, int32_t *ndim) {
  const Expr *one = expr_i64(ic->c, 1);
  const Expr *const *da = a->kind == SINFO_PRIM ? &one : a->dims;
  const Expr *const *db = b->kind == SINFO_PRIM ? &one : b->dims;
  int32_t na = a->kind == SINFO_PRIM ? 1 : a->ndim, nb = b->kind == SINFO_PRIM ? 1 : b->ndim;
  *out = NULL;
  *ndim = na < 0 || nb < 0 ? -1 : na > nb ? na : nb;
  if (!da || !db) return true;
  const Expr **r = ARENA_ARRAY(ic->arena, const Expr *, *ndim + 1);
  bool known = true;
  for (int32_t k = 1; k <= *ndim; k++) {
    const Expr *x = k <= na ? da[na - k] : one, *y = k <= nb ? db[nb - k] : one;
    int64_t cx, cy;
    bool kx = expr_const_int(ic->c, x, &cx), ky = expr_const_int(ic->c, y, &cy);
    if (kx && cx == 1)
      r[*ndim - k] = y;
    else if ((ky && cy == 1) || infer_eq(ic, x, y))
      r[*ndim - k] = x;
    else if (kx && ky) {
      infer_error(ic, n, C_broadcast, operand_of(n, b), "operands can't be broadcast: %s and %s",
                  infer_shape_text(ic, a), infer_shape_text(ic, b));
      int first = operand_of(n, a), second = operand_of(n, b);
      bool named = first >= 0 && second >= 0 && first != second;
      const char *one_name = named ? infer_arg_name(ic, n, (uint32_t)first) : "one";
      const char *other_name = named ? infer_arg_name(ic, n, (uint32_t)second) : "other";
      infer_note(ic, n, named ? first : -1, "dim %d of '%s' is %lld but dim %d of '%s' is %lld",
                 na - k, one_name, (long long)cx, nb - k, other_name, (long long)cy);
      return false;
    } else
      known = false;
  }
  if (known) *out = r;
  return true;
}

bool infer_binary_dtype(InferCtx *ic, const Node *n, const SInfo *a, const SInfo *b, DType *out) {
  *out = DT_UNKNOWN;
  if (!dtype_known(a->dtype) || !dtype_known(b->dtype)) return true;
  *out = a->dtype;
  if (dtype_eq(a->dtype, b->dtype) || dtype_is_bool(a->dtype) || dtype_is_bool(b->dtype))
    return true;
  char first[32];
  strncpy(first, dtype_name(a->dtype), sizeof first - 1);
  first[sizeof first - 1] = 0;
  infer_error(ic, n, C_same_dtype, operand_of(n, b),
              "operands must have the same dtype but have %s and %s", first, dtype_name(b->dtype));
  return false;
}

/* ---- axes ---- */
bool infer_axis(InferCtx *ic, const Node *n, int64_t axis, int32_t ndim, int32_t *out) {
  if (axis < -ndim || axis >= ndim) {
    if (ndim)
      infer_error(ic, n, C_axis, -1,
                  "axis %lld is out of range for a tensor of rank %d: expected %d to %d",
                  (long long)axis, ndim, -ndim, ndim - 1);
    else
      infer_error(ic, n, C_axis, -1, "axis %lld is out of range for a tensor of rank 0",
                  (long long)axis);
    return false;
  }
  *out = (int32_t)(axis < 0 ? axis + ndim : axis);
  return true;
}

bool infer_axes(InferCtx *ic, const Node *n, IntList axes, int32_t ndim, int32_t *out) {
  for (int32_t i = 0; i < axes.n; i++) {
    if (!infer_axis(ic, n, axes.at[i], ndim, &out[i])) return false;
    for (int32_t k = 0; k < i; k++)
      if (out[k] == out[i]) {
        infer_error(ic, n, C_axis_twice, -1, "axis %d is given twice", out[i]);
        return false;
      }
  }
  return true;
}
