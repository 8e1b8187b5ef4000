/* --PARAM V: the parameters that a command gives to a rule. */
#ifndef EVAL_RULE_OPTIONS_H
#define EVAL_RULE_OPTIONS_H

#include "eval/rule_variables.h"
#include "lang/ast.h"

/* The first word of the call behind word *i, which it moves on, that is an option the command does
 * not know itself; NULL for none. *i begins at 0, the first word that is no option. */
const ast *rule_options_next(const ast *call, uint32_t *i);

/* Reads every option but the command's own into p, which begins empty; a flag is "true". A word
 * that can also be a variable is a text where takes_text says that the parameter is one. After an
 * error p needs no release. Errors, with place: usage (too many), dtype, those of eval. */
int rule_options_read(session *s, const ast *call, bool (*takes_text)(void *arg, const char *param),
                      void *arg, rule_params *p, kv_err *e);

/* Adds to an error that tells one of the options read above (kv_err_option) the place of its value,
 * and a hint if it is a word that was taken as a text because it is no variable. Other errors stay
 * as they are. */
void rule_options_explain(session *s, const ast *call, kv_err *e);

#endif
