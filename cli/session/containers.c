/* Lists, tuples and dicts. A list and a dict are objects that several names may refer to; a tuple
 * never changes.
 *
 * Neither ever holds itself, directly or within its items: references are counted, so that such an
 * object would never be released. What would make one is an error. A dict is a list of keys and
 * values behind each other, with a map from each key to its place.
 */
#include "session/containers.h"

#include <math.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/suggest.h"
#include "vm/host.h"

/* ---- Lists and tuples ---- */

/* Lists nested deeper than this are not compared, which recurses. */
#define DEPTH_MAX 1000

/* ---- New ones ---- */

/* Copies items, those of one period again and again. It can be interrupted. */
static int fill_items(value *to, const value *from, int64_t n, int64_t period, kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = value_ref(from[i % period]);
        TRY(stop_check_at(i, e));
    }
    return KV_OK;
}

int list_range(value *out, int64_t from, int64_t to, int64_t step, bool with_to, kv_err *e)
{
    enum { MOST = 100000000 };
    if (step == 0)
        return kv_err_set(e, KV_E_VALUE, "a range cannot go by 0");
    /* unsigned: the distance of two bounds may need 64 bits, and a product overflow where the sum
     * does not */
    uint64_t far = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = far / by;
    if (from == to || (step > 0) != (from < to))
        n = from == to && with_to;
    else
        n += n <= MOST && (with_to || far % by);
    if (n > MOST)
        return kv_err_set(e, KV_E_VALUE, "a range has at most %d numbers", MOST);
    int rc = value_list_new(out, VALUE_LIST, (int64_t)n, e);
    for (int64_t i = 0; i < (int64_t)n && rc == KV_OK; i++) {
        out->u.list->items[i] = value_int((int64_t)((uint64_t)from + (uint64_t)i * (uint64_t)step));
        rc = stop_check_at(i, e);
    }
    return value_finish(out, rc);
}

int list_join(value *out, value a, value b, kv_err *e)
{
    own_value made = value_none();
    int64_t n = a.u.list->n, m = b.u.list->n;
    TRY(value_list_new(&made, a.kind, n + m, e));
    TRY(fill_items(made.u.list->items, a.u.list->items, n, n, e));
    TRY(fill_items(made.u.list->items + n, b.u.list->items, m, m, e));
    return value_give(out, &made);
}

int list_repeat(value *out, value v, int64_t times, kv_err *e)
{
    int64_t n = v.u.list->n, total;
    if (times < 0)
        times = 0;
    if (__builtin_mul_overflow(n, times, &total))
        return kv_err_set(e, KV_E_VALUE, "a list of %lld items %lld times is too long",
                          (long long)n, (long long)times);
    TRY(value_list_new(out, v.kind, total, e));
    return value_finish(out, fill_items(out->u.list->items, v.u.list->items, total, n, e));
}

/* ---- Changing one ---- */

int list_append(value list, value item, kv_err *e)
{
    value_list *l = list.u.list;
    TRY(value_check_cycle(item, l, e));
    TRY(value_list_reserve(l, l->n + 1, e));
    l->items[l->n++] = value_ref(item);
    return KV_OK;
}

int list_set(value list, int64_t i, value item, kv_err *e)
{
    TRY(value_check_cycle(item, list.u.list, e));
    if (!kv_assert(i >= 0 && i < list.u.list->n, "item %lld of %lld is set", (long long)i,
                   (long long)list.u.list->n))
        return kv_assert_report(e);
    value before = list.u.list->items[i];
    list.u.list->items[i] = value_ref(item);
    value_release(&before);
    return KV_OK;
}

int list_splice(value list, int64_t i, int64_t n, value from, kv_err *e)
{
    value_list *l = list.u.list;
    own_value gone = value_none(), added = value_none();
    int64_t m = from.u.list->n, behind = l->n - i - n;
    if (!kv_assert(i >= 0 && n >= 0 && behind >= 0, "%lld items from %lld on are replaced, of %lld",
                   (long long)n, (long long)i, (long long)l->n))
        return kv_assert_report(e);
    /* the items are copied first: they may be those of the list itself */
    for (int64_t k = 0; k < m && l != from.u.list; k++) {
        TRY(stop_check_at(k, e));
        TRY(value_check_cycle(from.u.list->items[k], l, e));
    }
    bool from_front = i < behind; /* fewer items move: the first one goes in and out at once */
    TRY(from_front ? value_list_reserve_front(l, m > n ? m - n : 0, e)
                   : value_list_reserve(l, l->n - n + m, e));
    TRY(value_list_new(&added, VALUE_LIST, m, e));
    TRY(fill_items(added.u.list->items, from.u.list->items, m, m, e));
    TRY(value_list_new(&gone, VALUE_LIST, n, e));
    memcpy(gone.u.list->items, l->items + i, (size_t)n * sizeof *l->items);
    if (from_front) {
        memmove(l->items + n - m, l->items, (size_t)i * sizeof *l->items);
        l->items += n - m;
        l->front += n - m;
        l->cap -= n - m;
    } else {
        memmove(l->items + i + m, l->items + i + n, (size_t)behind * sizeof *l->items);
    }
    memcpy(l->items + i, added.u.list->items, (size_t)m * sizeof *l->items);
    l->n += m - n;
    added.u.list->n = 0; /* its items went to the list */
    return KV_OK;
}

