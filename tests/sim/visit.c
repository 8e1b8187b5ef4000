/* The visit has a key of its own, row_sparse, of which every worker pushes some rows. All of them
 * wait at a barrier between two changes, so that what each must see follows from the pushes. */
#include "visit.h"

#include <stdio.h>
#include <string.h>

#include "array/device.h"
#include "check.h"

enum { ROWS = 40, COLUMNS = 3, STRIDE = 3 };

/* Where an error other than that of a rank that is lost or lacks memory is expected. */
static int must_refuse(int rank, const char *call, int rc, kv_code want, kv_err *e)
{
    bool other = rc == KV_E_PEER || rc == KV_E_MEMORY;
    if (rc != (int)want && !other)
        check_bad("rank %d: %s gives %s: %s", rank, call, kv_code_name((kv_code)rc), e->text);
    if (other)
        return rc;
    memset(e, 0, sizeof *e);
    return KV_OK;
}

bool visit_drawn(const job *j)
{
    bool whole = true;
    for (int w = 0; w < j->workers; w++)
        whole = whole && j->leaves[w] == j->rounds;
    return whole && !j->sums && !j->every;
}

static kv_key key_of(const job *j, int number)
{
    if (j->named)
        return (kv_key){.name = number ? "nothing" : "visited"};
    return (kv_key){.id = 1000 + number};
}

/* Rows first, first + STRIDE, … with x in each element. */
static int some_rows(kv_array **out, int64_t first, float x, kv_err *e)
{
    int64_t ids[ROWS], n = 0;
    void *data = NULL;
    for (int64_t i = first; i < ROWS; i += STRIDE)
        ids[n++] = i;
    int rc = kv_array_new_sparse(out, KV_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, n, ids,
                                 (kv_ctx){0}, e);
    if (!rc)
        rc = kv_array_write_rows(*out, &data, e);
    for (int64_t i = 0; i < n * COLUMNS && !rc; i++)
        ((float *)data)[i] = x;
    return rc;
}

static int push_rows(const job *j, kv *store, int rank, kv_err *e)
{
    kv_array *rows = NULL;
    kv_key key = key_of(j, 0);
    int rc = some_rows(&rows, rank % STRIDE, (float)(rank + 1), e);
    if (!rc)
        rc = kv_push(store, &key, 1, &rows, NULL, e);
    kv_array_unref(rows);
    if (!rc)
        rc = kv_wait(store, e);
    return rc ? rc : kv_barrier(store, e);
}

/* What the workers together push to a row. */
static float pushed(const job *j, int64_t row)
{
    float sum = 0;
    for (int w = 0; w < j->workers; w++)
        sum += row % STRIDE == w % STRIDE ? (float)(w + 1) : 0;
    return sum;
}

/* Pulls rows in any order, some twice, and compares with times * what was pushed. */
static int look_at_rows(const job *j, kv *store, int rank, float times, kv_err *e)
{
    static const int32_t some[] = {39, 0, 7, 7, 20, 1};
    static const int64_t want[] = {0, 1, 7, 20, 39};
    own_array *ids = NULL, *out = NULL;
    kv_key key = key_of(j, 0);
    void *to = NULL;
    const void *data;
    int rc = kv_array_new(&ids, KV_INT32, 1, (int64_t[]){6}, (kv_ctx){0}, e);
    if (!rc && !(rc = kv_array_write(ids, &to, e)))
        memcpy(to, some, sizeof some);
    if (!rc)
        rc = kv_array_new_sparse(&out, KV_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, 0, NULL,
                                 (kv_ctx){0}, e);
    if (!rc && !(rc = kv_row_sparse_pull(store, &key, 1, &ids, &out, NULL, e)) &&
        !(rc = kv_array_read_rows(out, &data, e)) && !(rc = kv_check(store, e))) {
        if (kv_array_nrows(out) != 5 || memcmp(kv_array_row_ids(out), want, sizeof want) != 0)
            check_bad("rank %d: other rows than were pulled, %d of them", rank,
                      (int)kv_array_nrows(out));
        for (int i = 0; i < 5 * COLUMNS && kv_array_nrows(out) == 5; i++)
            if (((const float *)data)[i] != times * pushed(j, want[i / COLUMNS]))
                check_bad("rank %d: row %d is %g", rank, (int)want[i / COLUMNS],
                          (double)((const float *)data)[i]);
    }
    return rc;
}

static int make_key(const job *j, kv *store, int rank, kv_err *e)
{
    own_array *none = NULL;
    kv_key key = key_of(j, 0);
    kv_info info = {0};
    int rc = kv_array_new_sparse(&none, KV_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, 0, NULL,
                                 (kv_ctx){0}, e);
    if (!rc && rank == 0)
        rc = kv_init(store, &key, 1, &none, NULL, e);
    if (!rc && rank > 0 && !(rc = kv_await_key(store, &key, &info, e)) &&
        (info.ndim != 2 || info.shape[0] != ROWS || info.storage != KV_ROW_SPARSE))
        check_bad("rank %d: the key that came has %d axes", rank, info.ndim);
    if (!rc && rank > 0)
        rc = kv_init(store, &key, 1, &none, NULL, e);
    return rc;
}

