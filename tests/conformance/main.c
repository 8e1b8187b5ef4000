/* Replays recorded runs of MXNet 1.9.1: what its optimizers and schedules do to weights and states,
 * step by step, its store in random sequences of calls, and its quantiser to gradients. The
 * README.md of each folder of data says what its records hold.
 *
 *     conformance FOLDER…
 *
 * TAP, one test a file: how many runs are equal to the last bit, how many within the tolerance that
 * the record itself names, and the largest difference by dtype, in representable numbers. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "replay.h"

static cJSON *read_records(const char *folder, const char *name)
{
    buf path = {0};
    char *text = NULL;
    size_t n;
    kv_err e = {0};
    buf_printf(&path, "%s/%s", folder, name);
    cJSON *records = file_read(buf_text(&path), &text, &n, &e) ? NULL : cJSON_Parse(text);
    if (!records)
        printf("# %s: %s\n", buf_text(&path), e.code ? e.text : "not JSON");
    mem_free(text);
    buf_release(&path);
    return records;
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

static bool replay_file(int number, const char *folder, const char *name)
{
    verdict v = {0};
    cJSON *records = read_records(folder, name), *one;
    bool ok = records != NULL;
    if (ok && strcmp(name, "refused.json") == 0) {
        cJSON *better = read_records(folder, "better.json");
        ok = better && refused_run(records, better, &v);
        cJSON_Delete(better);
    } else if (ok && strcmp(name, "sgld.json") == 0) {
        ok = noise_run(records, &v);
    } else if (ok && strcmp(name, "quantise.json") == 0) {
        ok = quantise_run(records, &v);
    } else {
        cJSON_ArrayForEach(one, records)
        {
            if (replay_get(one, "calls"))
                trace_run(one, &v);
            else
                replay_run(one, &v);
        }
        ok = ok && v.wrong == 0;
    }
    printf("%sok %d - %s: %d equal, %d within their tolerance, %d wrong, %d cannot be compared",
           ok ? "" : "not ", number, name, v.equal, v.close, v.wrong, v.skipped);
    print_worst(&v);
    printf("%s\n", ok && v.skipped && v.equal + v.close == 0 ? " # SKIP nothing to compare" : "");
    if (v.first[0])
        printf("# %s\n", v.first);
    cJSON_Delete(records);
    return ok;
}

/* better.json is no list of runs. */
static int is_record(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && strcmp(dot, ".json") == 0 && strcmp(d->d_name, "better.json") != 0;
}

/* Adds to *number and *failed. Whether there was anything to replay. */
static bool replay_folder(const char *folder, int *number, int *failed)
{
    struct dirent **files = NULL;
    int n = scandir(folder, &files, is_record, alphasort);
    for (int i = 0; i < n; i++) {
        *failed += !replay_file(++*number, folder, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    return n > 0;
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
