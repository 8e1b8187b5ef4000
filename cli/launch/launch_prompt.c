/* Each worker has a queue of entries and runs the first of them (launch_job.h). While the prompt
 * waits for keys or for answers, it runs the ticks of the job. */
#include "launch/launch_job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "launch/jobs_socket.h"
#include "launch/launch_attempt.h"
#include "syntax/read_unit.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

enum {
    ENTRY_SOCKET = 32,  /* letters of the name */
    PATIENCE_MS = 1000, /* with an entry, before it goes on in the background */
    END_MS = 2000,      /* for ranks that are interrupted to end */
    AGAIN_MS = 2100     /* between two interruptions: a second one so soon would end the process */
};

typedef struct entry {
    struct entry *next;
    int line; /* of its first line */
    size_t n;
    char bytes[]; /* as launch_job.h has them */
} entry;

typedef struct job_worker {
    bool begun;   /* it takes entries */
    entry *first; /* the worker runs this one; the entries after it wait */
    bool named;   /* the user knows that it goes on in the background */
    int64_t interrupted_ms;
} job_worker;

typedef struct job_prompt {
    job *j;
    int dir; /* the folder of the job */
    job_worker *workers;
    int n;
    kv_err e;         /* of the entries, where they cannot be read */
    sigset_t watched; /* the signals that are the job's, not the prompt's */
    char prompt[32];
    bool terminal, stops;
    int64_t heard_ms; /* of the last answer */
    int failed;       /* the exit code of an entry since the last one was typed; 0: none failed */
    int failure;      /* of the first one that failed */
} job_prompt;

static void name_socket(char name[ENTRY_SOCKET], int number)
{
    snprintf(name, ENTRY_SOCKET, "entries.%d", number);
}

/* ---- Entries and their answers ---- */

static bool is_gone(const job_prompt *p, int number)
{
    return p->j->ranks[number].ended;
}

/* Returns true if a worker that an entry went to, below 0 all, is not done. */
static bool is_busy(const job_prompt *p, int to, int number)
{
    const job_worker *w = &p->workers[number];
    return (to < 0 || to == number) && !is_gone(p, number) && (!w->begun || w->first);
}

/* The same for any worker. background: also for workers that are already named as busy. */
static bool any_busy(const job_prompt *p, int to, bool background)
{
    bool any = false;
    for (int i = 0; i < p->n; i++)
        any |= is_busy(p, to, i) && (background || !p->workers[i].named);
    return any;
}

static bool any_left(const job_prompt *p)
{
    bool any = false;
    for (int i = 0; i < p->n; i++)
        any |= !is_gone(p, i);
    return any && attempt_runs(p->j);
}

static void drop_first(job_worker *w)
{
    entry *x = w->first;
    w->first = x->next;
    mem_free(x);
}

/* To a worker that waits for it, so it is taken at once, unless that one is stopped: a large entry
 * is sent again then, for a minute, and the worker passes over what it got in part. */
static void send_message(const job_prompt *p, int number, jobs_kind kind, const entry *x)
{
    char name[ENTRY_SOCKET];
    name_socket(name, number);
    bool gone = p->dir < 0, sent = false;
    for (int tries = 0; tries < 6 && !gone && !sent; tries++) {
        own_fd fd = jobs_connect(p->dir, name, 0);
        gone = fd < 0;
        sent = !gone && jobs_send(fd, kind, x ? x->bytes : "", x ? x->n : 0);
    }
}

static void take_answer(void *arg, int number, int rc)
{
    job_prompt *p = arg;
    job_worker *w = &p->workers[number];
    if (w->begun && w->first)
        drop_first(w);
    w->begun = true;
    w->named = false;
    p->heard_ms = clock_ms();
    p->failed = p->failed ? p->failed : rc;
    p->failure = p->failure ? p->failure : rc;
    output_idles(&p->j->output, number, !w->first);
    if (w->first)
        send_message(p, number, JOBS_ENTRY, w->first);
}

/* Lets the job go on for a moment. */
static void look(void *arg)
{
    job_prompt *p = arg;
    attempt_tick(p->j, &p->watched);
    if (!any_left(p))
        raise(SIGTERM); /* ends the wait for a line */
}

