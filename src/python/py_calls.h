/* Methods of a store that move arrays, as vectorcalls with keywords. */
#ifndef PYTHON_PY_CALLS_H
#define PYTHON_PY_CALLS_H

#include "py_state.h"

PyObject *py_calls_init(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_push(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_pull(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_pushpull(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_broadcast(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_row_sparse_pull(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                   PyObject *kw);

#endif
