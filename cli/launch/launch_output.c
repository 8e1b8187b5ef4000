/* Only whole lines go on, in one piece each. */
#include "launch/launch_output.h"

#include <errno.h>
#include <string.h>

enum { MOST_LINE = 1 << 20 /* what is longer comes in pieces */ };

static void put_line(launch_output *o, const char *text, size_t n)
{
    fputs(o->prefix, o->to);
    fwrite(text, 1, n, o->to);
    fputc('\n', o->to);
}

static void put_lines(launch_output *o, bool all)
{
    const char *text = buf_text(&o->line), *end = text + o->line.len, *at = text, *next;
    errno = 0;
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
    if (ferror(o->to) && !o->error && errno != EPIPE)
        o->error = errno;
}

void launch_output_put(launch_output *o, const char *text, size_t n)
{
    buf_put(&o->line, text, n);
    put_lines(o, false);
}

void launch_output_close(launch_output *o)
{
    if (o->line.len > 0)
        put_lines(o, true);
    buf_release(&o->line);
}
