/* The client: it sends entries, shows what comes back, and draws pictures itself. */
#include "attach/attach.h"

#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cmd/commands.h"
#include "io/json_writer.h"
#include "launch/jobs_socket.h"
#include "launch/launch_options.h"
#include "out/record.h"
#include "session/result.h"
#include "session/session.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "syntax/read_unit.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- Jobs ---- */

enum { TOLD_MOST = 1 << 20, TOLD_MS = 2000 /* who has told nothing by then is silent */ };

/* Appends what a socket that was asked tells of itself until a time of clock_ms. */
static bool hear(int fd, int64_t until, buf *told)
{
    jobs_kind kind = JOBS_REFUSED;
    own_buf text = {0};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t left = until - clock_ms();
    errno = poll(&p, 1, left > 0 ? (int)left : 0) > 0 ? 0 : EAGAIN;
    bool good = !errno && jobs_receive(fd, &kind, &text, TOLD_MOST) == 1 && kind == JOBS_TOLD;
    if (good)
        buf_put(told, buf_text(&text), text.len);
    return good;
}

static bool ask(int fd, buf *told)
{
    return jobs_say(fd, JOBS_ASK, "") && hear(fd, clock_ms() + TOLD_MS, told);
}

/* The value that a job told under a name: "" if it told none. The text is borrowed. *n: its
 * bytes. */
static const char *attach_job_field(const job_entry *x, const char *name, int *n)
{
    size_t length = strlen(name);
    for (const char *at = buf_text(&x->told); *at; at += *at == '\n') {
        size_t line = strcspn(at, "\n");
        if (line > length && strncmp(at, name, length) == 0 && at[length] == ' ') {
            *n = (int)(line - length - 1);
            return at + length + 1;
        }
        at += line;
    }
    *n = 0;
    return "";
}

static int attach_enter(const job_list *list, const job_entry *job, int rank, int *number,
                        kv_err *e);

static size_t name_length(const job_entry *x)
{
    return strcspn(x->name, ":");
}

/* The launcher of a job elsewhere could not know that another one has this name. */
static void name_by_id(job_entry *x)
{
    size_t n = name_length(x);
    if (x->first >= 0)
        snprintf(x->name + n, sizeof x->name - n, ":%s", x->id);
}

/* Adds the job of a socket. That of a launcher comes before those of its workers, and the first of
 * all that is not dead stands for the job. */
static int add(job_list *list, const char *file, kv_err *e)
{
    job_entry x = {.first = -1};
    int64_t namesake = -1;
    int n, parts = sscanf(file, "%64[^:]:%6[^:]:%d", x.name, x.id, &x.first);
    bool good;
    if (parts == 2 || !jobs_is_name(parts == 1 ? file : x.name))
        return KV_OK;
    for (int64_t i = 0; i < list->n; i++) {
        const job_entry *one = &list->items[i];
        if (name_length(one) != strlen(x.name) || memcmp(one->name, x.name, strlen(x.name)) != 0)
            continue;
        if (!*one->id || strcmp(one->id, x.id) == 0) /* of a silent launcher none is known */
            return KV_OK;
        namesake = i;
    }
    { /* ends before the worker is asked: a job takes so many connections at a time */
        own_fd fd = jobs_connect(list->dir, file, 1);
        good = fd >= 0 && ask(fd, &x.told);
        x.silent = !good && errno == EAGAIN;
        if (fd < 0 && errno == ECONNREFUSED)
            jobs_tidy(list->dir, file);
    }
    if (x.silent)
        buf_printf(&x.told, "state silent\n");
    if (good && x.first < 0) {
        const char *folder = attach_job_field(&x, "folder", &n);
        snprintf(x.id, sizeof x.id, "%.*s", JOBS_ID, folder + (n > JOBS_ID ? n - JOBS_ID : 0));
        own_fd worker = attach_enter(list, &x, -1, &n, &(kv_err){0});
        if (worker >= 0) /* it knows how far it is */
            ask(worker, &x.told);
    }
    if ((good || x.silent) && buf_check(&x.told, e) == KV_OK &&
        mem_grow(&list->items, &list->cap, list->n + 1, sizeof *list->items, e) == KV_OK) {
        list->items[list->n++] = x;
        if (namesake >= 0) {
            name_by_id(&list->items[namesake]);
            name_by_id(&list->items[list->n - 1]);
        }
        return KV_OK;
    }
    buf_release(&x.told);
    return (int)e->code;
}

