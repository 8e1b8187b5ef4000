/* Regular expressions by PCRE2, the only file that knows it. It is loaded at the first one: linked,
 * it would make every start of a process take 0.07 ms longer. */
#include "base/regexp.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <dlfcn.h>
#include <errno.h>
#include <pcre2.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"

#define STEPS_MAX     1000000 /* of one search at one place of the text: some 13 ms */
#define HEAP_KIB      65536
#define STARTS_FIRST  256 /* places that are tried before the user's wish to stop is asked for */
#define STARTS_LONGER 1000000 /* nanoseconds: a shorter measurement is doubled */

#define FUNCTIONS(X)                                                                              \
    X(general_context_create)                                                                     \
    X(general_context_free)                                                                       \
    X(compile_context_create)                                                                     \
    X(compile_context_free)                                                                       \
    X(set_newline)                                                                                \
    X(compile)                                                                                    \
    X(code_free)                                                                                  \
    X(pattern_info)                                                                               \
    X(match_context_create)                                                                       \
    X(match_context_free)                                                                         \
    X(set_match_limit)                                                                            \
    X(set_heap_limit)                                                                             \
    X(set_offset_limit)                                                                           \
    X(match_data_create_from_pattern)                                                             \
    X(match_data_free)                                                                            \
    X(match)                                                                                      \
    X(get_ovector_pointer)                                                                        \
    X(substring_number_from_name)                                                                 \
    X(get_error_message)

struct regex {
    struct pcre2 { /* functions of the library */
#define DECLARE(name) __typeof__(pcre2_##name) *name;
        FUNCTIONS(DECLARE)
#undef DECLARE
    } f;
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
    pcre2_match_data *data;
    int groups;
    buf valid; /* a text that is not UTF-8, with other bytes for the invalid ones */
};

/* ---- The library ----------------------------------------------------------------------------- */

static int no_memory(kv_err *e)
{
    return kv_err_set(e, KV_E_MEMORY, "out of memory for a regular expression");
}

static int load(struct pcre2 *f, kv_err *e)
{
    errno = 0;
    void *library = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL); /* stays loaded */
    bool whole = library != NULL;
#define FIND(name)                                                                                \
    if (whole) {                                                                                  \
        void *address = dlsym(library, "pcre2_" #name "_8");                                      \
        memcpy(&f->name, &address, sizeof address);                                               \
        whole = address != NULL;                                                                  \
    }
    FUNCTIONS(FIND)
#undef FIND
    if (whole)
        return KV_OK;
    bool memory = errno == ENOMEM;
    const char *why = dlerror();
    if (memory || strstr(why, "emory")) /* the C library says it in several ways */
        return no_memory(e);
    kv_err_set(e, KV_E_UNSUPPORTED, "regular expressions need libpcre2-8, which cannot be loaded: "
                                    "%s", why);
    return kv_err_hint(e, "the package is libpcre2-8-0"), KV_E_UNSUPPORTED;
}

static void *take_memory(size_t n, void *arg)
{
    (void)arg;
    return mem_alloc((int64_t)n, 1, NULL);
}

static void give_memory(void *block, void *arg)
{
    (void)arg;
    mem_free(block);
}

/* ---- Patterns -------------------------------------------------------------------------------- */

/* Copies a class, [ ] with all that is in it, in which nothing is rewritten. */
static const char *copy_class(buf *out, const char *p)
{
    const char *begin = p;
    p += p[1] == '^' ? 2 : 1;
    p += *p == ']';
    while (*p && *p != ']') {
        const char *named = p[0] == '[' && p[1] == ':' ? strstr(p, ":]") : NULL;
        p = named ? named + 2 : p + 1 + (p[0] == '\\' && p[1]);
    }
    p += *p == ']';
    buf_put(out, begin, (size_t)(p - begin));
    return p;
}

/* Writes a pattern as PCRE2 has it, up to `stop` bytes, and returns where in the pattern that
 * is. */
