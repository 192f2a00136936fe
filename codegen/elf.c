/* Adds a section to a relocatable object without knowing what is in it.
 *
 * The object stays as it is, up to three things: its header points to a new table of sections, the
 * old table plus one entry, and the symbol gets a section, a size and a type. Behind it stand the
 * table of section names with one name more, the table of sections, and the new section's bytes,
 * which the caller writes. Source: the System V ABI, chapter 4 (object files).
 */
#include "codegen/elf.h"
#include <elf.h>
#include <string.h>

bool elf_is_object(ElfBytes object) {
  const Elf64_Ehdr *h = object.bytes;
  return object.n > sizeof *h && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
         h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB &&
         h->e_type == ET_REL && h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shnum > 0 &&
         h->e_shnum + 1 < SHN_LORESERVE && h->e_shstrndx < h->e_shnum && h->e_shoff < object.n &&
         h->e_shnum * sizeof(Elf64_Shdr) <= object.n - h->e_shoff;
}

/* The undefined symbol of that name. */
static Elf64_Sym *find_symbol(char *file, const Elf64_Shdr *sections, uint32_t n,
                              const char *name) {
  for (uint32_t i = 0; i < n; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    Elf64_Sym *symbols = (Elf64_Sym *)(void *)(file + sections[i].sh_offset);
    const char *names = file + sections[sections[i].sh_link].sh_offset;
    for (uint64_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
      if (symbols[k].st_shndx == SHN_UNDEF && strcmp(names + symbols[k].st_name, name) == 0)
        return &symbols[k];
  }
  return NULL;
}

bool elf_add_data(Arena *a, const void *object, size_t n, const char *symbol, const char *section,
                  uint64_t size, const char **head, size_t *nhead) {
  if (!elf_is_object((ElfBytes){object, n})) return false;
  Elf64_Ehdr h;
  memcpy(&h, object, sizeof h);
  uint32_t count = h.e_shnum;
  Elf64_Shdr *sections = ARENA_ARRAY(a, Elf64_Shdr, count + 1);
  memcpy(sections, (const char *)object + h.e_shoff, count * sizeof *sections);
  Elf64_Shdr *names = &sections[h.e_shstrndx];
  size_t room = strlen(section) + 1, names_at = elf_align(n, 16);
  size_t table_at = elf_align(names_at + names->sh_size + room, 16);
  size_t data_at = elf_align(table_at + (count + 1) * sizeof *sections, 64);
  char *file = arena_alloc(a, data_at);
  memcpy(file, object, n);
  memcpy(file + names_at, (const char *)object + names->sh_offset, names->sh_size);
  memcpy(file + names_at + names->sh_size, section, room);
  sections[count] = (Elf64_Shdr){.sh_name = (Elf64_Word)names->sh_size,
                                 .sh_type = SHT_PROGBITS,
                                 .sh_flags = SHF_ALLOC,
                                 .sh_offset = data_at,
                                 .sh_size = size,
                                 .sh_addralign = 64};
  names->sh_offset = names_at;
  names->sh_size += room;
  Elf64_Sym *s = find_symbol(file, sections, count, symbol);
  if (!s) return false;
  s->st_shndx = (Elf64_Section)count;
  s->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  s->st_other = STV_HIDDEN;
  s->st_size = size;
  memcpy(file + table_at, sections, (count + 1) * sizeof *sections);
  h.e_shoff = table_at;
  h.e_shnum++;
  memcpy(file, &h, sizeof h);
  *head = file;
  *nhead = data_at;
  return true;
}
