/* One loop of ticks: it passes on what the watchers tell, and ends the job when a rank failed, a
 * signal came or the time is up. All processes of this host that lose their parent become children
 * of this one, so that it can end what is left. */
#include "tools/launch_job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "term/exit_code.h"
#include "tools/launch_folder.h"
#include "tools/launch_mpirun.h"
#include "tools/launch_output.h"
#include "tools/launch_wire.h"

enum {
    TICK_MS = 20,
    MPIRUN_MS = 2000,
    MPIRUN_HOSTS_MS = 5000 /* for mpirun to end */,
    EARLY_MS = 2000
};

typedef struct rank {
    pid_t pid, watcher; /* on their host; 0: has not started */
    char host[64];
    bool ended;
    long long rounds; /* begun, as told at its end; -1: not told */
    launch_output out[2];
} rank;

typedef struct job {
    const launch_options *o;
    const launch_hosts *hosts;
    bool is_local; /* all ranks are processes of this host */
    int n;
    rank *ranks;
    char folder[4096];
    int heard;                  /* the pipe from mpirun; -1: closed */
    buf bytes;                  /* of it, the part of a cell that has come */
    buf log;                    /* what mpirun itself said */
    pid_t mpirun;               /* 0: has ended */
    pid_t telling;              /* mpirun that tells the hosts of a loss; 0: none */
    int64_t round;              /* of the checkpoint from which it goes on */
    int early;                  /* the rank that ended first, and well; -1: none */
    int64_t early_ms;           /* when; 0: the hosts have been told */
    int64_t first_ms, begin_ms; /* when the first attempt began, and this one */
    int64_t end_ms;             /* when those that still run are killed; 0: nothing failed */
    int code;
    bool killed; /* those that still ran were */
    bool lost;   /* a rank was: the job may begin again */
} job;

/* The signals of launch, which are blocked and looked for, and those that were blocked before. */
typedef struct signal_masks {
    sigset_t watched, before;
} signal_masks;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int mpirun_ms(const job *j)
{
    return j->is_local ? MPIRUN_MS : MPIRUN_HOSTS_MS;
}

static const char *role(const job *j, int number)
{
    return number < j->o->workers ? "worker" : "server";
}

/* The rank, its role, and for jobs over several hosts where it runs. */
static void name_rank(const job *j, int number, char name[160])
{
    const rank *r = &j->ranks[number];
    snprintf(name, 160, "rank %d (%s)%s%s", number, role(j, number), j->is_local ? "" : " on ",
             j->is_local ? "" : r->host);
}

/* ---- Beginning ---- */

/* Over several hosts it has one name on all of them, which may lack the $TMPDIR of this one. */
static int make_folder(job *j, kv_err *e)
{
    const char *temp = getenv("TMPDIR");
    snprintf(j->folder, sizeof j->folder, "%s/kvctl-XXXXXX",
             j->is_local && temp && *temp ? temp : "/tmp");
    if (!mkdtemp(j->folder)) {
        char wanted[sizeof j->folder];
        memcpy(wanted, j->folder, sizeof wanted);
        j->folder[0] = '\0';
        return file_error(e, "make", wanted, errno);
    }
    return KV_OK;
}

static void begin_outputs(job *j)
{
    for (int i = 0; i < j->n * 2; i++) {
        int number = i / 2, server = number - j->o->workers;
        launch_output *out = &j->ranks[number].out[i % 2];
        out->to = i % 2 ? stderr : stdout;
        snprintf(out->prefix, sizeof out->prefix, server < 0 ? "[%d] " : "[s%d] ",
                 server < 0 ? number : server);
        j->ranks[number].rounds = -1;
    }
}

/* In the child. A group of its own: Ctrl-C is for launch, which passes it on. */
static void become_mpirun(const job *j, const launch_command *c, const launch_command *set,
                          int said, const sigset_t *mask)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (isatty(STDIN_FILENO) || j->mpirun > 0)
        dup2(nothing, STDIN_FILENO); /* a group in the background may not read a terminal */
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    for (int64_t i = 0; i < set->n; i++)
        putenv(set->words[i]);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(c->words[0], c->words);
    dprintf(STDERR_FILENO, "mpirun cannot be started: %s\n", strerror(errno));
    _exit(EXIT_UNSUPPORTED);
}

