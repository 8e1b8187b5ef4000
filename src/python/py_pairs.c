/* From Python's keys and arrays to pairs. */
#include "py_pairs.h"

#include <string.h>

#include "py_array.h"
#include "py_dlpack.h"

/* The head of an array of NumPy, PyArrayObject_fields of its header ndarraytypes.h, which has been
 * the same from NumPy 1.7 to 2. py_pairs_know compares these fields of an array with what its
 * attributes say. Reading them takes 5 ns where the buffer protocol takes 150. */
typedef struct numpy_array {
    PyObject_HEAD char *data;
    int ndim;
    Py_ssize_t *shape, *strides;
    PyObject *base, *descr;
    int flags;
} numpy_array;

enum { DENSE = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400 };

void py_pairs_init(py_pairs *p)
{
    p->n = 0;
    p->cap = PY_PAIRS_INSIDE;
    p->packs = false;
    p->packed = (py_packed){0};
    p->small = NULL;
    p->keys = p->keys_inside;
    p->arrays = p->arrays_inside;
}

void py_pairs_let_go(py_pairs *p)
{
    for (int64_t i = 0; i < p->n; i++)
        if (!p->small || i >= p->small->n || p->arrays[i] != p->small->arrays[i])
            kv_array_unref(p->arrays[i]);
    p->n = 0;
}

void py_pairs_release(py_pairs *p)
{
    py_pairs_let_go(p);
    PyMem_Free(p->packed.data);
    if (p->keys != p->keys_inside) {
        PyMem_Free(p->keys);
        PyMem_Free(p->arrays);
    }
    py_pairs_init(p);
}

static bool grow(py_pairs *p)
{
    int64_t cap = p->cap * 8;
    kv_key *keys = PyMem_Malloc((size_t)cap * sizeof *keys);
    kv_array **arrays = PyMem_Malloc((size_t)cap * sizeof *arrays);
    if (!keys || !arrays) {
        PyMem_Free(keys);
        PyMem_Free(arrays);
        PyErr_NoMemory();
        return false;
    }
    memcpy(keys, p->keys, (size_t)p->n * sizeof *keys);
    memcpy(arrays, p->arrays, (size_t)p->n * sizeof *arrays);
    if (p->keys != p->keys_inside) {
        PyMem_Free(p->keys);
        PyMem_Free(p->arrays);
    }
    p->keys = keys;
    p->arrays = arrays;
    p->cap = cap;
    return true;
}

/* ---- Keys ---- */

bool py_pairs_key(PyObject *key, kv_key *out, py_batch *b)
{
    if (PyLong_Check(key)) {
        *out = (kv_key){.id = PyLong_AsLongLong(key)};
        if (out->id == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return py_fail(KV_E_KEY, "", "the key %R is not an integer of 64 bits", key);
        }
        return true;
    }
    if (PyUnicode_Check(key)) {
        Py_ssize_t n;
        const char *text = PyUnicode_AsUTF8AndSize(key, &n);
        if (!text) {
            PyErr_Clear();
            return py_fail(KV_E_KEY, "", "the key %R has no UTF-8 form", key);
        }
        if (strlen(text) != (size_t)n)
            return py_fail(KV_E_KEY, "", "the key %R has a NUL in it", key);
        *out = (kv_key){.name = text};
        return py_batch_keep(b, key); /* the text is the object's */
    }
    PyObject *number = PyIndex_Check(key) ? PyNumber_Index(key) : NULL;
    if (number) {
        bool good = py_pairs_key(number, out, b);
        Py_DECREF(number);
        return good;
    }
    PyErr_Clear();
    return py_fail(KV_E_USAGE, "keys are int or str, or a list of them", "%R is not a key", key);
}

/* ---- Arrays ---- */

static kv_dtype dtype_of(const PyObject *descr)
{
    int i = 0;
    while (i < KV_DTYPE_END && py.descr[i] != descr)
        i++;
    return (kv_dtype)i; /* KV_DTYPE_END: none of ours */
}

bool py_pairs_know(PyObject *array, void *data, Py_ssize_t rows, Py_ssize_t columns)
{
    const numpy_array *a = (numpy_array *)array;
    return a->ndim == 2 &&
           (a->flags & (DENSE | ALIGNED | WRITEABLE)) == (DENSE | ALIGNED | WRITEABLE) &&
           a->data == data && a->shape[0] == rows && a->shape[1] == columns &&
           dtype_of(a->descr) == KV_INT32;
}

