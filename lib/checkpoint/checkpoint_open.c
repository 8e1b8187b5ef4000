/* Opening what a path names: the first bytes of a file choose its reader. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/gguf.h"
#include "checkpoint/in_place.h"
#include "checkpoint/looks_like.h"
#include "checkpoint/params.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/sharded.h"

/* ---- Names ----------------------------------------------------------------------------------- */

/* Two tensors of one name. */
static int twice(const checkpoint *c, const tensor_info *a, const tensor_info *b, kv_err *e)
{
    if (c->made_names && !c->options.found)
        return file_bad(e, KV_E_VALUE, c->files[a->file].name, "two tensors have the name \"%.*s\"",
                        SHOWN(a->name));
    if (a->file == b->file || c->made_names)
        return checkpoint_fault(c, a->name, a->file, e, "two tensors have the name \"%.*s\"",
                                SHOWN(a->name));
    const char *first = checkpoint_base(c->files[a->file].name);
    const char *second = checkpoint_base(c->files[b->file].name);
    int rc = checkpoint_fault_at(c, a->name, NULL, e, "tensor \"%.*s\" is in %.*s and in %.*s",
                                 SHOWN(a->name), SHOWN(first), SHOWN(second));
    if (rc && c->safetensors)
        kv_err_hint(e, "name one of the files, or the index that tells which tensor is where");
    return rc;
}

/* Sorts the names; a name that stands twice is a fault of the files, and then the first counts. */
static int index_names(checkpoint *c, kv_err *e)
{
    c->tensor_names = mem_alloc(c->ntensors, sizeof *c->tensor_names, e);
    if (!c->tensor_names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->ntensors; i++)
        c->tensor_names[i] = (named){c->tensors[i].name, i};
    const named *names = c->tensor_names;
    if (!named_sort(c->tensor_names, c->ntensors))
        return KV_OK;
    for (int64_t i = 1; i < c->ntensors; i++)
        if (strcmp(names[i - 1].name, names[i].name) == 0)
            TRY(twice(c, &c->tensors[names[i - 1].i], &c->tensors[names[i].i], e));
    return KV_OK;
}

/* Several files may have texts of the same name: the first one stays. */
static int index_texts(checkpoint *c, kv_err *e)
{
    TRY(checkpoint_drop_texts(c, 0, false, e));
    c->text_names = mem_alloc(c->ntexts, sizeof *c->text_names, e);
    if (!c->text_names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->ntexts; i++)
        c->text_names[i] = (named){c->texts[i].name, i};
    named_sort(c->text_names, c->ntexts);
    return KV_OK;
}

/* ---- Weights --------------------------------------------------------------------------------- */

#define OURS "kvstore."
#define KEY  "__key__/"

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool is_a_store(const checkpoint *c)
{
    for (int64_t i = 0; i < c->ntexts; i++) {
        if (strcmp(c->texts[i].name, OURS "format") == 0)
            return true;
    }
    return false;
}

/* The keys' values of a store's file (store_file.h), which has a text "kvstore.format": drops the
 * tensors under __state__/ and __residual__/ and the texts under kvstore., and gives keys that
 * stand behind __key__/ their own names. A row_sparse key stays what it is in the file, the two
 * tensors __rows__/KEY/row_ids and __rows__/KEY/data: as one tensor it would have all its rows. */
static void weights_only(checkpoint *c)
{
    int64_t n = 0;
    if (!is_a_store(c))
        return;
    for (int64_t i = 0; i < c->ntensors; i++) {
        tensor_info t = c->tensors[i];
        if (begins(t.name, "__state__/") || begins(t.name, "__residual__/"))
            continue;
        if (begins(t.name, KEY))
            t.name += strlen(KEY);
        c->tensors[n++] = t;
    }
    c->ntensors = n;
    n = 0;
    for (int64_t i = 0; i < c->ntexts; i++) {
        if (!begins(c->texts[i].name, OURS))
            c->texts[n++] = c->texts[i];
    }
    c->ntexts = n;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static checkpoint *new_checkpoint(const char *path, const checkpoint_options *o, kv_err *e)
{
    checkpoint *c = mem_zalloc(1, sizeof *c, e);
    if (!c)
        return NULL;
    c->refs = 1;
    c->options = o ? *o : (checkpoint_options){0};
    c->name = mem_text(path, strlen(path), e);
    if (!c->name) {
        mem_free(c);
        return NULL;
    }
    return c;
}

/* How files begin that are no safetensors files. */
static const struct {
    const char *begin;
    size_t n;
    checkpoint_reader *read;
} readers[] = {
    {"\x93NUMPY", 6, npy_read_tensor},
    {GGUF_MAGIC, 4, gguf_read},
    {PARAMS_MAGIC, PARAMS_MAGIC_BYTES, params_read},
    {"PK\3\4", 4, npz_read},
    {"PK\5\6", 4, npz_read}, /* an archive without members */
};

/* Returns true if a file begins with the length of a header and a header: any bytes may be a
 * length. */
static bool has_header(const char *begin, int64_t n)
{
    uint64_t length;
    memcpy(&length, begin, sizeof length);
    int64_t i = 8;
    while (i < n && begin[i] && strchr(" \t\r\n", begin[i]))
        i++;
    return n > 8 && length <= SAFETENSORS_HEADER_MAX && (i == n || begin[i] == '{');
}

/* The reader of the file that was opened last, by its first bytes. Bytes may stand before an
 * archive. */
static int choose_reader(const checkpoint *c, checkpoint_reader **read, kv_err *e)
{
    const input *in = &c->files[c->nfiles - 1];
    char begin[16] = {0};
    int64_t n = in->size < (int64_t)sizeof begin ? in->size : (int64_t)sizeof begin;
    TRY(input_read(in, begin, 0, n, e));
    *read = c->options.npy ? npy_read_tensor : safetensors_read;
    if (c->options.npy)
        return KV_OK;
    if (n >= 8 && memcmp(begin, IN_PLACE_MARK, 8) == 0)
        return in_place_lost(in->name, e);
    if (has_header(begin, n))
        return KV_OK;
    if (utf8_ends_in(in->name, ".npz"))
        *read = npz_read;
    TRY(looks_like_name(in, e));
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (memcmp(begin, readers[i].begin, readers[i].n) == 0)
            *read = readers[i].read;
    }
    return KV_OK;
}

