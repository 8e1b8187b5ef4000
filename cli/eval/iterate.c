/* Going through values, item by item: `for`, comprehensions, and the targets that items are given
 * to. */
#include "eval/eval.h"
#include "eval/eval_copy.h"

#include "array/slice.h"
#include "base/utf8.h"
#include "session/dict.h"
#include "session/list.h"
#include "session/unit.h"
#include "term/progress.h"

#include <string.h>

/* ---- Items ---- */

/* The number of items, of a text that of its bytes. */
static int count_items(value v, int64_t *n, kv_err *e)
{
    if (value_is_sequence(v))
        *n = v.u.list->n;
    else if (v.kind == VALUE_DICT)
        *n = dict_count(v);
    else if (v.kind == VALUE_TEXT)
        *n = (int64_t)strlen(v.u.text);
    else if (v.kind == VALUE_ARRAY && kv_array_ndim(v.u.box->array) > 0)
        *n = kv_array_shape(v.u.box->array)[0];
    else
        return kv_err_set(e, KV_E_DTYPE, "%s has no items to go through", value_kind_name(v));
    return KV_OK;
}

static int row_of(kv_array *a, int64_t i, value *out, kv_err *e)
{
    array_range at = {.is_index = true, .index = i};
    kv_array *row;
    int code = array_slice(&row, a, &at, 1, e);
    return code ? code : value_result(out, row, e);
}

/* What goes through a value: the next item, counted from 0, and of a text the byte where it begins.
 * keys: how many a dict had at first. */
typedef struct walk {
    value of;
    int64_t i, byte, keys;
} walk;

/* The next item; *more is cleared when there is none. The body may have changed the list. */
static int next_item(walk *w, bool *more, value *out, kv_err *e)
{
    value v = w->of;
    int64_t i = w->i++;
    int code = KV_OK;
    if (v.kind == VALUE_DICT && dict_count(v) != w->keys) {
        kv_err_set(e, KV_E_VALUE, "the dict got or lost keys while `for` goes through it");
        return kv_err_hint(e, "for k in list(d): …");
    }
    if (v.kind == VALUE_TEXT) {
        const char *text = v.u.text + w->byte;
        size_t size = *text != '\0';
        while (size && utf8_is_later(text[size]))
            size++;
        *more = size > 0;
        if (*more)
            code = value_text_new(out, text, size, e);
        w->byte += (int64_t)size;
        return code;
    }
    *more = i < (v.kind == VALUE_ARRAY ? kv_array_shape(v.u.box->array)[0]
                 : v.kind == VALUE_DICT ? w->keys
                                        : v.u.list->n);
    if (*more && v.kind == VALUE_ARRAY)
        return row_of(v.u.box->array, i, out, e);
    if (*more)
        *out = value_ref(v.u.list->items[v.kind == VALUE_DICT ? 2 * i : i]);
    return KV_OK;
}

int eval_each(session *s, const ast *node, const ast *target, scope *own, eval_body body, void *arg,
              kv_err *e)
{
    walk w = {0};
    int64_t n = 0;
    bool on = true;
    int code = eval(s, node, &w.of, e);
    if (code)
        return code;
    code = count_items(w.of, &n, e) ? unit_at(s, node, e) : KV_OK;
    w.keys = n;
    progress_begin("for", n, PROGRESS_TIMES);
    while (on && code == KV_OK) {
        value item;
        progress_step(w.i);
        if ((code = session_interrupted(s, e)))
            unit_at(s, node, e);
        else if ((code = next_item(&w, &on, &item, e)) == KV_OK && on) {
            eval_is_row(s, node, w.of, item);
            if ((code = eval_give(s, target, item, own, e)) == KV_OK)
                code = body(s, arg, &on, e);
        } else if (code) {
            unit_at(s, node, e);
        }
    }
    progress_end();
    value_release(&w.of);
    return code;
}

int eval_items_of(value v, value *out, kv_err *e)
{
    walk w = {.of = v};
    value_stack items = {0};
    bool more = true;
    int code = count_items(v, &w.keys, e);
    while (code == KV_OK && more) {
        value item;
        if ((code = next_item(&w, &more, &item, e)) == KV_OK && more)
            code = value_stack_add(&items, item, e);
    }
    if (code == KV_OK)
        code = value_stack_list(&items, out, e);
    value_stack_release(&items);
    return code;
}

