/* Changes in place: what the file is afterwards, what a reader makes of journals in every state,
 * and who waits for whom. Crashes are in tests/faults. */
#include "checkpoint/in_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/xxh64.h"
#include "checkpoint/checkpoint_write.h"
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
    bool same =
        f && fread(got, 1, (size_t)n + 1, f) == (size_t)n && memcmp(got, want, (size_t)n) == 0;
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
        code = in_place_put(j, at, m->b + at, m->change[i].n, e);
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

static uint64_t sum_of(const model *m)
{
    return xxh64(m->b + HEADER, (size_t)(m->bytes - HEADER));
}

/* The journal of a change, as a file of its own, that process pid has written. */
static void put_journal_of(const model *m, const char *path, int pid)
{
    kv_err e = {0};
    journal_writer w;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_OK(journal_begin(&w, fd, path, &e));
    for (int64_t i = 0; i < m->n; i++) {
        int64_t at = m->change[i].at;
        journal_record r = {.offset = at, .n = m->change[i].n, .now = m->b + at};
        CHECK_OK(journal_add(&w, &r, &e));
    }
    CHECK_OK(journal_add(&w, &(journal_record){.offset = HEADER, .n = m->bytes - HEADER, .key = "w",
                                               .key_bytes = 1, .sum = sum_of(m)}, &e));
    w.about.target_bytes = m->bytes;
    w.about.pid = pid;
    memcpy(w.about.first, m->a, 8);
    CHECK_OK(journal_end(&w, &e));
    journal_release(&w);
    close(fd);
}

static void put_journal(const model *m, const char *path)
{
    put_journal_of(m, path, 0);
}

/* The file when a change was cut short: every second page is changed. */
static char *half_of(const model *m)
{
    char *state = mem_alloc(m->bytes, 1, NULL);
    for (int64_t i = 0; i < m->bytes; i++)
        state[i] = i / 4096 % 2 ? m->b[i] : m->a[i];
    memcpy(state, IN_PLACE_MARK, 8);
    return state;
}

