/* Names, locks and messages. A change that was cut short is ended first: its journal is written
 * again, or dropped where the file is whole. Then what readers do, and the steps of a change. */
#include "checkpoint/in_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "base/xxh64.h"
#include "checkpoint/in_place_journal.h"

/* ---- Names ----------------------------------------------------------------------------------- */

#define JOURNAL_ENDING ".kv-journal"
#define TEMP_ENDING    ".tmp"
#define NAME_MOST      255

/* The names of the files around a change in place. */
typedef struct names {
    const char *given;   /* as the caller named the file, for messages; borrowed */
    char file[PATH_MAX]; /* links followed */
    char journal[PATH_MAX + 32];
    char temp[PATH_MAX + 36]; /* where the journal is until it is complete */
    int folder;               /* bytes of the folder's part of all three, the / included */
} names;

/* The last part of one of the three. */
static const char *base_of(const names *n, const char *path)
{
    return path + n->folder;
}

/* Finds the names for the file at path, which is borrowed. Error: io. */
static int names_of(names *n, const char *path, kv_err *e)
{
    char first;
    n->given = path;
    if (readlink(path, &first, 1) >= 0) {
        TRY(file_follow(path, n->file, e));
    } else if (strlen(path) < sizeof n->file) {
        strcpy(n->file, path);
    } else {
        return file_error(e, "read", path, ENAMETOOLONG);
    }
    const char *slash = strrchr(n->file, '/');
    n->folder = slash ? (int)(slash - n->file) + 1 : 0;
    /* Beside a file whose name has no room for an ending stands a sum of the name. */
    const char *base = base_of(n, n->file);
    size_t bytes = strlen(base);
    memcpy(n->journal, n->file, (size_t)n->folder);
    if (bytes + 1 + strlen(JOURNAL_ENDING TEMP_ENDING) <= NAME_MOST)
        snprintf(n->journal + n->folder, bytes + 32, ".%s" JOURNAL_ENDING, base);
    else
        snprintf(n->journal + n->folder, 48, ".%016llx" JOURNAL_ENDING,
                 (unsigned long long)xxh64(base, bytes));
    snprintf(n->temp, sizeof n->temp, "%s" TEMP_ENDING, n->journal);
    return KV_OK;
}

/* *named: whether the open file still stands at path. Error: io, it cannot be looked at. */
static int look_named(int fd, const char *path, bool *named, kv_err *e)
{
    struct stat open_file, about;
    bool seen = fstat(fd, &open_file) == 0 && lstat(path, &about) == 0;
    *named = seen && open_file.st_dev == about.st_dev && open_file.st_ino == about.st_ino;
    return seen || errno == ENOENT ? KV_OK : file_error(e, "read", path, errno);
}

/* Whether it surely does. */
static bool is_named(int fd, const char *path)
{
    bool named;
    return look_named(fd, path, &named, NULL) == KV_OK && named;
}

static bool exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

/* ---- Locks ----------------------------------------------------------------------------------- */

typedef enum lock_result {
    LOCKED,
    LOCK_HELD, /* by somebody else */
    NO_LOCKS   /* the file system has none, or none for a file that is open for reading only */
} lock_result;

