/* Programs: the interpreter.
 *
 * Arrays are worked through in blocks small enough that all registers stay in the L1 cache. Each
 * instruction is one call of a loop over the block, so its cost of a few nanoseconds is spread over
 * many elements. Places hold the block's registers, which stay, and the arrays, which move on.
 */
#include "base/mem.h"
#include "cpu/cpu.h"
#include "vm/prog.h"
#include "vm/whole_list.h"

/* ---- Programs that have one loop for all their instructions ---------------------------------- */

/* Operands: registers from 0 on, and arrays. */
enum { ARRAY = 32, NONE = 64 };

typedef struct step {
    uint16_t kernel;
    uint8_t to, operand[3];
} step;

/* clang-format off */
enum {
    r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, g, h, REGISTERS,
    a0 = ARRAY, a1, a2, a3, a4,
    no = NONE
};
/* clang-format on */

#define R(...)                              STEP_R(__VA_ARGS__)
#define A(...)                              STEP_A(__VA_ARGS__)
#define STEP_R(reg, number, loop, x, y, z)  {number, reg, {x, y, z}},
#define STEP_A(slot, number, loop, x, y, z) {number, ARRAY + slot, {x, y, z}},

#define STEPS(name, ...) static const step steps_##name[] = {__VA_ARGS__};
WHOLE_PROGRAMS(STEPS)

static const struct {
    const step *steps;
    int32_t n;
} patterns[WHOLE_END] = {
#define PATTERN(name, ...) {steps_##name, sizeof steps_##name / sizeof(step)},
    WHOLE_PROGRAMS(PATTERN)
};

/* What stands for the registers of a pattern in a program: -1 before it is written. */
typedef struct match {
    const prog *p;
    int32_t reg[REGISTERS];
} match;

static bool is_at(const match *m, int operand, int32_t place)
{
    return (operand < REGISTERS ? m->reg[operand] : operand - ARRAY + m->p->nregs) == place;
}

/* What the program's register held before is gone. */
static void write_register(match *m, int reg, int32_t place)
{
    for (int i = 0; i < REGISTERS; i++)
        if (m->reg[i] == place)
            m->reg[i] = -1;
    m->reg[reg] = place;
}

static bool step_matches(match *m, const step *s, const inst *in)
{
    const int32_t places[] = {in->a, in->b, in->c};
    if (in->kind != INST_KERNEL || in->type != PROG_F32 || in->kernel != s->kernel)
        return false;
    for (int i = 0; i < kernel_forms[s->kernel].arrays; i++)
        if (!is_at(m, s->operand[i], places[i]))
            return false;
    if (s->to >= ARRAY)
        return is_at(m, s->to, in->dst);
    if (in->dst >= m->p->nregs)
        return false;
    write_register(m, s->to, in->dst);
    return true;
}

static bool matches(const prog *p, int which)
{
    match m = {.p = p};
    if (patterns[which].n != p->ninsts)
        return false;
    for (int i = 0; i < REGISTERS; i++)
        m.reg[i] = -1;
    for (int32_t i = 0; i < p->ninsts; i++)
        if (!step_matches(&m, &patterns[which].steps[i], &p->insts[i]))
            return false;
    return true;
}

