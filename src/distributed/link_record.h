/* Records, the messages between ranks. All have the same head; each kind that says more has a
 * struct of its own in the union. link.h sends them, net.h hands them out.
 */
#ifndef DISTRIBUTED_LINK_RECORD_H
#define DISTRIBUTED_LINK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* A worker asks with PUSH, PULL, ADD and CALL. A server answers with VALUE, DONE, REPLY and
 * FAILED. */
typedef enum link_kind {
    LINK_SKIP,          /* the rest of a ring is not used */
    LINK_PUSH,          /* elements for a part */
    LINK_PULL,          /* asks for a part */
    LINK_ADD,           /* a part for a sum of the types that keep nothing */
    LINK_CALL,          /* a call of asks.h, or some of its bytes */
    LINK_VALUE,         /* elements that a PULL or an ADD asked for */
    LINK_DONE,          /* pushes were applied */
    LINK_REPLY,         /* the result of a call, or some of its bytes */
    LINK_FAILED,        /* a request or a call failed; the payload is a kv_err */
    LINK_BEAT,          /* a heartbeat */
    LINK_LEFT,          /* the rank needs nothing any more */
    LINK_LOST,          /* another rank is lost; the payload is a kv_err */
    LINK_GROWN,         /* a spare is a worker now (spares.h) */
    LINK_KINDS
} link_kind;

/* Flags. The ones after LINK_LAST give the kind of the payload of a PUSH, an ADD or a VALUE. */
enum {
    LINK_LAST = 1,       /* the last record of a part, or of a call */
    LINK_CODES = 2,      /* push_codes, and codes of the elements */
    LINK_HOST = 4,       /* the host step of the update stands before the elements */
    LINK_SPARSE = 8,     /* row_sparse: rows as ask_put_rows writes them */
    LINK_BROADCAST = 16, /* the elements of rank 0 are the sum */
    LINK_CHANGES = 32    /* codes of cpu/changes.h: the elements that changed behind a round; a PULL
                            asks for them */
};

/* The arguments of a call of asks.h, beside its payload. */
typedef union link_args {
    struct {
        int64_t part, round;
    } rows; /* ASK_ROWS */
    struct {
        int64_t first, nparts;
    } drop; /* ASK_DROP */
    struct {
        int64_t peer, tag; /* the other worker */
    } mail;               /* ASK_SEND, ASK_RECEIVE */
    int64_t head;         /* ASK_COMMAND */
    int64_t look;         /* ASK_LOOK: the part */
    int64_t inits;        /* ASK_INIT, ASK_PLACE: 1 in the first worker's init */
    int64_t any;          /* ASK_FIND: 1 for keys that were only pushed, too */
    int64_t closes;       /* ASK_DONE: 1 of a worker that has not said so */
    int64_t barrier;      /* ASK_BARRIER: an ask_barrier */
    struct {
        int64_t number, text; /* optimizers until this one; a hash of its text and parameters */
    } optimizer;              /* ASK_EPOCH */
    struct {
        int64_t rank, round;
    } grow; /* ASK_GROW */
} link_args;

/* Bytes of payload follow, and records begin at multiples of 8 bytes. */
typedef struct link_rec {
    uint32_t bytes; /* of the payload */
    uint8_t kind;
    uint8_t flags;
    uint16_t store;   /* the number of the store in its process */
    int64_t part;     /* of PUSH, PULL, ADD, VALUE and FAILED */
    uint64_t request; /* the number that the asking rank gave; link_is_call */
    union {
        struct {
            int64_t round;
            int64_t pulls; /* of the same worker, that the server answers first */
            union {
                int64_t offset;  /* in the part, in bytes */
                int64_t element; /* the first one of codes */
            };
            int64_t total; /* bytes of the part; not for codes */
        } push;
        struct {
            int64_t round;
            int64_t chunk;    /* number of the part in its request, which the answers have */
            int32_t priority; /* of the answers */
            int32_t state;    /* 0: the elements; or an array of states, see states_array */
            int64_t since;    /* LINK_CHANGES: the round that the worker has; -1: none */
        } pull;
        struct {
            int64_t round;
            int64_t chunk;
            int32_t priority;
            int32_t dtype;
        } add;
        struct {
            int64_t chunk;
            union {
                int64_t offset;
                int64_t element;
            };
            int64_t elements; /* of codes, and of changes */
            int64_t round;    /* of the key; not of sums */
        } value;
        struct {
            int64_t pushes;
        } done;
        struct {
            int64_t sent; /* bytes of the payload in the records before */
            link_args args;
            int32_t what; /* a dist_ask */
        } call;
        struct {
            int64_t rank, round;
        } grown;
    };
} link_rec;

_Static_assert(sizeof(link_rec) == 56, "the records between ranks have one size");

/* Returns true if a REPLY or a FAILED answers a call. */
static inline bool link_is_call(const link_rec *r)
{
    return r->request >> 63;
}

static inline uint64_t link_call_number(uint64_t number)
{
    return number | 1ull << 63;
}

/* The payload of a call: its taker gets all of it behind the header of the last record. */
static inline int64_t link_call_bytes(const link_rec *r)
{
    return r->call.sent + r->bytes;
}

/* Appends a record in words, on one line. */
void link_print(buf *out, const link_rec *r);

/* Sends such a line to the receiver of kv_set_log, when $KVSTORE_TRACE is 1. `way` is "to" or
 * "from" the rank. */
void link_trace(const char *way, int rank, const link_rec *r);

#endif
