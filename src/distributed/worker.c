/* Stores are opened and closed, and keys begin with their values. Where keys live is in
 * worker_keys.c, optimizers and the barrier are in worker_optimizer.c, pushes and pulls in the
 * files request_*.c. */
#include "distributed/worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/call.h"
#include "distributed/alive.h"
#include "distributed/request.h"
#include "distributed/server_ranks.h"
#include "distributed/spares.h"

/* ---- Making and releasing ---- */

static int read_option(worker *w, const kv_opt *option, kv_err *e)
{
    char *end;
    if (!w->how.is_async || strcmp(option->name, "staleness") != 0)
        return kv_err_set(e, KV_E_USAGE, "the type \"%s\" has no option \"%.64s\"",
                          kv_type(w->store), option->name);
    w->how.staleness = strtoll(option->value, &end, 10);
    if (end == option->value || *end || w->how.staleness < 0)
        return kv_err_set(e, KV_E_VALUE, "staleness is a number from 0 on, not \"%.64s\"",
                          option->value);
    return KV_OK;
}

/* Gives back a worker that was not opened. */
static void drop(worker **w)
{
    if (!*w)
        return;
    newcomer_release(*w);
    job_checkpoint_release(*w);
    kv_free((*w)->sums);
    mem_free(*w);
}

int worker_open(kv *store, const dist_type *type, const kv_opt *opts, int nopts, void **self,
                kv_err *e)
{
    OWN(drop) worker *w = mem_zalloc(1, sizeof *w, e);
    if (!w)
        return KV_E_MEMORY;
    w->store = store;
    w->how.is_async = type->is_async;
    w->how.sums = type->sums;
    snprintf(w->how.type, sizeof w->how.type, "%s", type->names[0]);
    w->how.staleness = -1;
    for (int i = 0; i < nopts; i++) {
        int refused = read_option(w, &opts[i], e);
        if (refused)
            return kv_err_option(e, i), refused;
    }
    TRY(net_open(type->begin, e));
    if (link_rank() >= server_workers())
        return kv_err_set(e, KV_E_USAGE, "this rank is a server: it makes no stores");
    TRY(kv_create(type->device ? "device" : "local", NULL, 0, &w->sums, e));
    if ((w->number = net_new_store(e)) < 0)
        return KV_E_UNSUPPORTED;
    if (server_spares() > 0)
        TRY(grow_check(w, e));
    if (!w->how.is_async)
        alive_need_all();
    w->ahead = backpressure_bytes();
    w->missed.slot = -1;
    w->how.workers = server_workers();
    w->how.servers = server_count();
    net_call c = {.what = ASK_CREATE, .data = &w->how, .bytes = sizeof w->how};
    TRY(job_checkpoint_open(w, e));
    TRY(worker_call_all(w, c, e));
    if (spares_was(link_rank()))
        TRY(grow_begin(w, e));
    store->compresses = !type->sums;
    store->compresses_pulls = !type->sums && !type->is_async;
    *self = w;
    w = NULL;
    return KV_OK;
}

void worker_close(void *self)
{
    worker *w = self;
    kv_err unused = {0};
    newcomer_push(w); /* a newcomer that never pushed closes like any other worker */
    job_checkpoint_close(w);
    engine_wait_group(&w->store->calls.group, 0); /* pulls of a checkpoint that failed half way */
    worker_call_all(w, (net_call){.what = ASK_FREE}, &unused);
    newcomer_release(w);
    request_free_spares(w);
    kv_free(w->sums);
    mem_free(w->keys);
    mem_free(w);
}

int worker_rank(void *self)
{
    (void)self;
    return link_rank();
}

int worker_count(void *self)
{
    (void)self;
    return spares_workers();
}

/* ---- init ---- */

static int check_new(const worker *w, const kv_pairs *values, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    own_map seen = {0};
    for (int64_t i = 0; i < values->n; i++) {
        const slot_table *t = &w->store->slots;
        const kv_key *key = &values->keys[i];
        int64_t number = slot_find(t, key, -1);
        bool twice = map_get(&seen, *key) >= 0;
        TRY(slot_check_kind(t, key, e));
        if (w->store->compression.code)
            TRY(compression_check(key, values->arrays[i], e));
        if (twice) {
            kv_err_set(e, KV_E_KEY, "key %s stands twice in the call", slot_key_text(text, key));
            return kv_err_key(e, key), KV_E_KEY;
        }
        if (number >= 0 && w->keys[number].inited)
            return slot_refuse_inited(key, e);
        TRY(map_put(&seen, *key, i, e));
    }
    return KV_OK;
}

