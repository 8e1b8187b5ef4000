/* Tensors of other libraries, and ours for them. */
#include "py_dlpack.h"

enum { DL_CPU = 1, DL_GPU = 2, DL_PINNED = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct dl_tensor {
    void *data;
    int32_t device, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* strides in elements; NULL: dense */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

static const struct dl_type {
    kv_dtype dtype;
    uint8_t code, bits;
} types[] = {
    {KV_FLOAT32, DL_FLOAT, 32}, {KV_FLOAT64, DL_FLOAT, 64}, {KV_FLOAT16, DL_FLOAT, 16},
    {KV_UINT8, DL_UINT, 8},     {KV_INT32, DL_INT, 32},     {KV_INT8, DL_INT, 8},
    {KV_INT64, DL_INT, 64},     {KV_BOOL, DL_BOOL, 8},      {KV_BFLOAT16, DL_BFLOAT, 16},
};
enum { NTYPES = sizeof types / sizeof *types };

/* The names of DLPack's types; behind those of several sizes the bits belong. */
static const char *const code_names[] = {
    "int", "uint", "float", "handle", "bfloat", "complex", "bool", "float8_e3m4",
    "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"};

static bool is_dense(const dl_tensor *t)
{
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0 && t->strides; i--) {
        if (t->shape[i] == 0)
            return true;
        if (t->shape[i] != 1 && t->strides[i] != step)
            return false;
        step *= t->shape[i];
    }
    return true;
}

bool py_dlpack_take(PyObject *tuple, py_batch *b, kv_array **out)
{
    PyObject *capsule = PyTuple_GetItem(tuple, 0);
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    kv_err e = {0};
    int i = 0;
    if (!m)
        return false;
    const dl_tensor *t = &m->tensor;
    while (i < NTYPES && (types[i].code != t->code || types[i].bits != t->bits || t->lanes != 1))
        i++;
    if (i == NTYPES) {
        bool known = t->code < sizeof code_names / sizeof *code_names;
        if (t->lanes != 1)
            return py_fail(KV_E_DTYPE, "", "the store has no elements of %d lanes", t->lanes);
        return py_fail(KV_E_DTYPE, "float() of PyTorch, astype('float32') of others give float32",
                       known && t->code >= DL_BOOL ? "the store has no dtype %s"
                                                   : "the store has no dtype %s%d",
                       known ? code_names[t->code] : "that is DLPack's ",
                       known ? t->bits : t->code);
    }
    if (t->device != DL_CPU && t->device != DL_PINNED && t->device != DL_GPU)
        return py_fail(KV_E_UNSUPPORTED, "", "the store reads no memory of DLPack's device %d",
                       t->device);
    if (!is_dense(t))
        return py_fail(KV_E_VALUE, "contiguous() of PyTorch gives a dense one",
                       "the elements of this tensor do not lie one behind the other");
    kv_ctx ctx = {.device = t->device == DL_GPU ? KV_GPU : KV_CPU,
                  .id = t->device == DL_GPU ? t->device_id : 0};
    static const char none = 0;
    void *data = t->data ? (char *)t->data + t->byte_offset : (void *)&none;
    kv_array *seen = py_batch_seen(b, data, types[i].dtype, t->ndim, t->shape);
    if (seen) {
        *out = kv_array_ref(seen);
        return true;
    }
    /* The memory stays until the capsule goes, which nobody else takes the tensor out of. */
    if (!py_batch_keep(b, capsule))
        return false;
    if (kv_array_wrap(out, data, types[i].dtype, t->ndim, t->shape, ctx, py_batch_done, b, &e))
        return py_raise(&e);
    py_batch_wrapped(b);
    return py_batch_see(b, data, *out);
}

/* ---- Ours ---- */

typedef struct given {
    dl_managed managed;
    Py_buffer view;
    int64_t sizes[]; /* shape, then strides */
} given;

/* Any thread of another library may call it. */
static void delete (dl_managed *m)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    given *g = m->context;
    PyBuffer_Release(&g->view);
    PyMem_Free(g);
    PyGILState_Release(gil);
}

/* Releases the tensor of a capsule that nobody took. */
static void drop(PyObject *capsule)
{
    dl_managed *m =
        PyCapsule_IsValid(capsule, "dltensor") ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
    if (m)
        m->deleter(m);
}

PyObject *py_dlpack_give(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    kv_dtype dtype;
    Py_buffer view;
    int i = 0;
    if (!py_takes(n, 2) || !py_dtype(args[1], &dtype) ||
        PyObject_GetBuffer(args[0], &view, PyBUF_WRITABLE | PyBUF_STRIDES))
        return NULL;
    int ndim = view.ndim;
    given *g = PyMem_Malloc(sizeof *g + (size_t)(2 * ndim) * sizeof *g->sizes);
    if (!g) {
        PyBuffer_Release(&view);
        return PyErr_NoMemory();
    }
    g->view = view;
    while (i < NTYPES && types[i].dtype != dtype)
        i++;
    for (int axis = 0; axis < ndim; axis++) {
        g->sizes[axis] = view.shape[axis];
        g->sizes[ndim + axis] = view.strides[axis] / view.itemsize;
    }
    g->managed = (dl_managed){.tensor = {.data = g->view.buf,
                                         .device = DL_CPU,
                                         .ndim = ndim,
                                         .code = types[i].code,
                                         .bits = types[i].bits,
                                         .lanes = 1,
                                         .shape = g->sizes,
                                         .strides = g->sizes + ndim},
                              .context = g,
                              .deleter = delete};
    PyObject *capsule = PyCapsule_New(&g->managed, "dltensor", drop);
    if (!capsule)
        delete (&g->managed);
    return capsule;
}
