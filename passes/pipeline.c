/* Pipelines as text: "LegalizeOps, FuseOps(fuse_opt_level=2), DeadCodeElimination@main".
 *
 * Option values are JSON (read by cJSON), also None, True and False. Options are checked against
 * the pass table's text "name: type = default, ...".
 */
#include "passes/pipeline.h"
#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct {
  Context *c;
  const char *text, *at;
  bool failed;
} Reader;

static void skip_space(Reader *r) {
  while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n') r->at++;
}

static const char *read_word(Reader *r) {
  const char *begin = r->at;
  while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.') r->at++;
  return r->at > begin ? arena_strndup(r->c->arena, begin, (size_t)(r->at - begin)) : NULL;
}

static bool error_at(Reader *r, const char *expected) {
  diag_error(r->c->diags, SPAN_NONE, "in the pipeline \"%s\" at \"%.20s\": expected %s", r->text,
             r->at, expected);
  r->failed = true;
  return false;
}

/* ---- values ---- */

static const Attr *convert(Context *c, const cJSON *j, int depth) {
  Arena *a = c->arena;
  if (depth > 64) return NULL;
  if (cJSON_IsBool(j)) return attr_bool(a, cJSON_IsTrue(j));
  if (cJSON_IsString(j)) return attr_str(a, j->valuestring);
  if (cJSON_IsNumber(j)) {
    double v = j->valuedouble;
    bool whole = v == floor(v) && fabs(v) < 9007199254740992.0;
    return whole ? attr_int(a, (int64_t)v) : attr_float(a, v);
  }
  if (cJSON_IsObject(j)) {
    Attr *d = ARENA_NEW(a, Attr);
    d->kind = ATTR_DICT;
    const Attr *r = d;
    for (const cJSON *e = j->child; e; e = e->next) {
      const Attr *v = convert(c, e, depth + 1);
      if (!v) return NULL;
      r = attr_with(a, r, e->string, v);
    }
    return r;
  }
  Attr *l = ARENA_NEW(a, Attr);
  if (cJSON_IsNull(j)) return l; /* ATTR_NONE */
  const Attr **items = ARENA_ARRAY(a, const Attr *, cJSON_GetArraySize(j));
  l->kind = ATTR_LIST;
  l->items = items;
  for (const cJSON *e = j->child; e; e = e->next)
    if (!(items[l->n++] = convert(c, e, depth + 1))) return NULL;
  return l;
}

static const Attr *read_value(Reader *r) {
  static const struct {
    const char *word;
    AttrKind kind;
    bool b;
  } words[] = {{"None", ATTR_NONE, false}, {"True", ATTR_BOOL, true}, {"False", ATTR_BOOL, false}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i].word);
    if (strncmp(r->at, words[i].word, n) != 0 || isalnum((unsigned char)r->at[n])) continue;
    Attr *v = ARENA_NEW(r->c->arena, Attr);
    v->kind = words[i].kind;
    if (v->kind == ATTR_BOOL) v->b = words[i].b;
    r->at += n;
    return v;
  }
  const char *end;
  cJSON *j = cJSON_ParseWithOpts(r->at, &end, 0);
  const Attr *v = j ? convert(r->c, j, 0) : NULL;
  cJSON_Delete(j);
  if (v)
    r->at = end;
  else
    error_at(r, "a JSON value");
  return v;
}

/* ---- options ---- */

static bool has_type(const Attr *v, const char *type, size_t n) {
  static const struct {
    const char *name;
    AttrKind kind;
  } types[] = {{"int", ATTR_INT},   {"bool", ATTR_BOOL}, {"str", ATTR_STR},
               {"list", ATTR_LIST}, {"dict", ATTR_DICT}, {"float", ATTR_FLOAT}};
  if (v->kind == ATTR_NONE) return true;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i].name) == n && strncmp(types[i].name, type, n) == 0)
      return v->kind == types[i].kind || (types[i].kind == ATTR_FLOAT && v->kind == ATTR_INT) ||
             (types[i].kind == ATTR_BOOL && v->kind == ATTR_INT);
  return true; /* any */
}

