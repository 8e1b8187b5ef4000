/* Requests: a call under way is an operation of the engine that ends when other ranks have
 * answered. It has an item for each key, a chunk for each part of these, and a send queue for each
 * server.
 *
 * request.c makes, starts, sends and ends them, request_reply.c takes what the servers answer.
 * request_push.c has pushes, request_pull.c pulls, request_sum.c the sums of the types that keep
 * nothing. request_gpu.c copies from and to GPUs.
 */
#pragma once

#include "array/device.h"
#include "base/buf.h"
#include "distributed/server.h"
#include "distributed/worker.h"

/* One key of a push, or of a pull. */
typedef struct request_item {
    int64_t slot;
    kv_key key; /* its name is the slot's */
    place place;
    int64_t round;  /* of the key; of a pull: which it must come behind */
    int64_t before; /* of a push: pulls of this rank that it must come behind */
    int64_t since; /* of a pull of changes: the round that the outs hold; -1: none */
    int64_t *told; /* NULL, or receives the least round of the parts that came: the caller's */
    kv_array *source; /* of a push: the array that is sent */
    bool held;        /* the source is the caller's */
    int64_t first, n; /* its values; then, unless it only pushes, its outs */
    kv_dtype dtype;
    char *blob; /* codes, or rows; or NULL: the elements of source */
    int64_t blob_bytes;
    int64_t *starts; /* of rows: offsets of the parts in the blob, and the end of the last */
    kv_array *residual;
    bool anew;         /* the residual begins with this push */
    kv_array *moved;   /* NULL, or the new residual, where the source is */
    kv_array *old;     /* NULL, or the old residual: a reference */
    char *staged;      /* NULL, or where its codes or elements lie in the request's `staged` */
    int64_t here;      /* bytes of the source that host memory has; -1: no more come; atomic */
    int64_t host, host_bytes; /* the host side of its update: its place in the request's `host` */
    int64_t left;             /* chunks to send, or parts to come */
    bool failed;              /* a part of the reply could not be written */
    engine_use *use; /* of the source, one of the request's `uses`; it ends when all is sent */
} request_item;

/* One part of one item; a record or several carry it. */
typedef struct chunk {
    int64_t item;
    int32_t part;
    bool ended; /* all of its reply has come */
} chunk;

/* The chunks for one server, which are sent in order. */
typedef struct send_queue {
    net_item item;
    struct request *request;
    int64_t at, end;     /* of chunks */
    int64_t offset;      /* bytes of the chunk at `at` that were sent; elements for codes */
} send_queue;

typedef struct request {
    engine_op op;
    worker *w;
    const char *name; /* of the call, for a profile */
    net_step (*step)(net_item *i); /* sends the next record of a queue */
    /* NULL, or makes the codes or rows of an item when the values' turn has come, which are sent
     * instead of its elements. Errors: memory, those of a device. */
    int (*encode)(struct request *rq, request_item *c, kv_err *e);
    bool pulls;
    bool plain;            /* it pushes arrays of the caller in host memory, as they are */
    bool changes;          /* it pulls only elements that changed */
    int32_t state;         /* 0; or the array of states that it pulls, see states_array */
    int64_t *bytes_came;   /* NULL, or counts the bytes that came: the caller's */
    bool posted;           /* the net has its queues, or will have them; atomic */
    bool sums, broadcasts; /* see request_sum.c */
    int64_t npairs; /* of the call */
    int64_t nitems;
    request_item *items;
    chunk *chunks;
    send_queue *queues; /* to the servers */
    int nqueues;        /* that are being sent; atomic */
    kv_array **outs;
    int64_t nouts;
    void **blocks;      /* NULL, or of each out that is written on its GPU the memory there */
    char *staged;       /* the elements that were copied from GPUs together */
    send_queue bringer; /* one of nqueues, empty, posted when all sources are in host memory */
    kv_err bring_error; /* why they are not */
    engine_use *uses;
    buf host;
    int64_t waiting; /* parts whose end has not been told */
    int64_t bytes;   /* that it pushes */
    push_codes codes;
    uint64_t token;
    bool usual;           /* its block has room for REQUEST_PAIRS, and is used again */
    struct request *next; /* of those under way */
    kv_err error;
    int32_t priority;
    int64_t begun; /* for a profile: when its turn came */
} request;

