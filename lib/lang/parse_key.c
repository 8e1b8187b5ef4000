/* Keys and paths: words that the parser reads straight from the text. */
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"
#include "lang/parse.h"

static ast *key(parser *p);

static bool is_arrow(const parser *p, uint32_t pos)
{
    return parse_char(p, pos) == '-' && parse_char(p, pos + 1) == '>';
}

/* Returns true if a word of KEYS may end at pos. */
static bool ends_key(const parser *p, uint32_t pos)
{
    char c = parse_char(p, pos);
    return c == '\0' || lex_is_blank(c) || strchr("\n;,])}>|", c) || is_arrow(p, pos);
}

bool parse_at_operand(const parser *p, uint32_t pos)
{
    lex_quote quote;
    char c = parse_char(p, pos);
    return c == '$' || c == '(' || lex_quote_at(&p->lx, pos, &quote);
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

/* The end of the word at pos, when it holds what no key may hold: its own brackets included. */
static uint32_t rest_of_word(const parser *p, uint32_t pos)
{
    for (int open = 0; !ends_key(p, pos) || open > 0; pos++) {
        char c = parse_char(p, pos);
        if (c == '\0' || lex_is_blank(c) || c == '\n')
            break;
        open += c == '(' || c == '[' || c == '{';
        open -= open > 0 && (c == ')' || c == ']' || c == '}');
    }
    return pos;
}

/* A bare or quoted key; text has n bytes. */
static ast *key_text(parser *p, uint32_t pos, uint32_t end, const char *text, size_t n)
{
    bool ok = true;
    for (size_t at = 0; at < n && ok;)
        at += utf8_length(text + at, n - at, &ok);
    if (!ok)
        return parse_fail(p, pos, end, KV_E_SYNTAX, "a key is UTF-8, this one is not");
    if (n > KV_KEY_MAX)
        return parse_fail(p, pos, end, KV_E_SYNTAX, "a key has at most %d bytes", KV_KEY_MAX);
    ast *node = parse_node(p, AST_KEY, pos, end, 0);
    if (!node || !(node->u.text = parse_intern(p, text, n)))
        return NULL;
    node->op = 1;
    return node;
}

/* The end of the letters of a bare key at pos; *pattern is set when it has * ? or {a..b}. */
static uint32_t bare_end(const parser *p, uint32_t pos, bool *pattern)
{
    for (;;) {
        char c = parse_char(p, pos);
        uint32_t past = c == '{' ? braces_end(p, pos) : pos;
        bool letter = lex_is_word_char(c) || (c && strchr("./:-*?", c) && !is_arrow(p, pos));
        if (past == pos && !letter)
            return pos;
        *pattern |= past > pos || c == '*' || c == '?';
        pos = past > pos ? past : pos + 1;
    }
}

static ast *key_word(parser *p, uint32_t pos)
{
    bool pattern = false;
    uint32_t end = bare_end(p, pos, &pattern);
    if (!ends_key(p, end)) {
        uint32_t stop = rest_of_word(p, end);
        parse_fail(p, pos, stop, KV_E_SYNTAX, "`%.*s` is not a key", parse_shown(p, pos, stop),
                   p->lx.src->text + pos);
        char c = parse_char(p, end);
        bool filled = c == '$' || (c == '{' && lex_is_letter(parse_char(p, end + 1)));
        if (filled && c == '{')
            kv_err_hint(p->e, "f\"%.*s\" is a key with a value in it", parse_shown(p, pos, stop),
                        p->lx.src->text + pos);
        kv_err_hint(p->e, filled ? "f\"layer{i}\" is a key with the value of i in it"
                                 : "quote a text key: \"…\"; compute one in brackets: (…); blanks "
                                   "separate arguments");
        return NULL;
    }
    if (parse_char(p, end - 1) == '-')
        return parse_fail(p, pos, end, KV_E_SYNTAX, "a bare key does not end in `-`");
    ast *node = key_text(p, pos, end, p->lx.src->text + pos, end - pos);
    if (node && pattern)
        node->op = 2;
    parse_seek(p, end);
    return node;
}

bool parse_is_digit_key(const char *text, size_t n)
{
    double unused;
    size_t digits = strspn(text, "0123456789");
    bool letters = false;
    for (size_t i = 1; i < n; i++)
        letters |= (lex_is_letter(text[i]) && text[i] != '_') ||
                   (text[i - 1] == '.' && strchr("*?", text[i]));
    return digits > 0 && letters && memchr(text, '.', n) && strncmp(text + digits, "..", 2) != 0 &&
           num_parse(text, n, NUM_BINARY64, &unused, NULL) < n;
}

/* Returns true if the word at pos begins with a digit and is a text key: 0.bias. */
static bool is_digit_key(const parser *p, uint32_t pos)
{
    bool pattern = false;
    uint32_t end = bare_end(p, pos, &pattern);
    return ends_key(p, end) && parse_is_digit_key(p->lx.src->text + pos, end - pos);
}

/* An integer at pos; *end is past it. NULL and an error when it does not fit. */
static ast *key_int(parser *p, uint32_t pos, uint32_t *end)
{
    bool over = false;
    int64_t value = 0;
    *end = pos + (uint32_t)num_parse_int(p->lx.src->text + pos, p->lx.limit - pos, &value, &over);
    const char *text = p->lx.src->text + pos;
    if (parse_has_zeros(p, pos, *end)) {
        int n = parse_shown(p, pos, *end);
        parse_fail(p, pos, *end, KV_E_SYNTAX, "`%.*s` is not a key", n, text);
        kv_err_hint(p->e, "\"%.*s\" for a text key; a whole number begins with no 0", n, text);
        return NULL;
    }
    if (over)
        return parse_fail(p, pos, *end, KV_E_VALUE,
                          "an integer key has 64 bits, this one needs more");
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
    bool range = parse_char(p, end) == '.' && parse_char(p, end + 1) == '.' &&
                 (lex_is_digit(parse_char(p, end + 2)) ||
                  (parse_char(p, end + 2) == '-' && lex_is_digit(parse_char(p, end + 3))));
    if (range && !(pair[1] = key_int(p, end + 2, &end)))
        return NULL;
    parse_seek(p, end);
    if (ends_key(p, end))
        return range ? parse_node_of(p, AST_KEY_RANGE, pos, pair, 2) : pair[0];
    uint32_t stop = rest_of_word(p, end);
    const char *text = p->lx.src->text + pos;
    int n = parse_shown(p, pos, stop);
    parse_fail(p, pos, stop, KV_E_SYNTAX, "`%.*s` is not a key", n, text);
    kv_err_hint(p->e, "\"%.*s\" for a text key, (%.*s) to compute one", n, text, n, text);
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

/* [key, key, …] */
static bool key_list(parser *p, ast_list *keys)
{
    bracket b;
    if (!parse_open(p, &b))
        return false;
    do {
        if (keys->n > 0 && parse_is_sign(p, SIGN1(']')))
            break;
        if (!parse_append(p, keys, key(p)))
            return false;
    } while (parse_accept(p, SIGN1(',')));
    return parse_close(p, &b);
}

static ast *key(parser *p)
{
    uint32_t pos = parse_here(p);
    lex_quote quote;
    char c = parse_char(p, pos), next = parse_char(p, pos + 1);
    if (p->cursor && parse_met(p, EXPECT_KEY, parse_at_operand(p, pos) ? 0 : rest_of_word(p, pos)))
        return NULL;
    bool digit = lex_is_digit(c), named = digit && is_digit_key(p, pos);
    if ((digit && !named) || (c == '-' && lex_is_digit(next)))
        return key_number(p, pos);
    if (lex_quote_at(&p->lx, pos, &quote)) {
        ast *text = parse_operand(p);
        if (!text || text->kind != AST_TEXT)
            return text ? parse_node_of(p, AST_KEY_VALUE, pos, &text, 1) : NULL;
        return key_text(p, pos, text->end, text->u.text, strlen(text->u.text));
    }
    if (c == '$' || c == '(')
        return key_value(p, pos);
    if (named || lex_is_letter(c) || c == '*' || c == '?')
        return key_word(p, pos);
    return parse_unexpected(p, "a key");
}

/* Returns true at [expr for x in list], whose keys are computed: a `for` stands behind a value in
 * these brackets. */
static bool at_comprehension(parser *p)
{
    parser before = *p;
    int depth = 0;
    bool value = false, found = false;
    do {
        const token *t = parse_peek(p);
        if (t->kind == TOK_END || t->kind == TOK_BAD)
            break;
        found = depth == 1 && value && parse_is_word(p, "for");
        value = t->kind != TOK_SIGN || strchr(")]}", (char)t->sign);
        depth += parse_is_sign(p, SIGN1('[')) || parse_is_sign(p, SIGN1('(')) ||
                 parse_is_sign(p, SIGN1('{'));
        depth -= t->kind == TOK_SIGN && value;
        parse_take(p);
    } while (depth > 0 && !found);
    parse_back(p, &before);
    return found;
}

/* key,key without blanks */
static bool bare_keys(parser *p, ast_list *keys)
{
    while (parse_append(p, keys, key(p))) {
        uint32_t comma = p->last;
        if (parse_char(p, comma) != ',')
            return true;
        parse_seek(p, comma + 1);
        if (lex_is_blank(parse_char(p, comma + 1))) {
            parse_fail(p, comma, comma + 1, KV_E_SYNTAX,
                       "no blank may follow the comma between keys");
            kv_err_hint(p->e, "several keys: a,b or [a, b]; a blank alone parts keys from a value");
            return false;
        }
    }
    return false;
}

ast *parse_keys(parser *p)
{
    uint32_t pos = parse_here(p);
    ast_list keys = {0};
    ast *node = NULL;
    bool listed = parse_char(p, pos) == '[', computed = listed && !p->cursor && at_comprehension(p);
    if (computed ? parse_append(p, &keys, key_value(p, pos))
                 : listed ? key_list(p, &keys) : bare_keys(p, &keys))
        node = parse_node_of(p, AST_KEYS, pos, keys.items, keys.n);
    if (node && !listed && node->n == 1) {
        const ast *only = node->kid[0];
        if (only->kind == AST_KEY_VALUE || (only->kind == AST_KEY && only->op < 2))
            node->flags |= AST_SINGLE;
    }
    return node;
}

static bool is_path_char(char c)
{
    return c && (lex_is_word_char(c) || strchr("./~+{}-", c));
}

/* The end of the bare path at pos. */
static uint32_t path_end(const parser *p, uint32_t pos)
{
    for (int open = 0; is_path_char(parse_char(p, pos)); pos++) {
        open += (parse_char(p, pos) == '{') - (parse_char(p, pos) == '}');
        if (open < 0) /* the brace that ends the block around */
            break;
    }
    return pos;
}

bool parse_at_file(parser *p)
{
    const token *t = parse_peek(p);
    if (t->kind != TOK_SIGN || t->sign != SIGN1('>'))
        return false;
    uint32_t pos = parse_past_blanks(p, t->end), end = path_end(p, pos);
    if (parse_at_operand(p, pos))
        return true;
    if (p->lx.cursor && end == p->lx.src->len)
        return true; /* it may still become one */
    uint32_t behind = parse_past_blanks(p, end);
    if (end == pos + 1 && parse_char(p, pos) == '-') /* `x > - 1` compares */
        return !parse_char(p, behind) || strchr("\n;}|#", parse_char(p, behind));
    const char *path = end > pos ? parse_intern(p, p->lx.src->text + pos, end - pos) : NULL;
    return path && p->is_file && p->is_file(path);
}

ast *parse_path(parser *p)
{
    uint32_t pos = parse_here(p), end = path_end(p, pos);
    if (parse_expects(p, EXPECT_FILE, end))
        return NULL;
    if (parse_at_operand(p, pos))
        return parse_operand(p);
    if (end == pos)
        return parse_unexpected(p, "a file name");
    ast *node = parse_node(p, AST_TEXT, pos, end, 0);
    if (!node || !(node->u.text = parse_intern(p, p->lx.src->text + pos, end - pos)))
        return NULL;
    node->op = 1;
    parse_seek(p, end);
    return node;
}
