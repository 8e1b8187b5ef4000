/* What a rank knows of the spares. Flags are set by the thread that drives the net. */
#include "distributed/spares.h"

#include <unistd.h>

#include "base/mem.h"
#include "distributed/alive.h"
#include "distributed/link.h"
#include "distributed/net.h"
#include "distributed/server_ranks.h"
#include "runtime.h"

enum { LOOK_US = 2000, OVER = -1 /* in place of a rank */ };

static struct {
    int first, end;  /* the ranks of spares */
    bool *in;        /* by rank, from first on; atomic */
    int nin;         /* atomic */
    bool over;       /* nobody lets one in any more; atomic */
    bool *asked;     /* by rank, from first on: the launcher has asked for it; atomic */
    int64_t at;      /* bytes of the file `grow` that were read */
} spares;

int spares_open(kv_err *e)
{
    int n = server_spares();
    if (spares.in || n == 0)
        return KV_OK;
    spares.asked = mem_zalloc(n, sizeof *spares.asked, e);
    spares.in = spares.asked ? mem_zalloc(n, sizeof *spares.in, e) : NULL;
    if (!spares.in)
        return KV_E_MEMORY;
    spares.first = server_workers() - n;
    spares.end = server_workers();
    return KV_OK;
}

static bool is_spare(int rank)
{
    return spares.in && rank >= spares.first && rank < spares.end;
}

bool spares_was(int rank)
{
    return is_spare(rank) && __atomic_load_n(&spares.in[rank - spares.first], __ATOMIC_ACQUIRE);
}

bool spares_waits(int rank)
{
    return is_spare(rank) && !spares_was(rank);
}

int spares_workers(void)
{
    return server_workers() - server_spares() + __atomic_load_n(&spares.nin, __ATOMIC_ACQUIRE);
}

int spares_await(bool *works, kv_err *e)
{
    int mine = link_rank();
    while (spares_waits(mine) && !__atomic_load_n(&spares.over, __ATOMIC_ACQUIRE)) {
        if (alive_is_lost(e)) {
            *works = false;
            return KV_E_PEER;
        }
        usleep(LOOK_US);
    }
    *works = !spares_waits(mine);
    return KV_OK;
}

void spares_let_in(int rank)
{
    if (spares_waits(rank)) {
        __atomic_fetch_add(&spares.nin, 1, __ATOMIC_ACQ_REL);
        __atomic_store_n(&spares.in[rank - spares.first], true, __ATOMIC_RELEASE);
    }
}

void spares_end(void)
{
    for (int i = spares.first; i < spares.end; i++)
        if (spares_waits(i))
            net_answer(i, (link_rec){.kind = LINK_GROWN, .args.grow.rank = OVER}, NULL);
}

void spares_look(int64_t now_us)
{
    int rank;
    char unused[ALIVE_WHY];
    (void)now_us;
    while (spares.in && link_rank() == 0 && alive_next_line("grow", &spares.at, &rank, unused))
        if (is_spare(rank))
            __atomic_store_n(&spares.asked[rank - spares.first], true, __ATOMIC_RELEASE);
}

int spares_asked(void)
{
    for (int i = spares.first; i < spares.end; i++)
        if (__atomic_load_n(&spares.asked[i - spares.first], __ATOMIC_ACQUIRE) &&
            spares_waits(i) && !alive_is_gone(i))
            return i;
    return -1;
}

/* Spares that wait are told as well, and keep count. */
void spares_take(int rank, const link_rec *r)
{
    int64_t number = r->args.grow.rank;
    (void)rank;
    if (number == OVER)
        __atomic_store_n(&spares.over, true, __ATOMIC_RELEASE);
    if (number < spares.first || number >= spares.end || !spares_waits((int)number))
        return;
    if (!spares_waits(link_rank()))
        runtime_log(KV_LOG_NOTE "rank %lld (worker) joined at round %lld", (long long)number,
                    (long long)r->args.grow.round);
    spares_let_in((int)number);
}
