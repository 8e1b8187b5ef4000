/* Stores are opened and closed. */
#include "py_open.h"

#include "py_pairs.h"
#include "py_task.h"

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
    {NULL, NULL, 0, NULL},
};
