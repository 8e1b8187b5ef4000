/* help and version, as text and as JSON: everything comes from the tables. */
#include "cmd/help.h"

#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "io/json_writer.h"
#include "launch/launch_options.h"
#include "merge/merge_texts.h"
#include "options/options.h"
#include "options/shell_option.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/function.h"
#include "syntax/read_unit.h"
#include "term/line.h"

/* ---- JSON ---- */

static const char *const arg_kinds[] = {
    [ARG_KEYS] = "keys",       [ARG_VALUE] = "value",
    [ARG_VALUES] = "values",   [ARG_EXPRS] = "exprs",
    [ARG_WORD] = "word",       [ARG_GLOB] = "glob",
    [ARG_NAME] = "name",       [ARG_FILE] = "file",
    [ARG_SOURCE] = "file",     [ARG_PATH] = "path",
    [ARG_PATHS] = "paths",     [ARG_RULE] = "rule",
    [ARG_MERGE] = "rule",      [ARG_HEREDOC] = "heredoc",
    [ARG_CODE] = "code",       [ARG_SWITCH] = "switch",
    [ARG_BLOCK] = "block",     [ARG_STATEMENT] = "statement",
    [ARG_EXPLAINED] = "switch or command",
};

static const char *const option_kinds[] = {
    [OPTION_INT] = "integer",   [OPTION_VALUE] = "value", [OPTION_NEEDED] = "value",
    [OPTION_NAME] = "name",     [OPTION_WORD] = "word",   [OPTION_FILE] = "file",
    [OPTION_VALUES] = "values", [OPTION_PATH] = "path",   [OPTION_OUTPUT] = "path",
    [OPTION_RAW] = "text",      [OPTION_RAWS] = "texts",  [OPTION_FLAG] = "flag",
};

/* n bytes of text, without blanks at the end. */
static void put_part(json_writer *w, const char *name, const char *text, size_t n)
{
    own_buf part = {0};
    while (n > 0 && text[n - 1] == ' ')
        n--;
    buf_put(&part, text, n);
    json_text(w, name, buf_text(&part));
    w->out->failed = w->out->failed || part.failed;
}

/* "a, b" as a list of two. */
static void put_list(json_writer *w, const char *name, const char *words)
{
    json_begin(w, name, '[');
    while (words && *words) {
        size_t n = strcspn(words, ",");
        put_part(w, NULL, words, n);
        words += n;
        words += strspn(words, ", ");
    }
    json_end(w, ']');
}

/* The bytes of the first example: a line, and those behind it that it is not complete without. The
 * output is marked when there is no memory to find out. */
static size_t example_length(const char *lines, buf *out)
{
    own_buf text = {0};
    size_t n = 0;
    do {
        n += lines[n] == '\n';
        n += strcspn(lines + n, "\n");
        buf_clear(&text);
        buf_put(&text, lines, n);
    } while (lines[n] && !text.failed && !unit_is_complete(text.data, text.len));
    out->failed = out->failed || text.failed;
    return n;
}

/* The section of a command. */
typedef struct command_page {
    buf text;
    const char *summary, *see, *fails; /* a line each; see, fails: NULL where it has none */
    const char *examples;              /* "what to type  # what it does" */
} command_page;

static void command_page_release(command_page *p)
{
    buf_release(&p->text);
}
#define own_page OWN(command_page_release) command_page

/* Without memory out is marked as failed. */
static command_page command_page_of(const command *c, buf *out)
{
    command_page p = {.summary = "", .examples = ""};
    size_t n;
    const char *section = help_section(text_commands, c->name, (int)strlen(c->name), &n);
    buf_put(&p.text, section ? section : "\n", section ? n : 1);
    out->failed |= p.text.failed;
    if (p.text.failed)
        return p;
    char *at = p.text.data;
    p.summary = strsep(&at, "\n");
    p.see = strncmp(at, "see: ", 5) == 0 ? strsep(&at, "\n") + 5 : NULL;
    p.fails = strncmp(at, "fails: ", 7) == 0 ? strsep(&at, "\n") + 7 : NULL;
    p.examples = at;
    return p;
}

