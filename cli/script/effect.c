/* One walk over the tree. It errs on one side only: what it does not know changes the store. */
#include "script/effect.h"

#include <string.h>

#include "script/command.h"
#include "script/function.h"
#include "script/statement.h"

/* kv.push(3, a) is the command; x.sum() is a function. */
static bool method_changes(const ast *call)
{
    const char *name = call->u.text;
    const command *c = command_find(name, strlen(name));
    if (c)
        return c->flags & COMMAND_CHANGES;
    return !function_find(name);
}

static bool changes(const ast *node)
{
    if (!node)
        return false;
    if (node->kind == STMT_COMMAND && ((const command *)node->u.other)->flags & COMMAND_CHANGES)
        return true;
    if (node->kind == STMT_SOURCE && effect_changes_store(node->u.other))
        return true;
    if (node->kind == AST_CALL && (node->flags & AST_METHOD) && method_changes(node))
        return true;
    for (uint32_t i = 0; i < node->n; i++)
        if (changes(node->kid[i]))
            return true;
    return false;
}

bool effect_changes_store(const unit *u)
{
    return changes(u->body);
}
