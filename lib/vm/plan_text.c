/* Writes the programs of plans as text: each instruction becomes one variable, which later
 * instructions read, so registers and stores keep their order without a thought. */
#include "vm/plan_text.h"

#include <string.h>

#include "base/mem.h"
#include "vm/plan_pass.h"

/* Instructions as C++; a b c are operands, k0 to k3 constants. In the order of prog_op and of
 * KERNEL_MAP. */
static const char *const expressions[KERNEL_END] = {
    [PROG_ADD] = "kv_add(a, b)",
    [PROG_SUB] = "kv_sub(a, b)",
    [PROG_MUL] = "kv_mul(a, b)",
    [PROG_DIV] = "a / b",
    [PROG_FLOORDIV] = "kv_floordiv(a, b)",
    [PROG_MOD] = "kv_mod(a, b)",
    [PROG_POW] = "kv_pow(a, b)",
    [PROG_NEG] = "kv_neg(a)",
    [PROG_ABS] = "kv_abs(a)",
    [PROG_SQRT] = "kv_sqrt(a)",
    [PROG_EXP] = "kv_exp(a)",
    [PROG_LOG] = "kv_log(a)",
    [PROG_SIGN] = "kv_sign(a)",
    [PROG_FLOOR] = "kv_floor(a)",
    [PROG_CEIL] = "kv_ceil(a)",
    [PROG_ROUND] = "kv_round(a)",
    [PROG_MIN] = "kv_min(a, b)",
    [PROG_MAX] = "kv_max(a, b)",
    [PROG_EQ] = "a == b",
    [PROG_NE] = "a != b",
    [PROG_LT] = "a < b",
    [PROG_LE] = "a <= b",
    [PROG_GT] = "a > b",
    [PROG_GE] = "a >= b",
    [PROG_AND] = "(a != 0) & (b != 0)",
    [PROG_OR] = "(a != 0) | (b != 0)",
    [PROG_NOT] = "a == 0",
    [PROG_ISFINITE] = "a - a == 0",
    [PROG_ISNAN] = "a != a",
    [PROG_WHERE] = "a != 0 ? b : c",
    [PROG_CLIP] = "kv_clip(a, b, c)",
    [KERNEL_LIN1] = "a*k0 + k1",
    [KERNEL_LIN2] = "a*k0 + b*k1",
    [KERNEL_LIN3] = "(a*k0 + b*k1) + c*k2",
    [KERNEL_MULADD] = "a*k0 + (b*k1)*c",
    [KERNEL_DIVADD] = "a*k0 + (b*k1)/c",
    [KERNEL_SCALEMUL] = "(a*k0)*b",
    [KERNEL_SCALEDIV] = "(a*k0)/b",
    [KERNEL_DIVK] = "a/k0",
    [KERNEL_KDIV] = "k0/a",
    [KERNEL_ROOT] = "kv_sqrt(a + k0) + k1",
    [KERNEL_ROOTDIV] = "(a*k0)/(kv_sqrt(b + k1) + k2)",
    [KERNEL_ROOTDIVADD] = "a*k0 + (b*k1)/(kv_sqrt(c + k2) + k3)",
    [KERNEL_ADDK] = "kv_add(a, k0)",
    [KERNEL_KSUB] = "kv_sub(k0, a)",
    [KERNEL_MULK] = "kv_mul(a, k0)",
    [KERNEL_CLIPK] = "kv_clip(a*k2, k0, k1)",
    [KERNEL_CLIPKI] = "kv_clip(a, k0, k1)",
    [KERNEL_MINK] = "kv_min(a, k0)",
    [KERNEL_MAXK] = "kv_max(a, k0)",
    [KERNEL_EQK] = "a == k0",
    [KERNEL_NEK] = "a != k0",
    [KERNEL_LTK] = "a < k0",
    [KERNEL_LEK] = "a <= k0",
    [KERNEL_GTK] = "a > k0",
    [KERNEL_GEK] = "a >= k0",
    [KERNEL_WHERE_VK] = "a != 0 ? b : k0",
    [KERNEL_WHERE_KV] = "a != 0 ? k0 : b",
    [KERNEL_WHERE_KK] = "a != 0 ? k0 : k1",
    [KERNEL_COPY] = "a",
    [KERNEL_FILL] = "k0",
};

/* The types of element.cuh. */
static const struct {
    const char *tag, *item;
} dtypes[KV_DTYPE_END] = {
    [KV_FLOAT32] = {"kv_t_f32", "float"},     [KV_FLOAT64] = {"kv_t_f64", "double"},
    [KV_FLOAT16] = {"kv_t_f16", "kv_u16"},    [KV_UINT8] = {"kv_t_u8", "kv_u8"},
    [KV_INT32] = {"kv_t_i32", "int"},         [KV_INT8] = {"kv_t_i8", "kv_i8"},
    [KV_INT64] = {"kv_t_i64", "kv_i64"},      [KV_BOOL] = {"kv_t_b8", "kv_u8"},
    [KV_BFLOAT16] = {"kv_t_bf16", "kv_u16"},
};

