/* Running prim_funcs: steps, views of memory, calls.
 *
 * A block runs its init when every reduction axis is at its first value. When a loop of a reduction
 * has no iteration, the reduction over nothing is its init: the body is then walked once with
 * nothing but inits being run ("init_only").
 */
#include "ir/eval_impl.h"
#include <stdlib.h>
#include <string.h>

typedef enum { RUN_ON, RUN_BREAK, RUN_CONTINUE, RUN_RETURN, RUN_FAILED } Run;

/* ---- errors ---- */

void interp_fail(Interp *in, Span s, const char *fmt, ...) {
  if (in->failed) return;
  in->failed = true;
  Text t = {0};
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  diag_error(in->c->diags, s, "%s", text_cstr(&t));
  text_free(&t);
}

void machine_fail(Machine *m, const char *fmt, ...) {
  if (m->failed) return;
  m->failed = true;
  Text t = {0};
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  interp_fail(m->in, m->span, "%s%s%s%s", text_cstr(&t), m->code->f ? " (in '" : "",
              m->code->f ? m->code->f->name : "", m->code->f ? "')" : "");
  text_free(&t);
}

/* ---- running: views ---- */

static int64_t index_of(Machine *m, const Code *c) {
  machine_next(m);
  return EVAL_I(c);
}

/* Dims of a view whose memory is known elsewhere; false after an error. */
static bool view_dims(Machine *m, uint32_t at, int64_t *count) {
  const ViewCode *vc = &m->code->bufs.at[at];
  View *v = &m->views[at];
  *count = 1;
  for (uint32_t i = 0; i < vc->buf->ndim; i++) {
    int64_t n = index_of(m, vc->shape[i]);
    if (m->failed) return false;
    if (n < 0 || (n > 0 && *count > (INT64_C(1) << 40) / n)) {
      machine_fail(m, "buffer '%s' has a dim of %lld", vc->buf->name, (long long)n);
      return false;
    }
    v->shape[i] = n;
    *count *= n;
  }
  if (!vc->stride) return true;
  for (uint32_t i = 0; i < vc->buf->ndim; i++) v->stride[i] = index_of(m, vc->stride[i]);
  return !m->failed;
}

/* Fresh memory, filled with bytes that are NaN as floats: reading what was never written shows. */
static bool view_alloc(Machine *m, uint32_t at) {
  View *v = &m->views[at];
  const Buffer *b = m->code->bufs.at[at].buf;
  int64_t count;
  if (!view_dims(m, at, &count)) return false;
  size_t size = (size_t)count * dtype_bytes(b->dtype);
  if (!v->owned || v->room < size) {
    if (v->owned) free(v->data);
    v->data = xmalloc(size ? size : 1);
    v->room = size ? size : 1;
    v->owned = true;
  }
  memset(v->data, dtype_is_float(b->dtype) ? 0xff : 0, size);
  v->size = (int64_t)size;
  return true;
}

static bool view_decl(Machine *m, uint32_t at, uint32_t source) {
  View *v = &m->views[at];
  const ViewCode *vc = &m->code->bufs.at[at];
  const View *from = &m->views[source];
  int64_t count, off = 0;
  if (!view_dims(m, at, &count)) return false;
  if (vc->offset) off = index_of(m, vc->offset);
  int64_t bytes = (int64_t)dtype_bytes(dtype_scalar(vc->buf->dtype));
  if (off < 0 || off > from->size / bytes) {
    machine_fail(m, "buffer '%s' begins outside its memory", vc->buf->name);
    return false;
  }
  v->data = from->data + off * bytes;
  v->size = from->size - off * bytes;
  return !m->failed;
}

