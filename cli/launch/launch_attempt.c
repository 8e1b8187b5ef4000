/* One loop of ticks: it passes on what the watchers tell, and ends the job when a rank failed, a
 * signal came or the time is up. Before it stands what a job loses, and goes on without or not. */
#include "launch/launch_attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "launch/jobs_socket.h"
#include "launch/launch_command.h"
#include "launch/launch_folder.h"
#include "term/line.h"
#include "term/terminal.h"

/* ---- Processes ---- */

/* What one attempt at a job starts on this host, and ends: mpirun, the mpirun that tells the hosts
 * of a loss, the ranks of this host, and whatever lost its parent. Ranks of other hosts are no
 * children: mpirun is asked to end them. */

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

void children_become(char **words, bool other, int out, int err, const sigset_t *mask)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (isatty(STDIN_FILENO) || other)
        dup2(nothing, STDIN_FILENO); /* a group in the background may not read a terminal */
    dup2(out < 0 ? nothing : out, STDOUT_FILENO);
    dup2(err < 0 ? nothing : err, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "%s cannot be started: %s\n", words[0], strerror(errno));
    _exit(EXIT_UNSUPPORTED);
}

/* Starts mpirun with the variables of the job. said: its stdout and stderr, or -1; mask: the
 * signals that are blocked in it. Returns its number; 0 with an error: memory, unsupported. */
static pid_t start_mpirun(const job *j, const launch_command *c, int said, const sigset_t *mask,
                          kv_err *e)
{
    own_command set = {0};
    mpirun_environment(&set, j->o, j->folder, j->round);
    variables_carry(&set, j->o);
    if (launch_command_check(&set, e))
        return 0;
    fflush(stdout);
    pid_t pid = fork();
    for (int64_t i = 0; pid == 0 && i < set.n; i++) {
        if (putenv(set.words[i]) == 0)
            continue;
        dprintf(said, "mpirun cannot be started: no memory for its variables\n");
        _exit(EXIT_FAILED);
    }
    if (pid == 0)
        children_become(c->words, j->mpirun > 0 || j->o->talk, said, said, mask);
    if (pid < 0)
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: no process can be started");
    return pid > 0 ? pid : 0;
}

/* Starts the mpirun of the ranks with a pipe from it, j->heard. Errors: io, memory, unsupported. */
static int children_start(job *j, const launch_command *c, const sigset_t *mask, kv_err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return kv_err_set(e, KV_E_IO, "launch: no pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    j->heard = ends[0];
    j->mpirun = start_mpirun(j, c, ends[1], mask, e);
    close(ends[1]);
    return (int)e->code;
}

/* Signals the ranks of this host at once, the ranks of other hosts through mpirun, whose daemons
 * pass on SIGUSR2, and SIGTERM by ending all watchers. */
static void children_kill_ranks(const job *j, int signal)
{
    if (j->mpirun && (signal == SIGKILL || !j->is_local))
        kill(j->mpirun, signal == SIGKILL ? SIGTERM : SIGUSR2);
    for (int i = 0; i < j->n && j->is_local; i++)
        if (j->ranks[i].pid && !j->ranks[i].ended)
            kill(j->ranks[i].pid, signal);
}

/* Adds a line about a rank to a file in the folder of the job on all hosts, through a second
 * mpirun. Without memory or processes for that the ranks find out by the silence of that one. */
static void children_tell_hosts(job *j, const char *file, int number, const char *why)
{
    own_command c = {0};
    sigset_t none;
    kv_err e = {0};
    sigemptyset(&none);
    if (!mpirun_tell_command(&c, j->o, j->hosts, file, number, why, &e))
        j->telling = start_mpirun(j, &c, -1, &none, &e);
}

/* Ends all that is still a child, whatever it is. */
static void children_end(void)
{
    char list[4096], *at = list, *end;
    snprintf(list, sizeof list, "/proc/self/task/%d/children", (int)getpid());
    own_stream *f = fopen(list, "re");
    size_t n = f ? fread(list, 1, sizeof list - 1, f) : 0;
    list[n] = '\0';
    for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end)
        kill((pid_t)pid, SIGKILL);
}

/* ---- Workers that are gone ---- */

/* Workers that a job goes on without (launch --elastic); they are marked in the ranks of the job. A
 * worker that was killed or is silent is gone where servers are ranks of their own: launch writes
 * that into the file `gone` of every host, kills what is left of it, and names it at the end. Ranks
 * that cannot do without it, as those of a dist_sync store without --elastic, write the file `lost`
 * then, and the job ends as ever. */

