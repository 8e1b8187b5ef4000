/* Each step is one kubectl, and what it prints. Objects are made with `create`, which never changes
 * those of another job, and only those that it names are deleted. */
#include "launch/launch_kubectl.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "term/exit_code.h"
#include "term/terminal.h"
#include "launch/launch_children.h"
#include "launch/launch_command.h"

enum {
    TICK_MS = 50,
    AGAIN_MS = 1000,   /* before Kubernetes is asked again */
    MOST_FAILURES = 30 /* of kubectl get, one after the other, until the job is given up */
};

/* The launcher, as kubectl get tells. */
typedef struct pod {
    char name[256]; /* "": there is none */
    char phase[32], code[16], reason[64];
} pod;

typedef struct client {
    const launch_options *o;
    const char *name;
    signal_masks signals;
    int signal;      /* that launch got; 0: none */
    buf objects;     /* "configmap/train-files\nmpijob.kubeflow.org/train\n" */
    buf out, err;    /* what the last kubectl printed */
    bool logs;       /* its stdout is a log: it is passed on */
    int64_t passed;  /* bytes of the log */
    int64_t skipped; /* those of them that this kubectl has printed again */
    pod pod;
} client;

/* ---- One kubectl ---- */

static void begin_words(launch_command *c, const client *k, const char *words)
{
    launch_add_filled(c, "kubectl[ --namespace {namespace}]",
                      (launch_hole[]){{"namespace", k->o->name_space}, {NULL, NULL}});
    launch_add_filled(
        c, words, (launch_hole[]){{"name", k->name}, {"pod", k->pod.name}, {NULL, NULL}});
}

/* In the child. Ctrl-C is for launch, so it gets a group of its own. */
static _Noreturn void become(const client *k, char **words, int in, int out, int err)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &k->signals.before, NULL);
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "%s cannot be started: %s\n", words[0], strerror(errno));
    _exit(EXIT_UNSUPPORTED);
}

/* The log begins anew with each kubectl logs: what was passed on is skipped. */
static void take_log(client *k, const char *bytes, size_t n)
{
    int64_t again = k->passed - k->skipped;
    size_t skip = again < (int64_t)n ? (size_t)again : n;
    k->skipped += (int64_t)skip;
    if (n == skip)
        return;
    terminal_pass(stdout, bytes + skip, n - skip);
    fflush(stdout);
    k->passed += (int64_t)(n - skip);
    k->skipped = k->passed;
}

/* Returns whether the stream goes on. */
static bool take(client *k, int fd, bool is_err)
{
    char block[65536];
    ssize_t n = read(fd, block, sizeof block);
    if (n <= 0)
        return n < 0 && (errno == EINTR || errno == EAGAIN);
    if (is_err)
        buf_put(&k->err, block, (size_t)n);
    else if (k->logs)
        take_log(k, block, (size_t)n);
    else
        buf_put(&k->out, block, (size_t)n);
    return true;
}

/* patient: the first signal is only noted, because objects would remain. */
static void listen_to(client *k, pid_t pid, const int fds[2], bool patient)
{
    bool open[2] = {true, true};
    while (open[0] || open[1]) {
        struct pollfd both[2] = {{.fd = open[0] ? fds[0] : -1, .events = POLLIN},
                                 {.fd = open[1] ? fds[1] : -1, .events = POLLIN}};
        poll(both, 2, TICK_MS);
        for (int i = 0; i < 2; i++)
            if (both[i].revents)
                open[i] = take(k, fds[i], i == 1);
        int signal = children_next_signal(&k->signals.watched);
        if (!signal)
            continue;
        if (!patient)
            kill(-pid, SIGTERM);
        patient = false;
        k->signal = k->signal ? k->signal : signal;
    }
}