/* A window of a buffer: T.match_buffer in a block. */
static bool view_match(Machine *m, const MatchStep *ms) {
  View *v = &m->views[ms->view];
  const View *from = &m->views[ms->source];
  const Buffer *s = m->code->bufs.at[ms->source].buf;
  const ViewCode *vc = &m->code->bufs.at[ms->view];
  int64_t stride = 1, off = 0;
  uint32_t skip = s->ndim >= vc->buf->ndim ? s->ndim - vc->buf->ndim : 0;
  for (uint32_t d = s->ndim; d-- > 0;) {
    int64_t st = from->stride ? from->stride[d] : stride;
    off += index_of(m, ms->min[d]) * st;
    if (d >= skip) {
      v->stride[d - skip] = st;
      const Expr *e = vc->buf->strides ? vc->buf->strides[d - skip] : NULL;
      if (e && e->kind == EXPR_VAR) {
        uintptr_t slot = (uintptr_t)map_getp(&m->code->slots, e->var);
        if (slot) m->slots[slot - 1].i = st;
      }
    }
    stride *= from->shape[d];
  }
  if (m->failed) return false;
  const Expr *e = vc->buf->elem_offset;
  const Var *where = vc->buf->offset_var;
  if (e && e->kind == EXPR_VAR) where = e->var;
  if (where) {
    uintptr_t slot = (uintptr_t)map_getp(&m->code->slots, where);
    if (slot) m->slots[slot - 1].i = off;
  }
  for (uint32_t i = 0; i < vc->buf->ndim; i++) v->shape[i] = index_of(m, vc->shape[i]);
  int64_t bytes = (int64_t)dtype_bytes(dtype_scalar(vc->buf->dtype));
  if (off < 0 || off * bytes > from->size) {
    machine_fail(m, "buffer '%s' begins outside '%s'", vc->buf->name, s->name);
    return false;
  }
  v->data = from->data + off * bytes;
  v->size = from->size - off * bytes;
  return !m->failed;
}

/* ---- running: statements ---- */

static Run run_step(Machine *m, const Step *s);

static void store_slot(const Step *s, char *p, Slot v) {
  if (s->d.code == DTYPE_FLOAT && s->d.bits == 32) {
    float f = (float)v.f;
    memcpy(p, &f, sizeof f);
  } else if (dtype_is_float(s->d)) {
    dtype_store_double(s->d, p, v.f);
  } else {
    dtype_store_int(s->d, p, v.i);
  }
}

static Run run_store(Machine *m, const Step *s) {
  enum { MAX_LANES = 1024 };
  machine_next(m);
  if (s->lanes == 1) {
    if (s->access->pred && !EVAL_I(s->access->pred)) return m->failed ? RUN_FAILED : RUN_ON;
    Slot v = code_eval(m, s->x);
    char *p = access_at(m, s->access);
    if (!p || m->failed) return RUN_FAILED;
    store_slot(s, p, v);
    return RUN_ON;
  }
  if (s->lanes > MAX_LANES) {
    machine_fail(m, "a store of %u lanes", s->lanes);
    return RUN_FAILED;
  }
  /* Every lane is computed before the first is stored. */
  Slot v[MAX_LANES];
  char *p[MAX_LANES];
  for (uint32_t l = 0; l < s->lanes; l++) {
    m->lane = l;
    machine_next(m);
    bool off = s->access->pred && !EVAL_I(s->access->pred);
    p[l] = off ? NULL : access_at(m, s->access);
    if (p[l]) v[l] = code_eval(m, s->x);
    if (m->failed) break;
  }
  m->lane = 0;
  if (m->failed) return RUN_FAILED;
  for (uint32_t l = 0; l < s->lanes; l++)
    if (p[l]) store_slot(s, p[l], v[l]);
  return RUN_ON;
}

static Run run_let(Machine *m, const Step *s) {
  for (uint32_t l = 0; l < s->lanes; l++) {
    m->lane = l;
    machine_next(m);
    m->slots[s->slot + l] = code_eval(m, s->x);
  }
  m->lane = 0;
  return m->failed ? RUN_FAILED : RUN_ON;
}

static Run run_loop(Machine *m, const Step *s) {
  int64_t min = index_of(m, s->x), extent = index_of(m, s->y);
  int64_t step = s->z ? index_of(m, s->z) : 1;
  if (m->failed) return RUN_FAILED;
  if (step <= 0) {
    machine_fail(m, "a loop with step %lld", (long long)step);
    return RUN_FAILED;
  }
  if (s->feeds_init && (extent <= 0 || m->init_only)) {
    bool before = m->init_only;
    m->init_only = true;
    m->slots[s->slot].i = min;
    Run r = run_step(m, s->body);
    m->init_only = before;
    return r;
  }
  for (int64_t i = 0; i < extent; i += step) {
    m->slots[s->slot].i = dtype_wrap(s->d, (int64_t)((uint64_t)min + (uint64_t)i));
    Run r = run_step(m, s->body);
    if (r == RUN_ON || r == RUN_CONTINUE) continue;
    if (r == RUN_BREAK) break;
    return r;
  }
  return RUN_ON;
}

