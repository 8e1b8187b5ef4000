/* Processes are a table, and pids name its entries. One that is the product's code runs as a fiber
 * that knows its entry and sleeps there, so that signals and bytes can wake it.
 *
 * mpirun runs on the host of launch and has a daemon on each host. What goes from one to the other,
 * signals and bytes, takes the latency between hosts, and arrives later where a link is cut. mpirun
 * ends when all its watchers have. Draws are apart from those of the world: ranks to which nothing
 * happens do the same whatever launch does. */
#include "process.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls.h"
#include "check.h"
#include "launch/launch_folder.h"
#include "redirected.h"

int launch_rank(int argc, char **argv);
int launch_tell(int argc, char **argv);

enum { MOST_TOLD = 4 /* of a loss, of one that the others go on without, of an early end */ };

enum {
    LAUNCH,
    MPIRUN,
    TELLING, /* a second mpirun, and perhaps others */
    WATCHERS = TELLING + MOST_TOLD,
    RANKS = WATCHERS + MOST_RANKS,
    TELLERS = RANKS + MOST_RANKS, /* which these start, one a host */
    PROCESSES = TELLERS + MOST_TOLD * MOST_HOSTS
};
enum { LAUNCH_PID = 100, DAEMON_PID = 500 };
enum { FD_HEARD = 100000, FD_RANK, FD_SIGNALS, FD_OTHER }; /* no files */
enum { MOST_LOCKS = 4, LOCK_NS = 1000000, PIPE_NS = 30000, FOLDER = 4200, SECOND_NS = 1000000000 };

typedef struct process {
    pid_t pid, parent;
    int number, host; /* of the rank; of a launch-tell: of its mpirun */
    bool begun, ended, reaped;
    bool gone; /* with its host: nobody hears of it */
    int status;
    unsigned signals;                /* pending, a bit each */
    int locked[MOST_LOCKS], nlocked; /* files that a real process closes when it ends */
    fiber *fiber;
} process;

/* Bytes on their way to launch. */
typedef struct message {
    int64_t at_ns;
    struct message *next;
    size_t n;
    char bytes[sizeof(wire_cell)];
} message;

/* What mpirun and its daemons will do: deliver a signal, or one of these. */
enum { ORPHAN = -1, TELL = -2, MPIRUN_ENDS = -3, MPIRUN_NOTICES = -4, SSH_ENDS = -5 };
typedef struct order {
    int64_t at_ns;
    int what;
    process *to;
    struct order *next;
} order;

static struct {
    const job *j;
    void (*begin)(int rank, const char *run_dir);
    void (*all_begun)(void);
    process all[PROCESSES];
    char run_dir[MOST_HOSTS][FOLDER];
    int nbegun, ntold;
    struct told {
        int number;
        const char *file;
        char why[512];
    } told[MOST_TOLD];
    message *messages; /* by time */
    order *orders;     /* by time */
    int64_t in_ns[MOST_HOSTS], out_ns[MOST_HOSTS]; /* the last bytes, and orders: they keep order */
    int64_t polls_ns; /* until when launch does */
    bool aborts;      /* mpirun ends the ranks, and does not wait for a host that is gone */
    int code;         /* of mpirun */
    uint64_t random;
    bool forgets;
} sim;

/* The process of this fiber. */
static _Thread_local process *me;

/* ---- Draws and times ---- */

/* splitmix64, as in world.c. */
static int64_t draw(int64_t n)
{
    uint64_t z = sim.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ z >> 31) % (uint64_t)n);
}

/* When that arrives which is sent now between launch and a host, behind what was sent before. */
static int64_t arrival(int host, int64_t *last_ns)
{
    int64_t latency_ns = host ? sim.j->far.latency_ns : PIPE_NS;
    int64_t at = world_now() + draw(2 * latency_ns), cut = sim_link_cut_until(0, host);
    at = at > cut ? at : cut;
    at = at > *last_ns ? at : *last_ns;
    return *last_ns = at;
}