void command_summary(buf *out, const command *c)
{
    own_page p = command_page_of(c, out);
    buf_add(out, p.summary);
}

static void put_examples(json_writer *w, const char *lines)
{
    json_begin(w, "examples", '[');
    while (*lines) {
        size_t n = example_length(lines, w->out), at = n;
        for (size_t i = 1; i + 1 < n; i++)
            if (memcmp(lines + i - 1, " # ", 3) == 0)
                at = i;
        json_begin(w, NULL, '{');
        put_part(w, "input", lines, at);
        if (at < n)
            put_part(w, "about", lines + at + 2, n - at - 2);
        else
            json_text(w, "about", NULL);
        json_end(w, '}');
        lines += n + (lines[n] == '\n');
    }
    json_end(w, ']');
}

static void put_arguments(json_writer *w, const command *c)
{
    json_begin(w, "args", '[');
    for (const command_arg *a = c->args; a->kind != ARG_END; a++) {
        json_begin(w, NULL, '{');
        json_text(w, "kind", arg_kinds[a->kind]);
        json_text(w, "name", a->name);
        json_bool(w, "optional", a->optional);
        json_end(w, '}');
    }
    json_end(w, ']');
    json_begin(w, "options", '[');
    for (const command_option *o = c->options; o->name; o++) {
        json_begin(w, NULL, '{');
        json_text(w, "kind", option_kinds[o->kind]);
        json_text(w, "name", o->name);
        json_text(w, "value", o->value);
        json_bool(w, "optional", !command_option_is_needed(o));
        json_end(w, '}');
    }
    json_end(w, ']');
    json_bool(w, "params", c->flags & COMMAND_PARAMS);
    json_bool(w, "gives", c->flags & COMMAND_GIVES);
}

static void put_names(json_writer *w, const char *name, const buf *usage, const char *summary)
{
    json_text(w, "name", name);
    json_text(w, "usage", buf_text(usage));
    json_text(w, "summary", summary);
    w->out->failed = w->out->failed || usage->failed;
}

static void put_command(json_writer *w, const command *c)
{
    own_buf usage = {0};
    own_page p = command_page_of(c, w->out);
    command_usage(&usage, c);
    json_begin(w, NULL, '{');
    put_names(w, c->name, &usage, p.summary);
    put_arguments(w, c);
    put_examples(w, p.examples);
    put_list(w, "see", p.see);
    put_list(w, "fails", p.fails);
    json_end(w, '}');
}

static void put_function(json_writer *w, const function *f)
{
    own_buf usage = {0};
    function_usage(&usage, f);
    json_begin(w, NULL, '{');
    put_names(w, f->name, &usage, f->help);
    if (function_def(f))
        json_text(w, "text", function_def(f));
    json_begin(w, "params", '[');
    for (int i = 0; f->params[i]; i++) {
        size_t n = strcspn(f->params[i], "=");
        json_begin(w, NULL, '{');
        put_part(w, "name", f->params[i], n);
        json_bool(w, "optional", f->params[i][n]);
        json_end(w, '}');
    }
    json_end(w, ']');
    json_end(w, '}');
}

/* Appends one object, {"v":1,"commands":[…],"functions":[…]}: all of them, or what a word names. */
static void help_json(buf *out, const char *word)
{
    json_writer w = {.out = out};
    json_begin(&w, NULL, '{');
    json_int(&w, "v", 1);
    json_begin(&w, "commands", '[');
    for (const command *one = registry.commands; one->name; one++)
        if (!word || one == command_find(word, strlen(word))) /* with - or _ */
            put_command(&w, one);
    json_end(&w, ']');
    json_begin(&w, "functions", '[');
    for (int i = 0; function_at(i); i++)
        if (!word || strcmp(function_at(i)->name, word) == 0)
            put_function(&w, function_at(i));
    json_end(&w, ']');
    json_end(&w, '}');
    buf_char(out, '\n');
}

/* ---- Text ---- */

