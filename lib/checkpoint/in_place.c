/* The steps of a change, the locks, and what a reader does with a journal that it finds. */
#include "checkpoint/in_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/xxh64.h"
#include "checkpoint/in_place_journal.h"
#include "checkpoint/in_place_redo.h"

/* ---- Names ----------------------------------------------------------------------------------- */

#define JOURNAL_ENDING ".kv-journal"
#define TEMP_ENDING    ".tmp"
#define NAME_MOST      255

typedef struct names {
    const char *given;   /* as the caller named the file, for messages; borrowed */
    char file[PATH_MAX]; /* links followed */
    char journal[PATH_MAX + 32];
    char temp[PATH_MAX + 36]; /* where the journal is until it is complete */
    int folder;               /* bytes of the folder's part of all three, the / included */
} names;

static const char *base_of(const names *n, const char *path)
{
    return path + n->folder;
}

/* Beside a file whose name has no room for an ending stands a sum of the name. */
static void name_journal(names *n)
{
    const char *base = base_of(n, n->file);
    size_t bytes = strlen(base);
    memcpy(n->journal, n->file, (size_t)n->folder);
    if (bytes + 1 + strlen(JOURNAL_ENDING TEMP_ENDING) <= NAME_MOST)
        snprintf(n->journal + n->folder, bytes + 32, ".%s" JOURNAL_ENDING, base);
    else
        snprintf(n->journal + n->folder, 48, ".%016llx" JOURNAL_ENDING,
                 (unsigned long long)xxh64(base, bytes));
    snprintf(n->temp, sizeof n->temp, "%s" TEMP_ENDING, n->journal);
}

static int names_of(names *n, const char *path, kv_err *e)
{
    char first;
    n->given = path;
    if (readlink(path, &first, 1) >= 0) {
        int code = file_follow(path, n->file, e);
        if (code)
            return code;
    } else if (strlen(path) < sizeof n->file) {
        strcpy(n->file, path);
    } else {
        return file_error(e, "read", path, ENAMETOOLONG);
    }
    const char *slash = strrchr(n->file, '/');
    n->folder = slash ? (int)(slash - n->file) + 1 : 0;
    name_journal(n);
    return KV_OK;
}

/* Whether the path still names the open file. */
static bool is_named(int fd, const char *path)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && lstat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

static bool exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

/* Makes what happened to names last. A file system that cannot sync a folder, or a user who may not
 * open it, is no reason to refuse; a disk that fails is. */
static int sync_folder(const names *n, kv_err *e)
{
    char folder[PATH_MAX];
    int code = KV_OK;
    snprintf(folder, sizeof folder, "%.*s", n->folder ? n->folder : 1, n->folder ? n->file : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fsync(fd) != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
        code = file_error(e, "write", folder, errno);
    if (fd >= 0)
        close(fd);
    return code;
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
static int wait_a_little(patience *p, bool *over, kv_err *e)
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
    return kv_err_hint(e, "try again when that has ended");
}

static int in_use(const names *n, kv_err *e)
{
    kv_err_set(e, KV_E_BUSY,
               "cannot change \"%s\" in place: another process has it open; waited %d s for it",
               n->given, IN_PLACE_WAIT_MS / 1000);
    return kv_err_hint(e, "try again when that has ended");
}

/* What stands in the file is not what the journal is about. */
static int not_its_file(const names *n, const char *what, kv_err *e)
{
    file_bad(e, KV_E_FORMAT, n->given,
             "%s: the file was changed or replaced after a change of it was cut short", what);
    return kv_err_hint(e, "to keep the file as it is, remove \"%s\"", n->journal);
}

static int damaged(const names *n, kv_err *e)
{
    file_bad(e, KV_E_FORMAT, n->given,
             "half changed, and the journal of the change, \"%s\", is damaged",
             base_of(n, n->journal));
    return kv_err_hint(e, "the file is lost: put a whole one in its place and remove \"%s\"",
                       n->journal);
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
                       n->given);
}

int in_place_lost(const char *name, kv_err *e)
{
    file_bad(e, KV_E_FORMAT, name,
             "half changed: a change of it in place was cut short, and the journal of the change "
             "is not beside it");
    return kv_err_hint(e,
                       "the journal, .NAME%s, stands beside the name under which the file was "
                       "changed: read it there",
                       JOURNAL_ENDING);
}