static Run run_block(Machine *m, const Step *s) {
  const BlockStep *b = s->block;
  for (uint32_t i = 0; i < b->niters; i++) {
    machine_next(m);
    const Code *c = m->init_only && b->fixed[i] ? b->fixed[i] : b->value[i];
    m->slots[b->slots[i]] = code_eval(m, c);
  }
  bool on = true, first = true;
  if (b->predicate) on = index_of(m, b->predicate);
  for (uint32_t i = 0; i < b->nchecks && first && !m->init_only; i++)
    first = m->slots[b->check_slots[i]].i == EVAL_I(b->check_min[i]);
  if (m->failed) return RUN_FAILED;
  if (!on) return RUN_ON;
  for (uint32_t i = 0; i < b->nallocs; i++)
    if (!view_alloc(m, b->allocs[i])) return RUN_FAILED;
  for (uint32_t i = 0; i < b->nmatches; i++)
    if (!view_match(m, &b->matches[i])) return RUN_FAILED;
  if (b->init && first) {
    bool before = m->init_only;
    m->init_only = false;
    Run r = run_step(m, b->init);
    m->init_only = before;
    if (r != RUN_ON) return r;
  }
  if (m->init_only && b->init) return RUN_ON;
  return run_step(m, b->body);
}

bool call_run(Machine *m, const CallStep *q, Value *ret) {
  Arena *a = m->in->arena;
  Value **args = ARENA_ARRAY(a, Value *, q->n);
  for (uint32_t i = 0; i < q->n; i++) {
    Value *v = ARENA_NEW(a, Value);
    if (q->scalars[i]) {
      Slot x = code_eval(m, q->scalars[i]);
      v->kind = VALUE_PRIM;
      v->dtype = q->scalars[i]->d;
      if (dtype_is_float(v->dtype))
        v->f = x.f;
      else
        v->i = x.i;
    } else {
      const View *w = &m->views[q->views[i]];
      const Buffer *b = m->code->bufs.at[q->views[i]].buf;
      v->kind = VALUE_TENSOR;
      v->dtype = b->dtype;
      v->ndim = (int32_t)b->ndim;
      v->dims = w->shape;
      v->data = w->data;
    }
    args[i] = v;
  }
  bool ok = !m->failed && prim_run(m->in, q->callee, args, q->n, NULL, m->span, ret);
  if (!ok) m->failed = true;
  return ok;
}

static Run run_eval(Machine *m, const Step *s) {
  if (s->call) {
    machine_next(m);
    return call_run(m, s->call, NULL) ? RUN_ON : RUN_FAILED;
  }
  if (!s->x) return RUN_ON;
  for (uint32_t l = 0; l < s->lanes; l++) {
    m->lane = l;
    machine_next(m);
    (void)code_eval(m, s->x);
  }
  m->lane = 0;
  return m->failed ? RUN_FAILED : RUN_ON;
}

static Run run_while(Machine *m, const Step *s) {
  for (;;) {
    machine_next(m);
    bool on = EVAL_I(s->x);
    if (m->failed) return RUN_FAILED;
    if (!on) return RUN_ON;
    Run r = run_step(m, s->body);
    if (r == RUN_BREAK) return RUN_ON;
    if (r == RUN_RETURN || r == RUN_FAILED) return r;
  }
}

