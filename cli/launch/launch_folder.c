/* Its files are small, and each is written whole or a line at a time. */
#include "launch/launch_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* ---- The folder ---- */

void folder_path(const char *folder, char path[FOLDER_PATH], const char *name)
{
    snprintf(path, FOLDER_PATH, "%s/%s", folder, name);
}

int folder_new(char folder[4096], const char *parent, kv_err *e)
{
    const char *temp = getenv("TMPDIR");
    char wanted[4096];
    if (!parent)
        parent = temp && *temp ? temp : "/tmp";
    snprintf(wanted, sizeof wanted, "%s%skvctl-XXXXXX", parent, *parent ? "/" : "");
    memcpy(folder, wanted, sizeof wanted);
    return mkdtemp(folder) ? KV_OK : file_error(e, "make", wanted, errno);
}

static bool make(const char *folder)
{
    struct stat s;
    if (mkdir(folder, 0700) && errno != EEXIST)
        return false;
    if (lstat(folder, &s))
        return false;
    errno = EPERM; /* another user made it */
    return S_ISDIR(s.st_mode) && s.st_uid == geteuid();
}

int folder_hold(const char *folder, const char *name)
{
    char path[FOLDER_PATH];
    struct stat mine, there;
    folder_path(folder, path, name);
    while (make(folder)) {
        int rc, fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != ENOENT)
            return -1;
        if (fd < 0)
            continue; /* it was removed just now */
        do
            rc = flock(fd, LOCK_SH);
        while (rc && errno == EINTR);
        /* Without locks in this file system nobody takes it away either. */
        if (!fstat(fd, &mine) && !lstat(path, &there) && mine.st_ino == there.st_ino)
            return fd;
        close(fd);
    }
    return -1;
}

int folder_hold_existing(const char *folder)
{
    char path[FOLDER_PATH];
    folder_path(folder, path, "held");
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0)
        return fd;
    close(fd); /* it is being removed */
    return -1;
}

/* Returns whether nobody holds the lock of this name; *fd is it then, or -1 where there is none. */
static bool lock_alone(int dir, const char *name, int how, int *fd)
{
    int rc;
    *fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT;
    do
        rc = flock(*fd, how);
    while (rc && errno == EINTR);
    return rc == 0;
}

/* A folder of another user may be a link to anywhere, one of this user cannot become that.
 * last: a folder that has lost its locks is one that another process began to remove; and watchers
 * that still hold it are waited for. */
void folder_remove_free(const char *folder, bool last)
{
    struct stat s;
    own_fd dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    own_fd launch = -1, held = -1;
    if (dir >= 0 && fstat(dir, &s) == 0 && s.st_uid == geteuid() &&
        lock_alone(dir, "launch", LOCK_EX | LOCK_NB, &launch) &&
        lock_alone(dir, "held", last ? LOCK_EX : LOCK_EX | LOCK_NB, &held) &&
        (last || launch >= 0 || held >= 0))
        folder_remove(folder);
}

void folder_sweep(const char *folder)
{
    static const char start[] = "kvctl-";
    const char *name = strrchr(folder, '/') + 1;
    char parent[4096], beside[FOLDER_PATH];
    const struct dirent *one;
    snprintf(parent, sizeof parent, "%.*s", (int)(name - folder), folder);
    own_dir *dir = opendir(parent);
    while (dir && (one = readdir(dir))) {
        if (strlen(one->d_name) != strlen(name) || strncmp(one->d_name, start, strlen(start)) != 0)
            continue;
        folder_path(parent, beside, one->d_name);
        folder_remove_free(beside, false);
    }
}

bool folder_add(const char *folder, const char *name, int number, const char *why)
{
    char path[FOLDER_PATH], line[512];
    folder_path(folder, path, name);
    snprintf(line, sizeof line, "%d %.480s\n", number, why);
    own_fd fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && write(fd, line, strlen(line)) >= 0;
}

bool folder_next(const char *folder, const char *name, long *at, int *number, char *why,
                 size_t size)
{
    char path[FOLDER_PATH], line[1024];
    int used = 0;
    folder_path(folder, path, name);
    own_stream *f = fopen(path, "re");
    bool whole = f && !fseek(f, *at, SEEK_SET) && fgets(line, sizeof line, f) &&
                 strchr(line, '\n') && sscanf(line, "%d %n", number, &used) == 1;
    if (whole) {
        *at += (long)strlen(line);
        line[strcspn(line, "\n")] = '\0';
        snprintf(why, size, "%s", line + used);
    }
    return whole;
}

