/* Statements to LLVM code.
 *
 * Loops are emitted with the test at the bottom and a guard in front. Values of promoted buffers
 * (cells) are merged with phis where control flow joins; a phi that turns out to be its own only
 * input is replaced at once, as no pass comes after. `fn->dead` says that the current block has
 * ended (break, continue, return): what follows in the sequence is not emitted.
 */
#include "codegen/llvm/cg.h"
#include "ir/print.h"

#include <stdio.h>

LLVMBasicBlockRef fn_block(Fn *fn, const char *name) {
  return LLVMAppendBasicBlockInContext(fn->cg->lc, fn->fn, name);
}

void fn_jump(Fn *fn, LLVMBasicBlockRef to) {
  LLVMBuildBr(fn->b, to);
}

LLVMValueRef fn_alloca(Fn *fn, LLVMTypeRef t, uint64_t count, uint32_t align) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(fn->b);
  LLVMPositionBuilderBefore(fn->b, fn->entry_end);
  LLVMTypeRef at = count == 1 ? t : LLVMArrayType2(t, count);
  LLVMValueRef p = LLVMBuildAlloca(fn->b, at, "");
  LLVMSetAlignment(p, align);
  LLVMPositionBuilderAtEnd(fn->b, here);
  debug_again(fn);
  return p;
}

/* ---- leaving ---- */

static void pop_heap(Fn *fn, uint32_t down_to) {
  for (uint32_t i = fn->heap.n; i-- > down_to;) {
    LLVMValueRef p = fn->heap.at[i];
    if (LLVMIsAAllocaInst(p)) p = LLVMBuildLoad2(fn->b, fn->cg->ptr, p, "");
    cg_scratch_pop(fn->cg, fn->b, p);
  }
}

void fn_keep_maybe(Fn *fn, LLVMValueRef p) {
  LLVMValueRef slot = fn_alloca(fn, fn->cg->ptr, 1, 8);
  LLVMBasicBlockRef here = LLVMGetInsertBlock(fn->b);
  LLVMPositionBuilderBefore(fn->b, fn->entry_end);
  LLVMBuildStore(fn->b, LLVMConstNull(fn->cg->ptr), slot);
  LLVMPositionBuilderAtEnd(fn->b, here);
  debug_again(fn);
  LLVMBuildStore(fn->b, p, slot);
  vec_push(fn->arena, &fn->heap, slot);
}

/* All returns that have nothing to pop meet in one block: entries and kernels have many checks. */
static LLVMBasicBlockRef leave_block(Fn *fn) {
  if (fn->leave) return fn->leave;
  fn->leave = fn_block(fn, "leave");
  LLVMBuilderRef b = LLVMCreateBuilderInContext(fn->cg->lc);
  LLVMPositionBuilderAtEnd(b, fn->leave);
  fn->leave_status = LLVMBuildPhi(b, fn->cg->i32, "");
  LLVMBuildRet(b, fn->leave_status);
  LLVMDisposeBuilder(b);
  return fn->leave;
}

void fn_return(Fn *fn, LLVMValueRef status) {
  if (!fn->heap.n) {
    LLVMBuildBr(fn->b, leave_block(fn));
    LLVMBasicBlockRef from = LLVMGetInsertBlock(fn->b);
    LLVMAddIncoming(fn->leave_status, &status, &from, 1);
    return;
  }
  pop_heap(fn, 0);
  LLVMBuildRet(fn->b, status);
}

void fn_check_status(Fn *fn, LLVMValueRef status) {
  LLVMValueRef c = LLVMBuildICmp(fn->b, LLVMIntNE, status, LLVMConstNull(fn->cg->i32), "");
  LLVMBasicBlockRef good = fn_block(fn, "");
  if (!fn->heap.n) {
    LLVMBasicBlockRef from = LLVMGetInsertBlock(fn->b);
    LLVMBuildCondBr(fn->b, c, leave_block(fn), good);
    LLVMAddIncoming(fn->leave_status, &status, &from, 1);
  } else {
    LLVMBasicBlockRef bad = fn_block(fn, "failed");
    LLVMBuildCondBr(fn->b, c, bad, good);
    LLVMPositionBuilderAtEnd(fn->b, bad);
    fn_return(fn, status);
  }
  LLVMPositionBuilderAtEnd(fn->b, good);
}

