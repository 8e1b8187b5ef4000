/* Programs from inside, shared by prog_build.c (operations), prog_select.c (instructions and
 * registers) and prog_run.c (the interpreter).
 *
 * The way of a program: nodes in the order they were built, each folded, simplified and looked up
 * among the earlier ones when it is added (so that equal ones are one node); then an instruction
 * for each node that is needed; then places for their results.
 */
#pragma once

#include "vm/kernel.h"
#include "vm/prog_numbers.h"
#include "vm/program.h"

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Behind the operations of program.h. */
enum {
    NODE_LOAD = PROG_NOPS,
    NODE_CONST,
    NODE_CAST,
    NODE_NARROW,
    NODE_SPREAD, /* this and the next ones: plan.h */
    NODE_SUM,
    NODE_MATMUL,
    NODE_TURNED
};

typedef struct node {
    uint8_t op;
    uint8_t type;   /* a prog_type */
    uint8_t dtype;  /* NODE_LOAD, NODE_NARROW; NODE_SUM: 1 of the present rows, 0 of all */
    uint8_t flags;  /* of prog_select.c, as the next one */
    int32_t kid[3]; /* NODE_LOAD: kid[0] is the slot, kid[1] 1 when its elements are all one number;
                       unused: -1 */
    int32_t uses;   /* by live nodes and stores */
    prog_extent extent;
    int16_t number; /* NODE_CONST: which of the builder's numbers it is, or 0: a literal */
    prog_number k; /* NODE_CONST; those of plan.h: what it does, an integer */
} node;

typedef struct node_store {
    int32_t slot, value;
    kv_dtype dtype;
} node_store;

/* A node is named by its number: its address holds until the next one is added, which may move them
 * all. A function that adds nodes keeps numbers and copies, and no pointer to a node. */
#define BUILDER_HASHES 256   /* a power of two */
#define NODES_MAX      16000 /* places are counted in 16 bits: constants but factors have one */

struct prog_builder {
    arena memory; /* it lies there, too, so that a short program needs one block */
    node *nodes;
    node_store *stores;
    int64_t nnodes, nodes_cap, nstores, stores_cap;
    const kernel_table *kernels; /* fold constants */
    prog_numbers *numbers;       /* the table of its numbers; NULL: all constants are literals */
    int failed;                  /* KV_E_MEMORY, or KV_E_VALUE: too many operations */
    int16_t hashes[BUILDER_HASHES]; /* index of a node plus 1, or 0: of the first half as many */
};

/* ---- Instructions ---------------------------------------------------------------------------- */

typedef enum inst_kind {
    INST_FILL,    /* register dst becomes copies of word dst of the pool */
    INST_KERNEL,  /* an operation */
    INST_SCALED,  /* one whose operands a and b have factors, words k and k + 1 of the pool */
    INST_CONVERT, /* dst, of dtype `to`, from a, of dtype `from` */
    INST_NARROW   /* dst and a are of dtype `from`; by way of `to` */
} inst_kind;

/* Operands are places: first the registers, then the arrays by slot. */
typedef struct inst {
    kernel_loop *run;
    uint8_t kind, type;
    uint8_t op; /* INST_KERNEL, INST_SCALED: a prog_op */
    uint8_t to, from;
    uint8_t factors;         /* INST_SCALED: 1 and 2: of a and of b; without, the factor is 1 */
    int16_t dst, a, b, c, k; /* unused: 0 */
} inst;

/* A constant that is a number. */
typedef struct prog_patch {
    int16_t word, number;
} prog_patch;

struct prog {
    const kernel_table *kernels;
    int32_t ninsts;
    int32_t nregs;
    int32_t nfills; /* registers that hold a constant: they come first, and so do the instructions
                       that fill them */
    int32_t nslots;
    int32_t block;             /* elements */
    int32_t reg_bytes;         /* of a register: block times the widest type in use */
    bool narrows;              /* needs a buffer beside the registers */
    const rule_loop *whole;    /* one loop for all instructions, or NULL */
    const rule_loop *packed;   /* one that packs, or NULL */
    bool single;               /* one instruction on whole arrays alone: no blocks */
    const inst *insts;
    const uint64_t *pool;      /* constants, those of fills and factors; numbers as they were */
    const uint8_t *pool_types; /* the prog_type of each */
    int32_t npool, npatches;   /* constants, and those that are numbers */
    int32_t pool_at;           /* where its words begin among those of a plan */
    const prog_patch *patches;
    const int64_t *slot_bytes; /* of an element; 0 for a slot without an array */
};

/* A node equal to x: an old one, or x added; negative after a failure. */
prog_value prog_intern(prog_builder *b, const node *x);

/* A builder of another program that has the constants of this one. */
prog_builder *prog_builder_beside(const prog_builder *b, kv_err *e);

/* A constant with the value and the identity of n, which stands in a builder with
 * the same numbers. */
prog_value prog_const_like(prog_builder *b, const node *n);

/* A number that each run brings; today it is k. */
prog_value prog_given(prog_builder *b, int16_t number, prog_type type, prog_number k);

/* Fills a pool of p's constants; values[i] is number i. */
void prog_fill(const prog *p, const prog_number *values, uint64_t *pool);

/* prog_run, or prog_run_far, with other constants: those of pool, or NULL. */
void prog_run_with(const prog *p, const uint64_t *pool, void *const *arrays, int64_t n,
                   void *scratch, bool far);

/* ---- Runs ---- */

/* What identifies a program but for its constants; and the loop of prog.whole or of prog.packed, or
 * NULL. */
uint64_t prog_hash(const prog *p);
const rule_loop *prog_whole(const prog *p);

/* Runs that loop; more: of kernel_whole, where prog.whole adds. */
void prog_run_whole(const prog *p, const uint64_t *pool, void *const *arrays, const float *more,
                    int64_t n);

/* Bytes of a block that a register holds: half a page, so that the blocks of several arrays and
 * registers share the L1 cache. Measured on 16M float32 with five operators: 2 KB 0.82 of a fused
 * loop, 4 KB 0.80, 8 KB 0.74, 16 KB 0.65. */
#define PROG_REG_BYTES 2048
