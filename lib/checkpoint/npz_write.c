/* Writing npz archives: members, the directory and its end are laid out by computing, and made as
 * texts when all checksums are known. */
#include "checkpoint/npz_write.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

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
static void put_about(buf *out, const npz_entry *t, uint32_t crc, int64_t bytes, size_t nextra)
{
    uint64_t size = bytes < 0 ? ZIP_BESIDE : (uint64_t)bytes;
    put_number(out, VERSION, 2);
    put_number(out, is_ascii(t->name) ? 0 : ZIP_UTF8, 2);
    put_number(out, ZIP_STORED, 2);
    put_number(out, 0, 2);
    put_number(out, DATE, 2);
    put_number(out, crc, 4);
    put_number(out, size, 4);
    put_number(out, size, 4);
    put_number(out, strlen(t->name) + strlen(ENDING), 2);
    put_number(out, nextra, 2);
}

static void put_name(buf *out, const npz_entry *t)
{
    buf_add(out, t->name);
    buf_add(out, ENDING);
}

/* The npy header of a tensor. */
static int put_npy(buf *out, const npz_entry *t, kv_err *e)
{
    char kind = 0;
    int width = 0;
    npz_type_descr(t->type, &kind, &width);
    return npy_header_print(out, kind, width, t->ndim, t->shape, e);
}

/* All that stands before the data of a member. *crc: of the whole member. */
static int put_local(buf *out, const npz_entry *t, uint32_t *crc, kv_err *e)
{
    buf npy = {0};
    int rc = put_npy(&npy, t, e);
    int64_t bytes = (int64_t)npy.len + t->bytes;
    if (!rc) {
        *crc = inflate_crc_shift(inflate_crc(0, npy.data, (int64_t)npy.len), t->bytes) ^
               atomic_load(&t->crc);
        put_number(out, ZIP_LOCAL, 4);
        put_about(out, t, *crc, -1, LOCAL_EXTRA);
        put_name(out, t);
        put_number(out, 1, 2);
        put_number(out, LOCAL_EXTRA - 4, 2);
        put_number(out, (uint64_t)bytes, 8);
        put_number(out, (uint64_t)bytes, 8);
        buf_put(out, npy.data, npy.len);
        rc = buf_check(out, e);
    }
    buf_release(&npy);
    return rc;
}

