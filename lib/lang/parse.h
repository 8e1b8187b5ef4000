/* The parser of expressions, keys and rules.
 *
 * A parser reads one source from left to right. Its functions return a node, or NULL when the
 * parser's kv_err, which must hold none before, holds an error with its place; nothing can be
 * parsed after that. Nodes live in the arena and stay valid as long as it does; the source may go
 * then, but places refer to it.
 *
 * Two modes. In expression mode blanks mean nothing. In argument mode, outside brackets, blanks
 * separate values: a `-` or `+` with a blank before it and none after begins a new value, and so do
 * `(`, `[` and `@` behind a blank.
 */
#pragma once

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "lang/ast.h"
#include "lang/lex.h"

/* Brackets, blocks, signs before a value and `**` nested deeper than this are refused: the parser
 * recurses. A stack of less than a megabyte allows less. Operators in a row nest trees too, but
 * not the parser: AST_MAX_HEIGHT bounds those. */
#define PARSE_MAX_DEPTH 200

/* The words that the parser expected at the cursor. */
typedef enum parse_expected {
    EXPECT_NOTHING,   /* a name to be made, shell text, right behind a value */
    EXPECT_STATEMENT, /* the first word of a statement */
    EXPECT_OPERAND,   /* a value in an expression */
    EXPECT_OPERATOR,  /* a word between two values, or one of the language behind a value */
    EXPECT_MEMBER,    /* behind a value and a dot */
    EXPECT_CONTEXT,   /* behind a value and @ */
    EXPECT_VARIABLE,  /* behind $ or -> */
    EXPECT_KEY,
    EXPECT_FILE,
    EXPECT_WORD,   /* a word that means something to the command alone */
    EXPECT_OPTION, /* --… */
    EXPECT_RULE,   /* a statement or an operand in the braces of an updater */
    EXPECT_KINDS
} parse_expected;

/* Completion parses the text in front of the cursor. Nothing accepts the TOK_CURSOR at its end: the
 * parser stops there with an error and notes what it expected (parse_expects). On the way out the
 * call, the command and the statement around the cursor add what they know, the innermost first. */
typedef struct parse_cursor {
    bool met; /* without it the cursor is where nothing is expected, and the rest is not set */
    parse_expected expected;
    uint32_t pos, word; /* where the word begins, and that behind its quote */
    char quote;         /* the one that is open before it, or 0 */
    bool in_brackets;
    uint32_t open;      /* in_brackets: where the innermost one opens */
    const char *object; /* EXPECT_MEMBER: the name in front of the dot, or NULL */
    /* The call whose brackets are the innermost ones, or NULL; a name in front of its argument, or
     * NULL. A method counts the value in front of the dot as argument 0. */
    const char *call, *keyword;
    bool method;
    uint32_t call_argument;
    uint32_t rule; /* EXPECT_RULE: where the braces open */
    /* the statement; see cli/syntax/parse_command.h */
    bool in_statement;
    uint32_t statement;  /* where it begins */
    const void *command; /* its command once its word is complete, or NULL */
    int argument, begun; /* the one that comes next or that the cursor is in; how many have begun */
    uint32_t options;    /* bit i: the option i of the command was given */
    bool first;          /* the word begins the argument, or the value of an option */
    bool in_option;      /* it is in the value of an option, */
    const void *option;  /* this one; NULL for the parameter of a rule */
} parse_cursor;

typedef struct parser {
    lexer lx;
    arena *a;
    kv_err *e;
    token tok;             /* the next token, when have */
    bool have;
    bool arguments;        /* argument mode, outside brackets */
    bool angles_redirect;  /* outside brackets > before a file does not compare */
    bool before_block;     /* outside brackets a `{` begins the block of a statement */
    bool is_open;          /* inside a bracket or block */
    uint32_t open;         /* where the innermost one begins */
    uint32_t last;         /* the end of the last token taken */
    int depth;
    map interned;          /* texts by themselves */
    const char **texts;
    int64_t ntexts, texts_cap;
    /* (optional, NULL: none is) whether a name is a function: for a better message where its
     * arguments are cut off by a blank */
    bool (*is_function)(const char *name);
    /* (optional, NULL: none does) whether a path ends as a file does that values are written to */
    bool (*is_file)(const char *path);
    /* (optional, NULL: the first error ends all) goes on after an error in the statement that began
     * at *before: to its end, or to its `{`. False when it cannot. */
    bool (*recover)(struct parser *p, const struct parser *before, bool to_block);
    ast *broken;           /* what recover leaves in the place of the statement, or NULL */
    /* (optional, NULL: there are none) the call of a store's method: store.name, of which the name
     * was taken. NULL without an error when there is no such method. */
    ast *(*method)(struct parser *p, const ast *store, const token *name);
    const char *target;    /* in a def that is an updater: the parameter that it changes in place */
    bool merge;            /* in a merge, which has loops */
    uint32_t variables;    /* a bit for each module and part of MXNet that is a variable here */
    /* (optional, NULL: there are none) the number, below 32, of a word of statements that a
     * variable of its name hides; -1 for other names */
    int (*hidden_word)(const char *name);
    uint32_t hidden;       /* a bit for each of them that is the name of a variable here */
    bool indented_end;     /* the text ended in a block written by indentation, which may go on */
    parse_cursor *cursor;  /* (optional, NULL: it is not asked for); lx.cursor goes with it */
    void *user;            /* for the caller of parse_init */
} parser;

