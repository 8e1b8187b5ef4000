/* Writes the instructions of programs as text. */
#include "vm/prog_text.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "vm/prog.h"

/* The types of kernel_element.cuh. */
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
    const prog *prog;
    const prog_text_slots *slots;
    buf *out;
    int nvalues;
    int *value; /* of each place: the variable that holds it, or NONE */
} writer;

const char *prog_text_tag(kv_dtype dtype)
{
    return dtypes[dtype].tag;
}

const char *prog_text_item(kv_dtype dtype)
{
    return dtypes[dtype].item;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Returns true if the text of an expression has the name as a word. */
static bool mentions(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = strstr(text, name); s; s = strstr(s + 1, name))
        if ((s == text || !is_letter(s[-1])) && !is_letter(s[n]))
            return true;
    return false;
}

/* ---- Constants ---- */

int64_t prog_text_words(const prog *p)
{
    return (int64_t)p->ninsts * KERNEL_CONSTANTS;
}

static long long word_of(const prog *p, const inst *in, int which)
{
    return (in - p->insts) * KERNEL_CONSTANTS + which;
}

/* The constants of each instruction, float32 ones as doubles. */
void prog_text_fill(double *words, const prog *p, const uint64_t *pool)
{
    memset(words, 0, (size_t)prog_text_words(p) * sizeof *words);
    for (const inst *in = p->insts; in < p->insts + p->ninsts; in++, words += KERNEL_CONSTANTS) {
        const void *k = (pool ? pool : p->pool) + in->k;
        if (in->kind != INST_KERNEL)
            continue;
        for (int i = 0; i < KERNEL_CONSTANTS; i++)
            if (in->type == PROG_F32)
                words[i] = (double)((const float *)k)[i];
            else
                memcpy(&words[i], (const char *)k + (size_t)i * sizeof *words, sizeof *words);
    }
}

/* Not -1: the compiler makes a change of sign of x * -1, and another NaN. */
static const double known[] = {0, 1};
static const char *const known_texts[] = {"0", "1"};

int prog_literals(const prog *p, int32_t i)
{
    const inst *in = &p->insts[i];
    int found = 0;
    for (int k = 0; k < KERNEL_CONSTANTS && in->kind == INST_KERNEL && in->type != PROG_I64; k++) {
        const void *at = p->pool + in->k;
        double x = in->type == PROG_F32 ? (double)((const float *)at)[k] : ((const double *)at)[k];
        bool given = false;
        for (int32_t q = 0; q < p->npatches; q++)
            given |= p->patches[q].word == in->k && p->patches[q].lane == k;
        for (int c = 0; c < 2 && !given; c++)
            if (x == known[c] && !signbit(x) == !signbit(known[c]))
                found |= (c + 1) << 3 * k;
    }
    return found;
}

void prog_text_constants(buf *out, const prog *p, bool literals)
{
    for (const inst *in = p->insts; in < p->insts + p->ninsts; in++) {
        const char *type = in->type == PROG_I64   ? "kv_i64 k%lld = KV_K_I64"
                           : in->type == PROG_F32 ? "float k%lld = KV_K_F32"
                                                  : "double k%lld = KV_K_F64";
        for (int i = 0; i < KERNEL_CONSTANTS && in->kind == INST_KERNEL; i++) {
            const char name[] = {'k', (char)('0' + i), '\0'};
            if (!mentions(kernel_forms[in->kernel].expression, name))
                continue;
            int literal = literals ? prog_literals(p, (int32_t)(in - p->insts)) >> 3 * i & 7 : 0;
            buf_add(out, "    const ");
            if (literal) {
                buf_printf(out, "%s k%lld = %s;\n", in->type == PROG_F32 ? "float" : "double",
                           word_of(p, in, i), known_texts[literal - 1]);
                continue;
            }
            buf_printf(out, type, word_of(p, in, i));
            buf_printf(out, "(%lld, %d, %d);\n", word_of(p, in, i), in->k, i);
        }
    }
}

/* ---- Statements ---- */

/* Begins a declaration of the next variable: `const float v3 = `. */
static int declare(writer *w, kv_dtype dtype)
{
    buf_printf(w->out, "            const %s v%d = ", dtypes[dtype].item, w->nvalues);
    return w->nvalues++;
}

