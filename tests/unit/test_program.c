/* Tests of programs: what becomes of operations, and that running them gives what the operations
 * say, bit by bit, at every length around a block. */
#include "vm/prog.h"

#include <malloc.h>
#include <math.h>

#include "cpu/cpu.h"
#include "plan_listing.h"
#include "test.h"
#include "vm/curve.h"
#include "vm/kernel.h"
#include "vm/plan_work.h"
#include "vm/prog_text.h"

/* ---- Instructions as text -------------------------------------------------------------------- */

static const char *text_of(prog_builder *b)
{
    static buf out;
    prog *p = NULL;
    CHECK_OK(prog_finish(b, &p, &e));
    buf_clear(&out);
    list_prog(p, &out);
    prog_free(p);
    prog_builder_free(b);
    return buf_text(&out);
}

static prog_builder *begin(void)
{
    kv_err e = {0};
    prog_builder *b = prog_builder_new(&e);
    CHECK(b != NULL);
    return b;
}

static prog_value f32(prog_builder *b, int slot)
{
    return prog_load(b, slot, KV_FLOAT32, PROG_F32);
}

static prog_value num(prog_builder *b, double x)
{
    return prog_const(b, PROG_F32, x);
}

static prog_value op2(prog_builder *b, prog_op op, prog_value x, prog_value y)
{
    return prog_apply(b, op, x, y, -1);
}

static prog_value op1(prog_builder *b, prog_op op, prog_value x)
{
    return prog_apply(b, op, x, -1, -1);
}

/* The instructions of a program in postfix: a0 loads array 0 of float32, h0 one of float16, b0 one
 * of bfloat16; =a0 stores what was computed last there, and leaves it; drop takes it away. */
static const char *made_of(const char *text)
{
    static const struct {
        const char *name;
        prog_op op;
    } ops[] = {{"+", PROG_ADD}, {"-", PROG_SUB},      {"*", PROG_MUL},   {"/", PROG_DIV},
               {"**", PROG_POW}, {"sqrt", PROG_SQRT}, {"exp", PROG_EXP}, {"max", PROG_MAX},
               {"clip", PROG_CLIP}};
    prog_builder *b = begin();
    prog_value stack[16];
    char word[16];
    int n = 0;
    for (int used; sscanf(text, "%15s%n", word, &used) == 1; text += used) {
        const char *at = word + (*word == '=');
        kv_dtype dtype = *at == 'h' ? KV_FLOAT16 : *at == 'b' ? KV_BFLOAT16 : KV_FLOAT32;
        size_t op = 0;
        while (op < sizeof ops / sizeof *ops && strcmp(ops[op].name, word) != 0)
            op++;
        if (op < sizeof ops / sizeof *ops) {
            prog_value kid[3] = {-1, -1, -1};
            int kids = prog_op_arity(ops[op].op);
            memcpy(kid, stack + n - kids, (size_t)kids * sizeof *kid);
            n -= kids;
            stack[n++] = prog_apply(b, ops[op].op, kid[0], kid[1], kid[2]);
        } else if (strcmp(word, "drop") == 0)
            n--;
        else if (*word == '=')
            prog_store(b, atoi(at + 1), dtype, stack[n - 1]);
        else if (strchr("ahb", *word))
            stack[n++] = prog_load(b, atoi(at + 1), dtype, PROG_F32);
        else
            stack[n++] = num(b, strtod(word, NULL));
    }
    return text_of(b);
}

TEST(program_loops)
{
    CHECK_TEXT(made_of("a0 a1 2 * + =a0"), "a0 = a0 + (a1*2)\n");
    /* momentum */
    CHECK_TEXT(made_of("a0 0.5 a2 * 0.25 a0 * - 0.125 a1 * - =a2 + =a0"),
               "r0 = (a2*0.5) - (a0*0.25)\n"
               "a2 = r0 - (a1*0.125)\n"
               "a0 = a0 + a2\n");
    /* adam */
#define GRAD "2 a1 * 0.5 a0 * + "
    CHECK_TEXT(made_of("a0 0.75 a2 * 0.25 " GRAD "* + =a2 8 * 0.875 a3 * 0.125 " GRAD "* " GRAD
                       "* + =a3 sqrt 0.0625 + / - =a0"),
               "r0 = (a1*2) + (a0*0.5)\n"
               "a2 = (a2*0.75) + (r0*0.25)\n"
               "r0 = r0 * (r0*0.125)\n"
               "a3 = (a3*0.875) + r0\n"
               "r0 = sqrt(a3)\n"
               "r0 = r0 + 0.0625\n"
               "r0 = (a2*8) / r0\n"
               "a0 = a0 - r0\n");
#undef GRAD
}

