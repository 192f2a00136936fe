/* Dims: the pool, sums and products.
 *
 * Both atoms and dims are hash-consed. A sum is built in a small array on the stack, its terms are
 * sorted by the ids of their atoms and merged, and only a new result is copied into the session
 * arena. Every coefficient is checked: where one would leave int64, or a sum or product would grow
 * beyond reason, the whole becomes one opaque atom, which is still right but no longer understood.
 */
#include "ir/dim.h"
#include "ir/dim_rules.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_TERMS = 256, MAX_FACTORS = 24 };

typedef struct DimPool {
  const Dim **dims;
  uint32_t *dim_hashes, ndim_slots, ndims;
  const DimAtom **atoms;
  uint32_t *atom_hashes, natom_slots, natoms;
} DimPool;

struct DimPool *dim_pool_create(Context *c) {
  DimPool *p = ARENA_NEW(c->arena, DimPool);
  p->ndim_slots = p->natom_slots = 256;
  p->dims = ARENA_ARRAY(c->arena, const Dim *, p->ndim_slots);
  p->dim_hashes = ARENA_ARRAY(c->arena, uint32_t, p->ndim_slots);
  p->atoms = ARENA_ARRAY(c->arena, const DimAtom *, p->natom_slots);
  p->atom_hashes = ARENA_ARRAY(c->arena, uint32_t, p->natom_slots);
  return p;
}

/* Doubles a table of pointers with their hashes. */
static void table_grow(Context *c, const void ***slots, uint32_t **hashes, uint32_t *nslots) {
  uint32_t nold = *nslots, nnew = nold * 2;
  const void **s = ARENA_ARRAY(c->arena, const void *, nnew);
  uint32_t *h = ARENA_ARRAY(c->arena, uint32_t, nnew);
  for (uint32_t i = 0; i < nold; i++) {
    if (!(*slots)[i]) continue;
    uint32_t at = (*hashes)[i] & (nnew - 1);
    while (s[at]) at = (at + 1) & (nnew - 1);
    s[at] = (*slots)[i];
    h[at] = (*hashes)[i];
  }
  *slots = s;
  *hashes = h;
  *nslots = nnew;
}

/* ---- atoms ---- */

static const DimAtom *atom_intern(Context *c, DimAtom key) {
  DimPool *p = c->dims;
  uint64_t h = hash_mix(0, key.kind);
  h = hash_mix(h, key.var ? key.var->id : 0);
  h = hash_mix(h, key.a ? (uint64_t)key.a->id << 32 | key.b->id : 0);
  h = hash_mix(h, key.expr ? key.expr->id : 0);
  uint32_t at = (uint32_t)h & (p->natom_slots - 1);
  for (; p->atoms[at]; at = (at + 1) & (p->natom_slots - 1)) {
    const DimAtom *q = p->atoms[at];
    if (p->atom_hashes[at] == (uint32_t)h && q->kind == key.kind && q->var == key.var &&
        q->a == key.a && q->b == key.b && q->expr == key.expr)
      return q;
  }
  key.id = p->natoms++;
  const DimAtom *q = arena_dup(c->arena, &key, sizeof key);
  p->atoms[at] = q;
  p->atom_hashes[at] = (uint32_t)h;
  if (p->natoms > p->natom_slots / 2) {
    const void **slots = (const void **)p->atoms;
    table_grow(c, &slots, &p->atom_hashes, &p->natom_slots);
    p->atoms = (const DimAtom **)slots;
  }
  return q;
}

/* ---- sums ---- */

void sum_init(Sum *s, int64_t konst) {
  s->konst = konst;
  s->terms = s->few;
  s->n = 0;
  s->cap = sizeof s->few / sizeof *s->few;
  s->overflow = false;
}

void sum_free(Sum *s) {
  if (s->terms != s->few) free(s->terms);
}

void sum_konst(Sum *s, int64_t k) {
  s->overflow |= __builtin_add_overflow(s->konst, k, &s->konst);
}

void sum_term(Sum *s, int64_t coef, const DimAtom *const *atoms, uint32_t n) {
  if (coef == 0) return;
  if (n == 0) {
    sum_konst(s, coef);
    return;
  }
  if (s->n == s->cap) {
    DimTerm *t = xmalloc(2 * (size_t)s->cap * sizeof *t);
    memcpy(t, s->terms, s->n * sizeof *t);
    sum_free(s);
    s->terms = t;
    s->cap *= 2;
  }
  s->terms[s->n++] = (DimTerm){coef, n, atoms};
}