int eval_rows(session *s, const ast *node, value *array, kv_err *e)
{
    value items, whole = *array;
    int code = eval_items_of(whole, &items, e);
    *array = value_none();
    for (int64_t i = 0; code == KV_OK && i < items.u.list->n; i++)
        eval_is_row(s, node, whole, items.u.list->items[i]);
    value_release(&whole);
    if (code)
        return unit_at(s, node, e);
    *array = items;
    return KV_OK;
}

/* ---- Targets ---- */

static int unpack(session *s, const ast *target, value v, scope *own, kv_err *e)
{
    value items;
    int code = eval_items_of(v, &items, e);
    if (code)
        return unit_at(s, target, e);
    int64_t n = items.u.list->n;
    if (n != target->n)
        code = unit_err(s, target, e, KV_E_VALUE, "%d name%s cannot take %lld value%s",
                        (int)target->n, target->n == 1 ? "" : "s", (long long)n,
                        n == 1 ? "" : "s");
    for (uint32_t i = 0; i < target->n && code == KV_OK; i++)
        code = eval_give(s, target->kid[i], value_ref(items.u.list->items[i]), own, e);
    value_release(&items);
    return code;
}

int eval_give(session *s, const ast *target, value v, scope *own, kv_err *e)
{
    if (target->kind == AST_NAME)
        return own ? scope_set(own, target->u.text, v, e) : session_set(s, target->u.text, v, e);
    int code = target->kind == AST_TUPLE ? unpack(s, target, v, own, e)
                                         : eval_assign_index(s, target, v, e);
    value_release(&v);
    return code;
}

/* ---- Comprehensions ---- */

/* One comprehension that runs: the clause that comes next, and what was made. */
typedef struct comprehension {
    const ast *node;
    uint32_t clause;
    scope own;
    value_stack items;
    value dict; /* that is made; none when it is a list */
} comprehension;

static int run_clauses(session *s, comprehension *c, kv_err *e);

static int clause_item(session *s, void *arg, bool *on, kv_err *e)
{
    (void)on;
    return run_clauses(s, arg, e);
}

/* The body, for the values that all names have now. */
static int make_item(session *s, comprehension *c, kv_err *e)
{
    const ast *body = c->node->kid[0];
    value part[2] = {{0}};
    if (c->dict.kind == VALUE_NONE) {
        int failed = eval(s, body, &part[0], e);
        return failed ? failed : value_stack_add(&c->items, part[0], e);
    }
    int code = eval(s, body->kid[0], &part[0], e);
    if (code == KV_OK && (code = eval(s, body->kid[1], &part[1], e)) == KV_OK)
        code = dict_set(c->dict, part[0], part[1], e);
    value_release(&part[0]);
    value_release(&part[1]);
    return code ? unit_at(s, body, e) : KV_OK;
}

static int run_clauses(session *s, comprehension *c, kv_err *e)
{
    const ast *clause = c->clause < c->node->n ? c->node->kid[c->clause] : NULL;
    bool on = true;
    int code;
    if (!clause)
        return make_item(s, c, e);
    c->clause++;
    if (clause->kind == AST_FOR)
        code = eval_each(s, clause->kid[1], clause->kid[0], &c->own, clause_item, c, e);
    else if ((code = eval_condition(s, clause->kid[0], &on, e)) == KV_OK && on)
        code = run_clauses(s, c, e);
    c->clause--;
    return code;
}

void eval_enter(session *s, scope *own)
{
    own->outer = s->locals ? s->locals : &s->globals;
    s->locals = own;
}

void eval_leave(session *s, scope *own)
{
    s->locals = own->outer == &s->globals ? NULL : own->outer;
    scope_release(own);
}

int eval_comp(session *s, const ast *node, value *out, kv_err *e)
{
    comprehension c = {.node = node, .clause = 1};
    int code = node->op ? dict_new(&c.dict, e) : KV_OK;
    if (code)
        return code;
    eval_enter(s, &c.own);
    code = run_clauses(s, &c, e);
    eval_leave(s, &c.own);
    *out = c.dict;
    if (code == KV_OK && !node->op)
        code = value_stack_list(&c.items, out, e);
    value_stack_release(&c.items);
    return value_finish(out, code);
}
