/* Layouts of images and kernels: see layout.h. */
#include "ir/ops/layout.h"

#include <stdlib.h>
#include <string.h>

bool layout_next(const char **s, char *axis, int32_t *size) {
  char *end = (char *)*s;
  long n = *end >= '1' && *end <= '9' ? strtol(*s, &end, 10) : 0;
  bool part = n > 0;
  if (n > INT32_MAX || *end < (part ? 'a' : 'A') || *end > (part ? 'z' : 'Z')) return false;
  *axis = part ? (char)(*end - 'a' + 'A') : *end;
  *size = (int32_t)n;
  *s = end + 1;
  return true;
}

/* Splits "NCHW16c" into the plain axes ("NCHW", in `plain`) and the blocks. */
static bool split_layout(const char *s, Layout *l, char plain[WINDOW_MAX + 3]) {
  uint32_t np = 0;
  char inner[LAYOUT_BLOCKS], axis;
  int32_t size;
  for (; *s; l->rank++) {
    if (!layout_next(&s, &axis, &size)) return false;
    if (!size) {
      if (np == WINDOW_MAX + 2) return false;
      l->major[np] = l->rank;
      plain[np++] = axis;
      continue;
    }
    if (l->nblocks == LAYOUT_BLOCKS) return false;
    l->block[l->nblocks].at = l->rank;
    l->block[l->nblocks].size = size;
    inner[l->nblocks++] = axis;
  }
  plain[np] = '\0';
  for (uint32_t i = 0; i < l->nblocks; i++) {
    const char *of = strchr(plain, inner[i]);
    if (!of) return false;
    l->block[i].of = (uint32_t)(of - plain);
  }
  return true;
}

bool layout_read(InferCtx *ic, const Node *n, const char *attr, const char *s, uint32_t nd,
                 bool kernel, Layout *out) {
  const char *all = "DHW";
  char plain[WINDOW_MAX + 3] = "";
  memset(out, 0, sizeof *out);
  out->ndim = nd + 2;
  bool ok = s && split_layout(s, out, plain) && strlen(plain) == nd + 2;
  const char *names[WINDOW_MAX + 2] = {NULL};
  for (uint32_t i = 0; i < nd + 2; i++) {
    char want = i == 0 ? (kernel ? 'O' : 'N') : i == 1 ? (kernel ? 'I' : 'C') : all[3 - nd + i - 2];
    names[i] = ok ? strchr(plain, want) : NULL;
    ok = ok && names[i];
  }
  if (!ok) {
    infer_error(ic, n, C_layout, -1,
                "%s '%s' can't be used: expected %s and %s, each once, and blocks of "
                "them such as 4c",
                attr, s ? s : "None", kernel ? "O, I" : "N, C",
                nd == 1   ? "W"
                : nd == 2 ? "H, W"
                          : "D, H, W");
    return false;
  }
  out->n = (uint32_t)(names[0] - plain);
  out->c = (uint32_t)(names[1] - plain);
  for (uint32_t i = 0; i < nd; i++) out->at[i] = (uint32_t)(names[i + 2] - plain);
  return true;
}

const Expr *const *layout_plain_dims(InferCtx *ic, const Layout *l, const Expr *const *dims) {
  if (!l->nblocks) return dims;
  const Expr **plain = ARENA_ARRAY(ic->arena, const Expr *, l->ndim);
  for (uint32_t i = 0; i < l->ndim; i++) plain[i] = dims[l->major[i]];
  for (uint32_t i = 0; i < l->nblocks; i++) {
    const Expr **whole = &plain[l->block[i].of];
    *whole = expr_simplify(ic->c, expr_mul(ic->c, *whole, dims[l->block[i].at]));
  }
  return plain;
}

const SInfo *layout_tensor(InferCtx *ic, const Node *n, const Layout *l, const Expr *const *plain,
                           DType d) {
  if (!l->nblocks) return sinfo_tensor(ic->c, plain, l->ndim, d);
  const Expr **dims = ARENA_ARRAY(ic->arena, const Expr *, l->rank);
  for (uint32_t i = 0; i < l->ndim; i++) dims[l->major[i]] = plain[i];
  for (uint32_t i = 0; i < l->nblocks; i++) {
    const Expr **outer = &dims[l->major[l->block[i].of]], *size = expr_i64(ic->c, l->block[i].size);
    int64_t dim;
    if (expr_const_int(ic->c, *outer, &dim) && dim % l->block[i].size)
      return infer_error(ic, n, C_divisible, -1,
                         "axis %u of the result has %lld elements, which are no blocks of %lld",
                         l->block[i].of, (long long)dim, (long long)l->block[i].size);
    *outer = expr_simplify(ic->c, expr_floordiv(ic->c, *outer, size));
    dims[l->block[i].at] = size;
  }
  return sinfo_tensor(ic->c, dims, l->rank, d);
}

/* ---- index expressions ---- */
bool layout_splits_space(const Layout *l) {
  for (uint32_t i = 0; i < l->nblocks; i++)
    if (l->block[i].of != l->n && l->block[i].of != l->c) return true;
  return false;
}