/* Freed memory is overwritten here, and each node is followed by a block, so that nodes that grow
 * move: a simplification that looks at a node it has reached by its old address reads rubbish. */
TEST(program_nodes_move_while_one_is_simplified)
{
    mallopt(M_PERTURB, 0x5a);
    for (int others = 0; others < 300; others++) {
        prog_builder *b = begin();
        prog_value in = f32(b, 0), scaled = op2(b, PROG_MUL, in, num(b, 1.25)), sum = scaled;
        void *behind[300];
        for (int i = 0; i < others; i++) {
            sum = op1(b, PROG_SQRT, sum);
            behind[i] = mem_alloc(64, 1, NULL);
        }
        prog_store(b, 1, KV_FLOAT32, op1(b, PROG_NOT, scaled));
        CHECK_TEXT(text_of(b), "r0 = a0 * 1.25\na1 = r0 == 0\n");
        for (int i = 0; i < others; i++)
            mem_free(behind[i]);
    }
    mallopt(M_PERTURB, 0);
}

TEST(program_constants_fold)
{
    CHECK_TEXT(made_of("a1 1 2 3 * + * =a0"), "a0 = a1 * 7\n");
    CHECK_TEXT(made_of("a1 1 * 0 - =a0"), "a0 = a1\n");
    CHECK_TEXT(made_of("a1 0 + =a0"), "a0 = a1 + 0\n"); /* -0 + 0 is 0 */
    CHECK_TEXT(made_of("a1 8 / =a0"), "a0 = a1 * 0.125\n");
    CHECK_TEXT(made_of("a1 10 / =a0"), "a0 = a1 / 10\n");
    /* bounds that bound nothing */
    CHECK_TEXT(made_of("a1 -inf inf clip =a0"), "a0 = a1\n");
    CHECK_TEXT(made_of("a1 inf inf clip =a0"), "a0 = clip(a1, inf, inf)\n");
    CHECK_TEXT(made_of("0.1 =a0"), "a0 = 0.1\n");
}

TEST(program_dead_and_equal_operations_go)
{
    prog_builder *b = begin();
    prog_value left = f32(b, 0), right = f32(b, 1);
    CHECK_INT(op2(b, PROG_MUL, left, right), op2(b, PROG_MUL, right, left));
    prog_builder_free(b);
    CHECK_TEXT(made_of("a0 a1 * exp drop a0 a1 * a1 a0 * 1 + / =a2 a1 =a1"),
               "r0 = a0 * a1\n"
               "r1 = r0 + 1\n"
               "a2 = r0 / r1\n");
}

TEST(program_stores_wait_for_readers)
{
    /* two arrays change places */
    CHECK_TEXT(made_of("a0 a1 =a0 drop =a1"), "r0 = a0\na0 = a1\na1 = r0\n");
    /* the sum is stored in array 0, whose old contents the product still reads */
    CHECK_TEXT(made_of("a0 a0 a1 + =a0 * =a1"), "r0 = a0 + a1\na1 = a0 * r0\na0 = r0\n");
}

TEST(program_half_types_convert)
{
    CHECK_TEXT(made_of("h0 h1 + =h0"), "r0 = float32(a0)\n"
                                       "r1 = float32(a1)\n"
                                       "r1 = r0 + r1\n"
                                       "a0 = float16(r1)\n");
}

/* Each array is widened once. One that is overwritten before its last use is copied. */
TEST(program_bfloat16_is_widened)
{
    CHECK_TEXT(made_of("b0 b3 - b1 b3 - max b2 b3 - max =a4 b3 sqrt =a5"),
               "r0 = float32(a0)\n"
               "r1 = float32(a3)\n"
               "r0 = r0 - r1\n"
               "r2 = float32(a1)\n"
               "r2 = r2 - r1\n"
               "r2 = max(r0, r2)\n"
               "r0 = float32(a2)\n"
               "r0 = r0 - r1\n"
               "a4 = max(r2, r0)\n"
               "a5 = sqrt(r1)\n");
    CHECK_TEXT(made_of("b0 b0 b1 + =b0 drop =b1"),
               "r0 = float32(a0)\n"
               "r1 = float32(a1)\n"
               "r1 = r0 + r1\n"
               "a0 = bfloat16(r1)\n"
               "a1 = bfloat16(r0)\n");
}

TEST(program_constants_in_registers)
{
    CHECK_TEXT(made_of("2 a1 ** =a0"), "a0 = 2 ** a1\n");
}

