/* Libraries that are opened at run time, and their functions by name. */
#pragma once

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The first of n files that opens, or NULL. It stays open. */
static inline void *library_open(const char *const *names, size_t n)
{
    void *found = NULL;
    for (size_t i = 0; i < n && !found; i++)
        found = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return found;
}

/* Puts a function's address where a pointer to it is, since dlsym gives that of an object; NULL and
 * false: it has none of that name. */
static inline bool library_find(void *library, const char *name, void *out)
{
    void *address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}