/* The variable that holds what a place does. */
static int operand(writer *w, int16_t place, kv_dtype dtype)
{
    int *value = &w->value[place];
    int slot = place - w->prog->nregs;
    if (*value != NONE || slot < 0)
        return *value;
    *value = declare(w, dtype);
    w->slots->read(w->slots->arg, w->out, slot, dtype);
    buf_add(w->out, ";\n");
    return *value;
}

/* The place now holds the variable. */
static void finish(writer *w, int16_t place, kv_dtype dtype, int value)
{
    int slot = place - w->prog->nregs;
    w->value[place] = value;
    if (slot >= 0)
        w->slots->write(w->slots->arg, w->out, slot, dtype, value);
}

/* The names that an expression has on its own: a, k0. */
static void write_name(writer *w, const inst *in, const char *name, size_t n, const int *operands)
{
    if (n == 1 && *name >= 'a' && *name <= 'c')
        buf_printf(w->out, in->type == KERNEL_WIDE ? "(double)v%d" : "v%d", operands[*name - 'a']);
    else if (n == 2 && *name == 'k' && name[1] >= '0' && name[1] <= '3')
        buf_printf(w->out, "k%lld", word_of(w->prog, in, name[1] - '0'));
    else
        buf_put(w->out, name, n);
}

static int convert(writer *w, kv_dtype to, kv_dtype from, int value)
{
    int made = declare(w, to);
    buf_printf(w->out, "KV_CONVERT(%s, %s, v%d);\n", dtypes[to].tag, dtypes[from].tag, value);
    return made;
}

static void write_kernel(writer *w, const inst *in)
{
    static const char *const of_type[KERNEL_TYPES] = {[PROG_F32] = "KV_OF_F32",
                                                      [PROG_F64] = "KV_OF_F64",
                                                      [PROG_I64] = "KV_OF_I64",
                                                      [KERNEL_WIDE] = "KV_OF_F64"};
    const kernel_form *form = &kernel_forms[in->kernel];
    const int16_t places[] = {in->a, in->b, in->c};
    kv_dtype dtype = in->type == KERNEL_WIDE ? KV_FLOAT32 : prog_dtype((prog_type)in->type);
    int operands[3] = {NONE, NONE, NONE};
    for (int i = 0; i < form->arrays; i++) {
        bool narrow = in->narrow >> i & 1;
        operands[i] = operand(w, places[i], narrow ? KV_BFLOAT16 : dtype);
        if (narrow)
            operands[i] = convert(w, dtype, KV_BFLOAT16, operands[i]);
    }
    int made = declare(w, dtype);
    buf_printf(w->out, "(%s)(", dtypes[dtype].item);
    for (const char *s = form->expression, *end; *s; s = end) {
        for (end = s; is_letter(*end); end++)
            ;
        if (strncmp(s, "OF_T", 4) == 0) {
            buf_add(w->out, of_type[in->type]);
            end = s + 4;
        } else if (end > s)
            write_name(w, in, s, (size_t)(end - s), operands);
        else
            buf_put(w->out, end++, 1);
    }
    buf_add(w->out, ");\n");
    finish(w, in->dst, dtype, made);
}

static void write_inst(writer *w, const inst *in)
{
    kv_dtype to = (kv_dtype)in->to, from = (kv_dtype)in->from;
    switch ((inst_kind)in->kind) {
    case INST_KERNEL:
        write_kernel(w, in);
        return;
    case INST_CONVERT:
        finish(w, in->dst, to, convert(w, to, from, operand(w, in->a, from)));
        return;
    case INST_NARROW: {
        const char *there = dtypes[to].tag, *back = dtypes[from].tag;
        int a = operand(w, in->a, from), made = declare(w, from);
        buf_printf(w->out, "KV_CONVERT(%s, %s, KV_CONVERT(%s, %s, v%d));\n", back, there, there,
                   back, a);
        finish(w, in->dst, from, made);
        return;
    }
    }
}

void prog_text(buf *out, const prog *p, const prog_text_slots *slots)
{
    writer w = {.prog = p, .slots = slots, .out = out};
    int32_t places = p->nregs + p->nslots;
    w.value = mem_alloc(places > 0 ? places : 1, sizeof *w.value, NULL);
    if (!w.value) {
        out->failed = true;
        return;
    }
    for (int32_t i = 0; i < places; i++)
        w.value[i] = NONE;
    for (int32_t i = 0; i < p->ninsts; i++)
        write_inst(&w, &p->insts[i]);
    mem_free(w.value);
}
