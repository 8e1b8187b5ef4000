/* What the links of tests that run one rank alone have in common: no GPU-direct messages, and
 * records that are there as soon as they are committed. */
#include "distributed/link.h"

#include <stddef.h>

bool link_outlives_ranks(void)
{
    return false;
}

int link_gone(int rank, kv_err *e)
{
    (void)rank, (void)e;
    return KV_OK;
}

bool link_takes_direct(int rank)
{
    (void)rank;
    return false;
}

link_direct *link_send_direct(int rank, const void *block, int64_t bytes, kv_err *e)
{
    (void)rank, (void)block, (void)bytes;
    kv_err_set(e, KV_E_PEER, "no direct messages");
    return NULL;
}

bool link_direct_left(link_direct *p, kv_err *e)
{
    (void)p, (void)e;
    return true;
}

link_rec *link_direct_reserve(const link_direct *p, int64_t bytes)
{
    (void)p, (void)bytes;
    return NULL;
}

void link_direct_commit(link_direct *p)
{
    (void)p;
}

bool link_sent_much(void)
{
    return false;
}

void link_flush(void)
{
}