TEST(program_integers)
{
    prog_builder *b = begin();
    prog_value x = prog_load(b, 0, KV_INT8, PROG_I64);
    x = prog_narrow(b, KV_INT8, op2(b, PROG_MUL, x, prog_const_int(b, PROG_I64, 3)));
    x = prog_narrow(b, KV_INT8, op2(b, PROG_ADD, x, prog_const_int(b, PROG_I64, 100)));
    prog_store(b, 0, KV_INT8, x);
    CHECK_TEXT(text_of(b), "r0 = int64(a0)\n"
                           "r0 = r0 * 3\n"
                           "r0 = r0 + 100\n"
                           "a0 = int8(r0)\n");
}

/* -2**31 is infinite as a float16 and the least integer behind that, whose double wraps to 0. */
TEST(program_integers_through_floats)
{
    prog_builder *b = begin();
    int32_t x = INT32_MIN;
    int64_t out = 1;
    void *arrays[] = {&x, &out};
    prog_value v = prog_narrow(b, KV_FLOAT16, prog_load(b, 0, KV_INT32, PROG_I64));
    prog_store(b, 1, KV_INT64, prog_narrow(b, KV_FLOAT16, op2(b, PROG_ADD, v, v)));
    prog *p = NULL;
    CHECK_OK(prog_finish(b, &p, &e));
    void *scratch = mem_alloc_data(prog_scratch_bytes(p), &e);
    prog_run(p, arrays, 1, scratch);
    CHECK_INT(out, 0);
    mem_free(scratch);
    prog_free(p);
    prog_builder_free(b);
}

static void read_slot(void *arg, buf *out, int slot, kv_dtype dtype)
{
    (void)arg, (void)dtype;
    buf_printf(out, "x%d", slot);
}

static void write_slot(void *arg, buf *out, int slot, kv_dtype dtype, int v)
{
    (void)arg, (void)slot, (void)dtype;
    buf_printf(out, "y = v%d;", v);
}

/* An operation without a text runs on the CPU and ends the process where a GPU is to have it. */
TEST(program_every_operation_has_its_texts)
{
    const prog_text_slots slots = {NULL, read_slot, write_slot};
    for (int op = 0; op < PROG_NOPS; op++) {
        prog *p = NULL;
        buf out = {0};
        prog_builder *b = begin();
        prog_value kid[3] = {-1, -1, -1};
        for (int i = 0; i < prog_op_arity((prog_op)op); i++)
            kid[i] = f32(b, i);
        prog_store(b, 3, KV_FLOAT32, prog_apply(b, (prog_op)op, kid[0], kid[1], kid[2]));
        CHECK_OK(prog_finish(b, &p, &e));
        prog_text(&out, p, &slots);
        CHECK(strstr(buf_text(&out), "y = v") != NULL);
        buf_clear(&out);
        list_prog(p, &out);
        CHECK(out.len > 0);
        buf_release(&out);
        prog_free(p);
        prog_builder_free(b);
    }
}

TEST(program_no_memory)
{
    for (int64_t n = 1; n < 4; n++) {
        e = (kv_err){0};
        prog *p = NULL;
        mem_fail_at(n);
        prog_builder *b = prog_builder_new(&e);
        int rc = b ? KV_OK : e.code;
        if (b) {
            prog_value x = f32(b, 0);
            for (int i = 0; i < 200; i++)
                x = op2(b, PROG_MUL, op2(b, PROG_ADD, x, num(b, i)), f32(b, 1));
            prog_store(b, 0, KV_FLOAT32, x);
            rc = prog_finish(b, &p, &e);
        }
        mem_fail_at(0);
        CHECK_INT(rc, KV_E_MEMORY);
        CHECK(!b || n > 2 || strcmp(e.text, "out of memory for a program") == 0);
        CHECK(p == NULL);
        prog_builder_free(b);
    }
}

/* ---- Results: random programs against one element at a time ---------------------------------- */

static uint64_t seed = 1;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* A number of a program's type. */
typedef union value {
    double f;
    int64_t i;
} value;

static double special(void)
{
    static const double numbers[] = {0.0,   -0.0,     1,         -1,  2,    0.5, 3,
                                     1e-40, INFINITY, -INFINITY, NAN, 1e30, -7,  0.1};
    return numbers[draw(sizeof numbers / sizeof *numbers)];
}

static double random_number(void)
{
    return draw(4) == 0 ? special() : ((double)draw(2000001) - 1000000) / 65536;
}

static double rounded(prog_type t, double x)
{
    return t == PROG_F32 ? (float)x : x;
}