static void command_help(buf *out, const command *c)
{
    own_buf usage = {0};
    own_page p = command_page_of(c, out);
    command_usage(&usage, c);
    help_usage(out, buf_text(&usage));
    buf_printf(out, "  %s\n", p.summary);
    for (const char *line = p.examples; *line; line = strchr(line, '\n') + 1)
        buf_printf(out, "    %.*s\n", (int)strcspn(line, "\n"), line);
    out->failed |= usage.failed;
    if (c->method) {
        buf_add(out, "As a method: ");
        command_call_usage(out, c);
        buf_add(out, ".\n");
    }
    if (p.see)
        buf_printf(out, "See also: %s.\n", p.see);
    if (p.fails)
        buf_printf(out, "Fails with: %s.\n", p.fails);
}

/* A name that is too long for its column has a line of its own. */
static void column(buf *out, const char *name, const char *text)
{
    int n = (int)strlen(name) + 2;
    bool fits = n < HELP_COLUMN;
    buf_printf(out, fits ? "  %s" : "  %s\n", name);
    help_lines(out, text, fits ? n : 0);
}

static void command_column(buf *out, const command *c)
{
    own_page p = command_page_of(c, out);
    column(out, c->name, p.summary);
}

static void overview(buf *out)
{
    buf_add(out, "Commands (help NAME says more, ?NAME too):\n");
    for (const command *c = registry.commands; c->name; c++)
        command_column(out, c);
    buf_add(out, text_statements);
    buf_add(out, "Functions:");
    const function *f;
    size_t width = 80;
    for (int i = 0; (f = function_at(i)); i++) {
        if (i > 0 && function_def(f) && !function_def(function_at(i - 1))) {
            buf_add(out, "\nFunctions in the language itself (help NAME shows them):");
            width = 80;
        }
        if (width + strlen(f->name) + 1 > 76) {
            buf_add(out, "\n ");
            width = 1;
        }
        buf_printf(out, " %s", f->name);
        width += strlen(f->name) + 1;
    }
    buf_char(out, '\n');
}

/* The methods of a store: the commands that have a call form. */
static void method_list(buf *out)
{
    buf_add(out, "Methods of a store (help NAME says more; help types: what stores there are):\n");
    for (const command *c = registry.commands; c->name; c++) {
        own_buf call = {0};
        own_page p = command_page_of(c, out);
        if (!c->method || strncmp(c->method, "create", 6) == 0)
            continue;
        command_call_usage(&call, c);
        buf_printf(out, "  %s\n      %s\n", buf_text(&call), p.summary);
        out->failed |= call.failed;
    }
    buf_add(out,
            "  kv = kv.create(name='local')\n      make a store and use it\n"
            "All other commands with keys, files and names have a call form, too: kv.list().\n");
}

/* What to try first for a word that names no single command; *n: its bytes. NULL: nothing. Words of
 * several parts, as `weight decay` and weight_decay, are found as weight-decay. */
static const char *concern_of(const char *word, int *n)
{
    char sought[64];
    snprintf(sought, sizeof sought, "%s", word);
    for (char *at = sought; (at = strpbrk(at, " _"));)
        *at = '-';
    return help_row(text_concerns, sought, false, n);
}

/* Returns true if each word of `words`, parted by blanks, stands in one of the texts. */
static bool mention(const char *const texts[3], const char *words)
{
    bool all = true;
    while (all && *(words += strspn(words, " "))) {
        char word[64];
        size_t n = strcspn(words, " ");
        bool plural = n > 3 && words[n - 1] == 's'; /* `sum keys`: a text may have one key */
        snprintf(word, sizeof word, "%.*s", (int)n - plural, words);
        all = false;
        for (int i = 0; i < 3 && !all; i++)
            all = texts[i] && strcasestr(texts[i], word);
        words += n;
    }
    return all;
}

/* Copies a word with z in -ise, -ising and -isation, as the tables have it. False without these. */
static bool with_z(char made[64], const char *word)
{
    bool any = false;
    snprintf(made, 64, "%s", word);
    for (char *at = made; (at = strcasestr(at, "is")); at += 2)
        if (at[2] && strchr("eiaEIA", at[2])) {
            at[1] = 'z';
            any = true;
        }
    return any;
}

