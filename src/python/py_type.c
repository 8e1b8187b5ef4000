/* The class of stores: they are opened and closed, answer questions and are changed; also the
 * functions that make one, and functions that read and write lists of arrays. */
#include "py_store.h"

#include "py_array.h"
#include "py_pairs.h"
#include "py_wait.h"

/* ---- Opening and closing, lists of arrays ---- */

static int call_create(py_task *t, kv_err *e)
{
    return kv_create(t->text, t->opts, t->nopts, &t->kv, e);
}

static int call_load(py_task *t, kv_err *e)
{
    return kv_load(&t->kv, t->text, e);
}

/* The object for the store that a call makes. */
static PyObject *make(py_task *t, PyTypeObject *class, bool good)
{
    if (!py_task_run(t, good, true))
        return NULL;
    py_drain();
    PyObject *o = t->rc ? py_raise(&t->e) : py_store_adopt(class, t->kv);
    py_task_free(t);
    return o;
}

/* None once a call was made, or NULL with an exception; good: as for py_task_run. Ends t. */
static PyObject *run(py_task *t, bool good, bool always)
{
    return py_task_run(t, good, always) ? py_task_result(t) : NULL;
}

/* The list that a call fills, or NULL with an exception; good: as for py_task_run. Ends t. */
static PyObject *run_list(py_task *t, bool good, bool always)
{
    t->list = good ? PyList_New(0) : NULL;
    if (!py_task_run(t, t->list != NULL, always))
        return NULL;
    py_drain();
    PyObject *list = t->rc ? py_raise(&t->e) : Py_NewRef(t->list);
    py_task_free(t);
    return list;
}

/* create(class, type, options as a dict of texts) */
static PyObject *create(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyTypeObject *class;
    const char *type = n == 3 && py_class(args[0], py.store, &class) ? py_text(args[1]) : NULL;
    py_task *t = type ? py_task_new(NULL, call_create) : NULL;
    if (!t)
        return NULL;
    t->text = type;
    return make(t, class,
                py_batch_keep(t->batch, args[1]) &&
                    py_pairs_options(args[2], &t->opts, &t->nopts, t->batch));
}

/* load(class, path) */
static PyObject *load(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyTypeObject *class;
    const char *path = n == 2 && py_class(args[0], py.store, &class) ? py_text(args[1]) : NULL;
    py_task *t = path ? py_task_new(NULL, call_load) : NULL;
    if (!t)
        return NULL;
    t->text = path;
    return make(t, class, py_batch_keep(t->batch, args[1]));
}

/* ---- Files of nd.save ---- */

static int call_save_list(py_task *t, kv_err *e)
{
    const py_pairs *p = t->what;
    return kv_save_list(t->text, p->keys, p->n, p->arrays, e);
}

/* save_list(path, list of keys, list of arrays) */
static PyObject *save_list(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    py_pairs p;
    const char *path = n == 3 ? py_text(args[0]) : NULL;
    py_task *t = path ? py_task_new(NULL, call_save_list) : NULL;
    if (!t)
        return NULL;
    py_pairs_init(&p);
    t->text = path;
    t->what = &p;
    PyObject *result = run(t, py_pairs_add(&p, args[1], args[2], false, t->batch), false);
    py_pairs_release(&p);
    return result;
}

/* Adds (name or None, array or None) to a list. */
static int add(void *list, const char *name, kv_array *a, kv_err *e)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    bool sparse = a && kv_array_storage(a) == KV_ROW_SPARSE;
    PyObject *o = a ? py_array_new(sparse ? py.handed_sparse : py.array, kv_array_ref(a))
                    : Py_NewRef(Py_None);
    PyObject *pair = o ? Py_BuildValue("(zN)", name, o) : NULL;
    bool good = pair && PyList_Append(list, pair) == 0;
    Py_XDECREF(pair);
    PyErr_Clear();
    PyGILState_Release(gil);
    return good ? KV_OK : kv_err_set(e, KV_E_MEMORY, "out of memory");
}

static int call_load_list(py_task *t, kv_err *e)
{
    return kv_load_list(t->text, add, t->list, e);
}

