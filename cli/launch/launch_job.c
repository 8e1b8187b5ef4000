/* Attempts at a job: the first one, and those after a loss. All processes of this host that lose
 * their parent become children of this one, so that it can end what is left. */
#include "launch/launch_job.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/file.h"
#include "kvstore.h"
#include "launch/launch_attempt.h"
#include "launch/launch_children.h"
#include "launch/launch_door.h"
#include "launch/launch_mpirun.h"
#include "launch/launch_survey.h"
#include "launch/launch_variables.h"
#include "term/terminal.h"

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

static void say_restart(const launch_options *o, int number, int64_t round, long long repeated)
{
    const char *are = repeated == 1 ? " is" : "s are";
    if (round > 0)
        terminal_say("kvctl: restart %d of %d from %s at round %lld: %lld round%s repeated", number,
                     o->restarts, o->checkpoint, (long long)round, repeated, are);
    else
        terminal_say("kvctl: restart %d of %d from the beginning: %lld round%s repeated", number,
                     o->restarts, repeated, are);
}

/* Returns whether the hosts can be used; else e says why not, or a signal came and *code is that of
 * the job. */
static bool prepare(const launch_hosts *h, const launch_options *o, const signal_masks *m,
                    int *code, kv_err *e)
{
    int signal = 0;
    if (survey_hosts(h, o, m, &signal, e) == KV_OK && !signal)
        return true;
    if (signal) {
        fprintf(stderr, "kvctl: the job was ended by signal %d\n", signal);
        *code = 128 + signal;
    }
    return false;
}

/* The same before the first attempt, with the signals as they were behind it. */
static bool prepare_first(const launch_hosts *h, const launch_options *o, int *code, kv_err *e)
{
    signal_masks m;
    children_watch_signals(&m);
    bool ready = prepare(h, o, &m, code, e);
    sigprocmask(SIG_SETMASK, &m.before, NULL);
    return ready;
}

static int run_attempts(const launch_options *o, const launch_hosts *h, const launch_command *c,
                        int *code, kv_err *e)
{
    signal_masks m;
    long long begun = 0;
    int64_t round = 0, first_ms = clock_ms();
    int rc = o->checkpoint ? read_round(o->checkpoint, &round, e) : KV_OK;
    if (!rc && round > 0)
        terminal_say("kvctl: the job goes on from %s, where %lld round%s done", o->checkpoint,
                     (long long)round, round == 1 ? " is" : "s are");
    launch_door door = {.dir = -1, .fd = -1};
    rc = rc ? rc : door_open(&door, o, e);
    children_watch_signals(&m);
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
        if (o->by == LAUNCH_SSH && !prepare(h, o, &m, code, e)) {
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
    launch_command set = {0};
    buf text = {0};
    for (int64_t i = 0; o->sync_folder && i < h->n && h->items[i].ranks > 0; i++) {
        launch_command sync = {0};
        hosts_sync_command(h, o, h->items[i].name, &sync);
        launch_show_command(&text, &sync);
        buf_char(&text, '\n');
        launch_command_release(&sync);
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
    launch_command_release(&set);
    buf_release(&text);
}

int launch_job(const launch_options *o, int *code, kv_err *e)
{
    launch_command c = {0};
    launch_hosts h = {0};
    if (!o->dry_run)
        door_tell_ranks(o);
    int rc = o->hostfile ? hosts_read(&h, o, e) : KV_OK;
    if (!rc && (rc = mpirun_command(&c, o, &h, e)) == KV_OK && o->dry_run)
        print_command(o, &h, &c);
    else if (!rc && (o->by != LAUNCH_SSH || prepare_first(&h, o, code, e)))
        rc = run_attempts(o, &h, &c, code, e);
    rc = rc ? rc : e->code;
    launch_command_release(&c);
    hosts_release(&h);
    return rc;
}
