/* Draws a job, and runs its ranks, its launcher and its mishap as fibers (world.h).
 *
 * Ranks are programs like those of users: they make a store and its keys, and each round pushes
 * all keys in an order of its own. What was pulled is looked at behind the pushes of a round, since
 * a program that waits for a round between its pushes may wait for a worker that waits for it. */
#include "job.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "calls.h"
#include "check.h"
#include "distributed/environment.h"
#include "distributed/net.h"
#include "kvstore.h"
#include "process.h"
#include "rank.h"
#include "term/terminal.h"
#include "visit.h"

enum { OUTS = 3 * MOST_KEYS, LONGEST_S = 400 };

/* ---- Drawing ---- */

static uint64_t state;

/* Numbers of the job, apart from those of the world: the n-th draw does not hang on the order in
 * which fibers go on. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int64_t draw(int64_t n)
{
    return (int64_t)(mix(state += 0x9e3779b97f4a7c15u) % (uint64_t)n);
}

/* From least to most, small ones as often as large ones. */
static int64_t draw_scale(int64_t least, int64_t most)
{
    int64_t x = least;
    while (x < most && draw(3))
        x *= 2;
    x += draw(x);
    return x < most ? x : most;
}

enum {
    COMPUTES_NS = 100000000, /* of rank 0 before a round, at most, in a job that grows */
    LATE_NS = 400000000      /* for which a rank waits that finds another one gone: see alive.c */
};

static void draw_type(job *j)
{
    static const char *const types[] = {"dist_sync", "dist_sync", "dist_async", "dist_async",
                                        "dist_device_sync", "horovod"};
    int which = (int)draw(6);
    j->type = types[which];
    j->is_async = which == 2 || which == 3;
    j->sums = which == 5;
    j->assigns = j->sums || (!j->is_async && draw(4) == 0);
    j->compresses = !j->sums && draw(5) == 0;
    j->staleness = j->is_async && draw(2) ? (int)draw(4) : -1;
    j->named = draw(2);
    if (j->sums)
        j->servers = 0;
}

static bool lacks_memory;

void job_lack_memory(void)
{
    lacks_memory = true;
}

void job_lack_at(job *j, int64_t k)
{
    int ranks = j->workers + j->servers;
    j->what = MISHAP_MEMORY;
    j->who = (int)(k % ranks);
    j->nth = 1 + k / ranks / 2;
    if (k / ranks % 2)
        j->nth = -j->nth;
}

static void draw_mishap(job *j)
{
    int ranks = j->workers + j->servers;
    int64_t deadline_ns = (int64_t)(j->deadline * 1e9);
    j->what = draw(3) ? (mishap)draw(MISHAP_DISK + 1) : MISHAP_NONE;
    if (lacks_memory)
        j->what = MISHAP_MEMORY;
    if (j->hosts == 1 && (j->what == MISHAP_CUT || j->what == MISHAP_SPLIT))
        j->what = MISHAP_KILL;
    if (j->what == MISHAP_DISK && !j->every)
        j->what = MISHAP_NONE;
    bool worker = j->what == MISHAP_FAIL || j->what == MISHAP_BUSY;
    j->who = (int)draw(worker ? j->workers : ranks);
    if (j->what == MISHAP_CUT || j->what == MISHAP_SPLIT)
        j->who = (int)draw(j->hosts);
    j->when_ns = draw_scale(100000, 200000000);
    bool longer = j->what == MISHAP_SILENT || j->what == MISHAP_SPLIT || j->what == MISHAP_BUSY;
    j->how_long_ns = longer ? deadline_ns * 3 / 2 + draw(deadline_ns) : draw(deadline_ns / 2);
    j->nth = worker ? 1 + draw(j->rounds) : draw_scale(1, 1000);
    if (lacks_memory && draw(4))
        j->nth = 1 + draw(2000); /* also those of the last rounds, and behind them */
    if (j->what == MISHAP_MEMORY && draw(2))
        j->nth = -j->nth;
}

