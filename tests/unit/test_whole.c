/* Programs with one loop for all instructions (vm/whole_list.h): every optimizer without reductions
 * has one, and it gives what the instructions give one after the other. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/philox.h"
#include "kvstore.h"
#include "lang/parse.h"
#include "test.h"
#include "vm/plan_pass.h"
#include "vm/prog.h"
#include "vm/rule.h"
#include "vm/whole_list.h"

enum { SIZE = 5000, PARAMS = 3 };

typedef struct sample {
    const char *name, *params[PARAMS], *texts[PARAMS];
    int n;
} sample;

#define CLIPPED_BY "clip_gradient"

static const sample samples[] = {
    {"sgd", {CLIPPED_BY}, {"0.5"}, 1},
    {"sgd", {"momentum"}, {"0.9"}, 1},
    {"sgd", {"momentum", CLIPPED_BY}, {"0.9", "0.5"}, 2},
    {"lbsgd", {"momentum"}, {"0.9"}, 1},
    {"nag", {"momentum"}, {"0.9"}, 1},
    {"nag", {"momentum", CLIPPED_BY}, {"0.9", "0.5"}, 2},
    {"sgld", {0}, {0}, 0},
    {"sgld", {CLIPPED_BY}, {"0.5"}, 1},
    {"signum", {0}, {0}, 0},
    {"signum", {CLIPPED_BY}, {"0.5"}, 1},
    {"dcasgd", {0}, {0}, 0},
    {"dcasgd", {CLIPPED_BY}, {"0.5"}, 1},
    {"ftml", {0}, {0}, 0},
    {"ftml", {CLIPPED_BY}, {"0.5"}, 1},
    {"adam", {0}, {0}, 0},
    {"adam", {CLIPPED_BY}, {"0.5"}, 1},
    {"adam", {"rescale_grad"}, {"0.25"}, 1},
    {"adamw", {0}, {0}, 0},
    {"adamw", {CLIPPED_BY}, {"0.5"}, 1},
    {"adabelief", {0}, {0}, 0},
    {"adabelief", {CLIPPED_BY}, {"0.5"}, 1},
    {"adagrad", {0}, {0}, 0},
    {"adagrad", {CLIPPED_BY}, {"0.5"}, 1},
    {"adadelta", {0}, {0}, 0},
    {"adadelta", {CLIPPED_BY}, {"0.5"}, 1},
    {"rmsprop", {0}, {0}, 0},
    {"rmsprop", {CLIPPED_BY}, {"0.5"}, 1},
    {"rmsprop", {"centered"}, {"true"}, 1},
    {"rmsprop", {"centered", CLIPPED_BY}, {"true", "0.5"}, 2},
    {"ftrl", {0}, {0}, 0},
    {"ftrl", {CLIPPED_BY}, {"0.5"}, 1},
    {"adamax", {0}, {0}, 0},
    {"adamax", {CLIPPED_BY}, {"0.5"}, 1},
    {"nadam", {0}, {0}, 0},
    {"nadam", {CLIPPED_BY}, {"0.5"}, 1},
};

enum { SAMPLES = sizeof samples / sizeof *samples };

static arena memory;
static kv_err e;

static const char *text_of(const char *optimizer)
{
    const char *name = "", *text = NULL;
    for (int i = 0; (text = kv_optimizer_text(i, &name)) && strcmp(name, optimizer) != 0; i++)
        ;
    return text;
}

/* The third update of a float32 key that has all states, weight decay included. */
static void make_update_of(rule_update *u, const sample *s, bool sparse_input)
{
    const char *rule = text_of(s->name);
    source text = {
        .name = s->name, .text = rule, .len = (uint32_t)strlen(rule), .line = 1, .col = 1};
    rule_ast *r = NULL;
    CHECK_OK(parse_rule(&r, &text, &memory, &e));
    CHECK_OK(rule_check(r, &text, &memory, &e));
    host values[32], numbers[PLAN_MAX_STATES];
    for (int i = 0; i < PLAN_MAX_STATES; i++)
        numbers[i] = host_float(1);
    CHECK_OK(rule_bind(r, NULL, s->params, s->texts, s->n, values, &memory, &e));
    rule_given given = {.key = {7, NULL},
                        .t = 3,
                        .lr = 0.1,
                        .base_lr = 0.1,
                        .wd = 0.01,
                        .row = 1,
                        .size = SIZE,
                        .have = 0xffff,
                        .sparse_input = sparse_input,
                        .numbers = numbers};
    CHECK_OK(rule_case_make(&(rule_binding){r, &text, values, NULL}, &given, true, u, NULL, &e));
}

static void make_update(rule_update *u, const sample *s)
{
    make_update_of(u, s, false);
}

/* Numbers of all sizes and signs, zeros, infinities and nans. */
static float some_number(uint64_t i)
{
    static const float odd[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-42f, 3e38f};
    philox w = philox_at(9, PHILOX_FUNCTIONS, 0, i);
    float x = (float)((double)w.word[0] / 0x1p32) * (w.word[1] & 1 ? 1 : -1);
    return w.word[2] % 50 < 7 ? odd[w.word[2] % 50] : w.word[3] & 1 ? x : fabsf(x);
}

typedef struct run {
    float array[WHOLE_ARRAYS][SIZE];
} run;