/* Reads a file that was opened; it belongs to the checkpoint. */
static int read_input(checkpoint *c, input *in, kv_err *e)
{
    bool whole = false;
    checkpoint_reader *read = NULL;
    TRY(checkpoint_add_file(c, in, e));
    TRY(choose_reader(c, &read, e));
    TRY(checkpoint_read(c, read, &whole, e));
    return c->split.count > 1 ? gguf_split_read(c, whole, e) : KV_OK;
}

/* Hands *c over, which was read; after an error the caller has it still. */
static int finish(checkpoint **out, checkpoint **c, kv_err *e)
{
    if ((*c)->options.weights)
        weights_only(*c);
    TRY(index_names(*c, e));
    TRY(index_texts(*c, e));
    *out = *c;
    *c = NULL;
    return KV_OK;
}

/* FILE#PART names a part of a file of PyTorch, unless a file has this name. Cuts the text behind
 * FILE and returns PART, or leaves it and returns NULL. */
static char *cut_part(char *path)
{
    if (checkpoint_is_there(path))
        return NULL;
    for (char *at = path; (at = strchr(at, '#')); at++) {
        *at = '\0';
        if (*path && at[1] && checkpoint_is_there(path))
            return at + 1;
        *at = '#';
    }
    return NULL;
}

bool checkpoint_stands(const char *path)
{
    char copy[PATH_MAX];
    if (checkpoint_is_there(path))
        return true;
    return (size_t)snprintf(copy, sizeof copy, "%s", path) < sizeof copy && cut_part(copy);
}

int checkpoint_open(checkpoint **out, const char *path, const checkpoint_options *o, kv_err *e)
{
    input in;
    bool is_stdin = strcmp(path, "-") == 0;
    own_checkpoint *c = new_checkpoint(is_stdin ? "stdin" : path, o, e);
    if (!c)
        return KV_E_MEMORY;
    c->part = is_stdin ? NULL : cut_part(c->name); /* behind the name, in its memory */
    path = is_stdin ? path : c->name;
    c->choose = choose_reader;
    if (!c->options.npy && sharded_named(path)) {
        TRY(sharded_read(c, path, e));
    } else {
        TRY(input_open(&in, path, e));
        TRY(read_input(c, &in, e));
    }
    if (c->part && !c->made_names) {
        file_bad(e, KV_E_UNSUPPORTED, c->name, "only files of PyTorch have parts, as #%.*s",
                 SHOWN(c->part));
        return kv_err_hint(e, "names of keys are chosen by a pattern"), KV_E_UNSUPPORTED;
    }
    return finish(out, &c, e);
}

int checkpoint_open_memory(checkpoint **out, const void *text, size_t n, const char *name,
                           kv_err *e)
{
    input in;
    own_checkpoint *c = new_checkpoint(name, NULL, e);
    if (!c)
        return KV_E_MEMORY;
    TRY(input_open_memory(&in, text, (int64_t)n, name, e));
    TRY(read_input(c, &in, e));
    return finish(out, &c, e);
}

/* Each tensor is a file of its own. */
static int add_memory(checkpoint *c, const tensor_info *t, const void *data, kv_err *e)
{
    input in;
    tensor_info info = {.name = t->name, .type = t->type, .ndim = t->ndim, .shape = t->shape};
    info.elements = tensor_elements(t->ndim, t->shape);
    info.bytes = tensor_type_bytes(t->type, info.elements);
    info.stored_bytes = info.bytes;
    info.file = (int)c->nfiles;
    if (info.bytes < 0)
        return file_bad(e, KV_E_VALUE, c->name, "tensor \"%.*s\" has no whole number of bytes",
                        SHOWN(t->name));
    TRY(input_open_memory(&in, data, info.bytes, c->name, e));
    TRY(checkpoint_add_file(c, &in, e));
    return checkpoint_add(c, &info, e);
}

int checkpoint_of_memory(checkpoint **out, const tensor_info *tensors, const void *const *data,
                         int64_t n, const checkpoint_text *metadata, int64_t nmetadata,
                         const char *name, kv_err *e)
{
    own_checkpoint *c = new_checkpoint(name, NULL, e);
    if (!c)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        TRY(add_memory(c, &tensors[i], data[i], e));
    for (int64_t i = 0; i < nmetadata; i++)
        TRY(checkpoint_add_text(c, metadata[i].name, metadata[i].text, e));
    return finish(out, &c, e);
}
