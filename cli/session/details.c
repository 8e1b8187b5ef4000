/* The details of a failure: who called what failed, and lines such as a diff. */
#include "session/details.h"

#include <string.h>

#include "session/unit.h"

/* What begins a line of the details that names a caller. A recursion that failed names the same
 * ones over and over, so of more than CALLERS_MAX the innermost and the outermost are shown. */
#define CALLER      "  in "
#define CALLERS_MAX 10

void session_caller(session *s, const struct ast *node)
{
    int line, col;
    source_locate(&s->unit->src, node->pos, &line, &col);
    buf_printf(&s->detail, CALLER "%s:%d\n", s->unit->src.name, line);
}

/* Appends n lines, and returns what stands behind them. */
static const char *put_lines(buf *out, const char *text, int64_t n)
{
    for (; n > 0; n--) {
        size_t length = strcspn(text, "\n") + 1;
        buf_put(out, text, length);
        text += length;
    }
    return text;
}

/* How many lines from text on name callers; *last: where the last of them begins. */
static int64_t count_callers(const char *text, const char **last)
{
    int64_t n = 0;
    for (; strncmp(text, CALLER, strlen(CALLER)) == 0; n++) {
        *last = text;
        text += strcspn(text, "\n") + 1;
    }
    return n;
}

void session_details(const session *s, buf *out)
{
    const char *at = buf_text(&s->detail), *last;
    while (*at) {
        int64_t callers = count_callers(at, &last);
        if (callers > CALLERS_MAX) {
            put_lines(out, at, CALLERS_MAX - 1);
            buf_printf(out, "  and %lld more\n", (long long)(callers - CALLERS_MAX));
            at = last;
            callers = 1;
        }
        at = put_lines(out, at, callers ? callers : 1);
    }
}
