/* Folders that appear at once. */
#include "base/folder_out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"

/* ---- The old folder -------------------------------------------------------------------------- */

/* The path of the folder with links followed: an existing one, or the one that mkdir would make. */
static int resolve(folder_out *out, const char *path, bool *exists, struct stat *about, kv_err *e)
{
    char real[PATH_MAX], plain[PATH_MAX];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n == 0 || n >= sizeof plain)
        return file_error(e, "write", path, n ? ENAMETOOLONG : ENOENT);
    memcpy(plain, path, n);
    plain[n] = '\0';
    *exists = stat(plain, about) == 0;
    if (!*exists && errno != ENOENT)
        return file_error(e, "write", path, errno);
    if (*exists && !S_ISDIR(about->st_mode))
        return file_error(e, "write", path, ENOTDIR);
    if (*exists && !realpath(plain, real))
        return file_error(e, "write", path, errno);
    if (!*exists && file_follow(plain, real, e))
        return e->code;
    out->path = mem_text(real, strlen(real), e);
    return out->path ? KV_OK : KV_E_MEMORY;
}

/* Returns whether an entry of a folder is a folder. */
static bool is_folder(int folder, const char *name)
{
    struct stat about;
    return fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Counts the entries of the old folder, and refuses one that is a folder: whoever replaces a folder
 * means the files of a model, not a tree of other things. */
static int look_into(const folder_out *out, int64_t *n, kv_err *e)
{
    const struct dirent *entry;
    DIR *d = opendir(out->path);
    int rc = d ? KV_OK : file_error(e, "read", out->name, errno);
    *n = 0;
    while (!rc && (entry = readdir(d))) {
        *n += !is_dots(entry->d_name);
        if (!is_dots(entry->d_name) && is_folder(dirfd(d), entry->d_name)) {
            rc = kv_err_set(e, KV_E_USAGE,
                            "cannot replace \"%s\": it holds the folder \"%.200s\"", out->name,
                            entry->d_name);
            kv_err_hint(e, "only a folder of files is replaced; write another one");
        }
    }
    if (d)
        closedir(d);
    return rc;
}

static int check_old(const folder_out *out, bool replace, kv_err *e)
{
    int64_t n;
    if (look_into(out, &n, e))
        return e->code;
    if (!replace) {
        kv_err_set(e, KV_E_USAGE, "the folder \"%s\" exists", out->name);
        return kv_err_hint(e, "--force replaces it, with all that it holds: %lld file%s",
                           (long long)n, n == 1 ? "" : "s"),
               KV_E_USAGE;
    }
    /* A folder that its owner protected is not replaced behind the owner's back. */
    return access(out->path, W_OK | X_OK) == 0 ? KV_OK : file_error(e, "write", out->name, errno);
}

/* ---- The new folder -------------------------------------------------------------------------- */

/* .kv-PID-N and an ending, beside the folder: file_out_clean knows the names that end in .tmp.
 * Returns the length. */
static int name_beside(const folder_out *out, char *to, size_t size, int i, const char *ending)
{
    const char *slash = strrchr(out->path, '/');
    return snprintf(to, size, "%.*s.kv-%ld-%d.%s", slash ? (int)(slash - out->path) + 1 : 0,
                    out->path, (long)getpid(), i, ending);
}

/* Makes the folder and opens it. Only mkdir tells what a new folder's mode is. */
static int make_temp(folder_out *out, kv_err *e)
{
    size_t size = strlen(out->path) + 64;
    struct stat about;
    char *temp = mem_alloc((int64_t)size, 1, e);
    if (!temp)
        return KV_E_MEMORY;
    int made = -1;
    for (int i = 0; i < 10000 && made != 0; i++) {
        name_beside(out, temp, size, i, "tmp");
        made = mkdir(temp, 0777);
        if (made != 0 && errno != EEXIST)
            break;
    }
    if (made != 0) {
        int rc = file_error(e, "write", out->name, errno);
        mem_free(temp);
        return rc;
    }
    out->temp = temp;
    if (stat(temp, &about) != 0 || chmod(temp, 0700) != 0)
        return file_error(e, "write", out->name, errno);
    out->mode = about.st_mode & 07777;
    out->fd = open(temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out->fd < 0)
        return file_error(e, "write", out->name, errno);
    /* The lock keeps file_out_clean away until the folder has its name. Some disks
     * have no locks. */
    (void)flock(out->fd, LOCK_EX | LOCK_NB);
    return KV_OK;
}

int folder_out_open(folder_out *out, const char *path, bool replace, kv_err *e)
{
    struct stat old;
    bool exists = false;
    *out = (folder_out){.fd = -1};
    out->name = mem_text(path, strlen(path), e);
    int rc = out->name ? resolve(out, path, &exists, &old, e) : KV_E_MEMORY;
    if (!rc && exists)
        rc = check_old(out, replace, e);
    out->replaces = exists;
    if (!rc)
        rc = make_temp(out, e);
    if (!rc && exists) {
        out->mode = old.st_mode & 07777;
        rc = file_take_owner(out->fd, &old, "folder", out->name, e);
    }
    if (rc)
        folder_out_abandon(out);
    return rc;
}

/* ---- Reporting folders that could not be removed --------------------------------------------- */

static struct {
    void (*tell)(void *arg, const char *path, int why);
    void *arg;
} listener;

void folder_out_tell(void (*tell)(void *arg, const char *path, int why), void *arg)
{
    listener.tell = tell;
    listener.arg = arg;
}

static void tell_left(const char *path)
{
    if (listener.tell)
        listener.tell(listener.arg, path, errno);
}

/* ---- Into its place -------------------------------------------------------------------------- */

/* Exchanges two folders where the file system cannot: for a moment there is none at the path. */
static int exchange_slowly(folder_out *out)
{
    char old[PATH_MAX + 64];
    for (int i = 0; i < 10000; i++) {
        if (name_beside(out, old, sizeof old, i, "old") >= (int)sizeof old)
            return -1;
        if (renameat2(AT_FDCWD, out->path, AT_FDCWD, old, RENAME_NOREPLACE) == 0)
            break;
        if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
            return -1;
        if (errno != EEXIST && rename(out->path, old) != 0)
            return -1;
        if (errno != EEXIST)
            break;
    }
    if (rename(out->temp, out->path) == 0) {
        if (rename(old, out->temp) != 0) /* the new one has its place all the same */
            tell_left(old);
        return 0;
    }
    int why = errno;
    (void)rename(old, out->path);
    errno = why;
    return -1;
}

/* Renames the new folder; what it replaces then stands at temp. */
static int rename_folder(folder_out *out)
{
    unsigned how = out->replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, out->temp, AT_FDCWD, out->path, how) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return out->replaces ? exchange_slowly(out) : rename(out->temp, out->path);
}

