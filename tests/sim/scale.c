/* kvscale: one job of many ranks under the virtual clock of a LogGP model, and what its rounds of
 * push and pull cost: time, bytes, records and memory of a rank, and who waits for whom.
 *
 *     kvscale [-w WORKERS] [-s SERVERS] [-h HOSTS] [-k KEYS,BYTES] [-r ROUNDS] [-t TYPE]
 *             [--near L,o,G] [--far L,o,G] [--long NS] [--slow RANK,TIMES] [--compute NS]
 *             [--processors N] [--switch S,W,P] [--push NS] [--call NS] [--copy NS]
 *             [--sum NS] [--update NS] [--jitter NS] [--grain NS] [--row | --head]
 *
 * SERVERS 0: every rank serves. L, o and G are nanoseconds, of a record, at each of its ends, and
 * of a byte, as `kvbench bench --link` gives them; within a host and between two of them.
 * --long: the latency between hosts 0 and 1 alone. --slow: a rank whose
 * processor takes so many times as long.
 * --compute: what each worker computes before its pushes. --processors: of a host, for all its
 * ranks; --switch: what it takes to go on with another thread, until an idle processor has begun,
 * and to tell it so. --push: what pushing a key takes at its worker besides its record. --call: of
 * a system call; --copy, --sum and --update: of a byte that the code copies, adds up, or updates by
 * a rule. --jitter: latencies are drawn, and calls take up to so long. --grain: ranks meet at such
 * steps of their time at least, apart from what the link does; coarser ones are simulated sooner.
 *
 * The first round is not counted. --row writes CSV, --head the names of its columns.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "distributed/link_record.h"
#include "kvstore.h"
#include "rank.h"
#include "sim_link.h"

enum { MOST_PARTS = 1 << 14, FLOATS = sizeof(float), ROOM = 4 << 20 };

static struct {
    int workers, servers, hosts, rounds, slow_rank;
    int64_t keys, elements, long_ns, compute_ns, push_ns;
    double slow_times;
    const char *type;
    link_costs near, far;
    world_costs costs;
    bool row;
} job = {.workers = 10, .hosts = 10, .rounds = 4, .slow_rank = -1, .keys = 10, .elements = 256,
         .type = "dist_sync",
         .near = {1000, 250, 0.1, ROOM},
         .far = {20000, 1000, 0.1, ROOM},
         .costs = {.call_ns = 50, .grain_ns = 500, .stack_bytes = 128 << 10,
                   .copy_ns = 0.05, .sum_ns = 0.1, .update_ns = 0.2}};

/* What is counted of a rank, between the first round and the last. */
typedef struct count {
    int64_t bytes, records, busy_ns, switches, wakes;
} count;

static struct {
    int *ended;        /* workers that have ended a round, by round */
    int64_t *end_ns;   /* when the last one did */
    int *last;         /* that one */
    count *before;     /* by rank */
    int64_t *arrived;  /* pushes that have come, by part and round */
    int64_t *last_push; /* by rank: how often its push was the last of a round of a part */
    int64_t pushes;    /* rounds of parts that were whole */
    bool failed;
} seen;

/* ---- What is seen ---- */

static int ranks(void)
{
    return job.workers + job.servers;
}

static count count_now(int rank)
{
    const world_rank *r = &world_ranks[rank];
    return (count){sim_link_bytes(rank), sim_link_records(rank), r->busy_ns, r->switches,
                   r->wakes};
}

/* A push of a rank to its own server is not seen: it takes no link. */
static void note_record(int from, int to, const void *head)
{
    const link_rec *r = head;
    (void)to;
    if (r->kind != LINK_PUSH || !(r->flags & LINK_LAST) || r->part < 0 || r->part >= MOST_PARTS ||
        r->round < 1 || r->round > job.rounds)
        return;
    int64_t others = job.servers ? job.workers : job.workers - 1;
    if (++seen.arrived[r->part * job.rounds + r->round - 1] < others || r->round == 1)
        return;
    seen.last_push[from]++;
    seen.pushes++;
}

static void note_end(int worker, int round)
{
    seen.end_ns[round] = world_now();
    seen.last[round] = worker;
    if (++seen.ended[round] < job.workers)
        return;
    for (int i = 0; i < ranks() && round == 0; i++)
        seen.before[i] = count_now(i);
    if (round == job.rounds - 1)
        world_stop();
}

/* ---- Ranks ---- */

typedef struct program {
    kv *store;
    kv_key *keys;
    kv_array **values, **outs;
} program;

