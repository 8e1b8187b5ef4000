/* Decides by three things, the stronger first: what an option chose, what the environment forbids,
 * whether the stream is a terminal.
 */
#include "term/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/kv_assert.h"
#include "base/suggest.h"

static const char *const names[] = {
    [TERMINAL_AUTO] = "auto", [TERMINAL_ALWAYS] = "always", [TERMINAL_NEVER] = "never"};

#define NNAMES ((int)(sizeof names / sizeof *names))

/* The one terminal of this process. */
static terminal_when chosen[TERMINAL_USES];

void terminal_choose(terminal_use use, terminal_when when)
{
    chosen[use] = when;
}

terminal_when terminal_chosen(terminal_use use)
{
    return chosen[use];
}

int terminal_when_parse(terminal_when *out, const char *text, const char *what, kv_err *e)
{
    int i = NAME_AMONG(text, names);
    if (i >= 0) {
        *out = (terminal_when)i;
        return KV_OK;
    }
    kv_err_set(e, KV_E_USAGE, "%s is auto, always or never, not \"%.60s\"", what, text);
    suggest_hint(e, text, names, NNAMES);
    return KV_E_USAGE;
}

const char *terminal_when_name(terminal_when when)
{
    return names[when];
}

static bool is_dumb(void)
{
    const char *term = getenv("TERM");
    return term && strcmp(term, "dumb") == 0;
}

/* By choice; undecided is what auto says. */
static bool allowed(terminal_use use, bool undecided)
{
    return chosen[use] == TERMINAL_AUTO ? undecided && !is_dumb() : chosen[use] == TERMINAL_ALWAYS;
}

bool terminal_color(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    return allowed(TERMINAL_COLOR, isatty(fd) && !(no_color && *no_color));
}

bool terminal_progress(void)
{
    return allowed(TERMINAL_PROGRESS, isatty(STDERR_FILENO) && terminal_width(STDERR_FILENO) > 0);
}

bool terminal_pager(void)
{
    return allowed(TERMINAL_PAGER, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
}

static struct winsize size_of(int fd)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    return size;
}

int terminal_width(int fd)
{
    return size_of(fd).ws_col;
}

int terminal_height(int fd)
{
    return size_of(fd).ws_row;
}

void terminal_clear(void)
{
    if (isatty(STDERR_FILENO) && !is_dumb())
        fputs("\033[H\033[2J\033[3J", stderr);
}

/* Where there is no memory: cut, and only what is ASCII. */
static void say_short(const char *fmt, va_list ap)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    for (char *at = text; *at; at++)
        if (*at != '\n' && ((unsigned char)*at < ' ' || (unsigned char)*at >= 127))
            *at = '?';
    fprintf(stderr, "%s\n", text);
}

void terminal_vsay(const char *fmt, va_list ap)
{
    own_buf text = {0}, shown = {0};
    va_list again;
    va_copy(again, ap);
    buf_vprintf(&text, fmt, ap);
    visible_lines(&shown, buf_text(&text), text.len);
    if (text.failed || shown.failed)
        say_short(fmt, again);
    else
        fprintf(stderr, "%s\n", buf_text(&shown));
    va_end(again);
}

void terminal_pass(FILE *to, const char *text, size_t n)
{
    own_buf shown = {0};
    bool raw = !isatty(to == stdout ? STDOUT_FILENO : STDERR_FILENO);
    if (!raw)
        visible_lines(&shown, text, n);
    fwrite(raw ? text : buf_text(&shown), 1, raw ? n : shown.len, to);
}

void terminal_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    terminal_vsay(fmt, ap);
    va_end(ap);
}

/* ---- Exit statuses ---- */

exit_code exit_code_of_error(int rc)
{
    static const exit_code codes[KV_NCODES] = {[KV_E_ASSERT] = EXIT_NO,
                                               [KV_E_EXPECT] = EXIT_NO,
                                               [KV_E_SYNTAX] = EXIT_NOT_UNDERSTOOD,
                                               [KV_E_USAGE] = EXIT_NOT_UNDERSTOOD,
                                               [KV_E_NAME] = EXIT_FAILED,
                                               [KV_E_KEY] = EXIT_FAILED,
                                               [KV_E_SHAPE] = EXIT_FAILED,
                                               [KV_E_DTYPE] = EXIT_FAILED,
                                               [KV_E_VALUE] = EXIT_FAILED,
                                               [KV_E_INDEX] = EXIT_FAILED,
                                               [KV_E_MEMORY] = EXIT_FAILED,
                                               [KV_E_UNSUPPORTED] = EXIT_UNSUPPORTED,
                                               [KV_E_IO] = EXIT_IO,
                                               [KV_E_FORMAT] = EXIT_IO,
                                               [KV_E_BUSY] = EXIT_PEER,
                                               [KV_E_TIMEOUT] = EXIT_PEER,
                                               [KV_E_PEER] = EXIT_PEER,
                                               [KV_E_INTERRUPTED] = EXIT_SIGINT};
    bool known = rc >= 0 && rc < KV_NCODES && codes[rc];
    return rc == KV_OK ? EXIT_DONE : known ? codes[rc] : EXIT_BUG;
}

int terminal_fail(const kv_err *e)
{
    if (e->line > 0)
        terminal_say("%s:%d:%d: error[%s]: %s", e->file, e->line, e->col, kv_code_name(e->code),
                     e->text);
    else
        terminal_say("kvctl: error[%s]: %s", kv_code_name(e->code), e->text);
    if (e->hint[0])
        terminal_say(" hint: %s", e->hint);
    return (int)exit_code_of_error(e->code);
}

int terminal_show(void (*make)(buf *out))
{
    own_buf text = {0};
    make(&text);
    fputs(buf_text(&text), stdout);
    return fflush(stdout) ? EXIT_IO : EXIT_DONE;
}

/* Ends without the handlers of atexit: they write files and wait for threads, and both need the
 * state that was just found to be wrong. */
static void end(const char *report)
{
    terminal_say("kvctl: error[internal]: %s", report);
    terminal_say(" hint: the file of -s is as it was; report this with the script that led here");
    _exit(EXIT_BUG);
}

void bug_ends_process(void)
{
    kv_assert_on_failure(end);
}
