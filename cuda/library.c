/* dlsym gives an object's address where a function's is wanted. */
#include "cuda/library.h"

#include <dlfcn.h>
#include <string.h>

void *library_open(const char *const *names, size_t n)
{
    void *found = NULL;
    for (size_t i = 0; i < n && !found; i++)
        found = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return found;
}

bool library_find(void *library, const char *name, void *out)
{
    void *address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}
