/* Streams of fopencookie over files, which look at the interrupt flag: before each piece that is
 * read or written, and after a read that a signal ended. */
#include "files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "term/line.h"
#include "term/terminal.h"

/* ---- Reading ---- */

/* Reading files of data. The stream that readers get takes its bytes through read_some, which looks
 * at the interrupt flag before each piece and after a read that a signal ended. */

/* Bytes that are read at a time. */
#define PIECE 65536

/* Reads as read(2) does, but only signals that interrupt the session end it. */
static ssize_t read_some(datafile *d, char *out, size_t n)
{
    for (;;) {
        if (session_interrupted(d->s, NULL)) {
            d->interrupted = true;
            errno = EINTR;
            return -1;
        }
        ssize_t got = read(d->fd, out, n);
        if (got > 0)
            progress_step(d->done += got);
        if (got >= 0 || errno != EINTR)
            return got;
    }
}

static ssize_t on_raw_read(void *cookie, char *out, size_t n)
{
    datafile *d = cookie;
    size_t there = d->to - d->from;
    if (there == 0)
        return read_some(d, out, n);
    n = n < there ? n : there;
    memcpy(out, d->ahead + d->from, n);
    d->from += n;
    return (ssize_t)n;
}

static ssize_t on_read(void *cookie, char *out, size_t n)
{
    datafile *d = cookie;
    return d->unpacks ? gunzip_read(d->unpacks, out, n, on_raw_read, d) : on_raw_read(d, out, n);
}

/* Looks at the first bytes of a file, which may be packed. */
static int look_ahead(datafile *d, kv_err *e)
{
    ssize_t got = d->regular && !d->is_stdin ? read_some(d, d->ahead, PIECE) : 0;
    d->to = got > 0 ? (size_t)got : 0;
    return d->to > 2 && memcmp(d->ahead, "\x1F\x8B\x08", 3) == 0
               ? gunzip_new(&d->unpacks, e)
               : KV_OK;
}

