/* The module: what it is made of. */
#include "py_state.h"

#include <stdlib.h>

#include "py_array.h"
#include "py_batch.h"
#include "py_pairs.h"
#include "py_store.h"

/* Takes an attribute of the configuration. Returns false with an exception. */
static bool take(PyObject *from, const char *name, PyObject **to)
{
    PyObject *o = PyObject_GetAttrString(from, name);
    if (!o)
        return false;
    Py_XDECREF(*to);
    *to = o;
    return true;
}

/* configure(object with the attributes of py_state, an array of int32 with two
 * axes, its address) */
static PyObject *configure(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyObject *dtypes = NULL, *handed = NULL, *sparse = NULL, *ndarray = NULL;
    /* The objects below are those of one interpreter. */
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError,
                        "kvstore is for the main interpreter of a process alone");
        return NULL;
    }
    if (!py_takes(n, 3) || !take(args[0], "error", &py.error) ||
        !take(args[0], "adopt", &py.adopt) || !take(args[0], "copy_back", &py.copy_back) ||
        !take(args[0], "lent", &py.lent) || !take(args[0], "log", &py.log) ||
        !take(args[0], "write", &py.write) || !take(args[0], "handed", &handed) ||
        !take(args[0], "handed_sparse", &sparse) || !take(args[0], "ndarray", &ndarray) ||
        !take(args[0], "dtypes", &dtypes))
        return NULL;
    py.handed = (PyTypeObject *)handed;
    py.handed_sparse = (PyTypeObject *)sparse;
    py.ndarray = (PyTypeObject *)ndarray;
    PyObject *number, *descr;
    for (Py_ssize_t at = 0; PyDict_Next(dtypes, &at, &number, &descr);) {
        Py_INCREF(descr);
        py.descr[PyLong_AsLong(number)] = descr;
    }
    Py_DECREF(dtypes);
    if (!py_pairs_know(args[1], PyLong_AsVoidPtr(args[2]), 2, 3)) {
        PyErr_SetString(PyExc_ImportError, "kvstore does not know the arrays of this NumPy");
        return NULL;
    }
    py.ahead_is_set = getenv("KVSTORE_AHEAD") != NULL;
    kv_set_log(py_note, NULL);
    return Py_NewRef(Py_None);
}

/* optimizer(i): (name, text) of the i-th optimizer of the library, None behind the last. */
static PyObject *optimizer(PyObject *module, PyObject *i)
{
    (void)module;
    const char *name, *text = kv_optimizer_text((int)PyLong_AsLong(i), &name);
    if (PyErr_Occurred())
        return NULL;
    return text ? Py_BuildValue("(ss)", name, text) : Py_NewRef(Py_None);
}

static PyObject *capability(PyObject *module, PyObject *i)
{
    (void)module;
    const char *name = kv_capability((int)PyLong_AsLong(i));
    return PyErr_Occurred() ? NULL : name ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
}

static PyObject *register_name(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    kv_err e = {0};
    const char *name = n == 2 ? py_text(args[0]) : NULL;
    const char *base = name ? py_text(args[1]) : NULL;
    if (!base)
        return NULL;
    return kv_register_name(name, base, &e) ? py_raise(&e) : Py_NewRef(Py_None);
}

static PyObject *load_plugin(PyObject *module, PyObject *path)
{
    (void)module;
    kv_err e = {0};
    int rc;
    const char *text = py_text(path);
    if (!text)
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    rc = kv_load_plugin(text, &e);
    PyEval_RestoreThread(gil);
    return rc ? py_raise(&e) : Py_NewRef(Py_None);
}

/* changed(): an optimizer or a schedule was. */
static PyObject *changed(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    py.changes++;
    return Py_NewRef(Py_None);
}

static PyObject *open_calls(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    py_drain();
    return PyLong_FromLongLong(py_batch_open());
}

/* (rank, number of workers, whether a store has joined them). */
static PyObject *job(PyObject *self, PyObject *unused)
{
    int rank, workers;
    (void)self, (void)unused;
    bool joined = kv_job(&rank, &workers);
    return Py_BuildValue("(iiO)", rank, workers, joined ? Py_True : Py_False);
}

static PyMethodDef functions[] = {
    {"configure", (PyCFunction)(void (*)(void))configure, METH_FASTCALL, NULL},
    {"describe", py_type_describe, METH_O,
     "describe(topic): the rows of \"types\" or \"gpus\", a dict each; kvstore.h lists their "
     "fields."},
    {"optimizer", optimizer, METH_O, NULL},
    {"capability", capability, METH_O, NULL},
    {"register_name", (PyCFunction)(void (*)(void))register_name, METH_FASTCALL, NULL},
    {"load_plugin", load_plugin, METH_O,
     "load_plugin(path): loads a plugin, whose store types create() then makes."},
    {"job", job, METH_NOARGS, NULL},
    {"changed", changed, METH_NOARGS, NULL},
    {"open_calls", open_calls, METH_NOARGS, "How many calls of wait=False still use arrays."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kvstore._kvstore",
    .m_doc = "The public functions of libkvstore.",
    .m_size = -1, /* one library, one module: no second interpreter has it */
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__kvstore(void)
{
    PyObject *m = PyModule_Create(&definition);
    if (!m)
        return NULL;
    py.array = (PyTypeObject *)PyType_FromSpec(&py_array_spec);
    py.store = (PyTypeObject *)PyType_FromSpec(&py_type_store);
    if (!py.array || !py.store || PyModule_AddFunctions(m, py_array_functions) ||
        PyModule_AddFunctions(m, py_store_functions) ||
        PyModule_AddFunctions(m, py_type_functions) ||
        PyModule_AddObjectRef(m, "Array", (PyObject *)py.array) ||
        PyModule_AddObjectRef(m, "Store", (PyObject *)py.store) ||
        PyModule_AddStringConstant(m, "version", kv_version())) {
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
