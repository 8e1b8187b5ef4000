/* The prompt: reads entries, hands each to the interpreter, and goes on.
 *
 * An entry is one or more lines that together make complete statements. This part knows lines,
 * prompts, history and Ctrl-C; what an entry means is behind repl_ops, so that it knows no command.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "term/line.h"

/* ---- The file of the history ---- */

/* Puts the path of the history file into `path`. `option` is what --history said, or NULL; then
 * $KVCTL_HISTORY, $XDG_STATE_HOME/kvctl/history and ~/.local/state/kvctl/history are tried in this
 * order. An empty path means that no history is kept: "off", or no home. */
void histfile_path(buf *path, const char *option);

/* ---- The loop ---- */

/* The interpreter as the prompt sees it; `arg` is handed to each function. */
typedef struct repl_ops {
    /* Is this text complete? 1 yes (a mistake in it counts, it is reported by run), 0 it needs more
     * lines: an open bracket, quote or block. */
    int (*complete)(void *arg, const char *text, size_t n);

    /* Runs an entry and reports what it shows and what fails. first_line: the number of its first
     * line in this session, from 1. pasted: some of its lines came at once, so the screen shows
     * them without prompts. A Ctrl-C that came meanwhile stays pending. Returns true when the
     * session shall end. */
    bool (*run)(void *arg, const char *text, size_t n, int first_line, bool pasted);

    /* (optional) Offers (line_offer) what may stand for the last word of the text, the entry up to
     * the cursor, and says where that word begins. The text ends in a NUL that n does not count. */
    void (*candidates)(void *arg, const char *text, size_t n, line_words *out);

    /* (optional) Says what is still missing behind the text, the entry up to the cursor. */
    void (*hint)(void *arg, const char *text, size_t n, buf *out);

    /* The prompt, such as "kv> ". Borrowed until the next call. */
    const char *(*prompt)(void *arg);

    /* One line for the beginning, without its newline; NULL for none. */
    const char *banner;

    /* (optional) Called while a line is awaited, again and again: returns after some milliseconds.
     * Its output goes above the line. */
    void (*look)(void *arg);

    /* (optional) Ctrl-C came where nothing was typed. */
    void (*interrupted)(void *arg);
} repl_ops;

/* Reads and runs entries from stdin until run says so, the input ends, or a signal says so.
 *
 * With a terminal: prompts, editing, history; Ctrl-C drops what was typed and never leaves; Ctrl-D
 * on an empty line leaves, in an open block it drops the block. Without one: each entry runs as
 * soon as it is complete, no prompt; an entry that the end of input cuts off runs too, so that the
 * interpreter reports what is open, and Ctrl-C ends.
 *
 * quiet: neither banner nor notes. history: what --history said, or NULL, see histfile_path.
 * Returns 0, or SIGINT or SIGTERM when that ended it. Error: io, a file or pipe that cannot be read
 * further. */
int repl_run(const repl_ops *ops, void *arg, bool quiet, const char *history, kv_err *e);