static uint64_t wrapped_power(uint64_t a, int64_t b)
{
    if (b <= 0) /* the whole part of 1 / a ** -b */
        return b == 0 || a == 1 ? 1 : a == UINT64_MAX ? b % 2 ? a : 1 : 0;
    uint64_t half = wrapped_power(a, b / 2);
    return half * half * (b % 2 ? a : 1);
}

/* clang-format off */
/* The result of the operation for one element. Operands and result are exact in t. */
static value reference_float(prog_op op, prog_type t, double a, double b, double c)
{
    bool single = t == PROG_F32;
    double r = 0;
    switch (op) {
    case PROG_ADD: r = a + b; break;
    case PROG_SUB: r = a - b; break;
    case PROG_MUL: r = a * b; break;
    case PROG_DIV: r = a / b; break;
    case PROG_FLOORDIV:
    case PROG_MOD: r = 0; break; /* not drawn here: they have a test of their own */
    case PROG_POW: r = pow(a, b); break;
    case PROG_NEG: r = -a; break;
    case PROG_ABS: r = fabs(a); break;
    case PROG_SQRT: r = sqrt(a); break;
    case PROG_EXP: r = exp(a); break;
    case PROG_LOG: r = log(a); break;
    case PROG_TANH: r = single ? curve_tanhf((float)a) : curve_tanh(a); break;
    case PROG_SIN: r = single ? curve_any_sinf((float)a) : curve_any_sin(a); break;
    case PROG_COS: r = single ? curve_any_cosf((float)a) : curve_any_cos(a); break;
    case PROG_ASIN: r = single ? curve_asinf((float)a) : curve_asin(a); break;
    case PROG_ACOS: r = single ? curve_acosf((float)a) : curve_acos(a); break;
    case PROG_SIGN: r = (a > 0) - (a < 0); break;
    case PROG_FLOOR: r = floor(a); break;
    case PROG_CEIL: r = ceil(a); break;
    case PROG_ROUND: r = nearbyint(a); break;
    case PROG_MIN: r = a < b || isnan(a) ? a : b; break;
    case PROG_MAX: r = a > b || isnan(a) ? a : b; break;
    case PROG_EQ: r = a == b; break;
    case PROG_NE: r = a != b; break;
    case PROG_LT: r = a < b; break;
    case PROG_LE: r = a <= b; break;
    case PROG_GT: r = a > b; break;
    case PROG_GE: r = a >= b; break;
    case PROG_AND: r = a != 0 && b != 0; break;
    case PROG_OR: r = a != 0 || b != 0; break;
    case PROG_NOT: r = a == 0; break;
    case PROG_ISFINITE: r = isfinite(a) != 0; break;
    case PROG_ISNAN: r = isnan(a) != 0; break;
    case PROG_WHERE: r = a != 0 ? b : c; break;
    case PROG_CLIP: r = a > c ? c : a < b ? b : a; break;
    case PROG_NOPS: break;
    }
    /* a float32 operation: binary64 has more than twice its digits, so that rounding + - * / sqrt
     * twice is rounding once */
    return (value){.f = single ? (float)r : r};
}

static value reference_integer(prog_op op, int64_t a, int64_t b, int64_t c)
{
    __int128 wide = 0;
    switch (op) {
    case PROG_ADD: wide = (__int128)a + b; break;
    case PROG_SUB: wide = (__int128)a - b; break;
    case PROG_MUL: wide = (__int128)a * b; break;
    case PROG_FLOORDIV:
        wide = b == 0 ? 0 : ((__int128)a - (((__int128)a % b + b) % b)) / b;
        break;
    case PROG_MOD: wide = b == 0 ? 0 : ((__int128)a % b + b) % b; break;
    case PROG_POW: wide = wrapped_power((uint64_t)a, b); break;
    case PROG_NEG: wide = -(__int128)a; break;
    case PROG_ABS: wide = a < 0 ? -(__int128)a : a; break;
    case PROG_SIGN: wide = (a > 0) - (a < 0); break;
    case PROG_FLOOR:
    case PROG_CEIL:
    case PROG_ROUND: wide = a; break;
    case PROG_MIN: wide = a < b ? a : b; break;
    case PROG_MAX: wide = a > b ? a : b; break;
    case PROG_EQ: wide = a == b; break;
    case PROG_NE: wide = a != b; break;
    case PROG_LT: wide = a < b; break;
    case PROG_LE: wide = a <= b; break;
    case PROG_GT: wide = a > b; break;
    case PROG_GE: wide = a >= b; break;
    case PROG_AND: wide = a && b; break;
    case PROG_OR: wide = a || b; break;
    case PROG_NOT: wide = !a; break;
    case PROG_ISFINITE: wide = 1; break;
    case PROG_ISNAN: wide = 0; break;
    case PROG_WHERE: wide = a ? b : c; break;
    case PROG_CLIP: wide = a > c ? c : a < b ? b : a; break;
    case PROG_DIV: case PROG_SQRT: case PROG_EXP: case PROG_LOG: case PROG_TANH: case PROG_SIN:
    case PROG_COS: case PROG_ASIN: case PROG_ACOS: case PROG_NOPS: break;
    }
    return (value){.i = (int64_t)(uint64_t)wide};
}
/* clang-format on */

