/* kv_load_later: the store is that of kv_load, whatever is done with it, and a file that is changed
 * meanwhile is an error, never wrong numbers. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/xxh64.h"
#include "checkpoint/safetensors.h"
#include "kvstore.h"
#include "store_help.h"
#include "test_io.h"

#define FILE_NAME "w.kvs"
#define CHANGED   "w.kvs: the file was changed while it was in use"

enum { LARGE = 5000 }; /* elements, far more than an array read at once has */

static kv *load_later(const char *path)
{
    return MADE(kv, kv_load_later, path);
}

static kv_array *numbers(int64_t n, double x)
{
    return array_full(KV_FLOAT32, 1, &n, x, cpu0);
}

/* The elements of a key, in an array of its form. */
static int pull(kv *s, kv_key key, kv_array **out, kv_err *why)
{
    kv_info info = info_of(s, key);
    CHECK_OK(kv_array_new(out, info.dtype, info.ndim, info.shape, cpu0, &e));
    return kv_pull(s, &key, 1, out, NULL, why);
}

static void check_all(kv *s, kv_key key, double want)
{
    own_array *out = NULL;
    CHECK_OK(pull(s, key, &out, &e));
    check_array(out, want);
}

/* Keys a, b and c of LARGE elements that are 1, 2 and 3, and d of two; with an optimizer and its
 * states, where these do not change the values. */
static void write_store(const char *path, bool states)
{
    own_kv *s = make("local");
    init_with(s, name("a"), numbers(LARGE, 1));
    init_with(s, name("b"), numbers(LARGE, 2));
    init_with(s, name("c"), numbers(LARGE, 3));
    init_with(s, name("d"), numbers(2, 4));
    if (states) {
        set_rule(s, "updater f(by = 1) { state m = 0; m = m + 1; stored += input * m }");
        push_one(s, name("a"), numbers(LARGE, 0));
        push_one(s, name("b"), numbers(LARGE, 0));
    }
    CHECK_OK(kv_save(s, path, &e));
}

/* A folder, and a store in it that was opened. */
#define LATER(states)                                                                              \
    IN_FOLDER(FILE_NAME, NULL);                                                                    \
    write_store(FILE_NAME, states);                                                                \
    own_kv *s = load_later(FILE_NAME)

TEST(load_later_reads_a_key_when_it_is_needed)
{
    LATER(true);
    CHECK(info_of(s, name("a")).unread > 0 && info_of(s, name("b")).unread > 0);
    CHECK(info_of(s, name("a")).unread != info_of(s, name("b")).unread);
    CHECK(info_of(s, name("a")).unread_inode == info_of(s, name("b")).unread_inode);
    CHECK_INT(info_of(s, name("d")).unread, 0);
    CHECK_INT(info_of(s, name("a")).bytes, 4 * LARGE);
    check_all(s, name("a"), 1);
    CHECK(info_of(s, name("a")).unread > 0); /* a pull leaves it in the file */
    push_one(s, name("b"), numbers(LARGE, 10)); /* its state m is 2 now */
    CHECK_INT(info_of(s, name("b")).unread, 0);
    check_all(s, name("b"), 22);
    int64_t rounds[2];
    kv_array *out = NULL;
    kv_key c = name("c");
    CHECK(info_of(s, c).unread > 0);
    CHECK_OK(kv_peek(s, &c, &out, rounds, &e));
    check_array(out, 3);
    kv_array_unref(out);
    rounds[0] = KV_NO_ROUND;
    out = numbers(LARGE, 0);
    CHECK_OK(kv_pull_since(s, &c, 1, &out, rounds, NULL, &e));
    check_array(out, 3);
    kv_array_unref(out);
    CHECK(info_of(s, c).unread > 0);
    const int64_t n = LARGE;
    out = array_full(KV_FLOAT64, 1, &n, 0, cpu0); /* it is converted */
    CHECK_OK(kv_pull(s, &c, 1, &out, NULL, &e));
    check_array(out, 3);
    kv_array_unref(out);
    CHECK_INT(info_of(s, c).unread, 0);
}

