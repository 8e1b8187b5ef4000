/* Questions about a store: its keys, and its description. */
#include "py_store.h"

#include "py_pairs.h"
#include "py_wait.h"

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

static int call_keys(py_task *t, kv_err *e)
{
    kv_info unused;
    int rc = t->keys ? kv_await_key(t->kv, t->keys, &unused, e) : KV_OK;
    return rc ? rc : kv_visit_keys(t->kv, t->keys, visit_key, t->list, e);
}

/* The list that a call has filled, or NULL with an exception. Ends t. */
static PyObject *made_list(py_task *t)
{
    if (!py_task_run(t, false))
        return NULL;
    PyObject *list = t->rc ? py_raise(&t->e) : Py_NewRef(t->list);
    py_task_free(t);
    return list;
}

/* A list of dicts, or NULL with an exception. key: the one that is asked for; NULL: all. */
static PyObject *ask_keys(PyObject *self, PyObject *key)
{
    py_task *t = py_task_new((py_store *)self, call_keys);
    if (!t)
        return NULL;
    t->list = PyList_New(0);
    t->keys = key ? PyMem_Malloc(sizeof *t->keys) : NULL;
    bool good = t->list && (!key || t->keys || PyErr_NoMemory());
    if (!good || (key && !py_pairs_key(key, t->keys, t->batch))) {
        py_task_free(t);
        return NULL;
    }
    return made_list(t);
}

/* _keys(): a dict for each key, in the order of updates. */
PyObject *py_ask_keys(PyObject *self, PyObject *none)
{
    (void)none;
    return ask_keys(self, NULL);
}

/* _find(key): the same of one key. */
PyObject *py_ask_find(PyObject *self, PyObject *key)
{
    PyObject *list = ask_keys(self, key);
    PyObject *result = list ? Py_NewRef(PyList_GetItem(list, 0)) : NULL;
    Py_XDECREF(list);
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

static int call_describe(py_task *t, kv_err *e)
{
    return kv_describe(t->kv, t->text, visit_row, t->list, e);
}

/* self: NULL for a topic without a store. */
static PyObject *describe(PyObject *self, PyObject *topic)
{
    const char *text = py_text(topic);
    py_task *t = text ? py_task_new((py_store *)self, call_describe) : NULL;
    if (!t)
        return NULL;
    t->text = text;
    t->list = PyList_New(0);
    if (!t->list || !py_batch_keep(t->batch, topic)) {
        py_task_free(t);
        return NULL;
    }
    return made_list(t);
}

PyObject *py_ask_describe(PyObject *self, PyObject *topic)
{
    return describe(self, topic);
}

PyObject *py_ask_describe_all(PyObject *module, PyObject *topic)
{
    (void)module;
    return describe(NULL, topic);
}
