/* Outputs that are laid out, filled and placed: see checkpoint_write.h. */
#include "checkpoint/checkpoint_write.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/folder_out.h"
#include "base/kv_assert.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/in_place.h"
#include "checkpoint/npz.h"
#include "checkpoint/params.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/sharded.h"

typedef enum out_kind { OUT_NONE, OUT_SAFETENSORS, OUT_NPZ, OUT_PARAMS, OUT_FOLDER } out_kind;

/* A file of the output. That of a folder is open from its first byte to its last one only, because
 * there may be more of them than a process may have open. */
typedef struct out_file {
    char *name;            /* for messages, and of a folder's the place: its path */
    atomic_int fd;         /* -1: not open */
    _Atomic(int64_t) left; /* bytes of tensors that are to come */
} out_file;

struct checkpoint_out {
    char *path;
    out_kind kind;
    bool unsynced, keep;
    file_out file;     /* unless it is a folder */
    folder_out folder; /* else */
    out_file *files;
    int64_t nfiles;
    out_tensor *tensors;
    int64_t n;
    buf text; /* of an npz: all that is not data, which is written last */
    int64_t directory;
    pthread_mutex_t lock; /* of the opening of files */
};

/* The tensors and options that a layout is made from. */
typedef struct layout {
    const checkpoint_entry *entries;
    int64_t n;
    const checkpoint_text *metadata;
    int64_t nmetadata;
} layout;

/* ---- Kinds ----------------------------------------------------------------------------------- */

static const struct ending {
    const char *text;
    out_kind kind;
} endings[] = {
    {"/", OUT_FOLDER}, {".safetensors", OUT_SAFETENSORS}, {".kvs", OUT_SAFETENSORS},
    {".npz", OUT_NPZ}, {".params", OUT_PARAMS},
};

static out_kind kind_of(const char *path)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (utf8_ends_in(path, endings[i].text))
            return endings[i].kind;
    return OUT_NONE;
}

bool checkpoint_out_is_path(const char *path)
{
    return kind_of(path) != OUT_NONE;
}

static int check_types(const char *path, const layout *l, kv_err *e)
{
    for (int64_t i = 0; i < l->n; i++) {
        if (l->entries[i].type < TENSOR_NSAFE)
            continue;
        file_bad(e, KV_E_DTYPE, path, "\"%.*s\" is quantised, %s, which only GGUF files hold",
                 SHOWN(l->entries[i].name), tensor_type_name(l->entries[i].type));
        return kv_err_hint(e, "--exclude leaves keys out"), KV_E_DTYPE;
    }
    return KV_OK;
}

/* ---- Writing bytes --------------------------------------------------------------------------- */

static int resize(int fd, const char *name, int64_t size, kv_err *e)
{
    return ftruncate(fd, size) == 0 ? KV_OK : file_error(e, "write", name, errno);
}

/* Returns true if a file is in memory (tmpfs). There one thread would fill its blocks with zeros
 * while the others wait, so the room is only checked. */
static bool is_in_memory(int fd, int64_t size, bool *has_room)
{
    struct statfs about;
    if (fstatfs(fd, &about) != 0 || about.f_type != TMPFS_MAGIC)
        return false;
    *has_room = about.f_blocks == 0 || size / about.f_bsize < (int64_t)about.f_bavail;
    return true;
}

/* Gives a file its size, and its blocks where the disk can do that: it is then known to have room,
 * and on ext4 several threads fill it three times as fast. */
static int reserve(int fd, const char *name, int64_t size, kv_err *e)
{
    bool has_room;
    if (is_in_memory(fd, size, &has_room))
        return has_room ? resize(fd, name, size, e) : file_error(e, "write", name, ENOSPC);
    while (fallocate(fd, 0, 0, size) != 0) {
        if (errno == EINTR) {
            if (stop_check(e))
                return e->code;
            continue;
        }
        if (errno != EOPNOTSUPP && errno != ENOSYS)
            return file_error(e, "write", name, errno);
        return resize(fd, name, size, e);
    }
    return KV_OK;
}

/* Tells the disk to begin with a piece of the file that was most likely filled, so that the wait
 * for all of it at the end is short. */
#define SYNC_BYTES ((int64_t)8 << 20)

/* The file is complete. */
static int finish_file(checkpoint_out *out, out_file *f, kv_err *e)
{
    int fd = atomic_exchange(&f->fd, -1), rc = KV_OK;
    if (!out->unsynced && file_sync(fd) != 0)
        rc = file_error(e, "write", f->name, errno);
    if (close(fd) != 0 && !rc)
        rc = file_error(e, "write", f->name, errno);
    return rc;
}

