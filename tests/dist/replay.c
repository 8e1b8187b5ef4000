/* Replays recorded runs of MXNet 1.9.1's stores of several machines, on as many workers as this
 * program is started on; runs of other numbers of workers are left out.
 *
 *     mpirun -n WORKERS dist_replay FOLDER
 *
 * The number of servers is not that of the record: the same bits are wanted whatever it is. Rank 0
 * prints TAP, one test a file; a rank that finds something wrong says so and ends the job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../conformance/replay.h"

static int rank, workers;

static void give_up(const char *what, const char *why)
{
    printf("not ok - %s\n# rank %d: %s\n", what, rank, why);
    fflush(stdout);
    _Exit(1);
}

/* Returns how many of the runs were of so many workers. */
static int replay_records(const cJSON *records)
{
    verdict v = {0};
    const char *name = records->string;
    const cJSON *one;
    cJSON_ArrayForEach(one, records)
    {
        if (replay_get(one, "workers")->valuedouble != workers)
            continue;
        trace_run(one, &v);
        if (v.wrong)
            give_up(name, v.first);
    }
    if (rank == 0 && v.equal + v.close > 0)
        printf("ok - %s: %d equal, %d within their tolerance\n", name, v.equal, v.close);
    fflush(stdout);
    return v.equal + v.close;
}

int main(int argc, char **argv)
{
    kv_err e = {0};
    kv *store = NULL;
    int runs = 0;
    cJSON *all = argc == 2 ? records_read(argv[1]) : NULL, *records;
    if (kv_create("dist_sync", NULL, 0, &store, &e))
        give_up("create", e.text);
    rank = kv_rank(store);
    workers = kv_num_workers(store);
    cJSON_ArrayForEach(records, all)
    {
        runs += replay_records(records);
    }
    cJSON_Delete(all);
    if (!runs)
        give_up("replay", "there are no runs of so many workers");
    kv_free(store);
    return 0;
}
