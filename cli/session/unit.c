/* Texts of a session, and errors with places in them. */
#include "session/unit.h"

#include <stdarg.h>

#include "base/mem.h"
#include "session/session.h"

int unit_err(const session *s, const ast *node, kv_err *e, kv_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(e, code, fmt, ap);
    va_end(ap);
    unit_at(s, node, e);
    return code;
}

int unit_too_deep(const session *s, const ast *node, kv_err *e)
{
    return unit_err(s, node, e, KV_E_VALUE,
                    "calls, blocks and files are nested deeper than the stack allows");
}

int unit_at(const session *s, const ast *node, kv_err *e)
{
    return s->unit && node ? source_at(&s->unit->src, node->pos, node->end, e)
           : e             ? e->code
                           : KV_OK;
}

static void unit_free(unit *u)
{
    arena_release(&u->nodes);
    mem_free((char *)u->src.text);
    mem_free((char *)u->src.name);
    mem_free(u);
}

static void unlink_unit(session *s, const unit *u)
{
    unit **at = &s->units;
    while (*at && *at != u)
        at = &(*at)->next;
    if (*at)
        *at = u->next;
}

void unit_drop(session *s, unit *u)
{
    if (!u || u->kept)
        return;
    if (s->recorder.unit == u)
        s->recorder.unit = NULL;
    unlink_unit(s, u);
    unit_free(u);
}

void unit_failed(session *s, unit *u)
{
    unlink_unit(s, u);
    u->next = s->units;
    s->units = u;
}
