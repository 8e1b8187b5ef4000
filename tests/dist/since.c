/* Pulls of changes beside whole pulls: after random updates both must give the same bits, whatever
 * round an array holds.
 *
 *     mpirun -n WORKERS dist_since [NAME…]
 *
 * Every rank runs the same checks. Rank 0 prints TAP; a rank that finds something wrong says so and
 * ends the job. $DIST_SIDE makes the largest array smaller.
 */

#include "must.h"

static uint64_t draw(uint64_t below)
{
    check_seed = check_seed * 6364136223846793005u + 1442695040888963407u;
    return (check_seed >> 33) % below;
}

/* ---- Keys ---- */

enum { KEYS = 6, OUTS = 3 };

/* One key with arrays that hold rounds of it. */
typedef struct held {
    kv_key key;
    kv_dtype dtype;
    int64_t n;
    kv_array *outs[OUTS], *whole[OUTS]; /* the last one of another dtype */
    int64_t rounds[OUTS];
} held;

static struct {
    kv_dtype dtype;
    int64_t n;
} forms[KEYS] = {{KV_BFLOAT16, 0},  {KV_BFLOAT16, 70001}, {KV_FLOAT16, 5},
                 {KV_FLOAT32, 40000},    {KV_FLOAT64, 1},      {KV_FLOAT32, 0}};

static kv_array *array_of(kv_dtype dtype, int64_t n)
{
    kv_array *a = NULL;
    OK(kv_array_new(&a, dtype, 1, &n, (kv_ctx){0}, &e));
    return a;
}

static void make_keys(kv *s, held *h)
{
    for (int k = 0; k < KEYS; k++) {
        h[k] = (held){.key = {.id = k}, .dtype = forms[k].dtype, .n = forms[k].n};
        for (int i = 0; i < OUTS; i++) {
            kv_dtype dtype = i < OUTS - 1 ? h[k].dtype : KV_FLOAT32;
            h[k].outs[i] = array_of(dtype, h[k].n);
            h[k].whole[i] = array_of(dtype, h[k].n);
            h[k].rounds[i] = KV_NO_ROUND;
        }
        own_array *first = array_of(h[k].dtype, h[k].n);
        OK(kv_init(s, &h[k].key, 1, &first, NULL, &e));
    }
}

static void free_keys(held *h)
{
    for (int k = 0; k < KEYS; k++)
        for (int i = 0; i < OUTS; i++) {
            kv_array_unref(h[k].outs[i]);
            kv_array_unref(h[k].whole[i]);
        }
}

/* Random numbers at few places: also nan, and -0, which is a change of bits where 0 was. */
static void push_some(kv *s, const held *h, uint64_t one_in)
{
    own_array *wide = array_of(KV_FLOAT32, h->n), *value = NULL;
    void *data = NULL;
    OK(kv_array_write(wide, &data, &e));
    for (int64_t i = 0; i < h->n; i++) {
        static const float some[] = {-0.0f, 1, 0.5f, -3, 1e-3f};
        uint64_t what = draw(one_in);
        ((float *)data)[i] = what ? 0 : some[draw(5)] * (float)(rank + 1);
    }
    if (h->n && draw(3) == 0)
        ((float *)data)[draw((uint64_t)h->n)] = draw(2) ? -0.0f : (float)(0.0 / 0.0 * 1);
    OK(kv_array_dup(&value, wide, h->dtype, (kv_ctx){0}, &e));
    OK(kv_push(s, &h->key, 1, &value, NULL, &e));
}

static bool same_bits(kv_array *a, kv_array *b)
{
    const void *x = NULL, *y = NULL;
    OK(kv_array_read(a, &x, &e));
    OK(kv_array_read(b, &y, &e));
    return kv_array_bytes(a) == 0 || memcmp(x, y, (size_t)kv_array_bytes(a)) == 0;
}

/* Brings array i of some keys to the present in one call, and looks that a whole pull gives the
 * same bits. round: what they must be told; -1: any that is not less than before. */
