/* Regular expressions. The pattern becomes a program of a few operations with relative jumps, which
 * all threads of it run side by side, one character after the other (Thompson 1968, Pike). Threads
 * stand in the order in which Python would try them, so the first that matches is Python's match,
 * and none is there twice, so that no pattern takes exponential time.
 *
 * Example: a(b|c)*d
 *
 *     0 SAVE 0   1 CHAR a   2 SPLIT 3, 9   3 SAVE 2   4 SPLIT 5, 7   5 CHAR b   6 JUMP 8
 *     7 CHAR c   8 SAVE 3 … JUMP 2   then CHAR d   SAVE 1   MATCH
 */
#include "base/regexp.h"

#include <errno.h>
#include <locale.h>
#include <string.h>
#include <wctype.h>

#include "base/letter.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"

#define PROGRAM_MAX 10000 /* operations: each takes part in every step */
#define DEPTH_MAX   200
#define MANY        (-1)  /* no upper bound */

typedef enum regex_op {
    RE_CHAR, /* x: the character */
    RE_ANY,  /* but a newline */
    RE_SET,  /* x: its first range, y: how many; negated */
    RE_SPLIT,/* goes on at x, else at y, both relative */
    RE_JUMP, /* x */
    RE_SAVE, /* x: which end of a group */
    RE_BEGIN,
    RE_END,  /* or before a newline at the end */
    RE_LAST, /* \Z */
    RE_WORD, /* \b; negated: \B */
    RE_MATCH
} regex_op;

typedef struct operation {
    uint8_t op; /* a regex_op */
    bool negated;
    int32_t x, y;
} operation;

typedef struct range {
    uint32_t first, last;
    char class; /* d, w, s, D, W or S in the place of a range; 0 */
} range;

/* The threads at one character: where they are in the program, and their spans. */
typedef struct threads {
    int32_t *at;
    int64_t *spans;
    int32_t n;
    int64_t *seen; /* for each operation: the step that added it last */
} threads;

struct regex {
    operation *code;
    int64_t n, cap;
    range *ranges;
    int64_t nranges, ranges_cap;
    int groups, depth;
    bool empty; /* what was read last may match nothing */
    const char *pattern, *at; /* while it is read */
    locale_t unicode;
    threads now, next;
    int64_t step;
    kv_err *e;
};

/* ---- Reading --------------------------------------------------------------------------------- */

static bool refuse(regex *r, kv_code code, const char *what)
{
    kv_err_set(r->e, code, "the regular expression \"%.60s\" %s, at character %lld", r->pattern,
               what, (long long)utf8_count(r->pattern, (size_t)(r->at - r->pattern)));
    return false;
}

static bool emit(regex *r, regex_op op, int32_t x, int32_t y)
{
    if (r->n >= PROGRAM_MAX)
        return refuse(r, KV_E_VALUE, "is too long");
    if (mem_grow(&r->code, &r->cap, r->n + 1, sizeof *r->code, r->e))
        return false;
    r->code[r->n++] = (operation){.op = (uint8_t)op, .x = x, .y = y};
    return true;
}

/* Puts a split before the operations from `from` on; greedy: it prefers them to what is behind. */
static bool insert_split(regex *r, int64_t from, int32_t behind, bool greedy)
{
    if (!emit(r, RE_SPLIT, 0, 0))
        return false;
    memmove(r->code + from + 1, r->code + from, (size_t)(r->n - 1 - from) * sizeof *r->code);
    r->code[from] = (operation){.op = RE_SPLIT, .x = greedy ? 1 : behind, .y = greedy ? behind : 1};
    return true;
}

static uint32_t next_character(regex *r)
{
    bool valid;
    size_t n = utf8_length(r->at, strlen(r->at), &valid);
    uint32_t c = valid ? utf8_number(r->at, n) : 0xfffd;
    r->at += n;
    return c;
}

