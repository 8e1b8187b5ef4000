/* Tiles. Each operation has the expression of its kernel in vm/kernel_loops.h. */
#include "merge/merge_fused.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/no_carry.h"

enum { TILE = MERGE_FUSED_TILE, REGISTERS = 24, OPS = 192, OPERANDS = 3 };

/* The kernels that can be fused, and the expression of each. */
/* clang-format off */
#define KERNELS(X) \
    X(PROG_ADD,        a[i] + b[i]) \
    X(PROG_SUB,        a[i] - b[i]) \
    X(PROG_MUL,        a[i] * b[i]) \
    X(PROG_DIV,        a[i] / b[i]) \
    X(PROG_ABS,        fabsf(a[i])) \
    X(PROG_LT,         (float)(a[i] < b[i])) \
    X(PROG_WHERE,      a[i] != 0 ? b[i] : c[i]) \
    X(KERNEL_LIN1,     a[i] * k0 + k1) \
    X(KERNEL_LIN2,     a[i] * k0 + b[i] * k1) \
    X(KERNEL_LIN3,     (a[i] * k0 + b[i] * k1) + c[i] * k2) \
    X(KERNEL_MULADD,   a[i] * k0 + (b[i] * k1) * c[i]) \
    X(KERNEL_DIVADD,   a[i] * k0 + (b[i] * k1) / c[i]) \
    X(KERNEL_SCALEMUL, (a[i] * k0) * b[i]) \
    X(KERNEL_DIVK,     a[i] / k0) \
    X(KERNEL_EQK,      (float)(a[i] == k0)) \
    X(KERNEL_LTK,      (float)(a[i] < k0)) \
    X(KERNEL_LEK,      (float)(a[i] <= k0)) \
    X(KERNEL_GTK,      (float)(a[i] > k0)) \
    X(KERNEL_GEK,      (float)(a[i] >= k0)) \
    X(KERNEL_WHERE_VK, a[i] != 0 ? b[i] : k0) \
    X(KERNEL_WHERE_KV, a[i] != 0 ? k0 : b[i]) \
    X(KERNEL_WHERE_KK, a[i] != 0 ? k0 : k1)
/* clang-format on */

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
#define CASE(kernel, expression) case kernel:
        KERNELS(CASE)
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

#define RUN(kernel, expression)                                                                    \
    case kernel:                                                                                   \
        NO_CARRY for (int i = 0; i < TILE; i++) to[i] = (expression);                              \
        break;

CPU_CLONES void merge_fused_run(const merge_fused *f, const merge_fused_array *arrays, int64_t n)
{
    float reg[REGISTERS][TILE], widened[OPERANDS][TILE];
    for (int64_t at = 0; at < n; at += TILE) {
        for (const op *o = f->ops; o < f->ops + f->nops; o++) {
            const float *x[OPERANDS] = {widened[0], widened[0], widened[0]};
            for (int j = 0; j < o->narrays; j++) {
                int slot = o->operand[j] - f->nregs;
                const merge_fused_array *a = &arrays[slot < 0 ? 0 : slot];
                if (slot < 0) {
                    x[j] = reg[o->operand[j]];
                } else if (a->kind == MERGE_FUSED_BF16) {
                    const uint16_t *from = (const uint16_t *)a->at + at;
                    float *to = widened[j];
                    NO_CARRY for (int i = 0; i < TILE; i++)
                    {
                        uint32_t bits = (uint32_t)from[i] << 16;
                        memcpy(&to[i], &bits, sizeof bits);
                    }
                    x[j] = to;
                } else {
                    x[j] = (const float *)a->at + (a->kind == MERGE_FUSED_F32 ? at : 0);
                }
            }
            const float *a = x[0], *b = x[1], *c = x[2];
            float k0 = o->k[0], k1 = o->k[1], k2 = o->k[2];
            float *to =
                o->dst < f->nregs ? reg[o->dst] : (float *)arrays[o->dst - f->nregs].at + at;
            switch (o->kernel) {
                KERNELS(RUN)
            default:
                break;
            }
        }
    }
}
