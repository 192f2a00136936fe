/* Sizes at run time: what a function needs of memory, computed with checks for overflow and for
 * dims that are negative, before anything is allocated.
 *
 * A dim such as n - 5 is fine as long as n is no smaller than 5. Where that can't be proved, it is
 * checked: with the sizes, when it consists of the function's own dims, else where the tensor is
 * made. In a branch it counts only if the branch is taken.
 */
#include "codegen/llvm/graph.h"

#include "ir/facts.h"

/* What the function that computes the workspace gives in place of a size. */
enum { SIZE_OVERFLOWS = -1, SIZE_NEGATIVE = -2 };

static const char NEGATIVE[] = "%s: dim %s of a tensor is %lld";

const Dim *sinfo_bytes(Context *c, const SInfo *si) {
  const Dim *d = dim_const(c, (int64_t)dtype_bytes(si->dtype));
  for (int32_t i = 0; i < si->ndim; i++) d = dim_mul(c, d, expr_dim(c, si->dims[i]));
  return d;
}

static LLVMValueRef with_overflow(Fn *fn, const char *name, LLVMValueRef x, LLVMValueRef y,
                                  LLVMValueRef *bad) {
  LLVMTypeRef t = fn->cg->i64;
  LLVMValueRef args[2] = {x, y};
  LLVMValueRef r = cg_intrinsic(fn->cg, fn->b, name, &t, 1, args, 2);
  LLVMValueRef o = LLVMBuildExtractValue(fn->b, r, 1, "");
  *bad = *bad ? LLVMBuildOr(fn->b, *bad, o, "") : o;
  return LLVMBuildExtractValue(fn->b, r, 0, "");
}

static bool is_product(const DimAtom *a) {
  return a->kind == ATOM_OPAQUE && a->expr->kind == EXPR_MUL && dtype_eq(a->expr->dtype, DT_I64);
}

LLVMValueRef dim_checked(Fn *fn, const Dim *d, LLVMValueRef *bad) {
  Cg *cg = fn->cg;
  LLVMValueRef sum = d->konst || !d->n ? cg_i64(cg, d->konst) : NULL;
  for (uint32_t i = 0; i < d->n; i++) {
    const DimTerm *t = &d->terms[i];
    LLVMValueRef p = t->coef == 1 ? NULL : cg_i64(cg, t->coef);
    for (uint32_t k = 0; k < t->n; k++) {
      const DimAtom *a = t->atoms[k];
      LLVMValueRef v;
      if (is_product(a)) { /* one whose coefficients don't fit */
        LLVMValueRef x = dim_checked(fn, expr_dim(fn->c, a->expr->arg[0]), bad);
        LLVMValueRef y = dim_checked(fn, expr_dim(fn->c, a->expr->arg[1]), bad);
        v = with_overflow(fn, "llvm.smul.with.overflow", x, y, bad);
      } else if (a->kind == ATOM_VAR || a->kind == ATOM_OPAQUE) {
        const Dim *one = a->kind == ATOM_VAR ? dim_var(fn->c, a->var) : expr_dim(fn->c, a->expr);
        v = dim_value(fn, one);
      } else {
        LLVMValueRef x = dim_checked(fn, a->a, bad), y = dim_checked(fn, a->b, bad);
        if (a->kind == ATOM_FLOORDIV || a->kind == ATOM_FLOORMOD) {
          v = cg_div(fn->b, x, y, true, true, a->kind == ATOM_FLOORMOD);
        } else {
          LLVMIntPredicate pr = a->kind == ATOM_MIN ? LLVMIntSLT : LLVMIntSGT;
          v = cg_select(fn->b, LLVMBuildICmp(fn->b, pr, x, y, ""), x, y);
        }
      }
      p = p ? with_overflow(fn, "llvm.smul.with.overflow", p, v, bad) : v;
    }
    if (!p) p = cg_i64(cg, t->coef);
    sum = sum ? with_overflow(fn, "llvm.sadd.with.overflow", sum, p, bad) : p;
  }
  return sum;
}

/* ---- dims that must not be negative ---- */

bool dim_surely_natural(Context *c, const Dim *d) {
  int64_t lo, hi;
  dim_bounds(c, NULL, d, &lo, &hi);
  return lo >= 0;
}