static void give(int what, process *to, int64_t at_ns)
{
    order *o = calloc(1, sizeof *o), **at = &sim.orders;
    *o = (order){.at_ns = at_ns, .what = what, .to = to};
    while (*at && (*at)->at_ns <= at_ns)
        at = &(*at)->next;
    o->next = *at;
    *at = o;
    world_wake_at(NULL, &sim.orders, world_now());
}

/* ---- Ends ---- */

static process *watcher(int rank)
{
    return &sim.all[WATCHERS + rank];
}

static bool runs(const process *p)
{
    return p->begun && !p->ended && !p->gone;
}

static void wake(const process *p)
{
    world_wake_at(NULL, p, world_now());
}

static void forward(int signal)
{
    for (int i = 0; i < sim.j->workers + sim.j->servers; i++) {
        process *w = watcher(i);
        if (!runs(w))
            continue;
        int64_t at = arrival(w->host, &sim.out_ns[w->host]);
        give(signal, w, at);
        if (signal == SIGTERM) /* as Open MPI does behind it */
            give(SIGKILL, w, at + SECOND_NS);
    }
}

/* mpirun ends when nothing is left that it waits for; well also when a watcher was killed, which
 * Open MPI does with --enable-recovery. */
static void look_at_watchers(void)
{
    int64_t at = world_now();
    if (!runs(&sim.all[MPIRUN]))
        return;
    for (int i = 0; i < sim.j->workers + sim.j->servers; i++)
        if (!watcher(i)->ended && !(watcher(i)->gone && sim.aborts))
            return;
    for (int h = 0; h < sim.j->hosts; h++) /* what they told first */
        at = sim.in_ns[h] > at ? sim.in_ns[h] : at;
    give(MPIRUN_ENDS, &sim.all[MPIRUN], at + PIPE_NS);
}

static void look_at_tellers(int telling)
{
    for (int h = 0; h < sim.j->hosts; h++)
        if (!sim.all[TELLERS + telling * MOST_HOSTS + h].ended)
            return;
    give(MPIRUN_ENDS, &sim.all[TELLING + telling], world_now());
}

/* Its daemons end with it, and the watchers lose their parents. */
static void orphan_watchers(void)
{
    message **at = &sim.messages;
    while (*at && (*at)->at_ns <= world_now())
        at = &(*at)->next;
    *at = NULL; /* what it did not pass on */
    for (int i = 0; i < sim.j->workers + sim.j->servers; i++) {
        process *w = watcher(i);
        if (w->host == 0)
            w->parent = LAUNCH_PID; /* PR_SET_CHILD_SUBREAPER */
        else if (runs(w))
            give(ORPHAN, w, arrival(w->host, &sim.out_ns[w->host]));
    }
}

static void end(process *p, int status)
{
    int i = (int)(p - sim.all);
    if (p->ended)
        return;
    p->ended = true;
    p->status = status;
    while (p->nlocked > 0)
        close(p->locked[--p->nlocked]);
    if (i >= TELLERS) {
        look_at_tellers(p->number);
    } else if (i >= RANKS) {
        sim_link_gone(p->number);
        watcher(p->number)->signals |= 1u << SIGCHLD;
        wake(watcher(p->number));
    } else if (i >= WATCHERS) {
        look_at_watchers();
    } else if (i == MPIRUN) {
        orphan_watchers();
    }
}

static void kill_rank(process *p, int signal, ending how)
{
    if (!runs(p))
        return;
    world_kill(&world_ranks[p->number]);
    check_ended(p->number, how, NULL);
    end(p, signal);
}

static void kill_watcher(process *p)
{
    world_end(p->fiber);
    kill_rank(&sim.all[RANKS + p->number], SIGKILL, STOPPED); /* PR_SET_PDEATHSIG */
    end(p, SIGKILL);
}

/* ---- Beginnings ---- */

static bool is_late(int rank)
{
    return sim.j->what == MISHAP_START && sim.j->who == rank && check_strikes();
}

static void *run_watcher(void *arg)
{
    char *words[] = {"kvctl", "launch-rank", "train.kv", NULL};
    const job *j = sim.j;
    me = arg;
    if (is_late(me->number))
        world_block(me, j->how_long_ns);
    if (me->signals)
        check_ended(me->number, STOPPED, NULL); /* before it has begun */
    end(me, me->signals ? 0 : launch_rank(1, words + 2) << 8);
    return NULL;
}