static int open_fd(datafile *d, const char *path, kv_err *e)
{
    d->fd = open(path, O_RDONLY | O_CLOEXEC);
    /* A pipe without a writer is waited for. */
    while (d->fd < 0 && errno == EINTR) {
        if (session_interrupted(d->s, e))
            return KV_E_INTERRUPTED;
        d->fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    return d->fd < 0 ? file_error(e, "read", path, errno) : KV_OK;
}

static void release(datafile *d)
{
    if (d->f)
        fclose(d->f);
    if (!d->is_stdin)
        close(d->fd);
    gunzip_free(d->unpacks);
    mem_free(d->ahead);
}

int datafile_open(datafile *d, session *s, const char *path, kv_err *e)
{
    bool is_stdin = strcmp(path, "-") == 0;
    *d = (datafile){
        .name = is_stdin ? "stdin" : path, .s = s, .fd = STDIN_FILENO, .is_stdin = is_stdin};
    if (is_stdin)
        line_lend_terminal();
    int rc = is_stdin ? KV_OK : open_fd(d, path, e);
    if (rc)
        return rc;
    if (fstat(d->fd, &d->before) != 0)
        rc = file_error(e, "read", d->name, errno);
    else if (S_ISDIR(d->before.st_mode))
        rc = file_error(e, "read", d->name, EISDIR);
    d->regular = S_ISREG(d->before.st_mode);
    if (rc == KV_OK && !(d->ahead = mem_alloc(PIECE, 1, e)))
        rc = KV_E_MEMORY;
    if (rc == KV_OK && (rc = look_ahead(d, e)) == KV_OK) {
        d->f = fopencookie(d, "rb", (cookie_io_functions_t){.read = on_read});
        if (!d->f)
            rc = file_error(e, "read", d->name, errno);
        else
            setvbuf(d->f, NULL, _IOFBF, PIECE);
    }
    if (rc)
        release(d);
    else
        progress_begin("load", d->regular ? d->before.st_size : 0, PROGRESS_BYTES);
    return rc;
}

char datafile_first(datafile *d)
{
    while (d->to < PIECE) {
        size_t at = d->to >= 3 && memcmp(d->ahead, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        while (at < d->to && letter_is_blank(d->ahead[at]))
            at++;
        bool mark = at == 0 && d->to > 0 && d->to < 3 && d->ahead[0] == '\xEF';
        if (at < d->to && !mark)
            return d->ahead[at];
        ssize_t got = read_some(d, d->ahead + d->to, PIECE - d->to);
        if (got <= 0)
            break; /* the reader meets the error, if it is one, again */
        d->to += (size_t)got;
    }
    return '\0';
}

int datafile_text(datafile *d, char **text, size_t *n, kv_err *e)
{
    int64_t cap = 0, begin = d->regular ? d->before.st_size + 2 : PIECE;
    int rc = mem_grow((*text = NULL, text), &cap, begin, 1, e);
    *n = 0;
    while (rc == KV_OK) {
        if ((rc = mem_grow(text, &cap, (int64_t)*n + 2, 1, e)))
            break;
        ssize_t got = on_read(d, *text + *n, (size_t)cap - *n - 1);
        if (got < 0)
            rc = file_error(e, "read", d->name, errno);
        if (got <= 0)
            break;
        *n += (size_t)got;
    }
    if (rc) {
        mem_free(*text);
        *text = NULL;
    } else {
        (*text)[*n] = '\0';
    }
    return rc;
}

/* Returns true if a file was changed while it was read. A file without a size, as in /proc, counts
 * as unchanged. */
static bool has_changed(const datafile *d)
{
    struct stat now;
    if (!d->regular || fstat(d->fd, &now) != 0)
        return false;
    return now.st_size != d->before.st_size ||
           (now.st_size > 0 && (now.st_mtim.tv_sec != d->before.st_mtim.tv_sec ||
                                now.st_mtim.tv_nsec != d->before.st_mtim.tv_nsec));
}

int datafile_close(datafile *d, int rc, kv_err *e)
{
    bool of_content = rc == KV_OK || rc == KV_E_FORMAT || rc == KV_E_IO;
    if (rc == KV_E_IO && d->unpacks && gunzip_damaged(d->unpacks)) {
        memset(e, 0, sizeof *e);
        rc = file_bad(e, KV_E_FORMAT, d->name, "its compressed data are damaged, or cut");
    }
    if (d->interrupted) {
        memset(e, 0, sizeof *e);
        rc = kv_err_set(e, KV_E_INTERRUPTED, "interrupted");
    } else if (of_content && has_changed(d)) {
        memset(e, 0, sizeof *e);
        rc = kv_err_set(e, KV_E_IO, "cannot read \"%s\": it changed while it was read", d->name);
    }
    progress_end();
    release(d);
    return rc;
}

/* ---- Writing ---- */

/* The stream is one of fopencookie, with the buffer of the stream behind it. */

/* Bytes between two looks: well below a tenth of a second on any disk. */
#define WRITE_PIECE 1048576

static ssize_t on_write(void *cookie, const char *text, size_t n)
{
    watch *w = cookie;
    for (size_t at = 0; at < n;) {
        size_t part = n - at < WRITE_PIECE ? n - at : WRITE_PIECE;
        if (session_interrupted(w->s, NULL)) {
            w->interrupted = true;
            errno = EINTR;
            return 0;
        }
        errno = 0;
        if (fwrite(text + at, 1, part, w->to) != part) {
            w->interrupted = errno == EINTR && session_interrupted(w->s, NULL);
            w->failed = errno ? errno : EIO;
            errno = w->failed;
            return 0;
        }
        at += part;
        w->done += (int64_t)part;
        progress_step(w->done);
    }
    return (ssize_t)n;
}

int watch_open(watch *w, session *s, FILE *to, const char *path, kv_err *e)
{
    *w = (watch){.to = to, .s = s};
    w->f = fopencookie(w, "wb", (cookie_io_functions_t){.write = on_write});
    if (!w->f)
        return file_error(e, "write", path, errno);
    progress_begin("write", 0, PROGRESS_BYTES);
    return KV_OK;
}

int watch_close(watch *w, const char *path, int rc, kv_err *e)
{
    if (fclose(w->f) != 0 && rc == KV_OK && !w->interrupted)
        rc = file_error(e, "write", path, w->failed ? w->failed : errno);
    progress_end();
    if (!w->interrupted)
        return rc;
    memset(e, 0, sizeof *e);
    return session_interrupted(w->s, e);
}