enum { NONE = -1 };

typedef struct writer {
    const plan *p;
    const plan_pass *pass;
    const prog *prog;
    buf *out;
    int32_t nvalues;
    int32_t *value; /* of each place: the variable that holds it, or NONE */
} writer;

/* ---- Words ---- */

static int64_t constant_words(const prog *p)
{
    return (int64_t)p->ninsts * KERNEL_CONSTANTS;
}

static int64_t number_word(const plan_pass *pass, int i)
{
    return constant_words(pass->elements) + i;
}

static int64_t draw_word(const plan *p, const plan_pass *pass)
{
    return constant_words(pass->elements) + p->nnumbers;
}

int64_t plan_text_words(const plan *p, int pass)
{
    return draw_word(p, &p->pass[pass]) + 2;
}

/* The constants of an instruction, float32 ones as doubles. */
static void fill_constants(double *words, const prog *p, const inst *in)
{
    const void *k = p->pool + in->k;
    bool uses = in->kind == INST_KERNEL;
    for (int i = 0; i < KERNEL_CONSTANTS; i++) {
        words[i] = 0;
        if (uses && in->type == PROG_F32)
            words[i] = (double)((const float *)k)[i];
        else if (uses)
            memcpy(&words[i], (const char *)k + (size_t)i * sizeof *words, sizeof *words);
    }
}

void plan_text_fill(double *words, const plan *p, int pass, const uint64_t *numbers, uint64_t seed,
                    int64_t t)
{
    const plan_pass *of = &p->pass[pass];
    uint64_t draws[2] = {seed, (uint64_t)t * PLAN_MAX_DRAWS};
    for (int32_t i = 0; i < of->elements->ninsts; i++)
        fill_constants(words + (int64_t)i * KERNEL_CONSTANTS, of->elements,
                       &of->elements->insts[i]);
    for (int i = 0; i < p->nnumbers; i++) {
        float single;
        double *to = &words[number_word(of, i)];
        *to = 0;
        if (numbers)
            memcpy(to, &numbers[i], sizeof *to);
        if (numbers && p->number_type[i] == PROG_F32) {
            memcpy(&single, &numbers[i], sizeof single);
            *to = (double)single;
        }
    }
    memcpy(&words[draw_word(p, of)], draws, sizeof draws);
}

static int slot_of(int slot)
{
    return slot < PLAN_ROW_STATE ? slot % PLAN_PRESENT : slot;
}

static bool is_draw(int slot)
{
    return slot_of(slot) >= PLAN_NORMAL && slot_of(slot) < PLAN_NORMAL + PLAN_MAX_DRAWS;
}

static bool is_number(int slot)
{
    return slot >= PLAN_PRIVATE && slot < PLAN_PRIVATE + PLAN_MAX_NUMBERS;
}

bool plan_text_is_shared(const plan *p, int pass)
{
    const plan_pass *of = &p->pass[pass];
    bool shared = true;
    for (int s = 0; s < of->nslots; s++)
        shared &= !is_draw(of->slot[s]) && !is_number(of->slot[s]);
    return shared;
}

bool plan_text_possible(const plan *p)
{
    return !p->by_rows;
}

/* ---- Text ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static kv_dtype own_dtype(const inst *in)
{
    return in->type == KERNEL_WIDE ? KV_FLOAT32 : prog_dtype((prog_type)in->type);
}

/* Begins a declaration of the next variable: `const float v3 = `. */
static int32_t declare(writer *w, kv_dtype dtype)
{
    buf_printf(w->out, "        const %s v%d = ", dtypes[dtype].item, w->nvalues);
    return w->nvalues++;
}

static void read_number(writer *w, kv_dtype dtype, int i)
{
    const char *form = dtype == KV_INT64     ? "kv_integer(k[%lld]);\n"
                       : dtype == KV_FLOAT32 ? "(float)k[%lld];\n"
                                             : "k[%lld];\n";
    buf_printf(w->out, form, (long long)number_word(w->pass, i));
}

static void read_draw(writer *w, kv_dtype dtype, int which)
{
    long long word = draw_word(w->p, w->pass);
    buf_printf(w->out,
               "(%s)kv_normal((kv_u64)kv_integer(k[%lld]), (kv_u64)kv_integer(k[%lld]) + %d, "
               "(kv_u64)i);\n",
               dtypes[dtype].item, word, word + 1, which);
}

/* The variable that holds what a place does. An array is read when it is first needed. */
static int32_t operand(writer *w, int16_t place, kv_dtype dtype)
{
    int32_t *value = &w->value[place];
    int index = place - w->prog->nregs;
    if (*value != NONE || index < 0)
        return *value;
    int slot = w->pass->slot[index];
    *value = declare(w, dtype);
    if (is_number(slot))
        read_number(w, dtype, slot - PLAN_PRIVATE);
    else if (is_draw(slot))
        read_draw(w, dtype, slot_of(slot) - PLAN_NORMAL);
    else if (slot_of(slot) == PLAN_INPUT)
        buf_printf(w->out, "kv_sum_at<%s>(j, i);\n", dtypes[dtype].tag);
    else
        buf_printf(w->out, "((const %s *)j->more[%d])[i];\n", dtypes[dtype].item, index);
    return *value;
}