/* Begins at the start of s, in expression mode. A BOM is skipped. Borrows s, a and e. */
void parse_init(parser *p, const source *s, arena *a, kv_err *e);
void parse_release(parser *p);
#define own_parser OWN(parse_release) parser /* parse_init comes before any return */

/* ---- Tokens ---- */

token parse_take(parser *p);

/* The small ones are here because a statement asks about a hundred times what comes next. */
static inline const token *parse_peek(parser *p)
{
    if (!p->have) {
        p->tok = lex_next(&p->lx);
        p->have = true;
    }
    return &p->tok;
}

static inline bool parse_is_sign(parser *p, uint32_t sign)
{
    const token *t = parse_peek(p);
    return t->kind == TOK_SIGN && t->sign == sign;
}

/* A NAME token spelled so. */
static inline bool parse_is_word(parser *p, const char *name)
{
    const token *t = parse_peek(p);
    const char *text = p->lx.src->text + t->pos;
    size_t n = t->end - t->pos;
    return t->kind == TOK_NAME && *text == *name && n == strlen(name) && memcmp(text, name, n) == 0;
}

/* Takes the sign if it is next. */
static inline bool parse_accept(parser *p, uint32_t sign)
{
    bool is = parse_is_sign(p, sign);
    if (is)
        parse_take(p);
    return is;
}

static inline bool parse_accept_word(parser *p, const char *name)
{
    bool is = parse_is_word(p, name);
    if (is)
        parse_take(p);
    return is;
}

bool parse_expect(parser *p, uint32_t sign, const char *why);
/* The operator of the += (or -= *= /= //= %= **=) that is next; one of these for = and for anything
 * else. */
enum { PARSE_PLAIN = -1, PARSE_NO_ASSIGN = -2 };
int parse_assign_op(parser *p);

/* Returns true at the end of a statement: NEWLINE, END or }. */
static inline bool parse_at_end(parser *p)
{
    const token *t = parse_peek(p);
    return t->kind == TOK_END || t->kind == TOK_NEWLINE ||
           (t->kind == TOK_SIGN && t->sign == SIGN1('}'));
}

bool parse_ended(parser *p);                      /* the same, and an error when it is not */
const char *parse_token_text(parser *p, const token *t); /* interned */
void parse_skip_newlines(parser *p);

/* The place at which the next token begins, blanks skipped. Drops the token read ahead, so that the
 * caller may read the text itself and go on at another place with parse_seek. */
uint32_t parse_here(parser *p);
void parse_seek(parser *p, uint32_t pos);

/* The character at pos, NUL behind the end. */
static inline char parse_char(const parser *p, uint32_t pos)
{
    return pos < p->lx.limit ? p->lx.src->text[pos] : '\0';
}

static inline uint32_t parse_past_blanks(const parser *p, uint32_t pos)
{
    while (lex_is_blank(parse_char(p, pos)))
        pos++;
    return pos;
}

/* Goes back to where *before, a copy of *p, was made. What was interned since then stays, and
 * broken. */
void parse_back(parser *p, const parser *before);

/* Ends a look ahead, whose errors went to `unused`; from here on they go to e. Without memory
 * nothing is known about what stands there, so that error stays; returns false then. */
bool parse_looked(parser *p, kv_err *e, const kv_err *unused);

/* In a block: goes on behind the statement that began at *before and failed, when the parser can
 * recover. False without an error: it could, but there is nothing behind it. */
bool parse_recovered(parser *p, const parser *before);

/* ---- Brackets and blocks ---- */

/* One that is open, and what it changed. */
typedef struct bracket {
    uint32_t pos;
    char close;
    bool in_brackets, arguments, angles_redirect, before_block, is_open;
    uint32_t open;
} bracket;

