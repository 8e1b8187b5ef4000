/* The session behind the prompt: what repl.h asks of an interpreter, answered by cli/run.
 *
 * Every entry is a unit of its own, and an error in it is reported and forgotten.
 */
#include "pages.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "complete/complete.h"
#include "out/record.h"
#include "out/transcript.h"
#include "run/run.h"
#include "session/unit.h"
#include "session/visit.h"
#include "syntax/read_unit.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

typedef struct prompt {
    session *s;
    buf shown; /* the output of the entry before, if it was one of a page */
} prompt;

/* The output that a page shows below an entry is no entry. It is recognised by comparison with the
 * output of the entry that ran, so it must be the same. */
static int entry_complete(void *arg, const char *text, size_t n)
{
    const prompt *p = arg;
    size_t shown = page_shown(text, n, &p->shown);
    return unit_is_complete(text + shown, n - shown);
}

/* Returns true if statement i of a text stands on lines of its own, below the one before it: in a
 * pasted text it begins an entry. */
static bool begins_line(const unit *u, uint32_t i)
{
    uint32_t from = i > 0 ? u->body->kid[i - 1]->end : 0, to = u->body->kid[i]->pos;
    return i == 0 || memchr(u->src.text + from, '\n', to - from);
}

/* The entries of a text from statement i on. */
static int64_t count_entries(const unit *u, uint32_t i)
{
    int64_t n = 0;
    for (; i < u->body->n; i++)
        n += begins_line(u, i);
    return n;
}

/* Shows lines of a text in front of what they put out, each behind a prompt. */
static void echo_lines(const char *text, size_t n)
{
    const char *sign = "kv> ";
    buf shown = {0};
    for (size_t line; n > 0; text += line, n -= line) {
        const char *newline = memchr(text, '\n', n);
        line = newline ? (size_t)(newline - text) + 1 : n;
        buf_add(&shown, sign);
        visible_lines(&shown, text, line - (newline != NULL));
        buf_char(&shown, '\n');
        sign = "..> ";
    }
    fflush(stdout);
    fputs(buf_text(&shown), stderr);
    buf_release(&shown);
}

/* Echoes an entry of a pasted text, which as a whole stands above. */
static void echo_entry(const unit *u, uint32_t i)
{
    const char *text = u->src.text;
    uint32_t from = u->body->kid[i]->pos, to = u->body->kid[i]->end;
    if (!begins_line(u, i))
        return;
    while (from > 0 && text[from - 1] != '\n')
        from--;
    for (i++; i < u->body->n && !begins_line(u, i); i++)
        to = u->body->kid[i]->end;
    const char *newline = memchr(text + to, '\n', u->src.len - to);
    echo_lines(text + from, newline ? (size_t)(newline - text) - from : u->src.len - from);
}

/* Runs one entry; an error is reported and the session goes on. A pasted text may hold several,
 * each of which is shown in front of its output. */
static void run_one(session *s, const char *text, size_t n, int line, bool pasted)
{
    kv_err e = {0};
    unit *u = NULL;
    char *copy = mem_text(text, n, &e);
    transcript_entry(s, text, n);
    s->pasted = memchr(text, '\n', n) && !page_is(text, n);
    if (copy && unit_read(s, &u, "<repl>", copy, n, line, NULL, &e) == KV_OK) {
        s->begins = pasted && s->pasted && count_entries(u, 0) > 1 ? echo_entry : NULL;
        unit_run(s, u, &e);
    }
    s->begins = NULL;
    s->pasted = false;
    if (e.code == KV_E_INTERRUPTED) {
        fflush(stdout);
        progress_hide(STDERR_FILENO);
        /* the terminal has shown ^C there */
        fputs(isatty(STDERR_FILENO) ? "\rinterrupted\n" : "interrupted\n", stderr);
    } else if (e.code) {
        report_error(s, &e);
    }
    /* an entry that fails ends a pasted text that has no prompts: says what did not run */
    int64_t left = u && u->body && u->begun > 0 ? count_entries(u, u->begun) : -1;
    if (e.code && !page_is(text, n) && left > 0)
        fprintf(stderr, "%lld entr%s not run\n", (long long)left, left == 1 ? "y was" : "ies were");
    else if (e.code && !page_is(text, n) && left < 0 && page_has_several(text, n))
        fputs("nothing of it was run\n", stderr);
    unit_drop(s, u);
    e = (kv_err){0};
    if (session_flush(s, &e) || transcript_done(s, &e))
        report_error(s, &e);
}

/* Shows an entry of a page in front of what it puts out: the page as a whole stands above. */
static void echo(const char *text, size_t n)
{
    buf lines = {0}, visible = {0};
    page_prompts(&lines, text, n);
    visible_lines(&visible, buf_text(&lines), lines.len);
    if (lines.len > 0 && lines.data[lines.len - 1] != '\n')
        buf_char(&visible, '\n');
    fputs(buf_text(&visible), stderr);
    buf_release(&lines);
    buf_release(&visible);
}

