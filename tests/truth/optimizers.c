/* Random runs of the optimizers beside their formulas: every element of every weight after every
 * step lies within the bound that rounding allows (bounded.h, formulas.h).
 *
 *     truth_optimizers [N [SEED [FIRST]]]
 *
 * A run draws an optimizer, dtype, multi_precision, parameters, a schedule, multipliers, names,
 * keys, shapes, storage and gradients. Half of the runs follow the formulas from the first weight
 * to the last step; the others begin each step with the weights that the store gave, so that bounds
 * stay small; so do all of half precision without a master, since each step rounds the weight. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/slot.h"
#include "draw.h"
#include "formulas.h"
#include "kvstore.h"

enum { KEYS = 3, OPTIONS = 48, TEXT = 400, VALUES = 3, BITS = 64, SHOWN = 20 };

static const char *const param_names[] = {
#define TRUTH_NAME(upper, name) #name,
    TRUTH_PARAMS(TRUTH_NAME)
#undef TRUTH_NAME
};

/* ---- Schedules: binary64, as published ---- */

typedef struct schedule {
    int kind; /* 0: none */
    double base, first_base, warmup_begin, warmup_final, factor, stop, power, final;
    int64_t warmup, step, max_update, count, steps[3], at;
    bool constant;
} schedule;

static double schedule_rate(schedule *s, int64_t n)
{
    if (n < s->warmup)
        return s->constant ? s->warmup_begin
                           : s->warmup_begin + ((s->warmup_final - s->warmup_begin) * (double)n) /
                                                   (double)s->warmup;
    double done = (double)(n - s->warmup), all = (double)(s->max_update - s->warmup);
    switch (s->kind) {
    case 1:
        while (n > s->count + s->step) {
            s->count += s->step;
            s->base *= s->factor;
            if (s->base < s->stop)
                s->base = s->stop;
        }
        break;
    case 2:
        while (s->at < 3 && n > s->steps[s->at]) {
            s->at++;
            s->base *= s->factor;
        }
        break;
    case 3:
        if (n <= s->max_update)
            s->base = s->final + (s->first_base - s->final) * pow(1 - done / all, s->power);
        break;
    default:
        if (n <= s->max_update)
            s->base = s->final + ((s->first_base - s->final) * (1 + cos((M_PI * done) / all))) / 2;
    }
    return s->base;
}

/* ---- A run ---- */

typedef struct run {
    draws d;
    const truth_optimizer *o;
    kv *store;
    kv_err e;
    kv_dtype dtype;
    bool master, free;
    double p[TRUTH_NPARAMS];
    schedule s;
    int64_t begin, num_update, nkeys, steps;
    uint64_t seed;
    double lr_mult[KEYS], wd_mult[KEYS], last_lr;
    bounded m_schedule;
    truth_key keys[KEYS];
    int ndim[KEYS];
    int64_t shape[KEYS][2];
    char names[KEYS][16];
    kv_opt opt[OPTIONS];
    char text[OPTIONS][TEXT];
    int n;
} run;

/* What came out for one optimizer. */
typedef struct tally {
    int64_t runs, failed, numbers, unknown, by_bound[BITS];
    double worst;
} tally;

static void option(run *r, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void option(run *r, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->text[r->n], TEXT, fmt, ap);
    va_end(ap);
    r->opt[r->n] = (kv_opt){name, r->text[r->n]};
    r->n++;
}

static void number_option(run *r, truth_param which)
{
    if (isnan(r->p[which]))
        option(r, param_names[which], "none");
    else
        option(r, param_names[which], "%.17g", r->p[which]);
}

static bool clips_arrays(const truth_optimizer *o)
{
    static const char *const names[] = {"sgld",     "dcasgd", "adagrad", "groupadagrad",
                                        "adadelta", "adamax", "nadam"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], o->name) == 0)
            return true;
    return false;
}

