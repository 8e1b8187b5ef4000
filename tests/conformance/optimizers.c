/* Replays recorded optimizer runs of MXNet 1.9.1 through a local store and compares weights, states
 * and counts after every step. data/optimizers/README.md says what the files hold.
 *
 *     optimizers FILE.json ...
 *
 * One line a file: how many runs are equal to the last bit, how many within the tolerance that the
 * run itself allows, and the largest difference. The exit status says whether all were. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/file.h"
#include "base/mem.h"
#include "core/store.h"
#include "kvstore.h"

typedef struct verdict {
    int equal, close, wrong, skipped;
    double worst; /* in representable numbers */
    char first[512];
} verdict;

/* A run: its store and where it stands. */
typedef struct replay {
    const cJSON *run;
    kv *store;
    kv_err e;
    double ulp, abs;
    bool exact; /* so far */
    bool failed;
    double worst;
    char why[400];
} replay;

static void fail(replay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void fail(replay *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!r->failed)
        vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    r->failed = true;
}

static void check(replay *r, int rc, const char *what)
{
    if (rc)
        fail(r, "%s: %s", what, r->e.text);
}

static const cJSON *get(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

static double number(const cJSON *x)
{
    if (cJSON_IsString(x))
        return strcmp(x->valuestring, "nan") == 0 ? (double)NAN
               : x->valuestring[0] == '-'         ? -(double)INFINITY
                                                  : (double)INFINITY;
    return cJSON_IsBool(x) ? cJSON_IsTrue(x) : x->valuedouble;
}

static kv_key key_of(const cJSON *x)
{
    if (cJSON_IsString(x))
        return (kv_key){0, x->valuestring};
    return (kv_key){(int64_t)x->valuedouble, NULL};
}

static const cJSON *key_entry(const replay *r, const cJSON *key)
{
    const cJSON *k;
    cJSON_ArrayForEach(k,
                       get(r->run, "keys")) if (cJSON_Compare(get(k, "key"), key, true)) return k;
    return NULL;
}

/* A flat list of numbers as an array of a key's shape and dtype. */
static kv_array *array_of(replay *r, const cJSON *entry, const cJSON *data)
{
    int64_t shape[KV_MAX_NDIM], i = 0;
    int ndim = 0;
    kv_array *wide, *out = NULL;
    kv_dtype dtype;
    void *x;
    const cJSON *v;
    cJSON_ArrayForEach(v, get(entry, "shape")) shape[ndim++] = (int64_t)v->valuedouble;
    check(r, kv_dtype_parse(&dtype, get(entry, "dtype")->valuestring, &r->e), "dtype");
    check(r, kv_array_new(&wide, KV_FLOAT64, ndim, shape, (kv_ctx){0}, &r->e), "array");
    kv_array_write(wide, &x, &r->e);
    cJSON_ArrayForEach(v, data)((double *)x)[i++] = number(v);
    check(r, kv_array_dup(&out, wide, dtype, (kv_ctx){0}, &r->e), "array");
    kv_array_unref(wide);
    return out;
}

/* The place of a number among all of its dtype. */
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
        cpu_dev_ops.convert(&u.h, dtype, &x, KV_FLOAT64, 1);
        bits = u.h & 0x7fff;
        sign = u.h >> 15;
    }
    return sign ? -bits : bits;
}

