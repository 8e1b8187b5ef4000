/* The line of progress, and the pager. The line is redrawn by the calls of step, so no thread or
 * timer is needed; the clock that is asked at each step is the cheap one, which is some
 * milliseconds coarse. */
#include "term/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/kv_assert.h"
#include "base/num.h"
#include "term/line.h"
#include "term/signals.h"

#define PATIENCE 1.0  /* seconds before anything is shown */
#define BETWEEN 0.1   /* two redraws */
#define BETWEEN_LINES 10.0
#define BAR_MOST 30   /* columns; a longer bar says no more */
#define BAR_LEAST 5
#define MARGIN 3 /* columns for the ^C that a terminal shows, and one that stays empty */

static struct {
    int depth; /* of begins without their end */
    const char *what;
    int64_t total;
    progress_unit unit;
    bool asked;      /* whether the next two are known: only long work asks the system */
    bool shows, bar; /* on a terminal, else as lines */
    double from, drawn;
    bool visible; /* a bar stands on the screen */
} progress;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void progress_begin(const char *what, int64_t total, progress_unit unit)
{
    if (progress.depth++ > 0)
        return;
    progress.what = what;
    progress.total = total;
    progress.unit = unit;
    progress.shows = progress.asked = false;
    progress.from = progress.drawn = now();
}

/* ---- The line ---- */

/* "1.1 GB", or "1234" */
static void add_amount(buf *out, double amount, progress_unit unit)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    char number[64];
    int u = 0;
    while (unit == PROGRESS_BYTES && amount >= 999.5 && u < 4) {
        amount /= 1000;
        u++;
    }
    num_fixed(number, sizeof number, amount, amount < 9.95 && (u > 0 || unit == PROGRESS_TIMES),
              'f');
    buf_add(out, number);
    if (unit == PROGRESS_BYTES)
        buf_printf(out, " %s", units[u]);
}

