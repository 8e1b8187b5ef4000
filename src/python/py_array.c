/* Arrays of the library as Python objects. */
#include "py_array.h"

#include <string.h>

#include "py_batch.h"
#include "py_dlpack.h"
#include "py_pairs.h"
#include "py_wait.h"

PyObject *py_array_new(PyTypeObject *class, kv_array *a)
{
    py_array *self = (py_array *)PyType_GenericAlloc(class, 0);
    if (!self) {
        kv_array_unref(a);
        return NULL;
    }
    self->a = a;
    return (PyObject *)self;
}

static void dealloc(PyObject *self)
{
    py_array *a = (py_array *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (!a->lent)
        kv_array_unref(a->a);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static kv_array *elements(PyObject *self)
{
    return ((py_array *)self)->a;
}

static int call_read(py_task *t, kv_err *e)
{
    const void *data;
    return kv_array_storage(t->array) == KV_ROW_SPARSE ? kv_array_read_rows(t->array, &data, e)
                                                       : kv_array_read(t->array, &data, e);
}

/* Waits until a call that fills the array has ended, such as a pull with wait=False, which other
 * ranks may keep waiting: so Ctrl-C ends this wait. Returns false with an exception. */
static bool await_filled(kv_array *a)
{
    bool there = true;
    if (!a || kv_array_await(a, 0, &there, NULL) || there)
        return true; /* what failed is the error of the read */
    py_task *t = py_task_new(NULL, call_read);
    if (!t)
        return false;
    t->array = kv_array_ref(a);
    if (!py_task_run(t, true, true))
        return false;
    PyObject *none = py_task_result(t);
    Py_XDECREF(none);
    return none != NULL;
}

/* The array when its elements are there. */
static kv_array *filled_elements(PyObject *self)
{
    kv_array *a = elements(self);
    return await_filled(a) ? a : NULL;
}

/* ---- The buffer protocol ---- */

static char *const formats[KV_DTYPE_END] = {
    [KV_FLOAT32] = "f",  [KV_FLOAT64] = "d", [KV_FLOAT16] = "e", [KV_UINT8] = "B",
    [KV_INT32] = "i",    [KV_INT8] = "b",    [KV_INT64] = "q",   [KV_BOOL] = "?",
    [KV_BFLOAT16] = "H", /* the protocol has no letter for it */
};

/* Waits, without the GIL, for what the store does with the array. */
static void *memory(kv_array *a, bool write)
{
    const void *from = NULL;
    void *data = NULL;
    kv_err e = {0};
    PyThreadState *gil = PyEval_SaveThread();
    if (kv_array_storage(a) == KV_ROW_SPARSE) {
        /* The rows of a row_sparse array that holds all of them are its elements. */
        if (kv_array_nrows(a) != kv_array_shape(a)[0]) {
            kv_err_set(&e, KV_E_UNSUPPORTED, "a row_sparse array does not hold all its elements");
            kv_err_hint(&e,
                        "tostype('default') makes a dense one, indices and data are what it holds");
        } else if (write) {
            kv_array_write_rows(a, &data, &e);
        } else {
            kv_array_read_rows(a, &from, &e);
        }
    } else if (write)
        kv_array_write(a, &data, &e);
    else
        kv_array_read(a, &from, &e);
    PyEval_RestoreThread(gil);
    if (e.code)
        py_raise(&e);
    return write ? data : (void *)from;
}

/* The array whose buffer host() asks for on this thread, and whether only to read. Others may ask
 * meanwhile, since a buffer is waited for without the GIL. */
static _Thread_local const PyObject *asked;
static _Thread_local bool only_reads;

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    py_array *o = (py_array *)self;
    static const char none[8];
    view->obj = NULL;
    bool by_host = asked == self, write = !o->read_only && !(by_host && only_reads);
    asked = NULL;
    kv_array *a = filled_elements(self);
    if (!a)
        return -1;
    if (!by_host && PyObject_TypeCheck(self, py.handed_sparse) &&
        kv_array_dtype(a) == KV_BFLOAT16) {
        /* NumPy would take the bits for numbers; it asks __array__ next, which knows better. */
        PyErr_SetString(PyExc_BufferError, "buffers have no numbers of bfloat16: asnumpy() does");
        return -1;
    }
    if (!write && (flags & PyBUF_WRITABLE)) {
        PyErr_SetString(PyExc_BufferError, "these elements are only read");
        return -1;
    }
    int ndim = kv_array_ndim(a);
    Py_ssize_t *sizes = PyMem_Malloc((size_t)(2 * ndim + 1) * sizeof *sizes);
    if (!sizes) {
        PyErr_NoMemory();
        return -1;
    }
    void *data = memory(a, write);
    if (PyErr_Occurred()) {
        PyMem_Free(sizes);
        return -1;
    }
    Py_ssize_t bytes = kv_dtype_bytes(kv_array_dtype(a));
    view->itemsize = bytes;
    for (int i = ndim - 1; i >= 0; i--) {
        sizes[i] = kv_array_shape(a)[i];
        sizes[ndim + i] = bytes;
        bytes *= sizes[i];
    }
    view->buf = data ? data : (void *)none;
    view->len = kv_array_size(a) * kv_dtype_bytes(kv_array_dtype(a));
    view->readonly = !write;
    view->ndim = ndim;
    view->format = flags & PyBUF_FORMAT ? formats[kv_array_dtype(a)] : NULL;
    view->shape = flags & PyBUF_ND ? sizes : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? sizes + ndim : NULL;
    view->suboffsets = NULL;
    view->internal = sizes;
    Py_INCREF(self);
    view->obj = self;
    o->buffers++;
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *view)
{
    PyMem_Free(view->internal);
    ((py_array *)self)->buffers--;
}

/* _host(write): a memoryview of the elements. */
static PyObject *host(PyObject *self, PyObject *write)
{
    asked = self;
    only_reads = !PyObject_IsTrue(write);
    return PyMemoryView_FromObject(self);
}

/* ---- Other arrays of one ---- */

/* _copy_from(array of any kind) */
static PyObject *copy_from(PyObject *self, PyObject *value)
{
    kv_array *a = filled_elements(self), *from = NULL;
    kv_err e = {0};
    py_batch *b = a ? py_batch_new() : NULL;
    if (!b)
        return NULL;
    bool good = py_pairs_array(value, false, b, &from) && await_filled(from);
    if (good) {
        PyThreadState *gil = PyEval_SaveThread();
        kv_array_copy(a, from, &e);
        PyEval_RestoreThread(gil);
    }
    kv_array_unref(from);
    good = py_batch_end(b, true) && good;
    if (e.code)
        return py_raise(&e);
    if (!good)
        return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *to_storage(PyObject *self, int (*to)(kv_array **, kv_array *, kv_err *))
{
    kv_array *a = filled_elements(self), *out = NULL;
    kv_err e = {0};
    int rc;
    if (!a)
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    rc = to(&out, a, &e);
    PyEval_RestoreThread(gil);
    return rc ? py_raise(&e) : py_array_new(Py_TYPE(self), out);
}

static PyObject *to_dense(PyObject *self, PyObject *none)
{
    (void)none;
    return to_storage(self, kv_array_to_dense);
}

static PyObject *to_sparse(PyObject *self, PyObject *none)
{
    (void)none;
    return to_storage(self, kv_array_to_sparse);
}

static int shape_of(PyObject *tuple, int64_t shape[KV_MAX_NDIM])
{
    Py_ssize_t n = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : KV_MAX_NDIM + 1;
    if (n > KV_MAX_NDIM) {
        py_fail(KV_E_SHAPE, "", "%R is not a shape", tuple);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (shape[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return (int)n;
}

/* _rows(): (ids as bytes of int64, elements as bytes) of a row_sparse array. */
static PyObject *rows(PyObject *self, PyObject *none)
{
    (void)none;
    kv_array *a = filled_elements(self);
    const void *data = NULL;
    kv_err e = {0};
    const int64_t *row_ids = NULL;
    int64_t n = 0;
    if (!a)
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    kv_array_read_rows(a, &data, &e);
    n = e.code ? 0 : kv_array_nrows(a);
    if (n)
        row_ids = kv_array_row_ids(a);
    PyEval_RestoreThread(gil);
    if (e.code)
        return py_raise(&e);
    int64_t ids = n * (int64_t)sizeof(int64_t);
    return Py_BuildValue("(y#y#)", n ? (const char *)row_ids : "", (Py_ssize_t)ids,
                         n ? (const char *)data : "", (Py_ssize_t)(kv_array_bytes(a) - ids));
}

static PyObject *wait_to_read(PyObject *self, PyObject *none)
{
    (void)none;
    return filled_elements(self) ? Py_NewRef(Py_None) : NULL;
}

/* ---- Attributes ---- */

static PyObject *get_shape(PyObject *self, void *closure)
{
    (void)closure;
    kv_array *a = elements(self);
    PyObject *shape = PyTuple_New(kv_array_ndim(a));
    for (int i = 0; shape && i < kv_array_ndim(a); i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(kv_array_shape(a)[i]));
    return shape;
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(kv_dtype_name(kv_array_dtype(elements(self))));
}

static PyObject *get_ctx(PyObject *self, void *closure)
{
    (void)closure;
    kv_array *a = elements(self);
    kv_ctx ctx = kv_array_ctx(a);
    return Py_BuildValue("(si)", ctx.device == KV_GPU ? "gpu" : "cpu", (int)ctx.id);
}

static PyObject *get_stype(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(kv_storage_name(kv_array_storage(elements(self))));
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(kv_array_bytes(elements(self)));
}

static PyObject *get_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(kv_array_size(elements(self)));
}

static PyObject *get_nrows(PyObject *self, void *closure)
{
    (void)closure;
    kv_array *a = filled_elements(self);
    int64_t n = 0;
    if (!a)
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    n = kv_array_nrows(a);
    PyEval_RestoreThread(gil);
    return PyLong_FromLongLong(n);
}

static PyObject *get_ndim(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(kv_array_ndim(elements(self)));
}

/* ---- Functions of the module ---- */

/* zeros(class, shape, dtype, ctx) */
static PyObject *zeros(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyTypeObject *class;
    int64_t shape[KV_MAX_NDIM];
    kv_dtype dtype;
    kv_ctx ctx;
    kv_array *a = NULL;
    kv_err e = {0};
    int ndim;
    if (!py_takes(n, 4) || !py_class(args[0], py.array, &class) ||
        (ndim = shape_of(args[1], shape)) < 0 || !py_dtype(args[2], &dtype) ||
        !py_ctx(args[3], &ctx))
        return NULL;
    return kv_array_new(&a, dtype, ndim, shape, ctx, &e) ? py_raise(&e) : py_array_new(class, a);
}

/* dup(class, values, dtype or None, ctx): a copy of an array of any kind. */
static PyObject *dup_array(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyTypeObject *class;
    kv_ctx ctx;
    kv_dtype dtype = KV_DTYPE_END;
    kv_array *from = NULL, *a = NULL;
    kv_err e = {0};
    py_batch *b = NULL;
    if (!py_takes(n, 4) || !py_class(args[0], py.array, &class) ||
        (args[2] != Py_None && !py_dtype(args[2], &dtype)) || !py_ctx(args[3], &ctx) ||
        !(b = py_batch_new()))
        return NULL;
    bool good = py_pairs_array(args[1], false, b, &from) && await_filled(from);
    if (good) {
        PyThreadState *gil = PyEval_SaveThread();
        kv_array_dup(&a, from, dtype == KV_DTYPE_END ? kv_array_dtype(from) : dtype, ctx, &e);
        PyEval_RestoreThread(gil);
    }
    kv_array_unref(from);
    good = py_batch_end(b, true) && good;
    if (e.code)
        return py_raise(&e);
    return good ? py_array_new(class, a) : NULL;
}

/* sparse(class, shape, dtype, ctx, row ids as bytes of int64, elements of these rows as bytes, or
 * None for zeros) */
static PyObject *sparse(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyTypeObject *class;
    int64_t shape[KV_MAX_NDIM];
    kv_dtype dtype;
    kv_ctx ctx;
    kv_array *a = NULL;
    kv_err e = {0};
    char *ids, *data = NULL;
    void *to;
    int ndim;
    Py_ssize_t bytes, given = 0;
    if (!py_takes(n, 6) || !py_class(args[0], py.array, &class) ||
        (ndim = shape_of(args[1], shape)) < 0 || !py_dtype(args[2], &dtype) ||
        !py_ctx(args[3], &ctx) || PyBytes_AsStringAndSize(args[4], &ids, &bytes) ||
        (args[5] != Py_None && PyBytes_AsStringAndSize(args[5], &data, &given)))
        return NULL;
    int64_t nrows = bytes / (int64_t)sizeof(int64_t);
    if (kv_array_new_sparse(&a, dtype, ndim, shape, nrows, (const int64_t *)ids, ctx, &e))
        return py_raise(&e);
    if (data && given != kv_array_bytes(a) - bytes)
        py_fail(KV_E_SHAPE, "", "%lld rows of this shape have %lld bytes, not %zd",
                (long long)nrows, (long long)(kv_array_bytes(a) - bytes), given);
    else if (data && nrows && !kv_array_write_rows(a, &to, &e))
        memcpy(to, data, (size_t)given);
    if (e.code)
        py_raise(&e);
    if (!PyErr_Occurred())
        return py_array_new(class, a);
    kv_array_unref(a);
    return NULL;
}

static PyObject *virtual_gpus(PyObject *module, PyObject *n)
{
    (void)module;
    kv_err e = {0};
    long count = PyLong_AsLong(n);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    if (kv_set_virtual_gpus((int)count, &e))
        return py_raise(&e);
    return Py_NewRef(Py_None);
}

/* settle(array of NumPy): waits for the calls without a waiter that use its memory. */
static PyObject *settle(PyObject *module, PyObject *array)
{
    (void)module;
    return py_pairs_settle(array, true) ? Py_NewRef(Py_None) : NULL;
}

#define FAST(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL

PyMethodDef py_array_functions[] = {
    {"zeros", FAST(zeros), NULL},
    {"dup", FAST(dup_array), NULL},
    {"sparse", FAST(sparse), NULL},
    {"dlpack", FAST(py_dlpack_give), NULL},
    {"settle", settle, METH_O, NULL},
    {"set_virtual_gpus", virtual_gpus, METH_O,
     "set_virtual_gpus(n): gpu(0) to gpu(n - 1) are memory of the CPU from now on; 0: no more."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef methods[] = {
    {"_host", host, METH_O, NULL},
    {"_copy_from", copy_from, METH_O, NULL},
    {"_dense", to_dense, METH_NOARGS, NULL},
    {"_sparse", to_sparse, METH_NOARGS, NULL},
    {"_rows", rows, METH_NOARGS, NULL},
    {"wait_to_read", wait_to_read, METH_NOARGS,
     "Waits until what the store writes into this array is there."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "The sizes of the axes.", NULL},
    {"ndim", get_ndim, NULL, "The number of axes.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"nbytes", get_nbytes, NULL, "The bytes of the elements, and of row ids.", NULL},
    {"stype", get_stype, NULL, "\"default\" or \"row_sparse\".", NULL},
    {"_nrows", get_nrows, NULL, NULL, NULL},
    {"_dtype", get_dtype, NULL, NULL, NULL},
    {"_ctx", get_ctx, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "An array of the store; kvstore.array has the classes that are used."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, get_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {0, NULL},
};

PyType_Spec py_array_spec = {
    .name = "kvstore._kvstore.Array",
    .basicsize = sizeof(py_array),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