/* ---- Ending a change that was cut short ------------------------------------------------------ */

/* What came of a journal that stood there. */
typedef enum journal_fate {
    JOURNAL_GONE, /* the change is ended, or it had not begun */
    JOURNAL_HELD, /* somebody works with it, or reads the file */
    JOURNAL_LEFT  /* this user cannot end it */
} journal_fate;

/* Removes the journal of a file that is whole. One that stays does no harm: it fits. The file is
 * unlocked before, so that a reader that cannot lock it and sees no journal knows that no change is
 * at work. */
static int drop_journal(const names *n, int file, journal_fate *fate, kv_err *e)
{
    (void)lock_file(file, F_UNLCK);
    *fate = unlink(n->journal) == 0 || errno == ENOENT ? JOURNAL_GONE : JOURNAL_LEFT;
    return sync_folder(n, e);
}

static int do_again(const names *n, const in_place_target *t, journal_reader *r, kv_err *e)
{
    int code = in_place_redo(t, r, e);
    if (code)
        kv_err_hint(e, "the change is kept in \"%s\"; the next reader of the file ends it",
                    n->journal);
    return code;
}

/* Compares the file with a journal whose header is whole, and ends the change. */
static int end_change(const names *n, const in_place_target *t, journal_reader *r, bool *whole,
                      kv_err *e)
{
    in_place_state s;
    char what[160];
    if (t->bytes != r->about.target_bytes) {
        snprintf(what, sizeof what, "%lld bytes, and \"%.64s\" is of a file of %lld",
                 (long long)t->bytes, base_of(n, n->journal), (long long)r->about.target_bytes);
        return not_its_file(n, what, e);
    }
    int code = in_place_compare(&s, whole, t, r, e);
    if (code || !*whole)
        return code;
    if (s.alien < 0 && (s.marked || !s.has_old || !s.has_new))
        return do_again(n, t, r, e);
    if (s.alien >= 0)
        snprintf(what, sizeof what, "byte %lld is neither the old nor the new one of \"%.64s\"",
                 (long long)s.alien, base_of(n, n->journal));
    else
        snprintf(what, sizeof what, "old and new bytes of \"%.64s\", but no mark of a change",
                 base_of(n, n->journal));
    return not_its_file(n, what, e);
}

static bool is_marked(int fd)
{
    char first[8];
    return pread(fd, first, sizeof first, 0) == (ssize_t)sizeof first &&
           memcmp(first, IN_PLACE_MARK, sizeof first) == 0;
}

