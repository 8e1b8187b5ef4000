/* A rank's pipe is read when something has come, and only whole lines go on, in one piece each. */
#include "tools/launch_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { MOST_LINE = 1 << 20 /* what is longer comes in pieces */ };

int launch_output_open(launch_output *o, const char *path, kv_err *e)
{
    if (mkfifo(path, 0600) || (o->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) < 0)
        return file_error(e, "make", path, errno);
    return KV_OK;
}

static void put_line(launch_output *o, const char *text, size_t n)
{
    fputs(o->prefix, o->to);
    fwrite(text, 1, n, o->to);
    fputc('\n', o->to);
}

static void put_lines(launch_output *o, bool all)
{
    const char *text = buf_text(&o->line), *end = text + o->line.len, *at = text, *next;
    while (at < end && (next = memchr(at, '\n', (size_t)(end - at)))) {
        put_line(o, at, (size_t)(next - at));
        at = next + 1;
    }
    if (at < end && (all || end - at > MOST_LINE)) {
        put_line(o, at, (size_t)(end - at));
        at = end;
    }
    buf rest = {0};
    buf_put(&rest, at, (size_t)(end - at));
    buf_release(&o->line);
    o->line = rest;
    fflush(o->to);
}

bool launch_output_take(launch_output *o, bool all)
{
    char block[65536];
    ssize_t n = o->fd < 0 ? 0 : read(o->fd, block, sizeof block);
    if (n > 0)
        buf_put(&o->line, block, (size_t)n);
    if (n > 0 || (all && o->line.len > 0))
        put_lines(o, n <= 0);
    return n > 0;
}

void launch_output_close(launch_output *o)
{
    while (launch_output_take(o, true))
        ;
    buf_release(&o->line);
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}
