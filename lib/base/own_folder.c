/* A folder is opened without following a link, and then looked at through its handle, so that
 * nobody can put another one in its place in between. */
#include "base/own_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

/* Errors are left to the open, which meets them again. */
static void make(const char *path)
{
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
}

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
    make(path);
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
