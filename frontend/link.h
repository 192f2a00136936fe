/* Objects to libraries, graphs to pictures, through the system's tools. */
#ifndef RELAXC_FRONTEND_LINK_H
#define RELAXC_FRONTEND_LINK_H

#include "codegen/codegen.h"

/* Writes a static library of one object. False after reporting an error. */
bool link_archive(Context *c, const CodePieces *object, const char *prefix, const char *output);
/* Writes a shared library: the object and, with `threads`, the runtime library found beside the
 * compiler. Exports <prefix>_* and rx_* only. */
bool link_shared(Context *c, const CodePieces *object, const char *prefix, bool threads,
                 const char *output);

/* Draws Graphviz text through the program 'dot'. False after reporting an error. */
bool draw_svg(Context *c, const char *text, size_t size, const char *output);

#endif
