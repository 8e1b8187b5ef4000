/* Conditions: truth, `and or not`, `a if c else b`, `in`, `is`, and comparisons in a row. */
#include "eval/eval.h"

#include <string.h>

#include "base/stop.h"
#include "cpu/cpu.h"
#include "eval/eval_tree.h"
#include "session/containers.h"
#include "session/unit.h"

/* ---- Truth ---- */

/* The elements of an array become bools, block by block. wanted: the one that ends the search. */
static int find_element(kv_array *a, bool wanted, bool *found, kv_err *e)
{
    const void *data;
    int64_t n = kv_array_size(a), bytes = kv_dtype_bytes(kv_array_dtype(a));
    int code = kv_array_read(a, &data, e);
    unsigned char block[1024];
    *found = false;
    for (int64_t i = 0; i < n && code == KV_OK && !*found; i += 1024) {
        int64_t m = n - i < 1024 ? n - i : 1024;
        if (i % STOP_EVERY == 0 && (code = stop_check(e)))
            break;
        convert_elements(block, KV_BOOL, (const char *)data + i * bytes, kv_array_dtype(a), m);
        *found = memchr(block, wanted ? 1 : 0, (size_t)m) != NULL;
    }
    return code;
}

int eval_truth_of_all(value v, bool *out, kv_err *e)
{
    if (v.kind != VALUE_ARRAY)
        return eval_truth(v, out, e);
    bool zero = false;
    int code = find_element(v.u.box->array, false, &zero, e);
    *out = !zero;
    return code;
}

int eval_truth(value v, bool *out, kv_err *e)
{
    char shape[160];
    const kv_array *a = v.kind == VALUE_ARRAY ? v.u.box->array : NULL;
    if (a && kv_array_size(a) != 1) {
        kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a));
        kv_err_set(e, KV_E_VALUE, "an array of shape %s is neither true nor false", shape);
        return kv_err_hint(e, "all(a) asks for every element, any(a) for one"), KV_E_VALUE;
    }
    if (a)
        return eval_truth_of_all(v, out, e);
    if (value_has_items(v)) /* a dict without keys has no gaps either */
        *out = v.u.list->n > 0;
    else
        *out = v.kind == VALUE_CTX || host_truth(value_host(v));
    return KV_OK;
}

int eval_condition(session *s, const ast *node, bool *truth, kv_err *e)
{
    value v;
    int code = eval(s, node, &v, e);
    if (code)
        return code;
    code = eval_truth(v, truth, e);
    value_release(&v);
    return code ? unit_at(s, node, e) : KV_OK;
}

/* ---- and, or, not, if ---- */

int eval_logic(session *s, const ast *node, value *out, kv_err *e)
{
    bool truth;
    int code = eval(s, node->kid[0], out, e);
    if (code || (code = eval_truth(*out, &truth, e))) {
        value_release(out);
        return unit_at(s, node->kid[0], e);
    }
    if (node->kind == AST_UNARY) {
        value_release(out);
        *out = value_bool(!truth);
        return KV_OK;
    }
    if (truth == (node->op == OP_OR))
        return KV_OK;
    value_release(out);
    return eval(s, node->kid[1], out, e);
}

int eval_choice(session *s, const ast *node, value *out, kv_err *e)
{
    bool truth;
    int code = eval_condition(s, node->kid[0], &truth, e);
    return code ? code : eval(s, node->kid[truth ? 1 : 2], out, e);
}

/* ---- Comparisons ---- */

/* An array holds x when an element is equal to it: any(a == x). */
static int array_holds(session *s, const ast *node, const value *args, bool *holds, kv_err *e)
{
    value equal, pair[2] = {args[1], args[0]};
    ast *compare = mem_zalloc((int64_t)(sizeof *compare + 2 * sizeof compare->kid[0]), 1, e);
    if (!compare)
        return KV_E_MEMORY;
    *compare = *node;
    compare->kind = AST_BINARY;
    compare->op = OP_EQ;
    compare->kid[0] = node->kid[1];
    compare->kid[1] = node->kid[0];
    int code = eval_operate(s, compare, pair, &equal, e);
    if (code == KV_OK && equal.kind == VALUE_ARRAY)
        code = find_element(equal.u.box->array, true, holds, e);
    if (code == KV_OK)
        value_release(&equal);
    mem_free(compare);
    return code;
}

