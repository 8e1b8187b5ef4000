/* Programs: the interpreter.
 *
 * Arrays are worked through in blocks small enough that all registers stay in the L1 cache. Each
 * instruction is one call of a loop over the block, so its cost of a few nanoseconds is spread over
 * many elements. Places hold the block's registers, which stay, and the arrays, which move on.
 */
#include "base/mem.h"
#include "cpu/cpu.h"
#include "vm/prog.h"

/* ---- Programs that have one loop for all their instructions ---------------------------------- */

uint64_t prog_hash(const prog *p)
{
    uint64_t hash = 0xcbf29ce484222325u;
#define MIX(x) hash = (hash ^ (uint64_t)(x)) * 0x100000001b3u
    MIX(p->nregs), MIX(p->nslots);
    for (int32_t s = 0; s < p->nslots; s++)
        MIX(p->slot_bytes[s]);
    for (int32_t i = 0; i < p->ninsts; i++) {
        const inst *in = &p->insts[i];
        MIX(in->kind), MIX(in->op), MIX(in->type), MIX(in->to), MIX(in->from), MIX(in->factors);
        MIX(in->dst), MIX(in->a), MIX(in->b), MIX(in->c), MIX(in->k);
    }
#undef MIX
    return hash;
}

const rule_loop *prog_whole(const prog *p)
{
    uint64_t hash = prog_hash(p);
    int low = 0, high = rule_nloops;
    while (low < high) {
        int middle = (low + high) / 2;
        if (rule_loops[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    const rule_loop *at = &rule_loops[low];
    bool found = low < rule_nloops && at->hash == hash && at->run[p->kernels->loop];
    return found ? at : NULL;
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
    case INST_FILL: /* before all blocks */
        return;
    case INST_KERNEL:
        in->run(place[in->dst], place[in->a], place[in->b], place[in->c], n);
        return;
    case INST_SCALED:
        in->run(place[in->dst], place[in->a], place[in->b], pool + in->k, n);
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

/* Asks the memory for later blocks of the slots up to `to`, which the processor does not guess when
 * most instructions work on registers. Requests are spread over the instructions, since few can be
 * under way at once, and are for the L2 cache: the buffers of the L1 cache, two dozen or so, would
 * be taken for the time of the memory, and the loads of the instructions wait for one. Asking for
 * what lies behind an array does no harm. Measured on 12.8M elements, two threads: adam 6.3 ms
 * without, 8.1 with requests for L1, 4.9 with these; ftml 12.1, 16.4 and 7.6 ms.
 *
 * Inlined: gcc takes a function that only asks for pure, and drops its calls. */
static inline __attribute__((always_inline)) void ask_ahead(const prog *p, char *const *place,
                                                            int32_t *asked, int32_t to)
{
    for (; *asked < to; ++*asked) {
        int64_t bytes = p->slot_bytes[*asked] * p->block;
        const char *from = place[p->nregs + *asked] + bytes * AHEAD;
        for (int64_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(from + at, 0, 2);
    }
}

void prog_run_whole(const prog *p, const uint64_t *pool, void *const *arrays, const float *more,
                    int64_t n)
{
    p->whole->run[p->kernels->loop](arrays, more, pool ? pool : p->pool, n);
}

/* The instructions on one block; far: while they compute, later blocks are on their way. */
static void run_block(const prog *p, const uint64_t *pool, char *const *place, char *aside,
                      int64_t n, bool far)
{
    int32_t count = p->ninsts - p->nfills, asked = 0;
    for (int32_t i = 0; i < count; i++) {
        ask_ahead(p, place, &asked, far && !p->single ? (i + 1) * p->nslots / count : 0);
        run_inst(pool, &p->insts[p->nfills + i], place, aside, n);
    }
}

void prog_run_with(const prog *p, const uint64_t *pool, void *const *arrays, int64_t n,
                   void *scratch, bool far)
{
    if (n <= 0)
        return;
    if (p->whole) {
        prog_run_whole(p, pool, arrays, NULL, n);
        return;
    }
    pool = pool ? pool : p->pool;
    char **place = scratch, *registers = (char *)scratch + places_bytes(p);
    char *aside = registers + (int64_t)p->reg_bytes * p->nregs;
    int64_t block = p->single || n < p->block ? n : p->block;
    for (int32_t r = 0; r < p->nregs; r++)
        place[r] = registers + (int64_t)p->reg_bytes * r;
    for (int32_t s = 0; s < p->nslots; s++)
        place[p->nregs + s] = arrays[s];
    for (int32_t i = 0; i < p->nfills; i++)
        p->kernels->spread(place[i], &pool[i], p->insts[i].type == PROG_F32 ? 4 : 8, 0, block,
                           block);
    for (int64_t left = n; left > 0; left -= block) {
        int64_t m = left < block ? left : block;
        run_block(p, pool, place, aside, m, far);
        for (int32_t s = 0; s < p->nslots && left > block; s++)
            place[p->nregs + s] += p->slot_bytes[s] * block;
    }
}

/* Sizes from here on do not round to finite numbers. */
#define BEYOND_BF16 0x7f7f8000u

bool prog_pack(const prog *p, void *const *arrays, int64_t n)
{
    return p->packed && n % 2 == 0 &&
           p->packed->run[p->kernels->loop](arrays, NULL, p->pool, n) < BEYOND_BF16;
}

void prog_run(const prog *p, void *const *arrays, int64_t n, void *scratch)
{
    prog_run_with(p, NULL, arrays, n, scratch, false);
}

void prog_run_far(const prog *p, void *const *arrays, int64_t n, void *scratch)
{
    prog_run_with(p, NULL, arrays, n, scratch, true);
}
