/* Kernel calls of `relaxc run --profile`, summed up by kernel; the order of equal times is that of
 * the first calls. */
#include "frontend/run_profile.h"

#include "frontend/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *function, *kernel;
  int64_t calls, total, least;
  uint32_t first;
} Row;

void profile_event(void *user, const char *function, const char *kernel, int64_t begin,
                   int64_t end) {
  Profile *p = user;
  ProfileEvent e = {function, kernel, begin, end};
  vec_push(p->arena, &p->events, e);
}

static int compare_rows(const void *a, const void *b) {
  const Row *x = a, *y = b;
  if (x->total != y->total) return x->total < y->total ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

static void print_table(const Profile *p) {
  VEC(Row) rows = {0};
  StrMap index;
  int64_t all = 0;
  strmap_init(&index, p->arena);
  for (uint32_t i = 0; i < p->events.n; i++) {
    const ProfileEvent *e = &p->events.at[i];
    const char *key = arena_printf(p->arena, "%s\n%s", e->function, e->kernel);
    uintptr_t at = (uintptr_t)strmap_get(&index, key);
    if (!at) {
      Row row = {.function = e->function, .kernel = e->kernel, .first = i};
      vec_push(p->arena, &rows, row);
      at = rows.n;
      strmap_set(&index, key, (void *)at);
    }
    Row *r = &rows.at[at - 1];
    int64_t time = e->end - e->begin;
    if (!r->calls++ || time < r->least) r->least = time;
    r->total += time;
    all += time;
  }
  if (rows.n) qsort(rows.at, rows.n, sizeof *rows.at, compare_rows);
  fprintf(stderr, "%8s %12s %12s %12s %6s  kernel\n", "calls", "total us", "us per call",
          "least us", "share");
  for (uint32_t i = 0; i < rows.n; i++) {
    const Row *r = &rows.at[i];
    fprintf(stderr, "%8lld %12.3f %12.3f %12.3f %5.1f%%  %s.%s\n", (long long)r->calls,
            1e-3 * (double)r->total, 1e-3 * (double)r->total / (double)r->calls,
            1e-3 * (double)r->least, all ? 100.0 * (double)r->total / (double)all : 0.0,
            r->function, r->kernel);
  }
}

bool profile_report(Context *c, const Profile *p, const char *trace_file) {
  print_table(p);
  if (!trace_file) return true;
  Text t = {0};
  int64_t start = p->events.n ? p->events.at[0].begin : 0;
  text_puts(&t, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
  for (uint32_t i = 0; i < p->events.n; i++) {
    const ProfileEvent *e = &p->events.at[i];
    text_puts(&t, i ? ",\n{\"name\": " : "\n{\"name\": ");
    text_put_json(&t, e->kernel);
    text_puts(&t, ", \"cat\": ");
    text_put_json(&t, e->function);
    text_printf(&t, ", \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f}",
                1e-3 * (double)(e->begin - start), 1e-3 * (double)(e->end - e->begin));
  }
  text_puts(&t, "\n]}\n");
  const char *error;
  Output *out = output_open(c->arena, trace_file, &error);
  bool ok = out && output_write(out, text_cstr(&t), t.n, &error) && output_commit(out, &error);
  if (out && !ok) output_abandon(out);
  if (!ok) diag_error(c->diags, SPAN_NONE, "%s", error);
  text_free(&t);
  return ok;
}
