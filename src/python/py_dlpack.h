/* DLPack, the exchange of tensors between libraries of Python, in both directions.
 *
 * https://dmlc.github.io/dlpack: a capsule holds a DLManagedTensor, whose layout the standard
 * fixes.
 */
#pragma once

#include "py_batch.h"

/* Wraps the tensor of (capsule, device, id) without a copy. Returns false with an exception. */
bool py_dlpack_take(PyObject *tuple, py_batch *b, kv_array **out);

/* dlpack(object with the buffer protocol, dtype of the store): a capsule of its elements. */
PyObject *py_dlpack_give(PyObject *module, PyObject *const *args, Py_ssize_t n);