/* Of what concerns launch. These draws are apart, so that they change nothing else of a seed. */
static void draw_launch(job *j)
{
    int64_t deadline_ns = (int64_t)(j->deadline * 1e9);
    state = mix(j->seed * 0x9fb21c651e98df25u + 2);
    j->strikes = draw(3) ? 1 : 1 + (int)draw(MOST_ATTEMPTS);
    j->restarts = j->every ? (int)draw(MOST_ATTEMPTS) : 0;
    if (j->what != MISHAP_NONE || lacks_memory || draw(3))
        return;
    j->what = (mishap)(MISHAP_HOST + draw(MISHAP_TIMEOUT + 1 - MISHAP_HOST));
    if (j->what == MISHAP_HOST && j->hosts == 1)
        j->what = MISHAP_WATCHER;
    j->who = (int)draw(j->what == MISHAP_TIMEOUT ? j->workers : j->workers + j->servers);
    if (j->what == MISHAP_HOST)
        j->who = 1 + (int)draw(j->hosts - 1); /* launch is on host 0 */
    j->nth = j->what == MISHAP_SIGNAL ? (draw(2) ? SIGINT : SIGTERM) : 1 + draw(j->rounds);
    j->how_long_ns = deadline_ns * 3 / 2 + draw(deadline_ns);
}

/* Jobs that go on without a worker: no codes, whose sums say less, and no checkpoints. */
static void draw_elastic(job *j)
{
    state = mix(j->seed * 0xd6e8feb86659fd93u + 3);
    bool struck = j->what == MISHAP_NONE || j->what == MISHAP_KILL || j->what == MISHAP_SILENT;
    if (j->servers == 0 || j->workers == 1 || !struck || j->sums || j->compresses || j->every ||
        lacks_memory || draw(2))
        return;
    j->elastic = true;
    j->who = 1 + (int)draw(j->workers - 1);
    if (j->what != MISHAP_SILENT)
        j->what = MISHAP_KILL;
}

/* A rank that is slow to see that all have joined, and an MPI with ULFM. */
static void draw_late(job *j)
{
    state = mix(j->seed * 0x8ebc6af09c88c6e3u + 6);
    j->outlives = j->servers > 0 && j->hosts == 1 && !j->is_async && draw(2);
    j->late = j->grows ? j->workers - 1 : (int)draw(j->workers + j->servers);
    bool killed = j->elastic && j->what == MISHAP_KILL;
    if ((j->what == MISHAP_NONE || killed) && draw(2))
        j->late_ns = draw(killed ? LATE_NS : (int64_t)(j->deadline * 1e9) / 2);
}

/* Programs that wait for each other. */
static void draw_deadlock(job *j)
{
    state = mix(j->seed * 0xe7037ed1a0b428dbu + 5);
    bool all_stay = true;
    for (int w = 0; w < j->workers; w++)
        all_stay &= j->leaves[w] == j->rounds;
    if (j->what != MISHAP_NONE || j->workers == 1 || j->is_async || j->elastic || j->grows ||
        !all_stay || lacks_memory || draw(3))
        return;
    j->what = MISHAP_DEADLOCK;
    j->who = (int)draw(j->workers);
    j->nth = 1 + draw(j->rounds);
    j->strikes = 1;
}

/* Jobs that a worker joins. */
static void draw_grows(job *j)
{
    state = mix(j->seed * 0xa0761d6478bd642fu + 4);
    bool goes_on = j->what == MISHAP_NONE || j->what == MISHAP_STALL || j->what == MISHAP_CUT;
    if (j->servers == 0 || j->workers == 1 || !goes_on || j->sums || j->is_async ||
        j->compresses || j->leaves[j->workers - 1] < j->rounds || draw(3) == 0)
        return;
    j->grows = true;
    j->grows_ns = draw(j->rounds * COMPUTES_NS / 2);
}