static int start_mpirun(job *j, const launch_command *c, const sigset_t *mask, kv_err *e)
{
    launch_command set = {0};
    int ends[2];
    mpirun_environment(&set, j->o, j->folder, j->round);
    if (launch_command_check(&set, e) || pipe2(ends, O_CLOEXEC)) {
        launch_command_release(&set);
        return e->code ? e->code : kv_err_set(e, KV_E_IO, "launch: no pipe: %s", strerror(errno));
    }
    fflush(stdout);
    j->begin_ms = now_ms();
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

/* ---- Ending ---- */

/* Those of this host at once, those of others through mpirun, whose daemons pass on SIGUSR2, and
 * SIGTERM by ending all watchers. */
static void kill_ranks(const job *j, int signal)
{
    if (j->mpirun && (signal == SIGKILL || !j->is_local))
        kill(j->mpirun, signal == SIGKILL ? SIGTERM : SIGUSR2);
    for (int i = 0; i < j->n && j->is_local; i++)
        if (j->ranks[i].pid && !j->ranks[i].ended)
            kill(j->ranks[i].pid, signal);
}

/* Tells the watchers and ranks of all hosts that a rank is lost, or has ended (why NULL), through a
 * second mpirun. Without memory or processes for that they find out by the silence of the rank. */
static void tell_hosts(job *j, int number, const char *why)
{
    launch_command c = {0}, set = {0};
    sigset_t none;
    kv_err e = {0};
    sigemptyset(&none);
    mpirun_environment(&set, j->o, j->folder, j->round);
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    mpirun_tell_command(&c, j->o, j->hosts, number, why, &e);
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

/* The job has failed: says so, once, and lets the others end by themselves. */
__attribute__((format(printf, 4, 5))) static void lose(job *j, int number, int code,
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
    folder_lose(j->folder, number, why);
    folder_lost(j->folder, &other, why, sizeof why); /* a rank may have said it first */
    j->code = other == number ? code : EXIT_PEER;
    j->lost = other >= 0 && j->code == EXIT_PEER;
    j->end_ms = now_ms() + (int64_t)(j->o->deadline * 1000);
    fflush(stdout);
    fprintf(stderr, "kvctl: %s\n", why);
    if (!j->is_local && j->mpirun)
        tell_hosts(j, other, why);
    else if (other >= 0 && other < j->n && j->ranks[other].pid && !j->ranks[other].ended)
        kill(j->ranks[other].pid, SIGKILL); /* silent, perhaps stopped */
}

/* ---- Ticks ---- */

static void take_event(job *j, rank *r, const char *line)
{
    int number, x, y;
    char what[16], name[160];
    int n = sscanf(line, "%d %15s %d %d %63s", &number, what, &x, &y, r->host);
    if (n < 3)
        return;
    if (n > 3) {
        r->pid = x;
        r->watcher = y;
        return;
    }
    name_rank(j, number, name);
    r->ended = true;
    if (strcmp(what, "signal") == 0)
        lose(j, number, EXIT_PEER, "%s was killed by signal %d", name, x);
    else if (x != 0)
        lose(j, number, x, "%s ended with exit code %d", name, x);
    else if (j->early < 0) {
        j->early = number;
        j->early_ms = now_ms();
    }
}

/* What a host knows of a lost rank, before launch. */
static void take_lost(job *j, const char *text)
{
    int number, used = 0;
    if (sscanf(text, "%d %n", &number, &used) == 1)
        lose(j, number, EXIT_PEER, "%s", text + used);
}

static void take_cell(job *j, const wire_cell *cell)
{
    char text[WIRE_TEXT + 1];
    if (cell->rank < 0 || cell->rank >= j->n)
        return;
    rank *r = &j->ranks[cell->rank];
    memcpy(text, cell->text, (size_t)cell->n);
    text[cell->n] = '\0';
    switch ((wire_kind)cell->kind) {
    case WIRE_OUT:
        launch_output_put(&r->out[0], cell->text, (size_t)cell->n);
        break;
    case WIRE_ERR:
        launch_output_put(&r->out[1], cell->text, (size_t)cell->n);
        break;
    case WIRE_EVENT:
        take_event(j, r, text);
        break;
    case WIRE_LOST:
        take_lost(j, text);
        break;
    case WIRE_ROUNDS:
        r->rounds = strtoll(text, NULL, 10);
        break;
    }
}

/* Returns whether something came. */
static bool take_heard(job *j)
{
    char block[65536];
    wire_cell cell;
    ssize_t n = j->heard < 0 ? -1 : read(j->heard, block, sizeof block);
    if (n > 0)
        buf_put(&j->bytes, block, (size_t)n);
    bool all = n == 0 || (n < 0 && errno != EAGAIN);
    while (wire_take(&j->bytes, &cell, &j->log, all))
        take_cell(j, &cell);
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
        lose(j, i, EXIT_PEER, "rank %d (%s) was killed", i, role(j, i));
    }
}

static void show_log(job *j)
{
    fwrite(buf_text(&j->log), 1, j->log.len, stderr);
    buf_clear(&j->log);
}

/* Also reaps what has become a child of this process. */
static void look_at_mpirun(job *j)
{
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
        }
        while (take_heard(j))
            ;
        bool all = true;
        for (int i = 0; i < j->n; i++)
            all &= j->ranks[i].ended;
        if (all || j->end_ms)
            continue;
        show_log(j);
        lose(j, -1, EXIT_PEER, "mpirun ended with exit code %d", WEXITSTATUS(status));
    }
}

