/* Plugins: shared objects that bring store types. */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "kv_err.h"

/* Whether this copy of the library can load any: the shared one can. */
bool plugin_possible(void);

/* Looks for a plugin by its file name in $KVSTORE_PLUGINS, then beside the library. Writes its path
 * and says whether it is there; nothing is opened. */
bool plugin_find(char *path, size_t size, const char *file);

#endif
