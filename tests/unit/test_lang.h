/* For the tests of the language: trees as texts, such as (+ 1 (* 2 x)), so that a test is a
 * table of texts and trees, or of texts and errors.
 *
 * Nodes are written so: 1, 0.5, "text", true, none and names as themselves; [a b] a list, (, a
 * b) a tuple, (f a k=b) a call, (.f a) a method, (index a 0 (: 1 2 _)), (@ a cpu), (file <x.csv>
 * "w") with <> for a bare path, (f "a" {x} {y :d}) an f-string, (.. 1 9 2) a range, (key w) and
 * (keys 1 ~w*) with ~ for a pattern and $ for a value, {a b} a block. A part that is not there is
 * _.
 */
#pragma once

#include "base/buf.h"
#include "base/num.h"
#include "lang/parse.h"
#include "test.h"

/* Writes nodes of kinds that are not of lib/lang. */
typedef void (*lang_more)(buf *out, const ast *node);

static inline void lang_dump(buf *out, const ast *node, lang_more more);

static inline void lang_quote(buf *out, const char *text)
{
    buf_char(out, '"');
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\')
            buf_printf(out, "\\x%02x", (unsigned char)*text);
        else
            buf_char(out, *text);
    }
    buf_char(out, '"');
}

/* The children from `from` on, each with a blank before it. */
static inline void lang_kids(buf *out, const ast *node, uint32_t from, lang_more more)
{
    for (uint32_t i = from; i < node->n; i++) {
        buf_char(out, ' ');
        lang_dump(out, node->kid[i], more);
    }
}

static inline void lang_form(buf *out, const char *head, const ast *node, uint32_t from,
                             lang_more more)
{
    buf_printf(out, "(%s", head);
    lang_kids(out, node, from, more);
    buf_char(out, ')');
}

static inline void lang_items(buf *out, char open, const ast *node, char close, lang_more more)
{
    buf_char(out, open);
    for (uint32_t i = 0; i < node->n; i++) {
        if (i > 0)
            buf_char(out, ' ');
        lang_dump(out, node->kid[i], more);
    }
    buf_char(out, close);
}

static inline void lang_number(buf *out, double x)
{
    char text[NUM_TEXT_MAX];
    num_repr(text, x, NUM_BINARY64);
    buf_add(out, text);
}

static inline void lang_key(buf *out, const ast *node)
{
    if (node->op == 0)
        buf_printf(out, "%lld", (long long)node->u.integer);
    else
        buf_printf(out, node->op == 2 ? "~%s" : "%s", node->u.text);
}

/* One whose head is a name of its own. */
static inline void lang_named(buf *out, const char *head, const ast *node, lang_more more)
{
    buf_printf(out, "(%s %s", head, node->u.text);
    lang_kids(out, node, 0, more);
    buf_char(out, ')');
}

