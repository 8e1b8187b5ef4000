/* Calls of the library without arrays. */
#include "py_task.h"

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

bool py_task_run(py_task *t, bool always)
{
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