void list_reverse(value list)
{
    value_list *l = list.u.list;
    for (int64_t i = 0, k = l->n - 1; i < k; i++, k--) {
        value item = l->items[i];
        l->items[i] = l->items[k];
        l->items[k] = item;
    }
}

/* ---- Comparing ---- */

static int same(value a, value b, int depth, bool *out, kv_err *e);

/* Dicts are equal when they hold equal values for the same keys, in any order. */
static int same_dicts(value a, value b, int depth, bool *out, kv_err *e)
{
    const value_list *l = a.u.list;
    dict_settle(a);
    *out = dict_count(a) == dict_count(b);
    for (int64_t i = 0; i < l->n && *out; i += 2) {
        const value *other;
        TRY(stop_check_at(i, e));
        TRY(dict_find(b, l->items[i], &other, e));
        *out = other != NULL;
        TRY(other ? same(l->items[i + 1], *other, depth + 1, out, e) : KV_OK);
    }
    return KV_OK;
}

/* An array counts as the number that it holds. */
static int scalar_of(value *v, kv_err *e)
{
    if (v->kind != VALUE_ARRAY)
        return KV_OK;
    if (kv_array_size(v->u.box->array) == 1)
        return value_item(v, *v, e);
    kv_err_set(e, KV_E_DTYPE, "a list that holds arrays of several elements cannot be compared");
    return kv_err_hint(e, "allclose(stack(a), stack(b)) compares arrays of one shape");
}

/* ==, as for items of lists: what is one object is equal. */
static int same(value a, value b, int depth, bool *out, kv_err *e)
{
    host h;
    bool lists = value_is_sequence(a) && a.kind == b.kind;
    bool dicts = a.kind == VALUE_DICT && b.kind == VALUE_DICT;
    *out = true;
    if (a.kind == VALUE_ARRAY && b.kind == VALUE_ARRAY && a.u.box->array == b.u.box->array)
        return KV_OK;
    if (lists && a.u.list == b.u.list)
        return KV_OK;
    if ((lists || dicts) && depth > DEPTH_MAX)
        return kv_err_set(e, KV_E_VALUE, "lists are nested deeper than %d", DEPTH_MAX);
    if (dicts)
        return same_dicts(a, b, depth, out, e);
    if (lists) {
        const value_list *l = a.u.list, *m = b.u.list;
        *out = l->n == m->n;
        for (int64_t i = 0; i < l->n && *out; i++) {
            TRY(stop_check_at(i, e));
            TRY(same(l->items[i], m->items[i], depth + 1, out, e));
        }
        return KV_OK;
    }
    if (a.kind == VALUE_OBJECT && b.kind == VALUE_OBJECT) { /* classes and stores: by their names */
        *out = a.u.list == b.u.list ||
               (*object_name(a) == '<' && strcmp(object_name(a), object_name(b)) == 0);
        return KV_OK;
    }
    TRY(scalar_of(&a, e));
    TRY(scalar_of(&b, e));
    if (a.kind == VALUE_CTX && b.kind == VALUE_CTX) {
        *out = kv_ctx_same(a.u.ctx, b.u.ctx);
        return KV_OK;
    }
    *out = value_is_scalar(a) && value_is_scalar(b);
    if (!*out)
        return KV_OK;
    TRY(host_binary(OP_EQ, value_host(a), value_host(b), &h, NULL, e));
    *out = host_truth(h);
    return KV_OK;
}

int list_order_items(ast_op op, value a, value b, bool *holds, kv_err *e)
{
    host h;
    if (value_is_sequence(a) && a.kind == b.kind)
        return list_compare(op, a, b, holds, e);
    TRY(scalar_of(&a, e));
    TRY(scalar_of(&b, e));
    bool none = a.kind == VALUE_NONE || b.kind == VALUE_NONE;
    if (none || !value_is_scalar(a) || !value_is_scalar(b))
        return kv_err_set(e, KV_E_DTYPE, "`%s` does not compare %s with %s", ast_op_text(op),
                          value_kind_name(a), value_kind_name(b));
    TRY(host_binary(op, value_host(a), value_host(b), &h, NULL, e));
    *holds = host_truth(h);
    return KV_OK;
}