/* ---- Descriptions ---- */

static int count_rows(void *arg, const kv_field *fields, int nfields, kv_err *e)
{
    (void)e;
    *(int *)arg += nfields > 0 && fields[0].name && *fields[0].name;
    return KV_OK;
}

static int describe(const job *j, kv *store, int rank, kv_err *e)
{
    static const char *const topics[] = {"cluster", "store", "metadata", "rule", "optimizer",
                                         "states"};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        int rows = 0, rc = kv_describe(store, topics[i], count_rows, &rows, e);
        bool of_updater = i > 2;
        if (of_updater && j->assigns)
            rc = must_refuse(rank, topics[i], rc, KV_E_VALUE, e);
        else if (!rc && rows < (i == 0 ? j->workers + j->servers : i != 2))
            check_bad("rank %d: %d rows of %s", rank, rows, topics[i]);
        if (rc)
            return rc;
    }
    return KV_OK;
}

/* ---- Refusals ---- */

static bool has_wide(const job *j)
{
    for (int k = 0; k < j->nkeys; k++)
        if (j->dtype[k] == KV_FLOAT64)
            return true;
    return false;
}

/* They are of one rank, or of all; nothing is changed by them. */
static int refusals(const job *j, kv *store, int rank, kv_err *e)
{
    own_array *flat = NULL, *ids = NULL, *out = NULL;
    kv_key key = key_of(j, 0), none = key_of(j, 1);
    void *to = NULL;
    int rc = kv_array_new(&flat, KV_FLOAT32, 1, (int64_t[]){5}, (kv_ctx){0}, e);
    if (!rc)
        rc = kv_array_new(&ids, KV_INT64, 1, (int64_t[]){1}, (kv_ctx){0}, e);
    if (!rc && !(rc = kv_array_write(ids, &to, e)))
        *(int64_t *)to = ROWS;
    if (!rc)
        rc = kv_array_new_sparse(&out, KV_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, 0, NULL,
                                 (kv_ctx){0}, e);
    if (!rc)
        rc = must_refuse(rank, "a push of another shape",
                         kv_push(store, &key, 1, &flat, NULL, e), KV_E_SHAPE, e);
    if (!rc)
        rc = must_refuse(rank, "a pull into another shape",
                         kv_pull(store, &key, 1, &flat, NULL, e), KV_E_SHAPE, e);
    if (!rc)
        rc = must_refuse(rank, "a row outside",
                         kv_row_sparse_pull(store, &key, 1, &ids, &out, NULL, e), KV_E_INDEX, e);
    if (!rc)
        rc = must_refuse(rank, "rows of an array that is not row_sparse",
                         kv_row_sparse_pull(store, &key, 1, &ids, &flat, NULL, e), KV_E_SHAPE, e);
    if (!rc)
        rc = must_refuse(rank, "a second init", kv_init(store, &key, 1, &out, NULL, e), KV_E_KEY,
                         e);
    const kv_opt clips = {"clip_global_norm", "1"}, unknown = {"beta9", "1"};
    if (!rc && j->workers > 1)
        rc = must_refuse(rank, "clipping", kv_set_optimizer(store, "sgd", &clips, 1, e),
                         KV_E_UNSUPPORTED, e);
    if (!rc)
        rc = must_refuse(rank, "a parameter that is none",
                         kv_set_optimizer(store, "sgd", &unknown, 1, e), KV_E_USAGE, e);
    if (!rc)
        rc = must_refuse(rank, "a deletion", kv_delete(store, &key, 1, e), KV_E_UNSUPPORTED, e);
    if (!rc)
        rc = must_refuse(rank, "another name", kv_rename(store, &key, &none, e),
                         KV_E_UNSUPPORTED, e);
    if (!rc)
        rc = must_refuse(rank, "a transaction", kv_begin(store, e), KV_E_UNSUPPORTED, e);
    if (!rc)
        rc = must_refuse(rank, "codes of a row_sparse key",
                         kv_set_gradient_compression(store, &(kv_opt){"type", "2bit"}, 1, e),
                         has_wide(j) ? KV_E_DTYPE : KV_E_VALUE, e);
    kv_info info;
    if (!rc)
        rc = must_refuse(rank, "a key that is not there", kv_find(store, &none, &info, e),
                         KV_E_KEY, e);
    return rc;
}

/* ---- Optimizers ---- */

/* With momentum m = 0.5 m - s and w += m, where s is what is pushed, w = s at first, and the second
 * of three pushes counted for the states no more: w = s - s - 1.5 s - 1.5 s. */
