/* One table lists the commands that a guest may run; all others are refused. */
#include "attach/attach_guest.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attach/attach_plot.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "launch/jobs_wire.h"
#include "out/report.h"
#include "run/run.h"
#include "session/result.h"
#include "session/unit.h"
#include "session/visit.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "syntax/read_unit.h"

enum { PATIENCE_MS = 2000, NAMES_MOST = 64, MEMORY_MB = 256 /* that an entry may hold */ };

struct guest {
    session *script;
    const char *folder;
    int fd;           /* of the client whose entry runs */
    int profiler;     /* of the client that takes a profile; -1: none does */
    char *profile;    /* the name that it gave */
    atomic_bool stopped; /* by the client, or because it is gone */
    mem_limit limit;  /* of the entry that runs */
    buf later;        /* messages that go out when the entry holds no store any more */
};

/* The entry that this thread runs; NULL: none. */
static _Thread_local guest *running;

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
    return running ? guest_ends(running) : 0;
}

/* ---- What is refused ---- */

static int hint_commands(kv_err *e)
{
    return kv_err_hint(e, "it runs info, list, pull, stat, plot, explain, profile, rounds and "
                          "print"),
           e->code;
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
    return kv_err_hint(e, "rounds, info --cluster, pull and stat answer all the same"), KV_E_BUSY;
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
    if (command_redirect_of(node, false) || command_redirect_of(node, true))
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

static void send_now(guest *g)
{
    jobs_head head;
    for (size_t at = 0; !g->later.failed && at < g->later.len; at += sizeof head + head.bytes) {
        memcpy(&head, g->later.data + at, sizeof head);
        jobs_send(g->fd, (jobs_kind)head.kind, g->later.data + at + sizeof head, head.bytes, -1);
    }
    buf_release(&g->later);
}

static void guest_note(void *arg, const char *text)
{
    send_later(arg, JOBS_NOTE, text, strlen(text));
}

static int guest_draw(void *arg, const plot *p, kv_err *e)
{
    guest *g = arg;
    buf bytes = {0};
    attach_plot_put(&bytes, p);
    int code = buf_check(&bytes, e);
    if (code == KV_OK)
        send_later(g, JOBS_PLOT, bytes.data, bytes.len);
    buf_release(&bytes);
    return code ? code : buf_check(&g->later, e);
}

/* ---- Profiles ---- */

/* With one rank the library leaves the name as it is. */
static void profile_paths(const guest *g, char start[4200], char made[4200])
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    snprintf(start, 4200, "%s/attached.json", g->folder);
    if (size && atoi(size) > 1)
        snprintf(made, 4200, "%s/attached.rank%s.json", g->folder, rank ? rank : "0");
    else
        snprintf(made, 4200, "%s", start);
}

static int begin_profile(guest *g, const char *name, kv_err *e)
{
    visit *v = g->script->visit;
    char start[4200], made[4200];
    profile_paths(g, start, made);
    visit_lock(g->script);
    int code = kv_profile_start(start, e);
    v->profiles |= code == KV_OK;
    v->profile_ended = false;
    visit_unlock(g->script);
    if (code)
        return code;
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

static int send_profile(guest *g, const char *path, kv_err *e)
{
    char *text;
    size_t n;
    buf all = {0};
    int code = file_read(path, &text, &n, e);
    if (code)
        return code;
    buf_put(&all, g->profile, strlen(g->profile) + 1);
    buf_put(&all, text, n);
    mem_free(text);
    code = buf_check(&all, e);
    if (code == KV_OK)
        send_later(g, JOBS_FILE, all.data, all.len);
    buf_release(&all);
    return code ? code : buf_check(&g->later, e);
}

static int end_profile(guest *g, kv_err *e)
{
    char start[4200], made[4200];
    if (g->profiler != g->fd)
        return kv_err_set(e, KV_E_VALUE, "no profile is being taken from here");
    profile_paths(g, start, made);
    g->profiler = -1;
    if (!stop_profile(g, e) && !e->code)
        kv_err_set(e, KV_E_VALUE,
                   "the script has begun a profile of its own, which ended this one");
    if (!e->code)
        send_profile(g, made, e);
    unlink(made);
    return e->code;
}

static int guest_profile(void *arg, const char *path, kv_err *e)
{
    guest *g = arg;
    return path ? begin_profile(g, path, e) : end_profile(g, e);
}

void guest_left(guest *g, int fd)
{
    char start[4200], made[4200];
    kv_err unused = {0};
    if (g->profiler != fd)
        return;
    profile_paths(g, start, made);
    stop_profile(g, &unused);
    unlink(made);
    g->profiler = -1;
}

/* ---- Entries ---- */

typedef struct name_list {
    const char *names[NAMES_MOST];
    int n;
} name_list;

/* The names that an entry reads, each once. */
static void collect_names(const ast *node, name_list *list)
{
    for (int i = 0; node->kind == AST_NAME; i++) {
        if (i == list->n && i < NAMES_MOST)
            list->names[list->n++] = node->u.text;
        if (i >= list->n || strcmp(list->names[i], node->u.text) == 0)
            return;
    }
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i])
            collect_names(node->kid[i], list);
}