static void check_refused(kv_code code, const char *text, const char *hint)
{
    kv_err e = {0};
    int got = read_it(NAME, &e);
    CHECK_TEXT(e.hint, hint);
    CHECK_ERR(got, code, text);
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

/* Another process: holds locks on these files (NULL: none) until it is killed. */
static pid_t hold(const char *file, int how, const char *other)
{
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
        int ok = flock(open(file, O_RDONLY), how) == 0 &&
                 (!other || flock(open(other, O_RDONLY), LOCK_EX) == 0);
        if (ok && write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void let_go(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

/* ---- Clones ---------------------------------------------------------------------------------- */

static int clone_fails; /* with this errno; -1: the file is copied; 0: the system is asked */

/* In front of that of the C library. */
int ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    long other = va_arg(ap, long);
    va_end(ap);
    if (request != FICLONE || !clone_fails)
        return (int)syscall(SYS_ioctl, fd, request, other);
    errno = clone_fails;
    return clone_fails < 0 && sendfile(fd, (int)other, &(off_t){0}, 1 << 30) > 0 ? 0 : -1;
}

/* Whether a change put another file in the place of the old one. */
static bool replaces(const model *m, bool has_link)
{
    kv_err e = {0};
    struct stat before, after;
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    CHECK(chmod(NAME, 0640) == 0 && stat(NAME, &before) == 0);
    CHECK(!has_link || link(NAME, "other") == 0);
    CHECK_OK(change(m, NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes) && stat(NAME, &after) == 0);
    CHECK(after.st_mode == before.st_mode && after.st_uid == before.st_uid);
    if (has_link)
        CHECK(holds("other", m->b, m->bytes) && unlink("other") == 0);
    check_alone();
    leave_folder(NAME, NULL);
    return after.st_ino != before.st_ino;
}

TEST(in_place_clone)
{
    model *m = model_small();
    model_change(m, HEADER, 1);
    model_change(m, m->bytes - 1, 1);
    const int errors[] = {EOPNOTSUPP, EXDEV, ENOSPC, EINVAL};
    for (int i = 0; i < 4; i++) {
        clone_fails = errors[i];
        CHECK(!replaces(m, false));
    }
    clone_fails = -1;
    CHECK(replaces(m, false));
    CHECK(!replaces(m, true)); /* the other name would keep A */
    model_free(m);
}

/* A reader of A keeps it, and nobody waits for that; a session would write its store over B. */
TEST(in_place_clone_beside_others)
{
    kv_err e = {0};
    model *m = model_small();
    checkpoint *c;
    kv_array *kept;
    const void *data;
    clone_fails = -1;
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    CHECK_OK(checkpoint_open(&c, NAME, NULL, &e));
    CHECK_OK(change(m, NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    CHECK_OK(checkpoint_load(&kept, c, 0, &e));
    CHECK_OK(kv_array_read(kept, &data, &e));
    CHECK(memcmp(data, m->a + HEADER, (size_t)(m->bytes - HEADER)) == 0);
    kv_array_unref(kept);
    checkpoint_close(c);
    put_file(NAME, m->a, m->bytes);
    pid_t pid = hold(NAME, LOCK_EX, NULL);
    CHECK_ERR(change(m, NAME, &e), KV_E_BUSY,
              "cannot change \"" NAME
              "\" in place: another process has it open; waited 3 s for it");
    CHECK(holds(NAME, m->a, m->bytes));
    let_go(pid);
    check_alone();
    leave_folder(NAME, NULL);
    model_free(m);
}

/* A second writer that opened the file before it was replaced changes the new one. */
TEST(in_place_clone_of_a_clone)
{
    kv_err e = {0};
    model *m = model_small(), *next = model_new(20000);
    memcpy(next->a, m->b, (size_t)m->bytes);
    memcpy(next->b, m->b, (size_t)m->bytes);
    model_change_some(next, 70);
    clone_fails = -1;
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    int first[2];
    char byte;
    CHECK(pipe(first) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        in_place *j;
        int ok = in_place_open(&j, NAME, &e) == KV_OK && put_all(j, m, &e) == KV_OK &&
                 write(first[1], "x", 1) == 1;
        while (ok && access("waits", F_OK) != 0)
            usleep(1000);
        usleep(20000);
        _exit(ok && in_place_commit(j, &e) == KV_OK ? 0 : 1);
    }
    int status;
    CHECK(read(first[0], &byte, 1) == 1);
    put_file("waits", "", 0);
    CHECK_OK(change(next, NAME, &e));
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(holds(NAME, next->b, next->bytes));
    CHECK(unlink("waits") == 0);
    check_alone();
    leave_folder(NAME, NULL);
    model_free(m);
    model_free(next);
}

/* Bytes that this process has given to the system to write. */
static int64_t written(void)
{
    char line[100];
    long long n = -1;
    FILE *f = fopen("/proc/self/io", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "wchar: %lld", &n);
    if (f)
        fclose(f);
    if (n < 0)
        test_skip("the system does not count what is written");
    return n;
}

/* A change of all bytes writes them once into a clone, and else twice: into the journal, too. */
TEST(in_place_writes_each_byte_once_or_twice)
{
    kv_err e = {0};
    model *m = model_new(4 << 20);
    model_change(m, HEADER, 4 << 20);
    enter_folder();
    for (int times = 1; times <= 2; times++) {
        in_place *j;
        clone_fails = times == 1 ? -1 : EOPNOTSUPP;
        put_file(NAME, m->a, m->bytes);
        CHECK_OK(in_place_open(&j, NAME, &e));
        int64_t before = written();
        CHECK_OK(put_all(j, m, &e));
        CHECK_OK(in_place_commit(j, &e));
        int64_t n = written() - before;
        CHECK(n >= times * m->bytes - HEADER && n < times * m->bytes + 65536);
        CHECK(holds(NAME, m->b, m->bytes));
    }
    leave_folder(NAME, NULL);
    model_free(m);
}

/* ---- Readers --------------------------------------------------------------------------------- */

/* A reader finds the file with these bytes and the journal of m: it is `want` afterwards. */
static void check_ends(const model *m, const char *state, const char *want)
{
    kv_err e = {0};
    put_file(NAME, state, m->bytes);
    put_journal(m, JOURNAL);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, want, m->bytes));
    check_alone();
}

/* Beside a file that has not its mark, or has lost it again, the journal is not needed. */
TEST(in_place_cut_beside_the_mark)
{
    model *m = model_small();
    enter_folder();
    check_ends(m, m->a, m->a);
    check_ends(m, m->b, m->b);
    leave_folder(NAME, NULL);
    model_free(m);
}

/* The mark has come, or not gone: with all places old, or new. */
TEST(in_place_cut_at_the_mark)
{
    model *m = model_small();
    char *state = mem_alloc(m->bytes, 1, NULL);
    enter_folder();
    for (int is_b = 0; is_b < 2; is_b++) {
        memcpy(state, is_b ? m->b : m->a, (size_t)m->bytes);
        memcpy(state, IN_PLACE_MARK, 8);
        check_ends(m, state, m->b);
    }
    mem_free(state);
    leave_folder(NAME, NULL);
    model_free(m);
}

/* Any of the places, each byte by itself. */
TEST(in_place_cut_among_the_places)
{
    model *m = model_small();
    char *state = mem_alloc(m->bytes, 1, NULL);
    enter_folder();
    for (uint64_t seed = 0; seed < 50; seed++) {
        memcpy(state, m->a, (size_t)m->bytes);
        memcpy(state, IN_PLACE_MARK, 8);
        for (int64_t i = 8; i < m->bytes; i++)
            if (noise(seed * 100003 + (uint64_t)i) % 2)
                state[i] = m->b[i];
        check_ends(m, state, m->b);
    }
    mem_free(state);
    leave_folder(NAME, NULL);
    model_free(m);
}

/* A power cut brought a journal back whose change had ended: the next change has its own. */
TEST(in_place_change_beside_an_old_journal)
{
    kv_err e = {0};
    model *m = model_small(), *next = model_new(20000);
    char *half = half_of(next);
    model_change_some(next, 70);
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    put_journal(m, JOURNAL);
    CHECK_OK(change(next, NAME, &e));
    CHECK(holds(NAME, next->b, next->bytes));
    check_alone();
    put_journal(m, JOURNAL); /* it was cut short, too: its journal took the place of the old one */
    put_file(NAME, half, next->bytes);
    put_journal(next, JOURNAL);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, next->b, next->bytes));
    mem_free(half);
    leave_folder(NAME, NULL);
    model_free(m);
    model_free(next);
}

/* Another program wrote the file, or put another one there: it is as it wrote it. */
TEST(in_place_journal_of_a_file_that_another_program_wrote)
{
    kv_err e = {0};
    model *m = model_small(), *other = model_new(20001), *third = model_new(20000);
    memset(third->a + HEADER, 7, 20000);
    enter_folder();
    check_ends(m, third->a, third->a);
    put_file(NAME, other->a, other->bytes);
    put_journal(m, JOURNAL);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, other->a, other->bytes));
    check_alone();
    put_file(NAME, "short", 5);
    put_journal(m, JOURNAL);
    CHECK_ERR(read_it(NAME, &e), KV_E_FORMAT,
              NAME ": cut within the length of its header: 3 of 8 bytes are missing");
    CHECK(holds(NAME, "short", 5));
    check_alone();
    leave_folder(NAME, NULL);
    model_free(m);
    model_free(other);
    model_free(third);
}

