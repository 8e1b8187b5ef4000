/* Files as bytes. */
#include "checkpoint/input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "checkpoint/in_place.h"

#define PIECE (1 << 20)

/* ---- Streams --------------------------------------------------------------------------------- */

static const char *spool_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/var/tmp";
}

static int spool_error(kv_err *e, const char *doing, int errnum)
{
    file_error(e, doing, spool_folder(), errnum);
    kv_err_hint(e, "a stream is kept there while it is read: TMPDIR names another folder");
    return KV_E_IO;
}

/* A file without a name; -1: an error. */
static int temporary_file(kv_err *e)
{
    char path[PATH_MAX];
    const char *folder = spool_folder();
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) &&
        snprintf(path, sizeof path, "%s/kvstore-XXXXXX", folder) < (int)sizeof path &&
        (fd = mkostemp(path, O_CLOEXEC)) >= 0)
        unlink(path);
    if (fd < 0)
        spool_error(e, "make a temporary file in", errno);
    return fd;
}

static int write_all(int fd, const char *data, int64_t n, kv_err *e)
{
    return file_write_at(fd, "", -1, data, n, NULL)
               ? spool_error(e, "write a temporary file in", errno)
               : KV_OK;
}

/* Reads what is there, at most n bytes; 0 at the end. */
static int read_some(int fd, const char *name, char *to, int64_t n, int64_t *got, kv_err *e)
{
    ssize_t some;
    do { /* asked also where nothing is waited for: a stream may have no end */
        if (stop_check(e))
            return KV_E_INTERRUPTED;
        some = read(fd, to, (size_t)n);
    } while (some < 0 && errno == EINTR);
    *got = some;
    return some < 0 ? file_error(e, "read", name, errno) : KV_OK;
}

/* Moves what memory holds to a temporary file. */
static int spool(input *in, kv_err *e)
{
    int rc = (in->fd = temporary_file(e)) < 0 ? KV_E_IO : write_all(in->fd, in->owned, in->size, e);
    mem_free(in->owned);
    in->owned = NULL;
    in->memory = NULL;
    return rc;
}

int input_append(input *in, const void *data, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    if (in->fd < 0 && in->size + n > INPUT_MEMORY)
        rc = spool(in, e);
    if (!rc && in->fd >= 0)
        rc = write_all(in->fd, data, n, e);
    else if (!rc && !(rc = mem_grow(&in->owned, &in->cap, in->size + n, 1, e)))
        memcpy(in->owned + in->size, data, (size_t)n);
    in->memory = in->owned;
    in->size += rc ? 0 : n;
    return rc;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_path(input *in, const char *path, kv_err *e)
{
    bool is_stdin = strcmp(path, "-") == 0;
    struct stat about;
    int fd;
    do { /* a pipe without a writer is waited for */
        fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR && !stop_asked());
    if (fd < 0 && errno == EINTR)
        return stop_error(e);
    if (fd < 0 || fstat(fd, &about) != 0 || (S_ISDIR(about.st_mode) && (errno = EISDIR))) {
        bool too_many = errno == EMFILE;
        file_error(e, "read", in->name, errno);
        if (too_many)
            kv_err_hint(e, "the limit of the process is raised by: ulimit -n NUMBER");
        if (fd >= 0)
            close(fd);
        return KV_E_IO;
    }
    if (!is_stdin && (S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode))) {
        close(fd);
        return file_bad(e, KV_E_IO, in->name, "a device, which may have no end; - reads stdin");
    }
    if (S_ISREG(about.st_mode) && (!is_stdin || lseek(fd, 0, SEEK_CUR) == 0)) {
        int rc = is_stdin ? KV_OK : in_place_shared(fd, path, e);
        if (!rc && fstat(fd, &about) != 0) /* which may just have ended a change */
            rc = file_error(e, "read", in->name, errno);
        if (rc) {
            close(fd);
            return rc;
        }
        in->fd = fd;
        in->size = about.st_size;
        in->inode = about.st_ino;
        in->changed = about.st_mtim;
        return KV_OK;
    }
    /* Reads a stream to its end. */
    int64_t got = 1;
    char *piece = mem_alloc(PIECE, 1, e);
    int rc = piece ? KV_OK : KV_E_MEMORY;
    while (!rc && got > 0) {
        if (!(rc = read_some(fd, in->name, piece, PIECE, &got, e)) && got > 0)
            rc = input_append(in, piece, got, e);
    }
    mem_free(piece);
    close(fd);
    return rc;
}

