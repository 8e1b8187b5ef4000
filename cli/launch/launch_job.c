/* Attempts at a job: the first one, and those after a loss. All processes of this host that lose
 * their parent become children of this one, so that it can end what is left. */
#include "launch/launch_job.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "kvstore.h"
#include "launch/jobs_socket.h"
#include "launch/launch_attempt.h"
#include "launch/launch_command.h"
#include "term/terminal.h"

/* ---- The hosts of a job can be used ---- */

enum { TICK_MS = 50, AGAIN_MS = 500 /* before a host that cannot be reached is asked again */ };

/* Exit codes of the question to a host when something is missing there; ssh itself
 * ends with 255. */
enum { NO_MPI = 81, NO_PROGRAM, NO_FOLDER, NO_RSYNC };

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
    own_buf text = {0}, ssh = {0};
    TRY(launch_self(self, e));
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
    return e->code;
}

/* The command that copies this folder to a host. */
static void sync_command(const launch_hosts *h, const launch_options *o, const char *host,
                         launch_command *out)
{
    own_buf ssh = {0};
    hosts_ssh(h, o, &ssh);
    launch_add_filled(
        out, "rsync -a -s -e {ssh} ./ {host}:{folder}/",
        (launch_hole[]){
            {"ssh", buf_text(&ssh)}, {"host", host}, {"folder", o->sync_folder}, {NULL, NULL}});
}

/* ---- Running one command for each host ---- */

typedef struct probe {
    launch_command command;
    pid_t pid;
    int fd; /* its stderr, and not what a shell prints at its start */
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
    if (p->pid == 0)
        children_become(p->command.words, true, -1, ends[1], mask);
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

/* The last line of what it said. */
static const char *last_words(probe *p)
{
    while (p->said.len > 0 && isspace((unsigned char)p->said.data[p->said.len - 1]))
        p->said.data[--p->said.len] = '\0';
    const char *text = buf_text(&p->said), *line = strrchr(text, '\n');
    return *text == '\0' ? "it says nothing" : line ? line + 1 : text;
}

/* copy: the command was to copy this folder, else to ask what is there. */
static int judge(probe *p, const char *host, const launch_options *o, bool copy, kv_err *e)
{
    char folder[4096];
    int rc = WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 255;
    if (copy && rc)
        return kv_err_set(e, KV_E_IO,
                          "launch: this folder cannot be copied to \"%s\" on \"%s\": %s",
                          o->sync_folder, host, last_words(p));
    switch (rc) {
    case 0:
        return KV_OK;
    case NO_MPI:
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: host \"%s\" has neither orted nor prted in $PATH",
                   host);
        return kv_err_hint(e, "one belongs to Open MPI: apt-get install openmpi-bin");
    case NO_PROGRAM:
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: host \"%s\" has no such kvctl as this one", host);
        return kv_err_hint(e, "it lies at the same place on all hosts");
    case NO_RSYNC:
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: host \"%s\" has no rsync in $PATH", host);
        return kv_err_hint(e, "apt-get install rsync");
    case NO_FOLDER:
        if (o->sync_folder)
            return kv_err_set(e, KV_E_IO, "launch: host \"%s\" cannot make \"%s\"", host,
                              o->sync_folder);
        kv_err_set(e, KV_E_IO, "launch: host \"%s\" has no folder \"%s\"", host,
                   getcwd(folder, sizeof folder) ? folder : ".");
        return kv_err_hint(e, "--sync-dst-dir DIR copies this folder there");
    default:
        return kv_err_set(e, KV_E_PEER, "launch: host \"%s\" cannot be reached: %s", host,
                          last_words(p));
    }
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
        /* until it has ended, or the time is up: then it is killed */
        char block[4096];
        ssize_t n = 1;
        bool late = p->pid <= 0;
        while (!late && n > 0) {
            late = !can_read(s, p->fd, end_ms);
            if (!late && (n = read(p->fd, block, sizeof block)) > 0)
                buf_put(&p->said, block, (size_t)n);
        }
        file_close_fd(&p->fd);
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
        kv_err why = {0};
        p->answered = judge(p, s->h->items[i].name, s->o, copy, &why) == KV_OK;
        if (why.code && !e->code)
            *e = why;
    }
    return e->code;
}

/* The hosts that cannot be reached, and the reason for the first of them. */
static int name_missing(const survey *s, kv_err *e)
{
    enum { MOST_NAMED = 4 };
    own_buf list = {0};
    const char *why = NULL;
    int missing = 0, named = 0;
    for (int i = 0; i < s->n; i++)
        missing += !s->probes[i].answered;
    for (int i = 0; i < s->n; i++) {
        if (s->probes[i].answered)
            continue;
        why = why ? why : last_words(&s->probes[i]);
        if (launch_list(&list, named++, missing, MOST_NAMED))
            buf_printf(&list, " \"%.80s\"", s->h->items[i].name);
    }
    *e = (kv_err){0};
    kv_err_set(e, KV_E_PEER, "launch: after %lld s host%s%s cannot be reached: %s",
               (long long)s->o->queue_timeout, missing == 1 ? "" : "s", buf_text(&list), why);
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
            sync_command(s->h, s->o, host, &p->command);
        else
            ask_command(s->h, s->o, host, &p->command, e);
        launch_command_check(&p->command, e);
    }
    return e->code;
}

