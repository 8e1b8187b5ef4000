/* Writes an error as compilers do: file:line:col: error[code]: text, the source line, a caret line,
 * the hint. What stands in scripts and files may be anything, so control characters are made
 * visible and long lines are cut around the place.
 */
#include "out/record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "out/transcript.h"
#include "session/unit.h"
#include "syntax/check.h"
#include "term/terminal.h"

/* The margin in front of carets. */
#define MARGIN "      : "

/* Characters of a long source line that are shown around the place. */
#define SHOWN_MAX 100

/* The bytes that n characters take. */
static size_t bytes_of(const char *text, size_t len, size_t n)
{
    size_t i = 0;
    while (i < len && n > 0) {
        for (i++; i < len && ((unsigned char)text[i] & 0xc0) == 0x80; i++)
            ;
        n--;
    }
    return i;
}

static const char *line_of(const source *src, int line, size_t *len)
{
    uint32_t pos;
    return source_find_line(src, line, &pos) ? source_line(src, pos, len) : NULL;
}

/* A tab becomes a blank, so that carets stand right. */
static void excerpt(buf *out, const char *text, size_t n)
{
    for (size_t part; n > 0; text += part, n -= part) {
        const char *tab = memchr(text, '\t', n);
        part = tab ? (size_t)(tab - text) : n;
        visible_line(out, text, part);
        if (tab)
            buf_char(out, ' ');
        part += tab != NULL;
    }
}

/* The source line of an error, with carets under its place. */
static void show_place(session *s, const kv_err *e, buf *out)
{
    const char *text = NULL;
    size_t len = 0;
    for (const unit *u = s->units; u && !text; u = u->next)
        if (strcmp(u->src.name, e->file) == 0)
            text = line_of(&u->src, e->line, &len);
    if (!text)
        return;
    size_t skip = e->col > SHOWN_MAX / 2 && len > SHOWN_MAX ? (size_t)e->col - SHOWN_MAX / 2 : 0;
    size_t from = bytes_of(text, len, skip);
    size_t shown = bytes_of(text + from, len - from, SHOWN_MAX);
    int carets = e->end > e->col ? e->end - e->col : 1;
    if ((size_t)carets + (size_t)e->col > skip + SHOWN_MAX)
        carets = (int)(skip + SHOWN_MAX + 1 - (size_t)e->col);
    buf_printf(out, " %4d : ", e->line);
    excerpt(out, text + from, shown);
    buf_add(out, "\n" MARGIN);
    buf_repeat(out, ' ', e->col - 1 - (int64_t)skip);
    buf_repeat(out, '^', carets < 1 ? 1 : carets);
    buf_char(out, '\n');
}

void report_text(session *s, const kv_err *e, buf *out)
{
    if (e->line > 0) {
        visible_line(out, e->file, strlen(e->file));
        buf_printf(out, ":%d:%d: error[%s]: ", e->line, e->col, kv_code_name(e->code));
    } else {
        buf_printf(out, "kvctl: error[%s]: ", kv_code_name(e->code));
    }
    visible_line(out, e->text, strlen(e->text));
    buf_char(out, '\n');
    if (e->line > 0)
        show_place(s, e, out);
    buf details = {0};
    session_details(s, &details);
    visible_lines(out, buf_text(&details), details.len);
    buf_release(&details);
    buf_clear(&s->detail);
    if (e->hint[0]) {
        buf_add(out, " hint: ");
        visible_line(out, e->hint, strlen(e->hint));
        buf_char(out, '\n');
    }
}

