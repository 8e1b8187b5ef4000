/* The arrays that a call fills: new ones, or objects, where all who refer to them see it.
 *
 * An array that nobody refers to would be filled for nothing, as that of out=a[1], which is a copy:
 * it is refused. A list may hold an array several times; under one key that is no matter, under
 * several all but the last value are lost, so it is told.
 */
#include "cmd/pairs.h"

#include "base/map.h"
#include "eval/eval_index.h"
#include "session/show.h"
#include "session/unit.h"
#include "syntax/command.h"

int pairs_fill(pairs *p, kv_key key, value array, kv_err *e)
{
    const kv_array *a = array.u.box->array;
    bool shared = kv_array_refs(a) > 1 && !p->twice;
    for (int64_t i = 0; i < p->n && shared && !p->twice; i++)
        if (p->arrays[i] == a && !map_same_key(&p->keys[i], &key)) {
            p->first = i;
            p->twice = p->n;
        }
    int code = value_own(array, e);
    return code ? code : pairs_add(p, key, kv_array_ref(array.u.box->array), e);
}

void pairs_warn_twice(const pairs *p, session *s, const ast *node)
{
    char text[UNIT_TEXT];
    buf keys = {0}, zeros = {0};
    if (!p->twice)
        return;
    const kv_array *a = p->arrays[p->twice];
    int ndim = kv_array_ndim(a);
    show_key(&keys, p->keys[p->first]);
    buf_add(&keys, " and ");
    show_key(&keys, p->keys[p->twice]);
    buf_add(&zeros, ndim ? "zeros(" : "zeros(()");
    for (int i = 0; i < ndim; i++)
        buf_printf(&zeros, "%s%lld", i ? ", " : "", (long long)kv_array_shape(a)[i]);
    session_warn(s, node,
                 "`%s` holds one array for the keys %s, which keeps the value of the last; "
                 "[%s) for i in 0..%lld] makes several",
                 unit_text(text, s->unit, node), buf_text(&keys), buf_text(&zeros),
                 (long long)p->n - 1);
    buf_release(&keys);
    buf_release(&zeros);
}

bool pairs_are_held(value v, bool held)
{
    if (v.kind == VALUE_ARRAY)
        return held || v.u.box->refs > 1;
    if (!value_is_sequence(v) || value_descend(NULL))
        return false;
    held |= v.u.list->refs > 1;
    for (int64_t i = 0; i < v.u.list->n; i++)
        if (pairs_are_held(v.u.list->items[i], held))
            return true;
    return false;
}

/* ---- --out ---- */

/* The lists and arrays that are filled, from the outermost list on. */
typedef struct filling {
    session *s;
    const ast *node;
    pairs *to;
} filling;

static int for_nothing(const filling *f, kv_err *e)
{
    char text[UNIT_TEXT];
    unit_text(text, f->s->unit, f->node);
    unit_err(f->s, f->node, e, KV_E_USAGE, "`%s` is a new array, so filling it changes nothing",
             text);
    if (f->node->kind == AST_INDEX)
        kv_err_hint(e, "%s = …", text);
    kv_err_hint(e, "fill one that has a name: out=w");
    return KV_E_USAGE;
}

/* held: something refers to v, or to what holds it. */
static int fill_one(const filling *f, kv_key key, value v, bool held, kv_err *e)
{
    int code = value_descend(e);
    if (code)
        return code;
    if (v.kind == VALUE_ARRAY)
        return held || v.u.box->refs > 1 ? pairs_fill(f->to, key, v, e) : for_nothing(f, e);
    if (!value_is_sequence(v) || v.u.list->n == 0)
        return kv_err_set(e, KV_E_DTYPE, "--out fills arrays, not %s",
                          value_is_sequence(v) ? "an empty list" : value_kind_name(v));
    held |= v.u.list->refs > 1;
    for (int64_t i = 0; i < v.u.list->n && code == KV_OK; i++)
        code = fill_one(f, key, v.u.list->items[i], held, e);
    return code;
}

