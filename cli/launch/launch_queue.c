/* launch waits for the client of the queue, which waits for the job: it passes on what the job
 * writes, signals and the exit code, and gives up when the queue does not start it in time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "launch/launch_clock.h"
#include "base/mem.h"
#include "term/exit_code.h"
#include "launch/launch_folder.h"
#include "launch/launch_job.h"
#include "launch/launch_submit.h"

enum { TICK_MS = 50, CLIENT_MS = 15000 /* for a client to take its job back */ };

typedef struct queue {
    const launch_options *o;
    launch_command command;
    buf file; /* of the job */
    char folder[4096];
    pid_t client; /* 0: has ended */
    int status;   /* then: how */
    int said_fd;  /* what the client says; -1: goes to stdout and stderr, or has ended */
    buf said;
    int tails[2]; /* sge: the files `out` and `err`, as far as they were passed on; -1: none */
    bool started;
    int ended_by;             /* the signal that launch got; 0: none */
    bool late;                /* the queue did not start it in time */
    int64_t begin_ms, end_ms; /* end_ms: when the client is killed; 0: nothing failed */
    sigset_t watched, before;
} queue;

/* ---- Beginning ---- */

/* sge: where the hosts see it too, in the folder that the job runs in. */
static int make_folder(queue *q, kv_err *e)
{
    const char *temp = getenv("TMPDIR");
    if (q->o->by == LAUNCH_SGE)
        snprintf(q->folder, sizeof q->folder, "kvctl-XXXXXX");
    else
        snprintf(q->folder, sizeof q->folder, "%s/kvctl-XXXXXX", temp && *temp ? temp : "/tmp");
    if (mkdtemp(q->folder))
        return KV_OK;
    q->folder[0] = '\0';
    return file_error(e, "make", "a folder for the job", errno);
}

static int write_file(const queue *q, kv_err *e)
{
    char path[FOLDER_PATH];
    folder_path(q->folder, path, "job");
    FILE *f = fopen(path, "we");
    if (!f)
        return file_error(e, "write", path, errno);
    bool bad = fwrite(q->file.data, 1, q->file.len, f) < q->file.len;
    if (fclose(f) || bad)
        return file_error(e, "write", path, errno);
    return KV_OK;
}

/* In the child. A group of its own: Ctrl-C is for launch, which passes it on. */
static void become_client(const queue *q, char **words, int said)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (isatty(STDIN_FILENO) || q->client > 0)
        dup2(nothing, STDIN_FILENO);
    if (said >= 0) {
        dup2(said, STDOUT_FILENO);
        dup2(said, STDERR_FILENO);
    }
    sigprocmask(SIG_SETMASK, &q->before, NULL);
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "%s cannot be started: %s\n", words[0], strerror(errno));
    _exit(EXIT_UNSUPPORTED);
}

/* salloc runs the job here, with this stdout and stderr; the others only say what becomes of it. */
static int start(queue *q, kv_err *e)
{
    int ends[2] = {-1, -1};
    if (q->o->by != LAUNCH_SLURM && pipe2(ends, O_CLOEXEC))
        return kv_err_set(e, KV_E_IO, "launch: no pipe: %s", strerror(errno));
    fflush(stdout);
    q->begin_ms = launch_now_ms();
    pid_t pid = fork();
    if (pid == 0)
        become_client(q, q->command.words, ends[1]);
    if (ends[1] >= 0)
        close(ends[1]);
    q->said_fd = ends[0];
    q->client = pid > 0 ? pid : 0;
    return pid < 0 ? kv_err_set(e, KV_E_UNSUPPORTED, "launch: no process can be started") : KV_OK;
}

/* ---- Ending ---- */

/* The number of the application, as yarn says it: "application_1400_0017"; "" before. */
static void find_application(const queue *q, char id[64])
{
    static const char begin[] = "application_";
    const char *at = strstr(buf_text(&q->said), begin);
    size_t n = at ? strlen(begin) + strspn(at + strlen(begin), "0123456789_") : 0;
    snprintf(id, 64, "%.*s", (int)(n < 63 ? n : 63), at ? at : "");
}

