/* A list of values while its length is not known. */
#ifndef SESSION_VALUE_STACK_H
#define SESSION_VALUE_STACK_H

#include "session/value.h"

/* All zero is an empty one. The first few need no memory, so it must not be copied. */
typedef struct value_stack {
    value *items;
    int64_t n, cap;
    value small[8];
} value_stack;

/* Adds v, which is taken, also on failure. */
int value_stack_add(value_stack *s, value v, kv_err *e);

/* A list of the same values. */
int value_stack_list(const value_stack *s, value *out, kv_err *e);

void value_stack_release(value_stack *s);

#endif
