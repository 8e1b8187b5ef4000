/* Tiles. */
#include "merge/merge_fused.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "vm/arith.h"
#include "vm/curve.h"

enum { TILE = MERGE_FUSED_TILE, REGISTERS = 24, OPS = 192, OPERANDS = 3 };

/* Kernels that read operands of BF16 as they are, and which, as bits. A widened tile costs as many
 * stores as the operation itself. */
#define NARROW_KERNELS(X)                                                                          \
    X(PROG_ADD, 3)                                                                                 \
    X(PROG_SUB, 3)                                                                                 \
    X(PROG_MUL, 1)                                                                                 \
    X(KERNEL_LIN1, 1)                                                                              \
    X(KERNEL_LIN2, 3)                                                                              \
    X(KERNEL_LIN2, 2)                                                                              \
    X(KERNEL_LIN3, 7)                                                                              \
    X(KERNEL_LIN3, 6)

/* The expression of each kernel of float32 (vm/op_list.h) as a function. */
#define OF_T(function) function##f
#define HAS_F(...)     __VA_ARGS__
#define HAS_V(...)
#define HAS__(...)
#define AT(name, loop, f, w, i, arity, kind, text, expression)                                     \
    HAS_##f(static inline float at_##name(float a, float b, float c, const float *k) {             \
        const float k0 = k[0], k1 = k[1], k2 = k[2], k3 = k[3];                                    \
        (void)a, (void)b, (void)c, (void)k0, (void)k1, (void)k2, (void)k3;                         \
        return (float)(expression);                                                                \
    })
PROG_OPS(AT)
KERNEL_MAP(AT)

/* A kernel with the operands that it reads as BF16. */
#define NARROW(kernel, which) ((kernel) << OPERANDS | (which))

typedef struct op {
    int kernel, narrays;
    int dst, operand[OPERANDS]; /* registers, then slots */
    float k[KERNEL_CONSTANTS];
} op;

struct merge_fused {
    int nops, nregs;
    op ops[];
};

static bool is_ours(const inst *in)
{
    if (in->kind != INST_KERNEL || in->type != PROG_F32)
        return false;
    switch (in->kernel) {
#define CASE(name, loop, f, w, i, ...) HAS_##f(case name:)
        PROG_OPS(CASE)
        KERNEL_MAP(CASE)
#undef CASE
        return true;
    default:
        return false;
    }
}

int64_t merge_fused_bytes(const prog *p)
{
    bool ours = p->nfills == 0 && p->nregs <= REGISTERS && p->ninsts <= OPS;
    for (int i = 0; i < p->ninsts && ours; i++)
        ours = is_ours(&p->insts[i]);
    return ours ? (int64_t)sizeof(merge_fused) + p->ninsts * (int64_t)sizeof(op) : 0;
}

