/* Variables on their way from the script's thread to a guest. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/pool.h"
#include "session/visit.h"

/* ---- The script's thread ---- */

/* In the midst of a statement the script may be about to write into an array that it alone has. So
 * the guest gets an array of its own, unless the call in which the script waits uses this one. */
static int copy_apart(kv_array *a, value *out, kv_err *e)
{
    kv_array *made;
    bool there = kv_array_ctx(a).device == KV_CPU;
    TRY(there ? kv_array_await(a, 0, &there, e) : KV_OK);
    if (!there)
        return kv_err_set(e, KV_E_BUSY, "the script waits in a call that uses this array");
    int rc = kv_array_dup(&made, a, kv_array_dtype(a), kv_array_ctx(a), e);
    return rc ? rc : value_array(out, made, e);
}

static int copy(value v, value *out, bool apart, kv_err *e)
{
    int rc;
    *out = v;
    switch (v.kind) {
    case VALUE_NONE:
    case VALUE_BOOL:
    case VALUE_INT:
    case VALUE_FLOAT:
    case VALUE_CTX:
        return KV_OK;
    case VALUE_TEXT:
        return value_text(out, v.u.text, e);
    case VALUE_ARRAY:
        return apart ? copy_apart(v.u.box->array, out, e)
                     : value_array(out, kv_array_ref(v.u.box->array), e);
    case VALUE_LIST:
    case VALUE_TUPLE:
        if ((rc = value_descend(e)) || (rc = value_list_new(out, v.kind, v.u.list->n, e)))
            return rc;
        for (int64_t i = 0; i < v.u.list->n && rc == KV_OK; i++)
            if ((rc = copy(v.u.list->items[i], &out->u.list->items[i], apart, e)))
                out->u.list->items[i] = value_none();
        return value_finish(out, rc);
    case VALUE_DICT:
    case VALUE_OBJECT:
    case VALUE_BARE:
        break;
    }
    *out = value_none();
    return kv_err_set(e, KV_E_UNSUPPORTED, "%s of the script cannot be looked at from here",
                      value_kind_name(v));
}

/* The lock is held. apart: the script is in the midst of a statement. */
static void serve(session *s, bool apart)
{
    visit *v = s->visit;
    for (int i = 0; i < v->n && atomic_load(&v->wanted) && !v->error.code; i++) {
        const value *found = session_find(s, v->names[i]);
        if (found && copy(*found, &v->values[i], apart, &v->error))
            v->values[i] = value_none();
    }
    v->served = atomic_load(&v->wanted);
    atomic_store(&v->wanted, false);
    pthread_cond_broadcast(&v->changed);
}

void visit_serve(session *s)
{
    pthread_mutex_lock(&s->visit->lock);
    serve(s, false);
    pthread_mutex_unlock(&s->visit->lock);
}

/* ---- The guest's thread ---- */

enum { SOON_MS = 50 /* a script that runs comes to the end of a statement within that, mostly */ };

/* Waits until the script's thread has served, ms at most. */
static bool wait_served(visit *v, int ms)
{
    struct timespec end = clock_after(ms * INT64_C(1000000));
    while (!v->served && !atomic_load(&v->unwanted) &&
           pthread_cond_clockwait(&v->changed, &v->lock, CLOCK_MONOTONIC, &end) == 0)
        ;
    return v->served;
}

int visit_variables(session *guest, session *script, const char *const *names, int n, int ms,
                    kv_err *e)
{
    visit *v = script->visit;
    value *values = mem_zalloc(n, sizeof *values, e);
    if (!values)
        return KV_E_MEMORY;
    pthread_mutex_lock(&v->lock);
    v->names = names;
    v->n = n;
    v->values = values;
    v->served = false;
    v->error = (kv_err){0};
    atomic_store(&v->wanted, true);
    if (v->parked)
        serve(script, false);
    if (!wait_served(v, SOON_MS) && script_hold()) {
        serve(script, true);
        script_let_go();
    }
    bool served = wait_served(v, ms);
    atomic_store(&v->wanted, false);
    kv_err why = v->error;
    pthread_mutex_unlock(&v->lock);
    int rc = KV_OK;
    if (!served) {
        rc = kv_err_set(e, KV_E_BUSY, "the script is in the midst of a statement, and its "
                                        "variables can be read between two of them");
        kv_err_hint(e, "where, rounds, info --cluster, pull and stat answer all the same");
    } else if (why.code) {
        *e = why;
        rc = (int)why.code;
    }
    for (int i = 0; i < n; i++) {
        if (rc == KV_OK && values[i].kind != VALUE_NONE)
            rc = session_set(guest, names[i], values[i], e);
        else
            value_release(&values[i]);
    }
    mem_free(values);
    return rc;
}
