/* The topics of help beside commands and functions: sections of the page on the language, merges
 * and optimizers, whose rules are shown whole, and store types. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "cmd/help.h"
#include "kvstore.h"
#include "lang/lex.h"
#include "lang/parse.h"
#include "merge/merge_texts.h"
#include "session/result.h"
#include "syntax/rules.h"
#include "vm/rule.h"

/* ---- Lines of lists and usages ---- */

enum { WIDTH = 80 /* of a terminal */ };

/* Words from a column on; at: the column that the line has reached. */
static void lines_from(buf *out, const char *text, int column, int at)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at > column && at + 1 + (int)n > WIDTH) {
            buf_char(out, '\n');
            at = 0;
        }
        int blanks = at < column ? column - at : 1;
        buf_printf(out, "%*s%.*s", blanks, "", (int)n, text);
        at += blanks + (int)n;
        text += n;
        text += strspn(text, " ");
    }
    if (at > 0)
        buf_char(out, '\n');
}

void help_lines(buf *out, const char *text, int at)
{
    lines_from(out, text, HELP_COLUMN, at);
}

void help_usage(buf *out, const char *usage)
{
    size_t at = 0;
    while (*usage) {
        /* The length of an argument, of an option with its value, or of what brackets enclose. */
        size_t n = 0;
        for (int depth = 0; usage[n]; n++) {
            depth += (usage[n] == '[') - (usage[n] == ']');
            if (usage[n] == ' ' && depth == 0 &&
                (usage[n + 1] == '[' || strncmp(usage + n + 1, "--", 2) == 0))
                break;
        }
        if (at > 0 && at + 1 + n > WIDTH) {
            buf_add(out, "\n   ");
            at = 3;
        }
        buf_printf(out, at > 0 ? " %.*s" : "%.*s", (int)n, usage);
        at += (at > 0) + n;
        usage += n;
        usage += strspn(usage, " ");
    }
    buf_char(out, '\n');
}

/* ---- The language ---- */

/* The row behind one of a text of rows. */
static const char *next_row(const char *row)
{
    do
        row += strcspn(row, "\n") + 1;
    while (*row == ' ');
    return row;
}

/* Returns true if the word, or its plural, is among the words of a line. */
static bool has_word(const char *words, const char *word, bool plural)
{
    size_t n = strlen(word);
    for (; *words && *words != '\n'; words += strcspn(words, " \n"), words += *words == ' ') {
        size_t length = strcspn(words, " \n");
        if (n > 0 && strncasecmp(words, word, n) == 0 &&
            (length == n || (plural && length == n + 1 && words[n] == 's')))
            return true;
    }
    return false;
}

const char *help_row(const char *text, const char *word, bool plural, int *n)
{
    for (const char *row = text; *row; row = next_row(row)) {
        const char *below = row + strcspn(row, "\n") + 3;
        *n = (int)(next_row(row) - below) - 1;
        if (has_word(row, word, plural))
            return below;
    }
    return NULL;
}

const char *help_section(const char *page, const char *heading, int length, size_t *n)
{
    char mark[80];
    snprintf(mark, sizeof mark, "\n## %.*s\n", length, heading);
    const char *at = strstr(page, mark), *text = at ? at + strlen(mark) : "";
    const char *end = strstr(text, "\n## ");
    *n = end ? (size_t)(end - text) : strlen(text);
    return at ? text : NULL;
}

bool language_section(buf *out, const char *word)
{
    int length;
    size_t n;
    const char *heading = help_row(text_sections, word, true, &length);
    const char *text = heading ? help_section(language_text, heading, length, &n) : NULL;
    if (!text)
        return false;
    buf_printf(out, "%.*s\n", length, heading);
    buf_put(out, text, n);
    buf_add(out, text[n] ? "\nhelp language: the whole page.\n" : "");
    return true;
}

void language_words(void (*offer)(void *arg, const char *word), void *arg)
{
    for (const char *row = text_sections; *row; row = next_row(row)) {
        char words[100], *rest = words, *word;
        snprintf(words, sizeof words, "%.*s", (int)strcspn(row, "\n"), row);
        while ((word = strsep(&rest, " ")))
            if (lex_is_letter(*word))
                offer(arg, word);
    }
}

/* ---- Merges ---- */

/* The first sentence of the comment at the top, in one line: a point before a blank and a letter
 * ends it, so that "et al. 2022" does not. */
static void put_title(buf *out, const char *text)
{
    char before = '\0';
    while (*text == '#') {
        text += strspn(text, "# ");
        if (before == '.' && !lex_is_digit(*text))
            return;
        for (; *text && *text != '\n'; before = *text++) {
            if (before == '.' && *text == ' ' && !lex_is_digit(text[1]))
                return;
            buf_char(out, *text);
        }
        text += *text == '\n';
        buf_char(out, ' ');
    }
}

