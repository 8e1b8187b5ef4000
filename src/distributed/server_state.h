/* What a server keeps of one store: its parts, their open rounds, pulls that wait. server.c takes
 * the calls of workers, rounds.c decides what may happen when; server_state.c is how replies are
 * sent and optimizers set. All of it belongs to the thread that drives the net.
 */
#ifndef DISTRIBUTED_SERVER_STATE_H
#define DISTRIBUTED_SERVER_STATE_H

#include "core/slot.h"
#include "distributed/asks.h"
#include "distributed/net.h"
#include "distributed/server.h"
#include "vm/rule.h"

/* What one worker pushed to a part in one round. */
typedef struct contribution {
    char *data; /* the elements, or rows as ask_put_rows writes them */
    int64_t bytes;
    uint64_t request; /* whose end the worker waits for */
    int64_t before;   /* pulls of the worker that must have been answered */
    bool complete, owned, sparse;
    push_codes how; /* it came as codes */
    struct contribution *next_lent;
} contribution;

typedef struct round {
    int64_t number; /* from 1; dist_async: of this worker's pushes */
    int worker;     /* dist_async */
    int have;       /* workers that have contributed */
    int64_t optimizer; /* the optimizers that were set when the lowest rank contributed */
    bool counted;      /* in open_rounds */
    int64_t since_us;  /* when it was opened */
    bool has_host_step;
    rule_given host_step; /* counts and rates of the update, as that rank says them */
    host numbers[PLAN_MAX_STATES];
    struct round *next;
    contribution by[]; /* by rank; dist_async: one */
} round;

typedef struct server_pull {
    int rank;
    uint64_t request;
    int64_t index; /* of the reply in that request */
    int64_t round; /* what must have been applied */
    int32_t priority;
    bool rows; /* some of a row_sparse part */
    int64_t *ids, nids;
    struct server_pull *next;
} server_pull;

typedef struct part_worker {
    int64_t applied; /* of its pushes */
    int64_t pulls;   /* answered */
} part_worker;

typedef struct part {
    int64_t id;
    kv_key key; /* whose part */
    kv_dtype dtype;
    kv_storage storage;
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    int64_t from, count, bytes;
    int64_t slot;      /* its number in the store */
    slot_part origin;  /* what rules see */
    int64_t applied;   /* rounds */
    push_codes coded;  /* what is stored came of these codes, or code is 0 */
    char *codes;
    float *residual;   /* count of them, what codes have not carried yet; or NULL */
    int replies;       /* that are being sent: the array must not change */
    int contributors;  /* of the last round */
    round *rounds;
    server_pull *pulls;
    bool touched;
    struct part *next_touched;
    part_worker workers[];
} part;

/* Pushes of one call that were applied. */
typedef struct server_ends {
    uint64_t request;
    int64_t n;
} server_ends;

typedef struct server_optimizer {
    char *text;
    int64_t bytes;
    struct server_optimizer *next;
} server_optimizer;

typedef struct server_state {
    struct server_state *next; /* of those that this rank serves */
    int number;
    ask_store how;
    kv *store; /* of type local; part ids are its keys */
    part **parts; /* by id; NULL where another server has it */
    int64_t nparts, parts_cap;
    char *done;       /* by worker: it takes part no more */
    char *ended;      /* by worker: it has left the job */
    bool any_ended;
    uint64_t *joined; /* by worker: its call of create */
    int njoined, freed;
    int64_t created_us;
    kv_err refusal;   /* why it was not made */

    part *touched, **touched_end; /* parts with news */
    contribution *lent;           /* whose data lie in the link's memory */
    round *spare;
    server_pull *spare_pulls;
    const void **sources; /* of a sum */

    kv_key *keys; /* of a batch of rounds */
    kv_array **values;
    int64_t nvalues, keys_cap, values_cap;
    part **batch;
    round **batch_rounds;
    int64_t nbatch, batch_cap, batch_rounds_cap;

    server_optimizer *optimizers; /* that wait for open rounds */
    int64_t optimizers_come, optimizers_set, open_rounds;

    struct server_replies *replies; /* being collected */
    struct server_ends *ends;       /* by worker: its pushes that were applied and not told yet */

    int64_t rounds, bytes, stalest;
    int64_t told_us; /* of straggler.c: when it reported last */
    int64_t wait_us; /* and how long it is silent after that */
    struct coordinator *coordinator; /* on the first server */
    struct sums *sums;               /* of a type that keeps nothing */
} server_state;

/* Sends a part to a worker; the part's replies count until it is sent. */
void server_send(server_state *s, part *p, const server_pull *x);
void server_send_rows(server_state *s, part *p, const server_pull *x);

/* A push was applied: its worker is told, several at a time. */
void server_note_done(server_state *s, int worker, uint64_t request);

/* Sends what the above collected. */
void server_flush(server_state *s);

/* Whether what a round leaves is the sum of whole arrays and nothing else. Then it is added up, by
 * rank, where the part is stored: what a push to the store would leave, without a call of it for
 * every part; and coded, if the first worker wants that. Errors: memory. */
bool server_is_sum(const server_state *s, const part *p, const round *x);
int server_add_up(server_state *s, part *p, const round *x, kv_err *e);

/* The part holds no codes any more, and no residual. */
void server_drop_codes(part *p);

/* Sets what a worker's ask_optimizer says. */
int server_set_optimizer(server_state *s, const server_optimizer *o, kv_err *e);

/* Replies to calls. */
void server_reply(int rank, uint64_t request, const void *data, int64_t bytes);
void server_fail(int rank, uint64_t request, int store, int64_t part, const kv_err *e);
void server_refuse(int rank, uint64_t request, const kv_err *e);

/* The store that this rank serves; NULL: there is none. */
server_state *server_store(int number);

#endif
