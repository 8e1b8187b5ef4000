/* Rules as text for GPUs beside the interpreter of the CPU, bit by bit: random plans of every type,
 * with conversions, factors, reductions over all elements and random numbers.
 *
 *     gpu_rules write SEED N > x.cc     the kernels of N plans, for tests/device/shim.hh or NVRTC
 *     gpu_rules check SEED N x.so       runs them, one thread behind the other; TAP
 *
 * The device is a table over host memory: what is asked is what the text says, not who runs it.
 * Lists have several keys of one plan, of odd lengths and with arrays that begin anywhere; nothing
 * of the table waits for the device or copies from it.
 */
#include <dlfcn.h>
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/xxh64.h"
#include "cuda/job.h"
#include "cuda/prelude.h"
#include "tap.h"
#include "tests/unit/plan_listing.h"
#include "vm/plan_gpu.h"
#include "vm/plan_pass.h"

enum { OPS = 14, MOST = 9000, ODD = 16, STATES = 2, VALUES = 3, KEYS = 3 };

static uint64_t seed, drawn;

static uint32_t draw(void)
{
    static philox block;
    if (drawn % 4 == 0)
        block = philox_at(seed, PHILOX_FUNCTIONS, 0, drawn / 4);
    return block.word[drawn++ % 4];
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
    PROG_EXP, PROG_LOG, PROG_POW, PROG_TANH, PROG_SIN, PROG_COS, PROG_ASIN, PROG_ACOS, PROG_ADD,
    PROG_ADD, PROG_MUL, PROG_MUL, PROG_SUB, PROG_MUL, PROG_ADD};
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

/* A sum over all elements, of integers or of more precision by way of float64. */
static prog_value reduced(prog_builder *b, prog_type type, prog_value x)
{
    bool wide = type == PROG_I64 || (type == PROG_F32 && draw() % 4 == 0);
    prog_value sum = plan_reduce(b, wide ? prog_cast(b, PROG_F64, x) : x,
                                 (plan_reduction){.present = draw() % 4 == 0});
    if (type != PROG_I64 && draw() % 4 == 0)
        sum = prog_apply(b, PROG_SQRT, sum, -1, -1);
    return wide ? prog_cast(b, type, sum) : sum;
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
        values[n] = how == 0   ? detour(b, s.type, any_of(values, n))
                    : how == 1 ? reduced(b, s.type, any_of(values, n))
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
    must(plan_make(&s.p, b, (plan_way){.type = s.type}, &e), &e);
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

static int launches; /* since a list of keys began */

/* The sum of the elements from `from` on, one behind the other. */
static void sum_part(const gpu_job *j, int64_t part, int64_t from, int64_t end)
{
    float single = 0;
    double wide = 0;
    for (int64_t i = from; i < end; i++) {
        if (j->to == KV_FLOAT32)
            single += ((const float *)j->src[0])[i];
        else
            wide += ((const double *)j->src[0])[i];
    }
    if (j->to == KV_FLOAT32)
        ((float *)j->dst)[part] = single;
    else
        ((double *)j->dst)[part] = wide;
}

static int host_run(int id, gpu_work work, const gpu_job *jobs, int64_t n, kv_err *e)
{
    (void)id;
    if (work != GPU_SUM_CHUNKS && work != GPU_SUM_ALL)
        return kv_err_set(e, KV_E_UNSUPPORTED, "a plan needs no work but sums");
    launches++;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < jobs[i].n; c++) {
            int64_t each = work == GPU_SUM_ALL ? jobs[i].row : PLAN_CHUNK;
            int64_t left = jobs[i].row - c * each;
            sum_part(&jobs[i], c, c * each, c * each + (left < each ? left : each));
        }
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
    job_item items[KEYS];
    int64_t tiles = 0, nitems = 0;
    (void)id, (void)e;
    launches++;
    for (int64_t i = 0; i < n; i++) {
        const gpu_job *j = &jobs[i];
        if (j->n == 0)
            continue;
        items[nitems++] = (job_item){.src = j->src, .more = j->more, .numbers = j->numbers,
                                     .n = j->n, .nsrc = j->nsrc, .first = tiles};
        tiles += (j->n + JOB_TILE - 1) / JOB_TILE;
    }
    rule->run(&(job_list){items, nitems, tiles, JOB_TILE}, 2, 64);
    return KV_OK;
}

static gpu_ops host = {.count = 1,
                             .alloc = host_alloc,
                             .free = host_free,
                             .run = host_run,
                             .compile = host_compile,
                             .apply = host_apply};

/* ---- Comparing ---- */

