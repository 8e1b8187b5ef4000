/* Expressions: one function a level of precedence, from `or` down to primaries.
 *
 * The two modes differ in three places only: where a sum may go on behind a `-` or `+`, where a
 * postfix may follow, and where < and > compare.
 */
#include <string.h>

#include "base/buf.h"
#include "lang/parse.h"

static ast *expression(parser *p);
static ast *unary(parser *p);
static ast *postfix(parser *p);

/* What an opening bracket changes, to be given back to it at the end. */
typedef struct bracket {
    token open;
    bool arguments, angles_redirect;
} bracket;

static bracket bracket_open(parser *p)
{
    bracket b = {parse_take(p), p->arguments, p->angles_redirect};
    p->lx.nest++;
    p->arguments = p->angles_redirect = false;
    return b;
}

/* Takes the closing sign. An error that comes from the end of the text is reported where the bracket
 * opens. */
static bool bracket_close(parser *p, bracket b, char close)
{
    const token *t = parse_peek(p);
    if (t->kind == TOK_END) {
        p->lx.incomplete = true;
        parse_fail(p, b.open.pos, b.open.end, KV_E_SYNTAX, "the `%c` that opens here is not closed",
                   (char)b.open.sign);
        return false;
    }
    if (t->kind != TOK_SIGN || t->sign != SIGN1(close)) {
        char wanted[8] = {'`', close, '`'};
        parse_unexpected(p, wanted);
        return false;
    }
    p->lx.nest--;
    parse_take(p);
    p->arguments = b.arguments;
    p->angles_redirect = b.angles_redirect;
    return true;
}

static bool at_bracket_end(parser *p, char close)
{
    return parse_is_sign(p, SIGN1(close)) || parse_peek(p)->kind == TOK_END;
}

static ast *binary(parser *p, ast_op op, ast *left, ast *right)
{
    if (!left || !right)
        return NULL;
    ast *node = parse_node(p, AST_BINARY, left->pos, right->end, 2);
    if (node) {
        node->op = (uint8_t)op;
        node->kid[0] = left;
        node->kid[1] = right;
    }
    return node;
}

/* ---- Texts ---- */

/* Appends the character that the escape at pos (a backslash) stands for and returns its end, 0 on an
 * error. */
static uint32_t escape(parser *p, buf *out, uint32_t pos, uint32_t limit)
{
    char c = parse_char(p, pos + 1);
    static const char plain[] = "n\nt\tr\r\"\"\\\\''";
    const char *found = c ? strchr(plain, c) : NULL;
    if (found && (found - plain) % 2 == 0) {
        buf_char(out, found[1]);
        return pos + 2;
    }
    bool braces = c == 'u' && parse_char(p, pos + 2) == '{';
    uint32_t value = 0, digits = 0, at = pos + (braces ? 3 : 2);
    uint32_t most = braces ? 6 : 2;
    for (; (c == 'x' || braces) && digits < most && at < limit; at++, digits++) {
        const char *hex = "0123456789abcdef";
        char digit = parse_char(p, at);
        const char *where = digit ? strchr(hex, digit >= 'A' && digit <= 'F' ? digit + 32 : digit) : NULL;
        if (!where)
            break;
        value = value * 16 + (uint32_t)(where - hex);
    }
    bool whole = braces ? digits > 0 && parse_char(p, at) == '}' : digits == 2;
    if (!whole || value == 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
        parse_fail(p, pos, at + 1, KV_E_SYNTAX,
                   "unknown escape in a text; known are \\n \\t \\r \\\" \\\\ \\xNN \\u{…}");
        return 0;
    }
    if (value < 0x80) {
        buf_char(out, (char)value);
    } else if (value < 0x800) {
        buf_char(out, (char)(0xc0 | value >> 6));
    } else if (value < 0x10000) {
        buf_char(out, (char)(0xe0 | value >> 12));
        buf_char(out, (char)(0x80 | (value >> 6 & 0x3f)));
    } else {
        buf_char(out, (char)(0xf0 | value >> 18));
        buf_char(out, (char)(0x80 | (value >> 12 & 0x3f)));
        buf_char(out, (char)(0x80 | (value >> 6 & 0x3f)));
    }
    if (value >= 0x80)
        buf_char(out, (char)(0x80 | (value & 0x3f)));
    return at + braces;
}

