/* Words of the shell as a command: the table of commands says what each of them is. */
#include "options/word_command.h"

#include <string.h>

#include "lang/lex.h"
#include "base/num.h"
#include "lang/parse.h"
#include "lang/source.h"

#define NAME  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define PLAIN NAME "-+."

/* ---- One word ---- */

static void put_quoted(buf *out, const char *word)
{
    buf_char(out, '"');
    for (; *word; word++) {
        if (*word == '"' || *word == '\\')
            buf_char(out, '\\');
        if (*word == '\n' || *word == '\r')
            buf_add(out, *word == '\n' ? "\\n" : "\\r");
        else
            buf_char(out, *word);
    }
    buf_char(out, '"');
}

/* In quotes, unless it has only characters that no part of the language reads otherwise. */
static void put_word(buf *out, const char *word, const char *plain)
{
    bool dashed = word[0] == '-' && word[1] && word[1] != '.' && !lex_is_digit(word[1]);
    if (*word && !dashed && !word[strspn(word, plain)])
        buf_add(out, word);
    else
        put_quoted(out, word);
}

/* A path, which begins with a dash in quotes only. */
static void put_path(buf *out, const char *word)
{
    if (word[0] == '-' && word[1])
        put_quoted(out, word);
    else
        put_word(out, word, PLAIN "/");
}

/* A text that is raw in quotes, so that one with a quote stands in an expression. */
static void put_raw(buf *out, const char *word)
{
    bool escaped = strpbrk(word, "'\n\r") || (*word && word[strlen(word) - 1] == '\\');
    if (escaped) {
        buf_char(out, '(');
        put_quoted(out, word);
        buf_char(out, ')');
    } else if (*word && *word != '-' && !word[strspn(word, PLAIN "*?/:,=[]\\")]) {
        buf_add(out, word);
    } else {
        buf_printf(out, "'%s'", word);
    }
}

/* Returns true if the word is one call of a function, gpu(0), which no blank or comment parts. */
static bool is_call(const char *word, const ast *tree)
{
    return tree->kind == AST_CALL && tree->end == strlen(word) && !strpbrk(word, " \t\r\n#") &&
           lex_is_letter(word[0]) && word[strspn(word, NAME)] == '(';
}

/* The word as a text that stands behind those before it, so that errors have their place there. */
static source source_of(const word_command *w, const char *word)
{
    source before = {.text = buf_text(&w->text), .len = (uint32_t)w->text.len, .line = 1, .col = 1};
    source src = {.name = WORD_COMMAND_NAME, .text = word, .len = (uint32_t)strlen(word)};
    source_locate(&before, before.len, &src.line, &src.col);
    return src;
}

/* A word that is refused stands in the text as it was typed, for the report. Returns e's code. */
static int refuse(word_command *w, const source *src, kv_err *e)
{
    source_at(src, 0, src->len, e);
    buf_add(&w->text, src->text);
    return e->code;
}

/* An expression in brackets, which keep it one value. A call needs none, and errors show it as it
 * was typed. */
static int put_value(word_command *w, const char *word, kv_err *e)
{
    arena nodes = {0};
    ast *tree;
    source src = source_of(w, word);
    double number;
    bool plain = *word && !word[strspn(word, PLAIN)];
    bool simple = plain && (!strpbrk(word + 1, "-+") ||
                            num_parse(word, strlen(word), NUM_BINARY64, &number, NULL) ==
                                strlen(word));
    int code = parse_expr_text(&tree, &src, &nodes, e);
    simple = simple || (!code && is_call(word, tree));
    arena_release(&nodes);
    if (code) {
        if (!strpbrk(word, "\"'()[]{}")) /* the shell has taken its quotes */
            kv_err_hint(e, "for the text write '\"%.64s\"'", word);
        return refuse(w, &src, e);
    }
    if (simple)
        buf_add(&w->text, word);
    else /* a comment ends with its line */
        buf_printf(&w->text, strchr(word, '#') ? "(%s\n)" : "(%s)", word);
    return KV_OK;
}

/* Values joined by commas: as they stand when they are numbers, else as a list in brackets. */
static int put_values(word_command *w, const char *word, kv_err *e)
{
    buf list = {0};
    bool numbers = *word && !word[strspn(word, "0123456789.,eE+-")];
    buf_printf(&list, strchr(word, '#') ? "[%s\n]" : "[%s]", word);
    arena nodes = {0};
    ast *tree;
    kv_err why = {0};
    source src = {
        .name = "", .text = buf_text(&list), .len = (uint32_t)list.len, .line = 1, .col = 1};
    int code = buf_check(&list, e);
    if (!code && (code = parse_expr_text(&tree, &src, &nodes, &why)))
        kv_err_set(e, code, "\"%.64s\" is not a list of values: %s", word, why.text);
    arena_release(&nodes);
    src = source_of(w, word);
    if (code)
        refuse(w, &src, e);
    else
        buf_printf(&w->text, numbers ? "%s" : "(%s)", numbers ? word : buf_text(&list));
    buf_release(&list);
    return code;
}

/* A rule in braces as it stands, one word and nothing behind it; else the name of one. */
static int put_rule(word_command *w, const char *word, kv_err *e)
{
    arena nodes = {0};
    rule_ast *rule;
    source src = source_of(w, word);
    if (word[0] != '{') {
        put_word(&w->text, word, PLAIN);
        return KV_OK;
    }
    int code = parse_rule(&rule, &src, &nodes, e);
    if (!code && rule->end != src.len) /* a comment, say, which would hide the words that follow */
        code = source_err(&src, rule->end, src.len, e, KV_E_SYNTAX,
                          "nothing stands behind the `}` of a rule");
    arena_release(&nodes);
    if (code) {
        kv_err_hint(e, "kvctl %s '{ … }': quotes keep the shell from cutting it", w->c->name);
        return refuse(w, &src, e);
    }
    buf_add(&w->text, word);
    return KV_OK;
}