int attach_jobs(job_list *list, kv_err *e)
{
    glob_t files = {0};
    char all[40];
    *list = (job_list){.dir = -1};
    TRY(jobs_folder_open(false, &list->dir, e));
    snprintf(all, sizeof all, "/proc/self/fd/%d/*", list->dir);
    int rc = glob(all, 0, NULL, &files) == GLOB_NOSPACE
                 ? kv_err_set(e, KV_E_MEMORY, "no memory for the names of jobs")
                 : KV_OK; /* it finds nothing where there is no folder */
    for (size_t i = 0; i < files.gl_pathc; i++)
        rc = rc ? rc : add(list, basename(files.gl_pathv[i]), e);
    globfree(&files);
    return rc;
}

void attach_jobs_release(job_list *list)
{
    for (int64_t i = 0; i < list->n; i++)
        buf_release(&list->items[i].told);
    mem_free(list->items);
    if (list->dir >= 0)
        close(list->dir);
}

static int no_answer(const char *name, kv_err *e)
{
    return kv_err_set(e, KV_E_PEER, "job %s does not answer", name);
}

/* Returns true if a job runs the script of this name, which may lack its folder and ending. */
static bool runs_script(const job_entry *entry, const char *name)
{
    int n;
    const char *script = attach_job_field(entry, "script", &n);
    const char *end = script + strcspn(script, " \n");
    for (const char *at = script; at < end; at++) {
        bool begins = (at == script || at[-1] == '/') && strncmp(at, name, strlen(name)) == 0;
        const char *rest = at + strlen(name);
        if (begins && (rest == end || (rest + 3 == end && *rest == '.')))
            return true;
    }
    return false;
}

/* *chosen becomes the job of that name, or the only one of that script; job NULL: the only one.
 * Errors: name, with a hint; peer (it is silent). */
static int attach_jobs_choose(const job_list *list, const char *job, const job_entry **chosen,
                              kv_err *e)
{
    const job_entry *runs = NULL;
    int scripts = 0;
    *chosen = NULL;
    for (int64_t i = 0; i < list->n && job && !*chosen; i++) {
        const job_entry *one = &list->items[i];
        bool found = runs_script(one, job);
        *chosen = strcmp(one->name, job) == 0 ? one : NULL;
        runs = found ? one : runs;
        scripts += found;
    }
    if (!*chosen && scripts == 1)
        *chosen = runs;
    else if (!job && list->n == 1)
        *chosen = list->items;
    if (*chosen)
        return (*chosen)->silent ? no_answer((*chosen)->name, e) : KV_OK;
    if (job)
        kv_err_set(e, KV_E_NAME, "no job of yours is called %s here", job);
    else if (list->n == 0)
        kv_err_set(e, KV_E_NAME, "no job of yours runs here");
    else
        kv_err_set(e, KV_E_NAME, "which job? %lld run here", (long long)list->n);
    if (job && command_find(job, strlen(job)))
        return kv_err_hint(e, "kvctl attach -c %s runs it beside the job", job);
    own_buf names = {0};
    for (int64_t i = 0; i < list->n; i++)
        buf_printf(&names, i ? ", %s" : "%s", list->items[i].name);
    return names.len > 0
               ? kv_err_hint(e, "jobs that run here: %s", buf_text(&names))
               : kv_err_hint(e, "kvctl launch -n 2 train.kv runs one; one of plain mpirun has no "
                                "way in");
}

/* Asks the launcher of a job for a worker, as JOBS_ENTER and JOBS_GROW do. Returns its number; -1
 * with an error: peer. */
