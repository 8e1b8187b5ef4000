/* Programs with one loop for all instructions (vm/rule_loop.h): on every path of every optimizer
 * each program has one, and it gives what the instructions give one after the other. */
#include <math.h>

#include "base/philox.h"
#include "cpu/half.h"
#include "kvstore.h"
#include "merge/merge_texts.h"
#include "optimizers/paths.h"
#include "test.h"
#include "vm/prog.h"

enum { SIZE = 1100, ARRAYS = 12, PATHS = 60, LOOPS = 200 };

/* Numbers of all sizes and signs, zeros, infinities and nans. */
static float some_number(uint64_t i)
{
    static const float odd[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-42f, 3e38f};
    philox w = philox_at(9, PHILOX_FUNCTIONS, 0, i);
    float x = (float)((double)w.word[0] / 0x1p32) * (w.word[1] & 1 ? 1 : -1);
    return w.word[2] % 50 < 7 ? odd[w.word[2] % 50] : w.word[3] & 1 ? x : fabsf(x);
}

enum { NUMBERS = ARRAYS * 2 * SIZE + 2 * SIZE };

static float number_at(uint64_t i)
{
    static float numbers[NUMBERS];
    static bool drawn;
    for (uint64_t k = 0; !drawn && k < NUMBERS; k++)
        numbers[k] = some_number(k);
    drawn = true;
    CHECK(i < NUMBERS);
    return numbers[i];
}

/* What arrays of float32 or of float64 hold. */
typedef union numbers {
    float narrow[2 * SIZE];
    double wide[SIZE];
} numbers;

typedef struct run {
    numbers array[ARRAYS];
} run;

/* A number of a plan is a block of copies, of either type. */
static void fill(run *r, const prog *p, uint64_t seed)
{
    for (int a = 0; a < p->nslots; a++)
        for (int i = 0; i < 2 * SIZE; i++) {
            float x = number_at(seed + (uint64_t)(a * 2 * SIZE + (p->slot_bytes[a] ? i : 0)));
            if (p->slot_bytes[a] != 8)
                r->array[a].narrow[i] = x;
            else if (i < SIZE)
                r->array[a].wide[i] = x;
        }
}

static int count_different(const run *x, const run *y, const prog *p)
{
    int wrong = 0;
    for (int a = 0; a < p->nslots; a++)
        for (int i = 0; i < SIZE; i++) {
            bool wide = p->slot_bytes[a] == 8;
            double f = wide ? x->array[a].wide[i] : (double)x->array[a].narrow[i];
            double g = wide ? y->array[a].wide[i] : (double)y->array[a].narrow[i];
            wrong += memcmp(&f, &g, sizeof f) != 0 && !(isnan(f) && isnan(g));
        }
    return wrong;
}

/* by_loop: in the loop of kernels, else one instruction after the other. sum: array 1 is the sum of
 * two, as they are read, or made before. */
static void run_program(run *r, const prog *of, const kernel_table *kernels, int64_t n, bool sum)
{
    static float more[SIZE];
    kv_err e = {0};
    prog p = *of;
    void *arrays[ARRAYS], *scratch = mem_alloc_data(prog_scratch_bytes(&p), &e);
    CHECK(scratch != NULL && p.nslots <= ARRAYS);
    fill(r, &p, (uint64_t)n);
    for (int i = 0; i < SIZE; i++)
        more[i] = number_at((uint64_t)(ARRAYS * 2 * SIZE + i));
    for (int a = 0; a < p.nslots; a++)
        arrays[a] = &r->array[a];
    p.whole = kernels ? of->whole : NULL;
    p.kernels = kernels ? kernels : of->kernels;
    if (sum && kernels)
        prog_run_whole(&p, NULL, arrays, more, n);
    for (int i = 0; i < SIZE && sum; i++)
        r->array[1].narrow[i] += more[i];
    if (!sum || !kernels)
        prog_run(&p, arrays, n, scratch);
    mem_free(scratch);
}

static void compare(const prog *p)
{
    static run one_by_one, whole;
    static const int64_t lengths[] = {1, 15, 16, 17, SIZE};
    for (int i = 0; i < 5; i++)
        for (int sum = 0; sum <= p->whole->adds; sum++) {
            run_program(&one_by_one, p, NULL, lengths[i], sum);
            for (int k = 0; kernel_tables(k); k++) {
                if (!p->whole->run[kernel_tables(k)->loop])
                    continue;
                run_program(&whole, p, kernel_tables(k), lengths[i], sum);
                CHECK_INT(count_different(&one_by_one, &whole, p), 0);
            }
        }
}

/* Codes of small numbers for all arrays of bfloat16. */
static void tame(run *r, const prog *p)
{
    for (int a = 0; a < p->nslots; a++)
        for (int i = 0; i < SIZE && p->slot_bytes[a] == 2; i++) {
            uint16_t code;
            memcpy(&code, (char *)&r->array[a] + 2 * i, sizeof code);
            code = (uint16_t)((code & 0x81ff) | 0x3c00);
            memcpy((char *)&r->array[a] + 2 * i, &code, sizeof code);
        }
}

/* What the loop of kernels packs is what the instructions give, rounded; of nan it may be anything,
 * since it says that not all are finite. */
