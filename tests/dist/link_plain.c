/* What the links of tests that run one rank alone have in common: records are there as soon as they
 * are committed. */
#include "distributed/link.h"

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
