/* Plugins: shared objects that bring store types. */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "kvstore.h"

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

#endif
