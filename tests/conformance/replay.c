/* Replays recorded runs through a local store and compares weights, states and counts after every
 * step. */
#include "replay.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "core/store.h"
#include "cpu/cpu.h"

cJSON *records_read(const char *folder)
{
    own_buf command = {0}, text = {0};
    char block[1 << 16];
    size_t n;
    cJSON *records = NULL;
    /* gzip and not zlib: the records are replayed in builds without it too. */
    buf_printf(&command, "gzip -dc '%s/records.json.gz'", folder);
    FILE *f = popen(buf_text(&command), "r");
    while (f && (n = fread(block, 1, sizeof block, f)) > 0)
        buf_put(&text, block, n);
    if (f && pclose(f) == 0)
        records = cJSON_Parse(buf_text(&text));
    if (!records)
        printf("# %s/records.json.gz cannot be read\n", folder);
    return records;
}

void replay_fail(replay *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!r->failed)
        vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    r->failed = true;
}

void replay_check(replay *r, int rc, const char *what)
{
    if (rc)
        replay_fail(r, "%s: %s", what, r->e.text);
}

const cJSON *replay_get(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

double replay_number(const cJSON *x)
{
    if (cJSON_IsString(x))
        return strcmp(x->valuestring, "nan") == 0 ? (double)NAN
               : x->valuestring[0] == '-'         ? -(double)INFINITY
                                                  : (double)INFINITY;
    return cJSON_IsBool(x) ? cJSON_IsTrue(x) : x->valuedouble;
}

kv_key replay_key(const cJSON *x)
{
    if (cJSON_IsString(x))
        return (kv_key){0, x->valuestring};
    return (kv_key){(int64_t)x->valuedouble, NULL};
}

const cJSON *replay_entry(const replay *r, const cJSON *key)
{
    const cJSON *k;
    cJSON_ArrayForEach(
        k, replay_get(r->run, "keys")) if (cJSON_Compare(replay_get(k, "key"), key, true)) return k;
    return NULL;
}

static int gpus(void)
{
    const char *text = getenv("REPLAY_GPUS");
    return text ? (int)strtol(text, NULL, 10) : 0;
}

kv_ctx replay_ctx(int id)
{
    return gpus() > 0 ? (kv_ctx){KV_GPU, id % gpus()} : (kv_ctx){KV_CPU, id};
}

const char *replay_type(void)
{
    return gpus() > 0 ? "device" : "local";
}

kv_array *replay_sparse_array(replay *r, const cJSON *entry, const cJSON *rows, const cJSON *data)
{
    const cJSON *v;
    int64_t n = 0, i = 0, ids[256], shape[KV_MAX_NDIM];
    int ndim = 0;
    kv_array *wide = NULL, *out = NULL;
    kv_dtype dtype;
    void *x;
    cJSON_ArrayForEach(v, replay_get(entry, "shape")) shape[ndim++] = (int64_t)v->valuedouble;
    cJSON_ArrayForEach(v, rows) if (n < 256) ids[n++] = (int64_t)v->valuedouble;
    replay_check(r, kv_dtype_parse(&dtype, replay_get(entry, "dtype")->valuestring, &r->e),
                 "dtype");
    replay_check(r, kv_array_new_sparse(&wide, KV_FLOAT64, ndim, shape, n, ids, (kv_ctx){0}, &r->e),
                 "rows");
    replay_check(r, kv_array_write_rows(wide, &x, &r->e), "rows");
    cJSON_ArrayForEach(v, data)((double *)x)[i++] = replay_number(v);
    replay_check(r, kv_array_dup(&out, wide, dtype, replay_ctx(0), &r->e), "rows");
    kv_array_unref(wide);
    return out;
}

kv_array *replay_array(replay *r, const cJSON *entry, const cJSON *data)
{
    if (cJSON_IsObject(data))
        return replay_sparse_array(r, entry, replay_get(data, "rows"), replay_get(data, "data"));
    int64_t shape[KV_MAX_NDIM], i = 0;
    int ndim = 0;
    kv_array *wide, *out = NULL;
    kv_dtype dtype;
    void *x;
    const cJSON *v;
    cJSON_ArrayForEach(v, replay_get(entry, "shape")) shape[ndim++] = (int64_t)v->valuedouble;
    replay_check(r, kv_dtype_parse(&dtype, replay_get(entry, "dtype")->valuestring, &r->e),
                 "dtype");
    replay_check(r, kv_array_new(&wide, KV_FLOAT64, ndim, shape, (kv_ctx){0}, &r->e), "array");
    kv_array_write(wide, &x, &r->e);
    cJSON_ArrayForEach(v, data)((double *)x)[i++] = replay_number(v);
    replay_check(r, kv_array_dup(&out, wide, dtype, replay_ctx(0), &r->e), "array");
    kv_array_unref(wide);
    return out;
}

/* The place of a number among all of its dtype: -0 comes just before 0. */
static int64_t rank_of(double x, kv_dtype dtype)
{
    union {
        double d;
        float f;
        int64_t i;
        int32_t w;
        uint16_t h;
    } u = {0};
    int64_t bits, sign;
    if (dtype == KV_FLOAT64) {
        u.d = x;
        bits = u.i & INT64_MAX;
        sign = u.i < 0;
    } else if (dtype == KV_FLOAT32) {
        u.f = (float)x;
        bits = u.w & INT32_MAX;
        sign = u.w < 0;
    } else {
        convert_elements(&u.h, dtype, &x, KV_FLOAT64, 1);
        bits = u.h & 0x7fff;
        sign = u.h >> 15;
    }
    return sign ? -1 - bits : bits;
}

double replay_distance(double a, double b, kv_dtype dtype)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? 0 : (double)INFINITY;
    if (!kv_dtype_is_float(dtype))
        return fabs(a - b);
    int64_t p = rank_of(a, dtype), q = rank_of(b, dtype);
    return (double)(p > q ? (uint64_t)p - (uint64_t)q : (uint64_t)q - (uint64_t)p);
}

