/* Where a key lives: it is one part or several, ranges of its elements one behind the other, and
 * each part lives on one server. A part is what a server keeps and updates by itself, and small
 * enough to travel in one record, unless the key must stay whole.
 *
 * The coordinator decides it when the key is made (coordinator.h); the other ranks are told, and
 * everything else follows from these numbers. A key that was cut moves once, to be whole, when a
 * rule comes that needs it so (worker.c). Keys of SPREAD elements or more are spread over all
 * servers, in order; others live on the server that has the fewest bytes.
 */
#ifndef DIST_PLACE_H
#define DIST_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "dist/link.h"
#include "kv_array.h"

enum { PLACE_SPREAD = 1000000 }; /* MXNET_KVSTORE_BIGARRAY_BOUND of MXNet */

typedef struct place {
    int64_t first;   /* the number of its first part; no other key has it */
    int64_t size;    /* elements */
    int64_t step;    /* elements of a part but the last */
    int32_t nparts;  /* at least 1 */
    int32_t server;  /* of all parts, or -1: they are spread */
} place;

/* The parts of an array; whole: it must not be cut. */
static inline place place_new(int64_t size, kv_dtype dtype, bool whole)
{
    place p = {.size = size, .step = LINK_PAYLOAD / kv_dtype_bytes(dtype), .nparts = 1};
    if (whole)
        p.step = size > 0 ? size : 1;
    else
        p.nparts = size > 0 ? (int32_t)((size + p.step - 1) / p.step) : 1;
    return p;
}

static inline int place_server(const place *p, int32_t part, int servers)
{
    return p->server >= 0 ? p->server : (int)((int64_t)part * servers / p->nparts);
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

#endif
