/* Parts of lists and arrays: a[1], a[0:2, ...], and assigning them. */
#include "array/slice.h"
#include "base/stop.h"
#include "script/eval.h"
#include "script/function.h"
#include "script/unit.h"

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

/* The ranges of an AST_INDEX; ndim is that of what is indexed, for `...`. */
static int eval_ranges(session *s, const ast *node, int ndim, array_range *r, int *n, kv_err *e)
{
    *n = 0;
    for (uint32_t i = 1; i < node->n; i++) {
        const ast *part = node->kid[i];
        bool given, to, step;
        int code;
        if (*n >= KV_MAX_NDIM)
            return unit_err(s, node, e, KV_E_INDEX, "at most %d indices", KV_MAX_NDIM);
        array_range *at = &r[*n];
        *at = (array_range){0};
        if (part->kind == AST_ELLIPSIS) {
            for (int k = ndim - (int)(node->n - 2); k > 0 && *n < KV_MAX_NDIM; k--)
                r[(*n)++] = (array_range){0};
            continue;
        }
        if (part->kind == AST_SLICE) {
            if ((code = slice_part(s, part->kid[0], &at->has_from, &at->from, e)) ||
                (code = slice_part(s, part->kid[1], &to, &at->to, e)) ||
                (code = slice_part(s, part->kid[2], &step, &at->step, e)))
                return code;
            at->has_to = to;
            if (step && at->step == 0)
                return unit_err(s, part, e, KV_E_VALUE, "a slice cannot step by 0");
        } else {
            if ((code = slice_part(s, part, &given, &at->index, e)))
                return code;
            at->is_index = true;
        }
        (*n)++;
    }
    return KV_OK;
}

static int index_list(session *s, const ast *node, value v, value *out, kv_err *e)
{
    array_range r[KV_MAX_NDIM];
    int n;
    int64_t len = v.u.list->n;
    int code = eval_ranges(s, node, 1, r, &n, e);
    if (code)
        return code;
    if (n != 1)
        return unit_err(s, node, e, KV_E_INDEX, "a list has one index at a time: a[1][2]");
    if (r[0].is_index) {
        int64_t i = r[0].index < 0 ? r[0].index + len : r[0].index;
        if (i < 0 || i >= len)
            return unit_err(s, node, e, KV_E_INDEX,
                            "index %lld is out of range: the list has %lld item%s",
                            (long long)r[0].index, (long long)len, len == 1 ? "" : "s");
        *out = value_ref(v.u.list->items[i]);
        return KV_OK;
    }
    array_span span = array_range_span(&r[0], len);
    code = value_list_new(out, v.kind, span.n, e);
    for (int64_t i = 0; i < span.n && code == KV_OK && !(code = stop_check_at(i, e)); i++)
        out->u.list->items[i] = value_ref(v.u.list->items[span.from + i * span.step]);
    return value_finish(out, code);
}

int eval_index(session *s, const ast *node, value *out, kv_err *e)
{
    value v;
    int code = eval(s, node->kid[0], &v, e);
    if (code)
        return code;
    if (value_is_sequence(v)) {
        code = index_list(s, node, v, out, e);
    } else if (v.kind == VALUE_ARRAY) {
        array_range r[KV_MAX_NDIM];
        kv_array *part;
        int n;
        code = eval_ranges(s, node, kv_array_ndim(v.u.array), r, &n, e);
        if (code == KV_OK && (code = array_slice(&part, v.u.array, r, n, e)) == KV_OK)
            *out = value_array(part);
        unit_at(s, node, e);
    } else {
        code = unit_err(s, node, e, KV_E_DTYPE, "%s has no parts to index", value_kind_name(v));
    }
    value_release(&v);
    return code;
}

