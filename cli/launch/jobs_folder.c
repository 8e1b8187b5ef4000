/* Sockets are reached through /proc/self/fd/FOLDER/NAME: so no path is too long for one, and nobody
 * can put another folder in the place of the one that was checked. */
#include "launch/jobs_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"

enum { WAITING = 16 /* connections that are not accepted yet */, SECONDS = 10 };

bool jobs_is_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > JOBS_NAME || *name == '.')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("-_.", *name))
            return false;
    return true;
}

static void folder_name(char path[4096])
{
    const char *own = getenv("KVCTL_JOBS");
    if (own && *own)
        snprintf(path, 4096, "%s", own);
    else
        snprintf(path, 4096, "/tmp/kvctl.%u", (unsigned)geteuid());
}

int jobs_folder_open(bool makes, int *dir, kv_err *e)
{
    char path[4096];
    struct stat s;
    folder_name(path);
    *dir = -1;
    if (makes && mkdir(path, 0700) && errno != EEXIST)
        return file_error(e, "make", path, errno);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !makes)
        return KV_OK;
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return kv_err_set(e, KV_E_IO, "\"%s\" is no folder but a link or a file", path);
    if (fd < 0 || fstat(fd, &s)) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return file_error(e, "open", path, why);
    }
    if (s.st_uid != geteuid())
        kv_err_set(e, KV_E_IO, "\"%s\" belongs to another user", path);
    else if (s.st_mode & 077)
        kv_err_set(e, KV_E_IO, "\"%s\" is open to other users: its mode is %03o, not 700", path,
                   (unsigned)s.st_mode & 0777);
    if (e->code) {
        close(fd);
        return kv_err_hint(e, "$KVCTL_JOBS names another folder"), KV_E_IO;
    }
    *dir = fd;
    return KV_OK;
}

static struct sockaddr_un address_of(int dir, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%.64s", dir, name);
    return a;
}

static bool is_own_peer(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

/* A peer that does not accept, or does not read, is given up. */
static void limit_waits(int fd, int seconds)
{
    const struct timeval t = {seconds, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

int jobs_connect(int dir, const char *name, int seconds)
{
    struct stat s;
    struct sockaddr_un a = address_of(dir, name);
    if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW))
        return -1;
    if (!S_ISSOCK(s.st_mode) || s.st_uid != geteuid()) {
        errno = EPERM;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (seconds ? 0 : SOCK_NONBLOCK), 0);
    if (fd < 0)
        return -1;
    limit_waits(fd, seconds);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 && is_own_peer(fd)) {
        fcntl(fd, F_SETFL, 0);
        limit_waits(fd, SECONDS);
        return fd;
    }
    int why = errno ? errno : EPERM;
    close(fd);
    errno = why;
    return -1;
}

/* Returns true if a socket is left of a job that is gone; the folder's lock is held. */
static bool is_dead(int dir, const char *name)
{
    int fd = jobs_connect(dir, name, 0);
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno == ECONNREFUSED;
}

static int make_socket(int dir, const char *name, int *out, kv_err *e)
{
    struct sockaddr_un a = address_of(dir, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Linux gives the file the mode of the socket; the folder keeps others out anyway. */
    if (fd >= 0 && fchmod(fd, 0600) == 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        listen(fd, WAITING) == 0) {
        *out = fd;
        return KV_OK;
    }
    file_error(e, "make", name, errno);
    if (fd >= 0)
        close(fd);
    return e->code;
}

int jobs_listen(int dir, const char *name, int *fd, kv_err *e)
{
    struct stat s;
    int rc = KV_OK;
    flock(dir, LOCK_EX);
    bool there = fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISSOCK(s.st_mode))
        rc = kv_err_set(e, KV_E_IO, "\"%s\" in the folder of jobs is not a socket", name);
    else if (there && !is_dead(dir, name))
        rc = kv_err_set(e, KV_E_BUSY, "a job called %s runs already", name);
    else if (there && unlinkat(dir, name, 0))
        rc = file_error(e, "remove", name, errno);
    if (!rc)
        rc = make_socket(dir, name, fd, e);
    flock(dir, LOCK_UN);
    return rc;
}

int jobs_accept(int fd)
{
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    if (peer < 0)
        return -1;
    if (!is_own_peer(peer)) {
        close(peer);
        return -1;
    }
    limit_waits(peer, SECONDS);
    return peer;
}

void jobs_tidy(int dir)
{
    int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    if (!d)
        return;
    flock(dir, LOCK_EX);
    for (const struct dirent *x; (x = readdir(d));)
        if (jobs_is_name(x->d_name) && is_dead(dir, x->d_name))
            unlinkat(dir, x->d_name, 0);
    flock(dir, LOCK_UN);
    closedir(d);
}

void jobs_unlisten(int dir, int fd, const char *name)
{
    flock(dir, LOCK_EX);
    close(fd);
    if (is_dead(dir, name))
        unlinkat(dir, name, 0);
    flock(dir, LOCK_UN);
    close(dir);
}
