/* The words of a command: KEYS, paths, patterns, the values of options that repeat, and those of
 * parameters of rules. */
#include "eval/eval_keys.h"

#include <fnmatch.h>
#include <string.h>

#include "base/num.h"
#include "base/stop.h"
#include "eval/eval.h"
#include "eval/rule_variables.h"
#include "lang/lex.h"
#include "session/unit.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"

/* ---- Words ---- */

static int add_word(words *to, value v, const ast *at, const char *what, session *s, result *out,
               kv_err *e)
{
    if (v.kind != VALUE_TEXT)
        return unit_err(s, at, e, KV_E_DTYPE, "%s is a text, not %s", what, value_kind_name(v));
    if (arena_grow(&out->names, &to->items, &to->cap, to->n, sizeof *to->items, e))
        return KV_E_MEMORY;
    const char *text = arena_text(&out->names, v.u.text, strlen(v.u.text), e);
    if (!text)
        return KV_E_MEMORY;
    to->items[to->n++] = (word){.text = text, .at = at};
    return KV_OK;
}

/* The texts that one node gives. */
static int add_one(session *s, const ast *node, const char *what, result *out, words *to,
                   kv_err *e)
{
    own_value v = value_none();
    TRY(eval(s, node, &v, e));
    if (!value_is_sequence(v))
        return add_word(to, v, node, what, s, out, e);
    for (int64_t i = 0; i < v.u.list->n; i++)
        TRY(add_word(to, v.u.list->items[i], node, what, s, out, e));
    return KV_OK;
}

int eval_words(session *s, const ast *node, const char *what, result *out, words *to, kv_err *e)
{
    if (!node || node->kind != AST_LIST)
        return node ? add_one(s, node, what, out, to, e) : KV_OK;
    for (uint32_t i = 0; i < node->n; i++)
        TRY(add_one(s, node->kid[i], what, out, to, e));
    return KV_OK;
}

int eval_option_words(session *s, const ast *call, const char *option, const char *what,
                      result *out, words *to, kv_err *e)
{
    uint32_t from = 0;
    for (const ast *given; (given = command_option_next(call, option, &from));)
        TRY(add_one(s, given, what, out, to, e));
    return KV_OK;
}

const char *eval_option_word(session *s, const ast *call, const char *option, const char *what,
                             result *out, kv_err *e)
{
    const ast *given = command_option_of(call, option);
    return given ? eval_word(s, given, what, out, e) : NULL;
}

const ast *eval_words_about(const words *w, const kv_err *e)
{
    for (int64_t i = w->n - 1; i >= 0; i--) {
        size_t n = strlen(w->items[i].text);
        if (n > 0 && strncmp(e->text, w->items[i].text, n) == 0 && e->text[n] == ':')
            return w->items[i].at;
    }
    return NULL;
}

int eval_words_at(const session *s, const words *w, const ast *otherwise, kv_err *e)
{
    const ast *about = eval_words_about(w, e);
    return unit_at(s, about ? about : otherwise, e);
}

/* ---- KEYS ---- */

/* A pattern or range of keys stands for at most this many. */
#define KEYS_MAX 100000000

static int add(key_list *l, kv_key key, kv_err *e)
{
    TRY(mem_grow(&l->keys, &l->cap, l->n + 1, sizeof *l->keys, e));
    l->keys[l->n++] = key;
    return KV_OK;
}

static int add_text(key_list *l, const char *text, size_t n, kv_err *e)
{
    if (n > KV_KEY_MAX)
        return kv_err_set(e, KV_E_KEY, "a text key has at most %d bytes, this one has %zu",
                          KV_KEY_MAX, n);
    char *copy = arena_text(&l->names, text, n, e);
    return copy ? add(l, (kv_key){0, copy}, e) : KV_E_MEMORY;
}

/* Checks that from..to has at most *left numbers, and divides *left by their count. Error:
 * value. */
static int check_count(session *s, const ast *node, int64_t from, int64_t to, int64_t *left,
                       kv_err *e)
{
    if (to >= from && (uint64_t)to - (uint64_t)from >= (uint64_t)*left)
        return unit_err(s, node, e, KV_E_VALUE, "a range of keys has at most %d", KEYS_MAX);
    *left /= to > from ? to - from + 1 : 1;
    return KV_OK;
}

