/* One run of a rule from inside: what its files share. rule_element.c computes host
 * values and makes elements operations of a program, rule.c goes through the statements. */
#pragma once

#include "vm/element.h"
#include "vm/rule.h"
#include "vm/rule_env.h"

/* The value of a name that was made of whole arrays, once only the present rows are read. */
#define STALE (-2)

/* The first failure stays in rc: everything after it gives none, or -1, from which nothing else is
 * made. */
typedef struct rule_run {
    const rule_binding *binding;
    const rule_given *given;
    rule_env env;
    arena memory;        /* names and new texts */
    bool by_rows, whole; /* a reduction or state of rows; a reduction of the whole array */
    bool steps;          /* what only a plan by steps does */
    int draws;           /* of normal() */
    int offset;          /* PLAN_PRESENT behind `rows present` */
    kv_dtype dtype, stored_dtype;
    prog_type type; /* T: what element lines compute in */
    bool plans;     /* a plan is made */
    int exponent;   /* above 0 in an exponent: fixed numbers are literals, for a square */
    rule_case *note; /* what later pushes need, or NULL (rule_case.h) */
    prog_builder *b;
    const ast *node; /* the operation of elements that is being made */
    rule_update *u;
    bool ended; /* by `skip` */
    prog_value path; /* in a block of which it is known late whether it runs: whether; else -1 */
    prog_value skip; /* whether a `skip` in such a block was met, or -1 */
    struct merge_plan *merge; /* of a merge, what its functions add to; NULL: an updater */
    /* Functions that only merges have, and matmul of low-rank adapters. */
    prog_value (*merge_element)(struct rule_run *r, const ast *node, const element_function *f,
                                prog_type type);
    int rc;
    kv_err *e;
} rule_run;

/* Runs the lines of the rule, up to the end or a `skip` or failure. */
void rule_run_body(rule_run *r);

/* Gives the failure rc the place of the node. */
void rule_refuse(rule_run *r, const ast *node, int rc);

/* A failure at the node, unless there was one before. */
#define REFUSE(r, node, code, ...)                                                                 \
    ((r)->rc = (r)->rc ? (r)->rc                                                                   \
                       : source_err((r)->binding->src, (node)->pos, (node)->end, (r)->e, code,     \
                                    __VA_ARGS__))

/* The result of an expression among elements: a value of the program, or a text or none. */
typedef struct rule_operand {
    bool other;
    host host;    /* when other */
    prog_value v; /* else */
} rule_operand;

/* The value of a host expression; none after a failure. */
host rule_host(rule_run *r, const ast *node);

/* An expression in `type`, which is T, or binary64 inside f64. */
rule_operand rule_element(rule_run *r, const ast *node, prog_type type);

/* The same, which must be a number; -1 after a failure. */
prog_value rule_number(rule_run *r, const ast *node, prog_type type);
void rule_need_number(rule_run *r, const ast *node, rule_operand x);

/* A host number among elements: rounded once to T, and held in `type`. */
rule_operand rule_from_host(rule_run *r, const ast *node, host x, prog_type type);

/* An operation, whose operands must fit each other; of an integer key its result wraps. */
prog_value rule_apply(rule_run *r, prog_op op, prog_value x, prog_value y, prog_value z);

/* How long the key is along an axis: a prog_axis. */
host rule_length(const rule_run *r, uint8_t axis);
