/* Questions to a store. */
#ifndef PYTHON_PY_ASK_H
#define PYTHON_PY_ASK_H

#include "py_state.h"

/* _keys(): a dict for each key, in the order of updates. _find(key): that of one key. */
PyObject *py_ask_keys(PyObject *self, PyObject *none);
PyObject *py_ask_find(PyObject *self, PyObject *key);

/* is_capable(name), describe(topic), and describe(topic) of the module, without a store. */
PyObject *py_ask_capable(PyObject *self, PyObject *what);
PyObject *py_ask_describe(PyObject *self, PyObject *topic);
PyObject *py_ask_describe_all(PyObject *module, PyObject *topic);

#endif
