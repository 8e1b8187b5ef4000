/* NumPy's files: archives of members that are npy files, and single npy files. Of each member the
 * header is read, and its sizes are compared with the archive's. */
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/inflate.h"
#include "checkpoint/looks_like.h"
#include "checkpoint/tensor_type.h"
#include "checkpoint/torch.h"
#include "checkpoint/zip.h"
#include "io/npy.h"

#define ENDING      ".npy"
#define AHEAD_BYTES 512 /* a header is within, mostly */

/* ---- Where headers come from ----------------------------------------------------------------- */

/* The first bytes of an npy file, as they are read; all are kept. */
typedef struct source {
    const input *in;
    int64_t at, end;      /* in the file */
    inflate_stream *from; /* NULL: they stand there as they are */
    buf bytes;
    size_t taken;
} source;

/* Gets n more bytes, or fewer at the end. */
static int get(source *s, int64_t n, kv_err *e)
{
    int64_t rest = s->end - s->at, got;
    if (!s->from && n > rest)
        n = rest;
    char *room = buf_room(&s->bytes, (size_t)n);
    if (!room)
        return buf_check(&s->bytes, e);
    int rc = s->from ? inflate_read(s->from, room, n, &got, e)
                     : input_read(s->in, room, s->at, got = n, e);
    if (rc)
        return rc;
    buf_grew(&s->bytes, (size_t)got);
    s->at += s->from ? 0 : got;
    return KV_OK;
}

static int take(void *arg, void *to, int64_t n, int64_t *got, kv_err *e)
{
    source *s = arg;
    int64_t have = (int64_t)(s->bytes.len - s->taken);
    int rc = KV_OK;
    if (have < n)
        rc = get(s, n - have > AHEAD_BYTES || s->from ? n - have : AHEAD_BYTES, e);
    have = (int64_t)(s->bytes.len - s->taken);
    *got = rc ? 0 : n < have ? n : have;
    if (*got)
        memcpy(to, s->bytes.data + s->taken, (size_t)*got);
    s->taken += (size_t)*got;
    return rc;
}

/* ---- What a header says ---------------------------------------------------------------------- */

/* An npy file and its header, while they are read. */
typedef struct reading {
    checkpoint *c;
    int file;
    const char *key;   /* of the tensor */
    const char *title; /* what messages begin with, behind the file's name; "" for a file */
    npy_header h;
    tensor_info t;
    int64_t strides[KV_MAX_NDIM]; /* of t, in Fortran order */
} reading;

/* A fault of this member; for a file of one array, an error. */
static int refuse(const reading *r, kv_code code, const char *text, const char *hint, kv_err *e)
{
    const char *path = r->c->files[r->file].name;
    code = *r->title ? checkpoint_fault(r->c, code, r->key, r->file, e, "%s%s", r->title, text)
                     : file_bad(e, code, path, "%s", text);
    if (code)
        kv_err_hint(e, "%s", hint);
    return code;
}

/* Reads the header and fills in t, but for where the data stand. *right: it describes a tensor. */
static int read_header(reading *r, source *s, bool *right, kv_err *e)
{
    kv_err why = {0};
    char text[256];
    *right = false;
    int rc = npy_header_read(&r->h, &(npy_source){take, s, "npy"}, &why);
    if (rc == KV_E_FORMAT || rc == KV_E_UNSUPPORTED)
        return refuse(r, KV_E_FORMAT, checkpoint_without_name(why.text, "npy"), why.hint, e);
    if (rc) {
        kv_err_set(e, rc, "%s", why.text);
        return rc;
    }
    r->t.name = r->key;
    r->t.file = r->file;
    r->t.ndim = r->h.ndim;
    r->t.shape = r->h.shape;
    if (!npz_type_find(&r->t.type, r->h.kind, r->h.width) && *r->title) {
        r->t.type = TENSOR_NONE; /* a member of an archive, which is only listed */
        r->t.odd = r->h.descr;
    } else if (!npz_type_find(&r->t.type, r->h.kind, r->h.width)) {
        snprintf(text, sizeof text, "elements of descr '%s' are not read", r->h.descr);
        return refuse(r, KV_E_FORMAT, text, npz_type_hint(r->h.descr), e);
    }
    r->t.elements = tensor_elements(r->h.ndim, r->h.shape);
    r->t.bytes = tensor_type_bytes(r->t.type, r->t.elements);
    if (r->t.bytes < 0) {
        char shape[160];
        snprintf(text, sizeof text, "shape %s is too large: more than 2^63 bytes",
                 kv_shape_text(shape, sizeof shape, r->h.ndim, r->h.shape));
        return refuse(r, KV_E_FORMAT, text, "", e);
    }
    if (r->t.odd)
        return KV_OK;
    int axes = 0;
    int64_t step = 1;
    for (int i = 0; i < r->h.ndim && r->t.bytes; step *= r->h.shape[i++]) {
        r->strides[i] = step;
        axes += r->h.shape[i] > 1;
    }
    bool strided = r->h.fortran && axes > 1;
    r->t.strides = strided ? r->strides : NULL;
    r->t.form = (r->h.swapped ? TENSOR_SWAPPED : 0u) | (strided ? TENSOR_STRIDED : 0u);
    *right = true;
    return KV_OK;
}

