/* The types of numbers in programs, and numbers that each run of a program may have others of. */
#include "vm/prog_numbers.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu.h"

prog_type prog_type_of(kv_dtype dtype)
{
    if (dtype == KV_FLOAT64)
        return PROG_F64;
    return kv_dtype_is_float(dtype) ? PROG_F32 : PROG_I64;
}

kv_dtype prog_dtype(prog_type type)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_INT64};
    return dtypes[type];
}

int prog_op_arity(prog_op op)
{
    return kernel_forms[op].arrays;
}

prog_op prog_op_mirrored(prog_op op)
{
    static const prog_op mirrored[] = {PROG_EQ, PROG_NE, PROG_GT, PROG_GE, PROG_LT, PROG_LE};
    return mirrored[op - PROG_EQ];
}

static bool same_entry(const prog_entry *x, const prog_entry *y)
{
    return x->how == y->how && x->op == y->op && x->type == y->type && x->from == y->from &&
           memcmp(x->kid, y->kid, sizeof x->kid) == 0 && x->k.integer == y->k.integer;
}

int16_t prog_numbers_add(prog_numbers *t, const prog_entry *x)
{
    for (int64_t i = 0; i < t->n && x->how != NUMBER_GIVEN; i++)
        if (same_entry(&t->entries[i], x))
            return (int16_t)(i + 1);
    if (t->n == INT16_MAX || arena_grow(t->memory, &t->entries, &t->cap, t->n, sizeof *x, NULL)) {
        t->failed = true;
        return 0;
    }
    t->entries[t->n++] = *x;
    return (int16_t)t->n;
}

void prog_numbers_branch(prog_numbers *t, int16_t which, bool truth)
{
    if (arena_grow(t->memory, &t->branches, &t->branches_cap, t->nbranches, sizeof *t->branches,
                   NULL))
        t->failed = true;
    else
        t->branches[t->nbranches++] = (prog_branch){which, truth};
}

bool prog_number_truth(prog_number x, prog_type type)
{
    return type == PROG_I64 ? x.integer != 0 : x.number != 0;
}

void prog_number_put(void *to, prog_type type, prog_number x)
{
    float f = (float)x.number;
    if (type == PROG_F32)
        memcpy(to, &f, sizeof f);
    else
        memcpy(to, &x, sizeof x);
}

static prog_number get(const void *in, prog_type type)
{
    prog_number k;
    float f;
    if (type == PROG_F32) {
        memcpy(&f, in, sizeof f);
        k.number = f;
    } else {
        memcpy(&k, in, sizeof k);
    }
    if (type != PROG_I64 && isnan(k.number))
        k.number = NAN; /* one nan, so that equal constants are equal nodes */
    return k;
}

prog_number prog_numbers_compute(const kernel_table *kernels, const prog_entry *x,
                                 const prog_number kid[3])
{
    prog_type type = (prog_type)x->type;
    prog_number in[3] = {{0}}, out = {0};
    uint64_t narrow;
    switch ((number_how)x->how) {
    case NUMBER_GIVEN:
    case NUMBER_LITERAL:
        return x->k;
    case NUMBER_FOLD:
        for (int i = 0; i < prog_op_arity((prog_op)x->op); i++)
            prog_number_put(&in[i], type, kid[i]);
        kernels->run[type][x->op](&out, &in[0], &in[1], &in[2], 1);
        break;
    case NUMBER_CAST:
        prog_number_put(&in[0], (prog_type)x->from, kid[0]);
        convert_elements(&out, prog_dtype(type), &in[0], prog_dtype((prog_type)x->from), 1);
        break;
    case NUMBER_NARROW:
        prog_number_put(&in[0], type, kid[0]);
        convert_elements(&narrow, (kv_dtype)x->from, &in[0], prog_dtype(type), 1);
        convert_elements(&out, prog_dtype(type), &narrow, (kv_dtype)x->from, 1);
        break;
    }
    return get(&out, type);
}

bool prog_numbers_fill(const prog_numbers *t, prog_number *values)
{
    for (int64_t i = 0; i < t->n; i++) {
        const prog_entry *x = &t->entries[i];
        prog_number kid[3];
        if (x->how == NUMBER_GIVEN)
            continue;
        for (int k = 0; k < 3; k++)
            kid[k] = values[x->kid[k]];
        values[i + 1] = prog_numbers_compute(t->kernels, x, kid);
    }
    for (int64_t i = 0; i < t->nbranches; i++) {
        const prog_branch *g = &t->branches[i];
        prog_type type = (prog_type)t->entries[g->which - 1].type;
        if (prog_number_truth(values[g->which], type) != g->truth)
            return false;
    }
    return true;
}
