/* A whole store in a safetensors file, and back.
 *
 * One tensor a key, under the key's own text: "3" for an integer key, "fc1.weight" for a text key,
 * so that other tools read the weights. A row_sparse key is two tensors under "__rows__/", see
 * image.h. The states of an optimizer stand under "__state__/", see state_file.h, and the
 * residuals of compressed gradients under "__residual__/", see image.h. A text key that
 * begins with "__" is written behind "__key__/", because names that begin so are kept for what is
 * no key. All else stands in the file's metadata, where every name is there unless noted:
 *
 *   name              text
 *   kvstore.format    "1"
 *   kvstore.type      the type of the store: "local"
 *   kvstore.base      (registered names only) the type that this one is a name of
 *   kvstore.key_type  "integer", "text", or "none" when there is no key
 *   kvstore.pushes    for each key how many pushes it had: "3 0 1"
 *   kvstore.updates   for each key how many of them the updater saw
 *   kvstore.order     (text keys only) the keys in the order in which they were made
 *   kvstore.updater   "assign" or "rule"
 *   kvstore.rows.KEY  (row_sparse keys only) the number of rows, see image.h
 *   kvstore.rule, kvstore.param.X  (rules only) the rule in use, see state_file.h
 *   kvstore.num_update, …          (rules only) counts, numbers and schedule, see state_file.h
 *   kvstore.xxh64, kvstore.xxh64.TENSOR  (may be missing) checksums, see image.h
 *   kvstore.compression            (with gradient compression only) see image.h
 *
 * Lists have one whole number a key and a blank between two. They follow the keys in ascending
 * order, of the integers or of the bytes of the texts, and not the order of the file, because other
 * tools may write a file anew in another order. In kvstore.order a key is its place in that order,
 * from 0: b, c, a made one after the other give "1 2 0".
 *
 * A reader refuses names under kvstore. and tensors under "__" that it does not know, so that a
 * later version may add some without a new format. Other metadata belong to other tools; they are
 * kept and written again.
 *
 * A file without any name under kvstore. is another tool's: its tensors become text keys of a store
 * of type local, in the order of the file, under their names as they are.
 */
#pragma once

#include "core/image.h"
#include "core/store.h"

/* Takes the image of a store whose lock is held. Errors: unsupported (a C callback is set; the
 * store keeps more than its slots), memory. */
int store_file_take(image *im, const kv *store, kv_err *e);

/* The image of a file as another tool would write it: only keys and remarks. Errors: as above; a
 * key is row_sparse (unsupported). */
int store_file_take_arrays(image *im, const kv *store, kv_err *e);

/* Sets a text of other tools, which files of the store hold. Errors: value (the name is one of
 * ours; the name or the text is not UTF-8, which no file could hold), memory. */
int store_file_remark(kv *store, const char *name, const char *text, kv_err *e);

/* A file that was opened: its description of the store has been read, the arrays not yet. */
typedef struct store_file {
    checkpoint *file;
    const char *path; /* borrowed */
    const char *type; /* of the store to make */
    const char *base; /* or NULL: the type to make where that one is not known */
    bool foreign;     /* no word of ours is in it */
    bool later;       /* set behind the open: arrays stay in the file until they are needed */
} store_file;

/* The caller closes f, also after an error: io, format, dtype (a type that no store keeps),
 * unsupported, memory. */
int store_file_open(store_file *f, const char *path, kv_err *e);

/* Fills a new store, which no other thread knows yet. After a failure it can only be
 * freed. Errors: as above, and those of a rule. */
int store_file_fill(const store_file *f, kv *store, kv_err *e);

/* Puts the states and the residuals of a file into a store that has its keys
 * and counts, its optimizer and its compression already, whatever its type. Errors: as above;
 * nothing of the optimizer changed then. */
int store_file_fill_states(const store_file *f, kv *store, kv_err *e);

void store_file_close(store_file *f);