/* The journal of an earlier version, which had the old bytes too, of a file of 328 bytes. */
TEST(in_place_journal_of_an_earlier_version)
{
    static const unsigned char journal[] = {
        'k',  'v',  'j',  'o',  'u',  'r',  'n',  '1',  0x1e, 0x3b, 0,    0,    0,    0,    0,
        0,    0x48, 1,    0,    0,    0,    0,    0,    0,    0x78, 0,    0,    0,    0,    0,
        0,    0,    0x72, 0,    0,    0,    0,    0,    0,    0,    5,    0,    0,    0,    0,
        0,    0,    0,    0x70, 0xa5, 0xeb, 0x60, 0x7f, 0xe4, 0x5c, 0x84, 0x59, 0x6e, 0xae, 0xc6,
        0xd3, 0x3b, 0x22, 0xbe, 0,    0,    0,    0,    0,    0,    0,    0,    0x22, 0,    0,
        0,    5,    0,    0,    0,    0x88, 0x05, 0x04, 0xab, 0x65, 0x5e, 0x88, 0xae, 0x65, 0x59,
        0x88, 0xc0, 0x02, 0x02, 0x96, 0x8d, 0x98, 0x8d, 0x31, 0x4d, 0xf6, 0x40, 0xf6, 0x29, 0x8a,
        0x84, 0x80, 0x84, 0xb9, 0x01, 0x5f, 0xb9, 0x52, 0xb9};
    static const struct {
        int64_t at, n;
        const char *now;
    } places[] = {{162, 4, "\xae\x65\x59\x88"}, {246, 2, "\x98\x8d"}, {260, 2, "\x40\xf6"},
                  {272, 2, "\x80\x84"}, {320, 2, "\x52\xb9"}};
    kv_err e = {0};
    char half[328] = IN_PLACE_MARK "{\"w\":{\"dtype\":\"BF16\",\"shape\":[100],"
                                   "\"data_offsets\":[0,200]}}", whole[328];
    for (size_t i = strlen(half); i < 128; i++)
        half[i] = ' ';
    memcpy(whole, half, sizeof half);
    memcpy(whole, "\x78\0\0\0\0\0\0", 8);
    enter_folder();
    put_file(NAME, whole, sizeof whole);
    put_file(JOURNAL, journal, sizeof journal);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, whole, sizeof whole));
    check_alone();
    put_file(NAME, half, sizeof half);
    put_file(JOURNAL, journal, sizeof journal);
    CHECK_OK(read_it(NAME, &e));
    for (int i = 0; i < 5; i++)
        memcpy(whole + places[i].at, places[i].now, (size_t)places[i].n);
    CHECK(holds(NAME, whole, sizeof whole));
    check_alone();
    leave_folder(NAME, NULL);
}