static int make_arrays(kv_array ***list, kv_err *e)
{
    int rc = KV_OK;
    void *data;
    *list = calloc((size_t)job.keys, sizeof **list);
    for (int64_t k = 0; k < job.keys && !rc; k++) {
        rc = kv_array_new(&(*list)[k], KV_FLOAT32, 1, &job.elements, (kv_ctx){0}, e);
        if (!rc && !(rc = kv_array_write((*list)[k], &data, e)))
            memset(data, 0, (size_t)job.elements * FLOATS);
    }
    return rc;
}

static int run_rounds(program *p, int rank, kv_err *e)
{
    int rc = KV_OK;
    for (int round = 0; round < job.rounds && !rc; round++) {
        world_spend(job.compute_ns + job.keys * job.push_ns);
        rc = kv_push(p->store, p->keys, job.keys, p->values, NULL, e);
        if (!rc)
            rc = kv_pull(p->store, p->keys, job.keys, p->outs, NULL, e);
        if (!rc)
            rc = kv_wait(p->store, e);
        if (!rc)
            note_end(rank, round);
    }
    return rc;
}

static int run_worker(int rank, kv_err *e)
{
    program p = {.keys = calloc((size_t)job.keys, sizeof *p.keys)};
    for (int64_t k = 0; k < job.keys; k++)
        p.keys[k].id = (int32_t)k;
    int rc = kv_create(job.type, NULL, 0, &p.store, e);
    if (!rc)
        rc = kv_set_optimizer(p.store, "sgd", &(kv_opt){"learning_rate", "0.1"}, 1, e);
    if (!rc && !(rc = make_arrays(&p.values, e)) && !(rc = make_arrays(&p.outs, e)))
        rc = kv_init(p.store, p.keys, job.keys, p.outs, NULL, e);
    if (!rc)
        rc = kv_barrier(p.store, e);
    return rc ? rc : run_rounds(&p, rank, e);
}

static void *run_rank(void *arg)
{
    world_rank *r = arg;
    kv_err e = {0};
    int rc = rank_begin(&e);
    if (!rc)
        rc = r->number < job.workers ? run_worker(r->number, &e) : kv_serve(job.type, &e);
    if (rc) {
        fprintf(stderr, "kvscale: rank %d: %s\n", r->number, e.text);
        seen.failed = true;
        world_stop();
    }
    world_block(NULL, WORLD_FOREVER); /* its store stays for the others */
    return NULL;
}

/* ---- What is told ---- */

typedef struct told {
    double round_us, worker_bytes, worker_records, server_bytes, server_records;
    double worker_memory, server_memory; /* allocated at most, and with stacks and statics */
    double worker_whole, server_whole;
    double waits, waits_least, waits_most, server_busy; /* shares of the time */
    int last_rank;      /* of pushes, the most often */
    double last_share;
    double switches, wakes; /* of all ranks, a round */
    double simulator_gb; /* of this process */
} told;

static double most(double a, double b)
{
    return a > b ? a : b;
}

static void sum_up(told *t)
{
    int n = job.rounds - 1, serving = job.servers ? job.servers : job.workers;
    double time_ns = (double)(seen.end_ns[n] - seen.end_ns[0]);
    *t = (told){.round_us = time_ns / n / 1000, .waits_least = 1, .last_rank = -1};
    int64_t last = 0;
    for (int i = 0; i < ranks(); i++) {
        bool works = i < job.workers, serves = job.servers == 0 || !works;
        count now = count_now(i), was = seen.before[i];
        t->switches += (double)(now.switches - was.switches) / n;
        t->wakes += (double)(now.wakes - was.wakes) / n;
        double busy = (double)(now.busy_ns - was.busy_ns) / time_ns;
        double whole = (double)(world_ranks[i].most_bytes + world_bytes(&world_ranks[i]));
        if (works) {
            t->worker_bytes += (double)(now.bytes - was.bytes) / n / job.workers;
            t->worker_records += (double)(now.records - was.records) / n / job.workers;
            t->worker_memory += (double)world_ranks[i].most_bytes / job.workers;
            t->worker_whole += whole / job.workers;
            t->waits += (1 - busy) / job.workers;
            t->waits_least = 1 - busy < t->waits_least ? 1 - busy : t->waits_least;
            t->waits_most = most(t->waits_most, 1 - busy);
        }
        if (serves) {
            t->server_bytes += (double)(now.bytes - was.bytes) / n / serving;
            t->server_records += (double)(now.records - was.records) / n / serving;
            t->server_memory = most(t->server_memory, (double)world_ranks[i].most_bytes);
            t->server_whole = most(t->server_whole, whole);
            t->server_busy = most(t->server_busy, busy);
        }
        if (seen.last_push[i] > last) {
            last = seen.last_push[i];
            t->last_rank = i;
        }
    }
    t->last_share = seen.pushes ? (double)last / (double)seen.pushes : 0;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    t->simulator_gb = (double)used.ru_maxrss / (1 << 20);
}

