/* Programs as text: C++ for devices with the definitions of cuda/rule_element.cuh, and C with those
 * of vm/rule_loop.h. Their names begin with kv_.
 *
 * Each instruction becomes one variable, which later instructions read, so registers and stores
 * keep their order without a thought. What the elements of a slot are is the caller's. Constants
 * are no part of the text: they are read from a pool that comes with each job, so that a rate that
 * changes with every update makes no other text.
 *
 * Worked example, a0 = a0 + a1*2 in float32:
 *     const float k1 = KV_K_F32(1);
 * and
 *     const float v0 = …;
 *     const float v1 = …;
 *     const float v2 = (float)(KV_OF_F32(arith_add)(v0, (v1 * k1)));
 */
#pragma once

#include "vm/program.h"

/* Both add to out. */
typedef struct prog_text_slots {
    void *arg;
    /* An expression that reads the element of a slot; asked for once, before it is first needed. */
    void (*read)(void *arg, buf *out, int slot, kv_dtype dtype);
    /* A statement that makes variable number v the element of a slot. */
    void (*write)(void *arg, buf *out, int slot, kv_dtype dtype, int v);
} prog_text_slots;

/* The statements; errors end in out. */
void prog_text(buf *out, const prog *p, const prog_text_slots *slots);

/* Declarations of the constants that the statements name, read from the pool of the program. */
void prog_text_constants(buf *out, const prog *p);

/* A dtype as a type of kernel_element.cuh, and the type of its elements. */
const char *prog_text_tag(kv_dtype dtype);
const char *prog_text_item(kv_dtype dtype);
