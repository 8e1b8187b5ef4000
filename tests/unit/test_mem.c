/* mem: sizes are checked, every kind of allocation can be made to fail, arenas give all back. */
#include "test.h"

#include "base/map.h"
#include "base/mem.h"

TEST(mem_sizes)
{
    void *p = mem_alloc(0, 8, &e);
    CHECK(p != NULL);
    mem_free(p);
    char *z = mem_zalloc(100, 3, &e);
    for (int i = 0; i < 300; i++)
        CHECK_INT(z[i], 0);
    mem_free(z);
    CHECK(!mem_alloc(INT64_MAX, 2, &e));
    CHECK_FAILED(e.code, KV_E_MEMORY,
              "out of memory (9223372036854775807 items of 2 bytes asked for)");
    CHECK(!mem_zalloc(-1, 1, &e));
    CHECK_FAILED(e.code, KV_E_MEMORY, "out of memory (-1 items of 1 bytes asked for)");
    CHECK(!mem_alloc_data(-1, NULL));
    mem_free(NULL);
}

/* What a thread takes counts until it comes back, by every function. */
TEST(mem_limit_of_a_thread)
{
    mem_limit limit = {.most = 1 << 20};
    char *early = mem_alloc(500000, 1, &e), *grown = NULL;
    int64_t cap = 0;
    CHECK(!mem_limit_here(&limit));
    void *a = mem_alloc(400000, 1, &e), *b = mem_zalloc(400000, 1, &e);
    CHECK(a && b && limit.used >= 800000 && limit.used < 810000 && !limit.refused);
    CHECK(!mem_alloc_data(400000, &e));
    CHECK_FAILED(e.code, KV_E_MEMORY, "out of memory (400000 bytes asked for)");
    CHECK(limit.refused);
    e = (kv_err){0};
    CHECK(mem_grow(&grown, &cap, 300000, 1, &e) == KV_E_MEMORY && !grown);
    mem_free(a);
    CHECK_OK(mem_grow(&grown, &cap, 100000, 1, NULL));
    CHECK_OK(mem_grow(&grown, &cap, 600000, 1, NULL));
    CHECK(limit.used >= 1000000);
    mem_shrink(&grown, &cap, 1000, 1);
    void *d = mem_alloc_data(400000, &e);
    CHECK(d && limit.used < 820000);
    mem_free_data(d);
    mem_free(b);
    mem_free(grown);
    CHECK(limit.used < 20000);
    mem_free(early); /* that others took is not more for it */
    CHECK_INT(limit.used, 0);
    void *small = mem_alloc_small(64, &e);
    CHECK(limit.used >= 64);
    mem_free_small(small);
    CHECK_INT(limit.used, 0);
    CHECK(mem_limit_here(NULL) == &limit);
    a = mem_alloc(2 << 20, 1, &e);
    CHECK(a != NULL);
    mem_free(a);
}

TEST(mem_data_is_aligned)
{
    for (int64_t bytes = 0; bytes < 300; bytes += 7) {
        e = (kv_err){0};
        own_text *p = mem_alloc_data(bytes, &e);
        CHECK(p && (uintptr_t)p % MEM_ALIGN == 0);
        memset(p, 1, (size_t)bytes);
    }
}

TEST(mem_keeps_two_large_blocks)
{
    enum { LARGE = 32 << 20 };
    char *one = mem_alloc_data(LARGE, &e), *two = mem_alloc_data(LARGE, &e);
    CHECK(one && two && (uintptr_t)one % MEM_ALIGN == 0);
    memset(one, 1, LARGE);
    memset(two, 2, LARGE);
    mem_free_data(one);
    mem_free_data(two); /* both are kept, the newer one in front */
    char *again = mem_alloc_data(LARGE - 1000, &e), *other = mem_alloc_data(LARGE, &e);
    CHECK(again == two && other == one);
    memset(again, 3, LARGE - 1000);
    mem_free_data(again);

    /* elements and their row ids: blocks of two sizes in turn */
    char *ids = mem_alloc_data(2 * LARGE, &e);
    CHECK(ids != NULL);
    mem_free_data(ids);
    mem_free_data(other);
    CHECK(mem_alloc_data(2 * LARGE, &e) == ids);
    CHECK(mem_alloc_data(LARGE, &e) == other);
    mem_free_data(ids);
    mem_free_data(other);

    char *small = mem_alloc_data(LARGE / 2, &e); /* would waste half of it */
    CHECK(small != NULL);
    memset(small, 4, LARGE / 2);
    mem_free_data(small);
    mem_fail_at(1);
    CHECK(!mem_alloc_data(LARGE / 2, &e));
    CHECK_FAILED(e.code, KV_E_MEMORY, "out of memory (16777216 bytes asked for)");
    mem_fail_at(0);
    mem_free_data(mem_alloc_data(64, NULL));
    mem_free_data(NULL);
}

/* Blocks of all sizes come and go in a random order; each holds its number until it is released. */
TEST(mem_small_blocks_do_not_overlap)
{
    enum { BLOCKS = 3000, STEPS = 60000 };
    static struct { unsigned char *at; int64_t bytes; } block[BLOCKS];
    uint64_t seed = 5;
    for (int step = 0; step < STEPS + BLOCKS; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int i = step < STEPS ? (int)(seed >> 33) % BLOCKS : step - STEPS;
        unsigned char mark = (unsigned char)i;
        for (int64_t b = 0; block[i].at && b < block[i].bytes; b++)
            if (block[i].at[b] != mark)
                CHECK_INT(block[i].at[b], mark);
        mem_free_small(block[i].at);
        block[i].at = NULL;
        if (step >= STEPS || seed >> 62 == 0)
            continue;
        block[i].bytes = 1 + (int64_t)(seed >> 40) % MEM_SMALL_MOST;
        block[i].at = mem_alloc_small(block[i].bytes, &e);
        CHECK(block[i].at && (uintptr_t)block[i].at % MEM_ALIGN == 0);
        memset(block[i].at, mark, (size_t)block[i].bytes);
    }
}

