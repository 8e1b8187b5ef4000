/* The parser's ground: tokens one ahead, nodes, interned texts, errors. */
#include "lang/parse.h"

#include <math.h>
#include <string.h>

const char *ast_op_text(ast_op op)
{
    static const char *const texts[] = {
        [OP_NEG] = "-", [OP_POS] = "+",      [OP_NOT] = "not", [OP_ADD] = "+", [OP_SUB] = "-",
        [OP_MUL] = "*", [OP_DIV] = "/",      [OP_FLOORDIV] = "//", [OP_MOD] = "%", [OP_POW] = "**",
        [OP_EQ] = "==", [OP_NE] = "!=",      [OP_LT] = "<",    [OP_LE] = "<=", [OP_GT] = ">",
        [OP_GE] = ">=", [OP_AND] = "and",    [OP_OR] = "or",
    };
    return texts[op];
}

void parse_init(parser *p, const source *s, arena *a, kv_err *e)
{
    *p = (parser){.lx = {.src = s, .limit = s->len, .e = e}, .a = a, .e = e};
    if (s->len >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0)
        p->lx.pos = 3;
}

void parse_release(parser *p)
{
    map_release(&p->interned);
    mem_free(p->texts);
    *p = (parser){0};
}

/* ---- Tokens ---- */

const token *parse_peek(parser *p)
{
    if (!p->have) {
        p->tok = lex_next(&p->lx);
        p->have = true;
    }
    return &p->tok;
}

token parse_take(parser *p)
{
    token t = *parse_peek(p);
    p->have = t.kind == TOK_BAD; /* a bad token stays: nothing can be parsed behind it */
    return t;
}

uint32_t parse_last_end(const parser *p)
{
    uint32_t end = p->have ? p->tok.pos : p->lx.pos;
    const char *text = p->lx.src->text;
    while (p->have && end > 0 && (lex_is_blank(text[end - 1]) || text[end - 1] == '\n'))
        end--;
    return end;
}

bool parse_is_sign(parser *p, uint32_t sign)
{
    const token *t = parse_peek(p);
    return t->kind == TOK_SIGN && t->sign == sign;
}

bool parse_is_word(parser *p, const char *word)
{
    const token *t = parse_peek(p);
    size_t n = strlen(word);
    return t->kind == TOK_NAME && t->end - t->pos == n &&
           memcmp(p->lx.src->text + t->pos, word, n) == 0;
}

bool parse_accept(parser *p, uint32_t sign)
{
    if (!parse_is_sign(p, sign))
        return false;
    parse_take(p);
    return true;
}

bool parse_accept_word(parser *p, const char *word)
{
    if (!parse_is_word(p, word))
        return false;
    parse_take(p);
    return true;
}

bool parse_expect(parser *p, uint32_t sign, const char *why)
{
    return parse_accept(p, sign) || parse_unexpected(p, why);
}

bool parse_at_end(parser *p)
{
    const token *t = parse_peek(p);
    return t->kind == TOK_END || t->kind == TOK_NEWLINE ||
           (t->kind == TOK_SIGN && t->sign == SIGN1('}'));
}

const char *parse_token_text(parser *p, const token *t)
{
    return parse_intern(p, p->lx.src->text + t->pos, t->end - t->pos);
}

void parse_skip_newlines(parser *p)
{
    while (parse_peek(p)->kind == TOK_NEWLINE)
        parse_take(p);
}

uint32_t parse_here(parser *p)
{
    if (p->have) {
        p->lx.pos = p->tok.pos;
        p->have = false;
    }
    lex_blanks(&p->lx);
    return p->lx.pos;
}

void parse_seek(parser *p, uint32_t pos)
{
    p->have = false;
    p->lx.pos = pos;
}

char parse_char(const parser *p, uint32_t pos)
{
    return pos < p->lx.limit ? p->lx.src->text[pos] : '\0';
}

/* ---- Errors ---- */

ast *parse_fail(parser *p, uint32_t pos, uint32_t end, kv_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(p->e, code, fmt, ap);
    va_end(ap);
    source_at(p->lx.src, pos, end, p->e);
    return NULL;
}

ast *parse_unexpected(parser *p, const char *wanted)
{
    const token *t = parse_peek(p);
    if (t->kind == TOK_BAD)
        return NULL;
    if (t->kind == TOK_END) {
        p->lx.incomplete = true;
        return parse_fail(p, t->pos, t->end, KV_E_SYNTAX, "the text ends where %s is needed", wanted);
    }
    if (t->kind == TOK_NEWLINE)
        return parse_fail(p, t->pos, t->pos + 1, KV_E_SYNTAX,
                          "the statement ends where %s is needed", wanted);
    uint32_t n = t->end - t->pos;
    return parse_fail(p, t->pos, t->end, KV_E_SYNTAX, "`%.*s` stands where %s is needed",
                      n > 60 ? 60 : (int)n, p->lx.src->text + t->pos, wanted);
}

/* ---- Nodes ---- */

ast *parse_node(parser *p, int kind, uint32_t pos, uint32_t end, uint32_t nkids)
{
    ast *node = arena_alloc(p->a, sizeof *node + nkids * sizeof node->kid[0], p->e);
    if (!node)
        return NULL;
    node->kind = (uint8_t)kind;
    node->pos = pos;
    node->end = end;
    node->n = nkids;
    return node;
}

ast *parse_node_of(parser *p, int kind, uint32_t pos, ast *const *kids, int64_t n)
{
    ast *node = parse_node(p, kind, pos, parse_last_end(p), (uint32_t)n);
    if (node && n > 0)
        memcpy(node->kid, kids, (size_t)n * sizeof *kids);
    return node;
}

const char *parse_intern(parser *p, const char *text, size_t n)
{
    char small[64];
    char *probe = n < sizeof small ? small : mem_text(text, n, p->e);
    const char *found = NULL;
    if (!probe)
        return NULL;
    if (probe == small) {
        memcpy(small, text, n);
        small[n] = '\0';
    }
    int64_t i = map_get(&p->interned, (kv_key){0, probe});
    if (i >= 0) {
        found = p->texts[i];
    } else if (mem_grow(&p->texts, &p->texts_cap, p->ntexts + 1, sizeof *p->texts, p->e) == KV_OK) {
        char *copy = arena_text(p->a, text, n, p->e);
        if (copy && map_put(&p->interned, (kv_key){0, copy}, p->ntexts, p->e) == KV_OK)
            found = p->texts[p->ntexts++] = copy;
    }
    if (probe != small)
        mem_free(probe);
    return found;
}

bool parse_append(parser *p, ast_list *l, ast *node)
{
    if (!node || mem_grow(&l->items, &l->cap, l->n + 1, sizeof *l->items, p->e) != KV_OK)
        return false;
    l->items[l->n++] = node;
    return true;
}

bool parse_is_reserved(const char *word)
{
    static const char *const reserved[] = {
        "if", "elif", "else", "for", "in", "while", "repeat", "def", "updater", "return",
        "break", "continue", "and", "or", "not", "true", "false", "none",
    };
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(word, reserved[i]) == 0)
            return true;
    return false;
}

bool parse_is_constant(const char *word, double *value)
{
    static const struct {
        const char *name;
        double value;
    } constants[] = {{"inf", (double)INFINITY}, {"nan", (double)NAN}, {"pi", M_PI}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (strcmp(word, constants[i].name) == 0) {
            *value = constants[i].value;
            return true;
        }
    }
    return false;
}
