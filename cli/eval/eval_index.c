/* Parts of lists and arrays: a[1], a[0:2, ...], and assigning them. */
#include "array/slice.h"
#include "base/stop.h"
#include "eval/eval.h"
#include "eval/eval_copy.h"
#include "syntax/function.h"
#include "session/dict.h"
#include "session/list.h"
#include "session/text.h"
#include "session/unit.h"

/* ---- The indices of a bracket ---- */

/* An optional bound of a slice. */
static int slice_part(session *s, const ast *node, bool *given, int64_t *out, kv_err *e)
{
    *given = node != NULL;
    if (!node)
        return KV_OK;
    value v;
    int code = eval(s, node, &v, e);
    if (code)
        return code;
    code = function_int(v, "an index", out, e);
    value_release(&v);
    return code ? unit_at(s, node, e) : KV_OK;
}

static void release_ranges(array_range *r, int n)
{
    for (int i = 0; i < n; i++)
        kv_array_unref(r[i].ids);
}

/* Returns true if a list or a mask chooses elements: NumPy copies them, too. */
static bool picks(const array_range *r, int n)
{
    bool found = false;
    for (int i = 0; i < n; i++)
        found |= r[i].ids != NULL;
    return found;
}

/* The dtype of the ids in a list: bool where all are (a mask), else int64, or float64 with floats
 * among them. */
static kv_dtype list_dtype(const value_list *l)
{
    kv_dtype dtype = l->n ? KV_BOOL : KV_INT64;
    for (int64_t i = 0; i < l->n && dtype != KV_FLOAT64; i++) {
        value v = l->items[i];
        kv_dtype own = value_is_sequence(v)      ? list_dtype(v.u.list)
                       : v.kind == VALUE_BOOL    ? KV_BOOL
                       : v.kind == VALUE_INT     ? KV_INT64
                                                 : KV_FLOAT64;
        dtype = own == KV_BOOL ? dtype : own;
    }
    return dtype;
}

int eval_ids(value v, kv_array **out, kv_err *e)
{
    if (v.kind == VALUE_ARRAY)
        return value_to_array(out, v, e);
    return value_numbers_array(
        out, v, value_is_sequence(v) ? list_dtype(v.u.list) : KV_INT64, (kv_ctx){KV_CPU, 0}, e);
}

/* An index of an array: a number, none, a list or an array. */
static int array_index(array_range *r, value v, kv_err *e)
{
    if (v.kind == VALUE_NONE) {
        r->is_new = true;
        return KV_OK;
    }
    kv_array *a = v.kind == VALUE_ARRAY ? v.u.box->array : NULL;
    if (v.kind == VALUE_BOOL ||
        (a && kv_array_ndim(a) == 0 && kv_array_dtype(a) == KV_BOOL)) {
        kv_err_set(e, KV_E_DTYPE, "one bool is no index");
        return kv_err_hint(e, "a mask has a bool for each element: x[x > 0]");
    }
    if (value_is_sequence(v) || (a && kv_array_ndim(a) > 0))
        return eval_ids(v, &r->ids, e);
    r->is_index = true;
    return function_int(v, "an index", &r->index, e);
}

static int slice_range(session *s, const ast *part, array_range *r, kv_err *e)
{
    bool step;
    int code = slice_part(s, part->kid[0], &r->has_from, &r->from, e);
    if (code || (code = slice_part(s, part->kid[1], &r->has_to, &r->to, e)) ||
        (code = slice_part(s, part->kid[2], &step, &r->step, e)))
        return code;
    if (step && r->step == 0)
        return unit_err(s, part, e, KV_E_VALUE, "a slice cannot step by 0");
    return KV_OK;
}

/* The only index of a bracket is a tuple: x[(1, 2)] is x[1, 2]. */
static int tuple_ranges(const value_list *l, array_range *r, int *n, kv_err *e)
{
    int code = KV_OK;
    if (l->n > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_INDEX, "at most %d indices", KV_MAX_NDIM);
    for (; *n < l->n && code == KV_OK; (*n)++) {
        r[*n] = (array_range){0};
        code = array_index(&r[*n], l->items[*n], e);
    }
    return code;
}

/* The ranges of an AST_INDEX. Those of a list are numbers and slices. The caller releases them,
 * also after an error. */
