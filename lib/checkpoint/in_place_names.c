/* Names, locks and messages of changes in place. */
#include "checkpoint/in_place_names.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/xxh64.h"
#include "checkpoint/in_place.h"
#include "checkpoint/in_place_journal.h"

#define TEMP_ENDING ".tmp"
#define NAME_MOST   255

/* ---- Names ----------------------------------------------------------------------------------- */

const char *in_place_base(const in_place_names *n, const char *path)
{
    return path + n->folder;
}

/* Beside a file whose name has no room for an ending stands a sum of the name. */
static void name_journal(in_place_names *n)
{
    const char *base = in_place_base(n, n->file);
    size_t bytes = strlen(base);
    memcpy(n->journal, n->file, (size_t)n->folder);
    if (bytes + 1 + strlen(JOURNAL_ENDING TEMP_ENDING) <= NAME_MOST)
        snprintf(n->journal + n->folder, bytes + 32, ".%s" JOURNAL_ENDING, base);
    else
        snprintf(n->journal + n->folder, 48, ".%016llx" JOURNAL_ENDING,
                 (unsigned long long)xxh64(base, bytes));
    snprintf(n->temp, sizeof n->temp, "%s" TEMP_ENDING, n->journal);
}

int in_place_names_of(in_place_names *n, const char *path, kv_err *e)
{
    char first;
    n->given = path;
    if (readlink(path, &first, 1) >= 0) {
        int rc = file_follow(path, n->file, e);
        if (rc)
            return rc;
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

int in_place_look(int fd, const char *path, bool *named, kv_err *e)
{
    struct stat open_file, about;
    bool seen = fstat(fd, &open_file) == 0 && lstat(path, &about) == 0;
    *named = seen && open_file.st_dev == about.st_dev && open_file.st_ino == about.st_ino;
    return seen || errno == ENOENT ? KV_OK : file_error(e, "read", path, errno);
}

bool in_place_is_named(int fd, const char *path)
{
    bool named;
    return in_place_look(fd, path, &named, NULL) == KV_OK && named;
}

bool in_place_exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

/* ---- Locks ----------------------------------------------------------------------------------- */

/* A lock by flock, which goes with the open file. */
lock_result in_place_lock_whole(int fd)
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
lock_result in_place_lock_file(int fd, short kind)
{
    struct flock all = {.l_type = kind, .l_whence = SEEK_SET};
    int rc;
    do {
        rc = fcntl(fd, F_OFD_SETLK, &all);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? LOCKED : errno == EAGAIN || errno == EACCES ? LOCK_HELD : NO_LOCKS;
}

/* Error: interrupted. *over: the time is up. */
int in_place_wait(in_place_patience *p, bool *over, kv_err *e)
{
    int64_t now = clock_ms();
    if (p->until == 0)
        *p = (in_place_patience){now + IN_PLACE_WAIT_MS, 1};
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

int in_place_changing(const in_place_names *n, kv_err *e)
{
    char who[32] = "another process";
    int pid = writer_of(n->journal);
    if (pid)
        snprintf(who, sizeof who, "process %d", pid);
    kv_err_set(e, KV_E_BUSY, "\"%s\" is being changed in place by %s; waited %d s for it", n->given,
               who, IN_PLACE_WAIT_MS / 1000);
    return kv_err_hint(e, "try again when that has ended"), KV_E_BUSY;
}

int in_place_in_use(const in_place_names *n, kv_err *e)
{
    kv_err_set(e, KV_E_BUSY,
               "cannot change \"%s\" in place: another process has it open; waited %d s for it",
               n->given, IN_PLACE_WAIT_MS / 1000);
    return kv_err_hint(e, "try again when that has ended"), KV_E_BUSY;
}

int in_place_damaged(const in_place_names *n, kv_err *e)
{
    file_bad(e, KV_E_FORMAT, n->given,
             "half changed, and the journal of the change, \"%s\", is damaged",
             in_place_base(n, n->journal));
    return in_place_hint_lost(n, e), KV_E_FORMAT;
}

void in_place_hint_lost(const in_place_names *n, kv_err *e)
{
    kv_err_hint(e, "the file is lost: put a whole one in its place and remove \"%s\"", n->journal);
}

void in_place_hint_kept(const in_place_names *n, kv_err *e)
{
    kv_err_hint(e,
                "\"%.60s\" is half changed, and no other program opens it: kvctl ls %.60s "
                "ends the change, which is kept in \"%.80s\"",
                n->given, n->given, n->journal);
}

int in_place_not_now(const in_place_names *n, kv_err *e)
{
    kv_err_set(e, KV_E_UNSUPPORTED,
               "cannot read \"%s\": a change of it was cut short, and a reader that writes no "
               "files leaves that to another",
               n->given);
    return kv_err_hint(e, "end the change, without --safe, with: kvctl ls %s", n->given),
           KV_E_UNSUPPORTED;
}

int in_place_cannot_end(const in_place_names *n, const char *doing, kv_err *e)
{
    kv_err_set(e, KV_E_IO,
               "cannot %s \"%s\": a change of it was cut short, and this user may not end it, "
               "which is to write the file as \"%s\" says",
               doing, n->given, in_place_base(n, n->journal));
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
