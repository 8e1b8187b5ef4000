/* Folders and indexes. */
#include "checkpoint/sharded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/gguf.h"
#include "checkpoint/json_scan.h"
#include "checkpoint/looks_like.h"
#include "io/json_writer.h"

/* ---- Indexes --------------------------------------------------------------------------------- */

#define INDEX_MAX   100000000 /* bytes: as much as the header of a file may have */
#define TENSORS_MAX 4000000   /* short entries would need many times their bytes in memory */
#define DEPTH_MAX   16        /* of what is skipped */

/* All zero is an empty one. */
typedef struct shard_index {
    named *tensors; /* sorted by name; i: the number of its shard */
    int64_t ntensors, cap;
    named *uses; /* the name of its shard for each tensor */
    int64_t uses_cap;
    const char **shards; /* their names, sorted */
    int64_t nshards;
    bool has_total;
    double total; /* total_size: some tools write it as 28.0 */
    arena memory;
} shard_index;

typedef struct reading {
    shard_index *x;
    const checkpoint *c;
    const char *path;
    json_scan scan;
    bool mapped; /* weight_map was there */
    buf name, word;
} reading;

/* ---- The members ----------------------------------------------------------------------------- */

static int add(reading *r, kv_err *e)
{
    shard_index *x = r->x;
    int64_t n = x->ntensors;
    if (n == TENSORS_MAX)
        return file_bad(e, KV_E_FORMAT, r->path, "more than %d tensors, which are not read",
                        TENSORS_MAX);
    TRY(mem_grow(&x->tensors, &x->cap, n + 1, sizeof *x->tensors, e));
    TRY(mem_grow(&x->uses, &x->uses_cap, n + 1, sizeof *x->uses, e));
    const char *name = arena_text(&x->memory, buf_text(&r->name), r->name.len, e);
    const char *word = buf_text(&r->word); /* neighbours mostly have the same */
    const char *shard = n > 0 && strcmp(x->uses[n - 1].name, word) == 0
                            ? x->uses[n - 1].name
                            : arena_text(&x->memory, word, r->word.len, e);
    if (!name || !shard)
        return KV_E_MEMORY;
    x->tensors[n] = (named){name, 0};
    x->uses[n] = (named){shard, n};
    x->ntensors++;
    return KV_OK;
}

static int read_map(reading *r, kv_err *e)
{
    if (r->mapped)
        return file_bad(e, KV_E_FORMAT, r->path, "\"weight_map\" stands there twice");
    if (json_scan_peek(&r->scan) != '{')
        return file_bad(e, KV_E_FORMAT, r->path, "\"weight_map\" is not an object");
    r->mapped = true;
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        const char *wrong = "not a text";
        TRY(json_scan_name(&r->scan, &r->name));
        if (json_scan_peek(&r->scan) != '"') {
            TRY(json_scan_skip(&r->scan));
        } else {
            TRY(json_scan_text(&r->scan, &r->word));
            const char *file = buf_text(&r->word);
            wrong = !*file ? "an empty text"
                    : strchr(file, '/') || strcmp(file, ".") == 0 || strcmp(file, "..") == 0
                        ? "a name that leaves the folder"
                        : NULL;
        }
        TRY(wrong ? checkpoint_fault_at(r->c, buf_text(&r->name), r->path, e,
                                        "the file of tensor \"%.*s\" is %s",
                                        SHOWN(buf_text(&r->name)), wrong)
                  : add(r, e));
    }
    return rc;
}

static int read_metadata(reading *r)
{
    if (json_scan_peek(&r->scan) != '{')
        return json_scan_skip(&r->scan);
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        TRY(json_scan_name(&r->scan, &r->name));
        char first = json_scan_peek(&r->scan);
        int64_t begin = r->scan.at;
        bool total = strcmp(buf_text(&r->name), "total_size") == 0 && first >= '0' && first <= '9';
        if ((rc = json_scan_skip(&r->scan)) == KV_OK && total) {
            r->x->has_total = true;
            num_parse(r->scan.text + begin, (size_t)(r->scan.at - begin), NUM_BINARY64,
                      &r->x->total, NULL);
        }
    }
    return rc;
}