static void bring(kv *s, held *h, int from, int n, int i, int64_t round)
{
    kv_key keys[KEYS];
    kv_array *outs[KEYS], *whole[KEYS];
    int64_t rounds[KEYS];
    for (int k = 0; k < n; k++) {
        keys[k] = h[from + k].key;
        outs[k] = h[from + k].outs[i];
        whole[k] = h[from + k].whole[i];
        rounds[k] = h[from + k].rounds[i];
    }
    OK(kv_pull_since(s, keys, n, outs, rounds, NULL, &e));
    OK(kv_pull(s, keys, n, whole, NULL, &e));
    for (int k = 0; k < n; k++) {
        MUST(same_bits(outs[k], whole[k]));
        MUST(round < 0 ? rounds[k] >= h[from + k].rounds[i] : rounds[k] == round);
        h[from + k].rounds[i] = rounds[k];
    }
}

/* ---- Checks ---- */

static kv *make(const char *type, const char *optimizer)
{
    kv *s = NULL;
    OK(kv_create(type, NULL, 0, &s, &e));
    if (optimizer)
        OK(kv_set_optimizer(s, optimizer, NULL, 0, &e));
    return s;
}

static void rounds_of(const char *optimizer, int rounds)
{
    own_kv *s = make("dist_sync", optimizer);
    held h[KEYS];
    make_keys(s, h);
    for (int r = 1; r <= rounds; r++) {
        for (int k = 0; k < KEYS; k++)
            push_some(s, &h[k], k == 3 && r % 3 == 0 ? 1 : 50);
        bring(s, h, 0, KEYS, 0, r);
        if (draw(3) == 0 || r % (rank + 2) == 0) /* each rank holds other rounds */
            bring(s, h, (int)(r % 3), 3, 1, r);
        if (r % 4 == 0)
            bring(s, h, 0, KEYS, 2, r);
    }
    OK(kv_barrier(s, &e));
    free_keys(h);
}

static void check_sums(void)
{
    rounds_of(NULL, 12);
}

static void check_updates(void)
{
    rounds_of("sgd", 12);
    rounds_of("adam", 6);
}

/* Marks go back a limited number of rounds, and are dropped when nobody asks for as long. */
static void check_many_rounds(void)
{
    own_kv *s = make("dist_sync", "sgd");
    held h[KEYS];
    int64_t oldest = KV_NO_ROUND;
    make_keys(s, h);
    for (int r = 1; r <= 1300; r++) {
        push_some(s, &h[3], 400);
        if (r < 600 && r % 7 == 0)
            bring(s, h, 3, 1, 0, r);
        if (r % 100 == 0 || r == 301)
            bring(s, h, 3, 1, 1, r);
        if (r % 400 == 0)
            bring(s, h, 3, 1, 2, r);
    }
    OK(kv_pull_since(s, &h[3].key, 1, &h[3].outs[0], &h[3].rounds[0], NULL, &e));
    bring(s, h, 3, 1, 0, 1300);
    OK(kv_pull_since(s, &h[3].key, 1, &h[3].outs[0], &oldest, NULL, &e));
    MUST(oldest == 1300);
    OK(kv_barrier(s, &e));
    free_keys(h);
}

/* Without rounds every worker pushes as it likes; what is pulled between two barriers stays. */
static void check_async(void)
{
    own_kv *s = make("dist_async", "test");
    held h[KEYS];
    make_keys(s, h);
    for (int r = 1; r <= 8; r++) {
        for (int k = 0; k < KEYS; k++) {
            for (int i = 0; i <= rank % 2; i++)
                push_some(s, &h[k], 50);
            OK(kv_pull_since(s, &h[k].key, 1, &h[k].outs[0], &h[k].rounds[0], NULL, &e));
        }
        OK(kv_wait(s, &e));
        OK(kv_barrier(s, &e));
        bring(s, h, 0, KEYS, 0, -1);
        if (r % (rank + 2) == 0)
            bring(s, h, 0, KEYS, 1, -1);
        OK(kv_barrier(s, &e));
    }
    for (int k = 0; k < KEYS; k++) { /* a round to come brings all of it */
        int64_t round = 1000000;
        OK(kv_pull_since(s, &h[k].key, 1, &h[k].outs[1], &round, NULL, &e));
        MUST(same_bits(h[k].outs[0], h[k].outs[1]));
        MUST(round < 1000 && round >= 8);
    }
    OK(kv_barrier(s, &e));
    free_keys(h);
}

