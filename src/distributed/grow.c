/* The mail from rank 0: a head, and for each key an ask_key, as ask_put_key writes it, with its
 * counts behind it. */
#include "distributed/grow.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "distributed/server_ranks.h"
#include "distributed/spares.h"
#include "distributed/worker_keys.h"

typedef struct counts {
    int64_t rounds, saved; /* begun; of the last file of a checkpoint */
    int64_t epochs, moves; /* see worker.h */
} counts;

typedef struct key_counts {
    int64_t first;           /* the part with which the next holds */
    int64_t pushes;          /* to that place */
    int64_t rounds, updates; /* see slot.h */
} key_counts;

typedef struct newcomer {
    counts head;
    char *mail; /* the texts of keys lie there */
    key_counts *keys;
    int64_t nkeys, cap;
    map index;
    bool has_pushed;
} newcomer;

int grow_check(const worker *w, kv_err *e)
{
    if (w->how.is_async || w->how.sums)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "a job with spares needs the rounds of dist_sync or dist_device_sync; a "
                          "store of type \"%s\" has none at which a worker could join",
                          kv_type(w->store));
    if (w->number > 0)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "a job with spares keeps one store, and this is the second");
    return KV_OK;
}

/* ---- Rank 0 ---- */

static int send_counts(const worker *w, int rank, int64_t rounds, kv_err *e)
{
    counts head = {.rounds = rounds, .saved = w->checkpoint.saved, .epochs = w->epochs,
                   .moves = w->moves};
    buf b = {0};
    buf_put(&b, (const char *)&head, sizeof head);
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        const slot *s = &w->store->slots.items[i];
        const worker_key *k = &w->keys[i];
        key_counts c = {k->place.first, k->pushes, s->pushes, s->updates};
        ask_key key = worker_key_like(w, &s->key, s->stored);
        ask_put_key(&b, &key, s->key.name);
        buf_put(&b, (const char *)&c, sizeof c);
    }
    int rc = buf_check(&b, e);
    if (!rc)
        rc = worker_ask(w, ASK_SEND, (link_args){.mail = {rank, MAIL_GROWN}}, &b, NULL, NULL, e);
    buf_release(&b);
    return rc;
}

/* The first server comes last, since it tells the others: then all servers know. */
static int let_in(const worker *w, int rank, int64_t round, kv_err *e)
{
    int rc = KV_OK;
    for (int i = server_count() - 1; i >= 0 && !rc; i--) {
        net_call c = worker_call(w, i, ASK_GROW);
        c.args.grow.rank = rank;
        c.args.grow.round = round;
        rc = net_call_wait(&c, NULL, NULL, e);
    }
    if (!rc)
        spares_let_in(rank);
    return rc ? rc : send_counts(w, rank, round, e);
}

int grow_push(worker *w, const int64_t *numbers, int64_t n, kv_err *e)
{
    int64_t rounds = 0;
    bool begins = false;
    int rank = net_rank() == 0 ? spares_asked() : -1, rc = KV_OK;
    if (rank < 0)
        return KV_OK;
    for (int64_t i = 0; i < w->store->slots.n; i++)
        if (w->store->slots.items[i].pushes > rounds)
            rounds = w->store->slots.items[i].pushes;
    for (int64_t i = 0; i < n && !begins; i++)
        begins = w->store->slots.items[numbers[i]].pushes == rounds;
    if (!begins)
        return KV_OK;
    engine_wait_group(&w->store->calls.group, 0);
    for (; rank >= 0 && !rc; rank = spares_asked())
        rc = let_in(w, rank, rounds, e);
    return rc;
}

/* ---- The newcomer ---- */

static int read_counts(newcomer *n, int64_t bytes, kv_err *e)
{
    const char *at = n->mail, *end = at + bytes;
    int rc = bytes < (int64_t)sizeof n->head ? ask_malformed(e) : KV_OK;
    if (!rc) {
        memcpy(&n->head, at, sizeof n->head);
        at += sizeof n->head;
    }
    while (at < end && !rc) {
        kv_key key;
        if (!ask_get_key(&at, end, &key) || end - at < (int64_t)sizeof *n->keys)
            return ask_malformed(e);
        if ((rc = mem_grow(&n->keys, &n->cap, n->nkeys + 1, sizeof *n->keys, e)) ||
            (rc = map_put(&n->index, key, n->nkeys, e)))
            break;
        memcpy(&n->keys[n->nkeys++], at, sizeof *n->keys);
        at += sizeof *n->keys;
    }
    return rc;
}

int grow_begin(worker *w, kv_err *e)
{
    void *mail = NULL;
    int64_t bytes = 0;
    newcomer *n = w->newcomer = mem_zalloc(1, sizeof *n, e);
    int rc = n ? worker_ask(w, ASK_RECEIVE, (link_args){.mail = {0, MAIL_GROWN}}, NULL, &mail,
                            &bytes, e)
               : KV_E_MEMORY;
    if (rc)
        return rc;
    n->mail = mail;
    rc = read_counts(n, bytes, e);
    w->checkpoint.rounds = n->head.rounds;
    w->checkpoint.saved = n->head.saved;
    return rc;
}

void grow_know(worker *w, int64_t number)
{
    newcomer *n = w->newcomer;
    slot *s = &w->store->slots.items[number];
    worker_key *k = &w->keys[number];
    int64_t i = n ? map_get(&n->index, s->key) : -1;
    if (i < 0)
        return;
    s->pushes = n->keys[i].rounds;
    s->updates = n->keys[i].updates;
    k->pushes = k->place.first == n->keys[i].first ? n->keys[i].pushes : 0; /* it has moved since */
}

void grow_first_push(worker *w)
{
    if (!grow_catches_up(w))
        return;
    w->newcomer->has_pushed = true;
    w->epochs = w->newcomer->head.epochs;
    w->moves = w->newcomer->head.moves;
}

bool grow_catches_up(const worker *w)
{
    return w->newcomer && !w->newcomer->has_pushed;
}

void grow_release(worker *w)
{
    newcomer *n = w->newcomer;
    if (!n)
        return;
    map_release(&n->index);
    mem_free(n->keys);
    mem_free(n->mail);
    mem_free(n);
    w->newcomer = NULL;
}
