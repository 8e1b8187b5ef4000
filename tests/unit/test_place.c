/* place: the parts of a key cover it once, and lie on the servers in order. */
#include "test.h"

#include <stddef.h>

#include "dist/place.h"

static void check_parts(int64_t size, kv_dtype dtype)
{
    place p = place_new(size, dtype, false);
    int64_t at = 0;
    for (int32_t i = 0; i < p.nparts; i++) {
        CHECK_INT(place_from(&p, i), at);
        CHECK(place_count(&p, i) * kv_dtype_bytes(dtype) <= LINK_PAYLOAD);
        CHECK(place_count(&p, i) > 0 || size == 0);
        at += place_count(&p, i);
    }
    CHECK_INT(at, size);
}

TEST(place_parts)
{
    static const int64_t sizes[] = {0, 1, 65535, 65536, 65537, 131072, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_parts(sizes[i], KV_FLOAT32);
        check_parts(sizes[i], KV_FLOAT16);
        check_parts(sizes[i], KV_FLOAT64);
        check_parts(sizes[i], KV_UINT8);
        place whole = place_new(sizes[i], KV_FLOAT32, true);
        CHECK_INT(whole.nparts, 1);
        CHECK_INT(place_count(&whole, 0), sizes[i]);
    }
    CHECK_INT(place_new(65536, KV_FLOAT32, false).nparts, 1);
    CHECK_INT(place_new(65537, KV_FLOAT32, false).nparts, 2);
    CHECK_INT(place_new(0, KV_FLOAT32, false).nparts, 1);
}

/* Spread parts are ascending ranges whose lengths differ by one at most. */
TEST(place_servers)
{
    for (int servers = 1; servers <= 7; servers++) {
        int have[7] = {0}, last = 0;
        place p = place_new(1200 * 1200, KV_FLOAT32, false);
        p.server = -1;
        for (int32_t i = 0; i < p.nparts; i++) {
            int s = place_server(&p, i, servers);
            CHECK(s >= last && s < servers);
            last = s;
            have[s]++;
        }
        for (int s = 0; s < servers; s++)
            CHECK(have[s] == p.nparts / servers || have[s] == p.nparts / servers + 1);
        p.server = servers - 1;
        CHECK_INT(place_server(&p, p.nparts - 1, servers), servers - 1);
    }
}