static bool drawable(prog_op op, prog_type t)
{
    if (t == PROG_I64)
        return op != PROG_DIV && !(op >= PROG_SQRT && op <= PROG_ACOS);
    return op != PROG_FLOORDIV && op != PROG_MOD;
}

enum { MAX_LEN = 3 * 512 + 7, NSLOTS = 5, NVALUES = 40 };

/* Values of a program under construction with what they should be for every element. */
typedef struct model {
    prog_builder *b;
    int64_t n;
    prog_value id[NVALUES];
    prog_type type[NVALUES];
    value *elements[NVALUES];
    int nvalues;
} model;

static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_BFLOAT16, KV_INT8,
                                  KV_UINT8,   KV_INT32,   KV_INT64,   KV_BOOL};

static kv_dtype held(prog_type t)
{
    return t == PROG_F32 ? KV_FLOAT32 : t == PROG_F64 ? KV_FLOAT64 : KV_INT64;
}

/* One number as memory of a dtype, and back. */
static void to_memory(void *out, kv_dtype dtype, prog_type t, value v)
{
    float f = (float)v.f;
    const void *in = t == PROG_F32 ? (const void *)&f : &v;
    convert_elements(out, dtype, in, held(t), 1);
}

static value from_memory(const void *in, kv_dtype dtype, prog_type t)
{
    value v = {0};
    float f;
    convert_elements(t == PROG_F32 ? (void *)&f : &v, held(t), in, dtype, 1);
    if (t == PROG_F32)
        v.f = f;
    return v;
}

static value *add_value(model *m, prog_value id, prog_type t)
{
    kv_err e = {0};
    int i = m->nvalues++;
    m->id[i] = id;
    m->type[i] = t;
    m->elements[i] = mem_zalloc(m->n, sizeof(value), &e);
    CHECK(m->elements[i] != NULL);
    return m->elements[i];
}

static void add_load(model *m, int slot, kv_dtype dtype, prog_type t, const char *memory)
{
    value *v = add_value(m, prog_load(m->b, slot, dtype, t), t);
    for (int64_t i = 0; i < m->n; i++)
        v[i] = from_memory(memory + i * kv_dtype_bytes(dtype), dtype, t);
}

static void add_const(model *m, prog_type t)
{
    if (t == PROG_I64) {
        int64_t k = (int64_t)draw(9) - 4;
        value *v = add_value(m, prog_const_int(m->b, t, k), t);
        for (int64_t i = 0; i < m->n; i++)
            v[i].i = k;
        return;
    }
    double k = random_number();
    value *v = add_value(m, prog_const(m->b, t, k), t);
    for (int64_t i = 0; i < m->n; i++)
        v[i].f = rounded(t, k);
}

/* A value of type t among those there are, or -1. */
static int pick(const model *m, prog_type t)
{
    for (int tries = 0; tries < 20; tries++) {
        int i = (int)draw((uint32_t)m->nvalues);
        if (m->type[i] == t)
            return i;
    }
    return -1;
}

static void add_operation(model *m, prog_type t)
{
    prog_op op = draw(2) ? (prog_op)draw(4) : (prog_op)draw(PROG_NOPS);
    int x = pick(m, t), y = pick(m, t), z = pick(m, t);
    if (!drawable(op, t) || x < 0 || y < 0 || z < 0)
        return;
    prog_value id = prog_apply(m->b, op, m->id[x], m->id[y], m->id[z]);
    CHECK(id >= 0);
    const value *a = m->elements[x], *b = m->elements[y], *c = m->elements[z];
    value *v = add_value(m, id, t);
    for (int64_t i = 0; i < m->n; i++)
        v[i] = t == PROG_I64 ? reference_integer(op, a[i].i, b[i].i, c[i].i)
                             : reference_float(op, t, a[i].f, b[i].f, c[i].f);
}

static void add_cast(model *m, prog_type t)
{
    int x = pick(m, (prog_type)draw(3));
    if (x < 0)
        return;
    value *v = add_value(m, prog_cast(m->b, t, m->id[x]), t);
    for (int64_t i = 0; i < m->n; i++) {
        char memory[8];
        to_memory(memory, held(m->type[x]), m->type[x], m->elements[x][i]);
        v[i] = from_memory(memory, held(m->type[x]), t);
    }
}