static int ask_launcher(const job_list *list, const char *name, jobs_kind kind, const char *text,
                        kv_err *e)
{
    jobs_kind answer = JOBS_REFUSED;
    own_buf said = {0};
    own_fd fd = jobs_connect(list->dir, name, 5);
    bool answered =
        fd >= 0 && jobs_say(fd, kind, text) && jobs_receive(fd, &answer, &said, TOLD_MOST) == 1;
    if (answered && answer == JOBS_TOLD)
        return atoi(buf_text(&said));
    if (answered && answer == JOBS_REFUSED)
        kv_err_set(e, KV_E_PEER, "job %s: %s", name, buf_text(&said));
    else
        no_answer(name, e);
    return -1;
}

/* Connects to a worker of the job: rank -1 is the first one of this host. Returns the socket, and
 * *number is which worker it is. -1 with an error: peer. */
static int attach_enter(const job_list *list, const job_entry *job, int rank, int *number,
                        kv_err *e)
{
    char text[16] = "", file[JOBS_SOCKET];
    if (rank >= 0)
        snprintf(text, sizeof text, "%d", rank);
    *number = job->first < 0 ? ask_launcher(list, job->name, JOBS_ENTER, text, e)
              : rank < 0     ? job->first
                             : rank;
    if (*number < 0)
        return -1;
    jobs_name_worker(file, job->name, job->id, *number);
    int fd = jobs_connect(list->dir, file, 5);
    if (fd < 0 && errno == ENOENT) /* a spare, or one that is just starting */
        kv_err_set(e, KV_E_PEER, "job %s: worker %d does not listen %s", job->name, *number,
                   job->first < 0 ? "yet: it does when its script begins" : "on this host");
    else if (fd < 0)
        kv_err_set(e, KV_E_PEER, "job %s: worker %d cannot be reached now: %s", job->name, *number,
                   strerror(errno));
    return fd;
}

/* ---- The client ---- */

enum { TICK_MS = 100 };

typedef struct attached {
    int fd;
    char job[JOBS_SOCKET];
    char prompt[JOBS_SOCKET + 16];
    bool over;     /* the worker has ended */
    bool terminal; /* somebody types */
    bool json;     /* answers are records */
    bool quiet;    /* no notes, and beside records no errors */
    int64_t records; /* so far */
    kv_err late;   /* this side cannot write a file of the entry */
    int failure;   /* of the first entry that failed */
    session own;   /* draws */
} attached;

static void note_failure(attached *a, int rc)
{
    a->failure = a->failure ? a->failure : rc;
}

/* Without its record. */
static void report_in_text(attached *a, const kv_err *e)
{
    fflush(stdout);
    note_failure(a, a->json && a->quiet ? (int)exit_code_of_error(e->code) : terminal_fail(e));
}

/* Reports an error that this side found. With --json it has a record. */
static void report(attached *a, const kv_err *e)
{
    recorder *r = &a->own.out.recorder;
    *r = (recorder){.on = a->json, .seq = a->records};
    record_error(&a->own, NULL, e);
    a->records = r->seq;
    report_in_text(a, e);
}

static void show_plot(attached *a, const buf *bytes)
{
    plot p;
    if (attach_plot_take(&p, buf_text(bytes), bytes->len, &a->late) == KV_OK) {
        cmd_plot_show(&a->own, &p, &a->late);
        plot_release(&p);
    }
}

/* The name is that of `profile FILE`, as it was typed here. */
static void write_file(attached *a, const buf *bytes)
{
    const char *name = buf_text(bytes);
    size_t n = strnlen(name, bytes->len);
    file_out out;
    kv_err *e = &a->late;
    if (n == bytes->len) {
        kv_err_set(e, KV_E_FORMAT, "the worker sent a file without a name");
    } else if (file_out_open(&out, name, e) == KV_OK) {
        if (file_put(out.f, name, name + n + 1, bytes->len - n - 1, e))
            file_out_abandon(&out);
        else
            file_out_commit(&out, e);
    }
}

