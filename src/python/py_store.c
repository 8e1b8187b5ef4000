/* Stores as Python objects. */
#include "py_store.h"

#include <string.h>

#include "py_wait.h"

static py_store *open_stores; /* guarded by the GIL */

/* ---- Life ---- */

void py_store_leave_list(py_store *s)
{
    if (s->link)
        *s->link = s->next;
    if (s->link && s->next)
        s->next->link = s->link;
    s->link = NULL;
}

bool py_store_enter(py_store *s)
{
    py_drain();
    if (!s->kv)
        return py_fail(KV_E_USAGE, "", "this store is closed");
    if (s->forked)
        return py_fail(
            KV_E_UNSUPPORTED, "make a store of its own there, before or instead of fork",
            "this store of several machines belongs to the process that forked this one");
    s->calls++;
    return true;
}

void py_store_leave(py_store *s)
{
    s->calls--;
}

bool py_store_sync(py_store *s, PyObject *keys)
{
    if (!s->watches || (!s->each_push && s->synced == py.changes))
        return true;
    uint64_t changes = py.changes;
    PyObject *done = PyObject_CallMethod((PyObject *)s, "_sync", "O", keys);
    if (done)
        s->synced = changes; /* a push that failed here tries again */
    Py_XDECREF(done);
    return done != NULL;
}

