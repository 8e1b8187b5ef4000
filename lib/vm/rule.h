/* Rules: updaters and optimizers in the rule language, from syntax tree to plan.
 *
 * rule_check proves once that a rule makes sense: names and kinds on every path, that `stored` is
 * written. rule_case_make then runs the host lines for one key (numbers, `if`, `print`, `skip`,
 * `fail`) and leaves a straight line of element operations, which becomes a plan (plan.h).
 *
 * Element lines compute in float32; for float64 keys in float64; for integer keys in their dtype,
 * exactly and wrapping after every operation. A host number or literal is rounded once where it
 * meets elements; a host line is binary64.
 *
 * The printed text of a rule has gaps for arrays: they are known when the plan has run, which
 * leaves copies of them as they were at the place of the `print`.
 */
#pragma once

#include "base/suggest.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "vm/host.h"
#include "vm/plan.h"

/* Checks a parsed rule, and completes it: a name that it reads and does not define becomes a
 * parameter without a default; so does, in a def, one that every rule has, such as lr, which keeps
 * that meaning until it is given another value. New parameters live in a. Errors with place:
 * syntax, usage. */
int rule_check(rule_ast *r, const source *s, arena *a, kv_err *e);

/* ---- States ---------------------------------------------------------------------------------- */

/* Kinds of states, which a rule keeps from update to update and may declare on several paths. */
typedef struct rule_state_info {
    const char *name; /* lives as long as the syntax tree */
    rule_state how;
} rule_state_info;

/* The *n states of a checked rule; the number of a state is its place among them. Error: memory. */
int rule_states(const rule_ast *r, rule_state_info out[PLAN_MAX_STATES], int *n, kv_err *e);

/* Returns true if a checked rule declares a state of this kind. */
bool rule_has_state(const rule_ast *r, rule_state how);

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Parameters that every rule has, also when it does not list them; one that it lists has its
 * default. */
typedef enum rule_base {
    RULE_LEARNING_RATE,    /* none: 0.01, and a schedule keeps its own */
    RULE_WD,               /* 0.0 */
    RULE_RESCALE_GRAD,     /* 1.0 */
    RULE_CLIP_GRADIENT,    /* none */
    RULE_BEGIN_NUM_UPDATE, /* 0 */
    RULE_MULTI_PRECISION,  /* false */
    RULE_DECAY_NAMES,      /* "_weight _gamma" */
    RULE_CLIP_GLOBAL_NORM, /* none */
    RULE_NBASE
} rule_base;

const char *rule_base_name(rule_base which);
int rule_base_find(const char *name); /* a rule_base, or -1; - and _ are the same */

/* Returns false for a number outside the range of p. */
bool rule_param_allows(const rule_param *p, host value);

/* The parameters of one use of a rule, defaults filled in: values[i] belongs to r->params[i] for i
 * below r->nparams, then come those of every rule in the order above (where the rule lists one, the
 * later place has the same value). */
typedef struct rule_binding {
    const rule_ast *rule;
    const source *src;
    const host *values;
    const bool *varies; /* of each value, whether a case takes it from the binding of each push;
                           NULL: none does, so that all are literals */
} rule_binding;

int rule_nvalues(const rule_ast *r);
host rule_value(const rule_binding *b, rule_base which);

/* Returns true if every rule has a number or text of this name: lr, t, … */
bool rule_gives(const char *name);

/* Returns true if the rule lists a parameter of this name, written with - or _ alike. */
bool rule_lists(const rule_ast *r, const char *name);

/* Reads the value of a parameter that has no default: a number, none, true or false, a text, which
 * is copied into a, and may stand in "". False: no memory. */
bool rule_read(const char *text, host *out, arena *a, kv_err *e);

/* The value of parameter i of the rule is known: it was given, or there is a default. */
bool rule_is_given(const rule_binding *b, int i);

/* Adds the names that the rule has, as what an unknown one may have meant. */
void rule_suggest(const rule_ast *r, suggest *near);

/* Hints at the name of what other libraries call the gradient or the weight. False: it is no such
 * name, or the rule has names of its own. */
bool rule_hint_other_word(const rule_ast *r, const char *name, kv_err *e);

/* Every parameter has a value, or is a name that every rule has. Error with place: usage. */
int rule_check_given(const rule_binding *b, kv_err *e);

/* Fills values (rule_nvalues of them) with the old ones (kept) or the defaults, replaced by the
 * given names and texts; a NULL name is passed over. Parameters are written with - or _ alike. One
 * without a default takes a number, true, false, none, or a text, in "" where it would be read as
 * one of these. Texts live in a. Errors: usage (unknown parameter, with "did you mean"), value (out
 * of range), dtype (not of the default's kind); the last two tell the option. */
int rule_bind(const rule_ast *r, const host *kept, const char *const *names,
              const char *const *texts, int n, host *values, arena *a, kv_err *e);

