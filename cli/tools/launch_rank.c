/* The watcher of one rank: starts it, writes down how it ends, and lets nothing outlive the job. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "term/exit_code.h"
#include "tools/launch_job.h"

static int open_at(const char *folder, const char *name, int flags)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, flags | O_CLOEXEC, 0600);
}

/* One write, so that lines of several ranks do not mix. */
static void tell(const char *folder, const char *line)
{
    int fd = open_at(folder, "events", O_WRONLY | O_APPEND);
    if (fd >= 0 && write(fd, line, strlen(line)) < 0)
        fprintf(stderr, "kvctl: cannot write into %s: %s\n", folder, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static bool has_ended(const char *folder)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/end", folder);
    return access(path, F_OK) == 0 || access(folder, F_OK) != 0;
}

/* The end of the pipe that launch reads becomes stdout or stderr. */
static void use_pipe(const char *folder, int rank, const char *kind, int fd)
{
    char name[32];
    snprintf(name, sizeof name, "%d.%s", rank, kind);
    int pipe = open_at(folder, name, O_WRONLY);
    if (pipe >= 0)
        dup2(pipe, fd);
}

static void run(char **words, const char *folder, int rank, const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (folder) {
        use_pipe(folder, rank, "out", STDOUT_FILENO);
        use_pipe(folder, rank, "err", STDERR_FILENO);
    }
    execv("/proc/self/exe", words);
    fprintf(stderr, "kvctl: cannot be started again: %s\n", strerror(errno));
    _exit(EXIT_FAILED);
}

/* Until the rank has ended; it is ended when who started this process is gone, or asks for it. */
static int watch(pid_t pid, pid_t parent, const sigset_t *mask)
{
    const struct timespec tick = {0, 100000000};
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        int signal = sigtimedwait(mask, NULL, &tick);
        if (getppid() != parent || signal == SIGTERM || signal == SIGINT || signal == SIGHUP)
            kill(pid, SIGKILL);
    }
    return status;
}

static void stay(const char *folder, pid_t parent)
{
    const struct timespec tick = {0, 10000000};
    while (getppid() == parent && !has_ended(folder))
        nanosleep(&tick, NULL);
}

/* launch-rank WORKERS WORD...: argv[0] is WORKERS. */
int launch_rank(int argc, char **argv)
{
    char line[64];
    static char self[] = "kvctl", serve[] = "serve";
    char *server[] = {self, serve, NULL};
    const char *folder = getenv("KVSTORE_RUN_DIR"), *number = getenv("OMPI_COMM_WORLD_RANK");
    if (argc < 1 || !number) {
        fprintf(stderr, "kvctl: launch-rank is for kvctl launch\n");
        return EXIT_NOT_UNDERSTOOD;
    }
    int workers = atoi(argv[0]), rank = atoi(number);
    pid_t parent = getppid();
    sigset_t watched, before;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGHUP);
    sigprocmask(SIG_BLOCK, &watched, &before);
    argv[0] = self;
    pid_t pid = fork();
    if (pid == 0)
        run(rank < workers ? argv : server, folder, rank, &before);
    if (pid < 0 || !folder)
        return pid < 0 ? EXIT_FAILED : WEXITSTATUS(watch(pid, parent, &watched));
    snprintf(line, sizeof line, "%d start %d %d\n", rank, (int)pid, (int)getpid());
    tell(folder, line);
    int status = watch(pid, parent, &watched);
    if (WIFSIGNALED(status))
        snprintf(line, sizeof line, "%d signal %d\n", rank, WTERMSIG(status));
    else
        snprintf(line, sizeof line, "%d exit %d\n", rank, WEXITSTATUS(status));
    tell(folder, line);
    stay(folder, parent);
    return EXIT_DONE;
}
