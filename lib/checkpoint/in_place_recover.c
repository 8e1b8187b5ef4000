/* Ends a change that was cut short: its journal is written again, or dropped where the file is
 * whole. */
#include "checkpoint/in_place_recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/in_place.h"
#include "checkpoint/in_place_journal.h"
#include "checkpoint/in_place_redo.h"

/* ---- Ending a change that was cut short ------------------------------------------------------ */

/* Removes the journal of a file that is whole. One that stays does no harm. The file is unlocked
 * before, so that a reader that cannot lock it and sees no journal knows that no change is at work.
 */
int in_place_drop_journal(const in_place_names *n, int file, journal_fate *fate, kv_err *e)
{
    (void)in_place_lock_file(file, F_UNLCK);
    *fate = unlink(n->journal) == 0 || errno == ENOENT ? JOURNAL_GONE : JOURNAL_LEFT;
    return file_sync_folder(n->journal, e);
}

#define TRIES 3

int in_place_end(const in_place_names *n, in_place_target *t, journal_reader *r, bool found,
                 journal_fate *fate, kv_err *e)
{
    kv_err why;
    int rc = KV_E_IO;
    for (int i = 0; i < TRIES && rc == KV_E_IO; i++) {
        why = (kv_err){0};
        rc = i > 0 || found ? in_place_put_first(t, IN_PLACE_MARK, &why) : KV_OK;
        if (!rc)
            rc = in_place_redo(t, r, found, &why);
    }
    if (rc == KV_E_IO && in_place_copy(t, n->file, r, NULL) == KV_OK)
        rc = KV_OK;
    if (!rc)
        return in_place_drop_journal(n, t->fd, fate, e);
    kv_err_set(e, (kv_code)rc, "%s", why.text);
    if (rc == KV_E_FORMAT)
        in_place_hint_lost(n, e);
    else
        in_place_hint_kept(n, e);
    return rc;
}

/* Ends the change of a file that begins with the mark, by a journal whose sums are right. */
static int end_change(const in_place_names *n, in_place_target *t, journal_reader *r,
                      journal_fate *fate, kv_err *e)
{
    if (t->bytes != r->about.target_bytes) {
        file_bad(e, KV_E_FORMAT, n->given,
                 "half changed, and %lld bytes, where \"%.64s\" is of a file of %lld: the file was "
                 "changed after a change of it was cut short",
                 (long long)t->bytes, in_place_base(n, n->journal),
                 (long long)r->about.target_bytes);
        return in_place_hint_lost(n, e), KV_E_FORMAT;
    }
    int rc = in_place_target_begin(t, e);
    if (!rc)
        rc = in_place_end(n, t, r, true, fate, e);
    in_place_target_release(t);
    return rc;
}

/* Error: io. */
static int is_marked(int fd, const char *name, bool *yes, kv_err *e)
{
    char first[8];
    int64_t got;
    int rc = file_read_at(fd, name, 0, first, sizeof first, &got, e);
    *yes = !rc && got == (int64_t)sizeof first && memcmp(first, IN_PLACE_MARK, sizeof first) == 0;
    return rc;
}

/* The journal is open as `journal`, the file as `file`, and both are locked, or cannot be. A file
 * without the mark is whole, A or B, and needs no journal; but on the disk it may have the mark
 * still. Where there are no locks a writer may be just about to put the mark: its journal stays. */
static int settle(const in_place_names *n, int journal, int file, bool locked, journal_fate *fate,
                  kv_err *e)
{
    struct stat about;
    journal_reader r;
    bool marked, whole;
    int rc = fstat(file, &about) == 0 ? KV_OK : file_error(e, "read", n->given, errno);
    in_place_target t = {.fd = file, .name = n->given, .bytes = about.st_size};
    if (rc || (rc = is_marked(file, n->given, &marked, e)))
        return rc;
    if (!marked) {
        rc = locked ? in_place_sync(&t, e) : KV_OK;
        *fate = JOURNAL_LEFT;
        return rc || !locked ? rc : in_place_drop_journal(n, file, fate, e);
    }
    rc = journal_open(&r, journal, in_place_base(n, n->journal), &whole, e);
    if (!rc && whole)
        rc = journal_check(&r, &whole, e);
    if (!rc)
        rc = whole ? end_change(n, &t, &r, fate, e) : in_place_damaged(n, e);
    journal_close(&r);
    return rc;
}

/* Opens for writing where that is allowed: some file systems lock only such files. */
static int open_journal(const char *path)
{
    int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, fd = open(path, O_RDWR | flags);
    return fd >= 0 || (errno != EACCES && errno != EROFS) ? fd : open(path, O_RDONLY | flags);
}

/* In a folder where everybody may make files, such as /tmp, a journal may be a trap: what it says
 * is written with the rights of the reader. So it is from the reader, the owner of the file or
 * root. */
static bool is_trusted(const in_place_names *n, const struct stat *journal)
{
    struct stat file;
    return S_ISREG(journal->st_mode) && stat(n->file, &file) == 0 &&
           (journal->st_uid == geteuid() || journal->st_uid == file.st_uid || journal->st_uid == 0);
}

