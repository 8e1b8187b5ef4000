/* Threads for calls that may wait, and the wait for them. */
#include "py_wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

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

/* ---- The place of the script ---- */

static struct {
    pthread_mutex_t lock;
    char text[96]; /* "": it is not known, or may not be told */
} noted = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool tell_place(void *arg, char *out, size_t room)
{
    (void)arg;
    pthread_mutex_lock(&noted.lock);
    bool known = noted.text[0] != '\0';
    snprintf(out, room, "%s", noted.text);
    pthread_mutex_unlock(&noted.lock);
    return known;
}

static void note(const char *text)
{
    pthread_mutex_lock(&noted.lock);
    snprintf(noted.text, sizeof noted.text, "%s", text);
    pthread_mutex_unlock(&noted.lock);
}

void py_wait_script(bool begins)
{
    note("");
    kv_set_script(begins ? tell_place : NULL, NULL, true);
}

/* Other threads of Python, or a timer, may end what this one waits for. No code of Python runs here
 * or below: the handler of a signal could raise its exception in it. */
static bool is_only_thread(void)
{
    struct itimerval timer;
    PyObject *module = PyImport_AddModule("_thread"), /* borrowed; it is always there */
             *count = module ? PyObject_CallMethod(module, "_count", NULL) : NULL;
    bool only = count && PyLong_AsLong(count) == 0;
    PyErr_Clear();
    Py_XDECREF(count);
    return only && getitimer(ITIMER_REAL, &timer) == 0 && !timer.it_value.tv_sec &&
           !timer.it_value.tv_usec;
}

/* The text of an attribute of a frame's code or globals. */
static void take_text(PyObject *from, const char *name, char *out, size_t room)
{
    PyObject *o = !from ? NULL : PyDict_Check(from) ? PyMapping_GetItemString(from, name)
                                                    : PyObject_GetAttrString(from, name);
    const char *text = o && PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
    snprintf(out, room, "%s", text ? text : "");
    PyErr_Clear();
    Py_XDECREF(o);
}

static bool is_of_module(PyObject *frame)
{
    char name[64];
    PyObject *globals = PyObject_GetAttrString(frame, "f_globals");
    take_text(globals, "__name__", name, sizeof name);
    Py_XDECREF(globals);
    return strncmp(name, "kvstore", 7) == 0 && (!name[7] || name[7] == '.');
}

/* The innermost frame outside of the module; *name becomes the outermost function inside. */
static PyObject *find_frame(char *name, size_t room)
{
    PyObject *frame = Py_XNewRef((PyObject *)PyEval_GetFrame());
    while (frame && is_of_module(frame)) {
        PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
        PyObject *back = PyObject_GetAttrString(frame, "f_back");
        take_text((PyObject *)code, "co_name", name, room);
        Py_DECREF(code);
        Py_DECREF(frame);
        if (back == Py_None)
            Py_CLEAR(back);
        frame = back;
    }
    PyErr_Clear();
    return frame;
}

void py_wait_note(const char *name, PyObject *key)
{
    char what[32] = "a call", path[512] = "", text[96], of[32] = "";
    PyObject *frame = is_only_thread() ? find_frame(what, sizeof what) : NULL;
    if (!frame) {
        note("");
        return;
    }
    PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
    const char *word = key && PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
    take_text((PyObject *)code, "co_filename", path, sizeof path);
    const char *file = strrchr(path, '/');
    if (word)
        snprintf(of, sizeof of, " %.24s", word);
    else if (key && PyLong_CheckExact(key)) /* PyObject_Str would look for signals */
        snprintf(of, sizeof of, " %lld", PyLong_AsLongLong(key));
    snprintf(text, sizeof text, "%s%s, %.30s:%d", name ? name : what, of, file ? file + 1 : path,
             PyFrame_GetLineNumber((PyFrameObject *)frame));
    PyErr_Clear();
    note(text);
    Py_DECREF(code);
    Py_DECREF(frame);
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
        kv_set_script(tell_place, NULL, false);
        w->run(w);
        kv_set_script(NULL, NULL, false);
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

bool py_wait_run(py_work *w, bool away)
{
    w->ended = w->left_alone = false;
    w->later = (py_later){.act = end_later, .arg = w};
    bool here = !away || py_updaters > 0 || !hand_over(w);
    note("");
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
            note("");
            /* Nobody waits for w any more. */
            pthread_mutex_lock(&waits.lock);
            w->left_alone = true;
            bool ended = w->ended;
            pthread_mutex_unlock(&waits.lock);
            if (ended)
                w->end(w);
            PyErr_Restore(type, value, trace);
            return false;
        }
        py_wait_note(w->name, w->key);
        gil = PyEval_SaveThread();
    }
    PyEval_RestoreThread(gil);
    note("");
    return true;
}

void py_wait_after_fork(void)
{
    pthread_mutex_init(&noted.lock, NULL);
    pthread_mutex_init(&waits.lock, NULL);
    pthread_cond_init(&waits.ended, NULL);
    waits.idle = NULL;
}
