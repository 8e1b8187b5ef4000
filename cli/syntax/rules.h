/* The names in rules: what optimizers take, what merges read, what hides a variable. */
#pragma once

#include <stdbool.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "kv_err.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "session/session.h"
#include "session/unit.h"

/* ---- Parameters of optimizers ---- */

/* A parameter that every optimizer takes beside those in the head of its rule; defaults as text, ""
 * standing for none given. */
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

/* The rule of a text, whose tree lives in nodes; NULL when it cannot be read. */
const rule_ast *rule_of_text(const char *text, arena *nodes);

/* The rule of an optimizer of the library, by its name in any case; NULL when there is none. */
const char *optimizer_text(const char *name);

/* Returns true if MXNet's pages make an optimizer or a schedule by a call of this name: a class
 * such as SGD or FactorScheduler, create_optimizer, get_updater. */
bool optimizer_is_maker(const char *name);

/* The schedule that a class of MXNet is, factor of FactorScheduler; NULL for any other word. */
const char *optimizer_schedule_of(const char *name);

/* The name that a parameter of MXNet has here, names for param_idx2name, or its own. */
const char *optimizer_own_name(const char *param);

/* Returns true if optimizers or schedules of MXNet have an attribute or method of this name. */
bool optimizer_has_attribute(const char *name);

/* ---- A def as an updater ---- */

/* Reads an STMT_DEF of a text as a rule, whose tree lives in a. Errors with place: syntax, usage,
 * those of rule_check. */
int updater_of_def(rule_ast **out, const source *src, const ast *def, arena *a, kv_err *e);

/* ---- The names that a merge reads ---- */

/* The names that a merge reads and nobody gives a value: parameters without a default, which
 * options of the command or variables of the script set. */

/* Calls each with the first place of every such name, until it gives an error, which it returns. */
int merge_names_each(const rule_ast *r, int (*each)(void *arg, const ast *at, kv_err *e), void *arg,
                     kv_err *e);

/* Returns true if the merge reads such a name, written with - or _ alike. */
bool merge_names_has(const rule_ast *r, const char *name);

/* Adds the names that a merge is given or gives values, as what an unknown one may have meant. */
void merge_names_suggest(const rule_ast *r, suggest *near);

/* ---- Names that every rule has ---- */

/* Names that every rule has, such as lr: in a block they win over a variable of the script. */

/* Warns of each name of a rule's own that it reads and that hides a variable of the script. hides:
 * there is such a variable, and no option, if the name has one, gives the rule its value. In a def
 * the variable wins. */
void own_names_warn(session *s, unit *u, const rule_ast *rule,
                    bool (*hides)(void *arg, const char *name, const char *option), void *arg);