void fn_fail_if(Fn *fn, LLVMValueRef cond, int code, const char *fmt, LLVMValueRef const *args,
                uint32_t n) {
  bool known;
  if (cg_known_bool(cond, &known) && !known) return;
  LLVMBasicBlockRef bad = fn_block(fn, "failed"), good = fn_block(fn, "");
  LLVMBuildCondBr(fn->b, cond, bad, good);
  LLVMPositionBuilderAtEnd(fn->b, bad);
  cg_message(fn->cg, fn->b, fmt, args, n);
  fn_return(fn, cg_i32(fn->cg, code));
  LLVMPositionBuilderAtEnd(fn->b, good);
}

/* ---- cells ---- */

LLVMValueRef *fn_cells_save(Fn *fn, uint32_t nlive) {
  uint32_t total = 0, k = 0;
  for (uint32_t i = 0; i < nlive; i++) total += fn->live.at[i]->n;
  LLVMValueRef *saved = ARENA_ARRAY(fn->arena, LLVMValueRef, total);
  for (uint32_t i = 0; i < nlive; i++)
    for (uint32_t j = 0; j < fn->live.at[i]->n; j++) saved[k++] = fn->live.at[i]->v[j];
  return saved;
}

void fn_cells_restore(Fn *fn, LLVMValueRef *saved, uint32_t nlive) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < nlive; i++)
    for (uint32_t j = 0; j < fn->live.at[i]->n; j++) fn->live.at[i]->v[j] = saved[k++];
}

void fn_merge(Fn *fn, LLVMBasicBlockRef at, const Edge *edges, uint32_t n, uint32_t nlive) {
  LLVMPositionBuilderAtEnd(fn->b, at);
  fn->dead = n == 0;
  if (n == 0) {
    LLVMBuildUnreachable(fn->b);
    return;
  }
  uint32_t k = 0;
  for (uint32_t i = 0; i < nlive; i++) {
    Cells *c = fn->live.at[i];
    for (uint32_t j = 0; j < c->n; j++, k++) {
      bool differ = false;
      for (uint32_t e = 1; e < n; e++) differ |= edges[e].cells[k] != edges[0].cells[k];
      c->v[j] = edges[0].cells[k];
      if (!differ) continue;
      LLVMValueRef phi = LLVMBuildPhi(fn->b, LLVMTypeOf(c->v[j]), "");
      for (uint32_t e = 0; e < n; e++) {
        LLVMValueRef v = edges[e].cells[k];
        LLVMBasicBlockRef from = edges[e].from;
        LLVMAddIncoming(phi, &v, &from, 1);
      }
      c->v[j] = phi;
    }
  }
}

typedef struct {
  Map *stored;
} StoreScan;

static bool note_store(const Stmt *s, void *ctx) {
  StoreScan *x = ctx;
  if (s->kind == STMT_STORE) map_setp(x->stored, s->store.buf, x);
  return true;
}

/* Phis at a loop header for the live cells that its body may store to. */
typedef struct {
  LLVMValueRef phi, init;
  Cells *cells;
  uint32_t j;
} LoopPhi;
typedef VEC(LoopPhi) LoopPhis;

static LoopPhis loop_phis(Fn *fn, const Stmt *body, LLVMBasicBlockRef from) {
  LoopPhis phis = {0};
  if (!fn->live.n) return phis;
  Map stored;
  map_init(&stored, fn->arena);
  StoreScan x = {&stored};
  stmt_walk(body, note_store, &x);
  for (uint32_t i = 0; i < fn->live.n; i++) {
    Cells *c = fn->live.at[i];
    if (!map_hasp(&stored, c->buf)) continue;
    for (uint32_t j = 0; j < c->n; j++) {
      LoopPhi p = {LLVMBuildPhi(fn->b, LLVMTypeOf(c->v[j]), ""), c->v[j], c, j};
      LLVMAddIncoming(p.phi, &p.init, &from, 1);
      c->v[j] = p.phi;
      vec_push(fn->arena, &phis, p);
    }
  }
  return phis;
}

static void replace_saved(LLVMValueRef *cells, uint32_t n, LLVMValueRef from, LLVMValueRef to) {
  for (uint32_t i = 0; i < n; i++)
    if (cells[i] == from) cells[i] = to;
}