static void compare(replay *r, kv_array *got, kv_array *want, const char *what, int step)
{
    kv_dtype dtype = kv_array_dtype(want);
    kv_array *a, *b;
    const void *x, *y;
    check(r, kv_array_dup(&a, got, KV_FLOAT64, (kv_ctx){0}, &r->e), what);
    check(r, kv_array_dup(&b, want, KV_FLOAT64, (kv_ctx){0}, &r->e), what);
    kv_array_read(a, &x, &r->e);
    kv_array_read(b, &y, &r->e);
    for (int64_t i = 0; i < kv_array_size(want); i++) {
        double g = ((const double *)x)[i], w = ((const double *)y)[i];
        if ((isnan(g) && isnan(w)) || (g == w && signbit(g) == signbit(w)))
            continue;
        r->exact = false;
        double far = fabs((double)rank_of(g, dtype) - (double)rank_of(w, dtype));
        if (isnan(g) || isnan(w))
            far = INFINITY;
        if (far > r->worst)
            r->worst = far;
        if (!(far <= r->ulp) && !(fabs(g - w) <= r->abs))
            fail(r, "step %d: %s[%lld] is %.9g, not %.9g (%g ulp)", step, what, (long long)i, g, w,
                 far);
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

static void value_text(char *out, size_t size, const cJSON *v)
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
        value_text(text, sizeof text, v);
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
        value_text(k, sizeof k, cJSON_GetArrayItem(pair, 0));
        value_text(v, sizeof v, cJSON_GetArrayItem(pair, 1));
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
    const char *class = get(schedule, "name")->valuestring, *name = class;
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i].class, class) == 0)
            name = names[i].name;
    char text[2000];
    snprintf(text, sizeof text, "%s(", name);
    const cJSON *v;
    cJSON_ArrayForEach(v, get(schedule, "params"))
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
            value_text(value, sizeof value, v);
        }
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s=%s, ", v->string, value);
    }
    strcat(text, ")");
    add_param(p, "lr_scheduler", text);
}

static void set_optimizer(replay *r)
{
    params *p = mem_zalloc(1, sizeof *p, NULL);
    add_values(p, get(r->run, "params"));
    add_schedule(p, get(r->run, "scheduler"));
    add_pairs(p, "names", get(r->run, "idx2name"));
    add_pairs(p, "lr_mult", get(r->run, "lr_mult"));
    add_pairs(p, "wd_mult", get(r->run, "wd_mult"));
    check(r, kv_set_optimizer(r->store, get(r->run, "optimizer")->valuestring, p->opt, p->n, &r->e),
          "set_optimizer");
    mem_free(p);
}

/* ---- Steps ---- */

static void change(replay *r, const char *name, const cJSON *value)
{
    char text[64];
    kv_opt opt = {name, text};
    value_text(text, sizeof text, value);
    check(r, kv_update_optimizer(r->store, &opt, 1, &r->e), "update_optimizer");
}

/* False when the step needs what the library does not have. */
static bool before(replay *r, const cJSON *b)
{
    if (!b)
        return true;
    if (get(b, "set_learning_rate"))
        change(r, "learning_rate", get(b, "set_learning_rate"));
    else if (get(b, "set_rescale_grad"))
        change(r, "rescale_grad", get(b, "set_rescale_grad"));
    else
        return false;
    return true;
}

static void compare_states(replay *r, int step)
{
    const cJSON *list = get(r->run, "states"), *states, *s;
    int which = 0;
    cJSON_ArrayForEach(states, list)
    {
        const cJSON *entry = cJSON_GetArrayItem(get(r->run, "keys"), which++);
        const kv_key key = key_of(get(entry, "key"));
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
                fail(r, "there is no state %s", s->string);
                continue;
            }
            kv_array *wide = NULL, *want = NULL;
            void *x;
            int64_t i = 0;
            const cJSON *v;
            check(r,
                  kv_array_new(&wide, KV_FLOAT64, kv_array_ndim(got), kv_array_shape(got),
                               (kv_ctx){0}, &r->e),
                  "state");
            kv_array_write(wide, &x, &r->e);
            if (cJSON_GetArraySize(s) != kv_array_size(got)) {
                fail(r, "state %s has %lld numbers, not %d", s->string,
                     (long long)kv_array_size(got), cJSON_GetArraySize(s));
            } else {
                cJSON_ArrayForEach(v, s)((double *)x)[i++] = number(v);
                check(r, kv_array_dup(&want, wide, kv_array_dtype(got), (kv_ctx){0}, &r->e),
                      "state");
                compare(r, got, want, s->string, step);
            }
            kv_array_unref(want);
            kv_array_unref(wide);
        }
    }
}

