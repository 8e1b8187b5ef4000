/* The thread sleeps in poll; the end of its socket ends it. */
#include "attach/attach.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "launch/jobs_socket.h"
#include "out/record.h"
#include "run/run.h"
#include "session/result.h"
#include "session/unit.h"
#include "session/visit.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "syntax/read_unit.h"

/* ---- Pictures ---- */

/* Both sides are one build on machines of one kind, so a picture travels as it lies in memory, its
 * numbers behind it. The reader believes no length. */

void attach_plot_put(buf *out, const plot *p)
{
    buf_put(out, (const char *)p, sizeof *p);
    for (int i = 0; i < p->n; i++)
        buf_put(out, (const char *)p->series[i].y, (size_t)p->series[i].n * sizeof(double));
}

static bool is_text(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool is_picture(const plot *p, size_t left)
{
    bool ok = p->style <= PLOT_HIST && p->n >= 1 && p->n <= PLOT_MAX_LINES && p->bins >= 0 &&
              p->bins <= PLOT_BINS && is_text(p->file, sizeof p->file);
    for (int i = 0; i < PLOT_NTEXTS && ok; i++)
        ok = is_text(p->texts[i], PLOT_TEXT_SIZE);
    for (int i = 0; i < p->n && ok; i++) {
        const plot_series *s = &p->series[i];
        ok = s->n >= 0 && (uint64_t)s->n <= left / sizeof(double) && is_text(s->name, PLOT_NAME);
        /* heat maps have rows of equal length; lines and histograms have no columns */
        ok = ok && (p->style == PLOT_HEAT ? s->columns > 0 && s->n % s->columns == 0
                                          : s->columns == 0);
        left -= ok ? (size_t)s->n * sizeof(double) : 0;
    }
    return ok && left == 0;
}

int attach_plot_take(plot *p, const char *bytes, size_t n, kv_err *e)
{
    plot given;
    *p = (plot){0};
    if (n >= sizeof given)
        memcpy(&given, bytes, sizeof given);
    if (n < sizeof given || !is_picture(&given, n - sizeof given) ||
        (*given.file && plot_path_check(given.file, given.append, &(kv_err){0})))
        return kv_err_set(e, KV_E_FORMAT, "the picture of the job is malformed");
    *p = given;
    bytes += sizeof given;
    for (p->n = 0; p->n < given.n; p->n++) {
        plot_series *s = &p->series[p->n];
        if (!(s->y = mem_alloc(s->n, sizeof *s->y, e))) {
            plot_release(p);
            return KV_E_MEMORY;
        }
        memcpy(s->y, bytes, (size_t)s->n * sizeof *s->y);
        bytes += (size_t)s->n * sizeof *s->y;
    }
    return KV_OK;
}

/* ---- Entries ---- */

/* Runs what somebody types at `kvctl attach` beside the script of a worker.
 *
 * A guest is a session of its own, on a thread of its own, that borrows the stores of the script's
 * session (session/visit.h). So nothing of an entry can reach the variables, the random numbers or
 * the functions of the script; what could reach the stores, a file or a shell is refused before it
 * runs. Values come by kv_peek, which does not count as a pull.
 */

enum { PATIENCE_MS = 2000, NAMES_MOST = 64, MEMORY_MB = 256 /* that an entry may hold */ };

typedef struct guest {
    session *script;
    char start[4200], made[4200]; /* where a profile is written, and how the library calls that */
    const char *rank;    /* of this worker: variables are read before MPI starts, which sets some */
    int ranks;
    int fd;              /* of the client whose entry runs */
    int profiler;        /* of the client that takes a profile; -1: none does */
    char *profile;       /* the name that it gave */
    atomic_bool stopped; /* by the client, or because it is gone */
    mem_limit limit;     /* of the entry that runs */
    buf later;           /* messages that go out when the entry holds no store any more */
} guest;

/* SIGINT when the client wants no more of the entry, or is gone, or when the script waits for its
 * end. Any thread that works for the entry asks. */
static int guest_ends(void *arg)
{
    guest *g = arg;
    struct pollfd p = {.fd = g->fd, .events = POLLIN | POLLRDHUP};
    jobs_head head;
    if (atomic_load(&g->script->visit->unwanted))
        atomic_store(&g->stopped, true);
    if (!atomic_load(&g->stopped) && poll(&p, 1, 0) > 0 &&
        (p.revents & (POLLRDHUP | POLLHUP | POLLERR) ||
         (recv(g->fd, &head, sizeof head, MSG_PEEK | MSG_DONTWAIT) == sizeof head &&
          head.kind == JOBS_STOP)))
        atomic_store(&g->stopped, true);
    return atomic_load(&g->stopped) ? SIGINT : 0;
}

/* The same, asked by the session between the steps of an entry. */
static int guest_interrupted(void)
{
    return stop_asked() ? SIGINT : 0;
}

/* ---- What is refused ---- */

static int hint_commands(kv_err *e)
{
    return kv_err_hint(e, "it runs info, list, pull, stat, plot, explain, profile, rounds, "
                          "where and print");
}

static int ignore_field(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)arg, (void)fields, (void)n, (void)e;
    return KV_OK;
}

