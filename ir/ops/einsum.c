/* einsum: sums of products named by letters. A letter's extent is that of the operands that have it
 * (1 stretches); what stands left of -> and not right of it is summed. "..." stands for leading
 * axes that broadcast. Two operands are one contraction block, the form that the scheduler
 * recognises; of more the first two are contracted first, so that the work stays a product of few
 * extents. */
#include "ir/ops/scalar.h"

#include <ctype.h>
#include <string.h>

enum { MAX_TERMS = 16, DOTS = 256 }; /* DOTS + k: axis k from the right of the "..." */

typedef struct {
  uint16_t at[TE_MAX_RANK];
  uint32_t n;
  int32_t dots; /* where "..." stands, -1: nowhere */
} Term;

typedef struct {
  Term in[MAX_TERMS], out;
  uint32_t nin;
  bool explicit_out;
} Subscripts;

static bool read_term(const char **s, Term *t) {
  *t = (Term){.dots = -1};
  for (; **s && **s != ',' && **s != '-'; (*s)++) {
    if (**s == ' ') continue;
    if (!strncmp(*s, "...", 3)) {
      if (t->dots >= 0) return false;
      t->dots = (int32_t)t->n;
      *s += 2;
      continue;
    }
    if (!isalpha((unsigned char)**s) || t->n >= TE_MAX_RANK) return false;
    t->at[t->n++] = (unsigned char)**s;
  }
  return true;
}

static uint32_t count_label(const Term *t, uint16_t label) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n; i++) n += t->at[i] == label;
  return n;
}

/* The words for what is wrong, or NULL. */
static const char *read_subscripts(const char *text, Subscripts *s) {
  const char *p = text ? text : "";
  memset(s, 0, sizeof *s);
  for (;;) {
    if (s->nin == MAX_TERMS) return "too many operands";
    if (!read_term(&p, &s->in[s->nin++])) return "letters and one ... per operand are expected";
    if (*p != ',') break;
    p++;
  }
  if (*p == '-') {
    if (p[1] != '>') return "'-' is not followed by '>'";
    p += 2;
    s->explicit_out = true;
    if (!read_term(&p, &s->out) || *p) return "only letters and one ... may follow '->'";
    for (uint32_t i = 0; i < s->out.n; i++) {
      uint32_t have = 0;
      for (uint32_t k = 0; k < s->nin; k++) have += count_label(&s->in[k], s->out.at[i]);
      if (!have) return "a letter of the result stands in no operand";
      if (count_label(&s->out, s->out.at[i]) > 1) return "a letter stands twice in the result";
    }
    return NULL;
  }
  /* Without '->': what stands once, in alphabetical order, after the "...". */
  s->out.dots = -1;
  for (uint32_t k = 0; k < s->nin; k++)
    if (s->in[k].dots >= 0) s->out.dots = 0;
  for (uint16_t l = 'A'; l <= 'z'; l++) {
    uint32_t have = 0;
    for (uint32_t k = 0; k < s->nin; k++) have += count_label(&s->in[k], l);
    if (have == 1 && s->out.n < TE_MAX_RANK) s->out.at[s->out.n++] = l;
  }
  return NULL;
}

/* Puts n labels in place of "...". */
static bool expand(Term *t, uint32_t n) {
  if (t->dots < 0) return true;
  if (t->n + n > TE_MAX_RANK) return false;
  memmove(t->at + t->dots + n, t->at + t->dots, (t->n - (uint32_t)t->dots) * sizeof *t->at);
  for (uint32_t i = 0; i < n; i++) t->at[(uint32_t)t->dots + i] = (uint16_t)(DOTS + n - 1 - i);
  t->n += n;
  return true;
}

/* Reads the node's subscripts with "..." expanded by the operands' ranks. */
static const char *read_node(const char *text, const uint32_t *ndims, uint32_t count,
                             Subscripts *s) {
  const char *wrong = read_subscripts(text, s);
  if (wrong) return wrong;
  if (s->nin != count) return "the number of operands is another";
  uint32_t most = 0;
  for (uint32_t k = 0; k < count; k++) {
    Term *t = &s->in[k];
    if (t->dots < 0 && t->n != ndims[k]) return "an operand has another rank";
    if (t->n > ndims[k]) return "an operand has too low a rank";
    uint32_t more = ndims[k] - t->n;
    if (t->dots >= 0 && more > most) most = more;
    if (!expand(t, more)) return "the rank is too high";
  }
  return expand(&s->out, most) ? NULL : "the rank is too high";
}