void job_draw(job *j, uint64_t seed)
{
    *j = (job){.seed = seed};
    state = mix(seed * 0x632be59bd9b4e019u + 1);
    j->workers = 1 + (int)draw(draw(3) ? 3 : MOST_WORKERS);
    j->servers = draw(3) ? 0 : 1 + (int)draw(MOST_RANKS - MOST_WORKERS);
    j->hosts = 1 + (int)draw(3);
    if (j->hosts > j->workers + j->servers)
        j->hosts = 1;
    j->nkeys = 1 + (int)draw(MOST_KEYS);
    j->rounds = 1 + (int)draw(draw(4) ? 5 : MOST_ROUNDS);
    draw_type(j);
    for (int k = 0; k < j->nkeys; k++) {
        j->size[k] = draw(12) ? draw_scale(1, 300) : draw_scale(10000, 100000);
        j->dtype[k] = draw(2) && !j->compresses ? KV_FLOAT64 : KV_FLOAT32;
        j->sparse[k] = !j->compresses && !j->assigns && draw(4) == 0;
    }
    for (int w = 0; w < j->workers; w++)
        j->leaves[w] = j->rounds;
    j->deadline = 1 + (double)draw(10);
    j->ahead = draw(3) ? 0 : draw_scale(1000, 1000000);
    bool keeps = !j->is_async && !j->sums && !(j->assigns && j->compresses);
    j->every = keeps && draw(3) == 0 ? 1 + draw(4) : 0;
    if (!j->every && !j->sums && draw(4) == 0)
        j->leaves[draw(j->workers)] = (int)draw(j->rounds + 1);
    j->near = (link_costs){200 + draw(3000), 50 + draw(1000), 0.05 + 0.01 * (double)draw(50),
                           draw_scale(2000, 1 << 20)};
    j->far = (link_costs){draw_scale(2000, 20000000), 200 + draw(5000),
                          0.1 + 0.1 * (double)draw(50), draw_scale(2000, 4 << 20)};
    j->costs = (world_costs){.jitter_ns = draw_scale(1000, 100000), .call_ns = 20 + draw(100),
                             .stack_bytes = 256 << 10};
    draw_mishap(j);
    draw_launch(j);
    draw_elastic(j);
    draw_grows(j);
    draw_deadlock(j);
    draw_late(j);
}

void job_describe(const job *j, char *text, size_t size)
{
    static const char *const names[MISHAPS] = {"nothing goes wrong", "stall", "silent", "cut",
                                               "split", "kill", "fail", "busy", "memory", "disk",
                                               "host", "watcher", "mpirun", "start", "signal",
                                               "timeout", "deadlock"};
    int n = snprintf(text, size,
                     "%s%s%s, %d workers, %d servers, %d hosts, %d keys, %d rounds, staleness %d, "
                     "ahead %" PRId64 ", checkpoint every %" PRId64 ", deadline %g s; %s%s%s",
                     j->type, j->assigns && !j->sums ? " without updater" : "",
                     j->compresses ? " of codes" : "", j->workers, j->servers, j->hosts,
                     j->nkeys, j->rounds, j->staleness, j->ahead, j->every, j->deadline,
                     j->elastic ? "elastic, " : "", j->grows ? "grows, " : "", names[j->what]);
    if (j->what != MISHAP_NONE && n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n,
                 " of %d at %" PRId64 " us for %" PRId64 " us, n %" PRId64
                 ", %d times, restarts %d",
                 j->who, j->when_ns / 1000, j->how_long_ns / 1000, j->nth, j->strikes, j->restarts);
}

/* The job that this process runs. */
static struct {
    const job *j;
    int attempt;
    bool strikes; /* the mishap does, in this attempt */
    const char *folder, *run_dirs[MOST_RANKS];
    void (*launch)(void);
    bool launch_ended;
    int64_t waits_ns; /* MISHAP_DEADLOCK: when the last worker began to wait */
} here;

/* ---- The program of a worker ---- */

typedef struct program {
    const job *j;
    kv *store;
    int rank, attempt;
    int64_t start, pushed[MOST_KEYS]; /* rounds */
    kv_key keys[MOST_KEYS];
    uint64_t own; /* draws of this worker */
    struct out {
        kv_array *a;
        int key;
        int64_t pushed;
    } outs[OUTS];
    int nouts;
    kv_err e;
} program;

static int64_t own_draw(program *p, int64_t n)
{
    return (int64_t)(mix(p->own += 0x9e3779b97f4a7c15u) % (uint64_t)n);
}

/* A new array of a key whose elements are all x. With `first`, element i of a float64 key has
 * i * 2^24 added, so that the check sees an element in the wrong place. */
static kv_array *filled(program *p, int key, double x, bool first)
{
    const job *j = p->j;
    kv_array *a = NULL;
    void *data = NULL;
    if (kv_array_new(&a, j->dtype[key], 1, &j->size[key], (kv_ctx){0}, &p->e) ||
        kv_array_write(a, &data, &p->e)) {
        kv_array_unref(a);
        return NULL;
    }
    for (int64_t i = 0; i < j->size[key]; i++)
        if (j->dtype[key] == KV_FLOAT64)
            ((double *)data)[i] = x + (first ? (double)i * 0x1p24 : 0);
        else
            ((float *)data)[i] = (float)x;
    return a;
}

