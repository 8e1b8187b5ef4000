/* What MXNet 1.9.1 refuses: an error that leaves everything as it was. Some of it has an obvious
 * meaning and works here: better.json names those with the reason, and they must then work. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "replay.h"

/* Weight and gradient, all of one value. */
static kv_array *filled(replay *r, double value)
{
    const cJSON *n;
    int64_t shape[KV_MAX_NDIM];
    int ndim = 0;
    kv_array *wide = NULL, *out = NULL;
    void *data;
    kv_dtype dtype = KV_FLOAT32;
    const char *name = replay_get(r->run, "dtype")->valuestring;
    cJSON_ArrayForEach(n, replay_get(r->run, "shape")) shape[ndim++] = (int64_t)n->valuedouble;
    replay_check(r, kv_dtype_parse(&dtype, name, &r->e), "dtype");
    replay_check(r, kv_array_new(&wide, KV_FLOAT64, ndim, shape, (kv_ctx){0}, &r->e), "array");
    replay_check(r, kv_array_write(wide, &data, &r->e), "array");
    for (int64_t i = 0; i < kv_array_size(wide); i++)
        ((double *)data)[i] = value;
    replay_check(r, kv_array_dup(&out, wide, dtype, (kv_ctx){0}, &r->e), "array");
    kv_array_unref(wide);
    return out;
}

/* Whether all of the key's elements are finite, and whether they are what they were. */
static void look(replay *r, const kv_key *key, bool *same, bool *finite)
{
    own_array *out = filled(r, 0), *wide = NULL;
    const void *data;
    replay_check(r, kv_pull(r->store, key, 1, &out, NULL, &r->e), "pull");
    replay_check(r, kv_array_dup(&wide, out, KV_FLOAT64, (kv_ctx){0}, &r->e), "array");
    replay_check(r, kv_array_read(wide, &data, &r->e), "array");
    *same = *finite = true;
    for (int64_t i = 0; i < kv_array_size(wide); i++) {
        *same &= ((const double *)data)[i] == 2;
        *finite &= isfinite(((const double *)data)[i]);
    }
}

static void must_refuse(replay *r, int rc, uint64_t before, const kv_key *key)
{
    bool same, finite;
    kv_info info = {0};
    look(r, key, &same, &finite);
    replay_check(r, kv_find(r->store, key, &info, &(kv_err){0}), "find");
    if (rc == KV_OK)
        replay_fail(r, "was not refused");
    if (rc && !r->e.text[0])
        replay_fail(r, "was refused without a reason");
    if (!same || info.pushes > 0 || kv_changes(r->store) != before)
        replay_fail(r, "changed something before it was refused");
}

static void must_work(replay *r, int rc, const kv_key *key, bool tiny)
{
    bool same, finite;
    replay_check(r, rc, "should work");
    look(r, key, &same, &finite);
    if (!finite || (same && !tiny))
        replay_fail(r, "the update did nothing sensible");
}

/* better: NULL, or why it works here. "tiny" in it: the step is too small to see. */
static void run(replay *r, const cJSON *better)
{
    kv_key key = {.id = 3};
    own_array *w = filled(r, 2), *g = filled(r, 1);
    replay_check(r, kv_create(replay_type(), NULL, 0, &r->store, &r->e), "create");
    replay_check(r, kv_init(r->store, &key, 1, &w, NULL, &r->e), "init");
    uint64_t before = kv_changes(r->store);
    if (strcmp(replay_get(r->run, "grad_stype")->valuestring, "row_sparse") == 0) {
        own_array *dense = g;
        replay_check(r, kv_array_to_sparse(&g, dense, &r->e), "gradient");
    }
    int rc = replay_try_optimizer(r);
    if (rc == KV_OK) {
        before = kv_changes(r->store);
        rc = kv_push(r->store, &key, 1, &g, NULL, &r->e);
    }
    if (better)
        must_work(r, rc, &key, strstr(better->valuestring, "tiny") != NULL);
    else
        must_refuse(r, rc, before, &key);
    kv_free(r->store);
}

bool refused_run(const cJSON *runs, const cJSON *better, verdict *v)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, runs)
    {
        replay r = {.run = one};
        const char *id = replay_get(one, "id")->valuestring;
        run(&r, replay_get(better, id));
        v->equal += !r.failed;
        v->wrong += r.failed;
        if (r.failed)
            printf("# %s: %s (%s)\n", id, r.why, r.e.text);
    }
    return v->wrong == 0;
}
