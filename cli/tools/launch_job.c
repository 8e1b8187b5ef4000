/* One loop of ticks: it passes on what the ranks write, reads what their watchers tell, and ends
 * the job when a rank failed, a signal came or the time is up. All processes that lose their parent
 * become children of this one, so that it can end what is left. */
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
#include "tools/launch_output.h"

enum { TICK_MS = 20, MPIRUN_MS = 2000 /* for mpirun to end behind its ranks */ };

typedef struct rank {
    pid_t pid, watcher; /* 0: has not started */
    bool ended;
    launch_output out[2];
} rank;

typedef struct job {
    const launch_options *o;
    int n;
    rank *ranks;
    char folder[4096];
    int events;   /* the file, open */
    buf heard;    /* the part of its last line that has come */
    pid_t mpirun; /* 0: has ended */
    int64_t first_ms, begin_ms; /* when the first attempt began, and this one */
    int64_t end_ms;             /* when those that still run are killed; 0: nothing failed */
    int code;
    bool lost; /* a rank was: the job may begin again */
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

static const char *role(const job *j, int number)
{
    return number < j->o->workers ? "worker" : "server";
}

static void path_of(const job *j, char path[4200], const char *name)
{
    snprintf(path, 4200, "%s/%s", j->folder, name);
}

/* ---- The command ---- */

typedef struct command_line {
    const char **words;
    char self[4096], all[16], workers[16];
} command_line;

static int make_command(command_line *c, const launch_options *o, kv_err *e)
{
    const char *const fixed[] = {
        "mpirun", "--oversubscribe", "--bind-to",   "none",    "--enable-recovery", "-n",
        c->all,   c->self,           "launch-rank", c->workers};
    int n = 0;
    ssize_t len = readlink("/proc/self/exe", c->self, sizeof c->self - 1);
    if (len < 0)
        return file_error(e, "read", "/proc/self/exe", errno);
    c->self[len] = '\0';
    snprintf(c->all, sizeof c->all, "%d", o->workers + o->servers);
    snprintf(c->workers, sizeof c->workers, "%d", o->workers);
    c->words = mem_zalloc(o->nwords + 12, sizeof *c->words, e);
    if (!c->words)
        return KV_E_MEMORY;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        c->words[n++] = fixed[i];
        if (i == 0 && geteuid() == 0)
            c->words[n++] = "--allow-run-as-root"; /* mpirun refuses root without it */
    }
    for (int i = 0; i < o->nwords; i++)
        c->words[n++] = o->words[i];
    return KV_OK;
}

/* A word as a shell reads it. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+.,=/:@";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    }
    putchar('\'');
}

static void print_command(const launch_options *o, const command_line *c)
{
    if (o->servers > 0)
        printf("KVSTORE_SERVERS=%d ", o->servers);
    if (o->checkpoint) {
        printf("KVSTORE_CHECKPOINT_EVERY=%d KVSTORE_CHECKPOINT=", o->every);
        print_word(o->checkpoint);
        putchar(' ');
    }
    for (int i = 0; c->words[i]; i++) {
        print_word(c->words[i]);
        putchar(c->words[i + 1] ? ' ' : '\n');
    }
    fflush(stdout);
}

/* ---- Beginning ---- */

static int make_folder(job *j, kv_err *e)
{
    char path[4200];
    const char *temp = getenv("TMPDIR");
    snprintf(j->folder, sizeof j->folder, "%s/kvctl-XXXXXX", temp && *temp ? temp : "/tmp");
    if (!mkdtemp(j->folder)) {
        char wanted[sizeof j->folder];
        memcpy(wanted, j->folder, sizeof wanted);
        j->folder[0] = '\0';
        return file_error(e, "make", wanted, errno);
    }
    path_of(j, path, "events");
    j->events = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    return j->events < 0 ? file_error(e, "make", path, errno) : KV_OK;
}

