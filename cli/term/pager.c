/* Runs the pager as a child with a pipe as its stdin; it reads keys from the terminal itself. */
#include "term/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "term/line.h"
#include "term/signals.h"

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

/* Writes until all is written or the reader left. */
static void feed(int fd, const char *text, size_t n)
{
    while (n > 0 && interrupt_pending() != SIGTERM) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        text += done;
        n -= (size_t)done;
    }
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
    int ends[2];
    pid_t pid;
    bool set = getenv("LESS") != NULL;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    line_lend_terminal();
    if (!set) /* for a $PAGER that is less: colours, and what was shown stays on the screen */
        setenv("LESS", "FRX", 1);
    int failed = child_shell(&pid, line, ends[0], -1);
    if (!set)
        unsetenv("LESS");
    close(ends[0]);
    if (!failed)
        feed(ends[1], text, n);
    close(ends[1]);
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
