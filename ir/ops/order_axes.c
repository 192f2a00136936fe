/* Orders of axes, with and without blocks: see order.h. */
#include "ir/ops/order.h"

#include <string.h>

#include "ir/base/text.h"
#include "ir/ops/layout.h"

bool order_is_plain(const AxisOrder *o) {
  for (uint32_t i = 0; i < o->n; i++)
    if (o->at[i] != i) return false;
  return true;
}

bool order_equal(const AxisOrder *a, const AxisOrder *b) {
  if (order_is_plain(a) || order_is_plain(b)) return order_is_plain(a) && order_is_plain(b);
  return a->n == b->n && memcmp(a->at, b->at, a->n) == 0 &&
         memcmp(a->inner, b->inner, a->n * sizeof *a->inner) == 0;
}

uint32_t order_place(const AxisOrder *o, uint32_t axis) {
  for (uint32_t i = 0; i < o->n; i++)
    if (o->at[i] == axis && !o->inner[i]) return i;
  return axis;
}

uint32_t order_rank(const AxisOrder *o) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < o->n; i++) n += !o->inner[i];
  return n;
}

int64_t order_block(const AxisOrder *o, uint32_t axis) {
  for (uint32_t i = 0; i < o->n; i++)
    if (o->at[i] == axis && o->inner[i]) return o->inner[i];
  return 0;
}

bool order_has_blocks(const AxisOrder *o) {
  return order_rank(o) < o->n;
}

void order_fit_blocks(Context *c, AxisOrder *o, const SInfo *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < o->n; i++) {
    if (o->inner[i]) {
      if (s->kind != SINFO_TENSOR || !s->dims || o->at[i] >= s->ndim) continue;
      const Expr *rest = expr_floormod(c, s->dims[o->at[i]], expr_i64(c, o->inner[i]));
      if (!expr_is_int(expr_simplify(c, rest), 0)) continue;
    }
    o->at[n] = o->at[i];
    o->inner[n++] = o->inner[i];
  }
  o->n = n;
}

bool order_of_letters(const char *from, const char *to, AxisOrder *out) {
  size_t rank = strlen(from);
  uint32_t outer = 0, inner = 0;
  *out = (AxisOrder){0};
  if (strcmp(from, to) == 0) return true;
  if (rank > ORDER_MAX) return false;
  for (char axis; *to; out->n++) {
    int32_t size = 0; /* stays when there is no axis */
    const char *p = layout_next(&to, &axis, &size) ? strchr(from, axis) : NULL;
    uint32_t *seen = size ? &inner : &outer;
    if (!p || out->n == ORDER_MAX || *seen & 1u << (p - from)) return false;
    *seen |= 1u << (p - from);
    out->at[out->n] = (uint8_t)(p - from);
    out->inner[out->n] = size;
  }
  return outer == (1u << rank) - 1;
}

char *order_letters(Arena *a, const char *from, const AxisOrder *o) {
  if (strlen(from) != order_rank(o)) return NULL;
  Text t = {0};
  for (uint32_t i = 0; i < o->n; i++) {
    char letter = from[o->at[i]];
    if (o->inner[i])
      text_printf(&t, "%d%c", o->inner[i], letter - 'A' + 'a');
    else
      text_printf(&t, "%c", letter);
  }
  char *s = arena_strndup(a, text_cstr(&t), t.n);
  text_free(&t);
  return s;
}