/* Closes the phis at the back edge; drops those that never change. */
static void close_phis(Fn *fn, LoopPhis *phis, LLVMBasicBlockRef latch, LoopCtx *lc,
                       LLVMValueRef *extra) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < lc->nlive; i++) total += fn->live.at[i]->n;
  vec_each(LoopPhi, p, phis) {
    LLVMValueRef v = latch ? p->cells->v[p->j] : p->phi;
    if (v != p->phi) {
      LLVMAddIncoming(p->phi, &v, &latch, 1);
      continue;
    }
    LLVMReplaceAllUsesWith(p->phi, p->init);
    for (uint32_t i = 0; i < fn->live.n; i++)
      replace_saved(fn->live.at[i]->v, fn->live.at[i]->n, p->phi, p->init);
    vec_each(Edge, e, &lc->breaks) replace_saved(e->cells, total, p->phi, p->init);
    if (extra) replace_saved(extra, total, p->phi, p->init);
    for (LoopPhi *q = p + 1; q < phis->at + phis->n; q++)
      if (q->init == p->phi) q->init = p->init;
    LLVMInstructionEraseFromParent(p->phi);
  }
}

/* ---- loops ---- */

/* A break or continue that belongs to this loop. */
static bool has_jump(const Stmt *s) {
  switch (s->kind) {
  case STMT_BREAK:
  case STMT_CONTINUE: return true;
  case STMT_SEQ:
    for (uint32_t i = 0; i < s->seq.n; i++)
      if (has_jump(s->seq.at[i])) return true;
    return false;
  case STMT_IF: return has_jump(s->if_.then_) || (s->if_.else_ && has_jump(s->if_.else_));
  case STMT_ATTR: return s->attr.body && has_jump(s->attr.body);
  default: return false;
  }
}

bool stmt_unrolls(Context *c, const Stmt *s, int64_t *min, int64_t *extent) {
  if (!expr_const_int(c, s->loop.extent, extent) || !expr_const_int(c, s->loop.min, min))
    return false;
  if (s->loop.step && !expr_is_int(s->loop.step, 1)) return false;
  if (*extent > 1 && (s->loop.kind != FOR_UNROLL || *extent > 4096)) return false;
  return !has_jump(s->loop.body);
}

static void jump_to_edges(Fn *fn, LLVMBasicBlockRef to, EdgeVec *v, uint32_t nlive) {
  Edge e = {LLVMGetInsertBlock(fn->b), fn_cells_save(fn, nlive)};
  fn_jump(fn, to);
  vec_push(fn->arena, v, e);
}

static LoopCtx *loop_begin(Fn *fn, LLVMBasicBlockRef exit) {
  LoopCtx *l = ARENA_NEW(fn->arena, LoopCtx);
  l->break_to = exit;
  l->continue_to = fn_block(fn, "next");
  l->nlive = fn->live.n;
  l->nheap = fn->heap.n;
  vec_push(fn->arena, &fn->loops, l);
  return l;
}

/* Body's end and all continues meet; false when nothing gets there. */
static bool loop_meet(Fn *fn, LoopCtx *l) {
  (void)vec_pop(&fn->loops);
  if (!l->continues.n) {
    LLVMDeleteBasicBlock(l->continue_to);
    return !fn->dead;
  }
  if (!fn->dead) jump_to_edges(fn, l->continue_to, &l->continues, l->nlive);
  fn_merge(fn, l->continue_to, l->continues.at, l->continues.n, l->nlive);
  return true;
}

