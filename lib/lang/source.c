/* Places in a text: from byte offsets to lines and columns, and into errors. */
#include "lang/source.h"

#include <string.h>

static int is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

void source_locate(const source *s, uint32_t pos, int *line, int *col)
{
    int l = s->line, c = s->col;
    if (pos > s->len)
        pos = s->len;
    for (uint32_t i = 0; i < pos; i++) {
        if (s->text[i] == '\n') {
            l++;
            c = 1;
        } else if (!is_continuation(s->text[i])) {
            c++;
        }
    }
    *line = l;
    *col = c;
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

int source_at(const source *s, uint32_t pos, uint32_t end, kv_err *e)
{
    if (!e || e->code == KV_OK || e->line != 0 || !s->name)
        return e ? e->code : KV_OK;
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
    return kv_err_at(e, s->name, line, col, end_col);
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