/* Takes the next token, a `(`, `[` or `{`, which begins expression mode. In `{` newlines end
 * statements. False on an error. */
bool parse_open(parser *p, bracket *b);
/* Takes the closing sign, which must be next. An error at the end of the text is reported where the
 * innermost bracket opens. */
bool parse_close(parser *p, const bracket *b);
/* Adds a hint at quotes to the error about t when t is the `.0` of layers.0.w, which is no name. */
void parse_hint_point(parser *p, const token *t);

/* Counts one more level of nesting, which begins at pos; false and an error when that is too deep.
 * The caller takes one from p->depth again, unless there was an error. */
bool parse_deeper(parser *p, uint32_t pos);

/* The error "…" at a place; returns NULL. */
ast *parse_fail(parser *p, uint32_t pos, uint32_t end, kv_code code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Adds a hint to it; NULL, which is false where a bool is returned. */
#define parse_hint(p, ...) (kv_err_hint((p)->e, __VA_ARGS__), (ast *)NULL)
/* "`x` stands where a value is needed": what was `wanted` instead of the next token; at the end of
 * the text, which bracket is open or that something is missing; for a TOK_BAD why it is none. */
ast *parse_unexpected(parser *p, const char *wanted);
/* Says of a next token that is a sign of Python or C without a meaning here what does the same. */
void parse_hint_sign(parser *p);
/* Returns true if zeros stand before the whole number pos..end, as in 007, which is an error as in
 * Python. 0 and 00 are numbers. */
bool parse_has_zeros(const parser *p, uint32_t pos, uint32_t end);

/* The bytes of the text pos..end that a message shows: whole characters, not too many. */
int parse_shown(const parser *p, uint32_t pos, uint32_t end);

/* When the cursor ends the next token, or the word up to `end` that the caller reads itself: sets
 * an error, notes that `what` was expected, and gives true. */
bool parse_met(parser *p, parse_expected what, uint32_t end);
/* The same, at no cost where no cursor is asked for. */
static inline bool parse_expects(parser *p, parse_expected what, uint32_t end)
{
    return p->cursor && parse_met(p, what, end);
}
/* The same for a word behind a value; when it is next, takes it and gives true. */
bool parse_expect_word(parser *p, const char *word);
/* A call with the bracket b was not read to its end: when the cursor is in it, notes the call and
 * the argument that it is in. */
void parse_cursor_in_call(parser *p, const bracket *b, const char *name, bool method,
                          uint32_t argument);

/* ---- Nodes ---- */

ast *parse_node(parser *p, int kind, uint32_t pos, uint32_t end, uint32_t nkids);
/* A node with the n children in kids, from pos to the end of the last token taken. */
ast *parse_node_of(parser *p, int kind, uint32_t pos, ast *const *kids, int64_t n);
/* The same with a text, which may be NULL after an error. */
ast *parse_node_named(parser *p, int kind, uint32_t pos, const char *text, ast *const *kids,
                      int64_t n);
/* n bytes of text, interned; NULL when there is no memory. */
const char *parse_intern(parser *p, const char *text, size_t n);

/* Takes `np.` or another module of MXNet that is next and has a name behind it, also `optimizer.`
 * before a class. Returns its name, NULL when there is none. */
const char *parse_skip_module(parser *p);

/* Refuses the name of a part of MXNet that a store does not have, such as gluon. of_mxnet: the name
 * stands behind `mx.` or an import, so it cannot be a variable. Returns whether it was refused. */
bool parse_refuse_part(parser *p, bool of_mxnet);

/* Notes that a variable of this name is made: what stands behind `np.` is then a method of it, and
 * a word that it hides is its name. */
void parse_made(parser *p, const char *name);

/* A list of nodes while its length is not known. All zero is empty. Most lists are short and need
 * no memory of their own, so a list is not copied; longer ones are in the parser's arena. */
enum { AST_LIST_FEW = 4 };
typedef struct ast_list {
    ast **items;
    int64_t n, cap;
    ast *few[AST_LIST_FEW];
} ast_list;
bool parse_append(parser *p, ast_list *l, ast *node); /* false: error, or node was NULL */

/* ---- Blocks ----
 *
 * { statements }, or `:` and statements behind it on its line, or on lines below that are indented
 * more: how Python writes a block. Both give an AST_BLOCK. one: parses a statement into list, false
 * on an error. */

ast *parse_braced(parser *p, bool (*one)(parser *p, ast_list *list));

/* Begins at the `:` that is next. header: where the line begins that the block belongs to. The
 * block has op 1. */
ast *parse_indented(parser *p, uint32_t header, bool (*one)(parser *p, ast_list *list));

/* What stands behind an `if` at pos: a condition, a block, and each elif, else if and else, which
 * nest the nodes of that kind. The language reads conditions, and blocks by their header. */
ast *parse_branch(parser *p, uint32_t pos, int kind, ast *(*condition)(parser *p, bool angles),
                  ast *(*block)(parser *p, uint32_t header));

/* ---- Parts of a text ---- */

/* An expression in expression mode. angles_redirect: outside brackets `>` before a file ends it. */
ast *parse_expr(parser *p, bool angles_redirect);

/* The same, or several with commas between them: an AST_TUPLE. */
ast *parse_exprs(parser *p, bool angles_redirect);

/* An expression that is no `a if c else b`, so that an `if` may follow; inside brackets. */
ast *parse_disjunction(parser *p);

/* Names and items that are given values, up to `in` or `=`: AST_NAME, AST_INDEX, or an AST_TUPLE of
 * such. */
ast *parse_targets(parser *p);

/* Returns true if targets and the sign of an assignment are next. Nothing is taken. */
bool parse_begins_assignment(parser *p);

/* The name of something to be made; NULL and an error for a word of the language or a constant. */
const char *parse_new_name(parser *p, const char *wanted);

/* The error at the `*` or `**` before a value, which is next. */
ast *parse_starred(parser *p);

/* NAME = expr (AST_ARG) or an expression, in the brackets of a call. */
ast *parse_argument(parser *p);

/* An expression in the mode that the parser is in. */
ast *parse_expression(parser *p);

/* The text in quotes that is next, and those behind it that join it: AST_TEXT or AST_FTEXT. */
ast *parse_quoted(parser *p);

/* n bytes of text that stand, in whatever form, between pos and end. */
ast *parse_text_node(parser *p, const char *text, size_t n, uint32_t pos, uint32_t end);

/* A value in argument mode. */
ast *parse_value(parser *p);

/* Something of the form primary { postfix }: no operators outside brackets. */
ast *parse_primary(parser *p);

/* A primary without postfixes: in `"a b.csv"[0]` the text alone. */
ast *parse_operand(parser *p);

/* Returns true if a word at pos is quoted or computed: "…", $NAME or (…). */
bool parse_at_operand(const parser *p, uint32_t pos);

/* KEYS: words, never arithmetic. Gives AST_KEYS. */
ast *parse_keys(parser *p);

/* Returns true if a word of n bytes that begins with a digit is a text key without quotes: it has a
 * point and letters, as 0.bias and 3d.weight, and is neither a number (1.e5) nor a range. */
bool parse_is_digit_key(const char *text, size_t n);

/* A path as it stands after @ and >, or where a command takes a FILE: AST_TEXT, AST_FTEXT, AST_NAME
 * (for $NAME) or the expression in ( ). A bare path is also marked as op 1. */
ast *parse_path(parser *p);

/* Returns true if the `>` that is next stands before a file: a path with an ending that is_file
 * knows, `-` alone, or a path that is quoted or computed. Before anything else it compares. */
bool parse_at_file(parser *p);

/* <<WORD, and the lines behind it up to one that holds only the word: AST_TEXT, each line with its
 * newline. Without that line the text is incomplete. */
ast *parse_heredoc(parser *p);

/* The smallest integer, which has no positive counterpart: the minus before it was taken at pos.
 * NULL and no error when it is not next. */
ast *parse_smallest_integer(parser *p, uint32_t pos);

/* A literal: [-] NUMBER, text, true, false, none; also inf, nan, pi. */
ast *parse_literal(parser *p);

/* "updater …" or an anonymous block { … } of a rule, in the arena. Also `def name(key, input,
 * stored):` with a block by indentation, under any three names: they become these. */
rule_ast *parse_rule_here(parser *p);

/* The same for one that begins at pos of a text. Returns a code. */
int parse_rule_at(rule_ast **out, const source *s, uint32_t pos, arena *a, kv_err *e);

/* The same for a whole text that holds nothing else. Returns a code. */
int parse_rule(rule_ast **out, const source *s, arena *a, kv_err *e);

/* The same for a merge (vm/merge.h): "merge …", or an anonymous block. */
int parse_merge(rule_ast **out, const source *s, arena *a, kv_err *e);

/* One expression that is the whole text. Returns a code. */
int parse_expr_text(ast **out, const source *s, arena *a, kv_err *e);

/* Return true if word is reserved, and if it is the name of a constant. */
bool parse_is_reserved(const char *word);
bool parse_is_constant(const char *word, size_t n, double *value);

/* Returns true if a variable may be called text, which is neither of the two. */
bool parse_is_new_name(const char *text);
