/* A store's memory does not grow with the number of calls, and a call needs little beside the
 * arrays that it works on. */
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kvstore.h"
#include "store_help.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* these keep what was freed, and count it */
#else
#define SANITIZED 0
#endif

/* Bytes that the process has in memory. */
static int64_t resident(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        test_skip("no /proc");
    CHECK_INT(fscanf(f, "%*d %lld", &pages), 1);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Bytes of blocks that were not freed. */
static int64_t in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
}

/* Pushes and pulls n times; the array given to the store is another one each time. */
static void train(kv *s, int64_t size, int n)
{
    kv_key key = {.id = 3};
    own_array *out = MADE(kv_array, kv_array_new, KV_FLOAT32, 1, &size, cpu0);
    for (int i = 0; i < n; i++) {
        own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 1, &size, cpu0);
        CHECK_OK(kv_push(s, &key, 1, &a, NULL, &e));
        if (i % 10 == 0)
            CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    }
    CHECK_OK(kv_wait(s, &e));
}

static void check_flat(const char *optimizer, int64_t size, int first, int all)
{
    own_kv *s = make("local");
    if (SANITIZED)
        test_skip("a sanitizer keeps freed memory");
    init_with(s, id(3), array_full(KV_FLOAT32, 1, &size, 0, cpu0));
    if (optimizer)
        CHECK_OK(kv_set_optimizer(s, optimizer, NULL, 0, &e));
    train(s, size, first);
    int64_t before = resident(), blocks = in_use();
    train(s, size, all - first);
    CHECK(in_use() - blocks < 1 << 20);
    /* Arrays that wait for their turn come and go: 256 calls may be pending. */
    CHECK(resident() - before < ((int64_t)4 << 20) + 2 * 256 * size * 4);
}

TEST(store_memory_is_flat_over_a_million_small_pushes)
{
    check_flat(NULL, 6, 10000, 1000000);
}

/* These are scheduled: 40 kB an array, up to 256 calls pending. */
TEST(store_memory_is_flat_over_scheduled_pushes)
{
    check_flat(NULL, 10000, 2000, 20000);
}

TEST(store_memory_is_flat_with_an_optimizer)
{
    check_flat("adam", 6, 10000, 200000);
}

/* ---- The most that a push needs ---- */

/* Bytes that the process had in memory at most, so far. */
static int64_t peak(void)
{
    struct rusage used;
    CHECK_INT(getrusage(RUSAGE_SELF, &used), 0);
    return (int64_t)used.ru_maxrss * 1024;
}

/* Pushes n values of one key, each of 96 MB, so that one more array anywhere would be seen, and
 * pulls into one of them. The optimizer keeps `states` arrays beside the stored one. */
static void check_peak(const char *type, kv_dtype dtype, int n, const char *optimizer, int states)
{
    const int64_t bytes = (int64_t)96 << 20, size = bytes / kv_dtype_bytes(dtype), before = peak();
    own_kv *s = make(type);
    own_arrays *values[5] = {NULL};
    kv_key keys[4] = {{.id = 3}, {.id = 3}, {.id = 3}, {.id = 3}};
    if (SANITIZED)
        test_skip("a sanitizer has memory of its own");
    for (int v = 0; v < n; v++) {
        CHECK_OK(kv_array_new(&values[v], dtype, 1, &size, cpu0, &e));
        char *data = array_data(values[v]);
        for (int64_t i = 0; i < bytes; i += 4096) /* zeros take no memory until they are written */
            data[i] = 0;
    }
    CHECK_OK(kv_init(s, keys, 1, values, NULL, &e));
    if (optimizer)
        CHECK_OK(kv_set_optimizer(s, optimizer, NULL, 0, &e));
    for (int i = 0; i < 3; i++)
        CHECK_OK(kv_push(s, keys, n, values, NULL, &e));
    CHECK_OK(kv_wait(s, &e));
    CHECK_OK(kv_pull(s, keys, 1, values, NULL, &e));
    CHECK_OK(kv_wait(s, &e));
    CHECK(peak() - before < (n + 1 + states) * bytes + ((int64_t)64 << 20));
}

TEST(store_memory_peak_of_a_push)
{
    IN_CHILD(NULL)
        check_peak("local", KV_FLOAT32, 4, NULL, 0);
    IN_CHILD(NULL)
        check_peak("device", KV_FLOAT32, 4, NULL, 0);
    IN_CHILD(NULL)
        check_peak("local", KV_FLOAT16, 4, NULL, 0);
    IN_CHILD(NULL)
        check_peak("local", KV_FLOAT32, 2, "adam", 2);
    /* The norm of what lamb computes is known before the first element is written. */
    IN_CHILD(NULL)
        check_peak("local", KV_FLOAT32, 2, "lamb", 2);
}
