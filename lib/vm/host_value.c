/* Host numbers and texts as values. */
#include "vm/host.h"

host host_none(void)
{
    return (host){.kind = HOST_NONE};
}

host host_bool(bool x)
{
    return (host){.kind = HOST_BOOL, .u.integer = x};
}

host host_int(int64_t x)
{
    return (host){.kind = HOST_INT, .u.integer = x};
}

host host_float(double x)
{
    return (host){.kind = HOST_FLOAT, .u.number = x};
}

host host_text(const char *text)
{
    return (host){.kind = HOST_TEXT, .u.text = text};
}

host host_literal(const ast *node)
{
    switch (node->kind) {
    case AST_INT:
        return host_int(node->u.integer);
    case AST_FLOAT:
        return host_float(node->u.number);
    case AST_TEXT:
        return host_text(node->u.text);
    case AST_BOOL:
        return host_bool(node->u.integer != 0);
    default: /* kinds beyond those of literals */
        return host_none();
    }
}

const char *host_kind_name(host_kind kind)
{
    static const char *const names[] = {"none", "bool", "int", "float", "text"};
    return names[kind];
}

bool host_is_number(host x)
{
    return x.kind == HOST_BOOL || x.kind == HOST_INT || x.kind == HOST_FLOAT;
}

double host_number(host x)
{
    return x.kind == HOST_FLOAT ? x.u.number : (double)x.u.integer;
}

bool host_truth(host x)
{
    switch (x.kind) {
    case HOST_NONE:
        return false;
    case HOST_BOOL:
    case HOST_INT:
        return x.u.integer != 0;
    case HOST_FLOAT:
        return x.u.number != 0;
    case HOST_TEXT:
        return x.u.text[0] != '\0';
    }
    return false;
}
