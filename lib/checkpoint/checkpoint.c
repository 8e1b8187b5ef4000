/* What a checkpoint holds: built by the readers of formats, then looked at. */
#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <stdarg.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"

/* ---- Names in order -------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->i > y->i) - (x->i < y->i);
}

const char *named_sort(named *names, int64_t n)
{
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int64_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1].name, names[i].name) == 0)
            return names[i].name;
    }
    return NULL;
}

int named_check(named *names, int64_t n, const char *path, kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        if (!utf8_valid(names[i].name, strlen(names[i].name)))
            return file_bad(e, KV_E_VALUE, path, "the name of a tensor is not UTF-8");
    }
    const char *twice = named_sort(names, n);
    if (twice)
        return file_bad(e, KV_E_VALUE, path, "two tensors have the name \"%.*s\"", SHOWN(twice));
    return KV_OK;
}

static int64_t find_name(const named *names, int64_t n, const char *name)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(names[middle].name, name);
        if (order == 0)
            return names[middle].i;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- Building -------------------------------------------------------------------------------- */

int checkpoint_add_file(checkpoint *c, input *in, kv_err *e)
{
    int code = mem_grow(&c->files, &c->files_cap, c->nfiles + 1, sizeof *c->files, e);
    if (code)
        input_close(in);
    else
        c->files[c->nfiles++] = *in;
    return code;
}

int checkpoint_add(checkpoint *c, const tensor_info *t, kv_err *e)
{
    size_t bytes = (size_t)t->ndim * sizeof *t->shape;
    int code = mem_grow(&c->tensors, &c->tensors_cap, c->ntensors + 1, sizeof *c->tensors, e);
    if (code)
        return code;
    tensor_info *kept = &c->tensors[c->ntensors];
    int64_t *shape = arena_alloc(&c->memory, bytes, e);
    *kept = *t;
    kept->name = arena_text(&c->memory, t->name, strlen(t->name), e);
    if (!shape || !kept->name)
        return KV_E_MEMORY;
    if (bytes)
        memcpy(shape, t->shape, bytes);
    kept->shape = shape;
    c->ntensors++;
    return KV_OK;
}

int checkpoint_add_text(checkpoint *c, const char *name, const char *text, kv_err *e)
{
    int code = mem_grow(&c->texts, &c->texts_cap, c->ntexts + 1, sizeof *c->texts, e);
    if (code)
        return code;
    checkpoint_text *kept = &c->texts[c->ntexts];
    kept->name = arena_text(&c->memory, name, strlen(name), e);
    kept->text = arena_text(&c->memory, text, strlen(text), e);
    if (!kept->name || !kept->text)
        return KV_E_MEMORY;
    c->ntexts++;
    return KV_OK;
}

int checkpoint_fault(const checkpoint *c, kv_code code, const char *key, int file, kv_err *e,
                     const char *fmt, ...)
{
    buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    const char *path = file < 0 ? c->name : c->files[file].name;
    if (c->options.found)
        code = c->options.found(c->options.arg, key, file < 0 ? NULL : path, buf_text(&text), e);
    else
        file_bad(e, code, path, "%s", buf_text(&text));
    buf_release(&text);
    return code;
}

void checkpoint_close(checkpoint *c)
{
    if (!c)
        return;
    for (int64_t i = 0; i < c->nfiles; i++)
        input_close(&c->files[i]);
    mem_free(c->files);
    mem_free(c->tensors);
    mem_free(c->texts);
    mem_free(c->tensor_names);
    mem_free(c->text_names);
    mem_free(c->name);
    arena_release(&c->memory);
    mem_free(c);
}

/* ---- Contents -------------------------------------------------------------------------------- */

const char *checkpoint_name(const checkpoint *c)
{
    return c->name;
}

int64_t checkpoint_count(const checkpoint *c)
{
    return c->ntensors;
}

const tensor_info *checkpoint_at(const checkpoint *c, int64_t i)
{
    return &c->tensors[i];
}

int64_t checkpoint_find(const checkpoint *c, const char *name)
{
    return find_name(c->tensor_names, c->ntensors, name);
}

int64_t checkpoint_metadata_count(const checkpoint *c)
{
    return c->ntexts;
}

const checkpoint_text *checkpoint_metadata_at(const checkpoint *c, int64_t i)
{
    return &c->texts[i];
}

const char *checkpoint_metadata(const checkpoint *c, const char *name)
{
    int64_t i = find_name(c->text_names, c->ntexts, name);
    return i < 0 ? NULL : c->texts[i].text;
}

int checkpoint_nfiles(const checkpoint *c)
{
    return (int)c->nfiles;
}

const char *checkpoint_file(const checkpoint *c, int file)
{
    return c->files[file].name;
}

int64_t checkpoint_file_bytes(const checkpoint *c, int file)
{
    return c->files[file].size;
}
