/* The process-wide state of libkvstore: which store types there are, where warnings go, whether a
 * store of several workers was made, the number of virtual GPUs (which lib/array keeps), the
 * slabs of small blocks (lib/base/mem.h), the threads of lib/engine/pool.h, the wait of the
 * script (lib/engine/pool.h), who is asked whether work is to end early (lib/base/stop.h),
 * the mapped windows that a handler of SIGBUS finds (lib/checkpoint/file_window.h), the first
 * failed assertion (lib/base/kv_assert.h), the profile that is taken (profile.c, and its events
 * in lib/engine/trace.c), and in a rank of a job its links, calls under way and the stores that
 * it serves (src/distributed). Everything else hangs from a store. */
#pragma once

#include "kvstore.h"

/* The operations of the type that has this name, in any case; *name becomes the name as the type
 * spells it. Loads the plugin of a type that is known but not there. Errors: unsupported (unknown,
 * or known but not to be had, with the reason), with a hint. */
int runtime_find_type(const char **name, const kv_type_ops **ops, kv_err *e);

/* The type that a table was registered as another name of (kv_register_name), or NULL. */
const char *runtime_base(const kv_type_ops *ops);

/* Returns true if a text has the form of a name that can be registered. */
bool runtime_is_name(const char *text);

/* Visits every type as kv_describe's topic "types" shows it. */
int runtime_describe_types(kv_visitor visit, void *arg, kv_err *e);

/* The GPUs of this machine, as kv_describe's topic "gpus" shows them. */
int runtime_describe_gpus(kv_visitor visit, void *arg, kv_err *e);

/* Calls visit with the table of every type that can be made. Registering is not possible meanwhile.
 */
void runtime_each_type(void (*visit)(void *arg, const kv_type_ops *ops), void *arg);

/* Hands a command to the receiver of kv_set_controller. */
void runtime_control(int head, const char *body);

/* Hands a line to the receiver of kv_set_server_print. */
void runtime_print(void *unused, const char *line);

/* The rank of this process in its job, and of how many; 0 of 1 until a plugin says otherwise. */
void runtime_set_rank(int mine, int all);
int runtime_rank(int *all);

/* Sends a warning to the receiver of kv_set_log. */
void runtime_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The store whose updater, a function of the program, this thread runs, or NULL; and another one
 * from now on, which gives the one before. */
const kv *runtime_updater(void);
const kv *runtime_set_updater(const kv *store);

/* The order of stores. Two stores whose updaters call each other could wait for each other for
 * ever, so a call of `to` from the updater of `from` is refused if, by calls so far, the updater of
 * `to` leads to `from`: the first call in the other direction fails, whatever the threads do at the
 * time. Errors: usage, memory. */
int runtime_order(const kv *from, const kv *to, kv_err *e);

/* Forgets what the updater of a store has called; gone: and who has called the store. */
void runtime_forget_order(const kv *store, bool gone);

/* See kv_set_patience. */
int runtime_patience(void);

/* A store of several workers was made in this process; whether one was. */
void runtime_joined(void);
bool runtime_has_joined(void);

/* ---- Plugins: shared objects that bring store types (plugin.c) ---- */

/* Returns true if this copy of the library can load plugins: the shared one can, and the one in
 * kvctl. */
bool plugin_possible(void);

/* Looks for a plugin by its file name in $KVSTORE_PLUGINS, then beside the library; for kvctl
 * also in ../lib and such folders, and where pip puts the module beside it. Writes its path and
 * says whether it is there; nothing is opened. */
bool plugin_find(char *path, size_t size, const char *file);

/* Opens the file of a plugin; before that of several machines the library of MPI. Out: *handle,
 * closed with dlclose, and *init, the function that starts it. Errors: format (no plugin),
 * unsupported (MPI is not found). */
int plugin_open(void **handle, kv_plugin_init_fn *init, const char *path, kv_err *e);

/* The row of kv_describe's topic "mpi". Opens the library of MPI and starts nothing. */
int plugin_describe_mpi(kv_visitor visit, void *arg, kv_err *e);
