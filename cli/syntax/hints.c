/* Hints for words of other languages and programs, from a text of these words. Letters alone
 * would take ln for len and pow for pop, and looking into $PATH would find names of variables, too.
 * A word of Python is refused only where it begins a statement as Python has it, so that a variable
 * may have its name. */
#include "syntax/hints.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "lang/lex.h"
#include "syntax/parse_statement.h"

bool hint_word(const char *kind, const char *word, size_t n, kv_err *e)
{
    char mark[80];
    snprintf(mark, sizeof mark, "\n%s %.*s: ", kind, (int)n, word);
    const char *line = strstr(text_hints, mark), *hint = line ? line + strlen(mark) : "";
    if (line)
        kv_err_hint(e, "%.*s", (int)strcspn(hint, "\n"), hint);
    return line;
}

/* ---- Variables ---- */

void hint_variable(const source *src, const ast *call,
                   bool (*is_variable)(void *arg, const char *name), void *arg, kv_err *e)
{
    for (uint32_t i = 0; i < call->n; i++) {
        const ast *word = call->kid[i];
        int line, col;
        if (word && word->kind == STMT_OPTION) /* that of `c = kv.create()` begins with its word */
            word = word->n == 1 && word->pos < word->kid[0]->pos ? word->kid[0] : NULL;
        bool bare = word && word->kind == AST_TEXT && word->end > word->pos &&
                    lex_is_letter(src->text[word->pos]) && !strchr("\"'", src->text[word->end - 1]);
        if (!bare || !is_variable(arg, word->u.text) || !strstr(e->text, word->u.text))
            continue;
        source_locate(src, word->pos, &line, &col);
        if (e->line == line && e->col == col)
            e->hint[0] = '\0';
        kv_err_hint(e, "`%s` is a word here; $%s is what the variable holds", word->u.text,
                    word->u.text);
    }
}

/* ---- The shell, and the command line of kvctl ---- */

/* Names that a variable may well have (id, env, free) are not among these, and have no hint. An
 * expression begins with `nvidia` of nvidia-smi. */
static const char programs[] =
    " awk bash cat chmod cp curl date df du find git grep gzip head htop less make mkdir mv nano"
    " nvidia-smi pip ps pwd python python3 rm rmdir rsync scp sed sh ssh tail tar tmux top touch"
    " uname unzip vi vim wc wget which whoami xargs ";

const char *const process_words[] = {"attach",     "jobs",        "launch", "launch-rank",
                                     "launch-ssh", "launch-tell", "serve",  NULL};

const char *process_word_page(const char *word, size_t n)
{
    for (int i = 0; process_words[i]; i++)
        if (strlen(process_words[i]) == n && memcmp(process_words[i], word, n) == 0)
            return i < PROCESS_WORDS_OF_USERS ? process_words[i] : "launch";
    return NULL;
}

bool hint_shell(const char *word, size_t n, kv_err *e)
{
    const char *page = process_word_page(word, n);
    if (page) {
        kv_err_hint(e, "!kvctl %.*s …; help %s", (int)n, word, page);
        return true;
    }
    char mark[80];
    snprintf(mark, sizeof mark, " %.*s ", (int)n, word);
    if (hint_word("shell", word, n, e))
        return true;
    bool is_program = strstr(programs, mark);
    if (is_program)
        kv_err_hint(e, "!%.*s runs it in a shell", (int)n, word);
    return is_program;
}

bool hint_output(const char *word, size_t n, kv_err *e)
{
    bool is = n >= 2 && memcmp(word, "-o", 2) == 0;
    if (is)
        kv_err_hint(e, "merge, patch and apply have --out OUT; convert ends in it: convert A OUT");
    return is;
}

bool hint_shell_path(const char *statement, size_t n, kv_err *e)
{
    size_t end = 0, dots = strspn(statement, "."), slash = dots ? dots : *statement == '~';
    while (end < n && !strchr(" \n;", statement[end]))
        end++;
    bool is = dots <= 2 && slash + 1 < end && statement[slash] == '/';
    if (is)
        kv_err_hint(e, "!%.*s runs a program in a shell; source runs a script of kvctl", (int)end,
                    statement);
    return is;
}

/* ---- Statements of Python ---- */

static const struct {
    const char *word, *why;
} statements[] = {
    {"class", "there are no classes"}, {"try", "there is no try"}, {"except", "there is no try"},
    {"finally", "there is no try"}, {"with", "the language has no `with`"},
    {"del", "there is no del"}, {"global", "a function sets no variables around it"},
    {"nonlocal", "a function sets no variables around it"}, {"raise", "there is no raise"},
    {"lambda", "there is no lambda"}, {"yield", "there are no generators"},
    {"async", "there is no async"}, {"await", "there is no async"}, {"match", "there is no match"}};

/* Returns true if the text behind this word follows neither a variable nor a call. */
static bool begins_statement(const parser *p, uint32_t end)
{
    bool blank = lex_is_blank(parse_char(p, end));
    char c = parse_char(p, parse_past_blanks(p, end));
    bool value = lex_is_word_char(c) || c == '"' || c == '\'';
    return c == ':' || c == '\n' || c == '\0' || (blank && value);
}

bool refuse_statement(parser *p)
{
    token t = *parse_peek(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!parse_is_word(p, statements[i].word) || !begins_statement(p, t.end))
            continue;
        parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "%s", statements[i].why);
        return hint_word("statement", statements[i].word, strlen(statements[i].word), p->e);
    }
    if (t.kind == TOK_NAME && parse_char(p, t.end) == ':' && !parse_is_word(p, "else")) {
        parse_fail(p, t.end, t.end + 1, KV_E_UNSUPPORTED, "a name has no type");
        kv_err_hint(p->e, "x = 3");
        return true;
    }
    return false;
}

bool refuse_lambda(parser *p)
{
    token t = *parse_peek(p);
    if (!parse_is_word(p, "lambda") || !begins_statement(p, t.end))
        return false;
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "there is no lambda");
    kv_err_hint(p->e, "an updater is a rule, set-updater { stored += input * 2 }, or a "
                      "def f(key, input, stored): …");
    return true;
}

bool refuse_module(parser *p)
{
    static const char *const known[] = {"mxnet", "mx",  "kvstore",   "numpy", "np",
                                        "nd",    "d2l", "__future__"};
    token t = *parse_peek(p);
    const char *name = t.kind == TOK_NAME ? parse_token_text(p, &t) : NULL;
    if (!name || NAME_AMONG(name, known) >= 0)
        return p->e->code != KV_OK;
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "there is no module `%s`", name);
    const char *file = p->lx.src->name, *dot = file ? strrchr(file, '.') : NULL;
    if (dot && strcmp(dot, ".py") == 0)
        kv_err_hint(p->e, "python3 runs a program of Python; kvctl launch --python, one a rank");
    hint_word("module", name, strlen(name), p->e);
    kv_err_hint(p->e, "all functions are there without an import: help lists them");
    return true;
}

bool hint_name(const char *name, kv_err *e)
{
    size_t n = strlen(name);
    return hint_word("name", name, n, e) || hint_word("module", name, n, e);
}