/* The rows of a sparse key that this worker pushes in a round (job_pushes). All elements are x. */
static kv_array *some_rows(program *p, int key, int64_t round, double x)
{
    const job *j = p->j;
    kv_array *a = NULL;
    void *data = NULL;
    int64_t n = 0, *ids = mem_alloc(j->size[key], sizeof *ids, &p->e);
    for (int64_t i = 0; ids && i < j->size[key]; i++)
        if (job_pushes(p->rank, i, round))
            ids[n++] = i;
    int rc = !ids || kv_array_new_sparse(&a, j->dtype[key], 1, &j->size[key], n, ids, (kv_ctx){0},
                                         &p->e);
    if (!rc && kv_array_write_rows(a, &data, &p->e)) {
        kv_array_unref(a);
        a = NULL;
    }
    for (int64_t i = 0; a && i < n; i++)
        if (j->dtype[key] == KV_FLOAT64)
            ((double *)data)[i] = x;
        else
            ((float *)data)[i] = (float)x;
    mem_free(ids);
    return a;
}

static int make_store(program *p)
{
    const job *j = p->j;
    char bound[16];
    snprintf(bound, sizeof bound, "%d", j->staleness);
    kv_opt staleness = {"staleness", bound};
    int rc = kv_create(j->type, &staleness, j->staleness >= 0, &p->store, &p->e);
    const kv_opt codes[] = {{"type", "2bit"}, {"threshold", "1"}};
    if (!rc && j->compresses)
        rc = kv_set_gradient_compression(p->store, codes, 2, &p->e);
    if (!rc && !j->assigns)
        rc = kv_set_optimizer(p->store, "test", &(kv_opt){"rescale_grad", "1"}, 1, &p->e);
    return rc;
}

static kv_array *new_out(program *p, int key)
{
    struct out *o = &p->outs[p->nouts];
    o->a = filled(p, key, -1, false);
    o->key = key;
    o->pushed = p->pushed[key];
    p->nouts += o->a != NULL;
    return o->a;
}

/* Makes the keys of a type that keeps no values, such as horovod. */
static int broadcast(program *p, kv_array **first, int rc)
{
    const job *j = p->j;
    for (int k = 0; k < j->nkeys; k++) {
        kv_array *out = rc ? NULL : new_out(p, k);
        rc = rc ? rc : p->e.code;
        if (!rc)
            rc = kv_broadcast(p->store, &p->keys[k], 1, &first[k], &p->keys[k], 1, &out, NULL,
                              &p->e);
        kv_array_unref(first[k]);
    }
    return rc;
}

/* Makes the keys. The other workers give wrong first values, since only those of worker 0 count. */
static int make_keys(program *p)
{
    const job *j = p->j;
    static const char *const names[MOST_KEYS] = {"embedding", "w", "b.1", "head"};
    kv_array *first[MOST_KEYS] = {NULL};
    int rc = KV_OK;
    for (int k = 0; k < j->nkeys && !rc; k++) {
        p->keys[k] = (kv_key){.id = j->named ? 0 : 7 * k, .name = j->named ? names[k] : NULL};
        first[k] = filled(p, k, p->rank == 0 ? 0 : 99, true);
        rc = first[k] ? KV_OK : p->e.code;
    }
    bool together = p->j->seed % 2;
    if (j->sums)
        return broadcast(p, first, rc);
    if (!rc && together)
        rc = kv_init(p->store, p->keys, j->nkeys, first, NULL, &p->e);
    for (int k = 0; k < j->nkeys && !rc && !together; k++)
        rc = kv_init(p->store, &p->keys[k], 1, &first[k], NULL, &p->e);
    kv_info info = {0};
    for (int k = 0; k < j->nkeys && !rc; k++) {
        rc = kv_find(p->store, &p->keys[k], &info, &p->e);
        p->pushed[k] = info.pushes;
        if (k > 0 && info.pushes != p->start)
            check_bad("rank %d: key %d begins with round %" PRId64 ", key 0 with %" PRId64, p->rank,
                      k, info.pushes, p->start);
        p->start = info.pushes;
    }
    for (int k = 0; k < j->nkeys; k++)
        kv_array_unref(first[k]);
    return rc;
}

/* Replaces the error of an array whose value did not come by that of the store, which names the
 * rank that was lost. */
static void ask_why(program *p)
{
    kv_err e = {0};
    if (p->store && p->e.code == KV_E_PEER && !p->e.has_rank && kv_wait(p->store, &e))
        p->e = e;
}

