/* Directories of zip archives. Every number is checked against the file before it is used, and what
 * a member's own header says against the directory. */
#include "checkpoint/zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/inflate.h"

#define TEXT_MAX    0xFFFF                              /* a name, extra fields, a comment */
#define TAIL_MAX    (ZIP_END_BYTES + (int64_t)TEXT_MAX) /* where the end of an archive stands */
#define PIECE_BYTES ((int64_t)1 << 18)                  /* of the directory; a line has less */
#define LOOK_BYTES  ((int64_t)1 << 18)                  /* of the members, at most */
#define NEAR_BYTES  ((int64_t)1 << 16)                  /* read at once where members are small */
#define GUESS_BYTES 512                                 /* a member's headers are within, mostly */
#define EXTRA_ZIP64 1

/* From where to where a member goes. */
typedef struct range {
    int64_t begin, end;
} range;

/* An archive while its directory is read. */
typedef struct archive {
    const checkpoint *c;
    const input *in;
    int file;
    int64_t begin;          /* of the archive in the file */
    int64_t directory, end; /* of the directory in the file */
    int64_t count;          /* of members */
    int64_t at;             /* of the next line */
    int64_t used;           /* bytes of members, at least */
    unsigned char *piece;   /* of the directory: PIECE_BYTES from `from` on, up to `to` */
    int64_t from, to;
    unsigned char *look;    /* at members: the file from byte look_from on, up to look_to */
    int64_t look_from, look_to;
    range *ranges;
    int64_t nranges, cap;
    char name[TEXT_MAX + 1]; /* of the member */
} archive;

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t x = 0;
    memcpy(&x, p, (size_t)bytes); /* little-endian, like the machine */
    return x;
}

/* An offset or a size; those beyond 2^62 become 2^62, which is in no file. */
static int64_t place(const unsigned char *p, int bytes)
{
    uint64_t x = number(p, bytes), most = UINT64_C(1) << 62;
    return (int64_t)(x < most ? x : most);
}

/* ---- The end of the archive ------------------------------------------------------------------ */

static int refuse_end(const archive *a, const char *why, kv_err *e)
{
    return file_bad(e, KV_E_FORMAT, a->in->name, "%s", why);
}

/* Finds the end in the last n bytes: the last one whose comment reaches to the end of the file,
 * else the last one whose comment is in it. -1: none. */
static int64_t find_end(const unsigned char *tail, int64_t n)
{
    int64_t found = -1;
    for (int64_t i = n - ZIP_END_BYTES; i >= 0; i--) {
        if (number(tail + i, 4) != ZIP_END)
            continue;
        int64_t after = n - i - ZIP_END_BYTES - place(tail + i + 20, 2);
        if (after == 0)
            return i;
        if (after > 0 && found < 0)
            found = i;
    }
    return found;
}

/* Reads zip64's end, which the locator before `end` may name: sets count and *bytes, *offset of the
 * directory. *at: where it begins, or `end` where there is none. */
static int read_end64(archive *a, int64_t end, int64_t *at, int64_t *bytes, int64_t *offset,
                      kv_err *e)
{
    unsigned char raw[ZIP_END64_BYTES];
    int64_t locator = end - ZIP_LOCATOR_BYTES, last = locator - ZIP_END64_BYTES;
    *at = end;
    if (last < 0)
        return KV_OK;
    int rc = input_read(a->in, raw, locator, ZIP_LOCATOR_BYTES, e);
    if (rc || number(raw, 4) != ZIP_LOCATOR)
        return rc;
    /* It has more bytes where it has fields of its own; then what the locator says is right. */
    int64_t where = place(raw + 8, 8), tries[] = {last, where < last ? where : last};
    for (int i = 0; i < 2; i++) {
        if ((rc = input_read(a->in, raw, tries[i], ZIP_END64_BYTES, e)))
            return rc;
        if (number(raw, 4) != ZIP_END64 || place(raw + 4, 8) != locator - tries[i] - 12)
            continue;
        if (number(raw + 16, 8) || number(raw + 24, 8) != number(raw + 32, 8))
            return file_bad(e, KV_E_FORMAT, a->in->name,
                            "zip archives in several files are not read");
        a->count = place(raw + 32, 8);
        *bytes = place(raw + 40, 8);
        *offset = place(raw + 48, 8);
        *at = tries[i];
        return KV_OK;
    }
    return refuse_end(a, "malformed zip archive: its zip64 end is not where it is said to be", e);
}

