/* Finding plugins and opening their files.
 *
 * A plugin is linked with the shared library and calls its functions. In kvctl these are those of
 * the program, which has the library's name. Any other program that holds the static library would
 * give a plugin none, or those of another copy with types of its own. So the library first finds
 * out where it is.
 */
#include "plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

/* ---- The folder of plugins ---- */

/* The file of the library: its path, or "" if that is the program. NULL if a plugin, which asks for
 * the library by its name, would not get this copy. */
static const char *library_file(void)
{
    union {
        bool (*function)(void);
        void *address;
    } self = {plugin_possible};
    struct link_map *map;
    void *handle = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    bool found = handle && dlsym(handle, "plugin_possible") == self.address &&
                 dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0;
    if (handle)
        dlclose(handle);
    return found ? map->l_name : NULL;
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

/* The number of bytes in front of the last slash. */
static size_t folder_length(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? (size_t)(slash - file) : 0;
}

/* Looks in the folder of the program, and in those beside it where `make install` puts plugins. */
static bool find_for_program(char *path, size_t size, const char *file)
{
    static const char *const from[] = {"", "../lib/", "../lib64/", "../lib/" MULTIARCH "/"};
    char program[4096], there[256];
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    program[len > 0 ? len : 0] = '\0';
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        snprintf(there, sizeof there, "%s%s", from[i], file);
        if (is_file(path, size, program, folder_length(program), there))
            return true;
    }
    return false;
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
    return *library ? is_file(path, size, library, folder_length(library), file)
                    : find_for_program(path, size, file);
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
        return kv_err_set(e, KV_E_FORMAT, "%s is not a plugin: %s", path, why);
    found.address = dlsym(*handle, "kv_plugin_init");
    *init = found.function;
    if (found.address)
        return KV_OK;
    dlclose(*handle);
    return kv_err_set(e, KV_E_FORMAT, "%s is not a plugin: it has no function kv_plugin_init",
                      path);
}