/* load_list(path): a list of (name or None, array or None) */
static PyObject *load_list(PyObject *module, PyObject *path)
{
    (void)module;
    const char *text = py_text(path);
    py_task *t = text ? py_task_new(NULL, call_load_list) : NULL;
    if (!t)
        return NULL;
    t->text = text;
    return run_list(t, py_batch_keep(t->batch, path), true);
}

static int call_free(py_task *t, kv_err *e)
{
    (void)e;
    kv_free(t->kv);
    return KV_OK;
}

static PyObject *close_store(PyObject *self, PyObject *none)
{
    (void)none;
    py_store *s = (py_store *)self;
    if (s->calls > 0)
        return py_fail(KV_E_BUSY, "", "another thread is in a call of this store");
    if (s->kv && s->forked)
        py_store_end(s);
    if (s->kv) {
        py_task *t = py_task_new(s, call_free);
        if (!t)
            return NULL;
        s->kv = NULL;
        py_store_leave_list(s);
        if (!py_task_run(t, true, false))
            return NULL;
        py_store_closed(s);
        py_task_free(t);
    }
    return py_store_result(s, KV_OK, NULL); /* what an updater raised since the last call */
}

#define FAST(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL

PyMethodDef py_type_functions[] = {
    {"create", FAST(create), NULL},
    {"load", FAST(load), NULL},
    {"save_list", FAST(save_list), NULL},
    {"load_list", load_list, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* ---- Questions: keys, descriptions ---- */

static PyObject *is_capable(PyObject *self, PyObject *what)
{
    py_store *s = (py_store *)self;
    kv_err e = {0};
    bool yes = false;
    int rc;
    const char *text = py_text(what);
    if (!text || !py_store_enter(s))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    rc = kv_is_capable(s->kv, text, &yes, &e);
    PyEval_RestoreThread(gil);
    py_store_leave(s);
    return rc ? py_raise(&e) : PyBool_FromLong(yes);
}

static PyObject *info_dict(const kv_info *i)
{
    PyObject *shape = PyTuple_New(i->ndim);
    for (int axis = 0; shape && axis < i->ndim; axis++)
        PyTuple_SetItem(shape, axis, PyLong_FromLongLong(i->shape[axis]));
    PyObject *key =
        i->key.name ? PyUnicode_FromString(i->key.name) : PyLong_FromLongLong(i->key.id);
    if (!shape || !key) {
        Py_XDECREF(shape);
        Py_XDECREF(key);
        return NULL;
    }
    return Py_BuildValue("{sN ss sN s(si) sL sL sL ss}", "key", key, "dtype",
                         kv_dtype_name(i->dtype), "shape", shape, "ctx",
                         i->ctx.device == KV_GPU ? "gpu" : "cpu", (int)i->ctx.id, "bytes",
                         (long long)i->bytes, "pushes", (long long)i->pushes, "pending",
                         (long long)i->pending, "stype", kv_storage_name(i->storage));
}

/* For kv_visit_keys, since another thread may delete the key behind it: appends a dict to a list.
 */
static int visit_key(void *list, const kv_info *info, kv_err *e)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *dict = info_dict(info);
    bool good = dict && !PyList_Append(list, dict);
    Py_XDECREF(dict);
    PyErr_Clear();
    PyGILState_Release(gil);
    return good ? KV_OK : kv_err_set(e, KV_E_MEMORY, "no memory for the description of a key");
}

static int call_keys(py_task *t, kv_err *e)
{
    kv_info unused;
    int rc = t->keys ? kv_await_key(t->kv, t->keys, &unused, e) : KV_OK;
    return rc ? rc : kv_visit_keys(t->kv, t->keys, visit_key, t->list, e);
}

/* _keys(), where key is NULL: a dict for each key, in the order of updates. Else that of one. */
static PyObject *ask_keys(PyObject *self, PyObject *key)
{
    py_task *t = py_task_new((py_store *)self, call_keys);
    if (!t)
        return NULL;
    t->keys = key ? PyMem_Malloc(sizeof *t->keys) : NULL;
    bool good = !key || t->keys || PyErr_NoMemory();
    return run_list(t, good && (!key || py_pairs_key(key, t->keys, t->batch)), false);
}

/* _find(key) */
static PyObject *find_key(PyObject *self, PyObject *key)
{
    PyObject *list = ask_keys(self, key);
    PyObject *result = list ? Py_NewRef(PyList_GetItem(list, 0)) : NULL;
    Py_XDECREF(list);
    return result;
}

static int visit_row(void *arg, const kv_field *fields, int n, kv_err *e)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *dict = PyDict_New();
    bool good = dict != NULL;
    for (int i = 0; i < n && good; i++) {
        PyObject *value = fields[i].text ? PyUnicode_FromString(fields[i].text)
                                         : PyLong_FromLongLong(fields[i].number);
        good = value && !PyDict_SetItemString(dict, fields[i].name, value);
        Py_XDECREF(value);
    }
    good = good && !PyList_Append(arg, dict);
    Py_XDECREF(dict);
    PyErr_Clear();
    PyGILState_Release(gil);
    return good ? KV_OK : kv_err_set(e, KV_E_MEMORY, "no memory for a description");
}

