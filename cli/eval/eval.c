/* Expressions: names, functions of the script, calls, lists, devices, texts. Operators and
 * conditions are in eval_tree.c, comprehensions in iterate.c, indices in eval_index.c, keys in
 * eval_keys.c. */
#include "eval/eval.h"

#include <string.h>

#include "array/arrange.h"
#include "base/kv_assert.h"
#include "base/stop.h"
#include "base/suggest.h"
#include "eval/rule_variables.h"
#include "syntax/command.h"
#include "syntax/effect.h"
#include "syntax/function.h"
#include "syntax/hints.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"

/* ---- Texts with fields, f"{expr!r:format}" ---- */

int text_put_field(session *s, buf *out, value v, char how, const char *format, kv_err *e)
{
    value number = v;
    if (!format && (how || !value_is_scalar(v)))
        return show_value(s, out, v, how == 'r', e);
    if (how) { /* what print or a bare expression shows is a text */
        own_buf shown = {0};
        TRY(show_value(s, &shown, v, how == 'r', e));
        return host_format_field(out, host_text(buf_text(&shown)), format, e);
    }
    /* an array of one element is formatted as its number */
    bool known = v.kind != VALUE_ARRAY || value_item(&number, v, &(kv_err){0}) == KV_OK;
    if (known && value_is_scalar(number))
        return host_format_field(out, value_host(number), format, e);
    if (!*format)
        return show_value(s, out, v, false, e);
    kv_err_set(e, KV_E_DTYPE, "a format takes a number or a text, not %s", value_kind_name(v));
    return kv_err_hint(e, "{x!s:%.40s} formats what print shows", format);
}

/* The format is plain text, or one with fields of its own. */
static int put_field(session *s, buf *out, const ast *field, value v, kv_err *e)
{
    own_value format = value_none();
    bool made = field->n > 1;
    TRY(made ? eval(s, field->kid[1], &format, e) : KV_OK);
    return text_put_field(s, out, v, (char)field->op, made ? format.u.text : field->u.text, e);
}

/* The value of an AST_FTEXT. */
static int eval_ftext(session *s, const ast *node, value *out, kv_err *e)
{
    own_buf text = {0};
    for (uint32_t i = 0; i < node->n; i++) {
        const ast *piece = node->kid[i];
        own_value v = value_none();
        if (piece->kind == AST_TEXT) {
            buf_add(&text, piece->u.text);
            continue;
        }
        TRY(eval(s, piece->kid[0], &v, e));
        TRY(put_field(s, &text, piece, v, e) ? unit_at(s, piece, e) : KV_OK);
    }
    return value_text_take(out, &text, KV_OK, e);
}

/* ---- Names ---- */

/* Returns true if the store in use has a key of this name. */
static bool is_key(const session *s, const char *name)
{
    kv_info info;
    const kv_key key = {.name = name};
    kv *store = s->current < 0 ? NULL : s->stores[s->current].store;
    return store && kv_find(store, &key, &info, &(kv_err){0}) == KV_OK;
}

static int eval_name(session *s, const ast *node, value *out, kv_err *e)
{
    const char *name = node->u.text;
    const value *found = session_find(s, name);
    if (!found && strcmp(name, "_") == 0)
        found = &s->last;
    if (found) {
        *out = value_ref(*found);
        return KV_OK;
    }
    if (session_names_store(s, name)) { /* for values there are objects that say what it is */
        int64_t at = session_find_store(s, name);
        kv *store = at >= 0 ? s->stores[at].store : NULL;
        int rc = at >= 0 ? KV_OK : session_store(s, &store, e);
        return rc ? rc : object_store(out, kv_type(store), e);
    }
    if (session_awaits_name(s, name)) {
        unit_err(s, node, e, KV_E_NAME,
                 "`%s` has no value yet: the function sets a `%s` of its own", name, name);
        return kv_err_hint(e, "give it as an argument, and return the new value: %s = f(%s)", name,
                           name);
    }
    unit_err(s, node, e, KV_E_NAME, "there is no variable `%s`", name);
    if (is_key(s, name))
        return kv_err_hint(e,
                           "`%s` is a key of the store: `pull %s` shows its value; in an "
                           "expression it is kv.pull('%s')",
                           name, name, name);
    if (hint_name(name, e))
        return e->code;
    const function *f = function_find(name);
    if (f || session_def(s, name) >= 0)
        return kv_err_hint(e, "`%s` is a function: %s%s", name, name, FUNCTION_BRACKETS(f));
    if (command_find(name, strlen(name)))
        return kv_err_hint(e, "`%s` is a command: begin it on a new line or behind `;`", name);
    suggest near = {.word = name};
    for (int64_t i = 0; i < s->globals.n; i++)
        suggest_add(&near, s->globals.items[i].name);
    for (int64_t i = 0; s->locals && i < s->locals->n; i++)
        suggest_add(&near, s->locals->items[i].name);
    if (near.n == 0 && hint_shell(name, strlen(name), e))
        return e->code;
    bool none = near.n == 0; /* then it may be a command without arguments, or a function */
    for (const command *c = registry.commands; none && c->name; c++)
        suggest_add(&near, c->name);
    for (int i = 0; none && function_at(i); i++)
        suggest_add(&near, function_at(i)->name);
    return suggest_done(&near, e), KV_E_NAME;
}