/* The line of a member in the directory; npy: bytes of its npy header. */
static void put_entry(buf *out, const npz_entry *t, uint32_t crc, int64_t npy)
{
    int64_t bytes = npy + t->bytes;
    bool large = bytes > ZIP64_BEGIN, far = t->header > ZIP64_BEGIN;
    size_t extra = (size_t)(large ? 16 : 0) + (far ? 8 : 0);
    put_number(out, ZIP_ENTRY, 4);
    put_number(out, VERSION, 1);
    put_number(out, UNIX, 1);
    put_about(out, t, crc, large ? -1 : bytes, extra ? 4 + extra : 0);
    put_number(out, 0, 6); /* no comment; disk 0; no attributes of MS-DOS */
    put_number(out, ATTRIBUTES, 4);
    put_number(out, far ? ZIP_BESIDE : (uint64_t)t->header, 4);
    put_name(out, t);
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

static int check_names(const npz_entry *entries, int64_t n, const char *path, kv_err *e)
{
    named *names = mem_alloc(n, sizeof *names, e);
    if (!names)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        names[i] = (named){entries[i].name, i};
    int rc = named_check(names, n, path, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        if (strlen(entries[i].name) > MEMBER_NAME_MAX - strlen(ENDING))
            rc = file_bad(e, KV_E_VALUE, path,
                          "the name \"%.*s\" has %zu bytes, and a member's has at most %d",
                          SHOWN(entries[i].name), strlen(entries[i].name) + strlen(ENDING),
                          MEMBER_NAME_MAX);
    }
    mem_free(names);
    return rc;
}

static int refuse_type(const npz_entry *t, const char *path, kv_err *e)
{
    file_bad(e, KV_E_DTYPE, path, "tensor \"%.*s\" is %s, which npz has not", SHOWN(t->name),
             tensor_type_name(t->type));
    if (tensor_type_kind(t->type) != TENSOR_KIND_QUANTISED)
        kv_err_hint(e, "--dtype F32 converts it, and F16 where its range is enough");
    return KV_E_DTYPE;
}

/* Places one member at *at, and moves that behind it. */
static int place(npz_entry *t, int64_t *at, const char *path, kv_err *e)
{
    buf before = {0};
    uint32_t crc;
    int64_t elements = tensor_elements(t->ndim, t->shape);
    if (!npz_has_type(t->type))
        return refuse_type(t, path, e);
    t->bytes = elements < 0 ? -1 : tensor_type_bytes(t->type, elements);
    if (t->bytes < 0 || t->bytes > INT64_MAX / 2 - *at)
        return file_bad(e, KV_E_VALUE, path, "tensor \"%.*s\" is too large", SHOWN(t->name));
    atomic_store(&t->crc, 0);
    t->header = *at;
    int rc = put_local(&before, t, &crc, e);
    t->begin = *at + (int64_t)before.len;
    *at = t->begin + t->bytes;
    buf_release(&before);
    return rc;
}

/* The bytes of a member's npy header. */
static int64_t npy_bytes(const npz_entry *t)
{
    return t->begin - t->header - ZIP_LOCAL_BYTES - LOCAL_EXTRA -
           (int64_t)(strlen(t->name) + strlen(ENDING));
}

int npz_lay_out(npz_entry *entries, int64_t n, int64_t *size, const char *path, kv_err *e)
{
    buf line = {0};
    int64_t at = 0, directory = 0;
    int rc = inflate_there(e);
    if (!rc)
        rc = check_names(entries, n, path, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        if ((rc = place(&entries[i], &at, path, e)))
            break;
        buf_clear(&line);
        put_entry(&line, &entries[i], 0, npy_bytes(&entries[i]));
        rc = buf_check(&line, e);
        directory += (int64_t)line.len;
    }
    if (!rc) {
        buf_clear(&line);
        put_end(&line, n, at, directory);
        rc = buf_check(&line, e);
    }
    *size = at + directory + (int64_t)line.len;
    buf_release(&line);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

void npz_add(npz_entry *t, const void *data, int64_t at, int64_t n)
{
    kv_assert(at >= 0 && n >= 0 && at + n <= t->bytes,
              "%lld bytes at %lld of \"%.64s\", which has %lld", (long long)n, (long long)at,
              t->name, (long long)t->bytes);
    atomic_fetch_xor(&t->crc, inflate_crc_shift(inflate_crc(0, data, n), t->bytes - at - n));
}

/* The directory is written in pieces of about this size. */
#define PIECE ((size_t)1 << 20)

int npz_finish(int fd, const char *path, const npz_entry *entries, int64_t n, kv_err *e)
{
    buf local = {0}, lines = {0};
    int64_t begin = n ? entries[n - 1].begin + entries[n - 1].bytes : 0, at = begin;
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        uint32_t crc;
        buf_clear(&local);
        if ((rc = put_local(&local, &entries[i], &crc, e)) ||
            (rc = file_write_at(fd, path, entries[i].header, local.data, (int64_t)local.len, e)))
            break;
        put_entry(&lines, &entries[i], crc, npy_bytes(&entries[i]));
        if (lines.len < PIECE)
            continue;
        if (!(rc = buf_check(&lines, e)))
            rc = file_write_at(fd, path, at, lines.data, (int64_t)lines.len, e);
        at += (int64_t)lines.len;
        buf_clear(&lines);
    }
    put_end(&lines, n, begin, at + (int64_t)lines.len - begin);
    if (!rc && !(rc = buf_check(&lines, e)))
        rc = file_write_at(fd, path, at, lines.data, (int64_t)lines.len, e);
    buf_release(&local);
    buf_release(&lines);
    return rc;
}