/* Hints at names of pages that are close to a word; json: at those of commands and functions, which
 * `help --json` lists. */
static void suggest_pages(const char *word, bool json, kv_err *e)
{
    suggest near = {.word = word};
    const char *optimizer;
    for (const command *c = registry.commands; c->name; c++)
        suggest_add(&near, c->name);
    for (int i = 0; function_at(i); i++)
        suggest_add(&near, function_at(i)->name);
    for (int i = 0; !json && help_topic(i); i++)
        suggest_add(&near, help_topic(i));
    for (int i = 0; !json && kv_optimizer_text(i, &optimizer); i++)
        suggest_add(&near, optimizer);
    suggest_done(&near, e);
}

/* Prints what to try first for a word that does not name anything; or else the commands and
 * functions whose name or help mentions it, or each of several words. Returns true if it found
 * something. A word of one or two letters is not searched for: too many texts contain it. */
static bool search(buf *out, const char *word)
{
    own_buf found = {0};
    char other[64];
    int n;
    const char *first = concern_of(word, &n);
    if (first) {
        buf_printf(out, "%s: %.*s\n", word, n, first);
        return true;
    }
    for (const command *c = registry.commands; c->name && strlen(word) > 2; c++) {
        own_page p = command_page_of(c, &found);
        if (mention((const char *[]){c->name, p.summary, p.examples}, word))
            column(&found, c->name, p.summary);
    }
    const function *f;
    for (int i = 0; (f = function_at(i)) && strlen(word) > 2; i++)
        if (mention((const char *[]){f->name, f->help, NULL}, word))
            column(&found, f->name, f->help);
    kv_err near = {.code = KV_E_NAME};
    suggest_pages(word, false, &near);
    if (found.len > 0)
        buf_printf(out, "Nothing is called `%s`; %s%s mention it:\n%s", word, near.hint,
                   *near.hint ? " These" : "these", buf_text(&found));
    out->failed |= found.failed;
    return found.len > 0 || (with_z(other, word) && search(out, other));
}

/* ---- Topics: pages that are about no single command or function ---- */

static const struct topic {
    const char *name;
    const char *text;
    void (*show)(buf *out); /* where there is no text; NULL: of the session, list_options */
} topics[] = {
    {"attach", NULL, attach_help}, {"checkpoints", checkpoints_text, NULL},
    {"environment", environment_text, NULL}, {"jobs", NULL, jobs_help}, {"kv", NULL, method_list},
    {"kvstore", NULL, method_list}, {"language", language_text, NULL},
    {"launch", NULL, launch_help}, {"lecture", lecture_text, NULL},
    {"optimizer", NULL, optimizer_list}, {"options", NULL, NULL}, {"python", python_text, NULL},
    {"rules", rules_text, NULL}, {"seed", text_seed, NULL}, {"types", NULL, type_list}};

enum { NTOPICS = sizeof topics / sizeof *topics };

const char *help_topic(int i)
{
    return i < NTOPICS ? topics[i].name : NULL;
}

/* Appends a topic's page. False when there is none of that name. */
static bool topic_help(const session *s, buf *out, const char *name)
{
    for (int i = 0; i < NTOPICS; i++) {
        const struct topic *t = &topics[i];
        void (*show)(buf *) = t->show ? t->show : s->list_options;
        if (strcasecmp(t->name, name) != 0 || (!t->text && !show))
            continue;
        if (t->text)
            buf_add(out, t->text);
        else
            show(out);
        return true;
    }
    return false;
}

static int not_found(const char *word, bool json, kv_err *e)
{
    kv_err_set(e, KV_E_NAME,
             json ? "there is no command or function `%s`" : "there is no help on `%s`", word);
    suggest_pages(word, json, e);
    return kv_err_hint(e, json ? "`help --json` lists them" : "`help` lists everything");
}

