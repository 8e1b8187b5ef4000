/* Whatever launch says is compared with what it must say: its sentence about the mishap, the same
 * exit code, in time, and between two attempts which restart it is and from which round. */
#include "launcher.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "launch/launch_job.h"
#include "redirected.h"
#include "term/terminal.h"

enum { SLACK_MS = 1000, MPIRUN_MS = 5000, LINE = 512 };

static struct {
    const job *j;
    job_past *past;
    launched *out;
    bool (*attempt)(const job *j, int number, void (*launch)(void));
    outcome (*launch)(void);
    char file[4096];
    int again; /* attempts of this launch before */
} run;

int sim_door_open(launch_door *d, const launch_options *o, kv_err *e)
{
    (void)o, (void)e;
    *d = (launch_door){.dir = -1, .fd = -1};
    return 0;
}

void sim_door_look(launch_door *d, job *j)
{
    (void)d, (void)j;
}

void sim_door_close(launch_door *d)
{
    (void)d;
}

void sim_say(const char *fmt, ...)
{
    launched *out = run.out;
    size_t n = strlen(out->said);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out->said + n, sizeof out->said - n - 1, fmt, args);
    va_end(args);
    strcat(out->said, "\n");
    if (out->said_ms < 0)
        out->said_ms = world_now() / 1000000;
}

/* The lines that were not looked at before. */
static const char *news(void)
{
    const char *text = run.out->said + run.out->judged;
    run.out->judged = strlen(run.out->said);
    return text;
}

/* ---- The sentence about a mishap ---- */

static void name_rank(int r, char name[64])
{
    const job *j = run.j;
    int n = snprintf(name, 64, "rank %d (%s)", r, r < j->workers ? "worker" : "server");
    if (j->hosts > 1)
        snprintf(name + n, 64 - (size_t)n, " on n%d", r % j->hosts);
}