static int add_range(session *s, const ast *node, key_list *l, kv_err *e)
{
    int64_t from = node->kid[0]->u.integer, to = node->kid[1]->u.integer, left = KEYS_MAX;
    TRY(check_count(s, node, from, to, &left, e));
    for (int64_t i = from; from <= to; i++) {
        TRY(stop_check_at(i, e));
        TRY(add(l, (kv_key){i, NULL}, e));
        if (i == to)
            break;
    }
    return KV_OK;
}

/* The numbers of the {a..b} at text; returns what stands behind it. */
static const char *read_numbers(const char *text, int64_t *from, int64_t *to, bool *over)
{
    text++;
    text += num_parse_int(text, strlen(text), from, over) + strlen("..");
    return text + num_parse_int(text, strlen(text), to, over) + 1;
}

/* Appends the pattern at text, word standing before it, with each number for its {a..b}. */
static int expand(key_list *l, buf *so_far, const char *text, kv_err *e)
{
    const char *open = strchr(text, '{');
    size_t keep = so_far->len;
    int64_t from, to;
    bool over = false;
    buf_put(so_far, text, open ? (size_t)(open - text) : strlen(text));
    if (!open) {
        TRY(buf_check(so_far, e));
        TRY(stop_check_at(l->n, e));
        TRY(add_text(l, buf_text(so_far), so_far->len, e));
        so_far->len = keep;
        return KV_OK;
    }
    const char *behind = read_numbers(open, &from, &to, &over);
    size_t before = so_far->len;
    for (int64_t i = from; from <= to; i++) {
        buf_printf(so_far, "%lld", (long long)i);
        TRY(expand(l, so_far, behind, e));
        so_far->len = before;
        if (i == to)
            break;
    }
    so_far->len = keep;
    return KV_OK;
}

/* A word with {a..b}: every combination, the last one's numbers first. */
static int add_pattern(session *s, const ast *node, const char *pattern, key_list *l, kv_err *e)
{
    own_buf so_far = {0};
    int64_t from, to, left = KEYS_MAX;
    for (const char *at = pattern; (at = strchr(at, '{'));) {
        bool over = false;
        at = read_numbers(at, &from, &to, &over);
        TRY(check_count(s, node, over ? 0 : from, over ? INT64_MAX : to, &left, e));
    }
    return expand(l, &so_far, pattern, e);
}

int eval_matching(kv *store, const char *pattern, key_list *l, kv_err *e)
{
    for (int64_t i = 0; i < kv_num_keys(store); i++) {
        kv_info info;
        char number[NUM_TEXT_MAX];
        TRY(kv_info_at(store, i, &info, e));
        num_int(number, info.key.id);
        if (pattern && fnmatch(pattern, info.key.name ? info.key.name : number, 0) != 0)
            continue;
        TRY(info.key.name ? add_text(l, info.key.name, strlen(info.key.name), e)
                          : add(l, info.key, e));
    }
    return KV_OK;
}

static int add_value(session *s, const ast *node, value v, key_list *l, kv_err *e)
{
    TRY(value_descend(e));
    if (v.kind == VALUE_INT)
        return add(l, (kv_key){v.u.integer, NULL}, e);
    if (v.kind == VALUE_TEXT)
        return add_text(l, v.u.text, strlen(v.u.text), e);
    if (value_is_sequence(v)) {
        l->list = true;
        for (int64_t i = 0; i < v.u.list->n; i++)
            TRY(add_value(s, node, v.u.list->items[i], l, e));
        return KV_OK;
    }
    return unit_err(s, node, e, KV_E_DTYPE, "a key is an integer or a text, not %s",
                    value_kind_name(v));
}

/* Refuses the $i of a shell, and the {i} of a text that lacks its f, where a variable has the name:
 * it would be a key of that very name. */
static int check_quoted(session *s, const ast *node, kv_err *e)
{
    own_buf meant = {0};
    bool found = false;
    for (const char *at = node->u.text; *at;) {
        bool dollar = *at == '$', brace = at[dollar] == '{', named = false;
        const char *name = at + dollar + brace, *end = name;
        char copy[64];
        while ((dollar || brace) && lex_is_word_char(*end))
            end++;
        if (end > name && (!brace || *end == '}') && end - name < (int)sizeof copy) {
            snprintf(copy, sizeof copy, "%.*s", (int)(end - name), name);
            named = session_variable(s, copy, false);
        }
        found |= named;
        buf_printf(&meant, named ? "{%s}" : "%.1s", named ? copy : at);
        at = named ? end + brace : at + 1;
    }
    if (found) {
        unit_err(s, node, e, KV_E_KEY, "quotes without an f do not compute a variable");
        kv_err_hint(e, "f\"%s\" computes it; (\"%s\") is the key of this very name",
                    buf_text(&meant), node->u.text);
    }
    return found ? KV_E_KEY : KV_OK;
}

