/* The metadata section: constants that text cannot hold.
 *
 * metadata = tvm.ir.load_json("...") is a JSON graph of nodes {"type", "data"}; its root maps type
 * keys to lists of constants, each of which leads to an ffi.Tensor node with base64 data: a DLPack
 * dump (magic, device, ndim, dtype, shape, size, bytes; little endian). Everything is checked: the
 * text may come from anywhere.
 */
#include "frontend/script/sema.h"
#include <cjson/cJSON.h>

enum { MAX_NDIM = 64 };

/* The constants of one type key. */
typedef struct {
  const cJSON **items;
  ConstData **known; /* those read already */
  uint32_t n;
} MetaList;

struct Metadata {
  const Tree *literal;
  cJSON **nodes;
  uint32_t n;
  const cJSON *root; /* the array of key and value indices */
  StrMap lists;      /* type key -> MetaList */
};

static const char *string_of(const cJSON *object, const char *key) {
  const cJSON *x = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(x) ? x->valuestring : NULL;
}

static cJSON *node_at(const Metadata *m, const cJSON *index) {
  if (!cJSON_IsNumber(index) || index->valuedouble < 0 || index->valuedouble >= m->n) return NULL;
  return m->nodes[(uint32_t)index->valuedouble];
}

static const cJSON *data_of(const cJSON *node, const char *type) {
  const char *t = node ? string_of(node, "type") : NULL;
  return t && strcmp(t, type) == 0 ? cJSON_GetObjectItemCaseSensitive(node, "data") : NULL;
}

Metadata *metadata_read(Sema *s, const Tree *json) {
  cJSON *top = cJSON_ParseWithLength(json->str, json->n);
  Metadata *m = ARENA_NEW(s->arena, Metadata);
  m->literal = json;
  strmap_init(&m->lists, s->arena);
  const cJSON *nodes = top ? cJSON_GetObjectItemCaseSensitive(top, "nodes") : NULL;
  const cJSON *root = top ? cJSON_GetObjectItemCaseSensitive(top, "root_index") : NULL;
  s->json = top; /* released when the analysis ends */
  if (!cJSON_IsArray(nodes) || !cJSON_IsNumber(root)) {
    sema_error(s, json, "the metadata is no JSON graph with \"nodes\" and \"root_index\"");
    return m;
  }
  m->n = (uint32_t)cJSON_GetArraySize(nodes);
  m->nodes = ARENA_ARRAY(s->arena, cJSON *, m->n ? m->n : 1);
  uint32_t i = 0;
  for (cJSON *x = nodes->child; x && i < m->n; x = x->next) m->nodes[i++] = x;
  m->root = data_of(node_at(m, root), "ffi.Map");
  if (!cJSON_IsArray(m->root)) {
    sema_error(s, json, "the root of the metadata is no map");
    m->root = NULL;
  }
  return m;
}

void metadata_release(Sema *s) {
  cJSON_Delete(s->json);
}

/* ---- tensors ---- */

static int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Returns the number of bytes, or SIZE_MAX for what is no base64. */
static size_t base64_decode(const char *s, size_t n, unsigned char *out) {
  while (n && s[n - 1] == '=') n--;
  size_t k = 0;
  uint32_t bits = 0;
  int have = 0;
  for (size_t i = 0; i < n; i++) {
    int v = base64_value(s[i]);
    if (v < 0) return SIZE_MAX;
    bits = bits << 6 | (uint32_t)v;
    have += 6;
    if (have >= 8) {
      have -= 8;
      out[k++] = (unsigned char)(bits >> have);
    }
  }
  return k;
}

