/* Stores as Python objects. */
#include "py_store.h"

#include <string.h>

#include "py_pairs.h"
#include "py_wait.h"

static py_store *open_stores; /* guarded by the GIL */

/* ---- Life ---- */

static void join_list(py_store *s)
{
    s->next = open_stores;
    if (s->next)
        s->next->link = &s->next;
    s->link = &open_stores;
    open_stores = s;
}

static void leave_list(py_store *s)
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

static void closed(py_store *s)
{
    s->runs_python = false;
    s->function = NULL;
    py_small_release(&s->small);
    py_drain();
}

static void close_store(py_store *s)
{
    kv *store = s->kv;
    s->kv = NULL;
    leave_list(s);
    if (s->forked)
        return; /* the other ranks and its threads are the parent's */
    PyThreadState *gil = PyEval_SaveThread();
    kv_free(store);
    PyEval_RestoreThread(gil);
    closed(s);
}

static int call_free(py_task *t, kv_err *e)
{
    (void)e;
    kv_free(t->kv);
    return KV_OK;
}

PyObject *py_store_close(PyObject *self, PyObject *none)
{
    (void)none;
    py_store *s = (py_store *)self;
    if (s->calls > 0)
        return py_fail(KV_E_BUSY, "", "another thread is in a call of this store");
    if (s->kv && s->forked)
        close_store(s);
    if (s->kv) {
        py_task *t = py_task_new(s, call_free);
        if (!t)
            return NULL;
        s->kv = NULL;
        leave_list(s);
        if (!py_task_run(t, false))
            return NULL;
        closed(s);
        py_task_free(t);
    }
    return py_store_result(s, KV_OK, NULL); /* what an updater raised since the last call */
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
        close_store(s);
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
        close_store(s);
    PyErr_Restore(t, v, tb);
    Py_XDECREF(s->raised);
    py_calls_forget(s);
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
static PyObject *adopt_store(PyTypeObject *class, kv *store)
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
    join_list(s);
    return (PyObject *)s;
}

static int call_create(py_task *t, kv_err *e)
{
    return kv_create(t->text, t->opts, t->nopts, &t->kv, e);
}

static int call_load(py_task *t, kv_err *e)
{
    return kv_load(&t->kv, t->text, e);
}

/* The object for the store that a call makes. */
static PyObject *make(py_task *t, PyTypeObject *class, bool good)
{
    if (!good) {
        py_task_free(t);
        return NULL;
    }
    if (!py_task_run(t, true))
        return NULL;
    py_drain();
    PyObject *o = t->rc ? py_raise(&t->e) : adopt_store(class, t->kv);
    py_task_free(t);
    return o;
}

/* create(class, type, options as a dict of texts) */
static PyObject *create(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyTypeObject *class;
    const char *type = n == 3 && py_class(args[0], py.store, &class) ? py_text(args[1]) : NULL;
    py_task *t = type ? py_task_new(NULL, call_create) : NULL;
    if (!t)
        return NULL;
    t->text = type;
    return make(t, class,
                py_batch_keep(t->batch, args[1]) &&
                    py_pairs_options(args[2], &t->opts, &t->nopts, t->batch));
}

/* load(class, path) */
static PyObject *load(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyTypeObject *class;
    const char *path = n == 2 && py_class(args[0], py.store, &class) ? py_text(args[1]) : NULL;
    py_task *t = path ? py_task_new(NULL, call_load) : NULL;
    if (!t)
        return NULL;
    t->text = path;
    return make(t, class, py_batch_keep(t->batch, args[1]));
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
        close_store(s); /* leaves the list, which others may change meanwhile */
        Py_DECREF((PyObject *)s);
        s = open_stores;
    }
    py.ending = true;
    return Py_NewRef(Py_None);
}

#define FAST(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL

PyMethodDef py_store_functions[] = {
    {"create", FAST(create), NULL},
    {"load", FAST(load), NULL},
    {"before_fork", before_fork, METH_NOARGS, NULL},
    {"after_fork", after_fork, METH_NOARGS, NULL},
    {"end", end_all, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
