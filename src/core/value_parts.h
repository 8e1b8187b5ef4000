/* What a key has beside a dense value, as parts of files.
 *
 * A row_sparse key in the file of a store (store_file.h): the rows that it holds, and which they
 * are.
 *
 *   tensor                 holds
 *   __rows__/KEY/row_ids   I64, (n,): the ids of the n rows held, ascending
 *   __rows__/KEY/data      the rows in that order, (n, …): all axes of the key but the first
 *
 *   text
 *   kvstore.rows.KEY       the number of rows of the key, which is its first axis: "10000000"
 *
 * Gradient compression: the same text and tensors stand in a file of states (state_file.h) and in
 * that of a whole store (store_file.h). Without compression there are none.
 *
 *   text                 holds
 *   kvstore.compression  type and threshold: "2bit 0.5"
 *
 *   tensor               holds
 *   __residual__/KEY/I   the residual of position I in the list of values, from 0 on without gaps;
 *                        none for a key that had no compressed push. float32 in the key's shape
 *
 * KEY is the key's own text, as in "3" and "fc1.weight", also when it holds a slash.
 */
#pragma once

#include "base/mem.h"
#include "core/compress.h"
#include "core/image.h"

/* ---- Rows ---- */

#define ROW_PARTS_PREFIX "__rows__/"

/* Adds the parts of a row_sparse array, and references to it. Blocks until what writes it has
 * ended. */
void row_parts_add(image *im, const char *key, kv_array *stored);

/* Says whether a text belongs to the parts. */
bool row_parts_has(const char *name);

/* The role of a tensor, which its name tells. */
typedef enum row_part { ROW_PART_NONE, ROW_PART_IDS, ROW_PART_DATA } row_part;
row_part row_parts_kind(const char *name);

/* The KEY in the name of either tensor, a copy in memory. Error: memory (NULL). */
const char *row_parts_key(arena *memory, const char *name, kv_err *e);

/* Checks that each part has the two others of its array. path is for messages.
 * Errors: format, memory. */
int row_parts_check(const checkpoint *f, const char *path, kv_err *e);

/* The array whose ids are tensor i of a file that row_parts_check took. Errors: format, io, memory.
 */
int row_parts_load(kv_array **out, const checkpoint *f, const char *path, int64_t i, kv_err *e);

/* ---- Compression ---- */

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