static double draw_decay(draws *d)
{
    static const double usual[] = {0.9, 0.99, 0.999, 0.5, 0};
    int64_t i = draw_below(d, 8);
    return i < 5 ? usual[i] : draw_uniform(d, 0, 0.9999);
}

static double draw_param(run *r, truth_param which)
{
    draws *d = &r->d;
    switch (which) {
    case TP_LEARNING_RATE:
        return draw_chance(d, 30) ? 0.1 : draw_scale(d, -5, 0);
    case TP_WD:
        return draw_chance(d, 40) ? 0 : draw_scale(d, -5, -0.3);
    case TP_RESCALE_GRAD:
        return draw_chance(d, 40)  ? 1
               : draw_chance(d, 3) ? 0
               : draw_chance(d, 5) ? -0.5
                                   : draw_scale(d, -3, 1);
    case TP_CLIP_GRADIENT:
        return draw_chance(d, 50)  ? (double)NAN
               : draw_chance(d, 5) ? 0
               : draw_chance(d, 5) ? (clips_arrays(r->o) ? 1 : -1)
                                   : draw_scale(d, -2, 1);
    case TP_MOMENTUM:
        return draw_chance(d, 30) ? 0 : draw_decay(d);
    case TP_BETA1:
    case TP_BETA2:
    case TP_RHO:
    case TP_GAMMA1:
    case TP_GAMMA2:
        return draw_decay(d);
    case TP_LAZY_UPDATE:
    case TP_MOMENTUM_CORRECTION:
    case TP_BIAS_CORRECTION:
    case TP_CORRECT_BIAS:
    case TP_CENTERED:
        return (double)draw_below(d, 2);
    case TP_WD_LH:
    case TP_LAMDA:
    case TP_LAMDA1:
        return draw_scale(d, -4, 0);
    case TP_EPSILON:
    case TP_EPS:
        return draw_scale(d, -9, -2);
    case TP_ETA:
        return draw_scale(d, -4, -1);
    case TP_LOWER_BOUND:
    case TP_UPPER_BOUND:
    case TP_CLIP_WEIGHTS:
        return draw_chance(d, 10) ? 0 : draw_scale(d, -1, 1);
    case TP_BETA:
        return draw_uniform(d, 0, 2);
    case TP_SCHEDULE_DECAY:
        return draw_scale(d, -4, -1);
    case TP_WARMUP_STRATEGY:
        return (double)draw_below(d, 5);
    case TP_WARMUP_EPOCHS:
        return (double)draw_below(d, 4);
    case TP_BATCH_SCALE:
        return 1 + (double)draw_below(d, 3);
    case TP_UPDATES_PER_EPOCH:
        return 1 + (double)draw_below(d, 4);
    case TP_BEGIN_EPOCH:
        return (double)draw_below(d, 3);
    case TRUTH_NPARAMS:
        break;
    }
    return 0;
}

