/* The parameters that optimizers take beside those in the heads of their rules. */
#ifndef SYNTAX_OPTIMIZER_PARAM_H
#define SYNTAX_OPTIMIZER_PARAM_H

#include "lang/ast.h"

/* A parameter that every optimizer takes; defaults as text, "" standing for none given. */
typedef struct optimizer_param {
    const char *name; /* with underscores */
    const char *value;
    const char *about;
    bool text; /* a word: 0=1.7,fc=2 or factor(step=9) as it stands. Else its value is computed */
} optimizer_param;

/* An entry without a name ends it. */
extern const optimizer_param optimizer_params[];

/* Whether a parameter, with - or _, is a text: one that every optimizer takes, or, where rule is
 * given, one of that rule. */
bool optimizer_takes_text(const char *param, const rule_ast *rule);

/* The same of an optimizer of the library, by its name. */
bool optimizer_named_takes_text(const char *param, const char *name);

#endif
