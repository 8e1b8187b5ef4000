/* The operations of the benchmark: calls of the public interface, and what each must read and write
 * once, which is what its bytes and its limit are made of.
 *
 * An optimizer reads and writes the stored array and its states; where a rule needs the norm of
 * what it computes, arrays are read a second time. LAMB is counted with 10 accesses an element and
 * Nadam with 6, as few as anybody counts.
 */
#pragma once

#include <stddef.h>

#include "kvstore.h"

/* The precision to which the results of a large store and of a small one agree. */
typedef enum bench_exact {
    BENCH_EXACT, /* the rule works element by element: in every bit */
    BENCH_NORMS, /* the rule takes norms of whole arrays: about */
    BENCH_FINITE /* random numbers, or states that keys share: not at all */
} bench_exact;

typedef struct bench_optimizer {
    const char *name; /* of the operation */
    const char *optimizer;
    kv_opt params[2];
    int nparams;
    int states; /* arrays kept beside the stored one */
    int both;   /* arrays read and written, the stored one among them */
    int again;  /* arrays read beyond those and the pushed value, by later passes */
    bench_exact exact;
} bench_optimizer;

/* Every optimizer of the library; an entry without a name ends them. */
extern const bench_optimizer bench_optimizers[];

typedef struct bench_op {
    bool push, pull;
    bool joined;                      /* pushpull: sums go to the store and the outs */
    const bench_optimizer *optimizer; /* or NULL: the sum replaces the stored value */
} bench_op;

/* "push", "pull", "pushpull", an optimizer, or "push+OPTIMIZER+pull"; n bytes of text. Error:
 * usage. */
int bench_op_parse(bench_op *out, const char *text, size_t n, kv_err *e);

/* "push+adam+pull" */
void bench_op_name(char out[64], bench_op op);
