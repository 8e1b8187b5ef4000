/* Objects that the store uses, counted by call. */
#include "py_batch.h"

#include <errno.h>
#include <pthread.h>

/* One for all batches: it is taken once a batch, not once an array. It guards
 * left_alone and ended. */
static struct batches {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int64_t open; /* left alone and not ended */
} batches = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static void release(py_batch *b)
{
    for (Py_ssize_t i = 0; i < b->n; i++)
        Py_DECREF(b->objects[i]);
    if (b->objects != b->inside)
        PyMem_Free(b->objects);
    Py_XDECREF(b->copies);
    PyMem_Free(b);
}

static bool copy_out(py_batch *b)
{
    Py_ssize_t n = b->copies ? PyList_Size(b->copies) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PyList_GetItem(b->copies, i);
        PyObject *done = PyObject_CallObject(py.copy_back, pair);
        if (!done)
            return false;
        Py_DECREF(done);
    }
    return true;
}

static void end_left_alone(void *arg)
{
    py_batch *b = arg;
    if (!copy_out(b))
        PyErr_WriteUnraisable(NULL);
    release(b);
}

py_batch *py_batch_new(void)
{
    py_batch *b = PyMem_Malloc(sizeof *b);
    if (!b) {
        PyErr_NoMemory();
        return NULL;
    }
    b->left = 1;
    b->ended = b->left_alone = false;
    b->objects = b->inside;
    b->n = 0;
    b->cap = sizeof b->inside / sizeof *b->inside;
    b->copies = NULL;
    b->parts = false;
    b->later = (py_later){.act = end_left_alone, .arg = b};
    return b;
}

static bool grow(py_batch *b)
{
    Py_ssize_t cap = b->cap * 4;
    PyObject **more = PyMem_Malloc((size_t)cap * sizeof *more);
    if (!more) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < b->n; i++)
        more[i] = b->objects[i];
    if (b->objects != b->inside)
        PyMem_Free(b->objects);
    b->objects = more;
    b->cap = cap;
    return true;
}

bool py_batch_keep(py_batch *b, PyObject *o)
{
    if (b->n == b->cap && !grow(b))
        return false;
    Py_INCREF(o);
    b->objects[b->n++] = o;
    return true;
}

void py_batch_wrapped(py_batch *b)
{
    b->left++; /* the library has not seen the array yet */
}

void py_batch_done(void *batch)
{
    py_batch *b = batch;
    if (__atomic_sub_fetch(&b->left, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    pthread_mutex_lock(&batches.lock);
    bool alone = b->left_alone;
    b->ended = true;
    if (alone)
        batches.open--;
    else
        pthread_cond_broadcast(&batches.ended);
    pthread_mutex_unlock(&batches.lock);
    if (alone)
        py_leave(&b->later);
}

/* Sleeps until b has ended, a slice at most. Returns true if it has. */
static bool sleep_until_ended(py_batch *b)
{
    struct timespec until = py_slice();
    pthread_mutex_lock(&batches.lock);
    int rc = 0;
    while (!b->ended && rc != ETIMEDOUT)
        rc = pthread_cond_clockwait(&batches.ended, &batches.lock, CLOCK_MONOTONIC, &until);
    bool ended = b->ended;
    pthread_mutex_unlock(&batches.lock);
    return ended;
}

/* Nobody waits for b from now on: it is released here, or by py_batch_drain. */
static void leave(py_batch *b)
{
    pthread_mutex_lock(&batches.lock);
    bool ended = b->ended;
    if (!ended) {
        b->left_alone = true;
        batches.open++;
    }
    pthread_mutex_unlock(&batches.lock);
    if (ended)
        release(b);
}

bool py_batch_end(py_batch *b, bool wait)
{
    /* The caller's own count; while it is there no `done` is the last one. */
    bool ended = __atomic_load_n(&b->left, __ATOMIC_ACQUIRE) == 1;
    if (!ended) {
        PyThreadState *saved = PyEval_SaveThread();
        py_batch_done(b);
        while (wait && !(ended = sleep_until_ended(b))) {
            PyEval_RestoreThread(saved);
            if (!py_look()) {
                leave(b);
                return false;
            }
            saved = PyEval_SaveThread();
        }
        PyEval_RestoreThread(saved);
    }
    if (!ended) {
        leave(b);
        return true;
    }
    bool good = PyErr_Occurred() || copy_out(b);
    release(b);
    return good;
}

int64_t py_batch_open(void)
{
    pthread_mutex_lock(&batches.lock);
    int64_t n = batches.open;
    pthread_mutex_unlock(&batches.lock);
    return n;
}
