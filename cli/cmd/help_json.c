/* Help as JSON: everything comes from the tables. */
#include "cmd/help_json.h"

#include <string.h>

#include "io/json.h"
#include "session/registry.h"
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
    case ARG_WORDS:
        return "words";
    case ARG_GLOB:
        return "glob";
    case ARG_NAME:
        return "name";
    case ARG_FILE:
    case ARG_SOURCE:
        return "file";
    case ARG_RULE:
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
    [OPTION_LIST] = "list",
    [OPTION_FLAG] = "flag",
};

/* n bytes of text in quotes, without blanks at the end. */
static void put_part(buf *out, const char *text, size_t n)
{
    buf part = {0};
    while (n > 0 && text[n - 1] == ' ')
        n--;
    buf_put(&part, text, n);
    json_write_text(out, buf_text(&part));
    out->failed = out->failed || part.failed;
    buf_release(&part);
}

static void put_field(buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    if (text)
        json_write_text(out, text);
    else
        buf_add(out, "null");
}

/* "a, b" as a list of two. */
static void put_list(buf *out, const char *name, const char *words)
{
    buf_printf(out, ",\"%s\":[", name);
    while (words && *words) {
        size_t n = strcspn(words, ",");
        put_part(out, words, n);
        words += n;
        words += strspn(words, ", ");
        if (*words)
            buf_char(out, ',');
    }
    buf_char(out, ']');
}

/* The bytes of the first example: a line, and those behind it that it is not complete without. */
static size_t example_length(const char *lines)
{
    buf text = {0};
    size_t n = 0;
    do {
        n += lines[n] == '\n';
        n += strcspn(lines + n, "\n");
        buf_clear(&text);
        buf_put(&text, lines, n);
    } while (lines[n] && !text.failed && !unit_is_complete(text.data, text.len));
    buf_release(&text);
    return n;
}

/* Examples "what to type  # what it does". */
static void put_examples(buf *out, const char *lines)
{
    buf_add(out, ",\"examples\":[");
    while (lines && *lines) {
        size_t n = example_length(lines), at = n;
        for (size_t i = 1; i + 1 < n; i++)
            if (memcmp(lines + i - 1, " # ", 3) == 0)
                at = i;
        buf_add(out, "{\"input\":");
        put_part(out, lines, at);
        buf_add(out, ",\"about\":");
        if (at < n)
            put_part(out, lines + at + 2, n - at - 2);
        else
            buf_add(out, "null");
        lines += n + (lines[n] == '\n');
        buf_add(out, *lines ? "}," : "}");
    }
    buf_char(out, ']');
}

static void put_arguments(buf *out, const command *c)
{
    buf_add(out, ",\"args\":[");
    for (const command_arg *a = c->args; a->kind != ARG_END; a++) {
        buf_printf(out, a > c->args ? ",{\"kind\":\"%s\"" : "{\"kind\":\"%s\"",
                   arg_kind_name(a->kind));
        put_field(out, "name", a->name);
        buf_printf(out, ",\"optional\":%s}", a->optional ? "true" : "false");
    }
    buf_add(out, "],\"options\":[");
    for (const command_option *o = c->options; o->name; o++) {
        buf_printf(out, o > c->options ? ",{\"kind\":\"%s\"" : "{\"kind\":\"%s\"",
                   option_kinds[o->kind]);
        put_field(out, "name", o->name);
        put_field(out, "value", o->value);
        buf_printf(out, ",\"optional\":%s}", o->kind == OPTION_NEEDED ? "false" : "true");
    }
    buf_printf(out, "],\"params\":%s,\"gives\":%s", c->flags & COMMAND_PARAMS ? "true" : "false",
               c->flags & COMMAND_GIVES ? "true" : "false");
}

static void put_command(buf *out, const command *c)
{
    buf usage = {0};
    command_usage(&usage, c);
    buf_printf(out, "{\"name\":\"%s\"", c->name);
    put_field(out, "usage", buf_text(&usage));
    put_field(out, "summary", c->summary);
    put_arguments(out, c);
    put_examples(out, c->examples);
    put_list(out, "see", c->see);
    put_list(out, "fails", c->fails);
    buf_char(out, '}');
    out->failed = out->failed || usage.failed;
    buf_release(&usage);
}

static void put_function(buf *out, const function *f)
{
    buf usage = {0};
    function_usage(&usage, f);
    buf_printf(out, "{\"name\":\"%s\"", f->name);
    put_field(out, "usage", buf_text(&usage));
    put_field(out, "summary", f->help);
    buf_add(out, ",\"params\":[");
    for (int i = 0; f->params[i]; i++) {
        size_t n = strcspn(f->params[i], "=");
        buf_add(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        put_part(out, f->params[i], n);
        buf_printf(out, ",\"optional\":%s}", f->params[i][n] ? "true" : "false");
    }
    buf_add(out, "]}");
    out->failed = out->failed || usage.failed;
    buf_release(&usage);
}

void help_json(buf *out, const command *c, const function *f)
{
    bool all = !c && !f, first = true;
    buf_add(out, "{\"v\":1,\"commands\":[");
    for (const command *one = registry.commands; one->name; one++) {
        if (!all && one != c)
            continue;
        buf_add(out, first ? "" : ",");
        put_command(out, one);
        first = false;
    }
    buf_add(out, "],\"functions\":[");
    first = true;
    for (const function *one = registry.functions; one->name; one++) {
        if (!all && one != f)
            continue;
        buf_add(out, first ? "" : ",");
        put_function(out, one);
        first = false;
    }
    buf_add(out, "]}\n");
}
