/* Rules as text for GPUs beside the interpreter of the CPU, bit by bit: random plans of every type,
 * with conversions, fused instructions, reductions over all elements and random numbers.
 *
 *     gpu_rules write SEED N > x.cc     the kernels of N plans, for tests/device/shim.hh or NVRTC
 *     gpu_rules check SEED N x.so       runs them, one thread behind the other; TAP
 *
 * The device is a table over host memory: what is asked is what the text says, not who runs it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/xxh64.h"
#include "cuda/job.h"
#include "cuda/prelude.h"
#include "vm/plan_gpu.h"
#include "vm/plan_pass.h"
#include "vm/plan_text.h"

enum { OPS = 14, MOST = 9000, STATES = 2, VALUES = 3 };

static uint64_t seed, drawn;

static uint32_t draw(void)
{
    return philox_at(seed, PHILOX_FUNCTIONS, 0, drawn++).word[0];
}

static void must(int rc, const kv_err *e)
{
    if (rc == KV_OK)
        return;
    fprintf(stderr, "gpu_rules: %s\n", e->text);
    exit(2);
}

/* ---- Random plans ---- */

typedef struct sample {
    plan *p;
    prog_type type;
    kv_dtype stored, input, weight;
    bool has_weight;
} sample;

static const prog_op float_ops[] = {
    PROG_ADD, PROG_SUB, PROG_MUL, PROG_DIV,   PROG_FLOORDIV, PROG_MOD,  PROG_NEG,  PROG_ABS,
    PROG_SQRT, PROG_SIGN, PROG_FLOOR, PROG_CEIL, PROG_ROUND, PROG_MIN, PROG_MAX, PROG_LT,
    PROG_GE,  PROG_EQ,  PROG_AND, PROG_NOT, PROG_ISFINITE, PROG_ISNAN, PROG_WHERE, PROG_CLIP,
    PROG_EXP, PROG_LOG, PROG_POW, PROG_ADD, PROG_MUL, PROG_SUB, PROG_MUL, PROG_ADD};
static const prog_op int_ops[] = {PROG_ADD, PROG_SUB, PROG_MUL, PROG_FLOORDIV, PROG_MOD,
                                  PROG_NEG, PROG_ABS, PROG_SIGN, PROG_MIN, PROG_MAX, PROG_LE,
                                  PROG_NE,  PROG_OR,  PROG_WHERE, PROG_CLIP, PROG_POW};

static prog_value any_of(const prog_value *values, int n)
{
    /* the latest ones more often, so that expressions become deep */
    int back = (int)(draw() % 4 ? draw() % 4 : draw() % 32);
    return values[n - 1 - (back < n ? back : n - 1)];
}

static prog_value constant(prog_builder *b, prog_type type)
{
    static const double numbers[] = {0.5, 2, -1, 0.1, 1e-3, 3, -0.0, 0, 1, 7.25};
    double x = numbers[draw() % 10];
    return type == PROG_I64 ? prog_const_int(b, type, (int64_t)(draw() % 9) - 4)
                            : prog_const(b, type, x);
}

static prog_value operation(prog_builder *b, prog_type type, const prog_value *values, int n)
{
    prog_op op = type == PROG_I64 ? int_ops[draw() % (sizeof int_ops / sizeof *int_ops)]
                                  : float_ops[draw() % (sizeof float_ops / sizeof *float_ops)];
    prog_value kid[3] = {-1, -1, -1};
    for (int i = 0; i < prog_op_arity(op); i++)
        kid[i] = draw() % 4 == 0 ? constant(b, type) : any_of(values, n);
    return prog_apply(b, op, kid[0], kid[1], kid[2]);
}

/* By way of another type: what `f64` and conversions in a rule are. */
static prog_value detour(prog_builder *b, prog_type type, prog_value x)
{
    static const kv_dtype narrow[] = {KV_FLOAT16, KV_BFLOAT16, KV_INT8, KV_UINT8, KV_INT32};
    if (type == PROG_F32 && draw() % 2) {
        prog_value wide = prog_cast(b, PROG_F64, x);
        wide = prog_apply(b, PROG_MUL, wide, wide, -1);
        wide = prog_apply(b, PROG_ADD, wide, prog_const(b, PROG_F64, 0.1), -1);
        return prog_cast(b, PROG_F32, wide);
    }
    if (type == PROG_I64)
        return prog_narrow(b, narrow[2 + draw() % 3], x);
    return type == PROG_F32 ? prog_narrow(b, narrow[draw() % 2], x)
                            : prog_cast(b, PROG_F64, prog_cast(b, PROG_F32, x));
}