static int read_members(reading *r, kv_err *e)
{
    int rc = json_scan_open(&r->scan, '{');
    while (json_scan_item(&r->scan, '}', &rc)) {
        TRY(json_scan_name(&r->scan, &r->name));
        const char *name = buf_text(&r->name);
        rc = strcmp(name, "weight_map") == 0 ? read_map(r, e)
             : strcmp(name, "metadata") == 0 ? read_metadata(r)
                                             : json_scan_skip(&r->scan);
    }
    if (!rc && !r->mapped)
        rc = file_bad(e, KV_E_FORMAT, r->path, "it has no \"weight_map\"");
    return rc ? rc : json_scan_end(&r->scan);
}

/* ---- In order -------------------------------------------------------------------------------- */

/* Numbers the shards by their names, and tells each tensor the number of its own. */
static int number_shards(shard_index *x, kv_err *e)
{
    named_sort(x->uses, x->ntensors);
    x->shards = mem_alloc(x->ntensors, sizeof *x->shards, e);
    if (!x->shards)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < x->ntensors; i++) {
        if (i == 0 || strcmp(x->uses[i].name, x->uses[i - 1].name) != 0)
            x->shards[x->nshards++] = x->uses[i].name;
        x->tensors[x->uses[i].i].i = x->nshards - 1;
    }
    return KV_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

static int read_text(reading *r, const input *in, kv_err *e)
{
    if (in->size > INDEX_MAX)
        return file_bad(e, KV_E_FORMAT, r->path, "an index of %lld bytes, at most %d are allowed",
                        (long long)in->size, INDEX_MAX);
    own_mem char *text = mem_alloc(in->size, 1, e);
    if (!text)
        return KV_E_MEMORY;
    r->scan = (json_scan){.path = r->path,
                          .text = text,
                          .n = in->size,
                          .what = "index",
                          .max_depth = DEPTH_MAX,
                          .e = e};
    TRY(input_read(in, text, 0, in->size, e));
    return read_members(r, e);
}

/* Reads the index at path. Names of files that would leave its folder, and names of tensors that
 * stand twice, are faults of c. Other errors: io, memory, format, interrupted. To be released after
 * a failure, too. */
static int shard_index_read(shard_index *x, const checkpoint *c, const char *path, kv_err *e)
{
    reading r = {.x = x, .c = c, .path = path};
    struct stat about;
    input in;
    /* opening a pipe would wait for its writer */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return file_bad(e, KV_E_IO, path, "an index has to be a regular file");
    TRY(input_open(&in, path, e));
    int rc = read_text(&r, &in, e);
    input_close(&in);
    buf_release(&r.name);
    buf_release(&r.word);
    if (rc || (rc = number_shards(x, e)))
        return rc;
    int64_t n = 0;
    named_sort(x->tensors, x->ntensors);
    for (int64_t i = 0; i < x->ntensors && !rc; i++) {
        if (n == 0 || strcmp(x->tensors[i].name, x->tensors[n - 1].name) != 0)
            x->tensors[n++] = x->tensors[i];
        else /* one of them stays */
            rc = checkpoint_fault_at(c, x->tensors[i].name, path, e,
                                     "tensor \"%.*s\" stands there twice",
                                     SHOWN(x->tensors[i].name));
    }
    x->ntensors = n;
    return rc;
}

static void shard_index_release(shard_index *x)
{
    mem_free(x->tensors);
    mem_free(x->uses);
    mem_free(x->shards);
    arena_release(&x->memory);
    *x = (shard_index){0};
}

/* ---- Cutting --------------------------------------------------------------------------------- */