/* Only what a killed writer had not completed. */
TEST(in_place_reader_removes_a_journal_that_is_not_complete)
{
    kv_err e = {0};
    model *m = model_small();
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    put_file(JOURNAL ".tmp", "half", 4);
    CHECK_OK(read_it(NAME, &e));
    check_alone();
    put_file(JOURNAL ".tmp", m->a, m->bytes); /* a writer uses its name */
    CHECK_OK(change(m, NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    check_alone();
    leave_folder(NAME, NULL);
    model_free(m);
}

#define DAMAGED                                                                                    \
    NAME ": half changed, and the journal of the change, "                                         \
         "\"" JOURNAL "\", is damaged"
#define DAMAGED_HINT "the file is lost: put a whole one in its place and remove \"" JOURNAL "\""

/* The first n bytes of a journal with byte `at` flipped, beside a file that is whole: it is as it
 * was, and beside one that is half changed: an error, and both stay. */
static void check_damaged(const model *m, const char *half, const char *journal, int64_t n,
                          int64_t at)
{
    kv_err e = {0};
    char bytes[4096];
    CHECK(n <= (int64_t)sizeof bytes);
    memcpy(bytes, journal, (size_t)n);
    if (at >= 0)
        bytes[at] ^= 0x10;
    put_file(NAME, m->a, m->bytes);
    put_file(JOURNAL, bytes, n);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, m->a, m->bytes));
    check_alone();

    put_file(NAME, half, m->bytes);
    put_file(JOURNAL, bytes, n);
    check_refused(KV_E_FORMAT, DAMAGED, DAMAGED_HINT);
    CHECK(holds(NAME, half, m->bytes) && holds(JOURNAL, bytes, n));
}

TEST(in_place_journal_cut_or_flipped)
{
    model *m = model_new(9000);
    model_change_some(m, 20);
    char *half = half_of(m), journal[4096];
    enter_folder();
    put_journal(m, JOURNAL);
    FILE *f = fopen(JOURNAL, "rb");
    int64_t n = (int64_t)fread(journal, 1, sizeof journal, f);
    fclose(f);
    CHECK(n > 200 && n < (int64_t)sizeof journal);
    for (int64_t cut = 0; cut < n; cut++)
        check_damaged(m, half, journal, cut, -1);
    for (int64_t at = 0; at < n; at++)
        check_damaged(m, half, journal, n, at);
    journal[n] = 0; /* a byte too many is none of it */
    put_file(NAME, half, m->bytes);
    put_file(JOURNAL, journal, n + 1);
    kv_err e = {0};
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    mem_free(half);
    leave_folder(NAME, NULL);
    model_free(m);
}