static void draw_schedule(run *r)
{
    static const char *const names[] = {"", "factor", "multifactor", "poly", "cosine"};
    draws *d = &r->d;
    schedule *s = &r->s;
    char own[TEXT];
    *s = (schedule){.kind = 1 + (int)draw_below(d, 4), .base = draw_scale(d, -3, 0)};
    s->warmup = draw_chance(d, 40) ? draw_below(d, 5) : 0;
    s->warmup_begin = draw_uniform(d, 0, s->base);
    s->warmup_final = s->first_base = s->base;
    s->constant = draw_chance(d, 50);
    s->factor = draw_uniform(d, 0.1, 1);
    s->stop = draw_scale(d, -8, -2);
    s->step = 1 + draw_below(d, 4);
    s->steps[0] = 1 + draw_below(d, 3);
    s->steps[1] = s->steps[0] + 1 + draw_below(d, 3);
    s->steps[2] = s->steps[1] + 1 + draw_below(d, 3);
    s->max_update = s->warmup + 1 + draw_below(d, 8);
    s->power = draw_chance(d, 50) ? 2 : draw_uniform(d, 0.5, 3);
    s->final = draw_uniform(d, 0, s->base);
    if (s->kind == 1)
        snprintf(own, TEXT, "step=%" PRId64 ", factor=%.17g, stop_factor_lr=%.17g", s->step,
                 s->factor, s->stop);
    else if (s->kind == 2)
        snprintf(own, TEXT, "step=[%" PRId64 ", %" PRId64 ", %" PRId64 "], factor=%.17g",
                 s->steps[0], s->steps[1], s->steps[2], s->factor);
    else if (s->kind == 3)
        snprintf(own, TEXT, "max_update=%" PRId64 ", pwr=%.17g, final_lr=%.17g", s->max_update,
                 s->power, s->final);
    else
        snprintf(own, TEXT, "max_update=%" PRId64 ", final_lr=%.17g", s->max_update, s->final);
    option(r, "lr_scheduler",
           "%s(%s, base_lr=%.17g, warmup_steps=%" PRId64 ", warmup_begin_lr=%.17g, "
           "warmup_mode=\"%s\")",
           names[s->kind], own, s->base, s->warmup, s->warmup_begin,
           s->constant ? "constant" : "linear");
}

/* The rate: given, of a schedule, or the default. */
static void draw_rate(run *r)
{
    double *lr = &r->p[TP_LEARNING_RATE];
    if (draw_chance(&r->d, 40))
        draw_schedule(r);
    if (draw_chance(&r->d, 80)) {
        *lr = draw_param(r, TP_LEARNING_RATE);
        number_option(r, TP_LEARNING_RATE);
    } else {
        *lr = r->o->learning_rate;
    }
    if (r->s.kind && !isnan(*lr))
        r->s.base = *lr;
    if (isnan(*lr))
        *lr = 0.01;
}

static void draw_params(run *r)
{
    static const truth_default common[] = {
        {TP_WD, 0}, {TP_RESCALE_GRAD, 1}, {TP_CLIP_GRADIENT, NAN}};
    draw_rate(r);
    for (int i = 0; i < r->o->nparams + 3; i++) {
        truth_default at = i < 3 ? common[i] : r->o->params[i - 3];
        r->p[at.which] = at.value;
        if (draw_chance(&r->d, 30) || (at.which == TP_WD && r->o->no_wd))
            continue;
        r->p[at.which] = draw_param(r, at.which);
        if (at.which == TP_WD_LH && r->p[TP_MOMENTUM] == 0)
            r->p[at.which] = 0;
        if (at.which == TP_WARMUP_STRATEGY)
            option(r, "warmup_strategy", "%s", truth_strategies[(int)r->p[at.which]]);
        else if (at.which == TP_LAZY_UPDATE || at.which == TP_MOMENTUM_CORRECTION ||
                 at.which == TP_BIAS_CORRECTION || at.which == TP_CORRECT_BIAS ||
                 at.which == TP_CENTERED)
            option(r, param_names[at.which], "%s", r->p[at.which] != 0 ? "true" : "false");
        else
            number_option(r, at.which);
    }
    if (draw_chance(&r->d, 15)) {
        r->begin = r->num_update = draw_below(&r->d, 12);
        option(r, "begin_num_update", "%" PRId64, r->begin);
    }
    if (strcmp(r->o->name, "sgld") == 0) {
        r->seed = (uint64_t)draw_below(&r->d, 1000000);
        option(r, "seed", "%" PRIu64, r->seed);
    }
}