enum { MOST_NAMED = 8 };

/* Returns whether the others may go on without this rank: it is a worker, and not the first, which
 * makes the keys and writes the files. */
static bool gone_may(const job *j, int number)
{
    return j->o->losses != LOSSES_END && number > 0 && number < j->o->workers && !j->end_ms;
}

/* The others go on, and hear why. */
static void gone_let(job *j, int number, const char *why)
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

/* Once a tick: tells other hosts. */
static void gone_look(job *j)
{
    for (int i = 0; i < j->n && !j->telling && j->mpirun && !j->end_ms; i++) {
        if (j->ranks[i].untold)
            children_tell_hosts(j, "gone", i, j->ranks[i].why);
        j->ranks[i].untold = false;
    }
}

/* Names them, when the attempt is over. */
static void gone_say(const job *j)
{
    own_buf list = {0};
    int n = 0, named = 0;
    for (int i = 0; i < j->n; i++)
        n += j->ranks[i].gone;
    for (int i = 0; i < j->n; i++)
        if (j->ranks[i].gone && launch_list(&list, named++, n, MOST_NAMED))
            buf_printf(&list, " %d", i);
    if (n > 0)
        terminal_say("kvctl: the job went on without rank%s%s, which %s lost", n == 1 ? "" : "s",
                     buf_text(&list), n == 1 ? "was" : "were");
}

/* ---- Hosts that are lost ---- */

/* A job over several hosts may lose one of them with all its ranks. A host is alive as long as its
 * watchers send launch their heartbeats (WIRE_BEAT): a rank that is stopped is silent while its
 * watcher goes on, and if the watchers are silent too no process of the job is left. Silence is
 * counted from the last cell of any watcher of a host.
 *
 * mpirun may notice first, or a rank that hears nothing of another one, or launch by itself. In all
 * these cases the sentence is that of loss_name_host. */

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
    bool all = j->is_local && is_longer(j, silence_of_host(j, number), 0.5);
    snprintf(why, size, "%s%s has not been heard for %lld s",
             all           ? "mpirun"
             : j->is_local ? "the watcher of "
                           : "",
             all ? "" : name, (long long)silence_of_watcher(j, number) / 1000);
}

void loss_name_host(const job *j, int number, char *why, size_t size)
{
    own_buf list = {0};
    int ranks = 0, named = 0;
    for (int i = 0; i < j->n; i++)
        ranks += !j->ranks[i].ended && on_one_host(j, i, number);
    for (int i = 0; i < j->n; i++)
        if (!j->ranks[i].ended && on_one_host(j, i, number) &&
            launch_list(&list, named++, ranks, MOST_NAMED))
            buf_printf(&list, " %d", i);
    snprintf(why, size, "host %s is lost, with rank%s%s", j->ranks[number].host,
             ranks == 1 ? "" : "s", buf_text(&list));
}

void loss_end_host(job *j, int number)
{
    for (int i = 0; i < j->n; i++)
        if (on_one_host(j, i, number))
            j->ranks[i].ended = true;
}

/* ---- The attempt ---- */

enum {
    TICK_MS = 20,
    MPIRUN_MS = 2000,
    MPIRUN_HOSTS_MS = 5000 /* for mpirun to end */,
    EARLY_MS = 2000,
    CUT_MS = 1000,   /* what another host has to tell of an end travels for less */
    LINK_CLOSED = 14 /* the exit code of a rank that Open MPI 5 ends */
};

static int mpirun_ms(const job *j)
{
    return j->is_local ? MPIRUN_MS : MPIRUN_HOSTS_MS;
}

static const char *role(const job *j, int number)
{
    bool spare = number >= j->o->workers - j->o->spares && !j->ranks[number].asked;
    return number >= j->o->workers ? "server" : spare ? "spare" : "worker";
}

/* The rank, its role, and for jobs over several hosts where it runs. */
static void name_rank(const job *j, int number, char name[160])
{
    const rank *r = &j->ranks[number];
    snprintf(name, 160, "rank %d (%s)%s%s", number, role(j, number), j->is_local ? "" : " on ",
             j->is_local ? "" : r->host);
}