/* A lock by flock, which goes with the open file. */
static lock_result lock_whole(int fd)
{
    int rc;
    do {
        rc = flock(fd, LOCK_EX | LOCK_NB);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? LOCKED : errno == EWOULDBLOCK ? LOCK_HELD : NO_LOCKS;
}

/* A lock on the file that is changed: F_RDLCK, F_WRLCK, F_UNLCK. It goes with the open file too,
 * but does not conflict with flock, by which a session holds the file of its store for as long as
 * it runs: so readers of that file and sessions do not wait for each other. */
static lock_result lock_file(int fd, short kind)
{
    struct flock all = {.l_type = kind, .l_whence = SEEK_SET};
    int rc;
    do {
        rc = fcntl(fd, F_OFD_SETLK, &all);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? LOCKED : errno == EAGAIN || errno == EACCES ? LOCK_HELD : NO_LOCKS;
}

/* Waiting for a lock: asking again and again lets Ctrl-C in. All zero begins. */
typedef struct patience {
    int64_t until, pause_ms;
} patience;

/* Error: interrupted. *over: the time is up. */
static int wait_more(patience *p, bool *over, kv_err *e)
{
    int64_t now = clock_ms();
    if (p->until == 0)
        *p = (patience){now + IN_PLACE_WAIT_MS, 1};
    *over = now >= p->until;
    if (*over)
        return KV_OK;
    nanosleep(&(struct timespec){.tv_nsec = p->pause_ms * 1000000}, NULL);
    p->pause_ms += p->pause_ms < 40;
    return stop_check(e);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The process that wrote a journal, if it lives; 0: nothing tells. */
static int writer_of(const char *path)
{
    journal_reader r;
    bool whole = false;
    int pid = 0, fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (journal_open(&r, fd, path, &whole, NULL) == KV_OK && whole && r.about.pid > 0 &&
        (kill(r.about.pid, 0) == 0 || errno == EPERM))
        pid = r.about.pid;
    journal_close(&r);
    close(fd);
    return pid;
}

static int changing(const names *n, kv_err *e)
{
    char who[32] = "another process";
    int pid = writer_of(n->journal);
    if (pid)
        snprintf(who, sizeof who, "process %d", pid);
    kv_err_set(e, KV_E_BUSY, "\"%s\" is being changed in place by %s; waited %d s for it", n->given,
               who, IN_PLACE_WAIT_MS / 1000);
    return kv_err_hint(e, "try again when that has ended"), KV_E_BUSY;
}

/* What to do about an error that left the file half changed: the journal cannot end the change, or
 * it can. */
static void hint_lost(const names *n, kv_err *e)
{
    kv_err_hint(e, "the file is lost: put a whole one in its place and remove \"%s\"", n->journal);
}

static void hint_kept(const names *n, kv_err *e)
{
    kv_err_hint(e,
                "\"%.60s\" is half changed, and no other program opens it: kvctl ls %.60s "
                "ends the change, which is kept in \"%.80s\"",
                n->given, n->given, n->journal);
}

static int damaged(const names *n, kv_err *e)
{
    file_bad(e, KV_E_FORMAT, n->given,
             "half changed, and the journal of the change, \"%s\", is damaged",
             base_of(n, n->journal));
    return hint_lost(n, e), KV_E_FORMAT;
}

static int not_now(const names *n, kv_err *e)
{
    kv_err_set(e, KV_E_UNSUPPORTED,
               "cannot read \"%s\": a change of it was cut short, and a reader that writes no "
               "files leaves that to another",
               n->given);
    return kv_err_hint(e, "end the change, without --safe, with: kvctl ls %s", n->given),
           KV_E_UNSUPPORTED;
}

static int cannot_end(const names *n, const char *doing, kv_err *e)
{
    kv_err_set(e, KV_E_IO,
               "cannot %s \"%s\": a change of it was cut short, and this user may not end it, "
               "which is to write the file as \"%s\" says",
               doing, n->given, base_of(n, n->journal));
    return kv_err_hint(e,
                       "let its owner, or the user who changed it, read it once, as with: "
                       "kvctl ls %s",
                       n->given),
           KV_E_IO;
}

int in_place_lost(const char *name, kv_err *e)
{
    file_bad(e, KV_E_FORMAT, name,
             "half changed: a change of it in place was cut short, and the journal of the change "
             "is not beside it");
    return kv_err_hint(e,
                       "the journal, .NAME%s, stands beside the name under which the file was "
                       "changed: read it there",
                       JOURNAL_ENDING),
           KV_E_FORMAT;
}

/* The end of a journal that stood there. */
typedef enum journal_fate {
    JOURNAL_GONE, /* the change is ended, or it had not begun */
    JOURNAL_HELD, /* somebody works with it, or reads the file */
    JOURNAL_LEFT  /* this user cannot end it */
} journal_fate;

/* ---- Ending a change that was cut short ------------------------------------------------------ */

/* Removes the journal of a file that is whole. One that stays does no harm. The file is unlocked
 * before, so that a reader that cannot lock it and sees no journal knows that no change is at work.
 * Error: io, the removal may not last. */
static int drop_journal(const names *n, int file, journal_fate *fate, kv_err *e)
{
    (void)lock_file(file, F_UNLCK);
    *fate = unlink(n->journal) == 0 || errno == ENOENT ? JOURNAL_GONE : JOURNAL_LEFT;
    return file_sync_folder(n->journal, e);
}

#define TRIES 3

/* Ends a change whose journal was read to its end and fits, and removes it: the places are written,
 * up to three times where that fails; then the file is copied. found: another process began it, so
 * the mark may not be on the disk yet, and the sums of keys are compared. Errors: io, format; the
 * hint says what to do about the file, which keeps its mark. */
static int redo_all(const names *n, in_place_target *t, journal_reader *r, bool found,
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
        return drop_journal(n, t->fd, fate, e);
    kv_err_set(e, (kv_code)rc, "%s", why.text);
    if (rc == KV_E_FORMAT)
        hint_lost(n, e);
    else
        hint_kept(n, e);
    return rc;
}

/* Ends the change of a file that begins with the mark, by a journal whose sums are right. */
static int end_change(const names *n, in_place_target *t, journal_reader *r, journal_fate *fate,
                      kv_err *e)
{
    if (t->bytes != r->about.target_bytes) {
        file_bad(e, KV_E_FORMAT, n->given,
                 "half changed, and %lld bytes, where \"%.64s\" is of a file of %lld: the file was "
                 "changed after a change of it was cut short",
                 (long long)t->bytes, base_of(n, n->journal), (long long)r->about.target_bytes);
        return hint_lost(n, e), KV_E_FORMAT;
    }
    TRY(in_place_target_begin(t, e));
    int rc = redo_all(n, t, r, true, fate, e);
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
static int settle(const names *n, int journal, int file, bool locked, journal_fate *fate, kv_err *e)
{
    struct stat about;
    own_journal_reader r = {0};
    bool marked, whole;
    if (fstat(file, &about) != 0)
        return file_error(e, "read", n->given, errno);
    in_place_target t = {.fd = file, .name = n->given, .bytes = about.st_size};
    TRY(is_marked(file, n->given, &marked, e));
    if (!marked) {
        *fate = JOURNAL_LEFT;
        TRY(locked ? in_place_sync(&t, e) : KV_OK);
        return locked ? drop_journal(n, file, fate, e) : KV_OK;
    }
    TRY(journal_open(&r, journal, base_of(n, n->journal), &whole, e));
    TRY(whole ? journal_check(&r, &whole, e) : KV_OK);
    return whole ? end_change(n, &t, &r, fate, e) : damaged(n, e);
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
static bool is_trusted(const names *n, const struct stat *journal)
{
    struct stat file;
    return S_ISREG(journal->st_mode) && stat(n->file, &file) == 0 &&
           (journal->st_uid == geteuid() || journal->st_uid == file.st_uid || journal->st_uid == 0);
}

/* Ends the change whose journal stands beside the file, if there is one. Errors: io; format (the
 * file is not the one that the journal is about, or a damaged journal left it half changed). */
static int recover(const names *n, journal_fate *fate, kv_err *e)
{
    struct stat about;
    bool may = false;
    int rc = KV_OK, file = -1, journal = open_journal(n->journal);
    lock_result got = NO_LOCKS;
    *fate = journal < 0 && errno == ENOENT ? JOURNAL_GONE : JOURNAL_LEFT;
    if (journal < 0)
        return KV_OK;
    if (fstat(journal, &about) == 0 && is_trusted(n, &about)) {
        if ((got = lock_whole(journal)) == LOCK_HELD)
            *fate = JOURNAL_HELD;
        else if (!is_named(journal, n->journal))
            *fate = JOURNAL_GONE; /* another reader was quicker */
        else if ((file = open(n->file, O_RDWR | O_CLOEXEC)) >= 0 &&
                 !(may = lock_file(file, F_WRLCK) != LOCK_HELD))
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

static bool is_left(const names *n)
{
    return leave.on && !(leave.but && file_is_same(n->file, leave.but));
}

typedef enum found {
    FOUND_NOTHING,
    FOUND_TEMP, /* a journal that a living writer fills: the file is not touched yet */
    FOUND_JOURNAL
} found;

/* Removes the journal that a killed writer had not completed. */
static found look_at_temp(const names *n)
{
    int fd = open_journal(n->temp);
    if (fd < 0)
        return errno == ENOENT ? FOUND_NOTHING : FOUND_TEMP;
    found what = lock_whole(fd) == LOCKED ? FOUND_NOTHING : FOUND_TEMP;
    if (what == FOUND_NOTHING && !is_left(n) && is_named(fd, n->temp))
        unlink(n->temp);
    close(fd);
    return what;
}

/* A writer that ends between the two looks has removed both, or renamed one to the other. */
static found look(const names *n)
{
    if (exists(n->journal))
        return FOUND_JOURNAL;
    found what = look_at_temp(n);
    return exists(n->journal) ? FOUND_JOURNAL : what;
}

/* A change that this user cannot end, or that is left; without the mark it did not begin, or is as
 * good as ended. */
static int read_beside(int fd, const names *n, kv_err *e)
{
    bool marked;
    (void)lock_file(fd, F_RDLCK);
    TRY(is_marked(fd, n->given, &marked, e));
    if (!marked)
        return KV_OK;
    return is_left(n) ? not_now(n, e) : cannot_end(n, "read", e);
}

/* A change that could not be ended in the file itself has put a new one in its place: that becomes
 * fd. */
static int follow(int fd, const names *n, bool *moved, kv_err *e)
{
    bool marked;
    int rc = is_marked(fd, n->given, &marked, e);
    *moved = !rc && marked && !is_named(fd, n->file);
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
    names n;
    patience p = {0};
    int rc = names_of(&n, path, e);
    for (bool over = false, seen = false, moved = false; !rc && !over;) {
        journal_fate fate = JOURNAL_HELD;
        bool locked = lock_file(fd, F_RDLCK) != LOCK_HELD;
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
        (void)lock_file(fd, F_UNLCK);
        if (what == FOUND_JOURNAL && !is_left(&n))
            rc = recover(&n, &fate, e);
        if (!rc && fate == JOURNAL_LEFT)
            return read_beside(fd, &n, e);
        if (!rc && fate == JOURNAL_HELD)
            rc = wait_more(&p, &over, e);
    }
    return rc ? rc : changing(&n, e);
}

void in_place_forget(const char *path)
{
    names n;
    int fd = names_of(&n, path, NULL) == KV_OK && exists(n.journal) ? open_journal(n.journal) : -1;
    if (fd >= 0 && lock_whole(fd) != LOCK_HELD && is_named(fd, n.journal))
        unlink(n.journal);
    if (fd >= 0)
        close(fd);
}

/* ---- The steps of a change ------------------------------------------------------------------- */

struct in_place {
    names names;
    char *given;        /* that names.given points to */
    int file, temp;     /* open; temp is the journal, under either name, or the clone */
    bool has_temp;      /* it stands under its temporary name */
    bool cloned;        /* the places go into a clone of the file, without a journal */
    struct stat about;  /* the file when it was opened */
    int64_t begin, end; /* of all that is put */
    journal_writer journal;
    in_place_target target; /* the file or its clone; memory is taken before anything changes */
};

void in_place_abandon(in_place *j)
{
    if (!j)
        return;
    if (j->has_temp)
        unlink(j->names.temp);
    journal_release(&j->journal);
    in_place_target_release(&j->target);
    if (j->file >= 0)
        close(j->file);
    if (j->temp >= 0)
        close(j->temp);
    mem_free(j->given);
    mem_free(j);
}

void in_place_unsynced(in_place *j)
{
    j->target.unsynced = true;
}

static int open_file(in_place *j, kv_err *e)
{
    const names *n = &j->names;
    j->file = open(n->file, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (j->file < 0 || fstat(j->file, &j->about) != 0)
        return file_error(e, "change", n->given, errno);
    if (!S_ISREG(j->about.st_mode))
        return kv_err_set(e, KV_E_IO, "cannot change \"%s\": it is not a regular file", n->given);
    if (j->about.st_size < 8)
        return kv_err_set(e, KV_E_USAGE, "cannot change \"%s\" in place: it has only %lld bytes",
                          n->given, (long long)j->about.st_size);
    return KV_OK;
}

/* Makes the journal under its temporary name, and locks it against other writers. */
static int open_temp(in_place *j, kv_err *e)
{
    const names *n = &j->names;
    patience p = {0};
    for (bool over = false; !over;) {
        j->temp = open(n->temp, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (j->temp < 0)
            return file_error(e, "write", n->temp, errno);
        /* In a folder where everybody may make files another user may have made this one, to read
         * what is written into it. */
        struct stat made;
        if (fstat(j->temp, &made) != 0 || !S_ISREG(made.st_mode) ||
            (made.st_uid != geteuid() && made.st_uid != j->about.st_uid && made.st_uid != 0))
            return kv_err_set(e, KV_E_IO, "cannot change \"%s\": \"%s\" belongs to another user",
                              j->names.given, n->temp);
        lock_result got = lock_whole(j->temp);
        bool named = false;
        TRY(got != LOCK_HELD ? look_named(j->temp, n->temp, &named, e) : KV_OK);
        if (named) {
            j->has_temp = true;
            return ftruncate(j->temp, 0) == 0 ? KV_OK : file_error(e, "write", n->temp, errno);
        }
        close(j->temp);
        j->temp = -1;
        TRY(got == LOCK_HELD ? wait_more(&p, &over, e) : KV_OK);
    }
    return changing(n, e);
}

static int end_earlier_change(const names *n, kv_err *e)
{
    patience p = {0};
    for (bool over = false; !over;) {
        journal_fate fate = JOURNAL_GONE;
        if (!exists(n->journal))
            return KV_OK;
        TRY(recover(n, &fate, e));
        if (fate == JOURNAL_LEFT) /* the one of this change takes its place */
            return KV_OK;
        TRY(fate == JOURNAL_HELD ? wait_more(&p, &over, e) : KV_OK);
    }
    return changing(n, e);
}

/* Notes the file as it is before the change; an earlier change was ended, by one who may have put a
 * new file in its place. */
static int look_at_file(in_place *j, kv_err *e)
{
    const char *name = j->names.given;
    journal_about *about = &j->journal.about;
    if (!is_named(j->file, j->names.file)) {
        close(j->file);
        TRY(open_file(j, e));
    }
    if (fstat(j->file, &j->about) != 0 ||
        pread(j->file, about->first, sizeof about->first, 0) != (ssize_t)sizeof about->first)
        return file_error(e, "read", name, errno);
    if (memcmp(about->first, IN_PLACE_MARK, sizeof about->first) == 0)
        return exists(j->names.journal) ? cannot_end(&j->names, "change", e)
                                        : in_place_lost(name, e);
    about->target_bytes = j->about.st_size;
    about->pid = (int32_t)getpid();
    return KV_OK;
}

/* Where the places will go. */
static int begin(in_place *j, kv_err *e)
{
    /* Where the file system can (XFS, btrfs, bcachefs), the temporary file becomes a copy of the
     * file that shares its blocks. It shall take the place of the file, so that has no other name,
     * and its owner may be given to it. */
    j->cloned = j->about.st_nlink == 1 &&
                file_take_owner(j->temp, &j->about, "file", j->names.given, NULL) == KV_OK &&
                fchmod(j->temp, j->about.st_mode & 07777) == 0 &&
                ioctl(j->temp, FICLONE, j->file) == 0;
    j->target.fd = j->cloned ? j->temp : j->file;
    j->target.name = j->names.given;
    j->target.bytes = j->about.st_size;
    if (!j->cloned) {
        /* The journal holds parts of the file: whoever may read or write that may do so with the
         * journal, which others need to end the change. */
        struct stat made;
        if (fstat(j->temp, &made) == 0 &&
            ((made.st_uid == j->about.st_uid && made.st_gid == j->about.st_gid) ||
             fchown(j->temp, j->about.st_uid, j->about.st_gid) == 0))
            (void)fchmod(j->temp, j->about.st_mode & 0666);
    }
    return in_place_target_begin(&j->target, e);
}

int in_place_open(in_place **out, const char *path, kv_err *e)
{
    in_place *j = mem_zalloc(1, sizeof *j, e);
    if (!j)
        return KV_E_MEMORY;
    j->file = j->temp = -1;
    j->given = mem_text(path, strlen(path), e);
    int rc = j->given ? names_of(&j->names, j->given, e) : KV_E_MEMORY;
    if (!rc && !(rc = open_file(j, e)) && !(rc = open_temp(j, e)) &&
        !(rc = end_earlier_change(&j->names, e)) &&
        !(rc = journal_begin(&j->journal, j->temp, j->names.temp, e)) && !(rc = look_at_file(j, e)))
        rc = begin(j, e);
    if (rc) {
        in_place_abandon(j);
        return rc;
    }
    *out = j;
    return KV_OK;
}

int in_place_put(in_place *j, int64_t offset, const void *bytes_now, int64_t n, kv_err *e)
{
    const char *now = bytes_now;
    if (!kv_assert(offset >= 8 && n >= 0 && n <= j->about.st_size - offset,
                   "%lld bytes at %lld of a file of %lld are put", (long long)n, (long long)offset,
                   (long long)j->about.st_size))
        return kv_assert_report(e);
    if (n > 0 && (j->end == 0 || offset < j->begin))
        j->begin = offset;
    if (n > 0 && offset + n > j->end)
        j->end = offset + n;
    for (int64_t at = 0, bytes; at < n; at += bytes) {
        bytes = at_most(n - at, JOURNAL_RECORD);
        journal_record r = {.offset = offset + at, .n = bytes, .now = now + at};
        TRY(j->cloned ? in_place_target_put(&j->target, r.offset, r.now, bytes, e)
                      : journal_add(&j->journal, &r, e));
    }
    return KV_OK;
}

int in_place_expect(in_place *j, const char *key, int64_t offset, int64_t n, uint64_t sum,
                    kv_err *e)
{
    journal_record r = {.offset = offset, .n = n, .key = key, .sum = sum};
    r.key_bytes = (int64_t)utf8_cut(key, strlen(key), JOURNAL_NAME);
    if (!kv_assert(offset >= 8 && n >= 0 && n <= j->about.st_size - offset,
                   "\"%s\" is %lld bytes at %lld of a file of %lld", key, (long long)n,
                   (long long)offset, (long long)j->about.st_size))
        return kv_assert_report(e);
    return j->cloned ? KV_OK : journal_add(&j->journal, &r, e);
}

/* Keeps sessions out of the file, and readers, unless another file takes its place; and checks that
 * it is what it was when it was opened. */
static int take_file(in_place *j, kv_err *e)
{
    const names *n = &j->names;
    struct stat now;
    patience p = {0};
    for (bool over = false; lock_whole(j->file) == LOCK_HELD ||
                            (!j->cloned && lock_file(j->file, F_WRLCK) == LOCK_HELD);) {
        TRY(wait_more(&p, &over, e));
        if (over) {
            kv_err_set(e, KV_E_BUSY,
                       "cannot change \"%s\" in place: another process has it open; waited %d s "
                       "for it",
                       n->given, IN_PLACE_WAIT_MS / 1000);
            return kv_err_hint(e, "try again when that has ended"), KV_E_BUSY;
        }
    }
    if (fstat(j->file, &now) != 0)
        return file_error(e, "read", n->given, errno);
    if (!is_named(j->file, n->file) || now.st_size != j->about.st_size ||
        now.st_mtim.tv_sec != j->about.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != j->about.st_mtim.tv_nsec)
        return kv_err_set(e, KV_E_VALUE,
                          "cannot change \"%s\" in place: it was changed or replaced meanwhile",
                          n->given);
    return KV_OK;
}

/* A full disk is found before the first byte changes: parts of the file that have no place on the
 * disk yet get it. Not every file system can tell. */
static int reserve(const in_place *j, kv_err *e)
{
    if (j->end > j->begin && j->about.st_blocks * 512 < j->about.st_size &&
        fallocate(j->file, FALLOC_FL_KEEP_SIZE, j->begin, j->end - j->begin) != 0 &&
        (errno == ENOSPC || errno == EDQUOT))
        return file_error(e, "write", j->names.given, errno);
    return KV_OK;
}

static int sync_folder(const in_place *j, kv_err *e)
{
    return j->target.unsynced ? KV_OK : file_sync_folder(j->names.file, e);
}

/* The temporary file gets the name `to`. */
static int name_temp(in_place *j, const char *to, kv_err *e)
{
    const names *n = &j->names;
    if (!j->target.unsynced && file_sync(j->temp) != 0)
        return file_error(e, "write", n->temp, errno);
    if (rename(n->temp, to) != 0)
        return file_error(e, "write", to, errno);
    j->has_temp = false;
    return sync_folder(j, e);
}

/* Step 2: the journal gets its name. */
static int put_journal(in_place *j, kv_err *e)
{
    int rc = name_temp(j, j->names.journal, e);
    if (rc && !j->has_temp) { /* nothing has changed, so neither shall it later */
        unlink(j->names.journal);
        (void)sync_folder(j, NULL);
    }
    return rc;
}

/* Steps 2 to 6, with a journal that is complete. */
static int change(in_place *j, kv_err *e)
{
    const names *n = &j->names;
    own_journal_reader r = {0};
    journal_fate fate;
    bool whole;
    TRY(journal_open(&r, j->temp, base_of(n, n->journal), &whole, e));
    if (!whole)
        return file_bad(e, KV_E_IO, n->temp, "the journal changed while it was written");
    TRY(stop_check(e));
    TRY(put_journal(j, e));
    int rc = in_place_put_first(&j->target, IN_PLACE_MARK, e);
    if (!rc)
        return redo_all(n, &j->target, &r, false, &fate, e);
    if (in_place_put_first(&j->target, r.about.first, NULL) == KV_OK) {
        (void)drop_journal(n, j->file, &fate, NULL);
        kv_err_hint(e, "the file is as it was");
    } else {
        hint_kept(n, e);
    }
    return rc;
}

int in_place_commit(in_place *j, kv_err *e)
{
    int rc = j->cloned ? KV_OK : journal_end(&j->journal, e);
    if (!rc && j->end > 0 && !(rc = take_file(j, e))) {
        if (j->cloned) { /* the clone, whose places are written, becomes the file */
            if (!(rc = stop_check(e)) && !(rc = in_place_target_flush(&j->target, e)))
                rc = name_temp(j, j->names.file, e);
        } else if (!(rc = reserve(j, e)))
            rc = change(j, e);
    }
    in_place_abandon(j);
    return rc;
}
