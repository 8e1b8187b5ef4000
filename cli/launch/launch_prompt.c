/* Each worker has a queue of entries and runs the first of them (launch_job.h). While the prompt
 * waits for keys or for answers, it runs the ticks of the job. */
#include "launch/launch_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "launch/launch_attempt.h"
#include "launch/launch_folder.h"
#include "syntax/read_unit.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

enum {
    PIPE_BYTES = 1 << 20, /* the most that a tick sends of an entry */
    PATIENCE_MS = 1000,   /* with an entry, before it goes on in the background */
    END_MS = 2000,        /* then a wait for ranks is named */
    AGAIN_MS = 2100 /* between two interruptions: a second one so soon would end the process */
};

/* What a worker reads: this, and the bytes of an entry. */
typedef struct entry_head {
    size_t n;
    int line; /* of its first one; 0: no entry, the worker shall end */
} entry_head;

typedef struct entry {
    struct entry *next;
    entry_head head;
    char bytes[];
} entry;

typedef struct job_worker {
    bool begun;   /* it takes entries */
    entry *first; /* the worker runs this one; the entries after it wait */
    size_t sent;  /* bytes of this one, or of the order to end */
    bool named;   /* the user knows that it goes on in the background */
    int64_t interrupted_ms; /* when this one was; 0: it was not */
} job_worker;

typedef struct job_prompt {
    job *j;
    job_worker *workers;
    int n;
    kv_err *e;        /* of entries that cannot be read */
    sigset_t watched; /* the signals that are the job's, not the prompt's */
    char prompt[32];
    bool terminal, stops, ends; /* ends: the user has left */
    int64_t heard_ms; /* of the last answer */
    int failed;       /* the exit code of an entry since the last one was typed; 0: none failed */
    int failure;      /* of the first one that failed */
} job_prompt;

static void entries_path(char path[FOLDER_PATH], const char *folder, int number)
{
    snprintf(path, FOLDER_PATH, "%s/entries.%d", folder, number);
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
    return (to < 0 || to == number) && !is_gone(p, number) && w->first;
}

/* The same for any worker. background: also for workers that are already named as busy. */
static bool any_busy(const job_prompt *p, int to, bool background)
{
    bool any = false;
    for (int i = 0; i < p->n; i++)
        any |= is_busy(p, to, i) && (background || !p->workers[i].named);
    return any;
}

/* Returns true if somebody can take entries: a job that has lost a rank ends. */
static bool any_left(const job_prompt *p)
{
    bool any = false;
    for (int i = 0; i < p->n; i++)
        any |= !is_gone(p, i);
    return any && attempt_runs(p->j) && !p->j->end_ms;
}

static void drop(entry **at)
{
    entry *x = *at;
    *at = x->next;
    mem_free(x);
}

/* Sends on what has not gone yet of the first entries. A worker that is stopped reads nothing: its
 * pipe takes a part, and a later tick sends the rest. */
static void send_on(job_prompt *p)
{
    static const entry_head end = {0, 0};
    for (int i = 0; i < p->n; i++) {
        char path[FOLDER_PATH];
        job_worker *w = &p->workers[i];
        const entry_head *x = w->first ? &w->first->head : p->ends ? &end : NULL;
        size_t all = x ? sizeof *x + x->n : 0;
        if (is_gone(p, i) || w->sent == all)
            continue;
        entries_path(path, p->j->folder, i);
        own_fd fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : write(fd, (const char *)x + w->sent, all - w->sent);
        w->sent += n > 0 ? (size_t)n : 0;
    }
}

static void take_answer(void *arg, int number, int rc)
{
    job_prompt *p = arg;
    job_worker *w = &p->workers[number];
    if (w->first)
        drop(&w->first);
    w->sent = 0;
    w->begun = true;
    w->named = false;
    w->interrupted_ms = 0;
    p->heard_ms = clock_ms();
    p->failed = p->failed ? p->failed : rc;
    output_idles(&p->j->output, number, !w->first);
}

