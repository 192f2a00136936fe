/* Data of any size behind an ELF object. */
#ifndef RELAXC_CODEGEN_ELF_H
#define RELAXC_CODEGEN_ELF_H

#include "ir/base/arena.h"
#include <stdbool.h>
#include <stdint.h>

/* Makes a relocatable 64-bit little-endian ELF object in which `symbol`, undefined in `object`, is
 * the start of a new read-only section of `size` bytes aligned to 64. The bytes themselves are not
 * copied: they are to follow the head, which this gives. False when `object` is not such an object
 * or has no such symbol. */
bool elf_add_data(Arena *a, const void *object, size_t n, const char *symbol, const char *section,
                  uint64_t size, const char **head, size_t *nhead);

#endif
