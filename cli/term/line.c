/* Lines as they come, or through GNU Readline: the only file that names it.
 *
 * Readline runs here by its callback interface: keys.h waits, so Ctrl-C and SIGTERM end the wait at
 * once, and Readline's own signal handling stays off. It gets its bytes from keys.h one by one,
 * except that runs of text that no hand types so fast go into the line as a whole: redrawing the
 * line for each byte of a paste takes time by the square of its length.
 */
#include "term/line.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "term/keys.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- The line ---- */

/* The one reader of this process. */
static struct {
    const repl_ops *ops;
    void *arg;
    bool terminal;
    const char *history;
    const char *context; /* the lines before this one */
    size_t context_length;
    FILE *screen; /* where Readline edits lines; NULL: they come as stdin gives them */
    int error;    /* of reading that, see line_error */
} reader;

/* Readline shows words as they are, in a menu and in the line, so one with hidden characters is not
 * offered. */
void line_offer_instead(line_words *to, const char *candidate)
{
    if (!visible_is_plain(candidate, strlen(candidate)) ||
        mem_grow(&to->words, &to->cap, to->n + 1, sizeof *to->words, NULL))
        return;
    char *copy = mem_text(candidate, strlen(candidate), NULL);
    if (copy)
        to->words[to->n++] = copy;
}

void line_offer(line_words *to, const char *candidate, const char *typed)
{
    if (strncmp(candidate, typed, strlen(typed)) == 0)
        line_offer_instead(to, candidate);
}

void line_words_release(line_words *words)
{
    for (int64_t i = 0; i < words->n; i++)
        mem_free(words->words[i]);
    mem_free(words->words);
    *words = (line_words){0};
}

int line_error(void)
{
    return reader.error;
}

void line_context(const char *text, size_t n)
{
    reader.context = text;
    reader.context_length = n;
}

/* Reads a line byte by byte: what stands behind it may be for a command of the shell, and nobody
 * could go on while stdio waits for the rest of a line. */
static line_result read_plain(const char *prompt, buf *line)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    ssize_t n = 1;
    char c = '\0';
    if (reader.terminal)
        fputs(prompt, stderr);
    interrupt_at_prompt(reader.terminal || reader.ops->look);
    while (n > 0 && c != '\n' && !interrupt_pending()) {
        bool comes = !reader.ops->look || poll(&in, 1, 0) > 0;
        if (!comes)
            reader.ops->look(reader.arg);
        else if ((n = read(STDIN_FILENO, &c, 1)) < 0 && errno == EINTR)
            n = 1;
        else if (n > 0 && c != '\n')
            buf_char(line, c);
        else if (n < 0)
            reader.error = errno;
    }
    interrupt_at_prompt(false);
    if (interrupt_pending())
        return LINE_INTERRUPTED;
    if (n <= 0 && reader.terminal)
        fputc('\n', stderr);
    return n > 0 || line->len > 0 ? LINE_READ : LINE_END;
}

#ifdef HAVE_READLINE

#include <langinfo.h>
#include <locale.h>
#include <signal.h>

#include "term/lazy_readline.h"

/* ---- The hint behind the cursor ---- */

/* The dim text behind what is being typed: what is still missing.
 *
 * A hint takes only what is left of the row that the cursor stands in, and the cursor goes back to
 * where it was. So it never wraps or scrolls, and clearing to the end of the screen removes it
 * wherever the line goes on.
 */

/* Fewer columns than these say nothing. */
#define LEAST 4

static bool visible;

/* Usage lines are ASCII, but names in them may be anything. */
static bool is_plain(const char *text)
{
    while (*text >= ' ' && *text < 0x7f)
        text++;
    return !*text;
}

/* The column behind n bytes that begin in column 0, or -1 when the text holds something whose width
 * the terminal alone knows. A wide character that does not fit goes to the next row as a whole. */
