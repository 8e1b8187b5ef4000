/* The plugin: the store types of several machines over Open MPI. */
#include "distributed/worker.h"

#include <stdlib.h>

#include "distributed/link.h"
#include "distributed/request.h"
#include "distributed/server.h"
#include "distributed/spares.h"
#include "distributed/states.h"
#include "runtime.h"

static const char *const names[][3] = {{"dist_sync", "dist"},
                                       {"dist_async"},
                                       {"dist_device_sync", "dist_sync_device"},
                                       {"dist_device_async", "dist_async_device"},
                                       {"horovod"},
                                       {"byteps"}};
enum { TYPES = sizeof names / sizeof *names };

enum {
    CAN = KV_CAN_OPTIMIZER | KV_CAN_STATES | KV_CAN_ROW_SPARSE | KV_CAN_GRADIENT_COMPRESSION
};

static kv_type_ops tables[TYPES];

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
    int rc = request_open(e);
    return rc ? rc : server_open(e);
}

static int await_turn(bool *works, kv_err *e)
{
    int rc = net_open(begin, e);
    return rc ? rc : spares_await(works, e);
}

static const dist_type types[TYPES] = {{.begin = begin},
                                       {.begin = begin, .is_async = true},
                                       {.begin = begin, .device = true},
                                       {.begin = begin, .device = true, .is_async = true},
                                       {.begin = begin, .device = true, .sums = true},
                                       {.begin = begin, .device = true, .sums = true}};

static int open_store(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    return worker_open(store, &types[store->ops - tables], opts, nopts, self, e);
}

static void fill_table(int i)
{
    tables[i] = (kv_type_ops){
        .size = sizeof tables[i],
        .version = KV_TYPE_VERSION,
        .names = names[i],
        .capabilities = (types[i].sums ? 0 : CAN) |
                        (link_outlives_ranks() ? KV_CAN_LOSE_WORKERS : 0),
        .open = open_store,
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
    int rc = KV_OK;
    for (int i = 0; i < TYPES && !rc; i++) {
        fill_table(i);
        rc = lib->register_type(&tables[i], e);
    }
    return rc;
}