/* Checks each host before a job begins over ssh: it answers, has Open MPI, this program
 * and this folder. With --sync-dst-dir the folder is copied there first. All hosts are asked at the
 * same time, and those that cannot be reached again and again for queue_timeout seconds, if that is
 * not 0. A signal that launch watches for ends all that, and gives *code. Returns whether the hosts
 * can be used. Errors: peer (a host cannot be reached), unsupported (something is missing there),
 * io (the copy). */
static bool survey_hosts(const launch_hosts *h, const launch_options *o, const signal_masks *m,
                         int *code, kv_err *e)
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
    if (s.signal) {
        fprintf(stderr, "kvctl: the job was ended by signal %d\n", s.signal);
        *code = 128 + s.signal;
        *e = (kv_err){0};
    }
    return !e->code && !s.signal;
}

/* ---- Attempts ---- */

/* The round that a checkpoint holds; 0: there is no such file. src/distributed/job_checkpoint.h
 * says what a checkpoint is. */
static int read_round(const char *path, int64_t *round, kv_err *e)
{
    kv *store;
    kv_info info;
    bool there;
    *round = 0;
    int rc = file_look(path, &there, e);
    if (rc || !there || (rc = kv_load(&store, path, e)))
        return rc;
    for (int64_t i = 0; i < kv_num_keys(store) && !rc; i++) {
        rc = kv_info_at(store, i, &info, e);
        *round = !rc && info.pushes > *round ? info.pushes : *round;
    }
    kv_free(store);
    if (!rc && *round == 0)
        rc = file_bad(e, KV_E_VALUE, path, "no checkpoint of a job: nothing was pushed");
    return rc;
}

/* What a script that never asks for rounds() does with a checkpoint. */
static const char anew[] = "; the script never asks for rounds(): its loop begins anew on top";

static void say_restart(const launch_options *o, int number, int64_t round, long long repeated)
{
    char at[32], then[64];
    snprintf(at, sizeof at, " at round %lld", (long long)round);
    snprintf(then, sizeof then, ": %lld round%s repeated", repeated,
             repeated == 1 ? " is" : "s are");
    terminal_say("kvctl: restart %d of %d from %s%s%s", number, o->restarts,
                 round > 0 ? o->checkpoint : "the beginning", round > 0 ? at : "",
                 round > 0 && o->forgets ? anew : then);
}

static int run_attempts(const launch_options *o, const launch_hosts *h, const launch_command *c,
                        int *code, kv_err *e)
{
    signal_masks m;
    long long begun = 0;
    int64_t round = 0, first_ms = clock_ms();
    children_watch_signals(&m);
    if (o->by == LAUNCH_SSH && !survey_hosts(h, o, &m, code, e))
        return e->code;
    int rc = o->checkpoint ? read_round(o->checkpoint, &round, e) : KV_OK;
    if (!rc && round > 0)
        terminal_say("kvctl: the job goes on from %s, where %lld round%s done%s", o->checkpoint,
                     (long long)round, round == 1 ? " is" : "s are", o->forgets ? anew : "");
    launch_door door = {.dir = -1, .fd = -1};
    rc = rc ? rc : door_open(&door, o, e);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int again = 0; !rc; again++) {
        job j = {.door = &door,
                 .o = o,
                 .hosts = h,
                 .is_local = o->by == LAUNCH_LOCAL,
                 .n = o->workers + o->servers,
                 .early = -1,
                 .round = round,
                 .first_ms = first_ms};
        rc = attempt_run(&j, c, &m, &begun, e);
        *code = j.code;
        if (rc || !j.lost || o->restarts == 0)
            break;
        if (again == o->restarts) {
            terminal_say("kvctl: the job was restarted %d time%s and is given up", again,
                         again == 1 ? "" : "s");
            break;
        }
        if (o->by == LAUNCH_SSH && !survey_hosts(h, o, &m, code, e)) {
            rc = e->code;
            break;
        }
        if ((rc = read_round(o->checkpoint, &round, e)))
            break;
        say_restart(o, again + 1, round, begun > round ? begun - round : 0);
    }
    door_close(&door);
    return rc;
}

static void print_command(const launch_options *o, const launch_hosts *h, const launch_command *c)
{
    own_command set = {0};
    own_buf text = {0};
    for (int64_t i = 0; o->sync_folder && i < h->n && h->items[i].ranks > 0; i++) {
        own_command sync = {0};
        sync_command(h, o, h->items[i].name, &sync);
        launch_show_command(&text, &sync);
        buf_char(&text, '\n');
    }
    mpirun_environment(&set, o, NULL, 0);
    for (int64_t i = 0; i < set.n; i++) {
        size_t n = strcspn(set.words[i], "=") + 1; /* a quote may not stand before it */
        buf_put(&text, set.words[i], n);
        launch_show_word(&text, set.words[i] + n);
        buf_char(&text, ' ');
    }
    variables_text(&text, o, "", " ", false);
    launch_show_command(&text, c);
    buf_char(&text, '\n');
    terminal_pass(stdout, buf_text(&text), text.len);
    fflush(stdout);
}

int launch_job(const launch_options *o, int *code, kv_err *e)
{
    OWN(hosts_release) launch_hosts h = {0};
    own_command c = {0};
    if (o->hostfile)
        TRY(hosts_read(&h, o, e));
    TRY(mpirun_command(&c, o, &h, e));
    if (!o->dry_run)
        return run_attempts(o, &h, &c, code, e);
    print_command(o, &h, &c);
    return KV_OK;
}
