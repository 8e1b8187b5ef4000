/* map: against a plain list, with many insertions and removals. */
#include "test.h"

#include "base/map.h"

TEST(map_basics)
{
    map m = {0};
    CHECK_INT(map_get(&m, (kv_key){3, NULL}), -1);
    map_remove(&m, (kv_key){3, NULL});
    CHECK_OK(map_put(&m, (kv_key){3, NULL}, 10, &e));
    CHECK_OK(map_put(&m, (kv_key){0, "3"}, 11, &e));
    CHECK_OK(map_put(&m, (kv_key){0, ""}, 12, &e));
    CHECK_OK(map_put(&m, (kv_key){INT64_MIN, NULL}, 13, &e));
    CHECK_OK(map_put(&m, (kv_key){-1, NULL}, 14, &e));
    CHECK_OK(map_put(&m, (kv_key){3, NULL}, 20, &e));
    char other[] = "3";
    CHECK_INT(map_get(&m, (kv_key){3, NULL}), 20);
    CHECK_INT(map_get(&m, (kv_key){99, other}), 11);
    CHECK_INT(map_get(&m, (kv_key){0, ""}), 12);
    CHECK_INT(map_get(&m, (kv_key){INT64_MIN, NULL}), 13);
    CHECK_INT(map_get(&m, (kv_key){-1, NULL}), 14);
    CHECK_INT(map_get(&m, (kv_key){0, NULL}), -1);
    CHECK_INT(m.n, 5);
    map_remove(&m, (kv_key){0, "3"});
    CHECK_INT(map_get(&m, (kv_key){0, "3"}), -1);
    CHECK_INT(m.n, 4);
    map_release(&m);
    CHECK_INT(m.cap, 0);
}

/* Random puts and removals among a few thousand keys; the list says what must be there. */
static void compare_with_list(int text)
{
    enum { N = 3000 };
    static char names[N][48];
    int64_t list[N];
    own_map m = {0};
    uint64_t seed = 1;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "layer%d.%sweight", i, i % 3 ? "attention." : "");
        list[i] = -1;
    }
    for (int64_t step = 0; step < 200000; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int i = (int)((seed >> 33) % N);
        kv_key key = {text ? 0 : (int64_t)i * 64, text ? names[i] : NULL};
        if ((seed >> 20) % 5 < 2) {
            map_remove(&m, key);
            list[i] = -1;
        } else {
            CHECK_OK(map_put(&m, key, step, &e));
            list[i] = step;
        }
    }
    int64_t n = 0;
    for (int i = 0; i < N; i++) {
        kv_key key = {text ? 0 : (int64_t)i * 64, text ? names[i] : NULL};
        CHECK_INT(map_get(&m, key), list[i]);
        n += list[i] >= 0;
    }
    CHECK_INT(m.n, n);
}

TEST(map_as_a_list)
{
    compare_with_list(0);
    compare_with_list(1);
}

TEST(map_reserve)
{
    own_map m = {0};
    CHECK_OK(map_reserve(&m, 1000, &e));
    mem_fail_at(1);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(map_put(&m, (kv_key){i, NULL}, i, &e));
    int rc = KV_OK;
    int64_t n = 1000;
    for (; !rc && n < 10000; n++)
        rc = map_put(&m, (kv_key){n, NULL}, n, &e);
    mem_fail_at(0);
    CHECK_INT(rc, KV_E_MEMORY);
    CHECK_INT(m.n, n - 1);
    for (int64_t i = 0; i < n - 1; i++)
        CHECK_INT(map_get(&m, (kv_key){i, NULL}), i);
    CHECK_INT(map_get(&m, (kv_key){n - 1, NULL}), -1);
}
