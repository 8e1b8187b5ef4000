/* re_match and re_sub: Python's re.match and re.sub for texts. */
#include "functions/func.h"

#include "base/mem.h"
#include "base/regexp.h"
#include "functions/piece.h"
#include "session/text.h"

/* A regular expression at work on a text. */
typedef struct search {
    regex *r;
    piece text;
    int64_t *span; /* of the newest match */
} search;

static int search_begin(search *s, const char *pattern, kv_err *e)
{
    int rc = regex_new(&s->r, pattern, e);
    if (rc)
        return rc;
    s->span = mem_alloc(2 * (regex_groups(s->r) + 1), sizeof *s->span, e);
    return s->span ? KV_OK : KV_E_MEMORY;
}

static void search_end(search *s)
{
    mem_free(s->span);
    regex_free(s->r);
}

/* A group of the match, none where it has no part in it. */
static int group_of(const search *s, int i, value *out, kv_err *e)
{
    int64_t from = s->span[2 * i], to = s->span[2 * i + 1];
    *out = value_none();
    return from < 0 || to < 0
               ? KV_OK
               : value_text_new(out, s->text.text + from, (size_t)(to - from), e);
}

int func_re_match(function_args *args, value *out, kv_err *e)
{
    const char *pattern;
    search s = {0};
    bool found = false;
    int rc = function_text(args->v[0], "a regular expression", &pattern, e);
    *out = value_none();
    if (rc || (rc = piece_of(args->v[1], "the text of re_match()", &s.text, e)))
        return rc;
    if (!(rc = search_begin(&s, pattern, e)))
        rc = regex_search(s.r, s.text.text, s.text.n, 0, true, false, s.span, &found, e);
    if (!rc && found)
        rc = value_list_new(out, VALUE_LIST, regex_groups(s.r) + 1, e);
    for (int i = 0; !rc && found && i <= regex_groups(s.r); i++)
        rc = group_of(&s, i, &out->u.list->items[i], e);
    search_end(&s);
    return value_finish(out, rc);
}

/* The number of the group at `at`, \N or \g<N>; *end is set past it. -1: none. */
static int reference(const char *at, const char **end)
{
    bool named = at[0] == 'g' && at[1] == '<';
    const char *digit = at + 2 * named;
    int group = -1;
    for (int n = 0; n < 2 && digit[n] >= '0' && digit[n] <= '9'; n++) {
        group = (group < 0 ? 0 : group * 10) + (digit[n] - '0');
        *end = digit + n + 1;
    }
    if (group < 0 || (named && **end != '>') || (!named && *at == '0'))
        return -1;
    *end += named;
    return group;
}

/* Appends what stands in the place of a match. */
static int put_replacement(const search *s, buf *out, piece to, kv_err *e)
{
    static const char plain[] = "n\nt\tr\r\\\\a\af\fv\v";
    for (const char *at = to.text, *end; *at; at = end) {
        end = at + 1;
        if (*at != '\\') {
            buf_char(out, *at);
            continue;
        }
        int group = reference(at + 1, &end);
        if (group > regex_groups(s->r))
            return kv_err_set(e, KV_E_VALUE, "the regular expression has no group %d", group);
        if (group >= 0) {
            int64_t from = s->span[2 * group], n = s->span[2 * group + 1] - from;
            buf_put(out, s->text.text + from, from < 0 ? 0 : (size_t)n);
            continue;
        }
        const char *known = plain;
        while (*known && *known != at[1])
            known += 2;
        bool letter = (at[1] >= 'a' && at[1] <= 'z') || (at[1] >= 'A' && at[1] <= 'Z');
        if (!at[1] || (!*known && (letter || (at[1] >= '0' && at[1] <= '9'))))
            return kv_err_set(e, KV_E_VALUE, "what re_sub() puts there has an escape that is not "
                                             "known: \\%.1s", at + 1);
        if (!*known)
            buf_char(out, '\\');
        buf_char(out, *known ? known[1] : at[1]);
        end = at + 2;
    }
    return KV_OK;
}

/* Replaces at most `most` matches, or all. An empty match may follow one that is not, as in
 * Python. */
static int replace_all(search *s, buf *out, piece to, int64_t most, kv_err *e)
{
    int64_t at = 0, copied = 0;
    bool found = true, not_empty = false;
    int rc = KV_OK;
    for (int64_t i = 0; most == 0 || i < most; i++) {
        rc = regex_search(s->r, s->text.text, s->text.n, at, false, not_empty, s->span, &found, e);
        if (rc || !found)
            break;
        buf_put(out, s->text.text + copied, (size_t)(s->span[0] - copied));
        if ((rc = put_replacement(s, out, to, e)))
            break;
        copied = at = s->span[1];
        not_empty = s->span[0] == s->span[1];
    }
    buf_put(out, s->text.text + copied, (size_t)(s->text.n - copied));
    return rc;
}

int func_re_sub(function_args *args, value *out, kv_err *e)
{
    const char *pattern;
    piece to;
    search s = {0};
    buf made = {0};
    int64_t most = 0;
    int rc = function_text(args->v[0], "a regular expression", &pattern, e);
    if (rc || (rc = piece_of(args->v[1], "what re_sub() puts there", &to, e)) ||
        (rc = piece_of(args->v[2], "the text of re_sub()", &s.text, e)) ||
        (args->given[3] && (rc = function_int(args->v[3], "count", &most, e))))
        return rc;
    if (!(rc = search_begin(&s, pattern, e)))
        rc = replace_all(&s, &made, to, most, e);
    search_end(&s);
    return value_text_take(out, &made, rc, e);
}