/* The place now holds the variable; an array is written. */
static void finish(writer *w, int16_t place, kv_dtype dtype, int32_t value)
{
    int index = place - w->prog->nregs;
    w->value[place] = value;
    if (index >= 0)
        buf_printf(w->out, "        ((%s *)j->more[%d])[i] = v%d;\n", dtypes[dtype].item, index,
                   value);
}

static void write_constant(writer *w, const inst *in, int which)
{
    long long word = (in - w->prog->insts) * KERNEL_CONSTANTS + which;
    const char *form = in->type == PROG_I64   ? "kv_integer(k[%lld])"
                       : in->type == PROG_F32 ? "(float)k[%lld]"
                                              : "k[%lld]";
    buf_printf(w->out, form, word);
}

/* The names that an expression has on its own: a, k0. */
static void write_name(writer *w, const inst *in, const char *name, size_t n,
                       const int32_t *operands)
{
    if (n == 1 && *name >= 'a' && *name <= 'c')
        buf_printf(w->out, in->type == KERNEL_WIDE ? "(double)v%d" : "v%d", operands[*name - 'a']);
    else if (n == 2 && *name == 'k' && name[1] >= '0' && name[1] <= '3')
        write_constant(w, in, name[1] - '0');
    else
        buf_put(w->out, name, n);
}

static bool mentions(const char *text, char operand)
{
    for (const char *s = text; *s; s++)
        if (*s == operand && (s == text || !is_letter(s[-1])) && !is_letter(s[1]))
            return true;
    return false;
}

static void write_kernel(writer *w, const inst *in)
{
    const char *text = expressions[in->kernel];
    const int16_t places[] = {in->a, in->b, in->c};
    kv_dtype dtype = own_dtype(in);
    int32_t operands[3] = {NONE, NONE, NONE};
    for (int i = 0; i < 3; i++)
        if (mentions(text, (char)('a' + i)))
            operands[i] = operand(w, places[i], dtype);
    int32_t made = declare(w, dtype);
    buf_printf(w->out, "(%s)(", dtypes[dtype].item);
    for (const char *s = text, *end; *s; s = end) {
        for (end = s; is_letter(*end); end++)
            ;
        if (end > s)
            write_name(w, in, s, (size_t)(end - s), operands);
        else
            buf_put(w->out, end++, 1);
    }
    buf_add(w->out, ");\n");
    finish(w, in->dst, dtype, made);
}

static void write_convert(writer *w, const inst *in)
{
    const char *to = dtypes[in->to].tag, *from = dtypes[in->from].tag;
    int32_t a = operand(w, in->a, (kv_dtype)in->from);
    int32_t made = declare(w, (kv_dtype)in->to);
    buf_printf(w->out, "kv_convert<%s, %s>::run(v%d);\n", to, from, a);
    finish(w, in->dst, (kv_dtype)in->to, made);
}

static void write_narrow(writer *w, const inst *in)
{
    const char *to = dtypes[in->to].tag, *from = dtypes[in->from].tag;
    int32_t a = operand(w, in->a, (kv_dtype)in->from);
    int32_t made = declare(w, (kv_dtype)in->from);
    buf_printf(w->out, "kv_convert<%s, %s>::run(kv_convert<%s, %s>::run(v%d));\n", from, to, to,
               from, a);
    finish(w, in->dst, (kv_dtype)in->from, made);
}

static void write_inst(writer *w, const inst *in)
{
    switch ((inst_kind)in->kind) {
    case INST_KERNEL:
        write_kernel(w, in);
        return;
    case INST_CONVERT:
        write_convert(w, in);
        return;
    case INST_NARROW:
        write_narrow(w, in);
        return;
    }
}

void plan_text(buf *out, const plan *p, int pass, const char *name)
{
    const plan_pass *of = &p->pass[pass];
    writer w = {.p = p, .pass = of, .prog = of->elements, .out = out};
    int32_t places = w.prog->nregs + w.prog->nslots;
    w.value = mem_alloc(places > 0 ? places : 1, sizeof *w.value, NULL);
    if (!w.value) {
        out->failed = true;
        return;
    }
    for (int32_t i = 0; i < places; i++)
        w.value[i] = NONE;
    buf_printf(out,
               "extern \"C\" __global__ void %s(job_list l)\n{\n    KV_EACH_TILE(l, j, at, m)\n",
               name);
    buf_add(out, "    for (kv_i64 i = at + kv_lane(); i < at + m; i += JOB_TEAM) {\n"
                 "        const double *k = j->numbers;\n        (void)k;\n");
    for (int32_t i = 0; i < w.prog->ninsts; i++)
        write_inst(&w, &w.prog->insts[i]);
    buf_printf(out, "    }\n}\nKV_KERNEL(%s)\n", name);
    mem_free(w.value);
}