static void compare(replay *r, kv_array *got, kv_array *want, const char *what, int step)
{
    kv_dtype dtype = kv_array_dtype(want);
    kv_array *a, *b;
    const void *x, *y;
    replay_check(r, kv_array_dup(&a, got, KV_FLOAT64, (kv_ctx){0}, &r->e), what);
    replay_check(r, kv_array_dup(&b, want, KV_FLOAT64, (kv_ctx){0}, &r->e), what);
    kv_array_read(a, &x, &r->e);
    kv_array_read(b, &y, &r->e);
    for (int64_t i = 0; i < kv_array_size(want); i++) {
        double g = ((const double *)x)[i], w = ((const double *)y)[i];
        double far = replay_distance(g, w, dtype);
        if (far == 0)
            continue;
        r->exact = false;
        if (far > r->worst[dtype])
            r->worst[dtype] = far;
        /* Without an absolute tolerance 0 is not -0. */
        if (!(far <= r->ulp) && !(r->abs > 0 && fabs(g - w) <= r->abs))
            replay_fail(r, "step %d: %s[%lld] is %.9g, not %.9g (%g ulp)", step, what, (long long)i,
                        g, w, far);
    }
    kv_array_unref(a);
    kv_array_unref(b);
}

/* ---- Parameters ---- */

#define MAX_PARAMS 40

typedef struct params {
    kv_opt opt[MAX_PARAMS];
    char text[MAX_PARAMS][2000];
    int n;
} params;

void replay_value_text(char *out, size_t size, const cJSON *v)
{
    if (cJSON_IsNull(v))
        snprintf(out, size, "none");
    else if (cJSON_IsBool(v))
        snprintf(out, size, cJSON_IsTrue(v) ? "true" : "false");
    else if (cJSON_IsString(v))
        snprintf(out, size, "%s", v->valuestring);
    else
        snprintf(out, size, "%.17g", v->valuedouble);
}

static void add_param(params *p, const char *name, const char *text)
{
    snprintf(p->text[p->n], sizeof p->text[p->n], "%s", text);
    p->opt[p->n] = (kv_opt){name, p->text[p->n]};
    p->n++;
}

