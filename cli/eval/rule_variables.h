/* The parameters with which a rule is set: options of the command, and variables of the script that
 * the rule reads. */
#ifndef EVAL_RULE_VARIABLES_H
#define EVAL_RULE_VARIABLES_H

#include "session/session.h"
#include "session/unit.h"

#define RULE_PARAMS_MAX 64 /* more than any rule has */

/* Names with texts, as the library takes them. All zero: none. */
typedef struct rule_params {
    kv_opt opts[RULE_PARAMS_MAX];
    value texts[RULE_PARAMS_MAX];
    int n;
} rule_params;

/* Adds a parameter; takes text, also on an error (usage: too many). */
int rule_params_add(rule_params *p, const char *name, value text, kv_err *e);
/* Returns true if a parameter, written with - or _ alike, is among them. */
bool rule_params_has(const rule_params *p, const char *name);
void rule_params_release(rule_params *p);

/* A rule of the script. globals: it sees no others, as a def of the script itself in Python. */
typedef struct rule_text {
    unit *unit;
    const rule_ast *rule;
    bool globals;
} rule_text;

/* Reads a def as a rule, whose tree lives in a. Errors with place: syntax, usage. */
int rule_text_of_def(rule_text *out, const definition *d, arena *a, kv_err *e);

/* Adds the values of the variables that the rule reads to its parameters, but for those that are
 * among them, and the variables to f. Errors with place: usage (a name that is no variable; one
 * that holds what rules do not read), memory. */
int rule_variables_take(session *s, const rule_text *r, rule_params *to, followed_names *f,
                        kv_err *e);

/* Warns of variables that the rule's own names hide. */
void rule_variables_warn(session *s, const rule_text *r, const rule_params *p);

#endif
