/* Writing npz archives: what stands before, between and behind the data is made as one text, in
 * which only the checksums are missing until all data were added. */
#include "checkpoint/npz_write.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/kv_assert.h"
#include "base/utf8.h"
#include "checkpoint/inflate.h"
#include "checkpoint/tensor_type.h"
#include "checkpoint/zip.h"
#include "io/npy.h"

#define ENDING      ".npy"
#define MEMBER_NAME_MAX   0xFFFF                     /* the name's length has two bytes */
#define ZIP64_BEGIN (((int64_t)1 << 31) - 1)   /* Python's zipfile writes larger numbers as zip64 */
#define ZIP64_COUNT 0xFFFF
#define DATE        0x0021                     /* 1980-01-01, the first that there is */
#define VERSION     45                         /* of zip, that has zip64 */
#define UNIX        3                          /* whose attributes these are: -rw------- */
#define ATTRIBUTES  0x01800000
#define LOCAL_EXTRA 20                         /* zip64's sizes, which numpy always writes */

bool npz_has_type(tensor_type t)
{
    char kind;
    int width;
    return npz_type_descr(t, &kind, &width);
}

/* ---- Records --------------------------------------------------------------------------------- */

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

/* The npy header of a tensor. */
static int put_npy(buf *out, const checkpoint_entry *t, kv_err *e)
{
    char kind = 0;
    int width = 0;
    npz_type_descr(t->type, &kind, &width);
    return npy_header_print(out, kind, width, t->ndim, t->shape, e);
}

/* Appends all that stands before the data of a member, but for the checksum of the whole. */
static int put_local(buf *out, npz_entry *t, const checkpoint_entry *of, kv_err *e)
{
    buf npy = {0};
    int rc = put_npy(&npy, of, e);
    uint64_t bytes = npy.len + (uint64_t)t->bytes;
    if (!rc) {
        t->npy = (int64_t)npy.len;
        t->before = inflate_crc_shift(inflate_crc(0, npy.data, t->npy), t->bytes);
        put_number(out, ZIP_LOCAL, 4);
        put_about(out, of, -1, LOCAL_EXTRA);
        put_name(out, of);
        put_number(out, 1, 2);
        put_number(out, LOCAL_EXTRA - 4, 2);
        put_number(out, bytes, 8);
        put_number(out, bytes, 8);
        buf_put(out, npy.data, npy.len);
        rc = buf_check(out, e);
    }
    buf_release(&npy);
    return rc;
}

/* The line of a member in the directory. */
static void put_entry(buf *out, const npz_entry *t, const checkpoint_entry *of)
{
    int64_t bytes = t->npy + t->bytes;
    bool large = bytes > ZIP64_BEGIN, far = t->header > ZIP64_BEGIN;
    size_t extra = (size_t)(large ? 16 : 0) + (far ? 8 : 0);
    put_number(out, ZIP_ENTRY, 4);
    put_number(out, VERSION, 1);
    put_number(out, UNIX, 1);
    put_about(out, of, large ? -1 : bytes, extra ? 4 + extra : 0);
    put_number(out, 0, 6); /* no comment; disk 0; no attributes of MS-DOS */
    put_number(out, ATTRIBUTES, 4);
    put_number(out, far ? ZIP_BESIDE : (uint64_t)t->header, 4);
    put_name(out, of);
    if (!extra)
        return;
    put_number(out, 1, 2);
    put_number(out, extra, 2);
    for (int i = 0; i < 2 && large; i++)
        put_number(out, (uint64_t)bytes, 8);
    if (far)
        put_number(out, (uint64_t)t->header, 8);
}

static uint64_t least(int64_t a, int64_t b)
{
    return (uint64_t)(a < b ? a : b);
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
    put_number(out, least(n, ZIP64_COUNT), 2);
    put_number(out, least(n, ZIP64_COUNT), 2);
    put_number(out, least(bytes, ZIP_BESIDE), 4);
    put_number(out, least(at, ZIP_BESIDE), 4);
    put_number(out, 0, 2);
}

/* ---- Layout ---------------------------------------------------------------------------------- */