static int look_at_outs(program *p, bool all)
{
    int rc = KV_OK;
    for (int i = 0; i < p->nouts; i++) {
        const struct out *o = &p->outs[i];
        const void *data;
        if (!rc && !(rc = kv_array_read(o->a, &data, &p->e)) &&
            !(rc = kv_check(p->store, &p->e))) /* a push before it may have failed */
            check_pulled(p->rank, o->key, o->pushed, all, o->a);
        kv_array_unref(o->a);
    }
    p->nouts = 0;
    ask_why(p);
    return rc;
}

static int pull(program *p, int key, bool since)
{
    kv_call how = {.priority = (int32_t)own_draw(p, 5) - 2};
    kv_array *out = p->nouts < OUTS ? new_out(p, key) : NULL;
    int64_t round = KV_NO_ROUND;
    if (!out)
        return p->e.code;
    if (!since)
        return kv_pull(p->store, &p->keys[key], 1, &out, &how, &p->e);
    int rc = kv_pull_since(p->store, &p->keys[key], 1, &out, &round, &how, &p->e);
    if (!rc && !p->j->is_async && round != p->pushed[key])
        check_bad("rank %d: kv_pull_since says round %" PRId64 ", after %" PRId64 " pushes",
                  p->rank, round, p->pushed[key]);
    return rc;
}

static int push(program *p, int key)
{
    const job *j = p->j;
    int64_t round = p->pushed[key] + 1;
    double digit = (double)(1 << 4 * p->rank);
    double x = j->compresses ? 0.625 : j->assigns ? digit * (double)round : digit;
    kv_call how = {.priority = (int32_t)own_draw(p, 5) - 2};
    bool sparse = j->sparse[key];
    int parts = own_draw(p, 4) || sparse ? 1 : 2; /* devices: the second has zeros */
    kv_key keys[2] = {p->keys[key], p->keys[key]};
    kv_array *values[2] = {sparse ? some_rows(p, key, round, x)
                                  : filled(p, key, x, j->assigns && p->rank == 0),
                           parts > 1 ? filled(p, key, 0, false) : NULL};
    int rc = p->e.code;
    bool both = !rc && p->nouts < OUTS && (own_draw(p, 4) == 0 || j->sums);
    check_begins(p->rank, round);
    if (both) {
        p->pushed[key] = round;
        kv_array *out = new_out(p, key);
        rc = out ? kv_pushpull(p->store, keys, parts, values, &p->keys[key], 1, &out, &how, &p->e)
                 : p->e.code;
    } else if (!rc) {
        rc = kv_push(p->store, keys, parts, values, &how, &p->e);
        p->pushed[key] = round;
    }
    if (!rc)
        check_pushed(p->rank, round);
    kv_array_unref(values[0]);
    kv_array_unref(values[1]);
    return rc;
}

/* Every key once, in an order of its own. */
static int run_round(program *p, int64_t round)
{
    const job *j = p->j;
    int order[MOST_KEYS], rc = KV_OK;
    if (j->grows && p->rank == 0) /* which looks for what launch asks ten times a second */
        world_block(NULL, world_now() + own_draw(p, COMPUTES_NS));
    for (int k = 0; k < j->nkeys; k++) {
        int at = (int)own_draw(p, k + 1);
        order[k] = order[at];
        order[at] = k;
    }
    for (int i = 0; i < j->nkeys && !rc; i++) {
        rc = push(p, order[i]);
        if (!rc && own_draw(p, 2) && !j->sums)
            rc = pull(p, order[i], false);
        if (!rc && own_draw(p, 8) == 0)
            world_spend(own_draw(p, 1000000)); /* it computes */
    }
    if (!rc && own_draw(p, 4) == 0 && !j->sums)
        rc = pull(p, (int)own_draw(p, j->nkeys), true);
    if (!rc && own_draw(p, 6) == 0)
        rc = kv_wait(p->store, &p->e);
    if (!rc && own_draw(p, 3))
        rc = look_at_outs(p, false);
    if (!rc && mix(j->seed + (uint64_t)round) % 4 == 0) /* the same rounds on all workers */
        rc = kv_barrier(p->store, &p->e);
    return rc;
}

static bool is_spare(int rank)
{
    return here.j->grows && rank == here.j->workers - 1;
}

/* One worker is at a barrier, the others wait for a round that lacks it, until the library has
 * proven that. */