static int column_behind(const char *text, size_t n, int columns)
{
    mbstate_t state = {0};
    int column = 0;
    for (size_t i = 0; i < n;) {
        wchar_t c;
        size_t bytes = mbrtowc(&c, text + i, n - i, &state);
        if (bytes == 0 || bytes > n - i)
            return -1;
        int width = wcwidth(c);
        if (width < 0)
            return -1;
        if (column % columns + width > columns)
            column += columns - column % columns;
        column += width;
        i += bytes;
    }
    return column % columns;
}

/* The length of the longest run of whole words that fits into `most` characters. */
static int whole_words(const char *text, int most)
{
    int n = most;
    while (n > 0 && text[n - 1] != ' ')
        n--;
    return n;
}

/* Draws text behind the cursor, cut to what is left of its row. before: what stands in front of the
 * cursor, from the beginning of a row on; columns: of the screen. Nothing is drawn where the
 * cursor's column is not known, as behind control characters. */
static void hint_draw(FILE *out, const char *before, size_t n, int columns, const char *text)
{
    int length = is_plain(text) ? (int)strlen(text) : 0;
    int column = columns > 0 ? column_behind(before, n, columns) : -1;
    /* the last column stays empty: behind it terminals differ about where the cursor is */
    int room = columns - 1 - column;
    if (column < 0 || length == 0 || room < LEAST)
        return;
    int shown = length <= room ? length : whole_words(text, room - 2);
    const char *more = shown < length ? ".." : "";
    if (shown <= 1) /* nothing but a blank */
        return;
    fprintf(out, "\033[2m%.*s%s\033[0m", shown, text, more);
    fprintf(out, "\033[%dD", shown + (int)strlen(more));
    fflush(out);
    visible = true;
}

/* Removes it, if there is one; the cursor stands where hint_draw left it. */
static void hint_erase(FILE *out)
{
    if (visible)
        fputs("\033[J", out);
    visible = false;
}

/* ---- The line by Readline ---- */

#define HISTORY_ENTRIES 10000

/* A line longer than this is not edited: what was pasted into it becomes a label. It is also more
 * than any screen shows. */
#define EDITED_MAX 8000

/* So many bytes at once were not typed by hand. */
#define BULK 32

/* Entries beyond this get no hints: finding them out reads the whole entry at every key. */
#define HINTED_MAX 65536

static struct {
    char *line; /* what was typed, from malloc; NULL at the end */
    bool done, closing;
    bool shown, left;          /* the line is on the screen; line_leave took it off again */
    line_words words;  /* being offered */
    int64_t next;
    bool spilling;     /* the last key was a run of text that went into the text kept last */
    bool hints;
    const char *prompt;
    bool history_lost; /* the file cannot be written */
} edit;

/* ---- Completion and hints ---- */

/* The entry up to the cursor. Returns the length of the part before this line, or -1. */
static int64_t text_before_cursor(buf *text)
{
    buf_put(text, reader.context, reader.context_length);
    int64_t before = (int64_t)text->len;
    buf_put(text, *rl.line_buffer, (size_t)*rl.point);
    return buf_check(text, NULL) ? -1 : before;
}

/* Readline asks first which characters separate words, and goes back from the cursor to one of
 * them. Where the word begins is known better here, so it gets the one character in front of it. */
static char *break_before_word(void)
{
    static char breaks[2];
    own_buf text = {0};
    int64_t before = text_before_cursor(&text);
    line_words_release(&edit.words);
    if (before >= 0)
        reader.ops->candidates(reader.arg, buf_text(&text), text.len, &edit.words);
    size_t start = edit.words.start, first = (size_t)(before < 0 ? 0 : before);
    breaks[0] = start > first && start <= text.len ? text.data[start - 1] : '\n';
    return breaks;
}

/* Readline calls this for each candidate and frees what it gets. */
static char *next_word(const char *typed, int state)
{
    (void)typed;
    if (state == 0)
        edit.next = 0;
    return edit.next < edit.words.n ? strdup(edit.words.words[edit.next++]) : NULL;
}