static int open_outputs(job *j, kv_err *e)
{
    char path[4200], name[32];
    int rc = KV_OK;
    for (int i = 0; i < j->n * 2 && !rc; i++) {
        int number = i / 2, server = number - j->o->workers;
        launch_output *out = &j->ranks[number].out[i % 2];
        out->to = i % 2 ? stderr : stdout;
        snprintf(out->prefix, sizeof out->prefix, server < 0 ? "[%d] " : "[s%d] ",
                 server < 0 ? number : server);
        snprintf(name, sizeof name, i % 2 ? "%d.err" : "%d.out", number);
        path_of(j, path, name);
        rc = launch_output_open(out, path, e);
    }
    return rc;
}

/* In the child. A group of its own: Ctrl-C is for launch, which passes it on. */
static void become_mpirun(const job *j, const command_line *c, const sigset_t *mask)
{
    char path[4200], text[32];
    path_of(j, path, "mpirun");
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (isatty(STDIN_FILENO))
        dup2(nothing, STDIN_FILENO); /* a group in the background may not read it */
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    setenv("KVSTORE_RUN_DIR", j->folder, 1);
    snprintf(text, sizeof text, "%lld.%03d", (long long)j->o->deadline,
             (int)((j->o->deadline - (double)(int64_t)j->o->deadline) * 1000));
    setenv("KVSTORE_DEADLINE", text, 1);
    snprintf(text, sizeof text, "%d", j->o->servers);
    setenv("KVSTORE_SERVERS", text, 1);
    if (j->o->checkpoint) {
        snprintf(text, sizeof text, "%d", j->o->every);
        setenv("KVSTORE_CHECKPOINT", j->o->checkpoint, 1);
        setenv("KVSTORE_CHECKPOINT_EVERY", text, 1);
    }
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp("mpirun", (char **)c->words); /* NOLINT: exec takes words that it does not change */
    dprintf(STDERR_FILENO, "mpirun cannot be started: %s\n", strerror(errno));
    _exit(EXIT_UNSUPPORTED);
}

/* ---- Ending ---- */

static void kill_ranks(const job *j, int signal)
{
    for (int i = 0; i < j->n; i++)
        if (j->ranks[i].pid && !j->ranks[i].ended)
            kill(j->ranks[i].pid, signal);
}

/* Reads what is known about the lost rank; others may have said it first. */
static void read_lost(const job *j, int *number, char *why, size_t size)
{
    char path[4200];
    int used = 0;
    path_of(j, path, "lost");
    FILE *f = fopen(path, "re");
    *number = -1;
    if (f && fgets(why, (int)size, f) && sscanf(why, "%d %n", number, &used) == 1) {
        memmove(why, why + used, strlen(why + used) + 1);
        why[strcspn(why, "\n")] = '\0';
    }
    if (f)
        fclose(f);
}

/* Writes the file `lost`, unless it is there; whole from the first moment. */
static void write_lost(const job *j, int number, const char *why)
{
    char path[4200], beside[4200];
    path_of(j, path, "lost");
    path_of(j, beside, "lost.launch");
    FILE *f = fopen(beside, "we");
    if (!f)
        return;
    fprintf(f, "%d %s\n", number, why);
    fclose(f);
    if (link(beside, path))
        unlink(beside);
}

/* The job has failed: says so, once, and lets the others end by themselves. */
__attribute__((format(printf, 4, 5))) static void lose(job *j, int number, int code,
                                                       const char *fmt, ...)
{
    char why[512];
    va_list args;
    int other;
    if (j->end_ms)
        return;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    write_lost(j, number, why);
    read_lost(j, &other, why, sizeof why);
    j->code = other == number ? code : EXIT_PEER;
    j->lost = other >= 0 && j->code == EXIT_PEER;
    j->end_ms = now_ms() + (int64_t)(j->o->deadline * 1000);
    fflush(stdout);
    fprintf(stderr, "kvctl: %s\n", why);
    if (other >= 0 && other < j->n && j->ranks[other].pid && !j->ranks[other].ended)
        kill(j->ranks[other].pid, SIGKILL); /* silent, perhaps stopped */
}

/* ---- Ticks ---- */