/* ---- Arguments ---- */

static int no_words(word_command *w, const char *word, kv_err *e)
{
    source src = source_of(w, word);
    kv_err_set(e, KV_E_USAGE, "`%s` takes statements of the language, no words of the shell",
               w->c->name);
    kv_err_hint(e, "kvctl -c '%s …'", w->c->name);
    return refuse(w, &src, e);
}

static int put_argument(word_command *w, const char *word, kv_err *e)
{
    const command_arg *args = w->c->args;
    int n = 0;
    while (args[n].kind != ARG_END)
        n++;
    bool repeats = n > 0 && (args[n - 1].kind == ARG_VALUES || args[n - 1].kind == ARG_EXPRS ||
                             args[n - 1].kind == ARG_PATHS);
    int last = repeats ? n - 1 : n, at = w->given < last ? w->given : last;
    buf_add(&w->text, args[at].kind == ARG_EXPRS && w->given > at ? ", " : " ");
    w->given++;
    switch (args[at].kind) {
    case ARG_KEYS:
        put_word(&w->text, word, PLAIN ",*?/:{}");
        return KV_OK;
    case ARG_VALUE:
    case ARG_VALUES:
    case ARG_EXPRS:
        return put_value(w, word, e);
    case ARG_WORD:
    case ARG_GLOB:
    case ARG_NAME:
    case ARG_FILE:
    case ARG_SOURCE:
    case ARG_END: /* one too many, which the parser says */
        put_word(&w->text, word, PLAIN);
        return KV_OK;
    case ARG_RULE:
        return put_rule(w, word, e);
    case ARG_MERGE:
    case ARG_PATH:
    case ARG_PATHS:
        put_path(&w->text, word);
        return KV_OK;
    case ARG_HEREDOC:
    case ARG_CODE:
    case ARG_SWITCH:
    case ARG_BLOCK:
    case ARG_STATEMENT:
    case ARG_EXPLAINED:
        break;
    }
    return no_words(w, word, e);
}

/* ---- Options ---- */

bool word_command_has(const word_command *w, const char *word)
{
    size_t n = strcspn(word, "=");
    bool is_seed = n == 6 && memcmp(word, "--seed", n) == 0;
    return (n == 6 && memcmp(word, "--help", n) == 0) ||
           (is_seed && (w->c->flags & COMMAND_PARAMS)) ||
           command_option_find(w->c, word + 2, n - 2);
}

bool word_command_takes_any(const word_command *w)
{
    const command_option *o = w->open;
    return o && (o->kind == OPTION_PATH || o->kind == OPTION_OUTPUT || o->kind == OPTION_RAW ||
                 o->kind == OPTION_RAWS);
}

/* sign: what stands before the value, ' ' or '='. */
static int put_option_value(word_command *w, const char *word, char sign, kv_err *e)
{
    option_kind kind = w->open->kind;
    w->open = NULL;
    buf_char(&w->text, sign);
    switch (kind) {
    case OPTION_INT:
    case OPTION_VALUE:
    case OPTION_NEEDED:
        return put_value(w, word, e);
    case OPTION_NAME:
    case OPTION_WORD:
    case OPTION_FILE:
    case OPTION_FLAG:
        put_word(&w->text, word, PLAIN ",=");
        break;
    case OPTION_VALUES:
        return put_values(w, word, e);
    case OPTION_PATH:
    case OPTION_OUTPUT:
        put_path(&w->text, word);
        break;
    case OPTION_RAW:
    case OPTION_RAWS:
        put_raw(&w->text, word);
        break;
    }
    return KV_OK;
}

/* --name or --name=value. The value of a parameter that no table knows may also follow. */
static int put_option(word_command *w, const char *word, kv_err *e)
{
    static const command_option param = {"", OPTION_WORD, "V"};
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    const command_option *o = command_option_find(w->c, word + 2, n - 2);
    if (!o && (w->c->flags & COMMAND_PARAMS))
        o = &param;
    buf_char(&w->text, ' ');
    if (strspn(word, PLAIN) < n) {
        source src = source_of(w, word);
        kv_err_set(e, KV_E_USAGE, "\"%.64s\" is no option", word);
        return refuse(w, &src, e);
    }
    buf_put(&w->text, word, n);
    w->open = o && (o->kind != OPTION_FLAG || equals) ? o : NULL;
    return equals && w->open ? put_option_value(w, equals + 1, '=', e) : KV_OK;
}

/* ---- The command ---- */

bool word_command_begin(word_command *w, const char *name)
{
    w->c = command_find(name, strlen(name));
    if (w->c)
        buf_add(&w->text, w->c->name);
    return w->c != NULL;
}

int word_command_add(word_command *w, const char *word, bool literal, kv_err *e)
{
    bool is_option = !literal && word[0] == '-' && word[1] == '-' && word[2];
    bool param_without_value = is_option && w->open && !w->open->name[0];
    int code = w->open && !param_without_value ? put_option_value(w, word, ' ', e)
               : is_option                     ? put_option(w, word, e)
                                               : put_argument(w, word, e);
    return code ? code : buf_check(&w->text, e);
}
