/* What the links of tests that run one rank alone have in common: records are there as soon as they
 * are committed. */
#include "distributed/link.h"

#include "engine/pool.h"

bool link_outlives_ranks(void)
{
    return false;
}

int link_gone(int rank, kv_err *e)
{
    (void)rank, (void)e;
    return KV_OK;
}

bool link_sent_much(void)
{
    return false;
}

void link_flush(void)
{
}

bool link_agree(int number, int *other)
{
    (void)number;
    *other = -1;
    return true;
}

const char *link_host(int rank)
{
    return rank == link_rank() ? "here" : "there";
}

int link_processors(void)
{
    return pool_workers();
}

void link_close(void)
{
}