/* ---- Updates --------------------------------------------------------------------------------- */

/* The key, and the numbers that host lines of a rule may read besides parameters. */
typedef struct rule_given {
    kv_key key;
    const char *name;       /* NULL: the key's own text, else "" */
    int64_t t;              /* how often this key was updated, this update included */
    double lr, wd, base_lr; /* of this key; base_lr is before multipliers */
    kv_dtype dtype;         /* of the key */
    bool master; /* stored is a float32 master, and the key's array is written beside it */
    bool sparse_input, sparse_stored;
    int64_t row, size;   /* elements of a row, and of all */
    uint32_t have;       /* bit i: state i exists */
    const host *numbers; /* the values of the states that are host numbers, by state */
} rule_given;

/* The extent of a value that `print` shows: an element each; one a row; one. */
typedef enum rule_extent { RULE_EACH_ELEMENT, RULE_EACH_ROW, RULE_ONE } rule_extent;

/* An array that `print` shows. The plan writes it to prints[i] of its arrays, i being its place in
 * the list, unless it is a number that is known already. */
typedef struct rule_print {
    size_t at; /* where in `printed` it belongs */
    kv_dtype dtype;
    rule_extent extent;
    bool present; /* of the rows that a row_sparse input holds, those alone */
    bool known;   /* the number is in `value`, and the plan does not write it */
    host value;
} rule_print;

/* The update of one key, which host lines leave behind. */
typedef struct rule_update {
    bool skipped;       /* `skip`: leave the key as it is */
    bool rows_present;  /* only the rows that a row_sparse input holds are read and written */
    buf printed;        /* lines that `print` wrote, each with its newline, without the arrays */
    rule_print *prints; /* PLAN_MAX_PRINTS at most */
    int64_t nprints, prints_cap;
    uint32_t states; /* bit i: this update uses state i, which exists from now on. A new array is
                        given to the plan filled with zeros, or */
    uint32_t fills;  /* bit i: filled with numbers[i] */
    host numbers[PLAN_MAX_STATES]; /* the new values of states that are host numbers, no texts */
    plan *plan;                    /* NULL when skipped, unless an array is printed */
    const uint64_t *pool; /* the plan's constants in this push (plan_fill_pool); NULL: its own */
} rule_update;

void rule_update_release(rule_update *u);

/* ---- Cases: rules that are compiled once ----------------------------------------------------- */

/* A rule compiled for a dtype, a storage, states that exist and branches of its host lines. It
 * makes the updates of all pushes and keys of that case, from their numbers alone, and gives the
 * same bits as a rule that is compiled for the push. Counted. The rule must outlive it. */
typedef struct rule_case rule_case;

/* Runs the host lines for a key and makes the plan, whose rule was checked. *out: the case, or NULL
 * for a rule that must be compiled for each push: one that prints, or makes texts of what varies.
 * out NULL: no case; all numbers are constants then. plans false: errors and host numbers are
 * found, but no plan is made, for an update that another process runs. Errors: value (`fail`,
 * without a place, since it is the update that is refused; arithmetic of host values; a number that
 * an integer key cannot hold), dtype, unsupported, with their place; memory. On an error *u needs
 * no release. */
int rule_case_make(const rule_binding *b, const rule_given *given, bool plans, rule_update *u,
                   rule_case **out, kv_err *e);
rule_case *rule_case_ref(rule_case *c);
void rule_case_unref(rule_case *c); /* NULL: nothing */

/* Returns true if the case may be that of a push, as far as its branches tell. plans: it needs a
 * plan. */
bool rule_case_fits(const rule_case *c, const rule_given *given, bool plans);

/* Returns true if two pushes that it fits have the same update, with one binding. */
bool rule_case_same(const rule_case *c, const rule_given *a, const rule_given *b);

/* With the binding that it was made for, or one that differs in values that vary: makes the update
 * of a push that it fits, with its constants in pool, rule_case_pool_bytes of memory. *u must not
 * outlive pool, and is to be released. pool NULL: without the plan. False: the push is of another
 * case, or its update is an error, which rule_case_make words; *u is not changed. */
bool rule_case_update(const rule_case *c, const rule_binding *b, const rule_given *given,
                      rule_update *u, uint64_t *pool);
int64_t rule_case_pool_bytes(const rule_case *c);

/* The ranges of a key that can be updated by themselves, as if each were a key of its own. */
typedef enum rule_cut {
    RULE_CUT_ANYWHERE,
    RULE_CUT_BY_ROWS, /* it works row by row, or asks which rows are there */
    RULE_CUT_NOWHERE  /* it reduces all elements, asks how many there are, draws, or prints */
} rule_cut;
rule_cut rule_cuts(const rule_ast *r);

/* The first place that reads a name, or NULL. */
const ast *rule_reader(const rule_ast *r, const char *name);