#define COLUMNS                                                                                    \
    "workers,servers,hosts,keys,bytes,round_us,worker_bytes,worker_records,server_bytes,"          \
    "server_records,worker_memory,server_memory,worker_whole,server_whole,waits,waits_least,"      \
    "waits_most,server_busy,last_rank,last_share,switches,wakes,steps,simulator_gb"

static void tell_row(const told *t)
{
    printf("%d,%d,%d,%" PRId64 ",%" PRId64 ",%.3f,%.0f,%.1f,%.0f,%.1f,%.0f,%.0f,%.0f,%.0f,%.4f,"
           "%.4f,%.4f,%.4f,%d,%.4f,%.2f,%.2f,%" PRId64 ",%.3f\n",
           job.workers, job.servers, job.hosts, job.keys, job.elements * FLOATS, t->round_us,
           t->worker_bytes, t->worker_records, t->server_bytes, t->server_records,
           t->worker_memory, t->server_memory, t->worker_whole, t->server_whole, t->waits,
           t->waits_least, t->waits_most, t->server_busy, t->last_rank, t->last_share,
           t->switches, t->wakes, world_steps(), t->simulator_gb);
}

static void tell(const told *t)
{
    printf("%s, %d workers, %d servers, %d hosts, %" PRId64 " keys of %" PRId64 " bytes\n",
           job.type, job.workers, job.servers, job.hosts, job.keys, job.elements * FLOATS);
    printf("round             %.3f us\n", t->round_us);
    printf("a worker sends    %.0f bytes in %.1f records a round, keeps %.0f bytes of memory\n",
           t->worker_bytes, t->worker_records, t->worker_memory);
    printf("a server sends    %.0f bytes in %.1f records a round, keeps at most %.0f bytes\n",
           t->server_bytes, t->server_records, t->server_memory);
    printf("with stacks and static variables %.0f and %.0f bytes\n", t->worker_whole,
           t->server_whole);
    printf("a worker waits    %.1f %% of the time, least %.1f %%, most %.1f %%\n", 100 * t->waits,
           100 * t->waits_least, 100 * t->waits_most);
    printf("the busiest server works %.1f %% of it\n", 100 * t->server_busy);
    if (t->last_rank >= 0)
        printf("the last push     is rank %d's in %.1f %% of the rounds of parts\n", t->last_rank,
               100 * t->last_share);
    if (job.costs.processors)
        printf("processors        change threads %.1f times a round, after %.1f wake-ups\n",
               t->switches, t->wakes);
    printf("# %" PRId64 " steps, %.3f s of virtual time, %.2f GB\n", world_steps(),
           (double)world_now() / 1e9, t->simulator_gb);
}

/* ---- The whole ---- */

static void bad(const char *what)
{
    fprintf(stderr, "kvscale: %s; the head of tests/sim/scale.c lists the options\n", what);
    exit(2);
}

static void take_link(link_costs *k, const char *text)
{
    double l, o;
    if (sscanf(text, "%lf,%lf,%lf", &l, &o, &k->gap_ns) != 3)
        bad("a link has three numbers: L,o,G");
    k->latency_ns = (int64_t)l;
    k->overhead_ns = (int64_t)o;
}

static void take_switch(const char *text)
{
    double a, b, c;
    if (sscanf(text, "%lf,%lf,%lf", &a, &b, &c) != 3)
        bad("--switch has three numbers");
    job.costs.switch_ns = (int64_t)a;
    job.costs.wake_ns = (int64_t)b;
    job.costs.post_ns = (int64_t)c;
}

static void take_pair(const char *text, int64_t *a, double *b)
{
    if (sscanf(text, "%" SCNd64 ",%lf", a, b) != 2)
        bad("-k and --slow have two numbers");
}