static kv_dtype dtype_for(prog_type type)
{
    static const kv_dtype singles[] = {KV_FLOAT32, KV_FLOAT32, KV_FLOAT16, KV_BFLOAT16};
    static const kv_dtype integers[] = {KV_INT64, KV_INT32, KV_INT8, KV_UINT8};
    return type == PROG_F32   ? singles[draw() % 4]
           : type == PROG_F64 ? KV_FLOAT64
                              : integers[draw() % 4];
}

static sample make_sample(void)
{
    static const prog_type types[] = {PROG_F32, PROG_F32, PROG_F64, PROG_I64};
    kv_err e = {0};
    prog_builder *b = prog_builder_new(&e);
    prog_value values[OPS + 8];
    int n = 0;
    must(e.code, &e);
    sample s = {.type = types[draw() % 4]};
    s.input = dtype_for(s.type);
    s.has_weight = s.type == PROG_F32 && draw() % 3 == 0;
    s.stored = s.has_weight ? KV_FLOAT32 : s.input;
    s.weight = s.input;
    kv_dtype own = prog_dtype(s.type);
    values[n++] = prog_load(b, PLAN_STORED, s.stored, s.type);
    values[n++] = prog_load(b, PLAN_INPUT, s.input, s.type);
    for (int i = 0; i < STATES; i++)
        values[n++] = prog_load(b, PLAN_STATE + i, own, s.type);
    if (s.type != PROG_I64 && draw() % 8 == 0)
        values[n++] = prog_load(b, PLAN_NORMAL + draw() % PLAN_MAX_DRAWS, own, s.type);
    for (int i = 0; i < OPS; i++) {
        uint32_t how = draw() % 16;
        values[n] = how == 0 ? detour(b, s.type, any_of(values, n))
                    : how == 1 && s.type != PROG_I64 && draw() % 3 == 0
                        ? plan_sum(b, any_of(values, n), false)
                        : operation(b, s.type, values, n);
        n++;
    }
    prog_value out = any_of(values, n);
    prog_store(b, PLAN_STORED, s.stored, out);
    if (s.has_weight)
        prog_store(b, PLAN_WEIGHT, s.weight, out);
    for (int i = 0; i < STATES; i++)
        if (draw() % 2)
            prog_store(b, PLAN_STATE + i, own, any_of(values, n));
    must(plan_make(&s.p, b, s.type, false, &e), &e);
    prog_builder_free(b);
    return s;
}

/* ---- A device of host memory ---- */

typedef void kernel(const job_list *l, unsigned blocks, unsigned threads);

struct gpu_rule {
    uint64_t sum;
    kernel *run;
    gpu_rule *next;
};

static gpu_rule *rules;

static int host_alloc(int id, int64_t bytes, void **out, kv_err *e)
{
    (void)id;
    *out = mem_alloc_data(bytes, e);
    return *out ? KV_OK : KV_E_MEMORY;
}

static void host_free(int id, void *block)
{
    (void)id;
    mem_free(block);
}

static int host_copy_out(int id, void *host, const void *src, int64_t bytes, kv_err *e)
{
    (void)id, (void)e;
    memcpy(host, src, (size_t)bytes);
    return KV_OK;
}

static double sum_chunk(const gpu_job *j, int64_t c)
{
    int64_t end = (c + 1) * PLAN_CHUNK < j->row ? (c + 1) * PLAN_CHUNK : j->row;
    float single = 0;
    double wide = 0;
    for (int64_t i = c * PLAN_CHUNK; i < end; i++) {
        if (j->from == KV_FLOAT32)
            single += ((const float *)j->src[0])[i];
        else
            wide += ((const double *)j->src[0])[i];
    }
    return j->from == KV_FLOAT32 ? (double)single : wide;
}

static int host_run(int id, gpu_work work, const gpu_job *jobs, int64_t n, kv_err *e)
{
    (void)id;
    if (work != GPU_SUM_CHUNKS)
        return kv_err_set(e, KV_E_UNSUPPORTED, "a plan needs no work but the sums of chunks");
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < jobs[i].n; c++)
            ((double *)jobs[i].dst)[c] = sum_chunk(&jobs[i], c);
    return KV_OK;
}

