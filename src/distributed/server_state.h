/* The state of one store on a server: its parts, their open rounds, pulls that wait. server.c takes
 * the calls of workers, rounds.c the pushes and pulls; server_state.c adds up and sends replies.
 * All of it belongs to the thread that drives the net.
 */
#pragma once

#include "core/store.h"
#include "distributed/asks.h"
#include "distributed/net.h"
#include "distributed/server.h"
#include "vm/rule.h"

/* The push of one worker to a part in one round. */
typedef struct contribution {
    char *data; /* the elements, or rows as ask_put_rows writes them */
    int64_t bytes;
    uint64_t request; /* the worker waits for its end */
    int64_t before;   /* pulls of the worker that must have been answered */
    int64_t chunk;    /* of an ADD: the number that its answer has */
    int32_t priority; /* of that answer */
    bool complete, owned, sparse;
    push_codes how; /* it came as codes */
    struct contribution *next_lent;
} contribution;

/* This rank's own contribution to a round. It is not sent: the server reads it in the arrays of the
 * request, and makes the sum there. `data` stays until `ended` is called. When the round fails it
 * is not called, and the request gets a FAILED, as on other ranks. */
typedef struct local_add {
    const char *data;
    char *out; /* receives the sum, may be data; NULL: `ended` copies it */
    void (*ended)(uint64_t request, int64_t chunk, const char *sum);
} local_add;

/* The host step of an update, as the worker of the lowest rank says it. */
typedef struct host_step {
    rule_given given; /* counts and rates */
    host numbers[PLAN_MAX_STATES];
} host_step;

typedef struct round {
    int64_t number; /* from 1; dist_async: of this worker's pushes */
    int worker;     /* dist_async */
    int have;       /* workers that have contributed */
    int64_t optimizer; /* the optimizers that were set when the lowest rank contributed */
    bool counted;      /* that rank has: see server_is_open */
    int64_t since_us;  /* when it was opened */
    bool has_step;
    host_step *step; /* NULL: there never was one; it stays with a spare round */

    /* Of a part that keeps nothing. */
    int broadcasts; /* contributions that ask for the elements of rank 0 */
    local_add own;
    char *sum;      /* own.out, or memory of its own; NULL: it is not made yet */
    int replies;    /* of the sum that are being sent */

    struct round *next;
    contribution by[]; /* by rank; dist_async: one */
} round;

typedef struct server_pull {
    int rank;
    uint64_t request;
    int64_t index; /* of the reply in that request */
    int64_t round; /* must have been applied before */
    int32_t priority;
    int32_t state; /* 0, or an array of states, see states_array */
    bool changes; /* only the elements that changed behind round `since`; -1: all */
    int64_t since;
    bool rows; /* only rows `ids` of a row_sparse part */
    int64_t *ids, nids;
    struct server_pull *next;
} server_pull;

typedef struct part_worker {
    int64_t applied; /* of its pushes */
    int64_t pulls;   /* answered */
} part_worker;

typedef struct part_changes part_changes;

/* The fields that every round reads come first: with many small keys the time of a round is that
 * of the cache lines it touches. */
typedef struct part {
    int64_t id;
    int64_t slot; /* its number in the store */
    int64_t count, bytes;
    int64_t begun;    /* the round that its first value is, of the key */
    int64_t applied;  /* rounds, behind that */
    push_codes coded; /* the stored elements are those of `codes`, or code is 0 */
    kv_dtype dtype;
    kv_storage storage;
    round *rounds;
    server_pull *pulls;
    part_changes *changes; /* see below; NULL: no worker asks for them */
    int replies;           /* being sent from the array, which must not change meanwhile */
    int contributors;      /* of the last round */
    bool keeps; /* false: nothing is stored, each push is answered by the sum of its round */
    bool touched;
    int ndim;
    kv_key key;       /* of the key that it is a part of; none where nothing is kept */
    int64_t *shape;   /* ndim sizes, behind `workers` */
    int64_t from;     /* its first element in the key */
    slot_part origin; /* rules see this in place of the slot */
    round *applying;  /* of a batch */
    int64_t copy;     /* the offset in `copies` of its elements before the round */
    char *codes;
    float *residual; /* by element: the error that codes have not carried yet; or NULL */
    part_worker workers[];
} part;

/* A server's state of one worker. */
typedef struct server_worker {
    bool done;        /* it takes part no more */
    bool listed;      /* in `news` of the store */
    bool ended;       /* it has left the job */
    bool closes;      /* it will not push any more, and is not done */
    bool gone;        /* it was lost, and is done (alive.h) */
    bool freed;       /* it has released the store */
    uint64_t joined;  /* its call of create */
    uint64_t request; /* a request with pushes that were applied, of which it was not told yet, */
    int64_t applied;  /* and their number */
    struct server_replies *replies; /* collected until the net settles */
} server_worker;

