/* Functions that tell which files there are, and which arrays stand in one. */
#include "functions/func.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "session/containers.h"
#include "session/unit.h"

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files that match, sorted by their bytes, whatever the locale. */
static int list_files(glob_t *found, value *out, kv_err *e)
{
    value_stack files = {0};
    int rc = KV_OK;
    qsort(found->gl_pathv, found->gl_pathc, sizeof *found->gl_pathv, by_bytes);
    for (size_t i = 0; i < found->gl_pathc && !rc; i++) {
        value file;
        if (!(rc = value_text(&file, found->gl_pathv[i], e)))
            rc = value_stack_add(&files, file, e);
    }
    if (!rc)
        rc = value_stack_list(&files, out, e);
    value_stack_release(&files);
    return rc;
}

/* Folders that may not be read, and names that are no folders, have no files that match; what the
 * machine or its disk lacks is an error, and ends the search. */
static int ends_glob(const char *path, int why)
{
    (void)path;
    return why == ENOMEM || why == EMFILE || why == ENFILE || why == EIO;
}

int func_glob(function_args *args, value *out, kv_err *e)
{
    const char *pattern;
    glob_t found = {0};
    int rc = function_text(args->v[0], "a pattern of files", &pattern, e);
    if (rc)
        return rc;
    int why = glob(pattern, GLOB_NOSORT | GLOB_NOESCAPE, ends_glob, &found);
    if (why == GLOB_NOSPACE || (why && errno == ENOMEM))
        rc = kv_err_set(e, KV_E_MEMORY, "no memory for the files that match");
    else if (why && why != GLOB_NOMATCH)
        rc = file_error(e, "read", pattern, errno);
    else
        rc = list_files(&found, out, e);
    globfree(&found);
    return rc;
}

int func_file_keys(function_args *args, const char *pattern, value *out, kv_err *e)
{
    checkpoint *c;
    value_stack names = {0};
    const char *path = args->v[0].u.text;
    int rc = checkpoint_open(&c, path, &(checkpoint_options){.weights = true}, e);
    if (rc && strpbrk(path, "*?[") && access(path, F_OK) != 0)
        kv_err_hint(e, "keys of the store by a pattern: keys(pattern=\"%.80s\")", path);
    if (rc)
        return rc;
    for (int64_t i = 0; i < checkpoint_count(c) && !rc; i++) {
        const char *name = checkpoint_at(c, i)->name;
        value text;
        if (pattern && fnmatch(pattern, name, 0) != 0)
            continue;
        if (!(rc = value_text(&text, name, e)))
            rc = value_stack_add(&names, text, e);
    }
    checkpoint_close(c);
    if (!rc)
        rc = value_stack_list(&names, out, e);
    value_stack_release(&names);
    return rc;
}

/* "." where the script has no file: behind -c, from stdin and at the prompt. */
int func_script_dir(function_args *args, value *out, kv_err *e)
{
    const char *path = args->session->unit->src.name, *slash = strrchr(path, '/');
    if (*path == '<' || !slash)
        return value_text(out, ".", e);
    return value_text_new(out, path, slash == path ? 1 : (size_t)(slash - path), e);
}
