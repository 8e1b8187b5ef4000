/* Records, the messages between ranks. All have the same head. link.h sends them, net.h hands them
 * out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* A worker asks with PUSH, PULL, ADD and CALL. A server answers with VALUE, DONE, REPLY and
 * FAILED. Answers to different requests keep no order: a small one goes into the link as soon as it
 * is made, and overtakes those that wait for room there. */
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
    LINK_GROWN,         /* a spare is a worker now, or none becomes one any more (spares.h) */
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

/* Bytes of payload follow, and records begin at multiples of 8 bytes. A head fills a cache line. A
 * field that a kind does not use is 0 there. */
typedef struct link_rec {
    uint32_t bytes; /* of the payload */
    uint8_t kind;
    uint8_t flags;
    uint16_t store;   /* the number of the store in its process */
    int32_t part;     /* of PUSH, PULL, ADD, VALUE and FAILED */
    int32_t chunk;    /* of PULL, ADD and VALUE: the number of the part in its request */
    uint64_t request; /* the number that the asking rank gave; link_is_call */
    int64_t from; /* PUSH and VALUE: the first byte in the part; the first element of codes and of
                     changes. CALL: bytes of the payload in the records before. PULL of changes: the
                     round that the worker has; -1: none */
    int64_t n; /* PUSH and VALUE: bytes of the whole part; of codes and changes, the elements that
                  the record has. DONE: pushes that were applied */
    union {
        struct {
            int64_t round; /* PUSH, ADD: of the key; PULL: that it must come behind; VALUE: that the
                              elements hold, not of sums */
            int64_t pulls; /* PUSH: of the same worker, that the server answers first */
        };
        link_args args; /* CALL; GROWN: `grow` */
    };
    int32_t priority; /* PULL and ADD: of the answers */
    uint16_t what;    /* CALL: a dist_ask */
    uint8_t state;    /* PULL: 0, the elements; or an array of states, see states_array */
    uint8_t dtype;    /* ADD */
} link_rec;

_Static_assert(sizeof(link_rec) == 64, "the records between ranks have one size");

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
    return r->from + r->bytes;
}

/* Appends a record in words, on one line. */
void link_print(buf *out, const link_rec *r);

/* Sends such a line to the receiver of kv_set_log, when $KVSTORE_TRACE is 1. `way` is "to" or
 * "from" the rank. */
void link_trace(const char *way, int rank, const link_rec *r);