bool folder_lost(const char *folder, int *number, char *why, size_t size)
{
    long at = 0;
    return folder_next(folder, "lost", &at, number, why, size);
}

void folder_remove(const char *folder)
{
    char path[FOLDER_PATH];
    const struct dirent *one;
    own_dir *dir = opendir(folder);
    bool all = true;
    while (dir && (one = readdir(dir))) {
        folder_path(folder, path, one->d_name);
        if (one->d_name[0] != '.' && strcmp(one->d_name, "held") != 0)
            all &= unlink(path) == 0 || errno == ENOENT;
    }
    folder_path(folder, path, "held"); /* last: by it a later job knows that the rest may go */
    if (all)
        unlink(path);
    rmdir(folder);
}

/* ---- Cells through mpirun ---- */

/* Cells are looked for by their mark, because mpirun writes between them. */

static_assert(sizeof(wire_cell) == 512, "8 cells make a piece of mpirun");

static void replace(wire_cell *cell, char what, char by)
{
    char *at = (char *)cell + sizeof cell->mark, *end = &cell->newline;
    while (at < end && (at = memchr(at, what, (size_t)(end - at))))
        *at++ = by;
}

/* Finds a byte that the cell does not have, and writes it for newlines. Returns false if the cell
 * has all bytes. */
static bool make_line(wire_cell *cell)
{
    const char *from = (const char *)cell + sizeof cell->mark;
    const size_t n = sizeof *cell - sizeof cell->mark - 2;
    cell->end = '\n';
    cell->newline = 0;
    if (!memchr(from, '\n', n))
        return true;
    for (int c = 1; c < 256 && !cell->newline; c++)
        cell->newline = (char)(memchr(from, c, n) ? 0 : c);
    replace(cell, '\n', cell->newline);
    return cell->newline;
}

/* Makes a cell of the first bytes of a text, of few if it would have all bytes otherwise. Returns
 * how many they are; the cell has other bytes for newlines then, also in its numbers. */
static size_t make_cell(wire_cell *cell, int rank, wire_kind kind, const char *text, size_t n)
{
    enum { FEW = 128 };
    for (size_t most = WIRE_TEXT;; most = FEW) {
        size_t part = n < most ? n : most;
        *cell = (wire_cell){.mark = WIRE_MARK, .rank = rank, .kind = (int16_t)kind,
                            .n = (int16_t)part};
        memcpy(cell->text, text, part);
        if (make_line(cell))
            return part;
    }
}

void wire_tell(int rank, wire_kind kind, const char *text, size_t n)
{
    do {
        wire_cell cell;
        size_t part = make_cell(&cell, rank, kind, text, n);
        if (write(STDERR_FILENO, &cell, sizeof cell) < 0)
            return;
        text += part;
        n -= part;
    } while (n > 0);
}

static void drop(buf *bytes, size_t n)
{
    memmove(bytes->data, bytes->data + n, bytes->len - n + 1);
    bytes->len -= n;
}

/* The number of bytes before the first mark, or before the beginning of one at the end. */
static size_t before_mark(const buf *bytes, bool all)
{
    const size_t size = sizeof WIRE_MARK - 1;
    for (size_t i = 0; i < bytes->len; i++) {
        size_t rest = bytes->len - i;
        if (memcmp(bytes->data + i, WIRE_MARK, rest < size ? rest : size) == 0 &&
            (rest >= size || !all))
            return i;
    }
    return bytes->len;
}

bool wire_take(buf *bytes, wire_cell *out, buf *log, bool all)
{
    size_t n = before_mark(bytes, all);
    if (n > 0) {
        buf_put(log, bytes->data, n);
        drop(bytes, n);
    }
    if (bytes->len < sizeof *out)
        return false;
    memcpy(out, bytes->data, sizeof *out);
    drop(bytes, sizeof *out);
    if (out->newline)
        replace(out, out->newline, '\n');
    return out->n >= 0 && out->n <= WIRE_TEXT;
}
