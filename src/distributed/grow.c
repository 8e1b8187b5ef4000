/* Rank 0 lets a spare in, and sends it what worker.h says. */

#include <string.h>

#include "distributed/server_ranks.h"
#include "distributed/spares.h"
#include "distributed/states.h"
#include "distributed/worker.h"

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
    if (spares_waits(link_rank()))
        return kv_err_set(e, KV_E_USAGE,
                          "this rank is a spare: kv_await_turn waits until it works");
    return KV_OK;
}

/* ---- Rank 0 ---- */

static int send_counts(const worker *w, int rank, int64_t rounds, kv_err *e)
{
    newcomer_counts head = {.rounds = rounds, .saved = w->checkpoint.saved, .epochs = w->epochs,
                            .moves = w->moves};
    own_buf b = {0};
    buf_put(&b, (const char *)&head, sizeof head);
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        const slot *s = &w->store->slots.items[i];
        const worker_key *k = &w->keys[i];
        newcomer_key c = {k->place.first, k->pushes, s->pushes, s->updates};
        ask_key key = worker_key_like(w, &s->key, s->stored);
        ask_put_key(&b, &key, s->key.name);
        buf_put(&b, (const char *)&c, sizeof c);
    }
    int64_t keys_end = (int64_t)b.len;
    TRY(w->loaded_rule ? states_put_updater(w, &b, e) : KV_OK);
    TRY(buf_check(&b, e));
    head.updater = (int64_t)b.len - keys_end;
    memcpy(b.data, &head, sizeof head);
    return worker_ask(w, ASK_SEND, (link_args){.mail = {rank, MAIL_GROWN}}, &b, NULL, NULL, e);
}

/* The first server comes last, since it tells the others: then all servers know. */
static int let_in(const worker *w, int rank, int64_t round, kv_err *e)
{
    for (int i = server_count() - 1; i >= 0; i--) {
        net_call c = worker_call(w, i, ASK_GROW);
        c.args.grow.rank = rank;
        c.args.grow.round = round;
        TRY(net_call_wait(&c, NULL, NULL, e));
    }
    spares_let_in(rank);
    return send_counts(w, rank, round, e);
}

int grow_push(worker *w, const int64_t *numbers, int64_t n, kv_err *e)
{
    int64_t rounds = 0;
    bool begins = false;
    int rank = link_rank() == 0 ? spares_asked() : -1, rc = KV_OK;
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

int grow_begin(worker *w, kv_err *e)
{
    void *mail = NULL;
    int64_t bytes = 0;
    const link_args from = {.mail = {0, MAIL_GROWN}};
    TRY(worker_ask(w, ASK_RECEIVE, from, NULL, &mail, &bytes, e));
    return newcomer_new(w, mail, bytes, e);
}