static int host_compile(int id, const char *text, const gpu_rule **out, kv_err *e)
{
    uint64_t sum = xxh64(text, strlen(text));
    (void)id;
    for (*out = rules; *out && (*out)->sum != sum; *out = (*out)->next)
        ;
    return *out ? KV_OK : kv_err_set(e, KV_E_UNSUPPORTED, "a text is not among those written");
}

static int host_apply(int id, const gpu_rule *rule, const gpu_job *jobs, int64_t n, kv_err *e)
{
    (void)id, (void)e;
    for (int64_t i = 0; i < n; i++) {
        const gpu_job *j = &jobs[i];
        job_item item = {.src = j->src, .more = j->more, .numbers = j->numbers, .n = j->n,
                         .nsrc = j->nsrc};
        job_list list = {&item, 1, (j->n + JOB_TILE - 1) / JOB_TILE, JOB_TILE};
        rule->run(&list, 2, 64);
    }
    return KV_OK;
}

static const gpu_ops host = {.count = 1,
                             .alloc = host_alloc,
                             .free = host_free,
                             .copy_out = host_copy_out,
                             .run = host_run,
                             .compile = host_compile,
                             .apply = host_apply};

/* ---- Comparing ---- */

/* What a plan works on: each array twice, for either side. */
typedef struct room {
    char *stored, *weight, *states[STATES], *values[VALUES], *sum;
} room;

static void fill(char *to, kv_dtype dtype, int64_t n)
{
    static const double special[] = {0, -0.0, 1, -1, 1e30, -1e30, 1e-40, 0.5};
    for (int64_t i = 0; i < n; i++) {
        double x = draw() % 16 ? (double)(int32_t)draw() * 0x1p-29 : special[draw() % 8];
        cpu_dev_ops.convert(to + i * kv_dtype_bytes(dtype), dtype, &x, KV_FLOAT64, 1);
    }
}

static const void *give_sum(void *arg, int64_t from, int64_t n, void *unused)
{
    const sample *s = ((void **)arg)[0];
    (void)n, (void)unused;
    return (char *)((void **)arg)[1] + from * kv_dtype_bytes(s->input);
}

static bool same(const char *a, const char *b, kv_dtype dtype, int64_t n)
{
    int64_t bytes = kv_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) {
        double x, y;
        if (memcmp(a + i * bytes, b + i * bytes, (size_t)bytes) == 0)
            continue;
        cpu_dev_ops.convert(&x, KV_FLOAT64, a + i * bytes, dtype, 1);
        cpu_dev_ops.convert(&y, KV_FLOAT64, b + i * bytes, dtype, 1);
        if (x == x || y == y) /* of nans only that they are nans */
            return false;
    }
    return true;
}

static char *block(void)
{
    kv_err e = {0};
    char *p = mem_alloc_data((MOST + 8) * 8, &e);
    must(e.code, &e);
    memset(p, 0, (MOST + 8) * 8);
    return p;
}

static plan_arrays arrays_of(const sample *s, room *r, int64_t n)
{
    plan_arrays a = {.stored = r->stored,
                     .stored_dtype = s->stored,
                     .weight = s->has_weight ? r->weight : NULL,
                     .weight_dtype = s->weight,
                     .size = n,
                     .row = 1,
                     .input_dtype = s->input,
                     .seed = 99,
                     .t = 5};
    for (int i = 0; i < STATES; i++)
        a.states[i] = r->states[i];
    return a;
}

