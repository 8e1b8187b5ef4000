/* The lines of lists and usages in help, which fit a terminal of 80 columns. */
#include "cmd/help.h"

#include <string.h>

enum { WIDTH = 80 };

void help_lines(buf *out, const char *text, int at)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at > HELP_COLUMN && at + 1 + (int)n > WIDTH) {
            buf_char(out, '\n');
            at = 0;
        }
        int blanks = at < HELP_COLUMN ? HELP_COLUMN - at : 1;
        buf_printf(out, "%*s%.*s", blanks, "", (int)n, text);
        at += blanks + (int)n;
        text += n;
        text += strspn(text, " ");
    }
    if (at > 0)
        buf_char(out, '\n');
}

/* The length of an argument, of an option with its value, or of what brackets enclose. */
static size_t argument_length(const char *text)
{
    size_t n = 0;
    for (int depth = 0; text[n]; n++) {
        depth += (text[n] == '[') - (text[n] == ']');
        if (text[n] == ' ' && depth == 0 &&
            (text[n + 1] == '[' || strncmp(text + n + 1, "--", 2) == 0))
            break;
    }
    return n;
}

void help_usage(buf *out, const char *usage)
{
    size_t at = 0;
    while (*usage) {
        size_t n = argument_length(usage);
        if (at > 0 && at + 1 + n > WIDTH) {
            buf_add(out, "\n   ");
            at = 3;
        }
        buf_printf(out, at > 0 ? " %.*s" : "%.*s", (int)n, usage);
        at += (at > 0) + n;
        usage += n;
        usage += strspn(usage, " ");
    }
    buf_char(out, '\n');
}
