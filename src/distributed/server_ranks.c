/* Which ranks run a worker and which a server. The launcher says in $KVSTORE_SERVERS how many ranks
 * only serve; these have the highest numbers. */
#include "distributed/server_ranks.h"

#include "distributed/environment.h"
#include "distributed/link.h"

int server_dedicated(void)
{
    int n = environment_count(ENV_SERVERS);
    return n > 0 && n < link_size() ? n : 0;
}

int server_workers(void)
{
    return link_size() - server_dedicated();
}

int server_spares(void)
{
    int n = server_dedicated() ? environment_count(ENV_SPARES) : 0;
    return n > 0 && n < server_workers() ? n : 0;
}

int server_count(void)
{
    return server_dedicated() ? server_dedicated() : link_size();
}

int server_rank(int i)
{
    return server_dedicated() ? server_workers() + i : i;
}

bool server_here(int *i)
{
    *i = link_rank() - (server_dedicated() ? server_workers() : 0);
    return *i >= 0;
}

void server_peers(int *first, int *end)
{
    int unused;
    *first = server_here(&unused) ? 0 : server_rank(0);
    *end = link_size();
}
