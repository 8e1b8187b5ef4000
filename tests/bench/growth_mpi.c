/* What Open MPI alone takes in a job of so many ranks, for tests/bench/growth: it makes the calls
 * with which the store begins, but asks for no rings, and times sums of as many bytes as a round
 * moves.
 *
 *     mpirun -n RANKS growth_mpi EVENTS BYTES RUNS COMMAND
 *
 * Each rank adds a line to EVENTS as those of `kvctl launch` do. Rank 0 prints the time as the
 * command `time` does, and runs COMMAND while all ranks are there.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"


/* Appended with one write, so that lines of several ranks do not mix. */
static void tell(const char *events, int rank)
{
    FILE *f = fopen(events, "a");
    if (!f || fprintf(f, "%d start %d\n", rank, (int)getpid()) < 0 || fclose(f) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    int level, rank, status = 0;
    MPI_Comm world, near;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_rank(world, &rank);
    if (argc != 5)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int n = atoi(argv[2]) / (int)sizeof(float), runs = atoi(argv[3]);
    float *x = calloc((size_t)n, sizeof *x), *sum = calloc((size_t)n, sizeof *sum);
    double *us = calloc((size_t)runs + 1, sizeof *us);
    if (!x || !sum || !us || runs < 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
    tell(argv[1], rank);
    MPI_Barrier(world);
    for (int i = 0; i <= runs; i++) { /* the first is not counted */
        double begin = 1e6 * now();
        MPI_Allreduce(x, sum, n, MPI_FLOAT, MPI_SUM, world);
        us[i] = 1e6 * now() - begin;
    }
    qsort(us + 1, (size_t)runs, sizeof *us, by_size);
    if (rank == 0) {
        printf("time: %d runs, min %.1f us, median %.1f us\n", runs, us[1], us[1 + runs / 2]);
        fflush(stdout);
        status = system(argv[4]);
    }
    MPI_Barrier(world);
    MPI_Finalize();
    return status != 0;
}
