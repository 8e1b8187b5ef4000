/* NumPy's files: archives of members that are npy files, and single npy files. Of each member the
 * header is read, and its sizes are compared with the archive's. */
#include "checkpoint/npz.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/looks_like.h"
#include "checkpoint/tensor_type.h"
#include "checkpoint/torch.h"
#include "checkpoint/zip.h"
#include "io/npy.h"

/* ---- Where headers come from ----------------------------------------------------------------- */

#define ENDING ".npy"

/* The header of an npy file, as it is read; all of it is kept. */
typedef struct source {
    byte_reader *stored;
    int64_t end;          /* of the npy file there */
    inflate_stream *from; /* (optional) what is stored is compressed */
    buf bytes;
} source;

static int take(void *arg, void *to, int64_t n, int64_t *got, kv_err *e)
{
    source *s = arg;
    const unsigned char *bytes;
    *got = s->from ? 0 : at_most(n, s->end - s->stored->at);
    char *room = buf_room(&s->bytes, (size_t)n);
    if (!room)
        return buf_check(&s->bytes, e);
    if (s->from) {
        TRY(inflate_read(s->from, room, n, got, e));
    } else if (*got > 0) { /* what follows a header is data: little is read ahead */
        TRY(byte_reader_look(s->stored, &bytes, *got, 512, e));
        memcpy(room, bytes, (size_t)*got);
        s->stored->at += *got;
    }
    buf_grew(&s->bytes, (size_t)*got);
    memcpy(to, room, (size_t)*got);
    return KV_OK;
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

/* A fault of this member, which is left out; for a file of one array, an error. */
static int refuse(const reading *r, const char *text, const char *hint, kv_err *e)
{
    const char *path = r->c->files[r->file].name;
    int rc = *r->title ? checkpoint_fault(r->c, r->key, r->file, e, "%s%s", r->title, text)
                       : file_bad(e, KV_E_FORMAT, path, "%s", text);
    kv_err_hint(e, "%s", hint);
    return rc ? rc : LEFT_OUT;
}

/* Reads the header and fills in t, but for where the data stand. */
static int read_header(reading *r, source *s, kv_err *e)
{
    kv_err why = {0};
    char text[256];
    int rc = npy_header_read(&r->h, &(npy_source){take, s, "npy"}, &why);
    if (rc == KV_E_FORMAT || rc == KV_E_UNSUPPORTED)
        return refuse(r, checkpoint_without_name(why.text, "npy"), why.hint, e);
    if (rc) {
        kv_err_set(e, rc, "%s", why.text);
        return rc;
    }
    r->t.name = r->key;
    r->t.file = r->file;
    r->t.ndim = r->h.ndim;
    r->t.shape = r->h.shape;
    bool known = npz_type_find(&r->t.type, r->h.kind, r->h.width);
    if (!known && *r->title) {
        r->t.type = TENSOR_NONE; /* a member of an archive, which is only listed */
        r->t.odd = r->h.descr;
    } else if (!known) {
        snprintf(text, sizeof text, "elements of descr '%s' are not read", r->h.descr);
        return refuse(r, text, npz_type_hint(r->h.descr), e);
    }
    r->t.elements = tensor_elements(r->h.ndim, r->h.shape);
    r->t.bytes = tensor_type_bytes(r->t.type, r->t.elements);
    if (r->t.bytes < 0) {
        char shape[160];
        snprintf(text, sizeof text, "shape %s is too large: more than 2^63 bytes",
                 kv_shape_text(shape, sizeof shape, r->h.ndim, r->h.shape));
        return refuse(r, text, "", e);
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
    return KV_OK;
}

/* ---- Archives -------------------------------------------------------------------------------- */

/* An archive while its members are read. */
typedef struct archive {
    checkpoint *c;
    int file;
    inflate_stream *from;
    bool pickled;            /* a member is a pickle of PyTorch */
    torch_archive torch;     /* the members of what it wrote */
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
    TRY(mem_grow(&c->sums, &c->sums_cap, c->nsums + 1, sizeof *c->sums, e));
    npz_sum *sum = &c->sums[c->nsums];
    npz_sum_init(sum, m->crc, s->bytes.data, r->h.bytes, r->t.bytes);
    if (r->t.bytes == 0 && !npz_sum_right(sum, 0))
        return refuse(r, NPZ_SUM_WRONG, "", e);
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
static int check_size(const reading *r, const zip_member *m, kv_err *e)
{
    char text[160];
    if (r->t.bytes <= INT64_MAX - r->h.bytes && r->t.bytes + r->h.bytes == m->bytes)
        return KV_OK;
    snprintf(text, sizeof text, "%lld bytes: its header has %lld and asks for %lld more",
             (long long)m->bytes, (long long)r->h.bytes, (long long)r->t.bytes);
    return refuse(r, text, "", e);
}

static int read_npy(archive *a, const zip_member *m, kv_err *e)
{
    buf_clear(&a->key);
    buf_clear(&a->title);
    buf_put(&a->key, m->name, strlen(m->name) - strlen(ENDING));
    buf_printf(&a->title, "member \"%.*s\": ", SHOWN(m->name));
    if (buf_check(&a->key, e) || buf_check(&a->title, e))
        return KV_E_MEMORY;
    reading r = {
        .c = a->c, .file = a->file, .key = buf_text(&a->key), .title = buf_text(&a->title)};
    source s = {.stored = m->data, .end = m->begin + m->stored};
    if (m->deflated) {
        s.from = a->from;
        inflate_begin(s.from, &a->c->files[a->file], m->begin, m->stored, "npy");
    }
    a->narrays++;
    int rc = read_header(&r, &s, e);
    if (!rc)
        rc = r.t.odd ? add_odd(a, &r, m, e) : check_size(&r, m, e);
    if (!rc && !r.t.odd)
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
    TRY(inflate_new(&a.from, e));
    int rc = zip_read(c, file, read_member, &a, e);
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
    TRY(checkpoint_add(r->c, &r->t, e));
    return rest <= r->t.bytes
               ? KV_OK
               : checkpoint_fault(r->c, NULL, r->file, e, "there are bytes behind the data");
}

int npy_read_tensor(checkpoint *c, int file, kv_err *e)
{
    const input *in = &c->files[file];
    const char *base = checkpoint_base(in->name);
    size_t n = strlen(base) - (utf8_ends_in(base, ENDING) ? strlen(ENDING) : 0);
    own_mem char *key = mem_text(base, n, e);
    if (!key)
        return KV_E_MEMORY;
    reading r = {.c = c, .file = file, .key = key, .title = ""};
    byte_reader from = {.in = in};
    source s = {.stored = &from, .end = in->size};
    int rc = read_header(&r, &s, e);
    if (!rc)
        rc = add_array(&r, e);
    byte_reader_release(&from);
    buf_release(&s.bytes);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

#define MEMBER_NAME_MAX 0xFFFF                   /* the name's length has two bytes */
#define ZIP64_BEGIN     (((int64_t)1 << 31) - 1) /* Python's zipfile has larger ones as zip64 */
#define ZIP64_COUNT     0xFFFF
#define DATE            0x0021 /* 1980-01-01, the first that there is */
#define VERSION         45     /* of zip, that has zip64 */
#define UNIX            3      /* whose attributes these are: -rw------- */
#define ATTRIBUTES      0x01800000
#define LOCAL_EXTRA     20 /* zip64's sizes, which numpy always writes */

/* Little-endian, like the machine. */
static void put_number(buf *out, uint64_t x, size_t bytes)
{
    buf_put(out, (const char *)&x, bytes);
}

static bool is_ascii(const char *name)
{
    for (; *name; name++) {
        if ((unsigned char)*name >= 0x80)
            return false;
    }
    return true;
}

/* Appends the fields that a member's header and its line in the directory share. */
static void put_about(buf *out, const checkpoint_entry *t, int64_t bytes, size_t nextra)
{
    uint64_t size = bytes < 0 ? ZIP_BESIDE : (uint64_t)bytes;
    put_number(out, VERSION, 2);
    put_number(out, is_ascii(t->name) ? 0 : ZIP_UTF8, 2);
    put_number(out, ZIP_STORED, 2);
    put_number(out, 0, 2);
    put_number(out, DATE, 2);
    put_number(out, 0, 4); /* the checksum, once it is known */
    put_number(out, size, 4);
    put_number(out, size, 4);
    put_number(out, strlen(t->name) + strlen(ENDING), 2);
    put_number(out, nextra, 2);
}

static void put_name(buf *out, const checkpoint_entry *t)
{
    buf_add(out, t->name);
    buf_add(out, ENDING);
}

/* Appends all that stands before the data of a member, but for the checksum of the whole, and to
 * `lines` its line of the directory. header: where the member begins in the file. */
static int put_member(buf *out, buf *lines, out_tensor *t, const checkpoint_entry *of, char kind,
                      int width, int64_t header, kv_err *e)
{
    own_buf npy = {0};
    TRY(npy_header_print(&npy, kind, width, of->ndim, of->shape, e));
    int64_t nnpy = (int64_t)npy.len, bytes = nnpy + t->bytes;
    bool large = bytes > ZIP64_BEGIN, far = header > ZIP64_BEGIN;
    size_t extra = (size_t)(large ? 16 : 0) + (far ? 8 : 0);
    t->before = inflate_crc_shift(inflate_crc(0, npy.data, nnpy), t->bytes);
    put_number(out, ZIP_LOCAL, 4);
    put_about(out, of, -1, LOCAL_EXTRA);
    put_name(out, of);
    put_number(out, 1, 2);
    put_number(out, LOCAL_EXTRA - 4, 2);
    put_number(out, (uint64_t)bytes, 8);
    put_number(out, (uint64_t)bytes, 8);
    buf_put(out, npy.data, npy.len);
    put_number(lines, ZIP_ENTRY, 4);
    put_number(lines, VERSION, 1);
    put_number(lines, UNIX, 1);
    put_about(lines, of, large ? -1 : bytes, extra ? 4 + extra : 0);
    put_number(lines, 0, 6); /* no comment; disk 0; no attributes of MS-DOS */
    put_number(lines, ATTRIBUTES, 4);
    put_number(lines, far ? ZIP_BESIDE : (uint64_t)header, 4);
    put_name(lines, of);
    if (extra) {
        put_number(lines, 1, 2);
        put_number(lines, extra, 2);
    }
    for (int i = 0; i < 2 && large; i++)
        put_number(lines, (uint64_t)bytes, 8);
    if (far)
        put_number(lines, (uint64_t)header, 8);
    return buf_check(out, e);
}

/* The end of an archive whose directory has n members and stands at `at`. */
static void put_end(buf *out, int64_t n, int64_t at, int64_t bytes)
{
    if (n > ZIP64_COUNT || at > ZIP64_BEGIN || bytes > ZIP64_BEGIN) {
        put_number(out, ZIP_END64, 4);
        put_number(out, ZIP_END64_BYTES - 12, 8);
        put_number(out, VERSION, 2);
        put_number(out, VERSION, 2);
        put_number(out, 0, 8);
        put_number(out, (uint64_t)n, 8);
        put_number(out, (uint64_t)n, 8);
        put_number(out, (uint64_t)bytes, 8);
        put_number(out, (uint64_t)at, 8);
        put_number(out, ZIP_LOCATOR, 4);
        put_number(out, 0, 4);
        put_number(out, (uint64_t)(at + bytes), 8);
        put_number(out, 1, 4);
    }
    put_number(out, ZIP_END, 4);
    put_number(out, 0, 4);
    put_number(out, (uint64_t)at_most(n, ZIP64_COUNT), 2);
    put_number(out, (uint64_t)at_most(n, ZIP64_COUNT), 2);
    put_number(out, (uint64_t)at_most(bytes, ZIP_BESIDE), 4);
    put_number(out, (uint64_t)at_most(at, ZIP_BESIDE), 4);
    put_number(out, 0, 2);
}

/* ---- Layout ---------------------------------------------------------------------------------- */

/* Places one member at *at, and moves that behind it. */
static int place(buf *text, buf *lines, out_tensor *t, const checkpoint_entry *of, int64_t *at,
                 const char *path, kv_err *e)
{
    size_t before = text->len;
    char kind;
    int width;
    if (strlen(of->name) > MEMBER_NAME_MAX - strlen(ENDING))
        return file_bad(e, KV_E_VALUE, path,
                        "the name \"%.*s\" has %zu bytes, and a member's has at most %d",
                        SHOWN(of->name), strlen(of->name) + strlen(ENDING), MEMBER_NAME_MAX);
    if (!npz_type_descr(of->type, &kind, &width)) {
        file_bad(e, KV_E_DTYPE, path, "tensor \"%.*s\" is %s, which npz has not", SHOWN(of->name),
                 tensor_type_name(of->type));
        if (tensor_type_kind(of->type) != TENSOR_KIND_QUANTISED)
            kv_err_hint(e, "--dtype F32 converts it, and F16 where its range is enough");
        return KV_E_DTYPE;
    }
    t->bytes = tensor_bytes(of->type, of->ndim, of->shape);
    if (t->bytes < 0 || t->bytes > INT64_MAX / 2 - *at)
        return file_bad(e, KV_E_VALUE, path, "tensor \"%.*s\" is too large", SHOWN(of->name));
    TRY(put_member(text, lines, t, of, kind, width, *at, e));
    t->begin = *at + (int64_t)(text->len - before);
    *at = t->begin + t->bytes;
    return KV_OK;
}

int npz_lay_out(buf *text, int64_t *directory, out_tensor *to, const checkpoint_entry *tensors,
                int64_t n, const char *path, kv_err *e)
{
    own_buf lines = {0};
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++)
        TRY(place(text, &lines, &to[i], &tensors[i], &at, path, e));
    *directory = (int64_t)text->len;
    put_end(&lines, n, at, (int64_t)lines.len);
    buf_put(text, buf_text(&lines), lines.len);
    TRY(buf_check(&lines, e));
    return buf_check(text, e);
}

/* ---- Data ------------------------------------------------------------------------------------ */

void npz_add(out_tensor *t, const void *data, int64_t at, int64_t n)
{
    kv_assert(at >= 0 && n >= 0 && at + n <= t->bytes,
              "%lld bytes at %lld of a member that has %lld", (long long)n, (long long)at,
              (long long)t->bytes);
    atomic_fetch_xor(&t->crc, inflate_crc_shift(inflate_crc(0, data, n), t->bytes - at - n));
}

/* Where the checksum stands in a member's header, and in its line of the directory. */
enum { LOCAL_CRC = 14, ENTRY_CRC = 16 };

void npz_put_sums(buf *text, int64_t directory, const out_tensor *tensors, int64_t n)
{
    char *local = text->data, *line = local + directory;
    for (int64_t i = 0, end = 0; i < n; i++) {
        const out_tensor *t = &tensors[i];
        uint32_t crc = t->before ^ atomic_load(&t->crc);
        uint16_t behind[2]; /* the bytes of a line's name and of its extra fields */
        memcpy(local + LOCAL_CRC, &crc, sizeof crc);
        memcpy(line + ENTRY_CRC, &crc, sizeof crc);
        memcpy(behind, line + 28, sizeof behind);
        local += t->begin - end;
        line += ZIP_ENTRY_BYTES + behind[0] + behind[1];
        end = t->begin + t->bytes;
    }
}
