/* Finding plugins and opening their files.
 *
 * A plugin calls kv_* functions, which only the shared library offers to it; a program that holds
 * the static one would give it none, or those of another copy with types of its own. So the library
 * first finds out which of the two it is.
 */
#include "plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

/* ---- The folder of plugins ---- */

/* The file of the shared library, or NULL in a program that was linked with the static one: then
 * the code belongs to the program, which dlopen does not give out by its name. */
static const char *library_file(void)
{
    Dl_info here;
    union {
        bool (*function)(void);
        void *address;
    } self = {plugin_possible};
    if (!dladdr(self.address, &here) || !here.dli_fname || !strchr(here.dli_fname, '/'))
        return NULL;
    void *handle = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    bool found = handle && dlsym(handle, "plugin_possible") == self.address;
    if (handle)
        dlclose(handle);
    return found ? here.dli_fname : NULL;
}

bool plugin_possible(void)
{
    return library_file() != NULL;
}

static bool is_file(char *path, size_t size, const char *folder, size_t n, const char *file)
{
    int len = snprintf(path, size, "%.*s/%s", (int)n, folder, file);
    return n > 0 && len > 0 && (size_t)len < size && access(path, F_OK) == 0;
}

bool plugin_find(char *path, size_t size, const char *file)
{
    const char *library = library_file(), *at = secure_getenv("KVSTORE_PLUGINS");
    if (!library)
        return false;
    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        if (is_file(path, size, at, n, file))
            return true;
    }
    return is_file(path, size, library, (size_t)(strrchr(library, '/') - library), file);
}

/* ---- Opening ---- */

/* The error text of dlopen, without the path that often begins it. */
static const char *reason(const char *path)
{
    const char *text = dlerror(); /* stays until the next dl… function of this thread */
    size_t n = strlen(path);
    text = text ? text : "it cannot be loaded";
    return strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

int plugin_open(void **handle, kv_plugin_init_fn *init, const char *path, kv_err *e)
{
    union {
        void *address;
        kv_plugin_init_fn function;
    } found;
    buf from = {0};
    buf_printf(&from, strchr(path, '/') ? "%s" : "./%s", path); /* else dlopen would search */
    if (buf_check(&from, e))
        return KV_E_MEMORY;
    *handle = dlopen(buf_text(&from), RTLD_NOW | RTLD_LOCAL);
    const char *why = *handle ? "" : reason(buf_text(&from));
    buf_release(&from);
    if (!*handle)
        return kv_err_set(e, KV_E_FORMAT, "%s is no plugin: %s", path, why);
    found.address = dlsym(*handle, "kv_plugin_init");
    *init = found.function;
    if (found.address)
        return KV_OK;
    dlclose(*handle);
    return kv_err_set(e, KV_E_FORMAT, "%s is no plugin: it has no function kv_plugin_init", path);
}
