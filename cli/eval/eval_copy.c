/* Copies that would be views in NumPy: they remember the array that somebody may believe to change
 * with them. An array that nobody refers to any more is none. */
#include "eval/eval_copy.h"

#include "session/unit.h"

static void mark(session *s, const ast *part_node, const ast *whole_node, value whole, value part)
{
    array_box *to = part.u.box;
    const array_box *from = whole.u.box;
    if (to == from || to->is_number)
        return;
    if (from->refs > 1) {
        to->part = (array_part){s->unit, part_node, whole_node};
        s->unit->kept = true;
    } else {
        to->part = from->part;
    }
}

void eval_is_part(session *s, const ast *node, value whole, value part)
{
    mark(s, node, node->kid[0], whole, part);
}

void eval_is_row(session *s, const ast *node, value whole, value row)
{
    if (whole.kind == VALUE_ARRAY && row.kind == VALUE_ARRAY)
        mark(s, node, node, whole, row);
}

void eval_are_parts(session *s, const ast *node, const value *wholes, int64_t n, value parts)
{
    if (parts.kind == VALUE_ARRAY && n > 0 && wholes[0].kind == VALUE_ARRAY)
        eval_is_part(s, node, wholes[0], parts);
    if (!value_is_sequence(parts) || value_descend(NULL))
        return;
    /* item i of a tuple of zip() is a row of argument i; all others are of the first */
    bool rows = parts.kind == VALUE_TUPLE, each = rows && parts.u.list->n == n;
    for (int64_t i = 0; i < parts.u.list->n && n > 0; i++) {
        value item = parts.u.list->items[i];
        int64_t of = each && wholes[i].kind == VALUE_ARRAY ? i : 0;
        if (item.kind != VALUE_ARRAY)
            eval_are_parts(s, node, wholes, n, item);
        else if (item.u.box->refs == 1 && wholes[of].kind == VALUE_ARRAY)
            mark(s, rows ? node->kid[of] : node, node->kid[of], wholes[of], item);
    }
}

static void tell(session *s, const ast *node, const char *name, array_part *p)
{
    char part[UNIT_TEXT], whole[UNIT_TEXT];
    unit_text(part, p->unit, p->node);
    unit_text(whole, p->unit, p->whole);
    session_warn_once(s, node, "%s is a copy of %s%s; %s stays as it was", name,
                      p->node == p->whole ? "a row of " : "", part, whole);
    *p = (array_part){0};
}

/* name: the text of what v is the value of. */
static void tell_parts(session *s, const ast *node, const char *name, value v)
{
    if (v.kind == VALUE_ARRAY && v.u.box->part.node)
        tell(s, node, name, &v.u.box->part);
    if (!value_is_sequence(v) || value_descend(NULL))
        return;
    for (int64_t i = 0; i < v.u.list->n; i++) {
        buf item = {0};
        if (v.u.list->items[i].kind != VALUE_ARRAY || v.u.list->items[i].u.box->part.node) {
            buf_printf(&item, "%s[%lld]", name, (long long)i);
            tell_parts(s, node, buf_text(&item), v.u.list->items[i]);
        }
        buf_release(&item);
    }
}

void eval_tell_parts(session *s, const ast *node, value v)
{
    char name[UNIT_TEXT];
    if (v.kind != VALUE_ARRAY || v.u.box->part.node)
        tell_parts(s, node, unit_text(name, s->unit, node), v);
}