static inline void lang_dump(buf *out, const ast *node, lang_more more)
{
    static const char *const states[] = {"state", "state-key", "state-shared", "state-row"};
    if (!node) {
        buf_char(out, '_');
        return;
    }
    if (node->kind >= AST_SCRIPT) {
        more(out, node);
        return;
    }
    switch ((ast_kind)node->kind) {
    case AST_INT: buf_printf(out, "%lld", (long long)node->u.integer); break;
    case AST_FLOAT: lang_number(out, node->u.number); break;
    case AST_TEXT:
        if (node->op == 1)
            buf_printf(out, "<%s>", node->u.text);
        else
            lang_quote(out, node->u.text);
        break;
    case AST_FTEXT: lang_form(out, "f", node, 0, more); break;
    case AST_FIELD:
        buf_char(out, '{');
        lang_dump(out, node->kid[0], more);
        if (node->op)
            buf_printf(out, " !%c", node->op);
        if (node->u.text)
            buf_printf(out, " :%s", node->u.text);
        if (node->n > 1) {
            buf_add(out, " :");
            lang_dump(out, node->kid[1], more);
        }
        buf_char(out, '}');
        break;
    case AST_BOOL: buf_add(out, node->u.integer ? "true" : "false"); break;
    case AST_NONE: buf_add(out, "none"); break;
    case AST_NAME: buf_add(out, node->u.text); break;
    case AST_LIST: lang_items(out, '[', node, ']', more); break;
    case AST_TUPLE: lang_form(out, ",", node, 0, more); break;
    case AST_DICT: lang_form(out, "dict", node, 0, more); break;
    case AST_COMP: lang_form(out, "comp", node, 0, more); break;
    case AST_FOR: lang_form(out, "for", node, 0, more); break;
    case AST_ONLY: lang_form(out, "if", node, 0, more); break;
    case AST_COPIES: lang_form(out, node->op ? "gpus" : "cpus", node, 0, more); break;
    case AST_CALL:
        buf_printf(out, node->flags & AST_METHOD ? "(.%s" : "(%s", node->u.text);
        lang_kids(out, node, 0, more);
        buf_char(out, ')');
        break;
    case AST_STORE: lang_named(out, "of", node, more); break;
    case AST_ARG:
        buf_printf(out, "%s=", node->u.text);
        lang_dump(out, node->kid[0], more);
        break;
    case AST_INDEX: lang_form(out, "index", node, 0, more); break;
    case AST_SLICE: lang_form(out, ":", node, 0, more); break;
    case AST_ELLIPSIS: buf_add(out, "..."); break;
    case AST_AT: lang_form(out, "@", node, 0, more); break;
    case AST_FILE: lang_form(out, "file", node, 0, more); break;
    case AST_CHAIN: lang_form(out, "chain", node, 0, more); break;
    case AST_CHOICE: lang_form(out, "choice", node, 0, more); break;
    case AST_UNARY:
    case AST_TEST:
    case AST_BINARY: lang_form(out, ast_op_text((ast_op)node->op), node, 0, more); break;
    case AST_RANGE: lang_form(out, "..", node, 0, more); break;
    case AST_KEYS: lang_form(out, node->flags & AST_SINGLE ? "key" : "keys", node, 0, more); break;
    case AST_KEY: lang_key(out, node); break;
    case AST_KEY_RANGE: lang_form(out, "..", node, 0, more); break;
    case AST_KEY_VALUE:
        buf_char(out, '$');
        lang_dump(out, node->kid[0], more);
        break;
    case RULE_STATE: lang_named(out, states[node->op], node, more); break;
    case RULE_SET: lang_named(out, "=", node, more); break;
    case RULE_IF: lang_form(out, "if", node, 0, more); break;
    case RULE_ROWS: buf_add(out, "(rows)"); break;
    case RULE_SKIP: buf_add(out, "(skip)"); break;
    case RULE_FAIL: lang_form(out, "fail", node, 0, more); break;
    case RULE_FOR: lang_form(out, "for", node, 0, more); break;
    case RULE_PRINT: lang_form(out, "print", node, 0, more); break;
    case AST_BLOCK: lang_items(out, '{', node, '}', more); break;
    case AST_SCRIPT: break;
    }
}

/* (updater NAME … (param default low high) … counts-after { … }), or the block alone. */
static inline void lang_dump_rule(buf *out, const rule_ast *rule)
{
    if (rule->nnames == 0) {
        lang_dump(out, rule->body, NULL);
        return;
    }
    buf_add(out, "(updater");
    for (int i = 0; i < rule->nnames; i++)
        buf_printf(out, " %s", rule->names[i]);
    for (int i = 0; i < rule->nparams; i++) {
        const rule_param *p = &rule->params[i];
        buf_printf(out, " (%s ", p->name);
        lang_dump(out, p->value, NULL);
        if (p->low) {
            buf_char(out, ' ');
            lang_dump(out, p->low, NULL);
            buf_char(out, ' ');
            lang_dump(out, p->high, NULL);
        }
        buf_char(out, ')');
    }
    if (rule->counts_after)
        buf_add(out, " counts-after");
    buf_char(out, ' ');
    lang_dump(out, rule->body, NULL);
    buf_char(out, ')');
}

/* A text with what parsing it gave. Begin with lang_begin, end with lang_end. */
typedef struct lang_text {
    source src;
    arena nodes;
    parser p;
    kv_err e;
    buf out;
} lang_text;

static inline void lang_begin(lang_text *t, const char *text)
{
    *t = (lang_text){.src = {.name = "t", .text = text, .line = 1, .col = 1}};
    t->src.len = (uint32_t)strlen(text);
    parse_init(&t->p, &t->src, &t->nodes, &t->e);
}

static inline void lang_end(lang_text *t)
{
    parse_release(&t->p);
    arena_release(&t->nodes);
    buf_release(&t->out);
}

/* Begins with a text, and ends with the block. */
#define LANG_TEXT(t, text)                                                                         \
    OWN(lang_end) lang_text t;                                                                     \
    lang_begin(&t, text)

