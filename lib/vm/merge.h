/* Merges: rules that make one array of those that a key has in several checkpoints.
 *
 *     merge ties(density = 0.2 in 0 .. 1, scale = 1.0) { … merged = base + scale * … }
 *
 * A merge is a rule (rule.h) over lists. It reads the list `models`, the arrays of one key, the
 * list `weights`, a number each, and `base`; it gives `merged`. How long the lists are is known
 * before the rule is checked, so lists are written out then: sum(models) becomes
 * models[0] + models[1] + ..., a comprehension its items, a `for` its rounds. What is left is a
 * rule without lists, which becomes a plan as every rule does.
 *
 * Element lines compute in float32, or in float64 where the merge is wide. The plan reads and
 * writes arrays of that dtype. Its sums, largest, smallest and selected numbers are those of whole
 * arrays, and whoever runs it makes them: see plan_fold.
 */
#pragma once

#include "lang/ast.h"
#include "lang/source.h"
#include "vm/host.h"
#include "vm/plan.h"

#define MERGE_MODELS 64 /* the most models, and draws, and rankings of one plan */

/* What the slots of a plan of a merge are. It loads all of them but the first, which it stores. */
enum {
    MERGE_MERGED = PLAN_STORED,
    MERGE_MODEL = PLAN_MERGE,                  /* the models */
    MERGE_PRODUCT = MERGE_MODEL + PLAN_KIND,   /* lora_B[i] times lora_A[i] */
    MERGE_UNIFORM = MERGE_PRODUCT + PLAN_KIND, /* random numbers, by draw */
    MERGE_RANK = MERGE_UNIFORM + PLAN_KIND,    /* ranks within rows, by ranking */
    MERGE_BASE = MERGE_RANK + PLAN_KIND,
    MERGE_WEIGHT = MERGE_BASE + PLAN_KIND, /* no slots, but given numbers: weights, and scales */
    MERGE_SCALE = MERGE_WEIGHT + PLAN_KIND /* of adapters */
};

/* What a rule is given: how many models, and of what kind. A rule for other counts is made anew. */
typedef struct merge_form {
    int models;
    bool base;     /* there is one */
    bool adapters; /* the models are low-rank ones: lists lora_A, lora_B and lora_scale instead of
                      `models` */
} merge_form;

/* A rule that was written out for a form and checked, with its parameters. */
typedef struct merge_rule merge_rule;

/* r: as parsed (parse_merge), s its source, both borrowed as long as the result lives. names and
 * texts: n given parameters, see rule_bind. Errors, with place where there is one: syntax, usage (a
 * name without a value; `base` without one: the hint is --base; an unknown parameter, or one
 * without a value), value (a parameter out of range), dtype, memory. */
int merge_rule_make(merge_rule **out, const rule_ast *r, const source *s, merge_form form,
                    const char *const *names, const char *const *texts, int n, kv_err *e);
void merge_rule_free(merge_rule *m); /* NULL is allowed */

/* Returns true if the plan follows from the shape alone: one of a shape serves every key. */
bool merge_rule_is_of_shape(const merge_rule *m);

/* A key. */
typedef struct merge_given {
    const char *key;
    const double *weights;     /* one a model */
    const double *lora_scales; /* of adapters: one each, alpha / r of its configuration */
    int64_t size;              /* elements */
    int64_t row; /* elements of a row: of all axes behind the first; of a vector all of them */
    bool wide;                 /* float64 */
    bool bf16[MERGE_MODELS + 1]; /* not wide: which models, and last the base, programs read as
                                    arrays of bfloat16 */
} merge_given;

/* A draw of numbers from [0, 1), one an element, which follow from seed, key, stream and the
 * element's place. Rounded down to a multiple of 2^-24. */
typedef struct merge_draw {
    int64_t seed, stream;
} merge_draw;

/* The plan of one key, and what stands in its slots. */
typedef struct merge_plan {
    plan *plan;     /* passes as plan_pass.h has them */
    prog_type type; /* PROG_F32 or PROG_F64: of the arrays in all slots but those of bfloat16.
                       Numbers, and the terms that they are made of, have types of their own
                       (number_type of plan_pass.h) */
    int ndraws, nranks;
    merge_draw draw[MERGE_MODELS];
    /* Each ranking: one pass, which stores its terms to MERGE_MERGED. MERGE_RANK + i is the rank of
     * the element among the terms of its row: 0 the smallest, 1 the largest, rank / (row - 1); of
     * equal terms the first is the smaller; 0.5 where the row has one element. */
    plan *rank[MERGE_MODELS];
} merge_plan;

/* Errors: value (`fail`, without a place; arithmetic of numbers; too many of them), dtype, usage,
 * with their place; memory. On an error *p needs no release. */
int merge_plan_make(merge_plan *p, const merge_rule *m, const merge_given *given, kv_err *e);
void merge_plan_release(merge_plan *p); /* zeroed is allowed */

/* ---- Private to merge.c ---- */

/* Makes *out, a rule without lists, of a parsed merge. A list that is given a name becomes names:
 * `deltas[0]` and on. Lists that the rule is given are those of the form. Indices, conditions of
 * comprehensions and how many items are trimmed follow from literals, lengths of lists and
 * parameters: names and texts are n given ones, others have their defaults. A block that is known
 * not to run is left out. All memory is a's.
 *
 * Errors, with place: usage (a list where one value belongs, or the other way round; lists of
 * different lengths; lines that merges do not have), value (no such item; too large when written
 * out), memory. */
int merge_lists_write(rule_ast **out, const rule_ast *r, const source *s, merge_form form,
                      const char *const *names, const char *const *texts, int n, arena *a,
                      kv_err *e);
