/* The names of a rule, and which of them hold elements. Private to rule.c and rule_check.c.
 *
 * A name that holds an element anywhere in a rule holds one everywhere, so which names do is found
 * once for the whole rule, before anything runs.
 */
#pragma once

#include "base/mem.h"
#include "lang/ast.h"
#include "vm/host.h"
#include "vm/program.h"

typedef enum rule_name_kind {
    RULE_NAME_SET, /* the rule gives it a value */
    RULE_NAME_PARAM,
    RULE_NAME_GIVEN,  /* key, name, t, lr, input, … */
    RULE_NAME_STORED, /* given, and to be written */
    RULE_NAME_STATE   /* kept from update to update */
} rule_name_kind;

/* A name that a rule is given. */
typedef struct rule_given_name {
    const char *text;
    rule_name_kind kind; /* RULE_NAME_GIVEN or RULE_NAME_STORED */
    bool element;
    int slot; /* of a merge: the array's, or -1 */
} rule_given_name;

typedef struct rule_name {
    const char *text;
    rule_name_kind kind;
    bool element;
    bool known;    /* has a value at this point of the walk */
    prog_extent extent; /* of its value when it is an element, also of equal ones */
    bool late;     /* rule_check: behind `rows present` absent rows have no such value */
    uint8_t how;   /* RULE_NAME_STATE: a rule_state */
    int8_t state;  /* and its number among the states */
    host number;   /* its value when it is no element */
    prog_value at; /* its value when it is one */
    prog_value begin; /* of a state in its first update: what it began with, or -1 */
} rule_name;

typedef struct rule_env {
    rule_name *names;
    int n;
    int nstates;
} rule_env;

/* Collects the names of r, first the given ones and the parameters; their memory is a's. */
int rule_env_init(rule_env *env, const rule_ast *r, arena *a, kv_err *e);

/* NULL when there is no such name. */
rule_name *rule_env_find(const rule_env *env, const char *text);

/* Returns true if an expression names an element. */
bool rule_env_is_element(const rule_env *env, const ast *node);

/* How long the value of an expression is along the axes of the key: of one number, which a host
 * value is too, (ONE, ONE). */
prog_extent rule_env_extent(const rule_env *env, const ast *node);

prog_extent rule_env_name_extent(const rule_name *n); /* NULL: no name, so one */

/* Returns true if it is one number: no array, and not one number for each row. */
bool rule_env_is_one(const rule_env *env, const ast *node);

/* Returns true if a statement is an `if` whose condition is known only after the arrays are read:
 * both its blocks are computed, and what they give to a name is chosen between. */
bool rule_env_is_late_if(const rule_env *env, const ast *node);
