/* A call under way: an operation of the engine that ends when other ranks have answered. flight.c
 * has what all have in common, flight_push.c and flight_pull.c pushes and pulls, flight_gpu.c what
 * moves to and from GPUs, flight_parcel.c what MPI takes from there, reduce.c the sums of the types
 * that keep nothing.
 */
#ifndef DIST_FLIGHT_H
#define DIST_FLIGHT_H

#include "array/device.h"
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
    kv_array *moved;  /* NULL, or what becomes the residual, where the source is */
    kv_array *old;    /* NULL, or what was: a reference */
    char *staged;     /* NULL, or where its codes or elements lie in the flight's `staged` */
    const char *block; /* NULL, or its elements on a GPU: parts go from there where MPI reads it */
    char *room;        /* NULL, or for its other parts, in host memory */
    int64_t here;     /* bytes of the source that host memory has; -1: no more come; atomic */
    int64_t host, host_bytes; /* where the host side of its update lies */
    int64_t left;     /* pieces to send, or parts to come */
    bool failed;      /* a part that came could not be written */
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
    link_parcel *parcel; /* NULL, or what is being sent of it and those behind it */
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
    void **blocks;   /* NULL, or of each out that is written on its GPU the memory there */
    char *staged;    /* what was brought from GPUs together */
    lane bringer;    /* one of nlanes, to this rank, posted when all sources are in host memory */
    kv_err lacking;  /* why they are not */
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

/* Where the elements of a source lie in host memory. */
static inline const char *flight_elements(const cargo *c)
{
    return c->room ? c->room : c->staged ? c->staged : (const char *)c->source->data;
}

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

/* Part of what a piece receives, from elements of the key's dtype; for the outs in host memory
 * alone; and its end. */
void flight_value(flight *f, const piece *p, int64_t offset, const void *data, int64_t bytes);
void flight_value_here(const flight *f, const piece *p, int64_t offset, const void *data,
                       int64_t bytes);
void flight_piece_ended(flight *f, const piece *p);

/* A device could not take what a piece receives. */
void flight_fail(flight *f, const piece *p, const kv_err *why);

/* By its token; NULL: it has ended. */
flight *flight_find(uint64_t token);

/* Ends it if nothing of it is on its way. */
void flight_look_at_end(flight *f);

/* The codes or rows of a push, made when the values' turn has come: sent instead of the elements.
 * Errors: memory. */
int flight_push_encode(flight *f, cargo *c, kv_err *e);

/* ---- Arrays on GPUs with memory of their own: flight_gpu.c ---- */

/* Whether a source or an out of it is one. */
bool flight_has_gpus(const flight *f);

/* Makes the codes of sources on GPUs there, and brings them, and small sources: one launch and one
 * copy for each GPU. Errors: memory, those of a device. */
int flight_stage(flight *f, kv_err *e);

/* Finds the sources of which some parts go as parcels. Their GPUs have made them then. Errors:
 * memory, those of a device. */
int flight_expect_parcels(flight *f, kv_err *e);

/* Finds the sources that are to come while they are sent; says whether there are some. */
bool flight_expect_far(flight *f);

/* Brings them, and tells in their `here` what is there. */
void flight_bring(flight *f);

/* Makes room for what comes, in the GPU of each out or in host memory. The sources have been
 * brought, where they may be outs as well. Errors: memory, those of a device. */
int flight_place_outs(flight *f, kv_err *e);

/* Whether an out of a cargo is written in host memory. */
bool flight_has_outs_here(const flight *f, const cargo *c);

/* Writes the others, from byte `at` on: bytes, or what codes of n elements stand for. Errors: those
 * of a device. */
int flight_write_outs(const flight *f, const cargo *c, int64_t at, const void *data, int64_t bytes,
                      kv_err *e);
int flight_write_codes(const flight *f, const cargo *c, int64_t at, const push_codes *how,
                       const void *codes, int64_t n, kv_err *e);

/* ---- Pieces ---- */

/* A record of codes of what a piece receives. */
void flight_pull_codes(flight *f, const piece *p, const link_rec *r);

/* What the record of a piece of a push says beside its data; its first has the host side before
 * them. */
void flight_fill_push(const flight *f, const cargo *c, link_rec *r, bool first);

/* Whether the elements of a part go as parcels. */
bool flight_is_packed(const cargo *c, int32_t part);

/* Sends the next record of a lane: of a flight that pushes, pulls, sums. */
net_step flight_push_step(lane *l, cargo *c, const piece *p);
net_step flight_parcel_step(lane *l, cargo *c);

/* Forgets a parcel that is under way, whose source stays. */
void flight_drop_parcel(lane *l);
net_step flight_pull_step(const lane *l, const cargo *c, const piece *p);
net_step reduce_step(lane *l, cargo *c, const piece *p);

#endif