/* Finds out now whether the store can be entered: functions that return no error could not say. */
static int check_lock(const session *s, const ast *node, kv_err *e)
{
    if (s->current < 0 || kv_describe(s->stores[s->current].store, "metadata", ignore_field, NULL,
                                      e) != KV_E_BUSY)
        return KV_OK;
    e->code = KV_OK;
    unit_err(s, node, e, KV_E_BUSY, "the script is in a call of the store, and waits there");
    return kv_err_hint(e, "where, rounds, info --cluster, pull and stat answer all the same");
}

static int check_pull(const session *s, const ast *node, kv_err *e)
{
    static const char *const options[] = {"out", "ctx", "since"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (command_option_of(node, options[i]))
            return unit_err(s, node, e, KV_E_UNSUPPORTED,
                            "attach reads only: its pull has no --%s", options[i]);
    return KV_OK;
}

static int check_command(const session *s, const ast *node, kv_err *e)
{
    const command *c = node->u.other;
    bool explained = s->explanation && c->flags & COMMAND_EXPLAINED;
    if (!(c->flags & COMMAND_READS) && !explained) {
        unit_err(s, node, e, KV_E_UNSUPPORTED, "attach reads only, and has no `%s`", c->name);
        return hint_commands(e);
    }
    const ast *to = command_redirect_of(node, false);
    bool picture = c->flags & COMMAND_DRAWS && to && to->op != REDIRECT_PIPE; /* of the client */
    if ((to && !picture) || command_redirect_of(node, true))
        return unit_err(s, node, e, KV_E_UNSUPPORTED,
                        "attach reads only: what it shows goes into no file, command or variable");
    if (strcmp(c->name, "pull") == 0 && check_pull(s, node, e))
        return e->code;
    bool cluster = strcmp(c->name, "info") == 0 && command_option_of(node, "cluster");
    return c->flags & COMMAND_LOCKS && !cluster ? check_lock(s, node, e) : KV_OK;
}

static int guest_check(const session *s, const ast *node, kv_err *e)
{
    if (node->kind == STMT_COMMAND)
        return check_command(s, node, e);
    if (node->kind == AST_FILE)
        return unit_err(s, node, e, KV_E_UNSUPPORTED, "attach reads what the job holds, no files");
    if (node->kind == STMT_SHOW && !(node->n > 1 && node->kid[1]))
        return KV_OK;
    if (node->kind == AST_CALL)
        return unit_err(s, node, e, KV_E_UNSUPPORTED,
                        "attach reads only: a copy is all that `.%s()` would change",
                        node->u.text);
    unit_err(s, node, e, KV_E_UNSUPPORTED, "attach reads only: %s",
             node->kind == STMT_SHOW     ? "what it shows goes into no file, command or variable"
             : node->kind == STMT_SHELL  ? "it runs no commands of the shell"
             : node->kind == STMT_ASSIGN ? "it sets no variables"
                                         : "it runs expressions and commands, one after the other");
    return hint_commands(e);
}

/* ---- What goes to the client ---- */

/* A client that does not read would hold the entry in the midst of its work, and with it the stores
 * of the script, so these messages wait for its end. */
static void send_later(guest *g, jobs_kind kind, const void *text, size_t n)
{
    jobs_head head = {.bytes = (uint32_t)n, .kind = kind};
    if (n > JOBS_LARGE || g->later.len + n > JOBS_LARGE)
        return;
    buf_put(&g->later, (const char *)&head, sizeof head);
    buf_put(&g->later, text, n);
}

/* Entries run in no shell, and the limit of memory is theirs. */
static void guest_amend(void *arg, kv_err *e)
{
    const guest *g = arg;
    if (e->hint[0] == '!')
        e->hint[0] = '\0';
    if (e->code == KV_E_NAME && (strstr(e->text, "`where`") || strstr(e->text, "`status`"))) {
        e->hint[0] = '\0';
        kv_err_hint(e, "kvctl jobs NAME shows the line of each rank; rounds names the one that a "
                       "round lacks");
    }
    if (e->code == KV_E_MEMORY && g->limit.refused) {
        e->hint[0] = '\0';
        kv_err_hint(e, "an entry of attach has %d MB", MEMORY_MB);
    }
}

static void guest_note(void *arg, const char *text)
{
    send_later(arg, JOBS_NOTE, text, strlen(text));
}

static int guest_draw(void *arg, const plot *p, kv_err *e)
{
    guest *g = arg;
    own_buf bytes = {0};
    attach_plot_put(&bytes, p);
    TRY(buf_check(&bytes, e));
    send_later(g, JOBS_PLOT, bytes.data, bytes.len);
    return buf_check(&g->later, e);
}

/* ---- Profiles ---- */

static int begin_profile(guest *g, const char *name, kv_err *e)
{
    visit *v = g->script->visit;
    visit_lock(g->script);
    int rc = kv_profile_start(g->start, e);
    v->profiles |= rc == KV_OK;
    visit_unlock(g->script);
    if (rc)
        return rc;
    mem_free(g->profile);
    g->profile = mem_text(name, strlen(name), e);
    g->profiler = g->fd;
    return g->profile ? KV_OK : KV_E_MEMORY;
}

/* Returns whether a profile was being taken, and ended. */
static bool stop_profile(guest *g, kv_err *e)
{
    visit *v = g->script->visit;
    visit_lock(g->script);
    bool takes = v->profiles;
    if (takes)
        kv_profile_stop(e);
    v->profiles = false;
    visit_unlock(g->script);
    return takes;
}

static int send_profile(guest *g, kv_err *e)
{
    own_mem char *text = NULL;
    size_t n;
    own_buf all = {0};
    TRY(file_read(g->made, &text, &n, e));
    buf_put(&all, g->profile, strlen(g->profile) + 1);
    buf_put(&all, text, n);
    TRY(buf_check(&all, e));
    send_later(g, JOBS_FILE, all.data, all.len);
    return buf_check(&g->later, e);
}

static int end_profile(guest *g, kv_err *e)
{
    if (g->profiler != g->fd)
        return kv_err_set(e, KV_E_VALUE, "no profile is being taken from here");
    g->profiler = -1;
    if (!stop_profile(g, e) && !e->code)
        kv_err_set(e, KV_E_VALUE,
                   "the script has begun a profile of its own, which ended this one");
    if (!e->code)
        send_profile(g, e);
    unlink(g->made);
    return e->code;
}

static int guest_profile(void *arg, const char *path, kv_err *e)
{
    guest *g = arg;
    return path ? begin_profile(g, path, e) : end_profile(g, e);
}

/* The client is gone: a profile that it took is dropped. */
static void guest_left(guest *g, int fd)
{
    if (g->profiler != fd)
        return;
    stop_profile(g, &(kv_err){0});
    unlink(g->made);
    g->profiler = -1;
}

/* ---- Entries ---- */

typedef struct name_list {
    const char *names[NAMES_MOST];
    int n;
} name_list;

/* The variables that an entry reads, each once: names of the script's stores are none. */
static void collect_names(session *s, const ast *node, name_list *list)
{
    bool name = node->kind == AST_NAME && !session_names_store(s, node->u.text);
    for (int i = 0; name; i++) {
        if (i == list->n && i < NAMES_MOST)
            list->names[list->n++] = node->u.text;
        if (i >= list->n || strcmp(list->names[i], node->u.text) == 0)
            return;
    }
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i])
            collect_names(s, node->kid[i], list);
}

