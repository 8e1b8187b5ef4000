/* Functions of texts, and between texts and lists of them, which do what Python's methods of these
 * names do. */
#include <string.h>

#include "base/regexp.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "eval/eval.h"
#include "functions/func.h"

/* ---- format ---- */

/* "{} {1:.2f}".format(a, b): the fields of an f-string, whose values come in order or by number. */

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
                           (int)(end - name < 40 ? end - name : 40), name);
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

/* *next: the value of the next {}; -1 behind {0}, since Python does not mix the two. */
static int put_field(function_args *args, buf *out, const char *at, const char *end, int64_t *next,
                     kv_err *e)
{
    field f;
    own_buf format = {0};
    TRY(parse_field(at, end, &f, e));
    bool counts = f.number < 0;
    if ((counts && *next < 0) || (!counts && *next > 0))
        return kv_err_set(e, KV_E_VALUE, "format() takes {} or {0}, not both in one text");
    f.number = counts ? *next : f.number;
    *next = counts ? *next + 1 : -1;
    if (f.number + 1 >= args->nrest)
        return kv_err_set(e, KV_E_INDEX, "format() has no value for the field {%lld}",
                          (long long)f.number);
    if (f.format)
        buf_put(&format, f.format, f.format_bytes);
    return text_put_field(args->session, out, args->rest[f.number + 1], f.how,
                          f.format ? buf_text(&format) : NULL, e);
}

int func_format(function_args *args, value *out, kv_err *e)
{
    const char *at;
    own_buf all = {0};
    int64_t next = 0;
    TRY(function_text(args->rest[0], "what format() fills", &at, e));
    while (*at) {
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
            return kv_err_set(e, KV_E_VALUE, "a single `%c` in a text of format(); write `%c%c`",
                              *at, *at, *at);
        TRY(put_field(args, &all, at + 1, end, &next, e));
        at = end + 1;
    }
    return value_text_take(out, &all, KV_OK, e);
}

/* ---- Pieces of texts ---- */

/* Bytes of a text, borrowed from a value. */
typedef struct piece {
    const char *text;
    int64_t n;
} piece;

/* The text that v is. Error: dtype. */
static int piece_of(value v, const char *what, piece *out, kv_err *e)
{
    TRY(function_text(v, what, &out->text, e));
    out->n = text_bytes(v);
    return KV_OK;
}

/* The text that a function is of: its first argument. Error: dtype. */
static int text_of(function_args *args, piece *out, kv_err *e)
{
    value v = args->rest ? args->rest[0] : args->v[0];
    if (v.kind == VALUE_TEXT)
        return piece_of(v, "", out, e);
    return kv_err_set(e, KV_E_DTYPE, "%s() takes a text, not %s", args->function->name,
                      value_kind_name(v));
}

/* The text that a function is of, and its first argument. */
static int two_texts(function_args *args, const char *what, piece *text, piece *other, kv_err *e)
{
    TRY(text_of(args, text, e));
    return piece_of(args->v[1], what, other, e);
}

/* The character at a byte and how many bytes it has; U+FFFD for a byte that is not UTF-8. */
static uint32_t piece_character(piece p, int64_t at, int64_t *bytes)
{
    bool valid;
    *bytes = (int64_t)utf8_length(p.text + at, (size_t)(p.n - at), &valid);
    return valid ? utf8_number(p.text + at, (size_t)*bytes) : 0xfffd;
}

/* The byte from which `what` stands in p: the first one at or behind from, or -1. */
static int64_t piece_find(piece p, piece what, int64_t from)
{
    if (from + what.n > p.n)
        return -1;
    const char *found = memmem(p.text + from, (size_t)(p.n - from), what.text, (size_t)what.n);
    return found ? found - p.text : -1;
}

/* ---- Finding ---- */

/* The character at which a text is found between the characters start and end, which may be
 * negative, or -1. */
int func_find(function_args *args, value *out, kv_err *e)
{
    piece text, what;
    int64_t start = 0, end = INT64_MAX, at = -1, from = 0;
    TRY(two_texts(args, "what find() looks for", &text, &what, e));
    TRY(function_int_at(args, 2, "start", &start, e));
    TRY(function_int_at(args, 3, "end", &end, e));
    int64_t n = text_length(args->v[0]);
    start = start < 0 ? start + n : start;
    end = end < 0 ? end + n : end > n ? n : end;
    start = start < 0 ? 0 : start;
    end = end < 0 ? 0 : end;
    if (start <= end) {
        from = text_byte_of(args->v[0], start);
        piece part = {text.text + from, text_byte_of(args->v[0], end) - from};
        at = piece_find(part, what, 0);
    }
    *out = value_int(at < 0 ? -1 : utf8_count(text.text, (size_t)(from + at)));
    return KV_OK;
}

int text_index(function_args *args, value *out, kv_err *e)
{
    TRY(func_find(args, out, e));
    if (out->u.integer >= 0)
        return KV_OK;
    kv_err_set(e, KV_E_VALUE, "the text does not hold \"%.60s\"", args->v[1].u.text);
    return kv_err_hint(e, "text.find(x) gives -1 then");
}

