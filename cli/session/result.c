/* Results of commands: their memory. */
#include "session/result.h"

#include <stdarg.h>

#include "base/mem.h"

void result_release(result *r)
{
    value_release(&r->v);
    value_release(&r->sides.left);
    value_release(&r->sides.right);
    value_release(&r->sides.index);
    value_release(&r->sides.max_diff);
    value_release(&r->sides.differences);
    rows_release(&r->entries);
    rows_release(&r->summary);
    for (int64_t i = 0; i < r->nfiles; i++)
        result_release(&r->files[i].given);
    mem_free(r->files);
    mem_free(r->keys);
    arena_release(&r->names);
}

int result_text(result *r, buf *text, int code, kv_err *e)
{
    r->as_text = true;
    return value_text_take(&r->v, text, code, e);
}

int result_table(result *r, buf *text, rows *table, int code, kv_err *e)
{
    if (code == KV_OK)
        code = rows_print(text, table, e);
    r->entries = *table;
    *table = (rows){0};
    return result_text(r, text, code, e);
}

int result_answer(result *r, bool yes, kv_err *e, const char *why, ...)
{
    buf text = {0};
    va_list args;
    r->sides.answered = true;
    r->sides.holds = yes;
    if (yes)
        return KV_OK;
    va_start(args, why);
    buf_vprintf(&text, why, args);
    va_end(args);
    if (buf_check(&text, e) == KV_OK)
        r->refusal = arena_text(&r->names, buf_text(&text), text.len, e);
    buf_release(&text);
    return r->refusal ? KV_OK : KV_E_MEMORY;
}

int result_for_keys(result *r, int64_t n, kv_err *e)
{
    if (!(r->keys = mem_alloc(n, sizeof *r->keys, e)))
        return KV_E_MEMORY;
    int code = value_list_new(&r->v, VALUE_LIST, n, e);
    r->nkeys = code ? 0 : n;
    return code;
}
