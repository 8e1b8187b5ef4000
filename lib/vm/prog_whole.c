/* Programs that have one loop for all their instructions: which those are. */
#include "vm/whole_list.h"

#include "vm/prog.h"

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
