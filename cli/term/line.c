/* Lines as they come, or through GNU Readline: the only file that names it.
 *
 * Readline runs here by its callback interface: this file waits for a key with ppoll, so Ctrl-C and
 * SIGTERM end the wait at once, and Readline's own signal handling stays off. Signals are blocked
 * except inside ppoll; without that one that comes between the look at the flag and the wait would
 * be seen only after the next key.
 */
#include "term/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "term/interrupt.h"

/* The one reader of this process. */
static struct {
    line_options options;
    buf context; /* the lines before this one */
    bool edited; /* through Readline */
    char *plain; /* getline's block */
    size_t plain_size;
} reader;

void line_offer(line_words *to, const char *candidate, const char *typed)
{
    if (strncmp(candidate, typed, strlen(typed)) != 0)
        return;
    if (mem_grow(&to->words, &to->cap, to->n + 1, sizeof *to->words, NULL))
        return;
    char *copy = mem_text(candidate, strlen(candidate), NULL);
    if (copy)
        to->words[to->n++] = copy;
}

void line_context(const char *text)
{
    buf_clear(&reader.context);
    buf_add(&reader.context, text);
}

/* Reads a line as the terminal or the file gives it. Returns its length, -1 at the end, and -1 with
 * EINTR in errno after a signal. */
static ssize_t next_plain(const char *prompt)
{
    if (reader.options.terminal)
        fputs(prompt, stderr);
    interrupt_at_prompt(reader.options.terminal);
    errno = 0;
    ssize_t n = getline(&reader.plain, &reader.plain_size, stdin);
    int why = errno;
    interrupt_at_prompt(false);
    if (n < 0 && reader.options.terminal)
        fputc('\n', stderr);
    clearerr(stdin); /* Ctrl-D ends one block, not the terminal */
    errno = why;
    return n;
}

