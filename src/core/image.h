/* Files of ours, and messages that have their form: an image holds references to arrays and copies
 * of all else, so that a store can go on while it is written. The same file has how such files name
 * keys, and their checksums, which find a bit that changed on a disk or on its way. Checksums stand
 * in the metadata, so that other tools read the file as before:
 *
 *   name                   text
 *   kvstore.xxh64.TENSOR   for each tensor the XXH64 (seed 0) of its data as they stand in the
 *                          file, in 16 hexadecimal digits, its dtype and its shape:
 *                          "44bc2cf5ad770999 float32 (2, 3)"
 *   kvstore.xxh64          the same of all other metadata whose names begin with "kvstore.": in
 *                          ascending order of the bytes of the names each name, a NUL, its text, a
 *                          NUL
 *
 * A file with none of these names is not checked: older versions wrote such files, and a tool that
 * changes a file on purpose leaves them out. A tool that only writes a file anew, in whatever
 * order, keeps them.
 */
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "core/compress.h"
#include "core/slot.h"

/* Our names in the metadata begin so. */
#define IMAGE_OURS "kvstore."

/* ---- Writing --------------------------------------------------------------------------------- */

/* All zero is empty. Adding cannot fail at the place of the call: the image remembers the first
 * error, ignores what follows, and image_finish reports it. */
typedef struct image {
    safetensors_item *items;
    int64_t n, cap;
    checkpoint_text *metadata;
    int64_t nmetadata, metadata_cap;
    arena memory; /* of names and texts */
    bool plain;   /* as another tool would write it: without checksums */
    bool around;  /* a file of it is written around the page cache: see file.h */
    kv_err why;   /* the first error */
} image;

/* Adds a text, or a reference to an array, under prefix followed by name. */
void image_text(image *im, const char *prefix, const char *name, const char *text);
void image_array(image *im, const char *prefix, const char *name, kv_array *array);

/* Adds the text that b holds, and releases b. */
void image_buf(image *im, const char *prefix, const char *name, buf *b);

/* All was added. Errors: the first that an addition had, memory mostly; nothing is left then. */
int image_finish(image *im, kv_err *e);

/* Adds the checksums, unless it is plain, and writes it; path is replaced at once or not at all.
 * Errors: io, memory, value (a header too large), an array's own. */
int image_write(image *im, const char *path, kv_err *e);

/* Appends it to out as it would be written to a file, without checksums. name is for messages.
 * Errors: memory, value, an array's own. */
int image_print(buf *out, const image *im, const char *name, kv_err *e);

void image_release(image *im);
#define own_image OWN(image_release) image

/* ---- Reading --------------------------------------------------------------------------------- */

/* Compares the metadata with their checksum. path is for messages. Errors: format (damaged),
 * memory.
 */
int image_check(const checkpoint *f, const char *path, kv_err *e);

/* Loads tensor i of a checked file, and compares it with its checksum. later: its elements stay in
 * the file until they are needed (checkpoint_load_later); then they are compared in blocks now, and
 * once more when they are needed. Errors: those of checkpoint_load, format (damaged). */
int image_load(kv_array **out, const checkpoint *f, int64_t i, bool later, const char *path,
               kv_err *e);

/* Lists of names end in NULL; what ends in a dot there stands for all names that begin so.
 * image_check_names refuses names of ours that are neither a checksum, the compression, nor in one
 * of the lists. *ours: there is a name of ours. Error: format. */
bool image_lists(const char *const *names, const char *name);
int image_check_names(const checkpoint *f, const char *path, const char *const *names,
                      const char *const *more, bool *ours, kv_err *e);

bool image_begins(const char *text, const char *with);

/* A whole number from 0 on, with a blank or the end behind it. Returns what follows, or NULL. */
const char *image_count(const char *text, int64_t *n);

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The text of a key in files: "3", "fc1.weight". number is room for a number. */
const char *image_key(char number[32], const kv_key *key);

/* "integer", "text", or "none" of a table without keys. */
const char *image_key_type(const slot_table *t);

/* Reads an integer key. Only the text that image_key gives is one: not "03". */
bool image_integer_key(const char *text, kv_key *key);

/* The slot whose key has this text of n bytes, or -1. */
int64_t image_slot(const slot_table *t, const char *text, size_t n, int64_t guess);

/* ---- Values as parts of a file ----
 *
 * What a key has beside a dense value, as parts of files.
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
 * KEY is the key's own text, as in "3" and "fc1.weight", also when it holds a slash. */

/* ---- Rows ---- */

#define ROW_PARTS_PREFIX "__rows__/"
#define ROWS_PART        "kvstore.rows."

/* Adds the parts of a row_sparse array, and references to it. Blocks until what writes it has
 * ended. */
void row_parts_add(image *im, const char *key, kv_array *stored);

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
#define own_residual_parts OWN(residual_parts_release) residual_parts
