/* Files beside weights.
 *
 *   copied   *.json *.txt *.model *.jinja *.md *.py *.tiktoken *.spm LICENSE* NOTICE*, up to 256 MB
 *            each; a link as the file that it leads to
 *   not      what has another name; weights and their indexes; states of training; hidden files;
 *            folders; links that lead nowhere
 *
 * In config.json the members dtype and torch_dtype whose value is a text become the new dtype, at
 * any depth but within quantization_config, which tells how codes are stored. With `unquantised`
 * that goes, at the top and in text_config. All other bytes stay.
 */
#include "checkpoint/folder_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/stop.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/json_scan.h"

#define FILE_MAX   ((off_t)256000000)
#define PIECE      ((int64_t)1 << 20)
#define CONFIG     "config.json"
#define DEPTH_MAX  64 /* of config.json */
#define CONFIG_MAX ((off_t)16000000)

void folder_files_release(folder_files *f)
{
    mem_free(f->copied);
    mem_free(f->left);
    arena_release(&f->memory);
    *f = (folder_files){0};
}

bool folder_files_has(const checkpoint *c)
{
    return checkpoint_is_folder(c->name);
}

const char *folder_files_dtype(tensor_type t)
{
    return tensor_type_kind(t) == TENSOR_KIND_FLOAT ? tensor_type_python(t) : NULL;
}

/* ---- Which ----------------------------------------------------------------------------------- */

static const char wanted[] = "@(*.json|*.txt|*.model|*.jinja|*.md|*.py|*.spm|*.tiktoken|LICENSE*|"
                             "NOTICE*)";
static const char unwanted[] = "@(*.safetensors|*.bin|*.pt|*.pth|*.ckpt|*.gguf|*.h5|*.msgpack|"
                               "*.onnx|*.npz|*.index.json|*.pkl|*.pickle|optimizer*|scheduler*|"
                               "scaler*|rng_state*|training_args.bin|trainer_state.json|"
                               "*.tfevents*)";

/* The file is one that the tensors were read from, or tells where they are. */
static bool was_read(const checkpoint *c, const char *name)
{
    for (int64_t i = 0; i < c->nfiles; i++)
        if (strcmp(checkpoint_base(c->files[i].name), name) == 0)
            return true;
    return fnmatch("*.safetensors.index.json", name, 0) == 0;
}

/* Sorts an entry of the folder into the lists. */
static int look_at(folder_files *f, int from, const char *name, kv_err *e)
{
    struct stat about;
    if (*name == '.')
        return KV_OK;
    bool there = fstatat(from, name, &about, 0) == 0;
    if (there && S_ISREG(about.st_mode) && was_read(f->from, name))
        return KV_OK;
    bool takes = there && S_ISREG(about.st_mode) && about.st_size <= FILE_MAX &&
                 fnmatch(wanted, name, FNM_EXTMATCH) == 0 &&
                 fnmatch(unwanted, name, FNM_EXTMATCH) != 0 &&
                 !(f->folded && strcmp(name, "adapter_config.json") == 0);
    const char ***list = takes ? &f->copied : &f->left;
    int64_t *n = takes ? &f->ncopied : &f->nleft;
    size_t length = strlen(name);
    int rc = mem_grow(list, takes ? &f->copied_cap : &f->left_cap, *n + 1, sizeof **list, e);
    char *kept = rc ? NULL : arena_alloc(&f->memory, length + 2, e);
    if (!kept)
        return KV_E_MEMORY;
    memcpy(kept, name, length + 1);
    if (there && S_ISDIR(about.st_mode))
        strcpy(kept + length, "/");
    (*list)[(*n)++] = kept;
    return KV_OK;
}

/* Other tools look for these first, and so do readers of a note that has room for two. */
static int rank_of(const char *name)
{
    return strcmp(name, CONFIG) == 0 ? 0 : strcmp(name, "tokenizer.json") == 0 ? 1 : 2;
}