static int run_deadlock(program *p)
{
    int rc = KV_OK;
    if (p->rank != here.j->who)
        rc = push(p, 0);
    here.waits_ns = world_now();
    if (!rc)
        rc = p->rank == here.j->who ? kv_barrier(p->store, &p->e) : kv_wait(p->store, &p->e);
    if (!rc)
        check_bad("rank %d is not in a deadlock any more", p->rank);
    else if (strncmp(p->e.text, "deadlock: all ranks wait for each other; rank ", 46) != 0)
        check_bad("rank %d does not know of the deadlock: %s", p->rank, p->e.text);
    else if (world_now() - here.waits_ns > INT64_C(5000000000))
        check_bad("the deadlock was proven late");
    return KV_E_PEER;
}

static bool place(void *arg, char *out, size_t room)
{
    const program *p = arg;
    snprintf(out, room, "round %" PRId64, p->pushed[0]);
    return true;
}

static int run_worker(program *p)
{
    const job *j = p->j;
    int rc = make_store(p);
    if (!rc)
        rc = make_keys(p);
    if (!rc && is_spare(p->rank))
        check_joined(p->rank, p->start);
    else if (!rc)
        check_start(p->rank, p->start);
    for (int k = 0; k < j->nkeys && !rc && !j->sums; k++)
        rc = own_draw(p, 2) ? pull(p, k, false) : KV_OK;
    if (!rc && own_draw(p, 2))
        rc = look_at_outs(p, false);
    for (int64_t round = p->start + 1; round <= j->leaves[p->rank] && !rc; round++) {
        bool struck = here.strikes && j->who == p->rank && round == j->nth;
        if (struck && j->what == MISHAP_FAIL)
            return kv_err_set(&p->e, KV_E_ASSERT, "the program fails");
        if (struck && (j->what == MISHAP_BUSY || j->what == MISHAP_TIMEOUT))
            world_block(NULL, world_now() + j->how_long_ns);
        if (here.strikes && j->what == MISHAP_DEADLOCK && round == j->nth)
            return run_deadlock(p);
        rc = run_round(p, round);
        if (!rc && p->nouts > OUTS - 2 * MOST_KEYS)
            rc = look_at_outs(p, false);
    }
    if (!rc)
        rc = look_at_outs(p, false);
    if (!rc)
        rc = kv_wait(p->store, &p->e);
    if (!rc && j->leaves[p->rank] < j->rounds)
        return kv_done(p->store, &p->e);
    if (!rc)
        rc = kv_barrier(p->store, &p->e);
    for (int k = 0; k < j->nkeys && !rc && !j->sums; k++)
        rc = pull(p, k, false);
    rc = rc ? rc : look_at_outs(p, true);
    if (!rc && !j->elastic && !j->grows && visit_drawn(j)) /* which needs all workers */
        rc = visit_run(j, p->store, p->rank, here.folder, &p->e);
    ask_why(p);
    return rc;
}

/* ---- Processes ---- */

static void count_allocations(const world_rank *r)
{
    const job *j = here.j;
    if (here.strikes && j->what == MISHAP_MEMORY && j->who == r->number)
        mem_fail_at(j->nth);
}

static void *run_rank(void *arg)
{
    world_rank *r = arg;
    const job *j = here.j;
    kv_err e = {0};
    bool works = true;
    program p = {.j = j, .rank = r->number, .attempt = here.attempt,
                 .own = mix(j->seed * 31 + (uint64_t)r->number + 1000 * (uint64_t)here.attempt)};
    setenv("KVSTORE_RUN_DIR", here.run_dirs[r->number], 1);
    environment_read(); /* before another rank begins */
    int rc = rank_begin(&e);
    count_allocations(r);
    if (!rc && r->number >= j->workers)
        rc = kv_serve(j->type, &e);
    else if (!rc && (!is_spare(r->number) || !(rc = kv_await_turn(j->type, &works, &e))) && works &&
             (kv_set_script(place, &p, false), rc = run_worker(&p)))
        e = p.e;
    kv_set_script(NULL, NULL, false);
    if (!rc) {
        kv_free(p.store);
        net_close();
        r->ended = true;
    }
    check_ended(r->number, rc ? FAILED : WELL, rc ? &e : NULL);
    process_exit(r->number, (int)exit_code_of_error(e.code));
    if (rc)
        world_end_rank();
    return NULL;
}

