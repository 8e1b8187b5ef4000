/* Descriptions of the optimizer of a store: rows of fields, taken under the store's lock and handed
 * to the caller's visitor without it. The comment of kv_describe lists the fields. */
#ifndef CORE_DESCRIBE_H
#define CORE_DESCRIBE_H

#include "core/store.h"

/* Rows of width fields each. All zero is none. */
typedef struct describe {
    arena memory; /* of texts */
    kv_field *fields;
    int64_t n, cap; /* fields */
    int width;
} describe;

/* Takes the topics "optimizer" and "states" of a store whose lock is held. Errors: usage (no
 * optimizer is in use), unsupported (the updater is a C function), memory; d needs no release
 * then. */
int describe_optimizer(describe *d, const kv *store, kv_err *e);
int describe_states(describe *d, kv *store, kv_err *e);

/* Takes the topic "rounds" of a store that keeps everything in slots: no worker is ahead. Errors:
 * memory; d needs no release then. */
int describe_rounds(describe *d, kv *store, kv_err *e);

/* Hands the rows over, one by one, until the visitor says otherwise. */
int describe_visit(const describe *d, kv_visitor visit, void *arg, kv_err *e);

void describe_release(describe *d);

#endif