typedef struct server_optimizer {
    char *text;
    int64_t bytes;
    struct server_optimizer *next;
} server_optimizer;

typedef struct server_state {
    struct server_state *next; /* in the list of the stores that this rank serves */
    int number;
    ask_store how;
    kv *store; /* of type local; part ids are its keys */
    part **parts; /* by id; NULL where another server has it */
    int64_t nparts, parts_cap;
    server_worker *workers;
    bool any_ended, any_gone; /* ended: or closes */
    int njoined, nfreed; /* those that are gone count as well */
    int ndone; /* of the workers */
    int *news; /* the workers with replies or ends that were not sent yet */
    int nnews;
    int64_t created_us;
    kv_err refusal;   /* why it was not made */

    part **touched; /* parts with news: ntouched, with room for all parts */
    int64_t ntouched, touched_cap;
    contribution *lent;           /* whose data lie in the link's memory */
    int64_t now_us; /* when the first round of this settling was opened; 0: none was */
    round *spare;
    server_pull *spare_pulls;
    const void **sources; /* of a sum */

    kv_key *keys; /* of a batch of rounds */
    kv_array **values;
    int64_t nvalues, keys_cap, values_cap;
    part **batch; /* their parts, each with the round that is `applying` */
    int64_t nbatch, batch_cap;
    char *copies; /* see below */
    int64_t copied, copies_cap;

    server_optimizer *optimizers; /* that wait for open rounds */
    int64_t optimizers_come, optimizers_set, open_rounds;

    int64_t rounds, bytes, stalest;
    int64_t told_us; /* of waits.c: when a wait was told last */
    int64_t wait_us; /* and how long it is silent after that */
    struct coordinator *coordinator; /* on the first server */
} server_state;

/* The round of the key whose value the part holds. */
static inline int64_t part_round(const part *p)
{
    return p->begun + p->applied;
}

/* Returns true if the worker takes part in the round and has not contributed yet. */
static inline bool server_lacks(const server_state *s, const round *x, int rank)
{
    return !x->by[rank].complete && !s->workers[rank].done;
}

/* Returns true if a further optimizer waits for the end of the round, which is of the one in use. A
 * round that itself waits for a further one is not open: where rank 0, who sets them, is done, the
 * others go on meanwhile. */
static inline bool server_is_open(const server_state *s, const round *x)
{
    return x->counted && x->optimizer == s->optimizers_set;
}

/* Sends a part to a worker; the part's replies count until it is sent. */
void server_send(server_state *s, part *p, const server_pull *x);
void server_send_rows(server_state *s, part *p, const server_pull *x);

/* A push was applied: its worker is told, several at a time. */
void server_note_done(server_state *s, int worker, uint64_t request);

/* Sends the replies and ends that were collected for all workers. */
void server_flush(server_state *s);

/* server_is_sum: true if the round needs only a sum of whole arrays, without a rule. Then
 * server_add_up makes the sum, by rank, in the stored array, which is quicker than a call of the
 * store for every part, and codes it if the first worker wants codes. Of a part that keeps nothing
 * the sum is made in the memory of the round. Errors: value (some ranks broadcast, others do not),
 * memory. */
bool server_is_sum(const server_state *s, const part *p, const round *x);
int server_add_up(server_state *s, part *p, round *x, kv_err *e);

/* Sends the sum of a round to a worker that has contributed; it counts as a reply of the round. */
void server_send_sum(server_state *s, part *p, round *x, int worker);

/* All replies of a sum were sent: its request on this rank is told, and the round forgotten. */
void server_end_sum(server_state *s, part *p, round *x);

/* Sets the optimizer of an ASK_OPTIMIZER. */
int server_set_optimizer(server_state *s, const server_optimizer *o, kv_err *e);

/* Replies to calls: at most LINK_PAYLOAD bytes; and what a buffer holds, which becomes empty. Where
 * e is an error, or the buffer has failed, the call is refused. */
void server_reply(int rank, uint64_t request, const void *data, int64_t bytes);
void server_reply_buf(int rank, uint64_t request, buf *b, kv_err *e);
void server_fail(int rank, uint64_t request, int store, int64_t part, const kv_err *e);
void server_refuse(int rank, uint64_t request, const kv_err *e);

/* The stores that this rank serves, and one of them; NULL: there is none of that number. */
extern server_state *server_stores;
server_state *server_store(int number);

/* The stored array of a part that keeps one. */
static inline kv_array *server_stored(const server_state *s, const part *p)
{
    return s->store->slots.items[p->slot].stored;
}

/* The store to which a worker's PUSH, PULL or ADD belongs; NULL, with an error: internal. */
server_state *server_store_of(int rank, const link_rec *r, kv_err *e);

/* ---- The parts of a store (parts.c) ---- */

/* By its number, or NULL. */
part *parts_find(const server_state *s, int64_t id);

