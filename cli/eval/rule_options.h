/* --PARAM V: the parameters that a command gives to a rule. */
#ifndef EVAL_RULE_OPTIONS_H
#define EVAL_RULE_OPTIONS_H

#include "eval/rule_variables.h"
#include "lang/ast.h"

/* Reads every option but the command's own into p, which begins empty; a flag is "true". A word
 * that can also be a variable is a text where takes_text says that the parameter is one. After an
 * error p needs no release. Errors, with place: usage (too many), dtype, those of eval. */
int rule_options_read(session *s, const ast *call, bool (*takes_text)(void *arg, const char *param),
                      void *arg, rule_params *p, kv_err *e);

/* Adds a hint to a dtype error: a word was taken as the value, since it is no variable. */
void rule_options_hint(session *s, const ast *call, kv_err *e);

#endif