static int list_files(folder_files *f, int from, kv_err *e)
{
    own_folder_names all = {0};
    TRY(folder_names_read(&all, f->from->name, e));
    for (int rank = 0; rank < 3; rank++)
        for (int64_t i = 0; i < all.n; i++)
            if (rank_of(all.list[i]) == rank)
                TRY(look_at(f, from, all.list[i], e));
    return KV_OK;
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* The text of config.json, while it is copied to `to` with another dtype. */
typedef struct config {
    json_scan scan;
    const char *dtype; /* NULL: it stays */
    bool unquantised;
    buf *to;
    int64_t done; /* bytes of the text that were copied */
    buf name;
} config;

static int edit_value(config *c, bool is_dtype, bool is_model);

/* Appends the text up to `end`; the next that is appended begins where the scanner is. */
static void copy_to(config *c, int64_t end)
{
    buf_put(c->to, c->scan.text + c->done, (size_t)(end - c->done));
    c->done = c->scan.at;
}

/* The members of an object, or the items of a list. is_model: the object is the configuration of a
 * model, whose quantization_config may go: with the comma in front of it, or if no member is there,
 * the one behind it. */
static int edit_items(config *c, char open, char close, bool is_model)
{
    int rc = json_scan_open(&c->scan, open);
    int64_t end = c->scan.at, kept = 0;
    while (json_scan_item(&c->scan, close, &rc)) {
        bool dtype = false, codes = false, model = false;
        if (open == '{') {
            TRY(json_scan_name(&c->scan, &c->name));
            const char *name = buf_text(&c->name);
            dtype = strcmp(name, "dtype") == 0 || strcmp(name, "torch_dtype") == 0;
            codes = strcmp(name, "quantization_config") == 0;
            model = is_model && strcmp(name, "text_config") == 0;
        }
        rc = codes ? json_scan_skip(&c->scan) : edit_value(c, dtype, model);
        bool goes = !rc && codes && is_model && c->unquantised;
        if (goes)
            copy_to(c, end);
        if (goes && kept == 0 && json_scan_peek(&c->scan) == ',')
            c->done = c->scan.at + 1;
        kept += !goes;
        end = goes ? c->done : c->scan.at;
    }
    return rc;
}

static int edit_value(config *c, bool is_dtype, bool is_model)
{
    /* numbers that Python's json writes and JSON does not know */
    static const char *const python[] = {"NaN", "Infinity", "-Infinity"};
    char first = json_scan_peek(&c->scan);
    if (first == '{' || first == '[')
        return edit_items(c, first, first == '{' ? '}' : ']', is_model);
    int64_t begin = c->scan.at;
    int rc = json_scan_word(&c->scan, python) ? KV_OK : json_scan_skip(&c->scan);
    if (!rc && is_dtype && c->dtype && first == '"') {
        copy_to(c, begin);
        buf_printf(c->to, "\"%s\"", c->dtype);
    }
    return rc;
}

/* Appends text (n bytes) with what f changes. format: it is not a JSON object. */
static int edit_config(const char *text, int64_t n, const char *path, const folder_files *f,
                       buf *to, kv_err *e)
{
    kv_err why = {0};
    config c = {.scan = {.path = path,
                         .text = text,
                         .n = n,
                         .what = "configuration",
                         .max_depth = DEPTH_MAX,
                         .e = &why},
                .dtype = f->dtype,
                .unquantised = f->unquantised,
                .to = to};
    int rc = json_scan_peek(&c.scan) == '{' ? edit_items(&c, '{', '}', true) : KV_E_FORMAT;
    if (!rc)
        rc = json_scan_end(&c.scan);
    if (!rc)
        buf_put(to, text + c.done, (size_t)(n - c.done));
    buf_release(&c.name);
    if (rc && rc != KV_E_FORMAT)
        return kv_err_set(e, (kv_code)rc, "%s", why.text);
    return rc;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* One file on its way. */
typedef struct copying {
    int from, to;
    const char *source, *target; /* their paths, for messages */
    char *piece;                 /* PIECE bytes */
} copying;

static int copy_bytes(const copying *c, kv_err *e)
{
    for (;;) {
        if (stop_check(e))
            return KV_E_INTERRUPTED;
        ssize_t n = read(c->from, c->piece, (size_t)PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_error(e, "read", c->source, errno);
        if (n == 0)
            return KV_OK;
        TRY(file_write_at(c->to, c->target, -1, c->piece, n, e));
    }
}

/* Copies config.json with the new dtype, or as it is where it is not a JSON object. */
static int copy_config(folder_files *f, const copying *c, off_t size, kv_err *e)
{
    own_buf text = {0};
    own_mem char *all = mem_alloc(size, 1, e);
    int64_t n = 0;
    if (!all)
        return KV_E_MEMORY;
    TRY(file_read_at(c->from, c->source, 0, all, size, &n, e));
    int rc = edit_config(all, n, c->source, f, &text, e);
    if (rc == KV_E_FORMAT) {
        f->odd_config = true;
        buf_clear(&text);
        buf_put(&text, all, (size_t)n);
    }
    TRY(rc == KV_E_FORMAT ? KV_OK : rc);
    TRY(buf_check(&text, e));
    return file_write_at(c->to, c->target, -1, text.data, (int64_t)text.len, e);
}

static void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static int copy_file(folder_files *f, int from, int to, const char *name, const char *folder,
                     char *piece, bool unsynced, kv_err *e)
{
    struct stat about;
    own_mem char *source = checkpoint_path_in(f->from->name, name, e);
    own_mem char *target = checkpoint_path_in(folder, name, e);
    if (!source || !target)
        return KV_E_MEMORY;
    OWN(close_fd) int in = openat(from, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (in < 0 || fstat(in, &about) != 0)
        return file_error(e, "read", source, errno);
    OWN(close_fd) int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (out < 0)
        return file_error(e, "write", target, errno);
    const copying c = {in, out, source, target, piece};
    bool edited = (f->dtype || f->unquantised) && strcmp(name, CONFIG) == 0 &&
                  about.st_size <= CONFIG_MAX;
    TRY(edited ? copy_config(f, &c, about.st_size, e) : copy_bytes(&c, e));
    if (!unsynced && file_sync(out) != 0)
        return file_error(e, "write", target, errno);
    int fd = out;
    out = -1;
    return close(fd) == 0 ? KV_OK : file_error(e, "write", target, errno);
}

int folder_files_copy(folder_files *f, int to, const char *name, bool unsynced, kv_err *e)
{
    own_mem char *piece = mem_alloc(PIECE, 1, e);
    int from = piece ? open(f->from->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (from < 0)
        return piece ? file_error(e, "read", f->from->name, errno) : KV_E_MEMORY;
    int rc = list_files(f, from, e);
    for (int64_t i = 0; i < f->ncopied && !rc; i++)
        rc = copy_file(f, from, to, f->copied[i], name, piece, unsynced, e);
    close(from);
    return rc;
}
