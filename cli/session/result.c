/* Results of commands: their memory. */
#include "session/result.h"

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
    mem_free(r->keys);
    arena_release(&r->names);
}

int result_for_keys(result *r, int64_t n, kv_err *e)
{
    if (!(r->keys = mem_alloc(n, sizeof *r->keys, e)))
        return KV_E_MEMORY;
    int code = value_list_new(&r->v, VALUE_LIST, n, e);
    r->nkeys = code ? 0 : n;
    return code;
}
