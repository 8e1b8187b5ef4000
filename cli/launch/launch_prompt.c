/* The prompt sends entries and waits for answers; launch_entries.h says how. */
#include "launch/launch_prompt.h"

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
#include "base/file.h"
#include "base/mem.h"
#include "launch/launch_job.h"
#include "syntax/read_unit.h"
#include "term/exit_code.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- Entries and their answers ---- */

enum { TICK_MS = 100, PATIENCE_MS = 1000 /* with an entry that was interrupted */ };

typedef struct job_worker {
    int ends[2];  /* of the pipe that says where its next entry is */
    int open;     /* answers that it owes */
    bool gone;
} job_worker;

typedef struct job_prompt {
    const launch_options *o;
    job_worker *workers;
    int texts;         /* the file of entries */
    long long written; /* bytes of it */
    int answers;       /* a pipe from the job; its end is that of the job */
    buf heard;         /* of it, the part of a line that has come */
    pid_t job;
    char prompt[32];
    bool terminal, over;
    int failed;        /* the exit code of the entry that runs; 0: of none so far */
    int failure;       /* of the first one that failed */
} job_prompt;

/* Returns true if a worker that an entry went to, below 0 all, is not done. */
static bool is_busy(const job_prompt *p, int to, int rank)
{
    const job_worker *w = &p->workers[rank];
    return (to < 0 || to == rank) && !w->gone && w->open > 0;
}

static bool any_busy(const job_prompt *p, int to)
{
    bool any = false;
    for (int i = 0; i < p->o->workers; i++)
        any |= is_busy(p, to, i);
    return any;
}

static bool any_left(const job_prompt *p)
{
    bool any = false;
    for (int i = 0; i < p->o->workers; i++)
        any |= !p->workers[i].gone;
    return any && !p->over;
}

static void take_answer(job_prompt *p, int rank, int rc)
{
    if (rank < 0 || rank >= p->o->workers)
        return;
    job_worker *w = &p->workers[rank];
    w->gone |= rc < 0;
    rc = rc < 0 ? -1 - rc : rc;
    w->open -= w->open > 0;
    p->failed = rc > 0 && !p->failed ? rc : p->failed;
}

static void read_answers(job_prompt *p)
{
    char block[4096];
    int rank, rc;
    ssize_t n = read(p->answers, block, sizeof block);
    p->over |= n == 0;
    for (ssize_t i = 0; i < n; i++) {
        if (block[i] != '\n') {
            buf_char(&p->heard, block[i]);
            continue;
        }
        if (sscanf(buf_text(&p->heard), "%d %d", &rank, &rc) == 2)
            take_answer(p, rank, rc);
        buf_clear(&p->heard);
    }
}

/* Returns true if the job has ended by itself. */
static bool is_over(job_prompt *p)
{
    struct pollfd fd = {.fd = p->answers, .events = POLLIN};
    while (!p->over && poll(&fd, 1, 0) > 0)
        read_answers(p);
    return p->over;
}

/* Workers may wait for one that has failed. At a terminal somebody sees that. */
static bool waits_in_vain(const job_prompt *p, int64_t heard_ms)
{
    return p->failed && !p->terminal && clock_ms() - heard_ms > (int64_t)(p->o->deadline * 1000);
}

/* Names each worker that is not done with an entry, and says what the user can do. */
static void say_busy(const job_prompt *p, int to, const char *advice)
{
    for (int i = 0; i < p->o->workers; i++)
        if (is_busy(p, to, i))
            terminal_say("kvctl: rank %d is not done: %s", i, advice);
}

/* At a terminal, once: *heard_ms becomes 0 then. */
static void say_waits(const job_prompt *p, int to, int64_t *heard_ms)
{
    if (!p->failed || !p->terminal || *heard_ms == 0 || clock_ms() - *heard_ms < PATIENCE_MS)
        return;
    say_busy(p, to, "it may wait for one that has failed; Ctrl-C brings the prompt back");
    *heard_ms = 0;
}

/* Waits until the workers of an entry are done with it, or the job is over. Ctrl-C interrupts the
 * entry. The prompt comes back a little later even so: calls of a store do not end early, and a
 * worker may wait in one for others, which need entries to go on. */
