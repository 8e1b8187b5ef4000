/* Stores are opened and closed, and lists of arrays read and written. */
#include "py_store.h"

#include "py_array.h"
#include "py_pairs.h"
#include "py_wait.h"

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
    if (!good) {
        py_task_free(t);
        return NULL;
    }
    if (!py_task_run(t, true))
        return NULL;
    py_drain();
    PyObject *o = t->rc ? py_raise(&t->e) : py_store_adopt(class, t->kv);
    py_task_free(t);
    return o;
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
    PyObject *result = NULL;
    if (py_pairs_add(&p, args[1], args[2], false, t->batch) && py_task_run(t, false))
        result = py_task_result(t);
    else
        py_task_free(t);
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
    t->list = PyList_New(0);
    if (!t->list || !py_batch_keep(t->batch, path)) {
        py_task_free(t);
        return NULL;
    }
    PyObject *list = Py_NewRef(t->list);
    if (!py_task_run(t, true)) {
        Py_DECREF(list);
        return NULL;
    }
    PyObject *none = py_task_result(t);
    if (!none)
        Py_CLEAR(list);
    Py_XDECREF(none);
    return list;
}

static int call_free(py_task *t, kv_err *e)
{
    (void)e;
    kv_free(t->kv);
    return KV_OK;
}

PyObject *py_open_close(PyObject *self, PyObject *none)
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
        if (!py_task_run(t, false))
            return NULL;
        py_store_closed(s);
        py_task_free(t);
    }
    return py_store_result(s, KV_OK, NULL); /* what an updater raised since the last call */
}

#define FAST(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL

PyMethodDef py_open_functions[] = {
    {"create", FAST(create), NULL},
    {"load", FAST(load), NULL},
    {"save_list", FAST(save_list), NULL},
    {"load_list", load_list, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
