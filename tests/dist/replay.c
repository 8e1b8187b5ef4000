/* Replays recorded runs of MXNet 1.9.1's stores of several machines, on as many workers as this
 * program is started on; runs of other numbers of workers are left out.
 *
 *     mpirun -n WORKERS dist_replay FOLDER
 *
 * The number of servers is not that of the record: the same bits are wanted whatever it is. Rank 0
 * prints TAP, one test a file; a rank that finds something wrong says so and ends the job. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "../conformance/replay.h"

static int rank, workers;

static void give_up(const char *what, const char *why)
{
    printf("not ok - %s\n# rank %d: %s\n", what, rank, why);
    fflush(stdout);
    _Exit(1);
}

static cJSON *read_records(const char *folder, const char *name)
{
    buf path = {0};
    char *text = NULL;
    size_t n;
    kv_err e = {0};
    buf_printf(&path, "%s/%s", folder, name);
    if (file_read(buf_text(&path), &text, &n, &e))
        give_up(name, e.text);
    cJSON *records = cJSON_Parse(text);
    if (!records)
        give_up(name, "not JSON");
    mem_free(text);
    buf_release(&path);
    return records;
}

/* Returns the number of runs in the file. */
static int replay_file(const char *folder, const char *name)
{
    verdict v = {0};
    cJSON *records = read_records(folder, name), *one;
    cJSON_ArrayForEach(one, records)
    {
        if (replay_get(one, "workers")->valuedouble != workers)
            continue;
        trace_run(one, &v);
        if (v.wrong)
            give_up(name, v.first);
    }
    cJSON_Delete(records);
    if (rank == 0 && v.equal + v.close > 0)
        printf("ok - %s: %d equal, %d within their tolerance\n", name, v.equal, v.close);
    fflush(stdout);
    return v.equal + v.close;
}

static int is_record(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && strcmp(dot, ".json") == 0;
}

int main(int argc, char **argv)
{
    struct dirent **files = NULL;
    kv_err e = {0};
    kv *store = NULL;
    int runs = 0, n = argc == 2 ? scandir(argv[1], &files, is_record, alphasort) : 0;
    if (kv_create("dist_sync", NULL, 0, &store, &e))
        give_up("create", e.text);
    rank = kv_rank(store);
    workers = kv_num_workers(store);
    for (int i = 0; i < n; i++) {
        runs += replay_file(argv[1], files[i]->d_name);
        free(files[i]);
    }
    free(files);
    if (!runs)
        give_up("replay", "there are no runs of so many workers");
    kv_free(store);
    return 0;
}
