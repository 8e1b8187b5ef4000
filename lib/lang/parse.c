/* The parser's ground: tokens one ahead, nodes, interned texts, errors. */
#include "lang/parse.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stop.h"
#include "base/utf8.h"

/* Bytes of a word that a message shows. */
#define SHOWN_MAX 60

const char *ast_op_text(ast_op op)
{
    static const char *const texts[] = {
        [OP_NEG] = "-", [OP_POS] = "+",      [OP_NOT] = "not", [OP_ADD] = "+", [OP_SUB] = "-",
        [OP_MUL] = "*", [OP_DIV] = "/",      [OP_FLOORDIV] = "//", [OP_MOD] = "%", [OP_POW] = "**",
        [OP_EQ] = "==", [OP_NE] = "!=",      [OP_LT] = "<",    [OP_LE] = "<=", [OP_GT] = ">",
        [OP_GE] = ">=", [OP_AND] = "and",    [OP_OR] = "or",
        [OP_IN] = "in",  [OP_NOT_IN] = "not in", [OP_IS] = "is", [OP_IS_NOT] = "is not",
    };
    return texts[op];
}

void parse_init(parser *p, const source *s, arena *a, kv_err *e)
{
    *p = (parser){.a = a, .e = e};
    lex_init(&p->lx, s);
    p->last = p->lx.pos;
}

void parse_release(parser *p)
{
    map_release(&p->interned);
    mem_free(p->texts);
    *p = (parser){0};
}

/* ---- Tokens ---- */

token parse_take(parser *p)
{
    token t = *parse_peek(p);
    if (t.kind == TOK_CURSOR) /* else it would come again, without end */
        p->lx.cursor = false;
    if (t.kind != TOK_BAD) { /* a bad token stays: nothing can be parsed behind it */
        p->have = false;
        p->last = t.end;
    }
    return t;
}

bool parse_expect(parser *p, uint32_t sign, const char *why)
{
    return parse_accept(p, sign) || parse_unexpected(p, why);
}

int parse_assign_op(parser *p)
{
    const token *t = parse_peek(p);
    if (t->kind != TOK_SIGN)
        return PARSE_NO_ASSIGN;
    return t->sign == SIGN1('=')             ? PARSE_PLAIN
           : t->sign == SIGN2('+', '=')      ? OP_ADD
           : t->sign == SIGN2('-', '=')      ? OP_SUB
           : t->sign == SIGN2('*', '=')      ? OP_MUL
           : t->sign == SIGN2('/', '=')      ? OP_DIV
           : t->sign == SIGN2('%', '=')      ? OP_MOD
           : t->sign == SIGN3('/', '/', '=') ? OP_FLOORDIV
           : t->sign == SIGN3('*', '*', '=') ? OP_POW
                                             : PARSE_NO_ASSIGN;
}

bool parse_ended(parser *p)
{
    return parse_at_end(p) || parse_unexpected(p, "the end of the statement");
}

bool parse_recovered(parser *p, const parser *before)
{
    uint32_t pos = before->have ? before->tok.pos : before->lx.pos;
    return p->recover && p->recover(p, before, false) && parse_peek(p)->pos > pos;
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
    if (p->have && p->tok.kind != TOK_BAD)
        p->lx.pos = p->tok.pos;
    p->have = false;
    lex_blanks(&p->lx);
    return p->lx.pos;
}

void parse_seek(parser *p, uint32_t pos)
{
    p->have = false;
    p->lx.pos = p->last = pos;
}

void parse_back(parser *p, const parser *before)
{
    parser now = *p;
    *p = *before;
    p->interned = now.interned;
    p->texts = now.texts;
    p->ntexts = now.ntexts;
    p->texts_cap = now.texts_cap;
    p->broken = now.broken;
}

bool parse_looked(parser *p, kv_err *e, const kv_err *unused)
{
    p->e = e;
    if (unused->code == KV_E_MEMORY && e->code == KV_OK)
        *e = *unused;
    return unused->code != KV_E_MEMORY;
}

