/* Opening what a path names: the first bytes of a file choose its reader. */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/gguf.h"
#include "checkpoint/sharded.h"
#include "checkpoint/weights.h"

/* ---- Names ----------------------------------------------------------------------------------- */

/* Two tensors of one name. */
static int twice(const checkpoint *c, const tensor_info *a, const tensor_info *b, kv_err *e)
{
    if (a->file == b->file)
        return checkpoint_fault(c, KV_E_FORMAT, a->name, a->file, e,
                                "two tensors have the name \"%.*s\"", SHOWN(a->name));
    const char *first = checkpoint_base(c->files[a->file].name);
    const char *second = checkpoint_base(c->files[b->file].name);
    int code =
        checkpoint_fault(c, KV_E_FORMAT, a->name, -1, e, "tensor \"%.*s\" is in %.*s and in %.*s",
                         SHOWN(a->name), SHOWN(first), SHOWN(second));
    if (code)
        kv_err_hint(e, "name one of the files, or the index that tells which tensor is where");
    return code;
}

/* Sorts the names; a name that stands twice is a fault of the files, and then the first counts. */
static int index_names(checkpoint *c, kv_err *e)
{
    int code = KV_OK;
    c->tensor_names = mem_alloc(c->ntensors, sizeof *c->tensor_names, e);
    if (!c->tensor_names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->ntensors; i++)
        c->tensor_names[i] = (named){c->tensors[i].name, i};
    const named *names = c->tensor_names;
    if (!named_sort(c->tensor_names, c->ntensors))
        return KV_OK;
    for (int64_t i = 1; i < c->ntensors && !code; i++) {
        if (strcmp(names[i - 1].name, names[i].name) == 0)
            code = twice(c, &c->tensors[names[i - 1].i], &c->tensors[names[i].i], e);
    }
    return code;
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

/* The reader of the file that was opened last, by its first bytes. None of the others' can begin a
 * safetensors file. */
static int choose_reader(const checkpoint *c, checkpoint_reader **read, kv_err *e)
{
    char first[4] = {0};
    const input *in = &c->files[c->nfiles - 1];
    int code = input_read(in, first, 0, in->size < 4 ? in->size : 4, e);
    *read = memcmp(first, GGUF_MAGIC, 4) == 0 ? gguf_read : safetensors_read;
    return code;
}

static int read_file(checkpoint *c, const char *path, kv_err *e)
{
    input in;
    bool whole;
    checkpoint_reader *read;
    int code = input_open(&in, path, e);
    if (!code && !(code = checkpoint_add_file(c, &in, e)) && !(code = choose_reader(c, &read, e)))
        code = checkpoint_read(c, read, &whole, e);
    return code;
}

/* Hands c over, unless reading it failed. */
static int finish(checkpoint **out, checkpoint *c, int code, kv_err *e)
{
    if (!code && c->options.weights)
        weights_only(c);
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
    checkpoint *c = new_checkpoint(strcmp(path, "-") == 0 ? "stdin" : path, o, e);
    if (!c)
        return KV_E_MEMORY;
    int code = sharded_named(path) ? sharded_read(c, path, e) : read_file(c, path, e);
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
