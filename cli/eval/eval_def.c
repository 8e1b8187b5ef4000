/* A function has a scope of its own. The names that it sets anywhere are its own from the first
 * line on, as in Python, so that none of them means a variable outside of it.
 */
#include "eval/eval.h"

#include <string.h>

#include "syntax/effect.h"
#include "syntax/function.h"
#include "syntax/parse_statement.h"

/* ---- Names ---- */

/* Adds the names that the statements below node set, but not those of other functions. */
static int find_assigned(map *names, const ast *node, kv_err *e)
{
    if (!node || node->kind == STMT_DEF)
        return KV_OK;
    if (node->kind >= AST_SCRIPT) /* a comprehension has a scope of its own */
        TRY(effect_sets(node, effect_put_name, names, e));
    for (uint32_t i = 0; i < node->n; i++)
        TRY(find_assigned(names, node->kid[i], e));
    return KV_OK;
}

static bool is_parameter(const ast *def, const char *name)
{
    for (uint32_t i = 1; i < def->n; i++)
        if (strcmp(def->kid[i]->u.text, name) == 0)
            return true;
    return false;
}

/* A function inside of another does not see that one's variables, but those of the script. */
static int check_reads(session *s, const ast *def, const def_values *d, const ast *node, kv_err *e)
{
    if (!node || node->kind == STMT_DEF)
        return KV_OK;
    const char *name = node->kind == AST_NAME ? node->u.text : NULL;
    kv_key key = {0, name};
    if (name && !is_parameter(def, name) && map_get(&d->assigned, key) < 0 &&
        (map_get(&s->locals->names, key) >= 0 || session_awaits_name(s, name))) {
        unit_err(s, node, e, KV_E_UNSUPPORTED, "`%s` does not see `%s` of the function around it",
                 def->u.text, name);
        return kv_err_hint(e, "give it as a parameter: def %s(…, %s)", def->u.text, name);
    }
    for (uint32_t i = 0; i < node->n; i++)
        TRY(check_reads(s, def, d, node->kid[i], e));
    return KV_OK;
}

/* ---- def ---- */

int eval_def(session *s, const ast *node, def_values **out, kv_err *e)
{
    int64_t n = node->n - 1;
    def_values *d = mem_zalloc((int64_t)(sizeof *d + (size_t)n * sizeof *d->defaults), 1, e);
    if (!d)
        return KV_E_MEMORY;
    d->refs = 1;
    d->n = n;
    int rc = find_assigned(&d->assigned, node->kid[0], e);
    if (rc == KV_OK && s->locals)
        rc = check_reads(s, node, d, node->kid[0], e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        if (node->kid[i + 1]->kind == AST_ARG)
            rc = eval(s, node->kid[i + 1]->kid[0], &d->defaults[i], e);
    if (rc)
        def_values_unref(d);
    else
        *out = d;
    return rc;
}

/* ---- Calls ---- */

/* Gives the parameters the values of the call, and the others their defaults. */
static int bind(session *s, const definition *d, const ast *node, const call_values *given,
                scope *own, kv_err *e)
{
    int64_t small[16];
    own_mem int64_t *more = given->n <= 16 ? NULL : mem_alloc(given->n, sizeof *more, e);
    int64_t *to = given->n <= 16 ? small : more;
    if (!to)
        return KV_E_MEMORY;
    TRY(function_match(&s->unit->src, d->node, node, given->names, given->n, to, e));
    for (int64_t i = 0; i < given->n; i++)
        TRY(scope_set(own, d->node->kid[to[i] + 1]->u.text, value_ref(given->items[i]), e));
    for (uint32_t i = 1; i < d->node->n; i++) {
        const char *name = d->node->kid[i]->u.text;
        if (map_get(&own->names, (kv_key){0, name}) < 0)
            TRY(scope_set(own, name, value_ref(d->values->defaults[i - 1]), e));
    }
    return KV_OK;
}

int eval_call_definition(session *s, const definition *d, const ast *node, const call_values *given,
                         value *out, kv_err *e)
{
    const ast *def = d->node;
    def_values *values = d->values; /* the body may define the function anew */
    own_scope own = {.assigned = &values->assigned, .quiet = !def->op && def->kid[0]->op == 1};
    scope *locals = s->locals;
    run_flow *outer = s->flow, f = {FLOW_ON, value_none()};
    unit *caller = s->unit, *its = d->unit;
    size_t details = s->detail.len;
    *out = value_none();
    if (s->depth >= PARSE_MAX_DEPTH)
        return unit_err(s, node, e, KV_E_VALUE, "calls are nested deeper than %d", PARSE_MAX_DEPTH);
    TRY(bind(s, d, node, given, &own, e));
    int rc = KV_OK;
    values->refs++;
    s->locals = &own;
    s->unit = its;
    s->depth++;
    if (def->op)
        rc = eval(s, def->kid[0], out, e);
    else if ((rc = registry.run_block(s, def->kid[0], &f, e)) == KV_OK)
        *out = f.returned;
    else
        value_release(&f.returned);
    s->depth--;
    s->locals = locals;
    s->flow = outer;
    s->unit = caller;
    def_values_unref(values);
    if (rc && its->prelude) { /* an error of the call, as that text is not the user's */
        if (s->detail.len > details)
            s->detail.data[s->detail.len = details] = '\0';
        e->code = rc == KV_E_ASSERT ? KV_E_VALUE : rc;
        e->line = e->file[0] = e->hint[0] = 0;
        return unit_at(s, node, e);
    }
    if (its->prelude && out->kind == VALUE_ARRAY && out->u.box->refs == 1) { /* as C makes one */
        out->u.box->is_number = kv_array_ndim(out->u.box->array) == 0;
        out->u.box->part = (array_part){0};
    }
    if (rc)
        session_caller(s, node);
    return rc;
}