/* Names, which take the decay from some keys, and multipliers, by key or by name. */
static void draw_multipliers(run *r)
{
    static const char *const ends[] = {"weight", "gamma", "beta", "bias"};
    char names[TEXT] = "", lr[TEXT] = "", wd[TEXT] = "";
    bool named = draw_chance(&r->d, 25);
    for (int i = 0; i < r->nkeys; i++) {
        const char *comma = i > 0 ? "," : "";
        int64_t end = draw_below(&r->d, 4);
        r->lr_mult[i] = r->wd_mult[i] = 1;
        snprintf(r->names[i], sizeof r->names[i], "%d", i);
        if (named) {
            snprintf(r->names[i], sizeof r->names[i], "fc%d_%s", i, ends[end]);
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%d=%s", comma, i,
                     r->names[i]);
            r->wd_mult[i] = end == 0 || (end == 1 && !r->o->by_names);
        }
        r->keys[i].name = r->names[i];
        if (draw_chance(&r->d, 20)) {
            r->lr_mult[i] = draw_uniform(&r->d, 0.1, 3);
            snprintf(lr + strlen(lr), sizeof lr - strlen(lr), "%s%s=%.17g", lr[0] ? "," : "",
                     r->names[i], r->lr_mult[i]);
        }
        if (!r->o->no_wd && draw_chance(&r->d, 20)) {
            r->wd_mult[i] = draw_uniform(&r->d, 0, 3);
            snprintf(wd + strlen(wd), sizeof wd - strlen(wd), "%s%d=%.17g", wd[0] ? "," : "", i,
                     r->wd_mult[i]);
        }
    }
    if (named)
        option(r, "names", "%s", names);
    if (lr[0])
        option(r, "lr_mult", "%s", lr);
    if (wd[0])
        option(r, "wd_mult", "%s", wd);
}

/* ---- Arrays ---- */

/* An array of the dtype with these numbers, of all rows or of the present ones. */
static kv_array *make_array(run *r, int key, const double *x, const bool *present)
{
    kv_array *wide = NULL, *out = NULL;
    const truth_key *k = &r->keys[key];
    int64_t rows = r->shape[key][0], n = 0, at = 0;
    int64_t *ids = present ? mem_alloc((size_t)rows, sizeof *ids, &r->e) : NULL;
    void *to = NULL;
    for (int64_t i = 0; present && i < rows; i++)
        if (present[i])
            ids[n++] = i;
    int rc = present
                 ? kv_array_new_sparse(&wide, KV_FLOAT64, r->ndim[key], r->shape[key], n, ids,
                                       (kv_ctx){0}, &r->e)
                 : kv_array_new(&wide, KV_FLOAT64, r->ndim[key], r->shape[key], (kv_ctx){0}, &r->e);
    rc = rc        ? rc
         : present ? kv_array_write_rows(wide, &to, &r->e)
                   : kv_array_write(wide, &to, &r->e);
    for (int64_t i = 0; !rc && i < k->n; i++)
        if (!present || present[i / k->row])
            ((double *)to)[at++] = x[i];
    kv_array_dup(&out, wide, r->dtype, (kv_ctx){0}, &r->e);
    kv_array_unref(wide);
    mem_free(ids);
    return out;
}

/* Random numbers that the dtype holds. */
static void draw_numbers(run *r, double *x, int64_t n, double low, double high)
{
    double scale = draw_scale(&r->d, low, high);
    int zeros = draw_chance(&r->d, 20) ? 30 : draw_chance(&r->d, 3) ? 100 : 0;
    for (int64_t i = 0; i < n; i++)
        x[i] =
            (double)number(draw_chance(&r->d, zeros) ? 0 : scale * draw_normal(&r->d), r->dtype).v;
}

