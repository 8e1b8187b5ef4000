/* The start of a process of a simulated job: the plugin is linked in, so it is registered and not
 * opened as a file. */
#include "rank.h"

#include "engine/pool.h"
#include "world.h"

int kv_plugin_init(const kv_host *host, kv_err *e);

int rank_begin(kv_err *e)
{
    kv_host lib = {.size = sizeof lib, .version = KV_TYPE_VERSION, .library = KV_VERSION,
                   .register_type = kv_register_type, .find_type = kv_find_type};
    if (!world_prices()->processors)
        pool_set_spins(4); /* each costs a step of the simulation */
    return kv_plugin_init(&lib, e);
}