static void *run_teller(void *arg)
{
    me = arg;
    const struct told *t = &sim.told[me->number];
    char file[16], number[16], why[512], *words[] = {file, number, why, NULL};
    snprintf(file, sizeof file, "%s", t->file);
    snprintf(number, sizeof number, "%d", t->number);
    snprintf(why, sizeof why, "%s", t->why);
    launch_tell(3, words);
    end(me, 0);
    return NULL;
}

static void obey(const order *o)
{
    process *p = o->to;
    if (!runs(p) && o->what != TELL)
        return;
    switch (o->what) {
    case ORPHAN:
        p->parent = 1;
        break;
    case TELL:
        p->begun = true;
        if (!p->gone)
            p->fiber = world_begin_now(run_teller, p);
        break;
    case MPIRUN_ENDS:
        end(p, sim.code << 8);
        wake(&sim.all[LAUNCH]);
        break;
    case MPIRUN_NOTICES:
        sim.aborts = true;
        sim.code = 1;
        forward(SIGTERM);
        look_at_watchers();
        break;
    case SSH_ENDS:
        wire_tell(0, WIRE_SSH, "255", 3);
        break;
    case SIGKILL:
        kill_watcher(p);
        break;
    default:
        p->signals |= 1u << o->what;
        wake(p);
    }
}

static void *run_daemons(void *unused)
{
    (void)unused;
    me = &sim.all[MPIRUN];
    for (;;) {
        order *o = sim.orders;
        world_block(&sim.orders, o ? o->at_ns : WORLD_FOREVER);
        while ((o = sim.orders) && o->at_ns <= world_now()) {
            sim.orders = o->next;
            obey(o);
            free(o);
        }
    }
    return NULL;
}

/* All that do not come late have. */
static void look_at_begun(void)
{
    const job *j = sim.j;
    int late = 0;
    for (int i = 0; i < j->workers + j->servers; i++)
        late += is_late(i);
    if (sim.nbegun != j->workers + j->servers - late)
        return;
    world_begin(NULL, run_daemons, NULL);
    sim.all_begun();
}

static pid_t begin_mpirun(void)
{
    const job *j = sim.j;
    sim.all[MPIRUN].begun = true;
    look_at_begun(); /* of one alone, which is late */
    for (int i = 0; i < j->workers + j->servers; i++) {
        watcher(i)->begun = true;
        watcher(i)->fiber = world_begin_now(run_watcher, watcher(i));
    }
    return sim.all[MPIRUN].pid;
}

static pid_t begin_telling(void)
{
    int n = sim.ntold++;
    sim.all[TELLING + n].begun = true;
    for (int h = 0; h < sim.j->hosts; h++)
        give(TELL, &sim.all[TELLERS + n * MOST_HOSTS + h], arrival(h, &sim.out_ns[h]));
    return sim.all[TELLING + n].pid;
}

static pid_t begin_rank(process *p)
{
    p->begun = true;
    sim.begin(p->number, sim.run_dir[p->host]);
    if (!is_late(p->number)) {
        sim.nbegun++;
        look_at_begun();
    }
    return p->pid;
}

pid_t sim_fork(void)
{
    if (me != &sim.all[LAUNCH])
        return begin_rank(&sim.all[RANKS + me->number]);
    return sim.all[MPIRUN].begun ? begin_telling() : begin_mpirun();
}

int sim_mpirun_command(launch_command *c, const launch_options *o, const launch_hosts *h, kv_err *e)
{
    (void)o;
    (void)h;
    launch_add(c, "mpirun");
    return launch_command_check(c, e);
}

int sim_mpirun_tell_command(launch_command *c, const launch_options *o, const launch_hosts *h,
                            const char *file, int number, const char *why, kv_err *e)
{
    struct told *t = &sim.told[sim.ntold];
    t->file = file;
    t->number = number;
    snprintf(t->why, sizeof t->why, "%s", why);
    return sim_mpirun_command(c, o, h, e);
}

