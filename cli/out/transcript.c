/* The page of --record, entry by entry. See transcript.h. */
#include "out/transcript.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

/* ---- Differences ---- */

/* Differences between texts.
 *
 * Lines that both texts begin and end with are set aside; what remains in between is compared by
 * the longest common subsequence, in the table that every textbook has. The table is bounded: where
 * the middles are too long for it, one is shown after the other.
 */

/* Equal lines shown beside a difference. */
#define CONTEXT 2
/* Cells of the table at most: 1 MB. */
#define CELLS_MAX (512 * 1024)
/* Lines of one side that are shown at most. */
#define SHOWN_MAX 100

typedef struct line {
    const char *text;
    size_t n;
} line;

typedef struct lines {
    line *items;
    int64_t n, cap;
} lines;

void diff_normalise(buf *b)
{
    size_t to = 0;
    for (size_t i = 0; i < b->len; i++) {
        if (b->data[i] == '\n')
            while (to > 0 && (b->data[to - 1] == ' ' || b->data[to - 1] == '\r'))
                to--;
        b->data[to++] = b->data[i];
    }
    while (to > 0 && strchr(" \r\n", b->data[to - 1]))
        to--;
    b->len = to;
    if (b->data)
        b->data[to] = '\0';
}

/* A text without lines has room for one, so that its items have an address to count from. */
static bool split(lines *out, const char *text)
{
    if (mem_grow(&out->items, &out->cap, 1, sizeof *out->items, NULL))
        return false;
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (mem_grow(&out->items, &out->cap, out->n + 1, sizeof *out->items, NULL))
            return false;
        out->items[out->n++] = (line){text, n};
        text += n + (text[n] == '\n');
    }
    return true;
}

static bool same(line a, line b)
{
    return a.n == b.n && memcmp(a.text, b.text, a.n) == 0;
}

static void show(buf *out, const char *sign, line l)
{
    buf_add(out, sign);
    visible_line(out, l.text, l.n);
    buf_char(out, '\n');
}

static void show_all(buf *out, const char *sign, const line *l, int64_t n)
{
    for (int64_t i = 0; i < n && i < SHOWN_MAX; i++)
        show(out, sign, l[i]);
    if (n > SHOWN_MAX)
        buf_printf(out, "%s... and %lld more\n", sign, (long long)(n - SHOWN_MAX));
}

/* length[i * (nb + 1) + j]: of the longest common subsequence of a from i and b from j. */
static uint16_t *common_lengths(const line *a, int64_t na, const line *b, int64_t nb)
{
    if (na > 60000 || nb > 60000 || (na + 1) * (nb + 1) > CELLS_MAX)
        return NULL;
    uint16_t *length = mem_zalloc((na + 1) * (nb + 1), sizeof *length, NULL);
    for (int64_t i = na - 1; length && i >= 0; i--) {
        for (int64_t j = nb - 1; j >= 0; j--) {
            uint16_t *cell = &length[i * (nb + 1) + j];
            uint16_t below = cell[nb + 1], right = cell[1];
            *cell = same(a[i], b[j]) ? (uint16_t)(cell[nb + 2] + 1) : below > right ? below : right;
        }
    }
    return length;
}

static void middle(buf *out, const line *a, int64_t na, const line *b, int64_t nb)
{
    own_mem uint16_t *length = common_lengths(a, na, b, nb);
    int64_t i = 0, j = 0;
    if (!length) {
        show_all(out, "- ", a, na);
        show_all(out, "+ ", b, nb);
        return;
    }
    while (i < na || j < nb) {
        const uint16_t *cell = &length[i * (nb + 1) + j];
        if (i < na && j < nb && same(a[i], b[j])) {
            show(out, "  ", a[i++]);
            j++;
        } else if (j == nb || (i < na && cell[nb + 1] >= cell[1])) {
            show(out, "- ", a[i++]);
        } else {
            show(out, "+ ", b[j++]);
        }
    }
}

void diff_lines(buf *out, const char *expected, const char *got)
{
    lines a = {0}, b = {0};
    if (split(&a, expected) && split(&b, got)) {
        int64_t head = 0, tail = 0, least = a.n < b.n ? a.n : b.n;
        while (head < least && same(a.items[head], b.items[head]))
            head++;
        while (tail < least - head && same(a.items[a.n - 1 - tail], b.items[b.n - 1 - tail]))
            tail++;
        /* one line is as short as what would stand for it */
        int64_t left_out = head > CONTEXT + 1 ? head - CONTEXT : 0;
        if (left_out > 0)
            buf_printf(out, "  ... %lld equal lines\n", (long long)left_out);
        for (int64_t i = left_out; i < head; i++)
            show(out, "  ", a.items[i]);
        middle(out, a.items + head, a.n - head - tail, b.items + head, b.n - head - tail);
        left_out = tail > CONTEXT + 1 ? tail - CONTEXT : 0;
        for (int64_t i = 0; i < tail - left_out; i++)
            show(out, "  ", a.items[a.n - tail + i]);
        if (left_out > 0)
            buf_printf(out, "  ... %lld equal lines\n", (long long)left_out);
    }
    mem_free(a.items);
    mem_free(b.items);
}

