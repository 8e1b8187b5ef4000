/* Calls of the library without arrays: all that one uses lives as long as it runs, also where its
 * caller was interrupted (py_wait.h).
 */
#ifndef PYTHON_PY_TASK_H
#define PYTHON_PY_TASK_H

#include "py_batch.h"
#include "py_store.h"
#include "py_wait.h"

typedef struct py_task {
    py_work work;
    int (*call)(struct py_task *t, kv_err *e);
    py_store *store; /* with a reference while the call is in it; or NULL */
    kv *kv;          /* of store, or one that the call has made */
    py_batch *batch; /* keeps the objects that the arguments below are of */
    kv_err e;
    int rc;
    const void *what;
    void *arg;
    const char *text;
    int number;
    kv_opt *opts; /* of PyMem, or NULL */
    int nopts;
    kv_key *keys; /* of PyMem, or NULL */
    int64_t nkeys;
    PyObject *list;  /* a reference, or NULL */
    kv_array *array; /* a reference, or NULL */
} py_task;

/* NULL with an exception. store: the call is in it until py_task_free; NULL for none. */
py_task *py_task_new(py_store *store, int (*call)(py_task *t, kv_err *e));

/* Makes the call, on a thread of its own where it may wait for others: always, or where the store
 * is of several machines or its updater is Python's. Returns false with an exception of a signal's
 * handler: t is gone then. */
bool py_task_run(py_task *t, bool always);

/* Ends t: None, or NULL with the exception of the call. */
PyObject *py_task_result(py_task *t);
void py_task_free(py_task *t);

#endif
