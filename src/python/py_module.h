/* The extension module kvstore._kvstore; py_state.h says what it is. */
#ifndef PYTHON_PY_MODULE_H
#define PYTHON_PY_MODULE_H

#include "py_state.h"

PyMODINIT_FUNC PyInit__kvstore(void);

#endif