/* The character that the escape behind a backslash stands for; 0 when it is none. */
static uint32_t escaped(regex *r)
{
    static const char plain[] = "n\nt\tr\rf\fv\va\a";
    for (const char *known = plain; *known; known += 2)
        if (*known == *r->at) {
            r->at++;
            return (unsigned char)known[1];
        }
    bool letter = (*r->at >= 'a' && *r->at <= 'z') || (*r->at >= 'A' && *r->at <= 'Z') ||
                  (*r->at >= '0' && *r->at <= '9');
    return letter || !*r->at ? 0 : next_character(r);
}

static bool add_range(regex *r, uint32_t first, uint32_t last, char class)
{
    if (mem_grow(&r->ranges, &r->ranges_cap, r->nranges + 1, sizeof *r->ranges, r->e))
        return false;
    r->ranges[r->nranges++] = (range){first, last, class};
    return true;
}

static bool is_class(char c)
{
    return c && strchr("dwsDWS", c);
}

/* One end of a range in [ ], or a class, which then is in *class. */
static bool set_item(regex *r, uint32_t *c, char *class)
{
    *class = 0;
    if (*r->at != '\\') {
        *c = next_character(r);
        return true;
    }
    r->at++;
    if (is_class(*r->at)) {
        *class = *r->at++;
        return true;
    }
    if (*r->at == 'b') {
        r->at++;
        *c = '\b';
        return true;
    }
    *c = escaped(r);
    return *c || refuse(r, KV_E_UNSUPPORTED, "has an escape that is not known");
}

static bool parse_set(regex *r)
{
    int64_t first = r->nranges;
    bool negated = *r->at == '^';
    r->at += negated;
    for (bool begin = true; *r->at && (begin || *r->at != ']'); begin = false) {
        uint32_t low, high;
        char class, other = 0;
        if (!set_item(r, &low, &class))
            return false;
        high = low;
        if (!class && r->at[0] == '-' && r->at[1] && r->at[1] != ']') {
            r->at++;
            if (!set_item(r, &high, &other))
                return false;
            if (other || high < low)
                return refuse(r, KV_E_VALUE, "has a range that is none");
        }
        if (!add_range(r, low, high, class))
            return false;
    }
    if (*r->at++ != ']')
        return r->at--, refuse(r, KV_E_VALUE, "has a [ that is not closed");
    if (!emit(r, RE_SET, (int32_t)first, (int32_t)(r->nranges - first)))
        return false;
    r->code[r->n - 1].negated = negated;
    return true;
}

static bool parse_escape(regex *r)
{
    char c = *r->at;
    if (is_class(c)) {
        r->at++;
        return add_range(r, 0, 0, c) && emit(r, RE_SET, (int32_t)r->nranges - 1, 1);
    }
    if (c && strchr("bBAZ", c)) {
        r->at++;
        if (!emit(r, c == 'A' ? RE_BEGIN : c == 'Z' ? RE_LAST : RE_WORD, 0, 0))
            return false;
        r->code[r->n - 1].negated = c == 'B';
        r->empty = true;
        return true;
    }
    uint32_t character = escaped(r);
    if (character)
        return emit(r, RE_CHAR, (int32_t)character, 0);
    return !c ? refuse(r, KV_E_VALUE, "ends in a backslash")
              : refuse(r, KV_E_UNSUPPORTED, "has an escape that is not known");
}

static bool parse_choice(regex *r);

static bool parse_group(regex *r)
{
    bool counts = *r->at != '?';
    int group = counts ? ++r->groups : 0;
    if (!counts && r->at[1] != ':')
        return refuse(r, KV_E_UNSUPPORTED, "has a (? that is not known");
    r->at += counts ? 0 : 2;
    if ((counts && !emit(r, RE_SAVE, 2 * group, 0)) || !parse_choice(r))
        return false;
    if (*r->at != ')')
        return refuse(r, KV_E_VALUE, "has a ( that is not closed");
    r->at++;
    return !counts || emit(r, RE_SAVE, 2 * group + 1, 0);
}