int eval_args(session *s, const ast *node, value_stack *l, kv_err *e)
{
    for (uint32_t i = 0; i < node->n; i++) {
        const ast *arg = node->kid[i]->kind == AST_ARG ? node->kid[i]->kid[0] : node->kid[i];
        value v;
        int rc = eval(s, arg, &v, e);
        if (rc == KV_E_NAME && function_is_dtype_word(arg)) { /* astype(f16) */
            *e = (kv_err){0};
            rc = value_text(&v, arg->u.text, e);
        }
        if (rc || (rc = value_stack_add(l, v, e)))
            return rc;
    }
    return KV_OK;
}

/* ---- Functions of the script ---- */

/* A function has a scope of its own. The names that it sets anywhere are its own from the first
 * line on, as in Python, so that none of them means a variable outside of it. */

/* Adds the names that the statements below node set, but not those of other functions. */
static int find_assigned(map *names, const ast *node, kv_err *e)
{
    if (!node || node->kind == STMT_DEF)
        return KV_OK;
    if (node->kind >= AST_SCRIPT) /* a comprehension has a scope of its own */
        TRY(effect_sets(node, effect_put_name, names, e));
    for (uint32_t i = 0; i < node->n; i++)
        TRY(find_assigned(names, node->kid[i], e));
    return KV_OK;
}

/* A function inside of another does not see that one's variables, but those of the script. */
static int check_reads(session *s, const ast *def, const def_values *d, const ast *node, kv_err *e)
{
    if (!node || node->kind == STMT_DEF)
        return KV_OK;
    const char *name = node->kind == AST_NAME ? node->u.text : NULL;
    kv_key key = {0, name};
    if (name && map_get(&d->assigned, key) < 0 &&
        (scope_variable(s->locals, name) || session_awaits_name(s, name))) {
        unit_err(s, node, e, KV_E_UNSUPPORTED, "`%s` does not see `%s` of the function around it",
                 def->u.text, name);
        return kv_err_hint(e, "give it as a parameter: def %s(…, %s)", def->u.text, name);
    }
    for (uint32_t i = 0; i < node->n; i++)
        TRY(check_reads(s, def, d, node->kid[i], e));
    return KV_OK;
}

