/* The class of stores, with the methods that move no arrays. */
#ifndef PYTHON_PY_TYPE_H
#define PYTHON_PY_TYPE_H

#include "py_state.h"

extern PyType_Spec py_type_store;

#endif
