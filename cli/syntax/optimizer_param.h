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

/* Returns true if a parameter, written with - or _, is a text. Every optimizer takes some; rule, if
 * given, has others. */
bool optimizer_takes_text(const char *param, const rule_ast *rule);

/* The rule of an optimizer of the library, by its name in any case; NULL when there is none. */
const char *optimizer_text(const char *name);

/* optimizer_takes_text for an optimizer of the library, by its name. */
bool optimizer_named_takes_text(const char *param, const char *name);

/* Returns true if MXNet's pages make an optimizer or a schedule by a call of this name: a class
 * such as SGD or FactorScheduler, create_optimizer, get_updater. */
bool optimizer_is_maker(const char *name);

/* The schedule that a class of MXNet is, factor of FactorScheduler; NULL for any other word. */
const char *optimizer_schedule_of(const char *name);

/* The name that a parameter of MXNet has here, names for param_idx2name, or its own. */
const char *optimizer_own_name(const char *param);

/* Returns true if optimizers or schedules of MXNet have an attribute or method of this name. */
bool optimizer_has_attribute(const char *name);

#endif
