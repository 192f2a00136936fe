/* Several relocatable objects as one, as `ld -r` joins them, for what LLVM's code generator writes.
 *
 * Sections of the same name and kind follow each other; each input section then begins at a shift
 * inside its output section, which is added to what points into it: values of symbols, offsets of
 * relocations, and addends of relocations against a section's own symbol. Symbols are sorted as the
 * format wants: one of each section, the other local ones, the global ones, of which equal names
 * are one symbol. What is defined and hidden was only meant for the other objects: it becomes
 * local. Source: the System V ABI, chapter 4 (object files).
 */
#include "codegen/elf.h"
#include "ir/base/map.h"
#include "ir/base/vec.h"

#include <elf.h>
#include <string.h>

enum {
  ADDRSIG = 0x6fff4c03, /* LLVM's table of symbols with a meaningful address; optional */
  GLOBAL = 1 << 30
};

typedef VEC(char) Chars;

typedef struct {
  const Elf64_Shdr *h; /* of the first input section */
  const char *name;
  uint64_t size, align;
  uint32_t index;              /* among the output's sections */
  VEC(Elf64_Rela) relocations; /* symbols numbered as in the output */
} Section;

typedef struct {
  const char *file;
  size_t n;
  const Elf64_Shdr *sections;
  uint32_t count;
  const char *names;
  const Elf64_Sym *symbols;
  const char *symbol_names;
  uint64_t nsymbols;
  Section **to;     /* where each section goes; NULL: nowhere */
  uint64_t *shift;  /* at which offset */
  uint32_t *symbol; /* per symbol: its number in the output, or GLOBAL + its place in Join */
} Input;

typedef struct {
  Arena *a;
  VEC(Section *) sections;
  VEC(Elf64_Sym) locals, globals;
  VEC(uint32_t) numbers; /* of the globals in the output */
  uint32_t first_global;
  Chars strings, section_names;
  StrMap known; /* name -> place in globals + 1 */
} Join;

static bool read_input(Join *j, Input *in, ElfBytes object) {
  const Elf64_Ehdr *h = object.bytes;
  if (!elf_is_object(object)) return false;
  *in = (Input){.file = object.bytes, .n = object.n, .count = h->e_shnum};
  in->sections = (const Elf64_Shdr *)(const void *)(in->file + h->e_shoff);
  in->names = in->file + in->sections[h->e_shstrndx].sh_offset;
  in->to = ARENA_ARRAY(j->a, Section *, in->count);
  in->shift = ARENA_ARRAY(j->a, uint64_t, in->count);
  for (uint32_t i = 0; i < in->count; i++) {
    const Elf64_Shdr *s = &in->sections[i];
    if (s->sh_type == SHT_REL || s->sh_type == SHT_GROUP || s->sh_type == SHT_SYMTAB_SHNDX ||
        s->sh_flags & SHF_LINK_ORDER)
      return false;
    if (s->sh_type != SHT_SYMTAB) continue;
    in->symbols = (const Elf64_Sym *)(const void *)(in->file + s->sh_offset);
    in->nsymbols = s->sh_size / sizeof *in->symbols;
    in->symbol_names = in->file + in->sections[s->sh_link].sh_offset;
  }
  in->symbol = ARENA_ARRAY(j->a, uint32_t, in->nsymbols + 1);
  return true;
}

static bool has_contents(const Elf64_Shdr *s) {
  return s->sh_type != SHT_NULL && s->sh_type != SHT_SYMTAB && s->sh_type != SHT_STRTAB &&
         s->sh_type != SHT_RELA && s->sh_type != ADDRSIG;
}

