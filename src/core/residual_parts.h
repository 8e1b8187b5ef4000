/* Gradient compression as parts of a file: the same text and tensors stand in a file of states
 * (state_file.h) and in that of a whole store (store_file.h). Without compression there are none.
 *
 *   text                 holds
 *   kvstore.compression  type and threshold: "2bit 0.5"
 *
 *   tensor               holds
 *   __residual__/KEY/I   the residual of position I in the list of values, from 0 on without gaps;
 *                        none for a key that had no compressed push. float32 in the key's shape
 *
 * KEY is the key's own text, also when it holds a slash.
 */
#ifndef CORE_RESIDUAL_PARTS_H
#define CORE_RESIDUAL_PARTS_H

#include "core/compress.h"
#include "core/image.h"
#include "core/slot_state.h"

#define COMPRESSION_PART "kvstore.compression"

/* Adds the parts. */
void residual_parts_add(image *im, const compression *c, const slot_table *t);

/* Says whether a tensor belongs to the parts. */
bool residual_parts_is(const char *name);

/* The parts of a file, read and not yet used. All zero is nothing. */
typedef struct residual_parts {
    compression how;
    residuals **items; /* by slot */
    int64_t n;
} residual_parts;

/* Reads the parts of a file for these slots. path is for messages. Errors: format, io, memory; *p
 * needs no release then. */
int residual_parts_read(residual_parts *p, const checkpoint *f, const char *path,
                        const slot_table *t, kv_err *e);

/* Makes the residuals those of the slots. Cannot fail. */
void residual_parts_commit(residual_parts *p, slot_table *t);

void residual_parts_release(residual_parts *p);

#endif