static uint64_t seed;

static int64_t draw(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

enum { KEYS = 8 };

/* A store of random keys, some small enough to be read at once; some were pushed. */
static void write_random(const char *path)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT16, KV_FLOAT64, KV_BFLOAT16};
    own_kv *s = make("local");
    bool rule = draw(3) > 0;
    for (int i = 0; i < KEYS; i++) {
        int64_t shape[] = {1 + draw(40), 1 + draw(40)};
        init_with(s, id(i), io_random_array(dtypes[draw(rule ? 3 : 4)], 2, shape, &seed));
    }
    if (rule)
        CHECK_OK(kv_set_optimizer(s, draw(2) ? "adam" : "sgd",
                                  (kv_opt[]){{"multi_precision", draw(2) ? "true" : "false"}}, 1,
                                  &e));
    for (int i = 0; i < KEYS; i++) {
        kv_info info = info_of(s, id(i));
        if (draw(2))
            push_one(s, id(i), array_full(KV_FLOAT32, info.ndim, info.shape, 0.5, cpu0));
    }
    CHECK_OK(kv_save(s, path, &e));
}

/* Both files have the same bytes. */
static void check_same_files(const char *a, const char *b)
{
    own_text *x = NULL, *y = NULL;
    size_t n, m;
    CHECK_OK(file_read(a, &x, &n, &e));
    CHECK_OK(file_read(b, &y, &m, &e));
    CHECK(n == m && memcmp(x, y, n) == 0);
}

/* The same random step for a store. It may fail, for both in the same way. *sum: of what came. */
static int step(kv *s, int what, int64_t at, double x, uint64_t *sum)
{
    kv_err e = {0};
    kv_key key = id(at), new_key = id(at + KEYS);
    kv_info info;
    *sum = 0;
    TRY(kv_find(s, &key, &info, &e));
    own_array *a = array_full(KV_FLOAT32, info.ndim, info.shape, x, cpu0), *out = NULL;
    int rc = KV_OK;
    if (what < 2)
        return kv_push(s, &key, 1, &a, NULL, &e);
    if (what == 2)
        rc = pull(s, key, &out, &e);
    if (what == 3) {
        out = array_full(KV_FLOAT32, info.ndim, info.shape, 0, cpu0);
        rc = kv_pushpull(s, &key, 1, &a, &key, 1, &out, NULL, &e);
    }
    if (what == 4)
        return kv_begin(s, &e);
    if (what == 5)
        return x > 0 ? kv_rollback(s, &e) : kv_commit(s, &e);
    if (what == 6)
        return kv_rename(s, &key, &new_key, &e);
    if (what == 7)
        return x > 1 ? kv_delete(s, &key, 1, &e) : KV_OK;
    if (what == 8)
        return x > 1 ? kv_set_optimizer(s, "nag", NULL, 0, &e) : KV_OK;
    if (what == 9)
        return kv_save(s, "again.kvs", &e);
    *sum = out ? xxh64(array_elements(out), (size_t)kv_array_bytes(out)) : 0;
    return rc;
}

TEST(load_later_gives_the_same_store)
{
    IN_FOLDER("x.kvs", "y.kvs");
    for (int i = 0; i < 150; i++) {
        seed = (uint64_t)i + 1;
        write_random(FILE_NAME);
        own_kv *at_once = MADE(kv, kv_load, FILE_NAME);
        own_kv *later = load_later(FILE_NAME);
        if (draw(2)) /* the file that was opened has no name then */
            CHECK(unlink(FILE_NAME) == 0);
        for (int64_t n = draw(25); n > 0; n--) {
            int what = (int)draw(10);
            int64_t at = draw(KEYS);
            double x = (double)draw(5) - 2;
            uint64_t is, want;
            CHECK_INT(step(later, what, at, x, &is), step(at_once, what, at, x, &want));
            CHECK(is == want);
        }
        CHECK_OK(kv_save(at_once, "x.kvs", &e));
        CHECK_OK(kv_save(later, "y.kvs", &e));
        check_same_files("x.kvs", "y.kvs");
        int rc = kv_save_states(at_once, "x.kvs", KV_DUMP_OPTIMIZER, NULL);
        CHECK_INT(kv_save_states(later, "y.kvs", KV_DUMP_OPTIMIZER, NULL), rc);
        check_same_files("x.kvs", "y.kvs");
        CHECK_OK(kv_save_arrays(at_once, "x.kvs", &e));
        CHECK_OK(kv_save_arrays(later, "y.kvs", &e));
        check_same_files("x.kvs", "y.kvs");
    }
    unlink(FILE_NAME);
    unlink("again.kvs");
}

