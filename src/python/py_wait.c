/* Threads for calls that may wait, and the wait for them. */
#include "py_wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "py_updater.h"

/* A thread that runs works, one at a time. It never ends: the next call takes it. */
typedef struct helper {
    pthread_cond_t wake;
    py_work *work;
    struct helper *next; /* idle ones */
} helper;

/* The lock guards the works and the helpers. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* some work has */
    helper *idle;
} waits = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

struct timespec py_wait_slice(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += PY_SLICE_MS * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

bool py_wait_look(void)
{
    py_drain();
    return PyErr_CheckSignals() == 0;
}

static void end_later(void *arg)
{
    py_work *w = arg;
    w->end(w);
}

static void *help(void *arg)
{
    helper *h = arg;
    pthread_mutex_lock(&waits.lock);
    for (;;) {
        while (!h->work)
            pthread_cond_wait(&h->wake, &waits.lock);
        py_work *w = h->work;
        pthread_mutex_unlock(&waits.lock);
        w->run(w);
        pthread_mutex_lock(&waits.lock);
        h->work = NULL;
        h->next = waits.idle;
        waits.idle = h;
        w->ended = true;
        if (w->left_alone) {
            pthread_mutex_unlock(&waits.lock);
            py_leave(&w->later);
            pthread_mutex_lock(&waits.lock);
        } else {
            pthread_cond_broadcast(&waits.ended);
        }
    }
    return NULL;
}

/* NULL: there is no thread. Signals are for the threads of Python. */
static helper *new_helper(void)
{
    pthread_t thread;
    sigset_t all, before;
    helper *h = PyMem_Calloc(1, sizeof *h);
    if (!h)
        return NULL;
    pthread_cond_init(&h->wake, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool made = pthread_create(&thread, NULL, help, h) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made) {
        pthread_detach(thread);
        return h;
    }
    PyMem_Free(h);
    return NULL;
}

/* Gives w to a helper, with the GIL. Returns false if there is none to be had. */
static bool hand_over(py_work *w)
{
    pthread_mutex_lock(&waits.lock);
    helper *h = waits.idle;
    if (h)
        waits.idle = h->next;
    pthread_mutex_unlock(&waits.lock);
    if (!h && !(h = new_helper()))
        return false;
    pthread_mutex_lock(&waits.lock);
    h->work = w;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&waits.lock);
    return true;
}

/* Returns true if w has ended within a slice. */
static bool wait_a_slice(const py_work *w)
{
    struct timespec until = py_wait_slice();
    int rc = 0;
    pthread_mutex_lock(&waits.lock);
    while (!w->ended && rc != ETIMEDOUT)
        rc = pthread_cond_clockwait(&waits.ended, &waits.lock, CLOCK_MONOTONIC, &until);
    bool ended = w->ended;
    pthread_mutex_unlock(&waits.lock);
    return ended;
}

/* Nobody waits for w any more. */
static void leave_alone(py_work *w)
{
    pthread_mutex_lock(&waits.lock);
    w->left_alone = true;
    bool ended = w->ended;
    pthread_mutex_unlock(&waits.lock);
    if (ended)
        w->end(w);
}

bool py_wait_run(py_work *w, bool away)
{
    w->ended = w->left_alone = false;
    w->later = (py_later){.act = end_later, .arg = w};
    bool here = !away || py_updater_runs() || !hand_over(w);
    PyThreadState *gil = PyEval_SaveThread();
    if (here) {
        w->run(w);
        PyEval_RestoreThread(gil);
        return true;
    }
    while (!wait_a_slice(w)) {
        PyEval_RestoreThread(gil);
        if (!py_wait_look()) {
            PyObject *type, *value, *trace;
            PyErr_Fetch(&type, &value, &trace);
            leave_alone(w);
            PyErr_Restore(type, value, trace);
            return false;
        }
        gil = PyEval_SaveThread();
    }
    PyEval_RestoreThread(gil);
    return true;
}

void py_wait_after_fork(void)
{
    pthread_mutex_init(&waits.lock, NULL);
    pthread_cond_init(&waits.ended, NULL);
    waits.idle = NULL;
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