/* An optimizer that needs whole keys makes the large ones move, with their rounds. */
static void moves_of(const char *type)
{
    own_kv *s = make(type, "test");
    held h[KEYS];
    bool async = strcmp(type, "dist_async") == 0;
    make_keys(s, h);
    for (int r = 1; r <= 8; r++) {
        for (int k = 0; k < KEYS; k++)
            push_some(s, &h[k], 50);
        OK(kv_wait(s, &e));
        OK(kv_barrier(s, &e));
        bring(s, h, 0, KEYS, 0, async ? -1 : r);
        if (r % (rank + 2) == 0)
            bring(s, h, 0, KEYS, 1, async ? -1 : r);
        OK(kv_barrier(s, &e));
        if (r == 4)
            OK(kv_set_optimizer(s, "lamb", NULL, 0, &e));
    }
    free_keys(h);
}

static void check_moves(void)
{
    moves_of("dist_sync");
    moves_of("dist_async");
}

static int read_bytes(void *arg, const kv_field *f, int n, kv_err *e)
{
    int64_t *bytes = arg;
    (void)e;
    for (int i = 0; i < n; i++) {
        bytes[0] = strcmp(f[i].name, "since_bytes") == 0 ? f[i].number : bytes[0];
        bytes[1] = strcmp(f[i].name, "whole_bytes") == 0 ? f[i].number : bytes[1];
    }
    return KV_OK;
}

/* Few changes move few bytes, none a head for each part; and the counts say so. */
static void check_bytes(void)
{
    own_kv *s = make("dist_sync", "sgd");
    held h[KEYS];
    int64_t first[2] = {0}, then[2] = {0};
    make_keys(s, h);
    OK(kv_describe(s, "store", read_bytes, first, &e));
    MUST(first[1] == 0);
    bring(s, h, 0, 1, 0, 0);
    OK(kv_describe(s, "store", read_bytes, first, &e));
    MUST(first[1] == 2 * h[0].n && first[0] >= first[1] && first[0] < first[1] + 10000);
    push_some(s, &h[0], 100);
    bring(s, h, 0, 1, 0, 1);
    OK(kv_describe(s, "store", read_bytes, then, &e));
    MUST(then[1] == 2 * first[1]);
    MUST(then[0] - first[0] < first[1] / 20);
    bring(s, h, 0, 1, 0, 1);
    OK(kv_describe(s, "store", read_bytes, first, &e));
    MUST(first[0] - then[0] < 5000);
    OK(kv_barrier(s, &e));
    free_keys(h);
}

/* Pulls of codes are whole pulls; the changes of what they stand for are bits as well. */
static void check_codes(void)
{
    static const kv_opt how[] = {{"type", "2bit"}, {"threshold", "0.5"}, {"pull", "true"}};
    own_kv *s = make("dist_sync", NULL);
    kv_key key = {.id = 0};
    held h = {.key = key, .dtype = KV_FLOAT32, .n = 50000};
    for (int i = 0; i < OUTS; i++) {
        h.rounds[i] = KV_NO_ROUND;
        h.outs[i] = array_of(KV_FLOAT32, h.n);
        h.whole[i] = array_of(KV_FLOAT32, h.n);
    }
    OK(kv_set_gradient_compression(s, how, 3, &e));
    kv_array *first = array_of(KV_FLOAT32, h.n);
    OK(kv_init(s, &key, 1, &first, NULL, &e));
    kv_array_unref(first);
    for (int r = 1; r <= 6; r++) {
        push_some(s, &h, 10);
        bring(s, &h, 0, 1, 0, r);
        if (r % 3 == 0)
            bring(s, &h, 0, 1, 1, r);
    }
    for (int i = 0; i < OUTS; i++) {
        kv_array_unref(h.outs[i]);
        kv_array_unref(h.whole[i]);
    }
    OK(kv_barrier(s, &e));
}

