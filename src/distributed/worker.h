/* Workers: the store types of several machines, as a rank that runs a script sees them. A store
 * keeps for each key where its parts live and how many pushes and pulls it has made; the values are
 * the servers'. The slots of the store hold shapes without elements, and its updater runs only the
 * host side of rules: counts, schedules, numbers.
 */
#pragma once

#include "core/optimizer.h"
#include "core/store.h"
#include "distributed/asks.h"
#include "distributed/job_checkpoint.h"
#include "distributed/net.h"

typedef struct worker_key {
    place place;
    int64_t pushes, pulls;
    kv_dtype dtype;
    bool inited;        /* by this rank's own call */
} worker_key;

enum { WORKER_SPARES = 8 };

typedef struct worker {
    kv *store;
    int number; /* of the store in every process */
    ask_store how;
    kv *sums; /* of several values, or values of another dtype: a store of one process */
    worker_key *keys; /* by slot */
    int64_t keys_cap;
    bool done;
    int64_t epochs; /* optimizers that this rank has set, or heard of at a barrier */
    int64_t moves;  /* of keys, that it knows of */
    bool loaded_rule; /* on rank 0: a file of states has brought a rule */
    struct newcomer *newcomer; /* of a spare that was let in (below), or NULL */
    job_checkpoint checkpoint;
    int64_t ahead;   /* bytes that it may push ahead of the others, see request.h */
    int64_t pushing; /* bytes of pushes that have not ended; atomic */
    struct {
        int64_t slot, pushes; /* a key that another rank was seen to wait for, or -1, and how often
                                 this one had pushed it then */
        int64_t until_ms;     /* when it is time to ask again */
    } missed;
    struct request *spares[WORKER_SPARES]; /* blocks of requests that have ended, or NULL; atomic
                                              (request.c) */
} worker;

/* *out becomes an array like the one that the servers keep for a slot, row_sparse ones with their
 * rows; it is filled when its turn has come. Errors: those of a pull. */
int worker_pull_stored(worker *w, const slot *s, kv_array **out, kv_err *e);

/* ---- The keys that a rank knows of (worker_keys.c) ----
 *
 * Where they live, and the calls to servers that this takes.
 */

/* A call to a server, for net_call_wait; the same call to every server; and one to the coordinator,
 * with bytes and a reply, or NULL. Errors of the two that wait: peer, timeout, memory. */
net_call worker_call(const worker *w, int server, dist_ask what);
int worker_call_all(const worker *w, net_call c, kv_err *e);
int worker_ask(const worker *w, dist_ask what, link_args args, const buf *b, void **reply,
               int64_t *bytes, kv_err *e);

/* The slot of each key; asks the coordinator for keys that this rank does not know yet.
 * makes: keys that no rank knows are made, like their arrays; else arrays are not read. Errors:
 * key, peer, timeout, memory. */
int worker_find(worker *w, const kv_pairs *pairs, bool makes, int64_t *numbers, kv_err *e);

/* The slot of a key of which another rank has told, or -1: key, memory. Where the key has moved its
 * pushes and pulls count from 0 again. */
int64_t worker_know(worker *w, const ask_key *k, const kv_key *key, kv_err *e);

/* The way in which a rule lets keys be cut: anywhere, by rows, or not at all. */
place_need worker_need(const worker *w, const kv_rule *rule);

/* The description of a key for the coordinator, for a key that is to hold arrays like a. */
ask_key worker_key_like(const worker *w, const kv_key *key, const kv_array *a);

/* Makes keys that no rank has yet, with these values; where nothing is stored, with their shapes.
 * inits: by the first worker's init. The steps: asks for places of keys in `list`, whose place has
 * no parts where the key is there already, which for an init is an error; sends their first values
 * to the servers. */
int worker_make_keys(worker *w, const kv_pairs *pairs, bool inits, kv_err *e);
int worker_place_keys(worker *w, const kv_key *keys, int64_t n, ask_key *list, bool inits,
                      kv_err *e);
int worker_send_values(const worker *w, const kv_pairs *pairs, const ask_key *list, bool inits,
                       kv_err *e);

/* Waits for keys that the first worker makes; any: or another worker, by a push. Where one of them
 * is refused, this rank may know some of the others. */
int worker_ask_keys(worker *w, const kv_key *keys, int64_t n, bool any, kv_err *e);

/* ---- The checkpoint file from which a job goes on ----
 *
 * Keys begin with its values and counts.
 */

/* *out becomes the value with which a key begins, borrowed: that of the file, or else the given
 * one. Error: value (the file has another shape, dtype or storage). */
int checkpoint_value(const struct worker *w, const kv_key *key, kv_array *given, kv_array **out,
                     kv_err *e);

/* Puts the states of the file into the slots of this rank. Errors: value (the file is of another
 * optimizer or compression, or has keys that this rank does not know), io, format, memory. */
int checkpoint_read_states(struct worker *w, kv_err *e);

/* The servers and this rank have the states of the file now. */
void checkpoint_drop_states(struct worker *w);