/* ---- Laying out ------------------------------------------------------------------------------ */

/* The tensors of each file, in the order of files: those of file i are items first[i] to
 * first[i + 1] - 1. numbers[k] is the number of item k among all tensors. */
typedef struct grouping {
    safetensors_entry *items;
    int64_t *numbers, *first;
} grouping;

static void grouping_release(grouping *g)
{
    mem_free(g->items);
    mem_free(g->numbers);
    mem_free(g->first);
}

static int group(grouping *g, const checkpoint_out *out, const layout *l, kv_err *e)
{
    g->items = mem_alloc(l->n, sizeof *g->items, e);
    g->numbers = mem_alloc(l->n, sizeof *g->numbers, e);
    g->first = mem_zalloc(out->nfiles + 2, sizeof *g->first, e);
    if (!g->items || !g->numbers || !g->first)
        return KV_E_MEMORY;
    /* counted two places on, so that first[file + 1] is the next free place while they are put */
    for (int64_t i = 0; i < l->n; i++)
        g->first[out->tensors[i].file + 2]++;
    for (int64_t f = 2; f < out->nfiles + 2; f++)
        g->first[f] += g->first[f - 1];
    for (int64_t i = 0; i < l->n; i++) {
        const checkpoint_entry *t = &l->entries[i];
        int64_t k = g->first[out->tensors[i].file + 1]++;
        g->items[k] = (safetensors_entry){t->name, t->type, t->ndim, t->shape, 0, 0};
        g->numbers[k] = i;
    }
    return KV_OK;
}

/* Names are unique within a file by safetensors_header, else here. */
static int check_names(const char *path, const layout *l, kv_err *e)
{
    own_mem named *names = mem_alloc(l->n, sizeof *names, e);
    if (!names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < l->n; i++)
        names[i] = (named){l->entries[i].name, i};
    return named_check(names, l->n, "tensor", path, e);
}

/* Data that begin at a page are written a tenth faster, and tensors of whole pages stay there.
 * Blanks behind the header do that, which the format allows; in small files they would only be in
 * the way. */
#define PAGE_BYTES   4096
#define ALIGNED_FROM ((int64_t)1 << 20)

static void align_data(buf *header, int64_t *size, safetensors_entry *items, int64_t n)
{
    uint64_t length;
    int64_t pad = -(int64_t)header->len & (PAGE_BYTES - 1);
    memcpy(&length, header->data, sizeof length);
    if (*size < ALIGNED_FROM || length + (uint64_t)pad > SAFETENSORS_HEADER_MAX)
        return;
    length += (uint64_t)pad;
    memcpy(header->data, &length, sizeof length);
    buf_repeat(header, ' ', pad);
    *size += pad;
    for (int64_t i = 0; i < n; i++)
        items[i].begin += pad;
}

/* Lays file f out: writes its header to fd, and reserves the rest. */
static int lay_out_file(checkpoint_out *out, int64_t f, int fd, grouping *g, const layout *l,
                        kv_err *e)
{
    own_buf header = {0};
    int64_t size, first = g->first[f], n = g->first[f + 1] - first;
    out_file *to = &out->files[f];
    safetensors_entry *items = g->items + first;
    TRY(safetensors_header(&header, &size, items, n, l->metadata, l->nmetadata, to->name, e));
    align_data(&header, &size, items, n);
    TRY(buf_check(&header, e));
    int64_t data = (int64_t)header.len;
    TRY(reserve(fd, to->name, size, e));
    TRY(file_write_at(fd, to->name, 0, header.data, data, e));
    for (int64_t i = 0; i < n; i++)
        out->tensors[g->numbers[first + i]] =
            (out_tensor){.file = f, .begin = items[i].begin, .bytes = items[i].bytes};
    atomic_store(&to->left, size - data);
    return KV_OK;
}

static int new_files(checkpoint_out *out, int64_t n, kv_err *e)
{
    out->files = mem_zalloc(n, sizeof *out->files, e);
    if (!out->files)
        return KV_E_MEMORY;
    for (out->nfiles = 0; out->nfiles < n; out->nfiles++)
        atomic_store(&out->files[out->nfiles].fd, -1);
    return KV_OK;
}

