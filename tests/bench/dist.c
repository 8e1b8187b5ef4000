/* The types of several machines beside plain MPI loops that move the same bytes, in one run: the
 * arrays of ResNet-50 (25,557,032 float32 in 161 keys), and calls of 4 KB one behind the other.
 *
 *     mpirun -n 2 dist sums      horovod beside MPI_Allreduce
 *     mpirun -x KVSTORE_SERVERS=1 -n 2 dist stored
 *                                dist_sync, 1 worker and 1 server, beside sends of 256 KB each
 *     mpirun -n 4 dist crowd     horovod beside copies and a sum in one process
 *     mpirun -n 2 dist changes   pulls of what changed beside whole ones: the same arrays in
 *                                bfloat16, of which one element in a hundred changes in a round
 *     KVCTL=dist hosts --rate 1gbit --ranks 2 --servers 1 link
 *                                dist_sync over a link, compressed beside whole; or changes there
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kvstore.h"
#include "kvbench/bench_workload.h"
#include "measure.h"

enum {
    PIECE = 64 << 10,
    SMALL = 1024,
    RUNS = 15,
    LINK_RUNS = 3,
    CALLS = 2000,
    KEYS = 100000,
    ANSWER = 1 << 20
};

static int rank, size;
static bench_shapes shapes;
static float *memory, *back;
static kv *store;
static kv_key *keys;
static kv_array **arrays;

static void need(int rc, const kv_err *e)
{
    if (!rc)
        return;
    fprintf(stderr, "dist: %s\n", e->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *room(int64_t bytes)
{
    void *p = malloc((size_t)bytes);
    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memset(p, 0, (size_t)bytes);
}

static void say(const char *what, double ours, double theirs, const char *unit)
{
    if (rank == 0)
        printf("%-58s %9.2f %s, beside %9.2f %s: %5.2f\n", what, ours, unit, theirs, unit,
               theirs / ours);
}

/* ---- What is measured ---- */

static void make_arrays(void)
{
    kv_err e = {0};
    need(bench_workload_shapes(&bench_workloads[0], 0, false, &shapes, &e), &e);
    memory = room(shapes.elements * 4);
    back = room(shapes.elements * 4);
    keys = room(shapes.n * (int64_t)sizeof *keys);
    arrays = room(shapes.n * (int64_t)sizeof *arrays);
    for (int64_t i = 0; i < shapes.n; i++) {
        keys[i].id = i;
        need(kv_array_new(&arrays[i], KV_FLOAT32, 1, &shapes.items[i].size, (kv_ctx){0}, &e), &e);
    }
}

static void pushpull(const kv_key *k, int64_t n, kv_array *const *a)
{
    kv_err e = {0};
    need(kv_pushpull(store, k, n, a, k, n, a, NULL, &e), &e);
    need(kv_wait(store, &e), &e);
}

static double time_store(void)
{
    double begin = now();
    pushpull(keys, shapes.n, arrays);
    return (now() - begin) * 1e3;
}

static double time_small(void)
{
    kv_err e = {0};
    int64_t n = SMALL;
    kv_key key = {.id = 1000};
    kv_array *a;
    need(kv_array_new(&a, KV_FLOAT32, 1, &n, (kv_ctx){0}, &e), &e);
    if (strcmp(kv_type(store), "horovod") != 0)
        need(kv_init(store, &key, 1, &a, NULL, &e), &e);
    pushpull(&key, 1, &a);
    double begin = now();
    for (int i = 0; i < CALLS; i++)
        pushpull(&key, 1, &a);
    double us = (now() - begin) / CALLS * 1e6;
    kv_array_unref(a);
    return us;
}

/* ---- horovod ---- */

static double time_allreduce(int64_t piece)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    for (int64_t at = 0; at < shapes.elements; at += piece) {
        int64_t left = shapes.elements - at;
        MPI_Allreduce(MPI_IN_PLACE, memory + at, (int)(left < piece ? left : piece), MPI_FLOAT,
                      MPI_SUM, MPI_COMM_WORLD);
    }
    return (now() - begin) * 1e3;
}

