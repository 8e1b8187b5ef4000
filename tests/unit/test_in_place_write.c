/* Changing files in place: by a journal, and by clones; writers that fail. */
#include <errno.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/stop.h"
#include "in_place_model.h"

static void check_change(const model *m)
{
    IN_FOLDER(NAME, NULL);
    put_file(NAME, m->a, m->bytes);
    CHECK_OK(change(m, NAME, &e));
    check_holds(m->b, m->bytes);
    CHECK_OK(read_it(NAME, &e));
}

TEST(in_place_changes)
{
    own_model *m = model_small();
    model_change(m, HEADER, 1);       /* the first byte of the data, and the last */
    model_change(m, m->bytes - 1, 1); /* after it places that lie before */
    check_change(m);
}

TEST(in_place_changes_at_borders)
{
    const int64_t borders[] = {4096, 65536, 1 << 17, 1 << 20, (1 << 20) + 65536, 3 << 20};
    own_model *m = model_new((4 << 20) + 77);
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
    own_model *m = model_new(100);
    struct stat before, after;
    IN_FOLDER(NAME, NULL);
    put_file(NAME, m->a, m->bytes);
    CHECK(stat(NAME, &before) == 0);
    CHECK_OK(change(m, NAME, &e));
    CHECK(stat(NAME, &after) == 0 && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    check_alone();
}

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
    own_model *m = model_small();
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
}

/* A reader of A keeps it, and nobody waits for that; a session would write its store over B. */
TEST(in_place_clone_beside_others)
{
    SMALL_CHANGE();
    clone_fails = -1;
    put_file(NAME, m->a, m->bytes);
    checkpoint *c = MADE(checkpoint, checkpoint_open, NAME, NULL);
    CHECK_OK(change(m, NAME, &e));
    CHECK(holds(NAME, m->b, m->bytes));
    kv_array *kept = MADE(kv_array, checkpoint_load, c, 0);
    CHECK(memcmp(array_elements(kept), m->a + HEADER, (size_t)(m->bytes - HEADER)) == 0);
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
}

/* A second writer that opened the file before it was replaced changes the new one. */
TEST(in_place_clone_of_a_clone)
{
    own_model *m = model_small(), *next = model_new(20000);
    memcpy(next->a, m->b, (size_t)m->bytes);
    memcpy(next->b, m->b, (size_t)m->bytes);
    model_change_some(next, 70);
    clone_fails = -1;
    IN_FOLDER(NAME, NULL);
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
    own_model *m = model_new(4 << 20);
    model_change(m, HEADER, 4 << 20);
    IN_FOLDER(NAME, NULL);
    for (int times = 1; times <= 2; times++) {
        clone_fails = times == 1 ? -1 : EOPNOTSUPP;
        put_file(NAME, m->a, m->bytes);
        in_place *j = MADE(in_place, in_place_open, NAME);
        int64_t before = written();
        CHECK_OK(put_all(j, m, &e));
        CHECK_OK(in_place_commit(j, &e));
        int64_t n = written() - before;
        CHECK(n >= times * m->bytes - HEADER && n < times * m->bytes + 65536);
        CHECK(holds(NAME, m->b, m->bytes));
    }
}

TEST(in_place_open_errors)
{
    in_place *j;
    IN_FOLDER(NAME, NULL);
    CHECK_ERR(in_place_open(&j, "none", &e), KV_E_IO,
              "cannot change \"none\": No such file or directory");
    CHECK_ERR(in_place_open(&j, "/dev/null", &e), KV_E_IO,
              "cannot change \"/dev/null\": it is not a regular file");
    put_file(NAME, "1234567", 7);
    CHECK_ERR(in_place_open(&j, NAME, &e), KV_E_USAGE,
              "cannot change \"" NAME "\" in place: it has only 7 bytes");
    check_alone();
}

#define CHANGED "cannot change \"" NAME "\" in place: it was changed or replaced meanwhile"

TEST(in_place_file_changes_meanwhile)
{
    SMALL_CHANGE();
    in_place *j;
    for (int i = 0; i < 2; i++) {
        put_file(NAME, m->a, m->bytes);
        CHECK(utimensat(AT_FDCWD, NAME, (struct timespec[]){{1, 0}, {1, 0}}, 0) == 0);
        CHECK_OK(in_place_open(&j, NAME, &e));
        CHECK_OK(put_all(j, m, &e));
        put_file(i ? "new" : NAME, m->a, m->bytes);
        CHECK(i == 0 || rename("new", NAME) == 0);
        CHECK_ERR(in_place_commit(j, &e), KV_E_VALUE, CHANGED);
        check_holds(m->a, m->bytes);
    }
}

static int always(void)
{
    return 1;
}

TEST(in_place_interrupted)
{
    SMALL_CHANGE();
    for (int clone = 0; clone < 2; clone++) {
        clone_fails = clone ? -1 : EOPNOTSUPP;
        put_file(NAME, m->a, m->bytes);
        in_place *j = MADE(in_place, in_place_open, NAME);
        CHECK_OK(put_all(j, m, &e));
        stop_ask(always);
        CHECK_ERR(in_place_commit(j, &e), KV_E_INTERRUPTED, "interrupted");
        stop_ask(NULL);
        check_holds(m->a, m->bytes);
    }
}

/* Every allocation fails in turn: the file is A and the call failed, or the next reader makes it B.
 */
TEST(in_place_without_memory)
{
    SMALL_CHANGE();
    for (int64_t n = 1, made = n; n <= made; n++) {
        e = (kv_err){0};
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
}
