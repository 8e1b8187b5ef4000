/* Calls that move arrays. */
#include "py_store.h"

#include "base/map.h"
#include "py_pairs.h"
#include "py_wait.h"

/* A call of a store. It outlives the function of Python that began it where that is interrupted. */
typedef struct py_call {
    py_work work;
    py_store *store; /* a reference */
    int (*call)(struct py_call *c);
    py_pairs values, outs, ids;
    PyObject *key; /* borrowed: what the caller gave, until the call is performed */
    py_batch *batch;
    py_small small;
    kv_call how;
    int64_t ignored; /* row_sparse outs */
    kv_err e;
    int rc;
    bool in_place; /* results go into the values */
    bool wait;
    bool good; /* no exception is set */
} py_call;

/* A call of so many bytes takes so long that to hand it to another thread does not count. */
enum { LONG_BYTES = 4 << 20 };

static void run_call(py_work *w);
static void end_call(py_work *w);
static int call_push(py_call *c);
static int call_pull(py_call *c);
static int call_pushpull(py_call *c);

static void give_back(py_call *c)
{
    py_store *s = c->store;
    if (s->spare)
        PyMem_Free(c);
    else
        s->spare = c;
    Py_DECREF((PyObject *)s);
}

static const char *name_of(int (*run)(py_call *c))
{
    return run == call_pull       ? "pull"
           : run == call_push     ? "push"
           : run == call_pushpull ? "pushpull"
                                  : NULL;
}

/* NULL with an exception. */
static py_call *begin(PyObject *self, int (*run)(py_call *c), PyObject *key, PyObject *priority,
                      PyObject *wait)
{
    py_store *s = (py_store *)self;
    int waits = wait ? PyObject_IsTrue(wait) : 1;
    long p = priority && waits >= 0 ? PyLong_AsLong(priority) : 0;
    if (waits < 0 || (p == -1 && PyErr_Occurred()) || !py_store_enter(s))
        return NULL;
    py_call *c = s->spare ? s->spare : PyMem_Malloc(sizeof *c);
    s->spare = NULL;
    py_batch *b = c ? py_batch_new() : NULL;
    if (!b) {
        PyMem_Free(c);
        py_store_leave(s);
        return (py_call *)PyErr_NoMemory();
    }
    Py_INCREF(self);
    c->work = (py_work){.run = run_call, .end = end_call, .name = name_of(run), .key = key};
    c->store = s;
    c->call = run;
    c->key = key;
    c->how = (kv_call){.priority = p > INT32_MAX   ? INT32_MAX
                                   : p < INT32_MIN ? INT32_MIN
                                                   : (int32_t)p};
    c->e = (kv_err){0};
    c->rc = KV_OK;
    c->ignored = 0;
    c->in_place = false;
    c->wait = waits;
    py_pairs_init(&c->values);
    py_pairs_init(&c->outs);
    py_pairs_init(&c->ids);
    c->small = (py_small){0};
    c->batch = b;
    c->good = true;
    return c;
}

/* The GIL is taken to look for signals, and released again. Returns false with an exception. */
static bool look(const py_call *c, PyThreadState **gil)
{
    PyEval_RestoreThread(*gil);
    bool good = py_look();
    if (good)
        py_wait_note(c->work.name, c->key);
    *gil = PyEval_SaveThread();
    return good;
}

/* Waits for outs, which the caller reads when the call returns, without the GIL: in slices if gil
 * is given. Returns false if a signal ended that. */
static bool wait_for_outs(py_call *c, const py_pairs *outs, PyThreadState **gil)
{
    if (c->store->is_shared)
        py_wait_script(true);
    for (int64_t i = outs->n - 1; i >= 0 && !c->rc; i--) { /* see work_on_values */
        bool there = kv_array_ctx(outs->arrays[i]).device != KV_CPU;
        while (!there && !c->rc) {
            c->rc = kv_array_await(outs->arrays[i], PY_SLICE_MS, &there, &c->e);
            if (!there && !c->rc && gil && !look(c, gil)) {
                py_wait_script(false);
                return false;
            }
        }
    }
    if (c->store->is_shared)
        py_wait_script(false);
    kv_err why = {0};
    if (c->rc == KV_E_PEER && kv_wait(c->store->kv, &why))
        c->e = why; /* which rank is lost */
    return true;
}

/* Waits for an updater of Python in the same way. */
static bool wait_for_updater(py_call *c, PyThreadState **gil)
{
    bool idle = false;
    while (!idle && !c->rc) {
        c->rc = kv_wait_for(c->store->kv, PY_SLICE_MS, &idle, &c->e);
        if (!idle && !c->rc && gil && !look(c, gil))
            return false;
    }
    return true;
}

