/* The plugin: the store types of several machines over Open MPI. */
#include "distributed/worker.h"

#include <stdlib.h>

#include "distributed/link.h"
#include "distributed/request.h"
#include "distributed/server.h"
#include "distributed/spares.h"
#include "distributed/states.h"
#include "runtime.h"

enum {
    CAN = KV_CAN_OPTIMIZER | KV_CAN_STATES | KV_CAN_ROW_SPARSE | KV_CAN_GRADIENT_COMPRESSION
};

static void tell_gone(int rank, const char *why)
{
    (void)rank;
    if (!spares_waits(link_rank()))
        runtime_log("%s; the others go on", why);
}

/* Before records come: see net_open. A server does more about a worker that is gone. */
static int begin(kv_err *e)
{
    static const net_taker requests = {.take = {[LINK_VALUE] = request_take,
                                                [LINK_DONE] = request_take,
                                                [LINK_FAILED] = request_take,
                                                [LINK_GROWN] = spares_take},
                                       .look = spares_look,
                                       .lost = request_lost,
                                       .gone = tell_gone};
    net_add_taker(&requests);
    TRY(request_open(e));
    return server_open(e);
}

static int await_turn(bool *works, kv_err *e)
{
    TRY(net_open(begin, e));
    return spares_await(works, e);
}

static const dist_type types[] = {
    {{"dist_sync", "dist"}, .begin = begin},
    {{"dist_async"}, .begin = begin, .is_async = true},
    {{"dist_device_sync", "dist_sync_device"}, .begin = begin, .device = true},
    {{"dist_device_async", "dist_async_device"}, .begin = begin, .device = true, .is_async = true},
    {{"horovod"}, .begin = begin, .device = true, .sums = true},
    {{"byteps"}, .begin = begin, .device = true, .sums = true},
};
enum { TYPES = sizeof types / sizeof *types };

static kv_type_ops tables[TYPES];

/* One open function a type: a table has no place for an argument, and may be copied, under a name
 * that a program registers. */
#define OPEN(i)                                                                                    \
    static int open_##i(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)          \
    {                                                                                              \
        return worker_open(store, &types[i], opts, nopts, self, e);                                \
    }
OPEN(0)
OPEN(1)
OPEN(2)
OPEN(3)
OPEN(4)
OPEN(5)

static void fill_table(int i, int (*open)(kv *, const kv_opt *, int, void **, kv_err *))
{
    tables[i] = (kv_type_ops){
        .size = sizeof tables[i],
        .version = KV_TYPE_VERSION,
        .names = types[i].names,
        .capabilities = (types[i].sums ? 0 : CAN) |
                        (link_outlives_ranks() ? KV_CAN_LOSE_WORKERS : 0),
        .open = open,
        .close = worker_close,
        .init = types[i].sums ? NULL : worker_init,
        .push = types[i].sums ? NULL : worker_push,
        .pull = types[i].sums ? NULL : worker_pull,
        .pushpull = types[i].sums ? worker_pushpull : NULL,
        .broadcast = types[i].sums ? worker_broadcast : NULL,
        .rank = worker_rank,
        .num_workers = worker_count,
        .row_sparse_pull = types[i].sums ? NULL : worker_pull_rows,
        .await_key = types[i].sums ? NULL : worker_await_key,
        .barrier = worker_barrier,
        .done = worker_done,
        .cluster = worker_cluster,
        .settings = worker_settings,
        .send_command = worker_command,
        .set_optimizer = types[i].sums ? NULL : worker_set_optimizer,
        .serve = server_run,
        .await_turn = await_turn,
        .visit_states = types[i].sums ? NULL : states_visit,
        .pull_since = types[i].sums ? NULL : worker_pull_since,
        .rounds = look_visit_rounds,
        .peek = types[i].sums ? NULL : look_value,
    };
}

int kv_plugin_init(const kv_host *lib, kv_err *e);

int kv_plugin_init(const kv_host *lib, kv_err *e)
{
    int (*const opens[TYPES])(kv *, const kv_opt *, int, void **, kv_err *) = {
        open_0, open_1, open_2, open_3, open_4, open_5};
    for (int i = 0; i < TYPES; i++) {
        fill_table(i, opens[i]);
        TRY(lib->register_type(&tables[i], e));
    }
    return KV_OK;
}
