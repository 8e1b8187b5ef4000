/* create(), load() and close(), which may wait. */
#ifndef PYTHON_PY_OPEN_H
#define PYTHON_PY_OPEN_H

#include "py_state.h"

extern PyMethodDef py_open_functions[]; /* of the module */

/* Store.close() */
PyObject *py_open_close(PyObject *self, PyObject *none);

#endif