/* Over several hosts it has one name on all of them, which may lack the $TMPDIR of this one. */
static int make_folder(job *j, kv_err *e)
{
    TRY(folder_new(j->folder, j->is_local ? NULL : "/tmp", e));
    j->held = folder_hold(j->folder, "launch");
    if (j->held >= 0)
        return KV_OK;
    file_error(e, "lock", j->folder, errno);
    folder_remove(j->folder);
    return e->code;
}

/* ---- Ticks ---- */

/* Says why the job failed. Several ranks that end alike have made the same mistake. */
static void say_why(job *j)
{
    output_look(&j->output, true);
    line_leave();
    if (j->alike > 1)
        terminal_say("kvctl: %d ranks ended with exit code %d", j->alike, j->code);
    else
        terminal_say("kvctl: %s", j->why);
    j->alike = 0;
}

/* The job has failed: says so, once, and lets the others end by themselves. */
__attribute__((format(printf, 4, 5))) static void lose(job *j, int number, int rc,
                                                       const char *fmt, ...)
{
    char why[512];
    va_list args;
    int other = number;
    if (j->end_ms)
        return;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    folder_add(j->folder, "lost", number, why);
    folder_lost(j->folder, &other, why, sizeof why); /* a rank may have said it first */
    bool host = loss_is_host(j, other);
    if (host)
        loss_name_host(j, other, why, sizeof why);
    j->code = other == number ? rc : EXIT_PEER;
    (void)kv_assert(j->code != EXIT_DONE, "a job that has lost rank %d cannot end well", other);
    j->lost = other >= 0 && j->code == EXIT_PEER;
    if (other >= 0 && other < j->n)
        j->ranks[other].gone = false; /* the others could not go on */
    j->end_ms = clock_ms() + (int64_t)(j->o->deadline * 1000);
    snprintf(j->why, sizeof j->why, "%s", why);
    j->alike = 1;
    j->say_ms = clock_ms() + OUTPUT_JOIN_MS;
    if (j->code == EXIT_PEER || other < 0) /* else others may end with this code, too */
        say_why(j);
    if (!j->is_local && j->mpirun)
        children_tell_hosts(j, "lost", other, why);
    else if (j->is_local && other >= 0 && other < j->n && j->ranks[other].pid &&
             !j->ranks[other].ended)
        kill(j->ranks[other].pid, SIGKILL); /* silent, perhaps stopped */
    if (host)
        loss_end_host(j, other);
}

/* A rank was killed: the others go on without it, or the job has failed. signal: 0 where it is not
 * known. */
static void lose_rank(job *j, int number, int signal)
{
    char why[512], name[160], by[32] = "";
    name_rank(j, number, name);
    if (signal)
        snprintf(by, sizeof by, " by signal %d", signal);
    snprintf(why, sizeof why, "%s was killed%s", name, by);
    if (gone_may(j, number))
        gone_let(j, number, why);
    else
        lose(j, number, EXIT_PEER, "%s", why);
}

static void lose_host(job *j, int number)
{
    char why[512];
    loss_name_host(j, number, why, sizeof why);
    lose(j, number, EXIT_PEER, "%s", why);
    loss_end_host(j, number);
}

/* The line is of the rank whose watcher sent it. */
static void take_event(job *j, rank *r, const char *line)
{
    int number, x;
    long long y = -1;
    char what[16], name[160];
    int n = sscanf(line, "%d %15s %d %lld %63s", &number, what, &x, &y, r->host);
    if (n < 3 || number != (int)(r - j->ranks))
        return;
    if (strcmp(what, "start") == 0) {
        r->pid = x;
        r->watcher = (pid_t)y;
        return;
    }
    r->rounds = y;
    name_rank(j, number, name);
    r->ended = true;
    output_ended(&j->output, number);
    if (strcmp(what, "stopped") == 0) {
        r->stopped = true;
        j->stopped_ms = j->stopped_ms ? j->stopped_ms : clock_ms();
    } else if (r->gone) {
        /* it ends, as was said */
    } else if (strcmp(what, "signal") == 0)
        lose_rank(j, number, x);
    else if (x == LINK_CLOSED && !j->is_local) {
        j->cut = j->cut_ms ? j->cut : number;
        j->cut_ms = j->cut_ms ? j->cut_ms : clock_ms();
    } else if (x != 0 && j->alike > 0 && x == j->code)
        j->alike++;
    else if (x != 0)
        lose(j, number, x, "%s ended with exit code %d", name, x);
    else if (j->early < 0) {
        j->early = number;
        j->early_ms = clock_ms();
    }
}

