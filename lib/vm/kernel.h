/* Kernels: the inner loops of programs, one for each operation and type.
 *
 * The loops are compiled several times, for what the processor can do; the results are the same
 * bits (of nans only that they are nans).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vm/program.h"

/* The properties of each in op_list.h. */
typedef struct kernel_form {
    const char *expression;
    int arrays; /* that it reads: a, b, c */
} kernel_form;

extern const kernel_form kernel_forms[PROG_NOPS];

/* dst[i] = f(a[i], b[i], c[i]) for n elements. dst may be a, b or c, but not overlap them
 * otherwise; arrays not used are ignored. Of a scaled one f(a[i] * c[0], b[i] * c[1]): the factors
 * are two numbers of the type, each at the start of 8 bytes. */
typedef void kernel_loop(void *dst, const void *a, const void *b, const void *c, int64_t n);

/* Sums that run side by side. */
enum { KERNEL_LANES = 8 };

/* Terms of sums: those of lane l are the numbers from x + l * stride on, or their squares, each
 * rounded by itself. */
typedef struct kernel_terms {
    void *sums;
    const void *x;
    int64_t stride;
    int64_t ahead; /* the memory is asked for what lies so many numbers ahead; 0: it is not */
    bool squares;
} kernel_terms;

enum { KERNEL_SUMS = 4 };

/* sums[l] += each of the n float32 terms of KERNEL_LANES lanes, one after the other, for every one
 * of the terms: KERNEL_SUMS of them at most. n is a multiple of KERNEL_LANES. Adding waits for each
 * addition, so one lane would be slow, and one group of lanes takes about as long as two. */
typedef void kernel_sum(const kernel_terms *terms, int count, int64_t n);

/* For each of n elements the number of its row: x[0] for those of the first row, of which `skip`
 * are left out, and so on. A number has 4 or 8 bytes. */
typedef void kernel_spread(void *to, const void *x, int bytes, int64_t skip, int64_t n,
                           int64_t row);

/* All instructions of a program on n elements of its arrays, with the constants of its pool; more:
 * NULL, or what is added to array 1, of float32, as it is read. Returns 0, or if the loop packs the
 * bits of the largest size that it stored, before it was rounded. */
typedef uint32_t kernel_whole(void *const *arrays, const float *more, const uint64_t *pool,
                              int64_t n);

/* The programs that have such a loop (rule_loop.h), by the hash of each (prog_hash), in its order;
 * one loop for each table of kernels, or NULL. */
typedef struct rule_loop {
    uint64_t hash;
    kernel_whole *run[3];
    bool adds;  /* more may be there */
    bool packs; /* it stores bfloat16 for float32, and n is even: see prog_pack */
} rule_loop;

extern const rule_loop rule_loops[];
extern const int rule_nloops;

/* to[i] = noise_normal(seed, draw, from + i) of noise.h, for n elements. */
typedef void kernel_normals(float *to, uint64_t seed, uint64_t draw, uint64_t from, int64_t n);

enum { KERNEL_UNIFORMS = 64 };

/* Random numbers from [0, 1), rounded down to multiples of 2^-24, for ngroups groups of
 * KERNEL_UNIFORMS elements: float32, or float64 if wide. They are words of Philox
 * (base/philox_rounds.h) with `seed` as its key: number 64 g + 16 w + b is word w of the counter
 * whose lower half is 16 (group + g) + b, and whose upper half is `hash`. */
typedef void kernel_uniforms(void *to, bool wide, uint64_t seed, uint64_t hash, uint64_t group,
                             int64_t ngroups);

/* Kernels by prog_type and prog_op; NULL where a type has no such operation. */
typedef struct kernel_table {
    const char *name;
    kernel_loop *run[PROG_I64 + 1][PROG_NOPS];
    kernel_loop *scaled[PROG_F64 + 1][PROG_NOPS]; /* a product with 1 is what it was */
    kernel_sum *sum;
    kernel_spread *spread;
    kernel_normals *normals;
    kernel_uniforms *uniforms;
    int loop; /* which of a rule_loop is for the same processors */
} kernel_table;

/* The fastest table that this processor can use. */
const kernel_table *kernel_best(void);

/* The i-th table that it can use, slowest first, or NULL behind the last. */
const kernel_table *kernel_tables(int i);