static void run_yarn(const queue *q, const char *word, const char *option, const char *id, int out)
{
    char name[] = "yarn";
    char *words[] = {name, (char *)word, (char *)option, (char *)id, NULL}; /* NOLINT: for exec */
    pid_t pid = fork();
    if (pid == 0)
        become_client(q, words, out);
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* Takes the job back: qsub does on SIGINT; salloc ends its job when it and what it runs get the
 * signal; yarn must be asked. */
static void take_back(queue *q, int signal)
{
    char id[64];
    if (!q->end_ms && q->o->by == LAUNCH_YARN) {
        find_application(q, id);
        int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (id[0])
            run_yarn(q, "application", "-kill", id, nothing);
        close(nothing);
    }
    if (q->end_ms)
        q->end_ms = launch_now_ms();
    else
        q->end_ms = launch_now_ms() + CLIENT_MS;
    if (q->client)
        kill(-q->client, q->o->by == LAUNCH_SGE ? SIGINT : signal);
}

/* ---- Ticks ---- */

static void pass_on(queue *q)
{
    static const char *const names[] = {"out", "err"};
    char path[FOLDER_PATH], block[65536];
    ssize_t n;
    for (int i = 0; i < 2 && q->o->by == LAUNCH_SGE; i++) {
        folder_path(q->folder, path, names[i]);
        if (q->tails[i] < 0)
            q->tails[i] = open(path, O_RDONLY | O_CLOEXEC);
        while (q->tails[i] >= 0 && (n = read(q->tails[i], block, sizeof block)) > 0)
            fwrite(block, 1, (size_t)n, i ? stderr : stdout);
        fflush(stdout);
    }
}

/* Returns whether something came. */
static bool listen_to(queue *q)
{
    char block[4096];
    struct pollfd fd = {.fd = q->said_fd, .events = POLLIN};
    if (poll(&fd, 1, TICK_MS) <= 0)
        return false;
    ssize_t n = read(q->said_fd, block, sizeof block);
    if (n > 0) {
        buf_put(&q->said, block, (size_t)n);
        return true;
    }
    close(q->said_fd);
    q->said_fd = -1;
    return false;
}

static void look_at_start(queue *q)
{
    char path[FOLDER_PATH];
    folder_path(q->folder, path, "started");
    q->started = q->started || access(path, F_OK) == 0 ||
                 (q->o->by == LAUNCH_YARN && (strstr(buf_text(&q->said), "yarnAppState=RUNNING") ||
                                              strstr(buf_text(&q->said), "yarnAppState=FINISHED")));
    if (q->started || q->end_ms || q->o->queue_timeout <= 0 ||
        launch_now_ms() - q->begin_ms < (int64_t)(q->o->queue_timeout * 1000))
        return;
    q->late = true;
    take_back(q, SIGINT);
}

static void look_at_signals(queue *q)
{
    const struct timespec none = {0, 0};
    int signal;
    while ((signal = sigtimedwait(&q->watched, NULL, &none)) > 0) {
        if (signal == SIGCHLD)
            continue;
        q->ended_by = signal;
        take_back(q, signal);
    }
}

static void tick(queue *q)
{
    listen_to(q);
    pass_on(q);
    look_at_start(q);
    look_at_signals(q);
    if (waitpid(q->client, &q->status, WNOHANG) == q->client)
        q->client = 0;
    if (q->client && q->end_ms && launch_now_ms() > q->end_ms)
        kill(-q->client, SIGKILL);
}

/* ---- The whole ---- */

/* The logs of yarn: what the job wrote, and its exit code, which the client does not know. They are
 * gathered some time after its end. */
static int show_logs(queue *q)
{
    char id[64];
    int code = -1;
    int64_t end = launch_now_ms() + (int64_t)(q->o->deadline * 1000);
    const struct timespec nap = {0, 500000000};
    find_application(q, id);
    while (id[0] && code < 0) {
        char path[FOLDER_PATH], *text;
        kv_err e = {0};
        size_t n;
        folder_path(q->folder, path, "log");
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        run_yarn(q, "logs", "-applicationId", id, fd);
        close(fd);
        if (file_read(path, &text, &n, &e))
            break;
        const char *at = strstr(text, SUBMIT_EXIT);
        code = at ? atoi(at + strlen(SUBMIT_EXIT)) : -1;
        bool last = code >= 0 || launch_now_ms() > end;
        if (last)
            fwrite(text, 1, n, stdout);
        mem_free(text);
        if (last)
            break;
        nanosleep(&nap, NULL);
    }
    fflush(stdout);
    return code;
}

static int judge(queue *q, int *code, kv_err *e)
{
    const char *name = launcher_name(q->o->by);
    int ended = WIFEXITED(q->status) ? WEXITSTATUS(q->status) : EXIT_PEER;
    look_at_start(q);
    if (q->late)
        return kv_err_set(e, KV_E_TIMEOUT, "launch: %s did not start the job within %lld s", name,
                          (long long)q->o->queue_timeout);
    if (q->ended_by) {
        fprintf(stderr, "kvctl: the job was ended by signal %d\n", q->ended_by);
        *code = 128 + q->ended_by;
        return KV_OK;
    }
    if (q->started && q->o->by == LAUNCH_YARN)
        ended = show_logs(q);
    if (!q->started || ended < 0) {
        fwrite(buf_text(&q->said), 1, q->said.len, stderr);
        return kv_err_set(e, KV_E_PEER,
                          "launch: %s did not run the job: %s ended with exit code %d", name,
                          q->command.words[0], WEXITSTATUS(q->status));
    }
    *code = ended;
    return KV_OK;
}

static int run(queue *q, int *code, kv_err *e)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    sigemptyset(&q->watched);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&q->watched, signals[i]);
    sigprocmask(SIG_BLOCK, &q->watched, &q->before);
    if (write_file(q, e) || start(q, e))
        return e->code;
    while (q->client)
        tick(q);
    while (listen_to(q))
        ;
    pass_on(q);
    return judge(q, code, e);
}

static bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    for (; text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
        if (strncmp(text, line, n) == 0 && (text[n] == '\n' || !text[n]))
            return true;
    return false;
}

/* A word that no line of a here-document is. */
static void choose_end(char end[32], const char *text)
{
    snprintf(end, 32, "END");
    for (int i = 1; has_line(text, end); i++)
        snprintf(end, 32, "END_%d", i);
}

static void print(const queue *q)
{
    buf text = {0};
    char end[32];
    choose_end(end, buf_text(&q->file));
    launch_command_text(&text, &q->command);
    printf("mkdir -p %s\ncat >%s/job <<'%s'\n%s%s\n%s\n", q->folder, q->folder, end,
           buf_text(&q->file), end, buf_text(&text));
    fflush(stdout);
    buf_release(&text);
}

int launch_queue(const launch_options *o, int *code, kv_err *e)
{
    queue q = {.o = o, .said_fd = -1, .tails = {-1, -1}};
    if (o->dry_run)
        snprintf(q.folder, sizeof q.folder, "kvctl-job");
    else if (make_folder(&q, e))
        return e->code;
    if (!submit_command(&q.command, &q.file, o, q.folder, e)) {
        if (o->dry_run)
            print(&q);
        else
            run(&q, code, e);
    }
    for (int i = 0; i < 2; i++)
        if (q.tails[i] >= 0)
            close(q.tails[i]);
    if (!o->dry_run)
        folder_remove(q.folder);
    launch_command_release(&q.command);
    buf_release(&q.file);
    buf_release(&q.said);
    return e->code;
}
