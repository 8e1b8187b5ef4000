/* _kvstore.Store: a store of the library as a Python object; kvstore/store.py inherits from it.
 *
 * Methods that move arrays are here, in the order and with the names that MXNet's have, because
 * what Python adds to a call of C is part of the cost of a step.
 */
#pragma once

#include "py_small.h"

typedef struct py_store {
    PyObject_HEAD
    kv *kv;           /* NULL once it is closed */
    int calls;        /* that threads are in */
    bool runs_python; /* its updater is a function of Python: calls wait for it */
    bool is_shared;   /* of several machines: a forked child has no part in it */
    bool told_ignored; /* that row_sparse outs are ignored */
    bool forked;      /* this process is such a child */
    bool watches;     /* its optimizer is an object, whose changes a push takes before it: */
    bool each_push;   /* a schedule of Python is called before each */
    uint64_t synced;  /* py.changes when it has */
    PyObject
        *function; /* that is its updater now, for the collector; the library has the reference */
    PyObject *raised; /* the first exception of an updater that no call has raised yet */
    py_small small;   /* see py_small.h */
    struct py_call *spare; /* memory for the next call, or NULL */
    PyObject *known;       /* a set of keys that calls have used, of several machines; or NULL */
    int ahead;             /* calls since nothing was under way, as far as that was asked */
    int64_t ahead_bytes;
    bool raised_early; /* an exception was raised before the library told its error */
    kv_err late;      /* an error that was found when a fork waited; kv_wait would have told it */
    struct py_store *next, **link; /* in the list of all open stores */
} py_store;

extern PyMethodDef py_store_functions[]; /* of the module */

/* Checks that s is open and of this process, and acts on what callbacks have left. Then a call may
 * use it until py_store_leave. Returns false with an exception. */
bool py_store_enter(py_store *s);
void py_store_leave(py_store *s);

/* Takes what was changed of the optimizer of s, before a push of these keys. Returns false with an
 * exception. */
bool py_store_sync(py_store *s, PyObject *keys);

/* The text of the library's error when an updater has raised an exception. */
#define PY_STORE_RAISED "the updater raised an exception"

/* The result of a call whose code is rc: None, or NULL with the exception that an updater raised,
 * else with e. */
PyObject *py_store_result(py_store *s, int rc, const kv_err *e);

/* An object over a store of the library, which it takes, also on failure. */
PyObject *py_store_adopt(PyTypeObject *class, kv *store);

/* The end of a store that is open: py_store_end waits for all of it. What remains of one whose end
 * another call makes: it is on no list any more, and then it is closed. */
void py_store_end(py_store *s);
void py_store_leave_list(py_store *s);
void py_store_closed(py_store *s);

/* The end of the object. */
void py_store_dealloc(PyObject *self);

/* For the collector: a store and a function that knows it hold each other. */
int py_store_traverse(PyObject *self, visitproc visit, void *arg);
int py_store_clear(PyObject *self);

/* ---- The class of stores (py_type.c, py_calls.c, py_updater.c) ---- */

/* With the methods that move no arrays. */
extern PyType_Spec py_type_store;

/* create(), load() and others that make stores or need none, and may wait. */
extern PyMethodDef py_type_functions[]; /* of the module */

/* Methods that move arrays, as vectorcalls with keywords. */
PyObject *py_calls_init(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_push(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_pull(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_pushpull(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_broadcast(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
PyObject *py_calls_row_sparse_pull(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                   PyObject *kw);

/* describe(topic) of the module, without a store. */
PyObject *py_type_describe(PyObject *module, PyObject *topic);

/* _set_updater(function): a function of Python as the updater; also None for ASSIGN. */
PyObject *py_updater_set(PyObject *self, PyObject *function);

/* The updater is a rule now, or none. */
void py_updater_gone(py_store *s);

/* Finds out what the updater is, after a rollback. */
void py_updater_look(py_store *s);
