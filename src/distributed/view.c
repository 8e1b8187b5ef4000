/* The descriptions of a store of several machines and of its ranks, as info shows them. */
#include "distributed/types.h"

#include "array/device.h"
#include "base/mem.h"
#include "distributed/alive.h"
#include "distributed/server.h"
#include "distributed/spares.h"

/* ---- The ranks ---- */

static kv_rank_info rank_info(const worker *w, int rank)
{
    int first = server_rank(0), mine = net_rank();
    int64_t silence_us = alive_silence(rank, net_now_us());
    bool works = rank < w->how.workers, serves = rank >= first && rank < first + w->how.servers;
    return (kv_rank_info){.rank = rank,
                          .heard_ms = silence_us < 0 ? -1 : silence_us / 1000,
                          .host = link_host(rank),
                          .role = alive_is_gone(rank) ? "gone"
                                  : spares_waits(rank) ? "spare"
                                  : works && serves   ? "both"
                                  : works             ? "worker"
                                                      : "server",
                          .link = rank == mine               ? "self"
                                  : link_shares_memory(rank) ? "memory"
                                                             : "messages",
                          .keys = -1, .bytes = -1, .rounds = -1, .open = -1, .stalest = -1,
                          .contributors = -1};
}

static void add_counts(kv_rank_info *to, const ask_counts *c)
{
    to->keys = c->keys;
    to->bytes = c->bytes;
    to->rounds = c->rounds;
    to->open = c->late;
    to->stalest = c->stalest;
    to->contributors = c->contributors;
    ask_print_workers(to->missing, sizeof to->missing, c->missing);
}

int worker_cluster(void *self, kv_rank_info **rows, int64_t *n, kv_err *e)
{
    const worker *w = self;
    int ranks = net_size(), rc = KV_OK;
    kv_rank_info *list = mem_zalloc(ranks, sizeof *list, e);
    if (!list)
        return KV_E_MEMORY;
    for (int i = 0; i < ranks; i++)
        list[i] = rank_info(w, i);
    for (int i = 0; i < w->how.servers && !rc; i++) {
        net_call c = {.rank = server_rank(i), .what = ASK_COUNTS, .store = w->number,
                      .name = ask_name(ASK_COUNTS)};
        void *reply = NULL;
        int64_t bytes = 0;
        rc = net_call_wait(&c, &reply, &bytes, e);
        if (!rc && bytes != sizeof(ask_counts))
            rc = ask_malformed(e);
        if (!rc)
            add_counts(&list[server_rank(i)], reply);
        mem_free(reply);
    }
    if (rc) {
        mem_free(list);
        return rc;
    }
    *rows = list;
    *n = ranks;
    return KV_OK;
}

/* ---- The settings of a worker ---- */

/* The transport of the records to the other ranks. */
static const char *links(void)
{
    int memory = 0, others = net_size() - 1;
    for (int i = 0; i < net_size(); i++)
        memory += i != net_rank() && link_shares_memory(i);
    return others == 0        ? "none"
           : memory == 0      ? "messages"
           : memory == others ? "memory"
                              : "both";
}

int worker_settings(void *self, kv_field *fields)
{
    const worker *w = self;
    const kv_field list[] = {{.name = "servers", .number = w->how.servers},
                             {.name = "partition_bytes", .number = LINK_PAYLOAD},
                             {.name = "row_partition_bytes", .number = PLACE_MOST},
                             {.name = "spread_elements", .number = PLACE_SPREAD},
                             {.name = "ahead_bytes", .number = w->ahead},
                             {.name = "deadline_ms", .number = alive_deadline_ms()},
                             {.name = "timeout_ms", .number = (int64_t)(net_timeout() * 1000)},
                             {.name = "link", .text = links()},
                             {.name = "staleness", .number = w->how.staleness,
                              .text = w->how.staleness < 0 ? "unbounded" : NULL}};
    int n = (int)(sizeof list / sizeof *list) - !w->how.is_async;
    for (int i = 0; i < n; i++)
        fields[i] = list[i];
    return n;
}
