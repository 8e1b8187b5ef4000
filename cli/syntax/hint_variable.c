/* Words of commands that are the names of variables, too. */
#include "syntax/hint_variable.h"

#include "lang/lex.h"
#include "syntax/statement.h"

/* Returns true if the node is a word without quotes. */
static bool is_bare(const source *src, const ast *node)
{
    return node && node->kind == AST_TEXT && node->end > node->pos &&
           lex_is_letter(src->text[node->pos]) && src->text[node->end - 1] != '"' &&
           src->text[node->end - 1] != '\'';
}

void hint_variable(const source *src, const ast *call,
                   bool (*is_variable)(void *arg, const char *name), void *arg, kv_err *e)
{
    for (uint32_t i = 0; i < call->n; i++) {
        const ast *word = call->kid[i];
        int line, col;
        if (word && word->kind == STMT_OPTION)
            word = word->n == 1 ? word->kid[0] : NULL;
        if (!is_bare(src, word) || !is_variable(arg, word->u.text))
            continue;
        source_locate(src, word->pos, &line, &col);
        if (e->line == line && e->col == col)
            e->hint[0] = '\0';
        kv_err_hint(e, "`%s` is a word here; $%s is what the variable holds", word->u.text,
                    word->u.text);
    }
}
