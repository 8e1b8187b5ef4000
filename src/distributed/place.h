/* The place of a key: its elements are cut into one or several parts, consecutive ranges, and each
 * part lives on one server, which keeps and updates it by itself.
 *
 * Parts are small enough to travel in one record, so that all servers work while a key is on its
 * way; and they end where rows end, so that rules that look at rows, and pushes of some rows, need
 * no more than parts. Rows that are too long for that are cut, until a rule comes that needs
 * them; then the key moves to be whole (worker_optimizer.c). A row_sparse key whose rows come and
 * go has one part on each server, if it has SPREAD elements or more, else one part.
 *
 * The coordinator decides it when the key is made (coordinator.h); the other ranks are told, and
 * everything else follows from these numbers. A key of one part lives on the server with the least
 * load; the parts of a longer one go around all servers and begin there, so that keys with fewer
 * parts than there are servers do not meet on the same ones.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "distributed/link.h"
#include "kv_array.h"

enum {
    PLACE_SPREAD = 1000000, /* MXNET_KVSTORE_BIGARRAY_BOUND of MXNet */
    PLACE_MOST = 1 << 20    /* bytes of a part that holds whole rows */
};

/* The parts that a rule, or the store, can work with. */
typedef enum place_need { PLACE_ANYWHERE, PLACE_BY_ROWS, PLACE_WHOLE } place_need;

typedef struct place {
    int64_t first;   /* the number of its first part; no other key has it; below INT32_MAX */
    int64_t size;    /* elements */
    int64_t step;    /* elements of a part but the last */
    int64_t row;     /* elements of a row, when no part cuts one; else 0 */
    int32_t nparts;  /* at least 1 */
    int32_t server;  /* of all parts; or -1 - the server where the parts begin to go around */
} place;

/* The parts of an array, for so many servers. */
place place_new(kv_dtype dtype, kv_storage storage, int ndim, const int64_t *shape, place_need need,
                int servers);

/* The parts of an array that is summed and not kept: each travels in one record. */
place place_in_records(int64_t size, kv_dtype dtype);

/* Returns true if a place that another rank sent is one of an array of this shape, for so many
 * servers. Parts of row_sparse arrays never cut a row. */
bool place_is_valid(const place *p, kv_storage storage, int ndim, const int64_t *shape,
                    int servers);

/* The shape of a part of this many elements: whole rows of the key's shape, or one axis where parts
 * cut rows. Returns how many axes. */
int place_shape(const place *p, int64_t count, int ndim, const int64_t *shape,
                int64_t out[KV_MAX_NDIM]);

static inline bool place_fits(const place *p, place_need need)
{
    return p->nparts == 1 || need == PLACE_ANYWHERE || (need == PLACE_BY_ROWS && p->row > 0);
}

static inline int place_server(const place *p, int32_t part, int servers)
{
    if (p->server >= 0)
        return p->server;
    /* With as many parts as servers or more, each server has consecutive ones: a long range. */
    int64_t at = p->nparts >= servers ? (int64_t)part * servers / p->nparts : part;
    return (int)((at - 1 - p->server) % servers);
}

static inline int64_t place_from(const place *p, int32_t part)
{
    return part * p->step;
}

static inline int64_t place_count(const place *p, int32_t part)
{
    int64_t from = place_from(p, part), rest = p->size - from;
    return rest < p->step ? rest : p->step;
}

/* The row with which a part of whole rows begins; one behind the last: more than any row. */
static inline int64_t place_first_row(const place *p, int32_t part)
{
    if (part >= p->nparts)
        return INT64_MAX;
    return part > 0 ? place_from(p, part) / p->row : 0;
}