static void fill(run *r, void *arrays[WHOLE_ARRAYS])
{
    for (int a = 0; a < WHOLE_ARRAYS; a++) {
        arrays[a] = r->array[a];
        for (int i = 0; i < SIZE; i++)
            r->array[a][i] = some_number((uint64_t)(a * SIZE + i));
    }
}

static void run_program(run *r, const prog *p, int64_t n)
{
    void *arrays[WHOLE_ARRAYS], *scratch = mem_alloc_data(prog_scratch_bytes(p), &e);
    CHECK(scratch != NULL);
    fill(r, arrays);
    prog_run(p, arrays, n, scratch);
    mem_free(scratch);
}

static int count_different(const run *x, const run *y)
{
    int wrong = 0;
    for (int a = 0; a < WHOLE_ARRAYS; a++)
        for (int i = 0; i < SIZE; i++) {
            float f = x->array[a][i], g = y->array[a][i];
            wrong += memcmp(&f, &g, sizeof f) != 0 && !(isnan(f) && isnan(g));
        }
    return wrong;
}

/* The same with an array 1 that is a sum: of two arrays as they are read, or made before. */
static void run_sum(run *r, const prog *p, int64_t n, bool as_read)
{
    static float more[SIZE];
    void *arrays[WHOLE_ARRAYS], *scratch = mem_alloc_data(prog_scratch_bytes(p), &e);
    CHECK(scratch != NULL);
    fill(r, arrays);
    for (int i = 0; i < SIZE; i++)
        more[i] = some_number((uint64_t)(WHOLE_ARRAYS * SIZE + i));
    if (as_read)
        prog_run_whole(p, NULL, arrays, more, n);
    for (int i = 0; i < SIZE; i++)
        r->array[1][i] += more[i];
    if (!as_read)
        prog_run(p, arrays, n, scratch);
    mem_free(scratch);
}

TEST(whole_optimizers)
{
    static run one_by_one, whole;
    static const int64_t lengths[] = {1, 15, 16, 17, 1000, SIZE};
    for (int s = 0; s < SAMPLES; s++) {
        rule_update u = {0};
        make_update(&u, &samples[s]);
        prog *p = u.plan->pass[0].elements;
        CHECK(u.plan->npasses == 1 && p->whole);
        for (int l = 0; l < 6; l++) {
            p->whole = NULL;
            run_program(&one_by_one, p, lengths[l]);
            for (int k = 0; kernel_tables(k); k++) {
                p->kernels = kernel_tables(k);
                p->whole = prog_whole(p);
                run_program(&whole, p, lengths[l]);
                CHECK_INT(count_different(&one_by_one, &whole), 0);
            }
            p->whole = NULL;
            run_sum(&one_by_one, p, lengths[l], false);
            for (int k = 0; kernel_tables(k); k++) {
                p->kernels = kernel_tables(k);
                p->whole = prog_whole(p);
                run_sum(&whole, p, lengths[l], true);
                CHECK_INT(count_different(&one_by_one, &whole), 0);
            }
        }
        rule_update_release(&u);
    }
    arena_release(&memory);
}

/* The program over the present rows is the one over whole arrays. */
TEST(whole_optimizers_of_rows)
{
    int of_rows = 0;
    for (int s = 0; s < SAMPLES; s++) {
        rule_update u = {0}, whole = {0};
        make_update_of(&u, &samples[s], true);
        make_update(&whole, &samples[s]);
        of_rows += u.rows_present;
        CHECK(u.plan->npasses == 1 && u.plan->pass[0].elements->whole);
        CHECK(u.plan->pass[0].elements->whole == whole.plan->pass[0].elements->whole);
        rule_update_release(&u);
        rule_update_release(&whole);
    }
    CHECK(of_rows > 0);
    arena_release(&memory);
}

/* The program with one thing changed has no such loop. */
TEST(whole_is_no_other)
{
    for (int s = 0; s < SAMPLES; s++) {
        rule_update u = {0};
        make_update(&u, &samples[s]);
        prog *p = u.plan->pass[0].elements;
        inst *insts = (inst *)(uintptr_t)p->insts; /* those of a prog lie behind it */
        int64_t *bytes = (int64_t *)(uintptr_t)p->slot_bytes;
        for (int32_t i = 0; i < p->ninsts; i++) {
            inst *in = &insts[i], old = *in;
            int16_t *places[] = {&in->dst, &in->a, &in->b, &in->c};
            for (int j = 0; j <= kernel_forms[in->kernel].arrays; j++) {
                int16_t next = (int16_t)((*places[j] + 1) % (p->nregs + p->nslots));
                *places[j] = j == 0 ? next : p->nregs + p->nslots;
                CHECK(!prog_whole(p) || (j == 0 && old.dst < p->nregs && next < p->nregs));
                *in = old;
            }
            in->kernel = PROG_POW;
            CHECK(!prog_whole(p));
            *in = old;
            in->type = PROG_F64;
            CHECK(!prog_whole(p));
            *in = old;
        }
        bytes[p->nslots - 1] = 2;
        CHECK(!prog_whole(p));
        bytes[p->nslots - 1] = 4;
        p->ninsts--;
        CHECK(!prog_whole(p));
        p->ninsts++;
        p->nfills = 1;
        CHECK(!prog_whole(p));
        p->nfills = 0;
        CHECK(prog_whole(p) == p->whole);
        rule_update_release(&u);
    }
    arena_release(&memory);
}
