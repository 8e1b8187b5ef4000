/* Rounds that others have begun, and calls in which they wait. */
#include "distributed/missed.h"

#include "distributed/coordinator.h"
#include "distributed/sums.h"

static int64_t missed_in_rounds(const server_state *s, const part *p, int rank, ask_missed *list,
                                int64_t n)
{
    for (const round *x = p->rounds; x && n < ASK_MOST_MISSED; x = x->next) {
        int other = 0;
        while (other < s->how.workers && !x->by[other].complete)
            other++;
        if (x->have > 0 && !x->by[rank].complete)
            list[n++] = (ask_missed){p->id, x->number, other};
    }
    return n;
}

/* With a bound on staleness a push or a pull waits for the workers that are too far behind. */
static int64_t missed_in_bound(const server_state *s, const part *p, int rank, ask_missed *list,
                               int64_t n)
{
    int64_t bound = s->how.staleness, at = p->workers[rank].applied;
    if (bound < 0)
        return n;
    for (const round *x = p->rounds; x && n < ASK_MOST_MISSED; x = x->next) {
        if (x->worker == rank || !x->by[0].complete || x->number - 1 - at <= bound)
            continue;
        list[n++] = (ask_missed){p->id, at + 1, x->worker};
        return n;
    }
    for (const server_pull *x = p->pulls; x && n < ASK_MOST_MISSED; x = x->next) {
        if (x->rank == rank || x->round - at <= bound)
            continue;
        list[n++] = (ask_missed){p->id, at + 1, x->rank};
        return n;
    }
    return n;
}

int64_t missed_list(const server_state *s, int rank, ask_missed *list)
{
    int64_t n = 0;
    int other = 0;
    if (s->refusal.code || s->done[rank])
        return 0;
    while (other < s->how.workers && !s->joined[other])
        other++;
    if (!s->joined[rank] && other < s->how.workers)
        list[n++] = (ask_missed){.part = -1, .waits = other};
    other = coordinator_missed(s, rank);
    if (other >= 0)
        list[n++] = (ask_missed){.part = -1, .waits = other};
    if (s->sums)
        return sums_missed(s, rank, list, n);
    for (int64_t i = 0; i < s->nparts && n < ASK_MOST_MISSED; i++) {
        const part *p = s->parts[i];
        if (p && (p->rounds || p->pulls))
            n = s->how.is_async ? missed_in_bound(s, p, rank, list, n)
                                : missed_in_rounds(s, p, rank, list, n);
    }
    return n;
}