static void make_key(run *r, int i)
{
    truth_key *k = &r->keys[i];
    int64_t rows = 1 + draw_below(&r->d, 8), row = 1;
    r->ndim[i] = r->o->two_axes || draw_chance(&r->d, 50) ? 2 : 1;
    if (r->ndim[i] == 2)
        row = 1 + draw_below(&r->d, 5);
    if (draw_chance(&r->d, 1) && draw_chance(&r->d, 30)) /* several blocks of a sum */
        r->ndim[i] == 2 ? (row = 1 + draw_below(&r->d, 1800))
                        : (rows = 1 + draw_below(&r->d, 9000));
    r->shape[i][0] = rows;
    r->shape[i][1] = row;
    k->n = rows * row;
    k->row = row;
    k->count = r->begin;
    k->sparse = draw_chance(&r->d, 10);
    bounded *room = mem_zalloc((size_t)k->n, sizeof *room * (TRUTH_STATES + 2), &r->e);
    double *x = mem_alloc((size_t)k->n, sizeof *x, &r->e);
    k->w = room;
    k->g = room + k->n;
    for (int s = 0; s < TRUTH_STATES; s++)
        k->state[s] = room + k->n * (2 + s);
    draw_numbers(r, x, k->n, -2, 1);
    for (int64_t j = 0; j < k->n; j++)
        k->w[j] = exactly(x[j]);
    kv_key key = {i, NULL};
    kv_array *w = make_array(r, i, x, NULL), *dense = w;
    if (k->sparse) {
        kv_array_to_sparse(&w, dense, &r->e);
        kv_array_unref(dense);
    }
    k->noise = r->seed ^ slot_hash(&key);
    kv_init(r->store, &key, 1, &w, NULL, &r->e);
    kv_array_unref(w);
    mem_free(x);
}

/* The values of a push, and their sum as the store has it: float16 and bfloat16 are added in
 * float32 and rounded once. Returns how many values. */
static int make_values(run *r, int i, kv_array **out, bool *present)
{
    truth_key *k = &r->keys[i];
    int64_t rows = r->shape[i][0];
    int n = draw_chance(&r->d, 60) ? 1 : 1 + (int)draw_below(&r->d, VALUES);
    bool sparse =
        draw_chance(&r->d, 25) && !(strcmp(r->o->name, "lbsgd") == 0 && r->p[TP_BATCH_SCALE] > 1);
    double *x = mem_alloc((size_t)k->n, sizeof *x, &r->e);
    bool *own = mem_zalloc((size_t)rows, sizeof *own, &r->e);
    memset(present, 0, (size_t)rows);
    k->present = sparse ? present : NULL;
    for (int v = 0; v < n; v++) {
        draw_numbers(r, x, k->n, -3, 1);
        for (int64_t a = 0; sparse && a < rows; a++) {
            own[a] = draw_chance(&r->d, 50);
            present[a] |= own[a];
        }
        out[v] = make_array(r, i, x, sparse ? own : NULL);
        for (int64_t j = 0; j < k->n; j++) {
            bounded one = exactly(sparse && !own[j / k->row] ? 0 : x[j]);
            k->g[j] = v == 0 ? one : add(k->g[j], one);
        }
    }
    for (int64_t j = 0; n > 1 && j < k->n; j++)
        if (r->dtype == KV_FLOAT16 || r->dtype == KV_BFLOAT16)
            k->g[j] = narrowed(k->g[j], r->dtype);
    mem_free(own);
    mem_free(x);
    return n;
}

/* ---- Steps ---- */

static double base_rate(run *r)
{
    return r->s.kind ? schedule_rate(&r->s, r->num_update) : r->p[TP_LEARNING_RATE];
}

static void follow(run *r, int i)
{
    truth_key *k = &r->keys[i];
    truth_update u = {.type = r->dtype == KV_FLOAT64 ? KV_FLOAT64 : KV_FLOAT32,
                      .last_lr = &r->last_lr,
                      .m_schedule = &r->m_schedule};
    memcpy(u.p, r->p, sizeof u.p);
    if (r->o->counts_after)
        u.base_lr = base_rate(r);
    if (!r->o->no_count && ++k->count > r->num_update)
        r->num_update = k->count;
    if (!r->o->counts_after)
        u.base_lr = base_rate(r);
    u.lr = u.base_lr * r->lr_mult[i];
    u.wd = r->p[TP_WD] * r->wd_mult[i];
    r->o->update(&u, k);
    k->began = true;
}