static Section *section_for(Join *j, const Elf64_Shdr *h, const char *name) {
  for (uint32_t i = 0; i < j->sections.n; i++) {
    Section *s = j->sections.at[i];
    if (s->h->sh_type == h->sh_type && s->h->sh_flags == h->sh_flags &&
        s->h->sh_entsize == h->sh_entsize && strcmp(s->name, name) == 0)
      return s;
  }
  Section *s = ARENA_NEW(j->a, Section);
  *s = (Section){.h = h, .name = name, .align = 1, .index = j->sections.n + 1};
  vec_push(j->a, &j->sections, s);
  return s;
}

static void place_sections(Join *j, Input *in) {
  for (uint32_t i = 0; i < in->count; i++) {
    const Elf64_Shdr *h = &in->sections[i];
    if (!has_contents(h)) continue;
    Section *s = section_for(j, h, in->names + h->sh_name);
    uint64_t align = h->sh_addralign > 1 ? h->sh_addralign : 1;
    if (align > s->align) s->align = align;
    in->to[i] = s;
    in->shift[i] = elf_align(s->size, align);
    s->size = in->shift[i] + h->sh_size;
  }
}

/* ---- symbols ---- */

/* Appends a text with its 0; gives its place. */
static uint32_t add_name(Arena *a, Chars *to, const char *text) {
  uint32_t at = to->n;
  do vec_push(a, to, *text);
  while (*text++);
  return at;
}

/* Symbol k of an input as one of the output, but for its name. */
static Elf64_Sym moved(const Input *in, uint64_t k) {
  Elf64_Sym s = in->symbols[k];
  if (s.st_shndx == SHN_UNDEF || s.st_shndx >= SHN_LORESERVE) return s;
  s.st_value += in->shift[s.st_shndx];
  s.st_shndx = (Elf64_Section)in->to[s.st_shndx]->index;
  return s;
}

static void add_locals(Join *j, Input *in, bool first) {
  for (uint64_t k = 1; k < in->nsymbols; k++) {
    unsigned type = ELF64_ST_TYPE(in->symbols[k].st_info);
    if (ELF64_ST_BIND(in->symbols[k].st_info) != STB_LOCAL) continue;
    if (type == STT_SECTION) {
      const Section *s = in->to[in->symbols[k].st_shndx];
      in->symbol[k] = s ? s->index : 0;
      continue;
    }
    if (type == STT_FILE && !first) continue;
    Elf64_Sym s = moved(in, k);
    s.st_name = add_name(j->a, &j->strings, in->symbol_names + in->symbols[k].st_name);
    in->symbol[k] = 1 + j->sections.n + j->locals.n;
    vec_push(j->a, &j->locals, s);
  }
}

/* A definition takes the place of a mere name; the stricter visibility counts. */
static void unite(Elf64_Sym *s, Elf64_Sym other) {
  unsigned visibility = ELF64_ST_VISIBILITY(s->st_other);
  unsigned also = ELF64_ST_VISIBILITY(other.st_other);
  if (visibility == STV_DEFAULT || (also != STV_DEFAULT && also < visibility)) visibility = also;
  if (s->st_shndx == SHN_UNDEF && other.st_shndx != SHN_UNDEF) {
    other.st_name = s->st_name;
    *s = other;
  }
  s->st_other = (unsigned char)visibility;
}

static void add_globals(Join *j, Input *in) {
  for (uint64_t k = 1; k < in->nsymbols; k++) {
    if (ELF64_ST_BIND(in->symbols[k].st_info) == STB_LOCAL) continue;
    const char *name = in->symbol_names + in->symbols[k].st_name;
    Elf64_Sym s = moved(in, k);
    void **at = strmap_at(&j->known, name);
    if (*at) {
      unite(&j->globals.at[(uintptr_t)*at - 1], s);
    } else {
      s.st_name = add_name(j->a, &j->strings, name);
      vec_push(j->a, &j->globals, s);
      *at = (void *)(uintptr_t)j->globals.n;
    }
    in->symbol[k] = GLOBAL + (uint32_t)(uintptr_t)*at - 1;
  }
}

