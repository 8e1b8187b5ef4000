/* Bindings, for the parsers of both forms. */
#include "syntax/bind.h"

#include <string.h>

#include "syntax/statement.h"

void bind_begin(binding *b, const command *c)
{
    *b = (binding){.c = c, .begins = NOWHERE};
    while (c->args[b->nargs].kind != ARG_END)
        b->nargs++;
    b->n = b->nargs;
}

bool bind_add(binding *b, parser *p, ast *part)
{
    if (b->n == BIND_MAX)
        return parse_fail(p, part->pos, part->end, KV_E_USAGE, "`%s` has too many options",
                          b->c->name);
    b->parts[b->n++] = part;
    return true;
}

bool bind_has(const binding *b, const char *option)
{
    bool found = false;
    for (int i = b->nargs; i < b->n && !found; i++)
        found = b->parts[i]->kind == STMT_OPTION && strcmp(b->parts[i]->u.text, option) == 0;
    return found;
}

const command_arg *bind_missing(const binding *b, const command_option **option)
{
    *option = NULL;
    for (int i = 0; i < b->nargs; i++)
        if (!b->parts[i] && !b->c->args[i].optional)
            return &b->c->args[i];
    for (const command_option *o = b->c->options; o->name && !*option; o++)
        if (command_option_is_needed(o) && !bind_has(b, o->name))
            *option = o;
    return NULL;
}

ast *bind_node(const binding *b, parser *p, uint32_t pos)
{
    ast *node = parse_node_of(p, STMT_COMMAND, pos, b->parts, b->n);
    if (node)
        node->u.other = (void *)(uintptr_t)b->c;
    return node;
}

void bind_cursor(const binding *b, parse_cursor *at, uint32_t end)
{
    if (!at || !at->met || at->in_statement)
        return;
    at->command = b->c;
    at->argument = b->given;
    at->begun = b->given + (!b->in_option && b->begins < end);
    at->first = at->pos == b->begins;
    at->in_option = b->in_option;
    at->option = b->option;
    for (int i = 0; b->c->options[i].name; i++) {
        const command_option *o = &b->c->options[i];
        bool here = b->in_option && b->option == o;
        at->options |= here || bind_has(b, o->name) ? 1u << i : 0;
    }
}
