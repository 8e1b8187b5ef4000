/* The first eight values lie in the stack itself, so that most calls allocate nothing. */
#include "session/value_stack.h"

#include <string.h>

#include "base/mem.h"
#include "base/stop.h"

int value_stack_add(value_stack *s, value v, kv_err *e)
{
    if (!s->items) {
        s->items = s->small;
        s->cap = (int64_t)(sizeof s->small / sizeof *s->small);
    }
    if (s->n == s->cap) {
        value *more = mem_alloc(2 * s->cap, sizeof *more, e);
        if (!more) {
            value_release(&v);
            return KV_E_MEMORY;
        }
        memcpy(more, s->items, (size_t)s->n * sizeof *more);
        if (s->items != s->small)
            mem_free(s->items);
        s->items = more;
        s->cap *= 2;
    }
    s->items[s->n++] = v;
    return KV_OK;
}

int value_stack_list(const value_stack *s, value *out, kv_err *e)
{
    int code = value_list_new(out, VALUE_LIST, s->n, e);
    for (int64_t i = 0; i < s->n && code == KV_OK && !(code = stop_check_at(i, e)); i++)
        out->u.list->items[i] = value_ref(s->items[i]);
    return value_finish(out, code);
}

void value_stack_release(value_stack *s)
{
    for (int64_t i = 0; i < s->n; i++)
        value_release(&s->items[i]);
    if (s->items != s->small)
        mem_free(s->items);
    s->items = NULL;
    s->n = s->cap = 0;
}
