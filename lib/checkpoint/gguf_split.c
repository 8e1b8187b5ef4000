/* The parts of a split model. The file that was named has been read as the only one of the
 * checkpoint; the others follow, then files and tensors are sorted. */
#include "checkpoint/gguf_split.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/stop.h"
#include "checkpoint/gguf.h"

#define SUFFIX "-00001-of-00003.gguf" /* so long are all */

bool gguf_part_find(gguf_part *out, const char *name)
{
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    char again[64];
    if (n < suffix)
        return false;
    out->prefix = n - suffix;
    const char *at = name + out->prefix;
    if (sscanf(at, "-%5d-of-%5d.gguf", &out->no, &out->count) != 2)
        return false;
    snprintf(again, sizeof again, "-%05d-of-%05d.gguf", out->no, out->count);
    return strcmp(again, at) == 0 && out->no >= 1 && out->no <= out->count;
}

typedef struct parts {
    checkpoint *c;
    gguf_part named; /* the file that was named */
    size_t folder;   /* the bytes of its path up to the end of the model's name */
    buf path;
    int *file;       /* of each part; -1: there is none */
    int *place;      /* of each file among those that there are */
    int64_t tensors; /* of all parts, as the metadata say; -1: they do not */
    bool whole;      /* every part could be read */
} parts;

/* The file that was read last has to be part `no`, from 1. */
static int check_part(parts *p, int no, kv_err *e)
{
    const gguf_split *s = &p->c->split;
    if (p->tensors < 0)
        p->tensors = s->tensors;
    if (s->no == no - 1 && s->count == p->named.count)
        return KV_OK;
    p->whole = false;
    return checkpoint_fault(p->c, KV_E_FORMAT, NULL, (int)p->c->nfiles - 1, e,
                            "its metadata say part %lld of %lld, its name says %d of %d",
                            (long long)s->no + 1, (long long)s->count, no, p->named.count);
}

static int read_part(parts *p, int no, kv_err *e)
{
    checkpoint *c = p->c;
    struct stat about;
    input in;
    bool whole;
    int64_t texts = c->ntexts;
    buf_clear(&p->path);
    buf_put(&p->path, c->files[0].name, p->folder);
    buf_printf(&p->path, "-%05d-of-%05d.gguf", no, p->named.count);
    const char *path = buf_text(&p->path);
    int rc = buf_check(&p->path, e);
    if (rc)
        return rc;
    bool there = stat(path, &about) == 0;
    if (!there && (errno == ENOENT || errno == ENOTDIR)) {
        p->whole = false;
        return checkpoint_fault_at(c, KV_E_FORMAT, NULL, path, e,
                                   "part %d of %d of the split model is not there", no,
                                   p->named.count);
    }
    /* opening a pipe would wait for its writer */
    if (there && !S_ISREG(about.st_mode))
        return file_bad(e, KV_E_IO, path, "a part has to be a regular file");
    if ((rc = input_open(&in, path, e)) || (rc = checkpoint_add_file(c, &in, e)))
        return rc;
    p->file[no - 1] = (int)c->nfiles - 1;
    rc = checkpoint_read(c, gguf_read, &whole, e);
    p->whole &= whole;
    if (!rc && whole)
        rc = check_part(p, no, e);
    if (no > 1)
        c->ntexts = texts;
    return rc;
}

/* Puts files and tensors into the order of the parts; tensors of a part stay in that of its header.
 */
static int sort(parts *p, kv_err *e)
{
    checkpoint *c = p->c;
    input *files = mem_alloc(c->nfiles, sizeof *files, e);
    tensor_info *tensors = mem_alloc(c->ntensors, sizeof *tensors, e);
    int64_t *first = mem_zalloc(c->nfiles + 1, sizeof *first, e); /* of the tensors of a file */
    int nfiles = 0;
    bool ok = files && tensors && first;
    for (int k = 0; k < p->named.count && ok; k++) {
        if (p->file[k] < 0)
            continue;
        files[nfiles] = c->files[p->file[k]];
        p->place[p->file[k]] = nfiles++;
    }
    for (int64_t i = 0; i < c->ntensors && ok; i++) {
        c->tensors[i].file = p->place[c->tensors[i].file];
        first[c->tensors[i].file + 1]++;
    }
    for (int k = 0; k < nfiles && ok; k++)
        first[k + 1] += first[k];
    for (int64_t i = 0; i < c->ntensors && ok; i++)
        tensors[first[c->tensors[i].file]++] = c->tensors[i];
    if (ok)
        memcpy(c->files, files, (size_t)nfiles * sizeof *files);
    if (ok && c->ntensors > 0)
        memcpy(c->tensors, tensors, (size_t)c->ntensors * sizeof *tensors);
    mem_free(files);
    mem_free(tensors);
    mem_free(first);
    return ok ? KV_OK : KV_E_MEMORY;
}

static int read_parts(parts *p, kv_err *e)
{
    checkpoint *c = p->c;
    int rc = check_part(p, p->named.no, e);
    p->file[p->named.no - 1] = 0;
    if (p->named.no > 1)
        c->ntexts = 0;
    for (int no = 1; no <= p->named.count && !rc; no++) {
        if (no != p->named.no && (rc = stop_check(e)) == KV_OK)
            rc = read_part(p, no, e);
    }
    if (!rc && p->whole && p->tensors >= 0 && p->tensors != c->ntensors)
        rc = checkpoint_fault_at(c, KV_E_FORMAT, NULL, NULL, e,
                                 "its parts hold %lld tensors, split.tensors.count says %lld",
                                 (long long)c->ntensors, (long long)p->tensors);
    return rc ? rc : sort(p, e);
}

int gguf_split_read(checkpoint *c, bool whole, kv_err *e)
{
    parts p = {.c = c, .tensors = -1, .whole = whole};
    const char *path = c->files[0].name, *name = checkpoint_base(path);
    if (!gguf_part_find(&p.named, name))
        return checkpoint_fault(c, KV_E_FORMAT, NULL, 0, e,
                                "part %lld of %lld of a split model; its name does not lead to the "
                                "others",
                                (long long)c->split.no + 1, (long long)c->split.count);
    c->sharded = true;
    p.folder = (size_t)(name - path) + p.named.prefix;
    p.file = mem_alloc(p.named.count, sizeof *p.file, e);
    p.place = mem_zalloc(p.named.count, sizeof *p.place, e);
    for (int k = 0; k < p.named.count && p.file; k++)
        p.file[k] = -1;
    int rc = p.file && p.place ? read_parts(&p, e) : KV_E_MEMORY;
    mem_free(p.file);
    mem_free(p.place);
    buf_release(&p.path);
    return rc;
}
