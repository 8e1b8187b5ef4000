/* Questions about a store: its keys, and its description. */
#include "py_ask.h"

#include "py_pairs.h"
#include "py_store.h"

PyObject *py_ask_capable(PyObject *self, PyObject *what)
{
    py_store *s = (py_store *)self;
    kv_err e = {0};
    bool yes = false;
    int rc;
    const char *text = py_text(what);
    if (!text || !py_store_enter(s))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    rc = kv_is_capable(s->kv, text, &yes, &e);
    PyEval_RestoreThread(gil);
    py_store_leave(s);
    return rc ? py_raise(&e) : PyBool_FromLong(yes);
}

static PyObject *info_dict(const kv_info *i)
{
    PyObject *shape = PyTuple_New(i->ndim);
    for (int axis = 0; shape && axis < i->ndim; axis++)
        PyTuple_SetItem(shape, axis, PyLong_FromLongLong(i->shape[axis]));
    PyObject *key =
        i->key.name ? PyUnicode_FromString(i->key.name) : PyLong_FromLongLong(i->key.id);
    if (!shape || !key) {
        Py_XDECREF(shape);
        Py_XDECREF(key);
        return NULL;
    }
    return Py_BuildValue("{sN ss sN s(si) sL sL sL ss}", "key", key, "dtype",
                         kv_dtype_name(i->dtype), "shape", shape, "ctx",
                         i->ctx.device == KV_GPU ? "gpu" : "cpu", (int)i->ctx.id, "bytes",
                         (long long)i->bytes, "pushes", (long long)i->pushes, "pending",
                         (long long)i->pending, "stype", kv_storage_name(i->storage));
}

/* For kv_visit_keys, since another thread may delete the key behind it: appends a dict to a list.
 */
static int visit_key(void *list, const kv_info *info, kv_err *e)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *dict = info_dict(info);
    bool good = dict && !PyList_Append(list, dict);
    Py_XDECREF(dict);
    PyErr_Clear();
    PyGILState_Release(gil);
    return good ? KV_OK : kv_err_set(e, KV_E_MEMORY, "no memory for the description of a key");
}

/* _keys(): a dict for each key, in the order of updates. */
PyObject *py_ask_keys(PyObject *self, PyObject *none)
{
    (void)none;
    py_store *s = (py_store *)self;
    kv_err e = {0};
    PyObject *list = PyList_New(0);
    if (!list || !py_store_enter(s)) {
        Py_XDECREF(list);
        return NULL;
    }
    PyThreadState *gil = PyEval_SaveThread();
    int rc = kv_visit_keys(s->kv, NULL, visit_key, list, &e);
    PyEval_RestoreThread(gil);
    py_store_leave(s);
    if (!rc)
        return list;
    Py_DECREF(list);
    return py_raise(&e);
}

/* _find(key): the same of one key. */
PyObject *py_ask_find(PyObject *self, PyObject *key)
{
    py_store *s = (py_store *)self;
    kv_info unused;
    kv_key k;
    kv_err e = {0};
    int rc = KV_OK;
    if (!py_store_enter(s))
        return NULL;
    PyObject *list = PyList_New(0);
    py_batch *b = list ? py_batch_new() : NULL;
    bool good = b && py_pairs_key(key, &k, b);
    if (good) {
        PyThreadState *gil = PyEval_SaveThread();
        if (!(rc = kv_await_key(s->kv, &k, &unused, &e)))
            rc = kv_visit_keys(s->kv, &k, visit_key, list, &e);
        PyEval_RestoreThread(gil);
    }
    PyObject *result = !good ? NULL : rc ? py_raise(&e) : Py_NewRef(PyList_GetItem(list, 0));
    Py_XDECREF(list);
    if (b)
        py_batch_end(b, true);
    py_store_leave(s);
    return result;
}

static int visit_row(void *arg, const kv_field *fields, int n, kv_err *e)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *dict = PyDict_New();
    bool good = dict != NULL;
    for (int i = 0; i < n && good; i++) {
        PyObject *value = fields[i].text ? PyUnicode_FromString(fields[i].text)
                                         : PyLong_FromLongLong(fields[i].number);
        good = value && !PyDict_SetItemString(dict, fields[i].name, value);
        Py_XDECREF(value);
    }
    good = good && !PyList_Append(arg, dict);
    Py_XDECREF(dict);
    PyErr_Clear();
    PyGILState_Release(gil);
    return good ? KV_OK : kv_err_set(e, KV_E_MEMORY, "no memory for a description");
}

static PyObject *describe(kv *store, PyObject *topic)
{
    kv_err e = {0};
    int rc;
    const char *text = py_text(topic);
    PyObject *list = text ? PyList_New(0) : NULL;
    if (!list)
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    rc = kv_describe(store, text, visit_row, list, &e);
    PyEval_RestoreThread(gil);
    if (!rc)
        return list;
    Py_DECREF(list);
    return py_raise(&e);
}

PyObject *py_ask_describe(PyObject *self, PyObject *topic)
{
    py_store *s = (py_store *)self;
    if (!py_store_enter(s))
        return NULL;
    PyObject *list = describe(s->kv, topic);
    py_store_leave(s);
    return list;
}

PyObject *py_ask_describe_all(PyObject *module, PyObject *topic)
{
    (void)module;
    return describe(NULL, topic);
}