void sim_mpirun_environment(launch_command *set, const launch_options *o, const char *folder,
                            int64_t round)
{
    mpirun_environment(set, o, folder, round);
    for (int64_t i = 0; i < set->n; i++) {
        char name[64], *value = strchr(set->words[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)(value - set->words[i]), set->words[i]);
        setenv(name, value + 1, 1);
    }
}

/* ---- Signals, and waiting ---- */

static process *find(pid_t pid)
{
    for (int i = 0; i < PROCESSES; i++)
        if (sim.all[i].begun && sim.all[i].pid == pid)
            return &sim.all[i];
    return NULL;
}

static void kill_mpirun(process *p, int signal)
{
    if (signal == SIGKILL) {
        end(p, SIGKILL);
        return;
    }
    forward(signal);
    if (signal != SIGTERM || draw(2))
        return;
    sim.aborts = true; /* it gives a host up that does not answer; or it stays */
    give(MPIRUN_ENDS, p, world_now() + 3 * (int64_t)SECOND_NS);
}

int sim_kill(pid_t pid, int signal)
{
    process *p = find(pid);
    int i = p ? (int)(p - sim.all) : 0;
    if (p && p->host != me->host)
        check_bad("signal %d for process %d of another host", signal, (int)pid);
    if (!p || !runs(p)) {
        errno = ESRCH;
        return -1;
    }
    if (signal == 0)
        return 0;
    if (i == MPIRUN)
        kill_mpirun(p, signal);
    else if (i >= RANKS)
        kill_rank(p, signal, STOPPED);
    else if (i >= WATCHERS && signal == SIGKILL)
        kill_watcher(p);
    else
        end(p, signal);
    return 0;
}

pid_t sim_waitpid(pid_t pid, int *status, int flags)
{
    bool any = false;
    (void)flags;
    for (int i = 0; i < PROCESSES; i++) {
        process *p = &sim.all[i];
        if (!p->begun || p->reaped || p->parent != me->pid || (pid > 0 && p->pid != pid))
            continue;
        any = true;
        if (!p->ended)
            continue;
        p->reaped = true;
        if (status)
            *status = sim.forgets && WIFEXITED(p->status) ? 0 : p->status;
        return p->pid;
    }
    errno = ECHILD;
    return any ? 0 : -1;
}

int sim_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *time)
{
    (void)set;
    (void)info;
    (void)time;
    for (int i = 1; i < 32; i++)
        if (me->signals & 1u << i) {
            me->signals &= ~(1u << i);
            return i;
        }
    errno = EAGAIN;
    return -1;
}

int sim_signalfd(int fd, const sigset_t *mask, int flags)
{
    (void)fd;
    (void)mask;
    (void)flags;
    return FD_SIGNALS;
}

int sim_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    (void)how;
    (void)set;
    (void)old;
    return 0;
}

void (*sim_signal(int number, void (*run)(int)))(int)
{
    (void)number;
    return run;
}

int sim_prctl(int what, ...)
{
    (void)what;
    return 0;
}

pid_t sim_getpid(void)
{
    return me ? me->pid : LAUNCH_PID;
}

pid_t sim_getppid(void)
{
    return me->parent;
}

/* ---- Pipes and files ---- */

int sim_pipe2(int ends[2], int flags)
{
    (void)flags;
    ends[0] = me == &sim.all[LAUNCH] ? FD_HEARD : FD_RANK;
    ends[1] = FD_OTHER;
    return 0;
}

int sim_fcntl(int fd, int cmd, ...)
{
    (void)fd;
    (void)cmd;
    return 0;
}

int sim_poll(struct pollfd *fds, nfds_t n, int ms)
{
    int64_t until = world_now() + ms * INT64_C(1000000);
    (void)fds;
    (void)n;
    if (me == &sim.all[LAUNCH]) {
        bool closed = sim.all[MPIRUN].ended && fds->fd >= 0;
        if (closed || (sim.messages && sim.messages->at_ns < until))
            until = sim.messages ? sim.messages->at_ns : world_now();
        sim.polls_ns = until;
    }
    if (!me->signals)
        world_block(me, until);
    return 1;
}

