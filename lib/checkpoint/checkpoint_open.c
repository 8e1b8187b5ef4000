/* Opening what a path names: the first bytes of a file choose its reader. */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"

/* ---- Names ----------------------------------------------------------------------------------- */

/* Sorts the names; a name that stands twice is a fault of the files, and then the first counts. */
static int index_names(checkpoint *c, kv_err *e)
{
    c->tensor_names = mem_alloc(c->ntensors, sizeof *c->tensor_names, e);
    if (!c->tensor_names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->ntensors; i++)
        c->tensor_names[i] = (named){c->tensors[i].name, i};
    const char *twice = named_sort(c->tensor_names, c->ntensors);
    if (!twice)
        return KV_OK;
    return checkpoint_fault(c, KV_E_FORMAT, twice, c->nfiles == 1 ? 0 : -1, e,
                            "two tensors have the name \"%.*s\"", SHOWN(twice));
}

/* Of texts with one name, which several files may have, the first stays. */
static int index_texts(checkpoint *c, kv_err *e)
{
    int64_t n = 0;
    c->text_names = mem_alloc(c->ntexts, sizeof *c->text_names, e);
    if (!c->text_names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->ntexts; i++)
        c->text_names[i] = (named){c->texts[i].name, i};
    named_sort(c->text_names, c->ntexts);
    for (int64_t i = 1; i < c->ntexts; i++) {
        if (strcmp(c->text_names[i].name, c->text_names[i - 1].name) == 0)
            c->texts[c->text_names[i].i].name = NULL;
    }
    for (int64_t i = 0; i < c->ntexts; i++) {
        if (c->texts[i].name)
            c->texts[n++] = c->texts[i];
    }
    c->ntexts = n;
    for (int64_t i = 0; i < n; i++)
        c->text_names[i] = (named){c->texts[i].name, i};
    named_sort(c->text_names, n);
    return KV_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static checkpoint *new_checkpoint(const char *path, const checkpoint_options *o, kv_err *e)
{
    checkpoint *c = mem_zalloc(1, sizeof *c, e);
    if (!c)
        return NULL;
    c->options = o ? *o : (checkpoint_options){0};
    c->name = mem_text(path, strlen(path), e);
    if (!c->name) {
        mem_free(c);
        return NULL;
    }
    return c;
}

/* Reads the file that was opened last, by its first bytes. */
static int read_file(checkpoint *c, kv_err *e)
{
    return safetensors_read(c, (int)c->nfiles - 1, e);
}

/* Hands c over, unless reading it failed. */
static int finish(checkpoint **out, checkpoint *c, int code, kv_err *e)
{
    if (!code && !(code = index_names(c, e)))
        code = index_texts(c, e);
    if (code)
        checkpoint_close(c);
    else
        *out = c;
    return code;
}

int checkpoint_open(checkpoint **out, const char *path, const checkpoint_options *o, kv_err *e)
{
    input in;
    checkpoint *c = new_checkpoint(strcmp(path, "-") == 0 ? "stdin" : path, o, e);
    if (!c)
        return KV_E_MEMORY;
    int code = input_open(&in, path, e);
    if (!code && !(code = checkpoint_add_file(c, &in, e)))
        code = read_file(c, e);
    return finish(out, c, code, e);
}

int checkpoint_open_memory(checkpoint **out, const void *text, size_t n, const char *name,
                           kv_err *e)
{
    input in;
    checkpoint *c = new_checkpoint(name, NULL, e);
    if (!c)
        return KV_E_MEMORY;
    int code = input_open_memory(&in, text, (int64_t)n, name, e);
    if (!code && !(code = checkpoint_add_file(c, &in, e)))
        code = safetensors_read(c, 0, e);
    return finish(out, c, code, e);
}