int in_place_recover(const in_place_names *n, journal_fate *fate, kv_err *e)
{
    struct stat about;
    bool may = false;
    int rc = KV_OK, file = -1, journal = open_journal(n->journal);
    lock_result got = NO_LOCKS;
    *fate = journal < 0 && errno == ENOENT ? JOURNAL_GONE : JOURNAL_LEFT;
    if (journal < 0)
        return KV_OK;
    if (fstat(journal, &about) == 0 && is_trusted(n, &about)) {
        if ((got = in_place_lock_whole(journal)) == LOCK_HELD)
            *fate = JOURNAL_HELD;
        else if (!in_place_is_named(journal, n->journal))
            *fate = JOURNAL_GONE; /* another reader was quicker */
        else if ((file = open(n->file, O_RDWR | O_CLOEXEC)) >= 0 &&
                 !(may = in_place_lock_file(file, F_WRLCK) != LOCK_HELD))
            *fate = JOURNAL_HELD;
    }
    if (may)
        rc = settle(n, journal, file, got == LOCKED, fate, e);
    if (file >= 0)
        close(file);
    close(journal);
    return rc;
}

/* ---- Readers --------------------------------------------------------------------------------- */

/* in_place_leave: changes are left as they are, but that of the file `but`. */
static struct {
    bool on;
    const char *but;
} leave;

void in_place_leave(bool on, const char *but)
{
    leave.on = on;
    leave.but = but;
}

static bool is_left(const in_place_names *n)
{
    return leave.on && !(leave.but && file_is_same(n->file, leave.but));
}

typedef enum found {
    FOUND_NOTHING,
    FOUND_TEMP, /* a journal that a living writer fills: the file is not touched yet */
    FOUND_JOURNAL
} found;

/* Removes the journal that a killed writer had not completed. */
static found look_at_temp(const in_place_names *n)
{
    int fd = open_journal(n->temp);
    if (fd < 0)
        return errno == ENOENT ? FOUND_NOTHING : FOUND_TEMP;
    found what = in_place_lock_whole(fd) == LOCKED ? FOUND_NOTHING : FOUND_TEMP;
    if (what == FOUND_NOTHING && !is_left(n) && in_place_is_named(fd, n->temp))
        unlink(n->temp);
    close(fd);
    return what;
}

/* A writer that ends between the two looks has removed both, or renamed one to the other. */
static found look(const in_place_names *n)
{
    if (in_place_exists(n->journal))
        return FOUND_JOURNAL;
    found what = look_at_temp(n);
    return in_place_exists(n->journal) ? FOUND_JOURNAL : what;
}

/* A change that this user cannot end, or that is left; without the mark it did not begin, or is as
 * good as ended. */
static int read_beside(int fd, const in_place_names *n, kv_err *e)
{
    bool marked;
    (void)in_place_lock_file(fd, F_RDLCK);
    int rc = is_marked(fd, n->given, &marked, e);
    if (rc || !marked)
        return rc;
    return is_left(n) ? in_place_not_now(n, e) : in_place_cannot_end(n, "read", e);
}

/* A change that could not be ended in the file itself has put a new one in its place: that becomes
 * fd. */
static int follow(int fd, const in_place_names *n, bool *moved, kv_err *e)
{
    bool marked;
    int rc = is_marked(fd, n->given, &marked, e);
    *moved = !rc && marked && !in_place_is_named(fd, n->file);
    if (!*moved)
        return rc;
    int next = open(n->file, O_RDONLY | O_CLOEXEC);
    if (next < 0 || dup3(next, fd, O_CLOEXEC) < 0)
        rc = file_error(e, "read", n->given, errno);
    if (next >= 0)
        close(next);
    return rc;
}

int in_place_shared(int fd, const char *path, kv_err *e)
{
    in_place_names n;
    in_place_patience p = {0};
    int rc = in_place_names_of(&n, path, e);
    for (bool over = false, seen = false, moved = false; !rc && !over;) {
        journal_fate fate = JOURNAL_HELD;
        bool locked = in_place_lock_file(fd, F_RDLCK) != LOCK_HELD;
        found what = look(&n);
        if (what == FOUND_NOTHING && seen && ((rc = follow(fd, &n, &moved, e)) || moved)) {
            seen = false;
            continue;
        }
        if (what == FOUND_NOTHING || (what == FOUND_TEMP && locked))
            return KV_OK;
        seen = true;
        if (what == FOUND_JOURNAL && locked && is_left(&n)) /* no writer is at work */
            return read_beside(fd, &n, e);
        (void)in_place_lock_file(fd, F_UNLCK);
        if (what == FOUND_JOURNAL && !is_left(&n))
            rc = in_place_recover(&n, &fate, e);
        if (!rc && fate == JOURNAL_LEFT)
            return read_beside(fd, &n, e);
        if (!rc && fate == JOURNAL_HELD)
            rc = in_place_wait(&p, &over, e);
    }
    return rc ? rc : in_place_changing(&n, e);
}

void in_place_forget(const char *path)
{
    in_place_names n;
    int fd = in_place_names_of(&n, path, NULL) == KV_OK && in_place_exists(n.journal)
                 ? open_journal(n.journal)
                 : -1;
    if (fd >= 0 && in_place_lock_whole(fd) != LOCK_HELD && in_place_is_named(fd, n.journal))
        unlink(n.journal);
    if (fd >= 0)
        close(fd);
}
