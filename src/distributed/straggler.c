/* Which rounds, barriers and keys wait too long, and for whom. */
#include "distributed/straggler.h"

#include "core/store.h"
#include "distributed/coordinator.h"
#include "distributed/rounds.h"
#include "distributed/sums.h"
#include "runtime.h"

enum { SECOND_US = 1000000, FIRST_TOLD_US = 5 * SECOND_US };

/* The rounds that are open because workers are missing. */
typedef struct late_round {
    const part *part; /* the oldest */
    const round *round;
    int64_t more; /* parts beside it */
} late_round;

static bool waits_for_worker(const server_state *s, const round *x)
{
    for (int i = 0; i < s->how.workers && x->have > 0; i++)
        if (!x->by[i].complete && !s->done[i])
            return true;
    return false;
}

void straggler_tell_ranks(const server_state *s, bool (*has)(const void *of, int worker),
                          const void *of, buf *out)
{
    buf_add(out, " has ranks");
    for (int i = 0; i < s->how.workers; i++)
        if (has(of, i))
            buf_printf(out, " %d", i);
    buf_add(out, " and lacks");
    for (int i = 0; i < s->how.workers; i++)
        if (!has(of, i) && !s->done[i])
            buf_printf(out, " %d", i);
}

static bool round_has(const void *of, int worker)
{
    return ((const round *)of)->by[worker].complete;
}

static void tell_round(const server_state *s, const part *p, const round *x, buf *out)
{
    char text[SLOT_KEY_TEXT];
    buf_printf(out, "round %lld of key %s", (long long)x->number, slot_key_text(text, &p->key));
    straggler_tell_ranks(s, round_has, x, out);
}

/* ---- Stores that not all workers make ---- */

/* Those that made it are told, and those that come. */
static void refuse_store(server_state *s, const kv_err *why)
{
    s->refusal = *why;
    for (int i = 0; i < s->how.workers; i++)
        if (s->joined[i])
            server_refuse(i, s->joined[i], why);
}

void straggler_refuse_ended(server_state *s)
{
    kv_err why = {0};
    for (int i = 0; i < s->how.workers; i++) {
        if (s->joined[i] || s->refusal.code || !net_has_left(i))
            continue;
        kv_err_set(&why, KV_E_PEER, "rank %d has ended, and create waits for it", i);
        why.rank = i;
        why.has_rank = true;
        refuse_store(s, &why);
    }
}

static bool store_has(const void *of, int worker)
{
    return ((const server_state *)of)->joined[worker] != 0;
}

static int64_t creation_waits(server_state *s, int64_t before, buf *out)
{
    kv_err why = {0};
    if (s->njoined == s->how.workers || s->refusal.code)
        return INT64_MAX;
    buf_printf(out, "create of a store of type \"%s\"", s->how.type);
    straggler_tell_ranks(s, store_has, s, out);
    if (s->created_us >= before)
        return s->created_us;
    kv_err_set(&why, KV_E_TIMEOUT, "gave up: %s", buf_text(out));
    refuse_store(s, &why);
    return INT64_MAX;
}

/* Gives up rounds that were opened before that time. */
static late_round find(server_state *s, int64_t before)
{
    late_round found = {0};
    for (int64_t i = 0; i < s->nparts && !s->how.is_async; i++) {
        part *p = s->parts[i];
        round *x = p ? p->rounds : NULL;
        if (!x || x->number != p->applied + 1 || !waits_for_worker(s, x))
            continue;
        if (x->since_us < before) {
            kv_err why = {0};
            buf text = {0};
            tell_round(s, p, x, &text);
            kv_err_set(&why, KV_E_TIMEOUT, "gave up: %s", buf_text(&text));
            kv_err_key(&why, &p->key);
            buf_release(&text);
            rounds_give_up(s, p, x, &why);
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

static int64_t rounds_wait(server_state *s, int64_t before, buf *out)
{
    late_round found = find(s, before);
    if (!found.round)
        return INT64_MAX;
    tell_round(s, found.part, found.round, out);
    if (found.more)
        buf_printf(out, ", and so have %lld other parts of keys", (long long)found.more);
    return found.round->since_us;
}

/* Keeps the sentence of what has waited longest. */
static int64_t first_of(int64_t (*waits)(server_state *s, int64_t before, buf *out),
                        server_state *s, int64_t before, int64_t since, buf *text)
{
    buf other = {0};
    int64_t at = waits(s, before, &other);
    if (at < since) {
        buf_clear(text);
        buf_add(text, buf_text(&other));
    }
    buf_release(&other);
    return at < since ? at : since;
}

void straggler_look(server_state *s, int64_t now_us)
{
    buf text = {0};
    double limit = net_timeout();
    int64_t before = limit > 0 ? now_us - (int64_t)(limit * SECOND_US) : INT64_MIN;
    int64_t since = first_of(creation_waits, s, before, INT64_MAX, &text);
    since = first_of(coordinator_waits, s, before, since, &text);
    since = first_of(s->sums ? sums_waits : rounds_wait, s, before, since, &text);
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