/* ---- inference ---- */
/* Extent of a label: that of the first operand where it isn't 1. NULL after an error. */
static const Expr *extent_of(InferCtx *ic, const Node *n, const Subscripts *s, const SInfo *t,
                             uint16_t label) {
  const Expr *r = NULL, *one = expr_i64(ic->c, 1);
  for (uint32_t k = 0; k < s->nin; k++)
    for (uint32_t i = 0; i < s->in[k].n; i++) {
      if (s->in[k].at[i] != label) continue;
      const Expr *d = t->fields[k]->dims[i];
      if (expr_is_int(d, 1)) continue;
      if (r && infer_ne(ic, r, d)) {
        infer_error(ic, n, C_inner, 0, "'%c' is %s in one operand and %s in another",
                    label < DOTS ? label : '.', infer_expr_text(ic, r), infer_expr_text(ic, d));
        return NULL;
      }
      if (!r) r = d;
    }
  return r ? r : one;
}

static bool all_labels(InferCtx *ic, const Node *n, const Subscripts *s, const SInfo *t) {
  for (uint32_t k = 0; k < s->nin; k++)
    for (uint32_t i = 0; i < s->in[k].n; i++)
      if (!extent_of(ic, n, s, t, s->in[k].at[i])) return false;
  return true;
}

const SInfo *infer_einsum(InferCtx *ic, Node *n) {
  const SInfo *t = infer_tensors_arg(ic, n, 0);
  const char *text = node_attrs(n, einsum)->subscripts;
  if (!t) return NULL;
  if (!t->n) return infer_error(ic, n, C_some, 0, "expected at least one tensor");
  uint32_t ndims[MAX_TERMS] = {0};
  bool ranks = true, dims = true;
  DType d = t->fields[0]->dtype;
  for (uint32_t k = 0; k < t->n; k++) {
    const SInfo *f = t->fields[k];
    if (dtype_known(d) && dtype_known(f->dtype) && !dtype_eq(d, f->dtype))
      return infer_error(ic, n, C_same_dtype, 0,
                         "the operands must have one dtype but are %s and %s",
                         infer_type_text(ic, t->fields[0]), infer_type_text(ic, f));
    if (!dtype_known(f->dtype)) d = f->dtype;
    ranks = ranks && f->ndim >= 0;
    dims = dims && f->dims;
    if (k < MAX_TERMS && f->ndim >= 0) ndims[k] = (uint32_t)f->ndim;
  }
  Subscripts s;
  const char *wrong = ranks ? read_node(text, ndims, t->n, &s) : read_subscripts(text, &s);
  if (wrong)
    return infer_error(ic, n, C_subscripts, 0, "subscripts '%s': %s", text ? text : "None", wrong);
  if (!ranks) return sinfo_tensor_ndim(ic->c, s.out.dots < 0 ? (int32_t)s.out.n : -1, d);
  if (!dims) { /* TVM takes the rank of an operand; a print that contradicts it would be refused */
    bool agree = true;
    for (uint32_t k = 0; k < t->n; k++)
      agree = agree && (t->fields[k]->dims || t->fields[k]->ndim == (int32_t)s.out.n);
    return sinfo_tensor_ndim(ic->c, agree ? (int32_t)s.out.n : -1, d);
  }
  const Expr *out[TE_MAX_RANK];
  if (!all_labels(ic, n, &s, t)) return NULL;
  for (uint32_t i = 0; i < s.out.n; i++) out[i] = extent_of(ic, n, &s, t, s.out.at[i]);
  return sinfo_tensor(ic->c, out, s.out.n, d);
}

/* ---- lowering ---- */
static Node *einsum_of(LowerCtx *lc, Node *const *in, uint32_t n, const char *subscripts) {
  Func *f = lc->node->func;
  Node *t = node_tuple(f, in, n, lc->node->span);
  if (!node_infer(lc->m, NULL, t)) return NULL;
  Node *r = node_create(f, OP_einsum, &t, 1, lc->node->span);
  r->attrs = node_new_attrs(f, OP_einsum);
  node_attrs(r, einsum)->subscripts = subscripts;
  return node_infer(lc->m, NULL, r) ? r : NULL;
}

static void put_term(Text *t, const Term *x) {
  for (uint32_t i = 0; i < x->n; i++) text_printf(t, "%c", x->at[i]);
}

/* More than two operands, named by letters only: the first two become one, which keeps the letters
 * that the others or the result need. */