/* Shows a message. Returns whether the entry is done. */
static bool show(attached *a, jobs_kind kind, const buf *text)
{
    switch (kind) {
    case JOBS_OUT:
        a->records += a->json ? text_newlines(buf_text(text), text->len) : 0;
        terminal_pass(stdout, buf_text(text), text->len);
        return false;
    case JOBS_ERR:
        fflush(stdout);
        if (!(a->json && a->quiet))
            terminal_pass(stderr, buf_text(text), text->len);
        return false;
    case JOBS_NOTE:
        fflush(stdout);
        if (!a->quiet)
            terminal_say("note: %s", buf_text(text));
        return false;
    case JOBS_PLOT:
        show_plot(a, text);
        return false;
    case JOBS_FILE:
        write_file(a, text);
        return false;
    case JOBS_DONE:
        note_failure(a, atoi(buf_text(text)));
        if (a->late.code)
            report(a, &a->late);
        a->late = (kv_err){0};
        return true;
    default:
        return false;
    }
}

static void end(attached *a)
{
    kv_err e = {0};
    a->over = true;
    kv_err_set(&e, KV_E_PEER, "job %s has ended, or this worker has", a->job);
    report(a, &e); /* the entry has no answer */
}

/* Until the worker is done with the entry. Ctrl-C tells it to end that. */
static void wait_for_answer(attached *a)
{
    struct pollfd p = {.fd = a->fd, .events = POLLIN};
    own_buf text = {0};
    for (bool done = false; !done && !a->over;) {
        jobs_kind kind;
        int got = poll(&p, 1, TICK_MS), signal = interrupt_pending();
        if (signal == SIGINT && !jobs_say(a->fd, JOBS_STOP, ""))
            got = 1;
        interrupt_clear();
        if (signal && signal != SIGINT)
            break;
        if (got <= 0)
            continue;
        if (jobs_receive(a->fd, &kind, &text, JOBS_LARGE) != 1)
            end(a);
        else
            done = show(a, kind, &text);
    }
    fflush(stdout);
}

static int list_jobs(const jobs_options *o, result *given, kv_err *e);

/* No worker knows the places of the others, so this side asks them, as `kvctl jobs JOB` does. */
static void run_where(attached *a)
{
    static command where = {.name = "where"};
    const ast node = {.kind = STMT_COMMAND, .u.other = &where};
    unit typed = {.src = {.name = "<attach>", .text = where.name, .len = 5, .line = 1}};
    session *s = &a->own;
    kv_err e = {0};
    result given = {0};
    record r;
    s->out.recorder = (recorder){.on = a->json, .seq = a->records};
    s->unit = &typed;
    record_begin(s, &r);
    list_jobs(&(jobs_options){.job = a->job}, a->json ? &given : NULL, &e);
    record_end(s, &r, &node, &given, &e);
    s->unit = NULL;
    a->records = s->out.recorder.seq;
    result_release(&given);
    if (e.code)
        report_in_text(a, &e);
}

static void send_entry(attached *a, const char *text, size_t n)
{
    own_buf entry = {0};
    size_t at = strspn(text, " \t");
    if (strncmp(text + at, "where", 5) == 0 && at + 5 + strspn(text + at + 5, " \t\r\n") >= n) {
        run_where(a);
        return;
    }
    if (a->json)
        buf_printf(&entry, "%lld", (long long)a->records);
    buf_char(&entry, '\n');
    buf_put(&entry, text, n);
    if (entry.failed || n > JOBS_SMALL) {
        terminal_say("kvctl: error[usage]: an entry has at most %d bytes", JOBS_SMALL);
        note_failure(a, EXIT_NOT_UNDERSTOOD);
    } else if (!jobs_send(a->fd, JOBS_ENTRY, buf_text(&entry), entry.len)) {
        end(a);
    } else {
        wait_for_answer(a);
    }
}

/* ---- The prompt ---- */

static int entry_complete(void *arg, const char *text, size_t n)
{
    (void)arg;
    return unit_is_complete(text, n);
}