static void release(folder_out *out)
{
    if (out->fd >= 0)
        close(out->fd);
    mem_free(out->temp);
    mem_free(out->path);
    mem_free(out->name);
    *out = (folder_out){.fd = -1};
}

int folder_out_commit(folder_out *out, kv_err *e)
{
    kv_assert(out->name, "a folder is committed that was not opened, or ended already");
    int rc = KV_OK;
    if (fchmod(out->fd, out->mode) != 0 || (!out->unsynced && file_sync(out->fd) != 0) ||
        rename_folder(out) != 0)
        rc = file_error(e, "write", out->name, errno);
    if (!rc && !out->unsynced)
        (void)file_sync_folder(out->path, NULL);
    /* temp is what was replaced, or what could not be placed */
    if ((rc || out->replaces) && !file_remove_folder(out->temp))
        tell_left(out->temp);
    release(out);
    return rc;
}

void folder_out_abandon(folder_out *out)
{
    if (out->temp && !file_remove_folder(out->temp))
        tell_left(out->temp);
    release(out);
}

/* ---- Private folders --------------------------------------------------------------------------
 *
 * The folder is opened without following a link and checked through its handle, so that nobody can
 * replace it between the check and its use. */

static int check(int fd, const char *path, kv_err *e)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return file_error(e, "read", path, errno);
    if (about.st_uid != geteuid())
        return kv_err_set(e, KV_E_IO, "\"%s\" belongs to another user", path);
    if (about.st_mode & (S_IWGRP | S_IWOTH))
        return kv_err_set(e, KV_E_IO, "other users may write into \"%s\"", path);
    return KV_OK;
}

int own_folder_open(int *fd, const char *path, kv_err *e)
{
    struct stat about;
    /* mkdir's errors are ignored: the open that follows reports them. */
    buf part = {0};
    for (const char *end = path; *end && !part.failed; end++) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        buf_clear(&part);
        buf_put(&part, path, (size_t)(end - path));
        if (!part.failed)
            mkdir(buf_text(&part), 0700);
        if (!*end)
            break;
    }
    buf_release(&part);
    int opened = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (opened < 0 && lstat(path, &about) == 0 && S_ISLNK(about.st_mode))
        return kv_err_set(e, KV_E_IO, "\"%s\" is a link", path);
    if (opened < 0)
        return file_error(e, "open", path, errno);
    int rc = check(opened, path, e);
    if (rc)
        close(opened);
    else
        *fd = opened;
    return rc;
}
