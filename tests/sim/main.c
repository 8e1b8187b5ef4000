/* One job of a simulated cluster: every rank makes a store and leaves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/net.h"
#include "kvstore.h"
#include "sim_link.h"
#include "world.h"

int kv_plugin_init(const kv_host *host, kv_err *e);

static void *run_rank(void *arg)
{
    world_rank *r = arg;
    kv_err e = {0};
    kv *store = NULL;
    kv_host lib = {.size = sizeof lib, .version = KV_TYPE_VERSION, .library = KV_VERSION,
                    .register_type = kv_register_type, .find_type = kv_find_type};
    int rc = kv_plugin_init(&lib, &e);
    if (!rc)
        rc = kv_create("dist_sync", NULL, 0, &store, &e);
    if (rc) {
        printf("rank %d: %s\n", r->number, e.text);
        return NULL;
    }
    printf("rank %d created at %lld ns\n", r->number, (long long)world_now());
    kv_free(store);
    net_close();
    printf("rank %d left at %lld ns\n", r->number, (long long)world_now());
    r->ended = true;
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int n = argc > 2 ? atoi(argv[2]) : 3;
    setenv("KVSTORE_THREADS", "1", 1);
    world_open(n, 1, seed,
               &(world_costs){.jitter_ns = 2000, .call_ns = 20, .stack_bytes = 256 << 10});
    link_costs near = {1000, 200, 0.1, 1 << 20}, far = {20000, 1000, 0.8, 4 << 20};
    sim_link_open(&near, &far, true);
    for (int i = 0; i < n; i++)
        world_begin(&world_ranks[i], run_rank, &world_ranks[i]);
    bool ok = world_run(WORLD_FOREVER);
    printf("%s, %lld ns, %lld steps, sum %016llx\n", ok ? "done" : "deadlock",
           (long long)world_now(), (long long)world_steps(), (unsigned long long)world_sum());
    return 0;
}