/* Returns true for one of the words with which one leaves. */
static bool leaves(const char *text, size_t n)
{
    static const char *const words[] = {"quit", "exit", "quit()", "exit()", "\\q"};
    while (n > 0 && letter_is_blank(text[n - 1]))
        n--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n == strlen(words[i]) && memcmp(text, words[i], n) == 0)
            return true;
    return false;
}

static bool entry_run(void *arg, const char *text, size_t n, int line, bool pasted)
{
    attached *a = arg;
    (void)line, (void)pasted;
    if (leaves(text, n))
        return true;
    if (strspn(text, " \t\r\n") < n)
        send_entry(a, text, n);
    return a->over;
}

static const char *entry_prompt(void *arg)
{
    return ((attached *)arg)->prompt;
}

static int run_prompt(attached *a, kv_err *e)
{
    repl_ops ops = {.complete = entry_complete,
                    .run = entry_run,
                    .prompt = entry_prompt,
                    .banner = "kvctl attach: reads only; rounds, where, info, list, pull, stat, "
                              "plot, explain, profile; Ctrl-D leaves"};
    return repl_run(&ops, a, false, NULL, e);
}

/* ---- The job ---- */

static int open_job(const attach_options *o, attached *a, kv_err *e)
{
    own_jobs list = {.dir = -1};
    const job_entry *job;
    int number;
    TRY(attach_jobs(&list, e));
    TRY(attach_jobs_choose(&list, o->job, &job, e));
    snprintf(a->job, sizeof a->job, "%s", job->name);
    a->fd = attach_enter(&list, job, o->rank, &number, e);
    if (!e->code && !o->job && !o->quiet && (o->entries.n > 1 || isatty(STDERR_FILENO))) {
        int n;
        const char *script = attach_job_field(job, "script", &n);
        terminal_say("note: job %s, %.*s", a->job, n, script);
    }
    snprintf(a->prompt, sizeof a->prompt, "%s[%d]> ", a->job, number);
    return e->code;
}

static int run(const attach_options *o, kv_err *e)
{
    attached a = {.fd = -1, .terminal = isatty(STDIN_FILENO), .json = o->json, .quiet = o->quiet};
    int ended = 0, rc = open_job(o, &a, e);
    session_init(&a.own);
    if (rc) {
        report(&a, e);
        session_release(&a.own);
        return a.failure;
    }
    interrupt_install();
    a.own.interrupted = interrupt_pending;
    for (int i = 0; i < o->entries.n && !a.over && !interrupt_pending(); i++)
        send_entry(&a, o->entries.items[i], strlen(o->entries.items[i]));
    if (o->entries.n == 0)
        ended = run_prompt(&a, e);
    session_release(&a.own);
    close(a.fd);
    if (ended)
        return 128 + ended;
    if (e->code)
        return terminal_fail(e);
    return o->entries.n == 0 && a.terminal ? EXIT_DONE : a.failure;
}

int attach_main(int argc, char **argv)
{
    attach_options o = {0};
    kv_err e = {0};
    int rc;
    if (attach_options_parse(&o, argc, argv, &e))
        rc = terminal_fail(&e);
    else
        rc = o.help ? terminal_show(attach_help) : run(&o, &e);
    attach_options_release(&o);
    return rc;
}

/* ---- kvctl jobs ---- */

static int add_text(rows *table, const job_entry *x, const char *name, kv_err *e)
{
    int n;
    value v;
    const char *text = attach_job_field(x, name, &n);
    if (n == 0)
        return rows_add(table, value_none(), e);
    TRY(value_text_new(&v, text, (size_t)n, e));
    return rows_add(table, v, e);
}

static int add_number(rows *table, const job_entry *x, const char *name, kv_err *e)
{
    int n;
    const char *text = attach_job_field(x, name, &n);
    return rows_add_known(table, n > 0, value_int(strtoll(text, NULL, 10)), e);
}

