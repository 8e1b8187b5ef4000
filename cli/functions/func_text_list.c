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

static int split_words(value_stack *parts, piece text, int64_t most, kv_err *e)
{
    int rc = KV_OK;
    int64_t at = past(text, 0, true);
    for (; at < text.n && most != 0 && !rc; most -= most > 0) {
        int64_t end = past(text, at, false);
        rc = add_part(parts, text, at, end, e);
        at = past(text, end, true);
    }
    return at < text.n && !rc ? add_part(parts, text, at, text.n, e) : rc;
}

static int split_words_last(value_stack *parts, piece text, int64_t most, kv_err *e)
{
    int rc = KV_OK;
    int64_t end = before(text, text.n, true);
    for (; end > 0 && most != 0 && !rc; most -= most > 0) {
        int64_t at = before(text, end, false);
        rc = add_part(parts, text, at, end, e);
        end = before(text, at, true);
    }
    return end > 0 && !rc ? add_part(parts, text, 0, end, e) : rc;
}

static int split_at(value_stack *parts, piece text, piece sep, int64_t most, kv_err *e)
{
    int rc = KV_OK;
    int64_t at = 0, next;
    for (; most != 0 && !rc && (next = piece_find(text, sep, at)) >= 0; most -= most > 0) {
        rc = add_part(parts, text, at, next, e);
        at = next + sep.n;
    }
    return rc ? rc : add_part(parts, text, at, text.n, e);
}

static int split_at_last(value_stack *parts, piece text, piece sep, int64_t most, kv_err *e)
{
    int rc = KV_OK;
    int64_t end = text.n, at;
    for (; most != 0 && !rc && (at = piece_find_last(text, sep, end)) >= 0; most -= most > 0) {
        rc = add_part(parts, text, at + sep.n, end, e);
        end = at;
    }
    return rc ? rc : add_part(parts, text, 0, end, e);
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
    if (by.kind == VALUE_NONE)
        rc = (last ? split_words_last : split_words)(&parts, text, most, e);
    else
        rc = (last ? split_at_last : split_at)(&parts, text, sep, most, e);
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
        (rc = function_int_at(args, 3, "count", &most, e)))
        return rc;
    if (!(rc = search_begin(&s, pattern, e)) && !(rc = regex_check_replacement(s.r, to.text, e)))
        rc = regex_replace(s.r, s.text.text, s.text.n, to.text, most, &made, NULL, e);
    search_end(&s);
    return value_text_take(out, &made, rc, e);
}