/* Words that a second one may follow, the name of one page. */
static const struct help_group {
    const char *name, *what;   /* what names the second word in an error */
    const char *lacks, *lists; /* the error where no page has that name, and its hint */
    bool (*show)(buf *out, const char *word);
    void (*suggest)(const char *word, kv_err *e); /* hints close names; or NULL */
} groups[] = {
    {"optimizer", "the name of an optimizer", "there is no optimizer",
     "`help optimizer` lists them", optimizer_show, optimizer_suggest},
    {"merge", "the name of a merge", "there is no merge", "`help merge` lists them", merges_show,
     merge_text_suggest},
    {"language", "a word of the language", "the page on the language has no section",
     "`help language` shows all of it", language_section, NULL},
};

/* The group of a word, in any case: "optimizer", "merge", "language"; or NULL. */
static const struct help_group *group_of(const char *name)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcasecmp(groups[i].name, name) == 0)
            return &groups[i];
    return NULL;
}

int help_words(buf *out, const char *first, const char *second, kv_err *e)
{
    const struct help_group *g = group_of(first);
    char both[160];
    snprintf(both, sizeof both, "%s %s", first, second);
    const char *words[] = {first, second};
    bool found = (g && g->show(out, second)) ||
                 (strcasecmp(first, "error") == 0 && search(out, first)) || /* a code follows */
                 ((!g || strlen(second) > 2) && search(out, both));
    for (int i = 0; i < 2 && !found; i++)
        found = concern_of(words[i], &(int){0}) && search(out, words[i]);
    if (found || !g)
        return found ? KV_OK : not_found(both, false, e);
    kv_err_set(e, KV_E_NAME, "%s `%.64s`", g->lacks, second);
    if (g->suggest)
        g->suggest(second, e);
    return kv_err_hint(e, "%s", g->lists);
}

/* Appends what a word names: a function may have the name of a command, and either that of a topic
 * or of a section on the language. Types, optimizers and merges are looked for where it names none
 * of these. Returns false when it names nothing. */
static bool show_word(const session *s, buf *out, const char *word)
{
    const command *c = command_find(word, strlen(word));
    const function *f = function_find(word);
    bool topic = topic_help(s, out, word);
    if (c) {
        command_help(out, c);
        if (c->args[0].kind == ARG_MERGE) {
            buf_add(out, "Rules, which help merge NAME shows:\n");
            merges_list(out);
        }
    }
    if (f) {
        function_usage(out, f);
        buf_printf(out, "\n  %s\n", f->help);
        if (function_def(f))
            buf_printf(out, "Written in the language itself:\n%s\n", function_def(f));
    }
    if (f && merge_text_find(word))
        buf_printf(out, "help merge %s: the merge of that name.\n", word);
    topic = topic || (!c && language_section(out, word));
    int n;
    const char *concern = c || f ? concern_of(word, &n) : NULL;
    if (concern)
        buf_printf(out, "In general: %.*s\n", n, concern);
    if (c || f || topic || type_show(out, word) || optimizer_show(out, word) ||
        merges_show(out, word))
        return true;
    if (session_find_store(s, word) < 0)
        return false;
    method_list(out);
    return true;
}

/* Appends what an option means to kvctl, launch, attach and jobs, and lists the commands that have
 * one of that name. Returns false when nothing has it. */
static bool option_help(buf *out, const char *word)
{
    static const struct {
        const shell_table *table;
        const char *of;
    } tables[] = {{&options_table, "kvctl"},
                  {&launch_table, "kvctl launch"},
                  {&attach_table, "kvctl attach"},
                  {&jobs_table, "kvctl jobs"}};
    size_t from = out->len, n = strlen(word);
    bool named = n > 2 && word[1] == '-', any = false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const shell_option *o = shell_option_find(tables[i].table, word, n);
        if (!o)
            continue;
        buf_printf(out, "%s:\n", tables[i].of);
        shell_option_line(out, o, 26);
    }
    for (const command *c = registry.commands; c->name && named; c++) {
        if (!command_option_find(c, word + 2, n - 2))
            continue;
        buf_add(out, any ? "" : "Commands that have it:\n");
        command_column(out, c);
        any = true;
    }
    return out->len > from;
}