/* Finds the directory. end: where the end of the archive stands, its bytes are at raw. */
static int find_directory(archive *a, const unsigned char *raw, int64_t end, kv_err *e)
{
    int64_t bytes = place(raw + 12, 4), offset = place(raw + 16, 4), disk = place(raw + 4, 2);
    a->count = place(raw + 10, 2);
    int rc = read_end64(a, end, &a->end, &bytes, &offset, e);
    if (rc)
        return rc;
    if (a->end == end && (disk || place(raw + 6, 2) || place(raw + 8, 2) != a->count))
        return file_bad(e, KV_E_FORMAT, a->in->name,
                        "zip archives in several files are not read");
    a->directory = a->end - bytes;
    a->begin = a->directory - offset;
    if (a->directory < 0 || a->begin < 0)
        return refuse_end(a, "malformed zip archive: its directory would begin before the file",
                          e);
    if (a->count > bytes / ZIP_ENTRY_BYTES)
        return file_bad(e, KV_E_FORMAT, a->in->name,
                        "malformed zip archive: %lld members in a directory of %lld bytes",
                        (long long)a->count, (long long)bytes);
    return KV_OK;
}

static int read_end(archive *a, kv_err *e)
{
    int64_t n = a->in->size < TAIL_MAX ? a->in->size : TAIL_MAX, first = a->in->size - n;
    unsigned char *tail = mem_alloc(n, 1, e);
    if (!tail)
        return KV_E_MEMORY;
    int rc = input_read(a->in, tail, first, n, e);
    int64_t at = rc ? -1 : find_end(tail, n);
    if (!rc && at < 0)
        rc = refuse_end(a, "cut, or no zip archive: it does not end with a directory", e);
    if (!rc)
        rc = find_directory(a, tail + at, first + at, e);
    int64_t behind = rc ? 0 : n - at - ZIP_END_BYTES - place(tail + at + 20, 2);
    if (behind)
        rc = checkpoint_fault(a->c, KV_E_FORMAT, NULL, a->file, e,
                              "%lld bytes behind the zip archive", (long long)behind);
    mem_free(tail);
    return rc;
}

/* ---- A member -------------------------------------------------------------------------------- */

/* The member's name where it is a text. */
static const char *key_of(const archive *a)
{
    return utf8_valid(a->name, strlen(a->name)) ? a->name : NULL;
}

/* A fault of the member a->name, which leaves the others readable. */
#define FAULT(a, code, e, ...)                                                                     \
    checkpoint_fault((a)->c, code, key_of(a), (a)->file, e, "member \"%.*s\" " __VA_ARGS__)
#define NAME(a) SHOWN((a)->name)

/* Puts the sizes of 8 bytes in the place of those that stand beside, in the order of the fields.
 * False: they are not there. */
static bool take_zip64(const unsigned char *extra, int64_t n, int64_t *const fields[], int nfields)
{
    int64_t at = 0;
    bool beside = false;
    for (int i = 0; i < nfields; i++)
        beside |= *fields[i] == ZIP_BESIDE;
    if (!beside)
        return true;
    while (at + 4 <= n) {
        int64_t bytes = place(extra + at + 2, 2), from = at + 4;
        if (bytes > n - from)
            return false;
        at = from + bytes;
        if (number(extra + from - 4, 2) != EXTRA_ZIP64)
            continue;
        for (int i = 0; i < nfields; i++) {
            if (*fields[i] != ZIP_BESIDE)
                continue;
            if (from + 8 > at)
                return false;
            *fields[i] = place(extra + from, 8);
            from += 8;
        }
        return true;
    }
    return false;
}

/* n bytes of the file from `at` on, before the directory; NULL after an error. ahead: so many are
 * read if they must be read. */
static const unsigned char *look_at(archive *a, int64_t at, int64_t n, int64_t ahead, int *code,
                                    kv_err *e)
{
    if (at < a->look_from || at + n > a->look_to) {
        int64_t room = a->directory - at, most = ahead > n ? ahead : n;
        a->look_from = at;
        a->look_to = at + (most < room ? most : room);
        if ((*code = input_read(a->in, a->look, at, a->look_to - at, e))) {
            a->look_to = at;
            return NULL;
        }
    }
    return a->look + (at - a->look_from);
}

