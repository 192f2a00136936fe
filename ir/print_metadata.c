/* The metadata section: constants that R.const(v, dtype) can't write, as a JSON object graph.
 *
 * `{"root_index": r, "nodes": [...]}` with the nodes before their users; a node is
 * {"type": T, "data": D}. The root maps a key to the array of its entries: constants and bare
 * tensors of attributes. A constant holds its type (shape, dtype) and its data, base64 of a header
 * of 24 + 8 * ndim + 8 bytes and the raw elements, little endian. The JSON stands in a Python
 * string, so every '"' is written '\"'.
 */
#include "ir/print_impl.h"
#include <stdlib.h>

bool print_const_is_meta(const ConstData *k) {
  if (k->ndim > 0) return true;
  DType d = k->dtype;
  switch (d.code) {
  case DTYPE_BOOL: return d.bits != 8;
  case DTYPE_INT: return d.bits != 8 && d.bits != 16 && d.bits != 32 && d.bits != 64;
  case DTYPE_FLOAT: return d.bits != 16 && d.bits != 32 && d.bits != 64;
  default: return true;
  }
}

/* ---- base64, in pieces ---- */

typedef struct {
  Text *t;
  uint32_t acc;
  int n; /* bytes in acc */
} Base64;

static void base64_put(Base64 *b, const void *p, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *s = p;
  for (size_t i = 0; i < n; i++) {
    b->acc = b->acc << 8 | s[i];
    if (++b->n < 3) continue;
    const char four[4] = {digits[b->acc >> 18 & 63], digits[b->acc >> 12 & 63],
                          digits[b->acc >> 6 & 63], digits[b->acc & 63]};
    text_putn(b->t, four, 4);
    b->acc = 0;
    b->n = 0;
  }
}

static void base64_end(Base64 *b) {
  int n = b->n;
  if (n == 0) return;
  const unsigned char zero[2] = {0, 0};
  base64_put(b, zero, (size_t)(3 - n));
  for (int i = 0; i < 3 - n; i++) b->t->s[b->t->n - 1 - (size_t)i] = '=';
}

static void base64_le(Base64 *b, uint64_t v, int bytes) {
  unsigned char s[8];
  for (int i = 0; i < bytes; i++) s[i] = (unsigned char)(v >> (8 * i));
  base64_put(b, s, (size_t)bytes);
}

static void put_tensor(Text *t, const ConstData *k) {
  Base64 b = {.t = t};
  base64_le(&b, UINT64_C(0xDD5E40F096B4A13F), 8);
  base64_le(&b, 0, 8);
  base64_le(&b, 1, 4); /* device: cpu 0 */
  base64_le(&b, 0, 4);
  base64_le(&b, (uint32_t)k->ndim, 4);
  base64_le(&b, k->dtype.code, 1);
  base64_le(&b, k->dtype.bits, 1);
  base64_le(&b, k->dtype.lanes, 2);
  for (int32_t i = 0; i < k->ndim; i++) base64_le(&b, (uint64_t)k->dims[i], 8);
  base64_le(&b, k->size, 8);
  base64_put(&b, k->bytes, k->size);
  base64_end(&b);
}

/* ---- the graph ---- */

typedef struct {
  Text *t;
  uint32_t n; /* nodes so far */
} Graph;

/* Begins node `n`, returns its index; the caller writes the data and "}". */
static uint32_t node_begin(Graph *g, const char *type) {
  text_printf(g->t, "%s    {\\\"type\\\": \\\"%s\\\"", g->n ? ",\n" : "", type);
  return g->n++;
}

static uint32_t node_int(Graph *g, int64_t v) {
  uint32_t i = node_begin(g, "int");
  text_printf(g->t, ", \\\"data\\\": %lld}", (long long)v);
  return i;
}

static uint32_t node_prim_type(Graph *g, uint32_t none, DType d) {
  uint32_t i = node_begin(g, "ir.PrimType");
  text_printf(g->t, ", \\\"data\\\": {\\\"span\\\": %u, \\\"dtype\\\": \\\"%s\\\"}}", none,
              dtype_name(d));
  return i;
}

static uint32_t node_tensor(Graph *g, const ConstData *k) {
  uint32_t i = node_begin(g, "ffi.Tensor");
  text_puts(g->t, ", \\\"data\\\": \\\"");
  put_tensor(g->t, k);
  text_puts(g->t, "\\\"}");
  return i;
}

static void put_indices(Text *t, uint32_t first, uint32_t step, uint32_t n) {
  text_putc(t, '[');
  for (uint32_t i = 0; i < n; i++) text_printf(t, i ? ", %u" : "%u", first + i * step);
  text_putc(t, ']');
}

