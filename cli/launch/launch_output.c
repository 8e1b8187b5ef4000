/* Lines that wait are a list. A new line of a rank joins an equal one behind the rank's last line
 * in the list; else it comes directly behind that one, which is in front of what other ranks wrote
 * before, so that those can still be joined. */
#include "launch/launch_attempt.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "term/line.h"
#include "term/terminal.h"

enum {
    MOST_LINE = 1 << 20, /* what is longer comes in pieces */
    MOST_WAITING = 4096  /* lines */
};

typedef struct output_line {
    struct output_line *next;
    FILE *to; /* NULL: no text, but that a rank is done */
    int64_t begin_ms;
    size_t n;
    bool joins;
    int rank, rc; /* of the first that wrote it */
    char *text;
    bool from[];  /* the ranks that wrote it */
} output_line;

typedef struct output_rank {
    buf part[2];       /* of stdout, of stderr: the part of a line that has come */
    output_line *last; /* its last line in the list, or NULL */
    bool idles;
} output_rank;

int output_begin(launch_output *o, int workers, int servers, kv_err *e)
{
    o->workers = workers;
    o->joins[0] = isatty(STDOUT_FILENO);
    o->joins[1] = true;
    o->join_ms = OUTPUT_JOIN_MS;
    o->ranks = mem_zalloc(workers + servers, sizeof *o->ranks, e);
    o->n = o->ranks ? workers + servers : 0;
    return o->ranks ? KV_OK : e->code;
}

/* ---- Printing ---- */

/* `[2] `, `[0..3] `, `[0 2] `, `[s0] ` for the first server. */
static void put_ranks(const launch_output *o, const output_line *l)
{
    char sign = '[';
    for (int i = 0; i < o->n; i++) {
        int first = i, base = l->rank < o->workers ? 0 : o->workers;
        if (!l->from[i])
            continue;
        while (i + 1 < o->n && l->from[i + 1])
            i++;
        fprintf(l->to, "%c%s%d", sign, base ? "s" : "", first - base);
        if (i > first)
            fprintf(l->to, "..%d", i - base);
        sign = ' ';
    }
    fputs("] ", l->to);
}

/* Returns true if no other rank may still write this line, the first of the list. */
static bool has_all(const launch_output *o, const output_line *l)
{
    int begin = l->rank < o->workers ? 0 : o->workers;
    int end = l->rank < o->workers ? o->workers : o->n;
    for (int i = begin; l->joins && i < end; i++)
        if (!l->from[i] && !o->ranks[i].idles && !o->ranks[i].last)
            return false;
    return true;
}

void output_look(launch_output *o, bool all)
{
    int64_t now = clock_ms(), overdue = 0, i = 0;
    for (const output_line *l = o->first; l; l = l->next) {
        i++;
        if (all || now - l->begin_ms >= o->join_ms)
            overdue = i;
    }
    while (o->first && (overdue-- > 0 || o->waiting > MOST_WAITING || has_all(o, o->first))) {
        output_line *l = o->first;
        o->first = l->next;
        o->waiting--;
        for (int k = 0; k < o->n; k++)
            if (o->ranks[k].last == l)
                o->ranks[k].last = NULL;
        if (l->to) {
            line_leave();
            put_ranks(o, l);
            terminal_pass(l->to, l->text, l->n);
            fputc('\n', l->to);
        }
        if (l->to && (!o->first || o->first->to != l->to)) {
            bool failed = fflush(l->to) || ferror(l->to);
            if (failed && l->to == stdout && !o->error && errno != EPIPE)
                o->error = errno;
            clearerr(l->to);
        }
        if (!l->to && o->done)
            o->done(o->arg, l->rank, l->rc);
        mem_free(l->text);
        mem_free(l);
    }
}

/* ---- Lines ---- */

/* An equal line that this rank may join, or NULL. */
static output_line *find(const launch_output *o, const output_line *after, const output_line *like)
{
    output_line *l = after ? after->next : o->first;
    bool serves = like->rank >= o->workers;
    while (l && (!l->joins || l->to != like->to || l->n != like->n ||
                 (l->rank >= o->workers) != serves || memcmp(l->text, like->text, l->n) != 0))
        l = l->next;
    return l;
}

/* Without memory the line is lost, and stdout counts as not written. */
static void add(launch_output *o, int number, FILE *to, const char *text, size_t n, int rc)
{
    output_rank *r = &o->ranks[number];
    output_line like = {.to = to, .n = n, .rank = number, .text = (char *)(uintptr_t)text};
    bool joins = to && o->joins[to == stderr];
    output_line *l = joins ? find(o, r->last, &like) : NULL;
    if (!l) {
        l = mem_zalloc(1, sizeof *l + (size_t)o->n, NULL);
        char *copy = l ? mem_text(text, n, NULL) : NULL;
        if (!copy) {
            o->error = o->error ? o->error : ENOMEM;
            mem_free(l);
            return;
        }
        *l = like;
        l->text = copy;
        l->joins = joins;
        l->rc = rc;
        l->begin_ms = clock_ms();
        output_line **at = r->last ? &r->last->next : &o->first;
        l->next = *at;
        *at = l;
        o->waiting++;
    }
    l->from[number] = true;
    r->last = l;
}

/* Takes the lines out of a part; all: also the last one, which has no end. */
static void cut(launch_output *o, int number, bool to_stderr, bool all)
{
    buf *part = &o->ranks[number].part[to_stderr];
    FILE *to = to_stderr ? stderr : stdout;
    const char *text = buf_text(part), *end = text + part->len, *at = text, *next;
    while (at < end && (next = memchr(at, '\n', (size_t)(end - at)))) {
        add(o, number, to, at, (size_t)(next - at), 0);
        at = next + 1;
    }
    if (at < end && (all || end - at > MOST_LINE)) {
        add(o, number, to, at, (size_t)(end - at), 0);
        at = end;
    }
    if (part->data) {
        part->len = (size_t)(end - at);
        memmove(part->data, at, part->len + 1);
    }
}

void output_take(launch_output *o, int number, bool to_stderr, const char *text, size_t n)
{
    buf *part = &o->ranks[number].part[to_stderr];
    buf_put(part, text, n);
    if (part->failed && !o->error)
        o->error = ENOMEM;
    part->failed = false;
    cut(o, number, to_stderr, false);
    output_look(o, false);
}

void output_done(launch_output *o, int number, int rc)
{
    for (int i = 0; i < 2; i++)
        cut(o, number, i, true);
    add(o, number, NULL, "", 0, rc);
    output_look(o, false);
}

void output_idles(launch_output *o, int number, bool idles)
{
    o->ranks[number].idles = idles;
    output_look(o, false);
}

void output_ended(launch_output *o, int number)
{
    for (int i = 0; i < 2; i++)
        cut(o, number, i, true);
    output_idles(o, number, true);
}

void output_release(launch_output *o)
{
    for (int i = 0; i < o->n; i++)
        output_ended(o, i);
    output_look(o, true);
    for (int i = 0; i < o->n * 2; i++)
        buf_release(&o->ranks[i / 2].part[i % 2]);
    mem_free(o->ranks);
    o->ranks = NULL;
}