static bool is(const char *line, const char *fmt, ...)
{
    char want[LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(want, sizeof want, fmt, args);
    va_end(args);
    return strcmp(line, want) == 0;
}

static bool is_unheard(const char *line, int r)
{
    return is(line, "rank %d on n%d has not been heard for %d s", r, r % run.j->hosts,
              (int)run.j->deadline);
}

static bool is_missing(const char *line)
{
    const job *j = run.j;
    bool worker = j->who < j->workers;
    return is(line, "expected %d workers + %d servers, have %d + %d after %d s", j->workers,
              j->servers, j->workers - worker, j->servers - !worker, (int)j->deadline);
}

/* launch heard nothing of the watcher. */
static bool is_silent(const char *line, const char *name)
{
    double s = run.j->deadline * 1.5;
    return is(line, "%s has not been heard for %d s", name, (int)s) ||
           is(line, "%s has not been heard for %d s", name, (int)s + 1);
}

/* With all ranks that had not ended before. */
static bool is_host(const char *line, int host)
{
    char prefix[64], ranks[32];
    const job *j = run.j;
    int n = snprintf(prefix, sizeof prefix, "host n%d is lost, with rank", host);
    if (strncmp(line, prefix, (size_t)n) != 0)
        return false;
    for (int r = host; r < j->workers + j->servers; r += j->hosts) {
        bool ended = check_ending(r) == WELL || check_ending(r) == FAILED;
        snprintf(ranks, sizeof ranks, " %d", r);
        if (!ended && !strstr(line + n, ranks))
            return false;
    }
    return true;
}

/* Nothing but the lost host is left to tell launch that mpirun ends the job: it says what it sees
 * of mpirun. */
static bool is_last(const char *line, int host)
{
    const job *j = run.j;
    for (int r = 0; r < j->workers + j->servers; r++)
        if (r % j->hosts != host && check_ending(r) != WELL && check_ending(r) != FAILED)
            return false;
    return is(line, "mpirun ended with exit code 1");
}

static bool is_mute(const char *line, int r)
{
    char prefix[64];
    int n = snprintf(prefix, sizeof prefix, "rank %d on n%d can serve no more: ", r,
                     r % run.j->hosts);
    return strncmp(line, prefix, (size_t)n) == 0;
}

/* Several ranks ended with this code. */
static bool is_alike(const char *line, int code)
{
    int alike = 0;
    for (int r = 0; r < run.j->workers + run.j->servers; r++)
        alike += check_ending(r) == FAILED && (int)exit_code_of_error(check_why(r)->code) == code;
    int n = alike;
    while (n > 1 && !is(line, "%d ranks ended with exit code %d", n, code))
        n--;
    return n > 1;
}

static bool is_failed(const char *line, int r, int *code)
{
    char name[64];
    const kv_err *why = check_why(r);
    name_rank(r, name);
    *code = (int)exit_code_of_error(why->code);
    return check_ending(r) == FAILED &&
           (is(line, "%s ended with exit code %d", name, *code) || is_alike(line, *code));
}

/* Returns true if launch says this line because of the mishap; *code is its exit code then. */
static bool fits(const char *line, int *code)
{
    const job *j = run.j;
    char name[64];
    int n = j->workers + j->servers;
    bool early = job_strikes_early(j);
    name_rank(j->who, name);
    *code = EXIT_PEER;
    switch (j->what) {
    case MISHAP_NONE:
    case MISHAP_STALL:
    case MISHAP_CUT:
    case MISHAP_BUSY:
    case MISHAP_DISK:
    case MISHAPS:
        return false;
    case MISHAP_KILL:
        return is(line, "%s was killed by signal 9", name);
    case MISHAP_FAIL:
        return is_failed(line, j->who, code) && *code == EXIT_NO;
    case MISHAP_SILENT:
        return is_unheard(line, j->who);
    case MISHAP_SPLIT:
        for (int r = 0; r < n; r++)
            if (is_unheard(line, r) || is_host(line, r % j->hosts))
                return true;
        return false;
    case MISHAP_MEMORY:
        for (int r = 0; r < n; r++)
            if (check_why(r)->code == KV_E_MEMORY && is_failed(line, r, code))
                return true;
        if (is_failed(line, j->who, code)) /* with any error */
            return true;
        if (*code != run.out->last.code) /* or it said that itself, and ended so */
            *code = EXIT_PEER;
        return is_unheard(line, j->who) || is_mute(line, j->who);
    case MISHAP_HOST:
        return is_host(line, j->who) || is_last(line, j->who) ||
               (early && is(line, "ssh ended with exit code 255 before all ranks had begun"));
    case MISHAP_WATCHER:
        return is(line, "%s was killed", name) || is_unheard(line, j->who) ||
               is_host(line, j->who % j->hosts) || is_silent(line, name) ||
               (early && is_missing(line)) ||
               (early && is(line, "mpirun ended with exit code 0"));
    case MISHAP_DEADLOCK:
        return strncmp(line, "deadlock: all ranks wait for each other; rank ", 46) == 0;
    case MISHAP_MPIRUN:
        return is(line, "mpirun was killed by signal 9");
    case MISHAP_START:
        return is_missing(line);
    case MISHAP_SIGNAL:
        *code = 128 + (int)j->nth;
        return is(line, "the job was ended by signal %d", (int)j->nth);
    case MISHAP_TIMEOUT:
        return is(line, "the job did not end within %d s", launcher_timeout(j));
    }
    return false;
}

/* When launch must have said it, at the latest. */
static int64_t latest_ms(void)
{
    const job *j = run.j;
    int64_t deadline_ms = (int64_t)(j->deadline * 1000), when_ms = j->when_ns / 1000000;
    switch (j->what) {
    case MISHAP_KILL:
    case MISHAP_MPIRUN:
    case MISHAP_SIGNAL:
        return when_ms + SLACK_MS;
    case MISHAP_WATCHER:
        return when_ms + SLACK_MS + (j->hosts > 1 ? deadline_ms * 3 / 2 : 0); /* or it is missed */
    case MISHAP_HOST:
        return when_ms + SLACK_MS + deadline_ms * 3 / 2;
    case MISHAP_START:
        return deadline_ms + SLACK_MS;
    case MISHAP_TIMEOUT:
        return launcher_timeout(j) * 1000 - run.out->past_ms + SLACK_MS;
    case MISHAP_FAIL:
        return check_end_ms(j->who) + SLACK_MS;
    case MISHAP_MEMORY: /* or it ends well, and is missed */
        return check_end_ms(j->who) + SLACK_MS +
               (check_ending(j->who) == FAILED ? 0 : deadline_ms * 3 / 2);
    default:
        return INT64_MAX;
    }
}

static bool may_begin_again(const char *line)
{
    bool by_rank = strncmp(line, "rank ", 5) == 0 || strncmp(line, "host ", 5) == 0;
    bool by_mpirun = is(line, "mpirun was killed by signal 9");
    if (by_mpirun && job_strikes_early(run.j)) /* launch may not have known of all ranks */
        return run.out->last.lost;
    return (by_rank || by_mpirun) && run.out->last.code == EXIT_PEER;
}

/* In time, too: launch says it at the end. */
static bool is_without(const char *text)
{
    return is(text, "kvctl: the job went on without rank %d, which was lost\n", run.j->who);
}

void launcher_judge(bool well)
{
    const job *j = run.j;
    const launched *out = run.out;
    const outcome *last = &out->last;
    char line[LINE];
    const char *text = news();
    int code = 0, limit_ms = launcher_timeout(j) * 1000;
    run.out->all_well = well;
    if (last->rc)
        check_bad("launch fails: %s", last->e.text);
    if (last->code == EXIT_DONE && check_goes_on() && is_without(text))
        return;
    if (last->code == EXIT_DONE && (!well || *text))
        check_bad("launch ends with exit code 0%s%s", well ? ", and says " : " and a rank did not",
                  text);
    bool told = j->what == MISHAP_KILL || j->what == MISHAP_SILENT;
    if (told && out->attempts == 0 && j->every && last->lost && last->rounds < 0 &&
        run.past->begun > 0)
        check_bad("launch does not know of %" PRId64 " rounds", run.past->begun);
    if (last->code == EXIT_DONE && check_strikes() && j->what == MISHAP_START)
        check_bad("launch does not miss a rank that begins late");
    if (last->code == EXIT_DONE && limit_ms && out->ended_ms + out->past_ms > limit_ms + SLACK_MS)
        check_bad("launch forgets its time-out");
    if (last->code == EXIT_DONE)
        return;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    bool fine = strncmp(line, "kvctl: ", 7) == 0 && strchr(text, '\n') == strrchr(text, '\n');
    bool may_end = check_strikes() || limit_ms;
    if (!fine || !may_end || !fits(line + 7, &code))
        check_bad("launch ends with exit code %d, and does not say why", last->code);
    else if (code != last->code)
        check_bad("the exit code of launch is %d, not %d", last->code, code);
    if (limit_ms && out->said_ms + out->past_ms < limit_ms)
        check_bad("launch says it %" PRId64 " ms early", limit_ms - out->said_ms - out->past_ms);
    if (out->said_ms > latest_ms())
        check_bad("launch says it %" PRId64 " ms late", out->said_ms - latest_ms());
    if (out->ended_ms > out->said_ms + (int64_t)(j->deadline * 1000) + 2 * MPIRUN_MS + SLACK_MS)
        check_bad("launch ends %" PRId64 " ms after that", out->ended_ms - out->said_ms);
    if (last->lost != may_begin_again(line + 7))
        check_bad("launch may%s begin again", last->lost ? "" : " not");
}

/* ---- Attempts ---- */

/* What it says in front of an attempt. */
static void judge_begin(int64_t round)
{
    const job *j = run.j;
    const outcome *last = &run.out->last;
    const char *text = news(), *s = "s are";
    char want[LINE + 4096] = "";
    long long repeated = last->rounds > round ? last->rounds - round : 0;
    if (run.again > j->restarts || (run.again > 0 && !last->lost))
        check_bad("launch begins again, number %d of %d", run.again, j->restarts);
    if (round < run.past->promised || round > run.past->begun)
        check_bad("launch begins with round %" PRId64 ", and %" PRId64 " must be there, %" PRId64
                  " were begun", round, run.past->promised, run.past->begun);
    if (run.again > 0 && last->rounds > run.past->begun)
        check_bad("launch knows of %lld rounds", last->rounds);
    if (run.again == 0 && round > 0)
        snprintf(want, sizeof want, "kvctl: the job goes on from %s, where %lld round%s done\n",
                 run.file, (long long)round, round == 1 ? " is" : s);
    else if (run.again > 0 && round > 0)
        snprintf(want, sizeof want,
                 "kvctl: restart %d of %d from %s at round %lld: %lld round%s repeated\n",
                 run.again, j->restarts, run.file, (long long)round, repeated,
                 repeated == 1 ? " is" : s);
    else if (run.again > 0)
        snprintf(want, sizeof want,
                 "kvctl: restart %d of %d from the beginning: %lld round%s repeated\n", run.again,
                 j->restarts, repeated, repeated == 1 ? " is" : s);
    if (strcmp(text, want) != 0)
        check_bad("launch does not say: %s", want);
}

static void launch(void)
{
    run.out->said_ms = -1;
    run.out->last = run.launch();
    run.out->ended_ms = world_now() / 1000000;
}

static void run_world(outcome (*what)(void))
{
    run.launch = what;
    run.attempt(run.j, run.out->attempts, launch);
    run.out->ended = true;
}

const outcome *launcher_attempt(int64_t round, outcome (*what)(void))
{
    launched *out = run.out;
    int status = 0;
    judge_begin(round);
    out->ended = false;
    pid_t pid = run.j->every ? fork() : 0;
    if (pid == 0) {
        run_world(what);
        if (run.j->every)
            _exit(0);
    } else {
        waitpid(pid, &status, 0);
    }
    if (!out->ended)
        raise(WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF ? SIGPROF : SIGABRT);
    out->attempts++;
    out->past_ms += out->ended_ms;
    run.again++;
    return &out->last;
}

int64_t launcher_past_ms(void)
{
    return run.out->past_ms;
}

/* ---- The whole ---- */

int launcher_timeout(const job *j)
{
    return j->what == MISHAP_TIMEOUT ? 1 + (int)j->deadline : 0;
}

/* It ends when no restart is left, or none would help. */
static void judge_end(int code, int rc, const kv_err *e)
{
    const outcome *last = &run.out->last;
    int restarts = run.j->restarts;
    char want[LINE] = "";
    if (rc)
        check_bad("launch fails: %s", e->text);
    if (last->lost && run.again <= restarts)
        check_bad("launch does not begin again, number %d of %d", run.again, restarts);
    if (last->lost && restarts > 0)
        snprintf(want, sizeof want, "kvctl: the job was restarted %d time%s and is given up\n",
                 restarts, restarts == 1 ? "" : "s");
    if (strcmp(news(), want) != 0)
        check_bad("launch does not say at its end: %s", want);
    if (code != last->code)
        check_bad("launch returns exit code %d, and the last attempt ended with %d", code,
                  last->code);
}

void launcher_run(const job *j, const char *folder, job_past *past, launched *out,
                  bool (*attempt)(const job *j, int number, void (*launch)(void)))
{
    run.j = j;
    run.past = past;
    run.out = out;
    run.attempt = attempt;
    char every[16];
    snprintf(run.file, sizeof run.file, "%s/checkpoint.kvs", folder);
    snprintf(every, sizeof every, "%d", (int)j->every);
    launch_options o = {.by = j->hosts > 1 ? LAUNCH_MPI : LAUNCH_LOCAL,
                        .workers = j->workers,
                        .servers = j->servers,
                        .deadline = j->deadline,
                        .timeout = launcher_timeout(j),
                        .checkpoint = j->every ? run.file : NULL,
                        .every = every,
                        .restarts = j->restarts,
                        .elastic = j->elastic,
                        .losses = j->elastic    ? LOSSES_GO_ON
                                  : j->outlives ? LOSSES_ASYNC
                                                : LOSSES_END};
    do {
        kv_err e = {0};
        int code = 0;
        run.again = 0;
        out->past_ms = 0;
        int rc = launch_job(&o, &code, &e);
        judge_end(code, rc, &e);
    } while (j->every && !out->all_well && out->attempts < MOST_ATTEMPTS && !*check_report());
}
