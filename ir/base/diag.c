/* Diagnostics: what is counted, dropped and repeated, and the three output formats.
 *
 * Text is written as it comes. JSON (the shape of GCC's -fdiagnostics-format=json) and SARIF 2.1.0
 * are documents, so messages are kept and written by diags_finish. The rendering of the source line
 * is in snippet.c.
 */
#include "ir/base/diag.h"
#include "ir/base/map.h"
#include "ir/base/snippet.h"
#include "ir/base/vec.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  DiagLevel level;  /* after -Werror */
  const char *flag; /* without -W, or NULL */
  Span span;
  const char *message; /* clean */
  const char *rule;    /* in brackets at its end, "R8"; or NULL */
} Record;

struct Diags {
  Arena *arena;
  const SourceMap *sources;
  DiagOptions options;
  Text *out;     /* NULL: stderr */
  Text *remarks; /* where remarks go, as text; NULL: with the others */
  StrMap seen;
  bool off[WARN_COUNT];
  VEC(Record) records; /* JSON and SARIF only */
  uint32_t errors, warnings;
  bool mute_notes; /* the message they'd explain was dropped */
  bool cut;        /* an error beyond the limit came */
};

static const struct {
  const char *name;
  bool on;
  const char *help;
} warnings[] = {
#define WARNING(id, name, on, help) {name, on, help},
#include "ir/base/warnings.def"
#undef WARNING
};

const char *warning_name(Warning w) {
  return warnings[w].name;
}
const char *warning_help(Warning w) {
  return warnings[w].help;
}
bool warning_default(Warning w) {
  return warnings[w].on;
}

Diags *diags_create(Arena *a, const SourceMap *sources) {
  Diags *d = ARENA_NEW(a, Diags);
  d->arena = a;
  d->sources = sources;
  strmap_init(&d->seen, a);
  for (int w = 0; w < WARN_COUNT; w++) d->off[w] = !warnings[w].on;
  return d;
}

void diags_set_options(Diags *d, DiagOptions o) {
  d->options = o;
}
void diags_set_text(Diags *d, Text *t) {
  d->out = t;
}
void diags_set_remarks(Diags *d, Text *t) {
  d->remarks = t;
}
Text *diags_remarks(const Diags *d) {
  return d->remarks;
}
void diags_enable(Diags *d, Warning w, bool on) {
  d->off[w] = !on;
}
uint32_t diags_errors(const Diags *d) {
  return d->errors;
}
bool diags_full(const Diags *d) {
  return d->options.error_limit && d->errors >= d->options.error_limit;
}

static void emit(Diags *d, Text *t) {
  if (d->out)
    text_putn(d->out, text_cstr(t), t->n);
  else
    fwrite(text_cstr(t), 1, t->n, stderr); /* nowhere is left to report a failure to */
  text_free(t);
}

static const char *const level_names[] = {"note", "remark", "warning", "error"};
static const char *const level_colors[] = {"\033[0;1;36m", "\033[0;1;34m", "\033[0;1;35m",
                                           "\033[0;1;31m"};

static void print_text(Diags *d, const Record *r) {
  Text t = {0};
  bool apart = r->level == DIAG_REMARK && d->remarks, color = d->options.color && !apart;
  const SourceFile *f = sources_file(d->sources, r->span.file);
  if (color) text_puts(&t, "\033[1m");
  if (f) {
    uint32_t line, col;
    sources_position(f, r->span.begin, &line, &col);
    text_put_clean(&t, f->name, strlen(f->name));
    text_printf(&t, ":%u:%u: ", line, col);
  } else {
    text_puts(&t, "relaxc: ");
  }
  if (color) text_puts(&t, level_colors[r->level]);
  text_printf(&t, "%s: ", level_names[r->level]);
  if (color) text_puts(&t, r->level == DIAG_NOTE ? "\033[0m" : "\033[0m\033[1m");
  text_puts(&t, r->message);
  if (r->flag) text_printf(&t, r->level == DIAG_ERROR ? " [-Werror,-W%s]" : " [-W%s]", r->flag);
  if (color) text_puts(&t, "\033[0m");
  text_putc(&t, '\n');
  if (f) snippet_print(&t, f, r->span, color);
  if (apart) {
    text_putn(d->remarks, text_cstr(&t), t.n);
    text_free(&t);
    return;
  }
  emit(d, &t);
}

/* True when this very message was given for this span before. */
static bool seen_before(Diags *d, const Record *r) {
  const char *key = arena_printf(d->arena, "%d:%u:%u:%u:%s", (int)r->level, r->span.file,
                                 r->span.begin, r->span.end, r->message);
  if (strmap_has(&d->seen, key)) return true;
  strmap_set(&d->seen, key, d);
  return false;
}

enum { MESSAGE_MAX = 4000 };