static void add_time(buf *out, double seconds)
{
    long long s = seconds < 360000 ? (long long)(seconds + 0.5) : 359999;
    if (s >= 3600)
        buf_printf(out, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        buf_printf(out, "%lld:%02lld", s / 60, s % 60);
}

static void add_bar(buf *out, double part, int width)
{
    int full = (int)(part * width);
    buf_add(out, " [");
    buf_repeat(out, '=', full < width ? full : width);
    if (full < width)
        buf_char(out, '>');
    buf_repeat(out, ' ', width - full - 1);
    buf_char(out, ']');
}

/* Appends part, if it is room for it; columns 0: there always is. */
static void add_if_room(buf *out, const buf *part, int columns)
{
    if (columns == 0 || (int)(out->len + part->len) <= columns)
        buf_add(out, buf_text(part));
}

void progress_line(buf *out, const char *what, int64_t done, int64_t total, progress_unit unit,
                   double seconds, int columns)
{
    double rate = seconds > 0 ? (double)done / seconds : 0;
    double part = total > 0 ? (double)done / (double)total : 0;
    own_buf amount = {0}, whole = {0}, speed = {0}, left = {0};
    part = part > 1 ? 1 : part;
    if (total > 0)
        buf_printf(&amount, "%d%%", (int)(part * 100));
    else
        add_amount(&amount, (double)done, unit);
    if (total > 0 && unit == PROGRESS_BYTES) {
        buf_add(&whole, " of ");
        add_amount(&whole, (double)total, unit);
    }
    buf_add(&speed, "  ");
    add_amount(&speed, rate, unit);
    buf_add(&speed, "/s");
    if (total > 0 && rate > 0) {
        buf_add(&left, "  ETA ");
        add_time(&left, (double)(total > done ? total - done : 0) / rate);
    }
    buf_add(out, what);
    int room = columns - (int)(out->len + amount.len + whole.len + speed.len + left.len) - 4;
    if (total > 0 && room >= BAR_LEAST)
        add_bar(out, part, room < BAR_MOST ? room : BAR_MOST);
    buf_char(out, ' ');
    buf_add(out, buf_text(&amount));
    add_if_room(out, &whole, columns);
    add_if_room(out, &speed, columns);
    add_if_room(out, &left, columns);
}

/* ---- Drawing ---- */

void progress_hide(int fd)
{
    if (!progress.visible || !isatty(fd))
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress.visible = false;
}

void progress_step(int64_t done)
{
    if (progress.depth != 1 || (progress.asked && !progress.shows))
        return;
    double t = now();
    if (t - progress.from < PATIENCE)
        return;
    if (!progress.asked) {
        progress.shows = terminal_progress();
        progress.bar = isatty(STDERR_FILENO);
        progress.asked = true;
    }
    if (!progress.shows || t - progress.drawn < (progress.bar ? BETWEEN : BETWEEN_LINES))
        return;
    progress.drawn = t;
    int columns = terminal_width(STDERR_FILENO) - MARGIN;
    own_buf line = {0};
    if (progress.bar && columns <= 0)
        return;
    progress_line(&line, progress.what, done, progress.total, progress.unit, t - progress.from,
                  progress.bar ? columns : 0);
    if (!progress.bar)
        fprintf(stderr, "%s\n", buf_text(&line));
    else if ((int)line.len <= columns)
        fprintf(stderr, "\r%s\033[K", buf_text(&line));
    fflush(stderr);
    progress.visible = progress.bar;
}

void progress_bytes(void *arg, int64_t done, int64_t all)
{
    (void)arg;
    if (progress.depth == 1)
        progress.total = all;
    progress_step(done);
}

void progress_end(void)
{
    kv_assert(progress.depth > 0, "work ends that did not begin, at depth %d", progress.depth);
    if (--progress.depth == 0)
        progress_hide(STDERR_FILENO);
}

/* ---- The pager ---- */

/* Runs the pager as a child with a pipe as its stdin; it reads keys from the terminal itself. */

/* The exit status of sh for a command that is not there. */
#define NOT_FOUND 127

static bool allowed, at_end;

void pager_allow(bool may)
{
    allowed = may;
}

void pager_from_end(bool from_end)
{
    at_end = from_end;
}

/* Returns true if the text needs more rows than the screen has besides the prompt's. */
static bool is_long(const char *text, size_t n)
{
    int height = terminal_height(STDOUT_FILENO), width = terminal_width(STDOUT_FILENO);
    int rows = 0, column = 0;
    for (size_t i = 0; i < n && rows < height; i++) {
        if (text[i] == '\n') {
            rows++;
            column = 0;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80 && width > 0 && ++column > width) {
            rows++;
            column = 1;
        }
    }
    return height > 1 && width > 0 && rows >= height;
}

static bool goes_on(void *arg)
{
    (void)arg;
    return interrupt_pending() != SIGTERM;
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        if (interrupt_pending() == SIGTERM)
            kill(pid, SIGTERM);
    return status;
}

/* The line to run, NULL for none. */
static const char *chosen(void)
{
    const char *pager = getenv("PAGER");
    if (!pager)
        return at_end ? "exec less -FRX +G" : "exec less -FRX";
    return !*pager || strcmp(pager, "cat") == 0 ? NULL : pager;
}

static bool run(const char *line, const char *text, size_t n)
{
    int unwritten;
    pid_t pid;
    bool set = getenv("LESS") != NULL;
    line_lend_terminal();
    if (!set) /* for a $PAGER that is less: colours, and what was shown stays on the screen */
        setenv("LESS", "FRX", 1);
    int failed = child_shell(&pid, line, text, n, -1, goes_on, NULL, &unwritten);
    if (!set)
        unsetenv("LESS");
    int status = failed ? 0 : wait_for(pid);
    return !failed && !(WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND);
}

bool pager_show(const char *text, size_t n)
{
    const char *line = allowed && terminal_pager() && is_long(text, n) ? chosen() : NULL;
    if (!line)
        return false;
    fflush(stdout);
    /* Ctrl-C is for the pager now. */
    interrupt_at_prompt(true);
    bool shown = run(line, text, n);
    interrupt_at_prompt(false);
    interrupt_clear();
    return shown;
}