static uint64_t read_u64(const unsigned char *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static ConstData *read_tensor(Sema *s, const Tree *t, const char *text) {
  size_t n = strlen(text), at = 0;
  unsigned char *raw = arena_alloc(s->m->arena, n / 4 * 3 + 4);
  size_t size = base64_decode(text, n, raw);
  const char *why = "its base64 text is broken";
  if (size == SIZE_MAX) goto bad;
  why = "it is cut short";
  if (size < 32) goto bad;
  if (read_u64(raw) != 0xDD5E40F096B4A13Full) {
    why = "it does not start with the mark of a tensor";
    goto bad;
  }
  uint64_t ndim = read_u64(raw + 24) & 0xffffffff;
  DType d = {raw[28], raw[29], (uint16_t)(raw[30] | raw[31] << 8)};
  at = 32;
  if (ndim > MAX_NDIM) {
    why = "it has too many dims";
    goto bad;
  }
  if (size - at < ndim * 8 + 8) goto bad;
  DType again = DT_UNKNOWN;
  if (d.code == DTYPE_BOOL || (d.code == DTYPE_UINT && d.bits == 1)) d = DT_BOOL;
  if (d.lanes != 1 || d.bits % 8 || !dtype_parse(dtype_name(d), &again) || !dtype_eq(d, again)) {
    why = "its data type is unknown";
    goto bad;
  }
  int64_t dims[MAX_NDIM] = {0};
  uint64_t count = 1;
  for (uint64_t i = 0; i < ndim; i++) {
    uint64_t v = read_u64(raw + at);
    at += 8;
    dims[i] = (int64_t)v;
    if (v > INT32_MAX || (v && count > (uint64_t)INT64_MAX / 16 / v)) {
      why = "its shape is too large";
      goto bad;
    }
    count *= v;
  }
  uint64_t bytes = read_u64(raw + at);
  at += 8;
  if (bytes != count * dtype_bytes(d) || size - at < bytes) {
    why = "its shape and its size differ";
    goto bad;
  }
  return const_create(s->m, d, dims, (int32_t)ndim,
                      arena_dup(s->m->arena, raw + at, bytes ? (size_t)bytes : 1));
bad:
  sema_error(s, t, "this constant of the metadata cannot be read: %s", why);
  return NULL;
}

/* ---- references ---- */

/* The list under a type key, as an array; NULL when there is none. */
static MetaList *find_list(Sema *s, Metadata *m, const char *key) {
  void **at = strmap_at(&m->lists, key);
  if (*at) return *at;
  const cJSON *list = NULL;
  for (const cJSON *x = m->root->child; x && x->next; x = x->next->next) {
    const cJSON *k = data_of(node_at(m, x), "ffi.String");
    if (cJSON_IsString(k) && strcmp(k->valuestring, key) == 0)
      list = data_of(node_at(m, x->next), "ffi.Array");
  }
  if (!cJSON_IsArray(list)) return NULL;
  MetaList *l = ARENA_NEW(s->arena, MetaList);
  uint32_t n = (uint32_t)cJSON_GetArraySize(list);
  l->items = ARENA_ARRAY(s->arena, const cJSON *, n + 1);
  l->known = ARENA_ARRAY(s->arena, ConstData *, n + 1);
  for (const cJSON *x = list->child; x && l->n < n; x = x->next) l->items[l->n++] = x;
  *at = l;
  return l;
}

bool metadata_is_reference(Sema *s, const Tree *t) {
  if (!s->metadata || t->kind != TREE_SUBSCRIPT) return false;
  while (t->kind == TREE_SUBSCRIPT) t = t->a;
  return t->kind == TREE_NAME && strcmp(t->name, "metadata") == 0 &&
         !scope_find(&s->scope, t->name);
}

/* The entry that metadata[key][index] refers to, and where its constant is kept; NULL after an
 * error. */
static const cJSON *find_entry(Sema *s, const Tree *t, ConstData ***known) {
  Metadata *m = s->metadata;
  const Tree *inner = t->a;
  int64_t index = 0;
  if (inner->kind != TREE_SUBSCRIPT || inner->b->kind != TREE_STR ||
      !tree_const_int(t->b, &index) || index < 0) {
    sema_error(s, t, "expected metadata[\"ir.GenericConst\"][index]");
    return NULL;
  }
  if (!m->root) return NULL;
  const char *key = inner->b->str;
  MetaList *list = find_list(s, m, key);
  if (!list) {
    sema_error(s, inner->b, "the metadata has no '%s'", key);
    return NULL;
  }
  const cJSON *entry = index < list->n ? node_at(m, list->items[index]) : NULL;
  if (!entry)
    sema_error(s, t->b, "the metadata has %u entries under '%s'", list->n, key);
  else
    *known = &list->known[index];
  return entry;
}

/* The node in field `key` of an entry. */
static const cJSON *field_of(const Metadata *m, const cJSON *entry, const char *key) {
  const cJSON *fields = cJSON_GetObjectItemCaseSensitive(entry, "data");
  return node_at(m, cJSON_GetObjectItemCaseSensitive(fields, key));
}

ConstData *metadata_const(Sema *s, const Tree *t) {
  ConstData **known = NULL;
  const cJSON *entry = find_entry(s, t, &known);
  if (!entry || *known) return entry ? *known : NULL;
  const cJSON *text = data_of(entry, "ffi.Tensor");
  if (!text) {
    const cJSON *tensor = field_of(s->metadata, entry, "value");
    if (!tensor) tensor = field_of(s->metadata, entry, "data");
    text = tensor ? cJSON_GetObjectItemCaseSensitive(tensor, "data") : NULL;
  }
  if (cJSON_IsString(text)) return *known = read_tensor(s, t, text->valuestring);
  sema_error(s, t, "this entry of the metadata is no constant tensor");
  return NULL;
}

bool metadata_is_string(Sema *s, const Tree *t) {
  const Tree *key = t->a->kind == TREE_SUBSCRIPT ? t->a->b : NULL;
  return metadata_is_reference(s, t) && key && key->kind == TREE_STR &&
         (strcmp(key->str, "ir.StringImm") == 0 || strcmp(key->str, "ffi.String") == 0);
}

const char *metadata_string(Sema *s, const Tree *t) {
  ConstData **known = NULL;
  const cJSON *entry = find_entry(s, t, &known);
  if (!entry) return NULL;
  const cJSON *text = data_of(entry, "ffi.String");
  if (!text) text = data_of(field_of(s->metadata, entry, "value"), "ffi.String");
  if (cJSON_IsString(text))
    return strpool_intern(s->ctx->strings, text->valuestring, strlen(text->valuestring));
  sema_error(s, t, "this entry of the metadata is no string");
  return NULL;
}
