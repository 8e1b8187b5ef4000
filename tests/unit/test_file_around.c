/* file_around: files of every length are what was written, whatever the file system can do. */
#include "base/file_around.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "test.h"

enum { MOST = (2 << 20) + 5000 };

static char text[MOST], again[MOST + 1];

/* Writes n bytes in pieces, and says whether the file of fd is these bytes then. fd is closed. */
static bool writes(int fd, size_t n, size_t piece)
{
    kv_err e = {0};
    FILE *f;
    CHECK(fd >= 0);
    CHECK_OK(file_around_open(&f, fd, "a", &e));
    for (size_t at = 0; at < n; at += piece) {
        size_t some = n - at < piece ? n - at : piece;
        CHECK(fwrite(text + at, 1, some, f) == some);
    }
    CHECK_INT(fclose(f), 0);
    CHECK(fsync(fd) == 0);
    CHECK_INT(fcntl(fd, F_GETFL) & O_DIRECT, 0);
    CHECK_INT(lseek(fd, 0, SEEK_END), n);
    bool same = pread(fd, again, sizeof again, 0) == (ssize_t)n && memcmp(text, again, n) == 0;
    close(fd);
    return same;
}

TEST(file_around_lengths)
{
    static const size_t lengths[] = {0, 1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, MOST};
    static const size_t pieces[] = {1009, 70000, MOST};
    char name[] = "/var/tmp/kv-around-XXXXXX";
    for (size_t i = 0; i < MOST; i++)
        text[i] = (char)(i * 31 + i / 4096);
    int disk = mkstemp(name);
    CHECK(disk >= 0 && unlink(name) == 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t j = 0; j < sizeof pieces / sizeof *pieces; j++) {
            CHECK(ftruncate(disk, 0) == 0 && lseek(disk, 0, SEEK_SET) == 0);
            CHECK(writes(dup(disk), lengths[i], pieces[j]));
            CHECK(writes(memfd_create("a", MFD_CLOEXEC), lengths[i], pieces[j]));
        }
    }
    close(disk);
}

TEST(file_around_full_disk)
{
    kv_err e = {0};
    FILE *f;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_OK(file_around_open(&f, fd, "a", &e));
    CHECK(fwrite(text, 1, 10, f) == 10); /* into the buffer */
    errno = 0;
    CHECK(fwrite(text, 1, MOST, f) < MOST && errno == ENOSPC);
    CHECK(fclose(f) == EOF && errno == ENOSPC);
    close(fd);
}

TEST(file_around_no_memory)
{
    for (int n = 1; n <= 2; n++) {
        kv_err e = {0};
        FILE *f;
        mem_fail_at(n);
        int rc = file_around_open(&f, STDOUT_FILENO, "a", &e);
        mem_fail_at(0);
        CHECK_INT(rc, KV_E_MEMORY);
    }
}