merge_fused *merge_fused_make(void *memory, const prog *p)
{
    merge_fused *f = memory;
    f->nops = p->ninsts;
    f->nregs = p->nregs;
    for (int i = 0; i < f->nops; i++) {
        const inst *in = &p->insts[i];
        f->ops[i] = (op){.kernel = in->kernel,
                         .narrays = kernel_forms[in->kernel].arrays,
                         .dst = in->dst,
                         .operand = {in->a, in->b, in->c}};
        memcpy(f->ops[i].k, p->pool + in->k, sizeof f->ops[i].k);
    }
    return f;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

enum { WIDEN = -1 }; /* the kernel of a step that widens a tile of BF16 */

/* An operation of one run, or the widening of an operand, with its arrays: what it writes, then
 * what it reads. */
typedef struct step {
    int kernel; /* NARROW of it */
    float k[KERNEL_CONSTANTS];
    char *at[1 + OPERANDS];
    int64_t width[1 + OPERANDS]; /* bytes of an element; 0: the same array for all tiles */
} step;

typedef struct tiles {
    float reg[REGISTERS][TILE], widened[OPERANDS][TILE];
} tiles;

static bool reads_narrow(int kernel, int which)
{
    switch (NARROW(kernel, which)) {
#define CASE(kernel, which) case NARROW(kernel, which):
        NARROW_KERNELS(CASE)
#undef CASE
        return true;
    default:
        return false;
    }
}

static const merge_fused_array *operand_of(const merge_fused *f, const op *o, int j,
                                           const merge_fused_array *arrays)
{
    return o->operand[j] < f->nregs ? NULL : &arrays[o->operand[j] - f->nregs];
}

/* The operands of BF16, as bits. */
static int narrow_operands(const merge_fused *f, const op *o, const merge_fused_array *arrays)
{
    int which = 0;
    for (int j = 0; j < o->narrays; j++) {
        const merge_fused_array *a = operand_of(f, o, j, arrays);
        which |= (a && a->kind == MERGE_FUSED_BF16) << j;
    }
    return which;
}

static const int widths[] = {[MERGE_FUSED_F32] = sizeof(float),
                             [MERGE_FUSED_BF16] = sizeof(uint16_t),
                             [MERGE_FUSED_NUMBER] = 0};

/* Makes the steps of a run; returns their number. An operand that was widened for the same place of
 * an operation before is not widened again. */
static int make_steps(step *steps, tiles *t, const merge_fused *f, const merge_fused_array *arrays)
{
    const merge_fused_array *held[OPERANDS] = {NULL}; /* that is widened there */
    int n = 0;
    for (const op *o = f->ops; o < f->ops + f->nops; o++) {
        bool stores = o->dst >= f->nregs;
        int which = narrow_operands(f, o, arrays);
        bool as_is = reads_narrow(o->kernel, which);
        step s = {.kernel = NARROW(o->kernel, as_is ? which : 0),
                  .at = {stores ? arrays[o->dst - f->nregs].at : (char *)t->reg[o->dst],
                         (char *)t->widened[0], (char *)t->widened[1], (char *)t->widened[2]},
                  .width = {stores ? widths[MERGE_FUSED_F32] : 0}};
        memcpy(s.k, o->k, sizeof s.k);
        for (int j = 0; j < o->narrays; j++) {
            const merge_fused_array *a = operand_of(f, o, j, arrays);
            if (!a) {
                s.at[1 + j] = (char *)t->reg[o->operand[j]];
            } else if (a->kind != MERGE_FUSED_BF16 || as_is) {
                s.at[1 + j] = a->at;
                s.width[1 + j] = widths[a->kind];
            } else if (held[j] != a) {
                char *narrow = a->at;
                steps[n++] = (step){.kernel = WIDEN,
                                    .at = {(char *)t->widened[j], narrow, narrow, narrow},
                                    .width = {0, widths[MERGE_FUSED_BF16]}};
                held[j] = a;
            }
        }
        steps[n++] = s;
    }
    return n;
}

static inline __attribute__((always_inline)) float wide(const float *bf16, int i)
{
    uint16_t upper;
    memcpy(&upper, (const char *)bf16 + i * (int64_t)sizeof upper, sizeof upper);
    uint32_t bits = (uint32_t)upper << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define OVER_TILE NO_CARRY for (int i = 0; i < TILE; i++)
#define OPERAND(x, which, bit) ((which) >> (bit)&1 ? wide(x, i) : (x)[i])
#define RUN_NARROW(name, which)                                                                    \
    case NARROW(name, which):                                                                      \
        OVER_TILE to[i] = at_##name(OPERAND(a, which, 0), OPERAND(b, which, 1),                    \
                                    OPERAND(c, which, 2), k);                                      \
        break;
#define RUN(name, loop, f, ...) HAS_##f(RUN_NARROW(name, 0))

CPU_CLONES void merge_fused_run(const merge_fused *f, const merge_fused_array *arrays, int64_t n)
{
    step steps[OPS * (1 + OPERANDS)];
    _Alignas(MEM_ALIGN) tiles t; /* else vectors cross lines of the cache */
    const step *end = steps + make_steps(steps, &t, f, arrays);
    for (int64_t at = 0; at < n; at += TILE) {
        for (const step *s = steps; s < end; s++) {
            float *to = (float *)(void *)(s->at[0] + at * s->width[0]);
            const float *a = (const float *)(void *)(s->at[1] + at * s->width[1]);
            const float *b = (const float *)(void *)(s->at[2] + at * s->width[2]);
            const float *c = (const float *)(void *)(s->at[3] + at * s->width[3]);
            const float k[] = {s->k[0], s->k[1], s->k[2], s->k[3]};
            switch (s->kernel) {
                PROG_OPS(RUN)
                KERNEL_MAP(RUN)
                NARROW_KERNELS(RUN_NARROW)
            case WIDEN:
                OVER_TILE to[i] = wide(a, i);
                break;
            default:
                break;
            }
        }
    }
}