/* Lets the job go on for a moment. */
static void go_on(job_prompt *p)
{
    send_on(p);
    attempt_tick(p->j, &p->watched);
}

static void look(void *arg)
{
    job_prompt *p = arg;
    go_on(p);
    if (!any_left(p))
        raise(SIGTERM); /* ends the wait for a line */
}

static void interrupt_busy(void *arg)
{
    const job_prompt *p = arg;
    int64_t now = clock_ms();
    for (int i = 0; i < p->n; i++) {
        job_worker *w = &p->workers[i];
        if (!is_busy(p, -1, i))
            continue;
        while (w->first->next) /* what it has not begun */
            drop(&w->first->next);
        if (w->interrupted_ms && now - w->interrupted_ms <= AGAIN_MS)
            continue;
        kill(p->j->ranks[i].pid, SIGINT);
        w->interrupted_ms = now;
    }
}

/* Waits until the workers of an entry are done with it, or the job is over; at a terminal for a
 * moment. Without one nobody else can end the wait for a worker that has failed. */
static void wait_for_answers(job_prompt *p, int to)
{
    int64_t begin_ms = p->heard_ms = clock_ms();
    interrupt_at_prompt(true); /* two Ctrl-C do not end launch */
    while (any_busy(p, to, !p->terminal) && any_left(p)) {
        int signal = interrupt_pending();
        int64_t deadline_ms = (int64_t)(p->j->o->deadline * 1000);
        bool vain = p->failed && !p->terminal && clock_ms() - p->heard_ms > deadline_ms;
        if (signal && signal != SIGINT)
            return;
        if (signal || vain) {
            interrupt_busy(p);
            p->heard_ms = clock_ms(); /* again after as long */
        }
        interrupt_clear();
        if (p->terminal && clock_ms() - begin_ms > PATIENCE_MS)
            break;
        look(p);
    }
    p->failed = p->failed ? p->failed : p->j->code; /* one that has ended answers no more */
    /* says once of each busy worker that its entry goes on */
    for (int i = 0; i < p->n && any_left(p); i++) {
        job_worker *w = &p->workers[i];
        if (is_busy(p, to, i) && !w->named) {
            terminal_say("kvctl: rank %d is still busy with line %d, which goes on; Ctrl-C ends it",
                         i, w->first->head.line);
            w->named = true;
        }
    }
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

/* One entry, to one worker or, without an address, to all. */
static void run_entry(job_prompt *p, const char *text, size_t n, int line)
{
    int to;
    size_t begin = address_of(text, n, &to);
    if (to >= p->n || (to >= 0 && is_gone(p, to))) {
        terminal_say("kvctl: error[usage]: rank %d does not run here", to);
        p->failed = EXIT_NOT_UNDERSTOOD;
        return;
    }
    text += begin;
    n -= begin;
    for (int i = 0; i < p->n; i++) {
        if (is_gone(p, i) || (to >= 0 && i != to))
            continue;
        entry **end = &p->workers[i].first, *x = mem_zalloc(1, sizeof *x + n, NULL);
        if (!x) {
            terminal_say("kvctl: error[memory]: no memory for the entry of rank %d", i);
            p->failed = EXIT_FAILED;
            continue;
        }
        while (*end)
            end = &(*end)->next;
        x->head = (entry_head){n, line};
        memcpy(x->bytes, text, n);
        *end = x;
        output_idles(&p->j->output, i, false);
    }
    wait_for_answers(p, to);
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
    p->failure = p->failure ? p->failure : p->failed;
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
    return repl_run(&ops, p, false, NULL, p->e);
}

/* ---- The job ---- */

/* Names the workers with entries that they did not begin; one that was sent may have begun. */
static void say_left(const job_prompt *p)
{
    for (int i = 0; i < p->n; i++) {
        const entry *x = p->workers[i].first;
        if (x && p->workers[i].sent == sizeof x->head + x->head.n)
            x = x->next;
        if (x)
            terminal_say("kvctl: rank %d did not begin line %d and what follows", i, x->head.line);
    }
}

/* Until all workers have begun, before the prompt, or all ranks have ended, behind it. */
static void wait_for_ranks(job_prompt *p)
{
    int64_t say_ms = clock_ms() + END_MS;
    for (int i = 0; i < (p->ends ? p->j->n : p->n) && attempt_runs(p->j);) {
        if (is_gone(p, i) || (!p->ends && p->workers[i].begun)) {
            i++;
            continue;
        }
        go_on(p);
        if (p->terminal && !p->j->end_ms && clock_ms() > say_ms) {
            terminal_say("kvctl: rank %d has not %s yet; Ctrl-C ends the job", i,
                         p->ends ? "ended" : "begun");
            say_ms = INT64_MAX;
        }
    }
}

static void talk(void *arg, job *j, const signal_masks *m)
{
    job_prompt *p = arg;
    int ended = 0;
    p->j = j;
    p->watched = m->watched;
    j->output.done = take_answer;
    j->output.arg = p;
    wait_for_ranks(p);
    sigdelset(&p->watched, SIGINT);
    sigdelset(&p->watched, SIGTERM);
    interrupt_install();
    sigprocmask(SIG_SETMASK, &p->watched, NULL);
    if (any_left(p))
        ended = run_prompt(p);
    p->watched = m->watched;
    sigprocmask(SIG_SETMASK, &p->watched, NULL);
    if (ended && any_left(p))
        raise(ended); /* now it is the job's */
    say_left(p);
    if (!ended && p->terminal && any_busy(p, -1, true)) { /* Ctrl-D does not wait for them */
        interrupt_busy(p);
        j->end_ms = clock_ms() + END_MS;
    }
    p->ends = true;
    wait_for_ranks(p);
}

int launch_prompt(const launch_options *o, int *code, kv_err *e)
{
    job_prompt p = {.n = o->workers, .terminal = isatty(STDIN_FILENO), .stops = o->stops, .e = e};
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
    launch_job(&own, code, e);
    if (*code == EXIT_DONE && !p.terminal)
        *code = p.failure;
    for (int i = 0; i < p.n; i++)
        while (p.workers[i].first)
            drop(&p.workers[i].first);
    mem_free(p.workers);
    return e->code;
}

/* ---- The worker's side ---- */

int entry_source_open(entry_source *from, const char *named, kv_err *e)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK"), *folder = getenv("KVSTORE_RUN_DIR");
    char path[FOLDER_PATH];
    from->done = atoi(named);
    fcntl(from->done, F_SETFD, FD_CLOEXEC);
    entries_path(path, folder ? folder : "", number ? atoi(number) : 0);
    from->fd = mkfifo(path, 0600) ? -1 : open(path, O_RDWR | O_CLOEXEC); /* so it has no end */
    if (from->fd < 0)
        return file_error(e, "make", path, errno);
    fcntl(from->fd, F_SETPIPE_SZ, PIPE_BYTES);
    return KV_OK;
}

/* Returns whether all came. SIGTERM ends the wait. */
static bool read_all(int fd, char *to, size_t n)
{
    while (n > 0 && interrupt_pending() != SIGTERM) {
        ssize_t got = read(fd, to, n);
        if (got < 0 && errno != EINTR)
            return false;
        interrupt_clear(); /* Ctrl-C was for another worker */
        to += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return n == 0;
}

int entry_source_next(const entry_source *from, int rc, char **text, size_t *n, int *line,
                      kv_err *e)
{
    entry_head head;
    *text = NULL;
    fflush(NULL);
    dprintf(from->done, "%d\n", rc);
    if (!read_all(from->fd, (char *)&head, sizeof head) || head.line == 0)
        return KV_OK;
    own_mem char *bytes = mem_zalloc((int64_t)head.n + 1, 1, e);
    if (bytes && read_all(from->fd, bytes, head.n)) {
        *text = bytes;
        *n = head.n;
        *line = head.line;
        bytes = NULL;
    }
    return (int)e->code;
}