/* Waits until the store has read the values that were wrapped, whose only holder is the call, and
 * lends it this thread meanwhile: py_batch_end would sleep. Values of a GPU are left to that, and
 * so is a store of several machines, whose pushes may wait for other ranks. Without the GIL.
 */
static void work_on_values(py_call *c)
{
    void *data;
    kv_err none = {0};
    /* From the last one, which the push comes to last: there is nothing to wait for then. */
    for (int64_t i = c->values.n - 1; i >= 0 && !c->store->is_shared; i--) {
        kv_array *a = c->values.arrays[i];
        if (kv_array_refs(a) == 1 && kv_array_storage(a) == KV_DEFAULT &&
            kv_array_ctx(a).device == KV_CPU)
            kv_array_write(a, &data, &none);
    }
}

/* Waits, if the caller wants that, until the library is done with the arrays of its call, and gives
 * them back. Runs without the GIL; gil as above. Returns false if a signal ended the wait. */
static bool settle(py_call *c, PyThreadState **gil)
{
    const py_pairs *outs = c->in_place ? &c->values : &c->outs;
    bool good = true;
    if (!c->rc && c->wait && outs->n > 0)
        good = wait_for_outs(c, outs, gil);
    else if (!c->rc && c->wait && c->batch->left > 1 && !c->store->runs_python)
        work_on_values(c);
    py_pairs_let_go(&c->values);
    py_pairs_let_go(&c->outs);
    py_pairs_let_go(&c->ids);
    if (good && !c->rc && c->wait && c->store->runs_python)
        good = wait_for_updater(c, gil);
    return good;
}

/* Copies the small values of a push. Runs without the GIL. */
static int fill_small(py_call *c)
{
    return c->values.small
               ? py_small_fill(&c->small, &c->values.packed, c->values.arrays, c->values.n, &c->e)
               : KV_OK;
}

static void run_call(py_work *w)
{
    py_call *c = (py_call *)w;
    if (!(c->rc = fill_small(c)))
        c->rc = c->call(c);
    settle(c, NULL);
}

static void release(py_call *c)
{
    py_pairs_release(&c->values);
    py_pairs_release(&c->outs);
    py_pairs_release(&c->ids);
    py_small_give(&c->store->small, &c->small);
    if (c->rc) /* the outs stay as they are */
        Py_CLEAR(c->batch->copies);
}

/* A call that was interrupted has ended. Its error is that of the next wait. */
static void end_call(py_work *w)
{
    py_call *c = (py_call *)w;
    release(c);
    if (c->rc && !c->store->late.code)
        c->store->late = c->e;
    py_batch_end(c->batch, false);
    py_store_leave(c->store);
    give_back(c);
}

static int64_t bytes_of(const py_pairs *p)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < p->n; i++)
        bytes += p->arrays[i] && kv_array_storage(p->arrays[i]) == KV_DEFAULT
                     ? kv_array_bytes(p->arrays[i])
                     : 0;
    return bytes;
}

/* ---- Whether a call of several machines may wait ---- */

enum { MOST_AHEAD = 64, MOST_AHEAD_BYTES = 16 << 20 }; /* a quarter of the library's, or less */

static bool is_known(const py_store *s, PyObject *key)
{
    int known = s->known ? PySet_Contains(s->known, key) : 0;
    PyErr_Clear(); /* a list is none */
    return known > 0;
}

/* A store of several machines makes a push or a pull later, and returns at once: unless it must
 * find out where a key is, has too much under way (KVSTORE_AHEAD), or is in the call of another
 * thread. To hand a call to another thread takes some 10 us, which is more than most of them do. */
static bool may_wait(const py_call *c, int64_t bytes)
{
    py_store *s = c->store;
    bool idle = false;
    kv_err e = {0};
    if (s->calls > 1 || !is_known(s, c->key))
        return true;
    s->ahead++;
    s->ahead_bytes += bytes;
    if (s->ahead <= MOST_AHEAD && s->ahead_bytes <= MOST_AHEAD_BYTES && !py.ahead_is_set)
        return false;
    if (kv_wait_for(s->kv, 0, &idle, &e) && !s->late.code)
        s->late = e;
    if (idle) {
        s->ahead = 0;
        s->ahead_bytes = 0;
    }
    return !idle;
}

/* Returns true if the call, without its wait for arrays, may take long. An updater of Python that
 * this thread can run stays on it, so that Ctrl-C reaches its code. */
static bool may_take_long(const py_call *c)
{
    const py_store *s = c->store;
    bool simple = c->call == call_push || c->call == call_pull || c->call == call_pushpull;
    int64_t bytes = bytes_of(&c->values) + bytes_of(&c->outs);
    if (s->is_shared)
        return !simple || may_wait(c, bytes);
    return s->runs_python ? !c->wait : bytes > LONG_BYTES;
}