static void counted_loop(Fn *fn, const Stmt *s, const Dim *min, LLVMValueRef min_v,
                         LLVMValueRef end_v, bool runs, const Dim *offset) {
  Cg *cg = fn->cg;
  int64_t step = 1;
  if (s->loop.step && (!expr_const_int(fn->c, s->loop.step, &step) || step < 1)) {
    cg_error(cg, s->span, "the step of a loop must be a positive constant");
    return;
  }
  LLVMBasicBlockRef header = fn_block(fn, "loop"), exit = fn_block(fn, "done");
  LLVMValueRef anchor, guard = LLVMBuildICmp(fn->b, LLVMIntSLT, min_v, end_v, "");
  bool known;
  if (!runs && cg_known_bool(guard, &known)) {
    if (!known) {
      LLVMDeleteBasicBlock(header);
      LLVMDeleteBasicBlock(exit);
      return;
    }
    runs = true;
  }
  LLVMBasicBlockRef pre = LLVMGetInsertBlock(fn->b);
  LoopCtx *l = loop_begin(fn, exit);
  EdgeVec out = {0};
  if (runs) {
    anchor = LLVMBuildBr(fn->b, header);
  } else {
    anchor = LLVMBuildCondBr(fn->b, guard, header, exit);
    Edge e = {pre, fn_cells_save(fn, l->nlive)};
    vec_push(fn->arena, &out, e);
  }
  LLVMPositionBuilderAtEnd(fn->b, header);
  LLVMValueRef iv = LLVMBuildPhi(fn->b, cg->i64, s->loop.var->name);
  LLVMAddIncoming(iv, &min_v, &pre, 1);
  LoopPhis phis = loop_phis(fn, s->loop.body, pre);
  Scope *sc = fn_scope_push(fn, anchor);
  sc->min = min;
  sc->step = step;
  sc->header = header;
  sc->preheader = pre;
  if (offset) {
    /* The loop counts from 0; its variable is that plus offset. */
    Var *count = var_create(fn->c, s->loop.var->name, DT_I64);
    sc->var = count;
    fn_bind(fn, count, (Binding){.idx = iv, .level = fn->level});
    fn_bind(fn, s->loop.var,
            (Binding){.def = dim_add(fn->c, dim_var(fn->c, count), offset), .level = fn->level});
  } else {
    sc->var = s->loop.var;
    fn_bind(fn, s->loop.var, (Binding){.idx = iv, .level = fn->level});
  }
  fn_stmt(fn, s->loop.body);
  bool again = loop_meet(fn, l);
  if (again) {
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(fn->b);
    LLVMValueRef next = LLVMBuildAdd(fn->b, iv, cg_i64(cg, step), "");
    LLVMAddIncoming(iv, &next, &latch, 1);
    for (uint32_t i = 0; i < sc->derived.n; i++) {
      DerivedIv *d = &sc->derived.at[i];
      LLVMValueRef dn = d->coef ? LLVMBuildAdd(fn->b, d->phi, d->step, "")
                                : LLVMBuildGEP2(fn->b, cg->i8, d->phi, &d->step, 1, "");
      LLVMAddIncoming(d->phi, &dn, &latch, 1);
    }
    LLVMValueRef more = LLVMBuildICmp(fn->b, LLVMIntSLT, next, end_v, "");
    LLVMBuildCondBr(fn->b, more, header, exit);
    close_phis(fn, &phis, latch, l, NULL);
    Edge e = {latch, fn_cells_save(fn, l->nlive)};
    vec_push(fn->arena, &out, e);
  } else {
    close_phis(fn, &phis, NULL, l, NULL);
  }
  vec_each(Edge, e, &l->breaks) vec_push(fn->arena, &out, *e);
  fn_scope_pop(fn);
  fn_merge(fn, exit, out.at, out.n, l->nlive);
}

/* The Dim of a loop bound. One that reads memory is read now, once: it stands for a new variable,
 * as Dims are evaluated whenever and wherever they are needed. */
static const Dim *index_dim(Fn *fn, const Expr *e) {
  const Dim *d = dim_resolve(fn, expr_dim(fn->c, e));
  if (!dim_has_opaque(d)) return d;
  fn_memo_push(fn);
  Var *v = var_create(fn->c, "bound", DT_I64);
  fn_bind(fn, v, (Binding){.idx = dim_value(fn, d), .level = fn->level});
  fn_memo_pop(fn);
  return dim_var(fn->c, v);
}

