/* Diagnostics in clang's form: file:line:col: error: message, source line, caret, notes.
 *
 * Messages: lower case, no full stop, user names in 'quotes', "expected X but got Y". A note
 * follows the error it explains. A message may end with the rule that is violated, "[R8]"; JSON and
 * SARIF then name it apart. Text is made valid UTF-8 (other bytes print as \xNN). The caret
 * line shows at most 160 columns of a long line around the span.
 */
#ifndef RELAXC_BASE_DIAG_H
#define RELAXC_BASE_DIAG_H

#include "ir/base/source.h"
#include "ir/base/text.h"

typedef enum { DIAG_NOTE, DIAG_REMARK, DIAG_WARNING, DIAG_ERROR } DiagLevel;
typedef enum { DIAG_TEXT, DIAG_JSON, DIAG_SARIF } DiagFormat;

typedef enum {
#define WARNING(id, name, on, help) WARN_##id,
#include "ir/base/warnings.def"
#undef WARNING
  WARN_COUNT
} Warning;

typedef struct Diags Diags;

typedef struct {
  DiagFormat format;
  bool color;
  bool werror;
  uint32_t error_limit; /* 0: none; clang's default is 20 */
} DiagOptions;

Diags *diags_create(Arena *a, const SourceMap *sources);
void diags_set_options(Diags *d, DiagOptions o);
/* Where messages go; default stderr. A Text collects them (tests). */
void diags_set_text(Diags *d, Text *t);
/* Remarks are collected in t, as text whatever the format. */
void diags_set_remarks(Diags *d, Text *t);
Text *diags_remarks(const Diags *d); /* NULL: none was set */
/* -WNAME and -Wno-NAME. */
void diags_enable(Diags *d, Warning w, bool on);
/* The name of a warning, as after -W, and what it says. */
const char *warning_name(Warning w);
const char *warning_help(Warning w);
bool warning_default(Warning w);

void diag(Diags *d, DiagLevel level, Span s, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A warning, if it is on; its name ends it, "[-Wname]". */
void diag_warn(Diags *d, Warning w, Span s, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define diag_error(d, s, ...) diag((d), DIAG_ERROR, (s), __VA_ARGS__)
#define diag_note(d, s, ...) diag((d), DIAG_NOTE, (s), __VA_ARGS__)

uint32_t diags_errors(const Diags *d);
bool diags_warns(const Diags *d, Warning w); /* is it on? */
/* True once error_limit was reached: readers stop then. */
bool diags_full(const Diags *d);
/* Flushes: JSON/SARIF documents, "N errors generated." Called once at exit. */
void diags_finish(Diags *d);

#endif
