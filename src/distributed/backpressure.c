/* The wait of a worker that is ahead. While it waits it asks the servers now and then whether a
 * rank waits for it, because then it must push on. */
#include "distributed/backpressure.h"

#include <stdlib.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/environment.h"
#include "distributed/server.h"

enum {
    AHEAD_BYTES = 256 << 20,
    FIRST_ASKED_MS = 20, /* when nothing of this rank has ended for so long */
    LAST_ASKED_MS = 320
};

int64_t backpressure_bytes(void)
{
    const char *text = environment(ENV_AHEAD);
    return text && *text ? strtoll(text, NULL, 10) : AHEAD_BYTES;
}

/* Returns true if a server waits for a push that this rank has not made yet. */
static bool is_behind(const worker *w, const ask_missed *l, backpressure_missed *out)
{
    *out = (backpressure_missed){.rank = l->waits, .in_call = l->part < 0};
    if (l->part < 0)
        return true;
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        const place *p = &w->keys[i].place;
        if (l->part < p->first || l->part >= p->first + p->nparts)
            continue;
        out->key = w->store->slots.items[i].key;
        return w->keys[i].pushes < l->round;
    }
    return true; /* it does not even know the key */
}

int backpressure_missed_by(worker *w, backpressure_missed *out, kv_err *e)
{
    *out = (backpressure_missed){.rank = -1};
    for (int i = 0; i < w->how.servers && out->rank < 0; i++) {
        net_call c = {.rank = server_rank(i), .what = ASK_MISSED, .store = w->number,
                      .name = ask_name(ASK_MISSED)};
        void *reply = NULL;
        int64_t bytes = 0;
        int rc = net_call_wait(&c, &reply, &bytes, e);
        const ask_missed *list = reply;
        for (int64_t j = 0; j < bytes / (int64_t)sizeof *list && !rc; j++) {
            if (is_behind(w, &list[j], out))
                break;
            *out = (backpressure_missed){.rank = -1};
        }
        mem_free(reply);
        if (rc)
            return rc;
    }
    return KV_OK;
}

/* The number of operations that may be pending when one of `bytes` begins; -1: it begins now. */
static int64_t too_many(const worker *w, int64_t bytes)
{
    int64_t pending = __atomic_load_n(&w->store->calls.group.pending, __ATOMIC_ACQUIRE);
    int64_t pushing = __atomic_load_n(&w->pushing, __ATOMIC_ACQUIRE);
    kv_assert(pushing >= 0 && pending >= 0, "%lld operations push %lld bytes", (long long)pending,
              (long long)pushing);
    if (pending >= BACKPRESSURE_PENDING)
        return BACKPRESSURE_PENDING - 1;
    return bytes > 0 && pushing > 0 && pushing + bytes > w->ahead && pending > 0 ? pending - 1 : -1;
}

void backpressure_wait(worker *w, int64_t bytes)
{
    engine_group *g = &w->store->calls.group;
    int64_t pending;
    int ms = FIRST_ASKED_MS;
    while ((pending = too_many(w, bytes)) >= 0) {
        backpressure_missed who;
        kv_err unused = {0};
        if (engine_wait_group_for(g, pending, ms))
            continue;
        /* an error here is met by the call that waits, or by the next one */
        if (backpressure_missed_by(w, &who, &unused) || who.rank >= 0)
            return;
        ms = ms < LAST_ASKED_MS ? 2 * ms : ms;
    }
}