int text_count(function_args *args, value *out, kv_err *e)
{
    piece text, what;
    TRY(two_texts(args, "what count() looks for", &text, &what, e));
    int64_t n = what.n ? 0 : text_length(args->v[0]) + 1;
    for (int64_t at = 0; what.n && (at = piece_find(text, what, at)) >= 0; at += what.n)
        TRY(stop_check_at(n++, e));
    *out = value_int(n);
    return KV_OK;
}

/* True if a text begins or ends with one of several texts, which may stand in a tuple. */
int func_has_end(function_args *args, value *out, kv_err *e)
{
    bool last = FUNCTION_VARIANT(args);
    piece text, end;
    bool found = false;
    TRY(text_of(args, &text, e));
    for (int64_t i = 1; i < args->nrest; i++) {
        int64_t n;
        const value *ends = value_items(&args->rest[i], &n);
        for (int64_t k = 0; k < n; k++) {
            TRY(piece_of(ends[k], last ? "an end" : "a start", &end, e));
            const char *at = text.text + (last ? text.n - end.n : 0);
            found |= end.n <= text.n && memcmp(at, end.text, (size_t)end.n) == 0;
        }
    }
    *out = value_bool(found);
    return KV_OK;
}

/* ---- Changing ---- */

/* ---- Letters ---- */

/* Appends c as a large or small letter; *cased says whether it is a letter that has both. */
static bool put_cased(buf *out, uint32_t c, bool upper, bool *cased, locale_t unicode)
{
    if (c < 0x80) {
        bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z';
        *cased = is_upper || is_lower;
        buf_char(out, (char)(is_upper && !upper ? c + 32 : is_lower && upper ? c - 32 : c));
        return true;
    }
    uint32_t large = letter_upper(c, unicode), small = letter_lower(c, unicode);
    if ((upper ? large : small) == 0)
        return false;
    *cased = large != small;
    char bytes[4];
    buf_put(out, bytes, utf8_put(bytes, upper ? large : small));
    return true;
}

int func_change_case(function_args *args, value *out, kv_err *e)
{
    int how = FUNCTION_VARIANT(args);
    piece text;
    buf made = {0};
    bool inside = false; /* a word */
    TRY(text_of(args, &text, e));
    bool ascii = text_length(args->v[0]) == text.n;
    locale_t unicode = ascii ? (locale_t)0 : newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!ascii && !unicode)
        return kv_err_set(e, KV_E_UNSUPPORTED, "there are no letters beyond ASCII without the "
                                               "locale C.UTF-8");
    int rc = KV_OK;
    for (int64_t at = 0, i = 0, bytes; at < text.n && !rc; at += bytes) {
        uint32_t c = piece_character(text, at, &bytes);
        bool upper = how == LETTERS_UPPER || (how == LETTERS_TITLE && !inside);
        if (!put_cased(&made, c, upper, &inside, unicode))
            rc = kv_err_set(e, KV_E_UNSUPPORTED, "%s() has no one letter for `%.*s`",
                            args->function->name, (int)bytes, text.text + at);
        else
            rc = stop_check_at(i++, e);
    }
    if (unicode)
        freelocale(unicode);
    return value_text_take(out, &made, rc, e);
}

int func_ord(function_args *args, value *out, kv_err *e)
{
    piece text;
    int64_t bytes;
    TRY(piece_of(args->v[0], "a character", &text, e));
    if (text_length(args->v[0]) != 1)
        return kv_err_set(e, KV_E_VALUE, "ord() takes one character, not %lld",
                          (long long)text_length(args->v[0]));
    *out = value_int(piece_character(text, 0, &bytes));
    return KV_OK;
}

