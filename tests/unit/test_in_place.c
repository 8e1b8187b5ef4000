/* Changes in place: what the file is afterwards, what a reader makes of journals in every state,
 * and who waits for whom. Crashes are in tests/crash. */
#include "checkpoint/in_place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "checkpoint/in_place_journal.h"
#include "store_help.h"
#include "test_checkpoint.h"

#define HEADER  80 /* bytes before the data */
#define NAME    "m.safetensors"
#define JOURNAL ".m.safetensors.kv-journal"

/* A file with one tensor, before and after a change. */
typedef struct model {
    int64_t bytes, n; /* of the file; changes */
    char *a, *b;
    struct {
        int64_t at, n;
    } change[4096];
} model;

static unsigned char noise(uint64_t i)
{
    return (unsigned char)((i + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 56);
}

static model *model_new(int64_t data)
{
    kv_err e = {0};
    model *m = mem_zalloc(1, sizeof *m, &e);
    uint64_t length = HEADER - 8;
    char header[HEADER];
    m->bytes = HEADER + data;
    m->a = mem_alloc(m->bytes, 1, &e);
    m->b = mem_alloc(m->bytes, 1, &e);
    memset(header, ' ', sizeof header);
    memcpy(header, &length, 8);
    int n = snprintf(header + 8, HEADER - 8,
                     "{\"w\":{\"dtype\":\"U8\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                     (long long)data, (long long)data);
    header[8 + n] = ' ';
    memcpy(m->a, header, HEADER);
    for (int64_t i = 0; i < data; i++)
        m->a[HEADER + i] = (char)noise((uint64_t)i);
    memcpy(m->b, m->a, (size_t)m->bytes);
    return m;
}

static void model_free(model *m)
{
    mem_free(m->a);
    mem_free(m->b);
    mem_free(m);
}

/* Changes n bytes from `at` on in B. */
static void model_change(model *m, int64_t at, int64_t n)
{
    m->change[m->n].at = at;
    m->change[m->n++].n = n;
    for (int64_t i = at; i < at + n; i++)
        m->b[i] ^= (char)(1 + i % 200);
}

/* Changes of 1 to 9 bytes at random places in ascending order. */
static void model_change_some(model *m, int n)
{
    int64_t room = (m->bytes - HEADER) / n;
    for (int i = 0; i < n; i++)
        model_change(m, HEADER + i * room + noise((uint64_t)i) % (room - 9),
                     1 + noise((uint64_t)i * 7) % 9);
}

static model *model_small(void)
{
    model *m = model_new(20000);
    model_change_some(m, 40);
    return m;
}

static void put_file(const char *path, const void *data, int64_t n)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, (size_t)n, f) == (size_t)n && fclose(f) == 0);
}

static bool holds(const char *path, const void *want, int64_t n)
{
    char *got = mem_alloc(n + 1, 1, NULL);
    FILE *f = fopen(path, "rb");
    bool same = f && fread(got, 1, (size_t)n + 1, f) == (size_t)n &&
                memcmp(got, want, (size_t)n) == 0;
    if (f)
        fclose(f);
    mem_free(got);
    return same;
}

/* Only the file is in the folder. */
static void check_alone(void)
{
    int n = 0;
    DIR *d = opendir(".");
    while (readdir(d))
        n++;
    closedir(d);
    CHECK_INT(n, 3);
}

static int put_all(in_place *j, const model *m, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; i < m->n && !code; i++) {
        int64_t at = m->change[i].at;
        code = in_place_put(j, at, m->a + at, m->b + at, m->change[i].n, e);
    }
    return code;
}

static int change(const model *m, const char *path, kv_err *e)
{
    in_place *j;
    int code = in_place_open(&j, path, e);
    if (code)
        return code;
    if ((code = put_all(j, m, e))) {
        in_place_abandon(j);
        return code;
    }
    return in_place_commit(j, e);
}

static int read_it(const char *path, kv_err *e)
{
    checkpoint *c = NULL;
    int code = checkpoint_open(&c, path, NULL, e);
    if (!code)
        checkpoint_close(c);
    return code;
}

/* The journal of a change, as a file of its own. */
static void put_journal(const model *m, const char *path)
{
    kv_err e = {0};
    journal_writer w;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_OK(journal_begin(&w, fd, path, &e));
    for (int64_t i = 0; i < m->n; i++) {
        int64_t at = m->change[i].at;
        journal_record r = {at, m->change[i].n, m->a + at, m->b + at};
        CHECK_OK(journal_add(&w, &r, &e));
    }
    w.about.target_bytes = m->bytes;
    w.about.pid = 1;
    memcpy(w.about.first, m->a, 8);
    CHECK_OK(journal_end(&w, &e));
    journal_release(&w);
    close(fd);
}

/* ---- Changing -------------------------------------------------------------------------------- */

static void check_change(model *m)
{
    kv_err e = {0};
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    CHECK_OK(change(m, NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    check_alone();
    CHECK_OK(read_it(NAME, &e));
    leave_folder(NAME, NULL);
    model_free(m);
}

TEST(in_place_changes)
{
    model *m = model_small();
    model_change(m, HEADER, 1);       /* the first byte of the data, and the last */
    model_change(m, m->bytes - 1, 1); /* after it places that lie before */
    check_change(m);
}

TEST(in_place_changes_at_borders)
{
    const int64_t borders[] = {4096, 65536, 1 << 17, 1 << 20, (1 << 20) + 65536, 3 << 20};
    model *m = model_new((4 << 20) + 77);
    for (int i = 0; i < 6; i++)
        for (int64_t by = -3; by <= 3; by++)
            model_change(m, borders[i] + by * 2, 2);
    model_change(m, (2 << 20) - 1000, 300000); /* more than a record */
    model_change(m, 70000, 4097);
    model_change(m, 4 << 20, HEADER + 77); /* to the end */
    check_change(m);
}

TEST(in_place_changes_nothing)
{
    kv_err e = {0};
    model *m = model_new(100);
    struct stat before, after;
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    CHECK(stat(NAME, &before) == 0);
    CHECK_OK(change(m, NAME, &e));
    CHECK(stat(NAME, &after) == 0 && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    check_alone();
    leave_folder(NAME, NULL);
    model_free(m);
}

/* ---- Readers --------------------------------------------------------------------------------- */

/* A reader finds the file with these bytes and the journal of m: it is B afterwards. */
static void check_ends(const model *m, const char *state)
{
    kv_err e = {0};
    put_file(NAME, state, m->bytes);
    put_journal(m, JOURNAL);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    check_alone();
}

TEST(in_place_reader_ends_a_change)
{
    model *m = model_small();
    char *state = mem_alloc(m->bytes, 1, NULL);
    enter_folder();
    check_ends(m, m->a);
    check_ends(m, m->b);
    for (uint64_t seed = 0; seed < 50; seed++) {
        memcpy(state, m->a, (size_t)m->bytes);
        memcpy(state, IN_PLACE_MARK, 8);
        for (int64_t i = 8; i < m->bytes; i++)
            if (noise(seed * 100003 + (uint64_t)i) % 2)
                state[i] = m->b[i];
        check_ends(m, state);
    }
    mem_free(state);
    leave_folder(NAME, NULL);
    model_free(m);
}