/* One word, or two: optimizer adam, 'merge slerp', or two that are searched for together. */
static int help_on(session *s, const ast *call, buf *text, result *out, kv_err *e)
{
    static const char any[] = "a word to look up";
    const ast *node = call->kid[0], *more = call->n > 1 ? call->kid[1] : NULL;
    const char *word = eval_word(s, node, any, out, e);
    const struct help_group *g = word && more ? group_of(word) : NULL;
    const char *second = word && more ? eval_word(s, more, g ? g->what : any, out, e) : NULL;
    if (!word || (more && !second))
        return e->code;
    char other[64];
    const char *blank = strchr(word, ' ');
    if (!more && blank && blank - word < (ptrdiff_t)sizeof other) {
        snprintf(other, sizeof other, "%.*s", (int)(blank - word), word);
        word = other;
        second = blank + 1;
    }
    if (second)
        return help_words(text, word, second, e) ? unit_at(s, more ? more : node, e) : KV_OK;
    bool found = (*word == '-' && option_help(text, word)) || show_word(s, text, word) ||
                 (with_z(other, word) && show_word(s, text, other)) || search(text, word);
    if (!found && not_found(word, false, e))
        unit_at(s, node, e);
    return e->code;
}

/* The tables of commands and functions: all, or what one word names. */
static int help_as_json(session *s, const ast *call, buf *text, result *out, kv_err *e)
{
    const ast *node = call->kid[0];
    if (call->n > 1 && call->kid[1])
        return unit_err(s, call->kid[1], e, KV_E_USAGE, "help --json takes one word");
    const char *word = node ? eval_word(s, node, "a word to look up", out, e) : NULL;
    if (node && !word)
        return e->code;
    if (word && !command_find(word, strlen(word)) && !function_find(word) &&
        not_found(word, true, e))
        return unit_at(s, node, e);
    help_json(text, word);
    return KV_OK;
}

int cmd_help(session *s, const ast *call, result *out, kv_err *e)
{
    buf text = {0};
    int rc = KV_OK;
    out->as_json = command_option_of(call, "json") != NULL;
    if (out->as_json)
        rc = help_as_json(s, call, &text, out, e);
    else if (call->kid[0])
        rc = help_on(s, call, &text, out, e);
    else
        overview(&text);
    return result_text(out, &text, rc, e);
}

void version_build(buf *out)
{
#if defined(__clang__)
    buf_printf(out, "clang %s", __clang_version__);
#else
    buf_printf(out, "gcc %s", __VERSION__);
#endif
    buf_printf(out, ", %d-bit, %s GNU Readline", (int)sizeof(void *) * 8,
               line_can_edit() ? "with" : "without");
}

/* The names of store types by whether they are available. */
typedef struct type_names {
    buf *here, missing;
} type_names;

static int add_type_name(void *arg, const kv_field *fields, int n, kv_err *e)
{
    type_names *names = arg;
    bool here = field_number(fields, n, "available");
    (void)e;
    buf_printf(here ? names->here : &names->missing, " %s", field_text(fields, n, "name"));
    return KV_OK;
}

void version_text(buf *out)
{
    const char *terms = line_can_edit()
                            ? "Apache-2.0; linked with GNU Readline, so this program: GPL-3"
                            : "Apache-2.0; without GNU Readline";
    type_names names = {.here = out};
    buf_printf(out, "kvctl %s, libkvstore %s\n", KV_VERSION, kv_version());
    version_build(out);
    buf_add(out, "\ntypes:");
    bool lacks = kv_describe(NULL, "types", add_type_name, &names, NULL) == KV_E_MEMORY;
    if (names.missing.len > 0)
        buf_printf(out, "; not available:%s", buf_text(&names.missing));
    buf_printf(out, "\n%s\n", terms);
    out->failed = out->failed || lacks || names.missing.failed;
    buf_release(&names.missing);
}

int cmd_version(session *s, const ast *call, result *out, kv_err *e)
{
    buf text = {0};
    (void)s, (void)call;
    version_text(&text);
    return result_text(out, &text, KV_OK, e);
}
