/* Well-formedness. Rules are numbered; each message ends with its number in brackets. */
#ifndef RELAXC_IR_VERIFY_H
#define RELAXC_IR_VERIFY_H

#include "ir/module.h"

/* Reports every violation through the context's diagnostics; true when there is none.
 * `after` names the pass that ran last (NULL: just parsed) and appears in messages. */
bool module_verify(Module *m, const char *after);

#endif