/* Names of the script's stores and of functions are none of its variables. */
static int bring_variables(guest *g, session *s, const unit *u, kv_err *e)
{
    name_list all = {.n = 0}, list = {.n = 0};
    collect_names(u->body, &all);
    for (int i = 0; i < all.n; i++)
        if (!session_names_store(s, all.names[i]))
            list.names[list.n++] = all.names[i];
    return list.n > 0 ? visit_variables(s, g->script, list.names, list.n, PATIENCE_MS, e) : KV_OK;
}

static int run_entry(guest *g, session *s, const char *text, size_t n, kv_err *e)
{
    unit *u = NULL;
    char *copy = mem_text(text, n, e);
    int code = copy ? unit_read(s, &u, "<attach>", copy, n, 1, NULL, e) : KV_E_MEMORY;
    if (code == KV_OK && (code = bring_variables(g, s, u, e)) == KV_OK)
        code = unit_run(s, u, e);
    return code;
}

/* The session of one entry, which ends with it. */
static void run_guest(guest *g, session *s, const char *text, size_t n)
{
    kv_err e = {0};
    sink out = {.kind = SINK_TAKES};
    buf report = {0};
    char code[16];
    sink_push(s, &out);
    if (visit_enter(s, g->script, &e) == KV_OK)
        run_entry(g, s, text, n, &e);
    if (e.hint[0] == '!')
        e.hint[0] = '\0'; /* it leads to a shell, which attach does not run */
    if (e.code == KV_E_MEMORY && g->limit.refused) {
        e.hint[0] = '\0';
        kv_err_hint(&e, "an entry of attach has %d MB", MEMORY_MB);
    }
    sink_pop(s, &out);
    visit_leave(s, g->script);
    mem_limit_here(NULL); /* its report is small, and must be made */
    send_now(g);
    if (out.text.len > 0)
        jobs_send(g->fd, JOBS_OUT, out.text.data, out.text.len, -1);
    if (e.code == KV_E_INTERRUPTED)
        buf_add(&report, "interrupted\n");
    else if (e.code)
        report_text(s, &e, &report);
    if (report.len > 0)
        jobs_send(g->fd, JOBS_ERR, report.data, report.len, -1);
    snprintf(code, sizeof code, "%d", e.code ? (int)exit_code_of_error(e.code) : EXIT_DONE);
    jobs_say(g->fd, JOBS_DONE, code);
    buf_release(&report);
    buf_release(&out.text);
}

bool guest_run(guest *g, int fd, const char *text, size_t n)
{
    session s;
    const guest_ops ops = {.arg = g, .check = guest_check, .note = guest_note, .draw = guest_draw,
                           .profile = guest_profile};
    g->fd = fd;
    g->stopped = false;
    g->limit = (mem_limit){.most = MEMORY_MB * INT64_C(1048576)};
    running = g;
    mem_limit_here(&g->limit);
    stop_ask_here((stop_answer){guest_ends, g});
    kv_set_patience(PATIENCE_MS);
    session_init(&s);
    s.guest = &ops;
    s.interrupted = guest_interrupted;
    run_guest(g, &s, text, n);
    session_release(&s);
    stop_ask_here((stop_answer){0});
    running = NULL;
    return true;
}

/* ---- How far the job is ---- */

static int find_round(void *arg, const kv_field *f, int n, kv_err *e)
{
    int64_t *most = arg, round = field_number(f, n, "round");
    (void)e;
    *most = round > *most ? round : *most;
    return KV_OK;
}

void guest_tell(guest *g, int fd, const char *before)
{
    session s;
    kv_err e = {0};
    buf text = {0};
    int64_t round = -1;
    kv_set_patience(PATIENCE_MS / 4);
    session_init(&s);
    if (visit_enter(&s, g->script, &e) == KV_OK && s.current >= 0)
        kv_describe(s.stores[s.current].store, "rounds", find_round, &round, &e);
    visit_leave(&s, g->script);
    session_release(&s);
    buf_add(&text, before);
    if (!e.code && round >= 0)
        buf_printf(&text, "rounds %lld\n", (long long)round);
    if (!text.failed)
        jobs_say(fd, JOBS_TOLD, buf_text(&text));
    buf_release(&text);
}

int guest_new(guest **out, session *script, const char *folder, kv_err *e)
{
    guest *g = mem_zalloc(1, sizeof *g, e);
    if (!g)
        return KV_E_MEMORY;
    *g = (guest){.script = script, .folder = folder, .fd = -1, .profiler = -1};
    *out = g;
    return KV_OK;
}

void guest_free(guest *g)
{
    if (!g)
        return;
    mem_free(g->profile);
    buf_release(&g->later);
    mem_free(g);
}
