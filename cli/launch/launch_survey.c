/* Hosts are asked over ssh, by one short command each, before mpirun goes there: its own words
 * about a host that does not answer are many lines, which give several possible reasons. */
#include "launch/launch_survey.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "launch/launch_children.h"
#include "launch/launch_command.h"
#include "term/terminal.h"

enum { TICK_MS = 50, AGAIN_MS = 500 /* before a host that cannot be reached is asked again */ };

/* Exit codes of the question to a host when something is missing there; ssh itself
 * ends with 255. */
enum { NO_MPI = 81, NO_PROGRAM, NO_FOLDER, NO_RSYNC };

/* ---- The question ---- */

/* A question for the shell of a host: whether all is there. The daemon of Open MPI is called orted
 * in 4.1 and prted in 5.0. */
static int ask_command(const launch_hosts *h, const launch_options *o, const char *host,
                       launch_command *out, kv_err *e)
{
    static const char question[] =
        "command -v orted >/dev/null || command -v prted >/dev/null || exit 81; "
        "test -x {'self} || exit 82; "
        "[command -v rsync >/dev/null || exit 84; mkdir -p {'copy} || exit 83]"
        "[cd {'here} || exit 83]";
    static_assert(NO_MPI == 81 && NO_PROGRAM == 82 && NO_FOLDER == 83 && NO_RSYNC == 84,
                  "as the question has them");
    char self[4096], here[4096];
    buf text = {0}, ssh = {0};
    if (launch_self(self, e))
        return e->code;
    if (!getcwd(here, sizeof here))
        return file_error(e, "read", ".", errno);
    hosts_ssh(h, o, &ssh);
    launch_add_filled(out, buf_text(&ssh), NULL);
    launch_add(out, "%s", host);
    launch_fill(&text, question,
                (launch_hole[]){{"self", self},
                                {"copy", o->sync_folder},
                                {"here", o->sync_folder ? NULL : here},
                                {NULL, NULL}});
    if (!buf_check(&ssh, e) && !buf_check(&text, e))
        launch_add(out, "%s", buf_text(&text));
    buf_release(&ssh);
    buf_release(&text);
    return e->code;
}

/* ---- Running one command for each host ---- */

typedef struct probe {
    launch_command command;
    pid_t pid;
    int fd; /* its stderr */
    int status;
    bool answered; /* the command has ended well */
    buf said;
} probe;

typedef struct survey {
    const launch_hosts *h;
    const launch_options *o;
    const signal_masks *m;
    probe *probes; /* one a host */
    int n;         /* the hosts with a rank; they stand first */
    int signal;    /* that launch got meanwhile; 0: none */
} survey;

static void start(probe *p, const sigset_t *mask)
{
    int ends[2];
    p->fd = -1;
    p->pid = 0;
    buf_clear(&p->said);
    if (pipe2(ends, O_CLOEXEC))
        return;
    p->pid = fork();
    if (p->pid == 0) {
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        sigprocmask(SIG_SETMASK, mask, NULL);
        execvp(p->command.words[0], p->command.words);
        _exit(127);
    }
    close(ends[1]);
    p->fd = ends[0];
}

/* Waits for something to read, at most up to a time. Returns false when the time is up, or launch
 * got a signal. */
static bool can_read(survey *s, int fd, int64_t end_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    while (!(s->signal = s->signal ? s->signal : children_next_signal(&s->m->watched))) {
        int64_t left = end_ms - clock_ms();
        int ready = poll(&one, 1, left > TICK_MS ? TICK_MS : left > 0 ? (int)left : 0);
        if (ready > 0 || left <= 0)
            return ready > 0;
    }
    return false;
}

/* Until it has ended, or the time is up: then it is killed. */
static void await(survey *s, probe *p, int64_t end_ms)
{
    char block[4096];
    ssize_t n = 1;
    bool late = p->pid <= 0;
    while (!late && n > 0) {
        late = !can_read(s, p->fd, end_ms);
        if (!late && (n = read(p->fd, block, sizeof block)) > 0)
            buf_put(&p->said, block, (size_t)n);
    }
    if (p->fd >= 0)
        close(p->fd);
    p->status = 255 << 8;
    if (p->pid > 0) {
        if (late)
            kill(p->pid, SIGKILL);
        waitpid(p->pid, &p->status, 0);
    }
    if (late) {
        buf_clear(&p->said);
        buf_add(&p->said, "it does not answer in time");
    }
}

/* The last line of what it said. */
static const char *last_words(probe *p)
{
    while (p->said.len > 0 && isspace((unsigned char)p->said.data[p->said.len - 1]))
        p->said.data[--p->said.len] = '\0';
    const char *text = buf_text(&p->said), *line = strrchr(text, '\n');
    return *text == '\0' ? "it says nothing" : line ? line + 1 : text;
}