static ssize_t read_messages(char *to, size_t n)
{
    size_t used = 0;
    for (message *m; (m = sim.messages) && m->at_ns <= world_now() && used + m->n <= n; free(m)) {
        sim.messages = m->next;
        memcpy(to + used, m->bytes, m->n);
        used += m->n;
    }
    errno = EAGAIN;
    return used > 0 ? (ssize_t)used : sim.all[MPIRUN].ended ? 0 : -1;
}

static ssize_t read_signal(struct signalfd_siginfo *to)
{
    int signal = sim_sigtimedwait(NULL, NULL, NULL);
    *to = (struct signalfd_siginfo){.ssi_signo = (uint32_t)signal};
    return signal < 0 ? -1 : (ssize_t)sizeof *to;
}

ssize_t sim_read(int fd, void *to, size_t n)
{
    if (fd == FD_HEARD)
        return read_messages(to, n);
    if (fd == FD_SIGNALS)
        return read_signal(to);
    errno = EAGAIN;
    return sim.all[RANKS + me->number].ended ? 0 : -1; /* ranks write nothing */
}

ssize_t sim_write(int fd, const void *from, size_t n)
{
    if (fd != STDERR_FILENO)
        return write(fd, from, n);
    message *m = calloc(1, sizeof *m), **at = &sim.messages;
    if (!runs(&sim.all[MPIRUN]) || n > sizeof m->bytes) {
        free(m);
        errno = EPIPE;
        return -1;
    }
    m->at_ns = arrival(me->host, &sim.in_ns[me->host]);
    m->n = n;
    memcpy(m->bytes, from, n);
    while (*at && (*at)->at_ns <= m->at_ns)
        at = &(*at)->next;
    m->next = *at;
    *at = m;
    if (m->at_ns < sim.polls_ns)
        world_wake_at(NULL, &sim.all[LAUNCH], m->at_ns);
    return (ssize_t)n;
}

int sim_close(int fd)
{
    if (fd >= FD_HEARD)
        return 0;
    for (int i = 0; i < me->nlocked; i++)
        if (me->locked[i] == fd)
            me->locked[i] = me->locked[--me->nlocked];
    return close(fd);
}

int sim_flock(int fd, int how)
{
    while (flock(fd, how | LOCK_NB)) {
        if (errno != EWOULDBLOCK || how & LOCK_NB)
            return -1;
        world_block(NULL, world_now() + LOCK_NS);
    }
    if (me->nlocked < MOST_LOCKS)
        me->locked[me->nlocked++] = fd;
    return 0;
}

FILE *sim_fopen(const char *path, const char *mode)
{
    static char list[16 * PROCESSES];
    if (strncmp(path, "/proc/self/task/", 16) != 0)
        return fopen(path, mode);
    snprintf(list, sizeof list, " ");
    for (int i = 0, at = 0; i < PROCESSES; i++)
        if (runs(&sim.all[i]) && sim.all[i].parent == me->pid)
            at += snprintf(list + at, sizeof list - (size_t)at, "%d ", (int)sim.all[i].pid);
    return fmemopen(list, strlen(list), mode);
}

char *sim_mkdtemp(char *path)
{
    snprintf(path, FOLDER, "%s", sim.run_dir[0]);
    return mkdir(path, 0700) ? NULL : path;
}

char *sim_getenv(const char *name)
{
    static char number[16], size[16];
    if (!me || me == &sim.all[LAUNCH])
        return getenv(name);
    if (strcmp(name, "KVSTORE_RUN_DIR") == 0)
        return sim.run_dir[me->host];
    snprintf(number, sizeof number, "%d", me->number);
    snprintf(size, sizeof size, "%d", sim.j->workers + sim.j->servers);
    return strcmp(name, "OMPI_COMM_WORLD_RANK") == 0   ? number
           : strcmp(name, "OMPI_COMM_WORLD_SIZE") == 0 ? size
                                                       : getenv(name);
}

int sim_gethostname(char *name, size_t size)
{
    snprintf(name, size, "n%d", me->host);
    return 0;
}

/* ---- The job ---- */

