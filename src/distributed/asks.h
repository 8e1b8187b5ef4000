/* The calls that workers make to servers, and the places of keys, which they name. They carry plain
 * structs and texts one behind the other. All ranks run the same build, which they compare when
 * they join.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/compress.h"
#include "distributed/link.h"
#include "kv_array.h"
#include "kvstore.h"

/* ---- Places ----
 *
 * The place of a key: its elements are cut into one or several parts, consecutive ranges, and each
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
 * parts than there are servers do not meet on the same ones. */

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

/* ---- Calls ---- */

typedef enum dist_ask {
    /* To every server. */
    ASK_CREATE, /* from every worker: ask_store; replies when all workers have asked */
    ASK_FREE,   /* the worker has released the store */
    ASK_DONE,   /* the worker takes part in no further round. closes: it has not said so, and rounds
                   that lack its push fail */
    ASK_INIT,   /* ask_slot and the part's data, for each part. inits: of the first worker's init,
                   which takes the place of what a push made; else a part that is there stays */
    ASK_DROP,   /* drop: the server drops those of these parts that it keeps */
    ASK_OPTIMIZER,  /* texts (server_set_optimizer): it holds for rounds to which the sender has not
                       contributed yet */
    ASK_COMMAND,    /* head; the body with its NUL */
    ASK_ROWS,       /* rows; row ids. Reply: those rows */
    ASK_STATES,     /* how many parts, and their numbers. Reply: see states_give */
    ASK_SET_STATES, /* the same list; an image; see states.c */
    ASK_COUNTS,     /* Reply: ask_counts */
    ASK_MISSED,     /* Reply: an ask_missed for each of the first that wait for the sender */
    ASK_ROUNDS,     /* Reply: an ask_round and its key for each key of which the server has parts */
    ASK_LOOK, /* look: a part. Reply: an ask_look and its elements, dense; no pull, see look.c */
    ASK_GROW, /* grow: from rank 0, of whose pushes none is under way: that spare takes part in all
                 further rounds; the first server is called last, and tells all (spares.h) */

    /* To the coordinator, which is the first server. */
    ASK_PLACE,   /* ask_key for each new key. Reply: a place for each. Its `first` is -1 where the
                    key is there already; a key whose parts do not fit the need of this call gets
                    the place to which it moves. inits, of the first worker's init: every key gets a
                    place, those that only pushes of others have made as well, or none is made */
    ASK_READY,   /* the same keys hold their values now, in the places of the reply */
    ASK_FIND,    /* keys. Reply, when they are ready: ask_key for each. any: keys that were only
                    pushed by other workers are ready, too, though the first worker may still bring
                    their first values */
    ASK_BARRIER, /* barrier. Reply, when all workers have asked: ask_met */
    ASK_EPOCH,   /* optimizers: replies when so many optimizers have been set by the first worker */
    ASK_KEYS,    /* keys. Reply, at once: ask_key for those of them that hold their values */
    ASK_SEND,    /* mail, its tag a mail_tag; the payload goes to the peer */
    ASK_RECEIVE  /* mail. Reply: what the peer has sent, when it has come */
} dist_ask;

/* Mail between workers: see states.c, and worker.h. A later message with the same tag replaces
 * one that was not received yet. */
typedef enum mail_tag {
    MAIL_SAVED,
    MAIL_LOADED,
    MAIL_RESIDUALS,
    MAIL_GROWN,
    MAIL_LAST_RESIDUALS /* stays, and is received whenever there are no MAIL_RESIDUALS */
} mail_tag;

/* The ways in which a worker takes part in a barrier. */
typedef enum ask_barrier {
    ASK_MEET,     /* it waits until all workers have come */
    ASK_HOLD,     /* the first worker: it waits until all others are here or have come to its
                     optimizer, and they go on waiting */
    ASK_HOLD_ENDS /* it waits no more */
} ask_barrier;

typedef struct ask_store {
    int32_t workers, servers;
    int32_t is_async;
    int32_t sums;         /* no store: a push that is summed replaces what was there */
    int64_t staleness;    /* -1: unbounded */
    char type[64];
} ask_store;

/* A key, in calls: a text key's text follows, with its NUL, filled up to 8 bytes. */
typedef struct ask_key {
    int64_t id;
    int64_t shape[KV_MAX_NDIM];
    place place;
    int64_t round;      /* of the key, that a first value is; for ASK_INIT */
    int32_t name_bytes; /* 0: an integer key */
    uint8_t dtype, storage, ndim, need; /* place_need */
} ask_key;

