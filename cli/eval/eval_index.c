/* Parts of lists and arrays: a[1], a[0:2, ...], and assigning them. */
#include "eval/eval_index.h"

#include "array/slice.h"
#include "base/stop.h"
#include "eval/eval.h"
#include "eval/eval_copy.h"
#include "session/containers.h"
#include "session/text.h"
#include "session/unit.h"
#include "syntax/function.h"

/* ---- The indices of a bracket ---- */

/* An optional bound of a slice. */
static int slice_part(session *s, const ast *node, bool *given, int64_t *out, kv_err *e)
{
    *given = node != NULL;
    return node ? eval_int(s, node, "an index", out, e) : KV_OK;
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
        return kv_err_hint(e, "a mask has a bool for each element: x[x > 0]"), KV_E_DTYPE;
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
static int index_items(session *s, const ast *node, const index_place *p, value *out, kv_err *e)
{
    value v = p->whole;
    const array_range *r = p->ranges;
    int code;
    bool text = v.kind == VALUE_TEXT;
    int64_t len = text ? text_length(v) : v.u.list->n;
    const char *whole = text ? "text" : "list", *part = text ? "character" : "item";
    if (p->n != 1)
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

static int read_key(session *s, const ast *node, const index_place *p, value *out, kv_err *e)
{
    const value *found;
    int code = dict_find(p->whole, p->key, &found, e);
    if (code == KV_OK && !found)
        code = dict_no_key(p->whole, p->key, e);
    if (code == KV_OK)
        *out = value_ref(*found);
    return code ? unit_at(s, node, e) : KV_OK;
}

int index_find(session *s, const ast *node, index_place *p, kv_err *e)
{
    p->key = value_none();
    p->n = 0;
    int code = eval(s, node->kid[0], &p->whole, e);
    if (code)
        return code;
    value_kind kind = p->whole.kind;
    if (kind == VALUE_DICT)
        code = eval_key(s, node, &p->key, e);
    else if (kind == VALUE_ARRAY || kind == VALUE_TEXT || value_is_sequence(p->whole))
        code = eval_ranges(s, node, kind != VALUE_ARRAY, p->ranges, &p->n, e);
    else
        code = unit_err(s, node, e, KV_E_DTYPE, "%s has no parts to index",
                        value_kind_name(p->whole));
    if (code)
        index_release(p);
    return code;
}

void index_release(index_place *p)
{
    value_release(&p->whole);
    value_release(&p->key);
    release_ranges(p->ranges, p->n);
}

int index_read(session *s, const ast *node, const index_place *p, value *out, kv_err *e)
{
    kv_array *part;
    *out = value_none();
    if (p->whole.kind == VALUE_DICT)
        return read_key(s, node, p, out, e);
    if (p->whole.kind != VALUE_ARRAY)
        return index_items(s, node, p, out, e);
    int code = array_slice(&part, p->whole.u.box->array, p->ranges, p->n, e);
    if (code == KV_OK)
        code = value_result(out, part, e);
    return code ? unit_at(s, node, e) : KV_OK;
}

int eval_index(session *s, const ast *node, value *out, kv_err *e)
{
    index_place p;
    int code = index_find(s, node, &p, e);
    if (code)
        return code;
    code = index_read(s, node, &p, out, e);
    if (code == KV_OK && p.whole.kind == VALUE_ARRAY && !picks(p.ranges, p.n))
        eval_is_part(s, node, p.whole, *out);
    index_release(&p);
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

int index_may_write(session *s, const ast *node, const index_place *p, kv_err *e)
{
    value whole = p->whole;
    if (whole.kind != VALUE_ARRAY && whole.kind != VALUE_LIST && whole.kind != VALUE_DICT)
        return unit_err(s, node, e, KV_E_DTYPE, "the parts of %s cannot be assigned",
                        value_kind_name(whole));
    if (whole.kind == VALUE_ARRAY && whole.u.box->refs == 1) /* nobody else has it: a copied part */
        return unit_err(s, node, e, KV_E_USAGE,
                        "write all indices of an array in one bracket: a[1, 2]");
    return KV_OK;
}

int index_write(session *s, const ast *node, const index_place *p, value v, kv_err *e)
{
    int code = index_may_write(s, node, p, e);
    if (code)
        return code;
    if (p->whole.kind == VALUE_LIST)
        return assign_list(s, node, p->whole, p->ranges, p->n, v, e);
    if (p->whole.kind == VALUE_ARRAY)
        return assign_array(s, node, p->whole, p->ranges, p->n, v, e);
    return dict_set(p->whole, p->key, v, e) ? unit_at(s, node, e) : KV_OK;
}

int eval_assign_index(session *s, const ast *target, value v, kv_err *e)
{
    index_place p;
    int code = index_find(s, target, &p, e);
    if (code)
        return code;
    code = index_write(s, target, &p, v, e);
    index_release(&p);
    return code;
}