/* When it began, for programs as "2026-01-31T12:00:00Z". */
static int add_since(rows *table, const job_entry *x, bool json, kv_err *e)
{
    int n;
    char text[32];
    struct tm parts;
    const char *since = attach_job_field(x, "since", &n);
    time_t t = n > 0 ? (time_t)strtoll(since, NULL, 10) : 0;
    bool known = n > 0 && (json ? gmtime_r : localtime_r)(&t, &parts) &&
                 strftime(text, sizeof text, json ? "%FT%TZ" : "%F %T", &parts);
    return rows_add_text(table, known ? text : NULL, e);
}

/* The names of the hosts, which the job tells with commas between them. */
static int add_hosts(rows *table, const job_entry *x, kv_err *e)
{
    int n;
    const char *at = attach_job_field(x, "hosts", &n), *end = at + n;
    int64_t hosts = n > 0;
    for (const char *c = at; c < end; c++)
        hosts += *c == ',';
    own_value list = value_none();
    TRY(value_list_new(&list, VALUE_TUPLE, hosts, e));
    for (int64_t i = 0; i < hosts; i++) {
        size_t length = strcspn(at, ",\n");
        TRY(value_text_new(&list.u.list->items[i], at, length, e));
        at += length + 1;
    }
    return rows_add(table, value_ref(list), e);
}

static int add_job(rows *table, const job_entry *x, bool json, kv_err *e)
{
    TRY(rows_add_text(table, x->name, e));
    TRY(add_number(table, x, "pid", e));
    TRY(add_since(table, x, json, e));
    TRY(add_number(table, x, "workers", e));
    TRY(add_number(table, x, "servers", e));
    TRY(add_text(table, x, "state", e));
    TRY(add_number(table, x, "rounds", e));
    TRY(json ? add_hosts(table, x, e) : add_text(table, x, "hosts", e));
    return add_text(table, x, "script", e);
}

/* ---- Where the ranks of a job are ---- */

static const rows_column rank_columns[] = {{"rank", "rank"}, {"role", "role"}, {"pid", "pid"},
                                           {"file", "file"}, {"line", "line"},
                                           {"seconds", "seconds"}, {"statement", "statement"}};

static int add_rank(rows *table, int rank, int pid, bool server, const buf *told, kv_err *e)
{
    const job_entry x = {.told = *told};
    TRY(buf_check(told, e));
    TRY(rows_add(table, value_int(rank), e));
    TRY(rows_add_text(table, server ? "server" : "worker", e));
    TRY(rows_add_known(table, pid > 0, value_int(pid), e));
    TRY(add_text(table, &x, "file", e));
    TRY(add_number(table, &x, "line", e));
    TRY(add_number(table, &x, "seconds", e));
    return add_text(table, &x, "statement", e);
}

/* All workers are asked before the first answer is awaited. The statement of one to which the
 * launcher gives no way is its reason. Where the launcher runs elsewhere, one is asked. */
static int add_ranks(rows *table, const job_list *list, const job_entry *job, kv_err *e)
{
    int n, number, rc = KV_OK, servers = atoi(attach_job_field(job, "servers", &n)), ranks = 1;
    const char *pids = attach_job_field(job, "pids", &n);
    char *next;
    for (int i = 0; i < n; i++)
        ranks += pids[i] == ' ';
    int workers = n > 0 ? ranks - servers : 1, first = n > 0 ? 0 : job->first;
    own_mem int *fds = mem_alloc(workers, sizeof *fds, e);
    own_mem kv_err *why = mem_zalloc(workers, sizeof *why, e);
    if (!fds || !why)
        return e->code;
    for (int i = 0; i < workers; i++) {
        fds[i] = attach_enter(list, job, first + i, &number, &why[i]);
        if (fds[i] >= 0)
            jobs_say(fds[i], JOBS_ASK, "");
    }
    int64_t until = clock_ms() + TOLD_MS;
    for (int i = 0; i < ranks; i++, pids = next) {
        own_buf told = {0};
        own_fd fd = i < workers ? fds[i] : -1;
        if (fd >= 0)
            hear(fd, until, &told);
        else if (i < workers)
            buf_printf(&told, "statement (%s)\n", why[i].text);
        int pid = (int)strtol(pids, &next, 10);
        rc = rc ? rc : add_rank(table, first + i, pid, i >= workers, &told, e);
    }
    return rc;
}