static void compare_codes(const prog *of, const kernel_table *kernels, int64_t n, bool small)
{
    static run one_by_one, packed;
    uint16_t codes[SIZE], code;
    kv_err e = {0};
    prog p = *of;
    void *arrays[2][ARRAYS], *scratch = mem_alloc_data(prog_scratch_bytes(&p), &e);
    int to = 0, wrong = 0;
    CHECK(scratch != NULL && p.nslots <= ARRAYS);
    for (int k = 0; k < 2; k++) {
        run *r = k ? &packed : &one_by_one;
        fill(r, &p, small ? 5 : (uint64_t)n);
        if (small)
            tame(r, &p);
        for (int a = 0; a < p.nslots; a++) {
            arrays[k][a] = &r->array[a];
            to = p.slot_bytes[a] == 4 ? a : to;
        }
    }
    prog_run(&p, arrays[0], n, scratch);
    p.kernels = kernels;
    bool finite = half_narrow_bf16_finite(codes, one_by_one.array[to].narrow, n);
    CHECK_INT(prog_pack(&p, arrays[1], n), finite && n % 2 == 0);
    for (int64_t i = 0; i < n && n % 2 == 0; i++) {
        memcpy(&code, (char *)arrays[1][to] + 2 * i, sizeof code);
        wrong += code != codes[i] && !isnan(one_by_one.array[to].narrow[i]);
    }
    CHECK_INT(wrong, 0);
    mem_free_data(scratch);
}

static void compare_packed(const prog *p)
{
    static const int64_t lengths[] = {1, 2, 16, 18, SIZE};
    for (int i = 0; i < 5; i++)
        for (int k = 0; kernel_tables(k); k++)
            for (int small = 0; small < 2 && p->packed->run[kernel_tables(k)->loop]; small++)
                compare_codes(p, kernel_tables(k), lengths[i], small);
}

static const rule_loop *loop_of(const prog *p)
{
    return p->packed ? p->packed : p->whole;
}

/* The program with one thing changed has no such loop. */
static void change(const prog *of)
{
    prog p = *of;
    inst insts[96];
    CHECK(p.ninsts <= 96);
    memcpy(insts, of->insts, (size_t)p.ninsts * sizeof *insts);
    p.insts = insts;
    CHECK(prog_whole(&p) == loop_of(of));
    for (int32_t i = 0; i < p.ninsts; i++) {
        inst *in = &insts[i], old = *in;
        int16_t *places[] = {&in->dst, &in->a, &in->b, &in->c};
        for (int j = 0; j < 4; j++) {
            *places[j] = p.nregs + p.nslots;
            CHECK(!prog_whole(&p));
            *in = old;
        }
        in->op = PROG_POW;
        CHECK(!prog_whole(&p));
        *in = old;
        in->k++;
        CHECK(!prog_whole(&p));
        *in = old;
    }
    p.ninsts--;
    CHECK(!prog_whole(&p));
}

/* The loops that were compared. */
typedef struct met {
    bool loops[LOOPS];
    int n;
} met;

static void meet(void *arg, const prog *p, bool adds)
{
    met *m = arg;
    if (p->ninsts < 2)
        return;
    CHECK(loop_of(p) && (loop_of(p)->adds || !adds));
    bool *known = &m->loops[loop_of(p) - rule_loops];
    if (*known)
        return;
    *known = true;
    m->n++;
    (p->packed ? compare_packed : compare)(p);
    change(p);
}

/* A value of choice j that the rule takes when all others are the default. */
static uint8_t draw(const rule_paths *p, int j, philox w)
{
    uint8_t choice[PATH_CHOICES] = {0};
    rule_update u = {0};
    choice[j] = (uint8_t)(w.word[1] % (unsigned)rule_paths_count(p, j));
    if (w.word[0] % 2 || choice[j] == 0 || !rule_path_update(&u, p, choice))
        return 0;
    rule_update_release(&u);
    return choice[j];
}

static void draw_paths(met *m, const rule_paths *p)
{
    for (uint64_t k = 0; k < PATHS; k++) {
        uint8_t choice[PATH_CHOICES];
        OWN(rule_update_release) rule_update u = {0};
        for (int j = 0; j < p->nchoices; j++)
            choice[j] = draw(p, j, philox_at(9, PHILOX_FUNCTIONS, k, (uint64_t)j));
        if (!rule_path_update(&u, p, choice))
            continue;
        rule_path_programs(&u, meet, m);
    }
}

static void take(met *m, const char *text)
{
    rule_paths p;
    CHECK_OK(rule_paths_read(&p, text, &e));
    draw_paths(m, &p);
    CHECK_OK(rule_paths_walk(&p, meet, m, &e));
    rule_paths_release(&p);
}

/* Those of the walk that wrote the loops, and others that are drawn, which it must have found; of
 * merges those that the Makefile names. */
TEST(whole_on_every_path)
{
    static met m;
    const char *text, *name;
    bool any = false;
    for (int k = 0; kernel_tables(k); k++)
        any |= rule_loops[0].run[kernel_tables(k)->loop] != NULL;
    if (!any)
        test_skip("loops are for processors with AVX2");
    CHECK(rule_nloops <= LOOPS);
    for (int i = 0; (text = kv_optimizer_text(i, &name)); i++)
        take(&m, text);
    take(&m, merge_text_find("ties")->text);
    take(&m, merge_text_find("linear")->text);
    take(&m, merge_text_find("dare_ties")->text);
    take(&m, merge_text_find("slerp")->text);
    CHECK_INT(m.n, rule_nloops);
}
