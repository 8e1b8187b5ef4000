/* The objects whose memory one call of the store uses: arrays of NumPy, PyTorch and others that the
 * call has wrapped without a copy.
 *
 * The library says by `done` that it is finished with an array, perhaps on a thread of its own and
 * without the GIL, so that only counts. A caller that waits then releases the objects itself; when
 * nobody waits, the last `done` hands the batch to py_drain. An object is never released while the
 * store may still touch its memory.
 */
#pragma once

#include "py_state.h"

typedef struct py_batch {
    int64_t left;            /* wrapped arrays that are in use, and one for the caller; atomic */
    bool left_alone;         /* nobody waits any more */
    bool ended;              /* left is 0, and the last `done` is finished with this */
    py_later later;
    PyObject **objects;      /* n, each with a reference */
    Py_ssize_t n, cap;
    PyObject *copies;        /* list of pairs (temporary, out), or NULL: to copy at the end */
    struct py_seen {
        const void *data;
        kv_array *a;
    } *seen, seen_inside[8]; /* a hash table of what was wrapped: seen_cap places, a power of 2 */
    size_t nseen, seen_cap;
    bool writes;             /* into an array of it */
    struct py_batch *next;   /* of those that nobody waits for */
    PyObject *inside[8];     /* objects of small calls */
} py_batch;

/* NULL with an exception. */
py_batch *py_batch_new(void);

/* Keeps a new reference to o. Returns false with an exception. */
bool py_batch_keep(py_batch *b, PyObject *o);

/* The array of this call that has this memory, dtype and shape, or NULL: an array that is given
 * twice is one array, so that all of a pushpull is read before its results are written. It is
 * borrowed. */
kv_array *py_batch_seen(const py_batch *b, const void *data, kv_dtype dtype, int ndim,
                        const int64_t *shape);

/* Notes one. Returns false with an exception. */
bool py_batch_see(py_batch *b, const void *data, kv_array *a);

/* `done` of a wrapped array, which py_batch_wrapped has counted. */
void py_batch_wrapped(py_batch *b);
void py_batch_done(void *batch);

/* The call that made b is over. wait: until the store is done with all of it, with the GIL
 * released; a signal whose handler raises ends that early. Then, or later when wait is false,
 * everything is released. b is gone for the caller. Returns false with an exception (of the
 * handler, of a copy). */
bool py_batch_end(py_batch *b, bool wait);

/* Waits for the batches that nobody waits for and that have an object for which `shares` returns
 * true, those that only read it not if the caller only reads. With the GIL. Returns false with the
 * exception of a signal's handler. */
bool py_batch_settle(bool (*shares)(PyObject *o, const void *arg), const void *arg, bool write);

/* How many batches the store is not done with and nobody waits for. */
int64_t py_batch_open(void);