static void put_byte(const char *path, int64_t at, int by)
{
    unsigned char byte = 0;
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte = (unsigned char)(byte ^ by);
    CHECK(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0);
}

/* Sets the time of the last change one minute back, or to the one that was. */
static void set_time(const char *path, const struct timespec *to)
{
    struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, *to};
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

/* No call gives elements of a file that was changed. The key a was pushed before and stays. */
static void check_changed(kv *s, const char *want)
{
    kv_err e = {0};
    own_array *out = NULL, *value = numbers(LARGE, 1);
    kv_key b = name("b"), c = name("c");
    const void *data;
    check_all(s, name("a"), 9);
    CHECK_ERR(pull(s, b, &out, &e), KV_E_IO, want);
    e = (kv_err){0};
    CHECK_INT(kv_array_read(out, &data, &e), KV_E_IO); /* nor half of them */
    CHECK_ERR(kv_push(s, &c, 1, &value, NULL, &e), KV_E_IO, want);
    CHECK_INT(info_of(s, c).pushes, 0);
}

TEST(load_later_file_that_is_changed)
{
    struct stat about;
    IN_FOLDER(FILE_NAME, "other.kvs");
    write_store(FILE_NAME, false);
    CHECK(stat(FILE_NAME, &about) == 0);
    set_time(FILE_NAME, &(struct timespec){.tv_sec = about.st_mtim.tv_sec - 60});
    own_kv *s = load_later(FILE_NAME);
    push_one(s, name("a"), numbers(LARGE, 9));
    put_byte(FILE_NAME, about.st_size - 8, 1); /* in d: others are refused as well */
    check_changed(s, CHANGED);
    write_store("other.kvs", true);
    CHECK_INT(kv_save(s, "other.kvs", &e), KV_E_IO);
    CHECK_TEXT(e.text, CHANGED);
    CHECK_TEXT(e.hint, "its tensors are read when they are needed; a program that writes a new "
                       "file and renames it does no harm");
    kv_free(s);
    s = load_later("other.kvs");
    check_all(s, name("b"), 2);
}

/* A time that somebody has set back deceives nobody where the file has sums. */
TEST(load_later_file_that_is_changed_behind_its_time)
{
    struct stat about;
    own_array *out = NULL;
    LATER(false);
    CHECK(stat(FILE_NAME, &about) == 0);
    put_byte(FILE_NAME, info_of(s, name("b")).unread + 400, 1);
    set_time(FILE_NAME, &about.st_mtim);
    CHECK_ERR(pull(s, name("b"), &out, &e), KV_E_IO, CHANGED);
}

TEST(load_later_file_that_becomes_shorter)
{
    LATER(false);
    push_one(s, name("a"), numbers(LARGE, 9));
    CHECK(truncate(FILE_NAME, info_of(s, name("b")).unread) == 0);
    check_changed(s, "w.kvs: the file became shorter while it was read");
}

TEST(load_later_damaged_file)
{
    IN_FOLDER(FILE_NAME, NULL);
    write_store(FILE_NAME, true);
    kv *s = load_later(FILE_NAME);
    int64_t at = info_of(s, name("b")).unread + 4 * LARGE - 1;
    kv_free(s);
    put_byte(FILE_NAME, at, 0x40);
    s = NULL;
    CHECK_INT(kv_load_later(&s, FILE_NAME, &e), KV_E_FORMAT);
    CHECK(!s);
    CHECK_TEXT(e.text, "w.kvs: the file is damaged: the data of \"b\" are not what was written");
}

