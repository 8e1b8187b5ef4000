/* Keys and paths: words that the parser reads straight from the text. */
#include <string.h>

#include "base/num.h"
#include "lang/parse.h"

static ast *key(parser *p);

static bool is_key_char(char c)
{
    return lex_is_letter(c) || lex_is_digit(c) || (c && strchr("./:-*?", c));
}

/* Whether a word of KEYS may end before c. */
static bool ends_key(char c)
{
    return c == '\0' || lex_is_blank(c) || strchr("\n;,])}#>|", c) != NULL;
}

/* The end of {a..b} at pos, or pos when it is none. */
static uint32_t braces_end(const parser *p, uint32_t pos)
{
    uint32_t at = pos + 1;
    for (int i = 0; i < 2; i++) {
        uint32_t from = at + (parse_char(p, at) == '-');
        for (at = from; lex_is_digit(parse_char(p, at)); at++)
            ;
        if (at == from)
            return pos;
        if (i == 0 && (parse_char(p, at) != '.' || parse_char(p, at + 1) != '.'))
            return pos;
        at += i == 0 ? 2 : 0;
    }
    return parse_char(p, at) == '}' ? at + 1 : pos;
}

static uint32_t rest_of_word(const parser *p, uint32_t at)
{
    while (!ends_key(parse_char(p, at)))
        at++;
    return at;
}

static ast *key_word(parser *p, uint32_t pos)
{
    uint32_t end = pos;
    bool pattern = false;
    for (;;) {
        char c = parse_char(p, end);
        uint32_t past = c == '{' ? braces_end(p, end) : end;
        if (past == end && !is_key_char(c))
            break;
        pattern |= past > end || c == '*' || c == '?';
        end = past > end ? past : end + 1;
    }
    if (parse_char(p, end - 1) == '>' || parse_char(p, end - 1) == '-')
        return parse_fail(p, pos, end, KV_E_SYNTAX, "a bare key does not end in `-`");
    if (!ends_key(parse_char(p, end))) {
        uint32_t stop = rest_of_word(p, end);
        parse_fail(p, pos, stop, KV_E_SYNTAX, "`%.*s` is not a key", (int)(stop - pos > 60 ? 60 : stop - pos),
                   p->lx.src->text + pos);
        kv_err_hint(p->e, "quote a text key: \"…\"; compute one in brackets: (…); blanks separate "
                          "arguments");
        return NULL;
    }
    if (end - pos > KV_KEY_MAX)
        return parse_fail(p, pos, end, KV_E_SYNTAX, "a key has at most %d bytes", KV_KEY_MAX);
    ast *node = parse_node(p, AST_KEY, pos, end, 0);
    if (!node || !(node->u.text = parse_intern(p, p->lx.src->text + pos, end - pos)))
        return NULL;
    node->op = pattern ? 2 : 1;
    parse_seek(p, end);
    return node;
}

/* An integer at pos; *end is past it. NULL and an error when it does not fit. */
static ast *key_int(parser *p, uint32_t pos, uint32_t *end)
{
    bool over = false;
    int64_t value = 0;
    *end = pos + (uint32_t)num_parse_int(p->lx.src->text + pos, p->lx.limit - pos, &value, &over);
    if (over)
        return parse_fail(p, pos, *end, KV_E_VALUE, "an integer key has 64 bits, this one needs more");
    ast *node = parse_node(p, AST_KEY, pos, *end, 0);
    if (node)
        node->u.integer = value;
    return node;
}

static ast *key_number(parser *p, uint32_t pos)
{
    uint32_t end;
    ast *pair[2] = {key_int(p, pos, &end), NULL};
    if (!pair[0])
        return NULL;
    char c = parse_char(p, end), next = parse_char(p, end + 1);
    if (c == '.' && next == '.' &&
        (lex_is_digit(parse_char(p, end + 2)) || parse_char(p, end + 2) == '-')) {
        if (!(pair[1] = key_int(p, end + 2, &end)))
            return NULL;
        parse_seek(p, end);
        pair[0] = parse_node_of(p, AST_KEY_RANGE, pos, pair, 2);
        c = parse_char(p, end);
    }
    parse_seek(p, end);
    if (ends_key(c))
        return pair[0];
    uint32_t stop = rest_of_word(p, end), n = stop - pos;
    const char *text = p->lx.src->text + pos;
    parse_fail(p, pos, stop, KV_E_SYNTAX, "`%.*s` is not a number", n > 60 ? 60 : (int)n, text);
    kv_err_hint(p->e, "\"%.*s\" for a text key, (%.*s) to compute one", n > 60 ? 60 : (int)n, text,
                n > 60 ? 60 : (int)n, text);
    return NULL;
}