static ast *text_node(parser *p, const char *text, size_t n, uint32_t pos, uint32_t end)
{
    ast *node = parse_node(p, AST_TEXT, pos, end, 0);
    if (node && !(node->u.text = parse_intern(p, text, n)))
        return NULL;
    return node;
}

/* The text between pos and end, escapes replaced when it stood in double quotes. */
static ast *text_piece(parser *p, uint32_t pos, uint32_t end, bool escapes, bool doubled_braces)
{
    buf out = {0};
    ast *node = NULL;
    uint32_t at = pos;
    while (at < end) {
        char c = parse_char(p, at);
        if (escapes && c == '\\') {
            at = escape(p, &out, at, end);
            if (at == 0)
                goto out;
        } else {
            buf_char(&out, c);
            at += doubled_braces && (c == '{' || c == '}') ? 2 : 1;
        }
    }
    if (buf_check(&out, p->e) == KV_OK)
        node = text_node(p, buf_text(&out), out.len, pos, end);
out:
    buf_release(&out);
    return node;
}

/* {expr} or {expr:spec} at pos, a `{`. *end is set past its `}`. */
static ast *field(parser *p, uint32_t pos, uint32_t limit, uint32_t *end)
{
    parser inner = *p;
    inner.lx.limit = limit;
    inner.lx.nest = 1;
    inner.arguments = inner.angles_redirect = false;
    parse_seek(&inner, pos + 1);
    ast *value = expression(&inner);
    const char *spec = NULL;
    if (value && parse_is_sign(&inner, SIGN1(':'))) {
        uint32_t from = parse_peek(&inner)->end, to = from;
        while (to < limit && parse_char(p, to) != '}')
            to++;
        if (!(spec = parse_intern(&inner, p->lx.src->text + from, to - from)))
            value = NULL;
        parse_seek(&inner, to);
    }
    if (value && !parse_is_sign(&inner, SIGN1('}')))
        value = parse_is_sign(&inner, SIGN1(':')) || parse_peek(&inner)->kind != TOK_END
                    ? parse_unexpected(&inner, "`}`")
                    : parse_fail(&inner, pos, pos + 1, KV_E_SYNTAX,
                                 "the `{` that opens here is not closed");
    *end = parse_peek(&inner)->end;
    /* what was interned meanwhile stays */
    p->interned = inner.interned;
    p->texts = inner.texts;
    p->ntexts = inner.ntexts;
    p->texts_cap = inner.texts_cap;
    ast *node = value ? parse_node(p, AST_FIELD, pos, *end, 1) : NULL;
    if (node) {
        node->kid[0] = value;
        node->u.text = spec;
    }
    return node;
}

static ast *formatted_text(parser *p, token t)
{
    uint32_t limit = t.end - 1, at = t.pos + 2, from = at;
    bool escapes = parse_char(p, t.pos + 1) == '"';
    ast_list pieces = {0};
    ast *node = NULL;
    while (at <= limit) {
        char c = at < limit ? parse_char(p, at) : '\0';
        bool doubled = (c == '{' || c == '}') && at + 1 < limit && parse_char(p, at + 1) == c;
        if (c == '\\' && escapes) {
            at += 2;
        } else if (doubled) {
            at += 2;
        } else if (c == '}') {
            parse_fail(p, at, at + 1, KV_E_SYNTAX, "a single `}` in an f-string; write `}}`");
            goto out;
        } else if (c == '{' || at == limit) {
            if (at > from && !parse_append(p, &pieces, text_piece(p, from, at, escapes, true)))
                goto out;
            if (at == limit)
                break;
            if (!parse_append(p, &pieces, field(p, at, limit, &at)))
                goto out;
            from = at;
        } else {
            at++;
        }
    }
    node = parse_node(p, AST_FTEXT, t.pos, t.end, (uint32_t)pieces.n);
    if (node && pieces.n > 0)
        memcpy(node->kid, pieces.items, (size_t)pieces.n * sizeof *pieces.items);
out:
    mem_free(pieces.items);
    return node;
}