/* A part with its first value. */
typedef struct ask_slot {
    int64_t part, from, count;
    int64_t bytes; /* of the data that follow; of row_sparse ones the number of rows, their ids and
                      their elements */
    ask_key key;  /* its text follows, then the data, filled up to 8 bytes */
} ask_slot;

typedef struct ask_counts {
    int64_t rounds, keys, bytes;
    int64_t late;     /* open rounds: some worker has contributed, and others have not */
    int64_t stalest;  /* the largest difference between the pushes of two workers that a pull met */
    int64_t contributors; /* of the last round */
    uint64_t missing;     /* bit i: an open round lacks worker i, of the first 64 */
} ask_counts;

typedef struct ask_met {
    int64_t moves;  /* keys that have moved to be whole */
    int64_t epochs; /* optimizers that the first worker has set */
} ask_met;

/* A round, a barrier or a new store that some workers have come to and the asking one has not. */
typedef struct ask_missed {
    int64_t part; /* of the round; -1: it is no round */
    int64_t round;
    int64_t waits; /* a worker that waits there */
} ask_missed;

enum { ASK_MOST_MISSED = 64 };

/* A worker that waits at a server, and one that it waits for, or -1. */
typedef struct ask_lack {
    int32_t rank, lacks;
    int32_t store, in_round; /* in_round: 1, the wait is for a round of a part, of that store */
    int64_t part, round;
} ask_lack;

/* The payload of a LINK_BEAT to the first server: what the rank does (waits.h). ask_lack follow.
 * The first server's own LINK_BEAT carry the number of its last question, an int64_t. */
typedef struct ask_report {
    int64_t sent, taken; /* records to and from ranks that are not gone */
    int64_t asked;       /* the last question that has come */
    int32_t gone;        /* workers that are gone, as this rank knows */
    uint8_t idle;        /* it does nothing, and has nothing to send */
    uint8_t waits;       /* its script waits, at `place`, */
    uint8_t ended;       /* or there is none any more, or never was one */
    uint8_t unused;
    char place[96];
} ask_report;

/* The rounds of a key on one server; the key follows, as ask_put_key writes it. */
typedef struct ask_round {
    int64_t first;         /* the number of its first part there */
    int64_t round, newest; /* applied to the part that is behind the others, and to the foremost */
    int64_t ahead;   /* pushes of the foremost worker behind `round`; dist_async: more than those
                        of the slowest */
    uint64_t pushed; /* bit i: worker i, of the first 64, has pushed to the next round, */
    uint64_t missing; /* or is waited for; dist_async: is as slow as the slowest, while another one
                         is faster */
} ask_round;

/* A part between two rounds; its elements follow. */
typedef struct ask_look {
    int64_t round;
} ask_look;

/* A number of this build: of its version, of how its records lie in memory, and of what is counted
 * there. Builds with other numbers would misread what this one sends. */
int ask_build(void);

/* The command of a user that makes such a call, for messages about one without an answer; NULL: the
 * server waits for other ranks before it answers. */
const char *ask_name(dist_ask what);

/* Prints the workers whose bits are set, "1 3", as far as there is room. */
void ask_print_workers(char *out, size_t room, uint64_t set);

/* Error: internal, a record that cannot be read. */
int ask_malformed(kv_err *e);

/* Gives e, unless it holds one already, the error that another rank sent. Returns e's code, which
 * is not 0: bytes that hold no error are malformed. */
int ask_error(kv_err *e, const void *data, int64_t bytes);

/* Appends a key and its text. */
void ask_put_key(buf *b, const ask_key *k, const char *name);

/* Reads one at *at, before end; its text is borrowed. NULL: malformed. */
const ask_key *ask_get_key(const char **at, const char *end, kv_key *key);

/* Reads a part with its first value, whose bytes become data; NULL: malformed. */
const ask_slot *ask_get_slot(const char **at, const char *end, kv_key *key, const char **data);

/* Appends a part of an array. Errors: memory. */
int ask_put_slot(buf *b, const ask_key *k, const char *name, int32_t part, kv_array *value,
                 kv_err *e);

/* Appends the rows from … to - 1 of a row_sparse array: how many it has of them, their ids from
 * `from` on, their elements. Nothing writes the array meanwhile. */
void ask_put_rows(buf *b, const kv_array *a, int64_t from, int64_t to);

/* Reads how many rows of `row` bytes such bytes have. Error: internal (malformed). */
int ask_count_rows(const void *data, int64_t bytes, int64_t row, int64_t *n, kv_err *e);

/* Makes an array of such bytes, or of plain elements; *out is NULL after an error. Errors: memory,
 * internal (malformed). */
int ask_array(kv_array **out, kv_storage storage, kv_dtype dtype, int ndim, const int64_t *shape,
              const char *data, int64_t bytes, kv_err *e);