/* A worker that is done has pushed less often than the others, whose rounds go on without it. */
static void check_done(void)
{
    enum { COMMON = 3, ALL = 9 };
    own_kv *s = make("dist_sync", "sgd");
    held h[KEYS];
    make_keys(s, h);
    bool leaves = rank > 0;
    for (int r = 1; r <= (leaves ? COMMON : ALL); r++) {
        push_some(s, &h[1], 50);
        bring(s, h, 1, 1, 0, r);
    }
    OK(kv_done(s, &e));
    for (int64_t before = COMMON; leaves && h[1].rounds[0] < ALL; before = h[1].rounds[0]) {
        OK(kv_pull_since(s, &h[1].key, 1, &h[1].outs[0], &h[1].rounds[0], NULL, &e));
        MUST(h[1].rounds[0] >= before);
    }
    bring(s, h, 1, 1, 0, ALL);
    bring(s, h, 1, 1, 1, ALL);
    free_keys(h);
}

static void check_refused(void)
{
    kv *s = make("dist_sync", "sgd");
    kv_key keys[2] = {{.id = 3}, {.id = 3}};
    int64_t rounds[2] = {KV_NO_ROUND, KV_NO_ROUND}, shape[] = {4, 2};
    kv_array *outs[2] = {array_of(KV_FLOAT32, 8), array_of(KV_FLOAT32, 8)}, *rows = NULL;
    kv_err why = {0};
    OK(kv_init(s, keys, 1, outs, NULL, &e));
    OK(kv_push(s, keys, 1, outs, NULL, &e));
    OK(kv_pull_since(s, keys, 2, outs, rounds, NULL, &e)); /* one key, two arrays */
    MUST(rounds[0] == 1 && rounds[1] == 1);
    rounds[1] = 2;
    MUST(kv_pull_since(s, keys, 2, outs, rounds, NULL, &why) == KV_E_VALUE);
    MUST(strcmp(why.text, "key 3 is at round 1, and this array would be at round 2") == 0);
    MUST(rounds[0] == 1 && rounds[1] == 2);
    rounds[1] = -2;
    why = (kv_err){0};
    MUST(kv_pull_since(s, keys, 2, outs, rounds, NULL, &why) == KV_E_VALUE);
    why = (kv_err){0};
    OK(kv_array_new_sparse(&rows, KV_FLOAT32, 2, shape, 0, NULL, (kv_ctx){0}, &e));
    rounds[0] = KV_NO_ROUND;
    MUST(kv_pull_since(s, keys, 1, &rows, rounds, NULL, &why) == KV_E_UNSUPPORTED);
    /* A key of rows comes whole into an array that has all. */
    kv_key sparse = {.id = 4};
    kv_array *dense = NULL;
    OK(kv_array_new(&dense, KV_FLOAT32, 2, shape, (kv_ctx){0}, &e));
    OK(kv_init(s, &sparse, 1, &rows, NULL, &e));
    OK(kv_pull_since(s, &sparse, 1, &dense, rounds, NULL, &e));
    OK(kv_push(s, &sparse, 1, &dense, NULL, &e));
    OK(kv_pull_since(s, &sparse, 1, &dense, rounds, NULL, &e));
    MUST(rounds[0] == 1);
    OK(kv_barrier(s, &e));
    kv_array_unref(dense);
    kv_array_unref(rows);
    kv_array_unref(outs[0]);
    kv_array_unref(outs[1]);
    kv_free(s);
    why = (kv_err){0};
    s = make("horovod", NULL);
    MUST(kv_pull_since(s, keys, 0, NULL, NULL, NULL, &why) == KV_E_UNSUPPORTED);
    kv_free(s);
}

/* ---- Running ---- */

static const check checks[] = {
    {"sums", check_sums},   {"updates", check_updates}, {"many-rounds", check_many_rounds},
    {"async", check_async}, {"moves", check_moves},     {"bytes", check_bytes},
    {"codes", check_codes}, {"done", check_done},       {"refused", check_refused},
};

int main(int argc, char **argv)
{
    own_kv *store = make("dist_sync", NULL);
    rank = kv_rank(store);
    workers = kv_num_workers(store);
    forms[0].n = must_side() * must_side() * 9 / 10;
    run_checks(argc, argv, checks, sizeof checks / sizeof *checks);
    return 0;
}