/* The journal is open as `journal` and locked, the file as `file` and as well as can be. */
static int settle(const names *n, int journal, int file, journal_fate *fate, kv_err *e)
{
    journal_reader r;
    struct stat about;
    bool whole;
    int code = fstat(file, &about) == 0 ? KV_OK : file_error(e, "read", n->given, errno);
    in_place_target t = {.fd = file, .name = n->given, .bytes = about.st_size};
    if (code)
        return code;
    code = journal_open(&r, journal, base_of(n, n->journal), &whole, e);
    if (!code && whole)
        code = end_change(n, &t, &r, &whole, e);
    if (!code && !whole) /* without a journal the file has to be whole on the disk too */
        code = is_marked(file) ? damaged(n, e) : in_place_sync(&t, e);
    if (!code)
        code = drop_journal(n, file, fate, e);
    journal_close(&r);
    return code;
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

static int recover(const names *n, journal_fate *fate, kv_err *e)
{
    struct stat about;
    bool may = false;
    int code = KV_OK, file = -1, journal = open_journal(n->journal);
    *fate = journal < 0 && errno == ENOENT ? JOURNAL_GONE : JOURNAL_LEFT;
    if (journal < 0)
        return KV_OK;
    if (fstat(journal, &about) == 0 && is_trusted(n, &about)) {
        if (lock_whole(journal) == LOCK_HELD)
            *fate = JOURNAL_HELD;
        else if (!is_named(journal, n->journal))
            *fate = JOURNAL_GONE; /* another reader was quicker */
        else if ((file = open(n->file, O_RDWR | O_CLOEXEC)) >= 0 &&
                 !(may = lock_file(file, F_WRLCK) != LOCK_HELD))
            *fate = JOURNAL_HELD;
    }
    if (may)
        code = settle(n, journal, file, fate, e);
    if (file >= 0)
        close(file);
    close(journal);
    return code;
}

/* ---- Readers --------------------------------------------------------------------------------- */

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
    if (what == FOUND_NOTHING && is_named(fd, n->temp))
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

/* A change that this user cannot end; without the mark it did not begin, or is as good as ended. */
static int read_beside(int fd, const names *n, kv_err *e)
{
    (void)lock_file(fd, F_RDLCK);
    return is_marked(fd) ? cannot_end(n, "read", e) : KV_OK;
}

int in_place_shared(int fd, const char *path, kv_err *e)
{
    names n;
    patience p = {0};
    int code = names_of(&n, path, e);
    for (bool over = false; !code && !over;) {
        journal_fate fate = JOURNAL_HELD;
        bool locked = lock_file(fd, F_RDLCK) != LOCK_HELD;
        found what = look(&n);
        if (what == FOUND_NOTHING || (what == FOUND_TEMP && locked))
            return KV_OK;
        (void)lock_file(fd, F_UNLCK);
        if (what == FOUND_JOURNAL)
            code = recover(&n, &fate, e);
        if (!code && fate == JOURNAL_LEFT)
            return read_beside(fd, &n, e);
        if (!code && fate == JOURNAL_HELD)
            code = wait_a_little(&p, &over, e);
    }
    return code ? code : changing(&n, e);
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

/* ---- Writing --------------------------------------------------------------------------------- */

struct in_place {
    names names;
    char *given;        /* that names.given points to */
    int file, temp;     /* open; temp is the journal under either name */
    bool has_temp;      /* it stands under its temporary name */
    struct stat about;  /* the file when it was opened */
    int64_t begin, end; /* of all that is put */
    journal_writer journal;
    bool unsynced;
};

static void release(in_place *j)
{
    journal_release(&j->journal);
    if (j->file >= 0)
        close(j->file);
    if (j->temp >= 0)
        close(j->temp);
    mem_free(j->given);
    mem_free(j);
}

void in_place_abandon(in_place *j)
{
    if (!j)
        return;
    if (j->has_temp)
        unlink(j->names.temp);
    release(j);
}

void in_place_unsynced(in_place *j)
{
    j->unsynced = true;
}

static int open_file(in_place *j, kv_err *e)
{
    const names *n = &j->names;
    j->file = open(n->file, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (j->file < 0 || fstat(j->file, &j->about) != 0)
        return file_error(e, "change", n->given, errno);
    if (!S_ISREG(j->about.st_mode))
        return kv_err_set(e, KV_E_IO, "cannot change \"%s\": it is no regular file", n->given);
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
    int code = KV_OK;
    for (bool over = false; !code && !over;) {
        j->temp = open(n->temp, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (j->temp < 0)
            return file_error(e, "write", n->temp, errno);
        lock_result got = lock_whole(j->temp);
        if (got != LOCK_HELD && is_named(j->temp, n->temp)) {
            j->has_temp = true;
            return ftruncate(j->temp, 0) == 0 ? KV_OK : file_error(e, "write", n->temp, errno);
        }
        close(j->temp);
        j->temp = -1;
        if (got == LOCK_HELD)
            code = wait_a_little(&p, &over, e);
    }
    return code ? code : changing(n, e);
}

/* The journal holds parts of the file: whoever may read or write that may do so with the journal,
 * which others need to end the change. */
static void give_to_owner(const in_place *j)
{
    struct stat made;
    if (fstat(j->temp, &made) == 0 &&
        ((made.st_uid == j->about.st_uid && made.st_gid == j->about.st_gid) ||
         fchown(j->temp, j->about.st_uid, j->about.st_gid) == 0))
        (void)fchmod(j->temp, j->about.st_mode & 0666);
}

static int end_earlier_change(const names *n, kv_err *e)
{
    patience p = {0};
    int code = KV_OK;
    for (bool over = false; !code && !over;) {
        journal_fate fate = JOURNAL_GONE;
        if (!exists(n->journal))
            return KV_OK;
        code = recover(n, &fate, e);
        if (!code && fate == JOURNAL_LEFT)
            return cannot_end(n, "change", e);
        if (!code && fate == JOURNAL_HELD)
            code = wait_a_little(&p, &over, e);
    }
    return code ? code : changing(n, e);
}

/* What the file is before the change; an earlier one is ended. */
static int look_at_file(in_place *j, kv_err *e)
{
    const char *name = j->names.given;
    journal_about *about = &j->journal.about;
    if (fstat(j->file, &j->about) != 0 ||
        pread(j->file, about->first, sizeof about->first, 0) != (ssize_t)sizeof about->first)
        return file_error(e, "read", name, errno);
    if (memcmp(about->first, IN_PLACE_MARK, sizeof about->first) == 0)
        return in_place_lost(name, e);
    about->target_bytes = j->about.st_size;
    about->pid = (int32_t)getpid();
    return KV_OK;
}

int in_place_open(in_place **out, const char *path, kv_err *e)
{
    in_place *j = mem_zalloc(1, sizeof *j, e);
    if (!j)
        return KV_E_MEMORY;
    j->file = j->temp = -1;
    j->given = mem_text(path, strlen(path), e);
    int code = j->given ? names_of(&j->names, j->given, e) : KV_E_MEMORY;
    if (!code && !(code = open_file(j, e)) && !(code = open_temp(j, e)) &&
        !(code = end_earlier_change(&j->names, e)) &&
        !(code = journal_begin(&j->journal, j->temp, j->names.temp, e)))
        code = look_at_file(j, e);
    if (code) {
        in_place_abandon(j);
        return code;
    }
    give_to_owner(j);
    *out = j;
    return KV_OK;
}

int in_place_put(in_place *j, int64_t offset, const void *old, const void *new_bytes, int64_t n,
                 kv_err *e)
{
    const char *before = old, *after = new_bytes;
    int code = KV_OK;
    if (!kv_assert(offset >= 8 && n >= 0 && n <= j->about.st_size - offset,
                   "%lld bytes at %lld of a file of %lld are put", (long long)n, (long long)offset,
                   (long long)j->about.st_size))
        return kv_assert_report(e);
    if (n > 0 && (j->end == 0 || offset < j->begin))
        j->begin = offset;
    if (n > 0 && offset + n > j->end)
        j->end = offset + n;
    for (int64_t at = 0, bytes; at < n && !code; at += bytes) {
        bytes = n - at < JOURNAL_RECORD ? n - at : JOURNAL_RECORD;
        journal_record r = {offset + at, bytes, before + at, after + at};
        code = journal_add(&j->journal, &r, e);
    }
    return code;
}

/* Keeps readers and sessions out of the file, and checks that it is what it was when it was
 * opened. */
static int take_file(in_place *j, kv_err *e)
{
    const names *n = &j->names;
    struct stat now;
    patience p = {0};
    int code = KV_OK;
    for (bool over = false;
         !code && (lock_whole(j->file) == LOCK_HELD || lock_file(j->file, F_WRLCK) == LOCK_HELD);) {
        code = wait_a_little(&p, &over, e);
        if (!code && over)
            return in_use(n, e);
    }
    if (code)
        return code;
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

/* Step 2: the journal gets its name. */
static int put_journal(in_place *j, kv_err *e)
{
    const names *n = &j->names;
    if (!j->unsynced && fsync(j->temp) != 0)
        return file_error(e, "write", n->temp, errno);
    if (rename(n->temp, n->journal) != 0)
        return file_error(e, "write", n->journal, errno);
    j->has_temp = false;
    int code = j->unsynced ? KV_OK : sync_folder(n, e);
    if (code) { /* nothing has changed, so neither shall it later */
        unlink(n->journal);
        (void)sync_folder(n, NULL);
    }
    return code;
}

/* Steps 2 to 6, with a journal that is complete. */
static int change(in_place *j, kv_err *e)
{
    const names *n = &j->names;
    in_place_target t = {j->file, n->given, j->about.st_size, j->unsynced};
    journal_reader r;
    journal_fate fate;
    bool whole;
    int code = journal_open(&r, j->temp, n->journal, &whole, e);
    if (!code && !whole)
        code = file_bad(e, KV_E_IO, n->temp, "the journal changed while it was written");
    if (!code && !(code = stop_check(e)) && !(code = put_journal(j, e)) &&
        !(code = do_again(n, &t, &r, e)))
        code = drop_journal(n, j->file, &fate, e);
    journal_close(&r);
    return code;
}

int in_place_commit(in_place *j, kv_err *e)
{
    int code = journal_end(&j->journal, e);
    if (!code && j->journal.about.records > 0 && !(code = take_file(j, e)) &&
        !(code = reserve(j, e)))
        code = change(j, e);
    in_place_abandon(j);
    return code;
}