static void add_narrow(model *m, prog_type t)
{
    kv_dtype dtype = dtypes[draw(9)];
    int x = pick(m, t);
    if (x < 0)
        return;
    value *v = add_value(m, prog_narrow(m->b, dtype, m->id[x]), t);
    for (int64_t i = 0; i < m->n; i++) {
        char memory[8];
        to_memory(memory, dtype, t, m->elements[x][i]);
        v[i] = from_memory(memory, dtype, t);
    }
}

static bool is_nan_in(kv_dtype dtype, const void *memory)
{
    return kv_dtype_is_float(dtype) && isnan(from_memory(memory, dtype, PROG_F64).f);
}

static void check_array(const char *got, const char *want, kv_dtype dtype, int64_t n)
{
    int64_t bytes = kv_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) {
        bool same = memcmp(got + i * bytes, want + i * bytes, (size_t)bytes) == 0;
        CHECK(same || (is_nan_in(dtype, got + i * bytes) && is_nan_in(dtype, want + i * bytes)));
    }
}

static void fill_array(char *memory, kv_dtype dtype, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double x = random_number();
        convert_elements(memory + i * kv_dtype_bytes(dtype), dtype, &x, KV_FLOAT64, 1);
    }
}

/* One random program over n elements: slots 0 and 1 are read, 2 and 3 written, 4 and 1 both. */
static void one_program(int64_t n)
{
    static char memory[NSLOTS][MAX_LEN * 8], want[NSLOTS][MAX_LEN * 8];
    kv_err e = {0};
    model m = {.b = begin(), .n = n};
    kv_dtype dtype[NSLOTS];
    for (int s = 0; s < NSLOTS; s++) {
        dtype[s] = draw(2) ? KV_FLOAT32 : dtypes[draw(9)];
        fill_array(memory[s], dtype[s], n);
        memcpy(want[s], memory[s], (size_t)(n * kv_dtype_bytes(dtype[s])));
    }
    prog_type main_type = (prog_type)(draw(4) ? draw(2) : 2);
    add_load(&m, 0, dtype[0], main_type, memory[0]);
    add_load(&m, 1, dtype[1], main_type, memory[1]);
    add_load(&m, 4, dtype[4], main_type, memory[4]);
    while (m.nvalues < NVALUES - 1 - (int)draw(NVALUES - 8)) {
        switch (draw(8)) {
        case 0:
            add_const(&m, main_type);
            break;
        case 1:
            if (draw(3) == 0)
                add_cast(&m, (prog_type)draw(3));
            break;
        case 2:
            if (draw(2) == 0)
                add_narrow(&m, main_type);
            break;
        default:
            add_operation(&m, main_type);
        }
    }
    for (int s = 1; s < NSLOTS; s++) {
        int x = m.nvalues - 1 - (int)draw(draw(2) ? 3 : (uint32_t)m.nvalues);
        if (x < 0)
            continue;
        prog_store(m.b, s, dtype[s], m.id[x]);
        for (int64_t i = 0; i < n; i++)
            to_memory(want[s] + i * kv_dtype_bytes(dtype[s]), dtype[s], m.type[x],
                      m.elements[x][i]);
    }
    prog *p = NULL;
    CHECK_OK(prog_finish(m.b, &p, &e));
    void *scratch = mem_alloc_data(prog_scratch_bytes(p), &e);
    void *arrays[NSLOTS];
    for (int s = 0; s < NSLOTS; s++)
        arrays[s] = memory[s];
    prog_run_with(p, NULL, arrays, n, scratch, draw(2) == 1);
    for (int s = 0; s < NSLOTS; s++)
        check_array(memory[s], want[s], dtype[s], n);
    mem_free(scratch);
    prog_free(p);
    prog_builder_free(m.b);
    for (int i = 0; i < m.nvalues; i++)
        mem_free(m.elements[i]);
}

TEST(program_random_short)
{
    seed = test_seed(seed);
    for (int64_t i = test_random(2000); i > 0; i--)
        one_program((int64_t)draw(20));
}

TEST(program_random_around_blocks)
{
    for (int i = 0; i < 40; i++) {
        int64_t block = i % 2 ? 256 : 512;
        const int64_t lengths[] = {0, 1, block - 1, block, block + 1, 3 * block + 7};
        for (int j = 0; j < 6; j++)
            one_program(lengths[j]);
    }
}

/* ---- Kernels: the same bits from every table ------------------------------------------------- */