void sum_add(Sum *s, const Dim *d, int64_t scale) {
  int64_t v;
  s->overflow |= __builtin_mul_overflow(d->konst, scale, &v);
  sum_konst(s, v);
  for (uint32_t i = 0; i < d->n; i++) {
    s->overflow |= __builtin_mul_overflow(d->terms[i].coef, scale, &v);
    sum_term(s, v, d->terms[i].atoms, d->terms[i].n);
  }
}

static int term_order(const DimTerm *x, const DimTerm *y) {
  for (uint32_t i = 0; i < x->n && i < y->n; i++)
    if (x->atoms[i] != y->atoms[i]) return x->atoms[i]->id < y->atoms[i]->id ? -1 : 1;
  return x->n == y->n ? 0 : x->n < y->n ? -1 : 1;
}

static int term_order_qsort(const void *x, const void *y) {
  return term_order(x, y);
}

/* Sorts and merges like terms. */
static void sum_merge(Sum *s) {
  bool sorted = true;
  for (uint32_t i = 1; sorted && i < s->n; i++)
    sorted = term_order(&s->terms[i - 1], &s->terms[i]) < 0;
  if (sorted) return;
  qsort(s->terms, s->n, sizeof *s->terms, term_order_qsort);
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n;) {
    DimTerm t = s->terms[i++];
    for (; i < s->n && term_order(&t, &s->terms[i]) == 0; i++)
      s->overflow |= __builtin_add_overflow(t.coef, s->terms[i].coef, &t.coef);
    if (t.coef) s->terms[n++] = t;
  }
  s->n = n;
}

static const Dim *dim_intern(Context *c, int64_t konst, const DimTerm *terms, uint32_t n) {
  DimPool *p = c->dims;
  uint64_t h = hash_mix(n, (uint64_t)konst);
  for (uint32_t i = 0; i < n; i++) {
    h = hash_mix(h, (uint64_t)terms[i].coef);
    for (uint32_t j = 0; j < terms[i].n; j++) h = hash_mix(h, terms[i].atoms[j]->id);
  }
  uint32_t at = (uint32_t)h & (p->ndim_slots - 1);
  for (; p->dims[at]; at = (at + 1) & (p->ndim_slots - 1)) {
    const Dim *q = p->dims[at];
    bool same = p->dim_hashes[at] == (uint32_t)h && q->konst == konst && q->n == n;
    for (uint32_t i = 0; same && i < n; i++)
      same = q->terms[i].coef == terms[i].coef && term_order(&q->terms[i], &terms[i]) == 0;
    if (same) return q;
  }
  Dim *d = ARENA_NEW(c->arena, Dim);
  d->id = p->ndims++;
  d->konst = konst;
  d->n = n;
  DimTerm *copy = arena_dup(c->arena, terms, n * sizeof *terms);
  for (uint32_t i = 0; i < n; i++)
    copy[i].atoms = arena_dup(c->arena, terms[i].atoms, terms[i].n * sizeof *terms[i].atoms);
  d->terms = copy;
  p->dims[at] = d;
  p->dim_hashes[at] = (uint32_t)h;
  if (p->ndims > p->ndim_slots / 2) {
    const void **slots = (const void **)p->dims;
    table_grow(c, &slots, &p->dim_hashes, &p->ndim_slots);
    p->dims = (const Dim **)slots;
  }
  return d;
}

const Dim *sum_dim(Context *c, Sum *s, bool recombine) {
  const Dim *d = NULL;
  sum_merge(s);
  if (!s->overflow && s->n <= MAX_TERMS) d = dim_intern(c, s->konst, s->terms, s->n);
  sum_free(s);
  const Dim *better = d && recombine && d->n ? dim_recombine(c, d) : NULL;
  return better ? better : d;
}

/* ---- leaves ---- */

const Dim *dim_const(Context *c, int64_t v) {
  return dim_intern(c, v, NULL, 0);
}

static const Dim *atom_dim(Context *c, DimAtom key) {
  const DimAtom *a = atom_intern(c, key);
  DimTerm t = {1, 1, &a};
  return dim_intern(c, 0, &t, 1);
}

const Dim *dim_var(Context *c, Var *v) {
  return atom_dim(c, (DimAtom){.kind = ATOM_VAR, .var = v});
}

const Dim *dim_atom(Context *c, AtomKind k, const Dim *a, const Dim *b) {
  return atom_dim(c, (DimAtom){.kind = k, .a = a, .b = b});
}