static Run run_step(Machine *m, const Step *s) {
  if (s->span.file) m->span = s->span;
  switch (s->kind) {
  case STMT_SEQ:
    for (uint32_t i = 0; i < s->n; i++) {
      Run r = run_step(m, s->at[i]);
      if (r != RUN_ON) return r;
    }
    return RUN_ON;
  case STMT_FOR: return run_loop(m, s);
  case STMT_BLOCK: return run_block(m, s);
  case STMT_STORE: return m->init_only ? RUN_ON : run_store(m, s);
  case STMT_LET: return run_let(m, s);
  case STMT_IF: {
    bool on = index_of(m, s->x);
    if (m->failed) return RUN_FAILED;
    if (on) return run_step(m, s->body);
    return s->other ? run_step(m, s->other) : RUN_ON;
  }
  case STMT_WHILE: return m->init_only ? RUN_ON : run_while(m, s);
  case STMT_BREAK: return RUN_BREAK;
  case STMT_CONTINUE: return RUN_CONTINUE;
  case STMT_ATTR: return s->body ? run_step(m, s->body) : RUN_ON;
  case STMT_ASSERT:
    if (m->init_only) return RUN_ON;
    if (!index_of(m, s->x) && !m->failed)
      machine_fail(m, "assertion failed: %s", s->message ? s->message : "");
    return m->failed ? RUN_FAILED : RUN_ON;
  case STMT_EVAL: return m->init_only ? RUN_ON : run_eval(m, s);
  case STMT_ALLOC: return view_alloc(m, s->slot) ? RUN_ON : RUN_FAILED;
  case STMT_DECL: return view_decl(m, s->slot, s->source) ? RUN_ON : RUN_FAILED;
  case STMT_RETURN:
    machine_next(m);
    if (s->x) m->ret = code_eval(m, s->x);
    return m->failed ? RUN_FAILED : RUN_RETURN;
  case STMT_DEVICE: break;
  }
  bug("statement kind %d", (int)s->kind);
}

/* ---- calls ---- */

static void set_slot(Machine *m, const Var *v, const Value *x) {
  uintptr_t at = (uintptr_t)map_getp(&m->code->slots, v);
  if (!at) return;
  if (dtype_is_float(v->dtype))
    m->slots[at - 1].f = dtype_is_float(x->dtype) ? x->f : (double)x->i;
  else
    m->slots[at - 1].i = dtype_wrap(v->dtype, dtype_is_float(x->dtype) ? (int64_t)x->f : x->i);
}

static bool bind_params(Machine *m, Value *const *params, Map *known) {
  const PrimFunc *f = m->code->f;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    const Value *v = params[i];
    if (!b) {
      if (v->kind == VALUE_TENSOR && v->ndim == 0) {
        Value s = {.kind = VALUE_PRIM, .dtype = v->dtype};
        if (dtype_is_float(v->dtype))
          s.f = dtype_load_double(v->dtype, v->data);
        else
          s.i = dtype_load_int(v->dtype, v->data);
        set_slot(m, f->params[i], &s);
      } else if (v->kind == VALUE_PRIM) {
        set_slot(m, f->params[i], v);
      } else {
        machine_fail(m, "parameter '%s' of '%s' takes a scalar", f->params[i]->name, f->name);
        return false;
      }
      map_setp(known, f->params[i], known);
      continue;
    }
    if (v->kind != VALUE_TENSOR || v->ndim != (int32_t)b->ndim || !dtype_eq(v->dtype, b->dtype)) {
      machine_fail(m, "parameter '%s' of '%s' takes a tensor of %u dims and type %s", b->name,
                   f->name, b->ndim, dtype_name(b->dtype));
      return false;
    }
  }
  return true;
}

/* Dims that are bare variables take the tensor's; then every dim is compared. */
static bool bind_shapes(Machine *m, Value *const *params, Map *known) {
  const PrimFunc *f = m->code->f;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    for (uint32_t d = 0; b && d < b->ndim; d++) {
      const Expr *e = b->shape[d];
      if (e->kind != EXPR_VAR || map_hasp(known, e->var)) continue;
      set_slot(m, e->var, &(Value){.dtype = DT_I64, .i = params[i]->dims[d]});
      map_setp(known, e->var, known);
    }
  }
  return true;
}

static bool bind_free(Machine *m, const Map *known, const Map *env) {
  for (uint32_t i = 0; i < m->code->free.n; i++) {
    const Var *v = m->code->free.at[i];
    if (map_hasp(known, v)) continue;
    const Value *x = env ? map_getp(env, v) : NULL;
    if (!x) {
      machine_fail(m, "variable '%s' of '%s' has no value", v->name, m->code->f->name);
      return false;
    }
    set_slot(m, v, x);
  }
  return true;
}