/* ---- A worker that was a spare ----
 *
 * It begins with the counts that rank 0 had when it let the spare in, which rank 0 sends
 * it (mail: ASK_SEND, ASK_RECEIVE): a newcomer_counts, then for each key an ask_key, as ask_put_key
 * writes it, and a newcomer_key; then the optimizer, if a file of load-states has brought it. */

typedef struct newcomer_counts {
    int64_t rounds, saved; /* begun; of the last file of a checkpoint */
    int64_t epochs, moves; /* see above */
    int64_t updater;       /* bytes of states_put_updater; 0: scripts set the optimizer */
} newcomer_counts;

typedef struct newcomer_key {
    int64_t first;           /* the key's first part; another one: the key has moved since */
    int64_t pushes;          /* to the key in that place */
    int64_t rounds, updates; /* pushes and updates of the slot: see slot.h */
} newcomer_key;

/* Makes the worker a newcomer, from the mail, which it then owns (also after an error). Errors:
 * internal (malformed), memory. */
int newcomer_new(worker *w, void *mail, int64_t bytes, kv_err *e);

/* Returns true on a newcomer that has not pushed yet, so has not called newcomer_push: until then
 * it waits at no barrier. */
bool newcomer_catches_up(const worker *w);

/* Called before each push, and before the store closes: from now on its barriers wait for the
 * others, and its counts of them (epochs, moves) are those of the mail. */
void newcomer_push(worker *w);

/* Returns the optimizer of the mail, borrowed, and its bytes; 0: there is none. */
const char *newcomer_updater(const worker *w, int64_t *bytes);

void newcomer_release(worker *w);

/* ---- The operations of the types (types.c) ---- */

typedef struct dist_type {
    const char *names[3]; /* its own, others, NULL */
    bool is_async;
    bool device; /* values of one rank are summed like those of `device` */
    bool sums;   /* nothing is stored: see request_sum.c */
    int (*begin)(kv_err *e); /* net_open calls it before records come */
} dist_type;

int worker_open(kv *store, const dist_type *type, const kv_opt *opts, int nopts, void **self,
                kv_err *e);
void worker_close(void *self);
int worker_rank(void *self);
int worker_count(void *self);
int worker_init(void *self, const kv_pairs *values, const kv_call *how, kv_err *e);
int worker_push(void *self, const kv_pairs *values, const kv_call *how, kv_err *e);
int worker_pull(void *self, const kv_pairs *outs, const kv_call *how, kv_err *e);
int worker_pull_since(void *self, const kv_pairs *outs, int64_t *rounds, int64_t *moved,
                      const kv_call *how, kv_err *e);
int worker_pull_rows(void *self, kv_array *const *ids, const kv_pairs *outs, const kv_call *how,
                     kv_err *e);
int worker_pushpull(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                    kv_err *e);
int worker_broadcast(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                     kv_err *e);
int worker_await_key(void *self, const kv_key *key, kv_err *e);
int worker_barrier(void *self, kv_err *e);
int worker_cluster(void *self, kv_rank_info **rows, int64_t *n, kv_err *e);
int worker_settings(void *self, kv_field *fields);
int worker_done(void *self, kv_err *e);
int worker_command(void *self, int head, const char *body, kv_err *e);
int worker_set_optimizer(void *self, const char *kind, const char *text, const kv_opt *params,
                         int nparams, kv_err *e);
int look_visit_rounds(void *self, kv_visitor visit, void *arg, kv_err *e);
int look_value(void *self, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e);

/* ---- A spare becomes a worker (grow.c) ----
 *
 * So it does while rounds go on (spares.h).
 *
 * Rank 0 does that where it begins a round, as job_checkpoint.h says what a round is, when all that
 * it has pushed was applied. No server ends a round to which rank 0 has not contributed, so each
 * server lets the newcomer take part from the same place of rank 0's script on, however far the
 * others are; they wait for nothing but its values. What rank 0 has counted there, of keys and
 * rounds, goes to the newcomer, whose counts go on from those: it has pushed to a key as often as
 * if it had been there from the first round.
 *
 * So its script may run from the first line, as after a restart from a checkpoint: init takes the
 * values that the servers hold, rounds() says how many rounds have begun. The optimizers that rank
 * 0 has set are there, also one that a file of load-states has brought. Barriers, save-states and
 * load-states before its first push wait for nobody, since the others have passed them; the states
 * are those that the servers hold. */

/* Refuses a store that cannot grow: unsupported (a type without common rounds, or that keeps
 * nothing; a second store), usage (of a spare that waits). */
int grow_check(const worker *w, kv_err *e);

/* Before a push of these keys: on rank 0 lets the spares in for which the launcher has asked, if a
 * round begins. Errors: peer, memory. */
int grow_push(worker *w, const int64_t *numbers, int64_t n, kv_err *e);

/* On a newcomer, when its store was made. Errors: internal, peer, timeout, memory. */
int grow_begin(worker *w, kv_err *e);