static void interrupt_busy(void *arg)
{
    const job_prompt *p = arg;
    int64_t now = clock_ms();
    for (int i = 0; i < p->n; i++) {
        job_worker *w = &p->workers[i];
        if (!is_busy(p, -1, i) || !w->begun)
            continue;
        while (w->first->next) { /* what it has not begun */
            entry *next = w->first->next;
            w->first->next = next->next;
            mem_free(next);
        }
        if (!w->interrupted_ms || now - w->interrupted_ms > AGAIN_MS)
            kill(p->j->ranks[i].pid, SIGINT);
        w->interrupted_ms = now;
    }
}

/* Waits until the workers of an entry are done with it, or the job is over; at a terminal for a
 * moment. Without one nobody else can end the wait for a worker that has failed. */
static void wait_for_answers(job_prompt *p, int to)
{
    int64_t begin_ms = clock_ms();
    bool again = false;
    p->heard_ms = begin_ms;
    interrupt_at_prompt(true); /* two Ctrl-C do not end launch */
    while (any_busy(p, to, !p->terminal) && any_left(p)) {
        int signal = interrupt_pending();
        int64_t deadline_ms = (int64_t)(p->j->o->deadline * 1000);
        bool vain = p->failed && !p->terminal && clock_ms() - p->heard_ms > deadline_ms;
        if (signal && signal != SIGINT)
            return;
        if (signal || (vain && !again))
            interrupt_busy(p);
        again |= vain;
        interrupt_clear();
        if (p->terminal && clock_ms() - begin_ms > PATIENCE_MS)
            break;
        look(p);
    }
    p->failed = p->failed ? p->failed : p->j->code; /* one that has ended answers no more */
    /* says once of each busy worker that its entry goes on */
    for (int i = 0; i < p->n; i++) {
        job_worker *w = &p->workers[i];
        if (is_busy(p, to, i) && w->begun && !w->named) {
            terminal_say("kvctl: rank %d is still busy with line %d, which goes on; Ctrl-C ends it",
                         i, w->first->line);
            w->named = true;
        }
    }
}

/* One entry, to one worker or, below 0, to all. */
static void send_entry(job_prompt *p, int to, const char *text, size_t n, int line)
{
    char head[16];
    size_t begin = (size_t)snprintf(head, sizeof head, "%d\n", line);
    for (int i = 0; i < p->n; i++) {
        if (is_gone(p, i) || (to >= 0 && i != to))
            continue;
        entry **end = &p->workers[i].first, *x = mem_zalloc(1, sizeof *x + begin + n, NULL);
        if (!x) {
            terminal_say("kvctl: error[memory]: no memory for the entry of rank %d", i);
            p->failure = p->failure ? p->failure : EXIT_FAILED;
            continue;
        }
        while (*end)
            end = &(*end)->next;
        x->line = line;
        x->n = begin + n;
        memcpy(x->bytes, head, begin);
        memcpy(x->bytes + begin, text, n);
        *end = x;
        output_idles(&p->j->output, i, false);
        if (p->workers[i].begun && p->workers[i].first == x)
            send_message(p, i, JOBS_ENTRY, x);
    }
    wait_for_answers(p, to);
}

/* The bytes of `@0 ` in front of an entry; *number: that, or -1. */
static size_t address_of(const char *text, size_t n, int *number)
{
    size_t begin = strspn(text, " \t"), digits = begin < n && text[begin] == '@'
                                                     ? strspn(text + begin + 1, "0123456789")
                                                     : 0;
    size_t end = begin + 1 + digits;
    *number = -1;
    if (digits == 0 || digits > 6 || (end < n && !strchr(" \t\n", text[end])))
        return 0;
    *number = atoi(text + begin + 1);
    return end + strspn(text + end, " \t");
}

/* ---- The prompt ---- */

static int entry_complete(void *arg, const char *text, size_t n)
{
    int number;
    size_t begin = address_of(text, n, &number);
    (void)arg;
    return unit_is_complete(text + begin, n - begin);
}

