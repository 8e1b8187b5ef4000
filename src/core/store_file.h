/* A whole store in a safetensors file, and back.
 *
 * One tensor a key, under the key's own text: "3" for an integer key, "fc1.weight" for a text key,
 * so that other tools read the weights. A text key that begins with "__" is written behind
 * "__key__/", because names that begin so are kept for what is no key (the states of optimizers,
 * residuals). All else stands in the file's metadata, where every name is there unless noted:
 *
 *   name              text
 *   kvstore.format    "1"
 *   kvstore.type      the type of the store: "local"
 *   kvstore.key_type  "integer", "text", or "none" when there is no key
 *   kvstore.pushes    for each key how many pushes it had: "3 0 1"
 *   kvstore.updates   for each key how many of them the updater saw
 *   kvstore.order     (text keys only) the keys in the order in which they were made
 *   kvstore.updater   "assign" or "rule"
 *   kvstore.rule      (rules only) the text of the rule
 *   kvstore.param.X   (rules only) the parameter X as it was given; none for those that were not
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
#ifndef CORE_STORE_FILE_H
#define CORE_STORE_FILE_H

#include "core/store.h"

/* What is to be written: references to the arrays and copies of all else, so that the store can go
 * on while the file is written. All zero is empty. */
typedef struct store_image {
    safetensors_item *items;
    int64_t n;
    safetensors_pair *metadata;
    int64_t nmetadata;
    arena memory; /* of names and texts */
} store_image;

/* Takes the image of a store whose lock is held. Errors: unsupported (a C callback is set; the
 * store keeps more than its slots), memory. */
int store_image_take(store_image *im, const kv *store, kv_err *e);

/* Writes it; path is replaced at once or not at all. Errors: io, memory, value (a header too
 * large). */
int store_image_write(const store_image *im, const char *path, kv_err *e);

void store_image_release(store_image *im);

/* A file that was opened: what it says of the store has been read, the arrays not yet. */
typedef struct store_file {
    safetensors *file;
    const char *path; /* borrowed */
    const char *type; /* of the store to make */
    bool foreign;     /* no word of ours is in it */
} store_file;

/* Errors: io, format, unsupported, memory. */
int store_file_open(store_file *f, const char *path, kv_err *e);

/* Fills a store that was just made, and that nobody else knows yet. After a failure it can only be
 * freed. Errors: as above, and those of a rule. */
int store_file_fill(const store_file *f, kv *store, kv_err *e);

void store_file_close(store_file *f);

#endif
