/* The judge of a simulated job: it compares what workers pull, and how ranks end, with what the job
 * allows (check.h).
 *
 * A value that was pulled is read as a number to the base 16: digit w counts the pushes of worker w
 * that are in it (job.h). may_see says how many these may be; may_fail and check_failed say which
 * ends a mishap may cause. A new mishap needs a line in may_fail. */
#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "launcher.h"

static struct {
    const job *j;
    job_past *past;
    bool last; /* attempt: nothing goes wrong */
    int64_t start;
    bool started;
    bool joined; /* the spare has, */
    int64_t joined_at; /* before this round + 1 */
    bool struck_joined; /* the mishap came when all ranks had joined */
    int64_t seen[MOST_WORKERS][MOST_KEYS][MOST_WORKERS]; /* by a worker, of a key, of a worker */
    ending how[MOST_RANKS];
    kv_err why[MOST_RANKS];
    int64_t at_ns[MOST_RANKS];
    char report[4096];
    int bads;
} check;

void check_bad(const char *fmt, ...)
{
    va_list args;
    size_t n = strlen(check.report);
    if (check.bads++ >= 8)
        return;
    n += (size_t)snprintf(check.report + n, sizeof check.report - n, "# %" PRId64 " us: ",
                          world_now() / 1000);
    va_start(args, fmt);
    vsnprintf(check.report + n, sizeof check.report - n - 1, fmt, args);
    va_end(args);
    strcat(check.report, "\n");
}

const char *check_report(void)
{
    return check.report;
}

void check_assertion(const char *report)
{
    check_bad("%s", report);
}

void check_open(const job *j, int attempt, job_past *past)
{
    check.j = j;
    check.past = past;
    check.last = attempt >= j->strikes || j->what == MISHAP_NONE;
    check.report[0] = '\0';
}

/* ---- Rounds ---- */

void check_start(int rank, int64_t round)
{
    if (check.started && round != check.start)
        check_bad("rank %d goes on from round %" PRId64 ", another one from %" PRId64, rank, round,
                  check.start);
    check.started = true;
    check.start = round;
    if (round < check.past->promised)
        check_bad("the job goes on from round %" PRId64 ", and the file held %" PRId64, round,
                  check.past->promised);
    if (round > check.past->begun)
        check_bad("the job goes on from round %" PRId64 ", and %" PRId64 " were begun", round,
                  check.past->begun);
    check.past->promised = round;
}

/* Rank 0 has begun that round, or is about to. */
void check_joined(int rank, int64_t round)
{
    if (round < check.start || round > check.past->begun)
        check_bad("rank %d joins at round %" PRId64 ", and %" PRId64 " to %" PRId64
                  " were begun", rank, round, check.start, check.past->begun);
    check.joined = true;
    check.joined_at = round;
}

void check_begins(int rank, int64_t round)
{
    (void)rank;
    if (round > check.past->begun)
        check.past->begun = round;
}

/* Rank 0 has begun round k * every + 1: the file of round k * every is being written, and the one
 * before is complete. */
void check_pushed(int rank, int64_t round)
{
    const job *j = check.j;
    if (rank == 0 && j->every && j->what != MISHAP_DISK && j->what != MISHAP_MEMORY &&
        round - 1 - check.past->promised >= 2 * j->every)
        check.past->promised += j->every;
}

/* ---- Values ---- */

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A push that a server has no memory to apply leaves the key as it is. Its worker is told, and the
 * others, which do not wait for it, go on. */
static bool pushes_may_fail(const job *j)
{
    return j->what == MISHAP_MEMORY && (j->servers == 0 || j->who >= j->workers);
}

/* The worker that the others may go on without. */
static bool is_elastic(int w)
{
    return check.j->elastic && w == check.j->who && !check.last;
}

/* The pushes of the first n rounds that the worker made, of which a spare has none at first. */
static int64_t made(int w, int64_t n)
{
    if (!check.j->grows || w != check.j->workers - 1)
        return n;
    return check.joined && n > check.joined_at ? n - check.joined_at : 0;
}

/* The pushes of a worker that a pull sees: from *least to *most. */
static void may_see(int rank, int key, int64_t own, bool all, int w, int64_t *least, int64_t *most)
{
    const job *j = check.j;
    int64_t last = j->leaves[w];
    *least = *most = at_most(own, last);
    if (is_elastic(w)) { /* what it had pushed when it was lost, if it was */
        *least = 0;
        *most = all || (j->is_async && w != rank) ? last : *most;
    } else if (all) {
        *least = *most = last;
    } else if (j->is_async && w != rank) {
        bool bounded = j->staleness >= 0 && !pushes_may_fail(j);
        int64_t bound = bounded ? at_most(own - j->staleness, last) : 0;
        *least = at_least(bound, check.seen[rank][key][w]);
        *most = last;
    }
}

/* Without an updater the value is the sum of the last round: a digit of it says which. */
static int64_t assigned(int64_t own, int64_t last)
{
    return own > 0 && own <= last ? own : 0;
}