static ast *quoted(parser *p)
{
    token t = parse_take(p);
    if (t.kind == TOK_FSTRING)
        return formatted_text(p, t);
    ast *node = text_piece(p, t.pos + 1, t.end - 1, parse_char(p, t.pos) == '"', false);
    if (node) {
        node->pos = t.pos;
        node->end = t.end;
    }
    return node;
}

/* ---- Primaries ---- */

static ast *number(parser *p)
{
    token t = parse_take(p);
    ast *node = parse_node(p, t.kind == TOK_INT ? AST_INT : AST_FLOAT, t.pos, t.end, 0);
    if (node && t.kind == TOK_INT)
        node->u.integer = t.integer;
    else if (node)
        node->u.number = t.number;
    return node;
}

/* true, false, none, inf, nan, pi; NULL and no error when the next word is none of them. */
static ast *constant(parser *p)
{
    const token *t = parse_peek(p);
    const char *word = parse_token_text(p, t);
    double value;
    ast *node = NULL;
    if (!word)
        return NULL;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        if ((node = parse_node(p, AST_BOOL, t->pos, t->end, 0)))
            node->u.integer = word[0] == 't';
    } else if (strcmp(word, "none") == 0) {
        node = parse_node(p, AST_NONE, t->pos, t->end, 0);
    } else if (parse_is_constant(word, &value)) {
        if ((node = parse_node(p, AST_FLOAT, t->pos, t->end, 0)))
            node->u.number = value;
    }
    if (node)
        parse_take(p);
    return node;
}

/* NAME = expr or expr, in the brackets of a call. */
static ast *argument(parser *p)
{
    token name = *parse_peek(p);
    if (name.kind == TOK_NAME) {
        parse_take(p);
        if (parse_accept(p, SIGN1('='))) {
            ast *value = expression(p);
            ast *node = value ? parse_node(p, AST_ARG, name.pos, value->end, 1) : NULL;
            if (!node || !(node->u.text = parse_token_text(p, &name)))
                return NULL;
            node->kid[0] = value;
            return node;
        }
        parse_seek(p, name.pos);
    }
    return expression(p);
}

