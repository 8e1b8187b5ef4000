/* Every allocation of saving, loading, training, delete and rename fails: with all that follow, and
 * alone. Each time the call says so or gives what it would have given anyway, and the old file
 * stays. One that fails alone finds code that drops an error, because nothing after it fails in its
 * place. */
#include "kvstore.h"

#include "base/file.h"
#include "store_help.h"

/* A store, and what is done with it. */
typedef struct training {
    const char *type, *optimizer;
    kv_opt params[3];
    int nparams;
    kv_dtype dtype;
    bool rows, compressed;
} training;

static const training trainings[] = {
    {"local", "sgd", {{"momentum", "0.9"}}, 1, KV_FLOAT32, false, false},
    {"local", "sgd", {{"momentum", "0.9"}}, 1, KV_FLOAT32, true, false},
    {"local", "nadam", {{NULL, NULL}}, 0, KV_FLOAT32, false, false}, /* numbers as states */
    {"local", "adam", {{"multi_precision", "true"}}, 1, KV_FLOAT16, false, false},
    {"local", "adam",
     {{"lr_scheduler", "factor(step=1, factor=0.5)"}, {"lr_mult", "a=2"}, {"wd", "0.1"}}, 3,
     KV_FLOAT32, false, false},
    {"device", "sgd", {{NULL, NULL}}, 0, KV_FLOAT32, false, true},
};
enum { TRAININGS = sizeof trainings / sizeof *trainings };

static const kv_key keys[] = {{.name = "a"}, {.name = "b"}};
static const char path[] = "w.kvs", other[] = "new.kvs";

/* An array of 3 x 2 that holds x, row_sparse when rows are trained. */
static kv_array *array_for(const training *how, double x)
{
    own_array *a = ARRAY_OF(how->dtype, 2, ((int64_t[]){3, 2}), cpu0, x + (double)i / 8);
    return how->rows ? MADE(kv_array, kv_array_to_sparse, a) : kv_array_ref(a);
}

static kv *start(const training *how)
{
    kv *s = make(how->type);
    for (int i = 0; i < 2; i++)
        init_with(s, keys[i], array_for(how, i));
    return s;
}

/* The calls of a training, from *done on, which counts those that succeeded. */
static int train(kv *s, const training *how, kv_array *gradient, int *done, kv_err *e)
{
    static const kv_opt bits[] = {{"type", "2bit"}, {"threshold", "3"}};
    int rc = KV_OK;
    while (*done < 4 && !rc) {
        if (*done == 0)
            rc = kv_set_optimizer(s, how->optimizer, how->params, how->nparams, e);
        else if (*done == 1)
            rc = how->compressed ? kv_set_gradient_compression(s, bits, 2, e) : KV_OK;
        else
            rc = kv_push(s, keys, 2, (kv_array *[]){gradient, gradient}, NULL, e);
        *done += rc == KV_OK;
    }
    return rc;
}

static kv *trained(const training *how)
{
    kv *s = start(how);
    own_array *gradient = array_for(how, 0.5);
    int done = 0;
    CHECK_OK(train(s, how, gradient, &done, &e));
    return s;
}

typedef struct bytes {
    char *data;
    size_t n;
} bytes;

static bytes read_bytes(const char *name)
{
    bytes b;
    CHECK_OK(file_read(name, &b.data, &b.n, &e));
    return b;
}

static bool same_bytes(bytes a, bytes b)
{
    return a.n == b.n && memcmp(a.data, b.data, a.n) == 0;
}

static void check_bytes(const char *name, bytes want)
{
    bytes got = read_bytes(name);
    CHECK(same_bytes(got, want));
    mem_free(got.data);
}

/* Checks the file that the store saves. */
static void check_saved(kv *s, bytes want)
{
    CHECK_OK(kv_save(s, other, &e));
    check_bytes(other, want);
}

/* The number of allocations of a call that ended with rc. */
static int64_t made_by(int rc, const kv_err *e)
{
    CHECK(rc == KV_OK || (rc == KV_E_MEMORY && strstr(e->text, "out of memory")));
    return mem_fail_at(0);
}

/* The store that a fault is tried on. */
typedef struct subject {
    const training *how;
    kv *store;
    kv_array *gradient;
    bytes before, after;
    bool states; /* files of states instead of stores */
    bool begins; /* a transaction is open while keys are deleted and renamed */
} subject;

/* Runs one(s, n) for every allocation n that it makes, see mem_fail_at; then for -n. one returns
 * how many it made. */
static void each_fault(int64_t (*one)(const subject *s, int64_t n), const subject *s)
{
    for (int sign = 1; sign >= -1; sign -= 2)
        for (int64_t n = 1; one(s, sign * n) >= n; n++)
            CHECK(n < 5000);
}

static int save(const subject *s, const char *name, kv_err *e)
{
    return s->states ? kv_save_states(s->store, name, KV_DUMP_OPTIMIZER, e)
                     : kv_save(s->store, name, e);
}

static int64_t save_once(const subject *s, int64_t n)
{
    kv_err e = {0};
    file_fill(path, s->before.data, s->before.n);
    mem_fail_at(n);
    int rc = save(s, path, &e);
    int64_t made = made_by(rc, &e);
    check_bytes(path, rc ? s->before : s->after);
    return made;
}