static ast *key_value(parser *p, uint32_t pos)
{
    bool arguments = p->arguments;
    p->arguments = true; /* `$keys [a]` is two arguments, `$keys[0]` is one */
    ast *value = parse_primary(p);
    p->arguments = arguments;
    return value ? parse_node_of(p, AST_KEY_VALUE, pos, &value, 1) : NULL;
}

static ast *key_quoted(parser *p, uint32_t pos)
{
    ast *text = parse_primary(p);
    if (!text || text->kind != AST_TEXT)
        return text ? parse_node_of(p, AST_KEY_VALUE, pos, &text, 1) : NULL;
    ast *node = parse_node_of(p, AST_KEY, pos, NULL, 0);
    if (node) {
        node->op = 1;
        node->u.text = text->u.text;
    }
    return node;
}

/* [key, key, …] */
static bool key_list(parser *p, ast_list *keys)
{
    token open = parse_take(p);
    p->lx.nest++;
    while (!parse_is_sign(p, SIGN1(']'))) {
        if (parse_peek(p)->kind == TOK_END) {
            p->lx.incomplete = true;
            return parse_fail(p, open.pos, open.end, KV_E_SYNTAX,
                              "the `[` that opens here is not closed");
        }
        if (!parse_append(p, keys, key(p)))
            return false;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    if (!parse_is_sign(p, SIGN1(']'))) {
        if (parse_peek(p)->kind == TOK_END) {
            p->lx.incomplete = true;
            return parse_fail(p, open.pos, open.end, KV_E_SYNTAX,
                              "the `[` that opens here is not closed");
        }
        return parse_unexpected(p, "`]`");
    }
    p->lx.nest--;
    parse_take(p);
    return true;
}

static ast *key(parser *p)
{
    uint32_t pos = parse_here(p);
    char c = parse_char(p, pos), next = parse_char(p, pos + 1);
    if (lex_is_digit(c) || (c == '-' && lex_is_digit(next)))
        return key_number(p, pos);
    if (c == '"' || c == '\'' || (c == 'f' && (next == '"' || next == '\'')))
        return key_quoted(p, pos);
    if (c == '$' || c == '(')
        return key_value(p, pos);
    if (lex_is_letter(c) || c == '*' || (c == '?' && pos < p->lx.limit))
        return key_word(p, pos);
    return parse_unexpected(p, "a key");
}

ast *parse_keys(parser *p)
{
    uint32_t pos = parse_here(p);
    ast_list keys = {0};
    ast *node = NULL;
    bool single = false;
    if (parse_char(p, pos) == '[') {
        if (!key_list(p, &keys))
            goto out;
    } else {
        do {
            if (!parse_append(p, &keys, key(p)))
                goto out;
            uint32_t here = p->have ? p->tok.pos : p->lx.pos;
            if (parse_char(p, here) != ',' || (p->have && p->tok.blank_before))
                break;
            parse_seek(p, here + 1);
        } while (true);
        const ast *first = keys.items[0];
        single = keys.n == 1 && (first->kind == AST_KEY_VALUE || (first->kind == AST_KEY && first->op < 2));
    }
    node = parse_node_of(p, AST_KEYS, pos, keys.items, keys.n);
    if (node && single)
        node->flags |= AST_SINGLE;
out:
    mem_free(keys.items);
    return node;
}

static bool is_path_char(char c)
{
    return c && (lex_is_letter(c) || lex_is_digit(c) || strchr("./~+{}-", c));
}

ast *parse_path(parser *p)
{
    uint32_t pos = parse_here(p), end = pos;
    char c = parse_char(p, pos);
    if (c == '"' || c == '\'' || c == '$' || c == '(' ||
        (c == 'f' && (parse_char(p, pos + 1) == '"' || parse_char(p, pos + 1) == '\''))) {
        bool arguments = p->arguments;
        p->arguments = true;
        ast *value = parse_primary(p);
        p->arguments = arguments;
        return value;
    }
    for (int open = 0; is_path_char(parse_char(p, end)); end++) {
        open += (parse_char(p, end) == '{') - (parse_char(p, end) == '}');
        if (open < 0) /* the brace that ends the block around */
            break;
    }
    if (end == pos)
        return parse_unexpected(p, "a file name");
    ast *node = parse_node(p, AST_TEXT, pos, end, 0);
    if (!node || !(node->u.text = parse_intern(p, p->lx.src->text + pos, end - pos)))
        return NULL;
    node->op = 1;
    parse_seek(p, end);
    return node;
}
