/* Journals as bytes; what a journal says, written. */
#include "checkpoint/in_place_journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/xxh64.h"
#include "checkpoint/in_place.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they stand");

static const char magic[8] = {'k', 'v', 'j', 'o', 'u', 'r', 'n', '2'},
                  magic_old[8] = {'k', 'v', 'j', 'o', 'u', 'r', 'n', '1'};

typedef struct file_header {
    char magic[8];
    int32_t pid, zero;
    int64_t target_bytes;
    char first[8];
    int64_t bytes, records;
    uint64_t last_sum, sum;
} file_header;

typedef struct block_header {
    uint64_t before;
    uint32_t bytes, records;
} block_header;

_Static_assert(sizeof(file_header) == JOURNAL_HEADER && sizeof(block_header) == 16,
               "they have no gaps");

/* The most bytes of a record of n: four numbers of 10 bytes, a sum, and the bytes. */
#define RECORD_MOST(n) (48 + (n))
_Static_assert(sizeof(block_header) + RECORD_MOST(JOURNAL_RECORD) <= JOURNAL_BLOCK, "it fits");

/* So that no place in a journal overflows an integer. */
#define TARGET_MOST ((int64_t)1 << 60)

/* ---- Writing --------------------------------------------------------------------------------- */

int journal_begin(journal_writer *w, int fd, const char *name, kv_err *e)
{
    *w = (journal_writer){.fd = fd, .name = name, .used = sizeof(block_header)};
    w->about.bytes = JOURNAL_HEADER;
    w->block = mem_alloc(JOURNAL_BLOCK, 1, e);
    return w->block ? KV_OK : KV_E_MEMORY;
}

static int flush(journal_writer *w, kv_err *e)
{
    block_header h = {w->sum, (uint32_t)(w->used - (int64_t)sizeof h), (uint32_t)w->in_block};
    if (w->in_block == 0)
        return KV_OK;
    memcpy(w->block, &h, sizeof h);
    w->sum = xxh64(w->block, (size_t)w->used);
    int rc = file_write_at(w->fd, w->name, w->about.bytes, w->block, w->used, e);
    w->about.bytes += w->used;
    w->used = sizeof h;
    w->in_block = 0;
    return rc;
}

static void put_number(journal_writer *w, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        w->block[w->used++] = (char)(x | 0x80);
    w->block[w->used++] = (char)x;
}

static void put_bytes(journal_writer *w, const char *data, int64_t n)
{
    memcpy(w->block + w->used, data, (size_t)n);
    w->used += n;
}

int journal_add(journal_writer *w, const journal_record *r, kv_err *e)
{
    int64_t by = r->offset - w->end, n = r->now ? r->n : 0;
    uint64_t d = by >= 0 ? (uint64_t)by << 1 : ((uint64_t)-by << 1) - 1;
    bool full = w->used + RECORD_MOST(r->now ? n : r->key_bytes) > JOURNAL_BLOCK;
    TRY(full ? flush(w, e) : KV_OK);
    bool same = n > 0 && n == w->n;
    put_number(w, d << 1 | same);
    if (!same)
        put_number(w, (uint64_t)n);
    if (n > 0) {
        put_bytes(w, r->now, n);
        w->n = n;
    } else {
        put_number(w, (uint64_t)r->n);
        put_number(w, (uint64_t)r->key_bytes);
        put_bytes(w, r->key, r->key_bytes);
        put_bytes(w, (const char *)&r->sum, sizeof r->sum);
    }
    w->end = r->offset + n;
    w->in_block++;
    w->about.records++;
    return KV_OK;
}

int journal_end(journal_writer *w, kv_err *e)
{
    int rc = flush(w, e);
    file_header h = {.pid = w->about.pid,
                     .target_bytes = w->about.target_bytes,
                     .bytes = w->about.bytes,
                     .records = w->about.records,
                     .last_sum = w->sum};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.first, w->about.first, sizeof h.first);
    h.sum = xxh64(&h, offsetof(file_header, sum));
    return rc ? rc : file_write_at(w->fd, w->name, 0, &h, sizeof h, e);
}

