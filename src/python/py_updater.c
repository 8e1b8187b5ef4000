/* Python in the middle of a push. */
#include "py_store.h"

#include <string.h>

#include "py_array.h"
#include "py_wait.h"

typedef struct updater {
    PyObject *function;
    py_store *store; /* outlives the updater: it is closed before it goes */
    py_later later;
} updater;

static void release(void *arg)
{
    updater *u = arg;
    Py_DECREF(u->function);
    PyMem_Free(u);
}

/* `done`, on a thread that may not have the GIL. */
static void give_back(void *arg)
{
    py_leave(&((updater *)arg)->later);
}

/* An array as the updater sees it. *holder has the store's own reference, so that it can be
 * written; the result is an NDArray of its memory, or of a row_sparse one *holder itself. */
static PyObject *lend(kv_array *a, bool read_only, PyObject **holder)
{
    bool sparse = kv_array_storage(a) == KV_ROW_SPARSE;
    kv_array_ref(a); /* which py_array_new gives back when it fails */
    *holder = py_array_new(sparse ? py.handed_sparse : py.array, a);
    if (!*holder)
        return NULL;
    kv_array_unref(a);
    ((py_array *)*holder)->lent = true;
    ((py_array *)*holder)->read_only = read_only;
    if (sparse)
        return Py_NewRef(*holder);
    PyObject *view = PyMemoryView_FromObject(*holder);
    kv_ctx ctx = kv_array_ctx(a);
    PyObject *o =
        view ? PyObject_CallFunction(py.lent, "Os(si)", view, kv_dtype_name(kv_array_dtype(a)),
                                     ctx.device == KV_GPU ? "gpu" : "cpu", (int)ctx.id)
             : NULL;
    Py_XDECREF(view);
    return o;
}

/* Objects that the updater keeps, or views of their elements, stay valid. */
static void take_back(PyObject *o, PyObject *holder)
{
    py_array *a = (py_array *)holder;
    Py_XDECREF(o);
    if (!a)
        return;
    if (Py_REFCNT(holder) > 1 || a->buffers > 0) {
        kv_array_ref(a->a);
        a->lent = false;
    }
    Py_DECREF(holder);
}

/* Keeps the exception that is set: the first one is raised by the call that waits. */
static int refuse(updater *u, const kv_key *key, kv_err *e)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace && value)
        PyException_SetTraceback(value, trace);
    PyObject *note =
        key->name
            ? PyUnicode_FromFormat("the updater of key \"%s\" raised this; the key keeps its value",
                                   key->name)
            : PyUnicode_FromFormat("the updater of key %lld raised this; the key keeps its value",
                                   (long long)key->id);
    PyObject *added = note && value ? PyObject_CallMethod(value, "add_note", "O", note) : NULL;
    Py_XDECREF(added);
    Py_XDECREF(note);
    PyErr_Clear();
    if (!u->store->raised && value) {
        Py_INCREF(value);
        u->store->raised = value;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return kv_err_set(e, KV_E_VALUE, PY_STORE_RAISED);
}

/* Warns of a result that nobody uses: `lambda key, input, stored: stored + input` changes nothing.
 * An updater may return `stored`. Returns false if the warning became an exception. */
static bool check_result(PyObject *result, PyObject *to)
{
    return result == Py_None || result == to ||
           PyErr_WarnEx(PyExc_RuntimeWarning,
                        "the updater returned a value, which is not used: it changes stored in "
                        "place, as in stored += input",
                        1) == 0;
}

static int call(void *arg, const kv_key *key, kv_array *input, kv_array *stored, kv_err *e)
{
    updater *u = arg;
    if (py.ending)
        return kv_err_set(e, KV_E_UNSUPPORTED, "the interpreter of the updater has ended");
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *k = key->name ? PyUnicode_FromString(key->name) : PyLong_FromLongLong(key->id);
    PyObject *in_holder = NULL, *to_holder = NULL;
    PyObject *in = lend(input, true, &in_holder), *to = lend(stored, false, &to_holder);
    py_updaters++;
    PyObject *result =
        k && in && to ? PyObject_CallFunctionObjArgs(u->function, k, in, to, NULL) : NULL;
    py_updaters--;
    bool good = result && check_result(result, to);
    int rc = good ? KV_OK : refuse(u, key, e); /* its traceback holds in and to: they stay valid */
    Py_XDECREF(result);
    take_back(in, in_holder);
    take_back(to, to_holder);
    Py_XDECREF(k);
    PyGILState_Release(gil);
    return rc;
}

static int call_set(py_task *t, kv_err *e)
{
    updater *u = t->arg;
    int rc = kv_set_updater(t->kv, u ? call : NULL, u, u ? give_back : NULL, e);
    if (rc && u)
        give_back(u);
    return rc;
}

PyObject *py_updater_set(PyObject *self, PyObject *function)
{
    py_store *s = (py_store *)self;
    bool none = function == Py_None;
    if (!none && !PyCallable_Check(function))
        return py_fail(KV_E_USAGE, "set_updater() takes a rule as text",
                       "%R is not a function(key, input, stored)", function);
    updater *u = none ? NULL : PyMem_Malloc(sizeof *u);
    if (!none && !u)
        return PyErr_NoMemory();
    py_task *t = py_task_new(s, call_set);
    if (!t) {
        PyMem_Free(u);
        return NULL;
    }
    if (u) {
        Py_INCREF(function);
        *u = (updater){.function = function, .store = s, .later = {.act = release, .arg = u}};
    }
    t->arg = u;
    bool before = s->runs_python;
    s->runs_python |= u != NULL; /* also where the call is interrupted */
    if (!py_task_run(t, true, false))
        return NULL;
    s->runs_python = t->rc ? before : u != NULL;
    if (!t->rc)
        s->function = u ? function : NULL;
    return py_task_result(t);
}

void py_updater_gone(py_store *s)
{
    s->runs_python = false;
    s->function = NULL;
}

static int see_updater(void *arg, const kv_field *fields, int n, kv_err *e)
{
    py_store *s = arg;
    (void)e;
    for (int i = 0; i < n; i++)
        if (!strcmp(fields[i].name, "updater"))
            s->runs_python = fields[i].text && !strcmp(fields[i].text, "callback");
    return KV_OK;
}

void py_updater_look(py_store *s)
{
    kv_err e = {0};
    PyThreadState *gil = PyEval_SaveThread();
    kv_describe(s->kv, "store", see_updater, s, &e);
    PyEval_RestoreThread(gil);
    s->function = NULL; /* which it was is not known: it is kept, and not collected */
}
