/* Cases of a rule from inside: what is noted while host lines run, so that later pushes need not
 * run them.
 *
 * rule_case_make runs the host lines of a rule for one push. Here it leaves behind what the next
 * ones need: the plan, whose numbers are entries of a table (prog_numbers.h), and a list of steps
 * that compute those numbers from what a push brings, its inputs. A host value that depends on an
 * input has its place among the values of the case in host.varies; all other host values are
 * literals of the steps. The kind of a value is part of the case, so most steps work on floats
 * without asking; a branch of the rule becomes a step that asks whether the truth is the same
 * again.
 *
 * The steps word no errors. What fails, another kind or another branch says only that the case does
 * not serve the push; compiling the rule for it then says what is wrong, and where.
 *
 * A rule that prints, or makes texts of inputs, is run for each push: such an update has no case.
 */
#pragma once

#include "vm/rule_run.h"

/* The inputs are the first values, whether a rule reads them or not. Value 0 is none. */
enum {
    CASE_KEY = 1,
    CASE_NAME,
    CASE_T,
    CASE_LR,
    CASE_WD,
    CASE_BASE_LR,
    CASE_SIZE,    /* elements of the key */
    CASE_ROWS,    /* its rows, */
    CASE_COLUMNS, /* and the elements of one */
    CASE_STATE,   /* and on: states that are host numbers */
    CASE_INPUTS = CASE_STATE + PLAN_MAX_STATES
};

/* In host.varies, beside the place of the value: it is computed of parameters that do not vary, so
 * no step computes it. It is a number of the program all the same: were it a literal, 1 or a power
 * of 2 would make another program, and each of those would need a loop (rule_loop.h). In exponents
 * it is a literal, and in rules by rows, whose sums of squares then read the input as it is. */
#define CASE_FIXED (1u << 16)

/* More values than a rule that a person would write has. */
enum { CASE_VALUES = 256, CASE_OPERANDS = 6 };

typedef enum case_what {
    CASE_ADD, /* of two floats, as the next ones */
    CASE_SUB,
    CASE_MUL,
    CASE_DIV,
    CASE_FLOATS, /* another operator */
    CASE_FLOAT,  /* the float that an integer is */
    CASE_BINARY, /* an operator, of any kinds */
    CASE_UNARY,
    CASE_CALL,  /* a function */
    CASE_BRANCH /* nothing: the truth of the operand must be op */
} case_what;

typedef struct case_step {
    uint8_t what;
    uint8_t op; /* an ast_op; CASE_CALL: a place in element_functions */
    uint8_t n;  /* operands of CASE_CALL */
    int16_t to; /* a value whose kind stands there before */
    int16_t of[CASE_OPERANDS];
} case_step;

/* Values of the case that are something else too: value `value` is number `of` of a list. */
typedef struct case_links {
    struct {
        int16_t value, of;
    } *items;
    int64_t n, cap;
} case_links;

struct rule_case {
    int64_t refs; /* atomic */
    /* What it is for: that of `given` but its numbers, and of the shape only if it is shaped. */
    rule_given given;
    bool plans, shaped;
    uint32_t reads; /* bit i: a step or a result reads input i */
    arena memory;   /* of texts and lists */
    host values[CASE_VALUES]; /* literals, and the kinds of the others */
    case_step *steps;
    int64_t nvalues, nsteps, steps_cap;
    case_links params;  /* parameters that vary */
    case_links gifts;   /* numbers of the program, to whose types the values are rounded */
    case_links results; /* states: their numbers, or what their elements begin with */
    prog_numbers numbers;
    rule_update u; /* without the values of the above */
    bool failed;   /* no memory, or something that steps do not do: it will serve no other push */
};

/* Begins a case of r's rule and push, and ends it: the case, or NULL if it cannot serve others. */
rule_case *rule_case_begin(rule_run *r);
rule_case *rule_case_end(rule_run *r, int rc);

/* What the push brings as input `which`. */
host rule_case_input(const rule_run *r, int which);

static inline bool rule_case_varies(host x)
{
    return x.varies && !(x.varies & CASE_FIXED);
}

/* The value of a parameter of the binding. */
host rule_case_param(const rule_run *r, int param);

/* Notes that *out was computed from args; one of them may vary. */
void rule_case_note(rule_run *r, case_what what, int op, const host *args, int n, host *out);

/* Notes that the rule goes on as it does because of the truth of x. */
void rule_case_branch(rule_run *r, host x);

/* v, the constant that x is among elements, which varies with x. */
prog_value rule_case_give(rule_run *r, host x, prog_value v);