/* ---- Brackets and blocks ---- */

bool parse_deeper(parser *p, uint32_t pos)
{
    if (++p->depth <= PARSE_MAX_DEPTH && !stack_runs_low())
        return true;
    if (p->depth > PARSE_MAX_DEPTH)
        parse_fail(p, pos, pos + 1, KV_E_SYNTAX, "nested deeper than %d", PARSE_MAX_DEPTH);
    else
        parse_fail(p, pos, pos + 1, KV_E_SYNTAX, "nested deeper than this small stack allows");
    return false;
}

bool parse_open(parser *p, bracket *b)
{
    token t = parse_take(p);
    char sign = (char)t.sign;
    *b = (bracket){.pos = t.pos,
                   .close = sign == '(' ? ')' : sign == '[' ? ']' : '}',
                   .in_brackets = p->lx.in_brackets,
                   .arguments = p->arguments,
                   .angles_redirect = p->angles_redirect,
                   .before_block = p->before_block,
                   .is_open = p->is_open,
                   .open = p->open};
    p->lx.in_brackets = sign != '{';
    p->arguments = p->angles_redirect = p->before_block = false;
    p->is_open = true;
    p->open = t.pos;
    return parse_deeper(p, t.pos);
}

void parse_hint_point(parser *p, const token *t)
{
    char before = t->pos > 0 ? parse_char(p, t->pos - 1) : '\0';
    if (t->kind == TOK_FLOAT && parse_char(p, t->pos) == '.' && lex_is_word_char(before))
        kv_err_hint(p->e, "a name with a number behind a point stands in quotes: \"layers.0.w\"");
}

