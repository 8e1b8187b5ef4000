/* launch waits for the client of the queue, which waits for the job: it passes on the lines of the
 * job (those of yarn stay in its logs), signals and the exit code, and gives up when the queue does
 * not start it in time. A job is `kvctl launch` again, on the hosts that the queue gave: as mpi,
 * where Open MPI knows them from the queue; as local in the one container of yarn. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "launch/launch_attempt.h"
#include "launch/launch_command.h"
#include "launch/launch_folder.h"
#include "launch/launch_job.h"
#include "term/terminal.h"

enum {
    TICK_MS = 50,
    CLIENT_MS = 15000, /* for a client to take its job back */
    YARN_MB = 1024     /* of a rank, unless --memory says it */
};

/* ---- Jobs for queues ---- */

/* The client of each queue, and the job that it gets.
 *
 * slurm: the steps of a job share its processors, so that the one that tells of a loss does not
 * wait for the ranks. yarn: without -timeout the client gives up after ten minutes. */
static const struct template {
    const char *client, *file, *inner;
} templates[LAUNCHER_NONE] = {
    [LAUNCH_SGE] = {"qsub -sync y {folder}/job", text_sge_job, "mpi"},
    [LAUNCH_SLURM] = {"salloc -Q -J kvctl -n {ranks}[ -p {queue}] sh {folder}/job", text_slurm_job,
                      "mpi"},
    [LAUNCH_YARN] = {"yarn jar {jar} -jar {jar} -appname kvctl -shell_script {folder}/job "
                     "-num_containers 1 -container_vcores {ranks} -container_memory {memory} "
                     "-timeout 2147483647[ -queue {queue}]",
                     text_yarn_job, "local"}};

static int inner_command(launch_command *c, const launch_options *o, kv_err *e)
{
    char self[4096];
    TRY(launch_self(self, e));
    launch_add_filled(c, "{self} launch --launcher {inner}[ --name {name}]",
                      (launch_hole[]){
                          {"self", self},
                          {"inner", templates[o->by].inner},
                          {"name", o->name},
                          {NULL, NULL}});
    return inner_options(c, o, e);
}

/* The jar of the distributed shell, which comes with Hadoop. */
static int find_jar(buf *jar, const launch_options *o, kv_err *e)
{
    static const char name[] = "share/hadoop/yarn/hadoop-yarn-applications-distributedshell-*.jar";
    const char *home = getenv("HADOOP_HOME");
    char pattern[4200];
    glob_t found = {0};
    if ((!home || !*home) && o->dry_run)
        home = "$HADOOP_HOME";
    if (!home || !*home)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "launch: --launcher yarn needs HADOOP_HOME, the folder of Hadoop");
    snprintf(pattern, sizeof pattern, "%s/%s", home, name);
    if (glob(pattern, 0, NULL, &found) == 0)
        buf_add(jar, found.gl_pathv[0]);
    else if (o->dry_run)
        buf_add(jar, pattern);
    else
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: there is no %s", pattern);
    globfree(&found);
    return e->code;
}

/* Appends the command that submits the file `job` of a folder and waits for the job's end, and the
 * text of that file. When the job starts it makes the file `started` in the folder; for yarn it
 * counts as started, because its hosts need not have the folder. Errors: io, memory, unsupported
 * (a part of Hadoop that is not found). */
static int submit_command(launch_command *c, buf *file, const launch_options *o, const char *folder,
                          kv_err *e)
{
    int n = o->workers + o->servers;
    char here[4096], ranks[16], memory[16];
    own_command inner = {0};
    own_buf jar = {0}, launch = {0}, variables = {0};
    if (!kv_assert(templates[o->by].client, "launcher %d has no template for a queue", (int)o->by))
        return kv_assert_report(e);
    snprintf(ranks, sizeof ranks, "%d", n);
    snprintf(memory, sizeof memory, "%d", n * (o->memory ? o->memory : YARN_MB));
    if (!getcwd(here, sizeof here))
        file_error(e, "read", ".", errno);
    else if ((o->by != LAUNCH_YARN || find_jar(&jar, o, e) == KV_OK) &&
             inner_command(&inner, o, e) == KV_OK) {
        launch_command_text(&launch, &inner);
        variables_text(&variables, o, "export ", "\n", true);
        const launch_hole holes[] = {{"folder", folder},
                                     {"pe", o->pe ? o->pe : "orte"},
                                     {"ranks", ranks},
                                     {"queue", o->queue},
                                     {"memory", memory},
                                     {"here", here},
                                     {"jar", buf_text(&jar)},
                                     {"variables", buf_text(&variables)},
                                     {"launch", buf_text(&launch)},
                                     {NULL, NULL}};
        launch_add_filled(c, templates[o->by].client, holes);
        launch_fill(file, templates[o->by].file, holes);
        if (!buf_check(&jar, e) && !buf_check(&variables, e) && !buf_check(&launch, e) &&
            !buf_check(file, e))
            launch_command_check(c, e);
    }
    return e->code;
}

/* ---- The client ---- */

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
    signal_masks signals;
} queue;

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

