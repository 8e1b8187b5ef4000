/* The loop of the prompt, and the place of its history. The contents of that file are line.c's,
 * which Readline writes. */
#include "term/repl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/utf8.h"
#include "term/keys.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- The file of the history ---- */

void histfile_path(buf *path, const char *option)
{
    const char *said = option ? option : getenv("KVCTL_HISTORY");
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    buf_clear(path);
    if (said && *said)
        buf_add(path, strcmp(said, "off") == 0 ? "" : said);
    else if (state && *state == '/')
        buf_printf(path, "%s/kvctl/history", state);
    else if (home && *home)
        buf_printf(path, "%s/.local/state/kvctl/history", home);
}

/* Makes the file with mode 0600 and the folders above it, where they are missing.
 * Errors: io, with the path and the reason. */
static int histfile_prepare(const char *path, kv_err *e)
{
    own_buf part = {0};
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        buf_clear(&part);
        buf_put(&part, path, (size_t)(slash - path));
        TRY(buf_check(&part, e));
        if (mkdir(part.data, 0700) && errno != EEXIST)
            return file_error(e, "make", part.data, errno);
    }
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0)
        return file_error(e, "write", path, errno);
    close(file);
    return KV_OK;
}

/* ---- The loop ---- */

static const char more_prompt[] = "..> ";

typedef struct repl {
    const repl_ops *ops;
    void *arg;
    bool quiet, terminal;
    int line;  /* of the session: the next one read has this number */
    buf entry; /* the lines so far */
    bool pasted;  /* some of them came at once */
    bool heredoc; /* one of them may begin a text that a word of its own ends */
} repl;

static void note(const repl *r, kv_err *e)
{
    if (e->code && !r->quiet)
        terminal_say("kvctl: %s", e->text);
    *e = (kv_err){0};
}

typedef enum entry_result { ENTRY_READ, ENTRY_DROPPED, ENTRY_END } entry_result;

/* An entry larger than this is looked at again only after a line that may complete it. */
#define LARGE_ENTRY 16384

/* Returns true if a new line may have completed an open entry. In a large entry, such as a paste of
 * many thousand lines, a check after every line takes time by the square of its size. It is nearly
 * always a bracket that is open there, and only a line that closes more brackets than it opens can
 * close it. Lines with anything else that opens or closes are checked, too. */
static bool may_complete(repl *r, const buf *line)
{
    const char *text = buf_text(line);
    size_t before = r->entry.len - line->len; /* a newline is the last of what stands before it */
    int closed = 0;
    r->heredoc |= strstr(text, "<<") != NULL;
    if (r->entry.len < LARGE_ENTRY || r->heredoc || strpbrk(text, "\"'\\#") ||
        (before > 1 && r->entry.data[before - 2] == '\\'))
        return true;
    for (const char *c = text; *c; c++)
        closed += (strchr(")]}", *c) != NULL) - (strchr("([{", *c) != NULL);
    return closed > 0;
}

/* Reads lines until they are a complete entry. */
static entry_result read_entry(repl *r)
{
    own_buf line = {0};
    entry_result got = ENTRY_DROPPED;
    buf_clear(&r->entry);
    r->heredoc = r->pasted = false;
    for (bool more = false;; more = true) {
        line_context(buf_text(&r->entry), r->entry.len);
        line_result result = line_read(more ? more_prompt : r->ops->prompt(r->arg), &line);
        if (result == LINE_INTERRUPTED && !more && r->ops->interrupted && line.len == 0)
            r->ops->interrupted(r->arg);
        if (result == LINE_INTERRUPTED)
            break;
        if (result == LINE_END) {
            /* An open entry is dropped at a terminal, where Ctrl-D gave the end and the user can go
             * on; else it is read, which shows its mistake. */
            got = r->entry.len == 0 ? ENTRY_END : r->terminal ? ENTRY_DROPPED : ENTRY_READ;
            break;
        }
        int64_t more_lines = text_newlines(buf_text(&line), line.len);
        r->line += 1 + (int)more_lines;
        r->pasted |= more_lines > 0;
        buf_put(&r->entry, buf_text(&line), line.len);
        kv_err e = {0};
        if (buf_check(&r->entry, &e)) {
            note(r, &e);
            break;
        }
        if ((may_complete(r, &line) || !more) &&
            r->ops->complete(r->arg, buf_text(&r->entry), r->entry.len)) {
            got = ENTRY_READ;
            break;
        }
        buf_char(&r->entry, '\n');
    }
    return got;
}

/* Reads and runs one entry. Returns false when the session ends. */
static bool step(repl *r)
{
    int first_line = r->line;
    fflush(stdout);
    entry_result got = read_entry(r);
    int signal = interrupt_pending();
    if (signal == SIGTERM || signal == SIGALRM || (signal && !r->terminal))
        return false;
    interrupt_clear();
    if (got == ENTRY_END)
        return false;
    if (got == ENTRY_DROPPED || (strspn(buf_text(&r->entry), " \t\r\n") == r->entry.len))
        return true;

    kv_err e = {0};
    line_remember(buf_text(&r->entry), &e);
    note(r, &e);
    bool end = r->ops->run(r->arg, buf_text(&r->entry), r->entry.len, first_line, r->pasted);
    fflush(stdout);
    if (interrupt_pending() == SIGINT && r->terminal) {
        keys_forget(); /* what was typed ahead: the terminal drops that, too */
        interrupt_clear();
    }
    return !end && !interrupt_pending();
}

int repl_run(const repl_ops *ops, void *arg, bool quiet, const char *history, kv_err *e)
{
    own_buf path = {0};
    repl r = {.ops = ops, .arg = arg, .quiet = quiet, .line = 1};
    r.terminal = isatty(STDIN_FILENO);
    kv_err no_history = {0};
    histfile_path(&path, history);
    if (!r.terminal || path.len == 0 || histfile_prepare(buf_text(&path), &no_history))
        buf_clear(&path);
    note(&r, &no_history);
    if (r.terminal && !quiet && ops->banner)
        fprintf(stderr, "%s\n", ops->banner);
    line_open(ops, arg, r.terminal, buf_text(&path), &no_history);
    note(&r, &no_history);

    while (step(&r)) {
    }

    if (line_error())
        kv_err_set(e, KV_E_IO, "cannot read the standard input: %s", strerror(line_error()));
    line_close();
    buf_release(&r.entry);
    return interrupt_pending();
}