void journal_release(journal_writer *w)
{
    mem_free(w->block);
    w->block = NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads n bytes; *whole becomes false if the file ends before. */
static int read_at(const journal_reader *r, int64_t at, void *to, int64_t n, bool *whole, kv_err *e)
{
    int64_t got;
    int rc = file_read_at(r->fd, r->name, at, to, n, &got, e);
    *whole = *whole && !rc && got == n;
    return rc;
}

/* Begins again with the first record. */
static void journal_rewind(journal_reader *r)
{
    r->used = r->taken = r->left_in_block = 0;
    r->left = r->about.records;
    r->at = JOURNAL_HEADER;
    r->end = r->n = 0;
    r->sum = 0;
}

int journal_open(journal_reader *r, int fd, const char *name, bool *whole, kv_err *e)
{
    file_header h;
    *r = (journal_reader){.fd = fd, .name = name};
    *whole = true;
    TRY(read_at(r, 0, &h, sizeof h, whole, e));
    if (!*whole)
        return KV_OK;
    r->has_old = memcmp(h.magic, magic_old, sizeof magic) == 0;
    *whole = (r->has_old || memcmp(h.magic, magic, sizeof magic) == 0) &&
             h.sum == xxh64(&h, offsetof(file_header, sum)) && h.zero == 0 && h.records >= 0 &&
             h.target_bytes >= (int64_t)sizeof h.first && h.target_bytes <= TARGET_MOST;
    if (!*whole)
        return KV_OK;
    r->about = (journal_about){
        .target_bytes = h.target_bytes, .pid = h.pid, .bytes = h.bytes, .records = h.records};
    memcpy(r->about.first, h.first, sizeof h.first);
    r->last_sum = h.last_sum;
    r->block = mem_alloc(JOURNAL_BLOCK, 1, e);
    journal_rewind(r);
    return r->block ? KV_OK : KV_E_MEMORY;
}

/* Reads the next block and checks that it belongs behind the one before. */
static int next_block(journal_reader *r, bool *whole, kv_err *e)
{
    block_header h;
    TRY(read_at(r, r->at, &h, sizeof h, whole, e));
    if (!*whole)
        return KV_OK;
    *whole = h.before == r->sum && h.records > 0 && h.bytes <= JOURNAL_BLOCK - sizeof h;
    if (!*whole)
        return KV_OK;
    r->used = (int64_t)sizeof h + h.bytes;
    int rc = read_at(r, r->at, r->block, r->used, whole, e);
    if (rc || !*whole)
        return rc;
    r->sum = xxh64(r->block, (size_t)r->used);
    r->taken = sizeof h;
    r->left_in_block = h.records;
    r->at += r->used;
    return KV_OK;
}

/* *whole: that the number ends within the block and is none of more than 63 bits. */
static int64_t take_number(journal_reader *r, bool *whole)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 63 && r->taken < r->used; shift += 7) {
        unsigned char byte = (unsigned char)r->block[r->taken++];
        x |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return (int64_t)x;
    }
    *whole = false;
    return 0;
}

/* The next n bytes of the block. */
static const char *take_bytes(journal_reader *r, int64_t n, bool *whole)
{
    *whole = *whole && n <= r->used - r->taken;
    if (!*whole)
        return NULL;
    r->taken += n;
    return r->block + r->taken - n;
}

/* What a key is afterwards. */
static void take_key(journal_reader *r, journal_record *record, bool *whole)
{
    record->n = take_number(r, whole);
    record->key_bytes = take_number(r, whole);
    record->key = take_bytes(r, record->key_bytes, whole);
    const char *sum = take_bytes(r, sizeof record->sum, whole);
    if (sum)
        memcpy(&record->sum, sum, sizeof record->sum);
    *whole = *whole && record->key_bytes <= JOURNAL_NAME;
}

