/* Bump allocation by lifetime.
 *
 * The compiler frees nothing singly: an object lives as long as its arena. There are three
 * lifetimes: the session (interned things: strings, expressions, dims, struct info), the module
 * (functions, nodes, statements) and a pass's scratch. Memory comes back zeroed. Allocation
 * failure is the world's fault, not the caller's: it ends the process through fatal().
 */
#ifndef RELAXC_BASE_ARENA_H
#define RELAXC_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

/* A new, empty arena; owned by the caller, released by arena_free. */
Arena *arena_create(void);
void arena_free(Arena *a);
/* `size` zeroed bytes aligned to 16. A size of 0 gives a unique valid pointer. */
void *arena_alloc(Arena *a, size_t size);
/* n * size zeroed bytes; an overflow of the product is fatal. */
void *arena_calloc(Arena *a, size_t n, size_t size);
/* Copy of `size` bytes. */
void *arena_dup(Arena *a, const void *p, size_t size);
/* Copy of `n` characters, NUL-terminated. */
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The pages that lie wholly in n bytes of a mapped file that nobody changes: the system may have
 * them back, and reads them again when they are asked for. */
void pages_forget(const void *p, size_t n);
/* Bytes handed out so far (for --time-passes and tests). */
size_t arena_used(const Arena *a);

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_calloc((a), (size_t)(n), sizeof(T)))

/* The world failed (memory, a syscall): message on stderr, exit 1, temporary outputs removed. */
_Noreturn void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What removes temporary outputs; called once by fatal() and bug() (the driver sets it). */
void fatal_set_cleanup(void (*cleanup)(void));
/* The compiler is wrong: message, file and line on stderr, abort. */
_Noreturn void bug_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define bug(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
/* malloc that can't fail; for things with explicit ownership outside arenas. */
void *xmalloc(size_t n);
void *xrealloc(void *p, size_t n);

#endif