static int bring_variables(guest *g, session *s, const unit *u, kv_err *e)
{
    name_list list = {.n = 0};
    collect_names(s, u->body, &list);
    return list.n > 0 ? visit_variables(s, g->script, list.names, list.n, PATIENCE_MS, e) : KV_OK;
}

/* The session of one entry, which ends with it. */
static void run_guest(guest *g, session *s, const char *text, size_t n)
{
    kv_err e = {0};
    sink out = {.kind = SINK_TAKES};
    own_buf report = {0};
    char code[16];
    sink_push(s, &out);
    if (visit_enter(s, g->script, &e) == KV_OK) {
        unit *u = NULL;
        char *copy = mem_text(text, n, &e);
        if (copy && !unit_read(s, &u, "<attach>", copy, n, 1, NULL, &e) &&
            !bring_variables(g, s, u, &e))
            unit_run(s, u, &e);
    }
    guest_amend(g, &e);
    if (e.code)
        record_error(s, NULL, &e);
    sink_pop(s, &out);
    visit_leave(s, g->script);
    mem_limit_here(NULL); /* its report is small, and must be made */
    jobs_head head;
    for (size_t at = 0; !g->later.failed && at < g->later.len; at += sizeof head + head.bytes) {
        memcpy(&head, g->later.data + at, sizeof head);
        jobs_send(g->fd, (jobs_kind)head.kind, g->later.data + at + sizeof head, head.bytes);
    }
    buf_release(&g->later);
    if (out.text.len > 0)
        jobs_send(g->fd, JOBS_OUT, out.text.data, out.text.len);
    if (e.code == KV_E_INTERRUPTED)
        buf_add(&report, "interrupted\n");
    else if (e.code)
        report_text(s, &e, &report);
    if (report.len > 0)
        jobs_send(g->fd, JOBS_ERR, report.data, report.len);
    snprintf(code, sizeof code, "%d", e.code ? (int)exit_code_of_error(e.code) : EXIT_DONE);
    jobs_say(g->fd, JOBS_DONE, code);
    buf_release(&out.text);
}

