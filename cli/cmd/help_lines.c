/* The lines of lists in help, which fit a terminal of 80 columns. */
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