int list_find(value list, value x, int64_t from, int64_t *at, kv_err *e)
{
    bool found = false;
    *at = -1;
    for (int64_t i = from; i < list.u.list->n && !found; i++) {
        TRY(stop_check_at(i, e));
        TRY(same(list.u.list->items[i], x, 1, &found, e));
        *at = found ? i : -1;
    }
    return KV_OK;
}

int list_compare(ast_op op, value a, value b, bool *holds, kv_err *e)
{
    bool equal;
    if (op == OP_EQ || op == OP_NE) {
        TRY(same(a, b, 1, &equal, e));
        *holds = equal == (op == OP_EQ);
        return KV_OK;
    }
    int64_t n = a.u.list->n, m = b.u.list->n;
    for (int64_t i = 0; i < n && i < m; i++) {
        value x = a.u.list->items[i], y = b.u.list->items[i];
        TRY(stop_check_at(i, e));
        TRY(same(x, y, 2, &equal, e));
        if (!equal)
            return list_order_items(op, x, y, holds, e);
    }
    return list_order_items(op, value_int(n), value_int(m), holds, e);
}

/* ---- Sorting ---- */

/* Merges the sorted runs from … middle … to of items into out. Of equal items the left one goes
 * first; in reverse, too. */
static int merge(value *out, const value *items, int64_t from, int64_t middle, int64_t to,
                 bool reverse, kv_err *e)
{
    int64_t i = from, k = middle;
    for (int64_t at = from; at < to; at++) {
        bool right = i == middle;
        TRY(stop_check_at(at, e));
        if (!right && k < to)
            TRY(list_order_items(OP_LT, items[reverse ? i : k], items[reverse ? k : i], &right, e));
        out[at] = right ? items[k++] : items[i++];
    }
    return KV_OK;
}

int list_sort(value list, bool reverse, kv_err *e)
{
    value_list *l = list.u.list;
    own_mem value *other = mem_alloc(l->n ? l->n : 1, sizeof *other, e);
    if (!other)
        return KV_E_MEMORY;
    for (int64_t run = 1; run < l->n; run *= 2) {
        for (int64_t from = 0; from < l->n; from += 2 * run) {
            int64_t middle = from + run < l->n ? from + run : l->n;
            int64_t to = middle + run < l->n ? middle + run : l->n;
            TRY(merge(other, l->items, from, middle, to, reverse, e));
        }
        memcpy(l->items, other, (size_t)l->n * sizeof *other);
    }
    return KV_OK;
}

/* ---- Stacks of values ---- */

int value_stack_add(value_stack *s, value v, kv_err *e)
{
    int rc = stop_check_at(s->n, e);
    if (rc) {
        value_release(&v);
        return rc;
    }
    if (!s->items) {
        s->items = s->small;
        s->cap = (int64_t)(sizeof s->small / sizeof *s->small);
    }
    if (s->n == s->cap) {
        value *more = mem_alloc(2 * s->cap, sizeof *more, e);
        if (!more) {
            value_release(&v);
            return KV_E_MEMORY;
        }
        memcpy(more, s->items, (size_t)s->n * sizeof *more);
        if (s->items != s->small)
            mem_free(s->items);
        s->items = more;
        s->cap *= 2;
    }
    s->items[s->n++] = v;
    return KV_OK;
}

int value_stack_text(value_stack *s, const char *text, int64_t n, kv_err *e)
{
    value v;
    TRY(value_text_new(&v, text, n < 0 ? strlen(text) : (size_t)n, e));
    return value_stack_add(s, v, e);
}

void value_stack_release(value_stack *s)
{
    for (int64_t i = 0; i < s->n; i++)
        value_release(&s->items[i]);
    if (s->items != s->small)
        mem_free(s->items);
    s->items = NULL;
    s->n = s->cap = 0;
}

int value_stack_take(value *out, value_stack *s, int rc, kv_err *e)
{
    if (rc == KV_OK && (rc = value_list_new(out, VALUE_LIST, s->n, e)) == KV_OK && s->n > 0) {
        memcpy(out->u.list->items, s->items, (size_t)s->n * sizeof *s->items);
        s->n = 0; /* the list has them */
    }
    value_stack_release(s);
    return rc;
}

/* ---- Dicts ---- */