const Dim *dim_opaque(Context *c, const Expr *e) {
  return atom_dim(c, (DimAtom){.kind = ATOM_OPAQUE, .expr = e});
}

const Dim *dim_monomial(Context *c, int64_t coef, const DimAtom *const *atoms, uint32_t n) {
  if (n == 0 || coef == 0) return dim_const(c, coef);
  DimTerm t = {coef, n, atoms};
  return dim_intern(c, 0, &t, 1);
}

/* ---- arithmetic ---- */

static const Dim *opaque_binary(Context *c, ExprKind k, const Dim *a, const Dim *b) {
  return dim_opaque(c, expr_binary_raw(c, k, dim_expr(c, a, DT_I64), dim_expr(c, b, DT_I64)));
}

static const Dim *add_scaled(Context *c, const Dim *a, const Dim *b, int64_t scale,
                             bool recombine) {
  Sum s;
  sum_init(&s, 0);
  sum_add(&s, a, 1);
  sum_add(&s, b, scale);
  return sum_dim(c, &s, recombine);
}

const Dim *dim_try_add(Context *c, const Dim *a, const Dim *b, int64_t scale_b) {
  return add_scaled(c, a, b, scale_b, false);
}

const Dim *dim_add(Context *c, const Dim *a, const Dim *b) {
  if (a->n == 0 && a->konst == 0) return b;
  if (b->n == 0 && b->konst == 0) return a;
  const Dim *d = add_scaled(c, a, b, 1, a->n > 0 && b->n > 0);
  if (d) return d;
  return a->id < b->id ? opaque_binary(c, EXPR_ADD, a, b) : opaque_binary(c, EXPR_ADD, b, a);
}

const Dim *dim_sub(Context *c, const Dim *a, const Dim *b) {
  if (a == b) return dim_const(c, 0);
  if (b->n == 0 && b->konst == 0) return a;
  const Dim *d = add_scaled(c, a, b, -1, a->n > 0 && b->n > 0);
  return d ? d : opaque_binary(c, EXPR_SUB, a, b);
}

const Dim *dim_scale(Context *c, const Dim *a, int64_t k) {
  if (k == 1) return a;
  if (k == 0) return dim_const(c, 0);
  Sum s;
  sum_init(&s, 0);
  sum_add(&s, a, k);
  const Dim *d = sum_dim(c, &s, false);
  return d ? d : opaque_binary(c, EXPR_MUL, a, dim_const(c, k));
}

static const Dim *mul(Context *c, const Dim *a, const Dim *b, bool recombine) {
  uint32_t na = a->n + 1, nb = b->n + 1;
  if ((uint64_t)na * nb > 4 * MAX_TERMS) return NULL;
  uint32_t nf = 0;
  for (uint32_t i = 0; i < a->n; i++)
    for (uint32_t j = 0; j < b->n; j++) {
      if (a->terms[i].n + b->terms[j].n > MAX_FACTORS) return NULL;
      nf += a->terms[i].n + b->terms[j].n;
    }
  const DimAtom *few[32], **factors = nf <= 32 ? few : xmalloc(nf * sizeof *factors);
  const DimAtom **at = factors;
  Sum s;
  int64_t v;
  sum_init(&s, 0);
  s.overflow |= __builtin_mul_overflow(a->konst, b->konst, &v);
  sum_konst(&s, v);
  for (uint32_t j = 0; j < b->n; j++) {
    s.overflow |= __builtin_mul_overflow(a->konst, b->terms[j].coef, &v);
    sum_term(&s, v, b->terms[j].atoms, b->terms[j].n);
  }
  for (uint32_t i = 0; i < a->n; i++) {
    const DimTerm *x = &a->terms[i];
    s.overflow |= __builtin_mul_overflow(x->coef, b->konst, &v);
    sum_term(&s, v, x->atoms, x->n);
    for (uint32_t j = 0; j < b->n; j++) {
      const DimTerm *y = &b->terms[j];
      const DimAtom **begin = at;
      for (uint32_t p = 0, q = 0; p < x->n || q < y->n;)
        *at++ = q == y->n || (p < x->n && x->atoms[p]->id <= y->atoms[q]->id) ? x->atoms[p++]
                                                                              : y->atoms[q++];
      s.overflow |= __builtin_mul_overflow(x->coef, y->coef, &v);
      sum_term(&s, v, begin, x->n + y->n);
    }
  }
  const Dim *d = sum_dim(c, &s, recombine);
  if (factors != few) free(factors);
  return d;
}