int func_chr(function_args *args, value *out, kv_err *e)
{
    int64_t c;
    char bytes[4];
    TRY(function_int(args->v[0], "a character's number", &c, e));
    if (c <= 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return kv_err_set(e, KV_E_VALUE, "no text holds a character of the number %lld",
                          (long long)c);
    return value_text_new(out, bytes, utf8_put(bytes, (uint32_t)c), e);
}

/* ---- From a text to a list ---- */

/* The byte behind the blanks at `at`, or behind the characters that are none. */
static int64_t past(piece text, int64_t at, bool blanks)
{
    int64_t bytes;
    while (at < text.n && letter_is_space(piece_character(text, at, &bytes)) == blanks)
        at += bytes;
    return at;
}

/* Words between blanks. */
static int split_words(value_stack *parts, piece text, int64_t most, kv_err *e)
{
    int64_t from = past(text, 0, true);
    for (; from < text.n && most != 0; most -= most > 0) {
        int64_t end = past(text, from, false);
        TRY(value_stack_text(parts, text.text + from, end - from, e));
        from = past(text, end, true);
    }
    return from < text.n ? value_stack_text(parts, text.text + from, text.n - from, e) : KV_OK;
}

static int split_at(value_stack *parts, piece text, piece sep, int64_t most, kv_err *e)
{
    int64_t from = 0, at;
    for (; most != 0 && (at = piece_find(text, sep, from)) >= 0; most -= most > 0) {
        TRY(value_stack_text(parts, text.text + from, at - from, e));
        from = at + sep.n;
    }
    return value_stack_text(parts, text.text + from, text.n - from, e);
}

/* split(text, sep, maxsplit) has the name of split(a, parts, axis). */
int func_split(function_args *args, value *out, kv_err *e)
{
    const bool *given = args->given;
    value by = args->v[given[3] ? 3 : 1], max = args->v[given[4] ? 4 : 2];
    piece text, sep = {0};
    int64_t most = -1;
    own_stack parts = {0};
    if (args->v[0].kind != VALUE_TEXT) {
        if (!given[1])
            return kv_err_set(e, KV_E_USAGE, "split() of an array needs a number of parts");
        if (given[3] || given[4])
            return kv_err_set(e, KV_E_USAGE, "split() of an array has no %s=, which is for texts",
                              given[3] ? "sep" : "maxsplit");
        TRY(value_to_array(&args->array, args->v[0], e));
        return func_split_array(args, out, e);
    }
    if ((given[1] && given[3]) || (given[2] && given[4]))
        return kv_err_set(e, KV_E_USAGE, "split() of a text has %s twice here",
                          given[3] ? "sep" : "maxsplit");
    bool words = by.kind == VALUE_NONE;
    TRY(text_of(args, &text, e));
    TRY(words ? KV_OK : piece_of(by, "what split() splits at", &sep, e));
    TRY(max.kind == VALUE_NONE ? KV_OK : function_int(max, "maxsplit", &most, e));
    if (!words && sep.n == 0)
        return kv_err_set(e, KV_E_VALUE, "a text cannot be split at an empty text");
    TRY(words ? split_words(&parts, text, most, e) : split_at(&parts, text, sep, most, e));
    return value_stack_take(out, &parts, KV_OK, e);
}

/* ---- From a list to a text ---- */

int func_join(function_args *args, value *out, kv_err *e)
{
    piece sep;
    own_buf all = {0};
    value list = args->v[1];
    TRY(piece_of(args->v[0], "what join() puts between", &sep, e));
    if (!value_is_sequence(list)) {
        kv_err_set(e, KV_E_DTYPE, "join() takes a list of texts, not %s", value_kind_name(list));
        return kv_err_hint(e, "\", \".join([\"a\", \"b\"])");
    }
    for (int64_t i = 0; i < list.u.list->n; i++) {
        value item = list.u.list->items[i];
        TRY(stop_check_at(i, e));
        if (item.kind != VALUE_TEXT) {
            kv_err_set(e, KV_E_DTYPE, "join() takes texts, and item %lld is %s", (long long)i,
                       value_kind_name(item));
            return kv_err_hint(e, "str(x) makes a text: [str(x) for x in list]");
        }
        buf_put(&all, sep.text, i ? (size_t)sep.n : 0);
        buf_put(&all, item.u.text, (size_t)text_bytes(item));
    }
    return value_text_take(out, &all, KV_OK, e);
}

/* ---- Regular expressions ---- */

static void release(regex **r)
{
    regex_free(*r);
}
#define own_regex OWN(release) regex
int func_re_match(function_args *args, value *out, kv_err *e)
{
    const char *pattern;
    piece text;
    own_regex *r = NULL;
    own_mem int64_t *span = NULL; /* of the match */
    own_value groups = value_none();
    bool found = false;
    TRY(function_text(args->v[0], "a regular expression", &pattern, e));
    TRY(piece_of(args->v[1], "the text of re_match()", &text, e));
    TRY(regex_new(&r, pattern, e));
    if (!(span = mem_alloc(2 * (regex_groups(r) + 1), sizeof *span, e)))
        return KV_E_MEMORY;
    TRY(regex_search(r, text.text, text.n, 0, true, false, span, &found, e));
    TRY(found ? value_list_new(&groups, VALUE_LIST, regex_groups(r) + 1, e) : KV_OK);
    for (int i = 0; found && i <= regex_groups(r); i++) {
        int64_t from = span[2 * i], to = span[2 * i + 1];
        value *group = &groups.u.list->items[i];
        if (from >= 0 && to >= 0) /* else the group has no part in the match: none */
            TRY(value_text_new(group, text.text + from, (size_t)(to - from), e));
    }
    return value_give(out, &groups);
}

int func_re_sub(function_args *args, value *out, kv_err *e)
{
    const char *pattern;
    piece to, text;
    own_regex *r = NULL;
    own_buf made = {0};
    int64_t most = 0;
    TRY(function_text(args->v[0], "a regular expression", &pattern, e));
    TRY(piece_of(args->v[1], "what re_sub() puts there", &to, e));
    TRY(piece_of(args->v[2], "the third argument of re_sub()", &text, e));
    TRY(function_int_at(args, 3, "count", &most, e));
    TRY(regex_new(&r, pattern, e));
    TRY(regex_check_replacement(r, to.text, e));
    TRY(regex_replace(r, text.text, text.n, to.text, most, &made, NULL, e));
    return value_text_take(out, &made, KV_OK, e);
}