static void take_record(journal_reader *r, journal_record *record, bool *whole)
{
    int64_t code = take_number(r, whole), d = code >> 1;
    int64_t by = d & 1 ? -(d / 2) - 1 : d / 2;
    int64_t n = code & 1 ? r->n : take_number(r, whole);
    *record = (journal_record){.offset = r->end + by, .n = n};
    if (n > 0) {
        *whole = *whole && n <= JOURNAL_RECORD;
        if (r->has_old)
            (void)take_bytes(r, n, whole);
        record->now = take_bytes(r, n, whole);
        r->n = n;
    } else {
        *whole = *whole && !r->has_old && !(code & 1);
        take_key(r, record, whole);
    }
    /* |by| < 2^61 and the end is at most TARGET_MOST, so that no sum overflows */
    *whole = *whole && record->offset >= (int64_t)sizeof r->about.first &&
             record->n <= r->about.target_bytes && /* so that this does not either */
             record->offset <= r->about.target_bytes - record->n;
    r->end = *whole ? record->offset + n : 0;
}

/* The next record; *more is false behind the last. *whole becomes false when the journal is cut or
 * damaged, which may show only at the end: read all of it before doing anything. Error: io. */
static int journal_next(journal_reader *r, journal_record *record, bool *more, bool *whole,
                        kv_err *e)
{
    int rc = KV_OK;
    *more = false;
    if (*whole && r->left == 0) /* nothing but the sum of the header follows the last block */
        *whole = r->at == r->about.bytes && r->sum == r->last_sum && r->taken == r->used;
    if (!*whole || r->left == 0)
        return KV_OK;
    if (r->left_in_block == 0) {
        *whole = r->taken == r->used;
        if (*whole && (rc = next_block(r, whole, e)))
            return rc;
    }
    if (*whole)
        take_record(r, record, whole);
    *more = *whole;
    r->left_in_block--;
    r->left--;
    return KV_OK;
}

int journal_check(journal_reader *r, bool *whole, kv_err *e)
{
    journal_record record;
    bool more = true;
    journal_rewind(r);
    while (more)
        TRY(journal_next(r, &record, &more, whole, e));
    return KV_OK;
}

void journal_close(journal_reader *r)
{
    mem_free(r->block);
    r->block = NULL;
}

/* ---- Writing what a journal says ------------------------------------------------------------- */

#define WINDOW TARGET_WINDOW
#define PART   TARGET_PART
#define PAGE   TARGET_PAGE

_Static_assert(JOURNAL_RECORD + PART <= WINDOW, "a record is in one window");

int in_place_sync(const in_place_target *t, kv_err *e)
{
    return t->unsynced || file_sync(t->fd) == 0 ? KV_OK : file_error(e, "write", t->name, errno);
}

int in_place_put_first(const in_place_target *t, const char first[8], kv_err *e)
{
    int rc = file_write_at(t->fd, t->name, 0, first, 8, e);
    return rc ? rc : in_place_sync(t, e);
}

/* ---- The window ------------------------------------------------------------------------------ */

int in_place_target_begin(in_place_target *t, kv_err *e)
{
    t->data = mem_alloc(WINDOW, 1, e);
    return t->data ? KV_OK : KV_E_MEMORY;
}

void in_place_target_release(in_place_target *t)
{
    mem_free(t->data);
    t->data = NULL;
}

int in_place_target_flush(in_place_target *t, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0, n; t->any_changed && !rc && i < WINDOW / PAGE; i += n) {
        for (n = 0; i + n < WINDOW / PAGE && t->is_changed[i + n]; n++)
            t->is_changed[i + n] = false;
        int64_t at = t->begin + i * PAGE;
        if (n)
            rc = file_write_at(t->fd, t->name, at, t->data + i * PAGE,
                               at_most(n * PAGE, t->bytes - at), e);
        else
            n = 1;
    }
    t->any_changed = false;
    return rc;
}

/* The window holds nothing of the file. */
static void empty(in_place_target *t)
{
    memset(t->is_read, 0, sizeof t->is_read);
    memset(t->is_changed, 0, sizeof t->is_changed);
    t->any_changed = false;
}

