/* re_match and re_sub: Python's re.match and re.sub for texts. */
#include "functions/func.h"

#include "base/mem.h"
#include "base/regexp.h"
#include "session/value.h"

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
    if (!(rc = search_begin(&s, pattern, e)) && !(rc = regex_check_replacement(s.r, to.text, e)))
        rc = regex_replace(s.r, s.text.text, s.text.n, to.text, most, &made, NULL, e);
    search_end(&s);
    return value_text_take(out, &made, rc, e);
}
