/* Functions of lists, tuples and dicts: Python's, with Python's results. */
#include "functions/func.h"

#include "base/stop.h"
#include "eval/eval.h"

/* ---- Methods of lists ---- */

int func_append(function_args *args, value *out, kv_err *e)
{
    value list = args->v[0];
    *out = value_none();
    if (list.kind == VALUE_LIST)
        return list_append(list, args->v[1], e);
    kv_err_set(e, KV_E_DTYPE, "append() adds to a list, not to %s", value_kind_name(list));
    if (list.kind == VALUE_ARRAY)
        kv_err_hint(e, "concat(a, b) joins arrays");
    return e->code;
}

/* The list or dict that a method is called for. */
static int need(function_args *args, value_kind kind, kv_err *e)
{
    if (args->v[0].kind == kind)
        return KV_OK;
    return kv_err_set(e, KV_E_DTYPE, "%s() is a method of %s, not of %s", args->function->name,
                      kind == VALUE_LIST ? "lists" : "dicts", value_kind_name(args->v[0]));
}

/* Replaces n items of the list from i on by one, or by none when it is NULL. */
static int splice(value list, int64_t i, int64_t n, const value *one, kv_err *e)
{
    own_value items = value_none();
    TRY(value_list_new(&items, VALUE_LIST, one != NULL, e));
    if (one)
        items.u.list->items[0] = value_ref(*one);
    return list_splice(list, i, n, items, e);
}

int func_extend(function_args *args, value *out, kv_err *e)
{
    own_value items = value_none();
    *out = value_none();
    TRY(need(args, VALUE_LIST, e));
    TRY(eval_items_of(args->v[1], &items, e));
    return list_splice(args->v[0], args->v[0].u.list->n, 0, items, e);
}

int func_insert(function_args *args, value *out, kv_err *e)
{
    int64_t i = 0, n;
    *out = value_none();
    TRY(need(args, VALUE_LIST, e));
    TRY(function_int(args->v[1], "an index", &i, e));
    n = args->v[0].u.list->n;
    i = i < 0 ? i + n : i;
    return splice(args->v[0], i < 0 ? 0 : i > n ? n : i, 0, &args->v[2], e);
}

/* Takes an item out of a list, the last one unless said. */
static int pop_item(function_args *args, value *out, kv_err *e)
{
    value list = args->v[0];
    int64_t n = list.u.list->n, i = -1;
    TRY(function_int_at(args, 1, "an index", &i, e));
    i = i < 0 ? i + n : i;
    if (i < 0 || i >= n)
        return kv_err_set(e, KV_E_INDEX, "pop() finds no such item: the list has %lld",
                          (long long)n);
    own_value item = value_ref(list.u.list->items[i]);
    TRY(splice(list, i, 1, NULL, e));
    return value_give(out, &item);
}

int func_pop(function_args *args, value *out, kv_err *e)
{
    bool found;
    if (args->v[0].kind == VALUE_LIST && !args->given[2])
        return pop_item(args, out, e);
    if (args->v[0].kind != VALUE_DICT)
        return kv_err_set(e, KV_E_DTYPE, "pop() takes an item from a list or a key from a dict");
    if (!args->given[1])
        return kv_err_set(e, KV_E_USAGE, "pop() of a dict needs a key");
    TRY(dict_take(args->v[0], args->v[1], out, &found, e));
    if (found)
        return KV_OK;
    if (!args->given[2])
        return dict_no_key(args->v[0], args->v[1], e);
    *out = value_ref(args->v[2]);
    return KV_OK;
}

/* The place of the first item of a list or tuple, from item `from` on, that is equal to the
 * argument; -1: none is. */
static int search(function_args *args, int64_t from, int64_t *at, kv_err *e)
{
    if (!value_is_sequence(args->v[0]))
        return kv_err_set(e, KV_E_DTYPE, "%s() looks into a list, not into %s",
                          args->function->name, value_kind_name(args->v[0]));
    return list_find(args->v[0], args->v[1], from, at, e);
}

static int no_item(function_args *args, kv_err *e)
{
    own_buf shown = {0};
    value_print(&shown, args->v[1], true);
    kv_err_set(e, KV_E_VALUE, "%s() finds no item %s in the list", args->function->name,
               buf_text(&shown));
    return kv_err_hint(e, "x in l says whether there is one");
}

int func_index(function_args *args, value *out, kv_err *e)
{
    int64_t at;
    if (args->v[0].kind == VALUE_TEXT)
        return text_index(args, out, e);
    TRY(search(args, 0, &at, e));
    *out = value_int(at);
    return at < 0 ? no_item(args, e) : KV_OK;
}

int func_count(function_args *args, value *out, kv_err *e)
{
    int64_t at = -1, count = -1;
    if (args->v[0].kind == VALUE_TEXT)
        return text_count(args, out, e);
    do {
        TRY(search(args, at + 1, &at, e));
        count++;
    } while (at >= 0);
    *out = value_int(count);
    return KV_OK;
}

int func_remove(function_args *args, value *out, kv_err *e)
{
    int64_t at;
    *out = value_none();
    TRY(need(args, VALUE_LIST, e));
    TRY(search(args, 0, &at, e));
    return at < 0 ? no_item(args, e) : splice(args->v[0], at, 1, NULL, e);
}

