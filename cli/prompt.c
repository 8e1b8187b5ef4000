/* The session behind the prompt: what repl.h asks of an interpreter, answered by cli/script.
 *
 * Every entry is a unit of its own, and an error in it is reported and forgotten.
 */
#include "prompt.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "complete.h"
#include "script/report.h"
#include "script/transcript.h"
#include "script/unit.h"
#include "term/histfile.h"
#include "term/interrupt.h"
#include "term/pager.h"
#include "term/progress.h"
#include "term/repl.h"

static int entry_complete(void *arg, const char *text, size_t n)
{
    (void)arg;
    return unit_is_complete(text, n);
}

/* Runs one entry; an error is reported and the session goes on. */
static bool entry_run(void *arg, const char *text, size_t n, int first_line)
{
    session *s = arg;
    kv_err e = {0};
    unit *u = NULL;
    char *copy = mem_text(text, n, &e);
    transcript_entry(s, text, n);
    if (copy && unit_read(s, &u, "<repl>", copy, n, first_line, NULL, &e) == KV_OK)
        unit_run(s, u, &e);
    if (e.code == KV_E_INTERRUPTED) {
        fflush(stdout);
        progress_hide(STDERR_FILENO);
        /* the terminal has shown ^C there */
        fputs(isatty(STDERR_FILENO) ? "\rinterrupted\n" : "interrupted\n", stderr);
    } else if (e.code) {
        report_error(s, &e);
    }
    unit_drop(s, u);
    e = (kv_err){0};
    if (session_flush(s, &e) || transcript_done(s, &e))
        report_error(s, &e);
    return s->leaving || s->stdout_closed;
}

static void entry_candidates(void *arg, const char *text, size_t n, line_words *out)
{
    complete_words(arg, text, n, out);
}

static void entry_hint(void *arg, const char *text, size_t n, buf *out)
{
    complete_hint(arg, text, n, out);
}

/* kv> , or kv:b> for a store that is not the first; kv[2/4]> for rank 2 of 4 workers; with a * when
 * a transaction is open in it. */
static const char *entry_prompt(void *arg)
{
    session *s = arg;
    static char prompt[96]; /* the terminal is one a process */
    const store_entry *used = s->current >= 0 ? &s->stores[s->current] : NULL;
    const char *open = used && kv_in_transaction(used->store) ? "*" : "";
    bool first = !used || strcmp(used->name, "kv") == 0;
    char rank[28] = "";
    if (used && kv_num_workers(used->store) > 1)
        snprintf(rank, sizeof rank, "[%d/%d]", kv_rank(used->store), kv_num_workers(used->store));
    snprintf(prompt, sizeof prompt, "kv%s%.48s%s%s> ", first ? "" : ":", first ? "" : used->name,
             rank, open);
    return prompt;
}

int prompt_run(session *s, bool quiet)
{
    static const repl_ops ops = {entry_complete,   entry_run,
                                 entry_candidates, entry_hint,
                                 entry_prompt,     "kvctl " KV_VERSION ": try help; Ctrl-D leaves"};
    buf history = {0};
    histfile_path(&history, s->history);
    pager_allow(true);
    int ended = repl_run(&ops, s, quiet, buf_text(&history));
    pager_allow(false);
    buf_release(&history);
    return ended;
}
