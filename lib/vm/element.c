/* What rules and expressions share when they turn syntax into programs. */
#include "vm/element.h"

#include <math.h>

prog_op element_op(ast_op op)
{
    static const prog_op operations[] = {
        [OP_ADD] = PROG_ADD,
        [OP_SUB] = PROG_SUB,
        [OP_MUL] = PROG_MUL,
        [OP_DIV] = PROG_DIV,
        [OP_FLOORDIV] = PROG_FLOORDIV,
        [OP_MOD] = PROG_MOD,
        [OP_POW] = PROG_POW,
        [OP_EQ] = PROG_EQ,
        [OP_NE] = PROG_NE,
        [OP_LT] = PROG_LT,
        [OP_LE] = PROG_LE,
        [OP_GT] = PROG_GT,
        [OP_GE] = PROG_GE,
        [OP_AND] = PROG_AND,
        [OP_OR] = PROG_OR,
    };
    return operations[op];
}

bool element_holds(kv_dtype dtype, int64_t x)
{
    switch (dtype) {
    case KV_INT8:
        return x >= INT8_MIN && x <= INT8_MAX;
    case KV_UINT8:
        return x >= 0 && x <= UINT8_MAX;
    case KV_INT32:
        return x >= INT32_MIN && x <= INT32_MAX;
    case KV_BOOL:
        return x == 0 || x == 1;
    case KV_INT64:
    case KV_FLOAT32:
    case KV_FLOAT64:
    case KV_FLOAT16:
    case KV_BFLOAT16:
        return true;
    }
    return true;
}

bool element_is_whole(double x, int64_t *out)
{
    if (x != floor(x) || fabs(x) >= 0x1p63)
        return false;
    *out = (int64_t)x;
    return true;
}
