/* A rule in use: its parameters, and the host side that is the same for every rule: counts,
 * schedule, multipliers, states.
 *
 * A push that fails must leave no trace, and the host side advances from key to key. So the keys of
 * a push advance a draft, a copy of the shared state, and keep the new state of each key in a
 * step; optimizer_commit makes both real when nothing can fail any more.
 *
 * optimizer.c has the parameters and marks, optimizer_step.c the steps.
 */
#pragma once

#include "base/map.h"
#include "base/mem.h"
#include "core/lr_schedule.h"
#include "core/slot.h"
#include "kvstore.h"
#include "lang/ast.h"
#include "lang/source.h"

/* ---- The texts of rules ----
 *
 * A rule as the public interface hands it out, its text, its tree, a count of references; and the
 * optimizers of the library, which are rules by name.
 */

struct kv_rule {
    int64_t refs; /* atomic */
    bool builtin; /* of an optimizer of the library */
    char *text, *file;
    source src;   /* borrows both */
    arena memory; /* of the tree */
    rule_ast *ast;
};

/* Adds a reference; kv_rule_free gives it back. */
kv_rule *kv_rule_ref(kv_rule *r);

/* Returns true if the texts differ in nothing but comments and blanks. */
bool kv_rule_same_text(const kv_rule *a, const kv_rule *b);

/* The rule of an optimizer of the library, its name in any case. Error: usage, with
 * "did you mean". */
int builtin_rule(kv_rule **out, const char *name, kv_err *e);

/* The texts of src/optimizers/NAME.kvu, which the Makefile puts in; ends with a NULL name. A rule
 * with several names stands once for each. */
typedef struct builtin_text {
    const char *name, *text;
} builtin_text;

extern const builtin_text builtin_texts[];

/* ---- Optimizers ---- */

/* A table of an optimizer, from keys or names to multipliers (lr_mult, wd_mult) or from keys to
 * names (names): "0=1.7,3=0.3", "0=fc_weight". A key is its text here. All zero is empty. */
typedef struct optimizer_table {
    map index; /* from keys to places in the lists */
    const char **keys;
    const char **texts; /* of names */
    double *numbers;    /* of multipliers */
    int64_t n;
} optimizer_table;

/* The place of a key, which may be NULL; -1 when it is not there. */
static inline int64_t optimizer_table_find(const optimizer_table *t, const char *key)
{
    return key && t->n > 0 ? map_get(&t->index, (kv_key){0, key}) : -1;
}

/* ---- The lines that a rule prints: text from the host lines, and arrays that the plan writes ----
 *
 * The arrays are made before anything is written and hold, when the plan has run, what the printed
 * names stood for at the place of the `print`. They become text after that, one line after the
 * other. */

/* The receiver of the lines that a store's rules print. */
typedef struct printed_to {
    void (*line)(void *arg, const char *line); /* NULL: none */
    void *arg;
    kv_show show; /* NULL: as numpy prints arrays */
    void *show_arg;
} printed_to;

/* The arrays of one update: one for each of u->prints, NULL without any. */
typedef struct printed {
    kv_array **arrays;
    int64_t n;
} printed;

/* ---- Rules in use ---- */

/* An update that was made, and for what; counted, because keys of several pushes share it. */
typedef struct made_update {
    int64_t refs;     /* atomic */
    rule_case *of;    /* the case that it was made of; NULL: the rule was compiled for it alone */
    rule_given given; /* without pointers */
    rule_update u;
    uint64_t pool[]; /* its constants */
} made_update;

/* Gives a reference back; the last one frees the update. NULL: nothing. */
void optimizer_unref_update(made_update *m);

/* Cases of a rule that are kept: keys with and without states, values of both storages, and the
 * branches that a rule takes in turn. */
#define OPTIMIZER_CASES 16

/* Updates that other keys share if their numbers are the same: rates and decay take turns of few
 * values. */
#define OPTIMIZER_RECENT 4

/* The parameters of a rule at one time. A change makes new ones, and a transaction may still hold
 * the old ones. */
typedef struct optimizer_params {
    int64_t refs;
    arena memory;
    const kv_opt *given; /* as they were given, for files */
    int n;
    const host *values; /* of the binding */
    optimizer_table lr_mult, wd_mult, names;
} optimizer_params;

/* What all keys of an optimizer share, and the keys of one push advance. */
typedef struct optimizer_draft {
    int64_t num_update; /* the largest count of any key */
    lr_schedule schedule;
    uint32_t have; /* of the `state shared` numbers */
    host shared[PLAN_MAX_STATES];
} optimizer_draft;

typedef struct optimizer {
    kv_rule *rule;
    arena memory; /* of schedules */
    optimizer_params *params;
    rule_binding binding; /* to their values */
    bool *varies; /* of each: it was changed, or is a rate, so that cases are not made for one value
                   */
    double clip_norm; /* clip_global_norm; 0: none */
    rule_state_info states[PLAN_MAX_STATES];
    int nstates;
    rule_case *cases[OPTIMIZER_CASES];     /* NULL: none */
    made_update *recent[OPTIMIZER_RECENT]; /* the same */
    int next_case, next_recent;            /* the oldest ones, to be forgotten next */
    int64_t ncompiled;                     /* times that the rule was compiled, for tests */

    bool scheduled;
    uint64_t seed; /* of normal() */

    optimizer_draft now;
} optimizer;

