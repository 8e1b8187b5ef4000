/* explain: the work that a command would do, or does, in words. */
#include <string.h>

#include "base/mem.h"
#include "base/stop.h"
#include "cmd/commands.h"
#include "cmd/explain.h"
#include "eval/eval.h"
#include "run/run.h"
#include "session/containers.h"
#include "session/unit.h"
#include "syntax/parse_statement.h"

/* The variables of a scope, and what the arrays and lists hold that they refer to. Elements of
 * arrays are shared until written, so this copies none. */
typedef struct snapshot {
    scope *of;
    value *values;
    int64_t n;
    value_stack objects, contents; /* another object with the same contents for each */
} snapshot;

static int keep_contents(snapshot *p, value v, kv_err *e)
{
    value same = value_none();
    bool items = value_has_items(v);
    int rc = items ? value_descend(e) : KV_OK;
    if (v.kind == VALUE_DICT)
        dict_settle(v);
    if (rc == KV_OK && v.kind == VALUE_ARRAY)
        rc = value_array(&same, kv_array_ref(v.u.box->array), e);
    else if (rc == KV_OK && v.kind == VALUE_LIST)
        rc = list_repeat(&same, v, 1, e);
    else if (rc == KV_OK && v.kind == VALUE_DICT)
        rc = dict_copy(&same, v, e);
    if (rc == KV_OK && same.kind != VALUE_NONE &&
        (rc = value_stack_add(&p->contents, same, e)) == KV_OK)
        rc = value_stack_add(&p->objects, value_ref(v), e);
    for (int64_t i = 0; items && i < v.u.list->n && rc == KV_OK; i++)
        if ((rc = stop_check_at(i, e)) == KV_OK)
            rc = keep_contents(p, v.u.list->items[i], e);
    return rc;
}

static void put_contents_back(snapshot *p)
{
    kv_err unused = {0};
    for (int64_t i = 0; i < p->objects.n; i++) {
        value object = p->objects.items[i], had = p->contents.items[i];
        if (object.kind == VALUE_ARRAY) {
            value_replace(object, kv_array_ref(had.u.box->array));
        } else if (object.kind == VALUE_DICT) {
            dict_clear(object);
            dict_update(object, had, &unused);
        } else {
            list_splice(object, 0, object.u.list->n, had, &unused);
        }
    }
    value_stack_release(&p->objects);
    value_stack_release(&p->contents);
}

static int snapshot_take(snapshot *p, scope *of, kv_err *e)
{
    *p = (snapshot){.of = of};
    if (!of || !(p->values = mem_alloc(of->n, sizeof *p->values, e)))
        return of ? KV_E_MEMORY : KV_OK;
    for (; p->n < of->n; p->n++)
        p->values[p->n] = value_ref(of->items[p->n].v);
    int rc = KV_OK;
    for (int64_t i = 0; i < p->n && rc == KV_OK; i++)
        rc = keep_contents(p, p->values[i], e);
    return rc;
}

/* Variables that were made since then are there, but none. */
static void snapshot_restore(session *s, snapshot *p)
{
    scope *here = s->locals;
    s->locals = p->of == &s->globals ? NULL : p->of;
    while (p->of && p->of->n > p->n)
        session_unset(s, p->of->items[p->of->n - 1].name);
    for (int64_t i = 0; i < p->n; i++) {
        value_release(&p->of->items[i].v);
        p->of->items[i].v = p->values[i];
    }
    s->locals = here;
    put_contents_back(p);
    mem_free(p->values);
}

/* Runs the command and takes back what it did; what the store did is told to s->explanation. */
static int try(session *s, const ast *node, kv_err *e)
{
    snapshot globals, locals = {0};
    sink dropped = {.kind = SINK_TAKES};
    session before = *s;
    int rc = snapshot_take(&globals, &s->globals, e);
    if (rc == KV_OK)
        rc = snapshot_take(&locals, s->locals, e);
    value last = value_ref(s->last);
    sink_push(s, &dropped);
    s->out.recorder.on = false;
    s->out.verbose = false;
    if (rc == KV_OK)
        rc = run_argument(s, node, e);
    sink_pop(s, &dropped);
    s->out.recorder.on = before.out.recorder.on;
    s->out.verbose = before.out.verbose;
    s->draws = before.draws;
    snapshot_restore(s, &globals);
    snapshot_restore(s, &locals);
    value_release(&s->last);
    s->last = last;
    buf_release(&dropped.text);
    return rc;
}

int cmd_explain(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *what = call->kid[0];
    buf text = {0};
    if (s->guest && what->kind == AST_TEXT)
        return unit_err(s, what, e, KV_E_UNSUPPORTED,
                        "the script alone can say whether its calls are explained");
    if (what->kind == AST_TEXT) {
        s->explains = strcmp(what->u.text, "on") == 0;
        return KV_OK;
    }
    if (s->explanation)
        return unit_err(s, what, e, KV_E_USAGE, "explain does not explain itself");
    s->explanation = &text;
    int rc = try(s, what, e);
    s->explanation = NULL;
    buf_add(&text, "nothing was changed\n");
    return result_text(out, &text, rc, e);
}