static int refuse_type(const checkpoint_entry *t, const char *path, kv_err *e)
{
    file_bad(e, KV_E_DTYPE, path, "tensor \"%.*s\" is %s, which npz has not", SHOWN(t->name),
             tensor_type_name(t->type));
    if (tensor_type_kind(t->type) != TENSOR_KIND_QUANTISED)
        kv_err_hint(e, "--dtype F32 converts it, and F16 where its range is enough");
    return KV_E_DTYPE;
}

/* Places one member at *at, and moves that behind it. */
static int place(npz_out *out, npz_entry *t, const checkpoint_entry *of, int64_t *at,
                 const char *path, kv_err *e)
{
    size_t before = out->text.len;
    if (strlen(of->name) > MEMBER_NAME_MAX - strlen(ENDING))
        return file_bad(e, KV_E_VALUE, path,
                        "the name \"%.*s\" has %zu bytes, and a member's has at most %d",
                        SHOWN(of->name), strlen(of->name) + strlen(ENDING), MEMBER_NAME_MAX);
    if (!npz_has_type(of->type))
        return refuse_type(of, path, e);
    t->bytes = tensor_bytes(of->type, of->ndim, of->shape);
    if (t->bytes < 0 || t->bytes > INT64_MAX / 2 - *at)
        return file_bad(e, KV_E_VALUE, path, "tensor \"%.*s\" is too large", SHOWN(of->name));
    atomic_store(&t->crc, 0);
    t->header = *at;
    int rc = put_local(&out->text, t, of, e);
    t->begin = *at + (int64_t)(out->text.len - before);
    *at = t->begin + t->bytes;
    return rc;
}

int npz_lay_out(npz_out *out, const checkpoint_entry *tensors, int64_t n, int64_t *size,
                const char *path, kv_err *e)
{
    buf lines = {0};
    int64_t at = 0;
    int rc = KV_OK;
    *out = (npz_out){.n = n};
    if (!(out->entries = mem_zalloc(n, sizeof *out->entries, e)))
        rc = KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = place(out, &out->entries[i], &tensors[i], &at, path, e);
        put_entry(&lines, &out->entries[i], &tensors[i]);
    }
    out->directory = (int64_t)out->text.len;
    put_end(&lines, n, at, (int64_t)lines.len);
    buf_put(&out->text, buf_text(&lines), lines.len);
    if (!rc && !(rc = buf_check(&lines, e)))
        rc = buf_check(&out->text, e);
    *size = at + (int64_t)lines.len;
    buf_release(&lines);
    return rc;
}

void npz_release(npz_out *out)
{
    mem_free(out->entries);
    buf_release(&out->text);
}

/* ---- Writing --------------------------------------------------------------------------------- */

void npz_add(npz_entry *t, const void *data, int64_t at, int64_t n)
{
    kv_assert(at >= 0 && n >= 0 && at + n <= t->bytes,
              "%lld bytes at %lld of a member that has %lld", (long long)n, (long long)at,
              (long long)t->bytes);
    atomic_fetch_xor(&t->crc, inflate_crc_shift(inflate_crc(0, data, n), t->bytes - at - n));
}

/* Where the checksum stands in a member's header, and in its line of the directory. */
enum { LOCAL_CRC = 14, ENTRY_CRC = 16 };

int npz_finish(npz_out *out, int fd, const char *path, kv_err *e)
{
    char *local = out->text.data, *directory = local + out->directory, *line = directory;
    int64_t end = 0;
    int rc = KV_OK;
    for (int64_t i = 0; i < out->n && !rc; i++) {
        const npz_entry *t = &out->entries[i];
        uint32_t crc = t->before ^ atomic_load(&t->crc);
        uint16_t behind[2]; /* the bytes of a line's name and of its extra fields */
        memcpy(local + LOCAL_CRC, &crc, sizeof crc);
        memcpy(line + ENTRY_CRC, &crc, sizeof crc);
        memcpy(behind, line + 28, sizeof behind);
        rc = file_write_at(fd, path, t->header, local, t->begin - t->header, e);
        local += t->begin - t->header;
        line += ZIP_ENTRY_BYTES + behind[0] + behind[1];
        end = t->begin + t->bytes;
    }
    return rc ? rc : file_write_at(fd, path, end, directory,
                                   (int64_t)out->text.len - out->directory, e);
}
