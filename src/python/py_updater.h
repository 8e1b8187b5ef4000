/* Functions of Python as updaters. */
#ifndef PYTHON_PY_UPDATER_H
#define PYTHON_PY_UPDATER_H

#include "py_store.h"

/* Store._set_updater(function), also None for ASSIGN. */
PyObject *py_updater_set(PyObject *self, PyObject *function);

#endif