kernel_whole *prog_whole(const prog *p)
{
    bool fits = p->nfills == 0 && p->nslots > 1 && p->nslots <= WHOLE_ARRAYS;
    for (int32_t s = 0; s < p->nslots; s++)
        fits = fits && p->slot_bytes[s] == (int64_t)sizeof(float);
    for (int i = 0; fits && i < WHOLE_END; i++)
        if (matches(p, i))
            return p->kernels->whole[i];
    return NULL;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

void prog_free(prog *p)
{
    mem_free(p);
}

/* Bytes of the list of places, so that what follows is aligned. */
static int64_t places_bytes(const prog *p)
{
    return mem_aligned((int64_t)sizeof(char *) * (p->nregs + p->nslots));
}

int64_t prog_scratch_bytes(const prog *p)
{
    int64_t aside = p->narrows ? (int64_t)p->block * 8 : 0; /* of any dtype */
    return places_bytes(p) + (int64_t)p->reg_bytes * p->nregs + aside;
}

static void run_inst(const uint64_t *pool, const inst *in, char *const *place, char *aside,
                     int64_t n)
{
    switch ((inst_kind)in->kind) {
    case INST_KERNEL:
        in->run(place[in->dst], place[in->a], place[in->b], place[in->c], pool + in->k, n);
        return;
    case INST_CONVERT:
        convert_elements(place[in->dst], (kv_dtype)in->to, place[in->a], (kv_dtype)in->from, n);
        return;
    case INST_NARROW:
        convert_elements(aside, (kv_dtype)in->to, place[in->a], (kv_dtype)in->from, n);
        convert_elements(place[in->dst], (kv_dtype)in->from, aside, (kv_dtype)in->to, n);
        return;
    }
}

/* Blocks ahead for which the memory is asked for elements. */
enum { AHEAD = 4 };

/* The instructions on one block. far: while they compute, later blocks are on their way, which the
 * processor does not guess when most instructions work on registers. Requests are spread over the
 * instructions, since few can be under way at once, and are for the L2 cache: the buffers of the L1
 * cache, two dozen or so, would be taken for the time of the memory, and the loads of the
 * instructions wait for one. Asking for what lies behind an array does no harm. Measured on 12.8M
 * elements, two threads: adam 6.3 ms without, 8.1 with requests for L1, 4.9 with these; ftml 12.1,
 * 16.4 and 7.6 ms.
 *
 * The loop that asks is no function of its own: gcc takes one that only asks for pure, and drops
 * its calls. */
static void run_block(const prog *p, const uint64_t *pool, char *const *place, char *aside,
                      int64_t n, bool far)
{
    int32_t count = p->ninsts - p->nfills, asked = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t ask = far ? (i + 1) * p->nslots / count : 0;
        for (; asked < ask; asked++) {
            int64_t bytes = p->slot_bytes[asked] * p->block;
            const char *from = place[p->nregs + asked] + bytes * AHEAD;
            for (int64_t at = 0; at < bytes; at += 64)
                __builtin_prefetch(from + at, 0, 2);
        }
        run_inst(pool, &p->insts[p->nfills + i], place, aside, n);
    }
}

void prog_run_whole(const prog *p, const uint64_t *pool, void *const *arrays, const float *more,
                    int64_t n)
{
    pool = pool ? pool : p->pool;
    float *array[WHOLE_ARRAYS];
    const float *numbers[WHOLE_STEPS];
    for (int32_t i = 0; i < p->ninsts; i++)
        numbers[i] = (const float *)(const void *)(pool + p->insts[i].k);
    for (int32_t s = 0; s < WHOLE_ARRAYS; s++)
        array[s] = arrays[s < p->nslots ? s : 0];
    p->whole(array, more, numbers, p->ninsts, n);
}

void prog_run_with(const prog *p, const uint64_t *pool, void *const *arrays, int64_t n,
                   void *scratch, prog_reach reach)
{
    bool far = reach == PROG_FAR_PIECE || (reach == PROG_FAR && !p->single);
    if (n <= 0)
        return;
    if (p->whole) {
        prog_run_whole(p, pool, arrays, NULL, n);
        return;
    }
    pool = pool ? pool : p->pool;
    char **place = scratch, *registers = (char *)scratch + places_bytes(p);
    char *aside = registers + (int64_t)p->reg_bytes * p->nregs;
    int64_t block = (p->single && !far) || n < p->block ? n : p->block;
    for (int32_t r = 0; r < p->nregs; r++)
        place[r] = registers + (int64_t)p->reg_bytes * r;
    for (int32_t s = 0; s < p->nslots; s++)
        place[p->nregs + s] = arrays[s];
    for (int32_t i = 0; i < p->nfills; i++)
        run_inst(pool, &p->insts[i], place, aside, block);
    for (int64_t left = n; left > 0; left -= block) {
        int64_t m = left < block ? left : block;
        run_block(p, pool, place, aside, m, far);
        for (int32_t s = 0; s < p->nslots && left > block; s++)
            place[p->nregs + s] += p->slot_bytes[s] * block;
    }
}

void prog_run(const prog *p, void *const *arrays, int64_t n, void *scratch)
{
    prog_run_with(p, NULL, arrays, n, scratch, PROG_NEAR);
}

void prog_run_far(const prog *p, void *const *arrays, int64_t n, void *scratch)
{
    prog_run_with(p, NULL, arrays, n, scratch, PROG_FAR);
}
