/* One walk over the tree. It errs on one side only: a command with an unknown effect counts as a
 * change of the store. */
#include "syntax/effect.h"

#include "syntax/command.h"
#include "syntax/statement.h"

static bool changes(const ast *node)
{
    if (!node)
        return false;
    if (node->kind == STMT_COMMAND && ((const command *)node->u.other)->flags & COMMAND_CHANGES)
        return true;
    if (node->kind == STMT_SOURCE && effect_changes_store(node->u.other))
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