/* Runs an entry, and sends what it gives to a socket (jobs_socket.h): output, errors, JOBS_DONE. It
 * ends early when the client says so or is gone. */
static void guest_run(guest *g, int fd, const buf *entry)
{
    session s;
    const char *number = buf_text(entry), *text = number + strcspn(number, "\n");
    const guest_ops ops = {.arg = g, .check = guest_check, .amend = guest_amend,
                           .note = guest_note, .draw = guest_draw, .profile = guest_profile};
    g->fd = fd;
    g->stopped = false;
    g->limit = (mem_limit){.most = MEMORY_MB * INT64_C(1048576)};
    mem_limit_here(&g->limit);
    stop_ask_here((stop_answer){guest_ends, g});
    kv_set_patience(PATIENCE_MS);
    session_init(&s);
    s.guest = &ops;
    s.interrupted = guest_interrupted;
    s.out.recorder.on = text > number;
    s.out.recorder.seq = s.out.recorder.on ? strtoll(number, NULL, 10) : 0;
    text += *text == '\n';
    run_guest(g, &s, text, entry->len - (size_t)(text - number));
    session_release(&s);
    stop_ask_here((stop_answer){0});
}

/* ---- How far the job is ---- */

static int find_round(void *arg, const kv_field *f, int n, kv_err *e)
{
    int64_t *most = arg, round = field_number(f, n, "round");
    (void)e;
    *most = round > *most ? round : *most;
    return KV_OK;
}

/* Adds where the script is, for `kvctl jobs JOB`, and for how many seconds; nothing before its
 * first statement and behind its last. The script's thread may be anywhere. */
static void add_place(const session *script, buf *out)
{
    const visit *v = script->visit;
    char text[UNIT_TEXT];
    int line, col;
    visit_lock(script); /* no text is freed */
    if (v->at) {
        source_locate(&v->in->src, v->at->pos, &line, &col);
        buf_printf(out, "file %s\nline %d\nstatement %s\nseconds %lld\n", v->in->src.name, line,
                   unit_text(text, v->in, v->at), (long long)(clock_ms() - v->since) / 1000);
    }
    visit_unlock(script);
}

/* ---- Sockets ---- */

enum { CLIENTS = 16 };

struct attach_server {
    visit visit;
    guest guest;
    pthread_t thread;
    int dir, fd; /* in the user's folder of jobs; fd is shut at the end */
    char name[JOBS_SOCKET];
    int servers;
    pthread_mutex_t lock; /* of the clients, which attach_end shuts and the thread closes */
    int clients[CLIENTS], n;
};

/* ---- Clients ---- */

static void drop(attach_server *a, int i)
{
    guest_left(&a->guest, a->clients[i]);
    pthread_mutex_lock(&a->lock);
    close(a->clients[i]);
    a->clients[i] = a->clients[--a->n];
    atomic_store(&a->visit.clients, a->n);
    pthread_mutex_unlock(&a->lock);
}

static void take_client(attach_server *a)
{
    int fd = jobs_accept(a->fd);
    if (fd < 0)
        return;
    if (a->n < CLIENTS) {
        pthread_mutex_lock(&a->lock);
        a->clients[a->n++] = fd;
        atomic_store(&a->visit.clients, a->n);
        pthread_mutex_unlock(&a->lock);
        return;
    }
    jobs_say(fd, JOBS_REFUSED, "too many clients are attached to this worker");
    close(fd);
}

