/* The state of the module, errors, arguments, and what threads without the GIL leave behind. */
#include "py_state.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { HINT_BYTES = 2 * sizeof((kv_err *)NULL)->hint };

py_state py;
_Thread_local int py_updaters;

/* ---- Errors ---- */

/* The exception of a code with its texts. */
static PyObject *raise(const char *code, const char *hint, PyObject *text, PyObject *key,
                       PyObject *rank, PyObject *place)
{
    PyObject *error =
        text && key && rank && place
            ? PyObject_CallFunction(py.error, "OssOOO", text, code, hint, key, rank, place)
            : NULL;
    if (error)
        PyErr_SetObject(py.error, error);
    Py_XDECREF(error);
    Py_XDECREF(text);
    Py_XDECREF(key);
    Py_XDECREF(rank);
    Py_XDECREF(place);
    return NULL;
}

static PyObject *text_of(const char *bytes)
{
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)strlen(bytes), "replace");
}

/* A hint of the library with the names that Python has for functions of C. */
static const char *in_python(char text[HINT_BYTES], const char *hint)
{
    static const char *const names[][2] = {
        {"kv_set_virtual_gpus", "kvstore.set_virtual_gpus"},
        {"kv_array_to_dense", "tostype('default')"},
        {"kv_load, or kvctl -s,", "kv.load, or kvctl -s,"},
        {"kv_set_rule", "set_updater"},
        {"kv_set_updater", "set_updater"},
        {"kv_set_optimizer", "set_optimizer"},
        {"kv_create", "create()"},
        {"kv_pull gives all of it; kv_init or kv_push", "pull gives all of it; init or push"},
        {"start the script with kvctl launch -n WORKERS",
         "start the program with kvctl launch -n WORKERS --python FILE"},
        {"kv_set_gradient_compression", "set_gradient_compression"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(hint, names[i][0]);
        if (!at)
            continue;
        snprintf(text, HINT_BYTES, "%.*s%s%s", (int)(at - hint), hint, names[i][1],
                 at + strlen(names[i][0]));
        return text;
    }
    return hint;
}

PyObject *py_raise(const kv_err *e)
{
    char hint[HINT_BYTES];
    if (PyErr_Occurred())
        return NULL;
    PyObject *key = !e->has_key      ? Py_NewRef(Py_None)
                    : e->key_is_text ? text_of(e->key_name)
                                     : PyLong_FromLongLong(e->key_id);
    PyObject *place =
        e->line ? Py_BuildValue("(siii)", e->file, e->line, e->col, e->end) : Py_NewRef(Py_None);
    return raise(kv_code_name(e->code), in_python(hint, e->hint), text_of(e->text), key,
                 e->has_rank ? PyLong_FromLong(e->rank) : Py_NewRef(Py_None), place);
}

PyObject *py_fail(kv_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    PyObject *text = PyUnicode_FromFormatV(fmt, args);
    va_end(args);
    return raise(kv_code_name(code), hint, text, Py_NewRef(Py_None), Py_NewRef(Py_None),
                 Py_NewRef(Py_None));
}

/* ---- Arguments ---- */

bool py_args(const char *call, const char *const *names, int required, PyObject *const *args,
             Py_ssize_t n, PyObject *kw, PyObject **into)
{
    int nnames = 0;
    while (names[nnames])
        into[nnames++] = NULL;
    if (n > nnames) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, not %zd", call, nnames, n);
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        into[i] = args[i];
    Py_ssize_t nkw = kw ? PyTuple_Size(kw) : 0;
    for (Py_ssize_t i = 0; i < nkw; i++) {
        PyObject *name = PyTuple_GetItem(kw, i);
        int at = 0;
        while (at < nnames && PyUnicode_CompareWithASCIIString(name, names[at]))
            at++;
        if (at == nnames || into[at]) {
            PyErr_Format(PyExc_TypeError,
                         at == nnames ? "%s() has no argument %R" : "%s() got %R twice", call,
                         name);
            return false;
        }
        into[at] = args[n + i];
    }
    for (int i = 0; i < required; i++) {
        if (!into[i]) {
            PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", call, names[i]);
            return false;
        }
    }
    return true;
}

bool py_takes(Py_ssize_t n, Py_ssize_t takes)
{
    if (n != takes)
        PyErr_Format(PyExc_TypeError, "takes %zd arguments, not %zd", takes, n);
    return n == takes;
}

bool py_class(PyObject *o, PyTypeObject *base, PyTypeObject **class)
{
    *class = (PyTypeObject *)o;
    return (PyType_Check(o) && PyType_IsSubtype(*class, base)) ||
           py_fail(KV_E_USAGE, "", "%R does not inherit from %R", o, base);
}

bool py_ctx(PyObject *pair, kv_ctx *ctx)
{
    *ctx = (kv_ctx){0};
    if (!pair || pair == Py_None)
        return true;
    PyObject *name = PyTuple_Check(pair) ? PyTuple_GetItem(pair, 0) : NULL;
    PyObject *id = name ? PyTuple_GetItem(pair, 1) : NULL;
    if (!id || !PyUnicode_Check(name))
        return py_fail(KV_E_USAGE, "cpu(i) or gpu(i)", "%R is not a context", pair);
    long i = PyLong_AsLong(id);
    if (i == -1 && PyErr_Occurred())
        return false;
    if (i < 0 || i > KV_CTX_MAX)
        return py_fail(KV_E_VALUE, "", "contexts are numbered from 0 to %d, not %ld", KV_CTX_MAX,
                       i);
    ctx->device = PyUnicode_CompareWithASCIIString(name, "gpu") ? KV_CPU : KV_GPU;
    ctx->id = (int32_t)i;
    return true;
}

const char *py_text(PyObject *o)
{
    Py_ssize_t n;
    const char *text = PyUnicode_AsUTF8AndSize(o, &n);
    if (text && strlen(text) != (size_t)n) {
        py_fail(KV_E_VALUE, "", "a text holds a NUL, which no name and no path can");
        return NULL;
    }
    return text;
}

bool py_dtype(PyObject *name, kv_dtype *dtype)
{
    kv_err e = {0};
    const char *text = py_text(name);
    return text && (!kv_dtype_parse(dtype, text, &e) || py_raise(&e));
}

/* ---- What is left for the GIL ---- */

static struct left {
    pthread_mutex_t lock;
    py_later *list;
} left = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int drain_pending(void *arg)
{
    (void)arg;
    py_drain();
    return 0;
}

static void drain_soon(void)
{
    /* Where there is no room for it, the next call of the module drains. */
    if (!py.ending)
        (void)Py_AddPendingCall(drain_pending, NULL);
}

void py_leave(py_later *later)
{
    pthread_mutex_lock(&left.lock);
    later->next = left.list;
    left.list = later;
    pthread_mutex_unlock(&left.lock);
    drain_soon();
}

static void act_on_left(void)
{
    if (!__atomic_load_n(&left.list, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&left.lock);
    py_later *list = left.list;
    left.list = NULL;
    pthread_mutex_unlock(&left.lock);
    for (py_later *next; list; list = next) {
        next = list->next;
        list->act(list->arg);
    }
}

/* ---- Notes ---- */

enum { NOTES = 16, NOTE_BYTES = 512 };

/* The messages that the library has logged. They have a lock of their own: the library may hold
 * its lock meanwhile. */
static struct notes {
    pthread_mutex_t lock;
    int n;
    char text[NOTES][NOTE_BYTES];
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

void py_note(void *arg, const char *text)
{
    (void)arg;
    pthread_mutex_lock(&notes.lock);
    if (notes.n < NOTES) {
        size_t n = strlen(text) < NOTE_BYTES ? strlen(text) : NOTE_BYTES - 1;
        memcpy(notes.text[notes.n], text, n);
        notes.text[notes.n++][n] = '\0';
    }
    pthread_mutex_unlock(&notes.lock);
    drain_soon();
}

void py_drain(void)
{
    act_on_left();
    char text[NOTE_BYTES];
    while (__atomic_load_n(&notes.n, __ATOMIC_RELAXED) > 0) {
        pthread_mutex_lock(&notes.lock);
        memcpy(text, notes.text[0], sizeof text);
        notes.n--;
        memmove(notes.text[0], notes.text[1], (size_t)notes.n * NOTE_BYTES);
        pthread_mutex_unlock(&notes.lock);
        PyObject *o = text_of(text),
                 *done = o ? PyObject_CallFunctionObjArgs(py.log, o, NULL) : NULL;
        if (!done)
            PyErr_WriteUnraisable(NULL);
        Py_XDECREF(done);
        Py_XDECREF(o);
    }
}

/* ---- Waits ---- */

struct timespec py_slice(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += PY_SLICE_MS * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

bool py_look(void)
{
    py_drain();
    return PyErr_CheckSignals() == 0;
}