/* The steps of one call are one push of several keys. */
static const cJSON *run_call(replay *r, const cJSON *first, int *step)
{
    kv_key keys[64];
    kv_array *grads[64];
    const cJSON *call = get(first, "call"), *s = first;
    int n = 0;
    do {
        const cJSON *entry = key_entry(r, get(s, "key"));
        keys[n] = key_of(get(s, "key"));
        grads[n++] = array_of(r, entry, get(s, "grad"));
        s = s->next;
    } while (s && call && get(s, "call") && cJSON_Compare(get(s, "call"), call, true) && n < 64);
    check(r, kv_push(r->store, keys, n, grads, NULL, &r->e), "push");
    for (int i = 0; i < n; i++) {
        const cJSON *entry = key_entry(r, get(first, "key"));
        kv_array *want = array_of(r, entry, get(first, "weight")), *got;
        check(r, kv_array_dup(&got, want, kv_array_dtype(want), (kv_ctx){0}, &r->e), "array");
        check(r, kv_pull(r->store, &keys[i], 1, &got, NULL, &r->e), "pull");
        compare(r, got, want, "weight", ++*step);
        const cJSON *updates = get(first, "num_update");
        if (i == n - 1 && cJSON_IsNumber(updates) &&
            r->store->updater.optimizer->num_update != (int64_t)updates->valuedouble &&
            strcmp(get(r->run, "optimizer")->valuestring, "test") != 0)
            fail(r, "step %d: num_update is %lld, not %g", *step,
                 (long long)r->store->updater.optimizer->num_update, updates->valuedouble);
        kv_array_unref(want);
        kv_array_unref(got);
        kv_array_unref(grads[i]);
        first = first->next;
    }
    return s;
}

static bool supported(const replay *r)
{
    const cJSON *k, *s;
    cJSON_ArrayForEach(k, get(r->run, "keys")) if (strcmp(get(k, "stype")->valuestring,
                                                          "default") != 0) return false;
    cJSON_ArrayForEach(s, get(r->run, "steps")) if (cJSON_IsObject(get(s, "grad"))) return false;
    const cJSON *tol = get(r->run, "tol");
    return get(r->run, "steps") && !(tol && get(tol, "skip"));
}

static void run(const cJSON *one, verdict *v)
{
    replay r = {.run = one, .exact = true};
    const cJSON *tol = get(one, "tol"), *k;
    bool skipped = !supported(&r);
    if (tol && get(tol, "ulp")) {
        r.ulp = number(get(tol, "ulp"));
        r.abs = number(get(tol, "abs"));
    }
    if (!skipped) {
        check(&r, kv_create("local", NULL, 0, &r.store, &r.e), "create");
        cJSON_ArrayForEach(k, get(one, "keys"))
        {
            kv_key key = key_of(get(k, "key"));
            kv_array *w = array_of(&r, k, get(k, "weight0"));
            check(&r, kv_init(r.store, &key, 1, &w, NULL, &r.e), "init");
            kv_array_unref(w);
        }
        set_optimizer(&r);
        int step = 0;
        for (const cJSON *s = get(one, "steps")->child; s && !r.failed && !skipped;) {
            if (!before(&r, get(s, "before")))
                skipped = true;
            else
                s = run_call(&r, s, &step);
        }
        if (!r.failed && !skipped)
            compare_states(&r, step);
    }
    kv_free(r.store);
    if (skipped)
        v->skipped++;
    else if (r.failed)
        v->wrong++;
    else if (r.exact)
        v->equal++;
    else
        v->close++;
    if (!skipped && r.worst > v->worst)
        v->worst = r.worst;
    if (r.failed && (!v->first[0] || getenv("ALL"))) {
        snprintf(v->first, sizeof v->first, "%s: %s", get(one, "id")->valuestring, r.why);
        if (getenv("ALL"))
            printf("#   %s\n", v->first);
    }
}

int main(int argc, char **argv)
{
    int wrong = 0;
    for (int i = 1; i < argc; i++) {
        char *text;
        size_t n;
        kv_err e = {0};
        verdict v = {0};
        if (file_read(argv[i], &text, &n, &e)) {
            printf("not ok %d - %s: %s\n", i, argv[i], e.text);
            wrong++;
            continue;
        }
        cJSON *runs = cJSON_Parse(text);
        const cJSON *one, *name = strrchr(argv[i], '/') ? NULL : NULL;
        (void)name;
        cJSON_ArrayForEach(one, runs) run(one, &v);
        printf("%sok %d - %s: %d equal, %d within their tolerance, %d wrong, %d skipped; largest "
               "%g ulp\n",
               v.wrong ? "not " : "", i,
               strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i], v.equal, v.close,
               v.wrong, v.skipped, v.worst);
        if (v.first[0])
            printf("#   %s\n", v.first);
        wrong += v.wrong > 0;
        cJSON_Delete(runs);
        mem_free(text);
    }
    return wrong > 0;
}
