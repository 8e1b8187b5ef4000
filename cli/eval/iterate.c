/* Going through values, item by item: `for`, comprehensions, and the targets that items are given
 * to. */
#include "eval/eval.h"

#include "array/slice.h"
#include "base/utf8.h"
#include "term/terminal.h"

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
    else {
        kv_err_set(e, KV_E_DTYPE, "%s has no items to go through", value_kind_name(v));
        if (v.kind == VALUE_INT)
            kv_err_hint(e, "for i in range(n); for i in 1..3");
        return e->code;
    }
    return KV_OK;
}

/* A walk over the items of a value: the next item, counted from 0, and for a text the byte where
 * it begins. keys: how many a dict had at first. */
typedef struct walk {
    value of;
    int64_t i, byte, keys;
    dict_view view;
} walk;

/* The next item; *more is cleared when there is none. The body may have changed the list. */
static int next_item(walk *w, bool *more, value *out, kv_err *e)
{
    value v = w->of;
    int64_t i = w->i++;
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
        w->byte += (int64_t)size;
        return *more ? value_text_new(out, text, size, e) : KV_OK;
    }
    *more = i < (v.kind == VALUE_ARRAY ? kv_array_shape(v.u.box->array)[0]
                 : v.kind == VALUE_DICT ? w->keys
                                        : v.u.list->n);
    if (*more && v.kind == VALUE_ARRAY) {
        kv_array *row;
        TRY(array_slice(&row, v.u.box->array, &(array_range){.is_index = true, .index = i}, 1, e));
        return value_result(out, row, e);
    }
    if (*more && v.kind == VALUE_DICT) {
        dict_settle(v); /* the body may have taken a key out and put another in */
        return dict_pair(v, i, w->view, out, e);
    }
    if (*more)
        *out = value_ref(v.u.list->items[i]);
    return KV_OK;
}

/* The values that a loop walks over: one, or the arguments of zip() or enumerate() side by side.
 * These are not copied into a list first: the body may change them, and Python then sees the
 * change. */
typedef struct stream {
    walk whole, *columns; /* columns: of zip and enumerate, else NULL */
    int64_t n, first; /* first: where enumerate() begins to count */
    bool counts;      /* enumerate */
} stream;

/* Returns true for a call of Python's zip() or enumerate(); *counts says that it is the latter. */
static bool is_side_by_side(const session *s, const ast *node, bool *counts)
{
    if (node->kind != AST_CALL || (node->flags & AST_METHOD) || node->n == 0)
        return false;
    int64_t own = session_def(s, node->u.text);
    if (own >= 0 && !s->defs[own].unit->prelude)
        return false;
    *counts = strcmp(node->u.text, "enumerate") == 0;
    if (!*counts && strcmp(node->u.text, "zip") != 0)
        return false;
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i]->kind == AST_ARG && !(*counts && i == 1))
            return false;
    return true;
}

/* d.items() and d.values() are walked in the dict itself, for the same reason. */
static int begin_walk(session *s, const ast *node, walk *w, kv_err *e)
{
    bool method = node->kind == AST_CALL && (node->flags & AST_METHOD) && node->n == 1;
    w->view = !method                               ? VIEW_KEYS
              : strcmp(node->u.text, "items") == 0  ? VIEW_ITEMS
              : strcmp(node->u.text, "values") == 0 ? VIEW_VALUES
                                                    : VIEW_KEYS;
    TRY(eval(s, w->view ? node->kid[0] : node, &w->of, e));
    if (w->view && w->of.kind != VALUE_DICT) {
        w->view = VIEW_KEYS; /* r.values of something else */
        value_release(&w->of);
        TRY(eval(s, node, &w->of, e));
    }
    return count_items(w->of, &w->keys, e);
}

/* rounds: as many as there are items now. */
static int stream_begin(session *s, const ast *node, stream *st, int64_t *rounds, kv_err *e)
{
    int rc = KV_OK;
    if (!is_side_by_side(s, node, &st->counts)) {
        rc = begin_walk(s, node, &st->whole, e) ? unit_at(s, node, e) : KV_OK;
        *rounds = st->whole.keys;
        return rc;
    }
    if (!(st->columns = mem_zalloc(node->n, sizeof *st->columns, e)))
        return KV_E_MEMORY;
    int64_t columns = st->counts ? 1 : node->n;
    for (; st->n < columns && rc == KV_OK; st->n++) {
        walk *w = &st->columns[st->n];
        rc = begin_walk(s, node->kid[st->n], w, e) ? unit_at(s, node, e) : KV_OK;
        *rounds = st->n == 0 || w->keys < *rounds ? w->keys : *rounds;
    }
    if (rc == KV_OK && node->n > columns) { /* enumerate(x, 5), enumerate(x, start=5) */
        const ast *given = node->kid[columns];
        rc = eval_int(s, given->kind == AST_ARG ? given->kid[0] : given, "the start of enumerate()",
                      &st->first, e);
    }
    return rc;
}

static int next_of(session *s, const ast *node, walk *w, bool *more, value *out, kv_err *e)
{
    TRY(next_item(w, more, out, e) ? unit_at(s, node, e) : KV_OK);
    if (*more)
        eval_mark_row(s, node, w->of, *out);
    return KV_OK;
}

