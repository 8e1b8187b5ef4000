/* The words of a command. */
#include "eval/eval_words.h"

#include <string.h>

#include "eval/eval.h"
#include "session/unit.h"

static int add(words *to, value v, const ast *at, const char *what, session *s, result *out,
               kv_err *e)
{
    if (v.kind != VALUE_TEXT)
        return unit_err(s, at, e, KV_E_DTYPE, "%s is a text, not %s", what, value_kind_name(v));
    if (to->n == to->cap) { /* what was there stays in the arena until the command ends */
        int64_t cap = to->cap ? to->cap * 2 : 8;
        word *more = arena_alloc(&out->names, (size_t)cap * sizeof *more, e);
        if (!more)
            return KV_E_MEMORY;
        if (to->n > 0)
            memcpy(more, to->items, (size_t)to->n * sizeof *more);
        to->items = more;
        to->cap = cap;
    }
    const char *text = arena_text(&out->names, v.u.text, strlen(v.u.text), e);
    if (!text)
        return KV_E_MEMORY;
    to->items[to->n++] = (word){text, at};
    return KV_OK;
}

/* The texts that one node gives. */
static int add_one(session *s, const ast *node, const char *what, result *out, words *to,
                   kv_err *e)
{
    value v;
    int code = eval(s, node, &v, e);
    if (code)
        return code;
    if (value_is_sequence(v)) {
        for (int64_t i = 0; i < v.u.list->n && code == KV_OK; i++)
            code = add(to, v.u.list->items[i], node, what, s, out, e);
    } else {
        code = add(to, v, node, what, s, out, e);
    }
    value_release(&v);
    return code;
}

int eval_words(session *s, const ast *node, const char *what, result *out, words *to, kv_err *e)
{
    int code = KV_OK;
    if (!node || node->kind != AST_LIST)
        return node ? add_one(s, node, what, out, to, e) : KV_OK;
    for (uint32_t i = 0; i < node->n && code == KV_OK; i++)
        code = add_one(s, node->kid[i], what, out, to, e);
    return code;
}

int eval_option_words(session *s, const ast *call, const char *option, const char *what,
                      result *out, words *to, kv_err *e)
{
    uint32_t from = 0;
    const ast *given;
    int code = KV_OK;
    while (code == KV_OK && (given = command_option_next(call, option, &from)))
        code = add_one(s, given, what, out, to, e);
    return code;
}

const char *eval_option_word(session *s, const ast *call, const char *option, const char *what,
                             result *out, kv_err *e)
{
    const ast *given = command_option_of(call, option);
    return given ? eval_word(s, given, what, out, e) : NULL;
}

const ast *eval_words_about(const words *w, const kv_err *e)
{
    for (int64_t i = 0; i < w->n; i++) {
        size_t n = strlen(w->items[i].text);
        if (n > 0 && strncmp(e->text, w->items[i].text, n) == 0 && e->text[n] == ':')
            return w->items[i].at;
    }
    return NULL;
}