/* Makes the call, and waits for its arrays in slices. */
static bool perform(py_call *c)
{
    if (may_take_long(c) && !py_updaters) {
        /* On a thread of its own. Where it was interrupted c is gone. */
        PyObject *key = Py_NewRef(c->key); /* its holder may go while the call waits */
        bool is_shared = c->store->is_shared, ended = py_wait_run(&c->work, true);
        py_store *s = ended && is_shared && !c->rc ? c->store : NULL;
        if (s && !PyList_Check(key) && !PyTuple_Check(key) &&
            ((!s->known && !(s->known = PySet_New(NULL))) || PySet_Add(s->known, key)))
            PyErr_Clear();
        Py_DECREF(key);
        return ended;
    }
    PyThreadState *gil = PyEval_SaveThread();
    if (!(c->rc = fill_small(c)))
        c->rc = c->call(c);
    bool good = settle(c, &gil);
    PyEval_RestoreThread(gil);
    if (!good) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        end_call(&c->work);
        PyErr_Restore(type, value, trace);
    }
    return good;
}

static PyObject *end(py_call *c)
{
    release(c);
    bool waited = __atomic_load_n(&c->batch->left, __ATOMIC_ACQUIRE) > 1;
    bool good = py_batch_end(c->batch, c->wait || c->rc) && c->good;
    if (good && waited && c->wait && !c->rc) {
        PyThreadState *gil = PyEval_SaveThread();
        c->rc = kv_check(c->store->kv, &c->e);
        PyEval_RestoreThread(gil);
    }
    PyObject *result = py_store_result(c->store, good ? c->rc : KV_OK, &c->e);
    py_store_leave(c->store);
    give_back(c);
    return good ? result : NULL;
}

/* The whole of a call whose pairs are there. */
static PyObject *finish(py_call *c)
{
    if (c->good && !perform(c))
        return NULL;
    return end(c);
}

/* Adds the values of a push, whose small ones are copied if the call waits. */
static bool add_values(py_call *c, PyObject *key, PyObject *value)
{
    c->values.packs = c->wait;
    if (!py_pairs_add(&c->values, key, value, false, c->batch))
        return false;
    if (!c->values.packed.n)
        return true;
    c->small = py_small_take(&c->store->small);
    c->values.small = &c->small;
    return py_small_reserve(&c->small, c->values.n);
}

static int call_init(py_call *c)
{
    return kv_init(c->store->kv, c->values.keys, c->values.n, c->values.arrays, NULL, &c->e);
}

PyObject *py_calls_init(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "value", NULL};
    PyObject *in[2];
    py_call *c = py_args("init", names, 2, args, n, kw, in)
                     ? begin(self, call_init, in[0], NULL, NULL)
                     : NULL;
    if (!c)
        return NULL;
    c->good = py_pairs_add(&c->values, in[0], in[1], false, c->batch);
    return finish(c);
}

static int call_push(py_call *c)
{
    return kv_push(c->store->kv, c->values.keys, c->values.n, c->values.arrays, &c->how, &c->e);
}

PyObject *py_calls_push(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "value", "priority", "wait", NULL};
    PyObject *in[4];
    if (!py_args("push", names, 2, args, n, kw, in) || !py_store_sync((py_store *)self, in[0]))
        return NULL;
    py_call *c = begin(self, call_push, in[0], in[2], in[3]);
    if (!c)
        return NULL;
    c->good = add_values(c, in[0], in[1]);
    return finish(c);
}

/* Results cannot be copied into an out at the end of a call that nobody waits for. */
static bool may_go_on(const py_call *c)
{
    return c->wait || !c->batch->copies ||
           py_fail(KV_E_USAGE, "an array of numpy.ascontiguousarray() is dense",
                   "an out that is not dense is written at the end of the call, which wait=False "
                   "does not wait for");
}

static int call_pull(py_call *c)
{
    return kv_pull(c->store->kv, c->outs.keys, c->outs.n, c->outs.arrays, &c->how, &c->e);
}

PyObject *py_calls_pull(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "out", "priority", "ignore_sparse", "wait", NULL};
    PyObject *in[5];
    if (!py_args("pull", names, 1, args, n, kw, in))
        return NULL;
    if (!in[1] || in[1] == Py_None)
        return py_fail(KV_E_USAGE, "kv[key] gives a new array",
                       "pull() needs an array to write into: out=");
    int ignores = in[3] ? PyObject_IsTrue(in[3]) : 1;
    py_call *c = ignores < 0 ? NULL : begin(self, call_pull, in[0], in[2], in[4]);
    if (!c)
        return NULL;
    if (!ignores)
        c->how.flags = KV_FILL_SPARSE;
    c->how.ignored = &c->ignored;
    c->good = py_pairs_add(&c->outs, in[0], in[1], true, c->batch) && may_go_on(c);
    if (c->good && !perform(c))
        return NULL;
    if (c->ignored && !c->store->told_ignored)
        py_note(NULL, "a pull leaves row_sparse outs as they are: ignore_sparse=False fills them, "
                      "row_sparse_pull() takes rows");
    c->store->told_ignored |= c->ignored > 0;
    return end(c);
}