/* Reads a member's own header; what it has to say follows in *m. *right: it fits the directory. */
static int check_local(archive *a, zip_member *m, const unsigned char *line, bool *right, kv_err *e)
{
    int64_t room = a->directory - m->offset, nname = (int64_t)strlen(a->name);
    int64_t ahead = m->stored < NEAR_BYTES ? NEAR_BYTES : GUESS_BYTES;
    int rc = KV_OK;
    *right = false;
    if (m->offset < 0 || room < ZIP_LOCAL_BYTES)
        return FAULT(a, KV_E_FORMAT, e, "begins at byte %lld, outside the members", NAME(a),
                     (long long)m->offset);
    const unsigned char *h = look_at(a, m->offset, ZIP_LOCAL_BYTES, ahead, &rc, e);
    if (!h)
        return rc;
    if (number(h, 4) != ZIP_LOCAL)
        return FAULT(a, KV_E_FORMAT, e, "has no header at byte %lld", NAME(a),
                     (long long)m->offset);
    int64_t nextra = place(h + 28, 2), need = ZIP_LOCAL_BYTES + place(h + 26, 2) + nextra;
    if (need > room)
        return FAULT(a, KV_E_FORMAT, e, "ends outside the members", NAME(a));
    if (!(h = look_at(a, m->offset, need, ahead, &rc, e)))
        return rc;
    m->begin = m->offset + need;
    if (m->stored > a->directory - m->begin)
        return FAULT(a, KV_E_FORMAT, e, "ends outside the members: it has %lld bytes", NAME(a),
                     (long long)m->stored);
    int64_t stored = place(h + 18, 4), bytes = place(h + 22, 4);
    int64_t *const fields[] = {&bytes, &stored};
    bool behind = number(h + 6, 2) & ZIP_SIZES_BEHIND;
    bool fits = place(h + 26, 2) == nname &&
                memcmp(h + ZIP_LOCAL_BYTES, a->name, (size_t)nname) == 0 &&
                number(h + 8, 2) == number(line + 10, 2) &&
                take_zip64(h + ZIP_LOCAL_BYTES + nname, nextra, fields, 2) &&
                (behind || (number(h + 14, 4) == m->crc && stored == m->stored &&
                            bytes == m->bytes));
    if (!fits)
        return FAULT(a, KV_E_FORMAT, e, "has another header than the directory says", NAME(a));
    m->first = h + need;
    m->nfirst = a->look_to - m->begin < m->stored ? a->look_to - m->begin : m->stored;
    *right = true;
    return KV_OK;
}

/* Checks what the directory says of a member. *right: it can be read. */
static int check_line(archive *a, const zip_member *m, const unsigned char *line, int64_t nname,
                      bool *right, kv_err *e)
{
    uint64_t flags = number(line + 8, 2), method = number(line + 10, 2);
    *right = false;
    if ((int64_t)strlen(a->name) != nname || !utf8_valid(a->name, (size_t)nname))
        return FAULT(a, KV_E_FORMAT, e, "has a name that is not UTF-8, or with a NUL", NAME(a));
    if (flags & ZIP_ENCRYPTED)
        return FAULT(a, KV_E_FORMAT, e, "is encrypted", NAME(a));
    if (method != ZIP_STORED && method != ZIP_DEFLATED)
        return FAULT(a, KV_E_FORMAT, e,
                     "is compressed by method %llu, and only deflate is read", NAME(a),
                     (unsigned long long)method);
    if (!m->deflated && m->stored != m->bytes)
        return FAULT(a, KV_E_FORMAT, e, "is stored with %lld bytes, but has %lld", NAME(a),
                     (long long)m->stored, (long long)m->bytes);
    if (m->deflated && m->bytes / INFLATE_MOST > m->stored)
        return FAULT(a, KV_E_FORMAT, e, "cannot have %lld bytes: it is deflated to %lld", NAME(a),
                     (long long)m->bytes, (long long)m->stored);
    *right = true;
    return KV_OK;
}

static int add_range(archive *a, const zip_member *m, kv_err *e)
{
    int rc = mem_grow(&a->ranges, &a->cap, a->nranges + 1, sizeof *a->ranges, e);
    if (!rc)
        a->ranges[a->nranges++] = (range){m->offset, m->begin + m->stored};
    return rc;
}

/* ---- The directory --------------------------------------------------------------------------- */

/* n bytes of the directory from a->at on; NULL after an error. */
static const unsigned char *look(archive *a, int64_t n, int *code, kv_err *e)
{
    if (n > a->end - a->at) {
        *code = refuse_end(a, "malformed zip archive: its directory ends within a member", e);
        return NULL;
    }
    if (a->at + n > a->to) {
        a->from = a->at;
        a->to = a->end - a->at < PIECE_BYTES ? a->end : a->at + PIECE_BYTES;
        if ((*code = input_read(a->in, a->piece, a->from, a->to - a->from, e))) {
            a->to = a->from;
            return NULL;
        }
    }
    return a->piece + (a->at - a->from);
}