int eval_unshare(value *v, kv_err *e)
{
    value own;
    int code = KV_OK;
    if (v->kind == VALUE_ARRAY && kv_array_refs(v->u.array) > 1) {
        kv_array *copy;
        if ((code = kv_array_dup(&copy, v->u.array, kv_array_dtype(v->u.array),
                                 kv_array_ctx(v->u.array), e)))
            return code;
        own = value_array(copy);
    } else if (value_is_sequence(*v) && v->u.list->refs > 1) {
        if ((code = value_list_new(&own, v->kind, v->u.list->n, e)))
            return code;
        for (int64_t i = 0; i < v->u.list->n; i++)
            own.u.list->items[i] = value_ref(v->u.list->items[i]);
    } else {
        return KV_OK;
    }
    value_release(v);
    *v = own;
    return KV_OK;
}

static int assign_in(session *s, const ast *target, value *place, value v, kv_err *e)
{
    array_range r[KV_MAX_NDIM];
    int n, code = eval_unshare(place, e);
    if (code)
        return code;
    if (place->kind == VALUE_ARRAY) {
        kv_array *src;
        code = eval_ranges(s, target, kv_array_ndim(place->u.array), r, &n, e);
        if (code)
            return code;
        /* numbers go straight into the array's dtype, so that large integers stay exact */
        code = v.kind == VALUE_ARRAY
                   ? value_to_array(&src, v, e)
                   : value_numbers_array(&src, v, kv_array_dtype(place->u.array),
                                         kv_array_ctx(place->u.array), e);
        if (code)
            return unit_at(s, target, e);
        code = array_assign_slice(place->u.array, r, n, src, e);
        kv_array_unref(src);
        return code ? unit_at(s, target, e) : KV_OK;
    }
    if (place->kind != VALUE_LIST)
        return unit_err(s, target, e, KV_E_DTYPE, "the parts of %s cannot be assigned",
                        value_kind_name(*place));
    if ((code = eval_ranges(s, target, 1, r, &n, e)))
        return code;
    int64_t len = place->u.list->n, i = n == 1 && r[0].index < 0 ? r[0].index + len : r[0].index;
    if (n != 1 || !r[0].is_index || i < 0 || i >= len)
        return unit_err(s, target, e, KV_E_INDEX, "the list has %lld item%s and no such one",
                        (long long)len, len == 1 ? "" : "s");
    value_release(&place->u.list->items[i]);
    place->u.list->items[i] = value_ref(v);
    return KV_OK;
}

/* The place of a list item: target[i] inside target[i][j]. */
static int find_place(session *s, const ast *node, value **out, kv_err *e)
{
    if (node->kind == AST_NAME) {
        *out = session_find(s, node->u.text);
        if (*out)
            return KV_OK;
        value unused;
        return eval(s, node, &unused, e); /* says that there is none */
    }
    value *outer;
    array_range r[KV_MAX_NDIM];
    int n, code;
    if (node->kind != AST_INDEX)
        return unit_err(s, node, e, KV_E_USAGE, "only parts of variables can be assigned");
    if ((code = find_place(s, node->kid[0], &outer, e)) || (code = eval_unshare(outer, e)))
        return code;
    if (outer->kind != VALUE_LIST)
        return unit_err(s, node, e, KV_E_USAGE,
                        "write all indices of an array in one bracket: a[1, 2]");
    if ((code = eval_ranges(s, node, 1, r, &n, e)))
        return code;
    int64_t len = outer->u.list->n, i = r[0].index < 0 ? r[0].index + len : r[0].index;
    if (n != 1 || !r[0].is_index || i < 0 || i >= len)
        return unit_err(s, node, e, KV_E_INDEX, "the list has %lld item%s and no such one",
                        (long long)len, len == 1 ? "" : "s");
    *out = &outer->u.list->items[i];
    return KV_OK;
}

int eval_assign_index(session *s, const ast *target, value v, kv_err *e)
{
    value *place;
    int code = find_place(s, target->kid[0], &place, e);
    return code ? code : assign_in(s, target, place, v, e);
}