/* The body as a function over a range, run by the runtime's threads. */
static void parallel_loop(Fn *fn, const Stmt *s) {
  Cg *cg = fn->cg;
  const Dim *extent = index_dim(fn, s->loop.extent), *min = index_dim(fn, s->loop.min);
  LLVMValueRef n = dim_value(fn, extent);
  LLVMTypeRef types[3] = {cg->ptr, cg->i64, cg->i64};
  Fn in = {.cg = cg, .c = fn->c, .arena = fn->arena, .f = fn->f, .v = fn->v, .parent = fn};
  char name[160];
  snprintf(name, sizeof name, "%.140s.parallel", fn->f->name);
  in.fn = LLVMAddFunction(cg->mod, name, cg_fn_type(cg->i32, types, 3, false));
  LLVMSetLinkage(in.fn, LLVMInternalLinkage);
  cg_fn_attrs(cg, in.fn, fn->v);
  in.b = LLVMCreateBuilderInContext(cg->lc);
  in.ctx = LLVMGetParam(in.fn, 0);
  in.promoted = fn->promoted;
  in.only_read = fn->only_read;
  in.streamed = fn->streamed;
  in.span = fn->span;
  map_init(&in.vars, fn->arena);
  in.entry = fn_block(&in, "entry");
  LLVMBasicBlockRef start = fn_block(&in, "");
  debug_function(&in, fn->f->name, s->span.file ? s->span : fn->span);
  LLVMPositionBuilderAtEnd(in.b, in.entry);
  in.entry_end = LLVMBuildBr(in.b, start);
  LLVMPositionBuilderAtEnd(in.b, start);
  fn_scope_push(&in, NULL);
  Var *first = var_create(fn->c, "begin", DT_I64);
  fn_bind(&in, first, (Binding){.idx = LLVMGetParam(in.fn, 1), .level = 0});
  const Dim *begin = dim_var(fn->c, first);
  counted_loop(&in, s, begin, LLVMGetParam(in.fn, 1), LLVMGetParam(in.fn, 2), true, min);
  streaming_end(&in);
  if (!in.dead) fn_return(&in, LLVMConstNull(cg->i32));
  LLVMDisposeBuilder(in.b);

  LLVMValueRef ctx = LLVMConstNull(cg->ptr);
  if (in.captured.n) {
    ctx = fn_alloca(fn, cg->i64, in.nslots, 8);
    vec_each(Captured, k, &in.captured) {
      LLVMValueRef off = cg_i64(cg, 8 * (int64_t)k->slot);
      LLVMValueRef p = LLVMBuildInBoundsGEP2(fn->b, cg->i8, ctx, &off, 1, "");
      LLVMSetAlignment(LLVMBuildStore(fn->b, k->value, p), 8);
    }
  }
  int64_t grain = attr_get_int(s->loop.annotations, "relaxc.grain", 1);
  LLVMTypeRef pt[4] = {cg->ptr, cg->ptr, cg->i64, cg->i64};
  LLVMTypeRef ft = cg_fn_type(cg->i32, pt, 4, false);
  LLVMValueRef args[4] = {in.fn, ctx, n, cg_i64(cg, grain)};
  LLVMValueRef f = cg_extern(cg, "rx_parallel_for", ft);
  fn_check_status(fn, LLVMBuildCall2(fn->b, ft, f, args, 4, ""));
  fn_wrote_memory(fn);
}

static void for_loop(Fn *fn, const Stmt *s) {
  int64_t min, extent;
  if (s->loop.kind == FOR_THREAD) {
    cg_error(fn->cg, s->span, "loop bound to '%s' can't be compiled for a CPU", s->loop.thread);
    return;
  }
  if (stmt_unrolls(fn->c, s, &min, &extent)) {
    for (int64_t i = 0; i < extent && !fn->dead; i++) {
      fn_bind(fn, s->loop.var, (Binding){.def = dim_const(fn->c, min + i)});
      fn_stmt(fn, s->loop.body);
    }
    return;
  }
  bool parallel = s->loop.kind == FOR_PARALLEL && fn->cg->target->threads && !fn->parent;
  if (parallel && !s->loop.step && !has_jump(s->loop.body)) {
    parallel_loop(fn, s);
    return;
  }
  const Dim *dmin = index_dim(fn, s->loop.min), *ext = index_dim(fn, s->loop.extent);
  LLVMValueRef min_v = dim_value(fn, dmin);
  LLVMValueRef end_v = dim_value(fn, dim_add(fn->c, dmin, ext));
  int64_t k;
  counted_loop(fn, s, dmin, min_v, end_v, dim_is_const(ext, &k) && k > 0, NULL);
}

static LLVMValueRef condition(Fn *fn, const Expr *e) {
  fn_memo_push(fn);
  LLVMValueRef c = fn_expr(fn, e);
  fn_memo_pop(fn);
  if (LLVMTypeOf(c) != fn->cg->i1)
    c = LLVMBuildICmp(fn->b, LLVMIntNE, c, LLVMConstNull(LLVMTypeOf(c)), "");
  return c;
}

