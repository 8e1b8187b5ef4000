/* The place of the history file. What stands in it is line.c's, which Readline writes. */
#include "term/histfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

void histfile_path(buf *path, const char *option)
{
    const char *said = option ? option : getenv("KVCTL_HISTORY");
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    buf_clear(path);
    if (said && *said)
        buf_add(path, strcmp(said, "off") == 0 ? "" : said);
    else if (state && *state == '/')
        buf_printf(path, "%s/kvctl/history", state);
    else if (home && *home)
        buf_printf(path, "%s/.local/state/kvctl/history", home);
}

/* Makes every folder above the file; that one is there already is no error. */
static int make_folders(const char *path, kv_err *e)
{
    buf part = {0};
    int rc = KV_OK;
    for (const char *slash = strchr(path + 1, '/'); slash && !rc; slash = strchr(slash + 1, '/')) {
        buf_clear(&part);
        buf_put(&part, path, (size_t)(slash - path));
        if (!(rc = buf_check(&part, e)) && mkdir(part.data, 0700) && errno != EEXIST)
            rc = file_error(e, "make", part.data, errno);
    }
    buf_release(&part);
    return rc;
}

int histfile_prepare(const char *path, kv_err *e)
{
    int rc = make_folders(path, e);
    if (rc)
        return rc;
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0)
        return file_error(e, "write", path, errno);
    close(file);
    return KV_OK;
}
