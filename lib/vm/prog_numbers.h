/* Numbers of a program that each run of it may have others of, such as a learning rate or the
 * powers of beta: a program is compiled once, and each push fills its constants anew.
 *
 * While a program is built a number is a constant that has a value, today's, and an identity, its
 * place in this table. Two numbers that are equal today are two constants. What is computed of
 * numbers is an entry of the table, made by the kernels that would compute it among elements, so
 * that the bits are those of a program in which today's values are literals. Where the shape of a
 * program depends on whether a number is 0, the answer is noted as a branch, and the program is for
 * runs with the same answer.
 *
 * A number is counted from 1: 0 stands for a literal.
 */
#pragma once

#include "vm/kernel.h"
#include "vm/program.h"

/* A number of a program's type; F32 is held as a double that is a float32. */
typedef union prog_number {
    double number;
    int64_t integer;
} prog_number;

typedef enum number_how {
    NUMBER_GIVEN,   /* the run brings it */
    NUMBER_LITERAL, /* k */
    NUMBER_FOLD,    /* op of the operands */
    NUMBER_CAST,    /* the operand, of type `from` */
    NUMBER_NARROW   /* the operand as dtype `from` holds it */
} number_how;

typedef struct prog_entry {
    uint8_t how;    /* a number_how */
    uint8_t op;     /* NUMBER_FOLD: a prog_op */
    uint8_t type;   /* a prog_type */
    uint8_t from;   /* NUMBER_CAST: a prog_type; NUMBER_NARROW: a kv_dtype */
    int16_t kid[3]; /* earlier numbers, or 0 */
    prog_number k;  /* NUMBER_LITERAL */
} prog_entry;

/* The program is right while number `which` is 0, or is not. */
typedef struct prog_branch {
    int16_t which;
    bool truth;
} prog_branch;

/* All zero is empty, but for the first two. */
typedef struct prog_numbers {
    const kernel_table *kernels;
    arena *memory;
    prog_entry *entries; /* number i is entries[i - 1] */
    prog_branch *branches;
    int64_t n, cap, nbranches, branches_cap;
    bool failed; /* no memory, or too many: some constants are literals that should be numbers */
} prog_numbers;

/* The number of an entry equal to x, an old one unless it is given, or a new one; 0 after a
 * failure. */
int16_t prog_numbers_add(prog_numbers *t, const prog_entry *x);
void prog_numbers_branch(prog_numbers *t, int16_t which, bool truth);

/* The value of x, whose operands have the values in kid. A nan is the nan of constants. */
prog_number prog_numbers_compute(const kernel_table *kernels, const prog_entry *x,
                                 const prog_number kid[3]);

/* Computes values[1] … values[n] from the given ones, which stand there already. False: a branch
 * goes the other way, so that the program is for other values. */
bool prog_numbers_fill(const prog_numbers *t, prog_number *values);

/* A number as an element of its type. */
void prog_number_put(void *to, prog_type type, prog_number x);

/* Returns true if a number is not 0; a nan is not. */
bool prog_number_truth(prog_number x, prog_type type);
