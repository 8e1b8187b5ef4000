/* Directories of zip archives. Every number is checked against the file before it is used, and what
 * a member's own header says against the directory. Then deflated data, and the CRC-32 of members:
 * this is the only file that knows zlib. */
#include "checkpoint/zip.h"

#include <errno.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"

#define TEXT_MAX    0xFFFF                              /* a name, extra fields, a comment */
#define TAIL_MAX    (ZIP_END_BYTES + (int64_t)TEXT_MAX) /* where the end of an archive stands */
#define PIECE_BYTES ((int64_t)1 << 18)                  /* of the directory; a line has less */
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
    int64_t begin;              /* of the archive in the file */
    int64_t directory, end;     /* of the directory in the file */
    int64_t count;              /* of members */
    int64_t used;               /* bytes of members, at least */
    byte_reader lines, members; /* of the directory; the headers of members */
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
    TRY(input_read(a->in, raw, locator, ZIP_LOCATOR_BYTES, e));
    if (number(raw, 4) != ZIP_LOCATOR)
        return KV_OK;
    /* It has more bytes where it has fields of its own; then what the locator says is right. */
    int64_t where = place(raw + 8, 8), tries[] = {last, where < last ? where : last};
    for (int i = 0; i < 2; i++) {
        TRY(input_read(a->in, raw, tries[i], ZIP_END64_BYTES, e));
        if (number(raw, 4) != ZIP_END64 || place(raw + 4, 8) != locator - tries[i] - 12)
            continue;
        if (number(raw + 16, 8) || number(raw + 24, 8) != number(raw + 32, 8))
            return BAD(a, e, "zip archives in several files are not read");
        a->count = place(raw + 32, 8);
        *bytes = place(raw + 40, 8);
        *offset = place(raw + 48, 8);
        *at = tries[i];
        return KV_OK;
    }
    return BAD(a, e, "malformed zip archive: its zip64 end is not where it is said to be");
}

/* Finds the directory. end: where the end of the archive stands, its bytes are at raw. */
static int find_directory(archive *a, const unsigned char *raw, int64_t end, kv_err *e)
{
    int64_t bytes = place(raw + 12, 4), offset = place(raw + 16, 4), disk = place(raw + 4, 2);
    a->count = place(raw + 10, 2);
    TRY(read_end64(a, end, &a->end, &bytes, &offset, e));
    if (a->end == end && (disk || place(raw + 6, 2) || place(raw + 8, 2) != a->count))
        return BAD(a, e, "zip archives in several files are not read");
    a->directory = a->end - bytes;
    a->begin = a->directory - offset;
    if (a->directory < 0 || a->begin < 0)
        return BAD(a, e, "malformed zip archive: its directory would begin before the file");
    if (a->count > bytes / ZIP_ENTRY_BYTES)
        return BAD(a, e, "malformed zip archive: %lld members in a directory of %lld bytes",
                   (long long)a->count, (long long)bytes);
    return KV_OK;
}

static int read_end(archive *a, kv_err *e)
{
    int64_t n = at_most(a->in->size, TAIL_MAX), first = a->in->size - n;
    own_mem unsigned char *tail = mem_alloc(n, 1, e);
    if (!tail)
        return KV_E_MEMORY;
    TRY(input_read(a->in, tail, first, n, e));
    int64_t at = find_end(tail, n);
    if (at < 0)
        return BAD(a, e, "cut, or no zip archive: it does not end with a directory");
    TRY(find_directory(a, tail + at, first + at, e));
    int64_t behind = n - at - ZIP_END_BYTES - place(tail + at + 20, 2);
    return behind ? checkpoint_fault(a->c, NULL, a->file, e, "%lld bytes behind the zip archive",
                                     (long long)behind)
                  : KV_OK;
}

/* ---- A member -------------------------------------------------------------------------------- */

