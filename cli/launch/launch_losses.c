/* What a job loses: the processes of an attempt and how they are ended, workers that it goes on
 * without, hosts that are silent. */
#include "launch/launch_attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/launch_command.h"
#include "launch/launch_folder.h"
#include "launch/launch_hosts.h"
#include "term/terminal.h"

/* ---- Processes ---- */

/* Ranks of other hosts are no children: mpirun is asked to end them. */

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
    children_become(c->words, j->mpirun > 0 || j->o->talk, said, mask);
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

/* ---- Workers that are gone ---- */

/* The list of those that are gone is the ranks of the job, which are marked. */

enum { MOST_NAMED = 8 };

bool gone_may(const job *j, int number)
{
    return j->o->losses != LOSSES_END && number > 0 && number < j->o->workers && !j->end_ms;
}

void gone_let(job *j, int number, const char *why)
{
    rank *r = &j->ranks[number];
    if (r->gone)
        return;
    r->gone = true;
    snprintf(r->why, sizeof r->why, "%s", why);
    folder_add(j->folder, "gone", number, why);
    r->untold = !j->is_local;
    if (j->is_local && r->pid && !r->ended)
        kill(r->pid, SIGKILL); /* silent, perhaps stopped */
}

void gone_take_missed(job *j, const char *text)
{
    int number, used = 0;
    if (sscanf(text, "%d %n", &number, &used) == 1 && gone_may(j, number))
        gone_let(j, number, text + used);
}

void gone_look(job *j)
{
    int number;
    char why[512];
    if (j->o->losses == LOSSES_END || j->end_ms)
        return;
    while (j->is_local && folder_next(j->folder, "missed", &j->missed_at, &number, why, sizeof why))
        if (gone_may(j, number))
            gone_let(j, number, why);
    for (int i = 0; i < j->n && !j->telling && j->mpirun; i++) {
        rank *r = &j->ranks[i];
        if (!r->untold)
            continue;
        children_tell_hosts(j, i, r->why, true);
        r->untold = false;
    }
}

void gone_say(const job *j)
{
    buf list = {0};
    int n = 0, named = 0;
    for (int i = 0; i < j->n; i++)
        n += j->ranks[i].gone;
    for (int i = 0; i < j->n && named < MOST_NAMED; i++) {
        if (!j->ranks[i].gone)
            continue;
        named++;
        buf_printf(&list, "%s %d", named == 1 ? "" : named == n ? " and" : ",", i);
    }
    if (n > named)
        buf_printf(&list, " and %d more", n - named);
    if (n > 0)
        terminal_say("kvctl: the job went on without rank%s%s, which %s lost", n == 1 ? "" : "s",
                     buf_text(&list), n == 1 ? "was" : "were");
    buf_release(&list);
}

/* ---- Hosts that are lost ---- */

/* Silence is counted from the last cell of any watcher of a host. */

void loss_tick(job *j, bool full)
{
    int64_t now = clock_ms();
    if (full || (double)(now - j->looked_ms) > j->o->deadline * 500)
        j->unheard_ms = now;
    j->looked_ms = now;
}

static bool on_one_host(const job *j, int a, int b)
{
    return strcmp(j->ranks[a].host, j->ranks[b].host) == 0;
}

/* Milliseconds; 0: nothing is known of it yet. */
static int64_t silence_of_watcher(const job *j, int number)
{
    const rank *r = &j->ranks[number];
    int64_t last = r->heard_ms > j->unheard_ms ? r->heard_ms : j->unheard_ms;
    return !r->pid ? 0 : clock_ms() - last;
}

/* That of the watcher that was heard last. */
static int64_t silence_of_host(const job *j, int number)
{
    int64_t least = silence_of_watcher(j, number);
    for (int i = 0; i < j->n; i++) {
        int64_t one = on_one_host(j, i, number) ? silence_of_watcher(j, i) : least;
        least = one < least ? one : least;
    }
    return least;
}

static bool is_longer(const job *j, int64_t ms, double deadlines)
{
    return (double)ms > j->o->deadline * 1000 * deadlines;
}

/* The watchers of a host that lives were heard an eighth of the deadline ago, those of one that
 * died no later than its ranks: half of it is far from both. */
bool loss_is_host(const job *j, int number)
{
    return !j->is_local && number >= 0 && number < j->n &&
           is_longer(j, silence_of_host(j, number), 0.5);
}

/* On this host the cells of all watchers come through mpirun. */
void loss_name_local(const job *j, int number, const char *name, char *why, size_t size)
{
    bool all = is_longer(j, silence_of_host(j, number), 0.5);
    snprintf(why, size, "%s%s has not been heard for %lld s", all ? "mpirun" : "the watcher of ",
             all ? "" : name, (long long)silence_of_watcher(j, number) / 1000);
}

int loss_find(const job *j)
{
    for (int i = 0; i < j->n; i++)
        if (!j->ranks[i].ended && (is_longer(j, silence_of_watcher(j, i), 1.5) ||
                                   (j->ssh_ended && loss_is_host(j, i))))
            return i;
    return -1;
}

void loss_name_silent(const job *j, int number, const char *name, char *why, size_t size)
{
    snprintf(why, size, "%s has not been heard for %lld s", name,
             (long long)silence_of_watcher(j, number) / 1000);
}

void loss_name_host(const job *j, int number, char *why, size_t size)
{
    int ranks = 0, named = 0;
    for (int i = 0; i < j->n; i++)
        ranks += !j->ranks[i].ended && on_one_host(j, i, number);
    int at = snprintf(why, size, "host %s is lost, with rank%s", j->ranks[number].host,
                      ranks == 1 ? "" : "s");
    for (int i = 0; i < j->n && named < MOST_NAMED; i++) {
        if (j->ranks[i].ended || !on_one_host(j, i, number))
            continue;
        named++;
        at += snprintf(why + at, size - (size_t)at, "%s %d",
                       named == 1       ? ""
                       : named == ranks ? " and"
                                        : ",",
                       i);
    }
    if (ranks > named)
        snprintf(why + at, size - (size_t)at, " and %d more", ranks - named);
}

void loss_end_host(job *j, int number)
{
    for (int i = 0; i < j->n; i++)
        if (on_one_host(j, i, number))
            j->ranks[i].ended = true;
}