static void wait_for_answers(job_prompt *p, int to)
{
    struct pollfd fd = {.fd = p->answers, .events = POLLIN};
    int64_t heard_ms = clock_ms(), interrupted_ms = 0;
    p->failed = 0;
    while (any_busy(p, to) && !p->over) {
        int got = poll(&fd, 1, TICK_MS), signal = interrupt_pending();
        if (signal && signal != SIGINT)
            return;
        if (interrupted_ms && clock_ms() - interrupted_ms > PATIENCE_MS) {
            say_busy(p, to, "entries for it run when it is; @N … goes to rank N alone; Ctrl-D "
                            "ends the job");
            break;
        }
        if (!interrupted_ms && (signal || waits_in_vain(p, heard_ms))) {
            kill(p->job, SIGINT);
            interrupted_ms = clock_ms();
        }
        interrupt_clear();
        say_waits(p, to, &heard_ms);
        if (got > 0) {
            read_answers(p);
            heard_ms = clock_ms();
        }
    }
    p->failure = p->failure ? p->failure : p->failed;
}

/* One entry, to one worker or, below 0, to all. */
static void send_entry(job_prompt *p, int to, const char *text, size_t n, int line)
{
    ssize_t put = pwrite(p->texts, text, n, p->written);
    if (put != (ssize_t)n) {
        terminal_say("kvctl: no room for the entry: %s", strerror(errno));
        p->failure = p->failure ? p->failure : EXIT_IO;
        return;
    }
    for (int i = 0; i < p->o->workers; i++) {
        job_worker *w = &p->workers[i];
        if (w->gone || (to >= 0 && i != to))
            continue;
        w->open += 2; /* both streams */
        dprintf(w->ends[1], "%lld %lld %d\n", p->written, (long long)n, line);
    }
    p->written += put;
    wait_for_answers(p, to);
}

/* The bytes of `@0 ` in front of an entry; *rank: that, or -1. */
static size_t address_of(const char *text, size_t n, int *rank)
{
    size_t begin = strspn(text, " \t"), digits = begin < n && text[begin] == '@'
                                                     ? strspn(text + begin + 1, "0123456789")
                                                     : 0;
    size_t end = begin + 1 + digits;
    *rank = -1;
    if (digits == 0 || digits > 6 || (end < n && !strchr(" \t\n", text[end])))
        return 0;
    *rank = atoi(text + begin + 1);
    return end + strspn(text + end, " \t");
}

static int entry_complete(void *arg, const char *text, size_t n)
{
    int rank;
    size_t begin = address_of(text, n, &rank);
    (void)arg;
    return unit_is_complete(text + begin, n - begin);
}

static void run_entry(job_prompt *p, const char *text, size_t n, int line)
{
    int to;
    size_t begin = address_of(text, n, &to);
    if (to >= p->o->workers || (to >= 0 && p->workers[to].gone)) {
        terminal_say("kvctl: there is no rank %d to run it", to);
        p->failed = EXIT_NOT_UNDERSTOOD;
        p->failure = p->failure ? p->failure : p->failed;
        return;
    }
    send_entry(p, to, text + begin, n - begin, line);
}

/* The bytes of the first entry of a text that was pasted: lines up to a complete one. */
static size_t first_entry(job_prompt *p, const char *text, size_t n)
{
    for (size_t end = 0; end < n; end++)
        if (text[end] == '\n' && entry_complete(p, text, end))
            return end + 1;
    return n;
}

static bool prompt_entry(void *arg, const char *text, size_t n, int line, bool pasted)
{
    job_prompt *p = arg;
    (void)pasted;
    p->failed = 0;
    for (size_t one; n > 0 && any_left(p) && !interrupt_pending(); text += one, n -= one) {
        one = first_entry(p, text, n);
        run_entry(p, text, one, line);
        if (p->failed && one < n) {
            fputs("the entries below it were not run\n", stderr);
            break;
        }
        for (size_t i = 0; i < one; i++)
            line += text[i] == '\n';
    }
    return !any_left(p) || (p->o->stops && p->failed);
}

static const char *prompt_text(void *arg)
{
    return ((job_prompt *)arg)->prompt;
}

static int run_prompt(job_prompt *p, kv_err *e)
{
    char banner[160];
    buf history = {0};
    snprintf(banner, sizeof banner,
             "kvctl: each entry goes to %d worker%s; @0 … goes to rank 0; Ctrl-D ends the job",
             p->o->workers, p->o->workers == 1 ? "" : "s");
    repl_ops ops = {.complete = entry_complete,
                    .run = prompt_entry,
                    .prompt = prompt_text,
                    .banner = banner};
    histfile_path(&history, NULL);
    int ended = repl_run(&ops, p, false, buf_text(&history), e);
    buf_release(&history);
    return ended;
}