static void while_loop(Fn *fn, const Stmt *s) {
  LLVMBasicBlockRef header = fn_block(fn, "while"), body = fn_block(fn, "body");
  LLVMBasicBlockRef exit = fn_block(fn, "done"), pre = LLVMGetInsertBlock(fn->b);
  LoopCtx *l = loop_begin(fn, exit);
  LLVMValueRef anchor = LLVMBuildBr(fn->b, header);
  LLVMPositionBuilderAtEnd(fn->b, header);
  LoopPhis phis = loop_phis(fn, s->while_.body, pre);
  fn_scope_push(fn, anchor);
  LLVMValueRef c = condition(fn, s->while_.cond);
  Edge leave = {LLVMGetInsertBlock(fn->b), fn_cells_save(fn, l->nlive)};
  LLVMBuildCondBr(fn->b, c, body, exit);
  LLVMPositionBuilderAtEnd(fn->b, body);
  fn_stmt(fn, s->while_.body);
  LLVMBasicBlockRef latch = NULL;
  if (loop_meet(fn, l)) {
    latch = LLVMGetInsertBlock(fn->b);
    fn_jump(fn, header);
  }
  close_phis(fn, &phis, latch, l, leave.cells);
  EdgeVec out = {0};
  vec_push(fn->arena, &out, leave);
  vec_each(Edge, e, &l->breaks) vec_push(fn->arena, &out, *e);
  fn_scope_pop(fn);
  fn_merge(fn, exit, out.at, out.n, l->nlive);
}

static bool find_loop(const Stmt *s, void *ctx) {
  bool *found = ctx;
  *found |= (s->kind == STMT_FOR && s->loop.kind != FOR_UNROLL) || s->kind == STMT_WHILE;
  return !*found;
}

static bool has_loop(const Stmt *s) {
  bool found = false;
  stmt_walk(s, find_loop, &found);
  return found;
}

static void if_stmt(Fn *fn, const Expr *cond, const Stmt *yes, const Stmt *no) {
  LLVMValueRef c = condition(fn, cond);
  bool known;
  if (cg_known_bool(c, &known)) {
    if (known)
      fn_stmt(fn, yes);
    else if (no)
      fn_stmt(fn, no);
    return;
  }
  uint32_t nlive = fn->live.n;
  LLVMBasicBlockRef then_ = fn_block(fn, "then"), end = fn_block(fn, "end");
  LLVMBasicBlockRef else_ = no ? fn_block(fn, "else") : end, from = LLVMGetInsertBlock(fn->b);
  LLVMValueRef br = LLVMBuildCondBr(fn->b, c, then_, else_);
  LLVMValueRef *before = fn_cells_save(fn, nlive);
  EdgeVec out = {0};
  for (int i = 0; i < 2; i++) {
    const Stmt *s = i ? no : yes;
    if (!s) {
      Edge e = {from, before};
      vec_push(fn->arena, &out, e);
      continue;
    }
    LLVMPositionBuilderAtEnd(fn->b, i ? else_ : then_);
    fn_cells_restore(fn, before, nlive);
    fn->dead = false;
    fn_scope_push(fn, br)->keeps = has_loop(s);
    fn_stmt(fn, s);
    fn_scope_pop(fn);
    if (!fn->dead) jump_to_edges(fn, end, &out, nlive);
  }
  fn_merge(fn, end, out.at, out.n, nlive);
}

/* ---- allocation ---- */

static void alloc_buffer(Fn *fn, const Buffer *b, Span span) {
  Cg *cg = fn->cg;
  Cells *k = map_getp(&fn->promoted, b);
  if (k) {
    k->v = ARENA_ARRAY(fn->arena, LLVMValueRef, k->n);
    for (uint32_t i = 0; i < k->n; i++) k->v[i] = LLVMConstNull(cg_reg_type(cg, b->dtype));
    vec_push(fn->arena, &fn->live, k);
    return;
  }
  const Dim *n = dim_const(fn->c, 1);
  if (b->strides) {
    for (uint32_t i = 0; i < b->ndim; i++) {
      const Dim *last = dim_sub(fn->c, expr_dim(fn->c, b->shape[i]), dim_const(fn->c, 1));
      n = dim_add(fn->c, n, dim_mul(fn->c, last, expr_dim(fn->c, b->strides[i])));
    }
  } else {
    for (uint32_t i = 0; i < b->ndim; i++) n = dim_mul(fn->c, n, expr_dim(fn->c, b->shape[i]));
  }
  if (b->elem_offset) n = dim_add(fn->c, n, expr_dim(fn->c, b->elem_offset));
  const Dim *bytes = dim_resolve(fn, dim_scale(fn->c, n, (int64_t)dtype_bytes(b->dtype)));
  int64_t size;
  if (dim_is_const(bytes, &size) && size <= MAX_STACK_BYTES) {
    Binding *old = map_getp(&fn->vars, b->data);
    if (old && old->val && LLVMIsAAllocaInst(old->val)) return; /* unrolled: the same again */
    LLVMValueRef p = fn_alloca(fn, cg->i8, size > 0 ? (uint64_t)size : 1, 64);
    fn_bind(fn, b->data, (Binding){.val = p, .level = 0});
    return;
  }
  LLVMValueRef p = cg_scratch_push(cg, fn->b, dim_value(fn, bytes));
  (void)span;
  LLVMValueRef null = LLVMBuildICmp(fn->b, LLVMIntEQ, p, LLVMConstNull(cg->ptr), "");
  LLVMBasicBlockRef bad = fn_block(fn, "nomem"), good = fn_block(fn, "");
  LLVMBuildCondBr(fn->b, null, bad, good);
  LLVMPositionBuilderAtEnd(fn->b, bad);
  if (!cg_has_runtime(cg)) cg_message(cg, fn->b, "out of memory", NULL, 0);
  fn_return(fn, cg_i32(cg, ST_MEMORY));
  LLVMPositionBuilderAtEnd(fn->b, good);
  vec_push(fn->arena, &fn->heap, p);
  fn_bind(fn, b->data, (Binding){.val = p, .level = fn->level});
}

