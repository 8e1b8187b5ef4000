/* The stream is one of fopencookie, with the buffer of the stream behind it. */
#include "files/watch.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "term/progress.h"

/* Bytes between two looks: well below a tenth of a second on any disk. */
#define PIECE 1048576

static ssize_t on_write(void *cookie, const char *text, size_t n)
{
    watch *w = cookie;
    for (size_t at = 0; at < n;) {
        size_t part = n - at < PIECE ? n - at : PIECE;
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

int watch_close(watch *w, const char *path, int code, kv_err *e)
{
    if (fclose(w->f) != 0 && code == KV_OK && !w->interrupted)
        code = file_error(e, "write", path, w->failed ? w->failed : errno);
    progress_end();
    if (!w->interrupted)
        return code;
    memset(e, 0, sizeof *e);
    return session_interrupted(w->s, e);
}