/* {m}, {m,}, {,n} or {m,n}; anything else is characters. */
static bool read_counts(regex *r, int *least, int *most)
{
    const char *at = r->at + 1;
    int digits = 0, count[2] = {0, 0};
    bool comma = false;
    for (;; at++) {
        if (*at >= '0' && *at <= '9' && digits < 5) {
            count[comma] = count[comma] * 10 + (*at - '0');
            digits++;
        } else if (*at == ',' && !comma) {
            *least = count[0];
            comma = true;
            digits = 0;
        } else {
            break;
        }
    }
    if (*at != '}' || at == r->at + 1 || (!comma && !digits))
        return false;
    *least = count[0];
    *most = !comma ? count[0] : digits ? count[1] : MANY;
    r->at = at + 1;
    return true;
}

static bool parse_atom(regex *r)
{
    char c = *r->at;
    const char *here = r->at;
    int least, most;
    if (strchr("*+?", c) || (c == '{' && read_counts(r, &least, &most)))
        return r->at = here, refuse(r, KV_E_VALUE, "repeats nothing");
    if (!strchr("([.^$\\", c))
        return emit(r, RE_CHAR, (int32_t)next_character(r), 0);
    r->at++;
    r->empty = c == '^' || c == '$';
    return c == '('    ? parse_group(r)
           : c == '['  ? parse_set(r)
           : c == '\\' ? parse_escape(r)
                       : emit(r, c == '.' ? RE_ANY : c == '^' ? RE_BEGIN : RE_END, 0, 0);
}

static bool copy_block(regex *r, int64_t from, int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        operation one = r->code[from + i];
        if (!emit(r, (regex_op)one.op, one.x, one.y))
            return false;
        r->code[r->n - 1] = one;
    }
    return true;
}

/* The operations from `from` on, `least` to `most` times. */
static bool repeat_block(regex *r, int64_t from, int least, int most, bool greedy)
{
    int64_t size = r->n - from;
    int32_t past = (int32_t)size;
    if (most != MANY && most < least)
        return refuse(r, KV_E_VALUE, "has a {m,n} with m above n");
    for (int i = 1; i < least; i++)
        if (!copy_block(r, from, size))
            return false;
    if (most == MANY && least > 0) /* the last one again */
        return emit(r, RE_SPLIT, greedy ? -past : 1, greedy ? 1 : -past);
    if (most == MANY)
        return insert_split(r, from, past + 2, greedy) && emit(r, RE_JUMP, -(past + 1), 0);
    if (most == 0) {
        r->n = from;
        return true;
    }
    int64_t begin = least > 0 ? from : from + 1;
    if (least == 0 && !insert_split(r, from, past + 1, greedy))
        return false;
    for (int i = least > 0 ? least : 1; i < most; i++) {
        int64_t here = r->n;
        if (!copy_block(r, begin, size) || !insert_split(r, here, past + 1, greedy))
            return false;
    }
    return true;
}

static bool parse_piece(regex *r)
{
    int64_t from = r->n;
    int least = 1, most = 1;
    r->empty = false;
    if (!parse_atom(r))
        return false;
    char c = *r->at;
    if (c == '*' || c == '+' || c == '?') {
        least = c == '+';
        most = c == '?' ? 1 : MANY;
        r->at++;
    } else if (c != '{' || !read_counts(r, &least, &most)) {
        return true;
    }
    bool lazy = *r->at == '?';
    r->at += lazy;
    if (*r->at && strchr("*+?", *r->at))
        return refuse(r, KV_E_UNSUPPORTED, "repeats a repetition");
    if (r->empty && (most == MANY || most > 1))
        return refuse(r, KV_E_UNSUPPORTED, "repeats what may match nothing");
    r->empty |= least == 0;
    return repeat_block(r, from, least, most, !lazy);
}