/* One for each key. */
static int fill_several(const filling *f, const key_list *keys, value v, kv_err *e)
{
    char text[UNIT_TEXT];
    if (!value_is_sequence(v) || v.u.list->n != keys->n)
        return unit_err(f->s, f->node, e, KV_E_VALUE,
                        "%lld keys need a list of %lld to fill, `%s` is %s", (long long)keys->n,
                        (long long)keys->n, unit_text(text, f->s->unit, f->node),
                        value_kind_name(v));
    int code = KV_OK;
    for (int64_t i = 0; i < keys->n && code == KV_OK; i++)
        code = fill_one(f, keys->keys[i], v.u.list->items[i], v.u.list->refs > 1, e);
    return code;
}

int pairs_into(pairs *p, session *s, const ast *node, const key_list *keys, kv_err *e)
{
    const filling f = {s, node, p};
    value v;
    int code = eval(s, node, &v, e);
    if (code == KV_E_NAME && node->kind == AST_NAME) {
        *e = (kv_err){0};
        return unit_err(s, node, e, KV_E_NAME, "there is no variable `%s` to fill; -> makes one",
                        node->u.text);
    }
    if (code)
        return code;
    code = keys->list ? fill_several(&f, keys, v, e) : fill_one(&f, keys->keys[0], v, false, e);
    if (code == KV_OK) {
        eval_warn_parts(s, node, v);
        pairs_warn_twice(p, s, node);
    }
    value_release(&v);
    return code ? unit_at(s, node, e) : KV_OK;
}

/* ---- New arrays ---- */

int pairs_new(pairs *p, const kv_info *info, value where, bool sparse, result *out, int64_t i,
              kv_err *e)
{
    value *v = out->keys ? &out->v.u.list->items[i] : &out->v;
    bool list = value_is_sequence(where);
    int64_t n;
    const value *places = value_items(&where, &n);
    int code = list ? value_list_new(v, VALUE_LIST, n, e) : KV_OK;
    if (out->keys)
        out->keys[i] = info->key;
    out->has_key = !out->keys;
    out->key = info->key;
    for (int64_t k = 0; k < n && code == KV_OK; k++) {
        kv_array *a;
        kv_ctx ctx = places[k].u.ctx;
        /* a key of another storage is for the store to refuse, also one without an axis */
        if (sparse && info->ndim > 0)
            code = kv_array_new_sparse(&a, info->dtype, info->ndim, info->shape, 0, NULL, ctx, e);
        else
            code = kv_array_new_raw(&a, info->dtype, info->ndim, info->shape, ctx, e);
        if (code)
            break;
        if ((code = value_array(list ? &v->u.list->items[k] : v, kv_array_ref(a), e)))
            kv_array_unref(a);
        else
            code = pairs_add(p, info->key, a, e);
    }
    return code;
}

int pairs_outs(pairs *p, session *s, kv *store, const ast *call, const key_list *keys, bool sparse,
               result *out, kv_err *e)
{
    const ast *ctx = command_option_of(call, "ctx"), *into = command_option_of(call, "out");
    value where = value_ctx((kv_ctx){0});
    if (into && ctx)
        return unit_err(s, into, e, KV_E_USAGE, "--out keeps the devices of its arrays: no --ctx");
    if (into)
        return pairs_into(p, s, into, keys, e);
    int code = ctx ? eval_contexts(s, ctx, &where, e) : KV_OK;
    if (code == KV_OK && keys->list)
        code = result_for_keys(out, keys->n, e);
    for (int64_t i = 0; i < keys->n && code == KV_OK; i++) {
        kv_info info;
        if ((code = kv_await_key(store, &keys->keys[i], &info, e)))
            break;
        info.key = keys->keys[i];
        code = pairs_new(p, &info, where, sparse, out, i, e);
    }
    value_release(&where);
    return code;
}