static const char *rewrite(buf *out, const char *p, size_t stop)
{
    while (*p && out->len < stop) {
        if (*p == '[') {
            const char *begin = p;
            size_t before = out->len;
            p = copy_class(out, p);
            if (out->len > stop)
                return begin + (stop - before);
        } else if (p[0] == '\\' && p[1]) {
            /* \G would be where some places begin that are tried together: \i is not known */
            buf_add(out, p[1] == 'Z'   ? "\\z"
                         : p[1] == 'v' ? "\\x0b"
                         : p[1] == 'G' ? "\\i"
                                       : "");
            if (!strchr("ZvG", p[1]))
                buf_put(out, p, 2);
            p += 2;
        } else {
            bool most = p[0] == '{' && p[1] == ',' && p[2] >= '0' && p[2] <= '9' &&
                        p[2 + strspn(p + 2, "0123456789")] == '}';
            buf_char(out, *p++);
            if (most)
                buf_char(out, '0');
        }
    }
    return p;
}

/* What is wrong, where PCRE2 says it less well; NULL: as it says. */
static const char *sentence(int error)
{
    switch (error) {
    case PCRE2_ERROR_END_BACKSLASH: return "ends in a backslash";
    case PCRE2_ERROR_UNKNOWN_ESCAPE: return "has an escape that is not known";
    case PCRE2_ERROR_QUANTIFIER_OUT_OF_ORDER: return "has a {m,n} with m above n";
    case PCRE2_ERROR_MISSING_SQUARE_BRACKET: return "has a [ that is not closed";
    case PCRE2_ERROR_CLASS_RANGE_ORDER:
    case PCRE2_ERROR_CLASS_INVALID_RANGE:
        return "has a `-` that makes no range";
    case PCRE2_ERROR_QUANTIFIER_INVALID: return "repeats nothing";
    case PCRE2_ERROR_MISSING_CLOSING_PARENTHESIS: return "has a ( that is not closed";
    case PCRE2_ERROR_UNMATCHED_CLOSING_PARENTHESIS: return "has a ) that opens nowhere";
    case PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP: return "is nested too deep";
    case PCRE2_ERROR_PATTERN_TOO_LARGE: return "is too long";
    case PCRE2_ERROR_LOOKBEHIND_NOT_FIXED_LENGTH:
        return "looks behind at a text that has no fixed length";
    default: return NULL;
    }
}

static int refuse(const regex *r, const char *pattern, int error, size_t at, kv_err *e)
{
    char theirs[160] = "";
    buf text = {0};
    if (error == PCRE2_ERROR_HEAP_FAILED)
        return kv_err_set(e, KV_E_MEMORY, "out of memory for the regular expression \"%.60s\"",
                          pattern);
    const char *ours = sentence(error), *place = rewrite(&text, pattern, at);
    buf_release(&text);
    if (!ours)
        r->f.get_error_message(error, (PCRE2_UCHAR *)theirs, sizeof theirs);
    return kv_err_set(e, KV_E_VALUE,
                      "the regular expression \"%.60s\" %s%s, at character %lld", pattern,
                      ours ? "" : "is refused: ", ours ? ours : theirs,
                      (long long)utf8_count(pattern, (size_t)(place - pattern)));
}

static int compile(regex *r, const char *pattern, kv_err *e)
{
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C |
                             PCRE2_USE_OFFSET_LIMIT;
    buf text = {0};
    int error = 0;
    uint32_t groups = 0;
    size_t at = 0;
    rewrite(&text, pattern, SIZE_MAX);
    pcre2_compile_context *how = r->f.compile_context_create(r->memory);
    int rc = how ? buf_check(&text, e) : KV_E_MEMORY;
    if (!rc) {
        r->f.set_newline(how, PCRE2_NEWLINE_LF);
        r->code = r->f.compile((PCRE2_SPTR)buf_text(&text), text.len, options, &error, &at, how);
        rc = r->code ? KV_OK : refuse(r, pattern, error, at, e);
    }
    r->f.compile_context_free(how);
    buf_release(&text);
    if (!rc)
        r->f.pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    r->groups = (int)groups;
    return rc;
}