static void look_at_signals(job *j, const sigset_t *mask)
{
    const struct timespec none = {0, 0};
    int signal;
    while ((signal = sigtimedwait(mask, NULL, &none)) > 0) {
        if (signal == SIGCHLD)
            continue;
        bool again = j->end_ms != 0;
        lose(j, -1, 128 + signal, "the job was ended by signal %d", signal);
        j->lost = false;
        if (again)
            j->end_ms = now_ms() - 1;
        else
            kill_ranks(j, signal);
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
    tell_hosts(j, j->early, NULL);
    j->early_ms = 0;
}

static void look_at_time(job *j)
{
    char why[512];
    int number;
    int64_t now = now_ms();
    look_at_start(j, now);
    look_at_early(j, now);
    if (!j->end_ms && folder_lost(j->folder, &number, why, sizeof why))
        lose(j, number, EXIT_PEER, "%s", why);
    if (j->o->timeout > 0 && now - j->first_ms > (int64_t)(j->o->timeout * 1000))
        lose(j, -1, EXIT_PEER, "the job did not end within %lld s", (long long)j->o->timeout);
    if (!j->end_ms || now <= j->end_ms)
        return;
    if (!j->killed) /* once: a second SIGTERM makes mpirun leave the hosts as they are */
        kill_ranks(j, SIGKILL);
    j->killed = true;
    if (j->mpirun && now > j->end_ms + mpirun_ms(j))
        kill(j->mpirun, SIGKILL);
}

static bool runs(const job *j)
{
    int ended = 0;
    for (int i = 0; i < j->n; i++)
        ended += j->ranks[i].ended;
    return j->mpirun && ended < j->n;
}

static void tick(job *j, const sigset_t *mask)
{
    struct pollfd fd = {.fd = j->heard, .events = POLLIN};
    poll(&fd, 1, TICK_MS);
    take_heard(j);
    look_at_mpirun(j);
    look_at_watchers(j);
    look_at_signals(j, mask);
    look_at_time(j);
}

/* ---- The whole ---- */

/* Ends all that is still a child, whatever it is. */
static void end_children(void)
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

/* All ranks have ended, or mpirun has: the watchers may end, and mpirun behind them. */
static void finish(job *j)
{
    const struct timespec nap = {0, 5000000};
    int64_t begin = now_ms();
    pid_t pid;
    if (j->mpirun && !j->killed) /* after a loss mpirun waits for the ranks that did not leave */
        kill(j->mpirun, j->end_ms ? SIGTERM : SIGUSR1);
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0) {
        int64_t waited = now_ms() - begin;
        j->mpirun = pid > 0 && pid == j->mpirun ? 0 : j->mpirun;
        if (waited > mpirun_ms(j) || (!j->mpirun && j->code))
            end_children();
        if (waited > 2 * mpirun_ms(j))
            break;
        take_heard(j);
        nanosleep(&nap, NULL);
    }
}

static void watch_signals(signal_masks *m)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    sigemptyset(&m->watched);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&m->watched, signals[i]);
    sigprocmask(SIG_BLOCK, &m->watched, &m->before);
}

static int run(job *j, const launch_command *c, const signal_masks *m, kv_err *e)
{
    signal(SIGPIPE, SIG_IGN); /* the job goes on without a reader */
    if (start_mpirun(j, c, &m->before, e))
        return e->code;
    while (runs(j))
        tick(j, &m->watched);
    finish(j);
    return KV_OK;
}