static int eval_ranges(session *s, const ast *node, bool list, array_range *r, int *n, kv_err *e)
{
    bool rest = false;
    int code = KV_OK;
    *n = 0;
    for (uint32_t i = 1; i < node->n && code == KV_OK; i++) {
        const ast *part = node->kid[i];
        if (*n >= KV_MAX_NDIM)
            return unit_err(s, node, e, KV_E_INDEX, "at most %d indices", KV_MAX_NDIM);
        array_range *at = &r[(*n)++];
        *at = (array_range){0};
        value v = value_none();
        if (part->kind == AST_ELLIPSIS) {
            if (rest || list)
                return unit_err(s, part, e, KV_E_INDEX, "%s",
                                list ? "a list has no `...`" : "an index has one `...`");
            at->is_rest = rest = true;
            continue;
        }
        if (part->kind == AST_SLICE) {
            code = slice_range(s, part, at, e);
            continue;
        }
        if ((code = eval(s, part, &v, e)))
            return code;
        if (list) {
            at->is_index = true;
            code = function_int(v, "an index", &at->index, e);
        } else if (v.kind == VALUE_TUPLE && node->n == 2) {
            *n = 0;
            code = tuple_ranges(v.u.list, r, n, e);
        } else {
            code = array_index(at, v, e);
        }
        value_release(&v);
        if (code)
            unit_at(s, part, e);
    }
    return code;
}

/* ---- Reading ---- */

/* The item of a list or the character of a text that an index means, or those of a slice. */
static int index_items(session *s, const ast *node, value v, value *out, kv_err *e)
{
    array_range r[KV_MAX_NDIM];
    int n;
    bool text = v.kind == VALUE_TEXT;
    int64_t len = text ? text_length(v) : v.u.list->n;
    const char *whole = text ? "text" : "list", *part = text ? "character" : "item";
    int code = eval_ranges(s, node, true, r, &n, e);
    if (code)
        return code;
    if (n != 1)
        return unit_err(s, node, e, KV_E_INDEX, "a %s has one index at a time: a[1][2]", whole);
    if (r[0].is_index) {
        int64_t i = r[0].index < 0 ? r[0].index + len : r[0].index;
        if (i < 0 || i >= len)
            return unit_err(s, node, e, KV_E_INDEX,
                            "index %lld is out of range: the %s has %lld %s%s",
                            (long long)r[0].index, whole, (long long)len, part,
                            len == 1 ? "" : "s");
        if (text)
            return text_part(out, v, i, 1, 1, e);
        *out = value_ref(v.u.list->items[i]);
        return KV_OK;
    }
    array_span span = array_range_span(&r[0], len);
    if (text)
        return text_part(out, v, span.from, span.step, span.n, e);
    code = value_list_new(out, v.kind, span.n, e);
    for (int64_t i = 0; i < span.n && code == KV_OK && !(code = stop_check_at(i, e)); i++)
        out->u.list->items[i] = value_ref(v.u.list->items[span.from + i * span.step]);
    return value_finish(out, code);
}

/* The key in d[key]. */
static int eval_key(session *s, const ast *node, value *out, kv_err *e)
{
    const ast *part = node->n > 1 ? node->kid[1] : node;
    if (node->n == 2 && part->kind != AST_SLICE && part->kind != AST_ELLIPSIS)
        return eval(s, part, out, e);
    return unit_err(s, node, e, KV_E_INDEX, "a dict has one key at a time: d['a']['b']");
}

/* The value of a key, in the dict. */
static int find_key(session *s, const ast *node, value dict, const value **out, kv_err *e)
{
    value key;
    int code = eval_key(s, node, &key, e);
    if (code)
        return code;
    if ((code = dict_find(dict, key, out, e)) == KV_OK && !*out)
        code = dict_no_key(dict, key, e);
    value_release(&key);
    return code ? unit_at(s, node, e) : KV_OK;
}

int eval_index(session *s, const ast *node, value *out, kv_err *e)
{
    const value *found;
    value v;
    int code = eval(s, node->kid[0], &v, e);
    if (code)
        return code;
    if (value_is_sequence(v) || v.kind == VALUE_TEXT) {
        code = index_items(s, node, v, out, e);
    } else if (v.kind == VALUE_DICT) {
        if ((code = find_key(s, node, v, &found, e)) == KV_OK)
            *out = value_ref(*found);
    } else if (v.kind == VALUE_ARRAY) {
        array_range r[KV_MAX_NDIM];
        kv_array *part;
        int n;
        code = eval_ranges(s, node, false, r, &n, e);
        if (code == KV_OK && (code = array_slice(&part, v.u.box->array, r, n, e)) == KV_OK)
            code = value_result(out, part, e);
        if (code == KV_OK && !picks(r, n))
            eval_is_part(s, node, v, *out);
        release_ranges(r, n);
        if (code)
            unit_at(s, node, e);
    } else {
        code = unit_err(s, node, e, KV_E_DTYPE, "%s has no parts to index", value_kind_name(v));
    }
    value_release(&v);
    return code;
}

