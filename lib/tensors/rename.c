/* Substitutions in names, by the regular expressions of texts. */
#include "tensors/rename.h"

#include <string.h>

#include "base/mem.h"
#include "base/regexp.h"

struct renaming {
    regex *re;
    buf to; /* Python's form of what was written */
    bool all;
    bool dollar; /* TO has $1, which other tools take for a group */
};

/* The part up to the next delimiter, which *at then stands behind; false: there is none. */
static bool read_part(buf *out, const char **at, char delimiter)
{
    const char *p = *at;
    for (; *p && *p != delimiter; p++) {
        if (*p == '\\' && p[1] == delimiter)
            p++;
        else if (*p == '\\' && p[1])
            buf_char(out, *p++);
        buf_char(out, *p);
    }
    *at = p + 1;
    return *p != 0;
}

/* TO in Python's form: & and \0, which sed and others have, are the whole match, \$ is $. Returns
 * true if $ stands before a number. */
static bool write_to(buf *out, const char *to)
{
    bool dollar = false;
    for (; *to; to++) {
        bool escaped = *to == '\\' && to[1];
        dollar |= *to == '$' && strchr("0123456789", to[1 + (to[1] == '{')]) && to[1];
        if (*to == '&' || (escaped && to[1] == '0'))
            buf_add(out, "\\g<0>");
        else if (escaped && to[1] != '&' && to[1] != '$')
            buf_put(out, to, 2);
        else
            buf_char(out, to[escaped]);
        to += escaped;
    }
    return dollar;
}

static int malformed(kv_err *e, const char *text)
{
    kv_err_set(e, KV_E_USAGE, "`%.64s` is no substitution", text);
    kv_err_hint(e, "s/RE/TO/ replaces the first match of RE in each name by TO, s/RE/TO/g every "
                   "match");
    return KV_E_USAGE;
}

/* Reads the parts. An escape that TO ends in is refused with the others. */
static int read_text(renaming *r, buf *re, const char *text, kv_err *e)
{
    char delimiter = text[0] == 's' ? text[1] : 0;
    const char *at = text + 2;
    buf to = {0};
    if (delimiter <= ' ' || delimiter == '\\' || delimiter == 127 ||
        !read_part(re, &at, delimiter) || !read_part(&to, &at, delimiter)) {
        buf_release(&to);
        return malformed(e, text);
    }
    r->dollar = write_to(&r->to, buf_text(&to));
    int rc = buf_check(&to, e);
    buf_release(&to);
    r->all = strcmp(at, "g") == 0;
    if (*at && !r->all)
        return malformed(e, text);
    rc = rc ? rc : buf_check(re, e);
    return rc ? rc : buf_check(&r->to, e);
}

int renaming_new(renaming **out, const char *text, kv_err *e)
{
    buf re = {0};
    kv_err why = {0};
    renaming *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    int rc = read_text(r, &re, text, e);
    if (!rc && !(rc = regex_new(&r->re, buf_text(&re), &why)))
        rc = regex_check_replacement(r->re, buf_text(&r->to), &why);
    if (!rc && r->dollar && regex_groups(r->re) > 0) {
        rc = kv_err_set(e, KV_E_USAGE, "`%.64s`: $1 is not a group here", text);
        kv_err_hint(e, "\\1 is the text of the first group, \\$1 a dollar and 1");
    }
    if (why.code == KV_E_VALUE)
        rc = kv_err_set(e, KV_E_USAGE, "`%.64s`: %s", text, why.text);
    else if (why.code) {
        rc = kv_err_set(e, (kv_code)why.code, "%s", why.text);
        if (why.hint[0])
            kv_err_hint(e, "%s", why.hint);
    }
    buf_release(&re);
    if (!rc) {
        *out = r;
        return KV_OK;
    }
    renaming_free(r);
    return rc;
}

void renaming_free(renaming *r)
{
    if (!r)
        return;
    regex_free(r->re);
    buf_release(&r->to);
    mem_free(r);
}

int renaming_apply(renaming *r, const char *name, buf *out, int *matches, kv_err *e)
{
    int64_t n = (int64_t)strlen(name), replaced = 0, first;
    size_t from = out->len;
    int rc = regex_replace(r->re, name, n, buf_text(&r->to), r->all ? 0 : 2, out, &replaced, e);
    if (matches)
        *matches = r->all ? replaced > 0 : (int)replaced;
    if (rc || r->all || replaced < 2)
        return rc;
    out->len = from;
    return regex_replace(r->re, name, n, buf_text(&r->to), 1, out, &first, e);
}
