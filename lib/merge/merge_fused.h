/* Programs of few kinds of operations, such as weighted means, on tiles that stay in the L1 cache
 * from the bits of the inputs to the result. They are bound by memory, so every other load counts:
 * measured on a mean of four BF16 models, one thread, half of the time beside reading and writing.
 */
#ifndef MERGE_MERGE_FUSED_H
#define MERGE_MERGE_FUSED_H

#include "vm/plan_pass.h"

#define MERGE_FUSED_TILE 128

typedef struct merge_fused merge_fused;

/* Returns the bytes that merge_fused_make needs for a program, or 0 if it is of another kind. */
int64_t merge_fused_bytes(const prog *p);
merge_fused *merge_fused_make(void *memory, const prog *p);

/* An array that the program reads or writes. */
typedef enum merge_fused_kind {
    MERGE_FUSED_F32,
    MERGE_FUSED_BF16,
    MERGE_FUSED_NUMBER
} merge_fused_kind;
typedef struct merge_fused_array {
    void *at; /* of a number: MERGE_FUSED_TILE copies; BF16 at an even address */
    merge_fused_kind kind;
} merge_fused_array;

/* Runs it on n elements, a multiple of MERGE_FUSED_TILE; arrays by slot, what is written is F32.
 * The bits are those of prog_run. */
void merge_fused_run(const merge_fused *f, const merge_fused_array *arrays, int64_t n);

#endif
