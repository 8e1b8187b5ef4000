/* Places in a text: from byte offsets to lines and columns, and into errors. */
#include "lang/source.h"

#include <limits.h>
#include <string.h>

/* Walks from one line begin to the next while they are at most `pos` and `line`; returns the last.
 * It begins where the walk before ended, when that is not too far. */
static source_mark walk(const source *s, uint32_t pos, int line)
{
    source_mark at = {0, s->line};
    if (s->mark && s->mark->pos > 0 && s->mark->pos <= pos && s->mark->line <= line)
        at = *s->mark;
    while (at.line < line) {
        const char *newline = memchr(s->text + at.pos, '\n', pos - at.pos);
        if (!newline)
            break;
        at = (source_mark){(uint32_t)(newline - s->text) + 1, at.line + 1};
    }
    if (s->mark)
        *s->mark = at;
    return at;
}

void source_locate(const source *s, uint32_t pos, int *line, int *col)
{
    if (pos > s->len)
        pos = s->len;
    source_mark at = walk(s, pos, INT_MAX);
    *line = at.line;
    *col = at.pos == 0 ? s->col : 1;
    for (uint32_t i = at.pos; i < pos; i++) /* characters of UTF-8 */
        *col += ((unsigned char)s->text[i] & 0xc0) != 0x80;
}

bool source_find_line(const source *s, int line, uint32_t *pos)
{
    source_mark at = walk(s, s->len, line);
    *pos = at.pos;
    return at.line == line;
}

const char *source_line(const source *s, uint32_t pos, size_t *len)
{
    if (pos > s->len)
        pos = s->len;
    uint32_t from = pos, to = pos;
    while (from > 0 && s->text[from - 1] != '\n')
        from--;
    while (to < s->len && s->text[to] != '\n' && s->text[to] != '\r')
        to++;
    *len = to - from;
    return s->text + from;
}

void source_at(const source *s, uint32_t pos, uint32_t end, kv_err *e)
{
    if (!e || e->code == KV_OK || e->line != 0 || !s->name)
        return;
    int line, col, end_line, end_col;
    source_locate(s, pos, &line, &col);
    source_locate(s, end, &end_line, &end_col);
    if (end_line != line || end_col <= col) {
        size_t len;
        const char *text = source_line(s, pos, &len);
        int last_line;
        source_locate(s, (uint32_t)(text + len - s->text), &last_line, &end_col);
        if (end_line == line || end_col <= col)
            end_col = col + 1;
    }
    kv_err_at(e, s->name, line, col, end_col);
}

int source_err(const source *s, uint32_t pos, uint32_t end, kv_err *e, kv_code code,
               const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(e, code, fmt, ap);
    va_end(ap);
    source_at(s, pos, end, e);
    return code;
}