/* The rounds that all workers have begun. */
static long long read_rounds(const job *j)
{
    long long least = -1;
    for (int i = 0; i < j->o->workers; i++) {
        long long n = j->ranks[i].rounds;
        least = n >= 0 && (least < 0 || n < least) ? n : least;
    }
    return least;
}

/* One attempt. *rounds: how far it came. */
static int attempt(job *j, const launch_command *c, const signal_masks *m, long long *rounds,
                   kv_err *e)
{
    j->heard = -1;
    j->ranks = mem_zalloc(j->n, sizeof *j->ranks, e);
    if (!j->ranks || make_folder(j, e)) {
        mem_free(j->ranks);
        return e->code;
    }
    begin_outputs(j);
    int rc = run(j, c, m, e);
    for (int i = 0; i < j->n * 2; i++)
        launch_output_close(&j->ranks[i / 2].out[i % 2]);
    if (j->heard >= 0)
        close(j->heard);
    *rounds = read_rounds(j);
    folder_remove(j->folder);
    buf_release(&j->bytes);
    buf_release(&j->log);
    mem_free(j->ranks);
    return rc;
}

static void say_restart(const launch_options *o, int number, int64_t round, long long repeated)
{
    fprintf(stderr, "kvctl: restart %d of %d from ", number, o->restarts);
    if (round > 0)
        fprintf(stderr, "%s at round %lld", o->checkpoint, (long long)round);
    else
        fputs("the beginning", stderr);
    fprintf(stderr, ": %lld round%s repeated\n", repeated, repeated == 1 ? " is" : "s are");
}

static int run_attempts(const launch_options *o, const launch_hosts *h, const launch_command *c,
                        int *code, kv_err *e)
{
    signal_masks m;
    long long begun = 0;
    int64_t round = 0, first_ms = now_ms();
    int rc = o->checkpoint ? launch_round(o->checkpoint, &round, e) : KV_OK;
    if (!rc && round > 0)
        fprintf(stderr, "kvctl: the job goes on from %s, where %lld round%s done\n", o->checkpoint,
                (long long)round, round == 1 ? " is" : "s are");
    watch_signals(&m);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int again = 0; !rc; again++) {
        job j = {.o = o,
                 .hosts = h,
                 .is_local = o->by == LAUNCH_LOCAL,
                 .n = o->workers + o->servers,
                 .early = -1,
                 .round = round,
                 .first_ms = first_ms};
        rc = attempt(&j, c, &m, &begun, e);
        *code = j.code;
        if (rc || !j.lost || o->restarts == 0)
            break;
        if (again == o->restarts) {
            fprintf(stderr, "kvctl: the job was restarted %d time%s and is given up\n", again,
                    again == 1 ? "" : "s");
            break;
        }
        if ((rc = launch_round(o->checkpoint, &round, e)))
            break;
        say_restart(o, again + 1, round, begun > round ? begun - round : 0);
    }
    return rc;
}

static void print_command(const launch_options *o, const launch_hosts *h, const launch_command *c)
{
    launch_command set = {0};
    buf text = {0};
    for (int64_t i = 0; o->sync_folder && i < h->n && h->items[i].ranks > 0; i++) {
        launch_command sync = {0};
        hosts_sync_command(h, o, h->items[i].name, &sync);
        launch_command_text(&text, &sync);
        buf_char(&text, '\n');
        launch_command_release(&sync);
    }
    mpirun_environment(&set, o, NULL, 0);
    for (int64_t i = 0; i < set.n; i++) {
        size_t n = strcspn(set.words[i], "=") + 1; /* a quote may not stand before it */
        buf_put(&text, set.words[i], n);
        launch_quote(&text, set.words[i] + n);
        buf_char(&text, ' ');
    }
    launch_command_text(&text, c);
    puts(buf_text(&text));
    fflush(stdout);
    launch_command_release(&set);
    buf_release(&text);
}

int launch_job(const launch_options *o, int *code, kv_err *e)
{
    launch_command c = {0};
    launch_hosts h = {0};
    int rc = o->hostfile ? hosts_read(&h, o, e) : KV_OK;
    if (!rc && (rc = mpirun_command(&c, o, &h, e)) == KV_OK && o->dry_run)
        print_command(o, &h, &c);
    else if (!rc && (o->by != LAUNCH_SSH || (rc = hosts_prepare(&h, o, e)) == KV_OK))
        rc = run_attempts(o, &h, &c, code, e);
    launch_command_release(&c);
    hosts_release(&h);
    return rc;
}
