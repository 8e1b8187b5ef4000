/* The places of a journal go through a window of the file: a megabyte that begins where the first
 * place does that is not in the one before. Parts of 64 KB are read into it when a place in them is
 * asked for, and pages of 4 KB are written when the window moves on, neighbours together. So places
 * that are close cost no call each, and pages without a change are not written. */
#include "checkpoint/in_place_redo.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/in_place.h"

#define WINDOW ((int64_t)1 << 20)
#define PART   ((int64_t)1 << 16)
#define PAGE   ((int64_t)1 << 12)

_Static_assert(JOURNAL_RECORD + PART <= WINDOW, "a record is in one window");

typedef struct window {
    const in_place_target *target;
    char *data;
    int64_t begin; /* a multiple of PART; data holds at most WINDOW bytes from here on */
    bool is_read[WINDOW / PART];
    bool is_changed[WINDOW / PAGE];
    bool any_changed;
} window;

static int read_at(const in_place_target *t, int64_t at, char *to, int64_t n, kv_err *e)
{
    while (n > 0) {
        ssize_t got = pread(t->fd, to, (size_t)n, at);
        if (got < 0 && errno != EINTR)
            return file_error(e, "read", t->name, errno);
        if (got == 0)
            return file_bad(e, KV_E_IO, t->name, "the file became shorter while it was changed");
        to += got > 0 ? got : 0;
        at += got > 0 ? got : 0;
        n -= got > 0 ? got : 0;
    }
    return KV_OK;
}

int in_place_sync(const in_place_target *t, kv_err *e)
{
    while (!t->unsynced && fsync(t->fd) != 0)
        if (errno != EINTR) /* which file systems of a network give */
            return file_error(e, "write", t->name, errno);
    return KV_OK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Writes the pages that were changed. */
static int window_flush(window *w, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0, n; w->any_changed && !rc && i < WINDOW / PAGE; i += n) {
        for (n = 0; i + n < WINDOW / PAGE && w->is_changed[i + n]; n++)
            w->is_changed[i + n] = false;
        int64_t at = w->begin + i * PAGE;
        if (n)
            rc = file_write_at(w->target->fd, w->target->name, at, w->data + i * PAGE,
                               least(n * PAGE, w->target->bytes - at), e);
        else
            n = 1;
    }
    w->any_changed = false;
    return rc;
}

/* Makes *data point to n bytes of the file from `at` on, until the next call. */
static int window_move(window *w, char **data, int64_t at, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    if (at < w->begin || at + n > w->begin + WINDOW) {
        if ((rc = window_flush(w, e)))
            return rc;
        w->begin = at - at % PART;
        memset(w->is_read, 0, sizeof w->is_read);
    }
    for (int64_t i = (at - w->begin) / PART; !rc && i * PART < at + n - w->begin; i++) {
        int64_t from = w->begin + i * PART;
        if (!w->is_read[i])
            rc = read_at(w->target, from, w->data + i * PART,
                         least(PART, w->target->bytes - from), e);
        w->is_read[i] = true;
    }
    *data = w->data + (at - w->begin);
    return rc;
}

static void window_changed(window *w, int64_t at, int64_t n)
{
    for (int64_t i = (at - w->begin) / PAGE; i * PAGE < at + n - w->begin; i++)
        w->is_changed[i] = true;
    w->any_changed = true;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void compare_record(in_place_state *s, const journal_record *record, const char *data)
{
    for (int64_t i = 0; i < record->n && s->alien < 0; i++) {
        if (data[i] != record->old[i] && data[i] != record->now[i])
            s->alien = record->offset + i;
        else if (record->old[i] != record->now[i])
            *(data[i] == record->old[i] ? &s->has_old : &s->has_new) = true;
    }
}

static void compare_first(in_place_state *s, const char *data, const char *first)
{
    s->marked = memcmp(data, IN_PLACE_MARK, 8) == 0;
    for (int i = 0; i < 8 && !s->marked && s->alien < 0; i++)
        s->alien = data[i] == first[i] ? -1 : i;
}

/* Goes on behind an alien byte: *whole is known only at the end of the journal. */
int in_place_compare(in_place_state *s, bool *whole, const in_place_target *t, journal_reader *r,
                     kv_err *e)
{
    window w = {.target = t, .data = mem_alloc(WINDOW, 1, e)};
    journal_record record;
    char *data;
    bool more = true;
    *s = (in_place_state){.alien = -1};
    *whole = true;
    int rc = w.data ? window_move(&w, &data, 0, 8, e) : KV_E_MEMORY;
    if (!rc)
        compare_first(s, data, r->about.first);
    journal_rewind(r);
    while (!rc && !(rc = journal_next(r, &record, &more, whole, e)) && more) {
        if (s->alien < 0 && !(rc = window_move(&w, &data, record.offset, record.n, e)))
            compare_record(s, &record, data);
    }
    mem_free(w.data);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Writes the new bytes; back: the old ones, and only where others stand, since a full disk may take
 * no others. New ones are written again wherever they stand: what a sync that failed has lost would
 * look written. */
static int write_places(window *w, journal_reader *r, bool back, kv_err *e)
{
    journal_record record;
    char *data;
    bool more = true, whole = true;
    int rc = KV_OK;
    journal_rewind(r);
    while (!rc && !(rc = journal_next(r, &record, &more, &whole, e)) && more) {
        if ((rc = window_move(w, &data, record.offset, record.n, e)))
            break;
        const char *want = back ? record.old : record.now;
        if (back && memcmp(data, want, (size_t)record.n) == 0)
            continue;
        memcpy(data, want, (size_t)record.n);
        window_changed(w, record.offset, record.n);
    }
    if (!rc && !whole)
        rc = file_bad(e, KV_E_IO, r->name, "the journal changed while it was read");
    return rc ? rc : window_flush(w, e);
}

int in_place_redo(const in_place_target *t, journal_reader *r, bool back, kv_err *e)
{
    window w = {.target = t, .data = mem_alloc(WINDOW, 1, e)};
    int rc = w.data ? file_write_at(t->fd, t->name, 0, IN_PLACE_MARK, 8, e) : KV_E_MEMORY;
    if (!rc && !(rc = in_place_sync(t, e)) && !(rc = write_places(&w, r, back, e)) &&
        !(rc = in_place_sync(t, e)) &&
        !(rc = file_write_at(t->fd, t->name, 0, r->about.first, 8, e)))
        rc = in_place_sync(t, e);
    mem_free(w.data);
    return rc;
}