/* --base CKPT, --density 0.2 in 0 .. 1, --scale 1.0 */
static void put_parameters(buf *out, const char *text)
{
    rule_ast *rule;
    own_arena nodes = {0};
    source src = {.name = "", .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    bool read = parse_merge(&rule, &src, &nodes, &(kv_err){0}) == KV_OK;
    out->failed |= !read; /* for want of memory: these texts are merges */
    if (read && rule_reader(rule, "base"))
        buf_add(out, "--base CKPT");
    for (int i = 0; read && i < rule->nparams; i++) {
        const rule_param *p = &rule->params[i];
        size_t n = strlen(p->name);
        const char *from = text + p->pos + n;
        from += strspn(from, " =");
        buf_add(out, out->len > 0 ? ", --" : "--");
        name_put(out, p->name, n, '-');
        buf_char(out, ' ');
        buf_put(out, from, p->end - (size_t)(from - text));
    }
}

void merges_list(buf *out)
{
    for (const merge_text *t = merge_texts; t->name; t++) {
        own_buf names = {0}, title = {0}, parameters = {0};
        buf_printf(&names, "  %s", t->name);
        put_title(&title, t->text);
        put_parameters(&parameters, t->text);
        for (; t[1].name && strcmp(t[1].text, t->text) == 0; t++)
            buf_printf(&names, ", %s", t[1].name);
        buf_add(out, buf_text(&names));
        help_lines(out, buf_text(&title), (int)names.len);
        help_lines(out, buf_text(&parameters), 0);
        out->failed |= names.failed || title.failed || parameters.failed;
    }
}

bool merges_show(buf *out, const char *name)
{
    const merge_text *t = merge_text_find(name);
    own_buf parameters = {0};
    if (!t)
        return false;
    put_parameters(&parameters, t->text);
    buf_printf(out, "# merge %s CKPT... --out OUT", name); /* a comment: the text stays a rule */
    buf_printf(out, parameters.len ? "; %s\n" : "\n", buf_text(&parameters));
    buf_add(out, t->text);
    out->failed |= parameters.failed;
    return true;
}

/* ---- Optimizers ---- */

void optimizer_list(buf *out)
{
    const char *name, *text, *other, *next;
    own_buf names = {0};
    for (int i = 0; (text = kv_optimizer_text(i, &name)); i++) {
        buf_clear(&names);
        buf_add(&names, name);
        /* an alias has the same text, and stands behind the first name */
        while ((next = kv_optimizer_text(i + 1, &other)) && strcmp(next, text) == 0) {
            buf_printf(&names, ", %s", other);
            i++;
        }
        buf_printf(out, "  %-14s ", buf_text(&names));
        text += strspn(text, "# ");
        buf_put(out, text, strcspn(text, "\n"));
        buf_char(out, '\n');
    }
    out->failed |= names.failed;
}

void optimizer_suggest(const char *word, kv_err *e)
{
    const char *name;
    suggest near = {.word = word, .by_first_letters = true};
    for (int i = 0; kv_optimizer_text(i, &name); i++)
        suggest_add(&near, name);
    suggest_done(&near, e);
}

bool optimizer_show(buf *out, const char *name)
{
    const char *text = optimizer_text(name);
    if (!text)
        return false;
    buf_add(out, text);
    buf_add(out,
            "Every optimizer takes these too; where the rule lists one, its default counts:\n");
    for (const optimizer_param *p = optimizer_params; p->name; p++) {
        own_buf option = {0};
        buf_add(&option, "--");
        name_put(&option, p->name, strlen(p->name), '-');
        buf_printf(out, "  %-20s %-15s %s\n", buf_text(&option), p->value, p->about);
        out->failed |= option.failed;
    }
    buf_add(out, text_schedules);
    return true;
}

/* ---- Store types ---- */

/* Help on store types. The library says which there are, and whether they work here; a text says
 * what those of the library do. */

/* The lines on a type; *n: their bytes. */
static const char *about_type(const char *name, size_t *n)
{
    static const char other[] = "  a type of a plugin, or another name for one: register\n";
    const char *text = help_section(text_types, name, (int)strlen(name), n);
    *n = text ? *n : strlen(other);
    return text ? text : other;
}

static int list_type(void *arg, const kv_field *fields, int n, kv_err *e)
{
    const char *name = field_text(fields, n, "name"), *reason = field_text(fields, n, "reason");
    size_t size;
    const char *about = about_type(name, &size) + 2;
    (void)e;
    buf_printf(arg, "  %-17s %.*s\n", name, (int)strcspn(about, "\n"), about);
    if (*reason)
        buf_printf(arg, "  %-17s not available: %s\n", "", reason);
    return KV_OK;
}

void type_list(buf *out)
{
    buf_add(out, "Types of stores (create TYPE; help TYPE says more):\n");
    if (kv_describe(NULL, "types", list_type, out, &(kv_err){0}))
        out->failed = true;
}

typedef struct wanted {
    buf *out;
    const char *name;
    bool found;
} wanted;

static int show_type(void *arg, const kv_field *fields, int n, kv_err *e)
{
    wanted *w = arg;
    const char *name = field_text(fields, n, "name"), *reason = field_text(fields, n, "reason"),
               *aliases = field_text(fields, n, "aliases");
    size_t size;
    const char *about = about_type(name, &size);
    (void)e;
    if (w->found || (strcasecmp(name, w->name) != 0 && !has_word(aliases, w->name, true)))
        return KV_OK;
    w->found = true;
    buf_printf(w->out, "create %s", name);
    buf_add(w->out, *aliases ? "   (also " : "");
    for (const char *c = aliases; *c; c++)
        buf_add(w->out, *c == ' ' ? ", " : (char[]){*c, '\0'});
    buf_add(w->out, *aliases ? ")\n\n" : "\n\n");
    buf_put(w->out, about, size);
    buf_add(w->out, "  here");
    lines_from(w->out, *reason ? reason : "available", 12, 6);
    return KV_OK;
}

bool type_show(buf *out, const char *name)
{
    wanted w = {.out = out, .name = name};
    if (kv_describe(NULL, "types", show_type, &w, &(kv_err){0}))
        out->failed = true;
    return w.found;
}
