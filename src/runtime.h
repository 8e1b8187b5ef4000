/* The process-wide state of libkvstore: which store types there are, where warnings go, the number
 * of virtual GPUs (which lib/array keeps), the threads of lib/engine/pool.h. Everything else hangs
 * from a store. */
#ifndef RUNTIME_H
#define RUNTIME_H

#include "kvstore.h"

/* The operations of the type that has this name, in any case; *name becomes the name as the type
 * spells it. Errors: unsupported (unknown, or known but not in this build), with a hint. */
int runtime_find_type(const char **name, const kv_type_ops **ops, kv_err *e);

/* Visits every type as kv_describe's topic "types" shows it. */
int runtime_describe_types(kv_visitor visit, void *arg, kv_err *e);

/* Sends a warning to the receiver of kv_set_log. */
void runtime_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
