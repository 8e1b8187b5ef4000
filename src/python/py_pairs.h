/* The pairs of a call, (key, array), made of what Python passed: one key with an array or a list of
 * arrays, or a list of keys with as many of these, as MXNet takes them. */
#pragma once

#include "py_batch.h"
#include "py_small.h"

enum { PY_PAIRS_INSIDE = 4 };

typedef struct py_pairs {
    int64_t n, cap;
    kv_key *keys;
    kv_array **arrays; /* a reference each, but those of small values */
    bool packs; /* small values become records; their arrays are NULL until they are filled */
    py_packed packed;
    const py_small *small; /* whose arrays have no reference of this */
    kv_key keys_inside[PY_PAIRS_INSIDE];
    kv_array *arrays_inside[PY_PAIRS_INSIDE];
} py_pairs;

void py_pairs_init(py_pairs *p);

/* Adds the pairs of a key and a value, or of lists of them. write: the arrays are outs.
 * An Array of ours is used as it is. One of NumPy, or an NDArray, that is dense, aligned and of a
 * dtype of the store is wrapped, without a copy. All others are what the Python function
 * `adopt(object, write)` makes of them: an array of NumPy; an Array; a tuple (capsule of DLPack,
 * device, id); or, of an out whose elements do not lie one behind the other, a tuple (array, out)
 * whose first is copied into the second when the call has ended. Returns false with an
 * exception. */
bool py_pairs_add(py_pairs *p, PyObject *key, PyObject *value, bool write, py_batch *b);

/* The same for keys alone, whose arrays are those of other pairs. */
bool py_pairs_key(PyObject *key, kv_key *out, py_batch *b);

/* Waits for the calls that nobody waits for and that use the memory of an array of NumPy; those
 * that only read it not if the caller only reads. Returns false with an exception. */
bool py_pairs_settle(PyObject *array, bool write);

/* One array: *out receives a reference. */
bool py_pairs_array(PyObject *value, bool write, py_batch *b, kv_array **out);

/* The texts of options, {name: text}: *opts is for PyMem_Free, also on failure, and b keeps the
 * texts. Returns false with an exception. */
bool py_pairs_options(PyObject *dict, kv_opt **opts, int *n, py_batch *b);

/* Returns true if a dense int32 array of NumPy, with these elements and two axes, has its head as
 * this module reads it. */
bool py_pairs_know(PyObject *array, void *data, Py_ssize_t rows, Py_ssize_t columns);

/* Gives the references to the arrays back; without the GIL. There are no pairs then. */
void py_pairs_let_go(py_pairs *p);

/* The same, and the memory of the lists. */
void py_pairs_release(py_pairs *p);