static void begin_rank(int number, const char *run_dir)
{
    here.run_dirs[number] = run_dir;
    world_begin(&world_ranks[number], run_rank, &world_ranks[number]);
}

/* ---- The launcher, and mishaps ---- */

enum { TICK_NS = 20000000, LEFT_NS = 500000000 };

static bool any_runs(void)
{
    for (int r = 0; r < world_size; r++)
        if (check_ending(r) == RUNNING)
            return true;
    return false;
}

/* When launch has ended, nothing that it reaches is left; ranks behind a link that is cut end by
 * themselves. */
static void *run_launch(void *unused)
{
    const job *j = here.j;
    const char *name;
    int pid;
    (void)unused;
    process_is_launch();
    here.launch();
    here.launch_ended = true;
    world_block(NULL, world_now() + (j->hosts > 1 ? LEFT_NS : 0));
    if ((name = process_left(&pid)))
        check_bad("%s, process %d, is left when launch has ended", name, pid);
    int64_t until = world_now() + 4 * (int64_t)(j->deadline * 1e9);
    while (any_runs() && world_now() < until)
        world_block(NULL, world_now() + TICK_NS);
    world_stop();
    return NULL;
}

static void *strike(void *unused)
{
    const job *j = here.j;
    (void)unused;
    world_block(NULL, j->when_ns);
    check_struck(sim_link_joined());
    if (j->what == MISHAP_KILL)
        process_kill_rank(j->who);
    else if (j->what == MISHAP_STALL || j->what == MISHAP_SILENT)
        world_ranks[j->who].stalled_ns = world_now() + j->how_long_ns;
    else if (j->what == MISHAP_HOST)
        process_lose_host(j->who);
    else if (j->what == MISHAP_WATCHER)
        process_kill_watcher(j->who);
    else if (j->what == MISHAP_MPIRUN)
        process_kill_mpirun();
    else if (j->what == MISHAP_SIGNAL)
        process_signal_launch((int)j->nth);
    for (int h = 0; h < j->hosts && (j->what == MISHAP_CUT || j->what == MISHAP_SPLIT); h++)
        if (h != j->who)
            sim_link_cut(h, j->who, world_now() + j->how_long_ns);
    return NULL;
}

/* What launch does for `launch --grow`. */
static void *grow(void *unused)
{
    char path[4200];
    (void)unused;
    world_block(NULL, here.j->grows_ns);
    snprintf(path, sizeof path, "%s/grow", here.run_dirs[0]);
    FILE *f = fopen(path, "ae");
    if (f) { /* else the job is over */
        fprintf(f, "%d -\n", here.j->workers - 1);
        fclose(f);
    }
    return NULL;
}

static void all_begun(void)
{
    if (here.j->grows)
        world_begin(NULL, grow, NULL);

    if (here.strikes && here.j->what != MISHAP_NONE)
        world_begin(NULL, strike, NULL);
}

/* ---- The whole ---- */

static bool loses_records;

void job_lose_records(void)
{
    loses_records = true;
}

/* Besides what launch sets. */
static void set_environment(const job *j)
{
    char text[32];
    if (loses_records)
        setenv("KVSTORE_TIMEOUT", "5", 1);
    setenv("KVSTORE_THREADS", "1", 1);
    snprintf(text, sizeof text, "%" PRId64, j->ahead);
    if (j->ahead)
        setenv("KVSTORE_AHEAD", text, 1);
    if (j->grows)
        setenv("KVSTORE_SPARES", "1", 1);
}

bool job_run(const job *j, int attempt, const char *folder, job_past *past, void (*launch)(void))
{
    int n = j->workers + j->servers;
    here.j = j;
    here.attempt = attempt;
    here.strikes = attempt < j->strikes;
    here.folder = folder;
    here.launch = launch;
    set_environment(j);
    world_open(n, j->hosts, j->seed * MOST_ATTEMPTS + (uint64_t)attempt, &j->costs);
    sim_link_open(&j->near, &j->far, true);
    sim_link_late(j->late, j->late_ns);
    sim_link_lose(loses_records ? 1 + draw(12) : 0);
    check_open(j, attempt, past);
    if (j->what == MISHAP_DISK && here.strikes)
        calls_disk(j->nth, j->how_long_ns / 100);
    process_open(j, attempt, folder, begin_rank, all_begun);
    world_begin_now(run_launch, NULL);
    world_run(LONGEST_S * INT64_C(1000000000));
    return check_job(!here.launch_ended);
}