static char **complete(const char *typed, int start, int end)
{
    char **matches = NULL;
    (void)start;
    if (end == 0) /* then Readline did not ask */
        break_before_word();
    /* Never fall back on Readline's own file names. */
    *rl.attempted_completion_over = 1;
    if (edit.words.n > 0) {
        const char *first = edit.words.words[0];
        bool open = edit.words.joined || (*first && strchr("(=./", first[strlen(first) - 1]));
        *rl.completion_append_character = open ? '\0' : ' ';
        *rl.filename_completion_desired = edit.words.files;
        *rl.filename_quoting_desired = 0;
        matches = rl.completion_matches(typed, next_word);
    }
    line_words_release(&edit.words);
    return matches;
}

/* Draws the hint behind the line, once Readline has shown it. (A redisplay function of our own
 * would make Readline ignore what the terminal can do.) */
static void draw_hint(void)
{
    own_buf text = {0}, hint = {0}, row = {0};
    if (!edit.hints || edit.done || *rl.point != *rl.end || keys_held() > 0 || paste_any() ||
        (*rl.readline_state & (RL_STATE_ISEARCH | RL_STATE_NSEARCH | RL_STATE_MOREINPUT)) ||
        reader.context_length + (size_t)*rl.end > HINTED_MAX)
        return;
    if (text_before_cursor(&text) >= 0)
        reader.ops->hint(reader.arg, buf_text(&text), text.len, &hint);
    if (hint.len > 0 && buf_check(&hint, NULL) == KV_OK) {
        const char *newline = strrchr(*rl.line_buffer, '\n');
        if (!newline)
            buf_add(&row, edit.prompt);
        buf_add(&row, newline ? newline + 1 : *rl.line_buffer);
        hint_draw(*rl.outstream, buf_text(&row), row.len, terminal_width(fileno(*rl.outstream)),
                  buf_text(&hint));
    }
}

/* ---- Text that comes at once ---- */

/* Puts text into the line, or its label when the line gets too long to be edited. */
static void insert(const char *text, size_t n)
{
    int columns = 1, height = terminal_height(fileno(*rl.outstream));
    size_t length = (size_t)*rl.end + n, rows = 1 + (size_t)text_newlines(text, n);
    rl.get_screen_size(NULL, &columns);
    rows += length / (size_t)(columns > 0 ? columns : 80);
    bool keep = length > EDITED_MAX || (height > 0 && rows >= (size_t)height) ||
                memchr(text, '\0', n);
    own_buf copy = {0};
    const char *shown = keep ? paste_keep(text, n) : NULL;
    if (!shown) {
        buf_put(&copy, text, n);
        shown = buf_text(&copy);
    }
    rl.insert_text(shown);
    edit.spilling = keep;
}

/* More of a text that was too long already. */
static void insert_more(const char *text, size_t n)
{
    int length = (int)strlen(paste_label());
    rl.delete_text(*rl.point - length, *rl.point);
    *rl.point -= length;
    rl.insert_text(paste_add(text, n));
}

/* A bracketed paste: nothing in it is a command to the editor. */
static int take_paste(int count, int key)
{
    own_buf text = {0};
    (void)count, (void)key;
    if (keys_paste(&text) && buf_check(&text, NULL) == KV_OK)
        insert(buf_text(&text), text.len);
    else
        rl.ding();
    edit.spilling = false;
    return 0;
}

/* Takes a run of text that was not typed by hand. Returns whether there was one. */
static bool take_run(void)
{
    const char *text;
    unsigned long busy = RL_STATE_ISEARCH | RL_STATE_NSEARCH | RL_STATE_NUMERICARG |
                         RL_STATE_MULTIKEY | RL_STATE_METANEXT | RL_STATE_MACRODEF |
                         RL_STATE_CHARSEARCH | RL_STATE_VIMOTION | RL_STATE_MOREINPUT;
    bool plain = *rl.insert_mode && (rl.get_keymap() == *rl.emacs_standard_keymap ||
                                     rl.get_keymap() == *rl.vi_insertion_keymap);
    if (*rl.readline_state & busy || !plain || keys_held() < BULK)
        return false;
    size_t n = keys_text(&text);
    if (n == 0)
        return false;
    if (edit.spilling && paste_label())
        insert_more(text, n);
    else
        insert(text, n);
    keys_take(n);
    if (keys_held() == 0 || keys_text(&text) == 0) /* else there is more of the line */
        rl.redisplay();
    return true;
}

