/* Blocks that come and go: a cache knows those that it was told of and the driver has not got back,
 * and nothing of others. It needs no driver. TAP.
 */
#include "cuda/cache.h"
#include "tap.h"

enum { SIZE = 1024 };

static char memory[8 * SIZE]; /* addresses of blocks; nobody touches what is there */

int main(void)
{
    cache c = {.bound = 2 * SIZE};
    kv_err e = {0};
    bool ok = true;
    for (int i = 0; i < 4; i++)
        ok &= cache_note(&c, memory + i * SIZE, SIZE, &e) == KV_OK;
    for (int i = 0; i < 4; i++)
        ok &= cache_keep(&c, memory + i * SIZE) == (i < 2);
    verdict(ok && c.kept == 2 * SIZE, "what is kept is bounded");
    verdict(c.sizes.n == 2, "a block that is not kept is forgotten");
    ok = cache_take(&c, SIZE) == memory + SIZE && c.sizes.n == 2;
    verdict(ok, "a block that is taken is known");
    ok = cache_drop(&c) == memory && !cache_drop(&c) && c.kept == 0;
    verdict(ok && c.sizes.n == 1, "a block that is dropped is forgotten");
    ok = cache_note(&c, memory, 2 * SIZE, &e) == KV_OK && cache_keep(&c, memory);
    verdict(ok && c.kept == 2 * SIZE && cache_take(&c, 2 * SIZE) == memory,
            "an address that comes again has its new size");
    return end_verdicts();
}