/* Open MPI 5 ends a rank whose link to another one closes. The other's end may be told a little
 * later, by another host, and is the reason; without one it is this rank that has failed. */
static void tell_cut(job *j)
{
    char name[160];
    if (!j->cut_ms || j->end_ms)
        return;
    j->cut_ms = 0;
    name_rank(j, j->cut, name);
    lose(j, j->cut, LINK_CLOSED, "%s ended with exit code %d", name, LINK_CLOSED);
}

/* A watcher reports "RANK sentence": a lost rank that launch has not noticed yet, or one that is
 * missed on some host. */
static void take_loss(job *j, bool missed, const char *text)
{
    int number, used = 0;
    bool read = sscanf(text, "%d %n", &number, &used) == 1;
    if (read && !missed)
        lose(j, number, EXIT_PEER, "%s", text + used);
    else if (read && gone_may(j, number))
        gone_let(j, number, text + used);
}

static void show_log(job *j)
{
    line_leave();
    terminal_pass(stderr, buf_text(&j->log), j->log.len);
    buf_clear(&j->log);
}

/* Its host may live on, with all its ranks: silence will tell. */
static void take_ssh(job *j, const char *code)
{
    j->ssh_ended = true;
    if (attempt_count(j).begun == j->n || j->end_ms)
        return;
    show_log(j);
    lose(j, -1, EXIT_PEER, "ssh ended with exit code %s before all ranks had begun", code);
}

static void take_cell(job *j, const wire_cell *cell)
{
    char text[WIRE_TEXT + 1];
    if (cell->rank < 0 || cell->rank >= j->n)
        return;
    rank *r = &j->ranks[cell->rank];
    if (cell->kind != WIRE_SSH)
        r->heard_ms = clock_ms();
    memcpy(text, cell->text, (size_t)cell->n);
    text[cell->n] = '\0';
    switch ((wire_kind)cell->kind) {
    case WIRE_OUT:
    case WIRE_ERR:
        output_take(&j->output, cell->rank, cell->kind == WIRE_ERR, cell->text, (size_t)cell->n);
        break;
    case WIRE_EVENT:
        take_event(j, r, text);
        break;
    case WIRE_LOST:
    case WIRE_MISSED:
        take_loss(j, cell->kind == WIRE_MISSED, text);
        break;
    case WIRE_SSH:
        take_ssh(j, text);
        break;
    case WIRE_DONE:
        for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
            output_done(&j->output, cell->rank, atoi(at));
        break;
    case WIRE_BEAT:
        break;
    }
}

void attempt_take(job *j, const char *bytes, size_t n, bool all)
{
    wire_cell cell;
    buf_put(&j->bytes, bytes, n);
    if (j->bytes.failed)
        lose(j, -1, EXIT_FAILED, "launch has no memory for what the ranks tell");
    while (wire_take(&j->bytes, &cell, &j->log, all))
        take_cell(j, &cell);
}

/* Returns whether something came. */
static bool take_heard(job *j)
{
    char block[65536];
    ssize_t n = j->heard < 0 ? -1 : read(j->heard, block, sizeof block);
    bool fails = j->heard >= 0 && n < 0 && errno != EAGAIN && errno != EINTR;
    bool all = j->heard < 0 || n == 0 || fails;
    if (fails) /* nothing would tell its end any more */
        lose(j, -1, EXIT_IO, "what the ranks tell cannot be read: %s", strerror(errno));
    loss_tick(j, n == sizeof block);
    attempt_take(j, block, n > 0 ? (size_t)n : 0, all);
    if (all && j->heard >= 0) {
        close(j->heard);
        j->heard = -1;
    }
    return n > 0;
}

/* A rank whose watcher is gone died with it. */
static void look_at_watchers(job *j)
{
    for (int i = 0; i < j->n; i++) {
        rank *r = &j->ranks[i];
        if (!j->is_local || !r->pid || r->ended || kill(r->watcher, 0) == 0)
            continue;
        r->ended = true;
        lose_rank(j, i, 0);
    }
}

static bool host_answers(const job *j, const char *host)
{
    bool answers = false;
    for (int i = 0; i < j->n; i++)
        answers |= j->ranks[i].stopped && strcmp(j->ranks[i].host, host) == 0;
    return answers;
}

