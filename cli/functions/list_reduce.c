/* A call that means one thing in Python and another in NumPy, such as max of a list of lists, is
 * refused. */
#include "functions/list_reduce.h"

#include <string.h>

#include "base/stop.h"
#include "eval/eval.h"
#include "session/containers.h"
#include "vm/host.h"

/* The arguments: those of a function that takes any number of them, else the first. */
static const value *given(const function_args *args, int64_t *n)
{
    *n = args->rest ? args->nrest : 1;
    return args->rest ? args->rest : args->v;
}

static bool holds(value v, bool (*is)(value item))
{
    bool found = is(v);
    for (int64_t i = 0; value_is_sequence(v) && i < v.u.list->n && !found; i++)
        found = is(v.u.list->items[i]);
    return found;
}

static bool is_array(value v)
{
    return v.kind == VALUE_ARRAY;
}

bool list_is_plain(const function_args *args)
{
    int64_t n;
    const value *v = given(args, &n);
    bool sum = strcmp(args->function->name, "sum") == 0;
    for (int64_t i = 0; i < n; i++)
        if (holds(v[i], is_array))
            return false;
    for (int i = 1; args->function->params[i]; i++)
        if (args->given[i] && !(sum && i == 1))
            return false;
    for (int64_t i = 0; sum && value_is_sequence(*v) && i < v->u.list->n; i++)
        if (value_is_sequence(v->u.list->items[i]))
            return false;
    return n > 1 || value_has_items(*v) || v->kind == VALUE_TEXT;
}

static int unclear(const function_args *args, kv_err *e)
{
    const char *name = args->function->name;
    kv_err_set(e, KV_E_DTYPE,
               "%s() of a list of lists is of the lists in Python, of the numbers in NumPy", name);
    return kv_err_hint(e, "%s(array(l)); %s([%s(x) for x in l])", name, name, name), KV_E_DTYPE;
}

int list_sum(function_args *args, value *out, kv_err *e)
{
    value items, start = args->v[1];
    host sum = host_int(0), h;
    if (args->given[1] && (start.kind != VALUE_INT || start.u.integer != 0)) {
        kv_err_set(e, KV_E_USAGE, "sum() of a list has no axis and no start");
        return kv_err_hint(e, "sum(array(l), axis=-1); sum(l) + start"), KV_E_USAGE;
    }
    int rc = eval_items_of(args->v[0], &items, e);
    if (rc)
        return rc;
    for (int64_t i = 0; i < items.u.list->n && !rc && !(rc = stop_check_at(i, e)); i++) {
        value item = items.u.list->items[i];
        if (!value_is_number(item))
            rc = kv_err_set(e, KV_E_DTYPE, "sum() adds numbers, not %s", value_kind_name(item));
        else if ((rc = host_binary(OP_ADD, sum, value_host(item), &h, NULL, e)) == KV_OK)
            sum = h;
    }
    value_release(&items);
    return rc ? rc : value_from_host(out, sum, e);
}

/* Sets *found if an item has the truth `wanted`. */
static int find_truth(function_args *args, bool wanted, bool *found, kv_err *e)
{
    value items;
    int rc = eval_items_of(args->v[0], &items, e);
    *found = false;
    if (rc)
        return rc;
    for (int64_t i = 0; i < items.u.list->n && !*found && !rc && !(rc = stop_check_at(i, e)); i++) {
        bool truth;
        if (value_is_sequence(items.u.list->items[i]))
            rc = unclear(args, e);
        else if ((rc = eval_truth(items.u.list->items[i], &truth, e)) == KV_OK)
            *found = truth == wanted;
    }
    value_release(&items);
    return rc;
}

int list_any(function_args *args, value *out, kv_err *e)
{
    bool found;
    int rc = find_truth(args, true, &found, e);
    *out = value_bool(found);
    return rc;
}

int list_all(function_args *args, value *out, kv_err *e)
{
    bool found;
    int rc = find_truth(args, false, &found, e);
    *out = value_bool(!found);
    return rc;
}

/* The first of the smallest or largest items. */
static int find_extreme(const value *items, int64_t n, bool largest, value *out, kv_err *e)
{
    int64_t best = 0;
    int rc = KV_OK;
    for (int64_t i = 1; i < n && !rc && !(rc = stop_check_at(i, e)); i++) {
        bool better = false;
        rc = largest ? list_less_item(items[best], items[i], &better, e)
                     : list_less_item(items[i], items[best], &better, e);
        best = better ? i : best;
    }
    *out = rc ? value_none() : value_ref(items[best]);
    return rc;
}

int list_extreme(function_args *args, bool largest, value *out, kv_err *e)
{
    int64_t n;
    const value *v = given(args, &n);
    value items;
    if (n > 1)
        return find_extreme(v, n, largest, out, e);
    int rc = eval_items_of(v[0], &items, e);
    if (rc)
        return rc;
    n = items.u.list->n;
    if (n == 0)
        rc = kv_err_set(e, KV_E_VALUE, "%s() of nothing", args->function->name);
    else if (value_is_sequence(v[0]) && value_is_sequence(items.u.list->items[0]))
        rc = unclear(args, e);
    else
        rc = find_extreme(items.u.list->items, n, largest, out, e);
    value_release(&items);
    return rc;
}