/* Locals end here: hidden definitions join them, the others get their numbers. */
static void number_globals(Join *j) {
  uint32_t n = 0, before = 1 + j->sections.n;
  for (uint32_t i = 0; i < j->globals.n; i++) {
    Elf64_Sym s = j->globals.at[i];
    bool local = s.st_shndx != SHN_UNDEF && ELF64_ST_VISIBILITY(s.st_other) == STV_HIDDEN;
    vec_push(j->a, &j->numbers, local ? before + j->locals.n : GLOBAL);
    if (!local) continue;
    s.st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(s.st_info));
    s.st_other = STV_DEFAULT;
    vec_push(j->a, &j->locals, s);
  }
  j->first_global = before + j->locals.n;
  for (uint32_t i = 0; i < j->globals.n; i++) {
    if (j->numbers.at[i] != GLOBAL) continue;
    j->numbers.at[i] = j->first_global + n;
    j->globals.at[n++] = j->globals.at[i];
  }
  j->globals.n = n;
}

static uint32_t symbol_number(const Join *j, const Input *in, uint64_t k) {
  uint32_t s = in->symbol[k];
  return s >= GLOBAL ? j->numbers.at[s - GLOBAL] : s;
}

static void add_relocations(Join *j, const Input *in) {
  for (uint32_t i = 0; i < in->count; i++) {
    const Elf64_Shdr *h = &in->sections[i];
    if (h->sh_type != SHT_RELA || !in->to[h->sh_info]) continue;
    const Elf64_Rela *from = (const Elf64_Rela *)(const void *)(in->file + h->sh_offset);
    for (uint64_t k = 0; k < h->sh_size / sizeof *from; k++) {
      Elf64_Rela r = from[k];
      const Elf64_Sym *s = &in->symbols[ELF64_R_SYM(r.r_info)];
      r.r_offset += in->shift[h->sh_info];
      if (ELF64_ST_TYPE(s->st_info) == STT_SECTION)
        r.r_addend += (Elf64_Sxword)in->shift[s->st_shndx];
      r.r_info = ELF64_R_INFO((uint64_t)symbol_number(j, in, ELF64_R_SYM(r.r_info)),
                              ELF64_R_TYPE(r.r_info));
      vec_push(j->a, &in->to[h->sh_info]->relocations, r);
    }
  }
}

/* ---- the file ---- */

typedef struct {
  Elf64_Shdr *headers;
  uint32_t n;
  uint64_t size; /* of the file so far */
} Layout;

static void lay_out(Join *j, Layout *l, Elf64_Shdr h, const char *prefix, const char *name) {
  h.sh_name = add_name(j->a, &j->section_names, prefix);
  j->section_names.n--; /* its 0 */
  add_name(j->a, &j->section_names, name);
  l->size = h.sh_offset = elf_align(l->size, h.sh_addralign);
  if (h.sh_type != SHT_NOBITS) l->size += h.sh_size;
  l->headers[l->n++] = h;
}