/* mpirun is gone, or has ended ranks by itself, as it does when it loses a host: those of the other
 * hosts still told that, unless they had ended before, and then the host is silent. What mpirun
 * says is about the start of a job. */
static void lose_mpirun(job *j, const char *why)
{
    for (int i = 0; i < j->n; i++) {
        if (j->ranks[i].ended || !j->ranks[i].pid || host_answers(j, j->ranks[i].host) ||
            (!j->stopped_ms && !loss_is_host(j, i)))
            continue;
        lose_host(j, i);
        return;
    }
    show_log(j);
    lose(j, -1, EXIT_PEER, "%s", why);
}

/* All is well for mpirun, which waited for all watchers: one that did not tell the end of its rank
 * was killed. */
static void lose_untold(job *j)
{
    char name[160];
    for (int i = 0; i < j->n && !j->stopped_ms; i++) {
        if (!j->ranks[i].pid || j->ranks[i].ended)
            continue;
        name_rank(j, i, name);
        lose(j, i, EXIT_PEER, "%s was killed", name);
    }
}

/* Also reaps what has become a child of this process. */
static void look_at_mpirun(job *j)
{
    char why[64];
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == j->telling)
            j->telling = 0;
        if (pid != j->mpirun)
            continue;
        j->mpirun = 0;
        if (WIFSIGNALED(status) && !j->end_ms) { /* before the events: its ranks end with it */
            show_log(j);
            lose(j, -1, EXIT_PEER, "mpirun was killed by signal %d", WTERMSIG(status));
            /* its ranks are lost with it; where they had not begun, it would fail again */
            j->lost |= attempt_count(j).begun == j->n;
        }
        while (take_heard(j))
            ;
        tell_cut(j);
        if (j->end_ms || (attempt_count(j).ended == j->n && !j->stopped_ms))
            continue;
        if (WEXITSTATUS(status) == 0)
            lose_untold(j);
        if (j->end_ms)
            continue;
        snprintf(why, sizeof why, "mpirun ended with exit code %d", WEXITSTATUS(status));
        lose_mpirun(j, why);
    }
}

static void look_at_signals(job *j, const sigset_t *mask)
{
    int signal;
    while ((signal = children_next_signal(mask))) {
        bool again = j->end_ms != 0;
        lose(j, -1, 128 + signal, "the job was ended by signal %d", signal);
        j->lost = false;
        if (again)
            j->end_ms = clock_ms() - 1;
        else
            children_kill_ranks(j, signal);
    }
}

static void look_at_start(job *j, int64_t now)
{
    int have[2] = {0, 0};
    if (now - j->begin_ms < (int64_t)(j->o->deadline * 1000))
        return;
    for (int i = 0; i < j->n; i++)
        have[i >= j->o->workers] += j->ranks[i].pid != 0;
    if (have[0] + have[1] < j->n)
        lose(j, -1, EXIT_PEER, "expected %d workers + %d servers, have %d + %d after %lld s",
             j->o->workers, j->o->servers, have[0], have[1], (long long)(now - j->begin_ms) / 1000);
}

/* Ranks that joined end together. If others go on they may wait for one that never will join, and
 * those of other hosts do not know. */
static void look_at_early(job *j, int64_t now)
{
    if (j->is_local || j->end_ms || j->early_ms == 0 || now < j->early_ms + EARLY_MS)
        return;
    children_tell_hosts(j, "events", j->early, "exit 0");
    j->early_ms = 0;
}

static void look_at_hosts(job *j)
{
    char name[160], why[512];
    int number = j->end_ms ? -1 : loss_find(j);
    if (number < 0)
        return;
    if (loss_is_host(j, number)) {
        lose_host(j, number);
        return;
    }
    name_rank(j, number, name);
    loss_name_silent(j, number, name, why, sizeof why);
    lose(j, number, EXIT_PEER, "%s", why);
    j->ranks[number].ended = true; /* nobody will tell */
}

/* Ranks that wait for others end at once. One that computes, or runs a command of the shell, does
 * not hear of it, and gets less time than after a loss. */
static void look_at_timeout(job *j, int64_t now)
{
    if (j->o->timeout <= 0 || j->end_ms || now - j->first_ms <= (int64_t)(j->o->timeout * 1000))
        return;
    lose(j, -1, EXIT_PEER, "the job did not end within %lld s", (long long)j->o->timeout);
    int64_t end = now + mpirun_ms(j);
    j->end_ms = end < j->end_ms ? end : j->end_ms;
}

