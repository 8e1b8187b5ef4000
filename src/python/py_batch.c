/* Objects that the store uses, counted by call. */
#include "py_batch.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* One for all batches: it is taken once a batch, not once an array. It guards
 * left_alone and ended. */
static struct batches {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int64_t open;    /* left alone and not ended */
    py_batch *first; /* left alone and not released, with the GIL */
} batches = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static void release(py_batch *b)
{
    for (Py_ssize_t i = 0; i < b->n; i++)
        Py_DECREF(b->objects[i]);
    if (b->objects != b->inside)
        PyMem_Free(b->objects);
    if (b->seen != b->seen_inside)
        PyMem_Free(b->seen);
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
    py_batch **at = &batches.first;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
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
    b->seen = b->seen_inside;
    b->seen_cap = sizeof b->seen_inside / sizeof *b->seen_inside;
    b->nseen = 0;
    memset(b->seen_inside, 0, sizeof b->seen_inside);
    b->writes = false;
    b->next = NULL;
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

/* The place of this memory, or a free one: the first behind `from` that holds neither another. */
static size_t place_of(const py_batch *b, const void *data, size_t from)
{
    size_t i = from & (b->seen_cap - 1);
    while (b->seen[i].a && b->seen[i].data != data)
        i = (i + 1) & (b->seen_cap - 1);
    return i;
}

static size_t hash_of(const void *data)
{
    return (size_t)(((uint64_t)(uintptr_t)data * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

kv_array *py_batch_seen(const py_batch *b, const void *data, kv_dtype dtype, int ndim,
                        const int64_t *shape)
{
    size_t i = place_of(b, data, hash_of(data));
    for (kv_array *a; (a = b->seen[i].a); i = place_of(b, data, i + 1)) {
        bool same = kv_array_dtype(a) == dtype && kv_array_ndim(a) == ndim;
        for (int axis = 0; axis < ndim && same; axis++)
            same = kv_array_shape(a)[axis] == shape[axis];
        if (same)
            return a;
    }
    return NULL;
}

bool py_batch_see(py_batch *b, const void *data, kv_array *a)
{
    if (2 * b->nseen >= b->seen_cap) {
        py_batch wider = *b;
        wider.seen_cap *= 4;
        wider.seen = PyMem_Calloc(wider.seen_cap, sizeof *wider.seen);
        if (!wider.seen) {
            PyErr_NoMemory();
            return false;
        }
        for (size_t i = 0; i < b->seen_cap; i++)
            if (b->seen[i].a)
                wider.seen[place_of(&wider, NULL, hash_of(b->seen[i].data))] = b->seen[i];
        if (b->seen != b->seen_inside)
            PyMem_Free(b->seen);
        b->seen = wider.seen;
        b->seen_cap = wider.seen_cap;
    }
    b->seen[place_of(b, NULL, hash_of(data))] = (struct py_seen){data, a};
    b->nseen++;
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
    batches.open -= alone;
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

/* Nobody waits for b from now on: it is released here, or at the end of the process. */
static void leave(py_batch *b)
{
    pthread_mutex_lock(&batches.lock);
    bool ended = b->ended;
    if (!ended) {
        b->left_alone = true;
        batches.open++;
    }
    pthread_mutex_unlock(&batches.lock);
    if (ended) {
        release(b);
    } else { /* its end is left to py_drain, which needs the GIL that this has */
        b->next = batches.first;
        batches.first = b;
    }
}

/* The first batch that a caller of py_batch_settle waits for, or NULL. */
static const py_batch *in_the_way(bool (*shares)(PyObject *o, const void *arg), const void *arg,
                                  bool write)
{
    for (const py_batch *b = batches.first; b; b = b->next)
        for (Py_ssize_t i = 0; i < b->n && (write || b->writes); i++)
            if (shares(b->objects[i], arg))
                return b;
    return NULL;
}

bool py_batch_settle(bool (*shares)(PyObject *o, const void *arg), const void *arg, bool write)
{
    while (batches.first && in_the_way(shares, arg, write)) {
        PyThreadState *saved = PyEval_SaveThread();
        struct timespec until = py_slice();
        pthread_mutex_lock(&batches.lock);
        pthread_cond_clockwait(&batches.ended, &batches.lock, CLOCK_MONOTONIC, &until);
        pthread_mutex_unlock(&batches.lock);
        PyEval_RestoreThread(saved);
        if (!py_look()) /* which releases those that have ended */
            return false;
    }
    return true;
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
