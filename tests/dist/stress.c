/* Random calls of several ranks against closed forms.
 *
 *     mpirun -n WORKERS dist_stress [CALLS [SEED]]
 *
 * All ranks make the same calls on the same keys, of mixed sizes, in the same order, each with
 * priorities of its own. Pulled arrays are looked at late, so that many calls are under way. Then
 * calls of few arrays that stand in many pairs, of which each holds what its last pair gives. At
 * the end a worker runs ahead of the others with four times the bytes that may be under way
 * ($KVSTORE_AHEAD). Numbers are small and whole, so that equality is exact. Rank 0 prints TAP.
 */
#include <unistd.h>

#include "must.h"

enum { KEYS = 7, OUTS = 16, VALUES = 3 };

static const int64_t sizes[KEYS] = {1, 10, 1000, 65536, 65537, 300000, 1100003};

static int calls = 400;
static uint64_t shared = 1, own;

static int draw(uint64_t *state, int n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)n);
}

static kv_array *filled(int64_t size, float x)
{
    kv_array *a = NULL;
    void *data = NULL;
    OK(kv_array_new(&a, KV_FLOAT32, 1, &size, (kv_ctx){0}, &e));
    OK(kv_array_write(a, &data, &e));
    for (int64_t i = 0; i < size; i++)
        ((float *)data)[i] = x;
    return a;
}

static void must_be(kv_array *a, float x)
{
    const void *data = NULL;
    OK(kv_array_read(a, &data, &e));
    for (int64_t i = 0; i < kv_array_size(a); i++)
        MUST(((const float *)data)[i] == x);
}

/* An array that a call writes, and what it must hold then. */
typedef struct out {
    kv_array *a;
    float x;
} out;

static struct {
    kv_array *values[KEYS][VALUES]; /* rank + 1 times 1, 2 and 3 */
    out outs[KEYS][OUTS];
    int at[KEYS];
    float stored[KEYS];
} all;

static void begin(void)
{
    for (int k = 0; k < KEYS; k++) {
        all.stored[k] = 0;
        for (int v = 0; v < VALUES; v++)
            all.values[k][v] = filled(sizes[k], (float)((rank + 1) * (v + 1)));
    }
}

static void end(void)
{
    for (int k = 0; k < KEYS; k++) {
        for (int v = 0; v < VALUES; v++)
            kv_array_unref(all.values[k][v]);
        for (int i = 0; i < OUTS; i++) {
            if (all.outs[k][i].a && all.outs[k][i].x >= 0)
                must_be(all.outs[k][i].a, all.outs[k][i].x);
            kv_array_unref(all.outs[k][i].a);
            all.outs[k][i].a = NULL;
        }
    }
}

/* The next array of a key to be written, when what it held was right. x below 0: anything is. */
static kv_array **next_out(int k, float x)
{
    out *o = &all.outs[k][all.at[k]++ % OUTS];
    if (o->a && o->x >= 0)
        must_be(o->a, o->x);
    if (!o->a)
        o->a = filled(sizes[k], -1);
    o->x = x;
    return &o->a;
}

/* The sum that a push of the value by all ranks adds. */
static float sum_of(int v)
{
    return (float)(workers * (workers + 1) / 2 * (v + 1));
}

static void stored_call(kv *s, bool exact)
{
    int what = draw(&shared, 5), k = draw(&shared, KEYS), v = draw(&shared, VALUES);
    kv_key key = {.id = k};
    kv_call how = {.priority = draw(&own, 7) - 3};
    kv_array **value = &all.values[k][v];
    if (what < 4)
        all.stored[k] += sum_of(v);
    float x = exact ? all.stored[k] : -1;
    if (what < 2)
        OK(kv_push(s, &key, 1, value, &how, &e));
    else if (what < 4)
        OK(kv_pushpull(s, &key, 1, value, &key, 1, next_out(k, x), &how, &e));
    if (what == 1 || what == 4)
        OK(kv_pull(s, &key, 1, next_out(k, x), &how, &e));
}

static void stored(const char *type, bool exact)
{
    own_kv *s = NULL;
    running = type;
    OK(kv_create(type, NULL, 0, &s, &e));
    OK(kv_set_optimizer(s, "test", &(kv_opt){"rescale_grad", "1"}, 1, &e));
    begin();
    for (int k = 0; k < KEYS; k++) {
        own_array *zeros = filled(sizes[k], 0);
        OK(kv_init(s, &(kv_key){.id = k}, 1, &zeros, NULL, &e));
    }
    for (int i = 0; i < calls; i++)
        stored_call(s, exact);
    OK(kv_wait(s, &e));
    OK(kv_barrier(s, &e));
    for (int k = 0; k < KEYS; k++)
        OK(kv_pull(s, &(kv_key){.id = k}, 1, next_out(k, all.stored[k]), NULL, &e));
    end();
}

static void sums(const char *type)
{
    own_kv *s = NULL;
    running = type;
    OK(kv_create(type, NULL, 0, &s, &e));
    begin();
    for (int i = 0; i < calls; i++) {
        int k = draw(&shared, KEYS), v = draw(&shared, VALUES);
        kv_call how = {.priority = draw(&own, 7) - 3};
        kv_key key = {.id = k};
        OK(kv_pushpull(s, &key, 1, &all.values[k][v], &key, 1, next_out(k, sum_of(v)), &how, &e));
    }
    end();
}

/* ---- Arrays in several pairs ---- */

enum { PAIRS = 6, ARRAYS = 3 };

static const int64_t repeat_sizes[] = {4, 300000}; /* of one part, of several */

