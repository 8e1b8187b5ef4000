/* State and errors that all parts of the extension module share.
 *
 * The module is `kvstore._kvstore`, C on the limited API of Python 3.11, so that one file serves
 * that Python and all later ones. It is thin: pairs of keys and arrays go into the public functions
 * of kvstore.h, and what needs no speed is Python, in the folder kvstore/.
 *
 * The GIL. Every call of the library that may wait is made without it, because a thread of the
 * library may need it to run an updater. What the library calls back on a thread of its own
 * takes the GIL only for that; a callback that may come while a lock of the library is held (the
 * log, `done` of an array) never takes it: it leaves a note, which py_drain acts on.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <time.h>

#include "kvstore.h"

typedef struct py_state {
    PyTypeObject *array, *store; /* _kvstore.Array and _kvstore.Store */
    /* The objects that kvstore/__init__.py gives to configure(): */
    PyObject *error;       /* class KVError(text, code, hint, key, rank, place) */
    PyTypeObject *handed;        /* NDArray, which inherits from ndarray */
    PyTypeObject *handed_sparse; /* RowSparseNDArray */
    PyObject *lent; /* function(memoryview, dtype, ctx): the NDArray that an updater is given */
    PyObject *adopt;       /* function of other arrays, see py_pairs.h */
    PyObject *copy_back;   /* function(temporary, out) */
    PyObject *log;         /* function(text) of a warning of the library */
    PyObject *write;       /* function(text) of what rules print */
    PyTypeObject *ndarray; /* numpy.ndarray */
    PyObject *descr[KV_DTYPE_END]; /* numpy's dtype objects; NULL: none */
    uint64_t changes; /* of optimizers and schedules that are objects of Python */
    bool ahead_is_set;             /* KVSTORE_AHEAD is: pushes may wait early */
    bool ending;                   /* the interpreter is: no updater runs any more */
} py_state;

extern py_state py;

/* Raises e as a KVError. Returns NULL. */
PyObject *py_raise(const kv_err *e);

/* Raises TypeError unless a call has as many arguments as it takes. Returns whether it has. */
bool py_takes(Py_ssize_t n, Py_ssize_t takes);

/* Raises a KVError of this code, the text as PyErr_Format takes it. Returns NULL. */
PyObject *py_fail(kv_code code, const char *hint, const char *fmt, ...);

/* Sorts the arguments of a vectorcall under the names of parameters, NULL behind the last; *into
 * has a place for each, NULL where there is no argument. required: that many must be there. Returns
 * false with an exception. */
bool py_args(const char *call, const char *const *names, int required, PyObject *const *args,
             Py_ssize_t n, PyObject *kw, PyObject **into);

/* Checks that o is a class that is base or inherits from it. Returns false with an exception. */
bool py_class(PyObject *o, PyTypeObject *base, PyTypeObject **class);

/* The UTF-8 of a str, borrowed from it. Returns NULL with an exception, also where a NUL would end
 * it too soon. */
const char *py_text(PyObject *o);

/* Parses "cpu(1)"-like pairs (name, id), as Python keeps contexts. NULL or None: cpu(0). Returns
 * false with an exception. */
bool py_ctx(PyObject *pair, kv_ctx *ctx);

/* Parses a dtype by its name. Returns false with an exception. */
bool py_dtype(PyObject *name, kv_dtype *dtype);

/* Something that a thread without the GIL leaves to be done with it. Part of what it is about,
 * which `act` may release. */
typedef struct py_later {
    void (*act)(void *arg);
    void *arg;
    struct py_later *next;
} py_later;

/* Leaves it for py_drain, which comes soon. Any thread, without the GIL. */
void py_leave(py_later *later);

/* Does what was left, and tells the warnings of the library. Needs the GIL. */
void py_drain(void);

/* Waits are in slices of so many milliseconds: the end of one, on the clock of
 * pthread_cond_clockwait, and what comes between two, with the GIL: it tells the log and looks for
 * signals. Returns false with the exception of a handler. */
enum { PY_SLICE_MS = 50 };
struct timespec py_slice(void);
bool py_look(void);

/* Updaters of Python that this thread runs, one within another's call. */
extern _Thread_local int py_updaters;

/* Receives a warning of the library, for kv_set_log, and leaves it for py_drain; one that is behind
 * many others is dropped. */
void py_note(void *arg, const char *text);

/* The extension module kvstore._kvstore. */
PyMODINIT_FUNC PyInit__kvstore(void);
