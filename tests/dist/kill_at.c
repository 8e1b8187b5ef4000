/* Loaded in front of kvctl: kills a rank while a file is being written, at the point that
 * KILL_AT names:
 *
 *     write     what is left of the file's content is about to be written
 *     sync      all was written, nothing was synced
 *     rename    synced, not renamed
 *     renamed   renamed, and the folder not synced
 *
 * KILL_RANK says who is killed, found in the launcher's list of processes. It happens once, for the
 * first file after the file `armed` is there, and leaves the file `killed` in the working folder.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fflush(FILE *f);
int fsync(int fd);
int rename(const char *from, const char *to);

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* The process of a rank, as the launcher's list of events has it. */
static int process_of(int rank)
{
    char path[4200], line[256];
    int found = -1, pid = -1;
    snprintf(path, sizeof path, "%s/events", getenv("KVSTORE_RUN_DIR"));
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%d start %d", &found, &pid) == 2 && found == rank)
            break;
    if (f)
        fclose(f);
    return found == rank ? pid : -1;
}

static bool is_wanted(const char *point, const char *path)
{
    const char *at = getenv("KILL_AT");
    /* what a file is called until it is whole */
    return at && strcmp(at, point) == 0 && strstr(path, ".kv-") && access("armed", F_OK) == 0;
}

static void reach(const char *point, const char *path)
{
    int fd;
    if (!is_wanted(point, path) || (fd = open("killed", O_CREAT | O_EXCL | O_WRONLY, 0600)) < 0)
        return;
    close(fd);
    kill(process_of(atoi(getenv("KILL_RANK"))), SIGKILL);
}

static void reach_open(const char *point, int fd)
{
    char link[64], path[4200];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = 0;
        reach(point, path);
    }
}

int fflush(FILE *f)
{
    if (f)
        reach_open("write", fileno(f));
    return ((int (*)(FILE *))next("fflush"))(f);
}

int fsync(int fd)
{
    reach_open("sync", fd);
    return ((int (*)(int))next("fsync"))(fd);
}

int rename(const char *from, const char *to)
{
    bool renamed = is_wanted("renamed", from); /* `armed` may be made when the file is seen */
    reach("rename", from);
    int rc = ((int (*)(const char *, const char *))next("rename"))(from, to);
    if (renamed)
        reach("renamed", from);
    return rc;
}