/* A file without a name that holds the input of kubectl, so that nobody waits for it to read. */
static int input_file(const buf *input)
{
    if (!input)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("objects", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < input->len;) {
        ssize_t n = write(fd, input->data + at, input->len - at);
        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += (size_t)n;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Runs the command, which is released. *status: its exit code, or 128 and its signal. Errors: io,
 * memory, unsupported, when it could not begin. */
static int run(client *k, launch_command *c, const buf *input, bool patient, int *status, kv_err *e)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, in = input_file(input), ended = 0;
    pid_t pid = -1;
    buf_clear(&k->out);
    buf_clear(&k->err);
    k->skipped = 0;
    if (launch_command_check(c, e) == KV_OK) {
        if (in < 0 || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
            kv_err_set(e, KV_E_IO, "launch: no pipe: %s", strerror(errno));
        else if ((pid = fork()) < 0)
            kv_err_set(e, KV_E_UNSUPPORTED, "launch: no process can be started");
    }
    if (pid == 0)
        become(k, c->words, in, out[1], err[1]);
    for (int *fd = (int[]){in, out[1], err[1], -2}; *fd != -2; fd++)
        if (*fd >= 0)
            close(*fd);
    if (pid > 0) {
        listen_to(k, pid, (int[]){out[0], err[0]}, patient);
        waitpid(pid, &ended, 0);
    }
    if (out[0] >= 0)
        close(out[0]);
    if (err[0] >= 0)
        close(err[0]);
    launch_command_release(c);
    *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    return e->code;
}

/* Its own words go to stderr as they are. */
static int fail(client *k, const char *what, int status, kv_err *e)
{
    terminal_pass(stderr, buf_text(&k->err), k->err.len);
    return kv_err_set(e, KV_E_PEER, "launch: kubectl %s ended with exit code %d", what, status);
}

static void nap(client *k)
{
    int64_t end_ms = clock_ms() + AGAIN_MS;
    while (!k->signal && clock_ms() < end_ms) {
        poll(NULL, 0, TICK_MS);
        k->signal = children_next_signal(&k->signals.watched);
    }
}

/* ---- Steps ---- */

/* "a\nb\n" as "a and b". */
static void say_objects(const client *k, const char *what)
{
    buf list = {0};
    const char *text = buf_text(&k->objects);
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        buf_add(&list, list.len ? " and " : "");
        buf_put(&list, text, n);
    }
    terminal_say("kvctl: %s %s", what, buf_text(&list));
    buf_release(&list);
}

static int create(client *k, const buf *yaml, kv_err *e)
{
    launch_command c = {0};
    int status;
    begin_words(&c, k, "create -o name -f -");
    if (run(k, &c, yaml, true, &status, e))
        return e->code;
    buf_put(&k->objects, buf_text(&k->out), k->out.len);
    if (status && k->signal && k->objects.len == 0)
        terminal_say("kvctl: kubectl create was ended, and objects of %s may remain", k->name);
    if (status)
        return fail(k, "create", status, e);
    say_objects(k, "created");
    return buf_check(&k->objects, e);
}

/* One line of fields that commas end; of several launchers the first. */
static void read_pod(client *k)
{
    struct {
        char *to;
        size_t size;
    } fields[] = {{k->pod.name, sizeof k->pod.name},
                  {k->pod.phase, sizeof k->pod.phase},
                  {k->pod.code, sizeof k->pod.code},
                  {k->pod.reason, sizeof k->pod.reason}};
    const char *at = buf_text(&k->out);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        size_t n = strcspn(at, ",\n");
        snprintf(fields[i].to, fields[i].size, "%.*s", (int)n, at);
        at += n + (at[n] == ',');
    }
}

/* Asks how the launcher is, and again when kubectl fails: Kubernetes may be away for a while. */
static int look(client *k, kv_err *e)
{
    static const char fields[] =
        "jsonpath={range .items[*]}{.metadata.name},{.status.phase},"
        "{.status.containerStatuses[?(@.name==\"launcher\")].state.terminated.exitCode},"
        "{.status.reason}{.status.containerStatuses[?(@.name==\"launcher\")].state.waiting.reason},"
        "{\"\\n\"}{end}";
    for (int failures = 0; !k->signal; nap(k)) {
        launch_command c = {0};
        int status;
        begin_words(&c, k, "get pods -l training.kubeflow.org/job-name={name},"
                           "training.kubeflow.org/job-role=launcher -o");
        launch_add(&c, "%s", fields);
        if (run(k, &c, NULL, false, &status, e))
            return e->code;
        if (status == 0) {
            read_pod(k);
            return KV_OK;
        }
        if (++failures == MOST_FAILURES)
            return k->signal ? KV_OK : fail(k, "get pods", status, e);
    }
    return KV_OK;
}

static bool has_ended(const pod *p)
{
    return p->code[0] || strcmp(p->phase, "Failed") == 0 || strcmp(p->phase, "Succeeded") == 0;
}

