/* Functions between texts and lists of them, which do what Python's methods of these names do. */
#include "functions/func.h"

#include "base/mem.h"
#include "base/regexp.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "session/containers.h"
#include "session/value.h"

/* ---- From a text to a list ---- */

static int add_part(value_stack *parts, piece text, int64_t from, int64_t to, kv_err *e)
{
    value part;
    int rc = value_text_new(&part, text.text + from, (size_t)(to - from), e);
    return rc ? rc : value_stack_add(parts, part, e);
}

/* The byte behind the blanks at `at`, or behind the characters that are none. */
static int64_t past(piece text, int64_t at, bool blanks)
{
    int64_t bytes;
    while (at < text.n && letter_is_space(piece_character(text, at, &bytes)) == blanks)
        at += bytes;
    return at;
}

/* The same backwards: the byte at which they begin. */
static int64_t before(piece text, int64_t end, bool blanks)
{
    int64_t bytes;
    while (end > 0) {
        int64_t at = piece_last(text, end);
        if (letter_is_space(piece_character(text, at, &bytes)) != blanks)
            break;
        end = at;
    }
    return end;
}

/* Words between blanks, from the begin on or from the end. */
static int split_words(value_stack *parts, piece text, int64_t most, bool last, kv_err *e)
{
    int rc = KV_OK;
    int64_t from = last ? 0 : past(text, 0, true), to = last ? before(text, text.n, true) : text.n;
    for (; from < to && most != 0 && !rc; most -= most > 0) {
        int64_t at = last ? before(text, to, false) : from;
        int64_t end = last ? to : past(text, from, false);
        rc = add_part(parts, text, at, end, e);
        from = last ? 0 : past(text, end, true);
        to = last ? before(text, at, true) : text.n;
    }
    return from < to && !rc ? add_part(parts, text, from, to, e) : rc;
}

static int split_at(value_stack *parts, piece text, piece sep, int64_t most, bool last, kv_err *e)
{
    int rc = KV_OK;
    int64_t from = 0, to = text.n, at;
    for (; most != 0 && !rc; most -= most > 0) {
        if ((at = last ? piece_find_last(text, sep, to) : piece_find(text, sep, from)) < 0)
            break;
        rc = last ? add_part(parts, text, at + sep.n, to, e) : add_part(parts, text, from, at, e);
        from = last ? 0 : at + sep.n;
        to = last ? at : text.n;
    }
    return rc ? rc : add_part(parts, text, from, to, e);
}

static int split(function_args *args, value by, value max, bool last, value *out, kv_err *e)
{
    piece text, sep = {0};
    int64_t most = -1;
    value_stack parts = {0};
    int rc = text_of(args, &text, e);
    if (!rc && by.kind != VALUE_NONE)
        rc = piece_of(by, "what split() splits at", &sep, e);
    if (!rc && max.kind != VALUE_NONE)
        rc = function_int(max, "maxsplit", &most, e);
    if (!rc && by.kind != VALUE_NONE && sep.n == 0)
        rc = kv_err_set(e, KV_E_VALUE, "a text cannot be split at an empty text");
    if (rc)
        return rc;
    rc = by.kind == VALUE_NONE ? split_words(&parts, text, most, last, e)
                               : split_at(&parts, text, sep, most, last, e);
    rc = value_stack_take(out, &parts, rc, e);
    if (!rc && last)
        list_reverse(*out);
    return rc;
}

/* split(text, sep, maxsplit) has the name of split(a, parts, axis). */
int func_split(function_args *args, value *out, kv_err *e)
{
    const bool *given = args->given;
    if (args->v[0].kind == VALUE_TEXT && ((given[1] && given[3]) || (given[2] && given[4])))
        return kv_err_set(e, KV_E_USAGE, "split() of a text has %s twice here",
                          given[3] ? "sep" : "maxsplit");
    if (args->v[0].kind == VALUE_TEXT)
        return split(args, args->v[args->given[3] ? 3 : 1], args->v[args->given[4] ? 4 : 2], false,
                     out, e);
    if (!args->given[1])
        return kv_err_set(e, KV_E_USAGE, "split() of an array needs a number of parts");
    if (given[3] || given[4])
        return kv_err_set(e, KV_E_USAGE, "split() of an array has no %s=, which is for texts",
                          given[3] ? "sep" : "maxsplit");
    int rc = value_to_array(&args->array, args->v[0], e);
    return rc ? rc : func_split_array(args, out, e);
}

int func_rsplit(function_args *args, value *out, kv_err *e)
{
    return split(args, args->v[1], args->v[2], true, out, e);
}

int func_splitlines(function_args *args, value *out, kv_err *e)
{
    piece text;
    value_stack lines = {0};
    int64_t begin = 0, bytes;
    int rc = text_of(args, &text, e);
    for (int64_t at = 0; !rc && at < text.n; at += bytes) {
        if (!letter_ends_line(piece_character(text, at, &bytes)))
            continue;
        rc = add_part(&lines, text, begin, at, e);
        bytes += text.text[at] == '\r' && at + 1 < text.n && text.text[at + 1] == '\n';
        begin = at + bytes;
    }
    if (!rc && begin < text.n)
        rc = add_part(&lines, text, begin, text.n, e);
    return value_stack_take(out, &lines, rc, e);
}

/* ---- From a list to a text ---- */

int func_join(function_args *args, value *out, kv_err *e)
{
    piece sep, item;
    buf all = {0};
    value list = args->v[1];
    int rc = piece_of(args->v[0], "what join() puts between", &sep, e);
    if (!rc && !value_is_sequence(list)) {
        rc = kv_err_set(e, KV_E_DTYPE, "join() takes a list of texts, not %s",
                        value_kind_name(list));
        kv_err_hint(e, "\", \".join([\"a\", \"b\"])");
    }
    for (int64_t i = 0; !rc && i < list.u.list->n && !(rc = stop_check_at(i, e)); i++) {
        if (list.u.list->items[i].kind != VALUE_TEXT) {
            rc = kv_err_set(e, KV_E_DTYPE, "join() takes texts, and item %lld is %s", (long long)i,
                            value_kind_name(list.u.list->items[i]));
            kv_err_hint(e, "str(x) makes a text: [str(x) for x in list]");
            break;
        }
        rc = piece_of(list.u.list->items[i], "an item", &item, e);
        buf_put(&all, i ? sep.text : "", i ? (size_t)sep.n : 0);
        buf_put(&all, item.text, (size_t)item.n);
    }
    return value_text_take(out, &all, rc, e);
}

/* ---- Regular expressions ---- */

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
    for (int i = 0; !rc && found && i <= regex_groups(s.r); i++) {
        int64_t from = s.span[2 * i], to = s.span[2 * i + 1];
        if (from >= 0 && to >= 0) /* else the group has no part in the match: none */
            rc = value_text_new(&out->u.list->items[i], s.text.text + from, (size_t)(to - from), e);
    }
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
        (rc = function_int_at(args, 3, "count", &most, e)))
        return rc;
    if (!(rc = search_begin(&s, pattern, e)) && !(rc = regex_check_replacement(s.r, to.text, e)))
        rc = regex_replace(s.r, s.text.text, s.text.n, to.text, most, &made, NULL, e);
    search_end(&s);
    return value_text_take(out, &made, rc, e);
}