static void print_run(const run *r)
{
    printf("#   %s, %s, seed %" PRIu64 ", run %" PRIu64 "; ", r->o->name, kv_dtype_name(r->dtype),
           r->d.seed, r->d.run);
    for (int i = 0; i < r->n; i++)
        printf("%s%s=%s", i ? ", " : "", r->opt[i].name, r->opt[i].value);
    printf("\n");
}

/* Returns whether the number is within its bound, and notes by how much. */
static bool compare(const run *r, double got, bounded want, tally *t)
{
    bool half = r->dtype == KV_FLOAT16 || r->dtype == KV_BFLOAT16;
    if (half) /* one number, or those between which its bound leaves the choice */
        want = narrowed(want, r->dtype);
    t->numbers++;
    if (isinf(want.e)) {
        t->unknown++;
        return true;
    }
    if (isnan(want.v) || isinf(want.v))
        return isnan(want.v) ? isnan(got) : (long double)got == want.v;
    long double off = fabsl(got - want.v), one = ldexpl(1, got != 0 ? ilogb(got) : -149);
    if (half)
        return off <= want.e;
    if (want.e > 0 && off / want.e > t->worst)
        t->worst = (double)(off / want.e);
    int bits = want.e > 0 ? (int)ceill(log2l(want.e / one / (2 * bounded_type.u))) + BITS / 2 : 0;
    t->by_bound[bits < 0 ? 0 : bits < BITS ? bits : BITS - 1]++;
    return off <= want.e;
}

static bool check_weights(run *r, int i, int64_t step, tally *t)
{
    truth_key *k = &r->keys[i];
    kv_key key = {i, NULL};
    kv_array *out = NULL;
    const void *data = NULL;
    bool ok = true;
    kv_array_new(&out, KV_FLOAT64, r->ndim[i], r->shape[i], (kv_ctx){0}, &r->e);
    if (kv_pull(r->store, &key, 1, &out, NULL, &r->e) || kv_array_read(out, &data, &r->e))
        return false;
    for (int64_t j = 0; j < k->n; j++) {
        double got = ((const double *)data)[j];
        if (!compare(r, got, k->w[j], t)) {
            if (ok && t->failed < SHOWN) {
                print_run(r);
                printf("#   step %" PRId64 ", key %d, element %" PRId64
                       ": %.17g, and the formula gives %.17Lg within %.3Lg\n",
                       step, i, j, got, k->w[j].v, k->w[j].e);
            }
            ok = false;
        }
        if (!r->free)
            k->w[j] = exactly(got);
    }
    kv_array_unref(out);
    return ok;
}

/* A push of some of the keys, in any order. */
static bool take_step(run *r, int64_t step, tally *t)
{
    kv_key keys[KEYS * VALUES];
    kv_array *values[KEYS * VALUES];
    bool *present[KEYS], ok = true;
    int n = 0, first = (int)draw_below(&r->d, r->nkeys),
        many = 1 + (int)draw_below(&r->d, r->nkeys);
    bool pushed[KEYS] = {false};
    for (int i = 0; i < many; i++) {
        int key = (int)((first + i) % r->nkeys);
        pushed[key] = true;
        present[key] = mem_zalloc((size_t)r->shape[key][0], sizeof *present[key], &r->e);
        int count = make_values(r, key, values + n, present[key]);
        for (int v = 0; v < count; v++)
            keys[n++] = (kv_key){key, NULL};
    }
    kv_push(r->store, keys, n, values, NULL, &r->e);
    for (int i = 0; i < n; i++)
        kv_array_unref(values[i]);
    for (int i = 0; i < r->nkeys; i++) { /* keys are updated in ascending order */
        if (!pushed[i])
            continue;
        follow(r, i);
        ok = check_weights(r, i, step, t) && ok;
        mem_free(present[i]);
    }
    return ok && !r->e.code;
}