/* Contents of sections, their relocations, symbols, names: in this order behind the header. */
static void write_file(Join *j, const Input *in, uint32_t n, char **out, size_t *size) {
  Arena *a = j->a;
  uint32_t ns = j->sections.n, nsym = j->first_global + j->globals.n, symtab = ns + 1;
  for (uint32_t i = 0; i < ns; i++) symtab += j->sections.at[i]->relocations.n > 0;
  Layout l = {ARENA_ARRAY(a, Elf64_Shdr, 2 * ns + 4), 1, sizeof(Elf64_Ehdr)};
  vec_push(a, &j->section_names, 0);
  for (uint32_t i = 0; i < ns; i++) {
    const Section *s = j->sections.at[i];
    Elf64_Shdr h = *s->h;
    h.sh_size = s->size;
    h.sh_addralign = s->align;
    lay_out(j, &l, h, "", s->name);
  }
  for (uint32_t i = 0; i < ns; i++) {
    const Section *s = j->sections.at[i];
    if (!s->relocations.n) continue;
    Elf64_Shdr h = {.sh_type = SHT_RELA,
                    .sh_flags = SHF_INFO_LINK,
                    .sh_link = symtab,
                    .sh_info = s->index,
                    .sh_size = s->relocations.n * sizeof(Elf64_Rela),
                    .sh_addralign = 8,
                    .sh_entsize = sizeof(Elf64_Rela)};
    lay_out(j, &l, h, ".rela", s->name);
  }
  Elf64_Shdr h = {.sh_type = SHT_SYMTAB,
                  .sh_link = symtab + 1,
                  .sh_info = j->first_global,
                  .sh_size = nsym * sizeof(Elf64_Sym),
                  .sh_addralign = 8,
                  .sh_entsize = sizeof(Elf64_Sym)};
  lay_out(j, &l, h, "", ".symtab");
  h = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_size = j->strings.n, .sh_addralign = 1};
  lay_out(j, &l, h, "", ".strtab");
  h.sh_size = j->section_names.n + sizeof ".shstrtab";
  lay_out(j, &l, h, "", ".shstrtab");
  uint64_t table = elf_align(l.size, 8);

  *size = table + l.n * sizeof *l.headers;
  char *file = *out = arena_alloc(a, *size);
  Elf64_Ehdr head;
  memcpy(&head, in[0].file, sizeof head);
  head.e_shoff = table;
  head.e_shnum = (Elf64_Half)l.n;
  head.e_shstrndx = (Elf64_Half)(l.n - 1);
  memcpy(file, &head, sizeof head);
  memcpy(file + table, l.headers, l.n * sizeof *l.headers);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < in[i].count; k++) {
      const Section *s = in[i].to[k];
      if (s && s->h->sh_type != SHT_NOBITS && in[i].sections[k].sh_size)
        memcpy(file + l.headers[s->index].sh_offset + in[i].shift[k],
               in[i].file + in[i].sections[k].sh_offset, in[i].sections[k].sh_size);
    }
  uint32_t at = ns + 1;
  for (uint32_t i = 0; i < ns; i++) {
    const Section *s = j->sections.at[i];
    if (!s->relocations.n) continue;
    memcpy(file + l.headers[at].sh_offset, s->relocations.at, l.headers[at].sh_size);
    at++;
  }
  Elf64_Sym *symbols = (Elf64_Sym *)(void *)(file + l.headers[symtab].sh_offset);
  for (uint32_t i = 1; i <= ns; i++)
    symbols[i] =
        (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION), .st_shndx = (Elf64_Section)i};
  if (j->locals.n) memcpy(symbols + 1 + ns, j->locals.at, j->locals.n * sizeof *symbols);
  if (j->globals.n)
    memcpy(symbols + j->first_global, j->globals.at, j->globals.n * sizeof *symbols);
  memcpy(file + l.headers[symtab + 1].sh_offset, j->strings.at, j->strings.n);
  memcpy(file + l.headers[symtab + 2].sh_offset, j->section_names.at, j->section_names.n);
}

bool elf_join(Arena *a, const ElfBytes *objects, uint32_t n, char **out, size_t *size) {
  Join j = {.a = a};
  Input *in = ARENA_ARRAY(a, Input, n);
  strmap_init(&j.known, a);
  vec_push(a, &j.strings, 0);
  for (uint32_t i = 0; i < n; i++) {
    if (!read_input(&j, &in[i], objects[i])) return false;
    place_sections(&j, &in[i]);
  }
  for (uint32_t i = 0; i < n; i++) add_locals(&j, &in[i], i == 0);
  for (uint32_t i = 0; i < n; i++) add_globals(&j, &in[i]);
  number_globals(&j);
  for (uint32_t i = 0; i < n; i++) add_relocations(&j, &in[i]);
  if (2 * j.sections.n + 4 >= SHN_LORESERVE) return false;
  write_file(&j, in, n, out, size);
  return true;
}
