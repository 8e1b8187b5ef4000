/* Whole files in and out. A file appears at once or not at all: it is written under another name in
 * the same folder, synced, and renamed over the old one; the folder is synced last, so that the new
 * name survives a crash too. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/kv_assert.h"
#include "base/mem.h"

void file_close_fd(int *fd)
{
    int before = errno;
    if (*fd >= 0)
        close(*fd);
    errno = before;
}

void file_close_stream(FILE **f)
{
    int before = errno;
    if (*f)
        fclose(*f);
    errno = before;
}

void file_close_dir(DIR **dir)
{
    int before = errno;
    if (*dir)
        closedir(*dir);
    errno = before;
}

bool file_is_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int file_error(kv_err *e, const char *doing, const char *path, int errnum)
{
    /* strerror follows the locale; the descriptions of this function do not. */
    const char *reason = strerrordesc_np(errnum);
    return kv_err_set(e, KV_E_IO, "cannot %s \"%s\": %s", doing, path,
                      reason ? reason : "Unknown error");
}

int file_write_at(int fd, const char *name, int64_t at, const void *data, int64_t n, kv_err *e)
{
    const char *from = data;
    bool touched = false;
    while (n > 0) {
        ssize_t put = at < 0 ? write(fd, from, (size_t)n) : pwrite(fd, from, (size_t)n, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EFAULT && !touched) {
            /* Reads a byte of every page. */
            for (int64_t i = 0; i < n; i += 4096)
                (void)*(const volatile char *)(from + i);
            if (n > 0)
                (void)*(const volatile char *)(from + n - 1);
            touched = true;
            continue;
        }
        if (put == 0)
            errno = EIO;
        if (put <= 0)
            return file_error(e, "write", name, errno);
        from += put;
        at += at < 0 ? 0 : put;
        n -= put;
    }
    return KV_OK;
}

int file_read_at(int fd, const char *name, int64_t at, void *to, int64_t n, int64_t *got, kv_err *e)
{
    int64_t done = 0;
    ssize_t some = 1;
    for (; done < n && some != 0; done += some > 0 ? some : 0) {
        some = pread(fd, (char *)to + done, (size_t)(n - done), at + done);
        if (some < 0 && errno != EINTR)
            return file_error(e, "read", name, errno);
    }
    if (got)
        *got = done;
    else if (done < n)
        return file_bad(e, KV_E_IO, name, "the file became shorter while it was read");
    return KV_OK;
}

int file_sync(int fd)
{
    int rc, tries = 0;
    do {
        rc = fsync(fd);
    } while (rc != 0 && errno == EINTR && ++tries < 100);
    return rc;
}

int file_sync_folder(const char *path, kv_err *e)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int rc = KV_OK;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && file_sync(fd) != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
        rc = file_error(e, "write", folder, errno);
    if (fd >= 0)
        close(fd);
    return rc;
}

int file_put(FILE *f, const char *name, const void *data, size_t n, kv_err *e)
{
    errno = 0;
    if (n == 0 || fwrite(data, 1, n, f) == n)
        return KV_OK;
    return file_error(e, "write", name, errno ? errno : EIO);
}