static bool bind_views(Machine *m, Value *const *params, const Map *known) {
  const PrimFunc *f = m->code->f;
  uint32_t at = 0;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    if (!b) continue;
    View *v = &m->views[at];
    const Value *x = params[i];
    int64_t count = 1, stride = 1;
    for (uint32_t d = b->ndim; d-- > 0;) { /* strides without a value are the compact ones */
      const Expr *e = b->strides ? b->strides[d] : NULL;
      if (e && e->kind == EXPR_VAR && !map_hasp(known, e->var))
        set_slot(m, e->var, &(Value){.dtype = DT_I64, .i = stride});
      stride *= x->dims[d];
    }
    if (!view_dims(m, at, &count)) return false;
    for (uint32_t d = 0; d < b->ndim; d++)
      if (v->shape[d] != x->dims[d]) {
        machine_fail(m, "dim %u of parameter '%s' of '%s' is %lld but %lld is expected", d, b->name,
                     f->name, (long long)x->dims[d], (long long)v->shape[d]);
        return false;
      }
    v->data = x->data;
    v->size = count * (int64_t)dtype_bytes(b->dtype);
    at++;
  }
  return true;
}

bool prim_run(Interp *in, const PrimFunc *f, Value *const *params, uint32_t n, const Map *env,
              Span span, Value *ret) {
  const PrimCode *code = prim_compile(in, f);
  if (!code) return false;
  if (n != f->nparams) {
    interp_fail(in, span, "'%s' takes %u arguments but got %u", f->name, f->nparams, n);
    return false;
  }
  if (!interp_enter(in, span)) return false;
  Arena *a = arena_create();
  Machine m = {.in = in, .code = code, .span = span};
  m.slots = ARENA_ARRAY(a, Slot, code->nslots + 1);
  m.views = ARENA_ARRAY(a, View, code->bufs.n + 1);
  m.memos = ARENA_ARRAY(a, Memo, code->nmemos + 1);
  for (uint32_t i = 0; i < code->bufs.n; i++) {
    const Buffer *b = code->bufs.at[i].buf;
    m.views[i].shape = ARENA_ARRAY(a, int64_t, b->ndim);
    m.views[i].stride = ARENA_ARRAY(a, int64_t, b->ndim);
  }
  machine_next(&m);
  Map known;
  map_init(&known, a);
  bool ok = bind_params(&m, params, &known) && bind_shapes(&m, params, &known) &&
            bind_free(&m, &known, env);
  /* Compact views have no strides; a window always has. */
  for (uint32_t i = 0; i < code->bufs.n; i++)
    if (!code->bufs.at[i].stride && !code->bufs.at[i].is_window) m.views[i].stride = NULL;
  ok = ok && bind_views(&m, params, &known);
  if (ok && code->body) ok = run_step(&m, code->body) != RUN_FAILED && !m.failed;
  if (ok && ret) {
    *ret = (Value){.kind = dtype_known(f->ret) ? VALUE_PRIM : VALUE_NONE, .dtype = f->ret};
    if (dtype_is_float(f->ret))
      ret->f = m.ret.f;
    else
      ret->i = m.ret.i;
  }
  for (uint32_t i = 0; i < code->bufs.n; i++)
    if (m.views[i].owned) free(m.views[i].data);
  arena_free(a);
  return ok;
}

bool scalar_eval(Interp *in, const Expr *e, const Map *env, Span span, Value *out) {
  Arena *a = arena_create();
  PrimCode code = {0};
  map_init(&code.slots, a);
  map_init(&code.views, a);
  Compiler k = {.in = in, .arena = a, .code = &code, .env = env, .span = span};
  const Code *c = compile_root(&k, e);
  bool ok = c != NULL;
  if (ok) {
    Machine m = {.in = in, .code = &code, .span = span};
    m.slots = ARENA_ARRAY(a, Slot, code.nslots + 1);
    m.memos = ARENA_ARRAY(a, Memo, code.nmemos + 1);
    machine_next(&m);
    Slot s = code_eval(&m, c);
    *out = (Value){.kind = VALUE_PRIM, .dtype = e->dtype};
    if (dtype_is_float(e->dtype))
      out->f = s.f;
    else
      out->i = s.i;
    ok = !m.failed;
  }
  arena_free(a);
  return ok;
}
