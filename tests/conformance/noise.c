/* A rule with noise cannot be replayed number by number, because MXNet draws from another
 * generator. What a step leaves behind the noiseless step is the noise: over all elements of all
 * records its mean is 0 and its variance the learning rate. That is asked of the recorded weights,
 * which checks our noiseless step, and of our own, which checks our noise. Each run has a seed of
 * its own: the noise of one key, count and element would else be one number in all of them, and few
 * numbers independent. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "core/store.h"
#include "replay.h"

#define NOISE "stored += normal(sigma)"

typedef struct sample {
    double n, sum, squares;
} sample;

/* Mean and variance are those of the standard normal distribution, but for five standard errors. */
static bool is_normal(const char *what, const sample *s)
{
    double mean = s->sum / s->n, variance = s->squares / s->n - mean * mean;
    bool ok = s->n > 1000 && fabs(mean) < 5 / sqrt(s->n) && fabs(variance - 1) < 5 * sqrt(2 / s->n);
    printf("# %s: %g numbers, mean %.4f, variance %.4f\n", what, s->n, mean, variance);
    return ok;
}

/* The rule of sgld without its noise. */
static int make_quiet(kv_rule **rule, kv_err *e)
{
    const char *name = "", *text = NULL;
    buf quiet = {0};
    for (int i = 0; (text = kv_optimizer_text(i, &name)) && strcmp(name, "sgld") != 0; i++)
        ;
    const char *at = text ? strstr(text, NOISE) : NULL;
    if (!at)
        return kv_err_set(e, KV_E_INTERNAL, "the rule of sgld has no line \"" NOISE "\"");
    buf_put(&quiet, text, (size_t)(at - text));
    buf_add(&quiet, at + strlen(NOISE));
    int rc = kv_rule_new(rule, buf_text(&quiet), NULL, 0, 0, e);
    buf_release(&quiet);
    return rc;
}

static kv_array *stored(const replay *r, const kv_key *key)
{
    return r->store->slots.items[slot_find(&r->store->slots, key, 0)].stored;
}

/* Gives a key of r the contents of an array of its shape and dtype. */
static void set_weight(replay *r, const kv_key *key, kv_array *from)
{
    kv_array *to = stored(r, key);
    const void *begin;
    void *data;
    replay_check(r, kv_array_read(from, &begin, &r->e), "array");
    replay_check(r, kv_array_write(to, &data, &r->e), "array");
    memcpy(data, begin, (size_t)kv_array_bytes(to));
}

/* Adds (noisy - quiet) / sigma for each element that is a number, and whose rounding is small
 * beside sigma. */
static void add(replay *r, sample *s, kv_array *noisy, kv_array *quiet, double sigma)
{
    own_array *a = NULL, *b = NULL;
    const void *x, *y;
    replay_check(r, kv_array_dup(&a, noisy, KV_FLOAT64, (kv_ctx){0}, &r->e), "array");
    replay_check(r, kv_array_dup(&b, quiet, KV_FLOAT64, (kv_ctx){0}, &r->e), "array");
    replay_check(r, kv_array_read(a, &x, &r->e), "array");
    replay_check(r, kv_array_read(b, &y, &r->e), "array");
    for (int64_t i = 0; i < kv_array_size(a); i++) {
        double q = ((const double *)y)[i], z = (((const double *)x)[i] - q) / sigma;
        if (!isfinite(z) || !(fabs(q) < 1000 * sigma))
            continue;
        s->n++;
        s->sum += z;
        s->squares += z * z;
    }
}

/* One run in three stores: ours with noise, and two without, which begin each step at the recorded
 * weight and at ours. */
typedef struct trio {
    replay noisy, recorded, ours;
    sample of_record, of_ours;
    int runs;
} trio;

/* Each of the stores takes the step s. */
static void step(trio *t, const cJSON *s)
{
    replay *all[] = {&t->noisy, &t->recorded, &t->ours};
    kv_key keys[REPLAY_MAX_KEYS];
    kv_array *grads[REPLAY_MAX_KEYS];
    int n = replay_call(&t->noisy, s, keys, grads);
    for (int i = 0; i < n; i++)
        set_weight(&t->ours, &keys[i], stored(&t->noisy, &keys[i]));
    for (int i = 0; i < 3; i++) {
        replay_before(all[i], replay_get(s, "before"));
        replay_check(all[i], kv_push(all[i]->store, keys, n, grads, NULL, &all[i]->e), "push");
    }
    for (int i = 0; i < n; i++, s = s->next) {
        const cJSON *entry = replay_entry(&t->noisy, replay_get(s, "key"));
        kv_array *after = replay_array(&t->noisy, entry, replay_get(s, "weight"));
        const cJSON *lr = replay_get(s, "lr"); /* not always recorded */
        double sigma = lr ? sqrt(replay_number(lr)) : (double)NAN;
        add(&t->noisy, &t->of_record, after, stored(&t->recorded, &keys[i]), sigma);
        add(&t->noisy, &t->of_ours, stored(&t->noisy, &keys[i]), stored(&t->ours, &keys[i]), sigma);
        set_weight(&t->recorded, &keys[i], after);
        kv_array_unref(after);
        kv_array_unref(grads[i]);
    }
}

/* Half precision rounds more than the noise is large. */
static bool is_fine(const replay *r)
{
    const cJSON *k;
    cJSON_ArrayForEach(
        k, replay_get(r->run, "keys")) if (strcmp(replay_get(k, "dtype")->valuestring, "float32") !=
                                               0 &&
                                           strcmp(replay_get(k, "dtype")->valuestring, "float64") !=
                                               0) return false;
    return replay_supported(r);
}

static void run(trio *t, const cJSON *one, const kv_rule *quiet, verdict *v)
{
    t->noisy = (replay){.run = one, .seed = ++t->runs};
    t->recorded = t->ours = (replay){.run = one, .rule = quiet};
    replay *all[] = {&t->noisy, &t->recorded, &t->ours};
    if (!is_fine(&t->noisy)) {
        v->skipped++;
        return;
    }
    for (int i = 0; i < 3; i++)
        replay_open(all[i]);
    const cJSON *s = replay_get(one, "steps")->child;
    while (s && !t->noisy.failed && !t->recorded.failed && !t->ours.failed) {
        const cJSON *group = replay_get(s, "call");
        step(t, s);
        for (s = s->next; s && group && cJSON_Compare(replay_get(s, "call"), group, true);)
            s = s->next;
    }
    for (int i = 0; i < 3; i++) {
        if (all[i]->failed)
            printf("# %s: %s\n", replay_get(one, "id")->valuestring, all[i]->why);
        v->wrong += all[i]->failed;
        kv_free(all[i]->store);
    }
    v->close++;
}

bool noise_run(const cJSON *runs, verdict *v)
{
    const cJSON *one;
    kv_err e = {0};
    kv_rule *quiet = NULL;
    trio t = {0};
    if (make_quiet(&quiet, &e)) {
        printf("# %s\n", e.text);
        return false;
    }
    cJSON_ArrayForEach(one, runs) run(&t, one, quiet, v);
    kv_rule_free(quiet);
    bool ok = is_normal("the recorded noise", &t.of_record);
    return is_normal("our noise", &t.of_ours) && ok && v->wrong == 0;
}