/* The user changes a number of the optimizer in use. */
static void change_param(run *r)
{
    static const truth_param which[] = {TP_LEARNING_RATE, TP_WD, TP_RESCALE_GRAD};
    truth_param p = which[draw_below(&r->d, 3)];
    char text[TEXT];
    kv_opt opt = {param_names[p], text};
    if ((p == TP_LEARNING_RATE && r->s.kind) || (p == TP_WD && r->o->no_wd))
        return;
    r->p[p] = draw_param(r, p);
    snprintf(text, sizeof text, "%.17g", r->p[p]);
    kv_update_optimizer(r->store, &opt, 1, &r->e);
}

static void run_one(uint64_t seed, uint64_t number, tally *tallies)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16};
    static run r;
    r = (run){.d = {seed, number, 0}, .m_schedule = exactly(1)};
    int which = (int)draw_below(&r.d, truth_noptimizers);
    tally *t = &tallies[which];
    bool ok = true;
    r.o = &truth_optimizers[which];
    r.dtype = dtypes[draw_below(&r.d, 5)];
    bounded_type = rounding_of(r.dtype == KV_FLOAT64 ? KV_FLOAT64 : KV_FLOAT32);
    bool half = r.dtype == KV_FLOAT16 || r.dtype == KV_BFLOAT16;
    draw_params(&r);
    if (draw_chance(&r.d, 50)) {
        option(&r, "multi_precision", "true");
        r.master = half;
    }
    r.free = r.master || (!half && draw_chance(&r.d, 50));
    r.nkeys = 1 + draw_below(&r.d, KEYS);
    r.steps = 1 + draw_below(&r.d, 6);
    draw_multipliers(&r);
    kv_create("local", NULL, 0, &r.store, &r.e);
    for (int i = 0; i < r.nkeys; i++)
        make_key(&r, i);
    kv_set_optimizer(r.store, r.o->name, r.opt, r.n, &r.e);
    for (int64_t step = 1; step <= r.steps && !r.e.code; step++) {
        ok = take_step(&r, step, t) && ok;
        if (draw_chance(&r.d, 10))
            change_param(&r);
    }
    if (r.e.code && t->failed < SHOWN) {
        print_run(&r);
        printf("#   %s\n", r.e.text);
    }
    for (int i = 0; i < r.nkeys; i++)
        mem_free(r.keys[i].w);
    kv_free(r.store);
    t->runs++;
    t->failed += !ok || r.e.code;
}

/* The bound, in units in the last place, below which half of the bounds are. */
static double median_bound(const tally *t)
{
    int64_t n = 0, all = 0;
    for (int i = 0; i < BITS; i++)
        all += t->by_bound[i];
    for (int i = 0; i < BITS; i++)
        if ((n += t->by_bound[i]) * 2 >= all)
            return i > 0 ? ldexp(1, i - BITS / 2) : 0;
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    tally *tallies = calloc((size_t)truth_noptimizers, sizeof *tallies);
    int64_t failed = 0;
    for (uint64_t i = first; tallies && i < first + n; i++)
        run_one(seed, i, tallies);
    printf("1..%d\n", truth_noptimizers);
    for (int i = 0; tallies && i < truth_noptimizers; i++) {
        const tally *t = &tallies[i];
        printf("%sok %d - %s: %" PRId64 " runs, %" PRId64 " of them wrong; %" PRId64
               " numbers, largest difference %.2f of its bound, median bound %g ulp, %" PRId64
               " without a bound\n",
               t->failed ? "not " : "", i + 1, truth_optimizers[i].name, t->runs, t->failed,
               t->numbers, t->worst, median_bound(t), t->unknown);
        failed += t->failed;
    }
    printf("# optimizers: %" PRIu64 " runs, %" PRId64 " wrong\n", n, failed);
    free(tallies);
    return failed > 0;
}
