/* A dict is a list of keys and values behind each other, with a map from each key to its place. */
#include "session/dict.h"

#include <math.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/suggest.h"

int dict_new(value *out, kv_err *e)
{
    map *index = mem_zalloc(1, sizeof *index, e);
    int code = index ? value_list_new(out, VALUE_DICT, 0, e) : KV_E_MEMORY;
    if (code)
        mem_free(index);
    else
        out->u.list->index = index;
    return code;
}

int64_t dict_count(value dict)
{
    return dict.u.list->n / 2 - dict.u.list->gaps;
}

/* The key that a value is: of an array without axes its number, as the array may change. */
static value plain(value v)
{
    value number;
    kv_err unused = {0};
    bool is_number = v.kind == VALUE_ARRAY && kv_array_ndim(v.u.box->array) == 0 &&
                     value_item(&number, v, &unused) == KV_OK;
    return is_number ? number : v;
}

/* No key is none, so a pair without one was taken out. */
static bool is_gap(const value_list *l, int64_t at)
{
    return l->items[at].kind == VALUE_NONE;
}

/* Equal numbers are one key, whether they are bools, integers or whole floats. */
static int key_of(value v, kv_key *out, kv_err *e)
{
    v = plain(v);
    *out = (kv_key){0, NULL};
    if (v.kind == VALUE_TEXT)
        out->name = v.u.text;
    else if (v.kind == VALUE_INT || v.kind == VALUE_BOOL)
        out->id = v.u.integer;
    else if (v.kind == VALUE_FLOAT && v.u.number == trunc(v.u.number) && fabs(v.u.number) < 0x1p63)
        out->id = (int64_t)v.u.number;
    else {
        kv_err_set(e, KV_E_DTYPE, "a key of a dict is a text or a whole number, not %s",
                   v.kind == VALUE_FLOAT ? "a fraction" : value_kind_name(v));
        return kv_err_hint(e, "make a text of it: d[f\"{i},{j}\"]"), KV_E_DTYPE;
    }
    return KV_OK;
}

int dict_find(value dict, value key, const value **out, kv_err *e)
{
    kv_key k;
    int code = key_of(key, &k, e);
    int64_t at = code ? -1 : map_get(dict.u.list->index, k);
    *out = at < 0 ? NULL : &dict.u.list->items[at];
    return code;
}

static int add(value dict, kv_key k, value key, value v, kv_err *e)
{
    value_list *l = dict.u.list;
    int code = value_list_reserve(l, l->n + 2, e);
    if (code || (code = map_put(l->index, k, l->n + 1, e)))
        return code;
    l->items[l->n++] = value_ref(plain(key));
    l->items[l->n++] = value_ref(v);
    return KV_OK;
}

int dict_set(value dict, value key, value v, kv_err *e)
{
    kv_key k;
    int code = key_of(key, &k, e);
    if (code || (code = value_check_cycle(v, dict.u.list, e)))
        return code;
    int64_t at = map_get(dict.u.list->index, k);
    if (at < 0)
        return add(dict, k, key, v, e);
    value before = dict.u.list->items[at];
    dict.u.list->items[at] = value_ref(v);
    value_release(&before);
    return KV_OK;
}

/* The pair that an item of a list is. */
static int set_pair(value dict, value pair, kv_err *e)
{
    if (!value_is_sequence(pair) || pair.u.list->n != 2) {
        kv_err_set(e, KV_E_DTYPE, "a dict is made of pairs, not of %s", value_kind_name(pair));
        return kv_err_hint(e, "dict([('a', 1), ('b', 2)]), {'a': 1, 'b': 2}"), KV_E_DTYPE;
    }
    return dict_set(dict, pair.u.list->items[0], pair.u.list->items[1], e);
}