/* Returns the index of the constant's node. */
static uint32_t put_const(Graph *g, const ConstData *k, uint32_t none, uint32_t int64_type,
                          const char *type) {
  Text *t = g->t;
  uint32_t n = (uint32_t)k->ndim, first = g->n;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t value = node_int(g, k->dims[i]);
    node_begin(g, "ir.IntImm");
    text_printf(t, ", \\\"data\\\": {\\\"span\\\": %u, \\\"ty\\\": %u, \\\"value\\\": %u}}", none,
                int64_type, value);
  }
  uint32_t values = node_begin(g, "ffi.Array");
  text_puts(t, ", \\\"data\\\": ");
  put_indices(t, first + 1, 2, n);
  text_putc(t, '}');
  uint32_t shape_type = node_begin(g, "relax.ShapeType");
  text_printf(t, ", \\\"data\\\": {\\\"span\\\": %u, \\\"values\\\": %u, \\\"ndim\\\": %u}}", none,
              values, n);
  uint32_t shape = node_begin(g, "relax.expr.ShapeExpr");
  text_printf(t, ", \\\"data\\\": {\\\"span\\\": %u, \\\"ty\\\": %u, \\\"values\\\": %u}}", none,
              shape_type, values);
  uint32_t dtype = node_prim_type(g, none, k->dtype);
  uint32_t ty = node_begin(g, "relax.TensorType");
  text_printf(t,
              ", \\\"data\\\": {\\\"span\\\": %u, \\\"shape\\\": %u, \\\"dtype\\\": %u, "
              "\\\"vdevice\\\": %u, \\\"ndim\\\": %u}}",
              none, shape, dtype, none, n);
  uint32_t value = node_tensor(g, k);
  uint32_t self = node_begin(g, type);
  text_printf(t, ", \\\"data\\\": {\\\"span\\\": %u, \\\"ty\\\": %u, \\\"%s\\\": %u}}", none, ty,
              strcmp(type, "ir.GenericConst") == 0 ? "value" : "data", value);
  return self;
}

static const char *meta_key(Dialect d, MetaKind kind) {
  if (kind == META_TENSOR) return d == DIALECT_TODAY ? "ffi.Tensor" : "runtime.NDArray";
  return d == DIALECT_TODAY ? "ir.GenericConst" : "relax.expr.Constant";
}

void print_meta_ref(Printer *p, MetaList *list, MetaKind kind, const ConstData *k) {
  uint64_t key = (uint64_t)k->id + 1;
  uintptr_t at = (uintptr_t)(p->arena ? map_get(&list->index, key) : NULL);
  if (!at && p->arena) {
    vec_push(p->arena, &list->at, k);
    at = list->at.n;
    map_set(&list->index, key, (void *)at);
  }
  text_printf(p->t, "metadata[\"%s\"][%zu]", meta_key(p->d, kind), at ? (size_t)at - 1 : 0);
}

/* A key and the array of its entries, as an entry of the root map. */
static void put_entry(Graph *g, Text *root, const char *key, const uint32_t *index, uint32_t n) {
  uint32_t name = node_begin(g, "ffi.String");
  text_printf(g->t, ", \\\"data\\\": \\\"%s\\\"}", key);
  uint32_t list = node_begin(g, "ffi.Array");
  text_puts(g->t, ", \\\"data\\\": [");
  for (uint32_t i = 0; i < n; i++) text_printf(g->t, i ? ", %u" : "%u", index[i]);
  text_puts(g->t, "]}");
  text_printf(root, root->n ? ", %u, %u" : "%u, %u", name, list);
}

void print_metadata(Text *t, const Printer *p) {
  const MetaList *consts = &p->consts, *tensors = &p->tensors;
  Text nodes = {0}, entries = {0};
  Graph g = {.t = &nodes};
  uint32_t *index = xmalloc((consts->at.n + tensors->at.n + 1) * sizeof *index);
  uint32_t none = node_begin(&g, "None");
  text_putc(&nodes, '}');
  if (tensors->at.n) {
    for (uint32_t i = 0; i < tensors->at.n; i++) index[i] = node_tensor(&g, tensors->at.at[i]);
    put_entry(&g, &entries, meta_key(p->d, META_TENSOR), index, tensors->at.n);
  }
  if (consts->at.n) {
    const char *type = meta_key(p->d, META_CONST);
    uint32_t int64_type = node_prim_type(&g, none, DT_I64);
    for (uint32_t i = 0; i < consts->at.n; i++)
      index[i] = put_const(&g, consts->at.at[i], none, int64_type, type);
    put_entry(&g, &entries, type, index, consts->at.n);
  }
  uint32_t root = node_begin(&g, "ffi.Map");
  text_printf(&nodes, ", \\\"data\\\": [%s]}", text_cstr(&entries));
  text_printf(t,
              "metadata = tvm.ir.load_json(\"\"\"{\n  \\\"root_index\\\": %u,\n"
              "  \\\"nodes\\\": [\n",
              root);
  text_putn(t, nodes.s, nodes.n);
  text_printf(t, "\n  ],\n  \\\"metadata\\\": {\\\"tvm_version\\\": \\\"%s\\\"}\n}\"\"\")\n",
              p->d == DIALECT_TODAY ? "0.27.0" : "0.20.0");
  text_free(&nodes);
  text_free(&entries);
  free(index);
}