int eval_def(session *s, const ast *node, def_values **out, kv_err *e)
{
    int64_t n = node->n - 1;
    def_values *d = mem_zalloc((int64_t)(sizeof *d + (size_t)n * sizeof *d->defaults), 1, e);
    if (!d)
        return KV_E_MEMORY;
    d->refs = 1;
    d->n = n;
    int rc = effect_sets(node, effect_put_name, &d->assigned, e);
    rc = rc ? rc : find_assigned(&d->assigned, node->kid[0], e);
    if (rc == KV_OK && s->locals)
        rc = check_reads(s, node, d, node->kid[0], e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        if (node->kid[i + 1]->kind == AST_ARG)
            rc = eval(s, node->kid[i + 1]->kid[0], &d->defaults[i], e);
    if (rc)
        def_values_unref(d);
    else
        *out = d;
    return rc;
}

/* Checks the kind of *v where parameter i of a function of the prelude has one of these names; a
 * float that is whole becomes an integer. none is fine where it is the default. */
static int check_kind(session *s, const definition *d, const ast *node, int64_t i, value *v,
                      kv_err *e)
{
    static const char *const texts[] = {"text", "old", "new", "chars"};
    static const char *const integers[] = {"count",     "depth", "k",     "m",
                                           "minlength", "n",     "start", "width"};
    const ast *to = d->node->kid[i + 1];
    const char *name = to->u.text;
    int64_t whole;
    if (!d->unit->prelude ||
        (v->kind == VALUE_NONE && to->kind == AST_ARG && d->values->defaults[i].kind == VALUE_NONE))
        return KV_OK;
    int text = v->kind == VALUE_TEXT ? -1 : NAME_AMONG(name, texts);
    if (text >= 0)
        return unit_err(s, node, e, KV_E_DTYPE, "%s%s a text, not %s",
                        text ? name : d->node->u.text, text ? " is" : "() takes",
                        value_kind_name(*v));
    if (v->kind == VALUE_INT || NAME_AMONG(name, integers) < 0)
        return KV_OK;
    TRY(function_int(*v, name, &whole, e) ? unit_at(s, node, e) : KV_OK);
    *v = value_int(whole);
    return KV_OK;
}

/* Gives the parameters the values of the call, and the others their defaults. */
static int bind(session *s, const definition *d, const ast *node, const value_stack *given,
                scope *own, kv_err *e)
{
    const ast *def = d->node;
    TRY(function_match(&s->unit->src, def, node, e));
    for (int64_t i = 0; i < given->n; i++) {
        int64_t to = function_takes(def, node, i);
        value v = given->items[i];
        TRY(check_kind(s, d, node, to, &v, e));
        TRY(scope_set(own, def->kid[to + 1]->u.text, value_ref(v), e));
    }
    for (uint32_t i = 1; i < def->n; i++) {
        const char *name = def->kid[i]->u.text;
        if (!scope_variable(own, name))
            TRY(scope_set(own, name, value_ref(d->values->defaults[i - 1]), e));
    }
    return KV_OK;
}

/* The code of an assert of the prelude that failed: its text may begin with one, else it is
 * `value`. */
static kv_code take_code(kv_err *e)
{
    for (int code = KV_OK; code < KV_NCODES; code++) {
        size_t n = strlen(kv_code_name(code));
        if (strncmp(e->text, kv_code_name(code), n) == 0 && strncmp(e->text + n, ": ", 2) == 0) {
            memmove(e->text, e->text + n + 2, strlen(e->text + n + 2) + 1);
            return (kv_code)code;
        }
    }
    return KV_E_VALUE;
}

static int call_definition(session *s, const definition *d, const ast *node,
                           const value_stack *given, value *out, kv_err *e)
{
    const ast *def = d->node;
    def_values *values = d->values; /* the body may define the function anew */
    own_scope own = {.assigned = &values->assigned, .quiet = !def->op && def->kid[0]->op == 1};
    scope *locals = s->locals;
    run_flow *outer = s->flow, f = {FLOW_ON, value_none()};
    unit *caller = s->unit, *its = d->unit;
    size_t details = s->detail.len;
    *out = value_none();
    if (s->depth >= PARSE_MAX_DEPTH)
        return unit_err(s, node, e, KV_E_VALUE, "calls are nested deeper than %d", PARSE_MAX_DEPTH);
    TRY(bind(s, d, node, given, &own, e));
    int rc = KV_OK;
    values->refs++;
    s->locals = &own;
    s->unit = its;
    s->depth++;
    if (def->op)
        rc = eval(s, def->kid[0], out, e);
    else if ((rc = registry.run_block(s, def->kid[0], &f, e)) == KV_OK)
        *out = f.returned;
    else
        value_release(&f.returned);
    s->depth--;
    s->locals = locals;
    s->flow = outer;
    s->unit = caller;
    scope_release(&own); /* what is returned may be a variable of it */
    def_values_unref(values);
    if (rc && its->prelude) { /* an error of the call, as that text is not the user's */
        if (s->detail.len > details)
            s->detail.data[s->detail.len = details] = '\0';
        e->code = rc == KV_E_ASSERT ? take_code(e) : (kv_code)rc;
        e->line = e->file[0] = e->hint[0] = 0;
        return unit_at(s, node, e);
    }
    if (its->prelude && out->kind == VALUE_ARRAY && out->u.box->refs == 1) { /* as C makes one */
        out->u.box->is_number = kv_array_ndim(out->u.box->array) == 0;
        out->u.box->part = (array_part){0};
    }
    if (rc)
        session_caller(s, node);
    return rc;
}

/* ---- Calls ---- */

/* A call of a name that is no function. first: its first argument, or NULL. */
static int not_callable(session *s, const ast *node, const value *first, kv_err *e)
{
    const char *name = node->u.text;
    const value *held = session_find(s, name);
    if (first && (node->flags & AST_METHOD)) {
        unit_err(s, node, e, KV_E_USAGE, "%s has no attribute `%s`", value_kind_name(*first), name);
        if (!hint_word("function", name, strlen(name), e) && first->kind == VALUE_DICT &&
            node->kid[0]->kind == AST_NAME)
            kv_err_hint(e, "%s['%s'] reads the dict", node->kid[0]->u.text, name);
        return e->code;
    }
    if (!held)
        return unit_err(s, node, e, KV_E_NAME, "the function `%s` is not defined yet", name);
    unit_err(s, node, e, KV_E_USAGE, "`%s` is not a function: it holds %s", name,
             value_kind_name(*held));
    if (object_is_schedule(*held))
        return kv_err_hint(e, "info --states shows the learning rate of a store");
    if (object_is_optimizer(*held))
        return kv_err_hint(e,
                           "a store updates: kv.set_optimizer(%s); kv.init(0, weight); "
                           "kv.pushpull(0, grad, out=weight)",
                           name);
    return e->code;
}

static int eval_call(session *s, const ast *node, value *out, kv_err *e)
{
    const function *f = function_find(node->u.text);
    bool method = function_method(node) != NULL;
    if (s->guest && method && (f->flags & FUNCTION_CHANGES) && s->guest->check(s, node, e))
        return e->code;
    own_stack l = {0};
    /* x.f(y) is the language's own f, also where a def has its name */
    bool own = node->flags & AST_METHOD && function_def(f);
    int64_t d = method ? -1
                : own  ? map_get(&s->prelude, (kv_key){0, f->name})
                       : session_def(s, node->u.text);
    TRY(eval_args(s, node, &l, e));
    if (d >= 0) {
        TRY(call_definition(s, &s->defs[d], node, &l, out, e));
        if (s->defs[d].unit->prelude && (f->flags & FUNCTION_VIEW))
            eval_mark_parts(s, node, l.items, l.n, *out);
        return KV_OK;
    }
    bool object = l.n > 0 && l.items[0].kind == VALUE_OBJECT;
    if (function_def(f) || (method && object))
        f = NULL; /* a rule took its name, or the object has methods of its own */
    if (f && (f->flags & FUNCTION_ELEMENT)) { /* with named arguments */
        value sorted[FUNCTION_MAX_PARAMS];
        TRY(function_sort(f, l.items, node, l.n, sorted, e) ? unit_at(s, node, e) : KV_OK);
        return eval_operate(s, node, sorted, out, e);
    }
    if (f) {
        TRY(function_call(s, f, l.items, node, l.n, out, e) ? unit_at(s, node, e) : KV_OK);
        if (f->flags & FUNCTION_VIEW)
            eval_mark_parts(s, node, l.items, l.n, *out);
        return KV_OK;
    }
    if (!(node->flags & AST_METHOD ? object : optimizer_is_maker(node->u.text)))
        return not_callable(s, node, l.n > 0 ? &l.items[0] : NULL, e);
    return optimizer_value_call(node, l.items, out, e) ? unit_at(s, node, e) : KV_OK;
}

/* ---- Lists, ranges, devices, indices ---- */

static int eval_items(session *s, const ast *node, value_kind kind, value *out, kv_err *e)
{
    int rc = value_list_new(out, kind, node->n, e);
    for (uint32_t i = 0; i < node->n && rc == KV_OK; i++)
        rc = eval(s, node->kid[i], &out->u.list->items[i], e);
    return value_finish(out, rc);
}

static int eval_range(session *s, const ast *node, value *out, kv_err *e)
{
    int64_t part[3] = {0, 0, 1};
    for (uint32_t i = 0; i < node->n; i++)
        TRY(eval_int(s, node->kid[i], "a bound of a range", &part[i], e));
    int rc = list_range(out, part[0], part[1], part[2], true, e);
    return rc ? unit_at(s, part[2] == 0 ? node->kid[2] : node, e) : KV_OK;
}

static int eval_dict(session *s, const ast *node, value *out, kv_err *e)
{
    own_value dict = value_none();
    TRY(dict_new(&dict, e));
    for (uint32_t i = 0; i < node->n; i += 2) {
        own_value key = value_none(), v = value_none();
        TRY(eval(s, node->kid[i], &key, e));
        TRY(eval(s, node->kid[i + 1], &v, e));
        TRY(dict_set(dict, key, v, e) ? unit_at(s, node->kid[i], e) : KV_OK);
    }
    return value_give(out, &dict);
}

static int move_array(session *s, const ast *node, value v, kv_ctx ctx, value *out, kv_err *e)
{
    own_array *a = NULL;
    kv_array *moved;
    if (v.kind == VALUE_ARRAY && kv_ctx_same(kv_array_ctx(v.u.box->array), ctx)) {
        *out = value_ref(v); /* the same object, as as_in_context gives it */
        return KV_OK;
    }
    if (value_to_array(&a, v, e) || session_ctx(s, ctx, e))
        return unit_at(s, node, e);
    if (kv_ctx_same(kv_array_ctx(a), ctx))
        return value_array(out, kv_array_ref(a), e);
    bool fails = arrange_copy(&moved, a, kv_array_dtype(a), ctx, e) || value_array(out, moved, e);
    return fails ? unit_at(s, node, e) : KV_OK;
}

/* A value on a context or on a list of contexts; a list goes item by item. */
static int move(session *s, const ast *node, value v, value where, value *out, kv_err *e)
{
    bool list = value_is_several(v), places = value_is_sequence(where);
    own_value made = value_none();
    if (!list && !places)
        return move_array(s, node, v, where.u.ctx, out, e);
    int64_t n = list ? v.u.list->n : where.u.list->n;
    if (list && places && n != where.u.list->n)
        return unit_err(s, node, e, KV_E_VALUE, "%lld arrays do not fit %lld devices", (long long)n,
                        (long long)where.u.list->n);
    TRY(value_descend(e) || value_list_new(&made, VALUE_LIST, n, e) ? unit_at(s, node, e) : KV_OK);
    for (int64_t i = 0; i < n; i++)
        TRY(move(s, node, list ? v.u.list->items[i] : v, places ? where.u.list->items[i] : where,
                 &made.u.list->items[i], e));
    return value_give(out, &made);
}

/* [E for 4 gpus]: (E)@gpu(i) for i in 0..3 */
static int eval_copies(session *s, const ast *node, value *out, kv_err *e)
{
    int32_t n;
    value_stack l = {0};
    scope own = {0};
    int rc = eval_int32(s, node->kid[1], "a count of devices", &n, e);
    eval_enter(s, &own);
    for (int32_t i = 0; i < n && rc == KV_OK; i++) {
        own_value v = value_none();
        value moved, ctx = value_ctx((kv_ctx){node->op ? KV_GPU : KV_CPU, i});
        if (!(rc = session_interrupted(s, e)) && !(rc = scope_set(&own, "i", value_int(i), e)) &&
            !(rc = eval(s, node->kid[0], &v, e)) && !(rc = move(s, node, v, ctx, &moved, e)))
            rc = value_stack_add(&l, moved, e);
    }
    eval_leave(s, &own);
    return value_stack_take(out, &l, rc, e);
}

/* One context or a list of them, or another value. */
static int eval_place(session *s, const ast *node, value *out, kv_err *e)
{
    bool bare = node->kind == AST_NAME && !session_find(s, node->u.text);
    bool cpu = bare && strcmp(node->u.text, "cpu") == 0;
    if (!cpu && !(bare && strcmp(node->u.text, "gpu") == 0))
        return eval(s, node, out, e);
    *out = value_ctx((kv_ctx){cpu ? KV_CPU : KV_GPU, 0});
    return KV_OK;
}

/* Releases *out after an error. */
static int check_contexts(session *s, const ast *node, value *out, kv_err *e)
{
    int64_t n;
    const value *items = value_items(out, &n);
    int rc = KV_OK;
    for (int64_t i = 0; i < n && rc == KV_OK; i++) {
        if (items[i].kind == VALUE_CTX)
            continue;
        rc = unit_err(s, node, e, KV_E_DTYPE, "a device such as gpu(1) is needed here, not %s",
                      value_kind_name(items[i]));
        if (items[i].kind == VALUE_ARRAY)
            kv_err_hint(e, "dot(a, b) multiplies matrices");
    }
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        rc = session_ctx(s, items[i].u.ctx, e) ? unit_at(s, node, e) : KV_OK;
    return value_finish(out, rc);
}

int eval_contexts(session *s, const ast *node, value *out, kv_err *e)
{
    TRY(eval_place(s, node, out, e));
    return check_contexts(s, node, out, e);
}

/* A value on a device, or the product with a matrix. */
static int eval_at(session *s, const ast *node, value *out, kv_err *e)
{
    own_value v = value_none(), where = value_none();
    TRY(eval(s, node->kid[0], &v, e));
    TRY(eval_place(s, node->kid[1], &where, e));
    if (node->op && where.kind == VALUE_ARRAY) {
        const value both[2] = {v, where};
        int rc = function_call(s, function_find("dot"), both, NULL, 2, out, e);
        return rc ? unit_at(s, node, e) : KV_OK;
    }
    TRY(check_contexts(s, node->kid[1], &where, e));
    return move(s, node, v, where, out, e);
}

/* ---- Texts ---- */

int eval_text(session *s, const ast *node, const char *what, value *out, kv_err *e)
{
    TRY(eval(s, node, out, e));
    if (out->kind == VALUE_TEXT)
        return KV_OK;
    unit_err(s, node, e, KV_E_DTYPE, "%s is a text, not %s", what, value_kind_name(*out));
    value_release(out);
    return e->code;
}

const char *eval_word(session *s, const ast *node, const char *what, result *out, kv_err *e)
{
    own_value v = value_none();
    if (eval_text(s, node, what, &v, e))
        return NULL;
    return arena_text(&out->names, v.u.text, strlen(v.u.text), e);
}

const char *eval_file(session *s, const ast *node, const char *what, result *out, kv_err *e)
{
    const char *path = eval_word(s, node, "a file name", out, e);
    if (!path || strcmp(path, "-") != 0)
        return path;
    unit_err(s, node, e, KV_E_USAGE, "%s in a file, not in a stream", what);
    kv_err_hint(e, "a file of that name is ./-");
    return NULL;
}

int eval_int(session *s, const ast *node, const char *what, int64_t *out, kv_err *e)
{
    own_value v = value_none();
    TRY(eval(s, node, &v, e));
    return function_int(v, what, out, e) ? unit_at(s, node, e) : KV_OK;
}

int eval_int32(session *s, const ast *node, const char *what, int32_t *out, kv_err *e)
{
    int64_t wide = 0;
    TRY(eval_int(s, node, what, &wide, e));
    if (wide < INT32_MIN || wide > INT32_MAX)
        return unit_err(s, node, e, KV_E_VALUE, "%s lies in %d .. %d, %lld does not", what,
                        INT32_MIN, INT32_MAX, (long long)wide);
    *out = (int32_t)wide;
    return KV_OK;
}

/* ---- All of it ---- */

int eval(session *s, const ast *node, value *out, kv_err *e)
{
    *out = value_none();
    if (stack_runs_low())
        return unit_too_deep(s, node, e);
    switch (node->kind) {
    case AST_INT:
        *out = value_int(node->u.integer);
        return KV_OK;
    case AST_FLOAT:
        *out = value_float(node->u.number);
        return KV_OK;
    case AST_BOOL:
        *out = value_bool(node->u.integer);
        return KV_OK;
    case AST_NONE:
        return KV_OK;
    case AST_TEXT:
        return value_text(out, node->u.text, e);
    case AST_FTEXT:
        return eval_ftext(s, node, out, e);
    case AST_NAME:
        return eval_name(s, node, out, e);
    case AST_LIST:
        return eval_items(s, node, VALUE_LIST, out, e);
    case AST_TUPLE:
        return eval_items(s, node, VALUE_TUPLE, out, e);
    case AST_DICT:
        return eval_dict(s, node, out, e);
    case AST_COMP:
        return eval_comp(s, node, out, e);
    case AST_COPIES:
        return eval_copies(s, node, out, e);
    case AST_CALL:
        return eval_is_inner(s, node) ? eval_tree(s, node, out, e) : eval_call(s, node, out, e);
    case AST_STORE:
        return registry.run_method_call(s, node, out, e);
    case AST_INDEX:
        return eval_index(s, node, out, e);
    case AST_AT:
        return eval_at(s, node, out, e);
    case AST_FILE:
        if (s->guest && s->guest->check(s, node, e))
            return e->code;
        return registry.load(s, node, out, e);
    case AST_UNARY:
    case AST_BINARY:
        return eval_is_logic(node) ? eval_logic(s, node, out, e) : eval_tree(s, node, out, e);
    case AST_RANGE:
        return eval_range(s, node, out, e);
    case AST_TEST:
        return eval_test(s, node, out, e);
    case AST_CHAIN:
        return eval_chain(s, node, out, e);
    case AST_CHOICE:
        return eval_choice(s, node, out, e);
    }
    kv_assert(false, "an expression of kind %d has no value", node->kind);
    return kv_assert_report(e);
}