static int call_describe(py_task *t, kv_err *e)
{
    return kv_describe(t->kv, t->text, visit_row, t->list, e);
}

/* describe(topic). self: NULL for a topic without a store. */
static PyObject *describe(PyObject *self, PyObject *topic)
{
    const char *text = py_text(topic);
    py_task *t = text ? py_task_new((py_store *)self, call_describe) : NULL;
    if (!t)
        return NULL;
    t->text = text;
    return run_list(t, py_batch_keep(t->batch, topic), false);
}

PyObject *py_type_describe(PyObject *module, PyObject *topic)
{
    (void)module;
    return describe(NULL, topic);
}

/* ---- Changes ---- */

/* How a store is told of a name with options. */
typedef int (*set_named)(kv *store, const char *name, const kv_opt *params, int nparams, kv_err *e);

static int set_rule(kv *store, const char *text, const kv_opt *params, int n, kv_err *e)
{
    kv_rule *rule = NULL;
    int rc = kv_rule_new(&rule, text, "rule", 1, 1, e);
    if (!rc)
        rc = kv_set_rule(store, rule, params, n, e);
    kv_rule_free(rule);
    return rc;
}

static int update_optimizer(kv *store, const char *name, const kv_opt *params, int n, kv_err *e)
{
    (void)name;
    return kv_update_optimizer(store, params, n, e);
}

static int set_compression(kv *store, const char *name, const kv_opt *params, int n, kv_err *e)
{
    (void)name;
    return kv_set_gradient_compression(store, params, n, e);
}

static const struct py_setting {
    const char *name;
    set_named set;
    bool replaces; /* the updater */
} settings[] = {{"optimizer", kv_set_optimizer, true},
                {"rule", set_rule, true},
                {"update", update_optimizer, false},
                {"compression", set_compression, false}};

static int call_set(py_task *t, kv_err *e)
{
    const struct py_setting *what = t->what;
    return what->set(t->kv, t->text, t->opts, t->nopts, e);
}

/* _set(what, text, options as a dict of texts) */
static PyObject *set(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    py_store *s = (py_store *)self;
    const struct py_setting *what = settings;
    const char *text = n == 3 ? py_text(args[1]) : NULL;
    py_task *t = text ? py_task_new(s, call_set) : NULL;
    if (!t)
        return NULL;
    while (PyUnicode_CompareWithASCIIString(args[0], what->name))
        what++;
    t->what = what;
    t->text = text;
    bool good = py_batch_keep(t->batch, args[1]) &&
                py_pairs_options(args[2], &t->opts, &t->nopts, t->batch);
    if (!py_task_run(t, good, false))
        return NULL;
    if (!t->rc && what->replaces)
        py_updater_gone(s);
    return py_task_result(t);
}

