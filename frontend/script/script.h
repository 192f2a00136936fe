/* The script reader: TVMScript text to a typed module. */
#ifndef RELAXC_FRONTEND_SCRIPT_SCRIPT_H
#define RELAXC_FRONTEND_SCRIPT_SCRIPT_H

#include "ir/module.h"

/* Parses and analyses a registered file. Errors go to the context's diagnostics; a module that
 * comes back after an error (diags_errors > 0) is incomplete: its functions without `broken` may be
 * verified, nothing else. NULL when there is no module to speak of. A file that holds a single
 * function without a class gives a module with `lone` set. */
Module *script_parse(Context *c, uint32_t file);

#endif