const Dim *dim_try_mul(Context *c, const Dim *a, const Dim *b) {
  return mul(c, a, b, false);
}

const Dim *dim_mul(Context *c, const Dim *a, const Dim *b) {
  if (a->n == 0) return dim_scale(c, b, a->konst);
  if (b->n == 0) return dim_scale(c, a, b->konst);
  const Dim *d = mul(c, a, b, true);
  if (d) return d;
  return a->id < b->id ? opaque_binary(c, EXPR_MUL, a, b) : opaque_binary(c, EXPR_MUL, b, a);
}

const Dim *dim_floordiv(Context *c, const Dim *a, const Dim *b) {
  return dim_floordiv_facts(c, NULL, a, b);
}

const Dim *dim_floormod(Context *c, const Dim *a, const Dim *b) {
  return dim_floormod_facts(c, NULL, a, b);
}

const Dim *dim_min(Context *c, const Dim *a, const Dim *b) {
  return dim_minmax_facts(c, NULL, false, a, b);
}

const Dim *dim_max(Context *c, const Dim *a, const Dim *b) {
  return dim_minmax_facts(c, NULL, true, a, b);
}

/* ---- questions ---- */

int64_t dim_coef(const Dim *d, const DimTerm *t) {
  uint32_t lo = 0, hi = d->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    int order = term_order(&d->terms[mid], t);
    if (order == 0) return d->terms[mid].coef;
    if (order < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return 0;
}

bool term_divide(const DimTerm *t, const DimTerm *by, int64_t *coef, const DimAtom **out,
                 uint32_t *n) {
  if (by->coef == 0 || by->n > t->n || (by->coef == -1 && t->coef == INT64_MIN)) return false;
  if (t->coef % by->coef) return false;
  *coef = t->coef / by->coef;
  *n = 0;
  uint32_t j = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    if (j < by->n && t->atoms[i] == by->atoms[j])
      j++;
    else
      out[(*n)++] = t->atoms[i];
  }
  return j == by->n;
}

static bool atom_uses_var(const DimAtom *a, const Var *v) {
  switch (a->kind) {
  case ATOM_VAR: return a->var == v;
  case ATOM_OPAQUE: return expr_uses_var(a->expr, v);
  case ATOM_FLOORDIV:
  case ATOM_FLOORMOD:
  case ATOM_MIN:
  case ATOM_MAX: return dim_uses_var(a->a, v) || dim_uses_var(a->b, v);
  }
  return false;
}

bool dim_uses_var(const Dim *d, const Var *v) {
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t j = 0; j < d->terms[i].n; j++)
      if (atom_uses_var(d->terms[i].atoms[j], v)) return true;
  return false;
}

bool dim_linear(Context *c, const Dim *d, const Var *v, const Dim **coef, const Dim **rest) {
  Sum without;
  const DimAtom *few[MAX_FACTORS];
  *coef = *rest = NULL;
  sum_init(&without, d->konst);
  bool linear = true;
  const Dim *total = dim_const(c, 0);
  for (uint32_t i = 0; linear && i < d->n; i++) {
    const DimTerm *t = &d->terms[i];
    uint32_t n = 0, found = 0;
    for (uint32_t j = 0; j < t->n; j++) {
      bool is_v = t->atoms[j]->kind == ATOM_VAR && t->atoms[j]->var == v;
      found += is_v;
      if (!is_v && atom_uses_var(t->atoms[j], v)) linear = false;
      if (!is_v && n < MAX_FACTORS) few[n++] = t->atoms[j];
    }
    if (found > 1) linear = false;
    if (found == 0)
      sum_term(&without, t->coef, t->atoms, t->n);
    else if (linear)
      total = dim_add(c, total, dim_monomial(c, t->coef, few, n));
  }
  if (!linear) {
    sum_free(&without);
    return false;
  }
  *coef = total;
  *rest = sum_dim(c, &without, true);
  return *rest != NULL;
}

int64_t dim_content(const Dim *d) {
  uint64_t g = d->konst < 0 ? 0 - (uint64_t)d->konst : (uint64_t)d->konst;
  for (uint32_t i = 0; i < d->n; i++) {
    uint64_t x = d->terms[i].coef < 0 ? 0 - (uint64_t)d->terms[i].coef : (uint64_t)d->terms[i].coef;
    while (x) {
      uint64_t r = g % x;
      g = x;
      x = r;
    }
  }
  return g > INT64_MAX ? 1 : (int64_t)g;
}
