/* Help on optimizers: what there is, and what one does and takes. */
#ifndef CMD_OPTIMIZER_HELP_H
#define CMD_OPTIMIZER_HELP_H

#include "base/buf.h"
#include "kv_err.h"
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

/* Appends one line an optimizer: its names, and the comment of its rule. */
void optimizer_list(buf *out);

/* Appends the rule of an optimizer, in any case, the parameters that every optimizer takes, and the
 * schedules. False when there is none of that name. */
bool optimizer_show(buf *out, const char *name);

/* Whether a word of `help` asks for optimizers: "optimizer", in any case. */
bool optimizer_topic(const char *word);

/* Whether there is an optimizer of that name, in any case. Error: name, with names
 * that are close. */
int optimizer_check(const char *word, kv_err *e);

#endif
