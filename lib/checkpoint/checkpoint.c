/* The contents of a checkpoint: the readers of formats build them, others look at them. */
#include "checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
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
    if (n > 0) /* without names there may be no memory for them */
        qsort(names, (size_t)n, sizeof *names, by_name);
    for (int64_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1].name, names[i].name) == 0)
            return names[i].name;
    }
    return NULL;
}

int named_check(named *names, int64_t n, const char *what, const char *path, kv_err *e)
{
    for (int64_t i = 0; i < n; i++)
        if (!utf8_valid(names[i].name, strlen(names[i].name)))
            return file_bad(e, KV_E_VALUE, path, "the name of a %s is not UTF-8", what);
    const char *twice = named_sort(names, n);
    if (twice)
        return file_bad(e, KV_E_VALUE, path, "two %ss have the name \"%.*s\"", what, SHOWN(twice));
    return KV_OK;
}

int64_t named_find(const named *names, int64_t n, const char *name)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (strcmp(names[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && strcmp(names[low].name, name) == 0 ? low : -1;
}

/* ---- Building -------------------------------------------------------------------------------- */

int checkpoint_add_file(checkpoint *c, input *in, kv_err *e)
{
    int rc = mem_grow(&c->files, &c->files_cap, c->nfiles + 1, sizeof *c->files, e);
    if (rc)
        input_close(in);
    else
        c->files[c->nfiles++] = *in;
    return rc;
}

int checkpoint_add(checkpoint *c, const tensor_info *t, kv_err *e)
{
    size_t bytes = (size_t)t->ndim * sizeof *t->shape;
    TRY(mem_grow(&c->tensors, &c->tensors_cap, c->ntensors + 1, sizeof *c->tensors, e));
    tensor_info *kept = &c->tensors[c->ntensors];
    int64_t *shape = arena_alloc(&c->memory, bytes, e);
    *kept = *t;
    kept->name = arena_text(&c->memory, t->name, strlen(t->name), e);
    if (!shape || !kept->name)
        return KV_E_MEMORY;
    if (bytes)
        memcpy(shape, t->shape, bytes);
    kept->shape = shape;
    if (t->strides) {
        int64_t *strides = arena_alloc(&c->memory, bytes, e);
        if (!strides)
            return KV_E_MEMORY;
        memcpy(strides, t->strides, bytes);
        kept->strides = strides;
    }
    if (t->value && !(kept->value = arena_text(&c->memory, t->value, strlen(t->value), e)))
        return KV_E_MEMORY;
    if (t->odd && !(kept->odd = arena_text(&c->memory, t->odd, strlen(t->odd), e)))
        return KV_E_MEMORY;
    c->ntensors++;
    return KV_OK;
}

int checkpoint_add_text(checkpoint *c, const char *name, const char *text, kv_err *e)
{
    TRY(mem_grow(&c->texts, &c->texts_cap, c->ntexts + 1, sizeof *c->texts, e));
    checkpoint_text *kept = &c->texts[c->ntexts];
    kept->name = arena_text(&c->memory, name, strlen(name), e);
    kept->text = arena_text(&c->memory, text, strlen(text), e);
    if (!kept->name || !kept->text)
        return KV_E_MEMORY;
    c->ntexts++;
    return KV_OK;
}

int checkpoint_drop_texts(checkpoint *c, int64_t first, bool last, kv_err *e)
{
    int64_t n = c->ntexts - first, kept = first;
    own_mem named *names = mem_alloc(n, sizeof *names, e);
    if (!names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        names[i] = (named){c->texts[first + i].name, first + i};
    named_sort(names, n);
    for (int64_t i = 1; i < n; i++)
        if (strcmp(names[i - 1].name, names[i].name) == 0)
            c->texts[names[last ? i - 1 : i].i].name = NULL;
    for (int64_t i = first; i < c->ntexts; i++)
        if (c->texts[i].name)
            c->texts[kept++] = c->texts[i];
    c->ntexts = kept;
    return KV_OK;
}

int checkpoint_fault_at(const checkpoint *c, const char *key, const char *path, kv_err *e,
                        const char *fmt, ...)
{
    own_buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    TRY(buf_check(&text, e));
    return c->options.found
               ? c->options.found(c->options.arg, key, path, buf_text(&text), e)
               : file_bad(e, KV_E_FORMAT, path ? path : c->name, "%s", buf_text(&text));
}

int checkpoint_leave_out(const checkpoint *c, int file, const char *what, const char *name,
                         kv_err *e, const char *fmt, ...)
{
    own_buf text = {0};
    const char *key = utf8_valid(name, strlen(name)) ? name : NULL;
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    TRY(buf_check(&text, e));
    TRY(checkpoint_fault(c, key, file, e, "%s \"%.*s\"%s%s", what, SHOWN(name),
                         *fmt == ':' ? "" : " ", buf_text(&text)));
    return LEFT_OUT;
}

bool checkpoint_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool checkpoint_is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

const char *checkpoint_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *checkpoint_path_in(const char *folder, const char *name, kv_err *e)
{
    own_buf text = {0};
    size_t n = strlen(folder);
    buf_printf(&text, "%s%s%s", folder, n > 0 && folder[n - 1] == '/' ? "" : "/", name);
    return buf_check(&text, e) ? NULL : mem_text(text.data, text.len, e);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int folder_names_read(folder_names *out, const char *path, kv_err *e)
{
    const struct dirent *found;
    DIR *folder = opendir(path);
    int rc = folder ? KV_OK : file_error(e, "read", path, errno);
    while (!rc && (errno = 0, found = readdir(folder))) {
        const char *name = found->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        rc = mem_grow(&out->list, &out->cap, out->n + 1, sizeof *out->list, e);
        if (!rc && !(out->list[out->n++] = arena_text(&out->memory, name, strlen(name), e)))
            rc = KV_E_MEMORY;
    }
    if (!rc && errno)
        rc = file_error(e, "read", path, errno);
    if (folder)
        closedir(folder);
    if (!rc && out->n > 0)
        qsort(out->list, (size_t)out->n, sizeof *out->list, by_text);
    return rc;
}

void folder_names_release(folder_names *f)
{
    mem_free(f->list);
    arena_release(&f->memory);
}

/* ---- Reading a file -------------------------------------------------------------------------- */

const char *checkpoint_without_name(const char *text, const char *name)
{
    size_t n = strlen(name);
    return strncmp(text, name, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

/* Drops the tensors from `first` on that do not stand within their file; returns their number. */
static int64_t keep_inside(checkpoint *c, int64_t first)
{
    int64_t n = first, all = c->ntensors;
    for (int64_t i = first; i < all; i++) {
        const tensor_info *t = &c->tensors[i];
        int64_t size = c->files[t->file].size;
        if (t->offset >= 0 && t->offset <= size && t->stored_bytes >= 0 &&
            t->stored_bytes <= size - t->offset)
            c->tensors[n++] = *t;
    }
    c->ntensors = n;
    return all - n;
}

/* The receiver of findings, and how many were about tensors. */
typedef struct counted {
    checkpoint_options asked;
    int64_t n;
} counted;

static int count_finding(void *arg, const char *key, const char *file, const char *finding,
                         kv_err *e)
{
    counted *to = arg;
    to->n += key != NULL;
    return to->asked.found(to->asked.arg, key, file, finding, e);
}

int checkpoint_read(checkpoint *c, checkpoint_reader *read, bool *whole, kv_err *e)
{
    kv_err why = {0};
    counted tensors = {.asked = c->options};
    int64_t first = c->ntensors;
    int file = (int)c->nfiles - 1;
    c->foreign = false;
    if (c->options.found) {
        c->options.found = count_finding;
        c->options.arg = &tensors;
    }
    int rc = read(c, file, &why);
    c->options = tensors.asked;
    int64_t outside = keep_inside(c, first);
    kv_assert(rc || outside == 0, "the reader of \"%s\" gave %lld tensors outside of it",
              c->files[file].name, (long long)outside);
    *whole = !rc && tensors.n == 0;
    if (c->options.found && (rc == KV_E_FORMAT || rc == KV_E_UNSUPPORTED) &&
        (c->sharded || !c->foreign))
        return checkpoint_fault(c, NULL, file, e, "%s",
                                checkpoint_without_name(why.text, c->files[file].name));
    if (rc) {
        kv_err_set(e, rc, "%s", why.text);
        kv_err_hint(e, "%s", why.hint);
    }
    return rc;
}

int checkpoint_read_file(checkpoint *c, const char *path, const char *what, checkpoint_reader *read,
                         bool *whole, kv_err *e)
{
    input in;
    struct stat about;
    *whole = false;
    /* opening a pipe would wait for its writer */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return file_bad(e, KV_E_IO, path, "%s has to be a regular file", what);
    TRY(input_open(&in, path, e));
    TRY(checkpoint_add_file(c, &in, e));
    TRY(read ? KV_OK : c->choose(c, &read, e));
    return checkpoint_read(c, read, whole, e);
}

void checkpoint_close(checkpoint *c)
{
    if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (int64_t i = 0; i < c->nfiles; i++)
        input_close(&c->files[i]);
    mem_free(c->files);
    mem_free(c->tensors);
    mem_free(c->values);
    mem_free(c->texts);
    for (int64_t i = 0; i < c->nsums; i++)
        mem_free(atomic_load(&c->sums[i].many));
    mem_free(c->sums);
    mem_free(c->tensor_names);
    mem_free(c->text_names);
    mem_free(c->name);
    buf_release(&c->others);
    arena_release(&c->memory);
    mem_free(c);
}

/* ---- Contents -------------------------------------------------------------------------------- */

const char *checkpoint_name(const checkpoint *c)
{
    return c->name;
}

bool checkpoint_is_safetensors(const checkpoint *c)
{
    return c->safetensors && !c->sharded;
}

int64_t checkpoint_count(const checkpoint *c)
{
    return c->ntensors;
}

const tensor_info *checkpoint_at(const checkpoint *c, int64_t i)
{
    return &c->tensors[i];
}

const char *tensor_info_type(const tensor_info *t)
{
    return t->odd ? t->odd : tensor_type_name(t->type);
}

void tensor_info_index(int64_t index[KV_MAX_NDIM], const tensor_info *t, int64_t i)
{
    for (int axis = t->ndim - 1; axis >= 0; axis--) {
        index[axis] = i % t->shape[axis];
        i /= t->shape[axis];
    }
}

int checkpoint_has_numbers(const checkpoint *c, int64_t i, kv_err *e)
{
    const tensor_info *t = &c->tensors[i];
    if (!t->odd)
        return KV_OK;
    return file_bad(e, KV_E_DTYPE, c->files[t->file].name,
                    "\"%.*s\" is not an array of numbers: its elements are %s", SHOWN(t->name),
                    t->odd);
}

int64_t checkpoint_find(const checkpoint *c, const char *name)
{
    int64_t i = named_find(c->tensor_names, c->ntensors, name);
    return i < 0 ? -1 : c->tensor_names[i].i;
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
    int64_t i = named_find(c->text_names, c->ntexts, name);
    return i < 0 ? NULL : c->texts[c->text_names[i].i].text;
}

int64_t checkpoint_others(const checkpoint *c, const char **names, const char **model)
{
    *names = buf_text(&c->others);
    *model = c->model;
    return c->nothers;
}

int checkpoint_nfiles(const checkpoint *c)
{
    return (int)c->nfiles;
}

const char *checkpoint_file(const checkpoint *c, int file)
{
    return c->files[file].name;
}

/* ---- Tensors in the order of their data ------------------------------------------------------ */

/* By begin, then by end, so that a tensor without elements stands before one that begins there. */
static int by_offset(const void *a, const void *b)
{
    const tensor_info *x = *(tensor_info *const *)a;
    const tensor_info *y = *(tensor_info *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int data_layout_check(const checkpoint *c, int file, int64_t first, int64_t data, int64_t alignment,
                      kv_err *e)
{
    int64_t n = c->ntensors - first, end = data, size = c->files[file].size;
    int64_t next = data; /* the first place from `end` on where the next tensor may begin */
    own_mem tensor_info **order = mem_alloc(n, sizeof *order, e);
    if (!order)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        order[i] = &c->tensors[first + i];
    qsort(order, (size_t)n, sizeof *order, by_offset);
    for (int64_t i = 0; i < n; i++) {
        const tensor_info *t = order[i];
        if (t->offset < end)
            TRY(checkpoint_fault(c, t->name, file, e, "tensors \"%.*s\" and \"%.*s\" overlap",
                                 SHOWN(order[i - 1]->name), SHOWN(t->name)));
        else if (t->offset > next)
            TRY(checkpoint_fault(c, t->name, file, e,
                                 "%lld bytes of data before tensor \"%.*s\" belong to no tensor",
                                 (long long)(t->offset - next), SHOWN(t->name)));
        if (t->offset + t->bytes > end)
            end = t->offset + t->bytes;
        next = end + (alignment - (end - data) % alignment) % alignment;
    }
    if (end > size)
        return file_bad(e, KV_E_FORMAT, c->files[file].name,
                        "cut within its data: %lld of %lld bytes are missing",
                        (long long)(end - (size > data ? size : data)), (long long)(end - data));
    if (next < size)
        return checkpoint_fault(c, NULL, file, e, "%lld bytes behind the data belong to no tensor",
                                (long long)(size - next));
    return KV_OK;
}
