/* The parameters with which a rule is set: options of the command, and variables of the script that
 * the rule reads. */
#pragma once

#include "lang/ast.h"
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

/* An updater, or a def read as a rule, whose tree lives in a. Errors with place: syntax, usage. */
int rule_text_of(rule_text *out, const definition *d, arena *a, kv_err *e);

/* Adds the values of the variables that the rule reads to its parameters, but for those that are
 * among them, and the variables to f. Errors with place: usage (a name that is no variable; one
 * that holds what rules do not read), memory. */
int rule_variables_take(session *s, const rule_text *r, rule_params *to, followed_names *f,
                        kv_err *e);

/* Warns of variables that the rule's own names hide. */
void rule_variables_warn(session *s, const rule_text *r, const rule_params *p);

/* ---- --PARAM V: the parameters that a command gives to a rule ---- */

/* The first word of the call behind word *i, which it moves on, that is an option the command does
 * not know itself; NULL for none. *i begins at 0, the first word that is not an option. */
const ast *rule_options_next(const ast *call, uint32_t *i);

/* Reads every option but the command's own into p, which begins empty; a flag is "true". A word
 * that can also be a variable is a text where takes_text says that the parameter is one. After an
 * error p needs no release. Errors, with place: usage (too many), dtype, those of eval. */
int rule_options_read(session *s, const ast *call, bool (*takes_text)(void *arg, const char *param),
                      void *arg, rule_params *p, kv_err *e);

/* Adds to an error that tells one of the options read above (kv_err_option) the place of its value,
 * and a hint if it is a word that was taken as a text because no variable has its name. An option
 * without a value that is not a flag gets another error: usage. Other errors stay as they are.
 * Returns the code. */
int rule_options_explain(session *s, const ast *call, kv_err *e);

/* ---- Optimizers and schedules as values ---- */

/* Optimizers and schedules of MXNet as values: opt = mx.optimizer.SGD(learning_rate=0.1), opt.lr,
 * kv.set_optimizer(opt). */

/* The value of a parameter as the library takes it: of a scalar, an array of one element, a
 * schedule or a dict. Error: dtype. */
int optimizer_param_text(value *out, value v, kv_err *e);

/* Adds the parameters of an optimizer. Errors: usage (too many), dtype. */
int optimizer_params_add(rule_params *p, value object, kv_err *e);

/* The value of a call that makes one (optimizer_is_maker), or that is a method of an object. args:
 * the values of its arguments. Errors: usage, and those of the optimizer, which is tried in a store
 * of its own. */
int optimizer_value_call(const ast *call, const value *args, value *out, kv_err *e);
