/* Reading a def as a rule. */
#include "syntax/updater_def.h"

#include "lang/parse.h"
#include "syntax/statement.h"
#include "vm/rule.h"

int updater_of_def(rule_ast **out, const source *src, const ast *def, arena *a, kv_err *e)
{
    const ast *body = def->kid[0];
    bool indented = def->op == 0 && body->kind == AST_BLOCK && src->text[body->pos] == ':';
    if (def->n != 4 || !indented) {
        source_err(src, def->pos, indented ? body->pos : def->end, e, KV_E_USAGE,
                   "`%s` is a function, but no updater", def->u.text);
        return kv_err_hint(e,
                           "an updater has three parameters and an indented block: "
                           "def %s(key, grad, weight): … weight -= 0.1 * grad",
                           def->u.text),
               KV_E_USAGE;
    }
    int code = parse_rule_at(out, src, def->pos, a, e);
    return code ? code : rule_check(*out, src, a, e);
}