/* Sums are right, but a place is beyond the file. */
TEST(in_place_journal_that_lies)
{
    kv_err e = {0};
    model *m = model_small();
    char *half = half_of(m);
    enter_folder();
    const int64_t lies[][2] = {{0, 9}, {7, 1}, {m->bytes - 1, 2}, {m->bytes, 1}, {1L << 58, 5}};
    for (int i = 0; i < 10; i++) { /* the places of bytes, and those of keys */
        journal_writer w;
        const char *now = i < 5 ? m->b : NULL;
        journal_record r = {.offset = lies[i % 5][0], .n = lies[i % 5][1], .now = now, .key = "w"};
        int fd = open(JOURNAL, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK_OK(journal_begin(&w, fd, JOURNAL, &e));
        CHECK_OK(journal_add(&w, &r, &e));
        w.about.target_bytes = m->bytes;
        memcpy(w.about.first, m->a, 8);
        CHECK_OK(journal_end(&w, &e));
        journal_release(&w);
        close(fd);
        put_file(NAME, half, m->bytes);
        check_refused(KV_E_FORMAT, DAMAGED, DAMAGED_HINT);
        CHECK(holds(NAME, half, m->bytes));
    }
    mem_free(half);
    leave_folder(NAME, JOURNAL);
    model_free(m);
}

#define LOST_FOR_GOOD "the file is lost: put a whole one in its place and remove \"" JOURNAL "\""
#define CHANGED_SINCE ": the file was changed after a change of it was cut short"

/* A file with the mark that is none of the states of its change. */
TEST(in_place_half_changed_file_that_another_program_wrote)
{
    model *m = model_small(), *other = model_new(20001);
    char *half = half_of(other);
    enter_folder();
    put_journal(m, JOURNAL);
    put_file(NAME, half, other->bytes);
    check_refused(KV_E_FORMAT,
                  NAME ": half changed, and 20081 bytes, where \"" JOURNAL
                       "\" is of a file of 20080" CHANGED_SINCE,
                  LOST_FOR_GOOD);
    CHECK(holds(NAME, half, other->bytes));
    mem_free(half);

    half = half_of(m);
    half[m->bytes - 3] ^= 1;
    put_file(NAME, half, m->bytes);
    check_refused(KV_E_FORMAT,
                  NAME ": half changed, and \"w\" is not what \"" JOURNAL
                       "\" makes of it" CHANGED_SINCE,
                  LOST_FOR_GOOD);
    CHECK(access(JOURNAL, F_OK) == 0);
    mem_free(half);
    leave_folder(NAME, JOURNAL);
    model_free(m);
    model_free(other);
}

#define LOST                                                                                       \
    NAME                                                                                           \
        ": half changed: a change of it in place was cut short, and the journal of the change is " \
        "not beside it"
#define LOST_HINT                                                                                  \
    "the journal, .NAME.kv-journal, stands beside the name under which the file was changed: "     \
    "read it there"

/* The file has another hard link, under whose name it was changed, or was moved. */
TEST(in_place_journal_elsewhere)
{
    kv_err e = {0};
    model *m = model_small();
    char *half = half_of(m);
    in_place *j;
    enter_folder();
    put_file("other", half, m->bytes);
    CHECK(link("other", NAME) == 0);
    put_journal(m, ".other.kv-journal");
    check_refused(KV_E_FORMAT, LOST, LOST_HINT);
    CHECK_ERR(in_place_open(&j, NAME, &e), KV_E_FORMAT, LOST);
    CHECK_OK(read_it("other", &e));
    CHECK(holds(NAME, m->b, m->bytes));
    CHECK_OK(read_it(NAME, &e));
    mem_free(half);
    leave_folder(NAME, "other");
    model_free(m);
}

/* The journal stands beside the file that a link leads to, and beside a name of the greatest
 * length. */
TEST(in_place_names)
{
    kv_err e = {0};
    model *m = model_small();
    char *half = half_of(m), name[256], journal[64];
    enter_folder();
    CHECK(mkdir("blobs", 0700) == 0 && symlink("blobs/f00d", NAME) == 0);
    put_file("blobs/f00d", half, m->bytes);
    put_journal(m, "blobs/.f00d.kv-journal");
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds("blobs/f00d", m->b, m->bytes));
    put_file("blobs/f00d", m->a, m->bytes);
    CHECK_OK(change(m, NAME, &e));
    CHECK(holds("blobs/f00d", m->b, m->bytes));
    CHECK(unlink("blobs/f00d") == 0 && rmdir("blobs") == 0 && unlink(NAME) == 0);

    memset(name, 'n', 255);
    name[255] = '\0';
    snprintf(journal, sizeof journal, ".%016llx.kv-journal", (unsigned long long)xxh64(name, 255));
    put_file(name, half, m->bytes);
    put_journal(m, journal);
    CHECK_OK(read_it(name, &e));
    CHECK(holds(name, m->b, m->bytes));
    put_file(name, m->a, m->bytes);
    CHECK_OK(change(m, name, &e));
    CHECK(holds(name, m->b, m->bytes));
    check_alone();
    mem_free(half);
    leave_folder(name, NULL);
    model_free(m);
}