/* ---- Tables ---- */

typedef struct lang_tree {
    const char *text, *tree;
} lang_tree;

/* place: "line:col-end". A row may leave out the hint, and the code where it is KV_E_SYNTAX. */
typedef struct lang_error {
    const char *text, *place, *message, *hint;
    kv_code code;
} lang_error;
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* Parses the text of t and dumps what it gave into t->out; false when there is an error. */
typedef bool (*lang_parse)(lang_text *t);

static inline void lang_check_tree(const char *text, const char *tree, lang_parse parse)
{
    LANG_TEXT(t, text);
    bool ok = parse(&t);
    if (!ok || strcmp(buf_text(&t.out), tree) != 0)
        printf("# in: %s\n# error: %d:%d: %s\n", text, t.e.line, t.e.col, t.e.text);
    CHECK_TEXT(ok ? buf_text(&t.out) : "an error", tree);
    CHECK_INT(t.e.code, KV_OK);
}

static inline void lang_check_error(const lang_error *want, lang_parse parse)
{
    lang_text t;
    char place[64];
    lang_begin(&t, want->text);
    bool ok = parse(&t);
    snprintf(place, sizeof place, "%d:%d-%d", t.e.line, t.e.col, t.e.end);
    int code = want->code ? (int)want->code : KV_E_SYNTAX;
    bool same = !ok && t.e.code == code && strcmp(place, want->place) == 0 &&
                strcmp(t.e.text, want->message) == 0 &&
                strcmp(t.e.hint, want->hint ? want->hint : "") == 0;
    if (!same) {
        printf("# in: %s\n# %s: %s: %s\n#   hint: %s\n", want->text, place, kv_code_name(t.e.code),
               t.e.text, t.e.hint);
        CHECK_TEXT(ok ? buf_text(&t.out) : "another error", want->message);
    }
    lang_end(&t);
}

/* Lets each allocation fail in turn, with those behind it and without them, until the text is
 * parsed, which takes more than `least`. What is read without one is what is read with it. */
static inline void lang_no_memory(const char *text, lang_parse parse, int64_t least)
{
    lang_text whole;
    lang_begin(&whole, text);
    CHECK(parse(&whole));
    for (int sign = 1; sign >= -1; sign -= 2) {
        int64_t n = 0;
        for (bool failed = true; failed;) {
            lang_text t;
            lang_begin(&t, text);
            mem_fail_at(sign * ++n);
            bool ok = parse(&t);
            failed = mem_fail_at(0) >= n;
            if (!ok && t.e.code != KV_E_MEMORY)
                printf("# allocation %lld: %d:%d: %s\n", (long long)n, t.e.line, t.e.col, t.e.text);
            CHECK_INT(t.e.code, ok ? KV_OK : KV_E_MEMORY);
            if (ok && !t.out.failed)
                CHECK_TEXT(buf_text(&t.out), buf_text(&whole.out));
            lang_end(&t);
        }
        CHECK(n > least);
    }
    lang_end(&whole);
}

static inline void lang_check_trees(const lang_tree *table, size_t n, lang_parse parse)
{
    for (size_t i = 0; i < n; i++)
        lang_check_tree(table[i].text, table[i].tree, parse);
}

static inline void lang_check_errors(const lang_error *table, size_t n, lang_parse parse)
{
    for (size_t i = 0; i < n; i++)
        lang_check_error(&table[i], parse);
}

/* The rows of a table stand behind the function. */
#define LANG_ROWS(type, ...)                                                                       \
    (const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}) / sizeof(type)
#define LANG_TREES(parse, ...) lang_check_trees(LANG_ROWS(lang_tree, __VA_ARGS__), parse)
#define LANG_ERRORS(parse, ...) lang_check_errors(LANG_ROWS(lang_error, __VA_ARGS__), parse)

/* A text of n times `piece` between head and tail, to be released with mem_free. */
static inline char *lang_repeated(const char *head, const char *piece, int n, const char *middle,
                                  const char *piece2, const char *tail)
{
    own_buf b = {0};
    kv_err e = {0};
    buf_add(&b, head);
    for (int i = 0; i < n; i++)
        buf_add(&b, piece);
    buf_add(&b, middle);
    for (int i = 0; i < n; i++)
        buf_add(&b, piece2);
    buf_add(&b, tail);
    CHECK_OK(buf_check(&b, &e));
    return mem_text(buf_text(&b), b.len, &e);
}