static void add_values(params *p, const cJSON *object)
{
    const cJSON *v;
    char text[200];
    cJSON_ArrayForEach(v, object)
    {
        replay_value_text(text, sizeof text, v);
        add_param(p, v->string, text);
    }
}

/* [[key, value], …] as "key=value,…". */
static void add_pairs(params *p, const char *name, const cJSON *pairs)
{
    char text[2000] = "";
    const cJSON *pair;
    cJSON_ArrayForEach(pair, pairs)
    {
        char k[200], v[200];
        replay_value_text(k, sizeof k, cJSON_GetArrayItem(pair, 0));
        replay_value_text(v, sizeof v, cJSON_GetArrayItem(pair, 1));
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s=%s", n ? "," : "", k, v);
    }
    if (text[0])
        add_param(p, name, text);
}

static void add_schedule(params *p, const cJSON *schedule)
{
    static const struct {
        const char *class, *name;
    } names[] = {{"FactorScheduler", "factor"},
                 {"MultiFactorScheduler", "multifactor"},
                 {"PolyScheduler", "poly"},
                 {"CosineScheduler", "cosine"}};
    if (!schedule || cJSON_IsNull(schedule))
        return;
    const char *class = replay_get(schedule, "name")->valuestring, *name = class;
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i].class, class) == 0)
            name = names[i].name;
    char text[2000];
    snprintf(text, sizeof text, "%s(", name);
    const cJSON *v;
    cJSON_ArrayForEach(v, replay_get(schedule, "params"))
    {
        char value[300] = "[";
        if (cJSON_IsArray(v)) {
            const cJSON *x;
            cJSON_ArrayForEach(x, v)
            {
                size_t m = strlen(value);
                snprintf(value + m, sizeof value - m, "%s%.17g", m > 1 ? ", " : "", x->valuedouble);
            }
            strcat(value, "]");
        } else if (cJSON_IsString(v)) {
            snprintf(value, sizeof value, "\"%s\"", v->valuestring);
        } else {
            replay_value_text(value, sizeof value, v);
        }
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s=%s, ", v->string, value);
    }
    strcat(text, ")");
    add_param(p, "lr_scheduler", text);
}

int replay_try_optimizer(replay *r)
{
    params *p = mem_zalloc(1, sizeof *p, NULL);
    add_values(p, replay_get(r->run, "params"));
    add_schedule(p, replay_get(r->run, "scheduler"));
    add_pairs(p, "names", replay_get(r->run, "idx2name"));
    add_pairs(p, "lr_mult", replay_get(r->run, "lr_mult"));
    add_pairs(p, "wd_mult", replay_get(r->run, "wd_mult"));
    char seed[12];
    snprintf(seed, sizeof seed, "%d", r->seed);
    add_param(p, "seed", seed);
    const char *name = replay_get(r->run, "optimizer")->valuestring;
    int rc = r->rule ? kv_set_rule(r->store, r->rule, p->opt, p->n, &r->e)
                     : kv_set_optimizer(r->store, name, p->opt, p->n, &r->e);
    mem_free(p);
    return rc;
}

void replay_set_optimizer(replay *r)
{
    replay_check(r, replay_try_optimizer(r), "set_optimizer");
}

/* ---- Steps ---- */

void replay_open(replay *r)
{
    const cJSON *k;
    replay_check(r, kv_create(replay_type(), NULL, 0, &r->store, &r->e), "create");
    cJSON_ArrayForEach(k, replay_get(r->run, "keys"))
    {
        kv_key key = replay_key(replay_get(k, "key"));
        kv_array *w = replay_array(r, k, replay_get(k, "weight0")), *dense = w;
        if (strcmp(replay_get(k, "stype")->valuestring, "row_sparse") == 0) {
            replay_check(r, kv_array_to_sparse(&w, dense, &r->e), "weight");
            kv_array_unref(dense);
        }
        replay_check(r, kv_init(r->store, &key, 1, &w, NULL, &r->e), "init");
        kv_array_unref(w);
    }
    replay_set_optimizer(r);
}