void process_open(const job *j, int attempt, const char *folder,
                  void (*begin)(int rank, const char *run_dir), void (*all_begun)(void))
{
    sim.j = j;
    sim.begin = begin;
    sim.all_begun = all_begun;
    sim.random = j->seed * MOST_ATTEMPTS + (uint64_t)attempt;
    for (int h = 0; h < j->hosts; h++) {
        snprintf(sim.run_dir[h], FOLDER, "%s/n%d", folder, h);
        mkdir(sim.run_dir[h], 0700);
        snprintf(sim.run_dir[h], FOLDER, "%s/n%d/kvctl-%06d", folder, h, attempt);
    }
    for (int i = 0; i < WATCHERS; i++)
        sim.all[i] = (process){.pid = LAUNCH_PID + i, .parent = i ? LAUNCH_PID : 1};
    for (int i = 0; i < MOST_RANKS; i++) {
        int host = i % j->hosts;
        pid_t parent = host ? DAEMON_PID + host : sim.all[MPIRUN].pid, pid = LAUNCH_PID * 2 + i;
        *watcher(i) = (process){.pid = pid, .parent = parent, .number = i, .host = host};
        sim.all[RANKS + i] = (process){calls_pid(i), pid, .number = i, .host = host};
    }
    for (int i = 0; i < 2 * MOST_HOSTS; i++)
        sim.all[TELLERS + i] = (process){.pid = LAUNCH_PID * 3 + i,
                                         .parent = DAEMON_PID,
                                         .number = i / MOST_HOSTS,
                                         .host = i % MOST_HOSTS};
    sim.all[LAUNCH].begun = true;
}

void process_is_launch(void)
{
    me = &sim.all[LAUNCH];
}

void process_exit(int rank, int code)
{
    end(&sim.all[RANKS + rank], code << 8);
}

void process_kill_rank(int rank)
{
    kill_rank(&sim.all[RANKS + rank], SIGKILL, KILLED);
}

void process_kill_watcher(int rank)
{
    kill_rank(&sim.all[RANKS + rank], SIGKILL, KILLED);
    if (runs(watcher(rank)))
        kill_watcher(watcher(rank));
}

void process_kill_mpirun(void)
{
    if (runs(&sim.all[MPIRUN]))
        end(&sim.all[MPIRUN], SIGKILL);
    wake(&sim.all[LAUNCH]);
}

/* Its daemon is gone: mpirun may notice, an ssh that it started may, or nobody. */
void process_lose_host(int host)
{
    for (int i = WATCHERS; i < PROCESSES; i++) {
        process *p = &sim.all[i];
        if (p->host != host)
            continue;
        if (i >= RANKS && i < TELLERS && runs(p)) {
            world_kill(&world_ranks[p->number]);
            check_ended(p->number, KILLED, NULL);
        } else if (runs(p) && p->fiber) {
            world_end(p->fiber);
        }
        p->gone = true;
    }
    if (draw(3) == 0)
        give(SSH_ENDS, &sim.all[MPIRUN], world_now() + draw(SECOND_NS));
    if (draw(3) == 0)
        give(MPIRUN_NOTICES, &sim.all[MPIRUN], world_now() + draw(10 * (int64_t)SECOND_NS));
}

void process_signal_launch(int signal)
{
    sim.all[LAUNCH].signals |= 1u << signal;
    wake(&sim.all[LAUNCH]);
}

bool process_reaches(int rank)
{
    return sim_link_cut_until(0, sim.all[RANKS + rank].host) <= world_now();
}

const char *process_left(int *pid)
{
    for (int i = MPIRUN; i < PROCESSES; i++) {
        const process *p = &sim.all[i];
        bool remote = p->host && sim_link_cut_until(0, p->host) > world_now();
        if (!runs(p) || remote)
            continue;
        *pid = (int)p->pid;
        return i >= TELLERS    ? "launch-tell"
               : i >= RANKS    ? "rank"
               : i >= WATCHERS ? "watcher"
                               : "mpirun";
    }
    return NULL;
}

void process_forget_codes(void)
{
    sim.forgets = true;
}