/* ---- Archives -------------------------------------------------------------------------------- */

/* An archive while its members are read. */
typedef struct archive {
    checkpoint *c;
    int file;
    inflate_stream *from;
    bool pickled;      /* a member is a pickle of PyTorch */
    torch_archive torch; /* the members of what it wrote */
    bool constants, program; /* members of a TorchScript program */
    bool keras;              /* a member holds weights of Keras */
    bool others;             /* there are members that are not .npy files */
    int64_t narrays;         /* the .npy members */
    buf key, title;
} archive;

/* Adds a tensor and the checksum of its member. */
static int add(archive *a, reading *r, const zip_member *m, const source *s, kv_err *e)
{
    checkpoint *c = a->c;
    int rc = mem_grow(&c->sums, &c->sums_cap, c->nsums + 1, sizeof *c->sums, e);
    if (rc)
        return rc;
    npz_sum *sum = &c->sums[c->nsums];
    npz_sum_init(sum, m->crc, s->bytes.data, r->h.bytes, r->t.bytes);
    if (r->t.bytes == 0 && !npz_sum_right(sum, 0))
        return refuse(r, KV_E_FORMAT, NPZ_SUM_WRONG, "", e);
    r->t.form |= m->deflated ? TENSOR_DEFLATED : 0u;
    r->t.offset = m->begin + (m->deflated ? 0 : r->h.bytes);
    r->t.stored_bytes = m->deflated ? m->stored : r->t.bytes;
    r->t.member = ++c->nsums;
    return checkpoint_add(c, &r->t, e);
}

/* Adds a member without numbers. Its data have the bytes that the archive says. */
static int add_odd(const archive *a, reading *r, const zip_member *m, kv_err *e)
{
    r->t.bytes = m->bytes > r->h.bytes ? m->bytes - r->h.bytes : 0;
    r->t.offset = m->begin;
    r->t.stored_bytes = m->stored;
    return checkpoint_add(a->c, &r->t, e);
}

/* Checks whether the header and the archive agree on the size of the member. */
static int check_size(const reading *r, const zip_member *m, bool *right, kv_err *e)
{
    char text[160];
    *right = r->t.bytes <= INT64_MAX - r->h.bytes && r->t.bytes + r->h.bytes == m->bytes;
    if (*right)
        return KV_OK;
    snprintf(text, sizeof text, "%lld bytes: its header has %lld and asks for %lld more",
             (long long)m->bytes, (long long)r->h.bytes, (long long)r->t.bytes);
    return refuse(r, KV_E_FORMAT, text, "", e);
}