int input_new(input *in, const char *name, kv_err *e)
{
    *in = (input){.fd = -1};
    in->name = mem_text(name, strlen(name), e);
    return in->name ? KV_OK : KV_E_MEMORY;
}

int input_open(input *in, const char *path, kv_err *e)
{
    int rc = input_new(in, strcmp(path, "-") == 0 ? "stdin" : path, e);
    if (!rc && (rc = open_path(in, path, e)))
        input_close(in);
    return rc;
}

int input_open_memory(input *in, const void *text, int64_t n, const char *name, kv_err *e)
{
    int rc = input_new(in, name, e);
    in->memory = text;
    in->size = n;
    return rc;
}

void input_close(input *in)
{
    if (in->fd >= 0)
        close(in->fd);
    mem_free(in->owned);
    mem_free(in->name);
    *in = (input){.fd = -1};
}

int input_read(const input *in, void *to, int64_t at, int64_t n, kv_err *e)
{
    if (in->fd < 0) {
        if (n)
            memcpy(to, in->memory + at, (size_t)n);
        return KV_OK;
    }
    return file_read_at(in->fd, in->name, at, to, n, NULL, e);
}

int input_changed(const input *in, kv_err *e)
{
    file_bad(e, KV_E_IO, in->name, "the file was changed while it was in use");
    kv_err_hint(e, "its tensors are read when they are needed; a program that writes a new file "
                   "and renames it does no harm");
    return KV_E_IO;
}

int input_check_same(const input *in, kv_err *e)
{
    struct stat now;
    if (in->fd < 0)
        return KV_OK;
    if (fstat(in->fd, &now) != 0)
        return file_error(e, "read", in->name, errno);
    if (now.st_size == in->size && now.st_mtim.tv_sec == in->changed.tv_sec &&
        now.st_mtim.tv_nsec == in->changed.tv_nsec)
        return KV_OK;
    return input_changed(in, e);
}

int64_t input_hole(const input *in, int64_t at, int64_t n)
{
    off_t data = in->fd < 0 ? at : lseek(in->fd, at, SEEK_DATA);
    if (data < 0) /* no data up to the end, or a file system that cannot tell */
        return errno == ENXIO ? n : 0;
    return at_most(data - at, n);
}

/* ---- Through a buffer ------------------------------------------------------------------------ */

#define BUFFER_BYTES ((int64_t)64 << 10)

int64_t byte_reader_left(const byte_reader *r)
{
    return r->in->size - r->at;
}

int byte_reader_look(byte_reader *r, const unsigned char **p, int64_t n, int64_t ahead, kv_err *e)
{
    if (r->at < r->begin || r->at + n > r->begin + r->bytes) {
        int64_t some = at_most(ahead > n ? ahead : n, byte_reader_left(r));
        r->bytes = 0;
        TRY(mem_grow(&r->buffer, &r->cap, some, 1, e));
        TRY(input_read(r->in, r->buffer, r->at, some, e));
        r->begin = r->at;
        r->bytes = some;
    }
    *p = r->buffer + (r->at - r->begin);
    return KV_OK;
}

int byte_reader_take(byte_reader *r, void *to, int64_t n, kv_err *e)
{
    const unsigned char *from;
    if (n > BUFFER_BYTES) {
        TRY(input_read(r->in, to, r->at, n, e));
    } else if (n) {
        TRY(byte_reader_look(r, &from, n, BUFFER_BYTES, e));
        memcpy(to, from, (size_t)n);
    }
    r->at += n;
    return KV_OK;
}

void byte_reader_release(byte_reader *r)
{
    mem_free(r->buffer);
    r->buffer = NULL;
}