/* ---- Prompts ---- */

void prompt_lines(buf *out, const char *first, const char *next, const char *text, size_t n,
                  bool visible)
{
    for (size_t part; n > 0; text += part, n -= part, first = next) {
        const char *newline = memchr(text, '\n', n);
        size_t shown = newline ? (size_t)(newline - text) : n;
        part = shown + (newline != NULL);
        shown -= shown > 0 && text[shown - 1] == '\r';
        buf_add(out, first);
        (visible ? visible_lines : buf_put)(out, text, shown);
        buf_char(out, '\n');
    }
}

/* ---- The page of --record ---- */

typedef struct transcript {
    file_out page;
    bool begun;   /* something was written */
    bool failed;  /* nothing is written any more */
    kv_err error; /* of a write whose caller could not be told */
    buf entry;         /* the lines of the entry that is open */
    sink out;          /* gets what it puts out */
    bool whole;        /* the entry was typed: its statements begin none of their own */
    const source *src; /* of the entry's lines in a script, and where they end */
    uint32_t to;
} transcript;

int transcript_open(session *s, const char *path, kv_err *e)
{
    own_mem transcript *t = mem_zalloc(1, sizeof *t, e);
    TRY(t ? file_out_open_part(&t->page, path, e) : KV_E_MEMORY);
    s->out.transcript = t;
    t->out = (sink){.kind = SINK_HEARS, .sees_shell = true};
    sink_push(s, &t->out);
    t = NULL;
    return KV_OK;
}

void transcript_entry(session *s, const char *text, size_t n)
{
    transcript *t = s->out.transcript;
    if (!t)
        return;
    buf_put(&t->entry, text, n);
    t->whole = true;
}

void transcript_statement(session *s, const source *src, const ast *node)
{
    transcript *t = s->out.transcript;
    if (!t || t->whole)
        return;
    uint32_t from = node->pos, to = node->end; /* widened to whole lines */
    while (from > 0 && src->text[from - 1] != '\n')
        from--;
    while (to < src->len && src->text[to] != '\n')
        to++;
    bool same_lines = t->src == src && t->entry.len > 0 && from <= t->to;
    if (!same_lines) {
        transcript_done(s, &t->error);
    } else if (to > t->to) {
        from = t->to; /* with the newline between them */
    } else {
        return;
    }
    buf_put(&t->entry, src->text + from, to - from);
    t->src = src;
    t->to = to;
}

void transcript_error(session *s, const char *report)
{
    if (s->out.transcript)
        buf_add(&s->out.transcript->out.text, report);
}

/* All of text at the end of the file, or none of it; then nothing is written any more. */
static int append(transcript *t, const buf *text, kv_err *e)
{
    int fd = fileno(t->page.f);
    off_t before = lseek(fd, 0, SEEK_END);
    t->begun = true;
    int rc = file_write_at(fd, t->page.name, -1, text->data, (int64_t)text->len, e);
    if (rc && t->page.temp && ftruncate(fd, before) == 0)
        kv_err_hint(e, "what was recorded before is in \"%s\"", t->page.temp);
    return rc;
}

int transcript_done(session *s, kv_err *e)
{
    transcript *t = s->out.transcript;
    own_buf page = {0};
    int rc = KV_OK;
    if (!t)
        return KV_OK;
    if (t->entry.len > 0 && !t->failed) {
        prompt_lines(&page, "kv> ", "..> ", buf_text(&t->entry), t->entry.len, false);
        const buf *out = &t->out.text;
        buf_put(&page, buf_text(out), out->len);
        if (out->len > 0 && out->data[out->len - 1] != '\n')
            buf_char(&page, '\n');
        if ((rc = buf_check(&page, e)) == KV_OK)
            rc = append(t, &page, e);
        t->failed = rc != KV_OK;
        if (t->failed)
            file_out_leave(&t->page);
    }
    t->whole = false;
    t->src = NULL;
    buf_clear(&t->entry);
    buf_clear(&t->out.text);
    return rc;
}

int transcript_close(session *s, kv_err *e)
{
    transcript *t = s->out.transcript;
    if (!t)
        return KV_OK;
    int rc = transcript_done(s, e);
    if (t->error.code) {
        *e = t->error;
        rc = e->code;
    }
    if (!t->begun) {
        file_out_abandon(&t->page); /* nothing ran */
    } else if (!t->failed) {
        int ended = file_out_commit(&t->page, rc ? NULL : e);
        rc = rc ? rc : ended;
    }
    s->out.transcript = NULL;
    sink_pop(s, &t->out);
    buf_release(&t->entry);
    buf_release(&t->out.text);
    mem_free(t);
    return rc;
}
