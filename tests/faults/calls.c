/* See calls.h. The functions stand in front of those of the C library. One thread changes files. */
#include "calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "faults.h"

static char folder[4096];
static size_t folder_bytes; /* 0: nothing is watched */
static int log_fd = -1;
static long kill_at, fail_at, drop_at, calls, syncs;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* Calls the function of the C library that this one stands in front of. */
#define NEXT(type, name, ...) ((type)next(name))(__VA_ARGS__)

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

/* ---- Changes in the folder ------------------------------------------------------------------- */

/* What stands behind the folder in an absolute path, NULL if it is not there. */
static const char *below(const char *path)
{
    if (strncmp(path, folder, folder_bytes) != 0)
        return NULL;
    return path[folder_bytes] == '/' ? path + folder_bytes + 1 : path[folder_bytes] ? NULL : "";
}

static ssize_t path_of_fd(int fd, char path[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    path[n > 0 ? n : 0] = '\0';
    return n;
}

/* The path of a file below the folder; `above` as openat has it. NULL if it is not there. */
static const char *name_at(int above, const char *path, char real[4096])
{
    char in[4096];
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    if (!folder_bytes)
        return NULL;
    if (slash && !base[0]) { /* m/ */
        snprintf(in, sizeof in, "%.*s", (int)(slash - path), path);
        return name_at(above, in, real);
    }
    if (above != AT_FDCWD && path[0] != '/') {
        if (slash || path_of_fd(above, in) < 0)
            return NULL;
    } else {
        snprintf(in, sizeof in, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    }
    if (!realpath(slash == path ? "/" : in, real) || strlen(real) + strlen(base) > 4000)
        return NULL;
    strcat(strcat(real, "/"), base);
    return below(real);
}

static const char *name_of(const char *path, char real[4096])
{
    return name_at(AT_FDCWD, path, real);
}

static const char *name_of_fd(int fd, char real[4096])
{
    if (!folder_bytes || path_of_fd(fd, real) <= 0)
        return NULL;
    const char *ending = strstr(real, " (deleted)"); /* it has no name in the folder any more */
    return ending && !ending[10] ? NULL : below(real);
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
    int error = errno;
    if (log_fd >= 0) {
        calls_head h = {kind, (uint32_t)strlen(name), (uint32_t)strlen(other), (uint32_t)n, place};
        put(&h, sizeof h);
        put(name, h.name);
        put(other, h.other);
        put(data, n);
    }
    if (++calls == kill_at)
        kill(getpid(), SIGKILL);
    errno = error;
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

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_any(int above, const char *path, int flags, mode_t mode)
{
    char real[4096];
    struct stat about;
    if (faults_hits(FAULT_OPEN, path, -1))
        return -1;
    const char *name = flags & (O_CREAT | O_TRUNC) && (flags & O_TMPFILE) != O_TMPFILE
                           ? name_at(above, path, real)
                           : NULL;
    bool was = name && syscall(SYS_newfstatat, above, path, &about, 0) == 0;
    if (fails(was ? NULL : name))
        return -1;
    int fd = (int)syscall(SYS_openat, above, path, flags, mode);
    if (fd >= 0 && name && !was)
        done(CALL_CREATE, name, "", NULL, 0, 0);
    else if (fd >= 0 && name && flags & O_TRUNC)
        done(CALL_SIZE, name, "", NULL, 0, 0);
    return fd;
}

#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                           \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode = va_arg(ap, mode_t);                                                                 \
        va_end(ap);                                                                                \
    }

int open(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(AT_FDCWD, path, flags, mode);
}

int openat(int above, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(above, path, flags, mode);
}

int mkostemp(char *path, int flags)
{
    return faults_hits(FAULT_OPEN, path, -1)
               ? -1
               : NEXT(int (*)(char *, int), "mkostemp", path, flags);
}

char *mkdtemp(char *path)
{
    return faults_hits(FAULT_OPEN, path, -1) ? NULL : NEXT(char *(*)(char *), "mkdtemp", path);
}

int memfd_create(const char *name, unsigned flags)
{
    return faults_hits(FAULT_OPEN, name, -1)
               ? -1
               : NEXT(int (*)(const char *, unsigned), "memfd_create", name, flags);
}

int mkdir(const char *path, mode_t mode)
{
    char real[4096];
    const char *name = name_of(path, real);
    if (faults_hits(FAULT_OPEN, path, -1) || fails(name))
        return -1;
    int rc = NEXT(int (*)(const char *, mode_t), "mkdir", path, mode);
    if (rc == 0 && name)
        done(CALL_FOLDER, name, "", NULL, 0, 0);
    return rc;
}

DIR *opendir(const char *path)
{
    return faults_hits(FAULT_OPEN, path, -1) ? NULL
                                             : NEXT(DIR * (*)(const char *), "opendir", path);
}

/* ---- Reading and looking --------------------------------------------------------------------- */

struct dirent *readdir(DIR *d)
{
    return faults_hits(FAULT_READ, NULL, dirfd(d)) ? NULL
                                                   : NEXT(struct dirent * (*)(DIR *), "readdir", d);
}

ssize_t getdents64(int fd, void *entries, size_t n)
{
    return faults_hits(FAULT_READ, NULL, fd) ? -1 : syscall(SYS_getdents64, fd, entries, n);
}

ssize_t read(int fd, void *data, size_t n)
{
    return faults_hits(FAULT_READ, NULL, fd) ? -1 : syscall(SYS_read, fd, data, n);
}

ssize_t pread(int fd, void *data, size_t n, off_t at)
{
    return faults_hits(FAULT_READ, NULL, fd) ? -1 : syscall(SYS_pread64, fd, data, n, at);
}

/* What a hardened build calls in the place of these (-D_FORTIFY_SOURCE), where a size or flags are
 * known when it runs only. */
int __open_2(const char *path, int flags);
int __openat_2(int above, const char *path, int flags);
ssize_t __read_chk(int fd, void *data, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *data, size_t n, off_t at, size_t room);

int __open_2(const char *path, int flags)
{
    return open_any(AT_FDCWD, path, flags, 0);
}

int __openat_2(int above, const char *path, int flags)
{
    return open_any(above, path, flags, 0);
}

ssize_t __read_chk(int fd, void *data, size_t n, size_t room)
{
    return n > room ? abort(), -1 : read(fd, data, n);
}

ssize_t __pread_chk(int fd, void *data, size_t n, off_t at, size_t room)
{
    return n > room ? abort(), -1 : pread(fd, data, n, at);
}

void *mmap(void *where, size_t n, int protection, int flags, int fd, off_t at)
{
    return faults_hits(FAULT_MAP, NULL, fd)
               ? MAP_FAILED
               /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
               : (void *)syscall(SYS_mmap, where, n, protection, flags, fd, at);
}

int stat(const char *path, struct stat *about)
{
    return faults_hits(FAULT_STAT, path, -1)
               ? -1
               : (int)syscall(SYS_newfstatat, AT_FDCWD, path, about, 0);
}

int lstat(const char *path, struct stat *about)
{
    return faults_hits(FAULT_STAT, path, -1)
               ? -1
               : (int)syscall(SYS_newfstatat, AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *about)
{
    return faults_hits(FAULT_STAT, NULL, fd) ? -1 : (int)syscall(SYS_fstat, fd, about);
}

int fstatat(int above, const char *path, struct stat *about, int flags)
{
    return faults_hits(FAULT_STAT, path, -1)
               ? -1
               : (int)syscall(SYS_newfstatat, above, path, about, flags);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* A disk that is full takes a part first, but no part of a sector. */
#define SECTOR 512

static ssize_t write_some(int fd, const void *data, size_t n, off_t at, bool at_end)
{
    char real[4096];
    const char *name = name_of_fd(fd, real);
    off_t place = !at_end ? at : name ? lseek(fd, 0, SEEK_CUR) : 0;
    bool full = fd != STDERR_FILENO && faults_hits(FAULT_WRITE, NULL, fd);
    int error = errno;
    if (fails(name) || (full && (n < SECTOR || error != ENOSPC))) {
        errno = full ? error : errno;
        return full && error == 0 ? 0 : -1;
    }
    n = full ? n / 2 : n;
    ssize_t rc = at_end ? syscall(SYS_write, fd, data, n) : syscall(SYS_pwrite64, fd, data, n, at);
    if (rc > 0 && name)
        done(CALL_WRITE, name, "", data, (size_t)rc, place);
    if (full)
        errno = error;
    return full ? -1 : rc;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return write_some(fd, data, n, at, false);
}

ssize_t write(int fd, const void *data, size_t n)
{
    return write_some(fd, data, n, 0, true);
}

static int sync_any(long call, int fd)
{
    char real[4096];
    const char *name = name_of_fd(fd, real);
    if (name && ++syncs == drop_at)
        return 0;
    if (faults_hits(FAULT_SYNC, NULL, fd) || fails(name))
        return -1;
    int rc = (int)syscall(call, fd);
    if (rc == 0 && name)
        done(CALL_SYNC, name, "", NULL, 0, 0);
    return rc;
}

int fsync(int fd)
{
    return sync_any(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_any(SYS_fdatasync, fd);
}

int ftruncate(int fd, off_t size)
{
    char real[4096];
    const char *name = name_of_fd(fd, real);
    if (faults_hits(FAULT_SIZE, NULL, fd) || fails(name))
        return -1;
    int rc = (int)syscall(SYS_ftruncate, fd, size);
    if (rc == 0 && name)
        done(CALL_SIZE, name, "", NULL, 0, size);
    return rc;
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    char real[4096];
    struct stat about;
    const char *name = name_of_fd(fd, real);
    if (faults_hits(FAULT_SIZE, NULL, fd) || fails(name))
        return -1;
    int rc = (int)syscall(SYS_fallocate, fd, mode, at, size);
    if (rc == 0 && name && mode == 0 && syscall(SYS_fstat, fd, &about) == 0)
        done(CALL_SIZE, name, "", NULL, 0, about.st_size);
    return rc;
}

/* Whether the file became a copy of the other. */
static int copy_file(int to, int from)
{
    char real[4096];
    struct stat about;
    const char *name = name_of_fd(to, real);
    if (fails(name))
        return -1;
    faults_pause();
    char *data = syscall(SYS_fstat, from, &about) == 0 ? malloc((size_t)about.st_size) : NULL;
    faults_go_on();
    if (!data || syscall(SYS_pread64, from, data, about.st_size, 0) != about.st_size ||
        syscall(SYS_pwrite64, to, data, about.st_size, 0) != about.st_size)
        abort();
    if (name)
        done(CALL_WRITE, name, "", data, (size_t)about.st_size, 0);
    free(data);
    return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    const char *how = request == FICLONE ? getenv("CALLS_CLONE") : NULL;
    long other = va_arg(ap, long);
    va_end(ap);
    if (!how)
        return (int)syscall(SYS_ioctl, fd, request, other);
    if (strcmp(how, "copy") == 0)
        return copy_file(fd, (int)other);
    errno = atoi(how);
    return -1;
}

/* Files in memory are tried as those of a disk, which are written with more calls. */
int fstatfs(int fd, struct statfs *about)
{
    int rc = (int)syscall(SYS_fstatfs, fd, about);
    if (rc == 0 && about->f_type == TMPFS_MAGIC)
        about->f_type = EXT4_SUPER_MAGIC;
    return rc;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int rename_any(const char *from, const char *to, unsigned flags)
{
    char one[4096], two[4096];
    const char *name = name_of(from, one), *other = name_of(to, two);
    if (faults_hits(FAULT_RENAME, from, -1) || fails(name))
        return -1;
    int rc = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
    if (rc == 0 && name && other)
        done(CALL_RENAME, name, other, NULL, 0, flags & RENAME_EXCHANGE ? 1 : 0);
    return rc;
}

int rename(const char *from, const char *to)
{
    return rename_any(from, to, 0);
}

int renameat2(int from_above, const char *from, int to_above, const char *to, unsigned flags)
{
    if (from_above != AT_FDCWD || to_above != AT_FDCWD)
        abort(); /* nothing does that */
    return rename_any(from, to, flags);
}

int linkat(int from_above, const char *from, int to_above, const char *to, int flags)
{
    char one[4096], two[4096];
    const char *name = name_at(from_above, from, one), *other = name_at(to_above, to, two);
    if (faults_hits(FAULT_RENAME, from, -1) || fails(other))
        return -1;
    int rc = (int)syscall(SYS_linkat, from_above, from, to_above, to, flags);
    if (rc == 0 && name && other)
        done(CALL_LINK, name, other, NULL, 0, 0);
    return rc;
}

static int unlink_any(int above, const char *path, int flags)
{
    char real[4096];
    const char *name = name_at(above, path, real);
    if (fails(name))
        return -1;
    int rc = (int)syscall(SYS_unlinkat, above, path, flags);
    if (rc == 0 && name)
        done(CALL_UNLINK, name, "", NULL, 0, 0);
    return rc;
}

int unlink(const char *path)
{
    return unlink_any(AT_FDCWD, path, 0);
}

int unlinkat(int above, const char *path, int flags)
{
    return unlink_any(above, path, flags);
}

int rmdir(const char *path)
{
    return unlink_any(AT_FDCWD, path, AT_REMOVEDIR);
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* Those made here, for fileno. */
#define STREAMS 64
static struct {
    FILE *f;
    int fd;
} streams[STREAMS];

static ssize_t stream_read(void *cookie, char *data, size_t n)
{
    return read((int)(intptr_t)cookie, data, n);
}

static ssize_t stream_write(void *cookie, const char *data, size_t n)
{
    size_t put = 0;
    while (put < n) {
        ssize_t rc = write((int)(intptr_t)cookie, data + put, n - put);
        if (rc < 0)
            break;
        put += (size_t)rc;
    }
    return (ssize_t)put;
}

static int stream_seek(void *cookie, off64_t *at, int whence)
{
    off_t to = lseek((int)(intptr_t)cookie, *at, whence);
    if (to >= 0)
        *at = to;
    return to < 0 ? -1 : 0;
}

static int stream_close(void *cookie)
{
    for (int i = 0; i < STREAMS; i++)
        if (streams[i].f && streams[i].fd == (int)(intptr_t)cookie)
            streams[i].f = NULL;
    return close((int)(intptr_t)cookie);
}

FILE *fdopen(int fd, const char *mode)
{
    static const cookie_io_functions_t over = {stream_read, stream_write, stream_seek,
                                               stream_close};
    int i = 0;
    while (i < STREAMS && streams[i].f)
        i++;
    if (i == STREAMS)
        abort();
    FILE *f = fopencookie((void *)(intptr_t)fd, mode, over); /* NOLINT(performance-no-int-to-ptr) */
    if (f) {
        streams[i].f = f;
        streams[i].fd = fd;
    }
    return f;
}

FILE *fopen(const char *path, const char *mode)
{
    bool plus = strchr(mode, '+') != NULL;
    int flags = mode[0] == 'r'   ? (plus ? O_RDWR : O_RDONLY)
                : mode[0] == 'w' ? (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC
                                 : (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND;
    int fd = open_any(AT_FDCWD, path, flags | (strchr(mode, 'e') ? O_CLOEXEC : 0), 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, mode);
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

int fileno(FILE *f)
{
    for (int i = 0; i < STREAMS; i++)
        if (streams[i].f == f)
            return streams[i].fd;
    return NEXT(int (*)(FILE *), "fileno", f);
}