/* "R8" of "... [R8]". */
static const char *message_rule(Diags *d, const char *message) {
  size_t n = strlen(message);
  const char *open = strrchr(message, '[');
  if (!open || message[n - 1] != ']') return NULL;
  size_t length = (size_t)(message + n - 1 - (open + 1));
  if (length == 0 || length > 60 || open == message || open[1] == '-') return NULL;
  for (size_t i = 1; i <= length; i++)
    if (!isalnum((unsigned char)open[i]) && !strchr("._", open[i])) return NULL;
  return arena_strndup(d->arena, open + 1, length);
}

static void __attribute__((format(printf, 5, 0)))
diag_va(Diags *d, DiagLevel level, const char *flag, Span s, const char *fmt, va_list ap) {
  if (level == DIAG_NOTE && d->mute_notes) return;
  if (level == DIAG_WARNING && d->options.werror) level = DIAG_ERROR;
  Text raw = {0}, clean = {0};
  text_vprintf(&raw, fmt, ap);
  text_put_clean(&clean, text_cstr(&raw), raw.n);
  if (clean.n > MESSAGE_MAX) {
    clean.n = MESSAGE_MAX;
    text_puts(&clean, "...");
  }
  Record r = {level, flag, s, arena_strndup(d->arena, text_cstr(&clean), clean.n), NULL};
  r.rule = message_rule(d, r.message);
  text_free(&raw);
  text_free(&clean);
  if (level != DIAG_NOTE) {
    d->mute_notes = seen_before(d, &r);
    if (d->mute_notes) return;
    if (level == DIAG_ERROR && diags_full(d)) {
      d->cut = d->mute_notes = true;
      return;
    }
    if (level == DIAG_ERROR) d->errors++;
    if (level == DIAG_WARNING) d->warnings++;
  }
  if (d->options.format == DIAG_TEXT || (level == DIAG_REMARK && d->remarks))
    print_text(d, &r);
  else
    vec_push(d->arena, &d->records, r);
}

void diag(Diags *d, DiagLevel level, Span s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  diag_va(d, level, NULL, s, fmt, ap);
  va_end(ap);
}

void diag_warn(Diags *d, Warning w, Span s, const char *fmt, ...) {
  d->mute_notes = d->off[w];
  if (d->off[w]) return;
  va_list ap;
  va_start(ap, fmt);
  diag_va(d, DIAG_WARNING, warnings[w].name, s, fmt, ap);
  va_end(ap);
}

bool diags_warns(const Diags *d, Warning w) {
  return !d->off[w];
}

static void put_json_string(Text *t, const char *s) {
  Text clean = {0};
  text_put_clean(&clean, s, strlen(s));
  text_put_json(t, text_cstr(&clean));
  text_free(&clean);
}

static void put_json_place(Text *t, const SourceFile *f, const char *key, uint32_t offset) {
  uint32_t line, col;
  sources_position(f, offset, &line, &col);
  text_printf(t, "\"%s\": {\"file\": ", key);
  put_json_string(t, f->name);
  text_printf(t, ", \"line\": %u, \"column\": %u, \"display-column\": %u}", line, col,
              snippet_column(f, offset));
}

/* One message of the JSON form, without its closing brace: notes follow as children. */
static void put_json(Diags *d, Text *t, const Record *r) {
  const SourceFile *f = sources_file(d->sources, r->span.file);
  text_printf(t, "{\"kind\": \"%s\", \"message\": ", level_names[r->level]);
  put_json_string(t, r->message);
  if (r->flag) text_printf(t, ", \"option\": \"-W%s\"", r->flag);
  if (r->rule) text_printf(t, ", \"rule\": \"%s\"", r->rule);
  text_puts(t, ", \"locations\": [");
  if (f) {
    text_putc(t, '{');
    put_json_place(t, f, "caret", r->span.begin);
    if (r->span.end > r->span.begin) {
      text_puts(t, ", ");
      put_json_place(t, f, "finish", r->span.end - 1);
    }
    text_putc(t, '}');
  }
  text_puts(t, "]");
}

static void finish_json(Diags *d, Text *t) {
  uint32_t n = d->records.n;
  text_putc(t, '[');
  for (uint32_t i = 0; i < n;) {
    text_puts(t, i ? ",\n " : "");
    put_json(d, t, &d->records.at[i++]);
    text_puts(t, ", \"children\": [");
    for (bool first = true; i < n && d->records.at[i].level == DIAG_NOTE; first = false) {
      text_puts(t, first ? "" : ", ");
      put_json(d, t, &d->records.at[i++]);
      text_puts(t, ", \"children\": []}");
    }
    text_puts(t, "]}");
  }
  text_puts(t, "]\n");
}

