/* Help as JSON: everything comes from the tables. */
#include "cmd/help.h"

#include <string.h>

#include "io/json_writer.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/read_unit.h"

static const char *arg_kind_name(arg_kind kind)
{
    switch (kind) {
    case ARG_KEYS:
        return "keys";
    case ARG_VALUE:
        return "value";
    case ARG_VALUES:
        return "values";
    case ARG_EXPRS:
        return "exprs";
    case ARG_WORD:
        return "word";
    case ARG_GLOB:
        return "glob";
    case ARG_NAME:
        return "name";
    case ARG_FILE:
    case ARG_SOURCE:
        return "file";
    case ARG_PATH:
        return "path";
    case ARG_PATHS:
        return "paths";
    case ARG_RULE:
    case ARG_MERGE:
        return "rule";
    case ARG_HEREDOC:
        return "heredoc";
    case ARG_CODE:
        return "code";
    case ARG_SWITCH:
        return "switch";
    case ARG_BLOCK:
        return "block";
    case ARG_STATEMENT:
        return "statement";
    case ARG_EXPLAINED:
        return "switch or command";
    case ARG_END:
        break;
    }
    return "end";
}

static const char *const option_kinds[] = {
    [OPTION_INT] = "integer",
    [OPTION_VALUE] = "value",
    [OPTION_NEEDED] = "value",
    [OPTION_NAME] = "name",
    [OPTION_WORD] = "word",
    [OPTION_FILE] = "file",
    [OPTION_VALUES] = "values",
    [OPTION_PATH] = "path",
    [OPTION_OUTPUT] = "path",
    [OPTION_RAW] = "text",
    [OPTION_RAWS] = "texts",
    [OPTION_FLAG] = "flag",
};

/* n bytes of text, without blanks at the end. */
static void put_part(json_writer *w, const char *name, const char *text, size_t n)
{
    buf part = {0};
    while (n > 0 && text[n - 1] == ' ')
        n--;
    buf_put(&part, text, n);
    json_text(w, name, buf_text(&part));
    w->out->failed = w->out->failed || part.failed;
    buf_release(&part);
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
    buf text = {0};
    size_t n = 0;
    do {
        n += lines[n] == '\n';
        n += strcspn(lines + n, "\n");
        buf_clear(&text);
        buf_put(&text, lines, n);
    } while (lines[n] && !text.failed && !unit_is_complete(text.data, text.len));
    out->failed = out->failed || text.failed;
    buf_release(&text);
    return n;
}

/* Examples "what to type  # what it does". */
static void put_examples(json_writer *w, const char *lines)
{
    json_begin(w, "examples", '[');
    while (lines && *lines) {
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
        json_text(w, "kind", arg_kind_name(a->kind));
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
    buf usage = {0};
    command_usage(&usage, c);
    json_begin(w, NULL, '{');
    put_names(w, c->name, &usage, c->summary);
    put_arguments(w, c);
    put_examples(w, c->examples);
    put_list(w, "see", c->see);
    put_list(w, "fails", c->fails);
    json_end(w, '}');
    buf_release(&usage);
}

static void put_function(json_writer *w, const function *f)
{
    buf usage = {0};
    function_usage(&usage, f);
    json_begin(w, NULL, '{');
    put_names(w, f->name, &usage, f->help);
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
    buf_release(&usage);
}

void help_json(buf *out, const command *c, const function *f)
{
    bool all = !c && !f;
    json_writer w = {.out = out};
    json_begin(&w, NULL, '{');
    json_int(&w, "v", 1);
    json_begin(&w, "commands", '[');
    for (const command *one = registry.commands; one->name; one++)
        if (all || one == c)
            put_command(&w, one);
    json_end(&w, ']');
    json_begin(&w, "functions", '[');
    for (const function *one = registry.functions; one->name; one++)
        if (all || one == f)
            put_function(&w, one);
    json_end(&w, ']');
    json_end(&w, '}');
    buf_char(out, '\n');
}