static void decl_buffer(Fn *fn, const Stmt *s) {
  const Buffer *b = s->alloc.buf;
  Span span = s->span;
  bool bound = false;
  for (Fn *f = fn; f && !bound; f = f->parent) bound = map_hasp(&f->vars, b->data);
  if (s->alloc.data && (!bound || stmt_decl_data(s) != b->data))
    cg_error(fn->cg, span, "the memory that buffer '%s' is declared over can't be compiled",
             b->name);
  else if (!bound)
    alloc_buffer(fn, b, span);
}

/* ---- statements ---- */

static void let_stmt(Fn *fn, const Var *v, const Expr *e) {
  Cg *cg = fn->cg;
  if (dtype_is_sint(v->dtype) && fn_is_index(fn, e)) {
    const Dim *d = dim_resolve(fn, expr_dim(fn->c, e));
    if (!dim_has_opaque(d)) {
      fn_bind(fn, v, (Binding){.def = d, .level = fn->level});
      return;
    }
  }
  fn_memo_push(fn);
  LLVMValueRef x = fn_expr(fn, e);
  fn_memo_pop(fn);
  Binding b = {.val = x, .level = fn->level};
  if (dtype_is_sint(v->dtype) && v->dtype.lanes == 1) {
    if (LLVMIsAConstantInt(x)) {
      fn_bind(fn, v, (Binding){.def = dim_const(fn->c, LLVMConstIntGetSExtValue(x))});
      return;
    }
    b.idx = LLVMTypeOf(x) == cg->i64 ? x : LLVMBuildSExt(fn->b, x, cg->i64, "");
  } else if ((dtype_is_uint(v->dtype) || dtype_is_bool(v->dtype)) && v->dtype.lanes == 1) {
    b.idx = LLVMTypeOf(x) == cg->i64 ? x : LLVMBuildZExt(fn->b, x, cg->i64, "");
  }
  fn_bind(fn, v, b);
}

static void jump_stmt(Fn *fn, const Stmt *s) {
  if (!fn->loops.n) {
    cg_error(fn->cg, s->span, "'%s' outside a loop", s->kind == STMT_BREAK ? "break" : "continue");
    return;
  }
  LoopCtx *l = vec_last(&fn->loops);
  pop_heap(fn, l->nheap);
  if (s->kind == STMT_BREAK)
    jump_to_edges(fn, l->break_to, &l->breaks, l->nlive);
  else
    jump_to_edges(fn, l->continue_to, &l->continues, l->nlive);
  fn->dead = true;
}

static void return_stmt(Fn *fn, const Stmt *s) {
  if (s->ret && fn->ret) {
    fn_memo_push(fn);
    LLVMValueRef v = fn_expr(fn, s->ret);
    v = cg_convert(fn->cg, fn->b, fn->v, s->ret->dtype, fn->f->ret, v);
    fn_memo_pop(fn);
    LLVMBuildStore(fn->b, v, fn->ret);
  }
  if (fn->parent) {
    cg_error(fn->cg, s->span, "return inside a parallel loop");
    return;
  }
  fn_return(fn, LLVMConstNull(fn->cg->i32));
  fn->dead = true;
}

/* The first integer that e reads from a buffer, or NULL: what an assertion is mostly about. Looks
 * at *left nodes at most, as expressions share theirs. */
