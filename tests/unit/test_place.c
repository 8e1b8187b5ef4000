/* Places: how keys are cut into parts, and on which servers those lie. */
#include "test.h"

#include <stddef.h>

#include "distributed/asks.h"

/* Parts follow each other without a gap, begin where codes and rows do, and are of a size. */
static void check_place(kv_dtype dtype, kv_storage storage, int64_t rows, int64_t row, int servers,
                        bool by_rows)
{
    int64_t shape[] = {rows, row}, each = kv_dtype_bytes(dtype), at = 0;
    place p = place_new(dtype, storage, 2, shape, PLACE_ANYWHERE, servers);
    CHECK_INT(place_fits(&p, PLACE_BY_ROWS), by_rows);
    for (int32_t i = 0; i < p.nparts; i++) {
        CHECK_INT(place_from(&p, i), at);
        CHECK(place_count(&p, i) > 0 || rows * row == 0);
        CHECK(i == 0 || at % 16 == 0);
        CHECK(!by_rows || i == 0 || at % row == 0);
        CHECK(storage == KV_ROW_SPARSE || place_count(&p, i) * each <= PLACE_MOST);
        CHECK(!by_rows || i == 0 || place_first_row(&p, i) == at / row);
        at += place_count(&p, i);
    }
    CHECK_INT(at, rows * row);
    CHECK(place_first_row(&p, p.nparts) >= rows);
    CHECK_INT(place_new(dtype, storage, 2, shape, PLACE_WHOLE, servers).nparts, 1);
    p = place_new(dtype, storage, 2, shape, PLACE_BY_ROWS, servers);
    CHECK(place_fits(&p, PLACE_BY_ROWS));
}

TEST(place_parts)
{
    check_place(KV_FLOAT32, KV_DEFAULT, 1, 1, 1, true);
    check_place(KV_FLOAT32, KV_DEFAULT, 0, 7, 2, true);
    check_place(KV_FLOAT32, KV_DEFAULT, 2000000, 1, 2, true);
    check_place(KV_FLOAT32, KV_DEFAULT, 7003, 170, 3, true);
    check_place(KV_FLOAT16, KV_DEFAULT, 40001, 147, 3, true);
    check_place(KV_FLOAT64, KV_DEFAULT, 300, 8191, 2, true);
    check_place(KV_FLOAT32, KV_DEFAULT, 40, 262144, 2, true);
    check_place(KV_FLOAT32, KV_DEFAULT, 40, 262145, 2, false);
    check_place(KV_FLOAT32, KV_DEFAULT, 3, 400000, 2, false);
    check_place(KV_FLOAT32, KV_ROW_SPARSE, 7003, 170, 3, true);
    check_place(KV_FLOAT32, KV_ROW_SPARSE, 100, 64, 3, true);
    int64_t large[] = {7003, 170}, small[] = {70, 170};
    CHECK_INT(place_new(KV_FLOAT32, KV_ROW_SPARSE, 2, large, PLACE_ANYWHERE, 3).nparts, 3);
    CHECK_INT(place_new(KV_FLOAT32, KV_ROW_SPARSE, 2, small, PLACE_ANYWHERE, 3).nparts, 1);
    CHECK_INT(place_new(KV_FLOAT32, KV_DEFAULT, 0, NULL, PLACE_ANYWHERE, 3).size, 1);
}

/* Each server has as many parts as any other, or one more, in one run where there are enough. */
TEST(place_servers)
{
    for (int servers = 1; servers <= 7; servers++) {
        for (int base = 0; base < servers; base++) {
            int have[7] = {0}, runs = 1;
            place p = place_in_records(1200 * 1200, KV_FLOAT32);
            p.server = -1 - base;
            CHECK_INT(place_server(&p, 0, servers), base);
            for (int32_t i = 0; i < p.nparts; i++) {
                have[place_server(&p, i, servers)]++;
                runs += i > 0 && place_server(&p, i, servers) != place_server(&p, i - 1, servers);
            }
            CHECK_INT(runs, servers);
            for (int s = 0; s < servers; s++)
                CHECK(have[s] == p.nparts / servers || have[s] == p.nparts / servers + 1);
        }
        place p = place_in_records(1200 * 1200, KV_FLOAT32);
        p.server = servers - 1;
        CHECK_INT(place_server(&p, p.nparts - 1, servers), servers - 1);
    }
}

/* Fewer parts than servers: consecutive ones, from the one where they begin. */
TEST(place_goes_around)
{
    place p = place_in_records(3 * LINK_PAYLOAD / 4, KV_FLOAT32);
    p.server = -1 - 5;
    CHECK_INT(p.nparts, 3);
    CHECK_INT(place_server(&p, 0, 7), 5);
    CHECK_INT(place_server(&p, 1, 7), 6);
    CHECK_INT(place_server(&p, 2, 7), 0);
}

/* Places come from another rank: each field that does not fit the array is found. */
TEST(place_hostile)
{
    int64_t shape[] = {300, 500}, empty[] = {0, 5};
    place good = place_new(KV_FLOAT32, KV_DEFAULT, 2, shape, PLACE_ANYWHERE, 3), p = good;
    good.first = 7;
    CHECK(good.nparts > 1 && place_is_valid(&good, KV_DEFAULT, 2, shape, 3));
    p = place_new(KV_FLOAT32, KV_DEFAULT, 2, empty, PLACE_ANYWHERE, 3);
    CHECK(place_is_valid(&p, KV_DEFAULT, 2, empty, 3));
    p = place_new(KV_FLOAT32, KV_DEFAULT, 0, NULL, PLACE_ANYWHERE, 3);
    CHECK(place_is_valid(&p, KV_DEFAULT, 0, NULL, 3));
    p = place_in_records(150000, KV_FLOAT64);
    CHECK(place_is_valid(&p, KV_DEFAULT, 2, shape, 3) &&
          !place_is_valid(&p, KV_ROW_SPARSE, 2, shape, 3));
    static const int64_t odd[] = {-1, 1, 17, INT64_MAX, INT64_MIN};
/* Whether the good place is one with another number in a field. */
#define IS_VALID(field, x)                                                                         \
    (p = good, p.field = (x), place_is_valid(&p, KV_DEFAULT, 2, shape, 3))
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK(!IS_VALID(size, odd[i]) && !IS_VALID(step, odd[i]));
        CHECK(!IS_VALID(row, odd[i]) && !IS_VALID(nparts, (int32_t)odd[i]));
    }
    CHECK(!IS_VALID(first, -1));
    CHECK(IS_VALID(first, INT32_MAX - p.nparts));
    CHECK(!IS_VALID(first, INT32_MAX - p.nparts + 1)); /* no number for its last part in records */
    CHECK(IS_VALID(server, -3) && !IS_VALID(server, -4) && !IS_VALID(server, 3));
#undef IS_VALID
}
