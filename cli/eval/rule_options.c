/* Parameters of rules, as options of a command. */
#include "eval/rule_variables.h"

#include <string.h>

#include "eval/eval.h"
#include "session/unit.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"

/* The parameters that are texts. */
typedef struct text_params {
    bool (*takes_text)(void *arg, const char *param);
    void *arg;
} text_params;

/* The value of a parameter: that of its expression, or the word that it can be read as: where the
 * parameter is a text, or where it is no variable, so that the rule says what it takes. */
static int param_value(session *s, const ast *option, const text_params *texts, value *out,
                       kv_err *e)
{
    const ast *expr = option->kid[0], *word = option->n > 1 ? option->kid[1] : NULL;
    bool plain = word && expr->kind == AST_NAME;
    if (word && ((plain && !session_find(s, expr->u.text)) ||
                 texts->takes_text(texts->arg, option->u.text)))
        return eval(s, word, out, e);
    int rc = eval(s, expr, out, e);
    if (rc == KV_OK && out->kind == VALUE_ARRAY && kv_array_size(out->u.box->array) == 1) {
        value array = *out;
        rc = value_item(out, array, e);
        value_release(&array);
    }
    return rc;
}

/* The value of a parameter as text, as kv_set_rule takes it. */
static int param_text(session *s, const ast *option, const text_params *texts, value *out,
                      kv_err *e)
{
    value v;
    int rc;
    if (option->n == 0)
        return value_text(out, "true", e);
    if ((rc = param_value(s, option, texts, &v, e)))
        return rc;
    rc = optimizer_param_text(out, v, e);
    value_release(&v);
    return rc ? unit_at(s, option->kid[0], e) : KV_OK;
}

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
    const text_params texts = {takes_text, arg};
    const ast *option;
    int rc = KV_OK;
    p->n = 0;
    for (uint32_t i = 0; rc == KV_OK && (option = rule_options_next(call, &i));) {
        value text;
        if ((rc = param_text(s, option, &texts, &text, e)) == KV_OK &&
            (rc = rule_params_add(p, optimizer_own_name(option->u.text), text, e)))
            unit_at(s, option, e);
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