int dict_update(value dict, value from, kv_err *e)
{
    const value_list *l = from.u.list;
    bool pairs = from.kind != VALUE_DICT;
    int code = KV_OK;
    if (!value_has_items(from))
        return set_pair(dict, from, e);
    if (!pairs)
        dict_settle(from);
    for (int64_t i = 0; i < l->n && code == KV_OK; i += pairs ? 1 : 2)
        if ((code = stop_check_at(i, e)) == KV_OK)
            code = pairs ? set_pair(dict, l->items[i], e)
                         : dict_set(dict, l->items[i], l->items[i + 1], e);
    return code;
}

int dict_take(value dict, value key, value *out, bool *found, kv_err *e)
{
    value_list *l = dict.u.list;
    kv_key k;
    int code = key_of(key, &k, e);
    int64_t at = code ? -1 : map_get(l->index, k);
    *found = at >= 0;
    if (!*found)
        return code;
    map_remove(l->index, k);
    *out = l->items[at];
    l->items[at] = value_none();
    value_release(&l->items[at - 1]);
    l->gaps++;
    for (; l->n > 0 && is_gap(l, l->n - 2); l->n -= 2)
        l->gaps--;
    if (l->gaps > l->n / 4)
        dict_settle(dict);
    return code;
}

void dict_settle(value dict)
{
    value_list *l = dict.u.list;
    int64_t kept = 0;
    if (l->gaps == 0)
        return;
    for (int64_t i = 0; i < l->n; i += 2) {
        kv_key k;
        kv_err unused = {0};
        if (is_gap(l, i))
            continue;
        if (kept < i) {
            l->items[kept] = l->items[i];
            l->items[kept + 1] = l->items[i + 1];
            int rc = key_of(l->items[kept], &k, &unused);
            if (!rc)
                rc = map_put(l->index, k, kept + 1, &unused); /* the entry is there already */
            kv_assert(rc == KV_OK, "a key of a dict has lost its place");
        }
        kept += 2;
    }
    l->n = kept;
    l->gaps = 0;
}

int dict_copy(value *out, value dict, kv_err *e)
{
    int code = dict_new(out, e);
    return code ? code : value_finish(out, dict_update(*out, dict, e));
}

void dict_clear(value dict)
{
    value_list *l = dict.u.list;
    map_release(l->index);
    l->gaps = 0;
    while (l->n > 0)
        value_release(&l->items[--l->n]);
}

int dict_column(value dict, int from, value *out, kv_err *e)
{
    dict_settle(dict);
    int64_t n = dict_count(dict);
    int code = value_list_new(out, VALUE_LIST, n, e);
    for (int64_t i = 0; i < n && code == KV_OK && !(code = stop_check_at(i, e)); i++)
        out->u.list->items[i] = value_ref(dict.u.list->items[2 * i + from]);
    return value_finish(out, code);
}

int dict_pairs(value dict, value *out, kv_err *e)
{
    dict_settle(dict);
    int64_t n = dict_count(dict);
    int code = value_list_new(out, VALUE_LIST, n, e);
    for (int64_t i = 0; i < n && code == KV_OK && !(code = stop_check_at(i, e)); i++) {
        value *pair = &out->u.list->items[i];
        if ((code = value_list_new(pair, VALUE_TUPLE, 2, e)))
            break;
        for (int k = 0; k < 2; k++)
            pair->u.list->items[k] = value_ref(dict.u.list->items[2 * i + k]);
    }
    return value_finish(out, code);
}

int dict_no_key(value dict, value key, kv_err *e)
{
    const value_list *l = dict.u.list;
    buf shown = {0};
    dict_settle(dict);
    value_print(&shown, key, true);
    kv_err_set(e, KV_E_KEY, "the dict has no key %s", buf_text(&shown));
    if (key.kind == VALUE_TEXT) {
        suggest near = {.word = key.u.text};
        for (int64_t i = 0; i < l->n; i += 2)
            if (l->items[i].kind == VALUE_TEXT)
                suggest_add(&near, l->items[i].u.text);
        suggest_done(&near, e);
    }
    kv_err_hint(e, "d.get(%s, 0) and d.pop(%s, 0) give 0 then", buf_text(&shown),
                buf_text(&shown));
    buf_release(&shown);
    return KV_E_KEY;
}