PyObject *py_store_result(py_store *s, int rc, const kv_err *e)
{
    if (s->raised) {
        PyObject *value = s->raised, *type = (PyObject *)Py_TYPE(value);
        s->raised = NULL;
        s->raised_early = !rc || strcmp(e->text, PY_STORE_RAISED) != 0; /* which comes later */
        PyObject *trace = PyException_GetTraceback(value);
        Py_INCREF(type);
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    if (PyErr_Occurred())
        return NULL;
    if (rc && s->raised_early && !strcmp(e->text, PY_STORE_RAISED))
        s->raised_early = false;
    else if (rc)
        return py_raise(e);
    return Py_NewRef(Py_None);
}

void py_store_closed(py_store *s)
{
    s->runs_python = false;
    s->function = NULL;
    py_small_release(&s->small);
    py_drain();
}

void py_store_end(py_store *s)
{
    kv *store = s->kv;
    s->kv = NULL;
    py_store_leave_list(s);
    if (s->forked)
        return; /* the other ranks and its threads are the parent's */
    PyThreadState *gil = PyEval_SaveThread();
    kv_free(store);
    PyEval_RestoreThread(gil);
    py_store_closed(s);
}

int py_store_traverse(PyObject *self, visitproc visit, void *arg)
{
    py_store *s = (py_store *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(s->function);
    Py_VISIT(s->raised);
    return 0;
}

int py_store_clear(PyObject *self)
{
    py_store *s = (py_store *)self;
    if (s->kv && s->calls == 0)
        py_store_end(s);
    Py_CLEAR(s->raised);
    return 0;
}

void py_store_dealloc(PyObject *self)
{
    py_store *s = (py_store *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject *t, *v, *tb;
    PyObject_GC_UnTrack(self);
    PyErr_Fetch(&t, &v, &tb);
    if (s->kv)
        py_store_end(s);
    PyErr_Restore(t, v, tb);
    Py_XDECREF(s->raised);
    PyMem_Free(s->spare);
    Py_XDECREF(s->known);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Receives lines of rules. */
static void print_line(void *arg, const char *line)
{
    (void)arg;
    if (py.ending)
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *done = PyObject_CallFunction(py.write, "s", line);
    if (!done)
        PyErr_WriteUnraisable(NULL);
    Py_XDECREF(done);
    PyGILState_Release(gil);
}

/* An object over a store of the library, which it takes, also on failure. */
PyObject *py_store_adopt(PyTypeObject *class, kv *store)
{
    py_store *s = (py_store *)PyType_GenericAlloc(class, 0);
    if (!s) {
        kv_free(store);
        return NULL;
    }
    const char *type = kv_type(store);
    s->kv = store;
    s->is_shared = strncmp(type, "dist", 4) == 0 || strcmp(type, "horovod") == 0 ||
                   strcmp(type, "byteps") == 0;
    kv_set_print(store, print_line, s);
    s->next = open_stores;
    if (s->next)
        s->next->link = &s->next;
    s->link = &open_stores;
    open_stores = s;
    return (PyObject *)s;
}

/* ---- Fork, and the end of the process ---- */

/* before_fork(): a child has no threads but one, so nothing may be pending. */
static PyObject *before_fork(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    for (py_store *s = open_stores, *next; s && s->kv; s = next) {
        kv_err e = {0};
        Py_INCREF((PyObject *)s);
        s->calls++;
        PyThreadState *gil = PyEval_SaveThread();
        kv_wait(s->kv, &e);
        PyEval_RestoreThread(gil);
        s->calls--;
        if (e.code && !s->late.code)
            s->late = e;
        next = s->next;
        Py_DECREF((PyObject *)s);
    }
    return Py_NewRef(Py_None);
}

static PyObject *after_fork(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    py_wait_after_fork();
    for (py_store *s = open_stores; s; s = s->next)
        s->forked = s->is_shared;
    return Py_NewRef(Py_None);
}

/* end(): closes all stores, while updaters can still run. */
static PyObject *end_all(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    py_store *s = open_stores;
    while (s) {
        if (s->calls > 0) { /* a thread that is in it will not come back */
            s = s->next;
            continue;
        }
        Py_INCREF((PyObject *)s);
        py_store_end(s); /* leaves the list, which others may change meanwhile */
        Py_DECREF((PyObject *)s);
        s = open_stores;
    }
    py.ending = true;
    return Py_NewRef(Py_None);
}

/* ---- Calls without arrays ---- */

static void run_task(py_work *w)
{
    py_task *t = (py_task *)w;
    t->rc = t->call(t, &t->e);
}

/* The error of a call that was interrupted is that of the next wait; a store that it made goes. */
static void end_task(py_work *w)
{
    py_task *t = (py_task *)w;
    if (t->store && t->rc && !t->store->late.code)
        t->store->late = t->e;
    if (!t->store && t->kv) {
        PyThreadState *gil = PyEval_SaveThread();
        kv_free(t->kv);
        PyEval_RestoreThread(gil);
    }
    py_task_free(t);
}

py_task *py_task_new(py_store *store, int (*call)(py_task *t, kv_err *e))
{
    if (store && !py_store_enter(store))
        return NULL;
    py_task *t = PyMem_Calloc(1, sizeof *t);
    if (t)
        t->batch = py_batch_new();
    if (!t || !t->batch) {
        if (store)
            py_store_leave(store);
        PyMem_Free(t);
        return (py_task *)PyErr_NoMemory();
    }
    t->work = (py_work){.run = run_task, .end = end_task};
    t->call = call;
    t->store = store;
    t->kv = store ? store->kv : NULL;
    Py_XINCREF((PyObject *)store);
    return t;
}

bool py_task_run(py_task *t, bool good, bool always)
{
    if (!good) {
        py_task_free(t);
        return false;
    }
    return py_wait_run(&t->work,
                       always || (t->store && (t->store->is_shared || t->store->runs_python)));
}

PyObject *py_task_result(py_task *t)
{
    py_drain();
    PyObject *result = t->store ? py_store_result(t->store, t->rc, &t->e)
                       : t->rc  ? py_raise(&t->e)
                                : Py_NewRef(Py_None);
    py_task_free(t);
    return result;
}

void py_task_free(py_task *t)
{
    py_batch_end(t->batch, false);
    PyMem_Free(t->opts);
    PyMem_Free(t->keys);
    Py_XDECREF(t->list);
    kv_array_unref(t->array);
    if (t->store)
        py_store_leave(t->store);
    Py_XDECREF((PyObject *)t->store);
    PyMem_Free(t);
}

PyMethodDef py_store_functions[] = {
    {"before_fork", before_fork, METH_NOARGS, NULL},
    {"after_fork", after_fork, METH_NOARGS, NULL},
    {"end", end_all, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
