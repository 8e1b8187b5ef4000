/* Parameters of rules, as options of a command. */
#include "eval/rule_variables.h"

#include <string.h>

#include "eval/eval.h"
#include "session/unit.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"

const ast *rule_options_next(const ast *call, uint32_t *i)
{
    const command *c = call->u.other;
    while (++*i < call->n) {
        const ast *option = call->kid[*i];
        if (option && option->kind == STMT_OPTION &&
            !command_option_find(c, option->u.text, strlen(option->u.text)))
            return option;
    }
    return NULL;
}

int rule_options_read(session *s, const ast *call, bool (*takes_text)(void *arg, const char *param),
                      void *arg, rule_params *p, kv_err *e)
{
    const ast *option;
    int rc = KV_OK;
    p->n = 0;
    for (uint32_t i = 0; rc == KV_OK && (option = rule_options_next(call, &i));) {
        value v, text;
        const ast *expr = option->n > 0 ? option->kid[0] : NULL;
        const ast *word = option->n > 1 ? option->kid[1] : NULL;
        /* a word is one where the parameter is a text, or where it is no variable, so that the rule
         * says what it takes */
        if (word && ((expr->kind == AST_NAME && !session_find(s, expr->u.text)) ||
                     takes_text(arg, option->u.text)))
            expr = word;
        if ((rc = expr ? eval(s, expr, &v, e) : value_text(&v, "true", e)))
            break;
        if ((rc = optimizer_param_text(&text, v, e)))
            unit_at(s, option->n > 0 ? option->kid[0] : option, e);
        else if ((rc = rule_params_add(p, optimizer_own_name(option->u.text), text, e)))
            unit_at(s, option, e);
        value_release(&v);
    }
    if (rc)
        rule_params_release(p);
    return rc;
}

int rule_options_explain(session *s, const ast *call, kv_err *e)
{
    const ast *option = NULL;
    uint32_t at = 0;
    for (int i = 0; i < e->option; i++)
        option = rule_options_next(call, &at);
    if (!option)
        return e->code;
    if (option->n == 0) { /* nobody wrote the "true" that the error is about */
        *e = (kv_err){0};
        return unit_err(s, option, e, KV_E_USAGE, "--%s needs a value", option->u.text);
    }
    const ast *expr = option->kid[0];
    if (option->n > 1 && expr->kind == AST_NAME && !session_find(s, expr->u.text))
        kv_err_hint(e, "there is no variable `%s`", expr->u.text);
    return unit_at(s, expr, e);
}