static void look_at_time(job *j)
{
    int64_t now = clock_ms();
    look_at_start(j, now);
    look_at_early(j, now);
    if (j->cut_ms && now > j->cut_ms + CUT_MS)
        tell_cut(j);
    look_at_hosts(j);
    if (j->stopped_ms && !j->end_ms && now > j->stopped_ms + mpirun_ms(j))
        lose_mpirun(j, "mpirun has ended the ranks, and stays");
    gone_look(j);
    if (j->alike && now > j->say_ms)
        say_why(j);
    look_at_timeout(j, now);
    if (!j->end_ms || now <= j->end_ms)
        return;
    if (!j->killed) /* once: a second SIGTERM makes mpirun leave the hosts as they are */
        children_kill_ranks(j, SIGKILL);
    j->killed = true;
    if (j->mpirun && now > j->end_ms + mpirun_ms(j))
        kill(j->mpirun, SIGKILL);
}

bool attempt_runs(const job *j)
{
    return j->mpirun && (attempt_count(j).ended < j->n || (j->stopped_ms && !j->end_ms));
}

void attempt_tick(job *j, const sigset_t *watched)
{
    struct pollfd fd = {.fd = j->heard, .events = POLLIN};
    poll(&fd, 1, TICK_MS);
    take_heard(j);
    output_look(&j->output, false);
    look_at_mpirun(j);
    look_at_watchers(j);
    look_at_signals(j, watched);
    look_at_time(j);
    door_look(j->door, j);
}

static int run(job *j, const launch_command *c, const signal_masks *m, kv_err *e)
{
    signal(SIGPIPE, SIG_IGN); /* the job goes on without a reader */
    j->begin_ms = clock_ms();
    TRY(children_start(j, c, &m->before, e));
    if (j->o->talk)
        j->o->talk(j->o->talker, j, m);
    while (attempt_runs(j))
        attempt_tick(j, &m->watched);
    if (j->alike)
        say_why(j);
    const struct timespec nap = {0, 5000000};
    int64_t begin = clock_ms();
    pid_t pid;
    /* After a loss mpirun waits for ranks of other hosts that did not leave, unless it is ended,
     * which takes it a second; here its watchers are all that it waits for. */
    if (j->mpirun && !j->killed)
        kill(j->mpirun, j->end_ms && !j->is_local ? SIGTERM : SIGUSR1);
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0) {
        int64_t waited = clock_ms() - begin;
        j->mpirun = pid > 0 && pid == j->mpirun ? 0 : j->mpirun;
        j->telling = pid > 0 && pid == j->telling ? 0 : j->telling; /* or its daemons would stay */
        if (waited > mpirun_ms(j) || (!j->mpirun && !j->telling && j->code))
            children_end();
        if (waited > 2 * mpirun_ms(j))
            break;
        take_heard(j);
        nanosleep(&nap, NULL);
    }
    return KV_OK;
}

/* The rounds that all workers have begun. */
static long long read_rounds(const job *j)
{
    long long least = -1;
    for (int i = 0; i < j->o->workers; i++) {
        long long n = j->ranks[i].gone ? -1 : j->ranks[i].rounds;
        least = n >= 0 && (least < 0 || n < least) ? n : least;
    }
    return least;
}

int attempt_run(job *j, const launch_command *c, const signal_masks *m, long long *rounds,
                kv_err *e)
{
    own_mem rank *ranks = mem_zalloc(j->n, sizeof *ranks, e);
    j->heard = -1;
    j->ranks = ranks;
    for (int i = 0; j->ranks && i < j->n; i++)
        j->ranks[i].rounds = -1;
    if (!j->ranks || output_begin(&j->output, j->o->workers, j->o->servers, e) ||
        make_folder(j, e)) {
        output_release(&j->output);
        return e->code;
    }
    int rc = run(j, c, m, e);
    output_release(&j->output);
    if (j->output.error && !rc && !j->code)
        rc = file_error(e, "write", "stdout", j->output.error);
    file_close_fd(&j->heard);
    gone_say(j);
    *rounds = read_rounds(j);
    for (int i = 0; i < j->o->workers; i++) /* a killed watcher could not */
        jobs_tidy_worker(j->folder, i);
    folder_remove(j->folder);
    close(j->held);
    buf_release(&j->bytes);
    buf_release(&j->log);
    return rc;
}
