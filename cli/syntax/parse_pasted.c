/* A class is read for its name alone: what a type does is written in C, so its body is `pass`. */
#include "syntax/parse_pasted.h"

#include <string.h>

#include "base/buf.h"
#include "syntax/bind.h"

static const char decorator[] = "KVStoreBase.register";

/* The end of the dotted name at pos. */
static uint32_t dotted_end(const parser *p, uint32_t pos)
{
    while (lex_is_word_char(parse_char(p, pos)) || parse_char(p, pos) == '.')
        pos++;
    return pos;
}

bool parse_at_class(parser *p)
{
    uint32_t pos = parse_peek(p)->pos + 1, end = dotted_end(p, pos), n = sizeof decorator - 1;
    return end - pos >= n && memcmp(p->lx.src->text + end - n, decorator, n) == 0;
}

/* A statement of the body: pass, or a text that says what the class is. */
static bool body_line(parser *p, ast_list *list)
{
    token t = *parse_peek(p);
    (void)list;
    if (parse_accept_word(p, "pass"))
        return true;
    if (t.kind == TOK_STRING)
        return parse_operand(p) != NULL;
    parse_fail(p, t.pos, t.end, KV_E_USAGE,
               "the class of a store type has no body but `pass` here");
    kv_err_hint(p->e, "a type with functions of its own is a table in C, kv_type_ops, as in "
                      "examples/average.c; register NAME --plugin FILE.so brings it");
    return false;
}

/* (mx.kvstore.KVStoreBase), whose `(` is next. */
static bool base_class(parser *p)
{
    bracket b;
    token t = {0};
    if (!parse_is_sign(p, SIGN1('(')))
        return parse_unexpected(p, "the base class `(KVStoreBase)`");
    if (!parse_open(p, &b))
        return false;
    while (parse_peek(p)->kind == TOK_NAME) {
        t = parse_take(p);
        parse_accept(p, SIGN1('.'));
    }
    const char *name = t.end ? parse_token_text(p, &t) : "";
    if (!name || !parse_close(p, &b))
        return false;
    if (strncmp(name, "KVStore", 7) == 0)
        return true;
    parse_fail(p, b.pos, p->last, KV_E_USAGE, "a store type has the base class KVStoreBase");
    kv_err_hint(p->e, "register NAME --base TYPE gives another type a second name");
    return false;
}

ast *parse_class(parser *p)
{
    uint32_t pos = parse_take(p).pos;
    parse_seek(p, dotted_end(p, pos + 1));
    parse_skip_newlines(p);
    token t = *parse_peek(p);
    p->lx.incomplete = p->lx.incomplete || t.kind == TOK_END; /* the class is the next line */
    if (!parse_is_word(p, "class"))
        return parse_unexpected(p, "the `class` that is registered");
    parse_take(p);
    token name = *parse_peek(p);
    binding b;
    bind_begin(&b, command_find("register", strlen("register")));
    if (name.kind != TOK_NAME)
        return parse_unexpected(p, "the name of a store type");
    parse_take(p);
    b.parts[0] = parse_node(p, AST_TEXT, name.pos, name.end, 0);
    if (!b.parts[0] || !(b.parts[0]->u.text = parse_token_text(p, &name)) || !base_class(p))
        return NULL;
    if (!parse_is_sign(p, SIGN1(':')))
        return parse_unexpected(p, "`:`");
    return parse_indented(p, t.pos, body_line) ? bind_node(&b, p, pos) : NULL;
}

/* ---- Perl ---- */

static bool starts(const char *text, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - text) >= n && memcmp(text, word, n) == 0;
}

/* Returns true if the line holds what only Perl has: `my $x`, `$x = `, `$x->f(`, `mx->nd`, `=>`. */
static bool is_perl(const char *line, const char *end)
{
    if (starts(line, end, "my ") || starts(line, end, "use AI::"))
        return true;
    for (const char *at = line; at < end; at++) {
        bool arrow = starts(at, end, "->") && at > line && at[-1] != ' ' && end - at > 2;
        if (starts(at, end, "=>") || (arrow && (lex_is_letter(at[2]) || strchr("[{", at[2]))))
            return true;
    }
    while (line < end && (*line == '$' || lex_is_word_char(*line)))
        line++;
    line += line < end && *line == ' ';
    return starts(line, end, "=") && !starts(line, end, "==");
}

/* The line with the signs of Python in the place of Perl's. */
static void put_python(buf *out, const char *at, const char *end)
{
    at += starts(at, end, "my ") ? 3 : 0;
    while (end > at && (end[-1] == ';' || end[-1] == ' '))
        end--;
    while (at < end) {
        if (starts(at, end, "->aspdl")) {
            buf_add(out, ".asnumpy()");
            at += starts(at, end, "->aspdl()") ? 9 : 7;
        } else if (starts(at, end, "->")) {
            at += 2;
            if (at < end && *at != '[')
                buf_char(out, '.');
        } else if (starts(at, end, "=>")) {
            buf_char(out, '=');
            at += 2;
        } else if (*at == '$') {
            at++;
        } else {
            buf_char(out, *at++);
        }
    }
}

void parse_hint_perl(parser *p, uint32_t pos)
{
    const char *line = p->lx.src->text + pos, *end = line;
    while (end < p->lx.src->text + p->lx.limit && *end != '\n')
        end++;
    bool sigil = memchr(line, '$', (size_t)(end - line)) || starts(line, end, "use AI::");
    if (!sigil || !is_perl(line, end))
        return;
    buf text = {0};
    put_python(&text, line, end);
    bool plain = !strstr(buf_text(&text), "map {") && !strstr(buf_text(&text), "sub {") &&
                 !starts(line, end, "use ") && !strchr(buf_text(&text), '@');
    p->e->hint[0] = '\0';
    if (plain && text.len < 100)
        kv_err_hint(p->e, "this is Perl; here: %s", buf_text(&text));
    else
        kv_err_hint(p->e, "this is Perl; here `$x->f(a => 1)` is x.f(a=1), `my $x = [2,3]` is "
                          "x = [2,3], `map { … } 0..3` is [… for i in 0..3]");
    buf_release(&text);
}