/* Until the launcher runs or has ended. */
static int await_start(client *k, kv_err *e)
{
    char said[64] = "";
    int64_t begin_ms = clock_ms();
    double most = k->o->queue_timeout;
    for (; look(k, e) == KV_OK && !k->signal; nap(k)) {
        if (has_ended(&k->pod) || strcmp(k->pod.phase, "Running") == 0)
            break;
        if (most > 0 && clock_ms() - begin_ms > (int64_t)(most * 1000))
            return kv_err_set(e, KV_E_TIMEOUT,
                              "launch: k8s did not start the job within %lld s%s%s",
                              (long long)most, k->pod.reason[0] ? ": " : "", k->pod.reason);
        if (k->pod.reason[0] && strcmp(said, k->pod.reason) != 0)
            terminal_say("kvctl: the launcher waits: %s", k->pod.reason);
        snprintf(said, sizeof said, "%s", k->pod.reason);
    }
    return e->code;
}

/* Returns whether kubectl printed the log to its end. */
static bool pass_log(client *k, const char *words, kv_err *e)
{
    launch_command c = {0};
    int status;
    begin_words(&c, k, words);
    k->logs = true;
    bool ran = run(k, &c, NULL, false, &status, e) == KV_OK;
    k->logs = false;
    return ran && status == 0;
}

/* A log that is followed may end before its pod: connections do not last for ever. */
static int follow(client *k, kv_err *e)
{
    while (!k->signal && !has_ended(&k->pod)) {
        pass_log(k, "logs -f -c launcher {pod}", e);
        if (e->code || look(k, e))
            return e->code;
        if (!k->signal && !k->pod.name[0])
            return kv_err_set(e, KV_E_PEER, "launch: the pod of the launcher is gone");
        if (!has_ended(&k->pod))
            nap(k);
    }
    if (k->signal)
        return KV_OK;
    bool whole = pass_log(k, "logs -c launcher {pod}", e);
    if (!whole && !k->signal)
        terminal_say("kvctl: the log of %s cannot be read to its end: %s", k->pod.name,
                     buf_text(&k->err));
    else if (k->skipped < k->passed && !k->signal)
        terminal_say("kvctl: Kubernetes has shortened the log of %s: lines may be missing",
                     k->pod.name);
    return e->code;
}

static int judge(const client *k, int *code, kv_err *e)
{
    if (!k->pod.code[0] && strcmp(k->pod.phase, "Succeeded") != 0)
        return kv_err_set(e, KV_E_PEER, "launch: the launcher has ended without an exit code%s%s",
                          k->pod.reason[0] ? ": " : "", k->pod.reason);
    *code = atoi(k->pod.code);
    return KV_OK;
}

/* Waits until the pods are gone, so that no process of the job remains; another signal ends that.
 */
static void delete(client *k)
{
    launch_command c = {0};
    kv_err e = {0};
    int status = 0, signal = k->signal;
    if (k->objects.len == 0)
        return;
    begin_words(&c, k, "delete --ignore-not-found --cascade=foreground");
    const char *text = buf_text(&k->objects);
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        launch_add(&c, "%.*s", (int)n, text);
    }
    k->signal = 0;
    run(k, &c, NULL, false, &status, &e);
    if (status || e.code) {
        terminal_pass(stderr, buf_text(&k->err), k->err.len);
        say_objects(k, "kubectl delete failed, and these may remain:");
    } else
        say_objects(k, "deleted");
    k->signal = signal ? signal : k->signal;
}

int kubectl_run(const launch_options *o, const char *name, const buf *yaml, int *code, kv_err *e)
{
    client k = {.o = o, .name = name};
    children_watch_signals(&k.signals);
    signal(SIGPIPE, SIG_IGN); /* the objects are deleted without a reader, too */
    if (create(&k, yaml, e) == KV_OK && !k.signal && await_start(&k, e) == KV_OK && !k.signal &&
        follow(&k, e) == KV_OK && !k.signal)
        judge(&k, code, e);
    delete (&k);
    if (k.signal) {
        fprintf(stderr, "kvctl: the job was ended by signal %d\n", k.signal);
        *code = 128 + k.signal;
        *e = (kv_err){0};
    }
    buf_release(&k.objects);
    buf_release(&k.out);
    buf_release(&k.err);
    return e->code;
}