int in_place_target_put(in_place_target *t, int64_t at, const char *data, int64_t n, kv_err *e)
{
    if (at < t->begin || at + n > t->begin + WINDOW) {
        TRY(in_place_target_flush(t, e));
        empty(t);
        t->begin = at - at % PART;
    }
    int64_t in = at - t->begin;
    for (int64_t i = in / PART; i * PART < in + n; i++) {
        int64_t from = t->begin + i * PART;
        if (!t->is_read[i])
            TRY(file_read_at(t->fd, t->name, from, t->data + i * PART,
                             at_most(PART, t->bytes - from), NULL, e));
        t->is_read[i] = true;
    }
    memcpy(t->data + in, data, (size_t)n);
    for (int64_t i = in / PAGE; i * PAGE < in + n; i++)
        t->is_changed[i] = true;
    t->any_changed = true;
    return KV_OK;
}

/* ---- A journal ------------------------------------------------------------------------------- */

/* New bytes are written again wherever they stand: what a sync that failed has lost would look
 * written. */
static int write_places(in_place_target *t, journal_reader *r, kv_err *e)
{
    journal_record record;
    bool more = true, whole = true;
    int rc = KV_OK;
    journal_rewind(r);
    empty(t);
    while (!rc && !(rc = journal_next(r, &record, &more, &whole, e)) && more)
        if (record.now)
            rc = in_place_target_put(t, record.offset, record.now, record.n, e);
    if (!rc && !whole)
        rc = file_bad(e, KV_E_IO, r->name, "the journal changed while it was read");
    return rc ? rc : in_place_target_flush(t, e);
}

static int check_key(in_place_target *t, const journal_reader *r, const journal_record *key,
                     kv_err *e)
{
    XXH64_state_t sum;
    XXH64_reset(&sum, 0);
    for (int64_t at = 0; at < key->n; at += WINDOW) {
        int64_t n = at_most(WINDOW, key->n - at);
        TRY(file_read_at(t->fd, t->name, key->offset + at, t->data, n, NULL, e));
        XXH64_update(&sum, t->data, (size_t)n);
    }
    if (XXH64_digest(&sum) == key->sum)
        return KV_OK;
    return file_bad(e, KV_E_FORMAT, t->name,
                    "half changed, and \"%.*s\" is not what \"%.80s\" makes of it: the file was "
                    "changed after a change of it was cut short",
                    (int)key->key_bytes, key->key, r->name);
}

static int check_keys(in_place_target *t, journal_reader *r, kv_err *e)
{
    journal_record record;
    bool more = true, whole = true;
    int rc = KV_OK;
    journal_rewind(r);
    empty(t); /* its memory is needed */
    while (!rc && !(rc = journal_next(r, &record, &more, &whole, e)) && more)
        if (!record.now)
            rc = check_key(t, r, &record, e);
    return rc;
}

int in_place_redo(in_place_target *t, journal_reader *r, bool check, kv_err *e)
{
    TRY(write_places(t, r, e));
    TRY(in_place_sync(t, e));
    TRY(check ? check_keys(t, r, e) : KV_OK);
    return in_place_put_first(t, r->about.first, e);
}

/* The file as it is, with its first bytes. */
static int copy_all(const in_place_target *from, in_place_target *to, const char first[8],
                    kv_err *e)
{
    for (int64_t at = 0, n; at < from->bytes; at += n) {
        n = at_most(WINDOW, from->bytes - at);
        TRY(file_read_at(from->fd, from->name, at, to->data, n, NULL, e));
        if (at == 0)
            memcpy(to->data, first, 8);
        TRY(file_write_at(to->fd, to->name, at, to->data, n, e));
    }
    return KV_OK;
}

int in_place_copy(const in_place_target *t, const char *path, journal_reader *r, kv_err *e)
{
    struct stat about;
    file_out out;
    if (fstat(t->fd, &about) != 0 || about.st_nlink != 1)
        return file_bad(e, KV_E_IO, t->name, "it has other names");
    TRY(file_out_open(&out, path, e));
    in_place_target to = {.fd = fileno(out.f), .name = t->name, .bytes = t->bytes};
    out.unsynced = t->unsynced;
    int rc = in_place_target_begin(&to, e);
    if (!rc && !(rc = copy_all(t, &to, r->about.first, e)) && !(rc = write_places(&to, r, e)))
        rc = check_keys(&to, r, e);
    in_place_target_release(&to);
    if (!rc)
        return file_out_commit(&out, e);
    file_out_abandon(&out);
    return rc;
}
