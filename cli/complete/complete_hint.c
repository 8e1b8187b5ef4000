/* What is still missing behind the cursor, for the hint in grey: arguments, options, parameters. */
#include "complete/complete.h"

#include <string.h>

#include "complete/offer.h"
#include "syntax/function.h"
#include "syntax/parse_control.h"

/* Adds what follows the n bytes at word, if they are a keyword. */
static void keyword_hint(const char *word, size_t n, buf *out)
{
    const char *known, *rest;
    for (int i = 0; (known = statement_keyword(i, &rest)); i++)
        if (strncmp(word, known, n) == 0 && !known[n])
            buf_add(out, rest);
}

static void add_word(buf *out, const char *fmt, const char *word)
{
    if (out->len > 0)
        buf_char(out, ' ');
    buf_printf(out, fmt, word);
}

/* The arguments from number `from` on, and the options that were not given. */
static void command_hint(const parse_cursor *at, const command *c, int from, buf *out)
{
    int n = 0;
    while (c->args[n].kind != ARG_END)
        n++;
    for (int i = from; i < n; i++)
        add_word(out, c->args[i].optional ? "[%s]" : "%s", c->args[i].name);
    if (c->flags & COMMAND_PARAMS && at->options == 0)
        add_word(out, "%s", "[--PARAM V]...");
    for (int i = 0; c->options[i].name; i++) {
        buf option = {0};
        command_option_usage(&option, &c->options[i]);
        if (!(at->options >> i & 1))
            add_word(out, "%s", buf_text(&option));
        buf_release(&option);
    }
}

static void statement_hint(const complete_request *r, buf *out)
{
    const command *c = command_find(r->typed, strlen(r->typed));
    keyword_hint(r->typed, strlen(r->typed), out);
    if (c)
        command_hint(&r->at, c, 0, out);
}

static void add_parameter(buf *out, const char *name)
{
    buf_printf(out, out->len > 0 ? ", %s" : "%s", name);
}

/* The parameters that a call still lacks: those behind the argument at the cursor. A function that
 * takes a shape may get it as several numbers, so only what has a name is missing behind it. */
static void call_hint(const complete_request *r, buf *out)
{
    const parse_cursor *at = &r->at;
    bool begun = at->expected != EXPECT_OPERAND || *r->typed;
    uint32_t from = at->call_argument + begun;
    const function *f = function_find(at->call);
    for (int64_t i = 0; i < r->s->ndefs && !f; i++) {
        const ast *def = r->s->defs[i].node;
        if (strcmp(r->s->defs[i].name, at->call) == 0)
            for (uint32_t k = from + 1; k < def->n; k++)
                add_parameter(out, def->kid[k]->u.text);
    }
    for (uint32_t i = 0; f && f->params[i]; i++) {
        bool by_name = strchr(f->params[i], '=') != NULL;
        bool shape = (f->flags & FUNCTION_SHAPE) && from > 0 && by_name;
        if (i >= from ? !at->keyword || by_name : shape)
            if (!strstr(r->text + at->open, f->params[i]))
                add_parameter(out, f->params[i]);
    }
    if (out->len > 0)
        buf_char(out, ')');
}

/* Adds the words that are missing behind the cursor. */
static void add_hint(const complete_request *r, buf *out)
{
    const parse_cursor *at = &r->at;
    const char *from = r->text + at->statement;
    size_t n = strcspn(from, " \t");
    if (at->call && !at->quote)
        call_hint(r, out);
    else if (at->in_brackets)
        return;
    else if (at->expected == EXPECT_STATEMENT && *r->typed)
        statement_hint(r, out);
    else if (r->command && at->expected != EXPECT_OPTION && !at->quote)
        command_hint(at, r->command, at->begun, out);
    else if (!r->command && at->expected != EXPECT_STATEMENT && !from[n + strspn(from + n, " \t")])
        keyword_hint(from, n, out); /* the statement has no other word yet */
}

void complete_hint(session *s, const char *text, size_t n, buf *out)
{
    complete_request r;
    buf rest = {0};
    complete_request_init(&r, s, text, n, NULL);
    const parse_cursor *at = &r.at;
    bool other = at->expected == EXPECT_VARIABLE || at->expected == EXPECT_CONTEXT ||
                 at->expected == EXPECT_MEMBER ||
                 (at->expected == EXPECT_FILE && !at->in_option && !complete_at_file(&r));
    if (at->met && !other)
        add_hint(&r, &rest);
    if (rest.len > 0) {
        bool inside = at->call && !at->quote, blank = strchr(" \t\n(", text[n - 1]);
        const char *gap = blank ? "" : inside && *r.typed == '\0' && text[n - 1] == ',' ? " "
                          : inside ? ", " : " ";
        buf_printf(out, "%s%s", gap, buf_text(&rest));
    }
    buf_release(&rest);
    arena_release(&r.nodes);
}