static void check_option(Reader *r, const PassInfo *p, const char *name, const Attr *v) {
  const char *names[16];
  size_t n = 0;
  for (const char *s = p->options; *s;) {
    size_t len = strcspn(s, ":");
    const char *type = s + len;
    while (*type == ':' || *type == ' ') type++;
    if (strlen(name) == len && strncmp(s, name, len) == 0) {
      size_t tn = strcspn(type, " ,=");
      if (has_type(v, type, tn)) return;
      diag_error(r->c->diags, SPAN_NONE, "option '%s' of pass '%s' must be of type %.*s", name,
                 p->name, (int)tn, type);
      r->failed = true;
      return;
    }
    if (n < 16) names[n++] = arena_strndup(r->c->arena, s, len);
    while (*s && *s != ',') s++;
    while (*s == ',' || *s == ' ') s++;
  }
  const char *near = text_nearest(name, names, n);
  diag_error(r->c->diags, SPAN_NONE, "pass '%s' has no option '%s'%s%s%s", p->name, name,
             near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  r->failed = true;
}

static const Attr *read_options(Reader *r, const PassInfo *p) {
  const Attr *d = NULL;
  r->at++; /* ( */
  for (skip_space(r); *r->at != ')'; skip_space(r)) {
    const char *name = read_word(r);
    skip_space(r);
    if (!name || *r->at != '=') {
      error_at(r, "name=value or ')'");
      return NULL;
    }
    r->at++;
    skip_space(r);
    const Attr *v = read_value(r);
    if (!v) return NULL;
    if (p) check_option(r, p, name, v);
    if (attr_get(d, name)) {
      diag_error(r->c->diags, SPAN_NONE, "option '%s' of pass '%s' is given twice", name,
                 p ? p->name : "?");
      r->failed = true;
    }
    if (v->kind != ATTR_NONE) d = attr_with(r->c->arena, d, name, v);
    skip_space(r);
    if (*r->at == ',')
      r->at++;
    else if (*r->at != ')')
      return error_at(r, "',' or ')'") ? d : NULL;
  }
  r->at++;
  return d;
}

bool pipeline_parse(Context *c, const char *text, StepVec *out) {
  Reader r = {.c = c, .text = text, .at = text};
  skip_space(&r);
  while (*r.at) {
    Step s = {.pass = -1};
    const char *name = read_word(&r);
    if (!name) return error_at(&r, "the name of a pass");
    if (strncmp(name, "relax.transform.", 16) == 0) name += 16;
    s.pass = pass_find(name);
    if (s.pass < 0) {
      const char *names[PASS_COUNT];
      for (int i = 0; i < PASS_COUNT; i++) names[i] = pass_table[i].name;
      const char *near = text_nearest(name, names, PASS_COUNT);
      diag_error(c->diags, SPAN_NONE, "unknown pass '%s'%s%s%s", name,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
      r.failed = true;
    }
    if (*r.at == '@') {
      r.at++;
      s.func = read_word(&r);
      if (!s.func) return error_at(&r, "the name of a function after '@'");
    }
    if (*r.at == '(') s.options = read_options(&r, s.pass >= 0 ? &pass_table[s.pass] : NULL);
    if (*r.at == '@' && !s.func) {
      r.at++;
      s.func = read_word(&r);
    }
    if (s.pass >= 0) vec_push(c->arena, out, s);
    skip_space(&r);
    if (*r.at == ',') {
      r.at++;
      skip_space(&r);
      if (!*r.at) return error_at(&r, "the name of a pass");
    } else if (*r.at) {
      return r.failed ? false : error_at(&r, "',' between passes");
    }
  }
  return !r.failed;
}