static void run_entry(job_prompt *p, const char *text, size_t n, int line)
{
    int to;
    size_t begin = address_of(text, n, &to);
    if (to >= p->n || (to >= 0 && is_gone(p, to))) {
        terminal_say("kvctl: error[usage]: rank %d does not run here", to);
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
    return !any_left(p) || (p->stops && p->failed);
}

static const char *prompt_text(void *arg)
{
    return ((job_prompt *)arg)->prompt;
}

static int run_prompt(job_prompt *p)
{
    char banner[160];
    snprintf(banner, sizeof banner,
             "kvctl: each entry goes to %d worker%s; @0 … goes to rank 0; Ctrl-D ends the job",
             p->n, p->n == 1 ? "" : "s");
    repl_ops ops = {.complete = entry_complete,
                    .run = prompt_entry,
                    .prompt = prompt_text,
                    .look = look,
                    .interrupted = interrupt_busy,
                    .banner = banner};
    return repl_run(&ops, p, false, NULL, &p->e);
}

/* ---- The job ---- */

static void talk(void *arg, job *j, const signal_masks *m)
{
    job_prompt *p = arg;
    int ended = 0;
    p->j = j;
    p->dir = open(j->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    p->watched = m->watched;
    sigdelset(&p->watched, SIGINT);
    sigdelset(&p->watched, SIGTERM);
    interrupt_install();
    sigprocmask(SIG_SETMASK, &p->watched, NULL);
    j->output.done = take_answer;
    j->output.arg = p;
    wait_for_answers(p, -1);
    if (any_left(p))
        ended = run_prompt(p);
    sigprocmask(SIG_SETMASK, &m->watched, NULL);
    if (ended && any_left(p))
        raise(ended); /* now it is the job's */
    if (!ended && p->terminal && any_busy(p, -1, true)) { /* Ctrl-D does not wait for them */
        interrupt_busy(p);
        j->end_ms = clock_ms() + END_MS;
    }
    for (int i = 0; i < p->n; i++)
        send_message(p, i, JOBS_STOP, NULL);
    close(p->dir);
    p->dir = -1; /* answers may still come */
}

int launch_prompt(const launch_options *o, int *code, kv_err *e)
{
    job_prompt p = {.n = o->workers, .terminal = isatty(STDIN_FILENO), .stops = o->stops};
    launch_options own = *o;
    own.talk = talk;
    own.talker = &p;
    snprintf(p.prompt, sizeof p.prompt, p.n == 1 ? "kv[0]> " : "kv[0..%d]> ", p.n - 1);
    p.workers = mem_zalloc(p.n, sizeof *p.workers, e);
    if (!p.workers)
        return KV_E_MEMORY;
    setenv("KVSTORE_ENTRIES", "", 1); /* for the watchers */
    if (p.terminal)
        setenv("KVSTORE_NOTICE", "1", 0); /* says why a rank is busy */
    int rc = launch_job(&own, code, e);
    if (*code == EXIT_DONE && !p.terminal)
        *code = p.failure;
    for (int i = 0; i < p.n; i++)
        while (p.workers[i].first)
            drop_first(&p.workers[i]);
    mem_free(p.workers);
    if (!rc && p.e.code)
        *e = p.e;
    return rc ? rc : e->code;
}

/* ---- The worker's side ---- */

int entry_source_open(entry_source *from, const char *named, kv_err *e)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK"), *folder = getenv("KVSTORE_RUN_DIR");
    from->fd = -1;
    from->done = atoi(named);
    fcntl(from->done, F_SETFD, FD_CLOEXEC);
    name_socket(from->name, number ? atoi(number) : 0);
    from->dir = open(folder ? folder : "", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return from->dir < 0 ? file_error(e, "open", folder ? folder : "", errno)
                         : jobs_listen(from->dir, from->name, &from->fd, e);
}

int entry_source_next(const entry_source *from, char **text, size_t *n, int *line, kv_err *e)
{
    struct pollfd p = {.fd = from->fd, .events = POLLIN};
    own_buf came = {0};
    jobs_kind kind;
    char *begin;
    bool got = false;
    *text = NULL;
    while (!got) {
        own_fd fd = poll(&p, 1, -1) > 0 ? jobs_accept(from->fd) : -1;
        if (interrupt_pending() == SIGTERM)
            return KV_OK;
        if (fd < 0)
            interrupt_clear(); /* Ctrl-C was for another worker */
        got = fd >= 0 && jobs_receive(fd, &kind, &came, JOBS_LARGE) == 1;
        TRY(buf_check(&came, e));
    }
    if (kind == JOBS_STOP)
        return KV_OK;
    *line = (int)strtol(buf_text(&came), &begin, 10);
    begin += *begin == '\n';
    *n = came.len - (size_t)(begin - came.data);
    *text = mem_text(begin, *n, e);
    return (int)e->code;
}

void entry_source_answer(const entry_source *from, int rc)
{
    fflush(NULL);
    dprintf(from->done, "%d\n", rc);
}

void entry_source_close(const entry_source *from)
{
    jobs_unlisten(from->dir, from->fd, from->name);
    close(from->done);
}