/* Opens the file beside the one that it replaces. */
static int open_beside(checkpoint_out *out, const checkpoint_out_options *o, kv_err *e)
{
    struct stat about;
    if (stat(out->path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return kv_err_set(e, KV_E_IO, "cannot write \"%s\": it is not a regular file", out->path);
    TRY(new_files(out, 1, e));
    if (!(out->files[0].name = mem_text(out->path, strlen(out->path), e)))
        return KV_E_MEMORY;
    TRY(file_out_open(&out->file, out->path, e));
    file_out_clean(&out->file);
    out->file.unsynced = o->unsynced;
    atomic_store(&out->files[0].fd, fileno(out->file.f));
    return KV_OK;
}

static int open_file(checkpoint_out *out, const layout *l, const checkpoint_out_options *o,
                     kv_err *e)
{
    OWN(grouping_release) grouping g = {0};
    TRY(open_beside(out, o, e));
    TRY(group(&g, out, l, e));
    return lay_out_file(out, 0, fileno(out->file.f), &g, l, e);
}

/* The text of a file of MXNet's, as npz.h has it of an npz. */
static int lay_out_params(buf *text, out_tensor *to, const layout *l, const char *path, kv_err *e)
{
    int64_t data = 0;
    params_put_begin(text, l->n);
    for (int64_t i = 0; i < l->n; i++) {
        const checkpoint_entry *t = &l->entries[i];
        int64_t bytes = tensor_bytes(t->type, t->ndim, t->shape);
        TRY(params_put_head(text, t->name, t->type, t->ndim, t->shape, -1, path, e));
        if (bytes < 0 || bytes > INT64_MAX / 2 - data - (int64_t)text->len)
            return file_bad(e, KV_E_VALUE, path, "\"%.*s\" is too large", SHOWN(t->name));
        to[i].begin = data + (int64_t)text->len;
        to[i].bytes = bytes;
        data += bytes;
    }
    params_put_names(text, l->n ? &l->entries->name : NULL, sizeof *l->entries, l->n);
    return buf_check(text, e);
}

/* Writes the pieces of the text before, between and behind the data. */
static int write_text(checkpoint_out *out, kv_err *e)
{
    for (int64_t i = 0, from = 0, data = 0; i <= out->n; i++) {
        const out_tensor *t = i < out->n ? &out->tensors[i] : NULL;
        int64_t at = t ? t->begin - data : (int64_t)out->text.len;
        TRY(file_write_at(fileno(out->file.f), out->path, from + data, out->text.data + from,
                          at - from, e));
        from = at;
        data += t ? t->bytes : 0;
    }
    return KV_OK;
}

/* A file whose text stands between the data of tensors. */
static int open_mixed(checkpoint_out *out, const layout *l, const checkpoint_out_options *o,
                      kv_err *e)
{
    bool is_npz = out->kind == OUT_NPZ;
    int64_t left = 0;
    TRY(check_names(out->path, l, e));
    TRY(is_npz ? npz_lay_out(&out->text, &out->directory, out->tensors, l->entries, l->n,
                             out->path, e)
               : lay_out_params(&out->text, out->tensors, l, out->path, e));
    TRY(open_beside(out, o, e));
    for (int64_t i = 0; i < l->n; i++)
        left += out->tensors[i].bytes;
    atomic_store(&out->files[0].left, left);
    TRY(reserve(fileno(out->file.f), out->path, left + (int64_t)out->text.len, e));
    return is_npz ? KV_OK : write_text(out, e);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static int split(checkpoint_out *out, const layout *l, int64_t limit, kv_err *e)
{
    own_mem int64_t *bytes = mem_alloc(l->n, sizeof *bytes, e);
    own_mem int64_t *shard = mem_alloc(l->n, sizeof *shard, e);
    if (!bytes || !shard)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < l->n; i++) {
        const checkpoint_entry *t = &l->entries[i];
        bytes[i] = tensor_bytes(t->type, t->ndim, t->shape);
        bytes[i] = bytes[i] < 0 ? 0 : bytes[i]; /* safetensors_header says what is wrong */
    }
    TRY(new_files(out, shards_split(shard, bytes, l->n, limit), e));
    for (int64_t i = 0; i < l->n; i++)
        out->tensors[i].file = shard[i];
    return KV_OK;
}

static int make_shard(checkpoint_out *out, int64_t f, grouping *g, const layout *l, kv_err *e)
{
    char name[SHARD_NAME_MAX];
    out_file *to = &out->files[f];
    shard_name(name, f, out->nfiles);
    to->name = checkpoint_path_in(out->path, name, e);
    if (!to->name)
        return KV_E_MEMORY;
    int fd = openat(out->folder.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return file_error(e, "write", to->name, errno);
    atomic_store(&to->fd, fd);
    int rc = lay_out_file(out, f, fd, g, l, e);
    if (!rc && atomic_load(&to->left) == 0)
        return finish_file(out, to, e);
    atomic_store(&to->fd, -1);
    if (close(fd) != 0 && !rc)
        rc = file_error(e, "write", to->name, errno);
    return rc;
}

static int write_index(checkpoint_out *out, const layout *l, kv_err *e)
{
    own_buf text = {0};
    int64_t total = 0;
    own_mem named *entries = mem_alloc(l->n, sizeof *entries, e);
    own_mem char *name = checkpoint_path_in(out->path, SHARD_INDEX, e);
    out_file index = {.name = name};
    if (!entries || !name)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < l->n; i++) {
        entries[i] = (named){l->entries[i].name, out->tensors[i].file};
        total += out->tensors[i].bytes;
    }
    shards_index(&text, entries, l->n, out->nfiles, total);
    TRY(buf_check(&text, e));
    int fd = openat(out->folder.fd, SHARD_INDEX, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    atomic_store(&index.fd, fd);
    if (fd < 0)
        return file_error(e, "write", name, errno);
    int rc = file_write_at(fd, name, 0, text.data, (int64_t)text.len, e);
    if (rc)
        return close(fd), rc;
    return finish_file(out, &index, e);
}

static int open_folder(checkpoint_out *out, const layout *l, const checkpoint_out_options *o,
                       kv_err *e)
{
    OWN(grouping_release) grouping g = {0};
    TRY(check_names(out->path, l, e));
    TRY(split(out, l, o->shard_bytes ? o->shard_bytes : SHARD_BYTES, e));
    TRY(group(&g, out, l, e));
    TRY(folder_out_open(&out->folder, out->path, o->force, e));
    out->folder.unsynced = o->unsynced;
    file_clean_beside(out->folder.path);
    for (int64_t f = 0; f < out->nfiles; f++) {
        TRY(stop_check(e));
        TRY(make_shard(out, f, &g, l, e));
    }
    TRY(out->nfiles > 1 ? write_index(out, l, e) : KV_OK);
    return o->files ? folder_files_copy(o->files, out->folder.fd, out->path, o->unsynced, e)
                    : KV_OK;
}

/* Gives the new folder those files of the old one that hold no tensors. */
static int keep_files(checkpoint_out *out, kv_err *e)
{
    own_folder_names old = {0};
    int rc = KV_OK, from = -1;
    if (out->folder.replaces) {
        TRY(folder_names_read(&old, out->folder.path, e));
        if ((from = open(out->folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
            return file_error(e, "read", out->path, errno);
    }
    for (int64_t i = 0; i < old.n && !rc; i++) {
        const char *name = old.list[i];
        if (!utf8_ends_in(name, ".safetensors") && !utf8_ends_in(name, SHARD_INDEX_ENDING) &&
            linkat(from, name, out->folder.fd, name, 0) != 0)
            rc = file_error(e, "keep", name, errno);
    }
    if (from >= 0)
        close(from);
    return rc;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void release(checkpoint_out *out)
{
    for (int64_t i = 0; i < out->nfiles; i++) {
        int fd = atomic_load(&out->files[i].fd);
        if (out->kind == OUT_FOLDER && fd >= 0)
            close(fd);
        mem_free(out->files[i].name);
    }
    pthread_mutex_destroy(&out->lock);
    buf_release(&out->text);
    mem_free(out->files);
    mem_free(out->tensors);
    mem_free(out->path);
    mem_free(out);
}

static int open_kind(checkpoint_out *out, const layout *l, const checkpoint_out_options *o,
                     kv_err *e)
{
    switch (out->kind) {
    case OUT_NONE:
        kv_err_set(e, KV_E_USAGE, "\"%s\": nothing says in which format to write it", out->path);
        return kv_err_hint(e, "names end in .safetensors, .npz, .params or .kvs, that of a folder "
                              "in /"),
               KV_E_USAGE;
    case OUT_SAFETENSORS:
        return open_file(out, l, o, e);
    case OUT_NPZ:
    case OUT_PARAMS:
        return open_mixed(out, l, o, e);
    case OUT_FOLDER:
        return open_folder(out, l, o, e);
    }
    return KV_OK;
}

int checkpoint_out_open(checkpoint_out **to, const char *path, const checkpoint_entry *entries,
                        int64_t n, const checkpoint_text *metadata, int64_t nmetadata,
                        const checkpoint_out_options *o, kv_err *e)
{
    static const checkpoint_out_options none;
    layout l = {entries, n, metadata, nmetadata};
    checkpoint_out *out = mem_zalloc(1, sizeof *out, e);
    if (!out)
        return KV_E_MEMORY;
    pthread_mutex_init(&out->lock, NULL);
    out->kind = o && o->any_name ? OUT_SAFETENSORS : kind_of(path);
    out->folder.fd = -1;
    out->unsynced = o && o->unsynced;
    out->keep = o && o->keep;
    out->n = n;
    out->path = mem_text(path, strlen(path), e);
    out->tensors = mem_zalloc(n, sizeof *out->tensors, e);
    int rc = out->path && out->tensors ? check_types(path, &l, e) : KV_E_MEMORY;
    if (!rc)
        rc = open_kind(out, &l, o ? o : &none, e);
    if (rc)
        checkpoint_out_abandon(out);
    else
        *to = out;
    return rc;
}

/* The file, opened. */
static int open_again(checkpoint_out *out, int64_t file, int *fd, kv_err *e)
{
    char name[SHARD_NAME_MAX];
    out_file *f = &out->files[file];
    int rc = KV_OK;
    if ((*fd = atomic_load(&f->fd)) >= 0)
        return KV_OK;
    pthread_mutex_lock(&out->lock);
    if ((*fd = atomic_load(&f->fd)) < 0) {
        shard_name(name, file, out->nfiles);
        *fd = openat(out->folder.fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        if (*fd < 0)
            rc = file_error(e, "write", f->name, errno);
        atomic_store(&f->fd, *fd);
    }
    pthread_mutex_unlock(&out->lock);
    return rc;
}

int checkpoint_out_put(checkpoint_out *out, int64_t i, int64_t at, const void *data, int64_t n,
                       kv_err *e)
{
    int fd;
    if (!kv_assert(i >= 0 && i < out->n && at >= 0 && n >= 0 && n <= out->tensors[i].bytes - at,
                   "%lld bytes at %lld of tensor %lld are put", (long long)n, (long long)at,
                   (long long)i))
        return kv_assert_report(e);
    if (n == 0)
        return KV_OK;
    out_tensor *t = &out->tensors[i];
    out_file *f = &out->files[t->file];
    TRY(open_again(out, t->file, &fd, e));
    TRY(file_write_at(fd, f->name, t->begin + at, data, n, e));
    if (out->kind == OUT_NPZ)
        npz_add(t, data, at, n);
    if (!out->unsynced) {
        int64_t place = t->begin + at, piece = (place + n) / SYNC_BYTES;
        if (piece > place / SYNC_BYTES)
            (void)sync_file_range(fd, (piece - 1) * SYNC_BYTES, SYNC_BYTES, SYNC_FILE_RANGE_WRITE);
    }
    /* the last to arrive finds that all others have written */
    bool last = atomic_fetch_sub(&f->left, n) == n;
    return last && out->kind == OUT_FOLDER ? finish_file(out, f, e) : KV_OK;
}

void checkpoint_out_wait(checkpoint_out *out, int64_t i)
{
    atomic_fetch_add(&out->files[out->tensors[i].file].left, out->tensors[i].bytes);
}

void checkpoint_out_again(checkpoint_out *out, int64_t i)
{
    if (out->kind == OUT_NPZ)
        atomic_store(&out->tensors[i].crc, 0);
}

int checkpoint_out_commit(checkpoint_out *out, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < out->nfiles && !rc; i++) {
        int64_t left = atomic_load(&out->files[i].left);
        if (!kv_assert(left == 0, "%s is committed, and %lld bytes were not put",
                       out->files[i].name, (long long)left))
            rc = kv_assert_report(e);
    }
    if (!rc && out->kind == OUT_NPZ) {
        npz_put_sums(&out->text, out->directory, out->tensors, out->n);
        rc = write_text(out, e);
    }
    if (!rc && out->kind == OUT_FOLDER && out->keep)
        rc = keep_files(out, e);
    if (rc) {
        checkpoint_out_abandon(out);
        return rc;
    }
    rc = out->kind == OUT_FOLDER ? folder_out_commit(&out->folder, e)
                                 : file_out_commit(&out->file, e);
    if (!rc && out->kind != OUT_FOLDER)
        in_place_forget(out->path);
    release(out);
    return rc;
}

void checkpoint_out_abandon(checkpoint_out *out)
{
    if (!out)
        return;
    file_out_abandon(&out->file);
    folder_out_abandon(&out->folder);
    release(out);
}