int regex_new(regex **out, const char *pattern, kv_err *e)
{
    regex *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    int rc = load(&r->f, e);
    if (rc) {
        mem_free(r);
        return rc;
    }
    if ((r->memory = r->f.general_context_create(take_memory, give_memory, NULL)) &&
        (r->limits = r->f.match_context_create(r->memory))) {
        r->f.set_match_limit(r->limits, STEPS_MAX);
        r->f.set_heap_limit(r->limits, HEAP_KIB);
        rc = compile(r, pattern, e);
    } else {
        rc = KV_E_MEMORY;
    }
    if (!rc && !(r->data = r->f.match_data_create_from_pattern(r->code, r->memory)))
        rc = KV_E_MEMORY;
    if (!rc) {
        *out = r;
        return KV_OK;
    }
    regex_free(r);
    return e->code ? rc : no_memory(e);
}

void regex_free(regex *r)
{
    if (!r)
        return;
    r->f.match_data_free(r->data);
    r->f.code_free(r->code);
    r->f.match_context_free(r->limits);
    r->f.general_context_free(r->memory);
    buf_release(&r->valid);
    mem_free(r);
}

int regex_groups(const regex *r)
{
    return r->groups;
}

/* ---- Matching -------------------------------------------------------------------------------- */

/* The text, or one of as many bytes that is UTF-8: a byte that is none becomes a control
 * character, which is not a letter, digit or blank. */
static int make_valid(regex *r, const char **text, int64_t n, kv_err *e)
{
    if (utf8_valid(*text, (size_t)n))
        return KV_OK;
    buf_clear(&r->valid);
    for (int64_t at = 0; at < n;) {
        bool valid;
        size_t size = utf8_length(*text + at, (size_t)(n - at), &valid);
        buf_put(&r->valid, valid ? *text + at : "\x1a", size);
        at += (int64_t)size;
    }
    *text = buf_text(&r->valid);
    return buf_check(&r->valid, e);
}

/* regex_search in a text that is UTF-8. PCRE2 cannot be interrupted, so it is given some places to
 * try at a time. */
static int search(regex *r, const char *text, int64_t n, int64_t from, uint32_t options,
                  int64_t *span, bool *found, kv_err *e)
{
    int64_t starts = STARTS_FIRST;
    int rc = PCRE2_ERROR_NOMATCH;
    *found = false;
    for (int64_t at = from; at <= n && rc == PCRE2_ERROR_NOMATCH;) {
        int64_t began = clock_ns();
        int64_t last = n - at > starts && !(options & PCRE2_ANCHORED) ? at + starts : n;
        while (last < n && utf8_is_later(text[last]))
            last++;
        if (stop_check(e))
            return KV_E_INTERRUPTED;
        r->f.set_offset_limit(r->limits, (size_t)last);
        rc = r->f.match(r->code, (PCRE2_SPTR)text, (size_t)n, (size_t)at,
                        options | PCRE2_NO_UTF_CHECK, r->data, r->limits);
        starts *= clock_ns() - began < STARTS_LONGER ? 2 : 1;
        at = last + (last == n);
        options = at > from ? options & ~(uint32_t)PCRE2_NOTEMPTY_ATSTART : options;
    }
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        if (rc == PCRE2_ERROR_NOMEMORY)
            return no_memory(e);
        kv_err_set(e, KV_E_VALUE, "the regular expression needs more than %s on this text",
                   rc == PCRE2_ERROR_MATCHLIMIT ? "a million steps" : "64 MB");
        return kv_err_hint(e, "nested repetitions such as (a+)+ try every way to part a text"),
               KV_E_VALUE;
    }
    *found = rc >= 0;
    const size_t *ends = *found ? r->f.get_ovector_pointer(r->data) : NULL;
    for (int i = 0; *found && i < 2 * (r->groups + 1); i++)
        span[i] = ends[i] == PCRE2_UNSET ? -1 : (int64_t)ends[i];
    return KV_OK;
}

int regex_search(regex *r, const char *text, int64_t n, int64_t from, bool at_once, bool not_empty,
                 int64_t *span, bool *found, kv_err *e)
{
    uint32_t options = (at_once ? PCRE2_ANCHORED : 0) | (not_empty ? PCRE2_NOTEMPTY_ATSTART : 0);
    int rc = make_valid(r, &text, n, e);
    return rc ? rc : search(r, text, n, from, options, span, found, e);
}

