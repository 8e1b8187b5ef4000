/* Drawing with the sequences that every terminal with colours knows: 2m dim, 0m plain, K and J
 * clear to the end of the row and of the screen. */
#include "term/hint.h"

#include <stdbool.h>
#include <string.h>
#include <wchar.h>

/* Fewer columns than these say nothing. */
#define LEAST 4

static bool visible;

/* Usage lines are ASCII, but names in them may be anything. */
static bool is_plain(const char *text)
{
    while (*text >= ' ' && *text < 0x7f)
        text++;
    return !*text;
}

/* The column behind n bytes that begin in column 0, or -1 when the text holds something whose width
 * the terminal alone knows. A wide character that does not fit goes to the next row as a whole. */
static int column_behind(const char *text, size_t n, int columns)
{
    mbstate_t state = {0};
    int column = 0;
    for (size_t i = 0; i < n;) {
        wchar_t c;
        size_t bytes = mbrtowc(&c, text + i, n - i, &state);
        if (bytes == 0 || bytes > n - i)
            return -1;
        int width = wcwidth(c);
        if (width < 0)
            return -1;
        if (column % columns + width > columns)
            column += columns - column % columns;
        column += width;
        i += bytes;
    }
    return column % columns;
}

/* The length of the words of a text of which `most` characters have room. */
static int whole_words(const char *text, int most)
{
    int n = most;
    while (n > 0 && text[n - 1] != ' ')
        n--;
    return n;
}

void hint_draw(FILE *out, const char *before, size_t n, int columns, const char *text)
{
    int length = is_plain(text) ? (int)strlen(text) : 0;
    int column = columns > 0 ? column_behind(before, n, columns) : -1;
    /* the last column stays empty: behind it terminals differ about where the cursor is */
    int room = columns - 1 - column;
    if (column < 0 || length == 0 || room < LEAST)
        return;
    int shown = length <= room ? length : whole_words(text, room - 2);
    const char *more = shown < length ? ".." : "";
    if (shown <= 1) /* nothing but a blank */
        return;
    fprintf(out, "\033[2m%.*s%s\033[0m", shown, text, more);
    fprintf(out, "\033[%dD", shown + (int)strlen(more));
    fflush(out);
    visible = true;
}

void hint_erase(FILE *out)
{
    if (visible)
        fputs("\033[J", out);
    visible = false;
}