/* ---- The job ---- */

static int name_entries(const job_prompt *p, kv_err *e)
{
    buf named = {0};
    buf_printf(&named, "%d %d", (int)getppid(), p->texts);
    for (int i = 0; i < p->o->workers; i++)
        buf_printf(&named, " %d", p->workers[i].ends[0]);
    int rc = buf_check(&named, e);
    if (!rc && setenv("KVSTORE_ENTRIES", buf_text(&named), 1))
        rc = kv_err_set(e, KV_E_MEMORY, "launch: no memory for a variable");
    buf_release(&named);
    return rc;
}

/* In a process and a group of its own: Ctrl-C is for the prompt, which passes it on. */
_Noreturn static void become_job(const job_prompt *p, int answers)
{
    launch_options o = *p->o;
    kv_err e = {0};
    int rc = EXIT_DONE;
    pid_t prompt = getppid();
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO); /* it is the prompt's */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (int i = 0; i < o.workers; i++)
        close(p->workers[i].ends[1]); /* closed there, too, it is the end of the entries */
    o.answers = answers;
    if (name_entries(p, &e) || launch_job(&o, &rc, &e)) {
        terminal_say("kvctl: %s", e.text);
        rc = (int)exit_code_of_error(e.code);
    }
    fflush(NULL);
    close(answers);
    kill(prompt, SIGTERM); /* it may wait for a line */
    _exit(rc);
}

static int start_job(job_prompt *p, kv_err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return kv_err_set(e, KV_E_IO, "launch: no pipe: %s", strerror(errno));
    fflush(NULL);
    p->job = fork();
    if (p->job == 0)
        become_job(p, ends[1]);
    close(ends[1]);
    p->answers = ends[0];
    return p->job > 0 ? KV_OK
                      : kv_err_set(e, KV_E_UNSUPPORTED, "launch: no process can be started");
}

/* Ends the entries, so that the workers leave, and waits for the job. */
static int end_job(job_prompt *p, int signal)
{
    int status = 0;
    if (p->terminal && !signal && !p->over)
        say_busy(p, -1, "Ctrl-C ends the job now");
    for (int i = 0; i < p->o->workers; i++)
        close(p->workers[i].ends[1]);
    if (signal)
        kill(p->job, SIGTERM);
    while (waitpid(p->job, &status, 0) < 0 && errno == EINTR) {
        if (interrupt_pending())
            kill(p->job, SIGTERM);
        interrupt_clear();
    }
    for (int i = 0; i < p->o->workers; i++)
        close(p->workers[i].ends[0]);
    close(p->answers);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int open_entries(job_prompt *p, kv_err *e)
{
    p->workers = mem_zalloc(p->o->workers, sizeof *p->workers, e);
    if (!p->workers)
        return KV_E_MEMORY;
    p->texts = memfd_create("entries", MFD_CLOEXEC);
    int opened = 0;
    while (p->texts >= 0 && opened < p->o->workers &&
           pipe2(p->workers[opened].ends, O_CLOEXEC) == 0)
        p->workers[opened++].open = 2; /* each says that it has begun */
    if (opened == p->o->workers)
        return KV_OK;
    kv_err_set(e, KV_E_IO, "launch: no pipe for each worker: %s", strerror(errno));
    for (int i = 0; i < opened * 2; i++)
        close(p->workers[i / 2].ends[i % 2]);
    if (p->texts >= 0)
        close(p->texts);
    mem_free(p->workers);
    return e->code;
}

int launch_prompt(const launch_options *o, int *code, kv_err *e)
{
    job_prompt p = {.o = o, .terminal = isatty(STDIN_FILENO)};
    int ended = 0;
    snprintf(p.prompt, sizeof p.prompt, o->workers == 1 ? "kv[0]> " : "kv[0..%d]> ",
             o->workers - 1);
    if (open_entries(&p, e))
        return e->code;
    interrupt_install();
    int rc = start_job(&p, e);
    if (!rc) {
        wait_for_answers(&p, -1);
        if (any_left(&p))
            ended = run_prompt(&p, e);
        if (ended && is_over(&p))
            ended = 0; /* the signal was from there */
        *code = end_job(&p, ended);
        if (*code == EXIT_DONE && !p.terminal)
            *code = p.failure;
        if (ended)
            *code = 128 + ended;
        rc = e->code; /* of the entries */
    }
    close(p.texts);
    buf_release(&p.heard);
    mem_free(p.workers);
    return rc;
}
