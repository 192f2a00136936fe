/* ELF objects: data of any size behind one, several as one. */
#ifndef RELAXC_CODEGEN_ELF_H
#define RELAXC_CODEGEN_ELF_H

#include "ir/base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const void *bytes; /* aligned to 8 */
  size_t n;
} ElfBytes;

/* A relocatable 64-bit little-endian object? */
bool elf_is_object(ElfBytes object);
static inline uint64_t elf_align(uint64_t n, uint64_t to) {
  return to > 1 ? (n + to - 1) / to * to : n;
}

/* Makes a relocatable 64-bit little-endian ELF object in which `symbol`, undefined in `object`, is
 * the start of a new read-only section of `size` bytes aligned to 64. The bytes themselves are not
 * copied: they are to follow the head, which this gives. False when `object` is not such an object
 * or has no such symbol. */
bool elf_add_data(Arena *a, const void *object, size_t n, const char *symbol, const char *section,
                  uint64_t size, const char **head, size_t *nhead);

/* One object of several for the same target. False when they have what LLVM's code generator does
 * not write: relocations without addends, groups, ordered sections. */
bool elf_join(Arena *a, const ElfBytes *objects, uint32_t n, char **out, size_t *size);

#endif