static int change_optimizer(const job *j, kv *store, int rank, const char *folder, kv_err *e)
{
    char path[4200];
    const kv_opt sgd[] = {{"learning_rate", "1"}, {"momentum", "0.5"}, {"wd", "0"}};
    snprintf(path, sizeof path, "%s/visit-%d.states", folder, rank);
    int rc = kv_set_optimizer(store, "sgd", sgd, 3, e);
    if (!rc)
        rc = kv_barrier(store, e);
    if (!rc)
        rc = push_rows(j, store, rank, e);
    if (!rc && !(rc = kv_save_states(store, path, KV_DUMP_OPTIMIZER, e)))
        rc = push_rows(j, store, rank, e);
    if (!rc)
        rc = describe(j, store, rank, e);
    if (!rc)
        rc = kv_barrier(store, e);
    if (!rc)
        rc = kv_load_states(store, path, e);
    if (!rc)
        rc = kv_barrier(store, e);
    if (!rc)
        rc = push_rows(j, store, rank, e);
    return rc || j->is_async ? rc : look_at_rows(j, store, rank, -3, e);
}

/* ---- Codes ---- */

/* Of a dense key of its own, each element of which every worker pushes. */
static int push_codes(const job *j, kv *store, float x, kv_err *e)
{
    kv_array *a = NULL;
    kv_key key = key_of(j, 0);
    void *data = NULL;
    int rc = kv_array_new(&a, KV_FLOAT32, 1, (int64_t[]){ROWS}, (kv_ctx){0}, e);
    if (!rc && !(rc = kv_array_write(a, &data, e)))
        for (int i = 0; i < ROWS; i++)
            ((float *)data)[i] = x;
    if (!rc)
        rc = kv_push(store, &key, 1, &a, NULL, e);
    kv_array_unref(a);
    if (!rc)
        rc = kv_wait(store, e);
    return rc ? rc : kv_barrier(store, e);
}

static int look_at_codes(const job *j, kv *store, int rank, float want, kv_err *e)
{
    own_array *out = NULL;
    kv_key key = key_of(j, 0);
    const void *data;
    int rc = kv_array_new(&out, KV_FLOAT32, 1, (int64_t[]){ROWS}, (kv_ctx){0}, e);
    if (!rc && !(rc = kv_pull(store, &key, 1, &out, NULL, e)) &&
        !(rc = kv_array_read(out, &data, e)) && !(rc = kv_check(store, e)))
        for (int i = 0; i < ROWS; i++)
            if (((const float *)data)[i] != want)
                check_bad("rank %d: element %d of codes is %g, not %g", rank, i,
                          (double)((const float *)data)[i], (double)want);
    return rc ? rc : kv_barrier(store, e);
}

/* The threshold is 1: a first 0.625 is kept back, and is 1 and 0.25 with the second. States that
 * were loaded bring the 0.625 back that was kept when they were saved. */
static int visit_codes(const job *j, kv *store, int rank, const char *folder, kv_err *e)
{
    char path[4200];
    kv_array *zeros = NULL;
    kv_key key = key_of(j, 0);
    float all = (float)j->workers;
    snprintf(path, sizeof path, "%s/visit-%d.states", folder, rank);
    int rc = kv_array_new(&zeros, KV_FLOAT32, 1, (int64_t[]){ROWS}, (kv_ctx){0}, e);
    if (!rc)
        rc = kv_init(store, &key, 1, &zeros, NULL, e);
    kv_array_unref(zeros);
    if (!rc)
        rc = kv_barrier(store, e);
    if (!rc)
        rc = push_codes(j, store, 0.625f, e);
    if (!rc && !j->assigns)
        rc = kv_save_states(store, path, 0, e);
    if (!rc)
        rc = push_codes(j, store, 0.625f, e);
    if (!rc)
        rc = look_at_codes(j, store, rank, all, e);
    if (rc || j->assigns)
        return rc;
    if (!(rc = kv_load_states(store, path, e)) && !(rc = kv_barrier(store, e)))
        rc = push_codes(j, store, 0.375f, e);
    return rc ? rc : look_at_codes(j, store, rank, 2 * all, e);
}

int visit_run(const job *j, kv *store, int rank, const char *folder, kv_err *e)
{
    int rc = kv_barrier(store, e);
    if (!rc && j->compresses)
        return visit_codes(j, store, rank, folder, e);
    if (!rc)
        rc = make_key(j, store, rank, e);
    if (!rc)
        rc = kv_barrier(store, e);
    if (!rc)
        rc = push_rows(j, store, rank, e);
    if (!rc)
        rc = look_at_rows(j, store, rank, 1, e);
    if (!rc)
        rc = describe(j, store, rank, e);
    if (!rc)
        rc = refusals(j, store, rank, e);
    if (!rc)
        rc = kv_send_command(store, 7, "hello", e);
    if (!rc)
        rc = kv_barrier(store, e);
    if (!rc && !j->assigns)
        rc = change_optimizer(j, store, rank, folder, e);
    return rc ? rc : kv_barrier(store, e);
}