/* ---- Assigning ---- */

static int no_item(session *s, const ast *node, int64_t len, kv_err *e)
{
    return unit_err(s, node, e, KV_E_INDEX, "the list has %lld item%s and no such one",
                    (long long)len, len == 1 ? "" : "s");
}

/* The item of a list that one index means. */
static int item_of(session *s, const ast *node, value list, const array_range *r, int n, int64_t *i,
                   kv_err *e)
{
    int64_t len = list.u.list->n;
    *i = n == 1 && r[0].index < 0 ? r[0].index + len : r[0].index;
    return n != 1 || !r[0].is_index || *i < 0 || *i >= len ? no_item(s, node, len, e) : KV_OK;
}

/* The source comes first: where it has the array's elements, these are written elsewhere. */
static int assign_array(session *s, const ast *target, value array, const array_range *r, int n,
                        value v, kv_err *e)
{
    kv_array *a = array.u.box->array, *src;
    /* numbers go straight into the array's dtype, so that large integers stay exact */
    int code = v.kind == VALUE_ARRAY
                   ? value_to_array(&src, v, e)
                   : value_numbers_array(&src, v, kv_array_dtype(a), kv_array_ctx(a), e);
    if (code)
        return unit_at(s, target, e);
    eval_tell_parts(s, target->kid[0], array);
    if ((code = value_own(array, e)) == KV_OK)
        code = array_assign_slice(array.u.box->array, r, n, src, e);
    kv_array_unref(src);
    return code ? unit_at(s, target, e) : KV_OK;
}

/* list[i] = v, list[i:j] = list */
static int assign_list(session *s, const ast *target, value list, const array_range *r, int n,
                       value v, kv_err *e)
{
    int64_t i;
    int code;
    if (n != 1 || r[0].is_index) {
        code = item_of(s, target, list, r, n, &i, e);
        return code || (code = list_set(list, i, v, e)) ? unit_at(s, target, e) : KV_OK;
    }
    array_span span = array_range_span(&r[0], list.u.list->n);
    if (!value_is_sequence(v))
        return unit_err(s, target, e, KV_E_DTYPE, "a slice of a list is given a list, not %s",
                        value_kind_name(v));
    if (span.step != 1)
        return unit_err(s, target, e, KV_E_UNSUPPORTED,
                        "a slice of a list with a step cannot be assigned");
    return list_splice(list, span.from, span.n, v, e) ? unit_at(s, target, e) : KV_OK;
}

static int assign_key(session *s, const ast *target, value dict, value v, kv_err *e)
{
    value key;
    int code = eval_key(s, target, &key, e);
    if (code)
        return code;
    code = dict_set(dict, key, v, e);
    value_release(&key);
    return code ? unit_at(s, target, e) : KV_OK;
}

static int assign_parts(session *s, const ast *target, value whole, value v, kv_err *e)
{
    array_range r[KV_MAX_NDIM];
    int n = 0;
    bool list = whole.kind == VALUE_LIST;
    if (whole.kind == VALUE_DICT)
        return assign_key(s, target, whole, v, e);
    if (!list && whole.kind != VALUE_ARRAY)
        return unit_err(s, target, e, KV_E_DTYPE, "the parts of %s cannot be assigned",
                        value_kind_name(whole));
    if (!list && whole.u.box->refs == 1) /* nobody else has it: a part, which is a copy */
        return unit_err(s, target, e, KV_E_USAGE,
                        "write all indices of an array in one bracket: a[1, 2]");
    int code = eval_ranges(s, target, list, r, &n, e);
    if (code == KV_OK)
        code = list ? assign_list(s, target, whole, r, n, v, e)
                    : assign_array(s, target, whole, r, n, v, e);
    release_ranges(r, n);
    return code;
}

int eval_assign_index(session *s, const ast *target, value v, kv_err *e)
{
    value whole;
    int code = eval(s, target->kid[0], &whole, e);
    if (code)
        return code;
    code = assign_parts(s, target, whole, v, e);
    value_release(&whole);
    return code;
}
