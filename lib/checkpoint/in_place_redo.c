/* What a journal says, written. */
#include "checkpoint/in_place_redo.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/xxh64.h"

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

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
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
                               least(n * PAGE, t->bytes - at), e);
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
    int rc = KV_OK;
    if (at < t->begin || at + n > t->begin + WINDOW) {
        if ((rc = in_place_target_flush(t, e)))
            return rc;
        empty(t);
        t->begin = at - at % PART;
    }
    int64_t in = at - t->begin;
    for (int64_t i = in / PART; !rc && i * PART < in + n; i++) {
        int64_t from = t->begin + i * PART;
        if (!t->is_read[i])
            rc = file_read_at(t->fd, t->name, from, t->data + i * PART,
                              least(PART, t->bytes - from), NULL, e);
        t->is_read[i] = !rc;
    }
    if (rc)
        return rc;
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
    xxh64_parts sum;
    int64_t at = 0, n = 0;
    int rc = KV_OK;
    xxh64_begin(&sum);
    do {
        xxh64_add(&sum, t->data, (size_t)n); /* the part before, which is not the last */
        at += n;
        n = least(WINDOW, key->n - at);
        rc = file_read_at(t->fd, t->name, key->offset + at, t->data, n, NULL, e);
    } while (!rc && n == WINDOW);
    if (rc || xxh64_end(&sum, t->data, (size_t)n) == key->sum)
        return rc;
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
    int rc = write_places(t, r, e);
    if (!rc && !(rc = in_place_sync(t, e)) && check)
        rc = check_keys(t, r, e);
    return rc ? rc : in_place_put_first(t, r->about.first, e);
}

/* The file as it is, with its first bytes. */
static int copy_all(const in_place_target *from, in_place_target *to, const char first[8],
                    kv_err *e)
{
    int rc = KV_OK;
    for (int64_t at = 0, n; !rc && at < from->bytes; at += n) {
        n = least(WINDOW, from->bytes - at);
        rc = file_read_at(from->fd, from->name, at, to->data, n, NULL, e);
        if (at == 0)
            memcpy(to->data, first, 8);
        if (!rc)
            rc = file_write_at(to->fd, to->name, at, to->data, n, e);
    }
    return rc;
}

int in_place_copy(const in_place_target *t, const char *path, journal_reader *r, kv_err *e)
{
    struct stat about;
    file_out out;
    if (fstat(t->fd, &about) != 0 || about.st_nlink != 1)
        return file_bad(e, KV_E_IO, t->name, "it has other names");
    int rc = file_out_open(&out, path, e);
    if (rc)
        return rc;
    in_place_target to = {.fd = fileno(out.f), .name = t->name, .bytes = t->bytes};
    out.unsynced = t->unsynced;
    if (!(rc = in_place_target_begin(&to, e)) && !(rc = copy_all(t, &to, r->about.first, e)) &&
        !(rc = write_places(&to, r, e)))
        rc = check_keys(&to, r, e);
    in_place_target_release(&to);
    if (!rc)
        return file_out_commit(&out, e);
    file_out_abandon(&out);
    return rc;
}
