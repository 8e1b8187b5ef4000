/* "{} {1:.2f}".format(a, b): the fields of an f-string, whose values come in order or by number. */
#include "functions/func.h"

#include <string.h>

#include "eval/eval.h"

/* {N!r:format} as it stands between its braces. */
typedef struct field {
    int64_t number; /* -1: the next one */
    char how;       /* 'r', 's' or 0 */
    const char *format;
    size_t format_bytes;
} field;

static int parse_field(const char *at, const char *end, field *out, kv_err *e)
{
    *out = (field){.number = -1};
    const char *name = at;
    for (; at < end && *at >= '0' && *at <= '9' && at - name < 6; at++)
        out->number = (out->number < 0 ? 0 : out->number * 10) + (*at - '0');
    if (at < end && *at != '!' && *at != ':') {
        kv_err_set(e, KV_E_UNSUPPORTED, "format() takes its values by order: {} or {0}, not {%.*s}",
                   (int)(end - name < 40 ? end - name : 40), name);
        return kv_err_hint(e, "f\"{%.*s}\" reads variables",
                           (int)(end - name < 40 ? end - name : 40), name),
               KV_E_UNSUPPORTED;
    }
    if (at < end && *at == '!') {
        if (end - at < 2 || (at[1] != 'r' && at[1] != 's') || (end - at > 2 && at[2] != ':'))
            return kv_err_set(e, KV_E_VALUE, "`!` in a field is followed by r or s");
        out->how = at[1];
        at += 2;
    }
    if (at < end) {
        out->format = at + 1;
        out->format_bytes = (size_t)(end - at - 1);
        if (memchr(at, '{', (size_t)(end - at)))
            return kv_err_set(e, KV_E_UNSUPPORTED, "the format of a field of format() holds no "
                                                   "field; an f-string does");
    }
    return KV_OK;
}

/* Python mixes no fields that count with fields that have numbers. */
static int value_of(function_args *args, field *f, int64_t *next, kv_err *e)
{
    bool counts = f->number < 0;
    if ((counts && *next < 0) || (!counts && *next > 0))
        return kv_err_set(e, KV_E_VALUE, "format() takes {} or {0}, not both in one text");
    if (counts)
        f->number = (*next)++;
    else
        *next = -1;
    if (f->number + 1 >= args->nrest)
        return kv_err_set(e, KV_E_INDEX, "format() has no value for the field {%lld}",
                          (long long)f->number);
    return KV_OK;
}

static int put_field(function_args *args, buf *out, const char *at, const char *end, int64_t *next,
                     kv_err *e)
{
    field f;
    buf format = {0};
    int rc = parse_field(at, end, &f, e);
    if (rc || (rc = value_of(args, &f, next, e)))
        return rc;
    if (f.format)
        buf_put(&format, f.format, f.format_bytes);
    rc = text_put_field(args->session, out, args->rest[f.number + 1], f.how,
                        f.format ? buf_text(&format) : NULL, e);
    buf_release(&format);
    return rc;
}

int func_format(function_args *args, value *out, kv_err *e)
{
    const char *at;
    buf all = {0};
    int64_t next = 0;
    int rc = function_text(args->rest[0], "what format() fills", &at, e);
    while (!rc && *at) {
        size_t plain = strcspn(at, "{}");
        buf_put(&all, at, plain);
        at += plain;
        if (!*at)
            break;
        if (at[0] == at[1]) {
            buf_char(&all, *at);
            at += 2;
            continue;
        }
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if (!end)
            rc = kv_err_set(e, KV_E_VALUE, "a single `%c` in a text of format(); write `%c%c`", *at,
                            *at, *at);
        else if (!(rc = put_field(args, &all, at + 1, end, &next, e)))
            at = end + 1;
    }
    return value_text_take(out, &all, rc, e);
}