static int judge_question(probe *p, const char *host, const launch_options *o, kv_err *e)
{
    char folder[4096];
    int code = WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 255;
    switch (code) {
    case 0:
        return KV_OK;
    case NO_MPI:
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: host \"%s\" has neither orted nor prted in $PATH",
                   host);
        return kv_err_hint(e, "one belongs to Open MPI: apt-get install openmpi-bin"),
               KV_E_UNSUPPORTED;
    case NO_PROGRAM:
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: host \"%s\" has no such kvctl as this one", host);
        return kv_err_hint(e, "it lies at the same place on all hosts"), KV_E_UNSUPPORTED;
    case NO_RSYNC:
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: host \"%s\" has no rsync in $PATH", host);
        return kv_err_hint(e, "apt-get install rsync"), KV_E_UNSUPPORTED;
    case NO_FOLDER:
        if (o->sync_folder)
            return kv_err_set(e, KV_E_IO, "launch: host \"%s\" cannot make \"%s\"", host,
                              o->sync_folder);
        kv_err_set(e, KV_E_IO, "launch: host \"%s\" has no folder \"%s\"", host,
                   getcwd(folder, sizeof folder) ? folder : ".");
        return kv_err_hint(e, "--sync-dst-dir DIR copies this folder there"), KV_E_IO;
    default:
        return kv_err_set(e, KV_E_PEER, "launch: host \"%s\" cannot be reached: %s", host,
                          last_words(p));
    }
}

static int judge_copy(probe *p, const char *host, const launch_options *o, kv_err *e)
{
    if (WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0)
        return KV_OK;
    return kv_err_set(e, KV_E_IO, "launch: this folder cannot be copied to \"%s\" on \"%s\": %s",
                      o->sync_folder, host, last_words(p));
}

/* Runs the commands of all hosts that have not answered yet, at the same time. Errors: those of the
 * first host where one failed. */
static int run_round(survey *s, bool copy, kv_err *e)
{
    int64_t end_ms = copy ? INT64_MAX : clock_ms() + (int64_t)(s->o->deadline * 1000);
    for (int i = 0; i < s->n; i++)
        if (!s->probes[i].answered)
            start(&s->probes[i], &s->m->before);
    for (int i = 0; i < s->n; i++) {
        probe *p = &s->probes[i];
        if (p->answered)
            continue;
        await(s, p, end_ms);
        kv_err why = {0};
        (copy ? judge_copy : judge_question)(p, s->h->items[i].name, s->o, &why);
        p->answered = !why.code;
        if (why.code && !e->code)
            *e = why;
    }
    return e->code;
}

/* The hosts that cannot be reached, and the reason for the first of them. */
static int name_missing(const survey *s, kv_err *e)
{
    enum { MOST_NAMED = 4 };
    buf list = {0};
    const char *why = NULL;
    int missing = 0, named = 0;
    for (int i = 0; i < s->n; i++)
        missing += !s->probes[i].answered;
    for (int i = 0; i < s->n && named < MOST_NAMED; i++) {
        if (s->probes[i].answered)
            continue;
        named++;
        why = why ? why : last_words(&s->probes[i]);
        buf_printf(&list, "%s\"%.80s\"",
                   named == 1         ? ""
                   : named == missing ? " and "
                                      : ", ",
                   s->h->items[i].name);
    }
    if (missing > named)
        buf_printf(&list, " and %d more", missing - named);
    *e = (kv_err){0};
    kv_err_set(e, KV_E_PEER, "launch: after %lld s host%s %s cannot be reached: %s",
               (long long)s->o->queue_timeout, missing == 1 ? "" : "s", buf_text(&list), why);
    buf_release(&list);
    return e->code;
}

/* Asks until all hosts answer or the time is up. A host that answers, but lacks something, is not
 * asked again. */
static int ask(survey *s, kv_err *e)
{
    int64_t end_ms = clock_ms() + (int64_t)(s->o->queue_timeout * 1000);
    bool waits = s->o->queue_timeout > 0, said = false;
    while (run_round(s, false, e) == KV_E_PEER && waits && !s->signal) {
        if (clock_ms() >= end_ms)
            return name_missing(s, e);
        if (!said)
            terminal_say("kvctl: %s; launch waits up to %lld s for all hosts", e->text,
                         (long long)s->o->queue_timeout);
        said = true;
        *e = (kv_err){0};
        can_read(s, -1, clock_ms() + AGAIN_MS);
    }
    return e->code;
}

static int make_commands(survey *s, bool copy, kv_err *e)
{
    for (int i = 0; i < s->n && !e->code; i++) {
        probe *p = &s->probes[i];
        const char *host = s->h->items[i].name;
        launch_command_release(&p->command);
        p->answered = false;
        if (copy)
            hosts_sync_command(s->h, s->o, host, &p->command);
        else
            ask_command(s->h, s->o, host, &p->command, e);
        launch_command_check(&p->command, e);
    }
    return e->code;
}

int survey_hosts(const launch_hosts *h, const launch_options *o, const signal_masks *m, int *signal,
                 kv_err *e)
{
    survey s = {.h = h, .o = o, .m = m, .probes = mem_zalloc(h->n, sizeof *s.probes, e)};
    while (s.n < h->n && h->items[s.n].ranks > 0)
        s.n++;
    bool asked = s.probes && make_commands(&s, false, e) == KV_OK && ask(&s, e) == KV_OK;
    if (asked && o->sync_folder && make_commands(&s, true, e) == KV_OK)
        run_round(&s, true, e);
    for (int i = 0; s.probes && i < s.n; i++) {
        buf_release(&s.probes[i].said);
        launch_command_release(&s.probes[i].command);
    }
    mem_free(s.probes);
    *signal = s.signal;
    if (s.signal)
        *e = (kv_err){0};
    return e->code;
}
