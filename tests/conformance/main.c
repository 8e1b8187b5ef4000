/* Replays recorded runs of MXNet 1.9.1: what its optimizers and schedules do to weights and states,
 * step by step, its store in random sequences of calls, and its quantiser to gradients. The
 * README.md of each folder of data says what its records hold.
 *
 *     conformance FOLDER…
 *
 * $REPLAY_EACH=3 replays the first of every three runs of a list. TAP, one test a list of runs: how
 * many runs are equal to the last bit, how many within the tolerance that the record itself names,
 * and the largest difference by dtype, in representable numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "replay.h"

/* The list of runs that MXNet refused and that work here, with the reasons. */
static cJSON *read_better(const char *folder)
{
    own_buf path = {0};
    char *text = NULL;
    size_t n;
    kv_err e = {0};
    buf_printf(&path, "%s/better.json", folder);
    cJSON *better = file_read(buf_text(&path), &text, &n, &e) ? NULL : cJSON_Parse(text);
    if (!better)
        printf("# %s: %s\n", buf_text(&path), e.code ? e.text : "not JSON");
    mem_free(text);
    return better;
}

static void print_worst(const verdict *v)
{
    const char *before = "; largest difference ";
    for (int d = 0; d < KV_DTYPE_END; d++) {
        if (v->worst[d] > 0)
            printf("%s%s %.3g ulp", before, kv_dtype_name((kv_dtype)d), v->worst[d]);
        before = v->worst[d] > 0 ? ", " : before;
    }
}

static bool replay_records(int number, const char *folder, const cJSON *records)
{
    verdict v = {0};
    const char *name = records->string;
    const cJSON *one;
    const char *each = getenv("REPLAY_EACH");
    int of = each ? atoi(each) : 1, n = 0;
    bool ok = true;
    if (strcmp(name, "refused") == 0) {
        cJSON *better = read_better(folder);
        ok = better && refused_run(records, better, &v);
        cJSON_Delete(better);
    } else if (strcmp(name, "sgld") == 0) {
        ok = noise_run(records, &v);
    } else if (strcmp(name, "quantise") == 0) {
        ok = quantise_run(records, &v);
    } else {
        cJSON_ArrayForEach(one, records)
        {
            if (of > 1 && n++ % of != 0)
                continue;
            if (replay_get(one, "calls"))
                trace_run(one, &v);
            else
                replay_run(one, &v);
        }
        ok = v.wrong == 0;
    }
    printf("%sok %d - %s: %d equal, %d within their tolerance, %d wrong, %d cannot be compared",
           ok ? "" : "not ", number, name, v.equal, v.close, v.wrong, v.skipped);
    print_worst(&v);
    printf("%s\n", ok && v.skipped && v.equal + v.close == 0 ? " # SKIP nothing to compare" : "");
    if (v.first[0])
        printf("# %s\n", v.first);
    return ok;
}

/* Adds to *number and *failed. Whether there was anything to replay. */
static bool replay_folder(const char *folder, int *number, int *failed)
{
    cJSON *all = records_read(folder), *records;
    bool any = all && all->child;
    cJSON_ArrayForEach(records, all)
    {
        *failed += !replay_records(++*number, folder, records);
    }
    cJSON_Delete(all);
    return any;
}

int main(int argc, char **argv)
{
    int number = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        if (!replay_folder(argv[i], &number, &failed)) {
            fprintf(stderr, "conformance: %s holds no records\n", argv[i]);
            return 2;
        }
    }
    if (argc < 2) {
        fprintf(stderr, "usage: conformance FOLDER...\n");
        return 2;
    }
    printf("1..%d\n", number);
    return failed > 0;
}
