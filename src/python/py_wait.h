/* Calls of the library that may wait, for other ranks, for an updater, for a disk.
 *
 * Such a call runs on a thread of its own, and its caller waits for it in slices: between two of
 * them it takes the GIL, tells what the library has logged and looks for signals. So a job that
 * hangs says why while it hangs, and Ctrl-C ends the call. What was interrupted goes on without its
 * caller: the work owns all memory that it uses, and gives it back when it has ended.
 */
#pragma once

#include "py_batch.h"
#include "py_store.h"

typedef struct py_work {
    void (*run)(struct py_work *w); /* without the GIL, on any thread */
    void (*end)(struct py_work *w); /* with it, where the caller was interrupted: releases w */
    const char *name; /* of the call, or NULL; and its key, or NULL: borrowed */
    PyObject *key;
    bool ended, left_alone;         /* under the lock of py_wait.c */
    py_later later;
} py_work;

/* Runs w. away: on a thread of its own, unless this thread runs an updater, which the library must
 * recognise when it calls. Returns false with an exception if the handler of a signal has raised
 * one: w is not the caller's any more then, w->end releases it. */
bool py_wait_run(py_work *w, bool away);

/* Between two slices of a wait, with the GIL: notes the place where the script waits, "pull w,
 * train.py:7", for kv_set_script, if this thread is the only one of Python and no timer will
 * interrupt it. name, key: of the call; NULL: that of the function of the module. */
void py_wait_note(const char *name, PyObject *key);

/* This thread waits in slices from now on, and does nothing else; or it does no more. */
void py_wait_script(bool begins);

/* In the child of a fork, which has no other threads. */
void py_wait_after_fork(void);

/* ---- Calls without arrays (in py_store.c) ----
 *
 * All that one uses lives as long as it runs, also where its caller was interrupted. */

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

/* Makes the call if t holds all that it needs (good), on a thread of its own where it may wait for
 * others: always, or where the store is of several machines or its updater is Python's. Returns
 * false with the exception of what is missing or of a signal's handler: t is gone then. */
bool py_task_run(py_task *t, bool good, bool always);

/* Ends t: None, or NULL with the exception of the call. */
PyObject *py_task_result(py_task *t);
void py_task_free(py_task *t);