/* A fault of the member a->name, which leaves the others readable. */
#define BAD_MEMBER(a, e, ...)                                                                      \
    checkpoint_leave_out((a)->c, (a)->file, "member", (a)->name, e, __VA_ARGS__)

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

/* Reads a member's own header, which has to fit the directory; what it has to say goes to *m. */
static int check_local(archive *a, zip_member *m, const unsigned char *line, kv_err *e)
{
    int64_t room = a->directory - m->offset, nname = (int64_t)strlen(a->name);
    int64_t ahead = m->stored < NEAR_BYTES ? NEAR_BYTES : GUESS_BYTES;
    const unsigned char *h;
    if (m->offset < 0 || room < ZIP_LOCAL_BYTES)
        return BAD_MEMBER(a, e, "begins at byte %lld, outside the members", (long long)m->offset);
    a->members.at = m->offset;
    TRY(byte_reader_look(&a->members, &h, ZIP_LOCAL_BYTES, ahead, e));
    if (number(h, 4) != ZIP_LOCAL)
        return BAD_MEMBER(a, e, "has no header at byte %lld", (long long)m->offset);
    int64_t nextra = place(h + 28, 2), need = ZIP_LOCAL_BYTES + place(h + 26, 2) + nextra;
    if (need > room)
        return BAD_MEMBER(a, e, "ends outside the members");
    TRY(byte_reader_look(&a->members, &h, need, ahead, e));
    m->begin = m->offset + need;
    if (m->stored > a->directory - m->begin)
        return BAD_MEMBER(a, e, "ends outside the members: it has %lld bytes",
                          (long long)m->stored);
    int64_t stored = place(h + 18, 4), bytes = place(h + 22, 4);
    int64_t *const fields[] = {&bytes, &stored};
    bool behind = number(h + 6, 2) & ZIP_SIZES_BEHIND;
    bool fits =
        place(h + 26, 2) == nname && memcmp(h + ZIP_LOCAL_BYTES, a->name, (size_t)nname) == 0 &&
        number(h + 8, 2) == number(line + 10, 2) &&
        take_zip64(h + ZIP_LOCAL_BYTES + nname, nextra, fields, 2) &&
        (behind || (number(h + 14, 4) == m->crc && stored == m->stored && bytes == m->bytes));
    if (!fits)
        return BAD_MEMBER(a, e, "has another header than the directory says");
    a->members.at = m->begin;
    m->data = &a->members;
    return KV_OK;
}

/* Checks what the directory says of a member. */
static int check_line(archive *a, const zip_member *m, const unsigned char *line, int64_t nname,
                      kv_err *e)
{
    uint64_t flags = number(line + 8, 2), method = number(line + 10, 2);
    if ((int64_t)strlen(a->name) != nname || !utf8_valid(a->name, (size_t)nname))
        return BAD_MEMBER(a, e, "has a name that is not UTF-8, or with a NUL");
    if (flags & ZIP_ENCRYPTED)
        return BAD_MEMBER(a, e, "is encrypted");
    if (method != ZIP_STORED && method != ZIP_DEFLATED)
        return BAD_MEMBER(a, e, "is compressed by method %llu, and only deflate is read",
                          (unsigned long long)method);
    if (!m->deflated && m->stored != m->bytes)
        return BAD_MEMBER(a, e, "is stored with %lld bytes, but has %lld", (long long)m->stored,
                          (long long)m->bytes);
    if (m->deflated && m->bytes / INFLATE_MOST > m->stored)
        return BAD_MEMBER(a, e, "cannot have %lld bytes: it is deflated to %lld",
                          (long long)m->bytes, (long long)m->stored);
    return KV_OK;
}

/* ---- The directory --------------------------------------------------------------------------- */

/* Makes *line point to the next n bytes of the directory. */
static int look(archive *a, const unsigned char **line, int64_t n, kv_err *e)
{
    return n > a->end - a->lines.at
               ? BAD(a, e, "malformed zip archive: its directory ends within a member")
               : byte_reader_look(&a->lines, line, n, PIECE_BYTES, e);
}