static const Expr *read_integer(const Expr *e, uint32_t *left) {
  if (!*left) return NULL;
  --*left;
  if (e->kind == EXPR_LOAD)
    return e->dtype.lanes == 1 && dtype_is_int(e->dtype) && !e->has_pred ? e : NULL;
  for (uint32_t i = 0; i < e->n; i++) {
    const Expr *r = read_integer(e->arg[i], left);
    if (r) return r;
  }
  return NULL;
}

static void assert_stmt(Fn *fn, const Stmt *s) {
  Cg *cg = fn->cg;
  bool known, index = s->assert_.kind && strcmp(s->assert_.kind, "IndexError") == 0;
  LLVMValueRef c = LLVMBuildNot(fn->b, condition(fn, s->assert_.cond), "");
  LLVMValueRef args[3] = {cg_string(cg, s->assert_.message ? s->assert_.message : "")};
  uint32_t left = 256;
  const Expr *read = index ? NULL : read_integer(s->assert_.cond, &left);
  if (!read || (cg_known_bool(c, &known) && !known)) {
    fn_fail_if(fn, c, index ? ST_INDEX : ST_MATCH, index ? "%s" : "assertion failed: %s", args, 1);
    return;
  }
  LLVMBasicBlockRef bad = fn_block(fn, "failed"), good = fn_block(fn, "");
  LLVMBuildCondBr(fn->b, c, bad, good);
  LLVMPositionBuilderAtEnd(fn->b, bad);
  Text t = {0};
  expr_print(&t, read);
  args[1] = cg_string(cg, text_cstr(&t));
  text_free(&t);
  fn_memo_push(fn);
  args[2] = cg_convert(cg, fn->b, fn->v, read->dtype, DT_I64, fn_expr(fn, read));
  fn_memo_pop(fn);
  cg_message(cg, fn->b, "assertion failed: %s (%s is %lld)", args, 3);
  fn_return(fn, cg_i32(cg, ST_MATCH));
  LLVMPositionBuilderAtEnd(fn->b, good);
}

void fn_stmt(Fn *fn, const Stmt *s) {
  if (fn->dead || fn->cg->failed) return;
  if (s->span.file) {
    fn->span = s->span;
    debug_at(fn, s->span);
  }
  switch (s->kind) {
  case STMT_SEQ: {
    uint32_t nlive = fn->live.n, nheap = fn->heap.n;
    for (uint32_t i = 0; i < s->seq.n; i++) fn_stmt(fn, s->seq.at[i]);
    if (!fn->dead) pop_heap(fn, nheap);
    fn->heap.n = nheap;
    fn->live.n = nlive;
    return;
  }
  case STMT_FOR: for_loop(fn, s); return;
  case STMT_BLOCK:
    cg_error(fn->cg, s->span, "a block can't be compiled in a function that says it is scheduled");
    return;
  case STMT_STORE: {
    fn_memo_push(fn);
    LLVMValueRef v = fn_expr(fn, s->store.value);
    DType want = dtype_lanes(s->store.buf->dtype, s->store.value->dtype.lanes);
    v = cg_convert(fn->cg, fn->b, fn->v, s->store.value->dtype, want, v);
    LLVMValueRef pred = s->store.pred ? fn_expr(fn, s->store.pred) : NULL;
    fn_store(fn, s->store.buf, s->store.idx, v, pred);
    fn_memo_pop(fn);
    return;
  }
  case STMT_LET: let_stmt(fn, s->let.var, s->let.value); return;
  case STMT_IF: if_stmt(fn, s->if_.cond, s->if_.then_, s->if_.else_); return;
  case STMT_WHILE: while_loop(fn, s); return;
  case STMT_BREAK:
  case STMT_CONTINUE: jump_stmt(fn, s); return;
  case STMT_ATTR:
    if (s->attr.body) fn_stmt(fn, s->attr.body);
    return;
  case STMT_ASSERT: assert_stmt(fn, s); return;
  case STMT_EVAL:
    fn_memo_push(fn);
    fn_expr(fn, s->eval);
    fn_memo_pop(fn);
    return;
  case STMT_ALLOC: alloc_buffer(fn, s->alloc.buf, s->span); return;
  case STMT_DECL: decl_buffer(fn, s); return;
  case STMT_RETURN: return_stmt(fn, s); return;
  case STMT_DEVICE:
    cg_error(fn->cg, s->span, "T.%s can't be compiled for a CPU", s->device.name);
    return;
  }
}
