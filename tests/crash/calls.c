/* See calls.h. The functions stand in front of those of the C library. One thread changes files. */
#include "calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[4096];
static size_t folder_bytes; /* 0: nothing is watched */
static int log_fd = -1;
static long kill_at, fail_at, drop_at, calls, syncs;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* The functions of the system itself, for what this file does. */
static int open_plain(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}

static void begin(const char *in, const char *log)
{
    calls = syncs = 0;
    folder_bytes = in ? (size_t)snprintf(folder, sizeof folder, "%s", in) : 0;
    if (log_fd >= 0)
        close(log_fd);
    log_fd = log ? open_plain(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC) : -1;
}

__attribute__((constructor)) static void begin_with_environment(void)
{
    const char *in = getenv("CALLS_FOLDER"), *n;
    if (in)
        begin(in, getenv("CALLS_LOG"));
    kill_at = in && (n = getenv("CALLS_KILL")) ? atol(n) : 0;
    fail_at = in && (n = getenv("CALLS_FAIL")) ? atol(n) : 0;
    drop_at = in && (n = getenv("CALLS_DROP")) ? atol(n) : 0;
}

void calls_record(const char *in, const char *log)
{
    if (log)
        unlink(log);
    begin(in, log);
}

/* The name of a path in the folder, NULL if it is not there. */
static const char *name_of(const char *path, char real[4096])
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char in[4096];
    if (!folder_bytes)
        return NULL;
    snprintf(in, sizeof in, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (!realpath(slash == path ? "/" : in, real) || strcmp(real, folder) != 0)
        return NULL;
    return base;
}

static const char *name_of_fd(int fd, char real[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = folder_bytes ? readlink(link, real, 4095) : -1;
    if (n < 0)
        return NULL;
    real[n] = '\0';
    if (strcmp(real, folder) == 0)
        return "";
    bool is_in = strncmp(real, folder, folder_bytes) == 0 && real[folder_bytes] == '/' &&
                 !strchr(real + folder_bytes + 1, '/');
    return is_in ? real + folder_bytes + 1 : NULL;
}

static void put(const void *data, size_t n)
{
    if (n && syscall(SYS_write, log_fd, data, n) != (long)n)
        abort();
}

/* A call was done. */
static void done(enum call_kind kind, const char *name, const char *other, const void *data,
                 size_t n, int64_t place)
{
    if (log_fd >= 0) {
        calls_head h = {kind, (uint32_t)strlen(name), (uint32_t)strlen(other), (uint32_t)n, place};
        put(&h, sizeof h);
        put(name, h.name);
        put(other, h.other);
        put(data, n);
    }
    if (++calls == kill_at)
        kill(getpid(), SIGKILL);
}

/* Whether a call about this name fails. */
static bool fails(const char *name)
{
    if (!name || !fail_at || calls + 1 != fail_at)
        return false;
    calls++;
    errno = ENOSPC;
    return true;
}

/* ---- The functions --------------------------------------------------------------------------- */

static int open_any(const char *as, const char *path, int flags, mode_t mode)
{
    char real[4096];
    struct stat about;
    const char *name = flags & (O_CREAT | O_TRUNC) ? name_of(path, real) : NULL;
    bool was = name && stat(path, &about) == 0;
    if (fails(was ? NULL : name))
        return -1;
    int fd = ((int (*)(const char *, int, ...))next(as))(path, flags, mode);
    int error = errno;
    if (fd >= 0 && name && !was)
        done(CALL_CREATE, name, "", NULL, 0, 0);
    else if (fd >= 0 && name && flags & O_TRUNC)
        done(CALL_SIZE, name, "", NULL, 0, 0);
    errno = error;
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_any("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_any("open64", path, flags, mode);
}

static ssize_t pwrite_any(const char *as, int fd, const void *data, size_t n, off_t at)
{
    char real[4096];
    const char *name = name_of_fd(fd, real);
    if (fails(name))
        return -1;
    ssize_t rc = ((ssize_t(*)(int, const void *, size_t, off_t))next(as))(fd, data, n, at);
    if (rc > 0 && name)
        done(CALL_WRITE, name, "", data, (size_t)rc, at);
    return rc;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return pwrite_any("pwrite", fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t at)
{
    return pwrite_any("pwrite64", fd, data, n, at);
}

ssize_t write(int fd, const void *data, size_t n)
{
    char real[4096];
    const char *name = name_of_fd(fd, real);
    off_t at = name ? lseek(fd, 0, SEEK_CUR) : 0;
    if (fails(name))
        return -1;
    ssize_t rc = ((ssize_t(*)(int, const void *, size_t))next("write"))(fd, data, n);
    if (rc > 0 && name)
        done(CALL_WRITE, name, "", data, (size_t)rc, at);
    return rc;
}

static int sync_any(const char *as, int fd)
{
    char real[4096];
    const char *name = name_of_fd(fd, real);
    if (name && ++syncs == drop_at)
        return 0;
    if (fails(name))
        return -1;
    int rc = ((int (*)(int))next(as))(fd);
    if (rc == 0 && name)
        done(CALL_SYNC, name, "", NULL, 0, 0);
    return rc;
}

int fsync(int fd)
{
    return sync_any("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_any("fdatasync", fd);
}

static int size_any(const char *as, int fd, off_t size)
{
    char real[4096];
    const char *name = name_of_fd(fd, real);
    if (fails(name))
        return -1;
    int rc = ((int (*)(int, off_t))next(as))(fd, size);
    if (rc == 0 && name)
        done(CALL_SIZE, name, "", NULL, 0, size);
    return rc;
}

int ftruncate(int fd, off_t size)
{
    return size_any("ftruncate", fd, size);
}

int ftruncate64(int fd, off_t size)
{
    return size_any("ftruncate64", fd, size);
}

int rename(const char *from, const char *to)
{
    char one[4096], two[4096];
    const char *name = name_of(from, one), *other = name_of(to, two);
    if (fails(name))
        return -1;
    int rc = ((int (*)(const char *, const char *))next("rename"))(from, to);
    if (rc == 0 && name && other)
        done(CALL_RENAME, name, other, NULL, 0, 0);
    return rc;
}

int unlink(const char *path)
{
    char real[4096];
    const char *name = name_of(path, real);
    if (fails(name))
        return -1;
    int rc = ((int (*)(const char *))next("unlink"))(path);
    if (rc == 0 && name)
        done(CALL_UNLINK, name, "", NULL, 0, 0);
    return rc;
}
