/* kvsim: runs jobs of a simulated cluster, one for each seed, and says which of them did what no
 * job may do.
 *
 *     kvsim [-v] [-x] [-j PROCESSES] [--twice] [--lose] [--forget] [--memory]
 *           [--each SEED [--step N]] COUNT [FIRST]
 *
 * Seeds are those from FIRST, 1, on. -v: a line for each. -x: the first failure ends it. --twice:
 * each runs twice, which must be the same to the bit. --lose: the link of each job loses a record,
 * which shows that the checks look. --forget: so does an exit code that is 0 for the watcher of
 * its rank, whatever it was. --memory: in each job an allocation of a rank fails, which of other
 * jobs is one in fourteen. --each: all are the job of one seed, in which allocation after
 * allocation fails, of each rank, alone and with all behind it; FIRST counts these, and --step
 * takes every N-th. A job that was ended goes on from its checkpoint, by `launch --max-restarts` or
 * by another launch, each attempt in a process of its own.
 */
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../memory.h"
#include "base/kv_assert.h"
#include "check.h"
#include "launcher.h"
#include "process.h"

/* LONGEST_S: seconds of a processor that an attempt may use; $TEST_SECONDS: others. */
enum { MOST_PROCESSES = 64, LONGEST_S = 20 };

/* What the process of a seed tells this one. */
typedef struct result {
    uint64_t sum;
    int64_t us, steps;
    char report[4096];
    launched launch;
} result;

static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("kvsim");
        exit(2);
    }
    return p;
}

/* What the attempts of this process are for. */
static struct {
    const char *folder;
    job_past *past;
    result *r;
} here;

/* In a process of its own, unless there is one attempt alone. */
static bool run_attempt(const job *j, int attempt, void (*launch)(void))
{
    const char *seconds = getenv("TEST_SECONDS");
    result *r = here.r;
    struct itimerval limit = {.it_value.tv_sec = seconds ? atoi(seconds) : LONGEST_S};
    setitimer(ITIMER_PROF, &limit, NULL); /* a machine may be busy with other things */
    bool well = job_run(j, attempt, here.folder, here.past, launch);
    launcher_judge(well);
    r->sum = r->sum * 31 + world_sum();
    r->us += world_now() / 1000;
    r->steps += world_steps();
    if (!*r->report)
        snprintf(r->report, sizeof r->report, "%s", check_report());
    return well;
}

static uint64_t each; /* the seed of --each; 0: none */
static int64_t each_step = 1;

static void draw_job(job *j, uint64_t seed)
{
    job_draw(j, each ? each : seed);
    if (each)
        job_lack_at(j, ((int64_t)seed - 1) * each_step);
}

/* In a process of its own, too. */
static void run_seed(uint64_t seed, const char *folder, job_past *past, result *r)
{
    job j;
    draw_job(&j, seed);
    *past = (job_past){0};
    *r = (result){0};
    here.folder = folder;
    here.past = past;
    here.r = r;
    kv_assert_on_failure(check_assertion);
    world_keep();
    launcher_run(&j, folder, past, &r->launch, run_attempt);
    if (!*r->report)
        snprintf(r->report, sizeof r->report, "%s", check_report());
    _exit(0);
}

/* ---- Many ---- */

typedef struct slot {
    pid_t pid;
    uint64_t seed, sum;
    bool again; /* the second run of a seed */
    char folder[64];
    job_past *past;
    result *r;
} slot;

static struct {
    bool verbose, twice, stops;
    int64_t passed, failed, us, steps;
} all;

static void tell(const slot *s, int status)
{
    char what[512], why[4200];
    job j;
    draw_job(&j, s->seed);
    job_describe(&j, what, sizeof what);
    snprintf(why, sizeof why, "%s", s->r->report);
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "# ended by signal %d%s\n", WTERMSIG(status),
                 WTERMSIG(status) == SIGPROF ? ": it does not end" : "");
    else if (s->again && s->r->sum != s->sum)
        snprintf(why, sizeof why, "# the second run was another one\n");
    bool fine = !*why;
    all.passed += fine;
    all.failed += !fine;
    all.us += s->r->us;
    all.steps += s->r->steps;
    if (!fine || all.verbose)
        printf("%s %" PRIu64 " - %s; %d attempts, %" PRId64 " us, %" PRId64 " steps, %016" PRIx64
               "\n%s",
               fine ? "ok" : "not ok", s->seed, what, s->r->launch.attempts, s->r->us, s->r->steps,
               s->r->sum, why);
    if (!fine)
        fputs(s->r->launch.said, stdout);
    fflush(stdout);
}

static void start(slot *s)
{
    mkdtemp(memory_path(s->folder, sizeof s->folder, "kvsim"));
    s->pid = fork();
    if (s->pid == 0)
        run_seed(s->seed, s->folder, s->past, s->r);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Returns whether the seed is done: not if it runs once more. */
static bool finish(slot *s, int status)
{
    nftw(s->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    bool fine = !WIFSIGNALED(status) && !*s->r->report;
    if (all.twice && fine && !s->again) {
        s->sum = s->r->sum;
        s->again = true;
        start(s);
        return false;
    }
    tell(s, status);
    s->pid = 0;
    s->again = false;
    return true;
}

int main(int argc, char **argv)
{
    static slot slots[MOST_PROCESSES];
    int processes = (int)sysconf(_SC_NPROCESSORS_ONLN), i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        all.verbose |= strcmp(argv[i], "-v") == 0;
        all.stops |= strcmp(argv[i], "-x") == 0;
        all.twice |= strcmp(argv[i], "--twice") == 0;
        if (strcmp(argv[i], "--lose") == 0)
            job_lose_records();
        if (strcmp(argv[i], "--forget") == 0)
            process_forget_codes();
        if (strcmp(argv[i], "--memory") == 0)
            job_lack_memory();
        if (strcmp(argv[i], "--each") == 0 && i + 1 < argc)
            each = strtoull(argv[++i], NULL, 10);
        if (strcmp(argv[i], "--step") == 0 && i + 1 < argc)
            each_step = strtoll(argv[++i], NULL, 10);
        if (strcmp(argv[i], "-j") == 0 && i + 1 < argc)
            processes = atoi(argv[++i]);
    }
    uint64_t n = i < argc ? strtoull(argv[i], NULL, 10) : 1;
    uint64_t next = i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : 1, end = next + n;
    processes = processes < 1 ? 1 : processes > MOST_PROCESSES ? MOST_PROCESSES : processes;
    for (int k = 0; k < processes; k++) {
        slots[k].past = shared(sizeof(job_past));
        slots[k].r = shared(sizeof(result));
    }
    int running = 0, status;
    for (;;) {
        end = all.stops && all.failed ? next : end;
        for (int k = 0; k < processes && next < end; k++) {
            if (slots[k].pid)
                continue;
            slots[k].seed = next++;
            start(&slots[k]);
            running++;
        }
        if (!running)
            break;
        pid_t pid = wait(&status);
        for (int k = 0; k < processes; k++)
            if (slots[k].pid == pid)
                running -= finish(&slots[k], status);
    }
    printf("# %.3f s of virtual time, %" PRId64 " steps\n%" PRId64 " passed, %" PRId64 " failed\n",
           (double)all.us / 1e6, all.steps, all.passed, all.failed);
    return all.failed > 0;
}
