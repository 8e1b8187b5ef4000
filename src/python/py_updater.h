/* Functions of Python as updaters. */
#ifndef PYTHON_PY_UPDATER_H
#define PYTHON_PY_UPDATER_H

#include "py_store.h"

/* Store._set_updater(function), also None for ASSIGN. */
PyObject *py_updater_set(PyObject *self, PyObject *function);

/* The updater is a rule now, or none. */
void py_updater_gone(py_store *s);

/* Finds out what the updater is, after a rollback. */
void py_updater_look(py_store *s);

#endif
