/* Threads for calls that may wait, and the wait for them. */
#include "py_wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

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
    struct timespec until = py_slice();
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
    bool here = !away || py_updaters > 0 || !hand_over(w);
    PyThreadState *gil = PyEval_SaveThread();
    if (here) {
        w->run(w);
        PyEval_RestoreThread(gil);
        return true;
    }
    while (!wait_a_slice(w)) {
        PyEval_RestoreThread(gil);
        if (!py_look()) {
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