/* Pulls as a call of the store type does, all arrays being dense. Errors: key,
 * shape, peer, memory. */
int request_pull(worker *w, const kv_pairs *outs, const kv_call *how, kv_err *e);

/* Pulls array `state` of the states (states_array) of n slots, as it is when the servers get to it;
 * the outs have its form. The worker's next push of a key comes behind that. Errors: peer,
 * memory. */
int request_pull_states(worker *w, const int64_t *slots, kv_array *const *outs, int64_t n,
                        int state, kv_err *e);

/* Called before the first request. Error: memory. */
int request_open(kv_err *e);

/* Takes the records of servers; and ends all requests when a rank is lost. */
void request_take(int rank, const link_rec *r);
void request_lost(const kv_err *why);

/* A pair of a call: its number in it, and the place of its key among updates. */
typedef struct request_pair {
    int64_t order, i;
} request_pair;

/* The pairs of a call in the order of updates: all pairs of a key are neighbours. */
int request_sort(const worker *w, const int64_t *numbers, int64_t n, request_pair **out, kv_err *e);

/* *overwritten: of each pair, if a later pair writes the same array with another key; NULL: no pair
 * is. To be released with mem_free, also after an error. numbers: the slots of the pairs. Error:
 * memory. */
int request_find_overwritten(const int64_t *numbers, const kv_pairs *outs, bool **overwritten,
                             kv_err *e);

/* ---- Their memory ---- */

enum { REQUEST_PAIRS = 512 };

/* Makes a request with an item for each key of n sorted pairs, and room for uses and outs. Error:
 * memory. */
int request_new(request **out, worker *w, const int64_t *numbers, const request_pair *r, int64_t n,
                int64_t nuses, int64_t nouts, const kv_call *how, kv_err *e);

/* The requests of one call that has many pairs, each with room for a use and an out a pair. */
typedef struct request_list {
    request **items;
    int64_t n, cap, at;         /* at: of the next one */
    const int64_t *numbers;     /* of all pairs of the call; the caller's, like the next two */
    const request_pair *pairs;  /* of the next one */
    const request_pair *from;   /* of the one that request_next returned */
} request_list;

/* Reserves the requests of n sorted pairs. Each takes keys with all their pairs, REQUEST_PAIRS
 * pairs at most, and none after it has `bytes` bytes. Error: memory. */
int request_reserve(request_list *l, worker *w, const int64_t *numbers, const request_pair *r,
                    int64_t n, int64_t bytes, kv_err *e);

/* The next of them, with its items; NULL: there is none. It cannot fail. */
request *request_next(request_list *l, const kv_call *how);

/* Releases the list, and the requests that were not taken. */
void request_release_list(request_list *l);
#define own_request_list OWN(request_release_list) request_list

/* Gives a request's block back. For request_free, which releases all else. */
void request_release_memory(request *rq);

/* Frees the blocks that are kept for later requests; called when the worker is freed. */
void request_free_spares(worker *w);

/* ---- Parts of a call ---- */

/* Sets the source of each item: its value where that can be sent as it is, else the sum of its
 * values in the dtype of the key. Errors: those of kv_push, memory. */
int request_sum_values(request *rq, const kv_pairs *values, const request_pair *r, kv_err *e);

/* The elements of a source in host memory. */
static inline const char *request_elements(const request_item *c)
{
    return c->staged ? c->staged : (const char *)c->source->data;
}

/* Called when a chunk of a queue was sent. Returns the step's result: NET_MORE if others follow,
 * else NET_ENDED. */
net_step request_next_chunk(send_queue *q);

/* Puts an array, whose reference it takes, in the place of a source; NULL: none. */
void request_give_source(request_item *c, kv_array *a);

/* Makes the chunks of all items, and a queue of them for each server; `step` is set before. */
void request_lay_out(request *rq);

/* The bytes of the arrays that it pushes; counts bytes that it pushes until it ends, for the wait
 * below. */