static bool lower_pairwise(LowerCtx *lc, const Subscripts *s) {
  Term both = {.dots = -1};
  for (uint32_t k = 0; k < 2; k++)
    for (uint32_t i = 0; i < s->in[k].n; i++) {
      uint16_t l = s->in[k].at[i];
      uint32_t later = count_label(&s->out, l);
      for (uint32_t j = 2; j < s->nin; j++) later += count_label(&s->in[j], l);
      if (later && !count_label(&both, l) && both.n < TE_MAX_RANK) both.at[both.n++] = l;
    }
  Text a = {0}, b = {0};
  put_term(&a, &s->in[0]);
  text_puts(&a, ",");
  put_term(&a, &s->in[1]);
  text_puts(&a, "->");
  put_term(&a, &both);
  put_term(&b, &both);
  for (uint32_t j = 2; j < s->nin; j++) {
    text_puts(&b, ",");
    put_term(&b, &s->in[j]);
  }
  text_puts(&b, "->");
  put_term(&b, &s->out);
  const char *first = arena_strndup(lc->arena, text_cstr(&a), a.n);
  const char *rest = arena_strndup(lc->arena, text_cstr(&b), b.n);
  text_free(&a);
  text_free(&b);
  Node *in[MAX_TERMS], *r = einsum_of(lc, lc->in_nodes.at, 2, first);
  if (!r) return false;
  node_bind_before(lc->node, r, NULL);
  in[0] = r;
  for (uint32_t j = 2; j < s->nin; j++) in[j - 1] = lc->in_nodes.at[j];
  r = einsum_of(lc, in, s->nin - 1, rest);
  if (!r) return false;
  te_composite(lc, r);
  return true;
}

bool lower_einsum(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  uint32_t count, ndims[MAX_TERMS] = {0};
  Buffer *const *b = te_args(lc, 0, &count);
  Subscripts s;
  bool letters = true;
  for (uint32_t k = 0; k < count && k < MAX_TERMS; k++) ndims[k] = b[k]->ndim;
  const char *wrong = read_node(node_attrs(n, einsum)->subscripts, ndims, count, &s);
  if (wrong) bug("einsum: %s", wrong);
  for (uint32_t k = 0; k < count; k++)
    for (uint32_t i = 0; i < s.in[k].n; i++) letters = letters && s.in[k].at[i] < DOTS;
  DType d = te_result_dtype(lc, 0), acc = te_acc_dtype(d);
  if (count > 2 && letters && dtype_eq(d, acc)) return lower_pairwise(lc, &s);
  /* Labels in order: the result's, then the summed ones. */
  uint16_t label[TE_MAX_AXES];
  const Expr *extent[TE_MAX_AXES], *one = te_i64(lc, 1);
  uint32_t nl = 0;
  for (uint32_t i = 0; i < s.out.n; i++) label[nl++] = s.out.at[i];
  for (uint32_t k = 0; k < count; k++)
    for (uint32_t i = 0; i < s.in[k].n; i++) {
      uint32_t j = 0;
      while (j < nl && label[j] != s.in[k].at[i]) j++;
      if (j < nl) continue;
      if (nl == TE_MAX_AXES) return te_error(lc, "too many axes");
      label[nl++] = s.in[k].at[i];
    }
  for (uint32_t j = 0; j < nl; j++) {
    extent[j] = NULL;
    for (uint32_t k = 0; k < count; k++)
      for (uint32_t i = 0; i < s.in[k].n; i++) {
        const Expr *e = b[k]->shape[i];
        if (s.in[k].at[i] != label[j] || expr_is_int(e, 1)) continue;
        if (extent[j] && !te_need_equal(lc, extent[j], e, "extents of one letter")) return false;
        if (!extent[j]) extent[j] = e;
      }
    if (!extent[j]) extent[j] = one;
  }
  uint32_t nred = nl - s.out.n;
  if (nred)
    te_reduce_begin(lc, "T_einsum", extent, s.out.n, acc, extent + s.out.n, nred);
  else
    te_spatial_begin(lc, "T_einsum", extent, s.out.n, acc);
  const Expr *v = NULL;
  for (uint32_t k = 0; k < count; k++) {
    const Expr *idx[TE_MAX_RANK];
    for (uint32_t i = 0; i < s.in[k].n; i++) {
      uint32_t j = 0;
      while (label[j] != s.in[k].at[i]) j++;
      idx[i] = expr_is_int(b[k]->shape[i], 1) ? te_i64(lc, 0) : lc->ax[j];
    }
    const Expr *x = te_cast(c, acc, te_load(lc, b[k], idx));
    v = !v ? x : dtype_is_bool(acc) ? AND(v, x) : MUL(v, x);
  }
  Buffer *r =
      nred ? te_reduce_end(lc, dtype_is_bool(acc) ? TE_ANY : TE_SUM, v) : te_spatial_end(lc, v);
  if (dtype_eq(acc, d)) {
    te_out(lc, r);
    return true;
  }
  te_result_begin(lc, 0, "compute");
  te_out_value(lc, te_load(lc, r, lc->ax));
  return true;
}
