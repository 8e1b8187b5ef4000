/* An open patch, as the functions see it that apply and join patches. */
#ifndef PATCH_PATCH_OPEN_H
#define PATCH_PATCH_OPEN_H

#include <string.h>

#include "base/utf8.h"
#include "patch/patch_index.h"
#include "tensors/tensor_hash.h"

/* Names in messages: the first 80 bytes. */
#define PATCH_SHOWN(name) (int)utf8_cut((name), strlen(name), 80), (name)

struct patch {
    checkpoint *file;
    patch_index index;
    int64_t *data; /* of each key with data: the number of its tensor in the file */
};

/* Checks that each patch is made from what the one before it makes. Error: assert, see `wrong`. */
int patch_check_links(patch *const *patches, int n, patch_misfits *wrong, kv_err *e);

/* Compares a checkpoint, whose hashes are given in the order of its tensors (NULL: names, types and
 * shapes alone), with what a patch is made from or with what it makes, and lists the keys that are
 * not so. Error: memory. */
int patch_compare(patch_misfits *wrong, const patch *p, bool result, const checkpoint *c,
                  const tensor_hash *hashes, kv_err *e);

#endif