int file_bad(kv_err *e, kv_code code, const char *path, const char *fmt, ...)
{
    char text[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return kv_err_set(e, code, "%s: %s", path, text);
}

/* ---- Reading ---------------------------------------------------------------------------- */

int file_look(const char *path, bool *there, kv_err *e)
{
    struct stat about;
    *there = stat(path, &about) == 0;
    if (!*there)
        return errno == ENOENT ? KV_OK : file_error(e, "read", path, errno);
    if (S_ISDIR(about.st_mode))
        return file_error(e, "read", path, EISDIR);
    return S_ISREG(about.st_mode)
               ? KV_OK
               : kv_err_set(e, KV_E_IO, "cannot read \"%s\": it is not a regular file", path);
}

/* Reads fd to its end into *text, which has room for cap bytes. */
static int read_all(int fd, const char *path, char **text, size_t *n, int64_t cap, size_t most,
                    kv_err *e)
{
    for (;;) {
        if (*n > most)
            return kv_err_set(e, KV_E_VALUE,
                              "\"%s\" is larger than %zu MB, which is the most for a text", path,
                              most >> 20);
        TRY(mem_grow(text, &cap, (int64_t)*n + 2, 1, e));
        ssize_t got = read(fd, *text + *n, (size_t)cap - *n - 1);
        if (got < 0 && errno == EINTR)
            return kv_err_set(e, KV_E_INTERRUPTED, "interrupted while reading \"%s\"", path);
        if (got < 0)
            return file_error(e, "read", path, errno);
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    (*text)[*n] = '\0';
    return KV_OK;
}

static int read_file(const char *path, char **text, size_t *n, size_t most, kv_err *e)
{
    *text = NULL;
    *n = 0;
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file_error(e, "read", path, errno);

    /* The size is only where to begin: files may grow, and those of /proc say 0. */
    struct stat about;
    int64_t cap = 0;
    int rc = KV_OK;
    if (fstat(fd, &about) == 0) {
        if (S_ISDIR(about.st_mode))
            rc = file_error(e, "read", path, EISDIR);
        else if (!is_stdin && S_ISREG(about.st_mode))
            rc = mem_grow(text, &cap, about.st_size + 2, 1, e);
    }
    if (!rc)
        rc = read_all(fd, path, text, n, cap, most, e);
    if (!is_stdin)
        close(fd);
    if (rc) {
        mem_free(*text);
        *text = NULL;
        *n = 0;
    }
    return rc;
}

int file_read(const char *path, char **text, size_t *n, kv_err *e)
{
    return read_file(path, text, n, SIZE_MAX, e);
}

int file_read_text(const char *path, char **text, size_t *n, kv_err *e)
{
    return read_file(path, text, n, FILE_TEXT_MAX, e);
}

/* ---- Writing ---------------------------------------------------------------------------- */

#define MAX_LINKS 40 /* as the kernel */

/* The length of the folder's part of a path, the last "/" included; 0 when there is none. */
static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

int file_follow(const char *path, char out[PATH_MAX], kv_err *e)
{
    char next[PATH_MAX];
    struct stat about;
    ssize_t n;
    if (strlen(path) >= PATH_MAX)
        return file_error(e, "write", path, ENAMETOOLONG);
    strcpy(out, path);
    for (int links = 0; (n = readlink(out, next, sizeof next - 1)) >= 0; links++) {
        size_t folder = next[0] == '/' ? 0 : (size_t)folder_length(out);
        if (links == MAX_LINKS || folder + (size_t)n >= PATH_MAX)
            return file_error(e, "write", path, links == MAX_LINKS ? ELOOP : ENAMETOOLONG);
        next[n] = '\0';
        memcpy(out + folder, next, (size_t)n + 1);
    }
    if (errno != EINVAL && errno != ENOENT) /* EINVAL: not a link */
        return file_error(e, "write", path, errno);
    /* The target of /dev/stdout may have no path, such as "pipe:[7]". */
    if (stat(path, &about) == 0 && stat(out, &about) != 0)
        strcpy(out, path);
    return KV_OK;
}

/* Removes an older PATH.part, unless another process writes it. */
static int remove_part(const char *temp, kv_err *e)
{
    int rc = KV_OK, fd = open(temp, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        rc = kv_err_set(e, KV_E_BUSY, "another process writes \"%s\"", temp);
    else if (unlink(temp) != 0 && errno != ENOENT)
        rc = file_error(e, "write", temp, errno);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Creates a new file beside out->path and sets out->temp: PATH.part, or a name that is short and
 * hidden, and does not contain that of the file, which may already have the greatest length. */
static int create_temp(file_out *out, mode_t mode, int *fd, kv_err *e)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    size_t size = strlen(out->path) + 64;
    own_mem char *temp = mem_alloc((int64_t)size, 1, e);
    if (!temp)
        return KV_E_MEMORY;
    if (out->part) {
        snprintf(temp, size, "%s.part", out->path);
        TRY(remove_part(temp, e));
        *fd = open(temp, flags, mode);
    }
    for (int i = 0; i < 10000 && !out->part; i++) {
        snprintf(temp, size, "%.*s.kv-%ld-%d.tmp", folder_length(out->path), out->path,
                 (long)getpid(), i);
        *fd = open(temp, flags, mode);
        if (*fd >= 0 || errno != EEXIST)
            break;
    }
    if (*fd < 0)
        return file_error(e, "write", out->name, errno);
    /* The lock keeps file_out_clean away until the file is closed. Some disks have no locks. */
    (void)flock(*fd, LOCK_EX | LOCK_NB);
    out->temp = temp;
    temp = NULL;
    return KV_OK;
}

int file_take_owner(int fd, const struct stat *old, const char *what, const char *name, kv_err *e)
{
    struct stat made;
    if (fstat(fd, &made) != 0)
        return file_error(e, "write", name, errno);
    if ((made.st_uid == old->st_uid && made.st_gid == old->st_gid) ||
        fchown(fd, old->st_uid, old->st_gid) == 0)
        return KV_OK;
    kv_err_set(e, KV_E_IO,
               "cannot write \"%s\": it belongs to user %lu and group %lu, and a new %s cannot be "
               "given to them: %s",
               name, (unsigned long)old->st_uid, (unsigned long)old->st_gid, what,
               strerrordesc_np(errno));
    return kv_err_hint(e, "write another %s, or remove this one first", what), KV_E_IO;
}

/* Gives the new file the owner, the group and the mode of the old one. Until then no other user can
 * open it, because an open file can be read even if its mode forbids it later. */
static int take_over(const file_out *out, int fd, const struct stat *old, kv_err *e)
{
    int rc = file_take_owner(fd, old, "file", out->name, e);
    if (!rc && fchmod(fd, old->st_mode & 07777) != 0)
        rc = file_error(e, "write", out->name, errno);
    return rc;
}

/* Opens what out->path names and sets out->f; about is what stands there, if anything. */
static int open_target(file_out *out, const struct stat *about, kv_err *e)
{
    int fd = -1;
    if (about && S_ISDIR(about->st_mode))
        return file_error(e, "write", out->name, EISDIR);
    if (about && !S_ISREG(about->st_mode)) {
        fd = open(out->path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return file_error(e, "write", out->name, errno);
    } else {
        /* A file that its owner protected is not replaced behind the owner's back. */
        if (about && access(out->path, W_OK) != 0)
            return file_error(e, "write", out->name, errno);
        mode_t mode = about ? about->st_mode & 0600 : 0666;
        int rc = create_temp(out, mode, &fd, e);
        if (!rc && about && (rc = take_over(out, fd, about, e)))
            close(fd);
        if (rc)
            return rc;
    }
    out->f = fdopen(fd, "wb");
    if (out->f)
        return KV_OK;
    int rc = file_error(e, "write", out->name, errno);
    close(fd);
    return rc;
}

static int open_out(file_out *out, const char *path, bool part, kv_err *e)
{
    *out = (file_out){.part = part};
    out->name = mem_text(path, strlen(path), e);
    if (!out->name)
        return KV_E_MEMORY;
    if (strcmp(path, "-") == 0) {
        out->f = stdout;
        return KV_OK;
    }
    char target[PATH_MAX];
    struct stat about;
    int rc = file_follow(path, target, e);
    bool exists = !rc && stat(target, &about) == 0;
    if (!rc && !exists && (errno != ENOENT || !path[0]))
        rc = file_error(e, "write", path, errno);
    if (!rc && !(out->path = mem_text(target, strlen(target), e)))
        rc = KV_E_MEMORY;
    if (!rc)
        rc = open_target(out, exists ? &about : NULL, e);
    if (rc)
        file_out_abandon(out);
    return rc;
}

int file_out_open(file_out *out, const char *path, kv_err *e)
{
    return open_out(out, path, false, e);
}

int file_out_open_part(file_out *out, const char *path, kv_err *e)
{
    return open_out(out, path, true, e);
}

static void release(file_out *out)
{
    mem_free(out->temp);
    mem_free(out->path);
    mem_free(out->name);
    *out = (file_out){0};
}

/* Everything to the disk. */
static int flush(file_out *out, kv_err *e)
{
    int earlier = errno;
    errno = 0;
    /* After a write that failed, a flush usually says again why; else errno may still know. */
    if (ferror(out->f) | (fflush(out->f) != 0) ||
        (out->temp && !out->unsynced && file_sync(fileno(out->f)) != 0))
        return file_error(e, "write", out->name, errno ? errno : earlier ? earlier : EIO);
    return KV_OK;
}

static int shut(file_out *out, int rc, kv_err *e)
{
    FILE *f = out->f;
    out->f = NULL;
    if (f && f != stdout && fclose(f) != 0 && !rc)
        rc = file_error(e, "write", out->name, errno);
    return rc;
}

int file_out_sync(file_out *out, kv_err *e)
{
    return out->f ? shut(out, flush(out, e), e) : KV_OK;
}

int file_out_commit(file_out *out, kv_err *e)
{
    kv_assert(out->name, "a file is committed that was not opened, or ended already");
    int rc = out->f ? flush(out, e) : KV_OK;
    /* A temporary file keeps its lock, and so stays open, until it has its name. */
    if (!out->temp || rc)
        rc = shut(out, rc, e);
    if (out->temp) {
        if (!rc && rename(out->temp, out->path) != 0)
            rc = file_error(e, "write", out->name, errno);
        if (rc && !out->part)
            unlink(out->temp);
        if (!rc && !out->unsynced)
            (void)file_sync_folder(out->path, NULL); /* the data are complete under their name */
        (void)shut(out, KV_E_IO, NULL); /* all is on the disk already */
    }
    release(out);
    return rc;
}

void file_out_leave(file_out *out)
{
    (void)shut(out, KV_E_IO, NULL);
    release(out);
}

/* ---- Leftovers of killed writers ------------------------------------------------------------- */

#define NAMES_MAX   4096 /* so that a folder with very many files costs a few milliseconds */
/* Seconds; for files of a process whose number another one has now. A clock that is set back or
 * forth must not make a file old that a writer is about to rename. */
#define STALE_AFTER 86400

/* The process in .kv-PID-N.tmp; 0: the name is another one. */
static pid_t writer_of(const char *name)
{
    const char *digits = "0123456789";
    if (strncmp(name, ".kv-", 4) != 0)
        return 0;
    size_t n = strspn(name += 4, digits);
    if (n == 0 || n > 9 || name[n] != '-')
        return 0;
    size_t m = strspn(name + n + 1, digits);
    return m > 0 && strcmp(name + n + 1 + m, ".tmp") == 0 ? (pid_t)atol(name) : 0;
}

/* A writer holds a lock while it writes, but has closed some files before they get their names, and
 * it may be of another machine. */
static bool is_stale(pid_t writer, const struct stat *about)
{
    return time(NULL) - about->st_mtime >= STALE_AFTER || (kill(writer, 0) != 0 && errno == ESRCH);
}

/* Removes the files of a folder and the folder; `above` and name lead to it. It takes no memory,
 * because that may be why the folder has to go. */
static bool remove_folder(int above, const char *name)
{
    _Alignas(struct dirent64) char entries[4096];
    int why = 0;
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = getdents64(fd, entries, sizeof entries)) > 0;) {
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            if (unlinkat(fd, entry->d_name, 0) != 0 && errno != EISDIR) /* "." and ".." too */
                why = errno;
            at += entry->d_reclen;
        }
    }
    if (fd >= 0)
        close(fd);
    else
        why = errno;
    if (unlinkat(above, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    errno = why ? why : errno;
    return false;
}

bool file_remove_folder(const char *path)
{
    return remove_folder(AT_FDCWD, path);
}

static void remove_stale(int folder, const char *name, pid_t writer)
{
    struct stat about, named;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &about) == 0 && (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) &&
        is_stale(writer, &about) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == about.st_ino) {
        if (S_ISDIR(about.st_mode))
            remove_folder(folder, name);
        else
            unlinkat(folder, name, 0);
    }
    close(fd);
}

void file_out_clean(const file_out *out)
{
    if (out->temp)
        file_clean_beside(out->path);
}

void file_clean_beside(const char *path)
{
    int n = folder_length(path);
    char *name = n ? mem_text(path, (size_t)n, NULL) : mem_text(".", 1, NULL);
    DIR *folder = name ? opendir(name) : NULL;
    const struct dirent *entry;
    for (int i = 0; folder && i < NAMES_MAX && (entry = readdir(folder)); i++) {
        pid_t writer = writer_of(entry->d_name);
        if (writer > 0)
            remove_stale(dirfd(folder), entry->d_name, writer);
    }
    if (folder)
        closedir(folder);
    mem_free(name);
}

void file_out_abandon(file_out *out)
{
    if (out->temp)
        unlink(out->temp);
    if (out->f && out->f != stdout)
        fclose(out->f);
    release(out);
}

/* O_DIRECT: the kernel writes whole blocks straight from aligned memory. So data is gathered in a
 * buffer of many blocks, small enough for the processor's cache. The last part of a file,
 * which does not fill the buffer, is written through the page cache. */

enum {
    BLOCK = 4096,    /* what O_DIRECT needs on common disks; where it needs more, EINVAL says so */
    BUFFER = 1 << 20 /* bytes; a multiple of BLOCK */
};

typedef struct around {
    int fd;
    bool direct;           /* O_DIRECT is set */
    size_t used;           /* bytes in the buffer */
    char *memory, *buffer; /* buffer: the first block in memory */
} around;

static void set_direct(around *a, bool on)
{
    int flags = fcntl(a->fd, F_GETFL), want = on ? flags | O_DIRECT : flags & ~O_DIRECT;
    a->direct = flags >= 0 && fcntl(a->fd, F_SETFL, want) == 0 && on;
}

/* Writes the buffer. Once the file system refuses a direct write, all others go through the page
 * cache. Returns false with errno. */
static bool write_buffer(around *a)
{
    for (size_t at = 0; at < a->used;) {
        ssize_t n = write(a->fd, a->buffer + at, a->used - at);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno == EINVAL && a->direct)
            set_direct(a, false);
        else if (n == 0 || errno != EINTR)
            return false;
    }
    a->used = 0;
    return true;
}