/* ---- Reading a line ---- */

/* A byte for Readline. Inside a question of its own a signal answers with Ctrl-G,
 * which means no. */
static int next_key(FILE *unused)
{
    int c = keys_next();
    (void)unused;
    return c < 0 && interrupt_pending() ? 'G' & 31 : c;
}

/* Returns true if a byte comes within the time that Readline has set. */
static int key_comes(void)
{
    return keys_soon(rl.set_keyboard_input_timeout(-1) / 1000);
}

static void take_line(char *line)
{
    edit.line = line;
    edit.done = true;
    rl.callback_handler_remove();
}

void line_leave(void)
{
    if (!edit.shown || edit.left)
        return;
    hint_erase(*rl.outstream);
    rl.clear_visible_line();
    fflush(*rl.outstream);
    edit.left = true;
}

/* Lets others go on until a key is there. */
static void look_meanwhile(void)
{
    while (reader.ops->look && keys_quiet()) {
        rl.check_signals(); /* the window may have changed its size */
        reader.ops->look(reader.arg);
        if (edit.left) {
            rl.on_new_line();
            rl.redisplay();
            edit.left = false;
            draw_hint();
        }
    }
}

/* At the end of input some versions of Readline print a newline on some terminals. read_edited
 * prints one always, so they must not. While more lines are here already the terminal stays as it
 * is: in its usual state it would cut long lines, and show twice what comes. */
static void leave_raw_mode(void)
{
    *rl.eof_found = 0;
    if (edit.closing || (keys_held() == 0 && !reader.ops->look))
        rl.deprep_terminal();
}

/* Stops the process, as Ctrl-Z does, with the terminal as it was; then shows the line again. */
static void suspend(void)
{
    rl.deprep_terminal();
    fflush(*rl.outstream);
    kill(0, SIGSTOP);
    rl.prep_terminal(1);
    rl.on_new_line();
    rl.redisplay();
}

/* Waits for keys and feeds them to Readline until a line is there or a signal came. */
static void wait_for_line(void)
{
    keys_begin();
    edit.shown = true;
    while (!edit.done && !interrupt_pending()) {
        look_meanwhile();
        keys_result got = keys_wait();
        hint_erase(*rl.outstream);
        if (got == KEYS_SIGNAL) {
            rl.check_signals(); /* the window may have changed its size */
            if (interrupt_pending())
                break;
            if (keys_suspended())
                suspend();
        } else if (got == KEYS_END || !take_run()) {
            edit.spilling = false;
            rl.callback_read_char();
        }
        draw_hint();
    }
    edit.shown = false;
    keys_end();
}

static line_result read_edited(const char *prompt, buf *line)
{
    edit.done = edit.spilling = false;
    edit.line = NULL;
    edit.prompt = prompt;
    edit.hints = reader.ops->hint && terminal_color(fileno(*rl.outstream));
    paste_forget();
    interrupt_at_prompt(true);
    /* Readline looks at the environment for the locale when a line begins. The language is UTF-8,
     * so where the locale is not, as in LC_ALL=C, Readline is shown one that is. */
    const char *set = getenv("LC_ALL");
    char *before = set ? strdup(set) : NULL;
    setlocale(LC_CTYPE, "");
    bool other = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    if (other)
        setenv("LC_ALL", "C.UTF-8", 1);
    rl.callback_handler_install(prompt, take_line);
    if (other && before)
        setenv("LC_ALL", before, 1);
    else if (other)
        unsetenv("LC_ALL");
    free(before);
    wait_for_line();
    interrupt_at_prompt(false);
    if (!edit.done) {
        buf_add(line, *rl.line_buffer);
        /* Leaves what was typed on the screen and begins on a new row. */
        keys_forget();
        hint_erase(*rl.outstream);
        rl.callback_sigcleanup();
        rl.free_line_state();
        *rl.point = *rl.end;
        rl.redisplay();
        if (interrupt_pending() == SIGINT)
            rl.echo_signal_char(SIGINT);
        rl.crlf();
        rl.callback_handler_remove();
        return LINE_INTERRUPTED;
    }
    if (!edit.line) {
        fputc('\n', *rl.outstream);
        fflush(*rl.outstream);
        return LINE_END;
    }
    paste_expand(line, edit.line);
    /* A paste often ends in a newline, and then Enter was typed. */
    while (line->len > 0 && line->data[line->len - 1] == '\n')
        line->data[--line->len] = '\0';
    free(edit.line);
    paste_forget();
    return LINE_READ;
}

