/* Which rounds, barriers and keys wait too long, and for whom. */
#include "dist/stall.h"

#include "core/store.h"
#include "dist/coordinator.h"
#include "runtime.h"

enum { SECOND_US = 1000000, FIRST_TOLD_US = 5 * SECOND_US };

/* The rounds that are open because workers are missing. */
typedef struct stalled {
    const part *part; /* the oldest */
    const round *round;
    int64_t more; /* parts beside it */
} stalled;

static bool lacks_worker(const served *s, const round *x)
{
    for (int i = 0; i < s->how.workers && x->have > 0; i++)
        if (!x->by[i].complete && !s->done[i])
            return true;
    return false;
}

static void tell_round(const served *s, const part *p, const round *x, buf *out)
{
    char text[SLOT_KEY_TEXT];
    buf_printf(out, "round %lld of key %s has ranks", (long long)x->number,
               slot_key_text(text, &p->key));
    for (int i = 0; i < s->how.workers; i++)
        if (x->by[i].complete)
            buf_printf(out, " %d", i);
    buf_add(out, " and lacks");
    for (int i = 0; i < s->how.workers; i++)
        if (!x->by[i].complete && !s->done[i])
            buf_printf(out, " %d", i);
}

/* Gives up rounds that were opened before that time. */
static stalled find(served *s, int64_t before)
{
    stalled found = {0};
    for (int64_t i = 0; i < s->nparts && !s->how.is_async; i++) {
        part *p = s->parts[i];
        round *x = p ? p->rounds : NULL;
        if (!x || x->number != p->applied + 1 || !lacks_worker(s, x))
            continue;
        if (x->since_us < before) {
            kv_err why = {0};
            buf text = {0};
            tell_round(s, p, x, &text);
            kv_err_set(&why, KV_E_TIMEOUT, "gave up: %s", buf_text(&text));
            kv_err_key(&why, &p->key);
            buf_release(&text);
            server_give_up(s, p, x, &why);
            continue;
        }
        found.more += found.part != NULL;
        if (!found.round || x->since_us < found.round->since_us) {
            found.part = p;
            found.round = x;
        }
    }
    return found;
}

void stall_look(served *s, int64_t now_us)
{
    buf text = {0};
    double limit = net_timeout();
    int64_t before = limit > 0 ? now_us - (int64_t)(limit * SECOND_US) : INT64_MIN;
    int64_t since = coordinator_waits(s, before, &text);
    stalled found = find(s, before);
    if (found.round && found.round->since_us < since) {
        since = found.round->since_us;
        buf_clear(&text);
        tell_round(s, found.part, found.round, &text);
        if (found.more)
            buf_printf(&text, ", and so have %lld other parts of keys", (long long)found.more);
    }
    if (since == INT64_MAX || now_us - since < FIRST_TOLD_US) {
        s->told_us = 0;
        s->wait_us = FIRST_TOLD_US;
    } else if (now_us - s->told_us > s->wait_us) {
        s->told_us = now_us;
        s->wait_us *= 2;
        runtime_log("%s; %lld s so far", buf_text(&text),
                    (long long)((now_us - since) / SECOND_US));
    }
    buf_release(&text);
}