/* A rule with parameters, among them lr_scheduler, lr_mult, wd_mult, names and seed. Errors: usage,
 * value, dtype, memory. */
int optimizer_new(optimizer **out, const kv_rule *rule, const kv_opt *params, int n, kv_err *e);
void optimizer_free(optimizer *o);

/* Changes parameters of one in use; counts, schedule progress and states stay. lr_mult, wd_mult and
 * names take the place of the whole table. On an error, of optimizer_check too, nothing changed. */
int optimizer_change(optimizer *o, const kv_opt *params, int n, kv_err *e);

/* Gives the multipliers and the name of key `from` to key `to`, whose own are dropped. Errors: key
 * (`to` cannot stand in a table of the parameters), memory; nothing changed then. */
int optimizer_rename(optimizer *o, const kv_key *from, const kv_key *to, kv_err *e);

/* Returns true if `next` runs the rule of `o` with the same states, so that these fit it. by_name:
 * an optimizer of the library is the same when its name is; else the text counts. */
bool optimizer_continues(const optimizer *next, const optimizer *o, bool by_name);

/* Makes `next` go on where `o` stands: its counts and shared numbers, and its schedule if that is
 * the same. Another schedule begins at the counts. */
void optimizer_continue(optimizer *next, const optimizer *o);

/* Appends the parameters that the rule has not defined and was given: "rate 0.5, note 'x'". */
void optimizer_reads_text(const optimizer *o, buf *out);

/* The learning rate of the last update, before multipliers. */
double optimizer_rate(const optimizer *o);

/* Refuses parameters of an optimizer of the library with which each update would `fail`, as far as
 * all keys have the same rates. Error: value. */
int optimizer_check(const optimizer *o, kv_err *e);

/* The form of the array of state i of a key, or of the float32 master for i = -1; shape lives as
 * long as the slot's array. */
typedef struct optimizer_form {
    kv_dtype dtype;
    int ndim;
    const int64_t *shape;
} optimizer_form;

optimizer_form optimizer_state_form(const optimizer *o, int i, const slot *s);

/* Returns true if the key has a float32 master: half precision, under multi_precision. */
bool optimizer_has_master(const optimizer *o, const slot *s);

/* All that changes of one in use, as it is now. Restoring cannot fail. */
typedef struct optimizer_mark {
    optimizer_draft draft;
    optimizer_params *params; /* a reference; NULL: of no optimizer */
    bool scheduled;
    uint64_t seed;
} optimizer_mark;

void optimizer_mark_take(const optimizer *o, optimizer_mark *m);
void optimizer_mark_restore(optimizer *o, const optimizer_mark *m);
void optimizer_mark_release(optimizer_mark *m);

/* One key's part of a push. */
typedef struct optimizer_step {
    made_update *made;
    slot_state *fresh; /* the key's first, when it needs one */
    int64_t t;
    kv_array *master; /* a new one */
    printed printed;  /* made behind optimizer_prepare */
    int nstates;      /* of the rule: as many stand below, so that a step touches few cache lines */

    /* The arrays that the update works on, once the step is committed: NULL where there is none. */
    kv_array *weight_master;
    struct {
        kv_array *fresh; /* a new one */
        kv_array *array; /* the one that the update works on */
        void *data;      /* its elements */
    } states[PLAN_MAX_STATES];
} optimizer_step;

void optimizer_begin(const optimizer *o, optimizer_draft *d);

/* The update that the key's next push has, where that is known without running the rule, splits
 * into any ranges and keeps nothing but the key's count; else NULL. Other threads may ask for other
 * keys. It lives until the next step of any key is prepared. */
const rule_update *optimizer_known(const optimizer *o, optimizer_draft *d, const slot *s,
                                   int64_t *t);

/* Scratch that every such update has enough of, for keys of nvalues values. */
int64_t optimizer_known_bytes(const optimizer *o, int64_t nvalues);

/* Runs the host lines for a key and allocates what its update needs, in ctx, where the key will
 * stand. sparse_input: the values are row_sparse. Errors: those of rule_case_make, memory. On an
 * error *step needs no release. */
int optimizer_prepare(optimizer *o, optimizer_draft *d, const slot *s, kv_ctx ctx,
                      bool sparse_input, optimizer_step *step, kv_err *e);

/* Only the host lines, for a key whose elements another process keeps: the inputs that it needs for
 * the same update are left in *given, without pointers, and in numbers, with room for
 * PLAN_MAX_STATES. The step is committed as usual. Errors: as above. */
int optimizer_follow(optimizer *o, optimizer_draft *d, const slot *s, bool sparse_input,
                     optimizer_step *step, rule_given *given, host *numbers, kv_err *e);

/* Moves the arrays of the steps into the slots, and the draft into the optimizer. */
void optimizer_commit_step(optimizer *o, optimizer_step *step, slot *s);
void optimizer_commit(optimizer *o, const optimizer_draft *d);

/* Releases a step, committed or not. */
void optimizer_release_step(optimizer_step *step);
