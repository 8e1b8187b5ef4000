/* The four schedules, their reader and their printer. */
#include "core/lr_schedule.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "lang/parse.h"
#include "vm/host.h"

/* ---- Rates ----------------------------------------------------------------------------------- */

double lr_schedule_rate(lr_schedule *s, int64_t n)
{
    double range = s->base_lr_orig - s->final_lr, max = (double)(s->max_update - s->warmup_steps);
    double done = (double)(n - s->warmup_steps);
    if (n < s->warmup_steps) {
        if (s->warmup_constant)
            return s->warmup_begin_lr;
        double rise = (s->warmup_final_lr - s->warmup_begin_lr) * (double)n;
        return s->warmup_begin_lr + rise / (double)s->warmup_steps;
    }
    switch (s->kind) {
    case LR_FACTOR:
        while (n - s->count > s->step) {
            double before = s->base_lr;
            s->count += s->step;
            s->base_lr *= s->factor;
            if (s->base_lr < s->stop_factor_lr)
                s->base_lr = s->stop_factor_lr;
            if (!(s->base_lr < before || s->base_lr > before)) /* nor will it be another one */
                s->count += (n - s->count - 1) / s->step * s->step;
        }
        break;
    case LR_MULTIFACTOR:
        while (s->at < s->nsteps && n > s->steps[s->at]) {
            s->at++;
            s->base_lr *= s->factor;
        }
        break;
    case LR_POLY:
        if (n <= s->max_update)
            s->base_lr = s->final_lr + range * pow(1 - done / max, s->power);
        break;
    case LR_COSINE:
        if (n <= s->max_update)
            s->base_lr = s->final_lr + (range * (1 + cos((M_PI * done) / max))) / 2;
        break;
    }
    return s->base_lr;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const char *const kinds[] = {"factor", "multifactor", "poly", "cosine"};

enum { NKINDS = sizeof kinds / sizeof *kinds };

typedef enum lr_value { LR_NUMBER, LR_INTEGER } lr_value;

#define PLACE(field) offsetof(lr_schedule, field)

/* Sets of kinds, a bit for each. */
enum {
    FACTOR = 1 << LR_FACTOR,
    POLY = 1 << LR_POLY,
    DECAYS = FACTOR | 1 << LR_MULTIFACTOR,
    FALLS = POLY | 1 << LR_COSINE,
    ALL = DECAYS | FALLS,
};

/* A parameter sets a field of the schedule; `kinds` is the set of kinds that have it. */
static const struct {
    const char *name;
    lr_value value;
    size_t place;
    int kinds;
} params[] = {
    {"base_lr", LR_NUMBER, PLACE(base_lr_orig), ALL},
    {"warmup_steps", LR_INTEGER, PLACE(warmup_steps), ALL},
    {"warmup_begin_lr", LR_NUMBER, PLACE(warmup_begin_lr), ALL},
    {"warmup_final_lr", LR_NUMBER, PLACE(warmup_final_lr), ALL},
    {"count", LR_INTEGER, PLACE(count), DECAYS},
    {"last_lr", LR_NUMBER, PLACE(base_lr), FALLS},
    {"factor", LR_NUMBER, PLACE(factor), DECAYS},
    {"stop_factor_lr", LR_NUMBER, PLACE(stop_factor_lr), FACTOR},
    {"pwr", LR_NUMBER, PLACE(power), POLY},
    {"final_lr", LR_NUMBER, PLACE(final_lr), FALLS},
    {"max_update", LR_INTEGER, PLACE(max_update), FALLS},
};

#define NPARAMS (sizeof params / sizeof *params)

typedef struct reader {
    lr_schedule *s;
    const char *kind;
    arena *a;
    kv_err *e;
} reader;

static bool literal_number(const ast *node, double *x)
{
    bool minus = node->kind == AST_UNARY && node->op == OP_NEG;
    const ast *n = minus ? node->kid[0] : node;
    if (n->kind != AST_INT && n->kind != AST_FLOAT)
        return false;
    *x = host_number(host_literal(n));
    *x = minus ? -*x : *x;
    return true;
}

static int need_integer(reader *r, const char *name, const ast *node, int64_t *out)
{
    if (node->kind != AST_INT)
        return kv_err_set(r->e, KV_E_VALUE, "%s of %s is a whole number", name, r->kind);
    *out = node->u.integer;
    return KV_OK;
}

static int read_param(reader *r, const char *name, const ast *node)
{
    if (strcmp(name, "warmup_mode") == 0) {
        bool text = node->kind == AST_TEXT;
        r->s->warmup_constant = text && strcmp(node->u.text, "constant") == 0;
        if (r->s->warmup_constant || (text && strcmp(node->u.text, "linear") == 0))
            return KV_OK;
        return kv_err_set(r->e, KV_E_VALUE, "warmup_mode is \"linear\" or \"constant\"");
    }
    if (strcmp(name, "step") == 0 && r->s->kind == LR_MULTIFACTOR) {
        if (node->kind != AST_LIST || node->n == 0)
            return kv_err_set(r->e, KV_E_VALUE, "step of multifactor is a list such as [5, 7]");
        int64_t *steps = arena_alloc(r->a, node->n * sizeof *steps, r->e);
        for (uint32_t i = 0; steps && i < node->n; i++) {
            if (need_integer(r, "step", node->kid[i], &steps[i]))
                return r->e->code;
            if (steps[i] < 1 || (i > 0 && steps[i] <= steps[i - 1]))
                return kv_err_set(r->e, KV_E_VALUE, "the steps of multifactor rise from 1 on");
        }
        r->s->steps = steps;
        r->s->nsteps = node->n;
        return steps ? KV_OK : KV_E_MEMORY;
    }
    if (strcmp(name, "step") == 0 && r->s->kind == LR_FACTOR)
        return need_integer(r, name, node, &r->s->step);
    for (size_t i = 0; i < NPARAMS; i++) {
        char *at = (char *)r->s + params[i].place;
        double x;
        if (strcmp(params[i].name, name) != 0 || !(params[i].kinds >> r->s->kind & 1))
            continue;
        if (params[i].value == LR_INTEGER)
            return need_integer(r, name, node, (int64_t *)(void *)at);
        if (!literal_number(node, &x))
            return kv_err_set(r->e, KV_E_VALUE, "%s of %s is a number", name, r->kind);
        if (!isfinite(x))
            return kv_err_set(r->e, KV_E_VALUE, "%s of %s is a finite number", name, r->kind);
        memcpy(at, &x, sizeof x);
        return KV_OK;
    }
    kv_err_set(r->e, KV_E_USAGE, "the schedule %s has no parameter `%s`", r->kind, name);
    suggest near = {.word = name};
    for (size_t i = 0; i < NPARAMS; i++)
        if (params[i].kinds >> r->s->kind & 1)
            suggest_add(&near, params[i].name);
    suggest_add(&near, "step");
    return suggest_done(&near, r->e), KV_E_USAGE;
}

static int check(const reader *r)
{
    const lr_schedule *s = r->s;
    bool steps = s->kind == LR_FACTOR || s->kind == LR_MULTIFACTOR;
    if (s->kind == LR_FACTOR && s->step < 1)
        return kv_err_set(r->e, KV_E_VALUE, "step of factor is at least 1");
    if (s->kind == LR_MULTIFACTOR && s->nsteps == 0)
        return kv_err_set(r->e, KV_E_VALUE,
                          "multifactor needs its steps: multifactor(step=[5, 7])");
    if (steps && !(s->factor <= 1))
        return kv_err_set(r->e, KV_E_VALUE, "factor of %s is at most 1", r->kind);
    if (steps && s->factor < 0) /* the rate would change its sign */
        return kv_err_set(r->e, KV_E_VALUE, "factor of %s is at least 0", r->kind);
    if (!(s->power >= 0)) /* the last rate would be infinite */
        return kv_err_set(r->e, KV_E_VALUE, "pwr of poly is at least 0");
    if (!steps && s->max_update < 1)
        return kv_err_set(r->e, KV_E_VALUE, "%s needs max_update, at least 1", r->kind);
    if (s->warmup_begin_lr > s->warmup_final_lr)
        return kv_err_set(r->e, KV_E_VALUE, "warmup_begin_lr is at most base_lr");
    if (!steps && s->warmup_steps >= s->max_update)
        return kv_err_set(r->e, KV_E_VALUE, "warmup_steps is less than max_update");
    return KV_OK;
}

static int read_call(reader *r, const ast *node)
{
    int kind = 0;
    while (kind < NKINDS && strcmp(kinds[kind], node->u.text) != 0)
        kind++;
    if (kind == NKINDS) {
        kv_err_set(r->e, KV_E_USAGE, "there is no schedule `%s`", node->u.text);
        suggest_hint(r->e, node->u.text, kinds, NKINDS);
        return kv_err_hint(r->e, "schedules: factor, multifactor, poly, cosine"), KV_E_USAGE;
    }
    *r->s = (lr_schedule){.kind = (lr_kind)kind,
                          .base_lr = NAN,
                          .base_lr_orig = 0.01,
                          .warmup_final_lr = NAN,
                          .factor = 1,
                          .stop_factor_lr = 1e-8,
                          .power = 2};
    r->kind = kinds[kind];
    /* the positional orders of the constructors */
    static const char *const by_place[NKINDS][3] = {{"step", "factor", "stop_factor_lr"},
                                                    {"step", "factor", "base_lr"},
                                                    {"max_update", "base_lr", "pwr"},
                                                    {"max_update", "base_lr", "final_lr"}};
    for (uint32_t i = 0; i < node->n; i++) {
        const ast *arg = node->kid[i];
        bool named = arg->kind == AST_ARG;
        const char *name = named ? arg->u.text : i < 3 ? by_place[kind][i] : NULL;
        if (!name)
            return kv_err_set(r->e, KV_E_USAGE, "name the parameters of %s: %s(…=…)", r->kind,
                              r->kind);
        if (read_param(r, name, named ? arg->kid[0] : arg))
            return r->e->code;
    }
    /* What is not given follows from what is. */
    if (isnan(r->s->base_lr))
        r->s->base_lr = r->s->base_lr_orig;
    if (isnan(r->s->warmup_final_lr))
        r->s->warmup_final_lr = r->s->base_lr_orig;
    while (r->s->at < r->s->nsteps && r->s->steps[r->s->at] <= r->s->count)
        r->s->at++;
    return check(r);
}

int lr_schedule_parse(lr_schedule *out, const char *text, arena *a, kv_err *e)
{
    own_arena nodes = {0};
    source src = {.text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    reader r = {.s = out, .a = a, .e = e ? e : &(kv_err){0}};
    ast *tree;
    TRY(parse_expr_text(&tree, &src, &nodes, r.e));
    if (tree->kind == AST_NAME)
        return kv_err_set(r.e, KV_E_USAGE, "a schedule is written as a call: %s(…)", tree->u.text);
    if (tree->kind != AST_CALL)
        return kv_err_set(r.e, KV_E_USAGE,
                          "a schedule is written as a call: factor(step=2, factor=0.5)");
    return read_call(&r, tree);
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_number(buf *out, const char *name, double x)
{
    char text[NUM_TEXT_MAX];
    num_repr(text, x, NUM_BINARY64);
    buf_printf(out, ", %s=%s", name, text);
}

void lr_schedule_print(const lr_schedule *s, buf *out)
{
    char text[NUM_TEXT_MAX];
    num_repr(text, s->base_lr_orig, NUM_BINARY64);
    buf_printf(out, "%s(base_lr=%s, warmup_steps=%lld, warmup_mode=\"%s\"", kinds[s->kind], text,
               (long long)s->warmup_steps, s->warmup_constant ? "constant" : "linear");
    print_number(out, "warmup_begin_lr", s->warmup_begin_lr);
    if (s->warmup_steps > 0 &&
        (s->warmup_final_lr < s->base_lr_orig || s->warmup_final_lr > s->base_lr_orig))
        print_number(out, "warmup_final_lr", s->warmup_final_lr);
    if (s->kind == LR_FACTOR)
        buf_printf(out, ", step=%lld", (long long)s->step);
    for (int64_t i = 0; i < s->nsteps; i++)
        buf_printf(out, i > 0 ? ", %lld" : ", step=[%lld", (long long)s->steps[i]);
    if (s->nsteps > 0)
        buf_char(out, ']');
    if (s->kind == LR_FACTOR || s->kind == LR_MULTIFACTOR)
        print_number(out, "factor", s->factor);
    if (s->kind == LR_FACTOR)
        print_number(out, "stop_factor_lr", s->stop_factor_lr);
    if (s->kind == LR_POLY)
        print_number(out, "pwr", s->power);
    if (s->kind == LR_POLY || s->kind == LR_COSINE) {
        print_number(out, "final_lr", s->final_lr);
        buf_printf(out, ", max_update=%lld", (long long)s->max_update);
    }
    buf_char(out, ')');
}