TEST(mem_small_blocks_lie_side_by_side)
{
    enum { BLOCKS = 1000, BYTES = 128 };
    char *block[BLOCKS];
    int neighbours = 0;
    if (MEM_SANITIZED)
        test_skip("each block is one of the C library");
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = mem_alloc_small(BYTES, NULL);
        CHECK(block[i] != NULL);
        neighbours += i > 0 && block[i] == block[i - 1] + BYTES;
    }
    CHECK(neighbours > BLOCKS * 9 / 10);
    for (int i = 0; i < BLOCKS; i++)
        mem_free_small(block[i]);
}

TEST(mem_small_fails_like_other_memory)
{
    mem_fail_at(1);
    CHECK(!mem_alloc_small(100, &e));
    CHECK_FAILED(e.code, KV_E_MEMORY, "out of memory (100 bytes asked for)");
    mem_fail_at(0);
    mem_free_small(NULL);
}

TEST(mem_grows)
{
    own_mem int32_t *items = NULL;
    int64_t cap = 0;
    for (int32_t i = 0; i < 10000; i++) {
        CHECK_OK(mem_grow(&items, &cap, i + 1, sizeof *items, &e));
        CHECK(cap > i);
        items[i] = i;
    }
    for (int32_t i = 0; i < 10000; i++)
        CHECK_INT(items[i], i);
    int64_t before = cap;
    CHECK_INT(mem_grow(&items, &cap, INT64_MAX, sizeof *items, &e), KV_E_MEMORY);
    CHECK_INT(cap, before);
    CHECK_INT(items[9999], 9999);
    mem_shrink(&items, &cap, 10000, sizeof *items);
    CHECK_INT(cap, 10000);
    CHECK_INT(items[9999], 9999);
    mem_shrink(&items, &cap, 0, sizeof *items);
    CHECK_INT(cap, 1);
}

/* One of each; the code of the first that failed. */
static int allocate_all(kv_err *e)
{
    int rc = KV_OK;
    int64_t cap = 0;
    void *p[5] = {0};
    arena a = {0};
    buf b = {0};
    map m = {0};
    for (int step = 0; step < 8 && !rc; step++) {
        switch (step) {
        case 0: p[0] = mem_alloc(1, 1, e); rc = p[0] ? 0 : KV_E_MEMORY; break;
        case 1: p[1] = mem_zalloc(1, 1, e); rc = p[1] ? 0 : KV_E_MEMORY; break;
        case 2: p[2] = mem_alloc_data(1, e); rc = p[2] ? 0 : KV_E_MEMORY; break;
        case 3: rc = mem_grow(&p[3], &cap, 1, 1, e); break;
        case 4: p[4] = mem_text("abc", 3, e); rc = p[4] ? 0 : KV_E_MEMORY; break;
        case 5: rc = arena_alloc(&a, 1, e) ? 0 : KV_E_MEMORY; break;
        case 6: buf_add(&b, "abc"); rc = buf_check(&b, e); break;
        case 7: rc = map_put(&m, (kv_key){1, NULL}, 1, e); break;
        }
    }
    for (int i = 0; i < 5; i++)
        mem_free(p[i]);
    arena_release(&a);
    buf_release(&b);
    map_release(&m);
    return rc;
}

TEST(mem_every_allocation_can_fail)
{
    for (int n = 1; n <= 8; n++) {
        e = (kv_err){0};
        mem_fail_at(n);
        CHECK_INT(allocate_all(&e), KV_E_MEMORY);
        CHECK_INT(e.code, KV_E_MEMORY);
        CHECK_INT(mem_fail_at(0), n);
    }
    mem_fail_at(9);
    CHECK_OK(allocate_all(&e));
    CHECK_INT(mem_fail_at(1), 8);
    CHECK(!mem_alloc(1, 1, NULL) && !mem_alloc(1, 1, NULL));
    /* one alone */
    mem_fail_at(-2);
    void *first = mem_alloc(1, 1, NULL), *second = mem_alloc(1, 1, NULL);
    own_mem void *third = mem_alloc(1, 1, NULL);
    CHECK(first && !second && third);
    CHECK_INT(mem_fail_at(0), 3);
    mem_free(first);
}

TEST(mem_arena)
{
    own_arena a = {0};
    char *blocks[2000];
    for (int i = 0; i < 2000; i++) {
        size_t n = (size_t)(i * 7 % 300);
        blocks[i] = arena_alloc(&a, n, &e);
        CHECK(blocks[i] && (uintptr_t)blocks[i] % 16 == 0);
        for (size_t j = 0; j < n; j++)
            CHECK_INT(blocks[i][j], 0);
        memset(blocks[i], i & 127, n);
    }
    for (int i = 0; i < 2000; i++) {
        for (int j = 0; j < i * 7 % 300; j++)
            CHECK_INT(blocks[i][j], i & 127);
    }
    char *large = arena_alloc(&a, 5000000, &e);
    CHECK(large && large[4999999] == 0);
    CHECK_TEXT(arena_text(&a, "hello there", 5, &e), "hello");
    CHECK_TEXT(arena_text(&a, NULL, 0, &e), "");
    CHECK(!arena_alloc(&a, SIZE_MAX, NULL));
    arena_release(&a);
    CHECK(!a.chunk && a.total_bytes == 0);
}