/* a|b|…, up to a ) or the end. */
static bool parse_choice(regex *r)
{
    int64_t from = r->n;
    bool empty = true;
    if (++r->depth > DEPTH_MAX)
        return refuse(r, KV_E_VALUE, "is nested too deep");
    while (*r->at && *r->at != '|' && *r->at != ')') {
        if (!parse_piece(r))
            return false;
        empty &= r->empty;
    }
    if (*r->at == '|') {
        r->at++;
        if (!insert_split(r, from, (int32_t)(r->n - from) + 2, true) || !emit(r, RE_JUMP, 0, 0))
            return false;
        int64_t jump = r->n - 1;
        if (!parse_choice(r))
            return false;
        r->code[jump].x = (int32_t)(r->n - jump);
        empty |= r->empty;
    }
    r->empty = empty;
    r->depth--;
    return true;
}

static bool make_threads(threads *t, const regex *r, kv_err *e)
{
    t->at = mem_alloc(r->n, sizeof *t->at, e);
    t->seen = mem_zalloc(r->n, sizeof *t->seen, e);
    t->spans = mem_alloc(r->n * 2 * (r->groups + 1), sizeof *t->spans, e);
    return t->at && t->seen && t->spans;
}

int regex_new(regex **out, const char *pattern, kv_err *e)
{
    regex *r = mem_zalloc(1, sizeof *r, e);
    kv_err why = {0};
    if (!r)
        return KV_E_MEMORY;
    r->pattern = r->at = pattern;
    r->e = &why;
    r->unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!r->unicode && errno == ENOMEM)
        kv_err_set(&why, KV_E_MEMORY, "out of memory for a locale");
    bool fine = why.code == KV_OK && emit(r, RE_SAVE, 0, 0) && parse_choice(r);
    if (fine && *r->at)
        fine = refuse(r, KV_E_VALUE, "has a ) that opens nowhere");
    fine = fine && emit(r, RE_SAVE, 1, 0) && emit(r, RE_MATCH, 0, 0) &&
           make_threads(&r->now, r, &why) && make_threads(&r->next, r, &why);
    if (fine) {
        *out = r;
        return KV_OK;
    }
    regex_free(r);
    return kv_err_set(e, why.code ? (kv_code)why.code : KV_E_MEMORY, "%s", why.text);
}

static void release_threads(threads *t)
{
    mem_free(t->at);
    mem_free(t->seen);
    mem_free(t->spans);
}

void regex_free(regex *r)
{
    if (!r)
        return;
    release_threads(&r->now);
    release_threads(&r->next);
    if (r->unicode)
        freelocale(r->unicode);
    mem_free(r->code);
    mem_free(r->ranges);
    mem_free(r);
}

int regex_groups(const regex *r)
{
    return r->groups;
}

/* ---- Matching -------------------------------------------------------------------------------- */

static bool is_word(const regex *r, uint32_t c)
{
    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    return r->unicode && iswalnum_l((wint_t)c, r->unicode);
}

static bool in_class(const regex *r, char class, uint32_t c)
{
    bool d = c >= '0' && c <= '9';
    return class == 'd'   ? d
           : class == 'D' ? !d
           : class == 'w' ? is_word(r, c)
           : class == 'W' ? !is_word(r, c)
           : class == 's' ? letter_is_space(c)
                          : !letter_is_space(c);
}

static bool takes(const regex *r, const operation *o, uint32_t c)
{
    if (o->op == RE_CHAR)
        return (uint32_t)o->x == c;
    if (o->op == RE_ANY)
        return c != '\n';
    bool found = false;
    for (int32_t i = o->x; i < o->x + o->y && !found; i++) {
        const range *one = &r->ranges[i];
        found = one->class ? in_class(r, one->class, c) : c >= one->first && c <= one->last;
    }
    return found != o->negated;
}

/* The text that is matched. */
typedef struct subject {
    const char *text;
    int64_t n;
} subject;

static uint32_t character_at(const subject *s, int64_t at, int64_t *bytes)
{
    bool valid;
    *bytes = (int64_t)utf8_length(s->text + at, (size_t)(s->n - at), &valid);
    return valid ? utf8_number(s->text + at, (size_t)*bytes) : 0xfffd;
}

static bool word_before(const regex *r, const subject *s, int64_t at)
{
    int64_t begin = at - 1, bytes;
    while (begin > 0 && at - begin < 4 && utf8_is_later(s->text[begin]))
        begin--;
    return at > 0 && is_word(r, character_at(s, begin, &bytes));
}