static bool try_plan(const sample *s, room *cpu, room *gpu, int64_t n, int64_t nvalues)
{
    kv_err e = {0};
    kv_dtype own = prog_dtype(s->type);
    const void *values[VALUES];
    fill(cpu->stored, s->stored, n);
    memcpy(gpu->stored, cpu->stored, (size_t)MOST * 8);
    for (int i = 0; i < STATES; i++) {
        fill(cpu->states[i], own, n);
        memcpy(gpu->states[i], cpu->states[i], (size_t)MOST * 8);
    }
    for (int64_t i = 0; i < nvalues; i++) {
        fill(cpu->values[i], s->input, n);
        values[i] = cpu->values[i];
    }
    cpu_dev_ops.sum(cpu->sum, values, nvalues, s->input, n);
    void *arg[] = {(void *)(uintptr_t)s, cpu->sum};
    plan_arrays a = arrays_of(s, cpu, n), b = arrays_of(s, gpu, n);
    a.input = give_sum;
    a.arg = arg;
    void *scratch = mem_alloc_data(plan_scratch_bytes(s->p, n, 0) + 64, &e);
    must(e.code, &e);
    plan_run(s->p, &a, scratch);
    mem_free(scratch);
    plan_gpu_item item = {s->p, &b, values, nvalues};
    must(plan_gpu_run(&host, 0, &item, 1, &e), &e);
    bool ok = same(cpu->stored, gpu->stored, s->stored, n);
    ok &= !s->has_weight || same(cpu->weight, gpu->weight, s->weight, n);
    for (int i = 0; i < STATES; i++)
        ok &= same(cpu->states[i], gpu->states[i], own, n);
    return ok;
}

static room new_room(void)
{
    room r = {.stored = block(), .weight = block(), .sum = block()};
    for (int i = 0; i < STATES; i++)
        r.states[i] = block();
    for (int i = 0; i < VALUES; i++)
        r.values[i] = block();
    return r;
}

/* ---- What is asked for ---- */

/* The text of a pass under its own name, and its number among all. */
static void write_pass(const plan *p, int pass, int number)
{
    buf text = {0};
    char name[40];
    snprintf(name, sizeof name, "kv_rule_%d", number);
    plan_text(&text, p, pass, name);
    fwrite(buf_text(&text), 1, text.len, stdout);
    buf_release(&text);
}

static void find_pass(const plan *p, int pass, int number, void *library)
{
    buf text = {0};
    char name[40];
    gpu_rule *r = mem_zalloc(1, sizeof *r, NULL);
    void *address;
    snprintf(name, sizeof name, "shim_kv_rule_%d", number);
    plan_text(&text, p, pass, "kv_rule");
    address = dlsym(library, name);
    memcpy(&r->run, &address, sizeof address);
    r->sum = xxh64(buf_text(&text), text.len);
    r->next = rules;
    rules = r;
    buf_release(&text);
}

static int check(int64_t n, const sample *samples, const char *path)
{
    static const int64_t lengths[] = {1, 31, 1025, 4096, 4097, 9000};
    void *library = dlopen(path, RTLD_NOW);
    room cpu = new_room(), gpu = new_room();
    int number = 0, wrong = 0;
    if (!library) {
        fprintf(stderr, "gpu_rules: %s\n", dlerror());
        return 2;
    }
    for (int64_t i = 0; i < n; i++)
        for (int pass = 0; pass < samples[i].p->npasses; pass++)
            if (samples[i].p->pass[pass].elements)
                find_pass(samples[i].p, pass, number++, library);
    for (int64_t i = 0; i < n; i++) {
        bool ok = true;
        for (int k = 0; k < 2; k++) {
            int64_t length = lengths[draw() % (sizeof lengths / sizeof *lengths)];
            ok &= try_plan(&samples[i], &cpu, &gpu, length, 1 + draw() % VALUES);
        }
        if (!ok && wrong++ == 0) {
            buf text = {0};
            plan_print(samples[i].p, &text);
            printf("# plan %lld differs:\n%s", (long long)i, buf_text(&text));
            buf_release(&text);
        }
    }
    printf("%sok 1 - %lld random plans, %d kernels: %d differ\n", wrong ? "not " : "",
           (long long)n, number, wrong);
    return wrong > 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: gpu_rules write SEED N | check SEED N FILE\n");
        return 2;
    }
    seed = strtoull(argv[2], NULL, 10);
    int64_t n = strtoll(argv[3], NULL, 10);
    int number = 0;
    sample *samples = mem_alloc(n, sizeof *samples, NULL);
    for (int64_t i = 0; i < n; i++)
        samples[i] = make_sample();
    if (strcmp(argv[1], "check") == 0 && argc > 4)
        return check(n, samples, argv[4]);
    printf("%s%s", prelude_job, prelude_element);
    for (int64_t i = 0; i < n; i++)
        for (int pass = 0; pass < samples[i].p->npasses; pass++)
            if (samples[i].p->pass[pass].elements)
                write_pass(samples[i].p, pass, number++);
    return 0;
}
