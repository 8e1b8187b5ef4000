/* The capabilities of store types: the answers of kv_is_capable, and the errors of refused
 * calls. */
#ifndef CAPABILITY_H
#define CAPABILITY_H

#include "kvstore.h"

/* The operations of a type's table, as capabilities beside KV_CAN_*. */
enum {
    CAN_INIT = 1 << 24,
    CAN_PUSH = 1 << 25,
    CAN_PULL = 1 << 26,
    CAN_PUSHPULL = 1 << 27,
    CAN_BROADCAST = 1 << 28,
    CAN_RULES = KV_CAN_UPDATER | KV_CAN_OPTIMIZER /* either will do for kv_set_rule */
};

/* KV_OK when stores of the type can do this one thing. Error: unsupported, with a hint that names
 * the types that can. type: the store's name for itself. */
int capability_need(const kv_type_ops *ops, const char *type, uint32_t bit, kv_err *e);

#endif
