/* _kvstore.Array: an array of the library, of any context and storage, as a Python object.
 *
 * NumPy and whoever else knows the buffer protocol sees the elements of a default array without a
 * copy; to look waits for what the store still does with it. What is no matter of memory, such as
 * arithmetic, is in kvstore/array.py, whose classes inherit from this one.
 */
#ifndef PYTHON_PY_ARRAY_H
#define PYTHON_PY_ARRAY_H

#include "py_state.h"

typedef struct py_array {
    PyObject_HEAD
    kv_array *a;    /* NULL when it was an updater's and is gone */
    bool lent;      /* an updater's: the reference is the store's */
    bool read_only; /* an updater's input */
    Py_ssize_t buffers; /* that are in use */
    struct py_array *base; /* a part of this one's memory, with a reference; or NULL */
    void *data;            /* of a part */
    bool copied;           /* of a part of another array, whose memory is elsewhere */
} py_array;

extern PyType_Spec py_array_spec;
extern PyMethodDef py_array_functions[]; /* of the module */

/* Waits, with the GIL, for what the store does with the memory that a part is of. */
static inline void py_array_await_base(py_array *o)
{
    void *data;
    kv_err unused = {0};
    if (!o->base || !o->base->a)
        return;
    PyThreadState *gil = PyEval_SaveThread();
    kv_array_write(o->base->a, &data, &unused); /* waits for all, also where others hold it */
    PyEval_RestoreThread(gil);
}

/* An object of a class that is Array or inherits from it; takes the reference of a, also on
 * failure. NULL with an exception. */
PyObject *py_array_new(PyTypeObject *class, kv_array *a);

#endif