static int64_t load_once(const subject *s, int64_t n)
{
    kv_err e = {0};
    kv *made_store = NULL;
    mem_fail_at(n);
    int rc = kv_load(&made_store, path, &e);
    int64_t made = made_by(rc, &e);
    if (!rc)
        check_saved(made_store, s->after);
    kv_free(rc ? NULL : made_store);
    return made;
}

static int64_t load_states_once(const subject *s, int64_t n)
{
    kv_err e = {0};
    own_kv *to = trained(s->how);
    kv_array *gradient = s->gradient;
    CHECK_OK(kv_push(to, keys, 1, &gradient, NULL, &e)); /* so that it has other states */
    uint64_t changes = kv_changes(to);
    mem_fail_at(n);
    int rc = kv_load_states(to, path, &e);
    int64_t made = made_by(rc, &e);
    CHECK_INT(kv_changes(to), changes + (rc == KV_OK));
    kv_save_states(to, other, KV_DUMP_OPTIMIZER, &e);
    if (!rc)
        check_bytes(other, s->after);
    return made;
}

static int64_t train_once(const subject *s, int64_t n)
{
    kv_err e = {0};
    own_kv *store = start(s->how);
    int done = 0;
    mem_fail_at(n);
    int rc = train(store, s->how, s->gradient, &done, &e);
    int64_t made = made_by(rc, &e);
    CHECK_OK(train(store, s->how, s->gradient, &done, &e));
    check_saved(store, s->after);
    return made;
}

static void each_training(bool states, int64_t (*one)(const subject *s, int64_t n))
{
    IN_FOLDER(path, other);
    for (int i = 0; i < TRAININGS; i++) {
        subject s = {.how = &trainings[i], .store = trained(&trainings[i]), .states = states};
        s.gradient = array_for(s.how, 0.5);
        CHECK_OK(save(&s, path, &e));
        s.after = read_bytes(path);
        s.before = (bytes){"old", 3};
        each_fault(one, &s);
        kv_array_unref(s.gradient);
        kv_free(s.store);
        mem_free(s.after.data);
    }
}

/* A transaction, if it is wanted, and what is done to the keys in it, from *done on, which counts
 * the calls that succeeded. */
static int edit(kv *s, const subject *on, int *done, kv_err *e)
{
    static const kv_key z = {.name = "z"};
    int rc = KV_OK;
    while (*done < 4 && !rc) {
        if (*done == 0)
            rc = on->begins ? kv_begin(s, e) : KV_OK;
        else if (*done == 1)
            rc = kv_rename(s, &keys[0], &z, e);
        else if (*done == 2)
            rc = kv_delete(s, &keys[1], 1, e);
        else
            rc = kv_init(s, &keys[1], 1, (kv_array *[]){on->gradient}, NULL, e);
        *done += rc == KV_OK;
    }
    return rc;
}

static int64_t edit_once(const subject *s, int64_t n)
{
    kv_err e = {0};
    own_kv *store = trained(s->how);
    uint64_t changes = kv_changes(store);
    int done = 0;
    mem_fail_at(n);
    int rc = edit(store, s, &done, &e);
    int64_t made = made_by(rc, &e);
    CHECK_INT(kv_changes(store), changes + (done > 1 ? done - 1 : 0));
    CHECK_OK(edit(store, s, &done, &e));
    check_saved(store, s->after);
    if (s->begins) {
        CHECK_OK(kv_rollback(store, &e));
        check_saved(store, s->before);
    }
    return made;
}

/* A key that is trained under another name and gets its own back is as it would have been. */
static void check_other_name(const subject *s)
{
    static const kv_key z = {.name = "z"};
    own_kv *plain = trained(s->how), *edited = trained(s->how);
    bool is_named = s->how->nparams == 3; /* the rate is that of the name a */
    CHECK_OK(kv_rename(edited, &keys[0], &z, &e));
    CHECK_OK(kv_push(plain, &keys[0], 1, (kv_array *[]){s->gradient}, NULL, &e));
    CHECK_OK(kv_push(edited, &z, 1, (kv_array *[]){s->gradient}, NULL, &e));
    CHECK_OK(kv_rename(edited, &z, &keys[0], &e));
    CHECK_OK(kv_save(plain, path, &e));
    bytes want = read_bytes(path);
    if (!is_named)
        check_saved(edited, want);
    mem_free(want.data);
}

static void each_edit(bool begins)
{
    IN_FOLDER(path, other);
    for (int i = 0; i < TRAININGS; i++) {
        int done = 0;
        subject s = {.how = &trainings[i], .store = trained(&trainings[i]), .begins = begins};
        s.gradient = array_for(s.how, 0.5);
        CHECK_OK(kv_save(s.store, path, &e));
        s.before = read_bytes(path);
        CHECK_OK(edit(s.store, &s, &done, &e));
        CHECK_OK(kv_save(s.store, path, &e));
        s.after = read_bytes(path);
        CHECK(!same_bytes(s.after, s.before));
        each_fault(edit_once, &s);
        check_other_name(&s);
        kv_array_unref(s.gradient);
        kv_free(s.store);
        mem_free(s.before.data);
        mem_free(s.after.data);
    }
}

TEST(faults_of_delete_and_rename)
{
    each_edit(false);
    each_edit(true);
}

TEST(faults_of_files)
{
    each_training(false, save_once);
    each_training(false, load_once);
    each_training(true, save_once);
    each_training(true, load_states_once);
}

TEST(faults_of_training)
{
    each_training(false, train_once);
}
