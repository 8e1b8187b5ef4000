/* Programs: straight lines of typed vector operations over arrays of one length.
 *
 * An updater rule and an element-wise expression both become a program. It is built one operation
 * at a time, each naming the results of earlier ones; prog_finish drops operations that no store
 * needs, folds constants and assigns registers. prog_run then works through the arrays in blocks
 * that stay in the L1 cache. Every written operation is one IEEE rounding in its type.
 */
#pragma once

#include "array/kv_array.h"
#include "base/buf.h"
#include "base/mem.h"
#include "vm/op_list.h"

/* The types of operations. Narrower dtypes are widened when loaded and narrowed when stored:
 * float16 and bfloat16 are F32, all integers and bool are I64. */
typedef enum prog_type { PROG_F32, PROG_F64, PROG_I64 } prog_type;

prog_type prog_type_of(kv_dtype dtype);

/* The dtype whose elements are what a type computes with. */
kv_dtype prog_dtype(prog_type type);

/* Operations, as op_list.h says. */
typedef enum prog_op {
#define PROG_OP_ENUM(name, ...) name,
    PROG_OPS(PROG_OP_ENUM)
#undef PROG_OP_ENUM
        PROG_NOPS
} prog_op;

int prog_op_arity(prog_op op);
prog_op prog_op_mirrored(prog_op op); /* of a comparison, its sides exchanged: > for < */

/* How long a value is along the axes of a matrix: one, or as long as an array has rows, or columns.
 * Of arrays that a program loads it is (ROWS, COLUMNS), of constants (ONE, ONE), and of operations
 * what their operands have together. Programs go over elements one by one, so that only plans
 * (plan.h) know any other. */
typedef enum prog_axis { PROG_ONE, PROG_ROWS, PROG_COLUMNS } prog_axis;
typedef struct prog_extent {
    uint8_t rows, columns;
} prog_extent;

typedef struct prog_builder prog_builder;
typedef int32_t prog_value; /* the result of an operation; negative after a failure, which
                               the builder keeps: prog_finish reports it */

prog_builder *prog_builder_new(kv_err *e);
void prog_builder_free(prog_builder *b);
arena *prog_builder_memory(prog_builder *b); /* for what lives as long as it */

#define PROG_MAX_SLOT 1023

/* The elements of array number `slot` (0, 1, …, at most PROG_MAX_SLOT in what prog_finish is
 * given), stored as dtype, converted to type. Sees what earlier prog_store calls wrote there. A
 * slot has one dtype. */
prog_value prog_load(prog_builder *b, int slot, kv_dtype dtype, prog_type type);

/* A number that is known when the program runs: array number `slot` holds a block of copies of
 * it, in type's own dtype. */
prog_value prog_load_number(prog_builder *b, int slot, prog_type type);

/* A number, rounded once to type. */
prog_value prog_const(prog_builder *b, prog_type type, double x);
prog_value prog_const_int(prog_builder *b, prog_type type, int64_t x);

/* Operands must have one type (prog_cast); unused ones are -1. */
prog_value prog_apply(prog_builder *b, prog_op op, prog_value x, prog_value y, prog_value z);

/* x in another type: floats round, float to I64 truncates and saturates, nan gives 0. */
prog_value prog_cast(prog_builder *b, prog_type type, prog_value x);

/* x as dtype can hold it, still in its own type: float16 and bfloat16 round, integers narrower than
 * 64 bits wrap, bool is x != 0. */
prog_value prog_narrow(prog_builder *b, kv_dtype dtype, prog_value x);

prog_type prog_value_type(const prog_builder *b, prog_value x);

/* The dtype that x was loaded from, as long as nothing was done to it; else that of its type. */
kv_dtype prog_value_dtype(const prog_builder *b, prog_value x);

/* Returns true if x is a known number: *number, in the precision of x's type, or for I64
 * *integer. */
bool prog_value_known(const prog_builder *b, prog_value x, double *number, int64_t *integer);

/* Writes x to array number `slot`, converted to dtype as the device table does. */
void prog_store(prog_builder *b, int slot, kv_dtype dtype, prog_value x);

typedef struct prog prog;

/* The finished program; the builder may be freed or go on. Errors: memory, value (too many
 * operations). */
int prog_finish(prog_builder *b, prog **out, kv_err *e);
void prog_free(prog *p);

/* Bytes of scratch memory, aligned to 64, that one prog_run needs. */
int64_t prog_scratch_bytes(const prog *p);

/* Runs p over n elements: arrays[slot] points at the first element of each array in host memory.
 * Arrays do not overlap, except that those only read may. scratch: prog_scratch_bytes of memory,
 * aligned to 64; NULL is fine when that is 0. Cannot fail; uses nothing but its arguments, so parts
 * of the same arrays may run on several threads. */
void prog_run(const prog *p, void *const *arrays, int64_t n, void *scratch);

/* Several arrays of so many elements are larger than the caches next to a processor. */
#define PROG_FAR_SIZE (1 << 19)

/* The same, for (n elements of) arrays that no such cache holds: asks for elements ahead, unless
 * the program is one instruction, for whose arrays the processor asks by itself. */
void prog_run_far(const prog *p, void *const *arrays, int64_t n, void *scratch);

/* Runs a program whose arrays are bfloat16, but for the one of float32 that it stores, and rounds
 * what it stores to bfloat16. Returns false if it has no loop for that, n is odd, or a number did
 * not become a finite one: then the array holds anything, and prog_run does it. */
bool prog_pack(const prog *p, void *const *arrays, int64_t n);