int dict_new(value *out, kv_err *e)
{
    map *index = mem_zalloc(1, sizeof *index, e);
    int rc = index ? value_list_new(out, VALUE_DICT, 0, e) : KV_E_MEMORY;
    if (rc)
        mem_free(index);
    else
        out->u.list->index = index;
    return rc;
}

int64_t dict_count(value dict)
{
    return dict.u.list->n / 2 - dict.u.list->gaps;
}

/* The key that a value is: of an array without axes its number, as the array may change. */
static value plain(value v)
{
    value number;
    bool is_number = v.kind == VALUE_ARRAY && kv_array_ndim(v.u.box->array) == 0 &&
                     value_item(&number, v, &(kv_err){0}) == KV_OK;
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
        return kv_err_hint(e, "make a text of it: d[f\"{i},{j}\"]");
    }
    return KV_OK;
}

int dict_find(value dict, value key, const value **out, kv_err *e)
{
    kv_key k;
    int rc = key_of(key, &k, e);
    int64_t at = rc ? -1 : map_get(dict.u.list->index, k);
    *out = at < 0 ? NULL : &dict.u.list->items[at];
    return rc;
}

int dict_set(value dict, value key, value v, kv_err *e)
{
    kv_key k;
    value_list *l = dict.u.list;
    TRY(key_of(key, &k, e));
    TRY(value_check_cycle(v, l, e));
    int64_t at = map_get(l->index, k);
    if (at >= 0) {
        value before = l->items[at];
        l->items[at] = value_ref(v);
        value_release(&before);
        return KV_OK;
    }
    TRY(value_list_reserve(l, l->n + 2, e));
    TRY(map_put(l->index, k, l->n + 1, e));
    l->items[l->n++] = value_ref(plain(key));
    l->items[l->n++] = value_ref(v);
    return KV_OK;
}

/* The pair that an item of a list is. */
static int set_pair(value dict, value pair, kv_err *e)
{
    if (!value_is_sequence(pair) || pair.u.list->n != 2) {
        kv_err_set(e, KV_E_DTYPE, "a dict is made of pairs, not of %s", value_kind_name(pair));
        return kv_err_hint(e, "dict([('a', 1), ('b', 2)]), {'a': 1, 'b': 2}");
    }
    return dict_set(dict, pair.u.list->items[0], pair.u.list->items[1], e);
}

int dict_update(value dict, value from, kv_err *e)
{
    const value_list *l = from.u.list;
    bool pairs = from.kind != VALUE_DICT;
    if (!value_has_items(from))
        return set_pair(dict, from, e);
    if (!pairs)
        dict_settle(from);
    for (int64_t i = 0; i < l->n; i += pairs ? 1 : 2) {
        TRY(stop_check_at(i, e));
        TRY(pairs ? set_pair(dict, l->items[i], e)
                  : dict_set(dict, l->items[i], l->items[i + 1], e));
    }
    return KV_OK;
}

int dict_take(value dict, value key, value *out, bool *found, kv_err *e)
{
    value_list *l = dict.u.list;
    kv_key k;
    int rc = key_of(key, &k, e);
    int64_t at = rc ? -1 : map_get(l->index, k);
    *found = at >= 0;
    if (!*found)
        return rc;
    map_remove(l->index, k);
    *out = l->items[at];
    l->items[at] = value_none();
    value_release(&l->items[at - 1]);
    l->gaps++;
    for (; l->n > 0 && is_gap(l, l->n - 2); l->n -= 2)
        l->gaps--;
    if (l->gaps > l->n / 4)
        dict_settle(dict);
    return rc;
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
    int rc = dict_new(out, e);
    return rc ? rc : value_finish(out, dict_update(*out, dict, e));
}

void dict_clear(value dict)
{
    value_list *l = dict.u.list;
    map_release(l->index);
    l->gaps = 0;
    while (l->n > 0)
        value_release(&l->items[--l->n]);
}

int dict_pair(value dict, int64_t i, dict_view view, value *out, kv_err *e)
{
    const value *pair = &dict.u.list->items[2 * i];
    if (view != VIEW_ITEMS) {
        *out = value_ref(pair[view == VIEW_VALUES]);
        return KV_OK;
    }
    int rc = value_list_new(out, VALUE_TUPLE, 2, e);
    for (int k = 0; k < 2 && rc == KV_OK; k++)
        out->u.list->items[k] = value_ref(pair[k]);
    return rc;
}

int dict_list(value dict, dict_view view, value *out, kv_err *e)
{
    dict_settle(dict);
    int64_t n = dict_count(dict);
    int rc = value_list_new(out, VALUE_LIST, n, e);
    for (int64_t i = 0; i < n && rc == KV_OK && !(rc = stop_check_at(i, e)); i++)
        rc = dict_pair(dict, i, view, &out->u.list->items[i], e);
    return value_finish(out, rc);
}