int64_t layout_block_size(const Layout *l, uint32_t axis) {
  int64_t size = 0;
  for (uint32_t i = 0; i < l->nblocks; i++) {
    if (l->block[i].of != axis) continue;
    if (size) return 0;
    size = l->block[i].size;
  }
  return size;
}

const Expr *layout_whole(Context *c, const LayoutPos *p) {
  if (!p->size) return p->whole;
  return expr_simplify(c, ADD(MUL(p->outer, expr_i64(c, p->size)), p->inner));
}

void layout_positions(Context *c, const Layout *l, const Expr *const *idx, LayoutPos *plain) {
  for (uint32_t i = 0; i < l->ndim; i++) plain[i] = (LayoutPos){.whole = idx[l->major[i]]};
  for (uint32_t i = 0; i < l->nblocks; i++) {
    LayoutPos *p = &plain[l->block[i].of];
    *p = (LayoutPos){NULL, layout_whole(c, p), idx[l->block[i].at], l->block[i].size};
  }
}

void layout_index(Context *c, const Layout *l, const LayoutPos *plain, const Expr **idx) {
  const Expr *rest[LAYOUT_AXES];
  for (uint32_t i = 0; i < l->ndim; i++) rest[i] = NULL;
  for (uint32_t i = l->nblocks; i-- > 0;) { /* of several blocks of an axis the last is innermost */
    uint32_t of = l->block[i].of;
    const LayoutPos *p = &plain[of];
    if (!rest[of] && p->size == l->block[i].size) {
      idx[l->block[i].at] = p->inner;
      rest[of] = p->outer;
      continue;
    }
    const Expr *size = expr_i64(c, l->block[i].size),
               *at = rest[of] ? rest[of] : layout_whole(c, p);
    idx[l->block[i].at] = expr_simplify(c, expr_floormod(c, at, size));
    rest[of] = expr_simplify(c, expr_floordiv(c, at, size));
  }
  for (uint32_t i = 0; i < l->ndim; i++)
    idx[l->major[i]] = rest[i] ? rest[i] : layout_whole(c, &plain[i]);
}

/* ---- tensors in lowering ---- */
/* The layout without its blocks. */
static Layout plain_of(const Layout *l) {
  Layout p = *l;
  p.nblocks = 0;
  p.rank = p.ndim;
  for (uint32_t i = 0; i < p.ndim; i++) p.major[i] = i;
  return p;
}

Buffer *layout_operand(LowerCtx *lc, Buffer *b, Layout *l, bool all) {
  if (!l->nblocks || (!all && !layout_splits_space(l))) return b;
  InferCtx ic = {.c = lc->c, .m = lc->m, .arena = lc->arena};
  Layout to = plain_of(l);
  LayoutPos plain[LAYOUT_AXES];
  const Expr *idx[LAYOUT_RANK];
  te_spatial_begin(lc, "plain", layout_plain_dims(&ic, l, b->shape), l->ndim, b->dtype);
  layout_positions(lc->c, &to, lc->ax, plain);
  layout_index(lc->c, l, plain, idx);
  *l = to;
  return te_spatial_end(lc, te_load(lc, b, idx));
}

LayoutResult layout_result_begin(LowerCtx *lc, Layout *l, bool all) {
  InferCtx ic = {.c = lc->c, .m = lc->m, .arena = lc->arena};
  LayoutResult r = {.own = *l};
  uint32_t ndim;
  r.dims = r.shape = te_result_shape(lc, 0, &ndim);
  if (all || layout_splits_space(l)) {
    r.shape = layout_plain_dims(&ic, l, r.dims);
    *l = plain_of(l);
  }
  r.nblocks = l->nblocks;
  return r;
}

bool layout_need_blocks(LowerCtx *lc, const LayoutResult *r, const Expr *const *plain) {
  InferCtx ic = {.c = lc->c, .m = lc->m, .arena = lc->arena};
  const Expr *const *have = layout_plain_dims(&ic, &r->own, r->dims);
  for (uint32_t i = 0; i < r->own.nblocks; i++) {
    uint32_t of = r->own.block[i].of;
    if (!te_need_equal(lc, have[of], plain[of], "an axis and the elements of its blocks"))
      return false;
  }
  return true;
}

bool layout_result_end(LowerCtx *lc, Buffer *b, const LayoutResult *r) {
  bool moves = r->own.nblocks != r->nblocks;
  if (!moves && dtype_eq(b->dtype, te_result_dtype(lc, 0))) {
    te_out(lc, b);
    return true;
  }
  LayoutPos plain[LAYOUT_AXES];
  const Expr *idx[LAYOUT_AXES];
  Layout from = plain_of(&r->own);
  te_result_begin(lc, 0, moves ? "blocked" : "compute");
  if (moves) {
    layout_positions(lc->c, &r->own, lc->ax, plain);
    layout_index(lc->c, &from, plain, idx);
  }
  te_out_value(lc, te_load(lc, b, moves ? idx : lc->ax));
  return true;
}