/* A file that was written anew needs no journal of an old one. */
TEST(in_place_journal_of_a_file_that_was_replaced)
{
    kv_err e = {0};
    model *m = model_small();
    checkpoint_out *out;
    checkpoint_entry entry = {"x", TENSOR_U8, 1, (int64_t[]){3}};
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    put_journal(m, JOURNAL);
    CHECK_OK(checkpoint_out_open(&out, NAME, &entry, 1, NULL, 0, NULL, &e));
    CHECK_OK(checkpoint_out_put(out, 0, 0, "abc", 3, &e));
    CHECK_OK(checkpoint_out_commit(out, &e));
    check_alone();
    CHECK_OK(read_it(NAME, &e));
    leave_folder(NAME, NULL);
    model_free(m);
}

TEST(in_place_journal_is_small)
{
    kv_err e = {0};
    journal_writer w;
    FILE *f = tmpfile();
    CHECK_OK(journal_begin(&w, fileno(f), "journal", &e));
    for (int64_t i = 0; i < 10000000; i++)
        if ((noise((uint64_t)i) * 256 + noise((uint64_t)i + 99)) % 100 == 0) {
            journal_record r = {.offset = HEADER + 2 * i, .n = 2, .now = "cd"};
            CHECK_OK(journal_add(&w, &r, &e));
        }
    CHECK_OK(journal_end(&w, &e));
    CHECK(w.about.records > 50000);
    CHECK(w.about.bytes < w.about.records * 41 / 10);
    journal_release(&w);
    fclose(f);
}

/* ---- Who waits ------------------------------------------------------------------------------- */

TEST(in_place_reader_waits_for_a_writer)
{
    kv_err e = {0};
    model *m = model_small();
    char *half = half_of(m), text[200];
    enter_folder();
    put_file(NAME, half, m->bytes);
    put_file(JOURNAL, "", 0);
    pid_t pid = hold(NAME, LOCK_EX, JOURNAL);
    put_journal_of(m, JOURNAL, pid); /* the same file */
    snprintf(text, sizeof text,
             "\"" NAME "\" is being changed in place by process %d; waited 3 s for it", (int)pid);
    check_refused(KV_E_BUSY, text, "try again when that has ended");
    CHECK(holds(NAME, half, m->bytes));
    let_go(pid);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    mem_free(half);
    leave_folder(NAME, NULL);
    model_free(m);
}

