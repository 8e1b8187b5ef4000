/* Ranks of other hosts are no children: mpirun is asked to end them. */
#include "launch/launch_children.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "term/exit_code.h"
#include "launch/launch_mpirun.h"
#include "launch/launch_variables.h"

void children_watch_signals(signal_masks *m)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    sigemptyset(&m->watched);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&m->watched, signals[i]);
    sigprocmask(SIG_BLOCK, &m->watched, &m->before);
}

int children_next_signal(const sigset_t *watched)
{
    const struct timespec none = {0, 0};
    int signal;
    while ((signal = sigtimedwait(watched, NULL, &none)) == SIGCHLD)
        ;
    return signal > 0 ? signal : 0;
}

void children_become(char **words, bool other, int said, const sigset_t *mask)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (isatty(STDIN_FILENO) || other)
        dup2(nothing, STDIN_FILENO); /* a group in the background may not read a terminal */
    if (said >= 0) {
        dup2(said, STDOUT_FILENO);
        dup2(said, STDERR_FILENO);
    }
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "%s cannot be started: %s\n", words[0], strerror(errno));
    _exit(EXIT_UNSUPPORTED);
}

/* In the child. */
static void become_mpirun(const job *j, const launch_command *c, const launch_command *set,
                          int said, const sigset_t *mask)
{
    for (int64_t i = 0; i < set->n; i++) {
        if (putenv(set->words[i]) == 0)
            continue;
        dprintf(said, "mpirun cannot be started: no memory for its variables\n");
        _exit(EXIT_FAILED);
    }
    children_become(c->words, j->mpirun > 0, said, mask);
}

int children_start(job *j, const launch_command *c, const sigset_t *mask, kv_err *e)
{
    launch_command set = {0};
    int ends[2];
    mpirun_environment(&set, j->o, j->folder, j->round);
    variables_carry(&set, j->o);
    if (launch_command_check(&set, e) || pipe2(ends, O_CLOEXEC)) {
        launch_command_release(&set);
        return e->code ? e->code : kv_err_set(e, KV_E_IO, "launch: no pipe: %s", strerror(errno));
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        become_mpirun(j, c, &set, ends[1], mask);
    close(ends[1]);
    launch_command_release(&set);
    if (pid < 0) {
        close(ends[0]);
        return kv_err_set(e, KV_E_UNSUPPORTED, "launch: no process can be started");
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    j->heard = ends[0];
    j->mpirun = pid;
    return KV_OK;
}

void children_kill_ranks(const job *j, int signal)
{
    if (j->mpirun && (signal == SIGKILL || !j->is_local))
        kill(j->mpirun, signal == SIGKILL ? SIGTERM : SIGUSR2);
    for (int i = 0; i < j->n && j->is_local; i++)
        if (j->ranks[i].pid && !j->ranks[i].ended)
            kill(j->ranks[i].pid, signal);
}

void children_tell_hosts(job *j, int number, const char *why, bool gone)
{
    launch_command c = {0}, set = {0};
    sigset_t none;
    kv_err e = {0};
    sigemptyset(&none);
    mpirun_environment(&set, j->o, j->folder, j->round);
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    mpirun_tell_command(&c, j->o, j->hosts, number, why, gone, &e);
    if (!e.code && !launch_command_check(&set, &e)) {
        pid_t pid = fork();
        if (pid == 0)
            become_mpirun(j, &c, &set, nothing, &none);
        j->telling = pid > 0 ? pid : 0;
    }
    if (nothing >= 0)
        close(nothing);
    launch_command_release(&c);
    launch_command_release(&set);
}

void children_end(void)
{
    char list[4096], *at = list, *end;
    snprintf(list, sizeof list, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(list, "re");
    size_t n = f ? fread(list, 1, sizeof list - 1, f) : 0;
    list[n] = '\0';
    if (f)
        fclose(f);
    for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end)
        kill((pid_t)pid, SIGKILL);
}