void line_lend_terminal(void)
{
    if (!reader.screen)
        return;
    edit.closing = true;
    leave_raw_mode();
    edit.closing = false;
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
    FILE *out = reader.terminal ? screen() : NULL;
    if (!out)
        return KV_OK;
    if (!readline_load()) { /* lines come as the terminal gives them */
        fclose(out);
        return KV_OK;
    }
    reader.screen = out;
    *rl.readline_name = "kvctl";
    *rl.instream = stdin;
    *rl.outstream = out;
    *rl.catch_signals = 0;
    *rl.persistent_signal_handlers = 1; /* for the window's size, between keys too */
    *rl.getc_function = next_key;
    *rl.input_available_hook = key_comes;
    if (reader.ops->candidates) {
        *rl.completion_word_break_hook = break_before_word;
        *rl.basic_quote_characters = ""; /* words have their closing quote */
        *rl.attempted_completion_function = complete;
    }
    *rl.deprep_term_function = leave_raw_mode;
    rl.add_defun("kvctl-paste", take_paste, -1);
    rl.initialize();
    rl.variable_bind("mark-directories", "off"); /* words have their slash */
    rl.bind_keyseq_in_map("\033[200~", take_paste, *rl.emacs_standard_keymap);
    rl.bind_keyseq_in_map("\033[200~", take_paste, *rl.vi_insertion_keymap);
    rl.using_history();
    const char *path = reader.history;
    if (!*path)
        return KV_OK;
    /* With time stamps Readline tells entries of several lines apart. */
    *rl.history_comment_char = '#';
    *rl.history_write_timestamps = 1;
    rl.stifle_history(HISTORY_ENTRIES);
    int failed = rl.read_history(path);
    if (failed) {
        edit.history_lost = true;
        return file_error(e, "read", path, failed);
    }
    rl.history_truncate_file(path, HISTORY_ENTRIES);
    return KV_OK;
}

int line_remember(const char *entry, kv_err *e)
{
    const char *path = reader.history;
    if (!reader.screen || *entry == ' ' || *entry == '\t' || *entry == '\0' ||
        strlen(entry) > LINE_HISTORY_MAX)
        return KV_OK;
    /* Readline takes a line that begins with # and a digit for a time stamp when it reads the file,
     * so a blank goes in front of such a comment. */
    own_buf text = {0};
    for (const char *c = entry; *c; c++) {
        if ((c == entry || c[-1] == '\n') && *c == '#' && c[1] >= '0' && c[1] <= '9')
            buf_char(&text, ' ');
        buf_char(&text, *c);
    }
    rl.add_history(buf_text(&text));
    if (!*path || edit.history_lost)
        return KV_OK;
    int failed = rl.append_history(1, path);
    if (!failed)
        return KV_OK;
    edit.history_lost = true;
    return file_error(e, "write", path, failed);
}

static void close_edited(void)
{
    if (!reader.screen)
        return;
    line_lend_terminal();
    rl.clear_history();
    fclose(reader.screen);
    *rl.outstream = stderr;
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

void line_lend_terminal(void)
{
}

void line_leave(void)
{
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

int line_open(const repl_ops *ops, void *arg, bool terminal, const char *history, kv_err *e)
{
    reader.ops = ops;
    reader.arg = arg;
    reader.terminal = terminal;
    reader.history = history;
    return open_edited(e);
}

line_result line_read(const char *prompt, buf *line)
{
    buf_clear(line);
    return reader.screen ? read_edited(prompt, line) : read_plain(prompt, line);
}

void line_close(void)
{
    close_edited();
    memset(&reader, 0, sizeof reader);
}