int dict_no_key(value dict, value key, kv_err *e)
{
    const value_list *l = dict.u.list;
    own_buf shown = {0};
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
    return kv_err_hint(e, "d.get(%s, 0) and d.pop(%s, 0) give 0 then", buf_text(&shown),
                       buf_text(&shown));
}

/* ---- Values of a def ---- */

/* They are counted, since a function may be defined anew while it runs. */

void def_values_unref(def_values *d)
{
    if (!d || --d->refs > 0)
        return;
    map_release(&d->assigned);
    for (int64_t i = 0; i < d->n; i++)
        value_release(&d->defaults[i]);
    mem_free(d);
}

/* ---- Objects ---- */

/* The items of an object are its name, then the name and the value of each part. */

#define STORE "<KVStore "

int object_new(value *out, const char *name, const ast *call, const value *args, uint32_t from,
               kv_err *e)
{
    own_value made = value_none();
    uint32_t n = call ? call->n : from;
    TRY(value_list_new(&made, VALUE_OBJECT, 1 + 2 * (int64_t)(n - from), e));
    value_list *l = made.u.list;
    l->n = 0; /* so far */
    TRY(value_text(&l->items[l->n++], name, e));
    for (uint32_t i = from; i < n; i++) {
        const char *part = ast_argument_name(call, i);
        if (part && strcmp(part, "lr") == 0 && !object_is_schedule(made))
            part = "learning_rate";
        if (part && object_find(made, part))
            return kv_err_set(e, KV_E_USAGE, "%s() has the argument %.40s twice", name, part);
        TRY(value_text(&l->items[l->n++], part ? part : "", e));
        l->items[l->n++] = value_ref(args[i]);
    }
    return value_give(out, &made);
}

static int nameless(value *out, const char *before, const char *name, const char *behind, kv_err *e)
{
    own_buf text = {0};
    buf_printf(&text, "%s%s%s", before, name, behind);
    int rc = buf_check(&text, e);
    return rc ? rc : object_new(out, buf_text(&text), NULL, NULL, 0, e);
}

int object_store(value *out, const char *type, kv_err *e)
{
    return nameless(out, STORE, type, ">", e);
}

/* The types of MXNet's KVStore have one class, the others one of their own; so has each that was
 * registered. */
static const char *store_class(const char *type)
{
    static const char *const classes[][2] = {{"local", "KVStore"},     {"device", "KVStore"},
                                             {"nccl", "KVStore"},      {"horovod", "Horovod"},
                                             {"byteps", "BytePS"},     {"teststore", "TestStore"}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(type, classes[i][0]) == 0)
            return classes[i][1];
    return strncmp(type, "dist_", 5) == 0 ? "KVStore" : type;
}

int object_class(value *out, value of, kv_err *e)
{
    static const char *const names[] = {
        [VALUE_NONE] = "NoneType", [VALUE_BOOL] = "bool",      [VALUE_INT] = "int",
        [VALUE_FLOAT] = "float",   [VALUE_TEXT] = "str",       [VALUE_CTX] = "Context",
        [VALUE_ARRAY] = "NDArray", [VALUE_LIST] = "list",      [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict"};
    bool object = of.kind == VALUE_OBJECT;
    const char *name = object ? object_name(of) : names[of.kind];
    own_buf type = {0};
    if (of.kind == VALUE_ARRAY && kv_array_storage(of.u.box->array) == KV_ROW_SPARSE) {
        name = "RowSparseNDArray";
    } else if (object && strncmp(name, STORE, strlen(STORE)) == 0) {
        buf_put(&type, name + strlen(STORE), strlen(name) - strlen(STORE) - 1);
        name = store_class(buf_text(&type));
    } else if (object && *name == '<') {
        name = "type";
    }
    TRY(buf_check(&type, e));
    return nameless(out, "<class '", name, "'>", e);
}

const char *object_name(value v)
{
    return v.u.list->items[0].u.text;
}

const value *object_find(value v, const char *name)
{
    const value *items = v.u.list->items;
    for (int64_t i = 1; i < v.u.list->n; i += 2)
        if (strcmp(items[i].u.text, name) == 0)
            return &items[i + 1];
    return NULL;
}

bool object_is_schedule(value v)
{
    return v.kind == VALUE_OBJECT && strstr(object_name(v), "Scheduler");
}

bool object_is_optimizer(value v)
{
    return v.kind == VALUE_OBJECT && *object_name(v) != '<' && !object_is_schedule(v);
}