static void take_event(job *j, const char *line)
{
    int number, x, y;
    char what[16];
    int n = sscanf(line, "%d %15s %d %d", &number, what, &x, &y);
    if (n < 3 || number < 0 || number >= j->n)
        return;
    rank *r = &j->ranks[number];
    if (n == 4) {
        r->pid = x;
        r->watcher = y;
        return;
    }
    r->ended = true;
    if (strcmp(what, "signal") == 0)
        lose(j, number, EXIT_PEER, "rank %d (%s) was killed by signal %d", number, role(j, number),
             x);
    else if (x != 0)
        lose(j, number, x, "rank %d (%s) ended with exit code %d", number, role(j, number), x);
}

static void take_events(job *j)
{
    char block[4096];
    ssize_t n;
    while ((n = read(j->events, block, sizeof block)) > 0)
        buf_put(&j->heard, block, (size_t)n);
    char *at = j->heard.data, *end;
    while (at && (end = strchr(at, '\n'))) {
        *end = '\0';
        take_event(j, at);
        at = end + 1;
    }
    if (at && at > j->heard.data) {
        size_t rest = strlen(at);
        memmove(j->heard.data, at, rest + 1);
        j->heard.len = rest;
    }
}

/* A rank whose watcher is gone died with it. */
static void look_at_watchers(job *j)
{
    for (int i = 0; i < j->n; i++) {
        rank *r = &j->ranks[i];
        if (!r->pid || r->ended || kill(r->watcher, 0) == 0)
            continue;
        r->ended = true;
        lose(j, i, EXIT_PEER, "rank %d (%s) was killed", i, role(j, i));
    }
}

static void take_outputs(job *j)
{
    for (int i = 0; i < j->n * 2; i++)
        while (launch_output_take(&j->ranks[i / 2].out[i % 2], false))
            ;
}

static void show_log(const job *j)
{
    char path[4200], block[4096];
    size_t n;
    path_of(j, path, "mpirun");
    FILE *f = fopen(path, "re");
    while (f && (n = fread(block, 1, sizeof block, f)) > 0)
        fwrite(block, 1, n, stderr);
    if (f)
        fclose(f);
}

/* Also reaps what has become a child of this process. */
static void look_at_mpirun(job *j)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != j->mpirun)
            continue;
        j->mpirun = 0;
        if (WIFSIGNALED(status) && !j->end_ms) { /* before the events: its ranks end with it */
            show_log(j);
            lose(j, -1, EXIT_PEER, "mpirun was killed by signal %d", WTERMSIG(status));
        }
        take_events(j);
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
        kill_ranks(j, again ? SIGKILL : signal);
        if (again)
            j->end_ms = now_ms();
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

static void look_at_time(job *j)
{
    char path[4200];
    int64_t now = now_ms();
    look_at_start(j, now);
    path_of(j, path, "lost");
    if (!j->end_ms && access(path, F_OK) == 0)
        lose(j, -1, EXIT_PEER, "a rank is lost");
    if (j->o->timeout > 0 && now - j->first_ms > (int64_t)(j->o->timeout * 1000))
        lose(j, -1, EXIT_PEER, "the job did not end within %lld s", (long long)j->o->timeout);
    if (j->end_ms && now > j->end_ms) {
        kill_ranks(j, SIGKILL);
        if (j->mpirun)
            kill(j->mpirun, now > j->end_ms + MPIRUN_MS ? SIGKILL : SIGTERM);
    }
}

static bool runs(const job *j)
{
    int ended = 0;
    for (int i = 0; i < j->n; i++)
        ended += j->ranks[i].ended;
    return j->mpirun && ended < j->n;
}

static void tick(job *j, struct pollfd *fds, const sigset_t *mask)
{
    for (int i = 0; i < j->n * 2; i++)
        fds[i] = (struct pollfd){.fd = j->ranks[i / 2].out[i % 2].fd, .events = POLLIN};
    poll(fds, (nfds_t)j->n * 2, TICK_MS);
    for (int i = 0; i < j->n * 2; i++)
        if (fds[i].revents & POLLHUP && !(fds[i].revents & POLLIN))
            launch_output_close(&j->ranks[i / 2].out[i % 2]);
    take_outputs(j);
    look_at_mpirun(j);
    take_events(j);
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
    char path[4200];
    const struct timespec nap = {0, 5000000};
    int64_t begin = now_ms();
    path_of(j, path, "end");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        int64_t waited = now_ms() - begin;
        if (waited > MPIRUN_MS || (!j->mpirun && j->code))
            end_children();
        if (waited > 2 * MPIRUN_MS)
            break;
        take_outputs(j);
        nanosleep(&nap, NULL);
    }
}