/* Calls of the store alone, by name: _do(name). */
static const struct py_act {
    const char *name;
    int (*act)(kv *store, kv_err *e);
} acts[] = {{"barrier", kv_barrier}, {"done", kv_done},         {"begin", kv_begin},
            {"commit", kv_commit},   {"rollback", kv_rollback}, {"check", kv_check}};

static int call_act(py_task *t, kv_err *e)
{
    const struct py_act *what = t->what;
    return what->act(t->kv, e);
}

static PyObject *act(PyObject *self, PyObject *name)
{
    py_store *s = (py_store *)self;
    const struct py_act *what = acts;
    py_task *t = py_task_new(s, call_act);
    if (!t)
        return NULL;
    while (PyUnicode_CompareWithASCIIString(name, what->name))
        what++;
    t->what = what;
    if (!py_task_run(t, true, false))
        return NULL;
    if (!t->rc && what->act == kv_rollback)
        py_updater_look(s); /* perhaps the one of before is back */
    return py_task_result(t);
}

/* _watch(whether the optimizer is an object, whether a schedule of Python runs before each push) */
static PyObject *watch(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    py_store *s = (py_store *)self;
    s->watches = n == 2 && PyObject_IsTrue(args[0]);
    s->each_push = n == 2 && PyObject_IsTrue(args[1]);
    s->synced = py.changes;
    return Py_NewRef(Py_None);
}

/* Waits until nothing is under way. Returns false with the exception of a signal's handler. */
static bool wait_with_signals(py_store *s, int *rc, kv_err *e)
{
    bool idle = false;
    do {
        PyThreadState *gil = PyEval_SaveThread();
        *rc = kv_wait_for(s->kv, PY_SLICE_MS, &idle, e);
        PyEval_RestoreThread(gil);
        if (!py_look()) {
            if (*rc && !s->late.code)
                s->late = *e; /* for the next wait */
            return false;
        }
    } while (!*rc && !idle);
    return true;
}

static PyObject *wait_method(PyObject *self, PyObject *none)
{
    (void)none;
    py_store *s = (py_store *)self;
    kv_err e = {0};
    int rc;
    if (!py_store_enter(s))
        return NULL;
    if (!wait_with_signals(s, &rc, &e)) {
        py_store_leave(s);
        return NULL;
    }
    if (s->late.code) { /* it came first */
        e = s->late;
        rc = e.code;
        s->late = (kv_err){0};
    }
    py_drain();
    PyObject *result = py_store_result(s, rc, &e);
    py_store_leave(s);
    return result;
}

/* Calls with a path: _file(name, path). */
static int save_states(kv *store, const char *path, kv_err *e)
{
    return kv_save_states(store, path, 0, e);
}

static int save_optimizer(kv *store, const char *path, kv_err *e)
{
    return kv_save_states(store, path, KV_DUMP_OPTIMIZER, e);
}

static const struct py_file {
    const char *name;
    int (*use)(kv *store, const char *path, kv_err *e);
} files[] = {{"save", kv_save},
             {"save_arrays", kv_save_arrays},
             {"save_states", save_states},
             {"save_optimizer", save_optimizer},
             {"load_states", kv_load_states}};

static int call_file(py_task *t, kv_err *e)
{
    const struct py_file *what = t->what;
    return what->use(t->kv, t->text, e);
}

static PyObject *file(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    const struct py_file *what = files;
    const char *path = n == 2 ? py_text(args[1]) : NULL;
    py_task *t = path ? py_task_new((py_store *)self, call_file) : NULL;
    if (!t)
        return NULL;
    while (PyUnicode_CompareWithASCIIString(args[0], what->name))
        what++;
    t->what = what;
    t->text = path;
    return run(t, py_batch_keep(t->batch, args[1]), true);
}

static int call_command(py_task *t, kv_err *e)
{
    return kv_send_command(t->kv, t->number, t->text, e);
}

static PyObject *send_command(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    long head = n == 2 ? PyLong_AsLong(args[0]) : -1;
    const char *body = n == 2 && !PyErr_Occurred() ? py_text(args[1]) : NULL;
    if (n != 2)
        return py_fail(KV_E_USAGE, "", "_send_command_to_servers() takes a number and a text");
    py_task *t = body ? py_task_new((py_store *)self, call_command) : NULL;
    if (!t)
        return NULL;
    t->number = (int)head;
    t->text = body;
    return run(t, py_batch_keep(t->batch, args[1]), false);
}

