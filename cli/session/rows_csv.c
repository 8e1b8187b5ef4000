/* Tables as CSV. */
#include <string.h>

#include "base/kv_assert.h"
#include "session/rows.h"

static void csv_cell(buf *out, const char *text, char separator, bool last)
{
    char special[] = {separator, '"', '\n', '\r', '\0'};
    bool quoted = strpbrk(text, special) != NULL;
    buf_add(out, quoted ? "\"" : "");
    for (; *text; text++) {
        buf_add(out, *text == '"' ? "\"" : "");
        buf_char(out, *text);
    }
    buf_add(out, quoted ? "\"" : "");
    buf_char(out, last ? '\n' : separator);
}

int rows_csv(buf *out, const rows *r, char separator, kv_err *e)
{
    buf text = {0};
    kv_assert(r->n % r->ncolumns == 0, "%lld cells do not fill rows of %d", (long long)r->n,
              (int)r->ncolumns);
    for (int c = 0; c < r->ncolumns; c++)
        csv_cell(out, r->columns[c].name, separator, c + 1 == r->ncolumns);
    for (int64_t i = 0; i < r->n; i++) {
        buf_clear(&text);
        if (r->cells[i].kind != VALUE_NONE)
            value_print(&text, r->cells[i], false);
        csv_cell(out, buf_text(&text), separator, (i + 1) % r->ncolumns == 0);
    }
    int code = buf_check(&text, e);
    buf_release(&text);
    return code ? code : buf_check(out, e);
}