/* Tells a client about this worker, and what it knows of the job. */
static void tell(const attach_server *a, int fd)
{
    own_buf text = {0};
    buf_printf(&text, "workers %d\nservers %d\nstate runs\n", a->guest.ranks - a->servers,
               a->servers);
    add_place(a->guest.script, &text);
    /* how far the job is, for `kvctl jobs`: `rounds N`, if it can be told now */
    session s;
    kv_err e = {0};
    int64_t round = -1;
    kv_set_patience(PATIENCE_MS / 4);
    session_init(&s);
    if (visit_enter(&s, a->guest.script, &e) == KV_OK && s.current >= 0)
        kv_describe(s.stores[s.current].store, "rounds", find_round, &round, &e);
    visit_leave(&s, a->guest.script);
    session_release(&s);
    if (!e.code && round >= 0)
        buf_printf(&text, "rounds %lld\n", (long long)round);
    if (!text.failed)
        jobs_say(fd, JOBS_TOLD, buf_text(&text));
}

/* Returns whether the client stays. */
static bool take_message(attach_server *a, int fd)
{
    jobs_kind kind;
    own_buf text = {0};
    bool stays = jobs_receive(fd, &kind, &text, JOBS_SMALL + 32) == 1;
    if (stays && kind == JOBS_ASK)
        tell(a, fd);
    else if (stays && kind == JOBS_ENTRY)
        guest_run(&a->guest, fd, &text);
    else
        stays = stays && kind == JOBS_STOP; /* of an entry that has ended meanwhile */
    return stays;
}

static void *serve(void *arg)
{
    attach_server *a = arg;
    for (;;) {
        struct pollfd p[CLIENTS + 1] = {{.fd = a->fd, .events = POLLIN}};
        int n = a->n;
        for (int i = 0; i < n; i++)
            p[i + 1] = (struct pollfd){.fd = a->clients[i], .events = POLLIN};
        if (poll(p, (nfds_t)n + 1, -1) < 0)
            continue;
        if (p[0].revents & POLLHUP)
            return NULL;
        for (int i = n - 1; i >= 0; i--)
            if (p[i + 1].revents && !take_message(a, a->clients[i]))
                drop(a, i);
        if (p[0].revents)
            take_client(a);
    }
}

/* ---- Beginning and ending ---- */

static bool open_socket(attach_server *a, const char *job, const char *folder)
{
    kv_err unused = {0};
    jobs_name_worker(a->name, job, folder, atoi(a->guest.rank));
    if (!jobs_is_name(job) || jobs_folder_open(true, &a->dir, &unused))
        return false;
    if (jobs_listen(a->dir, a->name, &a->fd, &unused) == KV_OK)
        return true;
    close(a->dir);
    return false;
}

static void release(attach_server *a)
{
    for (int i = a->n - 1; i >= 0; i--)
        drop(a, i);
    jobs_unlisten(a->dir, a->fd, a->name);
    a->guest.script->visit = NULL;
    visit_release(&a->visit);
    mem_free(a->guest.profile);
    mem_free(a);
}

/* Signals are the script's. */
static bool start(attach_server *a)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&a->thread, NULL, serve, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

attach_server *attach_begin(session *s)
{
    const char *folder = getenv("KVSTORE_RUN_DIR"), *number = getenv("OMPI_COMM_WORLD_RANK"),
               *size = getenv("OMPI_COMM_WORLD_SIZE"), *servers = getenv("KVSTORE_SERVERS"),
               *job = getenv("KVSTORE_JOB");
    attach_server *a = folder && number && job ? mem_zalloc(1, sizeof *a, &(kv_err){0}) : NULL;
    if (!a)
        return NULL;
    a->guest = (guest){.script = s,
                       .rank = number,
                       .ranks = size ? atoi(size) : 1,
                       .fd = -1,
                       .profiler = -1};
    /* with one rank the library leaves the name as it is */
    snprintf(a->guest.start, sizeof a->guest.start, "%s/attached.json", folder);
    snprintf(a->guest.made, sizeof a->guest.made, "%s/attached%s%s.json", folder,
             a->guest.ranks > 1 ? ".rank" : "", a->guest.ranks > 1 ? number : "");
    a->servers = servers ? atoi(servers) : 0;
    pthread_mutex_init(&a->lock, NULL);
    if (!open_socket(a, job, folder)) {
        mem_free(a);
        return NULL;
    }
    visit_init(&a->visit);
    s->visit = &a->visit;
    if (start(a))
        return a;
    release(a);
    return NULL;
}

void attach_end(attach_server *a)
{
    if (!a)
        return;
    visit_end(a->guest.script);
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->n; i++)
        shutdown(a->clients[i], SHUT_RDWR); /* what was sent arrives; a client that does not read
                                               holds nobody */
    pthread_mutex_unlock(&a->lock);
    shutdown(a->fd, SHUT_RDWR); /* wakes the thread */
    pthread_join(a->thread, NULL);
    release(a);
}
