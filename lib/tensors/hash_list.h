/* Lists of hashes, as `hash` writes them: lines `HASH  NAME`, for hash --verify. */
#ifndef TENSORS_HASH_LIST_H
#define TENSORS_HASH_LIST_H

#include "base/map.h"
#include "base/mem.h"
#include "checkpoint/digest.h"

typedef struct listed_hash {
    const char *name;
    unsigned char bytes[DIGEST_MAX];
    bool met; /* the caller's */
} listed_hash;

/* Begins zeroed. */
typedef struct hash_list {
    digest_kind kind; /* of all of them, XXH3 where there is none */
    listed_hash *items;
    int64_t n, cap;
    map by_name; /* the number of each */
    arena texts;
} hash_list;

/* Reads a file, or stdin for "-"; the kind is known by the number of digits. Errors: format, with
 * the number of the line (no hash, no name, a name in quotes that do not end, two kinds, a name
 * twice); those of file_read_text. The caller releases the list, also after a failure. */
int hash_list_read(hash_list *list, const char *path, kv_err *e);

void hash_list_release(hash_list *list);

#endif