static int add_key(session *s, const ast *node, key_list *l, kv_err *e)
{
    own_value v = value_none();
    kv *store;
    if (node->kind == AST_KEY_RANGE)
        return add_range(s, node, l, e);
    if (node->kind == AST_KEY_VALUE) {
        TRY(eval(s, node->kid[0], &v, e));
        return add_value(s, node, v, l, e) ? unit_at(s, node, e) : KV_OK;
    }
    if (node->op == 0)
        return add(l, (kv_key){node->u.integer, NULL}, e);
    if (node->op == 1) /* lives as long as the unit */
        return check_quoted(s, node, e) ? (int)e->code : add(l, (kv_key){0, node->u.text}, e);
    if (!strpbrk(node->u.text, "*?"))
        return add_pattern(s, node, node->u.text, l, e);
    int64_t before = l->n;
    TRY(session_store(s, &store, e));
    TRY(eval_matching(store, node->u.text, l, e));
    return l->n > before ? KV_OK
                         : unit_err(s, node, e, KV_E_KEY, "no key matches `%s`", node->u.text);
}

int eval_keys(session *s, const ast *node, key_list *out, kv_err *e)
{
    *out = (key_list){.list = !(node->flags & AST_SINGLE)};
    for (uint32_t i = 0; i < node->n; i++)
        if (add_key(s, node->kid[i], out, e)) {
            key_list_release(out);
            return unit_at(s, node, e);
        }
    return KV_OK;
}

void key_list_release(key_list *l)
{
    mem_free(l->keys);
    arena_release(&l->names);
    *l = (key_list){0};
}

/* ---- Parameters of rules ---- */

const ast *rule_options_next(const ast *call, uint32_t *i)
{
    const command *c = call->u.other;
    while (++*i < call->n) {
        const ast *option = call->kid[*i];
        if (option && option->kind == STMT_OPTION &&
            !command_option_find(c, option->u.text, strlen(option->u.text)))
            return option;
    }
    return NULL;
}

int rule_options_read(session *s, const ast *call, bool (*takes_text)(void *arg, const char *param),
                      void *arg, rule_params *p, kv_err *e)
{
    const ast *option;
    int rc = KV_OK;
    p->n = 0;
    for (uint32_t i = 0; rc == KV_OK && (option = rule_options_next(call, &i));) {
        value v, text;
        const ast *expr = option->n > 0 ? option->kid[0] : NULL;
        const ast *bare = option->n > 1 ? option->kid[1] : NULL;
        /* a word is one where the parameter is a text, or no variable has its name, so that the
         * rule says what it takes */
        if (bare && ((expr->kind == AST_NAME && !session_find(s, expr->u.text)) ||
                     takes_text(arg, option->u.text)))
            expr = bare;
        if ((rc = expr ? eval(s, expr, &v, e) : value_text(&v, "true", e)))
            break;
        if ((rc = optimizer_param_text(&text, v, e)))
            unit_at(s, option->n > 0 ? option->kid[0] : option, e);
        else if ((rc = rule_params_add(p, optimizer_own_name(option->u.text), text, e)))
            unit_at(s, option, e);
        value_release(&v);
    }
    if (rc)
        rule_params_release(p);
    return rc;
}

int rule_options_explain(session *s, const ast *call, kv_err *e)
{
    const ast *option = NULL;
    uint32_t at = 0;
    for (int i = 0; i < e->option; i++)
        option = rule_options_next(call, &at);
    if (!option)
        return e->code;
    if (option->n == 0) { /* nobody wrote the "true" that the error is about */
        *e = (kv_err){0};
        return unit_err(s, option, e, KV_E_USAGE, "--%s needs a value", option->u.text);
    }
    const ast *expr = option->kid[0];
    if (option->n > 1 && expr->kind == AST_NAME && !session_find(s, expr->u.text))
        kv_err_hint(e, "there is no variable `%s`", expr->u.text);
    return unit_at(s, expr, e);
}