/* The arrays of a plan, on one side. */
typedef struct room {
    char *stored, *weight, *states[STATES], *values[VALUES], *sum;
} room;

/* Both sides of a key. */
typedef struct key {
    room cpu, gpu;
    plan_arrays a, b;
    const void *values[VALUES];
    int64_t n;
    void *input[2]; /* the sample, and the sum of the values */
} key;

static void fill(char *to, kv_dtype dtype, int64_t n)
{
    static const double special[] = {0, -0.0, 1, -1, 1e30, -1e30, 1e-40, 0.5};
    for (int64_t i = 0; i < n; i++) {
        double x = draw() % 16 ? (double)(int32_t)draw() * 0x1p-29 : special[draw() % 8];
        convert_elements(to + i * kv_dtype_bytes(dtype), dtype, &x, KV_FLOAT64, 1);
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
        convert_elements(&x, KV_FLOAT64, a + i * bytes, dtype, 1);
        convert_elements(&y, KV_FLOAT64, b + i * bytes, dtype, 1);
        if (x == x || y == y) /* of nans only that they are nans */
            return false;
    }
    return true;
}

static char *block(void)
{
    kv_err e = {0};
    char *p = mem_alloc_data((MOST + 2 * ODD) * 8, &e);
    must(e.code, &e);
    memset(p, 0, (MOST + 2 * ODD) * 8);
    return p;
}

/* The begin of an array in its block: mostly aligned for packs. */
static char *begin(char *block, kv_dtype dtype)
{
    return block + (draw() % 4 ? 0 : draw() % ODD) * kv_dtype_bytes(dtype);
}

static plan_arrays arrays_of(const sample *s, const room *r, int64_t n)
{
    plan_arrays a = {.stored = begin(r->stored, s->stored),
                     .stored_dtype = s->stored,
                     .weight = s->has_weight ? begin(r->weight, s->weight) : NULL,
                     .weight_dtype = s->weight,
                     .size = n,
                     .row = 1,
                     .input_dtype = s->input,
                     .seed = draw(),
                     .t = 5};
    for (int i = 0; i < STATES; i++)
        a.states[i] = begin(r->states[i], prog_dtype(s->type));
    return a;
}

/* The bytes behind the n elements of an array, which must not be written. */
static const char fence[ODD] = "behind the array";

static void put_fence(void *array, kv_dtype dtype, int64_t n)
{
    memcpy((char *)array + n * kv_dtype_bytes(dtype), fence, sizeof fence);
}

static bool has_fence(const void *array, kv_dtype dtype, int64_t n)
{
    return memcmp((const char *)array + n * kv_dtype_bytes(dtype), fence, sizeof fence) == 0;
}

/* Fills both sides of a key with the same elements. */
static void begin_key(key *k, const sample *s, int64_t n, int64_t nvalues)
{
    kv_dtype own = prog_dtype(s->type);
    k->n = n;
    k->a = arrays_of(s, &k->cpu, n);
    k->b = arrays_of(s, &k->gpu, n);
    k->b.seed = k->a.seed;
    fill(k->a.stored, s->stored, n);
    memcpy(k->b.stored, k->a.stored, (size_t)(n * kv_dtype_bytes(s->stored)));
    put_fence(k->b.stored, s->stored, n);
    if (s->has_weight)
        put_fence(k->b.weight, s->weight, n);
    for (int i = 0; i < STATES; i++) {
        fill(k->a.states[i], own, n);
        memcpy(k->b.states[i], k->a.states[i], (size_t)(n * kv_dtype_bytes(own)));
        put_fence(k->b.states[i], own, n);
    }
    for (int64_t i = 0; i < nvalues; i++) {
        char *to = begin(k->cpu.values[i], s->input);
        fill(to, s->input, n);
        k->values[i] = to;
    }
    sum_elements(k->cpu.sum, k->values, nvalues, s->input, n);
    k->input[0] = (void *)(uintptr_t)s;
    k->input[1] = k->cpu.sum;
    k->a.input = give_sum;
    k->a.arg = k->input;
}

static void run_on_cpu(const sample *s, const key *k)
{
    kv_err e = {0};
    void *scratch = mem_alloc_data(plan_scratch_bytes(s->p, k->n, 0) + 64, &e);
    must(e.code, &e);
    plan_run(s->p, &k->a, scratch);
    mem_free(scratch);
}