static int call_broadcast(py_call *c)
{
    return kv_broadcast(c->store->kv, c->values.keys, c->values.n, c->values.arrays, c->outs.keys,
                        c->outs.n, c->outs.arrays, &c->how, &c->e);
}

/* pushpull and broadcast: values in, results out. */
static PyObject *in_and_out(py_call *c, PyObject *key, PyObject *value, PyObject *out)
{
    bool has_outs = out && out != Py_None;
    c->in_place = !has_outs && c->call != call_broadcast;
    c->good = (c->in_place ? py_pairs_add(&c->values, key, value, true, c->batch)
                           : add_values(c, key, value)) &&
              (!has_outs || py_pairs_add(&c->outs, key, out, true, c->batch)) && may_go_on(c);
    return finish(c);
}

static int call_pushpull(py_call *c)
{
    return kv_pushpull(c->store->kv, c->values.keys, c->values.n, c->values.arrays, c->outs.keys,
                       c->outs.n, c->outs.arrays, &c->how, &c->e);
}

PyObject *py_calls_pushpull(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "value", "out", "priority", "wait", NULL};
    PyObject *in[5];
    if (!py_args("pushpull", names, 2, args, n, kw, in) || !py_store_sync((py_store *)self, in[0]))
        return NULL;
    py_call *c = begin(self, call_pushpull, in[0], in[3], in[4]);
    return c ? in_and_out(c, in[0], in[1], in[2]) : NULL;
}

PyObject *py_calls_broadcast(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "value", "out", "priority", NULL};
    PyObject *in[4];
    if (!py_args("broadcast", names, 2, args, n, kw, in))
        return NULL;
    py_call *c = begin(self, call_broadcast, in[0], in[3], NULL);
    return c ? in_and_out(c, in[0], in[1], in[2]) : NULL;
}

/* Returns true if each array of ids is for the key of its out. */
static bool ids_fit(const py_pairs *outs, const py_pairs *ids)
{
    bool fit = ids->n == outs->n;
    for (int64_t i = 0; i < ids->n && fit; i++)
        fit = map_same_key(&outs->keys[i], &ids->keys[i]);
    return fit;
}

static bool all_of_key(const py_pairs *outs, const kv_key *key)
{
    bool all = true;
    for (int64_t i = 0; i < outs->n && all; i++)
        all = map_same_key(&outs->keys[i], key);
    return all;
}

static int call_row_sparse_pull(py_call *c)
{
    return kv_row_sparse_pull(c->store->kv, c->outs.keys, c->outs.n,
                              c->values.n ? c->values.arrays : c->ids.arrays, c->outs.arrays,
                              &c->how, &c->e);
}

PyObject *py_calls_row_sparse_pull(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                   PyObject *kw)
{
    static const char *const names[] = {"key", "out", "priority", "row_ids", NULL};
    PyObject *in[4];
    if (!py_args("row_sparse_pull", names, 1, args, n, kw, in))
        return NULL;
    if (!in[1] || in[1] == Py_None || !in[3] || in[3] == Py_None)
        return py_fail(KV_E_USAGE, "", "row_sparse_pull() needs out= and row_ids=");
    py_call *c = begin(self, call_row_sparse_pull, in[0], in[2], NULL);
    if (!c)
        return NULL;
    c->good = py_pairs_add(&c->outs, in[0], in[1], true, c->batch) &&
              py_pairs_add(&c->ids, in[0], in[3], false, c->batch);
    /* One array of ids is for all outs of its key, as MXNet has it. */
    bool shared =
        c->good && c->ids.n == 1 && c->outs.n > 1 && all_of_key(&c->outs, &c->ids.keys[0]);
    while (c->good && shared && c->values.n < c->outs.n)
        c->good = py_pairs_add(&c->values, in[0], in[3], false, c->batch);
    if (c->good && !shared && !ids_fit(&c->outs, &c->ids))
        c->good = py_fail(KV_E_USAGE, "each out of a key takes an array of ids",
                          "%lld outs and %lld arrays of row ids do not fit key by key",
                          (long long)c->outs.n, (long long)c->ids.n);
    return finish(c);
}