/* A file name as the path of a URI reference (RFC 3986). */
static void put_uri(Text *t, const char *name) {
  text_putc(t, '"');
  for (const char *p = name; *p; p++) {
    unsigned char c = (unsigned char)*p;
    bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                 strchr("-._~/", c);
    if (plain)
      text_putc(t, *p);
    else
      text_printf(t, "%%%02X", c);
  }
  text_putc(t, '"');
}

static const char *sarif_rule(Diags *d, const Record *r) {
  return r->flag ? arena_printf(d->arena, "-W%s", r->flag) : r->rule;
}

static void put_sarif_location(Diags *d, Text *t, const Record *r, bool message) {
  const SourceFile *f = sources_file(d->sources, r->span.file);
  text_putc(t, '{');
  if (message) {
    text_puts(t, "\"message\": {\"text\": ");
    put_json_string(t, r->message);
    text_putc(t, '}');
  }
  if (f) {
    uint32_t end = r->span.end > r->span.begin ? r->span.end : r->span.begin;
    uint32_t line0, line1, col;
    sources_position(f, r->span.begin, &line0, &col);
    sources_position(f, end, &line1, &col);
    text_puts(t, message ? ", " : "");
    text_puts(t, "\"physicalLocation\": {\"artifactLocation\": {\"uri\": ");
    put_uri(t, f->name);
    text_printf(t,
                "}, \"region\": {\"startLine\": %u, \"startColumn\": %u, \"endLine\": %u, "
                "\"endColumn\": %u}}",
                line0, snippet_column(f, r->span.begin), line1, snippet_column(f, end));
  }
  text_putc(t, '}');
}

/* The rules that results refer to, each once: the warnings' options and what stands in brackets. */
static void put_sarif_rules(Diags *d, Text *t) {
  StrMap seen;
  strmap_init(&seen, d->arena);
  text_puts(t, ", \"rules\": [");
  for (uint32_t i = 0; i < d->records.n; i++) {
    const Record *r = &d->records.at[i];
    const char *id = sarif_rule(d, r);
    if (!id || r->level == DIAG_NOTE || strmap_has(&seen, id)) continue;
    text_printf(t, "%s{\"id\": \"%s\"", seen.n ? ", " : "", id);
    strmap_set(&seen, id, d);
    for (int w = 0; r->flag && w < WARN_COUNT; w++) {
      if (strcmp(warnings[w].name, r->flag) != 0) continue;
      text_puts(t, ", \"shortDescription\": {\"text\": ");
      put_json_string(t, warnings[w].help);
      text_putc(t, '}');
    }
    text_putc(t, '}');
  }
  text_putc(t, ']');
}

static void finish_sarif(Diags *d, Text *t) {
  uint32_t n = d->records.n;
  text_puts(t, "{\"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\", "
               "\"version\": \"2.1.0\", \"runs\": [{\"tool\": {\"driver\": {\"name\": "
               "\"relaxc\"");
  put_sarif_rules(d, t);
  text_puts(t, "}}, \"columnKind\": \"unicodeCodePoints\", \"results\": [");
  for (uint32_t i = 0; i < n;) {
    const Record *r = &d->records.at[i];
    const char *rule = sarif_rule(d, r);
    text_puts(t, i ? ",\n {" : "\n {");
    if (rule) text_printf(t, "\"ruleId\": \"%s\", ", rule);
    text_printf(t, "\"level\": \"%s\", \"message\": {\"text\": ",
                r->level == DIAG_REMARK ? "note" : level_names[r->level]);
    put_json_string(t, r->message);
    text_puts(t, "}, \"locations\": [");
    if (sources_file(d->sources, r->span.file)) put_sarif_location(d, t, r, false);
    text_puts(t, "], \"relatedLocations\": [");
    i++;
    for (bool first = true; i < n && d->records.at[i].level == DIAG_NOTE; first = false) {
      text_puts(t, first ? "" : ", ");
      put_sarif_location(d, t, &d->records.at[i++], true);
    }
    text_puts(t, "]}");
  }
  text_puts(t, "]}]}\n");
}

void diags_finish(Diags *d) {
  Text t = {0};
  if (d->options.format == DIAG_JSON) {
    finish_json(d, &t);
  } else if (d->options.format == DIAG_SARIF) {
    finish_sarif(d, &t);
  } else {
    if (d->cut || (diags_full(d) && d->options.error_limit > 1))
      text_puts(&t, "relaxc: fatal error: too many errors emitted, stopping now "
                    "[-ferror-limit=]\n");
    if (d->warnings) text_printf(&t, "%u warning%s", d->warnings, d->warnings > 1 ? "s" : "");
    if (d->warnings && d->errors) text_puts(&t, " and ");
    if (d->errors) text_printf(&t, "%u error%s", d->errors, d->errors > 1 ? "s" : "");
    if (d->warnings || d->errors) text_puts(&t, " generated.\n");
  }
  emit(d, &t);
}
