/* A row_sparse key in the file of a store (store_file.h): the rows that it holds, and which they
 * are.
 *
 *   tensor                 holds
 *   __rows__/KEY/row_ids   I64, (n,): the ids of the n rows held, ascending
 *   __rows__/KEY/data      the rows in that order, (n, …): all axes of the key but the first
 *
 *   text
 *   kvstore.rows.KEY       the number of rows of the key, which is its first axis: "10000000"
 *
 * KEY is the key's own text, as in "3" and "fc1.weight", whatever characters it holds.
 */
#ifndef CORE_ROW_PARTS_H
#define CORE_ROW_PARTS_H

#include "base/mem.h"
#include "core/image.h"

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

#endif