typedef int zip_each(void *arg, const zip_member *m, kv_err *e);

static int read_member(archive *a, zip_each *each, void *arg, kv_err *e)
{
    int rc = KV_OK;
    bool right;
    const unsigned char *p = look(a, ZIP_ENTRY_BYTES, &rc, e);
    if (!p)
        return rc;
    if (number(p, 4) != ZIP_ENTRY)
        return file_bad(e, KV_E_FORMAT, a->in->name,
                        "malformed zip archive: no member of its directory at byte %lld",
                        (long long)a->at);
    int64_t nname = place(p + 28, 2), nextra = place(p + 30, 2);
    int64_t n = ZIP_ENTRY_BYTES + nname + nextra + place(p + 32, 2);
    if (!(p = look(a, n, &rc, e)))
        return rc;
    a->at += n;
    memcpy(a->name, p + ZIP_ENTRY_BYTES, (size_t)nname);
    a->name[nname] = '\0';
    zip_member m = {.name = a->name,
                    .deflated = number(p + 10, 2) == ZIP_DEFLATED,
                    .crc = (uint32_t)number(p + 16, 4),
                    .stored = place(p + 20, 4),
                    .bytes = place(p + 24, 4),
                    .offset = place(p + 42, 4)};
    int64_t *const fields[] = {&m.bytes, &m.stored, &m.offset};
    if (!take_zip64(p + ZIP_ENTRY_BYTES + nname, nextra, fields, 3))
        return FAULT(a, KV_E_FORMAT, e, "has no zip64 sizes, which it needs", NAME(a));
    m.offset += a->begin;
    /* Members that share bytes are told at the end, unless so many do that it would never come. */
    a->used += ZIP_LOCAL_BYTES + nname + (m.stored < a->directory ? m.stored : a->directory);
    if (a->used / 4 > a->directory - a->begin)
        return refuse_end(a, "malformed zip archive: its members have more bytes than there are",
                          e);
    rc = check_line(a, &m, p, nname, &right, e);
    if (!rc && right)
        rc = check_local(a, &m, p, &right, e);
    if (rc || !right || (rc = add_range(a, &m, e)))
        return rc;
    bool folder = m.bytes == 0 && nname && a->name[nname - 1] == '/';
    return folder ? KV_OK : each(arg, &m, e);
}

static int by_begin(const void *x, const void *y)
{
    const range *a = x, *b = y;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Members that share bytes: a small archive could be of any size. */
static int check_overlap(archive *a, kv_err *e)
{
    if (a->nranges)
        qsort(a->ranges, (size_t)a->nranges, sizeof *a->ranges, by_begin);
    for (int64_t i = 1; i < a->nranges; i++) {
        if (a->ranges[i].begin < a->ranges[i - 1].end)
            return checkpoint_fault(a->c, KV_E_FORMAT, NULL, a->file, e,
                                    "members overlap at byte %lld",
                                    (long long)a->ranges[i].begin);
    }
    return KV_OK;
}

static int read_directory(archive *a, zip_each *each, void *arg, kv_err *e)
{
    int rc = read_end(a, e);
    a->at = a->from = a->to = a->directory;
    for (int64_t i = 0; i < a->count && !rc; i++)
        if ((rc = stop_check(e)) == KV_OK)
            rc = read_member(a, each, arg, e);
    if (!rc && a->at < a->end)
        rc = checkpoint_fault(a->c, KV_E_FORMAT, NULL, a->file, e,
                              "%lld bytes of the zip directory belong to no member",
                              (long long)(a->end - a->at));
    return rc ? rc : check_overlap(a, e);
}

int zip_read(const checkpoint *c, int file, zip_each *each, void *arg, kv_err *e)
{
    int rc = KV_E_MEMORY;
    archive *a = mem_zalloc(1, sizeof *a, e);
    if (!a)
        return KV_E_MEMORY;
    a->c = c;
    a->in = &c->files[file];
    a->file = file;
    a->piece = mem_alloc(PIECE_BYTES, 1, e);
    a->look = a->piece ? mem_alloc(LOOK_BYTES, 1, e) : NULL;
    if (a->look)
        rc = read_directory(a, each, arg, e);
    mem_free(a->look);
    mem_free(a->piece);
    mem_free(a->ranges);
    mem_free(a);
    return rc;
}