static void take_option(const char *name, const char *x)
{
    int64_t a;
    double b;
    if (!x)
        bad("an option lacks its value");
    if (strcmp(name, "-w") == 0)
        job.workers = atoi(x);
    else if (strcmp(name, "-s") == 0)
        job.servers = atoi(x);
    else if (strcmp(name, "-h") == 0)
        job.hosts = atoi(x);
    else if (strcmp(name, "-r") == 0)
        job.rounds = atoi(x);
    else if (strcmp(name, "-t") == 0)
        job.type = x;
    else if (strcmp(name, "--near") == 0)
        take_link(&job.near, x);
    else if (strcmp(name, "--far") == 0)
        take_link(&job.far, x);
    else if (strcmp(name, "--long") == 0)
        job.long_ns = (int64_t)atof(x);
    else if (strcmp(name, "--compute") == 0)
        job.compute_ns = (int64_t)atof(x);
    else if (strcmp(name, "--processors") == 0)
        job.costs.processors = atoi(x);
    else if (strcmp(name, "--push") == 0)
        job.push_ns = (int64_t)atof(x);
    else if (strcmp(name, "--switch") == 0)
        take_switch(x);
    else if (strcmp(name, "--call") == 0)
        job.costs.call_ns = (int64_t)atof(x);
    else if (strcmp(name, "--jitter") == 0)
        job.costs.jitter_ns = (int64_t)atof(x);
    else if (strcmp(name, "--grain") == 0)
        job.costs.grain_ns = (int64_t)atof(x);
    else if (strcmp(name, "--copy") == 0)
        job.costs.copy_ns = atof(x);
    else if (strcmp(name, "--sum") == 0)
        job.costs.sum_ns = atof(x);
    else if (strcmp(name, "--update") == 0)
        job.costs.update_ns = atof(x);
    else if (strcmp(name, "-k") == 0) {
        take_pair(x, &job.keys, &b);
        job.elements = (int64_t)b / FLOATS;
    } else if (strcmp(name, "--slow") == 0) {
        take_pair(x, &a, &job.slow_times);
        job.slow_rank = (int)a;
    } else {
        bad("there is no such option");
    }
}

static void take_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--row") == 0) {
            job.row = true;
        } else if (strcmp(argv[i], "--head") == 0) {
            puts(COLUMNS);
            exit(0);
        } else {
            take_option(argv[i], argv[i + 1]);
            i++;
        }
    }
    if (job.workers < 1 || job.servers < 0 || job.hosts < 1 || job.rounds < 2 || job.keys < 1 ||
        job.elements < 1 || job.slow_rank >= ranks())
        bad("a job has a worker, a host, two rounds and a key of four bytes at least");
}

static void set_environment(void)
{
    char servers[16], threads[16];
    snprintf(servers, sizeof servers, "%d", job.servers);
    snprintf(threads, sizeof threads, "%d", job.costs.processors > 1 ? job.costs.processors : 1);
    setenv("KVSTORE_THREADS", threads, 1);
    setenv("KVSTORE_SERVERS", servers, 1);
    setenv("KVSTORE_DEADLINE", "100000", 1);
    setenv("KVSTORE_TIMEOUT", "0", 1);
}

static void *room(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p)
        bad("no memory");
    return p;
}

int main(int argc, char **argv)
{
    take_options(argc, argv);
    set_environment();
    size_t n = (size_t)ranks(), rounds = (size_t)job.rounds;
    seen.ended = room(rounds, sizeof *seen.ended);
    seen.end_ns = room(rounds, sizeof *seen.end_ns);
    seen.last = room(rounds, sizeof *seen.last);
    seen.before = room(n, sizeof *seen.before);
    seen.last_push = room(n, sizeof *seen.last_push);
    seen.arrived = room(MOST_PARTS * rounds, sizeof *seen.arrived);
    world_open(ranks(), job.hosts, 1, &job.costs);
    sim_link_open(&job.near, &job.far, job.costs.jitter_ns > 0);
    sim_link_watch(note_record);
    if (job.long_ns)
        sim_link_longer(0, 1, job.long_ns);
    if (job.slow_rank >= 0)
        world_ranks[job.slow_rank].slower = job.slow_times;
    for (int i = 0; i < ranks(); i++)
        world_begin(&world_ranks[i], run_rank, &world_ranks[i]);
    bool went = world_run(WORLD_FOREVER - 1);
    if (!went || seen.failed) {
        fprintf(stderr, "kvscale: the job has not ended\n");
        return 1;
    }
    told t;
    sum_up(&t);
    if (job.row)
        tell_row(&t);
    else
        tell(&t);
    return 0;
}