/* args[0] in args[1] */
static int holds(session *s, const ast *node, const value *args, bool *out, kv_err *e)
{
    const value *found;
    int code = KV_OK;
    if (value_is_sequence(args[1]))
        return list_holds(args[1], args[0], out, e);
    if (args[1].kind == VALUE_ARRAY)
        return array_holds(s, node, args, out, e);
    if (args[1].kind == VALUE_DICT) {
        if ((code = dict_find(args[1], args[0], &found, e)) == KV_OK)
            *out = found != NULL;
        return code;
    }
    if (args[1].kind == VALUE_TEXT && args[0].kind == VALUE_TEXT) {
        *out = strstr(args[1].u.text, args[0].u.text) != NULL;
        return KV_OK;
    }
    if (args[1].kind == VALUE_TEXT)
        return kv_err_set(e, KV_E_DTYPE, "`in` looks for a text in a text, not for %s",
                          value_kind_name(args[0]));
    return kv_err_set(e, KV_E_DTYPE, "`in` looks into lists, dicts, texts and arrays, not into %s",
                      value_kind_name(args[1]));
}

/* Two names of one object. Whether equal numbers and texts are one is nothing that can be known. */
static int is_same(value a, value b, bool *out, kv_err *e)
{
    *out = a.kind == b.kind;
    if (!*out || a.kind == VALUE_NONE)
        return KV_OK;
    if (a.kind == VALUE_BOOL)
        *out = a.u.integer == b.u.integer;
    else if (a.kind == VALUE_ARRAY)
        *out = a.u.box == b.u.box;
    else if (value_has_items(a))
        *out = a.u.list == b.u.list;
    else {
        kv_err_set(e, KV_E_DTYPE, "`is` compares objects, and %s is none", value_kind_name(a));
        return kv_err_hint(e, "`==` compares values"), KV_E_DTYPE;
    }
    return KV_OK;
}

static int compare(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool truth;
    if (node->kind == AST_BINARY)
        return eval_operate(s, node, args, out, e);
    int code = node->op == OP_IN || node->op == OP_NOT_IN ? holds(s, node, args, &truth, e)
                                                          : is_same(args[0], args[1], &truth, e);
    if (code)
        return unit_at(s, node, e);
    *out = value_bool(truth == (node->op == OP_IN || node->op == OP_IS));
    return KV_OK;
}

int eval_test(session *s, const ast *node, value *out, kv_err *e)
{
    value args[2] = {{0}};
    int code = eval(s, node->kid[0], &args[0], e);
    if (code == KV_OK && (code = eval(s, node->kid[1], &args[1], e)) == KV_OK)
        code = compare(s, node, args, out, e);
    value_release(&args[0]);
    value_release(&args[1]);
    return code;
}

int eval_chain(session *s, const ast *node, value *out, kv_err *e)
{
    value args[2] = {{0}};
    bool on = true;
    int code = eval(s, node->kid[0]->kid[0], &args[0], e);
    for (uint32_t i = 0; i < node->n && on && code == KV_OK; i++) {
        const ast *one = node->kid[i];
        value_release(out);
        if ((code = eval(s, one->kid[1], &args[1], e)) ||
            (code = compare(s, one, args, out, e)))
            break;
        if (i + 1 < node->n && (code = eval_truth(*out, &on, e)))
            unit_at(s, one, e);
        value_release(&args[0]);
        args[0] = args[1];
        args[1] = value_none();
    }
    value_release(&args[0]);
    value_release(&args[1]);
    return value_finish(out, code);
}
