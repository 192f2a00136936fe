/* Growable arrays in an arena: `VEC(T) v = {0}; vec_push(arena, &v, x); v.at[i]; v.n`.
 *
 * Growth doubles and leaves the old block in the arena (at most as much again is wasted).
 */
#ifndef RELAXC_BASE_VEC_H
#define RELAXC_BASE_VEC_H

#include "ir/base/arena.h"
#include <stdint.h>
#include <string.h>

#define VEC(T)                                                                                     \
  struct {                                                                                         \
    T *at;                                                                                         \
    uint32_t n, cap;                                                                               \
  }

/* Room for one more element of `size`; called by the macros only. */
void *vec_grow(Arena *a, void *at, uint32_t n, uint32_t *cap, size_t size);

#define vec_reserve1(arena, v)                                                                     \
  ((v)->n < (v)->cap                                                                               \
       ? (void)0                                                                                   \
       : (void)((v)->at = vec_grow((arena), (v)->at, (v)->n, &(v)->cap, sizeof *(v)->at)))
#define vec_push(arena, v, x) (vec_reserve1(arena, v), (void)((v)->at[(v)->n++] = (x)))
#define vec_pop(v) ((v)->at[--(v)->n])
#define vec_last(v) ((v)->at[(v)->n - 1])
#define vec_each(T, p, v) for (T *p = (v)->at, *p##_end = (v)->at + (v)->n; p < p##_end; p++)

#endif