int func_clear(function_args *args, value *out, kv_err *e)
{
    value v = args->v[0];
    *out = value_none();
    if (v.kind == VALUE_DICT)
        return dict_clear(v), KV_OK;
    TRY(need(args, VALUE_LIST, e));
    return splice(v, 0, v.u.list->n, NULL, e);
}

int func_reverse(function_args *args, value *out, kv_err *e)
{
    *out = value_none();
    TRY(need(args, VALUE_LIST, e));
    return list_reverse(args->v[0]), KV_OK;
}

/* ---- Lists of items ---- */

int func_list(function_args *args, value *out, kv_err *e)
{
    return args->given[0] ? eval_items_of(args->v[0], out, e)
                          : value_list_new(out, VALUE_LIST, 0, e);
}

int func_tuple(function_args *args, value *out, kv_err *e)
{
    TRY(func_list(args, out, e));
    out->kind = VALUE_TUPLE;
    return KV_OK;
}

int func_reversed(function_args *args, value *out, kv_err *e)
{
    TRY(eval_items_of(args->v[0], out, e));
    return list_reverse(*out), KV_OK;
}

int func_sorted(function_args *args, value *out, kv_err *e)
{
    bool reverse = false;
    TRY(args->given[1] ? eval_truth(args->v[1], &reverse, e) : KV_OK);
    TRY(eval_items_of(args->v[0], out, e));
    return value_finish(out, list_sort(*out, reverse, e));
}

int func_zip(function_args *args, value *out, kv_err *e)
{
    own_value columns = value_none(), pairs = value_none();
    int64_t n = args->nrest, shortest = n ? INT64_MAX : 0;
    TRY(value_list_new(&columns, VALUE_LIST, n, e));
    for (int64_t k = 0; k < n; k++) {
        value *column = &columns.u.list->items[k];
        TRY(eval_items_of(args->rest[k], column, e));
        shortest = at_most(shortest, column->u.list->n);
    }
    TRY(value_list_new(&pairs, VALUE_LIST, shortest, e));
    for (int64_t i = 0; i < shortest; i++) {
        value *row = &pairs.u.list->items[i];
        TRY(stop_check_at(i, e));
        TRY(value_list_new(row, VALUE_TUPLE, n, e));
        for (int64_t k = 0; k < n; k++)
            row->u.list->items[k] = value_ref(columns.u.list->items[k].u.list->items[i]);
    }
    return value_give(out, &pairs);
}

int func_range(function_args *args, value *out, kv_err *e)
{
    int64_t from = 0, to, step = 1;
    TRY(function_int(args->v[0], "a bound of range()", args->given[1] ? &from : &to, e));
    TRY(function_int_at(args, 1, "a bound of range()", &to, e));
    TRY(function_int_at(args, 2, "the step of range()", &step, e));
    return list_range(out, from, to, step, false, e);
}

/* ---- Dicts ---- */

int func_dict(function_args *args, value *out, kv_err *e)
{
    int rc = dict_new(out, e);
    if (!rc && args->given[0])
        rc = dict_update(*out, args->v[0], e);
    return value_finish(out, rc);
}

/* The keys of the store in use that match the pattern, or all if it is NULL. The text of an
 * integer key is its number. */
static int store_keys(session *s, const char *pattern, value *out, kv_err *e)
{
    kv *store;
    own_key_list l = {0};
    own_stack keys = {0};
    TRY(session_store(s, &store, e));
    TRY(eval_matching(store, pattern, &l, e));
    for (int64_t i = 0; i < l.n; i++)
        TRY(l.keys[i].name ? value_stack_text(&keys, l.keys[i].name, -1, e)
                           : value_stack_add(&keys, value_int(l.keys[i].id), e));
    return value_stack_take(out, &keys, KV_OK, e);
}

int func_keys(function_args *args, value *out, kv_err *e)
{
    const char *pattern = NULL;
    TRY(args->given[1] ? function_text(args->v[1], "a pattern of names", &pattern, e) : KV_OK);
    if (!args->given[0])
        return store_keys(args->session, pattern, out, e);
    if (args->v[0].kind == VALUE_TEXT)
        return func_file_keys(args, pattern, out, e);
    TRY(need(args, VALUE_DICT, e));
    if (pattern)
        return kv_err_set(e, KV_E_USAGE, "keys() of a dict takes no pattern");
    return dict_list(args->v[0], VIEW_KEYS, out, e);
}

/* values, and items. */
int func_items(function_args *args, value *out, kv_err *e)
{
    TRY(need(args, VALUE_DICT, e));
    return dict_list(args->v[0], (dict_view)FUNCTION_VARIANT(args), out, e);
}

int func_get(function_args *args, value *out, kv_err *e)
{
    const value *found = NULL;
    TRY(need(args, VALUE_DICT, e));
    TRY(dict_find(args->v[0], args->v[1], &found, e));
    *out = value_ref(found ? *found : args->v[2]);
    return KV_OK;
}

int func_update(function_args *args, value *out, kv_err *e)
{
    *out = value_none();
    TRY(need(args, VALUE_DICT, e));
    return dict_update(args->v[0], args->v[1], e);
}