enum { KERNEL_LEN = 70 };

static void check_kernel(kernel_loop *run, kernel_loop *plain, prog_type type, const void *in,
                         int64_t n)
{
    static char got[KERNEL_LEN * 8], want[KERNEL_LEN * 8];
    int64_t bytes = type == PROG_F32 ? 4 : 8;
    const char *a = in, *b = a + n * bytes, *c = b + n * bytes;
    run(got, a, b, c, n);
    plain(want, a, b, c, n);
    check_array(got, want, held(type), n);
}

TEST(program_kernels_agree)
{
    static char in[3 * KERNEL_LEN * 8];
    const kernel_table *plain = kernel_tables(0);
    CHECK(plain != NULL);
    for (int i = 1; kernel_tables(i); i++) {
        for (prog_type t = PROG_F32; t <= PROG_I64; t++) {
            for (int op = 0; op < PROG_NOPS; op++) {
                kernel_loop *run = kernel_tables(i)->run[t][op];
                CHECK_INT(run == NULL, plain->run[t][op] == NULL);
                for (int round = 0; run && round < 20; round++) {
                    fill_array(in, held(t), 3 * KERNEL_LEN);
                    check_kernel(run, plain->run[t][op], t, in, 1 + (int64_t)draw(KERNEL_LEN));
                }
            }
        }
    }
}

/* Factors are multiplied first, each product rounded by itself. */
TEST(program_scaled_kernels)
{
    static char in[3][KERNEL_LEN * 8], got[KERNEL_LEN * 8], want[KERNEL_LEN * 8];
    int n = 0;
    for (int i = 0; kernel_tables(i); i++) {
        for (int at = 0; at < 2 * PROG_NOPS; at++) {
            prog_type t = at % 2 ? PROG_F64 : PROG_F32;
            kernel_loop *run = kernel_tables(i)->scaled[t][at / 2];
            kernel_loop *multiply = kernel_tables(0)->run[t][PROG_MUL];
            for (int round = 0; run && round < 50; round++) {
                int64_t length = 1 + (int64_t)draw(KERNEL_LEN), bytes = t == PROG_F32 ? 4 : 8;
                uint64_t k[2] = {0};
                char factor[KERNEL_LEN * 8];
                for (int j = 0; j < 2; j++) {
                    fill_array(in[j], held(t), KERNEL_LEN);
                    fill_array((char *)&k[j], held(t), 1);
                }
                run(got, in[0], in[1], k, length);
                for (int j = 0; j < 2; j++) {
                    for (int64_t l = 0; l < length; l++)
                        memcpy(factor + l * bytes, &k[j], (size_t)bytes);
                    multiply(in[j], in[j], factor, NULL, length);
                }
                kernel_tables(0)->run[t][at / 2](want, in[0], in[1], NULL, length);
                check_array(got, want, held(t), length);
            }
            n += run != NULL;
        }
    }
    CHECK(n >= 8);
}

/* Sums of terms and of squares, several at a time, whole lines of a cache or not. */
TEST(program_kernel_sums)
{
    enum { STRIDE = 71 };
    static float x[KERNEL_SUMS][KERNEL_LANES * STRIDE];
    for (int i = 0, round = 0; kernel_tables(i); i += ++round % 20 == 0) {
        float got[KERNEL_SUMS][KERNEL_LANES], want[KERNEL_SUMS][KERNEL_LANES];
        kernel_terms terms[KERNEL_SUMS];
        int count = 1 + (int)draw(KERNEL_SUMS), n = KERNEL_LANES * (int)(1 + draw(8));
        for (int s = 0; s < count; s++) {
            terms[s] = (kernel_terms){got[s], x[s], STRIDE, draw(2) * 16, draw(2)};
            for (int l = 0; l < KERNEL_LANES * STRIDE; l++)
                x[s][l] = (float)((int)draw(20001) - 10000) / (float)(1 + draw(3000));
            for (int l = 0; l < KERNEL_LANES; l++) {
                got[s][l] = want[s][l] = (float)draw(100);
                for (int j = 0; j < n; j++) {
                    float y = x[s][l * STRIDE + j];
                    want[s][l] += terms[s].squares ? y * y : y;
                }
            }
        }
        kernel_tables(i)->sum(terms, count, n);
        CHECK(memcmp(got, want, (size_t)count * sizeof *got) == 0);
    }
}