static void change(replay *r, const char *name, const cJSON *value)
{
    char text[64];
    kv_opt opt = {name, text};
    replay_value_text(text, sizeof text, value);
    replay_check(r, kv_update_optimizer(r->store, &opt, 1, &r->e), "update_optimizer");
}

/* The same optimizer object set again: it begins with new states, and its counts go on. */
static void forget_states(replay *r)
{
    for (int64_t i = 0; i < r->store->slots.n; i++) {
        slot *s = &r->store->slots.items[i];
        slot_state_free(s->state);
        s->state = NULL;
    }
}

/* Goes on with a new store: the weights of the old one, an equal new optimizer, and its states from
 * a file. */
static void save_and_load(replay *r, uint32_t flags)
{
    char path[] = "/tmp/kvstore-states-XXXXXX";
    kv *old = r->store;
    int fd = mkstemp(path);
    if (fd < 0) {
        replay_fail(r, "no temporary file");
        return;
    }
    close(fd);
    replay_check(r, kv_save_states(old, path, flags, &r->e), "save_states");
    replay_check(r, kv_create(replay_type(), NULL, 0, &r->store, &r->e), "create");
    for (int64_t i = 0; i < old->slots.n; i++)
        replay_check(r,
                     kv_init(r->store, &old->slots.items[i].key, 1, &old->slots.items[i].stored,
                             NULL, &r->e),
                     "init");
    replay_set_optimizer(r);
    replay_check(r, kv_load_states(r->store, path, &r->e), "load_states");
    kv_free(old);
    remove(path);
}

bool replay_before(replay *r, const cJSON *b)
{
    const cJSON *again = replay_get(b, "set_optimizer");
    if (!b)
        return true;
    if (replay_get(b, "set_learning_rate"))
        change(r, "learning_rate", replay_get(b, "set_learning_rate"));
    else if (replay_get(b, "set_rescale_grad"))
        change(r, "rescale_grad", replay_get(b, "set_rescale_grad"));
    else if (again && strcmp(again->valuestring, "new") == 0)
        replay_set_optimizer(r);
    else if (again)
        forget_states(r);
    else if (replay_get(b, "save_load"))
        save_and_load(r, 0);
    else if (replay_get(b, "save_load_dump"))
        save_and_load(r, KV_DUMP_OPTIMIZER);
    else
        return false;
    return true;
}

static void compare_states(replay *r, int step)
{
    const cJSON *list = replay_get(r->run, "states"), *states, *s;
    int which = 0;
    cJSON_ArrayForEach(states, list)
    {
        const cJSON *entry = cJSON_GetArrayItem(replay_get(r->run, "keys"), which++);
        const kv_key key = replay_key(replay_get(entry, "key"));
        int64_t at = slot_find(&r->store->slots, &key, 0);
        const slot_state *have = r->store->slots.items[at].state;
        const optimizer *o = r->store->updater.optimizer;
        cJSON_ArrayForEach(s, states)
        {
            if (!cJSON_IsArray(s) || !have)
                continue;
            kv_array *got = strcmp(s->string, "weight32") == 0 ? have->master : NULL;
            for (int i = 0; i < o->nstates; i++)
                if (strcmp(o->states[i].name, s->string) == 0)
                    got = have->arrays[i];
            if (!got) {
                replay_fail(r, "there is no state %s", s->string);
                continue;
            }
            kv_array *wide = NULL, *want = NULL;
            void *x;
            int64_t i = 0;
            const cJSON *v;
            replay_check(r,
                         kv_array_new(&wide, KV_FLOAT64, kv_array_ndim(got), kv_array_shape(got),
                                      (kv_ctx){0}, &r->e),
                         "state");
            kv_array_write(wide, &x, &r->e);
            if (cJSON_GetArraySize(s) != kv_array_size(got)) {
                replay_fail(r, "state %s has %lld numbers, not %d", s->string,
                            (long long)kv_array_size(got), cJSON_GetArraySize(s));
            } else {
                cJSON_ArrayForEach(v, s)((double *)x)[i++] = replay_number(v);
                replay_check(r, kv_array_dup(&want, wide, kv_array_dtype(got), (kv_ctx){0}, &r->e),
                             "state");
                compare(r, got, want, s->string, step);
            }
            kv_array_unref(want);
            kv_array_unref(wide);
        }
    }
}