static void remove_folder(const job *j)
{
    static const char *const names[] = {"events", "lost", "lost.launch", "end", "mpirun", "rounds"};
    char path[4200], name[32];
    if (!j->folder[0])
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(j, path, names[i]);
        unlink(path);
    }
    for (int i = 0; i < j->n * 2; i++) {
        snprintf(name, sizeof name, i % 2 ? "%d.err" : "%d.out", i / 2);
        path_of(j, path, name);
        unlink(path);
        snprintf(name, sizeof name, "lost.%d", i / 2);
        path_of(j, path, name);
        unlink(path);
    }
    rmdir(j->folder);
}

static void watch_signals(signal_masks *m)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    sigemptyset(&m->watched);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&m->watched, signals[i]);
    sigprocmask(SIG_BLOCK, &m->watched, &m->before);
}

static int run(job *j, const command_line *c, const signal_masks *m, kv_err *e)
{
    struct pollfd *fds = mem_zalloc(j->n * 2, sizeof *fds, e);
    if (!fds)
        return KV_E_MEMORY;
    fflush(stdout);
    j->begin_ms = now_ms();
    j->mpirun = fork();
    if (j->mpirun == 0)
        become_mpirun(j, c, &m->before);
    signal(SIGPIPE, SIG_IGN); /* the job goes on without a reader */
    int rc =
        j->mpirun < 0 ? kv_err_set(e, KV_E_UNSUPPORTED, "launch: no process can be started") : 0;
    while (!rc && runs(j))
        tick(j, fds, &m->watched);
    if (!rc)
        finish(j);
    mem_free(fds);
    return rc;
}

/* The rounds that all workers have begun. */
static long long read_rounds(const job *j)
{
    char path[4200], line[32];
    long long least = -1;
    path_of(j, path, "rounds");
    FILE *f = fopen(path, "re");
    for (int i = 0; i < j->o->workers && f && fgets(line, sizeof line, f); i++) {
        long long n = strtoll(line, NULL, 10);
        least = least < 0 || n < least ? n : least;
    }
    if (f)
        fclose(f);
    return least;
}

/* One attempt. *rounds: how far it came. */
static int attempt(job *j, const command_line *c, const signal_masks *m, long long *rounds,
                   kv_err *e)
{
    j->events = -1;
    j->ranks = mem_zalloc(j->n, sizeof *j->ranks, e);
    for (int i = 0; j->ranks && i < j->n * 2; i++)
        j->ranks[i / 2].out[i % 2].fd = -1;
    int rc = j->ranks ? make_folder(j, e) : KV_E_MEMORY;
    if (!rc && (rc = open_outputs(j, e)) == KV_OK)
        rc = run(j, c, m, e);
    for (int i = 0; j->ranks && i < j->n * 2; i++)
        launch_output_close(&j->ranks[i / 2].out[i % 2]);
    if (j->events >= 0)
        close(j->events);
    *rounds = read_rounds(j);
    remove_folder(j);
    buf_release(&j->heard);
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

static int run_attempts(const launch_options *o, const command_line *c, int *code, kv_err *e)
{
    signal_masks m;
    long long begun;
    int64_t round = 0, first_ms = now_ms();
    int rc = o->checkpoint ? launch_round(o->checkpoint, &round, e) : KV_OK;
    if (!rc && round > 0)
        fprintf(stderr, "kvctl: the job goes on from %s, where %lld round%s done\n", o->checkpoint,
                (long long)round, round == 1 ? " is" : "s are");
    watch_signals(&m);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int again = 0; !rc; again++) {
        job j = {.o = o, .n = o->workers + o->servers, .first_ms = first_ms};
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

int launch_job(const launch_options *o, int *code, kv_err *e)
{
    command_line c = {0};
    int rc = make_command(&c, o, e);
    if (!rc && o->dry_run)
        print_command(o, &c);
    else if (!rc)
        rc = run_attempts(o, &c, code, e);
    mem_free(c.words);
    return rc;
}