/* Each prompt of a page begins an entry, and when one fails the others run all the same. The output
 * of the last is kept. */
static void run_page(prompt *p, const char *text, size_t n, int line)
{
    bool several = page_entry(text, n) < n;
    for (size_t one; n > 0; text += one, n -= one) {
        sink heard = {.kind = SINK_HEARS};
        one = page_entry(text, n);
        if (several)
            echo(text, one);
        sink_push(p->s, &heard);
        run_one(p->s, text, one, line, false);
        sink_pop(p->s, &heard);
        buf_release(&p->shown);
        p->shown = heard.text;
        line += (int)text_newlines(text, one);
        if (p->s->leaving || p->s->out.closed || interrupt_pending())
            break;
    }
}

/* Returns true if the text is this word, with blanks behind it at most. */
static bool is_word(const char *text, size_t n, const char *word)
{
    while (n > 0 && letter_is_blank(text[n - 1]))
        n--;
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

static bool entry_run(void *arg, const char *text, size_t n, int first_line, bool pasted)
{
    prompt *p = arg;
    size_t shown = page_shown(text, n, &p->shown);
    int line = first_line + (int)text_newlines(text, shown);
    text += shown;
    n -= shown;
    if (page_is(text, n)) {
        run_page(p, text, n, line);
    } else if (is_word(text, n, "clear") && !session_find(p->s, "clear")) {
        terminal_clear();
    } else if (n > 0) {
        bool leaves = is_word(text, n, "\\q"); /* as in psql */
        buf_clear(&p->shown);
        run_one(p->s, leaves ? "quit" : text, leaves ? 4 : n, line, pasted);
    }
    pager_from_end(false);
    return p->s->leaving || p->s->out.closed;
}

static void entry_candidates(void *arg, const char *text, size_t n, line_words *out)
{
    complete_words(((prompt *)arg)->s, text, n, out);
}

static void entry_hint(void *arg, const char *text, size_t n, buf *out)
{
    complete_hint(((prompt *)arg)->s, text, n, out);
}

/* kv> , or kv:b> for a store that is not the first; kv[2/4]> for rank 2 of 4 workers; with a * when
 * a transaction is open in it. */
static const char *entry_prompt(void *arg)
{
    session *s = ((prompt *)arg)->s;
    static char text[96]; /* the terminal is one a process */
    const store_entry *used = s->current >= 0 ? &s->stores[s->current] : NULL;
    const char *open = used && kv_in_transaction(used->store) ? "*" : "";
    bool first = !used || strcmp(used->name, "kv") == 0;
    char rank[28] = "";
    if (used && kv_num_workers(used->store) > 1)
        snprintf(rank, sizeof rank, "[%d/%d]", kv_rank(used->store), kv_num_workers(used->store));
    snprintf(text, sizeof text, "kv%s%.48s%s%s> ", first ? "" : ":", first ? "" : used->name, rank,
             open);
    return text;
}

int prompt_run(session *s, bool quiet)
{
    static const repl_ops ops = {entry_complete,   entry_run,
                                 entry_candidates, entry_hint,
                                 entry_prompt,     "kvctl " KV_VERSION ": try help; Ctrl-D leaves",
                                 NULL,             NULL};
    prompt p = {.s = s};
    buf history = {0};
    histfile_path(&history, s->history);
    pager_allow(true);
    kv_err e = {0};
    int ended = repl_run(&ops, &p, quiet, buf_text(&history), &e);
    pager_allow(false);
    if (e.code)
        report_error(s, &e);
    buf_release(&p.shown);
    buf_release(&history);
    return ended;
}

int prompt_serve(session *s, const entry_source *from, bool stops)
{
    prompt p = {.s = s};
    s->failure = 0;
    for (bool on = true; on;) {
        char *text;
        size_t n;
        int line;
        kv_err e = {0};
        entry_source_answer(from, s->failure);
        s->failure = 0;
        interrupt_at_prompt(true);
        visit_park(s, true);
        if (entry_source_next(from, &text, &n, &line, &e))
            report_error(s, &e);
        visit_park(s, false);
        interrupt_at_prompt(false);
        if (!text)
            break;
        interrupt_clear(); /* a Ctrl-C that came late was for the entry before */
        on = !entry_run(&p, text, n, line, false) && !(stops && s->failure) &&
             interrupt_pending() != SIGTERM;
        interrupt_clear();
        mem_free(text);
    }
    s->failure = stops ? s->failure : 0; /* errors at a prompt are part of the talk */
    buf_release(&p.shown);
    return interrupt_pending();
}
