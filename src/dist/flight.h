/* A call under way: an operation of the engine that ends when other ranks have answered. flight.c
 * has what all have in common, flight_push.c and flight_pull.c pushes and pulls, reduce.c the sums
 * of the types that keep nothing.
 */
#ifndef DIST_FLIGHT_H
#define DIST_FLIGHT_H

#include "base/buf.h"
#include "dist/server.h"
#include "dist/worker.h"

/* One key of a push, or of a pull. */
typedef struct cargo {
    int64_t slot;
    kv_key key;       /* its name is the slot's */
    place place;
    int64_t round, before;
    kv_array *source; /* of a push: what is sent */
    bool held;        /* the source is the caller's */
    int64_t first, n; /* its values; then, unless it only pushes, its outs */
    kv_dtype dtype;
    char *blob;       /* codes, or rows; or NULL: the elements of source */
    int64_t blob_bytes;
    int64_t *starts;  /* of rows: where those of each part begin in the blob, and where all end */
    kv_array *residual;
    bool anew;        /* the residual begins with this push */
    int64_t host, host_bytes; /* where the host side of its update lies */
    int64_t left;     /* pieces to send, or parts to come */
    engine_use *use;
} cargo;

/* One part of one cargo. */
typedef struct piece {
    int64_t cargo;
    int32_t part;
} piece;

typedef struct lane {
    net_item item;
    struct flight *flight;
    int64_t at, end; /* of pieces */
    int64_t offset;  /* bytes of the piece at `at` that were sent; elements for codes */
} lane;

typedef struct flight {
    engine_op op;
    worker *w;
    bool pulls;
    bool posted; /* its lanes are on their way, or will be; atomic */
    bool sums, broadcasts; /* see reduce.c */
    int64_t ncargo;
    cargo *cargo;
    piece *pieces;
    lane *lanes; /* to the servers */
    int nlanes;  /* that are being sent; atomic */
    kv_array **outs;
    int64_t nouts;
    engine_use *uses;
    buf host;
    int64_t waiting; /* parts whose end has not been told */
    int64_t bytes;   /* that it pushes */
    push_codes codes;
    uint64_t token;
    struct flight *next; /* of those under way */
    kv_err error;
    int32_t priority;
    int64_t begun; /* for a profile: when its turn came */
} flight;

/* A pair of a call: its number in it, and the place of its key among updates. */
typedef struct flight_pair {
    int64_t order, i;
} flight_pair;

/* The pairs of a call in the order of updates: those of a key one behind the other. */
int flight_sort(const worker *w, const int64_t *numbers, int64_t n, flight_pair **out, kv_err *e);

/* A flight with a cargo for each key of sorted pairs, and room for nuses. */
int flight_new(flight **out, worker *w, const int64_t *numbers, const flight_pair *r, int64_t n,
               int64_t nuses, const kv_call *how, kv_err *e);

/* Gives each cargo its source: its value, or the sum of its values. */
int flight_sum_values(flight *f, const kv_key *keys, const flight_pair *r, kv_array *const *values,
                      kv_err *e);

/* Puts an array, whose reference it takes, in the place of a source; NULL: none. */
void flight_give_source(cargo *c, kv_array *a);

/* The pieces of all cargo, by server. */
int flight_lay_out(flight *f, kv_err *e);

/* Waits until there is room for what it pushes (room.h): before its pushes are counted. */
void flight_wait_for_room(flight *f);

/* Starts it when its turn has come. Nothing fails from here on. */
void flight_submit(flight *f, engine_group *g);

/* Releases one that was not submitted. */
void flight_free(flight *f);

/* Part of what a piece receives, from elements of the key's dtype; and its end. */
void flight_value(flight *f, const piece *p, int64_t offset, const void *data, int64_t bytes);
void flight_piece_ended(flight *f, const piece *p);

/* By its token; NULL: it has ended. */
flight *flight_find(uint64_t token);

/* Ends it if nothing of it is on its way. */
void flight_look_at_end(flight *f);

/* The codes or rows of a push, made when the values' turn has come: sent instead of the elements.
 * Errors: memory. */
int flight_push_encode(flight *f, cargo *c, kv_err *e);

/* A record of codes of what a piece receives. */
void flight_pull_codes(flight *f, const piece *p, const link_rec *r);

/* Sends the next record of a lane: of a flight that pushes, pulls, sums. */
net_step flight_push_step(lane *l, cargo *c, const piece *p);
net_step flight_pull_step(const lane *l, const cargo *c, const piece *p);
net_step reduce_step(lane *l, cargo *c, const piece *p);

#endif