/* Sums of any number of terms and lanes are those of each lane by itself. */
TEST(program_sums)
{
    enum { STRIDE = 40, ALL = KERNEL_SUMS * KERNEL_LANES };
    static float x[ALL * STRIDE];
    static double wide[ALL * STRIDE];
    for (int round = 0; round < 2000; round++) {
        float got[ALL], want[ALL];
        double also[ALL], same[ALL];
        kernel_terms terms[KERNEL_SUMS], others[KERNEL_SUMS];
        int count = 1 + (int)draw(KERNEL_SUMS), lanes = 1 + (int)draw(KERNEL_LANES);
        int n = (int)draw(STRIDE + 1);
        for (int i = 0; i < ALL * STRIDE; i++)
            wide[i] = x[i] = (float)((int)draw(20001) - 10000) / (float)(1 + draw(3000));
        for (int s = 0; s < count; s++) {
            int first = s * KERNEL_LANES;
            bool squares = s > 0 ? terms[0].squares : draw(2);
            terms[s] = (kernel_terms){got + first, x + first * STRIDE, STRIDE, 0, squares};
            others[s] = (kernel_terms){also + first, wide + first * STRIDE, STRIDE, 0, squares};
        }
        for (int l = 0; l < ALL; l++) {
            also[l] = same[l] = got[l] = want[l] = (float)draw(100);
            bool adds = l / KERNEL_LANES < count && l % KERNEL_LANES < lanes;
            bool squares = adds && terms[l / KERNEL_LANES].squares;
            for (int j = l * STRIDE; j < l * STRIDE + n && adds; j++) {
                want[l] += squares ? x[j] * x[j] : x[j];
                same[l] += squares ? wide[j] * wide[j] : wide[j];
            }
        }
        plan_work_sum(PROG_F32, terms, count, lanes, n);
        plan_work_sum(PROG_F64, others, count, lanes, n);
        CHECK(memcmp(got, want, sizeof got) == 0 && memcmp(also, same, sizeof also) == 0);
    }
}

/* The number of its row for each element, from within a row on, and nothing behind. */
TEST(program_kernel_spread)
{
    static float x[KERNEL_LEN], got[KERNEL_LEN + 1];
    static double wide[KERNEL_LEN], also[KERNEL_LEN + 1];
    for (int i = 0; i < KERNEL_LEN; i++)
        x[i] = (float)(wide[i] = i);
    for (int i = 0, round = 0; kernel_tables(i); i += ++round % 20 == 0) {
        int row = 1 + (int)draw(70), skip = (int)draw((uint64_t)row), n = (int)draw(KERNEL_LEN + 1);
        also[n] = got[n] = -1;
        kernel_tables(i)->spread(got, x, 4, skip, n, row);
        kernel_tables(i)->spread(also, wide, 8, skip, n, row);
        for (int j = 0; j < n; j++)
            CHECK(got[j] == x[(skip + j) / row] && also[j] == wide[(skip + j) / row]);
        CHECK(got[n] == -1 && also[n] == -1);
    }
}

/* Arrays of float64 are operands as they are, those of float32 become it. */
TEST(program_float64_among_float32)
{
    prog_builder *b = begin();
    prog_value m = prog_cast(b, PROG_F64, f32(b, 0));
    prog_value v = op2(b, PROG_MUL, m, prog_load(b, 1, KV_FLOAT64, PROG_F64));
    prog_store(b, 2, KV_FLOAT32, prog_cast(b, PROG_F32, v));
    CHECK_TEXT(text_of(b), "r0 = float64(a0)\nr0 = r0 * a1\na2 = float32(r0)\n");
}

/* ---- Division as Python has it --------------------------------------------------------------- */

static float floats(prog_op op, float x, float y)
{
    float out;
    kernel_best()->run[PROG_F32][op](&out, &x, &y, NULL, 1);
    return out;
}

TEST(program_floor_division)
{
    CHECK(floats(PROG_FLOORDIV, 7, 2) == 3 && floats(PROG_MOD, 7, 2) == 1);
    CHECK(floats(PROG_FLOORDIV, -7, 2) == -4 && floats(PROG_MOD, -7, 2) == 1);
    CHECK(floats(PROG_FLOORDIV, 7, -2) == -4 && floats(PROG_MOD, 7, -2) == -1);
    CHECK(floats(PROG_FLOORDIV, 6, 0.1f) == 59);
    CHECK(isinf(floats(PROG_FLOORDIV, 1, 0)) && isnan(floats(PROG_MOD, 1, 0)));
    CHECK(signbit(floats(PROG_MOD, -4, -2)) && !signbit(floats(PROG_MOD, -4, 2)));
    CHECK(isnan(floats(PROG_FLOORDIV, INFINITY, 2)) && floats(PROG_MOD, 5, INFINITY) == 5);
    CHECK(floats(PROG_FLOORDIV, -5, INFINITY) == -1);
}
