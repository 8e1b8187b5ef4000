/* Programs and plans as text: one instruction a line, in which a0 is an array and r0 a register. */
#pragma once

#include "base/num.h"
#include "vm/plan_pass.h"

static inline void list_place(const prog *p, int16_t place, buf *out)
{
    buf_printf(out, place < p->nregs ? "r%d" : "a%d", place < p->nregs ? place : place - p->nregs);
}

static inline void list_constant(const prog *p, const inst *in, int which, buf *out)
{
    const void *k = p->pool + in->k;
    char text[NUM_TEXT_MAX];
    if (in->type == PROG_F32)
        num_plain(text, ((const float *)k)[which], NUM_BINARY32);
    else if (in->type == PROG_F64 || in->type == KERNEL_WIDE)
        num_plain(text, ((const double *)k)[which], NUM_BINARY64);
    else
        num_int(text, ((const int64_t *)k)[which]);
    buf_add(out, text);
}

/* The text of the kernel with its operands put in: single letters a b c, and k0 to k3. */
static inline void list_kernel(const prog *p, const inst *in, buf *out)
{
#define LIST_TEXT(name, loop, f, w, i, arrays, kind, text, expression) [name] = text,
    static const char *const texts[] = {PROG_OPS(LIST_TEXT) KERNEL_MAP(LIST_TEXT)};
#undef LIST_TEXT
    const int16_t operand[] = {in->a, in->b, in->c};
    for (const char *s = texts[in->kernel], *end; *s; s = end) {
        for (end = s; *end >= 'a' && *end <= 'z'; end++)
            continue;
        if (end == s + 1 && *s == 'k' && *end >= '0' && *end <= '3')
            list_constant(p, in, *end++ - '0', out);
        else if (end == s + 1 && *s <= 'c') {
            bool narrow = in->narrow >> (*s - 'a') & 1;
            buf_add(out, narrow ? "float32(" : "");
            list_place(p, operand[*s - 'a'], out);
            buf_add(out, narrow ? ")" : "");
        } else
            buf_put(out, s, (size_t)((end += end == s) - s));
    }
}

static inline void list_prog(const prog *p, buf *out)
{
    for (int32_t i = 0; p && i < p->ninsts; i++) {
        const inst *in = &p->insts[i];
        list_place(p, in->dst, out);
        buf_add(out, in->type == KERNEL_WIDE ? " = wide " : " = ");
        if (in->kind == INST_KERNEL) {
            list_kernel(p, in, out);
        } else {
            buf_printf(out, "%s(", kv_dtype_name((kv_dtype)in->to));
            list_place(p, in->a, out);
            buf_char(out, ')');
        }
        buf_char(out, '\n');
    }
}

static inline void list_lean(const plan_pass *pass, buf *out)
{
    static const char *const arrays[] = {"stored", "input", "state"};
    buf_add(out, "lean\n");
    list_prog(pass->elements, out);
    for (int s = 0; s < pass->nsums; s++) {
        int slot = pass->sum[s].array;
        if (slot >= 0)
            buf_printf(out, "number %d sums %s%s %d\n", pass->sum[s].number,
                       pass->sum[s].squares ? "squares of " : "",
                       slot < PLAN_WEIGHT ? arrays[slot / PLAN_KIND] : "kept",
                       plan_slot_index(slot));
    }
}

/* Not a plan by steps. */
static inline void list_plan(const plan *p, buf *out)
{
    for (int i = 0; i < p->npasses; i++) {
        buf_printf(out, "pass %d%s\n", i, p->pass[i].present ? ", present rows" : "");
        list_prog(p->pass[i].numbers, out);
        list_prog(p->pass[i].elements, out);
        if (p->pass[i].lean)
            list_lean(p->pass[i].lean, out);
    }
}