int64_t request_bytes(const request *rq);
void request_count_bytes(request *rq, int64_t bytes);

/* Hands a request to the engine, which starts it when earlier operations on its arrays have ended.
 * Failures from here on are the request's own, see engine_take_error. */
void request_submit(request *rq, engine_group *g);

/* Releases a request that was not submitted. */
void request_free(request *rq);
static inline void request_drop(request **rq)
{
    if (*rq)
        request_free(*rq);
}
#define own_request OWN(request_drop) request

/* Writes elements of a chunk, bytes of the key's dtype from `offset` on, into all outs of its key;
 * and ends the chunk. */
void request_value(request *rq, const chunk *p, int64_t offset, const void *data, int64_t bytes);
void request_chunk_ended(request *rq, const chunk *p);

/* A chunk could not be sent, or its reply not be written: the request ends with an error. */
static inline void request_fail(request *rq, const chunk *p, const kv_err *why)
{
    request_item *c = &rq->items[p->item];
    c->failed = true;
    if (rq->error.code)
        return;
    rq->error = *why;
    kv_err_key(&rq->error, &c->key);
}

/* Finds a request by its token; NULL: it has ended. */
request *request_find(uint64_t token);

/* Ends a request if nothing of it is under way any more. */
void request_look_at_end(request *rq);

/* ---- Arrays on GPUs with memory of their own: request_gpu.c ---- */

/* Returns true if a source or an out is on a GPU. */
bool request_has_gpus(const request *rq);

/* Makes the codes of sources on GPUs there, and brings them, and small sources: one launch and one
 * copy for each GPU. Errors: memory, those of a device. */
int request_stage(request *rq, kv_err *e);

/* Finds the sources that are copied from a GPU while they are sent; says whether there are some. */
bool request_expect_streamed(request *rq);

/* Copies them to host memory; `here` counts the bytes that have come. */
void request_bring(request *rq);

/* Allocates memory for the replies, on the GPU of each out or in host memory. Sources that are outs
 * as well have been copied before. Errors: memory, those of a device. */
int request_place_outs(request *rq, kv_err *e);

/* Returns true if an out of the item is written in host memory. */
bool request_has_outs_here(const request *rq, const request_item *c);

/* Writes the outs on GPUs, from byte `at` on: bytes, or n elements given as codes. Errors: those of
 * a device. */
int request_write_outs(const request *rq, const request_item *c, int64_t at, const void *data,
                       int64_t bytes, kv_err *e);
int request_write_codes(const request *rq, const request_item *c, int64_t at, const push_codes *how,
                        const void *codes, int64_t n, kv_err *e);

/* ---- Backpressure ----
 *
 * A worker that is too far ahead of the others waits before it pushes more. Its
 * pushes take memory, its own and the servers', until the others have pushed the same keys.
 *
 * The wait must not cause a deadlock: where workers push their keys in different orders, each
 * could wait for another one's next push. So a worker waits only while no other rank waits for it,
 * in a round to which it has not contributed, at a barrier or for a store: there it is behind, and
 * it goes on. The slowest worker therefore never waits here, and its pushes end the others' waits.
 * It asks once for each push that it is behind with, and again a second later.
 *
 * Environment: KVSTORE_AHEAD, bytes, 256 MB. */

/* Bytes that a worker may push ahead, as the environment says. */
int64_t backpressure_bytes(void);

/* Operations that may be under way. */
enum { BACKPRESSURE_PENDING = 256 };

/* Waits until one more operation, which pushes `bytes`, may begin. An operation that is larger than
 * the limit runs alone. */
void backpressure_wait(worker *w, int64_t bytes);

/* A rank that waits for this one, and the round or the call that it waits for. */
typedef struct backpressure_missed {
    int rank;   /* the one that waits, or -1: none does */
    kv_key key; /* whose round this rank lacks, its name the slot's; or no key: */
    int64_t slot; /* of that key; -1: no key, or one that is unknown here */
    bool in_call;
} backpressure_missed;

/* Asks the servers. They do not know of pushes that are still on the way to them. Errors: peer,
 * timeout, memory. */
int backpressure_missed_by(worker *w, backpressure_missed *out, kv_err *e);