/* Wraps memory that o keeps. */
static bool wrap(PyObject *o, void *data, kv_dtype dtype, int ndim, const int64_t *shape,
                 kv_ctx ctx, py_batch *b, kv_array **out)
{
    kv_err e = {0};
    static const char none = 0; /* an array without elements may have no memory */
    if (!data)
        data = (void *)&none;
    kv_array *seen = py_batch_seen(b, data, dtype, ndim, shape);
    if (seen) {
        *out = kv_array_ref(seen);
        return true;
    }
    if (!py_batch_keep(b, o))
        return false;
    if (kv_array_wrap(out, data, dtype, ndim, shape, ctx, py_batch_done, b, &e)) {
        py_raise(&e);
        return false;
    }
    py_batch_wrapped(b);
    return py_batch_see(b, data, *out);
}

/* ---- NDArrays, which are NumPy's ---- */

static bool is_ndarray(PyObject *o)
{
    return Py_TYPE(o) != py.ndarray && PyObject_TypeCheck(o, py.handed);
}

/* Whether it is an array of NumPy whose head says all: other subclasses come to adopt(), which
 * refuses masked arrays. */
static bool has_head(PyObject *o)
{
    return Py_TYPE(o) == py.ndarray || PyObject_TypeCheck(o, py.handed);
}

static bool ctx_of(PyObject *o, kv_ctx *ctx)
{
    PyObject *pair = PyObject_GetAttrString(o, "_ctx");
    bool good = pair && py_ctx(pair, ctx);
    Py_XDECREF(pair);
    return good;
}

/* The array of NumPy whose memory one is a view of. */
static const void *root_of(PyObject *o)
{
    while (((numpy_array *)o)->base && PyObject_TypeCheck(((numpy_array *)o)->base, py.ndarray))
        o = ((numpy_array *)o)->base;
    return o;
}

static bool shares(PyObject *o, const void *root)
{
    return PyObject_TypeCheck(o, py.ndarray) && root_of(o) == root;
}

bool py_pairs_settle(PyObject *array, bool write)
{
    return py_batch_settle(shares, root_of(array), write);
}

/* Returns false, without an exception, for one that is not as a kv_array wants it. */
static bool wrap_numpy(PyObject *o, bool write, py_batch *b, kv_array **out)
{
    kv_ctx ctx = {0};
    if (is_ndarray(o)) {
        if (!py_pairs_settle(o, write) || !ctx_of(o, &ctx))
            return false;
        if (ctx.device != KV_CPU && !write)
            return false; /* adopt() brings it to its device */
        ctx = ctx.device == KV_CPU ? ctx : (kv_ctx){0};
    }
    const numpy_array *a = (numpy_array *)o;
    int wanted = DENSE | ALIGNED | (write ? WRITEABLE : 0);
    kv_dtype dtype = dtype_of(a->descr);
    if ((a->flags & wanted) != wanted || dtype == KV_DTYPE_END || a->ndim > KV_MAX_NDIM)
        return false;
    return wrap(o, a->data, dtype, a->ndim, (const int64_t *)a->shape, ctx, b, out);
}

static bool take_adopted(PyObject *made, bool write, py_batch *b, kv_array **out)
{
    if (PyTuple_Check(made) && PyTuple_Size(made) == 3)
        return py_dlpack_take(made, b, out);
    if (PyTuple_Check(made)) {
        if (!b->copies && !(b->copies = PyList_New(0)))
            return false;
        if (PyList_Append(b->copies, made))
            return false;
        made = PyTuple_GetItem(made, 0);
    }
    if (PyObject_TypeCheck(made, py.array)) {
        *out = kv_array_ref(((py_array *)made)->a);
        return true;
    }
    if (PyObject_TypeCheck(made, py.ndarray) && wrap_numpy(made, write, b, out))
        return true;
    return !PyErr_Occurred() ? py_fail(KV_E_INTERNAL, "", "%R is not an array of the store", made)
                             : NULL;
}

bool py_pairs_array(PyObject *value, bool write, py_batch *b, kv_array **out)
{
    if (PyObject_TypeCheck(value, py.array)) {
        py_array *a = (py_array *)value;
        if (write && a->read_only)
            return py_fail(KV_E_USAGE, "", "the input of an updater is not written");
        *out = kv_array_ref(a->a);
        return true;
    }
    b->writes |= write;
    if (has_head(value) && wrap_numpy(value, write, b, out))
        return true;
    if (PyErr_Occurred())
        return false;
    PyObject *made =
        PyObject_CallFunctionObjArgs(py.adopt, value, write ? Py_True : Py_False, NULL);
    if (!made)
        return false;
    bool good = take_adopted(made, write, b, out);
    Py_DECREF(made);
    return good;
}

/* ---- Pairs ---- */