/* ---- Replacing ------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The group whose name or number n bytes are; -1: none. */
static int group_named(const regex *r, const char *name, size_t n)
{
    char text[64];
    if (n == 0 || n >= sizeof text)
        return -1;
    memcpy(text, name, n);
    text[n] = 0;
    int number = 0;
    if (strspn(text, "0123456789") < n)
        number = r->f.substring_number_from_name(r->code, (PCRE2_SPTR)text);
    else
        for (size_t i = 0; i < n && number <= r->groups; i++)
            number = number * 10 + (text[i] - '0');
    return number < 0 || number > r->groups ? -1 : number;
}

/* What a replacement says at `at`: characters as they are, or a group. */
typedef struct piece_of_replacement {
    const char *text;
    size_t n;
    int group; /* -1: text */
} replacement;

/* The next piece; *end is set past it. False: it is refused, with e. */
static bool next_piece(const regex *r, const char *at, const char **end, replacement *out,
                       kv_err *e)
{
    static const char plain[] = "n\nt\tr\r\\\\a\af\fv\v";
    const char *close = at[0] == '\\' && at[1] == 'g' && at[2] == '<' ? strchr(at, '>') : NULL;
    *out = (replacement){at, 1 + strcspn(at + 1, "\\"), -1};
    *end = at + out->n;
    if (*at != '\\')
        return true;
    const char *name = at + 1, *known = plain;
    size_t n = 0;
    if (close) {
        name = at + 3;
        n = (size_t)(close - name);
        *end = close + 1;
    } else if (at[1] != '0' && is_digit(at[1])) {
        n = is_digit(at[2]) ? 2 : 1;
        *end = name + n;
    }
    if (close || n) {
        out->group = group_named(r, name, n);
        if (out->group < 0)
            kv_err_set(e, KV_E_VALUE, "the regular expression has no group %.*s",
                       n < 60 ? (int)n : 60, name);
        return out->group >= 0;
    }
    while (*known && *known != at[1])
        known += 2;
    bool letter = (at[1] >= 'a' && at[1] <= 'z') || (at[1] >= 'A' && at[1] <= 'Z');
    *end = at + 2;
    *out = *known ? (replacement){known + 1, 1, -1} : (replacement){at, 2, -1};
    if (at[1] && (*known || !(letter || is_digit(at[1]))))
        return true;
    kv_err_set(e, KV_E_VALUE, "a replacement has an escape that is not known: \\%.1s", at + 1);
    return false;
}

int regex_check_replacement(const regex *r, const char *to, kv_err *e)
{
    replacement piece;
    while (*to)
        if (!next_piece(r, to, &to, &piece, e))
            return e->code;
    return KV_OK;
}

static void put_replacement(const regex *r, buf *out, const char *to, const char *text,
                            const int64_t *span)
{
    replacement piece;
    kv_err e = {0};
    while (*to && next_piece(r, to, &to, &piece, &e)) {
        if (piece.group < 0)
            buf_put(out, piece.text, piece.n);
        else if (span[2 * piece.group] >= 0)
            buf_put(out, text + span[2 * piece.group],
                    (size_t)(span[2 * piece.group + 1] - span[2 * piece.group]));
    }
}

/* An empty match may follow one that is not, as in Python. */
int regex_replace(regex *r, const char *text, int64_t n, const char *to, int64_t most, buf *out,
                  int64_t *replaced, kv_err *e)
{
    const char *valid = text;
    int64_t copied = 0, count = 0, *span = mem_alloc(2 * (r->groups + 1), sizeof *span, e);
    uint32_t options = 0;
    bool found = true;
    int rc = span ? make_valid(r, &valid, n, e) : KV_E_MEMORY;
    while (!rc && (most == 0 || count < most)) {
        rc = search(r, valid, n, copied, options, span, &found, e);
        if (rc || !found)
            break;
        buf_put(out, text + copied, (size_t)(span[0] - copied));
        put_replacement(r, out, to, text, span);
        copied = span[1];
        options = span[0] == span[1] ? PCRE2_NOTEMPTY_ATSTART : 0;
        count++;
    }
    buf_put(out, text + copied, (size_t)(n - copied));
    mem_free(span);
    if (replaced)
        *replaced = count;
    return rc ? rc : buf_check(out, e);
}