/* Until it is complete, the writer only reads, as readers do. */
TEST(in_place_reader_beside_a_writer_that_prepares)
{
    kv_err e = {0};
    model *m = model_small();
    in_place *j;
    checkpoint *c;
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    CHECK_OK(in_place_open(&j, NAME, &e));
    CHECK_OK(put_all(j, m, &e));
    int64_t before = clock_ms();
    CHECK_OK(checkpoint_open(&c, NAME, NULL, &e));
    CHECK(clock_ms() - before < IN_PLACE_WAIT_MS);
    checkpoint_close(c);
    CHECK_OK(in_place_commit(j, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    check_alone();
    leave_folder(NAME, NULL);
    model_free(m);
}

TEST(in_place_writer_waits_for_a_reader)
{
    kv_err e = {0};
    model *m = model_small();
    checkpoint *c;
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    CHECK_OK(checkpoint_open(&c, NAME, NULL, &e));
    CHECK_ERR(change(m, NAME, &e), KV_E_BUSY,
              "cannot change \"" NAME
              "\" in place: another process has it open; waited 3 s for it");
    CHECK(holds(NAME, m->a, m->bytes));
    check_alone();
    checkpoint_close(c);
    CHECK_OK(change(m, NAME, &e));
    leave_folder(NAME, NULL);
    model_free(m);
}

TEST(in_place_writer_waits_for_a_writer)
{
    kv_err e = {0};
    model *m = model_small();
    in_place *j, *second;
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    CHECK_OK(in_place_open(&j, NAME, &e));
    CHECK_ERR(in_place_open(&second, NAME, &e), KV_E_BUSY,
              "\"" NAME "\" is being changed in place by another process; waited 3 s for it");
    in_place_abandon(j);
    check_alone();
    CHECK_OK(in_place_open(&second, NAME, &e));
    in_place_abandon(second);
    leave_folder(NAME, NULL);
    model_free(m);
}

/* A session locks the file of its store, and reads it itself: nothing waits for that, and a change
 * that was cut short is ended. */
TEST(in_place_file_of_a_session)
{
    kv_err e = {0};
    model *m = model_small();
    char *half = half_of(m);
    enter_folder();
    put_file(NAME, half, m->bytes);
    put_journal(m, JOURNAL);
    pid_t pid = hold(NAME, LOCK_EX, NULL);
    int64_t before = clock_ms();
    CHECK_OK(read_it(NAME, &e));
    CHECK_OK(read_it(NAME, &e));
    CHECK(clock_ms() - before < IN_PLACE_WAIT_MS);
    CHECK(holds(NAME, m->b, m->bytes));
    check_alone();
    CHECK_ERR(change(m, NAME, &e), KV_E_BUSY,
              "cannot change \"" NAME
              "\" in place: another process has it open; waited 3 s for it");
    let_go(pid);
    checkpoint *c; /* and a session can begin beside a reader */
    CHECK_OK(checkpoint_open(&c, NAME, NULL, &e));
    let_go(hold(NAME, LOCK_EX | LOCK_NB, NULL));
    checkpoint_close(c);
    mem_free(half);
    leave_folder(NAME, NULL);
    model_free(m);
}

#define NOT_BY_ME                                                                                  \
    "cannot read \"" NAME "\": a change of it was cut short, and this user may not end it, which " \
    "is to write the file as \"" JOURNAL "\" says"
#define NOT_BY_ME_HINT                                                                             \
    "let its owner, or the user who changed it, read it once, as with: kvctl ls " NAME

/* A journal that another user put beside the file does nothing. */
TEST(in_place_journal_of_another_user)
{
    kv_err e = {0};
    model *m = model_small();
    char *half = half_of(m);
    if (geteuid() != 0)
        test_skip("only root can give files away");
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    put_journal(m, JOURNAL);
    CHECK(chown(JOURNAL, 12345, 0) == 0);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, m->a, m->bytes) && access(JOURNAL, F_OK) == 0);
    put_file(NAME, half, m->bytes);
    check_refused(KV_E_IO, NOT_BY_ME, NOT_BY_ME_HINT);
    CHECK(holds(NAME, half, m->bytes));
    CHECK(chown(NAME, 12345, 0) == 0); /* of the owner of the file */
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    check_alone();
    mem_free(half);
    leave_folder(NAME, NULL);
    model_free(m);
}

/* Readers may read what they may not write, unless it is half changed. */
TEST(in_place_reader_that_may_not_write)
{
    kv_err e = {0};
    model *m = model_small();
    char *half = half_of(m);
    if (geteuid() != 0)
        test_skip("only root can become another user");
    enter_folder();
    CHECK(chmod(".", 0755) == 0);
    put_file(NAME, m->a, m->bytes);
    put_journal(m, JOURNAL);
    CHECK(seteuid(65534) == 0);
    CHECK_OK(read_it(NAME, &e));
    CHECK(seteuid(0) == 0);
    CHECK(holds(NAME, m->a, m->bytes));

    put_file(NAME, half, m->bytes);
    CHECK(seteuid(65534) == 0);
    check_refused(KV_E_IO, NOT_BY_ME, NOT_BY_ME_HINT);
    CHECK(seteuid(0) == 0);
    CHECK(holds(NAME, half, m->bytes));

    /* without the right to remove the journal it stays, and the file is B */
    CHECK(chmod(NAME, 0666) == 0 && chmod(JOURNAL, 0644) == 0);
    CHECK(seteuid(65534) == 0);
    CHECK_OK(read_it(NAME, &e));
    CHECK(seteuid(0) == 0);
    CHECK(holds(NAME, m->b, m->bytes) && access(JOURNAL, F_OK) == 0);
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    check_alone();
    mem_free(half);
    leave_folder(NAME, NULL);
    model_free(m);
}

