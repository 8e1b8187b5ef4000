/* Small values of a push: they are copied, into arrays that a store keeps for its next call.
 *
 * To wrap an array is an allocation, and to give it back another visit of its memory, which for a
 * few elements costs more than the push of them. Their copies are made in two steps. With the GIL
 * the elements of each value go into one text of bytes, so that no object is needed afterwards;
 * without it they go from there into the arrays, which may have to wait for the call before.
 *
 *     bytes   what, one record behind the other
 *     8       dtype, axes, bytes of elements (uint8, uint8, uint32, two unused)
 *     8 * n   the shape
 *     m       elements, up to a multiple of 8
 */
#pragma once

#include "py_state.h"

enum { PY_SMALL_BYTES = 256 }; /* that a small value has at most */

/* The arrays of a store for small values: array i is for pair i of a call. */
typedef struct py_small {
    kv_array **arrays;
    int64_t n, cap;
    kv_array *block; /* bytes for the elements of many arrays, one behind the other; or NULL */
    void *begin;     /* of it */
    size_t used;
} py_small;

typedef struct py_packed {
    char *data;
    size_t n, cap;
} py_packed;

/* Adds the record of a value. Returns false with an exception. */
bool py_small_pack(py_packed *p, kv_dtype dtype, int ndim, const int64_t *shape, const void *data,
                   size_t bytes);

/* Makes room for n arrays. Returns false with an exception. */
bool py_small_reserve(py_small *s, int64_t n);

/* Gives every pair without an array the array of its place, with the next record's elements.
 * Without the GIL. s keeps the references. */
int py_small_fill(py_small *s, const py_packed *p, kv_array **arrays, int64_t n, kv_err *e);

/* Takes what a store has; what a call is finished with goes back, where it is released if the store
 * has got others meanwhile, or if it is very much. */
py_small py_small_take(py_small *from);
void py_small_give(py_small *to, py_small *s);
void py_small_release(py_small *s);