bool parse_close(parser *p, const bracket *b)
{
    if (!parse_is_sign(p, SIGN1(b->close))) {
        char wanted[4] = {'`', b->close, '`'};
        token t = *parse_peek(p);
        tok_kind kind = t.kind;
        parse_unexpected(p, wanted);
        if (kind == TOK_SIGN || kind == TOK_NAME) {
            int line, col;
            source_locate(p->lx.src, b->pos, &line, &col);
            if (p->e && line != p->e->line) /* else it is seen */
                kv_err_hint(p->e, "the `%c` that is to be closed stands in line %d, column %d",
                            parse_char(p, b->pos), line, col);
        }
        parse_hint_point(p, &t);
        if (b->close != '}' && (kind == TOK_INT || kind == TOK_FLOAT || kind == TOK_STRING))
            kv_err_hint(p->e, "a comma stands between two values");
        return false;
    }
    p->lx.in_brackets = b->in_brackets;
    p->arguments = b->arguments;
    p->angles_redirect = b->angles_redirect;
    p->before_block = b->before_block;
    p->is_open = b->is_open;
    p->open = b->open;
    p->depth--;
    parse_take(p);
    return true;
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

bool parse_has_zeros(const parser *p, uint32_t pos, uint32_t end)
{
    if (parse_char(p, pos) == '-')
        pos++;
    if (parse_char(p, pos) != '0')
        return false;
    while (pos < end && parse_char(p, pos) == '0')
        pos++;
    return pos < end;
}

int parse_shown(const parser *p, uint32_t pos, uint32_t end)
{
    return (int)utf8_cut(p->lx.src->text + pos, end - pos, SHOWN_MAX);
}

ast *parse_unexpected(parser *p, const char *wanted)
{
    const token *t = parse_peek(p);
    const char *text = p->lx.src->text + t->pos;
    if (t->kind == TOK_BAD) {
        lex_explain(&p->lx, p->e);
        return NULL;
    }
    if (parse_expects(p, EXPECT_NOTHING, 0))
        return NULL;
    if (t->kind == TOK_END) {
        if (!p->is_open)
            return parse_fail(p, p->last, p->last + 1, KV_E_SYNTAX,
                              "the text ends where %s is needed", wanted);
        p->lx.incomplete = true;
        return parse_fail(p, p->open, p->open + 1, KV_E_SYNTAX,
                          "the `%c` that opens here is not closed", parse_char(p, p->open));
    }
    if (t->kind == TOK_NEWLINE && *text == '\n')
        return parse_fail(p, p->last, p->last + 1, KV_E_SYNTAX,
                          "the statement ends where %s is needed", wanted);
    parse_fail(p, t->pos, t->end, KV_E_SYNTAX, "`%.*s` stands where %s is needed",
               parse_shown(p, t->pos, t->end), text, wanted);
    parse_hint_sign(p);
    return NULL;
}

void parse_hint_sign(parser *p)
{
    const token *t = parse_peek(p);
    uint32_t sign = t->kind == TOK_SIGN ? t->sign : 0;
    char next = parse_char(p, t->end), before = t->pos ? parse_char(p, t->pos - 1) : '\0';
    if (sign == SIGN1('='))
        kv_err_hint(p->e, "`==` compares");
    else if (sign == SIGN1(':') && next == '=')
        kv_err_hint(p->e, "an assignment has a line of its own: n = 3");
    else if (sign == SIGN1('|'))
        kv_err_hint(p->e, "`or` joins conditions; maximum(a, b) joins masks");
    else if (sign == SIGN2('<', '<') || sign == SIGN2('>', '>'))
        kv_err_hint(p->e, "x * 2**n and x // 2**n shift integers");
    else if (sign == SIGN1('@') && next == '=')
        kv_err_hint(p->e, "x = x @ y; in a rule x = matmul(x, y)");
    else if (sign == SIGN1('?'))
        kv_err_hint(p->e,
                    "where(c, a, b) chooses for each element; in a script also a if c else b");
    else if (sign == SIGN1('!'))
        kv_err_hint(p->e, "`not a` of a condition, 1 - a of a mask");
    else if (sign == SIGN1('>') && before == '<')
        kv_err_hint(p->e, "`!=` compares");
}

bool parse_met(parser *p, parse_expected what, uint32_t end)
{
    token t = *parse_peek(p);
    bool is_token = t.kind == TOK_CURSOR, quoted = is_token && t.sign;
    if (!is_token && !(p->lx.cursor && end == p->lx.src->len))
        return false;
    lex_quote quote = {0};
    lex_quote_at(&p->lx, t.pos, &quote);
    uint32_t behind_quote = t.pos + quote.prefix + quote.marks;
    *p->cursor = (parse_cursor){.met = true,
                                .expected = what,
                                .pos = t.pos,
                                .word = quoted ? behind_quote : t.pos,
                                .quote = quoted ? (char)t.sign : '\0',
                                .in_brackets = p->is_open,
                                .open = p->open};
    parse_fail(p, t.pos, t.pos + 1, KV_E_SYNTAX, "the cursor stands here");
    p->lx.incomplete = true;
    return true;
}

bool parse_expect_word(parser *p, const char *word)
{
    char wanted[16];
    if (parse_expects(p, EXPECT_OPERATOR, 0))
        return false;
    snprintf(wanted, sizeof wanted, "`%s`", word);
    return parse_accept_word(p, word) || parse_unexpected(p, wanted);
}

void parse_cursor_in_call(parser *p, const bracket *b, const char *name, bool method,
                          uint32_t argument)
{
    parse_cursor *at = p->cursor;
    if (!at || !at->met || !at->in_brackets || at->open != b->pos)
        return;
    at->call = name;
    at->method = method;
    at->call_argument = argument;
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

/* Who walks a tree recurses as deep as it is high, in frames of less than twice LEVEL bytes: a
 * stack of less than a megabyte has no room for the highest trees. */
#define LEVEL 256

ast *parse_node_of(parser *p, int kind, uint32_t pos, ast *const *kids, int64_t n)
{
    ast *node = parse_node(p, kind, pos, p->last, (uint32_t)n);
    int height = 0;
    for (int64_t i = 0; node && i < n; i++) {
        node->kid[i] = kids[i];
        if (kids[i] && kids[i]->height >= height)
            height = kids[i]->height + 1;
    }
    if (height > AST_MAX_HEIGHT && kind < RULE_STATE)
        return parse_fail(p, pos, p->last, KV_E_SYNTAX,
                          "more than %d operators one inside the other", AST_MAX_HEIGHT);
    if (kind < RULE_STATE && height > 50 && (size_t)height > stack_room() / LEVEL)
        return parse_fail(p, pos, p->last, KV_E_SYNTAX,
                          "more operators one inside the other than this small stack allows");
    if (node)
        node->height = (uint16_t)height;
    return node;
}

ast *parse_node_named(parser *p, int kind, uint32_t pos, const char *text, ast *const *kids,
                      int64_t n)
{
    ast *node = text ? parse_node_of(p, kind, pos, kids, n) : NULL;
    if (node)
        node->u.text = text;
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
    if (!node)
        return false;
    if (l->cap == 0) {
        l->items = l->few;
        l->cap = AST_LIST_FEW;
    }
    if (arena_grow(p->a, &l->items, &l->cap, l->n, sizeof *l->items, p->e))
        return false;
    l->items[l->n++] = node;
    return true;
}

bool parse_is_reserved(const char *word)
{
    static const char *const reserved[] = {
        "if", "elif", "else", "for", "in", "while", "repeat", "def", "return", "break",
        "continue", "and", "or", "not", "true", "false", "none", "True", "False", "None",
    };
    if (!word[0] || !word[1]) /* most names of variables have one letter, and none of these has */
        return false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (*word == *reserved[i] && strcmp(word, reserved[i]) == 0)
            return true;
    return false;
}

bool parse_is_constant(const char *word, size_t n, double *value)
{
    static const struct {
        const char *name;
        double value;
    } constants[] = {{"inf", (double)INFINITY}, {"nan", (double)NAN}, {"pi", M_PI}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (strlen(constants[i].name) == n && memcmp(word, constants[i].name, n) == 0) {
            *value = constants[i].value;
            return true;
        }
    }
    return false;
}

bool parse_is_new_name(const char *text)
{
    double number;
    size_t n = 0;
    while (lex_is_word_char(text[n]))
        n++;
    return lex_is_letter(*text) && !text[n] && !parse_is_reserved(text) &&
           !parse_is_constant(text, n, &number);
}

/* ---- Modules of MXNet ---- */

static const char *const modules[] = {"mx",    "mxnet", "nd",     "ndarray", "np",
                                      "numpy", "npx",   "sparse", "linalg", "random"};

/* Modules whose names variables have, too: they are modules only before what they hold. */
static const char *const class_modules[] = {"optimizer", "lr_scheduler", "contrib", "Optimizer"};
static const char *const class_makers[] = {"create", "create_optimizer", "get_updater", "contrib"};

/* Parts of MXNet that a store does not have, in scripts that were pasted. Variables have names such
 * as model and metric, so only the first PARTS_ALONE are refused without mx. in front of them. */
static const char *const parts[] = {"gluon",    "autograd",     "sym", "symbol", "mod",
                                    "module",   "metric",       "io",  "image",  "model",
                                    "init",     "initializer",  "rnn", "viz",    "test_utils",
                                    "callback", "visualization"};
enum { PARTS_ALONE = 2, PART_BITS = 16 /* of parser.variables */ };

/* The place of a word in a list of n words, -1 when it is not there. */
static int word_at(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return (int)i;
    return -1;
}

/* The name at pos; "" when there is none, or when it is longer than any module's. */
static const char *name_here(const parser *p, uint32_t pos, char word[20])
{
    size_t n = 0;
    while (n < 19 && lex_is_word_char(parse_char(p, pos)))
        word[n++] = parse_char(p, pos++);
    word[n < 19 ? n : 0] = '\0';
    return word;
}

void parse_made(parser *p, const char *name)
{
    int at = word_at(name, modules, sizeof modules / sizeof *modules);
    if (at >= 0)
        p->variables |= 1u << at;
    at = word_at(name, parts, PARTS_ALONE);
    if (at >= 0)
        p->variables |= 1u << (PART_BITS + at);
    at = p->hidden_word ? p->hidden_word(name) : -1;
    if (at >= 0)
        p->hidden |= 1u << at;
}

/* Returns true if a class or what makes one stands at pos: SGD, FactorScheduler, create. */
static bool at_class(const parser *p, uint32_t pos)
{
    char word[20], c = parse_char(p, pos);
    if (c >= 'A' && c <= 'Z')
        return lex_is_word_char(parse_char(p, pos + 1));
    name_here(p, pos, word);
    return word_at(word, class_makers, sizeof class_makers / sizeof *class_makers) >= 0;
}

const char *parse_skip_module(parser *p)
{
    token t = *parse_peek(p);
    char word[20];
    if (t.kind != TOK_NAME || parse_char(p, t.end) != '.' ||
        !lex_is_letter(parse_char(p, t.end + 1)))
        return NULL;
    name_here(p, t.pos, word);
    int at = word_at(word, modules, sizeof modules / sizeof *modules);
    int holds = word_at(word, class_modules, sizeof class_modules / sizeof *class_modules);
    bool base = strcmp(word, "kvstore") == 0 && t.end + 6 <= p->lx.limit &&
                memcmp(p->lx.src->text + t.end, ".base.", 6) == 0;
    bool module = at >= 0 && !(p->variables >> at & 1);
    bool classes = holds >= 0 && at_class(p, t.end + 1);
    if (!base && !module && !classes)
        return NULL;
    parse_take(p);
    parse_take(p);
    return module ? modules[at] : classes ? class_modules[holds] : "kvstore";
}

bool parse_refuse_part(parser *p, bool of_mxnet)
{
    token t = *parse_peek(p);
    char word[20];
    bool dot = parse_char(p, t.end) == '.';
    if (t.kind != TOK_NAME || (!of_mxnet && !dot))
        return false;
    int at = word_at(name_here(p, t.pos, word), parts, sizeof parts / sizeof *parts);
    bool alone = at < PARTS_ALONE && dot;
    if (at < 0 || (!of_mxnet && (!alone || p->variables >> (PART_BITS + at) & 1)))
        return false;
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "`%s` is a part of MXNet that is not here", word);
    if (strcmp(word, "model") == 0)
        kv_err_hint(p->e, "load(\"m-0001.params\") reads the arrays of a checkpoint");
    kv_err_hint(p->e, "a store is pushed the gradients that a program makes: help python");
    return true;
}

/* ---- Blocks ---- */

ast *parse_braced(parser *p, bool (*one)(parser *p, ast_list *list))
{
    ast_list list = {0};
    bool unclosed = false;
    bracket b;
    if (!parse_is_sign(p, SIGN1('{')))
        return parse_unexpected(p, "`{`");
    if (!parse_open(p, &b))
        return NULL;
    for (parse_skip_newlines(p); !parse_is_sign(p, SIGN1('}')); parse_skip_newlines(p)) {
        parser before = *p;
        if ((one(p, &list) && parse_ended(p)) || parse_recovered(p, &before))
            continue;
        /* what a block that is not closed holds is looked at all the same */
        if (p->e->code || !p->recover)
            return NULL;
        unclosed = true;
        break;
    }
    bool ends = unclosed || parse_close(p, &b);
    return ends ? parse_node_of(p, AST_BLOCK, b.pos, list.items, list.n) : NULL;
}

/* Returns true if the last line of the text is not empty: then a block at its end may go on. */
static bool ends_in_a_line(const parser *p)
{
    return lex_line_text(&p->lx, p->lx.limit) < p->lx.limit;
}

/* Statements on the line of the `:`. */
static bool same_line(parser *p, ast_list *list, bool (*one)(parser *p, ast_list *list))
{
    do {
        if (!one(p, list) || !parse_ended(p))
            return false;
        if (parse_peek(p)->kind != TOK_NEWLINE || parse_char(p, parse_peek(p)->pos) != ';')
            return true;
        parse_take(p);
    } while (!parse_at_end(p));
    return true;
}

/* Statements in lines of their own, below the one that ends in the `:` at colon. */
static bool lines_below(parser *p, uint32_t header, uint32_t colon, ast_list *list,
                        bool (*one)(parser *p, ast_list *list))
{
    uint32_t behind;
    bool on;
    parse_skip_newlines(p);
    token t = *parse_peek(p);
    int indent = lex_indent(&p->lx, t.pos);
    if (t.kind == TOK_END && ends_in_a_line(p))
        p->lx.incomplete = true;
    bool nothing = indent <= lex_indent(&p->lx, header) && t.kind != TOK_CURSOR;
    if (t.kind == TOK_END || nothing)
        return parse_fail(p, colon, colon + 1, KV_E_SYNTAX,
                          "lines that are indented more are needed behind this `:`");
    do {
        parser before = *p;
        if (!(one(p, list) && parse_ended(p)) && !parse_recovered(p, &before))
            return false;
        behind = p->last;
        bool line = parse_peek(p)->kind == TOK_NEWLINE && parse_char(p, p->tok.pos) == '\n';
        parse_skip_newlines(p);
        t = *parse_peek(p);
        int next = lex_indent(&p->lx, t.pos);
        if (line && t.kind != TOK_END && next > lex_indent(&p->lx, header) && next != indent)
            return parse_fail(p, t.pos, t.end, KV_E_SYNTAX,
                              "the indentation of this line fits neither the block above it nor "
                              "the line that begins the block");
        on = next == indent && !parse_at_end(p);
    } while (on);
    if (t.kind == TOK_END && ends_in_a_line(p) && !lex_is_output(&p->lx, p->lx.limit))
        p->indented_end = true;
    parse_seek(p, behind);
    return true;
}

ast *parse_indented(parser *p, uint32_t header, bool (*one)(parser *p, ast_list *list))
{
    ast_list list = {0};
    ast *node = NULL;
    token t = parse_take(p);
    if (!parse_deeper(p, t.pos))
        return NULL;
    bool below = parse_at_end(p);
    if (below ? lines_below(p, header, t.pos, &list, one) : same_line(p, &list, one))
        node = parse_node_of(p, AST_BLOCK, t.pos, list.items, list.n);
    if (node)
        node->op = 1;
    p->depth--;
    return node;
}

/* Returns true if the next token may belong to the statement at pos, whose block was just read: an
 * `else` behind a block by indentation stands below its `if`. */
static bool goes_on(parser *p, uint32_t pos, const ast *block)
{
    return !block->op ||
           lex_indent(&p->lx, parse_peek(p)->pos) == lex_indent(&p->lx, pos);
}

ast *parse_branch(parser *p, uint32_t pos, int kind, ast *(*condition)(parser *p, bool angles),
                  ast *(*block)(parser *p, uint32_t header))
{
    ast *part[3] = {0};
    if (!(part[0] = condition(p, false)) || !(part[1] = block(p, pos)))
        return NULL;
    uint32_t behind = p->last;
    parse_skip_newlines(p); /* an else may begin a line */
    bool on = goes_on(p, pos, part[1]), also = on && parse_is_word(p, "elif");
    if (kind != RULE_IF && parse_expects(p, EXPECT_STATEMENT, 0))
        return NULL;
    if (!on || (!also && !parse_accept_word(p, "else"))) {
        parse_seek(p, behind);
        return parse_node_of(p, kind, pos, part, 2);
    }
    uint32_t here = parse_peek(p)->pos;
    if (parse_accept_word(p, also ? "elif" : "if")) {
        if (!parse_deeper(p, here))
            return NULL;
        part[2] = parse_branch(p, here, kind, condition, block);
        p->depth--;
    } else {
        part[2] = block(p, pos);
    }
    return part[2] ? parse_node_of(p, kind, pos, part, 3) : NULL;
}
