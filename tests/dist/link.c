/* The order in which records arrive, on two ranks of one machine: urgent ones overtake those that
 * lie in the ring, and all others stay behind what was sent before them. And records that come in
 * messages when ranks from the third on are gone.
 *
 *     mpirun -n 2 dist_link
 *     mpirun -n 2 dist_link N     only sees that the ranks share N processors
 *     KVSTORE_ELASTIC=1 KVSTORE_SHARED_MEMORY=0 mpirun --with-ft ulfm -n 3 dist_link gone
 *     KVSTORE_ELASTIC=1 KVSTORE_SHARED_MEMORY=0 mpirun --with-ft ulfm -n 4 dist_link gone-sending
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "distributed/environment.h"
#include "distributed/link.h"

#define NEED(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x);                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A record: its number, its payload, its priority, whether no other belongs to it. */
typedef struct sent {
    uint64_t number;
    int64_t bytes;
    int32_t priority;
    bool whole;
} sent;

static uint64_t came[32];
static int ncame;
static MPI_Request *refused; /* the receive that MPI refused to test */

static void take(int rank, const link_rec *r)
{
    NEED(rank == (refused != NULL) && ncame < 32 && r->kind == LINK_DONE);
    came[ncame++] = r->request;
}

static void meet(void)
{
    int other;
    NEED(link_agree(1, &other));
}

/* Rank 0 sends all before rank 1 looks; they come in this order, which a 0 ends. */
static void run(const sent *list, int n, const uint64_t *order)
{
    for (int i = 0; i < n && link_rank() == 0; i++) {
        link_rec *r = link_reserve_by(1, list[i].bytes, list[i].priority, list[i].whole);
        NEED(r);
        *r = (link_rec){.kind = LINK_DONE, .bytes = (uint32_t)list[i].bytes,
                        .request = list[i].number};
        link_commit(1);
    }
    link_flush();
    meet();
    ncame = 0;
    while (link_rank() == 1 && ncame < n)
        link_poll(take, LINK_PAYLOAD);
    link_release();
    for (int i = 0; i < ncame; i++)
        if (came[i] != order[i]) {
            fprintf(stderr, "record %d is %d, not %d\n", i, (int)came[i], (int)order[i]);
            exit(1);
        }
    meet();
}

/* Stands between mpi.c and MPI. */
int MPI_Test(MPI_Request *r, int *done, MPI_Status *s)
{
    int rc = PMPI_Test(r, done, s);
    refused = rc == MPI_SUCCESS || refused ? refused : r;
    return rc;
}

static void send_one(uint64_t number, int64_t bytes)
{
    link_rec *r = link_reserve(0, bytes);
    NEED(r);
    *r = (link_rec){.kind = LINK_DONE, .bytes = (uint32_t)bytes, .request = number};
    link_commit(0);
    link_flush();
}

/* Ranks from 2 on are gone, so MPI refuses the receive that comes next at rank 0. Then rank 1 sends
 * records, the first of which is here before mpi.c tests that receive again. With `sending`, that
 * receive and more are of large messages of ranks that are gone, which never end. */
static void take_beside_gone(bool sending, const sigset_t *start)
{
    int go = 0, here = sending, process = getpid(), processes[4], which;
    kv_err e = {0};
    if (link_rank() >= 2) {
        MPI_Send(&process, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        sigwait(start, &which);
        for (int i = 0; i < 16 && sending; i++)
            send_one(1, LINK_PAYLOAD);
        raise(SIGKILL);
    }
    if (link_rank() == 1) {
        for (int i = 0; i < 40; i++) {
            MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            send_one(7, 0);
        }
        MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    for (int i = 2; i < link_size(); i++)
        MPI_Recv(&processes[i], 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 2; i < link_size(); i++) /* MPI receives nothing meanwhile */
        for (kill(processes[i], SIGUSR1); kill(processes[i], 0) == 0;)
            usleep(1000);
    while (!refused)
        link_poll(take, LINK_PAYLOAD);
    for (int i = 2; i < link_size() && sending; i++)
        NEED(link_gone(i, &e) == KV_OK);
    for (int i = 0; i < 40; i++) {
        MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        while (!here)
            MPI_Request_get_status(*refused, &here, MPI_STATUS_IGNORE);
        for (ncame = 0; ncame < 1;)
            link_poll(take, LINK_PAYLOAD);
        NEED(came[0] == 7);
        link_release();
    }
    printf("all came\n");
    MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    enum { BIG = LINK_PAYLOAD / 2 };
    const sent mixed[] = {{1, BIG, 0, true},
                          {2, BIG, 0, false},
                          {3, 64, 0, true},  /* as urgent as others */
                          {4, 64, 5, true},  /* overtakes */
                          {5, 64, 5, true},  /* behind 4 */
                          {6, 64, 9, false}, /* belongs to others */
                          {7, 64, 9, true},  /* as urgent as 6 */
                          {8, LINK_EXPRESS, 10, true},
                          {9, LINK_EXPRESS + 8, 11, true}, /* too large */
                          {10, 64, INT32_MIN + 1, true}};
    const uint64_t mixed_order[] = {4, 5, 8, 1, 2, 3, 6, 7, 9, 10};
    /* the first has nothing to overtake; the express lane has room for some of the others */
    const sent many[] = {{11, 64, 20, true},           {12, 64, 30, true},
                         {13, LINK_EXPRESS, 40, true}, {14, LINK_EXPRESS, 40, true},
                         {15, LINK_EXPRESS, 40, true}, {16, LINK_EXPRESS, 40, true},
                         {17, LINK_EXPRESS, 40, true}, {18, 64, 40, true}};
    const uint64_t many_order[] = {12, 13, 14, 15, 11, 16, 17, 18};
    kv_err e = {0};
    sigset_t start;
    sigemptyset(&start);
    sigaddset(&start, SIGUSR1);
    sigprocmask(SIG_BLOCK, &start, NULL); /* in MPI's threads as well */
    environment_read();
    NEED(link_open(&e) == KV_OK);
    if (argc > 1 && strncmp(argv[1], "gone", 4) == 0) {
        take_beside_gone(strcmp(argv[1], "gone") != 0, &start);
        link_close();
        return 0;
    }
    NEED(link_size() == 2 && link_shares_memory(1 - link_rank()));
    NEED(argc < 2 || link_processors() == atoi(argv[1]));
    for (int i = 0; i < 50 && argc < 2; i++) {
        run(mixed, sizeof mixed / sizeof *mixed, mixed_order);
        run(many, sizeof many / sizeof *many, many_order);
    }
    link_close();
    return 0;
}
