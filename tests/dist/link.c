/* The order in which records arrive, on two ranks of one machine: urgent ones overtake those that
 * lie in the ring, and all others stay behind what was sent before them. And records that come in
 * messages when a third rank is gone.
 *
 *     mpirun -n 2 dist_link
 *     mpirun -n 2 dist_link N     only sees that the ranks share N processors
 *     KVSTORE_ELASTIC=1 KVSTORE_SHARED_MEMORY=0 mpirun --with-ft ulfm -n 3 dist_link gone
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Rank 2 is gone, so MPI refuses the receive that comes next at rank 0. Then rank 1 sends a record,
 * which is here before mpi.c tests that receive again. */
static void take_beside_gone(void)
{
    int go = 0, here = 0;
    if (link_rank() == 2)
        raise(SIGKILL);
    while (link_rank() == 0 && !refused)
        link_poll(take, LINK_PAYLOAD);
    if (link_rank() == 0) {
        MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        while (!here)
            MPI_Request_get_status(*refused, &here, MPI_STATUS_IGNORE);
        while (ncame < 1)
            link_poll(take, LINK_PAYLOAD);
        printf("record %d came\n", (int)came[0]);
        MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        return;
    }
    MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    link_rec *r = link_reserve(0, 0);
    NEED(r);
    *r = (link_rec){.kind = LINK_DONE, .request = 7};
    link_commit(0);
    link_flush();
    MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
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
    environment_read();
    NEED(link_open(&e) == KV_OK);
    if (argc > 1 && strcmp(argv[1], "gone") == 0) {
        take_beside_gone();
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
