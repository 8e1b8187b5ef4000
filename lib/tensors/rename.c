/* Substitutions by the regular expressions of the C library. */
#include "tensors/rename.h"

#include <regex.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

#define GROUPS 10 /* \0 to \9 */

struct renaming {
    regex_t re;
    buf to; /* as it was written, without escapes of the delimiter */
    bool all;
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

static int malformed(kv_err *e, const char *text)
{
    kv_err_set(e, KV_E_USAGE, "`%.64s` is no substitution", text);
    kv_err_hint(e, "s/RE/TO/ replaces the first match of RE in each name by TO, s/RE/TO/g every "
                   "match");
    return KV_E_USAGE;
}

/* Refuses groups that RE does not have: TO would lose them silently. */
static int check_groups(const renaming *r, const char *text, kv_err *e)
{
    for (const char *p = buf_text(&r->to); *p; p++) {
        if (*p != '\\')
            continue;
        p++;
        if (*p >= '1' && *p <= '9' && (size_t)(*p - '0') > r->re.re_nsub)
            return kv_err_set(e, KV_E_USAGE, "`%.64s`: there is no group \\%c, RE has %zu", text,
                              *p, r->re.re_nsub);
        if (!*p)
            return malformed(e, text);
    }
    return KV_OK;
}

static int compile(renaming *r, const char *re, const char *text, kv_err *e)
{
    char reason[128];
    int error = regcomp(&r->re, re, REG_EXTENDED);
    if (error == 0)
        return KV_OK;
    regerror(error, &r->re, reason, sizeof reason);
    memset(&r->re, 0, sizeof r->re);
    return error == REG_ESPACE
               ? kv_err_set(e, KV_E_MEMORY, "no memory for the regular expression `%.64s`", re)
               : kv_err_set(e, KV_E_USAGE, "`%.64s`: %s", text, reason);
}

static int read_text(renaming *r, buf *re, const char *text, kv_err *e)
{
    char delimiter = text[0] == 's' ? text[1] : 0;
    const char *at = text + 2;
    if (delimiter <= ' ' || delimiter == '\\' || delimiter == 127 ||
        !read_part(re, &at, delimiter) || !read_part(&r->to, &at, delimiter))
        return malformed(e, text);
    r->all = strcmp(at, "g") == 0;
    if (*at && !r->all)
        return malformed(e, text);
    int code = buf_check(re, e);
    return code ? code : buf_check(&r->to, e);
}

int renaming_new(renaming **out, const char *text, kv_err *e)
{
    buf re = {0};
    renaming *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    int code = read_text(r, &re, text, e);
    if (code == KV_OK && (code = compile(r, buf_text(&re), text, e)) == KV_OK &&
        (code = check_groups(r, text, e)))
        regfree(&r->re);
    buf_release(&re);
    if (code) {
        buf_release(&r->to);
        mem_free(r);
        return code;
    }
    *out = r;
    return KV_OK;
}

void renaming_free(renaming *r)
{
    if (!r)
        return;
    regfree(&r->re);
    buf_release(&r->to);
    mem_free(r);
}

static void put_match(buf *out, const char *text, const regmatch_t *m)
{
    if (m->rm_so >= 0)
        buf_put(out, text + m->rm_so, (size_t)(m->rm_eo - m->rm_so));
}

static void put_to(buf *out, const char *to, const char *text, const regmatch_t *groups)
{
    for (; *to; to++) {
        if (*to == '&')
            put_match(out, text, &groups[0]);
        else if (*to == '\\' && *++to >= '0' && *to <= '9')
            put_match(out, text, &groups[*to - '0']);
        else
            buf_char(out, *to);
    }
}

/* Looks for the first match; *found: there is one. regexec of the GNU C library says of a lack of
 * memory that there is no match; re_search tells them apart. */
static int search(const renaming *r, const char *text, bool begins, bool *found,
                  regmatch_t groups[GROUPS], kv_err *e)
{
    regex_t re = r->re;
    struct re_registers ends = {0};
    int n = (int)strlen(text);
    re.not_bol = !begins;
    re.regs_allocated = REGS_UNALLOCATED;
    int at = re_search(&re, text, n, 0, n, &ends);
    *found = at >= 0;
    for (int i = 0; i < GROUPS; i++) {
        bool has = *found && i < (int)ends.num_regs;
        groups[i] = (regmatch_t){has ? ends.start[i] : -1, has ? ends.end[i] : -1};
    }
    if (*found) { /* else they were freed already */
        mem_free(ends.start);
        mem_free(ends.end);
    }
    return at == -2 ? kv_err_set(e, KV_E_MEMORY, "no memory to rename \"%.64s\"", text) : KV_OK;
}

/* Every match, or the first one. As in sed, an empty match directly behind another does not count,
 * and behind an empty one the search goes on with the next character. */
int renaming_apply(const renaming *r, const char *name, buf *out, kv_err *e)
{
    regmatch_t groups[GROUPS];
    const char *at = name;
    bool behind = false, again = true, found, ok;
    while (again) {
        if (search(r, at, at == name, &found, groups, e))
            return e->code;
        if (!found)
            break;
        size_t from = (size_t)groups[0].rm_so, n = (size_t)groups[0].rm_eo - from;
        buf_put(out, at, from);
        if (n || from || !behind)
            put_to(out, buf_text(&r->to), at, groups);
        at += from + n;
        behind = n > 0;
        if (n == 0 && *at) {
            size_t step = utf8_length(at, strlen(at), &ok);
            buf_put(out, at, step);
            at += step;
        } else if (n == 0) {
            break;
        }
        again = r->all;
    }
    buf_add(out, at);
    return buf_check(out, e);
}