static double element(const kv_array *a, const void *data, int64_t i)
{
    return kv_array_dtype(a) == KV_FLOAT64 ? ((const double *)data)[i] : ((const float *)data)[i];
}

/* The codes of n pushes of 5/8: each stands for 1 as soon as the pushes have come to one more. */
static int64_t codes_of(int64_t n)
{
    return n * 5 / 8;
}

/* The sum of all workers' codes, between those of the pushes that a pull must see and may see. */
static bool fits_codes(int rank, int key, int64_t own, bool all, double x)
{
    const job *j = check.j;
    int64_t least = 0, most = 0, a, b;
    for (int w = 0; w < j->workers; w++) {
        may_see(rank, key, own, all, w, &a, &b);
        if (j->assigns) {
            int64_t round = all ? j->rounds : own;
            a = b = round > 0 && round <= j->leaves[w] ? codes_of(round) - codes_of(round - 1) : 0;
            least += a;
            most += b;
        } else {
            least += codes_of(a);
            most += codes_of(b);
        }
    }
    return x >= (double)least && x <= (double)most && x == (double)(int64_t)x;
}

/* The first element that is wrong is told, and no other one. */
void check_pulled(int rank, int key, int64_t own, bool all, const kv_array *a)
{
    const job *j = check.j;
    const void *data = NULL;
    kv_err e = {0};
    if (kv_array_read((kv_array *)(uintptr_t)a, &data, &e)) {
        check_bad("rank %d cannot read what it has pulled: %s", rank, e.text);
        return;
    }
    bool first = all ? j->rounds <= j->leaves[0] : own <= j->leaves[0]; /* worker 0 pushed it */
    bool counted = kv_array_dtype(a) == KV_FLOAT64 && (!j->assigns || first);
    enum { TURNS = 3 /* of job_pushes_of, which has no more cases of an element */ };
    double passed[TURNS] = {NAN, NAN, NAN}; /* what was fine there before */
    int64_t seen[MOST_WORKERS];
    memcpy(seen, check.seen[rank][key], sizeof seen);
    for (int64_t i = 0; i < kv_array_size(a); i++) {
        double x = element(a, data, i);
        if (counted)
            x -= (double)i * 0x1p24; /* what the element began with */
        if (x == passed[i % TURNS])
            continue;
        int64_t digits = x >= 0 && x < 0x1p24 ? (int64_t)x : -1;
        bool fine = digits >= 0 && (double)digits == x;
        if (j->compresses) {
            fine = fits_codes(rank, key, own, all, x);
            digits = fine ? 0 : digits;
        }
        for (int w = 0; w < j->workers && fine && !j->compresses; w++) {
            int64_t n = digits >> 4 * w & 15, least, most;
            may_see(rank, key, own, all, w, &least, &most);
            if (j->sparse[key]) {
                int64_t before = job_pushes_of(w, i, least - made(w, least));
                least = job_pushes_of(w, i, least) - before;
                most = job_pushes_of(w, i, most) - before;
            } else {
                least = made(w, least);
                most = made(w, most);
            }
            if (j->assigns) {
                most = assigned(all ? j->rounds : own, j->leaves[w]);
                most = made(w, most) ? most : 0;
                least = is_elastic(w) ? 0 : most;
            }
            fine = n >= least && n <= most;
            seen[w] = at_least(seen[w], n);
        }
        if (fine && digits >> 4 * j->workers == 0) {
            passed[i % TURNS] = x;
            continue;
        }
        check_bad("rank %d pulled %" PRIx64 " (%g) as element %" PRId64 " of key %d, after %" PRId64
                  " pushes of its own%s",
                  rank, (uint64_t)digits, x, i, key, own, all ? ", when all were done" : "");
        return;
    }
    if (j->is_async && !j->compresses && !j->sparse[key])
        for (int w = 0; w < j->workers; w++) /* parts may differ: what all elements have */
            check.seen[rank][key][w] = all ? seen[w] : check.seen[rank][key][w];
}

/* ---- Ends ---- */

void check_ended(int rank, ending how, const kv_err *e)
{
    check.how[rank] = how;
    check.at_ns[rank] = world_now();
    if (e)
        check.why[rank] = *e;
}

ending check_ending(int rank)
{
    return check.how[rank];
}

const kv_err *check_why(int rank)
{
    return &check.why[rank];
}

int64_t check_end_ms(int rank)
{
    return check.at_ns[rank] / 1000000;
}

bool check_strikes(void)
{
    return !check.last;
}

