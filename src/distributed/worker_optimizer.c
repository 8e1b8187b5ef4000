/* Optimizers, and the barrier: an optimizer may need keys to move, and behind the barrier all ranks
 * know where they are. */
#include <string.h>

#include "base/mem.h"
#include "base/xxh64.h"
#include "core/optimizer.h"
#include "distributed/request.h"
#include "distributed/worker.h"

/* ---- Optimizers ---- */

/* *value becomes what the servers keep of the key, *round the one with which it begins elsewhere.
 * With rounds all parts have reached the same. Without them some may be further than others, and
 * the key begins with a round that no worker has been told, so that none thinks that it lacks
 * nothing. */
static int pull_moving(worker *w, const slot *s, kv_array **value, int64_t *round, kv_err *e)
{
    int64_t reached = -1, moved = 0;
    const kv_array *a = s->stored;
    *round = s->pushes;
    if (a->storage != KV_DEFAULT)
        return worker_pull_stored(w, s, value, e);
    TRY(kv_array_new_raw(value, a->dtype, a->ndim, array_shape(a), (kv_ctx){KV_CPU, 0}, e));
    TRY(worker_pull_since(w, &(kv_pairs){&s->key, value, 1}, &reached, &moved, NULL, e));
    *round = reached + w->how.is_async;
    return KV_OK;
}

/* Moves a key from its parts to one server. */
static int make_whole(worker *w, int64_t number, kv_err *e)
{
    const slot *s = &w->store->slots.items[number];
    place old = w->keys[number].place;
    kv_key key = s->key;
    own_array *value = NULL;
    ask_key k = worker_key_like(w, &key, s->stored);
    TRY(pull_moving(w, s, &value, &k.round, e));
    k.need = PLACE_WHOLE;
    TRY(worker_place_keys(w, &key, 1, &k, false, e));
    if (k.place.first < 0)
        return kv_err_set(e, KV_E_INTERNAL, "a key that was cut stays where it is");
    TRY(worker_send_values(w, &(kv_pairs){&key, &value, 1}, &k, false, e));
    own_buf b = {0};
    ask_put_key(&b, &k, key.name);
    TRY(buf_check(&b, e));
    TRY(worker_ask(w, ASK_READY, (link_args){0}, &b, NULL, NULL, e));
    worker_know(w, &k, &key, e);
    return worker_call_all(w, (net_call){.what = ASK_DROP, .args.drop = {old.first, old.nparts}},
                           e);
}

/* The optimizer that rank 0 waits with, and the first key that has to move for it. */
typedef struct whole_wait {
    worker *w;
    const kv_key *key;
} whole_wait;

/* Deadlock: a rank that pushes again waits for rank 0, which waits for it at the optimizer. */
static int refuse_if_missed(void *arg, kv_err *e)
{
    const whole_wait *x = arg;
    char text[SLOT_KEY_TEXT];
    backpressure_missed who;
    TRY(backpressure_missed_by(x->w, &who, e));
    if (who.rank < 0 || who.in_call)
        return KV_OK;
    kv_err_set(e, KV_E_VALUE,
               "rank %d pushes and does not set this optimizer, for which key %s has to move",
               who.rank, slot_key_text(text, x->key));
    return kv_err_hint(e, "set it before init, on all ranks, or while the others are at a barrier"),
           KV_E_VALUE;
}

static void end_hold(const worker *w)
{
    kv_err unused = {0};
    net_call leave = worker_call(w, 0, ASK_BARRIER);
    leave.args.barrier = ASK_HOLD_ENDS;
    net_call_wait(&leave, NULL, NULL, &unused);
}

/* Rank 0 moves the keys that do not fit, also one that is done: the others still push. */
static int make_whole_for(worker *w, place_need need, kv_err *e)
{
    int rc = KV_OK;
    bool met = false;
    for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
        if (place_fits(&w->keys[i].place, need))
            continue;
        if (!met) {
            /* All other ranks have to come to the optimizer or to a barrier: then no push is on its
             * way while keys move. */
            whole_wait x = {w, &w->store->slots.items[i].key};
            net_call c = worker_call(w, 0, ASK_BARRIER);
            c.args.barrier = ASK_HOLD;
            c.meanwhile = refuse_if_missed;
            c.arg = &x;
            rc = net_call_wait(&c, NULL, NULL, e);
            if (rc == KV_E_VALUE)
                end_hold(w);
        }
        if (rc)
            return rc;
        met = true;
        rc = make_whole(w, i, e);
    }
    if (rc)
        end_hold(w);
    return rc;
}

/* The other ranks learn afterwards where the keys are. */
static int find_whole_for(worker *w, place_need need, kv_err *e)
{
    int64_t n = 0;
    own_mem kv_key *cut = mem_alloc(w->store->slots.n, sizeof *cut, e);
    if (!cut)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < w->store->slots.n; i++)
        if (!place_fits(&w->keys[i].place, need))
            cut[n++] = w->store->slots.items[i].key;
    return n ? worker_ask_keys(w, cut, n, true, e) : KV_OK;
}

int worker_set_optimizer(void *self, const char *kind, const char *text, const kv_opt *params,
                         int nparams, kv_err *e)
{
    worker *w = self;
    own_buf b = {0};
    int64_t epoch = w->epochs + 1;
    kv_rule *rule = NULL;
    if (strcmp(kind, "optimizer") == 0)
        TRY(builtin_rule(&rule, text, e));
    else if (strcmp(kind, "rule") == 0)
        TRY(kv_rule_new(&rule, text, NULL, 0, 0, e));
    place_need need = rule ? worker_need(w, rule) : PLACE_ANYWHERE;
    kv_rule_free(rule);
    engine_wait_group(&w->store->calls.group, 0);
    buf_put(&b, kind, strlen(kind) + 1);
    buf_put(&b, text, strlen(text) + 1);
    for (int i = 0; i < nparams; i++) {
        buf_put(&b, params[i].name, strlen(params[i].name) + 1);
        buf_put(&b, params[i].value, strlen(params[i].value) + 1);
    }
    TRY(buf_check(&b, e));
    if (link_rank() == 0) {
        TRY(make_whole_for(w, need, e));
        TRY(worker_call_all(
            w, (net_call){.what = ASK_OPTIMIZER, .data = b.data, .bytes = (int64_t)b.len}, e));
    }
    net_call c = worker_call(w, 0, ASK_EPOCH);
    c.args.optimizer.number = epoch;
    c.args.optimizer.text = (int64_t)xxh64(b.data, b.len);
    TRY(net_call_wait(&c, NULL, NULL, e));
    w->epochs++;
    if (link_rank() != 0)
        TRY(find_whole_for(w, need, e));
    return KV_OK;
}

/* ---- The barrier ---- */

/* Keys may have moved meanwhile for an optimizer that rank 0 alone has set. */
int worker_barrier(void *self, kv_err *e)
{
    worker *w = self;
    own_mem void *reply = NULL;
    int64_t bytes = 0;
    if (newcomer_catches_up(w))
        return KV_OK;
    if (!w->done)
        TRY(worker_ask(w, ASK_BARRIER, (link_args){0}, NULL, &reply, &bytes, e));
    const ask_met *met = reply;
    if (!w->done && (bytes != sizeof *met || met->epochs < 0 || met->epochs == INT64_MAX))
        return ask_malformed(e);
    if (met) {
        w->epochs = met->epochs;
        if (met->moves != w->moves)
            TRY(find_whole_for(w, PLACE_WHOLE, e));
        w->moves = met->moves;
    }
    return KV_OK;
}