/* salloc runs the job here, with this stdout and stderr; the others only say what becomes of it. */
static int start(queue *q, kv_err *e)
{
    int ends[2] = {-1, -1};
    bool runs = q->o->by == LAUNCH_SLURM;
    if (!runs && pipe2(ends, O_CLOEXEC))
        return kv_err_set(e, KV_E_IO, "launch: no pipe: %s", strerror(errno));
    fflush(stdout);
    q->begin_ms = clock_ms();
    pid_t pid = fork();
    if (pid == 0)
        children_become(q->command.words, false, runs ? STDOUT_FILENO : ends[1],
                        runs ? STDERR_FILENO : ends[1], &q->signals.before);
    file_close_fd(&ends[1]);
    q->said_fd = ends[0];
    q->client = pid > 0 ? pid : 0;
    return pid < 0 ? kv_err_set(e, KV_E_UNSUPPORTED, "launch: no process can be started") : KV_OK;
}

/* Takes the job back: qsub does on SIGINT; salloc ends its job when it and what it runs get the
 * signal. The client of yarn ends, and its application goes on. */
static void take_back(queue *q, int signal)
{
    q->end_ms = clock_ms() + (q->end_ms ? 0 : CLIENT_MS);
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
            terminal_pass(i ? stderr : stdout, block, (size_t)n);
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
        if (q->o->by == LAUNCH_YARN)
            terminal_pass(stderr, block, (size_t)n); /* with the number by which it is asked for */
        else
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
    q->started = q->started || q->o->by == LAUNCH_YARN || access(path, F_OK) == 0;
    if (q->started || q->end_ms || q->o->queue_timeout <= 0 ||
        clock_ms() - q->begin_ms < (int64_t)(q->o->queue_timeout * 1000))
        return;
    q->late = true;
    take_back(q, SIGINT);
}

/* ---- The whole ---- */

static int judge(queue *q, int *code, kv_err *e)
{
    const char *name = launcher_name(q->o->by);
    int ended = WIFEXITED(q->status) ? WEXITSTATUS(q->status) : EXIT_PEER;
    (void)kv_assert(q->client == 0, "the client %d has not ended", (int)q->client);
    look_at_start(q);
    if (q->late)
        return kv_err_set(e, KV_E_TIMEOUT, "launch: %s did not start the job within %lld s", name,
                          (long long)q->o->queue_timeout);
    if (q->ended_by) {
        fprintf(stderr, "kvctl: the job was ended by signal %d\n", q->ended_by);
        *code = 128 + q->ended_by;
        return KV_OK;
    }
    if (q->o->by == LAUNCH_YARN && ended) {
        kv_err_set(e, KV_E_PEER, "launch: the job of yarn failed: yarn ended with exit code %d",
                   ended);
        return kv_err_hint(e, "yarn logs -applicationId ID prints what it wrote");
    }
    if (!q->started) {
        terminal_pass(stderr, buf_text(&q->said), q->said.len);
        return kv_err_set(e, KV_E_PEER,
                          "launch: %s did not run the job: %s ended with exit code %d", name,
                          q->command.words[0], WEXITSTATUS(q->status));
    }
    *code = ended;
    return KV_OK;
}

static int run(queue *q, int *code, kv_err *e)
{
    children_watch_signals(&q->signals);
    if (write_file(q, e) || start(q, e))
        return e->code;
    while (q->client) {
        listen_to(q);
        pass_on(q);
        look_at_start(q);
        int signal;
        while ((signal = children_next_signal(&q->signals.watched))) {
            q->ended_by = signal;
            take_back(q, signal);
        }
        if (waitpid(q->client, &q->status, WNOHANG) == q->client)
            q->client = 0;
        if (q->client && q->end_ms && clock_ms() > q->end_ms)
            kill(-q->client, SIGKILL);
    }
    while (listen_to(q))
        ;
    pass_on(q);
    return judge(q, code, e);
}

static void print(const queue *q)
{
    own_buf text = {0}, shown = {0};
    char end[32] = "END"; /* of a here-document, which does not have this word */
    for (int i = 1; strstr(buf_text(&q->file), end); i++)
        snprintf(end, sizeof end, "END_%d", i);
    buf_printf(&text, "mkdir -p %s\n", q->folder);
    visible_lines(&shown, q->file.data, q->file.len);
    if (shown.len != q->file.len) { /* lines that can be seen stand as they are */
        buf_add(&text, "printf %s ");
        launch_show_word(&text, buf_text(&q->file));
        buf_printf(&text, " >%s/job\n", q->folder);
    } else {
        buf_printf(&text, "cat >%s/job <<'%s'\n%s%s\n", q->folder, end, buf_text(&q->file), end);
    }
    launch_show_command(&text, &q->command);
    buf_char(&text, '\n');
    terminal_pass(stdout, buf_text(&text), text.len);
    fflush(stdout);
}

int launch_queue(const launch_options *o, int *code, kv_err *e)
{
    queue q = {.o = o, .said_fd = -1, .tails = {-1, -1}};
    if (o->dry_run)
        snprintf(q.folder, sizeof q.folder, "kvctl-job");
    else if (folder_new(q.folder, o->by == LAUNCH_SGE ? "" : NULL, e))
        return e->code; /* the hosts of sge see the folder of the process, too */
    if (!submit_command(&q.command, &q.file, o, q.folder, e)) {
        if (o->dry_run)
            print(&q);
        else
            run(&q, code, e);
    }
    for (int i = 0; i < 2; i++)
        file_close_fd(&q.tails[i]);
    if (!o->dry_run)
        folder_remove(q.folder);
    launch_command_release(&q.command);
    buf_release(&q.file);
    buf_release(&q.said);
    return e->code;
}