/* Returns whether this mishap may end the job. */
static bool may_fail(void)
{
    switch (check.j->what) {
    case MISHAP_NONE:
    case MISHAP_STALL:
    case MISHAP_CUT:
    case MISHAP_BUSY:
    case MISHAP_DISK:
    case MISHAPS:
        return false;
    case MISHAP_SILENT:
    case MISHAP_SPLIT:
    case MISHAP_KILL:
    case MISHAP_FAIL:
    case MISHAP_MEMORY:
    case MISHAP_HOST:
    case MISHAP_WATCHER:
    case MISHAP_MPIRUN:
    case MISHAP_START:
    case MISHAP_SIGNAL:
    case MISHAP_DEADLOCK:
        return !check.last;
    case MISHAP_TIMEOUT: /* over a slow link a job takes longer without a mishap, too */
        return true;
    }
    return false;
}

void check_struck(bool joined)
{
    check.struck_joined = joined;
}

bool check_goes_on(void)
{
    const job *j = check.j;
    bool others = j->elastic && !check.last;
    for (int r = 0; r < j->workers + j->servers; r++)
        others &= r == j->who || check.how[r] == WELL;
    return others;
}

/* Returns whether launch ends ranks before they have ended by themselves. */
static bool ends_ranks(void)
{
    mishap what = check.j->what;
    return what == MISHAP_HOST || what == MISHAP_MPIRUN || what == MISHAP_START ||
           what == MISHAP_SIGNAL;
}

/* Who is to blame: the rank that was struck, or one of a host that was cut off. */
static bool is_to_blame(int rank)
{
    const job *j = check.j;
    bool is_rank = rank >= 0 && rank < j->workers + j->servers;
    if (j->what == MISHAP_MEMORY && is_rank && check.why[rank].code == KV_E_MEMORY)
        return true; /* a program to which the struck rank said that it has no memory */
    if (j->what == MISHAP_HOST)
        return is_rank ? rank % j->hosts == j->who : job_strikes_early(j);
    if (j->what == MISHAP_MPIRUN || j->what == MISHAP_START || j->what == MISHAP_SIGNAL ||
        j->what == MISHAP_DEADLOCK || (j->what == MISHAP_TIMEOUT && rank != j->who))
        return rank == -1; /* nobody is */
    return j->what == MISHAP_SPLIT ? is_rank : rank == j->who;
}

/* A rank that was not struck fails with the sentence about the one that was. */
static void check_failed(int rank)
{
    const job *j = check.j;
    const kv_err *e = &check.why[rank];
    bool own = is_to_blame(rank) &&
               (j->what == MISHAP_FAIL || j->what == MISHAP_MEMORY || j->what == MISHAP_SILENT);
    bool memory = j->what == MISHAP_MEMORY && e->code == KV_E_MEMORY;
    if (own || memory)
        return;
    if (e->code != KV_E_PEER)
        check_bad("rank %d failed with error[%s]: %s", rank, kv_code_name(e->code), e->text);
    else if (!is_to_blame(e->has_rank ? e->rank : -1))
        check_bad("rank %d blames rank %d, and it was rank %d: %s", rank,
                  e->has_rank ? e->rank : -1, j->who, e->text);
}

/* The time until which all ranks know of a loss. Behind a link that is cut launch tells nobody, and
 * a rank may miss only one that has ended because it missed another one. */
static void check_time(int rank)
{
    const job *j = check.j;
    double deadlines = j->what == MISHAP_SPLIT && j->hosts > 2 ? 2.5 : 1.5;
    int64_t slack_ns = (int64_t)(j->deadline * deadlines * 1e9) + 2000000000;
    bool silent = j->what == MISHAP_SILENT && is_to_blame(rank);
    int64_t latest = j->when_ns + slack_ns + (silent ? j->how_long_ns : 0);
    if (j->what == MISHAP_START)
        latest += j->how_long_ns;
    if (j->what == MISHAP_TIMEOUT)
        latest += launcher_timeout(j) * INT64_C(1000000000);
    bool timed = j->what != MISHAP_MEMORY && j->what != MISHAP_DEADLOCK;
    if (check.how[rank] == FAILED && timed && check.at_ns[rank] > latest)
        check_bad("rank %d failed %" PRId64 " ms late", rank,
                  (check.at_ns[rank] - latest) / 1000000);
}

bool check_job(bool deadlock)
{
    const job *j = check.j;
    bool well = true;
    if (deadlock)
        check_bad("a deadlock");
    for (int r = 0; r < j->workers + j->servers; r++) {
        ending how = check.how[r];
        well &= how == WELL;
        if (how == RUNNING)
            check_bad("rank %d has not ended", r);
        else if (how != WELL && !may_fail())
            check_bad("rank %d %s: %s", r, how == FAILED ? "failed" : "was ended",
                      check.why[r].text);
        else if (how == STOPPED && sim_link_joined() && !sim_link_leaves(r) && !is_to_blame(r) &&
                 !ends_ranks())
            check_bad("rank %d had joined, did not end by itself, and the launcher killed it", r);
        if (how == FAILED && may_fail())
            check_failed(r);
        if (may_fail())
            check_time(r);
    }
    if (j->elastic && j->what == MISHAP_KILL && check.struck_joined && !check_goes_on())
        check_bad("all had joined, and the others did not go on without rank %d", j->who);
    return well && !deadlock;
}
