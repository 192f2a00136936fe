/* Source files and spans.
 *
 * A span names bytes [begin, end) of one file. Every node and statement holds one, from the parser
 * to the debug information. File 0 is "no place" (things that the compiler made).
 */
#ifndef RELAXC_BASE_SOURCE_H
#define RELAXC_BASE_SOURCE_H

#include "ir/base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint32_t file, begin, end;
} Span;

#define SPAN_NONE ((Span){0, 0, 0})

typedef struct {
  const char *name; /* as shown in messages */
  const char *text; /* NUL-terminated copy; may hold NUL bytes inside */
  uint32_t size;
  uint32_t *lines; /* offsets of line starts */
  uint32_t nlines;
} SourceFile;

typedef struct SourceMap SourceMap;

SourceMap *sources_create(Arena *a);
/* Registers text (copied) under a name; returns the file id (> 0). */
uint32_t sources_add(SourceMap *m, const char *name, const char *text, size_t size);
/* Reads a whole file ("-" is stdin). Returns the id, or 0 with a message (strerror or "file too
 * large", limit 1 GiB) in *error. */
uint32_t sources_read(SourceMap *m, const char *path, const char **error);
const SourceFile *sources_file(const SourceMap *m, uint32_t id);
/* 1-based line and byte column of an offset. */
void sources_position(const SourceFile *f, uint32_t offset, uint32_t *line, uint32_t *col);
/* The smallest span that covers both (of one file; the first where the files differ). */
Span span_join(Span a, Span b);

#endif