int worker_init(void *self, const kv_pairs *values, const kv_call *how, kv_err *e)
{
    worker *w = self;
    int64_t n = values->n;
    (void)how;
    own_mem int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    TRY(numbers ? check_new(w, values, e) : KV_E_MEMORY);
    if (link_rank() == 0) {
        /* They begin with their values, or with those of a checkpoint. */
        own_mem kv_array **first = mem_alloc(values->n, sizeof(kv_array *), e);
        TRY(first ? KV_OK : KV_E_MEMORY);
        for (int64_t i = 0; i < values->n; i++)
            TRY(checkpoint_value(w, &values->keys[i], values->arrays[i], &first[i], e));
        TRY(worker_make_keys(w, &(kv_pairs){values->keys, first, values->n}, true, e));
    }
    /* Rank 0 makes them. Whoever inits a key that it does not make is not helped by the usual hint,
     * which is to init it first. */
    int rc = worker_find(w, values, false, numbers, e);
    if (rc == KV_E_KEY && link_rank() != 0) {
        e->hint[0] = '\0';
        kv_err_hint(e, "rank 0 makes the keys of all ranks, and its init has not named this one");
    }
    TRY(rc);
    for (int64_t i = 0; i < n; i++) {
        const slot *s = &w->store->slots.items[numbers[i]];
        TRY(call_check_shape(s, values->arrays[i], "value", e));
        if (values->arrays[i]->dtype == s->stored->dtype)
            continue;
        kv_err_set(e, KV_E_DTYPE, "rank 0 initialised the key as %s, this value is %s",
                   kv_dtype_name((kv_dtype)s->stored->dtype),
                   kv_dtype_name((kv_dtype)values->arrays[i]->dtype));
        return kv_err_key(e, &values->keys[i]), KV_E_DTYPE;
    }
    for (int64_t i = 0; i < n; i++)
        w->keys[numbers[i]].inited = true;
    w->store->changes++;
    return KV_OK;
}

/* ---- Calls to all servers ---- */

int worker_done(void *self, kv_err *e)
{
    worker *w = self;
    job_checkpoint_end(w);
    TRY(worker_call_all(w, (net_call){.what = ASK_DONE}, e));
    w->done = true;
    return KV_OK;
}

int worker_command(void *self, int head, const char *body, kv_err *e)
{
    net_call c = {.what = ASK_COMMAND, .args.head = head, .data = body,
                  .bytes = (int64_t)strlen(body) + 1};
    return worker_call_all(self, c, e);
}

/* ---- The ranks ---- */

static kv_rank_info rank_info(const worker *w, int rank)
{
    int first = server_rank(0), mine = link_rank();
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

int worker_cluster(void *self, kv_rank_info **rows, int64_t *n, kv_err *e)
{
    const worker *w = self;
    int ranks = link_size();
    own_mem kv_rank_info *list = mem_zalloc(ranks, sizeof *list, e);
    if (!list)
        return KV_E_MEMORY;
    for (int i = 0; i < ranks; i++)
        list[i] = rank_info(w, i);
    for (int i = 0; i < w->how.servers; i++) {
        net_call c = {.rank = server_rank(i), .what = ASK_COUNTS, .store = w->number,
                      .name = ask_name(ASK_COUNTS)};
        own_mem void *reply = NULL;
        int64_t bytes = 0;
        TRY(net_call_wait(&c, &reply, &bytes, e));
        if (bytes != sizeof(ask_counts))
            return ask_malformed(e);
        kv_rank_info *to = &list[server_rank(i)];
        const ask_counts *got = reply;
        to->keys = got->keys;
        to->bytes = got->bytes;
        to->rounds = got->rounds;
        to->open = got->late;
        to->stalest = got->stalest;
        to->contributors = got->contributors;
        ask_print_workers(to->missing, sizeof to->missing, got->missing);
    }
    *rows = list;
    list = NULL;
    *n = ranks;
    return KV_OK;
}

/* ---- The settings of a worker ---- */

/* The transport of the records to the other ranks. */
static const char *links(void)
{
    int memory = 0, others = link_size() - 1;
    for (int i = 0; i < link_size(); i++)
        memory += i != link_rank() && link_shares_memory(i);
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