typedef int zip_each(void *arg, const zip_member *m, kv_err *e);

static int read_member(archive *a, zip_each *each, void *arg, kv_err *e)
{
    const unsigned char *p;
    TRY(look(a, &p, ZIP_ENTRY_BYTES, e));
    if (number(p, 4) != ZIP_ENTRY)
        return BAD(a, e, "malformed zip archive: no member of its directory at byte %lld",
                   (long long)a->lines.at);
    int64_t nname = place(p + 28, 2), nextra = place(p + 30, 2);
    int64_t n = ZIP_ENTRY_BYTES + nname + nextra + place(p + 32, 2);
    TRY(look(a, &p, n, e));
    a->lines.at += n;
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
        return BAD_MEMBER(a, e, "has no zip64 sizes, which it needs");
    m.offset += a->begin;
    /* Members that share bytes are told at the end, unless so many do that it would never come. */
    a->used += ZIP_LOCAL_BYTES + nname + at_most(m.stored, a->directory);
    if (a->used / 4 > a->directory - a->begin)
        return BAD(a, e, "malformed zip archive: its members have more bytes than there are");
    TRY(check_line(a, &m, p, nname, e));
    TRY(check_local(a, &m, p, e));
    TRY(mem_grow(&a->ranges, &a->cap, a->nranges + 1, sizeof *a->ranges, e));
    a->ranges[a->nranges++] = (range){m.offset, m.begin + m.stored};
    bool folder = m.bytes == 0 && nname && a->name[nname - 1] == '/';
    return folder ? KV_OK : each(arg, &m, e);
}