static int read_npy(archive *a, const zip_member *m, kv_err *e)
{
    const input *in = &a->c->files[a->file];
    bool right;
    buf_clear(&a->key);
    buf_clear(&a->title);
    buf_put(&a->key, m->name, strlen(m->name) - strlen(ENDING));
    buf_printf(&a->title, "member \"%.*s\": ", SHOWN(m->name));
    if (buf_check(&a->key, e) || buf_check(&a->title, e))
        return KV_E_MEMORY;
    reading r = {.c = a->c,
                 .file = a->file,
                 .key = buf_text(&a->key),
                 .title = buf_text(&a->title)};
    source s = {.in = in, .at = m->begin, .end = m->begin + m->stored};
    if (!m->deflated) {
        buf_put(&s.bytes, (const char *)m->first,
                (size_t)(m->nfirst < AHEAD_BYTES ? m->nfirst : AHEAD_BYTES));
        s.at += (int64_t)s.bytes.len;
    } else {
        s.from = a->from;
        inflate_begin(s.from, in, m->begin, m->stored, "npy");
    }
    int rc = read_header(&r, &s, &right, e);
    a->narrays++;
    if (!rc && r.t.odd && r.t.bytes >= 0)
        rc = add_odd(a, &r, m, e);
    if (!rc && right)
        rc = check_size(&r, m, &right, e);
    if (!rc && right)
        rc = add(a, &r, m, &s, e);
    buf_release(&s.bytes);
    return rc;
}

static int read_member(void *arg, const zip_member *m, kv_err *e)
{
    archive *a = arg;
    if (utf8_ends_in(m->name, ENDING))
        return read_npy(a, m, e);
    a->pickled |= strcmp(m->name, "data.pkl") == 0 || utf8_ends_in(m->name, "/data.pkl");
    a->constants |= utf8_ends_in(m->name, "/constants.pkl");
    a->program |= strstr(m->name, "/code/") != NULL;
    a->keras |= strcmp(m->name, "model.weights.h5") == 0;
    a->others = true;
    return torch_add(&a->torch, m, e);
}

/* Members that are not arrays, such as a text about them, are skipped, unless they tell that it
 * is another kind of archive. */
static int check_others(archive *a, kv_err *e)
{
    zip_kind kind = a->constants && a->program ? ZIP_SCRIPT
                    : a->pickled               ? ZIP_TORCH
                    : a->keras                 ? ZIP_KERAS
                                               : ZIP_OTHER;
    if (!a->others || (kind == ZIP_OTHER && a->narrays))
        return KV_OK;
    if (kind == ZIP_TORCH)
        return torch_read(&a->torch, a->c, a->file, e);
    a->c->foreign = true;
    return looks_like_zip(&a->c->files[a->file], kind, e);
}

int npz_read(checkpoint *c, int file, kv_err *e)
{
    archive a = {.c = c, .file = file};
    int rc = inflate_new(&a.from, e);
    if (rc)
        return rc;
    rc = zip_read(c, file, read_member, &a, e);
    if (!rc)
        rc = check_others(&a, e);
    inflate_free(a.from);
    torch_release(&a.torch);
    buf_release(&a.key);
    buf_release(&a.title);
    return rc;
}

/* ---- One array ------------------------------------------------------------------------------- */

static int add_array(reading *r, kv_err *e)
{
    const input *in = &r->c->files[r->file];
    int64_t rest = in->size - r->h.bytes;
    if (rest < r->t.bytes)
        return npy_cut(in->name, "data", r->t.bytes - rest, r->t.bytes, e);
    r->t.offset = r->h.bytes;
    r->t.stored_bytes = r->t.bytes;
    int rc = checkpoint_add(r->c, &r->t, e);
    if (!rc && rest > r->t.bytes)
        rc = checkpoint_fault(r->c, KV_E_FORMAT, NULL, r->file, e,
                              "there are bytes behind the data");
    return rc;
}

int npy_read_tensor(checkpoint *c, int file, kv_err *e)
{
    const input *in = &c->files[file];
    const char *base = checkpoint_base(in->name);
    size_t n = strlen(base) - (utf8_ends_in(base, ENDING) ? strlen(ENDING) : 0);
    char *key = mem_text(base, n, e);
    bool right;
    if (!key)
        return KV_E_MEMORY;
    reading r = {.c = c, .file = file, .key = key, .title = ""};
    source s = {.in = in, .end = in->size};
    int rc = read_header(&r, &s, &right, e);
    if (!rc)
        rc = add_array(&r, e);
    buf_release(&s.bytes);
    mem_free(key);
    return rc;
}
