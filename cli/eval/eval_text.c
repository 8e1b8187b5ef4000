/* Texts with fields: f"{expr!r:format}". */
#include "eval/eval_text.h"

#include "eval/eval.h"
#include "session/show.h"
#include "session/unit.h"

/* The format of a field: plain text, or one with fields of its own, which *owned then holds. */
static int field_format(session *s, const ast *field, const char **format, value *owned, kv_err *e)
{
    *owned = value_none();
    *format = field->u.text;
    int code = field->n > 1 ? eval(s, field->kid[1], owned, e) : KV_OK;
    if (code == KV_OK && field->n > 1)
        *format = owned->u.text;
    return code;
}

/* An array of one element is formatted as its number. */
static bool is_formattable(value v, host *out)
{
    value number = v;
    kv_err unused = {0};
    if (v.kind == VALUE_ARRAY && value_item(&number, v, &unused) != KV_OK)
        return false;
    if (!value_is_scalar(number))
        return false;
    *out = value_host(number);
    return true;
}

/* Appends v, shown as print does or with !r as a bare expression does, as text in a format. */
static int put_shown(session *s, buf *out, value v, bool repr, const char *format, kv_err *e)
{
    buf shown = {0};
    if (!format)
        return show_value(s, out, v, repr, e);
    int code = show_value(s, &shown, v, repr, e);
    if (code == KV_OK)
        code = host_format_field(out, host_text(buf_text(&shown)), format, e);
    buf_release(&shown);
    return code;
}

int text_put_field(session *s, buf *out, value v, char how, const char *format, kv_err *e)
{
    host x;
    if (how || (!format && !value_is_scalar(v)))
        return put_shown(s, out, v, how == 'r', format, e);
    if (is_formattable(v, &x))
        return host_format_field(out, x, format, e);
    if (!*format)
        return show_value(s, out, v, false, e);
    kv_err_set(e, KV_E_DTYPE, "a format takes a number or a text, not %s", value_kind_name(v));
    return kv_err_hint(e, "{x!s:%.40s} formats what print shows", format), KV_E_DTYPE;
}

static int put_field(session *s, buf *out, const ast *field, value v, kv_err *e)
{
    value owned;
    const char *format;
    int code = field_format(s, field, &format, &owned, e);
    if (code)
        return code;
    code = text_put_field(s, out, v, (char)field->op, format, e);
    value_release(&owned);
    return code;
}

int eval_ftext(session *s, const ast *node, value *out, kv_err *e)
{
    buf text = {0};
    int code = KV_OK;
    for (uint32_t i = 0; i < node->n && code == KV_OK; i++) {
        const ast *piece = node->kid[i];
        if (piece->kind == AST_TEXT) {
            buf_add(&text, piece->u.text);
            continue;
        }
        value v;
        if ((code = eval(s, piece->kid[0], &v, e)))
            break;
        code = put_field(s, &text, piece, v, e);
        value_release(&v);
        if (code)
            unit_at(s, piece, e);
    }
    return value_text_take(out, &text, code, e);
}
