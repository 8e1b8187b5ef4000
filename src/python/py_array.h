/* _kvstore.Array: an array of the library, of any context and storage, as a Python object.
 *
 * NumPy sees the elements of a default array without a copy, by the buffer protocol: that is the
 * memory of the arrays of kvstore/array.py, which are NumPy's. RowSparseNDArray inherits from
 * Array.
 */
#pragma once

#include "py_state.h"

typedef struct py_array {
    PyObject_HEAD
    kv_array *a;    /* NULL when it was an updater's and is gone */
    bool lent;      /* an updater's: the reference is the store's */
    bool read_only; /* an updater's input */
    Py_ssize_t buffers; /* that are in use */
} py_array;

extern PyType_Spec py_array_spec;
extern PyMethodDef py_array_functions[]; /* of the module */

/* An object of a class that is Array or inherits from it; takes the reference of a, also on
 * failure. NULL with an exception. */
PyObject *py_array_new(PyTypeObject *class, kv_array *a);