typedef struct repeat {
    int n, at[PAIRS]; /* which array stands in each pair */
    kv_key keys[PAIRS];
    kv_array *arrays[ARRAYS], *outs[PAIRS];
} repeat;

/* Array i is filled with rank + 1 + i. */
static void draw_repeat(repeat *r, int64_t size)
{
    r->n = 2 + draw(&shared, PAIRS - 1);
    for (int i = 0; i < ARRAYS; i++)
        r->arrays[i] = filled(size, (float)(rank + 1 + i));
    for (int i = 0; i < r->n; i++) {
        r->at[i] = draw(&shared, ARRAYS);
        r->keys[i] = (kv_key){.id = draw(&shared, ARRAYS + 1)};
        r->outs[i] = r->arrays[r->at[i]];
    }
}

/* The arrays hold what x has for the key of their last pair. */
static void end_repeat(repeat *r, const float *x)
{
    for (int i = 0; i < ARRAYS; i++) {
        float want = (float)(rank + 1 + i);
        for (int j = 0; j < r->n; j++)
            want = r->at[j] == i ? x[r->keys[j].id] : want;
        must_be(r->arrays[i], want);
        kv_array_unref(r->arrays[i]);
    }
}

static void repeats_of_pulls(const char *type, int64_t size)
{
    own_kv *s = NULL;
    repeat r;
    float x[ARRAYS + 1];
    running = "repeats of pulls";
    OK(kv_create(type, NULL, 0, &s, &e));
    for (int k = 0; k <= ARRAYS; k++) {
        x[k] = (float)(100 + k);
        own_array *first = filled(size, x[k]);
        OK(kv_init(s, &(kv_key){.id = k}, 1, &first, NULL, &e));
    }
    for (int i = 0; i < calls / 4; i++) {
        draw_repeat(&r, size);
        if (i % 2) {
            OK(kv_pull(s, r.keys, r.n, r.outs, NULL, &e));
        } else {
            int64_t rounds[PAIRS];
            for (int j = 0; j < r.n; j++)
                rounds[j] = KV_NO_ROUND;
            OK(kv_pull_since(s, r.keys, r.n, r.outs, rounds, NULL, &e));
            MUST(rounds[r.n - 1] == 0);
        }
        end_repeat(&r, x);
    }
    OK(kv_barrier(s, &e));
}

/* In place, so that the arrays are the values of several keys, too. */
static void repeats_of_sums(const char *type, int64_t size)
{
    own_kv *s = NULL;
    repeat r;
    running = "repeats of sums";
    OK(kv_create(type, NULL, 0, &s, &e));
    for (int i = 0; i < calls / 4; i++) {
        float x[ARRAYS + 1] = {0};
        draw_repeat(&r, size);
        for (int j = 0; j < r.n; j++)
            x[r.keys[j].id] += (float)(workers * (workers + 1) / 2 + workers * r.at[j]);
        OK(kv_pushpull(s, r.keys, r.n, r.outs, NULL, 0, NULL, NULL, &e));
        end_repeat(&r, x);
    }
    OK(kv_barrier(s, &e));
}

static void repeats(void)
{
    for (int i = 0; i < 2; i++) {
        repeats_of_pulls("dist_sync", repeat_sizes[i]);
        repeats_of_pulls("dist_async", repeat_sizes[i]);
        repeats_of_sums("horovod", repeat_sizes[i]);
        repeats_of_sums("byteps", repeat_sizes[i]);
    }
}

static long most_resident_kb(void)
{
    char line[128];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kb < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kb) != 1)
            kb = -1;
    MUST(f && kb >= 0);
    fclose(f);
    return kb;
}

/* The first worker pushes four times what may be under way, in arrays of its own, while the others
 * sleep. */
static void ahead(void)
{
    enum { MB = 1 << 20, EACH = 16 };
    const char *text = getenv("KVSTORE_AHEAD");
    int under_way = text ? atoi(text) / MB : 256, n = 4 * under_way / EACH;
    own_kv *s = NULL;
    kv_key key = {.id = 3};
    own_array *zeros = filled(EACH * MB / 4, 0);
    running = "ahead";
    OK(kv_create("dist_sync", NULL, 0, &s, &e));
    OK(kv_set_optimizer(s, "test", &(kv_opt){"rescale_grad", "1"}, 1, &e));
    OK(kv_init(s, &key, 1, &zeros, NULL, &e));
    OK(kv_barrier(s, &e));
    long before = most_resident_kb();
    if (rank > 0)
        usleep(500000);
    for (int i = 0; i < n; i++) {
        own_array *a = filled(EACH * MB / 4, 1);
        OK(kv_push(s, &key, 1, &a, NULL, &e));
    }
    OK(kv_pull(s, &key, 1, &zeros, NULL, &e));
    must_be(zeros, (float)(n * workers));
    /* what this rank holds as a worker, and what its server holds of each worker; sanitizers keep
     * more than was asked for */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    (void)before;
#else
    MUST(most_resident_kb() - before < (workers + 1) * (under_way + 64) * 1024L);
#endif
}

int main(int argc, char **argv)
{
    kv *s = NULL;
    OK(kv_create("dist_sync", NULL, 0, &s, &e));
    rank = kv_rank(s);
    workers = kv_num_workers(s);
    if (argc > 1)
        calls = atoi(argv[1]);
    if (argc > 2)
        shared = strtoull(argv[2], NULL, 10);
    own = shared + 1000 * (uint64_t)(rank + 1);
    stored("dist_sync", true);
    stored("dist_async", false);
    sums("horovod");
    repeats();
    ahead();
    kv_free(s);
    if (rank == 0)
        printf("ok - %d calls\n", calls);
    return 0;
}
