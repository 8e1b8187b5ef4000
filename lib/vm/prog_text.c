/* Writes the instructions of programs as text. */
#include "vm/prog_text.h"

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

/* ---- Constants ---- */

static void declare_constant(buf *out, const prog *p, int word)
{
    static const char *const of_type[] = {
        [PROG_F32] = "F32", [PROG_F64] = "F64", [PROG_I64] = "I64"};
    prog_type type = (prog_type)p->pool_types[word];
    buf_printf(out, "    const %s k%d = KV_K_%s(%d);\n", dtypes[prog_dtype(type)].item, word,
               of_type[type], word);
}

void prog_text_constants(buf *out, const prog *p)
{
    for (const inst *in = p->insts; in < p->insts + p->ninsts; in++) {
        if (in->kind == INST_FILL)
            declare_constant(out, p, in->dst);
        for (int i = 0; i < 2; i++)
            if (in->factors >> i & 1)
                declare_constant(out, p, in->k + i);
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

static int convert(writer *w, kv_dtype to, kv_dtype from, int value)
{
    int made = declare(w, to);
    buf_printf(w->out, "KV_CONVERT(%s, %s, v%d);\n", dtypes[to].tag, dtypes[from].tag, value);
    return made;
}

static void write_kernel(writer *w, const inst *in)
{
    static const char *const of_type[] = {
        [PROG_F32] = "KV_OF_F32", [PROG_F64] = "KV_OF_F64", [PROG_I64] = "KV_OF_I64"};
    const kernel_form *form = &kernel_forms[in->op];
    const int16_t places[] = {in->a, in->b, in->c};
    kv_dtype dtype = prog_dtype((prog_type)in->type);
    int operands[3] = {NONE, NONE, NONE};
    for (int i = 0; i < form->arrays; i++)
        operands[i] = operand(w, places[i], dtype);
    int made = declare(w, dtype);
    buf_printf(w->out, "(%s)(", dtypes[dtype].item);
    for (const char *s = form->expression, *end; *s; s = end) {
        for (end = s; is_letter(*end); end++)
            ;
        if (end == s + 1 && *s >= 'a' && *s <= 'c') { /* the name of an operand */
            int i = *s - 'a';
            bool factor = in->factors >> i & 1;
            buf_printf(w->out, factor ? "(v%d * k%d)" : "v%d", operands[i], in->k + i);
        } else if (strncmp(s, "OF_T", 4) == 0) {
            buf_add(w->out, of_type[in->type]);
            end = s + 4;
        } else {
            buf_put(w->out, s, (size_t)((end += end == s) - s));
        }
    }
    buf_add(w->out, ");\n");
    finish(w, in->dst, dtype, made);
}

static void write_inst(writer *w, const inst *in)
{
    kv_dtype to = (kv_dtype)in->to, from = (kv_dtype)in->from;
    int made;
    switch ((inst_kind)in->kind) {
    case INST_FILL:
        w->value[in->dst] = declare(w, prog_dtype((prog_type)in->type));
        buf_printf(w->out, "k%d;\n", in->dst);
        return;
    case INST_KERNEL:
    case INST_SCALED:
        write_kernel(w, in);
        return;
    case INST_CONVERT:
        made = operand(w, in->a, from);
        finish(w, in->dst, to, to == from ? made : convert(w, to, from, made));
        return;
    case INST_NARROW: {
        const char *there = dtypes[to].tag, *back = dtypes[from].tag;
        int a = operand(w, in->a, from);
        made = declare(w, from);
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