/* 1: the value is a record now, 0: it is not a small array of NumPy, -1: there is an exception. */
static int pack_numpy(py_pairs *p, PyObject *value)
{
    const numpy_array *a = (numpy_array *)value;
    int64_t bytes = 1;
    kv_ctx ctx = {0};
    if (!has_head(value) || (a->flags & (DENSE | ALIGNED)) != (DENSE | ALIGNED) || a->ndim > 8)
        return 0;
    kv_dtype dtype = dtype_of(a->descr);
    for (int i = 0; i < a->ndim && bytes <= PY_SMALL_BYTES; i++)
        bytes *= a->shape[i];
    if (dtype == KV_DTYPE_END || bytes > PY_SMALL_BYTES)
        return 0;
    bytes *= kv_dtype_bytes(dtype);
    if (bytes > PY_SMALL_BYTES)
        return 0;
    if (is_ndarray(value)) {
        if (!py_pairs_settle(value, false) || !ctx_of(value, &ctx))
            return -1;
        if (ctx.device != KV_CPU || ctx.id)
            return 0;
    }
    p->arrays[p->n] = NULL;
    return py_small_pack(&p->packed, dtype, a->ndim, (const int64_t *)a->shape, a->data,
                         (size_t)bytes)
               ? 1
               : -1;
}

static bool add_array(py_pairs *p, kv_key key, PyObject *value, bool write, py_batch *b)
{
    if (p->n == p->cap && !grow(p))
        return false;
    int packed = p->packs ? pack_numpy(p, value) : 0;
    if (packed < 0 || (!packed && !py_pairs_array(value, write, b, &p->arrays[p->n])))
        return false;
    p->keys[p->n++] = key;
    return true;
}

static bool is_list(PyObject *o)
{
    const PyTypeObject *type = Py_TYPE(o);
    if (type == py.ndarray || type == &PyLong_Type) /* almost all of many */
        return false;
    return PyList_Check(o) || PyTuple_Check(o);
}

static Py_ssize_t length(PyObject *list)
{
    return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list);
}

/* A new reference: what follows may run Python, which may change the list. NULL
 * with an exception. */
static PyObject *item(PyObject *list, Py_ssize_t i)
{
    PyObject *o = PyList_Check(list) ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i);
    Py_XINCREF(o);
    return o;
}

static bool add_values(py_pairs *p, PyObject *key, PyObject *values, bool write, py_batch *b)
{
    kv_key k;
    if (!py_pairs_key(key, &k, b))
        return false;
    if (!is_list(values))
        return add_array(p, k, values, write, b);
    for (Py_ssize_t i = 0; i < length(values); i++) {
        PyObject *value = item(values, i);
        bool good = value && add_array(p, k, value, write, b);
        Py_XDECREF(value);
        if (!good)
            return false;
    }
    return true;
}

/* Very many arrays are not in the caches: their heads, and then what they point to, are asked
 * for some items before they are needed. */
static void look_ahead(PyObject *values, Py_ssize_t i)
{
    if (!PyList_Check(values) || i + 16 >= PyList_Size(values)) /* keys may shorten it */
        return;
    const char *head = (const char *)PyList_GetItem(values, i + 16);
    __builtin_prefetch(head);
    __builtin_prefetch(head + 64);
    PyObject *next = PyList_GetItem(values, i + 8);
    if (Py_TYPE(next) == py.ndarray) {
        __builtin_prefetch(((numpy_array *)next)->data);
        __builtin_prefetch(((numpy_array *)next)->shape);
    }
}

bool py_pairs_add(py_pairs *p, PyObject *key, PyObject *value, bool write, py_batch *b)
{
    if (!is_list(key))
        return add_values(p, key, value, write, b);
    Py_ssize_t n = length(key);
    if (!is_list(value) || length(value) != n)
        return py_fail(KV_E_USAGE,
                       "a list of keys takes a list with an array, or a list of them, for each",
                       is_list(value) ? "a list of %zd key%s and a list of %zd"
                                      : "a list of %zd key%s and one array",
                       n, n == 1 ? "" : "s", is_list(value) ? length(value) : (Py_ssize_t)1);
    bool good = !Py_EnterRecursiveCall(" in a list of keys");
    if (!good)
        return false;
    for (Py_ssize_t i = 0; i < n && good; i++) {
        look_ahead(value, i);
        PyObject *k = item(key, i), *v = k ? item(value, i) : NULL;
        good = v && py_pairs_add(p, k, v, write, b);
        Py_XDECREF(k);
        Py_XDECREF(v);
    }
    Py_LeaveRecursiveCall();
    return good;
}

/* ---- Options ---- */

bool py_pairs_options(PyObject *dict, kv_opt **opts, int *n, py_batch *b)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    *opts = PyMem_Malloc((size_t)(PyDict_Size(dict) + 1) * sizeof **opts);
    if (!*opts) {
        PyErr_NoMemory();
        return false;
    }
    while (PyDict_Next(dict, &at, &key, &value)) {
        kv_opt o = {py_text(key), py_text(value)};
        if (!o.name || !o.value || !py_batch_keep(b, key) || !py_batch_keep(b, value))
            return false;
        (*opts)[(*n)++] = o;
    }
    return true;
}
