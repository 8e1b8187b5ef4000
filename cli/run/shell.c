/* Commands of the shell. */
#include "run/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "syntax/safe.h"
#include "term/line.h"
#include "term/progress.h"

/* Starts sh with fd as its stdin and out as its stdout, unless they are -1. Signals that kvctl
 * ignores have their usual meaning there; its handlers end with exec by themselves. Returns an
 * errno. */
static int start(pid_t *pid, const char *line, int fd, int out)
{
    char *argv[] = {"sh", "-c", (char *)(uintptr_t)line, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t usual;
    extern char **environ;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    if ((failed = posix_spawnattr_init(&how)) == 0) {
        posix_spawnattr_setsigdefault(&how, &usual);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
        if (fd >= 0)
            failed = posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO);
        if (out >= 0 && !failed)
            failed = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
        if (!failed)
            failed = posix_spawn(pid, "/bin/sh", &files, &how, argv, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

/* Writes text to fd. Returns 0, also when the reader has left; else an errno. */
static int feed(session *s, int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR && !session_interrupted(s, NULL))
            continue;
        if (done < 0)
            return errno == EPIPE || errno == EINTR ? 0 : errno;
        text += done;
        n -= (size_t)done;
    }
    return 0;
}

/* What an ended command's status says. */
static int judge(session *s, const char *line, int status, kv_err *e)
{
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

/* Waits for the command to end. When kvctl is told to end, so is the command: a terminal tells
 * both, kill only one. */
static int wait_for(session *s, pid_t pid)
{
    int status = 0;
    bool told = false;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        int sig = s->interrupted ? s->interrupted() : 0;
        if (sig && !told)
            kill(pid, sig == SIGINT ? SIGINT : SIGTERM);
        told |= sig != 0;
    }
    return status;
}

/* Whether what the command prints must be seen here: a record, a transcript, or an `expect` wants
 * it. Else it goes to our stdout, which may be a terminal. */
static bool is_caught(const session *s)
{
    return s->captured || s->transcript ||
           (s->hearing && (s->catches_shell || !isatty(STDOUT_FILENO)));
}

/* What the command left in its file, to `to`, or where output goes. */
static int take_output(session *s, int file, buf *to, kv_err *e)
{
    char part[65536];
    int code = KV_OK;
    ssize_t n;
    if (lseek(file, 0, SEEK_SET) < 0)
        return file_error(e, "read", "the output of a command", errno);
    while (code == KV_OK && (n = read(file, part, sizeof part)) != 0) {
        if (n < 0 && errno != EINTR)
            code = file_error(e, "read", "the output of a command", errno);
        else if (n > 0 && to)
            buf_put(to, part, (size_t)n);
        else if (n > 0)
            code = session_out(s, part, (size_t)n, e);
    }
    return code;
}

/* Runs a line; what it prints goes to file, or to our stdout when that is -1. */
static int run(session *s, const char *line, const char *text, size_t n, int file, kv_err *e)
{
    int ends[2] = {-1, -1}, unwritten = 0;
    pid_t pid;
    if (text && pipe2(ends, O_CLOEXEC) != 0)
        return kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerrordesc_np(errno));
    fflush(stdout);
    progress_hide(STDOUT_FILENO);
    line_lend_terminal();
    int failed = start(&pid, line, ends[0], file);
    if (text)
        close(ends[0]);
    if (text && !failed)
        unwritten = feed(s, ends[1], text, n);
    if (text)
        close(ends[1]);
    if (failed)
        return kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerrordesc_np(failed));
    int status = wait_for(s, pid);
    if (unwritten)
        return kv_err_set(e, KV_E_IO, "cannot write to `%s`: %s", line,
                          strerrordesc_np(unwritten));
    return judge(s, line, status, e);
}

/* The same, and what it prints is taken: by `to`, or as output of the session. */
static int run_caught(session *s, const char *line, const char *text, size_t n, buf *to, kv_err *e)
{
    int file = memfd_create("output", MFD_CLOEXEC);
    if (file < 0)
        return kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerrordesc_np(errno));
    kv_err ended = {0};
    int status = run(s, line, text, n, file, &ended), code = take_output(s, file, to, e);
    close(file);
    if (code == KV_OK && status)
        *e = ended;
    return e->code;
}

int shell_run(session *s, const char *line, const char *text, size_t n, kv_err *e)
{
    if (safe_shell(s, e))
        return e->code;
    if (session_would(s, "run", line))
        return KV_OK;
    s->unheard = s->unheard || !is_caught(s);
    return is_caught(s) ? run_caught(s, line, text, n, NULL, e) : run(s, line, text, n, -1, e);
}

int shell_filter(session *s, const char *line, const char *text, size_t n, buf *out, kv_err *e)
{
    return run_caught(s, line, text, n, out, e);
}

bool shell_finds(const char *program)
{
    const char *at = getenv("PATH");
    bool found = false;
    for (size_t n; at && *at && !found; at += n + (at[n] == ':')) {
        buf path = {0};
        n = strcspn(at, ":");
        buf_put(&path, at, n);
        buf_printf(&path, "/%s", program);
        found = access(buf_text(&path), X_OK) == 0;
        buf_release(&path);
    }
    return found;
}
