/* Commands of the shell. */
#include "script/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "script/safe.h"
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

/* What the command left in its file, to where output goes. */
static int take_output(session *s, int file, kv_err *e)
{
    char part[65536];
    int code = KV_OK;
    ssize_t n;
    if (lseek(file, 0, SEEK_SET) < 0)
        return file_error(e, "read", "the output of a command", errno);
    while (code == KV_OK && (n = read(file, part, sizeof part)) != 0)
        code = n > 0             ? session_out(s, part, (size_t)n, e)
               : errno == EINTR ? KV_OK
                                : file_error(e, "read", "the output of a command", errno);
    return code;
}

int shell_run(session *s, const char *line, const char *text, size_t n, kv_err *e)
{
    int ends[2] = {-1, -1}, unwritten = 0, out = -1;
    pid_t pid;
    if (safe_shell(s, e))
        return e->code;
    if (session_would(s, "run", line))
        return KV_OK;
    if (text && pipe2(ends, O_CLOEXEC) != 0)
        return kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerrordesc_np(errno));
    fflush(stdout);
    progress_hide(STDOUT_FILENO);
    line_lend_terminal();
    s->unheard = s->unheard || !is_caught(s);
    int failed = is_caught(s) && (out = memfd_create("output", MFD_CLOEXEC)) < 0 ? errno : 0;
    if (!failed)
        failed = start(&pid, line, ends[0], out);
    if (text)
        close(ends[0]);
    if (text && !failed)
        unwritten = feed(s, ends[1], text, n);
    if (text)
        close(ends[1]);
    if (failed) {
        kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerrordesc_np(failed));
        if (out >= 0)
            close(out);
        return e->code;
    }
    int status = wait_for(s, pid), code = KV_OK;
    if (out >= 0) {
        code = take_output(s, out, e);
        close(out);
    }
    if (unwritten)
        return kv_err_set(e, KV_E_IO, "cannot write to `%s`: %s", line,
                          strerrordesc_np(unwritten));
    return code ? code : judge(s, line, status, e);
}