int64_t shards_split(int64_t *shard, const int64_t *bytes, int64_t n, int64_t limit)
{
    /* the file that is being filled gets its number when it is full, so behind larger tensors */
    int64_t nshards = 0, filled = 0, first = 0;
    for (int64_t i = 0; i < n; i++)
        shard[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (bytes[i] > limit) {
            shard[i] = nshards++;
            continue;
        }
        if (bytes[i] > limit - filled) {
            for (int64_t j = first; j < i; j++)
                shard[j] = shard[j] < 0 ? nshards : shard[j];
            nshards++;
            first = i;
            filled = 0;
        }
        filled += bytes[i];
    }
    bool rest = false;
    for (int64_t j = first; j < n; j++) {
        if (shard[j] < 0) {
            shard[j] = nshards;
            rest = true;
        }
    }
    nshards += rest;
    return nshards ? nshards : 1;
}

void shard_name(char out[SHARD_NAME_MAX], int64_t i, int64_t nshards)
{
    if (nshards == 1)
        strcpy(out, "model.safetensors");
    else
        snprintf(out, SHARD_NAME_MAX, "model-%05lld-of-%05lld.safetensors", (long long)i + 1,
                 (long long)nshards);
}

/* ---- The index ------------------------------------------------------------------------------- */

void shards_index(buf *out, named *entries, int64_t n, int64_t nshards, int64_t total_bytes)
{
    char file[SHARD_NAME_MAX];
    named_sort(entries, n);
    buf_printf(out, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n  \"weight_map\": {",
               (long long)total_bytes);
    for (int64_t i = 0; i < n; i++) {
        shard_name(file, entries[i].i, nshards);
        buf_add(out, i ? ",\n    " : "\n    ");
        json_quoted(out, entries[i].name, true); /* as Python's json writes it */
        buf_printf(out, ": \"%s\"", file);
    }
    buf_add(out, n ? "\n  }\n}\n" : "}\n}\n");
}

/* ---- Shards ---------------------------------------------------------------------------------- */

#define TORCH_FILE "pytorch_model.bin"

/* The files of a folder that are read, by their names. */
typedef struct shards {
    checkpoint *c;
    buf folder; /* "" or with a / behind it */
    buf path;   /* of a file in it */
} shards;

static const char *path_of(shards *s, const char *name)
{
    buf_clear(&s->path);
    buf_add(&s->path, buf_text(&s->folder));
    buf_add(&s->path, name);
    return buf_text(&s->path);
}

bool sharded_named(const char *path)
{
    return utf8_ends_in(path, SHARD_INDEX_ENDING) || utf8_ends_in(path, TORCH_FILE ".index.json") ||
           (strcmp(path, "-") != 0 && checkpoint_is_folder(path));
}

/* ---- Lists in messages ----------------------------------------------------------------------- */

/* Items of a list in one sentence; those that there is no room for are counted. */
#define LIST_BYTES 240
typedef struct list {
    buf text;
    int64_t n, left_out;
} list;

static void list_add(list *l, const char *separator, const buf *item)
{
    size_t room = LIST_BYTES > l->text.len ? LIST_BYTES - l->text.len : 0;
    if (l->n++ > 0 && (l->left_out > 0 || item->len > room)) {
        l->left_out++;
        return;
    }
    if (l->text.len)
        buf_add(&l->text, separator);
    buf_put(&l->text, buf_text(item), utf8_cut(buf_text(item), item->len, LIST_BYTES));
}

