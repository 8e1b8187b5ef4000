/* The process-wide state of libkvstore: which store types there are, where warnings go, the number
 * of virtual GPUs (which lib/array keeps), the threads of lib/engine/pool.h. Everything else hangs
 * from a store. */
#ifndef RUNTIME_H
#define RUNTIME_H

#include "kvstore.h"

/* The operations of the type that has this name, in any case; *name becomes the name as the type
 * spells it. Loads the plugin of a type that is known but not there. Errors: unsupported (unknown,
 * or known but not to be had, with the reason), with a hint. */
int runtime_find_type(const char **name, const kv_type_ops **ops, kv_err *e);

/* Visits every type as kv_describe's topic "types" shows it. */
int runtime_describe_types(kv_visitor visit, void *arg, kv_err *e);

/* Calls visit with the table of every type that can be made. Registering is not possible meanwhile.
 */
void runtime_each_type(void (*visit)(void *arg, const kv_type_ops *ops), void *arg);

/* Between these two, what the calling thread registers is a plugin's; keep false takes it back. */
void runtime_loading_begin(void);
void runtime_loading_end(bool keep);

/* Sends a warning to the receiver of kv_set_log. */
void runtime_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