static int call_delete(py_task *t, kv_err *e)
{
    return kv_delete(t->kv, t->keys, t->nkeys, e);
}

static int call_rename(py_task *t, kv_err *e)
{
    return kv_rename(t->kv, &t->keys[0], &t->keys[1], e);
}

/* delete(keys), rename(from, to) */
static PyObject *delete (PyObject *self, PyObject *keys)
{
    bool list = PyList_Check(keys) || PyTuple_Check(keys);
    Py_ssize_t n = list ? PySequence_Size(keys) : 1;
    py_task *t = py_task_new((py_store *)self, call_delete);
    if (!t)
        return NULL;
    t->keys = PyMem_Malloc((size_t)(n + 1) * sizeof *t->keys);
    t->nkeys = n;
    bool good = t->keys || PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && good; i++) {
        PyObject *key = list ? PySequence_GetItem(keys, i) : keys;
        good = key && py_pairs_key(key, &t->keys[i], t->batch);
        if (list)
            Py_XDECREF(key);
    }
    return run(t, good, false);
}

static PyObject *rename_key(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2)
        return py_fail(KV_E_USAGE, "", "rename() takes two keys");
    py_task *t = py_task_new((py_store *)self, call_rename);
    if (!t)
        return NULL;
    t->keys = PyMem_Malloc(2 * sizeof *t->keys);
    return run(t,
               (t->keys || PyErr_NoMemory()) && py_pairs_key(args[0], &t->keys[0], t->batch) &&
                   py_pairs_key(args[1], &t->keys[1], t->batch),
               false);
}

/* ---- Attributes ---- */

/* The store, or NULL and an error after close(). */
static kv *store_of(PyObject *self)
{
    kv *store = ((py_store *)self)->kv;
    if (!store)
        py_fail(KV_E_USAGE, "", "this store is closed");
    return store;
}

static PyObject *get_type(PyObject *self, void *closure)
{
    (void)closure;
    kv *store = store_of(self);
    return store ? PyUnicode_FromString(kv_type(store)) : NULL;
}

static PyObject *get_rank(PyObject *self, void *closure)
{
    (void)closure;
    kv *store = store_of(self);
    return store ? PyLong_FromLong(kv_rank(store)) : NULL;
}

static PyObject *get_num_workers(PyObject *self, void *closure)
{
    (void)closure;
    kv *store = store_of(self);
    return store ? PyLong_FromLong(kv_num_workers(store)) : NULL;
}

static PyObject *get_closed(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(!((py_store *)self)->kv);
}

static PyObject *get_in_transaction(PyObject *self, void *closure)
{
    (void)closure;
    py_store *s = (py_store *)self;
    if (!s->kv)
        return PyBool_FromLong(0);
    s->calls++;
    PyThreadState *gil = PyEval_SaveThread(); /* it waits for the calls of other threads */
    bool open = kv_in_transaction(s->kv);
    PyEval_RestoreThread(gil);
    s->calls--;
    return PyBool_FromLong(open);
}

/* ---- The type ---- */