static void run_sums(void)
{
    double ours[RUNS], whole[RUNS], pieces[RUNS];
    kv_err e = {0};
    time_allreduce(shapes.elements);
    for (int i = 0; i < RUNS; i++) { /* while no other thread looks after a store */
        whole[i] = time_allreduce(shapes.elements);
        pieces[i] = time_allreduce(PIECE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    for (int i = 0; i < CALLS; i++)
        MPI_Allreduce(MPI_IN_PLACE, memory, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double us = (now() - begin) / CALLS * 1e6;
    need(kv_create("horovod", NULL, 0, &store, &e), &e);
    time_store();
    for (int i = 0; i < RUNS; i++)
        ours[i] = time_store();
    double t = median(ours, RUNS);
    say("horovod, ResNet-50, beside one MPI_Allreduce", t, median(whole, RUNS), "ms");
    say("horovod, ResNet-50, beside MPI_Allreduce in pieces", t, median(pieces, RUNS), "ms");
    say("horovod, 4 KB, beside MPI_Allreduce", time_small(), us, "us");
}

/* Every rank's array is copied, and one rank's memory added up, by one process. */
static double time_alone(void)
{
    double begin = now();
    for (int r = 0; r < size; r++)
        memcpy(back, memory, (size_t)shapes.elements * 4);
    for (int64_t i = 0; i < shapes.elements; i++)
        back[i] += memory[i];
    return (now() - begin) * 1e3;
}

/* Like MPI_Barrier, but who waits takes no processor time. */
static void meet_asleep(void)
{
    MPI_Request all;
    int met = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (MPI_Test(&all, &met, MPI_STATUS_IGNORE); !met; MPI_Test(&all, &met, MPI_STATUS_IGNORE))
        usleep(500);
}

static void run_crowd(void)
{
    double ours[RUNS], alone[RUNS];
    kv_err e = {0};
    if (rank == 0)
        time_alone();
    for (int i = 0; i < RUNS; i++) { /* while no thread looks after a store */
        meet_asleep();
        alone[i] = rank == 0 ? time_alone() : 0;
    }
    meet_asleep();
    need(kv_create("horovod", NULL, 0, &store, &e), &e);
    time_store();
    for (int i = 0; i < RUNS; i++) {
        need(kv_barrier(store, &e), &e);
        ours[i] = time_store();
    }
    say("horovod, ResNet-50, beside copies and a sum", median(ours, RUNS), median(alone, RUNS),
        "ms");
}

/* ---- dist_sync ---- */

/* Worker: all pieces out and back. Server: each piece goes back when it has come. */
static double time_exchange(MPI_Request *sends, MPI_Request *receives)
{
    int n = (int)((shapes.elements + PIECE - 1) / PIECE), which;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    for (int i = 0; i < n; i++) {
        int64_t at = (int64_t)i * PIECE, left = shapes.elements - at;
        int count = (int)(left < PIECE ? left : PIECE);
        MPI_Irecv(back + at, count, MPI_FLOAT, 1 - rank, i, MPI_COMM_WORLD, &receives[i]);
        if (rank == 0)
            MPI_Isend(memory + at, count, MPI_FLOAT, 1, i, MPI_COMM_WORLD, &sends[i]);
    }
    for (int i = 0; i < n && rank == 1; i++) {
        MPI_Waitany(n, receives, &which, MPI_STATUS_IGNORE);
        int64_t at = (int64_t)which * PIECE, left = shapes.elements - at;
        MPI_Isend(back + at, (int)(left < PIECE ? left : PIECE), MPI_FLOAT, 0, which,
                  MPI_COMM_WORLD, &sends[which]);
    }
    MPI_Waitall(n, receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(n, sends, MPI_STATUSES_IGNORE);
    return (now() - begin) * 1e3;
}

static double time_ping(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    for (int i = 0; i < CALLS; i++) {
        if (rank == 0)
            MPI_Send(memory, SMALL, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(back, SMALL, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(back, SMALL, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
    }
    return (now() - begin) / CALLS * 1e6;
}

/* Until an urgent key has come while the queues are full of others; microseconds. */
static double time_urgent(void)
{
    double us[RUNS];
    kv_err e = {0};
    kv_key key = {.id = 1001};
    kv_call soon = {.priority = 1};
    const void *data;
    kv_array *a;
    need(kv_array_new(&a, KV_FLOAT32, 1, &(int64_t){SMALL}, (kv_ctx){0}, &e), &e);
    need(kv_init(store, &key, 1, &a, NULL, &e), &e);
    for (int i = 0; i < RUNS; i++) {
        need(kv_pushpull(store, keys, shapes.n, arrays, keys, shapes.n, arrays, NULL, &e), &e);
        usleep(3000);
        double begin = now();
        need(kv_push(store, &key, 1, &a, &soon, &e), &e);
        need(kv_pull(store, &key, 1, &a, &soon, &e), &e);
        need(kv_array_read(a, &data, &e), &e);
        us[i] = (now() - begin) * 1e6;
        need(kv_wait(store, &e), &e);
    }
    kv_array_unref(a);
    return median(us, RUNS);
}

static void run_many_keys(void)
{
    kv_err e = {0};
    kv_key *k = room(KEYS * (int64_t)sizeof *k);
    kv_array **a = room(KEYS * (int64_t)sizeof *a);
    for (int64_t i = 0; i < KEYS; i++) {
        k[i].id = ANSWER + i;
        need(kv_array_new(&a[i], KV_FLOAT32, 1, &(int64_t){16}, (kv_ctx){0}, &e), &e);
    }
    need(kv_init(store, k, KEYS, a, NULL, &e), &e);
    pushpull(k, KEYS, a);
    double begin = now();
    pushpull(k, KEYS, a);
    printf("%-58s %9.2f ms\n", "dist_sync, 100,000 keys of 64 bytes", (now() - begin) * 1e3);
}

/* Pulls of all rows of small keys, beside dense pulls of as many elements. */
static void run_rows(void)
{
    enum { ROWS = 64, ROW_KEYS = 500 };
    double ours[RUNS], dense[RUNS];
    kv_err e = {0};
    const int64_t shape[] = {ROWS, 16};
    int64_t some[ROWS];
    void *data;
    kv_array *ids[ROW_KEYS], *out[ROW_KEYS], *whole[ROW_KEYS];
    kv_key rows[ROW_KEYS] = {{0}}, plain[ROW_KEYS] = {{0}};
    for (int i = 0; i < ROWS; i++)
        some[i] = i;
    need(kv_array_wrap(&ids[0], some, KV_INT64, 1, shape, (kv_ctx){0}, NULL, NULL, &e), &e);
    for (int i = 0; i < ROW_KEYS; i++) {
        ids[i] = ids[0];
        rows[i].id = 2000 + i;
        plain[i].id = 3000 + i;
        need(kv_array_new(&whole[i], KV_FLOAT32, 2, shape, (kv_ctx){0}, &e), &e);
        need(kv_array_write(whole[i], &data, &e), &e);
        memset(data, 1, ROWS * 16 * sizeof(float));
        need(kv_array_to_sparse(&out[i], whole[i], &e), &e);
    }
    need(kv_init(store, rows, ROW_KEYS, out, NULL, &e), &e);
    need(kv_init(store, plain, ROW_KEYS, whole, NULL, &e), &e);
    for (int i = 0; i < RUNS; i++) {
        double begin = now();
        need(kv_row_sparse_pull(store, rows, ROW_KEYS, ids, out, NULL, &e), &e);
        need(kv_wait(store, &e), &e);
        ours[i] = (now() - begin) * 1e3;
        begin = now();
        need(kv_pull(store, plain, ROW_KEYS, whole, NULL, &e), &e);
        need(kv_wait(store, &e), &e);
        dense[i] = (now() - begin) * 1e3;
    }
    say("dist_sync, rows of 500 keys of 4 KB, beside dense pulls", median(ours, RUNS),
        median(dense, RUNS), "ms");
}

static void serve(void)
{
    kv_err e = {0};
    need(kv_serve("dist_sync", &e), &e);
}

/* As kvctl launch counts: the servers are the last ranks. */
static bool is_server(void)
{
    const char *servers = getenv("KVSTORE_SERVERS");
    return servers && rank >= size - atoi(servers);
}

static void run_stored(void)
{
    int n = (int)((shapes.elements + PIECE - 1) / PIECE);
    double ours[RUNS], plain[RUNS];
    kv_err e = {0};
    MPI_Request *requests = room(2 * n * (int64_t)sizeof *requests);
    for (int i = 0; i < 2 * n; i++)
        requests[i] = MPI_REQUEST_NULL;
    time_exchange(requests, requests + n);
    for (int i = 0; i < RUNS; i++)
        plain[i] = time_exchange(requests, requests + n);
    double ping = time_ping();
    if (is_server()) {
        serve();
        return;
    }
    need(kv_create("dist_sync", NULL, 0, &store, &e), &e);
    need(kv_init(store, keys, shapes.n, arrays, NULL, &e), &e);
    time_store();
    for (int i = 0; i < RUNS; i++)
        ours[i] = time_store();
    say("dist_sync, ResNet-50, beside sends in pieces", median(ours, RUNS), median(plain, RUNS),
        "ms");
    say("dist_sync, 4 KB, beside a ping", time_small(), ping, "us");
    double two = 2 * median(ours, RUNS) / n * 1e3;
    say("dist_sync, an urgent key among all, beside two pieces", time_urgent(), two, "us");
    run_rows();
    run_many_keys();
}

/* ---- A link ---- */

/* push, and when it has been applied pull: the two do not share the link. */
static double time_round(void)
{
    double ms[LINK_RUNS];
    kv_err e = {0};
    for (int i = -1; i < LINK_RUNS; i++) { /* the first is not counted */
        double begin = now();
        need(kv_push(store, keys, shapes.n, arrays, NULL, &e), &e);
        need(kv_wait(store, &e), &e);
        need(kv_pull(store, keys, shapes.n, arrays, NULL, &e), &e);
        need(kv_wait(store, &e), &e);
        if (i >= 0)
            ms[i] = (now() - begin) * 1e3;
    }
    return median(ms, LINK_RUNS);
}

static void run_link(void)
{
    kv_err e = {0};
    kv_opt how[] = {{"type", "2bit"}, {"pull", "true"}};
    need(kv_create("dist_sync", NULL, 0, &store, &e), &e);
    need(kv_init(store, keys, shapes.n, arrays, NULL, &e), &e);
    double whole = time_round(), together = time_store();
    need(kv_set_gradient_compression(store, how, 1, &e), &e);
    say("over the link, 2-bit pushes, beside whole ones", time_round(), whole, "ms");
    need(kv_set_gradient_compression(store, how, 2, &e), &e);
    say("over the link, 2-bit pushes and pulls, beside whole ones", time_round(), whole, "ms");
    say("over the link, the same, beside whole pushpulls", time_store(), together, "ms");
}

/* ---- Changes ---- */

enum { ONE_IN = 100, GRADIENTS = 3, ROUNDS = 20 };

/* Gradients that change some elements of weights of 1 each, by much more than a bfloat16 needs. */
static kv_array **make_gradients(unsigned seed)
{
    kv_err e = {0};
    kv_array **list = room(shapes.n * (int64_t)sizeof *list);
    srand(seed);
    for (int64_t i = 0; i < shapes.n; i++) {
        void *data;
        need(kv_array_new(&list[i], KV_BFLOAT16, 1, &shapes.items[i].size, (kv_ctx){0}, &e), &e);
        need(kv_array_write(list[i], &data, &e), &e);
        for (int64_t j = 0; j < shapes.items[i].size; j++)
            ((uint16_t *)data)[j] = rand() % ONE_IN == 0 ? 0x3f80 : 0;
    }
    return list;
}

static double time_push(kv_array *const *gradients)
{
    kv_err e = {0};
    need(kv_barrier(store, &e), &e);
    double begin = now();
    need(kv_push(store, keys, shapes.n, gradients, NULL, &e), &e);
    need(kv_wait(store, &e), &e);
    return (now() - begin) * 1e3;
}

static double time_whole(kv_array *const *outs)
{
    kv_err e = {0};
    need(kv_barrier(store, &e), &e);
    double begin = now();
    need(kv_pull(store, keys, shapes.n, outs, NULL, &e), &e);
    need(kv_wait(store, &e), &e);
    return (now() - begin) * 1e3;
}

static double time_changes(kv_array *const *outs, int64_t *rounds)
{
    kv_err e = {0};
    need(kv_barrier(store, &e), &e);
    double begin = now();
    need(kv_pull_since(store, keys, shapes.n, outs, rounds, NULL, &e), &e);
    return (now() - begin) * 1e3;
}

static int see_bytes(void *arg, const kv_field *f, int n, kv_err *e)
{
    int64_t *bytes = arg;
    (void)e;
    for (int i = 0; i < n; i++) {
        bytes[0] = strcmp(f[i].name, "since_bytes") == 0 ? f[i].number : bytes[0];
        bytes[1] = strcmp(f[i].name, "whole_bytes") == 0 ? f[i].number : bytes[1];
    }
    return KV_OK;
}

static void check_same(kv_array *const *a, kv_array *const *b)
{
    kv_err e = {0};
    for (int64_t i = 0; i < shapes.n; i++) {
        const void *x, *y;
        need(kv_array_read(a[i], &x, &e), &e);
        need(kv_array_read(b[i], &y, &e), &e);
        if (memcmp(x, y, (size_t)kv_array_bytes(a[i])) != 0)
            need(kv_err_set(&e, KV_E_ASSERT, "what changed and all of it differ"), &e);
    }
}

static void run_changes(void)
{
    double whole[ROUNDS], changed[ROUNDS], before[ROUNDS], behind[ROUNDS];
    int64_t first[2] = {0}, bytes[2] = {0}, *rounds = room(shapes.n * (int64_t)sizeof *rounds);
    kv_opt rate = {"learning_rate", "0.01"};
    kv_array **gradients[GRADIENTS], **outs = make_gradients(1), **all = make_gradients(1);
    kv_err e = {0};
    for (unsigned i = 0; i < GRADIENTS; i++)
        gradients[i] = make_gradients(i + 2);
    need(kv_create("dist_sync", NULL, 0, &store, &e), &e);
    need(kv_set_optimizer(store, "sgd", &rate, 1, &e), &e);
    need(kv_init(store, keys, shapes.n, all, NULL, &e), &e);
    for (int i = 0; i < ROUNDS; i++)
        before[i] = time_push(gradients[i % GRADIENTS]);
    for (int64_t i = 0; i < shapes.n; i++)
        rounds[i] = KV_NO_ROUND;
    time_changes(outs, rounds);
    need(kv_describe(store, "store", see_bytes, first, &e), &e);
    for (int i = 0; i < ROUNDS; i++) {
        behind[i] = time_push(gradients[i % GRADIENTS]);
        changed[i] = time_changes(outs, rounds);
        whole[i] = time_whole(all);
        check_same(outs, all);
    }
    need(kv_describe(store, "store", see_bytes, bytes, &e), &e);
    say("pulls of 1 % changed bfloat16, beside whole ones", median(changed, ROUNDS),
        median(whole, ROUNDS), "ms");
    say("pushes to keys of which changes are kept, beside others", median(behind, ROUNDS),
        median(before, ROUNDS), "ms");
    say("bytes of these pulls a round, beside whole ones",
        (double)(bytes[0] - first[0]) / ROUNDS / 1e6, (double)(bytes[1] - first[1]) / ROUNDS / 1e6,
        "MB");
}

int main(int argc, char **argv)
{
    int level;
    const char *mode = argc > 1 ? argv[argc - 1] : "sums";
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    make_arrays();
    if (strcmp(mode, "stored") == 0)
        run_stored();
    else if (strcmp(mode, "crowd") == 0)
        run_crowd();
    else if (is_server())
        serve();
    else if (strcmp(mode, "link") == 0)
        run_link();
    else if (strcmp(mode, "changes") == 0)
        run_changes();
    else
        run_sums();
    fflush(stdout);
    kv_free(store);
    return 0;
}
