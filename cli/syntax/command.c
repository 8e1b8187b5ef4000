/* Commands are found by their words, and their usage is made from the table. */
#include "syntax/command.h"

#include <string.h>

#include "base/suggest.h"
#include "syntax/parse_statement.h"

const command *command_find(const char *word, size_t n)
{
    for (const command *c = registry.commands; c->name; c++)
        if (name_is_word(c->name, word, n))
            return c;
    return NULL;
}

const command_option *command_option_find(const command *c, const char *name, size_t n)
{
    for (const command_option *o = c->options; o->name; o++)
        if (name_is_word(o->name, name, n))
            return o;
    return NULL;
}

const command *command_find_method(const char *name)
{
    for (const command *c = registry.commands; c->name; c++) {
        const char *method = c->method;
        size_t n = method ? strcspn(method, "(") : 0;
        if (n > 0 && strlen(name) == n && memcmp(method, name, n) == 0)
            return c;
    }
    return command_find(name, strlen(name));
}

const char *command_params(const command *c)
{
    const char *open = c->method ? strchr(c->method, '(') : NULL;
    const char *colon = open ? strchr(open, ':') : NULL;
    return colon ? colon + 2 : open ? open + 1 : "";
}

const char *command_param_at(const char *params, int i, size_t *n)
{
    for (; i > 0 && *params; i--) {
        params += strcspn(params, ",)");
        params += strspn(params, ",) ");
    }
    *n = strcspn(params, ",=)"); /* a default stands behind = */
    return *n > 0 ? params : NULL;
}

int command_param_find(const char *params, const char *name, size_t n)
{
    size_t length;
    const char *param;
    for (int i = 0; (param = command_param_at(params, i, &length)); i++)
        if (length == n && memcmp(param, name, n) == 0)
            return i;
    return -1;
}

bool command_takes_paths(const command *c)
{
    arg_kind first = c->args[0].kind;
    return first == ARG_PATH || first == ARG_PATHS || first == ARG_MERGE;
}

int command_hidden(const char *name)
{
    int n = 0;
    const command *c = registry.commands;
    while (c->name && (c->name[0] != name[0] || strcmp(c->name, name) != 0))
        c++;
    if (!c->name || !command_takes_paths(c))
        return -1;
    for (const command *before = registry.commands; before < c; before++)
        n += command_takes_paths(before);
    return n;
}

bool command_is(const ast *node, int flags)
{
    return node->kind == STMT_COMMAND && (((const command *)node->u.other)->flags & flags);
}

bool command_can_be_called(const command *c)
{
    bool can = true;
    for (const command_arg *a = c->args; a->kind != ARG_END; a++)
        can &= a->kind < ARG_HEREDOC && a->kind != ARG_EXPRS && a->kind != ARG_SOURCE;
    return can;
}

void command_call_usage(buf *out, const command *c)
{
    const char *method = c->method;
    buf_add(out, "kv.");
    if (method)
        buf_add(out, method);
    if (!method) {
        name_put(out, c->name, strlen(c->name), '_');
        buf_add(out, "(…)");
    }
}

bool command_option_is_raw(const command_option *o)
{
    return o->kind == OPTION_PATH || o->kind == OPTION_OUTPUT || o->kind == OPTION_RAW ||
           o->kind == OPTION_RAWS;
}

bool command_option_is_needed(const command_option *o)
{
    return o->kind == OPTION_NEEDED || o->kind == OPTION_OUTPUT;
}

int command_hint_usage(const command *c, kv_err *e)
{
    enum { LINE = 100 };
    own_buf line = {0};
    command_usage(&line, c);
    if (line.len > LINE) { /* [OPTIONS] stands for optional options */
        uint32_t optional = 0;
        for (int i = 0; c->options[i].name; i++)
            optional |= command_option_is_needed(&c->options[i]) ? 0 : 1u << i;
        buf_clear(&line);
        buf_add(&line, c->name);
        command_usage_rest(&line, c, 0, optional);
        buf_printf(&line, " [OPTIONS]; help %s lists them", c->name);
    }
    bool gives = c->flags & COMMAND_GIVES && c->args[0].kind == ARG_KEYS;
    return kv_err_hint(e, "usage: %s%s", buf_text(&line), gives ? " [-> NAME]" : "");
}

void command_usage_rest(buf *out, const command *c, int from, uint32_t given)
{
    for (int i = 0; c->args[i].kind != ARG_END; i++)
        if (i >= from)
            buf_printf(out, c->args[i].optional ? " [%s]" : " %s", c->args[i].name);
    if (c->flags & COMMAND_PARAMS && !given)
        buf_add(out, " [--PARAM V]...");
    for (int i = 0; c->options[i].name; i++) {
        const command_option *o = &c->options[i];
        bool optional = !command_option_is_needed(o);
        if (given >> i & 1)
            continue;
        buf_printf(out, optional ? " [--%s" : " --%s", o->name);
        if (o->value)
            buf_printf(out, " %s", o->value);
        buf_add(out, optional ? "]" : "");
        buf_add(out, o->kind == OPTION_RAWS ? "..." : "");
    }
}

void command_usage(buf *out, const command *c)
{
    buf_add(out, c->name);
    command_usage_rest(out, c, 0, 0);
}

int command_hint_called(const command *c, kv_err *e)
{
    own_buf usage = {0};
    if (strcmp(c->name, "pull") == 0)
        return kv_err_hint(e, "kv.pull(\"w\") is the value of key w");
    command_usage(&usage, c);
    return kv_err_hint(e, "`%s` is a command: %s", c->name, buf_text(&usage));
}

const ast *command_option_next(const ast *call, const char *name, uint32_t *from)
{
    while (*from < call->n) {
        const ast *kid = call->kid[(*from)++];
        if (kid && kid->kind == STMT_OPTION && strcmp(kid->u.text, name) == 0)
            return kid->n > 0 ? kid->kid[0] : kid;
    }
    return NULL;
}

const ast *command_option_of(const ast *call, const char *name)
{
    uint32_t from = 0;
    return command_option_next(call, name, &from);
}

const ast *command_redirect_of(const ast *node, bool to_variable)
{
    for (uint32_t i = 0; i < node->n; i++) {
        const ast *kid = node->kid[i];
        if (kid && kid->kind == STMT_REDIRECT && (kid->op == REDIRECT_VARIABLE) == to_variable)
            return kid;
    }
    return NULL;
}
