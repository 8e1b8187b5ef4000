/* Checksums in files of ours: a bit that changed on a disk or on its way is found, and the file is
 * refused. They stand in the metadata, so that other tools read the file as before:
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
#ifndef CORE_CHECKSUM_H
#define CORE_CHECKSUM_H

#include "core/image.h"

/* Adds the checksums of all that the image holds; nothing is added behind them. Errors: memory, an
 * array's own. */
int checksum_add(image *im, kv_err *e);

/* Says whether a text is a checksum. */
bool checksum_has(const char *name);

/* Compares the metadata with theirs. path is for messages. Errors: format (damaged), memory. */
int checksum_check(const safetensors *f, const char *path, kv_err *e);

/* Loads tensor i of a checked file, and compares it with its sum. Errors: those of
 * safetensors_load, format (damaged). */
int checksum_load(kv_array **out, const safetensors *f, int64_t i, const char *path, kv_err *e);

#endif
