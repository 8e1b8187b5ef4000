/* Hashes of tensors: the same wherever a tensor stands, in files of any format or in shards. */
#pragma once

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/digest.h"

typedef struct tensor_hash {
    unsigned char bytes[DIGEST_MAX]; /* digest_bytes(kind) of them */
} tensor_hash;

/* Hashes n tensors of a checkpoint, by their numbers in it, on all threads: hash i is that of the
 * line `BF16 [4096, 4096]`, its newline and the data, little-endian, row-major, packed. progress:
 * NULL or as walk.h says. Errors: those of digest_new and of walk_run. */
int tensor_hash_all(tensor_hash *hashes, checkpoint *c, const int64_t *numbers, int64_t n,
                    digest_kind kind, void (*progress)(void *arg, int64_t done, int64_t all),
                    void *progress_arg, kv_err *e);

/* Begins the hash of a tensor of this type and shape, for its data to follow; line: room for its
 * first line. Error: memory. */
int tensor_hash_begin(digest *d, buf *line, tensor_type type, int ndim, const int64_t *shape,
                      kv_err *e);

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Lines `HASH  NAME`, as `hash` writes them, for hash --verify. */

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