int replay_call(replay *r, const cJSON *first, kv_key *keys, kv_array **grads)
{
    const cJSON *group = replay_get(first, "call");
    int n = 0;
    for (const cJSON *s = first; s && n < REPLAY_MAX_KEYS; s = s->next) {
        if (n > 0 && !(group && cJSON_Compare(replay_get(s, "call"), group, true)))
            break;
        const cJSON *key = replay_get(s, "key");
        keys[n] = replay_key(key);
        grads[n++] = replay_array(r, replay_entry(r, key), replay_get(s, "grad"));
    }
    return n;
}

static void compare_weight(replay *r, const cJSON *s, int step)
{
    const cJSON *key = replay_get(s, "key");
    const kv_key k = replay_key(key);
    kv_array *want = replay_array(r, replay_entry(r, key), replay_get(s, "weight")), *got;
    replay_check(r, kv_array_dup(&got, want, kv_array_dtype(want), replay_ctx(0), &r->e), "array");
    replay_check(r, kv_pull(r->store, &k, 1, &got, NULL, &r->e), "pull");
    compare(r, got, want, "weight", step);
    kv_array_unref(want);
    kv_array_unref(got);
}

/* The record has no count for optimizers that do not count. */
static void compare_count(replay *r, const cJSON *s, int step)
{
    const cJSON *want = replay_get(s, "num_update");
    int64_t got = r->store->updater.optimizer->now.num_update;
    if (cJSON_IsNumber(want) && !cJSON_IsNull(replay_get(s, "lr")) &&
        got != (int64_t)want->valuedouble)
        replay_fail(r, "step %d: num_update is %lld, not %g", step, (long long)got,
                    want->valuedouble);
}

/* The steps of one call are one push of several keys. */
static const cJSON *run_call(replay *r, const cJSON *first, int *step)
{
    kv_key keys[REPLAY_MAX_KEYS];
    kv_array *grads[REPLAY_MAX_KEYS];
    int n = replay_call(r, first, keys, grads);
    replay_check(r, kv_push(r->store, keys, n, grads, NULL, &r->e), "push");
    for (int i = 0; i < n; i++) {
        compare_weight(r, first, ++*step);
        if (i == n - 1)
            compare_count(r, first, *step);
        kv_array_unref(grads[i]);
        first = first->next;
    }
    return first;
}

bool replay_supported(const replay *r)
{
    const cJSON *tol = replay_get(r->run, "tol");
    return replay_get(r->run, "steps") && !(tol && replay_get(tol, "skip"));
}

void replay_count(verdict *v, const replay *r)
{
    v->wrong += r->failed;
    v->equal += !r->failed && r->exact;
    v->close += !r->failed && !r->exact;
    for (int d = 0; d < KV_DTYPE_END; d++)
        if (r->worst[d] > v->worst[d])
            v->worst[d] = r->worst[d];
    if (r->failed && !v->first[0])
        snprintf(v->first, sizeof v->first, "%s: %s", replay_get(r->run, "id")->valuestring,
                 r->why);
}

void replay_run(const cJSON *one, verdict *v)
{
    replay r = {.run = one, .exact = true};
    const cJSON *tol = replay_get(one, "tol");
    bool skipped = !replay_supported(&r);
    int step = 0;
    if (tol && replay_get(tol, "ulp")) {
        r.ulp = replay_number(replay_get(tol, "ulp"));
        r.abs = replay_number(replay_get(tol, "abs"));
    }
    if (!skipped)
        replay_open(&r);
    for (const cJSON *s = skipped ? NULL : replay_get(one, "steps")->child; s && !r.failed;) {
        if ((skipped = !replay_before(&r, replay_get(s, "before"))))
            break;
        s = run_call(&r, s, &step);
    }
    if (!r.failed && !skipped)
        compare_states(&r, step);
    kv_free(r.store);
    if (skipped)
        v->skipped++;
    else
        replay_count(v, &r);
}