static bool holds(const regex *r, const operation *o, const subject *s, int64_t at)
{
    int64_t bytes;
    switch (o->op) {
    case RE_BEGIN:
        return at == 0;
    case RE_LAST:
        return at == s->n;
    case RE_END:
        return at == s->n || (at == s->n - 1 && s->text[at] == '\n');
    default: /* RE_WORD */
        return (word_before(r, s, at) !=
                (at < s->n && is_word(r, character_at(s, at, &bytes)))) != o->negated;
    }
}

/* Adds a thread, which follows jumps until it needs a character. span is its own for the call. */
static void add(regex *r, threads *t, int64_t pc, const subject *s, int64_t at, int64_t *span)
{
    const operation *o = &r->code[pc];
    if (t->seen[pc] == r->step)
        return;
    t->seen[pc] = r->step;
    switch ((regex_op)o->op) {
    case RE_JUMP:
        add(r, t, pc + o->x, s, at, span);
        return;
    case RE_SPLIT:
        add(r, t, pc + o->x, s, at, span);
        add(r, t, pc + o->y, s, at, span);
        return;
    case RE_SAVE: {
        int64_t before = span[o->x];
        span[o->x] = at;
        add(r, t, pc + 1, s, at, span);
        span[o->x] = before;
        return;
    }
    case RE_BEGIN:
    case RE_END:
    case RE_LAST:
    case RE_WORD:
        if (holds(r, o, s, at))
            add(r, t, pc + 1, s, at, span);
        return;
    case RE_CHAR:
    case RE_ANY:
    case RE_SET:
    case RE_MATCH:
        break;
    }
    int64_t width = 2 * (r->groups + 1);
    memcpy(t->spans + t->n * width, span, (size_t)width * sizeof *span);
    t->at[t->n++] = (int32_t)pc;
}

/* Lets the threads take the character at `at`, in their order: those behind one that matches are
 * of no use any more. */
static void step(regex *r, const subject *s, int64_t at, int64_t barred, int64_t *span, bool *found)
{
    int64_t bytes = 0, width = 2 * (r->groups + 1);
    uint32_t c = at < s->n ? character_at(s, at, &bytes) : 0;
    r->next.n = 0;
    r->step++;
    for (int32_t i = 0; i < r->now.n; i++) {
        const operation *o = &r->code[r->now.at[i]];
        int64_t *own = r->now.spans + i * width;
        if (o->op == RE_MATCH) {
            if (at == barred)
                continue;
            memcpy(span, own, (size_t)width * sizeof *span);
            *found = true;
            break;
        }
        if (at < s->n && takes(r, o, c))
            add(r, &r->next, r->now.at[i] + 1, s, at + bytes, own);
    }
    threads swapped = r->now;
    r->now = r->next;
    r->next = swapped;
}

int regex_search(regex *r, const char *text, int64_t n, int64_t from, bool at_once, bool not_empty,
                 int64_t *span, bool *found, kv_err *e)
{
    subject s = {text, n};
    int64_t width = 2 * (r->groups + 1), bytes = 0, fresh[2 * 100 + 2];
    int64_t *start = width <= 202 ? fresh : mem_alloc(width, sizeof *start, e);
    int code = start ? KV_OK : KV_E_MEMORY;
    *found = false;
    r->now.n = 0;
    r->step++;
    for (int64_t at = from, i = 0; !code && at <= n; at += bytes, i++) {
        bytes = 1;
        if (at < n)
            character_at(&s, at, &bytes);
        for (int64_t k = 0; k < width; k++)
            start[k] = -1;
        if (!*found && (at == from || !at_once))
            add(r, &r->now, 0, &s, at, start);
        if (r->now.n == 0 && (*found || at_once))
            break;
        step(r, &s, at, not_empty ? from : -1, span, found);
        code = stop_check_at(i, e);
    }
    if (start != fresh)
        mem_free(start);
    return code;
}