/* ---- Writers that fail ----------------------------------------------------------------------- */

TEST(in_place_open_errors)
{
    kv_err e = {0};
    in_place *j;
    enter_folder();
    CHECK_ERR(in_place_open(&j, "none", &e), KV_E_IO,
              "cannot change \"none\": No such file or directory");
    CHECK_ERR(in_place_open(&j, "/dev/null", &e), KV_E_IO,
              "cannot change \"/dev/null\": it is not a regular file");
    put_file(NAME, "1234567", 7);
    CHECK_ERR(in_place_open(&j, NAME, &e), KV_E_USAGE,
              "cannot change \"" NAME "\" in place: it has only 7 bytes");
    check_alone();
    leave_folder(NAME, NULL);
}

#define CHANGED "cannot change \"" NAME "\" in place: it was changed or replaced meanwhile"

TEST(in_place_file_changes_meanwhile)
{
    kv_err e = {0};
    model *m = model_small();
    in_place *j;
    enter_folder();
    for (int i = 0; i < 2; i++) {
        put_file(NAME, m->a, m->bytes);
        CHECK(utimensat(AT_FDCWD, NAME, (struct timespec[]){{1, 0}, {1, 0}}, 0) == 0);
        CHECK_OK(in_place_open(&j, NAME, &e));
        CHECK_OK(put_all(j, m, &e));
        put_file(i ? "new" : NAME, m->a, m->bytes);
        CHECK(i == 0 || rename("new", NAME) == 0);
        CHECK_ERR(in_place_commit(j, &e), KV_E_VALUE, CHANGED);
        CHECK(holds(NAME, m->a, m->bytes));
        check_alone();
    }
    leave_folder(NAME, NULL);
    model_free(m);
}

static int always(void)
{
    return 1;
}

TEST(in_place_interrupted)
{
    kv_err e = {0};
    model *m = model_small();
    in_place *j;
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    CHECK_OK(in_place_open(&j, NAME, &e));
    CHECK_OK(put_all(j, m, &e));
    stop_ask(always);
    CHECK_ERR(in_place_commit(j, &e), KV_E_INTERRUPTED, "interrupted");
    stop_ask(NULL);
    CHECK(holds(NAME, m->a, m->bytes));
    check_alone();
    leave_folder(NAME, NULL);
    model_free(m);
}

/* Every allocation fails in turn: the file is A and the call failed, or the next reader makes it B.
 */
TEST(in_place_without_memory)
{
    model *m = model_small();
    enter_folder();
    for (int64_t n = 1, made = n; n <= made; n++) {
        kv_err e = {0};
        put_file(NAME, m->a, m->bytes);
        mem_fail_at(0);
        mem_fail_at(-n);
        int code = change(m, NAME, &e);
        made = mem_fail_at(0);
        CHECK_INT(code, n <= made ? KV_E_MEMORY : KV_OK);
        e = (kv_err){0};
        CHECK_OK(read_it(NAME, &e));
        CHECK(holds(NAME, code ? m->a : m->b, m->bytes) || holds(NAME, m->b, m->bytes));
        check_alone();
    }
    leave_folder(NAME, NULL);
    model_free(m);
}

/* A file that is larger than the limit of the process: the journal finds it first. */
TEST(in_place_disk_full)
{
    kv_err e = {0};
    model *m = model_new(100000);
    struct rlimit no_room = {50000, RLIM_INFINITY}, old;
    model_change(m, HEADER, 60000);
    enter_folder();
    put_file(NAME, m->a, m->bytes);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    no_room.rlim_max = old.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &no_room) == 0);
    CHECK_ERR(change(m, NAME, &e), KV_E_IO, "cannot write \"" JOURNAL ".tmp\": File too large");
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(holds(NAME, m->a, m->bytes));
    check_alone();
    leave_folder(NAME, NULL);
    model_free(m);
}
