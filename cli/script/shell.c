/* Commands of the shell. */
#include "script/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts sh with fd as its stdin, unless fd is -1. SIGPIPE, which kvctl ignores, has its usual
 * meaning there; handlers of kvctl end with exec by themselves. Returns an errno. */
static int start(pid_t *pid, const char *line, int fd)
{
    char *argv[] = {"sh", "-c", (char *)(uintptr_t)line, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t usual;
    extern char **environ;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    if ((failed = posix_spawnattr_init(&how)) == 0) {
        posix_spawnattr_setsigdefault(&how, &usual);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
        if (fd >= 0)
            failed = posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO);
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
    if (session_interrupted(s, e))
        return KV_E_INTERRUPTED;
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

int shell_run(session *s, const char *line, const char *text, size_t n, kv_err *e)
{
    int ends[2] = {-1, -1}, unwritten = 0;
    pid_t pid;
    if (session_would(s, "run", line))
        return KV_OK;
    if (text && pipe2(ends, O_CLOEXEC) != 0)
        return kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerrordesc_np(errno));
    fflush(stdout);
    int failed = start(&pid, line, ends[0]);
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
