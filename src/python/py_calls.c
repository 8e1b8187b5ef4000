/* Calls that move arrays. */
#include "py_calls.h"

#include <string.h>

#include "py_pairs.h"
#include "py_store.h"

typedef struct call {
    py_store *store;
    py_pairs values, outs;
    py_batch *batch;
    py_small small;
    kv_call how;
    kv_err e;
    int rc;
    bool wait;
    bool good; /* no exception is set */
} call;

static bool begin(call *c, PyObject *self, PyObject *priority, PyObject *wait)
{
    c->store = (py_store *)self;
    c->how = (kv_call){0};
    c->e = (kv_err){0};
    c->rc = KV_OK;
    int waits = wait ? PyObject_IsTrue(wait) : 1;
    if (waits < 0)
        return false;
    c->wait = waits;
    py_pairs_init(&c->values);
    py_pairs_init(&c->outs);
    c->small = (py_small){0};
    if (priority) {
        long p = PyLong_AsLong(priority);
        if (p == -1 && PyErr_Occurred())
            return false;
        c->how.priority = p > INT32_MAX ? INT32_MAX : p < INT32_MIN ? INT32_MIN : (int32_t)p;
    }
    if (!py_store_enter(c->store))
        return false;
    c->batch = py_batch_new();
    if (!c->batch)
        py_store_leave(c->store);
    c->good = c->batch != NULL;
    return c->good;
}

/* Waits for outs on the CPU, whose memory the caller reads without asking the library. Runs without
 * the GIL. */
static void wait_for_outs(call *c, const py_pairs *outs)
{
    const void *data;
    for (int64_t i = outs->n - 1; i >= 0 && !c->rc; i--) /* see work_on_values */
        if (kv_array_storage(outs->arrays[i]) == KV_DEFAULT &&
            kv_array_ctx(outs->arrays[i]).device == KV_CPU)
            c->rc = kv_array_read(outs->arrays[i], &data, &c->e);
    kv_err why = {0};
    if (c->rc == KV_E_PEER && kv_wait(c->store->kv, &why))
        c->e = why; /* which rank is lost */
}

/* Waits until the store has read the values that were wrapped, whose only holder is the call, and
 * lends it this thread meanwhile: py_batch_end would sleep. Values of a GPU are left to that, and
 * so is a store of several machines, where Ctrl-C must end a wait for other ranks. Without the GIL.
 */
static void work_on_values(call *c)
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
 * them back. Runs without the GIL. outs: where results go, or NULL. */
static void settle(call *c, const py_pairs *outs)
{
    bool wrapped = c->batch->left > 1;
    if (!c->rc && c->wait && wrapped && outs)
        wait_for_outs(c, outs);
    else if (!c->rc && c->wait && wrapped)
        work_on_values(c);
    py_pairs_let_go(&c->values);
    py_pairs_let_go(&c->outs);
    if (!c->rc && c->wait && c->store->runs_python)
        c->rc = kv_wait(c->store->kv, &c->e);
}

static PyObject *end(call *c)
{
    py_pairs_release(&c->values);
    py_pairs_release(&c->outs);
    py_small_give(&c->store->small, &c->small);
    if (c->rc) /* the outs stay as they are */
        Py_CLEAR(c->batch->copies);
    bool waited = __atomic_load_n(&c->batch->left, __ATOMIC_ACQUIRE) > 1;
    bool good = py_batch_end(c->batch, c->wait || c->rc) && c->good;
    if (good && waited && c->wait && !c->rc) {
        PyThreadState *gil = PyEval_SaveThread();
        c->rc = kv_check(c->store->kv, &c->e);
        PyEval_RestoreThread(gil);
    }
    PyObject *result = py_store_result(c->store, good ? c->rc : KV_OK, &c->e);
    py_store_leave(c->store);
    return good ? result : NULL;
}

/* Adds the values of a push, whose small ones are copied if the call waits. */
static bool add_values(call *c, PyObject *key, PyObject *value)
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