/* ranks: of the only job; NULL: they are not shown. */
static int print_json(const rows *jobs, const rows *ranks, kv_err *e)
{
    own_buf text = {0};
    json_writer w = {.out = &text};
    json_begin(&w, NULL, '{');
    json_begin(&w, "jobs", '[');
    for (int64_t i = 0; i * jobs->ncolumns < jobs->n; i++) {
        json_begin(&w, NULL, '{');
        TRY(rows_json_row(&w, jobs, i, e));
        if (ranks)
            TRY(rows_json(&w, "ranks", ranks, e));
        json_end(&w, '}');
    }
    json_end(&w, ']');
    json_end(&w, '}');
    TRY(buf_check(&text, e));
    puts(buf_text(&text));
    return KV_OK;
}

/* given: gets the ranks, which are shown where it is NULL. */
static int list_jobs(const jobs_options *o, result *given, kv_err *e)
{
    static const rows_column columns[] = {
        {"name", "job"},        {"pid", NULL},          {"began", "since"},
        {"workers", "workers"}, {"servers", "servers"}, {"state", "state"},
        {"rounds", "rounds"},   {"hosts", "hosts"},     {"script", "script"}};
    own_rows jobs = {columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    own_rows ranks = {rank_columns, sizeof rank_columns / sizeof *rank_columns, NULL, 0, 0};
    own_jobs list = {.dir = -1};
    own_buf text = {0};
    const job_entry *job = NULL;
    TRY(attach_jobs(&list, e));
    if (o->job) {
        TRY(attach_jobs_choose(&list, o->job, &job, e));
        TRY(add_ranks(&ranks, &list, job, e));
    }
    if (given) {
        given->entries = ranks;
        ranks = (rows){0};
        return KV_OK;
    }
    for (int64_t i = 0; i < list.n; i++)
        if (!job || job == &list.items[i])
            TRY(add_job(&jobs, &list.items[i], o->json, e));
    if (o->json)
        return print_json(&jobs, job ? &ranks : NULL, e);
    if (list.n == 0 && !o->quiet)
        return terminal_say("kvctl: no job of yours runs here"), KV_OK;
    TRY(rows_print(&text, job ? &ranks : &jobs, e));
    terminal_pass(stdout, buf_text(&text), text.len);
    return KV_OK;
}

int jobs_main(int argc, char **argv)
{
    jobs_options o;
    kv_err e = {0};
    if (jobs_options_parse(&o, argc, argv, &e))
        return terminal_fail(&e);
    if (o.help)
        return terminal_show(jobs_help);
    if (list_jobs(&o, NULL, &e))
        return terminal_fail(&e);
    return fflush(stdout) ? EXIT_IO : EXIT_DONE;
}

/* ---- kvctl launch --grow ---- */

static int grow(const char *job, kv_err *e)
{
    own_jobs list = {.dir = -1};
    const job_entry *one;
    TRY(attach_jobs(&list, e));
    TRY(attach_jobs_choose(&list, job, &one, e));
    int number = ask_launcher(&list, one->name, JOBS_GROW, "", e);
    if (number >= 0)
        printf("job %s: rank %d becomes a worker at the next round\n", one->name, number);
    return (int)e->code;
}

int grow_main(int argc, char **argv)
{
    kv_err e = {0};
    if (argc > 1 || (argc == 1 && argv[0][0] == '-'))
        kv_err_set(&e, KV_E_USAGE, "launch: --grow stands alone: kvctl launch --grow [JOB]");
    if (e.code || grow(argc > 0 ? argv[0] : NULL, &e))
        return terminal_fail(&e);
    return fflush(stdout) ? EXIT_IO : EXIT_DONE;
}