/* (args) behind a function's name; first, when there is one, becomes the first argument. */
static ast *call(parser *p, const char *name, uint32_t pos, ast *first)
{
    ast_list args = {0};
    ast *node = NULL;
    bracket b = bracket_open(p);
    if (first && !parse_append(p, &args, first))
        goto out;
    while (!at_bracket_end(p, ')')) {
        if (!parse_append(p, &args, argument(p)))
            goto out;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    if (!bracket_close(p, b, ')'))
        goto out;
    node = parse_node_of(p, AST_CALL, pos, args.items, args.n);
    if (node)
        node->u.text = name;
out:
    mem_free(args.items);
    return node;
}

/* Whether a postfix that begins with this sign belongs to the value on its left. */
static bool follows(parser *p, char sign)
{
    return parse_is_sign(p, SIGN1(sign)) && !(p->arguments && parse_peek(p)->blank_before);
}

static ast *name(parser *p)
{
    ast *known = constant(p);
    if (known || p->e->code != KV_OK)
        return known;
    token t = *parse_peek(p);
    const char *text = parse_token_text(p, &t);
    if (!text)
        return NULL;
    if (parse_is_reserved(text))
        return parse_unexpected(p, "a value");
    parse_take(p);
    if (follows(p, '('))
        return call(p, text, t.pos, NULL);
    if (parse_is_sign(p, SIGN1('(')) && p->is_function && p->is_function(text)) {
        parse_fail(p, t.pos, t.end, KV_E_USAGE, "`%s` is a function and stands without its arguments",
                   text);
        kv_err_hint(p->e, "write no blank before the bracket: %s(…)", text);
        return NULL;
    }
    ast *node = parse_node(p, AST_NAME, t.pos, t.end, 0);
    if (node)
        node->u.text = text;
    return node;
}

/* $NAME: a variable, where a word would be something else. */
static ast *dollar(parser *p)
{
    token sign = parse_take(p), t = *parse_peek(p);
    if (t.kind != TOK_NAME || t.pos != sign.end)
        return parse_fail(p, sign.pos, sign.end, KV_E_SYNTAX, "`$` needs the name of a variable");
    parse_take(p);
    ast *node = parse_node(p, AST_NAME, sign.pos, t.end, 0);
    if (node && !(node->u.text = parse_token_text(p, &t)))
        return NULL;
    return node;
}

static ast *parens(parser *p)
{
    ast_list items = {0};
    ast *node = NULL;
    bool comma = false;
    bracket b = bracket_open(p);
    while (!at_bracket_end(p, ')')) {
        if (!parse_append(p, &items, expression(p)))
            goto out;
        comma = parse_accept(p, SIGN1(','));
        if (!comma)
            break;
    }
    if (!bracket_close(p, b, ')'))
        goto out;
    if (items.n == 1 && !comma) {
        node = items.items[0];
        node->flags |= AST_PARENS;
        node->pos = b.open.pos;
        node->end = parse_last_end(p);
    } else {
        node = parse_node_of(p, AST_TUPLE, b.open.pos, items.items, items.n);
    }
out:
    mem_free(items.items);
    return node;
}

/* "for NAME in expr" or "for COUNT gpus" behind the first item of a list. */
static ast *comprehension(parser *p, ast *body, uint32_t pos)
{
    ast *pair[2] = {body, NULL};
    parse_take(p);
    token t = *parse_peek(p);
    if (t.kind == TOK_NAME) {
        const char *variable = parse_token_text(p, &t);
        if (!variable)
            return NULL;
        if (parse_is_reserved(variable))
            return parse_unexpected(p, "a name");
        parse_take(p);
        if (!parse_accept_word(p, "in"))
            return parse_unexpected(p, "`in`");
        if (!(pair[1] = expression(p)))
            return NULL;
        ast *node = parse_node_of(p, AST_COMP, pos, pair, 2);
        if (node)
            node->u.text = variable;
        return node;
    }
    if (t.kind == TOK_INT)
        pair[1] = number(p);
    else if (parse_is_sign(p, SIGN1('$')))
        pair[1] = dollar(p);
    else
        return parse_unexpected(p, "a name or a count");
    bool gpus = parse_is_word(p, "gpus");
    if (!pair[1])
        return NULL;
    if (!gpus && !parse_is_word(p, "cpus"))
        return parse_unexpected(p, "`gpus` or `cpus`");
    parse_take(p);
    ast *node = parse_node_of(p, AST_COPIES, pos, pair, 2);
    if (node)
        node->op = gpus;
    return node;
}

static ast *list(parser *p)
{
    ast_list items = {0};
    ast *node = NULL;
    bracket b = bracket_open(p);
    while (!at_bracket_end(p, ']')) {
        if (!parse_append(p, &items, expression(p)))
            goto out;
        if (items.n == 1 && parse_is_word(p, "for")) {
            node = comprehension(p, items.items[0], b.open.pos);
            if (!node || !bracket_close(p, b, ']'))
                node = NULL;
            else
                node->end = parse_last_end(p);
            goto out;
        }
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    if (bracket_close(p, b, ']'))
        node = parse_node_of(p, AST_LIST, b.open.pos, items.items, items.n);
out:
    mem_free(items.items);
    return node;
}

/* @path, with #name behind it for one tensor of a file that holds several. */
static ast *file(parser *p)
{
    token sign = parse_take(p);
    ast *kids[2] = {0};
    int n = 1;
    if (!(kids[0] = parse_path(p)))
        return NULL;
    uint32_t pos = p->lx.pos;
    if (!p->have && parse_char(p, pos) == '#') {
        uint32_t end = pos + 1;
        while (lex_is_letter(parse_char(p, end)) || lex_is_digit(parse_char(p, end)) ||
               (parse_char(p, end) && strchr("./-:", parse_char(p, end))))
            end++;
        if (!(kids[1] = text_node(p, p->lx.src->text + pos + 1, end - pos - 1, pos + 1, end)))
            return NULL;
        parse_seek(p, end);
        n = 2;
    }
    ast *node = parse_node_of(p, AST_FILE, sign.pos, kids, n);
    if (node) {
        node->op = n == 2;
        node->end = p->lx.pos;
    }
    return node;
}

static ast *primary(parser *p)
{
    const token *t = parse_peek(p);
    switch (t->kind) {
    case TOK_INT:
    case TOK_FLOAT:
        return number(p);
    case TOK_STRING:
    case TOK_FSTRING:
        return quoted(p);
    case TOK_NAME:
        return name(p);
    case TOK_SIGN:
        if (t->sign == SIGN1('('))
            return parens(p);
        if (t->sign == SIGN1('['))
            return list(p);
        if (t->sign == SIGN1('$'))
            return dollar(p);
        if (t->sign == SIGN1('@'))
            return file(p);
        break;
    case TOK_END:
    case TOK_NEWLINE:
    case TOK_OPTION:
    case TOK_BAD:
        break;
    }
    return parse_unexpected(p, "a value");
}

/* ---- Postfixes ---- */

static bool is_slice_end(parser *p)
{
    return parse_is_sign(p, SIGN1(',')) || parse_is_sign(p, SIGN1(']'));
}

/* expr, or [from] : [to] [: [step]], or ... */
static ast *slice(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    ast *part[3] = {0};
    if (parse_accept(p, SIGN3('.', '.', '.')))
        return parse_node(p, AST_ELLIPSIS, pos, pos + 3, 0);
    if (!parse_is_sign(p, SIGN1(':'))) {
        if (!(part[0] = expression(p)))
            return NULL;
        if (!parse_is_sign(p, SIGN1(':')))
            return part[0];
    }
    for (int i = 1; i < 3 && parse_accept(p, SIGN1(':')); i++)
        if (!is_slice_end(p) && !parse_is_sign(p, SIGN1(':')) && !(part[i] = expression(p)))
            return NULL;
    return parse_node_of(p, AST_SLICE, pos, part, 3);
}

static ast *index_of(parser *p, ast *base)
{
    ast_list parts = {0};
    ast *node = NULL;
    bracket b = bracket_open(p);
    if (!parse_append(p, &parts, base))
        goto out;
    do {
        if (at_bracket_end(p, ']') && parts.n > 1)
            break;
        if (!parse_append(p, &parts, slice(p)))
            goto out;
    } while (parse_accept(p, SIGN1(',')));
    if (bracket_close(p, b, ']'))
        node = parse_node_of(p, AST_INDEX, base->pos, parts.items, parts.n);
out:
    mem_free(parts.items);
    return node;
}

/* .NAME or .NAME(args): the function with the value before it as its first argument. */
static ast *method(parser *p, ast *value)
{
    parse_take(p);
    token t = *parse_peek(p);
    if (t.kind != TOK_NAME)
        return parse_unexpected(p, "the name of a function");
    parse_take(p);
    const char *text = parse_token_text(p, &t);
    ast *node = !text             ? NULL
                : follows(p, '(') ? call(p, text, value->pos, value)
                                  : parse_node_of(p, AST_CALL, value->pos, &value, 1);
    if (node) {
        node->flags |= AST_METHOD;
        node->u.text = text;
    }
    return node;
}

/* @NAME or @NAME(expr): a value on a device. */
static ast *device(parser *p, ast *value)
{
    parse_take(p);
    token t = *parse_peek(p);
    ast *pair[2] = {value, NULL};
    if (t.kind != TOK_NAME && !parse_is_sign(p, SIGN1('$')))
        return parse_unexpected(p, "a device, as in a@gpu(1),");
    pair[1] = t.kind == TOK_NAME ? name(p) : dollar(p);
    return pair[1] ? parse_node_of(p, AST_AT, value->pos, pair, 2) : NULL;
}

static ast *postfix(parser *p)
{
    ast *node = primary(p);
    while (node) {
        if (follows(p, '['))
            node = index_of(p, node);
        else if (follows(p, '.'))
            node = method(p, node);
        else if (follows(p, '@'))
            node = device(p, node);
        else if (follows(p, '('))
            return parse_unexpected(p, "an operator; only a name can be called, which");
        else
            break;
    }
    return node;
}

/* ---- Operators ---- */

static ast *power(parser *p)
{
    ast *node = postfix(p);
    if (node && parse_accept(p, SIGN2('*', '*')))
        node = binary(p, OP_POW, node, unary(p));
    return node;
}

static ast *unary_node(parser *p, ast_op op, uint32_t pos, ast *operand)
{
    ast *node = operand ? parse_node(p, AST_UNARY, pos, operand->end, 1) : NULL;
    if (node) {
        node->op = (uint8_t)op;
        node->kid[0] = operand;
    }
    return node;
}

static bool deeper(parser *p, uint32_t pos)
{
    if (p->depth < PARSE_MAX_DEPTH)
        return true;
    parse_fail(p, pos, pos + 1, KV_E_SYNTAX, "nested deeper than %d", PARSE_MAX_DEPTH);
    return false;
}

static ast *unary(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    bool minus = parse_is_sign(p, SIGN1('-'));
    if (!minus && !parse_is_sign(p, SIGN1('+')))
        return power(p);
    parse_take(p);
    if (!deeper(p, pos))
        return NULL;
    p->depth++;
    ast *node = unary_node(p, minus ? OP_NEG : OP_POS, pos, unary(p));
    p->depth--;
    return node;
}

static ast *term(parser *p)
{
    ast *node = unary(p);
    while (node) {
        if (parse_accept(p, SIGN1('*')))
            node = binary(p, OP_MUL, node, unary(p));
        else if (parse_accept(p, SIGN1('/')))
            node = binary(p, OP_DIV, node, unary(p));
        else if (parse_accept(p, SIGN2('/', '/')))
            node = binary(p, OP_FLOORDIV, node, unary(p));
        else if (parse_accept(p, SIGN1('%')))
            node = binary(p, OP_MOD, node, unary(p));
        else
            break;
    }
    return node;
}

static ast *sum(parser *p)
{
    ast *node = term(p);
    while (node) {
        const token *t = parse_peek(p);
        bool minus = parse_is_sign(p, SIGN1('-'));
        if (!minus && !parse_is_sign(p, SIGN1('+')))
            break;
        if (p->arguments && t->blank_before && !t->blank_after)
            break;
        parse_take(p);
        node = binary(p, minus ? OP_SUB : OP_ADD, node, term(p));
    }
    return node;
}

static ast *range(parser *p)
{
    ast *part[3] = {sum(p)};
    int n = 2;
    if (!part[0] || !parse_accept(p, SIGN2('.', '.')))
        return part[0];
    if (!(part[1] = sum(p)))
        return NULL;
    if (parse_accept_word(p, "by")) {
        if (!(part[2] = sum(p)))
            return NULL;
        n = 3;
    }
    return parse_node_of(p, AST_RANGE, part[0]->pos, part, n);
}

static ast *compare(parser *p)
{
    static const struct {
        uint32_t sign;
        ast_op op;
    } signs[] = {{SIGN2('=', '='), OP_EQ}, {SIGN2('!', '='), OP_NE}, {SIGN2('<', '='), OP_LE},
                 {SIGN2('>', '='), OP_GE}, {SIGN1('<'), OP_LT},      {SIGN1('>'), OP_GT}};
    ast *node = range(p);
    for (size_t i = 0; node && i < sizeof signs / sizeof *signs; i++) {
        bool angle = signs[i].op == OP_LT || signs[i].op == OP_GT;
        if (angle && (p->arguments || p->angles_redirect))
            continue;
        if (parse_accept(p, signs[i].sign))
            return binary(p, signs[i].op, node, range(p));
    }
    return node;
}

static ast *negation(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    if (!parse_accept_word(p, "not"))
        return compare(p);
    if (!deeper(p, pos))
        return NULL;
    p->depth++;
    ast *node = unary_node(p, OP_NOT, pos, negation(p));
    p->depth--;
    return node;
}

static ast *conjunction(parser *p)
{
    ast *node = negation(p);
    while (node && parse_accept_word(p, "and"))
        node = binary(p, OP_AND, node, negation(p));
    return node;
}

static ast *expression(parser *p)
{
    if (!deeper(p, parse_peek(p)->pos))
        return NULL;
    p->depth++;
    ast *node = conjunction(p);
    while (node && parse_accept_word(p, "or"))
        node = binary(p, OP_OR, node, conjunction(p));
    p->depth--;
    return node;
}

/* ---- Ways in ---- */

ast *parse_expr(parser *p, bool angles_redirect)
{
    bool arguments = p->arguments, angles = p->angles_redirect;
    p->arguments = false;
    p->angles_redirect = angles_redirect;
    ast *node = expression(p);
    p->arguments = arguments;
    p->angles_redirect = angles;
    return node;
}

ast *parse_value(parser *p)
{
    const token *t = parse_peek(p);
    if (t->kind == TOK_SIGN && (t->sign == SIGN1('-') || t->sign == SIGN1('+')) && t->blank_before &&
        t->blank_after)
        return parse_fail(p, t->pos, t->end, KV_E_SYNTAX,
                          "`%c` joins two values, but none stands before it", (char)t->sign);
    bool arguments = p->arguments;
    p->arguments = true;
    ast *node = expression(p);
    p->arguments = arguments;
    return node;
}

ast *parse_primary(parser *p)
{
    return postfix(p);
}

ast *parse_literal(parser *p)
{
    const token *t = parse_peek(p);
    uint32_t pos = t->pos;
    if (t->kind == TOK_STRING)
        return quoted(p);
    if (t->kind == TOK_NAME) {
        ast *node = constant(p);
        return node || p->e->code ? node : parse_unexpected(p, "a number, text, true, false or none");
    }
    bool minus = parse_accept(p, SIGN1('-'));
    t = parse_peek(p);
    bool infinite = minus && parse_is_word(p, "inf");
    if (t->kind != TOK_INT && t->kind != TOK_FLOAT && !infinite)
        return parse_unexpected(p, minus ? "a number" : "a number, text, true, false or none");
    ast *node = infinite ? constant(p) : number(p);
    if (node && minus && node->kind == AST_INT)
        node->u.integer = -node->u.integer;
    else if (node && minus)
        node->u.number = -node->u.number;
    if (node)
        node->pos = pos;
    return node;
}

int parse_expr_text(ast **out, const source *s, arena *a, kv_err *e)
{
    parser p;
    kv_err unused = {0};
    parse_init(&p, s, a, e ? e : &unused);
    p.lx.nest = 1;
    *out = parse_expr(&p, false);
    if (*out && parse_peek(&p)->kind != TOK_END)
        *out = parse_unexpected(&p, "the end of the expression");
    int code = *out ? KV_OK : p.e->code;
    parse_release(&p);
    return code;
}