static int stream_next(session *s, const ast *node, stream *st, bool *more, value *out, kv_err *e)
{
    if (!st->columns)
        return next_of(s, node, &st->whole, more, out, e);
    int64_t round = st->columns[0].i;
    TRY(value_list_new(out, VALUE_TUPLE, st->n + st->counts, e));
    if (st->counts)
        out->u.list->items[0] = value_int((int64_t)((uint64_t)st->first + (uint64_t)round));
    int rc = KV_OK;
    for (int64_t i = 0; i < st->n && *more && rc == KV_OK; i++)
        rc = next_of(s, node->kid[i], &st->columns[i], more,
                     &out->u.list->items[i + st->counts], e);
    if (rc || !*more)
        value_release(out);
    return rc;
}

int eval_each(session *s, const ast *node, const ast *target, scope *own, eval_body body, void *arg,
              kv_err *e)
{
    stream st = {0};
    int64_t n = 0;
    bool on = true;
    int rc = stream_begin(s, node, &st, &n, e);
    progress_begin("for", n, PROGRESS_TIMES);
    for (int64_t i = 0; on && rc == KV_OK; i++) {
        value item;
        progress_step(i);
        if ((rc = session_interrupted(s, e)))
            unit_at(s, node, e);
        else if ((rc = stream_next(s, node, &st, &on, &item, e)) == KV_OK && on &&
                 (rc = eval_give(s, target, item, own, e)) == KV_OK)
            rc = body(s, arg, &on, e);
    }
    progress_end();
    for (int64_t i = 0; i < st.n; i++)
        value_release(&st.columns[i].of);
    mem_free(st.columns);
    value_release(&st.whole.of);
    return rc;
}

int eval_items_of(value v, value *out, kv_err *e)
{
    walk w = {.of = v};
    own_stack items = {0};
    value item;
    bool more = true;
    TRY(count_items(v, &w.keys, e));
    while (more) {
        TRY(next_item(&w, &more, &item, e));
        TRY(more ? value_stack_add(&items, item, e) : KV_OK);
    }
    return value_stack_take(out, &items, KV_OK, e);
}

int eval_rows(session *s, const ast *node, value *array, kv_err *e)
{
    own_value items = value_none(), whole = value_none();
    value_give(&whole, array);
    TRY(eval_items_of(whole, &items, e) ? unit_at(s, node, e) : KV_OK);
    for (int64_t i = 0; i < items.u.list->n; i++)
        eval_mark_row(s, node, whole, items.u.list->items[i]);
    return value_give(array, &items);
}

/* ---- Targets ---- */

static int unpack(session *s, const ast *target, value v, scope *own, kv_err *e)
{
    own_value items = value_none();
    int rc = eval_items_of(v, &items, e);
    if (rc == KV_E_DTYPE) { /* its words are about loops */
        *e = (kv_err){0};
        unit_err(s, target, e, KV_E_DTYPE, "%d name%s cannot take %s", (int)target->n,
                 target->n == 1 ? "" : "s", value_kind_name(v));
    }
    TRY(rc ? unit_at(s, target, e) : KV_OK);
    int64_t n = items.u.list->n;
    if (n != target->n) {
        unit_err(s, target, e, KV_E_VALUE, "%d name%s cannot take %lld value%s", (int)target->n,
                 target->n == 1 ? "" : "s", (long long)n, n == 1 ? "" : "s");
        if (v.kind == VALUE_TEXT && target->n == 2) /* perhaps a key of a dict */
            kv_err_hint(e, "for k, v in d.items() gives the keys of a dict with their values");
        return e->code;
    }
    for (uint32_t i = 0; i < target->n; i++)
        TRY(eval_give(s, target->kid[i], value_ref(items.u.list->items[i]), own, e));
    return KV_OK;
}

int eval_give(session *s, const ast *target, value v, scope *own, kv_err *e)
{
    if (target->kind == AST_NAME)
        return own ? scope_set(own, target->u.text, v, e) : session_set(s, target->u.text, v, e);
    own_value given = v;
    return target->kind == AST_TUPLE ? unpack(s, target, given, own, e)
                                     : eval_assign_index(s, target, given, e);
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
    own_value key = value_none(), v = value_none();
    if (c->dict.kind == VALUE_NONE) {
        value item;
        TRY(eval(s, body, &item, e));
        return value_stack_add(&c->items, item, e);
    }
    bool fails = eval(s, body->kid[0], &key, e) || eval(s, body->kid[1], &v, e) ||
                 dict_set(c->dict, key, v, e);
    return fails ? unit_at(s, body, e) : KV_OK;
}

static int run_clauses(session *s, comprehension *c, kv_err *e)
{
    const ast *clause = c->clause < c->node->n ? c->node->kid[c->clause] : NULL;
    bool on = true;
    int rc;
    if (!clause)
        return make_item(s, c, e);
    c->clause++;
    if (clause->kind == AST_FOR)
        rc = eval_each(s, clause->kid[1], clause->kid[0], &c->own, clause_item, c, e);
    else if ((rc = eval_condition(s, clause->kid[0], &on, e)) == KV_OK && on)
        rc = run_clauses(s, c, e);
    c->clause--;
    return rc;
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
    TRY(node->op ? dict_new(&c.dict, e) : KV_OK);
    eval_enter(s, &c.own);
    int rc = run_clauses(s, &c, e);
    eval_leave(s, &c.own);
    *out = c.dict;
    if (!node->op)
        rc = value_stack_take(out, &c.items, rc, e);
    return value_finish(out, rc);
}