static line_result read_plain(const char *prompt, buf *line)
{
    ssize_t n = -1;
    do {
        if (interrupt_pending())
            return LINE_INTERRUPTED;
        n = next_plain(prompt);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return LINE_END;
    buf_put(line, reader.plain, (size_t)n - (reader.plain[n - 1] == '\n'));
    return LINE_READ;
}

#ifdef HAVE_READLINE

#include <poll.h>
#include <readline/history.h>
#include <readline/readline.h>
#include <signal.h>

#define HISTORY_ENTRIES 10000

/* What cannot be part of a word that is completed. Keys hold . : / and -, so those are not here. */
static const char word_breaks[] = " \t\n;,()[]{}=<>|+*%!@$\"'";

static struct {
    char *line; /* what was typed, from malloc; NULL at the end */
    bool done;
    line_words words; /* being offered */
    int64_t next;
    bool history_lost; /* the file cannot be written */
} edit;

/* Readline calls this for each candidate and frees what it gets. */
static char *next_word(const char *typed, int state)
{
    (void)typed;
    if (state == 0)
        edit.next = 0;
    return edit.next < edit.words.n ? strdup(edit.words.words[edit.next++]) : NULL;
}

static void release_words(void)
{
    for (int64_t i = 0; i < edit.words.n; i++)
        mem_free(edit.words.words[i]);
    mem_free(edit.words.words);
    edit.words = (line_words){0};
}

static char **complete(const char *typed, int start, int end)
{
    buf text = {0};
    buf_add(&text, buf_text(&reader.context));
    size_t before = text.len;
    buf_put(&text, rl_line_buffer, (size_t)end);

    /* Never fall back on Readline's own file names. */
    rl_attempted_completion_over = 1;
    char **matches = NULL;
    if (!buf_check(&text, NULL))
        reader.options.complete(reader.options.arg, buf_text(&text), before + (size_t)start,
                                &edit.words);
    if (edit.words.n > 0) {
        const char *first = edit.words.words[0];
        bool open = *first && strchr("(=./", first[strlen(first) - 1]);
        rl_completion_append_character = open ? '\0' : ' ';
        matches = rl_completion_matches(typed, next_word);
    }
    release_words();
    buf_release(&text);
    return matches;
}

static void take_line(char *line)
{
    edit.line = line;
    edit.done = true;
    rl_callback_handler_remove();
}

/* At the end of input some versions of Readline print a newline on some terminals. read_edited
 * prints one always, so they must not. */
static void leave_raw_mode(void)
{
    rl_eof_found = 0;
    rl_deprep_terminal();
}

/* Leaves what was typed on the screen and begins on a new row. */
static void drop_line(void)
{
    rl_callback_sigcleanup();
    rl_free_line_state();
    rl_point = rl_end;
    rl_redisplay();
    rl_echo_signal_char(SIGINT);
    rl_crlf();
    rl_callback_handler_remove();
}

/* Waits for keys and feeds them to Readline until a line is there or a signal came. */
static void wait_for_line(void)
{
    sigset_t ours, before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, &before);
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!edit.done && !interrupt_pending()) {
        if (ppoll(&keys, 1, NULL, &before) <= 0) {
            rl_check_signals(); /* the window may have changed its size */
            continue;
        }
        /* With keys there ppoll lets no signal in: one that came before them must act before them. */
        sigprocmask(SIG_SETMASK, &before, NULL);
        sigprocmask(SIG_BLOCK, &ours, NULL);
        if (!interrupt_pending())
            rl_callback_read_char();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static line_result read_edited(const char *prompt, buf *line)
{
    edit.done = false;
    edit.line = NULL;
    interrupt_at_prompt(true);
    rl_callback_handler_install(prompt, take_line);
    wait_for_line();
    interrupt_at_prompt(false);
    if (!edit.done) {
        drop_line();
        return LINE_INTERRUPTED;
    }
    if (!edit.line) {
        fputc('\n', rl_outstream);
        fflush(rl_outstream);
        return LINE_END;
    }
    /* A paste often ends in a newline, and then Enter was typed. */
    size_t n = strlen(edit.line);
    while (n > 0 && edit.line[n - 1] == '\n')
        n--;
    buf_put(line, edit.line, n);
    free(edit.line);
    return LINE_READ;
}

static int read_history_file(kv_err *e)
{
    const char *path = reader.options.history;
    if (!path || !*path)
        return KV_OK;
    /* With time stamps Readline tells entries of several lines apart. */
    history_comment_char = '#';
    history_write_timestamps = 1;
    stifle_history(HISTORY_ENTRIES);
    int failed = read_history(path);
    if (failed) {
        edit.history_lost = true;
        return file_error(e, "read", path, failed);
    }
    history_truncate_file(path, HISTORY_ENTRIES);
    return KV_OK;
}

/* The prompt and what is typed belong on a terminal: stderr, or stdout when stderr is none. */
static FILE *screen(void)
{
    int fd = isatty(STDERR_FILENO) ? STDERR_FILENO : STDOUT_FILENO;
    if (!isatty(fd))
        return NULL;
    int copy = dup(fd);
    return copy < 0 ? NULL : fdopen(copy, "w");
}

static int open_edited(kv_err *e)
{
    FILE *out = reader.options.terminal ? screen() : NULL;
    if (!out)
        return KV_OK;
    reader.edited = true;
    rl_readline_name = "kvctl";
    rl_instream = stdin;
    rl_outstream = out;
    rl_catch_signals = 0;
    rl_persistent_signal_handlers = 1; /* for the window's size, between keys too */
    rl_basic_word_break_characters = word_breaks;
    rl_completer_word_break_characters = (char *)word_breaks;
    if (reader.options.complete)
        rl_attempted_completion_function = complete;
    rl_deprep_term_function = leave_raw_mode;
    using_history();
    return read_history_file(e);
}

int line_remember(const char *entry, kv_err *e)
{
    const char *path = reader.options.history;
    if (!reader.edited || *entry == ' ' || *entry == '\t' || *entry == '\0')
        return KV_OK;
    add_history(entry);
    if (!path || !*path || edit.history_lost)
        return KV_OK;
    int failed = append_history(1, path);
    if (!failed)
        return KV_OK;
    edit.history_lost = true;
    return file_error(e, "write", path, failed);
}

static void close_edited(void)
{
    if (!reader.edited)
        return;
    clear_history();
    fclose(rl_outstream);
    rl_outstream = stderr;
}

bool line_can_edit(void)
{
    return true;
}

#else

bool line_can_edit(void)
{
    return false;
}

static line_result read_edited(const char *prompt, buf *line)
{
    return read_plain(prompt, line);
}

static int open_edited(kv_err *e)
{
    (void)e;
    return KV_OK;
}

int line_remember(const char *entry, kv_err *e)
{
    (void)entry, (void)e;
    return KV_OK;
}

static void close_edited(void)
{
}

#endif

int line_open(const line_options *options, kv_err *e)
{
    reader.options = *options;
    return open_edited(e);
}

line_result line_read(const char *prompt, buf *line)
{
    buf_clear(line);
    return reader.edited ? read_edited(prompt, line) : read_plain(prompt, line);
}

void line_close(void)
{
    close_edited();
    free(reader.plain);
    buf_release(&reader.context);
    memset(&reader, 0, sizeof reader);
}