static LLVMValueRef is_negative(Fn *fn, LLVMValueRef v) {
  return LLVMBuildICmp(fn->b, LLVMIntSLT, v, cg_i64(fn->cg, 0), "");
}

static LLVMValueRef dim_words(Fn *fn, const Dim *d) {
  Text t = {0};
  shape_dim_print(&t, dim_expr(fn->c, d, DT_I64));
  LLVMValueRef s = cg_string(fn->cg, text_cstr(&t));
  text_free(&t);
  return s;
}

void graph_check_dims(Graph *g, const SInfo *si) {
  Fn *fn = g->fn;
  if (si->kind == SINFO_TUPLE)
    for (uint32_t i = 0; i < si->n; i++) graph_check_dims(g, si->fields[i]);
  if (si->kind != SINFO_TENSOR || !si->dims) return;
  for (int32_t i = 0; i < si->ndim; i++) {
    const Dim *d = expr_dim(fn->c, si->dims[i]);
    if (map_hasp(&g->signs, d)) continue;
    bool natural = dim_surely_natural(fn->c, d);
    if (natural || !g->branches) map_setp(&g->signs, d, g);
    if (natural) continue;
    if (!g->branches && graph_known_early(g, d)) {
      vec_push(g->arena, &g->early, d);
      continue;
    }
    LLVMValueRef v = dim_value(fn, d);
    LLVMValueRef args[3] = {cg_string(fn->cg, g->host->f->name), dim_words(fn, d), v};
    fn_fail_if(fn, is_negative(fn, v), ST_SHAPE, NEGATIVE, args, 3);
  }
}

/* ---- the workspace ---- */

void host_define_bytes(Cg *cg, Host *h, const Dim *total, const Dim *const *early,
                       uint32_t nearly) {
  Fn fn;
  host_fn_begin(&fn, cg, h->ws);
  for (uint32_t i = 0; i < h->f->ndims; i++)
    fn_bind(&fn, h->f->dims[i], (Binding){.idx = LLVMGetParam(h->ws, i), .level = 0});
  for (uint32_t i = 0; i < nearly; i++) {
    LLVMValueRef d = dim_value(&fn, early[i]);
    LLVMBasicBlockRef bad = fn_block(&fn, "negative"), good = fn_block(&fn, "");
    LLVMBuildCondBr(fn.b, is_negative(&fn, d), bad, good);
    LLVMPositionBuilderAtEnd(fn.b, bad);
    LLVMValueRef args[3] = {cg_string(cg, h->f->name), dim_words(&fn, early[i]), d};
    cg_message(cg, fn.b, NEGATIVE, args, 3);
    LLVMBuildRet(fn.b, cg_i64(cg, SIZE_NEGATIVE));
    LLVMPositionBuilderAtEnd(fn.b, good);
  }
  LLVMValueRef bad = NULL;
  for (int o = 0; o < 2; o++)
    for (uint32_t i = 0; i < (o ? h->nouts : h->nargs); i++) {
      HostLeaf *l = o ? &h->outs[i] : &h->args[i];
      if (l->si->kind == SINFO_TENSOR && !l->dynamic)
        (void)dim_checked(&fn, sinfo_bytes(cg->c, l->si), &bad);
    }
  LLVMValueRef v = dim_checked(&fn, total, &bad);
  if (bad) v = cg_select(fn.b, bad, cg_i64(cg, SIZE_OVERFLOWS), v);
  LLVMBuildRet(fn.b, v);
  host_fn_end(&fn);
}

void host_check_bytes(Fn *fn, LLVMValueRef bytes, LLVMValueRef name) {
  Cg *cg = fn->cg;
  LLVMBasicBlockRef bad = fn_block(fn, "negative"), good = fn_block(fn, "");
  LLVMValueRef said = LLVMBuildICmp(fn->b, LLVMIntEQ, bytes, cg_i64(cg, SIZE_NEGATIVE), "");
  LLVMBuildCondBr(fn->b, said, bad, good);
  LLVMPositionBuilderAtEnd(fn->b, bad);
  fn_return(fn, cg_i32(cg, ST_SHAPE));
  LLVMPositionBuilderAtEnd(fn->b, good);
  fn_fail_if(fn, is_negative(fn, bytes), ST_OVERFLOW, "%s: a size is beyond 64 bits", &name, 1);
}