TEST(load_later_bools_are_checked_when_they_are_read)
{
    own_array *out = NULL;
    int64_t n = LARGE;
    IN_FOLDER("m.safetensors", NULL);
    kv_array *a = array_full(KV_BOOL, 1, &n, 1, cpu0);
    safetensors_item item = {"on", a};
    FILE *f = fopen("m.safetensors", "wb");
    CHECK(f);
    CHECK_OK(safetensors_write(f, "m.safetensors", &item, 1, NULL, 0, &e));
    CHECK(fclose(f) == 0);
    kv_array_unref(a);
    own_kv *s = load_later("m.safetensors");
    int64_t at = info_of(s, name("on")).unread;
    CHECK_OK(pull(s, name("on"), &out, &e));
    check_array(out, 1);
    kv_array_unref(out);
    kv_free(s);
    put_byte("m.safetensors", at + 3000, 2);
    s = load_later("m.safetensors");
    CHECK_INT(pull(s, name("on"), &out, &e), KV_E_FORMAT);
    CHECK_TEXT(e.text, "m.safetensors: tensor \"on\": element 3000 is not a bool, its byte is 3");
}

/* Zeros that take no room in a file take none in the next one, and are zeros there. */
TEST(load_later_holes_stay_holes)
{
    struct stat before, after;
    const int64_t bytes = 64 << 20;
    char header[256];
    IN_FOLDER("m.safetensors", "n.safetensors");
    int n = snprintf(header, sizeof header,
                     "%-240s", "{\"a\":{\"dtype\":\"F32\",\"shape\":[16777216],\"data_offsets\":"
                               "[0,67108864]},\"k\":{\"dtype\":\"F32\",\"shape\":[2],"
                               "\"data_offsets\":[67108864,67108872]}}");
    FILE *f = fopen("m.safetensors", "wb");
    CHECK(f && fwrite((int64_t[]){n}, 8, 1, f) == 1 && fwrite(header, (size_t)n, 1, f) == 1);
    CHECK(fflush(f) == 0 && ftruncate(fileno(f), 8 + n + bytes + 8) == 0 && fclose(f) == 0);
    put_byte("m.safetensors", 8 + n + (33 << 20) + 3, 0x40); /* 2, between two holes */
    CHECK(stat("m.safetensors", &before) == 0);
    own_kv *s = load_later("m.safetensors");
    push_one(s, name("k"), numbers(2, 5));
    CHECK_OK(kv_save_arrays(s, "n.safetensors", &e));
    kv_free(s);
    CHECK(stat("n.safetensors", &after) == 0);
    CHECK(before.st_blocks * 512 > bytes / 2 || after.st_blocks * 512 < bytes / 2);
    s = load_later("n.safetensors");
    kv_array *a = NULL;
    CHECK_OK(pull(s, name("a"), &a, &e));
    const float *x = array_elements(a);
    for (int64_t i = 0; i < bytes / 4; i++)
        if (x[i] != (i == (33 << 20) / 4 ? 2.0f : 0.0f))
            CHECK_INT(i, -1);
    kv_array_unref(a);
    check_all(s, name("k"), 5);
}

TEST(load_later_without_memory)
{
    IN_FOLDER(FILE_NAME, "x.kvs");
    write_store(FILE_NAME, true);
    own_kv *s = NULL;
    CHECK(FAILURES(kv_load_later(&s, FILE_NAME, &e)) > 0);
    own_array *value = numbers(LARGE, 10);
    kv_key b = name("b");
    EACH_FAILURE(kv_push(s, &b, 1, &value, NULL, &e))
        CHECK_INT(info_of(s, b).pushes, 1);
    check_all(s, b, 22);
    CHECK(FAILURES(kv_save(s, "x.kvs", &e)) > 0);
    kv_free(s);
    s = load_later("x.kvs");
    check_all(s, name("a"), 1);
    check_all(s, b, 22);
}