/* There is news of the part: settling looks at it. */
void parts_touch(server_state *s, part *p);

/* Makes the parts that a call of ASK_INIT carries. Errors: internal, memory. */
int parts_init(server_state *s, const link_rec *r, kv_err *e);

/* Forgets n parts from one on, whose key lives elsewhere now. Errors: those of the store. */
int parts_drop(server_state *s, int64_t first, int64_t n, kv_err *e);

/* The part holds no codes any more, and no residual. */
void parts_drop_codes(part *p);

void parts_free(server_state *s, part *p);

/* A part of a type that keeps nothing; it is made when its first contribution comes. NULL, with an
 * error: internal (malformed), memory. */
part *parts_of_sum(server_state *s, int64_t id, kv_err *e);

/* Takes a round that is over from its part, without its contributions; and forgets it. */
void parts_take_off(const server_state *s, part *p, round *x);
void parts_free_round(server_state *s, part *p, round *x);

/* ---- Changes ----
 *
 * When each element of a part got its bits, so that a pull can bring those alone that a worker
 * lacks (LINK_CHANGES).
 *
 * Nothing is kept until a worker asks for the changes of the part. From then on each round compares
 * the elements before and after it, and leaves a mark, one byte an element (cpu/changes.h). So the
 * changes take as many bytes as the part has elements, which is no more than the part itself, and
 * they reach back CHANGES_MARKS rounds at most, at least half as many: whoever holds an older round
 * gets the whole part. Where nobody asked for so long, nothing is kept any more. The copies of the
 * elements from before a round live until it is applied, a few megabytes of parts at a time; of a
 * key that its rule needs whole, which is one part, all of it at a time.
 *
 * Memory that is missing makes a part forget its changes, which costs bytes on the way but no
 * correctness.
 */

/* Bytes of copies from which on the rounds that wait in a batch are applied. */
enum { PART_CHANGES_TOGETHER = 4 << 20 };

/* A worker asks for the changes of a part: each round leaves marks from now on. */
void part_changes_ask(server_state *s, part *p);

/* Returns true if there are marks of all rounds behind `since`. */
bool part_changes_reach(const part *p, int64_t since);

/* Before a round is applied to a part: keeps a copy of its elements. After that: finds those that
 * changed; `applied` does not count the round yet. Copies are given back in any order, all at once,
 * by part_changes_forget_copies. */
void part_changes_begin_round(server_state *s, part *p);
void part_changes_end_round(server_state *s, part *p);
void part_changes_forget_copies(server_state *s);

/* Writes the elements that changed behind round `since`, from element *at on, which moves behind
 * the blocks that fit in `room` bytes. Returns the bytes. */
int64_t part_changes_put(const part *p, const void *elements, int64_t since, int64_t *at, void *to,
                         int64_t room);

/* Bytes of the records from element `at` on, at most. */
int64_t part_changes_bound(const part *p, int64_t at);

/* ---- Rounds (rounds.c) ----
 *
 * Pushes are collected, summed and applied when the workers that take part have come, pulls are
 * answered when the pushes before them were applied. server.h tells the rules. */

/* Take a record of a push, of a pull, or of a push that is answered by its sum; rounds_settle does
 * the rest. The worker is told of errors: key, shape, timeout (its round was given up), memory. */
void rounds_push(int rank, const link_rec *r);
void rounds_pull(int rank, const link_rec *r);
void rounds_take_add(int rank, const link_rec *r);

/* ASK_ROWS. Errors: key, memory. */
int rounds_pull_rows(server_state *s, int rank, const link_rec *r, kv_err *e);

/* Takes an ADD. own: NULL, or this rank's own contribution, with a record that was not sent.
 * Errors: shape, timeout, memory, internal. */
int rounds_add(server_state *s, int rank, const link_rec *r, const local_add *own, kv_err *e);

/* Applies rounds and answers pulls of all parts with news, in all stores, and copies the
 * contributions that would stay in the link's memory. */
void rounds_settle(void);

/* Sets the optimizers that wait, once no open round needs the one before; returns true if it has
 * set any. */
bool rounds_set_optimizers(server_state *s);

/* Gives up a round: its workers are told, and the part keeps its value. */
void rounds_give_up(server_state *s, part *p, round *x, const kv_err *why);

void rounds_free_spare(server_state *s);

/* Drops the pulls of a worker that is gone, and its pushes that have not come whole. Its parts are
 * looked at again: their rounds may go on without it. */
void rounds_lose_worker(server_state *s, int rank);

/* ---- Looks (look.c) ---- */

/* Answer an ASK_ROUNDS. Error: memory. */
void look_rounds(const server_state *s, int rank, const link_rec *r);

/* Answer an ASK_LOOK. Errors: key (this server has no such part), memory. */
void look_at_part(const server_state *s, int rank, const link_rec *r);