#define FAST(f)    (PyCFunction)(void (*)(void)) f, METH_FASTCALL
#define FAST_KW(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"init", FAST_KW(py_calls_init),
     "init($self, key, value)\n--\n\nPuts a copy of `value` under a key that is new; lists put "
     "several. Key: "
     "int or str, one kind "
     "a store.\nThe key keeps shape, dtype and storage of the value. On several machines the value "
     "of rank 0 counts."},
    {"push", FAST_KW(py_calls_push),
     "push($self, key, value, priority=0, wait=True)\n--\n\nSums the arrays of each key, left to "
     "right, in "
     "the dtype of the key, and "
     "hands the sum to the updater;\nwithout one the sum becomes the value. `value`: an array of "
     "the key's shape, or a "
     "list of them; for a list\nof keys a list of these. Arrays of NumPy, PyTorch, CuPy, JAX, and "
     "whatever has the buffer "
     "protocol or DLPack,\nare read without a copy.\n\nThe call returns when the store has read "
     "them. With wait=False it "
     "returns at once: then do not change or\nresize them before kv.wait(). A larger priority is "
     "sooner."},
    {"pull", FAST_KW(py_calls_pull),
     "pull($self, key, out=None, priority=0, ignore_sparse=True, wait=True)\n--\n\nWrites the "
     "newest value of a "
     "key into `out`, an array "
     "of the key's shape or a list of them, converted to\nits dtype. With wait=False it returns "
     "before the elements are "
     "there, which kv.wait() waits for.\nrow_sparse outs are left as they are unless ignore_sparse "
     "is False."},
    {"pushpull", FAST_KW(py_calls_pushpull),
     "pushpull($self, key, value, out=None, priority=0, wait=True)\n--\n\npush, then pull, in one "
     "call. "
     "Without `out` the results go "
     "into `value`."},
    {"broadcast", FAST_KW(py_calls_broadcast),
     "broadcast($self, key, value, out=None, priority=0)\n--\n\ninit, then pull: every worker gets "
     "the value "
     "of rank 0. A key can be "
     "broadcast once."},
    {"row_sparse_pull", FAST_KW(py_calls_row_sparse_pull),
     "row_sparse_pull($self, key, out=None, priority=0, row_ids=None)\n--\n\nWrites the rows "
     "`row_ids` of a row_sparse "
     "key into row_sparse "
     "`out`, which then holds these rows, ascending\nand each once. row_ids: an array of whole "
     "numbers from 0 to rows - 1, "
     "one for all outs or one each."},
    {"wait", wait_method, METH_NOARGS,
     "Waits for all that was scheduled, and raises the first error of it that no call has raised."},
    {"close", close_store, METH_NOARGS,
     "Waits for all that was scheduled and releases the store."},
    {"delete", delete, METH_O,
     "delete(keys): takes keys out, with their counts and states; all or none."},
    {"rename", FAST(rename_key), "rename(key, to): gives a key another name."},
    {"describe", describe, METH_O,
     "describe(topic): the rows of \"store\", \"rounds\", \"cluster\", \"rule\", \"optimizer\", "
     "\"states\" or\n"
     "\"metadata\", a dict each; kvstore.h lists their fields."},
    {"is_capable", is_capable, METH_O,
     "is_capable(name): whether stores of this type have \"optimizer\", \"row_sparse\", ..."},
    {"_set_updater", py_updater_set, METH_O,
     "_set_updater($self, function)\n--\n\nfunction(key, input, stored) runs at each push, in key "
     "order: it "
     "changes `stored` in "
     "place, by `input`, the\nsum that was pushed, which is only read. An exception keeps the old "
     "value of that key, and "
     "the push raises\nit. None: without an updater a push stores the sum."},
    {"_send_command_to_servers", FAST(send_command),
     "_send_command_to_servers(head, body): a number and a text, carried out by every server."},
    {"_set", FAST(set), NULL},
    {"_watch", FAST(watch), NULL},
    {"_do", act, METH_O, NULL},
    {"_file", FAST(file), NULL},
    {"_keys", ask_keys, METH_NOARGS, NULL},
    {"_find", find_key, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"type", get_type, NULL, "The name of the type, such as \"local\".", NULL},
    {"rank", get_rank, NULL, "The number of this worker, from 0.", NULL},
    {"num_workers", get_num_workers, NULL, "How many workers there are.", NULL},
    {"closed", get_closed, NULL, "Whether close() was called.", NULL},
    {"in_transaction", get_in_transaction, NULL, "Whether begin() was called, and no end of it.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A store; kvstore.KVStore is the class that is used."},
    {Py_tp_dealloc, py_store_dealloc},
    {Py_tp_traverse, py_store_traverse},
    {Py_tp_clear, py_store_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

PyType_Spec py_type_store = {
    .name = "kvstore._kvstore.Store",
    .basicsize = sizeof(py_store),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