/* The stream's write function: returns n, or 0 with errno. */
static ssize_t put(void *cookie, const char *data, size_t n)
{
    around *a = cookie;
    for (size_t at = 0; at < n;) {
        size_t some = n - at < BUFFER - a->used ? n - at : BUFFER - a->used;
        memcpy(a->buffer + a->used, data + at, some);
        a->used += some;
        at += some;
        if (a->used == BUFFER && !write_buffer(a))
            return 0;
    }
    return (ssize_t)n;
}

/* The stream's close function. */
static int end(void *cookie)
{
    around *a = cookie;
    set_direct(a, false);
    bool good = write_buffer(a);
    int why = errno;
    mem_free(a->memory);
    mem_free(a);
    errno = why;
    return good ? 0 : EOF;
}

int file_around_open(FILE **out, int fd, const char *path, kv_err *e)
{
    around *a = mem_zalloc(1, sizeof *a, e);
    char *memory = a ? mem_alloc(BUFFER + BLOCK, 1, e) : NULL;
    const cookie_io_functions_t to = {.write = put, .close = end};
    *out = memory ? fopencookie(a, "wb", to) : NULL;
    if (!*out) {
        int rc = memory ? file_error(e, "write", path, errno) : KV_E_MEMORY;
        mem_free(memory);
        mem_free(a);
        return rc;
    }
    *a = (around){.fd = fd, .memory = memory, .buffer = memory + BLOCK - (uintptr_t)memory % BLOCK};
    set_direct(a, true);
    setvbuf(*out, NULL, _IONBF, 0); /* the buffer is here */
    return KV_OK;
}