static bool is_same(const sample *s, const key *k)
{
    kv_dtype own = prog_dtype(s->type);
    bool ok = same(k->a.stored, k->b.stored, s->stored, k->n) &&
              has_fence(k->b.stored, s->stored, k->n);
    ok &= !s->has_weight || (same(k->a.weight, k->b.weight, s->weight, k->n) &&
                             has_fence(k->b.weight, s->weight, k->n));
    for (int i = 0; i < STATES; i++)
        ok &= same(k->a.states[i], k->b.states[i], own, k->n) &&
              has_fence(k->b.states[i], own, k->n);
    return ok;
}

/* Launches that a plan takes, however many keys it works on. */
static int most_launches(const plan *p)
{
    int n = 0;
    for (int i = 0; i < p->npasses; i++)
        n += p->pass[i].nsums > 0 ? 3 : 1;
    return n;
}

/* The keys in turn have one plan and another. bytes: of the room; without any, each key with sums
 * is worked on by itself. */
static bool try_plans(const sample *one, const sample *another, key *keys, int64_t bytes)
{
    const sample *turns[] = {one, another, one};
    static const int64_t lengths[] = {0,    1,    3,    31,   127,  1023, 1024,
                                      1025, 4095, 4096, 4097, 8192, 9000};
    kv_err e = {0};
    plan_gpu_item items[KEYS];
    int64_t nvalues = 1 + draw() % VALUES;
    bool ok = true;
    for (int i = 0; i < KEYS; i++) {
        const sample *s = turns[i];
        begin_key(&keys[i], s, lengths[draw() % (sizeof lengths / sizeof *lengths)], nvalues);
        run_on_cpu(s, &keys[i]);
        items[i] = (plan_gpu_item){
            .plan = s->p, .arrays = &keys[i].b, .values = keys[i].values, .nvalues = nvalues};
    }
    launches = 0;
    host.scratch = bytes;
    gpu_list list = {.gpu = &host};
    must(plan_gpu_run(&list, 0, items, KEYS, &e), &e);
    gpu_list_release(&list);
    for (int i = 0; i < KEYS; i++)
        ok &= is_same(turns[i], &keys[i]);
    return ok && (one != another || bytes == 0 || launches == most_launches(one->p));
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

/* The text of a kernel under its own name, and its number among all. */
static void write_kernel(const plan *p, int which, int number)
{
    own_buf text = {0};
    char name[40];
    snprintf(name, sizeof name, "kv_rule_%d", number);
    plan_text(&text, p, which, PLAN_INPUT_ALL, name);
    fwrite(buf_text(&text), 1, text.len, stdout);
}

static void find_kernel(const plan *p, int which, int number, void *library)
{
    own_buf text = {0};
    char name[40];
    gpu_rule *r = mem_zalloc(1, sizeof *r, NULL);
    void *address;
    snprintf(name, sizeof name, "shim_kv_rule_%d", number);
    plan_text(&text, p, which, PLAN_INPUT_ALL, "kv_rule");
    address = dlsym(library, name);
    memcpy(&r->run, &address, sizeof address);
    r->sum = xxh64(buf_text(&text), text.len);
    r->next = rules;
    rules = r;
}

/* Writes the kernels of all plans, or finds them in a library. Returns how many there are. */
static int each_kernel(int64_t n, const sample *samples, void *library)
{
    int number = 0;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < plan_text_kernels(samples[i].p); k++)
            if (library)
                find_kernel(samples[i].p, k, number++, library);
            else
                write_kernel(samples[i].p, k, number++);
    return number;
}

static int check(int64_t n, const sample *samples, const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    key keys[KEYS];
    int wrong = 0;
    if (!library) {
        fprintf(stderr, "gpu_rules: %s\n", dlerror());
        return 2;
    }
    for (int i = 0; i < KEYS; i++)
        keys[i] = (key){.cpu = new_room(), .gpu = new_room()};
    int number = each_kernel(n, samples, library);
    for (int64_t i = 0; i < n; i++) {
        const sample *one = &samples[i], *another = &samples[(i + 1) % n];
        bool ok = try_plans(one, one, keys, 64 << 20) && try_plans(one, one, keys, 0) &&
                  try_plans(one, another, keys, 64 << 20);
        if (ok || wrong++ > 0)
            continue;
        buf text = {0};
        list_plan(samples[i].p, &text);
        printf("# plan %lld differs:\n%s", (long long)i, buf_text(&text));
        buf_release(&text);
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
    sample *samples = mem_alloc(n, sizeof *samples, NULL);
    for (int64_t i = 0; i < n; i++)
        samples[i] = make_sample();
    if (strcmp(argv[1], "check") == 0 && argc > 4)
        return check(n, samples, argv[4]);
    printf(PRELUDE, PRELUDE_TEXTS);
    each_kernel(n, samples, NULL);
    return 0;
}