/* Appends a report as a terminal with colours shows it: error[…] and the carets red and bold. */
static void paint(buf *out, const char *text)
{
    static const char red[] = "\033[1;31m", plain[] = "\033[0m";
    bool first = true;
    for (; *text; first = false) {
        size_t n = strcspn(text, "\n"), from = 0, to = 0;
        const char *error = first ? strstr(text, "error[") : NULL;
        if (error && error < text + n) {
            from = (size_t)(error - text);
            to = from + strcspn(error, "]") + 1;
        } else if (strncmp(text, MARGIN, sizeof MARGIN - 1) == 0) {
            from = sizeof MARGIN - 1 + strspn(text + sizeof MARGIN - 1, " ");
            to = from + strspn(text + from, "^");
        }
        n += text[n] == '\n';
        if (to > from && to <= n) {
            buf_put(out, text, from);
            buf_add(out, red);
            buf_put(out, text + from, to - from);
            buf_add(out, plain);
            buf_put(out, text + to, n - to);
        } else {
            buf_put(out, text, n);
        }
        text += n;
    }
}

/* Writes text with what could steer a terminal replaced. */
static void put_plain(const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putc(c < 0x20 || c >= 0x7f ? '?' : c, stderr);
    }
}

/* The report where there is no memory for a better one: stderr has no buffer and needs none. */
static void report_without_memory(const kv_err *e)
{
    if (e->line > 0) {
        put_plain(e->file);
        fprintf(stderr, ":%d:%d", e->line, e->col);
    } else {
        fputs("kvctl", stderr);
    }
    fprintf(stderr, ": error[%s]: ", kv_code_name(e->code));
    put_plain(e->text);
    fputs(e->hint[0] ? "\n hint: " : "", stderr);
    put_plain(e->hint);
    putc('\n', stderr);
}

void report_error(session *s, const kv_err *e)
{
    buf out = {0}, painted = {0};
    record_error(s, NULL, e);
    s->out.recorder.failed = false;
    report_text(s, e, &out);
    transcript_error(s, buf_text(&out));
    paint(&painted, buf_text(&out));
    fflush(stdout);
    progress_hide(STDERR_FILENO);
    if (out.failed || painted.failed)
        report_without_memory(e);
    else if (!s->out.recorder.on || !s->out.quiet)
        fputs(buf_text(terminal_color(STDERR_FILENO) ? &painted : &out), stderr);
    if (s->failure == 0)
        s->failure = (int)exit_code_of_error(e->code);
    buf_release(&painted);
    buf_release(&out);
}

/* ---- --check ---- */

typedef struct found {
    const kv_err *e;
    int64_t file; /* files in the order in which their errors were found */
    int64_t at;
} found;

static int by_place(const void *a, const void *b)
{
    const found *x = a, *y = b;
    int64_t far = x->file - y->file;
    if (far == 0)
        far = x->e->line - y->e->line;
    if (far == 0)
        far = x->e->col - y->e->col;
    if (far == 0)
        far = x->at - y->at;
    return far < 0 ? -1 : far > 0;
}

static bool same(const kv_err *a, const kv_err *b)
{
    return a->line == b->line && a->col == b->col && strcmp(a->file, b->file) == 0 &&
           strcmp(a->text, b->text) == 0;
}

void check_report(session *s)
{
    check_errors c = *s->check;
    kv_err e = {0};
    found *list = mem_alloc(c.n, sizeof *list, &e);
    *s->check = (check_errors){0};
    for (int64_t i = 0; list && i < c.n; i++) {
        list[i] = (found){&c.items[i], i, i};
        for (int64_t k = 0; k < i && list[i].file == i; k++)
            if (strcmp(c.items[k].file, c.items[i].file) == 0)
                list[i].file = list[k].file;
    }
    if (list)
        qsort(list, (size_t)c.n, sizeof *list, by_place);
    for (int64_t i = 0; list && i < c.n; i++)
        if (i == 0 || !same(list[i].e, list[i - 1].e))
            report_error(s, list[i].e);
    if (!list)
        report_error(s, &e);
    if (c.n == CHECK_ERRORS_MAX)
        session_note(s, "only the first %d errors are shown", CHECK_ERRORS_MAX);
    mem_free(list);
    mem_free(c.items);
}
