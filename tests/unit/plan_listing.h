/* Programs and plans as text: one instruction a line, in which a0 is an array, r0 a register, and a
 * constant what it is. */
#pragma once

#include "base/num.h"
#include "vm/plan_pass.h"

static inline void list_constant(const prog *p, int word, buf *out)
{
    char text[NUM_TEXT_MAX];
    double x;
    float f;
    int64_t i;
    memcpy(&x, &p->pool[word], sizeof x);
    memcpy(&f, &x, sizeof f);
    memcpy(&i, &x, sizeof i);
    if (p->pool_types[word] == PROG_I64)
        num_int(text, i);
    else if (p->pool_types[word] == PROG_F32)
        num_plain(text, f, NUM_BINARY32);
    else
        num_plain(text, x, NUM_BINARY64);
    buf_add(out, text);
}

static inline void list_place(const prog *p, int16_t place, buf *out)
{
    if (place < p->nfills)
        list_constant(p, place, out);
    else
        buf_printf(out, place < p->nregs ? "r%d" : "a%d",
                   place < p->nregs ? place - p->nfills : place - p->nregs);
}

/* The text of the operation with its operands put in, for single letters a b c, and their factors.
 */
static inline void list_kernel(const prog *p, const inst *in, buf *out)
{
#define LIST_TEXT(name, loop, f, i, arrays, kind, text, expression) [name] = text,
    static const char *const texts[] = {PROG_OPS(LIST_TEXT)};
#undef LIST_TEXT
    const int16_t operand[] = {in->a, in->b, in->c};
    for (const char *s = texts[in->op], *end; *s; s = end) {
        for (end = s; *end >= 'a' && *end <= 'z'; end++)
            continue;
        if (end == s + 1 && *s <= 'c') {
            bool factor = in->factors >> (*s - 'a') & 1;
            buf_add(out, factor ? "(" : "");
            list_place(p, operand[*s - 'a'], out);
            if (factor) {
                buf_char(out, '*');
                list_constant(p, in->k + *s - 'a', out);
                buf_char(out, ')');
            }
        } else
            buf_put(out, s, (size_t)((end += end == s) - s));
    }
}

static inline void list_prog(const prog *p, buf *out)
{
    for (int32_t i = p ? p->nfills : 0; p && i < p->ninsts; i++) {
        const inst *in = &p->insts[i];
        list_place(p, in->dst, out);
        buf_add(out, " = ");
        if (in->kind == INST_KERNEL || in->kind == INST_SCALED) {
            list_kernel(p, in, out);
        } else {
            bool copy = in->to == in->from;
            buf_printf(out, copy ? "" : "%s(", kv_dtype_name((kv_dtype)in->to));
            list_place(p, in->a, out);
            buf_add(out, copy ? "" : ")");
        }
        buf_char(out, '\n');
    }
}

static inline void list_lean(const plan_pass *pass, buf *out)
{
    static const char *const arrays[] = {"stored", "input", "state"};
    buf_add(out, "lean\n");
    list_prog(pass->program, out);
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
        list_prog(p->pass[i].program, out);
        if (p->pass[i].lean)
            list_lean(p->pass[i].lean, out);
    }
}