static int by_begin(const void *x, const void *y)
{
    const range *a = x, *b = y;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static int read_directory(archive *a, zip_each *each, void *arg, kv_err *e)
{
    TRY(read_end(a, e));
    a->lines.at = a->directory;
    for (int64_t i = 0; i < a->count; i++) {
        TRY(stop_check(e));
        int rc = read_member(a, each, arg, e);
        TRY(rc == LEFT_OUT ? KV_OK : rc);
    }
    if (a->lines.at < a->end)
        TRY(checkpoint_fault(a->c, NULL, a->file, e,
                             "%lld bytes of the zip directory belong to no member",
                             (long long)(a->end - a->lines.at)));
    if (a->nranges)
        qsort(a->ranges, (size_t)a->nranges, sizeof *a->ranges, by_begin);
    for (int64_t i = 1; i < a->nranges; i++) {
        /* Members that share bytes: a small archive could be of any size. */
        if (a->ranges[i].begin < a->ranges[i - 1].end)
            return checkpoint_fault(a->c, NULL, a->file, e, "members overlap at byte %lld",
                                    (long long)a->ranges[i].begin);
    }
    return KV_OK;
}

int zip_read(const checkpoint *c, int file, zip_each *each, void *arg, kv_err *e)
{
    own_mem archive *a = mem_zalloc(1, sizeof *a, e);
    if (!a)
        return KV_E_MEMORY;
    a->c = c;
    a->in = a->lines.in = a->members.in = &c->files[file];
    a->file = file;
    int rc = read_directory(a, each, arg, e);
    byte_reader_release(&a->lines);
    byte_reader_release(&a->members);
    mem_free(a->ranges);
    return rc;
}

/* ---- Deflated data --------------------------------------------------------------------------- */

/* Compressed bytes read at a time: little first, since opening wants a header only. */
#define FIRST_BYTES ((int64_t)2 << 10)
#define MOST_BYTES  ((int64_t)128 << 10)

struct inflate_stream {
    z_stream z;
    const input *in;
    const char *name;
    int64_t at, left; /* compressed bytes that were not read yet */
    int64_t step;     /* read at a time */
    bool ended;
    unsigned char piece[MOST_BYTES];
};

/* arg: the kv_err of the call. */
static void *z_alloc(void *arg, unsigned n, unsigned size)
{
    return mem_alloc(n, size, arg);
}

static void z_free(void *arg, void *block)
{
    (void)arg;
    mem_free(block);
}

int inflate_new(inflate_stream **out, kv_err *e)
{
    inflate_stream *s = mem_alloc(1, sizeof *s, e);
    if (!s)
        return KV_E_MEMORY;
    s->z = (z_stream){.zalloc = z_alloc, .zfree = z_free, .opaque = e};
    /* Negative: no header of zlib's own before the data. */
    if (inflateInit2(&s->z, -MAX_WBITS) != Z_OK) {
        mem_free(s);
        return KV_E_MEMORY;
    }
    *out = s;
    return KV_OK;
}

void inflate_free(inflate_stream *s)
{
    if (!s)
        return;
    inflateEnd(&s->z);
    mem_free(s);
}

void inflate_begin(inflate_stream *s, const input *in, int64_t at, int64_t n, const char *name)
{
    inflateReset(&s->z);
    s->z.avail_in = 0;
    s->in = in;
    s->name = name;
    s->at = at;
    s->left = n;
    s->step = FIRST_BYTES;
    s->ended = false;
}

static int refill(inflate_stream *s, kv_err *e)
{
    int64_t n = at_most(s->left, s->step);
    int rc = input_read(s->in, s->piece, s->at, n, e);
    s->z.next_in = s->piece;
    s->z.avail_in = rc ? 0 : (unsigned)n;
    s->at += n;
    s->left -= n;
    s->step = s->step * 4 < MOST_BYTES ? s->step * 4 : MOST_BYTES;
    return rc;
}

/* Inflates what one call can; the end of the data sets ended. */
static int step(inflate_stream *s, kv_err *e)
{
    TRY(s->z.avail_in || !s->left ? KV_OK : refill(s, e));
    s->z.opaque = e;
    switch (inflate(&s->z, Z_NO_FLUSH)) {
    case Z_STREAM_END:
        s->ended = true;
        return s->z.avail_in || s->left
                   ? file_bad(e, KV_E_FORMAT, s->name, "%lld bytes behind its compressed data",
                              (long long)(s->left + s->z.avail_in))
                   : KV_OK;
    case Z_OK:
        return KV_OK;
    case Z_BUF_ERROR:
        return s->left ? KV_OK
                       : file_bad(e, KV_E_FORMAT, s->name, "cut within its compressed data");
    case Z_MEM_ERROR:
        return KV_E_MEMORY;
    }
    return file_bad(e, KV_E_FORMAT, s->name, "damaged: its compressed data cannot be inflated");
}

int inflate_read(inflate_stream *s, void *to, int64_t n, int64_t *got, kv_err *e)
{
    int rc = KV_OK;
    int64_t most = (int64_t)1 << 30; /* zlib counts in unsigned */
    *got = 0;
    while (!rc && *got < n && !s->ended) {
        unsigned room = (unsigned)(n - *got < most ? n - *got : most);
        s->z.next_out = (unsigned char *)to + *got;
        s->z.avail_out = room;
        rc = step(s, e);
        *got += room - s->z.avail_out;
    }
    return rc;
}

/* ---- CRC-32 ---------------------------------------------------------------------------------- */

#ifdef __x86_64__
/* Long texts are folded by the carry-less multiplication of x86-64, some times as quick as zlib's
 * tables. A text is a polynomial over the bits, and its CRC-32 the rest of a division by P =
 * 0x104C11DB7. A part that k bits follow can be replaced by its product with x^k mod P, added to
 * what stands there: the rest of the division stays. So four registers of 128 bits go through the
 * text, each replaced by an addition to the next four, until one is left. In CRC-32 the bits of a
 * byte are in the other order, hence the constants: x^(k + 32) and x^(k - 32) mod P for the two
 * halves of a register, with their 33 bits reversed. Source: V. Gopal and others, Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009. */
#define FOLD_LEAST  64 /* bytes */
#define WITH_PCLMUL __attribute__((target("pclmul,sse2")))

static inline __m128i load(const char *data)
{
    return _mm_loadu_si128((const __m128i *)data);
}

/* Replaces x, by the two constants of a distance, in a text that has `next` there. */
WITH_PCLMUL static inline __m128i fold(__m128i x, __m128i constants, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Makes 16 bytes of n, a multiple of 16 and FOLD_LEAST at least, that follow bytes whose CRC-32 is
 * crc: their CRC-32 behind bytes whose CRC-32 is 0xFFFFFFFF is that of all. */
WITH_PCLMUL static void crc_fold(unsigned char out[16], uint32_t crc, const void *data, int64_t n)
{
    const __m128i by_512 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
    const __m128i by_128 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    const char *at = data, *end = at + n;
    __m128i x[4];
    for (int i = 0; i < 4; i++)
        x[i] = load(at + 16 * i);
    /* The CRC so far is added to the first bits. */
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    for (at += 64; end - at >= 64; at += 64) {
        for (int i = 0; i < 4; i++)
            x[i] = fold(x[i], by_512, load(at + 16 * i));
    }
    for (int i = 1; i < 4; i++)
        x[i] = fold(x[i - 1], by_128, x[i]);
    for (; at < end; at += 16)
        x[3] = fold(x[3], by_128, load(at));
    _mm_storeu_si128((__m128i *)out, x[3]);
}
#endif

uint32_t inflate_crc(uint32_t crc, const void *data, int64_t n)
{
    const unsigned char *from = data;
#ifdef __x86_64__
    if (n >= FOLD_LEAST && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse2")) {
        unsigned char folded[16];
        int64_t most = n - n % 16;
        crc_fold(folded, crc, from, most);
        crc = (uint32_t)crc32_z(UINT32_MAX, folded, sizeof folded);
        from += most;
        n -= most;
    }
#endif
    return n ? (uint32_t)crc32_z(crc, from, (size_t)n) : crc;
}

uint32_t inflate_crc_shift(uint32_t crc, int64_t after)
{
    return (uint32_t)crc32_combine(crc, 0, after);
}

/* ---- Checksums of members -------------------------------------------------------------------- */

static int64_t pieces_of(const npz_sum *s)
{
    return s->bytes / NPZ_SUM_PIECE + (s->bytes % NPZ_SUM_PIECE != 0);
}

void npz_sum_init(npz_sum *s, uint32_t crc, const void *header, int64_t nheader, int64_t bytes)
{
    *s = (npz_sum){.crc = crc,
                   .header_crc = inflate_crc(0, header, nheader),
                   .header_bytes = nheader,
                   .bytes = bytes};
    atomic_init(&s->left, pieces_of(s));
}

bool npz_sum_known(npz_sum *s)
{
    return atomic_load(&s->left) == 0;
}

bool npz_sum_right(const npz_sum *s, uint32_t data_crc)
{
    return (inflate_crc_shift(s->header_crc, s->bytes) ^ data_crc) == s->crc;
}

/* The word with the bit of a piece; NULL without memory. */
static atomic_ullong *word_of(npz_sum *s, int64_t piece, kv_err *e)
{
    int64_t n = pieces_of(s);
    atomic_ullong *words = atomic_load(&s->many), *none = NULL;
    if (n <= 64)
        return &s->few;
    if (!words) {
        if (!(words = mem_zalloc(n / 64 + 1, sizeof *words, e)))
            return NULL;
        /* Another thread may have been quicker. */
        if (!atomic_compare_exchange_strong(&s->many, &none, words)) {
            mem_free(words);
            words = none;
        }
    }
    return &words[piece / 64];
}

/* A piece was read whole; `after` bytes of data follow it. */
static int end_piece(npz_sum *s, int64_t piece, uint32_t crc, int64_t after, kv_err *e)
{
    unsigned long long bit = 1ull << (piece % 64);
    atomic_ullong *word = word_of(s, piece, e);
    if (!word)
        return KV_E_MEMORY;
    if (atomic_fetch_or(word, bit) & bit)
        return KV_OK;
    atomic_fetch_xor(&s->added, inflate_crc_shift(crc, after));
    atomic_fetch_sub(&s->left, 1); /* last: from 0 on `added` is complete */
    return KV_OK;
}

int npz_sum_add(npz_sum *s, npz_sum_run *run, int64_t tensor, const void *data, int64_t at,
                int64_t n, bool *right, kv_err *e)
{
    const char *from = data;
    int rc = KV_OK;
    bool known = npz_sum_known(s);
    if (run->tensor != tensor + 1 || run->at != at)
        *run = (npz_sum_run){tensor + 1, at, 0, at % NPZ_SUM_PIECE == 0};
    run->at = at + n;
    while (n > 0 && !known && !rc) {
        int64_t piece = at / NPZ_SUM_PIECE, end = (piece + 1) * NPZ_SUM_PIECE;
        end = at_most(end, s->bytes);
        int64_t part = at_most(n, end - at);
        if (run->whole)
            run->crc = inflate_crc(run->crc, from, part);
        at += part;
        from += part;
        n -= part;
        if (at < end)
            break;
        if (run->whole)
            rc = end_piece(s, piece, run->crc, s->bytes - end, e);
        run->crc = 0;
        run->whole = true;
    }
    if (rc)
        run->tensor = 0;
    *right = !npz_sum_known(s) || npz_sum_right(s, atomic_load(&s->added));
    return rc;
}

/* ---- Files compressed by gzip ---------------------------------------------------------------- */

struct gunzip {
    z_stream z;
    bool begun, damaged; /* a member has begun, and not ended */
    unsigned char piece[MOST_BYTES];
};

int gunzip_new(gunzip **out, kv_err *e)
{
    gunzip *g = mem_zalloc(1, sizeof *g, e);
    if (!g)
        return KV_E_MEMORY;
    g->z = (z_stream){.zalloc = z_alloc, .zfree = z_free};
    *out = g;
    if (inflateInit2(&g->z, 16 + MAX_WBITS) == Z_OK) /* 16: with the header of gzip */
        return KV_OK;
    mem_free(g);
    *out = NULL;
    return kv_err_set(e, KV_E_MEMORY, "out of memory");
}

void gunzip_free(gunzip *g)
{
    if (g)
        inflateEnd(&g->z);
    mem_free(g);
}

/* A file may be several members, one behind the other. */
ssize_t gunzip_read(gunzip *g, char *to, size_t n, ssize_t (*read)(void *arg, char *to, size_t n),
                    void *arg)
{
    n = at_most(n, MOST_BYTES);
    g->z.next_out = (unsigned char *)to;
    g->z.avail_out = (unsigned)n;
    while (g->z.avail_out == n && n > 0 && !g->damaged) {
        if (g->z.avail_in == 0) {
            ssize_t got = read(arg, (char *)g->piece, sizeof g->piece);
            if (got < 0 || (got == 0 && !g->begun))
                return got;
            g->damaged = got == 0;
            g->z.next_in = g->piece;
            g->z.avail_in = (unsigned)got;
        }
        int result = inflate(&g->z, Z_NO_FLUSH);
        g->begun = result != Z_STREAM_END;
        if (result == Z_STREAM_END)
            result = inflateReset(&g->z);
        g->damaged |= result != Z_OK && result != Z_BUF_ERROR;
    }
    size_t made = n - g->z.avail_out;
    if (made == 0 && g->damaged)
        errno = EBADMSG;
    return made == 0 && g->damaged ? -1 : (ssize_t)made;
}

bool gunzip_damaged(const gunzip *g)
{
    return g->damaged;
}
