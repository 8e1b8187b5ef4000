/* Commands of the shell. */
#include "run/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "session/visit.h"
#include "syntax/effect.h"
#include "term/line.h"
#include "term/signals.h"
#include "term/terminal.h"

static bool goes_on(void *s)
{
    return !session_interrupted(s, NULL);
}

#define GRACE_MS 1000 /* for a command that SIGTERM or --timeout ends */
#define LOOK_MS  100  /* a signal that came just before the wait is seen so much later */

/* Waits for the command to end. A signal that ends kvctl also ends the shell and what it has
 * started, since a shell waits for that before it obeys. Who ignores it is killed; but not behind
 * Ctrl-C, which many programs live on with. */
static int wait_for(session *s, pid_t pid)
{
    int status = 0, sig = 0, ended = (int)syscall(SYS_pidfd_open, pid, 0);
    int64_t told = 0;
    struct pollfd end = {.fd = ended, .events = POLLIN};
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        if (!sig && (sig = s->interrupted ? s->interrupted() : 0)) {
            told = clock_ms();
            bool all = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
            if (sig == SIGINT && all) /* the terminal has told the command's processes, too */
                kill(pid, SIGINT);
            else
                child_tell(pid, sig == SIGINT ? SIGINT : SIGTERM);
        }
        if (sig && sig != SIGINT && clock_ms() - told > GRACE_MS)
            child_tell(pid, SIGKILL);
        visit_look(s);
        (void)poll(&end, ended >= 0, ended >= 0 ? LOOK_MS : 2);
    }
    if (ended >= 0)
        close(ended);
    return status;
}

/* Returns true if a sink must see the output of the command. Else it goes to our stdout, which may
 * be a terminal that the command draws on. */
static bool is_caught(const session *s)
{
    for (const sink *k = s->out.sinks; k; k = k->below)
        if (k->kind != SINK_HEARS || k->sees_shell || !isatty(STDOUT_FILENO))
            return true;
    return false;
}

/* Takes the output of the command from its file: to `to`, or to the output of the session. */
static int take_output(session *s, int file, buf *to, kv_err *e)
{
    char part[65536];
    int rc = KV_OK;
    ssize_t n;
    if (lseek(file, 0, SEEK_SET) < 0)
        return file_error(e, "read", "the output of a command", errno);
    while (rc == KV_OK && (n = read(file, part, sizeof part)) != 0) {
        if (n < 0 && errno != EINTR)
            rc = file_error(e, "read", "the output of a command", errno);
        else if (n > 0 && to)
            buf_put(to, part, (size_t)n);
        else if (n > 0)
            rc = session_out(s, part, (size_t)n, e);
    }
    return to && rc == KV_OK ? buf_check(to, e) : rc;
}

/* Runs a line; its output goes to file, or to our stdout when that is -1. */
static int run(session *s, const char *line, const char *text, size_t n, int file, kv_err *e)
{
    int unwritten;
    pid_t pid;
    fflush(stdout);
    progress_hide(STDOUT_FILENO);
    line_lend_terminal();
    int failed = child_shell(&pid, line, text, n, file, goes_on, s, &unwritten);
    if (failed)
        return kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerrordesc_np(failed));
    int status = wait_for(s, pid);
    if (unwritten)
        return kv_err_set(e, KV_E_IO, "cannot write to `%s`: %s", line,
                          strerrordesc_np(unwritten));
    if (status == 0)
        return KV_OK;
    int stopped = session_interrupted(s, e);
    if (stopped)
        return stopped;
    if (WIFEXITED(status))
        return kv_err_set(e, KV_E_IO, "the command `%s` ended with status %d", line,
                          WEXITSTATUS(status));
    if (WTERMSIG(status) == SIGPIPE)
        return KV_OK; /* its own reader left */
    return kv_err_set(e, KV_E_IO, "the command `%s` was ended by signal %d", line,
                      WTERMSIG(status));
}

int shell_filter(session *s, const char *line, const char *text, size_t n, buf *out, kv_err *e)
{
    int file = memfd_create("output", MFD_CLOEXEC);
    if (file < 0)
        return kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerrordesc_np(errno));
    kv_err ended = {0};
    int status = run(s, line, text, n, file, &ended), rc = take_output(s, file, out, e);
    close(file);
    if (rc == KV_OK && status)
        *e = ended;
    return e->code;
}

int shell_run(session *s, const char *line, const char *text, size_t n, kv_err *e)
{
    TRY(safe_shell(s, e));
    if (session_would(s, "run", line))
        return KV_OK;
    if (is_caught(s))
        return shell_filter(s, line, text, n, NULL, e);
    s->out.previous.missed = true;
    return run(s, line, text, n, -1, e);
}