static const char *list_text(list *l)
{
    if (l->left_out > 0)
        buf_printf(&l->text, " and %lld more", (long long)l->left_out);
    l->left_out = 0;
    return buf_text(&l->text);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Reads a file; read: NULL for what it begins as. *whole: nothing in it was unreadable. */
static int read_shard(shards *s, const char *name, checkpoint_reader *read, bool *whole, kv_err *e)
{
    const char *path = path_of(s, name);
    int rc = buf_check(&s->path, e);
    return rc ? rc : checkpoint_read_file(s->c, path, "a shard", read, whole, e);
}

/* ---- The names in a folder ------------------------------------------------------------------- */

/* Files of other kinds; a hint names one: the first that a reader would take. */
static const char *const others[] = {".gguf", ".kvs",  ".npz",    ".npy",     ".bin", ".pt",
                                     ".pth",  ".ckpt", ".params", ".msgpack", ".h5",  ".onnx"};
enum { NOTHERS = sizeof others / sizeof *others };

typedef enum name_kind { NAME_OTHER, NAME_INDEX, NAME_SHARD, NAME_GGUF, NAME_KINDS } name_kind;

/* Hidden files do not belong to the checkpoint: tools leave some beside those they copy. */
static name_kind kind_of(const char *name)
{
    return *name == '.'                             ? NAME_OTHER
           : utf8_ends_in(name, SHARD_INDEX_ENDING) ? NAME_INDEX
           : utf8_ends_in(name, ".safetensors")     ? NAME_SHARD
           : utf8_ends_in(name, ".gguf")            ? NAME_GGUF
                                                    : NAME_OTHER;
}

typedef struct listing {
    folder_names all;
    int64_t n[NAME_KINDS]; /* of a split model in GGUF only the first that is there counts */
    const char *first[NAME_KINDS];
    bool torch, torch_index; /* there are pytorch_model.bin, and the index of its shards */
    const char *other;       /* the first name of the most welcome kind, or NULL */
    int kind;                /* its place in others */
} listing;

static void listing_release(listing *l)
{
    folder_names_release(&l->all);
}
#define own_listing OWN(listing_release) listing

static bool are_one_model(const char *name, const char *other)
{
    gguf_part a, b;
    return gguf_part_find(&a, name) && gguf_part_find(&b, other) && a.prefix == b.prefix &&
           a.count == b.count && memcmp(name, other, a.prefix) == 0;
}

static int list_folder(listing *l, const char *path, kv_err *e)
{
    const char *model = NULL; /* the last one in GGUF */
    TRY(folder_names_read(&l->all, path, e));
    for (int64_t i = 0; i < l->all.n; i++) {
        const char *name = l->all.list[i];
        name_kind kind = kind_of(name);
        int k = 0;
        if (kind == NAME_GGUF && model && are_one_model(model, name))
            continue;
        model = kind == NAME_GGUF ? name : model;
        l->first[kind] = l->n[kind]++ ? l->first[kind] : name;
        while (k < NOTHERS && (*name == '.' || !utf8_ends_in(name, others[k])))
            k++;
        if (k < (l->other ? l->kind : NOTHERS)) {
            l->kind = k;
            l->other = name;
        }
        l->torch |= strcmp(name, TORCH_FILE) == 0;
        l->torch_index |= strcmp(name, TORCH_FILE ".index.json") == 0;
    }
    return KV_OK;
}

/* ---- An index and its shards ----------------------------------------------------------------- */

typedef struct shard {
    int file; /* its number */
    bool there;
    bool whole; /* all of its header could be read */
} shard;

typedef enum found_in { MISSING, TOLD, OWN_SHARD } found_in;

typedef struct indexed {
    shards s;
    shard_index x;
    const char *path;
    shard *shards; /* as many as the index names */
    found_in *found; /* where each tensor of the index is, as far as known */
    bool whole; /* every shard is there, and could be read */
    list wrong; /* tensors that index and shards disagree on */
} indexed;

static int find_shards(indexed *d, kv_err *e)
{
    list missing = {0};
    own_buf name = {0};
    bool a_link = false;
    int rc = KV_OK;
    for (int64_t k = 0; k < d->x.nshards && !rc; k++) {
        struct stat about;
        const char *path = path_of(&d->s, d->x.shards[k]);
        if ((rc = buf_check(&d->s.path, e)) || (rc = stop_check_at(k, e)))
            break;
        d->shards[k].there = checkpoint_is_there(path);
        if (d->shards[k].there)
            continue;
        bool link = lstat(path, &about) == 0;
        a_link |= link;
        buf_clear(&name);
        buf_add(&name, d->x.shards[k]);
        list_add(&missing, ", ", &name);
        if (d->s.c->options.found)
            rc = checkpoint_fault_at(d->s.c, NULL, path, e,
                                     link ? "the shard is a link to no file"
                                          : "the shard is not there");
    }
    if (!rc && missing.n > 0 && !d->s.c->options.found) {
        rc = file_bad(e, KV_E_IO, d->path, "%lld of its %lld shards %s not there: %s",
                      (long long)missing.n, (long long)d->x.nshards, missing.n == 1 ? "is" : "are",
                      list_text(&missing));
        kv_err_hint(e, a_link ? "there are links of these names, to no file: fetch them again"
                              : "fetch them again; a file that is there can be read by its name");
    }
    buf_release(&missing.text);
    return rc;
}

static int read_shards(indexed *d, kv_err *e)
{
    d->whole = true;
    for (int64_t k = 0; k < d->x.nshards; k++) {
        if (!d->shards[k].there) {
            d->whole = false;
            continue;
        }
        d->shards[k].file = (int)d->s.c->nfiles;
        TRY(read_shard(&d->s, d->x.shards[k],
                       utf8_ends_in(d->path, TORCH_FILE ".index.json") ? NULL : safetensors_read,
                       &d->shards[k].whole, e));
        d->whole &= d->shards[k].whole;
    }
    return KV_OK;
}

/* Tells of a tensor on which index and shards disagree: at once as a finding, or with the others
 * in an error. */
static int disagree(indexed *d, const char *tensor, kv_err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int disagree(indexed *d, const char *tensor, kv_err *e, const char *fmt, ...)
{
    own_buf text = {0};
    va_list ap;
    buf_printf(&text, "tensor \"%.*s\" ", SHOWN(tensor));
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    TRY(buf_check(&text, e));
    if (d->s.c->options.found)
        return checkpoint_fault_at(d->s.c, tensor, d->path, e, "%s", buf_text(&text));
    list_add(&d->wrong, "; ", &text);
    return KV_OK;
}

/* The number of a tensor in the index, or -1; *own: that names the shard in which t is. */
static int64_t find_told(const indexed *d, const tensor_info *t, bool *own)
{
    int64_t i = named_find(d->x.tensors, d->x.ntensors, t->name);
    const shard *k = i < 0 ? NULL : &d->shards[d->x.tensors[i].i];
    *own = k && k->there && k->file == t->file;
    return i;
}

/* Compares the tensors that were read with the index. */
static int compare_tensors(indexed *d, kv_err *e)
{
    const checkpoint *c = d->s.c;
    bool own;
    for (int64_t i = 0; i < c->ntensors; i++) {
        int64_t told = find_told(d, &c->tensors[i], &own);
        if (own)
            d->found[told] = OWN_SHARD;
    }
    for (int64_t i = 0; i < c->ntensors; i++) {
        const tensor_info *t = &c->tensors[i];
        const char *in = checkpoint_base(c->files[t->file].name);
        int64_t told = find_told(d, t, &own);
        const char *wanted = told < 0 ? "" : d->x.shards[d->x.tensors[told].i];
        if (told < 0)
            TRY(disagree(d, t->name, e, "of %.*s is not in the index", SHOWN(in)));
        else if (d->found[told] == MISSING)
            TRY(disagree(d, t->name, e, "is in %.*s, the index says %.*s", SHOWN(in),
                         SHOWN(wanted)));
        else if (d->found[told] == OWN_SHARD && !own && c->options.found)
            TRY(disagree(d, t->name, e, "is in %.*s too, the index says %.*s", SHOWN(in),
                         SHOWN(wanted)));
        if (told >= 0 && d->found[told] == MISSING)
            d->found[told] = TOLD;
    }
    return KV_OK;
}

/* Drops the tensors of shards that the index does not name for them, where it names another. */
static void drop_seconds(indexed *d)
{
    checkpoint *c = d->s.c;
    int64_t n = 0;
    bool own;
    for (int64_t i = 0; i < c->ntensors; i++) {
        int64_t told = find_told(d, &c->tensors[i], &own);
        if (told < 0 || own || d->found[told] != OWN_SHARD)
            c->tensors[n++] = c->tensors[i];
    }
    c->ntensors = n;
}

/* An index of the folder names the file. */
static bool is_named(const shard_index *x, const char *name)
{
    for (int64_t k = 0; k < x->nshards; k++)
        if (strcmp(x->shards[k], name) == 0)
            return true;
    return false;
}

/* Tells of files in the folder of the index that no index there names. */
static int find_unnamed(indexed *d, kv_err *e)
{
    static const checkpoint no_findings;
    own_listing l = {0};
    const char *folder = buf_text(&d->s.folder);
    TRY(list_folder(&l, *folder ? folder : ".", e));
    own_mem bool *known = mem_zalloc(l.all.n, sizeof *known, e);
    if (!known)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < l.all.n; i++) {
        shard_index beside = {0};
        kv_err unreadable = {0}; /* told when that one is checked */
        if (kind_of(l.all.list[i]) != NAME_INDEX)
            continue;
        shard_index_read(&beside, &no_findings, path_of(&d->s, l.all.list[i]), &unreadable);
        for (int64_t k = 0; k < l.all.n; k++)
            known[k] |= is_named(&beside, l.all.list[k]);
        shard_index_release(&beside);
    }
    for (int64_t k = 0; k < l.all.n; k++)
        if (kind_of(l.all.list[k]) == NAME_SHARD && !known[k] && !is_named(&d->x, l.all.list[k]))
            TRY(checkpoint_fault_at(d->s.c, NULL, path_of(&d->s, l.all.list[k]), e,
                                    "the index names no tensor of this file"));
    return KV_OK;
}

/* What is odd about an index, and does not stand in the way of reading. */
static int find_oddities(indexed *d, kv_err *e)
{
    const checkpoint *c = d->s.c;
    double bytes = 0;
    int rc = find_unnamed(d, e);
    if (!rc && d->x.ntensors == 0)
        rc = checkpoint_fault_at(c, NULL, d->path, e, "the weight_map is empty");
    for (int64_t i = 0; i < c->ntensors; i++)
        bytes += (double)c->tensors[i].bytes;
    if (!rc && d->whole && d->x.has_total && d->x.total != bytes)
        rc = checkpoint_fault_at(c, NULL, d->path, e,
                                 "total_size is %.0f, the tensors have %.0f bytes", d->x.total,
                                 bytes);
    return rc;
}

static int compare(indexed *d, kv_err *e)
{
    TRY(compare_tensors(d, e));
    /* Tensors of the index that no shard has, of shards that could be read. */
    for (int64_t i = 0; i < d->x.ntensors; i++) {
        const named *told = &d->x.tensors[i];
        if (d->found[i] == MISSING && d->shards[told->i].whole)
            TRY(disagree(d, told->name, e, "is not in %.*s, which the index says",
                         SHOWN(d->x.shards[told->i])));
    }
    drop_seconds(d);
    TRY(d->s.c->options.found ? find_oddities(d, e) : KV_OK);
    if (d->wrong.n == 0)
        return KV_OK;
    return file_bad(e, KV_E_FORMAT, d->path, "index and shards disagree on %lld tensor%s: %s",
                    (long long)d->wrong.n, d->wrong.n == 1 ? "" : "s", list_text(&d->wrong));
}

/* *readable: false when the index is none, which a finding then tells. */
static int read_index(checkpoint *c, const char *path, bool *readable, kv_err *e)
{
    indexed d = {.s.c = c, .path = path};
    kv_err why = {0};
    buf_put(&d.s.folder, path, (size_t)(checkpoint_base(path) - path));
    int rc = buf_check(&d.s.folder, e);
    *readable = true;
    if (!rc && (rc = shard_index_read(&d.x, c, path, &why)) == KV_OK) {
        d.shards = mem_zalloc(d.x.nshards, sizeof *d.shards, e);
        d.found = mem_zalloc(d.x.ntensors, sizeof *d.found, e);
        rc = d.shards && d.found ? find_shards(&d, e) : KV_E_MEMORY;
        if (!rc && !(rc = read_shards(&d, e)))
            rc = compare(&d, e);
    } else if (rc == KV_E_FORMAT && c->options.found) {
        *readable = false;
        rc = checkpoint_fault_at(c, NULL, path, e, "%s", checkpoint_without_name(why.text, path));
    } else if (why.code) {
        kv_err_set(e, why.code, "%s", why.text);
        kv_err_hint(e, "%s", why.hint);
    }
    buf_release(&d.s.folder);
    buf_release(&d.s.path);
    buf_release(&d.wrong.text);
    mem_free(d.shards);
    mem_free(d.found);
    shard_index_release(&d.x);
    return rc;
}

/* ---- A folder -------------------------------------------------------------------------------- */

static int several_indexes(shards *s, const listing *l, kv_err *e)
{
    list text = {0};
    own_buf name = {0};
    for (int64_t i = 0; i < l->all.n; i++) {
        buf_clear(&name);
        buf_add(&name, l->all.list[i]);
        if (kind_of(l->all.list[i]) == NAME_INDEX)
            list_add(&text, ", ", &name);
    }
    file_bad(e, KV_E_FORMAT, s->c->name, "the folder has %lld indexes: %s",
             (long long)l->n[NAME_INDEX], list_text(&text));
    kv_err_hint(e, "name one: %s", path_of(s, l->first[NAME_INDEX]));
    buf_release(&text.text);
    return KV_E_FORMAT;
}

/* A model of PyTorch as Hugging Face's tools wrote it before safetensors. */
static int read_torch(shards *s, bool indexed_too, kv_err *e)
{
    bool whole;
    if (!indexed_too)
        return read_shard(s, TORCH_FILE, NULL, &whole, e);
    const char *index = path_of(s, TORCH_FILE ".index.json");
    char *path = buf_check(&s->path, e) ? NULL : mem_text(index, strlen(index), e);
    int rc = path ? read_index(s->c, path, &whole, e) : KV_E_MEMORY;
    mem_free(path);
    return rc;
}

static int read_listed(shards *s, const listing *l, kv_err *e)
{
    bool readable;
    if (l->n[NAME_INDEX] > 1)
        return several_indexes(s, l, e);
    if (l->n[NAME_INDEX] == 1) {
        own_buf path = {0};
        buf_add(&path, path_of(s, l->first[NAME_INDEX]));
        TRY(buf_check(&s->path, e));
        TRY(buf_check(&path, e));
        TRY(read_index(s->c, buf_text(&path), &readable, e));
        if (readable)
            return KV_OK;
    } else if (l->n[NAME_SHARD] == 0) {
        gguf_part part;
        if (l->torch_index || l->torch)
            return read_torch(s, l->torch_index, e);
        if (l->n[NAME_GGUF] != 1 || !gguf_part_find(&part, l->first[NAME_GGUF])) {
            TRY(looks_like_folder(s->c->name, e));
            file_bad(e, KV_E_FORMAT, s->c->name,
                     "the folder has no *.safetensors and no *" SHARD_INDEX_ENDING);
            if (l->other)
                kv_err_hint(e, "name the file: %s", path_of(s, l->other));
            return KV_E_FORMAT;
        }
        int rc = read_shard(s, l->first[NAME_GGUF], gguf_read, &readable, e);
        return rc || s->c->split.count <= 1 ? rc : gguf_split_read(s->c, readable, e);
    }
    bool whole;
    for (int64_t i = 0; i < l->all.n; i++)
        if (kind_of(l->all.list[i]) == NAME_SHARD)
            TRY(read_shard(s, l->all.list[i], safetensors_read, &whole, e));
    return KV_OK;
}

static int read_folder(checkpoint *c, const char *path, kv_err *e)
{
    shards s = {.c = c};
    own_listing l = {0};
    buf_add(&s.folder, path);
    if (!utf8_ends_in(path, "/"))
        buf_char(&s.folder, '/');
    int rc = buf_check(&s.folder, e);
    if (!rc && !(rc = list_folder(&l, path, e)))
        rc = read_listed(&s, &l, e);
    buf_release(&s.folder);
    buf_release(&s.path);
    return rc;
}

int sharded_read(checkpoint *c, const char *path, kv_err *e)
{
    bool readable;
    c->sharded = true;
    return checkpoint_is_folder(path) ? read_folder(c, path, e) : read_index(c, path, &readable, e);
}
