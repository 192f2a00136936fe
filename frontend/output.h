/* Output files: complete or not there at all.
 *
 * An output is written into a temporary file beside its place and renamed when it is complete. What
 * is pending goes away on output_abandon, on fatal(), on bug() and on a signal that ends the
 * process. "-" is standard output; a device or pipe is written directly.
 */
#ifndef RELAXC_FRONTEND_OUTPUT_H
#define RELAXC_FRONTEND_OUTPUT_H

#include "ir/base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct Output Output;

/* Installs the removal of pending files on signals and fatal(). Once, at start. */
void output_install_cleanup(void);

/* NULL with words in *error. */
Output *output_open(Arena *a, const char *path, const char **error);
bool output_write(Output *o, const void *bytes, uint64_t n, const char **error);
/* The file to write for programs that want a name (a linker); NULL when the output is "-" or a
 * device. It exists and is empty. */
const char *output_temporary(const Output *o);
/* Closes and moves into place. On failure the output is still to be abandoned. */
bool output_commit(Output *o, const char **error);
void output_abandon(Output *o);

#endif