/* Copies the small values of a push. Runs without the GIL. */
static int fill_small(call *c)
{
    return c->values.small
               ? py_small_fill(&c->small, &c->values.packed, c->values.arrays, c->values.n, &c->e)
               : KV_OK;
}

PyObject *py_calls_init(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "value", NULL};
    PyObject *in[2];
    call c;
    if (!py_args("init", names, 2, args, n, kw, in) || !begin(&c, self, NULL, NULL))
        return NULL;
    if ((c.good = py_pairs_add(&c.values, in[0], in[1], false, c.batch))) {
        PyThreadState *gil = PyEval_SaveThread();
        c.rc = kv_init(c.store->kv, c.values.keys, c.values.n, c.values.arrays, NULL, &c.e);
        settle(&c, NULL);
        PyEval_RestoreThread(gil);
    }
    return end(&c);
}

PyObject *py_calls_push(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "value", "priority", "wait", NULL};
    PyObject *in[4];
    call c;
    if (!py_args("push", names, 2, args, n, kw, in) || !py_store_sync((py_store *)self, in[0]) ||
        !begin(&c, self, in[2], in[3]))
        return NULL;
    if ((c.good = add_values(&c, in[0], in[1]))) {
        PyThreadState *gil = PyEval_SaveThread();
        if (!(c.rc = fill_small(&c)))
            c.rc = kv_push(c.store->kv, c.values.keys, c.values.n, c.values.arrays, &c.how, &c.e);
        settle(&c, NULL);
        PyEval_RestoreThread(gil);
    }
    return end(&c);
}

/* Results cannot be copied into an out at the end of a call that nobody waits for. */
static bool may_go_on(call *c)
{
    return c->wait || !c->batch->copies ||
           py_fail(KV_E_USAGE, "an array of numpy.ascontiguousarray() is dense",
                   "an out that is not dense is written at the end of the call, which wait=False "
                   "does not wait for");
}

PyObject *py_calls_pull(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "out", "priority", "ignore_sparse", "wait", NULL};
    PyObject *in[5];
    call c;
    if (!py_args("pull", names, 1, args, n, kw, in))
        return NULL;
    if (!in[1] || in[1] == Py_None)
        return py_fail(KV_E_USAGE, "kv[key] gives a new array",
                       "pull() needs an array to write into: out=");
    int ignores = in[3] ? PyObject_IsTrue(in[3]) : 1;
    if (ignores < 0 || !begin(&c, self, in[2], in[4]))
        return NULL;
    if (!ignores)
        c.how.flags = KV_FILL_SPARSE;
    int64_t ignored = 0;
    c.how.ignored = &ignored;
    if ((c.good = py_pairs_add(&c.outs, in[0], in[1], true, c.batch) && may_go_on(&c))) {
        PyThreadState *gil = PyEval_SaveThread();
        c.rc = kv_pull(c.store->kv, c.outs.keys, c.outs.n, c.outs.arrays, &c.how, &c.e);
        settle(&c, &c.outs);
        PyEval_RestoreThread(gil);
    }
    if (ignored && !c.store->told_ignored)
        py_note(NULL, "a pull leaves row_sparse outs as they are: ignore_sparse=False fills them, "
                      "row_sparse_pull() takes rows");
    c.store->told_ignored |= ignored > 0;
    return end(&c);
}

/* pushpull and broadcast: values in, results out. */
typedef int (*both)(kv *store, const kv_key *keys, int64_t n, kv_array *const *values,
                    const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *call,
                    kv_err *e);

static PyObject *in_and_out(call *c, both f, PyObject *key, PyObject *value, PyObject *out,
                            bool in_place)
{
    bool has_outs = out && out != Py_None;
    c->good = (in_place && !has_outs ? py_pairs_add(&c->values, key, value, true, c->batch)
                                     : add_values(c, key, value)) &&
              (!has_outs || py_pairs_add(&c->outs, key, out, true, c->batch)) && may_go_on(c);
    if (c->good) {
        PyThreadState *gil = PyEval_SaveThread();
        if (!(c->rc = fill_small(c)))
            c->rc = f(c->store->kv, c->values.keys, c->values.n, c->values.arrays, c->outs.keys,
                      c->outs.n, c->outs.arrays, &c->how, &c->e);
        settle(c, has_outs ? &c->outs : &c->values);
        PyEval_RestoreThread(gil);
    }
    return end(c);
}

PyObject *py_calls_pushpull(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "value", "out", "priority", "wait", NULL};
    PyObject *in[5];
    call c;
    if (!py_args("pushpull", names, 2, args, n, kw, in) ||
        !py_store_sync((py_store *)self, in[0]) || !begin(&c, self, in[3], in[4]))
        return NULL;
    return in_and_out(&c, kv_pushpull, in[0], in[1], in[2], true);
}

PyObject *py_calls_broadcast(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static const char *const names[] = {"key", "value", "out", "priority", NULL};
    PyObject *in[4];
    call c;
    if (!py_args("broadcast", names, 2, args, n, kw, in) || !begin(&c, self, in[3], NULL))
        return NULL;
    return in_and_out(&c, kv_broadcast, in[0], in[1], in[2], false);
}

static bool same_key(const kv_key *a, const kv_key *b)
{
    return a->name && b->name ? strcmp(a->name, b->name) == 0 : a->id == b->id;
}

/* Returns true if each array of ids is for the key of its out. */
static bool ids_fit(const py_pairs *outs, const py_pairs *ids)
{
    bool fit = ids->n == outs->n;
    for (int64_t i = 0; i < ids->n && fit; i++)
        fit = same_key(&outs->keys[i], &ids->keys[i]);
    return fit;
}

static bool all_of_key(const py_pairs *outs, const kv_key *key)
{
    bool all = true;
    for (int64_t i = 0; i < outs->n && all; i++)
        all = same_key(&outs->keys[i], key);
    return all;
}

PyObject *py_calls_row_sparse_pull(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                   PyObject *kw)
{
    static const char *const names[] = {"key", "out", "priority", "row_ids", NULL};
    PyObject *in[4];
    py_pairs ids;
    call c;
    if (!py_args("row_sparse_pull", names, 1, args, n, kw, in))
        return NULL;
    if (!in[1] || in[1] == Py_None || !in[3] || in[3] == Py_None)
        return py_fail(KV_E_USAGE, "", "row_sparse_pull() needs out= and row_ids=");
    if (!begin(&c, self, in[2], NULL))
        return NULL;
    py_pairs_init(&ids);
    c.good = py_pairs_add(&c.outs, in[0], in[1], true, c.batch) &&
             py_pairs_add(&ids, in[0], in[3], false, c.batch);
    /* One array of ids is for all outs of its key, as MXNet has it. */
    bool shared = c.good && ids.n == 1 && c.outs.n > 1 && all_of_key(&c.outs, &ids.keys[0]);
    while (c.good && shared && c.values.n < c.outs.n)
        c.good = py_pairs_add(&c.values, in[0], in[3], false, c.batch);
    if (c.good && !shared && !ids_fit(&c.outs, &ids))
        c.good = py_fail(KV_E_USAGE, "each out of a key takes an array of ids",
                         "%lld outs and %lld arrays of row ids do not fit key by key",
                         (long long)c.outs.n, (long long)ids.n);
    if (c.good) {
        PyThreadState *gil = PyEval_SaveThread();
        c.rc =
            kv_row_sparse_pull(c.store->kv, c.outs.keys, c.outs.n,
                               shared ? c.values.arrays : ids.arrays, c.outs.arrays, &c.how, &c.e);
        settle(&c, NULL);
        PyEval_RestoreThread(gil);
    }
    py_pairs_release(&ids);
    return end(&c);
}
